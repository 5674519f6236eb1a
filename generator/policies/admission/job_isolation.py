"""Which NetworkPolicies people write where jobs are kept apart: those of TrainJobs, in one shape only.

RBAC lets submitters create and delete them, and update none. Whoever may update them is no submitter (Argo CD, those
who run the platform, the controller of OpenShift AI, which writes some) and is not asked. A policy says whose it is as
its job does: see owner.py. `authorizer`: kubernetes v1.34.2 staging/src/k8s.io/apiserver/pkg/cel/library/authz.go.
"""

from __future__ import annotations

from generator.facts.names import JOB_LABEL, JOB_POLICY, OWNER
from generator.policies.admission.owner import MAY_EDIT
from generator.policies.admission.policy import Demand, Requests, Rule

_WRITTEN = "(request.operation == 'DELETE' ? oldObject : object)"
_OWNER = f"variables.written.metadata.?annotations[?'{OWNER}'].orValue('')"
_MAY_UPDATE = (
    "authorizer.group('networking.k8s.io').resource('networkpolicies').namespace(request.namespace)"
    ".name(request.name).check('update').allowed()"
)


def job_isolation(conditions: dict[str, str]) -> Rule:
    """The pods of one TrainJob, from and to themselves, under its name."""
    label = f"{{'{JOB_LABEL}': variables.written.metadata.name.replace('{JOB_POLICY}', '', 1)}}"
    shape = " && ".join([_selects("object.spec.podSelector"), _meets("ingress", "from"), _meets("egress", "to")])
    return Rule(
        name="job-isolation",
        requests=[Requests("networking.k8s.io", ("v1",), ("networkpolicies",), ("CREATE", "UPDATE", "DELETE"))],
        variables={"written": _WRITTEN, "pods": label, "owner": _OWNER},
        demands=[
            Demand(
                f"variables.written.metadata.name.startsWith('{JOB_POLICY}')",
                f"'people write and delete NetworkPolicies of TrainJobs only: {JOB_POLICY}<name of the TrainJob>'",
                "Forbidden",
            ),
            Demand(
                f"variables.owner == request.userInfo.username || {MAY_EDIT}",
                f"'it is of whoever submits the TrainJob, and their user name is its annotation {OWNER}'",
                "Forbidden",
            ),
            Demand(
                f"request.operation == 'DELETE' || ({shape})",
                "'the NetworkPolicy of a TrainJob lets its own pods meet and nothing else; `mpigen job new` writes it'",
            ),
        ],
        conditions={**conditions, "of-submitters": f"!{_MAY_UPDATE}"},
    )


def _selects(selector: str) -> str:
    """Whether a selector is the job's label and nothing else."""
    return f"{selector}.?matchLabels.orValue({{}}) == variables.pods && !has({selector}.matchExpressions)"


def _meets(direction: str, peers: str) -> str:
    """Whether all rules of a direction name pods of the job, and nobody else."""
    only = "has(peer.podSelector) && !has(peer.namespaceSelector) && !has(peer.ipBlock)"
    peer = f"{only} && {_selects('peer.podSelector')}"
    rule = f"size(rule.?{peers}.orValue([])) > 0 && rule.{peers}.all(peer, {peer})"
    return f"object.spec.?{direction}.orValue([]).all(rule, {rule})"
