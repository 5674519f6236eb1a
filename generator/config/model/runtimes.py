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
        raise invalid(f"{format_value(value)} is not a mount path", "write an absolute path, such as /data")
    if fault := hidden_by(value):
        raise invalid(f"a volume at {format_value(value)} {fault}", "use a path such as /data")
    return value


def _is_free(value: str) -> str:
    if value in _TAKEN_NAMES:
        raise invalid(f"`{value}` is the name of a volume of every pod", "choose another name")
    return value


class RuntimeVolume(Section):
    """A volume of the launcher and the nodes: a claim of the tenant, or scratch space on the node."""

    name: Annotated[Name, AfterValidator(_is_free)]
    """The name of the volume in the pods."""
    mount_path: Annotated[str, Field(strict=True), AfterValidator(_is_place)]
    """The folder at which it is mounted."""
    claim: Name | None = None
    """The PersistentVolumeClaim in the namespace of the job. Several nodes mount it, so it needs ReadWriteMany."""
    scratch: Room | None = None
    """The size of scratch space on each node. It is deleted with the pod."""
    read_only: bool = False
    """If true, programs can only read it."""

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if (self.claim is None) == (self.scratch is None):
            raise invalid("a volume needs either `claim` or `scratch`", "write one of them")
        return self


class Placement(Section):
    """A level of the pool's topology, such as `example.com/rack`."""

    required: LabelKey | None = None
    """Hosts of a job all run in one place of this level. The job waits until one place has room for all of them."""
    preferred: LabelKey | None = None
    """Hosts of a job all run in one place of this level if one has room, else in as few places as possible."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.required is None) == (self.preferred is None):
            raise invalid("a placement needs either `required` or `preferred`", "write one of them")
        return self

    @property
    def level(self) -> str:
        """Return the label of the level."""
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
        raise invalid(
            f"`{value}` is set by Trainer, which ignores this value", "remove it; `mpirun --mca` overrides it"
        )
    if value in _OURS:
        raise invalid(f"`{value}` is set by mpigen, so that ranks find each other", "remove it")
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
    """A training runtime: an MPI family on one pool."""

    name: Name
    """The name that a TrainJob writes in `runtimeRef.name`."""
    use: FamilyName = "openmpi"
    """The MPI family; `mpigen runtimes` lists them."""
    pool: Name
    """The pool whose nodes run the ranks."""
    tenants: tuple[Name, ...] = ()
    """The tenants that can use the runtime, as a TrainingRuntime in their namespaces. Default: all, as a
    ClusterTrainingRuntime."""
    image: Image | None = None
    """The image of launcher and nodes, with OpenSSH and the software of the family. The family openmpi has a default on
    CPU pools."""
    nodes: Annotated[int, Field(strict=True, ge=2, le=2**31 - 1)] | None = None
    """The number of hosts of a TrainJob without `numNodes`. Default: 2."""
    processes_per_node: Count | None = None
    """Ranks per node. Default: one per device; on a CPU pool one per whole CPU, or a single one for a framework with
    threads of its own."""
    resources: Resources = Field(default={})
    """Requests of the ranks of one node that differ from the default: all devices, nine tenths of cpu and memory."""
    launcher: Literal["node", "separate"] | None = None
    """The place of `mpirun`: on a host that also runs ranks, or in a small pod of its own. Default: `node`; `separate`
    for families that must know the host of rank 0 in advance."""
    launcher_resources: Resources = Field(default={})
    """Requests of a separate launcher that differ from the default: 1 cpu, 2Gi of memory."""
    binding: Literal["none", "core", "numa", "socket"] = "none"
    """The cores that each rank is bound to. Bind ranks only if the pod has exclusive cores."""
    placement: Placement | None = None
    """The distance between the hosts of a job, on a pool with a topology. Default: preferably in one place of the
    narrowest level above a node."""
    gang: Literal["kueue", "coscheduling", "volcano"] = "kueue"
    """The gang scheduler, which starts all pods of a job or none. `kueue`: Kueue evicts a job whose pods do not all get
    ready. `coscheduling` and `volcano`: the scheduler also starts no pod before all of them fit. Install it before
    Trainer."""
    scheduler: Name | None = None
    """The scheduler of the pods. Default: that of Kubernetes; for a gang `scheduler-plugins-scheduler` or `volcano`."""
    interface: Interface = "eth0"
    """The interface of the pod network in the pods. Ranks use it to start and to connect."""
    shared_memory: Room | None = None
    """The size of /dev/shm. Default: an eighth of the memory."""
    environment: dict[Variable, Annotated[str, Field(strict=True)]] = Field(default={})
    """Environment variables of all ranks. They override the image's variables on every host; a TrainJob overrides
    them."""
    volumes: tuple[RuntimeVolume, ...] = ()
    """Volumes of launcher and nodes: datasets, checkpoints, scratch space."""
    labels: dict[LabelKey, LabelValue] = Field(default={})
    """Labels of the pods, such as a cost centre."""
    read_only_root_filesystem: bool = False
    """If true, programs can only write to volumes, the home directory and /tmp."""
    fabric: Literal["pool", "none"] = "pool"
    """`pool`: hosts are attached to the fabric of the pool, if it has one. `none`: ranks use TCP."""
    memlock: Literal["node", "capability"] = "node"
    """The limit of memory that ranks can lock, which RDMA needs. `node`: up to the limit of the nodes. `capability`:
    without a limit, by the capability IPC_LOCK; each tenant must then relax `pod-security` to `memlock`, and the image
    needs a `setpriv` with the file capability `cap_ipc_lock`."""
    restarts: Count | None = None
    """The number of restarts of a failed job as a whole. Default: never."""
    active_deadline_seconds: Count | None = None
    """The time after which a running job fails. Default: none."""
    termination_grace_period_seconds: Seconds | None = None
    """The time that ranks have to save their state when the job is stopped. Default: 30."""
    ttl_seconds_after_finished: Seconds | None = None
    """The time after which JobSet deletes a finished job with its pods and logs. Default: with the TrainJob. mpigen
    rejects this field for versions of Trainer that then run a failed job again; all supported ones do."""
    deprecated: bool = False
    """If true, Trainer warns users of the runtime. Give the successor another name, because parts of a runtime cannot
    change."""

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
    def _reject_duplicates(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(value)))

    @field_validator("volumes")
    @classmethod
    def _apart(cls, value: tuple[RuntimeVolume, ...]) -> tuple[RuntimeVolume, ...]:
        for field in ("name", "mount_path"):
            require_unique((getattr(volume, field) for volume in value), "give each volume its own name and place")
        return tuple(sorted(value, key=lambda volume: volume.name))

    @property
    def family(self) -> Family:
        """Return the family of the catalogue."""
        return FAMILIES[self.use]

    @property
    def locks_memory(self) -> bool:
        """Return True if ranks get the capability IPC_LOCK."""
        return self.memlock == "capability"

    @property
    def pod_scheduler(self) -> str:
        """Return the scheduler of the pods; empty for that of Kubernetes."""
        return self.scheduler or _SCHEDULERS.get(self.gang, "")

    @property
    def has_separate_launcher(self) -> bool:
        """Return True if the launcher is a pod without ranks."""
        return self.launcher == "separate" or (self.launcher is None and self.family.rank_variables)


def fabric_of(runtime: Runtime, pool: Pool) -> Fabric | None:
    """Return the fabric of the ranks: that of the pool, unless the runtime excludes it.

    Args:
        runtime: a runtime of the platform.
        pool: its pool, with its fabric.
    """
    return None if runtime.fabric == "none" else pool.wiring
