"""The export of a namespace: its TrainJobs, and the objects that controllers create for each TrainJob."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from generator.errors import DocumentError, Problem
from generator.facts.names import JOB_LABEL
from generator.manifests import Body, Manifest, read
from generator.objects.conditions import conditions_of, created
from generator.objects.fields import integer, mapping, mappings, string, string_map
from generator.objects.training import GROUP, KUEUE

EXPORT = "kubectl get trainjobs,workloads,localqueues,jobsets,jobs,pods,events -n NAMESPACE -o yaml"
"""The command that exports the objects that `mpigen job status` reads."""

_POSITIONS = "PendingWorkloadsSummary"
_GROUPS = {
    "TrainJob": GROUP,
    "Workload": KUEUE,
    "JobSet": "jobset.x-k8s.io",
    "Job": "batch",
    "Pod": "",
    "LocalQueue": KUEUE,
    "ClusterQueue": KUEUE,
}
_EVENT_GROUPS = ("", "events.k8s.io")
_SECONDS = len("2026-11-28T10:00:00")  # some times of events also have microseconds


class Event(NamedTuple):
    """An event about an object of a job, with its last time, without the time zone."""

    type: str
    reason: str
    message: str
    time: str


class Position(NamedTuple):
    """The numbers of the workloads before a workload in its queues.

    Source: kueue v0.19.2 apis/visibility/v1beta2/types.go PendingWorkload

    Attributes:
        local: the number in the LocalQueue.
        cluster: the number in the ClusterQueue.
    """

    local: int
    cluster: int


@dataclass(frozen=True, slots=True)
class JobObjects:
    """A TrainJob, and the exported objects that belong to it.

    Attributes:
        job: the TrainJob.
        workload: its Workload; None if the export has none.
        job_set: its JobSet; None if the export has none.
        jobs: its Jobs.
        pods: its pods.
        events: the events about these objects, the newest last.
        position: its position in the queue; None if the export has none.
        queues: its LocalQueue and its ClusterQueue, as far as the export has them.
        has_workloads: True if the export has any Workload in the namespace.
    """

    job: Manifest
    workload: Manifest | None = None
    job_set: Manifest | None = None
    jobs: Sequence[Manifest] = ()
    pods: Sequence[Manifest] = ()
    events: Sequence[Event] = ()
    position: Position | None = None
    queues: Sequence[Manifest] = ()
    has_workloads: bool = False

    @property
    def name(self) -> str:
        """Return the name of the TrainJob."""
        return self.job.name

    @property
    def namespace(self) -> str:
        """Return the namespace of the TrainJob."""
        return self.job.namespace


def read_jobs(texts: Mapping[str, bytes]) -> list[JobObjects]:
    """Return the TrainJobs of an export with their objects, sorted by namespace and name.

    If the texts have an object several times, the last of them counts.

    Args:
        texts: file → its text: a list object, one object, or several documents.

    Raises:
        DocumentError: a text is not YAML or JSON, a document is not an object of a cluster, or there is no TrainJob.
    """
    manifests = [item for file, text in texts.items() for item in read(text, file)]
    fix = f"export the objects anew: `{EXPORT}`"
    problems = [Problem(fault, fix, item.file) for item in manifests if (fault := _find_fault(item))]
    if not problems and not any(_is_kind(item, "TrainJob") for item in manifests):
        problems = [Problem("the export has no TrainJob", fix, next(iter(texts), ""))]
    if problems:
        raise DocumentError(tuple(problems))
    return _Namespaces(manifests).jobs()


def _find_fault(item: Manifest) -> str:
    """Return why a document is not an object of a cluster; empty if it is one. Queue positions have no name."""
    if item.instead:
        return f"the export has {item.instead}, which is not an object"
    fields = {"apiVersion": item.api_version, "kind": item.kind, "metadata.name": item.name}
    missing = [name for name, value in fields.items() if not value and item.kind != _POSITIONS]
    return f"{item.resource} has no {' and no '.join(missing)}" if missing else ""


def _is_kind(item: Manifest, kind: str) -> bool:
    return (item.group, item.kind) == (_GROUPS[kind], kind)


@dataclass
class _Namespaces:
    """The objects of an export, by kind and namespace."""

    manifests: Sequence[Manifest]
    objects: dict[tuple[str, str], list[Manifest]] = field(default_factory=lambda: defaultdict(list))
    events: dict[tuple[str, str, str], list[Manifest]] = field(default_factory=lambda: defaultdict(list))
    positions: dict[tuple[str, str], Position] = field(default_factory=dict)

    def __post_init__(self) -> None:
        last = {item.identity: item for item in self.manifests if item.kind != _POSITIONS}
        for item in last.values():
            for kind in _GROUPS:
                if _is_kind(item, kind):
                    self.objects[kind, item.namespace].append(item)
            if item.kind == "Event" and item.group in _EVENT_GROUPS:
                about = mapping(item.body, "regarding") or mapping(item.body, "involvedObject")
                key = item.namespace, string(about.get("kind")), string(about.get("name"))
                self.events[key].append(item)
        for item in self.manifests:
            if item.kind == _POSITIONS:
                for entry in mappings(item.body.get("items")):
                    metadata = mapping(entry, "metadata")
                    key_of_workload = string(metadata.get("namespace")), string(metadata.get("name"))
                    position = Position(_count(entry, "positionInLocalQueue"), _count(entry, "positionInClusterQueue"))
                    self.positions[key_of_workload] = position

    def jobs(self) -> list[JobObjects]:
        jobs = [item for (kind, _), items in self.objects.items() if kind == "TrainJob" for item in items]
        return [self._collect(job) for job in sorted(jobs, key=lambda job: (job.namespace, job.name))]

    def _collect(self, job: Manifest) -> JobObjects:
        workloads = [item for item in self._of("Workload", job) if _is_owner(item, job)]
        workload = max(workloads, key=_currency, default=None)
        job_set = next((item for item in self._of("JobSet", job) if item.name == job.name), None)
        jobs = [item for item in self._of("Job", job) if item.labels.get(JOB_LABEL) == job.name]
        pods = [item for item in self._of("Pod", job) if item.labels.get(JOB_LABEL) == job.name]
        objects = [job, *filter(None, (workload, job_set)), *jobs, *pods]
        events = [event for item in objects for event in self._events_of(item, created(job))]
        return JobObjects(
            job,
            workload,
            job_set,
            jobs,
            sorted(pods, key=lambda pod: pod.name),
            sorted(events, key=lambda event: event.time),
            self.positions.get((workload.namespace, workload.name)) if workload else None,
            self._queues(workload) if workload else (),
            bool(self._of("Workload", job)),
        )

    def _queues(self, workload: Manifest) -> list[Manifest]:
        name = mapping(workload.body, "spec").get("queueName")
        local = next((item for item in self._of("LocalQueue", workload) if item.name == name), None)
        target = mapping(local.body, "spec").get("clusterQueue") if local else None
        cluster = (item for item in self.objects.get(("ClusterQueue", ""), ()) if item.name == target)
        return [*filter(None, (local,)), *cluster]

    def _of(self, kind: str, job: Manifest) -> Sequence[Manifest]:
        return self.objects.get((kind, job.namespace), ())

    def _events_of(self, item: Manifest, start: str) -> list[Event]:
        """Return the events about an object, without events about an earlier object of the same name."""
        events = map(_event, self.events.get((item.namespace, item.kind, item.name), ()))
        return [event for event in events if not (event.time and start) or event.time >= start[:_SECONDS]]


def _is_owner(item: Manifest, job: Manifest) -> bool:
    """Return True if a TrainJob owns an object. An absent UID equals any UID."""
    uid = mapping(job.body, "metadata").get("uid")
    return any(
        (owner.get("kind"), owner.get("name")) == ("TrainJob", job.name) and owner.get("uid") in (None, uid or None)
        for owner in mappings(mapping(item.body, "metadata").get("ownerReferences"))
    )


def _currency(workload: Manifest) -> tuple[bool, str, str]:
    """Return a sort key by which the current Workload of a job is the last: unfinished, and then the newest."""
    finished = conditions_of(workload).get("Finished")
    return not (finished and finished.is_true), created(workload), workload.name


def _count(entry: Mapping[str, Any], name: str) -> int:
    return max(integer(entry.get(name), 0), 0)


def _event(item: Manifest) -> Event:
    body: Body = item.body
    fields = ("lastTimestamp", "deprecatedLastTimestamp", "eventTime")
    times = (mapping(body, "series").get("lastObservedTime"), *map(body.get, fields), created(item))
    return Event(
        string(body.get("type")),
        string(body.get("reason")),
        string(body.get("message")) or string(body.get("note")),
        next((time[:_SECONDS] for time in map(string, times) if time), ""),
    )


def label_of(manifest: Manifest, name: str) -> str:
    """Return a label of an object; empty if absent."""
    return string_map(manifest.labels).get(name, "")
