"""`mpigen runtimes`, `mpigen fabrics` and `mpigen queues`: the runtimes and queues of a cluster, and its fabrics.

Without a cluster, the first command lists the MPI families; without a platform, the second lists the server types.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from generator.cli.inputs import (
    environment_option,
    kustomize_option,
    no_python_option,
    read_offer,
    release_option,
    target_option,
)
from generator.cli.listing import Listing
from generator.cli.output import format_option, progress, show, table_width
from generator.errors import ConfigError, Problem
from generator.report import table

if TYPE_CHECKING:
    from generator.jobs.catalogue import Catalogue, Team

_FAMILIES = ("NAME", "MPI", "DEVICES", "LAUNCHER", "DEFAULT IMAGE", "DESCRIPTION")
_DECLARED = (
    "NAME",
    "FAMILY",
    "POOL",
    "DEVICE",
    "NUMNODES",
    "RANKS",
    "EACH POD REQUESTS",
    "LAUNCHER",
    "TENANTS",
    "NOTE",
)
_DEVICES = ("DEVICE", "RESOURCE", "LIKE", "AT MOST", "DESCRIPTION")
_SERVERS = ("SERVER", "ACCELERATORS", "TYPE", "NICS", "GBIT/S EACH", "ATTACHED BY", "DESCRIPTION")
_OF_DEVICE = ("name", "resource", "like", "most", "title")
_file = click.Path(path_type=Path)


@click.group(
    cls=Listing,
    epilog="""
    \b
    Example:
      mpigen runtimes
      mpigen runtimes --release output/prod
      mpigen runtimes show deepspeed
    """,
)
def runtimes() -> None:
    """List or show runtimes and their families.

    A family is an MPI implementation or a framework that mpigen supports. A runtime is a
    TrainingRuntime or ClusterTrainingRuntime of a cluster, with MPI.

    `mpigen runtimes` lists all families, and `mpigen runtimes --release PATH` the runtimes of a cluster.
    """


@runtimes.command("list", epilog="Example: mpigen runtimes list --release platform.yaml")
@release_option(is_required=False)
@kustomize_option
@environment_option
@no_python_option
@format_option
def list_runtimes(*, release: tuple[Path, ...], renders: bool, form: str) -> None:
    """List all families, or with --release the runtimes of a cluster.

    If --release is a platform file, also list the families and devices that it declares.
    """
    from generator.facts.families import FAMILIES
    from generator.jobs import contract

    if not release:
        families = [contract.family_facts(family) for family in FAMILIES.values()]
        rows = [_family_row(family) for family in families]
        show(form, {"families": families}, table.table(_FAMILIES, rows, table_width()))
        return
    with progress("computing"):
        offer = read_offer(release, renders=renders)
        catalogue, declaration = offer.catalogue, offer.platform
        facts = [contract.runtime_facts(catalogue, runtime) for runtime in catalogue.runtimes.values()]
    own = [contract.family_facts(entry.family) for entry in declaration.families] if declaration else []
    devices = [contract.device_facts(entry) for entry in declaration.devices] if declaration else []
    summary = {"runtimes": facts, "families": own, "devices": devices}
    lines = [*table.table(_DECLARED, [_runtime_row(runtime) for runtime in facts], table_width())]
    if own:
        lines += ["", *table.table(_FAMILIES, [_family_row(family) for family in own], table_width())]
    if devices:
        rows = [tuple(str(device[key] or "") for key in _OF_DEVICE) for device in devices]
        lines += ["", *table.table(_DEVICES, rows, table_width())]
    show(form, summary, lines)


def _family_row(facts: dict[str, Any]) -> tuple[str, ...]:
    devices = facts["defaultImageDevices"]
    default = "on all" if devices == facts["devices"] else f"on {', '.join(devices)}" if devices else ""
    return facts["name"], facts["mpi"], ", ".join(facts["devices"]), facts["launcher"], default, facts["title"]


def _runtime_row(facts: dict[str, Any]) -> tuple[str, ...]:
    from generator.jobs.contract import in_words

    return (
        *(str(facts[key]) for key in ("name", "family", "pool", "device", "nodes", "ranksPerNode")),
        in_words(facts["resources"]),
        facts["launcher"],
        ", ".join(facts["tenants"]) or "all",
        "deprecated" if facts["deprecated"] else "",
    )


@runtimes.command("show", epilog="Example: mpigen runtimes show openmpi-h100 --release platform.yaml")
@click.argument("name")
@release_option(is_required=False)
@kustomize_option
@environment_option
@no_python_option
@format_option
def show_runtime(name: str, *, release: tuple[Path, ...], renders: bool, form: str) -> None:
    """Show what the family NAME offers to programs, and what it requires of images.

    With --release, NAME can also be a runtime of the cluster, or a family that the platform file
    declares. For a runtime, mpigen shows its pods first, and its family below.
    """
    from generator.facts.families import FAMILIES
    from generator.jobs import contract

    offer = read_offer(release, renders=renders) if release else None
    runtimes = offer.catalogue.runtimes if offer else {}
    own = offer.platform.families if offer and offer.platform else ()
    families = {**FAMILIES, **{entry.name: entry.family for entry in own}}
    runtime = runtimes.get(name)
    if runtime is None and name not in families:
        raise ConfigError((_unknown(name, families, runtimes if offer else None),))
    summary: dict[str, Any] = {}
    lines: list[str] = []
    family = families.get(name)
    if offer and runtime:
        summary["runtime"] = contract.runtime_facts(offer.catalogue, runtime)
        lines += table.topics(contract.describe_runtime(offer.catalogue, runtime))
        known = runtime.contract
        family = families.get(known.family, known.known_family) if known else None
    if family:
        summary["family"] = contract.family_facts(family)
        lines += [*([""] if lines else []), *table.topics(contract.describe_family(family))]
    show(form, summary, lines)


def _unknown(name: str, families: Collection[str], runtimes: Collection[str] | None) -> Problem:
    from generator.documents.messages import format_value
    from generator.errors import suggest

    if runtimes is None:
        fix = f"{suggest(name, families)}; to show a runtime of a cluster, add --release with its release"
        return Problem(f"there is no family {format_value(name)}", fix)
    return Problem(f"there is no runtime and no family {format_value(name)}", suggest(name, {*families, *runtimes}))


def _complete_servers(_context: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    from generator.facts.nodes import SERVERS

    return [name for name in SERVERS if name.startswith(begun)]


@click.command(
    epilog="""
    \b
    Example:
      mpigen fabrics
      mpigen fabrics --server p5.48xlarge
      mpigen fabrics platform.yaml
    """
)
@click.argument("platform", type=click.Path(path_type=Path), required=False)
@click.option(
    "--server",
    default="",
    metavar="NAME",
    help="Show this server type, with the sources of its data. PLATFORM adds its own server types.",
    shell_complete=_complete_servers,
)
@environment_option
@no_python_option
@format_option
def fabrics(platform: Path | None, server: str, form: str) -> None:
    """List server types, or with PLATFORM the fabrics and the own server types of the platform.

    A fabric is a network that carries MPI or RDMA traffic beside the pod network. The field
    `fabrics[].server` of platform.yaml names a server type, from which mpigen takes the NICs.

    For each fabric, mpigen shows its attachment to pods, the resources that each pod requests, the
    teams that share it, changes that restart nodes, locked memory, and the variables of ranks.
    """
    if server:
        _show_server(form, server, platform)
    elif platform:
        _show_fabrics(form, platform)
    else:
        _list_servers(form)


def _show_server(form: str, name: str, platform: Path | None) -> None:
    from generator.documents.messages import format_value
    from generator.errors import suggest
    from generator.facts.nodes import SERVERS
    from generator.jobs.fabrics import describe_server, server_facts
    from generator.stages.loading import load_declared

    own = {entry.name: entry.server for entry in load_declared(platform).servers} if platform else {}
    servers = {**SERVERS, **own}
    if name not in servers:
        problem = Problem(f"there is no server type {format_value(name)}", suggest(name, servers), path="--server")
        raise ConfigError((problem,))
    show(form, {"server": server_facts(servers[name])}, table.topics(describe_server(servers[name])))


def _show_fabrics(form: str, platform: Path) -> None:
    from generator.jobs.fabrics import describe_fabric, fabric_facts, server_facts
    from generator.stages.loading import load_declared

    declaration = load_declared(platform)
    summary: dict[str, Any] = {
        "platform": declaration.platform,
        "fabrics": [fabric_facts(declaration, fabric) for fabric in declaration.fabrics],
        "servers": [server_facts(entry.server) for entry in declaration.servers],
    }
    lines = [
        line for fabric in declaration.fabrics for line in (*table.topics(describe_fabric(declaration, fabric)), "")
    ]
    lines = lines[:-1] or ["this platform declares no fabric, so ranks use the pod network"]
    if summary["servers"]:
        lines += ["", *table.table(_SERVERS, map(_server_row, summary["servers"]), table_width())]
    show(form, summary, lines)


def _list_servers(form: str) -> None:
    from generator.facts.nodes import SERVERS
    from generator.jobs.fabrics import server_facts

    facts = [server_facts(server) for server in SERVERS.values()]
    rows = [_server_row(server) for server in facts]
    show(form, {"servers": facts}, table.table(_SERVERS, rows, table_width()))


def _server_row(facts: Mapping[str, Any]) -> Sequence[str]:
    attach = facts["fabric"].get("attach", "efa" if facts["type"] == "efa" else "sriov")
    numbers = str(facts["nicsPerNode"]), str(facts["gigabitsPerNic"])
    return facts["name"], facts["accelerators"], facts["type"], *numbers, attach, facts["title"]


@click.command(
    epilog="""
    \b
    Example:
      mpigen queues --release platform.yaml
      mpigen queues --release output/university --details
      kubectl get clusterqueues,cohorts,resourceflavors,topologies,localqueues -A -o yaml | mpigen queues --release -
    """
)
@release_option()
@target_option
@kustomize_option
@environment_option
@no_python_option
@click.option(
    "--tenant",
    default="",
    metavar="NAME",
    help="Show only this tenant (team): its runtimes, priorities, limits and labels, its ClusterQueues, and the "
    "cohorts above them.",
)
@click.option(
    "--details",
    "has_details",
    is_flag=True,
    help="Show all resources in the columns NOMINAL to NODES, and why no larger job fits.",
)
@format_option
def queues(
    *, release: tuple[Path, ...], targets: dict[str, str], renders: bool, tenant: str, has_details: bool, form: str
) -> None:
    """Show the quota of each ClusterQueue, and the largest job on each runtime.

    mpigen contacts no cluster. If --release has Nodes, and Kueue assigns pods to nodes by topology,
    the largest job fits on these Nodes.

    `A to B` is a range: of a quota, from the nominal quota to the quota while the other queues use
    nothing; of a job in an idle queue, from the size that Kueue always admits, if necessary by
    preemption, to the size that it admits while the other queues use nothing.

    With --details, the columns OWNED, RECLAIMABLE and IDLE show how much a ClusterQueue without
    running jobs can get: OWNED without preemption, at any usage of the other queues; RECLAIMABLE with
    the preemption that its policy allows; IDLE while the other queues use nothing.

    With --tenant, the first lines are the view of the team: the runtimes, priorities, limits and labels
    of its jobs, from the annotations and ResourceQuotas of its namespaces.
    """
    from generator.jobs.team_view import describe_team, team_facts
    from generator.report import queue_summary
    from generator.report import queues as report
    from generator.upstream.kueue.largest import largest_jobs
    from generator.upstream.kueue.queues import read_queue_tree

    with progress("computing"):
        offer = read_offer(release, renders=renders)
        objects = offer.catalogue.objects
        tree = read_queue_tree(objects, {**offer.catalogue.targets, **targets}.get("kueue", ""))
        team = _team(offer.catalogue, tenant) if tenant else None
        only = offer.catalogue.queues_of(team) if team else None
        largest = list(largest_jobs(tree, objects, only))
        view = team_facts(offer.catalogue, team) if team else {}
    text = report.text if has_details else queue_summary.text
    summary = {**({"tenant": view} if view else {}), **report.facts(tree, largest, only)}
    lines = [*table.topics(describe_team(view)), ""] if view else []
    show(form, summary, [*lines, *text(tree, largest, table_width(), only)])


def _team(catalogue: Catalogue, tenant: str) -> Team:
    """Return the team with a name.

    Raises:
        ConfigError: the cluster has no such tenant.
    """
    from generator.documents.messages import format_value
    from generator.errors import suggest

    if tenant not in catalogue.teams:
        message = f"the cluster has no tenant {format_value(tenant)}"
        raise ConfigError((Problem(message, suggest(tenant, catalogue.teams), path="--tenant"),))
    return catalogue.teams[tenant]
