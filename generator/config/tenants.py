"""`tenants`: the teams, each with a namespace, a share of the pools, and people who may do things there."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator

from generator.config.access import Access
from generator.config.data import DataVolume
from generator.config.egress import Egress
from generator.config.fabric_shares import FabricShare
from generator.config.fields import Count, LabelKey, LabelValue, Name, Section, each_once, free_labels, refusal
from generator.config.images import Registry
from generator.config.limits import Limits
from generator.config.relaxations import POD_SECURITY, Relaxation, Standard
from generator.config.reservations import Reservation
from generator.config.secrets import Secrets
from generator.config.shares import Shares

# The namespaces of Kubernetes and OpenShift, and those that Trainer, JobSet, Kueue and Argo CD install themselves into.
_RESERVED = re.compile(r"default|kube-.*|openshift|openshift-.*|kubeflow-system|jobset-system|kueue-system|argocd")


def _is_free(value: str) -> str:
    if _RESERVED.fullmatch(value):
        raise refusal(f"`{value}` is a namespace of the system", "choose a name that the cluster does not use itself")
    return value


class Tenant(Section):
    """One team."""

    name: Annotated[Name, AfterValidator(_is_free)]
    """The namespace's name, and the ClusterQueue's."""
    namespaces: tuple[Annotated[Name, AfterValidator(_is_free)], ...] = ()
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
        each_once((entry.name for entry in value), "give each its own name")
        return tuple(sorted(value, key=lambda entry: str(entry.name)))

    @field_validator("relax")
    @classmethod
    def _each_rule_once(cls, value: tuple[Relaxation, ...]) -> tuple[Relaxation, ...]:
        each_once((relaxation.rule for relaxation in value), "relax each rule once")
        return tuple(sorted(value, key=lambda relaxation: relaxation.rule))

    @field_validator("labels")
    @classmethod
    def _are_free(cls, value: dict[str, str]) -> dict[str, str]:
        free_labels(value)
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
