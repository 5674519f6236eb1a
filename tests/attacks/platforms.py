"""The platforms of the attacks: examples with a user for each persona."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from generator import App, JobRequest, Platform, new_job, pipeline
from generator.jobs.catalogue import Catalogue
from generator.manifests import Manifest
from tests.conftest import EXAMPLES

_FILE = Path(__file__).with_name("platforms.yaml")
PLATFORMS: dict[str, Any] = yaml.safe_load(_FILE.read_text())
PERSONAS = {
    "viewer": "viewer",
    "submitter": "submitter",
    "editor": "editor",
    "team-admin": "team-admin",
    "debugger": "debugger",
    "other-submitter": "other-submitter",
    "other-admin": "other-admin",
    "platform-admin": "platform-admin",
    "stranger": "mallory",
    "anonymous": "system:anonymous",
    "workbench": "system:serviceaccount:workbenches:workbench",
    "pod": "system:serviceaccount:{team}:mpi",
    "ci": "system:serviceaccount:ci:platform",
    "schedule": "system:serviceaccount:{team}-schedules:schedules",
    "student": "student",
    "professor": "professor",
    "notebooks": "system:serviceaccount:notebooks:controller",
    "argocd": "{argocd}",
    "kueue": "system:serviceaccount:kueue-system:kueue-controller-manager",
    "trainer": "system:serviceaccount:kubeflow-system:kubeflow-trainer-controller-manager",
    "garbage-collector": "system:serviceaccount:kube-system:generic-garbage-collector",
    "namespace-controller": "system:serviceaccount:kube-system:namespace-controller",
    "drainer": "admin",
}
"""Persona → user name."""
OF_CLUSTER = (
    "student", "professor", "notebooks", "argocd", "kueue", "trainer", "garbage-collector", "namespace-controller",
    "drainer",
)  # fmt: skip
"""Personas whose roles are not in the release."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A platform of the attacks.

    Attributes:
        name: `kubernetes` or `openshift`.
        names: values of the placeholders in the corpus, such as `team`.
        tree: the release.
    """

    name: str
    platform: Platform
    names: dict[str, Any]
    tree: tuple[Manifest, ...]


@cache
def scene(name: str) -> Scene:
    """Return a platform of the attacks, rendered."""
    row = PLATFORMS[name]
    body = merged(yaml.safe_load(EXAMPLES[row["example"]].read_text()), row["changes"])
    platform = Platform.model_validate(body)
    assert platform.gitops
    account = platform.gitops.account_on(platform.cluster).partition(":")[2].replace("/", ":")
    names = {**row["names"], "platform": platform.platform, "argocd": f"system:serviceaccount:{account}"}
    tree = tuple(pipeline.render(platform, App(platform)))
    request = JobRequest(names["runtime"], names["team"], image=names["image"])
    names["copy"] = new_job(Catalogue(tree), request).others[0]
    names["copied"] = names["copy"]["metadata"]["name"]
    return Scene(name, platform, names, tree)


def merged(one: Any, other: Any) -> Any:
    """Merge a change into a value. A null removes a key; items of lists are merged by `name`."""
    if isinstance(one, dict) and isinstance(other, dict):
        both = {key: merged(one.get(key), value) for key, value in other.items()}
        return {key: value for key, value in {**one, **both}.items() if value is not None}
    if _is_named(one) and _is_named(other):
        changes = {item["name"]: item for item in other}
        kept = [merged(item, changes.pop(item["name"], {})) for item in one]
        return [*kept, *changes.values()]
    return other


def _is_named(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) and "name" in item for item in value)
