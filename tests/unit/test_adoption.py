"""Test the adoption of checks by a repository: settings, selection, waivers, baseline and changed files."""

from __future__ import annotations

import datetime as dt
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from generator.adoption.adoption import Adoption, Run
from generator.adoption.baseline import ChangedFiles, load_baseline, write_baseline
from generator.adoption.settings import PathSettings, Settings, find_settings, load_settings, matches
from generator.checks.finding import Finding, Severity
from generator.errors import ConfigError
from generator.manifests import Manifest, read

TODAY = dt.date(2026, 6, 1)
CHECKS = ("schema/unknown-field", "schema/no-schema", "quota/lends-nobody")
FINDING = Finding(
    file="tenants/a/queue.yaml",
    line=5,
    column=3,
    path="$.spec.x",
    check="schema/unknown-field",
    resource="LocalQueue a/main",
    message="unknown field `x`",
    why="it is rejected",
    fix="remove it",
)
OTHER = replace(FINDING, file="tenants/b/queue.yaml", resource="LocalQueue b/main", check="quota/lends-nobody")
WAIVER = """
[[waivers]]
check = "schema/unknown-field"
path = "tenants/a/*"
reason = "fixed in the next release"
until = 2026-06-01
"""


def settings(folder: Path, text: str) -> Settings:
    (folder / "mpigen.toml").write_text(text)
    return replace(load_settings(folder / "mpigen.toml", CHECKS), root=Path())


def checks(adoption: Adoption, *findings: Finding, files: tuple[str, ...] = ()) -> list[str]:
    return [finding.check for finding in adoption.apply(findings, Run(files=files)).findings]


@pytest.mark.parametrize(
    ("pattern", "path", "is_match"),
    [
        ("vendor", "vendor/deep/a.yaml", True),
        ("vendor/", "vendor/a.yaml", True),
        ("vendor/*", "vendor/a.yaml", True),
        ("*.yaml", "vendor/a.yaml", False),
        ("**/*.yaml", "a.yaml", True),
        ("**/*.yaml", "deep/down/a.yaml", True),
        ("vendor/**", "vendor/deep/a.yaml", True),
        ("vendor", "vendors/a.yaml", False),
        ("a?.yaml", "ab.yaml", True),
        ("a+(b).yaml", "a+(b).yaml", True),
        (".", "x/y.yaml", True),
        ("./x", "x/y.yaml", True),
    ],
)
def test_path_patterns_match_files_and_folders(pattern: str, path: str, is_match: bool) -> None:
    assert matches(pattern, path) is is_match


def test_every_mistake_of_the_settings_is_reported_with_its_line(tmp_path: Path) -> None:
    text = """\
fail-on = "errors"
selct = ["quota"]
schema-locations = [".", "schemas", 5]
ignore = [
  "schema/no-schema",
  "schema/unknwon-field",
]

[[paths]]
path = " "

[[waivers]]
check = "schema"
path = "a"
until = 2026

[[waivers]]
check = "quota/lends-nobody"
path = "a"
reason = ""
until = "2026-02-30"
"""
    with pytest.raises(ConfigError) as error:
        settings(tmp_path, text)
    assert [(each.line, each.column, each.path, each.message) for each in error.value.problems] == [
        (1, 1, "fail-on", '`"errors"` is not one of `error`, `warning`, `info`'),
        (2, 1, "selct", "unknown field `selct`"),
        (3, 1, "schema-locations[2]", "item [2] must be a string, not the number `5`"),
        (3, 27, "schema-locations[1]", "`schemas` is not a folder"),
        (6, 4, "ignore[1]", "there is no check `schema/unknwon-field`"),
        (10, 1, "paths[0].path", "`path` is empty"),
        (12, 1, "waivers[0]", "`reason` is missing"),
        (13, 1, "waivers[0].check", "there is no check `schema`"),
        (15, 1, "waivers[0].until", "`2026` is not a date"),
        (20, 1, "waivers[1].reason", "`reason` is empty"),
        (21, 1, "waivers[1].until", "`2026-02-30` is not a date"),
    ]
    fixes = {each.path: each.fix for each in error.value.problems}
    assert fixes["selct"] == "did you mean `select`?"
    assert fixes["ignore[1]"] == "did you mean `schema/unknown-field`?"


