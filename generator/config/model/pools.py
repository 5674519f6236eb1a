"""`pools`: groups of identical nodes. They become ResourceFlavors, and the capacity that quotas are checked against."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, field_validator, model_validator

from generator import quantities
from generator.config.model.fabrics import Fabric
from generator.config.model.fields import (
    SUBDOMAIN,
    Count,
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
    invalid,
    matching,
    require_plausible_amounts,
    sort_keys,
)
from generator.facts.devices import DeviceKind, device_kind
from generator.facts.names import HOSTNAME


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
    parameters: MappingOf[Text, Annotated[str, Field(strict=True, max_length=255)]] = Field(default={}, max_length=100)
    """The parameters of the class, such as `maxRunDurationSeconds: "86400"`. Default: none."""


GroupId = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
"""A Linux group other than root's (k8s.io/apimachinery v0.34.2 pkg/util/validation IsValidGroupID)."""


def _cpu_and_memory_first(resources: dict[str, str]) -> dict[str, str]:
    first = [resource for resource in ("cpu", "memory") if resource in resources]
    return {resource: resources[resource] for resource in (*first, *sorted(resources.keys() - set(first)))}


class Taint(Section):
    """A taint of every node of the pool. The pool's runtimes tolerate it."""

    key: LabelKey
    """The key of the taint, such as `nvidia.com/gpu`."""
    value: LabelValue = ""
    """The value of the taint. Default: empty, for a taint without a value."""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] = "NoSchedule"
    """The effect on pods that do not tolerate the taint."""


