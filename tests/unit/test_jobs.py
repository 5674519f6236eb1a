"""Test the TrainJobs of `job new`, and every reason to reject one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from generator import Platform, pipeline
from generator.checks.finding import Severity
from generator.checks.run import check_text
from generator.checks.submission import Destination
from generator.documents.emit import BriefEmitter
from generator.jobs.job import LONGEST_NAME, NewJob, new_job
from generator.jobs.reach import JobError, offers
from generator.jobs.request import JobRequest
from generator.manifests import Body
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from generator.stages.catalogues import catalogue_of
from generator.stages.loading import load_declared
from tests.conftest import small_platform
from tests.offers import job_of


def platform(**changes: Any) -> Platform:
    """Return the small platform with `changes` of its CPU runtime."""
    data = small_platform()
    data["runtimes"][1] |= changes
    return Platform.model_validate(data)


def job(runtime: str = "openmpi-cpu", *, changes: dict[str, Any] | None = None, **wanted: Any) -> NewJob:
    return job_of(platform(**(changes or {})), JobRequest(runtime, **{"tenant": "team-a", **wanted}))


def trainer(body: Body) -> dict[str, Any]:
    found: dict[str, Any] = body["spec"]["trainer"]
    return found


def problems(**wanted: Any) -> list[str]:
    with pytest.raises(JobError) as refused:
        job(**wanted)
    return list(map(str, refused.value.problems))


def test_a_job_has_at_most_ten_lines() -> None:
    text = BriefEmitter().emit([job(nodes=3, queue="night", command=("mpirun", "./a.out")).body])
    assert text == (
        "---\n"
        "apiVersion: trainer.kubeflow.org/v1alpha1\n"
        "kind: TrainJob\n"
        "metadata: {name: openmpi-cpu, namespace: team-a, labels: {kueue.x-k8s.io/queue-name: night}}\n"
        "spec:\n"
        "  runtimeRef: {name: openmpi-cpu}\n"
        "  trainer:\n"
        "    numNodes: 3\n"
        '    command: [mpirun, "./a.out"]\n'
    )


@pytest.mark.parametrize("is_smoke", [False, True], ids=["job", "smoke"])
def test_jobs_on_every_runtime_of_every_example_pass_the_checks(example: Path, is_smoke: bool) -> None:
    """The catalogue example has every family on every device."""
    theirs = catalogue_of(load_declared(example))
    requests = [
        JobRequest(runtime, team, nodes=2, is_smoke=is_smoke) for team in theirs.teams for runtime in theirs.runtimes
    ]
    texts = [BriefEmitter().emit([new_job(theirs, request).body]) for request in requests]
    checked = check_text("".join(texts).encode(), "jobs.yaml", Engine(Catalog.bundled()))
    assert (checked.findings, checked.objects) == ([], len(theirs.teams) * len(theirs.runtimes))
    assert is_smoke or max(len(text.splitlines()) for text in texts) <= 10


REQUESTS: list[dict[str, Any]] = [
    {},
    {"is_smoke": True, "owner": "ada"},
    {"queue": "night"},
    {"labels": {"kueue.x-k8s.io/priority-class": "none"}},
    {"labels": {"team": "a."}},
    {"command": ("mpirun", "-np", "999", "x")},
]


def test_job_new_and_check_job_find_the_same_in_every_example(example: Path) -> None:
    """`job new` renders only the objects that decide. A job without options of the user has no error."""
    theirs, app = pipeline.load(example)
    world = pipeline.render(theirs, app)
    catalogue = catalogue_of(theirs)
    targets = theirs.cluster.versions.model_dump()
    for number, runtime in enumerate(catalogue.runtimes.values()):
        team = next(team for team in catalogue.teams.values() if offers(team, runtime))
        is_compared = number < 2  # the catalogue has 66 runtimes
        for wanted in REQUESTS if is_compared else REQUESTS[:2]:
            new = new_job(catalogue, JobRequest(runtime.name, team.name, nodes=2, **wanted))
            text = {"job.yaml": BriefEmitter().emit([new.body]).encode()}
            worlds = [catalogue.seen_from({new.home.name}, new.runtime), *([world] if is_compared else [])]
            partial, *complete = (
                pipeline.check_jobs(text, Destination(objects, targets, is_complete=True)).findings
                for objects in worlds
            )
            assert complete in ([], [partial]), (runtime.name, wanted)
            errors = [finding for finding in partial if finding.severity is Severity.ERROR]
            assert bool(errors) == (wanted in REQUESTS[2:]), (runtime.name, wanted)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1))
def test_every_command_argument_is_preserved(words: list[str]) -> None:
    text = BriefEmitter().emit([job(command=tuple(words)).body])
    assert trainer(yaml.safe_load(text))["command"] == words


def test_defaults_come_from_runtime_and_family() -> None:
    body = job(changes={"nodes": 4}).body
    assert body["metadata"] == {"name": "openmpi-cpu", "namespace": "team-a"}
    assert trainer(body) == {"numNodes": 4, "command": ["mpirun", "./my-program"]}
    assert trainer(job().body)["numNodes"] == 2


def test_the_default_number_of_nodes_is_possible() -> None:
    (note,) = job(changes={"nodes": 9}, command=("mpirun", "x")).notes
    assert note.startswith("the job has 4 nodes instead of 9: 5 nodes take 285 cpu of flavor `cpu`, and `team-a` never")
    data = small_platform()
    data["tenants"][0]["quota"]["cpu"] = 2
    small = job_of(Platform.model_validate(data), JobRequest("openmpi-cpu", "team-a", is_smoke=True))
    assert trainer(small.body)["numNodes"] == 2
    assert small.notes[-1].startswith("the job has 2 nodes instead of 3: 3 nodes take 171 cpu of flavor `cpu`, and ")


def test_the_default_number_of_nodes_is_at_most_the_limit_of_the_tenant() -> None:
    data = small_platform()
    data["tenants"][0]["limits"] = {"hostsPerJob": 2}
    limited = job_of(Platform.model_validate(data), JobRequest("openmpi-cpu", "team-a", is_smoke=True))
    assert trainer(limited.body)["numNodes"] == 2
    assert limited.notes[-1] == "the job has 2 nodes instead of 3: admission policies accept at most `numNodes: 2`"


def test_a_runtime_with_tenants_is_referenced_in_their_namespace() -> None:
    assert job(changes={"tenants": ["team-a"]}).body["spec"]["runtimeRef"] == {
        "name": "openmpi-cpu",
        "kind": "TrainingRuntime",
    }


def test_the_only_tenant_with_quota_is_the_default() -> None:
    """The other tenant's half node is too small for a host."""
    assert job(tenant="").body["metadata"]["namespace"] == "team-a"
    assert job("openmpi-gpu", tenant="").body["metadata"]["namespace"] == "team-a"


