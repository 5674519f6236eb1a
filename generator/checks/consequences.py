"""Findings that an earlier mistake causes: a report leaves them out, because they disappear with this mistake.

One mistake can break several rules. A protocol that Kubernetes does not have breaks the schema of a NetworkPolicy, and
then the ranks cannot connect. The report has the first finding only, at the line of the mistake. A rule causes a
finding about the same object in one of these ways:

- The mistake is at the place of the finding, or in the part that the finding is about. Schemas come first, then the
  rules that read one object, then references, then the other rules, and last verdicts such as `trainjob/denied`.
- `_CAUSES` names the rule.
- A schema reports a NetworkPolicy, and the finding is about connections of the same namespace.
- The mistake is a misspelt name of a device, and the finding names the device. This finding can be in another object.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

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
_FIRST = frozenset({"schema", "yaml"})
_VERDICTS = {
    **dict.fromkeys(("quota/never-admitted", "policy/rejects-own-object", "workload/job-set"), 4),
    **dict.fromkeys(("trainjob/denied", "trainjob/not-admitted", "trainjob/rejected"), 4),
    "trainjob/unknown": 5,
}
"""A rule that reports a result of other mistakes → its rank."""
_OF_ONE_OBJECT = frozenset({"object/metadata", "object/unnamed", "pod/field", "quota/label", "quota/limit"})
_REFERENCES = re.compile(r"reference/|[a-z]+/missing-|trainjob/runtime-kind")
_NEAR = 3
"""The levels between a finding and a mistake below it, unless a schema reports the mistake."""


def without_consequences(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings without the effects of an error among them.

    Args:
        findings: the findings of one run.
    """
    everything = [(finding, *_place(finding)) for finding in findings]
    errors: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for finding, file, path in everything:
        if finding.severity is Severity.ERROR:
            errors.setdefault((file, finding.resource), []).append((finding.check, path))
    broken = {_namespace(finding) for finding, *_ in everything if _is_broken_policy(finding)}
    misspelt = [finding for finding, *_ in everything if _is_misspelt(finding)]
    return [
        finding
        for finding, file, path in everything
        if not any(_is_cause(*error, finding.check, path) for error in errors.get((file, finding.resource), ()))
        and not any(_names_device(finding, error) for error in misspelt)
        and not (finding.check.startswith("network/") and _namespace(finding) in broken)
    ]


def _place(finding: Finding) -> tuple[str, str]:
    """Return the file and the path of a finding in the manifests."""
    place = finding.generated or finding
    return place.file, place.path


def _is_broken_policy(finding: Finding) -> bool:
    kind = finding.resource.partition(" ")[0]
    return kind == "NetworkPolicy" and finding.severity is Severity.ERROR and _rank(finding.check) == 0


def _namespace(finding: Finding) -> str:
    """Return the namespace of an object; for a Namespace, its own name."""
    return finding.resource.partition(" ")[2].partition("/")[0]


def _is_misspelt(finding: Finding) -> bool:
    return finding.check == _MISSPELT and finding.severity is Severity.ERROR


def _is_cause(error: str, place: str, check: str, path: str) -> bool:
    """Return True if an error causes a finding about the same object.

    Args:
        error: the rule of the error.
        place: the path of the error.
        check: the rule of the finding.
        path: the path of the finding.
    """
    if error in _CAUSES.get(check, ()):
        return True
    rank = _rank(error)
    if rank >= _rank(check):
        return False
    if _is_below(place, path):
        levels = len(_STEP.findall(place[len(path) :]))
        return levels <= 1 or (path != "$" and (rank == 0 or levels <= _NEAR))
    return (rank == 0 or check in _VERDICTS) and place != "$" and _is_below(path, place)


def _rank(check: str) -> int:
    if check.partition("/")[0] in _FIRST:
        return 0
    if check in _VERDICTS:
        return _VERDICTS[check]
    if check in _OF_ONE_OBJECT:
        return 1
    return 2 if _REFERENCES.match(check) else 3


_STEP = re.compile(r"[.\[]")


def _is_below(path: str, above: str) -> bool:
    """Return True if a JSON path equals `above`, or is below it."""
    return path.startswith(above) and (len(path) == len(above) or path[len(above)] in ".[")


def _names_device(finding: Finding, error: Finding) -> bool:
    """Return True if a finding is an effect of a misspelt device: it names the device, or lacks the correct one."""
    if finding.check == _MISSPELT:
        return False
    names: Sequence[str] = [str(error.value)]
    if (finding.file, finding.resource) == (error.file, error.resource):
        names = [*names, error.fix.removeprefix("did you mean `").removesuffix("`?")]
    return any(re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w/-])", finding.message) for name in names)
