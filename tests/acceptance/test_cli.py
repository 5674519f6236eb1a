"""Test the output and exit codes of the command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from generator.cli.setup import EXAMPLES as FLAVOURS
from tests.conftest import EXAMPLES, MPIGEN, ROOT, Run

GROUPED = [["policy", "test"], ["schemas", "list"], ["schemas", "locations"], ["schemas", "compile"]]
COMMANDS = [[], ["init"], ["synth"], ["validate"], ["schema"], ["policy"], ["schemas"], *GROUPED, ["completion"]]
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
  lables: {app: web}
spec:
  containers:
    - name: web
      image: nginx
"""


@pytest.fixture
def mpigen(cold_mpigen: Run) -> Run:
    """Start a new Python for each run, because this module tests the process."""
    return cold_mpigen


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_help_has_an_example(command: list[str], mpigen: Run) -> None:
    ran = mpigen(*command, "--help")
    assert ran.returncode == 0
    assert "Example" in ran.stdout


def test_only_synth_starts_node(tmp_path: Path, mpigen: Run) -> None:
    trap = tmp_path / "node"
    trap.write_text("#!/bin/sh\nexit 1\n")
    trap.chmod(0o755)
    (tmp_path / "pod.yaml").write_text(POD.replace("lables", "labels"))
    for arguments in (["--help"], ["validate", "pod.yaml"], ["schema"], ["schemas", "list"], ["init", "new"]):
        assert mpigen(*arguments, JSII_NODE=str(trap)).returncode == 0
    assert mpigen("synth", EXAMPLES["cpu-kubernetes"], JSII_NODE=str(trap)).returncode != 0


