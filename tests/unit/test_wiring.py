"""Test the checks of GitOps wiring on folders on disk: public cases, mistakes in releases, and other repositories."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest

from generator.pipeline import Subject, validate
from generator.upstream.argocd.application_sets import UNKNOWN, Files, render_applications
from generator.upstream.argocd.patterns import Ignored, compile_glob, compile_path_match
from tests.conftest import ROOT

FIXTURES = ROOT / "tests" / "fixtures" / "wiring"
ALTERED = "release/altered"


def findings(*paths: Path) -> list[tuple[str, str, str]]:
    """Return (check, severity, message) of the findings, without the finding that a release was edited."""
    checked = validate(Subject(paths), "embedded", Path()).checked
    return [(item.check, str(item.severity), item.message) for item in checked.in_order() if item.check != ALTERED]


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


KINDS = "`Topology.kueue.x-k8s.io`, `WorkloadPriorityClass.kueue.x-k8s.io`"
PUBLIC = {
    "appset-missing-path": (
        "reference/path",
        "warning",
        "element 2 of the list renders the path `components/kueue/rings/r2/beta`, which is no folder of the repository",
    ),
    "flux-no-namespace": (
        "gitops/no-namespace",
        "warning",
        "`ConfigMap cluster-config` in `apps/config` has no namespace",
    ),
    "appproject-kinds": (
        "gitops/not-permitted",
        "error",
        f"the AppProject `queues` does not permit the cluster-scoped kinds {KINDS} of the Application `queues`",
    ),
}
"""Folder → the finding, for public mistakes."""


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_mistake_has_its_finding(name: str) -> None:
    assert findings(FIXTURES / name) == [PUBLIC[name]]


Edit = tuple[str, str, str, str]
MISTAKES: dict[str, tuple[Edit, set[str]]] = {
    "path": (("cpu-kubernetes", "argocd/application.yaml", "cpu-kubernetes\n", "cpu\n"), {"reference/path"}),
    "include": (("cpu-kubernetes", "argocd/application.yaml", "r/access/*,", "r/acces/*,"), {"gitops/not-applied"}),
    "exclude": (("cpu-kubernetes", "argocd/application.yaml", ",tenants/*/*}", "}"), {"gitops/applied-twice"}),
    "glob": (("cpu-kubernetes", "argocd/tenants.yaml", "tenants/*", "tenant/*"), {"reference/path"}),
    "project": (
        (
            "cpu-kubernetes",
            "argocd/application.yaml",
            "project: cpu-kubernetes-cluster",
            "project: cpu-kubernetes-tenants",
        ),
        {"gitops/not-permitted"},
    ),
    "kinds": (
        ("cpu-kubernetes", "argocd/project.yaml", "kind: ClusterTrainingRuntime", "kind: TrainingRuntime"),
        {"gitops/not-permitted"},
    ),
    "destination": (
        ("cpu-kubernetes", "argocd/tenants.yaml", "https://kubernetes.default.svc", "https://kubernetes.default"),
        {"reference/project"},
    ),
    "pruning": (("cpu-kubernetes", "argocd/tenants.yaml", "prune: true", "prune: false"), {"gitops/no-pruning"}),
    "option": (("cpu-kubernetes", "argocd/tenants.yaml", "ServerSide", "Serverside"), {"gitops/option"}),
    "wave": (
        ("cpu-kubernetes", "tenants/team-sim/namespace.yaml", 'sync-wave: "-5"', 'sync-wave: "5"'),
        {"gitops/wave"},
    ),
    "sparse checkout": (
        ("flux-kubernetes", "flux/source.yaml", "- output/flux-kubernetes", "- output/flux-kubernetes/cluster"),
        {"reference/path"},
    ),
    "path of Flux": (
        ("flux-kubernetes", "flux/kustomizations/cluster.yaml", 'cluster/queues"', 'cluster/queue"'),
        {"reference/path"},
    ),
    "one path of two Kustomizations": (
        ("flux-kubernetes", "flux/kustomizations/tenants.yaml", 'tenants/aero"', 'tenants/astro"'),
        {"gitops/applied-twice", "gitops/not-applied"},
    ),
    "dependency": (
        ("flux-kubernetes", "flux/kustomizations/cluster.yaml", "- name: flux-kubernetes-access", "- name: access"),
        {"reference/flux"},
    ),
    "deletion policy": (
        ("flux-kubernetes", "flux/kustomizations/tenants.yaml", "Policy: Orphan", "Policy: Delete"),
        {"gitops/no-pruning"},
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_release_has_its_finding(name: str, tmp_path: Path) -> None:
    (release, file, old, new), checks = MISTAKES[name]
    folder = tmp_path / "output" / release
    shutil.copytree(ROOT / "output" / release, folder)
    text = (folder / file).read_text("utf-8")
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1), "utf-8")
    assert {check for check, _, _ in findings(folder)} == checks


def test_a_release_in_another_folder_than_in_its_repository_is_whole(tmp_path: Path) -> None:
    folder = tmp_path / "review"
    shutil.copytree(ROOT / "output" / "cpu-kubernetes", folder)
    assert findings(folder) == []


APPLICATION = """apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: NAME, namespace: argocd}
spec:
  project: default
  source: {repoURL: "ADDRESS", path: PATH}
  destination: {name: in-cluster, namespace: web}