def test_several_tenants_require_a_choice() -> None:
    data = small_platform()
    data["tenants"][1]["quota"]["cpu"] = 2
    with pytest.raises(JobError, match=r"^--tenant: several tenants can use .*; name one of: team-a, team-b$"):
        job_of(Platform.model_validate(data), JobRequest("openmpi-cpu"))


def test_a_runtime_without_tenants_is_rejected_with_a_fix() -> None:
    data = {**small_platform(), "tenants": []}
    with pytest.raises(
        JobError, match=r"^--runtime: no tenant can use a host .*; ask your platform admins for quota in pool `cpu`$"
    ):
        job_of(Platform.model_validate(data), JobRequest("openmpi-cpu"))


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"runtime": "openmpi"}, "--runtime: the cluster has no runtime `openmpi`; did you mean `openmpi-gpu`?"),
        ({"tenant": "team-c"}, "--tenant: the cluster has no tenant `team-c`; did you mean `team-b`?"),
        (
            {"nodes": 1},
            (
                "--nodes: `1` is too few: the launcher pod runs ranks, and Trainer starts at least one worker pod; "
                "pass 2 or more"
            ),
        ),
        (
            {"nodes": 5},
            (
                "--nodes: Kueue never admits `5` nodes: 5 nodes take 285 cpu of flavor `cpu`, and `team-a` never gets "
                "more than 254; pass 4 or less"
            ),
        ),
        (
            {"runtime": "openmpi-gpu", "tenant": "team-b"},
            (
                "--runtime: `team-b` can run no pod of runtime `openmpi-gpu`: 1 node takes 86 cpu of flavor "
                "`gpu`, and `team-b` never gets more than 48; ask your platform admins for quota or a "
                "runtime: `team-b` can use no runtime"
            ),
        ),
        (
            {"name": "Train_1"},
            (
                "--name: `Train_1` cannot be the name of a TrainJob; start with a letter, then use lower-case "
                "letters, digits and hyphens"
            ),
        ),
        (
            {"queue": "Night Shift"},
            "--queue: `Night Shift` is not the name of a queue; remove --queue to use the team's queue",
        ),
        (
            {"is_smoke": True, "command": ("x",)},
            "COMMAND: a smoke test has its own command; remove the command or --smoke",
        ),
        ({"command": ("\udcff",)}, "COMMAND: `\\udcff` is not UTF-8; encode it as UTF-8"),
        ({"owner": "\udcff"}, "--owner: `\\udcff` is not UTF-8; encode it as UTF-8"),
        ({"labels": {"a": "\udcff"}}, "--label: `\\udcff` is not UTF-8; encode it as UTF-8"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_jobs_that_cannot_run_are_rejected_with_a_fix(wanted: dict[str, Any], told: str) -> None:
    assert problems(**wanted) == [told]


def test_a_runtime_of_other_tenants_is_rejected() -> None:
    (told,) = problems(changes={"tenants": ["team-b"]})
    assert told == (
        "--runtime: runtime `openmpi-cpu` is not available to `team-a`; "
        "choose a runtime that `team-a` can use: openmpi-gpu"
    )


def test_all_problems_are_reported_at_once() -> None:
    assert [told.partition(":")[0] for told in problems(name="1", nodes=100, queue="-")] == [
        "--name",
        "--nodes",
        "--queue",
    ]


def test_job_names_are_limited_by_jobset() -> None:
    """jobset v0.12.0 rejects longer names, which Trainer reports only in an event."""
    longest = "a" * LONGEST_NAME
    assert len(f"{longest}-launcher-0-0-abcde") == 63
    assert job(name=longest).body["metadata"]["name"] == longest
    (told,) = problems(name=f"{longest}a")
    assert "has 45 characters" in told


def test_a_separate_launcher_may_have_a_single_node() -> None:
    assert trainer(job(nodes=1, changes={"launcher": "separate"}).body)["numNodes"] == 1


@pytest.mark.parametrize(
    ("wanted", "changes", "note"),
    [
        ({}, {}, "the command is an example"),
        ({"command": ("mpirun", "x")}, {"deprecated": True}, "runtime `openmpi-cpu` is deprecated"),
        ({"command": ("./train",)}, {}, "`./train` runs only in the launcher pod"),
        ({"command": ("mpirun", "python3", "x")}, {}, "docker.io/mpioperator/openmpi:v0.8.2 has no Python"),
        ({"is_smoke": True}, {}, "docker.io/mpioperator/openmpi:v0.8.2 has no program that calls MPI"),
    ],
    ids=["example", "deprecated", "no mpirun", "no Python", "launch only"],
)
def test_notes_for_the_owner_are_printed(wanted: dict[str, Any], changes: dict[str, Any], note: str) -> None:
    (told,) = job(changes=changes, **wanted).notes
    assert told.startswith(note)


@pytest.mark.parametrize("command", [("mpirun", "x"), ("bash", "-c", "set -e; mpiexec x"), ("horovodrun", "x")])
def test_a_command_that_starts_ranks_has_no_note(command: tuple[str, ...]) -> None:
    assert job(command=command).notes == ()


def test_borrowed_hosts_are_noted() -> None:
    data = small_platform()
    data["tenants"][1] |= {"quota": {"gpu": 1}, "borrow": {"gpu": 3}}
    found = job_of(Platform.model_validate(data), JobRequest("openmpi-gpu", "team-a", nodes=3, command=("mpirun", "x")))
    assert found.notes == (
        (
            "`team-a` can rely on 2 of these 3 nodes: the job stays pending while other queues use the other nodes, "
            "and Kueue may preempt the job when those queues need their quota"
        ),
    )


def test_hosts_that_no_other_team_can_borrow_have_no_note() -> None:
    data = small_platform()
    data["tenants"][0]["preemption"] = "never"
    data["tenants"][1]["quota"] = {"gpu": 1}
    found = job_of(Platform.model_validate(data), JobRequest("openmpi-gpu", "team-a", nodes=3, command=("mpirun", "x")))
    assert found.notes == ()


def test_hosts_that_kueue_must_reclaim_are_noted() -> None:
    data = small_platform()
    data["tenants"][1] |= {"quota": {"gpu": 1}, "borrow": {"gpu": 3}}
    found = job_of(Platform.model_validate(data), JobRequest("openmpi-gpu", "team-a", nodes=2, command=("mpirun", "x")))
    assert found.notes == (
        (
            "only 0 of these 2 nodes are always free for `team-a`: to free the other nodes, Kueue may "
            "preempt jobs that borrow quota"
        ),
    )


@pytest.mark.parametrize("placement", [None, {"required": "example.com/rack"}])
@pytest.mark.parametrize("launcher", ["node", "separate"])
def test_a_topology_does_not_change_the_size_of_jobs(launcher: str, placement: dict[str, str] | None) -> None:
    data = small_platform()
    data["pools"][0]["topology"] = ["example.com/rack", "kubernetes.io/hostname"]
    data["runtimes"][0] |= {"launcher": launcher, "placement": placement}
    racked = Platform.model_validate(data)
    found = job_of(racked, JobRequest("openmpi-gpu", "team-a", nodes=3))
    assert trainer(found.body)["numNodes"] == 3
    assert any("all pods must be in one example.com/rack" in note for note in found.notes) is bool(placement)
    with pytest.raises(JobError) as refused:
        job_of(racked, JobRequest("openmpi-gpu", "team-a", nodes=4))
    (problem,) = map(str, refused.value.problems)
    assert "never gets more than" in problem
    assert ("all pods must be in one example.com/rack" in problem) is bool(placement)


def test_a_limit_of_one_host_requires_a_separate_launcher() -> None:
    data = small_platform()
    data["tenants"][0]["limits"] = {"hostsPerJob": 1}
    with pytest.raises(
        JobError,
        match=r"can run 1 pod of .*: admission policies accept at most `numNodes: 1`; .*`team-a` can use no runtime",
    ):
        job_of(Platform.model_validate(data), JobRequest("openmpi-cpu", "team-a"))
    for each in data["runtimes"]:
        each["launcher"] = "separate"
    body = job_of(Platform.model_validate(data), JobRequest("openmpi-cpu", "team-a")).body
    assert body["spec"]["trainer"]["numNodes"] == 1


def test_a_job_has_the_requested_owner() -> None:
    assert job(owner="ada").body["metadata"]["annotations"] == {"mpigen.dev/owner": "ada"}
    assert "annotations" not in job().body["metadata"]


def test_the_pods_of_a_job_name_the_requested_owner() -> None:
    (patch,) = job(owner="ada").body["spec"]["runtimePatches"]
    (node,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert node["name"] == "node"
    assert node["template"]["spec"]["template"]["metadata"]["annotations"] == {"mpigen.dev/owner": "ada"}
    assert "runtimePatches" not in job().body["spec"]


def test_a_job_has_the_required_labels() -> None:
    data = small_platform()
    data["policies"] = {"labels": ["example.com/cost-centre", "example.com/owner"]}
    data["tenants"][0] |= {"labels": {"example.com/cost-centre": "4711"}, "limits": {"timePerJob": "2h"}}
    platform = Platform.model_validate(data)
    runtime, tenant = platform.runtimes[0].name, platform.tenants[0].name
    made = job_of(platform, JobRequest(runtime, tenant, labels={"example.com/owner": "ada"})).body
    assert made["metadata"]["labels"] == {"example.com/cost-centre": "4711", "example.com/owner": "ada"}
    assert made["spec"]["activeDeadlineSeconds"] == 7200
    with pytest.raises(JobError) as told:
        job_of(platform, JobRequest(runtime, tenant))
    assert [each.fix for each in told.value.problems] == ["pass --label example.com/owner=VALUE"]
    data["policies"]["admission"] = {"rules": {"labels": "warn"}}
    assert job_of(Platform.model_validate(data), JobRequest(runtime, tenant)).body


def with_cost_labels() -> dict[str, Any]:
    """Return the small platform, with a cost label of its tenants."""
    data = small_platform()
    data["policies"] = {"costLabels": ["example.com/cost-centre"]}
    for tenant in data["tenants"]:
        tenant["labels"] = {"example.com/cost-centre": "4711"}
    return data


def test_all_pods_of_a_job_have_the_cost_labels_of_the_team() -> None:
    platform = Platform.model_validate(with_cost_labels())
    for runtime in platform.runtimes:
        request = JobRequest(runtime.name, "team-a", owner="ada")
        (patch,) = job_of(platform, request).body["spec"]["runtimePatches"]
        jobs = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
        pods = {job["name"]: job["template"]["spec"]["template"]["metadata"] for job in jobs}
        labels = {"labels": {"example.com/cost-centre": "4711"}}
        assert pods == {"launcher": labels, "node": {**labels, "annotations": {"mpigen.dev/owner": "ada"}}}


def test_a_priority_that_names_other_teams_is_rejected() -> None:
    data = small_platform()
    rows = [{"name": "urgent", "value": 1, "description": "An incident.", "tenants": [data["tenants"][1]["name"]]}]
    data["queues"] = {"priorities": [*rows, {"name": "sweep", "value": -1, "description": "A sweep."}]}
    platform = Platform.model_validate(data)
    team = platform.tenants[0].name
    with pytest.raises(JobError, match="cannot use the priority `urgent`"):
        job_of(platform, JobRequest(platform.runtimes[0].name, team, priority="urgent"))
    with pytest.raises(JobError, match="may use only priorities below 0"):
        job_of(platform, JobRequest(platform.runtimes[0].name, team))
    assert job_of(platform, JobRequest(platform.runtimes[0].name, team, priority="sweep")).body


def test_a_priority_of_another_team_is_rejected() -> None:
    data = small_platform()
    data["tenants"][0]["priorities"] = ["research"]
    platform = Platform.model_validate(data)
    with pytest.raises(JobError, match="cannot use the priority `production`"):
        job_of(platform, JobRequest(platform.runtimes[0].name, platform.tenants[0].name, priority="production"))
