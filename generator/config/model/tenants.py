"""`tenants` and `cohorts`: the teams with their namespaces, quota and access, and the groups that share quota."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from fnmatch import fnmatchcase
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator

from generator.config.model.access import Access
from generator.config.model.fabric_parts import FabricShare
from generator.config.model.fields import (
    Annotations,
    Count,
    Day,
    Duration,
    Fault,
    Flag,
    Labels,
    Name,
    NamedOf,
    Resources,
    Room,
    Section,
    SetOf,
    Text,
    copy_unchecked,
    duplicates,
    invalid,
    reject,
    reject_reserved_labels,
)
from generator.config.model.isolation import Egress
from generator.config.model.patches import Extras
from generator.config.model.policies import ClassName, Place, Registry, RuleName, Workloads
from generator.config.model.quotas import Shares
from generator.config.model.removals import Retirement
from generator.config.model.schedules import Schedules
from generator.config.model.secrets import Secrets
from generator.facts.names import REMOTE_COHORT
from generator.quantities import Quantity


class Limits(Section):
    """Upper limits of each namespace of a team, in addition to the team's quota in Kueue."""

    train_jobs: Count = 1000
    """The maximum number of TrainJobs, including finished ones. Trainer never deletes TrainJobs, and each TrainJob owns
    about eight other objects."""
    hosts_per_job: Count | None = None
    """The maximum `numNodes` of a TrainJob, which the admission rule `size` enforces. This limit does not apply to a
    TrainJob without `numNodes`, which has as many worker pods as its runtime sets. Default: no limit except the quota
    and the 10,000 nodes that the admission rule `requests` allows."""
    devices_per_host: Resources = Field(default={}, validate_default=True)
    """The maximum number of devices in `resourcesPerNode` of a TrainJob, such as `nvidia.com/gpu: 4`. The admission
    rule `size` enforces this limit. It does not apply to a TrainJob without `resourcesPerNode`, whose pods request the
    devices of the runtime. Default: no limit except the devices of a node."""
    time_per_job: Duration | None = None
    """The maximum `activeDeadlineSeconds` of a TrainJob, such as `72h`. The admission rule `size` enforces this limit.
    It then requires `activeDeadlineSeconds` in every TrainJob, even if the runtime sets a deadline. Default: no
    limit."""
    volumes: Count | None = None
    """The maximum number of PersistentVolumeClaims. Default: no limit."""
    storage: Room | None = None
    """The maximum sum of the requests of all PersistentVolumeClaims, such as `10Ti`. Default: no limit, but then the
    admission rule `claims` lets members of the team create and enlarge no claims."""
    resources: Resources = Field(default={}, validate_default=True)
    """The maximum sum of the requests of all pods, such as `nvidia.com/gpu: 40`. This limit also holds for pods that
    bypass Kueue. Without `multiKueue`, it must be at least the sum of `quota`, `reservations` and `borrow`. Default: no
    limit."""


class Reservation(Section):
    """Additional quota of a team until a day."""

    name: Name
    """The name of the reservation, such as `neurips`."""
    quota: Annotated[Shares, Field(min_length=1)]
    """The additional amounts, such as `h100: 2`, written like `tenants[].quota`."""
    until: Day
    """The last day of the reservation, such as `2027-03-31`. From the next day on, a check of mpigen reports that the
    reservation has expired. The team keeps the quota until you remove the reservation and apply the manifests."""
    reason: Text
    """The reason for the reservation, for reviewers."""


Standard = Literal["memlock", "baseline", "privileged"]
POD_SECURITY = "pod-security"
_OF_ALL = ("generated", "runtime-images")  # rules for objects that all tenants share


def _is_of_a_tenant(value: str) -> str:
    if value in _OF_ALL:
        message = f"the rule `{value}` checks objects that all tenants share, so one tenant cannot relax it"
        raise invalid(message, "set the action of this rule for all tenants in `policies.admission.rules`")
    return value


