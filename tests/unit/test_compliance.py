"""Test the requirements and additions of the profile `regulated`, and the page docs/explanations/compliance.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, get_args

import pytest
import yaml

from generator import App, Platform, pipeline
from generator.config.model.policies import AUDIT_POLICY_FILE, RuleName
from generator.errors import ConfigError
from generator.gitops.argocd import is_applied
from generator.manifests import Manifest, write
from generator.policies.audit import FLAGS, audit_policy
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from tests.conftest import ROOT, small_platform
from tests.regulated import DOCUMENT, regulated

PAGE = DOCUMENT.read_text("utf-8")
Change = Callable[[dict[str, Any]], object]

WEAKER: dict[str, tuple[Change, str]] = {
    "residency": (lambda policies: policies.pop("residency"), "nodes can be in any place"),
    "storage classes": (lambda policies: policies.pop("storageClasses"), "data can be written to any StorageClass"),
    "encryption": (lambda policies: policies["storageClasses"][0].pop("encrypted"), "not declared as encrypted"),
    "labels": (lambda policies: policies.pop("labels"), "jobs do not name an owner"),
    "registries": (lambda policies: policies["images"].pop("registries"), "images can come from any registry"),
    "digests": (lambda policies: policies["images"].pop("digests"), "the image behind a tag can change"),
    "deny": (lambda policies: policies.update(admission="audit"), "the default action is `audit`"),
    "each rule": (
        lambda policies: policies.update(admission={"rules": {"size": "warn"}}),
        "`warn` does not reject requests",
    ),
    "restricted": (
        lambda policies: policies.update(podSecurity="privileged"),
        "the Pod Security level `restricted`, but the level is `privileged`",
    ),
    "jobs are kept": (lambda policies: policies["retention"].pop("jobs"), "records of finished jobs can be deleted"),
    "the log is kept": (lambda policies: policies["retention"].pop("audit"), "audit logs can be deleted"),
}


def rendered(data: dict[str, Any]) -> list[Manifest]:
    platform = Platform.model_validate(data)
    return pipeline.render(platform, App(platform))


def complaints(data: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        Platform.model_validate(data)
    return [problem.message for problem in caught.value.problems]


def test_the_platform_of_the_page_is_regulated_and_valid() -> None:
    platform = Platform.model_validate(regulated())
    tree = pipeline.render(platform, App(platform))
    assert platform.policies.profile == "regulated"
    assert pipeline.judge(platform, tree).findings == []


@pytest.mark.parametrize("setting", WEAKER)
def test_a_missing_setting_of_the_regulated_profile_is_rejected(setting: str) -> None:
    weaken, said = WEAKER[setting]
    data = regulated()
    weaken(data["policies"])
    (complaint,) = complaints(data)
    assert said in complaint
    assert complaint.startswith("`policies.profile: regulated` requires")


@pytest.mark.parametrize("setting", WEAKER)
def test_a_standard_platform_may_leave_out_every_setting(setting: str) -> None:
    data = regulated()
    data["policies"]["profile"] = "standard"
    WEAKER[setting][0](data["policies"])
    assert Platform.model_validate(data).policies.profile == "standard"


def test_a_regulated_platform_needs_an_admin_or_gitops() -> None:
    data = regulated()
    del data["access"]
    assert Platform.model_validate(data).gitops
    del data["gitops"]
    assert complaints(data) == [
        "`policies.profile: regulated` requires an account or a group that may change generated objects"
    ]
    data["access"] = {"admin": ["group:ml-platform"]}
    assert Platform.model_validate(data).gitops is None


def test_a_profile_adds_only_the_audit_policy_file() -> None:
    data = regulated()
    files = write(rendered(data))
    data["policies"]["profile"] = "standard"
    standard = write(rendered(data))
    assert files.keys() - standard.keys() == {AUDIT_POLICY_FILE}
    assert {file: text for file, text in files.items() if file != AUDIT_POLICY_FILE} == standard


def test_a_platform_without_a_profile_is_standard_and_has_no_additions() -> None:
    files = write(rendered(small_platform()))
    assert not {
        AUDIT_POLICY_FILE,
        *(f"cluster/admission/{rule}.yaml" for rule in ("storage", "job-storage", "residency")),
    } & {*files}


def test_runtime_pods_select_their_region_and_a_separate_launcher_only_that() -> None:
    (runtime,) = [each for each in rendered(regulated()) if each.name == "openmpi"]
    jobs = runtime.body["spec"]["template"]["spec"]["replicatedJobs"]
    selected = {job["name"]: job["template"]["spec"]["template"]["spec"].get("nodeSelector") for job in jobs}
    place = {"topology.kubernetes.io/region": "eu-central-1"}
    assert selected == {"node": {"example.com/pool": "general", **place}, "launcher": place}
    data = regulated()
    del data["policies"]["residency"]
    data["policies"]["profile"] = "standard"
    (runtime,) = [each for each in rendered(data) if each.name == "openmpi"]
    launcher = runtime.body["spec"]["template"]["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]
    assert "nodeSelector" not in launcher


def test_finished_jobs_are_retained_for_the_declared_time() -> None:
    data = regulated()
    data["queues"] = {"retainFinished": "2159h"}
    assert complaints(data) == ["`2159h` is less than the 90 days of `policies.retention.jobs`"]
    data["queues"] = {"retainFinished": "2160h"}
    data["runtimes"][1]["ttlSecondsAfterFinished"] = 90 * 24 * 3600 - 1
    assert ["policies.retention.jobs" in each for each in complaints(data)] == [False, True]
    data["runtimes"][1]["ttlSecondsAfterFinished"] += 1
    assert ["runs a failed TrainJob again" in each for each in complaints(data)] == [True]


def test_openshift_uses_an_audit_profile_without_a_retention_setting() -> None:
    data = regulated() | {"cluster": {"distribution": "openshift"}}
    assert complaints(data) == ["OpenShift limits its audit logs by size, not by days"]
    del data["policies"]["retention"]["audit"]
    (found,) = [each for each in rendered(data) if each.file == AUDIT_POLICY_FILE]
    assert (found.kind, found.name, found.body["spec"]) == (
        "APIServer",
        "cluster",
        {"audit": {"profile": "WriteRequestBodies"}},
    )


def test_argo_cd_skips_the_audit_policy_and_needs_no_right_for_it() -> None:
    assert not is_applied(AUDIT_POLICY_FILE)
    platform = Platform.model_validate(regulated() | {"cluster": {"distribution": "kubernetes"}})
    tree = pipeline.render(platform, App(platform))
    (cluster,) = [each for each in tree if each.kind == "Application" and each.name.endswith("-cluster")]
    assert AUDIT_POLICY_FILE in cluster.body["spec"]["source"]["directory"]["exclude"]
    projects = [each.body["spec"] for each in tree if each.file == "argocd/project.yaml"]
    assert "Policy" not in {each["kind"] for spec in projects for each in spec["clusterResourceWhitelist"]}
    (role,) = [each for each in tree if each.kind == "ClusterRole" and each.name == "mpigen-gitops"]
    assert "audit.k8s.io" not in yaml.safe_dump(role.body)


def test_audit_logs_are_kept_for_the_declared_days_without_a_limit_of_files() -> None:
    flags = audit_policy([], 30)["metadata"]["annotations"][FLAGS]
    assert flags == "--audit-log-maxage=30 --audit-log-maxbackup=0"


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("level", "Everything", "Everything"),
        ("level", None, "level"),
        ("verb", ["create"], "verb"),
        ("nonResourceURLs", ["healthz"], "healthz"),
        ("nonResourceURLs", ["/a*/b"], "/a*/b"),
        ("resources", [{"group": "rbac.authorization.k8s.io/v1"}], "rbac.authorization.k8s.io/v1"),
        ("omitStages", ["Never"], "Never"),
    ],
)
def test_an_invalid_audit_policy_is_detected(field: str, value: object, said: str) -> None:
    body = audit_policy([], 30)
    rule = {**body["rules"][0], field: value}
    wrong = {**body, "rules": [{key: each for key, each in rule.items() if each is not None}]}
    found = Engine(Catalog.bundled()).violations(wrong)
    assert found
    assert any(said in f"{each.message} {each.path} {each.value}" for each in found)
    assert Engine(Catalog.bundled()).violations(body) == []


def test_tests_in_the_compliance_page_exist() -> None:
    file = ""
    named = re.findall(r"`(tests/[a-z_/]+\.py)?(?:::(test_[a-z_0-9]+))?`", PAGE)
    assert len(named) > 10
    for path, test in named:
        file = path or file
        if test:
            assert f"def {test}(" in (ROOT / file).read_text("utf-8"), (file, test)


def test_rules_in_the_compliance_page_exist() -> None:
    named = {
        rule for row in re.findall(r"[Tt]he rules? ((?:`[a-z-]+`(?: and )?)+)", PAGE) for rule in row.split("`")[1::2]
    }
    assert len(named) > 6
    assert named <= {*get_args(RuleName)}


def test_control_ids_have_the_format_of_their_standards() -> None:
    rows = [line.split("|")[2:4] for line in PAGE.splitlines() if line.startswith("| `")]
    assert len(rows) > 10
    for nist, iso in rows:
        assert all(
            re.fullmatch(r"(AC|AU|CM|SA|SC|SI)-[0-9]+(\([0-9]+\))?", each.strip())
            for each in nist.split(",")
            if each.strip()
        )
        assert all(re.fullmatch(r"A\.[5-8]\.[0-9]{1,2}", each.strip()) for each in iso.split(",") if each.strip())
