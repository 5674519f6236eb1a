"""What Kueue is set to when it is installed, as data: what a platform does not speak of stays as it is.

Source, for each version: config/components/manager/controller_manager_config.yaml of the release, which
tests/cluster compares. Frameworks whose kinds are not installed are passed over by Kueue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Installed:
    """The settings of one minor version that differ from those of another.

    Attributes:
        concurrency: kind → how many of its objects are worked on at once.
        qps: requests to the API server in a second.
        burst: how many of them at once.
        frameworks: the kinds of job that Kueue takes notice of.
    """

    concurrency: Mapping[str, int]
    qps: int
    burst: int
    frameworks: tuple[str, ...]


_BEFORE_KUBEFLOW = (
    "batch/job",
    "kubeflow.org/mpijob",
    "ray.io/rayjob",
    "ray.io/raycluster",
    "ray.io/rayservice",
    "jobset.x-k8s.io/jobset",
)
_KUBEFLOW_V1 = tuple(f"kubeflow.org/{kind}" for kind in ("paddlejob", "pytorchjob", "tfjob", "xgboostjob", "jaxjob"))
_AFTER_KUBEFLOW = (
    "workload.codeflare.dev/appwrapper",
    "trainer.kubeflow.org/trainjob",
    "pod",
    "deployment",
    "statefulset",
    "leaderworkerset.x-k8s.io/leaderworkerset",
)


def _concurrency(*, workloads: int, queues: int) -> Mapping[str, int]:
    return {
        "Job.batch": 5,
        "Pod": 5,
        "Workload.kueue.x-k8s.io": workloads,
        "LocalQueue.kueue.x-k8s.io": queues,
        "Cohort.kueue.x-k8s.io": 1,
        "ClusterQueue.kueue.x-k8s.io": queues,
        "ResourceFlavor.kueue.x-k8s.io": 1,
    }


INSTALLED: Mapping[str, Installed] = {
    "0.19": Installed(
        concurrency=_concurrency(workloads=10, queues=5),
        qps=300,
        burst=500,
        frameworks=(*_BEFORE_KUBEFLOW, *_AFTER_KUBEFLOW),
    ),
    "0.18": Installed(
        concurrency=_concurrency(workloads=5, queues=1),
        qps=50,
        burst=100,
        frameworks=(*_BEFORE_KUBEFLOW, *_KUBEFLOW_V1, *_AFTER_KUBEFLOW),
    ),
}
"""Minor version of Kueue → its settings."""