class Relaxation(Section):
    """A relaxation: until a day, an admission rule or the platform's Pod Security level does not apply to a team."""

    rule: Annotated[Literal[RuleName, "pod-security"], AfterValidator(_is_of_a_tenant)]
    """The rule that does not apply to the team: a rule of `policies.admission.rules` whose action is not `off`, or
    `pod-security`. The rules `generated` and `runtime-images` check objects that all teams share, so mpigen rejects
    them here."""
    to: Standard | None = None
    """With `rule: pod-security`: the Pod Security level of the team's namespaces. It must allow more than
    `policies.podSecurity`. `memlock` is the level `restricted`, but it allows the capability IPC_LOCK, with which ranks
    lock memory for RDMA. Containers with IPC_LOCK may escalate privileges. `baseline` and `privileged` are levels of
    Kubernetes."""
    reason: Annotated[Text, Field(max_length=1000)]
    """The reason for the relaxation, for reviewers. The findings about the relaxation contain it."""
    until: Day
    """The last day of the relaxation, such as `2027-03-31`. From the next day on, mpigen writes no manifests until you
    change or remove the relaxation. The relaxation still holds in the cluster until you apply manifests without it."""

    def _contradictions(self) -> Iterator[Fault]:
        reads = ("rule", "to")
        if self.rule == POD_SECURITY and self.to is None:
            fix = "add `to: memlock`, `to: baseline` or `to: privileged`"
            yield Fault("`pod-security` needs `to`", fix, ("to",), reads)
        if self.rule != POD_SECURITY and self.to is not None:
            message = f"`to` sets a Pod Security level, and the rule `{self.rule}` has none"
            yield Fault(message, "remove `to`", ("to",), reads)


AccessMode = Literal["ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce", "ReadWriteOncePod"]


def _is_positive(value: Quantity) -> Quantity:
    if value.value <= 0:
        raise invalid(f"`{value}` is not a size", "write it like 500Gi or 10Ti")
    return value


