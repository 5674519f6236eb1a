"""Test that the real Trainer and JobSet treat broken MPI runtimes as the checks report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from time import sleep

import pytest

from generator.checks.run import check_text
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from tests.checks import CASES
from tests.cluster.client import Body, Client, wait_until
from tests.cluster.control_plane import FINISH, Cluster
from tests.cluster.hand_written import CHECKS, NODE, OF_44, OF_45, OF_51, OF_52, Attempt, attempt, attempt_everything
from tests.cluster.modules import module_folder

pytestmark = pytest.mark.cluster

Attempts = dict[str, Attempt]


@pytest.fixture(scope="module")
def attempts(admin: Client) -> Iterator[Attempts]:
    """Create a TrainJob on each broken runtime, and the other attempts of this module, all at once."""
    body: Body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "by-hand"}}
    for each in (body, NODE):
        admin.create(each)
    yield attempt_everything(admin, "by-hand")
    for each in (body, NODE):
        admin.delete(each)


def finish(of: Attempt, role: str = "launcher") -> None:
    """Let the running pods of a job succeed."""
    wait_until(f"{of.name}: the {role} runs", lambda: of.run(role))
    for pod in of.pods(role):
        metadata = {"name": pod["metadata"]["name"], "namespace": of.namespace, "annotations": {FINISH: "yes"}}
        of.admin.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}, "tests")


def test_the_launcher_on_a_valid_runtime_reaches_its_hosts_and_completes(attempts: Attempts) -> None:
    sound = attempts["sound"]
    assert sound.hosts == ["sound-node-0-0.sound slots=8", "sound-launcher-0-0.sound slots=8"]
    assert [sound.mounts(role) for role in ("node", "launcher")] == [{"mpi-ssh-auth"}, {"mpi-ssh-auth", "mpi-hostfile"}]
    finish(sound)
    wait_until("the TrainJob is complete", sound.is_complete)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("job-order-first", "DependsOn can't be set for the first ReplicatedJob"),
        ("job-order-unknown", "launcher cannot depend on replicatedJob: nodes"),
        (OF_45, "pod names generated for this JobSet will exceed 63 characters"),
        (OF_52, "pod names generated for this JobSet will exceed 63 characters"),
    ],
)
def test_jobs_with_event_errors_are_accepted_and_get_no_job_set(attempts: Attempts, name: str, words: str) -> None:
    assert attempts[name].refusal == ""
    assert words in attempts[name].failure
    assert attempts[name].object("jobset.x-k8s.io/v1alpha2", "JobSet") is None


def test_an_unset_mpi_implementation_is_rejected(attempts: Attempts, admin: Client) -> None:
    """Kueue calls Trainer's code before it accepts a TrainJob, but its webhooks ignore kube-system."""
    words = r"MPI implementation for \w+ doesn't supported"
    assert re.search(words, attempts["implementation"].refusal)
    name, text = "implementation", CASES["mpi/implementation"].bad
    without_kueue = attempt(admin, "kube-system", {name: text}, [(name, name, {})])[name]
    try:
        assert without_kueue.refusal == ""
        assert re.search(words, without_kueue.failure)
        assert without_kueue.object("jobset.x-k8s.io/v1alpha2", "JobSet") is None
    finally:
        without_kueue.remove()


def test_a_runtime_without_an_image_gets_no_job(attempts: Attempts) -> None:
    for name in ("image", "sdk-no-image"):
        assert "image: Required value" in attempts[name].failure
    assert attempts["image-of-trainjob"].container("launcher")["image"] == "mpi"


@pytest.mark.parametrize("name", [OF_44, OF_51])
def test_names_one_character_below_the_limit_fit(attempts: Attempts, name: str) -> None:
    assert attempts[name].job_set["metadata"]["name"] == name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("replicas-of-launcher", "always must be 1"),
        ("container-of-launcher", "must contain the required container"),
    ],
)
def test_launchers_with_replicas_or_another_container_are_rejected(attempts: Attempts, name: str, words: str) -> None:
    assert words in attempts[name].refusal


