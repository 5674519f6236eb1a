"""`policies`: admission rules, image registries, residency and retention for all tenants."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, GetJsonSchemaHandler, field_validator, model_validator
from pydantic_core import CoreSchema

from generator.config.model.fields import Count, LabelKey, LabelValue, Name, Section, invalid, require_unique
from generator.documents.messages import format_value
from generator.facts.images import image_fault, is_image

_PORT = re.compile(r"(?:[^/\[\]]*|\[[^\]]*\]):(?P<port>[0-9]+)/")
_MOST = 65535


def _is_image_with_port(value: str) -> str:
    fault, fix = image_fault(value)
    if fault:
        raise invalid(f"{format_value(value)} is not an image reference: {fault}", fix)
    return _has_a_port(value)


def _is_registry(value: str) -> str:
    """With a slash at the end, without which `quay.io/acme` would also be the begin of `quay.io/acme-evil`."""
    written = value if value.endswith("/") else f"{value}/"
    host = written.split("/", 1)[0]
    is_host = "." in host or ":" in host or host == "localhost"
    if not is_image(f"{written}image") or not is_host or host.lower() != host:
        raise invalid(f"{format_value(value)} is not a registry", "write its host and path, such as quay.io/acme/")
    return _has_a_port(written)


def _has_a_port(value: str) -> str:
    port = _PORT.match(value)
    if port and not 0 < int(port["port"]) <= _MOST:
        raise invalid(f"{format_value(value)}: {port['port']} is not a port", f"write a port from 1 to {_MOST}")
    return value


Image = Annotated[str, Field(strict=True, min_length=1), AfterValidator(_is_image_with_port)]
Registry = Annotated[str, Field(strict=True), AfterValidator(_is_registry)]


class Images(Section):
    """Allowed images of TrainJobs and of the platform's runtimes."""

    registries: tuple[Registry, ...] = ()
    """Allowed registries and paths, such as `quay.io/acme/`. Kubernetes pulls an image without a host, such as
    `ubuntu`, from `docker.io/library/`, but this rule does not match it: write images in full. Default: any
    registry."""
    digests: Annotated[bool, Field(strict=True)] = False
    """If true, images must be pinned by digest, because the image behind a tag can change."""

    @field_validator("registries")
    @classmethod
    def _in_order(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(value)))


Action = Literal["deny", "warn", "audit", "off"]
RuleName = Literal[
    "queue",
    "runtime",
    "images",
    "size",
    "patches",
    "fabric",
    "priority",
    "labels",
    "owner",
    "own-jobs",
    "residency",
    "storage",
    "job-storage",
    "keys",
    "local-queues",
    "runtime-images",
    "generated",
]
"""The admission rules. A rule's policy is named after the platform and the rule."""


class Admission(Section):
    """The action for requests that break a rule.

    Start a rule with `audit`, which only writes the audit log, then use `warn`, then `deny`. A single word applies to
    all rules: `admission: warn`.
    """

    default: Action = "deny"
    """The action of every rule that `rules` does not list."""
    rules: dict[RuleName, Action] = Field(default={})
    """The action of single rules. `queue`, `runtime`, `images`, `size`, `patches`, `fabric`, `priority`, `labels`,
    `owner`, `own-jobs`, `residency` and `job-storage` check TrainJobs. `storage` checks PersistentVolumeClaims,
    `keys` the ssh Secrets of jobs, `local-queues` the targets of LocalQueues, `runtime-images` the platform's
    runtimes, and `generated` every generated object, which only platform admins may change."""
    controllers: tuple[Name, ...] = ()
    """Namespaces whose ServiceAccounts no rule applies to, in addition to the usual namespaces of Kubernetes, Trainer,
    JobSet and Kueue."""

    @model_validator(mode="before")
    @classmethod
    def _of_a_word(cls, value: Any) -> Any:
        return {"default": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Allow a single word or the section."""
        return {"anyOf": [{"type": "string", "enum": [*get_args(Action)]}, handler(core)]}

    def action(self, rule: str) -> Action:
        """Return the action for requests that break this rule."""
        return next((action for name, action in self.rules.items() if name == rule), self.default)


Profile = Literal["standard", "regulated"]

AUDIT_POLICY_FILE = "audit/policy.yaml"
"""The file of a release that says what the API server logs: for people to apply, since it is the whole cluster's."""

_PART = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_CLASS = re.compile(rf"(?=.{{1,253}}$){_PART}(?:\.{_PART})*")


def _is_storage_class(value: str) -> str:
    if not _CLASS.fullmatch(value):  # a DNS subdomain: kubernetes v1.34.2 pkg/apis/storage/validation/validation.go
        raise invalid(f"{format_value(value)} is not the name of a StorageClass", "write one, such as `encrypted-ssd`")
    return value


def _is_somewhere(value: str) -> str:
    if not value:
        raise invalid("an empty value names no place", "write a value of the label, such as eu-central-1")
    return value


class Residency(Section):
    """The places where the nodes of all pools must be."""

    label: LabelKey
    """The node label with the place of a node, such as `topology.kubernetes.io/region`."""
    values: tuple[Annotated[LabelValue, AfterValidator(_is_somewhere)], ...] = Field(min_length=1)
    """Allowed values, such as `eu-central-1`. The labels of each pool must have one of them."""

    @field_validator("values")
    @classmethod
    def _in_order(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(value)))


ClassName = Annotated[str, Field(strict=True), AfterValidator(_is_storage_class)]
"""The name of a StorageClass."""


class StorageClass(Section):
    """A StorageClass of the cluster that tenants may use."""

    name: ClassName
    """The name of the StorageClass."""
    encrypted: Annotated[bool, Field(strict=True)] = False
    """If true, its volumes are encrypted at rest. mpigen cannot verify this, because only the driver knows its
    parameters."""


class Retention(Section):
    """The minimum number of days that records are kept."""

    jobs: Count | None = None
    """Days for pods, logs and Workloads of finished jobs. A runtime's `ttlSecondsAfterFinished` and
    `queues.retainFinished` must not be shorter. Deleting a TrainJob still deletes them."""
    audit: Count | None = None
    """Days for the audit log of the API server. Not on OpenShift, which limits the log by size: forward it there."""


class Policies(Section):
    """Rules for the namespaces of all tenants."""

    profile: Profile = "standard"
    """The required strictness. `regulated` rejects a platform that lacks a setting of docs/explanations/compliance.md,
    and names the setting. It also adds a file with the audit policy of the API server."""
    pod_security: Literal["restricted", "baseline", "privileged"] = "restricted"
    """The Pod Security level that namespaces enforce. Every runtime of the catalogue meets `restricted`."""
    admission: Admission = Admission()
    """The action for requests that break a rule."""
    images: Images = Images()
    """Allowed images."""
    labels: tuple[LabelKey, ...] = Field(default=())
    """Labels that every TrainJob must have, such as `example.com/owner`. `tenants[].labels` can set the value."""

    residency: Residency | None = None
    """The allowed places of nodes. Default: anywhere."""
    storage_classes: tuple[StorageClass, ...] = ()
    """The StorageClasses that claims of tenants and volumes of their jobs may name. Default: all, including the default
    class of the cluster."""
    retention: Retention = Retention()
    """The retention of records. Default: no retention check."""

    @field_validator("storage_classes")
    @classmethod
    def _reject_duplicates(cls, value: tuple[StorageClass, ...]) -> tuple[StorageClass, ...]:
        require_unique((storage_class.name for storage_class in value), "name each class once")
        return tuple(sorted(value, key=lambda storage_class: storage_class.name))

    @field_validator("labels")
    @classmethod
    def _in_order(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(value)))
