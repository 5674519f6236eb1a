"""trainjob/missing-runtime: is there the runtime that a TrainJob names?

trainer v2.3.0 pkg/runtime/core/{trainingruntime,clustertrainingruntime}.go ValidateObjects, which the webhook calls
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.checks.queued import RUNTIMES, TRAINER
from generator.checks.trainjob_runtime import reference_of
from generator.manifests import Manifest


def missing_runtime(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Judged where the files hold a runtime of that kind, or one of another kind by that name."""
    for job in gathered.of(TRAINER, "TrainJob"):
        reference = reference_of(job)
        known = {kind: _names(kind, job.namespace, gathered) for kind in RUNTIMES}
        if reference and reference.kind in known and reference.name not in known[reference.kind]:
            fix = _fix(reference.kind, reference.name, known)
            if fix or any(gathered.names(TRAINER, reference.kind).values()):
                where = f" in `{job.namespace}`" if reference.kind == "TrainingRuntime" else ""
                breach = Breach(
                    ("spec", "runtimeRef", "name"),
                    "trainjob/missing-runtime",
                    f"no file holds the {reference.kind} `{reference.name}`{where}",
                    "the API server refuses the TrainJob until it exists",
                    fix or "add it",
                    Severity.WARNING,
                    value=reference.name,
                )
                yield job, breach


def _names(kind: str, namespace: str, gathered: Gathered) -> AbstractSet[str]:
    """Those that a TrainJob can name; an object that says no namespace gets its TrainJob's."""
    found, homes = gathered.names(TRAINER, kind), {"", namespace if kind == "TrainingRuntime" else ""}
    return {name for home in homes for name in found.get(home, ())}


def _fix(kind: str, name: str, known: dict[str, AbstractSet[str]]) -> str:
    """What to write instead; empty where nothing is near."""
    (other,) = set(RUNTIMES) - {kind}
    if name in known[other]:
        return f"there is a {other} of this name: write `kind: {other}`"
    close = difflib.get_close_matches(name, known[kind], n=1)
    if close:
        return f"add it, or name `{close[0]}`, if that is meant"
    return f"add it, or name one of these: {', '.join(sorted(known[kind])[:5])}" if known[kind] else ""