def test_synth_runs_without_node_on_the_path(tmp_path: Path, mpigen: Run) -> None:
    ran = mpigen("synth", EXAMPLES["cpu-kubernetes"], PATH=str(tmp_path))
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_finding_has_location_reason_and_fix_and_exit_code_1(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    ran = mpigen("validate", "pod.yaml")
    assert ran.returncode == 1
    assert ran.stdout == (
        "pod.yaml:5:3: error: schema/unknown-field: Pod web $.metadata.lables: unknown field `lables`\n"
        "     5 |   lables: {app: web}\n"
        "       |   ^\n"
        "    why: strict field validation rejects the object; without it, the API server drops the field silently\n"
        "    fix: did you mean `labels`?\n"
        "1 object in 1 file: embedded: 1 finding\n"
    )


def test_json_findings_are_one_versioned_document(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    ran = mpigen("validate", "pod.yaml", "--format", "json")
    report = json.loads(ran.stdout)
    assert (ran.returncode, report["version"], report["problems"]) == (1, "mpigen.dev/report/v1", [])
    (finding,) = report["findings"]
    assert {key: finding[key] for key in ("file", "line", "column", "path", "check", "severity")} == {
        "file": "pod.yaml", "line": 5, "column": 3, "path": "$.metadata.lables",
        "check": "schema/unknown-field", "severity": "error",
    }  # fmt: skip


def test_standard_input_with_many_documents_and_lists_is_checked(mpigen: Run) -> None:
    indented = "".join(f"    {line}\n" for line in POD.splitlines())
    text = f"apiVersion: v1\nkind: List\nitems:\n  -\n{indented}---\n{POD.replace('lables', 'labels')}"
    ran = mpigen("validate", "-", stdin=text)
    assert ran.returncode == 1
    assert "stdin:9:7: error: schema/unknown-field: Pod web $.items[0].metadata.lables" in ran.stdout
    assert "2 objects in 1 file" in ran.stdout


def test_folders_are_searched_and_files_are_checked_once(tmp_path: Path, mpigen: Run) -> None:
    for name in ("a.yaml", "deep/b.yml", "deep/c.json", ".hidden/d.yaml", "readme.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}')
    ran = mpigen("validate", ".", "deep", "a.yaml")
    assert ran.stdout == "3 objects in 3 files: embedded: 0 findings\n"


def test_a_kind_without_schema_is_reported_unless_ignored(mpigen: Run) -> None:
    text = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n"
    refused = mpigen("validate", "-", stdin=text)
    assert (refused.returncode, "stdin:2:7: error: schema/no-schema" in refused.stdout) == (1, True)
    passed = mpigen("validate", "-", "--ignore-missing-schemas", stdin=text)
    assert (passed.returncode, "stdin:2:7: info: schema/no-schema" in passed.stdout) == (0, True)


def test_invalid_yaml_is_a_finding_and_other_files_are_checked(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "a.yaml").write_text("a: [\n")
    (tmp_path / "b.yaml").write_text(POD)
    ran = mpigen("validate", "a.yaml", "b.yaml")
    assert ran.returncode == 1
    assert "a.yaml:1:5: error: yaml/unreadable" in ran.stdout
    assert "b.yaml:5:3" in ran.stdout


def test_findings_have_the_same_order_on_one_core_and_on_many(tmp_path: Path, mpigen: Run) -> None:
    for number in range(400):
        (tmp_path / f"{number:03}.yaml").write_text(POD + f"# {'x' * 2000}\n")
    together = mpigen("validate", ".", "--format", "github").stdout
    apart = [mpigen("validate", f"{number:03}.yaml", "--format", "github").stdout for number in (0, 1, 2)]
    assert together.startswith("".join(text.rpartition("1 object")[0] for text in apart))
    assert together.endswith("400 objects in 400 files: embedded: 400 findings\n")


@pytest.mark.parametrize("arguments", [["nope"], ["validate"], ["validate", "--engine", "x", "."], ["synth"]])
def test_wrong_usage_gives_exit_code_2(arguments: list[str], mpigen: Run) -> None:
    ran = mpigen(*arguments)
    assert (ran.returncode, "Error:" in ran.stderr, "Traceback" in ran.stderr) == (2, True, False)


def test_all_missing_paths_are_reported(mpigen: Run) -> None:
    ran = mpigen("validate", "one.yaml", "two.yaml")
    assert ran.returncode == 2
    assert ran.stderr == (
        "error: one.yaml: there is no such file or folder\nerror: two.yaml: there is no such file or folder\n"
    )


def test_input_errors_in_json_are_the_same_document(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "platform.yaml").write_text("platform: x\n")
    ran = mpigen("synth", "platform.yaml", "--format", "json")
    report = json.loads(ran.stdout)
    assert (ran.returncode, report["version"]) == (2, "mpigen.dev/report/v1")
    assert [problem["path"] for problem in report["problems"]] == ["release", "pools"]


def test_an_invalid_platform_leaves_the_output_unchanged(tmp_path: Path, mpigen: Run) -> None:
    file = tmp_path / "platform.yaml"
    shutil.copy(EXAMPLES["cpu-kubernetes"], file)
    assert mpigen("synth", file).returncode == 0
    before = {path: path.read_bytes() for path in (tmp_path / "output").rglob("*") if path.is_file()}
    file.write_text(file.read_text().replace("nodes: 3", "nodes: 0"))
    ran = mpigen("synth", file)
    assert (ran.returncode, "platform.yaml:7:12: pools[0].nodes: `0` is too small" in ran.stderr) == (2, True)
    assert {path: path.read_bytes() for path in (tmp_path / "output").rglob("*") if path.is_file()} == before


def test_a_finding_in_rendered_manifests_leaves_the_output_unchanged(tmp_path: Path, mpigen: Run) -> None:
    source = EXAMPLES["custom-python"]
    shutil.copy(source.with_name("base.yaml"), tmp_path)
    (tmp_path / "mpigen_platform.py").write_text(source.read_text().replace('"/value"', '"/valeu"'))
    ran = mpigen("synth", "mpigen_platform.py")
    assert ran.returncode == 1
    assert "custom/cluster/priorityclass-urgent.yaml" in ran.stdout
    assert "schema/unknown-field: PriorityClass urgent $.valeu" in ran.stdout
    assert not (tmp_path / "output").exists()


def test_an_edited_file_is_overwritten_only_on_request(tmp_path: Path, mpigen: Run) -> None:
    file = tmp_path / "platform.yaml"
    shutil.copy(EXAMPLES["cpu-kubernetes"], file)
    mpigen("synth", file)
    (tmp_path / "output/cpu-kubernetes/tenants/team-sim/queue.yaml").write_text("mine\n")
    refused = mpigen("synth", file)
    assert refused.returncode == 2
    assert "--discard-edits" in refused.stderr
    assert mpigen("synth", file, "--discard-edits").returncode == 0


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_init_writes_a_platform_that_synth_accepts(flavour: str, tmp_path: Path, mpigen: Run) -> None:
    started = mpigen("init", "--example", flavour)
    assert started.returncode == 0, started.stderr
    command = started.stdout.splitlines()[-1].removeprefix("next: mpigen ").split()
    assert mpigen(*command).returncode == 0
    assert (tmp_path / "platform.schema.json").is_file()


def test_init_overwrites_no_files(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "platform.yaml").write_text("mine")
    ran = mpigen("init")
    assert (ran.returncode, "platform.yaml: exists already" in ran.stderr) == (2, True)
    assert (tmp_path / "platform.yaml").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["platform.yaml"]


def test_a_platform_py_does_not_shadow_the_standard_library(tmp_path: Path) -> None:
    (tmp_path / "platform.py").write_text("raise SystemExit('taken for the standard library')\n")
    command = [sys.executable, "-m", "generator", "synth", str(EXAMPLES["cpu-kubernetes"])]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_valid_shell_script(shell: str, mpigen: Run) -> None:
    ran = mpigen("completion", shell)
    assert (ran.returncode, "_MPIGEN_COMPLETE" in ran.stdout) == (0, True)
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=ran.stdout, text=True, check=True)


def test_a_closed_pipe_is_not_an_error() -> None:
    read, write = os.pipe()
    os.close(read)
    ran = subprocess.run([MPIGEN, "schemas", "list"], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (ran.returncode, ran.stderr) == (0, b"")


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of shell with this `mpigen` on the path."""
    environment = {**os.environ, "PATH": f"{MPIGEN.parent}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_findings_set_the_exit_code_after_the_reader_closes_the_pipe(tmp_path: Path) -> None:
    (tmp_path / "many.yaml").write_text("---\n".join([POD] * 3000))
    ran = shell("mpigen validate many.yaml | head -1; exit ${PIPESTATUS[0]}", tmp_path)
    assert (ran.returncode, ran.stdout.count("\n"), ran.stderr) == (1, 1, "")


def test_debug_keeps_the_exit_codes(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    for arguments in (["synth", "nope.yaml"], ["validate"], ["validate", "pod.yaml"], ["init", "--help"]):
        usual, debugged = mpigen(*arguments), mpigen("--debug", *arguments)
        assert (debugged.returncode, debugged.stderr) == (usual.returncode, usual.stderr)


def test_an_internal_error_is_reported_as_a_bug_and_debug_prints_the_traceback(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/jsonschema_rs.py").write_text("raise RuntimeError('broken')\n")
    (tmp_path / "pod.yaml").write_text(POD)
    path = str(tmp_path / "modules")
    ran = mpigen("validate", "pod.yaml", PYTHONPATH=path)
    assert (ran.returncode, "mpigen has a bug: RuntimeError: broken" in ran.stderr) == (3, True)
    assert "Traceback" not in ran.stderr
    assert "Traceback" in mpigen("--debug", "validate", "pod.yaml", PYTHONPATH=path).stderr
    told = json.loads(mpigen("validate", "pod.yaml", "--format", "json", PYTHONPATH=path).stdout)
    assert told["problems"][0]["message"] == "mpigen has a bug: RuntimeError: broken"


def test_json_results_exist_for_all_commands(mpigen: Run) -> None:
    started = json.loads(mpigen("init", "new", "--format", "json").stdout)
    assert started["summary"]["files"] == ["new/platform.yaml", "new/platform.schema.json"]
    listed = json.loads(mpigen("schemas", "list", "--format=json").stdout)
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "scope": "Cluster"}
    assert {**queue, "component": "kueue@0.19"} in listed["summary"]["kinds"]


def test_wrong_usage_in_json_is_the_same_document(mpigen: Run) -> None:
    ran = mpigen("validate", "--format", "json", "--nope", ".")
    (problem,) = json.loads(ran.stdout)["problems"]
    assert (ran.returncode, ran.stderr) == (2, "")
    assert "--nope" in problem["message"]
    assert problem["fix"] == "see `mpigen validate --help`"


def test_an_interruption_in_json_is_the_same_document(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "mpigen_platform.py").write_text("raise KeyboardInterrupt\n")
    ran = mpigen("synth", "mpigen_platform.py", "--format", "json")
    assert (ran.returncode, ran.stderr) == (130, "")
    assert [problem["message"] for problem in json.loads(ran.stdout)["problems"]] == ["interrupted"]


def test_an_interruption_while_modules_load_is_quiet(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n")
    ran = mpigen("--help", PYTHONPATH=str(tmp_path))
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("mpigen schemas list > /dev/full", "standard output cannot be written: No space left on device"),
        ("mpigen schema > /dev/full", "standard output cannot be written: No space left on device"),
        ("mpigen synth nope.yaml --format json > /dev/full", "nope.yaml: cannot be read"),
        ("mpigen validate - <&-", "standard input is closed"),
        ("mpigen validate - 0> file", "standard input cannot be read: Bad file descriptor"),
        ("touch file; mpigen schemas compile file/schemas", "file/schemas: cannot be written"),
        (
            "touch file; MPIGEN_CACHE=file mpigen validate - --engine both <<< ''",
            "kubeconform cannot be built in this folder",
        ),
        (f"mpigen synth {'x' * 300}.py", "cannot be read: File name too long"),
        (f"mpigen init {'x' * 300}", "cannot be written: File name too long"),
    ],
)
def test_operating_system_errors_are_not_reported_as_bugs(command: str, said: str, tmp_path: Path) -> None:
    ran = shell(command, tmp_path)
    assert (ran.returncode, said in ran.stderr, ran.stderr.count("\n")) == (2, True, 1), ran.stderr


def test_closed_standard_output_keeps_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    ran = shell("mpigen validate pod.yaml >&-", tmp_path)
    assert (ran.returncode, ran.stderr) == (1, "")


def test_output_of_a_platform_py_stays_out_of_the_json_result(tmp_path: Path, mpigen: Run) -> None:
    text = EXAMPLES["cpu-kubernetes"].read_text()
    (tmp_path / "base.yaml").write_text(text)
    (tmp_path / "mpigen_platform.py").write_text(
        "from generator import load_platform\nprint('hello')\nplatform = load_platform('base.yaml')\n"
    )
    ran = mpigen("synth", "mpigen_platform.py", "--format", "json")
    assert (ran.returncode, json.loads(ran.stdout)["problems"], ran.stderr) == (0, [], "hello\n")


def test_init_follows_no_symlink(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "platform.yaml").symlink_to(tmp_path / "elsewhere")
    ran = mpigen("init")
    assert (ran.returncode, "platform.yaml: exists already" in ran.stderr) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["platform.yaml"]


def test_init_leaves_no_partial_files(tmp_path: Path) -> None:
    ran = shell("ulimit -f 2; PYTHONDONTWRITEBYTECODE=1 mpigen init new", tmp_path)
    assert (ran.returncode, "cannot be written: File too large" in ran.stderr) == (2, True), ran.stderr
    assert not list((tmp_path / "new").iterdir())


def test_schemas_compile_replaces_no_folder_with_other_files(tmp_path: Path, mpigen: Run) -> None:
    kind = {"apiVersion": "v1", "kind": "Pod", "plural": "pods", "scope": "Namespaced", "path": "p.json", "sha256": ""}
    (tmp_path / "catalog.json").write_text(json.dumps({"components": [], "kinds": [kind]}))
    for name in ("p.json", "a.txt", "b.txt", "c.txt", "d.txt"):
        (tmp_path / name).touch()
    ran = mpigen("schemas", "compile", ".")
    assert ran.returncode == 2
    assert (
        "holds files that are not compiled schemas: a.txt, b.txt, c.txt and 1 more; name a new or an empty"
        in ran.stderr
    )
    (tmp_path / "catalog.json").write_text("[]")
    assert "holds no schemas" in mpigen("schemas", "compile", ".").stderr


def test_schema_locations_are_kubeconform_options(mpigen: Run) -> None:
    lines = mpigen("schemas", "locations").stdout.splitlines()
    assert all(line.startswith("-schema-location ") and line.endswith(".json") for line in lines)
    assert len(lines) >= 5


def test_schemas_are_listed_with_their_release(mpigen: Run) -> None:
    listed = mpigen("schemas", "list").stdout
    assert any(
        line.split() == ["kueue.x-k8s.io/v1beta2", "ClusterQueue", "Cluster", "kueue@0.19"]
        for line in listed.splitlines()
    )


def test_synth_writes_only_to_the_output_folder(tmp_path: Path, mpigen: Run) -> None:
    before = sorted(str(path) for path in ROOT.glob("examples/**/*"))
    ran = mpigen("synth", EXAMPLES["custom-python"], "--output", tmp_path / "out", PYTHONDONTWRITEBYTECODE="1")
    assert "  1 pool, 2 runtimes, 1 tenant\n" in ran.stdout  # the file adds one of the runtimes
    assert sorted(str(path) for path in ROOT.glob("examples/**/*")) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
