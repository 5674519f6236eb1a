"""Read the admission rules of rules.yaml: each entry becomes a Rule, with its abbreviations expanded to CEL."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence

from generator.config.model.tenants import Limits
from generator.facts import names
from generator.facts.table import read_table
from generator.manifests import Body
from generator.policies.admission.policy import (
    RUNTIME,
    TRAINJOBS,
    ResourceRule,
    Rule,
    Validation,
    list_parameter,
    parameter,
)

_POD = "variables.pods.all(pods, pods.all(pod, {}))"
_SCOPES = {
    "expression": "{0}",
    "pods": _POD,
    "volumes": _POD.format("pod.?volumes.orValue([]).all(volume, {0})"),
    "containers": _POD.format(
        "pod.?containers.orValue([]).all(each, {0}) && pod.?initContainers.orValue([]).all(each, {0})"
    ),
    "everyContainer": "object.spec.containers.all(each, {0}) && object.spec.?initContainers.orValue([]).all(each, {0})"
    " && object.spec.?ephemeralContainers.orValue([]).all(each, {0})",
    "annotations": "object.metadata.?annotations.orValue({{}}).all(key, {0})",
}
"""Key of an expression in rules.yaml → CEL that is true if the expression is true for every pod, volume and so on."""
_ABBREVIATION = re.compile(r"\$(list|text)\(([a-z-]+)\)|\$\{(\w+)\}")


def read_rule(
    name: str,
    settings: Collection[str] = (),
    constants: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Rule:
    """Return a rule of rules.yaml.

    Args:
        name: the key of the rule.
        settings: the settings of the platform. A validation with another setting in `for` is omitted.
        constants: values of `${NAME}` in addition to the constants of generator/facts/names.py.
        variables: variables that precede the variables of the rule.
        labels: labels of the objects that the rule applies to, in all namespaces. Default: all objects of tenants.
    """
    row: Body = read_table("rules", "generator.policies.admission")[name]
    values = {**vars(names), "RUNTIME": RUNTIME, **(constants or {})}

    def expand(match: re.Match[str]) -> str:
        """Return the CEL for one abbreviation."""
        function, argument, constant = match.groups()
        if constant:
            return str(values[constant])
        return list_parameter(argument) if function == "list" else parameter(argument)

    def cel(text: str) -> str:
        """Return CEL with its abbreviations expanded."""
        return _ABBREVIATION.sub(expand, text)

    return Rule(
        name=name,
        resource_rules=[_resource_rule(**entry) for entry in row["resources"]] if "resources" in row else [TRAINJOBS],
        variables={
            **(read_table("rules", "generator.policies.admission")["patch-variables"] if "patches" in row else {}),
            **(variables or {}),
            **{key: cel(text) for key, text in row.get("variables", {}).items()},
        },
        validations=[
            Validation(_expression(entry, cel), cel(entry["message"]), entry.get("reason", "Invalid"))
            for entry in row["validations"]
            if entry.get("for") is None or entry["for"] in settings
        ],
        conditions={key: cel(text) for key, text in row.get("conditions", {}).items()},
        object_labels=labels or {},
        is_cluster_wide=labels is not None,
    )


def _expression(entry: Body, cel: Callable[[str], str]) -> str:
    return " && ".join(_SCOPES[key].format(cel(text)) for key, text in entry.items() if key in _SCOPES)


def _resource_rule(
    group: str, versions: list[str], resources: list[str], operations: Sequence[str] = ("CREATE", "UPDATE")
) -> ResourceRule:
    return ResourceRule(group, tuple(versions), tuple(resources), tuple(operations))


def size(limits: Collection[Limits]) -> Rule:
    """Return the rule `size`, with a validation for each limit (hosts, devices, time) that at least one tenant sets."""
    is_set = {
        "hosts": any(limit.hosts_per_job for limit in limits),
        "devices": any(limit.devices_per_host for limit in limits),
        "time": any(limit.time_per_job for limit in limits),
    }
    return read_rule("size", [setting for setting, needed in is_set.items() if needed])


def generated(users: Sequence[str], groups: Sequence[str], labels: Mapping[str, str]) -> Rule:
    """Return the rule `generated`, which lets only these users and groups change generated objects.

    Args:
        users: users that may change the objects.
        groups: groups that may change the objects.
        labels: the labels of generated objects.
    """
    callers = []  # CEL reads strings like JSON
    if users:
        callers.append(f"request.userInfo.username in {json.dumps([*users])}")
    if groups:
        callers.append(f"request.userInfo.groups.exists(group, group in {json.dumps([*groups])})")
    return read_rule("generated", constants={"CALLERS": " || ".join(callers)}, labels=labels)
