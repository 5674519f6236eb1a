"""Test that recipes in the docs work as written."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from generator import manifests
from tests.conftest import EXAMPLES, ROOT, Run

PAGE = (ROOT / "docs/tasks/add-a-runtime.md").read_text("utf-8")
(RECIPE,) = re.findall(r"```python title=\"mpigen_platform.py\"\n(.*?)```", PAGE, flags=re.DOTALL)


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
