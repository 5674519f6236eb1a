"""Test that every check of MPI runtimes and TrainJobs finds its case, and passes similar good objects."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator import Platform
from generator.checks import alone, registry
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
def test_a_valid_object_has_no_findings(file: str) -> None:
    assert find(SOUND[file], file) == []


@pytest.mark.parametrize("case", OF_TRAINER.values(), ids=OF_TRAINER)
def test_cluster_runtimes_have_the_same_findings_as_namespaced_ones(case: Case) -> None:
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
def test_objects_of_other_kinds_are_ignored(before: str, after: str) -> None:
    text = CASES["mpi/launchers"].bad
    assert before in text
    assert not {finding.check for finding in find(text.replace(before, after), "x.yaml")} & CHECKS


def variations(body: Any, node: Any) -> Iterator[Any]:
    """Yield the body with each of its nodes replaced by each odd value."""
    for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        kept = node[key]
        for odd in ODD:
            node[key] = deepcopy(odd)
            yield body
        node[key] = kept
        yield from variations(body, kept)


@pytest.mark.parametrize("file", SOUND)
def test_mpi_rules_accept_any_value_in_any_place(file: str) -> None:
    """Schema checks report wrong types."""
    body = yaml.safe_load(SOUND[file])
    looked_at = [list(alone.judge(Manifest(odd, file), {})) for odd in variations(body, body)]
    assert len(looked_at) > len(ODD) * 10


@pytest.mark.parametrize("name", ["mpi/ssh-key-group", "trainjob/reserved-variable", "trainjob/dropped-field"])
def test_findings_about_trainer_2_3_are_not_reported_for_2_2(name: str) -> None:
    manifest = Manifest(yaml.safe_load(CASES[name].bad), CASES[name].file)
    assert list(alone.judge(manifest, {"trainer": "2.2"})) == []
    assert [breach.check for _, breach in alone.judge(manifest, {"trainer": "2.3"})] == [CASES[name].check]


@pytest.mark.parametrize("file", FAMILIES, ids=lambda file: file.stem)
def test_rendered_runtimes_have_no_findings(file: Path) -> None:
    assert describe(find(file.read_text("utf-8"), file.name)) == ""


def test_runtime_changes_of_an_admin_are_checked(platform: Platform) -> None:
    runtime = platform.runtimes[1]
    variables = {"OMPI_MCA_plm_rsh_args": "-p 22"}
    bodies = training_runtimes(runtime, platform.pool(runtime.pool), platform.cluster, variables=variables)
    manifests = [Manifest(body, "runtime.yaml") for body in bodies]
    (finding,) = check_rendered(manifests, write(manifests), Catalog.bundled()).in_order()
    assert (finding.check, finding.severity) == ("mpi/overridden-variable", Severity.WARNING)


def test_the_fix_of_num_nodes_accounts_for_a_separate_launcher() -> None:
    text = CASES["mpi/launchers"].bad.replace("runLauncherAsNode: true", "runLauncherAsNode: false")
    (finding,) = find(text, "runtime.yaml")
    fix = "set `numNodes: 1`; for 3 pods with ranks by default, set `parallelism: 3` in the Job template of `node`"
    assert finding.fix == fix
