"""trainjob/*: the hosts and resources that a TrainJob gets on its runtime.

Trainer 2.2 replaces all resources of the runtime by `resourcesPerNode`. Trainer 2.3 merges limits and requests, each
by resource. Kueue 0.18 and 0.19 count as Trainer 2.2 does, because they contain its code (kueue v0.19.2 go.mod;
pkg/controller/jobs/trainjob/trainjob_controller.go getChildJobSet).

A rule reads a TrainJob with its runtime. Both must be in files below the same `release.json`, or below none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from generator.checks.fabric.fabrics import Fabrics
from generator.checks.objects import Objects
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.checks.trainer import (
    AMOUNTS,
    FIELD,
    GROUP,
    TRAINER,
    MpiRuntime,
    OnRuntime,
    is_queued,
    mpi_runtime,
    on_runtimes,
    runtime_of,
)
from generator.documents.messages import format_value
from generator.facts.defects import known
from generator.manifests import Manifest
from generator.objects.fields import mapping
from generator.quantities import amount_of

_REPLACING = "2.2"
_REPLACED = f"Trainer {_REPLACING} replaces all resources of the runtime"


@check("trainjob/lost-devices", severity=ERROR, needs=Objects)
def lost_devices(objects: Objects) -> Iterator[Breach]:
    """Report devices of the runtime that a TrainJob loses.

    Trainer 2.2 replaces all resources of the runtime by `trainer.resourcesPerNode`. A TrainJob that sets only some
    runs without the others, and so without a device. Trainer 2.3 replaces only the resources that the TrainJob sets.
    Both drop the claims of the runtime (`resources.claims`), because Trainer keeps only limits and requests.

    Source: trainer v2.2.0 pkg/runtime/framework/plugins/jobset/builder.go Trainer; v2.3.0
    pkg/runtime/core/trainingruntime.go newRuntimeInfo
    """
    is_replacing = objects.targets.get("trainer") == _REPLACING
    for pair in on_runtimes(objects):
        if is_replacing and not pair.sets_amounts:
            continue
        if pair.claims:
            names = " and ".join(dict.fromkeys(map(format_value, pair.claims)))
            yield Breach(
                FIELD,
                f"`resourcesPerNode` drops the claims {names} of {pair.runtime.resource}",
                "Trainer keeps only limits and requests, so the containers do not get the claimed devices",
                "remove `resourcesPerNode`, and use a runtime with the amounts that you need",
                pair.job,
                at_key=True,
            )
        if is_replacing and (devices := _devices(pair.missing)):
            is_fabric = any(map(objects.view(Fabrics.read).is_device, devices))
            why = f"{_REPLACED}: its pods run without them"
            yield _missing(pair, devices, f"{why}, and its ranks use TCP or fail" if is_fabric else why)


@check("trainjob/lost-resources", severity=WARNING, needs=Objects)
def lost_resources(objects: Objects) -> Iterator[Breach]:
    """Report CPU or memory of the runtime that a TrainJob loses.

    Trainer 2.2 replaces all resources of the runtime by `trainer.resourcesPerNode`. Pods without a memory request are
    the first that a node evicts. `trainjob/lost-devices` reports a TrainJob that loses devices too.

    Source: trainer v2.2.0 pkg/runtime/framework/plugins/jobset/builder.go Trainer
    """
    for pair in on_runtimes(objects):
        is_lost = objects.targets.get("trainer") == _REPLACING and pair.sets_amounts
        if is_lost and pair.missing and not _devices(pair.missing):
            yield _missing(pair, pair.missing, f"{_REPLACED}: its pods request none, and Kueue counts none")


@check("trainjob/uncounted-resources", severity=ERROR, needs=Objects)
def uncounted_resources(objects: Objects) -> Iterator[Breach]:
    """Report resources of a TrainJob that Kueue does not count.

    On Trainer 2.3 a TrainJob keeps the resources that its `resourcesPerNode` does not set. Kueue 0.18 and 0.19 count
    as Trainer 2.2 does, without them. So the job uses devices beyond its quota, which are missing where Kueue counts
    them as free. Without devices the breach is a warning.

    Kueue also counts init containers, so the check reports nothing if one requests as many. The init container of a
    [fabric](../../explanations/fabrics.md#no-silent-tcp) does. The check reads TrainJobs with a queue, and TrainJobs
    in a namespace with a LocalQueue `default`.

    Source: kueue v0.19.2 pkg/controller/jobs/trainjob/trainjob_controller.go getChildJobSet;
    pkg/workload/workload.go totalRequestsFromPodSets
    """
    for pair in on_runtimes(objects):
        if pair.sets_amounts and (missing := pair.uncounted) and is_queued(pair.job, objects):
            why = f"its pods get them, but Kueue {objects.targets.get('kueue')} does not count them against the quota"
            yield _missing(pair, _devices(missing) or missing, why)


@check("trainjob/contradicting-resources", severity=ERROR, needs=Objects)
def contradicting_resources(objects: Objects) -> Iterator[Breach]:
    """Report a limit and a request that contradict each other after merging.

    Trainer 2.3 merges limits and requests separately. A TrainJob that lowers only the limit below a request of the
    runtime, or raises only the request, gets pods that the API server rejects. For a device both must be equal.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidateContainerResourceRequirements
    """
    if objects.targets.get("trainer") == _REPLACING:
        return
    for pair in on_runtimes(objects):
        for resources in pair.resources():
            limits, requests = ({**mapping(resources, key), **mapping(pair.amounts, key)} for key in AMOUNTS)
            for name in limits.keys() & requests.keys():
                limit, request = amount_of(limits[name]), amount_of(requests[name])
                if limit is None or request is None:
                    continue
                if request > limit or ("/" in name and request != limit):
                    yield Breach(
                        FIELD,
                        f"`{name}` gets the limit `{limits[name]}` and the request `{requests[name]}` with "
                        f"{pair.runtime.resource}",
                        "Trainer merges limits and requests separately, and the API server rejects the pods",
                        f"set `{name}` in both `limits` and `requests`",
                        pair.job,
                        at_key=True,
                    )


def _devices(amounts: Mapping[str, object]) -> Mapping[str, object]:
    """Return the amounts of extended resources, whose names have a domain."""
    return {name: amount for name, amount in amounts.items() if "/" in name}


def _missing(pair: OnRuntime, missing: Mapping[str, object], why: str) -> Breach:
    """Return the breach of a TrainJob that does not set some resources: an error if there is a device."""
    names = " and ".join(map(format_value, missing))
    amounts = ", ".join(f"{name}: {amount}" for name, amount in pair.missing.items())
    return Breach(
        FIELD,
        f"`resourcesPerNode` does not set {names}, which {pair.runtime.resource} requests",
        why,
        f"set them too, with the amounts that the job needs: `limits: {{{amounts}}}`, and the same in `requests`",
        pair.job,
        severity=ERROR if _devices(missing) else WARNING,
        at_key=True,
    )


@check("trainjob/one-node", severity=WARNING, needs=Objects)
def one_node(objects: Objects) -> Iterator[Breach]:
    """Report `numNodes: 1` on a runtime that then gets two hosts.

    With `runLauncherAsNode` Trainer creates a launcher and at least one more host. The job uses the quota of two hosts
    and runs twice the ranks.

    Source: trainer v2.3.0 and v2.2.0 pkg/runtime/framework/plugins/mpi/mpi.go EnforceMLPolicy
    """
    for job, manifest, runtime in _on_mpi(objects):
        nodes = mapping(job.body, "spec", "trainer").get("numNodes")
        if nodes == 1 and not isinstance(nodes, bool) and runtime.is_launcher_a_node and runtime.node:
            yield Breach(
                ("spec", "trainer", "numNodes"),
                f"`numNodes` is `1`, but the job gets 2 hosts on {manifest.resource}",
                "Trainer creates a launcher and at least one more host. The job uses the devices and the quota of two "
                f"hosts, and runs twice the ranks ({known('trainer-one-node-is-two').note})",
                "set `numNodes: 2`, or use a runtime for one host without `mlPolicy.mpi`",
                job,
                value=nodes,
            )


@check("trainjob/launcher-image", severity=WARNING, needs=Objects)
def launcher_image(objects: Objects) -> Iterator[Breach]:
    """Report an image that only the launcher gets.

    On an MPI runtime Trainer sets `trainer.image` of a TrainJob in the launcher only. The other hosts keep the image
    of the runtime, so ranks may run another program or MPI version.

    Source: trainer v2.3.0 and v2.2.0 pkg/runtime/framework/plugins/jobset/builder.go Trainer
    """
    for job, manifest, runtime in _on_mpi(objects):
        image = mapping(job.body, "spec", "trainer").get("image")
        host = runtime.node
        if not isinstance(image, str) or not image or not host or host.step == TRAINER or not host.container:
            continue
        if runtime.launcher and runtime.launcher.step == TRAINER and host.container.body.get("image") != image:
            yield Breach(
                ("spec", "trainer", "image"),
                f"only the launcher gets the image {format_value(image)}; the other hosts keep "
                f"{format_value(host.container.body.get('image'))} of {manifest.resource}",
                "programs, libraries or the MPI of the hosts may differ, so ranks fail or hang "
                f"({known('trainer-image-for-the-launcher-alone').note})",
                "use a runtime that has this image in both jobs, and remove `image`",
                job,
                value=image,
            )


def _on_mpi(objects: Objects) -> Iterator[tuple[Manifest, Manifest, MpiRuntime]]:
    """Yield the TrainJobs whose MPI runtime is in the files: (TrainJob, its runtime, its view)."""
    for job in objects.of(GROUP, "TrainJob"):
        manifest = runtime_of(job, objects)
        if manifest and (runtime := mpi_runtime(manifest.body)):
            yield job, manifest, runtime
