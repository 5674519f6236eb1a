"""The state of a TrainJob: one word, the reason for it, and the next step. The words come from phases.yaml."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from generator.documents.messages import escape_control, shorten
from generator.facts.names import QUEUE_NAME
from generator.facts.phases import Reason, find_reason, missing_objects, states
from generator.jobs.status.export import Event, JobObjects, Position
from generator.jobs.status.pods import PodCount, PodFault, count_pods, find_failed, find_waiting
from generator.jobs.status.refusal import find_refusal
from generator.objects.conditions import Condition, conditions_of, created
from generator.objects.fields import integer, mapping, mappings, string
from generator.objects.training import LAUNCHER

_LONGEST_MESSAGE = 600  # characters; Kueue writes at most 1,024
_FINISHED = {"Complete": "complete", "Completed": "complete", "Failed": "failed"}
_BEFORE_PODS = ("DeadlineExceeded", "TrainingRuntimeNotSupported")
"""Reasons of failed TrainJobs that no pod explains: Trainer deletes the pods, or starts none."""
_HELD = "Deactivated"
_SIGNALS = 128
"""A container that a signal kills has this exit code plus the number of the signal."""
_NAMES = ("namespace", "job", "workload", "queue", "pod", "container")


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The state of a TrainJob.

    Attributes:
        namespace: the namespace of the job.
        name: the name of the job.
        state: the state, a key of `phases.states()`.
        since: the start of the state, as the API server writes times; empty if unknown.
        why: the reason for the state, in sentences.
        action: the next step of the user, as a sentence.
        command: the next command.
        queue: the LocalQueue of the job; empty if it has none.
        position: the numbers of the workloads before the job; None if the export has no queue position.
        pods: the numbers of its pods; None if the export has no pod of the job.
        reasons: the conditions that decide, such as `Workload Evicted=True Preempted`.
    """

    namespace: str
    name: str
    state: str
    since: str
    why: str
    action: str
    command: str
    queue: str = ""
    position: Position | None = None
    pods: PodCount | None = None
    reasons: tuple[str, ...] = ()

    @property
    def is_failed(self) -> bool:
        """Return True if the job ended without success, or does not run until a person changes something."""
        return states()[self.state].failed


@dataclass(slots=True)
class _Answer:
    """A state with its reasons, while the rules collect them.

    Attributes:
        state: the state.
        since: the start of the state; empty if unknown.
        sentences: the sentences of the reason.
        rows: the rows of the table that apply. The first row has the next step, except if a later row blocks the job.
        reasons: the conditions of the rows.
        missing: the objects that the export lacks, as in `phases.missing_objects`.
        action: a next step that replaces the steps of the rows; empty for none.
        fault: the pod that the next command is about; None for none.
    """

    state: str
    since: str = ""
    sentences: list[str] = field(default_factory=list)
    rows: list[Reason] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    action: str = ""
    fault: PodFault | None = None

    def add(self, kind: str, condition: Condition) -> None:
        """Add a condition: its row, or its reason and message if the table has no row."""
        self._add(kind, condition, find_reason(kind, *condition[:4]))

    def add_refusal(self, reserved: Condition, objects: JobObjects) -> None:
        """Add the condition QuotaReserved of a Workload that has no quota."""
        queue = next((queue for queue in objects.queues if queue.kind == "LocalQueue"), None)
        events = [event.message for event in reversed(objects.events) if event.reason == reserved.reason]
        row, message = find_refusal(reserved, queue, events)
        self._add("Workload", reserved._replace(message=message), row)

    def _add(self, kind: str, condition: Condition, row: Reason | None) -> None:
        self.reasons.append(f"{kind} {condition.type}={condition.status} {condition.reason}".rstrip())
        if row is None:
            self.sentences.append(
                f"The {kind} has the condition `{condition.type}={condition.status}` with the reason "
                f"`{condition.reason or 'none'}`."
            )
        else:
            self.rows.append(row)
            self.sentences.append(row.meaning)
        if row is None or row.quoted:
            self.quote(condition.message)
        if row is not None and row.blocks:
            self.state = "blocked"

    def add_event(self, event: Event, row: Reason) -> None:
        """Add an event of the job whose row the table has."""
        self.rows.insert(0, row)
        self.sentences.append(row.meaning)
        self.reasons.append(f"Event {event.reason}")
        self.quote(event.message)

    def add_fault(self, fault: PodFault, number: int = 1) -> None:
        """Add the reason why a pod waits or failed, and the number of pods with this reason."""
        self.fault = self.fault or fault
        if fault.row:
            self.rows.insert(len(self.rows) if fault.row.reason == "Error" else 0, fault.row)
        self.sentences.append(_describe_fault(fault, number))
        self.reasons.append(f"{'Container' if fault.container else 'Pod'} {fault.reason or 'Failed'}")
        if fault.row is None or fault.row.quoted or fault.exit_code is not None:
            self.quote(fault.message)
        if fault.row is not None and fault.row.blocks:
            self.state = "blocked"

    def quote(self, message: str) -> None:
        """Add a message of a controller, on one line."""
        line = " ".join(message.split())
        if line and not any(line in sentence for sentence in self.sentences):
            text = shorten(line, _LONGEST_MESSAGE)
            self.sentences.append(f"Message: {text if text.endswith('.') else f'{text}.'}")


