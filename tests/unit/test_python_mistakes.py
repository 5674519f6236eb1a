"""A mistake in a platform file in Python is one error with its line, exit code 2, no output and no traceback."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from generator import App, ConfigError, pipeline
from generator.documents.python import find_failure
from generator.errors import ExitCode, MpigenError
from generator.pipeline import Choices

PLATFORM = """\
import cdk8s
from generator import App, MpiRuntime, Platform, Pool, Runtime, Tenant, Volume
cpu = Pool(name="cpu", nodes=4, allocatable={"cpu": 64, "memory": "256Gi"})
platform = Platform(platform="prod", release="1.0.0", pools=[cpu])
app = App(platform)
"""
"""A valid platform file of five lines. The code of a mistake follows."""


class Slip(NamedTuple):
    """A mistake: the code, the line, and the beginning of the message and of the fix."""

    code: str
    line: int
    message: str
    fix: str = "fix the platform file"


HOOK = """\
class Torch(MpiRuntime):
    def environment(self):
        {body}
Torch(app, 'torch', runtime=Runtime(name='torch', pool='cpu'))
"""
CHANGE = "change files in a script of your own, and run mpigen after the script"
SERIAL = "compute the values in the main thread"
REPEAT = "and every command of mpigen that reads this file would repeat the change"
INPUT = "this line reads standard input, but mpigen must get the same result from the same files"

SLIPS = {
    "an exit": Slip("import sys\nsys.exit()", 7, "SystemExit"),
    "an exit that claims success": Slip("raise SystemExit(0)", 6, "SystemExit: 0"),
    "an exception": Slip("1 / 0", 6, "ZeroDivisionError: division by zero"),
    "an exception group": Slip(
        "raise ExceptionGroup('both', [ValueError()])", 6, "ExceptionGroup: both (1 sub-exception)"
    ),
    "an exception in a hook": Slip(HOOK.format(body="return {'A': {}['b']}"), 8, "KeyError: 'b'", "fix this method"),
    "a failed assertion in a hook": Slip(
        HOOK.format(body="assert False, 'no cache'"), 8, "AssertionError: no cache", "fix this method"
    ),
    "an endless hook": Slip(
        HOOK.format(body="return self.environment()"), 8, "RecursionError: maximum recursion", "fix this method"
    ),
    "an exception in a method": Slip(
        "class Fleet:\n    def teams(self): return 1 / 0\nFleet().teams()", 7, "`Fleet.teams` raises ZeroDivisionError"
    ),
    "a misspelled pool": Slip("platform.pool('cpus')", 6, "KeyError: there is no pool `cpus`; did you mean `cpu`?"),
    "a tuple without its comma": Slip(
        "Platform(platform='a', release='1.0.0', pools=(cpu))", 6, "a Pool is not a tuple", "write a comma after a"
    ),
    "a section in place of its name": Slip(
        "Runtime(name='a', pool=cpu)", 6, "a Pool is not a string", "write its name, such as `item.name`"
    ),
    "a field with its name in YAML": Slip(
        "Runtime(name='a', pool='cpu', imagePullPolcy='Always')",
        6,
        "there is no field `imagePullPolcy` here",
        "did you mean `image_pull_policy`?",
    ),
    "a runtime that does not fit": Slip(
        "MpiRuntime(app, 'torch', runtime=Runtime(name='torch', use='deepspeed', pool='cpu'))", 6, "", ""
    ),
    "a label that is a number": Slip(
        "cdk8s.Chart(app, 'a', labels={'a.b/c': 3})",
        6,
        "RuntimeError: cdk8s.Chart rejects `labels.a.b/c`: Value is not a string",
    ),
    "an owner without its fields": Slip(
        "cdk8s.ApiObject(cdk8s.Chart(app, 'a'), 'b', api_version='v1', kind='C', metadata={'owner_references': [{}]})",
        6,
        "RuntimeError: cdk8s.ApiObject rejects `metadata.ownerReferences[0]`: Missing required properties for ",
    ),
    "an object outside a chart": Slip(
        "cdk8s.ApiObject(app, 'a', api_version='v1', kind='ConfigMap')",
        6,
        "RuntimeError: cannot find a parent chart",
        'create the object in a chart: `cdk8s.Chart(app, "NAME")`',
    ),
    "an included file that does not exist": Slip(
        "cdk8s.Include(cdk8s.Chart(app, 'a'), 'b', url='missing.yaml')",
        6,
        "`cdk8s.Include` cannot read `missing.yaml`",
        "write the path of an existing file",
    ),
    "two constructs of one name": Slip("cdk8s.Chart(app, 'site')\ncdk8s.Chart(app, 'site')", 7, "RuntimeError: "),
    "a section in the wrong place": Slip("Runtime(name='torch', pool=cpu)", 6, "", ""),
    "a field of another section": Slip(
        "Tenant(name='a', quota={'cpu': 1}, nodes=3)", 6, "there is no field `nodes` here", "write one of"
    ),
    "a change in place": Slip(
        "cpu.nodes = 5", 6, "`nodes` cannot be changed, because sections are immutable", "build a"
    ),
    "a change of a mapping": Slip(
        "cpu.allocatable['cpu'] = 1", 6, "TypeError: a mapping of a platform cannot be changed: build a copy"
    ),
    "a copy that breaks a rule": Slip(
        "platform.model_copy(update={'runtimes': [Runtime(name='a', pool='gpu')]})",
        6,
        "there is no pool `gpu`",
        "did you",
    ),
    "NaN in a quantity": Slip("cpu.replace(allocatable={'cpu': float('nan')})", 6, "`nan` is ", ""),
    "infinity in a quantity": Slip("cpu.replace(allocatable={'cpu': float('inf')})", 6, "`inf` is ", ""),
    "NaN in a number": Slip("cpu.replace(nodes=float('nan'))", 6, "`nan` is not an integer", "write a whole number"),
    "a written file": Slip("open('pools.txt', 'w')", 6, f"this line changes `pools.txt`, {REPEAT}", CHANGE),
    "an appended file": Slip(
        "from pathlib import Path\nwith Path('log.txt').open('a') as file: pass",
        7,
        "this line changes `log.txt`",
        CHANGE,
    ),
    "a written file whose error is ignored": Slip(
        "try:\n    open('pools.txt', 'w')\nexcept Exception:\n    pass", 7, "this line changes `pools.txt`", CHANGE
    ),
    "a new folder": Slip("import os\nos.makedirs('cache/pools')", 7, "this line changes `cache", CHANGE),
    "a removed file": Slip("import os\nos.remove(__file__)", 7, "this line changes `", CHANGE),
    "a renamed file": Slip("import os\nos.rename(__file__, 'other.py')", 7, "this line changes `", CHANGE),
    "another working folder": Slip(
        "import os\nos.chdir('/')", 7, "this line changes the working folder, so mpigen", "build paths from"
    ),
    "a thread": Slip(
        "from threading import Thread\nThread(target=print).start()",
        7,
        "this line starts a thread, which could",
        SERIAL,
    ),
    "a pool of threads": Slip(
        "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor().submit(print)",
        7,
        "this line starts a thread",
        SERIAL,
    ),
    "a copy of the process": Slip("import os\nos.fork()", 7, "this line starts a second process", SERIAL),
    "an end of the process": Slip(
        "import os\nos._exit(0)", 7, "this line ends the process, so mpigen", "raise an exception instead"
    ),
    "a question": Slip("input('release? ')", 6, INPUT, "read a file beside this one instead"),
    "all of standard input": Slip("import sys\nsys.stdin.read()", 7, INPUT, "read a file beside this one instead"),
    "the bytes of standard input": Slip("import sys\nsys.stdin.buffer.read()", 7, INPUT, "read a file beside this one"),
    "lines of standard input": Slip("import sys\nfor line in sys.stdin: pass", 7, INPUT, "read a file beside this one"),
    "no platform": Slip(
        "del platform, app", 0, "the file defines neither `platform`", "write `platform = Platform(...)`"
    ),
    "a plain app": Slip("app = cdk8s.App()", 0, "`app` is a plain cdk8s App", "write `app = App(platform)`"),
}


def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> MpigenError:
    """Return the error of a platform file, and test that nothing but its error happens."""
    monkeypatch.chdir(folder)
    before, modules = sorted(folder.rglob("*")), sys.stdin
    with pytest.raises(MpigenError) as caught:
        pipeline.synth(Path("fleet.py"), Path("output"), Choices())
    assert caught.value.exit_code is ExitCode.INVALID_INPUT
    assert sorted(path for path in folder.rglob("*") if "__pycache__" not in path.parts) == before
    assert (Path.cwd(), sys.stdin) == (folder, modules)
    return caught.value


@pytest.mark.parametrize("case", SLIPS)
def test_a_mistake_is_one_error_with_its_line(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slip = SLIPS[case]
    (tmp_path / "fleet.py").write_text(f"{PLATFORM}{slip.code}\n")
    (problem,) = run(tmp_path, monkeypatch).problems
    assert (problem.file, problem.line) == ("fleet.py", slip.line), problem
    assert problem.message.startswith(slip.message), problem
    assert problem.fix.startswith(slip.fix), problem
    assert "\n" not in str(problem)


def test_a_hook_in_an_imported_module_is_reported_in_that_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme_runtimes.py").write_text(
        "from generator import MpiRuntime\n\n\nclass Torch(MpiRuntime):\n"
        "    def environment(self):\n        return {'A': 1 / 0}\n"
    )
    (tmp_path / "fleet.py").write_text(
        f"{PLATFORM}from acme_runtimes import Torch\nTorch(app, 'torch', runtime=Runtime(name='torch', pool='cpu'))\n"
    )
    (problem,) = run(tmp_path, monkeypatch).problems
    assert (problem.file, problem.line) == ("acme_runtimes.py", 6)
    assert (problem.path, problem.message) == ("Torch.environment", "ZeroDivisionError: division by zero")


MODULE = """\
from generator import MpiRuntime, Runtime, select


