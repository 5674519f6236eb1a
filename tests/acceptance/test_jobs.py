"""Test `mpigen job new`: it prints a TrainJob that runs, or the reason why the job cannot run."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml

from tests.conftest import EXAMPLES, Run

CPU = EXAMPLES["cpu-kubernetes"]
H100 = EXAMPLES["openshift-h100"]


@pytest.mark.parametrize("command", [["job"], ["job", "new"]], ids=" ".join)
def test_job_help_has_an_example(command: list[str], mpigen: Run) -> None:
    ran = mpigen(*command, "--help")
    assert (ran.returncode, "Example" in ran.stdout) == (0, True)


def test_job_new_prints_a_short_manifest(mpigen: Run) -> None:
    ran = mpigen(
        "job",
        "new",
        "--release",
        CPU,
        "--runtime",
        "openmpi",
        "--nodes",
        "3",
        "--",
        "mpirun",
        "./a.out",
        "--format",
        "json",
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == (
        "---\n"
        "apiVersion: trainer.kubeflow.org/v1alpha1\n"
        "kind: TrainJob\n"
        "metadata: {name: openmpi, namespace: team-sim}\n"
        "spec:\n"
        "  runtimeRef: {name: openmpi}\n"
        "  trainer:\n"
        "    numNodes: 3\n"
        '    command: [mpirun, "./a.out", "--format", json]\n'
    )


def test_job_new_options_appear_in_the_manifest(mpigen: Run) -> None:
    line = "--runtime openmpi-h100 --tenant team-cv --name run-7 --nodes 4 --queue default -- mpirun python train.py"
    ran = mpigen("job", "new", "--release", H100, *shlex.split(line))
    assert yaml.safe_load(ran.stdout) == {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "run-7", "namespace": "team-cv", "labels": {"kueue.x-k8s.io/queue-name": "default"}},
        "spec": {
            "runtimeRef": {"name": "openmpi-h100"},
            "trainer": {"numNodes": 4, "command": ["mpirun", "python", "train.py"]},
        },
    }


def test_options_of_the_program_appear_in_the_manifest(mpigen: Run) -> None:
    line = (
        "--runtime openmpi-h100 --tenant team-cv --nodes 2 --processes 4 --timeout 1h30m --env MODE=fast "
        "--secret-env KEY=training-data:AWS_ACCESS_KEY_ID --volume datasets:/data:ro -- mpirun python train.py"
    )
    ran = mpigen("job", "new", "--release", H100, *shlex.split(line))
    assert (ran.returncode, "error" in ran.stderr) == (0, False), ran.stderr
    spec = yaml.safe_load(ran.stdout)["spec"]
    assert spec["activeDeadlineSeconds"] == 5400
    assert spec["trainer"]["numProcPerNode"] == 4
    assert spec["trainer"]["env"][-2:] == [
        {"name": "MODE", "value": "fast"},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "training-data", "key": "AWS_ACCESS_KEY_ID"}}},
    ]
    (patch,) = spec["runtimePatches"]
    jobs = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    pods = [job["template"]["spec"]["template"]["spec"] for job in jobs]
    volume = {"name": "job-1", "persistentVolumeClaim": {"claimName": "datasets", "readOnly": True}}
    assert [pod["volumes"] for pod in pods] == [[volume], [volume]]


def test_a_sweep_prints_all_its_jobs_and_the_number_that_runs_at_once(mpigen: Run) -> None:
    sweep = ("--name", "sweep", "--matrix", "lr=0.1,0.01", "--matrix", "dim=64,128")
    line = ("job", "new", "--release", CPU, "--runtime", "openmpi", "--nodes", "3", *sweep)
    ran = mpigen(*line, "--", "mpirun", "./train", "--lr", "{lr}")
    jobs = list(yaml.safe_load_all(ran.stdout))
    assert [job["metadata"]["name"] for job in jobs] == ["sweep-1", "sweep-2", "sweep-3", "sweep-4"]
    assert ran.stderr == (
        "note: Kueue admits 1 of these 4 jobs at once while no other job runs, and the others wait for their quota\n"
    )
    as_json = mpigen(*line, "--format", "json", "--", "mpirun", "./train", "--lr", "{lr}")
    assert json.loads(as_json.stdout) == {"apiVersion": "v1", "kind": "List", "items": jobs}


def test_the_program_of_a_job_is_a_config_map_before_it(mpigen: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('hello')\n")
    line = ("job", "new", "--release", CPU, "--runtime", "openmpi", "--code", str(tmp_path), "--matrix", "lr=1,2")
    ran = mpigen(*line, "--owner", "ada", "--", "mpirun", "python3", "/code/train.py")
    assert ran.returncode == 0, ran.stderr
    code, *jobs = yaml.safe_load_all(ran.stdout)
    assert (code["metadata"]["name"], code["data"]) == ("openmpi-code", {"train.py": "print('hello')\n"})
    for job in jobs:
        (patch,) = job["spec"]["runtimePatches"]
        for each in patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]:
            (volume,) = each["template"]["spec"]["template"]["spec"]["volumes"]
            assert volume["configMap"]["name"] == "openmpi-code"
    anonymous = mpigen(*line, "--", "mpirun", "python3", "/code/train.py")
    assert (anonymous.returncode, anonymous.stdout) == (2, "")
    assert "--code: the ConfigMap with the files needs an owner" in anonymous.stderr


def test_a_folder_without_files_or_a_missing_one_is_rejected(mpigen: Run, tmp_path: Path) -> None:
    for path, said in ((tmp_path, "has no file; name a folder with the program"), (tmp_path / "absent", "absent")):
        ran = mpigen("job", "new", "--release", CPU, "--runtime", "openmpi", "--owner", "ada", "--code", str(path))
        assert (ran.returncode, ran.stdout) == (2, "")
        assert said in " ".join(ran.stderr.split())


def test_a_key_of_a_secret_that_no_one_declared_is_refused(mpigen: Run) -> None:
    ran = mpigen(
        "job", "new", "--release", CPU, "--runtime", "openmpi", "--secret-env", "KEY=stolen:key", "--", "mpirun", "./a"
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "TrainJobs in team-sim cannot use the Secret stolen" in ran.stderr


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--env", "LR"), "`LR` is not NAME=VALUE"),
        (("--env", "A=1", "--env", "A=2"), "sets `A` twice; set it once"),
        (("--secret-env", "A=b"), "`A=b` is not NAME=SECRET:KEY"),
        (("--volume", "data"), "`data` is not [SOURCE/]NAME:PATH[:ro]"),
        (("--volume", "disk/data:/data"), "SOURCE is one of claim, configmap, secret"),
        (("--timeout", "soon"), "`soon` is not a time; write one such as 90m or 1h30m"),
        (("--timeout", "0h"), "`0h` is not a time"),
        (("--matrix", "a=1,,2"), "`a=1,,2` has an empty value or a value twice"),
        (("--matrix", "a=1,1"), "`a=1,1` has an empty value or a value twice"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_option_in_a_wrong_form_is_rejected(option: tuple[str, ...], said: str, mpigen: Run) -> None:
    ran = mpigen("job", "new", "--release", CPU, "--runtime", "openmpi", *option)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in " ".join(ran.stderr.split())


def test_notes_go_to_standard_error(mpigen: Run) -> None:
    ran = mpigen("job", "new", "--release", CPU, "--runtime", "openmpi")
    assert (ran.returncode, ran.stderr) == (0, "note: the command is an example: pass your own after `--`\n")
    assert yaml.safe_load(ran.stdout)["spec"]["trainer"]["command"] == ["mpirun", "./my-program"]


@pytest.mark.parametrize("more", [[], ["--smoke"]], ids=["job", "smoke"])
def test_printed_jobs_pass_validation(more: list[str], mpigen: Run) -> None:
    job = mpigen("job", "new", "--release", CPU, "--runtime", "openmpi", *more)
    checked = mpigen("validate", "-", stdin=job.stdout)
    assert checked.stdout == "1 object in 1 file: embedded: 0 findings\n"


def test_a_smoke_test_has_one_launcher_and_two_workers(mpigen: Run) -> None:
    job = yaml.safe_load(
        mpigen("job", "new", "--release", H100, "--runtime=openmpi-h100", "--tenant=team-cv", "--smoke").stdout
    )
    assert job["metadata"]["name"] == "openmpi-h100-smoke"
    assert job["spec"]["trainer"]["numNodes"] == 3
    assert job["spec"]["trainer"]["command"][:3] == ["mpirun", "python3", "-c"]
    assert "allreduce" in job["spec"]["trainer"]["command"][3]


def test_output_writes_a_new_file_and_overwrites_none(tmp_path: Path, mpigen: Run) -> None:
    arguments = ["job", "new", "--release", CPU, "--runtime", "openmpi", "--output", "job.yaml", "--", "mpirun", "x"]
    ran = mpigen(*arguments)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    written = (tmp_path / "job.yaml").read_text()
    again = mpigen(*arguments)
    assert (again.returncode, again.stderr) == (
        2,
        "error: job.yaml: exists already; name another file, or remove it\n",
    )
    assert (tmp_path / "job.yaml").read_text() == written
    assert mpigen(*arguments[:5], "-o", "no/job.yaml").returncode == 2


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "--runtime openmp",
            "error: --runtime: the cluster has no runtime `openmp`; did you mean `openmpi`?\n",
        ),
        (
            "--runtime openmpi --nodes 4",
            (
                "error: --nodes: Kueue never admits `4` nodes: 4 nodes take 56 cpu of flavor `cpu`, and `team-sim` "
                "never gets more than 48; pass 3 or less\n"
            ),
        ),
        (
            "--runtime openmpi --tenant sim --nodes 9",
            "error: --tenant: the cluster has no tenant `sim`; write team-sim\n",
        ),
    ],
    ids=["runtime", "nodes", "tenant"],
)
def test_jobs_that_cannot_run_are_rejected(line: str, told: str, mpigen: Run) -> None:
    ran = mpigen("job", "new", "--release", CPU, *shlex.split(line))
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", told)


@pytest.mark.parametrize(
    ("line", "place", "check"),
    [
        ("--queue night -- mpirun x", "stdout:4:", "trainjob/denied"),
        ("--label a=b.", "stdout:4:", "schema/not-allowed"),
        ("-- mpirun -np 99 x", "stdout:9:30", "mpi/slots"),
        ("--fail-on warning -- torchrun x", "stdout:9:15", "mpi/no-launcher"),
    ],
    ids=["queue", "label", "ranks", "warning"],
)
def test_job_new_prints_findings_instead_of_a_job_that_check_job_rejects(
    line: str, place: str, check: str, mpigen: Run
) -> None:
    ran = mpigen("job", "new", "--release", CPU, "--runtime", "openmpi", *shlex.split(line))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith(place)
    assert f": {check}: TrainJob team-sim/openmpi" in ran.stderr


def test_a_team_can_name_its_own_queue_if_no_policy_rejects_the_queue(tmp_path: Path, mpigen: Run) -> None:
    policies = "policies: {admission: {rules: {queue: audit}}}"
    (tmp_path / "platform.yaml").write_text(f"{CPU.read_text()}{policies}\n")
    ran = mpigen(
        "job", "new", "--release", "platform.yaml", "--runtime", "openmpi", "--queue", "night", "--", "mpirun", "x"
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_job_new_prints_warnings_and_writes_no_rejected_job(tmp_path: Path, mpigen: Run) -> None:
    warned = mpigen("job", "new", "--release", CPU, "--runtime", "openmpi", "--", "torchrun", "x")
    assert (warned.returncode, yaml.safe_load(warned.stdout)["kind"]) == (0, "TrainJob")
    assert "warning: mpi/no-launcher" in warned.stderr
    rejected = mpigen(
        "job", "new", "--release", CPU, "--runtime", "openmpi", "-o", "job.yaml", "--", "mpirun", "-np", "99", "x"
    )
    assert (rejected.returncode, rejected.stderr[:13]) == (1, "job.yaml:9:30")
    assert not (tmp_path / "job.yaml").exists()


def test_findings_have_the_lines_of_the_output_with_a_network_policy(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "platform.yaml").write_text(f"{CPU.read_text()}isolation: {{unit: job}}\n")
    ran = mpigen("job", "new", "--release", "platform.yaml", "--runtime", "openmpi", "--", "torchrun", "x")
    number = int(ran.stderr.split(":")[1])
    assert ran.stdout.splitlines()[number - 1] == "    command: [torchrun, x]"
    assert yaml.safe_load(ran.stdout.partition("---")[2].partition("---")[0])["kind"] == "NetworkPolicy"


def test_job_new_accepts_a_finding_that_the_settings_ignore(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "mpigen.toml").write_text('ignore = ["mpi/slots"]\n')
    ran = mpigen("job", "new", "--release", CPU, "--runtime", "openmpi", "--", "mpirun", "-np", "99", "x")
    assert (ran.returncode, ran.stderr) == (0, "")


def test_an_invalid_platform_is_reported_with_its_location(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "platform.yaml").write_text(CPU.read_text().replace("pool: cpu", "pool: cpus"))
    ran = mpigen("job", "new", "--release", "platform.yaml", "--runtime", "openmpi")
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: platform.yaml:10:41: runtimes[0].pool: ")


def test_options_after_the_separator_belong_to_the_job_command(mpigen: Run) -> None:
    """`--format json` in the job's command must not change the format of errors."""
    ran = mpigen("job", "new", "--release", CPU, "--runtime", "nope", "--", "train", "--format", "json")
    assert (ran.returncode, ran.stdout, ran.stderr[:7]) == (2, "", "error: ")


