"""quota/*: the rules over queues, and over what comes to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from generator.checks.finding import Breach
from generator.checks.objects import Objects
from generator.checks.quota import capacity, defects, definitions, jobs, namespaces
from generator.manifests import Manifest

KINDS = frozenset(
    {
        "AdmissionCheck",
        "ClusterQueue",
        "Cohort",
        "LimitRange",
        "LocalQueue",
        "Namespace",
        "ResourceFlavor",
        "ResourceQuota",
        "RuntimeClass",
        "Topology",
        "WorkloadPriorityClass",
    }
)
"""What they read beside TrainJobs, runtimes, and Kueue's own configuration."""

RULES: Mapping[str, Callable[[Objects], Iterator[tuple[Manifest, Breach]]]] = {
    "quota/order": definitions.order,
    "quota/repeated": definitions.repeated,
    "quota/limit": definitions.limit,
    "quota/missing-flavor": definitions.missing_flavor,
    "quota/missing-topology": definitions.missing_topology,
    "quota/missing-queue": definitions.missing_queue,
    "quota/missing-cohort": definitions.missing_cohort,
    "quota/missing-priority": definitions.missing_priority,
    "quota/cohort-cycle": definitions.cohort_cycle,
    "quota/closed-door": definitions.closed_door,
    "quota/over-capacity": capacity.over_capacity,
    "quota/reservation-over": capacity.reservation_over,
    "quota/borrows-nothing": capacity.borrows_nothing,
    "quota/lends-nobody": capacity.lends_nobody,
    "quota/no-share": capacity.no_share,
    "quota/idle-weight": capacity.idle_weight,
    "quota/uncovered": jobs.uncovered,
    "quota/too-large": jobs.too_large,
    "quota/unmatched-flavor": jobs.unmatched_flavor,
    "quota/never-admitted": jobs.never_admitted,
    "quota/too-many-hosts": jobs.too_many_hosts,
    "quota/default-hosts": jobs.default_hosts,
    "quota/double-counted": namespaces.double_counted,
    "quota/unenforced": namespaces.unenforced,
    "quota/limit-range": namespaces.limit_range,
    "quota/no-candidates": defects.no_candidates,
    "quota/lost-tolerations": defects.lost_tolerations,
    "quota/runs-twice": defects.runs_twice,
}
