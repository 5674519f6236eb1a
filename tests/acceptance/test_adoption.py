"""The options and the settings of adoption work alike in the commands that report findings."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import EXAMPLES, Run

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
  lables: {app: web}
spec: {containers: [{name: web, image: x}]}
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with two pods that have an unknown field."""
    for team in ("a", "b"):
        (tmp_path / f"tree/{team}").mkdir(parents=True)
        (tmp_path / f"tree/{team}/pod.yaml").write_text(POD)
    return tmp_path / "tree"


def files(mpigen: Run, *arguments: str) -> tuple[int, list[str]]:
    """Return the exit code of `mpigen validate`, and the files with findings."""
    ran = mpigen("validate", *arguments, "--format", "json")
    return ran.returncode, [each["file"] for each in json.loads(ran.stdout)["findings"]]


BOTH = (1, ["tree/a/pod.yaml", "tree/b/pod.yaml"])


@pytest.mark.usefixtures("tree")
def test_checks_are_selected_on_the_command_line(mpigen: Run) -> None:
    assert files(mpigen, "tree") == BOTH
    assert files(mpigen, "tree", "--ignore", "quota,schema") == (0, [])
    assert files(mpigen, "tree", "--select", "quota") == (0, [])
    assert files(mpigen, "tree", "--select", "schema/unknown-field") == BOTH


@pytest.mark.usefixtures("tree")
def test_a_written_baseline_hides_its_findings(mpigen: Run, tmp_path: Path) -> None:
    ran = mpigen("validate", "tree/a", "--baseline", "known.json", "--write-baseline")
    assert (ran.returncode, ran.stdout) == (0, "known.json: 1 finding written\n")
    assert files(mpigen, "tree", "--baseline", "known.json") == (1, ["tree/b/pod.yaml"])
    (tmp_path / "tree/a/pod.yaml").write_text(f"# a comment\n{POD}")
    assert files(mpigen, "./tree", "--baseline", "known.json") == (1, ["tree/b/pod.yaml"])
    for arguments, words in (
        (["--write-baseline"], "name it with --baseline"),
        (["--baseline", "x.json", "--write-baseline", "--changed-since", "main"], "findings of all files"),
        (["--baseline", "nope.json"], "nope.json: cannot be read"),
    ):
        ran = mpigen("validate", "tree", *arguments)
        assert (ran.returncode, words in ran.stderr) == (2, True), ran.stderr