def test_job_new_does_not_start_node(tmp_path: Path, mpigen: Run) -> None:
    trap = tmp_path / "node"
    trap.write_text("#!/bin/sh\nexit 1\n")
    trap.chmod(0o755)
    assert mpigen("job", "new", "--release", CPU, "--runtime", "openmpi", JSII_NODE=str(trap)).returncode == 0


def test_job_new_accepts_a_runtime_of_a_platform_py(mpigen: Run) -> None:
    ran = mpigen(
        "job", "new", "--release", EXAMPLES["custom-python"], "--runtime", "openmpi-scratch", "--", "mpirun", "x"
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert yaml.safe_load(ran.stdout)["spec"]["runtimeRef"] == {"name": "openmpi-scratch"}


def test_a_fabric_benchmark_uses_two_hosts(mpigen: Run) -> None:
    ran = mpigen("job", "new", "--release", H100, "--fabric", "ib", "--smoke", "--tenant", "team-cv")
    body = yaml.safe_load(ran.stdout)
    assert (body["metadata"]["name"], body["spec"]["trainer"]["numNodes"]) == ("openmpi-h100-bench", 2)


@pytest.mark.parametrize("line", ["", "--link 100 --runtime openmpi", "--link 100 --fabric ib"])
def test_incompatible_options_are_wrong_usage(line: str, mpigen: Run) -> None:
    ran = mpigen("job", "new", "--release", CPU, *line.split())
    assert (ran.returncode, "Error:" in ran.stderr) == (2, True)