class DataVolume(Section):
    """A PersistentVolumeClaim in each of the team's namespaces. Argo CD asks for confirmation before it deletes it."""

    name: Name
    """The name of the claim, such as `datasets`. `runtimes[].volumes[].claim` and jobs refer to this name."""
    size: Annotated[Room, AfterValidator(_is_positive)]
    """The requested size, such as `10Ti`. You can increase it later if the StorageClass allows expansion. You cannot
    decrease it."""
    class_name: ClassName | None = Field(default=None, alias="class")
    """The StorageClass. If `policies.storageClasses` is not empty, this field is required and names one of its classes.
    Default: the default class of the cluster."""
    access_modes: SetOf[AccessMode] = Field(default=("ReadWriteMany",), min_length=1)
    """The access modes of the claim. The pods of a job run on several nodes, so they need `ReadWriteMany`, or
    `ReadOnlyMany` for data that they only read."""

    @field_validator("access_modes")
    @classmethod
    def _are_compatible(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if "ReadWriteOncePod" in value and len(value) > 1:
            # kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidatePersistentVolumeClaimSpec
            raise invalid("`ReadWriteOncePod` cannot be combined with other modes", "write it alone, or remove it")
        return value


RESERVED_NAMESPACES = (
    "argocd",
    "default",
    "jobset-system",
    "kube-*",
    "kubeflow-system",
    "kueue-system",
    "openshift",
    "openshift-*",
)
"""Patterns of the namespaces of Kubernetes and OpenShift, and of Trainer, JobSet, Kueue and Argo CD."""


def _is_free_namespace(value: str) -> str:
    if any(fnmatchcase(value, pattern) for pattern in RESERVED_NAMESPACES):
        raise invalid(f"`{value}` is a namespace of the cluster", "choose another name")
    return value


class Tenant(Section):
    """A team with its namespaces, quota and access."""

    name: Annotated[Name, AfterValidator(_is_free_namespace)]
    """The name of the team, such as `team-cv`. The team's first namespace and its ClusterQueue have this name."""
    renamed_from: Name | None = None
    """The earlier name of the team. Kubernetes cannot rename a namespace, so the new namespace starts without jobs and
    data, and the old one is deleted. `mpigen plan` then describes the rename, and `removed` must acknowledge the
    deletion of the old namespace, with `unretired: true` unless the team was retired under its old name. Default: the
    team keeps its name."""
    namespaces: SetOf[Annotated[Name, AfterValidator(_is_free_namespace)]] = ()
    """Further namespaces of the team, such as `team-cv-dev`. They use the same ClusterQueue, and the same users have
    access."""
    quota: Annotated[Shares, Field(min_length=1)]
    """The nominal quota of the team. Write a number of nodes of a pool (`h100: 4`), resources of a pool (`h100:
    {nvidia.com/gpu: 20}`), or a resource that only one pool offers (`nvidia.com/gpu: 20`). mpigen adds the other
    resources of the nodes that the written amounts need. If one amount needs more nodes than another, the larger number
    of nodes counts."""
    borrow: Shares = Field(default={}, validate_default=True)
    """The borrowing limit: the most idle quota of other teams, of cohorts and of the ClusterQueue `slack` that this
    team can use, written like `quota`. Default: nothing."""
    lend: Shares | None = None
    """The lending limit: the most idle quota of this team that all other teams together can use. Write it like `quota`,
    and at most as large as `quota`. If this field is set, a pool without an amount in it has the limit 0. Default: all
    of the quota and reservations."""
    dedicated: SetOf[Name] = ()
    """The pools whose nodes run only jobs of this team. mpigen rejects quota and borrowing limits for these pools in
    other teams without `multiKueue`, and quota for these pools in cohorts. Each of these pools needs a taint that
    rejects pods. Each other pool needs a label that the nodes of these pools do not carry. mpigen rejects `dedicated`
    of a team with `multiKueue`."""
    preemption: Literal["never", "lower-priority", "reclaim"] = "reclaim"
    """The running jobs that Kueue may preempt for pending jobs of the team. `reclaim`: the team's jobs of lower
    priority, and jobs of any priority of other teams that borrow quota of this team or of its cohorts.
    `lower-priority`: only jobs of lower priority, both of the team and of these other teams. `never`: none. With
    `queues.fairSharing`, Kueue also compares the shares of the teams."""
    stop: Literal["none", "hold", "drain"] = "none"
    """The stop policy of the team's ClusterQueue. `hold`: Kueue admits no more jobs. `drain`: Kueue also evicts running
    jobs."""
    retired: Retirement | None = None
    """The retirement of the team, which is the first step of its removal. Kueue evicts the running jobs of the team and
    admits no others, and the API server rejects new TrainJobs. The team keeps only the RoleBinding of
    `access.view`. Other teams can borrow all of its quota. Its namespaces, volume claims and Secrets stay. Default: the
    team is active."""
    weight: Count = 1
    """The fair-share weight of the team, among all teams and cohorts with the same parent cohort. Any value except 1
    needs `queues.fairSharing`."""
    cohort: Name | None = None
    """The cohort whose teams share quota with this team first, such as `physics`. If `cohorts` is not empty, it must
    list this name. Default: the root Cohort, which has the name of the platform. With `multiKueue`, the default is the
    root Cohort of the tenants with `multiKueue`."""
    multi_kueue: Flag = False
    """If true, jobs of the team run on the worker clusters of `queues.multiKueue`, never on this cluster. The quota
    then counts nodes of the worker clusters, and the team shares quota only with other teams that set `multiKueue`.
    Needs Trainer 2.3."""
    reservations: NamedOf[Reservation] = ()
    """Reservations: additional quota until a day, such as before a deadline."""
    priorities: SetOf[Name] | None = None
    """The names in `queues.priorities` that jobs of the team may use, such as `[research]`. Default: all names in
    `queues.priorities`."""
    residency: SetOf[Place] = Field(default=(), examples=[["eu-central-1"]])
    """The places, of those in `policies.residency.values`, in which jobs of the team may run. mpigen rejects quota and
    borrowing limits in pools of other places, and the team cannot use runtimes on these pools. Default: all places in
    `policies.residency.values`."""
    registries: SetOf[Registry] = ()
    """The image registries that TrainJobs of the team may use in addition to `policies.images.registries`, such as
    `ghcr.io/acme/`. If `policies.images.registries` is empty, the team may use only these registries. Default: no more
    registries."""
    labels: Annotated[Labels, AfterValidator(reject_reserved_labels)] = Field(default={}, validate_default=True)
    """Labels of the namespaces, such as a cost centre. If `policies.labels` lists the key of such a label, TrainJobs of
    the team must have the same label and value."""
    service_account_annotations: Annotations = Field(default={}, validate_default=True)
    """The annotations of the ServiceAccount `mpi`, with which the MPI pods of the team run, in each of its namespaces.
    Clouds read the identity of pods from them, such as `eks.amazonaws.com/role-arn` or
    `azure.workload.identity/client-id`. mpigen rejects annotations with a prefix of Kubernetes, Kubeflow, OpenShift,
    Argo CD, Flux or mpigen."""
    limits: Limits = Limits()
    """Upper limits of each namespace of the team."""
    access: Access = Access()
    """The users, groups and ServiceAccounts that have a role in the namespaces of the team."""
    relax: tuple[Relaxation, ...] = ()
    """Relaxations: rules that do not apply to the team until a day, each with a reason. `mpigen synth` and
    `mpigen validate` report them."""
    workloads: Workloads = Workloads()
    """The workloads other than TrainJobs that may run in the namespaces of the team, in addition to
    `policies.workloads`. Default: none."""
    egress: NamedOf[Egress] = ()
    """The destinations that pods of the team may reach: networks and DNS names outside the cluster, and pods of other
    namespaces that belong to no tenant. NetworkPolicies deny all other destinations, except DNS, MPI pods of the same
    namespace, and the addresses that `isolation` allows. Traffic over fabrics bypasses NetworkPolicies."""
    fabrics: NamedOf[FabricShare] = ()
    """The partitions and addresses of fabrics that belong to this team alone. On a fabric for which the team sets no
    `pkey` and no `vlan`, it shares a partition with all other teams that set none."""
    secrets: Secrets = Secrets()
    """The Secrets that External Secrets fetches for the team. Neither this file nor a release holds their values."""
    volumes: NamedOf[DataVolume] = ()
    """PersistentVolumeClaims for the team's data."""
    schedules: Schedules = ()
    """CronJobs that create TrainJobs of the team at given times. They run in the namespace `<name>-schedules`, in which
    no member of the team can write. Needs `policies.schedules`."""
    extra: Extras = ()
    """Objects of your own in the team's folder of the release: objects, and files with objects, as in the top-level
    `extra`. An object with a namespace is in a namespace of the team."""

    def _contradictions(self) -> Iterator[Fault]:
        reads = ("retired", "stop")
        if self.retired and self.stop != "none":
            message = f"`stop: {self.stop}` has no effect on a retired team, because `retired` drains its queue"
            fix = "remove `stop`, or set `retired` in a later release, after the running jobs complete"
            yield Fault(message, fix, ("stop",), reads)

    @field_validator("relax")
    @classmethod
    def _reject_duplicate_rules(cls, value: tuple[Relaxation, ...]) -> tuple[Relaxation, ...]:
        rules = [relaxation.rule for relaxation in value]
        reject(duplicates(rules, "write one relaxation for each rule", "rule"))
        return tuple(sorted(value, key=lambda relaxation: relaxation.rule))

    @property
    def homes(self) -> tuple[Self, ...]:
        """Return a copy of the team for each of its namespaces: first the one named like the team, then `namespaces`.

        The name of a copy is the namespace.
        """
        alone = copy_unchecked(self, namespaces=())
        return (alone, *(copy_unchecked(alone, name=namespace) for namespace in self.namespaces))

    @property
    def schedule_namespace(self) -> str:
        """Return the namespace of the CronJobs of the team, in which Kueue queues no Jobs.

        Kueue puts each Job without a queue into the LocalQueue `default` of its namespace, so a CronJob in a namespace
        of the team would wait for quota (kueue v0.19.2 pkg/controller/jobframework/defaults.go
        ApplyDefaultLocalQueueWithManagedJobsNamespaceSelector).
        """
        return f"{self.name}-schedules"

    @property
    def quotas(self) -> tuple[Shares, ...]:
        """Return the quota of the team, and the quota of each reservation."""
        return (self.quota, *(reservation.quota for reservation in self.reservations))

    @property
    def pod_security(self) -> Standard | None:
        """Return the relaxed Pod Security level of the team's pods; None if the platform's level applies."""
        return next((relaxation.to for relaxation in self.relax if relaxation.rule == POD_SECURITY), None)


class Cohort(Section):
    """A Kueue Cohort: a group of teams or of other cohorts that share quota with each other first."""

    name: Name
    """The name of the Cohort, such as `physics`. `tenants[].cohort` and `parent` refer to it."""
    parent: Name | None = None
    """The name of the parent Cohort. Default: the platform's root Cohort. For cohorts of tenants with `multiKueue`, the
    default is the root Cohort of these tenants."""
    quota: Shares = Field(default={}, validate_default=True)
    """The nominal quota of the cohort as a whole, in the form of `tenants[].quota`, such as `h100: 2` for two nodes of
    pool `h100`. Teams of the cohort can use this quota up to their `borrow`, and other teams up to `lend` of the
    cohort. Default: none."""
    borrow: Shares | None = None
    """The most quota that the teams of this cohort together can borrow from teams and cohorts outside it, in the form
    of `tenants[].quota`, such as `h100: 4` for four nodes of pool `h100`. If this field is set, a pool without an
    amount in it has the limit 0. Default: no limit."""
    lend: Shares | None = None
    """The most quota of this cohort and its teams that teams and cohorts outside it can borrow, in the form of
    `tenants[].quota`, such as `h100: 1` for one node of pool `h100`. If this field is set, a pool without an amount in
    it has the limit 0. Default: all quota of the cohort, and all quota that its teams and child cohorts lend."""
    weight: Count = 1
    """The fair-share weight of the cohort, among all cohorts and teams with the same parent. Any value except 1 needs
    `queues.fairSharing`."""


def workers_cohort(platform: str) -> str:
    """Return the name of the default cohort of tenants whose jobs run on worker clusters."""
    return platform + REMOTE_COHORT


def remote_cohorts(tenants: Iterable[Tenant], cohorts: Iterable[Cohort]) -> AbstractSet[str]:
    """Return the names of all cohorts in each tree that has a tenant whose jobs run on other clusters.

    Kueue counts the quota of such tenants on this cluster and lends it like any other (v0.19.2 pkg/cache/scheduler
    ignores admission checks of lenders). But this quota is for nodes of other clusters, so these tenants have a cohort
    tree of their own.
    """
    tops = outermost_cohorts(cohorts)
    roots = {tops.get(tenant.cohort, tenant.cohort) for tenant in tenants if tenant.multi_kueue and tenant.cohort}
    return roots | {name for name, top in tops.items() if top in roots}


def outermost_cohorts(cohorts: Iterable[Cohort]) -> Mapping[str, str]:
    """Return cohort → the root of its tree. All cohorts of a cycle have the same root, one of the cycle's cohorts."""
    parents = {cohort.name: cohort.parent for cohort in cohorts}
    tops: dict[str, str] = {}
    for name in parents:
        way = [name]
        while (parent := parents.get(way[-1])) and parent not in way and way[-1] not in tops:
            way.append(parent)
        top = tops.get(way[-1], way[-1])
        tops.update(dict.fromkeys(way, top))
    return tops