def describe_job(objects: JobObjects) -> JobStatus:
    """Return the state of a TrainJob, the reason for it, and the next step.

    The state follows only from the exported objects. If an object is missing that decides, the reason names it, and the
    next command prints it.
    """
    job, workload = objects.job, objects.workload
    answer = _answer(objects)
    queue = string(mapping(workload.body, "spec").get("queueName")) if workload else ""
    pod, container = (answer.fault.pod, answer.fault.container) if answer.fault else ("", "")
    names = {
        "namespace": job.namespace or "default",
        "job": job.name,
        "workload": workload.name if workload else "",
        "queue": queue or string(job.labels.get(QUEUE_NAME)),
        "pod": pod,
        "container": container,
    }
    rows = sorted(answer.rows, key=lambda row: not row.blocks)
    lacks = [missing_objects()[name] for name in answer.missing]
    state = states()[answer.state]
    sentences = [*answer.sentences, *(lack.meaning for lack in lacks)]
    commands = [*(lack.command for lack in lacks), *(row.command for row in rows), _log(answer), state.command]
    action = answer.action if answer.state != "blocked" else ""
    return JobStatus(
        names["namespace"],
        job.name,
        answer.state,
        answer.since,
        escape_control(" ".join(sentences or [state.meaning])),
        action or next((row.action for row in rows), state.action),
        _first_complete(commands, names),
        names["queue"],
        objects.position,
        count_pods(objects),
        tuple(map(escape_control, answer.reasons)),
    )


def _log(answer: _Answer) -> str:
    """Return the command that prints the log of the container that failed first; empty for another state."""
    return "kubectl logs {pod} -n {namespace} -c {container}" if answer.state == "failed" else ""


def _first_complete(commands: Iterable[str], names: Mapping[str, str]) -> str:
    """Return the first command all of whose names are known, with these names, quoted for a shell."""
    quoted = {name: shlex.quote(escape_control(value)) for name, value in names.items() if value}
    for command in filter(None, commands):
        if {name for name in _NAMES if f"{{{name}}}" in command} <= quoted.keys():
            return re.sub(r"\{([a-z]+)\}", lambda match: quoted[match[1]] if match[1] in quoted else match[0], command)
    return ""


def _answer(objects: JobObjects) -> _Answer:
    job = objects.job
    conditions = conditions_of(job)
    if deleted := string(mapping(job.body, "metadata").get("deletionTimestamp")):
        return _deleting(objects, deleted)
    if ended := _ended(objects, "TrainJob", conditions):
        return ended
    if objects.workload:
        return _queued(objects)
    if mapping(job.body, "spec").get("suspend") is True:
        return _suspended_without_workload(objects)
    return _started(objects)


def _deleting(objects: JobObjects, since: str) -> _Answer:
    answer = _Answer("deleting", since)
    finalizers = mapping(objects.job.body, "metadata").get("finalizers")
    if isinstance(finalizers, list) and finalizers:
        names = ", ".join(f"`{name}`" for name in finalizers)
        answer.sentences = [states()["deleting"].meaning, f"It waits for the finalizers {names}."]
    return answer


