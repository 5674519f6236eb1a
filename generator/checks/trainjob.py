"""trainjob/*: TrainJobs that Trainer rejects, that Kueue changes, or whose pods get other resources than intended.

Trainer 2.2 replaces all resources of the runtime by `resourcesPerNode` of the TrainJob. Trainer 2.3 merges both,
resource by resource. Kueue 0.18 and 0.19 count as Trainer 2.2 does, because they contain its code (kueue v0.19.2
go.mod; kueue v0.19.2 pkg/controller/jobs/trainjob/trainjob_controller.go getChildJobSet).

A check that needs the runtime of a TrainJob finds only a runtime of the same release. The files of a release are in
the folder of its `release.json`. For a TrainJob outside of releases, the check finds only runtimes outside of releases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.fabric.fabrics import Fabrics
from generator.checks.finding import Severity
from generator.checks.graph import Graph, existing_instead
from generator.checks.objects import Objects, is_queued, on_runtimes, runtime_of
from generator.checks.quota.queues import RUNTIMES
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.checks.runtime import broken_values
from generator.checks.workload import LONGEST_DURATION
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.facts import env
from generator.facts.defects import known
from generator.facts.names import QUEUE_NAME, UPSTREAM_RUNTIMES
from generator.facts.references import Kind
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, integer, mapping
from generator.objects.training import (
    AMOUNTS,
    FIELD,
    GROUP,
    TRAINER,
    MpiRuntime,
    OnRuntime,
    TrainJob,
    mpi_runtime,
)
from generator.quantities import amount_of

_LONGEST = 63  # characters of a pod's name that JobSet accepts
_LAUNCHER_SUFFIX = len("-launcher-0-0-abcde")
_SHORTEST_SUFFIX = len("-x-0-0-abcde")
_GENERATED = 5  # characters that the API server appends to `generateName`
_WITH_PROCESSES = ("flux", "mpi", "torch")
"""The policies of runtimes for which Trainer reads `numProcPerNode`."""


@check("trainjob/name", severity=ERROR, needs=TrainJob)
def name(job: TrainJob) -> Iterator[Breach]:
    """Report a TrainJob whose name makes the names of its pods too long.

    Trainer accepts 63 characters, but JobSet rejects a JobSet whose pods would get names of more than 63 characters. So
    a TrainJob's name can have at most 44 characters on an MPI runtime, and 51 on any other. The check does not read the
    runtime: 45 to 51 characters are a warning, and more are an error.

    Source: jobset v0.12.0 pkg/webhooks/jobset_webhook.go jobSetWebhook.ValidateCreate, pkg/util/placement GenPodName
    """
    metadata = mapping(job.body, "metadata")
    field, more = ("name", 0) if metadata.get("name") else ("generateName", _GENERATED)
    value = metadata.get(field)
    if not isinstance(value, str) or len(value) + more + _LAUNCHER_SUFFIX <= _LONGEST:
        return
    length = len(value) + more
    is_always = length + _SHORTEST_SUFFIX > _LONGEST
    yield Breach(
        ("metadata", field),
        f"the {'generated ' if more else ''}name of the TrainJob has {length} characters",
        f"on {'any runtime' if is_always else 'an MPI runtime'}, the names of its pods exceed {_LONGEST} characters, "
        "so JobSet's webhook rejects the JobSet. The TrainJob never gets pods, and only an event reports the error",
        f"use a `{field}` of at most {_LONGEST - _LAUNCHER_SUFFIX - more} characters",
        severity=ERROR if is_always else WARNING,
        value=value,
    )


def depends_on_runtime(job: TrainJob) -> bool:
    """Return True if `trainjob/name` only warns: the runtime decides if the name of the TrainJob is too long."""
    return any(breach.severity is WARNING for breach in name(job))


@check("trainjob/deadline", severity=ERROR, needs=TrainJob, since="trainer 2.3")
def deadline(job: TrainJob) -> Iterator[Breach]:
    """Report an `activeDeadlineSeconds` of a TrainJob that is too large for Trainer.

    Trainer adds the number to the start of the job as a duration of Go, which has at most 9223372036 seconds. A larger
    number overflows, so the deadline can be in the past. Trainer then fails the job as soon as it starts.
    `workload/job` reports the same mistake in the Jobs of a runtime.

    Source: trainer v2.3.0 pkg/controller/trainjob_controller.go TrainJobReconciler.reconcileDeadline
    """
    seconds = integer(mapping(job.body, "spec").get("activeDeadlineSeconds"), 0)
    if seconds > LONGEST_DURATION:
        yield Breach(
            ("spec", "activeDeadlineSeconds"),
            f"`activeDeadlineSeconds` is `{seconds}`, which overflows in Trainer",
            "the deadline can be in the past: Trainer then fails the TrainJob as soon as it starts",
            f"set at most {LONGEST_DURATION} seconds, or remove the field for no deadline",
            value=seconds,
        )


@check("trainjob/processes", severity=ERROR, needs=Objects)
def processes(objects: Objects) -> Iterator[Breach]:
    """Report a `numProcPerNode` of a TrainJob below 1.

    The CustomResourceDefinition has no minimum for the field. On an MPI runtime, each line of the hostfile then has no
    slots, so `mpirun` fails. With torch, torchrun rejects the number. `mpi/processes` reports the field in a runtime.
    If a runtime in the files has none of these policies, Trainer ignores the field.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go MPI.EnforceMLPolicy; trainer v2.3.0
    pkg/runtime/framework/plugins/mpi/mpi.go MPI.buildHostFileConfigMap; trainer v2.3.0
    pkg/runtime/framework/plugins/torch/torch.go Torch.EnforceMLPolicy; trainer v2.3.0
    pkg/runtime/framework/plugins/flux/flux.go Flux.Build
    """
    for job in objects.of(GROUP, "TrainJob"):
        number = mapping(job.body, "spec", "trainer").get("numProcPerNode")
        runtime = runtime_of(job, objects)
        is_read = runtime is None or not mapping(runtime.body, "spec", "mlPolicy").keys().isdisjoint(_WITH_PROCESSES)
        if is_read and isinstance(number, int) and not isinstance(number, bool) and number < 1:
            yield Breach(
                ("spec", "trainer", "numProcPerNode"),
                f"`numProcPerNode` is `{number}`",
                "no node of the job has a process, so the launcher fails",
                "set the number of processes per node, at least 1, or remove the field for the number of the runtime",
                job,
                value=number,
            )


_PARTS_OF_REFERENCES = {"apiGroup": "API group", "kind": "kind"}


@check("trainjob/runtime-kind", severity=ERROR, needs=TrainJob)
def runtime_kind(job: TrainJob) -> Iterator[Breach]:
    """Report a TrainJob without a runtime, or with a runtime of an unsupported kind.

    The CustomResourceDefinition accepts a TrainJob without `spec`, but Trainer's webhook adds an empty `spec`, and the
    API server rejects this object.

    Trainer supports only the kinds ClusterTrainingRuntime and TrainingRuntime of the API group `trainer.kubeflow.org`.
    Trainer rejects a TrainJob whose `runtimeRef` has another kind or group.

    Source: trainer v2.3.0 pkg/webhooks/trainjob_webhook.go TrainJobValidator.ValidateCreate; trainer v2.3.0
    pkg/runtime/core/registry.go
    """
    if job.body.get("spec") is None:
        message = "`spec` is not set, so the TrainJob has no runtime"
        yield Breach((), message, "the API server rejects the TrainJob", "set `spec.runtimeRef.name`")
    reference = mapping(job.body, "spec", "runtimeRef")
    for field, supported in (("apiGroup", (GROUP,)), ("kind", ("ClusterTrainingRuntime", "TrainingRuntime"))):
        value = reference.get(field, supported[0])
        if isinstance(value, str) and value not in supported:
            yield Breach(
                ("spec", "runtimeRef", field),
                f"`{field}` is {format_value(value)}, but no runtime has this {_PARTS_OF_REFERENCES[field]}",
                "Trainer rejects the TrainJob: unsupported runtime",
                f"set {' or '.join(f'`{text}`' for text in supported)}",
                value=value,
            )


@check("trainjob/reserved-variable", severity=ERROR, needs=TrainJob, since="trainer 2.3")
def reserved_variable(job: TrainJob) -> Iterator[Breach]:
    """Report a variable that only Trainer can set.

    Trainer 2.3 sets these variables in MPI launchers, and rejects a TrainJob that sets one of them in `trainer.env`:

    - `OMPI_MCA_orte_default_hostfile`: the path of the hostfile
    - `OMPI_MCA_orte_keep_fqdn_hostnames`: `true`
    - `OMPI_MCA_orte_set_default_slots`: the number of processes per node
    - `OMPI_MCA_plm_rsh_args`: the options of ssh

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go MPI.Validate
    """
    for number, variable in indexed_mappings(mapping(job.body, "spec", "trainer").get("env")):
        if variable.get("name") in env.RESERVED_BY_TRAINER:
            yield Breach(
                ("spec", "trainer", "env", number),
                f"`trainer.env` sets `{variable['name']}`, which only Trainer can set",
                "Trainer rejects the TrainJob",
                "remove the variable from `trainer.env`",
                value=variable["name"],
            )


_IMMUTABLE = ("initializer", "trainer")
_IMMUTABLE_IN_PODS = ("volumes", "initContainers", "containers", "imagePullSecrets", "securityContext")
_OMITTED: Mapping[str, object] = {
    **dict.fromkeys(
        ("apiVersion", "containerName", "fsType", "medium", "request", "subPath", "subPathExpr", "value"), ""
    ),
    "readOnly": False,
    "limits": {},
    "requests": {},
}
"""Field → the empty value that Kueue omits, as it omits most empty lists."""
_EMPTY = {list: "an empty list", str: "an empty string", dict: "an empty mapping", bool: "`false`"}
_KEPT_LISTS = {"sources", "monitors"}
_NEW_FIELD = "terminationGracePeriodSeconds"
"""The only field of a TrainJob's spec that Trainer 2.3 has and Trainer 2.2 lacks."""


