"""Compilation: the objects that Trainer, JobSet and Kubernetes create for TrainJobs, or the reasons against it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from generator.checks.compiled import judge_compiled
from generator.documents.files import read_file
from generator.documents.locate import locate
from generator.errors import NotModelledError, Problem, SimulationError
from generator.upstream.compile import Fault, Origin, compile_job, find_faults, find_runtime, read_priorities

if TYPE_CHECKING:
    from collections.abc import Mapping

    from generator.manifests import Manifest
    from generator.upstream.compile import Compiled


def compile_all(jobs: Sequence[Manifest], world: Sequence[Manifest], targets: Mapping[str, str]) -> list[Compiled]:
    """Return the objects of TrainJobs.

    Args:
        jobs: the TrainJobs.
        world: the objects of the cluster, with the runtimes and PriorityClasses.
        targets: component → minor version; empty for the newest.

    Raises:
        SimulationError: a runtime is missing, or JobSet or the API server rejects an object.
        NotModelledError: mpigen cannot compute the objects exactly.
    """
    priorities, faults = read_priorities(world), list[Fault]()
    compiled: list[Compiled] = []
    for job in jobs:
        runtime = find_runtime(job, world)
        reasons = [runtime] if isinstance(runtime, Fault) else list(find_faults(job, runtime, targets))
        faults += reasons
        if not isinstance(runtime, Fault) and not reasons:
            compiled.append(compile_job(job, runtime, targets, priorities))
            rejections = judge_compiled(compiled[-1], targets, is_verdict=True)
            faults += (Fault(Origin(job, breach.path), breach.message, breach.fix) for _, breach in rejections)
    if faults:
        error = NotModelledError if all(fault.is_unknown for fault in faults) else SimulationError
        raise error(tuple(dict.fromkeys(map(_problem, faults))))
    return compiled


def _problem(fault: Fault) -> Problem:
    """Return the problem to report about a fault, with its line if the manifest is in a file."""
    manifest, path = fault.origin
    if not Path(manifest.file).is_file():
        return fault.problem
    line, column = locate(read_file(Path(manifest.file)), manifest.index, (*manifest.inside, *path))
    return replace(fault.problem, line=line, column=column)