def _ended(objects: JobObjects, kind: str, conditions: Mapping[str, Condition]) -> _Answer | None:
    """Return the answer for a TrainJob or JobSet that ended; None if it did not."""
    for name, state in _FINISHED.items():
        condition = conditions.get(name)
        if condition and condition.status == "True":
            answer = _Answer(state, condition.since)
            answer.add(kind, condition)
            if state == "failed" and condition.reason not in _BEFORE_PODS:
                _add_failed_pods(answer, objects)
            return answer
    return None


def _add_failed_pods(answer: _Answer, objects: JobObjects) -> None:
    """Add the pod that failed first, and the launcher if it failed too; else the Jobs that failed."""
    faults = find_failed(objects)
    launcher = next((fault for fault in faults if fault.role == LAUNCHER), None)
    for fault in dict.fromkeys((*faults[:1], *filter(None, (launcher,)))):
        answer.add_fault(fault)
    if faults:
        return
    for job in objects.jobs:
        failed = conditions_of(job).get("Failed")
        if failed and failed.status == "True":
            answer.add("Job", failed)
            answer.sentences[-1] += f" The Job is `{job.name}`."
            break
    if not objects.pods:
        answer.missing.append("Pod")


def _queued(objects: JobObjects) -> _Answer:
    """Return the answer for a job with a Workload of Kueue.

    Source: kueue v0.19.2 pkg/controller/jobframework/reconciler.go JobReconciler.ReconcileGenericJob
    """
    workload = objects.workload
    conditions = conditions_of(workload)
    spec = mapping(workload.body, "spec") if workload else {}
    finished, evicted = conditions.get("Finished"), conditions.get("Evicted")
    if finished and finished.status == "True":
        row = find_reason("Workload", *finished[:4])
        if row is None or row.blocks:
            answer = _Answer("blocked", finished.since)
            answer.add("Workload", finished)
            return answer
        return _started(objects)
    if spec.get("active") is False or _is_true(evicted, _HELD):
        return _held(objects, evicted)
    reserved, admitted = conditions.get("QuotaReserved"), conditions.get("Admitted")
    if _is_true(evicted):
        return _evicted(objects, conditions)
    if not _is_true(reserved):
        return _pending(objects, conditions)
    if not _is_true(admitted):
        return _reserved(objects, conditions)
    if mapping(objects.job.body, "spec").get("suspend") is True:
        answer = _Answer("starting", _start(objects))
        answer.sentences.append("Kueue admitted the job, but `spec.suspend` of the TrainJob is still true.")
        answer.action = (
            "Wait a few seconds. If the state stays, Kueue cannot update the TrainJob: `mpigen check-job` names the "
            "field, such as an empty list."
        )
        if not _add_event(answer, objects) and not objects.events:
            answer.missing.append("Event")
        return answer
    return _started(objects)


def _is_true(condition: Condition | None, reason: str = "") -> bool:
    return condition is not None and condition.status == "True" and condition.reason.startswith(reason)


def _held(objects: JobObjects, evicted: Condition | None) -> _Answer:
    """Return the answer for a job whose Workload is inactive."""
    answer = _Answer("suspended")
    if evicted is None or not _is_true(evicted, _HELD):
        evicted = Condition("Evicted", "True", _HELD, "", "")
    answer.since = evicted.since
    answer.add("Workload", evicted)
    if objects.pods:
        answer.sentences.append("Its pods still end.")
    return answer


def _evicted(objects: JobObjects, conditions: Mapping[str, Condition]) -> _Answer:
    """Return the answer for an evicted job, whose pods still end or that waits for quota again."""
    evicted, preempted = conditions["Evicted"], conditions.get("Preempted")
    answer = _Answer("evicted", evicted.since)
    answer.add("Workload", evicted)
    if preempted and preempted.status == "True":
        answer.add("Workload", preempted)
    reserved = conditions.get("QuotaReserved")
    if _is_true(reserved):
        answer.sentences.append("Its pods still end, and then Kueue releases the quota.")
        return answer
    state = mapping(objects.workload.body, "status", "requeueState") if objects.workload else {}
    if time := string(state.get("requeueAt")):
        answer.sentences.append(f"Kueue queues it again at {format_time(time)}.")
        return answer
    requeued = conditions.get("Requeued")
    if requeued and requeued.status == "True":
        answer.add("Workload", requeued)
    if reserved and reserved.message != evicted.message:
        answer.add_refusal(reserved, objects)
    _add_queues(answer, objects)
    return answer


