"""RBAC permissions, as text and as JSON data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from generator.documents.messages import escape_control
from generator.manifests import Manifest
from generator.objects.namespace import is_namespace
from generator.report import table
from generator.upstream.kubernetes.access import Access, AccessRequest, Grant, Requester, Rule, Subject

_BINDINGS = ("WHO", "WHERE", "ROLE", "BY")
_RULES = ("ROLE", "MAY", "ON")
_EVERYWHERE = "everywhere"


def verdict(access: Access, requester: Requester, request: AccessRequest) -> tuple[dict[str, Any], list[str]]:
    """Return the verdict of RBAC on a request, as JSON data and as text lines.

    If RBAC denies the request, `unknown` lists the bindings whose role the files lack or do not show in full.
    """
    by = access.allowed(requester, request)
    gaps = () if by else access.gaps(requester, request.namespace)
    facts = {"allowed": bool(by), "by": by, "unknown": [*gaps]}
    lines = [f"yes: {by}" if by else "no", *(f"unknown: {gap}" for gap in gaps)]
    return facts, [escape_control(line) for line in lines]


def doubts(manifests: Iterable[Manifest], requester: Requester, request: AccessRequest) -> Iterator[str]:
    """Yield why a request that the files deny may be allowed in the cluster."""
    namespaces = {item.name for item in manifests if is_namespace(item)}
    if request.namespace and namespaces and request.namespace not in namespaces:
        yield f"the files have no Namespace `{request.namespace}`, so its bindings are unknown"
    if requester.user and not requester.user.startswith("system:") and _has_no_groups(requester):
        yield f"name the groups of `{requester.user}` with --group: most bindings are for groups"


def _has_no_groups(requester: Requester) -> bool:
    return all(group.startswith("system:") for group in requester.groups)


def text(access: Access, requester: Requester | None, width: int | None = None) -> Iterator[str]:
    """Yield a table of the bindings of a requester, or of all subjects, and a table of the rules of their roles."""
    grants = list(_grants(access, requester))
    rows = {
        (_name(subject), grant.namespace or _EVERYWHERE, grant.role, grant.binding)
        for grant in grants
        for subject in grant.subjects
        if requester is None or subject.matches(requester)
    }
    yield from table.table(_BINDINGS, sorted(rows), width)
    yield ""
    roles = {grant.role: grant.rules for grant in grants}
    rules_of_roles = [(role, *row) for role, rules in sorted(roles.items()) for row in _permissions(rules)]
    yield from table.table(_RULES, rules_of_roles, width)
    gaps = {f"unknown: {grant.binding}: {grant.gap}" for grant in grants if grant.gap}
    yield from ["", *(escape_control(gap) for gap in sorted(gaps))] if gaps else []


def _name(subject: Subject) -> str:
    """Format a subject as a platform file does, such as `group:NAME`."""
    if subject.is_group:
        return f"group:{subject.name}"
    prefix, _, account = subject.name.partition("system:serviceaccount:")
    return f"user:{subject.name}" if prefix or not account else f"serviceaccount:{account.replace(':', '/')}"


def _permissions(rules: Iterable[Rule]) -> Iterator[tuple[str, str]]:
    """Yield (verbs, resources): one entry for all resources with equal verbs."""
    verbs: dict[str, list[str]] = {}
    for rule in rules:
        for target in _targets(rule):
            known = verbs.setdefault(target, [])
            known += [verb for verb in rule.verbs if verb not in known]
    targets: dict[str, list[str]] = {}
    for target, may in verbs.items():
        targets.setdefault(",".join(may), []).append(target)
    return ((may, ", ".join(on)) for may, on in targets.items())


def _targets(rule: Rule) -> Iterator[str]:
    """Yield resources as kubectl writes them, such as `jobs.batch`, `pods/log` or `secrets named registry`."""
    names = f" named {' or '.join(rule.names)}" if rule.names else ""
    for group in rule.groups:
        for resource in rule.resources:
            kind, slash, sub = resource.partition("/")
            yield f"{f'{kind}.{group}'.rstrip('.')}{slash}{sub}{names}"
    yield from rule.urls


def facts(access: Access, requester: Requester | None) -> dict[str, Any]:
    """Return the bindings of a requester, or of all subjects, with the rules of their roles, as JSON data."""
    return {"grants": [_facts(grant) for grant in _grants(access, requester)]}


def _grants(access: Access, requester: Requester | None) -> Iterable[Grant]:
    """Return the grants of a requester in all namespaces; all grants if there is no requester."""
    return access.grants if requester is None else (grant for grant in access.grants if grant.applies_to(requester))


def _facts(grant: Grant) -> dict[str, Any]:
    return {
        "binding": grant.binding,
        "role": grant.role,
        "namespace": grant.namespace,
        "subjects": [
            {"kind": "Group" if subject.is_group else "User", "name": subject.name} for subject in grant.subjects
        ],
        "rules": [
            {
                "verbs": [*rule.verbs],
                "apiGroups": [*rule.groups],
                "resources": [*rule.resources],
                "resourceNames": [*rule.names],
                "nonResourceURLs": [*rule.urls],
            }
            for rule in grant.rules
        ],
        "unknown": grant.gap,
        "file": grant.file,
    }
