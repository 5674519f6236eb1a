"""platform/nested-volumes, platform/hidden-software: mounts of runtimes that hide something."""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.platform import Platform
from generator.config.runtimes import Runtime
from generator.facts.folders import is_below, software_hidden_by
from generator.hazards.hazard import Hazard


def volume_hazards(platform: Platform) -> Iterator[Hazard]:
    """Report volumes inside one another, and volumes where images keep MPI."""
    for runtime in platform.runtimes:
        yield from _nested(runtime)
        for volume in runtime.volumes:
            if holds := software_hidden_by(volume.mount_path):
                yield Hazard(
                    "platform/hidden-software",
                    ("runtimes", runtime.name, "volumes", volume.name, "mountPath"),
                    f"a volume at `{volume.mount_path}` hides that folder of the image: {holds}",
                    "ranks then fail with `command not found` or a missing library",
                    "mount it elsewhere, such as at /data, unless the volume holds the software",
                )


def _nested(runtime: Runtime) -> Iterator[Hazard]:
    for inner in runtime.volumes:
        for outer in runtime.volumes:
            if is_below(inner.mount_path, outer.mount_path):
                is_closed = outer.read_only or outer.claim is not None
                yield Hazard(
                    "platform/nested-volumes",
                    ("runtimes", runtime.name, "volumes", inner.name, "mountPath"),
                    f"`{inner.mount_path}` lies in `{outer.mount_path}`, where the volume `{outer.name}` is",
                    f"the container runtime makes the folder in `{outer.name}`, and pods do not start if it cannot"
                    if is_closed
                    else f"what `{outer.name}` has in that folder is hidden",
                    "mount the two side by side, such as at /data and /scratch",
                )
