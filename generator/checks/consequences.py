"""Findings that an earlier mistake causes: a report leaves them out, because they disappear with this mistake.

One mistake can break several rules. A protocol that Kubernetes does not have breaks the schema of a NetworkPolicy, and
then the ranks cannot connect. The report has the first finding only, at the line of the mistake. A rule causes a
finding about the same object in one of these ways:

- The mistake is at the place of the finding, or in the part that the finding is about. Schemas come first, then the
  rules that read one object, then references, then the other rules, and last verdicts such as `trainjob/rejected`.
- `_CAUSES` names the rule.
- An admission policy rejects the field that the finding is about, or a part of which it is about. So the API server
  reports this rejection first, and often no other value is valid.
- A schema reports a NetworkPolicy, and the finding is about connections of the same namespace.
- The mistake is a misspelt name of a device, and the finding names the device. This finding can be in another object.
- An object has no kind, API version or name, and the finding is about a reference to this object.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from generator.checks.finding import Finding, Severity

_MISSPELT = "object/misspelt-device"
_UNUSABLE = frozenset({"quota/limit", "quota/missing-flavor", "quota/order", "quota/uncovered"})
"""The rules whose mistakes make a ClusterQueue unusable."""
_CAUSES: Mapping[str, frozenset[str]] = {
    "network/dns-blocked": frozenset({"policy/matches-nothing"}),
    "network/ranks-blocked": frozenset({"policy/matches-nothing"}),
    "pod/mount": frozenset({"pod/field"}),
    "pod/resources": frozenset({"trainjob/contradicting-resources"}),
    "quota/borrows-nothing": _UNUSABLE,
    "quota/no-job": _UNUSABLE,
    "quota/too-large": _UNUSABLE,
    "quota/uncovered": frozenset({"quota/order"}),
    "trainjob/contradicting-resources": frozenset({"fabric/tcp-fallback"}),
    "trainjob/idle-devices": frozenset({_MISSPELT, "trainjob/lost-devices", "trainjob/uncounted-resources"}),
}
"""A rule → the rules of which an error in the same object causes the finding."""
_DENIED = "trainjob/denied"
_FIRST = frozenset({"schema", "yaml"})
_VERDICTS = {
    **dict.fromkeys(("quota/never-admitted", "policy/rejects-own-object", "workload/job-set"), 4),
    **dict.fromkeys((_DENIED, "trainjob/not-admitted", "trainjob/rejected"), 4),
    "trainjob/unknown": 5,
}
"""A rule that reports a result of other mistakes → its rank."""
_OF_ONE_OBJECT = frozenset({_MISSPELT, "object/metadata", "object/unnamed", "pod/field", "quota/label", "quota/limit"})
_WITHOUT_IDENTITY = frozenset({"object/unnamed", "schema/not-an-object"})
_REFERENCES = re.compile(r"reference/|[a-z]+/missing-|trainjob/runtime-kind")
_RANK_OF_OBJECTS = 1
_LEAST_STEPS = 3
_NEAR = 3
"""The most levels between a finding and a mistake below it. A deeper mistake is independent."""


def without_consequences(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings without the effects of an error among them.

    Args:
        findings: the findings of one run.
    """
    everything = [(finding, *_place(finding)) for finding in findings]
    errors: dict[tuple[str, str], _Errors] = {}
    for finding, file, path in everything:
        if finding.severity is Severity.ERROR:
            errors.setdefault((file, finding.resource), _Errors()).add(finding.check, path)
    broken = {_namespace(finding) for finding, *_ in everything if _is_broken_policy(finding)}
    misspelt = [finding for finding, *_ in everything if _is_misspelt(finding)]
    unknown = {finding.resource for finding, *_ in everything if finding.check in _WITHOUT_IDENTITY}
    return [
        finding
        for finding, file, path in everything
        if not ((of_object := errors.get((file, finding.resource))) and of_object.cause(finding.check, path))
        and not any(_names_device(finding, error) for error in misspelt)
        and not (finding.check.startswith("network/") and _namespace(finding) in broken)
        and not (_REFERENCES.match(finding.check) and any(_names_object(finding, resource) for resource in unknown))
    ]


