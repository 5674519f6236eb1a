"""The networks, devices and pods of a release, and the namespaces and nodes that the pods run in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

from generator.checks.finding import Breach, Severity
from generator.checks.objects import Objects, runtime_of
from generator.checks.quota.queues import Queues
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
from generator.objects.fields import mapping
from generator.objects.networks import Attachment, NetworkRequest, attachment
from generator.objects.pods import (
    KINDS_OF_RANKS,
    NODE,
    RUNTIMES,
    Container,
    Pods,
    PodTemplate,
    Variable,
    is_fabric,
    pod_templates,
    pods_of,
    whole,
)
from generator.objects.training import FIELD, reference_of

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


_FOR_ALL = "ClusterTrainingRuntime"
_RUNTIMES = "mpigen.dev/runtimes"
"""Annotation of a Namespace: the runtimes that its jobs may be on, as `kind/name`."""


def namespaces_of(pods: PodTemplate, gathered: Objects) -> AbstractSet[str]:
    """Those that the files tell; none where they tell none."""
    manifest = pods.manifest
    if manifest.kind != _FOR_ALL:
        return frozenset({manifest.namespace} - {""})
    return frozenset(_of_runtime(manifest, gathered))


def likely_namespaces(pods: PodTemplate, gathered: Objects) -> AbstractSet[str]:
    """Namespaces beside these, where nothing names the runtimes, whose queue has quota for a job on this one."""
    queued, runtime = gathered.view(Queues.read), pods.manifest
    if queued is None or runtime.kind != _FOR_ALL:
        return frozenset()
    found: set[str] = set()
    for name, jobs in queued.jobs.items():
        mine = (job for job in jobs if job.runtime.identity == runtime.identity)
        if any(queued.has_quota(queued.tree.queues[name], job) for job in mine):
            found |= {door.namespace for door in queued.local_queues.get(name, ())}
    spaces = gathered.of("", "Namespace")
    told = {each.name for each in spaces if _RUNTIMES in mapping(each.body, "metadata", "annotations")}
    return found - told - namespaces_of(pods, gathered)


def _of_runtime(runtime: Manifest, gathered: Objects) -> Iterator[str]:
    for namespace in gathered.of("", "Namespace"):
        said = mapping(namespace.body, "metadata", "annotations").get(_RUNTIMES)
        is_named = isinstance(said, str) and f"{_FOR_ALL}/{runtime.name}" in said.split(",")
        if is_named and _may_run(runtime, namespace.name, gathered):
            yield namespace.name
    for job in gathered.of("trainer.kubeflow.org", "TrainJob"):
        reference = reference_of(job)
        if reference and reference == (_FOR_ALL, runtime.name) and job.namespace:
            yield job.namespace


def _may_run(runtime: Manifest, namespace: str, gathered: Objects) -> bool:
    """Whether a queue of the namespace is for jobs on a runtime, or nobody knows its queues."""
    queued = gathered.view(Queues.read)
    names = queued.of_namespaces.get(namespace, frozenset()) if queued else frozenset()
    job = queued.job(runtime, namespace) if queued and names else None
    if queued is None or job is None or not names <= queued.tree.queues.keys():
        return True
    found = [queued.tree.queues[name] for name in names]
    return any(job.is_meant_for(queue) and not queue.is_multi_kueue for queue in found)


_GPUS = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "aws.amazon.com/neuron")


def flavors_of(pods: PodTemplate, gathered: Objects) -> Iterator[tuple[Manifest, Mapping[str, int]]]:
    """The flavors whose nodes, by all of their labels, the pods select, and what each node has."""
    selected = mapping(pods.spec, "nodeSelector")
    for flavor in gathered.of("kueue.x-k8s.io", "ResourceFlavor"):
        labels = mapping(flavor.body, "spec", "nodeLabels")
        if labels and labels.items() <= selected.items():
            amounts = {name: whole(amount) for name, amount in amounts_of(flavor).items() if "/" in name}
            yield flavor, {name: amount for name, amount in amounts.items() if amount}


def part_of_node(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """All GPUs of a node and a part of its EFA devices, each of which is one NIC that nobody else can use then.

    Virtual functions may be left over on purpose, and of a shared device one is all.
    """
    for pods in gathered.view(Fabrics.read).pods:
        requested = pods.devices.get(EFA, 0)
        for flavor, has in flavors_of(pods, gathered) if pods.is_of_runtime and pods.role == NODE and requested else ():
            gpus = next((name for name in _GPUS if pods.devices.get(name, 0) == has.get(name)), None)
            if gpus and requested < has.get(EFA, 0):
                yield pods.manifest, _part(pods, flavor, requested, has[EFA], f"{has[gpus]} of `{gpus}`")
                break


def _part(pods: PodTemplate, flavor: Manifest, requested: int, all_of_them: int, gpus: str) -> Breach:
    return Breach(
        pods.device_path(EFA),
        "fabric/device-count",
        f"its hosts take all {gpus} of a node of {flavor.resource}, and {requested} of its {all_of_them} `{EFA}`",
        "ranks have that part of the bandwidth, and nobody can use the rest",
        f"write `{EFA}: {all_of_them}`",
        Severity.WARNING,
        at_key=True,
        value=requested,
    )


_KUEUE = "kueue.x-k8s.io"


@dataclass(frozen=True, slots=True)
class Use:
    """Pods that get a network.

    Attributes:
        pods: these.
        interfaces: how many of it one of them gets.
        is_from_elsewhere: whether they name the network with its namespace.
    """

    pods: PodTemplate
    interfaces: int
    names_namespace: bool


@dataclass(frozen=True, slots=True)
class Demand:
    """How many pods may use a network at the same time.

    Attributes:
        flavor: whose nodes they are on.
        nodes: how many there are.
        per_node: how many interfaces the pods of one of them have.
    """

    flavor: str
    nodes: int
    per_node: int

    @property
    def interfaces(self) -> int:
        """Of all nodes together."""
        return self.nodes * self.per_node


@dataclass(frozen=True, slots=True)
class _Nodes:
    """What a ResourceFlavor says of its nodes: their labels, how many there are, and what one of them has."""

    flavor: str
    labels: Mapping[str, object]
    count: int
    offered: Mapping[str, int]

    def per_node(self, pods: PodTemplate) -> int:
        """How many of some pods fit on a node, by its devices; 1 where that is not known."""
        counts = [self.offered[name] // wanted for name, wanted in pods.devices.items() if name in self.offered]
        return max(1, min(counts, default=1))


@dataclass(frozen=True)
class Users:
    """The pods that get networks.

    Attributes:
        gathered: what they are among.
    """

    gathered: Objects

    def of(self, network: Attachment) -> list[Use]:
        """The pods that ask for a network by its name, in its namespace or from another."""
        found = []
        for pods, all_wanted in self._by_name.get(network.name, ()):
            wanted = [each for each in all_wanted if _is_meant(each, pods, network)]
            if wanted:
                found.append(Use(pods, len(wanted), any(each.namespace for each in wanted)))
        return found

    def demand(self, network: Attachment) -> Demand | None:
        """The most pods that nodes of one flavor can hold; None where nobody says how many nodes there are."""
        found = [
            Demand(nodes.flavor, nodes.count, count * use.interfaces)
            for use in self.of(network)
            for nodes, count in self._on_nodes[id(use.pods)]
        ]
        return max(found, key=lambda each: (each.interfaces, each.flavor), default=None)

    @cached_property
    def _by_name(self) -> Mapping[str, list[tuple[PodTemplate, list[NetworkRequest]]]]:
        found: dict[str, list[tuple[PodTemplate, list[NetworkRequest]]]] = {}
        for pods in self.gathered.view(Fabrics.read).pods:
            wanted = pods.networks.requests
            for name in dict.fromkeys(each.name for each in wanted):
                found.setdefault(name, []).append((pods, [each for each in wanted if each.name == name]))
        return found

    @cached_property
    def _on_nodes(self) -> Mapping[int, list[tuple[_Nodes, int]]]:
        """The nodes that pods may be on by what they select, and how many of them fit on each."""
        known = list(_nodes(self.gathered))
        return {
            id(pods): [(nodes, nodes.per_node(pods)) for nodes in known if _is_selected(nodes, pods)]
            for pods in self.gathered.view(Fabrics.read).pods
        }


def _is_meant(wanted: NetworkRequest, pods: PodTemplate, network: Attachment) -> bool:
    """A pod of a runtime for the cluster is in the namespace of whoever has a job on it."""
    namespace = wanted.namespace or pods.manifest.namespace
    return not namespace or not network.namespace or namespace == network.namespace


def _is_selected(nodes: _Nodes, pods: PodTemplate) -> bool:
    selected = mapping(pods.spec, "nodeSelector")
    return bool(nodes.labels) and all(selected.get(key) == value for key, value in nodes.labels.items())


def _nodes(gathered: Objects) -> Iterator[_Nodes]:
    for flavor in gathered.of(_KUEUE, "ResourceFlavor"):
        said = mapping(flavor.body, "metadata", "annotations")
        if count := whole(said.get(NODES)):
            amounts = {name: whole(amount) for name, amount in amounts_of(flavor).items()}
            offered = {name: amount for name, amount in amounts.items() if amount is not None}
            yield _Nodes(flavor.name, mapping(flavor.body, "spec", "nodeLabels"), count, offered)
