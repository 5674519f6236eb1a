"""Test `mpigen drift` on exports of the objects of a release, with the changes of users."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from generator.manifests import read
from tests.conftest import EXAMPLES, ROOT, Run

RELEASE = ROOT / "output" / "openshift-h100"
SERVER = {
    "uid": "3b8a7f0e-53c1-4a0c-8a52-6c5bb7a1f6d1",
    "resourceVersion": "42",
    "generation": 2,
    "creationTimestamp": "2026-01-01T00:00:00Z",
}


def objects() -> list[dict[str, Any]]:
    """Return the objects of the release with the metadata of the API server."""
    found = []
    for file in sorted(RELEASE.rglob("*.yaml")):
        found += [copy.deepcopy(item.body) for item in read(file.read_bytes(), str(file))]
    for body in found:
        body["metadata"] |= SERVER
        body["status"] = {"conditions": []}
    return found


def one(items: list[dict[str, Any]], kind: str, name: str = "") -> dict[str, Any]:
    return next(item for item in items if item["kind"] == kind and name in ("", item["metadata"]["name"]))


def as_list(items: list[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def findings(mpigen: Run, items: list[dict[str, Any]], code: int = 1) -> list[dict[str, Any]]:
    ran = mpigen("drift", RELEASE, "--format", "json", stdin=as_list(items))
    assert (ran.returncode, ran.stderr) == (code, "")
    report: list[dict[str, Any]] = json.loads(ran.stdout)["findings"]
    return report


def test_an_equal_cluster_has_no_drift(mpigen: Run) -> None:
    items = objects()
    ran = mpigen("drift", RELEASE, stdin=as_list(items))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith(f"{len(items)} objects compared: 0 with drift, 0 missing, 0 extra\n")


def test_a_changed_value_has_the_line_of_the_release_and_its_manager(mpigen: Run) -> None:
    items = objects()
    queue = one(items, "ClusterQueue", "team-nlp")
    queue["spec"]["queueingStrategy"] = "StrictFIFO"
    fields: Any = {"f:spec": {"f:queueingStrategy": {}}}
    queue["metadata"]["managedFields"] = [
        {"manager": name, "operation": "Update", "apiVersion": queue["apiVersion"], "time": time, "fieldsV1": fields_of}
        for name, time, fields_of in [
            ("argocd-controller", "2026-01-01T00:00:00Z", {"f:spec": {"f:cohortName": {}}}),
            ("kubectl-edit", "2026-01-02T00:00:00Z", fields),
        ]
    ]
    (finding,) = findings(mpigen, items)
    assert finding["check"] == "drift/changed"
    line = Path(finding["file"]).read_text("utf-8").splitlines()[finding["line"] - 1]
    assert line.strip().startswith("queueingStrategy: ")
    assert "is `StrictFIFO` in the cluster, and `BestEffortFIFO` in the release" in finding["message"]
    assert finding["why"].endswith("field manager of this value is `kubectl-edit` (Update, 2026-01-02T00:00:00Z)")


def test_defaults_amounts_and_order_of_keyed_lists_are_no_drift(mpigen: Run) -> None:
    items = objects()
    quota = one(items, "ResourceQuota")
    quota["spec"]["hard"] = {
        key: f"{value}000m" if value.isdigit() else value for key, value in quota["spec"]["hard"].items()
    }
    groups = one(items, "ClusterQueue", "team-nlp")["spec"]["resourceGroups"]
    groups[0]["flavors"][0]["resources"].reverse()
    namespace = one(items, "Namespace")
    namespace["metadata"]["labels"]["kubernetes.io/metadata.name"] = namespace["metadata"]["name"]
    namespace["metadata"]["annotations"] = {
        **namespace["metadata"].get("annotations", {}),
        "openshift.io/sa.scc.mcs": "s0:c1,c0",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }
    namespace["spec"] = {"finalizers": ["kubernetes"]}
    one(items, "ClusterQueue")["metadata"]["finalizers"] = ["kueue.x-k8s.io/resource-in-use"]
    assert findings(mpigen, items, 0) == []


@pytest.mark.parametrize(("is_owned", "expected"), [(True, ["warning"]), (False, [])])
def test_an_added_value_is_a_warning_unless_it_is_a_default(is_owned: bool, expected: list[str], mpigen: Run) -> None:
    items = objects()
    limits = one(items, "LimitRange")
    limits["metadata"].setdefault("annotations", {})["example.com/note"] = "a"
    owned: Any = {"f:metadata": {"f:annotations": {".": {}, "f:example.com/note": {}}}} if is_owned else {"f:spec": {}}
    limits["metadata"]["managedFields"] = [
        {"manager": "kubectl-edit", "operation": "Update", "apiVersion": "v1", "fieldsV1": owned}
    ]
    reported = findings(mpigen, items, 0)
    assert [finding["severity"] for finding in reported] == expected
    for finding in reported:
        assert '`metadata.annotations["example.com/note"]` is `a` in the cluster' in finding["message"]
        assert "kubectl-edit" in finding["why"]


def test_removed_changed_and_added_items_of_lists_are_reported_one_by_one(mpigen: Run) -> None:
    items = objects()
    binding = one(items, "RoleBinding")
    binding["subjects"] = [*binding["subjects"], {**binding["subjects"][0], "name": "mallory"}]
    resources = one(items, "ClusterQueue", "team-nlp")["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    name = resources.pop()["name"]
    actions = one(items, "ValidatingAdmissionPolicyBinding")["spec"]
    actions["validationActions"] = ["Audit"]
    found = {
        (each["resource"].partition(" ")[0], each["severity"]): each["message"] for each in findings(mpigen, items)
    }
    assert "mallory" in found["RoleBinding", "error"]
    assert name in found["ClusterQueue", "error"]
    assert "absent in the cluster" in found["ClusterQueue", "error"]
    assert {key[1] for key in found if key[0] == "ValidatingAdmissionPolicyBinding"} == {"error"}


def test_missing_and_extra_objects_are_reported(mpigen: Run) -> None:
    items = objects()
    role = one(items, "RoleBinding")
    items.remove(role)
    extra = copy.deepcopy(one(items, "LimitRange"))
    extra["metadata"]["name"] = "old"
    items.append(extra)
    controlled = copy.deepcopy(extra)
    controlled["metadata"] |= {"name": "copy", "ownerReferences": [{"kind": "Job", "name": "a", "controller": True}]}
    items.append(controlled)
    reported = {each["check"]: each for each in findings(mpigen, items)}
    assert reported.keys() == {"drift/missing", "drift/extra"}
    name = f"{role['metadata']['namespace']}/{role['metadata']['name']}"
    assert reported["drift/missing"]["resource"] == f"RoleBinding {name}"
    assert (reported["drift/extra"]["file"], reported["drift/extra"]["severity"]) == ("stdin", "warning")


def test_kinds_outside_the_export_are_a_note(mpigen: Run) -> None:
    items = [item for item in objects() if item["kind"] != "Cohort"]
    ran = mpigen("drift", RELEASE, stdin=as_list(items))
    assert ran.returncode == 0
    assert "note: not compared: 1 object of kinds that the export lacks: `Cohort.kueue.x-k8s.io`\n" in ran.stdout


def test_another_api_version_is_unknown(mpigen: Run) -> None:
    items = objects()
    one(items, "Cohort")["apiVersion"] = "kueue.x-k8s.io/v1beta1"
    (finding,) = findings(mpigen, items, 0)
    assert (finding["check"], finding["severity"]) == ("drift/unknown", "info")


def test_data_of_secrets_is_never_printed(tmp_path: Path, mpigen: Run) -> None:
    text = (
        "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: b}\ntype: Opaque\nstringData: {key: %s, %s: x}\n"
    )
    (tmp_path / "release.yaml").write_text(text % ("hidden-one", "gone-key"))
    (tmp_path / "live.yaml").write_text(text % ("hidden-two", "new-key"))
    for form in ("text", "json"):
        ran = mpigen("drift", "release.yaml", "live.yaml", "--format", form)
        assert ran.returncode == 1
        assert ran.stdout.count("drift/changed") >= 3
        for value in ("hidden-two", "aGlkZGVuLXR3bw"):
            assert value not in ran.stdout
    assert "`data.key` has another value in the cluster" in mpigen("drift", "release.yaml", "live.yaml").stdout


def test_a_platform_file_is_a_release(mpigen: Run) -> None:
    ran = mpigen("drift", EXAMPLES["cpu-kubernetes"], stdin=as_list([one(objects(), "Namespace")]))
    assert ran.returncode == 1
    assert "drift/missing: Namespace cpu-kubernetes-catalogue" in ran.stdout


def test_resources_are_for_kubectl(mpigen: Run) -> None:
    ran = mpigen("drift", RELEASE, "--resources")
    names = ran.stdout.strip().split(",")
    assert (ran.returncode, names == sorted(set(names))) == (0, True)
    assert {"namespaces", "clusterqueues.v1beta2.kueue.x-k8s.io", "roles.v1.rbac.authorization.k8s.io"} - {*names} == {
        "roles.v1.rbac.authorization.k8s.io"
    }


@pytest.mark.parametrize("text", ["", "[1]", "a: [", '{"apiVersion": "v1", "kind": "List", "items": []}'])
def test_an_export_without_objects_is_rejected(text: str, mpigen: Run) -> None:
    ran = mpigen("drift", RELEASE, stdin=text)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "export" in ran.stderr or "stdin" in ran.stderr
