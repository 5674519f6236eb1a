"""`pools[].provisioning`: nodes that are made when a job needs them."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from generator.config.fields import Section, Text, refusal
from generator.documents.syntax import shown

_CLASS = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def _is_class(value: str) -> str:
    if not _CLASS.fullmatch(value):
        fix = "write one such as check-capacity.autoscaling.x-k8s.io or queued-provisioning.gke.io"
        raise refusal(f"{shown(value)} is not a provisioning class", fix)
    return value


class Provisioning(Section):
    """Who makes the nodes: a class of ProvisioningRequests that the cluster's autoscaler knows."""

    class_name: Annotated[str, Field(strict=True), AfterValidator(_is_class)] = Field(alias="class")
    """The class, such as `best-effort-atomic-scale-up.autoscaling.x-k8s.io` or `queued-provisioning.gke.io`."""
    parameters: dict[Text, Annotated[str, Field(strict=True, max_length=255)]] = Field(default={}, max_length=100)
    """What the class wants to know besides, such as `maxRunDurationSeconds: "86400"`."""

    @field_validator("parameters")
    @classmethod
    def _in_order(cls, value: dict[str, str]) -> dict[str, str]:
        return dict(sorted(value.items()))
