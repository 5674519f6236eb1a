"""`mpigen fabrics`: the known server types, and the fabrics of a platform."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from generator.cli.output import format_option, show, table_width
from generator.errors import ConfigError, Problem

_HEADER = ("SERVER", "ACCELERATORS", "TYPE", "NICS", "GBIT/S EACH", "ATTACHED BY", "DESCRIPTION")


def _names(_context: click.Context, _option: click.Parameter, begun: str) -> list[str]:
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
    help="Show one server type, with its sources.",
    shell_complete=_names,
)
@format_option
def fabrics(platform: Path | None, server: str, form: str) -> None:
    """List the server types that `fabrics[].server` may name or, given PLATFORM, its fabrics.

    For each fabric, it shows how hosts are attached, which resources they request, which teams share
    it, what restarts nodes, how memory is locked, and the variables of ranks.
    """
    if server and platform:
        raise click.UsageError("name a server type or a platform, not both")
    if server:
        _show_server(form, server)
    elif platform:
        _show_fabrics(form, platform)
    else:
        _list_servers(form)


def _show_server(form: str, name: str) -> None:
    from generator.documents.messages import format_value
    from generator.errors import suggest
    from generator.facts.nodes import SERVERS
    from generator.jobs.fabrics import describe_server, server_facts
    from generator.report import table

    if name not in SERVERS:
        problem = Problem(f"there is no server type {format_value(name)}", suggest(name, SERVERS), path="--server")
        raise ConfigError((problem,))
    show(form, {"server": server_facts(SERVERS[name])}, table.topics(describe_server(SERVERS[name])))


def _show_fabrics(form: str, platform: Path) -> None:
    from generator.cli.inputs import load_declared
    from generator.jobs.fabrics import describe_fabric, fabric_facts
    from generator.report import table

    declaration = load_declared(platform)
    summary = {
        "platform": declaration.platform,
        "fabrics": [fabric_facts(declaration, fabric) for fabric in declaration.fabrics],
    }
    lines = [
        line for fabric in declaration.fabrics for line in (*table.topics(describe_fabric(declaration, fabric)), "")
    ]
    show(form, summary, lines[:-1] or ["this platform declares no fabric: ranks use the network of pods"])


def _list_servers(form: str) -> None:
    from generator.facts.nodes import SERVERS
    from generator.jobs.fabrics import server_facts
    from generator.report import table

    facts = [server_facts(server) for server in SERVERS.values()]
    rows = [_row(server) for server in facts]
    show(form, {"servers": facts}, table.table(_HEADER, rows, table_width()))


def _row(facts: dict[str, Any]) -> Sequence[str]:
    attach = facts["fabric"].get("attach", "efa" if facts["type"] == "efa" else "sriov")
    numbers = str(facts["nicsPerNode"]), str(facts["gigabitsPerNic"])
    return facts["name"], facts["accelerators"], facts["type"], *numbers, attach, facts["title"]
