"""Names and labels of rules that match nothing: access/unknown-resource and policy/matches-nothing.

The API server compares such names as strings and reports no error. So a misspelt resource grants no right, and a
misspelt label protects no pod.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

from generator.checks.objects import Objects
from generator.checks.registry import WARNING, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_names
from generator.facts.names import METADATA_NAME, TENANT_LABEL
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, items, mapping, mappings, string, string_map, strings
from generator.objects.pods import KINDS, pod_templates
from generator.schemas.catalog import Catalog
from generator.upstream.kubernetes.access import VERBS, Kind, catalog_kinds, defined_kinds, is_verb

_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_DOMAIN = TENANT_LABEL.partition("/")[0] + "/"
_SIMILAR = 0.8
"""The similarity (difflib) of a name and its misspelling."""
_SHORTEST = 4  # letters of a word that can be misspelt
_SUBRESOURCES = frozenset(
    (
        *("status", "scale", "log", "exec", "attach", "portforward", "proxy", "eviction", "binding", "resize"),
        *("ephemeralcontainers", "token", "approval", "finalize", "finalizers", "pendingworkloads"),
    )
)
_KNOWN_NAMESPACES = frozenset(
    (
        *("default", "kube-system", "kube-public", "kube-node-lease", "ingress-nginx", "monitoring"),
        *("openshift-dns", "openshift-ingress", "openshift-monitoring", "openshift-user-workload-monitoring"),
    )
)
"""Namespaces of Kubernetes, OpenShift and usual add-ons, which no file of a platform creates."""


@dataclass(frozen=True)
class Matching:
    """The resources that the cluster serves, and the labels of the namespaces and pods in the files.

    Attributes:
        objects: all objects.
    """

    objects: Objects

    @classmethod
    def read(cls, objects: Objects) -> Matching:
        """Return the resources and labels of the objects."""
        return cls(objects)

    @cached_property
    def _served(self) -> Sequence[Kind]:
        definitions = self.objects.of("apiextensions.k8s.io", "CustomResourceDefinition")
        defined = [kind for item in definitions for kind in defined_kinds(item)]
        return [*defined, *catalog_kinds(Catalog.bundled(self.objects.targets))]

    @cached_property
    def kinds(self) -> Mapping[str, Mapping[str, AbstractSet[str]]]:
        """API group → resource → versions, of the target versions and of CustomResourceDefinitions in the files."""
        known: dict[str, dict[str, set[str]]] = {}
        for kind in self._served:
            known.setdefault(kind.group, {}).setdefault(kind.resource, set()).add(kind.version)
        return known

    @cached_property
    def singulars(self) -> Mapping[str, str]:
        """Kind in lower case → resource."""
        return {kind.kind.lower(): kind.resource for kind in self._served}

    @cached_property
    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """Name → labels of the Namespaces in the files."""
        return {
            item.name: {METADATA_NAME: item.name, **string_map(mapping(item.body, "metadata", "labels"))}
            for item in self.objects.of("", "Namespace")
        }

    @cached_property
    def folders(self) -> AbstractSet[PurePath]:
        """The folders with a Namespace: the policies of a team are beside its Namespaces."""
        return {PurePath(item.file).parent for item in self.objects.of("", "Namespace")}

    @cached_property
    def labels_of_namespaces(self) -> Mapping[str, AbstractSet[str]]:
        """Key → the values that the Namespaces in the files have, and the names of usual namespaces."""
        return _collect([*self.namespaces.values(), *({METADATA_NAME: name} for name in _KNOWN_NAMESPACES)])

    @cached_property
    def labels_of_pods(self) -> Mapping[str, AbstractSet[str]]:
        """Key → the values that the pod templates in the files have."""
        templates = (pods for item in self.objects.manifests if item.kind in KINDS for pods in pod_templates(item))
        return _collect(string_map(mapping(pods.body, "metadata", "labels")) for pods in templates)

    def find_unserved(self, groups: Collection[str], resource: str) -> tuple[str, str] | None:
        """Return (mistake, correction) of a resource that no API group of a rule has; None if it may exist.

        The result is None for a resource without a similar name, because the cluster can have further APIs.

        Args:
            groups: the API groups of the rule.
            resource: the resource, such as `pods` or `pods/log`.
        """
        plural, _, subresource = resource.partition("/")
        if "*" in groups or not groups or plural in ("*", ""):
            return None
        for group in groups:
            if plural in self.kinds.get(group, {}):
                return _find_subresource(plural, subresource)
        for group in groups:
            if group not in self.kinds:
                cutoff = 0.9 if "." in group else 0.7  # only groups of Kubernetes itself have no dot
                similar = difflib.get_close_matches(group, [one for one in self.kinds if one], 1, cutoff)
                if similar and plural in self.kinds[similar[0]]:
                    return f"the API group `{group}` is unknown", f"write `{similar[0]}`"
        if not all(group in self.kinds for group in groups):
            return None
        names = {name for group in groups for name in self.kinds[group]}
        singular = self.singulars.get(plural.lower(), plural.lower())
        close = [singular] if singular in names else difflib.get_close_matches(plural, names, 1, _SIMILAR)
        where = " or ".join(f"`{group}`" if group else "the core group" for group in groups)
        if close:
            return f"{where} has no resource `{plural}`", f"write `{close[0]}`"
        owners = sorted(group for group, resources in self.kinds.items() if plural in resources)
        if owners:
            return f"{where} has no resource `{plural}`", f"add its API group {format_names(owners, 'or')}"
        return None


def _collect(labels: Collection[Mapping[str, str]] | Iterator[Mapping[str, str]]) -> Mapping[str, AbstractSet[str]]:
    known: dict[str, set[str]] = {}
    for one in labels:
        for key, value in one.items():
            known.setdefault(key, set()).add(value)
    return known


def _find_subresource(plural: str, subresource: str) -> tuple[str, str] | None:
    if not subresource or subresource == "*" or subresource in _SUBRESOURCES:
        return None
    close = difflib.get_close_matches(subresource, sorted(_SUBRESOURCES), 1, 0.7)
    return (f"`{plural}` has no subresource `{subresource}`", f"write `{plural}/{close[0]}`") if close else None


@check("access/unknown-resource", severity=WARNING, needs=Matching)
def unknown_resource(matching: Matching) -> Iterator[Breach]:
    """Report a rule of a role whose resource, API group or verb is misspelt.

    RBAC compares names as strings: `trainjob` instead of `trainjobs` grants nothing, and users get `403 Forbidden`. The
    check compares the names with the APIs of the target versions, and with CustomResourceDefinitions in the files. It
    reports a name only if a known name is similar, because clusters have further APIs.

    Source: kubernetes v1.34.2 pkg/apis/rbac/v1/evaluation_helpers.go ResourceMatches; kubernetes v1.34.2
    pkg/apis/rbac/v1/evaluation_helpers.go VerbMatches
    """
    for role in matching.objects.of(_RBAC, "ClusterRole", "Role"):
        for number, rule in indexed_mappings(role.body.get("rules")):
            groups = strings(rule.get("apiGroups"))
            for index, resource in enumerate(strings(rule.get("resources"))):
                if fault := matching.find_unserved(groups, resource):
                    yield _misspelt(role, ("rules", number, "resources", index), fault, resource)
            for index, verb in enumerate(strings(rule.get("verbs"))):
                close = [] if is_verb(verb) else difflib.get_close_matches(verb, sorted(VERBS), 1, _SIMILAR)
                if close and rule.get("resources"):
                    fault = f"`{verb}` is not a verb of the API server", f"write `{close[0]}`"
                    yield _misspelt(role, ("rules", number, "verbs", index), fault, verb)


def _misspelt(role: Manifest, path: Path, fault: tuple[str, str], value: str) -> Breach:
    why = "the rule grants nothing for this name, and users get 403 Forbidden"
    return Breach(path, fault[0], why, fault[1], role, value=value)


@check("policy/matches-nothing", severity=WARNING, needs=Matching)
def matches_nothing(matching: Matching) -> Iterator[Breach]:
    """Report a policy that matches no object, because of a misspelt resource or label or a contradiction.

    The API server accepts the policy and enforces nothing. The check reads:

    - The resources and versions in `resourceRules` of admission policies, their bindings and webhooks.
    - The selectors of NetworkPolicies, of AdminNetworkPolicies, and of admission policies and their bindings. A
      selector can contradict itself, or require a label that no namespace or pod template in the files has. The check
      then reports a label whose key begins with `mpigen.dev/`, and a label that is similar to a known one. Pods and
      namespaces that no file creates can have all other labels.

    Source: apiserver v0.34.2 pkg/admission/plugin/policy/matching/matching.go Matcher.Matches; api v0.34.2
    networking/v1/types.go NetworkPolicyPeer
    """
    for manifest in matching.objects.manifests:
        if manifest.group == _ADMISSION:
            yield from _find_unserved_rules(manifest, matching)
        for path, selector, is_of_pods in _selectors(manifest):
            known = matching.labels_of_pods if is_of_pods else matching.labels_of_namespaces
            is_of_team = path[:2] == ("spec", "subject") and PurePath(manifest.file).parent in matching.folders
            is_complete = matching.objects.is_complete or is_of_team
            if fault := _explain_empty(selector, known, is_complete=is_complete):
                below, message, fix = fault
                noun = "pod" if is_of_pods else "namespace"
                yield Breach(
                    (*path, *below),
                    f"this selector matches no {noun}: {message}",
                    f"the {manifest.kind} has no effect on the {noun}s that it is written for",
                    fix,
                    manifest,
                    at_key=True,
                )


def _find_unserved_rules(manifest: Manifest, matching: Matching) -> Iterator[Breach]:
    spec = mapping(manifest.body, "spec")
    places: list[tuple[Path, object]] = [
        (("spec", "matchConstraints", "resourceRules"), mapping(spec, "matchConstraints").get("resourceRules")),
        (("spec", "matchResources", "resourceRules"), mapping(spec, "matchResources").get("resourceRules")),
        *(
            (("webhooks", number, "rules"), hook.get("rules"))
            for number, hook in indexed_mappings(manifest.body.get("webhooks"))
        ),
    ]
    for path, rules in places:
        for number, rule in indexed_mappings(rules):
            groups, versions = strings(rule.get("apiGroups")), {*strings(rule.get("apiVersions"))}
            for index, resource in enumerate(strings(rule.get("resources"))):
                place = (*path, number, "resources", index)
                if fault := matching.find_unserved(groups, resource):
                    yield _unmatched(manifest, place, *fault, resource)
                    continue
                plural = resource.partition("/")[0]
                served = {version for group in groups for version in matching.kinds.get(group, {}).get(plural, ())}
                if served and versions and "*" not in versions and served.isdisjoint(versions):
                    message = f"no version in `apiVersions` serves `{resource}`"
                    fix = f"write {format_names(sorted(served), 'or')}"
                    yield _unmatched(manifest, (*path, number, "apiVersions"), message, fix, [*versions])
                    break


def _unmatched(manifest: Manifest, path: Path, message: str, fix: str, value: object) -> Breach:
    why = "the API server accepts the object, and never applies this rule to a request"
    return Breach(path, f"{message}, so the rule matches no request", why, fix, manifest, value=value)


_Selector = tuple[Path, Body, bool]
"""(path, label selector, True if it selects pods and not namespaces)."""


def _selectors(manifest: Manifest) -> Iterator[_Selector]:
    spec = mapping(manifest.body, "spec")
    if (manifest.group, manifest.kind) == ("networking.k8s.io", "NetworkPolicy"):
        yield ("spec", "podSelector"), mapping(spec, "podSelector"), True
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            for number, rule in indexed_mappings(spec.get(direction)):
                for index, peer in indexed_mappings(rule.get(peers)):
                    path: Path = ("spec", direction, number, peers, index)
                    yield (*path, "namespaceSelector"), mapping(peer, "namespaceSelector"), False
                    if "namespaceSelector" not in peer:
                        yield (*path, "podSelector"), mapping(peer, "podSelector"), True
    elif manifest.group == "policy.networking.k8s.io":
        subject: Path = ("spec", "subject")
        yield (*subject, "namespaces"), mapping(spec, "subject", "namespaces"), False
        yield (*subject, "pods", "namespaceSelector"), mapping(spec, "subject", "pods", "namespaceSelector"), False
        yield (*subject, "pods", "podSelector"), mapping(spec, "subject", "pods", "podSelector"), True
    elif manifest.group == _ADMISSION:
        for field in ("matchConstraints", "matchResources"):
            selector = mapping(spec, field, "namespaceSelector")
            yield ("spec", field, "namespaceSelector"), selector, False


def _explain_empty(
    selector: Body, known: Mapping[str, AbstractSet[str]], *, is_complete: bool
) -> tuple[Path, str, str] | None:
    """Return (path below the selector, mistake, fix) of a selector that matches nothing; None if it may match.

    Args:
        selector: the label selector.
        known: key → the values that the objects in the files have.
        is_complete: True if the files have all namespaces with labels of mpigen.
    """
    allowed: dict[str, AbstractSet[str] | None] = {}
    rows = [*_requirements(selector)]
    for path, key, values in rows:
        if values is not None and allowed.get(key) is not None:
            allowed[key] = (allowed[key] or set()) & values
        else:
            allowed[key] = values if values is not None else allowed.get(key)
        if values is not None and not allowed[key]:
            return path, f"its requirements on the label `{key}` contradict each other", "remove one of them"
    for number, row in enumerate(mappings(selector.get("matchExpressions"))):
        key, operator, values = string(row.get("key")), row.get("operator"), {*strings(row.get("values"))}
        of_key = allowed.get(key)
        is_excluded = operator == "NotIn" and of_key is not None and of_key <= values
        if key in allowed and (operator == "DoesNotExist" or is_excluded):
            message = f"its requirements on the label `{key}` contradict each other"
            return ("matchExpressions", number), message, "remove one of them"
    for path, key, values in rows:
        if fault := _find_misspelt(key, values, known, is_complete=is_complete):
            return path, *fault
    return None


def _requirements(selector: Body) -> Iterator[tuple[Path, str, AbstractSet[str] | None]]:
    """Yield (path, key, allowed values, or None for any value) of the labels that an object must have."""
    for key, value in string_map(selector.get("matchLabels")).items():
        yield ("matchLabels", key), key, frozenset((value,))
    for number, row in enumerate(items(selector.get("matchExpressions"))):
        expression = mapping(row)
        key, operator = string(expression.get("key")), expression.get("operator")
        if operator == "In":
            yield ("matchExpressions", number), key, frozenset(strings(expression.get("values")))
        elif operator == "Exists":
            yield ("matchExpressions", number), key, None


def _find_misspelt(
    key: str, values: AbstractSet[str] | None, known: Mapping[str, AbstractSet[str]], *, is_complete: bool
) -> tuple[str, str] | None:
    """Return (mistake, fix) of a required label that no object has; None if an object may have it."""
    is_of_mpigen = key.startswith(_DOMAIN) and any(one.startswith(_DOMAIN) for one in known)
    if key not in known:
        close = [one for one in sorted(known) if is_typo(key, one)]
        if not (close or (is_of_mpigen and is_complete)):
            return None
        return f"no file sets the label `{key}`", f"write `{close[0]}`" if close else "correct the label"
    if values is None or not values.isdisjoint(known[key]):
        return None
    close = [one for value in sorted(values) for one in sorted(known[key]) if is_typo(value, one)]
    if not (close or (is_of_mpigen and is_complete)):
        return None
    quoted = format_names(sorted(values), "or")
    return f"no file sets the label `{key}` to {quoted}", f"write `{close[0]}`" if close else "correct the value"


def is_typo(text: str, known: str) -> bool:
    """Return True if a text is probably a misspelling of a known label.

    `team-a` and `team-b`, or `h100` and `h200`, are similar names of different things.
    """
    parts, known_parts = (re.split(r"[-._/]", one) for one in (text, known))
    if len(parts) != len(known_parts) or text == known:
        return False
    different = [(one, other) for one, other in zip(parts, known_parts, strict=True) if one != other]
    return all(
        sorted(one) == sorted(other)
        or (
            min(len(one), len(other)) >= _SHORTEST
            and re.findall(r"\d+", one) == re.findall(r"\d+", other)
            and difflib.SequenceMatcher(None, one, other).ratio() >= _SIMILAR
        )
        for one, other in different
    )
