"""Test that platforms are equal for any order and spelling of their files."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from generator import Fabric, Platform, Pool
from generator.config.load import load_platform
from generator.config.model.policies import Allowances
from generator.config.platform import platform_schema
from generator.documents.emit import Emitter
from generator.errors import ConfigError
from tests.conftest import EXAMPLES, small_platform

Change = Callable[[dict[str, Any]], object]


def rich_platform() -> dict[str, Any]:
    """Return the small platform with several entries in every list."""
    data = small_platform()
    data["pools"][0]["labels"] |= {"example.com/rack": "7", "a": "b"}
    data["pools"][0]["taints"] += [{"key": "nvidia.com/gpu", "effect": "NoExecute"}, {"key": "a", "value": "b"}]
    data["pools"][0]["allocatable"] |= {"rdma/hca_a": 8, "ephemeral-storage": "1Ti"}
    data["runtimes"][0]["resources"] = {"memory": "512Gi", "cpu": 90, "rdma/hca_a": 8, "nvidia.com/gpu": 8}
    data["tenants"][0]["quota"]["gpu"] = {"nvidia.com/gpu": 8, "cpu": 12, "memory": "64Gi"}
    data["tenants"][0]["access"] = {"admin": ["user:b", "user:a"], "edit": ["group:b", "group:a"], "view": ["user:c"]}
    data["tenants"][0]["egress"].append({"name": "git", "cidr": "10.9.0.0/24", "ports": [443, 22]})
    return data


def written(platform: Platform) -> str:
    """Return everything in the platform, in the order of the builders."""
    return json.dumps(platform.model_dump(mode="json", by_alias=True))


def shuffled(value: Any, random: Random) -> Any:
    """Return the data with every list and mapping in another order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key], random) for key in random.sample(list(value), len(value))}
    if isinstance(value, list):
        return [shuffled(item, random) for item in random.sample(value, len(value))]
    return value


@settings(deadline=None, max_examples=50)
@given(st.randoms(use_true_random=False))
def test_the_order_of_entries_does_not_change_a_platform(random: Random) -> None:
    straight = Platform.model_validate(rich_platform())
    mixed = Platform.model_validate(shuffled(rich_platform(), random))
    assert mixed == straight
    assert mixed.digest() == straight.digest()
    assert written(mixed) == written(straight)


@pytest.mark.parametrize("by_alias", [True, False])
@pytest.mark.parametrize("mode", ["python", "json"])
def test_a_dumped_platform_loads_as_an_equal_platform(by_alias: bool, mode: str) -> None:
    platform = Platform.model_validate(rich_platform())
    again = Platform.model_validate(platform.model_dump(mode=mode, by_alias=by_alias))
    assert again == platform
    assert written(again) == written(platform)


