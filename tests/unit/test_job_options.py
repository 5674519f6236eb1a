"""Test the variables, volumes, times and sweeps of `job new`, and the faults of such requests."""

from __future__ import annotations

import ast
from itertools import product
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from generator import Platform
from generator.facts.names import S3_KEYS
from generator.jobs.catalogue import Catalogue
from generator.jobs.job import LONGEST_NAME, NewJob, new_job
from generator.jobs.reach import JobError
from generator.jobs.request import Download, JobRequest, Mount
from generator.manifests import Body, Manifest
from generator.policies.secrets import secrets
from generator.runtimes.additions import SecretKey
from generator.stages.catalogues import catalogue_of
from generator.stages.loading import load_declared
from generator.upstream.compile import compile_job
from tests.conftest import EXAMPLES, small_platform
from tests.offers import job_of


def job(**wanted: Any) -> NewJob:
    return job_of(Platform.model_validate(small_platform()), JobRequest("openmpi-cpu", "team-a", **wanted))


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
    found = trainer(environment={"SEED": "7", "EMPTY": ""}, secrets={"TOKEN": SecretKey("wandb", "api-key")})
    assert found["env"] == [
        {"name": "SEED", "value": "7"},
        {"name": "EMPTY"},  # Kueue could not admit a job with `value: ""`
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "wandb", "key": "api-key"}}},
    ]


def test_the_keys_of_a_connection_are_variables_of_the_job() -> None:
    found = trainer(connection="data", environment={"SEED": "7"})["env"]
    keys = {each["name"]: each["valueFrom"]["secretKeyRef"] for each in found[1:]}
    assert keys["AWS_ACCESS_KEY_ID"] == {"name": "data", "key": "AWS_ACCESS_KEY_ID"}
    assert keys["AWS_S3_BUCKET"] == {"name": "data", "key": "AWS_S3_BUCKET", "optional": True}
    assert len(keys) == 6


def test_a_connection_has_the_keys_of_the_secrets_that_mpigen_declares() -> None:
    tenants = load_declared(EXAMPLES["openshift-h100"]).tenants
    tenant = next(tenant for tenant in tenants if tenant.secrets.connections)
    name = tenant.secrets.connections[0].name
    (spec,) = [body["spec"] for body in secrets(tenant) if body["metadata"]["name"] == name]
    declared = {entry["secretKey"] for entry in spec["data"]} | spec["target"]["template"]["data"].keys()
    assert {key for key, always in S3_KEYS.items() if always} <= declared <= S3_KEYS.keys()


def test_all_jobs_of_a_sweep_save_in_their_own_folders() -> None:
    made = job(checkpoint=Mount("claim", "ckpt", "/checkpoint/"), matrix={"lr": ("1", "2")}, name="sweep")
    for number, body in enumerate(made.bodies, start=1):
        values = {each["name"]: each["value"] for each in body["spec"]["trainer"]["env"]}
        assert values["MPIGEN_CHECKPOINT"] == f"/checkpoint/sweep-{number}"
        (patch,) = body["spec"]["runtimePatches"]
        for replicated in patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]:
            pod = replicated["template"]["spec"]["template"]["spec"]
            assert pod["volumes"] == [{"name": "job-1", "persistentVolumeClaim": {"claimName": "ckpt"}}]


def test_a_runtime_has_one_claim_for_checkpoints() -> None:
    data = small_platform()
    data["tenants"][0]["volumes"] = [{"name": "ckpt", "size": "1Gi", "class": "nfs"}]
    data["runtimes"][1]["resilience"] = {"checkpoint": {"claim": "ckpt"}}
    with pytest.raises(JobError) as refused:
        job_of(
            Platform.model_validate(data),
            JobRequest("openmpi-cpu", "team-a", checkpoint=Mount("claim", "mine", "/mine")),
        )
    told = "--checkpoint: the jobs of runtime `openmpi-cpu` have a claim for checkpoints already"
    assert [*map(str, refused.value.problems)] == [f"{told}; remove --checkpoint, and save in `MPIGEN_CHECKPOINT`"]


@pytest.mark.parametrize("path", ["/run/mpi", "/dev/shm/", "/data"])
def test_a_volume_never_replaces_a_volume_of_the_runtime(path: str) -> None:
    data = small_platform()
    data["runtimes"][1]["volumes"] = [{"name": "data", "mountPath": "/data", "scratch": "1Gi"}]
    wanted = JobRequest("openmpi-cpu", "team-a", mounts=(Mount("configmap", "mine", path),))
    with pytest.raises(JobError, match=f"--volume: the runtime `openmpi-cpu` has a volume at {path}, which"):
        job_of(Platform.model_validate(data), wanted)


