"""RBAC: the grants of the RoleBindings and ClusterRoleBindings in files, and the requests that they allow.

Source: kubernetes v1.34.2 plugin/pkg/auth/authorizer/rbac/rbac.go RBACAuthorizer.Authorize; kubernetes v1.34.2
pkg/apis/rbac/v1/evaluation_helpers.go ResourceMatches; kubernetes v1.34.2 pkg/registry/rbac/validation/rule.go
DefaultRuleResolver.VisitRulesFor. Webhooks and the
node authorizer of the API server, which can also allow requests, are not simulated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from generator.documents.messages import shorten
from generator.errors import suggest
from generator.facts.api_versions import is_reached
from generator.manifests import Body, Manifest, conflict_error
from generator.objects.fields import mapping, mappings, string, string_map, strings
from generator.schemas.catalog import Catalog
from generator.upstream.kubernetes.selectors import selects


@dataclass(frozen=True, slots=True)
class Resource:
    """An API resource.

    Attributes:
        group: the API group; empty for the core group.
        plural: such as `trainjobs`.
        is_namespaced: True if its objects are in namespaces; None if unknown.
    """

    group: str
    plural: str
    is_namespaced: bool | None


def find_resource(catalog: Catalog, text: str) -> Resource:
    """Return the resource of a name such as `trainjobs`, `trainjob`, `TrainJob` or `trainjobs.trainer.kubeflow.org`.

    If several groups have a resource of this name, return the resource of the core group, or else of the group that is
    first by name. The API server orders groups by their priority instead. If no resource has this name, return a
    Resource with the name and group in lower case, of which it is unknown whether its objects are in namespaces.
    """
    name, _, group = text.lower().partition(".")
    kinds = [kind for kind in catalog_kinds(catalog) if name in (kind.resource, kind.kind.lower())]
    if group:
        kinds = [kind for kind in kinds if kind.group == group]
    if not kinds:
        return Resource(group, name, None)
    first = min(kinds, key=lambda kind: kind.group)
    return Resource(first.group, first.resource, first.is_namespaced)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind with its API resource.

    Attributes:
        group: the API group; empty for the core group.
        resource: the plural, such as `pods`.
        is_namespaced: True if its objects are in namespaces.
    """

    group: str
    version: str
    kind: str
    resource: str
    is_namespaced: bool

    @property
    def api_version(self) -> str:
        """Group and version, such as `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def is_named_by(self, rule: Mapping[str, object]) -> bool:
        """Return True if `apiGroups` and `resources` of an admission rule match this resource, by name or by `*`."""
        resources = {*strings(rule.get("resources"))} & {"*", "*/*", self.resource, f"{self.resource}/*"}
        return bool(resources) and bool({*strings(rule.get("apiGroups"))} & {"*", self.group})


def defined_kinds(definition: Manifest) -> Iterator[Kind]:
    """Yield the kind that a CustomResourceDefinition defines, once for each served version."""
    spec = mapping(definition.body, "spec")
    names = mapping(spec, "names")
    for version in mappings(spec.get("versions")):
        if version.get("served") is True:
            yield Kind(
                string(spec.get("group")),
                string(version.get("name")),
                string(names.get("kind")),
                string(names.get("plural")),
                spec.get("scope") == "Namespaced",
            )


@cache
def catalog_kinds(catalog: Catalog) -> tuple[Kind, ...]:
    """Return the kinds with a schema in the target versions of a catalog, once for each of their API versions."""
    kinds = []
    for entry in catalog.entries.values():
        group, _, version = entry.api_version.rpartition("/")
        kinds.append(Kind(group, version, entry.kind, entry.plural, entry.scope == "Namespaced"))
    return tuple(kinds)


_REQUESTS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
VERBS = (*_REQUESTS, "use", "bind", "escalate", "impersonate", "approve", "sign", "attest")
"""The verbs of requests, and of permissions that Kubernetes itself asks for."""
_IMPERSONATION = ("impersonate:", "impersonate-on:")
_URL_VERBS = ("get", "head", "post", "put", "patch", "delete", "options")
_LONGEST = 200  # characters of a note
_ALL = "*"
SUPERUSERS = "system:masters"


@dataclass(frozen=True, slots=True)
class Requester:
    """A user and its groups. An empty user name stands for any member of the groups."""

    user: str
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """A request to the API server.

    Attributes:
        verb: such as `create`.
        group: API group; empty for the core group.
        resource: such as `pods`; empty for a URL.
        subresource: such as `log`.
        name: name of the object; empty if the request is for all objects, or for a new object without a name.
        namespace: empty for all namespaces, and for cluster-scoped resources.
        url: non-resource URL, such as `/metrics`.
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
    """A rule of a role: verbs on resources or on URLs. A rule with `names` allows only objects with these names."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    names: tuple[str, ...]
    urls: tuple[str, ...]

    def allows(self, request: AccessRequest) -> bool:
        """Return True if the rule allows a request."""
        if not _matches(self.verbs, request.verb):
            return False
        if request.url:
            return any(_covers(url, request.url) for url in self.urls)
        is_named = not self.names or request.name in self.names
        is_in_group = is_named and _matches(self.groups, request.group)
        return is_in_group and any(_is_resource(resource, request) for resource in self.resources)


def _matches(allowed: tuple[str, ...], value: str) -> bool:
    return _ALL in allowed or value in allowed


def _covers(pattern: str, url: str) -> bool:
    return pattern in (_ALL, url) or (pattern.endswith("*") and url.startswith(pattern.rstrip("*")))


def _is_resource(resource: str, request: AccessRequest) -> bool:
    """Return True if a resource in a rule covers a request: `pods`, `pods/log`, `*` for all, or `*/log`."""
    if not request.subresource:
        return resource in (_ALL, request.resource)
    return resource in (_ALL, f"{request.resource}/{request.subresource}", f"*/{request.subresource}")


@dataclass(frozen=True, slots=True)
class Subject:
    """A user or group of a binding.

    Attributes:
        is_group: True for a group.
        name: name of the user or group, as the API server authenticates it.
        written: the subject as the API server writes it: `User "ada"`, `ServiceAccount "name/namespace"`.
    """

    is_group: bool
    name: str
    written: str = ""

    def matches(self, requester: Requester) -> bool:
        """Return True if the subject is the user of the requester, or one of its groups."""
        return self.name in requester.groups if self.is_group else bool(requester.user) and self.name == requester.user


@dataclass(frozen=True, slots=True)
class Grant:
    """A RoleBinding or ClusterRoleBinding, with the rules that it grants.

    Attributes:
        binding: such as `RoleBinding team-a/mpigen-edit`.
        role: such as `ClusterRole mpigen-edit` or `Role team-a/readers`.
        namespace: the namespace of the grant; empty for all namespaces and cluster-scoped resources.
        subjects: the subjects of the binding.
        rules: the rules of the role.
        gap: why the files lack rules of the role; empty if they have them all. For a role with an `aggregationRule`,
            the files must have a ClusterRole that it selects, and the default ClusterRoles that it selects.
        file: the file of the binding.
    """

    binding: str
    role: str
    namespace: str
    subjects: tuple[Subject, ...]
    rules: tuple[Rule, ...]
    gap: str
    file: str

    def applies_to(self, requester: Requester) -> bool:
        """Return True if a subject of the binding matches the requester."""
        return any(subject.matches(requester) for subject in self.subjects)

    def reason(self, requester: Requester) -> str:
        """Return the reason of the API server when this grant, which applies to the requester, allows a request."""
        subject = next(subject for subject in self.subjects if subject.matches(requester))
        kind, _, named = self.binding.partition(" ")
        # kubernetes v1.34.2 pkg/registry/rbac/validation/rule.go roleBindingDescriber.String
        binding = "/".join(reversed(named.split("/")))
        role, _, name = self.role.partition(" ")
        return f'RBAC: allowed by {kind} "{binding}" of {role} "{name.rpartition("/")[2]}" to {subject.written}'


@dataclass(frozen=True, slots=True)
class Access:
    """The grants of a cluster, or of some files of it; cluster-wide grants come first.

    Attributes:
        grants: the grants.
        minor: the version of Kubernetes, such as 1.37, for its default grants; empty for the newest.
    """

    grants: tuple[Grant, ...]
    minor: str = ""

    def of(self, requester: Requester, namespace: str = "") -> Iterator[Grant]:
        """Yield the cluster-wide grants of a requester, and its grants in a namespace."""
        for grant in self.grants:
            if grant.namespace in ("", namespace) and grant.applies_to(requester):
                yield grant

    def allowed(self, requester: Requester, request: AccessRequest) -> str:
        """Return the binding and role that allow a request; empty if the request is denied.

        Members of `system:masters` need no role (kubernetes v1.34.2 pkg/kubeapiserver/authorizer/reload.go
        reloadableAuthorizerResolver.newForConfig): the result names this group.
        """
        if SUPERUSERS in requester.groups:
            return f"the group {SUPERUSERS} may do anything"
        return next((f"{grant.binding} of {grant.role}" for grant in self._allowing(requester, request)), "")

    def reasons(self, requester: Requester, request: AccessRequest) -> tuple[str, ...]:
        """Return the reasons that the API server may give for allowing a request; none if it denies the request.

        The API server evaluates ClusterRoleBindings first, and bindings of one kind in any order. It gives the reason
        of the first binding that allows the request. For members of `system:masters` the reason is an empty string.
        """
        if SUPERUSERS in requester.groups:
            return ("",)
        grants = list(self._allowing(requester, request))
        cluster_wide = [grant for grant in grants if not grant.namespace]
        return tuple(grant.reason(requester) for grant in cluster_wide or grants)

    def _allowing(self, requester: Requester, request: AccessRequest) -> Iterator[Grant]:
        namespace = "" if request.url else request.namespace
        return (grant for grant in self.of(requester, namespace) if any(rule.allows(request) for rule in grant.rules))

    def gaps(self, requester: Requester, namespace: str = "") -> tuple[str, ...]:
        """Return why the files lack rights of a requester, such as `RoleBinding a/b: its role is not among the files`.

        The result has a text for each binding of the requester whose role is not in the files, or aggregates
        ClusterRoles that are not in the files.
        """
        return tuple(
            dict.fromkeys(f"{grant.binding}: {grant.gap}" for grant in self.of(requester, namespace) if grant.gap)
        )


def parse_requester(text: str, groups: Iterable[str] = ()) -> Requester:
    """Parse `group:NAME`, `user:NAME` or `serviceaccount:NAMESPACE/NAME`.

    The result includes `groups`, and groups that the API server adds, such as `system:authenticated`.

    Source: apiserver v0.34.2 pkg/authentication/serviceaccount/util.go MakeGroupNames, pkg/authentication/group.

    Raises:
        ValueError: the text has none of these forms.
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
            message = f"`{text}` is not a subject: write group:NAME, user:NAME or serviceaccount:NAMESPACE/NAME"
            raise ValueError(message)
    implied = "system:unauthenticated" if "system:unauthenticated" in own else "system:authenticated"
    return Requester(user, frozenset([*own, *groups, implied]))


