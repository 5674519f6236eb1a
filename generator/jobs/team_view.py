"""The view of one team for `mpigen queues --tenant`: its namespaces, runtimes, priorities, limits and labels.

The view reads the parameters of admission rules on the Namespaces of the team, and its ResourceQuotas. Quota, borrowing
and the largest jobs are in the tables of the queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from generator.facts.names import OWN_ROLE, PARAMETER, SCHEDULE_CREATOR
from generator.jobs.catalogue import Catalogue, Home, Team
from generator.jobs.reach import offers
from generator.manifests import Manifest
from generator.objects.fields import mapping, mappings, string, string_map
from generator.quantities import parse

Facts = dict[str, Any]

_ROLE = "mpigen-"
"""The start of the names of the ClusterRoles for members of a team; `OWN_ROLE` for roles of the platform file."""
_TRAIN_JOBS = "count/trainjobs.trainer.kubeflow.org"
_CLAIMS = "persistentvolumeclaims"
_COUNTED = {_TRAIN_JOBS: "TrainJobs", _CLAIMS: "PersistentVolumeClaims", "requests.storage": "storage"}
"""Key of `hard` in a ResourceQuota → its name in a limit."""
_OF_CLUSTER = ("services.loadbalancers", "services.nodeports")
"""Keys of `hard` that mpigen sets to 0 in all namespaces."""


def team_facts(catalogue: Catalogue, team: Team) -> Facts:
    """Return the view of a team as JSON data. A limit of 0 or an empty value means that there is no limit.

    A team with namespaces whose Namespace objects are missing has no known priorities, limits and labels.
    """
    return {
        "name": team.name,
        "queues": sorted(catalogue.queues_of(team)),
        "runtimes": [runtime.name for runtime in catalogue.runtimes.values() if offers(team, runtime)],
        "namespaces": [_namespace_facts(catalogue, home) for home in team.homes],
    }


def _namespace_facts(catalogue: Catalogue, home: Home) -> Facts:
    objects = catalogue.of_namespace(home.name)
    spaces = (item for item in objects if item.kind == "Namespace")
    annotations = string_map(mapping(next((item.body for item in spaces), {}), "metadata", "annotations"))
    return {
        "name": home.name,
        "priorities": _priorities(catalogue, home),
        "needsPriority": home.needs_priority,
        "nodesPerJob": home.most_nodes,
        "secondsPerJob": home.seconds,
        "devicesPerPod": dict(_pairs(annotations.get(f"{PARAMETER}devices-per-host", ""))),
        "labels": dict(home.labels),
        "costLabels": dict(home.cost_labels),
        "places": [place for place in annotations.get(f"{PARAMETER}residency", "").split(",") if place],
        "resourceQuota": _hard(objects),
        "roles": _roles(objects),
    }


def _priorities(catalogue: Catalogue, home: Home) -> list[Facts]:
    """Return the priorities of a namespace's jobs, the highest first; all priorities if the Namespace lists none."""
    values = catalogue.priority_values
    names = values if home.priorities is None else home.priorities
    known = [{"name": name, "value": values[name]} for name in names if name in values]
    return sorted(known, key=lambda entry: (-entry["value"], entry["name"]))


def _roles(objects: Iterable[Manifest]) -> dict[str, list[str]]:
    """Return role → its users, groups and ServiceAccounts, in the form of `--as` of `mpigen check-job`.

    The role of the schedules is omitted: no member has it.
    """
    roles: dict[str, list[str]] = {}
    for binding in objects:
        name = string(mapping(binding.body, "roleRef").get("name"))
        role = name.removeprefix(OWN_ROLE) if name.startswith(OWN_ROLE) else name.removeprefix(_ROLE)
        if binding.kind == "RoleBinding" and name not in (role, SCHEDULE_CREATOR):
            roles.setdefault(role, []).extend(map(_subject, mappings(binding.body.get("subjects"))))
    return {role: sorted(subjects) for role, subjects in sorted(roles.items()) if subjects}


def _subject(subject: Mapping[str, Any]) -> str:
    kind, name, namespace = (string(subject.get(key)) for key in ("kind", "name", "namespace"))
    return f"{kind.lower()}:{f'{namespace}/' if namespace else ''}{name}"


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for entry in text.split(","):
        key, _, value = entry.partition("=")
        if key:
            yield key, value


def _hard(objects: Iterable[Manifest]) -> dict[str, str]:
    """Return the limits of the ResourceQuotas of a namespace. mpigen writes one ResourceQuota."""
    quotas = (item for item in objects if item.kind == "ResourceQuota")
    hard = {key: value for quota in quotas for key, value in mapping(quota.body, "spec", "hard").items()}
    return {str(key): string(value) or str(value) for key, value in hard.items() if key not in _OF_CLUSTER}


def describe_team(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the view of a team as (topic, text). Namespaces with the same settings share their lines.

    Args:
        facts: the result of `team_facts`.
    """
    yield "tenant", facts["name"]
    yield "runtimes", ", ".join(facts["runtimes"]) or "none"
    alike: dict[str, list[str]] = {}
    described = {space["name"]: [*_describe_namespace(space)] for space in facts["namespaces"]}
    for name, lines in described.items():
        alike.setdefault(repr(lines), []).append(name)
    for names in alike.values():
        yield "namespaces", ", ".join(names)
        yield from described[names[0]]


def _describe_namespace(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    ranked = [f"{entry['name']} ({entry['value']})" for entry in facts["priorities"]]
    yield from ((f"role {role}", ", ".join(subjects)) for role, subjects in facts["roles"].items())
    yield "priorities", (", ".join(ranked) or "none") + (", one is required" if facts["needsPriority"] else "")
    limits = [
        f"at most {facts['nodesPerJob']} nodes" if facts["nodesPerJob"] else "",
        *(f"{amount} {device} in each pod" for device, amount in facts["devicesPerPod"].items()),
        f"a run time of {_duration(facts['secondsPerJob'])}" if facts["secondsPerJob"] else "",
    ]
    yield "each job", ", ".join(filter(None, limits)) or "no limit"
    for topic, kind in (("job labels", "labels"), ("cost labels", "costLabels")):
        if labels := facts[kind]:
            yield topic, ", ".join(f"{key}={value}" if value else f"{key} (any value)" for key, value in labels.items())
    if places := facts["places"]:
        yield "places", ", ".join(places)
    hard = facts["resourceQuota"]
    counted = [f"{_plain(hard[key])} {_COUNTED[key]}" for key in _COUNTED if key in hard]
    requests = [f"{value} {key.removeprefix('requests.')}" for key, value in hard.items() if key not in _COUNTED]
    if counted or requests:
        yield "each namespace", ", ".join([*counted, *requests])


def _plain(amount: str) -> str:
    """Return a decimal amount without a suffix, such as `1000` for `1k`; a binary amount, such as `10Ti`, unchanged."""
    quantity = parse(amount)
    is_whole = quantity.value.denominator == 1 and not quantity.is_binary
    return str(int(quantity.value)) if is_whole else amount


def _duration(seconds: int) -> str:
    """Return a duration in its largest whole unit, such as `24h` or `90m`."""
    unit, size = next((unit, size) for unit, size in (("h", 3600), ("m", 60), ("s", 1)) if seconds % size == 0)
    return f"{seconds // size}{unit}"
