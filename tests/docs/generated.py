"""Generate pages of the docs: `python -m tests.docs` writes them, a test compares them with their sources."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import ROOT
from tests.docs.admission_page import admission_page
from tests.docs.api_page import api_page
from tests.docs.cause_pages import cause_pages
from tests.docs.check_pages import check_pages
from tests.docs.command_page import command_page
from tests.docs.defect_page import defect_page
from tests.docs.pages import DOCS
from tests.docs.phase_page import phase_page
from tests.docs.platform_pages import FOLDER, platform_pages
from tests.docs.threat_page import threat_page


def generated() -> dict[Path, str]:
    """Return file → text of every generated page."""
    return {
        DOCS / "explanations" / "threat-model.md": threat_page(),
        DOCS / "index.md": home_page((ROOT / "README.md").read_text("utf-8")),
        DOCS / "reference" / "admission-rules.md": admission_page(),
        DOCS / "reference" / "api.md": api_page(),
        DOCS / "reference" / "commands.md": command_page(),
        DOCS / "reference" / "phases.md": phase_page(),
        DOCS / "reference" / "upstream-defects.md": defect_page(),
        **{DOCS / name: text for name, text in cause_pages().items()},
        **{DOCS / name: text for name, text in check_pages().items()},
        **{FOLDER / name: text for name, text in platform_pages().items()},
    }


def home_page(readme: str) -> str:
    """Return the README without its part about the repository, with links as the site has them."""
    return re.sub(r"\]\(docs/", "](", readme.partition("\n## The repository\n")[0].rstrip() + "\n")
