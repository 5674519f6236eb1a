"""`access`: the users, groups and ServiceAccounts of a tenant and of the platform."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from generator.config.model.fields import Section, invalid
from generator.documents.messages import format_value
from generator.facts.subjects import Meaning, meaning_of

_NAMESPACE = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_ACCOUNT = rf"serviceaccount:{_NAMESPACE}/[a-z0-9](?:[-a-z0-9.]{{0,251}}[a-z0-9])?"
_SUBJECT = re.compile(rf"(?:group|user):\S(?:.*\S)?|{_ACCOUNT}")
_EVERYBODY = ("system:authenticated", "system:unauthenticated", "system:anonymous", "system:serviceaccounts")
_OF_A_NAMESPACE = re.compile(r"system:serviceaccounts?:(?P<namespace>[^:]+)(?::.*)?")
SUPERUSERS = "system:masters"
"""The group that the API server never rejects."""


_WHY_NOT: Mapping[Meaning, str] = {
    "everyone": "includes every authenticated user",
    "accounts": "includes every ServiceAccount of the cluster",
    "anyone": "includes every user, even without authentication",
    "admins": "already has the role cluster-admin",
    "root": "bypasses every rule",
    "cluster": "is a user or group of the cluster itself",
}


def _is_subject(value: str) -> str:
    if not _SUBJECT.fullmatch(value):
        raise invalid(
            f"{format_value(value)} is not a subject", "write group:NAME, user:NAME or serviceaccount:NAMESPACE/NAME"
        )
    if "*" in value:
        raise invalid(
            f"{format_value(value)} is not a subject: RBAC has no wildcards", "name each group, user or ServiceAccount"
        )
    return value


def explain_unfit_admin(subject: str) -> str:
    """Return why a subject cannot be an administrator of the platform; '' if it can."""
    return "" if meaning_of(subject) == "admins" else explain_cluster_subject(subject)


def explain_cluster_subject(subject: str) -> str:
    """Return why a subject is no team and no person, but a user or group of the cluster itself; '' if it may be one."""
    meaning = meaning_of(subject)
    return f"{format_value(subject)} {_WHY_NOT[meaning]}" if meaning else ""


def _is_member(value: str) -> str:
    if why := explain_cluster_subject(value):
        raise invalid(why, "name a group of your identity provider")
    return value


def _is_reader(value: str) -> str:
    """Reject what is not a member, but allow groups of all callers: a tenant may let everybody read."""
    return value if meaning_of(value) in ("everyone", "accounts") else _is_member(value)


def _is_account(value: str) -> str:
    if not re.fullmatch(_ACCOUNT, value):
        raise invalid(f"{format_value(value)} is not a ServiceAccount", "write serviceaccount:NAMESPACE/NAME")
    return value


Subject = Annotated[str, Field(strict=True), AfterValidator(_is_subject)]
Member = Annotated[Subject, AfterValidator(_is_member)]
Reader = Annotated[Subject, AfterValidator(_is_reader)]
Account = Annotated[str, Field(strict=True), AfterValidator(_is_account)]


class Access(Section):
    """Subjects with a role in the tenant's namespaces.

    Write `group:NAME`, `user:NAME` or `serviceaccount:NAMESPACE/NAME`.
    """

    admin: tuple[Member, ...] = ()
    """Subjects that can edit and grant these four roles to others in the namespace."""
    edit: tuple[Member, ...] = ()
    """Subjects that can submit jobs, change and delete TrainJobs of all users, and create, update and delete volume
    claims and Secrets. No verb reads Secrets; docs/explanations/access.md lists the known gaps."""
    submit: tuple[Member, ...] = ()
    """Subjects that can view, create TrainJobs, and delete their own. The admission rules `owner` and `own-jobs`
    enforce this."""
    view: tuple[Reader, ...] = ()
    """Subjects that can read jobs, pods, logs and queues."""

    @field_validator("admin", "edit", "submit", "view")
    @classmethod
    def _in_order(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(value)))


class PlatformAccess(Section):
    """Subjects that run the platform.

    Write `group:NAME`, `user:NAME` or `serviceaccount:NAMESPACE/NAME`.
    """

    admin: tuple[Subject, ...] = ()
    """Subjects that can change every object of the platform, and stop any job."""
    ci: tuple[Subject, ...] = ()
    """Subjects that can read every object of the platform, and change none."""

    @field_validator("admin", "ci")
    @classmethod
    def _in_order(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(value)))


@dataclass(frozen=True, slots=True)
class Callers:
    """Users and groups as the API server knows them: `request.userInfo` of an admission policy.

    Attributes:
        users: user names, such as `system:serviceaccount:argocd:argocd-application-controller`.
        groups: group names.
    """

    users: tuple[str, ...]
    groups: tuple[str, ...]


def to_callers(subjects: Iterable[str]) -> Callers:
    """Return the users and groups that subjects log in as.

    A ServiceAccount is a user: apiserver v0.34.2 pkg/authentication/serviceaccount/util.go `MakeUsername`.
    """
    named = [subject.partition(":") for subject in subjects]
    users = {name for kind, _, name in named if kind == "user"}
    users |= {f"system:serviceaccount:{name.replace('/', ':')}" for kind, _, name in named if kind == "serviceaccount"}
    groups = {name for kind, _, name in named if kind == "group"}
    return Callers(tuple(sorted(users)), tuple(sorted(groups)))


def explain_impersonation(subject: str, namespaces: Collection[str]) -> str:
    """Return how a user with a job in one of the namespaces can become this subject; '' if this is impossible.

    A user who runs pods in a namespace can run them as any of its ServiceAccounts.
    """
    callers = to_callers([subject])
    for name in (*callers.users, *callers.groups):
        if name in _EVERYBODY:
            return f"{format_value(name)} includes every user"
        account = _OF_A_NAMESPACE.fullmatch(name)
        if account and account["namespace"] in namespaces:
            return f"users who run pods in {account['namespace']} can act as {format_value(name)}"
    return ""