@pytest.mark.parametrize("text", ["a = [", "a = 1\na = 2", "\udcff"])
def test_settings_with_invalid_toml_are_one_problem(text: str, tmp_path: Path) -> None:
    file = tmp_path / "mpigen.toml"
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError, match="is not TOML"):
        load_settings(file, CHECKS)


def test_settings_of_a_project_are_in_the_tool_table(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text("[project]\nname = 'x'\n\n[tool.mpigen]\nignore = ['schema']\nbaselin = 'x'\n")
    with pytest.raises(ConfigError, match=r"pyproject\.toml:6:1: baselin: unknown field"):
        load_settings(file, CHECKS)
    file.write_text("[project]\nname = 'x'\n\n[tool.mpigen]\nignore = ['schema']\n")
    assert load_settings(file, CHECKS).ignore == ("schema",)


def test_the_nearest_settings_of_a_repository_apply(tmp_path: Path) -> None:
    inner = tmp_path / "repository" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / "mpigen.toml").touch()
    assert find_settings(inner) == tmp_path / "mpigen.toml"
    (tmp_path / "repository/.git").mkdir()
    assert find_settings(inner) is None
    (tmp_path / "repository/pyproject.toml").write_text("[tool.ruff]\n")
    assert find_settings(inner) is None
    (tmp_path / "repository/pyproject.toml").write_text("[tool.mpigen]\n")
    assert find_settings(inner) == tmp_path / "repository/pyproject.toml"


@pytest.mark.parametrize(
    ("select", "ignore", "reported"),
    [
        ((), (), ["schema/unknown-field", "quota/lends-nobody"]),
        (("quota",), (), ["quota/lends-nobody"]),
        ((), ("quota/lends-nobody",), ["schema/unknown-field"]),
        (("schema", "quota"), ("schema",), ["quota/lends-nobody"]),
        (("schema/unknown-field",), ("schema",), ["schema/unknown-field"]),
    ],
)
def test_checks_and_families_are_selected(
    select: tuple[str, ...], ignore: tuple[str, ...], reported: list[str]
) -> None:
    assert checks(Adoption(Settings(select=select, ignore=ignore)), FINDING, OTHER) == reported


def test_path_settings_apply_to_matching_files() -> None:
    adoption = Adoption(Settings(paths=(PathSettings("tenants/a/**", ignore=("schema",)),)))
    assert checks(adoption, FINDING, replace(FINDING, file="tenants/b/x.yaml")) == ["schema/unknown-field"]


def test_a_waiver_suppresses_its_finding_until_its_date(tmp_path: Path) -> None:
    adoption = Adoption(settings(tmp_path, WAIVER), TODAY)
    assert checks(adoption, FINDING, OTHER, files=(FINDING.file,)) == ["quota/lends-nobody"]
    later = replace(adoption, today=TODAY + dt.timedelta(days=1))
    assert sorted(checks(later, FINDING, files=(FINDING.file,))) == ["schema/unknown-field", "waiver/expired"]


def test_a_waiver_of_one_object_suppresses_no_other(tmp_path: Path) -> None:
    adoption = Adoption(settings(tmp_path, f'{WAIVER}resource = "LocalQueue a/main"\n'), TODAY)
    assert checks(adoption, FINDING) == []
    assert checks(adoption, replace(FINDING, resource="LocalQueue a/other")) == ["schema/unknown-field"]


def test_an_unused_waiver_is_a_finding_if_its_files_were_checked(tmp_path: Path) -> None:
    adoption = Adoption(settings(tmp_path, WAIVER), TODAY)
    (unused,) = adoption.apply([], Run(files=("tenants/a/queue.yaml",))).findings
    assert (unused.check, unused.line, unused.severity) == ("waiver/unused", 2, Severity.WARNING)
    assert unused.message == "the waiver of `schema/unknown-field` matches no finding"
    assert adoption.apply([], Run(files=("tenants/b/queue.yaml",))).findings == []
    assert adoption.apply([], Run()).findings == []
    assert adoption.apply([], Run(files=("tenants/a/x.yaml",), is_covered=lambda _: False)).findings == []


QUEUE = """\
apiVersion: v1
kind: LocalQueue
metadata:
  name: main
  namespace: a
  annotations:
    mpigen.dev/waive: |
      schema/unknown-field until 2026-06-01: fixed in the next release
"""


def annotated(text: str) -> tuple[Manifest, Run]:
    (manifest,) = read(text, "q.yaml")
    return manifest, Run([manifest], ("q.yaml",), text_of=lambda _: text)


