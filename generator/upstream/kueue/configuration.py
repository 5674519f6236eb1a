"""The configuration of a Kueue installation: its version, fair sharing, and how it counts resource requests.

The configuration is a Configuration (a file, or a key of the ConfigMap that Kueue reads), or the `Kueue` object of
OpenShift's operator. Source: kueue v0.19.2 apis/config/v1beta2/configuration_types.go; kueue v0.19.2
config/components/manager/controller_manager_config.yaml; kueue v0.19.2 pkg/workload/workload.go
totalRequestsFromPodSets.
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
from generator.objects.fields import mapping, mappings, string, strings
from generator.objects.queue import Requests
from generator.quantities import parse

CONFIGURATION = "Configuration"
OPERATOR = "Kueue"
CONFIGURATION_KEY = "controller_manager_config.yaml"
_GROUP = "config.kueue.x-k8s.io"
_OPERATOR_GROUP = "kueue.openshift.io"
_CPU = 1000  # thousandths of a CPU per CPU


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one minor version of Kueue; the defaults are the rules of 0.19.

    The quota tree (kueue v0.19.2 pkg/cache/scheduler/resource_node.go), the preemption candidates and the shares of
    fair sharing are the same in
    v0.18.3 and v0.19.2.

    Attributes:
        version: the minor version.
        ranks_no_candidates_last: a flavor without preemption candidates ranks below all other flavors that can hold the
            job, whatever `flavorFungibility.preference` is (kueue v0.19.2
            pkg/scheduler/flavorassigner/flavorassigner.go isPreferred).
        keeps_progress: the next attempt for a job continues with the next flavor, even if jobs of the queue were
            admitted or finished since the last cycle, or if a different job of the cycle took the quota (kueue v0.19.2
            pkg/scheduler/scheduler.go lastAssignmentOutdated; kueue v0.19.2 pkg/scheduler/scheduler.go
            entry.markSkipped; the feature gate is
            FlavorFungibilityPreserveScanProgress).
        lends_group_flavor: pods that request nothing get the flavor of the pods in their PodSet group (kueue v0.19.2
            pkg/scheduler/flavorassigner/flavorassigner.go FlavorAssigner.resolvePodSetFlavors).
        counts_leader: a topology domain holds a launcher only if it also has room for its worker pods (kueue v0.19.2
            pkg/cache/scheduler/tas_flavor_snapshot.go TASFlavorSnapshot.prioritizeLeaderDomain; kueue v0.19.2
            pkg/cache/scheduler/tas_flavor_snapshot.go TASFlavorSnapshot.consumeWithLeadersGeneric).
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
    """Return the rules of a minor version of Kueue; of the newest version if `version` is empty or unknown."""
    return _BY_VERSION.get(version, NEWEST)


@dataclass(frozen=True, slots=True)
class Transformation:
    """A resource transformation.

    Attributes:
        outputs: output resource → its amount for one unit of the input resource.
        keeps_input: True if the input resource itself also counts (`Retain`).
    """

    outputs: Mapping[str, Fraction]
    keeps_input: bool = True


_NO_TRANSFORMATION = Transformation({})


@dataclass(frozen=True, slots=True)
class Counting:
    """The conversion of requests to the amounts that count against quota.

    Kueue calls it `dropExcludedResources`, then `applyResourceTransformations`.

    Topology placement uses the requests of the pods instead (kueue v0.19.2
    pkg/scheduler/flavorassigner/tas_flavorassigner.go podSetTopologyRequest).

    Attributes:
        excluded: prefixes of resources that do not count.
        transformations: input resource → its transformation.
        classes: DeviceClass → the resource that its claimed devices count as; None without Kueue's configuration.
    """

    excluded: tuple[str, ...] = ()
    transformations: Mapping[str, Transformation] = field(default_factory=dict)
    classes: Mapping[str, str] | None = None

    def of(self, requests: Requests) -> Requests:
        """Return the amounts that Kueue counts for the requests of a pod or the allocatable resources of a node."""
        if not self.excluded and not self.transformations:
            return requests
        counted: dict[str, Fraction] = {}
        for name, amount in requests.items():
            if name.startswith(self.excluded):
                continue
            units = Fraction(amount, _CPU) if name == "cpu" else Fraction(amount)
            transformation = self.transformations.get(name, _NO_TRANSFORMATION)
            if transformation.keeps_input:
                counted[name] = counted.get(name, Fraction(0)) + units
            for output, factor in transformation.outputs.items():
                counted[output] = counted.get(output, Fraction(0)) + units * factor
        return {name: ceil(amount * (_CPU if name == "cpu" else 1)) for name, amount in counted.items()}

    def of_claims(self, devices: Mapping[str, int]) -> Requests:
        """Return the quota that claimed devices use: `{'gpu.nvidia.com': 2}` → `{'nvidia.com/gpu': 2}`.

        Kueue admits no claim of a DeviceClass that its configuration maps to no resource (kueue v0.19.2
        pkg/dra/claims.go).
        Such a class counts under its own name, for which no quota exists. The result is empty if no file has Kueue's
        configuration.
        """
        counted: dict[str, int] = {}
        for name, count in devices.items() if self.classes is not None else ():
            resource = (self.classes or {}).get(name, name)
            counted[resource] = counted.get(resource, 0) + count
        return counted

    def is_counted(self, resource: str) -> bool:
        """Return True if the requests of some job count against quota of a resource."""
        is_output = any(resource in transformation.outputs for transformation in self.transformations.values())
        transformation = self.transformations.get(resource, _NO_TRANSFORMATION)
        return is_output or (transformation.keeps_input and not resource.startswith(self.excluded))

    def instead(self, resource: str) -> tuple[str, ...]:
        """Return the resources to which Kueue transforms a resource; empty if it is excluded or not transformed."""
        if resource.startswith(self.excluded):
            return ()
        return tuple(self.transformations.get(resource, _NO_TRANSFORMATION).outputs)


DEFAULT_COUNTING = Counting()
"""The conversion without any configuration: all requests count unchanged."""


DEFAULT_STRATEGIES = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
"""`preemptionStrategies` if the configuration sets none: kueue v0.19.2 pkg/scheduler/preemption/preemption.go
parseStrategies."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of Kueue's configuration that affect quota.

    Attributes:
        is_fair: True if fair sharing is enabled; None if no file configures it.
        is_modelled: False if mpigen cannot simulate how the configuration counts requests, or if Kueue admits resources
            without quota.
        strategies: `fairSharing.preemptionStrategies`, without effect if fair sharing is disabled.
        manages_all: True if Kueue suspends jobs without a queue.
        blocks: True if Kueue admits no job until the pods of all admitted jobs are ready.
    """

    is_fair: bool | None = None
    counting: Counting = DEFAULT_COUNTING
    is_modelled: bool = True
    strategies: tuple[str, ...] = DEFAULT_STRATEGIES
    manages_all: bool = False
    blocks: bool = False


DEFAULT_SETTINGS = Settings()
"""Settings without any configuration file."""


def read_settings(manifests: Iterable[Manifest]) -> Settings:
    """Return the settings of Kueue's configuration; the defaults if the manifests contain none, or more than one."""
    configured = [settings_ for manifest in manifests for settings_ in _read_all(manifest)]
    return configured[0] if len(configured) == 1 else DEFAULT_SETTINGS


