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
    what, fix = image_fault(value)
    if what:
        raise invalid(f"{format_value(value)} is not an image reference: {what}", fix)
    return _has_a_port(value)


def _is_registry(value: str) -> str:
    """With a slash at the end, without which `quay.io/acme` would also be the begin of `quay.io/acme-evil`."""
    written = value if value.endswith("/") else f"{value}/"
    host = written.split("/", 1)[0]
    is_host = "." in host or ":" in host or host == "localhost"
    if not is_image(f"{written}image") or not is_host or host.lower() != host:
        raise invalid(
            f"{format_value(value)} is no registry", "write its host, and what is before the name: quay.io/acme/"
        )
    return _has_a_port(written)


def _has_a_port(value: str) -> str:
    found = _PORT.match(value)
    if found and not 0 < int(found["port"]) <= _MOST:
        raise invalid(f"{format_value(value)}: there is no port {found['port']}", f"write a port from 1 to {_MOST}")
    return value


Image = Annotated[str, Field(strict=True, min_length=1), AfterValidator(_is_image_with_port)]
Registry = Annotated[str, Field(strict=True), AfterValidator(_is_registry)]


class Images(Section):
    """The images of TrainJobs, and of the runtimes here."""

    registries: tuple[Registry, ...] = ()
    """Where they come from, such as `quay.io/acme/`. An image without a host, such as `ubuntu`, is from
    `docker.io/library/`, but is not matched by it: write images in full. Default: from anywhere."""
    digests: Annotated[bool, Field(strict=True)] = False
    """Whether an image must be named by its digest, so that it cannot change behind its name."""

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
"""The rules, as their policies are called after the platform's name."""


class Admission(Section):
    """Start a rule as `audit`, which only writes the API server's log, go on to `warn`, then to `deny`.

    A single word is for all rules: `admission: warn`.
    """

    default: Action = "deny"
    """What becomes of a request that breaks any rule that is not named here."""
    rules: dict[RuleName, Action] = Field(default={})
    """For single rules. `queue`, `runtime`, `images`, `size`, `patches`, `fabric`, `priority`, `labels`, `owner`,
    `own-jobs`, `residency` and `job-storage` are of TrainJobs, `storage` of PersistentVolumeClaims, `keys` of the
    Secrets by which the hosts of a job trust each other, `local-queues` of where LocalQueues lead, `runtime-images` of
    the platform's runtimes, and `generated` of whatever the release holds, which only the platform changes."""
    controllers: tuple[Name, ...] = ()
    """Namespaces whose ServiceAccounts no rule is for, beside those that Kubernetes, Trainer, JobSet and Kueue are
    usually installed in."""

    @model_validator(mode="before")
    @classmethod
    def _of_a_word(cls, value: Any) -> Any:
        return {"default": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """A word, or the section."""
        return {"anyOf": [{"type": "string", "enum": [*get_args(Action)]}, handler(core)]}

    def action(self, rule: str) -> Action:
        """What becomes of a request that breaks this rule."""
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
        raise invalid("an empty value says no place", "write a value of the label, such as eu-central-1")
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


ClassName = Annotated[str, Field(strict=True), AfterValidator(_is_storage_class)]
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


class Policies(Section):
    """Rules for all tenant namespaces."""

    profile: Profile = "standard"
    """How much is demanded of the platform. `regulated` refuses a platform that leaves out what it lists in
    docs/explanations/compliance.md, with what to write. By itself it adds only what the API server is to log, as a
    file."""
    pod_security: Literal["restricted", "baseline", "privileged"] = "restricted"
    """The Pod Security Standard that namespaces enforce. Every runtime of the catalogue runs under `restricted`."""
    admission: Admission = Admission()
    """What the API server refuses."""
    images: Images = Images()
    """Where images come from."""
    labels: tuple[LabelKey, ...] = Field(default=())
    """Labels that every TrainJob must have, such as `example.com/owner`; `tenants[].labels` may say with what value."""

    residency: Residency | None = None
    """Where nodes are. Default: anywhere."""
    storage_classes: tuple[StorageClass, ...] = ()
    """The StorageClasses that claims of tenants, and volumes of their jobs, may name. Default: all, and the cluster's
    own default."""
    retention: Retention = Retention()
    """How long records are kept. Default: nobody looks."""

    @field_validator("storage_classes")
    @classmethod
    def _each_named_once(cls, value: tuple[StorageClass, ...]) -> tuple[StorageClass, ...]:
        require_unique((each.name for each in value), "name each class once")
        return tuple(sorted(value, key=lambda each: each.name))

    @field_validator("labels")
    @classmethod
    def _in_order(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(value)))
