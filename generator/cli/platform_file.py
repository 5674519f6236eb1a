"""The platform that a command is about, without starting Node for a platform.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from generator.config.platform import Platform


def declared(file: Path) -> Platform:
    """The platform of a file; of an mpigen_platform.py with all runtimes that are in its app.

    Raises:
        ConfigError: the file is wrong.
    """
    if file.suffix != ".py":
        from generator.config.load import load_platform

        return load_platform(file)
    from generator import pipeline

    platform, app = pipeline.load(file)
    from generator.runtimes.chart import MpiRuntime  # after the pipeline has chosen the Node that cdk8s starts

    found = [construct.runtime for construct in app.node.find_all() if isinstance(construct, MpiRuntime)]
    return platform.model_copy(update={"runtimes": tuple(sorted(found, key=lambda runtime: runtime.name))})
