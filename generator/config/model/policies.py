"""`policies`: admission rules, image registries, residency and retention for all tenants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from generator.config.model.access import Account
from generator.config.model.fields import (
    LABEL_KEY,
    LABEL_PREFIX,
    SUBDOMAIN,
    Count,
    Flag,
    FrozenMapping,
    LabelKey,
    LabelValue,
    Name,
    NamedOf,
    Room,
    Section,
    SetOf,
    String,
    Text,
    invalid,
    matching,
    to_quantity,
)
from generator.config.model.isolation import ApiServer
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
    """Return the registry with a slash at the end, so that `quay.io/acme` does not match `quay.io/acme-evil`.

    Reject a value that is not a registry.
    """
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


def _is_image_pattern(value: str) -> str:
    """Reject a text that is neither an image, nor a registry, path or repository before `*`."""
    if "*" not in value:
        return _is_image_with_port(value)
    begin = value.removesuffix("*")
    example = "write `*` only at the end, after a path or a repository, such as quay.io/acme/* or quay.io/acme/train:*"
    if "*" in begin:
        raise invalid(f"{format_value(value)} has a `*` that is not at its end", example)
    if not begin:
        raise invalid("`*` allows all images", example)
    if not begin.endswith(("/", ":")) or "/" not in begin:
        # `quay.io/acme*` is also the beginning of quay.io/acme-evil/image
        raise invalid(f"{format_value(value)} also allows other paths that begin with {format_value(begin)}", example)
    _is_registry(begin.removesuffix(":").removesuffix("@sha256").removesuffix("/") + "/")
    return value


Image = Annotated[Text, AfterValidator(_is_image_with_port)]
ImagePattern = Annotated[Text, AfterValidator(_is_image_pattern)]
"""An image, or all images of a path or a repository: `*` at the end stands for any text."""
Registry = Annotated[String, AfterValidator(_is_registry)]


class Images(Section):
    """The images that TrainJobs and runtimes may use."""

    registries: SetOf[Registry] = ()
    """The allowed registries and paths of images of TrainJobs and runtimes, such as `quay.io/acme/`. If the list is
    empty, any registry is allowed, except for TrainJobs of a team with `tenants[].registries`. With a list, images must
    be named in full: `docker.io/library/` allows `docker.io/library/ubuntu`, but not `ubuntu`."""
    digests: Flag = False
    """If true, images of TrainJobs and runtimes must be pinned by digest, because the image behind a tag can change."""


Action = Literal["deny", "warn", "audit", "off"]
RuleName = Literal[
    "queue",
    "runtime",
    "images",
    "size",
    "patches",
    "metadata",
    "placement",
    "job-volumes",
    "job-secrets",
    "environment",
    "names",
    "requests",
    "fabric",
    "priority",
    "labels",
    "cost-labels",
    "owner",
    "own-jobs",
    "residency",
    "storage",
    "job-storage",
    "keys",
    "local-queues",
    "runtime-images",
    "generated",
    "reserved",
    "lifecycle",
    "workloads",
    "kinds",
    "claims",
    "config-maps",
    "debug",
    "tokens",
    "subjects",
]
"""The admission rules whose action `policies.admission` sets. The policy of a rule is named PLATFORM-RULE."""


class Admission(Section):
    """The actions for requests that break an admission rule. Each rule is a ValidatingAdmissionPolicy of mpigen.

    `deny` rejects the request. `audit` allows it and records it in the audit log of the API server. `warn` does the
    same as `audit`, and also shows a warning to the user. With `"off"`, in quotes, mpigen writes no policy for the
    rule. Introduce a rule with `audit`, then `warn`, then `deny`. A single word applies to all rules:
    `admission: warn`.
    """

    default: Action = "deny"
    """The action of every rule that `rules` does not list. The rules `job-isolation` and `memlock` and the rules
    about copies of runtimes, which mpigen writes only if another field needs them, always deny."""
    rules: Annotated[dict[RuleName, Action], AfterValidator(FrozenMapping)] = Field(default={}, validate_default=True)
    """The actions of single rules, such as `images: audit`. Rules about TrainJobs: `queue` requires a queue of the
    namespace and lets only Kueue resume a job, `runtime` a runtime that the team can use, `images` allowed images,
    `size` a job within `tenants[].limits`, `fabric` the devices of the runtime's fabric, `priority` a priority that the
    team may use, `labels` the labels of `policies.labels`, and `cost-labels` the labels of `policies.costLabels` on all
    pods of a job. `owner` rejects the name of another user as the owner of
    a job. `own-jobs` requires submitters to name themselves as the owner, and lets them change and delete only their
    own jobs. `patches` rejects fields that a TrainJob may not set, also in `runtimePatches`, such as another
    ServiceAccount. `metadata`, `placement`, `job-volumes`, `job-secrets` and `environment` reject labels, annotations,
    node selectors, tolerations, volumes, Secrets and variables that `policies.jobs.allow` does not allow. `names`
    rejects names of NetworkPolicies and Services, and `requests` rejects jobs that use more than Kueue charges.
    `residency` and `job-storage` reject patches that select other places or StorageClasses. Rules about other objects:
    `storage` checks the StorageClass of PersistentVolumeClaims, and `runtime-images` the images of runtimes. `keys`
    lets only controllers write the ssh Secrets of jobs. `local-queues` rejects LocalQueues of another team's
    ClusterQueue. `generated` and `reserved` let only platform admins, Argo CD and controllers change generated objects,
    or add objects to the Applications of Argo CD. mpigen writes these two rules only with `access.admin` or `gitops`.
    `lifecycle` lets only controllers and platform admins set finalizers and owner references, and rejects deletions
    that leave pods running. `workloads` lets only controllers run pods and Jobs, and `kinds` lets members of a team
    write only the kinds of object that teams need. `claims` limits the PersistentVolumeClaims of teams, `config-maps`
    protects ConfigMaps of controllers, runtimes and other users, `debug` limits ephemeral containers, `tokens` rejects
    Secrets with tokens of ServiceAccounts, and `subjects` limits who can get a role in a team's namespace."""
    controllers: tuple[Name, ...] = ()
    """Namespaces of controllers. No admission rule except `memlock` applies to their ServiceAccounts. mpigen always
    exempts the usual namespaces of Kubernetes, Trainer, JobSet and Kueue, of the network operators of `fabrics`, and of
    the schedulers of `runtimes[].gang`. On OpenShift it also exempts `redhat-ods-applications` and the namespaces that
    begin with `openshift-`, except `openshift-gitops`, `openshift-operators` and `openshift-pipelines`."""

    @model_validator(mode="before")
    @classmethod
    def _of_a_word(cls, value: object) -> object:
        return {"default": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Allow a single word or the section."""
        return {"anyOf": [{"type": "string", "enum": [*get_args(Action)]}, handler(core)]}

    def action(self, rule: str) -> Action:
        """Return the action that `rules` sets for a rule, else `default`."""
        return next((action for name, action in self.rules.items() if name == rule), self.default)


def _is_resource(value: str) -> str:
    if not _RESOURCE.fullmatch(value):
        message = f"{format_value(value)} is not the resource of a kind"
        raise invalid(message, "write PLURAL.GROUP, such as notebooks.kubeflow.org")
    return value


# Resources of the core group have no dot: apimachinery v0.34.2 pkg/runtime/schema/group_version.go ParseGroupResource.
_RESOURCE = re.compile(r"[a-z][-a-z0-9]*(?:\.[a-z0-9][-.a-z0-9]*)?")
ResourceName = Annotated[String, AfterValidator(_is_resource)]


class Workloads(Section):
    """The workloads other than TrainJobs that may run in the namespaces of tenants, such as workbenches."""

    kinds: SetOf[ResourceName] = ()
    """The resources that users may write, such as `notebooks.kubeflow.org` or `pipelineruns.tekton.dev`. RBAC must also
    allow this; the roles of mpigen do not."""
    controllers: SetOf[Account] = ()
    """The ServiceAccounts of the controllers that create pods for these resources, such as
    `serviceaccount:openshift-pipelines/openshift-pipelines-controller`. The admission rule `workloads` does not apply
    to their requests. Controllers in the namespaces of `policies.admission.controllers` need no entry."""


AUDIT_POLICY_FILE = "audit/policy.yaml"
"""The file of the output with the audit policy of the API server. A cluster admin applies it, because it is
cluster-wide."""


def _is_place(value: str) -> str:
    if not value:
        raise invalid("an empty value names no place", "write a value of the label, such as eu-central-1")
    return value


Place = Annotated[LabelValue, AfterValidator(_is_place)]
"""A value of `policies.residency.label`, such as `eu-central-1`."""


class Residency(Section):
    """The regions or other places in which the nodes of all pools must be."""

    label: LabelKey
    """The node label with the place of a node, such as `topology.kubernetes.io/region`."""
    values: SetOf[Place] = Field(min_length=1)
    """The allowed values of this label, such as `eu-central-1`. `pools[].labels` of each pool must contain the label
    with one of these values."""


# A DNS subdomain: kubernetes v1.34.2 pkg/apis/storage/validation/validation.go ValidateStorageClass
ClassName = Annotated[
    String, matching(SUBDOMAIN, "the name of a StorageClass", "write a DNS subdomain, such as `encrypted-ssd`")
]
"""The name of a StorageClass."""


class StorageClass(Section):
    """A StorageClass of the cluster that tenants may use."""

    name: ClassName
    """The name of the StorageClass."""
    encrypted: Flag = False
    """If true, you declare that volumes of this class are encrypted at rest. mpigen cannot verify the declaration,
    because only the storage driver reads the parameters of the class."""


class Retention(Section):
    """The minimum number of days that records are kept."""

    jobs: Count | None = None
    """The minimum number of days for pods, logs and Workloads of finished jobs. mpigen rejects a shorter
    `queues.retainFinished`. A user that deletes a TrainJob still deletes its records. Default: no minimum."""
    audit: Count | None = None
    """The minimum number of days for the audit log of the API server. With `profile: regulated`, an annotation of the
    audit policy lists the flags with which the API server keeps the log this long. With `profile: standard`, this field
    has no effect. On OpenShift, mpigen rejects this field, because OpenShift limits the log by size: forward the log to
    a store there. Default: no minimum."""


_RESERVED_KEY = re.compile(
    r"(?:.*\.)?(?:mpigen\.dev|kueue\.x-k8s\.io|jobset\.sigs\.k8s\.io|batch\.kubernetes\.io|trainer\.kubeflow\.org)/.*"
)


def _is_free_key(value: str) -> str:
    """Reject keys that controllers of jobs read: users could change what Kueue and JobSet do with a job."""
    if _RESERVED_KEY.fullmatch(value):
        raise invalid(f"{format_value(value)} belongs to a controller of jobs", "write a key of your own domain")
    return value


KeyOrPrefix = Annotated[
    String,
    matching(
        rf"{LABEL_KEY}|{LABEL_PREFIX}", "a key or a prefix", "write example.com/run, or example.com/ for all its keys"
    ),
    AfterValidator(_is_free_key),
]
"""A key of a label or an annotation, or the prefix of keys with its slash, such as `example.com/`."""
SecretNames = Annotated[
    String,
    matching(
        rf"{SUBDOMAIN}|[a-z0-9][-a-z0-9.]*\*",
        "the name of a Secret, or a prefix of names",
        "write a name such as wandb, or a prefix such as wandb-*",
    ),
]
VariableName = Annotated[
    String,
    matching("[A-Za-z_][A-Za-z0-9_]*", "the name of a variable", "write a name such as NVIDIA_DRIVER_CAPABILITIES"),
]


class Allowances(Section):
    """The fields of TrainJobs that users may set in addition to the fields that every job needs.

    Without an entry here, a TrainJob can set no label, annotation, node selector, toleration or Secret that could
    affect other teams.
    """

    removed_fields: ClassVar[Mapping[str, tuple[str, str]]] = {
        "gracePeriod": (
            "`gracePeriod` was removed, because a TrainJob with its own grace period holds its quota and never starts",
            "remove this field, and set `terminationGracePeriodSeconds` of the runtime",
        )
    }

    labels: SetOf[KeyOrPrefix] = ()
    """Labels that TrainJobs and their pods may have, such as `example.com/run`, or `example.com/` for all labels with
    this prefix. TrainJobs may always have labels without a prefix, Kueue's labels for the queue, the priority and the
    maximum run time, the labels of `policies.labels` and `app.kubernetes.io/` labels. `runtimePatches` may add only
    labels of this list to pods."""
    annotations: SetOf[KeyOrPrefix] = ()
    """Annotations that TrainJobs, their pods and the claims of teams may have, such as `example.com/note`, or
    `example.com/` for all annotations with this prefix. Claims may always have annotations without a prefix, of kubectl
    and of Helm, and the name and description of the dashboard of OpenShift AI. TrainJobs may always have annotations
    without a prefix, of an owner, of waivers, of kubectl and of Argo CD, and pods the annotations by which Kueue places
    them. Do not allow annotations that select networks, devices or security profiles, or that controllers of storage
    and backups read."""
    node_labels: SetOf[LabelKey] = ()
    """Node labels by which TrainJobs may select nodes, such as `example.com/rack`. The label of `policies.residency` is
    always allowed, with the values of `policies.residency`. Do not allow `kubernetes.io/hostname`: Kueue does not
    charge the pool of the selected node."""
    tolerations: SetOf[LabelKey] = ()
    """The keys of taints that TrainJobs may tolerate, such as `example.com/spot`. Pods tolerate the taints of the
    pool of their runtime anyway."""
    secrets: SetOf[SecretNames] = ()
    """Secrets that TrainJobs of every team may use, such as `wandb`, or `wandb-*` for all names with this prefix.
    Secrets of `external` and `connections` in `tenants[].secrets` are always allowed. The ssh keys of jobs are never
    allowed."""
    variables: SetOf[VariableName] = ()
    """Variables that TrainJobs may set although a container runtime reads them, such as `NVIDIA_DRIVER_CAPABILITIES`.
    Before you allow `NVIDIA_VISIBLE_DEVICES`, configure the container runtime to ignore the variable in unprivileged
    containers. Otherwise a job can use all GPUs of its nodes."""
    memory_volumes: Room = Field(default_factory=lambda: to_quantity("16Gi"), validate_default=True)
    """The maximum sum of the sizes of all memory-backed `emptyDir` volumes that `runtimePatches` of a TrainJob add to a
    pod. The launcher and each host are separate pods, so their volumes do not add up. Default: `16Gi`."""
    disk_volumes: Room = Field(default_factory=lambda: to_quantity("100Gi"), validate_default=True)
    """The maximum sum of the sizes of all other `emptyDir` volumes that `runtimePatches` of a TrainJob add to a pod. If
    several pods run on a node, its disk holds the volumes of all of them. Default: `100Gi`."""
    ephemeral_volumes: Room | None = None
    """The maximum sum of the sizes of all ephemeral volumes that `runtimePatches` of a TrainJob add. A volume counts
    once, although each pod gets its own. Default: patches can add no ephemeral volumes."""


class Jobs(Section):
    """The fields that TrainJobs may set, and the contact that messages of rejected TrainJobs name."""

    contact: Annotated[Text, Field(max_length=100)] = "a platform admin"
    """The contact for users whose TrainJobs are rejected, such as `#ml-platform on Slack`. Messages about patches,
    labels, annotations, node selectors, tolerations, sizes of volumes and Secrets of TrainJobs name this contact."""
    allow: Allowances = Allowances()
    """The fields that TrainJobs may set in addition to the fields that every job needs."""


class SchedulePods(Section):
    """The pods that create the TrainJobs of `tenants[].schedules`, each with one call of kubectl."""

    image: Image
    """An image with `kubectl`. On Kubernetes, `registry.k8s.io/kubectl` has the versions of Kubernetes as tags. On
    OpenShift, use `registry.redhat.io/openshift4/ose-cli-rhel9`, or `quay.io/openshift/origin-cli` on OKD. kubectl
    supports API servers that are at most one minor version older or newer."""
    api_server: ApiServer | None = None
    """The API server that the pods may reach. Default: `isolation.apiServer`, which then all pods of tenants may
    reach. With `cluster.network: cilium`, the default is `{}`."""


class Policies(Section):
    """The rules for the namespaces of all tenants."""

    profile: Literal["standard", "regulated"] = "standard"
    """The settings that a platform must have. With `standard`, every setting is optional. With `regulated`, mpigen
    rejects a platform that lacks a setting for regulated data, such as `images.digests` or `retention.audit`, or that
    weakens Pod Security or an admission rule. mpigen then also writes a file with the audit policy of the API
    server."""
    pod_security: Literal["restricted", "baseline", "privileged"] = "restricted"
    """The Pod Security level that tenant namespaces enforce, unless `tenants[].relax` sets another level. Runtimes of
    all MPI families meet `restricted`, except with `memlock: capability`."""
    admission: Admission = Admission()
    """The actions for requests that break an admission rule."""
    workloads: Workloads = Workloads()
    """The workloads other than TrainJobs that may run in the namespaces of all tenants. Default: none."""
    images: Images = Images()
    """The allowed registries of images, and whether images must be pinned by digest."""
    jobs: Jobs = Jobs()
    """The fields that TrainJobs may set, and the contact of users whose TrainJobs are rejected."""
    schedules: SchedulePods | None = None
    """The pods that create the TrainJobs of `tenants[].schedules`. Keep this field until a release without any schedule
    is applied, because it also lets Argo CD or Flux delete CronJobs. Default: no team can have schedules."""
    labels: SetOf[LabelKey] = Field(default=())
    """The labels that every TrainJob must have, such as `example.com/owner`. If `tenants[].labels` sets such a label,
    TrainJobs of the team must have the same value."""
    cost_labels: SetOf[Annotated[LabelKey, AfterValidator(_is_free_key)]] = Field(
        default=(), max_length=8, examples=[["example.com/cost-centre"]]
    )
    """The labels by which cost tools assign the pods of jobs to teams, such as `example.com/cost-centre`, at most 8.
    `tenants[].labels` of every tenant must set each of them. All pods of a TrainJob must then have the labels of the
    team, also the launcher pod: `mpigen job new` writes a patch of the runtime with these labels, and the admission
    rule `cost-labels` rejects TrainJobs without the patch. Trainer copies no other label of a TrainJob to pods.
    Default: none."""
    residency: Residency | None = None
    """The places where nodes must be. mpigen then rejects tenants with `multiKueue`, because it cannot check the worker
    clusters. Default: anywhere."""
    storage_classes: NamedOf[StorageClass] = ()
    """The StorageClasses that PersistentVolumeClaims of tenants and volumes of their jobs may name. With a list,
    `tenants[].volumes` and ephemeral volumes of jobs must name a class. If the list is empty, all StorageClasses are
    allowed, and claims may omit the class."""
    retention: Retention = Retention()
    """The minimum retention of records. Default: no retention check."""
