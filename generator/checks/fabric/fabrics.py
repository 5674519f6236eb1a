"""The objects that configure the fabrics of a cluster, and the workloads that use them, read once for all rules."""

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
    Container,
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
"""Kinds of the network operators, Multus and nv-ipam."""
_READ = KINDS | {"MachineConfig", "MultiNetworkPolicy", "ResourceClaimTemplate", "SecurityContextConstraints"}
_OPENSHIFT = "openshift-sriov-network-operator"


@dataclass(frozen=True)
class Fabrics:
    """The networks, devices and pods in a set of manifests."""

    manifests: Sequence[Manifest]

    @classmethod
    def read(cls, gathered: Objects) -> Fabrics:
        """Read the fabrics from the objects of a release."""
        return cls(gathered.manifests)

    def of(self, kind: str) -> Sequence[Manifest]:
        """Return the manifests of one of `KINDS`."""
        return self._by_kind.get(kind, ())

    @cached_property
    def providers(self) -> tuple[Provider, ...]:
        """Device resources that operators, plugins and flavors offer."""
        return tuple(provider for manifest in self.manifests for provider in providers(manifest))

    def offered_by(self, *sources: Source) -> Sequence[Provider]:
        """Return the providers of some sources."""
        if sources not in self._offered:
            self._offered[sources] = [provider for provider in self.providers if provider.source in sources]
        return self._offered[sources]

    @cached_property
    def attachments(self) -> tuple[Attachment, ...]:
        """Networks that pods can request."""
        networks = (attachment(manifest) for manifest in self.manifests)
        return tuple(network for network in networks if network and network.name)

    @cached_property
    def by_name(self) -> Mapping[str, Mapping[str, Attachment]]:
        """Map name → namespace → network. The namespace is empty if the object does not set it."""
        networks: dict[str, dict[str, Attachment]] = {}
        for network in self.attachments:
            networks.setdefault(network.name, {}).setdefault(network.namespace, network)
        return networks

    @cached_property
    def pods(self) -> tuple[PodTemplate, ...]:
        """Pods, and pod templates of all other objects."""
        return tuple(template for manifest in self.manifests for template in pod_templates(manifest))

    @cached_property
    def devices(self) -> frozenset[Resource]:
        """Resources that an operator, a plugin or a network declares as a device of a fabric."""
        offered = {item.resource for item in self.providers if item.source is not Source.FLAVOR}
        return frozenset(offered | {item.resource for item in self.attachments if item.resource})

    def is_device(self, full: str) -> bool:
        """Return True if a resource that pods request is a device of a fabric."""
        device = resource(full)
        return is_named_for_fabric(full) or ("/" in full and any(device.may_be(known) for known in self.devices))

    @cached_property
    def is_openshift(self) -> bool:
        """True if the cluster is OpenShift, where Multus isolates namespaces."""
        return any(
            manifest.namespace == _OPENSHIFT or (manifest.kind == "Namespace" and _is_openshift(manifest))
            for manifest in self.manifests
        )

    @cached_property
    def operators(self) -> frozenset[str]:
        """Namespaces in which an SR-IOV operator may run."""
        configured = {config.namespace for config in self.of("SriovOperatorConfig") if config.namespace}
        return frozenset(PREFIXES) | configured

    @cached_property
    def _offered(self) -> dict[tuple[Source, ...], list[Provider]]:
        return {}

    @cached_property
    def _by_kind(self) -> Mapping[str, Sequence[Manifest]]:
        manifests: dict[str, list[Manifest]] = {}
        for manifest in self.manifests:
            if manifest.kind in KINDS:
                manifests.setdefault(manifest.kind, []).append(manifest)
        return manifests


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
    """An object with pods of ranks, or a TrainJob.

    Attributes:
        manifest: the object.
        pods: its pod templates; empty for a TrainJob.
        containers: its containers, with their variables and commands. In a TrainJob: the trainer and the patches.
        runtime: the runtime of a TrainJob, if the release has it.
    """

    manifest: Manifest
    pods: Sequence[Pods]
    containers: Sequence[Container]
    runtime: Workload | None = None

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """Variables of the containers and of their commands."""
        return tuple(
            variable for container in self.containers for variable in (*container.variables, *container.assigned)
        )

    @cached_property
    def device(self) -> str:
        """The fabric device that the pods request, as a clause of a message; empty if they request none."""
        for pods in self.pods:
            for name in pods.fabric_devices:
                return f"the pods `{pods.role}` request `{name}`"
        for key in ("limits", "requests"):
            for name in mapping(self.manifest.body, *map(str, FIELD), key):
                if self.manifest.kind == "TrainJob" and is_fabric(name):
                    return f"its `resourcesPerNode` requests `{name}`"
        runtime = self.runtime
        return f"{runtime.device} in runtime `{runtime.manifest.name}`" if runtime and runtime.device else ""

    @property
    def device_note(self) -> str:
        """The device, for the end of a message about a variable; empty if the pods request none."""
        return f", but {self.device}" if self.device else ""

    @property
    def is_efa(self) -> bool:
        """True if the pods use EFA, the network of AWS."""
        return EFA in self.device

    @property
    def has_plugin_of_its_own(self) -> bool:
        """True if NCCL uses a network plugin other than its internal InfiniBand transport."""
        return self.is_efa or any(_TCPXO in pods.annotations for pods in self.all_pods)

    @property
    def all_pods(self) -> Sequence[Pods]:
        """The pod templates of the object, or of the runtime of a TrainJob."""
        return self.runtime.pods if self.runtime else self.pods

    @property
    def is_of_ranks(self) -> bool:
        """True if the kind of the object has several ranks of MPI or of a framework per pod."""
        return self.manifest.kind in {*RUNTIMES, "MPIJob"}

    @cached_property
    def is_plain_mpi(self) -> bool:
        """True if only MPI can carry the data: the job has no variables of a framework and no accelerators."""
        known = (*self.variables, *(self.runtime.variables if self.runtime else ()))
        has_gpus = any(container.has_gpus for pods in self.all_pods for container in pods.containers)
        return not has_gpus and not any(_OF_FRAMEWORKS.match(variable.name) for variable in known)