@check("trainjob/empty-value", severity=ERROR, needs=TrainJob)
def empty_value(job: TrainJob) -> Iterator[Breach]:
    """Report an empty value that Kueue removes from an immutable field.

    Kueue admits a TrainJob by an update of the whole object from the Go types of Trainer 2.2. These types omit empty
    values such as `env: []`, a variable with `value: ""`, or `readOnly: false`. The API server rejects the change of an
    immutable field, so the TrainJob stays suspended. If the TrainJob names no queue, the finding is a warning.

    The Kubeflow SDK 0.5 writes `env: []` for a dataset initializer with only a `storage_uri`.

    Source: kueue v0.18.3 go.mod; kueue v0.19.2 go.mod; kueue v0.18.3
    pkg/controller/jobs/trainjob/trainjob_controller.go TrainJob.RunWithPodSetsInfo; kueue v0.19.2
    pkg/controller/jobs/trainjob/trainjob_controller.go TrainJob.RunWithPodSetsInfo; trainer v2.2.1
    pkg/apis/trainer/v1alpha1/trainjob_types.go (`omitempty`, and the rules `self == oldSelf`);
    api v0.36.2 core/v1/types.go PodSpec
    """
    severity, condition = _effect_of_kueue(job.body)
    immutable: list[tuple[Path, object]] = [
        ((*path, field), body.get(field))
        for path, body, fields in (
            (("spec",), mapping(job.body, "spec"), _IMMUTABLE),
            *((path, pod, _IMMUTABLE_IN_PODS) for path, pod in _patched_pods(job.body)),
        )
        for field in fields
    ]
    for path, value in (omitted for field, node in immutable for omitted in _omitted_values(node, field)):
        yield Breach(
            path,
            f"{format_value(path[-1])} is {_EMPTY[type(value)]}",
            f"{condition}Kueue admits the TrainJob by an update that omits empty and false values. The field is "
            "immutable, so the API server rejects the update: the TrainJob stays suspended, and only the log of "
            "Kueue has the error",
            "remove the field",
            severity=severity,
            value=value,
        )


