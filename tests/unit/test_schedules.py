"""Test the CronJobs of `tenants[].schedules`: schedules, objects, TrainJobs, and the mistakes that rendering finds."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import yaml

from generator import App, Platform
from generator.errors import ConfigError
from generator.facts.names import TRAIN_JOB
from generator.jobs.job import LONGEST_NAME
from generator.jobs.request import Download, JobRequest, Mount
from generator.manifests import Body, Manifest
from generator.pipeline import judge, load, render
from generator.runtimes.additions import SecretKey
from generator.upstream.kubernetes.cron import find_schedule_problem, is_time_zone, never_runs
from tests.conftest import ROOT, small_platform
from tests.offers import job_of

ACCOUNT = "system:serviceaccount:team-a-schedules:schedules"
MISTAKES = ROOT / "tests/fixtures/schedules"
IMAGE = "registry.k8s.io/kubectl:v1.34.2"
NIGHTLY = {"name": "nightly", "schedule": "0 3 * * *", "job": {"runtime": "openmpi-cpu"}}


def scheduled(*schedules: Body, **changes: Any) -> Platform:
    """Return the small platform with schedules of its first team, and other sections."""
    data = {**small_platform(), **deepcopy(changes)}
    data["tenants"][0]["schedules"] = [*(schedules or (NIGHTLY,))]
    pods = {"image": IMAGE, "apiServer": {"networks": ["10.0.0.8/32"]}}
    data["policies"] = {"schedules": pods, **data.get("policies", {})}
    return Platform.model_validate(data)


def tree_of(platform: Platform) -> dict[str, Manifest]:
    """Return the objects of a release, by kind, namespace and name."""
    tree = render(platform, App(platform))
    return {f"{item.kind} {item.namespace or '-'}/{item.name}": item for item in tree}


def job_in(cron_job: Manifest) -> Body:
    """Return the TrainJob that a CronJob creates."""
    pods = cron_job.body["spec"]["jobTemplate"]["spec"]["template"]
    body: Body = yaml.safe_load(pods["metadata"]["annotations"][TRAIN_JOB])
    return body


def findings_of(platform: Platform) -> set[str]:
    """Return the findings in a release, without their places."""
    found = judge(platform, render(platform, App(platform))).findings
    return {f"{finding.check} {finding.resource}: {finding.message}" for finding in found}


ACCEPTED = [
    # robfig/cron v3.0.1 parser_test.go TestStandardSpecSchedule, TestParseSchedule (of the standard parser)
    "5 * * * *",
    "@every 5m",
    "@midnight",
    "@yearly",
    "@annually",
    # getRange and getField of the same file, in a field with the limits of the case or wider limits
    "5 * * * *",
    "5-5 * * * *",
    "5-6 * * * *",
    "5-6/2 * * * *",
    "5-7/1 * * * *",
    "*/2 * * * *",
    "1,5-7/2,3 * * * *",
    # names of months and days, and white space of strings.Fields
    "0 0 1 jan-MAR sun,wed",
    " 0  0\t1 * ? ",
    "@every 1h30m10s",
    "@every 1.5h",
    "0 0 29 2 *",
]
REJECTED = {
    # robfig/cron v3.0.1 parser_test.go TestStandardSpecSchedule
    "5 j * * *": "has the hour `j`",
    "* * * *": "has 4 fields, not 5",
    # TestRange
    "5--5 * * * *": "has the minute `5--5`",
    "* * * jan-x *": "has the month `jan-x`",
    "2-x * * * *": "has the minute `2-x`",
    "*/-12 * * * *": "has the minute `*/-12`",
    "*//2 * * * *": "has the minute `*//2`",
    "* * 0 * *": "has the day of the month `0`",
    "60 * * * *": "has the minute `60`",
    "5-3 * * * *": "has the minute `5-3`",
    "*/0 * * * *": "has the minute `*/0`",
    # TestParseScheduleErrors
    "@every Xm": "is no preset",
    "@unrecognized": "is no preset",
    # kubernetes v1.34.2 pkg/apis/batch/validation/validation.go validateScheduleFormat
    "CRON_TZ=UTC  5 * * * *": "contains a time zone",
    "TZ=Asia/Tokyo @midnight": "contains a time zone",
    "* * * * 7": "has the day of the week `7`",
    "0 5 * * * *": "has 6 fields, not 5",
}
NEVER = ["0 0 30 2 *", "0 0 31 4,6,9,11 ?", "0 0 31 feb */1", ", * * * *", "0 0 1 , *", "0 0 , * *"]
SOMETIMES = ["0 0 30 2 mon", "0 0 31 2-3 *", "0 0 29 2 *", "0 0 31 4 */2", "@daily", "0 0 30 1,2 *"]


@pytest.mark.parametrize("text", ACCEPTED)
def test_kubernetes_parses_a_schedule(text: str) -> None:
    assert find_schedule_problem(text) == ""
    assert not never_runs(text)


@pytest.mark.parametrize(("text", "problem"), REJECTED.items())
def test_kubernetes_does_not_parse_a_schedule(text: str, problem: str) -> None:
    assert find_schedule_problem(text).startswith(problem)


@pytest.mark.parametrize("text", NEVER)
def test_no_date_matches_a_schedule(text: str) -> None:
    assert find_schedule_problem(text) == ""
    assert never_runs(text)


@pytest.mark.parametrize("text", SOMETIMES)
def test_a_date_matches_a_schedule(text: str) -> None:
    assert not never_runs(text)


def test_time_zones_are_names_of_the_database() -> None:
    assert all(map(is_time_zone, ("Europe/Berlin", "Etc/UTC", "America/Argentina/Ushuaia", "Etc/GMT+5")))
    assert not any(map(is_time_zone, ("Local", "Mars/Olympus", "../UTC", "Europe//Berlin", "")))


def test_a_schedule_adds_these_objects() -> None:
    with_it = tree_of(scheduled())
    plain = tree_of(Platform.model_validate(small_platform()))
    assert with_it.keys() - plain.keys() == {
        "ClusterRole -/mpigen-schedule",
        "ClusterRole -/mpigen-schedule-view",
        "CronJob team-a-schedules/nightly",
        "Namespace -/team-a-schedules",
        "NetworkPolicy team-a-schedules/np-api-server",
        "NetworkPolicy team-a-schedules/np-default-deny",
        "RoleBinding team-a-schedules/mpigen-schedule-view",
        "RoleBinding team-a/mpigen-schedule",
        "ServiceAccount team-a-schedules/schedules",
    }


def test_a_cron_job_creates_its_train_job_with_few_rights() -> None:
    tree = tree_of(scheduled({**NIGHTLY, "timeZone": "Europe/Berlin", "startingDeadline": "10m", "suspend": True}))
    spec = tree["CronJob team-a-schedules/nightly"].body["spec"]
    job = spec.pop("jobTemplate")["spec"]
    assert spec == {
        "schedule": "0 3 * * *",
        "timeZone": "Europe/Berlin",
        "startingDeadlineSeconds": 600,
        "concurrencyPolicy": "Forbid",
        "suspend": True,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 3,
    }
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("schedules", True)
    assert pod["securityContext"]["runAsUser"] == 65532
    assert container["image"] == IMAGE
    assert container["command"] == ["kubectl", "create", "--filename=/job/train-job.yaml"]
    rules = tree["ClusterRole -/mpigen-schedule"].body["rules"]
    assert rules == [{"apiGroups": ["trainer.kubeflow.org"], "resources": ["trainjobs"], "verbs": ["create"]}]
    subjects = tree["RoleBinding team-a/mpigen-schedule"].body["subjects"]
    assert subjects == [{"kind": "ServiceAccount", "name": "schedules", "namespace": "team-a-schedules"}]
    egress = tree["NetworkPolicy team-a-schedules/np-api-server"].body["spec"]["egress"]
    assert egress == [{"to": [{"ipBlock": {"cidr": "10.0.0.8/32"}}], "ports": [{"protocol": "TCP", "port": 6443}]}]


def test_members_of_the_team_read_its_schedules() -> None:
    tree = tree_of(scheduled())
    subjects = tree["RoleBinding team-a-schedules/mpigen-schedule-view"].body["subjects"]
    assert {subject["name"] for subject in subjects} == {"ada", "a", "reader"}
    verbs = {verb for rule in tree["ClusterRole -/mpigen-schedule-view"].body["rules"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"}


def test_the_train_job_equals_that_of_job_new() -> None:
    job = {
        "runtime": "openmpi-cpu",
        "nodes": 3,
        "processes": 4,
        "resources": {"memory": "16Gi", "cpu": 8},
        "command": ["mpirun", "./train"],
        "env": {"SEED": "7"},
        "secretEnv": {"TOKEN": {"secret": "wandb", "key": "token"}},
        "connection": "s3",
        "volumes": [
            {"claim": "data", "mountPath": "/data", "readOnly": True},
            {"configMap": "settings", "mountPath": "/settings"},
            {"secret": "wandb", "mountPath": "/secret"},
        ],
        "priority": "research",
        "queue": "other",
        "labels": {"project": "x"},
        "timeout": "1h30m",
    }
    platform = scheduled({**NIGHTLY, "job": job})
    body = job_in(tree_of(platform)["CronJob team-a-schedules/nightly"])
    request = JobRequest(
        runtime="openmpi-cpu",
        tenant="team-a",
        name="nightly-xxxxx",
        nodes=3,
        processes=4,
        resources={"cpu": "8", "memory": "16Gi"},
        command=("mpirun", "./train"),
        environment={"SEED": "7"},
        secrets={"TOKEN": SecretKey("wandb", "token")},
        connection="s3",
        mounts=(
            Mount("claim", "data", "/data", is_read_only=True),
            Mount("configmap", "settings", "/settings"),
            Mount("secret", "wandb", "/secret"),
        ),
        priority="research",
        queue="other",
        labels={"project": "x", "app.kubernetes.io/name": "nightly"},
        seconds=5400,
        owner=ACCOUNT,
    )
    expected = job_of(platform, request).body
    assert body["metadata"].pop("generateName") == "nightly-"
    assert expected["metadata"].pop("name") == "nightly-xxxxx"
    assert body == expected


def test_downloads_need_an_initializer_of_the_runtime() -> None:
    job = {"runtime": "openmpi-cpu", "dataset": {"uri": "hf://a/b", "secret": "hub"}, "model": {"uri": "s3://c/d"}}
    with pytest.raises(ConfigError) as error:
        tree_of(scheduled({**NIGHTLY, "job": job}))
    assert [problem.path for problem in error.value.problems] == [
        "tenants.team-a.schedules.nightly.job.dataset",
        "tenants.team-a.schedules.nightly.job.model",
    ]
    assert "mount a claim with the files by `volumes`" in error.value.problems[0].fix
    assert Download("hf://a/b", "hub") == Download("hf://a/b", secret="hub")


def test_a_smoke_test_can_have_a_schedule() -> None:
    tree = tree_of(scheduled({**NIGHTLY, "job": {"runtime": "openmpi-cpu", "smoke": True}}))
    job = job_in(tree["CronJob team-a-schedules/nightly"])
    assert "PASS: mpirun started" in job["spec"]["trainer"]["command"][2]


def test_the_longest_name_leaves_room_for_the_generated_characters() -> None:
    longest = "n" * 38
    tree = tree_of(scheduled({**NIGHTLY, "name": longest}))
    prefix = job_in(tree[f"CronJob team-a-schedules/{longest}"])["metadata"]["generateName"]
    assert len(prefix) + 5 == LONGEST_NAME


def test_namespaces_of_jobs_have_a_role_binding() -> None:
    data = small_platform()["tenants"]
    data[0]["namespaces"] = ["team-a-dev", "team-a-idle"]
    dev = {**NIGHTLY, "name": "dev", "job": {"runtime": "openmpi-cpu", "namespace": "team-a-dev"}}
    tree = tree_of(scheduled(NIGHTLY, dev, tenants=data))
    bindings = {item.namespace for item in tree.values() if item.resource.endswith("/mpigen-schedule")}
    assert bindings == {"team-a", "team-a-dev"}
    assert job_in(tree["CronJob team-a-schedules/dev"])["metadata"]["namespace"] == "team-a-dev"
    assert {item.namespace for item in tree.values() if item.kind == "CronJob"} == {"team-a-schedules"}


def test_a_retired_team_has_no_schedules() -> None:
    data = small_platform()["tenants"]
    data[0]["retired"] = {"reason": "ended", "until": "2027-03-31"}
    assert not [key for key in tree_of(scheduled(tenants=data)) if "schedules" in key]


def test_openshift_chooses_the_user_of_the_pods() -> None:
    tree = tree_of(scheduled(cluster={"distribution": "openshift"}))
    pod = tree["CronJob team-a-schedules/nightly"].body["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    labels = tree["Namespace -/team-a-schedules"].labels
    assert labels["security.openshift.io/scc.podSecurityLabelSync"] == "false"
    assert "kueue.openshift.io/managed" not in labels


def test_pods_use_the_api_server_of_isolation_by_default() -> None:
    isolation = {"apiServer": {"networks": ["10.9.0.1/32"], "port": 443}}
    tree = tree_of(scheduled(isolation=isolation, policies={"schedules": {"image": IMAGE}}))
    (rule,) = tree["NetworkPolicy team-a-schedules/np-api-server"].body["spec"]["egress"]
    assert rule["to"] == [{"ipBlock": {"cidr": "10.9.0.1/32"}}]
    assert rule["ports"] == [{"protocol": "TCP", "port": 443}]


def test_cilium_needs_no_addresses_of_the_api_server() -> None:
    tree = tree_of(scheduled(cluster={"network": "cilium"}, policies={"schedules": {"image": IMAGE}}))
    policy = tree["CiliumNetworkPolicy team-a-schedules/cnp-api-server"].body["spec"]
    assert policy["egress"][0]["toEntities"] == ["kube-apiserver"]
    assert "CiliumNetworkPolicy team-a/cnp-api-server" not in tree


@pytest.mark.parametrize(
    "cluster", [{}, {"distribution": "openshift"}, {"network": "cilium"}], ids=["kubernetes", "openshift", "cilium"]
)
@pytest.mark.parametrize("engine", ["argocd", "flux"])
def test_a_release_with_schedules_has_no_findings(cluster: Body, engine: str) -> None:
    server = {} if cluster.get("network") == "cilium" else {"networks": ["10.0.0.8/32"]}
    gitops = {"repository": "https://git.example.com/p.git", "engine": engine, "grant": True}
    policies = {"schedules": {"image": IMAGE, "apiServer": server}}
    smoke = {"name": "smoke", "schedule": "@weekly", "job": {"runtime": "openmpi-cpu", "smoke": True, "timeout": "1h"}}
    tenants = small_platform()["tenants"]
    tenants[0]["limits"] = {"timePerJob": "4h"}
    platform = scheduled(NIGHTLY, smoke, cluster=cluster, gitops=gitops, policies=policies, tenants=tenants)
    plain = Platform.model_validate({**small_platform(), "cluster": cluster, "gitops": gitops, "tenants": tenants})
    assert findings_of(platform) == findings_of(plain)


def test_a_job_that_a_rule_rejects_is_a_finding() -> None:
    tenants = small_platform()["tenants"]
    tenants[0]["limits"] = {"timePerJob": "4h"}
    long = {"name": "long", "schedule": "@daily", "job": {"runtime": "openmpi-cpu", "timeout": "5h"}}
    plain = Platform.model_validate({**small_platform(), "tenants": deepcopy(tenants)})
    (finding,) = findings_of(scheduled(long, tenants=tenants)) - findings_of(plain)
    assert finding.startswith("policy/rejects-scheduled-job CronJob team-a-schedules/long: the policy `small-size`")
    assert "18000" in finding


def test_rights_on_cron_jobs_need_the_section_of_the_policies() -> None:
    def resources(platform: Platform, role: str) -> set[str]:
        rules = tree_of(platform)[f"ClusterRole -/{role}"].body["rules"]
        return {f"{verb} {resource}" for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}

    sections = {
        "access": {"admin": ["group:admins"], "ci": ["user:ci"]},
        "gitops": {"repository": "https://git.example.com/p.git", "grant": True},
    }
    plain, able = Platform.model_validate({**small_platform(), **sections}), scheduled(**sections)
    for role in ("mpigen-platform-admin", "mpigen-gitops"):
        assert resources(able, role) - resources(plain, role) >= {"delete cronjobs", "update cronjobs"}
    assert resources(able, "mpigen-platform-ci") - resources(plain, "mpigen-platform-ci") == {
        "get cronjobs",
        "list cronjobs",
        "watch cronjobs",
    }


def test_only_operators_change_the_cron_jobs_of_the_release() -> None:
    tree = tree_of(scheduled(access={"admin": ["group:admins"]}))
    rules = tree["ValidatingAdmissionPolicy -/small-generated"].body["spec"]["matchConstraints"]["resourceRules"]
    assert rules[-1]["resources"] == ["cronjobs"]
    plain = Platform.model_validate({**small_platform(), "access": {"admin": ["group:admins"]}})
    before = tree_of(plain)["ValidatingAdmissionPolicy -/small-generated"].body
    assert before["spec"]["matchConstraints"]["resourceRules"] == rules[:-1]


def test_a_job_that_could_not_run_is_a_mistake_of_the_platform_file() -> None:
    platform, app = load(MISTAKES / "platform.yaml")  # which accepts the names of runtimes in an mpigen_platform.py
    with pytest.raises(ConfigError) as error:
        render(platform, app)
    assert f"{error.value}\n".replace(f"{MISTAKES}/", "") == (MISTAKES / "problems.txt").read_text()
