"""The ConfigMaps from which people who train read what the cluster offers, and the namespace of the shared one.

One ConfigMap has the objects that all teams share, such as runtimes and admission policies. Each team has a ConfigMap
with its own objects in its first namespace. The rendering fills both (generator/jobs/config_maps.py). So a change of a
runtime changes one ConfigMap, and no member of a team needs the right to list ClusterQueues or policies.

The shared ConfigMap has a namespace of its own, in which no member can write and no pod runs, so the namespace needs no
NetworkPolicy.
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.facts.names import CATALOGUE, CATALOGUE_LABEL, POD_SECURITY_ENFORCE, TEAM_CATALOGUE
from generator.manifests import Body


def shared_catalogue(platform: Platform) -> Iterator[Body]:
    """Yield the namespace of the shared catalogue with its ConfigMap, still empty."""
    cluster, namespace = platform.cluster, platform.catalogue_namespace
    sync = {"security.openshift.io/scc.podSecurityLabelSync": "false"} if cluster.is_openshift else {}
    yield {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": namespace,
            "labels": {
                CATALOGUE_LABEL: "platform",
                POD_SECURITY_ENFORCE: "restricted",
                "pod-security.kubernetes.io/enforce-version": f"v{cluster.versions.kubernetes}",
                **sync,
            },
        },
    }
    yield _config_map(CATALOGUE, namespace, "platform")


def team_catalogue(tenant: Tenant) -> Body:
    """Return the ConfigMap with the catalogue of a team, still empty."""
    return _config_map(TEAM_CATALOGUE, tenant.name, "team")


def _config_map(name: str, namespace: str, part: str) -> Body:
    metadata = {"name": name, "namespace": namespace, "labels": {CATALOGUE_LABEL: part}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
