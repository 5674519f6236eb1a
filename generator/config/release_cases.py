"""The policy cases that mpigen runs against the admission policies of every release: at least one per rule."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from generator.config.policy_cases import load_cases
from generator.documents.load import load
from generator.documents.scalars import int64
from generator.facts.names import MANAGED_BY, OWNER, PARAMETER, PART_OF, PRIORITY_CLASS, QUEUE_NAME, TENANT_LABEL
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping
from generator.upstream.kubernetes.admission_policies.cases import Case

_FILE = "release_cases.yaml"
_USER = "mpigen-case"
_WORDS = (
    ("REGISTRY", "registries", "case.invalid/"),
    ("DEVICE", "devices-per-host", ""),
    ("PLACE", "residency", ""),
    ("COST", "cost-labels", ""),
    ("CLASS", "storage-classes", "case"),
)
"""Rows of (placeholder, parameter of the namespace, default).

The first entry of the parameter replaces the placeholder: `nvidia.com/gpu=4,…` replaces DEVICE by `nvidia.com/gpu`.
"""
_VARIABLE = "VARIABLE"
"""Placeholder for the first environment variable by which a runtime binds its ranks to a fabric."""
_VOLUME = "VOLUME"
"""Placeholder for the first volume of a runtime."""
_COPIED = {"COPIED": "ClusterTrainingRuntime", "OFTEAM": "TrainingRuntime"}
"""Placeholder for the first runtime of which the team may make copies → the kind of the runtime."""


def own_cases(manifests: Iterable[Manifest]) -> list[Case]:
    """Return the policy cases of every release among the manifests.

    A case runs in the first tenant namespace that has the parameter (a label or an annotation) which the case needs,
    and that does not relax the rule of the case.
    """
    manifests = list(manifests)
    ours = [manifest for manifest in manifests if manifest.kind == "ValidatingAdmissionPolicy" and _platform(manifest)]
    text = files("generator.config").joinpath(_FILE).read_bytes()
    (document,) = (cases_of_release.data for cases_of_release in load(text) if isinstance(cases_of_release.data, dict))
    cases_of_release = []
    for platform in sorted({_platform(manifest) for manifest in ours}):
        homes = [manifest for manifest in manifests if manifest.kind == "Namespace" and _is_home(manifest, platform)]
        policies = {manifest.name for manifest in ours if _platform(manifest) == platform}
        for home in homes:
            cases = list(_for(home, homes, document["cases"], platform, policies))
            written = {**document, "bases": _bases(document["bases"], home, platform), "cases": cases}
            if cases:
                cases_of_release += load_cases(Path(_FILE), json.dumps({**written, "namespace": home.name}).encode())
    return cases_of_release


def _platform(policy: Manifest) -> str:
    """Return the platform of a generated policy; '' for other policies."""
    labels = mapping(policy.body, "metadata", "labels")
    return str(labels.get(PART_OF, "")) if labels.items() >= MANAGED_BY.items() else ""


def _is_home(namespace: Manifest, platform: str) -> bool:
    labels = mapping(namespace.body, "metadata", "labels")
    return labels.get(PART_OF) == platform and TENANT_LABEL in labels


def _for(
    home: Manifest, homes: list[Manifest], cases: Iterable[Mapping[str, Any]], platform: str, policies: set[str]
) -> Iterator[Body]:
    """Yield the cases for which `home` is the first namespace with the needed parameter and without a relaxation.

    Cases of a rule that the release lacks are left out.
    """
    for case in cases:
        needed = case.get("needs", "queues")
        expected = case["expect"]
        names = expected["rejected"] if isinstance(expected, dict) else []
        rules = [names] if isinstance(names, str) else names
        rule = rules[0] if rules else ""
        first = next(
            (
                namespace
                for namespace in homes
                if _has(namespace, needed) and not _parameter(namespace, f"relaxed-{rule}")
            ),
            None,
        )
        active = [name for name in rules if not _parameter(home, f"relaxed-{name}")]
        rejecting = [f"{platform}-{name}" for name in active if f"{platform}-{name}" in policies]
        if first is home and (not rule or f"{platform}-{rule}" in rejecting):
            rest = {key: value for key, value in case.items() if key != "needs"}
            yield {**_filled(rest, home), **({"expect": {"rejected": rejecting}} if rejecting else {})}


def _has(home: Manifest, needed: str) -> bool:
    """Return True if a Namespace has a parameter, `NAME`, or a parameter with this value, `NAME=VALUE`."""
    name, _, value = needed.partition("=")
    return _parameter(home, name) == value if value else bool(_parameter(home, name))


def _parameter(home: Manifest, parameter: str) -> str:
    """Return the annotation of the Namespace for a parameter, else its label; '' if it has neither."""
    metadata, key = mapping(home.body, "metadata"), f"{PARAMETER}{parameter}"
    return str({**mapping(metadata, "labels"), **mapping(metadata, "annotations")}.get(key, ""))


def _filled(case: Body, home: Manifest) -> Body:
    """Replace the placeholders of a case by parameters of the namespace, or by the defaults in `_WORDS`."""
    text = json.dumps(case)
    for word, parameter, usual in _WORDS:
        text = text.replace(word, _parameter(home, parameter).partition(",")[0].partition("=")[0] or usual)
    copied = [entry.partition("=")[0].partition("/") for entry in _parameter(home, "copies").split(",") if entry]
    for word, kind in _COPIED.items():
        text = text.replace(word, next((name for listed, _, name in copied if listed == kind), "case"))
    for word, parameter in ((_VARIABLE, "fabric-variables"), (_VOLUME, "volumes")):
        text = text.replace(word, _parameter(home, parameter).partition(",")[0].partition("=")[2])
    filled: Body = json.loads(text)
    return filled


def _bases(bases: Mapping[str, Body], home: Manifest, platform: str) -> Body:
    """Return the base objects of the test cases, and five TrainJobs for the namespace `home`.

    Bases with `metadata.labels` get the labels of generated objects in place of their own labels.
    """
    labels = {**MANAGED_BY, PART_OF: platform}
    marked = {
        name: {**body, "metadata": {**body["metadata"], "labels": labels}}
        if "labels" in body.get("metadata", {})
        else body
        for name, body in bases.items()
    }
    if costs := _cost_patches(home, *_runtime(home, "runtimes")):
        patches = marked["patched"]["set"]["spec.runtimePatches"]
        marked["patched"] = {**marked["patched"], "set": {"spec.runtimePatches": [*patches, *costs]}}
    jobs = {
        "job": _job(home, "runtimes"),
        "counted": _counted_job(home),
        "wired": _job(home, "fabrics"),
        "led": _job(home, "fabric-variables"),
        "mounted": _job(home, "volumes"),
    }
    return {**_filled(marked, home), **jobs}


def _counted_job(home: Manifest) -> Body:
    """Return a TrainJob that requests every resource of its runtime, and of a limited device the allowed number.

    The runtime has no device claims, because `resourcesPerNode` would drop them.
    """
    rows = [entry.split("=") for entry in _parameter(home, "resources").split(",") if entry]
    claimed = {entry.partition("=")[0] for entry in _parameter(home, "fabrics").split(",") if entry.endswith("=claim")}
    limits = dict(entry.split("=") for entry in _parameter(home, "devices-per-host").split(",") if entry)
    free = [row for row in rows if row[0] not in claimed]
    runtime = next((row[0] for row in sorted(free, key=lambda row: row[1] not in limits)), "")
    amounts = {row[1]: limits.get(row[1], row[2]) for row in rows if row[0] == runtime}
    job = _job(home, "resources")
    kind, _, name = runtime.partition("/")
    job["spec"]["runtimeRef"] |= {"kind": kind, "name": name} if runtime else {}
    if costs := _cost_patches(home, kind, name):
        job["spec"]["runtimePatches"] = costs
    return {**job, "spec": {**job["spec"], "trainer": {"resourcesPerNode": {"limits": amounts, "requests": amounts}}}}


def _runtime(home: Manifest, listed: str) -> tuple[str, str]:
    """Return the kind and the name of the first runtime that a parameter lists; empty strings if it lists none."""
    kind, _, name = _parameter(home, listed).partition(",")[0].partition("=")[0].partition("/")
    return kind, name


def _cost_patches(home: Manifest, kind: str, name: str) -> list[Body]:
    """Return the patch of a runtime with the cost labels that the rule `cost-labels` requires; empty without labels."""
    labels = {key: value for key, _, value in _entries(home, "cost-labels")}
    jobs = [job for runtime, _, job in _entries(home, "pod-templates") if runtime == f"{kind}/{name}"]
    if not labels or not jobs:
        return []
    pods = {"template": {"spec": {"template": {"metadata": {"labels": labels}}}}}
    patched = [{"name": job, **pods} for job in jobs]
    template = {"spec": {"replicatedJobs": patched}}
    return [{"manager": "mpigen.dev/case", "trainingRuntimeSpec": {"template": template}}]


def _entries(home: Manifest, parameter: str) -> list[tuple[str, str, str]]:
    """Return the entries `KEY=VALUE` of a parameter."""
    return [entry.partition("=") for entry in _parameter(home, parameter).split(",") if entry]


def _job(home: Manifest, listed: str) -> Body:
    """Return a TrainJob that the namespace allows, with the first runtime that a parameter lists.

    If the parameter lists none, the TrainJob names the ClusterTrainingRuntime `none`, which does not exist.
    """
    kind, name = _runtime(home, listed)
    costs = _cost_patches(home, kind, name)
    required = (label.partition("=") for label in _parameter(home, "labels").split(",") if label)
    labels = {key: value or "case" for key, _, value in required}
    if _parameter(home, "priority-required"):
        labels[PRIORITY_CLASS] = _parameter(home, "priorities").partition(",")[0]
    end = _parameter(home, "seconds-per-job")
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {
            "name": "case",
            "namespace": home.name,
            "labels": {QUEUE_NAME: _parameter(home, "queues").partition(",")[0], **labels},
            "annotations": {OWNER: _USER},
        },
        "spec": {
            "runtimeRef": {
                "apiGroup": "trainer.kubeflow.org",
                "kind": kind or "ClusterTrainingRuntime",
                "name": name or "none",
            },
            **({"activeDeadlineSeconds": int64(end)} if int64(end) is not None else {}),
            "trainer": {},
            **({"runtimePatches": costs} if costs else {}),
        },
    }
