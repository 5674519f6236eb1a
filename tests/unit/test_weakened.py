"""Test that a release with weaker protections is found, even if its lock was written anew."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from generator import App, Platform, pipeline
from generator.checks.access import everyone
from generator.checks.objects import Objects
from generator.checks.protections import Protections, cluster_admin, weakened
from generator.manifests import Manifest, read
from generator.release.lock import LOCK, Lock, digest
from tests.conftest import ROOT, small_platform

_RELEASES = sorted(path.parent for path in ROOT.glob(f"output/*/{LOCK}"))
_OPENSHIFT = ROOT / "output/openshift-h100"
_ADMISSION = "cluster/admission/patches.yaml"
Change = Callable[[Path], None]


def found(folder: Path) -> set[tuple[str, str]]:
    """Return (check, name of the object) of each finding in a release."""
    manifests: list[Manifest] = []
    for file in sorted(path for path in folder.rglob("*") if path.suffix in (".yaml", ".json")):
        manifests += read(file.read_text(), str(file))
    objects = Objects(tuple(manifests), {}, others=tuple(manifests))
    protections = Protections.read(objects)
    assert protections
    rows = [
        ("weakened", weakened(protections)),
        ("cluster-admin", cluster_admin(protections)),
        ("everyone", everyone(objects)),
    ]
    return {(name, breach.manifest.name) for name, breaches in rows for breach in breaches if breach.manifest}


@pytest.mark.parametrize("folder", _RELEASES, ids=lambda folder: folder.name)
def test_examples_have_no_findings(folder: Path) -> None:
    assert found(folder) == set()


def test_a_platform_that_only_audits_has_no_findings() -> None:
    body = {**small_platform(), "policies": {"admission": "audit", "podSecurity": "baseline"}}
    platform = Platform.model_validate(body)
    tree = pipeline.render(platform, App(platform))
    assert found_in(tree) == set()
    assert "Deny" not in {value for key, value in read_lock(tree)["protections"].items() if "Binding/" in key}


def found_in(tree: list[Manifest]) -> set[str]:
    """Return the checks with findings in a rendered tree with its lock."""
    lock = Manifest({"apiVersion": "mpigen.dev/v1", "kind": "Release", "metadata": {"name": "small"}}, LOCK)
    body = {**lock.body, "spec": read_lock(tree)}
    protections = Protections.read(Objects((*tree, Manifest(body, LOCK)), {}))
    assert protections
    return {breach.message for breach in (*weakened(protections), *cluster_admin(protections))}


def read_lock(tree: list[Manifest]) -> dict[str, dict[str, str]]:
    """Return the fields of a lock that the checks read."""
    from generator.objects.protections import read_protections

    return {"platform": "small", "protections": read_protections(tree)}  # type: ignore[dict-item]


def edit(file: str, change: Callable[[list[dict[str, object]]], None]) -> Change:
    """Return a change of the documents of a file."""

    def edited(folder: Path) -> None:
        documents = list(yaml.safe_load_all((folder / file).read_text()))
        change(documents)
        (folder / file).write_text(yaml.safe_dump_all(documents))

    return edited


def put(document: int, path: str, value: object) -> Callable[[list[dict[str, object]]], None]:
    """Return a change that sets a field, such as `spec.failurePolicy`."""

    def changed(documents: list[dict[str, object]]) -> None:
        *parents, last = [int(part) if part.isdigit() else part.replace("~1", "/") for part in path.split("/")]
        place: object = documents[document]
        for part in parents:
            place = place[part]  # type: ignore[index]
        if isinstance(place, list) and isinstance(last, int) and last >= len(place):
            place.append(value)
        else:
            place[last] = value  # type: ignore[index]

    return changed


def _weaken(form: str) -> Change:
    """Return a change that puts the first validation of a rule into an expression."""

    def changed(documents: list[dict[str, object]]) -> None:
        validation = documents[0]["spec"]["validations"][0]  # type: ignore[index]
        validation["expression"] = form.format(validation["expression"])

    return edit(_ADMISSION, changed)


def remove(file: str) -> Change:
    """Return a change that removes a file or a folder."""

    def removed(folder: Path) -> None:
        path = folder / file
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return removed


def add(body: dict[str, object]) -> Change:
    """Return a change that adds an object."""

    def added(folder: Path) -> None:
        (folder / "cluster/access/more.yaml").write_text(yaml.safe_dump(body))

    return added


def binding(kind: str, role: str, subject: str) -> dict[str, object]:
    """Return a binding of a ClusterRole for a group."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": kind,
        "metadata": {"name": "more", **({"namespace": "team-cv"} if kind == "RoleBinding" else {})},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": subject}],
    }


