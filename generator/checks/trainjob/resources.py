"""trainjob/*: the hosts and resources that a TrainJob gets on its runtime.

Trainer 2.2 replaces all resources of the runtime by `resourcesPerNode`. Trainer 2.3 merges limits and requests, each
by resource. Kueue 0.18 and 0.19 count as Trainer 2.2 does, because they contain its code (kueue v0.19.2 go.mod;
pkg/controller/jobs/trainjob/trainjob_controller.go getChildJobSet).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from generator.checks.fabric.fabrics import Fabrics
from generator.checks.finding import Breach, Severity
from generator.checks.objects import Objects
from generator.checks.quota.queues import TRAINER
from generator.checks.registry import ERROR, WARNING, check
from generator.checks.trainer import (
    AMOUNTS,
    FIELD,
    MpiRuntime,
    OnRuntime,
    is_queued,
    mpi_runtime,
    on_runtimes,
    runtime_of,
)
from generator.checks.trainer import TRAINER as STEP
from generator.documents.messages import format_value
from generator.facts.defects import known
from generator.manifests import Manifest
from generator.objects.fields import mapping
from generator.quantities import amount_of

_REPLACING = "2.2"


@check("trainjob/lost-devices", severity=ERROR, needs=Objects)
def lost_devices(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report devices of the runtime that a TrainJob loses.

    Trainer 2.2 puts `trainer.resourcesPerNode` in the place of all resources that the runtime asks for. A TrainJob
    that names only some runs without the others, and so without a device. Trainer 2.3 replaces only those that are
    named, but what the runtime claims of a device driver (`resources.claims`) is lost on both. For this check and
    the next ones the TrainJob and its runtime are to be among the files, both below the same `release.json` or
    below none.

    Source: trainer v2.2.0 pkg/runtime/framework/plugins/jobset/builder.go Trainer; v2.3.0
    pkg/runtime/core/trainingruntime.go newRuntimeInfo
    """
    is_old = gathered.targets.get("trainer") == _REPLACING
    for pair in on_runtimes(gathered):
        if is_old and not pair.names_amounts:
            continue
        if pair.claims:
            names = " and ".join(dict.fromkeys(map(format_value, pair.claims)))
            why = "Trainer carries over amounts alone, so that its containers see nothing of what is claimed"
            fix = "leave `resourcesPerNode` out, and have a runtime with other amounts"
            yield _told("lost-devices", pair, f"{pair.runtime.resource} claims {names}", why, fix)
        if is_old and (devices := _devices(pair.left_out)):
            is_fabric = any(map(gathered.view(Fabrics.read).is_device, devices))
            rest = ", and its ranks over TCP, or not at all" if is_fabric else ""
            yield _left_out("lost-devices", pair, devices, f"{_PLACED}: its pods run without them{rest}")


