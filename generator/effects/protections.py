"""The topic `protections`: Pod Security, privileges of pods, SecurityContextConstraints, and limits of namespaces."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from generator.checks.objects import Change, ChangedObject
from generator.checks.relaxations import enforced_level, read_relaxations
from generator.effects.effect import Effect, Risk
from generator.effects.places import Places, join
from generator.effects.subjects import Statement, merge
from generator.facts.names import IPC_LOCK, POD_SECURITY_ENFORCE, TENANT_LABEL
from generator.facts.versions import minors
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, mappings, string, strings
from generator.objects.pods import RUNTIMES, PodTemplate, pod_templates
from generator.quantities import amount_of
from generator.upstream.kubernetes.pod_security import Level, Violation, find_violations
from generator.upstream.openshift.scc.constraint import is_exempt

_TOPIC = "protections"
_LEVELS = ("privileged", "baseline", "memlock", "restricted")
"""Pod Security levels, and mpigen's own level `memlock`, from the weakest."""
_DEFAULT = "the default of the cluster"


def find_protection_effects(change: Change) -> Iterator[Effect]:
    """Yield the changes of protections of namespaces and pods, one effect for the subjects with the same change."""
    yield from merge(_TOPIC, _statements(change))


def _statements(change: Change) -> Iterator[Statement]:
    places = Places.of(change)
    changed = ChangedObject.between(change)
    for pair in changed:
        if (pair.new.group, pair.new.kind) == ("", "Namespace"):
            yield from _compare_levels(pair, places)
    for name in sorted(places.added):
        yield from _new_level(places.after[name], places)
    pairs: list[tuple[Manifest | None, Manifest | None]] = [(pair.old, pair.new) for pair in changed]
    pairs += [(None, item) for item in change.all_added]
    pairs += [(item, None) for item in change.all_removed]
    minor = int((change.targets.get("kubernetes") or minors("kubernetes")[0]).rpartition(".")[2])
    for old, new in pairs:
        item = new or old
        if item is None:
            continue
        kind = (item.group, item.kind)
        if kind in (("", "ResourceQuota"), ("", "LimitRange")) and _is_kept(item, places):
            yield from _compare_limits(old, new, places)
        elif kind == ("security.openshift.io", "SecurityContextConstraints"):
            yield from _compare_constraints(old, new)
        elif new is not None and new.kind != "TrainJob":
            yield from _compare_pods(old, new, minor)


def _is_kept(item: Manifest, places: Places) -> bool:
    """Return True if the update neither adds nor removes the namespace of an object."""
    return (item.namespace in places.before) == (item.namespace in places.after)


def _compare_levels(pair: ChangedObject, places: Places) -> Iterator[Statement]:
    """Yield the changes of the Pod Security labels of a Namespace, and of its exemption from the SCCs of OpenShift."""
    noun, name = places.name(pair.new.name)
    old, new = pair.old.labels, pair.new.labels
    was, now = (_level(labels) for labels in (old, new))
    if was != now:
        is_weaker = now == _DEFAULT or (was in _LEVELS and now in _LEVELS and _LEVELS.index(now) < _LEVELS.index(was))
        risk = Risk.HIGH if is_weaker else Risk.MEDIUM
        rest = f"{_describe(now)} instead of {_quote(was)}"
        yield Statement(
            noun, name, "enforces", f"{rest}{_until(pair.new)}", risk, _meaning(was, now), (pair.new,), was, now
        )
    for mode, verb in (("enforce", "enforces"), ("audit", "audits"), ("warn", "warns about")):
        label = f"pod-security.kubernetes.io/{mode}"
        for key, text in ((label, "the Pod Security level"), (f"{label}-version", "the Pod Security version")):
            before, after = (string(labels.get(key), "none") for labels in (old, new))
            if before != after and key != POD_SECURITY_ENFORCE:
                rest = f"{text} `{after}` instead of `{before}`"
                yield Statement(noun, name, verb, rest, Risk.LOW, (), (pair.new,), before, after)
    before_exempt, after_exempt = is_exempt(pair.old.body), is_exempt(pair.new.body)
    if before_exempt != after_exempt:
        rest = f"{'no' if after_exempt else 'the'} SecurityContextConstraints of OpenShift"
        yield Statement(noun, name, "applies", rest, Risk.HIGH if after_exempt else Risk.MEDIUM, (), (pair.new,))


