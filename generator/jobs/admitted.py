"""What Kueue and admission policies ask of a job: filled in where the platform knows it, else why it is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from generator.config.mistakes import suggest
from generator.config.model.fields import to_seconds
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.documents.syntax import shown
from generator.errors import Problem
from generator.manifests import Body


def labels_for(platform: Platform, tenant: Tenant, given: Mapping[str, str]) -> dict[str, str]:
    """The labels that every job has, with the values that the team has, and those that are given."""
    known = {key: tenant.labels[key] for key in platform.policies.labels if key in tenant.labels}
    return {**known, **given}


def deadline(tenant: Tenant) -> Body:
    """The longest that a job of the team may run, where there is an end to it."""
    limit = tenant.limits.time_per_job
    return {"activeDeadlineSeconds": to_seconds(limit)} if limit else {}


def refused(platform: Platform, tenant: Tenant, *, labels: Mapping[str, str], priority: str) -> Iterator[Problem]:
    """Why it would not run, as far as it is up to these; nothing of rules that do not deny."""
    denied = {rule for rule in ("labels", "priority") if platform.policies.admission.action(rule) == "deny"}
    declared = [each.name for each in platform.queues.priorities]
    if priority and priority not in declared:
        # kueue v0.19.2: a class that does not exist gets no Workload, and only the log of Kueue tells
        what = f"there is no priority {shown(priority)}"
        yield Problem(what, suggest(priority, declared), path="--priority")
    elif "priority" in denied and priority and tenant.priorities is not None and priority not in tenant.priorities:
        what = f"{shown(priority)} is not open to `{tenant.name}`"
        yield Problem(what, suggest(priority, tenant.priorities), path="--priority")
    if "labels" in denied:
        yield from _wrong_labels(platform, tenant, labels)


def _wrong_labels(platform: Platform, tenant: Tenant, labels: Mapping[str, str]) -> Iterator[Problem]:
    for key in platform.policies.labels:
        wanted, found = tenant.labels.get(key, ""), labels.get(key, "")
        if not found:
            yield Problem(f"a job here has the label `{key}`", f"pass --label {key}=VALUE", path="--label")
        elif wanted and found != wanted:
            what = f"{shown(found)} is not what `{key}` is of `{tenant.name}`"
            yield Problem(what, f"leave it out: it is {wanted}", path="--label")
