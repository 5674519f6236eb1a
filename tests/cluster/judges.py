"""Judge a deployed tree: every judge returns its complaints, and none for a sound tree.

The tests of the examples ask each judge in a test of its own; the mutation tests ask all of them about broken trees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from generator.manifests import Manifest
from tests.cluster.client import Body, Client, wait_for, wait_until
from tests.cluster.compare import additions, changed
from tests.cluster.runs import Ran
from tests.cluster.training import COMMAND, ROLE, conditions, ranks_of_a_node
from tests.cluster.trees import Deployed, moves

_PATIENCE = 20
"""Seconds until a queue that is not active counts as inactive."""
REVIEWED: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("added_fields.yaml").read_text())


def refused(deployed: Deployed) -> list[str]:
    """Return the objects that the API server, an admission plugin or a webhook rejects."""
    return [f"{found.manifest.resource}: {found.refusal}" for found in deployed.outcomes if found.refusal]


def warned_about(deployed: Deployed) -> list[str]:
    """Return the objects that are accepted with a warning."""
    return [f"{found.manifest.resource}: {text}" for found in deployed.outcomes for text in found.warnings]


def stored_otherwise(deployed: Deployed, stored: list[Body]) -> list[str]:
    """Return written fields that are stored differently, which Argo CD would report as drift."""
    pairs = zip(deployed.stored, stored, strict=True)
    return [f"{found.resource}: {change}" for found, body in pairs for change in changed(found.body, body)]


def added_by_others(deployed: Deployed, stored: list[Body]) -> Iterator[tuple[str, str, str, Any]]:
    """Return stored fields that were not written: resource, kind, path and value."""
    for found, body in zip(deployed.stored, stored, strict=True):
        for path, value in additions(found.body, body).items():
            yield found.resource, found.kind, path, value


def unknown_additions(deployed: Deployed, stored: list[Body]) -> list[str]:
    """Return added fields without a review. On a loaded machine, a controller may not have written a status yet."""
    return [
        f"{resource}: {path}: {value!r}"
        for resource, kind, path, value in added_by_others(deployed, stored)
        if (path, value) != ("status", {}) and REVIEWED.get(kind, {}).get(path, "absent") not in (value, "*")
    ]


def moved_by_a_second_apply(deployed: Deployed, stored: list[Body]) -> list[str]:
    """Return the objects that a second apply of the same text writes to.

    A PersistentVolumeClaim gets another `resourceVersion` by the second apply, with nothing else changed, and by no
    later one: only the stored form of its fields changes, not their values.
    """
    return [
        found.resource for found, one in zip(deployed.stored, stored, strict=True) if _is_moved(deployed, found, one)
    ]


def _is_moved(deployed: Deployed, found: Manifest, one: Body) -> bool:
    """Return True if an apply writes to the object. A controller may write its status at the same time."""
    two = deployed.account.apply(found.body).body
    if _alike(one, two):
        return moves(one, two) and moves(two, deployed.account.apply(found.body).body)
    return _without_status(one) != _without_status(two)


def _without_status(body: Body) -> Body:
    metadata = {key: value for key, value in body["metadata"].items() if key != "resourceVersion"}
    managers = [each for each in metadata.get("managedFields", []) if each.get("subresource") != "status"]
    rest = {key: value for key, value in body.items() if key != "status"}
    return {**rest, "metadata": {**metadata, "managedFields": managers}}


def _alike(one: Body, two: Body) -> bool:
    """Return True if only the resource version differs."""
    version = two["metadata"]["resourceVersion"]
    return {**one, "metadata": {**one["metadata"], "resourceVersion": version}} == two


def inactive_queues(deployed: Deployed, admin: Client) -> list[str]:
    """Return the queues that are not active."""
    queues = [found for found in deployed.stored if found.kind in {"ClusterQueue", "LocalQueue"}]
    said = [(queue.resource, _condition(admin, queue.body, "Active")) for queue in queues]
    return [f"{queue}: {found['reason']}: {found['message']}" for queue, found in said if found["status"] != "True"]


def never_complete(everything: Iterable[Ran]) -> list[str]:
    """Jobs that cannot be submitted, never run, or fail."""
    return [f"{ran.job}: {ran.obstacle}" for ran in everything if ran.obstacle]


def unknown_to_kueue(everything: Iterable[Ran]) -> list[str]:
    """Jobs that ran without Kueue's leave, or that it does not take for finished."""
    return [
        f"{ran.job}: it ran, and Kueue says {reason!r}"
        for ran in _completed(everything)
        if (reason := _finished(ran.workload)) != "Succeeded"
    ]


