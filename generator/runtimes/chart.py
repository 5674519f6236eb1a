"""MpiRuntime: the construct of one runtime, and what admins subclass for their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from constructs import Construct

from generator.config.cluster import Cluster
from generator.config.pools import Pool
from generator.config.runtimes import Runtime
from generator.constructs import Component
from generator.manifests import Manifest
from generator.runtimes.openmpi import Extras, Volume, cluster_training_runtime


class MpiRuntime(Component):
    """A ClusterTrainingRuntime that runs MPI on one pool. Subclass it and override what should differ.

    Args:
        scope: the app.
        id: unique in the app.
        runtime: as in the `runtimes` section.
        pool: where it runs.
        cluster: what it runs on.
    """

    def __init__(self, scope: Construct, id: str, *, runtime: Runtime, pool: Pool, cluster: Cluster) -> None:  # noqa: A002
        extras = Extras(environment=self.environment(), volumes=self.volumes())
        body = cluster_training_runtime(runtime, pool, cluster, extras)
        super().__init__(scope, id, [Manifest(body, f"cluster/runtimes/{runtime.name}.yaml")])

    def environment(self) -> Mapping[str, str]:
        """Variables of the launcher. Open MPI hands `OMPI_MCA_*` to the ranks, others need `mpirun -x NAME`."""
        return {}

    def volumes(self) -> Sequence[Volume]:
        """Volumes of launcher and nodes."""
        return ()