def _level(labels: Mapping[str, object]) -> str:
    level = str(enforced_level(labels))
    return _DEFAULT if POD_SECURITY_ENFORCE not in labels and level == "restricted" else level


def _quote(level: str) -> str:
    return level if level == _DEFAULT else f"`{level}`"


def _describe(level: str) -> str:
    return "the default Pod Security level of the cluster" if level == _DEFAULT else f"the Pod Security level `{level}`"


def _until(namespace: Manifest) -> str:
    entry = next((one for one in read_relaxations(namespace) if one.rule == "pod-security"), None)
    if entry is None:
        return ""
    return f" until {entry.until}" + (f" ({entry.reason})" if entry.reason else "")


def _meaning(was: str, now: str) -> tuple[str, ...]:
    if now == "privileged":
        return ("the API server accepts pods with all privileges of a node, such as hostPath volumes",)
    if now == "baseline" and was in ("restricted", "memlock"):
        return ("the API server accepts pods that run as root",)
    if now == "memlock" and was == "restricted":
        return (f"the API server accepts pods with the capability {IPC_LOCK}",)
    if now == "restricted":
        return ("the API server rejects new pods that run as root or have further privileges",)
    return ()


def _new_level(namespace: Manifest, places: Places) -> Iterator[Statement]:
    """Yield the level of a new namespace of a team, unless its label is `restricted`; without a label, the default."""
    level = _level(namespace.labels)
    if TENANT_LABEL in namespace.labels and level != "restricted":
        noun, name = places.name(namespace.name)
        risk = {"privileged": Risk.HIGH, "memlock": Risk.LOW}.get(level, Risk.MEDIUM)
        rest = f"{_describe(level)}{_until(namespace)}"
        yield Statement(noun, name, "enforces", rest, risk, _meaning("restricted", level), (namespace,), None, level)


def _compare_limits(old: Manifest | None, new: Manifest | None, places: Places) -> Iterator[Statement]:
    """Yield the changes of a ResourceQuota or LimitRange: one statement, or none if all amounts are equal."""
    item = new or old
    if item is None:
        return
    read = _read_quota if item.kind == "ResourceQuota" else _read_range
    was, now = ({} if side is None else read(side) for side in (old, new))
    noun, name = places.name(item.namespace)
    if new is None:
        details = tuple(f"{_field(key)}{_unit(key)}: {value}" for key, (value, _) in was.items())
        text = f"{item.kind} `{item.name}` any more"
        yield Statement(noun, name, "has", f"no {text}", Risk.HIGH, details, (item,))
        return
    rows: dict[tuple[str, str, Risk], list[str]] = {}
    for key in {**was, **now}:
        (before, low), (after, high) = was.get(key, ("", None)), now.get(key, ("", None))
        if before == after or (low is not None and low == high):
            continue
        change = f"{after or 'no limit'} instead of {before or 'no limit'}"
        rows.setdefault((change, _unit(key), _risk(key, low, high)), []).append(_field(key))
    sentences = [(f"the {join(fields)} {change}{unit}", risk) for (change, unit, risk), fields in rows.items()]
    if len(sentences) == 1:
        text, risk = sentences[0]
        yield Statement(noun, name, "has", text, risk, (), (item,))
    elif sentences:
        risk = max((risk for _, risk in sentences), key=list(Risk).index)
        text = f"{len(sentences)} other limits in {item.kind} `{item.name}`"
        yield Statement(noun, name, "has", text, risk, tuple(text for text, _ in sentences), (item,))


