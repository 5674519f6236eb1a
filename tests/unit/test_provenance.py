"""Test that a finding of `synth` has the line and the words of the platform file."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from generator import App, Platform, pipeline
from generator.checks.finding import Finding
from generator.documents.messages import format_path, parse_path
from generator.hazards.sources import find_source, point_at_platform
from generator.manifests import Manifest
from tests.conftest import ROOT, Run

PLATFORM = """\
platform: prod
release: 1.0.0
pools:
  - name: cpu
    nodes: 6
    allocatable: {cpu: 16, memory: 64Gi}
    labels: {example.com/pool: cpu}
    taints: [{key: example.com/batch}]
runtimes:
  - name: solver
    use: openmpi
    pool: cpu
    image: registry.example.com/mpi/openmpi:a
    processesPerNode: 4
    resources: {cpu: 12}
    environment: {SOLVER_LEVEL: "1"}
queues: {fairSharing: true}
cohorts:
  - name: science
tenants:
  - name: team-sim
    cohort: science
    quota: {cpu: 1}
    borrow: {cpu: 2}
    weight: 2
    limits: {trainJobs: 5}
    access: {edit: [group:sim]}
    egress: [{name: store, cidr: 203.0.113.0/28, ports: [443]}]
  - name: team-b
    cohort: science
    quota: {cpu: 2}
    lend: {cpu: 1}
    access: {edit: [group:b]}
