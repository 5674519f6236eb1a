"""Test that a schedule creates a TrainJob: by the real CronJob controller, and by kubectl with the token of the pod."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import yaml

from generator import App, Platform
from generator.facts.names import TRAIN_JOB
from generator.pipeline import render
from tests.cluster import trees
from tests.cluster.client import Body, Client, RefusedError, wait_for, wait_until
from tests.cluster.control_plane import FINISH, Cluster
from tests.cluster.controllers import kubeconfig
from tests.cluster.runs import finish
from tests.cluster.training import JOB, conditions
from tests.cluster.trees import Deployed, as_argocd_applies

pytestmark = pytest.mark.cluster
TEAM, HOME = "team-night", "team-night-schedules"
ACCOUNT = f"system:serviceaccount:{HOME}:schedules"
PLATFORM = """
platform: scheduled
release: 1.0.0
pools: [{name: cpu, nodes: 3, allocatable: {cpu: 16, memory: 64Gi}}]
runtimes: [{name: openmpi, use: openmpi, pool: cpu}]
tenants:
- name: team-night
  quota: {cpu: 3}
  limits: {timePerJob: 4h, storage: 1Ti}
  labels: {example.com/project: night}
  access: {view: [user:viewer], submit: [user:submitter], edit: [user:editor], admin: [user:team-admin]}
  volumes: [{name: datasets, size: 1Ti}]
  schedules:
  - name: nightly
    schedule: "* * * * *"
    timeZone: Europe/Berlin
    job:
      runtime: openmpi
      nodes: 3
      command: [mpirun, ./train]
      env: {SEED: "7"}
      priority: research
      timeout: 2h
      volumes: [{claim: datasets, mountPath: /data, readOnly: true}]
  - {name: paused, schedule: "* * * * *", suspend: true, job: {runtime: openmpi, smoke: true, timeout: 10m}}
policies:
  labels: [example.com/project]
  schedules: {image: "registry.k8s.io/kubectl:v1.34.2", apiServer: {networks: [10.0.0.8/32]}}
