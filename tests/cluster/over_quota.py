"""Read Kueue's condition for jobs that exceed a tenant's quota and borrowing limit."""

from __future__ import annotations

from functools import partial

from generator import Platform
from tests.cluster.client import Body, Client, wait_for
from tests.cluster.training import Training, conditions, trainings

_NODES = 500


def reasons(admin: Client, platform: Platform) -> dict[str, Body]:
    """Return the condition that keeps a job pending, for the first runtime of each pool.

    The jobs run one after another, because Kueue 0.19 sets a condition only on the first of equal jobs in a queue
    (kueue v0.19.2 pkg/cache/queue/cluster_queue.go; the feature gate is SchedulingEquivalenceHashing).
    """
    firsts: dict[str, Training] = {}
    for training in trainings(platform, _NODES):
        if training.tenant == platform.tenants[0]:
            firsts.setdefault(training.pool.name, training)
    said = {}
    for training in firsts.values():
        training.submit(admin)
        said[training.runtime.name] = wait_for("Kueue's verdict", partial(_pending, training, admin))
        admin.delete(training.body)
    return said


def _pending(training: Training, admin: Client) -> Body | None:
    """The condition that keeps a Workload out, once Kueue decided."""
    workload = training.workload(admin)
    found = next((found for found in conditions(workload or {}) if found["type"] == "QuotaReserved"), None)
    return {key: found[key] for key in ("type", "status", "reason", "message")} if found else None
