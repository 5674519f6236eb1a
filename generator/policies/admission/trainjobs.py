"""Admission rules for fields of a TrainJob: queue, runtime, priority, labels and size.

A ValidatingAdmissionPolicy judges one object at a time, so it cannot count the jobs of a user. The queue of a team
bounds what it uses at the same time, and its ResourceQuota how many TrainJobs it has. The rules do not see fields that
a job leaves to its runtime either: checks compare the runtimes with the limits.
"""

from __future__ import annotations

from collections.abc import Collection

from generator.config.model.tenants import Limits
from generator.facts.names import PRIORITY_CLASS, QUEUE_NAME
from generator.policies.admission.policy import TRAINJOBS, Rule, Validation, list_parameter, parameter

RUNTIME = "object.spec.runtimeRef.?kind.orValue('ClusterTrainingRuntime') + '/' + object.spec.runtimeRef.name"
"""CEL: the runtime of a job, in the form of the annotations of its namespace."""

# A quantity may be a number. With a string as the default, Go would convert only strings.
_AMOUNT = "resourcesPerNode.?{field}[?cap.split('=')[0]].orValue(dyn('0'))"


def queue() -> Rule:
    """Require the name of a queue of the namespace: a job without a queue bypasses the quota."""
    value, old_value = _label(QUEUE_NAME)
    return Rule(
        name="queue",
        resource_rules=[TRAINJOBS],
        variables={"queue": value, "before": old_value, "queues": list_parameter("queues")},
        validations=[
            Validation(
                "variables.queue in variables.queues || (oldObject != null && variables.queue == variables.before)",
                "(variables.queue == '' ? 'the TrainJob names no queue'"
                " : 'this namespace has no queue \"' + variables.queue + '\"')"
                f" + '; set the label {QUEUE_NAME} to ' + variables.queues.join(' or ')",
            )
        ],
    )


def priority() -> Rule:
    """Require a priority that the team may use: Kueue allows every priority to every user, at any time."""
    value, old_value = _label(PRIORITY_CLASS)
    return Rule(
        name="priority",
        resource_rules=[TRAINJOBS],
        variables={"priority": value, "before": old_value, "priorities": list_parameter("priorities")},
        validations=[
            Validation(
                "variables.priority == '' || variables.priority in variables.priorities"
                " || variables.priority == variables.before",
                "'this team cannot use the priority \"' + variables.priority + '\"; set the label"
                f" {PRIORITY_CLASS} to ' + variables.priorities.join(' or ') + ', or remove it'",
            )
        ],
    )


def runtime() -> Rule:
    """Require a runtime of the platform, which is checked for this cluster. `runtimeRef` never changes."""
    return Rule(
        name="runtime",
        resource_rules=[TRAINJOBS],
        variables={"runtime": RUNTIME, "runtimes": list_parameter("runtimes")},
        validations=[
            Validation(
                "oldObject != null || variables.runtime in variables.runtimes",
                "'this team cannot use the runtime ' + variables.runtime + '; set spec.runtimeRef to '"
                " + variables.runtimes.join(' or ')",
            )
        ],
    )


def labels() -> Rule:
    """Require the labels that name who pays for a job or is responsible for it: `key`, or `key=value`."""
    value = "[?each.split('=')[0]].orValue('')"
    return Rule(
        name="labels",
        resource_rules=[TRAINJOBS],
        variables={
            "required": list_parameter("labels"),
            "missing": "variables.required.filter(each, each.contains('=')"
            f" ? object.metadata.?labels{value} != each.split('=')[1] : object.metadata.?labels{value} == '')",
        },
        validations=[
            Validation(
                "variables.missing.size() == 0 || (oldObject != null"
                " && object.metadata.?labels.orValue({}) == oldObject.metadata.?labels.orValue({}))",
                "'the TrainJob lacks the label ' + variables.missing.join(' and the label ') + '; add it to"
                " metadata.labels'",
            )
        ],
    )


def size(limits: Collection[Limits]) -> Rule:
    """Require the limits of the namespace on hosts, devices and time. Only the time of a job can change later.

    Args:
        limits: the limits of all tenants. The rule has no validation for a limit that no tenant has.
    """
    exceeds = " || ".join(
        f"quantity(string(object.spec.?trainer.?{_AMOUNT.format(field=field)}))"
        ".isGreaterThan(quantity(cap.split('=')[1]))"
        for field in ("requests", "limits")
    )
    validations = [
        (_hosts, any(limit.hosts_per_job for limit in limits)),
        (_devices, any(limit.devices_per_host for limit in limits)),
        (_time, any(limit.time_per_job for limit in limits)),
    ]
    return Rule(
        name="size",
        resource_rules=[TRAINJOBS],
        variables={
            "hosts": "object.spec.?trainer.?numNodes.orValue(0)",
            "mostHosts": _integer_parameter("hosts-per-job"),
            "devices": f"{list_parameter('devices-per-host')}.filter(cap, {exceeds}).map(cap, cap.replace('=', ': '))",
            "seconds": "object.spec.?activeDeadlineSeconds.orValue(0)",
            "mostSeconds": _integer_parameter("seconds-per-job"),
            "same": "oldObject != null && variables.seconds == oldObject.spec.?activeDeadlineSeconds.orValue(0)",
        },
        validations=[validation() for validation, is_set in validations if is_set],
    )


def _hosts() -> Validation:
    return Validation(
        "oldObject != null || variables.mostHosts == 0 || variables.hosts <= variables.mostHosts",
        "'the TrainJob requests ' + string(variables.hosts) + ' hosts, and a job in ' + request.namespace"
        " + ' can have at most ' + string(variables.mostHosts) + '; lower spec.trainer.numNodes'",
    )


def _devices() -> Validation:
    return Validation(
        "oldObject != null || variables.devices.size() == 0",
        "'each host of a job in ' + request.namespace + ' can have at most ' + variables.devices.join(', ')"
        " + '; lower spec.trainer.resourcesPerNode'",
    )


def _time() -> Validation:
    return Validation(
        "variables.same || variables.mostSeconds == 0"
        " || (variables.seconds > 0 && variables.seconds <= variables.mostSeconds)",
        "(variables.seconds == 0 ? 'the TrainJob has no deadline'"
        " : 'the deadline of the TrainJob is ' + string(variables.seconds) + ' s')"
        " + '; set spec.activeDeadlineSeconds to at most ' + string(variables.mostSeconds)",
    )


def _label(key: str) -> tuple[str, str]:
    """Return CEL for the value of a label now and before the request; an empty string if it is absent."""
    value = f"metadata.?labels[?'{key}'].orValue('')"
    return f"object.{value}", f"oldObject == null ? '' : oldObject.{value}"


def _integer_parameter(name: str) -> str:
    return f"{parameter(name)} == '' ? 0 : int({parameter(name)})"
