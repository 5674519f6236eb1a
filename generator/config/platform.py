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

from generator.config.mistakes import contradicted
from generator.config.model.access import SUPERUSERS, Callers, PlatformAccess, to_callers
from generator.config.model.cluster import Cluster
from generator.config.model.cohorts import Cohort, remote_cohorts, workers_cohort
from generator.config.model.fabrics import Fabric
from generator.config.model.fields import Name, Section, invalid
from generator.config.model.gitops import GitOps
from generator.config.model.isolation import Isolation
from generator.config.model.policies import Policies
from generator.config.model.pools import Pool
from generator.config.model.queues import Queues
from generator.config.model.quotas import Supply, pool_supply
from generator.config.model.runtimes import Runtime
from generator.config.model.tenants import Tenant
from generator.config.rules.partial import PartialPlatform
from generator.config.rules.references import contradictions
from generator.documents.messages import format_value
from generator.errors import suggest

SORTED = ("fabrics", "pools", "runtimes", "tenants", "cohorts")
"""The sections that are lists of named entries. A Platform holds each of them sorted by name."""
_SEMVER = re.compile(r"(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?")


def _is_text(value: Any) -> Any:
    if isinstance(value, int | float):
        raise invalid(f"{format_value(value)} is not a text", "write three numbers with dots, such as 1.0.0")
    return value


def _is_release(value: str) -> str:
    if not _SEMVER.fullmatch(value):
        raise invalid(
            f"{format_value(value)} is not a semantic version", "write three numbers with dots, such as 1.0.0"
        )
    return value


def _is_own(value: str) -> str:
    if value in ("argocd", "default"):
        # `argocd` is a folder of the output, `default` a project that Argo CD keeps for itself.
        raise invalid(f"`{value}` is taken", "name the platform after its cluster, such as prod-east")
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
    gitops: GitOps | None = None
    """Who applies the tree. Left out: plain YAML only."""

    @field_validator("pools")
    @classmethod
    def _are_wired(cls, value: tuple[Pool, ...], info: ValidationInfo) -> tuple[Pool, ...]:
        return tuple(pool.wired(info.data.get("fabrics", ())) for pool in value)

    @field_validator(*SORTED)
    @classmethod
    def _in_order(cls, value: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(sorted(value, key=lambda entry: entry.name))

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        """Apply every rule between sections, so that whatever refuses a platform also has the words for it."""
        errors = [
            InitErrorDetails(type=contradicted(found), loc=self._by_name(found.path), input=None)
            for found in contradictions(self._as_draft())
        ]
        if errors:
            raise ValidationError.from_exception_data("Platform", errors)
        return self

    def _as_draft(self) -> PartialPlatform:
        """Return the sections as the rules between sections take them: here all are valid."""
        return PartialPlatform(
            platform=self.platform,
            pools=dict(enumerate(self.pools)),
            runtimes=dict(enumerate(self.runtimes)),
            tenants=dict(enumerate(self.tenants)),
            cohorts=dict(enumerate(self.cohorts)),
            fabrics=dict(enumerate(self.fabrics)),
            declared={
                **{section: tuple(entry.name for entry in getattr(self, section)) for section in SORTED},
                "priorities": tuple(priority.name for priority in self.queues.priorities),
            },
            cluster=self.cluster,
            policies=self.policies,
            access=self.access,
            isolation=self.isolation,
            queues=self.queues,
            gitops=self.gitops,
            is_openshift=self.cluster.is_openshift,
        )

    def _by_name(self, path: tuple[str | int, ...]) -> tuple[str | int, ...]:
        """Replace the position of an entry, which sorting has changed, by its name."""
        match path:
            case (str(section), int(index), *rest) if section in SORTED:
                return (section, getattr(self, section)[index].name, *rest)
        return path

    def pool(self, name: str) -> Pool:
        """The pool of that name.

        Raises:
            KeyError: there is none; with the nearest name.
        """
        by_name = {pool.name: pool for pool in self.pools}
        if name not in by_name:
            raise KeyError(f"there is no pool `{name}`; {suggest(name, by_name)}")
        return by_name[name]

    @property
    def operators(self) -> Callers:
        """Who may change what the platform consists of: its admins, what applies it, and who may do anything anyhow."""
        applier = [self.gitops.account_on(self.cluster)] if self.gitops else []
        return to_callers([*self.access.admin, *applier, f"group:{SUPERUSERS}"])

    def cohort_of(self, tenant: Tenant) -> str:
        """The cohort right above a tenant's queue: its own group, or that which holds all others of its kind."""
        if tenant.cohort:
            return tenant.cohort
        return workers_cohort(self.platform) if tenant.multi_kueue else self.platform

    @cached_property
    def supplies(self) -> tuple[Supply, ...]:
        """The pools as quotas know them."""
        return tuple(pool_supply(pool, self.queues.counting) for pool in self.pools)

    @cached_property
    def cohorts_elsewhere(self) -> AbstractSet[str]:
        """The groups of tenants whose jobs run on other clusters."""
        return remote_cohorts(self.tenants, self.cohorts)

    def digest(self) -> str:
        """SHA-256, in hexadecimal, of all but the release number: the same for every spelling of the same platform."""
        content = self.model_dump(mode="json", by_alias=True, exclude={"release"}, exclude_defaults=True)
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()
