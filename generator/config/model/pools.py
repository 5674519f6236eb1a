"""`pools`: groups of identical nodes. Each pool becomes a ResourceFlavor, and its capacity limits the quotas."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator

from generator.config.model.fabrics import Fabric
from generator.config.model.fields import (
    OF_KEY,
    SUBDOMAIN,
    Amounts,
    Count,
    Fault,
    FrozenMapping,
    LabelKey,
    Labels,
    LabelValue,
    MappingOf,
    Name,
    Resources,
    Section,
    SetOf,
    String,
    Text,
    check_node_amount,
    copy_unchecked,
    duplicates,
    faults_of_amounts,
    invalid,
    matching,
    reject,
    sort_keys,
)
from generator.facts.devices import Device, DeviceKind, device_kind
from generator.facts.names import HOSTNAME
from generator.quantities import ZERO, Quantity


class Provisioning(Section):
    """Nodes that the cluster autoscaler creates on demand, through ProvisioningRequests."""

    class_name: Annotated[
        String,
        matching(
            SUBDOMAIN,
            "a provisioning class",
            "write a class such as check-capacity.autoscaling.x-k8s.io or queued-provisioning.gke.io",
        ),
    ] = Field(alias="class")
    """The provisioning class, such as `best-effort-atomic-scale-up.autoscaling.x-k8s.io` or
    `queued-provisioning.gke.io`."""
    parameters: MappingOf[Text, Annotated[str, Field(strict=True, max_length=255)]] = Field(
        default={}, validate_default=True, max_length=100
    )
    """The parameters of the class, such as `maxRunDurationSeconds: "86400"`. Default: none."""


GroupId = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
"""A Linux group other than root's (apimachinery v0.34.2 pkg/util/validation/validation.go IsValidGroupID)."""


def _cpu_and_memory_first(resources: dict[str, Quantity]) -> dict[str, Quantity]:
    first = [resource for resource in ("cpu", "memory") if resource in resources]
    names = (*first, *sorted(resources.keys() - set(first)))
    return FrozenMapping({resource: resources[resource] for resource in names})


def _faults_of_node(allocatable: dict[str, Quantity]) -> Iterator[Fault]:
    yield from faults_of_amounts(allocatable, check_node_amount)
    offered = [resource for resource, amount in allocatable.items() if amount.value]
    for resource in ("cpu", "memory"):
        if resource not in offered:
            yield Fault(f"`allocatable` lacks {resource}", "write the cpu and memory of one node", (resource,))
    accelerators = [resource for resource in offered if device_kind(resource)]
    if len(accelerators) > 1:
        message = f"`allocatable` has several kinds of accelerator: {' and '.join(sorted(accelerators))}"
        yield Fault(message, "declare one pool for each kind", (accelerators[-1], OF_KEY), tuple(accelerators))


def _faults_of_topology(levels: tuple[str, ...]) -> Iterator[Fault]:
    """Yield the faults of a topology. Source: kueue v0.19.2 apis/kueue/v1beta2/topology_types.go, rules of `levels`."""
    yield from duplicates(levels, "list each level once")
    if HOSTNAME in levels[:-1]:
        message = f"no level can be below {HOSTNAME}, which is one node"
        yield Fault(message, f"write {HOSTNAME} as the last level", (levels.index(HOSTNAME),))
    if len(levels) > 16:  # noqa: PLR2004 - Topology.spec.levels maxItems
        yield Fault(f"{len(levels)} levels, but a Topology can have at most 16", "remove levels")


def _faults_of_taints(taints: tuple[Taint, ...]) -> Iterator[Fault]:
    if len(taints) > 8:  # noqa: PLR2004 - ResourceFlavor.spec.nodeTaints maxItems
        yield Fault(f"{len(taints)} taints, but a ResourceFlavor can have at most 8", "remove taints")
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        if (taint.key, taint.effect) in seen:
            message = f"an earlier taint also has the key {taint.key} and the effect {taint.effect}"
            yield Fault(message, "write each key once for each effect", (index, "key"))
        seen.add((taint.key, taint.effect))