def _groups_of(user: str) -> list[str]:
    """Return the groups that the API server adds to an anonymous user or a ServiceAccount; empty for other users."""
    if user == "system:anonymous":
        return ["system:unauthenticated"]
    match user.split(":"):
        case ["system", "serviceaccount", namespace, _]:
            return ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    return []


def parse_request(
    catalog: Catalog, verb: str, target: str, namespace: str = "", subresource: str = ""
) -> AccessRequest:
    """Return the request of a verb on a target as kubectl writes it.

    Args:
        catalog: the schemas, which have the plurals and scopes of kinds.
        verb: such as `create`.
        target: `trainjobs`, `jobs.batch`, `trainjobs/NAME`, or a URL such as `/metrics`.
        namespace: empty for all namespaces.
        subresource: such as `log`; empty for the object itself.
    """
    if target.startswith("/"):
        return AccessRequest(verb.lower(), url=target)
    kind, _, name = target.partition("/")
    resource = find_resource(catalog, kind)
    if resource.is_namespaced is False and verb.lower() in _REQUESTS:
        # A request for a cluster-scoped object has no namespace, and a request for a Namespace has that namespace:
        # apiserver v0.34.2 pkg/endpoints/request/requestinfo.go RequestInfoFactory.NewRequestInfo. The verb `bind` is
        # evaluated in the
        # namespace of the binding: kubernetes v1.34.2 pkg/registry/rbac/escalation_check.go BindingAuthorized.
        namespace = name if resource.plural == "namespaces" else ""
    return AccessRequest(verb.lower(), resource.group, resource.plural, subresource, name, namespace)


