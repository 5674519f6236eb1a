"""Admission rules for objects that only the platform or a controller changes: queues, keys, generated objects."""

from __future__ import annotations

import json
from collections.abc import Sequence

from generator.policies.admission.policy import ResourceRule, Rule, Validation, parameter

_ANY_CHANGE = ("CREATE", "UPDATE", "DELETE")
_LOCAL_QUEUES = ResourceRule("kueue.x-k8s.io", ("v1beta2",), ("localqueues",))
_OWNED = (
    ResourceRule(
        "", ("v1",), ("configmaps", "limitranges", "namespaces", "resourcequotas", "serviceaccounts"), _ANY_CHANGE
    ),
    # Storage drivers, in any namespace, update claims; deleting a claim deletes its data.
    ResourceRule("", ("v1",), ("persistentvolumeclaims",), ("DELETE",)),
    ResourceRule("networking.k8s.io", ("v1",), ("networkpolicies",), _ANY_CHANGE),
    ResourceRule("cilium.io", ("v2",), ("ciliumnetworkpolicies",), _ANY_CHANGE),
    ResourceRule(
        "policy.networking.k8s.io",
        ("v1alpha1",),
        ("adminnetworkpolicies", "baselineadminnetworkpolicies"),
        _ANY_CHANGE,
    ),
    ResourceRule(
        "rbac.authorization.k8s.io",
        ("v1",),
        ("clusterrolebindings", "clusterroles", "rolebindings", "roles"),
        _ANY_CHANGE,
    ),
    ResourceRule("k8s.cni.cncf.io", ("v1",), ("network-attachment-definitions",), _ANY_CHANGE),
    ResourceRule("machineconfiguration.openshift.io", ("v1",), ("kubeletconfigs", "machineconfigs"), _ANY_CHANGE),
    ResourceRule("mellanox.com", ("v1alpha1",), ("nicnodepolicies",), _ANY_CHANGE),
    ResourceRule("nv-ipam.nvidia.com", ("v1alpha1",), ("ippools",), _ANY_CHANGE),
    ResourceRule("performance.openshift.io", ("v2",), ("performanceprofiles",), _ANY_CHANGE),
    ResourceRule("resource.k8s.io", ("v1",), ("deviceclasses", "resourceclaimtemplates"), _ANY_CHANGE),
    ResourceRule(
        "sriovnetwork.openshift.io",
        ("v1",),
        ("sriovibnetworks", "sriovnetworknodepolicies", "sriovnetworkpoolconfigs", "sriovnetworks"),
        _ANY_CHANGE,
    ),
    ResourceRule("trainer.kubeflow.org", ("v1alpha1",), ("clustertrainingruntimes", "trainingruntimes"), _ANY_CHANGE),
    ResourceRule("kueue.x-k8s.io", ("*",), ("*",), _ANY_CHANGE),
)


def local_queues() -> Rule:
    """Require the ClusterQueue of the team in a LocalQueue. Its `clusterQueue` never changes."""
    return Rule(
        name="local-queues",
        resource_rules=[_LOCAL_QUEUES],
        variables={"clusterQueue": parameter("cluster-queue")},
        validations=[
            Validation(
                "oldObject != null || object.spec.?clusterQueue.orValue('') == variables.clusterQueue",
                "'a LocalQueue of this namespace must use the ClusterQueue ' + variables.clusterQueue"
                " + '; set spec.clusterQueue to it'",
                "Forbidden",
            )
        ],
    )


def keys() -> Rule:
    """Forbid Secrets with the name of a job's ssh key: Trainer uses an existing one, also if a user created it.

    Trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go calls `buildSSHAuthSecret` only if there is no Secret.
    """
    return Rule(
        name="keys",
        resource_rules=[ResourceRule("", ("v1",), ("secrets",), _ANY_CHANGE)],
        validations=[
            Validation(
                "!request.name.endsWith('-mpi-ssh-auth')",
                "'only Trainer creates and deletes the ssh key of a TrainJob;"
                " choose a name that does not end in -mpi-ssh-auth'",
                "Forbidden",
            )
        ],
    )


def generated(users: Sequence[str], groups: Sequence[str], labels: dict[str, str]) -> Rule:
    """Allow changes of generated objects only to the accounts that apply releases.

    The API server matches the labels of the old and of the new object, so removing the labels does not evade the rule.

    Args:
        users: the users who may change generated objects.
        groups: the groups that may.
        labels: labels of generated objects.
    """
    callers = []  # CEL reads strings like JSON
    if users:
        callers.append(f"request.userInfo.username in {json.dumps([*users])}")
    if groups:
        callers.append(f"request.userInfo.groups.exists(group, group in {json.dumps([*groups])})")
    return Rule(
        name="generated",
        resource_rules=_OWNED,
        validations=[
            Validation(
                " || ".join(callers),
                "'this ' + request.kind.kind + ' is generated; change the platform file and release it'",
                "Forbidden",
            )
        ],
        object_labels=labels,
        is_cluster_wide=True,
    )
