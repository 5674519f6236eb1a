"""Test copies of runtimes with other images: what `job new --image` writes, and what the admission rules reject."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

from generator import JobRequest, catalogue, check_jobs, compile_jobs, new_job
from generator.config.load import load_platform
from generator.errors import ConfigError
from generator.facts.names import BASE
from generator.jobs.catalogue import Catalogue
from generator.jobs.own_image import name_of_copy
from generator.jobs.reach import JobError
from generator.manifests import Body, Manifest
from generator.schemas.catalog import Catalog
from generator.upstream.kubernetes.admission_policies.judge import judge
from generator.upstream.kubernetes.admission_policies.policy import PolicyCluster
from generator.upstream.kubernetes.admission_policies.request import Request, UserInfo, as_stored

PLATFORM = """
platform: own
release: 1.0.0
pools:
  - {name: cpu, nodes: 8, allocatable: {cpu: 16, memory: 64Gi}}
runtimes:
  - {name: openmpi, pool: cpu, image: quay.io/acme/openmpi:5, images: ["quay.io/acme/*", "ghcr.io/acme/train:1"]}
  - {name: team, pool: cpu, image: quay.io/acme/openmpi:5, tenants: [team-a], images: ["quay.io/acme/train:*"]}
  - {name: fixed, pool: cpu, image: quay.io/acme/openmpi:5}
tenants:
  - {name: team-a, quota: {cpu: 4}, registries: [quay.io/acme/], access: {submit: [user:ada], edit: [user:eve]}}
  - {name: team-b, quota: {cpu: 4}, access: {submit: [user:bob]}}