def _place(finding: Finding) -> tuple[str, str]:
    """Return the file and the path of a finding in the manifests."""
    place = finding.generated or finding
    return place.file, place.path


def _names_object(finding: Finding, resource: str) -> bool:
    """Return True if a finding about a reference can mean an object of which the kind or the name is unknown.

    Args:
        finding: the finding.
        resource: the known kind and name of the object, such as `object team-a/b` or `ClusterQueue`.
    """
    kind, _, place = resource.partition(" ")
    name = place.rpartition("/")[2]
    known = [
        *([rf"\b{re.escape(kind)}\b"] if kind != "object" else []),
        *([rf"[/`]{re.escape(name)}`"] if name else []),
    ]
    return bool(known) and all(re.search(pattern, finding.message) for pattern in known)


def _is_broken_policy(finding: Finding) -> bool:
    kind = finding.resource.partition(" ")[0]
    return kind == "NetworkPolicy" and finding.severity is Severity.ERROR and _rank(finding.check) == 0


def _namespace(finding: Finding) -> str:
    """Return the namespace of an object; for a Namespace, its own name."""
    return finding.resource.partition(" ")[2].partition("/")[0]


def _is_misspelt(finding: Finding) -> bool:
    return finding.check == _MISSPELT and finding.severity is Severity.ERROR


@dataclass(slots=True)
class _Errors:
    """The errors of one object.

    Attributes:
        checks: their rules.
        denied: the fields that an admission policy rejects, without places such as `$.spec` that have many fields.
        at: path of an error → the lowest rank of its rules.
        below: path → (rank, levels) of each error at the path, with 0 levels, or below it.
    """

    checks: set[str] = field(default_factory=set)
    denied: set[str] = field(default_factory=set)
    at: dict[str, int] = field(default_factory=dict)
    below: dict[str, set[tuple[int, int]]] = field(default_factory=dict)

    def add(self, check: str, path: str) -> None:
        """Add an error.

        Args:
            check: its rule.
            path: its path.
        """
        rank = _rank(check)
        self.checks.add(check)
        if check == _DENIED and len(_parts(path)) > _LEAST_STEPS:
            self.denied.add(path)
        self.at[path] = min(rank, self.at.get(path, rank))
        for levels, above in enumerate(reversed(_parts(path))):
            self.below.setdefault(above, set()).add((rank, levels))

    def cause(self, check: str, path: str) -> bool:
        """Return True if an error causes a finding about the same object.

        Args:
            check: the rule of the finding.
            path: the path of the finding.
        """
        if not self.checks.isdisjoint(_CAUSES.get(check, ())):
            return True
        rank = _RANK_OF_OBJECTS + 1 if check == _DENIED else _rank(check)
        if check != _DENIED and rank > _RANK_OF_OBJECTS and not self.denied.isdisjoint(_parts(path)):
            return True
        for of_error, levels in self.below.get(path, ()):
            is_near = levels <= 1 or (path != "$" and levels <= _NEAR)
            if of_error < rank and is_near:
                return True
        ranks = (self.at.get(above, rank) for above in _parts(path)[:-1] if above != "$")
        return any(of_error < rank and (of_error == 0 or check in _VERDICTS) for of_error in ranks)


def _parts(path: str) -> list[str]:
    """Return the paths above a JSON path, from `$` on, and the path itself."""
    return [*(path[: step.start()] for step in _STEP.finditer(path)), path]


def _rank(check: str) -> int:
    if check.partition("/")[0] in _FIRST:
        return 0
    if check in _VERDICTS:
        return _VERDICTS[check]
    if check in _OF_ONE_OBJECT:
        return _RANK_OF_OBJECTS
    return 2 if _REFERENCES.match(check) else 3


_STEP = re.compile(r"[.\[]")


def _names_device(finding: Finding, error: Finding) -> bool:
    """Return True if a finding is an effect of a misspelt device: it names the device, or lacks the correct one."""
    if finding.check == _MISSPELT:
        return False
    names: Sequence[str] = [str(error.value)]
    if (finding.file, finding.resource) == (error.file, error.resource):
        names = [*names, error.fix.removeprefix("did you mean `").removesuffix("`?")]
    return any(re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w/-])", finding.message) for name in names)
