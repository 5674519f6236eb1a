"""Test `patches` and `extra` of platform files, and patches in Python: results, places, mistakes and open holes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cdk8s
import pytest
import yaml

from generator import App, ConfigError, Platform, load_platform, pipeline, select
from generator.checks.finding import Finding
from generator.components.constructs import place_api_object
from generator.config.load import load_environments
from generator.facts.names import TENANT_LABEL
from generator.hazards.patched import find_weakened
from generator.stages.rendering import render_with_effects
from tests.conftest import EXAMPLES

BASE = yaml.safe_load(EXAMPLES["cpu-kubernetes"].read_text())
NODE = {"name": "node", "securityContext": {"privileged": True}}
CONTAINER = {"template": {"spec": {"template": {"spec": {"containers": [NODE]}}}}}
PRIVILEGED = {"spec": {"template": {"spec": {"replicatedJobs": [{"name": "node", **CONTAINER}]}}}}
LABEL = {"metadata": {"labels": {"example.com/a": "b"}}}
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "team-sim"}}


def write(folder: Path, **fields: Any) -> Path:
    file = folder / "platform.yaml"
    file.write_text(yaml.safe_dump({**BASE, **fields}, sort_keys=False))
    return file


def patch(target: dict[str, Any], **change: Any) -> dict[str, Any]:
    return {"target": target, "reason": "test", **change}


def synth(file: Path) -> list[Finding]:
    return list(pipeline.synth(file, file.parent / "output", pipeline.Choices()).outcome.findings)


def problems(file: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        synth(file)
    assert not (file.parent / "output").exists()
    assert all(problem.line for problem in caught.value.problems)
    return [str(problem).removeprefix(f"{file}:") for problem in caught.value.problems]


def test_patches_and_extra_change_the_release_and_its_lock(tmp_path: Path) -> None:
    (tmp_path / "extra.yaml").write_text(json.dumps(CONFIG_MAP))
    tenant = {**BASE["tenants"][0], "extra": ["extra.yaml"]}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "licences"}}
    namespaces = patch({"kind": "Namespace", "tenant": "team-sim"}, merge=LABEL)
    applications = patch({"kind": "AppProject"}, merge={"metadata": {"annotations": {"a": "b"}}})
    quota = patch({"kind": "ResourceQuota"}, json=[{"op": "add", "path": "/spec/hard/pods", "value": "9"}])
    file = write(tmp_path, tenants=[tenant], extra=[namespace], patches=[namespaces, applications, quota])
    assert synth(file) == []
    output = tmp_path / "output/cpu-kubernetes"
    assert (output / "tenants/team-sim/extra/configmap-a.yaml").is_file()
    assert (output / "custom/cluster/namespace-licences.yaml").is_file()
    assert "example.com/a: b" in (output / "tenants/team-sim/namespace.yaml").read_text()
    assert "a: b" in (output / "argocd/project.yaml").read_text()
    assert 'pods: "9"' in (output / "tenants/team-sim/quota.yaml").read_text()
    before = load_platform(file)
    (tmp_path / "extra.yaml").write_text(json.dumps({**CONFIG_MAP, "data": {"k": "v"}}))
    after = load_platform(file)
    assert before.digest() != after.digest()
    assert Platform.model_validate(after.model_dump()).digest() == after.digest()


MISTAKES: list[tuple[dict[str, Any], list[str]]] = [
    (patch({}, merge=LABEL), ["patches[0].target: `target` is empty"]),
    (patch({"knd": "Pod"}, merge=LABEL), ["patches[0].target.knd: there is no field `knd` here; did you mean `kind`?"]),
    (
        patch({"tenant": "team-sm"}, merge=LABEL),
        ["patches[0].target.tenant: there is no tenant `team-sm`", "`team-sim`"],
    ),
    (patch({"runtime": "openmp"}, merge=LABEL), ["patches[0].target: no object", "did you mean `openmpi`?"]),
    (patch({"name": "a b"}, merge=LABEL), ["patches[0].target.name: `a b` is not the name of an object"]),
    (patch({"kind": "Pod"}), ["patches[0]: a patch needs either `merge` or `json`"]),
    (patch({"kind": "Pod"}, merge={}), ["patches[0].merge: `merge` is empty"]),
    (patch({"kind": "Pod"}, json=[]), ["patches[0].json: `json` is empty"]),
    (patch({"kind": "Pod"}, merge=LABEL, json=[{"op": "remove", "path": "/a"}]), ["a patch has both"]),
    (patch({"kind": "Pod"}, json=[{"op": "rm", "path": "/a"}]), ["patches[0].json[0].op: `rm` is not a valid value"]),
    (patch({"kind": "Pod"}, json=[{"op": "add", "path": "/a"}]), ["patches[0].json[0].op: `add` needs a `value`"]),
    (patch({"kind": "Pod"}, json=[{"op": "copy", "path": "/a"}]), ["patches[0].json[0].op: `copy` needs `from`"]),
    (patch({"kind": "Pod"}, json=[{"op": "remove", "path": "a"}]), ["`a` does not start with `/`"]),
    (patch({"kind": "Pod"}, json=[{"op": "remove", "path": "/~2"}]), ["has a `~` that is neither `~0` nor `~1`"]),
    (
        patch({"kind": "LimitRange"}, json=[{"op": "remove", "path": "/spec/limit"}]),
        ["patches[0].json[0].path: LimitRange team-sim/tenant: `/spec/limit` does not exist; did you mean `limits`?"],
    ),
    (
        patch({"kind": "LimitRange"}, json=[{"op": "test", "path": "/kind", "value": "Pod"}]),
        ["patches[0].json[0]: LimitRange team-sim/tenant: `test` fails: `/kind` is `LimitRange`, not `Pod`"],
    ),
    (
        patch({"kind": "Namespace", "name": "team-sim"}, merge={"metadata": {"name": "b"}}),
        ["a patch cannot change `metadata.name`"],
    ),
]


@pytest.mark.parametrize(("wrong", "expected"), MISTAKES)
def test_a_mistake_in_a_patch_has_its_line(wrong: dict[str, Any], expected: list[str], tmp_path: Path) -> None:
    (found,) = problems(write(tmp_path, patches=[wrong]))
    assert [part for part in expected if part not in found] == []


def test_a_patch_needs_a_reason_and_finite_numbers(tmp_path: Path) -> None:
    file = write(tmp_path, patches=[{"target": {"kind": "Pod"}, "merge": LABEL}])
    assert "patches[0].reason: `reason` is missing; add it" in problems(file)[0]
    file.write_text(file.read_text().replace("example.com/a: b", "example.com/a: .nan"))
    assert "`.nan` is not a number in JSON" in problems(file)[0]


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    wrong = [patch({"kind": "Nmespace"}, merge=LABEL), patch({"kind": "LimitRange"}, merge={"kind": "Pod"})]
    found = problems(write(tmp_path, patches=wrong, extra=[]))
    assert [text.split(": ")[1] for text in found] == ["patches[0].target", "patches[1]"]


EXTRAS: list[tuple[Any, str]] = [
    ("missing.yaml", "`missing.yaml`: cannot be read"),
    ("wrong.yaml", "`wrong.yaml`: line 1 of the file:"),
    ("list.yaml", "`list.yaml`: object 1 of the file: it is not an object"),
    ("empty.yaml", "`empty.yaml` holds no object"),
    ("/etc/passwd", "`/etc/passwd` is not a relative path"),
    (7, "`7` is neither an object nor a file"),
    ({"kind": "Pod"}, "an object has no `apiVersion`"),
    ({**CONFIG_MAP, "metadata": {}}, "an object has no `metadata.name`"),
    ({**CONFIG_MAP, "metadata": {"name": "a", "labels": []}}, "`metadata.labels` that is not a mapping"),
    (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-sim"}},
        "the release has Namespace team-sim twice: in tenants/team-sim/namespace.yaml and in custom/",
    ),
]


@pytest.mark.parametrize(("extra", "expected"), EXTRAS)
def test_a_mistake_in_extra_has_its_line(extra: Any, expected: str, tmp_path: Path) -> None:
    for name, text in (("wrong.yaml", "a: [\n"), ("list.yaml", "- 1\n"), ("empty.yaml", "# nothing\n")):
        (tmp_path / name).write_text(text)
    (found,) = problems(write(tmp_path, extra=[CONFIG_MAP, extra]))
    assert ": extra[1]: " in found
    assert expected in found


def test_an_object_of_a_team_is_in_a_namespace_of_the_team(tmp_path: Path) -> None:
    other = {**CONFIG_MAP, "metadata": {"name": "a", "namespace": "kube-system"}}
    (found,) = problems(write(tmp_path, tenants=[{**BASE["tenants"][0], "extra": [other]}]))
    assert "tenants[0].extra[0]: `ConfigMap a` is in namespace `kube-system`, which is not a namespace of" in found


def test_a_platform_in_python_has_no_folder_for_files() -> None:
    with pytest.raises(ConfigError, match=r"a platform in Python has no folder for the file `a\.yaml`"):
        Platform.model_validate({**BASE, "extra": ["a.yaml"]})
    assert Platform.model_validate({**BASE, "extra": [CONFIG_MAP]}).extra[0].objects == (CONFIG_MAP,)


def test_environments_replace_patches_or_change_them_by_name(tmp_path: Path) -> None:
    named = [{**patch({"kind": "Namespace"}, merge=LABEL), "name": name} for name in ("one", "two")]
    environments = {
        "dev": {"without": {"patches": ["one"]}},
        "prod": {"patches": [{"name": "one", "reason": "prod"}]},
    }
    file = write(tmp_path, patches=named, environments=environments)
    found = {name: [(row.name, row.reason) for row in one.patches] for name, one in load_environments(file).items()}
    assert found == {"dev": [("two", "test")], "prod": [("one", "prod"), ("two", "test")]}
    unnamed = patch({"kind": "Pod"}, merge=LABEL)
    file = write(
        tmp_path, patches=[patch({"kind": "Namespace"}, merge=LABEL)], environments={"a": {"patches": [unnamed]}}
    )
    (found_problem,) = problems(file)
    assert "environments.a.patches[0].target: no object of the release has kind `Pod`" in found_problem
    file = write(tmp_path, patches=[named[0], named[0]])
    assert "patches[1].name: `one` occurs twice" in problems(file)[0]


CLOSED = {"matchLabels": {"x": "z"}}
ALL_RULES = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
EVERYONE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}
QUOTA = "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota"
SYNC = "argocd.argoproj.io/sync-options"
CONFIGURATION = "controller_manager_config.yaml"
UIDS = "openshift.io/sa.scc.uid-range"
VIEW = "rbac.authorization.k8s.io/aggregate-to-view"
PSA = "pod-security.kubernetes.io/enforce"
BORROWED = QUOTA.replace("nominalQuota", "borrowingLimit")
OTHER_FLAVOR = {"name": "h100", "resources": [{"name": name, "nominalQuota": "0"} for name in ("cpu", "memory")]}


def annotate(kind: str, key: str, value: str) -> dict[str, Any]:
    """Return a patch that sets an annotation."""
    return patch({"kind": kind}, merge={"metadata": {"annotations": {key: value}}})


HOLES: dict[str, dict[str, Any]] = {
    "egress to all": patch({"kind": "NetworkPolicy"}, merge={"spec": {"egress": [{}]}}),
    "ingress from all": patch({"kind": "NetworkPolicy"}, merge={"spec": {"ingress": [{}]}}),
    "no default deny of egress": patch({"kind": "NetworkPolicy"}, merge={"spec": {"policyTypes": ["Ingress"]}}),
    "policy without pods": patch({"kind": "NetworkPolicy"}, merge={"spec": {"podSelector": CLOSED}}),
    "privileged pods": patch({"kind": "Namespace"}, merge={"metadata": {"labels": {PSA: "privileged"}}}),
    "old Pod Security": patch({"kind": "Namespace"}, merge={"metadata": {"labels": {f"{PSA}-version": "v1.22"}}}),
    "users of OpenShift": patch({"kind": "Namespace"}, merge={"metadata": {"annotations": {UIDS: "0/1000"}}}),
    "rights of all viewers": patch(
        {"kind": "ClusterRole", "name": "*-edit"}, merge={"metadata": {"labels": {VIEW: "true"}}}
    ),
    "another queue": patch({"kind": "LocalQueue"}, merge={"spec": {"clusterQueue": "other"}}),
    "no Pod Security": patch({"kind": "Namespace"}, merge={"metadata": {"labels": {PSA: None}}}),
    "no tenant": patch({"kind": "Namespace"}, merge={"metadata": {"labels": {"mpigen.dev/tenant": None}}}),
    "other parameters": patch({"kind": "Namespace"}, merge={"metadata": {"annotations": {"mpigen.dev/queues": "x"}}}),
    "not protected": patch(
        {"kind": "LimitRange"}, merge={"metadata": {"labels": {"app.kubernetes.io/managed-by": "x"}}}
    ),
    "audit only": patch({"kind": "ValidatingAdmissionPolicyBinding"}, merge={"spec": {"validationActions": ["Audit"]}}),
    "errors ignored": patch({"kind": "ValidatingAdmissionPolicy"}, merge={"spec": {"failurePolicy": "Ignore"}}),
    "always true": patch(
        {"kind": "ValidatingAdmissionPolicy"}, merge={"spec": {"validations": [{"expression": "true"}]}}
    ),
    "binding elsewhere": patch(
        {"kind": "ValidatingAdmissionPolicyBinding"},
        merge={"spec": {"matchResources": {"namespaceSelector": {"matchLabels": {"no": "where"}}}}},
    ),
    "all rights": patch({"kind": "ClusterRole", "name": "mpigen-*"}, merge={"rules": ALL_RULES}),
    "all users": patch({"kind": "RoleBinding"}, json=[{"op": "add", "path": "/subjects/-", "value": EVERYONE}]),
    "cluster-admin": patch({"kind": "RoleBinding"}, merge={"roleRef": {"name": "cluster-admin"}}),
    "more than the nodes": patch({"kind": "ClusterQueue"}, json=[{"op": "replace", "path": QUOTA, "value": "999"}]),
    "no object quota": patch({"kind": "ResourceQuota"}, merge={"spec": {"hard": {"services.nodeports": None}}}),
    "no limits": patch({"kind": "LimitRange"}, merge={"spec": {"limits": []}}),
    "deletion without confirmation": patch({"kind": "Namespace"}, merge={"metadata": {"annotations": {SYNC: None}}}),
    "token": patch({"kind": "ServiceAccount"}, merge={"automountServiceAccountToken": True}),
    "another repository": patch({"kind": "AppProject"}, merge={"spec": {"sourceRepos": ["*"]}}),
    "another project": patch({"kind": "Application", "name": "*-cluster"}, merge={"spec": {"project": "default"}}),
    "other folders": patch({"kind": "ApplicationSet"}, json=[{"op": "remove", "path": "/spec/generators/0"}]),
    "another repository in a template": patch(
        {"kind": "ApplicationSet"}, merge={"spec": {"templatePatch": "spec: {}"}}
    ),
    "another source in a template": patch(
        {"kind": "ApplicationSet"}, merge={"spec": {"template": {"spec": {"sources": [{"repoURL": "https://x.y"}]}}}}
    ),
    "deletions that Argo CD leaves out": patch(
        {"kind": "Application", "name": "*-cluster"}, merge={"spec": {"syncPolicy": {"automated": {"prune": False}}}}
    ),
    "fields that Argo CD leaves out": patch(
        {"kind": "Application", "name": "*-cluster"},
        merge={"spec": {"ignoreDifferences": [{"kind": "*", "jsonPointers": ["/spec"]}]}},
    ),
    "users of a project": patch(
        {"kind": "AppProject", "name": "*-cluster"}, merge={"spec": {"roles": [{"name": "a", "policies": ["p"]}]}}
    ),
    "Applications in all namespaces": patch({"kind": "AppProject"}, merge={"spec": {"sourceNamespaces": ["*"]}}),
    "a binding that stays": annotate("RoleBinding", SYNC, "Prune=false"),
    "a namespace that is replaced": annotate(
        "Namespace", SYNC, "Prune=confirm,Delete=confirm,PruneLast=true,Replace=true"
    ),
    "a policy that is never applied": annotate("NetworkPolicy", "argocd.argoproj.io/hook", "Skip"),
    "a policy that is compared with nothing": annotate(
        "NetworkPolicy", "argocd.argoproj.io/compare-options", "IgnoreExtraneous"
    ),
    "a rule after the jobs": annotate("ValidatingAdmissionPolicyBinding", "argocd.argoproj.io/sync-wave", "9"),
    "a policy that Flux ignores": annotate("NetworkPolicy", "kustomize.toolkit.fluxcd.io/reconcile", "disabled"),
    "a policy that Flux never updates": annotate("NetworkPolicy", "kustomize.toolkit.fluxcd.io/ssa", "IfNotPresent"),
    "a policy with an owner": patch(
        {"kind": "NetworkPolicy"},
        merge={"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}]}},
    ),
    "rights of all readers of the cluster": patch(
        {"kind": "ClusterRole", "name": "*-edit"},
        merge={"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-cluster-reader": "true"}}},
    ),
    "no SecurityContextConstraints": patch(
        {"kind": "Namespace"}, merge={"metadata": {"labels": {"openshift.io/run-level": "0"}}}
    ),
    "SELinux label of another namespace": annotate("Namespace", "openshift.io/sa.scc.mcs", "s0:c1,c2"),
    "nodes of another pool": annotate("Namespace", "scheduler.alpha.kubernetes.io/node-selector", "pool=other"),
    "nodes of another flavor": patch({"kind": "ResourceFlavor"}, merge={"spec": {"nodeLabels": {"pool": "other"}}}),
    "nodes of the control plane": patch(
        {"kind": "ResourceFlavor"}, merge={"spec": {"tolerations": [{"operator": "Exists"}]}}
    ),
    "capacity on paper": annotate("ResourceFlavor", "mpigen.dev/nodes", "1000"),
    "jobs before all others": patch({"kind": "WorkloadPriorityClass", "name": "best-effort"}, merge={"value": 9999}),
    "quota without a limit": patch({"kind": "ClusterQueue"}, json=[{"op": "remove", "path": BORROWED}]),
    "quota of another flavor": patch(
        {"kind": "ClusterQueue"},
        json=[{"op": "add", "path": "/spec/resourceGroups/0/flavors/0", "value": OTHER_FLAVOR}],
    ),
    "quota of another cohort": patch({"kind": "ClusterQueue"}, merge={"spec": {"cohortName": "other"}}),
    "preempted jobs of others": patch(
        {"kind": "ClusterQueue"}, merge={"spec": {"preemption": {"borrowWithinCohort": {"policy": "LowerPriority"}}}}
    ),
    "a larger share": patch({"kind": "ClusterQueue"}, merge={"spec": {"fairSharing": {"weight": "9"}}}),
    "unmanaged jobs": patch({"kind": "ConfigMap", "name": "kueue-*"}, merge={"data": {CONFIGURATION: "kind: X"}}),
}


@pytest.mark.parametrize("hole", HOLES)
def test_a_patch_that_opens_a_hole_is_an_error_at_the_patch(hole: str, tmp_path: Path) -> None:
    file = write(tmp_path, patches=[patch({"kind": "Namespace"}, merge=LABEL), HOLES[hole]])
    platform = load_platform(file)
    _, effects = render_with_effects(platform, App(platform))
    line = 1 + [number for number, text in enumerate(file.read_text().splitlines()) if text == "- target:"][1]
    found = find_weakened(effects, file)
    assert {(one.check, one.path, one.line) for one in found} == {("platform/weakened-protection", "patches[1]", line)}


def test_a_team_with_the_name_of_a_folder_is_no_exception(tmp_path: Path) -> None:
    tenant = {**BASE["tenants"][0], "name": "extra"}
    platform = load_platform(file := write(tmp_path, tenants=[tenant], patches=[HOLES["no limits"]]))
    _, effects = render_with_effects(platform, App(platform))
    assert [one.resource for one in find_weakened(effects, file)] == ["LimitRange extra/tenant"]


NO_HOLES: dict[str, dict[str, Any]] = {
    "fewer rights": patch(
        {"kind": "ClusterRole", "name": "mpigen-view"},
        json=[{"op": "replace", "path": "/rules/0/verbs", "value": ["get"]}],
    ),
    "less quota": patch({"kind": "ClusterQueue"}, json=[{"op": "replace", "path": QUOTA, "value": "1"}]),
    "stricter": patch({"kind": "ResourceQuota"}, merge={"spec": {"hard": {"pods": "3"}}}),
    "more actions": patch(
        {"kind": "ValidatingAdmissionPolicyBinding"},
        json=[{"op": "add", "path": "/spec/validationActions/-", "value": "Audit"}],
    ),
    "no flavor": patch({"kind": "ClusterQueue"}, json=[{"op": "remove", "path": "/spec/resourceGroups/0/flavors/0"}]),
    "less preemption": patch(
        {"kind": "ClusterQueue"}, merge={"spec": {"preemption": {"reclaimWithinCohort": "Never"}}}
    ),
    "an earlier rule": annotate("ValidatingAdmissionPolicy", "argocd.argoproj.io/sync-wave", "-9"),
    "confirmed deletion": annotate("RoleBinding", SYNC, "Delete=confirm"),
    "held queue": patch({"kind": "ClusterQueue"}, merge={"spec": {"stopPolicy": "Hold"}}),
    "own subject": patch({"kind": "RoleBinding"}, json=[{"op": "remove", "path": "/subjects/0"}]),
}


@pytest.mark.parametrize("change", NO_HOLES)
def test_a_stricter_patch_is_no_hole(change: str, tmp_path: Path) -> None:
    platform = load_platform(file := write(tmp_path, patches=[NO_HOLES[change]]))
    _, effects = render_with_effects(platform, App(platform))
    assert find_weakened(effects, file) == []


def test_a_privileged_pod_in_a_namespace_of_a_team_is_an_error(tmp_path: Path) -> None:
    container = {"name": "a", "image": "registry.example.com/a:1", "securityContext": {"privileged": True}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "team-sim"}}
    tenant = {**BASE["tenants"][0], "extra": [{**pod, "spec": {"containers": [container]}}]}
    found = synth(write(tmp_path, tenants=[tenant]))
    (error,) = [one for one in found if one.check == "pod/pod-security"]
    assert (error.severity, error.path) == (
        "error",
        "tenants[0].extra[0].spec.containers[0].securityContext.privileged",
    )
    assert "privileged (container" in error.message


@pytest.mark.parametrize(("stop", "patched"), [("drain", "Hold"), ("hold", "None"), ("hold", None)])
def test_a_patch_that_opens_a_closed_queue_is_a_hole(stop: str, patched: str | None, tmp_path: Path) -> None:
    tenant = {**BASE["tenants"][0], "stop": stop}
    opened = patch({"kind": "ClusterQueue"}, merge={"spec": {"stopPolicy": patched}})
    platform = load_platform(file := write(tmp_path, tenants=[tenant], patches=[opened]))
    _, effects = render_with_effects(platform, App(platform))
    assert {one.check for one in find_weakened(effects, file)} == {"platform/weakened-protection"}


def test_checks_see_the_patched_objects_and_point_at_the_patch(tmp_path: Path) -> None:
    found = synth(file := write(tmp_path, patches=[patch({"runtime": "openmpi"}, merge=PRIVILEGED)]))
    (finding,) = [one for one in found if one.check == "runtime/pod-security"]
    assert (finding.severity, finding.file, finding.path) == ("error", str(file), "patches[0]")
    assert not (tmp_path / "output").exists()


def test_an_added_binding_gets_the_errors_that_validate_reports(tmp_path: Path) -> None:
    """`policy/cluster-admin` reads the lock of a release, which `synth` has before it writes the files."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "a"}}
    found = synth(write(tmp_path, extra=[{**binding, "roleRef": role, "subjects": [EVERYONE]}]))
    errors = {(one.check, one.severity, one.path) for one in found}
    assert errors == {
        (check, "error", "extra[0].subjects[0].name") for check in ("access/everyone", "policy/cluster-admin")
    }
    assert not (tmp_path / "output").exists()


