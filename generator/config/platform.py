"""Platform: the whole file as one frozen value. Whatever order its lists were written in, equal platforms are equal."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails

from generator.config.access import SUPERUSERS, Callers, PlatformAccess, callers, in_reach
from generator.config.cluster import Cluster
from generator.config.cohorts import Cohort
from generator.config.compliance import unmet
from generator.config.counting import Supply, supply
from generator.config.draft import Draft, suggestion
from generator.config.elsewhere import cohorts_elsewhere, root_of_workers
from generator.config.fabrics import Fabric
from generator.config.fields import Name, Section, refusal
from generator.config.gitops import GitOps
from generator.config.isolation import Isolation, impossible, unnameable
from generator.config.policies import Policies
from generator.config.pools import Pool
from generator.config.queues import Queues, forgetful, inexpressible
from generator.config.references import contradictions
from generator.config.runtimes import Runtime
from generator.config.tenants import Tenant
from generator.documents.syntax import shown

_SEMVER = re.compile(r"(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?")


def _is_text(value: Any) -> Any:
    if isinstance(value, int | float):
        raise refusal(f"{shown(value)} is not a text", "write three numbers with dots, such as 1.0.0")
    return value


def _is_release(value: str) -> str:
    if not _SEMVER.fullmatch(value):
        raise refusal(f"{shown(value)} is not a semantic version", "write three numbers with dots, such as 1.0.0")
    return value


def _is_own(value: str) -> str:
    if value in ("argocd", "default"):
        # `argocd` is a folder of the output, `default` a project that Argo CD keeps for itself.
        raise refusal(f"`{value}` is taken", "name the platform after its cluster, such as prod-east")
    return value


class Platform(Section):
    """Everything that one cluster's training platform consists of."""

    platform: Annotated[Name, AfterValidator(_is_own)]
    """The platform's name: a folder of the output, the root Cohort, and the Argo CD Application."""
    release: Annotated[str, BeforeValidator(_is_text), AfterValidator(_is_release)]
    """The release that this file describes, as a semantic version. A release never changes: for a change, raise it."""
    cluster: Cluster = Cluster()
    """What it runs on."""
    fabrics: tuple[Fabric, ...] = ()
    """What ranks send their data over, beside the network of pods."""
    pools: tuple[Pool, ...] = Field(min_length=1)
    """Groups of identical nodes."""
    runtimes: tuple[Runtime, ...] = ()
    """Ways to launch MPI."""
    tenants: tuple[Tenant, ...] = ()
    """Teams."""
    cohorts: tuple[Cohort, ...] = ()
    """Groups of teams. Default: those that tenants name, side by side."""
    policies: Policies = Policies()
    """What holds for every tenant."""
    access: PlatformAccess = PlatformAccess()
    """Who runs the platform."""
    isolation: Isolation = Isolation()
    """Who reaches whom over the network."""
    queues: Queues = Queues()
    """How Kueue is to work."""
    gitops: GitOps | None = Field(default=None, validate_default=True)
    """Who applies the tree. Left out: plain YAML only."""

    @field_validator("pools")
    @classmethod
    def _can_be_placed(cls, value: tuple[Pool, ...], info: ValidationInfo) -> tuple[Pool, ...]:
        """Kueue 0.18 may give launcher and host one node that has room for one of them, where the job then stays.

        Seen with kueue v0.18.3; mended by kubernetes-sigs/kueue#13383.
        """
        cluster = info.data.get("cluster")
        is_old = isinstance(cluster, Cluster) and cluster.versions.kueue == "0.18"
        refused = refusal("Kueue 0.18 places launcher and hosts wrongly", "remove it, or go on to Kueue 0.19")
        errors = [
            InitErrorDetails(type=refused, loc=(index, "topology"), input=None)
            for index, pool in enumerate(value)
            if is_old and pool.topology
        ]
        if errors:
            raise ValidationError.from_exception_data("Platform", errors)
        return value

    @field_validator("fabrics")
    @classmethod
    def _can_be_claimed(cls, value: tuple[Fabric, ...], info: ValidationInfo) -> tuple[Fabric, ...]:
        """Kubernetes 1.34 is the first that has DeviceClasses and claims for good."""
        cluster = info.data.get("cluster")
        is_old = isinstance(cluster, Cluster) and cluster.versions.kubernetes == "1.33"
        refused = refusal("Kubernetes 1.33 has no resource.k8s.io/v1", "go on to Kubernetes 1.34")
        errors = [
            InitErrorDetails(type=refused, loc=(index, "attach"), input=None)
            for index, fabric in enumerate(value)
            if is_old and fabric.attached == "dra"
        ]
        if errors:
            raise ValidationError.from_exception_data("Platform", errors)
        return value

    @field_validator("pools")
    @classmethod
    def _are_wired(cls, value: tuple[Pool, ...], info: ValidationInfo) -> tuple[Pool, ...]:
        return tuple(pool.wired(info.data.get("fabrics", ())) for pool in value)

    @field_validator("isolation", "tenants")
    @classmethod
    def _can_be_enforced(cls, value: Isolation | tuple[Tenant, ...], info: ValidationInfo) -> Any:
        cluster = info.data.get("cluster")
        if not isinstance(cluster, Cluster):
            return value
        found = impossible(value, cluster) if isinstance(value, Isolation) else unnameable(value, cluster)
        errors = [InitErrorDetails(type=error, loc=path, input=None) for path, error in found]
        if errors:
            raise ValidationError.from_exception_data("Platform", errors)
        return value

    @field_validator("fabrics", "pools", "runtimes", "tenants", "cohorts")
    @classmethod
    def _in_order(cls, value: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(sorted(value, key=lambda entry: entry.name))

    @field_validator("policies")
    @classmethod
    def _are_as_strict_as_their_profile(cls, value: Policies, info: ValidationInfo) -> Policies:
        found = unmet(value, info.data.get("cluster"))
        errors = [InitErrorDetails(type=error, loc=path, input=None) for path, error in found]
        if errors:
            raise ValidationError.from_exception_data("Platform", errors)
        return value

    @field_validator("queues")
    @classmethod
    def _can_be_told(cls, value: Queues, info: ValidationInfo) -> Queues:
        cluster, policies = info.data.get("cluster"), info.data.get("policies")
        refused = inexpressible(value, cluster) if isinstance(cluster, Cluster) else {}
        if isinstance(policies, Policies):
            refused |= forgetful(value, policies.retention.jobs or 0)
        errors = [InitErrorDetails(type=error, loc=(field,), input=None) for field, error in refused.items()]
        if errors:
            raise ValidationError.from_exception_data("Platform", errors)
        return value

    @field_validator("access")
    @classmethod
    def _is_in_good_hands(cls, value: PlatformAccess, info: ValidationInfo) -> PlatformAccess:
        """No tenant's people can act as those who run the platform."""
        namespaces = _namespaces(info)
        errors = [
            InitErrorDetails(type=refusal(why, "name somebody else"), loc=(persona,), input=None)
            for persona in ("admin", "ci")
            for subject in getattr(value, persona)
            if (why := in_reach(subject, namespaces))
        ]
        if errors:
            raise ValidationError.from_exception_data("Platform", errors)
        return value

    @field_validator("gitops")
    @classmethod
    def _changes_by_somebodys_hands(cls, value: GitOps | None, info: ValidationInfo) -> GitOps | None:
        """Without anybody who may, there is no rule `generated` either, and everybody may."""
        policies, access = info.data.get("policies"), info.data.get("access")
        is_regulated = isinstance(policies, Policies) and policies.profile == "regulated"
        if value is None and is_regulated and isinstance(access, PlatformAccess) and not access.admin:
            what = "nobody is named who changes the platform: the profile `regulated` demands it"
            raise refusal(what, "name who applies it in `gitops`, or people in `access: {admin: [group:…]}`")
        return value

    @field_validator("gitops")
    @classmethod
    def _has_an_account_of_its_own(cls, value: GitOps | None, info: ValidationInfo) -> GitOps | None:
        cluster = info.data.get("cluster")
        if value is None or not isinstance(cluster, Cluster):
            return value
        if why := value.account_unknown(cluster) or in_reach(value.account_on(cluster), _namespaces(info)):
            error = refusal(why, "write serviceaccount:NAMESPACE/NAME of Argo CD's application controller")
            details = [InitErrorDetails(type=error, loc=("serviceAccount",), input=None)]
            raise ValidationError.from_exception_data("Platform", details)
        return value

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        errors = [
            InitErrorDetails(type=refusal(found.message, found.fix), loc=self._by_name(found.path), input=None)
            for found in contradictions(Draft.of(self))
        ]
        if errors:
            raise ValidationError.from_exception_data("Platform", errors)
        return self

    def _by_name(self, path: tuple[str | int, ...]) -> tuple[str | int, ...]:
        """Name the entry instead of its position, which sorting has changed."""
        section, index, *rest = path
        return (section, getattr(self, str(section))[index].name, *rest)

    def pool(self, name: str) -> Pool:
        """The pool of that name.

        Raises:
            KeyError: there is none; with the nearest name.
        """
        by_name = {pool.name: pool for pool in self.pools}
        if name not in by_name:
            raise KeyError(f"there is no pool `{name}`; {suggestion(name, by_name)}")
        return by_name[name]

    @property
    def operators(self) -> Callers:
        """Who may change what the platform consists of: its admins, what applies it, and who may do anything anyhow."""
        applier = [self.gitops.account_on(self.cluster)] if self.gitops else []
        return callers([*self.access.admin, *applier, f"group:{SUPERUSERS}"])

    def cohort_of(self, tenant: Tenant) -> str:
        """The cohort right above a tenant's queue: its own group, or that which holds all others of its kind."""
        if tenant.cohort:
            return tenant.cohort
        return root_of_workers(self.platform) if tenant.multi_kueue else self.platform

    @cached_property
    def supplies(self) -> tuple[Supply, ...]:
        """The pools as quotas know them."""
        return tuple(supply(pool, self.queues.counting) for pool in self.pools)

    @cached_property
    def cohorts_elsewhere(self) -> AbstractSet[str]:
        """The groups of tenants whose jobs run on other clusters."""
        return cohorts_elsewhere(self.tenants, self.cohorts)

    def digest(self) -> str:
        """SHA-256, in hexadecimal, of all but the release number: the same for every spelling of the same platform."""
        content = self.model_dump(mode="json", by_alias=True, exclude={"release"}, exclude_defaults=True)
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()


def _namespaces(info: ValidationInfo) -> set[str]:
    return {home.name for tenant in info.data.get("tenants", ()) for home in tenant.homes}
