"""RBAC: the grants of the bindings in a set of files, and whether one of them allows a request.

Source: kubernetes v1.34.2 plugin/pkg/auth/authorizer/rbac/rbac.go, pkg/apis/rbac/v1/evaluation_helpers.go,
pkg/registry/rbac/validation/rule.go. The API server also asks its webhooks and, for kubelets, the node authorizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from generator.errors import Problem, SimulationError
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, mappings, string, string_map, strings
from generator.objects.selectors import selects

_ALL = "*"
_SUPERUSERS = "system:masters"


@dataclass(frozen=True, slots=True)
class Requester:
    """Somebody who asks.

    Attributes:
        user: the user name; empty for anybody in the groups.
        groups: all of theirs.
    """

    user: str
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """A request.

    Attributes:
        verb: such as `create`.
        group: the API group; empty for the core group.
        resource: such as `pods`; empty when a URL is asked for.
        subresource: such as `log`.
        name: of the object; empty for all of them, or for a new one.
        namespace: empty for all of them, and for what is in none.
        url: what is no resource, such as `/metrics`.
    """

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """What is allowed: verbs on resources, of some names if there are any, or on URLs."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    names: tuple[str, ...]
    urls: tuple[str, ...]

    def allows(self, asked: AccessRequest) -> bool:
        """Whether the request is among it."""
        if not _holds(self.verbs, asked.verb):
            return False
        if asked.url:
            return any(_covers(url, asked.url) for url in self.urls)
        named = not self.names or asked.name in self.names
        return named and _holds(self.groups, asked.group) and any(_is(each, asked) for each in self.resources)


def _holds(allowed: tuple[str, ...], value: str) -> bool:
    return _ALL in allowed or value in allowed


def _covers(url: str, asked: str) -> bool:
    return url in (_ALL, asked) or (url.endswith("*") and asked.startswith(url.rstrip("*")))


