"""Test that compiled TrainJobs equal the recorded objects of real controllers, and name the fields that cause them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from generator.cli.main import run
from generator.documents.messages import format_path
from generator.errors import NotModelledError, SimulationError
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping
from generator.objects.patch import parse_path, set_values
from generator.upstream.compile import Compiled, Fault, compile_job, find_faults, find_runtime, read_priorities
from generator.upstream.kubernetes.strategic_merge import merge
from tests.cluster.versions import NAMES
from tests.compiling import (
    FOLDER,
    NAMESPACE,
    NODE,
    PATCH,
    REJECTED,
    TARGETS,
    cases,
    changed,
    differences,
    normal_forms,
    read_answers,
    recorded_objects,
    without_shared_service,
)

WRITTEN = [(name, case) for name in NAMES for case in cases(name, with_catalogue=False)]
NEWEST = TARGETS["default"]


def compiled(case: str) -> Compiled:
    """Compile a case for the newest releases."""
    return cases("default")[case].compiled("default")


@pytest.mark.parametrize(("name", "case"), WRITTEN)
def test_compiled_objects_equal_the_recorded_objects(name: str, case: str) -> None:
    real = read_answers()[name][case]
    ours = normal_forms(cases(name)[case].compiled(name).objects, name)
    assert list(differences(real, recorded_objects(case, without_shared_service(ours, real)))) == []


def test_every_case_is_recorded() -> None:
    assert {(name, case) for name, recorded in read_answers().items() for case in recorded} == set(WRITTEN)


def value_at(body: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        body = body[step]
    return body


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(child, (*path, key))
    else:
        yield path, value


@pytest.mark.parametrize("case", cases("default", with_catalogue=False))
def test_origins_hold_the_values_of_pods(case: str) -> None:
    result = compiled(case)
    counted = 0
    for number, pod in result.pods:
        for path, value in leaves(pod["spec"], ("spec",)):
            origin = result.origin("Pod", number, path)
            if origin and not isinstance(found := _found(origin.manifest.body, origin.path), dict | list | None):
                assert found == value or origin.path[-1] == "storageUri", (path, origin.path)
                counted += 1
    assert counted > 0


def _found(body: Any, path: tuple[str | int, ...]) -> Any:
    try:
        return value_at(body, path)
    except (KeyError, IndexError):  # a default of the CustomResourceDefinition
        return None


JOBS = "spec.template.spec.replicatedJobs"
POD = "template.spec.template"
PATCHED = "trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec.template.spec"
NODES = f"{JOBS}[0].{POD}"
LIMIT = 'resources.limits["nvidia.com/gpu"]'
PATCH_0 = f"spec.runtimePatches[0].{PATCHED}"
ORIGINS = [
    ("mpi-plain", 0, "spec.containers[0].image", "TrainingRuntime", f"{NODES}.spec.containers[0].image"),
    ("mpi-plain", 0, "metadata.labels.app", "TrainingRuntime", f"{NODES}.metadata.labels.app"),
    ("mpi-plain", 1, "spec.containers[0].env[2]", "", "-"),
    ("mpi-plain", 0, "spec.hostname", "TrainingRuntime", f"{NODES}.spec"),
    ("mpi-command", 1, "spec.containers[0].command[0]", "TrainJob", "spec.trainer.command[0]"),
    ("mpi-env", 1, "spec.containers[0].env[1].value", "TrainJob", "spec.trainer.env[0].value"),
    ("mpi-gpus", 0, f"spec.containers[0].{LIMIT}", "TrainJob", f"spec.trainer.{LIMIT.replace('.', 'PerNode.', 1)}"),
    ("mpi-gpus", 0, "spec.containers[0].image", "TrainingRuntime", f"{NODES}.spec.containers[0].image"),
    ("patch-twice", 0, "spec.nodeSelector.pool", "TrainJob", f"spec.runtimePatches[1].{PATCHED}.nodeSelector.pool"),
    ("patch-twice", 0, "spec.nodeSelector.zone", "TrainJob", f"{PATCH_0}.nodeSelector.zone"),
    ("patch-env", 0, "spec.initContainers[1].env[1]", "TrainJob", f"{PATCH_0}.initContainers[1].env[0]"),
    ("patch-env", 0, "spec.containers[1].stdin", "TrainingRuntime", f"{NODES}.spec.containers[1]"),
    ("pipeline-data", 0, "spec.containers[0].env[0].value", "TrainJob", "spec.initializer.dataset.storageUri"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "number", "path", "owner", "expected"), ORIGINS)
def test_a_value_has_the_origin_that_overrides_the_others(
    case: str, number: int, path: str, owner: str, expected: str
) -> None:
    origin = compiled(case).origin("Pod", number, parse_path(path))
    found = (origin.manifest.kind, origin.path) if origin else ("", ("-",))
    assert found == (owner, parse_path(expected))


def test_parallelism_of_a_job_comes_from_num_nodes() -> None:
    origin = compiled("mpi-nodes").origin("Job", 0, ("spec", "parallelism"))
    assert origin is not None
    assert (origin.manifest.kind, origin.path) == ("TrainJob", ("spec", "trainer", "numNodes"))


EXCLUSIVE = 'metadata.annotations["alpha.jobset.sigs.k8s.io/exclusive-topology"]'
LIMITS = "spec.trainer.resourcesPerNode.limits"
FAULTS: list[tuple[str, str, Any, str]] = [
    ("mpi-plain", "runtime spec.podGroupPolicy", {"coscheduling": {}}, "does not simulate `podGroupPolicy`"),
    ("mpi-plain", "runtime spec.mlPolicy.jax", {}, "does not simulate `jax`"),
    ("mpi-plain", "runtime spec.template.spec.volumeClaimPolicies", [{}], "does not simulate `volumeClaimPolicies`"),
    ("mpi-plain", "runtime spec.template.spec.managedBy", "a.b/c", "does not simulate `managedBy`"),
    ("mpi-plain", "job spec.managedBy", "kueue.x-k8s.io/multikueue", "does not simulate `managedBy`"),
    ("torch-processes", "job spec.trainer.command", ["tune", "run"], "does not simulate `command`"),
    ("mpi-plain", f"runtime spec.template.{EXCLUSIVE}", "rack", "does not simulate"),
    ("mpi-plain", f"runtime {JOBS}[0].template.{EXCLUSIVE}", "rack", "does not simulate"),
    ("patch-metadata", f"job {PATCH}.template.{EXCLUSIVE}", "rack", "does not simulate"),
    ("patch-selector", f"job {PATCH}.{NODE}.nodeSelector.$patch", "replace", "does not simulate `$patch`"),
    ("separate-plain", f"runtime spec.{NODE}.containers[0].resources.limits", {"a/gpu": 1, "b/gpu": 2}, "at random"),
    ("mpi-plain", "job spec.trainer.numNodes", 2**31 - 1, "`numNodes` is 2147483647"),
    ("mpi-plain", "job spec.trainer.numNodes", 50_001, "`numNodes` is 50001"),
    ("mpi-plain", "job spec.trainer.numNodes", 0, "`numNodes` is 0"),
    ("mpi-plain", f"runtime {JOBS}[0].replicas", 50_001, "`replicas` is 50001"),
    ("separate-resources", f"job {LIMITS}", {"a/gpu": 1, "b/GPUs": 2}, "at random"),
]
WORDS = {
    "ports": "so Trainer merges it with an earlier port",
    "protocols": "so Trainer merges it with an earlier port",
    "implementation": 'Trainer creates no objects for `mpiImplementation: ""`',
    "initializer": "the runtime `mpi` has no replicated job `dataset-initializer`",
    "job": "the runtime `mpi` has no replicated job `nodes`",
    "container": "the replicated job `node` of the runtime has no container `side`",
}


@pytest.mark.parametrize(("case", "place", "value", "words"), FAULTS)
def test_a_field_that_is_not_simulated_makes_the_objects_unknown(case: str, place: str, value: Any, words: str) -> None:
    chosen = changed(cases("default")[case], place, value)
    (fault,) = find_faults(chosen.job, chosen.runtime, NEWEST)
    assert (fault.problem.path, words in fault.problem.message) == (place.partition(" ")[2], True), fault.problem
    with pytest.raises(NotModelledError) as raised:
        chosen.compiled("default")
    assert raised.value.problems == (fault.problem,)


def test_invalid_fields_are_faults_and_hide_other_faults() -> None:
    chosen = changed(cases("default")["mpi-plain"], "job spec.trainer", {"numNodes": "three", "nodes": 3})
    chosen = changed(chosen, "runtime spec.podGroupPolicy", {"coscheduling": {}})
    problems = {fault.problem.path: fault.problem.message for fault in find_faults(chosen.job, chosen.runtime, NEWEST)}
    assert problems == {
        "spec.trainer.numNodes": '`numNodes` must be an integer, not the string `"three"`',
        "spec.trainer.nodes": "unknown field `nodes`",
    }


@pytest.mark.parametrize("seed", range(20))
def test_a_mutated_train_job_compiles_or_has_faults(seed: int) -> None:
    random = Random(seed)
    name = random.choice(sorted(cases("default", with_catalogue=False)))
    chosen = cases("default")[name]
    values: list[Any] = [None, "", 0, -1, True, [], {}, "x/y", ["a"], [{}], [None], {"a": 1}]
    for owner, manifest in (("job", chosen.job), ("runtime", chosen.runtime)):
        for path, _ in random.choices(list(leaves(manifest.body["spec"], ("spec",))), k=3):
            body = set_values(manifest.body, {format_path(path): random.choice(values)})
            with suppress(SimulationError):
                replace(chosen, **{owner: replace(manifest, body=body)}).compiled("default")


@pytest.mark.parametrize("name", REJECTED)
def test_a_rejected_field_is_a_fault(name: str) -> None:
    case, place, value = REJECTED[name]
    chosen = changed(cases("default")[case], place, value)
    (fault,) = find_faults(chosen.job, chosen.runtime, NEWEST)
    path = fault.problem.path.removesuffix("[1]")
    assert (path, WORDS[name] in fault.problem.message) == (place.partition(" ")[2], True), fault.problem
    with pytest.raises(SimulationError) as raised:
        chosen.compiled("default")
    assert not isinstance(raised.value, NotModelledError)


def test_trainer_counts_only_the_devices_of_the_first_replicated_job() -> None:
    launcher = NODE.replace("[0]", "[1]")
    place = f"runtime spec.{launcher}.containers[0].resources.limits"
    chosen = changed(cases("default")["separate-plain"], place, {"a/gpu": 1, "b/gpu": 2})
    assert chosen.compiled("default").slots == 8


def test_devices_are_clear_if_the_job_sets_its_processes() -> None:
    chosen = cases("default")["separate-plain"]
    runtime = set_values(chosen.runtime.body, {f'spec.{NODE}.containers[0].resources.limits["intel.com/gpu"]': 2})
    job = set_values(chosen.job.body, {"spec.trainer": {"numProcPerNode": 4}})
    changed = [replace(chosen.job, body=job), replace(chosen.runtime, body=runtime)]
    assert compile_job(changed[0], changed[1], NEWEST).slots == 4


def test_an_old_trainer_leaves_ports_of_init_containers() -> None:
    chosen = cases("default")["mpi-plain"]
    ports = {f"spec.{NODE}.initContainers[0].ports": [{"containerPort": 1}, {"containerPort": 2}]}
    runtime = replace(chosen.runtime, body=set_values(chosen.runtime.body, ports))
    assert len(list(find_faults(chosen.job, runtime, NEWEST))) == 1
    assert list(find_faults(chosen.job, runtime, TARGETS["previous"])) == []


def runtime(kind: str, name: str, namespace: str = "") -> Manifest:
    place = {"namespace": namespace} if namespace else {}
    return Manifest(
        {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": kind, "metadata": {"name": name, **place}}, "f"
    )


def test_a_namespaced_runtime_serves_only_jobs_in_its_namespace() -> None:
    job = cases("default")["mpi-plain"].job
    far, near = (runtime("TrainingRuntime", "mpi", namespace) for namespace in ("other", NAMESPACE))
    assert find_runtime(job, [runtime("ClusterTrainingRuntime", "mpi"), far, near]) is near
    missing = find_runtime(job, [far])
    assert isinstance(missing, Fault)
    assert missing.problem.message == "these files define no TrainingRuntime `mpi`"


def test_pods_get_the_priority_of_their_class() -> None:
    chosen = cases("default")["mpi-plain"]
    classes = [
        Manifest({"kind": "PriorityClass", "metadata": {"name": "usual"}, "value": 7, "globalDefault": True}, "f"),
        Manifest({"kind": "PriorityClass", "metadata": {"name": "more"}, "value": 8, "globalDefault": True}, "f"),
        Manifest({"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}, "f"),
    ]
    named = set_values(chosen.runtime.body, {f"spec.{NODE}.priorityClassName": "high"})
    for body, known, expected in ((chosen.runtime.body, classes, "7"), (named, classes, "9"), (named, [], None)):
        result = compile_job(chosen.job, replace(chosen.runtime, body=body), NEWEST, read_priorities(known))
        assert mapping(result.pods[0][1], "metadata", "labels").get("jobset.sigs.k8s.io/priority") == expected


def test_a_job_without_namespace_has_an_unknown_key() -> None:
    chosen = cases("default")["mpi-plain"]
    body = copy.deepcopy(chosen.job.body)
    del body["metadata"]["namespace"]
    result = compile_job(replace(chosen.job, body=body), chosen.runtime, NEWEST)
    assert "namespace" not in result.job_set["metadata"]
    assert result.jobs[0][1]["metadata"]["labels"]["jobset.sigs.k8s.io/job-key"] == "0" * 40


def _named(*names: str) -> list[Body]:
    return [{"name": name} for name in names]


def test_patched_items_precede_unpatched_items_unless_they_follow_them_in_the_original() -> None:
    merged = merge({"volumes": _named("a", "b", "c")}, {"volumes": _named("new", "b")})
    assert [volume["name"] for volume in merged["volumes"]] == ["new", "a", "b", "c"]
    assert merge({"finalizers": ["a", "b"]}, {"finalizers": ["c", "b"]}) == {"finalizers": ["c", "a", "b"]}
    assert merge({"args": ["a"], "kept": 1}, {"args": ["b"]}) == {"args": ["b"], "kept": 1}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Write the case `mpi-plain`, and return the files of the TrainJob and its runtime."""
    chosen = cases("default")["mpi-plain"]
    paths = (tmp_path / "job.yaml", tmp_path / "runtime.yaml")
    for path, manifest in zip(paths, (chosen.job, chosen.runtime), strict=True):
        path.write_text(yaml.safe_dump(manifest.body))
    return paths


