"""Test that `mpigen verify` fails closed, and that `validate --since` and `synth --against` read Git revisions."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import EXAMPLES, Run

HOME = "output/cpu-kubernetes"


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=tests", "-c", "user.email=tests@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, mpigen: Run) -> Path:
    """Return a repository with a committed release, and a working tree with less quota under the same number."""
    file = tmp_path / "platform.yaml"
    file.write_text(EXAMPLES["cpu-kubernetes"].read_text())
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    assert mpigen("synth", file).returncode == 0
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "start")
    file.write_text(file.read_text().replace("quota: {cpu: 3}", "quota: {cpu: 2}"))
    return tmp_path


def edit(home: Path) -> None:
    (home / "tenants/team-sim/queue.yaml").write_text("mine\n")


def remove(home: Path) -> None:
    (home / "tenants/team-sim/queue.yaml").unlink()


def add(home: Path) -> None:
    (home / "extra.yaml").write_text("mine\n")


def link(home: Path) -> None:
    (home / "link").symlink_to("release.json")


def unlock(home: Path) -> None:
    (home / "release.json").unlink()


def pipe(home: Path) -> None:
    os.mkfifo(home / "pipe")


@pytest.mark.parametrize("damage", [edit, remove, add, link, unlock, pipe])
def test_any_difference_from_the_lock_fails(damage: object, repository: Path, mpigen: Run) -> None:
    assert mpigen("verify").stdout == "1 release: 0 problems\n"
    assert callable(damage)
    damage(repository / HOME)
    ran = mpigen("verify")
    assert (ran.returncode, ran.stderr) == (1, "")
    assert ran.stdout.startswith(f"error: {HOME}")
    assert ran.stdout.endswith("1 release: 1 problem\n")
    report = json.loads(mpigen("verify", "output", "--format", "json").stdout)
    assert (report["summary"]["problems"], len(report["problems"])) == (1, 1)


@pytest.mark.parametrize("folder", ["none", "platform.yaml", "empty"])
def test_a_folder_without_releases_is_invalid_input(folder: str, repository: Path, mpigen: Run) -> None:
    (repository / "empty").mkdir()
    ran = mpigen("verify", folder)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "holds no release; name the folder that `mpigen synth` wrote" in ran.stderr


def test_a_changed_release_needs_a_new_number(repository: Path, mpigen: Run) -> None:
    assert mpigen("verify", "--against", "main").returncode == 0
    assert mpigen("synth", "platform.yaml").returncode == 0
    ran = mpigen("verify", "--against", "main")
    assert ran.returncode == 1
    assert f"{HOME}: release 1.0.0 differs from `main`: cluster/queues/slack.yaml, " in ran.stdout
    assert "; set `release: 1.0.1` in the platform file" in ran.stdout
    ran = mpigen("verify", "--against", "v9")
    assert (ran.returncode, "--against: there is no revision `v9`" in ran.stderr) == (2, True)
    file = repository / "platform.yaml"
    file.write_text(file.read_text().replace("release: 1.0.0", "release: 1.0.1"))
    assert mpigen("synth", "platform.yaml").returncode == 0
    assert mpigen("verify", "--against", "main").returncode == 0


def test_a_tagged_release_is_not_replaced(repository: Path, mpigen: Run) -> None:
    git(repository, "tag", "cpu-kubernetes/1.0.0")
    ran = mpigen("synth", "platform.yaml")
    assert ran.returncode == 2
    assert (
        "release 1.0.0 differs from the files under its tag `cpu-kubernetes/1.0.0`: cluster/queues/slack.yaml, "
        in ran.stderr
    )
    assert "set `release: 1.0.1` in the platform file" in ran.stderr
    assert mpigen("verify").returncode == 0


def test_the_application_may_be_pinned_to_a_tag(repository: Path, mpigen: Run) -> None:
    git(repository, "tag", "cpu-kubernetes/1.0.0")
    file = repository / "platform.yaml"
    text = EXAMPLES["cpu-kubernetes"].read_text()
    file.write_text(text.replace("platform.git}", "platform.git, revision: cpu-kubernetes/1.0.0}"))
    ran = mpigen("synth", file)
    assert (ran.returncode, "Argo CD applies the tag `cpu-kubernetes/1.0.0`\n" in ran.stdout) == (0, True)
    assert mpigen("verify", "--against", "main").returncode == 0


@pytest.mark.parametrize(
    ("revision", "said"),
    [
        ("main", "Argo CD applies this release after you commit it and push it to `main`\n"),
        ("v1.0.0", "Argo CD applies this release after you commit it and push the tag or branch `v1.0.0` with it\n"),
        ("a" * 40, f"Argo CD applies the commit `{'a' * 40}`; to apply this release, commit it, tag it and run "),
    ],
)
def test_synth_shows_how_a_revision_gets_the_release(repository: Path, mpigen: Run, revision: str, said: str) -> None:
    file = repository / "platform.yaml"
    text = EXAMPLES["cpu-kubernetes"].read_text()
    file.write_text(text.replace("platform.git}", f"platform.git, revision: {revision}}}"))
    assert said in mpigen("synth", file).stdout


def test_findings_stay_until_the_release_is_committed(repository: Path, mpigen: Run) -> None:
    for _ in range(2):
        assert "change/less-quota" in mpigen("synth", "platform.yaml").stdout
    assert "change/less-quota" not in mpigen("synth", "platform.yaml", "--against", HOME).stdout
    git(repository, "commit", "--quiet", "--all", "--message", "next")
    assert "change/less-quota" not in mpigen("synth", "platform.yaml").stdout
    assert "change/less-quota" in mpigen("synth", "platform.yaml", "--against", "HEAD~1").stdout


def test_findings_about_removed_objects_have_an_excerpt(repository: Path, mpigen: Run) -> None:
    file = repository / "platform.yaml"
    removed = "removed: {team-sim: {reason: the project ended, until: 2026-01-31, unretired: true}}\n"
    file.write_text(file.read_text().replace("name: team-sim", "name: team-other") + removed)
    said = mpigen("synth", file).stdout
    assert f"HEAD:{HOME}/tenants/team-sim/namespace.yaml:6:9: info: change/tenant-removed" in said
    assert "     6 |   name: team-sim\n" in said
    since = mpigen("validate", HOME, "--since", "HEAD").stdout
    assert f"HEAD:{HOME}/tenants/team-sim/namespace.yaml:6:9: info: change/tenant-removed" in since
    assert "     6 |   name: team-sim\n" in since
    assert mpigen("validate", "output", "--since", "main").stdout == since.replace("HEAD:", "main:")


@pytest.mark.parametrize("format_", ["json", "sarif", "github", "gitlab", "junit"])
def test_every_format_names_the_file_of_the_revision(format_: str, repository: Path, mpigen: Run) -> None:
    file = repository / "platform.yaml"
    file.write_text(file.read_text().replace("name: team-sim", "name: team-other"))
    said = mpigen("synth", file, "--format", format_).stdout
    assert "output/cpu-kubernetes/tenants/team-sim/namespace.yaml" in said
    if format_ == "sarif":
        assert '"uri": "HEAD:' not in said  # `HEAD` would be the scheme of the URI


@pytest.mark.usefixtures("repository")
def test_an_unknown_revision_of_since_is_invalid_input(mpigen: Run) -> None:
    ran = mpigen("validate", HOME, "--since", "v9")
    assert (ran.returncode, "--since: there is no revision `v9`" in ran.stderr) == (2, True)
    ran = mpigen("validate", "-", "--since", "main", stdin="a: b\n")
    assert (ran.returncode, "no manifests below main" in ran.stderr) == (2, True)
