"""Test the catalogue in ConfigMaps: it answers as the release does, and shows nothing of other teams."""

from __future__ import annotations

import base64
import bz2
import copy
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator import App, Platform
from generator.checks.submission import Destination
from generator.documents.emit import Emitter
from generator.errors import DocumentError
from generator.facts.names import CATALOGUE, CATALOGUE_LABEL, TEAM_CATALOGUE
from generator.manifests import Body, Manifest
from generator.objects.catalogue import Unpacked, unpack_catalogues
from generator.objects.training import KUEUE
from generator.pipeline import check_jobs, render
from generator.report import queues as report
from generator.stages.cluster import read_files
from generator.stages.loading import load_app
from generator.upstream.kubernetes.access import parse_requester
from generator.upstream.kueue.folded import fold_cohorts
from generator.upstream.kueue.largest import largest_jobs
from generator.upstream.kueue.queues import build_quota_tree, read_queue_tree
from tests.conftest import EXAMPLES, ROOT, Run, small_platform
from tests.quota_trees import recorded_trees
from tests.random_jobs import random_job

_JOBS = 40
"""The number of jobs on each example, so that there are more than 200."""
_NODES = (1, 2, 3, 4, 8, 16, 64)
_WITHOUT_PYTHON = [name for name, file in EXAMPLES.items() if file.suffix == ".yaml"]


def rendered(name: str) -> tuple[Platform, list[Manifest]]:
    platform, app = load_app(EXAMPLES[name])
    return platform, render(platform, app)


def small(**changes: Any) -> list[Manifest]:
    platform = Platform.model_validate({**small_platform(), **changes})
    return render(platform, App(platform))


def catalogue(tree: Sequence[Manifest], team: str) -> list[Manifest]:
    """Return the ConfigMaps that a member of a team reads."""
    maps = [item for item in tree if item.kind == "ConfigMap" and CATALOGUE_LABEL in item.labels]
    return [item for item in maps if item.name == CATALOGUE or item.namespace == team]


def unpacked(tree: Sequence[Manifest], team: str) -> Unpacked:
    return unpack_catalogues(catalogue(tree, team))


def requests(platform: Platform, tree: Sequence[Manifest]) -> Iterator[tuple[str, Body, str]]:
    """Yield (team, TrainJob, user) of random requests: good and bad fields, sizes, priorities and users."""
    draw = random.Random(f"catalogue of {platform.platform}")
    runtimes = [item for item in tree if item.kind in ("ClusterTrainingRuntime", "TrainingRuntime")]
    priorities = [item.name for item in tree if item.kind == "WorkloadPriorityClass"]
    for number in range(_JOBS):
        team = draw.choice(platform.tenants)
        runtime = draw.choice(runtimes)
        job = random_job(str(number), runtime.name, runtime.kind, draw.choice([home.name for home in team.homes]))
        if draw.random() < 0.7:
            job["spec"] = {"runtimeRef": job["spec"]["runtimeRef"], "trainer": {"numNodes": draw.choice(_NODES)}}
        labels = {key: team.labels.get(key, "a") for key in platform.policies.labels}
        if priorities and draw.random() < 0.7:
            labels[f"{KUEUE}/priority-class"] = draw.choice(priorities)
        members = [subject for subjects in team.access.subjects.values() for subject in subjects]
        user = draw.choice(["", "", *members, *platform.access.admin, "user:nobody"])
        owner = {"mpigen.dev/owner": user.partition(":")[2]} if user else {}
        job["metadata"] |= {"labels": labels, "annotations": owner}
        yield team.name, job, user


@pytest.mark.slow
@pytest.mark.parametrize("name", _WITHOUT_PYTHON)
def test_verdicts_from_the_catalogue_equal_verdicts_from_the_release(name: str) -> None:
    platform, tree = rendered(name)
    verdicts = []
    for team, job, user in requests(platform, tree):
        known = unpacked(tree, team)
        assert known.is_complete
        answers = []
        for objects, targets in ((tree, platform.cluster.versions.model_dump()), (known.objects, known.targets)):
            requester = parse_requester(user) if user else None
            destination = Destination(objects, targets, requester, is_complete=True)
            done = check_jobs({"job.yaml": Emitter().emit([job]).encode()}, destination)
            findings = sorted((finding.check, finding.message) for finding in done.findings)
            answers.append((done.verdict(done.submissions[0], done.findings), findings))
        assert answers[0] == answers[1], job
        verdicts.append(answers[0][0])
    assert len({*verdicts}) >= 3


