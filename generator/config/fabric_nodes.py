"""What fabrics say of OpenShift's MachineConfigPools: several may name one, and must then agree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from generator.config.fabrics import Fabric

_WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Machines:
    """What is done to the nodes of one MachineConfigPool.

    Attributes:
        pool: its name.
        memlock: whether containers may lock memory.
        numa: the policy of the kubelet's topology manager; empty for the default.
        reserved: cores of the system; empty where nobody says which.
        isolated: those of pods.
    """

    pool: str
    memlock: bool = False
    numa: str = ""
    reserved: str = ""
    isolated: str = ""


def machines(fabrics: Iterable[Fabric]) -> list[Machines]:
    """Every pool that any fabric says something of, by name."""
    found: dict[str, Machines] = {}
    for fabric in fabrics:
        if fabric.nodes.is_of_openshift:
            mine = machines_of(fabric)
            found[mine.pool] = _both(found.get(mine.pool, Machines(mine.pool)), mine)
    return [found[name] for name in sorted(found)]


def machines_of(fabric: Fabric) -> Machines:
    """Return what a fabric sets on the MachineConfigPool of its nodes."""
    setup = fabric.nodes
    return Machines(
        setup.machine_config_pool or _WORKER,
        memlock=setup.memlock,
        numa=setup.numa or "",
        reserved=setup.reserved_cpus or "",
        isolated=setup.isolated_cpus or "",
    )


def _both(one: Machines, other: Machines) -> Machines:
    return replace(
        one,
        memlock=one.memlock or other.memlock,
        numa=one.numa or other.numa,
        reserved=one.reserved or other.reserved,
        isolated=one.isolated or other.isolated,
    )
