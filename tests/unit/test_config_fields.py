"""The values that each kind of field accepts and rejects, and valid references between sections."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address, ip_network
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, TypeAdapter, ValidationError

from generator import Platform, quantities
from generator.config.model.access import Subject
from generator.config.model.cluster import Cluster, GitOps
from generator.config.model.fields import Count, LabelKey, LabelValue, Name, Quantity, Resource, to_quantity
from generator.config.model.isolation import Address, Egress, Network
from generator.config.model.pools import Pool
from generator.config.model.tenants import Tenant
from generator.errors import ConfigError
from tests.conftest import small_platform

Change = Callable[[dict[str, Any]], object]


def field(model: Any, name: str) -> Any:
    """Return the type of one field of a section, with all its rules."""
    info = model.model_fields[name]
    return Annotated[info.annotation, *info.metadata]


def only(model: Any, field_name: str, **others: Any) -> Any:
    """Return a section with valid values for all but one field."""
    return Annotated[
        Any, AfterValidator(lambda value: getattr(model.model_validate({field_name: value, **others}), field_name))
    ]


RELEASE = field(Platform, "release")
REPOSITORY = field(GitOps, "repository")
FOLDER = field(GitOps, "path")
CIDR = Network
PORT = only(Egress, "ports", name="a", cidr="10.0.0.0/8")
TENANT = only(Tenant, "name", quota={"cpu": 1})
QUOTA = only(Tenant, "quota", name="a")
NODE = only(Pool, "allocatable", name="a", nodes=1)
LABELS = only(Pool, "labels", name="a", nodes=1, allocatable={"cpu": 1, "memory": "1Gi"})
TAINTS = only(Pool, "taints", name="a", nodes=1, allocatable={"cpu": 1, "memory": "1Gi"})

TAKEN: dict[str, tuple[Any, list[Any]]] = {
    "a name": (Name, ["a", "h100", "team-a", "0", "a" * 63]),
    "a count": (Count, [1, 2**31 - 1]),
    "a resource": (
        Resource,
        [
            *("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"),
            *("rdma/hca_shared_devices_a", "openshift.io/ib_vf", "vpc.amazonaws.com/efa", "gpu.intel.com/i915"),
        ],
    ),
    "a label key": (LabelKey, ["a", "A_b.c-d", "example.com/pool", "node-role.kubernetes.io/worker", "a" * 63]),
    "a label value": (LabelValue, ["", "a", "NVIDIA-H100-80GB-HBM3", "7", "a" * 63]),
    "a quantity": (Quantity, [0, 64, 0.5, "500m", "256Gi", "1e3", 10**18]),
    "a release": (RELEASE, ["0.0.0", "1.0.0", "10.20.30", "1.0.0-rc.1", "1.0.0-0.a-b"]),
    "a repository": (
        REPOSITORY,
        ["https://a/b.git", "ssh://git@a:22/b", "git@git.example.com:a/b.git", "file:///srv/git"],
    ),
    "a folder": (FOLDER, ["output", "clusters/prod", "a/b/c/"]),
    "a subject": (
        Subject,
        ["group:a", "user:a@example.com", "group:cn=ml leads,ou=groups", "user:system:admin", "serviceaccount:a/b.c"],
    ),
    "a network": (CIDR, ["10.20.0.0/16", "10.0.0.1/32", "0.0.0.0/0", "fd00::/8", ip_network("10.0.0.0/8")]),
    "an address": (Address, ["192.168.0.1", "169.254.20.10", "fd00::1", "::", ip_address("fd00::1")]),
    "ports": (PORT, [[1], [65535], [443, 80]]),
    "a tenant": (TENANT, ["team-a", "openshifters", "defaults", "kube"]),
    "a quota": (
        QUOTA,
        [{"cpu": 0}, {"cpu": "1"}, {"gpu": {"nvidia.com/gpu": 1}}, {"memory": "1Ti"}, {"memory": 2**40}],
    ),
    "a node": (
        NODE,
        [{"cpu": 1, "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 0, "amd.com/gpu": 8}],
    ),
    "labels": (LABELS, [{}, {str(n): "a" for n in range(8)}]),
    "taints": (TAINTS, [[], [{"key": "a"}, {"key": "a", "effect": "NoExecute"}], [{"key": str(n)} for n in range(8)]]),
}
REFUSED: dict[str, list[Any]] = {
    "a name": ["", "A", "-a", "a-", "a.b", "a b", "ä", "a\n", "a" * 64, 1, None, True],
    "a count": [0, -1, 2**31, 1.0, "1", True, None],
    "a resource": [
        "",
        "gpu",
        "CPU",
        "nvidia.com/",
        "/gpu",
        "a/b/c",
        "nvidia.com/-gpu",
        "hugepages-2M",
        "nvidia.com/g pu",
    ],
    "a label key": ["", "a b", "/a", "a/", "A.com/b", "a/b/c", "-a", "a" * 64, "ä"],
    "a label value": ["a b", "-a", "a.", "a/b", "a" * 64, "a\n", 7, True, None],
    "a quantity": ["", "many", "1 Gi", "256GiB", -1, "-1", True, None, [], {}, 10**19, "1e99", "9" * 5000],
    "a release": [
        "",
        "1",
        "1.0",
        "v1.0.0",
        "01.0.0",
        "1.0.0-",
        "1.0.0-a..b",
        "1.0.0+b",
        "1.0.0\n",
        "\u0661.0.0",
        1,
        1.0,
        True,
    ],
    "a repository": ["", "git.example.com/a", "/srv/git", "https://", "https://a b", "ftp://a/b", 1],
    "a folder": ["", "/", "/output", "..", "a/../b", "./a", "a//b"],
    "a subject": [
        "",
        "a",
        "group:",
        "group: a",
        "role:a",
        "serviceaccount:a",
        "serviceaccount:A/b",
        "serviceaccount:a/B",
    ],
    "a network": [
        *("", "10.20.0.1/16", "10.20.0.0/33", "s3.example.com", "10.0.0.0/8 ", "::1/64", "fe80::%eth0/64"),
        *(10, ip_network("::ffff:a00:0/104")),
    ],
    "an address": ["", "10.0.0.0/8", "10.0.0.256", "dns", "10.0.0.1 ", "fe80::1%eth0", "::ffff:a00:1", 10, b"1234"],
    "ports": [[], [0], [65536], [-1], ["443"], [443.0], [True], 443, "443"],
    "a tenant": ["default", "kube-system", "kube-public", "openshift", "openshift-mpi"],
    "a quota": [{}, {"cpu": -1}, {"cpu": True}, {"cpu": None}, {"cpu": {}}, {"cpu": {"gpu": 1}}, {"cpu": 2**64}, 1, []],
    "a node": [
        {},
        {"cpu": 1},
        {"memory": "1Gi"},
        {"cpu": 0, "memory": "1Gi"},
        {"cpu": 1, "memory": "1Gi", "nvidia.com/gpu": 1, "amd.com/gpu": 1},
    ],
    "labels": [{str(n): "a" for n in range(9)}, {"a": 1}, {1: "a"}, []],
    "taints": [
        [{"key": "a"}, {"key": "a", "value": "b"}],
        [{"key": str(n)} for n in range(9)],
        [{}],
        [{"key": "a", "effect": "Never"}],
    ],
}


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, (_, values) in TAKEN.items() for value in values])
def test_a_valid_value_is_accepted(kind: str, value: Any) -> None:
    TypeAdapter(TAKEN[kind][0]).validate_python(value)


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in REFUSED.items() for value in values])
def test_an_invalid_value_is_rejected(kind: str, value: Any) -> None:
    with pytest.raises((ValidationError, ConfigError)):
        TypeAdapter(TAKEN[kind][0]).validate_python(value)


def test_resources_of_amount_zero_are_removed_and_the_others_sorted() -> None:
    pool = Pool(
        name="a", nodes=1, allocatable={"nvidia.com/gpu": "8", "a.b/c": "0", "memory": "2048Gi", "cpu": "1000m"}
    )
    assert list(pool.allocatable.items()) == [
        ("cpu", quantities.parse("1")),
        ("memory", quantities.parse("2Ti")),
        ("nvidia.com/gpu", quantities.parse("8")),
    ]


@pytest.mark.parametrize(("one", "other"), [(64, "64"), ("1000m", 1), ("0.5Ki", "512"), ("1024Gi", "1Ti"), ("0Gi", 0)])
def test_amounts_that_are_written_alike_are_equal(one: object, other: object) -> None:
    assert to_quantity(one) == to_quantity(other) == to_quantity(to_quantity(one))


def test_a_pool_has_amounts_and_its_dump_has_strings() -> None:
    pool = Pool(name="a", nodes=1, allocatable={"memory": "2048Gi", "cpu": 1})
    assert all(isinstance(amount, quantities.Quantity) for amount in pool.allocatable.values())
    assert pool.model_dump()["allocatable"] == {"cpu": "1", "memory": "2Ti"}


def test_networks_are_sorted_and_the_dump_has_strings() -> None:
    texts = ["fd00::/8", "9.0.0.0/8", "10.0.0.0/8", "FD00::/8"]
    cluster = Cluster(networks=texts)
    assert cluster.networks == (ip_network("10.0.0.0/8"), ip_network("9.0.0.0/8"), ip_network("fd00::/8"))
    assert cluster.model_dump(mode="json")["networks"] == ["10.0.0.0/8", "9.0.0.0/8", "fd00::/8"]
    assert Cluster.model_validate(cluster.model_dump()) == Cluster(networks=cluster.networks) == cluster


def test_a_pool_with_an_accelerator_has_it_after_cpu_and_memory() -> None:
    pool = Pool(name="a", nodes=1, allocatable={"nvidia.com/gpu": "8", "memory": "2048Gi", "cpu": 1})
    assert pool.accelerator == "nvidia.com/gpu"


SOUND: dict[str, Change] = {
    "all nodes of a pool": lambda data: data["tenants"][0]["quota"].update(gpu=2, cpu=10),
    "all of a resource": lambda data: data["tenants"][0].update(quota={"cpu": {"memory": "2500Gi"}}),
    "borrowing all there is": lambda data: data["tenants"][0].update(borrow={"gpu": 4, "cpu": {"cpu": 635}}),
    "a whole node for a runtime": lambda data: data["runtimes"][1].update(
        resources={"cpu": "63500m", "memory": "250Gi"}
    ),
    "pools that only their taints keep apart": lambda data: (
        data["pools"][0].pop("labels"),
        data["pools"][1].update(taints=[{"key": "cpu"}]),
    ),
    "one name in two sections": lambda data: data["runtimes"][0].update(name="team-a"),
    "two tenants in one group": lambda data: data["tenants"][0].update(cohort="research"),
}


@pytest.mark.parametrize("change", SOUND)
def test_a_value_at_its_limit_is_accepted(change: str) -> None:
    data = small_platform()
    SOUND[change](data)
    Platform.model_validate(data)


CONTRADICTIONS: dict[str, tuple[Change, str]] = {
    "a node too many": (
        lambda data: data["tenants"][1].update(quota={"gpu": 3}),
        "need 5 nodes of pool `gpu`, which has 4",
    ),
    "a core too many": (
        lambda data: data["tenants"][0].update(quota={"cpu": {"cpu": "635001m"}}),
        "`635001m` is more than the 635 cpu that pool `cpu` offers to jobs",
    ),
    "a device too many": (
        lambda data: data["tenants"][1].update(quota={"nvidia.com/gpu": 17}),
        "need 33 nvidia.com/gpu of pool `gpu`, which has 32",
    ),
    "a byte too many": (
        lambda data: data["runtimes"][1].update(resources={"memory": str(250 * 2**30 + 1)}),
        "`268435456001` is more than the 250Gi that a node of pool `cpu` offers to jobs",
    ),
    "pools without a difference": (
        lambda data: data["pools"][0].update(labels={}, taints=[]),
        "jobs for pool `cpu` can also run on nodes of pool `gpu`",
    ),
    "a name twice": (
        lambda data: data["tenants"][1].update(name="team-a"),
        "two entries of `tenants` are named `team-a`",
    ),
    "a share twice": (
        lambda data: data["tenants"][0]["quota"].update({"nvidia.com/gpu": 1}),
        "`nvidia.com/gpu` and `gpu` are both amounts of pool `gpu`",
    ),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_a_contradiction_is_rejected_in_python_too(case: str) -> None:
    change, said = CONTRADICTIONS[case]
    data = small_platform()
    change(data)
    with pytest.raises(ConfigError) as caught:
        Platform.model_validate(data)
    assert said in str(caught.value)
