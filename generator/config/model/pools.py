"""`pools`: groups of identical nodes. They become ResourceFlavors, and the capacity that quotas are checked against."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, field_validator, model_validator

from generator import quantities
from generator.config.model.fabrics import Fabric
from generator.config.model.fields import (
    Count,
    LabelKey,
    LabelValue,
    Name,
    Resources,
    Section,
    Text,
    check_node_amount,
    invalid,
    require_plausible_amounts,
)
from generator.documents.messages import format_value
from generator.facts.devices import DeviceKind, device_kind
from generator.facts.names import HOSTNAME

_CLASS = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def _is_provisioning_class(value: str) -> str:
    if not _CLASS.fullmatch(value):
        fix = "write one such as check-capacity.autoscaling.x-k8s.io or queued-provisioning.gke.io"
        raise invalid(f"{format_value(value)} is not a provisioning class", fix)
    return value


class Provisioning(Section):
    """Nodes that the cluster autoscaler creates on demand, through ProvisioningRequests."""

    class_name: Annotated[str, Field(strict=True), AfterValidator(_is_provisioning_class)] = Field(alias="class")
    """The provisioning class, such as `best-effort-atomic-scale-up.autoscaling.x-k8s.io` or
    `queued-provisioning.gke.io`."""
    parameters: dict[Text, Annotated[str, Field(strict=True, max_length=255)]] = Field(default={}, max_length=100)
    """Parameters of the class, such as `maxRunDurationSeconds: "86400"`."""

    @field_validator("parameters")
    @classmethod
    def _in_order(cls, value: dict[str, str]) -> dict[str, str]:
        return dict(sorted(value.items()))


GroupId = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
"""A group of Linux but that of root (k8s.io/apimachinery v0.34.2 pkg/util/validation IsValidGroupID)."""


def _in_order(resources: dict[str, str]) -> dict[str, str]:
    first = [resource for resource in ("cpu", "memory") if resource in resources]
    return {resource: resources[resource] for resource in (*first, *sorted(resources.keys() - set(first)))}


class Taint(Section):
    """A taint of every node of the pool. The pool's runtimes tolerate it."""

    key: LabelKey
    """The key, such as `nvidia.com/gpu`."""
    value: LabelValue = ""
    """The value; empty if the taint has none."""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] = "NoSchedule"
    """The effect on pods that do not tolerate it."""


