"""Test `mpigen image check`: the result of `prepare` for an image, before a pod starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from generator.facts.programs import Software
from generator.facts.table import read_rows
from tests.conftest import ROOT, Run
from tests.layouts import Layout, Member, file, layer_of, link

PROGRAMS = {
    name
    for row in read_rows("programs", "programs", Software)
    for program in row.programs
    for name in program.split("|")
}


def programs(*missing: str) -> list[Member]:
    """Return all programs that an image needs, except the missing ones."""
    paths = [name if "/" in name else f"usr/bin/{name}" for name in sorted(PROGRAMS - {*missing})]
    return [link("bin", "usr/bin"), file("usr/bin/sh"), *map(file, paths)]


@pytest.fixture
def platform(tmp_path: Path) -> Path:
    """Return a platform with a runtime of each kind."""
    claim = {"name": "tools", "claim": "tools", "mountPath": "/tools"}
    body = {
        "platform": "images",
        "release": "1.0.0",
        "pools": [
            {"name": "cpu", "nodes": 4, "allocatable": {"cpu": 8, "memory": "32Gi"}},
            {
                "name": "arm",
                "nodes": 4,
                "allocatable": {"cpu": 8, "memory": "32Gi"},
                "labels": {"kubernetes.io/arch": "arm64"},
                "taints": [{"key": "example.com/arm"}],
            },
        ],
        "runtimes": [
            {"name": "openmpi", "pool": "cpu"},
            {"name": "with-ssh", "pool": "cpu", "sshImage": "quay.io/acme/openssh:1"},
            {"name": "mpich", "use": "mpich", "pool": "cpu", "image": "quay.io/acme/mpich:1"},
            {"name": "arm", "pool": "arm", "image": "quay.io/acme/openmpi:1"},
            {
                "name": "tools",
                "pool": "cpu",
                "volumes": [claim],
                "environment": {"PATH": "/tools/bin:/usr/bin:/bin"},
            },
        ],
        "tenants": [{"name": "team", "quota": {"cpu": 4, "arm": 4}, "access": {"edit": ["group:team"]}}],
        "gitops": {"repository": "https://git.example.com/platform.git"},
    }
    path = tmp_path / "platform.yaml"
    path.write_text(yaml.safe_dump(body, sort_keys=False))
    return path


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "image")


@pytest.mark.parametrize("command", [["image"], ["image", "check"]], ids=" ".join)
def test_image_help_has_an_example(command: list[str], mpigen: Run) -> None:
    ran = mpigen(*command, "--help")
    assert (ran.returncode, "Example" in ran.stdout) == (0, True)


def test_an_image_with_all_programs_is_accepted(layout: Layout, platform: Path, mpigen: Run) -> None:
    path = layout.write(layout.image([layer_of(*programs())]))
    for runtime in ("openmpi", "with-ssh", "mpich"):
        ran = mpigen("image", "check", path, "--runtime", runtime, "--platform", platform)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert ran.stdout == ("worker pods: `prepare` accepts the image\nlauncher pod: `prepare` accepts the image\n")


def test_an_image_without_sshd_has_the_message_of_the_pods(layout: Layout, platform: Path, mpigen: Run) -> None:
    path = layout.write(layout.image([layer_of(*programs("/usr/sbin/sshd"))]))
    command = ("image", "check", path, "--platform", platform, "--runtime")
    ran = mpigen(*command, "openmpi")
    assert (ran.returncode, ran.stderr) == (1, "")
    assert ran.stdout == (
        "worker pods: `prepare` fails: the image lacks `/usr/sbin/sshd` (OpenSSH server). The job would start no "
        "ranks, so it fails now. Install them in the image of runtime `openmpi`, or use another image. For OpenSSH, "
        "you can set `sshImage` of the runtime in platform.yaml instead.\n"
        "launcher pod: `prepare` accepts the image\n"
    )
    assert mpigen(*command, "with-ssh").returncode == 0
    answer = json.loads(mpigen(*command, "openmpi", "--format", "json").stdout)["summary"]
    assert [(pods["pods"], pods["accepted"]) for pods in answer["pods"]] == [
        ("worker pods", False),
        ("launcher pod", True),
    ]


def test_an_image_without_a_shell_starts_no_container(layout: Layout, platform: Path, mpigen: Run) -> None:
    path = layout.write(layout.image([layer_of(file("usr/sbin/sshd"))]))
    ran = mpigen("image", "check", path, "--runtime", "openmpi", "--platform", platform)
    assert ran.returncode == 1
    assert ran.stdout.count("fails: the image lacks `/bin/sh`. The container runtime cannot start `prepare`") == 2


def test_the_nodes_of_the_pool_decide_about_the_architecture(layout: Layout, platform: Path, mpigen: Run) -> None:
    path = layout.write(layout.image([layer_of(*programs())]))
    ran = mpigen("image", "check", path, "--runtime", "arm", "--platform", platform)
    assert ran.returncode == 1
    assert ran.stdout.splitlines()[0] == (
        "worker pods: `prepare` fails: the image is for `amd64`, but the nodes of pool `arm` have `arm64`. The pods "
        "would fail with `no match for platform in manifest` or `exec format error`. Build the image for `arm64`, or "
        "use another image."
    )
    both = layout.write(layout.image([layer_of()]), layout.image([layer_of(*programs())], "arm64"))
    assert mpigen("image", "check", both, "--runtime", "arm", "--platform", platform).returncode == 0


def test_a_volume_in_path_can_have_the_mpi(layout: Layout, platform: Path, mpigen: Run) -> None:
    path = layout.write(layout.image([layer_of(*programs("mpirun", "orted", "prted"))]))
    ran = mpigen("image", "check", path, "--runtime", "tools", "--platform", platform)
    note = "note: the image lacks {}. PATH of the runtime leads to a volume, which can have the program."
    assert ran.returncode == 0
    assert ran.stdout.splitlines() == [
        "worker pods: `prepare` accepts the image",
        note.format("`orted` or `prted`"),
        "launcher pod: `prepare` accepts the image",
        note.format("`mpirun`, `orted` or `prted`"),
    ]
    assert mpigen("image", "check", path, "--runtime", "openmpi", "--platform", platform).returncode == 1


def test_the_only_platform_file_of_the_folder_is_the_default(layout: Layout, platform: Path, mpigen: Run) -> None:
    layout.write(layout.image([layer_of(*programs())]))
    assert mpigen("image", "check", "image", "--runtime", "openmpi", cwd=platform.parent).returncode == 0


def test_an_unknown_runtime_is_an_error(platform: Path, mpigen: Run) -> None:
    ran = mpigen("image", "check", "image", "--runtime", "openmp", "--platform", platform)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "error: --runtime: there is no runtime `openmp`; did you mean `openmpi`?\n"


def test_a_reference_of_a_registry_is_an_error(platform: Path, mpigen: Run) -> None:
    ran = mpigen("image", "check", "quay.io/acme/mpi:1", "--runtime", "openmpi", "--platform", platform)
    assert (ran.returncode, "`skopeo copy docker://quay.io/acme/mpi:1 oci:image`" in ran.stderr) == (2, True)


@pytest.mark.slow
def test_a_hook_can_change_path(tmp_path: Path, layout: Layout, mpigen: Run) -> None:
    example = ROOT / "examples/custom-python"
    (tmp_path / "base.yaml").write_text((example / "base.yaml").read_text())
    text = (example / "mpigen_platform.py").read_text()
    hooked = text.replace('{"OMPI_MCA', '{"PATH": "/own/bin", "OMPI_MCA')
    assert hooked != text
    members = [file("own/bin/mpirun"), *programs("mpirun")]
    path = layout.write(layout.image([layer_of(*members)]))
    platform, lines = tmp_path / "mpigen_platform.py", []
    for version in (text, hooked):
        platform.write_text(version)
        ran = mpigen("image", "check", path, "--runtime", "openmpi-scratch", "--platform", platform)
        lines.append(ran.stdout.splitlines()[1])
    assert "launcher pod: `prepare` fails: the image lacks `mpirun` (Open MPI)." in lines[0]
    assert "launcher pod: `prepare` fails: the image lacks `orted` or `prted` (Open MPI)." in lines[1]