def test_a_file_is_read_as_the_same_data_given_in_python(tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(Emitter().emit([rich_platform()]), "utf-8")
    assert load_platform(file) == Platform.model_validate(rich_platform())


SPELLINGS: dict[str, Change] = {
    "cpu in millis": lambda data: data["pools"][0]["allocatable"].update(cpu="96000m"),
    "memory in other units": lambda data: data["pools"][0]["allocatable"].update(memory="1024Gi"),
    "memory in bytes": lambda data: data["pools"][0]["allocatable"].update(memory="1048576Mi"),
    "a fraction for millis": lambda data: data["pools"][1]["allocatable"].update(cpu=63.5),
    "a resource that the node does not have": lambda data: data["pools"][1]["allocatable"].update(
        {"hugepages-2Mi": "0"}
    ),
    "a subject twice": lambda data: data["tenants"][0]["access"]["admin"].append("user:ada"),
    "a port twice": lambda data: data["tenants"][0]["egress"][0]["ports"].append(443),
    "a default written out": lambda data: data["tenants"][1].update(weight=1, borrow={}),
    "the default of a section": lambda data: data.update(policies={"podSecurity": "restricted"}, cluster={}),
    "a netmask for a prefix": lambda data: data["tenants"][0]["egress"][0].update(cidr="10.20.0.0/255.255.0.0"),
    "a slash at the end": lambda data: data["gitops"].update(path="output/"),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_another_spelling_is_the_same_platform(spelling: str) -> None:
    data = small_platform()
    SPELLINGS[spelling](data)
    respelt, straight = Platform.model_validate(data), Platform.model_validate(small_platform())
    assert written(respelt) == written(straight)
    assert respelt.digest() == straight.digest()


CHANGES: dict[str, Change] = {
    "the name": lambda data: data.update(platform="other"),
    "the distribution": lambda data: data.update(cluster={"distribution": "openshift"}),
    "a pool": lambda data: data["pools"][1].update(nodes=20),
    "a node": lambda data: data["pools"][0]["allocatable"].update(cpu=97),
    "a label": lambda data: data["pools"][0]["labels"].update({"example.com/pool": "other"}),
    "a taint": lambda data: data["pools"][0]["taints"][0].update(effect="NoExecute"),
    "a runtime's image": lambda data: data["runtimes"][0].update(image="quay.io/acme/openmpi:2"),
    "a runtime less": lambda data: data["runtimes"].pop(),
    "a quota": lambda data: data["tenants"][0]["quota"].update(gpu=1),
    "a limit": lambda data: data["tenants"][0]["borrow"].update(gpu=2),
    "fair sharing": lambda data: data.update(queues={"fairSharing": True}),
    "a group": lambda data: data["tenants"][1].update(cohort="other"),
    "a member": lambda data: data["tenants"][0]["access"]["view"].append("group:guests"),
    "a network": lambda data: data["tenants"][0]["egress"][0].update(cidr="10.21.0.0/16"),
    "a policy": lambda data: data.update(policies={"podSecurity": "baseline"}),
    "the repository": lambda data: data["gitops"].update(revision="stable"),
    "no engine": lambda data: data.pop("gitops"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_except_the_release_changes_the_digest(change: str) -> None:
    data = small_platform()
    CHANGES[change](data)
    assert Platform.model_validate(data).digest() != Platform.model_validate(small_platform()).digest()


def test_the_release_number_is_not_in_the_digest() -> None:
    straight = Platform.model_validate(small_platform())
    raised = Platform.model_validate({**small_platform(), "release": "1.0.1-rc.1"})
    assert raised != straight
    assert raised.digest() == straight.digest()


def test_a_platform_cannot_be_changed() -> None:
    platform = Platform.model_validate(small_platform())
    with pytest.raises(ValidationError, match="frozen"):
        platform.release = "2.0.0"  # type: ignore[misc]


def mappings_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every mapping of a section, at any depth."""
    if isinstance(value, dict):
        yield value
    nested = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    fields = (getattr(value, name) for name in type(value).model_fields) if isinstance(value, BaseModel) else ()
    for inner in (*nested, *fields):
        yield from mappings_in(inner)


@pytest.mark.parametrize("example", [name for name, file in EXAMPLES.items() if file.suffix == ".yaml"])
def test_no_mapping_of_a_platform_can_be_changed(example: str) -> None:
    mappings = list(mappings_in(load_platform(EXAMPLES[example])))
    assert len(mappings) > 10
    for mapping in mappings:
        for change in (mapping.clear, mapping.popitem):
            with pytest.raises(TypeError, match="cannot be changed"):
                change()
        for change_of_a_key in (mapping.pop, mapping.setdefault, mapping.__delitem__):
            with pytest.raises(TypeError, match="cannot be changed"):
                change_of_a_key("cpu")
        for update in (mapping.update, mapping.__ior__):
            with pytest.raises(TypeError, match="cannot be changed"):
                update({"cpu": 1})
        with pytest.raises(TypeError, match="cannot be changed"):
            mapping["cpu"] = 1


def test_a_copy_of_a_platform_is_equal_and_frozen_too() -> None:
    platform = load_platform(EXAMPLES["openshift-h100"])
    for twin in (copy.deepcopy(platform), pickle.loads(pickle.dumps(platform))):
        assert twin == platform
        with pytest.raises(TypeError, match="cannot be changed"):
            twin.pools[0].allocatable.clear()


def test_a_pool_gets_its_fabric_in_a_copy() -> None:
    pool = Pool(name="gpu", nodes=1, allocatable={"cpu": 1, "memory": "1Gi"}, fabric="ib")
    fabric = Fabric(name="ib", type="efa")
    wired = pool.wired([fabric])
    assert (pool.wiring, wired.wiring) == (None, fabric)
    assert wired.offered.keys() - pool.offered.keys() == {"vpc.amazonaws.com/efa"}


def test_yaml_uses_camel_case_and_python_snake_case(tmp_path: Path) -> None:
    data = small_platform()
    data["runtimes"][0]["processes_per_node"] = 4
    assert Platform.model_validate(data).runtimes[1].processes_per_node == 4
    file = tmp_path / "platform.yaml"
    file.write_text(Emitter().emit([data]), "utf-8")
    with pytest.raises(ConfigError, match="did you mean `processesPerNode`"):
        load_platform(file)


def test_every_property_of_the_schema_has_a_description() -> None:
    schema = json.loads(platform_schema())
    models = {"Platform": schema, **schema["$defs"]}
    assert [
        f"{model}.{name}"
        for model, definition in models.items()
        if not model.endswith(".difference")  # the fields of the same model without it
        for name, field in definition.get("properties", {}).items()
        if not field.get("description", "").strip()
    ] == []


@pytest.mark.parametrize("name", ["gracePeriod", "grace_period"])
def test_a_field_of_an_earlier_release_has_its_own_message(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Allowances.model_validate({name: "5m"})
    (problem,) = caught.value.problems
    assert problem.message.startswith("`gracePeriod` was removed, because a TrainJob with its own grace period holds")
    assert problem.fix == "remove this field, and set `terminationGracePeriodSeconds` of the runtime"
