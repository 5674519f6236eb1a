"""Test that the unmodified upstream Python SDK lists our runtimes and trains on them with a team member's rights."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from generator import check_jobs
from generator.checks.trainjob import empty_value
from generator.config.model.pools import Pool
from generator.config.model.runtimes import Runtime
from generator.jobs.job import new_job
from generator.jobs.request import JobRequest
from generator.objects.training import TrainJob
from generator.stages.catalogues import catalogue_of
from tests.cluster import runs
from tests.cluster.client import Body, Client
from tests.cluster.control_plane import Cluster
from tests.cluster.notebook_account import NAMESPACE, notebook_account
from tests.cluster.training import JOB, ranks_of_a_node
from tests.cluster.trees import Deployed
from tests.conftest import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]  # its warnings are not ours
ONE = pytest.mark.parametrize("deployed", ["openshift-h100"], indirect=True)


@pytest.fixture(scope="session")
def sdk() -> Any:
    """Import the package, which `make cluster` installs."""
    if os.environ.get("CI") == "true":
        return importlib.import_module("kubeflow.trainer")
    return pytest.importorskip("kubeflow.trainer", reason="the SDK is not installed: see requirements/cluster.lock")


@pytest.fixture
def client(sdk: Any, cluster: Cluster, deployed: Deployed, tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """Return an SDK client with this access to the first team."""
    clients = []

    def made(access: str) -> Any:
        tenant = deployed.platform.tenants[0]
        file = tmp_path / access
        file.write_text(notebook_account(cluster, deployed, tenant, access))
        clients.append(
            sdk.TrainerClient(sdk.KubernetesBackendConfig(config_file=str(file), namespace=tenant.name)),
        )
        return clients[-1]

    yield made
    for each in clients:
        each.backend.core_api.api_client.close()


def test_the_sdk_lists_all_runtimes_with_their_devices(deployed: Deployed, client: Callable[[str], Any]) -> None:
    listed = {found.name: found for found in client("edit").list_runtimes()}
    bodies = {found.name: found.body for found in deployed.stored if found.kind.endswith("TrainingRuntime")}
    assert listed.keys() == bodies.keys()
    for runtime in deployed.platform.runtimes:
        assert described(listed[runtime.name].trainer) == expected(
            runtime, deployed.platform.pool(runtime.pool), bodies[runtime.name]
        )


def described(trainer: Any) -> dict[str, object]:
    """Return the visible fields of a runtime."""
    return {
        "type": trainer.trainer_type.name,
        "framework": trainer.framework,
        "image": trainer.image,
        "command": trainer.command[0],
        "device": trainer.device,
        "count": trainer.device_count,
    }


def expected(runtime: Runtime, pool: Pool, body: Body) -> dict[str, object]:
    """Return the expected fields, from the platform file and the containers.

    kubeflow 0.5.0 looks at the launcher and knows NVIDIA's devices; all others it takes for a cpu
    (trainer/backends/kubernetes/utils.py).
    """
    node, launcher = (
        job["template"]["spec"]["template"]["spec"]["containers"][0]
        for job in body["spec"]["template"]["spec"]["replicatedJobs"]
    )
    vendor, _, device = pool.accelerator.partition("/")
    return {
        "type": "CUSTOM_TRAINER",
        "framework": runtime.family.framework,
        "image": launcher["image"],
        "command": "mpirun",
        "device": device if vendor == "nvidia.com" and not runtime.has_separate_launcher else "cpu",
        "count": str(ranks_of_a_node(runtime, pool, node["resources"]["limits"])),
    }


def hello() -> None:
    """Print a greeting, as a function in a notebook."""
    print("hello")  # noqa: T201


@ONE
def test_a_user_trains_with_the_sdk(deployed: Deployed, client: Callable[[str], Any], sdk: Any, admin: Client) -> None:
    me = client("edit")
    runtime = me.get_runtime("openmpi-h100")
    name = me.train(runtime=runtime, trainer=sdk.CustomTrainer(func=hello, num_nodes=2))
    seen: dict[str, tuple[str, str]] = {}

    def watch(job: Any) -> None:
        if [step.status for step in job.steps] == ["Running"] * 2:
            seen.update({step.name: (step.device, step.device_count) for step in job.steps})
            runs.finish(admin, pods(admin, deployed.platform.tenants[0].name, name))

    done = me.wait_for_job_status(name, timeout=90, polling_interval=1, callbacks=[watch])
    assert (done.status, done.num_nodes) == ("Complete", 2)
    assert seen == {"node-0": ("gpu", "8"), "node-1": ("gpu", "8")}
    assert name in {job.name for job in me.list_jobs(runtime=runtime)}
    me.get_job_events(name)  # it raises if they may not be read; of those without a firstTimestamp it shows none
    me.delete_job(name)
    assert name not in {job.name for job in me.list_jobs()}


@ONE
def test_a_job_of_the_sdk_is_checked_before_it_is_created(
    deployed: Deployed, client: Callable[[str], Any], sdk: Any, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    me, tenant = client("edit"), deployed.platform.tenants[0].name
    cluster, create = catalogue_of(deployed.platform), me.backend.custom_api.create_namespaced_custom_object
    verdicts: list[str] = []

    def checked(*arguments: Any) -> Any:
        verdicts.extend(verdict.verdict for verdict in check_jobs(arguments[-1], cluster, namespace=tenant))
        return create(*arguments)

    monkeypatch.setattr(me.backend.custom_api, "create_namespaced_custom_object", checked)
    name = me.train(runtime="openmpi-h100", trainer=sdk.CustomTrainer(func=hello, num_nodes=2))
    done = me.wait_for_job_status(
        name, timeout=90, polling_interval=1, callbacks=[lambda _: runs.finish(admin, pods(admin, tenant, name))]
    )
    assert (done.status, verdicts) == ("Complete", ["admitted"])
    me.delete_job(name)


def test_the_page_about_python_checks_a_model_of_the_sdk(sdk: Any, tmp_path: Path) -> None:  # noqa: ARG001 - installed
    """The SDK is not among the packages of the other pages."""
    page = (ROOT / "docs" / "tasks" / "jobs-in-python.md").read_text("utf-8")
    (script,) = re.findall(r'```python title="check_model.py"\n(.*?)```', page, re.DOTALL)
    (tmp_path / "output").symlink_to(ROOT / "output")
    ran = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("never\n")
    assert "numNodes: 3" in ran.stdout or "admits at most 3" in ran.stdout


def written(job: Body) -> Body:
    """Return the spec of a TrainJob without what Kueue and the webhook of Trainer add."""
    spec = {name: value for name, value in job["spec"].items() if name != "suspend"}
    patches = [patch for patch in spec["runtimePatches"] if patch["manager"] == "mpigen.dev/job"]
    return spec | {"runtimePatches": [{**patch, "time": None} for patch in patches]}


@ONE
def test_a_printed_program_creates_the_job_of_the_yaml(
    deployed: Deployed, client: Callable[[str], Any], admin: Client, tmp_path: Path
) -> None:
    tenant = deployed.platform.tenants[0].name
    owner = f"system:serviceaccount:{NAMESPACE}:{tenant}-edit"
    request = JobRequest("openmpi-h100", tenant, "printed", nodes=2, code={"train.py": b"print(1)\n"}, owner=owner)
    job = new_job(catalogue_of(deployed.platform), request)
    me = client("edit")
    program = tmp_path / "program.py"
    program.write_text(job.program)
    subprocess.run([sys.executable, program], env={**os.environ, "KUBECONFIG": str(tmp_path / "edit")}, check=True)
    other = {**job.body, "metadata": {**job.body["metadata"], "name": "applied"}}
    assert written(admin.read(job.body)) == written(admin.as_user(owner).create(other, dry_run=True).body)
    done = me.wait_for_job_status(
        "printed",
        timeout=90,
        polling_interval=1,
        callbacks=[lambda _: runs.finish(admin, pods(admin, tenant, "printed"))],
    )
    assert (done.status, done.num_nodes) == ("Complete", 2)
    me.delete_job("printed")


def pods(admin: Client, namespace: str, job: str) -> list[Body]:
    return [pod for pod in admin.items("v1", "Pod", namespace) if pod["metadata"]["labels"].get(JOB) == job]


@pytest.mark.slow
@pytest.mark.parametrize("deployed", ["catalogue"], indirect=True)
@pytest.mark.parametrize("name", ["intel-mpi-cpu", "deepspeed-h100", "horovod-tensorflow-cpu"])
def test_the_sdk_trains_with_other_families(
    deployed: Deployed, client: Callable[[str], Any], sdk: Any, admin: Client, name: str
) -> None:
    """The families use Hydra, a separate launcher, and a launcher among the hosts."""
    me, tenant = client("edit"), deployed.platform.tenants[0].name
    job = me.train(runtime=me.get_runtime(name), trainer=sdk.CustomTrainer(func=hello, num_nodes=2))
    done = me.wait_for_job_status(
        job, timeout=90, polling_interval=1, callbacks=[lambda _: runs.finish(admin, pods(admin, tenant, job))]
    )
    assert done.status == "Complete"
    me.delete_job(job)


@ONE
def test_a_user_with_view_access_cannot_train(client: Callable[[str], Any], sdk: Any) -> None:
    me = client("view")
    assert {found.name for found in me.list_runtimes()} >= {"openmpi-cpu", "openmpi-h100"}
    with pytest.raises(RuntimeError, match="Failed to create TrainJob"):
        me.train(runtime="openmpi-h100", trainer=sdk.CustomTrainer(func=hello))


@ONE
def test_a_user_without_access_lists_no_runtimes(client: Callable[[str], Any]) -> None:
    with pytest.raises(RuntimeError, match="Failed to list"):
        client("none").list_runtimes()


def test_the_sdk_writes_an_empty_list_for_a_dataset_without_options(sdk: Any) -> None:
    """With kubeflow 0.5.0 such a TrainJob never starts. If this test fails, remove the note from the check's docs."""
    written = importlib.import_module("kubeflow.trainer.backends.kubernetes.utils")
    dataset = written.get_dataset_initializer(sdk.HuggingFaceDatasetInitializer(storage_uri="hf://a/b")).to_dict()
    model = written.get_model_initializer(sdk.HuggingFaceModelInitializer(storage_uri="hf://a/b")).to_dict()
    job = TrainJob({"spec": {"initializer": {"dataset": dataset, "model": model}}})
    found = [breach.path for breach in empty_value(job)]
    assert found == [("spec", "initializer", "dataset", "env")]
