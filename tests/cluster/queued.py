"""TrainJobs written by hand in a namespace with a queue that is large enough for all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.cluster.client import Body, Client, wait_for, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.training import conditions

NAMESPACE = "queued-by-hand"
EMPTY: Mapping[str, Mapping[str, Body]] = yaml.safe_load(Path(__file__).with_name("empty_values.yaml").read_text())
"""Outcome of a TrainJob → its name → its spec."""
_TRAINER = "trainer.kubeflow.org/v1alpha1"
_KUEUE = "kueue.x-k8s.io/v1beta2"
_QUOTA = {
    "cpu": "9k",
    "memory": "9Pi",
    "nvidia.com/gpu": "9k",
    "rdma/hca": "9k",
    "example.com/fpga": "9k",
    "hugepages-2Mi": "9Pi",
}


def _object(kind: str, name: str, spec: Body, namespace: str = "") -> Body:
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": _KUEUE, "kind": kind, "metadata": {"name": name, **place}, "spec": spec}


_FLAVOR = {"name": NAMESPACE, "resources": [{"name": name, "nominalQuota": most} for name, most in _QUOTA.items()]}
_GROUP = {"coveredResources": [*_QUOTA], "flavors": [_FLAVOR]}
_PLACE: tuple[Body, ...] = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
    _object("ResourceFlavor", NAMESPACE, {}),
    _object("ClusterQueue", NAMESPACE, {"namespaceSelector": {}, "resourceGroups": [_GROUP]}),
    _object("LocalQueue", "default", {"clusterQueue": NAMESPACE}, NAMESPACE),
)


def of_trainer(kind: str, name: str, spec: Body) -> Body:
    """An object of Trainer in that namespace."""
    return {"apiVersion": _TRAINER, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def train_job(name: str, runtime: str, spec: Body) -> Body:
    """A TrainJob in the queue, on a runtime of the namespace; `pod` in its spec is a patch of the pods of `node`."""
    pod = spec.get("pod")
    inside = {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]}
    patch = {"manager": "tests.mpigen.dev/me", "trainingRuntimeSpec": {"template": {"spec": inside}}}
    rest = {key: value for key, value in spec.items() if key != "pod"} | ({"runtimePatches": [patch]} if pod else {})
    body = of_trainer("TrainJob", name, {"runtimeRef": {"name": runtime, "kind": "TrainingRuntime"}, **rest})
    body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "default"}
    return body


@contextmanager
def queue(admin: Client) -> Iterator[None]:
    """The namespace with its queue, and afterwards neither."""
    wait_until("nothing is left from before", lambda: not any(map(admin.exists, _PLACE)))
    for body in _PLACE:
        admin.create(body)
    wait_until("the queue is open", lambda: _holds(admin.read(_PLACE[-1]), "Active"))
    yield
    for body in reversed(_PLACE):
        admin.delete(body)


def outcome(cluster: Cluster, job: Body) -> str:
    """`runs` once Kueue let a TrainJob go; `stuck` once it admitted it and the API server refused what it wrote."""
    name = job["metadata"]["name"]
    refused = re.compile(rf'TrainJob.trainer.kubeflow.org \\\\?"{name}\\\\?" is invalid: [^\n]*immutable')

    def seen() -> str | None:
        if cluster.admin.read(job)["spec"]["suspend"] is False:
            return "runs"
        is_refused = refused.search(cluster.processes.log("kueue").read_text(errors="replace"))
        return "stuck" if is_refused and _holds(workload(cluster.admin, name), "Admitted") else None

    return wait_for(f"{name}: a verdict", seen)


def workload(admin: Client, name: str) -> Body:
    """Return the Workload of a TrainJob as soon as Kueue creates it."""

    def found() -> Body | None:
        owned = admin.items(_KUEUE, "Workload", NAMESPACE)
        return next((each for each in owned if each["metadata"]["ownerReferences"][0]["name"] == name), None)

    return wait_for(f"{name}: a Workload", found)


def _holds(body: Body, condition: str) -> bool:
    return any(each["type"] == condition and each["status"] == "True" for each in conditions(body))