class Workloads(tuple[Workload, ...]):
    """The workloads among some objects, TrainJobs last."""

    __slots__ = ()

    @classmethod
    def read(cls, gathered: Objects) -> Workloads:
        """Read the workloads from the objects of a release."""
        of_groups = (manifest for group in GROUPS for manifest in gathered.of(group, *sorted(KINDS_OF_RANKS)))
        jobs = ((job, runtime_of(job, gathered)) for job in gathered.of("trainer.kubeflow.org", "TrainJob"))
        on_runtimes = (
            Workload(job, (), tuple(_job_containers(job)), _workload(runtime) if runtime else None)
            for job, runtime in jobs
        )
        return cls((*map(_workload, of_groups), *on_runtimes))


def _workload(manifest: Manifest) -> Workload:
    pods = pods_of(manifest)
    return Workload(
        manifest,
        pods,
        tuple(container for template in pods for container in (*template.init_containers, *template.containers)),
    )


def _job_containers(job: Manifest) -> Iterator[Container]:
    """Yield the trainer of a TrainJob and the containers that it patches (trainer v2.3.0 RuntimePatch)."""
    yield Container(("spec", "trainer"), mapping(job.body, "spec", "trainer"))
    for patch in pod_templates(job):
        yield from (Container(*container) for container in patch.containers)


def is_fabric_object(manifest: Manifest) -> bool:
    """Return True if a manifest makes a fabric, limits it, or has pods that request networks or devices."""
    if manifest.kind in _READ:
        return True
    if manifest.kind == "ConfigMap":
        return is_plugin_configuration(manifest)
    return any(
        template.devices
        or template.spec.get("resourceClaims")
        or NETWORKS in mapping(template.body, "metadata", "annotations")
        for template in pod_templates(manifest)
    )