@pytest.mark.parametrize("path", ["/dev//shm", "/data/../code", "/a:ro", "//data", "/data/./x"])
def test_a_path_has_one_spelling(path: str) -> None:
    (said,) = problems(checkpoint=Mount("claim", "ckpt", path))
    assert said.startswith(f"--checkpoint: `{path}` is not the path of a folder in the containers")


def with_initializers(*names: str) -> Catalogue:
    """Return a catalogue whose runtimes download to a volume of all pods before the ranks start."""
    catalogue = catalogue_of(Platform.model_validate(small_platform()))
    for found in catalogue.objects:
        if found.kind == "ClusterTrainingRuntime":
            spec = found.body["spec"]["template"]["spec"]
            spec["replicatedJobs"] = [initializer(name) for name in names] + spec["replicatedJobs"]
    return catalogue


def initializer(name: str) -> Body:
    mounts = [{"name": "initializer", "mountPath": "/workspace"}]
    container = {"name": name, "image": "ghcr.io/kubeflow/trainer/initializer:v2.3.0", "volumeMounts": mounts}
    pod = {"containers": [container], "volumes": [{"name": "initializer", "persistentVolumeClaim": {"claimName": "w"}}]}
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": name}
    return {"name": name, "template": {"metadata": {"labels": labels}, "spec": {"template": {"spec": pod}}}}


def test_a_job_names_the_downloads_of_initializers() -> None:
    made = new_job(
        with_initializers("dataset-initializer", "model-initializer"),
        JobRequest(
            "openmpi-cpu", "team-a", dataset=Download("hf://org/data", "token"), model=Download("s3://bucket/model")
        ),
    )
    assert made.body["spec"]["initializer"] == {
        "dataset": {"storageUri": "hf://org/data", "secretRef": {"name": "token"}},
        "model": {"storageUri": "s3://bucket/model"},
    }
    compiled = compile_job(
        Manifest(made.body, "job.yaml"),
        Manifest(made.runtime.runtime.body, "runtime.yaml"),
        Platform.model_validate(small_platform()).cluster.versions.model_dump(),
    )
    containers = [container for _, pod in compiled.pods for container in pod["spec"]["containers"]]
    uris = [
        entry["value"]
        for container in containers
        for entry in container.get("env", [])
        if entry["name"] == "STORAGE_URI"
    ]
    assert uris == ["hf://org/data", "s3://bucket/model"]
    assert containers[0]["envFrom"] == [{"secretRef": {"name": "token"}}]


def test_a_download_needs_an_initializer() -> None:
    wanted = JobRequest("openmpi-cpu", "team-a", dataset=Download("hf://a/b"), model=Download("a/b"))
    with pytest.raises(JobError) as refused:
        new_job(with_initializers("dataset-initializer"), wanted)
    faults = [(problem.path, problem.message) for problem in refused.value.problems]
    assert faults == [
        ("--model", "`a/b` is not the URI of a model"),
        ("--model", "the runtime `openmpi-cpu` has no model initializer"),
    ]


def test_the_program_creates_the_objects_of_the_text() -> None:
    code = {"train.py": "print('\"\\n\u00e4')\n".encode(), "data.bin": b"\xff"}
    made = job(code=code, owner="ada", matrix={"lr": ("1", "2")}, connection="data")
    names = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(made.program).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert names["OTHERS"] + names["JOBS"] == [*yaml.safe_load_all(made.text)]


