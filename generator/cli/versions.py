"""`mpigen versions`: the upstream versions that mpigen knows, and which work together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from generator.cli.output import format_option, show, table_width
from generator.report import table

if TYPE_CHECKING:
    from generator.facts.versions import Need

_HEADER = ("COMPONENT", "VERSION", "STATUS", "RELEASE")


@click.command(
    epilog="""
    \b
    Example:
      mpigen versions
      mpigen validate output --target kueue=0.20 --target trainer=2.4
    """
)
@format_option
def versions(form: str) -> None:
    """List the upstream versions that mpigen knows, and which of them work together.

    A component with the status `supported` can be named in `cluster.versions` of a platform file and
    by --target: mpigen follows the code of the release. The code of an `announced` version is unknown:
    mpigen follows the version before, and the changes in the release notes.
    """
    from generator.facts.versions import ANNOUNCED, NAMES, OPENSHIFT_RELEASES, SETS, SUPPORTED

    supported = [row for row in SUPPORTED if row.name in NAMES]
    rows = [
        *((row.name, row.minor, "supported", row.version) for row in supported),
        *((row.name, row.minor, "announced", f"not read; as {row.after}, with its known changes") for row in ANNOUNCED),
    ]
    facts = {
        "supported": [{"name": row.name, "minor": row.minor, "release": row.version} for row in supported],
        "announced": [
            {"name": row.name, "minor": row.minor, "after": row.after, "changes": [dict(item) for item in row.changes]}
            for row in ANNOUNCED
        ],
        "sets": [
            {"component": row.component, "versions": _range(row), "needs": row.needs, "accepted": row.accepted}
            | {"why": row.why, "source": row.source}
            for row in SETS
        ],
        "openshift": [{"release": release, "kubernetes": minor} for minor, release in OPENSHIFT_RELEASES.items()],
    }
    show(form, facts, _lines(sorted(rows, key=lambda row: row[0])))


def _lines(rows: list[tuple[str, str, str, str]]) -> Iterator[str]:
    from generator.facts.versions import ANNOUNCED, NAMES, OPENSHIFT_RELEASES, SETS

    yield from table.table(_HEADER, rows, table_width())
    for announced in ANNOUNCED:
        yield ""
        yield f"Known changes of {NAMES[announced.name]} {announced.minor}:"
        yield from (f"- {change['text']} ({change['source']})" for change in announced.changes)
    yield ""
    yield "Releases of OpenShift:"
    yield from (f"- OpenShift {release} has Kubernetes {minor}" for minor, release in OPENSHIFT_RELEASES.items())
    yield ""
    yield "Versions that need each other:"
    for need in SETS:
        names = f"{NAMES[need.component]} {_range(need)} needs {NAMES[need.needs]} {need.accepted}"
        yield f"- {names}: {need.why} ({need.source})"


def _range(need: Need) -> str:
    if need.last == need.first:
        return need.first
    return f"{need.first} to {need.last}" if need.last else f"{need.first} and newer"