@check("trainjob/lost-resources", severity=WARNING, needs=Objects)
def lost_resources(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report CPU or memory of the runtime that a TrainJob loses.

    The same on Trainer 2.2, of a TrainJob that loses only CPU, memory or the like.
    """
    for pair in on_runtimes(gathered):
        is_lost = gathered.targets.get("trainer") == _REPLACING and pair.names_amounts
        if is_lost and pair.left_out and not _devices(pair.left_out):
            why = f"{_PLACED}: its pods ask for none, and Kueue counts none"
            yield _left_out("lost-resources", pair, pair.left_out, why, Severity.WARNING)


@check("trainjob/uncounted-resources", severity=ERROR, needs=Objects)
def uncounted_resources(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report resources of a TrainJob that Kueue does not count.

    On Trainer 2.3 a TrainJob keeps what its `resourcesPerNode` does not name, but Kueue 0.18 and 0.19 count as
    Trainer 2.2 would run it. So a device is used that no quota is charged for, unless an init container asks for as
    many, as the one of a [fabric](../../explanations/fabrics.md#no-silent-tcp) does. Where only CPU, memory or the
    like are left out it is a warning. Said of TrainJobs that name a queue, and of those in a namespace with a
    LocalQueue called `default`.
    """
    kueue = gathered.targets.get("kueue")
    for pair in on_runtimes(gathered):
        if pair.names_amounts and (lost := pair.uncounted) and is_queued(pair.job, gathered):
            why = f"its pods get them, and Kueue {kueue} counts none of them: they are used beyond the quota"
            severity = Severity.ERROR if _devices(lost) else Severity.WARNING
            yield _left_out("uncounted-resources", pair, _devices(lost) or lost, why, severity)


@check("trainjob/contradicting-resources", severity=ERROR, needs=Objects)
def contradicting_resources(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a limit and a request that contradict each other after merging.

    Trainer 2.3 merges limits and requests one by one. A TrainJob that lowers only the limit of what the runtime
    requests, or raises only the request, gets pods that the API server refuses; of a device both are to be the
    same.

    Source: k8s.io/kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidateContainerResourceRequirements
    """
    if gathered.targets.get("trainer") == _REPLACING:
        return
    for pair in on_runtimes(gathered):
        for resources in pair.resources():
            limits, requests = ({**mapping(resources, key), **mapping(pair.said, key)} for key in AMOUNTS)
            for name in limits.keys() & requests.keys():
                limit, request = amount_of(limits[name]), amount_of(requests[name])
                if (
                    limit is not None
                    and request is not None
                    and (request > limit or ("/" in name and request != limit))
                ):
                    amounts = f"`{name}` gets the limit `{limits[name]}` and the request `{requests[name]}`"
                    why = "Trainer merges limits and requests one by one, and the API server refuses such pods"
                    fix = f"write `{name}` below `limits` and below `requests`"
                    yield _told("contradicting-resources", pair, f"{amounts} with {pair.runtime.resource}", why, fix)


def _contradict(name: str, limit: object, request: object) -> bool:
    most, asked = amount_of(limit), amount_of(request)
    if most is None or asked is None:
        return False
    is_divisible = "/" not in name and not name.startswith("hugepages-")
    return asked > most if is_divisible else asked != most


_PLACED = f"Trainer {_REPLACING} puts it in the place of all resources of the runtime"


def _devices(amounts: Mapping[str, object]) -> Mapping[str, object]:
    """Those that a device plugin offers, whose names have a domain."""
    return {name: amount for name, amount in amounts.items() if "/" in name}


def _left_out(
    rule: str, pair: OnRuntime, lost: Mapping[str, object], why: str, severity: Severity = Severity.ERROR
) -> tuple[Manifest, Breach]:
    names = " and ".join(format_value(name) for name in lost)
    amounts = ", ".join(f"{name}: {amount}" for name, amount in pair.left_out.items())
    fix = f"name them too, or what the job needs of them: `limits: {{{amounts}}}`, and the same below `requests`"
    return _told(rule, pair, f"leaves out {names}, which {pair.runtime.resource} asks for", why, fix, severity)


def _told(
    rule: str, pair: OnRuntime, message: str, why: str, fix: str, severity: Severity = Severity.ERROR
) -> tuple[Manifest, Breach]:
    return pair.job, Breach(FIELD, f"trainjob/{rule}", message, why, fix, severity, at_key=True)


_Job = tuple[Manifest, Manifest, MpiRuntime]


@check("trainjob/one-node", severity=WARNING, needs=Objects)
def one_node(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report `numNodes: 1` on a runtime that then gets two hosts.

    `numNodes` is 1 on a runtime with `runLauncherAsNode`. Trainer makes a launcher and at least one more host, so
    the job gets, and pays for, two hosts.

    Source: trainer v2.3.0 and v2.2.0 pkg/runtime/framework/plugins/mpi/mpi.go EnforceMLPolicy
    """
    for job, manifest, runtime in _on_mpi(gathered):
        nodes = mapping(job.body, "spec", "trainer").get("numNodes")
        if nodes == 1 and not isinstance(nodes, bool) and runtime.is_launcher_a_node and runtime.node:
            yield (
                job,
                Breach(
                    ("spec", "trainer", "numNodes"),
                    "trainjob/one-node",
                    f"`numNodes` is `1`, and the job gets 2 hosts on {manifest.resource}",
                    "Trainer makes a launcher and at least one more host. The job takes, and is charged for, twice the "
                    f"devices, and runs twice the ranks ({known('trainer-one-node-is-two').note})",
                    "write `numNodes: 2`, or use a runtime for one host without `mlPolicy.mpi`",
                    Severity.WARNING,
                    value=nodes,
                ),
            )


@check("trainjob/launcher-image", severity=WARNING, needs=Objects)
def launcher_image(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report an image that only the launcher gets.

    `trainer.image` of a TrainJob on an MPI runtime. Trainer gives it to the launcher only, and the other hosts keep
    the image of the runtime.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/jobset/builder.go Trainer; the same in v2.2.0
    """
    for job, manifest, runtime in _on_mpi(gathered):
        image = mapping(job.body, "spec", "trainer").get("image")
        host = runtime.node
        if not isinstance(image, str) or not image or not host or host.step == STEP or not host.container:
            continue
        if runtime.launcher and runtime.launcher.step == STEP and host.container.body.get("image") != image:
            yield (
                job,
                Breach(
                    ("spec", "trainer", "image"),
                    "trainjob/launcher-image",
                    f"only the launcher gets the image {format_value(image)}; the other hosts keep "
                    f"{format_value(host.container.body.get('image'))} of {manifest.resource}",
                    "programs, libraries or the MPI of the hosts may differ, so ranks fail or hang "
                    f"({known('trainer-image-for-the-launcher-alone').note})",
                    "use a runtime that has this image in both jobs, and leave `image` out",
                    Severity.WARNING,
                    value=image,
                ),
            )


def _on_mpi(gathered: Objects) -> Iterator[_Job]:
    """Yield each TrainJob whose MPI runtime is there."""
    for job in gathered.of(TRAINER, "TrainJob"):
        manifest = runtime_of(job, gathered)
        if manifest and (runtime := mpi_runtime(manifest.body)):
            yield job, manifest, runtime