def is_verb(verb: str) -> bool:
    """Return True for a verb of resources, also with a mode of impersonation, such as `impersonate:user-info`.

    Source: apiserver v0.37.2 pkg/endpoints/filters/impersonation/mode.go newImpersonationModeState; apiserver v0.37.2
    pkg/endpoints/filters/impersonation/mode.go impersonateOnAttributes.GetVerb
    """
    return verb in VERBS or verb.startswith(_IMPERSONATION)


def find_misspellings(catalog: Catalog, verb: str, target: str) -> Iterator[str]:
    """Yield warnings of `kubectl auth can-i`: the verb or resource is unknown, so a typing mistake may cause the "no".

    Source: kubectl v0.34.2 pkg/cmd/auth/cani.go CanIOptions.Validate; kubectl v0.34.2 pkg/cmd/auth/cani.go
    CanIOptions.resourceFor.
    """
    verbs = _URL_VERBS if target.startswith("/") else VERBS
    is_known = verb.lower() in _URL_VERBS if target.startswith("/") else is_verb(verb.lower())
    if not is_known and verb != _ALL:
        yield shorten(f"Kubernetes has no verb `{verb}`; {suggest(verb, verbs)}", _LONGEST)
    kind = target.partition("/")[0]
    if kind not in ("", _ALL) and find_resource(catalog, kind).is_namespaced is None:
        known = {entry.plural for entry in catalog.entries.values()}
        suggestion = suggest(kind.lower().partition(".")[0], known)
        near = f"; {suggestion}" if suggestion.endswith("?") else ""
        yield shorten(f"mpigen has no schema for the resource `{kind}`, so the name may be misspelt{near}", _LONGEST)


