"""Test `mpigen upgrade` on situations of platform teams. Each situation has a twin in which the entry is absent."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from generator.cli.main import run
from generator.report.upgrade import SCHEMA
from tests.conftest import EXAMPLES, NEW_YEAR, Run

Body = dict[str, Any]
RUNTIME: Body = yaml.safe_load("""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: mpi}
spec:
  mlPolicy:
    numNodes: 2
    mpi: {mpiImplementation: OpenMPI, numProcPerNode: 2, sshAuthMountPath: /root/.ssh, runLauncherAsNode: true}
  template:
    spec:
      replicatedJobs:
      - name: launcher
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node, image: quay.io/acme/mpi:1}]}}}
      - name: node
        template: {spec: {template: {spec: {containers: [{name: node, image: quay.io/acme/mpi:1}]}}}}
""")
OPEN_MPI_5 = [
    {"name": "PRTE_MCA_prte_default_hostfile", "value": "/etc/mpi/hostfile"},
    {"name": "PRTE_MCA_prte_keep_fqdn_hostnames", "value": "false"},
    {"name": "PRTE_MCA_prte_set_default_slots", "value": "2"},
    {"name": "PRTE_MCA_plm_ssh_args", "value": "-o ConnectionAttempts=10"},
]
"""The variables that Trainer 2.4 sets in the launcher of `RUNTIME`."""
TO_2_4 = ("--from", "trainer=2.3,jobset=0.12,kueue=0.19", "--to", "trainer=2.4")
TO_2_3 = ("--from", "trainer=2.2,jobset=0.11,kueue=0.19", "--to", "trainer=2.3,jobset=0.12")
TO_0_20 = ("--from", "trainer=2.3,jobset=0.12,kueue=0.19", "--to", "kueue=0.20")


def runtime(name: str = "mpi", variables: list[Body] | None = None, replicated_job: str = "node") -> Body:
    """Return the runtime with a name, variables of its launcher, and a name of its second replicated job."""
    body = copy.deepcopy(RUNTIME)
    body["metadata"]["name"] = name
    launcher, node = body["spec"]["template"]["spec"]["replicatedJobs"]
    if variables:
        launcher["template"]["spec"]["template"]["spec"]["containers"][0]["env"] = variables
    node["name"] = replicated_job
    return body


def job(name: str = "train", *, suspend: bool = True, queue: str = "default", **spec: Any) -> Body:
    """Return a TrainJob of a cluster on the runtime `mpi`."""
    labels = {"labels": {"kueue.x-k8s.io/queue-name": queue}} if queue else {}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": "team-a", "uid": "1", **labels},
        "spec": {"suspend": suspend, "runtimeRef": {"name": "mpi"}, **spec},
    }


def done(body: Body) -> Body:
    """Return a job that has ended."""
    return {**body, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}


def workload(group: Mapping[str, Any], name: str = "w") -> Body:
    """Return a Workload with the topology request of its PodSet."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"podSets": [{"name": "main", "topologyRequest": dict(group)}]},
    }


def priority_class(name: str) -> Body:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": name},
        "value": 3,
    }


