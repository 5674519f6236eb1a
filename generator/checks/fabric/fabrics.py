"""The objects that make the fabrics of a cluster, and the workloads that use them, read once for all rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from generator.checks.fabric.devices import (
    PREFIXES,
    Provider,
    Resource,
    Source,
    is_named_for_fabric,
    is_plugin_configuration,
    providers,
    resource,
)
from generator.checks.fabric.networks import Attachment, attachment
from generator.checks.fabric.pods import (
    KINDS_OF_RANKS,
    RUNTIMES,
    Box,
    Pods,
    PodTemplate,
    Variable,
    is_fabric,
    pod_templates,
    pods_of,
)
from generator.checks.objects import Objects
from generator.checks.trainer import FIELD, runtime_of
from generator.facts.names import EFA, NETWORKS
from generator.manifests import Manifest
from generator.objects.fields import mapping

KINDS = frozenset(
    {
        "CIDRPool",
        "HostDeviceNetwork",
        "IPPool",
        "IPoIBNetwork",
        "MacvlanNetwork",
        "NetworkAttachmentDefinition",
        "NicClusterPolicy",
        "NicNodePolicy",
        "OVSNetwork",
        "SriovIBNetwork",
        "SriovNetwork",
        "SriovNetworkNodePolicy",
        "SriovNetworkPoolConfig",
        "SriovOperatorConfig",
    }
)
"""Of the operators, of Multus and of nv-ipam."""
_READ = KINDS | {"MachineConfig", "MultiNetworkPolicy", "ResourceClaimTemplate", "SecurityContextConstraints"}
_OPENSHIFT = "openshift-sriov-network-operator"


@dataclass(frozen=True)
class Fabrics:
    """What a set of manifests says of fabrics."""

    manifests: Sequence[Manifest]

    @classmethod
    def read(cls, gathered: Objects) -> Fabrics:
        """Read the fabrics of some objects."""
        return cls(gathered.manifests)

    def of(self, kind: str) -> Sequence[Manifest]:
        """All of one of `KINDS`."""
        return self._by_kind.get(kind, ())

    @cached_property
    def providers(self) -> tuple[Provider, ...]:
        """The resources that are offered."""
        return tuple(found for manifest in self.manifests for found in providers(manifest))

    def offered_by(self, *sources: Source) -> Sequence[Provider]:
        """Those of some sources."""
        if sources not in self._offered:
            self._offered[sources] = [each for each in self.providers if each.source in sources]
        return self._offered[sources]

    @cached_property
    def attachments(self) -> tuple[Attachment, ...]:
        """The networks that pods can ask for."""
        found = (attachment(manifest) for manifest in self.manifests)
        return tuple(each for each in found if each and each.name)

    @cached_property
    def by_name(self) -> Mapping[str, Mapping[str, Attachment]]:
        """Name → namespace → network; the namespace is empty where nobody says which."""
        found: dict[str, dict[str, Attachment]] = {}
        for each in self.attachments:
            found.setdefault(each.name, {}).setdefault(each.namespace, each)
        return found

    @cached_property
    def pods(self) -> tuple[PodTemplate, ...]:
        """The pods that there are, or that become of what there is."""
        return tuple(found for manifest in self.manifests for found in pod_templates(manifest))

    @cached_property
    def devices(self) -> frozenset[Resource]:
        """What is a device of a fabric because an object says so."""
        offered = {each.resource for each in self.providers if each.source is not Source.FLAVOR}
        return frozenset(offered | {each.resource for each in self.attachments if each.resource})

    def is_device(self, full: str) -> bool:
        """Whether a resource that pods ask for is a device of a fabric."""
        wanted = resource(full)
        return is_named_for_fabric(full) or ("/" in full and any(wanted.may_be(each) for each in self.devices))

    @cached_property
    def is_openshift(self) -> bool:
        """Whether it is known that Multus keeps to namespaces."""
        return any(
            manifest.namespace == _OPENSHIFT or (manifest.kind == "Namespace" and _is_openshift(manifest))
            for manifest in self.manifests
        )

    @cached_property
    def operators(self) -> frozenset[str]:
        """The namespaces where an SR-IOV operator is known to be."""
        configured = {each.namespace for each in self.of("SriovOperatorConfig") if each.namespace}
        return frozenset(PREFIXES) | configured

    @cached_property
    def _offered(self) -> dict[tuple[Source, ...], list[Provider]]:
        return {}

    @cached_property
    def _by_kind(self) -> Mapping[str, Sequence[Manifest]]:
        found: dict[str, list[Manifest]] = {}
        for manifest in self.manifests:
            if manifest.kind in KINDS:
                found.setdefault(manifest.kind, []).append(manifest)
        return found


def _is_openshift(namespace: Manifest) -> bool:
    metadata = namespace.body.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    keys = labels if isinstance(labels, dict) else {}
    return any(isinstance(key, str) and key.partition("/")[0].endswith("openshift.io") for key in keys)


GROUPS = ("", "batch", "jobset.x-k8s.io", "kubeflow.org", "trainer.kubeflow.org")
_OF_FRAMEWORKS = re.compile(r"^(NCCL|RCCL|HCCL|CCL|GLOO|TORCH|HOROVOD|DS)_")
_TCPXO = "devices.gke.io/container.tcpxo-daemon"


@dataclass(frozen=True)
class Workload:
    """One object with pods of ranks, or a TrainJob.

    Attributes:
        manifest: the object.
        pods: those that stand in it; none in a TrainJob.
        written: what stands in it as containers of its pods do, each with its variables and its command.
        runtime: of a TrainJob, if it is known.
    """

    manifest: Manifest
    pods: Sequence[Pods]
    written: Sequence[Box]
    runtime: Workload | None = None

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """All that are said in it."""
        return tuple(each for box in self.written for each in (*box.variables, *box.assigned))

    @cached_property
    def device(self) -> str:
        """The device of a network that its pods ask for, and which of them do; empty if none does."""
        for pods in self.pods:
            for name in pods.fabric_devices:
                return f"`{name}` of the pods `{pods.role}`"
        for key in ("limits", "requests"):
            for name in mapping(self.manifest.body, *map(str, FIELD), key):
                if self.manifest.kind == "TrainJob" and is_fabric(name):
                    return f"`{name}` of its `resourcesPerNode`"
        return (
            f"{self.runtime.device} of `{self.runtime.manifest.name}`" if self.runtime and self.runtime.device else ""
        )

    @property
    def beside(self) -> str:
        """The other end of what a variable says; empty where it is not known."""
        return f", beside {self.device}" if self.device else ""

    @property
    def is_efa(self) -> bool:
        """Whether its network is Amazon's."""
        return EFA in self.device

    @property
    def has_plugin_of_its_own(self) -> bool:
        """Whether NCCL reaches its network by another plugin than its own for InfiniBand."""
        return self.is_efa or any(_TCPXO in pods.annotations for pods in self.all_pods)

    @property
    def all_pods(self) -> Sequence[Pods]:
        """Its pods, or those of its runtime."""
        return self.runtime.pods if self.runtime else self.pods

    @property
    def is_of_ranks(self) -> bool:
        """Whether its pods hold several ranks of MPI or of a framework each, as far as its kind tells."""
        return self.manifest.kind in {*RUNTIMES, "MPIJob"}

    @cached_property
    def is_plain_mpi(self) -> bool:
        """Whether only MPI can be what carries data: no framework, and no accelerator that one would use."""
        known = (*self.variables, *(self.runtime.variables if self.runtime else ()))
        has_gpus = any(box.has_gpus for pods in self.all_pods for box in pods.boxes)
        return not has_gpus and not any(_OF_FRAMEWORKS.match(each.name) for each in known)


