"""Test the announced versions, and the versions that need each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from generator.checks.registry import checks
from generator.facts.versions import (
    ANNOUNCED,
    NAMES,
    SETS,
    SUPPORTED,
    accepted_minors,
    find_conflicts,
    followed_minor,
    minors,
)
from generator.schemas.catalog import Catalog
from tests.conftest import Run

FLAVOR = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ResourceFlavor\nmetadata: {name: a}\n"
PLATFORM = """\
platform: prod
release: 1.0.0
cluster: {versions: {kueue: "0.20", trainer: "2.4"}}
pools: [{name: cpu, nodes: 2, allocatable: {cpu: 8, memory: 32Gi}}]
runtimes: [{name: openmpi, pool: cpu}]
tenants: [{name: team-a, quota: {cpu: 2}}]
"""


def test_an_announced_version_follows_a_supported_one_and_names_its_sources() -> None:
    ids = {check.id for check in checks()}
    for row in ANNOUNCED:
        assert row.after == minors(row.name)[0]
        assert row.minor not in minors(row.name)
        assert {change["check"] for change in row.changes if "check" in change} <= ids
        assert followed_minor(row.name, row.minor) == row.after


def test_sets_name_known_components() -> None:
    known = {component.name for component in SUPPORTED}
    assert {name for need in SETS for name in (need.component, need.needs)} <= known & NAMES.keys()


@pytest.mark.parametrize(
    ("targets", "needs"),
    [
        ({"kueue": "0.20", "trainer": "2.3"}, []),
        ({"kueue": "0.20", "trainer": "2.4"}, []),
        ({"kueue": "0.19", "trainer": "2.2"}, []),
        ({"kueue": "0.20"}, []),
        ({"trainer": "2.4", "jobset": "0.11"}, []),
        ({"kueue": "0.20", "trainer": "2.2"}, ["Kueue 0.20 needs Trainer 2.3 or newer, not 2.2: "]),
        ({"kueue": "0.18", "trainer": "2.1"}, ["Kueue 0.18 needs Trainer 2.2 or newer, not 2.1: "]),
        ({"trainer": "2.3", "jobset": "0.11"}, ["Trainer 2.3 needs JobSet 0.12, not 0.11: "]),
        ({"trainer": "2.10", "kueue": "0.20"}, []),
    ],
)
def test_versions_that_do_not_work_together_are_a_conflict(targets: dict[str, str], needs: list[str]) -> None:
    messages = [message for _, message in find_conflicts(targets)]
    assert [message[: len(text)] for message, text in zip(messages, needs, strict=True)] == needs


def test_an_announced_version_has_the_schemas_of_the_version_before_without_the_removed_ones() -> None:
    catalog = Catalog.bundled({"kueue": "0.20"})
    assert (catalog.targets["kueue"], catalog.versions["kueue"]) == ("0.20", "0.19")
    assert catalog.has("kueue.x-k8s.io/v1beta2", "ResourceFlavor")
    assert not catalog.has("kueue.x-k8s.io/v1beta1", "ResourceFlavor")
    assert Catalog.bundled({"kueue": "0.19"}).has("kueue.x-k8s.io/v1beta1", "ResourceFlavor")


def test_validate_names_an_announced_target(mpigen: Run, tmp_path: Path) -> None:
    (tmp_path / "flavor.yaml").write_text(FLAVOR)
    ran = mpigen("validate", "flavor.yaml", "--target", "kueue=0.20")
    assert (ran.returncode, "Kueue 0.20 removed ResourceFlavor" in ran.stdout) == (1, True)
    assert ran.stdout.endswith("Kueue 0.20 is announced: not verified against its code\n")
    assert "announced" not in mpigen("validate", "flavor.yaml", "--target", "kueue=0.19").stdout


def test_a_target_that_does_not_work_with_another_is_refused(mpigen: Run, tmp_path: Path) -> None:
    (tmp_path / "flavor.yaml").write_text(FLAVOR)
    ran = mpigen("validate", "flavor.yaml", "--target", "kueue=0.20", "--target", "trainer=2.2")
    assert (ran.returncode, "Kueue 0.20 needs Trainer 2.3 or newer, not 2.2" in ran.stderr) == (2, True)


def test_a_platform_with_announced_versions_is_rendered_with_a_warning(mpigen: Run, tmp_path: Path) -> None:
    (tmp_path / "platform.yaml").write_text(PLATFORM)
    ran = mpigen("synth", "platform.yaml")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.count("platform/announced-version") == 2
    lock = json.loads((tmp_path / "output/prod/release.json").read_text())
    assert {name: lock["spec"]["targets"][name] for name in ("kueue", "trainer")} == {"kueue": "0.20", "trainer": "2.4"}


def test_versions_lists_every_version_with_its_status(mpigen: Run) -> None:
    text = mpigen("versions").stdout
    data = json.loads(mpigen("versions", "--format", "json").stdout)["summary"]
    for name in ("kubernetes", "kueue", "trainer"):
        for minor in accepted_minors(name):
            status = "supported" if minor in minors(name) else "announced"
            assert any(line.split()[:3] == [name, minor, status] for line in text.splitlines())
            assert any((row["name"], row["minor"]) == (name, minor) for row in data[status])
    assert len(data["sets"]) == len(SETS)
    assert mpigen("versions", "--help").returncode == 0


@pytest.mark.parametrize("versions", ["", "\n  versions: {trainer: '2.3'}"])
def test_openshift_has_the_kubernetes_of_its_newest_release(versions: str, mpigen: Run, tmp_path: Path) -> None:
    text = PLATFORM.replace(
        'cluster: {versions: {kueue: "0.20", trainer: "2.4"}}', "cluster:\n  distribution: openshift"
    )
    (tmp_path / "platform.yaml").write_text(
        text.replace("distribution: openshift", f"distribution: openshift{versions}")
    )
    done = mpigen("synth", tmp_path / "platform.yaml", "-o", tmp_path / "output")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "output/prod/release.json").read_text())["spec"]["targets"]["kubernetes"] == "1.35"