_Limits = dict[str, tuple[str, Fraction | None]]
"""Field and unit, separated by a tab → the value, and its amount."""
_EXPOSING = ("services.loadbalancers", "services.nodeports")
"""Quotas on Services that clients outside the cluster reach."""


def _read_quota(quota: Manifest) -> _Limits:
    spec = mapping(quota.body, "spec")
    scopes = [*strings(spec.get("scopes"))]
    scopes += [
        " ".join([string(row.get("scopeName")), string(row.get("operator")), *strings(row.get("values"))])
        for row in mappings(mapping(spec, "scopeSelector").get("matchExpressions"))
    ]
    where = f" for pods with {join(scopes)}" if scopes else ""
    return {
        f"quota\t of `{key}`{where}": (str(value), amount_of(value)) for key, value in mapping(spec, "hard").items()
    }


def _read_range(limits: Manifest) -> _Limits:
    limits_by_field: _Limits = {}
    for row in mappings(mapping(limits.body, "spec").get("limits")):
        kind = string(row.get("type"))
        for name in ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio"):
            for resource, value in mapping(row, name).items():
                limits_by_field[f"{name}\t of `{resource}` in each {kind}"] = (str(value), amount_of(value))
    return limits_by_field


def _field(key: str) -> str:
    return key.partition("\t")[0]


def _unit(key: str) -> str:
    return key.partition("\t")[2]


def _risk(key: str, low: Fraction | None, high: Fraction | None) -> Risk:
    """Return the risk of a changed limit.

    Less is medium. More is low, and high for a quota on Services that clients outside the cluster reach. Minimums and
    defaults of a LimitRange are medium in both directions.
    """
    is_exposing = any(f"`{name}`" in key for name in _EXPOSING)
    is_more = high is None or (low is not None and high > low)
    if _field(key) not in ("quota", "max", "maxLimitRequestRatio"):
        return Risk.MEDIUM
    if is_exposing and is_more:
        return Risk.HIGH
    return Risk.LOW if is_more else Risk.MEDIUM


def _compare_pods(old: Manifest | None, new: Manifest, minor: int) -> Iterator[Statement]:
    """Yield new and ended violations of Pod Security levels in the pod templates of an object, and a new IPC_LOCK.

    Of a new object, only violations of `baseline` count.
    """
    templates = list(pod_templates(new))
    if not templates:
        return
    before = _violations(() if old is None else pod_templates(old), minor)
    after = _violations(templates, minor)
    noun, name = ("runtime", new.name) if new.kind in RUNTIMES else (new.kind, f"{new.namespace}/{new.name}".strip("/"))
    for level, risk in (("baseline", Risk.HIGH), ("restricted", Risk.MEDIUM)):
        came, gone = (
            [one for one in side[level] if one not in other[level]]
            for side, other in ((after, before), (before, after))
        )
        if came and (level == "baseline" or (old is not None and not after["baseline"])):
            reasons = list(dict.fromkeys(one.reason for one in came))
            rest = f"pods that violate the Pod Security level `{level}`: {join(reasons)}"
            if "privileged" in reasons:
                rest = "privileged pods"
            yield Statement(noun, name, "creates", rest, risk, tuple(map(str, came)), (new,))
        if gone and old is not None and not came and not after[level]:
            rest = f"pods that no longer violate the Pod Security level `{level}`"
            yield Statement(noun, name, "creates", rest, Risk.LOW, tuple(map(str, gone)), (new,))
    is_new_lock = _has_lock(templates) and not (old is not None and _has_lock(pod_templates(old)))
    if is_new_lock and old is not None:
        yield Statement(noun, name, "creates", f"pods with the capability {IPC_LOCK}", Risk.MEDIUM, (), (new,))


