"""Change network policies and labels of the examples: the checks report exactly the changes that open or close ranks.

The expected findings follow from the verdicts on compiled pods, whose labels and addresses are all known.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple

import pytest

from generator.checks.network import Isolation, dns_blocked, not_isolated, ranks_blocked, teams_connect
from generator.checks.objects import Objects
from generator.checks.registry import ERROR
from generator.facts.names import DNS_PODS, RUNTIME_LABEL, TENANT_LABEL
from generator.manifests import Body, Manifest, read
from generator.objects.fields import mapping
from generator.upstream.compile import compile_job
from generator.upstream.kubernetes.network_policy import INGRESS, is_network_policy
from tests.conftest import ROOT
from tests.network_scenes import Scene

CHECKS = (ranks_blocked, dns_blocked, teams_connect, not_isolated)
EXAMPLES = sorted(folder.name for folder in (ROOT / "output").iterdir() if (folder / "release.json").is_file())
_TENANTS = 2  # of each example get changed policies
_PORTS = (("TCP", 22), ("TCP", 2222), ("TCP", 443), ("TCP", 28080), ("TCP", 33333), ("UDP", 33333))
_RANGE = (("TCP", 33333), ("TCP", 33334))
"""Ports in every range of ports of the examples and of the changes."""
Change = Callable[[Body], object]


class Mutation(NamedTuple):
    """A changed release."""

    name: str
    manifests: Sequence[Manifest]


@cache
def release(example: str) -> list[Manifest]:
    files = sorted((ROOT / "output" / example).rglob("*.yaml"))
    return [manifest for file in files for manifest in read(file.read_bytes(), str(file))]


def mutations(example: str) -> Iterator[Mutation]:
    """Yield the release with a removed policy, a changed policy, or changed labels."""
    whole = release(example)
    tenants = [each.name for each in whole if each.kind == "Namespace" and TENANT_LABEL in each.labels][:_TENANTS]
    for number, manifest in enumerate(whole):
        if is_network_policy(manifest) and (manifest.namespace in tenants or not manifest.namespace):
            yield Mutation(f"without {manifest.resource}", [*whole[:number], *whole[number + 1 :]])
            for name, change in _changes(manifest):
                body = copy.deepcopy(manifest.body)
                change(body["spec"])
                changed = Manifest(body, manifest.file, manifest.index)
                yield Mutation(f"{name} in {manifest.resource}", [*whole[:number], changed, *whole[number + 1 :]])
    yield Mutation("no label on the pods of ranks", [_without_label(manifest) for manifest in whole])
    policies = [manifest for manifest in whole if is_network_policy(manifest)]
    yield Mutation("no policies", [manifest for manifest in whole if manifest not in policies])


def _changes(manifest: Manifest) -> Iterator[tuple[str, Change]]:
    if manifest.kind != "NetworkPolicy":
        return
    spec = mapping(manifest.body, "spec")
    yield "no ingress", lambda spec: spec.update(policyTypes=["Egress"])
    yield "no egress", lambda spec: spec.update(policyTypes=["Ingress"])
    yield "a wrong podSelector", lambda spec: spec.update(podSelector={"matchLabels": {"app": "mpi"}})
    yield "an empty podSelector", lambda spec: spec.update(podSelector={})
    yield "all ingress", lambda spec: spec.update(ingress=[{}], policyTypes=["Ingress", "Egress"])
    yield "all namespaces", lambda spec: spec.update(ingress=[{"from": [{"namespaceSelector": {}}]}])
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for number in range(len(spec.get(direction, []))):
            rule = partial(_change_rule, direction, number)
            elsewhere = {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}
            yield f"no peers in {direction}", rule({peers: None})
            yield f"no ports in {direction}", rule({"ports": None})
            yield f"one port in {direction}", rule({"ports": [{"port": 22}]})
            yield f"a range of ports in {direction}", rule({"ports": [{"port": 2000, "endPort": 60000}]})
            yield f"all pods in {direction}", rule({peers: [{"namespaceSelector": {}}]})
            yield f"all tenants in {direction}", rule({peers: [{"namespaceSelector": _TENANT}]})
            yield f"another namespace in {direction}", rule({peers: [{"namespaceSelector": elsewhere}]})


_TENANT = {"matchExpressions": [{"key": TENANT_LABEL, "operator": "Exists"}]}


def _change_rule(direction: str, number: int, fields: Body) -> Change:
    """Return a change of some fields in a rule; None removes the field."""

    def change(spec: Body) -> None:
        spec[direction][number].update(fields)
        spec[direction][number] = {key: value for key, value in spec[direction][number].items() if value is not None}

    return change


def _without_label(manifest: Manifest) -> Manifest:
    if manifest.kind != "ClusterTrainingRuntime":
        return manifest
    body = copy.deepcopy(manifest.body)
    for job in body["spec"]["template"]["spec"]["replicatedJobs"]:
        job["template"]["spec"]["template"]["metadata"]["labels"].pop(RUNTIME_LABEL)
    return Manifest(body, manifest.file, manifest.index)


class Pods(NamedTuple):
    """Addresses of pods: namespace → its ranks and a pod without labels; a DNS pod; a pod of another namespace."""

    ranks: dict[str, list[str]]
    bare: dict[str, str]
    dns: list[tuple[str, int]]
    stranger: str


def scene(manifests: Sequence[Manifest]) -> tuple[Scene, Pods]:
    """Return the policies with the pods of a job per tenant, a pod without labels, DNS pods and a stranger."""
    namespaces = [each for each in manifests if each.kind == "Namespace" and TENANT_LABEL in each.labels]
    pods: list[Body] = []

    def add(namespace: str, labels: dict[str, str]) -> str:
        address = f"10.244.{len(pods) // 250}.{len(pods) % 250 + 1}"
        containers = [{"name": "main", "ports": []}]
        metadata = {"name": f"pod-{len(pods)}", "namespace": namespace, "labels": labels}
        pods.append({"metadata": metadata, "spec": {"containers": containers}, "status": {"podIP": address}})
        return address

    ranks = {
        each.name: [add(each.name, labels) for labels in _labels_of_ranks(manifests, each.name)] for each in namespaces
    }
    bare = {each.name: add(each.name, {}) for each in namespaces}
    dns = [(add(namespace, dict(labels)), port) for namespace, labels, port in DNS_PODS]
    stranger = add("elsewhere-too", {})
    others = [*(namespace for namespace, _, _ in DNS_PODS), "elsewhere-too"]
    bodies = [
        {"metadata": {"name": name, "labels": {**labels, "kubernetes.io/metadata.name": name}}}
        for name, labels in [*((each.name, each.labels) for each in namespaces), *((name, {}) for name in others)]
    ]
    policies = [each.body for each in manifests if is_network_policy(each)]
    return Scene(bodies, pods, policies, ()), Pods(ranks, bare, dns, stranger)


def _labels_of_ranks(manifests: Sequence[Manifest], namespace: str) -> Iterator[dict[str, str]]:
    runtime = next(each for each in manifests if each.kind == "ClusterTrainingRuntime")
    for labels in _compiled(runtime.name, repr(runtime.body), _Runtime(runtime)):
        yield {key: value.replace("NAMESPACE", namespace) for key, value in labels.items()}


class _Runtime:
    """A runtime that a cache ignores, because its text is the key."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Runtime)

    def __hash__(self) -> int:
        return 0


