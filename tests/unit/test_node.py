"""Test the selection of Node for cdk8s."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from generator.components.node import OLDEST_NODE, provide_node


def node(folder: Path, answer: str) -> Path:
    path = folder / "node"
    path.write_text(f"#!/bin/sh\n{answer}\n")
    path.chmod(0o755)
    return path


def provided(**environment: str) -> str:
    provide_node(environment)
    return environment["JSII_NODE"]


def test_a_node_chosen_by_the_user_is_kept() -> None:
    assert provided(JSII_NODE="mine", PATH="/nowhere") == "mine"


def test_a_recent_node_on_the_path_is_used(tmp_path: Path) -> None:
    mine = node(tmp_path, f"echo v{OLDEST_NODE}.1.0")
    assert provided(PATH=str(tmp_path)) == str(mine)


@pytest.mark.parametrize("answer", [f"echo v{OLDEST_NODE - 1}.9.9", "echo hello", "exit 1"])
def test_an_old_or_broken_node_is_skipped(answer: str, tmp_path: Path) -> None:
    node(tmp_path, answer)
    assert not provided(PATH=str(tmp_path)).startswith(str(tmp_path))


def test_the_packaged_node_runs_and_is_recent_enough(tmp_path: Path) -> None:
    version = subprocess.run([provided(PATH=str(tmp_path)), "--version"], capture_output=True, text=True, check=True)
    assert int(version.stdout.removeprefix("v").partition(".")[0]) >= OLDEST_NODE
