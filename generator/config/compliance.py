"""`policies.profile`, and what it can demand: where nodes are, where data is written, how long records are kept.

What each of it serves, and who enforces it: docs/explanations/compliance.md.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from generator.config.fields import Count, LabelKey, LabelValue, Section, refusal
from generator.documents.syntax import shown

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
