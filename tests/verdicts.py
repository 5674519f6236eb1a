"""TrainJobs with the verdicts of a real control plane, and the verdicts of `mpigen check-job` on them."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import yaml

from generator import App, Platform
from generator.checks.submission import Destination, Submission
from generator.manifests import Body, Manifest
from generator.pipeline import JobVerdicts, check_jobs, render
from generator.schemas.catalog import Catalog
from generator.upstream.kubernetes.access import Requester, parse_requester
from tests.cluster.nodes import nodes
from tests.conftest import ROOT

FIXTURE = ROOT / "tests/cluster/fixtures/check-job.yaml"
ANSWERS = FIXTURE.with_name("check-job-answers.yaml")
_TRAINER = "trainer.kubeflow.org/v1alpha1"
_KUEUE = "kueue.x-k8s.io/v1beta2"
_PROJECT = {"example.com/project": "a"}


class Answer(NamedTuple):
    """The answer to a TrainJob: rejected, admitted, waits, faulty, never or unknown, and the reason."""

    verdict: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """A submitted TrainJob.

    Attributes:
        name: the name of the case.
        user: the user and its groups; empty for a cluster admin.
        body: the TrainJob.
        verdict: the expected verdict of the control plane.
        own_verdict: the expected verdict of mpigen; `unknown` where it cannot decide.
        causes: texts in the reasons of the server and of mpigen.
    """

    name: str
    user: tuple[str, ...]
    body: Body
    verdict: str
    own_verdict: str
    causes: tuple[str, str]

    @property
    def requester(self) -> Requester | None:
        """The user for RBAC and policies."""
        if not self.user:
            return None
        name = self.user[0]
        account = name.removeprefix("system:serviceaccount:").replace(":", "/")
        return parse_requester(f"serviceaccount:{account}" if "/" in account else f"user:{name}", self.user[1:])


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The platform, the other objects of the cluster, and the TrainJobs.

    Attributes:
        platform: the platform.
        release: the rendered objects of the platform.
        objects: the other objects of the cluster.
        groups: TrainJobs that share quota, in their order.
    """

    platform: Platform
    release: Sequence[Manifest]
    objects: Sequence[Body]
    groups: Sequence[tuple[Case, ...]]

    @property
    def world(self) -> list[Manifest]:
        """The objects of the cluster, with its Nodes."""
        return [*self.release, *(Manifest(body, "objects") for body in (*self.objects, *nodes(self.platform)))]


@cache
def read_verdicts() -> Verdicts:
    """Return the contents of the fixture."""
    data = yaml.safe_load(FIXTURE.read_text("utf-8"))
    platform = Platform.model_validate(data["platform"])
    lists = [(name, entry if isinstance(entry, list) else [entry]) for name, entry in data["jobs"].items()]
    groups = [tuple(_case(row.get("name", name), row, data["namespaces"]) for row in rows) for name, rows in lists]
    return Verdicts(platform, render(platform, App(platform)), [*_objects(data)], groups)


def _objects(data: Mapping[str, Any]) -> Iterator[Body]:
    for name, spec in data["flavors"].items():
        yield _object(_KUEUE, "ResourceFlavor", name, spec)
    for namespace, queues in data["namespaces"].items():
        body = _object("v1", "Namespace", namespace)
        yield {**body, "metadata": {**body["metadata"], "labels": data.get("labels", {}).get(namespace, {})}}
        for name, spec in data["runtimes"].items():
            yield _object(_TRAINER, "TrainingRuntime", name, spec, namespace)
        for name, queue in queues.items():
            yield from _queue(name, queue, namespace)
    yield from data["objects"]


def _queue(name: str, queue: Mapping[str, Any], namespace: str) -> Iterator[Body]:
    cluster_queue = f"{namespace}-{name}"
    if flavors := queue.get("flavors"):
        resources = [*next(iter(flavors.values()))]
        group = {
            "coveredResources": resources,
            "flavors": [
                {"name": flavor, "resources": [{"name": key, "nominalQuota": value} for key, value in quota.items()]}
                for flavor, quota in flavors.items()
            ],
        }
        spec = {"namespaceSelector": {}, "resourceGroups": [group], **queue.get("clusterQueue", {})}
        yield _object(
            _KUEUE, "ClusterQueue", cluster_queue, {key: value for key, value in spec.items() if value is not None}
        )
    local = {key: queue[key] for key in ("stopPolicy",) if key in queue}
    target = f"{namespace}-{queue['of']}" if "of" in queue else cluster_queue
    yield _object(_KUEUE, "LocalQueue", name, {"clusterQueue": target, **local}, namespace)