@pytest.mark.slow
def test_the_catalogue_gives_the_largest_jobs_of_an_idle_cluster() -> None:
    """The 200 trees are those whose largest jobs agree with the real Kueue (test_quota_trees.py)."""
    compared = 0
    for tree in recorded_trees():
        objects = tree.objects()
        queues = read_queue_tree(objects)
        nodes = build_quota_tree(queues)
        cohorts = {item.name: item for item in objects if item.kind == "Cohort"}
        whole = {(job.queue, job.runtime): job for job in largest_jobs(queues, objects)}
        for name, node in nodes.items():
            (own,) = (item for item in objects if (item.kind, item.name) == ("ClusterQueue", name))
            others = [item for item in objects if item.kind not in ("ClusterQueue", "Cohort")]
            alone = [*others, own, *(Manifest(body, "") for body in fold_cohorts([node], cohorts))]
            for job in largest_jobs(read_queue_tree(alone), alone):
                known = whole[job.queue, job.runtime]
                assert (job.idle, job.limit, job.reason) == (known.idle, known.limit, known.reason)
                assert job.owned in (known.owned, None)
                assert job.reclaimable in (known.reclaimable, None)
                compared += 1
    assert compared > 1000


def test_amounts_that_depend_on_other_queues_are_unknown() -> None:
    _, tree = rendered("university")
    for objects, is_known in ((tree, True), (unpacked(tree, "aero").objects, False)):
        queues = read_queue_tree(objects)
        jobs = [job for job in largest_jobs(queues, objects, ["aero"]) if job.queue == "aero"]
        assert {job.reclaimable is not None for job in jobs} == {job.owned is not None for job in jobs} == {is_known}
        facts = next(queue for queue in report.facts(queues, jobs)["queues"] if queue["name"] == "aero")
        assert all(quota["reclaimable"] is not None for quota in facts["quotas"]) == is_known


def test_the_catalogue_of_a_team_names_no_other_team() -> None:
    platform, tree = rendered("university")
    others = {tenant.name for tenant in platform.tenants} - {"aero"}
    for item in unpacked(tree, "aero").objects:
        if item.kind not in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ClusterRole"):
            named = {item.name, item.namespace} | {subject["name"] for subject in item.body.get("subjects", ())}
            assert not named & others, item.resource
            assert not any(f"{other}-" in name for name in named for other in others), item.resource
    (text,) = (item.body["data"] for item in catalogue(tree, "aero") if item.name == TEAM_CATALOGUE)
    assert not [other for other in others if f'"{other}"' in text["objects.json"]]


def test_the_catalogue_has_the_names_of_secrets_and_not_their_places() -> None:
    remote = {"key": "team-a/hub", "property": "token"}
    secrets = {"clusterStore": "vault", "external": [{"name": "hub", "keys": {"TOKEN": remote}}]}
    tenants = [{**small_platform()["tenants"][0], "secrets": secrets}, *small_platform()["tenants"][1:]]
    tree = small(tenants=tenants)
    (found,) = (item for item in unpacked(tree, "team-a").objects if item.kind == "ExternalSecret")
    assert found.body["spec"] == {"target": {"name": "hub"}}
    assert "team-a/hub" not in str([item.body for item in unpacked(tree, "team-a").objects])


def test_a_catalogue_does_not_know_the_namespace_of_another_team() -> None:
    known = unpacked(small(), "team-a")
    job = random_job("other", "openmpi-cpu", "ClusterTrainingRuntime", "team-b")
    job["spec"] = {"runtimeRef": job["spec"]["runtimeRef"], "trainer": {"numNodes": 2}}
    destination = Destination(known.objects, known.targets, is_complete=True)
    done = check_jobs({"job.yaml": Emitter().emit([job]).encode()}, destination)
    assert done.verdict(done.submissions[0], done.findings) == "unknown"


@pytest.mark.parametrize("changed", ["image", "quota"])
def test_a_change_changes_the_catalogue_of_no_other_team(changed: str) -> None:
    data = copy.deepcopy(small_platform())
    if changed == "image":
        data["runtimes"][0]["image"] = "registry.example.com/mpi:2"
    else:
        data["tenants"][0]["quota"] = {"gpu": 1, "cpu": 1}
    before, after = (
        {item.resource: item.body for item in tree if CATALOGUE_LABEL in item.labels}
        for tree in (small(), small(**data))
    )
    owner = f"small-catalogue/{CATALOGUE}" if changed == "image" else f"team-a/{TEAM_CATALOGUE}"
    assert {name for name in before if before[name] != after[name]} == {f"ConfigMap {owner}"}