class Pool(Section):
    """A group of identical nodes."""

    name: Name
    """The name of the pool and of its ResourceFlavor, such as `h100`. Runtimes and quotas refer to it."""
    nodes: Count
    """The number of nodes."""
    allocatable: Resources
    """The resources that one node offers to pods: cpu, memory and devices, such as `{cpu: 96, memory: 1Ti,
    nvidia.com/gpu: 8}`. `kubectl get node -o jsonpath={.status.allocatable}` prints them."""
    daemons: Annotated[Resources, AfterValidator(sort_keys)] = Field(default={})
    """The sum of what DaemonSets request on each node, for example for monitoring, storage and network. Default:
    unknown; quotas then count whole nodes, and a host requests nine tenths of a node's cpu and memory."""
    device_groups: SetOf[GroupId] = ()
    """The numeric ids of the groups that own the device files of accelerators on these nodes, such as the id of
    `render` (`ls -ln /dev/kfd /dev/dri`). Ranks join these groups. Nodes with AMD or Intel GPUs need this field, unless
    every user can open the device files. Nodes with NVIDIA GPUs do not."""
    labels: Labels = Field(default={})
    """Labels that these nodes carry and no other nodes. Pods of the pool's runtimes select nodes by these labels."""
    taints: tuple[Taint, ...] = ()
    """The taints of these nodes."""
    topology: tuple[LabelKey, ...] = ()
    """The node labels with the location of a node, from the widest level to the narrowest, such as `example.com/block`,
    `example.com/rack`, `kubernetes.io/hostname`. Kueue then places the hosts of a job close together. Default: Kueue
    ignores the location."""
    fabric: Name | None = None
    """The name of the fabric that connects these nodes. Its devices are added to `allocatable`. Default: none, so ranks
    use the pod network."""
    provisioning: Provisioning | None = None
    """The autoscaler that creates nodes for an admitted job. `nodes` is then the maximum. Default: none, because all
    nodes exist."""

    _wiring: Fabric | None = PrivateAttr(default=None)

    @field_validator("allocatable")
    @classmethod
    def _has_cpu_and_memory(cls, value: dict[str, str]) -> dict[str, str]:
        require_plausible_amounts(value, check_node_amount)
        value = {resource: amount for resource, amount in value.items() if amount != "0"}
        absent = [resource for resource in ("cpu", "memory") if resource not in value]
        if absent:
            raise invalid(f"`allocatable` lacks {' and '.join(absent)}", "write the cpu and memory of one node")
        accelerators = [resource for resource in value if device_kind(resource)]
        if len(accelerators) > 1:
            kinds = " and ".join(sorted(accelerators))
            raise invalid(f"`allocatable` has two kinds of accelerator: {kinds}", "declare one pool for each kind")
        return _cpu_and_memory_first(value)

    @field_validator("topology")
    @classmethod
    def _has_valid_levels(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        # kueue v0.19.2 apis/kueue/v1beta2/topology_types.go: CEL rules of `levels`
        if len(set(value)) < len(value):
            raise invalid("a level occurs twice", "list each level once")
        if HOSTNAME in value[:-1]:
            raise invalid(f"no level can be below {HOSTNAME}, which is one node", f"write {HOSTNAME} as the last level")
        if len(value) > 16:  # noqa: PLR2004 - Topology.spec.levels maxItems
            raise invalid(f"{len(value)} levels, but a Topology can have at most 16", "remove levels")
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
        if len(value) > 8:  # noqa: PLR2004 - ResourceFlavor.spec.nodeTaints maxItems
            raise invalid(f"{len(value)} taints, but a ResourceFlavor can have at most 8", "remove taints")
        if len({(taint.key, taint.effect) for taint in value}) < len(value):
            raise invalid("two taints have the same key and effect", "write each key once for each effect")
        return tuple(sorted(value, key=lambda taint: (taint.key, taint.effect)))

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.topology and not self.labels:
            # kueue v0.19.2 apis/kueue/v1beta2/resourceflavor_types.go: topologyName needs a nodeLabel
            raise invalid("`topology` needs `labels`", "add a label that only the nodes of this pool carry")
        if self.device_groups and not self.accelerator:
            raise invalid("`deviceGroups` has no effect on nodes without accelerators", "remove `deviceGroups`")
        for resource, amount in self.daemons.items():
            allocatable = self.allocatable.get(resource, "0")
            if quantities.parse(amount).value >= quantities.parse(allocatable).value:
                message = f"DaemonSets request {amount} of the {allocatable} {resource} of a node, so no job fits on it"
                raise invalid(message, "write in `daemons` what DaemonSets request on one node")
        return self

    def wired(self, fabrics: Iterable[Fabric]) -> Pool:
        """Return the pool with its fabric, whose devices are added to its nodes."""
        wiring = next((fabric for fabric in fabrics if fabric.name == self.fabric), None)
        if wiring is None:
            return self
        pool = self.model_copy(update={"allocatable": _cpu_and_memory_first({**wiring.offered, **self.allocatable})})
        pool._wiring = wiring  # noqa: SLF001 - an attribute of this class
        pool.__dict__.pop("offered", None)  # the cached value without the fabric
        return pool

    @property
    def wiring(self) -> Fabric | None:
        """Return the fabric of the pool; None if the pool has none, or before `wired` adds it."""
        return self._wiring

    @cached_property
    def offered(self) -> dict[str, str]:
        """Return the resources that one node offers to jobs: `allocatable` minus the requests of DaemonSets."""
        return {
            resource: str(quantities.parse(amount) + quantities.parse(self.daemons.get(resource, "0")) * -1)
            for resource, amount in self.allocatable.items()
        }

    @property
    def neighbourhood(self) -> str:
        """Return the narrowest topology level above a node; empty without a topology."""
        wider = [level for level in self.topology if level != HOSTNAME]
        return next(reversed(wider or self.topology), "")

    @property
    def accelerator(self) -> str:
        """Return the resource of the devices that run ranks; empty for a CPU pool."""
        return next((resource for resource in self.allocatable if device_kind(resource)), "")

    @property
    def devices_per_host(self) -> str:
        """Return the default number of accelerators of a host: all of the node, but one MIG slice.

        A process uses a single MIG slice, even if its pod has several.
        """
        return "1" if self.device == "nvidia-mig" else self.offered.get(self.accelerator, "0")

    @property
    def device(self) -> DeviceKind:
        """Return the kind of device that runs ranks."""
        return device_kind(self.accelerator) or "cpu"