@pytest.mark.parametrize("broken", [{"template": None}, {"template": {"spec": {"replicatedJobs": "x"}}}])
def test_a_broken_runtime_is_a_finding(broken: dict[str, Any], tmp_path: Path) -> None:
    found = synth(write(tmp_path, patches=[patch({"runtime": "openmpi"}, merge={"spec": broken})]))
    assert ("error", "patches[0]") in {(one.severity, one.path) for one in found}


def test_namespaces_list_the_resources_of_patched_runtimes(tmp_path: Path) -> None:
    node = {"name": "node", "resources": {"limits": {"cpu": "7"}, "requests": {"cpu": "7"}}}
    text = json.dumps(PRIVILEGED).replace(json.dumps(NODE), json.dumps(node))
    merge = json.loads(text.replace('"name": "node", "template"', '"name": "launcher", "template"'))
    platform = load_platform(write(tmp_path, patches=[patch({"runtime": "openmpi"}, merge=merge)]))
    tree = pipeline.render(platform, App(platform))
    (home,) = [one for one in tree if one.kind == "Namespace" and TENANT_LABEL in one.labels]
    assert "openmpi=cpu=7" in home.body["metadata"]["annotations"]["mpigen.dev/resources"]


def add_label(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "labels": {"a": "b"}}}


