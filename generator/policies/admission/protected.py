"""Admission rules for objects that only the platform or a controller changes: queues, keys, generated objects."""

from __future__ import annotations

import json
from collections.abc import Sequence

from generator.policies.admission.policy import Demand, Requests, Rule, parameter

_ANY_CHANGE = ("CREATE", "UPDATE", "DELETE")
_LOCAL_QUEUES = Requests("kueue.x-k8s.io", ("v1beta2",), ("localqueues",))
_OWNED = (
    Requests(
        "", ("v1",), ("configmaps", "limitranges", "namespaces", "resourcequotas", "serviceaccounts"), _ANY_CHANGE
    ),
    # Its drivers, wherever they are installed, write to a claim; with the claim goes what is on it.
    Requests("", ("v1",), ("persistentvolumeclaims",), ("DELETE",)),
    Requests("networking.k8s.io", ("v1",), ("networkpolicies",), _ANY_CHANGE),
    Requests("cilium.io", ("v2",), ("ciliumnetworkpolicies",), _ANY_CHANGE),
    Requests(
        "policy.networking.k8s.io",
        ("v1alpha1",),
        ("adminnetworkpolicies", "baselineadminnetworkpolicies"),
        _ANY_CHANGE,
    ),
    Requests(
        "rbac.authorization.k8s.io",
        ("v1",),
        ("clusterrolebindings", "clusterroles", "rolebindings", "roles"),
        _ANY_CHANGE,
    ),
    Requests("k8s.cni.cncf.io", ("v1",), ("network-attachment-definitions",), _ANY_CHANGE),
    Requests("machineconfiguration.openshift.io", ("v1",), ("kubeletconfigs", "machineconfigs"), _ANY_CHANGE),
    Requests("mellanox.com", ("v1alpha1",), ("nicnodepolicies",), _ANY_CHANGE),
    Requests("nv-ipam.nvidia.com", ("v1alpha1",), ("ippools",), _ANY_CHANGE),
    Requests("performance.openshift.io", ("v2",), ("performanceprofiles",), _ANY_CHANGE),
    Requests("resource.k8s.io", ("v1",), ("deviceclasses", "resourceclaimtemplates"), _ANY_CHANGE),
    Requests(
        "sriovnetwork.openshift.io",
        ("v1",),
        ("sriovibnetworks", "sriovnetworknodepolicies", "sriovnetworkpoolconfigs", "sriovnetworks"),
        _ANY_CHANGE,
    ),
    Requests("trainer.kubeflow.org", ("v1alpha1",), ("clustertrainingruntimes", "trainingruntimes"), _ANY_CHANGE),
    Requests("kueue.x-k8s.io", ("*",), ("*",), _ANY_CHANGE),
)


def local_queues(conditions: dict[str, str]) -> Rule:
    """A LocalQueue leads to the team's own ClusterQueue; its `clusterQueue` never changes."""
    return Rule(
        name="local-queues",
        requests=[_LOCAL_QUEUES],
        variables={"clusterQueue": parameter("cluster-queue")},
        demands=[
            Demand(
                "oldObject != null || object.spec.?clusterQueue.orValue('') == variables.clusterQueue",
                "'the queues of this namespace lead to ' + variables.clusterQueue + '; set spec.clusterQueue to it'",
                "Forbidden",
            )
        ],
        conditions=conditions,
    )


def keys(conditions: dict[str, str]) -> Rule:
    """The keys of jobs are made by Trainer: it takes one that is there already, whoever made it.

    Trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go calls `buildSSHAuthSecret` only where there is no Secret.
    """
    return Rule(
        name="keys",
        requests=[Requests("", ("v1",), ("secrets",), _ANY_CHANGE)],
        variables={},
        demands=[
            Demand(
                "!request.name.endsWith('-mpi-ssh-auth')",
                "'Trainer makes the key of a job, and takes it away with the job; choose another name'",
                "Forbidden",
            )
        ],
        conditions=conditions,
    )


def generated(
    users: Sequence[str], groups: Sequence[str], labelled: dict[str, str], conditions: dict[str, str]
) -> Rule:
    """What is generated changes by a new release: by hand it would be undone, or worse, not noticed.

    It looks at the labels before and after, so that nobody gets round it by removing them.
    """
    those = " || ".join(
        [
            *([f"request.userInfo.username in {_listed(users)}"] if users else []),
            *([f"request.userInfo.groups.exists(group, group in {_listed(groups)})"] if groups else []),
        ]
    )
    return Rule(
        name="generated",
        requests=_OWNED,
        variables={},
        demands=[
            Demand(
                those,
                "'this ' + request.kind.kind + ' is generated; change the platform file, and release it'",
                "Forbidden",
            )
        ],
        conditions=conditions,
        labelled=labelled,
        is_for_tenants=False,
    )


def _listed(texts: Sequence[str]) -> str:
    """As a list of CEL, which reads strings like JSON."""
    return json.dumps([*texts])