class Pool(Section):
    """A group of identical nodes."""

    name: Name
    """The name of the pool and of its ResourceFlavor. Runtimes and quotas refer to it."""
    nodes: Count
    """The number of nodes."""
    allocatable: Resources
    """The resources that one node offers to pods (`kubectl get node -o jsonpath={.status.allocatable}`): cpu, memory,
    devices."""
    daemons: Resources = Field(default={})
    """The sum of what DaemonSets request on each node, such as monitoring, storage and network. Default: unknown;
    quotas then count whole nodes, and a host takes nine tenths of a node's cpu and memory."""
    device_groups: tuple[GroupId, ...] = ()
    """Ids of the groups that own the device files of accelerators on these nodes (`ls -ln /dev/kfd /dev/dri`), such as
    `render`. Ranks join these groups. AMD and Intel GPUs need it, unless every user can open the device files.
    NVIDIA GPUs do not."""
    labels: dict[LabelKey, LabelValue] = Field(default={})
    """Labels that these nodes carry and no other nodes. Pods of the pool's runtimes select them."""
    taints: tuple[Taint, ...] = ()
    """Taints of these nodes."""
    topology: tuple[LabelKey, ...] = ()
    """Labels with the location of a node, from the widest to the narrowest, such as `example.com/block`,
    `example.com/rack`, `kubernetes.io/hostname`. Kueue then places the hosts of a job close together."""
    fabric: Name | None = None
    """The fabric of these nodes. It adds its devices to `allocatable`."""
    provisioning: Provisioning | None = None
    """The autoscaler that creates nodes for an admitted job; `nodes` is then their maximum. Default: none, the nodes
    exist."""

    _wiring: Fabric | None = PrivateAttr(default=None)

    @field_validator("allocatable")
    @classmethod
    def _has_cpu_and_memory(cls, value: dict[str, str]) -> dict[str, str]:
        require_plausible_amounts(value, check_node_amount)
        value = {resource: amount for resource, amount in value.items() if amount != "0"}
        absent = [resource for resource in ("cpu", "memory") if resource not in value]
        if absent:
            raise invalid(
                f"`allocatable` lacks {' and '.join(absent)}",
                "write what one node offers: every node has cpu and memory",
            )
        accelerators = [resource for resource in value if device_kind(resource)]
        if len(accelerators) > 1:
            raise invalid(
                f"two kinds of accelerator: {' and '.join(sorted(accelerators))}", "make one pool for each kind"
            )
        return _in_order(value)

    @field_validator("daemons")
    @classmethod
    def _by_name(cls, value: dict[str, str]) -> dict[str, str]:
        return dict(sorted(value.items()))

    @field_validator("device_groups")
    @classmethod
    def _reject_duplicate_groups(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(value)))

    @field_validator("topology")
    @classmethod
    def _is_one_line(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        # kueue v0.19.2 apis/kueue/v1beta2/topology_types.go: CEL rules of `levels`
        if len(set(value)) < len(value):
            raise invalid("a label occurs twice", "name each level once")
        if HOSTNAME in value[:-1]:
            raise invalid(f"a level below {HOSTNAME}", "name it last")
        if len(value) > 16:  # noqa: PLR2004 - Topology.spec.levels maxItems
            raise invalid(f"{len(value)} levels", "a Topology takes at most 16")
        return value

    @field_validator("labels")
    @classmethod
    def _in_order(cls, value: dict[str, str]) -> dict[str, str]:
        if len(value) > 8:  # noqa: PLR2004 - ResourceFlavor.spec.nodeLabels maxProperties
            raise invalid(
                f"{len(value)} labels", "a ResourceFlavor takes at most 8: keep the labels that set the pool apart"
            )
        return dict(sorted(value.items()))

    @field_validator("taints")
    @classmethod
    def _few(cls, value: tuple[Taint, ...]) -> tuple[Taint, ...]:
        if len(value) > 8:  # noqa: PLR2004 - ResourceFlavor.spec.nodeTaints maxItems
            raise invalid(f"{len(value)} taints", "a ResourceFlavor takes at most 8")
        if len({(taint.key, taint.effect) for taint in value}) < len(value):
            raise invalid("two taints have the same key and effect", "a node carries each key with each effect once")
        return tuple(sorted(value, key=lambda taint: (taint.key, taint.effect)))

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.topology and not self.labels:
            # kueue v0.19.2 apis/kueue/v1beta2/resourceflavor_types.go: topologyName needs a nodeLabel
            raise invalid("`topology` needs `labels`", "add a label that the pool's nodes carry and no others do")
        if self.device_groups and not self.accelerator:
            raise invalid("`deviceGroups` has no effect on nodes without accelerators", "remove it")
        for resource, amount in self.daemons.items():
            allocatable = self.allocatable.get(resource, "0")
            if quantities.parse(amount).value >= quantities.parse(allocatable).value:
                message = f"DaemonSets request {amount} of the {allocatable} {resource} of a node"
                raise invalid(message, "write the requests of the DaemonSets on one node")
        return self

    def wired(self, fabrics: Iterable[Fabric]) -> Pool:
        """Return the pool with its fabric, whose devices are added to its nodes."""
        wiring = next((fabric for fabric in fabrics if fabric.name == self.fabric), None)
        if wiring is None:
            return self
        pool = self.model_copy(update={"allocatable": _in_order({**wiring.offered, **self.allocatable})})
        pool._wiring = wiring  # noqa: SLF001 - of its own class
        pool.__dict__.pop("offered", None)  # what has been computed without it
        return pool

    @property
    def wiring(self) -> Fabric | None:
        """Return the fabric of the pool; None before the platform is complete."""
        return self._wiring

    @cached_property
    def offered(self) -> dict[str, str]:
        """Return what one node offers to jobs: allocatable resources minus the requests of DaemonSets."""
        return {
            resource: str(quantities.parse(amount) + quantities.parse(self.daemons.get(resource, "0")) * -1)
            for resource, amount in self.allocatable.items()
        }

    @property
    def neighbourhood(self) -> str:
        """Return the narrowest level of the topology above a node; empty if there is none."""
        wider = [level for level in self.topology if level != HOSTNAME]
        return next(reversed(wider or self.topology), "")

    @property
    def accelerator(self) -> str:
        """Return the resource of the devices that run ranks; empty for a CPU pool."""
        return next((resource for resource in self.allocatable if device_kind(resource)), "")

    @property
    def devices_per_host(self) -> str:
        """Return the number of accelerators of a host by default: all of its node.

        For MIG slices it is 1: a process uses a single slice, even if its pod has several.
        """
        return "1" if self.device == "nvidia-mig" else self.offered.get(self.accelerator, "0")

    @property
    def device(self) -> DeviceKind:
        """Return the kind of device that runs ranks."""
        return device_kind(self.accelerator) or "cpu"
