"""Admission rules for owners of TrainJobs: submitters delete and isolate only their own jobs.

Kubernetes does not record who created an object, and RBAC has no owners. So an annotation of the job names the user who
may stop it: users who cannot change jobs must set it to their own name, and it never changes. Users who can change
jobs, which the API server's authorizer decides, may stop all of them. The part that needs no authorizer is a rule of
its own, so that it can be judged where there is none.
"""

from __future__ import annotations

from generator.facts.names import JOB_LABEL, JOB_POLICY, OWNER
from generator.policies.admission.policy import TRAINJOBS, Demand, Requests, Rule

_OWNER = f"metadata.?annotations[?'{OWNER}'].orValue('')"
_ME = "request.userInfo.username"
MAY_EDIT = (
    "authorizer.group('trainer.kubeflow.org').resource('trainjobs').namespace(request.namespace)"
    ".check('update').allowed()"
)
"""Whether whoever asks may change everybody's jobs."""


def owner(conditions: dict[str, str]) -> Rule:
    """An owner is whoever submits the job, and stays it."""
    return Rule(
        name="owner",
        requests=[TRAINJOBS],
        variables={
            "owner": f"object.{_OWNER}",
            "before": f"oldObject == null ? '' : oldObject.{_OWNER}",
        },
        demands=[
            Demand(
                f"oldObject != null || variables.owner == '' || variables.owner == {_ME}",
                f"'a job is of whoever submits it; set the annotation {OWNER} to ' + {_ME}",
                "Forbidden",
            ),
            Demand(
                "oldObject == null || variables.owner == variables.before",
                f"'whose a job is never changes; ' + (variables.before == '' ? 'remove the annotation {OWNER}'"
                f" : 'set the annotation {OWNER} to ' + variables.before)",
                "Forbidden",
            ),
        ],
        conditions=conditions,
    )


def own_jobs(conditions: dict[str, str]) -> Rule:
    """Who may not change jobs says whose the job is, and deletes their own only."""
    not_theirs = f"request.operation == 'CREATE' ? object.{_OWNER} == '' : oldObject.{_OWNER} != {_ME}"
    return Rule(
        name="own-jobs",
        requests=[Requests(TRAINJOBS.group, TRAINJOBS.versions, TRAINJOBS.resources, ("CREATE", "DELETE"))],
        variables={"before": f"oldObject == null ? '' : oldObject.{_OWNER}"},
        demands=[
            Demand(
                MAY_EDIT,
                "request.operation == 'CREATE'"
                f" ? 'a job says who may stop it; set the annotation {OWNER} to ' + {_ME}"
                " : 'this job is of ' + (variables.before == '' ? 'an editor' : variables.before)"
                " + '; ask them, or an editor, to delete it'",
                "Forbidden",
            )
        ],
        conditions={**conditions, "not-their-own": not_theirs},
    )


_WRITTEN = "(request.operation == 'DELETE' ? oldObject : object)"
_POLICY_OWNER = f"variables.written.metadata.?annotations[?'{OWNER}'].orValue('')"
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
        variables={"written": _WRITTEN, "pods": label, "owner": _POLICY_OWNER},
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