gitops: {repository: "https://git.example.com/platform.git"}
"""


@pytest.fixture(scope="module")
def scheduled(admin: Client, on_the_cluster: list[Deployed]) -> Deployed:
    """Deploy a platform with a schedule of each minute, as the account of Argo CD."""
    platform = Platform.model_validate(yaml.safe_load(PLATFORM))
    trees.remove_all(admin, on_the_cluster)
    deployed = trees.deploy(admin, platform, as_argocd_applies(render(platform, App(platform))))
    on_the_cluster.append(deployed)
    return deployed


@pytest.fixture(scope="module")
def pod(admin: Client, scheduled: Deployed) -> Body:
    """Return the pod that the CronJob controller and the Job controller create within a minute, when it runs."""
    assert not [outcome for outcome in scheduled.outcomes if outcome.refusal or outcome.warnings]

    def first() -> Body | None:
        pods = admin.items("v1", "Pod", HOME)
        return next((found for found in pods if found["status"]["phase"] == "Running"), None)

    return wait_for("a pod of the schedule runs", first, 150)


def test_kueue_does_not_queue_the_jobs_of_the_schedule(admin: Client, pod: Body) -> None:
    (reference,) = pod["metadata"]["ownerReferences"]
    (job,) = (found for found in admin.items("batch/v1", "Job", HOME) if found["metadata"]["name"] == reference["name"])
    assert job["spec"]["suspend"] is False
    assert not [key for key in job["metadata"].get("labels", {}) if "kueue" in key]
    assert admin.items("kueue.x-k8s.io/v1beta2", "Workload", HOME) == []
    assert {owner["name"] for owner in job["metadata"]["ownerReferences"]} == {"nightly"}  # the other is suspended


def test_the_command_of_the_pod_creates_a_train_job_that_completes(
    admin: Client, cluster: Cluster, pod: Body, tmp_path: Path
) -> None:
    created = run_command(admin, cluster, pod, tmp_path)
    assert created.returncode == 0, created.stderr
    name = created.stdout.removeprefix("trainjob.trainer.kubeflow.org/").removesuffix(" created\n")
    assert name.startswith("nightly-")
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": TEAM},
    }
    stored = admin.read(job)
    assert stored["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "default"
    assert stored["metadata"]["labels"]["app.kubernetes.io/name"] == "nightly"
    assert stored["metadata"]["annotations"]["mpigen.dev/owner"] == ACCOUNT
    volume = claimed_volume()
    admin.apply(volume, "tests")
    finish(admin, wait_for("all pods of the TrainJob run", partial(running, admin, job)))
    wait_until("the TrainJob is Complete", partial(is_complete, admin, job))
    admin.delete(volume)
    metadata = {"name": pod["metadata"]["name"], "namespace": HOME, "annotations": {FINISH: "yes"}}
    admin.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}, "tests")
    wait_until("the Job of the schedule is complete", partial(has_completed, admin))


def test_the_command_fails_with_the_message_of_a_policy(
    admin: Client, cluster: Cluster, pod: Body, tmp_path: Path
) -> None:
    body = yaml.safe_load(pod["metadata"]["annotations"][TRAIN_JOB])
    body["spec"]["activeDeadlineSeconds"] = 5 * 3600
    changed = {**pod, "metadata": {**pod["metadata"], "annotations": {TRAIN_JOB: yaml.safe_dump(body)}}}
    created = run_command(admin, cluster, changed, tmp_path)
    assert created.returncode == 1
    assert "scheduled-size" in created.stderr
    assert "14400" in created.stderr


@pytest.mark.parametrize("user", ["viewer", "submitter", "editor", "team-admin"])
def test_members_read_schedules_and_cannot_change_them(admin: Client, scheduled: Deployed, user: str) -> None:
    member = admin.as_user(user)
    assert scheduled.stored
    assert [found["metadata"]["name"] for found in member.items("batch/v1", "CronJob", HOME)] == ["nightly", "paused"]
    path = f"/apis/batch/v1/namespaces/{HOME}/cronjobs/nightly"
    with pytest.raises(RefusedError, match="403"):
        member.request("PATCH", path, {"spec": {"suspend": True}}, "application/merge-patch+json")


def test_the_account_may_only_create_train_jobs_of_its_team(admin: Client, scheduled: Deployed) -> None:
    assert scheduled.stored
    account = admin.as_person(ACCOUNT, ("system:serviceaccounts", f"system:serviceaccounts:{HOME}"))
    for path in (
        f"/apis/trainer.kubeflow.org/v1alpha1/namespaces/{TEAM}/trainjobs",
        f"/api/v1/namespaces/{TEAM}/configmaps",
        f"/api/v1/namespaces/{HOME}/secrets",
        f"/apis/batch/v1/namespaces/{HOME}/cronjobs",
    ):
        with pytest.raises(RefusedError, match="403"):
            account.request("GET", path)


def run_command(admin: Client, cluster: Cluster, pod: Body, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command of a pod with the kubectl of this machine, the file of its volume, and a token of its account.

    The home of the process is a folder that kubectl cannot write, as in the pod.
    """
    (container,) = pod["spec"]["containers"]
    (mount,) = (found for found in container["volumeMounts"] if found["name"] == "job")
    (item,) = next(found for found in pod["spec"]["volumes"] if found["name"] == "job")["downwardAPI"]["items"]
    assert item["fieldRef"]["fieldPath"] == f"metadata.annotations['{TRAIN_JOB}']"
    (folder / item["path"]).write_text(pod["metadata"]["annotations"][TRAIN_JOB])
    path = f"/api/v1/namespaces/{HOME}/serviceaccounts/{pod['spec']['serviceAccountName']}/token"
    bound = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"boundObjectRef": bound},
    }
    bearer = admin.request("POST", path, request).body["status"]["token"]
    (folder / "kubeconfig").write_text(kubeconfig(admin.port, cluster.certificates, bearer))
    program, *arguments = container["command"]
    assert program == "kubectl"
    local = [argument.replace(mount["mountPath"], str(folder)) for argument in arguments]
    return subprocess.run(
        [Path(sys.executable).with_name("kubectl"), *local],
        env={"KUBECONFIG": str(folder / "kubeconfig"), "HOME": "/proc"},
        capture_output=True,
        text=True,
        check=False,
    )


def claimed_volume() -> Body:
    """Return a volume for the claim of the team, because the control plane has no provisioner."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "night-datasets"},
        "spec": {
            "capacity": {"storage": "1Ti"},
            "accessModes": ["ReadWriteMany"],
            "claimRef": {"namespace": TEAM, "name": "datasets"},
            "nfs": {"server": "192.0.2.1", "path": "/"},
        },
    }


def running(admin: Client, job: Body) -> list[Body] | None:
    """Return the three pods of a TrainJob if all run; else None."""
    pods = [
        found
        for found in admin.items("v1", "Pod", TEAM)
        if found["metadata"]["labels"].get(JOB) == job["metadata"]["name"] and found["status"]["phase"] == "Running"
    ]
    return pods if len(pods) == 3 else None


def is_complete(admin: Client, job: Body) -> bool:
    """Return True if a TrainJob is Complete."""
    return any(found["type"] == "Complete" and found["status"] == "True" for found in conditions(admin.read(job)))


def has_completed(admin: Client) -> bool:
    """Return True if a Job of the schedule is complete."""
    return any(found["status"].get("succeeded") == 1 for found in admin.items("batch/v1", "Job", HOME))
