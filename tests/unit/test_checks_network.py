"""Test the checks of network policies on partial files, odd values, and jobs with their own policies."""

from __future__ import annotations

from copy import deepcopy

import pytest

from generator.checks.network import is_isolation_object
from generator.checks.run import check_rendered, judge_together
from generator.manifests import Manifest, read, write
from generator.pipeline import load, render
from generator.schemas.catalog import Catalog
from tests.checks import CASES, Case, find
from tests.conftest import EXAMPLES
from tests.unit.test_checks_mpi import variations

OF_OBJECTS = {"network/open-egress", "network/policy", "network/service"}
NETWORK = {name: case for name, case in CASES.items() if case.family == "network" and case.check not in OF_OBJECTS}


@pytest.mark.parametrize("case", NETWORK.values(), ids=NETWORK)
def test_files_of_no_release_have_no_findings(case: Case) -> None:
    """Another policy of the cluster can allow what these policies deny, and the reverse."""
    reported = {finding.check for finding in find(case.bad, "x.yaml")}
    assert reported.isdisjoint(one.check for one in NETWORK.values())


@pytest.mark.parametrize("name", ["network/ranks-blocked", "network/teams-connect", "network/not-isolated-ranks"])
def test_the_checks_accept_any_value_in_any_place(name: str) -> None:
    manifests = list(read(NETWORK[name].bad, "x.yaml"))
    count = 0
    for number, manifest in enumerate(manifests):
        if is_isolation_object(manifest) and manifest.namespace == "team-cv":
            body = deepcopy(manifest.body)
            for odd in variations(body, body):
                others = [*manifests[:number], Manifest(odd, "x.yaml", number), *manifests[number + 1 :]]
                count += len(list(judge_together(others, {}, files=()))) + 1
    assert count > 100


def test_jobs_with_their_own_policies_are_not_blocked(tmp_path_factory: pytest.TempPathFactory) -> None:
    """With `unit: job`, the NetworkPolicy of a job allows its ranks to connect, and no release has this policy."""
    file = tmp_path_factory.mktemp("job") / "platform.yaml"
    file.write_text(EXAMPLES["cpu-kubernetes"].read_text() + "isolation: {unit: job}\n")
    tree = render(*load(file))
    isolating = [manifest for manifest in tree if manifest.kind == "ValidatingAdmissionPolicy"]
    assert sum(map(is_isolation_object, isolating)) == 1
    assert checks_of(tree) == set()
    without = [manifest for manifest in tree if not (manifest in isolating and is_isolation_object(manifest))]
    assert "network/ranks-blocked" in checks_of(without)


def checks_of(tree: list[Manifest]) -> set[str]:
    return {finding.check for finding in check_rendered(tree, write(tree), Catalog.bundled()).findings}
