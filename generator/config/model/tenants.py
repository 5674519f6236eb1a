"""`tenants` and `cohorts`: the teams with their namespaces, quota and access, and the groups that share quota."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from generator import quantities
from generator.config.model.access import Access
from generator.config.model.fabric_parts import FabricShare
from generator.config.model.fields import (
    Count,
    Duration,
    Flag,
    Labels,
    Name,
    NamedOf,
    Resources,
    Room,
    Section,
    SetOf,
    String,
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
    """Upper limits of each namespace of a tenant, in addition to its quota in Kueue."""

    train_jobs: Count = 1000
    """The maximum number of TrainJobs, including finished ones. Trainer deletes no TrainJobs, and each has about eight
    other objects."""
    hosts_per_job: Count | None = None
    """The maximum number of hosts of one TrainJob. The API server rejects a larger `numNodes`. A job without `numNodes`
    has the number of hosts of its runtime. Default: no limit except the quota."""
    devices_per_host: Resources = Field(default={})
    """The maximum number of devices that one host may request in `resourcesPerNode`, such as `nvidia.com/gpu: 4`.
    Default: all devices of a node."""
    time_per_job: Duration | None = None
    """The maximum `activeDeadlineSeconds` of a TrainJob, such as `72h`. The API server then rejects jobs without a
    deadline. Default: no limit."""
    volumes: Count | None = None
    """The maximum number of PersistentVolumeClaims. Default: no limit."""
    storage: Room | None = None
    """The maximum sum of the requests of all PersistentVolumeClaims, such as `10Ti`. Default: no limit."""
    resources: Resources = Field(default={})
    """The maximum sum of the requests of all pods, such as `nvidia.com/gpu: 40`. It also limits pods that bypass Kueue,
    and must be at least the quota. Default: no limit."""


def _is_day(value: str) -> str:
    try:
        day = dt.date.fromisoformat(value)
    except ValueError:
        day = None
    if day is None or day.isoformat() != value:
        raise invalid(f"{format_value(value)} is not a day", "write it like 2027-03-31")
    return value


Day = Annotated[String, AfterValidator(_is_day)]
"""A day in the form `2027-03-31`."""


class Reservation(Section):
    """Quota that a team has until a day, in addition to its own."""

    name: Name
    """The name of the reservation, such as `neurips`."""
    quota: Annotated[Shares, Field(min_length=1)]
    """The reserved amounts, such as `h100: 2`, written like the team's quota."""
    until: Day
    """The last day of the reservation, such as `2027-03-31`. From the next day on, a finding reports that the
    reservation has expired. The cluster keeps the quota until you remove the reservation."""
    reason: Text
    """The reason for the reservation, for reviewers."""


Standard = Literal["memlock", "baseline", "privileged"]
POD_SECURITY = "pod-security"
_OF_ALL = ("generated", "runtime-images")  # rules for objects that all tenants share


def _is_of_a_tenant(value: str) -> str:
    if value in _OF_ALL:
        message = f"the rule `{value}` checks objects that all tenants share, so one tenant cannot relax it"
        raise invalid(message, "set the action of this rule for all tenants in `policies.admission.rules`")
    return value


class Relaxation(Section):
    """An admission rule or Pod Security level that does not apply to a team until a day."""

    rule: Annotated[Literal[RuleName, "pod-security"], AfterValidator(_is_of_a_tenant)]
    """The rule to relax: a rule of `policies.admission`, or `pod-security`."""
    to: Standard | None = None
    """The Pod Security level that is enforced instead. Only for `pod-security`. `memlock` is `restricted` with the
    capability IPC_LOCK, with which ranks lock memory for RDMA. `baseline` and `privileged` are levels of Kubernetes."""
    reason: Annotated[Text, Field(max_length=1000)]
    """The reason for the relaxation, for reviewers. Every report repeats it."""
    until: Day
    """The last day of the relaxation, such as `2027-03-31`. From the next day on, mpigen writes no release with this
    relaxation. The cluster keeps it until you apply a release without it."""

    @model_validator(mode="after")
    def _require_target(self) -> Self:
        if self.rule == POD_SECURITY and self.to is None:
            raise invalid("`pod-security` needs `to`", "add `to: memlock`, `to: baseline` or `to: privileged`")
        if self.rule != POD_SECURITY and self.to is not None:
            raise invalid(f"`to` sets a Pod Security level, and the rule `{self.rule}` has none", "remove `to`")
        return self


AccessMode = Literal["ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce", "ReadWriteOncePod"]


