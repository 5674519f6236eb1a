"""Test the commands for releases with a platform that Flux delivers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.test_diff import git
from tests.conftest import Run

PLATFORM = """\
platform: sim
release: 1.0.0
pools:
  - name: cpu
    nodes: 2
    allocatable: {cpu: 16, memory: 64Gi}
runtimes:
  - {name: openmpi, use: openmpi, pool: cpu}
tenants:
  - name: team-sim
    quota: {cpu: 2}
    access: {edit: [group:sim]}
gitops: {engine: flux, repository: https://git.example.com/platform.git}
"""


@pytest.fixture
def repository(tmp_path: Path, mpigen: Run) -> Path:
    """Return a Git repository with a committed release, which the tags `sim/1.0.0` and `stable` name."""
    (tmp_path / "platform.yaml").write_text(PLATFORM)
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    ran = mpigen("synth", "platform.yaml")
    assert ran.returncode == 0, ran.stderr
    assert "Flux applies this release after you commit it and push it to `main`" in ran.stdout
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "start")
    for tag in ("sim/1.0.0", "stable"):
        git(tmp_path, "tag", tag)
    return tmp_path


@pytest.mark.parametrize(
    ("tag", "reference"), [("sim/1.0.0", "tag: sim/1.0.0"), ("refs/tags/stable", "name: refs/tags/stable")]
)
def test_a_promotion_changes_only_the_source(repository: Path, mpigen: Run, tag: str, reference: str) -> None:
    ran = mpigen("promote", "--to", tag)
    assert ran.returncode == 0, ran.stderr
    assert "output/sim: flux/source.yaml changed" in ran.stdout.splitlines()
    assert f"    {reference}\n" in (repository / "output/sim/flux/source.yaml").read_text()
    assert mpigen("verify", "output/sim", "--against", "main").returncode == 0
    assert f"Flux applies the tag `{tag.removeprefix('refs/tags/')}`" in mpigen("synth", "platform.yaml").stdout


def test_a_tag_that_flux_reads_as_a_branch_is_rejected(repository: Path, mpigen: Run) -> None:
    ran = mpigen("promote", "--to", "stable")
    assert (ran.returncode, "pass `--to refs/tags/stable`" in ran.stderr) == (2, True), ran.stderr
    assert git(repository, "status", "--short") == ""


@pytest.fixture
def registry(repository: Path, mpigen: Run) -> Path:
    """Return the repository after its platform moved to an OCI registry, with the tags `sim/1.1.0` and `sim/1.2.0`."""
    file, git_url = repository / "platform.yaml", "https://git.example.com/platform.git"
    text = file.read_text().replace(git_url, '"oci://registry.example.com/clusters", revision: 1.1.0')
    for version in ("1.1.0", "1.2.0"):
        file.write_text(text.replace("release: 1.0.0", f"release: {version}"))
        ran = mpigen("synth", "platform.yaml")
        assert ran.returncode == 0, ran.stderr
        assert APPLIED[version] in ran.stdout
        git(repository, "add", ".")
        git(repository, "commit", "--quiet", "--message", version)
        git(repository, "tag", f"sim/{version}")
    return repository


ARTIFACT = "oci://registry.example.com/clusters/sim"
APPLIED = {
    "1.1.0": f"Flux applies this release after you push it to `{ARTIFACT}:1.1.0`",
    "1.2.0": f"commit it, push it to `{ARTIFACT}:1.2.0` and run `mpigen promote --to 1.2.0`",
}


def test_an_artifact_is_promoted_by_its_tag(registry: Path, mpigen: Run) -> None:
    for tag, message in REJECTED.items():
        ran = mpigen("promote", "--to", tag)
        assert (ran.returncode, message in ran.stderr) == (2, True), ran.stderr
    assert git(registry, "status", "--short") == ""
    ran = mpigen("promote", "--to", "1.2.0")
    assert ran.returncode == 0, ran.stderr
    assert "output/sim: flux/source.yaml changed" in ran.stdout.splitlines()
    assert "sim 1.2.0, compared with sim/1.1.0:output/sim" in ran.stdout
    assert '    tag: "1.2.0"\n' in (registry / "output/sim/flux/source.yaml").read_text()


REJECTED = {
    "sim/1.2.0": "write the tag that you push",
    "1.3.0": "there is no revision `sim/1.3.0`",
    "~1.2": "`~1.2` names no Git tag",
}
