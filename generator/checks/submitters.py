"""Find out if an admission policy rejects an object of every user who may create it, if a command names no user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from generator.errors import SimulationError
from generator.facts.names import OWNER
from generator.objects.fields import mapping, string
from generator.upstream.kubernetes.access import AccessRequest, Subject
from generator.upstream.kubernetes.admission_policies.judge import Decision, judge
from generator.upstream.kubernetes.admission_policies.policy import Policy, PolicyCluster
from generator.upstream.kubernetes.admission_policies.request import Request, UserInfo
from generator.upstream.kubernetes.cel.syntax import find_strings

_ANY = "any user"
_MOST = 64
"""The most users for whom mpigen evaluates one policy. With more users, `reject_all` returns None."""


def reject_all(policy: Policy, request: Request, cluster: PolicyCluster) -> Decision | None:
    """Return the first rejection by a policy that rejects the request of every user who may submit it.

    Return None if the policy accepts the request of a user, or if mpigen cannot decide for all users.

    Args:
        policy: a policy that reads the user.
        request: the request to create a TrainJob, or an object for it.
        cluster: the policies, and the grants of RBAC.
    """
    users = _find_users(policy, request, cluster)
    rejections = []
    for user in users if len(users) <= _MOST else ():
        try:
            decisions = judge(replace(request, user_info=user), cluster, [policy])
        except SimulationError:
            return None
        rejection = next((item for item in decisions if not item.holds and "Deny" in item.actions), None)
        if rejection is None:
            return None
        rejections.append(rejection)
    return rejections[0] if rejections else None


def _find_users(policy: Policy, request: Request, cluster: PolicyCluster) -> Sequence[UserInfo]:
    """Return the users who may create the object, each with some groups.

    The result is empty if the files do not show these users, or if parameters of the policy can name users.

    If the object has an owner in its annotation, only the owner creates it. Otherwise the result has each user to whom
    the files grant `create` on its kind. For members of granted groups, whose names no file shows, the result
    has each name in the texts of the policy, and one other name. Each user is in no group or in one granted group, both
    without and with all groups that the policy names.
    """
    subjects = list(_find_subjects(request, cluster))
    granted = {subject.name for subject in subjects if subject.is_group}
    users = {subject.name for subject in subjects if not subject.is_group}
    owner = string(mapping(request.object, "metadata", "annotations").get(OWNER))
    if not subjects or policy.may_read_user_of_parameters:
        return []
    named = {text for expression in policy.texts for text in find_strings(expression)}
    members = [_ANY, *sorted(named)] if granted else []
    names = [owner] if owner else list(dict.fromkeys((*sorted(users), *members)))
    groups: list[tuple[str, ...]] = [(), *((group,) for group in sorted(granted))]
    groups += [(*group, *sorted(named - {*group})) for group in groups]
    pairs = product(names, dict.fromkeys(groups))
    return [UserInfo(name, group) for name, group in pairs if name in users or granted & {*group}]


def _find_subjects(request: Request, cluster: PolicyCluster) -> Iterator[Subject]:
    """Yield the users and groups to which the files grant a request to create an object."""
    creation = AccessRequest("create", request.kind.group, request.kind.resource, namespace=request.namespace)
    for grant in cluster.access.grants:
        if grant.namespace in ("", request.namespace) and any(rule.allows(creation) for rule in grant.rules):
            yield from grant.subjects
