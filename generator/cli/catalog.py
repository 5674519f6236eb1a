"""`mpigen runtimes`, `mpigen fabrics` and `mpigen queues`: the runtimes, fabrics and queues of a platform.

Without a platform, the first two commands list the MPI families and the server types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from generator.cli.inputs import (
    environment_option,
    kustomize_option,
    load_declared,
    no_python_option,
    read_cluster,
    target_option,
)
from generator.cli.listing import Listing
from generator.cli.output import format_option, progress, show, table_width
from generator.errors import ConfigError, Problem
from generator.report import table

if TYPE_CHECKING:
    from generator.config.platform import Platform

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
      mpigen runtimes platform.yaml
      mpigen runtimes show deepspeed
    """,
)
def runtimes() -> None:
    """List or show runtimes and their families.

    A family is an MPI implementation or a framework that mpigen supports. A runtime is a
    TrainingRuntime or ClusterTrainingRuntime that a platform declares for a family.

    `mpigen runtimes` lists all families, and `mpigen runtimes PLATFORM` the runtimes of a platform.
    """


@runtimes.command("list", epilog="Example: mpigen runtimes list platform.yaml")
@click.argument("platform", type=_file, required=False)
@environment_option
@no_python_option
@format_option
def list_runtimes(platform: Path | None, form: str) -> None:
    """List all families, or with PLATFORM its runtimes, families and devices."""
    from generator.facts.families import FAMILIES
    from generator.jobs import contract

    if platform is None:
        families = [contract.family_facts(family) for family in FAMILIES.values()]
        rows = [_family_row(family) for family in families]
        show(form, {"families": families}, table.table(_FAMILIES, rows, table_width()))
        return
    declaration = load_declared(platform)
    facts = [contract.runtime_facts(declaration, runtime) for runtime in declaration.runtimes]
    own = [contract.family_facts(entry.family) for entry in declaration.families]
    devices = [contract.device_facts(entry) for entry in declaration.devices]
    summary = {"platform": declaration.platform, "runtimes": facts, "families": own, "devices": devices}
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


@runtimes.command("show", epilog="Example: mpigen runtimes show openmpi-h100 platform.yaml")
@click.argument("name")
@click.argument("platform", type=_file, required=False)
@environment_option
@no_python_option
@format_option
def show_runtime(name: str, platform: Path | None, form: str) -> None:
    """Show what the family NAME offers to programs, and what it requires of images.

    With PLATFORM, NAME can also be a runtime of the platform or one of its own families. For a
    runtime, mpigen shows its pods first, and its family below.
    """
    from generator.facts.families import FAMILIES
    from generator.jobs import contract

    declaration = load_declared(platform) if platform else None
    runtime = next((runtime for runtime in declaration.runtimes if runtime.name == name), None) if declaration else None
    families = {**FAMILIES, **({entry.name: entry.family for entry in declaration.families} if declaration else {})}
    if runtime is None and name not in families:
        raise ConfigError((_unknown(name, declaration),))
    family = runtime.family if runtime else families[name]
    summary, lines = {"family": contract.family_facts(family)}, [*table.topics(contract.describe_family(family))]
    if declaration and runtime:
        summary = {"runtime": contract.runtime_facts(declaration, runtime), **summary}
        lines = [*table.topics(contract.describe_runtime(declaration, runtime)), "", *lines]
    show(form, summary, lines)


def _unknown(name: str, platform: Platform | None) -> Problem:
    from generator.documents.messages import format_value
    from generator.errors import suggest
    from generator.facts.families import FAMILIES

    if platform is None:
        fix = f"{suggest(name, FAMILIES)}; to show a runtime of a platform, add its platform file to the command"
        return Problem(f"there is no family {format_value(name)}", fix)
    known = {*FAMILIES, *(entry.name for entry in platform.families), *(runtime.name for runtime in platform.runtimes)}
    return Problem(f"there is no runtime and no family {format_value(name)}", suggest(name, known))


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

    own = {entry.name: entry.server for entry in load_declared(platform).servers} if platform else {}
    servers = {**SERVERS, **own}
    if name not in servers:
        problem = Problem(f"there is no server type {format_value(name)}", suggest(name, servers), path="--server")
        raise ConfigError((problem,))
    show(form, {"server": server_facts(servers[name])}, table.topics(describe_server(servers[name])))


def _show_fabrics(form: str, platform: Path) -> None:
    from generator.jobs.fabrics import describe_fabric, fabric_facts, server_facts

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
      mpigen queues platform.yaml
      mpigen queues --details output/university
      kubectl get clusterqueues,cohorts,resourceflavors,topologies,localqueues -A -o yaml | mpigen queues -
    """
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@target_option
@kustomize_option
@environment_option
@no_python_option
@click.option(
    "--details",
    "has_details",
    is_flag=True,
    help="Show all resources in the columns NOMINAL to NODES, and why no larger job fits.",
)
@format_option
def queues(paths: tuple[Path, ...], *, targets: dict[str, str], renders: bool, has_details: bool, form: str) -> None:
    """Show the quota of each ClusterQueue, and the largest job on each runtime.

    PATHS is a platform file, or YAML or JSON files, folders of them, or - for standard input, with
    the queues of one cluster. mpigen contacts no cluster. If PATHS has Nodes, and Kueue assigns pods
    to nodes by topology, the largest job fits on these Nodes.

    `A to B` is a range: of a quota, from the nominal quota to the quota while the other queues use
    nothing; of a job in an idle queue, from the size that Kueue always admits, if necessary by
    preemption, to the size that it admits while the other queues use nothing.

    With --details, the columns OWNED, RECLAIMABLE and IDLE show how much a ClusterQueue without
    running jobs can get: OWNED without preemption, at any usage of the other queues; RECLAIMABLE with
    the preemption that its policy allows; IDLE while the other queues use nothing.
    """
    from generator.report import queue_summary
    from generator.report import queues as report
    from generator.upstream.kueue.largest import largest_jobs
    from generator.upstream.kueue.queues import read_queue_tree

    with progress("computing"):
        manifests, made_for = read_cluster(paths, renders=renders)
        tree = read_queue_tree(manifests, {**made_for, **targets}.get("kueue", ""))
        largest = list(largest_jobs(tree, manifests))
    text = report.text if has_details else queue_summary.text
    show(form, report.facts(tree, largest), text(tree, largest, table_width()))