class Torch(MpiRuntime):
    def environment(self):
        return {"A": 1 / 0}


def add(app, name):
    Torch(app, name, runtime=Runtime(name=name, pool="cpu"))


def patch(app):
    app.patch(select(kind="Namespac"), {"a": 1})
    app.patch(select(kind="ResourceFlavor"), change)


def change(body):
    return body["no"]


def resize(pool):
    return pool.replace(nodes=0)
"""
"""A module of a platform file, with a mistake in each function."""
CALLS = {
    "a hook": ("add(app, 'torch')", {6}),
    "a patch": ("patch(app)", {14, 15}),
    "a section": ("resize(cpu)", {23}),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("start", "file", "module"),
    [
        ("site", "fleet.py", "acme_parts.py"),
        (".", "site/fleet.py", "site/acme_parts.py"),
        ("other", "../site/fleet.py", "../site/acme_parts.py"),
        ("site", "fleet.py", "lib/acme_parts.py"),
        (".", "site/fleet.py", "lib/acme_parts.py"),
    ],
)
def test_a_module_has_a_path_in_the_form_of_the_platform_file(
    call: str, start: str, file: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, lines = CALLS[call]
    for folder in ("site", "other", "lib", "site/lib"):
        (tmp_path / folder).mkdir()
    (tmp_path / start / module).write_text(MODULE)
    (tmp_path / "site/fleet.py").write_text(f"from acme_parts import *\n{PLATFORM}{code}\n")
    monkeypatch.chdir(tmp_path / start)
    monkeypatch.syspath_prepend(str((tmp_path / start / module).parent))
    monkeypatch.delitem(sys.modules, "acme_parts", raising=False)
    with pytest.raises(ConfigError) as caught:
        pipeline.synth(Path(file), Path("output"), Choices())
    assert {problem.file for problem in caught.value.problems} == {module}
    assert {problem.line for problem in caught.value.problems} == lines
    assert str(tmp_path) not in str(caught.value)


def test_a_module_of_another_folder_keeps_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("site", "lib"):
        (tmp_path / folder).mkdir()
    (tmp_path / "lib/acme_parts.py").write_text(MODULE)
    (tmp_path / "site/fleet.py").write_text(f"from acme_parts import *\n{PLATFORM}resize(cpu)\n")
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    monkeypatch.delitem(sys.modules, "acme_parts", raising=False)
    (problem,) = run(tmp_path / "site", monkeypatch).problems
    assert (problem.file, problem.line) == (str(tmp_path / "lib/acme_parts.py"), 23)


def test_a_circular_import_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_pools.py").write_text("from acme_teams import TEAMS\nPOOLS = []\n")
    (tmp_path / "acme_teams.py").write_text("from acme_pools import POOLS\nTEAMS = []\n")
    (tmp_path / "fleet.py").write_text("import acme_pools\n")
    (problem,) = run(tmp_path, monkeypatch).problems
    assert (problem.file, problem.line) == ("acme_teams.py", 1)
    assert problem.message.startswith("ImportError: cannot import name 'POOLS' from partially initialized module")
    assert problem.fix == "move the names that both modules need to a third module"


def test_a_file_that_a_module_imports_again_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_cycle.py").write_text("from fleet import cpu\n")
    (tmp_path / "fleet.py").write_text(f"from acme_cycle import cpu\n{PLATFORM}")
    (problem,) = run(tmp_path, monkeypatch).problems
    assert (problem.file, problem.line) == ("fleet.py", 1)
    assert problem.message.startswith("ImportError: cannot import name 'cpu' from partially initialized module")


def test_a_write_in_an_imported_module_has_the_line_of_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme_cache.py").write_text("from pathlib import Path\nPath('cache').mkdir()\n")
    (tmp_path / "fleet.py").write_text(f"import acme_cache\n{PLATFORM}")
    (problem,) = run(tmp_path, monkeypatch).problems
    assert (problem.file, problem.line) == ("acme_cache.py", 2)


def test_an_exception_in_a_class_that_jsii_generated_has_the_line_of_its_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`cdk8s import` writes such modules beside the platform file, for users to commit but not to edit."""
    (tmp_path / "acme_kinds.py").write_text(
        "from cdk8s._jsii import __jsii_assembly__\n\ndef create(): raise RuntimeError('the CRD has no such field')\n"
    )
    (tmp_path / "fleet.py").write_text(f"import acme_kinds\n{PLATFORM}acme_kinds.create()\n")
    (problem,) = run(tmp_path, monkeypatch).problems
    assert (problem.file, problem.line) == ("fleet.py", 7)
    assert problem.message == "RuntimeError: the CRD has no such field"


