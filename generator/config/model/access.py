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
"""The group that the API server refuses nothing: whoever is in it can remove what would stop them."""


_WHY_NOT: Mapping[Meaning, str] = {
    "everyone": "is every caller that has logged in",
    "accounts": "is every ServiceAccount of the cluster",
    "anyone": "is every caller, even without a login",
    "admins": "has the role cluster-admin already",
    "root": "may do everything already, and no rule stops it",
    "cluster": "belongs to the cluster itself",
}


def _is_subject(value: str) -> str:
    if not _SUBJECT.fullmatch(value):
        raise invalid(
            f"{format_value(value)} names nobody", "write group:NAME, user:NAME or serviceaccount:NAMESPACE/NAME"
        )
    if "*" in value:
        raise invalid(
            f"{format_value(value)} is no subject: RBAC has no wildcards", "name each group, user or ServiceAccount"
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
    """Refuse the same, but for every caller that has logged in: all may read, if that is meant."""
    return value if meaning_of(value) in ("everyone", "accounts") else _is_member(value)


def _is_account(value: str) -> str:
    if not re.fullmatch(_ACCOUNT, value):
        raise invalid(f"{format_value(value)} names no ServiceAccount", "write serviceaccount:NAMESPACE/NAME")
    return value


Subject = Annotated[str, Field(strict=True), AfterValidator(_is_subject)]
Member = Annotated[Subject, AfterValidator(_is_member)]
Reader = Annotated[Subject, AfterValidator(_is_reader)]
Account = Annotated[str, Field(strict=True), AfterValidator(_is_account)]


class Access(Section):
    """Who may do what in the tenant's namespace: `group:NAME`, `user:NAME` or `serviceaccount:NAMESPACE/NAME`."""

    admin: tuple[Member, ...] = ()
    """Edit, and grant these four roles to others in the namespace."""
    edit: tuple[Member, ...] = ()
    """Submit jobs; change and delete the TrainJobs of all users; create, update and delete volume claims and Secrets.
    No verb reads Secrets, but see "Known gaps" in docs/explanations/access.md."""
    submit: tuple[Member, ...] = ()
    """View, and create TrainJobs and delete their own, which the rules `owner` and `own-jobs` of
    `policies.admission` see to."""
    view: tuple[Reader, ...] = ()
    """Read jobs, pods, logs and queues."""

    @field_validator("admin", "edit", "submit", "view")
    @classmethod
    def _in_order(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(value)))


class PlatformAccess(Section):
    """Who may do what on the whole platform: `group:NAME`, `user:NAME` or `serviceaccount:NAMESPACE/NAME`."""

    admin: tuple[Subject, ...] = ()
    """Change what the platform consists of, and stop anybody's job."""
    ci: tuple[Subject, ...] = ()
    """Read what the platform consists of, and change nothing."""

    @field_validator("admin", "ci")
    @classmethod
    def _in_order(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(value)))


@dataclass(frozen=True, slots=True)
class Callers:
    """People and ServiceAccounts as the API server knows them: `request.userInfo` of an admission policy.

    Attributes:
        users: user names, such as `system:serviceaccount:argocd:argocd-application-controller`.
        groups: of theirs.
    """

    users: tuple[str, ...]
    groups: tuple[str, ...]


def to_callers(subjects: Iterable[str]) -> Callers:
    """Who the subjects are, once they have logged in.

    A ServiceAccount is a user: apiserver v0.34.2 pkg/authentication/serviceaccount/util.go `MakeUsername`.
    """
    named = [subject.partition(":") for subject in subjects]
    users = {name for kind, _, name in named if kind == "user"}
    users |= {f"system:serviceaccount:{name.replace('/', ':')}" for kind, _, name in named if kind == "serviceaccount"}
    groups = {name for kind, _, name in named if kind == "group"}
    return Callers(tuple(sorted(users)), tuple(sorted(groups)))


def explain_impersonation(subject: str, namespaces: Collection[str]) -> str:
    """Why people with no more than a job in one of the namespaces can be this subject; empty when they cannot.

    Whoever runs pods in a namespace can run them as each of its ServiceAccounts.
    """
    who = to_callers([subject])
    for name in (*who.users, *who.groups):
        if name in _EVERYBODY:
            return f"{format_value(name)} is everybody"
        found = _OF_A_NAMESPACE.fullmatch(name)
        if found and found["namespace"] in namespaces:
            return f"whoever runs pods in {found['namespace']} can be {format_value(name)}"
    return ""
