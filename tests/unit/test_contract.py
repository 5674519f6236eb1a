"""Test that the descriptions of families and runtimes match the built manifests."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from generator import Platform, Runtime
from generator.facts.devices import OTHER, devices
from generator.facts.families import FAMILIES, Family
from generator.jobs import contract
from generator.runtimes.training_runtime import training_runtimes
from tests.conftest import small_platform
from tests.offers import offered
from tests.unit.test_runtimes import POOLS, build, containers, variables

KINDS = {"cpu", OTHER, *(device.kind for device in devices())}


@pytest.fixture(params=FAMILIES.values(), ids=lambda family: family.name)
def family(request: pytest.FixtureRequest) -> Family:
    """Return every family."""
    found: Family = request.param
    return found


def told(points: Iterable[tuple[str, str]], topic: str) -> list[str]:
    return [point for about, point in points if about == topic]


def test_every_family_is_described_in_at_most_25_points(family: Family) -> None:
    points = list(contract.describe_family(family))
    topics = {topic for topic, _ in points}
    assert topics == {
        "family", "devices", "image", "launcher", "ranks", "variables", "pods", "limits", "example", "options"
    }  # fmt: skip
    assert len(points) <= 25


def test_every_device_is_either_supported_or_explained(family: Family) -> None:
    facts = contract.family_facts(family)
    assert set(facts["devices"]).isdisjoint(facts["notOn"])
    assert set(facts["devices"]) | set(facts["notOn"]) <= KINDS


def test_described_variables_are_set(family: Family) -> None:
    pool = POOLS[family.devices[0]]
    (_, names) = told(contract.describe_family(family), "variables")
    body = build(Runtime(name="r", use=family.name, pool=pool.name, image="i"), pool)
    assert names.split(", ") == list(variables(body))


def test_the_described_launcher_is_built(family: Family) -> None:
    pool = POOLS[family.devices[0]]
    body = build(Runtime(name="r", use=family.name, pool=pool.name, image="i"), pool)
    is_node = body["spec"]["mlPolicy"]["mpi"]["runLauncherAsNode"]
    assert contract.family_facts(family)["launcher"] == ("node" if is_node else "separate")


def test_described_options_are_fields_of_the_platform_file(family: Family) -> None:
    (names,) = told(contract.describe_family(family), "options")
    fields = {field.alias or name for name, field in Runtime.model_fields.items()}
    assert set(names.split(", ")) <= fields
    assert ("launcher" in names.split(", ")) == (not family.rank_variables)


def test_described_numbers_equal_the_manifest(platform: Platform) -> None:
    for runtime in platform.runtimes:
        facts = contract.runtime_facts(*offered(platform, runtime))
        (body,) = training_runtimes(runtime, platform.pool(runtime.pool), platform.cluster)
        node, launcher = containers(body)
        assert facts["ranksPerNode"] == body["spec"]["mlPolicy"]["mpi"]["numProcPerNode"]
        assert facts["resources"] == node["resources"]["requests"]
        assert facts["launcherResources"] == launcher["resources"]["requests"]
        assert facts["environment"] == variables(body)
        assert facts["image"] == node["image"]


def test_a_runtime_lists_the_hosts_per_tenant(platform: Platform) -> None:
    hosts = {
        runtime.name: contract.runtime_facts(*offered(platform, runtime))["hosts"] for runtime in platform.runtimes
    }
    assert hosts == {
        "openmpi-cpu": {"team-a": {"owned": 4, "reclaimable": 4, "idle": 4}},
        "openmpi-gpu": {"team-a": {"owned": 3, "reclaimable": 3, "idle": 3}},
    }


def test_a_runtime_lists_no_hosts_for_excluded_tenants() -> None:
    data = small_platform()
    data["runtimes"][1]["tenants"] = ["team-b"]
    theirs = Platform.model_validate(data)
    assert contract.runtime_facts(*offered(theirs, theirs.runtimes[0]))["hosts"] == {}
