"""Test that real Kueue loads the configuration that mpigen renders, and applies its settings."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator.config.model.cluster import Cluster as Distribution
from generator.config.model.fabrics import Fabric
from generator.config.model.fields import canonical_duration
from generator.config.model.queues import Queues
from generator.kueue.configuration import KEY, kueue_object
from tests.cluster.build import build
from tests.cluster.client import Body, Client, RefusedError, wait_for, wait_until
from tests.cluster.control_plane import FINISH, Cluster
from tests.cluster.controllers import told
from tests.cluster.install import render
from tests.cluster.modules import module_folder
from tests.cluster.training import conditions
from tests.cluster.versions import Program, Versions
from tests.conftest import ROOT

pytestmark = pytest.mark.cluster
WISHES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "fair sharing": {"fairSharing": True},
    "everything": {
        "fairSharing": True,
        "waitForPodsReady": {"timeout": "90m", "recoveryTimeout": "0s", "backoffLimit": 200},
        "manageJobsWithoutQueueName": True,
        "retainFinished": "36h",
        "excludeResourcePrefixes": ["rdma/", "ephemeral-storage"],
        "transformations": [
            {"input": "nvidia.com/mig-1g.10gb", "strategy": "replace", "outputs": {"example.com/gpu-memory": 10}},
            {"input": "cpu", "outputs": {"example.com/credits": 0.5}},
            {"input": "memory", "strategy": "replace"},
        ],
    },
}
_KUEUE = "kueue.x-k8s.io/v1beta2"


@pytest.fixture
def kueue(control_plane_versions: Versions) -> Program:
    return control_plane_versions["kueue"]


def said(program: Program, settings: str, folder: Path) -> list[Body]:
    """Return the log lines of Kueue's settings, up to its next step or its exit."""
    (folder / "kueue.yaml").write_text(settings)
    server = {"name": "here", "cluster": {"server": "http://127.0.0.1:1"}}
    account = {"clusters": [server], "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}]}
    (folder / "kubeconfig").write_text(json.dumps({"kind": "Config", "current-context": "here", **account}))
    command = [str(build(program)), f"--config={folder / 'kueue.yaml'}", *program.options]
    environment = {"KUBECONFIG": str(folder / "kubeconfig")}
    heard: list[Body] = []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
        assert running.stdout
        for line in running.stdout:
            heard += [json.loads(line)] if line.startswith(b"{") else []
            if heard and heard[-1]["msg"] == "Initializing":
                running.kill()
                break
    return heard


@pytest.mark.parametrize("wishes", WISHES.values(), ids=WISHES)
def test_kueue_loads_every_rendered_setting(wishes: Body, kueue: Program, tmp_path: Path) -> None:
    settings = told(Queues.model_validate(wishes), kueue)
    loaded, last = said(kueue, settings, tmp_path)
    assert (loaded["msg"], last["msg"]) == ("Configuration loaded", "Initializing")
    meant = yaml.safe_load(loaded["config"])
    assert dict(kept(yaml.safe_load(settings), meant)) == {}


def test_kueue_loads_the_device_class_mappings_of_fabrics(kueue: Program, tmp_path: Path) -> None:
    fabrics = [
        Fabric.model_validate({"name": "ib", "type": "infiniband", "attach": "dra"}),
        Fabric.model_validate({"name": "e-fa", "type": "efa", "attach": "dra", "deviceClass": "efa.example.com"}),
    ]
    settings = told(Queues.model_validate(WISHES["everything"]), kueue, fabrics)
    loaded, last = said(kueue, settings, tmp_path)
    assert last["msg"] == "Initializing"
    assert yaml.safe_load(loaded["config"])["resources"]["deviceClassMappings"] == [
        {"name": "dra.net/ib", "deviceClassNames": ["ib"]},
        {"name": "dra.net/e_fa", "deviceClassNames": ["efa.example.com"]},
    ]


def kept(wanted: Any, meant: Any, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield the settings that Kueue loaded differently; additional settings are its defaults."""
    if isinstance(wanted, dict) and isinstance(meant, dict):
        for key, value in wanted.items():
            yield from kept(value, meant.get(key), f"{path}.{key}")
    elif wanted != meant and not (is_duration(path) and wanted == canonical_duration(meant)):
        yield path, meant


def is_duration(path: str) -> bool:
    return path.endswith(("timeout", "Timeout", "afterFinished"))


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"fairSharing": {"preemptionStrategies": ["LessThanInitialShare"], "enable": True}}, "unknown field"),
        ({"waitForPodsReady": {"timeout": "-1m"}}, "must be greater than or equal to 0"),
        ({"integrations": {"frameworks": [""]}}, "Unsupported value"),
    ],
)
def test_kueue_rejects_unknown_and_invalid_settings(
    wrong: Body, complaint: str, kueue: Program, tmp_path: Path
) -> None:
    settings = yaml.safe_load(told(Queues(), kueue)) | wrong
    last = said(kueue, yaml.safe_dump(settings), tmp_path)[-1]
    assert complaint in last["error"]


def test_the_rendered_configuration_equals_the_upstream_one_plus_two_settings(kueue: Program) -> None:
    installed = yaml.safe_load((module_folder(kueue) / kueue.configuration).read_text())
    ours = yaml.safe_load(told(Queues(), kueue))
    more = {"manageJobsWithoutQueueName": False, "waitForPodsReady": {"timeout": "30m", "blockAdmission": False}}
    assert ours == installed | more


def test_the_configmap_has_the_name_of_an_upstream_install(kueue: Program) -> None:
    wanted = emitted("kubernetes", {}, kueue)["metadata"]
    (found,) = [body for body in render(kueue) if body["kind"] == "ConfigMap" and KEY in body["data"]]
    assert (found["metadata"]["name"], found["metadata"]["namespace"]) == (wanted["name"], wanted["namespace"])


def emitted(distribution: str, wishes: Body, kueue: Program) -> Body:
    """Return the rendered configuration object for the running Kueue."""
    chosen = Distribution.model_validate({"distribution": distribution, "versions": {"kueue": kueue.minor}})
    return kueue_object(Queues.model_validate(wishes), chosen)


@pytest.mark.parametrize("distribution", ["kubernetes", "openshift"])
@pytest.mark.parametrize("wishes", [WISHES["nothing"], WISHES["everything"]], ids=["nothing", "everything"])
def test_the_api_server_accepts_the_configuration_object(distribution: str, wishes: Body, cluster: Cluster) -> None:
    body = emitted(distribution, wishes, cluster.kueue.program)
    assert cluster.admin.apply(body, dry_run=True).warnings == ()


def test_the_operator_accepts_only_the_resource_named_cluster(cluster: Cluster) -> None:
    body = emitted("openshift", {}, cluster.kueue.program)
    with pytest.raises(RefusedError, match=r"self\.metadata\.name == 'cluster'"):
        cluster.admin.apply(body | {"metadata": {"name": "another"}}, dry_run=True)


def job(namespace: str, name: str, **pod: object) -> Body:
    """Return a Job with one pod and without a queue."""
    needs = {"requests": {"cpu": "1", "memory": "1Gi"}}
    containers = [{"name": "main", "image": "x", "resources": needs}]
    template = {"spec": {"restartPolicy": "Never", "containers": containers, **pod}}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


def made_of(admin: Client, body: Body) -> Body | None:
    """Return the object after Kueue's webhook in a dry run, or None before Kueue has observed the namespace."""
    try:
        return admin.create(body, dry_run=True).body
    except RefusedError as refused:
        if refused.status == http.client.NOT_FOUND:
            return None
        raise


def workloads(admin: Client, namespace: str) -> list[Body]:
    return admin.items(_KUEUE, "Workload", namespace)


def true(body: Body) -> dict[str, str]:
    """Return condition → reason for each condition that is True."""
    return {found["type"]: found["reason"] for found in conditions(body) if found["status"] == "True"}


@pytest.fixture(scope="module")
def obedient(cluster: Cluster) -> Iterator[Client]:
    """Run Kueue with short timeouts and `manageJobsWithoutQueueName`, with one node and a queue."""
    wishes = {
        "waitForPodsReady": {"timeout": "30s"},
        "manageJobsWithoutQueueName": True,
        "retainFinished": "1s",
    }
    size = {"cpu": "8", "memory": "32Gi", "pods": "99"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "told", "labels": {"pool": "told"}}}
    amounts = [{"name": name, "nominalQuota": size[name]} for name in ("cpu", "memory")]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "told", "resources": amounts}]}
    queue = {"namespaceSelector": {}, "resourceGroups": [group]}
    bodies: list[Body] = [
        node | {"status": {"allocatable": size, "capacity": size}},
        {"apiVersion": _KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "told"}, "spec": {}},
        {"apiVersion": _KUEUE, "kind": "ClusterQueue", "metadata": {"name": "told"}, "spec": queue},
    ]
    with cluster.told(Queues.model_validate(wishes)):
        for body in bodies:
            cluster.admin.create(body)
        yield cluster.admin
        for body in reversed(bodies):
            cluster.admin.delete(body)


