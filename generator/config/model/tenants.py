"""`tenants` and `cohorts`: the teams with their namespaces, quota and access, and the groups that share quota."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from generator import quantities
from generator.config.model.access import Access
from generator.config.model.fabric_parts import FabricShare
from generator.config.model.fields import (
    Count,
    Duration,
    LabelKey,
    LabelValue,
    Name,
    Resources,
    Room,
    Section,
    Text,
    invalid,
    reject_reserved_labels,
    require_unique,
)
from generator.config.model.isolation import Egress
from generator.config.model.policies import ClassName, Registry, RuleName
from generator.config.model.queues import MULTI_KUEUE_CHECK
from generator.config.model.quotas import Shares
from generator.config.model.secrets import Secrets
from generator.documents.messages import format_value


class Limits(Section):
    """Upper limits of a tenant's namespace, in addition to its quota in Kueue."""

    train_jobs: Count = 1000
    """The number of TrainJobs, including finished ones. Trainer deletes none; each has about eight other objects."""
    hosts_per_job: Count | None = None
    """The number of hosts of one TrainJob: the API server rejects a larger `numNodes`. A job without it has the hosts
    of its runtime. Default: no limit but the quota."""
    devices_per_host: Resources = Field(default={})
    """Devices that one host may request in `resourcesPerNode`, such as `nvidia.com/gpu: 4`. Default: all devices of a
    node."""
    time_per_job: Duration | None = None
    """The maximum `activeDeadlineSeconds` of a TrainJob, such as `72h`; the API server then rejects jobs without it.
    Default: no limit."""
    volumes: Count | None = None
    """The number of PersistentVolumeClaims. Default: no limit."""
    storage: Room | None = None
    """The sum of their requests, such as `10Ti`. Default: no limit."""
    resources: Resources = Field(default={})
    """The sum of the requests of all pods, such as `nvidia.com/gpu: 40`, for pods that bypass Kueue. It must be at
    least the quota. Default: no limit."""


def _is_day(value: str) -> str:
    try:
        day = dt.date.fromisoformat(value)
    except ValueError:
        day = None
    if day is None or day.isoformat() != value:
        raise invalid(f"{format_value(value)} is not a day", "write it like 2027-03-31")
    return value


Day = Annotated[str, Field(strict=True), AfterValidator(_is_day)]
"""A day in the form `2027-03-31`."""


class Reservation(Section):
    """Quota that a team has until a day, in addition to its own."""

    name: Name
    """The purpose, such as `neurips`."""
    quota: Annotated[Shares, Field(min_length=1)]
    """The amounts, written like the team's quota."""
    until: Day
    """The last day. From the next day on, a finding reports that the reservation has expired. The cluster does not
    change by itself."""
    reason: Text
    """The reason, for reviewers."""


Standard = Literal["memlock", "baseline", "privileged"]
POD_SECURITY = "pod-security"
_OF_ALL = ("generated", "runtime-images")  # of objects that no tenant has


def _is_of_a_tenant(value: str) -> str:
    if value in _OF_ALL:
        raise invalid(
            f"`{value}` checks objects that all tenants share", "relax it for all, in `policies.admission.rules`"
        )
    return value


class Relaxation(Section):
    """An admission rule or Pod Security level that does not apply to a team until a day."""

    rule: Annotated[Literal[RuleName, "pod-security"], AfterValidator(_is_of_a_tenant)]
    """A rule of `policies.admission`, or `pod-security`."""
    to: Standard | None = None
    """Only with `pod-security`: the level that is enforced instead. `memlock` is `restricted` with the capability
    IPC_LOCK, by which ranks lock the memory for RDMA. `baseline` and `privileged` are the levels of Kubernetes."""
    reason: Annotated[Text, Field(max_length=1000)]
    """The reason, for reviewers. Every report shows it."""
    until: Day
    """The last day. From the next day on, mpigen writes no release with this relaxation. The cluster does not change by
    itself."""

    @model_validator(mode="after")
    def _require_target(self) -> Self:
        if self.rule == POD_SECURITY and self.to is None:
            raise invalid("`pod-security` needs `to`", "add `to: memlock`, baseline or privileged")
        if self.rule != POD_SECURITY and self.to is not None:
            raise invalid(f"`{self.rule}` has no levels", "remove `to`")
        return self


AccessMode = Literal["ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce", "ReadWriteOncePod"]


def _is_something(value: str) -> str:
    if quantities.parse(value).value <= 0:
        raise invalid(f"{format_value(value)} is not a size", "write it like 500Gi or 10Ti")
    return value