def test_a_file_of_jsii_that_is_missing_must_be_generated_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme_kinds/_jsii").mkdir(parents=True)
    (tmp_path / "acme_kinds/_jsii/__init__.py").write_text(
        "import cdk8s._jsii\nimport jsii\n"
        "__jsii_assembly__ = jsii.JSIIAssembly.load('acme', '0.0.0', 'acme_kinds', 'acme.jsii.tgz')\n"
    )
    (tmp_path / "fleet.py").write_text("import acme_kinds._jsii\n")
    (problem,) = run(tmp_path, monkeypatch).problems
    assert (problem.file, problem.line) == ("acme_kinds/_jsii/__init__.py", 3)
    assert "acme.jsii.tgz" in problem.message
    assert problem.fix == "run `cdk8s import` again, and commit all files that it writes"


def test_a_value_of_several_types_keeps_the_first_line_of_its_reasons() -> None:
    text = """\
Passed to parameter props of new a.B: Unable to deserialize value as a.Props
╰── 🔍 Failure reason(s):
    ╰─ Key 'port': Unable to deserialize value as number | string
        ├── 🛑 Failing value is a boolean
        │      true
        ╰── 🔍 Failure reason(s):
            ├─ [as number] Value is not a number
            ╰─ [as string] Value is not a string"""
    problem = find_failure(RuntimeError(text), Path("fleet.py"), "")
    assert problem.message == f"RuntimeError: {text.splitlines()[0]}"


