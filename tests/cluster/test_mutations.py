"""Test that the cluster's judges find deliberate mistakes in the generator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from generator import load_platform, manifests
from generator.checks.run import check_rendered
from generator.manifests import Manifest
from generator.schemas.catalog import Catalog
from tests.cluster import judges, trial
from tests.cluster.broken_generator import Mutation, mutations, render
from tests.cluster.client import Client, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.shortages import in_recorded_words
from tests.cluster.training import trainings
from tests.cluster.trees import is_gone
from tests.cluster.trial import Trial

PLATFORM = Path(__file__).with_name("broken_platform.yaml")
RECORDED = Path(__file__).parent / "fixtures" / "over-quota"
MUTATIONS = {mutation.name: mutation for mutation in mutations()}
SOUND = "unbroken"
_AT_ONCE = 4


@pytest.fixture(scope="module")
def trials(
    request: pytest.FixtureRequest, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Trial]]:
    """Deploy and judge the tree of the correct generator and the trees of broken ones at the same time."""
    selected = [item for item in request.session.items if isinstance(item, pytest.Function)]
    wanted = {str(item.callspec.params["mutation"]) for item in selected if "mutation" in item.fixturenames}
    names = [SOUND, *sorted(wanted)]
    folder = tmp_path_factory.mktemp("broken")
    files = [_platform_file(folder, name) for name in names]
    broken = zip(map(MUTATIONS.get, names), files, strict=True)
    rendered = zip(map(load_platform, files), render(broken, folder / "generators"), strict=True)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        accepted = [pool.submit(trial.accept, cluster.admin, platform, tree) for platform, tree in rendered]
    judged = {name: each.result() for name, each in zip(names, accepted, strict=True)}
    trial.train(cluster.admin, judged.values())
    _compare_reasons(judged, cluster, record=request.config.getoption("--record"))
    yield judged
    for each in judged.values():
        _forget(cluster.admin, each)


def _forget(admin: Client, trial: Trial) -> None:
    """Remove the runtimes, because the SDK lists none at all if one of them is unreadable."""
    runtimes = [found.body for found in trial.deployed.stored if found.kind == "ClusterTrainingRuntime"]
    for body in [*(training.body for training in trainings(trial.deployed.platform)), *runtimes]:
        admin.delete(body)
    for body in runtimes:
        wait_until(f"runtime {body['metadata']['name']} is gone", partial(is_gone, admin, body))


def _platform_file(folder: Path, name: str) -> Path:
    file = folder / f"{name}.yaml"
    file.write_text(PLATFORM.read_text().replace("broken", name))
    return file


def _compare_reasons(judged: dict[str, Trial], cluster: Cluster, *, record: bool) -> None:
    """Compare Kueue's messages to jobs over quota with the reviewed ones of the correct tree."""
    file = RECORDED / f"default-{SOUND}.json"
    if record and cluster.versions.name == "default":
        file.write_text(json.dumps(judged[SOUND].reasons, indent=2) + "\n")
    for name, each in judged.items():
        if each.reasons:
            recorded = json.loads(file.read_text().replace(SOUND, name))
            said = in_recorded_words(each.reasons, recorded, cluster.versions["kueue"].version)
            each.hear(judges.other_reasons, said, recorded)


@pytest.mark.parametrize("mistake", MUTATIONS.values(), ids=lambda mistake: mistake.name)
def test_every_mutation_still_applies(mistake: Mutation) -> None:
    assert mistake.applied()
    assert mistake.caught_by
    assert all(hasattr(judges, judge) for judge in mistake.caught_by)


@pytest.mark.slow
def test_mpigen_finds_the_mutations_marked_as_offline(tmp_path: Path) -> None:
    """The correct tree has one expected finding: a pool without users."""
    names = [SOUND, *MUTATIONS]
    files = [_platform_file(tmp_path, name) for name in names]
    trees = render(zip(map(MUTATIONS.get, names), files, strict=True), tmp_path / "generators")
    sound, *broken = map(checks, trees)
    assert sound == {"quota/unmatched-flavor"}
    found = dict(zip(MUTATIONS, (ids - sound for ids in broken), strict=True))
    assert {name for name, ids in found.items() if ids} == {name for name, each in MUTATIONS.items() if each.offline}
    assert [name for name, each in MUTATIONS.items() if each.offline and each.offline not in found[name]] == []


def checks(tree: list[Manifest]) -> set[str]:
    checked = check_rendered(tree, manifests.write(tree), Catalog.bundled())
    return {finding.check for finding in checked.findings}


@pytest.mark.cluster
def test_the_correct_generator_has_no_complaints(trials: dict[str, Trial]) -> None:
    assert trials[SOUND].complaints == {}


@pytest.mark.cluster
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_judges_find_every_mutation(trials: dict[str, Trial], mutation: str) -> None:
    complaints = {judge: "\n".join(said) for judge, said in trials[mutation].complaints.items()}
    caught_by = MUTATIONS[mutation].caught_by
    assert complaints.keys() == caught_by.keys(), complaints
    for judge, part in caught_by.items():
        assert part in complaints[judge]