def _object(api_version: str, kind: str, name: str, spec: Body | None = None, namespace: str = "") -> Body:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    body = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    return body if spec is None else {**body, "spec": copy.deepcopy(spec)}


def _case(name: str, row: Mapping[str, Any], namespaces: Container[str]) -> Case:
    namespace = row.get("in", "verdicts-a")
    is_of_platform = namespace not in namespaces
    labels = {**(_PROJECT if is_of_platform else {}), **row.get("labels", {})}
    metadata = {
        "name": row.get("rename", name),
        "namespace": namespace,
        "labels": {key: value for key, value in labels.items() if value is not None},
        "annotations": row.get("annotations", {}),
    }
    runtime = {"name": row.get("runtime", "mpi"), **({} if is_of_platform else {"kind": "TrainingRuntime"})}
    trainer = {"numNodes": 1, "command": ["mpirun", "hostname"], **row.get("trainer", {})}
    spec = {"runtimeRef": runtime, "trainer": {key: value for key, value in trainer.items() if value is not None}}
    causes = row.get("cause", "")
    return Case(
        name,
        tuple(row.get("as", ())),
        _object(_TRAINER, "TrainJob", name, {**spec, **_patches(row), **row.get("spec", {})}) | {"metadata": metadata},
        row.get("verdict", "admitted"),
        row.get("ours", row.get("verdict", "admitted")),
        (causes, causes) if isinstance(causes, str) else tuple(causes),
    )


def _patches(row: Mapping[str, Any]) -> Body:
    metadata = {key: row[f"patch-{key}"] for key in ("labels", "annotations") if f"patch-{key}" in row}
    pod = {**({"metadata": metadata} if metadata else {}), **({"spec": row["patch"]} if "patch" in row else {})}
    if not pod:
        return {}
    job = {"name": row.get("role", "node"), "template": {"spec": {"template": pod}}}
    template = {"spec": {"replicatedJobs": [job]}}
    manager = row.get("manager", "tests.mpigen.dev/me")
    return {"runtimePatches": [{"manager": manager, "trainingRuntimeSpec": {"template": template}}]}


def check(group: Sequence[Case], verdicts: Verdicts) -> Mapping[str, Answer]:
    """Return the answers of mpigen for TrainJobs that one user submits in their order."""
    destination = Destination(verdicts.world, Catalog.bundled().targets, group[0].requester, is_complete=True)
    result = check_jobs({case.name: json.dumps(case.body).encode() for case in group}, destination)
    return {case.name: _answer(result, submission) for case, submission in zip(group, result.submissions, strict=True)}


def _answer(result: JobVerdicts, submission: Submission) -> Answer:
    reason = submission.outcome.reason if submission.outcome else ""
    verdict = result.verdict(submission, result.findings)
    return Answer(verdict, "; ".join([*(breach.message for _, breach in submission.located), reason]))


def disagreements(group: Sequence[Case], answers: Mapping[str, Answer], verdicts: Verdicts) -> Iterator[str]:
    """Yield the TrainJobs on which mpigen and the control plane disagree, or for which one names another cause."""
    ours = check(group, verdicts)
    for case in group:
        server, own = answers[case.name], ours[case.name]
        if (server.verdict, own.verdict) != (case.verdict, case.own_verdict):
            yield f"{case.name}: expected {case.verdict}, server {server}, mpigen {own}"
        elif not (case.causes[0] in server.reason and case.causes[1] in own.reason):
            yield f"{case.name}: expected the causes {case.causes}, server {server}, mpigen {own}"
        elif (
            denied := _DENIED.search(server.reason)
        ) and f"`{denied[1]}` rejects the TrainJob: {denied[2]}" not in own.reason:
            yield f"{case.name}: the server names the policy {denied[1]}, mpigen {own}"


_DENIED = re.compile(r"ValidatingAdmissionPolicy '([^']*)' with binding '[^']*' denied request: (.*)", re.DOTALL)


def record(answers: Mapping[str, Answer]) -> None:
    """Write the answers of the control plane."""
    rows = {name: [answer.verdict, _stable(answer.reason)] for name, answer in sorted(answers.items())}
    ANSWERS.write_text(yaml.safe_dump(rows, width=150, sort_keys=False, default_flow_style=None), "utf-8")


def _stable(reason: str) -> str:
    """Return a reason without repetitions, times, and names that the API server generates."""
    reason = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z|0x[0-9a-f]+", "", reason)
    return "; ".join(dict.fromkeys(re.sub(r'([Pp]ods? "[^"]*)-\w{5}"', r'\1"', reason).split("; ")))


@cache
def read_answers() -> Mapping[str, Answer]:
    """Return the recorded answers of the control plane."""
    return {name: Answer(*row) for name, row in yaml.safe_load(ANSWERS.read_text("utf-8")).items()}