@check("trainjob/dropped-field", severity=ERROR, needs=TrainJob)
def dropped_field(job: TrainJob) -> Iterator[Breach]:
    """Report a field that Kueue removes when it admits the TrainJob.

    `terminationGracePeriodSeconds` in `runtimePatches` is new in Trainer 2.3. Kueue 0.18 and 0.19 use the types of
    Trainer 2.2, so they remove the field when they admit the TrainJob. JobSet rejects the update of the pods, and the
    TrainJob holds its quota and never starts. If the TrainJob names no queue, the finding is a warning. In the runtime,
    the field works.

    Source: trainer v2.3.0 pkg/apis/trainer/v1alpha1/trainjob_types.go PodSpecPatch; jobset v0.12.0
    pkg/webhooks/jobset_webhook.go jobSetWebhook.ValidateUpdate
    """
    severity, condition = _effect_of_kueue(job.body)
    for path, pod in _patched_pods(job.body):
        if pod.get(_NEW_FIELD) is not None:
            yield Breach(
                (*path, _NEW_FIELD),
                f"`runtimePatches` sets `{_NEW_FIELD}`, which Kueue does not support",
                f"{condition}Kueue admits the TrainJob by an update that removes this field. JobSet rejects the "
                "changed pods: the TrainJob holds its quota and never starts",
                "set the field in the pod template of the runtime instead",
                severity=severity,
                value=pod[_NEW_FIELD],
            )


