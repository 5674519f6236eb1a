"""Test the decisions of Kueue 0.18 that differ from 0.19, computed by hand from the source of both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from generator.checks.objects import Objects
from generator.checks.quota.queues import Queues
from generator.facts.versions import minors
from generator.manifests import Manifest
from generator.upstream.kueue.admission import predict
from generator.upstream.kueue.configuration import NEWEST, rules_of
from generator.upstream.kueue.largest import largest_jobs
from generator.upstream.kueue.podsets import PodSet
from generator.upstream.kueue.queues import QueueTree, read_queue_tree
from generator.upstream.kueue.topology import TopologyMode, TopologyRequest
from generator.upstream.kueue.workloads import Job, Outcome
from tests.conftest import Run
from tests.unit.upstream.nodes import HOST, RACK, racks
from tests.unit.upstream.runtimes import job, runtime
from tests.unit.upstream.trees import door, kueue, queue, topology, tree

TOGETHER = TopologyRequest(TopologyMode.REQUIRED, RACK, "all")


def of(version: str, *manifests: Manifest) -> QueueTree:
    return replace(tree(*manifests), rules=rules_of(version))


def by_rack(version: str) -> QueueTree:
    flavor = kueue("ResourceFlavor", "f", {"topologyName": "racks", "nodeLabels": {"pool": "f"}})
    return of(version, topology("racks", RACK, HOST), flavor, queue("q", {"f/cpu": "99"}))


def ask(version: str, launcher: dict[str, int], nodes: int) -> Outcome:
    """Send three hosts and a launcher to nodes that hold one pod each."""
    pods = PodSet("node", 3, {"cpu": 4000}, topology=TOGETHER), PodSet("launcher", 1, launcher, topology=TOGETHER)
    return predict(by_rack(version), [Job("j", "q", pods)], (), racks(nodes))["j"]


def test_every_supported_version_has_rules() -> None:
    assert [rules_of(minor).version for minor in minors("kueue")] == list(minors("kueue"))
    assert rules_of("") is NEWEST


def test_kueue_0_18_counts_one_place_for_a_launcher_and_a_host() -> None:
    assert ask("0.19", {"cpu": 4000}, 4).places == {"launcher": {"n0": 1}, "node": {"n1": 1, "n2": 1, "n3": 1}}
    assert ask("0.18", {"cpu": 4000}, 4).places == {
        "launcher": {"n0": 1},
        "node": {"n0": 1, "n1": 1, "n2": 1, "n3": 1},
    }


@pytest.mark.parametrize(("version", "state"), [("0.19", "waits"), ("0.18", "never")])
def test_a_launcher_without_requests_has_a_flavor_since_0_19_and_no_place(version: str, state: str) -> None:
    """`Fits` counts how often the requests fit, which is zero for empty requests."""
    assert ask(version, {}, 4).state.value == state


@pytest.mark.parametrize(("version", "state"), [("0.19", "admitted"), ("0.18", "waits")])
def test_kueue_0_18_may_wait_for_a_flavor_although_another_can_be_borrowed(version: str, state: str) -> None:
    """`PreemptionOverBorrowing` ranks an own flavor in use, without preemption candidates, before a free one."""
    prefers = {
        "preference": "PreemptionOverBorrowing", "whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"
    }  # fmt: skip
    mine = queue("a", {"f/cpu": "4", "g/cpu": "0"}, "c", flavorFungibility=prefers)
    queues = of(version, mine, queue("b", {"f/cpu": "0"}, "c"), queue("lender", {"g/cpu": "4"}, "c"))
    sent = [Job(name, name, (PodSet("node", 1, {"cpu": 4000}),)) for name in ("b", "a")]
    assert predict(queues, sent)["a"].state.value == state


@pytest.mark.parametrize(("version", "sizes"), [("0.19", (4, 4, 4)), ("0.18", (None, None, 4))])
def test_kueue_0_18_guarantees_are_unknown_for_preemption_over_borrowing(
    version: str, sizes: tuple[int | None, ...]
) -> None:
    mine = queue("a", {"f/cpu": "4", "g/cpu": "0"}, "c", flavorFungibility={"preference": "PreemptionOverBorrowing"})
    others = queue("b", {"f/cpu": "0"}, "c"), queue("lender", {"g/cpu": "8"}, "c", namespaceSelector=None)
    queues = of(version, mine, *others, door("team", "a"))
    (found,) = largest_jobs(queues, [runtime(job("node", step="trainer", cpu="2"), torch={})])
    assert (found.owned, found.reclaimable, found.idle) == sizes
    assert bool(found.unknown) is (None in sizes)


def test_the_version_reaches_every_answer(mpigen: Run, tmp_path: Path) -> None:
    text = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: q}\nspec: {}\n"
    (tmp_path / "queues.yaml").write_text(text)
    for options, version in (((), "0.19"), (("--target", "kueue=0.18"), "0.18")):
        ran = mpigen("queues", "--release", "queues.yaml", "--format", "json", *options)
        assert f'"kueue": "{version}"' in ran.stdout
    known = Queues.read(Objects((), {"kueue": "0.18"}))
    assert known
    assert known.tree.rules.version == read_queue_tree([], "0.18").rules.version == "0.18"
