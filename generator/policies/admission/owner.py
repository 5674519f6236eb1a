"""Whose a job is: people who submit jobs stop their own.

Kubernetes does not write down who created an object, and RBAC knows no owners. So a job says itself who may stop it:
people who may not change jobs must put their own name there, and nobody puts another's, then or later. Whoever may
change jobs, which the API server's authorizer says, may stop them all. What needs no authorizer is a rule of its own,
and so is judged also where there is none.
"""

from __future__ import annotations

from generator.facts.names import OWNER
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
