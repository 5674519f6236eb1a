"""`runtimes`: the training runtimes that a TrainJob can name."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, GetCoreSchemaHandler, WithJsonSchema, field_validator
from pydantic_core import CoreSchema

from generator.config.model.fabrics import Fabric
from generator.config.model.fields import (
    INTERFACE,
    SUBDOMAIN,
    Annotations,
    Count,
    Fault,
    LabelKey,
    Labels,
    MappingOf,
    Name,
    Resources,
    Room,
    Section,
    SetOf,
    String,
    copy_unchecked,
    duplicates,
    invalid,
    matching,
    one_of,
    reject,
    reject_reserved_labels,
    sort_keys,
)
from generator.config.model.policies import Image, ImagePattern
from generator.config.model.pools import Pool
from generator.config.model.scheduling import NodeAffinity, Toleration
from generator.config.model.secrets import SecretName
from generator.documents.messages import format_value
from generator.facts import env
from generator.facts.env import host_variable
from generator.facts.families import FAMILIES, Family, FamilyName
from generator.facts.images import hidden_by
from generator.quantities import Quantity

HOME = "/home/mpiuser"
RUN = "/run/mpi"
_MOUNT_PATH = re.compile(r"[^:\x00-\x1f\x7f]{1,4095}")
TAKEN_VOLUMES = ("home", "run", "tmp", "shared-memory", "mpi-hostfile", "mpi-ssh-auth")
"""The names of the volumes that mpigen and Trainer add to pods."""


def _is_mount_path(value: str) -> str:
    if not value.startswith("/"):
        raise invalid(f"{format_value(value)} does not begin with `/`", "write an absolute path, such as /data")
    plain = posixpath.normpath(value).replace("//", "/")
    if plain == "/":
        raise invalid(f"a volume at {format_value(value)} hides the whole image", "use a path such as /data")
    if plain != value:
        message = f"{format_value(value)} has a part `.` or `..`, two slashes in a row, or a slash at the end"
        raise invalid(message, "write a path such as /data")
    if not _MOUNT_PATH.fullmatch(value):
        message = f"{format_value(value)} has a colon or a control character, or is longer than 4095 characters"
        raise invalid(message, "write a path such as /data")
    if fault := hidden_by(value):
        raise invalid(f"a volume at {format_value(value)} {fault}", "use a path such as /data")
    return value


def _is_rejected_later(value: object) -> object:
    """Reject a value of the wrong type. A rule rejects integers: all supported Trainer releases rerun failed jobs."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    fix = "remove this field: mpigen rejects all its values, because Trainer would run failed jobs again"
    raise invalid(f"{format_value(value)} is not an integer", fix)


def _is_free(value: str) -> str:
    if value in TAKEN_VOLUMES:
        raise invalid(f"`{value}` is the name of a volume that mpigen or Trainer adds to pods", "choose another name")
    return value


MountPath = Annotated[String, AfterValidator(_is_mount_path)]
"""An absolute path at which a volume is mounted in pods."""
ConfigMapName = Annotated[
    String, matching(SUBDOMAIN, "the name of a ConfigMap", "write a DNS subdomain, such as `company-ca`")
]


class RuntimeVolume(Section):
    """A volume of the launcher pod and the worker pods: a claim, scratch space, a ConfigMap or a Secret."""

    name: Annotated[Name, AfterValidator(_is_free)]
    """The name of the volume in the pods, such as `datasets`."""
    mount_path: MountPath
    """The absolute path at which the volume is mounted, such as `/data`."""
    claim: Name | None = None
    """The PersistentVolumeClaim in the namespace of the job. Pods on several nodes mount the claim, so it needs the
    access mode ReadWriteMany, or ReadOnlyMany with `readOnly: true`."""
    scratch: Room | None = None
    """The maximum size of the scratch space of each pod, such as `100Gi`. Kubernetes deletes its files with the pod."""
    config_map: ConfigMapName | None = None
    """The ConfigMap in the namespace of the job, such as `company-ca`. Its keys become files that programs can only
    read. Pods start after the ConfigMap exists."""
    secret: SecretName | None = None
    """The Secret in the namespace of the job, such as an entry of `tenants[].secrets.external`. Its keys become files
    that programs can only read. Pods start after the Secret exists, and all jobs with this runtime can read it."""
    read_only: bool = False
    """If true, programs can read the volume but not write to it. Volumes of ConfigMaps and Secrets are always
    read-only."""

    def _contradictions(self) -> Iterator[Fault]:
        return one_of("a volume", claim=self.claim, scratch=self.scratch, configMap=self.config_map, secret=self.secret)

    @property
    def is_read_only(self) -> bool:
        """Return True if programs cannot write to the volume."""
        return self.read_only or self.config_map is not None or self.secret is not None