def is_configuration(manifest: Manifest) -> bool:
    """Return True if an object is a configuration of Kueue, or a ConfigMap that contains one."""
    if manifest.kind == "ConfigMap":
        return isinstance(mapping(manifest.body, "data").get(CONFIGURATION_KEY), str)
    return (manifest.group, manifest.kind) in ((_GROUP, CONFIGURATION), (_OPERATOR_GROUP, OPERATOR))


def _read_all(manifest: Manifest) -> Iterator[Settings]:
    if not is_configuration(manifest):
        return
    if manifest.kind == "ConfigMap":
        with suppress(DocumentError):
            for document in read(mapping(manifest.body, "data")[CONFIGURATION_KEY], manifest.file):
                yield _read_configuration(document.body)
    elif manifest.kind == OPERATOR:
        config = mapping(manifest.body, "spec", "config")
        policy = mapping(config, "preemption").get("preemptionPolicy")
        yield Settings(
            policy == "FairSharing",
            Counting(classes=_read_classes(mapping(config, "resources"))),
            manages_all=mapping(config, "workloadManagement").get("labelPolicy") == "None",
            blocks=mapping(config, "gangScheduling", "byWorkload").get("admission") == "Sequential",
        )
    else:
        yield _read_configuration(manifest.body)


def _read_configuration(body: Mapping[str, Any]) -> Settings:
    """Read a Configuration. `fairSharing.enable` of v1beta1 is absent in v1beta2, where `fairSharing` is enough."""
    fair, resources = body.get("fairSharing"), mapping(body, "resources")
    has_switch = str(body.get("apiVersion")).endswith("/v1beta1")
    rows = mappings(resources.get("transformations"))
    transformations = {string(row.get("input")): made for row in rows if (made := _read_transformation(row))}
    is_ignored = resources.get("quotaCheckStrategy") == "IgnoreUndeclared"
    excluded = strings(resources.get("excludeResourcePrefixes"))
    return Settings(
        is_fair=isinstance(fair, dict) and (fair.get("enable") is True or not has_switch),
        counting=Counting(excluded, transformations, _read_classes(resources)),
        is_modelled=not is_ignored and len(transformations) == len(rows),
        strategies=strings(mapping(fair).get("preemptionStrategies")) or DEFAULT_STRATEGIES,
        manages_all=body.get("manageJobsWithoutQueueName") is True,
        blocks=_blocks(mapping(body, "waitForPodsReady"), is_old=has_switch),
    )


def _blocks(waiting: Mapping[str, Any], *, is_old: bool) -> bool:
    """Return `blockAdmission`. In v1beta1 it defaults to `enable` (kueue v0.19.2 apis/config/v1beta1/defaults.go)."""
    default = is_old and waiting.get("enable") is True
    return waiting.get("blockAdmission", default) is True


def _read_classes(resources: Mapping[str, Any]) -> dict[str, str]:
    """Return DeviceClass → the resource that each of its devices counts as, without mappings that set `sources`."""
    return {
        name: string(row.get("name"))
        for row in mappings(resources.get("deviceClassMappings"))
        if not row.get("sources")
        for name in strings(row.get("deviceClassNames"))
    }


def _read_transformation(body: Body) -> Transformation | None:
    """Read a transformation; None if it multiplies or subtracts resources, or if an amount is not a quantity.

    Kueue 0.18 and 0.19 multiply and subtract differently.
    """
    outputs: dict[str, Fraction] = {}
    for name, factor in mapping(body, "outputs").items():
        try:
            outputs[str(name)] = parse(str(factor)).value
        except ValueError:
            return None
    if body.get("multiplyBy") or any(factor < 0 for factor in outputs.values()):
        return None
    return Transformation(outputs, keeps_input=body.get("strategy") != "Replace")