_SUBRESOURCE = re.compile(
    "attach|binding|ephemeralcontainers|eviction|exec|log|portforward|proxy|resize|scale|status|token"
)


def find_subresource(target: str) -> str:
    """Return the subresource that a user means by `pods/exec`, which kubectl reads as a pod of this name; else empty.

    Source: kubectl v0.34.2 pkg/cmd/auth/cani.go CanIOptions.Complete; kubernetes v1.34.2
    pkg/registry/core/rest/storage_core.go legacyProvider.NewRESTStorage
    """
    name = target.rpartition("/")[2]
    return name if not target.startswith("/") and _SUBRESOURCE.fullmatch(name) else ""


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
    subjects = tuple(Subject(is_group=True, name=group, written=f'Group "{group}"') for group in groups)
    return Grant(f"ClusterRoleBinding {name}", f"ClusterRole {name}", "", subjects, rules, "", "")


GRANTS = (
    _default_grant("system:basic-user", ["system:authenticated"], *_SELF_REVIEWS),
    _default_grant("system:discovery", ["system:authenticated"], _get(*_API, *_HEALTH)),
    _default_grant("system:public-info-viewer", ["system:authenticated", "system:unauthenticated"], _get(*_HEALTH)),
    _default_grant("system:service-account-issuer-discovery", ["system:serviceaccounts"], _get(*_KEYS)),
    _default_grant(
        "system:cluster-trust-bundle-discovery",
        ["system:serviceaccounts"],
        Rule(("get", "list", "watch"), ("certificates.k8s.io",), ("clustertrustbundles",), (), ()),
    ),
)
"""The default bindings of groups to which all users or all ServiceAccounts belong.

The API server writes the bindings at every start.

Source: kubernetes v1.37.2 plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go ClusterRoleBindings.
"""
_SINCE = {"ClusterRoleBinding system:cluster-trust-bundle-discovery": "1.37"}
"""Binding → the first version of Kubernetes that has it.

Source: kubernetes v1.37.2 pkg/features/kube_features.go ClusterTrustBundle
"""


