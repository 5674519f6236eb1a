"""Read the reviewed table of rights, and the platform of the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from generator.upstream.kubernetes.access import AccessRequest, Requester, parse_requester

PLATFORM = Path(__file__).with_name("platform.yaml")
_TABLE: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("rights.yaml").read_text())
PERSONAS: dict[str, Requester] = {persona: parse_requester(who) for persona, who in _TABLE["personas"].items()}


@dataclass(frozen=True, slots=True)
class Row:
    """A request, and the personas with the right to make it.

    Attributes:
        asked: the request.
        may: all personas with the right to make it.
    """

    asked: AccessRequest
    may: frozenset[str]

    def __str__(self) -> str:
        asked = self.asked
        what = "/".join(filter(None, (asked.resource, asked.subresource)))
        place = f" in {asked.namespace}" if asked.namespace else ""
        return f"{asked.verb} {asked.url or what}{f' {asked.name}' if asked.name else ''}{place}"


def rows() -> list[Row]:
    """Return all rows of the table.

    Raises:
        AssertionError: it names a persona that is not there.
    """
    found = [Row(_asked(each), frozenset(_flat(each["may"]))) for each in _TABLE["rights"]]
    assert {persona for row in found for persona in row.may} <= PERSONAS.keys()
    return found


def _asked(row: dict[str, Any]) -> AccessRequest:
    what = row["what"]
    if what.startswith("/"):
        return AccessRequest(row["verb"], url=what)
    kind, _, subresource = what.partition("/")
    plural, _, group = kind.partition(".")
    return AccessRequest(
        row["verb"], group, plural, subresource, row.get("name", ""), row.get("in", _implied(plural, row))
    )


def _implied(plural: str, row: dict[str, Any]) -> str:
    """Set the Namespace of a request for a Namespace to its own name."""
    return str(row.get("name", "")) if plural == "namespaces" else ""


def _flat(names: list[Any]) -> Iterator[str]:
    for each in names:
        yield from each if isinstance(each, list) else [each]