def _is(resource: str, asked: AccessRequest) -> bool:
    """`pods`, `pods/log`, `*` for everything, or `*/log` for that of every resource."""
    if not asked.subresource:
        return resource in (_ALL, asked.resource)
    return resource in (_ALL, f"{asked.resource}/{asked.subresource}", f"*/{asked.subresource}")


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a binding names: a user by the name that the API server knows, or a group.

    Attributes:
        is_group: whether it is a group.
        name: theirs.
        written: how the API server writes it: `User "ada"`, `ServiceAccount "name/namespace"`.
    """

    is_group: bool
    name: str
    written: str = ""

    def matches(self, who: Requester) -> bool:
        """Whether somebody is meant."""
        return self.name in who.groups if self.is_group else bool(who.user) and self.name == who.user


@dataclass(frozen=True, slots=True)
class Grant:
    """A binding, and what it grants.

    Attributes:
        binding: such as `RoleBinding team-a/mpigen-edit`.
        role: such as `ClusterRole mpigen-edit` or `Role team-a/readers`.
        namespace: where it holds; empty for everywhere, and for what is in no namespace.
        subjects: to whom.
        rules: what.
        gap: why the rules may not be all; empty when they are.
        file: that of the binding.
    """

    binding: str
    role: str
    namespace: str
    subjects: tuple[Subject, ...]
    rules: tuple[Rule, ...]
    gap: str
    file: str

    def means(self, who: Requester) -> bool:
        """Whether it is granted to somebody."""
        return any(subject.matches(who) for subject in self.subjects)

    def reason(self, who: Requester) -> str:
        """What the API server says where it allows something to somebody by this."""
        subject = next(each for each in self.subjects if each.matches(who))
        kind, _, named = self.binding.partition(" ")
        binding = "/".join(reversed(named.split("/")))  # rule.go `roleBindingDescriber`
        role, _, name = self.role.partition(" ")
        return f'RBAC: allowed by {kind} "{binding}" of {role} "{name.rpartition("/")[2]}" to {subject.written}'


@dataclass(frozen=True, slots=True)
class Access:
    """All grants of a cluster, or of some files of it; those of the whole cluster come first."""

    grants: tuple[Grant, ...]

    def of(self, who: Requester, namespace: str = "") -> Iterator[Grant]:
        """What somebody is granted in a namespace, with what is granted everywhere."""
        for grant in self.grants:
            if grant.namespace in ("", namespace) and grant.means(who):
                yield grant

    def allowed(self, who: Requester, asked: AccessRequest) -> str:
        """What allows a request, in the words of the API server's authorizers; empty when nothing does.

        The group of superusers is never asked for a role: pkg/kubeapiserver/authorizer/reload.go.
        """
        if _SUPERUSERS in who.groups:
            return f"the group {_SUPERUSERS} may do anything"
        return next((f"{each.binding} of {each.role}" for each in self._allowing(who, asked)), "")

    def reasons(self, who: Requester, asked: AccessRequest) -> tuple[str, ...]:
        """What the API server says of why it allows a request; none when it does not.

        It asks the bindings of the whole cluster first, and those of one kind in any order: which of several it names
        is chance.
        """
        if _SUPERUSERS in who.groups:
            return ("",)
        found = list(self._allowing(who, asked))
        of_cluster = [each for each in found if not each.namespace]
        return tuple(each.reason(who) for each in of_cluster or found)

    def _allowing(self, who: Requester, asked: AccessRequest) -> Iterator[Grant]:
        namespace = "" if asked.url else asked.namespace
        return (each for each in self.of(who, namespace) if any(rule.allows(asked) for rule in each.rules))

    def gaps(self, who: Requester, namespace: str = "") -> tuple[str, ...]:
        """Why somebody may be allowed more than is known."""
        return tuple(dict.fromkeys(f"{each.binding}: {each.gap}" for each in self.of(who, namespace) if each.gap))


def parse_requester(text: str, groups: Iterable[str] = ()) -> Requester:
    """`group:NAME`, `user:NAME` or `serviceaccount:NAMESPACE/NAME`, logged in, with the groups that this brings.

    apiserver v0.34.2 pkg/authentication/serviceaccount/util.go `MakeGroupNames`, pkg/authentication/group.

    Raises:
        ValueError: it is none of these.
    """
    kind, _, name = text.partition(":")
    match kind:
        case "user" if name:
            user, own = name, _groups_of(name)
        case "group" if name:
            user, own = "", [name]
        case "serviceaccount" if name.count("/") == 1 and all(name.split("/")):
            user = f"system:serviceaccount:{name.replace('/', ':')}"
            own = _groups_of(user)
        case _:
            raise ValueError(f"`{text}` names nobody: write group:NAME, user:NAME or serviceaccount:NAMESPACE/NAME")
    everybody = "system:unauthenticated" if "system:unauthenticated" in own else "system:authenticated"
    return Requester(user, frozenset([*own, *groups, everybody]))


def _groups_of(user: str) -> list[str]:
    """The groups that come with a name."""
    if user == "system:anonymous":
        return ["system:unauthenticated"]
    match user.split(":"):
        case ["system", "serviceaccount", namespace, _]:
            return ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    return []


_HEALTH = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_API = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*")
_KEYS = (
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/",
    "/openid/v1/jwks",
    "/openid/v1/jwks/",
)
_SELF_REVIEWS = (
    Rule(("create",), ("authorization.k8s.io",), ("selfsubjectaccessreviews", "selfsubjectrulesreviews"), (), ()),
    Rule(("create",), ("authentication.k8s.io",), ("selfsubjectreviews",), (), ()),
)


def _get(*urls: str) -> Rule:
    return Rule(("get",), (), (), (), urls)


def _default_grant(name: str, groups: Iterable[str], *rules: Rule) -> Grant:
    subjects = tuple(Subject(is_group=True, name=each, written=f'Group "{each}"') for each in groups)
    return Grant(f"ClusterRoleBinding {name}", f"ClusterRole {name}", "", subjects, rules, "", "")


GRANTS = (
    _default_grant("system:basic-user", ["system:authenticated"], *_SELF_REVIEWS),
    _default_grant("system:discovery", ["system:authenticated"], _get(*_API, *_HEALTH)),
    _default_grant("system:public-info-viewer", ["system:authenticated", "system:unauthenticated"], _get(*_HEALTH)),
    _default_grant("system:service-account-issuer-discovery", ["system:serviceaccounts"], _get(*_KEYS)),
)
"""The grants; none that is for parts of Kubernetes, or for superusers."""


def with_default_grants(found: Access) -> Access:
    """With what everybody is granted, where the files do not say what that is."""
    named = {each.binding for each in found.grants}
    return Access((*(each for each in GRANTS if each.binding not in named), *found.grants))


_RBAC = "rbac.authorization.k8s.io"
_KINDS = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
_SAYS = ("rules", "aggregationRule", "roleRef", "subjects")
_Roles = Mapping[tuple[str, str, str], Manifest]


def read_access(manifests: Iterable[Manifest]) -> Access:
    """What all the bindings grant; what is no object of RBAC is passed over.

    Raises:
        SimulationError: two objects of the same name say different things.
    """
    found = _of_rbac(manifests)
    bindings = [each for each in found.values() if each.kind.endswith("Binding")]
    return Access(tuple(_grant(each, found) for each in sorted(bindings, key=lambda each: each.kind)))


def _of_rbac(manifests: Iterable[Manifest]) -> _Roles:
    """(kind, namespace, name) → object."""
    found: dict[tuple[str, str, str], Manifest] = {}
    for each in manifests:
        if each.group == _RBAC and each.kind in _KINDS and each.name:
            known = found.setdefault((each.kind, each.namespace, each.name), each)
            if any(known.body.get(field) != each.body.get(field) for field in _SAYS):
                message = f"{each.resource} is another one than in {known.file}"
                raise SimulationError((Problem(message, "name the files of one cluster", each.file),))
    return found


def _grant(binding: Manifest, roles: _Roles) -> Grant:
    reference = mapping(binding.body, "roleRef")
    kind, name = string(reference.get("kind")), string(reference.get("name"))
    role = roles.get((kind, binding.namespace if kind == "Role" else "", name))
    return Grant(
        binding=binding.resource,
        role=f"{kind} {binding.namespace}/{name}" if kind == "Role" else f"{kind} {name}",
        namespace=binding.namespace,
        subjects=tuple(_subjects(binding)),
        rules=tuple(_rules(role, roles)) if role else (),
        gap=_gap(role, roles),
        file=binding.file,
    )


def _subjects(binding: Manifest) -> Iterator[Subject]:
    for each in mappings(binding.body.get("subjects")):
        name = string(each.get("name"))
        match each.get("kind"):
            case "Group":
                yield Subject(is_group=True, name=name, written=f'Group "{name}"')
            case "User":
                yield Subject(is_group=False, name=name, written=f'User "{name}"')
            case "ServiceAccount":
                namespace = string(each.get("namespace"), binding.namespace)
                user, written = f"system:serviceaccount:{namespace}:{name}", f'ServiceAccount "{name}/{namespace}"'
                yield Subject(is_group=False, name=user, written=written)


def _rules(role: Manifest, roles: _Roles) -> Iterator[Rule]:
    for each in _sources(role, roles):
        for rule in mappings(each.body.get("rules")):
            yield Rule(
                verbs=strings(rule.get("verbs")),
                groups=strings(rule.get("apiGroups")),
                resources=strings(rule.get("resources")),
                names=strings(rule.get("resourceNames")),
                urls=strings(rule.get("nonResourceURLs")),
            )


def _sources(role: Manifest, roles: _Roles) -> Iterator[Manifest]:
    """The roles whose rules a role has in the end: those that are aggregated into it, or it alone.

    A controller overwrites the rules of an aggregated role, as often as one of its sources changes: kubernetes v1.34.2
    pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go `syncClusterRole`.
    """
    waiting, seen = [role], {role.name}
    while waiting:
        each = waiting.pop()
        selectors = _selectors(each)
        if selectors is None:
            yield each
            continue
        for other in roles.values():
            if other.kind == "ClusterRole" and other.name not in seen and _is_selected(other, selectors):
                seen.add(other.name)
                waiting.append(other)


def _selectors(role: Manifest) -> tuple[Body, ...] | None:
    rule = role.body.get("aggregationRule")
    if role.kind != "ClusterRole" or not isinstance(rule, dict):
        return None
    return mappings(rule.get("clusterRoleSelectors"))


def _is_selected(role: Manifest, selectors: tuple[Body, ...]) -> bool:
    found = string_map(mapping(role.body, "metadata", "labels"))
    return any(selects(selector, found) for selector in selectors)


def _gap(role: Manifest | None, roles: _Roles) -> str:
    if role is None:
        return "its role is not among the files"
    if _selectors(role) is not None and not list(_sources(role, roles)):
        return "what is aggregated into its role is not among the files"
    return ""
