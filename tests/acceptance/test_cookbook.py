"""Test that recipes in the docs work as written."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from generator import load, manifests
from generator.components.runtimes import HOOK_NAMES
from tests.conftest import EXAMPLES, ROOT, Run
from tests.docs.pages import blocks

PAGE = (ROOT / "docs/tasks/add-a-runtime.md").read_text("utf-8")
(RECIPE,) = re.findall(r"```python title=\"mpigen_platform.py\"\n(.*?)```", PAGE, flags=re.DOTALL)
BLOCKS = {block.title: block.text for block in blocks(ROOT / "docs/tasks/add-a-check.md") if block.title}
HOOKS = (ROOT / "docs/tasks/extend-a-runtime.md").read_text("utf-8")
FAMILY = {block.title: block.text for block in blocks(ROOT / "docs/tasks/add-a-family.md") if block.title}
SERVER = {block.title: block.text for block in blocks(ROOT / "docs/tasks/add-a-server.md") if block.title}
DEVICE = {block.title: block.text for block in blocks(ROOT / "docs/tasks/add-a-device.md") if block.title}
EXTENDED = re.findall(r"```python title=\"mpigen_platform.py\"\n(.*?)```", HOOKS, flags=re.DOTALL)


@pytest.mark.slow
def test_a_runtime_in_python_has_fewer_than_30_lines(tmp_path: Path, mpigen: Run) -> None:
    assert len(RECIPE.splitlines()) < 30
    shutil.copyfile(EXAMPLES["openshift-h100"], tmp_path / "base.yaml")
    (tmp_path / "mpigen_platform.py").write_text(RECIPE)
    ran = mpigen("synth", "mpigen_platform.py")
    assert (ran.returncode, ran.stderr) == (0, "")
    (file,) = tmp_path.rglob("torch-compiled.yaml")
    (runtime,) = manifests.read(file.read_text(), file.name)
    node, launcher = runtime.body["spec"]["template"]["spec"]["replicatedJobs"]
    environment = launcher["template"]["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "TRITON_CACHE_DIR", "value": "/kernels/triton"} in environment
    mounts = node["template"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    assert {"name": "kernels", "mountPath": "/kernels"} in mounts


def test_a_check_and_its_setting_have_fewer_than_30_lines(tmp_path: Path, mpigen: Run) -> None:
    check, setting = (textwrap.dedent(BLOCKS[name]) for name in ("checks/company.py", "mpigen.toml"))
    assert len(check.splitlines()) + len(setting.splitlines()) < 30
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks/company.py").write_text(check)
    (tmp_path / "mpigen.toml").write_text(setting)
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {mpigen.dev/tenant: a}}\n"
    ran = mpigen("validate", "-", "--format", "json", stdin=namespace)
    (finding,) = json.loads(ran.stdout)["findings"]
    assert (ran.returncode, finding["check"], finding["url"]) == (1, "acme/cost-center", "checks/company.py")
    assert "acme/cost-center" in mpigen("validate", "-", "--profile", stdin=namespace).stderr
    assert mpigen("validate", "-", "--ignore", "acme", stdin=namespace).returncode == 0
    explained = mpigen("explain", "acme/cost-center").stdout
    assert re.search(r"^`cost_center` in `checks/company.py:\d+`$", explained, re.MULTILINE)


def test_a_check_that_fails_writes_nothing(tmp_path: Path, mpigen: Run) -> None:
    broken = textwrap.dedent(BLOCKS["checks/company.py"]).replace(
        "in manifest.labels\n", "in manifest.body['labels']\n"
    )
    (tmp_path / "company.py").write_text(broken)
    (tmp_path / "mpigen.toml").write_text('checks = ["company.py"]\n')
    shutil.copyfile(EXAMPLES["cpu-kubernetes"], tmp_path / "platform.yaml")
    before = sorted(tmp_path.rglob("*"))
    ran = mpigen("synth", "platform.yaml")
    assert ran.returncode == 2
    assert re.fullmatch(r"error: company.py:\d+: acme/cost-center: KeyError: 'labels'; correct the check\n", ran.stderr)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_python_of_the_guides_is_typed(tmp_path: Path) -> None:
    """mypy runs once for all of them, because each run reads mpigen again."""
    (tmp_path / "company.py").write_text(textwrap.dedent(BLOCKS["checks/company.py"]))
    own = [page["mpigen_platform.py"] for page in (FAMILY, SERVER, DEVICE)]
    for number, recipe in enumerate([RECIPE, *EXTENDED, *own]):
        (tmp_path / f"recipe_{number}.py").write_text(recipe)
    (tmp_path / "mypy.ini").write_text("[mypy]\nplugins = pydantic.mypy\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--follow-imports=silent", "."]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize("page", [FAMILY, SERVER], ids=["family", "server"])
def test_families_and_server_types_have_fewer_than_30_lines_and_are_equal_in_python(
    page: dict[str, str], tmp_path: Path
) -> None:
    """The page itself runs as a session of the docs."""
    texts = {name: textwrap.dedent(text) for name, text in page.items()}
    assert {len(text.splitlines()) < 30 for text in texts.values()} == {True}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    yaml, python = (load(tmp_path / name)[0] for name in ("platform.yaml", "mpigen_platform.py"))
    assert yaml.digest() == python.digest()


def test_every_extension_of_a_runtime_has_fewer_than_30_lines() -> None:
    """The page itself runs as a session of the docs."""
    assert [len(recipe.splitlines()) < 30 for recipe in EXTENDED] == [True] * 3


def test_the_page_about_extensions_lists_every_hook() -> None:
    assert re.findall(r"^\| `(\w+)\(", HOOKS, flags=re.MULTILINE) == [*HOOK_NAMES]


def test_a_hook_that_fails_writes_nothing(tmp_path: Path, mpigen: Run) -> None:
    shutil.copyfile(EXAMPLES["cpu-kubernetes"], tmp_path / "base.yaml")
    broken = EXTENDED[0].replace("return [CACHE]", "return [CACHE / 2]")
    (tmp_path / "mpigen_platform.py").write_text(broken)
    before = sorted(tmp_path.rglob("*"))
    ran = mpigen("synth", "mpigen_platform.py")
    assert ran.returncode == 2
    assert re.fullmatch(
        r"error: mpigen_platform\.py:\d+: CachedRuntime\.volumes: TypeError: .*; fix this method\n", ran.stderr
    )
    assert sorted(tmp_path.rglob("*")) == before
