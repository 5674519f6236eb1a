"""`runtimes[].tolerations` and `runtimes[].nodeAffinity`: taints that pods tolerate, and nodes that they prefer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from generator.config.model.fields import Fault, LabelKey, LabelValue, Section, SetOf


class Toleration(Section):
    """A taint that the pods tolerate, in addition to the taints of the pool.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidateTolerations
    """

    key: LabelKey
    """The key of the taint, such as `example.com/maintenance`."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """The comparison with the taint. `Equal`: the pods tolerate only a taint with this `value`. `Exists`: the pods
    tolerate the taint with every value."""
    value: LabelValue = ""
    """The value of the taint. Default: empty, for a taint without a value."""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] | None = None
    """The effect of the taint. Default: all effects."""
    toleration_seconds: Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)] | None = None
    """The number of seconds that pods stay on a node after it gets a taint with the effect `NoExecute`. Default: no
    limit."""

    def _contradictions(self) -> Iterator[Fault]:
        if self.operator == "Exists" and self.value:
            message = "`operator: Exists` ignores the value of a taint, so it cannot be combined with `value`"
            yield Fault(message, "remove `value`, or remove `operator`", ("value",), ("operator",))
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            message = "only a taint with the effect `NoExecute` removes pods, so `tolerationSeconds` needs this effect"
            yield Fault(message, "set `effect: NoExecute`", ("tolerationSeconds",), ("effect",))


class NodeRequirement(Section):
    """A condition on a label of a node.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidateNodeSelectorRequirement
    """

    key: LabelKey
    """The label, such as `node.kubernetes.io/instance-type`."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = "In"
    """The comparison of the label with `values`. `Exists` and `DoesNotExist` need no values."""
    values: SetOf[LabelValue] = ()
    """The values of the label, such as `[p5.48xlarge]`."""

    def _contradictions(self) -> Iterator[Fault]:
        if self.operator in ("In", "NotIn") and not self.values:
            yield Fault(f"`operator: {self.operator}` needs `values`", "list the values", ("values",), ("operator",))
        if self.operator in ("Exists", "DoesNotExist") and self.values:
            message = f"`operator: {self.operator}` compares no values"
            yield Fault(message, "remove `values`, or set `operator: In`", ("values",), ("operator",))


class NodePreference(NodeRequirement):
    """A condition on a label of a node, with its weight."""

    weight: Annotated[int, Field(strict=True, ge=1, le=100)] = 1
    """The weight of the condition, from 1 to 100. The scheduler of Kubernetes adds up the weights of the conditions
    that a node fulfils, and prefers nodes with a larger sum."""


class NodeAffinity(Section):
    """The nodes of the pool on which worker pods may run, and the nodes that they prefer."""

    required: tuple[NodeRequirement, ...] = ()
    """Conditions that a node must fulfil, all of them. The quota of the pool still counts all of its nodes."""
    preferred: tuple[NodePreference, ...] = ()
    """Conditions that a node should fulfil. On a pool with `topology`, Kueue selects the nodes, and reads these
    conditions only with its feature gate `TASRespectNodeAffinityPreferred`."""
