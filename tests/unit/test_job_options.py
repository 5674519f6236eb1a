"""Test the variables, volumes, times and sweeps of `job new`, and the faults of such requests."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator import Platform
from generator.jobs.job import LONGEST_NAME, Job, new_job
from generator.jobs.reach import JobError
from generator.jobs.request import Key, Mount, Request
from generator.manifests import Body, Manifest
from generator.runtimes.training_runtime import training_runtimes
from generator.upstream.compile import compile_job
from tests.conftest import small_platform


def job(**wanted: Any) -> Job:
    return new_job(Platform.model_validate(small_platform()), Request("openmpi-cpu", "team-a", **wanted))


def trainer(**wanted: Any) -> Body:
    found: Body = job(**wanted).body["spec"]["trainer"]
    return found


def variables(**wanted: Any) -> dict[str, str]:
    return {each["name"]: each["value"] for each in trainer(**wanted)["env"]}


def problems(**wanted: Any) -> list[str]:
    with pytest.raises(JobError) as refused:
        job(**wanted)
    return list(map(str, refused.value.problems))


def test_variables_and_keys_of_secrets_are_variables_of_the_job() -> None:
    found = trainer(environment={"SEED": "7", "EMPTY": ""}, secrets={"TOKEN": Key("wandb", "api-key")})
    assert found["env"] == [
        {"name": "SEED", "value": "7"},
        {"name": "EMPTY"},  # Kueue could not admit a job with `value: ""`
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "wandb", "key": "api-key"}}},
    ]


def test_another_number_of_ranks_changes_the_cores_of_ranks() -> None:
    cores = int(variables(processes=1)["OMP_NUM_THREADS"])
    assert trainer(processes=1)["numProcPerNode"] == 1
    assert variables(processes=2)["OMP_NUM_THREADS"] == str(cores // 2)
    assert variables(processes=2, environment={"OMP_NUM_THREADS": "3"})["OMP_NUM_THREADS"] == "3"
    assert "OMP_NUM_THREADS" not in variables(processes=10_000)  # one core for each rank, as in the runtime
    assert "env" not in trainer()
    own = small_platform()
    own["runtimes"][1]["environment"] = {"OMP_NUM_THREADS": "9"}
    kept = new_job(Platform.model_validate(own), Request("openmpi-cpu", "team-a", processes=2)).body["spec"]["trainer"]
    assert "OMP_NUM_THREADS" not in [each["name"] for each in kept["env"]]


def test_open_mpi_5_counts_the_ranks_of_the_job_as_the_slots_of_a_host() -> None:
    assert variables(processes=2)["PRTE_MCA_prte_set_default_slots"] == "2"


def test_volumes_are_in_all_pods_of_the_compiled_job() -> None:
    platform = Platform.model_validate(small_platform())
    mounts = (
        Mount("claim", "data", "/data", is_read_only=True),
        Mount("configmap", "script", "/script"),
        Mount("secret", "token", "/token"),
    )
    made = job(mounts=mounts, owner="ada")
    (runtime,) = training_runtimes(made.runtime, platform.pool(made.runtime.pool), platform.cluster, namespaces=[])
    versions = platform.cluster.versions.model_dump()
    compiled = compile_job(Manifest(made.body, "job.yaml"), Manifest(runtime, "runtime.yaml"), versions)
    assert len(compiled.pods) == 2
    for _, pod in compiled.pods:
        volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
        (container,) = [each for each in pod["spec"]["containers"] if each["name"] == "node"]
        paths = {each["mountPath"]: each for each in container["volumeMounts"]}
        assert volumes[paths["/data"]["name"]]["persistentVolumeClaim"] == {"claimName": "data", "readOnly": True}
        assert volumes[paths["/script"]["name"]]["configMap"] == {"name": "script"}
        assert volumes[paths["/token"]["name"]]["secret"] == {"secretName": "token"}


def test_a_time_replaces_the_limit_of_the_team() -> None:
    data = small_platform()
    data["tenants"][0]["limits"] = {"timePerJob": "2h"}
    limited = Platform.model_validate(data)
    assert new_job(limited, Request("openmpi-cpu", "team-a")).body["spec"]["activeDeadlineSeconds"] == 7200
    assert new_job(limited, Request("openmpi-cpu", "team-a", seconds=60)).body["spec"]["activeDeadlineSeconds"] == 60
    assert "activeDeadlineSeconds" not in job().body["spec"]


def test_a_sweep_has_a_job_for_every_combination() -> None:
    command = ("mpirun", "./train", "--lr={lr}", "{dim}", "{other}", "{}", "${lr}")
    made = job(matrix={"lr": ("0.1", "0.01"), "dim": ("64", "128")}, command=command, environment={"SEED": "7"})
    found = [
        (
            body["metadata"]["name"],
            {each["name"]: each["value"] for each in body["spec"]["trainer"]["env"]},
            body["spec"]["trainer"]["command"][2:],
        )
        for body in made.bodies
    ]
    assert found == [
        (
            f"openmpi-cpu-{number}",
            {"SEED": "7", "lr": lr, "dim": dim},
            [f"--lr={lr}", dim, "{other}", "{}", "${lr}"],
        )
        for number, (lr, dim) in enumerate(product(("0.1", "0.01"), ("64", "128")), start=1)
    ]
    assert "`{other}` in the command stays as it is: no --matrix sets it" in made.notes
    assert {body["metadata"]["labels"]["app.kubernetes.io/name"] for body in made.bodies} == {"openmpi-cpu"}


@given(st.dictionaries(st.from_regex("[a-z]{1,3}", fullmatch=True), st.integers(1, 4), min_size=1, max_size=3))
def test_names_of_a_sweep_differ_and_sort_in_its_order(sizes: dict[str, int]) -> None:
    matrix = {name: tuple(map(str, range(size))) for name, size in sizes.items()}
    names = [body["metadata"]["name"] for body in job(matrix=matrix, name="sweep").bodies]
    assert len({*names}) == len(names)
    assert names == sorted(names)


def test_the_longest_name_of_a_sweep_is_checked() -> None:
    name = "s".ljust(LONGEST_NAME - 3, "x")
    assert len(job(name=name, matrix={"a": tuple(map(str, range(99)))}).bodies) == 99
    (said,) = problems(name=name, matrix={"a": tuple(map(str, range(100)))})
    assert "has 45 characters" in said


def test_a_sweep_with_too_many_jobs_is_rejected_at_once() -> None:
    values = tuple(map(str, range(1000)))
    (said,) = problems(matrix={"a": values, "b": values, "c": values})
    assert said.startswith("--matrix: the sweep has 1,000,000,000 jobs, more than the limit of 500")


def test_all_faults_of_variables_and_volumes_are_reported_at_once() -> None:
    said = problems(
        environment={"a b": "1", "LR": "1"},
        secrets={"LR": Key("a", "b")},
        matrix={"LR": ("1",), "0": ("1", "\udcff")},
        mounts=(Mount("claim", "a", "data"), Mount("claim", "b", "/x"), Mount("secret", "c", "/x/")),
        labels={"app.kubernetes.io/name": "mine"},
        processes=2,
        code={"\udcff.py": b""},
        owner="ada",
        is_smoke=True,
    )
    assert said == [
        "--matrix: a smoke test has no variants; remove --matrix or --smoke",
        "--processes: a smoke test counts the ranks that the runtime has; remove --processes or --smoke",
        "--label: the label `app.kubernetes.io/name` has the name of the sweep; remove the label, or pass --name",
        "--env: `a b` cannot be the name of a variable; use letters, digits and `_`, and begin with a letter or `_`",
        "--secret-env: --env sets the variable `LR` too; set it once",
        "--matrix: --secret-env sets the variable `LR` too; set it once",
        "--matrix: `0` cannot be the name of a variable; use letters, digits and `_`, and begin with a letter or `_`",
        "--volume: `data` is not the path of a folder in the containers; write an absolute path, such as /data",
        "--volume: two volumes have the path `/x`; mount each at its own path",
        "--code: `\\udcff.py` is not UTF-8; encode it as UTF-8",
        "--matrix: `\\udcff` is not UTF-8; encode it as UTF-8",
    ]