"""
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n"
HERE, OTHER = "https://git.example.com/team/here.git", "https://git.example.com/team/other.git"


def application(name: str, url: str, path: str) -> str:
    return APPLICATION.replace("NAME", name).replace("ADDRESS", url).replace("PATH", path)


def test_a_path_of_another_repository_is_no_mistake(tmp_path: Path) -> None:
    files = {"apps/a.yaml": application("a", OTHER, "charts/a"), "web/c.yaml": CONFIG}
    assert findings(write(tmp_path, files)) == []


def test_a_repository_without_an_existing_path_is_unknown(tmp_path: Path) -> None:
    files = {
        "apps/a.yaml": application("a", HERE, "web"),
        "apps/b.yaml": application("b", OTHER, "web"),
        "apps/c.yaml": application("c", OTHER, "missing"),
        "apps/d.yaml": application("d", HERE, "api"),
        "apps/e.yaml": application("e", HERE, "queues"),
        "web/c.yaml": CONFIG,
        "api/c.yaml": CONFIG.replace("settings", "limits"),
    }
    messages = [message for _, _, message in findings(write(tmp_path, files))]
    assert messages == ["the repository has no folder `queues`"]


@pytest.mark.parametrize(("remote", "messages"), [(HERE, ["the repository has no folder `queues`"]), (OTHER, [])])
def test_a_remote_of_the_clone_identifies_the_repository(remote: str, messages: list[str], tmp_path: Path) -> None:
    files = {"apps/a.yaml": application("a", "git@git.example.com:team/here.git", "queues"), "web/c.yaml": CONFIG}
    files[".git/config"] = f'[remote "origin"]\n\turl = {remote}\n'
    assert [message for _, _, message in findings(write(tmp_path, files))] == messages


def test_another_revision_of_a_repository_can_have_other_folders(tmp_path: Path) -> None:
    old = application("old", HERE, "legacy").replace("path: legacy", "path: legacy, targetRevision: v1")
    files = {"apps/a.yaml": application("a", HERE, "web"), "apps/old.yaml": old, "web/c.yaml": CONFIG}
    assert findings(write(tmp_path, files)) == []


@pytest.mark.parametrize("patches", ["", "patches: [{path: p.yaml}]\n"])
def test_a_base_that_an_overlay_patches_is_unknown(patches: str, tmp_path: Path) -> None:
    files = {
        "apps/base/a.yaml": application("a", HERE, "web"),
        "apps/base/b.yaml": application("b", HERE, "missing"),
        "apps/base/kustomization.yaml": "resources: [a.yaml, b.yaml]\n",
        "apps/prod/kustomization.yaml": f"resources: [../base]\n{patches}",
        "apps/prod/p.yaml": application("b", HERE, "web"),
        "web/c.yaml": CONFIG,
    }
    if not patches:
        del files["apps/prod/p.yaml"]
    checks = [check for check, _, _ in findings(write(tmp_path, files))]
    assert checks == ([] if patches else ["reference/path"])


FLEET = """apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: infra, namespace: flux-system}
spec: {interval: 1h, path: ./infrastructure, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}
"""


def test_two_repositories_of_one_url_lie_side_by_side(tmp_path: Path) -> None:
    names = ["appset-missing-path", "appproject-kinds"]
    for name in names:
        shutil.copytree(FIXTURES / name, tmp_path / name)
    assert findings(tmp_path) == [PUBLIC[name] for name in sorted(names)]


def test_two_clusters_can_apply_the_same_folder(tmp_path: Path) -> None:
    files = {f"clusters/{name}/infra.yaml": FLEET for name in ("prod", "staging")}
    files["infrastructure/c.yaml"] = CONFIG.replace("settings}", "settings, namespace: web}")
    assert findings(write(tmp_path, files)) == []


@pytest.mark.parametrize(
    ("kustomization", "is_reported"),
    [
        ("resources: [c.yaml]\n", True),
        ("resources: [c.yaml]\nnamespace: web\n", False),
        ("resources: [c.yaml]\npatches: [{path: p.yaml}]\n", False),
    ],
)
def test_a_kustomization_can_set_the_namespace(kustomization: str, *, is_reported: bool, tmp_path: Path) -> None:
    files = {"clusters/infra.yaml": FLEET, "infrastructure/c.yaml": CONFIG, "infrastructure/p.yaml": CONFIG}
    files["infrastructure/kustomization.yaml"] = kustomization
    checks = [check for check, _, _ in findings(write(tmp_path, files))]
    assert checks == ["gitops/no-namespace"] * is_reported


def test_standard_input_has_no_repository(tmp_path: Path) -> None:
    with chdir(tmp_path):
        text = application("a", HERE, "missing").encode()
        assert validate(Subject([], stdin=text), "embedded", Path()).checked.findings == []


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("*.yaml", "a/b.yaml", True),
        ("{a,b/*}", "b/c/d", True),
        ("{a,b/*}", "c", False),
        ("team-[!x]", "team-a", True),
        ("team-[!x]", "team-x", False),
        (r"\*", "*", True),
        (r"\*", "a", False),
        ("a,b", "a,b", True),
        ("?", "/", True),
    ],
)
def test_a_glob_of_argo_cd(pattern: str, text: str, *, matches: bool) -> None:
    expression = compile_glob(pattern)
    assert expression is not None
    assert (expression.fullmatch(text) is not None) == matches


@pytest.mark.parametrize("pattern", ["{a", "a}", "a[", "[]"])
def test_argo_cd_rejects_a_faulty_glob(pattern: str) -> None:
    assert compile_glob(pattern) is None


def test_a_separator_ends_a_wildcard() -> None:
    matches: list[Callable[[str], object]] = [
        expression.fullmatch
        for expression in (compile_glob("https://*/ml", "/"), compile_path_match("apps/*"))
        if expression
    ]
    assert [bool(match(text)) for match, text in zip(matches, ("https://a/ml", "apps/a"), strict=True)] == [True, True]
    assert [bool(match(text)) for match, text in zip(matches, ("https://a/b/ml", "apps/a/b"), strict=True)] == [
        False,
        False,
    ]


def test_the_last_ignore_pattern_decides() -> None:
    ignored = Ignored("# all but deploy\n/*\n!/deploy\n*.md\nbuild/\n")
    files = ["README", "apps/a.yaml", "deploy/a.yaml", "deploy/a.md", "deploy/build/a.yaml", "deploy/build"]
    assert [file in ignored for file in files] == [True, True, False, True, True, False]


def paths(spec: dict[str, object]) -> list[str]:
    """Return the paths that an ApplicationSet renders."""
    files = Files(lambda _: ["teams/a", "teams/b"], lambda _: {"envs/prod/env.yaml": b"region: eu\n"})
    return [body["spec"]["source"]["path"] for body, _ in render_applications(spec, files)]


def template(path: str) -> dict[str, object]:
    return {"metadata": {"name": "x"}, "spec": {"source": {"path": path}}}


LIST = {"list": {"elements": [{"team": "a", "size": 2}, {"team": "b", "values": {"ring": "r1"}}]}}
GIT = {"git": {"repoURL": HERE, "directories": [{"path": "teams/*"}]}}
FILE = {"git": {"repoURL": HERE, "files": [{"path": "envs/*/env.yaml"}]}}


@pytest.mark.parametrize(
    ("generator", "path", "is_go", "rendered"),
    [
        (LIST, "{{team}}/{{size}}", False, ["a/2", "b/{{size}}"]),
        (LIST, "{{ .team }}/{{.size}}", True, ["a/2", "b/<no value>"]),
        (LIST, "{{values.ring}}", False, ["{{values.ring}}", "r1"]),
        (LIST, "{{ .team | upper }}", True, [UNKNOWN, UNKNOWN]),
        (GIT, "{{path}}/{{path.basename}}/{{path[0]}}", False, ["teams/a/a/teams", "teams/b/b/teams"]),
        (GIT, "{{.path.path}}/{{index .path.segments 1}}", True, ["teams/a/a", "teams/b/b"]),
        (FILE, "{{path}}/{{region}}", False, ["envs/prod/eu"]),
        ({"clusters": {}}, "{{name}}", False, [UNKNOWN]),
        ({"matrix": {"generators": [GIT, {"clusters": {}}]}}, "{{path}}", False, ["teams/a", "teams/b"]),
        ({"matrix": {"generators": [GIT, LIST]}}, "{{path}}/{{team}}", False, [
            "teams/a/a", "teams/a/b", "teams/b/a", "teams/b/b",
        ]),
        ({"merge": {"mergeKeys": ["team"], "generators": [LIST, {"list": {"elements": [{"team": "a", "size": 3}]}}]}},
         "{{team}}/{{size}}", False, ["a/3", "b/{{size}}"]),
    ],
)  # fmt: skip
def test_an_application_set_renders_its_paths(
    generator: dict[str, object], path: str, rendered: list[str], *, is_go: bool
) -> None:
    assert paths({"goTemplate": is_go, "generators": [generator], "template": template(path)}) == rendered
