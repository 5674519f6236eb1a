"""runtime/*: mistakes in training runtimes of any framework, and upstream defects that affect these runtimes.

The ids of known defects, with the releases that have them, are in generator/facts/defects.yaml.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.facts.defects import known
from generator.facts.names import EXCLUSIVE_TOPOLOGY, PODSET_GROUP, STEP
from generator.manifests import Body
from generator.objects.fields import indexed_mappings, items, mapping, mappings, string
from generator.objects.pods import JOB_SET
from generator.objects.training import TrainingRuntime

_EXPIRY = "ttlSecondsAfterFinished"
_BY_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
_NODE_LABEL = "alpha.jobset.sigs.k8s.io/namespaced-job"


@check("runtime/failed-job-reruns", severity=ERROR, needs=TrainingRuntime)
def failed_job_reruns(runtime: TrainingRuntime) -> Iterator[Breach]:
    """Report a runtime whose failed TrainJobs Trainer runs again without quota.

    With `ttlSecondsAfterFinished` JobSet deletes a failed JobSet after that time. Trainer 2.2 and 2.3 then create the
    failed JobSet again, with all its restarts and without quota. Trainer does not create a completed JobSet again.
    [Upstream defects](../../reference/upstream-defects.md) lists the releases with the defect.

    Source: trainer v2.3.0 pkg/controller/trainjob_controller.go TrainJobReconciler.Reconcile
    """
    body = runtime.body
    job_set = mapping(body, *map(str, JOB_SET))
    if job_set.get(_EXPIRY) is not None:
        yield Breach(
            (*JOB_SET, _EXPIRY),
            f"`{_EXPIRY}` is {format_value(job_set[_EXPIRY])}",
            "Trainer runs a failed TrainJob again each time JobSet deletes its expired JobSet, without end. With "
            "Kueue, the pods start without quota, Kueue suspends the JobSet, and Trainer resumes it: this repeats "
            f"every few seconds ({known('trainer-failed-jobs-run-again').note})",
            f"remove `{_EXPIRY}`, and delete finished TrainJobs yourself",
            value=job_set[_EXPIRY],
        )


_CONTAINERS = {
    "trainer": "node",
    "dataset-initializer": "dataset-initializer",
    "model-initializer": "model-initializer",
}
"""Step of a TrainJob → the container that Trainer requires."""
_REJECTED = "Trainer rejects the runtime"


@check("runtime/step", severity=ERROR, needs=TrainingRuntime)
def step(runtime: TrainingRuntime) -> Iterator[Breach]:
    """Report a replicated job that does not fit its step of the TrainJob.

    The label `trainer.kubeflow.org/trainjob-ancestor-step` assigns a replicated job to a step: `trainer`,
    `dataset-initializer` or `model-initializer`. Such a replicated job must have one replica, and a container `node`
    or, for an initializer, a container with the name of the step. The webhook of Trainer rejects other runtimes.
    `mpi/replicas` and `mpi/container` report the trainer of an MPI runtime.

    Source: trainer v2.3.0 pkg/webhooks/trainingruntime_webhook.go validateReplicatedJobs
    """
    is_mpi = "mpi" in mapping(runtime.body, "spec", "mlPolicy")
    for number, item in indexed_mappings(mapping(runtime.body, *map(str, JOB_SET)).get("replicatedJobs")):
        path: Path = (*JOB_SET, "replicatedJobs", number)
        name = string(mapping(item, "template", "metadata", "labels").get(STEP))
        if name not in _CONTAINERS or (is_mpi and name == "trainer"):
            continue
        if (replicas := item.get("replicas", 1)) not in (1, None):
            message = f"the replicated job of the step `{name}` has {replicas} replicas"
            fix = "set `replicas: 1`. `numNodes` sets the number of nodes"
            yield Breach((*path, "replicas"), message, _REJECTED, fix, value=replicas)
        pod: Path = ("template", "spec", "template", "spec")
        names = [container.get("name") for container in mappings(mapping(item, *map(str, pod)).get("containers"))]
        if _CONTAINERS[name] not in names:
            message = f"no container of the step `{name}` has the name `{_CONTAINERS[name]}`"
            yield Breach((*path, *pod, "containers"), message, _REJECTED, f"name a container `{_CONTAINERS[name]}`")


_LONGEST_JOB_NAME = 20


@check("runtime/long-job-name", severity=ERROR, needs=TrainingRuntime, since="trainer 2.4")
def long_job_name(runtime: TrainingRuntime) -> Iterator[Breach]:
    """Report a replicated job whose name has more than 20 characters.

    Trainer 2.4 rejects the runtime. Trainer 2.4 is announced: the rule is known from its release notes, not from its
    code.

    Source: https://github.com/kubeflow/trainer/pull/4394
    """
    for number, item in indexed_mappings(mapping(runtime.body, *map(str, JOB_SET)).get("replicatedJobs")):
        name = string(item.get("name"))
        if len(name) > _LONGEST_JOB_NAME:
            message = f"the name `{name}` of the replicated job has {len(name)} characters"
            fix = f"write a name of at most {_LONGEST_JOB_NAME} characters"
            yield Breach((*JOB_SET, "replicatedJobs", number, "name"), message, _REJECTED, fix, value=name)


@check("runtime/grouped-placement", severity=WARNING, needs=TrainingRuntime)
def grouped_placement(runtime: TrainingRuntime) -> Iterator[Breach]:
    """Report pods of several replicated jobs in one podset group of Kueue.

    Pods with the same annotation `kueue.x-k8s.io/podset-group-name` form a podset group. If the group has pods of
    several replicated jobs, Kueue before 0.18.5 and Kueue 0.19.0 may place a launcher pod and a worker pod on a node
    that has room for only one of them.

    Source: kueue v0.18.3 pkg/cache/scheduler/tas_flavor_snapshot.go TASFlavorSnapshot.consumeWithLeadersGeneric; kueue
    v0.18.3 pkg/cache/scheduler/tas_flavor_snapshot.go findBestFitDomainBy
    """
    body = runtime.body
    named = list(_groups(body))
    members = Counter(name for _, name in named)
    for path, name in named:
        if members[name] > 1:
            defect = known("kueue-places-a-launcher-without-room")
            yield Breach(
                path,
                f"the podset group {format_value(name)} contains the pods of {members[name]} replicated jobs",
                "Kueue may place pods of different replicated jobs on a node that has room for only one of these pods "
                f"({defect.note})",
                f"update to {defect.update}, or remove the annotation `{PODSET_GROUP}` from all jobs of this runtime",
                value=name,
            )
            return


@check("runtime/exclusive-placement", severity=WARNING, needs=TrainingRuntime)
def exclusive_placement(runtime: TrainingRuntime) -> Iterator[Breach]:
    """Report exclusive placement by JobSet, which can block a Job forever.

    The annotation is `alpha.jobset.sigs.k8s.io/exclusive-topology`. After a node rejects the first pod of a Job, JobSet
    rejects all further pods of the Job, so the Job neither runs nor fails. Kueue's topology annotations do not have
    this defect. The check does not report jobs that also have the annotation
    `alpha.jobset.sigs.k8s.io/node-selector`: JobSet then selects nodes by the label
    `alpha.jobset.sigs.k8s.io/namespaced-job`.

    Source: jobset v0.12.0 pkg/webhooks/pod_webhook.go podWebhook.ValidateCreate; jobset v0.12.0
    pkg/webhooks/pod_webhook.go podWebhook.leaderPodForFollower; jobset v0.12.0 api/jobset/v1alpha2/jobset_types.go
    NodeSelectorStrategyKey
    """
    body = runtime.body
    of_job_set = ("spec", "template", "metadata", "annotations")
    jobs = indexed_mappings(mapping(body, *map(str, JOB_SET)).get("replicatedJobs"))
    of_jobs = [(*JOB_SET, "replicatedJobs", number, "template", "metadata", "annotations") for number, _ in jobs]
    places: list[Path] = [of_job_set, *of_jobs]
    written = [mapping(body, *of_job_set), *(mapping(job, "template", "metadata", "annotations") for _, job in jobs)]
    if _BY_SELECTOR in written[0]:
        return
    for path, values in zip(places, written, strict=True):
        if EXCLUSIVE_TOPOLOGY in values and _BY_SELECTOR not in values:
            yield Breach(
                (*path, EXCLUSIVE_TOPOLOGY),
                f"with the annotation `{EXCLUSIVE_TOPOLOGY}`, "
                f"JobSet places each Job alone in one `{values[EXCLUSIVE_TOPOLOGY]}`",
                "when a node rejects the first pod of a Job, JobSet rejects all further pods of the Job, so the Job "
                "neither runs nor fails, and `maxRestarts` never applies "
                f"({known('jobset-counts-failed-leaders').note})",
                f"use Kueue's topology annotations to place the jobs; or label the nodes of each Job with "
                f"`{_NODE_LABEL}`, and add the annotation `{_BY_SELECTOR}`",
                value=values[EXCLUSIVE_TOPOLOGY],
            )


def _groups(body: Body) -> Iterator[tuple[Path, str]]:
    """Yield (path of the annotation, name of the podset group) for the pods of each replicated job in a group."""
    for number, job in indexed_mappings(mapping(body, *map(str, JOB_SET)).get("replicatedJobs")):
        inside = ("template", "spec", "template", "metadata", "annotations")
        annotations: Mapping[str, Any] = mapping(job, *inside)
        if isinstance(name := annotations.get(PODSET_GROUP), str):
            yield (*JOB_SET, "replicatedJobs", number, *inside, PODSET_GROUP), name


_EXPRESSION = re.compile(r"\$(?:\$|\([^)]*\)|(?P<rest>.))", re.DOTALL)
"""The text that the kubelet reads at a `$`: an escaped `$`, a reference, or one byte of other text."""


@check("runtime/broken-value", severity=ERROR, needs=TrainingRuntime)
def broken_value(runtime: TrainingRuntime) -> Iterator[Breach]:
    """Report a value of a runtime that the kubelet breaks at a `$`.

    Kubernetes 1.34 before 1.34.4, and 1.35 before 1.35.1, cut a character outside of ASCII in two if it follows a `$`,
    as in `$€`, and never start the container. The check reads variables, commands and arguments.

    Source: kubernetes v1.34.2 third_party/forked/golang/expansion/expand.go tryReadVariableName; kubernetes v1.34.2
    pkg/kubelet/kubelet_pods.go Kubelet.makeEnvironmentVariables; kubernetes v1.34.2 pkg/kubelet/container/helpers.go
    ExpandContainerCommandAndArgs
    """
    body = runtime.body
    for number, job in indexed_mappings(mapping(body, *map(str, JOB_SET)).get("replicatedJobs")):
        inside = ("template", "spec", "template", "spec")
        for kind in ("initContainers", "containers"):
            for place, container in indexed_mappings(mapping(job, *inside).get(kind)):
                path = (*JOB_SET, "replicatedJobs", number, *inside, kind, place)
                yield from broken_values(container, path)


def broken_values(container: Mapping[str, Any], path: Path) -> Iterator[Breach]:
    """Yield the breaches of `command`, `args` and `env` values in which the kubelet breaks a character after a `$`."""
    env = [
        ((*path, "env", number, "value"), item.get("value")) for number, item in indexed_mappings(container.get("env"))
    ]
    words = [
        ((*path, field, number), item)
        for field in ("command", "args")
        for number, item in enumerate(items(container.get(field)))
    ]
    for place, value in (*env, *words):
        if isinstance(value, str) and (pair := _pair(value)):
            defect = known("kubernetes-breaks-characters-after-a-dollar")
            yield Breach(
                place,
                f"the value contains {format_value(pair)}",
                "the kubelet cuts the character after `$` in two, so the container never starts: "
                f"CreateContainerError, invalid UTF-8 ({defect.note})",
                f"write `$${pair[1:]}`, which the container sees as {format_value(pair)}, or update to {defect.update}",
                value=value,
            )


def _pair(value: str) -> str:
    """Return the first `$` with the character that the kubelet breaks; empty if the kubelet keeps the value."""
    for match in _EXPRESSION.finditer(value):
        if not (match["rest"] or "").isascii():
            return match[0]
    return ""
