"""`runtimes`: the training runtimes that a TrainJob can name."""

from __future__ import annotations

import posixpath
import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from generator.config.model.fabrics import Fabric
from generator.config.model.fields import (
    INTERFACE,
    Count,
    LabelKey,
    Labels,
    MappingOf,
    Name,
    Resources,
    Room,
    Section,
    SetOf,
    String,
    invalid,
    matching,
    reject_reserved_labels,
    require_unique,
    sort_keys,
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
_MOUNT_PATH = re.compile(r"[^:\x00-\x1f\x7f]{1,4095}")
_TAKEN_NAMES = ("home", "run", "tmp", "shared-memory", "mpi-hostfile", "mpi-ssh-auth")


def _is_mount_path(value: str) -> str:
    is_plain = value.startswith("/") and not value.startswith("//") and posixpath.normpath(value) == value
    if not is_plain or value == "/" or not _MOUNT_PATH.fullmatch(value):
        raise invalid(f"{format_value(value)} is not a mount path", "write an absolute path, such as /data")
    if fault := hidden_by(value):
        raise invalid(f"a volume at {format_value(value)} {fault}", "use a path such as /data")
    return value


def _is_free(value: str) -> str:
    if value in _TAKEN_NAMES:
        raise invalid(f"`{value}` is the name of a volume that mpigen adds to every pod", "choose another name")
    return value


class RuntimeVolume(Section):
    """A volume of the launcher and the nodes: a claim of the tenant, or scratch space on the node."""

    name: Annotated[Name, AfterValidator(_is_free)]
    """The name of the volume in the pods, such as `datasets`."""
    mount_path: Annotated[String, AfterValidator(_is_mount_path)]
    """The absolute path at which the volume is mounted, such as `/data`."""
    claim: Name | None = None
    """The PersistentVolumeClaim in the namespace of the job. Several nodes mount it, so it needs ReadWriteMany."""
    scratch: Room | None = None
    """The size of scratch space on each node, such as `100Gi`. It is deleted with the pod."""
    read_only: bool = False
    """If true, programs can read the volume but not write to it."""

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if (self.claim is None) == (self.scratch is None):
            raise invalid(
                "a volume needs exactly one of `claim` and `scratch`", "set one of them, and remove the other"
            )
        return self


class Placement(Section):
    """The topology level within which Kueue places the hosts of a job, such as `example.com/rack`."""

    required: LabelKey | None = None
    """A level of the pool's topology. All hosts of a job run in one place of this level, such as one rack. The job
    stays pending until one place has room for all of them."""
    preferred: LabelKey | None = None
    """A level of the pool's topology. All hosts of a job run in one place of this level if one has room, else in as few
    places as possible."""

    @model_validator(mode="after")
    def _has_one_level(self) -> Self:
        if (self.required is None) == (self.preferred is None):
            raise invalid(
                "a placement needs exactly one of `required` and `preferred`", "set one of them, and remove the other"
            )
        return self

    @property
    def level(self) -> str:
        """Return the label of the level."""
        return self.required or self.preferred or ""


_OURS = {
    *env.HOSTFILES,
    env.PRTE_MCA_prte_keep_fqdn_hostnames,
    env.PRTE_MCA_prte_set_default_slots,
    "HOME",
}
_SCHEDULERS = {"coscheduling": "scheduler-plugins-scheduler", "volcano": "volcano"}
"""Gang scheduler → its default `schedulerName`.

Sources: scheduler-plugins v0.33.5 manifests/install/charts/as-a-second-scheduler/values.yaml; volcano
cmd/scheduler/app/options/options.go.
"""


def _is_free_variable(value: str) -> str:
    if value in env.RESERVED_BY_TRAINER:
        message = f"Trainer sets `{value}`, and ignores this value"
        raise invalid(message, "remove this variable; to override the value of Trainer, use `mpirun --mca`")
    if value in _OURS:
        raise invalid(f"mpigen sets `{value}`, so that ranks find each other", "remove this variable")
    if row := host_variable(value):
        message = f"each host has its own `{value}` and ignores this value: {row.reason}"
        raise invalid(message, "remove this variable")
    return value


Variable = Annotated[
    String,
    matching(r"[A-Za-z_][A-Za-z0-9_]*", "the name of a variable", "write letters, digits and `_`, like NCCL_DEBUG"),
    AfterValidator(_is_free_variable),
]
Interface = Annotated[
    String, matching(INTERFACE, "a network interface", "write the name of an interface in the pods, such as eth0")
]
Seconds = Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)]


