"""Test that a plan names each changed field of each object, and names the field once."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from generator.checks.objects import Change
from generator.documents.load import Path
from generator.documents.messages import format_path
from generator.effects.effect import Effect, Risk
from generator.effects.topics import TOPICS, find_effects
from generator.facts.table import read_table
from generator.manifests import Manifest
from tests.conftest import ROOT
from tests.plan import describe, objects, platform_text, render

MUTATIONS = 200
PAIRS = 150
BASES = ["openshift-h100", "university"]
IDENTITY = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"))


@pytest.mark.parametrize("base", BASES)
def test_every_changed_field_has_one_effect(base: str) -> None:
    release = render(platform_text(base))
    old = [item for item in objects(release, release.files) if item.kind != "Release"]
    chooser = random.Random(base)
    silent, double = [], []
    for _ in range(MUTATIONS):
        manifest, path, mutated = mutate(chooser, chooser.choice(old))
        new = [mutated if item is manifest else item for item in old]
        effects = find_effects(Change(old, new, dict(release.targets)))
        place = f"{manifest.resource} {format_path(path)}"
        topics = {
            effect.topic for effect in effects if manifest.identity in {cause.identity for cause in effect.causes}
        }
        if not topics:
            silent.append(f"{place}\n{describe(effects)}")
        if "other" in topics and len(topics) > 1:
            double.append(f"{place}\n{describe(effects)}")
    assert not silent
    assert not double


@pytest.mark.parametrize("base", BASES)
def test_fields_without_a_topic_stay_visible(base: str) -> None:
    release = render(platform_text(base))
    old = [item for item in objects(release, release.files) if item.kind != "Release"]
    chooser = random.Random(base)
    by_kind = {item.kind: [one for one in old if one.kind == item.kind] for item in old}

    def plan(manifest: Manifest, mutated: Manifest) -> list[Effect]:
        new = [mutated if item is manifest else item for item in old]
        return find_effects(Change(old, new, dict(release.targets)))

    compared, lost = 0, []
    for _ in range(PAIRS):
        manifest = chooser.choice(by_kind[chooser.choice(sorted(by_kind))])
        _, path, first = mutate(chooser, manifest)
        second_path, values = chooser.choice([*leaves(manifest.body, ())])
        if second_path[0] in path[:1] and (second_path[:-1] == path[:-1] or isinstance(second_path[-1], int)):
            continue
        second, both = (changed(one, second_path, values) for one in (manifest, first))
        (*others, last), named = plan(manifest, second), plan(manifest, first)
        is_unread = not others and last.topic == "other"
        is_judged = last.risk is Risk.LOW and second_path[0] != "metadata"
        if not is_unread or is_judged or {effect.topic for effect in named} == {"other"}:
            continue
        compared += 1
        field = last.details[0]
        words = [" ".join([effect.text, *effect.details]) for effect in plan(manifest, both) if effect.topic == "other"]
        if not any(field in text for text in words):
            lost.append(f"{manifest.resource}: {field} beside {format_path(path)}")
    assert not lost
    assert compared > PAIRS / 20


def mutate(chooser: random.Random, manifest: Manifest) -> tuple[Manifest, Path, Manifest]:
    """Return a manifest, the path of one of its values, and the manifest with another value or without the value."""
    path, value = chooser.choice([*leaves(manifest.body, ())])
    if isinstance(path[-1], str) and chooser.random() < 0.2:
        return manifest, path, removed(manifest, path)
    return manifest, path, changed(manifest, path, value)


def changed(manifest: Manifest, path: Path, value: Any) -> Manifest:
    """Return a manifest with another value at a path that has `value`."""
    body = copy.deepcopy(manifest.body)
    other = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else f"{value}x"
    parent(body, path)[path[-1]] = other
    return replace(manifest, body=body)


def removed(manifest: Manifest, path: Path) -> Manifest:
    """Return a manifest without the value at a path."""
    body = copy.deepcopy(manifest.body)
    del parent(body, path)[path[-1]]
    return replace(manifest, body=body)


def parent(body: Any, path: Path) -> Any:
    """Return the mapping or the list of the last step of a path."""
    for step in path[:-1]:
        body = body[step]
    return body


def leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Yield the values of a body, without the identity of the object."""
    if isinstance(value, dict | list) and value:
        for step, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(child, (*path, step))
    elif path not in IDENTITY:
        yield path, value


def test_the_table_of_added_objects_matches_its_schema() -> None:
    schema = json.loads((ROOT / "generator/effects/added.schema.json").read_text("utf-8"))
    table = read_table("added", "generator.effects")
    jsonschema.validate(table, schema)
    rows = [(row["group"], row["kind"], row.get("field")) for row in table["rows"]]
    assert len(set(rows)) == len(rows)


def test_the_table_of_fields_matches_its_schema_and_names_topics() -> None:
    schema = json.loads((ROOT / "generator/effects/explained.schema.json").read_text("utf-8"))
    table = read_table("explained", "generator.effects")
    jsonschema.validate(table, schema)
    rows = [(row["topic"], row.get("group"), row["kind"]) for row in table["rows"]]
    assert len(set(rows)) == len(rows)
    assert {topic for topic, _, _ in rows} <= TOPICS.keys()