_USER = "request.userInfo.username != 'mallory'"
_NAMESPACES = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["team-cv"]}
_POLICY, _BINDING = "openshift-h100-patches", "openshift-h100-patches"
_CHANGES: dict[str, tuple[Change, str]] = {
    "the admission folder is deleted": (remove("cluster/admission"), "openshift-h100"),
    "one rule is deleted": (remove(_ADMISSION), "openshift-h100"),
    "an expression is true": (edit(_ADMISSION, put(0, "spec/validations/0/expression", "true")), _POLICY),
    "an expression begins with true": (_weaken("true || {}"), _POLICY),
    "an expression ends with true": (_weaken("{} || true"), _POLICY),
    "an expression contains a comparison that is always true": (_weaken("({}) || 1 < 2 || oldObject == null"), _POLICY),
    "an expression has a constant choice": (_weaken("1 == 1 ? true : {}"), _POLICY),
    "a variable is constant": (
        edit(_ADMISSION, put(0, "spec/variables/5/expression", "[]")),
        _POLICY,
    ),
    "a condition begins with false": (
        edit(_ADMISSION, put(0, "spec/matchConditions/1/expression", "false && object.spec.suspend")),
        _POLICY,
    ),
    "a binding audits": (edit(_ADMISSION, put(1, "spec/validationActions", ["Audit"])), "openshift-h100"),
    "a binding warns": (edit(_ADMISSION, put(1, "spec/validationActions", ["Warn"])), "openshift-h100"),
    "a binding omits a namespace": (
        edit(_ADMISSION, put(1, "spec/matchResources/namespaceSelector/matchExpressions/2", _NAMESPACES)),
        _BINDING,
    ),
    "a policy ignores errors": (edit(_ADMISSION, put(0, "spec/failurePolicy", "Ignore")), _POLICY),
    "a condition exempts a user": (
        edit(_ADMISSION, put(0, "spec/matchConditions/9", {"name": "more", "expression": _USER})),
        "openshift-h100",
    ),
    "a condition is false": (
        edit(_ADMISSION, put(0, "spec/matchConditions/9", {"name": "more", "expression": "false"})),
        _POLICY,
    ),
    "a role for all users": (add(binding("RoleBinding", "mpigen-edit", "system:authenticated")), "more"),
    "a role without a login": (add(binding("RoleBinding", "mpigen-view", "system:unauthenticated")), "more"),
    "a role for all accounts": (add(binding("ClusterRoleBinding", "mpigen-edit", "system:serviceaccounts")), "more"),
    "cluster-admin for a group": (add(binding("ClusterRoleBinding", "cluster-admin", "cv")), "more"),
    "a lower Pod Security level": (
        edit(
            "tenants/team-cv/namespace.yaml",
            put(0, "metadata/labels/pod-security.kubernetes.io~1enforce", "privileged"),
        ),
        "openshift-h100",
    ),
    "no NetworkPolicies": (remove("tenants/team-cv/isolation.yaml"), "openshift-h100"),
}


@pytest.mark.parametrize("name", _CHANGES)
def test_weaker_protections_cause_findings_despite_a_new_lock(name: str, tmp_path: Path) -> None:
    change, reported = _CHANGES[name]
    folder = tmp_path / "openshift-h100"
    shutil.copytree(_OPENSHIFT, folder)
    change(folder)
    lock = Lock.decode((folder / LOCK).read_bytes())
    files = {
        str(path.relative_to(folder)): digest(path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file() and path.name != LOCK
    }
    again = Lock(lock.platform, lock.version, files, lock.inputs, lock.targets, lock.protections)
    (folder / LOCK).write_bytes(again.encode())
    assert reported in {resource for _, resource in found(folder)}
    assert json.loads(again.encode())["spec"]["protections"]
