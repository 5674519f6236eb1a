"""Test that the API server accepts and stores the objects of every fabric as written, by the operators' own types."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from generator import App
from generator.components.constructs import collect
from generator.config.model.fabrics import operator_namespaces
from generator.manifests import Manifest
from tests.cluster.client import Client
from tests.cluster.compare import additions, changed
from tests.cluster.control_plane import Cluster
from tests.random_fabrics import KINDS, platform_with

pytestmark = pytest.mark.cluster
_DEFAULTS = {
    "PerformanceProfile": {"spec.kernelPageSize"},
    "ResourceClaimTemplate": {"spec.metadata"},  # the API server: an empty one
    "SriovNetwork": {"spec.logLevel"},
}
"""Kind → what its definition adds."""
_ON_OPENSHIFT = {
    "infiniband": {"memlock": True, "numa": "single-numa-node", "machineConfigPool": "gpu"},
    "roce": {"numa": "restricted", "reservedCpus": "0-3", "isolatedCpus": "4-63"},
}


@pytest.fixture(scope="module")
def namespaces(admin: Client) -> Iterator[set[str]]:
    """Create the namespaces of all teams and operators."""
    platforms = [platform_with(fabric) for fabric in KINDS.values()]
    operators = {
        name
        for platform in platforms
        for name in operator_namespaces(platform.fabrics, is_openshift=platform.cluster.is_openshift)
    }
    names = {*operators, "openshift-sriov-network-operator", "team-a", "team-a-dev", "team-b"}
    bodies = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in sorted(names)]
    for body in bodies:
        admin.apply(body, "tests")
    yield names
    for body in bodies:
        admin.delete(body)


@pytest.mark.parametrize("name", KINDS)
def test_every_network_object_is_stored_as_written(name: str, namespaces: set[str], cluster: Cluster) -> None:
    if KINDS[name].get("attach") == "dra" and cluster.versions["kubernetes"].minor == "1.33":
        pytest.skip("resource.k8s.io/v1 is not there")
    _takes(cluster.admin, _objects(name), namespaces)


@pytest.mark.parametrize("name", _ON_OPENSHIFT)
def test_openshift_machine_config_objects_are_stored_as_written(name: str, namespaces: set[str], admin: Client) -> None:
    found = _objects(name, nodes=_ON_OPENSHIFT[name], distribution="openshift")
    assert {"MachineConfig", "KubeletConfig", "PerformanceProfile"} & {each.kind for each in found}
    _takes(admin, found, namespaces)


def _objects(name: str, distribution: str = "kubernetes", **more: object) -> list[Manifest]:
    platform = platform_with({**KINDS[name], **more}, cluster={"distribution": distribution})
    return [each for each in collect(App(platform)) if each.file.endswith("network.yaml") or "/networks/" in each.file]


def _takes(admin: Client, objects: list[Manifest], namespaces: set[str]) -> None:
    for found in objects:
        assert found.namespace in {*namespaces, ""}
        answer = admin.apply(found.body, dry_run=True)
        assert not answer.warnings
        assert [*changed(found.body, answer.body)] == []
        added = {path for path in additions(found.body, answer.body) if not path.startswith("metadata")}
        assert added <= _DEFAULTS.get(found.kind, set())