gitops: {repository: https://git.example.com/platform.git, grant: true}
"""
IMAGE = "quay.io/acme/my-train:v1.0_a"
ADA = UserInfo("ada", ("system:authenticated",))


@cache
def offer() -> Catalogue:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "platform.yaml"
        path.write_text(PLATFORM)
        return catalogue(path)


@cache
def world() -> PolicyCluster:
    return PolicyCluster(offer().objects, Catalog.bundled())


def job(runtime: str = "openmpi", image: str = IMAGE) -> list[Body]:
    made = new_job(offer(), JobRequest(runtime=runtime, tenant="team-a", image=image, command=("mpirun", "a")))
    return [*made.others, *made.bodies]


def denied(body: Body | None, old: Body | None = None, user: UserInfo = ADA) -> list[str]:
    """Return the policies that reject the request to write a TrainingRuntime."""
    some = body or old or {}
    kind = world().kind(some["apiVersion"], some["kind"])
    namespace, name = some["metadata"]["namespace"], some["metadata"]["name"]
    operation = "DELETE" if body is None else "CREATE" if old is None else "UPDATE"
    new, before = (as_stored(each, namespace, kind) if each else None for each in (body, old))
    request = Request(operation, kind, new, before, user, namespace, name)
    return [each.policy.removeprefix("own-") for each in judge(request, world()) if not each.holds]


def test_every_container_with_the_image_of_the_ranks_has_the_other_image() -> None:
    runtime, train_job = job()
    assert (runtime["kind"], runtime["metadata"]["namespace"]) == ("TrainingRuntime", "team-a")
    assert train_job["spec"]["runtimeRef"] == {"name": runtime["metadata"]["name"], "kind": "TrainingRuntime"}
    made = new_job(offer(), JobRequest(runtime="openmpi", tenant="team-a", image=IMAGE, command=("mpirun", "a")))
    pods = [body for body in compile_jobs(made, offer()) if body["kind"] == "Pod"]
    images = {
        container["image"]
        for pod in pods
        for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", []))
    }
    assert len(pods) >= 2
    assert images == {IMAGE}


@pytest.mark.parametrize("runtime", ["openmpi", "team"])
def test_the_printed_job_is_admitted_for_its_owner(runtime: str) -> None:
    image = "quay.io/acme/train:2"
    made = new_job(
        offer(), JobRequest(runtime=runtime, tenant="team-a", image=image, command=("mpirun", "a"), owner="ada")
    )
    (verdict,) = check_jobs(made, offer(), user="user:ada")
    assert (verdict.verdict, verdict.findings) == ("admitted", ())
    assert denied(made.others[0]) == []


def test_the_image_of_the_runtime_needs_no_copy() -> None:
    (train_job,) = job(image="quay.io/acme/openmpi:5")
    assert train_job["spec"]["runtimeRef"] == {"name": "openmpi"}


@pytest.mark.parametrize(
    ("runtime", "image", "told"),
    [
        ("openmpi", "docker.io/evil/x:1", "does not allow the image `docker.io/evil/x:1`; use ghcr.io/acme/train:1 or"),
        ("openmpi", "quay.io/acme-evil/x:1", "does not allow the image"),
        ("team", "quay.io/acme/trainer:1", "does not allow the image"),
        ("fixed", IMAGE, "allows no other image than quay.io/acme/openmpi:5"),
        ("openmpi", "quay.io/acme/x:V1", "cannot have `V`; name the image by its digest"),
        ("openmpi", "quay.io/acme/x y", "is not an image reference"),
        ("openmpi", f"quay.io/acme/{'x' * 240}:1", "characters, more than 253"),
    ],
)
def test_an_image_that_the_api_server_would_reject_is_an_error(runtime: str, image: str, told: str) -> None:
    with pytest.raises(JobError) as caught:
        job(runtime, image)
    assert told in str(caught.value)


def test_the_registries_of_a_team_apply_to_its_copies() -> None:
    made = new_job(
        offer(), JobRequest(runtime="openmpi", tenant="team-a", image="ghcr.io/acme/train:1", command=("mpirun", "a"))
    )
    (verdict,) = check_jobs(made, offer())
    assert verdict.verdict == "rejected"
    assert "ghcr.io/acme/train:1 is not from a registry of this team" in str(verdict.findings)
    made = new_job(
        offer(),
        JobRequest(
            runtime="openmpi", tenant="team-b", image="ghcr.io/acme/train:1", command=("mpirun", "a"), owner="bob"
        ),
    )
    (verdict,) = check_jobs(made, offer())
    assert verdict.verdict == "admitted"


def _pod(body: Body, number: int = 0) -> Body:
    pod: Body = body["spec"]["template"]["spec"]["replicatedJobs"][number]["template"]["spec"]["template"]["spec"]
    return pod


def _rename(body: Body, name: str) -> None:
    body["metadata"]["name"] = name


CHANGES: dict[str, Callable[[Body], object]] = {
    "privileged": lambda body: _pod(body)["containers"][0]["securityContext"].update(privileged=True),
    "no securityContext": lambda body: _pod(body)["containers"][0].pop("securityContext"),
    "command": lambda body: _pod(body)["containers"][0].update(command=["sh"]),
    "variable": lambda body: _pod(body, 1)["containers"][0].setdefault("env", []).append({"name": "A", "value": "b"}),
    "resources": lambda body: _pod(body)["containers"][0]["resources"]["requests"].update(cpu="1"),
    "another container": lambda body: _pod(body)["containers"].append({"name": "more", "image": IMAGE}),
    "init container removed": lambda body: _pod(body)["initContainers"].pop(),
    "init container twice": lambda body: _pod(body)["initContainers"].append(_pod(body)["initContainers"][0]),
    "init containers in another order": lambda body: _pod(body, 1)["initContainers"].reverse(),
    "host path": lambda body: _pod(body)["volumes"].append({"name": "host", "hostPath": {"path": "/"}}),
    "ServiceAccount": lambda body: _pod(body).update(serviceAccountName="default"),
    "host network": lambda body: _pod(body).update(hostNetwork=True),
    "tolerations": lambda body: _pod(body).update(tolerations=[{"operator": "Exists"}]),
    "node selector": lambda body: _pod(body).pop("nodeSelector", None) or _pod(body).update(nodeName="node-1"),
    "pod labels": lambda body: body["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"][
        "metadata"
    ]["labels"].update({"mpigen.dev/runtime": "other"}),
    "Job": lambda body: body["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"].update(
        backoffLimit=9
    ),
    "replicas": lambda body: body["spec"]["template"]["spec"]["replicatedJobs"][0].update(replicas=9),
    "another replicated job": lambda body: body["spec"]["template"]["spec"]["replicatedJobs"].append(
        {**copy.deepcopy(body["spec"]["template"]["spec"]["replicatedJobs"][0]), "name": "more"}
    ),
    "a replicated job twice": lambda body: body["spec"]["template"]["spec"]["replicatedJobs"].append(
        body["spec"]["template"]["spec"]["replicatedJobs"][0]
    ),
    "no replicated jobs": lambda body: body["spec"]["template"]["spec"].update(replicatedJobs=[]),
    "JobSet": lambda body: body["spec"]["template"]["spec"].update(failurePolicy={"maxRestarts": 100}),
    "JobSet's metadata": lambda body: body["spec"]["template"].update(metadata={"labels": {"a": "b"}}),
    "mlPolicy": lambda body: body["spec"]["mlPolicy"].update(numNodes=2),
    "no mlPolicy": lambda body: body["spec"].pop("mlPolicy"),
    "an image outside": lambda body: _pod(body)["containers"][0].update(image="docker.io/evil/x:1"),
    "two images": lambda body: _pod(body)["containers"][0].update(image="quay.io/acme/other:1"),
    "an image outside in an init container": lambda body: _pod(body)["initContainers"][0].update(image="evil.io/x:1"),
    "no image": lambda body: _pod(body)["containers"][0].pop("image"),
    "the name of another image": lambda body: _rename(body, body["metadata"]["name"].replace("my--train", "train")),
    "the name of an earlier version": lambda body: _rename(
        body, "openmpi.0000000000-" + body["metadata"]["name"].partition("-")[2]
    ),
    "a name of its own": lambda body: _rename(body, "mine"),
    "no label": lambda body: body["metadata"]["labels"].pop(BASE),
    "another runtime in the label": lambda body: body["metadata"]["labels"].update({BASE: "fixed"}),
    "no runtime in the label": lambda body: body["metadata"]["labels"].update({BASE: "absent"}),
    "the runtime of the team in the label": lambda body: body["metadata"]["labels"].update({BASE: "team"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_copy_with_another_difference_is_denied(change: str) -> None:
    body = copy.deepcopy(job()[0])
    before = copy.deepcopy(body)
    CHANGES[change](body)
    assert body != before
    assert denied(body)
    assert denied(body, old=before)
    assert denied(body, user=UserInfo("eve", ("system:authenticated",)))


def test_users_write_copies_and_no_other_runtimes() -> None:
    body = job()[0]
    (base,) = (item.body for item in offer().objects if (item.kind, item.name) == ("TrainingRuntime", "team"))
    assert denied(body, old=body) == []
    assert denied(None, old=body) == []
    assert "copies" in denied(None, old=base)
    assert "copies" in denied(base, old=base)
    labelled = copy.deepcopy(base)
    labelled["metadata"].setdefault("labels", {})[BASE] = "team"
    assert "copies" in denied(labelled, old=base)
    assert "copies" in denied({**body, "metadata": {**body["metadata"], "labels": {BASE: "team"}}}, old=body)


def test_jobs_use_copies_of_the_runtime_as_it_is_now() -> None:
    runtime, train_job = job()
    earlier = copy.deepcopy(train_job)
    name = runtime["metadata"]["name"].replace(
        name_of_copy(offer().runtimes["openmpi"], "").partition(".")[2][:10], "0" * 10
    )
    earlier["spec"]["runtimeRef"]["name"] = name
    (verdict,) = check_jobs(
        [earlier], user="user:ada", cluster=_with({**runtime, "metadata": {**runtime["metadata"], "name": name}})
    )
    assert verdict.verdict == "rejected"
    assert "this team cannot use the runtime" in str(verdict.findings)


def test_an_image_that_is_no_longer_allowed_ends_its_copies(tmp_path: Path) -> None:
    runtime, train_job = job()
    (tmp_path / "platform.yaml").write_text(PLATFORM.replace('"quay.io/acme/*"', '"quay.io/acme/other:*"'))
    cluster = catalogue(tmp_path / "platform.yaml")
    later = Catalogue([*cluster.objects, Manifest(runtime, "")], cluster.targets)
    (verdict,) = check_jobs([train_job], later, user="user:ada")
    assert verdict.verdict == "rejected"
    assert "this team cannot use the runtime" in str(verdict.findings)


def _with(runtime: Body) -> Catalogue:
    return Catalogue([*offer().objects, Manifest(runtime, "")], offer().targets)


def test_rules_about_resources_apply_to_jobs_on_copies() -> None:
    train_job = job()[1]
    train_job["spec"]["trainer"]["resourcesPerNode"] = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    (verdict,) = check_jobs([train_job], _with(job()[0]), user="user:ada")
    assert "does not fit ClusterTrainingRuntime/openmpi: add memory" in str(verdict.findings)


def test_jobs_on_copies_need_the_cost_labels_of_the_team(tmp_path: Path) -> None:
    costs = PLATFORM.replace("quota: {cpu: 4}", "quota: {cpu: 4}, labels: {example.com/cost: a}")
    (tmp_path / "platform.yaml").write_text(f"{costs}policies: {{costLabels: [example.com/cost]}}\n")
    cluster = catalogue(tmp_path / "platform.yaml")
    made = new_job(cluster, JobRequest("openmpi", "team-a", image=IMAGE, command=("mpirun", "a"), owner="ada"))
    (verdict,) = check_jobs(made, cluster, user="user:ada")
    assert verdict.verdict == "admitted"
    del made.body["spec"]["runtimePatches"]
    (verdict,) = check_jobs(made, cluster, user="user:ada")
    assert "pods of this TrainJob lack cost labels of the team" in str(verdict.findings)


def test_no_command_lists_copies_as_runtimes() -> None:
    assert set(_with(job()[0]).runtimes) == {"openmpi", "team", "fixed"}


@pytest.mark.parametrize(
    ("images", "told"),
    [
        ("*", "`*` allows all images"),
        ("quay.io/acme*", "also allows other paths that begin with `quay.io/acme`"),
        ("quay.io:*", "also allows other paths"),
        ("quay.io/*/train", "has a `*` that is not at its end"),
        ("acme/*", "is not a registry"),
        ("quay.io/Acme/train:1", "is not an image reference"),
    ],
)
def test_a_pattern_that_allows_too_much_is_rejected(images: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(PLATFORM.replace('"quay.io/acme/*"', f'"{images}"'), tmp_path)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "images", ["quay.io/acme/*", "quay.io/acme/train:*", "quay.io/acme/train@sha256:*", "reg:5000/*"]
)
def test_a_pattern_names_a_path_or_a_repository(images: str, tmp_path: Path) -> None:
    _load(PLATFORM.replace('"quay.io/acme/*"', f'"{images}"'), tmp_path)


@pytest.mark.parametrize(
    ("policies", "told"),
    [
        (
            "{registries: [registry.example.com/]}",
            "`policies.images.registries` allows no image of `ghcr.io/acme/train:1`",
        ),
        ("{digests: true}", "`ghcr.io/acme/train:1` has no digest"),
    ],
)
def test_images_that_no_team_may_use_are_rejected(policies: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(f"{PLATFORM}policies: {{images: {policies}}}\n", tmp_path)
    assert told in str(caught.value)


def _load(text: str, folder: Path) -> object:
    assert yaml.safe_load(text)
    (folder / "platform.yaml").write_text(text)
    return load_platform(folder / "platform.yaml")


def test_the_python_program_creates_the_copy_before_the_job() -> None:
    made = new_job(offer(), JobRequest(runtime="openmpi", tenant="team-a", image=IMAGE, command=("mpirun", "a")))
    literals = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(made.program).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert literals == {"RUNTIME": made.others[0], "JOBS": [*made.bodies]}
    assert made.program.index('"trainingruntimes"') < made.program.index('"trainjobs"')