@cache
def _compiled(name: str, _: str, runtime: _Runtime) -> list[dict[str, str]]:
    spec: dict[str, Any] = {"runtimeRef": {"kind": "ClusterTrainingRuntime", "name": name}}
    metadata = {"name": "train", "namespace": "NAMESPACE"}
    body = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": metadata, "spec": spec}
    return [pod["metadata"]["labels"] for _, pod in compile_job(Manifest(body, "job.yaml"), runtime.manifest, {}).pods]


class Verdicts:
    """The verdicts on the pods of a changed release."""

    def __init__(self, manifests: Sequence[Manifest]) -> None:
        self.scene, self.pods = scene(manifests)

    def reached(self, source: str, to: str, ports: Sequence[tuple[str, int]] = _PORTS) -> list[bool | None]:
        """Return the verdict on each port."""
        policies, peers = self.scene.known, self.scene.peers
        return [policies.decide(peers[source], peers[to], *port).allowed for port in ports]

    def ingress(self, source: str, to: str) -> list[bool | None]:
        """Return the verdict of the ingress policies of `to` on each port."""
        ends = self.scene.peers[to], self.scene.peers[source]
        return [self.scene.known.decide_direction(INGRESS, *ends, port)[0] for port in _PORTS]

    def tenant(self, address: str) -> str:
        """Return the tenant of a pod."""
        return self.scene.peers[address].namespace_labels.values[TENANT_LABEL]


