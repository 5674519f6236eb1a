"""Admission rules for protected objects: TrainJobs of other users, LocalQueues, ssh keys and generated objects.

Kubernetes does not record who created an object, and RBAC has no owners. So an annotation of the job names the user who
may delete it: users who cannot change jobs must set it to their own name, and it never changes. Users who can change
jobs, which the API server's authorizer decides, may delete all of them. The part that needs no authorizer is a rule of
its own, so that it can be judged where there is none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from generator.facts.names import JOB_LABEL, JOB_POLICY, OWNER
from generator.policies.admission.policy import TRAINJOBS, ResourceRule, Rule, Validation, parameter

_OWNER = f"metadata.?annotations[?'{OWNER}'].orValue('')"
_CALLER = "request.userInfo.username"
MAY_EDIT = (
    "authorizer.group('trainer.kubeflow.org').resource('trainjobs').namespace(request.namespace)"
    ".check('update').allowed()"
)
"""CEL: the caller may change all jobs."""


def owner() -> Rule:
    """Require the submitter as the owner of a new job, and forbid changing the owner."""
    return Rule(
        name="owner",
        resource_rules=[TRAINJOBS],
        variables={
            "owner": f"object.{_OWNER}",
            "before": f"oldObject == null ? '' : oldObject.{_OWNER}",
        },
        validations=[
            Validation(
                f"oldObject != null || variables.owner == '' || variables.owner == {_CALLER}",
                f"'the owner of a new TrainJob is its submitter; set the annotation {OWNER} to ' + {_CALLER}",
                "Forbidden",
            ),
            Validation(
                "oldObject == null || variables.owner == variables.before",
                f"'the owner of a TrainJob never changes; ' + (variables.before == '' ? 'remove the annotation {OWNER}'"
                f" : 'set the annotation {OWNER} to ' + variables.before)",
                "Forbidden",
            ),
        ],
    )


def own_jobs() -> Rule:
    """Require users who cannot change jobs to name an owner, and to delete only their own jobs."""
    not_own = f"request.operation == 'CREATE' ? object.{_OWNER} == '' : oldObject.{_OWNER} != {_CALLER}"
    return Rule(
        name="own-jobs",
        resource_rules=[ResourceRule(TRAINJOBS.group, TRAINJOBS.versions, TRAINJOBS.resources, ("CREATE", "DELETE"))],
        variables={"before": f"oldObject == null ? '' : oldObject.{_OWNER}"},
        validations=[
            Validation(
                MAY_EDIT,
                "request.operation == 'CREATE'"
                f" ? 'the TrainJob names no owner; set the annotation {OWNER} to ' + {_CALLER}"
                " : 'this TrainJob belongs to ' + (variables.before == '' ? 'an editor' : variables.before)"
                " + '; ask the owner or an editor to delete it'",
                "Forbidden",
            )
        ],
        conditions={"not-their-own": not_own},
    )


_WRITTEN_OBJECT = "(request.operation == 'DELETE' ? oldObject : object)"
_POLICY_OWNER = f"variables.written.metadata.?annotations[?'{OWNER}'].orValue('')"
_MAY_UPDATE = (
    "authorizer.group('networking.k8s.io').resource('networkpolicies').namespace(request.namespace)"
    ".name(request.name).check('update').allowed()"
)


def job_isolation() -> Rule:
    """Require that users write only NetworkPolicies that allow traffic between the pods of one of their TrainJobs.

    RBAC lets submitters create and delete NetworkPolicies, but not update them. The rule ignores callers who may update
    them: Argo CD, platform admins, and the controller of OpenShift AI, which writes some. A policy names its owner as
    its job does. `authorizer`: kubernetes v1.34.2 staging/src/k8s.io/apiserver/pkg/cel/library/authz.go.
    """
    label = f"{{'{JOB_LABEL}': variables.written.metadata.name.replace('{JOB_POLICY}', '', 1)}}"
    shape = " && ".join(
        [
            _selects("object.spec.podSelector"),
            _allows_only_own_pods("ingress", "from"),
            _allows_only_own_pods("egress", "to"),
        ]
    )
    return Rule(
        name="job-isolation",
        resource_rules=[
            ResourceRule("networking.k8s.io", ("v1",), ("networkpolicies",), ("CREATE", "UPDATE", "DELETE"))
        ],
        variables={"written": _WRITTEN_OBJECT, "pods": label, "owner": _POLICY_OWNER},
        validations=[
            Validation(
                f"variables.written.metadata.name.startsWith('{JOB_POLICY}')",
                "'users can create and delete only NetworkPolicies of TrainJobs;"
                f" name it {JOB_POLICY}NAME, after the TrainJob'",
                "Forbidden",
            ),
            Validation(
                f"variables.owner == request.userInfo.username || {MAY_EDIT}",
                "'only the owner of a TrainJob can create and delete its NetworkPolicy;"
                f" its annotation {OWNER} must be ' + {_CALLER}",
                "Forbidden",
            ),
            Validation(
                f"request.operation == 'DELETE' || ({shape})",
                "'the NetworkPolicy of a TrainJob may only allow traffic between its pods; `mpigen job new` writes it'",
            ),
        ],
        conditions={"of-submitters": f"!{_MAY_UPDATE}"},
    )


def _selects(selector: str) -> str:
    """Return CEL that is true if a selector is exactly the label of the job."""
    return f"{selector}.?matchLabels.orValue({{}}) == variables.pods && !has({selector}.matchExpressions)"


def _allows_only_own_pods(direction: str, peers: str) -> str:
    """Return CEL that is true if every rule of a direction allows only pods of the job."""
    only = "has(peer.podSelector) && !has(peer.namespaceSelector) && !has(peer.ipBlock)"
    peer = f"{only} && {_selects('peer.podSelector')}"
    rule = f"size(rule.?{peers}.orValue([])) > 0 && rule.{peers}.all(peer, {peer})"
    return f"object.spec.?{direction}.orValue([]).all(rule, {rule})"


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