def test_an_object_can_declare_its_own_waivers() -> None:
    _, run = annotated(QUEUE)
    own = replace(FINDING, file="q.yaml")
    assert Adoption(today=TODAY).apply([own], run).findings == []
    foreign = replace(own, resource="LocalQueue b/main")
    found = Adoption(today=TODAY).apply([foreign], run).findings
    assert [(each.check, each.line, each.path) for each in found] == [
        ("schema/unknown-field", 5, "$.spec.x"),
        ("waiver/unused", 7, '$.metadata.annotations["mpigen.dev/waive"]'),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("schema/unknown-field", "`schema/unknown-field` is not a waiver"),
        ("schema/unknown-field until 2026-06-01:", "`schema/unknown-field until 2026-06-01:` is not a waiver"),
        ("schema/unknown-field until June: x", "`June` is not a date"),
        ("schema/nope until 2026-06-01: x", "there is no check `schema/nope`"),
    ],
)
def test_an_invalid_waiver_annotation_is_a_finding(line: str, message: str) -> None:
    _, run = annotated(QUEUE.replace("schema/unknown-field until 2026-06-01: fixed in the next release", line))
    found = Adoption(today=TODAY).apply([replace(FINDING, file="q.yaml")], run).findings
    assert [(each.check, each.message) for each in found] == [
        ("schema/unknown-field", "unknown field `x`"),
        ("waiver/invalid", message),
    ]


def test_a_baseline_hides_its_findings_after_lines_move(tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    assert write_baseline(file, [FINDING, replace(FINDING, line=9), OTHER], Path()) == 3
    adoption = Adoption(known=load_baseline(file))
    moved = [replace(FINDING, line=line, message="other words") for line in (50, 60)]
    outcome = adoption.apply([*moved, OTHER], Run())
    assert (outcome.findings, outcome.hidden) == ([], {"baseline": 3})
    third = replace(FINDING, line=70)
    assert adoption.apply([*moved, third, OTHER], Run()).findings == [third]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": "x", "findings": []}', '{"version": 1', "[" * 100_000])
def test_an_invalid_baseline_file_is_a_problem(text: str, tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(ConfigError, match="is not a baseline of mpigen"):
        load_baseline(tmp_path / "b.json")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Create a repository with a commit on main, a branch that changes one file, and uncommitted files."""
    folder = tmp_path / "repository"
    folder.mkdir()
    for name in ("same.yaml", "changed.yaml", "edited.yaml"):
        (folder / name).write_text("a: 1\n")
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    git(folder, "checkout", "--quiet", "-b", "work")
    (folder / "changed.yaml").write_text("a: 2\n")
    git(folder, "commit", "--quiet", "-a", "-m", "second")
    (folder / "edited.yaml").write_text("a: 3\n")
    (folder / "new.yaml").write_text("a: 4\n")
    return folder


def git(folder: Path, *arguments: str) -> None:
    own = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *own, *arguments], cwd=folder, check=True, capture_output=True)


def test_changed_files_are_compared_with_the_merge_base(repository: Path) -> None:
    git(repository, "checkout", "--quiet", "main", "--", "same.yaml")
    changed = ChangedFiles("main", repository)
    names = ("same.yaml", "changed.yaml", "edited.yaml", "new.yaml")
    assert {name for name in names if changed.has(name, (repository / name).read_text())} == {*names} - {"same.yaml"}
    assert changed.has("/elsewhere/a.yaml", "a: 1\n")
    assert changed.has("same.yaml", "")


def test_changes_on_the_other_branch_are_ignored(repository: Path) -> None:
    git(repository, "stash", "--quiet")
    git(repository, "checkout", "--quiet", "main")
    (repository / "same.yaml").write_text("a: 9\n")
    git(repository, "commit", "--quiet", "-a", "-m", "third")
    git(repository, "checkout", "--quiet", "work")
    assert not ChangedFiles("main", repository).has("same.yaml", "a: 1\n")


@pytest.mark.parametrize("revision", ["nope", "--output=/tmp/x", ""])
def test_an_unknown_revision_is_a_problem(revision: str, repository: Path) -> None:
    with pytest.raises(ConfigError, match="there is no revision"):
        ChangedFiles(revision, repository)


def test_a_folder_without_a_repository_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="this folder is in no Git repository"):
        ChangedFiles("main", tmp_path)


def test_a_missing_git_program_is_a_problem(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match="git cannot be run"):
        ChangedFiles("main", repository)