def make_tenant(admin: Client, namespace: str) -> None:
    """Label a namespace as a tenant's."""
    labels = {"mpigen.dev/tenant": namespace}
    admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}})


def add_queue(admin: Client, namespace: str) -> None:
    """Create the queue `default` in a namespace, and wait until Kueue uses it."""
    metadata = {"name": "default", "namespace": namespace}
    admin.create({"apiVersion": _KUEUE, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": "told"}})
    label = "kueue.x-k8s.io/queue-name"

    def is_used() -> bool:
        made = made_of(admin, job(namespace, "any"))
        return made is not None and label in made["metadata"].get("labels", {})

    wait_until("jobs are queued there", is_used)


@pytest.mark.slow
def test_a_tenants_job_without_a_queue_is_suspended(obedient: Client, namespace: str) -> None:
    make_tenant(obedient, namespace)

    def is_held() -> bool:
        made = made_of(obedient, job(namespace, "held"))
        return made is not None and bool(made["spec"]["suspend"])

    wait_until("Kueue holds what is in no queue", is_held)


@pytest.mark.slow
def test_jobs_outside_tenant_namespaces_are_not_suspended(obedient: Client, namespace: str) -> None:
    made = wait_for("Kueue knows the namespace", lambda: made_of(obedient, job(namespace, "free")))
    assert not made["spec"]["suspend"]


@pytest.mark.slow
def test_the_workload_of_a_finished_job_is_deleted_and_the_job_is_kept(obedient: Client, namespace: str) -> None:
    make_tenant(obedient, namespace)
    add_queue(obedient, namespace)
    ending = job(namespace, "ending")
    ending["spec"]["template"]["metadata"] = {"annotations": {FINISH: "true"}}
    obedient.create(ending)
    wait_until("the job is complete", lambda: "Complete" in true(obedient.read(ending)))
    wait_until("its Workload is gone", lambda: not workloads(obedient, namespace))
    assert obedient.exists(ending)


@pytest.mark.slow
def test_a_job_without_ready_pods_is_evicted_after_the_timeout(obedient: Client, namespace: str) -> None:
    make_tenant(obedient, namespace)
    add_queue(obedient, namespace)
    obedient.create(job(namespace, "nowhere", nodeSelector={"pool": "nowhere"}))

    def evicted() -> Body | None:
        return next((body for body in workloads(obedient, namespace) if "Evicted" in true(body)), None)

    assert true(wait_for("it is evicted", evicted))["Evicted"] == "PodsReadyTimeout"


def test_the_kustomization_of_the_page_replaces_the_configuration_and_restarts_kueue(
    kueue: Program, tmp_path: Path
) -> None:
    page = (ROOT / "docs/tasks/configure-kueue.md").read_text()
    (written,) = re.findall(r'```yaml title="output/kustomization.yaml"\n(.*?)```', page, re.DOTALL)
    kustomization = yaml.safe_load(written)
    (patch,) = kustomization["patches"]
    (tmp_path / patch["path"]).parent.mkdir(parents=True)
    (tmp_path / patch["path"]).write_text((ROOT / "output" / patch["path"]).read_text())
    (tmp_path / "kueue.yaml").write_text(yaml.safe_dump_all(render(kueue)))
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump({**kustomization, "resources": ["kueue.yaml"]}))
    kubectl = Path(sys.executable).with_name("kubectl")
    built = subprocess.run([kubectl, "kustomize", tmp_path], capture_output=True, text=True, check=True)
    found = {(body["kind"], body["metadata"]["name"]): body for body in yaml.safe_load_all(built.stdout)}
    expected = yaml.safe_load((tmp_path / patch["path"]).read_text())["data"][KEY]
    assert found["ConfigMap", "kueue-manager-config"]["data"] == {KEY: expected}
    pods = found["Deployment", "kueue-controller-manager"]["spec"]["template"]
    assert pods["metadata"]["annotations"]["example.com/configuration"] == expected


def test_the_helm_chart_takes_the_configuration_and_restarts_kueue(kueue: Program) -> None:
    """The chart is a template, so this test compares the words of the page with the words of the chart."""
    page = (ROOT / "docs/tasks/configure-kueue.md").read_text()
    chart = module_folder(kueue) / "charts/kueue"
    (value,) = re.findall(r"--set-file (\S+)=", page)
    assert f".Values.{value} | fromYaml" in (chart / "templates/manager/manager-config.yaml").read_text()
    assert "config-checksum" in (chart / "templates/manager/manager.yaml").read_text()
