"""Compare an independent engine's verdicts for every pair of pods and every port with the reviewed table."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster import judges, trees
from tests.cluster.client import Body
from tests.cluster.control_plane import Cluster
from tests.cluster.network.cast import OUTSIDE, Cast
from tests.cluster.network.conftest import Scene
from tests.cluster.network.engine import Engine, Packet

pytestmark = pytest.mark.cluster
_EXPECTED: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("expected.yaml").read_text())
TRIED: list[tuple[str, int]] = [(protocol, port) for protocol, port in _EXPECTED["tried"]]
_IN_USE = "metadata.finalizers: ['trainer.kubeflow.org/resource-in-use']"
"""Trainer 2.2 adds it to runtimes with TrainJobs: trainer v2.2.0
pkg/controller/clustertrainingruntime_controller.go."""
Table = dict[tuple[str, str], set[tuple[str, int]]]


def expected(scene: Scene) -> Table:
    """The table of a platform: (from, to) → what arrives."""
    words = {"everything": set(TRIED), "names": {(each[0], each[1]) for each in _EXPECTED["names"][scene.name]}}
    return {
        (source, to): words[said] if isinstance(said, str) else {(protocol, port) for protocol, port in said}
        for source, row in _EXPECTED["reach"].items()
        for to, said in row.items()
        if [source, to] not in _EXPECTED["apart"].get(scene.name, [])
    }


def decided(engine: Engine, cast: Cast) -> Table:
    """Return the engine's verdicts for all pods; pods of one job have the same verdict."""
    pairs = [(one, other) for one, other in product(cast.addresses, repeat=2) if not {one, other} <= {*OUTSIDE}]
    asked = {(pair, tried): _packets(cast, pair, tried) for pair in pairs for tried in TRIED}
    answers = iter(engine.allows([packet for packets in asked.values() for packet in packets]))
    found: Table = {}
    for (pair, tried), packets in asked.items():
        verdicts = {next(answers) for _ in packets}
        assert len(verdicts) <= 1, f"some of {pair} reach each other on {tried}, and some do not"
        if verdicts == {True}:
            found.setdefault(pair, set()).add(tried)
    return found


def _packets(cast: Cast, pair: tuple[str, str], tried: tuple[str, int]) -> list[Packet]:
    addresses = product(cast.addresses[pair[0]], cast.addresses[pair[1]])
    return [Packet(one, other, *tried) for one, other in addresses if one != other]


def alone(table: Table, cast: Cast) -> Table:
    """Return the table without connections of a single pod to itself."""
    return {pair: what for pair, what in table.items() if pair[0] != pair[1] or len(cast.addresses[pair[0]]) > 1}


def everything_allowed(namespace: str) -> Body:
    """A policy with which a namespace opens itself."""
    spec = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [{}], "egress": [{}]}
    return {"metadata": {"name": "open", "namespace": namespace}, "spec": spec}


def between_teams(table: Table) -> Table:
    """Return the connections of one team that reach the other team."""
    one, other = {"first", "second", "elsewhere", "tool"}, {"theirs"}
    return {(a, b): what for (a, b), what in table.items() if (a in one and b in other) or (a in other and b in one)}


def test_every_policy_is_stored_as_written(scene: Scene, cluster: Cluster) -> None:
    stored = trees.settled(scene.deployed)
    assert judges.warned_about(scene.deployed) == []
    assert judges.stored_otherwise(scene.deployed, stored) == []
    runtimes = {gang.runtime for gang in scene.cast.gangs.values() if cluster.versions["trainer"].minor == "2.2"}
    in_use = {f"ClusterTrainingRuntime {runtime}: {_IN_USE}" for runtime in runtimes}
    assert {*judges.unknown_additions(scene.deployed, stored)} == in_use
    assert judges.moved_by_a_second_apply(scene.deployed, stored) == []


def test_pods_reach_exactly_the_destinations_of_the_table(scene: Scene) -> None:
    assert len({address for addresses in scene.cast.addresses.values() for address in addresses}) == 21
    assert decided(scene.engine, scene.cast) == alone(expected(scene), scene.cast)


def test_pods_of_jobs_cannot_connect_without_the_mpi_policy(scene: Scene) -> None:
    theirs = ["np-mpi", *(f"np.{gang.name}" for gang in scene.cast.gangs.values())]
    table = decided(scene.engine.with_policies(without=theirs), scene.cast)
    met = {pair for pair in alone(expected(scene), scene.cast) if {*pair} <= {"first", "second", "elsewhere", "theirs"}}
    assert met
    assert not met & table.keys()


def test_the_policies_of_openshift_ai_change_no_verdict(scene: Scene) -> None:
    """OpenShift AI creates a policy per TrainJob: opendatahub-io/trainer pkg/rhai/networkpolicy.go."""
    label = "jobset.sigs.k8s.io/jobset-name"
    theirs = []
    for gang in scene.cast.gangs.values():
        pods = {"matchLabels": {label: gang.name}}
        spec = {"podSelector": pods, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": pods}]}]}
        theirs.append({"metadata": {"name": gang.name, "namespace": gang.namespace}, "spec": spec})
    assert decided(scene.engine.with_policies(theirs), scene.cast) == decided(scene.engine, scene.cast)


def test_admin_policies_separate_namespaces_that_allow_all_traffic(scene: Scene) -> None:
    opened = [everything_allowed(gang.namespace) for gang in scene.cast.gangs.values()]
    table = decided(scene.engine.with_policies(opened), scene.cast)
    guarded = scene.platform.cluster.network == "openshift-ovn"
    assert bool(between_teams(table)) is not guarded
    assert ("first", "elsewhere") in table  # the guard is between teams, not between namespaces of one
    assert (("first", "metadata") in table) is not guarded


def test_a_baseline_policy_isolates_namespaces_without_policies(scene: Scene) -> None:
    table = decided(scene.engine.with_policies(without=["networkPolicies"]), scene.cast)
    without_admin = decided(scene.engine.with_policies(without=["networkPolicies", "adminNetworkPolicies"]), scene.cast)
    has_baseline = scene.platform.isolation.guard.baseline
    assert (("first", "internet") in table) is not has_baseline
    assert (("stranger", "theirs") in without_admin) is not has_baseline
    assert (("first", "theirs") in without_admin) is not has_baseline
