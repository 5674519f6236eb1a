"""The messages of the objects of a job, such as events and ends of containers, as lines for the tables of causes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from generator.diagnose.scan import Scan
from generator.jobs.status.export import JobObjects
from generator.manifests import Manifest
from generator.objects.conditions import conditions_of
from generator.objects.fields import mapping, mappings, string

_PENDING = "Pending"
_SECONDS = len("2026-11-28T10:00:00")


class Message(NamedTuple):
    """A message about an object of a job.

    Attributes:
        source: the object, such as `Pod train-node-0-0-x`.
        text: the message.
        time: the time in UTC, without the time zone; empty if unknown.
        host: the pod; empty if the object is no pod.
    """

    source: str
    text: str
    time: str = ""
    host: str = ""


def read_objects(scan: Scan, objects: JobObjects) -> None:
    """Add the messages of the objects of a job to a scan."""
    for message in find_messages(objects):
        scan.read_message(message.source, message.text, message.time[:_SECONDS], message.host)


def find_messages(objects: JobObjects) -> Iterator[Message]:
    """Yield the messages of warnings, of conditions, and of containers that wait or ended.

    The Workload and its events `Pending` are omitted: `describe_job` explains them with the flavors of the queue.
    """
    for event in objects.events:
        if event.type != "Normal" and event.reason != _PENDING:
            yield Message(f"Event {event.reason}", event.message, event.time)
    owners = (objects.job, objects.job_set, *objects.jobs)
    for item in (*filter(None, owners), *objects.pods):
        host = item.name if item.kind == "Pod" else ""
        for condition in conditions_of(item).values():
            if condition.message:
                source = f"{item.kind} {item.name} {condition.type}={condition.status} {condition.reason}"
                yield Message(source.rstrip(), condition.message, condition.since, host)
    for pod in objects.pods:
        yield from _of_pod(pod)


def _of_pod(pod: Manifest) -> Iterator[Message]:
    status = mapping(pod.body, "status")
    if text := string(status.get("message")):
        yield Message(f"Pod {pod.name} {string(status.get('reason'))}".rstrip(), text, "", pod.name)
    for key in ("initContainerStatuses", "containerStatuses"):
        for container in mappings(status.get(key)):
            source = f"Pod {pod.name} container {string(container.get('name'))}"
            for state in (mapping(container, "lastState"), mapping(container, "state")):
                for name in ("waiting", "terminated"):
                    yield from _of_state(source, pod.name, mapping(state, name))


def _of_state(source: str, pod: str, state: dict[str, object]) -> Iterator[Message]:
    reason, code = string(state.get("reason")), state.get("exitCode")
    time = string(state.get("finishedAt"))
    if text := string(state.get("message")):
        yield Message(f"{source} {reason}".rstrip(), text, time, pod)
    if isinstance(code, int) and code:
        yield Message(source, f"the container ended with exit code {code} ({reason or 'Error'})", time, pod)
