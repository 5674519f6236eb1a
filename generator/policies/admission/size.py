"""How much one TrainJob may ask for: hosts, devices of a host, and time.

A ValidatingAdmissionPolicy sees one object at a time: it cannot count how many jobs somebody has. What a team has at
the same time is up to its queue, and how many TrainJobs there are to its ResourceQuota. What a job leaves to its
runtime is not seen either: the checks compare the runtimes with the limits.
"""

from __future__ import annotations

from collections.abc import Collection

from generator.config.model.tenants import Limits
from generator.policies.admission.policy import TRAINJOBS, Demand, Rule, parameter, parameters

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