"""
CHANGES: dict[tuple[str, ...], Any] = {
    ("tenants", "team-sim", "quota", "cpu"): 2,
    ("tenants", "team-sim", "borrow", "cpu"): 1,
    ("tenants", "team-b", "lend", "cpu"): 2,
    ("tenants", "team-sim", "cohort"): "",
    ("tenants", "team-sim", "weight"): 3,
    ("tenants", "team-sim", "stop"): "drain",
    ("tenants", "team-sim", "limits"): {"trainJobs": 6},
    ("tenants", "team-sim", "access"): {"edit": ["group:others"]},
    ("tenants", "team-sim", "egress"): [{"name": "store", "cidr": "203.0.113.16/28", "ports": [443]}],
    ("runtimes", "solver", "image"): "registry.example.com/mpi/openmpi:b",
    ("runtimes", "solver", "processesPerNode"): 6,
    ("runtimes", "solver", "nodes"): 3,
    ("runtimes", "solver", "environment"): {"SOLVER_LEVEL": "2"},
    ("pools", "cpu", "labels"): {"example.com/pool": "cpu-2"},
    ("pools", "cpu", "taints"): [{"key": "example.com/other"}],
}
"""Field of the platform file → another value for it."""


@cache
def _leaves(changed: tuple[str, ...] = ()) -> dict[tuple[str, str, str], tuple[Any, tuple[str, ...]]]:
    """Render the platform with one changed field; return (file, resource, path) → (value, source) of each scalar."""
    data = copy.deepcopy(yaml.safe_load(PLATFORM))
    if changed:
        *sections, last = changed
        holder = data
        for step in sections:
            holder = (
                next(entry for entry in holder if entry["name"] == step) if isinstance(holder, list) else holder[step]
            )
        if CHANGES[changed] == "":
            del holder[last]
        else:
            holder[last] = CHANGES[changed]
    platform = Platform.model_validate(data)
    tree = pipeline.render(platform, App(platform))
    return {
        (manifest.file, manifest.resource, path): (value, _source(manifest, path))
        for manifest in tree
        for path, value in _scalars(manifest.body, ())
    }


def _scalars(node: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str, Any]]:
    steps = enumerate(node) if isinstance(node, list) else node.items() if isinstance(node, dict) else None
    if steps is None:
        yield format_path(path, root="$"), node
        return
    for step, child in steps:
        yield from _scalars(child, (*path, step))


def _source(manifest: Manifest, path: str) -> tuple[str, ...]:
    finding = Finding(manifest.file, 1, 1, path, "test/test", manifest.resource, "", "", "")
    return find_source(finding, manifest.body)


@pytest.mark.parametrize("field", CHANGES, ids=".".join)
def test_a_changed_field_is_the_source_of_a_changed_value(field: tuple[str, ...]) -> None:
    before, after = _leaves(), _leaves(field)
    differing = {key for key in before.keys() | after.keys() if before.get(key, ())[:1] != after.get(key, ())[:1]}
    sources = {(after.get(key) or before[key])[1] for key in differing}
    assert field in {source[: len(field)] for source in sources}


@pytest.mark.parametrize("example", sorted(ROOT.glob("examples/*/platform.yaml")), ids=lambda path: path.parent.name)
def test_every_generated_file_comes_from_a_section_of_the_platform_file(example: Path) -> None:
    sections = Platform.model_json_schema()["properties"].keys()
    (output,) = (ROOT / "output").glob(example.parent.name)
    files = [path.relative_to(output) for path in output.rglob("*.yaml")]
    for file in files:
        name = str(file.relative_to(file.parts[0]) if file.parts[0][0].isdigit() else file)
        source = find_source(Finding(name, 1, 1, "$", "test/test", "Kind name", "", "", ""), {})
        assert source, name
        assert source[0] in sections, name


def test_a_file_that_a_platform_in_python_adds_has_no_source() -> None:
    finding = Finding(
        "custom/cluster/priorityclass-urgent.yaml", 1, 1, "$", "test/test", "PriorityClass urgent", "", "", ""
    )
    assert find_source(finding, {}) == ()


def test_a_finding_has_the_line_and_the_field_of_the_platform_file(tmp_path: Path, mpigen: Run) -> None:
    file = tmp_path / "platform.yaml"
    text = PLATFORM.replace("    cohort: science\n", "").replace("cohorts:\n  - name: science\n", "")
    text = text.replace("lend: {cpu: 1}", "lend: {cpu: 0}").replace("nodes: 6", "nodes: 3")
    file.write_text(text, "utf-8")
    done = mpigen("synth", str(file), "--output", str(tmp_path / "output"))
    line = text.splitlines().index("    borrow: {cpu: 2}") + 1
    lines = [text for text in done.stdout.splitlines() if "generated:" not in text]
    assert any(text.startswith(f"{file}:{line}:") and "tenants[0].borrow.cpu" in text for text in lines)
    assert not any("borrowingLimit" in text for text in lines)


def test_a_finding_has_the_values_of_the_platform_file(tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(PLATFORM, "utf-8")
    texts = (
        "`spec.stopPolicy` was `None`, and becomes `Hold`",
        "None of the jobs runs",
        "`stopPolicy: HoldAndDrain`",
    )
    finding = Finding("tenants/team-b/queue.yaml", 9, 1, "$.spec.stopPolicy", "x/y", "ClusterQueue team-b", *texts)
    (pointed,) = point_at_platform([finding], [], file)
    assert (pointed.path, pointed.message) == ("tenants[1].stop", "`spec.stop` was `none`, and becomes `hold`")
    assert (pointed.why, pointed.fix) == ("None of the jobs runs", "`stop: drain`")


def test_values_after_their_field_are_translated_in_every_finding(tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(PLATFORM, "utf-8")
    texts = ("the nodes restart", "`Hold` the line", "set `stopPolicy: Hold`, or `borrowingLimit: 2`")
    finding = Finding("tenants/team-b/queue.yaml", 9, 1, "$.spec.cohortName", "x/y", "ClusterQueue team-b", *texts)
    (pointed,) = point_at_platform([finding], [], file)
    assert (pointed.why, pointed.fix) == ("`Hold` the line", "set `stop: hold`, or `borrow: 2`")


_STEPS = st.one_of(st.integers(0, 99), st.text(min_size=1, max_size=20).filter(str.isprintable))


@given(st.lists(_STEPS).map(tuple).filter(lambda path: not path or isinstance(path[0], str)))
def test_a_formatted_path_is_parsed_as_the_same_path(path: tuple[str | int, ...]) -> None:
    assert parse_path(format_path(path, root="$")) == path
