"""The networks, RDMA devices and pods of a release, and the namespaces and nodes in which the pods run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from generator.checks.objects import Objects, runtime_of
from generator.checks.quota.queues import Queues
from generator.documents.load import Path
from generator.facts.names import EFA, NETWORKS, NODES
from generator.manifests import Manifest
from generator.objects.devices import (
    PREFIXES,
    Provider,
    Resource,
    Source,
    amounts_of,
    is_named_for_fabric,
    is_plugin_configuration,
    providers,
    resource,
)
from generator.objects.fields import mapping, strings
from generator.objects.namespace import is_openshift, listed_runtimes
from generator.objects.networks import NV_IPAM, POOLS, Attachment, attachment
from generator.objects.pods import (
    KINDS_OF_RANKS,
    RUNTIMES,
    Container,
    NetworkRequest,
    PodTemplate,
    Variable,
    is_fabric,
    pod_templates,
    pods_of_ranks,
    whole,
)
from generator.objects.training import FIELD, reference_of
from generator.upstream.mpi.commands import is_known, read_commands
from generator.upstream.mpi.launch import find_launches

KINDS = frozenset(
    {
        *("NetworkAttachmentDefinition", "SriovNetwork", "SriovIBNetwork", "OVSNetwork"),
        *("MacvlanNetwork", "HostDeviceNetwork", "IPoIBNetwork", "IPPool", "CIDRPool"),
        *("SriovNetworkNodePolicy", "SriovNetworkPoolConfig", "SriovOperatorConfig"),
        *("NicClusterPolicy", "NicNodePolicy"),
    }
)
"""Kinds of the network operators, Multus and nv-ipam."""
_READ = KINDS | {"MachineConfig", "MultiNetworkPolicy", "ResourceClaimTemplate", "SecurityContextConstraints"}


@dataclass(frozen=True)
class Fabrics:
    """The RDMA networks, RDMA devices and pods of a release.

    Attributes:
        manifests: all manifests of the release.
    """

    manifests: Sequence[Manifest]

    @classmethod
    def read(cls, objects: Objects) -> Fabrics:
        """Read the fabrics from the objects of a release."""
        return cls(objects.manifests)

    def of(self, kind: str) -> Sequence[Manifest]:
        """Return the manifests of a kind of a network operator, Multus or nv-ipam, such as `SriovNetwork`."""
        return self._by_kind.get(kind, ())

    @cached_property
    def providers(self) -> tuple[Provider, ...]:
        """The device resources that operators, device plugins and flavors offer."""
        return tuple(provider for manifest in self.manifests for provider in providers(manifest))

    def offered_by(self, *sources: Source) -> Sequence[Provider]:
        """Return the providers with one of these sources."""
        if sources not in self._offered:
            self._offered[sources] = [provider for provider in self.providers if provider.source in sources]
        return self._offered[sources]

    @cached_property
    def attachments(self) -> tuple[Attachment, ...]:
        """The networks that pods can request."""
        networks = (attachment(manifest) for manifest in self.manifests)
        return tuple(network for network in networks if network and network.name)

    @cached_property
    def by_name(self) -> Mapping[str, Mapping[str, Attachment]]:
        """Name → namespace → network. The namespace is empty if the object does not set it."""
        networks: dict[str, dict[str, Attachment]] = {}
        for network in self.attachments:
            networks.setdefault(network.name, {}).setdefault(network.namespace, network)
        return networks

    @cached_property
    def pools(self) -> Mapping[tuple[str, str], Manifest]:
        """(kind, name) → the pool of addresses of nv-ipam."""
        pools = (pool for kind in POOLS.values() for pool in self.of(kind) if pool.group == NV_IPAM)
        return {(pool.kind, pool.name): pool for pool in pools}

    @cached_property
    def pods(self) -> tuple[PodTemplate, ...]:
        """The Pods, and the pod templates of Jobs, runtimes and other objects."""
        return tuple(template for manifest in self.manifests for template in pod_templates(manifest))

    @cached_property
    def devices(self) -> frozenset[Resource]:
        """The RDMA devices that an operator, a device plugin or a network names."""
        offered = {item.resource for item in self.providers if item.source is not Source.FLAVOR}
        return frozenset(offered | {item.resource for item in self.attachments if item.resource})

    def is_device(self, full: str) -> bool:
        """Return True if a resource is an RDMA device, such as `nvidia.com/ib`.

        The resource has the name of a known RDMA device, or an operator, a device plugin or a network in the files
        uses the resource.
        """
        device = resource(full)
        return is_named_for_fabric(full) or ("/" in full and any(device.may_be(known) for known in self.devices))

    @cached_property
    def is_openshift(self) -> bool:
        """True if the manifests are for OpenShift, where Multus isolates namespaces."""
        return is_openshift(self.manifests)

    @cached_property
    def operators(self) -> frozenset[str]:
        """The namespaces in which an SR-IOV operator may run."""
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


_GROUPS = ("", "batch", "jobset.x-k8s.io", "kubeflow.org", "trainer.kubeflow.org")
_FRAMEWORK_VARIABLE = re.compile(r"^(NCCL|RCCL|HCCL|CCL|GLOO|TORCH|HOROVOD|DS)_")
_VARIABLE_OPTION = re.compile(r"-g?mca\b|-g?env\b")
"""Options of launchers that set a variable or a parameter by separate words."""
_TCPXO = "devices.gke.io/container.tcpxo-daemon"


@dataclass(frozen=True)
class Workload:
    """An object whose pods run ranks, or a TrainJob.

    Attributes:
        pods: the pod templates; empty for a TrainJob.
        containers: the containers of the pods; for a TrainJob `spec.trainer` and the patched containers.
        runtime: the runtime of a TrainJob, if the release has the runtime.
    """

    manifest: Manifest
    pods: Sequence[PodTemplate]
    containers: Sequence[Container]
    runtime: Workload | None = None

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """Variables of the containers, of their commands, and of the options of launchers such as `mpirun --mca`."""
        return tuple(
            variable
            for container in self.containers
            for variable in dict.fromkeys((*container.variables, *container.assigned, *_option_variables(container)))
        )

    @cached_property
    def device(self) -> str:
        """The RDMA device that the pods request, as a clause of a message; empty if the pods request none."""
        for pods in self.pods:
            for name in pods.fabric_devices:
                return f"the pods `{pods.role}` request `{name}`"
        for key in ("limits", "requests"):
            for name in mapping(self.manifest.body, *map(str, FIELD), key):
                if self.manifest.kind == "TrainJob" and is_fabric(name):
                    return f"`resourcesPerNode` of the TrainJob requests `{name}`"
        runtime = self.runtime
        return f"{runtime.device} in runtime `{runtime.manifest.name}`" if runtime and runtime.device else ""

    @property
    def is_efa(self) -> bool:
        """True if the pods use EFA, the network of AWS."""
        return EFA in self.device

    @property
    def has_plugin_of_its_own(self) -> bool:
        """True if NCCL uses a network plugin (EFA, GPUDirect-TCPXO) instead of its internal InfiniBand transport."""
        return self.is_efa or any(_TCPXO in pods.annotations for pods in self.all_pods)

    @property
    def all_pods(self) -> Sequence[PodTemplate]:
        """The pod templates of the object, or of the runtime of a TrainJob."""
        return self.runtime.pods if self.runtime else self.pods

    @property
    def is_of_ranks(self) -> bool:
        """True if the object is a training runtime or an MPIJob, whose pods run several ranks each."""
        return self.manifest.kind in {*RUNTIMES, "MPIJob"}

    @cached_property
    def is_plain_mpi(self) -> bool:
        """True if only MPI can carry the data: the job has no variables of a framework and no accelerators."""
        known = (*self.variables, *(self.runtime.variables if self.runtime else ()))
        return not self.has_gpus and not any(_FRAMEWORK_VARIABLE.match(variable.name) for variable in known)

    @property
    def has_gpus(self) -> bool:
        """True if a container of the pods requests accelerators."""
        return any(container.has_gpus for pods in self.all_pods for container in pods.containers)


def _option_variables(container: Container) -> Iterator[Variable]:
    """Yield the variables that options with separate words set, such as `--mca pml ob1` and `-genv FI_PROVIDER tcp`."""
    if not _VARIABLE_OPTION.search(container.text):
        return
    command = strings(container.body.get("command"))
    commands = read_commands((*command, *strings(container.body.get("args"))), {}) or ()
    for launch in (one for readings in find_launches(commands, {}).launches for one in readings):
        for position, name, value in launch.variables:
            place = launch.command.places[position]
            item: Path = ("command", place) if place < len(command) else ("args", place - len(command))
            if is_known(value):
                yield Variable((*container.path, *item), name, value)


class Workloads(tuple[Workload, ...]):
    """The objects of a release whose pods can run ranks: Pods, Jobs, JobSets, MPIJobs and runtimes, then TrainJobs.

    Kueue's objects of the kind Workload are not among them.
    """

    __slots__ = ()

    @classmethod
    def read(cls, objects: Objects) -> Workloads:
        """Read the workloads from the objects of a release."""
        workloads = [
            _workload(manifest) for group in _GROUPS for manifest in objects.of(group, *sorted(KINDS_OF_RANKS))
        ]
        for job in objects.of("trainer.kubeflow.org", "TrainJob"):
            runtime = runtime_of(job, objects)
            containers = tuple(_job_containers(job))
            workloads.append(Workload(job, (), containers, _workload(runtime) if runtime else None))
        return cls(workloads)


def _workload(manifest: Manifest) -> Workload:
    pods = pods_of_ranks(manifest)
    return Workload(
        manifest,
        pods,
        tuple(container for template in pods for container in (*template.init_containers, *template.containers)),
    )


def _job_containers(job: Manifest) -> Iterator[Container]:
    """Yield the trainer of a TrainJob and the containers that it patches.

    Source: trainer v2.3.0 pkg/apis/trainer/v1alpha1/trainjob_types.go RuntimePatch
    """
    yield Container(("spec", "trainer"), mapping(job.body, "spec", "trainer"))
    for patch in pod_templates(job):
        yield from patch.containers


def is_fabric_object(manifest: Manifest) -> bool:
    """Return True if checks fabric/* read the manifest.

    These are networks, objects of network operators and similar kinds, configurations of device plugins, and objects
    whose pods request devices, claims or networks.
    """
    if manifest.kind in _READ:
        return True
    if manifest.kind == "ConfigMap":
        return is_plugin_configuration(manifest)
    return any(
        template.devices or template.spec.get("resourceClaims") or NETWORKS in template.annotations
        for template in pod_templates(manifest)
    )


_CLUSTER_RUNTIME = "ClusterTrainingRuntime"


def namespaces_of(pods: PodTemplate, objects: Objects) -> AbstractSet[str]:
    """Return the namespaces in which the files show that the pods run; empty if the files do not show any."""
    manifest = pods.manifest
    if manifest.kind != _CLUSTER_RUNTIME:
        return frozenset({manifest.namespace} - {""})
    known = objects.view(_certain)
    if id(manifest) not in known:
        known[id(manifest)] = manifest, _find_namespaces(manifest, objects)
    return known[id(manifest)][1]


_Known = dict[int, tuple[Manifest, AbstractSet[str]]]
"""The id of a ClusterTrainingRuntime → the runtime, and its namespaces. Many checks read them."""


def _certain(_objects: Objects) -> _Known:
    return {}


def _likely(_objects: Objects) -> _Known:
    return {}


def _find_namespaces(manifest: Manifest, objects: Objects) -> AbstractSet[str]:
    jobs = objects.of("trainer.kubeflow.org", "TrainJob")
    return {
        namespace.name
        for namespace in objects.of("", "Namespace")
        if f"{_CLUSTER_RUNTIME}/{manifest.name}" in listed_runtimes(namespace)
        and _has_queue_for(manifest, namespace.name, objects)
    } | {job.namespace for job in jobs if job.namespace and reference_of(job) == (_CLUSTER_RUNTIME, manifest.name)}


def likely_namespaces(pods: PodTemplate, objects: Objects) -> AbstractSet[str]:
    """Return more namespaces in which pods of a ClusterTrainingRuntime can run; empty for other kinds.

    The Namespaces lack the annotation `mpigen.dev/runtimes`, and their queue has quota for a job on the runtime.
    """
    runtime = pods.manifest
    if runtime.kind != _CLUSTER_RUNTIME:
        return frozenset()
    known = objects.view(_likely)
    if id(runtime) not in known:
        known[id(runtime)] = runtime, _find_likely_namespaces(pods, objects)
    return known[id(runtime)][1]


def _find_likely_namespaces(pods: PodTemplate, objects: Objects) -> AbstractSet[str]:
    queues, runtime = objects.view(Queues.read), pods.manifest
    if queues is None:
        return frozenset()
    namespaces: set[str] = set()
    for name, jobs in queues.jobs.items():
        jobs_on_runtime = (job for job in jobs if job.runtime.identity == runtime.identity)
        if any(queues.has_quota(queues.tree.queues[name], job) for job in jobs_on_runtime):
            namespaces |= {local_queue.namespace for local_queue in queues.local_queues.get(name, ())}
    listing = {namespace.name for namespace in objects.of("", "Namespace") if listed_runtimes(namespace)}
    return namespaces - listing - namespaces_of(pods, objects)


def _has_queue_for(runtime: Manifest, namespace: str, objects: Objects) -> bool:
    """Return True if a queue of the namespace is for jobs on the runtime, or if the namespace's queues are unknown."""
    queues = objects.view(Queues.read)
    names = queues.of_namespaces.get(namespace, frozenset()) if queues else frozenset()
    job = queues.job(runtime, namespace) if queues and names else None
    if queues is None or job is None or not names <= queues.tree.queues.keys():
        return True
    of_namespace = [queues.tree.queues[name] for name in names]
    return any(job.is_meant_for(queue) and not queue.is_multi_kueue for queue in of_namespace)


@dataclass(frozen=True, slots=True)
class FlavorNodes:
    """The nodes of a ResourceFlavor, from its annotations.

    Attributes:
        labels: the labels of the nodes.
        count: the number of nodes; None if no annotation sets it.
        devices: extended resource → allocatable amount of one node.
    """

    flavor: Manifest
    labels: Mapping[str, object]
    count: int | None
    devices: Mapping[str, int]

    @classmethod
    def read(cls, objects: Objects) -> Sequence[FlavorNodes]:
        """Read the flavors with node labels."""
        return [
            cls(
                flavor,
                labels,
                whole(mapping(flavor.body, "metadata", "annotations").get(NODES)),
                {name: number for name, amount in amounts_of(flavor).items() if (number := whole(amount)) is not None},
            )
            for flavor in objects.of("kueue.x-k8s.io", "ResourceFlavor")
            if (labels := mapping(flavor.body, "spec", "nodeLabels"))
        ]

    def are_selected_by(self, pods: PodTemplate) -> bool:
        """Return True if the node selector of the pods has all labels of the nodes."""
        return self.labels.items() <= mapping(pods.spec, "nodeSelector").items()

    def pods_per_node(self, pods: PodTemplate) -> int:
        """Return how many of the pods fit on a node, by the extended resources of the node alone; at least 1."""
        fitting = [self.devices[name] // amount for name, amount in pods.devices.items() if name in self.devices]
        return max(1, min(fitting, default=1))


class NetworkUse(NamedTuple):
    """Pods that request a network.

    Attributes:
        pods: the pod template.
        interfaces: the number of interfaces in the network that each pod requests.
        names_namespace: True if the request names the namespace of the network.
    """

    pods: PodTemplate
    interfaces: int
    names_namespace: bool


class Demand(NamedTuple):
    """The number of interfaces that a network needs when its pods fill all nodes of a flavor.

    Attributes:
        flavor: the name of the ResourceFlavor.
        nodes: the number of its nodes.
        per_node: the number of interfaces on each node.
    """

    flavor: str
    nodes: int
    per_node: int

    @property
    def interfaces(self) -> int:
        """The number of interfaces on all nodes."""
        return self.nodes * self.per_node


@dataclass(frozen=True)
class NetworkUsers:
    """The pods of a release that request networks."""

    objects: Objects

    def of(self, network: Attachment) -> list[NetworkUse]:
        """Return the pods that request a network.

        A request without a namespace in a ClusterTrainingRuntime matches networks of this name in every namespace.
        """
        uses = []
        for pods, requests in self._by_name.get(network.name, ()):
            matching = [
                request
                for request in requests
                if not (namespace := request.namespace or pods.manifest.namespace)
                or network.namespace in ("", namespace)
            ]
            if matching:
                uses.append(NetworkUse(pods, len(matching), any(request.namespace for request in matching)))
        return uses

    def demand(self, network: Attachment) -> Demand | None:
        """Return the demand of the flavor whose pods need the most interfaces in a network.

        Return None if the pods on the network select no ResourceFlavor whose annotation sets its number of nodes.
        """
        demands = [
            Demand(flavor, nodes, pods_per_node * use.interfaces)
            for use in self.of(network)
            for flavor, nodes, pods_per_node in self._on_nodes[id(use.pods)]
        ]
        return max(demands, key=lambda demand: (demand.interfaces, demand.flavor), default=None)

    @cached_property
    def _by_name(self) -> Mapping[str, list[tuple[PodTemplate, list[NetworkRequest]]]]:
        by_name: dict[str, list[tuple[PodTemplate, list[NetworkRequest]]]] = {}
        for pods in self.objects.view(Fabrics.read).pods:
            requests = pods.networks.requests
            for name in dict.fromkeys(request.name for request in requests):
                by_name.setdefault(name, []).append((pods, [request for request in requests if request.name == name]))
        return by_name

    @cached_property
    def _on_nodes(self) -> Mapping[int, list[tuple[str, int, int]]]:
        """Id of a pod template → (flavor, number of nodes, pods per node) of the flavors that the pods select."""
        return {
            id(pods): [
                (nodes.flavor.name, nodes.count, nodes.pods_per_node(pods))
                for nodes in self.objects.view(FlavorNodes.read)
                if nodes.count and nodes.are_selected_by(pods)
            ]
            for pods in self.objects.view(Fabrics.read).pods
        }
