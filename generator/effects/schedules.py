"""The new and the removed schedules of teams: CronJobs that create TrainJobs. The topic `teams` reports them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from generator.checks.objects import Change
from generator.checks.schedules import ScheduledJob, read_scheduled_jobs
from generator.documents.messages import escape_control
from generator.effects.effect import Risk
from generator.effects.subjects import Statement, Teams
from generator.manifests import Manifest
from generator.objects.fields import mapping, string


def find_schedule_statements(change: Change) -> Iterator[Statement]:
    """Yield the schedules that teams get and lose."""
    teams = Teams.of(change)
    for scheduled in _schedules(change.all_added):
        team = teams.of_namespace(scheduled.job.namespace)
        own = [item for item in change.all_added if _is_around(item, scheduled.cron_job.namespace)]
        text = f"the schedule {_describe(scheduled)}"
        yield Statement("team", team, "gets", text, Risk.LOW, (), (scheduled.cron_job, *own))
    for scheduled in _schedules(change.all_removed):
        team = teams.of_namespace(scheduled.job.namespace)
        text = f"the schedule `{scheduled.cron_job.name}`, so no further jobs start by it"
        yield Statement("team", team, "loses", text, Risk.MEDIUM, (), (scheduled.cron_job,))


def _schedules(manifests: Iterable[Manifest]) -> Iterator[ScheduledJob]:
    return read_scheduled_jobs(item for item in manifests if (item.group, item.kind) == ("batch", "CronJob"))


def _describe(scheduled: ScheduledJob) -> str:
    """Return the name of a schedule, its runtime and its times."""
    spec = mapping(scheduled.cron_job.body, "spec")
    runtime = string(mapping(scheduled.job.body, "spec", "runtimeRef").get("name"))
    zone = string(spec.get("timeZone"))
    times = f"`{string(spec.get('schedule'))}`{f' ({zone})' if zone else ''}"
    state = ", suspended" if spec.get("suspend") is True else ""
    return escape_control(f"`{scheduled.cron_job.name}`: a TrainJob on runtime `{runtime}` at {times}{state}")


def _is_around(item: Manifest, namespace: str) -> bool:
    """Return True for the Namespace of CronJobs, and for the ServiceAccount and NetworkPolicies in it."""
    kind = (item.group, item.kind)
    if kind == ("", "Namespace"):
        return item.name == namespace
    around = (("", "ServiceAccount"), ("networking.k8s.io", "NetworkPolicy"), ("cilium.io", "CiliumNetworkPolicy"))
    return item.namespace == namespace and kind in around