def test_a_reserved_variable_is_rejected_since_trainer_2_3(attempts: Attempts, cluster: Cluster) -> None:
    refusal = attempts["reserved"].refusal
    assert ("must not have reserved envs" in refusal) is not cluster.versions["trainer"].version.startswith("v2.2.")


def test_num_nodes_sets_launchers_and_parallelism_sets_hosts(attempts: Attempts) -> None:
    def pods(name: str) -> list[int]:
        return [attempts[name].job(role)["template"]["spec"]["parallelism"] for role in ("node", "launcher")]

    assert pods("sound") == [1, 1]
    assert pods("launchers") == [1, 3]
    assert pods("launchers-by-default") == [1, 3]
    assert pods("hosts-by-default") == [2, 1]


def test_slots_are_declared_or_guessed(attempts: Attempts) -> None:
    def slots(name: str) -> set[str]:
        return {line.partition(" ")[2] for line in attempts[name].hosts}

    assert slots("processes") == {"slots=0"}
    assert slots("guessed-processes-not-said") == {"slots=8"}
    assert slots("guessed-processes-one") == {"slots=8"}
    assert slots("guessed-away") == {"slots=1"}


def test_one_node_runs_two_hosts_and_the_image_applies_only_to_the_launcher(attempts: Attempts) -> None:
    one = attempts["one-node"]
    assert one.hosts == ["one-node-node-0-0.one-node slots=8", "one-node-launcher-0-0.one-node slots=8"]
    assert one.container("launcher")["image"] == "another"
    assert one.container("node")["image"] == attempts["sound"].container("node")["image"] != "another"


def test_jobs_and_containers_with_other_names_get_no_mpi_mounts(attempts: Attempts) -> None:
    assert "does not have either launcher and node" in attempts["jobs"].refusal
    assert attempts["one-host"].mounts("worker") == set()
    assert attempts["one-host"].hosts == ["one-host-launcher-0-0.one-host slots=8"]
    assert attempts["container-of-hosts"].mounts("node") == set()
    assert attempts["container-of-hosts"].mounts("launcher") == {"mpi-ssh-auth", "mpi-hostfile"}


def test_the_command_is_set_on_the_job_with_the_trainer_label(attempts: Attempts) -> None:
    command = ["mpirun", "hostname"]
    assert attempts["sound"].container("launcher")["command"] == command
    for name in ("step-label-missing", "step-label-on-pods", "step-label-of-another"):
        assert "command" not in attempts[name].container("launcher")
    assert attempts["step-label-on-hosts"].container("node")["command"] == command


def test_replicas_multiply_hosts(attempts: Attempts) -> None:
    job = attempts["replicas-of-hosts"].job("node")
    assert (job["replicas"], job["template"]["spec"]["parallelism"]) == (2, 1)


def test_jobs_with_one_subdomain_share_a_service(attempts: Attempts, admin: Client) -> None:
    pair = attempts["subdomain"], attempts["subdomain-again"]
    for each in pair:
        wait_until(f"{each.name} has pods", lambda each=each: bool(each.pods("node")))  # type: ignore[misc]
        assert [pod["spec"]["subdomain"] for pod in each.pods("node")] == ["shared"]
    services = [found for found in admin.items("v1", "Service", "by-hand") if found["metadata"]["name"] == "shared"]
    selected = [found["spec"]["selector"]["jobset.sigs.k8s.io/jobset-name"] for found in services]
    assert len(selected) == 1
    assert selected[0] in {each.name for each in pair}


def test_pods_get_dns_names_from_a_service_and_an_index(attempts: Attempts) -> None:
    def names(name: str) -> tuple[str | None, str | None]:
        of = attempts[name]
        wait_until(f"{name} has pods", lambda: bool(of.pods("node")))
        spec = of.pods("node")[0]["spec"]
        return spec.get("hostname"), spec.get("subdomain")

    assert names("readiness") == ("readiness-node-0-0", "readiness")
    assert names("host-names-off") == ("host-names-off-node-0-0", None)
    assert names("host-names-not-indexed") == (None, "host-names-not-indexed")