def test_only_changed_files_are_reported(mpigen: Run, tree: Path, tmp_path: Path) -> None:
    own = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false"]
    for command in (["init", "--quiet"], ["add", "."], [*own, "commit", "--quiet", "-m", "first"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    assert files(mpigen, "tree", "--changed-since", "HEAD") == (0, [])
    (tree / "a/pod.yaml").write_text(f"# a comment\n{POD}")
    (tree / "new.yaml").write_text(POD)
    assert files(mpigen, "tree", "--changed-since", "HEAD") == (1, ["tree/a/pod.yaml", "tree/new.yaml"])
    ran = mpigen("validate", "tree", "--changed-since", "nope")
    assert (ran.returncode, "--changed-since: there is no revision `nope`" in ran.stderr) == (2, True)


@pytest.mark.usefixtures("tree")
def test_settings_files_are_read_from_parent_folders(mpigen: Run, tmp_path: Path) -> None:
    (tmp_path / "mpigen.toml").write_text('[[paths]]\npath = "tree/a"\nignore = ["schema"]\n')
    assert files(mpigen, "tree") == (1, ["tree/b/pod.yaml"])
    ran = mpigen("validate", ".", "--format", "json", cwd=tmp_path / "tree")
    assert [each["file"] for each in json.loads(ran.stdout)["findings"]] == ["b/pod.yaml"]
    (tmp_path / "other.toml").write_text('ignore = ["schema"]\n')
    assert files(mpigen, "tree", "--config", "other.toml") == (0, [])
    (tmp_path / "mpigen.toml").write_text("fail-on = 3\n")
    ran = mpigen("validate", "tree")
    assert (ran.returncode, ran.stderr.startswith("error: mpigen.toml:1:1: fail-on: `3` is not one of")) == (2, True)


def test_paths_of_named_settings_are_relative_to_the_working_folder(mpigen: Run, tree: Path, tmp_path: Path) -> None:
    trusted = tmp_path / "trusted/mpigen.toml"
    trusted.parent.mkdir()
    trusted.write_text('baseline = "known.json"\n[[paths]]\npath = "tree/a"\nignore = ["schema"]\n')
    assert mpigen("validate", tree / "b", "--config", trusted, "--write-baseline").returncode == 0
    assert (trusted.parent / "known.json").exists()
    (trusted.parent / "known.json").unlink()
    trusted.write_text(trusted.read_text().partition("\n")[2])
    assert files(mpigen, "tree", "--config", str(trusted)) == (1, ["tree/b/pod.yaml"])


def test_fail_on_sets_the_severity_that_fails_a_run(mpigen: Run, tree: Path) -> None:
    (tree / "a/pod.yaml").unlink()
    (tree / "b/pod.yaml").unlink()
    widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n"
    (tree / "widget.yaml").write_text(widget)
    assert files(mpigen, "tree", "--ignore-missing-schemas")[0] == 0
    assert files(mpigen, "tree", "--ignore-missing-schemas", "--fail-on", "info")[0] == 1
    (tree.parent / "mpigen.toml").write_text('fail-on = "info"\n')
    assert files(mpigen, "tree", "--ignore-missing-schemas")[0] == 1
    assert files(mpigen, "tree", "--ignore-missing-schemas", "--fail-on", "error")[0] == 0


def test_synth_writes_output_with_waived_findings(mpigen: Run, tmp_path: Path) -> None:
    source = EXAMPLES["custom-python"]
    (tmp_path / "base.yaml").write_text(source.with_name("base.yaml").read_text())
    (tmp_path / "mpigen_platform.py").write_text(source.read_text().replace('"/value"', '"/valeu"'))
    refused = mpigen("synth", "mpigen_platform.py", "--format", "github")
    assert refused.returncode == 1
    file = "output/custom-python/custom/cluster/priorityclass-urgent.yaml"
    assert refused.stdout.startswith(f"::error file={file},line=10,col=1,title=schema/unknown-field::")
    waiver = f'[[waivers]]\ncheck = "schema/unknown-field"\npath = "{file}"\nreason = "a test"\nuntil = 2026-01-01\n'
    (tmp_path / "mpigen.toml").write_text(waiver)
    accepted = mpigen("synth", "mpigen_platform.py")
    assert (accepted.returncode, "not reported: 1 accepted by waivers" in accepted.stdout) == (0, True)
    assert (tmp_path / file).is_file()
    assert mpigen("validate", "output").returncode == 0
    expired = mpigen("validate", "output", SOURCE_DATE_EPOCH="1767398400")  # 3 January 2026
    assert (expired.returncode, "waiver/expired" in expired.stdout) == (1, True)


def test_colors_follow_force_color_and_no_color(mpigen: Run, tree: Path) -> None:
    assert "\x1b" not in mpigen("validate", str(tree)).stdout
    assert "\x1b[1;31merror\x1b[0m" in mpigen("validate", str(tree), FORCE_COLOR="1").stdout
    assert "\x1b" not in mpigen("validate", str(tree), FORCE_COLOR="1", NO_COLOR="1").stdout


@pytest.mark.parametrize("name", ["platform", "settings", "rules", "report"])
def test_schemas_of_mpigen_files_are_printed(name: str, mpigen: Run) -> None:
    assert json.loads(mpigen("schema", name).stdout)["title"].startswith("mpigen")