def _pending(objects: JobObjects, conditions: Mapping[str, Condition]) -> _Answer:
    """Return the answer for a job that waits for quota.

    Source: kueue v0.19.2 pkg/workload/workload.go QueuedWaitTime
    """
    reserved, requeued, target = (conditions.get(name) for name in ("QuotaReserved", "Requeued", "DeactivationTarget"))
    since = requeued.since if requeued else created(objects.workload) if objects.workload else ""
    answer = _Answer("pending", since)
    if reserved:
        answer.add_refusal(reserved, objects)
    else:
        answer.sentences.append(
            "Kueue has not evaluated the job yet, because it evaluates the first job of each queue at a time."
        )
    for condition in (target, conditions.get("BlockedOnPreemptionGates")):
        if condition and condition.status == "True":
            answer.add("Workload", condition)
    _add_queues(answer, objects)
    return answer


def _add_queues(answer: _Answer, objects: JobObjects) -> None:
    """Add why a queue is inactive, and the position in the queue; for a blocked job nothing."""
    inactive = [
        (manifest.kind, active)
        for manifest in objects.queues
        if (active := conditions_of(manifest).get("Active")) and active.status == "False"
    ]
    for kind, active in inactive[-1:]:  # the ClusterQueue, because an inactive one makes its LocalQueues inactive
        answer.add(kind, active)
    if not _has_job_set(objects):
        _add_event(answer, objects, is_blocking=True)
    if answer.state == "blocked":
        return
    position, workload = objects.position, objects.workload
    if position is None:
        answer.missing.append("position")
        return
    queue = string(mapping(workload.body, "spec").get("queueName")) if workload else ""
    answer.sentences.append(
        f"{_before(position.local)} in the LocalQueue{f' `{queue}`' if queue else ''}, "
        f"and {_before(position.cluster).lower()} in its ClusterQueue."
    )


def _before(number: int) -> str:
    if not number:
        return "No job is before it"
    return f"{number} jobs are before it" if number > 1 else "1 job is before it"


def _reserved(objects: JobObjects, conditions: Mapping[str, Condition]) -> _Answer:
    """Return the answer for a job that holds quota and is not admitted."""
    reserved, admitted = conditions["QuotaReserved"], conditions.get("Admitted")
    answer = _Answer("reserved", reserved.since)
    status = mapping(objects.workload.body, "status") if objects.workload else {}
    checks = [check for check in mappings(status.get("admissionChecks")) if check.get("state") != "Ready"]
    for check in sorted(checks, key=lambda check: check.get("state") != "Rejected"):
        state, message = string(check.get("state")), string(check.get("message"))
        row = find_reason("AdmissionCheck", "state", state, message=message)
        answer.sentences.append(f"Admission check `{string(check.get('name'))}` is {state or 'undecided'}.")
        answer.reasons.append(f"AdmissionCheck {state}".rstrip())
        if row:
            answer.rows.append(row)
            answer.sentences.append(row.meaning)
            answer.state = "blocked" if row.blocks else answer.state
        answer.quote(message)
    if admitted and not checks:
        answer.add("Workload", admitted)
    elif not checks:
        answer.sentences.append("Kueue reserved quota for the job, and does not start it yet.")
    return answer


def _suspended_without_workload(objects: JobObjects) -> _Answer:
    """Return the answer for a suspended job of which the export has no Workload."""
    job = objects.job
    suspended = conditions_of(job).get("Suspended")
    if suspended is None or suspended.status != "True":
        suspended = Condition("Suspended", "True", "Suspended", "", created(job))
    answer = _Answer("suspended", suspended.since)
    queue = string(job.labels.get(QUEUE_NAME))
    if not queue:
        answer.add("TrainJob", suspended)
        answer.sentences.append("The job is in no queue, so a user suspended it.")
        answer.action = states()["suspended"].action
        return answer
    if not objects.has_workloads:
        answer.add("TrainJob", suspended)
        answer.sentences.append(f"The job is in the LocalQueue `{queue}`, so Kueue decides when it starts.")
        answer.action = "Export the Workloads too, and run this command again."
        answer.missing.append("Workload")
        return answer
    answer.state, answer.since = "new", created(job)
    answer.sentences.append(
        "Kueue has created no Workload for the job. It creates one within seconds if the runtime and the queue exist."
    )
    _add_event(answer, objects)
    return answer


