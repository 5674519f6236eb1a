"""What a TrainJob says of itself: its queue, its runtime, its priority, its labels."""

from __future__ import annotations

from generator.facts.names import PRIORITY_CLASS, QUEUE_NAME
from generator.policies.admission.policy import TRAINJOBS, Demand, Rule, parameters

RUNTIME = "object.spec.runtimeRef.?kind.orValue('ClusterTrainingRuntime') + '/' + object.spec.runtimeRef.name"
"""CEL: the runtime of a job, as the annotations of its namespace call it."""


def _label(key: str) -> tuple[str, str]:
    """The value of a label now, and before; empty where there is none."""
    value = f"metadata.?labels[?'{key}'].orValue('')"
    return f"object.{value}", f"oldObject == null ? '' : oldObject.{value}"


def queue(conditions: dict[str, str]) -> Rule:
    """A queue is named, and it is one of the namespace's: what is in no queue has no quota."""
    now, before = _label(QUEUE_NAME)
    return Rule(
        name="queue",
        requests=[TRAINJOBS],
        variables={"queue": now, "before": before, "queues": parameters("queues")},
        demands=[
            Demand(
                "variables.queue in variables.queues || (oldObject != null && variables.queue == variables.before)",
                "(variables.queue == '' ? 'it names no queue' : 'there is no queue \"' + variables.queue + '\"')"
                " + '; set the label kueue.x-k8s.io/queue-name to ' + variables.queues.join(' or ')",
            )
        ],
        conditions=conditions,
    )


def priority(conditions: dict[str, str]) -> Rule:
    """A priority that the team may use: Kueue lets everybody take the highest, at any time."""
    now, before = _label(PRIORITY_CLASS)
    return Rule(
        name="priority",
        requests=[TRAINJOBS],
        variables={"priority": now, "before": before, "priorities": parameters("priorities")},
        demands=[
            Demand(
                "variables.priority == '' || variables.priority in variables.priorities"
                " || variables.priority == variables.before",
                "'the priority \"' + variables.priority + '\" is not open to this team; set the label"
                " kueue.x-k8s.io/priority-class to ' + variables.priorities.join(' or ') + ', or remove it'",
            )
        ],
        conditions=conditions,
    )


def runtime(conditions: dict[str, str]) -> Rule:
    """A runtime of the platform: others have not been made safe for this cluster. `runtimeRef` never changes."""
    return Rule(
        name="runtime",
        requests=[TRAINJOBS],
        variables={
            "runtime": RUNTIME,
            "runtimes": parameters("runtimes"),
        },
        demands=[
            Demand(
                "oldObject != null || variables.runtime in variables.runtimes",
                "variables.runtime + ' is no runtime of this team; set spec.runtimeRef to '"
                " + variables.runtimes.join(' or ')",
            )
        ],
        conditions=conditions,
    )


def labels(conditions: dict[str, str]) -> Rule:
    """Labels by which somebody pays for a job, or answers for it. A wanted one is `key`, or `key=value`."""
    value = "[?each.split('=')[0]].orValue('')"
    return Rule(
        name="labels",
        requests=[TRAINJOBS],
        variables={
            "wanted": parameters("labels"),
            "missing": "variables.wanted.filter(each, each.contains('=')"
            f" ? object.metadata.?labels{value} != each.split('=')[1] : object.metadata.?labels{value} == '')",
        },
        demands=[
            Demand(
                "variables.missing.size() == 0 || (oldObject != null"
                " && object.metadata.?labels.orValue({}) == oldObject.metadata.?labels.orValue({}))",
                "'it lacks the label ' + variables.missing.join(' and the label ')",
            )
        ],
        conditions=conditions,
    )
