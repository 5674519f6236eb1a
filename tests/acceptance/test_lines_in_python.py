"""Findings about a platform in Python have the file and the line that create the section."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Run

PLATFORM = """\
from generator import Access, App, Container, MpiRuntime, Patch, Platform, Pool, Runtime, Target, Tenant

from teams import team_b

platform = Platform(
    platform="prod",
    release="1.0.0",
    pools=[Pool(name="cpu", nodes=4, allocatable={"cpu": 64, "memory": "256Gi"})],
    tenants=[
        Tenant(name="team-a", quota={"cpu": 2}, access=Access(edit=["group:a"])),
        team_b,
    ],
    patches=[
        Patch(target=Target(kind="RoleBinding"), merge={"metadata": {"labels": {"example.com/a": "b"}}}, reason="site"),
        Patch(target=Target(kind="LimitRange"), merge={"spec": {"limits": []}}, reason="no limits"),
    ],
)
app = App(platform)


class Staged(MpiRuntime):
    def init_containers(self, role):
        return [Container("Stage_1")]


Staged(app, "staged", runtime=Runtime(name="staged", pool="cpu"))
"""
TEAMS = """\
from generator import Access, Tenant

team_b = Tenant(
    name="team-b",
    quota={"cpu": 1},
    access=Access(edit=["group:b"]),
)
"""
RULES = """\
rules:
  - id: acme/cost-center
    match: {kinds: [Namespace]}
    cel: has(object.metadata.labels) && 'example.com/cost-center' in object.metadata.labels
    message: no cost center
    fix: set `labels` of the tenant
    cases:
      good: [{kind: Namespace, metadata: {labels: {example.com/cost-center: "1"}}}]
      bad: [{kind: Namespace, metadata: {labels: {}}}]
"""


@pytest.mark.slow
def test_findings_have_the_line_of_the_section(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "mpigen_platform.py").write_text(PLATFORM)
    (tmp_path / "teams.py").write_text(TEAMS)
    (tmp_path / "rules.yaml").write_text(RULES)
    (tmp_path / "mpigen.toml").write_text('checks = ["rules.yaml"]\n')
    ran = mpigen("synth", "mpigen_platform.py", "--format", "json")
    found = {(one["check"], one["file"], one["line"]) for one in json.loads(ran.stdout)["findings"]}
    assert ran.returncode == 1
    assert all(line for *_, line in found)
    assert found >= {
        ("acme/cost-center", "mpigen_platform.py", _line("team-a")),
        ("acme/cost-center", "teams.py", 3),
        ("platform/weakened-protection", "mpigen_platform.py", _line("no limits")),
        ("pod/field", "mpigen_platform.py", _line("def init_containers")),
    }


def _line(text: str) -> int:
    return 1 + next(number for number, line in enumerate(PLATFORM.splitlines()) if text in line)