class Taint(Section):
    """A taint of every node of the pool. Pods of the pool's runtimes tolerate it."""

    key: LabelKey
    """The key of the taint, such as `nvidia.com/gpu`."""
    value: LabelValue = ""
    """The value of the taint. Default: empty, for a taint without a value."""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] = "NoSchedule"
    """The effect on pods that do not tolerate the taint."""


class Pool(Section):
    """A group of identical nodes. Each pool becomes a ResourceFlavor of Kueue."""

    name: Name
    """The name of the pool and of its ResourceFlavor, such as `h100`. Runtimes and quotas refer to it."""
    nodes: Count
    """The number of nodes in the pool. With `provisioning`, the maximum number."""
    allocatable: Amounts
    """The resources that one node offers to pods, such as `{cpu: 96, memory: 1Ti, nvidia.com/gpu: 8}`. Write cpu,
    memory and devices, with at most one kind of accelerator. `kubectl get node NAME -o jsonpath={.status.allocatable}`
    prints the amounts."""
    daemons: Annotated[Resources, AfterValidator(sort_keys)] = Field(default={}, validate_default=True)
    """The sum of the requests of all DaemonSet pods on one node, such as `{cpu: 4, memory: 16Gi}`. Quotas and pods of
    jobs leave these resources free. Default: none; quotas then count whole nodes, and worker pods by default request
    nine tenths of a node's cpu and memory. On a pool with MIG, the worker pods of a node share this amount."""
    device_groups: SetOf[GroupId] = ()
    """The ids of the Linux groups that own the device files of accelerators on these nodes, such as the id of `render`.
    `ls -ln /dev/kfd /dev/dri` on a node shows them. Ranks join these groups. Nodes with AMD or Intel GPUs need this
    field, unless every user can open the device files. Nodes with NVIDIA GPUs do not need it. mpigen rejects this field
    on a pool without accelerators."""
    labels: Labels = Field(default={}, validate_default=True)
    """The labels that all nodes of the pool carry, at most 8. No other node carries all of these labels, unless the
    node has a taint that keeps jobs of this pool away. Worker pods select nodes by these labels. A separate launcher
    pod selects nodes only by the label of `policies.residency`. Required with `topology`, and with `fabric` if an
    operator sets up the nodes."""
    taints: tuple[Taint, ...] = ()
    """The taints of the nodes. Pods of the pool's runtimes tolerate them."""
    topology: tuple[LabelKey, ...] = ()
    """The node labels with the location of a node, from the widest level to the narrowest, such as `example.com/block`,
    `example.com/rack`, `kubernetes.io/hostname`. Kueue then places the pods of a job close together. Needs `labels` and
    Kueue 0.19. Default: Kueue ignores the location."""
    fabric: Name | None = None
    """The name of an entry of `fabrics`: the high-speed network of these nodes. mpigen adds the resources of the fabric
    to `allocatable`, such as `openshift.io/ib_vf: 8`. Default: none, so ranks use the pod network."""
    provisioning: Provisioning | None = None
    """The ProvisioningRequests with which Kueue asks the cluster autoscaler for nodes before it admits a job. On a pool
    with accelerators, Kueue asks only for pods that request an accelerator. `nodes` is then the maximum number of
    nodes. Default: none, because all nodes exist."""

    @field_validator("allocatable")
    @classmethod
    def _is_a_node(cls, value: dict[str, Quantity]) -> dict[str, Quantity]:
        reject(_faults_of_node(value))
        return _cpu_and_memory_first({resource: amount for resource, amount in value.items() if amount.value})

    @field_validator("topology")
    @classmethod
    def _has_valid_levels(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        reject(_faults_of_topology(value))
        return value

    @field_validator("labels")
    @classmethod
    def _fit_a_flavor(cls, value: dict[str, str]) -> dict[str, str]:
        if len(value) > 8:  # noqa: PLR2004 - ResourceFlavor.spec.nodeLabels maxProperties
            fix = "keep only labels that no other nodes carry"
            raise invalid(f"{len(value)} labels, but a ResourceFlavor can have at most 8", fix)
        return value

    @field_validator("taints")
    @classmethod
    def _are_few(cls, value: tuple[Taint, ...]) -> tuple[Taint, ...]:
        reject(_faults_of_taints(value))
        return tuple(sorted(value, key=lambda taint: (taint.key, taint.effect)))

    def _contradictions(self) -> Iterator[Fault]:
        if self.topology and not self.labels:
            # kueue v0.19.2 apis/kueue/v1beta2/resourceflavor_types.go: topologyName needs a nodeLabel
            fix = "add a label that only the nodes of this pool carry"
            yield Fault("`topology` needs `labels`", fix, ("topology",), ("labels",))
        for resource, amount in self.daemons.items():
            allocatable = self.allocatable.get(resource, ZERO)
            if amount.value >= allocatable.value:
                message = f"DaemonSets request {amount} of the {allocatable} {resource} of a node, so no job fits on it"
                fix = "set `daemons` to the requests of all DaemonSets on one node"
                yield Fault(message, fix, ("daemons", resource), ("allocatable",))

    def wired(self, fabrics: Iterable[Fabric]) -> Pool:
        """Return a copy of the pool with its fabric and its devices; without them if `fabrics` lacks its fabric."""
        declared = self.declared
        wiring = next((fabric for fabric in fabrics if fabric.name == self.fabric), None)
        if wiring is None:
            return declared
        allocatable = _cpu_and_memory_first({**wiring.offered, **declared.allocatable})
        return copy_unchecked(declared, allocatable=allocatable, wiring=wiring, unwired=declared)

    def with_devices(self, own: Iterable[Device]) -> Pool:
        """Return a copy of the pool with the device type of the platform that its nodes offer.

        If the nodes offer none of these devices, return the pool itself.
        """
        device = next((device for device in own if device.offered in self.allocatable), None)
        return self if device is None else copy_unchecked(self, own_device=device, unwired=self.declared)

    @property
    def declared(self) -> Self:
        """Return the pool without the devices of its fabric, and without the device type of its platform."""
        unwired: Self = self.__dict__.get("unwired", self)
        return unwired

    @cached_property
    def wiring(self) -> Fabric | None:
        """Return the fabric of the pool; None if the pool has no fabric, or if `wired` has not set the fabric."""
        return None

    @cached_property
    def own_device(self) -> Device | None:
        """Return the device type of the platform that runs ranks; None if `with_devices` has set none."""
        return None

    @property
    def offered(self) -> dict[str, Quantity]:
        """Return the resources that one node offers to jobs: `allocatable` minus the requests of DaemonSets."""
        return {resource: amount - self.daemons.get(resource, ZERO) for resource, amount in self.allocatable.items()}

    @property
    def neighbourhood(self) -> str:
        """Return the narrowest topology level above a node, else the level of nodes; empty without a topology."""
        wider = [level for level in self.topology if level != HOSTNAME]
        return next(reversed(wider or self.topology), "")

    @property
    def accelerator(self) -> str:
        """Return the resource of the devices that run ranks; empty for a CPU pool."""
        if self.own_device:
            return self.own_device.offered
        return next((resource for resource in self.allocatable if device_kind(resource)), "")

    @property
    def devices_per_host(self) -> Quantity:
        """Return the number of accelerators that a worker pod requests by default: all of the node, or one MIG slice.

        The result is zero for a CPU pool. The default is one MIG slice, because a process uses a single MIG slice even
        if its pod has several.
        """
        return Quantity(Fraction(1)) if self.device == "nvidia-mig" else self.offered.get(self.accelerator, ZERO)

    @property
    def device(self) -> DeviceKind:
        """Return the kind of device that runs ranks; for a device type of the platform, the device that it is like."""
        return self.own_device.kind if self.own_device else device_kind(self.accelerator) or "cpu"

    @property
    def device_name(self) -> str:
        """Return the name of the device that runs ranks: a device type of the platform, or the kind of the device."""
        return self.own_device.name if self.own_device else self.device

    @property
    def own_environment(self) -> Mapping[str, str]:
        """Return the variables of the device type of the platform; empty without one."""
        return self.own_device.environment if self.own_device else {}

    def runs(self, devices: Collection[str]) -> bool:
        """Return True if the nodes have one of these devices: kinds of mpigen, or device types of the platform."""
        return self.device in devices or self.device_name in devices
