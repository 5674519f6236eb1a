"""Read the admission rules of rules/: each file becomes a Rule, with its abbreviations expanded to CEL.

A file has these keys:

- `description`: what the rule stops, in one or two plain sentences. It becomes an annotation of the policy.
- `resources`: TrainJobs by default; `operations`: CREATE and UPDATE by default.
- `patches`: if true, the variables of patch_variables.yaml precede the variables of the rule.
- `conditions`: name → CEL. The rule ignores a request for which an expression is false. The API server evaluates all
  messages of a rule for each request, so conditions also exclude requests that cannot break the rule. With the key
  `anyPod` or `anyMetadata` above the CEL, the CEL must be true for a `pod` or for `metadata` of any patch; an
  `expression` beside it is an alternative.
- `variables`: name → CEL, which may read the variables before it. With the key `pods`, `volumes`, `containers` or
  `metadata` above the CEL, the CEL is a list of strings for each `pod`, `volume`, container (`each`) or `metadata` of
  the patches, and the variable is the list of all these strings.
- `validations`: the rule rejects a request if an expression is false, with `message`, which is CEL too. With `for`,
  only a platform with this setting has the validation. The key of an expression says what it must be true for:
  `expression` for the request, `everyContainer` for each container (`each`) of a Pod, and `annotations` for each `key`
  of an object. If a validation has several of these keys, all of their expressions must be true.

CEL is a block scalar with one condition per line, and `//` begins a comment. Abbreviations in CEL:

- `$list(NAME)`, `$text(NAME)`: a parameter of the namespace (parameters.py), as a list of strings or as a string.
- `$same(A, B, KEY)`: two maps are equal, except for the value of a key.
- `${NAME}`: a constant of generator/facts/names.py, or a value of `read_rule`.

A ValidatingAdmissionPolicy evaluates one object at a time, so it cannot count the jobs of a user. The queue of a team
limits its concurrent usage, and its ResourceQuota the number of its TrainJobs. The rules do not see fields that a job
leaves to its runtime either: checks compare the runtimes with the limits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from textwrap import indent

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

_SCOPES = {
    "expression": "{0}",
    "everyContainer": "object.spec.containers.all(each,\n{1}\n)"
    "\n&& object.spec.?initContainers.orValue([]).all(each,\n{1}\n)"
    "\n&& object.spec.?ephemeralContainers.orValue([]).all(each,\n{1}\n)",
    "annotations": "object.metadata.?annotations.orValue({{}}).all(key,\n{1}\n)",
}
"""Key of an expression → CEL: the expression is true for the request, each container or each annotation."""
_CONDITIONS = {
    "expression": "{0}",
    "anyPod": "dyn(object.spec.?runtimePatches.orValue([])).exists(patch,\n"
    "  patch.?trainingRuntimeSpec.?template.?spec.?replicatedJobs.orValue([])\n"
    "    .map(job, job.?template.?spec.?template.?spec.orValue({{}})).exists(pod,\n{1}\n))",
    "anyMetadata": "dyn(object.spec.?runtimePatches.orValue([])).exists(patch,\n"
    "  ([patch.?trainingRuntimeSpec.?template.?metadata.orValue({{}})]\n"
    "  + patch.?trainingRuntimeSpec.?template.?spec.?replicatedJobs.orValue([])\n"
    "    .map(job, job.?template.?metadata.orValue({{}}))\n"
    "  + patch.?trainingRuntimeSpec.?template.?spec.?replicatedJobs.orValue([])\n"
    "    .map(job, job.?template.?spec.?template.?metadata.orValue({{}}))).exists(metadata,\n{1}\n))",
}
"""Key of a condition → CEL: the condition is true for the request, or for a pod or metadata of any patch."""
_LISTS = {
    "pods": "variables.pods.map(pods, pods.map(pod,\n  (\n{2}\n  ).join(', ')\n{0}",
    "volumes": "variables.pods.map(pods, pods.map(pod, pod.?volumes.orValue([]).map(volume,\n  (\n{2}\n  ).join(', ')\n"
    ").filter(text, text != '').join(', ')\n{0}",
    "containers": "variables.pods.map(pods, pods.map(pod,\n"
    "(pod.?containers.orValue([]) + pod.?initContainers.orValue([])).map(each,\n  (\n{2}\n  ).join(', ')\n"
    ").filter(text, text != '').join(', ')\n{0}",
    "metadata": "(\n  variables.patches.map(patch, [patch.?trainingRuntimeSpec.?template.?metadata.orValue({{}})])\n"
    "  + variables.jobs.map(jobs, jobs.map(job, job.?template.?metadata.orValue({{}})))\n"
    "  + variables.jobs.map(jobs, jobs.map(job, job.?template.?spec.?template.?metadata.orValue({{}})))\n"
    ").map(list, list.map(metadata,\n  (\n{2}\n  ).join(', ')\n{0}",
}
"""Key of a variable → CEL that lists the strings of all pods, volumes, containers or metadata of the patches."""
_END_OF_LIST = ").filter(text, text != '').join(', ')).filter(text, text != '')"
_PACKAGE = "generator.policies.admission"
_ABBREVIATION = re.compile(r"\$(list|text)\(([a-z-]+)\)|\$\{(\w+)\}|\$same\(([^,()]+), ([^,()]+), ('\w+')\)")


def read_rule(
    name: str,
    settings: Collection[str] = (),
    constants: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Rule:
    """Read an admission rule from a file of rules/, and expand its abbreviations.

    Args:
        name: the name of the file in rules/.
        settings: the settings of the platform. A validation with another setting in `for` is omitted.
        constants: values of `${NAME}` in addition to the constants of generator/facts/names.py.
        variables: variables that precede the variables of the rule.
        labels: labels of the objects that the rule applies to, in all namespaces. Default: all objects in namespaces of
            tenants.
    """
    row: Body = read_table(f"rules/{name}", _PACKAGE)
    values = {**vars(names), "RUNTIME": RUNTIME, **(constants or {})}

    def expand(match: re.Match[str]) -> str:
        """Return the CEL for one abbreviation."""
        function, argument, constant, left, right, key = match.groups()
        if left:
            return _same(left, right, key)
        if constant:
            return str(values[constant])
        return list_parameter(argument) if function == "list" else parameter(argument)

    def cel(text: str) -> str:
        """Return CEL with its abbreviations expanded."""
        return _ABBREVIATION.sub(expand, text)

    return Rule(
        name=name,
        description=row["description"],
        resource_rules=[_resource_rule(**entry) for entry in row["resources"]] if "resources" in row else [TRAINJOBS],
        variables={
            **(read_table("patch_variables", _PACKAGE) if "patches" in row else {}),
            **(variables or {}),
            **{key: _variable(entry, cel) for key, entry in row.get("variables", {}).items()},
        },
        validations=[
            Validation(_expression(entry, cel), cel(entry["message"]), entry.get("reason", "Invalid"))
            for entry in row["validations"]
            if entry.get("for") is None or entry["for"] in settings
        ],
        conditions={key: _condition(entry, cel) for key, entry in row.get("conditions", {}).items()},
        object_labels=labels or {},
        is_cluster_wide=labels is not None,
    )


def _same(left: str, right: str, key: str) -> str:
    """Return CEL that is true if two maps are equal except for the value of a key, which both or none have."""
    return (
        f"{left}.all(key, key in {right} && (key == {key} || {left}[key] == {right}[key]))"
        f" && {right}.all(key, key in {left})"
    )


def _condition(entry: str | Body, cel: Callable[[str], str]) -> str:
    """Return the CEL of a match condition: one of the alternatives must be true."""
    if isinstance(entry, str):
        return cel(entry)
    texts = [(_CONDITIONS[key], cel(text)) for key, text in entry.items()]
    return "\n|| ".join(scope.format(text, indent(text, "    ")) for scope, text in texts)


def _variable(entry: str | Body, cel: Callable[[str], str]) -> str:
    """Return the CEL of a variable."""
    if isinstance(entry, str):
        return cel(entry)
    ((scope, text),) = entry.items()
    return _LISTS[scope].format(_END_OF_LIST, "", indent(cel(text), "    "))


def _expression(entry: Body, cel: Callable[[str], str]) -> str:
    """Return the CEL of a validation, with the conditions of each scope indented."""
    scopes = [(_SCOPES[key], cel(text)) for key, text in entry.items() if key in _SCOPES]
    return "\n&& ".join(scope.format(text, indent(text, "  ")) for scope, text in scopes)


def _resource_rule(
    group: str,
    versions: list[str],
    resources: list[str],
    operations: Sequence[str] = ("CREATE", "UPDATE"),
    scope: str = "*",
) -> ResourceRule:
    return ResourceRule(group, tuple(versions), tuple(resources), tuple(operations), scope)


def size(limits: Collection[Limits]) -> Rule:
    """Return the rule `size`, with a validation for each limit (hosts, devices, time) that at least one tenant sets."""
    is_set = {
        "hosts": any(limit.hosts_per_job for limit in limits),
        "devices": any(limit.devices_per_host for limit in limits),
        "time": any(limit.time_per_job for limit in limits),
    }
    return read_rule("size", [setting for setting, needed in is_set.items() if needed])
