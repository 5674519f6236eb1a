"""Test that the API server, Kueue and Trainer accept exactly the jobs that `mpigen job new` prints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator import Platform
from generator.documents.emit import BriefEmitter
from generator.facts.defects import known
from generator.facts.names import PARAMETER, PART_OF, TENANT_LABEL
from generator.jobs.catalogue import Catalogue
from generator.jobs.job import LONGEST_NAME, new_job
from generator.jobs.reach import JobError
from generator.jobs.request import JobRequest, Mount
from generator.manifests import Manifest
from tests.cluster.client import Body, Client, RefusedError, wait_for, wait_until
from tests.cluster.control_plane import FINISH, Cluster
from tests.cluster.training import ROLE, Training, conditions, trainings
from tests.cluster.trees import Deployed
from tests.conftest import EXAMPLES, Run
from tests.offers import job_of, reach_of

pytestmark = pytest.mark.cluster
LONGEST = "ordered-".ljust(LONGEST_NAME, "x")


@pytest.fixture
def ours(deployed: Deployed, admin: Client) -> Iterator[list[Training]]:
    """Return the first tenant on one runtime of each pool, and delete its jobs afterwards."""
    mine = [one for one in trainings(deployed.platform) if one.tenant == deployed.platform.tenants[0]]
    yield list({one.pool.name: one for one in reversed(mine)}.values())
    for job in admin.items("trainer.kubeflow.org/v1alpha1", "TrainJob", mine[0].tenant.name):
        if job["metadata"]["name"].startswith("ordered-"):
            admin.delete({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", **job})


OPTIONS: dict[str, dict[str, Any]] = {
    "job": {},
    "smoke": {"is_smoke": True},
    "options": {
        "processes": 1,
        "environment": {"MODE": "fast", "EMPTY": ""},
        "mounts": (Mount("configmap", "kube-root-ca.crt", "/mnt/ca"),),
        "seconds": 3600,
    },
    "sweep": {"matrix": {"LR": ("0.1", "0.01"), "DIM": ("64", "128")}, "command": ("mpirun", "./a", "{LR}")},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_every_tenant_can_submit_printed_jobs(deployed: Deployed, admin: Client, options: dict[str, Any]) -> None:
    for training in trainings(deployed.platform):
        wanted = JobRequest(training.runtime.name, training.tenant.name, nodes=2, **options)
        printed = BriefEmitter().emit(job_of(deployed.platform, wanted).bodies)
        for body in yaml.safe_load_all(printed):
            warnings = _people(training, admin).create(body, dry_run=True).warnings
            assert bool(warnings) == training.runtime.deprecated, warnings


READABLE = (
    ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", False),
    ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", True),
    ("kueue.x-k8s.io/v1beta2", "WorkloadPriorityClass", False),
    ("kueue.x-k8s.io/v1beta2", "LocalQueue", True),
    ("v1", "LimitRange", True),
    ("v1", "ResourceQuota", True),
)
"""The kinds that docs/first-job.md reads, each with True if it is namespaced."""


def test_a_member_writes_the_same_job_from_readable_objects(
    deployed: Deployed, admin: Client, ours: list[Training]
) -> None:
    for training in ours:
        member, namespace = _people(training, admin), training.tenant.name
        bodies = [
            {**body, "apiVersion": version, "kind": kind}
            for version, kind, is_namespaced in READABLE
            for body in member.items(version, kind, namespace if is_namespaced else "")
        ]
        bodies.append(member.read({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
        part = Catalogue([Manifest(body, "") for body in bodies], is_complete=False)
        request = JobRequest(training.runtime.name, training.tenant.name, nodes=2, command=("mpirun", "hostname"))
        written = new_job(part, request)
        assert written.bodies == job_of(deployed.platform, request).bodies
        member.create(written.body, dry_run=True)


def test_a_job_from_the_command_line_completes(
    deployed: Deployed, admin: Client, ours: list[Training], mpigen: Run, tmp_path: Path
) -> None:
    training = ours[0]
    (tmp_path / "train.py").write_text("print('hello')\n")
    arguments = ["--runtime", training.runtime.name, "--tenant", training.tenant.name, "--name", LONGEST]
    arguments += ["--env", "MODE=fast", "--env", "EMPTY=", "--volume", "configmap/kube-root-ca.crt:/mnt/ca"]
    arguments += ["--timeout", "2h", "--processes", "1"]
    arguments += ["--code", str(tmp_path), "--owner", _person(training)]
    ran = mpigen(
        "job", "new", "--release", EXAMPLES[deployed.platform.platform], *arguments, "--", "mpirun", "hostname"
    )
    assert ran.returncode == 0, ran.stderr
    code, body = yaml.safe_load_all(ran.stdout)
    _people(training, admin).create(code)
    _people(training, admin).create(body)
    pods = wait_for("all of its pods run", partial(_running, body, training.pod_count, admin))
    (launcher,) = [pod for pod in pods if pod["metadata"]["labels"][ROLE] == "launcher"]
    assert launcher["spec"]["containers"][0]["command"] == ["mpirun", "hostname"]
    variables = {each["name"]: each.get("value", "") for each in launcher["spec"]["containers"][0]["env"]}
    assert (variables["MODE"], variables["EMPTY"]) == ("fast", "")
    for pod in pods:
        assert {"/mnt/ca", "/code"} <= {mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"]}
    metadata = {key: launcher["metadata"][key] for key in ("name", "namespace")}
    admin.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "annotations": {FINISH: "yes"}}}, "tests")
    wait_until("it is Complete", lambda: _has(admin.read(body), "Complete"))
    _people(training, admin).delete(code)


def test_a_job_with_a_rejected_name_gets_an_event_and_no_pods(
    deployed: Deployed, admin: Client, ours: list[Training]
) -> None:
    wanted = JobRequest(ours[0].runtime.name, ours[0].tenant.name, LONGEST)
    body = job_of(deployed.platform, wanted).body
    body["metadata"]["name"] += "x"
    _people(ours[0], admin).create(body)
    said = wait_for("Trainer's complaint", partial(_complaint, body, admin))
    assert "pod names generated for this JobSet will exceed 63 characters" in said


def test_the_largest_allowed_job_runs_and_a_larger_one_never_does(
    deployed: Deployed, cluster: Cluster, ours: list[Training]
) -> None:
    admin, kueue = cluster.admin, cluster.versions["kueue"].version
    is_defective = known("kueue-places-a-launcher-without-room").is_in("kueue", kueue)
    tried = [training for training in ours if not (training.pool.topology and is_defective)]
    if not tried:
        pytest.skip(f"mpigen rejects `topology` of pools for Kueue {kueue}, which places launchers wrongly")
    for training in tried:
        most = reach_of(deployed.platform, training.tenant, training.runtime).idle or 0
        wanted = JobRequest(training.runtime.name, training.tenant.name, f"ordered-{training.pool.name}", most)
        body = job_of(deployed.platform, wanted).body
        _people(training, admin).create(body)
        pod_count = most + training.pod_count - training.nodes
        wait_for(f"{most} hosts of {training.runtime.name} run", partial(_running, body, pod_count, admin), 120)
        admin.delete(body)
        wait_until("its pods are gone", partial(_is_empty, body, admin))
        one_more = _one_more(deployed.platform, wanted, body)
        _people(training, admin).create(one_more)
        wait_for("a verdict for ever", partial(_never, one_more, admin))
        admin.delete(one_more)


def test_the_api_server_rejects_jobs_above_the_host_limit_of_the_team(deployed: Deployed, admin: Client) -> None:
    limited = [each for each in trainings(deployed.platform) if each.tenant.limits.hosts_per_job]
    for training in limited:
        most = training.tenant.limits.hosts_per_job or 0
        _people(training, admin).create(replace(training, nodes=most).body, dry_run=True)
        with pytest.raises(RefusedError, match=f"is {most + 1}, and a job in .* can have at most {most};"):
            _people(training, admin).create(replace(training, nodes=most + 1).body, dry_run=True)
    for training in (each for each in trainings(deployed.platform) if not each.tenant.limits.hosts_per_job):
        _people(training, admin).create(replace(training, nodes=1000).body, dry_run=True)
    assert bool(limited) == (deployed.platform.platform == "university")


def test_the_host_limit_is_read_from_the_current_namespace(deployed: Deployed, admin: Client, namespace: str) -> None:
    if not any(each.tenant.limits.hosts_per_job for each in trainings(deployed.platform)):
        pytest.skip("no tenant of this example has a limit")
    training = next(trainings(deployed.platform))
    job = replace(training, nodes=5).body
    job["metadata"] |= {"namespace": namespace, "labels": {"kueue.x-k8s.io/queue-name": "default"}}
    home = admin.read(_namespace(training.tenant.name))["metadata"]
    labels = {key: home["labels"][key] for key in (TENANT_LABEL, PART_OF)}
    allowed = {key: text for key, text in home["annotations"].items() if key.startswith(PARAMETER)}
    for what, limit, said in (
        ("no more", "4", f"is 5, and a job in {namespace} can have at most 4"),
        ("enough", "5", ""),
        ("no number", "few", "type conversion error"),
        ("nothing", "", ""),
    ):
        annotations = {**allowed, f"{PARAMETER}hosts-per-job": limit}
        admin.apply(_namespace(namespace, labels=labels, annotations=annotations), "tests")
        wait_until(f"the limit is {what}", partial(_is_refused_with, said, job, admin))
    admin.apply(_namespace(namespace, labels=labels, annotations={}), "tests")
    wait_until("nothing is let in", partial(_is_refused_with, "denied request", job, admin))


def _namespace(name: str, **metadata: dict[str, str]) -> Body:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}


def _refusal(job: Body, admin: Client) -> str:
    try:
        admin.create(job, dry_run=True)
    except RefusedError as refused:
        return str(refused)
    return ""


def _is_refused_with(said: str, job: Body, admin: Client) -> bool:
    found = _refusal(job, admin)
    return said in found and bool(said) == bool(found)


def _one_more(platform: Platform, wanted: JobRequest, body: Body) -> Body:
    """Return the job with one more host, which `job new` would not print."""
    more = wanted.nodes + 1
    with pytest.raises(JobError, match="Kueue never admits"):
        job_of(platform, JobRequest(wanted.runtime, wanted.tenant, wanted.name, more))
    trainer = {**body["spec"]["trainer"], "numNodes": more}
    name = f"{body['metadata']['name']}-more"
    return {**body, "metadata": {**body["metadata"], "name": name}, "spec": {**body["spec"], "trainer": trainer}}


def _people(training: Training, admin: Client) -> Client:
    return admin.as_group(_group(training))


def _person(training: Training) -> str:
    """Return the user of `_people`."""
    return f"someone-in-{_group(training)}"


def _group(training: Training) -> str:
    group = next(subject for subject in training.tenant.access.edit if subject.startswith("group:"))
    return group.removeprefix("group:")


def _pods(job: Body, admin: Client) -> list[Body]:
    pods = admin.items("v1", "Pod", job["metadata"]["namespace"])
    label = "jobset.sigs.k8s.io/jobset-name"
    return [pod for pod in pods if pod["metadata"]["labels"].get(label) == job["metadata"]["name"]]


def _complaint(job: Body, admin: Client) -> str | None:
    events = admin.items("v1", "Event", job["metadata"]["namespace"])
    told = [one["message"] for one in events if one["involvedObject"]["name"] == job["metadata"]["name"]]
    return next((message for message in told if "63 characters" in message), None)


def _is_empty(job: Body, admin: Client) -> bool:
    return not _pods(job, admin)


def _running(job: Body, number: int, admin: Client) -> list[Body] | None:
    """Return all pods of a job as soon as so many of them run."""
    running = [pod for pod in _pods(job, admin) if pod["status"]["phase"] == "Running"]
    return running if len(running) == number else None


def _never(job: Body, admin: Client) -> str | None:
    """Return the event that Kueue can never admit the job, or that the scheduler has no node for a pod.

    The event is read, because the Workload's condition may already be from a later attempt, which starts at the flavor
    after the last tried one (kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go, LastTriedFlavorIdx).
    """
    for event in admin.items("v1", "Event", job["metadata"]["namespace"]):
        is_mine = event["involvedObject"]["name"].startswith(f"trainjob-{job['metadata']['name']}-")
        if is_mine and "> maximum capacity" in event["message"]:
            return str(event["message"])
    said = [found for pod in _pods(job, admin) for found in conditions(pod) if found.get("reason") == "Unschedulable"]
    return str(said[0]["message"]) if said else None


def _has(job: Body, wanted: str) -> bool:
    return any(found["type"] == wanted and found["status"] == "True" for found in conditions(job))
