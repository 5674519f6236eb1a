"""The configuration of a Kueue installation: its version, fair sharing, and how it counts resource requests.

The configuration is a Configuration, as a file or in the ConfigMap that Kueue reads, or the Kueue object of
OpenShift's operator. Source: kueue v0.19.2 apis/config/v1beta2/configuration_types.go,
config/components/manager/controller_manager_config.yaml; pkg/workload/workload.go `totalRequestsFromPodSets`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Any

from generator.errors import DocumentError
from generator.facts.versions import minors
from generator.manifests import Body, Manifest, read
from generator.objects.amounts import Requests
from generator.objects.fields import mapping, mappings, string, strings
from generator.quantities import parse


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one minor version of Kueue; the defaults are those of 0.19.

    Attributes:
        version: the minor version.
        ranks_no_candidates_last: a flavor without preemption candidates comes after all that fit, whatever
            `flavorFungibility.preference` sets (v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go `isPreferred`).
        keeps_progress: the next attempt goes on with the next flavor, even if jobs of the queue were admitted or ended
            since the last cycle, or if the last attempt lost against another job of the cycle (v0.19.2
            pkg/scheduler/scheduler.go `lastAssignmentOutdated`, `markSkipped`; the feature gate is
            FlavorFungibilityPreserveScanProgress).
        lends_group_flavor: pods that request nothing get the flavor of the pods that they are placed with (v0.19.2
            flavorassigner.go `resolvePodSetFlavors`).
        counts_leader: a place holds a launcher only beside the hosts that it gets (v0.19.2
            pkg/cache/scheduler/tas_flavor_snapshot.go `prioritizeLeaderDomain`, `consumeWithLeadersGeneric`).
    """

    version: str
    ranks_no_candidates_last: bool = True
    keeps_progress: bool = True
    lends_group_flavor: bool = True
    counts_leader: bool = True


NEWEST = Rules(minors("kueue")[0])
_BY_VERSION = {
    "0.18": Rules(
        "0.18", ranks_no_candidates_last=False, keeps_progress=False, lends_group_flavor=False, counts_leader=False
    ),
}


def rules_of(version: str) -> Rules:
    """Return the rules of a minor version; those of the newest for an empty or unknown one."""
    return _BY_VERSION.get(version, NEWEST)


_CPU = 1000  # of its units are counted as one


@dataclass(frozen=True, slots=True)
class Transformation:
    """What a resource counts as.

    Attributes:
        outputs: resource → how much of it for one of the input.
        keeps_input: whether the input itself is counted too (`Retain`).
    """

    outputs: Mapping[str, Fraction]
    keeps_input: bool = True


@dataclass(frozen=True, slots=True)
class Counting:
    """How Kueue counts.

    Attributes:
        excluded: beginnings of the names of resources that are not counted.
        transformations: input → what it counts as.
        classes: DeviceClass → the resource that its claimed devices count as; None where nothing is known of them.
    """

    excluded: tuple[str, ...] = ()
    transformations: Mapping[str, Transformation] = field(default_factory=dict)
    classes: Mapping[str, str] | None = None

    def of(self, requests: Requests) -> Requests:
        """What is counted of what one pod asks for, or of what one node offers."""
        if not self.excluded and not self.transformations:
            return requests
        counted: dict[str, Fraction] = {}
        for name, amount in requests.items():
            if name.startswith(self.excluded):
                continue
            transformation = self.transformations.get(name, _ITSELF)
            if transformation.keeps_input:
                counted[name] = counted.get(name, Fraction(0)) + _plain(name, amount)
            for output, factor in transformation.outputs.items():
                counted[output] = counted.get(output, Fraction(0)) + _plain(name, amount) * factor
        return {name: ceil(amount * (_CPU if name == "cpu" else 1)) for name, amount in counted.items()}

    def of_claims(self, devices: Mapping[str, int]) -> Requests:
        """What is counted of claimed devices, by their class.

        Of a class that counts as nothing Kueue admits no claim (v0.19.2 pkg/dra/claims.go): it stands for itself here,
        of which there is no quota.
        """
        counted: dict[str, int] = {}
        for name, count in devices.items() if self.classes is not None else ():
            resource = (self.classes or {}).get(name, name)
            counted[resource] = counted.get(resource, 0) + count
        return counted

    def is_counted(self, resource: str) -> bool:
        """Whether quota of a resource can ever be used up."""
        is_made = any(resource in each.outputs for each in self.transformations.values())
        is_kept = self.transformations.get(resource, _ITSELF).keeps_input and not resource.startswith(self.excluded)
        return is_made or is_kept

    def instead(self, resource: str) -> tuple[str, ...]:
        """What counts in the place of a resource; nothing if it is excluded, or replaced by nothing."""
        return () if resource.startswith(self.excluded) else tuple(self.transformations.get(resource, _ITSELF).outputs)


