"""Read the corpus: attacks, each with the control that stops it, and requests of a normal day, which must pass."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from generator.facts.names import OWNER, QUEUE_NAME
from tests.attacks.platforms import PERSONAS, PLATFORMS, merged

Body = dict[str, Any]
FOLDER = Path(__file__).with_name("corpus")
CLASSES = ("devices", "stall", "secrets", "network", "data", "escalate", "evade")
"""The files of the corpus with attacks, each a class of attacks."""
WAYS = {
    "rbac": "the role",
    "api": "validation by the API server",
    "webhook": "a webhook of Trainer, JobSet or Kueue",
    "quota": "a ResourceQuota",
    "limit-range": "a LimitRange",
    "pod-security": "Pod Security",
    "controller": "a controller",
}
"""Ways to stop an attack, besides the rules of the admission pack."""
PLATFORM_NAMES = {"kubernetes": "Kubernetes", "openshift": "OpenShift"}
CONTENT = {
    "json": "application/json",
    "merge": "application/merge-patch+json",
    "json-patch": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_TRAINER = "trainer.kubeflow.org/v1alpha1"
_JOBS = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{}/trainjobs?fieldValidation=Strict"
_COPIES = "POST /apis/trainer.kubeflow.org/v1alpha1/namespaces/{team}/trainingruntimes?fieldValidation=Strict"
_PLACEHOLDER = re.compile(r"\{([a-z-]+)\}")


@dataclass(frozen=True, slots=True)
class Step:
    """A request, or a condition that the next step waits for.

    Attributes:
        by: the persona.
        method: the HTTP method; empty for a condition.
        path: the URL path with its query.
        body: the body; None without one.
        content: the media type of the body.
        headers: headers in addition to the usual ones.
        raw: the text of the body, in place of `body`.
        pods: the name of a TrainJob whose pods must run.
        no_pods: the name of a TrainJob that must not get pods.
        times: the number of times that the request is sent.
    """

    by: str
    method: str = ""
    path: str = ""
    body: Any = None
    content: str = CONTENT["json"]
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: str = ""
    pods: str = ""
    no_pods: str = ""
    times: int = 1

    def filled(self, names: Mapping[str, Any]) -> Step:
        """Return the step with the values of placeholders."""
        values = (getattr(self, name) for name in ("path", "body", "raw", "pods", "no_pods"))
        path, body, raw, pods, no_pods = (fill(value, names) for value in values)
        return Step(self.by, self.method, path, body, self.content, self.headers, raw, pods, no_pods, self.times)


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack, or with `kind` `work` a request of a normal day.

    Attributes:
        kind: the class of the attack: the name of its file.
        title: the purpose.
        by: the persona.
        platforms: the platforms on which it is tried.
        given: objects that an admin creates before.
        steps: the requests.
        stopped: platform → what may stop it: keys of `WAYS`, or rules of the admission pack; empty if it succeeds.
        says: a regular expression that the refusal contains.
        remains: why it succeeds; empty if it is stopped.
        control: what would stop it.
        is_offline: False if a webhook changes the request before the rules judge it.
        since: the first minor version of Kubernetes in a set of versions that has the object of the request; empty for
            all versions.
    """

    kind: str
    title: str
    by: str
    platforms: tuple[str, ...]
    given: tuple[Body, ...]
    steps: tuple[Step, ...]
    stopped: Mapping[str, tuple[str, ...]]
    says: str = ""
    remains: str = ""
    control: str = ""
    is_offline: bool = True
    since: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.by}: {self.title}"


@cache
def attacks() -> tuple[Attack, ...]:
    """Return all attacks."""
    return tuple(_attack(kind, row) for kind in CLASSES for row in _rows(kind))


@cache
def work() -> tuple[Attack, ...]:
    """Return the requests of a normal day, all of which must pass."""
    return tuple(_attack("work", row) for row in _rows("work"))


def on(platform: str, rows: Iterable[Attack]) -> list[Attack]:
    """Return the rows for a platform."""
    return [row for row in rows if platform in row.platforms]