def test_python_patches_objects_of_mpigen_of_cdk8s_and_of_included_files(tmp_path: Path) -> None:
    (tmp_path / "crd.yaml").write_text(json.dumps({**CONFIG_MAP, "metadata": {"name": "included"}}))
    app = App(Platform.model_validate(BASE))
    chart = cdk8s.Chart(app, "site")
    cdk8s.Include(chart, "include", url=str(tmp_path / "crd.yaml"))
    place_api_object(chart, "own", {**CONFIG_MAP, "metadata": {"name": "own"}})
    app.patch(select(kind="ConfigMap"), add_label)
    app.patch(select(kind="Namespace"), {"metadata": {"annotations": {"a": "b"}}})
    tree = pipeline.render(app.platform, app)
    assert {one.name for one in tree if one.labels == {"a": "b"}} >= {"included", "own"}
    (home,) = [one for one in tree if one.kind == "Namespace" and TENANT_LABEL in one.labels]
    assert home.body["metadata"]["annotations"]["a"] == "b"


def test_a_mistake_in_python_has_the_line_of_the_call() -> None:
    app = App(Platform.model_validate(BASE))
    app.patch(select(kind="ConfigMp"), {"a": 1})
    app.patch(select(kind="Namespace"), lambda body: body["spec"])
    with pytest.raises(ConfigError) as caught:
        pipeline.render(app.platform, app)
    function, no_match = sorted(caught.value.problems, key=lambda problem: -problem.line)
    assert {function.file, no_match.file} == {__file__}
    assert function.line == no_match.line + 1
    assert "KeyError: 'spec'; correct the function" in str(function)
    assert "no object of the release has kind `ConfigMp`" in str(no_match)


