"""Admission rules for owners of TrainJobs: submitters delete and isolate only their own jobs.

Kubernetes does not record who created an object, and RBAC has no owners. So an annotation of the job names the user who
may stop it: users who cannot change jobs must set it to their own name, and it never changes. Users who can change
jobs, which the API server's authorizer decides, may stop all of them. The part that needs no authorizer is a rule of
its own, so that it can be judged where there is none.
"""

from __future__ import annotations

from generator.facts.names import JOB_LABEL, JOB_POLICY, OWNER
from generator.policies.admission.policy import TRAINJOBS, ResourceRule, Rule, Validation

_OWNER = f"metadata.?annotations[?'{OWNER}'].orValue('')"
_ME = "request.userInfo.username"
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
                f"oldObject != null || variables.owner == '' || variables.owner == {_ME}",
                f"'the owner of a new TrainJob is its submitter; set the annotation {OWNER} to ' + {_ME}",
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
    not_own = f"request.operation == 'CREATE' ? object.{_OWNER} == '' : oldObject.{_OWNER} != {_ME}"
    return Rule(
        name="own-jobs",
        resource_rules=[ResourceRule(TRAINJOBS.group, TRAINJOBS.versions, TRAINJOBS.resources, ("CREATE", "DELETE"))],
        variables={"before": f"oldObject == null ? '' : oldObject.{_OWNER}"},
        validations=[
            Validation(
                MAY_EDIT,
                "request.operation == 'CREATE'"
                f" ? 'the TrainJob names no owner; set the annotation {OWNER} to ' + {_ME}"
                " : 'this TrainJob belongs to ' + (variables.before == '' ? 'an editor' : variables.before)"
                " + '; ask the owner or an editor to delete it'",
                "Forbidden",
            )
        ],
        conditions={"not-their-own": not_own},
    )


_WRITTEN = "(request.operation == 'DELETE' ? oldObject : object)"
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
        variables={"written": _WRITTEN, "pods": label, "owner": _POLICY_OWNER},
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
                f" its annotation {OWNER} must be ' + {_ME}",
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
