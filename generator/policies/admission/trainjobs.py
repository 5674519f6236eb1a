"""Admission rules for fields of a TrainJob: queue, runtime, priority, labels and size.

A ValidatingAdmissionPolicy sees one object at a time, so it cannot count the jobs of a user. The queue of a team bounds
what it uses at the same time, and its ResourceQuota how many TrainJobs it has. The rules do not see what a job leaves
to its runtime either: the checks compare the runtimes with the limits.
"""

from __future__ import annotations

from collections.abc import Collection

from generator.config.model.tenants import Limits
from generator.facts.names import PRIORITY_CLASS, QUEUE_NAME
from generator.policies.admission.policy import TRAINJOBS, Demand, Rule, parameter, parameters

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


# A quantity may be a number: with a text in its stead, Go would convert nothing but texts.
_OF_CAP = "resourcesPerNode.?{what}[?cap.split('=')[0]].orValue(dyn('0'))"


def _number(name: str) -> str:
    return f"{parameter(name)} == '' ? 0 : int({parameter(name)})"


def size(conditions: dict[str, str], limits: Collection[Limits]) -> Rule:
    """The limits of the namespace, each where there is one. Nothing of it can change later, but for the time.

    Args:
        conditions: of all rules.
        limits: those of all tenants: what none of them has is not asked for.
    """
    asked = " || ".join(
        f"quantity(string(object.spec.?trainer.?{_OF_CAP.format(what=what)}))"
        ".isGreaterThan(quantity(cap.split('=')[1]))"
        for what in ("requests", "limits")
    )
    return Rule(
        name="size",
        requests=[TRAINJOBS],
        variables={
            "hosts": "object.spec.?trainer.?numNodes.orValue(0)",
            "mostHosts": _number("hosts-per-job"),
            "devices": f"{parameters('devices-per-host')}.filter(cap, {asked}).map(cap, cap.replace('=', ': '))",
            "seconds": "object.spec.?activeDeadlineSeconds.orValue(0)",
            "mostSeconds": _number("seconds-per-job"),
            "same": "oldObject != null && variables.seconds == oldObject.spec.?activeDeadlineSeconds.orValue(0)",
        },
        demands=[
            *([_hosts()] if any(each.hosts_per_job for each in limits) else []),
            *([_devices()] if any(each.devices_per_host for each in limits) else []),
            *([_time()] if any(each.time_per_job for each in limits) else []),
        ],
        conditions=conditions,
    )


def _hosts() -> Demand:
    return Demand(
        "oldObject != null || variables.mostHosts == 0 || variables.hosts <= variables.mostHosts",
        "'a job of ' + request.namespace + ' has at most ' + string(variables.mostHosts)"
        " + ' hosts, and this one asks for ' + string(variables.hosts) + '; lower spec.trainer.numNodes'",
    )


def _devices() -> Demand:
    return Demand(
        "oldObject != null || variables.devices.size() == 0",
        "'a host of a job of ' + request.namespace + ' has at most ' + variables.devices.join(', ')"
        " + '; lower spec.trainer.resourcesPerNode'",
    )


def _time() -> Demand:
    return Demand(
        "variables.same || variables.mostSeconds == 0"
        " || (variables.seconds > 0 && variables.seconds <= variables.mostSeconds)",
        "(variables.seconds == 0 ? 'it may run for ever' : 'it may run for ' + string(variables.seconds)"
        " + ' s') + '; set spec.activeDeadlineSeconds to at most ' + string(variables.mostSeconds)",
    )
