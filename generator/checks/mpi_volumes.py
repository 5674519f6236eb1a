"""mpi/one-node-volume: can all hosts of a job use the volumes that its runtime mounts?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.checks.mpi_runtime import ReplicatedJob, mpi_runtime
from generator.documents.syntax import shown
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping

_TRAINER = "trainer.kubeflow.org"
_SHARED = {"ReadWriteMany", "ReadOnlyMany"}


def one_node_volume(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """A volume that one node has at a time, in pods of several: all but those of one node wait for it for ever.

    kubernetes v1.34.2 pkg/volume/util/util.go `IsMultiAttachAllowed`
    """
    mounted = _mounted(gathered)
    for claim in gathered.of("", "PersistentVolumeClaim"):
        modes = mapping(claim.body, "spec").get("accessModes")
        runtime = mounted.get(("", claim.name)) or mounted.get((claim.namespace, claim.name))
        if runtime is None or not isinstance(modes, list) or not modes or _SHARED & {str(mode) for mode in modes}:
            continue
        yield (
            claim,
            Breach(
                ("spec", "accessModes"),
                "mpi/one-node-volume",
                f"{shown(', '.join(map(str, modes)))}, and the hosts of jobs of `{runtime}` mount it together",
                "a node keeps it from all others, where pods then wait for it",
                "write ReadWriteMany, of a class that can, such as CephFS or NFS, or ReadOnlyMany to read only",
                Severity.WARNING,
                value=modes,
            ),
        )


def _mounted(gathered: Gathered) -> Mapping[tuple[str, str], str]:
    """Namespace, none where in any, and claim → the first runtime for MPI that mounts it on its hosts."""
    found: dict[tuple[str, str], str] = {}
    for manifest in gathered.of(_TRAINER, "ClusterTrainingRuntime", "TrainingRuntime"):
        runtime = mpi_runtime(manifest.body)
        for job in runtime.pair if runtime else ():
            for claim in _claims(job):
                found.setdefault((manifest.namespace, claim), manifest.name)
    return found


def _claims(job: ReplicatedJob) -> Iterator[str]:
    for _, volume in indexed_mappings(job.pod.get("volumes")):
        claim: Any = mapping(volume, "persistentVolumeClaim").get("claimName")
        if isinstance(claim, str):
            yield claim