def test_a_plan_does_not_repeat_a_change_as_a_change_of_the_catalogue(tmp_path: Path, mpigen: Run) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(small_platform()))
    assert mpigen("synth", file).returncode == 0
    data = small_platform()
    data["tenants"][0]["limits"] = {"hostsPerJob": 3}
    file.write_text(yaml.safe_dump(data))
    planned = mpigen("plan", file).stdout
    assert "team-a" in planned
    assert "ConfigMap" not in planned


def test_a_plan_reports_a_catalogue_that_changes_alone(tmp_path: Path, mpigen: Run) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(small_platform()))
    assert mpigen("synth", file).returncode == 0
    changed = tmp_path / "output/small/tenants/team-a/catalogue.yaml"
    changed.write_text(changed.read_text().replace('"name":"team-a"', '"name":"team-z"', 1))
    planned = mpigen("plan", file).stdout
    assert "`team-a/mpigen-team` changes the text of `objects.json`" in planned


def printed(items: Sequence[Manifest], *, is_list: bool = True) -> str:
    """Return what `kubectl get … -o yaml` prints."""
    bodies = [item.body for item in items]
    if is_list:
        return yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": bodies})
    return yaml.safe_dump_all(bodies)


def test_a_member_makes_and_checks_a_job_from_the_catalogue_alone(tmp_path: Path, mpigen: Run) -> None:
    team, platform = tmp_path / "team.yaml", tmp_path / "platform.yaml"
    maps = {item.name: item for item in catalogue(small(), "team-a")}
    team.write_text(printed([maps[TEAM_CATALOGUE]], is_list=False))
    platform.write_text(printed([maps[CATALOGUE]], is_list=False))
    release = ("--release", team, "--release", platform)
    made = mpigen("job", "new", *release, "--runtime", "openmpi-cpu", "--", "mpirun", "./x")
    assert made.returncode == 0, made.stderr
    (tmp_path / "job.yaml").write_text(made.stdout)
    checked = mpigen("check-job", *release, "job.yaml")
    assert "admitted" in checked.stdout
    both = printed([*maps.values()])
    assert mpigen("check-job", "--release", "-", "job.yaml", stdin=both).stdout == checked.stdout
    for words in (("queues", "--tenant", "team-a"), ("runtimes",), ("compile", "job.yaml")):
        assert mpigen(*words, *release).returncode == 0
    assert maps[TEAM_CATALOGUE].body["data"]["about"].splitlines()[0].split() == ["tenant", "team-a"]


def test_a_folder_of_a_release_is_read_without_its_catalogue() -> None:
    for folder in ("university", "university/tenants/aero", "university/cluster"):
        files = read_files([ROOT / "output" / folder], bytes)
        assert any(CATALOGUE_LABEL in item.labels for item in files.manifests)
        assert len({item.identity for item in files.manifests}) == len(files.manifests)


def test_the_own_runtimes_of_a_team_fit_into_its_catalogue() -> None:
    data = small_platform()
    own = [{**data["runtimes"][1], "name": f"own-{number}", "tenants": ["team-a"]} for number in range(12)]
    spaces = [f"team-a-{number}" for number in range(6)]
    tenants = [{**data["tenants"][0], "namespaces": spaces}, *data["tenants"][1:]]
    tree = small(runtimes=[*data["runtimes"], *own], tenants=tenants)
    runtimes = [item for item in tree if item.kind == "TrainingRuntime"]
    assert sum(len(json.dumps(item.body)) for item in runtimes) > 2**20
    shared, team = catalogue(tree, "team-a")
    assert len(Emitter().emit([team.body])) < 2**18
    known = unpack_catalogues([shared, team]).objects
    unpacked_runtimes = {item.identity: item.body for item in known if item.kind == "TrainingRuntime"}
    assert unpacked_runtimes == {item.identity: item.body for item in runtimes}


@pytest.mark.parametrize(
    ("gpus", "text"),
    [
        (4, "4 nvidia.com/gpu"),
        (8, "1 node (8 nvidia.com/gpu) of flavor"),
    ],
)
def test_a_part_of_a_node_is_described_by_its_amounts(gpus: int, text: str) -> None:
    data = small_platform()
    pool = next(pool for pool in data["pools"] if "nvidia.com/gpu" in pool["allocatable"])
    assert pool["allocatable"]["nvidia.com/gpu"] == 8
    tenants = [{**data["tenants"][0], "quota": {pool["name"]: {"nvidia.com/gpu": gpus}}}, *data["tenants"][1:]]
    (about,) = (
        item.body["data"]["about"]
        for item in catalogue(small(tenants=tenants), "team-a")
        if item.name == TEAM_CATALOGUE
    )
    line = next(line for line in about.splitlines() if line.startswith("quota"))
    assert text in line
    assert "0 nodes" not in line


