"""`policies`: admission rules, image registries, residency and retention for all tenants."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from generator.config.model.fields import (
    SUBDOMAIN,
    Count,
    Flag,
    LabelKey,
    LabelValue,
    Name,
    NamedOf,
    Section,
    SetOf,
    String,
    Text,
    invalid,
    matching,
)
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
    """Add a slash at the end, so that `quay.io/acme` does not match `quay.io/acme-evil`."""
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


Image = Annotated[Text, AfterValidator(_is_image_with_port)]
Registry = Annotated[String, AfterValidator(_is_registry)]


class Images(Section):
    """The images that TrainJobs and the platform's runtimes may use."""

    registries: SetOf[Registry] = ()
    """The allowed registries and paths, such as `quay.io/acme/`. Write the images of jobs in full: Kubernetes pulls
    `ubuntu` from `docker.io/library/`, but this rule then rejects it. Default: any registry."""
    digests: Flag = False
    """If true, images must be pinned by digest, because the image behind a tag can change."""


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
    """The action for requests that break an admission rule.

    Introduce a rule in three steps: `audit` only writes the audit log, `warn` warns the user, `deny` rejects the
    request. A single word applies to all rules: `admission: warn`.
    """

    default: Action = "deny"
    """The action of every rule that `rules` does not list."""
    rules: dict[RuleName, Action] = Field(default={})
    """The actions of single rules, such as `images: audit`. `queue`, `runtime`, `images`, `size`, `patches`, `fabric`,
    `priority`, `labels`, `owner`, `own-jobs`, `residency` and `job-storage` check TrainJobs. `storage` checks
    PersistentVolumeClaims, `keys` the ssh Secrets of jobs, `local-queues` the targets of LocalQueues, `runtime-images`
    the platform's runtimes, and `generated` every generated object, which only platform admins may change."""
    controllers: tuple[Name, ...] = ()
    """Namespaces whose ServiceAccounts are exempt from all rules, in addition to the usual namespaces of Kubernetes,
    Trainer, JobSet and Kueue."""

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


AUDIT_POLICY_FILE = "audit/policy.yaml"
"""The file of a release with the audit policy of the API server. A cluster admin applies it, because it is
cluster-wide."""


def _is_place(value: str) -> str:
    if not value:
        raise invalid("an empty value names no place", "write a value of the label, such as eu-central-1")
    return value


class Residency(Section):
    """The places where the nodes of all pools must be."""

    label: LabelKey
    """The node label with the place of a node, such as `topology.kubernetes.io/region`."""
    values: SetOf[Annotated[LabelValue, AfterValidator(_is_place)]] = Field(min_length=1)
    """The allowed values, such as `eu-central-1`. The labels of each pool must have one of them."""


# A DNS subdomain: kubernetes v1.34.2 pkg/apis/storage/validation/validation.go
ClassName = Annotated[
    String, matching(SUBDOMAIN, "the name of a StorageClass", "write a DNS subdomain, such as `encrypted-ssd`")
]
"""The name of a StorageClass."""


class StorageClass(Section):
    """A StorageClass of the cluster that tenants may use."""

    name: ClassName
    """The name of the StorageClass."""
    encrypted: Flag = False
    """If true, you declare that its volumes are encrypted at rest. mpigen cannot verify this, because only the driver
    reads the parameters of the class."""


class Retention(Section):
    """The minimum number of days that records are kept."""

    jobs: Count | None = None
    """Days for the pods, logs and Workloads of finished jobs. A runtime's `ttlSecondsAfterFinished` and
    `queues.retainFinished` must not be shorter. Users that delete a TrainJob still delete its records. Default: no
    minimum."""
    audit: Count | None = None
    """Days for the audit log of the API server. Default: no minimum. Not for OpenShift, which limits the log by size:
    forward the log there."""


class Policies(Section):
    """The rules for the namespaces of all tenants."""

    profile: Literal["standard", "regulated"] = "standard"
    """The required strictness. `regulated` rejects a platform that lacks a setting of docs/explanations/compliance.md,
    and names the setting. It also adds a file with the audit policy of the API server."""
    pod_security: Literal["restricted", "baseline", "privileged"] = "restricted"
    """The Pod Security level that namespaces enforce. Every runtime of the catalogue meets `restricted`."""
    admission: Admission = Admission()
    """The action for requests that break an admission rule."""
    images: Images = Images()
    """The images that TrainJobs and the platform's runtimes may use."""
    labels: SetOf[LabelKey] = Field(default=())
    """The labels that every TrainJob must have, such as `example.com/owner`. `tenants[].labels` can set the value."""
    residency: Residency | None = None
    """The places where nodes must be. Default: anywhere."""
    storage_classes: NamedOf[StorageClass] = ()
    """The StorageClasses that claims of tenants and volumes of their jobs may name. Default: all, including the default
    class of the cluster."""
    retention: Retention = Retention()
    """The minimum retention of records. Default: no retention check."""