def _effect_of_kueue(body: Body) -> tuple[Severity, str]:
    """Return the severity of a finding about Kueue, and the condition with which its explanation starts.

    A TrainJob with a queue label gives an error without a condition. Any other TrainJob gives a warning.
    """
    has_queue = QUEUE_NAME in mapping(body, "metadata", "labels")
    return (ERROR, "") if has_queue else (WARNING, "if the TrainJob is queued, ")


def _patched_pods(body: Body) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield (path, pod spec) of each pod template that `runtimePatches` of a TrainJob changes."""
    for number, patch in indexed_mappings(mapping(body, "spec").get("runtimePatches")):
        jobs = mapping(patch, "trainingRuntimeSpec", "template", "spec").get("replicatedJobs")
        for place, job in indexed_mappings(jobs):
            inside = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs", place, "template", "spec")
            pod = mapping(job, "template", "spec", "template", "spec")
            yield ("spec", "runtimePatches", number, *inside, "template", "spec"), pod


def _omitted_values(node: object, path: Path) -> Iterator[tuple[Path, object]]:
    """Yield (path, value) of the empty values inside `node` that Kueue omits. `path` is the path of `node`."""
    if isinstance(node, dict):
        for key, value in node.items():
            if _is_omitted(path[-1], key, value):
                yield (*path, key), value
            else:
                yield from _omitted_values(value, (*path, key))
    elif isinstance(node, list):
        for number, value in enumerate(node):
            yield from _omitted_values(value, (*path, number))


def _is_omitted(parent: str | int, key: str, value: object) -> bool:
    """Return True if Kueue omits the value of a key. `parent` is the last step of the path above the key.

    Go always writes `readOnly` and `fsType` of `csi`, because they are pointers in the Go type.
    """
    if isinstance(value, list):
        return not value and key not in _KEPT_LISTS
    if key not in _OMITTED or parent == "csi":
        return False
    return type(value) is type(_OMITTED[key]) and value == _OMITTED[key]


@check("trainjob/missing-runtime", severity=ERROR, needs=Graph)
def missing_runtime(graph: Graph) -> Iterator[Breach]:
    """Report a reference to a runtime that is in no file.

    The API server rejects the TrainJob until the runtime exists. A TrainingRuntime must be in the TrainJob's namespace.
    A `runtimeRef` without `kind` references a ClusterTrainingRuntime.

    The check reports nothing unless the files have a runtime of the referenced kind, or a runtime of the other kind
    with this name. The finding is a warning unless mpigen checks all files of a release, because the runtime can
    exist in the cluster. The finding is also a warning for a runtime that an installation of Trainer can contain, such
    as `torch-distributed`.

    Source: trainer v2.3.0 pkg/runtime/core/trainingruntime.go TrainingRuntime.ValidateObjects; trainer v2.3.0
    pkg/runtime/core/clustertrainingruntime.go ClusterTrainingRuntime.ValidateObjects
    """
    for reference in graph.dangling("trainjob/missing-runtime"):
        kind, name, job = reference.target.identity.kind, reference.name, reference.manifest
        (other,) = set(RUNTIMES) - {kind}
        existing, others = (graph.names(Kind(GROUP, runtimes), {job.namespace}) for runtimes in (kind, other))
        if graph.names(reference.target.identity) or name in others:
            is_upstream = kind == "ClusterTrainingRuntime" and name in UPSTREAM_RUNTIMES
            fix = f"add the runtime{existing_instead(name, existing)}"
            where = f" of namespace `{job.namespace}`" if reference.lacking else ""
            yield Breach(
                reference.path,
                f"the {kind} `{name}`{where} is in no file",
                reference.link.why,
                f"set `kind: {other}`: a {other} has this name" if name in others else fix,
                job,
                severity=ERROR if graph.objects.is_complete and not is_upstream else WARNING,
                value=name,
            )


@check("trainjob/broken-value", severity=ERROR, needs=TrainJob)
def broken_value(job: TrainJob) -> Iterator[Breach]:
    """Report a value of a TrainJob that the kubelet breaks at a `$`.

    Kubernetes 1.34 before 1.34.4, and 1.35 before 1.35.1, cut a character outside of ASCII in two if it follows a `$`,
    as in `$€`, and never start the container. The check reads the variables, command and arguments in `spec.trainer`.
    `runtime/broken-value` reports the same in a runtime.

    Source: kubernetes v1.34.2 third_party/forked/golang/expansion/expand.go tryReadVariableName
    """
    yield from broken_values(mapping(job.body, "spec", "trainer"), ("spec", "trainer"))


_REPLACING = "2.2"
_REPLACED = f"Trainer {_REPLACING} replaces all resources of the runtime"


@check("trainjob/lost-devices", severity=ERROR, needs=Objects)
def lost_devices(objects: Objects) -> Iterator[Breach]:
    """Report devices of the runtime that a TrainJob loses.

    Trainer 2.2 replaces all resources of the runtime by `trainer.resourcesPerNode`. If a TrainJob sets only CPU or
    memory, its pods get no devices. Trainer 2.3 replaces only the resources that the TrainJob sets. Both versions of
    Trainer drop the device claims of the runtime (`resources.claims`), because they keep only limits and requests.

    Source: trainer v2.2.0 pkg/runtime/framework/plugins/jobset/builder.go Builder.Trainer; trainer v2.3.0
    pkg/runtime/core/trainingruntime.go TrainingRuntime.newRuntimeInfo
    """
    is_replacing = objects.targets.get("trainer") == _REPLACING
    for pair in on_runtimes(objects):
        if is_replacing and not pair.sets_amounts:
            continue
        if pair.claims:
            names = " and ".join(dict.fromkeys(map(format_value, pair.claims)))
            yield Breach(
                FIELD,
                f"`resourcesPerNode` drops the device claims {names} of {pair.runtime.resource}",
                "Trainer keeps only limits and requests, so the containers do not get the claimed devices",
                "remove `resourcesPerNode`, and use a runtime with the amounts that the job needs",
                pair.job,
                at_key=True,
            )
        if is_replacing and (devices := _devices(pair.missing)):
            is_fabric = any(map(objects.view(Fabrics.read).is_device, devices))
            why = f"{_REPLACED}, so the pods of the TrainJob run without these devices"
            yield _missing(pair, devices, f"{why}, and their ranks fall back to TCP or fail" if is_fabric else why)


@check("trainjob/lost-resources", severity=WARNING, needs=Objects)
def lost_resources(objects: Objects) -> Iterator[Breach]:
    """Report CPU or memory of the runtime that a TrainJob loses.

    Trainer 2.2 replaces all resources of the runtime by `trainer.resourcesPerNode`. If a node runs out of memory, the
    kubelet first evicts pods without a memory request. If the TrainJob also loses devices, `trainjob/lost-devices`
    reports it instead.

    Source: trainer v2.2.0 pkg/runtime/framework/plugins/jobset/builder.go Builder.Trainer
    """
    for pair in on_runtimes(objects):
        is_lost = objects.targets.get("trainer") == _REPLACING and pair.sets_amounts
        if is_lost and pair.missing and not _devices(pair.missing):
            yield _missing(
                pair,
                pair.missing,
                f"{_REPLACED}, so the pods of the TrainJob request none of these resources, and Kueue counts no usage",
            )


@check("trainjob/uncounted-resources", severity=ERROR, needs=Objects)
def uncounted_resources(objects: Objects) -> Iterator[Breach]:
    """Report resources of a TrainJob that Kueue does not count.

    On Trainer 2.3, a TrainJob gets the runtime's amounts of all resources that its `resourcesPerNode` does not set.
    Kueue 0.18 and 0.19 do not count these amounts. The job then uses devices beyond its quota, while Kueue admits other
    jobs to the same devices. If the uncounted resources include no device, the finding is a warning.

    Kueue also counts init containers, so the check reports nothing if an init container requests the same amount, such
    as the init container that mpigen adds on a [fabric](../../explanations/fabrics.md#no-silent-tcp). The check reads
    TrainJobs that name a queue, and TrainJobs in a namespace with a LocalQueue `default`.

    Source: kueue v0.19.2 pkg/controller/jobs/trainjob/trainjob_controller.go getChildJobSet; kueue v0.19.2
    pkg/workload/workload.go totalRequestsFromPodSets
    """
    for pair in on_runtimes(objects):
        if pair.sets_amounts and (missing := pair.uncounted) and is_queued(pair.job, objects):
            why = f"the pods get these resources, but Kueue {objects.targets.get('kueue')} does not count them as usage"
            yield _missing(pair, _devices(missing) or missing, why)


@check("trainjob/contradicting-resources", severity=ERROR, needs=Objects)
def contradicting_resources(objects: Objects) -> Iterator[Breach]:
    """Report limits and requests that contradict each other after Trainer merges them.

    Trainer 2.3 merges the limits of a TrainJob and its runtime, and separately their requests. If a TrainJob
    lowers only the limit, or raises only the request, the request can exceed the limit, and the API server rejects the
    Job of the pods. Devices and huge pages need a limit, and their limit and request must be equal.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidateContainerResourceRequirements; kubernetes
    v1.34.2 pkg/apis/core/v1/helper/helpers.go IsOvercommitAllowed
    """
    if objects.targets.get("trainer") == _REPLACING:
        return
    for pair in on_runtimes(objects):
        for resources in pair.resources():
            limits, requests = ({**mapping(resources, key), **mapping(pair.amounts, key)} for key in AMOUNTS)
            for name, request in requests.items():
                if rule := _violated_rule(name, limits, request):
                    limit = f"the limit `{limits[name]}`" if name in limits else "no limit"
                    yield Breach(
                        FIELD,
                        f"after Trainer merges `resourcesPerNode` with {pair.runtime.resource}, `{name}` has {limit} "
                        f"and the request `{request}`",
                        f"the API server rejects the Job of these pods: {rule}. No pod starts, and an event "
                        "`JobCreationFailed` of the JobSet reports the error",
                        f"set `{name}` in both `limits` and `requests` of `resourcesPerNode`",
                        pair.job,
                        at_key=True,
                    )


def _violated_rule(name: str, limits: Mapping[str, object], request: object) -> str:
    """Return the rule of the API server that a container's request for a resource violates; empty for a valid one."""
    requested, limit = amount_of(request), amount_of(limits.get(name))
    is_equal_required = "/" in name or name.startswith("hugepages-")
    if requested is None or (limit is None and name in limits):
        return ""  # not a quantity
    if limit is None:
        return "devices and huge pages need a limit that equals the request" if is_equal_required else ""
    if is_equal_required and requested != limit:
        return "limit and request of devices and huge pages must be equal"
    return "a request cannot exceed its limit" if requested > limit else ""


def _devices(amounts: Mapping[str, object]) -> Mapping[str, object]:
    """Return the amounts of extended resources, such as `nvidia.com/gpu`: their names have a domain."""
    return {name: amount for name, amount in amounts.items() if "/" in name}


def _missing(pair: OnRuntime, missing: Mapping[str, object], why: str) -> Breach:
    """Return the breach of a TrainJob that omits resources of the runtime: an error if one of them is a device."""
    names = " and ".join(map(format_value, missing))
    amounts = ", ".join(f"{name}: {amount}" for name, amount in pair.missing.items())
    return Breach(
        FIELD,
        f"`resourcesPerNode` does not set {names}, which {pair.runtime.resource} requests",
        why,
        f"add to `resourcesPerNode`, with the amounts that the job needs: `limits: {{{amounts}}}`, and the same in "
        "`requests`",
        pair.job,
        severity=ERROR if _devices(missing) else WARNING,
        at_key=True,
    )


@check("trainjob/one-node", severity=WARNING, needs=Objects)
def one_node(objects: Objects) -> Iterator[Breach]:
    """Report a TrainJob with `numNodes: 1` that gets two pods with ranks.

    On a runtime with `runLauncherAsNode: true`, Trainer creates a launcher pod with ranks and at least one worker pod.
    The TrainJob uses the quota of two pods and runs twice the ranks. On a runtime with `runLauncherAsNode: false`, the
    launcher runs no ranks, so a TrainJob with `numNodes: 1` runs all ranks in one worker pod.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go MPI.EnforceMLPolicy; trainer v2.2.0
    pkg/runtime/framework/plugins/mpi/mpi.go MPI.EnforceMLPolicy
    """
    for job, manifest, runtime in _on_mpi(objects):
        nodes = mapping(job.body, "spec", "trainer").get("numNodes")
        if nodes == 1 and not isinstance(nodes, bool) and runtime.is_launcher_a_node and runtime.node:
            yield Breach(
                ("spec", "trainer", "numNodes"),
                f"`numNodes` is `1`, but on {manifest.resource} the TrainJob gets 2 pods with ranks",
                "Trainer creates a launcher pod with ranks and at least one worker pod. The TrainJob uses the devices "
                f"and the quota of two pods, and runs twice the ranks ({known('trainer-one-node-is-two').note})",
                "use a runtime with `runLauncherAsNode: false`, whose launcher requests no devices; or set "
                "`numNodes: 2` if the TrainJob needs two pods",
                job,
                value=nodes,
            )


@check("trainjob/launcher-image", severity=WARNING, needs=Objects)
def launcher_image(objects: Objects) -> Iterator[Breach]:
    """Report an image of a TrainJob that Trainer sets in the launcher only.

    On an MPI runtime, Trainer sets `trainer.image` of a TrainJob in the launcher only. The worker pods keep the image
    of the runtime, so their ranks may run another program or another MPI version.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/jobset/builder.go Builder.Trainer; trainer v2.2.0
    pkg/runtime/framework/plugins/jobset/builder.go Builder.Trainer
    """
    for job, manifest, runtime in _on_mpi(objects):
        image = mapping(job.body, "spec", "trainer").get("image")
        worker = runtime.node
        if not isinstance(image, str) or not image or not worker or worker.step == TRAINER or not worker.container:
            continue
        if runtime.launcher and runtime.launcher.step == TRAINER and worker.container.body.get("image") != image:
            yield Breach(
                ("spec", "trainer", "image"),
                f"only the launcher gets the image {format_value(image)}; the worker pods keep "
                f"{format_value(worker.container.body.get('image'))} of {manifest.resource}",
                "the programs, libraries or MPI versions of the images may differ, so ranks fail or hang "
                f"({known('trainer-image-for-the-launcher-alone').note})",
                "remove `trainer.image`, and use a runtime with this image, or ask a platform admin to allow the image "
                "in `images` of the runtime",
                job,
                value=image,
            )


def _on_mpi(objects: Objects) -> Iterator[tuple[Manifest, Manifest, MpiRuntime]]:
    """Yield (TrainJob, runtime, runtime as an MpiRuntime) for TrainJobs whose MPI runtime is in the files."""
    for job in objects.of(GROUP, "TrainJob"):
        manifest = runtime_of(job, objects)
        if manifest and (runtime := mpi_runtime(manifest.body)):
            yield job, manifest, runtime
