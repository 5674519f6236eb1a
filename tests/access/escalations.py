"""Attempts at privilege escalation, as requests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_ATTEMPTS: dict[str, list[dict[str, Any]]] = yaml.safe_load(Path(__file__).with_name("escalations.yaml").read_text())
JOBS = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{namespace}/trainjobs"
OWNER = "mpigen.dev/owner"
Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A request that must be rejected.

    Attributes:
        by: the persona that makes it.
        name: the purpose of the request.
        method: HTTP method.
        path: URL path, with `{pod}` for a pod of another user's job.
        body: request body, or None.
        closed_by: `rbac`, `pod-security`, or the rule of an admission policy.
    """

    by: str
    name: str
    method: str
    path: str
    body: Body | None
    closed_by: str

    def __str__(self) -> str:
        return f"{self.by}: {self.name}"


def attempts() -> list[Attempt]:
    """Return all attempts of the table."""
    return [_attempt(by, each) for by, found in _ATTEMPTS.items() for each in found]


def _attempt(by: str, said: Body) -> Attempt:
    if "patch" not in said:
        return Attempt(by, said["attempt"], said["method"], said["path"], said.get("body"), said["closedBy"])
    owner = {OWNER: by} | said.get("annotations", {})
    body = train_job("attempt", owner, said["patch"])
    body["spec"]["trainer"] |= {"env": said["env"]} if "env" in said else {}
    body["metadata"] |= said.get("metadata", {})
    path = JOBS.format(namespace=said.get("namespace", "access-a"))
    return Attempt(by, said["attempt"], "POST", path, body, said["closedBy"])


def train_job(name: str, annotations: Body, patch: Body | None = None) -> Body:
    """A TrainJob of two hosts, with a patch of their pods."""
    node = {"name": "node", "template": {"spec": {"template": {"spec": patch}}}}
    inside = {"template": {"spec": {"replicatedJobs": [node]}}}
    patches = {"runtimePatches": [{"manager": "example.com/me", "trainingRuntimeSpec": inside}]} if patch else {}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "annotations": annotations, "labels": {"kueue.x-k8s.io/queue-name": "default"}},
        "spec": {
            "runtimeRef": {"name": "openmpi"},
            "trainer": {"numNodes": 2, "command": ["mpirun", "hostname"]},
            **patches,
        },
    }
