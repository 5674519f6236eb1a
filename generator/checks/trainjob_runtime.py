"""trainjob/*, where it takes the runtime too: what becomes of the runtime's resources under `resourcesPerNode`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.checks.mpi_runtime import JOB_SET, NODE, STEP, TRAINER, mapping, mappings
from generator.documents.load import Path
from generator.documents.syntax import shown
from generator.manifests import Body, Manifest

_GROUP = "trainer.kubeflow.org"
_FIELD: Path = ("spec", "trainer", "resourcesPerNode")
_KEYS = ("limits", "requests")


@dataclass(frozen=True, slots=True)
class _Pair:
    """A TrainJob that names resources, and the runtime that it is on."""

    job: Manifest
    runtime: Manifest

    @property
    def said(self) -> Mapping[str, Any]:
        """`resourcesPerNode`."""
        return mapping(self.job.body, *map(str, _FIELD))

    @property
    def left_out(self) -> Mapping[str, object]:
        """What the runtime asks for and the TrainJob does not name, in the order of the runtime: resource → amount."""
        named = {name for key in _KEYS for name in mapping(self.said, key)}
        amounts: dict[str, object] = {}
        for container in _containers(self.runtime.body):
            resources = mapping(container, "resources")
            amounts |= {**mapping(resources, "limits"), **mapping(resources, "requests")}
        return {name: amount for name, amount in amounts.items() if name not in named}


def lost_devices(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Trainer 2.2 puts the resources of a TrainJob in the place of all of the runtime's.

    trainer v2.2.0 pkg/runtime/framework/plugins/jobset/builder.go Trainer (since v2.3.0 merged by resource instead:
    pkg/runtime/core/trainingruntime.go newRuntimeInfo)
    """
    for pair in _replaced(gathered):
        if devices := _devices(pair.left_out):
            yield pair.job, _breach("trainjob/lost-devices", pair, devices, "its pods run without them", Severity.ERROR)


def lost_resources(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """The same, of a TrainJob that keeps its devices: pods without memory are the first that a node evicts."""
    for pair in _replaced(gathered):
        if pair.left_out and not _devices(pair.left_out):
            why = "its pods ask for none, and Kueue counts none"
            yield pair.job, _breach("trainjob/lost-resources", pair, pair.left_out, why, Severity.WARNING)


def _replaced(gathered: Gathered) -> Iterator[_Pair]:
    """The TrainJobs whose resources take the place of those of the runtime."""
    if gathered.targets.get("trainer") == "2.2":
        for pair in _pairs(gathered):
            if any(isinstance(pair.said.get(key), dict) for key in _KEYS):
                yield pair


def _pairs(gathered: Gathered) -> Iterator[_Pair]:
    for job in gathered.of(_GROUP, "TrainJob"):
        ref = {"kind": "ClusterTrainingRuntime", "apiGroup": _GROUP, **mapping(job.body, "spec", "runtimeRef")}
        kind, name = ref["kind"], ref.get("name")
        if isinstance(kind, str) and isinstance(name, str) and ref["apiGroup"] == _GROUP:
            runtime = gathered.one(_GROUP, kind, name, job.namespace if kind == "TrainingRuntime" else "")
            if runtime:
                yield _Pair(job, runtime)


def _containers(runtime: Body) -> Iterator[Mapping[str, Any]]:
    """Those that get the resources of a TrainJob: called `node`, of the trainer's job, and of the hosts of MPI.

    The hosts only if the launcher is one of them (`runLauncherAsNode`).
    """
    is_launcher_a_node = mapping(runtime, "spec", "mlPolicy", "mpi").get("runLauncherAsNode") is True
    for _, job in mappings(mapping(runtime, *map(str, JOB_SET)).get("replicatedJobs")):
        is_trainer = mapping(job, "template", "metadata", "labels").get(STEP) == TRAINER
        if is_trainer or (is_launcher_a_node and job.get("name") == NODE):
            for _, container in mappings(mapping(job, "template", "spec", "template", "spec").get("containers")):
                if container.get("name") == NODE:
                    yield container


def _devices(amounts: Mapping[str, object]) -> Mapping[str, object]:
    """Those that a device plugin offers, whose names have a domain."""
    return {name: amount for name, amount in amounts.items() if "/" in name}


def _breach(check: str, pair: _Pair, lost: Mapping[str, object], why: str, severity: Severity) -> Breach:
    names = " and ".join(shown(name) for name in lost)
    amounts = ", ".join(f"{name}: {amount}" for name, amount in pair.left_out.items())
    return Breach(
        _FIELD,
        check,
        f"leaves out {names}, which {pair.runtime.resource} asks for",
        f"Trainer 2.2 puts it in the place of all resources of the runtime: {why}",
        f"name them too: `limits: {{{amounts}}}`",
        severity,
        at_key=True,
    )
