"""Test what a cluster offers to jobs, read from releases and from exports with a part of its objects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator import Platform
from generator.facts.devices import DeviceKind
from generator.facts.families import FAMILIES
from generator.facts.names import CONTRACT
from generator.jobs.catalogue import Catalogue
from generator.jobs.job import new_job
from generator.jobs.reach import JobError, offers, reach
from generator.jobs.request import JobRequest
from generator.manifests import Body, Manifest
from generator.objects.contract import Contract, FabricContract, read_contract
from generator.stages.catalogues import catalogue_of
from generator.stages.cluster import read_files
from generator.stages.loading import load_declared
from tests.conftest import EXAMPLES, ROOT, small_platform

READABLE = {"WorkloadPriorityClass", "LocalQueue", "LimitRange", "ResourceQuota", "Namespace", "ClusterTrainingRuntime"}
"""Kinds that members of a team can read."""


def small(**changes: Any) -> Catalogue:
    return catalogue_of(Platform.model_validate({**small_platform(), **changes}))


def export(catalogue: Catalogue) -> Catalogue:
    """Return the catalogue in what a member of a team can read."""
    return Catalogue([item for item in catalogue.objects if item.kind in READABLE], is_complete=False)


def no_stdin() -> bytes:
    raise AssertionError


@pytest.mark.parametrize("name", [name for name, file in EXAMPLES.items() if file.suffix == ".yaml"])
def test_a_release_and_its_platform_file_offer_the_same(name: str) -> None:
    declared = load_declared(EXAMPLES[name])
    files = read_files([ROOT / "output" / declared.platform], no_stdin)
    theirs, ours = catalogue_of(declared), Catalogue(files.manifests, files.targets)
    assert (theirs.teams, theirs.priorities, theirs.denying) == (ours.teams, ours.priorities, ours.denying)
    assert theirs.targets == ours.targets
    assert list(theirs.runtimes) == list(ours.runtimes)
    for runtime in list(theirs.runtimes.values())[:3]:
        for team in list(theirs.teams.values())[:2]:
            if offers(team, runtime):
                request = JobRequest(runtime.name, team.name, nodes=2, is_smoke=True)
                assert new_job(theirs, request).bodies == new_job(ours, request).bodies
                assert new_job(theirs, request).notes == new_job(ours, request).notes


def test_the_namespaces_of_a_team_are_its_homes() -> None:
    data = small_platform()
    data["tenants"][0] |= {"namespaces": ["alpha"], "limits": {"hostsPerJob": 3, "timePerJob": "2h"}}
    catalogue = catalogue_of(Platform.model_validate(data))
    team = catalogue.teams["team-a"]
    assert [home.name for home in team.homes] == ["team-a", "alpha"]
    assert (team.home.most_nodes, team.home.seconds) == (3, 7200)
    made = new_job(catalogue, JobRequest("openmpi-cpu", namespace="alpha"))
    assert (made.home.name, made.body["metadata"]["namespace"]) == ("alpha", "alpha")


def test_jobs_of_an_isolating_platform_bring_their_policy_from_readable_objects() -> None:
    whole = small(isolation={"unit": "job"})
    request = JobRequest("openmpi-cpu", "team-a", command=("mpirun", "x"))
    assert [body["kind"] for body in new_job(export(whole), request).others] == ["NetworkPolicy"]
    assert new_job(export(small()), request).others == ()


def test_a_namespace_without_labels_of_mpigen_is_a_team_of_its_own() -> None:
    queue = {"kind": "LocalQueue", "metadata": {"name": "q", "namespace": "mine"}, "spec": {"clusterQueue": "all"}}
    catalogue = Catalogue([Manifest({"apiVersion": "kueue.x-k8s.io/v1beta2", **queue}, "")], is_complete=False)
    (team,) = catalogue.teams.values()
    assert (team.name, team.home.runtimes, team.home.priorities) == ("mine", None, None)


def test_members_can_write_jobs_from_readable_objects() -> None:
    whole = small()
    part = export(whole)
    request = JobRequest("openmpi-cpu", "team-a", nodes=3, processes=2, command=("mpirun", "x"))
    made = new_job(part, request)
    assert made.bodies == new_job(whole, request).bodies
    (note,) = made.notes
    assert note == "mpigen cannot compute if Kueue admits the job at once: no file has ClusterQueue `team-a`"
    far = reach(part, part.teams["team-a"], part.runtimes["openmpi-cpu"])
    assert (far.owned, far.reclaimable, far.idle) == (None, None, None)


def test_a_complete_catalogue_without_the_queue_has_no_job() -> None:
    objects = [item for item in small().objects if item.kind != "ClusterQueue"]
    with pytest.raises(JobError, match="can run no pod of runtime `openmpi-cpu`: it has no queue"):
        new_job(Catalogue(objects), JobRequest("openmpi-cpu", "team-a"))


def test_a_runtime_that_mpigen_did_not_generate_needs_a_command() -> None:
    objects = [without_contract(item) for item in small().objects]
    catalogue = Catalogue(objects)
    assert catalogue.runtimes["openmpi-cpu"].contract is None
    made = new_job(catalogue, JobRequest("openmpi-cpu", "team-a", command=("mpirun", "x")))
    assert made.body["spec"]["trainer"] == {"numNodes": 2, "command": ["mpirun", "x"]}
    for is_smoke in (True, False):
        with pytest.raises(JobError, match="mpigen did not generate the runtime `openmpi-cpu`"):
            new_job(catalogue, JobRequest("openmpi-cpu", "team-a", is_smoke=is_smoke))


def without_contract(item: Manifest) -> Manifest:
    if item.kind != "ClusterTrainingRuntime":
        return item
    metadata = {key: value for key, value in item.body["metadata"].items() if key != "annotations"}
    return Manifest({**item.body, "metadata": metadata}, "")


def test_a_runtime_of_some_teams_is_offered_to_them() -> None:
    data = small_platform()
    data["runtimes"][1]["tenants"] = ["team-a"]
    catalogue = catalogue_of(Platform.model_validate(data))
    runtime = catalogue.runtimes["openmpi-cpu"]
    assert (runtime.kind, runtime.namespaces) == ("TrainingRuntime", frozenset({"team-a"}))
    assert [team for team in catalogue.teams.values() if offers(team, runtime)] == [catalogue.teams["team-a"]]


def test_the_queue_of_a_relaxed_namespace_may_be_another() -> None:
    data = small_platform()
    data["policies"] = {"admission": {"rules": {"queue": "warn"}}}
    for catalogue, names in ((small(), []), (catalogue_of(Platform.model_validate(data)), ["night"])):
        home = catalogue.teams["team-a"].home
        assert [queue.name for queue in catalogue.possible_queue(home, "night")] == names
        assert catalogue.possible_queue(home, "default") == []


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("device", ["cpu", "nvidia"])
@pytest.mark.parametrize(
    "fabric",
    [None, FabricContract("ib", "infiniband", 8.0, 400, "hgx-h100", ("a.com/ib",), can_share=True)],
    ids=["tcp", "fabric"],
)
def test_a_contract_is_read_as_written(family: str, device: DeviceKind, fabric: FabricContract | None) -> None:
    known = FAMILIES[family]
    for own in (
        Contract(family, family, device, device, known.title, "pool", known.command, fabric),
        Contract("acme", family, device, "npu", "Acme 4", "pool", ("mpirun", "acme"), fabric),
    ):
        assert read_contract({"metadata": {"annotations": own.to_annotations()}}) == own


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(st.dictionaries(st.sampled_from(["family", "like", "device", "command", "fabric", "pool", "title"]), JSON))
def test_any_annotation_is_a_contract_or_none(data: dict[str, Any]) -> None:
    for text in (json.dumps(data), json.dumps({"family": "openmpi", "device": "cpu", **data}), "{", "[]", ""):
        body: Body = {"metadata": {"annotations": {CONTRACT: text}}}
        assert isinstance(read_contract(body), Contract | None)


@given(st.lists(st.dictionaries(st.sampled_from(["apiVersion", "kind", "metadata", "spec"]), JSON), max_size=4))
def test_any_objects_are_a_catalogue(bodies: list[dict[str, Any]]) -> None:
    fixed = [
        {**body, "apiVersion": version, "kind": kind}
        for body in bodies
        for version, kind in (
            ("v1", "Namespace"),
            ("kueue.x-k8s.io/v1beta2", "LocalQueue"),
            ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime"),
            ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"),
            ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        )
    ]
    catalogue = Catalogue([Manifest(body, "") for body in fixed], is_complete=False)
    assert isinstance(list(catalogue.teams), list)
    assert isinstance(list(catalogue.runtimes), list)
    assert all(isinstance(name, str) for name in (*catalogue.priorities, *catalogue.denying))


def test_paths_of_python_have_no_standard_input(tmp_path: Path) -> None:
    from generator import DocumentError, OutputError, catalogue

    with pytest.raises(DocumentError, match="standard input is no path in Python"):
        catalogue("-")
    with pytest.raises(OutputError, match="there is no such file or folder"):
        catalogue(tmp_path / "nothing")
