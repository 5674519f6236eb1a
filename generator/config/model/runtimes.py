"""`runtimes`: the training runtimes that a TrainJob can name."""

from __future__ import annotations

import posixpath
import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from generator.config.model.fabrics import Fabric
from generator.config.model.fields import (
    Count,
    LabelKey,
    LabelValue,
    Name,
    Resources,
    Room,
    Section,
    invalid,
    reject_reserved_labels,
    require_unique,
)
from generator.config.model.policies import Image
from generator.config.model.pools import Pool
from generator.documents.messages import format_value
from generator.facts import env
from generator.facts.env import host_variable
from generator.facts.families import FAMILIES, Family, FamilyName
from generator.facts.images import hidden_by

HOME = "/home/mpiuser"
RUN = "/run/mpi"
_PLACE = re.compile(r"[^:\x00-\x1f\x7f]{1,4095}")
_TAKEN_NAMES = ("home", "run", "tmp", "shared-memory", "mpi-hostfile", "mpi-ssh-auth")


def _is_place(value: str) -> str:
    is_plain = value.startswith("/") and not value.startswith("//") and posixpath.normpath(value) == value
    if not is_plain or value == "/" or not _PLACE.fullmatch(value):
        raise invalid(f"{format_value(value)} is not a place for a volume", "write an absolute path, such as /data")
    if what := hidden_by(value):
        raise invalid(f"a volume at {format_value(value)} {what}", "use a path such as /data")
    return value


def _is_free(value: str) -> str:
    if value in _TAKEN_NAMES:
        raise invalid(f"`{value}` is a volume that every pod has", "give yours another name")
    return value


class RuntimeVolume(Section):
    """A volume of launcher and nodes: a claim of the tenant's, or scratch space on the node."""

    name: Annotated[Name, AfterValidator(_is_free)]
    """Its name in the pods."""
    mount_path: Annotated[str, Field(strict=True), AfterValidator(_is_place)]
    """Where programs see it."""
    claim: Name | None = None
    """The PersistentVolumeClaim in the namespace of whoever trains. Several nodes use it at once: ReadWriteMany."""
    scratch: Room | None = None
    """The size of scratch space on each node, gone with the pod."""
    read_only: bool = False
    """Whether programs can only read it."""

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if (self.claim is None) == (self.scratch is None):
            raise invalid("a volume is one of `claim` and `scratch`", "write exactly one of them")
        return self


