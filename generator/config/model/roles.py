"""`access.roles`: roles of your own for members of teams, with rules of RBAC.

Such a role can never break the limits of teams. Its rules cannot read Secrets, open sessions in pods, or write objects
that limit or protect teams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from generator.config.model.fields import (
    SUBDOMAIN,
    Fault,
    Name,
    Section,
    String,
    Text,
    duplicates,
    invalid,
    matching,
    reject,
)
from generator.documents.messages import format_names
from generator.facts.kinds import KINDS
from generator.facts.privileges import privileges

Level = Literal["view", "submit", "edit", "admin"]
LEVELS: tuple[Level, ...] = get_args(Level)
"""The roles of mpigen for members of teams. Each role includes the rules of the roles before it."""
SESSIONS = {
    "session-debug": ("pods/attach", "pods/ephemeralcontainers"),
    "session-exec": ("pods/attach", "pods/exec"),
    "session-port-forward": ("pods/portforward",),
}
"""Role of `tenants[].access.sessions` → the subresources of pods that the session needs. `kubectl debug` attaches to
the container that it adds."""
SESSION_FIELDS = {
    "session-debug": ("sessions", "debug"),
    "session-exec": ("sessions", "exec"),
    "session-port-forward": ("sessions", "portForward"),
}
"""Role of `tenants[].access.sessions` → its field below `tenants[].access`."""
TEAM_RESOURCES = (
    "configmaps",
    "events",
    "events.events.k8s.io",
    "localsubjectaccessreviews.authorization.k8s.io",
    "persistentvolumeclaims",
    "rolebindings.rbac.authorization.k8s.io",
    "trainjobs.trainer.kubeflow.org",
)
"""The resources that members of every team may write, if RBAC allows it. The admission rule `kinds` rejects others."""
Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
_READS = ("get", "list", "watch")
_WITHOUT_NAME = ("create", "deletecollection")
"""Verbs of requests that name no object, so that a rule with names never allows them.

Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources
"""
_PROTECTING = frozenset((row.group, row.resource) for row in KINDS if row.namespaced or row.kind == "Namespace") - {
    ("", "persistentvolumeclaims")
}
"""(group, resource) of the kinds that mpigen generates in namespaces, without volume claims."""


def qualify(resource: str, group: str) -> str:
    """Return a resource with its group, such as `notebooks.kubeflow.org`; without one in the core group."""
    return f"{resource}.{group}" if group else resource


def _are_distinct(value: tuple[str, ...]) -> tuple[str, ...]:
    reject(duplicates(value, "remove one of the two"))
    return value


Group = Annotated[
    String, matching(f"|{SUBDOMAIN}", "an API group", 'write a group such as kubeflow.org, or "" for the core group')
]
RoleResource = Annotated[
    String,
    matching(
        r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:/[a-z](?:[-a-z0-9]*[a-z0-9])?)?",
        "the resource of a kind",
        "write the plural name of one kind, such as notebooks, and its group in `apiGroups`",
    ),
]
ObjectName = Annotated[
    String,
    matching(
        r"[A-Za-z0-9](?:[-A-Za-z0-9.:_]{0,251}[A-Za-z0-9])?",
        "the name of an object",
        "write each name in full, because RBAC has no patterns of names",
    ),
]


def _explain(verbs: Sequence[str], resources: Sequence[str], allows: str) -> Fault:
    """Return the fault of verbs on resources with a dangerous consequence, which `allows` describes."""
    names, kinds = format_names(verbs), format_names(resources)
    message = f"with {names} on {kinds}, a subject with this role can {allows}"
    return Fault(message, f"remove {names}, or remove {kinds}", ("verbs",))


class RoleRule(Section):
    """A rule of a role: verbs on resources of the team's namespaces, as in a ClusterRole.

    Write each group, resource and verb: `*` is not allowed.
    """

    api_groups: Annotated[tuple[Group, ...], Field(min_length=1), AfterValidator(_are_distinct)]
    """The API groups of the resources, such as `kubeflow.org`. The core group is `""`."""
    resources: Annotated[tuple[RoleResource, ...], Field(min_length=1), AfterValidator(_are_distinct)]
    """The plural names of the resources, such as `notebooks`, or `pods/log` for a subresource. mpigen rejects
    cluster-scoped resources, because the rule applies to namespaces only."""
    verbs: Annotated[tuple[Verb, ...], Field(min_length=1), AfterValidator(_are_distinct)]
    """The allowed verbs. mpigen rejects verbs with which users could read Secrets, open sessions in pods, run pods
    outside the queues, give rights to others, or change objects that mpigen generates, such as quotas, queues,
    runtimes and network policies. The admission rule `kinds` lets members of a team write only some kinds, so a rule
    that writes other kinds needs them in `policies.workloads.kinds` or `tenants[].workloads.kinds`."""
    resource_names: Annotated[tuple[ObjectName, ...], AfterValidator(_are_distinct)] = ()
    """The names of the objects to which the rule applies. Default: all objects."""

    def _contradictions(self) -> Iterator[Fault]:
        yield from self._dangers()
        blind = [verb for verb in self.verbs if verb in _WITHOUT_NAME]
        if self.resource_names and blind and not all("/" in resource for resource in self.resources):
            message = (
                f"{format_names(blind)} with `resourceNames` allows nothing, because these requests name no object"
            )
            yield Fault(message, "write a rule without `resourceNames` for these verbs", ("verbs",))

    def _dangers(self) -> Iterator[Fault]:
        """Yield a fault for each dangerous consequence of the rule, with the verbs and resources that cause it."""
        flagged: set[str] = set()
        for privilege in privileges():
            verbs = [verb for verb in self.verbs if verb in privilege.verbs]
            resources = [resource for resource in self.resources if resource in privilege.resources]
            if verbs and resources and not set(self.api_groups).isdisjoint(privilege.groups):
                flagged |= {*resources}
                yield _explain(verbs, resources, privilege.allows)
        protecting = [
            resource
            for resource in self.resources
            if resource not in flagged
            and any((group, resource.partition("/")[0]) in _PROTECTING for group in self.api_groups)
        ]
        if self.writes and protecting:
            yield _explain(self.writes, protecting, "change objects of the release, which limit or protect teams")

    @property
    def writes(self) -> tuple[str, ...]:
        """Return the verbs that change objects."""
        return tuple(verb for verb in self.verbs if verb not in _READS)


_TAKEN = (*LEVELS, "gitops", "platform-admin", "platform-ci", "platform-janitor", "runtime-reader", *SESSIONS)
"""The names of mpigen's own roles, without `mpigen-`."""


def _is_free(value: str) -> str:
    if value in _TAKEN:
        raise invalid(f"mpigen has a role of its own named `{value}`", "choose another name, such as data-steward")
    return value


class TeamRole(Section):
    """A role of your own for members of teams, in addition to `view`, `submit`, `edit` and `admin`.

    mpigen writes the ClusterRole `mpigen-role-NAME`.
    """

    name: Annotated[Name, AfterValidator(_is_free)]
    """The name of the role, such as `data-steward`. `tenants[].access.roles` gives it to subjects."""
    description: Text
    """The purpose of the role, for reviewers and team admins. The ClusterRole has it as an annotation."""
    like: Level | None = None
    """The role of mpigen whose rules this role includes: `view`, `submit`, `edit` or `admin`. Default: none; then the
    role has only its own `rules`."""
    rules: tuple[RoleRule, ...] = ()
    """The rules of RBAC that the role has in addition to the rules of `like`. They apply to the namespaces of the team.
    Default: none."""

    def _contradictions(self) -> Iterator[Fault]:
        if not (self.like or self.rules):
            yield Fault(
                "a role without `like` and `rules` allows nothing", "set at least one of the two", (), ("like", "rules")
            )
