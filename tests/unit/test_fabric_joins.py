"""Test that a check reports every broken reference between objects of a fabric, for each kind of fabric."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest

from generator import App
from generator.checks import alone, run
from generator.components.constructs import collect
from generator.manifests import Body, Manifest
from tests.random_fabrics import KINDS, platform_with

NETWORKS = "k8s.v1.cni.cncf.io/networks"
RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
TARGETS = {"trainer": "2.3", "kueue": "0.19"}
_IMAGE = f"quay.io/acme/mpi@sha256:{'0' * 64}"


def rendered(kind: str) -> list[Manifest]:
    """Return all objects of a platform with this fabric and a runtime on it."""
    runtimes = [{"name": "mpi", "use": "openmpi", "pool": "gpu", "image": _IMAGE}]
    manifests = collect(App(platform_with(KINDS[kind], runtimes=runtimes)))
    return [Manifest(deepcopy(each.body), each.file, number) for number, each in enumerate(manifests)]


def told(manifests: list[Manifest]) -> set[str]:
    """Return the checks with findings."""
    of_single = (located for manifest in manifests for located in alone.judge(manifest, TARGETS))
    found = [*run.judge_together(manifests, TARGETS), *of_single]
    return {breach.check for _, breach in found if breach.severity != "info"}


def of(manifests: list[Manifest], *kinds: str) -> list[Body]:
    return [each.body for each in manifests if each.kind in kinds]


def pods(manifests: list[Manifest]) -> list[Body]:
    """Return the pods of the runtime."""
    jobs = [job for body in of(manifests, "ClusterTrainingRuntime") for job in replicated(body)]
    return [job["template"]["spec"]["template"] for job in jobs]


def replicated(runtime: Body) -> list[Body]:
    return list(runtime["spec"]["template"]["spec"]["replicatedJobs"])


def amounts(manifests: list[Manifest]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each place where pods request a device other than a GPU."""
    for template in pods(manifests):
        for container in template["spec"]["containers"]:
            for field in container.get("resources", {}).values():
                for name in [each for each in field if "/" in each and "gpu" not in each]:
                    yield field, name


def other_device(manifests: list[Manifest]) -> bool:
    """Let a network use a device that no node offers."""
    networks = [body for body in of(manifests, "NetworkAttachmentDefinition") if "annotations" in body["metadata"]]
    named = [body["metadata"]["annotations"] for body in networks if RESOURCE in body["metadata"]["annotations"]]
    for said in named:
        said[RESOURCE] = f"example.com/{said[RESOURCE].rpartition('/')[2]}"
    managed = of(manifests, "SriovNetwork", "SriovIBNetwork")
    for body in managed:
        body["spec"]["resourceName"] += "_other"
    return bool(named or managed)


def other_policy(manifests: list[Manifest]) -> bool:
    """Rename the device of the policy, but not in networks and pods."""
    policies = of(manifests, "SriovNetworkNodePolicy")
    for body in policies:
        body["spec"]["resourceName"] += "_other"
    plugins = [
        body["spec"][plugin]
        for body in of(manifests, "NicNodePolicy")
        for plugin in ("sriovDevicePlugin", "rdmaSharedDevicePlugin")
        if plugin in body["spec"]
    ]
    for plugin in plugins:
        config = json.loads(plugin["config"])
        for each in [*config.get("resourceList", []), *config.get("configList", [])]:
            each["resourceName"] += "_other"
        plugin["config"] = json.dumps(config)
    return bool(policies or plugins)


def fewer_devices(manifests: list[Manifest]) -> bool:
    """Remove the devices from hosts."""
    found = list(amounts(manifests))
    for field, name in found:
        del field[name]
    return bool(found)


def fewer_networks(manifests: list[Manifest]) -> bool:
    """Remove the last network from hosts, although each network has a device."""
    attached = [each["metadata"].get("annotations", {}) for each in pods(manifests)]
    attached = [each for each in attached if NETWORKS in each]
    for said in attached:
        said[NETWORKS] = ", ".join(said[NETWORKS].split(", ")[:-1])
    has_devices = any(RESOURCE in body["metadata"].get("annotations", {}) for body in _definitions(manifests))
    return bool(attached) and (has_devices or bool(of(manifests, "SriovNetwork", "SriovIBNetwork")))


def _definitions(manifests: list[Manifest]) -> list[Body]:
    return of(manifests, "NetworkAttachmentDefinition")


def no_network(manifests: list[Manifest]) -> bool:
    """Remove the network of a team that can use the runtime."""
    kinds = ("NetworkAttachmentDefinition", "SriovNetwork", "SriovIBNetwork")
    gone = [each for each in manifests if each.kind in kinds and each.namespace == "team-a-dev"]
    for each in gone:
        manifests.remove(each)
    return bool(gone)