def test_a_construct_that_fails_later_has_the_file_and_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fleet.py").write_text(
        f"{PLATFORM}one = cdk8s.ApiObject(cdk8s.Chart(app, 'site'), 'broken', api_version='v1', kind='ConfigMap')\n"
        "one.add_json_patch(cdk8s.JsonPatch.replace('/no/such/place', 1))\n"
    )
    (problem,) = run(tmp_path, monkeypatch).problems
    assert (problem.file, problem.path, problem.fix) == ("fleet.py", "site/broken", "fix the construct")


def test_a_platform_file_can_read_files_and_run_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading files, modules beside the file, programs, and the output of prints on standard error."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acme_names.py").write_text("NAME = 'prod'\n")
    (tmp_path / "notes.txt").write_text("1.0.0\n")
    (tmp_path / "fleet.py").write_text(
        "import subprocess, sys\nfrom pathlib import Path\nimport acme_names\n"
        "said = subprocess.run([sys.executable, '-c', 'print(1)'], stdin=subprocess.DEVNULL, capture_output=True)\n"
        f"assert said.stdout and Path('notes.txt').read_text()\nprint('done')\n{PLATFORM}"
    )
    platform, app = pipeline.load(Path("fleet.py"))
    assert isinstance(app, App)
    assert platform.platform == "prod"
    (tmp_path / "after.txt").write_text("mpigen writes again after the file has run")


def test_two_folders_can_have_modules_of_one_name(tmp_path: Path) -> None:
    for name in ("east", "west"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "acme_site.py").write_text(f"NAME = {name!r}\n")
        code = PLATFORM.replace('platform="prod"', "platform=acme_site.NAME")
        (tmp_path / name / "fleet.py").write_text(f"import acme_site\n{code}")
    names = [pipeline.load(tmp_path / name / "fleet.py")[0].platform for name in ("east", "west", "east")]
    assert names == ["east", "west", "east"]


def test_two_folders_can_have_packages_of_one_name(tmp_path: Path) -> None:
    for name in ("east", "west"):
        (tmp_path / name / "acme_imports/io/names").mkdir(parents=True)  # `cdk8s import` writes such a package
        (tmp_path / name / "acme_imports/io/names/__init__.py").write_text(f"NAME = {name!r}\n")
        code = PLATFORM.replace('platform="prod"', "platform=NAME")
        (tmp_path / name / "fleet.py").write_text(f"from acme_imports.io.names import NAME\n{code}")
    names = [pipeline.load(tmp_path / name / "fleet.py")[0].platform for name in ("east", "west", "east")]
    assert names == ["east", "west", "east"]


def test_nothing_is_refused_outside_of_the_files_of_users(tmp_path: Path) -> None:
    (tmp_path / "fleet.py").write_text("raise ValueError\n")
    with pytest.raises(ConfigError):
        pipeline.load(tmp_path / "fleet.py")
    os.mkdir(tmp_path / "new")  # noqa: PTH102 - the audit event of this function
    assert (tmp_path / "new").is_dir()
