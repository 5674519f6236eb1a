"""MpiRuntime: the construct of one runtime, and what admins subclass for their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from constructs import Construct

from generator.config.platform import Platform
from generator.config.references import runtime_contradictions
from generator.config.runtimes import Runtime
from generator.constructs import Component, platform_of
from generator.documents.locate import format_path
from generator.errors import ConfigError, Problem
from generator.manifests import Manifest
from generator.runtimes.openmpi import Extras, Volume, cluster_training_runtime


class MpiRuntime(Component):
    """A ClusterTrainingRuntime that runs MPI on one pool. Subclass it and override what should differ.

    Args:
        scope: the app.
        id: unique in the app.
        runtime: as in the `runtimes` section.
        platform: what it is part of; only needed in a plain `cdk8s.App`.

    Raises:
        KeyError: the platform has no such pool.
        ConfigError: the runtime asks for what the pool does not have.
    """

    def __init__(self, scope: Construct, id: str, *, runtime: Runtime, platform: Platform | None = None) -> None:  # noqa: A002
        platform = platform or platform_of(scope)
        pool = platform.pool(runtime.pool)
        problems = [
            Problem(each.message, each.fix, path=f"{id}.{format_path(each.path)}".rstrip("."))
            for each in runtime_contradictions(runtime, pool)
        ]
        if problems:
            raise ConfigError(tuple(problems))
        extras = Extras(environment=self.environment(), volumes=self.volumes())
        body = cluster_training_runtime(runtime, pool, platform.cluster, extras)
        super().__init__(scope, id, [Manifest(body, f"cluster/runtimes/{runtime.name}.yaml")])

    def environment(self) -> Mapping[str, str]:
        """Variables of the launcher. Open MPI hands `OMPI_MCA_*` to the ranks, others need `mpirun -x NAME`."""
        return {}

    def volumes(self) -> Sequence[Volume]:
        """Volumes of launcher and nodes."""
        return ()
