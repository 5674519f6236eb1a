"""Test the command `mpigen check-job` on a release of an example."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import EXAMPLES, ROOT, Run

RELEASE = ROOT / "output/openshift-h100"
Verdicts = Callable[..., dict[str, Any]]


def train_job(name: str, namespace: str = "team-cv", nodes: int = 2, more: str = "", owner: str = "ada") -> str:
    """Return a TrainJob of `owner` on the runtime of the H100 nodes."""
    return f"""\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: {name}
  namespace: {namespace}
  annotations: {{mpigen.dev/owner: {owner}}}
  labels: {{kueue.x-k8s.io/queue-name: default{more}}}
spec:
  runtimeRef: {{name: openmpi-h100}}
  trainer: {{numNodes: {nodes}, command: [mpirun, python, train.py]}}
"""


@pytest.fixture
def verdicts(tmp_path: Path, mpigen: Run) -> Verdicts:
    """Return a function that checks the TrainJobs of a text, and returns the report."""

    def check(text: str, *options: str) -> dict[str, Any]:
        (tmp_path / "job.yaml").write_text(text)
        ran = mpigen("check-job", "job.yaml", "--release", RELEASE, "--format", "json", *options)
        assert ran.returncode in (0, 1), ran.stderr
        report: dict[str, Any] = json.loads(ran.stdout)
        report["verdicts"] = {job["name"]: job["verdict"] for job in report["summary"]["jobs"]}
        report["checks"] = sorted({finding["check"] for finding in report["findings"]})
        return report

    return check


def test_a_sound_job_is_admitted(verdicts: Verdicts) -> None:
    report = verdicts(train_job("fine"))
    assert (report["verdicts"], report["checks"]) == ({"fine": "admitted"}, [])
    (job,) = report["summary"]["jobs"]
    assert (job["clusterQueue"], job["history"]) == ("team-cv", ["admitted"])
    assert job["flavors"]["node"]["nvidia.com/gpu"] == "h100"


def test_the_table_names_queue_verdict_and_flavor(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "job.yaml").write_text(train_job("fine"))
    ran = mpigen("check-job", "job.yaml", "--release", RELEASE)
    assert ran.returncode == 0
    assert [line.split() for line in ran.stdout.splitlines()] == [
        ["JOB", "QUEUE", "VERDICT", "DETAILS"],
        ["team-cv/fine", "team-cv", "admitted", "flavor", "h100,", "SCC", "restricted-v2"],
    ]


def test_a_job_waits_for_the_jobs_before_it(verdicts: Verdicts) -> None:
    jobs = [train_job("first", nodes=10), train_job("second", nodes=5), train_job("third", nodes=4)]
    report = verdicts("---\n".join(jobs))
    assert report["verdicts"] == {"first": "admitted", "second": "waits", "third": "admitted"}


def test_a_policy_of_the_release_rejects_a_job_of_another_owner(verdicts: Verdicts) -> None:
    report = verdicts(train_job("stolen", owner="eve"), "--as", "user:ada", "--group", "cv")
    assert report["verdicts"] == {"stolen": "rejected"}
    assert "trainjob/denied" in report["checks"]


@pytest.mark.parametrize(("group", "checks"), [("cv", []), ("ml-all", ["trainjob/forbidden"])])
def test_rbac_decides_by_the_groups_of_the_user(group: str, checks: list[str], verdicts: Verdicts) -> None:
    report = verdicts(train_job("fine"), "--as", "user:ada", "--group", group)
    assert report["checks"] == checks


def test_rbac_comes_before_the_owner_of_a_job(verdicts: Verdicts) -> None:
    """The annotation of the owner cannot help a user whom RBAC lets create no TrainJob."""
    assert verdicts(train_job("far", owner="eve"), "--as", "user:ada", "--group", "ml-all")["checks"] == [
        "trainjob/forbidden"
    ]


def test_a_job_that_is_too_large_never_starts(verdicts: Verdicts) -> None:
    report = verdicts(train_job("huge", nodes=200))
    assert (report["verdicts"], report["checks"]) == ({"huge": "never"}, ["quota/never-admitted"])


def test_a_size_that_no_cluster_has_is_answered_at_once(verdicts: Verdicts) -> None:
    report = verdicts(train_job("largest", nodes=10_000))
    assert (report["verdicts"], report["checks"]) == ({"largest": "never"}, ["quota/never-admitted"])
    assert verdicts(train_job("largest", nodes=2**31 - 1))["verdicts"] == {"largest": "rejected"}


def test_an_unknown_field_or_runtime_rejects_a_job(verdicts: Verdicts) -> None:
    misspelt = train_job("misspelt").replace("numNodes", "numnodes")
    absent = train_job("absent").replace("openmpi-h100", "openmpi-h200")
    report = verdicts(f"{misspelt}---\n{absent}")
    assert report["verdicts"] == {"misspelt": "rejected", "absent": "rejected"}
    assert {"schema/unknown-field", "trainjob/denied"} <= set(report["checks"])


def test_a_generated_name_and_a_namespace_are_completed(verdicts: Verdicts) -> None:
    text = train_job("x").replace("name: x\n  namespace: team-cv", "generateName: fine-")
    report = verdicts(f"{text}---\n{text}", "-n", "team-cv")
    assert report["verdicts"] == {"fine-00000": "admitted", "fine-00001": "admitted"}


def test_one_finding_reports_a_name_that_is_too_long(verdicts: Verdicts) -> None:
    name = "n" * 52
    report = verdicts(train_job(name))
    assert (report["verdicts"], report["checks"]) == ({name: "rejected"}, ["trainjob/name"])


def test_a_new_job_of_the_platform_is_admitted(mpigen: Run) -> None:
    platform = EXAMPLES["openshift-h100"]
    made = mpigen("job", "new", "--release", platform, "--runtime", "openmpi-h100", "--tenant", "team-cv")
    ran = mpigen("check-job", "-", "--release", platform, stdin=made.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "the policy `openshift-h100-own-jobs` accepts the TrainJob, because the policy reads the user" in ran.stdout
    assert ran.stdout.splitlines()[-1].split()[:3] == ["team-cv/openmpi-h100", "team-cv", "admitted"]


def test_two_jobs_of_one_name_are_refused(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "job.yaml").write_text(f"{train_job('same')}---\n{train_job('same')}")
    ran = mpigen("check-job", "job.yaml", "--release", RELEASE)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "there are two TrainJobs `team-cv/same`; rename one of them" in ran.stderr


def test_the_output_of_job_new_with_code_is_checked(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "train.py").write_text("print()\n")
    words = ["--release", RELEASE, "--runtime", "openmpi-h100", "--tenant", "team-cv", "--owner", "ada"]
    written = mpigen("job", "new", *words, "--code", "train.py", "--", "mpirun", "python3", "/code/train.py")
    assert written.returncode == 0, written.stderr
    (tmp_path / "job.yaml").write_text(written.stdout)
    (tmp_path / "code.yaml").write_text(written.stdout.split("---\n")[1])
    ran = mpigen("check-job", "job.yaml", "--release", RELEASE)
    assert ran.stdout.splitlines()[-1].split()[:3] == ["team-cv/openmpi-h100", "team-cv", "admitted"]
    alone = mpigen("check-job", "code.yaml", "--release", RELEASE)
    assert "code.yaml: the file has no TrainJob" in alone.stderr


def test_only_train_jobs_are_accepted(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "job.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n")
    ran = mpigen("check-job", "job.yaml", "--release", RELEASE)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "Pod web is not a TrainJob; name files with TrainJobs only" in ran.stderr


def test_the_check_of_a_job_on_a_release_does_not_import_the_model_of_platform_files(tmp_path: Path) -> None:
    """The import of pydantic would double the time."""
    (tmp_path / "job.yaml").write_text(train_job("train"))
    program = "import sys; from generator.cli.main import run; run(sys.argv[1:]); print('pydantic' in sys.modules)"
    command = [sys.executable, "-c", program, "check-job", "job.yaml", "--release", str(RELEASE)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "False"
