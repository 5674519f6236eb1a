"""`pools`: groups of identical nodes. They become ResourceFlavors, and the capacity that quotas are checked against."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from generator.config.devices import DeviceKind, device_kind
from generator.config.fields import Count, LabelKey, LabelValue, Name, Resources, Section, refusal


class Taint(Section):
    """A taint that every node of the pool carries; the pool's runtimes tolerate it."""

    key: LabelKey
    """Such as `nvidia.com/gpu`."""
    value: LabelValue = ""
    """Empty when the taint has none."""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] = "NoSchedule"
    """What it does to pods that do not tolerate it."""


class Pool(Section):
    """Identical nodes, named together."""

    name: Name
    """The ResourceFlavor's name, and what runtimes and quotas call the pool."""
    nodes: Count
    """How many nodes there are."""
    allocatable: Resources
    """What one node offers to pods (`kubectl get node -o jsonpath={.status.allocatable}`): cpu, memory, devices."""
    labels: dict[LabelKey, LabelValue] = Field(default={})
    """Labels that these nodes carry and no others do; pods of the pool's runtimes select them."""
    taints: tuple[Taint, ...] = ()
    """Taints of these nodes."""

    @field_validator("allocatable")
    @classmethod
    def _has_cpu_and_memory(cls, value: dict[str, str]) -> dict[str, str]:
        value = {resource: amount for resource, amount in value.items() if amount != "0"}
        absent = [resource for resource in ("cpu", "memory") if resource not in value]
        if absent:
            raise refusal(f"no {' and no '.join(absent)} in it", "every node has both: write what one node offers")
        accelerators = [resource for resource in value if device_kind(resource)]
        if len(accelerators) > 1:
            raise refusal(
                f"two kinds of accelerator: {' and '.join(sorted(accelerators))}", "make one pool for each kind"
            )
        return {resource: value[resource] for resource in ("cpu", "memory", *sorted(set(value) - {"cpu", "memory"}))}

    @field_validator("labels")
    @classmethod
    def _in_order(cls, value: dict[str, str]) -> dict[str, str]:
        if len(value) > 8:  # noqa: PLR2004 - ResourceFlavor.spec.nodeLabels maxProperties
            raise refusal(
                f"{len(value)} labels", "a ResourceFlavor takes at most 8: keep those that set the pool apart"
            )
        return dict(sorted(value.items()))

    @field_validator("taints")
    @classmethod
    def _few(cls, value: tuple[Taint, ...]) -> tuple[Taint, ...]:
        if len(value) > 8:  # noqa: PLR2004 - ResourceFlavor.spec.nodeTaints maxItems
            raise refusal(f"{len(value)} taints", "a ResourceFlavor takes at most 8")
        if len({(taint.key, taint.effect) for taint in value}) < len(value):
            raise refusal("the same key and effect twice", "a node carries each key with each effect once")
        return tuple(sorted(value, key=lambda taint: (taint.key, taint.effect)))

    @property
    def accelerator(self) -> str:
        """The resource name of the device that runs ranks; empty for a CPU pool."""
        return next((resource for resource in self.allocatable if device_kind(resource)), "")

    @property
    def device(self) -> DeviceKind:
        """The kind of device that runs ranks."""
        return device_kind(self.accelerator) or "cpu"
