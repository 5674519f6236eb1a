"""Manifests → Access: roles, what is aggregated into them, and bindings, from anybody's files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from generator.errors import Problem, SimulationError
from generator.manifests import Body, Manifest
from generator.simulate.access import Access, Grant, Rule, Subject
from generator.simulate.fields import labels, mapping, mappings, text, texts
from generator.simulate.selectors import selects

_RBAC = "rbac.authorization.k8s.io"
_KINDS = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
_SAYS = ("rules", "aggregationRule", "roleRef", "subjects")
_Roles = Mapping[tuple[str, str, str], Manifest]


def access(manifests: Iterable[Manifest]) -> Access:
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
    kind, name = text(reference.get("kind")), text(reference.get("name"))
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
        name = text(each.get("name"))
        match each.get("kind"):
            case "Group":
                yield Subject(is_group=True, name=name, written=f'Group "{name}"')
            case "User":
                yield Subject(is_group=False, name=name, written=f'User "{name}"')
            case "ServiceAccount":
                namespace = text(each.get("namespace"), binding.namespace)
                user, written = f"system:serviceaccount:{namespace}:{name}", f'ServiceAccount "{name}/{namespace}"'
                yield Subject(is_group=False, name=user, written=written)


def _rules(role: Manifest, roles: _Roles) -> Iterator[Rule]:
    for each in _sources(role, roles):
        for rule in mappings(each.body.get("rules")):
            yield Rule(
                verbs=texts(rule.get("verbs")),
                groups=texts(rule.get("apiGroups")),
                resources=texts(rule.get("resources")),
                names=texts(rule.get("resourceNames")),
                urls=texts(rule.get("nonResourceURLs")),
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
    found = labels(mapping(role.body, "metadata", "labels"))
    return any(selects(selector, found) for selector in selectors)


def _gap(role: Manifest | None, roles: _Roles) -> str:
    if role is None:
        return "its role is not among the files"
    if _selectors(role) is not None and not list(_sources(role, roles)):
        return "what is aggregated into its role is not among the files"
    return ""
