"""Test that the catalogue and its files agree: none missing, none extra, none edited by hand."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from generator.errors import EngineError, OutputError
from generator.facts.versions import SUPPORTED, minors
from generator.schemas.catalog import FILE, Catalog
from generator.schemas.compile import OWN, compile_schemas
from generator.schemas.json_schema import has_field


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return Catalog.bundled()


def test_every_schema_has_the_checksum_of_the_catalogue(catalog: Catalog) -> None:
    found = {
        str(path.relative_to(catalog.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in catalog.folder.rglob("*")
        if path.is_file() and path.name != FILE
    }
    assert found == {entry.path: entry.sha256 for entry in catalog.everything}


def test_the_catalogue_lists_the_pinned_modules(catalog: Catalog) -> None:
    read = json.loads((catalog.folder / FILE).read_text())["components"]
    assert [(entry["name"], entry["module"], entry["version"], entry["sum"]) for entry in read] == [
        (component.name, component.module, component.version, component.sum) for component in (*SUPPORTED, OWN)
    ]


@pytest.mark.parametrize(
    ("api_version", "kind", "plural", "scope"),
    [
        ("v1", "Pod", "pods", "Namespaced"),
        ("v1", "Node", "nodes", "Cluster"),
        ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", "Namespaced"),
        ("admissionregistration.k8s.io/v1beta1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies", "Cluster"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", "Cluster"),
        ("apiregistration.k8s.io/v1", "APIService", "apiservices", "Cluster"),
        ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", "clustertrainingruntimes", "Cluster"),
        ("trainer.kubeflow.org/v1alpha1", "TrainJob", "trainjobs", "Namespaced"),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets", "Namespaced"),
        ("kueue.x-k8s.io/v1beta1", "ClusterQueue", "clusterqueues", "Cluster"),
        ("kueue.x-k8s.io/v1beta2", "LocalQueue", "localqueues", "Namespaced"),
        ("argoproj.io/v1alpha1", "ApplicationSet", "applicationsets", "Namespaced"),
    ],
)
def test_a_served_kind_has_a_schema(catalog: Catalog, api_version: str, kind: str, plural: str, scope: str) -> None:
    assert catalog.schema(api_version, kind)
    assert catalog.entries[api_version, kind].plural == plural
    assert catalog.scope(api_version, kind) == scope


@pytest.mark.parametrize(("api_version", "kind"), [("v2", "Pod"), ("v1", "pod"), ("v1", "PodList"), ("", "")])
def test_an_unknown_kind_has_no_schema(catalog: Catalog, api_version: str, kind: str) -> None:
    assert catalog.schema(api_version, kind) is None
    assert catalog.scope(api_version, kind) is None


def test_schema_locations_lead_kubeconform_to_every_schema(tmp_path: Path) -> None:
    catalog = Catalog.bundled({"kubernetes": "1.34", "trainer": "2.2"})
    locations = catalog.locations(tmp_path)
    for entry in catalog.entries.values():
        group, _, version = entry.api_version.rpartition("/")
        values = {"Group": group or version, "ResourceKind": entry.kind.lower(), "ResourceAPIVersion": version}
        places = list(locations)
        for name, value in values.items():
            places = [place.replace(f"{{{{.{name}}}}}", value) for place in places]
        (file,) = filter(Path.is_file, map(Path, places))
        assert json.loads(file.read_bytes()) == catalog.schema(entry.api_version, entry.kind)


def test_a_cache_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(EngineError, match="the schemas of older versions cannot be written") as error:
        Catalog.bundled({"trainer": "2.2"}).locations(tmp_path / "cache")
    assert error.value.problems[0].fix == "set MPIGEN_CACHE to a writable folder"


def test_every_version_has_its_own_schemas() -> None:
    older = Catalog.bundled({"trainer": "2.2", "kueue": "0.18", "helm": "3"})
    assert older.targets["trainer"] == "2.2"
    assert older.entries["trainer.kubeflow.org/v1alpha1", "TrainJob"].path.startswith("trainer/2.2/")
    assert older.entries["v1", "Pod"].path.startswith(f"kubernetes/{minors('kubernetes')[0]}/")


def test_an_unknown_version_selects_the_newest() -> None:
    assert Catalog.bundled({"trainer": "1.9"}).targets["trainer"] == "2.3"


def test_a_folder_without_a_catalogue_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="the catalog of the schemas cannot be read"):
        Catalog(tmp_path).schema("v1", "Pod")


def test_minors_lists_the_supported_versions() -> None:
    assert minors("kueue") == ("0.19", "0.18")
    assert minors("helm") == ()


def test_finding_a_kind_imports_neither_pydantic_nor_an_engine() -> None:
    code = (
        "import sys; from generator.schemas.catalog import Catalog; Catalog.bundled().schema('v1', 'Pod');"
        "sys.exit(' '.join({'pydantic', 'jsonschema_rs', 'yaml', 'cdk8s'} & set(sys.modules)) or 0)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_compiling_replaces_no_foreign_folder(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(OutputError, match="holds no schemas"):
        compile_schemas(tmp_path)
    assert (tmp_path / "thesis.txt").exists()


@pytest.mark.slow
def test_compiling_again_gives_the_same_bytes(catalog: Catalog, tmp_path: Path) -> None:
    for _ in ("where there is nothing", "over what is there"):
        assert compile_schemas(tmp_path / "schemas") == len(catalog.everything)
    assert _files(tmp_path / "schemas") == _files(catalog.folder)
    assert list(tmp_path.iterdir()) == [tmp_path / "schemas"]


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("minor", "path", "expected"),
    [
        ("1.34", ("spec", "containers", 0, "image"), True),
        ("1.34", ("spec", "schedulingGroup"), False),
        ("1.37", ("spec", "schedulingGroup", "podGroupName"), True),
        ("1.37", ("spec", "schedulingGroup", "bogus"), False),
        ("1.34", ("metadata", "labels", "any"), True),
        ("1.34", ("spec", "containers", 0, "resources", "limits", "any"), True),
    ],
)
def test_the_schema_of_a_version_has_its_fields(minor: str, path: tuple[str | int, ...], *, expected: bool) -> None:
    schema = Catalog.bundled({"kubernetes": minor}).schema("v1", "Pod") or {}
    assert has_field(schema, path) is expected
