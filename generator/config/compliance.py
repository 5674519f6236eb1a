"""`policies.profile`, and what it can demand: where nodes are, where data is written, how long records are kept.

What each of it serves, and who enforces it: docs/explanations/compliance.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from generator.config.fields import Count, LabelKey, LabelValue, Section, Unmet, refusal
from generator.documents.syntax import shown

if TYPE_CHECKING:
    from generator.config.policies import Policies

Profile = Literal["standard", "regulated"]

AUDIT = "audit/policy.yaml"
"""The file of a release that says what the API server logs: for people to apply, since it is the whole cluster's."""

_PART = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_CLASS = re.compile(rf"(?=.{{1,253}}$){_PART}(?:\.{_PART})*")


def _is_class(value: str) -> str:
    if not _CLASS.fullmatch(value):  # a DNS subdomain: kubernetes v1.34.2 pkg/apis/storage/validation/validation.go
        raise refusal(f"{shown(value)} is not the name of a StorageClass", "write one, such as `encrypted-ssd`")
    return value


def _is_somewhere(value: str) -> str:
    if not value:
        raise refusal("an empty value says no place", "write a value of the label, such as eu-central-1")
    return value


class Residency(Section):
    """Where the nodes of all pools are, so that no job computes elsewhere."""

    label: LabelKey
    """The label of nodes that says where they are, such as `topology.kubernetes.io/region`."""
    values: tuple[Annotated[LabelValue, AfterValidator(_is_somewhere)], ...] = Field(min_length=1)
    """Where they may be, such as `eu-central-1`. The labels of each pool name one of them."""

    @field_validator("values")
    @classmethod
    def _in_order(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(value)))


ClassName = Annotated[str, Field(strict=True), AfterValidator(_is_class)]
"""The name of a StorageClass."""


class StorageClass(Section):
    """A StorageClass of the cluster that tenants may use."""

    name: ClassName
    """Its name."""
    encrypted: Annotated[bool, Field(strict=True)] = False
    """Whether its volumes are encrypted at rest. That is your word: only its driver knows what its parameters mean."""


class Retention(Section):
    """How many days records are kept at least."""

    jobs: Count | None = None
    """Pods, logs and Workloads of jobs that have ended. Neither a runtime's `ttlSecondsAfterFinished` nor
    `queues.retainFinished` may be shorter; whoever deletes the TrainJob removes them all the same."""
    audit: Count | None = None
    """The API server's log, by its own files. Not on OpenShift, which keeps them as long as their size allows: there,
    forward them."""


def unmet(policies: Policies, is_openshift: bool | None) -> Iterator[Unmet]:
    """Find policies that the cluster cannot enforce, and requirements of the profile `regulated` that are not met.

    `is_openshift` is None where the distribution is unknown.
    """
    if is_openshift and policies.retention.audit:
        fix = "remove it, and keep what a ClusterLogForwarder sends away for as long"
        yield ("retention", "audit"), "OpenShift has no such setting of its API servers", fix
    if policies.profile == "standard":
        return
    for path, message, fix in (*_weaker(policies), *_missing(policies, is_openshift)):
        yield path, f"{message}: the profile `regulated` demands it", fix


def _weaker(policies: Policies) -> Iterator[Unmet]:
    """What is said, and is too little."""
    if policies.pod_security != "restricted":
        yield ("podSecurity",), f"`{policies.pod_security}` is less than `restricted`", "write `restricted`"
    if policies.admission.default != "deny":
        yield ("admission",), f"rules only `{policies.admission.default}` by default, not `deny`", "write `deny`"
    for rule, action in policies.admission.rules.items():
        if action != "deny":
            yield ("admission", "rules", rule), f"`{action}` is less than `deny`", "write `deny`, or remove it"
    for each in policies.storage_classes:
        if not each.encrypted:
            fix = "remove it, or write `encrypted: true` if it is"
            yield ("storageClasses",), f"`{each.name}` is not said to be encrypted", fix


def _missing(policies: Policies, is_openshift: bool | None) -> Iterator[Unmet]:
    """What is not said."""
    if not policies.images.registries:
        yield ("images",), "images come from anywhere, not from `registries`", "write `registries: [quay.io/acme/]`"
    if not policies.images.digests:
        yield ("images",), "images may change behind their names without `digests`", "write `digests: true`"
    if not policies.labels:
        yield ("labels",), "jobs have no owner without `labels`", "write labels such as `[example.com/owner]`"
    if policies.residency is None:
        fix = "write `residency: {label: topology.kubernetes.io/region, values: [eu-central-1]}`"
        yield ("residency",), "nobody says where nodes may be without `residency`", fix
    if not policies.storage_classes:
        fix = "write `storageClasses: [{name: encrypted-ssd, encrypted: true}]`"
        yield ("storageClasses",), "data may be written anywhere without `storageClasses`", fix
    if policies.retention.jobs is None:
        yield ("retention", "jobs"), "nobody says how long jobs are known without `retention.jobs`", "write days, as 90"
    if policies.retention.audit is None and is_openshift is False:
        fix = "write days, as 365"
        yield ("retention", "audit"), "nobody says how long the log is kept without `retention.audit`", fix
