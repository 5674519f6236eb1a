"""Test that the site builds without a warning, that its links resolve, and that it loads nothing remote."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.pages import DOCS, name, pages
from tests.ten_changes import PATCHES, changed_files

_LOADED = re.compile(
    r'<(?:script|img|iframe|source)[^>]*\ssrc="?([^" >]+)|<link[^>]*rel="?stylesheet[^>]*href="?([^" >]+)'
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site."""
    folder = tmp_path_factory.mktemp("site")
    ran = subprocess.run(
        [Path(sys.executable).with_name("mkdocs"), "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")
    return folder


def test_the_site_builds_with_valid_links(site: Path) -> None:
    assert len(list(site.rglob("index.html"))) == len(list(DOCS.rglob("*.md")))


def test_the_site_loads_nothing_from_other_hosts(site: Path) -> None:
    loaded = {
        address
        for page in site.rglob("*.html")
        for match in _LOADED.findall(page.read_text("utf-8"))
        for address in match
        if address
    }
    assert loaded
    assert [address for address in loaded if "//" in address] == []


@pytest.mark.parametrize("page", pages(), ids=name)
def test_files_on_pages_exist(page: Path) -> None:
    named = re.findall(r"`((?:generator|tests|docs|examples|schemas)/[\w./-]+)`", page.read_text("utf-8"))
    added = " ".join(path for patch in PATCHES.values() for path, is_new in changed_files(patch).items() if is_new)
    assert [path for path in named if not (ROOT / path.rstrip("/")).exists() and path not in added] == []


@pytest.mark.parametrize("page", pages(), ids=name)
def test_modules_on_pages_exist(page: Path) -> None:
    named = re.findall(r"python -m (tests[\w.]*)", page.read_text("utf-8"))
    assert [module for module in named if importlib.util.find_spec(module) is None] == []
