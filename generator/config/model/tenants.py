"""`tenants`: the teams, each with its namespaces, quota, access and limits."""

from __future__ import annotations

import datetime as dt
import re
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
from generator.config.model.quotas import Shares
from generator.config.model.secrets import Secrets
from generator.documents.messages import format_value


class Limits(Section):
    """Upper limits of a tenant's namespace, beside the quota that Kueue keeps."""

    train_jobs: Count = 1000
    """TrainJobs, finished ones included: Trainer removes none, and each keeps about eight other objects."""
    hosts_per_job: Count | None = None
    """Hosts of one TrainJob: the API server refuses a larger `numNodes`, whoever submits it. A job that says none has
    those of its runtime, which should not be more. Default: no limit but the queue's."""
    devices_per_host: Resources = Field(default={})
    """Devices that one host of a TrainJob may ask for in `resourcesPerNode`, such as `nvidia.com/gpu: 4`. Default: as
    many as a node has."""
    time_per_job: Duration | None = None
    """The longest `activeDeadlineSeconds` of a TrainJob, such as `72h`; a job that says none is refused then. Default:
    a job may run for ever."""
    volumes: Count | None = None
    """PersistentVolumeClaims. Default: no limit."""
    storage: Room | None = None
    """What all of them request together, such as `10Ti`. Default: no limit."""
    resources: Resources = Field(default={})
    """What all pods together may request of resources that Kueue admits, such as `nvidia.com/gpu: 40`, for pods that
    do not come by its queues; at least all that the team can ever be admitted to. Default: no limit."""


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
    """Quota that a team has until a day, on top of its own."""

    name: Name
    """What it is for, such as `neurips`."""
    quota: Annotated[Shares, Field(min_length=1)]
    """How much, in the forms of the team's quota."""
    until: Day
    """The last day. From the next on a finding says that it is over: nothing changes by itself in a cluster."""
    reason: Text
    """Why, for whoever reviews it."""


Standard = Literal["memlock", "baseline", "privileged"]
POD_SECURITY = "pod-security"
_OF_ALL = ("generated", "runtime-images")  # of objects that no tenant has


def _is_of_a_tenant(value: str) -> str:
    if value in _OF_ALL:
        raise invalid(f"`{value}` is about what all tenants share", "relax it for all, in `policies.admission.rules`")
    return value


class Relaxation(Section):
    """A rule that does not hold in the namespaces of a team until a day."""

    rule: Annotated[Literal[RuleName, "pod-security"], AfterValidator(_is_of_a_tenant)]
    """A rule of `policies.admission`, or `pod-security`."""
    to: Standard | None = None
    """Of `pod-security`: what is enforced instead. `memlock`: `restricted`, but for the capability IPC_LOCK, by which
    ranks lock the memory that RDMA uses. `baseline` and `privileged` are Kubernetes' own."""
    reason: Annotated[Text, Field(max_length=1000)]
    """Why, for whoever reviews it: it is said in every report."""
    until: Day
    """The last day. From the next on no release is written with it: nothing changes by itself in a cluster."""

    @model_validator(mode="after")
    def _says_to_what(self) -> Self:
        if self.rule == POD_SECURITY and self.to is None:
            raise invalid("`pod-security`, and not to what", "add `to: memlock`, baseline or privileged")
        if self.rule != POD_SECURITY and self.to is not None:
            raise invalid(f"`{self.rule}` holds or does not", "remove `to`")
        return self


AccessMode = Literal["ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce", "ReadWriteOncePod"]


def _is_something(value: str) -> str:
    if quantities.parse(value).value <= 0:
        raise invalid(f"{format_value(value)} is no room at all", "write it like 500Gi or 10Ti")
    return value


class DataVolume(Section):
    """A PersistentVolumeClaim in each of the team's namespaces. It goes only when a person confirms."""

    name: Name
    """Its name, which `runtimes[].volumes[].claim` and jobs say."""
    size: Annotated[Room, AfterValidator(_is_something)]
    """How much it holds, such as `10Ti`. It can grow, not shrink."""
    class_name: ClassName | None = Field(default=None, alias="class")
    """The StorageClass; one of `policies.storageClasses`, if there are any. Default: the cluster's."""
    access_modes: tuple[AccessMode, ...] = Field(default=("ReadWriteMany",), min_length=1)
    """Who uses it at once. Hosts of one job do: `ReadWriteMany`, or `ReadOnlyMany` for what they only read."""

    @field_validator("access_modes")
    @classmethod
    def _each_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        modes = tuple(sorted(set(value)))
        if "ReadWriteOncePod" in modes and len(modes) > 1:
            # kubernetes v1.34.2 pkg/apis/core/validation/validation.go validateAccessModes
            raise invalid("`ReadWriteOncePod` stands with no other", "write it alone, or leave it out")
        return modes


# The namespaces of Kubernetes and OpenShift, and those that Trainer, JobSet, Kueue and Argo CD install themselves into.
_RESERVED = re.compile(r"default|kube-.*|openshift|openshift-.*|kubeflow-system|jobset-system|kueue-system|argocd")