class DataVolume(Section):
    """A PersistentVolumeClaim in each of the team's namespaces. Argo CD only deletes it after confirmation."""

    name: Name
    """The name of the claim. `runtimes[].volumes[].claim` and jobs refer to it."""
    size: Annotated[Room, AfterValidator(_is_something)]
    """The size, such as `10Ti`. It can grow, but not shrink."""
    class_name: ClassName | None = Field(default=None, alias="class")
    """The StorageClass; one of `policies.storageClasses` if there are any. Default: that of the cluster."""
    access_modes: tuple[AccessMode, ...] = Field(default=("ReadWriteMany",), min_length=1)
    """The access modes. Hosts of one job share a volume, so they need `ReadWriteMany`, or `ReadOnlyMany` for data that
    they only read."""

    @field_validator("access_modes")
    @classmethod
    def _reject_duplicates(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        modes = tuple(sorted(set(value)))
        if "ReadWriteOncePod" in modes and len(modes) > 1:
            # kubernetes v1.34.2 pkg/apis/core/validation/validation.go validateAccessModes
            raise invalid("`ReadWriteOncePod` cannot be combined with other modes", "write it alone, or remove it")
        return modes


# The namespaces of Kubernetes and OpenShift, and the namespaces of Trainer, JobSet, Kueue and Argo CD.
_RESERVED = re.compile(r"default|kube-.*|openshift|openshift-.*|kubeflow-system|jobset-system|kueue-system|argocd")


def _is_free_namespace(value: str) -> str:
    if _RESERVED.fullmatch(value):
        raise invalid(f"`{value}` is a namespace of the cluster", "choose another name")
    return value


class Tenant(Section):
    """A team with its namespaces, quota and access."""

    name: Annotated[Name, AfterValidator(_is_free_namespace)]
    """The name of the team's first namespace and of its ClusterQueue."""
    namespaces: tuple[Annotated[Name, AfterValidator(_is_free_namespace)], ...] = ()
    """Further namespaces of the team, such as `team-cv-dev`, with the same queue and the same access."""
    quota: Annotated[Shares, Field(min_length=1)]
    """The nominal quota: nodes of a pool (`h100: 4`), resources of a pool (`h100: {nvidia.com/gpu: 20}`), or a resource
    that only one pool offers (`nvidia.com/gpu: 20`). Other resources are added in proportion."""
    borrow: Shares = Field(default={})
    """The borrowing limit, written like a quota: what the team can use of idle quota of others."""
    lend: Shares | None = None
    """The lending limit, written like a quota: what others can use of this quota while it is idle; resources left out
    are 0. Default: all of it."""
    dedicated: tuple[Name, ...] = ()
    """Pools whose nodes only run jobs of this team. No other team has a share of them, and taints and labels reject
    other pods."""
    preemption: Literal["never", "lower-priority", "reclaim"] = "reclaim"
    """The running jobs that Kueue may preempt for pending jobs of the team. `reclaim`: its own of lower priority, and
    jobs on quota that it lent. `lower-priority`: only its own of lower priority. `never`: none."""
    stop: Literal["none", "hold", "drain"] = "none"
    """The stop policy of the queue: `hold` admits no more jobs, `drain` also evicts running ones."""
    weight: Count = 1
    """The fair-share weight of the team. Needs `queues.fairSharing`."""
    cohort: Name | None = None
    """The cohort whose teams share quota with this team first. All cohorts are below that of the platform."""
    multi_kueue: Annotated[bool, Field(strict=True)] = False
    """If true, jobs of the team run on the clusters of `queues.multiKueue` and never on this one. Its quota then counts
    nodes of those clusters, and it shares only with such teams."""
    reservations: tuple[Reservation, ...] = ()
    """Additional quota until a day, such as before a deadline."""
    priorities: tuple[Name, ...] | None = None
    """The names in `queues.priorities` that jobs of the team may use. Default: all."""
    registries: tuple[Registry, ...] = ()
    """Allowed image registries in addition to `policies.images.registries`."""
    labels: dict[LabelKey, LabelValue] = Field(default={})
    """Labels of the namespaces, such as a cost centre. If `policies.labels` lists the key, TrainJobs must have the same
    value."""
    limits: Limits = Limits()
    """Limits of each namespace of the team."""
    access: Access = Access()
    """Users and groups with a role in the namespaces."""
    relax: tuple[Relaxation, ...] = ()
    """Rules that do not apply to the team until a day, each with a reason. Every report lists them."""
    egress: tuple[Egress, ...] = ()
    """Destinations outside the cluster that pods may reach. All others are denied."""
    fabrics: tuple[FabricShare, ...] = ()
    """Partitions of fabrics that belong to the team alone. Default: the partition of all teams without their own."""
    secrets: Secrets = Secrets()
    """Secrets that External Secrets fetches for the team. Neither this file nor a release holds their values."""
    volumes: tuple[DataVolume, ...] = ()
    """PersistentVolumeClaims for the team's data."""

    @field_validator("reservations", "egress", "fabrics", "volumes")
    @classmethod
    def _reject_duplicate_names(cls, value: tuple[Any, ...]) -> tuple[Any, ...]:
        require_unique((entry.name for entry in value), "give each entry its own name")
        return tuple(sorted(value, key=lambda entry: str(entry.name)))

    @field_validator("relax")
    @classmethod
    def _reject_duplicate_rules(cls, value: tuple[Relaxation, ...]) -> tuple[Relaxation, ...]:
        require_unique((relaxation.rule for relaxation in value), "relax each rule once")
        return tuple(sorted(value, key=lambda relaxation: relaxation.rule))

    @field_validator("labels")
    @classmethod
    def _are_free(cls, value: dict[str, str]) -> dict[str, str]:
        reject_reserved_labels(value)
        return dict(sorted(value.items()))

    @field_validator("namespaces", "priorities", "registries", "dedicated")
    @classmethod
    def _reject_duplicates(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if value is None else tuple(sorted(set(value)))

    @property
    def homes(self) -> tuple[Self, ...]:
        """Return the team once for each of its namespaces, with that namespace as its name."""
        alone = self.model_copy(update={"namespaces": ()})
        return (alone, *(alone.model_copy(update={"name": namespace}) for namespace in self.namespaces))

    @property
    def quotas(self) -> tuple[Shares, ...]:
        """Return its quota and its reservations."""
        return (self.quota, *(reservation.quota for reservation in self.reservations))

    @property
    def pod_security(self) -> Standard | None:
        """Return the relaxed Pod Security level of its pods; None if the platform's level applies."""
        return next((relaxation.to for relaxation in self.relax if relaxation.rule == POD_SECURITY), None)


class Cohort(Section):
    """A group of teams, or of groups."""

    name: Name
    """The name of the Cohort. `tenants[].cohort` and `parent` refer to it."""
    parent: Name | None = None
    """The Cohort above it. Default: the platform's own Cohort, which is above all others."""
    quota: Shares = Field(default={})
    """Quota of the group as a whole, which any of its teams can borrow; written like a team's quota."""
    borrow: Shares | None = None
    """The borrowing limit of the group, written like a quota; resources left out are 0. Default: no limit."""
    lend: Shares | None = None
    """The lending limit of the group, written like a quota; resources left out are 0. Default: all of its quota."""
    weight: Count = 1
    """The fair-share weight in its parent. Needs `queues.fairSharing`."""


def workers_cohort(platform: str) -> str:
    """Return the cohort of all tenants whose jobs run on other clusters."""
    return f"{platform}-{MULTI_KUEUE_CHECK}"


def remote_cohorts(tenants: Iterable[Tenant], cohorts: Iterable[Cohort]) -> AbstractSet[str]:
    """Return the cohorts of tenants whose jobs run on other clusters, with their ancestors and descendants.

    Kueue counts the quota of such tenants on this cluster and lends it like any other (v0.19.2 pkg/cache/scheduler
    ignores admission checks of lenders). It stands for nodes of other clusters, so these tenants have a cohort tree of
    their own.
    """
    tops = outermost_cohorts(cohorts)
    roots = {tops.get(tenant.cohort, tenant.cohort) for tenant in tenants if tenant.multi_kueue and tenant.cohort}
    return roots | {name for name, top in tops.items() if top in roots}


def outermost_cohorts(cohorts: Iterable[Cohort]) -> Mapping[str, str]:
    """Return cohort → its root. For a cycle, the root is always the same member."""
    parents = {cohort.name: cohort.parent for cohort in cohorts}
    tops: dict[str, str] = {}
    for name in parents:
        way = [name]
        while (parent := parents.get(way[-1])) and parent not in way and way[-1] not in tops:
            way.append(parent)
        top = tops.get(way[-1], way[-1])
        tops.update(dict.fromkeys(way, top))
    return tops
