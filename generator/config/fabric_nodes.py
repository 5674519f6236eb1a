"""What fabrics say of OpenShift's MachineConfigPools: several may name one, and must then agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from generator.config.draft import Contradiction, Draft
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
            mine = _of(fabric)
            found[mine.pool] = _both(found.get(mine.pool, Machines(mine.pool)), mine)
    return [found[name] for name in sorted(found)]


def _of(fabric: Fabric) -> Machines:
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


def machine_contradictions(draft: Draft) -> Iterator[Contradiction]:
    """Fabrics that want different things of the same nodes."""
    seen: list[tuple[str, Machines]] = []
    for index, fabric in draft.fabrics.items():
        if fabric.nodes.is_of_openshift:
            mine = _of(fabric)
            yield from _apart(("fabrics", index, "nodes"), mine, [each for each in seen if each[1].pool == mine.pool])
            seen.append((fabric.name, mine))


def _apart(
    path: tuple[str | int, ...], mine: Machines, others: Iterable[tuple[str, Machines]]
) -> Iterator[Contradiction]:
    for key, field in (("numa", "numa"), ("reserved", "reservedCpus"), ("isolated", "isolatedCpus")):
        ours = getattr(mine, key)
        name, theirs = next(((name, got) for name, each in others if (got := getattr(each, key))), ("", ours))
        if ours and ours != theirs:
            what = f"{ours}, and `{name}` says {theirs} of the same MachineConfigPool, {mine.pool}"
            yield Contradiction((*path, field), what, "write the same, or name another pool")