def definition(*stored: str) -> Body:
    """Return the definition of Workloads with its stored versions."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "workloads.kueue.x-k8s.io"},
        "spec": {"group": "kueue.x-k8s.io"},
        "status": {"storedVersions": [*stored]},
    }


def kubeflow_job(version: str, kind: str) -> Body:
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": kind,
        "metadata": {"name": "old", "namespace": "team-a"},
        "spec": {"runPolicy": {"suspend": False}},
    }


def configuration(text: str) -> Body:
    """Return the ConfigMap of Kueue with a configuration."""
    head = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"},
        "data": {"controller_manager_config.yaml": head + text},
    }


@dataclass(frozen=True)
class Ran:
    """The result of a run of the command in this process, which is faster than a new process for each situation."""

    returncode: int
    stdout: str
    stderr: str


class Situation:
    """A folder of manifests, and the objects of a cluster."""

    def __init__(self, folder: Path, read_output: Callable[[], tuple[str, str]]) -> None:
        """Keep the working folder, and the function that returns standard output and standard error."""
        self.folder, self.read_output = folder, read_output

    def entries(
        self, versions: tuple[str, ...], cluster: list[Body], release: list[Body] | None = None
    ) -> dict[str, Body]:
        """Return id → entry."""
        return {entry["id"]: entry for entry in self.report(versions, cluster, release)["entries"]}

    def report(self, versions: tuple[str, ...], cluster: list[Body], release: list[Body] | None = None) -> Body:
        """Return the JSON data, which has the form of its schema."""
        ran = self.run(versions, cluster, release, "json")
        report: Body = json.loads(ran.stdout)
        jsonschema.validate(report, json.loads(SCHEMA.read_text("utf-8")))
        needs_work = any(entry["class"] in ("manual", "blocked") for entry in report["summary"]["entries"])
        assert (ran.returncode, ran.stderr) == (int(needs_work), "")
        summary: Body = report["summary"]
        return summary

    def run(self, versions: tuple[str, ...], cluster: list[Body], release: list[Body] | None, form: str) -> Ran:
        """Write the objects, and run the command."""
        (self.folder / "release").mkdir(exist_ok=True)
        text = "---\n".join(json.dumps(body) + "\n" for body in release or [runtime()])
        (self.folder / "release" / "objects.yaml").write_text(text)
        export = {"apiVersion": "v1", "kind": "List", "items": cluster}
        (self.folder / "cluster.json").write_text(json.dumps(export, indent=1))
        return self.call("upgrade", "release", *versions, "--jobs", "cluster.json", "--format", form)

    def call(self, *arguments: str) -> Ran:
        """Run `mpigen ARGUMENTS…`."""
        code = run([*arguments])
        return Ran(code, *self.read_output())


@pytest.fixture
def situation(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Situation:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", NEW_YEAR)
    return Situation(tmp_path, lambda: tuple(capsys.readouterr()))  # type: ignore[arg-type,return-value]


def test_suspended_mpi_jobs_cannot_resume_on_trainer_2_4(situation: Situation) -> None:
    cluster = [job("waits"), job("held", queue=""), job("runs", suspend=False), done(job("over"))]
    entry = situation.entries(TO_2_4, cluster)["trainer-2-4-suspended-jobs"]
    assert (entry["class"], entry["announced"], entry["step"]) == ("manual", True, 1)
    assert entry["jobs"] == {"running": 1, "pending": 1, "suspended": 1}
    assert [hit["resource"] for hit in entry["hits"]] == [
        f"TrainJob team-a/{name}" for name in ("waits", "held", "runs")
    ]
    assert all(hit["file"] == "cluster.json" and hit["line"] for hit in entry["hits"])
    names = ", ".join(f"launcher: env[{item['name']}]" for item in OPEN_MPI_5)
    assert entry["hits"][0]["detail"] == f"changes {names}"
    assert entry["source"] == "https://github.com/kubeflow/trainer/releases/tag/v2.4.0"
    assert entry["before"].endswith("delete the pending and suspended ones (1 running, 1 pending, 1 suspended)")
    assert "`PRTE_MCA_plm_ssh_args: -o ConnectionAttempts=10`" in entry["today"]
    assert "This is unproven" in entry["today"]


def test_jobs_on_a_runtime_with_the_variables_of_trainer_2_4_resume(situation: Situation) -> None:
    assert situation.entries(TO_2_4, [job()], [runtime(variables=OPEN_MPI_5)]) == {}
    three = situation.entries(TO_2_4, [job()], [runtime(variables=OPEN_MPI_5[:3])])
    hit = three["trainer-2-4-suspended-jobs"]["hits"][0]
    assert hit["detail"] == "changes launcher: env[PRTE_MCA_plm_ssh_args]"
    other_slots = situation.entries(TO_2_4, [job(trainer={"numProcPerNode": 4})], [runtime(variables=OPEN_MPI_5)])
    hit = other_slots["trainer-2-4-suspended-jobs"]["hits"][0]
    assert hit["detail"] == "changes launcher: env[PRTE_MCA_prte_set_default_slots]"


def test_the_runtime_of_the_creation_of_a_job_counts(situation: Situation) -> None:
    kept = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "train-runtime-snapshot", "namespace": "team-a"},
        "data": {"runtime": yaml.safe_dump(runtime())},
    }
    new = [runtime(variables=OPEN_MPI_5)]
    assert "trainer-2-4-suspended-jobs" in situation.entries(TO_2_4, [job(), kept], new)
    kept["data"] = {"runtime": yaml.safe_dump(new[0])}
    assert situation.entries(TO_2_4, [job(), kept]) == {}


def test_a_job_without_a_job_set_gets_the_new_pods(situation: Situation) -> None:
    job_set = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "a", "namespace": "team-a"},
    }
    entry = situation.entries(TO_2_4, [job("a"), job("b"), job_set])["trainer-2-4-suspended-jobs"]
    assert [hit["resource"] for hit in entry["hits"]] == ["TrainJob team-a/a"]


def test_the_image_of_a_job_reaches_the_nodes_on_trainer_2_4(situation: Situation) -> None:
    release = [runtime(variables=OPEN_MPI_5)]
    entry = situation.entries(TO_2_4, [job(trainer={"image": "quay.io/acme/mpi:2"})], release)[
        "trainer-2-4-suspended-jobs"
    ]
    assert entry["hits"][0]["detail"] == "changes node: containers[node].image"
    assert entry["today"] == ""  # no variable helps
    assert situation.entries(TO_2_4, [job(trainer={"image": "quay.io/acme/mpi:1"})], release) == {}


def test_a_job_with_an_unknown_runtime_is_undecided(situation: Situation) -> None:
    entry = situation.entries(TO_2_4, [job(runtimeRef={"name": "lost"})])["trainer-2-4-suspended-jobs"]
    assert entry["hits"][0]["detail"] == "unknown: these files define no ClusterTrainingRuntime `lost`"


def test_a_job_with_a_variable_that_trainer_2_4_sets_can_no_longer_be_updated(situation: Situation) -> None:
    release = [runtime(variables=OPEN_MPI_5)]
    entries = situation.entries(TO_2_4, [job(suspend=False, trainer={"env": [OPEN_MPI_5[3]]})], release)
    (hit,) = entries["trainer-2-4-reserved-variables"]["hits"]
    assert hit["detail"] == "`trainer.env` sets `PRTE_MCA_plm_ssh_args`, which only Trainer can set"
    assert hit["state"] == "running"
    assert situation.entries(TO_2_4, [job(trainer={"env": [{"name": "OTHER", "value": "1"}]})], release) == {}


def test_suspended_mpi_jobs_cannot_resume_on_trainer_2_3(situation: Situation) -> None:
    report = situation.report(TO_2_3, [job()])
    (entry,) = [entry for entry in report["entries"] if entry["id"] == "trainer-2-3-suspended-jobs"]
    assert entry["announced"] is False
    assert "node: volumes[mpi-ssh-auth].secret.defaultMode" in entry["hits"][0]["detail"]
    (step,) = report["steps"]
    assert step["components"] == {"jobset": {"from": "0.11", "to": "0.12"}, "trainer": {"from": "2.2", "to": "2.3"}}
    assert {pair["needs"] for pair in step["pairs"]} == {"jobset"}
    plain = runtime()
    del plain["spec"]["mlPolicy"]["mpi"]
    assert situation.entries(TO_2_3, [job()], [plain]) == {}


def test_a_job_is_hit_by_the_first_step_alone(situation: Situation) -> None:
    versions = ("--from", "trainer=2.2,jobset=0.11,kueue=0.19", "--to", "trainer=2.4,jobset=0.12")
    report = situation.report(versions, [job()])
    assert [(entry["id"], entry["step"]) for entry in report["entries"]] == [("trainer-2-3-suspended-jobs", 1)]
    assert [step["components"].get("trainer") for step in report["steps"]] == [
        {"from": "2.2", "to": "2.3"},
        {"from": "2.3", "to": "2.4"},
    ]
    assert any(note.startswith("Trainer goes through 2.3, because ") for note in report["notes"])


def test_clients_and_stored_versions_of_a_removed_api(situation: Situation) -> None:
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {
            "name": "a",
            "namespace": "team-a",
            "managedFields": [{"manager": "old-client", "apiVersion": "kueue.x-k8s.io/v1beta1"}],
        },
    }
    entry = situation.entries(TO_0_20, [queue, definition("v1beta1", "v1beta2")])["kueue-0-20-removed-version"]
    assert [hit["detail"] for hit in entry["hits"]] == [
        "written by `old-client` as `kueue.x-k8s.io/v1beta1`",
        "etcd can have objects in the version `v1beta1`",
    ]
    queue["metadata"]["managedFields"][0]["apiVersion"] = "kueue.x-k8s.io/v1beta2"  # type: ignore[index]
    assert situation.entries(TO_0_20, [queue, definition("v1beta2")]) == {}


def test_objects_of_a_release_in_a_removed_api(situation: Situation) -> None:
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ResourceFlavor", "metadata": {"name": "a"}}
    entry = situation.entries(TO_0_20, [priority_class("low")], [flavor])["schema/removed-version"]
    assert (entry["class"], entry["hits"][0]["resource"]) == ("manual", "ResourceFlavor a")
    assert (entry["hits"][0]["file"], entry["hits"][0]["line"]) == ("release/objects.yaml", 1)
    flavor["apiVersion"] = "kueue.x-k8s.io/v1beta2"
    assert situation.entries(TO_0_20, [priority_class("low")], [flavor]) == {}


def test_a_default_priority_class(situation: Situation) -> None:
    assert "kueue-0-20-default-priority" in situation.entries(TO_0_20, [priority_class("default")])
    assert situation.entries(TO_0_20, [priority_class("low")]) == {}
    assert situation.entries(TO_2_4, [priority_class("default")]) == {}


def test_a_negative_count_of_a_workload(situation: Situation) -> None:
    entry = situation.entries(TO_0_20, [workload({"subGroupCount": -1})])["kueue-0-20-negative-count"]
    assert entry["jobs"] == {"pending": 1}
    assert situation.entries(TO_0_20, [workload({"subGroupCount": 1})]) == {}
    assert situation.entries(TO_0_20, [done(workload({"subGroupCount": -1}))]) == {}


def test_long_names_of_replicated_jobs(situation: Situation) -> None:
    entry = situation.entries(TO_2_4, [priority_class("low")], [runtime(replicated_job="a" * 21)])[
        "runtime/long-job-name"
    ]
    assert (entry["class"], entry["hits"][0]["file"]) == ("manual", "release/objects.yaml")
    names = situation.entries(TO_2_4, [priority_class("low")], [runtime(replicated_job="a" * 20)])
    assert "runtime/long-job-name" not in names


def test_versions_that_do_not_work_together(situation: Situation) -> None:
    versions = ("--from", "trainer=2.2,jobset=0.11,kueue=0.19", "--to", "kueue=0.20")
    report = situation.report(versions, [priority_class("low")])
    (entry,) = report["entries"]
    assert (entry["class"], entry["pair"]["needs"], entry["pair"]["accepted"]) == ("blocked", "trainer", "2.3 or newer")
    assert entry["before"] == "add `trainer=2.3` to `--to`"
    assert report["steps"] == []
    together = situation.report((*versions, "--to", "trainer=2.3,jobset=0.12"), [priority_class("low")])
    assert together["entries"] == []
    assert [sorted(step["components"]) for step in together["steps"]] == [["jobset", "trainer"], ["kueue"]]


def test_other_training_operators(situation: Situation) -> None:
    cluster = [kubeflow_job("v2beta1", "MPIJob"), kubeflow_job("v1", "PyTorchJob")]
    entries = situation.entries(TO_2_4, cluster)
    assert {name: entry["class"] for name, entry in entries.items()} == {
        "mpi-operator-beside-trainer": "safe",
        "training-operator-beside-trainer": "safe",
    }
    assert all(entry["jobs"] == {"running": 1} for entry in entries.values())
    assert situation.entries(TO_0_20, cluster) == {}


def test_kueue_waits_for_pods_by_default(situation: Situation) -> None:
    versions = ("--from", "trainer=2.3,jobset=0.12,kueue=0.18", "--to", "kueue=0.19")
    assert "kueue-0-19-waits-for-pods" in situation.entries(versions, [configuration("")])
    assert situation.entries(versions, [configuration("waitForPodsReady: {timeout: 1h}\n")]) == {}


def test_the_text_names_steps_jobs_and_sources(situation: Situation) -> None:
    ran = situation.run(TO_2_4, [job("waits")], [runtime(variables=OPEN_MPI_5[:3])], "text")
    lines, name = ran.stdout.splitlines(), "trainer-2-4-suspended-jobs"
    assert lines[:4] == [
        "release: Trainer 2.3 to 2.4",
        "announced: not verified against its code: Trainer 2.4",
        "steps",
        "  1. Trainer 2.3 to 2.4",
    ]
    assert lines[4].startswith("     today: set `PRTE_MCA_plm_ssh_args: -o ConnectionAttempts=10` in the launcher of ")
    assert lines[5:8] == [
        f"     before: let these TrainJobs finish, or delete the pending and suspended ones (1 pending) [{name}]",
        f"     after: create the deleted TrainJobs again [{name}]",
        "changes",
    ]
    assert lines[8].startswith("  manual      Trainer 2.4 cannot resume a suspended TrainJob of an older version if ")
    assert lines[9:12] == [
        "                cluster.json:9: TrainJob team-a/waits (pending): changes launcher: env[PRTE_MCA_plm_ssh_args]",
        "                source: https://github.com/kubeflow/trainer/releases/tag/v2.4.0 (announced)",
        "changes by class: 1 manual",
    ]
    markdown = situation.run(TO_2_4, [job("waits")], None, "markdown").stdout
    assert markdown.startswith("### release: Trainer 2.3 to 2.4\n\nChanges by class: 1 manual.\n")
    assert "\n1. Trainer 2.3 to 2.4\n    - today: set `PRTE_MCA_prte_default_hostfile" in markdown


def test_fail_on_sets_the_class_that_fails(situation: Situation) -> None:
    for threshold, code in (("safe", 1), ("mechanical", 1), ("manual", 1), ("blocked", 0)):
        assert situation.run((*TO_2_4, "--fail-on", threshold), [job()], None, "text").returncode == code
    mpi_job = [kubeflow_job("v2beta1", "MPIJob")]
    assert situation.run((*TO_2_4, "--fail-on", "safe"), mpi_job, None, "text").returncode == 1
    assert situation.run(TO_2_4, mpi_job, None, "text").returncode == 0


def test_all_mistakes_in_versions_are_reported_at_once(situation: Situation, tmp_path: Path) -> None:
    (tmp_path / "runtime.yaml").write_text(json.dumps(runtime()))
    versions = (
        "--to",
        "kueu=0.20,trainer=9.9,argocd",
        "--to",
        "jobset=0.11,kueue=0.19",
        "--from",
        "jobset=0.12,kueue=0.19",
    )
    ran = situation.call("upgrade", ".", *versions, "--to", "kubernetes=1.34")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.splitlines() == [
        "error: --to: `kueu` is not a component; did you mean `kueue`?",
        "error: --to: `9.9` is not a known minor version of Trainer; write one of: 2.2, 2.3, 2.4",
        "error: --to: `argocd` is not a component with a version; write COMPONENT=MINOR, such as `kueue=0.20`",
        "error: --to: JobSet 0.11 is older than the present version 0.12; name a newer version",
        "error: --to: Kueue 0.19 is the present version; name a newer version, or remove it",
        "error: --to: the present version of Kubernetes is unknown; add `--from kubernetes=MINOR`",
    ]


def test_a_platform_file_is_rendered_for_both_versions(mpigen: Run, tmp_path: Path) -> None:
    platform = tmp_path / "platform.yaml"
    platform.write_text(EXAMPLES["cpu-kubernetes"].read_text())
    ran = mpigen("upgrade", "platform.yaml", "--to", "kueue=0.20,trainer=2.4", "--format", "json")
    summary = json.loads(ran.stdout)["summary"]
    assert ran.returncode == 0
    assert [entry["id"] for entry in summary["entries"]] == ["synth"]
    assert summary["entries"][0]["hits"][0]["file"] == "platform.yaml"
    assert summary["announced"] == ["Trainer 2.4", "Kueue 0.20"]
    assert not (tmp_path / "output").exists()
    hand_written = "extra:\n- {apiVersion: kueue.x-k8s.io/v1beta1, kind: ResourceFlavor, metadata: {name: own}}\n"
    platform.write_text(EXAMPLES["cpu-kubernetes"].read_text() + hand_written)
    ran = mpigen("upgrade", "--to", "kueue=0.20", "--format", "json")
    (entry, _) = json.loads(ran.stdout)["summary"]["entries"]
    assert (ran.returncode, entry["id"], entry["class"]) == (1, "schema/removed-version", "manual")
    assert entry["hits"][0]["file"] == "platform.yaml"
    assert platform.read_text().splitlines()[entry["hits"][0]["line"] - 1].startswith("- {apiVersion: kueue")


def test_a_platform_file_with_versions_that_do_not_work_together(mpigen: Run, tmp_path: Path) -> None:
    text = EXAMPLES["cpu-kubernetes"].read_text() + 'cluster: {versions: {trainer: "2.2", jobset: "0.11"}}\n'
    (tmp_path / "platform.yaml").write_text(text)
    ran = mpigen("upgrade", "platform.yaml", "--to", "kueue=0.20")
    assert ran.returncode == 1
    assert "  blocked     Kueue 0.20 needs Trainer 2.3 or newer, not 2.2: " in ran.stdout
    assert "note: mpigen did not render the release for the new versions" in ran.stdout


def test_a_version_that_no_release_of_openshift_has_is_blocked(mpigen: Run, tmp_path: Path) -> None:
    text = (
        EXAMPLES["cpu-kubernetes"].read_text() + 'cluster: {distribution: openshift, versions: {kubernetes: "1.34"}}\n'
    )
    (tmp_path / "platform.yaml").write_text(text)
    ran = mpigen("upgrade", "platform.yaml", "--to", "kubernetes=1.36")
    assert ran.returncode == 1
    message = "`cluster.versions.kubernetes`: no supported release of OpenShift has Kubernetes 1.36"
    assert f"  blocked     {message} [platform]" in ran.stdout
    assert mpigen("upgrade", "platform.yaml", "--to", "kubernetes=1.35").returncode == 0


def test_a_source_in_markdown_is_a_link(situation: Situation) -> None:
    ran = situation.run(TO_0_20, [priority_class("default")], None, "markdown")
    assert "    - source: https://github.com/kubernetes-sigs/kueue/pull/13719 (announced)" in ran.stdout
