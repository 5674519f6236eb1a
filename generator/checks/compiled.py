"""The rules of JobSets and their pods, applied to the JobSet that Trainer creates for a TrainJob.

A TrainJob and its runtime can both be valid, and their JobSet or its pods are not. So each rule judges the JobSet as if
it were in a file, and the breach is at the field of the TrainJob that sets the wrong value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

from generator.checks.alone import judge_alone
from generator.checks.finding import Breach, Located
from generator.checks.registry import ERROR, Suite
from generator.documents.load import Path
from generator.documents.messages import format_path
from generator.manifests import Manifest
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from generator.simulate.compile import Compiled

COMPILED = "compiled"
"""The name of this stage, which `judge_together` can leave out like a rule."""
RUNTIME: Path = ("spec", "runtimeRef", "name")
_FAMILIES = ("pod", "schema", "workload")
"""The families with the rules of the API server and of JobSet."""
_DROPPED = "schema/unknown-field"
"""Trainer has read the JobSet into the types of Go, so it writes no unknown field."""
_SUITE = Suite(of_jobs=True)


def judge_compiled(compiled: Compiled, targets: Mapping[str, str], *, with_runtime: bool = False) -> Iterator[Located]:
    """Yield the reasons why JobSet or the API server rejects the JobSet of a TrainJob, its Jobs or their pods.

    Args:
        compiled: the TrainJob and its objects.
        targets: component → minor version.
        with_runtime: True to report the mistakes of the runtime too, at `runtimeRef` of the TrainJob. The rules report
            them at a runtime in a file.
    """
    job_set, found = Manifest(compiled.job_set, compiled.job.file), set[tuple[Path, str]]()
    for _, breach in judge_alone(job_set, _engine(frozenset(targets.items())), _SUITE):
        if breach.severity is not ERROR or breach.check.partition("/")[0] not in _FAMILIES or breach.check == _DROPPED:
            continue
        origin = compiled.origin("JobSet", 0, breach.path)
        is_own = origin is not None and origin.manifest.kind == compiled.job.kind
        if not (is_own or with_runtime):
            continue
        placed = _placed(breach, origin.path) if origin and is_own else _of_runtime(breach)
        if (key := (placed.path, placed.message)) not in found:  # the pods of the launcher and of the hosts are alike
            found.add(key)
            yield compiled.job, placed


def _placed(breach: Breach, path: Path) -> Breach:
    return replace(breach, path=path, manifest=None)


def _of_runtime(breach: Breach) -> Breach:
    fix = f"use another runtime, or correct `{format_path(breach.path)}` of its JobSet: {breach.fix}"
    return replace(breach, path=RUNTIME, fix=fix, at_key=False, value=None, manifest=None)


@cache
def _engine(targets: frozenset[tuple[str, str]]) -> Engine:
    return Engine(Catalog.bundled(dict(targets)))
