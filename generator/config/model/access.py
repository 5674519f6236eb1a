"""`access`: the users, groups and ServiceAccounts of a tenant and of the platform."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from generator.config.model.fields import MappingOf, Name, Section, SetOf, String, invalid
from generator.config.model.roles import LEVELS, SESSION_FIELDS, TeamRole
from generator.documents.messages import format_value
from generator.facts.subjects import Meaning, meaning_of

SUPERUSERS = "system:masters"
"""The group that the API server never rejects."""
_SUBJECT_FIX = "write group:NAME, user:NAME or serviceaccount:NAMESPACE/NAME"
_NAMESPACE = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_ACCOUNT = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
_EVERYBODY = {
    "system:authenticated": "includes every authenticated user",
    "system:unauthenticated": "includes every user without authentication",
    "system:anonymous": "is every user without authentication",
    "system:serviceaccounts": "includes every ServiceAccount of the cluster",
}
_OF_A_NAMESPACE = re.compile(r"system:serviceaccounts?:(?P<namespace>[^:]+)(?::.*)?")
_REASONS: Mapping[Meaning, str] = {
    "everyone": "includes every authenticated user",
    "accounts": "includes every ServiceAccount of the cluster",
    "anyone": "includes every user, even without authentication",
    "admins": "already has the ClusterRole cluster-admin",
    "root": "bypasses RBAC, so no role limits it",
    "cluster": "is an account of the cluster itself, not of a team",
}


def explain_cluster_subject(subject: str) -> str:
    """Return why a subject such as `group:system:nodes` cannot be a user or group of a team; '' if it can."""
    meaning = meaning_of(subject)
    return f"{format_value(subject)} {_REASONS[meaning]}" if meaning else ""


def explain_unfit_admin(subject: str) -> str:
    """Return why a subject cannot be an administrator of the platform; '' if it can."""
    return "" if meaning_of(subject) == "admins" else explain_cluster_subject(subject)


def _is_subject(value: str) -> str:
    kind, _, name = value.partition(":")
    if kind == "serviceaccount":
        return _is_account(value)
    if kind not in ("group", "user"):
        raise invalid(f"{format_value(value)} does not begin with `group:`, `user:` or `serviceaccount:`", _SUBJECT_FIX)
    if not name or name != name.strip():
        fault = "begins or ends with a space" if name.strip() else "is empty"
        raise invalid(f"the name in {format_value(value)} {fault}", f"write {kind}:NAME")
    if "*" in value:
        message = f"{format_value(value)} has a wildcard, which RBAC does not support"
        raise invalid(message, "name each group, user or ServiceAccount")
    return value


def _is_account(value: str) -> str:
    kind, _, account = value.partition(":")
    namespace, _, name = account.partition("/")
    if kind != "serviceaccount" or not namespace or not name:
        raise invalid(f"{format_value(value)} is not a ServiceAccount", "write serviceaccount:NAMESPACE/NAME")
    for part, pattern, noun in (
        (namespace, _NAMESPACE, "a namespace"),
        (name, _ACCOUNT, "the name of a ServiceAccount"),
    ):
        if not pattern.fullmatch(part):
            fix = "use lower-case letters, digits and hyphens, beginning and ending with a letter or digit"
            raise invalid(f"{format_value(part)} in {format_value(value)} is not {noun}", fix)
    return value


def _is_member(value: str) -> str:
    if why := explain_cluster_subject(value):
        raise invalid(why, "name a group of your identity provider")
    return value


def _is_reader(value: str) -> str:
    """Reject the subjects that `_is_member` rejects, except groups of all authenticated users or ServiceAccounts."""
    return value if meaning_of(value) in ("everyone", "accounts") else _is_member(value)


Subject = Annotated[String, AfterValidator(_is_subject)]
Member = Annotated[Subject, AfterValidator(_is_member)]
Reader = Annotated[Subject, AfterValidator(_is_reader)]


def _is_grantable(value: str) -> str:
    """Reject a subject or a pattern for all users or for accounts of the cluster, and a pattern with several `*`."""
    kind, _, name = value.partition(":")
    if kind == "serviceaccount" or "*" not in value:
        return _is_member(_is_subject(value))
    if kind not in ("group", "user"):
        raise invalid(f"{format_value(value)} does not begin with `group:` or `user:`", "write group:PREFIX-*")
    if name.count("*") > 1:
        raise invalid(f"{format_value(value)} has several wildcards", "write one `*`")
    if not name.replace("*", "").strip() or name != name.strip():
        raise invalid(f"{format_value(value)} includes every {kind}", "write a prefix or a suffix, such as group:nlp-*")
    if name.startswith("system:"):
        raise invalid(
            f"{format_value(value)} includes accounts of the cluster", "name a group of your identity provider"
        )
    return value


Grantable = Annotated[String, AfterValidator(_is_grantable)]
Account = Annotated[String, AfterValidator(_is_account)]


class Sessions(Section):
    """The users, groups and ServiceAccounts that may open sessions in the pods of the team. Default: none.

    A session reaches every pod of the namespaces of the team, also the pods of other users, because RBAC and admission
    rules do not see the owner of a pod. List people who may read everything that jobs of the team can read.
    """

    exec: SetOf[Member] = ()
    """Subjects that may run commands in pods, with `kubectl exec` and `kubectl attach`. A command has the files, the
    Secrets, the network and the devices of the pod. The audit log has the first command, but not the input of a
    shell."""
    port_forward: SetOf[Member] = ()
    """Subjects that may reach every port of a pod with `kubectl port-forward`. NetworkPolicies do not apply to this
    traffic."""
    debug: SetOf[Member] = ()
    """Subjects that may add an ephemeral container to a pod and attach to it, with `kubectl debug
    --profile=restricted`. The admission rule `debug` limits the image and the fields of the container, which stays in
    the pod until the pod ends. With `--target`, it shares the processes of a container of the job, and can read the
    files of this container."""

    @property
    def subjects(self) -> Mapping[str, tuple[str, ...]]:
        """Return role → its subjects, such as `session-exec`."""
        values = self.model_dump(by_alias=True)
        return {role: values[field] for role, (_, field) in SESSION_FIELDS.items()}


class Access(Section):
    """The users, groups and ServiceAccounts with a role in the tenant's namespaces.

    Write `group:NAME`, `user:NAME` or `serviceaccount:NAMESPACE/NAME`.
    """

    admin: SetOf[Member] = ()
    """Team admins, such as `group:team-cv-leads`. They can do all that editors can. They can also grant `view`,
    `submit`, `edit`, `admin` and the roles of the top-level `access.roles` to the subjects that `access` lists."""
    edit: SetOf[Member] = ()
    """Editors. They can submit jobs, change and delete the TrainJobs and ConfigMaps of all users, hold and resume jobs,
    and create, update and delete volume claims. Without `limits.storage`, they can create and enlarge none. They cannot
    read or write Secrets with kubectl. But their jobs can read the Secrets of `secrets.external`, `secrets.connections`
    and `policies.jobs.allow.secrets`."""
    submit: SetOf[Member] = ()
    """Submitters. They can read all that viewers can, create TrainJobs, and delete their own TrainJobs, which name
    them in the annotation `mpigen.dev/owner`. They can also suspend and label these TrainJobs, and write ConfigMaps of
    their own. The admission rules `own-jobs` and `config-maps` protect the TrainJobs and ConfigMaps of other users.
    With `isolation.unit: job`, they can also create and delete the NetworkPolicies of their own TrainJobs."""
    view: SetOf[Reader] = ()
    """Viewers. They can read jobs, pods, logs, volume claims, runtimes and queues, but change nothing."""
    roles: MappingOf[Name, SetOf[Member]] = Field(default={}, validate_default=True)
    """Your own roles: the name of a role in the top-level `access.roles` → its subjects, such as `data-steward:
    [group:cv-data]`. A retired team keeps none of them. Default: none."""
    sessions: Sessions = Sessions()
    """The subjects that may open sessions in pods of the team: `exec`, `portForward` and `debug`. Sessions need a role
    that reads pods too, such as `view`. Team admins cannot give these rights to others. Default: none, and the
    admission rule `kinds` rejects sessions."""
    grantable: SetOf[Grantable] = ()
    """Further subjects to which team admins can grant a role. They can always grant one to the subjects of the other
    fields, except to groups of all users or ServiceAccounts in `view`. One `*` in the name of a group or user stands
    for any characters, such as `group:nlp-*` or `user:*@example.com`. The admission rule `subjects` rejects
    RoleBindings of other subjects. Default: no more subjects."""

    @property
    def subjects(self) -> Mapping[str, tuple[str, ...]]:
        """Return role → its subjects: the levels, the roles of `sessions`, and the roles of `roles`."""
        return {**{level: getattr(self, level) for level in LEVELS}, **self.sessions.subjects, **self.roles}


class PlatformAccess(Section):
    """The users, groups and ServiceAccounts that run the platform.

    Write `group:NAME`, `user:NAME` or `serviceaccount:NAMESPACE/NAME`.
    """

    admin: SetOf[Subject] = ()
    """Platform admins. They can change all objects that mpigen generates, and stop any job. RBAC lets them grant
    only the roles of teams and of `access`, and other rights that they have."""
    janitor: SetOf[Subject] = ()
    """Janitors. They end jobs that hang: they can read and delete TrainJobs, JobSets, Jobs and pods of all teams, and
    remove finalizers of these objects."""
    ci: SetOf[Subject] = ()
    """Accounts of CI pipelines. They can read all kinds of object that mpigen generates, nodes and
    CustomResourceDefinitions, but no TrainJobs or pods. They cannot change objects."""
    roles: tuple[TeamRole, ...] = ()
    """Roles of your own for members of teams. `tenants[].access.roles` gives them to subjects. Team admins of all teams
    can grant them too. Default: none, so teams have the roles `view`, `submit`, `edit` and `admin`."""


@dataclass(frozen=True, slots=True)
class Callers:
    """User and group names in the form of `request.userInfo`, which admission policies read.

    A ServiceAccount is the user `system:serviceaccount:NAMESPACE:NAME`.
    """

    users: tuple[str, ...]
    groups: tuple[str, ...]


def to_callers(subjects: Iterable[str]) -> Callers:
    """Return the user and group names of subjects: `user:ada` → user `ada`.

    A ServiceAccount is a user: apiserver v0.34.2 pkg/authentication/serviceaccount/util.go MakeUsername.
    """
    named = [subject.partition(":") for subject in subjects]
    users = {name for kind, _, name in named if kind == "user"}
    users |= {f"system:serviceaccount:{name.replace('/', ':')}" for kind, _, name in named if kind == "serviceaccount"}
    groups = {name for kind, _, name in named if kind == "group"}
    return Callers(tuple(sorted(users)), tuple(sorted(groups)))


def explain_impersonation(subject: str, namespaces: Collection[str]) -> str:
    """Return how a user who runs jobs in one of the namespaces can act as this subject; '' if this is impossible.

    A user that runs pods in a namespace can run them as any ServiceAccount of the namespace.
    """
    callers = to_callers([subject])
    for name in (*callers.users, *callers.groups):
        if name in _EVERYBODY:
            return f"{format_value(name)} {_EVERYBODY[name]}"
        account = _OF_A_NAMESPACE.fullmatch(name)
        if account and account["namespace"] in namespaces:
            return f"users that submit jobs in namespace `{account['namespace']}` can run pods as {format_value(name)}"
    return ""
