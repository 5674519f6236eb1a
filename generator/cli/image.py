"""`mpigen image`: container images for the runtimes of a platform."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from generator.cli.inputs import environment_option, find_platform_file, no_python_option
from generator.cli.output import format_option, progress, show
from generator.errors import ConfigError, ExitCode, Problem

if TYPE_CHECKING:
    from generator.components.app import App
    from generator.config.model.runtimes import Runtime
    from generator.config.platform import Platform
    from generator.images.check import Verdict
    from generator.manifests import Manifest


@click.group(epilog="Example: mpigen image check ./image --runtime openmpi --platform platform.yaml")
def image() -> None:
    """Check container images for the runtimes of a platform."""


@image.command(
    epilog="""
    \b
    Example:
      skopeo copy docker://quay.io/acme/openmpi:5.0 oci:image
      mpigen image check image --runtime openmpi --platform platform.yaml
      podman save quay.io/acme/openmpi:5.0 --format oci-archive -o image.tar
      mpigen image check image.tar --runtime openmpi
    """
)
@click.argument("reference", metavar="IMAGE")
@click.option("--runtime", "name", required=True, metavar="NAME", help="A runtime that the platform declares.")
@click.option(
    "--platform",
    "file",
    type=click.Path(path_type=Path),
    help="The platform file. Default: the only platform file in the working folder.",
)
@environment_option
@no_python_option
@format_option
def check(reference: str, *, name: str, file: Path | None, form: str) -> int:
    """Show whether the pods of a runtime accept IMAGE, before you push it.

    IMAGE is the folder of an OCI layout, an archive of `podman save` or `docker save`, or a root filesystem
    as a folder or an archive. If a layout or an archive has several images, write IMAGE:TAG.

    mpigen looks for the programs that the init container `prepare` of the pods needs, as the user of the
    pods, and compares the architecture with that of the nodes. It prints the message with which the pods
    would fail. It runs nothing of the image, and contacts no registry.
    """
    from generator.images.check import check_image
    from generator.images.load import load_image
    from generator.images.pods import pods_of
    from generator.stages.loading import load_with_app

    platform, app = load_with_app(file or find_platform_file())
    runtime = _runtime(platform, name)
    pods = [*pods_of(runtime, _manifest(platform, app, runtime))]
    pool = platform.pool(runtime.pool)
    server = pool.wiring.known_server if pool.wiring else None
    architecture = next((pod.architecture for pod in pods if pod.architecture), server.architecture if server else "")
    with progress("reading the image"):
        loaded = load_image(reference, architecture)
    verdicts = check_image(loaded, runtime.name, pool.name, architecture, pods)
    facts = {"image": reference, "runtime": name, "pods": [_facts(verdict) for verdict in verdicts]}
    show(form, facts, [line for verdict in verdicts for line in _lines(verdict)])
    return ExitCode.FINDINGS if any(verdict.message for verdict in verdicts) else ExitCode.OK


def _runtime(platform: Platform, name: str) -> Runtime:
    """Return a runtime of a platform with its family.

    Raises:
        ConfigError: the platform declares no such runtime.
    """
    from generator.documents.messages import format_value
    from generator.errors import suggest

    names = [runtime.name for runtime in platform.runtimes]
    if name not in names:
        problem = Problem(f"there is no runtime {format_value(name)}", suggest(name, names), path="--runtime")
        raise ConfigError((problem,))
    return platform.bind(platform.runtimes[names.index(name)])


def _manifest(platform: Platform, app: App | None, runtime: Runtime) -> Manifest:
    """Return the TrainingRuntime or ClusterTrainingRuntime of a runtime, with the changes of hooks and patches."""
    from generator import pipeline
    from generator.manifests import Manifest
    from generator.objects.pods import RUNTIMES
    from generator.runtimes.training_runtime import training_runtimes

    if app is None:
        return Manifest(training_runtimes(runtime, platform.pool(runtime.pool), platform.cluster)[0], "")
    rendered = pipeline.render(platform, app)
    return next(one for one in rendered if one.kind in RUNTIMES and one.name == runtime.name)


def _facts(verdict: Verdict) -> dict[str, object]:
    accepted = not verdict.message
    return {"pods": verdict.pods, "accepted": accepted, "message": verdict.message, "unknown": [*verdict.unknown]}


def _lines(verdict: Verdict) -> list[str]:
    from generator.runtimes.image_needs import format_program

    answer = f"`prepare` fails: {verdict.message}" if verdict.message else "`prepare` accepts the image"
    lines = [f"{verdict.pods}: {answer}"]
    if verdict.unknown:
        names = ", ".join(map(format_program, verdict.unknown))
        lines.append(
            f"note: the image lacks {names}. PATH of the runtime leads to a volume, which can have the program."
        )
    return lines