def _started(objects: JobObjects) -> _Answer:
    """Return the answer for a job that Trainer may start."""
    job_set = conditions_of(objects.job_set)
    if ended := _ended(objects, "JobSet", job_set):
        return ended
    status = mapping(objects.job.body, "status")
    jobs = mappings(status.get("jobsStatus"))
    if not (objects.job_set or jobs):
        return _without_job_set(objects)
    conditions = conditions_of(objects.workload)
    restarting, recovering = job_set.get("RestartingJobSet"), conditions.get("PodsReady")
    if _is_true(restarting) and restarting:
        answer = _Answer("restarting", restarting.since)
        answer.add("JobSet", restarting)
        _add_counts(answer, objects)
        _add_waiting_pods(answer, objects)
        return answer
    is_ready = _are_pods_ready(objects, jobs)
    if is_ready:
        answer = _Answer("running", _ready_since(objects))
        answer.sentences.append(states()["running"].meaning)
        _add_counts(answer, objects)
        _add_restarts(answer, objects)
        _add_cluster(answer, objects)
        return answer
    is_recovering = recovering and recovering.status == "False" and recovering.reason == "WaitForRecovery"
    if recovering and is_recovering and _has_failed_pods(objects):  # Kueue sets this reason also after a suspension
        answer = _Answer("restarting", recovering.since)
        answer.add("Workload", recovering)
    else:
        answer = _Answer("starting", _start(objects))
    for name in ("Suspended", "StartupPolicyInProgress"):
        if _is_true(job_set.get(name)):
            answer.add("JobSet", job_set[name])
    _add_counts(answer, objects, jobs)
    _add_waiting_pods(answer, objects)
    _add_restarts(answer, objects)
    _add_cluster(answer, objects)
    return answer


def _without_job_set(objects: JobObjects) -> _Answer:
    """Return the answer for a job without a JobSet and without counts of its Jobs."""
    answer = _Answer("new", created(objects.job))
    resumed = conditions_of(objects.job).get("Suspended")
    if resumed or objects.workload:
        answer = _Answer("starting", _start(objects))
        if resumed and resumed.status == "False":
            answer.add("TrainJob", resumed)
        answer.sentences.append("Trainer has not reported its Jobs yet.")
    else:
        answer.sentences.append("The TrainJob has no status.")
    if not _add_event(answer, objects) and not objects.events:
        answer.missing.append("Event")
    return answer


