"""Test that `mpigen pack` writes one deterministic archive of an unchanged release, and a statement to sign."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import in_toto_attestation.v1.statement_pb2 as pb
import pytest
from google.protobuf.json_format import Parse
from in_toto_attestation.v1.statement import Statement

from tests.acceptance.test_verify import add, edit, link, remove, unlock
from tests.conftest import EXAMPLES, ROOT, Run

RELEASE = ROOT / "output/cpu-kubernetes"
ARCHIVE, STATEMENT = "cpu-kubernetes-1.0.0.tar", "cpu-kubernetes-1.0.0.intoto.json"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a copy of a release."""
    return Path(shutil.copytree(RELEASE, tmp_path / "output/cpu-kubernetes"))


def test_the_archive_holds_the_release(mpigen: Run, home: Path, tmp_path: Path) -> None:
    done = mpigen("pack", home, "--output", tmp_path / "dist")
    assert done.returncode == 0, done.stderr
    with tarfile.open(tmp_path / "dist" / ARCHIVE) as archive:
        members = archive.getmembers()
    unpacked = tmp_path / "out"
    unpacked.mkdir()
    subprocess.run(["tar", "--extract", "--file", tmp_path / "dist" / ARCHIVE, "--directory", unpacked], check=True)
    assert {(member.mtime, member.uid, member.gid, member.uname, member.gname) for member in members} == {
        (0, 0, 0, "", "")
    }
    assert members[-1].name == "release.json"
    files = {file.relative_to(home): file.read_bytes() for file in home.rglob("*") if file.is_file()}
    assert files == {file.relative_to(unpacked): file.read_bytes() for file in unpacked.rglob("*") if file.is_file()}
    assert mpigen("verify", unpacked).returncode == 0
    assert sorted(path.name for path in (tmp_path / "dist").iterdir()) == sorted([ARCHIVE, STATEMENT])


def test_the_archive_depends_on_the_release_alone(mpigen: Run, home: Path, tmp_path: Path) -> None:
    archives = []
    for name, when in (("one", 1_000_000_000), ("two", 1_500_000_000)):
        for file in home.rglob("*"):
            os.utime(file, (when, when))
            file.chmod(0o755)
        umask = os.umask(0o077 if name == "two" else 0o022)
        try:
            mpigen("pack", home, "-o", tmp_path / name)
        finally:
            os.umask(umask)
        archives.append([(tmp_path / name / file).read_bytes() for file in (ARCHIVE, STATEMENT)])
    assert archives[0] == archives[1]


def test_the_statement_is_one_of_in_toto(mpigen: Run, home: Path, tmp_path: Path) -> None:
    done = mpigen("pack", home, "-o", tmp_path, "--format", "json")
    text = (tmp_path / STATEMENT).read_text()
    Statement.copy_from_pb(Parse(text, pb.Statement())).validate()
    statement, lock = json.loads(text), json.loads((home / "release.json").read_text())["spec"]
    digest = hashlib.sha256((tmp_path / ARCHIVE).read_bytes()).hexdigest()
    assert statement["subject"] == [{"name": ARCHIVE, "digest": {"sha256": digest}}]
    assert json.loads(done.stdout)["summary"]["digest"] == f"sha256:{digest}"
    built = statement["predicate"]["buildDefinition"]
    assert built["externalParameters"]["targets"] == lock["targets"]
    platform, *schemas = built["resolvedDependencies"]
    assert f"sha256:{platform['digest']['sha256']}" == lock["inputs"]
    assert {item["name"] for item in schemas} == {
        f"schemas of {name} {minor}" for name, minor in lock["targets"].items()
    }


@pytest.mark.parametrize("damage", [edit, remove, add, link, unlock])
def test_a_damaged_release_is_not_packed(damage: object, mpigen: Run, home: Path, tmp_path: Path) -> None:
    assert callable(damage)
    (home / "tenants/team-sim").mkdir(parents=True, exist_ok=True)
    damage(home)
    (tmp_path / ARCHIVE).write_text("the archive before")
    done = mpigen("pack", home, "-o", tmp_path)
    assert done.returncode == 2
    assert "error:" in done.stderr
    assert (tmp_path / ARCHIVE).read_text() == "the archive before"
    assert not (tmp_path / STATEMENT).exists()


def test_the_statement_has_the_schemas_of_an_announced_version(mpigen: Run, tmp_path: Path) -> None:
    versions = 'cluster: {versions: {kueue: "0.20", trainer: "2.4"}}\n'
    (tmp_path / "platform.yaml").write_text(EXAMPLES["cpu-kubernetes"].read_text() + versions)
    done = mpigen("synth", tmp_path / "platform.yaml", "-o", tmp_path / "output")
    assert done.returncode == 0, done.stderr
    mpigen("pack", tmp_path / "output/cpu-kubernetes", "-o", tmp_path)
    built = json.loads((tmp_path / STATEMENT).read_text())["predicate"]["buildDefinition"]
    assert built["externalParameters"]["targets"]["kueue"] == "0.20"
    names = {item["name"] for item in built["resolvedDependencies"]}
    assert {"schemas of kueue 0.19", "schemas of trainer 2.3"} <= names


def test_a_folder_that_cannot_be_written_is_an_error(mpigen: Run, home: Path, tmp_path: Path) -> None:
    (tmp_path / "dist").write_text("a file")
    done = mpigen("pack", home, "-o", tmp_path / "dist")
    assert done.returncode == 2
    assert "dist" in done.stderr
