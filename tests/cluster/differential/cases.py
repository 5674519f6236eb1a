"""Case: one seed with one change, as text that both judges read, and with a name that says what was changed."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from generator.documents.load import Path as Steps
from generator.documents.messages import format_path

FOLDER = Path(__file__).parent
SEEDS, WRITTEN, GENERATED = FOLDER / "seeds.yaml", FOLDER / "written.yaml", FOLDER / "generated.jsonl"
TEMPLATE_SEEDS, IN_TEMPLATES = FOLDER / "template_seeds.yaml", FOLDER / "templates.yaml"
MORE_SEEDS, RELATIONS = FOLDER / "more_seeds.yaml", FOLDER / "relations.yaml"
NAMESPACE = "differential"
CHANGES = ("set", "yaml", "rename", "remove", "repeat", "reverse", "keep")
"""The changes that a case can make at its path: set a value or a piece of YAML, rename or remove the key, repeat a
list item, write the keys in reverse order, or keep the object."""
_STEP = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|\[(\d+)\]|\.?([^.\[\]]+)')
_LONGEST = 60  # letters of a value in a name
_HOLE = "differential: a piece of YAML"

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A change of a seed object.

    Attributes:
        seed: what is changed, such as `Role/pod-reader`.
        path: where, such as `rules[0].verbs`; empty for the whole object.
        mutation: what is wrong, or harmless, about the change.
        change: one of `CHANGES`.
        value: of `set`, `yaml` and `rename`.
    """

    seed: str
    path: str
    mutation: str
    change: str
    value: Any = None

    @property
    def name(self) -> str:
        """Return the name, such as `Role/pod-reader rules[0].verbs: wrong type: "x"`."""
        shown = self.value if self.change in ("yaml", "rename") else json.dumps(self.value, ensure_ascii=False)
        if len(shown) > _LONGEST:
            shown = f"{shown[:_LONGEST]}… ({len(shown)})"
        shown = f": {shown}" if self.change in ("set", "yaml", "rename") else ""
        return f"{self.seed}{' ' if self.path else ''}{self.path}: {self.mutation}{shown}"

    def record(self) -> dict[str, Any]:
        """As it is stored."""
        has_value = self.change in ("set", "yaml", "rename")
        identity = {"seed": self.seed, "path": self.path, "mutation": self.mutation}
        return {**identity, self.change: self.value if has_value else True}

    def text(self, seeds: Mapping[str, Body]) -> str:
        """Return the changed object as JSON, except for raw YAML values.

        Raises:
            LookupError: the seed has no such place.
        """
        return changed(seeds[self.seed], parse_path(self.path), self.change, self.value)


def changed(seed: Body, path: Steps, change: str, value: Any) -> str:
    """The text of a seed with one change."""
    holder: dict[Any, Any] = {"": copy.deepcopy(seed)}
    place: Any = holder
    *parents, last = ("", *path)
    for step in parents:
        place = place[step]
    match change:
        case "set":
            place[last] = value
        case "yaml":
            place[last] = _HOLE
        case "rename":
            place[value] = place.pop(last)
        case "remove":
            del place[last]
        case "repeat":
            place.append(place[int(last)])
        case "reverse":
            place[last] = dict(reversed(place[last].items()))
    text = json.dumps(holder[""], ensure_ascii=False)
    return text.replace(json.dumps(_HOLE), value) if change == "yaml" else text


def parse_path(text: str) -> Steps:
    """The opposite of `format_path`."""
    steps: list[str | int] = []
    for quoted, index, plain in _STEP.findall(text):
        steps.append(int(index) if index else plain or quoted.replace(r"\"", '"').replace(r"\\", "\\"))
    assert format_path(tuple(steps)) == text, text
    return tuple(steps)


def read_seeds() -> dict[str, Body]:
    """`Kind/name` → object."""
    return {**_read_seeds(SEEDS), **_read_seeds(MORE_SEEDS), **read_template_seeds()}


def read_template_seeds() -> dict[str, Body]:
    """Return the runtimes and JobSets that change in their pod templates alone: `Kind/name` → object."""
    return _read_seeds(TEMPLATE_SEEDS)


def _read_seeds(file: Path) -> dict[str, Body]:
    bodies = yaml.load_all(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return {f"{body['kind']}/{body['metadata']['name']}": body for body in bodies}


def read_cases() -> dict[str, Case]:
    """Return all cases by name: unchanged seeds, handwritten cases, and generated cases."""
    generated = map(_case, map(json.loads, GENERATED.read_text(encoding="utf-8").splitlines()))
    return _named((*read_written(), *generated))


def read_written() -> Iterator[Case]:
    """Yield the unchanged seeds and the handwritten cases."""
    yield from (Case(seed, "", "as it is", "keep") for seed in read_seeds())
    yield from map(_case, yaml.load(WRITTEN.read_text(encoding="utf-8"), yaml.CSafeLoader))
    yield from _read_templates()
    for seed, records in yaml.load(RELATIONS.read_text(encoding="utf-8"), yaml.CSafeLoader).items():
        yield from (_case({**record, "seed": seed}) for record in records)


def _read_templates() -> Iterator[Case]:
    """Yield the handwritten cases inside of pod templates."""
    for seed, records in yaml.load(IN_TEMPLATES.read_text(encoding="utf-8"), yaml.CSafeLoader).items():
        before = "spec" if seed.startswith("JobSet/") else "spec.template.spec"
        template = f"{before}.replicatedJobs[0].template.spec.template."
        yield from (_case({**record, "seed": seed, "path": template + record["path"]}) for record in records)


def _named(cases: Iterable[Case]) -> dict[str, Case]:
    found: dict[str, Case] = {}
    for case in cases:
        assert found.setdefault(case.name, case) is case, f"{case.name} is there twice"
    return found


def _case(record: Mapping[str, Any]) -> Case:
    (change,) = record.keys() & set(CHANGES)
    value = _repeated(record[change]) if change in ("set", "yaml", "rename") else None
    return Case(record["seed"], record["path"], record["mutation"], change, value)


def _repeated(value: Any) -> Any:
    """Return a value in which each `{repeat: VALUE, times: NUMBER}` is a long string or list."""
    if isinstance(value, dict):
        if value.keys() == {"repeat", "times"}:
            return value["repeat"] * value["times"]
        return {key: _repeated(item) for key, item in value.items()}
    return [_repeated(item) for item in value] if isinstance(value, list) else value
