"""Test that every number in the prose of hand-written pages is computed or has a source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from generator.config.load import load_platform
from generator.facts.nodes import SOUND_SHARE
from generator.facts.table import read_table
from generator.policies.access import PLATFORM_ROLES, ROLES
from generator.runtimes.hosts import SHARE_OF_NODE
from tests.conftest import ROOT
from tests.docs.generated import generated
from tests.docs.pages import DOCS, name, pages, prose
from tests.quota_trees import LARGEST
from tests.ten_changes import PATCHES
from tests.update_quota_trees import COUNT

NUMBERS: Mapping[str, Mapping[str, Mapping[str, str]]] = yaml.safe_load(
    Path(__file__).with_name("numbers.yaml").read_text("utf-8")
)
_SMALLEST, _RAILS = (load_platform(ROOT / f"examples/{each}/platform.yaml") for each in ("cpu-kubernetes", "roce-h200"))
_NICS = _RAILS.fabrics[0].nics
COMPUTED: Mapping[str, float] = {
    "changes of the contributors' guide": len(PATCHES),
    "examples": len({file.parent for file in ROOT.glob("examples/*/*platform.[py][ya]*")}),
    "families": len(read_table("families")["families"]),
    "largest job of the queue trees": LARGEST,
    "NICs of the example roce-h200": len(_NICS.ports) if _NICS else 0,
    "nodes of the example cpu-kubernetes": _SMALLEST.pools[0].nodes,
    "personas of a team": len(ROLES),
    "personas of teams, of the platform, and Argo CD": len(ROLES) + len(PLATFORM_ROLES) + 1,
    "queue trees": COUNT,
    "share of a node, in tenths": float(SHARE_OF_NODE * 10),
    "sound share of the speed, in fifths": SOUND_SHARE * 5,
}
"""Name in numbers.yaml → number."""
_WORDS = {
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
    "fifty": 50,
}
_COUNTED = (
    "minutes?|seconds?|hours?|days?|nodes?|hosts?|workers?|characters|bytes|[KMGT]iB|[MGT]B|objects|fields|checks"
    "|files|families|personas|examples|releases|teams|roles|rules|variables|requests|trees|ways|slices|subnets|NICs"
    "|inputs|ranks|mistakes|networks|words|lines|columns|parts|changes|tenths|fifths|times|versions|GPUs|devices"
    "|queues|policies|commands"
)
_NUMBER = re.compile(rf"(?<![-.\w])((?:\d[\d,]*|{'|'.join(_WORDS)}) (?:\w+ )?(?:{_COUNTED}))\b", re.IGNORECASE)
_NOT_WRITTEN = {DOCS / "contributing" / "review-scores.md", *generated()}
PAGES = [*(page for page in pages() if page not in _NOT_WRITTEN), ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
ROWS = [(page, phrase, row["is"]) for page, rows in NUMBERS.items() for phrase, row in rows.items() if "is" in row]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_numbers_of_a_page_are_listed(page: Path) -> None:
    found = {match[1] for match in _NUMBER.finditer(" ".join(prose(page).split()))}
    assert found == NUMBERS.get(name(page), {}).keys()


@pytest.mark.parametrize(("page", "phrase", "counted"), ROWS, ids=lambda value: value.replace("/", "-"))
def test_a_number_equals_the_computed_one(page: str, phrase: str, counted: str) -> None:
    number = phrase.split(maxsplit=1)[0].replace(",", "").lower()
    assert COMPUTED[counted] == (_WORDS.get(number) or int(number)), page


def test_every_computed_number_is_on_a_page() -> None:
    assert {counted for _, _, counted in ROWS} == COMPUTED.keys()
