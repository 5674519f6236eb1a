"""Each check of MPI runtimes and TrainJobs finds its case, in the right words, and passes what only looks alike."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator import Platform
from generator.checks import registry, run
from generator.checks.finding import Severity
from generator.checks.run import check_rendered
from generator.manifests import Manifest, write
from generator.objects.training import MpiRuntime, TrainingRuntime, TrainJob
from generator.runtimes.training_runtime import training_runtimes
from generator.schemas.catalog import Catalog
from tests.checks import CASES, FOLDER, Case, describe, expected, find
from tests.conftest import ROOT

CHECKS = {each.id for each in registry.checks() if each.needs in (MpiRuntime, TrainingRuntime, TrainJob)}
OF_TRAINER = {name: case for name, case in CASES.items() if case.check in CHECKS}
SOUND = {file: (FOLDER / "bases" / file).read_text("utf-8") for file in ("runtime.yaml", "trainjob.yaml")}
FAMILIES = sorted((ROOT / "tests/fixtures/runtimes/families").glob("*.yaml"))
ODD: tuple[Any, ...] = (None, True, 0, -1.5, "", "x", [], {}, [None], ["x", 1], {"name": "node"}, {"x": []})


@pytest.mark.parametrize("file", SOUND)
def test_a_sound_object_is_sound(file: str) -> None:
    assert find(SOUND[file], file) == []


@pytest.mark.parametrize("case", OF_TRAINER.values(), ids=OF_TRAINER)
def test_a_runtime_for_the_cluster_is_judged_like_one_of_a_namespace(case: Case) -> None:
    def whole(text: str) -> str:
        return text.replace("kind: TrainingRuntime", "kind: ClusterTrainingRuntime")

    words = expected(case.family)[case.id].replace("TrainingRuntime by", "ClusterTrainingRuntime by")
    assert case.describe(whole(case.bad)) == words


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("trainer.kubeflow.org/v1alpha1", "example.com/v1"),
        ("kind: TrainingRuntime", "kind: ConfigMap"),
        ("    mpi:\n", "    torch:\n"),
    ],
)
def test_other_objects_are_passed_over(before: str, after: str) -> None:
    text = CASES["mpi/launchers"].bad
    assert before in text
    assert not {finding.check for finding in find(text.replace(before, after), "x.yaml")} & CHECKS


def variations(body: Any, node: Any) -> Iterator[Any]:
    """The body with each of its nodes replaced by each odd value in turn."""
    for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        kept = node[key]
        for odd in ODD:
            node[key] = deepcopy(odd)
            yield body
        node[key] = kept
        yield from variations(body, kept)


@pytest.mark.parametrize("file", SOUND)
def test_whatever_stands_anywhere_the_rules_do_not_fail(file: str) -> None:
    """A wrong type is the business of the schema, whose findings come with these."""
    body = yaml.safe_load(SOUND[file])
    looked_at = [list(run.judge(Manifest(odd, file), {})) for odd in variations(body, body)]
    assert len(looked_at) > len(ODD) * 10


@pytest.mark.parametrize("name", ["mpi/ssh-key-group", "trainjob/reserved-variable", "trainjob/dropped-field"])
def test_what_trainer_2_2_does_otherwise_is_not_said_for_it(name: str) -> None:
    manifest = Manifest(yaml.safe_load(CASES[name].bad), CASES[name].file)
    assert list(run.judge(manifest, {"trainer": "2.2"})) == []
    assert [breach.check for _, breach in run.judge(manifest, {"trainer": "2.3"})] == [CASES[name].check]


@pytest.mark.parametrize("file", FAMILIES, ids=lambda file: file.stem)
def test_nothing_is_said_of_what_the_generator_makes(file: Path) -> None:
    assert describe(find(file.read_text("utf-8"), file.name)) == ""


def test_what_an_admin_changes_in_a_runtime_is_judged_too(platform: Platform) -> None:
    runtime = platform.runtimes[1]
    variables = {"OMPI_MCA_plm_rsh_args": "-p 22"}
    bodies = training_runtimes(runtime, platform.pool(runtime.pool), platform.cluster, variables=variables)
    manifests = [Manifest(body, "runtime.yaml") for body in bodies]
    (finding,) = check_rendered(manifests, write(manifests), Catalog.bundled()).in_order()
    assert (finding.check, finding.severity) == ("mpi/overridden-variable", Severity.WARNING)


def test_a_fix_of_the_number_of_nodes_counts_the_launcher_where_it_is_none() -> None:
    text = CASES["mpi/launchers"].bad.replace("runLauncherAsNode: true", "runLauncherAsNode: false")
    (finding,) = find(text, "runtime.yaml")
    assert finding.fix == "set `numNodes: 1`; for 3 hosts by default, set `parallelism: 3` in the Job of `node`"