def test_another_number_of_ranks_changes_the_cores_of_ranks() -> None:
    cores = int(variables(processes=1)["OMP_NUM_THREADS"])
    assert trainer(processes=1)["numProcPerNode"] == 1
    assert variables(processes=2)["OMP_NUM_THREADS"] == str(cores // 2)
    assert variables(processes=2, environment={"OMP_NUM_THREADS": "3"})["OMP_NUM_THREADS"] == "3"
    assert "OMP_NUM_THREADS" not in variables(processes=10_000)  # one core for each rank, as in the runtime
    assert "env" not in trainer()
    own = small_platform()
    own["runtimes"][1]["environment"] = {"OMP_NUM_THREADS": "9"}
    kept = job_of(Platform.model_validate(own), JobRequest("openmpi-cpu", "team-a", processes=2)).body["spec"][
        "trainer"
    ]
    assert "OMP_NUM_THREADS" not in [each["name"] for each in kept["env"]]


def test_open_mpi_5_counts_the_ranks_of_the_job_as_the_slots_of_a_host() -> None:
    assert variables(processes=2)["PRTE_MCA_prte_set_default_slots"] == "2"


def test_other_resources_change_the_ranks_that_count_them() -> None:
    changed = job(resources={"cpu": "20", "memory": "32Gi"}).body["spec"]["trainer"]
    amounts = {"cpu": "20", "memory": "32Gi"}
    assert changed["resourcesPerNode"] == {"requests": amounts, "limits": amounts}
    assert changed["numProcPerNode"] == 20
    assert changed["env"] == [{"name": "PRTE_MCA_prte_set_default_slots", "value": "20"}]
    kept = job(resources={"memory": "32Gi"}, processes=3).body["spec"]["trainer"]
    assert kept["resourcesPerNode"]["requests"] == {"cpu": "57", "memory": "32Gi"}
    assert {entry["name"]: entry["value"] for entry in kept["env"]}["OMP_NUM_THREADS"] == "19"


def test_smaller_pods_allow_more_nodes() -> None:
    with pytest.raises(JobError, match="Kueue never admits `9` nodes"):
        job(nodes=9)
    assert job(nodes=9, resources={"cpu": "20", "memory": "16Gi"}).body["spec"]["trainer"]["numNodes"] == 9


@pytest.mark.parametrize(
    ("runtime", "wanted", "told"),
    [
        ("openmpi-cpu", {"cpu": "many"}, "`many` of `cpu` is not a quantity"),
        ("openmpi-cpu", {"cpu": "0"}, "`0` of `cpu` is not above 0; write an amount such as 4 or 16Gi"),
        ("openmpi-cpu", {"gpu": "4"}, "the pods of runtime `openmpi-cpu` request no `gpu`; did you mean `cpu`?"),
    ],
    ids=["quantity", "zero", "unknown"],
)
def test_impossible_resources_are_rejected(runtime: str, wanted: dict[str, str], told: str) -> None:
    platform = Platform.model_validate(small_platform())
    with pytest.raises(JobError) as refused:
        job_of(platform, JobRequest(runtime, "team-a", resources=wanted))
    assert list(map(str, refused.value.problems)) == [f"--resources: {told}"]


def test_the_devices_of_an_init_container_cannot_become_fewer() -> None:
    university = load_declared(EXAMPLES["university"])
    with pytest.raises(JobError) as refused:
        job_of(university, JobRequest("openmpi-mi300x", "quantum", resources={"amd.com/gpu": "4"}))
    (problem,) = refused.value.problems
    told = "pods of `openmpi-mi300x` take 8 amd.com/gpu anyway, because an init container requests them"
    assert (problem.message, problem.fix) == (told, "pass 8 or more, or name another runtime")


def test_a_separate_launcher_has_no_resources_of_a_job() -> None:
    data = small_platform()
    data["runtimes"][1]["launcher"] = "separate"
    platform = Platform.model_validate(data)
    with pytest.raises(JobError, match="Trainer would apply the resources to the launcher of `openmpi-cpu`"):
        job_of(platform, JobRequest("openmpi-cpu", "team-a", resources={"cpu": "4"}))


def test_volumes_are_in_all_pods_of_the_compiled_job() -> None:
    platform = Platform.model_validate(small_platform())
    mounts = (
        Mount("claim", "data", "/data", is_read_only=True),
        Mount("configmap", "script", "/script"),
        Mount("secret", "token", "/token"),
    )
    made = job(mounts=mounts, owner="ada")
    versions = platform.cluster.versions.model_dump()
    compiled = compile_job(
        Manifest(made.body, "job.yaml"), Manifest(made.runtime.runtime.body, "runtime.yaml"), versions
    )
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
    assert job_of(limited, JobRequest("openmpi-cpu", "team-a")).body["spec"]["activeDeadlineSeconds"] == 7200
    assert job_of(limited, JobRequest("openmpi-cpu", "team-a", seconds=60)).body["spec"]["activeDeadlineSeconds"] == 60
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
    plain = "write an absolute path without `:`, `..` and empty parts, such as /data"
    said = problems(
        environment={"a b": "1", "LR": "1"},
        secrets={"LR": SecretKey("a", "b")},
        matrix={"LR": ("1",), "0": ("1", "\udcff")},
        connection="b",
        mounts=(Mount("claim", "a", "data"), Mount("claim", "b", "/x"), Mount("secret", "c", "/x/")),
        checkpoint=Mount("claim", "b", "/x"),
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
        f"--volume: `data` is not the path of a folder in the containers; {plain}",
        "--volume: two volumes have the path `/x`; mount each at its own path",
        "--checkpoint: two volumes have the path `/x`; mount each at its own path",
        "--code: `\\udcff.py` is not UTF-8; encode it as UTF-8",
        "--matrix: `\\udcff` is not UTF-8; encode it as UTF-8",
    ]