def _are_pods_ready(objects: JobObjects, jobs: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if all pods are ready or ended successfully, as Kueue decides it from the counts of Trainer.

    Source: kueue v0.19.2 pkg/controller/jobs/trainjob/trainjob_controller.go TrainJob.PodsReady
    """
    ready = conditions_of(objects.workload).get("PodsReady")
    if ready:
        return ready.status == "True"
    if jobs:
        return all(integer(job.get("ready"), 0) + integer(job.get("succeeded"), 0) > 0 for job in jobs)
    count = count_pods(objects)
    return count is not None and count.expected is not None and count.ready >= count.expected > 0


def _ready_since(objects: JobObjects) -> str:
    """Return the time since which all pods are ready; empty if unknown."""
    ready = conditions_of(objects.workload).get("PodsReady")
    if ready and _is_true(ready):
        return ready.since
    times = [condition.since for pod in objects.pods if (condition := conditions_of(pod).get("Ready"))]
    return max(times, default="")


def _has_failed_pods(objects: JobObjects) -> bool:
    """Return True if a pod failed or started again, or if the export has no pods."""
    restarts = integer(mapping(objects.job_set.body, "status").get("restarts"), 0) if objects.job_set else 0
    faults = [*find_failed(objects), *(fault for fault in find_waiting(objects) if not fault.is_usual)]
    statuses = (mappings(mapping(pod.body, "status").get("containerStatuses")) for pod in objects.pods)
    restarts += sum(integer(container.get("restartCount"), 0) for containers in statuses for container in containers)
    return not objects.pods or restarts > 0 or bool(faults)


def _start(objects: JobObjects) -> str:
    """Return the time of the admission or of the resumption of a job; without either, of its creation."""
    admitted = conditions_of(objects.workload).get("Admitted")
    suspended = conditions_of(objects.job).get("Suspended")
    if admitted and _is_true(admitted):
        return admitted.since
    return suspended.since if suspended and suspended.status == "False" else created(objects.job)


def _add_counts(answer: _Answer, objects: JobObjects, jobs: Sequence[Mapping[str, Any]] = ()) -> None:
    """Add the number of ready pods; without pods the Jobs that are not ready."""
    count = count_pods(objects)
    if count:
        number = "" if count.expected is None else f" of {count.expected}"
        answer.sentences.append(f"Ready pods: {count.ready}{number}.")
    names = [
        string(job.get("name"), "?")
        for job in jobs
        if integer(job.get("ready"), 0) + integer(job.get("succeeded"), 0) == 0
    ]
    if names and not count:
        answer.sentences.append(f"Not ready: {', '.join(f'`{name}`' for name in names)}.")


def _add_waiting_pods(answer: _Answer, objects: JobObjects) -> None:
    """Add the reasons why pods are not ready, the same reason once, and usual reasons only if there is no other."""
    faults = find_waiting(objects)
    unusual = [fault for fault in faults if not fault.is_usual]
    groups: dict[tuple[str, str], list[PodFault]] = {}
    for fault in unusual or faults:
        groups.setdefault((fault.container, fault.reason), []).append(fault)
    if not unusual and _add_event(answer, objects):
        answer.fault = next(iter(faults), None)
        return
    for group in list(groups.values())[:2]:
        answer.add_fault(group[0], len(group))
    if not objects.pods:
        answer.missing.append("Pod")


def _add_event(answer: _Answer, objects: JobObjects, *, is_blocking: bool = False) -> bool:
    """Add the newest warning whose row the table has, and return True if there is one.

    Args:
        answer: gets the event.
        objects: the objects of the job.
        is_blocking: True to add only an event after which the job does not run until a person changes something.
    """
    for event in reversed(objects.events):
        row = find_reason("Event", "reason", reason=event.reason, message=event.message)
        if row and event.type != "Normal" and (row.blocks or not is_blocking):
            answer.add_event(event, row)
            if row.blocks and not _has_job_set(objects):
                answer.state = "blocked"
            return True
    return False


def _has_job_set(objects: JobObjects) -> bool:
    """Return True if the export shows that Trainer created the JobSet."""
    return bool(objects.job_set or mapping(objects.job.body, "status").get("jobsStatus"))


def _add_restarts(answer: _Answer, objects: JobObjects) -> None:
    """Add the number of restarts of the JobSet."""
    status = mapping(objects.job_set.body, "status") if objects.job_set else {}
    number = integer(status.get("restarts"), 0)
    if number > 0:
        answer.sentences.append(f"JobSet has restarted it {'once' if number == 1 else f'{number} times'}.")


def _add_cluster(answer: _Answer, objects: JobObjects) -> None:
    """Add the worker cluster of a job that MultiKueue runs in another cluster."""
    status = mapping(objects.workload.body, "status") if objects.workload else {}
    if cluster := string(status.get("clusterName")):
        answer.sentences.append(f"It runs in the worker cluster `{cluster}`, which has its pods and logs.")


def _describe_fault(fault: PodFault, number: int) -> str:
    place = f"Pod `{fault.pod}`" + (f" and {number - 1} more" if number > 1 else "")
    if fault.exit_code is not None:
        reason = fault.reason if fault.reason not in ("", "Error") else ""
        if not reason and _SIGNALS < fault.exit_code < 2 * _SIGNALS:
            reason = f"signal {fault.exit_code - _SIGNALS}"
        code = f"{fault.exit_code} ({reason})" if reason else f"{fault.exit_code}"
        text = f"{place}: container `{fault.container}` ended with exit code {code}."
        return f"{text} {fault.row.meaning}" if fault.row and fault.reason != "Error" else text
    container = f", container `{fault.container}`" if fault.container else ""
    meaning = f" {fault.row.meaning}" if fault.row else ""
    return f"{place}{container}: {fault.reason or 'failed'}.{meaning}"


def format_time(time: str) -> str:
    """Return a time of the API server for people: `2026-11-28 10:02:11 UTC`. Other texts stay as they are."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z", time)
    return f"{match[1]} {match[2]} UTC" if match else escape_control(time)