def test_the_command_prints_all_objects(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compile", str(files[0]), "--release", str(files[1])]) == 0
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == list(compiled("mpi-plain").objects)


def test_the_command_notes_an_unknown_priority_class(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    runtime = set_values(cases("default")["mpi-plain"].runtime.body, {f"spec.{NODE}.priorityClassName": "high"})
    files[1].write_text(yaml.safe_dump(runtime))
    assert run(["compile", *map(str, files)]) == 0
    assert capsys.readouterr().err == (
        "note: these files hold no PriorityClass `high`, so its pods lack the label "
        "`jobset.sigs.k8s.io/priority`, which JobSet sets to the value of the class\n"
    )


def test_the_command_prints_a_table_of_ranks(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compile", *map(str, files), "--job", f"{NAMESPACE}/mpi-plain", "--format", "table"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"TrainJob {NAMESPACE}/mpi-plain: 2 ConfigMaps, 1 Secret, 1 Service, 1 JobSet, 2 Jobs, 3 Pods"
    assert lines[1].startswith("the number of ranks is unknown, because mpigen cannot compute it from the command: ")
    assert [line.split("  ")[0] for line in lines[2:]] == ["RANKS", "0-3", "4-7", "8-11"]
    assert lines[3].split()[:3] == ["0-3", "mpi-plain-launcher-0-0.mpi-plain", "mpi-plain-launcher-0-0-*"]
    assert lines[4].split() == [
        "4-7", "mpi-plain-node-0-0.mpi-plain", "mpi-plain-node-0-0-*", "4", "4", "nvidia.com/gpu", "rail-0,", "rail-1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "sentence", "ranks"),
    [
        (["mpirun", "./a.out"], "`mpirun` starts 12 ranks", ["0-3", "4-7", "8-11"]),
        (["mpirun", "-np", "5", "./a.out"], "`mpirun` starts 5 ranks", ["0-3", "4", "-"]),
        (["mpirun", "--oversubscribe", "-np", "20", "./a.out"], "`mpirun` starts 20 ranks", ["?", "?", "?"]),
        (["mpirun", "-np", "13", "./a.out"], "Open MPI starts no rank and fails with", ["-", "-", "-"]),
        (["python", "train.py"], "the command starts 1 rank", ["0", "-", "-"]),
        (["torchrun", "--nproc-per-node=2", "train.py"], "`torchrun` starts 2 ranks", ["0-1", "-", "-"]),
        (["./train.sh"], "the number of ranks is unknown", ["0-3", "4-7", "8-11"]),
    ],
)
def test_the_table_has_the_ranks_that_the_command_starts(
    command: list[str],
    sentence: str,
    ranks: list[str],
    files: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    variables = [{"name": "PRTE_MCA_prte_default_hostfile", "value": "/etc/mpi/hostfile"}]
    trainer = {"command": command, "args": [], "env": variables}
    files[0].write_text(yaml.safe_dump(set_values(cases("default")["mpi-plain"].job.body, {"spec.trainer": trainer})))
    assert run(["compile", *map(str, files), "--format", "table"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith(sentence)
    assert [line.split()[0] for line in lines[3:]] == ranks


def test_a_launcher_without_ranks_has_no_rank_in_the_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    chosen = cases("default")["separate-plain"]
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all([chosen.job.body, chosen.runtime.body]))
    assert run(["compile", str(file), "--format", "table"]) == 0
    rows = [line.split()[:2] for line in capsys.readouterr().out.splitlines()[3:]]
    assert rows[0] == ["0-7", "separate-plain-node-0-0.shared"]
    assert rows[-1] == ["-", "separate-plain-launcher-0-0.shared"]


def test_the_command_reports_every_fault_with_its_line(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    text = files[1].read_text()
    files[1].write_text(text.replace("  mlPolicy:\n", "  podGroupPolicy: {coscheduling: {}}\n  mlPolicy:\n", 1))
    dangling = set_values(cases("default")["mpi-plain"].job.body, {"metadata.name": "b", "spec.runtimeRef.name": "mpy"})
    files[0].write_text(files[0].read_text() + "---\n" + yaml.safe_dump(dangling))
    assert run(["compile", *map(str, files)]) == 2
    errors = capsys.readouterr().err
    assert f"{files[1]}:7:3: spec.podGroupPolicy: the objects of this TrainJob are unknown" in errors
    assert "spec.runtimeRef.name: these files define no TrainingRuntime `mpy`; did you mean `mpi`?" in errors


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mpi-plane", "these files hold no TrainJob `mpi-plane`; did you mean `mpi-plain`?"),
        ("", "these files hold no TrainJob; name the file with the TrainJob"),
    ],
)
def test_the_command_needs_a_job(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    assert run(["compile", str(files[0 if name else 1]), "--job", name]) == 2
    assert words in capsys.readouterr().err


def test_fixture_and_answers_have_no_unused_runtime() -> None:
    read = yaml.safe_load((FOLDER / "compile.yaml").read_text())
    assert {job["runtime"] for job in read["jobs"].values()} == set(read["runtimes"])