@pytest.mark.parametrize("name", ["success-policy-missing", "success-policy-of-hosts"])
def test_a_job_that_waits_for_its_hosts_never_completes(attempts: Attempts, name: str) -> None:
    finish(attempts[name])
    of = attempts[name]
    wait_until("mpirun has ended", lambda: of.pods("launcher")[0]["status"]["phase"] == "Succeeded")
    sleep(1)
    assert not of.is_complete()
    assert of.run("node")


def test_a_job_that_ignores_its_launcher_completes_before_it(attempts: Attempts) -> None:
    of = attempts["success-policy-early"]
    wait_until("mpirun runs", lambda: of.run("launcher"))
    finish(of, "data")
    wait_until("the TrainJob is complete", of.is_complete)


def test_a_launcher_that_waits_for_the_end_of_its_hosts_never_starts(attempts: Attempts) -> None:
    wait_until("the hosts run", lambda: attempts["deadlock"].run("node"))
    sleep(1)
    assert attempts["deadlock"].pods("launcher") == []


@pytest.mark.parametrize("name", ["gang", "gang-in-order"])
def test_a_pod_group_counts_a_launcher_that_is_never_created(attempts: Attempts, name: str) -> None:
    of = attempts[name]
    wait_until("there are hosts", lambda: bool(of.pods("node")))
    group = of.object("scheduling.x-k8s.io/v1alpha1", "PodGroup")
    assert group is not None
    assert group["spec"]["minMember"] == 2
    assert of.pods("launcher") == []


def test_trainer_sets_no_scheduler_name(attempts: Attempts) -> None:
    pod = attempts["gang"].job("node")["template"]["spec"]["template"]["spec"]
    assert pod["schedulerName"] == "gangs"
    assert "schedulerName" not in attempts["sound"].job("node")["template"]["spec"]["template"]["spec"]


def test_the_ssh_key_is_group_readable_since_trainer_2_3(attempts: Attempts, cluster: Cluster) -> None:
    volumes = attempts["ssh-as-root-by-default"].job("node")["template"]["spec"]["template"]["spec"]["volumes"]
    (key,) = (item for item in volumes[0]["secret"]["items"] if item["path"] == "id_rsa")
    is_old = cluster.versions["trainer"].version.startswith("v2.2.")
    assert key.get("mode") == (None if is_old else 0o640)
    (mount,) = attempts["ssh-as-root-by-default"].container("node")["volumeMounts"]
    assert mount["mountPath"] == "/root/.ssh"


def test_trainer_variables_override_runtime_variables(attempts: Attempts) -> None:
    variables = {each["name"]: each["value"] for each in attempts["overridden-variable"].container("launcher")["env"]}
    assert variables["OMPI_MCA_plm_rsh_args"] == "-o ConnectionAttempts=10"
    assert variables["OMPI_MCA_orte_set_default_slots"] == "8"
    assert {name for name in variables if name.startswith("PRTE")} == {"PRTE_MCA_prte_default_hostfile"}


def test_upstream_runtimes_of_trainer_have_only_one_warning(cluster: Cluster) -> None:
    """Their Dockerfiles install Open MPI 5, and their launchers set no hostfile."""
    trainer = cluster.versions["trainer"]
    engine = Engine(Catalog.bundled({"trainer": trainer.version[1:].rpartition(".")[0]}))
    files = (module_folder(trainer) / "manifests/base/runtimes").rglob("*.yaml")
    findings = {file.name: check_text(file.read_bytes(), file.name, engine).findings for file in files}
    told = {name: {finding.check for finding in found} & {*CHECKS} for name, found in findings.items()}
    assert {name: checks for name, checks in told.items() if checks} == {
        "deepspeed_distributed.yaml": {"mpi/open-mpi-5"},
        "mlx_distributed.yaml": {"mpi/open-mpi-5"},
    }
