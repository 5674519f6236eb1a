"""Write the generated pages and the recorded console sessions of the docs anew: `python -m tests.docs`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.docs.api_page import BEGINNING
from tests.docs.generated import generated
from tests.docs.pages import pages
from tests.docs.sessions import Session, is_session


def main() -> None:
    """Record the sessions first, because generated pages repeat the README and the beginning of the API page."""
    written = generated()
    for page in [BEGINNING, *pages()]:
        if page not in written and is_session(page.read_text("utf-8")):
            with tempfile.TemporaryDirectory() as folder:
                before = page.read_text("utf-8")
                after = Session(Path(folder)).replay(before)
            if after != before:
                page.write_text(after, "utf-8")
    for page, text in generated().items():
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
