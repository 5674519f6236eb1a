"""`runtimes`: the ways to launch MPI that tenants may name in a TrainJob."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from generator.config.fabrics import Fabric
from generator.config.families import FAMILIES, Family, FamilyName
from generator.config.fields import (
    Count,
    LabelKey,
    LabelValue,
    Name,
    Resources,
    Room,
    Section,
    each_once,
    free_labels,
    refusal,
)
from generator.config.images import Image
from generator.config.placement import Placement
from generator.config.pools import Pool
from generator.config.volumes import RuntimeVolume
from generator.documents.syntax import shown
from generator.facts import env
from generator.facts.host_variables import row_of

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
        raise refusal(f"{shown(value)} is not the name of a variable", "write letters, digits and `_`, like NCCL_DEBUG")
    if value in env.RESERVED_BY_TRAINER:
        raise refusal(f"`{value}` is set by Trainer, whatever stands here", "remove it; `mpirun --mca` overrides it")
    if value in _OURS:
        raise refusal(f"`{value}` lets the ranks find each other", "remove it: mpigen sets it")
    if row := row_of(value):
        raise refusal(
            f"`{value}` belongs to one host: {row.reason}; hosts would ignore the value of the launcher", "remove it"
        )
    return value


def _is_interface(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,14}", value):
        raise refusal(f"{shown(value)} is not a network interface", "write its name in the pods, such as eth0")
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
        return free_labels(value)

    @field_validator("tenants")
    @classmethod
    def _each_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(value)))

    @field_validator("volumes")
    @classmethod
    def _apart(cls, value: tuple[RuntimeVolume, ...]) -> tuple[RuntimeVolume, ...]:
        for what in ("name", "mount_path"):
            each_once((getattr(volume, what) for volume in value), "give each volume its own name and place")
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
