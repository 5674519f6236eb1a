"""Test that two independent engines accept all output and agree on mistakes."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from generator.documents.emit import Emitter
from generator.manifests import Manifest, read
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from generator.schemas.kubeconform import Kubeconform, Status, cache_folder, ensure_kubeconform
from tests.conftest import ROOT, Run

OUTPUT = ROOT / "output"


@pytest.fixture(scope="module")
def kubeconform() -> Kubeconform:
    """Return the real kubeconform, built on first use."""
    cache = cache_folder(os.environ, Path.home())
    return Kubeconform(ensure_kubeconform(cache), Catalog.bundled().locations(cache))


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(Catalog.bundled())


def emitted() -> Iterator[Manifest]:
    for file in sorted(OUTPUT.rglob("*")):
        if file.suffix in (".yaml", ".json"):
            yield from read(file.read_bytes(), str(file))


def one_of_each_kind() -> dict[str, Manifest]:
    """Return the largest object of every kind in the output, because it has the most fields."""
    largest: dict[str, Manifest] = {}
    for manifest in sorted(emitted(), key=lambda manifest: (len(str(manifest.body)), manifest.file)):
        largest[f"{manifest.api_version}/{manifest.kind}"] = manifest
    return largest


def known_fields(body: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield paths of fields that a schema lists by name, without keys of labels, resources and other free mappings."""
    free = (
        "labels",
        "annotations",
        "matchLabels",
        "nodeLabels",
        "nodeSelector",
        "requests",
        "limits",
        "hard",
        "files",
        "protections",
        "binaryData",
        "data",
        "defaultRequest",
        "targets",
        "config",  # of a MachineConfig and a KubeletConfig, whose kinds leave them open
        "kubeletConfig",
        "extraConfig",
    )
    if isinstance(body, dict) and (not path or path[-1] not in free):
        for key, value in body.items():
            if path or key not in ("apiVersion", "kind"):
                yield (*path, key)
            yield from known_fields(value, (*path, key))
    elif isinstance(body, list):
        for index, item in enumerate(body):
            yield from known_fields(item, (*path, index))


def renamed(body: Any, path: tuple[Any, ...], name: str) -> Any:
    """Return the object with the field at `path` renamed."""
    if isinstance(body, list):
        return [renamed(item, path[1:], name) if index == path[0] else item for index, item in enumerate(body)]
    step, *rest = path
    if not rest:
        return {name if key == step else key: value for key, value in body.items()}
    return {key: renamed(value, tuple(rest), name) if key == step else value for key, value in body.items()}


def test_both_engines_accept_every_output_file(mpigen: Run) -> None:
    ran = mpigen("validate", OUTPUT, "--engine", "both")
    assert ran.returncode == 0, ran.stdout
    assert "embedded: 0 findings, kubeconform: 0 findings" in ran.stdout


def test_kubeconform_alone_accepts_the_output_folder(kubeconform: Kubeconform) -> None:
    results = kubeconform.run([OUTPUT])
    assert {result.status for result in results} == {Status.VALID}
    assert len(results) == len(list(emitted()))


@pytest.mark.parametrize("kind", one_of_each_kind())
def test_both_engines_reject_a_typo_in_every_kind(
    kind: str, engine: Engine, kubeconform: Kubeconform, tmp_path: Path
) -> None:
    """Test eight seeded typos in each kind, with one file per typo."""
    manifest = one_of_each_kind()[kind]
    chance = random.Random(kind)
    fields = list(known_fields(manifest.body))
    chosen = chance.sample(fields, min(8, len(fields)))
    verdicts: dict[str, bool] = {}
    for number, path in enumerate(chosen):
        typo = renamed(manifest.body, path, f"{path[-1]}x")
        file = tmp_path / f"{number}.yaml"
        file.write_text(Emitter().emit([typo]))
        verdicts[str(file)] = engine.violations(typo) == []
    judged = {result.file: result.status is Status.VALID for result in kubeconform.run([tmp_path])}
    assert judged == verdicts
    assert set(verdicts.values()) == {False}


@pytest.mark.parametrize("kind", one_of_each_kind())
def test_both_engines_accept_the_object_without_a_typo(
    kind: str, engine: Engine, kubeconform: Kubeconform, tmp_path: Path
) -> None:
    manifest = one_of_each_kind()[kind]
    (tmp_path / "sound.yaml").write_text(Emitter().emit([manifest.body]))
    assert engine.violations(manifest.body) == []
    assert [result.status for result in kubeconform.run([tmp_path])] == [Status.VALID]


def test_both_engines_check_the_items_of_a_typed_list(mpigen: Run, tmp_path: Path) -> None:
    role = "{metadata: {name: a, namespace: team-a}, rules: []}"
    lists = tmp_path / "roles.yaml"
    head = "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleList\n"
    lists.write_text(f"{head}items:\n- {role}\n- {role.replace('a,', 'b,').replace('[]', 'none')}\n", "utf-8")
    ran = mpigen("validate", lists, "--engine", "both")
    assert "embedded: 1 finding, kubeconform: 1 finding" in ran.stdout
    assert "roles.yaml:5:51: error: schema/wrong-type: Role team-a/b $.items[1].rules" in ran.stdout