def fill(value: Any, names: Mapping[str, Any]) -> Any:
    """Replace placeholders such as `{team}`. A string that is one placeholder becomes the value, of any type."""
    if isinstance(value, dict) and _COPY in value:
        return runtime_copy(names["copy"], fill(value[_COPY], names))
    if isinstance(value, dict):
        return {fill(key, names): fill(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [fill(item, names) for item in value]
    if not isinstance(value, str):
        return value
    if (match := _PLACEHOLDER.fullmatch(value)) and match[1] in names:
        return names[match[1]]
    return _PLACEHOLDER.sub(lambda match: str(names.get(match[1], match[0])), value)


def _rows(kind: str) -> list[Body]:
    rows: list[Body] = yaml.safe_load((FOLDER / f"{kind}.yaml").read_text())
    return rows


_COPY = "copy"
_KEYS = {"request", "body", "content", "headers", "raw", "job", _COPY, "by", "repeat", "pods", "no-pods"}
_OF_ATTACKS = {"attack", "work", "only", "given", "steps", "stopped", "says", "remains", "control", "offline", "since"}


def _attack(kind: str, row: Body) -> Attack:
    unknown = row.keys() - _KEYS - _OF_ATTACKS
    assert not unknown, (row, unknown)
    platforms = tuple(row.get("only", PLATFORMS))
    steps = row.get("steps") or [{key: row[key] for key in _KEYS & row.keys()}]
    stopped = row.get("stopped", {})
    by_platform: dict[str, Any] = stopped if isinstance(stopped, dict) else dict.fromkeys(platforms, stopped)
    return Attack(
        kind=kind,
        title=row.get("attack") or row["work"],
        by=row["by"],
        platforms=platforms,
        given=tuple(row.get("given", ())),
        steps=tuple(_step({"by": row["by"], **step}) for step in steps),
        stopped={name: (ways,) if isinstance(ways, str) else tuple(ways) for name, ways in by_platform.items()},
        says=row.get("says", ""),
        remains=row.get("remains", ""),
        control=row.get("control", ""),
        is_offline=row.get("offline", True),
        since=row.get("since", ""),
    )


def _step(row: Body) -> Step:
    assert not row.keys() - _KEYS, row
    assert row["by"] in PERSONAS, row
    if "pods" in row or "no-pods" in row:
        return Step(row["by"], pods=row.get("pods", ""), no_pods=row.get("no-pods", ""))
    body: Body | None
    if _COPY in row:
        body, usual = {_COPY: row[_COPY]}, _COPIES
    else:
        body = train_job(row["job"], PERSONAS[row["by"]]) if "job" in row else row.get("body")
        usual = "" if "request" in row else f"POST {_JOBS.format((body or {})['metadata']['namespace'])}"
    request = row.get("request", usual)
    method, _, path = request.partition(" ")
    content = row.get("content", "merge" if method == "PATCH" else "json")
    return Step(
        row["by"], method, path, body, CONTENT[content], row.get("headers", {}), row.get("raw", ""),
        times=row.get("repeat", 1),
    )  # fmt: skip


def train_job(row: Body, owner: str) -> Body:
    """Return a TrainJob of two hosts with these changes.

    Args:
        row: `name`, and changes of `metadata`, `spec` and `trainer`; or changes of the pods of its hosts: `pod`,
            `podMetadata`, `template` (of the replicated Job), `patches` (all runtime patches), or `manyPatches`.
        owner: the user that submits it.
    """
    body: Body = {
        "apiVersion": _TRAINER,
        "kind": "TrainJob",
        "metadata": {
            "name": row.get("name", "{job}"),
            "namespace": "{team}",
            "labels": {QUEUE_NAME: "default"},
            "annotations": {OWNER: owner},
        },
        "spec": {
            "runtimeRef": {"name": "{runtime}"},
            "activeDeadlineSeconds": 3600,
            "trainer": {"numNodes": 2, "command": ["mpirun", "hostname"], **row.get("trainer", {})},
            "runtimePatches": _patches(row) or None,
        },
    }
    body = merged(body, {"metadata": row.get("metadata", {}), "spec": row.get("spec", {})})
    if "generateName" in body["metadata"]:
        del body["metadata"]["name"]
    body["spec"] = {key: value for key, value in body["spec"].items() if value is not None}
    return body


def runtime_copy(body: Body, row: Body) -> Body:
    """Return a copy of the runtime with another image, with these changes.

    Args:
        body: the copy as `mpigen job new --image` writes it.
        row: changes of `metadata`, `spec`, and of all its pods (`pod`) and containers (`container`).
    """
    copied = deepcopy(body)
    for job in copied["spec"]["template"]["spec"]["replicatedJobs"]:
        template = job["template"]["spec"]["template"]
        pod = merged(template["spec"], row.get("pod", {}))
        pod["containers"] = [merged(each, row.get("container", {})) for each in pod["containers"]]
        template["spec"] = pod
    return dict(merged(copied, {"metadata": row.get("metadata", {}), "spec": row.get("spec", {})}))


def _patches(row: Body) -> list[Body]:
    if "patches" in row:
        return list(row["patches"])
    if "manyPatches" in row:
        return [{"manager": f"example.com/me-{number}"} for number in range(row["manyPatches"])]
    inside = {"metadata": row.get("podMetadata"), "spec": row.get("pod")}
    pods = {key: value for key, value in inside.items() if value}
    template = {**row.get("template", {}), **({"spec": {"template": pods}} if pods else {})}
    if not template:
        return []
    jobs = {"replicatedJobs": [{"name": "node", "template": template}]}
    return [{"manager": "example.com/me", "trainingRuntimeSpec": {"template": {"spec": jobs}}}]