class Placement(Section):
    """The topology level at which Kueue places the pods of a job together, such as one rack. Set exactly one field."""

    required: LabelKey | None = None
    """A level of `pools[].topology`, such as `example.com/rack`. All pods of a job run in one domain of this level,
    such as one rack. The job stays pending until one domain has room for all of its pods."""
    preferred: LabelKey | None = None
    """A level of `pools[].topology`. All pods of a job run in one domain of this level, such as one rack, if one domain
    has room for them. Else Kueue looks for one domain of a wider level, and at last uses as few domains of the widest
    level as possible."""

    def _contradictions(self) -> Iterator[Fault]:
        return one_of("a placement", required=self.required, preferred=self.preferred)

    @property
    def level(self) -> str:
        """Return the node label of the level."""
        return self.required or self.preferred or ""


class Checkpoint(Section):
    """The storage for checkpoints of a runtime's jobs."""

    claim: Name
    """The PersistentVolumeClaim in the namespace of the job. Pods on several nodes write to it, so it needs the access
    mode ReadWriteMany."""
    mount_path: MountPath = "/checkpoint"
    """The absolute path at which the claim is mounted. The variable `MPIGEN_CHECKPOINT` names the folder of the job
    below it: `/checkpoint/<name of the TrainJob>`. Jobs of the same name in a namespace resume from the same folder."""


class Resilience(Section):
    """The restart of jobs whose pods Kubernetes stops, and the storage for their checkpoints."""

    checkpoint: Checkpoint | None = None
    """The claim for checkpoints, so that a restarted job resumes if its program saves and loads them. Default: no
    claim, and the job starts from its beginning unless its program saves elsewhere."""


_OURS = {
    *env.HOSTFILES,
    env.PRTE_MCA_prte_keep_fqdn_hostnames,
    env.PRTE_MCA_prte_set_default_slots,
    "HOME",
}
_SCHEDULERS = {"coscheduling": "scheduler-plugins-scheduler", "volcano": "volcano"}
"""Gang scheduler → its default `schedulerName`.

Sources: scheduler-plugins v0.33.5 manifests/install/charts/as-a-second-scheduler/values.yaml; volcano-sh/volcano
cmd/scheduler/app/options/options.go.
"""


def taken_variable(name: str) -> tuple[str, str]:
    """Return (message, fix) for a variable that a runtime must not set for its ranks; ("", "") for another variable."""
    if name in env.RESERVED_BY_TRAINER:
        message = f"Trainer sets `{name}`, and ignores this value"
        return message, "remove this variable; to override the value of Trainer, use `mpirun --mca`"
    if name in _OURS:
        return f"mpigen sets `{name}`, so that ranks find each other", "remove this variable"
    if row := host_variable(name):
        message = f"`{name}` differs between the pods of a job, so one value is wrong: {row.reason}"
        return message, "remove this variable"
    return "", ""


def _is_free_variable(value: str) -> str:
    message, fix = taken_variable(value)
    if message:
        raise invalid(message, fix)
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
MPIRUN_ENDS = 3
"""The last seconds of the grace period, which `mpirun` has to end after its ranks."""
_SHORTEST_GRACE = 10


def _leaves_time_to_save(value: int) -> int:
    if value < _SHORTEST_GRACE:
        message = f"in {value} seconds, ranks have no time to save: SIGTERM needs seconds to reach the ranks of other "
        message += f"pods, and `mpirun` needs the last {MPIRUN_ENDS}"
        raise invalid(message, f"write at least {_SHORTEST_GRACE}, or remove this field for 30 seconds")
    return value


