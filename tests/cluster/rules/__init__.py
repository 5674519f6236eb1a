"""CEL rules of CustomResourceDefinitions: objects that break one rule, and the answers of a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from generator.schemas.rules import Rule
from generator.upstream.kubernetes.cel.rules import is_accepted
from tests.cluster.client import Body
from tests.cluster.differential.cases import Case

FOLDER = Path(__file__).parent
ANSWERS = FOLDER / "answers.json"
NAMESPACE = "rules"


@cache
def read_seeds() -> Mapping[str, Body]:
    """Return the accepted objects: `Kind/name` → object."""
    bodies = yaml.load_all((FOLDER / "seeds.yaml").read_text("utf-8"), yaml.CSafeLoader)
    return {f"{body['kind']}/{body['metadata']['name']}": body for body in bodies}


@cache
def read_objects() -> Mapping[str, Body]:
    """Return the seeds and the changed seeds: name of the case → object."""
    rows = yaml.load((FOLDER / "cases.yaml").read_text("utf-8"), yaml.CSafeLoader)
    cases = [*(Case(seed, "", "as it is", "keep") for seed in read_seeds()), *map_rows(rows)]
    objects = {case.name: json.loads(case.text(read_seeds())) for case in cases}
    assert len(objects) == len(cases)
    return objects


def map_rows(rows: list[Mapping[str, Any]]) -> Iterator[Case]:
    """Yield the case of each seed of each row."""
    for row in rows:
        change = "set" if "set" in row else "remove"
        yield from (Case(seed, row["path"], change, change, row.get("set")) for seed in row["seeds"])


def read_answers() -> dict[str, str]:
    """Return the recorded answers: name of the case → message of the rejection; empty if the server accepts."""
    answers: dict[str, str] = json.loads(ANSWERS.read_text("utf-8"))
    return answers


@cache
def create_engine(*targets: tuple[str, str]) -> Engine:
    """Return the engine for some target versions: (component, minor version)."""
    return Engine(Catalog.bundled(dict(targets)))


def broken_rules(body: Body, *targets: tuple[str, str]) -> list[Rule]:
    """Return the rules that mpigen finds broken."""
    return [rule for rule in create_engine(*targets).rules(body) if not is_accepted(rule)]