def on_another_pool(everything: Iterable[Ran]) -> list[str]:
    """Jobs whose hosts are elsewhere than on the runtime's pool, or that Kueue counts elsewhere."""
    found = [(ran, _nodes(ran), _flavors(ran)) for ran in _completed(everything)]
    return [
        f"{ran.job}: it ran on {sorted(nodes)} and was counted as {sorted(flavors)}; the pool is {pool}"
        for ran, nodes, flavors in found
        if {pool := ran.training.pool.name} != nodes or {pool} != (flavors or {pool})
    ]


def sharing_a_node(everything: Iterable[Ran]) -> list[str]:
    """Jobs with two hosts on one node, although a host takes more than half of it: all but those on MIG slices."""
    whole = [ran for ran in _completed(everything) if ran.training.pool.device != "nvidia-mig"]
    placed = [(ran.job, [pod["spec"]["nodeName"] for pod in ran.hosts]) for ran in whole]
    return [f"{job}: {sorted(nodes)}" for job, nodes in placed if len(set(nodes)) < len(nodes)]


def given_other_hosts(everything: Iterable[Ran]) -> list[str]:
    """Jobs whose hostfile is not the names of their pods, each with a slot for each rank."""
    return [
        f"{ran.job}: {given}; its pods are {wanted}"
        for ran in _completed(everything)
        for given in [sorted(ran.hostfile.splitlines())]
        for wanted in [sorted(f"{_host(pod)} slots={_ranks(ran, pod)}" for pod in ran.hosts)]
        if given != wanted
    ]


def running_another_command(everything: Iterable[Ran]) -> list[str]:
    """Jobs whose launcher alone does not run what was asked for."""
    return [
        f"{ran.job}: {_commands(ran)}"
        for ran in _completed(everything)
        if [role for role, command in _commands(ran) if command == COMMAND] != ["launcher"]
    ]


def other_reasons(said: Mapping[str, Body], expected: Mapping[str, Body]) -> list[str]:
    """Runtimes on which Kueue gives a job over quota another reason than the reviewed one."""
    runtimes = sorted({*said, *expected})
    return [
        f"{runtime}: {said.get(runtime)}; reviewed is {expected.get(runtime)}"
        for runtime in runtimes
        if said.get(runtime) != expected.get(runtime)
    ]


def _completed(everything: Iterable[Ran]) -> Iterator[Ran]:
    return (ran for ran in everything if ran.is_complete)


def _finished(workload: Body | None) -> str:
    found = (found for found in conditions(workload or {}) if found["type"] == "Finished")
    return next((str(condition["reason"]) for condition in found), "nothing")


def _nodes(ran: Ran) -> set[str]:
    """The pools whose nodes its hosts are on; the name of a node begins with its pool's."""
    return {pod["spec"]["nodeName"].rpartition("-")[0] for pod in ran.hosts}


def _flavors(ran: Ran) -> set[str]:
    """The flavors that Kueue counts its hosts as; none if Kueue never knew."""
    hosts = {pod["metadata"]["labels"][ROLE] for pod in ran.hosts}
    assignments = (ran.workload or {}).get("status", {}).get("admission", {}).get("podSetAssignments", [])
    return {flavor for each in assignments if each["name"] in hosts for flavor in each["flavors"].values()}


def _host(pod: Body) -> str:
    """The name that its headless Service gives it."""
    return f"{pod['spec']['hostname']}.{pod['spec']['subdomain']}"


def _ranks(ran: Ran, pod: Body) -> int:
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    return ranks_of_a_node(ran.training.runtime, ran.training.pool, limits)


def _commands(ran: Ran) -> list[tuple[str, list[str] | None]]:
    return [(pod["metadata"]["labels"][ROLE], pod["spec"]["containers"][0].get("command")) for pod in ran.pods]


def _condition(admin: Client, body: Body, wanted: str) -> Body:
    """Return a condition of an object, as soon as it is True or has not become True for some seconds.

    A LocalQueue that exists before its ClusterQueue is inactive at first.
    """

    def found() -> Body | None:
        return next((found for found in conditions(admin.read(body)) if found["type"] == wanted), None)

    def is_true() -> bool:
        condition = found()
        return condition is not None and condition["status"] == "True"

    with suppress(TimeoutError):
        wait_until(f"{body['kind']} {body['metadata']['name']} is {wanted}", is_true, _PATIENCE)
    return wait_for(f"{body['kind']} {body['metadata']['name']} says whether it is {wanted}", found)
