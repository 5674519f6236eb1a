"""The HardwareProfiles that the dashboard of OpenShift AI offers in a namespace of a team, one for each usable pool.

The namespaces of teams have the label `kueue.openshift.io/managed`, so the dashboard offers only profiles of the type
`Queue` whose LocalQueue exists there (opendatahub-io/odh-dashboard v3.5.0
packages/hardware-profiles/shared/kueueUtils.ts filterProfilesByKueue). Such a profile cannot select nodes: Kueue
chooses the flavor. `minCount` and `maxCount` limit the input of users in the dashboard, but not the pods. The dashboard
warns about amounts that are not whole numbers (packages/hardware-profiles/src/pages/manage/validationUtils.ts), so
amounts are whole cores and whole GiB.

Source: opendatahub-operator v3.5.0 api/infrastructure/v1/hardwareprofile_types.go HardwareProfileSpec
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from generator.config.model.pools import Pool
from generator.config.model.quotas import quota_amounts
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.facts.names import LOCAL_QUEUE
from generator.manifests import Body

_VISIBILITY = {"notebooks.kubeflow.org": "workbench", "inferenceservices.serving.kserve.io": "model-serving"}
"""Resource that users of the dashboard create → the feature that offers a profile.

Source: opendatahub-io/odh-dashboard v3.5.0 packages/k8s-core/src/k8sTypes.ts HardwareProfileFeatureVisibility
"""
_GIB = 2**30
_USUAL_CORES, _USUAL_GIB = 2, 8


def hardware_profiles(home: Tenant, platform: Platform) -> Iterator[Body]:
    """Yield the HardwareProfiles of a namespace of a team: none for a retired team, or without a feature to offer them.

    Args:
        home: the team, with the name of the namespace.
        platform: its platform.
    """
    kinds = {*platform.policies.workloads.kinds, *home.workloads.kinds}
    features = [feature for resource, feature in _VISIBILITY.items() if resource in kinds]
    if platform.cluster.openshift_ai is None or home.retired or home.multi_kueue or not features:
        return
    shares = (*home.quotas, home.borrow)
    usable = {
        name
        for share in shares
        for name, amounts in quota_amounts(share, platform.supplies).items()
        if any(amount.value for amount in amounts.values())
    }
    for pool in platform.pools:
        if pool.name in usable:
            yield _hardware_profile(pool, home, features, platform.cluster.openshift_ai.description or "")


def _hardware_profile(pool: Pool, home: Tenant, features: list[str], description: str) -> Body:
    identifiers = [*_identifiers(pool)]
    most = ", ".join(f"{entry['maxCount']} {entry['identifier']}" for entry in identifiers)
    node = f"At most a node of pool {pool.name}: {most}."
    return {
        "apiVersion": "infrastructure.opendatahub.io/v1",
        "kind": "HardwareProfile",
        "metadata": {
            "name": pool.name,
            "namespace": home.name,
            "annotations": {
                "opendatahub.io/display-name": pool.name,
                "opendatahub.io/description": f"{node} {description}".strip(),
                "opendatahub.io/disabled": "false",
                "opendatahub.io/dashboard-feature-visibility": json.dumps(features),
            },
        },
        "spec": {
            "identifiers": identifiers,
            "scheduling": {"type": "Queue", "kueue": {"localQueueName": LOCAL_QUEUE}},
        },
    }


def _identifiers(pool: Pool) -> Iterator[Body]:
    """Yield the amounts of cpu, memory and accelerators.

    By default, a pod gets one accelerator and the share of a node that belongs to one accelerator. On a pool without
    accelerators, a pod gets 2 cores and 8 GiB by default, or a smaller node.
    """
    cores = max(int(pool.offered["cpu"].value), 1)
    gib = max(int(pool.offered["memory"].value / _GIB), 1)
    accelerator = pool.accelerator
    devices = int(pool.offered[accelerator].value) if accelerator else 0
    usual_cores, usual_gib = (cores // devices, gib // devices) if devices else (_USUAL_CORES, _USUAL_GIB)
    yield _identifier("CPU", "cpu", "CPU", min(max(usual_cores, 1), cores), cores)
    memory = _identifier("Memory", "memory", "Memory", min(max(usual_gib, 1), gib), gib)
    counts = ("minCount", "maxCount", "defaultCount")
    yield {**memory, **{count: f"{memory[count]}Gi" for count in counts}}
    if devices:
        yield _identifier(accelerator, accelerator, "Accelerator", 1, devices)


def _identifier(name: str, resource: str, kind: str, usual: int, most: int) -> Body:
    return {
        "displayName": name,
        "identifier": resource,
        "minCount": 1,
        "maxCount": most,
        "defaultCount": usual,
        "resourceType": kind,
    }