def default_grants(minor: str) -> tuple[Grant, ...]:
    """Return the default grants of a version of Kubernetes; of the newest for an empty `minor`."""
    return tuple(grant for grant in GRANTS if not minor or is_reached(minor, _SINCE.get(grant.binding, "1.0")))


def with_default_grants(access: Access) -> Access:
    """Return the default grants, then `access`. A binding in `access` replaces the default of its name."""
    bindings = {grant.binding for grant in access.grants}
    own = (grant for grant in default_grants(access.minor) if grant.binding not in bindings)
    return Access((*own, *access.grants), access.minor)


_RBAC = "rbac.authorization.k8s.io"
_KINDS = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
_FIELDS = ("rules", "aggregationRule", "roleRef", "subjects")
_AGGREGATE = f"{_RBAC}/aggregate-to-"
_Key = tuple[str, str, str]
"""Kind, namespace and name."""
_Roles = Mapping[_Key, Manifest]


def _default_role(name: str, part_of: str = "", aggregates: str = "") -> Manifest:
    """Return a default ClusterRole without its rules.

    Args:
        name: its name.
        part_of: the default ClusterRole that selects it, such as `edit`; empty for none.
        aggregates: the end of the label that it selects, such as `edit`; empty for a role with own rules.
    """
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults", **({f"{_AGGREGATE}{part_of}": "true"} if part_of else {})}
    body: Body = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels},
    }
    if aggregates:
        body["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {f"{_AGGREGATE}{aggregates}": "true"}}]}
    return Manifest(body, "")


_DEFAULT_ROLES = (
    _default_role("cluster-admin"),
    _default_role("admin", aggregates="admin"),
    _default_role("edit", part_of="admin", aggregates="edit"),
    _default_role("view", part_of="edit", aggregates="view"),
    *(_default_role(f"system:aggregate-to-{name}", part_of=name) for name in ("admin", "edit", "view")),
)
"""The default ClusterRoles for users, which every cluster has. ClusterRoles in files add their rules by labels.

Source: kubernetes v1.34.2 plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go ClusterRoles; kubernetes v1.34.2
plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go ClusterRolesToAggregate; kubernetes v1.34.2
plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go addClusterRoleLabel.
"""


def read_access(manifests: Iterable[Manifest], minor: str = "") -> Access:
    """Read the grants of all RoleBindings and ClusterRoleBindings in manifests.

    Args:
        manifests: the objects.
        minor: the version of Kubernetes, such as 1.37; empty for the newest.

    Raises:
        SimulationError: two RBAC objects of the same kind, namespace and name differ.
    """
    objects = _index(manifests)
    bindings = [manifest for manifest in objects.values() if manifest.kind.endswith("Binding")]
    rules = cache(lambda key: tuple(_read_rules(objects[key], objects)))
    return Access(
        tuple(_read_grant(binding, objects, rules) for binding in sorted(bindings, key=lambda item: item.kind)), minor
    )


def _index(manifests: Iterable[Manifest]) -> _Roles:
    """Return the RBAC objects by (kind, namespace, name), with the default ClusterRoles that the manifests lack.

    Raises:
        SimulationError: two objects of the same kind, namespace and name differ.
    """
    objects: dict[tuple[str, str, str], Manifest] = {}
    for manifest in manifests:
        if manifest.group == _RBAC and manifest.kind in _KINDS and manifest.name:
            first = objects.setdefault((manifest.kind, manifest.namespace, manifest.name), manifest)
            if any(first.body.get(field) != manifest.body.get(field) for field in _FIELDS):
                raise conflict_error(manifest, first)
    for role in _DEFAULT_ROLES:
        objects.setdefault((role.kind, "", role.name), role)
    return objects


def _read_grant(binding: Manifest, roles: _Roles, rules_of: Callable[[_Key], tuple[Rule, ...]]) -> Grant:
    reference = mapping(binding.body, "roleRef")
    kind, name = string(reference.get("kind")), string(reference.get("name"))
    key = (kind, binding.namespace if kind == "Role" else "", name)
    role = roles.get(key)
    return Grant(
        binding=binding.resource,
        role=f"{kind} {binding.namespace}/{name}" if kind == "Role" else f"{kind} {name}",
        namespace=binding.namespace,
        subjects=binding.view(_subjects),
        rules=rules_of(key) if role else (),
        gap=_find_gap(role, roles),
        file=binding.file,
    )


def _subjects(binding: Manifest) -> tuple[Subject, ...]:
    return tuple(_read_subjects(binding))


def _read_subjects(binding: Manifest) -> Iterator[Subject]:
    for subject in mappings(binding.body.get("subjects")):
        name = string(subject.get("name"))
        match subject.get("kind"):
            case "Group":
                yield Subject(is_group=True, name=name, written=f'Group "{name}"')
            case "User":
                yield Subject(is_group=False, name=name, written=f'User "{name}"')
            case "ServiceAccount":
                namespace = string(subject.get("namespace"), binding.namespace)
                user, written = f"system:serviceaccount:{namespace}:{name}", f'ServiceAccount "{name}/{namespace}"'
                yield Subject(is_group=False, name=user, written=written)


def _read_rules(role: Manifest, roles: _Roles) -> Iterator[Rule]:
    for source in _sources(role, roles):
        for rule in mappings(source.body.get("rules")):
            yield Rule(
                verbs=strings(rule.get("verbs")),
                groups=strings(rule.get("apiGroups")),
                resources=strings(rule.get("resources")),
                names=strings(rule.get("resourceNames")),
                urls=strings(rule.get("nonResourceURLs")),
            )


def _sources(role: Manifest, roles: _Roles) -> Iterator[Manifest]:
    """Yield the roles whose rules a role grants: itself, or if it has an `aggregationRule`, the selected ClusterRoles.

    A controller overwrites the own rules of an aggregated ClusterRole: kubernetes v1.34.2
    pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go
    ClusterRoleAggregationController.syncClusterRole.
    """
    waiting, seen = [role], {role.name}
    while waiting:
        source = waiting.pop()
        selectors = _selectors(source)
        if selectors is None:
            yield source
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
    labels = string_map(mapping(role.body, "metadata", "labels"))
    return any(selects(selector, labels) for selector in selectors)


def _find_gap(role: Manifest | None, roles: _Roles) -> str:
    sources = [] if role is None else list(_sources(role, roles))
    absent = [source for source in sources if any(source is default for default in _DEFAULT_ROLES)]
    if role is None or role in absent:
        return "its role is not among the files"
    if absent:
        names = " and ".join(sorted(f"`{source.name}`" for source in absent))
        return f"its role aggregates {names}, which the files lack"
    return "" if sources else "its role aggregates ClusterRoles that are not among the files"
