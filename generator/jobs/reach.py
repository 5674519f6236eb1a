"""The largest job of a team on a runtime, and the default runtime and team of a new job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from generator.documents.messages import format_names, format_value
from generator.errors import MpigenError, Problem, suggest
from generator.jobs.catalogue import KINDS, Catalogue, OfferedRuntime, Team
from generator.upstream.kueue.job_limits import NO_LIMIT, Largest
from generator.upstream.kueue.largest import largest_jobs
from generator.upstream.kueue.queues import QueueTree, read_queue_tree


@dataclass(frozen=True, slots=True)
class Reach:
    """The largest job of a team on a runtime, in hosts (pods that run ranks). An unknown number is None.

    Attributes:
        owned: hosts without preemption, whatever the other queues use.
        reclaimable: hosts with the preemption that the queue allows, whatever the other queues use.
        idle: hosts while all other queues are idle.
        reason: why `idle` is not larger, such as `4 nodes take 56 cpu of flavor cpu, and team-sim never gets more`.
        unknown: why `reclaimable` is unknown, or both `owned` and `reclaimable`.
    """

    owned: int | None
    reclaimable: int | None
    idle: int | None
    reason: str
    unknown: str = ""

    def can_have(self, hosts: int) -> bool:
        """Return True if Kueue can admit a job with this number of hosts, or if that is unknown."""
        return self.idle is None or hosts <= self.idle


_NOWHERE = Reach(0, 0, 0, "it has no queue")


def reach(
    catalogue: Catalogue, team: Team, runtime: OfferedRuntime, resources: Mapping[str, str] | None = None
) -> Reach:
    """Return the sizes of a team's largest job on a runtime, with other amounts of some resources in each pod."""
    return reaches(catalogue, [team], runtime, resources)[team.name]


def reaches(
    catalogue: Catalogue, teams: Sequence[Team], runtime: OfferedRuntime, resources: Mapping[str, str] | None = None
) -> dict[str, Reach]:
    """Return team → the sizes of its largest job on a runtime. The queues are computed once for all teams."""
    objects = catalogue.seen_from([team.home.name for team in teams], runtime)
    if resources:
        objects = [replace(item, body=runtime.resized(resources)) if item.kind in KINDS else item for item in objects]
    tree = read_queue_tree(objects, catalogue.targets.get("kueue", ""))
    largest = {size.namespace: size for size in largest_jobs(tree, objects)}
    nodes = catalogue.nodes_of(runtime.contract.pool) if runtime.contract else 0
    return {
        team.name: _reach(largest[team.home.name], nodes)
        if team.home.name in largest
        else _without_queue(catalogue, tree, team.home.name)
        for team in teams
    }


def _without_queue(catalogue: Catalogue, tree: QueueTree, namespace: str) -> Reach:
    """Return the sizes of a job in a namespace without a ClusterQueue: unknown if only the files lack the queue."""
    names = {queue.queue for queue in tree.local_queues if queue.namespace == namespace}
    if catalogue.is_complete or not names:
        return _NOWHERE
    return Reach(None, None, None, f"no file has ClusterQueue {format_names(sorted(names))}")


def _reach(largest: Largest, nodes: int) -> Reach:
    """Convert the result of the queue model. A size without a limit becomes the number of nodes in the pool."""
    most = nodes or NO_LIMIT
    sizes = (largest.owned, largest.reclaimable, largest.idle)
    owned, reclaimable, idle = (most if size == NO_LIMIT else size for size in sizes)
    return Reach(owned, reclaimable, idle, largest.reason, largest.unknown)


class JobError(MpigenError):
    """The requested job would not run on this cluster, or the cluster has no or several defaults for the request."""


def runtime_for(catalogue: Catalogue, name: str, fabric: str) -> OfferedRuntime:
    """Return the runtime with a name; if the name is empty, the only runtime on the fabric.

    Raises:
        JobError: no fabric or no runtime has this name, or ranks of the runtime do not use the fabric. Without the name
            of a runtime: no runtime, or several, have ranks that use the fabric.
    """
    able = _runtimes_on(catalogue, fabric) if fabric else [*catalogue.runtimes.values()]
    if not name:
        return _only_runtime_on(able, fabric)
    if name not in catalogue.runtimes:
        known = catalogue.runtimes
        fix = suggest(name, known) if known else "name the files or the platform file with the runtimes in --release"
        raise JobError((Problem(f"the cluster has no runtime {format_value(name)}", fix, path="--runtime"),))
    runtime = catalogue.runtimes[name]
    if runtime not in able:
        fix = f"name one of: {', '.join(other.name for other in able)}"
        raise JobError((Problem(f"ranks of runtime `{name}` do not use the fabric `{fabric}`", fix, path="--runtime"),))
    return runtime