def expected(manifests: Sequence[Manifest]) -> dict[str, bool]:
    """Return check → True if it is an error, by the verdicts on the pods."""
    verdicts = Verdicts(manifests)
    pods, answers = verdicts.pods, dict[str, bool]()
    tcp = [port for port in _PORTS if port[0] == "TCP"]
    for ranks in pods.ranks.values():
        if any(False in verdicts.reached(one, other, tcp) for one, other in product(ranks, repeat=2)):
            one_port = any(True not in verdicts.reached(one, two, _RANGE) for one, two in product(ranks, repeat=2))
            answers["ranks_blocked"] = one_port or answers.get("ranks_blocked", False)
        if all(verdicts.reached(ranks[0], dns, [("UDP", port)]) == [False] for dns, port in pods.dns):
            answers["dns_blocked"] = False
    for (one, *_), (other, *_) in product(pods.ranks.values(), repeat=2):
        if verdicts.tenant(one) != verdicts.tenant(other):
            is_reached = True in verdicts.reached(one, other)
            if is_reached or True in verdicts.ingress(one, other):
                answers["teams_connect"] = is_reached or answers.get("teams_connect", False)
    for namespace, ranks in pods.ranks.items():
        if any(True in verdicts.reached(pods.stranger, pod) for pod in (pods.bare[namespace], *ranks)):
            answers["not_isolated"] = False
    return answers


def findings(manifests: Sequence[Manifest]) -> dict[str, bool]:
    """Return check → True if it reports an error; False if it reports a warning alone. DNS counts as a warning."""
    isolation = Isolation.read(Objects(tuple(manifests), {}, is_complete=True))
    assert isolation
    answers: dict[str, bool] = {}
    for check in CHECKS:
        default = check.__mpigen_check__.severity  # type: ignore[attr-defined]
        for breach in check(isolation):
            is_error = (breach.severity or default) is ERROR and check is not dns_blocked
            answers[check.__name__] = answers.get(check.__name__, False) or is_error
    return answers


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_example_has_no_findings(example: str) -> None:
    assert findings(release(example)) == expected(release(example)) == {}


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_checks_report_the_changes_that_open_or_close_ranks(example: str) -> None:
    seen: Counter[str] = Counter()
    for mutation in mutations(example):
        answers = findings(mutation.manifests)
        assert (mutation.name, answers) == (mutation.name, expected(mutation.manifests))
        seen.update([*answers] or ["nothing"])
    several = len({each.labels.get(TENANT_LABEL) for each in release(example) if TENANT_LABEL in each.labels}) > 1
    required = ["ranks_blocked", "dns_blocked", "not_isolated", *(["teams_connect"] if several else []), "nothing"]
    assert min(seen[name] for name in required) > 0, seen


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_removed_policy_is_reported_by_its_effect(example: str) -> None:
    effects = {
        "np-mpi": {"ranks_blocked"},
        "np-dns": {"dns_blocked"},
        "np-default-deny": {"not_isolated"},
    }
    for number, manifest in enumerate(whole := release(example)):
        if manifest.kind == "NetworkPolicy":
            left = [*whole[:number], *whole[number + 1 :]]
            assert (manifest.resource, {*findings(left)}) == (manifest.resource, effects.get(manifest.name, set()))