def _is_free_namespace(value: str) -> str:
    if _RESERVED.fullmatch(value):
        raise invalid(f"`{value}` is a namespace of the system", "choose a name that the cluster does not use itself")
    return value


class Tenant(Section):
    """One team."""

    name: Annotated[Name, AfterValidator(_is_free_namespace)]
    """The namespace's name, and the ClusterQueue's."""
    namespaces: tuple[Annotated[Name, AfterValidator(_is_free_namespace)], ...] = ()
    """More namespaces of the team, such as `team-cv-dev`: alike, and with the same queue and the same people."""
    quota: Annotated[Shares, Field(min_length=1)]
    """What the team always has: nodes of a pool (`h100: 4`), resources of a pool (`h100: {nvidia.com/gpu: 20}`), or a
    resource that only one pool offers (`nvidia.com/gpu: 20`). Resources left out come along in proportion."""
    borrow: Shares = Field(default={})
    """What it may use beyond that while others leave it idle, in the same forms."""
    lend: Shares | None = None
    """What of its quota others may use while it is idle, in the same forms; of what is left out, nothing. Default: all
    of it."""
    dedicated: tuple[Name, ...] = ()
    """Pools whose nodes run no other team's jobs. Nobody else has a share of them, and taints and labels keep others
    off."""
    preemption: Literal["never", "lower-priority", "reclaim"] = "reclaim"
    """Whose running jobs may be stopped for the team's waiting ones. `reclaim`: its own of lower priority, and whoever
    uses the quota that it lent. `lower-priority`: of both only those of lower priority. `never`: nobody's."""
    stop: Literal["none", "hold", "drain"] = "none"
    """Whether the queue is closed: `hold` admits no more jobs, `drain` also stops those that run."""
    weight: Count = 1
    """Its share of what is borrowed. Needs `queues.fairSharing`."""
    cohort: Name | None = None
    """The group of teams it lends to and borrows from first; all groups share the platform's cohort."""
    multi_kueue: Annotated[bool, Field(strict=True)] = False
    """Whether its jobs run on the clusters of `queues.multiKueue`, and none on this one. Its quota is then of the nodes
    over there, and it shares with others of its kind alone."""
    reservations: tuple[Reservation, ...] = ()
    """Quota beyond its own until a day, such as before a deadline."""
    priorities: tuple[Name, ...] | None = None
    """Which of `queues.priorities` its jobs may name. Default: all."""
    registries: tuple[Registry, ...] = ()
    """Where its images may come from beside `policies.images.registries`."""
    labels: dict[LabelKey, LabelValue] = Field(default={})
    """Labels of its namespaces, such as a cost centre; where `policies.labels` names one, its TrainJobs must have the
    same."""
    limits: Limits = Limits()
    """How many objects its namespace holds at most."""
    access: Access = Access()
    """Who may do what."""
    relax: tuple[Relaxation, ...] = ()
    """Defaults that do not hold for it, each with a reason and an end; every report says so."""
    egress: tuple[Egress, ...] = ()
    """What its pods may reach outside the cluster; everything else is denied."""
    fabrics: tuple[FabricShare, ...] = ()
    """Partitions of fabrics that are its own. Default: it shares each with all who have none of their own."""
    secrets: Secrets = Secrets()
    """What External Secrets fetches for it. No value of a secret stands in this file, nor in a release."""
    volumes: tuple[DataVolume, ...] = ()
    """PersistentVolumeClaims for its data."""

    @field_validator("reservations", "egress", "fabrics", "volumes")
    @classmethod
    def _each_named_once(cls, value: tuple[Any, ...]) -> tuple[Any, ...]:
        require_unique((entry.name for entry in value), "give each its own name")
        return tuple(sorted(value, key=lambda entry: str(entry.name)))

    @field_validator("relax")
    @classmethod
    def _each_rule_once(cls, value: tuple[Relaxation, ...]) -> tuple[Relaxation, ...]:
        require_unique((relaxation.rule for relaxation in value), "relax each rule once")
        return tuple(sorted(value, key=lambda relaxation: relaxation.rule))

    @field_validator("labels")
    @classmethod
    def _are_free(cls, value: dict[str, str]) -> dict[str, str]:
        reject_reserved_labels(value)
        return dict(sorted(value.items()))

    @field_validator("namespaces", "priorities", "registries", "dedicated")
    @classmethod
    def _each_once(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if value is None else tuple(sorted(set(value)))

    @property
    def homes(self) -> tuple[Self, ...]:
        """The team in each of its namespaces, as if it had no other: first in the one of its name."""
        alone = self.model_copy(update={"namespaces": ()})
        return (alone, *(alone.model_copy(update={"name": namespace}) for namespace in self.namespaces))

    @property
    def quotas(self) -> tuple[Shares, ...]:
        """All that it always has: its own quota, and what is reserved for it."""
        return (self.quota, *(reservation.quota for reservation in self.reservations))

    @property
    def pod_security(self) -> Standard | None:
        """What its pods are held to instead of the platform's standard; None where that holds."""
        return next((each.to for each in self.relax if each.rule == POD_SECURITY), None)