def _runtimes_on(catalogue: Catalogue, fabric: str) -> list[OfferedRuntime]:
    """Return the runtimes whose ranks use a fabric.

    Raises:
        JobError: no runtime uses such a fabric.
    """
    users: dict[str, list[OfferedRuntime]] = {}
    for runtime in catalogue.runtimes.values():
        if runtime.contract and runtime.contract.fabric:
            users.setdefault(runtime.contract.fabric.name, []).append(runtime)
    if fabric not in users:
        fix = suggest(fabric, users) if users else "declare a runtime on a pool with this fabric"
        raise JobError((Problem(f"no runtime uses the fabric {format_value(fabric)}", fix, path="--fabric"),))
    return users[fabric]


def _only_runtime_on(able: Sequence[OfferedRuntime], fabric: str) -> OfferedRuntime:
    if len(able) > 1:
        fix = f"name one of: {', '.join(runtime.name for runtime in able)}"
        raise JobError((Problem(f"several runtimes are on the fabric `{fabric}`", fix, path="--runtime"),))
    return able[0]


def team_for(catalogue: Catalogue, runtime: OfferedRuntime, name: str, namespace: str) -> Team:
    """Return the team with a name, else the team of a namespace, else the only team that can run a job on the runtime.

    Raises:
        JobError: there is no such team, or the runtime is not for this team. Without a name: no team, or several,
            can use the runtime.
    """
    teams = catalogue.teams
    if not name and namespace:
        name = next((team.name for team in teams.values() if namespace in {home.name for home in team.homes}), "")
    if name and name not in teams:
        raise JobError(
            (Problem(f"the cluster has no tenant {format_value(name)}", suggest(name, teams), path="--tenant"),)
        )
    if name and not offers(teams[name], runtime):
        message = f"runtime `{runtime.name}` is not available to `{name}`"
        raise JobError((Problem(message, others_for(catalogue, teams[name]), path="--runtime"),))
    if name:
        return teams[name]
    asking = [team for team in teams.values() if offers(team, runtime)]
    far = reaches(catalogue, asking, runtime)
    able = [team for team in asking if far[team.name].can_have(fewest_hosts(runtime))]
    if not able:
        reasons = {far[team.name].reason for team in asking} - {_NOWHERE.reason}
        pool = f" in pool `{runtime.contract.pool}`" if runtime.contract else ""
        fix = "pass --tenant to see the reason" if reasons else f"ask your platform admins for quota{pool}"
        raise JobError((Problem(f"no tenant can use a host of runtime `{runtime.name}`", fix, path="--runtime"),))
    if len(able) > 1:
        fix = f"name one of: {', '.join(team.name for team in able)}"
        raise JobError((Problem(f"several tenants can use runtime `{runtime.name}`", fix, path="--tenant"),))
    return able[0]


def offers(team: Team, runtime: OfferedRuntime) -> bool:
    """Return True if jobs in a namespace of the team may use a runtime."""
    return any(home.offers(runtime) for home in team.homes)


def fewest_hosts(runtime: OfferedRuntime) -> int:
    """Return the fewest hosts of a job on a runtime.

    These are 2 if the launcher runs ranks, because Trainer adds at least one worker pod, and otherwise 1.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go MPI.EnforceMLPolicy
    """
    return 1 if runtime.has_separate_launcher else 2


def others_for(catalogue: Catalogue, team: Team) -> str:
    """Return the fix for a runtime that a team cannot use: the usable runtimes, or the advice to ask for one."""
    able = [runtime for runtime in catalogue.runtimes.values() if offers(team, runtime)]
    usable = [runtime.name for runtime in able if reach(catalogue, team, runtime).can_have(fewest_hosts(runtime))]
    if not usable:
        return f"ask your platform admins for quota or a runtime: `{team.name}` can use no runtime"
    return f"choose a runtime that `{team.name}` can use: {', '.join(usable)}"
