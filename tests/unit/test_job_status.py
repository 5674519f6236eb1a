"""Test the state, the reason and the next step that `mpigen job status` reports, and the table of its words."""

from __future__ import annotations

import json
import re
import string
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from generator.cli.main import run
from generator.errors import DocumentError
from generator.facts.phases import Reason, find_reason, missing_objects, reasons, states
from generator.jobs.status.export import read_jobs
from generator.jobs.status.state import JobStatus, describe_job, format_time
from generator.manifests import Body
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from tests.conftest import ROOT, Run

FOLDER = ROOT / "tests/fixtures/job-status"
EXPORTS = sorted(FOLDER.glob("*.yaml"))
EXPECTED: dict[str, str] = yaml.safe_load((FOLDER / "expected" / "reports.yaml").read_text("utf-8"))
NAMES = {"namespace", "job", "workload", "queue", "pod", "container"}
CREATED = "2026-11-28T10:00:00Z"


def describe(*bodies: Body) -> JobStatus:
    """Return the state of the only TrainJob among these objects."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies}).encode()
    (objects,) = read_jobs({"export.json": text})
    return describe_job(objects)


def train_job(*conditions: Body, suspend: bool = False, **status: Any) -> Body:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "train", "namespace": "a", "uid": "1", "creationTimestamp": CREATED},
        "spec": {"suspend": suspend},
        "status": {"conditions": list(conditions), **status},
    }


def workload(*conditions: Body, active: bool = True, **status: Any) -> Body:
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "train", "uid": "1"}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "trainjob-train-1", "namespace": "a", "ownerReferences": [owner]},
        "spec": {"active": active, "queueName": "default"},
        "status": {"conditions": list(conditions), **status},
    }


def job_set(*conditions: Body) -> Body:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "namespace": "a"},
        "status": {"conditions": list(conditions)},
    }


def pod(status: Body) -> Body:
    labels = {"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": "launcher"}
    metadata = {"name": "train-launcher-0-0-x", "namespace": "a", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status}


def event(reason: str, message: str, kind: str = "TrainJob") -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "a", "creationTimestamp": CREATED},
        "involvedObject": {"kind": kind, "name": "train"},
        "type": "Warning",
        "reason": reason,
        "message": message,
    }


def condition(kind: str, status: str, reason: str, message: str = "") -> Body:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": CREATED}


RESERVED, ADMITTED = condition("QuotaReserved", "True", "QuotaReserved"), condition("Admitted", "True", "Admitted")
PENDING = condition("QuotaReserved", "False", "Pending")
EVICTED = condition("Evicted", "True", "Preempted")
ACTIVE = [{"name": "launcher", "active": 1}]


# Reports


@pytest.mark.parametrize("file", EXPORTS, ids=lambda file: file.stem)
def test_a_report_has_the_state_the_reason_and_the_next_step(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """tests/fixtures/job-status/expected/reports.yaml has the reviewed reports."""
    code = run(["job", "status", str(file)])
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == (EXPECTED[file.stem], "")
    assert len(printed.out.splitlines()) == 3
    assert code == states()[printed.out.split()[1]].failed


def test_every_state_has_an_export() -> None:
    assert {text.split()[1] for text in EXPECTED.values()} == {*states()}
    assert {*EXPECTED} == {file.stem for file in EXPORTS}


@pytest.mark.parametrize("file", EXPORTS, ids=lambda file: file.stem)
def test_the_exports_have_the_form_of_real_objects(file: Path) -> None:
    """The schemas of Kubernetes, Trainer, JobSet and Kueue accept the objects."""
    engine = Engine(Catalog.bundled())
    for document in yaml.safe_load_all(file.read_text("utf-8")):
        for body in document["items"] if document["kind"] == "List" else [document]:
            if body["kind"] not in ("PendingWorkloadsSummary", "Event"):
                assert engine.violations(body) == [], body["kind"]


def test_the_last_objects_of_an_export_count(mpigen: Run) -> None:
    texts = [(FOLDER / f"{name}.yaml").read_text("utf-8") for name in ("pending-for-quota", "running")]
    ran = mpigen("job", "status", stdin="---\n".join(texts))
    assert ran.stdout.startswith("team-nlp/train: running since 2026-11-28 10:13:05 UTC\n")


def test_json_has_all_answers(mpigen: Run) -> None:
    ran = mpigen("job", "status", FOLDER / "pending-for-quota.yaml", "--format", "json")
    (job,) = json.loads(ran.stdout)["summary"]["jobs"]
    assert (job["state"], job["failed"], job["since"]) == ("pending", False, "2026-11-28T10:00:04Z")
    assert (job["queue"], job["position"]) == ("default", {"local": 1, "cluster": 3})
    assert job["reasons"] == ["Workload QuotaReserved=False Pending"]
    ran = mpigen("job", "status", FOLDER / "image-pull-error.yaml", "--format", "json")
    assert json.loads(ran.stdout)["summary"]["jobs"][0]["pods"] == {"ready": 0, "expected": 3}


def many_jobs(number: int) -> str:
    jobs = [train_job() for _ in range(number)]
    for index, body in enumerate(jobs):
        body["metadata"] = {**body["metadata"], "name": f"train-{index:02}"}
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": jobs})


def test_many_jobs_are_a_table(mpigen: Run) -> None:
    ran = mpigen("job", "status", "-", stdin=many_jobs(10))
    assert len(ran.stdout.splitlines()) == 30
    ran = mpigen("job", "status", "-", stdin=many_jobs(11))
    header, first, *others = ran.stdout.splitlines()
    assert header.split() == ["JOB", "STATE", "SINCE", "WHY"]
    assert first.split()[:5] == ["a/train-00", "new", "2026-11-28", "10:00:00", "UTC"]
    assert len(others) == 10


def test_jobs_can_be_selected(mpigen: Run) -> None:
    ran = mpigen("job", "status", "-", "--job", "train-03", "--job", "a/train-05", stdin=many_jobs(12))
    assert re.findall(r"^a/(\S+):", ran.stdout, re.MULTILINE) == ["train-03", "train-05"]
    ran = mpigen("job", "status", "-", "--job", "train-3", stdin=many_jobs(5))
    assert ran.returncode == 2
    assert "the export has no TrainJob `train-3`; did you mean `train-03`?" in ran.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the export has no TrainJob"),
        ("- a\n", "the export has a list, which is not an object"),
        ("{", "error: stdin:"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "the export has no TrainJob"),
        ("kind: TrainJob\n---\n3\n", "TrainJob has no apiVersion and no metadata.name"),
        ("kind: TrainJob\n---\n3\n", "the export has `3`, which is not an object"),
    ],
)
def test_all_faults_of_an_export_are_reported(text: str, message: str, mpigen: Run) -> None:
    ran = mpigen("job", "status", "-", stdin=text)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert message in ran.stderr


def test_names_in_commands_are_quoted_for_a_shell() -> None:
    body = train_job()
    body["metadata"]["name"] = "a; rm -rf ~\x1b"
    done = describe(body)
    assert done.command == "kubectl get events -n a -o yaml"
    body["status"] = {"jobsStatus": [{"name": "launcher", "ready": 1}]}
    assert "jobset-name='a; rm -rf ~\\x1b'" in describe(body).command
    assert "\x1b" not in describe(body).command


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["conditions", "type", "status", "reason", "message", "name", "state", "items", "labels"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_any_values_have_a_report_or_an_error(value: Any) -> None:
    bodies = [train_job(), workload(RESERVED, ADMITTED), job_set(), pod({}), event("FailedMount", "x")]
    exports = [[value], [train_job(), value]]
    for body in bodies:
        for key in ("spec", "status", "metadata", "involvedObject"):
            exports.append([train_job(), {**body, key: value}])
            exports.append([train_job(), {**body, key: {**body.get(key, {}), "conditions": value}}])
    for export in exports:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": export}).encode()
        with suppress(DocumentError):
            assert all(describe_job(objects).state in states() for objects in read_jobs({"export.json": text}))


# Rules


def test_an_earlier_job_of_the_same_name_does_not_count() -> None:
    other = workload(condition("QuotaReserved", "False", "Pending"))
    other["metadata"]["ownerReferences"][0]["uid"] = "2"
    assert describe(train_job(), other).state == "new"
    old = event("TrainJobResourcesCreationFailed", "not found")
    old["metadata"]["creationTimestamp"] = "2026-11-27T10:00:00Z"
    assert describe(train_job(), old).state == "new"
    old["series"] = {"lastObservedTime": "2026-11-28T10:00:00.000001Z"}
    assert describe(train_job(), old).state == "blocked"


def test_the_unfinished_workload_of_a_job_counts() -> None:
    finished = workload(condition("Finished", "True", "OutOfSync"))
    finished["metadata"]["name"] = "trainjob-train-9"
    assert describe(train_job(suspend=True), finished, workload(PENDING)).state == "pending"


def test_an_event_does_not_block_a_job_with_a_job_set() -> None:
    failed = event("TrainJobResourcesCreationFailed", "the API server is busy")
    assert describe(train_job(), failed).state == "blocked"
    assert describe(train_job(), job_set(), failed).state == "starting"
    assert describe(train_job(suspend=True), workload(PENDING), failed).state == "blocked"
    assert describe(train_job(suspend=True, jobsStatus=ACTIVE), workload(PENDING), failed).state == "pending"


def test_pods_before_the_last_restart_do_not_count() -> None:
    ready = {"conditions": [condition("Ready", "True", "")]}
    pods = [pod(ready), pod({"phase": "Pending"})]
    for number, body in enumerate(pods):
        body["metadata"] = {**body["metadata"], "name": f"train-{number}"}
        body["metadata"]["labels"] = {
            **body["metadata"]["labels"],
            "jobset.sigs.k8s.io/restart-attempt": str(9 + number),
        }
    done = describe(train_job(jobsStatus=ACTIVE), *pods)
    assert done.pods is not None
    assert (done.pods.ready, done.state) == (0, "starting")


def test_a_job_with_unknown_reasons_has_their_messages() -> None:
    done = describe(train_job(suspend=True), workload(condition("QuotaReserved", "False", "Novel", "a new reason")))
    assert "`QuotaReserved=False` with the reason `Novel`. Message: a new reason." in done.why
    assert done.state == "pending"


def test_times_of_the_api_server_are_readable() -> None:
    assert format_time("2026-11-28T10:02:11Z") == "2026-11-28 10:02:11 UTC"
    assert format_time("2026-11-28T10:02:11.123456Z") == "2026-11-28 10:02:11 UTC"
    assert format_time("soon\x1b") == "soon\\x1b"


# The table


@pytest.mark.parametrize("row", reasons(), ids=lambda row: f"{row.object}-{row.condition}-{row.status}-{row.reason}")
def test_a_condition_has_its_own_row(row: Reason) -> None:
    """An earlier row never hides a row, and `*` covers any rest."""
    reason = row.reason.replace("*", "Other" if row.reason != "*" else "Novel")
    assert find_reason(row.object, row.condition, row.status, reason, row.message) == row


def test_a_condition_without_a_row_has_none() -> None:
    assert find_reason("Workload", "Novel", "True", "Novel") is None
    assert find_reason("TrainJob", "Failed", "False", "FailedJobs") is None


def _commands() -> list[str]:
    commands = [row.command for row in states().values()]
    commands += [row.command for row in missing_objects().values()]
    return [*commands, *(row.command for row in reasons() if row.command)]


@pytest.mark.parametrize("command", sorted({*_commands()}))
def test_commands_have_only_known_names(command: str) -> None:
    fields = set(re.findall(r"\{([a-z]+)\}", command))
    assert fields <= NAMES


def test_texts_of_the_table_are_sentences() -> None:
    texts = [text for row in states().values() for text in (row.meaning, row.action)]
    texts += [text for row in reasons() for text in (row.meaning, row.action)]
    for text in texts:
        assert text[0] in string.ascii_uppercase + "`", text
        assert text.endswith("."), text


DECIDING = [
    row
    for row in reasons()
    if (row.object, row.condition, row.status)
    not in {  # other rows of the same object decide
        ("JobSet", "Suspended", "False"),
        ("JobSet", "RestartingJobSet", "False"),
        ("JobSet", "StartupPolicyCompleted", "True"),
        ("Workload", "QuotaReserved", "True"),
        ("Workload", "Admitted", "True"),
        ("Workload", "PodsReady", "True"),
        ("Workload", "Requeued", "False"),
        ("AdmissionCheck", "state", "Ready"),
    }
    and row.reason not in ("NoReservation", "NoReservationUnsatisfiedChecks", "WaitForStart", "Completed", "Error")
    and (row.object, row.condition, row.reason)
    not in {("Workload", "Finished", "Succeeded"), ("Workload", "Finished", "Failed")}
]
"""The rows whose meaning a report has. The other rows are for readers of the objects, and for the docs."""


@pytest.mark.parametrize("row", DECIDING, ids=lambda row: f"{row.object}-{row.condition}-{row.status}-{row.reason}")
def test_a_report_has_the_meaning_of_a_condition(row: Reason) -> None:
    message = row.message or "some details"
    done = describe(*_objects_with(row, row.reason.replace("*", "Novel"), message))
    assert row.meaning in done.why
    assert (message in done.why) or not row.quoted
    assert not row.blocks or done.state == "blocked"
    if row.blocks:
        assert done.action == row.action


def _objects_with(row: Reason, reason: str, message: str) -> list[Body]:
    """Return a TrainJob and its objects, one of which has the condition of a row."""
    item = condition(row.condition, row.status, reason, message)
    match row.object:
        case "TrainJob":
            return [train_job(item, suspend=row.reason == "Suspended")]
        case "JobSet":
            return [train_job(jobsStatus=ACTIVE), job_set(item)]
        case "Workload":
            return [train_job(suspend=row.condition != "PodsReady", jobsStatus=ACTIVE), _workload_with(row, item)]
        case "AdmissionCheck":
            check = {"name": "nodes", "state": row.status, "message": message}
            return [train_job(suspend=True), workload(RESERVED, admissionChecks=[check])]
        case "LocalQueue" | "ClusterQueue":
            return [train_job(suspend=True), workload(PENDING), *_queues(row.object, item)]
        case "Job":
            labels = {"jobset.sigs.k8s.io/jobset-name": "train"}
            metadata = {"name": "train-launcher-0", "namespace": "a", "labels": labels}
            job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "status": {"conditions": [item]}}
            return [train_job(condition("Failed", "True", "FailedJobs")), job]
        case "Event":
            return [train_job(), event(reason, message)]
        case _:
            return _pods_with(row, reason, message)


def _workload_with(row: Reason, item: Body) -> Body:
    match row.condition:
        case "QuotaReserved" | "Finished":
            return workload(item)
        case "Admitted":
            return workload(RESERVED, item)
        case "PodsReady":
            return workload(RESERVED, ADMITTED, item)
        case "Evicted":
            return workload(item, active="Deactivated" not in row.reason)
        case "Preempted" | "Requeued":
            return workload(EVICTED, item)
        case _:
            return workload(PENDING, item)


def _queues(kind: str, item: Body) -> list[Body]:
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "default", "namespace": "a"},
        "spec": {"clusterQueue": "team"},
    }
    if kind == "LocalQueue":
        return [{**queue, "status": {"conditions": [item]}}]
    metadata = {"name": "team"}
    return [queue, {**queue, "kind": kind, "metadata": metadata, "status": {"conditions": [item]}}]


def _pods_with(row: Reason, reason: str, message: str) -> list[Body]:
    item = condition(row.condition, row.status, reason, message)
    waits = train_job(jobsStatus=ACTIVE)
    failed = train_job(condition("Failed", "True", "FailedJobs"))
    match row.condition:
        case "waiting":
            state = {"name": "node", "state": {"waiting": {"reason": reason, "message": message}}}
            return [waits, pod({"containerStatuses": [state]})]
        case "terminated":
            ended = {"reason": reason, "message": message, "exitCode": 1}
            return [failed, pod({"containerStatuses": [{"name": "node", "state": {"terminated": ended}}]})]
        case "phase":
            return [failed, pod({"phase": row.status, "reason": reason, "message": message})]
        case "PodScheduled":
            return [waits, pod({"conditions": [item]})]
        case _:
            return [failed, pod({"conditions": [item]})]