def _is_positive(value: str) -> str:
    if quantities.parse(value).value <= 0:
        raise invalid(f"{format_value(value)} is not a size", "write it like 500Gi or 10Ti")
    return value


class DataVolume(Section):
    """A PersistentVolumeClaim in each of the team's namespaces. Argo CD only deletes it after confirmation."""

    name: Name
    """The name of the claim, such as `datasets`. `runtimes[].volumes[].claim` and jobs refer to it."""
    size: Annotated[Room, AfterValidator(_is_positive)]
    """The requested size, such as `10Ti`. You can increase it later, but not decrease it."""
    class_name: ClassName | None = Field(default=None, alias="class")
    """The StorageClass, one of `policies.storageClasses` if that list is not empty. Default: the default class of the
    cluster."""
    access_modes: SetOf[AccessMode] = Field(default=("ReadWriteMany",), min_length=1)
    """The access modes. Hosts of one job share a volume, so they need `ReadWriteMany`, or `ReadOnlyMany` for data that
    they only read."""

    @field_validator("access_modes")
    @classmethod
    def _are_compatible(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if "ReadWriteOncePod" in value and len(value) > 1:
            # kubernetes v1.34.2 pkg/apis/core/validation/validation.go validateAccessModes
            raise invalid("`ReadWriteOncePod` cannot be combined with other modes", "write it alone, or remove it")
        return value


# The namespaces of Kubernetes and OpenShift, and the namespaces of Trainer, JobSet, Kueue and Argo CD.
_RESERVED = re.compile(r"default|kube-.*|openshift|openshift-.*|kubeflow-system|jobset-system|kueue-system|argocd")


def _is_free_namespace(value: str) -> str:
    if _RESERVED.fullmatch(value):
        raise invalid(f"`{value}` is a namespace of the cluster", "choose another name")
    return value


class Tenant(Section):
    """A team with its namespaces, quota and access."""

    name: Annotated[Name, AfterValidator(_is_free_namespace)]
    """The name of the team, such as `team-cv`. It names the team's first namespace and its ClusterQueue."""
    namespaces: SetOf[Annotated[Name, AfterValidator(_is_free_namespace)]] = ()
    """Further namespaces of the team, such as `team-cv-dev`, with the same queue and the same access."""
    quota: Annotated[Shares, Field(min_length=1)]
    """The nominal quota: nodes of a pool (`h100: 4`), resources of a pool (`h100: {nvidia.com/gpu: 20}`), or a resource
    that only one pool offers (`nvidia.com/gpu: 20`). mpigen adds the other resources of the pool in proportion."""
    borrow: Shares = Field(default={})
    """The borrowing limit: the idle quota of other teams that the team can use, written like a quota. Default: none."""
    lend: Shares | None = None
    """The lending limit: the idle quota of the team that other teams can use, written like a quota. A resource that is
    not listed has the limit 0. Default: all of the quota."""
    dedicated: SetOf[Name] = ()
    """The pools whose nodes run only jobs of this team. No other team can have quota in them, and taints and labels
    reject other pods."""
    preemption: Literal["never", "lower-priority", "reclaim"] = "reclaim"
    """The running jobs that Kueue may preempt for pending jobs of the team. `reclaim`: the team's jobs of lower
    priority, and jobs of others on quota that the team lent. `lower-priority`: only the team's jobs of lower priority.
    `never`: none."""
    stop: Literal["none", "hold", "drain"] = "none"
    """The stop policy of the team's ClusterQueue. `hold`: Kueue admits no more jobs. `drain`: Kueue also evicts running
    jobs."""
    weight: Count = 1
    """The fair-share weight of the team. Needs `queues.fairSharing`."""
    cohort: Name | None = None
    """The cohort whose teams share quota with this team first, such as `physics`. Default: the cohort of the platform,
    the root of all cohorts."""
    multi_kueue: Flag = False
    """If true, jobs of the team run on the clusters of `queues.multiKueue`, never on this cluster. The quota then
    counts nodes of those clusters, and the team shares quota only with teams that also set `multiKueue`."""
    reservations: NamedOf[Reservation] = ()
    """Additional quota until a day, such as before a deadline."""
    priorities: SetOf[Name] | None = None
    """The names in `queues.priorities` that jobs of the team may use, such as `[research]`. Default: all."""
    registries: SetOf[Registry] = ()
    """The image registries that the team may use in addition to `policies.images.registries`, such as
    `ghcr.io/acme/`."""
    labels: Annotated[Labels, AfterValidator(reject_reserved_labels)] = Field(default={})
    """Labels of the namespaces, such as a cost centre. If `policies.labels` lists a key, TrainJobs must have the same
    value."""
    limits: Limits = Limits()
    """Upper limits of each namespace of the team."""
    access: Access = Access()
    """The users, groups and ServiceAccounts with a role in the namespaces."""
    relax: tuple[Relaxation, ...] = ()
    """Rules that do not apply to the team until a day, each with a reason. Every report lists them."""
    egress: NamedOf[Egress] = ()
    """The destinations outside the cluster that pods may reach. All other destinations are denied."""
    fabrics: NamedOf[FabricShare] = ()
    """The partitions of fabrics that belong to this team alone. Default: the partition that all teams without their own
    share."""
    secrets: Secrets = Secrets()
    """The Secrets that External Secrets fetches for the team. Neither this file nor a release holds their values."""
    volumes: NamedOf[DataVolume] = ()
    """PersistentVolumeClaims for the team's data."""

    @field_validator("relax")
    @classmethod
    def _reject_duplicate_rules(cls, value: tuple[Relaxation, ...]) -> tuple[Relaxation, ...]:
        require_unique((relaxation.rule for relaxation in value), "write one relaxation for each rule")
        return tuple(sorted(value, key=lambda relaxation: relaxation.rule))

    @property
    def homes(self) -> tuple[Self, ...]:
        """Return a copy of the team for each of its namespaces. The name of a copy is the namespace."""
        alone = self.model_copy(update={"namespaces": ()})
        return (alone, *(alone.model_copy(update={"name": namespace}) for namespace in self.namespaces))

    @property
    def quotas(self) -> tuple[Shares, ...]:
        """Return the quota and the reservations of the team."""
        return (self.quota, *(reservation.quota for reservation in self.reservations))

    @property
    def pod_security(self) -> Standard | None:
        """Return the relaxed Pod Security level of the team's pods; None if the platform's level applies."""
        return next((relaxation.to for relaxation in self.relax if relaxation.rule == POD_SECURITY), None)


class Cohort(Section):
    """A group of teams, or of other cohorts, that share quota with each other first."""

    name: Name
    """The name of the Cohort, such as `physics`. `tenants[].cohort` and `parent` refer to it."""
    parent: Name | None = None
    """The name of the parent Cohort. Default: the platform's own Cohort, the root of all cohorts."""
    quota: Shares = Field(default={})
    """The nominal quota of the group as a whole, such as `h100: 2`. Any team of the group can borrow it. Default:
    none."""
    borrow: Shares | None = None
    """The borrowing limit of the group, such as `h100: 4`. A resource that is not listed has the limit 0. Default: no
    limit."""
    lend: Shares | None = None
    """The lending limit of the group, such as `h100: 1`. A resource that is not listed has the limit 0. Default: all of
    its quota."""
    weight: Count = 1
    """The fair-share weight among the children of its parent. Needs `queues.fairSharing`."""


def workers_cohort(platform: str) -> str:
    """Return the cohort of all tenants whose jobs run on other clusters."""
    return f"{platform}-{MULTI_KUEUE_CHECK}"


def remote_cohorts(tenants: Iterable[Tenant], cohorts: Iterable[Cohort]) -> AbstractSet[str]:
    """Return the cohorts of tenants whose jobs run on other clusters, with their ancestors and descendants.

    Kueue counts the quota of such tenants on this cluster and lends it like any other (v0.19.2 pkg/cache/scheduler
    ignores admission checks of lenders). But this quota is for nodes of other clusters, so these tenants have a cohort
    tree of their own.
    """
    tops = outermost_cohorts(cohorts)
    roots = {tops.get(tenant.cohort, tenant.cohort) for tenant in tenants if tenant.multi_kueue and tenant.cohort}
    return roots | {name for name, top in tops.items() if top in roots}


def outermost_cohorts(cohorts: Iterable[Cohort]) -> Mapping[str, str]:
    """Return cohort → the root of its tree. All cohorts of a cycle have the same root, one of the cycle's cohorts."""
    parents = {cohort.name: cohort.parent for cohort in cohorts}
    tops: dict[str, str] = {}
    for name in parents:
        way = [name]
        while (parent := parents.get(way[-1])) and parent not in way and way[-1] not in tops:
            way.append(parent)
        top = tops.get(way[-1], way[-1])
        tops.update(dict.fromkeys(way, top))
    return tops
