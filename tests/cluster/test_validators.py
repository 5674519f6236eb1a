"""Test that the cases of tests/cluster/differential raise each error of the API server's validators of Jobs and Pods.

The program `validators` of the set `default` runs the validators of Kubernetes with coverage, without a server.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.build import build
from tests.cluster.differential.cases import FOLDER, Case, read_cases, read_seeds
from tests.cluster.differential.judges import Mpigen
from tests.cluster.differential.validators import KINDS, Block, ask, read_blocks
from tests.cluster.differential.verdicts import Verdict, of_mpigen, of_server, read_answers, read_causes, reviewed
from tests.cluster.modules import module_folder
from tests.cluster.versions import versions

pytestmark = pytest.mark.cluster
SEEDS = read_seeds()
CASES = {name: case for name, case in read_cases().items() if SEEDS[case.seed]["kind"] in KINDS}
UNREACHED: list[dict[str, dict[str, list[str]]]] = yaml.safe_load((FOLDER / "unreached.yaml").read_text())
PROGRAM = versions("default")["validators"]


@pytest.fixture(scope="module")
def coverage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the coverage."""
    return tmp_path_factory.mktemp("coverage")


@pytest.fixture(scope="module")
def rejections(coverage: Path) -> dict[str, str]:
    """Return the first rejection of each case; empty for accepted objects."""
    return ask(build(PROGRAM), CASES, SEEDS, coverage)


@pytest.fixture(scope="module")
def blocks(coverage: Path, rejections: dict[str, str]) -> list[Block]:
    """Return the errors of the validators."""
    assert any(rejections.values())
    return read_blocks(coverage, PROGRAM.module, module_folder(PROGRAM))


def excuses() -> Iterator[tuple[str, str]]:
    """Yield (package and function, part of the code) of each error that no creation raises."""
    for row in UNREACHED:
        for function, parts in row["errors"].items():
            yield from ((function, part) for part in parts or [""])


def excused_by(block: Block) -> list[tuple[str, str]]:
    """Return the excuses that match an error."""
    name = f"{block.package} {block.function}"
    return [(function, part) for function, part in excuses() if function == name and part in block.code]


def test_cases_raise_all_errors_of_the_validators(blocks: list[Block]) -> None:
    assert len(blocks) > 500
    missing = [str(block) for block in blocks if not block.is_reached and not excused_by(block)]
    assert missing == [], "add a case for each error, or its reason to unreached.yaml"


def test_excuses_match_only_unreached_errors(blocks: list[Block]) -> None:
    used = {excuse for block in blocks if not block.is_reached for excuse in excused_by(block)}
    assert set(excuses()) - used == set()
    whole = {function for function, part in excuses() if not part}
    reached = [block for block in blocks if block.is_reached and f"{block.package} {block.function}" in whole]
    assert [str(block) for block in reached] == []


def test_mpigen_rejects_objects_rejected_by_the_validators(rejections: dict[str, str]) -> None:
    """Webhooks, admission plugins and definitions of a server reject more, so this direction alone is exact."""
    mpigen, known = Mpigen(), dict(reviewed(read_causes()))
    rejected: dict[str, Case] = {name: CASES[name] for name, text in rejections.items() if text and name not in known}
    verdicts = {name: of_mpigen(mpigen, case.text(SEEDS)) for name, case in rejected.items()}
    assert len(verdicts) > 500
    assert {name: rejections[name] for name, verdict in verdicts.items() if verdict != Verdict.REFUSES} == {}


def test_recorded_answers_reject_objects_rejected_by_the_validators(rejections: dict[str, str]) -> None:
    answers = read_answers()
    rejected = {name for name, text in rejections.items() if text} & answers.keys()
    assert {name for name in rejected if of_server(answers[name]) != Verdict.REFUSES} == set()