GracePeriod = Annotated[
    int,
    Field(strict=True, le=2**31 - 1, json_schema_extra={"minimum": _SHORTEST_GRACE}),
    AfterValidator(_leaves_time_to_save),
]


class _OpenNames:
    """The validation of a name from a list of mpigen or of the platform: any string, because rules know both lists.

    The JSON Schema and type checkers suggest the names of mpigen.
    """

    @staticmethod
    def __get_pydantic_core_schema__(_: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(String)


FamilyOrOwn = Annotated[
    FamilyName | str,
    _OpenNames,
    WithJsonSchema({"anyOf": [{"enum": [*FAMILIES]}, {"type": "string", "minLength": 1}]}),
]


class Runtime(Section):
    """A runtime of Kubeflow Trainer, with which TrainJobs run one MPI family on one pool."""

    name: Name
    """The name of the runtime, such as `openmpi-h100`. A TrainJob names it in `runtimeRef.name`."""
    use: FamilyOrOwn = "openmpi"
    """The MPI family: an MPI implementation or a framework, such as `openmpi` or `deepspeed`, or an entry of
    `families`. `mpigen runtimes` lists the families of mpigen."""
    pool: Name
    """The name of the pool whose nodes run the ranks."""
    tenants: SetOf[Name] = ()
    """The tenants that can use the runtime, as a TrainingRuntime in their namespaces. If the list is empty, all tenants
    can use the runtime, as a ClusterTrainingRuntime."""
    image: Image | None = None
    """The image of the launcher pod and the worker pods, with the software of the family, and with OpenSSH unless
    `sshImage` has it. Default: `families[].defaultImage`, or a public image for `openmpi` on CPU pools. All other
    runtimes need this field."""
    images: SetOf[ImagePattern] = ()
    """The images that a TrainJob may use instead of `image`: images, or a path or repository with `*` at the end, such
    as `quay.io/acme/*` or `quay.io/acme/train:*`. `mpigen job new --image` then copies the runtime with one of these
    images into the namespace of the team, and the admission rule `own-images` rejects every other copy. Default: none;
    then all jobs use `image`."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """The time at which nodes pull `image` or `sshImage` for a container: at each start, only if the node has no such
    image, or never. Default: `Always` for an image with the tag `latest` or without a tag, else `IfNotPresent`."""
    ssh_image: Image | None = None
    """An image with static `ssh` and `sshd`, for an `image` without OpenSSH. An init container copies these programs
    into each pod. `examples/images/openssh` builds the image. Default: the pods use OpenSSH of `image`."""
    nodes: Annotated[int, Field(strict=True, ge=2, le=2**31 - 1)] | None = None
    """The number of worker pods of a TrainJob without `numNodes`. Default: 2."""
    processes_per_node: Count | None = None
    """The number of ranks (MPI processes) per worker pod. Default: one per accelerator that the pod requests. On a CPU
    pool the default is one per whole CPU, or a single rank for a framework with threads of its own. mpigen rejects 1
    for a pod with several GPUs, because Trainer would start one rank per GPU."""
    resources: Resources = Field(default={}, validate_default=True)
    """The requests of one worker pod that differ from the default, such as `nvidia.com/gpu: 4`. Limits equal the
    requests. Default: all accelerators of a node, the resources of its fabric, and nine tenths of its cpu and memory.
    With `pools[].daemons`, the default is all cpu and memory that the DaemonSets leave. On a pool with MIG, the default
    is one slice, one of each resource of the fabric, and the slice's share of cpu and memory."""
    launcher: Literal["node", "separate"] | None = None
    """The pod that runs `mpirun`. `node`: a worker pod, which also runs ranks. `separate`: a small pod without ranks.
    Default: `separate` for families that must know the pod of rank 0 in advance, else `node`. mpigen rejects `node` for
    such families."""
    launcher_resources: Resources = Field(default={}, validate_default=True)
    """The requests of a separate launcher pod that differ from the default. Default: 1 cpu and 2Gi of memory. The
    launcher of MPICH connects to all nodes itself: on a pool of more than 64 nodes, it requests 1 cpu for every 64
    nodes, rounded up, at most 8, and 4Mi more memory for each node after the first 64."""
    binding: Literal["none", "core", "numa", "socket"] = "none"
    """The set of cores that each rank is bound to. Bind ranks only if the pod has exclusive cores. Default: ranks may
    use all cores of the pod."""
    placement: Placement | None = None
    """The topology level at which Kueue places the pods of a job together, on a pool with `topology`. Default:
    `preferred` with the narrowest level except `kubernetes.io/hostname`, or with `kubernetes.io/hostname` if the pool
    has no other level."""
    gang: Literal["kueue", "coscheduling", "volcano"] = "kueue"
    """The gang scheduler, which starts all pods of a job or none. `kueue`: Kueue evicts a job whose pods are not all
    ready after `queues.waitForPodsReady.timeout`. `coscheduling` and `volcano`: in addition, the scheduler starts no
    pod until all pods of the job fit. Install that scheduler before Trainer."""
    scheduler: Name | None = None
    """The `schedulerName` of the pods. Default: `scheduler-plugins-scheduler` for `gang: coscheduling`, `volcano` for
    `gang: volcano`, else the scheduler of Kubernetes."""
    interface: Interface = "eth0"
    """The interface of the pod network inside the pods. Ranks use it to start and to connect, and without a fabric also
    for their data."""
    shared_memory: Room | None = None
    """The size of /dev/shm in each worker pod, such as `16Gi`. Default: an eighth of the memory of the pod."""
    environment: MappingOf[Variable, String] = Field(default={}, validate_default=True)
    """The environment variables of all ranks, such as `NCCL_DEBUG: INFO`. They override variables of the image and of
    mpigen, and a TrainJob can override them. mpigen rejects variables with which ranks find each other, and variables
    that differ between pods."""
    volumes: tuple[RuntimeVolume, ...] = ()
    """The volumes of the launcher pod and the worker pods, for datasets, checkpoints, scratch space and
    certificates."""
    labels: Annotated[Labels, AfterValidator(reject_reserved_labels)] = Field(default={}, validate_default=True)
    """Labels of the pods, such as a cost centre."""
    annotations: Annotations = Field(default={}, validate_default=True)
    """Annotations of the pods, such as `karpenter.sh/do-not-disrupt: "true"`. mpigen rejects annotations with a prefix
    of Kubernetes, Kubeflow, Multus, OpenShift, Argo CD, Flux or mpigen, but accepts annotations of the Cluster
    Autoscaler."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints that the launcher pod and the worker pods tolerate, in addition to the taints of the pool, such as
    `[{key: example.com/maintenance, effect: NoExecute, tolerationSeconds: 600}]`."""
    node_affinity: NodeAffinity = NodeAffinity()
    """The nodes of the pool on which worker pods may run, and the nodes that they prefer. A separate launcher pod
    ignores this field. Default: all nodes of the pool alike."""
    read_only_root_filesystem: bool = False
    """If true, programs can write only to volumes, the home directory and /tmp."""
    fabric: Literal["pool", "none"] = "pool"
    """The network between ranks. `pool`: the fabric of the pool, if it has one. `none`: TCP on the pod network."""
    memlock: Literal["node", "capability"] = "node"
    """The limit of memory that ranks can lock. RDMA needs locked memory. `node`: the limit that the nodes set.
    `capability`: no limit, because ranks get the capability IPC_LOCK. This needs a family that uses Open MPI. Each
    tenant that can use the runtime then needs an entry of `relax` with `rule: pod-security` and `to: memlock`, unless
    its Pod Security level is `privileged`. The image needs a `setpriv` with the file capability `cap_ipc_lock`."""
    restarts: Count | None = None
    """The maximum number of times that JobSet restarts a failed job as a whole. JobSet does not restart a job that
    reached `activeDeadlineSeconds`, or whose image lacks a program. With `resilience`, drains and preemption do not
    count. Default: no restarts."""
    resilience: Resilience | None = None
    """If set, JobSet restarts a job after a drain, a preemption or the deletion of its pods. These restarts do not
    count as `restarts`. Write `resilience: {}` for no claim. Default: such a job fails, or uses one of `restarts`.
    After an eviction by Kueue, a job starts again in both cases."""
    active_deadline_seconds: Count | None = None
    """The number of seconds after the start of the launcher's Job at which the job fails, with the time until the
    launcher pod runs. After a restart or an eviction, the time begins again. Default: no deadline."""
    termination_grace_period_seconds: GracePeriod | None = None
    """The number of seconds between SIGTERM and SIGKILL that ranks have to save their state when Kubernetes stops their
    pods. `mpirun` uses the last 3 of them to end. A TrainJob cannot change the value. Some events leave less time, such
    as an eviction by the kubelet. Default: 30."""
    ttl_seconds_after_finished: Annotated[Seconds | None, BeforeValidator(_is_rejected_later)] = None
    """Do not set this field: mpigen rejects every value, because all supported versions of Trainer run a failed job
    again after JobSet deletes it. Finished jobs stay until their TrainJob is deleted."""
    deprecated: bool = False
    """If true, Trainer warns users that submit a TrainJob with this runtime. Give the runtime that replaces it a
    different name, because some fields of a runtime cannot change."""

    @field_validator("resources", "launcher_resources")
    @classmethod
    def _by_resource(cls, value: dict[str, Quantity]) -> dict[str, Quantity]:
        return sort_keys(value)

    @field_validator("volumes")
    @classmethod
    def _are_apart(cls, value: tuple[RuntimeVolume, ...]) -> tuple[RuntimeVolume, ...]:
        fix = "give each volume its own name and path"
        names, paths = [volume.name for volume in value], [volume.mount_path for volume in value]
        reject([*duplicates(names, fix, "name"), *duplicates(paths, fix, "mountPath")])
        return tuple(sorted(value, key=lambda volume: volume.name))

    def _contradictions(self) -> Iterator[Fault]:
        """Report a volume with the name or the path of the checkpoint volume."""
        if (own := self.checkpoint_volume) is None:
            return
        fix = "remove this volume, or set another `resilience.checkpoint.mountPath`"
        for number, volume in enumerate(self.volumes):
            if volume.name == own.name:
                message = "`resilience.checkpoint` adds a volume of the name `checkpoint`"
                yield Fault(message, "choose another name", ("volumes", number, "name"), ("resilience",))
            if volume.mount_path == own.mount_path:
                message = f"`resilience.checkpoint` mounts its claim at {format_value(own.mount_path)}"
                yield Fault(message, fix, ("volumes", number, "mountPath"), ("resilience",))

    def with_family(self, families: Iterable[Family]) -> Runtime:
        """Return a copy of the runtime with the family of the platform that `use` names.

        If `families` lacks it, return the runtime as declared.
        """
        declared = self.declared
        family = next((family for family in families if family.name == self.use), None)
        return declared if family is None else copy_unchecked(declared, family=family, unbound=declared)

    @property
    def declared(self) -> Self:
        """Return the runtime without the family of its platform."""
        unbound: Self = self.__dict__.get("unbound", self)
        return unbound

    @cached_property
    def family(self) -> Family:
        """Return the MPI family that `use` names: one of mpigen's, or the family that `with_family` has set.

        Raises:
            KeyError: neither has the name.
        """
        return FAMILIES[self.use]

    @property
    def has_family(self) -> bool:
        """Return True if the family of the runtime is known."""
        return self.use in FAMILIES or "family" in self.__dict__

    @property
    def declared_image(self) -> str:
        """Return the image that the platform file names for the runtime or for its family; empty if it names none."""
        return self.image or self.family.own_image

    @property
    def pod_image(self) -> str:
        """Return the image of the launcher pod and the worker pods."""
        return self.declared_image or self.family.default_image

    @property
    def checkpoint_volume(self) -> RuntimeVolume | None:
        """Return the volume of the checkpoint claim; None without one."""
        checkpoint = self.resilience.checkpoint if self.resilience else None
        if checkpoint is None:
            return None
        return RuntimeVolume(name="checkpoint", claim=checkpoint.claim, mount_path=checkpoint.mount_path)

    @property
    def pod_volumes(self) -> tuple[RuntimeVolume, ...]:
        """Return `volumes` and the volume of the checkpoint claim."""
        return (*self.volumes, *filter(None, [self.checkpoint_volume]))

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
    """Return the fabric of the pool; None if the pool has none, or if the runtime excludes it (`fabric: none`)."""
    return None if runtime.fabric == "none" else pool.wiring
