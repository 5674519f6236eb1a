"""quota/order, quota/repeated, quota/limit: does Kueue's webhook take the quotas as they are written?

The schemas say nothing of these: kueue v0.19.2 pkg/webhooks/clusterqueue_webhook.go validateResourceGroups,
validateFlavorQuotas, cohort_webhook.go validateCohort, common.go validateFairSharing, and the rules of CEL in
apis/kueue/v1beta2/clusterqueue_types.go. v0.18.3 has the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from generator.checks.finding import Breach
from generator.checks.gathered import Gathered
from generator.checks.queued import KUEUE, Queued, rows
from generator.documents.load import Path
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping, strings
from generator.quantities import amount_of

_WHY = "the API server refuses the object"
_NO_WEIGHT = Fraction(1, 10**9)
_PARENT = {"ClusterQueue": ("cohortName", "cohort"), "Cohort": ("parentName",)}
"""Kind → the fields that name who lends, the last of v1beta1."""


def order(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Each flavor says something of each covered resource, in the same order."""
    for manifest in gathered.of(KUEUE, "ClusterQueue", "Cohort"):
        for number, group in indexed_mappings(mapping(manifest.body, "spec").get("resourceGroups")):
            covered = strings(group.get("coveredResources"))
            for place, flavor in indexed_mappings(group.get("flavors")):
                names = tuple(str(each.get("name")) for _, each in indexed_mappings(flavor.get("resources")))
                if names != covered:
                    path: Path = ("spec", "resourceGroups", number, "flavors", place, "resources")
                    yield manifest, _order(path, str(flavor.get("name")), names, covered)


def _order(path: Path, flavor: str, names: Sequence[str], covered: Sequence[str]) -> Breach:
    missing = [name for name in covered if name not in names]
    excess = [name for name in names if name not in covered]
    if missing:
        message = f"flavor `{flavor}` says nothing of {_listed(missing)}, which `coveredResources` names"
    elif excess:
        message = f"flavor `{flavor}` has {_listed(excess)}, which `coveredResources` does not name"
    else:
        message = f"flavor `{flavor}` has {_listed(names)}, and `coveredResources` has {_listed(covered)}"
    fix = f"write them as `coveredResources` does: {', '.join(covered)}; 0 where the flavor has none"
    return Breach(path, "quota/order", message, _WHY, fix, at_key=True)


def repeated(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """A resource belongs to one group, and so does a flavor."""
    for manifest in gathered.of(KUEUE, "ClusterQueue", "Cohort"):
        resources: dict[str, int] = {}
        flavors: dict[str, int] = {}
        for number, group in indexed_mappings(mapping(manifest.body, "spec").get("resourceGroups")):
            path: Path = ("spec", "resourceGroups", number)
            for place, name in enumerate(strings(group.get("coveredResources"))):
                if name in resources:
                    yield manifest, _repeated((*path, "coveredResources", place), name, "resource", resources[name])
                resources.setdefault(name, number)
            for place, flavor in indexed_mappings(group.get("flavors")):
                name = str(flavor.get("name"))
                if flavors.setdefault(name, number) != number:  # within a group the schema tells
                    where = (*path, "flavors", place, "name")
                    yield manifest, _repeated(where, name, "flavor", flavors[name])


def _repeated(path: Path, name: str, what: str, first: int) -> Breach:
    advice = {
        "resource": "name it once: all its flavors belong into one group",
        "flavor": "put the resources of this flavor into one group, or make a flavor of its own for them",
    }
    message = f"the {what} `{name}` is in `resourceGroups[{first}]` already"
    return Breach(path, "quota/repeated", message, _WHY, advice[what], value=name)


def limit(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """No amount is below zero, no queue lends more than it has, and without a cohort nobody lends."""
    for manifest in gathered.of(KUEUE, "ClusterQueue", "Cohort"):
        spec = mapping(manifest.body, "spec")
        yield from ((manifest, breach) for breach in _weight(mapping(spec, "fairSharing").get("weight")))
        is_alone = not any(spec.get(field) for field in _PARENT[manifest.kind])
        for row in rows(manifest) if _may_be_wrong(manifest, gathered.view(Queued.read)) else ():
            for field in ("nominalQuota", "borrowingLimit", "lendingLimit"):
                message, fix = _wrong(manifest.kind, row.body, field, is_alone=is_alone)
                if message:
                    yield manifest, Breach((*row.path, field), "quota/limit", message, _WHY, fix, value=row.body[field])


def _wrong(kind: str, row: Mapping[str, Any], field: str, *, is_alone: bool) -> tuple[str, str]:
    """What is wrong with an amount, and what to do; nothing if it is right, or is none."""
    value, amount = row.get(field), amount_of(row.get(field))
    if amount is None or value is None:
        return "", ""
    if amount < 0:
        return f"`{value}` is below zero", "write 0 or more"
    if field == "nominalQuota":
        return "", ""
    if is_alone:
        parent = _PARENT[kind][0]
        message = f"a {field} of {value}, but no `{parent}`: there is nobody to share with"
        return message, f"name the cohort in `{parent}`, or remove the limit"
    if field == "lendingLimit" and kind == "ClusterQueue" and amount > (amount_of(row.get("nominalQuota")) or 0):
        message = f"lends {value} {row.get('name')}, and has {row.get('nominalQuota', 0)}"
        return message, "write at most the nominalQuota, or remove it to lend all that is unused"
    return "", ""


def _weight(value: object) -> Iterator[Breach]:
    weight = amount_of(value)
    if weight is not None and (weight < 0 or 0 < weight <= _NO_WEIGHT):
        message = f"`{value}` is below zero" if weight < 0 else f"`{value}` is next to nothing, and not 0"
        fix = "write 0, or more than `1n`; 1 is what others have"
        yield Breach(("spec", "fairSharing", "weight"), "quota/limit", message, _WHY, fix, value=value)


def _may_be_wrong(manifest: Manifest, queued: Queued | None) -> bool:
    """Whether anything can be wrong with its limits: mostly what was computed for all rules says that nothing is."""
    known = queued.tree.queues.get(manifest.name) if queued and manifest.kind == "ClusterQueue" else None
    if known is None or not known.cohort:
        return True
    return any(
        quota.nominal < 0
        or (quota.borrowing or 0) < 0
        or (quota.lending is not None and not 0 <= quota.lending <= quota.nominal)
        for quota in known.quotas.values()
    )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(", ".join(f"`{name}`" for name in part) for part in (names[:-1], names[-1:]) if part)