class Workloads(tuple[Workload, ...]):
    """The workloads among some objects, TrainJobs last."""

    __slots__ = ()

    @classmethod
    def read(cls, gathered: Objects) -> Workloads:
        """Read the workloads of some objects."""
        of_groups = (manifest for group in GROUPS for manifest in gathered.of(group, *sorted(KINDS_OF_RANKS)))
        jobs = ((job, runtime_of(job, gathered)) for job in gathered.of("trainer.kubeflow.org", "TrainJob"))
        on_runtimes = (
            Workload(job, (), tuple(_written(job)), _workload(runtime) if runtime else None) for job, runtime in jobs
        )
        return cls((*map(_workload, of_groups), *on_runtimes))


def _workload(manifest: Manifest) -> Workload:
    pods = pods_of(manifest)
    return Workload(manifest, pods, tuple(box for each in pods for box in (*each.first_boxes, *each.boxes)))


def _written(job: Manifest) -> Iterator[Box]:
    """What a TrainJob says to its trainer, and what it patches into pods (trainer v2.3.0 RuntimePatch)."""
    yield Box(("spec", "trainer"), mapping(job.body, "spec", "trainer"))
    for patch in pod_templates(job):
        yield from (Box(*each) for each in patch.containers)


def is_fabric_object(manifest: Manifest) -> bool:
    """Return True if a manifest makes a fabric, limits it, or has pods that request networks or devices."""
    if manifest.kind in _READ:
        return True
    if manifest.kind == "ConfigMap":
        return is_plugin_configuration(manifest)
    return any(
        each.devices or each.spec.get("resourceClaims") or NETWORKS in mapping(each.body, "metadata", "annotations")
        for each in pod_templates(manifest)
    )