def _violations(templates: Iterable[PodTemplate], minor: int) -> dict[str, list[Violation]]:
    """Return level → violations, without IPC_LOCK. A violation of `baseline` does not count again for `restricted`."""
    violations: dict[str, list[Violation]] = {"baseline": [], "restricted": []}
    for template in templates:
        pod = _without_lock(template.body)
        baseline = find_violations(pod, Level("baseline"), minor)
        reasons = {violation.reason for violation in baseline}
        violations["baseline"] += [one for one in baseline if one not in violations["baseline"]]
        violations["restricted"] += [
            one
            for one in find_violations(pod, Level("restricted"), minor)
            if one.reason not in reasons and one not in violations["restricted"]
        ]
    return violations


def _without_lock(pod: Mapping[str, Any]) -> Body:
    """Return a copy of a pod whose containers do not add IPC_LOCK, which pods need for RDMA."""
    body = copy.deepcopy(dict(pod))
    for capabilities in _capabilities(body):
        if IPC_LOCK in strings(capabilities.get("add")):
            capabilities["add"] = [name for name in capabilities["add"] if name != IPC_LOCK]
    return body


def _capabilities(pod: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for key in ("initContainers", "containers"):
        for container in mappings(mapping(pod, "spec").get(key)):
            yield mapping(container, "securityContext", "capabilities")


def _has_lock(templates: Iterable[PodTemplate]) -> bool:
    return any(IPC_LOCK in strings(row.get("add")) for template in templates for row in _capabilities(template.body))


_STRATEGIES = ("MustRunAs", "MustRunAsRange", "MustRunAsNonRoot", "RunAsAny")
"""Strategies of SecurityContextConstraints, from the strictest."""


def _compare_constraints(old: Manifest | None, new: Manifest | None) -> Iterator[Statement]:
    """Yield new and removed SecurityContextConstraints, and the fields with which others allow more or less."""
    item = new or old
    if item is None:
        return
    noun = "SecurityContextConstraints"
    if new is None:
        yield Statement(noun, item.name, "is", "removed", Risk.MEDIUM, ("pods that need them are rejected",), (item,))
        return
    before: Body = {} if old is None else old.body
    more, less = list(_more(before, new.body)), list(_more(new.body, before)) if old else []
    if more:
        text = "more than before" if old else f"{len(more)} privileges"
        yield Statement(noun, item.name, "allows", text, Risk.HIGH, tuple(more), (item,))
    elif old is None:
        yield Statement(noun, item.name, "is", "new", Risk.MEDIUM, (), (item,))
    if less:
        yield Statement(noun, item.name, "allows", "less than before", Risk.MEDIUM, tuple(less), (item,))


_LISTS = ("allowedCapabilities", "allowedUnsafeSysctls", "defaultAddCapabilities", "groups", "users", "volumes")
_DROPS = ("forbiddenSysctls", "requiredDropCapabilities")
_TYPES = ("fsGroup", "runAsUser", "seLinuxContext", "supplementalGroups")


def _more(old: Body, new: Body) -> Iterator[str]:
    """Yield the fields with which `new` allows more than `old`, with the values."""
    for key in sorted(key for key in {*old, *new} if key.startswith("allow") and new.get(key) is True):
        if old.get(key) is not True:
            yield f"{key}: true"
    for key in _LISTS:
        if added := [name for name in strings(new.get(key)) if name not in strings(old.get(key))]:
            yield f"{key}: {join(added)}"
    for key in _DROPS:
        if dropped := [name for name in strings(old.get(key)) if name not in strings(new.get(key))]:
            yield f"{key} without {join(dropped)}"
    for key in _TYPES:
        was, now = (_strictness(mapping(side, key).get("type")) for side in (old, new))
        if now > was:
            yield f"{key}: {mapping(new, key).get('type')}"


def _strictness(strategy: object) -> int:
    """Return the index of a strategy in `_STRATEGIES`; 0, the strictest, for no strategy or an unknown one."""
    return _STRATEGIES.index(strategy) if isinstance(strategy, str) and strategy in _STRATEGIES else 0
