"""The page of the states of jobs, and of conditions and reasons, from generator/facts/phases.yaml."""

from __future__ import annotations

from collections.abc import Iterator

from generator.facts.phases import Reason, State, reasons, states
from tests.upstream.citations import find_citations

_HEAD = """\
# States of jobs

This page is for users whose job does not run. It has the states that [`mpigen job status`](../tasks/watch-a-job.md)
reports, and the conditions and reasons of Kueue, Trainer, JobSet and Kubernetes. The source of this page is
`generator/facts/phases.yaml`.

`kubectl describe` prints the conditions of an object. A condition has a type, a status and a reason. The
texts follow Trainer 2.3, JobSet 0.12, Kueue 0.19 and Kubernetes 1.37.

## States
"""
_OBJECTS = {
    "TrainJob": "Conditions of a TrainJob, which Trainer sets. It copies Complete and Failed from the JobSet.",
    "JobSet": "Conditions of a JobSet, which has the name of the TrainJob.",
    "Workload": "Conditions of a Workload of Kueue, whose name begins with `trainjob-` and the name of the TrainJob.",
    "AdmissionCheck": "States in `status.admissionChecks` of a Workload.",
    "LocalQueue": "Conditions of a LocalQueue of Kueue.",
    "ClusterQueue": "Conditions of a ClusterQueue of Kueue.",
    "Job": "Conditions of a Job, which JobSet creates for each replicated job.",
    "Pod": "Conditions and phases of a pod.",
    "Container": "States of a container in `status.containerStatuses` of a pod.",
    "Event": "Reasons of warnings that `kubectl get events` prints.",
}


def phase_page() -> str:
    """Return the whole page."""
    lines = [_HEAD, *map(_state, states().values())]
    for kind, text in _OBJECTS.items():
        rows = [row for row in reasons() if row.object == kind]
        lines += [f"\n## {kind}\n", text]
        for title in dict.fromkeys(map(_title, rows)):
            lines += [f"\n### {title}\n", *(_reason(row) for row in rows if _title(row) == title)]
    return "\n".join(lines) + "\n"


def _title(row: Reason) -> str:
    if row.object in ("AdmissionCheck", "Event"):
        return f"{row.object}: {row.condition}"
    status = f"={row.status}" if row.status else ""
    return f"{row.object}: {row.condition}{status}"


def _state(state: State) -> str:
    code = " The exit code is 1." if state.failed else ""
    return f"- `{state.state}`: {state.meaning} {state.action}{code}"


def _reason(row: Reason) -> str:
    name = "Any reason" if row.reason == "*" else f"`{row.reason or row.status}`"
    message = f" with `{row.message.strip()}` in the message" if row.message else ""
    return f"- {name}{message}: {row.meaning} {row.action} ({', '.join(_sources(row))})"


def _sources(row: Reason) -> Iterator[str]:
    for citation in find_citations(row.source, "generator/facts/phases.yaml"):
        module = citation.module.removesuffix("/v2").rpartition("/")[2]
        yield f"[{module} {citation.version}]({citation.url})"
