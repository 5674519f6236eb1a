"""trainjob/one-node, trainjob/launcher-image: TrainJobs whose hosts are not what `spec.trainer` asks for."""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.checks.mpi_runtime import TRAINER as STEP
from generator.checks.mpi_runtime import MpiRuntime, mpi_runtime
from generator.checks.queued import TRAINER
from generator.checks.trainjob_runtime import runtime_of
from generator.documents.syntax import shown
from generator.facts.defects import known
from generator.manifests import Manifest
from generator.objects.fields import mapping

_Job = tuple[Manifest, Manifest, MpiRuntime]


def one_node(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Report `numNodes: 1` on a runtime whose launcher is a host: Trainer makes a second host.

    trainer v2.3.0 and v2.2.0 pkg/runtime/framework/plugins/mpi/mpi.go EnforceMLPolicy
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


def launcher_image(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Report an image that only the launcher gets.

    trainer v2.3.0 pkg/runtime/framework/plugins/jobset/builder.go Trainer; the same in v2.2.0
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
                    f"only the launcher gets the image {shown(image)}; the other hosts keep "
                    f"{shown(host.container.body.get('image'))} of {manifest.resource}",
                    "programs, libraries or the MPI of the hosts may differ, so ranks fail or hang "
                    f"({known('trainer-image-for-the-launcher-alone').note})",
                    "use a runtime that has this image in both jobs, and leave `image` out",
                    Severity.WARNING,
                    value=image,
                ),
            )


def _on_mpi(gathered: Gathered) -> Iterator[_Job]:
    """Yield each TrainJob whose MPI runtime is there."""
    for job in gathered.of(TRAINER, "TrainJob"):
        manifest = runtime_of(job, gathered)
        if manifest and (runtime := mpi_runtime(manifest.body)):
            yield job, manifest, runtime