def shared_mode(manifests: list[Manifest]) -> bool:
    """Share RDMA devices on nodes, while a network moves them into pods."""
    pools = [body["spec"] for body in of(manifests, "SriovNetworkPoolConfig") if body["spec"].get("rdmaMode")]
    for spec in pools:
        spec["rdmaMode"] = {"exclusive": "shared", "shared": "exclusive"}[spec["rdmaMode"]]
    return any(spec["rdmaMode"] == "shared" for spec in pools)


def other_link(manifests: list[Manifest]) -> bool:
    """Change the link type of a policy."""
    policies = of(manifests, "SriovNetworkNodePolicy")
    for body in policies:
        body["spec"]["linkType"] = {"ib": "eth", "eth": "ib"}[body["spec"]["linkType"].lower()]
    return bool(policies)


def elsewhere(manifests: list[Manifest]) -> bool:
    """Move the node configuration to a namespace without its operator."""
    policies = of(manifests, "SriovNetworkNodePolicy", "SriovNetworkPoolConfig")
    for body in policies:
        body["metadata"]["namespace"] = "team-b"
    return bool(policies)


def not_covered(manifests: list[Manifest]) -> bool:
    """Remove the devices of the fabric from the queues."""
    names = {name for _, name in amounts(manifests)}
    for body in of(manifests, "ClusterQueue"):
        for group in body["spec"]["resourceGroups"]:
            group["coveredResources"] = [each for each in group["coveredResources"] if each not in names]
            for flavor in group["flavors"]:
                flavor["resources"] = [each for each in flavor["resources"] if each["name"] not in names]
    return bool(names)


def no_template(manifests: list[Manifest]) -> bool:
    """Remove the claim template of a team that can use the runtime."""
    gone = [each for each in manifests if (each.kind, each.namespace) == ("ResourceClaimTemplate", "team-a-dev")]
    for each in gone:
        manifests.remove(each)
    return bool(gone)


def other_claim(manifests: list[Manifest]) -> bool:
    """Let containers claim a device that their pods do not."""
    claims = [
        claim
        for template in pods(manifests)
        for container in template["spec"]["containers"]
        for claim in container.get("resources", {}).get("claims", ())
    ]
    for claim in claims:
        claim["name"] += "-other"
    return bool(claims)


BREAKS: dict[str, tuple[Callable[[list[Manifest]], bool], set[str]]] = {
    "other-device": (other_device, {"fabric/resource-name", "fabric/device-count"}),
    "other-policy": (other_policy, {"fabric/resource-name"}),
    "no-devices": (fewer_devices, {"fabric/device-count", "fabric/tcp-fallback"}),
    "fewer-networks": (fewer_networks, {"fabric/device-count"}),
    "no-network": (no_network, {"fabric/not-attached"}),
    "shared-mode": (shared_mode, {"fabric/rdma-mode"}),
    "other-link": (other_link, {"fabric/link-type"}),
    "elsewhere": (elsewhere, {"fabric/operator-namespace"}),
    "no-template": (no_template, {"fabric/claim"}),
    "other-claim": (other_claim, {"pod/claim"}),
    "not-covered": (not_covered, {"fabric/not-covered", "quota/uncovered"}),
}
"""Name → the function that breaks a platform, with True if it applies, and the checks that may report it."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_broken_reference_of_a_fabric_is_reported(kind: str) -> None:
    sound = rendered(kind)
    assert not {check for check in told(sound) if check.startswith("fabric/")}
    for name, (change, checks) in BREAKS.items():
        broken = [Manifest(deepcopy(each.body), each.file, each.index) for each in sound]
        if change(broken):
            assert told(broken) & checks, name


def test_every_break_applies_to_a_fabric() -> None:
    unused = set(BREAKS)
    for kind in KINDS:
        unused -= {name for name, (change, _) in BREAKS.items() if name in unused and change(rendered(kind))}
    assert unused == set()


@pytest.mark.parametrize("kind", ["efa", "infiniband", "roce-rails", "infiniband-shared"])
@pytest.mark.parametrize("trainer", ["2.2", "2.3"])
def test_a_job_that_replaces_fabric_devices_gets_a_tcp_warning(kind: str, trainer: str) -> None:
    manifests = rendered(kind)
    (device, *_) = sorted({name for _, name in amounts(manifests)})
    for said, check in (({"cpu": 8}, "trainjob/lost-devices"), ({"cpu": 8, device: 0}, "fabric/tcp-fallback")):
        body: Body = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
        body["metadata"] = {"name": "train", "namespace": "team-a"}
        resources = {"limits": said, "requests": said}
        body["spec"] = {"runtimeRef": {"name": "mpi"}, "trainer": {"resourcesPerNode": resources}}
        found = run.judge_together([*manifests, Manifest(body, "job.yaml")], {"trainer": trainer, "kueue": "0.19"})
        whys = [breach.why for manifest, breach in found if manifest.kind == "TrainJob" and breach.check == check]
        is_lost = trainer == "2.2" or check == "fabric/tcp-fallback"
        assert [why for why in whys if "TCP" in why] == whys
        assert bool(whys) == is_lost