def test_objects_outside_of_the_catalogue_take_precedence() -> None:
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "mpi", "namespace": "team-a"}}
    known = unpack_catalogues([*catalogue(small(), "team-a"), Manifest(body, "own.yaml")])
    assert [item.body for item in known.objects if item.kind == "ServiceAccount"] == [body]


def test_manifests_without_a_catalogue_stay_as_they_are() -> None:
    tree = [item for item in small() if CATALOGUE_LABEL not in item.labels]
    assert unpack_catalogues(tree) == Unpacked(tree, {}, is_complete=False)


def packed(text: str) -> Mapping[str, str]:
    return {"objects.json.bz2": base64.b64encode(bz2.compress(text.encode())).decode()}


_DAMAGED = {
    "not base64": {"objects.json.bz2": "…"},
    "not bzip2": {"objects.json.bz2": base64.b64encode(b"objects").decode()},
    "cut off": {"objects.json.bz2": base64.b64encode(bz2.compress(b"{}\n" * 99)[:40]).decode()},
    "too large": packed("[" * (65 * 1024**2)),
    "not JSON": packed("kind: Pod\n"),
    "no object": packed("[]\n"),
    "empty": packed(""),
    "absent": {},
}


@pytest.mark.parametrize("data", _DAMAGED.values(), ids=[*_DAMAGED])
def test_a_damaged_catalogue_is_an_error(data: Mapping[str, str]) -> None:
    shared, team = catalogue(small(), "team-a")
    damaged = Manifest({**shared.body, "binaryData": data}, "platform.yaml")
    with pytest.raises(DocumentError, match=r"platform\.yaml: the data of ConfigMap small-catalogue/mpig"):
        unpack_catalogues([damaged, team])


def test_a_team_with_a_damaged_catalogue_gets_an_error_too() -> None:
    shared, team = catalogue(small(), "team-a")
    for text in ("", "[]", "{", '{"kind": "Namespace"}\n{', "[" * 200_000, '{"a": NaN}', '{"a": 1, "a": 2}'):
        damaged = Manifest({**team.body, "data": {"objects.json": text}}, "team.yaml")
        with pytest.raises(DocumentError, match=r"team\.yaml: the data of ConfigMap team-a/mpigen-team is damaged"):
            unpack_catalogues([shared, damaged])


def test_a_missing_or_repeated_part_is_an_error_with_the_command() -> None:
    tree = small()
    shared, team = catalogue(tree, "team-a")
    _, other = catalogue(tree, "team-b")
    command = "kubectl get configmap mpigen-catalogue --namespace small-catalogue --output yaml"
    with pytest.raises(DocumentError, match=f"the catalogue of the platform is missing; add the output of `{command}`"):
        unpack_catalogues([team])
    with pytest.raises(DocumentError, match="the catalogue of the team is missing"):
        unpack_catalogues([shared])
    with pytest.raises(DocumentError, match="there are several catalogues: `ConfigMap team-a/mpigen-team`"):
        unpack_catalogues([shared, team, other])


def test_catalogues_of_different_platforms_are_an_error() -> None:
    shared, _ = catalogue(small(platform="other"), "team-a")
    _, team = catalogue(small(), "team-a")
    with pytest.raises(
        DocumentError, match="the catalogues are of different platforms: `other` and `small`; read both"
    ):
        unpack_catalogues([shared, team])


def test_the_same_catalogue_twice_is_read_once() -> None:
    maps = catalogue(small(), "team-a")
    assert [item.body for item in unpack_catalogues([*maps, *maps]).objects] == [
        item.body for item in unpack_catalogues(maps).objects
    ]


def test_patched_catalogues_and_invalid_queues_do_not_stop_the_rendering() -> None:
    patch = {"name": "p", "target": {"kind": "Namespace", "name": "team-a"}, "reason": "test"}
    merge = {"metadata": {"labels": {"mpigen.dev/tenant": "renamed"}}}
    tree = small(patches=[{**patch, "merge": merge}])
    assert {item.name for item in catalogue(tree, "team-a")} == {CATALOGUE, TEAM_CATALOGUE}
