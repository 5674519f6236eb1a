"""Seeds and schemas → the generated cases: of every sort of change a few for every seed, the same ones every time.

Which ones is decided by a digest of each case, not by a stream of random numbers: a case that comes or goes because a
schema changed leaves the others as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping

from generator.documents.messages import format_path
from generator.schemas.catalog import Catalog
from tests.cluster.differential.cases import Body, Case, read_seeds, read_template_seeds, read_written
from tests.cluster.differential.mutations import MUTATIONS, NAMED, Mutation, Place, places
from tests.cluster.differential.pod_mutations import POD_MUTATIONS
from tests.cluster.differential.templates import is_in_template

_SALT = "mpigen"
_EACH = 1
"""The number of cases of a sort per seed, …"""
_MORE = {NAMED: 2, "an odd label": 2, "a bad quantity": 2, "not in the enum": 2, "a number at the edge": 2}
"""… and of these sorts."""
_SELDOM = {"another order of keys", "a key twice", "text without quotes", "an optional field is left out"}
"""Sorts that say something new about a field only once."""
_METADATA = {"ConfigMap/config", "ClusterQueue/differential-chem"}
"""Seeds whose metadata, which is the same for every kind, is changed in every way; others get odd names only."""
_TEMPLATES = read_template_seeds().keys()
"""Seeds that change in their pod templates alone, …"""
_IN_TEMPLATES = 4
"""… with this number of cases of a mutation that a schema suggests, …"""
_OF_PODS = 12
"""… and this number of a mutation against a rule of pods."""


def generate() -> str:
    """Return all generated cases, one per line."""
    catalog = Catalog.bundled()
    lines = (json.dumps(case.record(), ensure_ascii=False) for case in _cases(catalog))
    return "".join(f"{line}\n" for line in lines)


def _cases(catalog: Catalog) -> Iterator[Case]:
    seeds = read_seeds()
    seen, in_templates = set[tuple[str, str]](), set[tuple[str, str]]()
    texts = {case.text(seeds) for case in read_written() if case.seed in _TEMPLATES}
    for name, body in seeds.items():
        found = list(_places(name, body, catalog))
        if name not in _TEMPLATES:
            yield from _of_seed(name, found, MUTATIONS, seen)
            continue
        found = [place for place in found if is_in_template(format_path(place.path))]
        for case in _of_seed(name, found, {**MUTATIONS, **POD_MUTATIONS}, in_templates):
            if (text := case.text(seeds)) not in texts:  # two mutations can have the same result
                texts.add(text)
                yield case


def _of_seed(
    name: str, found: list[Place], mutations: Mapping[str, Mutation], seen: set[tuple[str, str]]
) -> Iterator[Case]:
    for mutation, changes in mutations.items():
        candidates = sorted(_candidates(name, mutation, changes, found), key=_rank)
        for case in _spread(candidates, seen):
            seen.add((mutation, _field(case)))
            yield case


def _places(name: str, body: Body, catalog: Catalog) -> Iterator[Place]:
    schema = catalog.schema(body["apiVersion"], body["kind"])
    assert schema, f"{name} has no schema"
    yield from places(body, schema, schema)


def _candidates(name: str, mutation: str, changes: Mutation, found: Iterable[Place]) -> Iterator[Case]:
    for place in found:
        if place.path[:1] == ("metadata",) and name not in _METADATA and mutation != NAMED:
            continue
        for change, value, key in changes(place):
            path = place.path if key is None else (*place.path, key)
            yield Case(name, format_path(path), mutation, change, value)


def _spread(candidates: list[Case], seen: set[tuple[str, str]]) -> list[Case]:
    """The first ones of a seed and a sort, but before them those whose field no case of that sort changes yet."""
    if not candidates:
        return []
    mutation = candidates[0].mutation
    fresh = [case for case in candidates if (mutation, _field(case)) not in seen]
    others = [] if mutation in _SELDOM else [case for case in candidates if case not in fresh]
    by_field: dict[str, Case] = {}
    for case in (*fresh, *others):
        by_field.setdefault(_field(case), case)
    return list(by_field.values())[: _most(candidates[0])]


def _most(case: Case) -> int:
    """Return the number of cases of a mutation for a seed."""
    if case.seed in _TEMPLATES:
        return _OF_PODS if case.mutation in POD_MUTATIONS else _IN_TEMPLATES
    return _MORE.get(case.mutation, _EACH)


def _field(case: Case) -> str:
    """Return the last key of the path, because kinds share fields; the name of a case whose value matters."""
    if case.path == "metadata.name" or case.mutation in POD_MUTATIONS:
        return case.name
    return case.path.rpartition(".")[2].partition("[")[0]


def _rank(case: Case) -> str:
    return hashlib.sha256(f"{_SALT}/{case.name}".encode()).hexdigest()
