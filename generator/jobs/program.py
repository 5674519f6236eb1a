"""A Python program that creates the jobs of a request with the models of the Kubeflow SDK."""

from __future__ import annotations

from collections.abc import Sequence

from rich.pretty import pretty_repr

from generator.manifests import Body

_CREATE_OTHERS = """\
for body in OTHERS:
    utils.create_from_dict(client.ApiClient(), body)
"""
_CREATE_RUNTIME = """\
try:
    client.CustomObjectsApi().create_namespaced_custom_object(
        "trainer.kubeflow.org", "v1alpha1", RUNTIME["metadata"]["namespace"], "trainingruntimes", RUNTIME
    )
except client.ApiException as error:
    if error.status != 409:  # jobs with the same image share it
        raise
"""
_CREATE_JOBS = """\
for body in JOBS:
    job = models.TrainerV1alpha1TrainJob.from_dict(body)
    client.CustomObjectsApi().create_namespaced_custom_object(
        "trainer.kubeflow.org", "v1alpha1", job.metadata.namespace, "trainjobs", job.to_dict()
    )
"""


def program(others: Sequence[Body], jobs: Sequence[Body]) -> str:
    """Return a program that creates objects, and then TrainJobs.

    It needs `kubeflow-trainer-api` and `kubernetes`, which `kubeflow` installs. `TrainerClient.train` would not do: it
    sets no `numNodes` without a function or an image, and no variable from a Secret (kubeflow 0.5.0
    kubeflow/trainer/backends/kubernetes/backend.py KubernetesBackend._get_trainjob_spec).

    Args:
        others: a copy of a runtime with another image, the ConfigMap with the files, and NetworkPolicies.
        jobs: the TrainJobs.
    """
    runtimes = [body for body in others if body["kind"] == "TrainingRuntime"]
    others = [body for body in others if body not in runtimes]
    names = ", ".join(job["metadata"]["name"] for job in jobs[:3]) + (", …" if len(jobs) > 3 else "")  # noqa: PLR2004 - the names that fit
    modules = "client, config, utils" if others else "client, config"
    return "\n".join(
        [
            f'"""Create {names} with the Kubeflow SDK: pip install kubeflow."""\n',
            "from kubeflow_trainer_api import models",
            f"from kubernetes import {modules}\n",
            *(_literal("RUNTIME", body) for body in runtimes),
            *([_literal("OTHERS", list(others))] if others else []),
            _literal("JOBS", list(jobs)),
            "config.load_config()  # the kubeconfig, or the ServiceAccount of this pod",
            f"{_CREATE_RUNTIME if runtimes else ''}{_CREATE_OTHERS if others else ''}{_CREATE_JOBS}",
        ]
    )


def _literal(name: str, value: Body | list[Body]) -> str:
    return f"{name} = {pretty_repr(value, max_width=100)}\n"