_ITSELF = Transformation({})
AS_ASKED = Counting()
"""Everything counts as what it is."""


def _plain(resource: str, amount: int) -> Fraction:
    return Fraction(amount, _CPU) if resource == "cpu" else Fraction(amount)


CONFIGURATION = "Configuration"
OPERATOR = "Kueue"
_KEY = "controller_manager_config.yaml"
_GROUP = "config.kueue.x-k8s.io"
_OPERATOR_GROUP = "kueue.openshift.io"


@dataclass(frozen=True, slots=True)
class Settings:
    """What matters of it.

    Attributes:
        is_fair: whether fair sharing is on; None where no file says.
        counting: what is counted of what pods request.
        is_modelled: whether that is all, and what there is no quota for is refused.
    """

    is_fair: bool | None = None
    counting: Counting = AS_ASKED
    is_modelled: bool = True


UNTOLD = Settings()
"""Where no file says anything."""


def settings(manifests: Iterable[Manifest]) -> Settings:
    """Those of the only configuration; of several, for several clusters, nothing is known."""
    found = [each for manifest in manifests for each in _of(manifest)]
    return found[0] if len(found) == 1 else UNTOLD


def is_configuration(manifest: Manifest) -> bool:
    """Whether an object is, or holds, a configuration of Kueue."""
    if manifest.kind == "ConfigMap":
        return isinstance(mapping(manifest.body, "data").get(_KEY), str)
    return (manifest.group, manifest.kind) in ((_GROUP, CONFIGURATION), (_OPERATOR_GROUP, OPERATOR))


def _of(manifest: Manifest) -> Iterator[Settings]:
    if not is_configuration(manifest):
        return
    if manifest.kind == "ConfigMap":
        with suppress(DocumentError):
            yield from map(_read, (each.body for each in read(mapping(manifest.body, "data")[_KEY], manifest.file)))
    elif manifest.kind == OPERATOR:
        config = mapping(manifest.body, "spec", "config")
        policy = mapping(config, "preemption").get("preemptionPolicy")
        yield Settings(policy == "FairSharing", Counting(classes=_classes(mapping(config, "resources"))))
    else:
        yield _read(manifest.body)


def _read(body: Mapping[str, Any]) -> Settings:
    """`fairSharing` of v1beta1 has a switch, that of v1beta2 is on where it is written."""
    fair, resources = body.get("fairSharing"), mapping(body, "resources")
    has_switch = str(body.get("apiVersion")).endswith("/v1beta1")
    is_ignored = resources.get("quotaCheckStrategy") == "IgnoreUndeclared"
    written = mappings(resources.get("transformations"))
    known = {string(each.get("input")): made for each in written if (made := _transformation(each))}
    return Settings(
        is_fair=isinstance(fair, dict) and (fair.get("enable") is True or not has_switch),
        counting=Counting(strings(resources.get("excludeResourcePrefixes")), known, _classes(resources)),
        is_modelled=not is_ignored and len(known) == len(written),
    )


def _classes(resources: Mapping[str, Any]) -> dict[str, str]:
    """DeviceClass → what its devices count as, for those that are counted one by one."""
    return {
        name: string(each.get("name"))
        for each in mappings(resources.get("deviceClassMappings"))
        if not each.get("sources")
        for name in strings(each.get("deviceClassNames"))
    }


def _transformation(body: Body) -> Transformation | None:
    """None where it multiplies resources by one another, or takes some away: Kueue 0.18 and 0.19 differ in that."""
    outputs: dict[str, Fraction] = {}
    for name, factor in mapping(body, "outputs").items():
        try:
            outputs[str(name)] = parse(str(factor)).value
        except ValueError:
            return None
    if body.get("multiplyBy") or any(factor < 0 for factor in outputs.values()):
        return None
    return Transformation(outputs, keeps_input=body.get("strategy") != "Replace")
