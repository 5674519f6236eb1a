"""Test which ranks can lock the memory that RDMA registers, with real pods that do not run as root."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tests.cluster import trees
from tests.cluster.client import Body, Client, RefusedError, wait_until
from tests.cluster.mpi import openshift
from tests.cluster.mpi.conftest import PLATFORMS, Play, World
from tests.cluster.mpi.gangs import Gang, deploy
from tests.cluster.trees import Deployed

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
LOCK = ("mpirun", "python3", "/opt/smoke/lock.py")
LIMIT = 8 << 20  # bytes, of a container
RANKS = 6


@pytest.fixture(scope="module")
def lockers(admin: Client, on_the_cluster: list[Deployed]) -> Iterator[dict[str, Gang]]:
    """A TrainJob on each runtime of the platform; none of them holds its queue afterwards."""
    trees.remove_all(admin, on_the_cluster)
    on_the_cluster.append(deploy(admin, PLATFORMS / "memlock.yaml"))
    platform = on_the_cluster[-1].platform
    found = {runtime.name: Gang(platform, runtime.name, LOCK, runtime.name) for runtime in platform.runtimes}
    for gang in found.values():
        gang.submit(admin)
    yield found
    for gang in found.values():
        admin.delete(gang.body)
    for gang in found.values():
        wait_until(f"{gang.name} is gone", partial(trees.is_gone, admin, gang.body))


def locked(world: World) -> set[str]:
    """Return the kernel's answers to all ranks, after checks of their user and default limit."""
    assert len(world.ranks) == RANKS
    assert {rank["user"] for rank in world.ranks} == {openshift.USER}
    assert all(rank["limit"] <= LIMIT for rank in world.ranks)
    return {rank["locked"] for rank in world.ranks}


@pytest.mark.parametrize("runtime", ["locking-4", "locking-5"])
def test_ranks_with_the_capability_lock_64_mib_on_all_hosts(play: Play, lockers: dict[str, Gang], runtime: str) -> None:
    world = play(lockers[runtime])
    assert world.code == 0, str(world.outcome)
    assert locked(world) == {"yes"}
    assert len({rank["host"] for rank in world.ranks}) == world.gang.hosts
    numbers = [str(number) if world.gang.declared.family.rank_variables else None for number in range(RANKS)]
    assert [rank["number"] for rank in world.ranks] == numbers


def test_ranks_without_the_capability_lock_only_the_default_limit(play: Play, lockers: dict[str, Gang]) -> None:
    world = play(lockers["unasked"])
    assert world.code == 0, str(world.outcome)
    assert locked(world) == {"Cannot allocate memory"}


def test_an_unprepared_image_fails_at_once_with_a_message(play: Play, lockers: dict[str, Gang]) -> None:
    world = play(lockers["unprepared"])
    assert world.code not in {0, None}
    assert "setpriv: apply capabilities: Operation not permitted" in str(world.outcome)


def test_a_capability_without_escalation_does_not_apply_to_other_users_than_root(
    play: Play, lockers: dict[str, Gang]
) -> None:
    """The SCC allows privilege escalation because file capabilities do not apply without it."""
    world = play(lockers["locking-5"], without_escalation)
    assert world.code not in {0, None}
    assert "setpriv: apply capabilities: Operation not permitted" in str(world.outcome)


def without_escalation(pod: Body) -> Body:
    for container in pod["spec"]["containers"]:
        assert container["securityContext"]["capabilities"]["add"] == ["IPC_LOCK", "NET_BIND_SERVICE"]
        container["securityContext"]["allowPrivilegeEscalation"] = False
    return pod


def test_the_memlock_namespace_allows_no_other_privileges(lockers: dict[str, Gang], admin: Client) -> None:
    """Pod Security is off in the namespace, so an admission policy replaces it for every author of pods."""
    [pod, *_], _ = lockers["locking-5"].waves(admin)
    copy: Body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x", "namespace": lockers["locking-5"].namespace},
    }
    spec = {key: pod["spec"][key] for key in ("containers", "securityContext", "serviceAccountName", "volumes")}
    admin.create({**copy, "spec": spec}, dry_run=True)
    with pytest.raises(RefusedError, match=r"mpi-memlock-memlock.*remove hostNetwork"):
        admin.create({**copy, "spec": {**spec, "hostPID": True}}, dry_run=True)
