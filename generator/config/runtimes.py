"""`runtimes`: the ways to launch MPI that tenants may name in a TrainJob."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from generator.config.fields import Count, Name, Resources, Section, Text


class Runtime(Section):
    """One ClusterTrainingRuntime: an MPI family on one pool."""

    name: Name
    """What a TrainJob writes in `runtimeRef.name`."""
    use: Literal["openmpi"] = "openmpi"
    """The MPI family. Open MPI 4 and 5 both work."""
    pool: Name
    """The pool whose nodes run the ranks."""
    image: Text | None = None
    """The image of launcher and nodes: Open MPI, and OpenSSH on port 2222 as uid 1000. Needed on accelerator pools;
    on CPU pools the default is the MPI Operator's Open MPI image."""
    processes_per_node: Count | None = None
    """Ranks on each node. Default: one for each device, or for each whole CPU on a CPU pool."""
    resources: Resources = Field(default={})
    """What the ranks of one node request, where it is not the default: all devices, nine tenths of cpu and memory."""

    @field_validator("resources")
    @classmethod
    def _in_order(cls, value: dict[str, str]) -> dict[str, str]:
        return dict(sorted(value.items()))