class Placement(Section):
    """A level of the pool's topology, such as `example.com/rack`."""

    required: LabelKey | None = None
    """All hosts are in one such place; until one has room for all, the job waits."""
    preferred: LabelKey | None = None
    """All hosts are in one such place if one has room, else in as few places of the next wider level as can be."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.required is None) == (self.preferred is None):
            raise invalid("not exactly one of `required` and `preferred`", "write one of the two")
        return self

    @property
    def level(self) -> str:
        """The label that either names."""
        return self.required or self.preferred or ""


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OURS = {
    *env.HOSTFILES,
    env.PRTE_MCA_prte_keep_fqdn_hostnames,
    env.PRTE_MCA_prte_set_default_slots,
    "HOME",
}

# What they call themselves: scheduler-plugins v0.33.5 manifests/install/charts/as-a-second-scheduler/values.yaml;
# volcano cmd/scheduler/app/options/options.go.
_SCHEDULERS = {"coscheduling": "scheduler-plugins-scheduler", "volcano": "volcano"}


def _is_variable(value: str) -> str:
    if not _VARIABLE.fullmatch(value):
        raise invalid(
            f"{format_value(value)} is not the name of a variable", "write letters, digits and `_`, like NCCL_DEBUG"
        )
    if value in env.RESERVED_BY_TRAINER:
        raise invalid(f"`{value}` is set by Trainer, whatever stands here", "remove it; `mpirun --mca` overrides it")
    if value in _OURS:
        raise invalid(f"`{value}` lets the ranks find each other", "remove it: mpigen sets it")
    if row := host_variable(value):
        raise invalid(
            f"`{value}` belongs to one host: {row.reason}; hosts would ignore the value of the launcher", "remove it"
        )
    return value


def _is_interface(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,14}", value):
        raise invalid(f"{format_value(value)} is not a network interface", "write its name in the pods, such as eth0")
    return value


Variable = Annotated[str, Field(strict=True), AfterValidator(_is_variable)]
Interface = Annotated[str, Field(strict=True), AfterValidator(_is_interface)]
Seconds = Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)]


class Runtime(Section):
    """One training runtime: an MPI family on one pool."""

    name: Name
    """What a TrainJob writes in `runtimeRef.name`."""
    use: FamilyName = "openmpi"
    """The MPI family; `mpigen runtimes` lists them."""
    pool: Name
    """The pool whose nodes run the ranks."""
    tenants: tuple[Name, ...] = ()
    """The only tenants that get it, as a TrainingRuntime in their namespaces. Default: all, as a
    ClusterTrainingRuntime."""
    image: Image | None = None
    """The image of launcher and nodes: what the family needs, and OpenSSH. The openmpi family has a default on CPU
    pools."""
    nodes: Annotated[int, Field(strict=True, ge=2, le=2**31 - 1)] | None = None
    """Hosts of a TrainJob that does not say `numNodes`. Default: 2."""
    processes_per_node: Count | None = None
    """Ranks on each node. Default: one for each device; on a CPU pool one for each whole CPU, or a single one for a
    framework that has threads of its own."""
    resources: Resources = Field(default={})
    """What the ranks of one node request, where it is not the default: all devices, nine tenths of cpu and memory."""
    launcher: Literal["node", "separate"] | None = None
    """Where `mpirun` runs: on a host that runs ranks too, or in a small pod of its own. Default: `node`; `separate` for
    families whose ranks must know in advance where the first of them runs."""
    launcher_resources: Resources = Field(default={})
    """What a separate launcher requests, where it is not the default: 1 cpu, 2Gi of memory."""
    binding: Literal["none", "core", "numa", "socket"] = "none"
    """What each rank is bound to. Bind only where a pod has its cores to itself."""
    placement: Placement | None = None
    """How close together the hosts of a job must be, where the pool has a topology. Default: preferably in one place of
    the narrowest level above a node."""
    gang: Literal["kueue", "coscheduling", "volcano"] = "kueue"
    """Who sees to it that all pods of a job run or none: Kueue alone, which evicts a job whose pods do not all get
    ready, or a scheduler as well, which starts none before there is room for all. Install it before Trainer."""
    scheduler: Name | None = None
    """The scheduler of the pods. Default: that of Kubernetes; for a gang `scheduler-plugins-scheduler` or `volcano`."""
    interface: Interface = "eth0"
    """The interface of the pod network, in the pods. Ranks start and meet there, whatever else is attached."""
    shared_memory: Room | None = None
    """Size of /dev/shm. Default: an eighth of the memory."""
    environment: dict[Variable, Annotated[str, Field(strict=True)]] = Field(default={})
    """Variables of all ranks. A TrainJob overrides them, and they override those of the image, on every host."""
    volumes: tuple[RuntimeVolume, ...] = ()
    """Volumes of launcher and nodes: datasets, checkpoints, scratch space."""
    labels: dict[LabelKey, LabelValue] = Field(default={})
    """Labels of the pods, such as a cost centre."""
    read_only_root_filesystem: bool = False
    """Whether programs can write to the volumes, the home directory and /tmp only."""
    fabric: Literal["pool", "none"] = "pool"
    """Whether hosts are attached to the fabric of the pool, where it has one. `none`: ranks talk over TCP."""
    memlock: Literal["node", "capability"] = "node"
    """How ranks may lock the memory that RDMA uses: as far as the nodes let everybody, or beyond it, by the capability
    IPC_LOCK. For that each of its tenants relaxes `pod-security` to `memlock`, and the image has a `setpriv` with the
    file capability `cap_ipc_lock`."""
    restarts: Count | None = None
    """How often a failed job is started again as a whole. Default: never."""
    active_deadline_seconds: Count | None = None
    """When a job that still runs is ended as failed. Default: never."""
    termination_grace_period_seconds: Seconds | None = None
    """How long ranks may save their state when the job is stopped. Default: 30."""
    ttl_seconds_after_finished: Seconds | None = None
    """When JobSet deletes a finished job with its pods and logs. Default: with the TrainJob. Refused for releases of
    Trainer that then run a failed job again, which are all supported ones."""
    deprecated: bool = False
    """Whether people who still use it are warned. Give its successor a new name: parts of a runtime cannot change."""

    @field_validator("resources", "launcher_resources", "environment", "labels")
    @classmethod
    def _in_order(cls, value: dict[str, str]) -> dict[str, str]:
        return dict(sorted(value.items()))

    @field_validator("labels")
    @classmethod
    def _are_free(cls, value: dict[str, str]) -> dict[str, str]:
        return reject_reserved_labels(value)

    @field_validator("tenants")
    @classmethod
    def _each_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(value)))

    @field_validator("volumes")
    @classmethod
    def _apart(cls, value: tuple[RuntimeVolume, ...]) -> tuple[RuntimeVolume, ...]:
        for what in ("name", "mount_path"):
            require_unique((getattr(volume, what) for volume in value), "give each volume its own name and place")
        return tuple(sorted(value, key=lambda volume: volume.name))

    @property
    def family(self) -> Family:
        """The catalogue's entry."""
        return FAMILIES[self.use]

    @property
    def locks_memory(self) -> bool:
        """Whether ranks get a capability for it."""
        return self.memlock == "capability"

    @property
    def pod_scheduler(self) -> str:
        """The name of the scheduler of the pods; empty for that of Kubernetes."""
        return self.scheduler or _SCHEDULERS.get(self.gang, "")

    @property
    def has_separate_launcher(self) -> bool:
        """Whether the launcher is a pod without ranks."""
        return self.launcher == "separate" or (self.launcher is None and self.family.rank_variables)


def fabric_of(runtime: Runtime, pool: Pool) -> Fabric | None:
    """What the ranks of a runtime send their data over: the fabric of its pool, unless it is kept off it.

    Args:
        runtime: of the platform.
        pool: the one that it names, wired.
    """
    return None if runtime.fabric == "none" else pool.wiring
