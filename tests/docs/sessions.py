"""Console sessions of a page: run every command, and write what it prints into the page.

A page is one session in an empty folder. In the order of the page:

- a `console` block holds commands after `$ `, each followed by what it prints;
- a block with a title, such as ```` ```yaml title="platform.yaml" ````, writes that file;
- a `diff` block with a title changes that file, and fails if it does not apply;
- a comment `<!-- run: COMMAND -->` runs a command that readers do not see.

tests/cluster/test_imported_classes.py runs the pages with the comment `<!-- needs: npm -->`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import NEW_YEAR

NEEDS_NPM = "<!-- needs: npm -->"
_STEP = re.compile(
    r'<!-- run: (?P<hidden>.*?) -->|^(?P<indent> *)```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n'
    r"(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


def is_session(text: str) -> bool:
    """Return True if a page has console blocks whose commands need no npm."""
    return "```console" in text and NEEDS_NPM not in text


class Session:
    """A shell in an empty folder, in which the commands of a page run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        binaries = Path(sys.executable).parent
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(folder / ".site"),  # a page can write an installed package there
            "SOURCE_DATE_EPOCH": NEW_YEAR,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_AUTHOR_NAME": "Ada",
            "GIT_AUTHOR_EMAIL": "ada@example.com",
            "GIT_COMMITTER_NAME": "Ada",
            "GIT_COMMITTER_EMAIL": "ada@example.com",
        }

    def replay(self, page: str) -> str:
        """Return the page with the current output of its commands."""
        return _STEP.sub(self._step, page)

    def _step(self, step: re.Match[str]) -> str:
        if step["hidden"]:
            self._run(step["hidden"])
            return step[0]
        text = re.sub(rf"^{step['indent']}", "", step["text"], flags=re.MULTILINE)
        if step["language"] == "console":
            return step[0].replace(step["text"], _indent(self._console(text), step["indent"]))
        if step["title"] and step["language"] == "diff":
            self._patch(self.folder / step["title"], text)
        elif step["title"]:
            (self.folder / step["title"]).write_text(text, "utf-8")
        return step[0]

    def _console(self, text: str) -> str:
        commands = [line for line in text.splitlines() if line.startswith("$ ")]
        if not commands:
            raise ValueError(f"a console block without a command: {text}")
        return "".join(f"{line}\n{self._run(line[2:])}" for line in commands)

    def _run(self, command: str) -> str:
        ran = subprocess.run(
            ["bash", "-c", f"exec 2>&1\n{command}"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return "\n".join(line.rstrip() for line in ran.stdout.splitlines()) + "\n" if ran.stdout else ""

    def _patch(self, file: Path, diff: str) -> None:
        lines = diff.splitlines()
        before = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("+"))
        after = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("-"))
        text = file.read_text("utf-8")
        if text.count(before) != 1:
            raise ValueError(f"{file.name} has this text {text.count(before)} times, not once:\n{before}")
        file.write_text(text.replace(before, after), "utf-8")


def _indent(text: str, indent: str) -> str:
    return "".join(f"{indent}{line}".rstrip(" ") + "\n" for line in text.splitlines())
