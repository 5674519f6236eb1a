"""quota/*: the rules over queues, and over what comes to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from generator.checks import (
    quota_capacity,
    quota_defects,
    quota_form,
    quota_job_size,
    quota_lending,
    quota_limit_range,
    quota_namespaces,
    quota_references,
    quota_runtimes,
    quota_trainjobs,
)
from generator.checks.finding import Breach
from generator.checks.gathered import Gathered
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

RULES: Mapping[str, Callable[[Gathered], Iterator[tuple[Manifest, Breach]]]] = {
    "quota/order": quota_form.order,
    "quota/repeated": quota_form.repeated,
    "quota/limit": quota_form.limit,
    "quota/missing-flavor": quota_references.missing_flavor,
    "quota/missing-topology": quota_references.missing_topology,
    "quota/missing-queue": quota_references.missing_queue,
    "quota/missing-cohort": quota_references.missing_cohort,
    "quota/missing-priority": quota_references.missing_priority,
    "quota/cohort-cycle": quota_references.cohort_cycle,
    "quota/closed-door": quota_references.closed_door,
    "quota/over-capacity": quota_capacity.over_capacity,
    "quota/reservation-over": quota_capacity.reservation_over,
    "quota/borrows-nothing": quota_lending.borrows_nothing,
    "quota/lends-nobody": quota_lending.lends_nobody,
    "quota/no-share": quota_lending.no_share,
    "quota/idle-weight": quota_lending.idle_weight,
    "quota/uncovered": quota_runtimes.uncovered,
    "quota/too-large": quota_runtimes.too_large,
    "quota/unmatched-flavor": quota_runtimes.unmatched_flavor,
    "quota/never-admitted": quota_trainjobs.never_admitted,
    "quota/too-many-hosts": quota_job_size.too_many_hosts,
    "quota/default-hosts": quota_job_size.default_hosts,
    "quota/double-counted": quota_namespaces.double_counted,
    "quota/unenforced": quota_namespaces.unenforced,
    "quota/limit-range": quota_limit_range.limit_range,
    "quota/no-candidates": quota_defects.no_candidates,
    "quota/lost-tolerations": quota_defects.lost_tolerations,
    "quota/runs-twice": quota_defects.runs_twice,
}
