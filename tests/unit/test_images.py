"""Test that the text of the reference images follows the rules of their README."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from generator.facts.families import FAMILIES
from generator.facts.names import SSH_PORT
from tests.conftest import ROOT

IMAGES = ROOT / "examples" / "images"
CONTAINERFILES = {str(path.relative_to(IMAGES)): path for path in sorted(IMAGES.glob("*/Containerfile*"))}
LOCKS = {str(path.relative_to(IMAGES)): path for path in sorted(IMAGES.glob("*/*.in"))}
SHARED = {"horovod-pytorch": "horovod", "horovod-tensorflow": "horovod"}  # FRAMEWORK decides
GOOD = CONTAINERFILES["openmpi/Containerfile"].read_text()


def instructions(text: str) -> list[tuple[str, str]]:
    """Return `(FROM, debian:…)`, … without comments and with continued lines joined."""
    joined = re.sub(r"\\\n\s*", " ", re.sub(r"(?m)^\s*#.*\n", "", text))
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in joined.splitlines() if line.strip()]


def complaints(text: str) -> Iterator[str]:
    """Yield violations of the README's rules, and unpinned parts."""
    steps = instructions(text)
    stages = {name for word, rest in steps if word == "FROM" for name in re.findall(r" AS (\w+)$", rest)}
    for word, rest in steps:
        if word == "FROM":
            base = rest.split()[0]
            if base not in stages and not re.fullmatch(r"[\w./-]+:[\w.-]*\d{2}[\w.-]*(@sha256:[0-9a-f]{64})?", base):
                yield f"{base} is no fixed version"
        elif word == "RUN":
            yield from _run_complaints(rest)
        elif word == "ADD" or re.search(r"(?i)(password|token|secret|_key)\b\S*=\S", rest):
            yield f"{word} {rest}"
    last = steps[max(number for number, (word, _) in enumerate(steps) if word == "FROM") :]
    users = [rest for word, rest in last if word == "USER"]
    if not users or not re.fullmatch(r"[1-9]\d*(:\d+)?", users[-1]):
        yield "it does not end with the number of a user other than root"
    installed = " ".join(rest for word, rest in last if word == "RUN")
    for package in ("openssh-client", "openssh-server"):
        if f" {package}=" not in installed:
            yield f"{package} is not there when it runs"


def _run_complaints(command: str) -> Iterator[str]:
    if re.search(r"\b(curl|wget)\b|\|\s*(ba)?sh\b", command):
        yield f"it runs what it downloads: {command}"
    for packages in re.findall(r"apt-get install ((?:[^&;]|&(?!&))*)", command):
        unpinned = [word for word in packages.split() if not word.startswith("-") and "=" not in word]
        yield from (f"{package} has no version" for package in unpinned)
    if "openssh-server=" in command and "/etc/ssh/ssh_host_*" not in command:
        yield "everybody has its host keys"
    for install in re.findall(r"pip install ((?:[^&;]|&(?!&))*)", command):
        if "--require-hashes" not in install:
            yield f"pip takes what comes: {install}"


def test_every_family_has_an_image_and_a_row_in_the_readme() -> None:
    folders = {SHARED.get(family, family) for family in FAMILIES}
    assert folders == {name.split("/")[0] for name in CONTAINERFILES}
    named = set(
        re.findall(r"`([\w-]+)`", "".join(re.findall(r"(?m)^\| (`[^|]*)\|", (IMAGES / "README.md").read_text())))
    )
    assert named == set(FAMILIES)


@pytest.mark.parametrize("name", CONTAINERFILES)
def test_images_follow_the_rules(name: str) -> None:
    assert list(complaints(CONTAINERFILES[name].read_text())) == []


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("debian:trixie-20260918-slim", "debian:latest"),
        ("debian:trixie-20260918-slim", "debian"),
        ("USER 1000:0\n", ""),
        ("USER 1000:0", "USER mpiuser"),
        ("USER 1000:0", "USER 0"),
        ("python3-venv=3.13.5-1", "python3-venv"),
        (" openssh-client=", " libssh-4="),
        (" /etc/ssh/ssh_host_*", ""),
        (" --require-hashes", ""),
        ("RUN python3", "RUN curl -s https://example.com/setup | sh && python3"),
        ("COPY openmpi", "ADD openmpi"),
        ("ENV PATH", "ENV REGISTRY_TOKEN=a1b2 PATH"),
    ],
)
def test_a_broken_image_is_detected(good: str, bad: str) -> None:
    assert good in GOOD
    assert list(complaints(GOOD.replace(good, bad)))


@pytest.mark.parametrize("name", CONTAINERFILES)
def test_files_that_an_image_copies_exist(name: str) -> None:
    text = CONTAINERFILES[name].read_text()
    for word, rest in instructions(text):
        *sources, _target = (part for part in rest.split() if not part.startswith("--"))
        if word == "COPY" and "--from=" not in rest:
            for framework in ("pytorch", "tensorflow") if "${FRAMEWORK}" in rest else ("",):
                assert all((IMAGES / source.replace("${FRAMEWORK}", framework)).is_file() for source in sources)


@pytest.mark.parametrize("name", LOCKS)
def test_locks_have_all_requirements_with_hashes(name: str) -> None:
    lock = LOCKS[name].with_suffix(".txt").read_text()
    locked = dict(re.findall(r"(?m)^([a-z][\w.-]*)==(\S+) \\\n +--hash=sha256:", lock))
    assert len(locked) == len(re.findall(r"(?m)^[^\s#]", lock))
    for wanted in LOCKS[name].read_text().splitlines():
        asked = re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?(?:==([\d.]+)|<\d+)?", wanted)
        assert asked
        package, version = asked.groups()
        assert locked[package] == (version or locked[package])


def test_sshd_and_ssh_use_the_port_of_trainer() -> None:
    configs = [(IMAGES / "ssh" / name).read_text() for name in ("sshd_config", "ssh_config")]
    assert all(re.search(rf"(?m)^\s*Port {SSH_PORT}$", config) for config in configs)
    assert (IMAGES / "entrypoint.sh").stat().st_mode & 0o111 == 0o111


@pytest.mark.parametrize("linter", ["hadolint", "shellcheck"])
def test_linters_report_nothing(linter: str) -> None:
    program = shutil.which(linter, path=Path(sys.executable).parent) or shutil.which(linter)
    if program is None:
        pytest.skip(f"{linter} is not installed")
    scripts = [IMAGES / "entrypoint.sh", *(ROOT / "generator/runtimes/scripts").rglob("*.sh")]
    # SC1091: a file that a script reads in pods only
    files = ["--shell=sh", "--exclude=SC1091", *scripts] if linter == "shellcheck" else list(CONTAINERFILES.values())
    found = subprocess.run([program, *files], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")
