"""Permissions of RBAC for a plan: the difference of grants, the dangers of permissions, and permissions in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from generator.effects.places import join
from generator.facts.privileges import default_roles, privileges
from generator.upstream.kubernetes.access import AccessRequest, Grant, Rule

_ALL = "*"
_LISTED = 3  # resources in a sentence
_SUPERUSER = (
    Rule(verbs=(_ALL,), groups=(_ALL,), resources=(_ALL,), names=(), urls=()),
    Rule(verbs=(_ALL,), groups=(), resources=(), names=(), urls=(_ALL,)),
)
CLUSTER_ADMIN = "ClusterRole cluster-admin"


class Permission(NamedTuple):
    """A permission: a verb on a resource or URL, or a role whose rules no file has.

    Attributes:
        verb: the verb; `*` for all.
        group: the API group; `*` for all.
        resource: the resource, such as `pods/log`; `*` for all. Empty for a URL and for a role.
        name: the name of the object; empty for all objects.
        url: the URL; empty for a resource.
        role: the role, such as `ClusterRole edit`; empty if the files have the rules.
    """

    verb: str = ""
    group: str = ""
    resource: str = ""
    name: str = ""
    url: str = ""
    role: str = ""

    @property
    def request(self) -> AccessRequest:
        """The request that the permission allows. A wildcard stays `*`, so only a rule with `*` allows the request."""
        resource, _, subresource = self.resource.partition("/")
        return AccessRequest(self.verb, self.group, resource, subresource, self.name, url=self.url)


def rules_of(grant: Grant) -> tuple[Rule, ...]:
    """Return the rules of a grant. `cluster-admin` of the API server allows everything.

    Source: kubernetes v1.34.2 plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go ClusterRoles
    """
    return _SUPERUSER if grant.gap and grant.role == CLUSTER_ADMIN else grant.rules


def find_missing(granted: Iterable[Grant], others: Sequence[Grant]) -> frozenset[Permission]:
    """Return the permissions that some grants give and other grants do not."""
    known = [rule for grant in others for rule in rules_of(grant)]
    unknown = {grant.role for grant in others if grant.gap}
    equal = set(known)
    missing: set[Permission] = set()
    for grant in granted:
        if grant.gap and grant.role != CLUSTER_ADMIN and grant.role not in unknown:
            missing.add(Permission(role=grant.role))
        for rule in rules_of(grant):
            if rule not in equal:
                missing.update(one for one in _permissions(rule) if not _is_allowed(one, known))
    return frozenset(missing)


@cache
def _permissions(rule: Rule) -> tuple[Permission, ...]:
    resources = (
        Permission(verb, group, resource, name)
        for verb in rule.verbs
        for group in rule.groups
        for resource in rule.resources
        for name in rule.names or ("",)
    )
    return (*resources, *(Permission(verb, url=url) for verb in rule.verbs for url in rule.urls))


def _is_allowed(permission: Permission, rules: Iterable[Rule]) -> bool:
    request = permission.request
    return any(rule.allows(request) for rule in rules)


def are_allowed(permissions: Iterable[Permission], grants: Iterable[Grant]) -> bool:
    """Return True if grants include all permissions."""
    known = list(grants)
    rules = [rule for grant in known for rule in rules_of(grant)]
    roles = {grant.role for grant in known if grant.gap}
    return all(one.role in roles if one.role else _is_allowed(one, rules) for one in permissions)


@lru_cache(4096)
def find_dangers(permissions: frozenset[Permission]) -> Sequence[str]:
    """Return the dangerous consequences of permissions, in words that follow "the subject can".

    A default role of Kubernetes, such as `cluster-admin`, has a text of its own, which replaces all others.
    """
    known = sorted(permissions)
    roles = {one.role.removeprefix("ClusterRole ") for one in known if one.role.startswith("ClusterRole ")}
    if any((one.verb, one.group, one.resource, one.name) == (_ALL, _ALL, _ALL, "") for one in known):
        roles.add(CLUSTER_ADMIN.removeprefix("ClusterRole "))
    texts = [role.allows for role in default_roles() if role.name in roles]
    rules = [_as_rule(one) for one in known if one.resource]
    for privilege in privileges() if not texts else ():
        requests = [
            AccessRequest(verb, group, *_split(resource))
            for verb in privilege.verbs
            for group in privilege.groups
            for resource in privilege.resources
        ]
        if any(rule.allows(request) for rule in rules for request in requests):
            texts.append(privilege.allows)
    return list(dict.fromkeys(texts))


def _split(resource: str) -> tuple[str, str]:
    name, _, subresource = resource.partition("/")
    return name, subresource


def _as_rule(permission: Permission) -> Rule:
    return Rule((permission.verb,), (permission.group,), (permission.resource,), (), ())


class Words(NamedTuple):
    """Permissions in words.

    Attributes:
        text: the permissions for a sentence.
        details: all permissions, if the sentence only counts them.
        data: the permissions for programs, such as `create trainjobs.trainer.kubeflow.org`.
    """

    text: str
    details: tuple[str, ...]
    data: tuple[str, ...]


@lru_cache(1024)
def describe(permissions: frozenset[Permission]) -> Words:
    """Return permissions in words.

    >>> describe(frozenset({Permission("get", "", "pods"), Permission("list", "", "pods")})).text
    'get and list on pods'
    """
    lines = _lines(one for one in permissions if not one.role)
    number = sum(len(targets) for _, targets in lines)
    texts = [f"{verbs} on {join(targets)}" for verbs, targets in lines]
    roles = [one.role.partition(" ") for one in sorted(permissions) if one.role]
    names = [f"{kind} `{name}`" for kind, _, name in roles]
    is_short = number <= _LISTED
    sentence = join([*texts, *names]) if is_short else join([f"permissions on {number} resources", *names])
    return Words(sentence, () if is_short else tuple(texts), tuple(_as_data(permissions)))


def _lines(permissions: Iterable[Permission]) -> list[tuple[str, list[str]]]:
    """Return (verbs, resources): one entry for all resources with equal verbs."""
    verbs: dict[str, list[str]] = {}
    for one in sorted(permissions, key=_order):
        known = verbs.setdefault(_target(one), [])
        verb = "all verbs" if one.verb == _ALL else one.verb
        if verb not in known and "all verbs" not in known:
            known.append(verb)
    targets: dict[str, list[str]] = {}
    for target, may in verbs.items():
        targets.setdefault(join(may), []).append(target)
    return list(targets.items())


_VERBS = (_ALL, "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


def _order(permission: Permission) -> tuple[object, ...]:
    verb = _VERBS.index(permission.verb) if permission.verb in _VERBS else len(_VERBS)
    return not find_dangers(frozenset({permission})), permission.resource, permission.name, verb, permission


def _target(permission: Permission) -> str:
    if permission.url:
        return permission.url
    if permission.resource == _ALL:
        groups = {_ALL: "all resources", "": "all resources of the core group"}
        text = groups.get(permission.group, f"all resources of {permission.group}")
    else:
        text = permission.resource
    return f"{text} named {permission.name}" if permission.name else text


def _as_data(permissions: Iterable[Permission]) -> Iterator[str]:
    for one in sorted(permissions):
        if one.role:
            yield one.role
        else:
            kind, slash, subresource = one.resource.partition("/")
            resource = f"{kind}.{one.group}".rstrip(".") + slash + subresource
            yield " ".join(part for part in (one.verb, one.url or resource, one.name) if part)
