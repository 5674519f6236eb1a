"""The objects that Trainer creates for a TrainJob: a JobSet, and with MPI the ssh key and the hostfile.

Source: trainer v2.3.0 and v2.2.0, and for Trainer 2.4, whose code could not be read, the pull requests that its release
notes name. Each function names its source below pkg/runtime. `core` is the file
trainer v2.3.0 pkg/runtime/core/trainingruntime.go; `mpi`, `torch`, `plainml` and `jobset` are the plugins in
framework/plugins, and `builder` is trainer v2.3.0 pkg/runtime/framework/plugins/jobset/builder.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, NamedTuple

from generator.documents.load import Path
from generator.documents.messages import format_path
from generator.errors import Problem
from generator.facts import env
from generator.facts.api_versions import is_reached
from generator.facts.names import HOSTFILE, MPI_FOLDER, STEP, UNKNOWN_UID
from generator.manifests import Body, Manifest
from generator.objects.fields import integer, mapping, mappings
from generator.objects.pods import JOB_SET, NODE
from generator.objects.training import AMOUNTS, FIELD, LAUNCHER, TRAINER
from generator.quantities import parse
from generator.upstream.kubernetes.strategic_merge import find_path, merge
from generator.upstream.trainer.apply import upsert

OLD = "2.2"
"""The older of the two minor versions of Trainer whose code mpigen follows."""
PRTE = "2.4"
"""The minor version of Trainer that sets the variables of Open MPI 5, and the image of MPI nodes."""
INITIALIZERS = {"dataset": "dataset-initializer", "model": "model-initializer"}
"""Field of `spec.initializer` → the replicated job, the container and the step that Trainer changes for it."""
PATCH: Path = ("trainingRuntimeSpec", "template")
"""The path of the template in an item of `runtimePatches`."""
POD: Path = ("template", "spec", "template", "spec")
"""The path of the pod spec in a replicated job."""
_HOSTFILE, _KEY = "mpi-hostfile", "mpi-ssh-auth"
_CONTAINER = 8  # steps from a JobSet spec to a container
_PORT = 29500
_SSH_OPTIONS = "-o ConnectionAttempts=10"


class Origin(NamedTuple):
    """A field of a manifest that sets a value of a compiled object."""

    manifest: Manifest
    path: Path


@dataclass(frozen=True, slots=True)
class Fault:
    """A reason why a TrainJob cannot be compiled.

    Attributes:
        origin: the field that causes it.
        message: the reason.
        fix: the fix, in the imperative.
        is_unknown: True if mpigen does not simulate the field; False if the API server or a controller rejects it.
        is_at_creation: True if a webhook rejects the request to create the TrainJob, which then takes no quota.
    """

    origin: Origin
    message: str
    fix: str
    is_unknown: bool = False
    is_at_creation: bool = False

    @property
    def problem(self) -> Problem:
        """The fault as a Problem without a line."""
        return Problem(self.message, self.fix, self.origin.manifest.file, path=format_path(self.origin.path))


@dataclass(frozen=True, slots=True)
class Layer:
    """Values of a JobSet spec that come from one object.

    Attributes:
        values: the part of the JobSet spec.
        manifest: the object; None for values that Trainer computes.
        base: the path in the object that corresponds to the first `skip` steps of a path in the JobSet spec.
    """

    values: Body
    manifest: Manifest | None = None
    base: Path = ()
    skip: int = 0

    def locate(self, spec: Body, path: Path) -> Path | None:
        """Return the path in `manifest` of the value at `path` of a JobSet spec; None if `values` lacks this value."""
        located = find_path(self.values, spec, path)
        return None if located is None else (*self.base, *located[self.skip :])


@dataclass(slots=True)
class Training:
    """A TrainJob and its runtime, with the JobSet spec as far as Trainer has built it.

    Attributes:
        job: the TrainJob, with the defaults of its CustomResourceDefinition.
        runtime: its runtime, in the same form.
        version: the minor version of Trainer.
        spec: the JobSet spec.
        layers: the origins of its values; a later layer overrides an earlier one.
        slots: the processes per host of an MPI job.
        hosts: the hosts in the hostfile.
    """

    job: Manifest
    runtime: Manifest
    version: str
    spec: Body = field(default_factory=dict)
    layers: list[Layer] = field(default_factory=list)
    slots: int = 1
    hosts: Sequence[str] = ()

    @property
    def trainer(self) -> Mapping[str, Any]:
        """`spec.trainer` of the TrainJob."""
        return mapping(self.job.body, "spec", "trainer")

    @property
    def patches(self) -> list[Body]:
        """The templates in `runtimePatches` of the TrainJob."""
        patches = mappings(mapping(self.job.body, "spec").get("runtimePatches"))
        return [mapping(patch, *map(str, PATCH)) for patch in patches]

    @property
    def policy(self) -> Mapping[str, Any]:
        """`spec.mlPolicy` of the runtime; empty if it is absent."""
        return mapping(self.runtime.body, "spec", "mlPolicy")

    @property
    def has_policy(self) -> bool:
        """True if the runtime has an `mlPolicy`, even an empty one."""
        return "mlPolicy" in mapping(self.runtime.body, "spec")

    @property
    def is_launcher_a_node(self) -> bool:
        """True if the launcher pod also runs ranks."""
        return mapping(self.policy, "mpi").get("runLauncherAsNode") is True

    def jobs(self, *steps: str) -> list[Body]:
        """Return the replicated jobs of some steps, such as `trainer`; without steps, all."""
        everything = mappings(self.spec.get("replicatedJobs"))
        return [job for job in everything if not steps or step_of(job) in steps]

    def put(self, values: Body, *base: str, skip: int = _CONTAINER) -> None:
        """Set values of the JobSet spec, and record their origin: the path `base` in the TrainJob, or else Trainer.

        `base` corresponds to the first `skip` steps of a path in the JobSet spec (see `Layer`).
        """
        self.spec = upsert(self.spec, values)
        self.layers.append(Layer(values, self.job if base else None, base, skip))

    def replace(self, job: Body, key: str, value: Any) -> None:
        """Replace a field of the container `node` of a replicated job, without a merge."""
        for content in (None, value):
            self.spec = upsert(self.spec, in_container(job, NODE, {key: content}))


def step_of(job: Body) -> object:
    """Return the step that a replicated job runs; None without a step label."""
    return mapping(job, "template", "metadata", "labels").get(STEP)


def containers(job: Body, name: object, kind: str = "containers") -> list[Body]:
    """Return the containers `name` of a replicated job: at most one, because names are unique in a pod."""
    pod = mapping(job, *map(str, POD))
    return [container for container in mappings(pod.get(kind)) if container.get("name") == name]


def in_container(job: Body, name: object, values: Body, kind: str = "containers") -> Body:
    """Return a partial JobSet spec that sets fields of the container `name` in a replicated job."""
    return _in_pod(job, {kind: [{"name": name, **values}]})


def _in_pod(job: Body, pod: Body) -> Body:
    return _in_job(job, {"template": {"spec": pod}})


def _in_job(job: Body, spec: Body) -> Body:
    return {"replicatedJobs": [{"name": job.get("name"), "template": {"spec": spec}}]}


def build(training: Training) -> None:
    """Compute the JobSet spec, the slots and the hosts.

    The JobSet is not suspended, as after Kueue admits the TrainJob.
    """
    _patch(training)
    _count(training)
    _resize(training)
    if "mpi" in training.policy:
        _enforce_mpi(training)
    else:
        for job in training.jobs(TRAINER)[:1]:  # plainml EnforceMLPolicy
            _set_nodes(training, job, training.trainer.get("numNodes"))
        if "torch" in training.policy:
            _enforce_torch(training)
    training.hosts = list(_hosts(training))
    for job in training.jobs(TRAINER, *INITIALIZERS.values()):
        training.spec = upsert(training.spec, {"replicatedJobs": [{"name": job.get("name"), "replicas": 1}]})
    _initialize(training)
    _train(training)
    training.spec = {**training.spec, "suspend": False}


def metadata_of(training: Training) -> dict[str, dict[str, str]]:
    """Return the labels and annotations of the JobSet: of the runtime, overridden by the patches of the TrainJob.

    Empty mappings are left out. Source: core newRuntimeInfo.
    """
    templates = [mapping(training.runtime.body, "spec", "template"), *training.patches]
    kinds = ("labels", "annotations")
    merged = {kind: [mapping(template, "metadata", kind) for template in templates] for kind in kinds}
    return {kind: {key: one[key] for one in parts for key in one} for kind, parts in merged.items() if any(parts)}


def objects(training: Training) -> Iterator[Body]:
    """Yield the Secret and the ConfigMaps of a TrainJob. Keys and the copy of the runtime are empty strings.

    Source: mpi buildSSHAuthSecret, buildHostFileConfigMap; trainer v2.3.0 pkg/runtime/core/snapshot.go
    createRuntimeSnapshot.
    """
    name = training.job.name
    if training.version != OLD:
        yield {**owned("v1", "ConfigMap", f"{name}-runtime-snapshot", training.job), "data": {"runtime": ""}}
    if "mpi" in training.policy:
        data = {"ssh-privatekey": "", "ssh-publickey": ""}
        secret = owned("v1", "Secret", f"{name}-{_KEY}", training.job)
        yield {**secret, "type": "kubernetes.io/ssh-auth", "immutable": True, "data": data}
        hostfile = "".join(f"{host} slots={training.slots}\n" for host in training.hosts)
        yield {**owned("v1", "ConfigMap", f"{name}-{_HOSTFILE}", training.job), "data": {"hostfile": hostfile}}


def owned(api_version: str, kind: str, name: str, owner: Manifest) -> Body:
    """Return apiVersion, kind and metadata of an object that `owner` controls. An empty `name` is left out."""
    head = {"name": name, "namespace": owner.namespace}
    reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": UNKNOWN_UID}
    references = [{**reference, "controller": True, "blockOwnerDeletion": True}]
    metadata = {**{key: value for key, value in head.items() if value}, "ownerReferences": references}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _patch(training: Training) -> None:
    """Merge the patches of the TrainJob, and restore the order of the replicated jobs (core mergeRuntimePatches)."""
    training.spec = mapping(training.runtime.body, *map(str, JOB_SET))
    training.layers.append(Layer(training.spec, training.runtime, JOB_SET))
    order = [job.get("name") for job in training.jobs()]
    for number, patch in enumerate(training.patches):
        if values := mapping(patch, "spec"):
            merged = merge(training.spec, values)
            jobs = sorted(merged["replicatedJobs"], key=lambda job: order.index(job.get("name")))
            training.spec = {**merged, "replicatedJobs": jobs}
            training.layers.append(Layer(values, training.job, ("spec", "runtimePatches", number, *PATCH, "spec")))


def _count(training: Training) -> None:
    """Set `parallelism` and `completions` of the replicated jobs as the runtime sets their numbers of pods.

    Trainer calls this `newRuntimeInfo` (core) and `SyncParallelCount` (jobset).
    """
    for job in training.jobs():
        count = _pods(job)
        if step_of(job) == TRAINER and training.has_policy:
            count = integer(training.policy.get("numNodes"), 1)
            values, base = _in_job(job, _parallel(count)), ("spec", "mlPolicy", "numNodes")
            training.layers.append(Layer(values, training.runtime, base, _CONTAINER))
        training.spec = upsert(training.spec, _in_job(job, _parallel(max(count, 1))))


def _parallel(count: int) -> Body:
    return {"parallelism": count, "completions": count}


def _pods(job: Body) -> int:
    return integer(mapping(job, "template", "spec").get("parallelism"), 1)


def _set_nodes(training: Training, job: Body, nodes: object) -> None:
    if isinstance(nodes, int):
        training.put(_in_job(job, _parallel(nodes)), "spec", "trainer", "numNodes")


def _resized(training: Training) -> list[Body]:
    """Return the replicated jobs to which Trainer applies `env` and `resourcesPerNode` of the TrainJob."""
    ranks = (NODE,) if training.is_launcher_a_node else ()
    return [job for job in training.jobs() if step_of(job) == TRAINER or job.get("name") in ranks]


def _resize(training: Training) -> None:
    """Apply `resourcesPerNode` of the TrainJob, and remove device claims of the container.

    Trainer 2.3 merges the amounts into the runtime by resource, if the runtime has an `mlPolicy` (core newRuntimeInfo).
    Trainer 2.2 replaces all amounts of the runtime (builder Trainer).
    """
    requested, is_old = mapping(training.trainer, "resourcesPerNode"), training.version == OLD
    applies = bool(requested.keys() & {*AMOUNTS}) if is_old else training.has_policy
    for job in _resized(training) if applies and "resourcesPerNode" in training.trainer else ():
        for container in containers(job, NODE):
            old: Body = {} if is_old else mapping(container, "resources")
            amounts = {
                key: {**mapping(old, key), **mapping(requested, key)} for key in AMOUNTS if key in {**old, **requested}
            }
            values = in_container(job, NODE, {"resources": requested})
            training.layers.append(Layer(values, training.job, FIELD, _CONTAINER + 1))
            training.replace(job, "resources", amounts)


def _resources_per_node(training: Training) -> Mapping[str, Any]:
    """Return the resources that decide the number of processes.

    Source: trainer v2.3.0 pkg/runtime/runtime.go ExtractResourcePerNodeFromRuntime
    """
    if isinstance(requested := training.trainer.get("resourcesPerNode"), dict):
        return requested
    nodes = [job for job in training.jobs() if job.get("name") == NODE or step_of(job) == TRAINER]
    return next((mapping(container, "resources") for job in nodes for container in containers(job, NODE)), {})


def gpu_amounts(resources: Mapping[str, Any], key: str) -> list[int]:
    """Return the amounts of resources whose names contain `gpu` (trainer v2.3.0 pkg/runtime/runtime.go numGPU)."""
    return [ceil(parse(str(value)).value) for name, value in mapping(resources, key).items() if "gpu" in name.lower()]


def _gpus(resources: Mapping[str, Any]) -> int:
    """Return the amount of the first resource with `gpu` in its name, of the requests or else of the limits; else 0.

    Source: trainer v2.3.0 pkg/runtime/runtime.go GetNumGPUPerNode
    """
    return sum(gpu_amounts(resources, "requests")[:1]) or sum(gpu_amounts(resources, "limits")[:1])


def _cpus(resources: Mapping[str, Any]) -> int:
    """Return the number of processors per node: the request, or else the limit, rounded up; 0 if neither is set.

    Trainer calls this `getNumCPUPerNode` (torch).
    """
    amounts = (ceil(parse(str(mapping(resources, key).get("cpu", 0))).value) for key in ("requests", "limits"))
    return next(filter(None, amounts), 0)


def _enforce_mpi(training: Training) -> None:
    """Set the numbers of workers and slots, mount the ssh key, and give the launcher the hostfile and its variables.

    Trainer calls this `EnforceMLPolicy` (mpi).
    """
    policy, name, is_old = mapping(training.policy, "mpi"), training.job.name, training.version == OLD
    training.slots = integer(training.trainer.get("numProcPerNode"), integer(policy.get("numProcPerNode"), 1))
    if training.slots == 1 and "numProcPerNode" not in training.trainer:
        training.slots = max(_gpus(_resources_per_node(training)), 1)
    modes = ({}, {}, {}) if is_old else ({"mode": 0o640}, {"mode": 0o644}, {"mode": 0o644})
    files = (("ssh-privatekey", "id_rsa"), ("ssh-publickey", "id_rsa.pub"), ("ssh-publickey", "authorized_keys"))
    items = [{"key": key, "path": path, **mode} for (key, path), mode in zip(files, modes, strict=True)]
    secret = {"secretName": f"{name}-{_KEY}", "items": items, **({} if is_old else {"defaultMode": 0o400})}
    hostfile = {"name": f"{name}-{_HOSTFILE}", "items": [{"key": "hostfile", "path": "hostfile", "mode": 0o444}]}
    for job in training.jobs():
        volumes: list[Body] = [{"name": _KEY, "secret": secret}]
        mounts: list[Body] = [{"name": _KEY, "mountPath": policy.get("sshAuthMountPath")}]
        variables: Body = {}
        if job.get("name") == NODE and isinstance(nodes := training.trainer.get("numNodes"), int):
            _set_nodes(training, job, max(nodes - 1, 1) if training.is_launcher_a_node else nodes)
        elif job.get("name") == LAUNCHER:
            volumes.append({"name": _HOSTFILE, "configMap": hostfile})
            mounts.append({"name": _HOSTFILE, "mountPath": MPI_FOLDER})
            variables = {"env": _open_mpi(training)}
        if job.get("name") in (NODE, LAUNCHER):
            training.put(_in_pod(job, {"volumes": volumes}))
            for _ in containers(job, NODE):
                training.put(in_container(job, NODE, {"volumeMounts": mounts, **variables}))


def _open_mpi(training: Training) -> list[Body]:
    """Return the variables of the launcher.

    Source of the values for Open MPI 5: https://github.com/kubeflow/trainer/issues/4028. Its author wrote
    https://github.com/kubeflow/trainer/pull/4029 for Trainer 2.4.
    """
    values = {
        env.OMPI_MCA_orte_default_hostfile: HOSTFILE,
        env.OMPI_MCA_orte_keep_fqdn_hostnames: "true",
        env.OMPI_MCA_orte_set_default_slots: str(training.slots),
        env.OMPI_MCA_plm_rsh_args: _SSH_OPTIONS,
    }
    if is_reached(training.version, PRTE):
        values |= {
            env.PRTE_MCA_prte_default_hostfile: HOSTFILE,
            env.PRTE_MCA_prte_keep_fqdn_hostnames: "false",
            env.PRTE_MCA_prte_set_default_slots: str(training.slots),
            env.PRTE_MCA_plm_ssh_args: _SSH_OPTIONS,
        }
    return [{"name": name, "value": value} for name, value in values.items()]


def _put_variables(training: Training, job: Body) -> None:
    variables = [_variable(item) for item in mappings(training.trainer.get("env"))]
    for _ in containers(job, NODE) if variables else ():
        training.put(in_container(job, NODE, {"env": variables}), "spec", "trainer")


def _variable(item: Body) -> Body:
    """Return a variable as Trainer copies it: without `apiVersion` of its `fieldRef`.

    Source: trainer v2.3.0 pkg/apply/apply.go EnvVar
    """
    source = item.get("valueFrom")
    if not isinstance(source, dict):
        return {"name": item.get("name"), "value": item.get("value", "")}
    copied = {key: source[key] for key in source if key in ("resourceFieldRef", "configMapKeyRef", "secretKeyRef")}
    if "fieldRef" in source:
        copied["fieldRef"] = {"fieldPath": mapping(source, "fieldRef").get("fieldPath")}
    return {"name": item.get("name"), "valueFrom": copied}


def _enforce_torch(training: Training) -> None:
    """Set the variables and the port of torchrun (torch EnforceMLPolicy)."""
    job, resources = next(iter(training.jobs(TRAINER)), {}), _resources_per_node(training)
    processes = "auto" if _gpus(resources) else max(1, _cpus(resources))
    values = {
        "PET_NNODES": _pods(job),
        "PET_NPROC_PER_NODE": training.trainer.get("numProcPerNode", processes),
        "PET_NODE_RANK": "metadata.annotations['batch.kubernetes.io/job-completion-index']",
        "PET_MASTER_ADDR": f"{training.job.name}-{NODE}-0-0.{training.job.name}",
        "PET_MASTER_PORT": _PORT,
    }
    variables: list[Body] = [{"name": name, "value": str(value)} for name, value in values.items()]
    variables[2] = {"name": "PET_NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": values["PET_NODE_RANK"]}}}
    for container in containers(job, NODE) if "trainer" in mapping(training.job.body, "spec") else ():
        _put_variables(training, job)
        training.put(in_container(job, NODE, {"env": variables}))
        training.replace(job, "ports", _with_port(mappings(container.get("ports"))))
    for target in mappings(mapping(training.policy, "torch", "envInjection").get("targets")):
        for injected in (job for job in training.jobs() if job.get("name") == target.get("jobName")):
            for name in target.get("containerNames") or ():
                kind = "containers" if containers(injected, name) else "initContainers"
                training.put(in_container(injected, name, {"env": variables}, kind))


def _with_port(ports: Sequence[Body]) -> list[Body]:
    """Return ports with the port of torchrun, which replaces the first port with its number or without a name.

    Source: trainer v2.3.0 pkg/apply/apply.go UpsertPort, which equates ports without names.
    """
    added: Body = {"containerPort": _PORT, "protocol": "TCP"}
    taken = [index for index, port in enumerate(ports) if port.get("containerPort") == _PORT or not port.get("name")]
    return [*ports[: taken[0]], added, *ports[taken[0] + 1 :]] if taken else [*ports, added]


def _hosts(training: Training) -> Iterator[str]:
    """Yield the hosts in the hostfile (mpi buildHostFileConfigMap; jobset IdentifyPodNetwork)."""
    name = training.job.name
    domain = mapping(training.spec, "network").get("subdomain") or name
    nodes = (NODE, LAUNCHER) if training.is_launcher_a_node else (NODE,)
    for job in training.jobs() if "mpi" in training.policy else ():
        replicas = 1 if training.version == OLD else integer(job.get("replicas"), 1)
        for replica in range(replicas) if job.get("name") in nodes else ():
            yield from (f"{name}-{job.get('name')}-{replica}-{index}.{domain}" for index in range(_pods(job)))


def _initialize(training: Training) -> None:
    """Set `env` and `envFrom` of the initializers (builder Initializer)."""
    for key, name in INITIALIZERS.items():
        requested, base = mapping(training.job.body, "spec", "initializer", key), ("spec", "initializer", key)
        for job in training.jobs(name):
            for container in containers(job, name):
                if "storageUri" in requested:
                    uri = {"env": [{"name": "STORAGE_URI", "value": requested["storageUri"]}]}
                    training.put(in_container(job, name, uri), *base, "storageUri", skip=_CONTAINER + 3)
                if variables := [_variable(item) for item in mappings(requested.get("env"))]:
                    training.put(in_container(job, name, {"env": variables}), *base)
                if secret := mapping(requested, "secretRef"):
                    sources = [*mappings(container.get("envFrom")), {"secretRef": {"name": secret.get("name")}}]
                    training.spec = upsert(training.spec, in_container(job, name, {"envFrom": sources}))


def _train(training: Training) -> None:
    """Set image, command, arguments and variables of the TrainJob (builder Trainer).

    Trainer 2.4 also sets the image in the launcher and in the nodes of MPI: https://github.com/kubeflow/trainer/pull/4301
    """
    requested = {key: training.trainer[key] for key in ("image", "command", "args") if key in training.trainer}
    for job in training.jobs(TRAINER):
        for _ in containers(job, NODE) if requested else ():
            training.put(in_container(job, NODE, requested), "spec", "trainer")
    if "mpi" in training.policy and "image" in requested and is_reached(training.version, PRTE):
        for job in (job for job in training.jobs() if job.get("name") in (NODE, LAUNCHER)):
            for _ in containers(job, NODE):
                training.put(in_container(job, NODE, {"image": requested["image"]}), "spec", "trainer")
    for job in _resized(training):
        _put_variables(training, job)