@pytest.mark.parametrize(
    ("change", "message"),
    [({}, "a mapping is not a change of objects"), (7, "`7` is not a change"), ({"a": float("inf")}, "not plain data")],
)
def test_a_change_in_python_is_plain_data_or_a_function(change: Any, message: str) -> None:
    app = App(Platform.model_validate(BASE))
    with pytest.raises(ConfigError, match=message):
        app.patch(select(kind="Namespace"), change)
    with pytest.raises(ConfigError, match="the target is not a selection"):
        app.patch("Namespace", {"a": 1})  # type: ignore[arg-type]


def run(folder: Path, *lines: str) -> list[str]:
    """Return the problems of a platform file in Python with these lines after `app`."""
    (folder / "base.yaml").write_text(yaml.safe_dump(BASE))
    file = folder / "mpigen_platform.py"
    first = ("import random", "import sys", "import cdk8s", "from generator import App, load_platform, select")
    file.write_text("\n".join((*first, 'app = App(load_platform("base.yaml"))', *lines)))
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        with pytest.raises(ConfigError) as caught:
            synth(Path("mpigen_platform.py"))
    assert {path.name for path in folder.iterdir()} <= {"base.yaml", file.name}
    return [str(problem) for problem in caught.value.problems]


LABELLED = 'b["metadata"]["labels"]["a"] = "b"'
FUNCTIONS: dict[str, tuple[list[str], str]] = {
    "an exit": (
        ["    sys.exit(0)"],
        "Namespace team-sim: `f` (mpigen_platform.py:6) fails in line 7: SystemExit: 0",
    ),
    "a random value": (
        ['    b["metadata"]["labels"]["a"] = str(random.random())', "    return b"],
        "Namespace team-sim: `f` (mpigen_platform.py:6) returns different values of `metadata.labels.a` for the same",
    ),
    "a changed file": (['    open("a.txt", "w")', "    return b"], ":7: this line changes `a.txt`"),
    "standard input": (["    return input()"], ":7: this line reads standard input"),
    "another patch": (
        ['    app.patch(select(kind="LimitRange"), {"a": 1})', f"    {LABELLED}", "    return b"],
        ":7: `app.patch` in the function of a patch has no effect",
    ),
    "a construct": (
        ['    cdk8s.Chart(app, f"a{random.random()}")', f"    {LABELLED}", "    return b"],
        "the function of a patch adds or removes a construct, which has no effect: `f` (mpigen_platform.py:6)",
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_a_patch_only_computes_its_result(name: str, tmp_path: Path) -> None:
    body, expected = FUNCTIONS[name]
    (found,) = run(tmp_path, "def f(b):", *body, 'app.patch(select(kind="Namespace"), f)')
    assert expected.removeprefix(":7") in found


def test_python_changes_components_of_mpigen_only_by_patches(tmp_path: Path) -> None:
    (removed,) = run(tmp_path, 'app.node.try_remove_child("admission")')
    assert "mpigen_platform.py: the file removes the component `admission` of mpigen" in removed
    mutation = 'app.node.find_child("tenant-team-sim").manifests[0].body["metadata"]["labels"].clear()'
    (changed,) = run(tmp_path, mutation)
    assert "changes the objects of the component `tenant-team-sim` of mpigen without a patch" in changed


def test_python_can_replace_a_runtime(tmp_path: Path) -> None:
    lines = (
        'app.node.try_remove_child("runtime-openmpi")',
        'app.node.try_remove_child("admission")',
        'MpiRuntime(app, "mine", runtime=app.platform.runtimes[0])',
    )
    (found,) = run(tmp_path, "from generator import MpiRuntime", *lines)
    assert "removes the component `admission`" in found