class Runtime(Section):
    """A training runtime: an MPI family on one pool."""

    name: Name
    """The name of the runtime, such as `openmpi-h100`. A TrainJob names it in `runtimeRef.name`."""
    use: FamilyName = "openmpi"
    """The MPI family or framework, such as `openmpi` or `deepspeed`. `mpigen runtimes` lists them."""
    pool: Name
    """The name of the pool whose nodes run the ranks."""
    tenants: SetOf[Name] = ()
    """The tenants that can use the runtime, as a TrainingRuntime in their namespaces. Default: all tenants, as a
    ClusterTrainingRuntime."""
    image: Image | None = None
    """The image of the launcher and the nodes, with OpenSSH and the software of the family. Default: for `openmpi` on
    CPU pools a public image; other runtimes need this field."""
    nodes: Annotated[int, Field(strict=True, ge=2, le=2**31 - 1)] | None = None
    """The number of hosts of a TrainJob without `numNodes`. Default: 2."""
    processes_per_node: Count | None = None
    """The number of ranks per node. Default: one per device. On a CPU pool the default is one per whole CPU, or a
    single rank for a framework with threads of its own."""
    resources: Resources = Field(default={})
    """The requests of one host that differ from the default, such as `nvidia.com/gpu: 4`. Default: all devices, and
    nine tenths of cpu and memory of a node."""
    launcher: Literal["node", "separate"] | None = None
    """The place of `mpirun`. `node`: on a host that also runs ranks. `separate`: in a small pod of its own. Default:
    `node`, but `separate` for families that must know the host of rank 0 in advance."""
    launcher_resources: Resources = Field(default={})
    """The requests of a separate launcher that differ from the default of 1 cpu and 2Gi of memory."""
    binding: Literal["none", "core", "numa", "socket"] = "none"
    """The set of cores that each rank is bound to. Bind ranks only if the pod has exclusive cores. Default: ranks may
    use all cores of the pod."""
    placement: Placement | None = None
    """The topology level within which the hosts of a job run, on a pool with a topology. Default: preferably in one
    place of the narrowest level above a node."""
    gang: Literal["kueue", "coscheduling", "volcano"] = "kueue"
    """The gang scheduler, which starts all pods of a job or none. `kueue`: Kueue evicts a job whose pods do not all get
    ready. `coscheduling` and `volcano`: in addition, the scheduler starts no pod until all pods of the job fit. Install
    that scheduler before Trainer."""
    scheduler: Name | None = None
    """The `schedulerName` of the pods. Default: `scheduler-plugins-scheduler` or `volcano` for these gang schedulers,
    else the scheduler of Kubernetes."""
    interface: Interface = "eth0"
    """The interface of the pod network inside the pods. Ranks use it to start and to connect."""
    shared_memory: Room | None = None
    """The size of /dev/shm, such as `16Gi`. Default: an eighth of the memory of a host."""
    environment: MappingOf[Variable, String] = Field(default={})
    """The environment variables of all ranks, such as `NCCL_DEBUG: INFO`. They override the image's variables on every
    host. A TrainJob can override them."""
    volumes: tuple[RuntimeVolume, ...] = ()
    """The volumes of the launcher and the nodes, for datasets, checkpoints and scratch space."""
    labels: Annotated[Labels, AfterValidator(reject_reserved_labels)] = Field(default={})
    """Labels of the pods, such as a cost centre."""
    read_only_root_filesystem: bool = False
    """If true, programs can write only to volumes, the home directory and /tmp."""
    fabric: Literal["pool", "none"] = "pool"
    """The network between ranks. `pool`: the fabric of the pool, if it has one. `none`: TCP on the pod network."""
    memlock: Literal["node", "capability"] = "node"
    """The limit of memory that ranks can lock, which RDMA needs. `node`: the limit of the nodes. `capability`: no
    limit, because ranks get the capability IPC_LOCK; each tenant must then relax `pod-security` to `memlock`, and the
    image needs a `setpriv` with the file capability `cap_ipc_lock`."""
    restarts: Count | None = None
    """The number of times that JobSet restarts a failed job as a whole. Default: never."""
    active_deadline_seconds: Count | None = None
    """The number of seconds after which a running job fails. Default: no deadline."""
    termination_grace_period_seconds: Seconds | None = None
    """The number of seconds that ranks have to save their state when the job is stopped. Default: 30."""
    ttl_seconds_after_finished: Seconds | None = None
    """The number of seconds after which JobSet deletes a finished job with its pods and logs. Default: JobSet keeps
    them until the TrainJob is deleted. mpigen rejects this field for versions of Trainer that then run a failed job
    again, which are all supported versions."""
    deprecated: bool = False
    """If true, Trainer warns users of the runtime. Give the successor another name, because parts of a runtime cannot
    change."""

    @field_validator("resources", "launcher_resources")
    @classmethod
    def _by_resource(cls, value: dict[str, str]) -> dict[str, str]:
        return sort_keys(value)

    @field_validator("volumes")
    @classmethod
    def _are_apart(cls, value: tuple[RuntimeVolume, ...]) -> tuple[RuntimeVolume, ...]:
        for field in ("name", "mount_path"):
            require_unique((getattr(volume, field) for volume in value), "give each volume its own name and path")
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
        """Return the `schedulerName` of the pods; empty for the scheduler of Kubernetes."""
        return self.scheduler or _SCHEDULERS.get(self.gang, "")

    @property
    def has_separate_launcher(self) -> bool:
        """Return True if the launcher is a pod without ranks."""
        return self.launcher == "separate" or (self.launcher is None and self.family.rank_variables)


def fabric_of(runtime: Runtime, pool: Pool) -> Fabric | None:
    """Return the fabric of the pool, unless the runtime excludes it."""
    return None if runtime.fabric == "none" else pool.wiring
