"""Test the graph of references: its table, the severities of absent objects, and renamed objects in releases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import yaml

from generator.checks.graph import Graph, Reference, State, references
from generator.checks.objects import Objects
from generator.checks.run import judge_together
from generator.facts.references import PODS, Kind, build_tree, creators, find, links, parse_kind, targets
from generator.manifests import Manifest, read
from generator.schemas.catalog import Catalog
from tests.checks import CASES
from tests.conftest import ROOT

EXAMPLES = sorted(folder.name for folder in (ROOT / "output").iterdir())
WITHOUT_SCHEMA = {"trust.cert-manager.io"}


def read_all(text: str) -> tuple[Manifest, ...]:
    return tuple(read(text, "x.yaml"))


def read_release(name: str) -> tuple[Manifest, ...]:
    folder = ROOT / "output" / name
    files = sorted(folder.rglob("*.yaml"))
    return tuple(item for file in files for item in read(file.read_bytes(), str(file.relative_to(folder))))


def findings(manifests: tuple[Manifest, ...], *, is_complete: bool = False) -> set[tuple[str, str, str]]:
    """Return (check, severity, value) of the findings in the family `reference`."""
    return {
        (breach.check, str(breach.severity), str(breach.value))
        for _, breach in judge_together(manifests, {}, files=() if is_complete else None)
        if breach.check.startswith("reference/")
    }


@cache
def schemas() -> dict[Kind, list[dict[str, Any]]]:
    """Return kind → its schemas in all versions."""
    catalog = Catalog.bundled()
    found: dict[Kind, list[dict[str, Any]]] = {}
    for entry in catalog.everything:
        found.setdefault(Kind(entry.api_version.rpartition("/")[0], entry.kind), []).append(catalog.load(entry))
    return found


def resolve(schema: Any, root: Any) -> Any:
    while "$ref" in schema:
        schema = root["definitions"][schema["$ref"].rpartition("/")[2]]
    return schema


def is_field(schema: Any, root: Any, steps: list[str]) -> bool:
    """Return True if a schema has a string at a path of the table."""
    schema = resolve(schema, root)
    if any(is_field(part, root, steps) for part in (*schema.get("allOf", ()), *schema.get("anyOf", ()))):
        return True
    if not steps:
        return "string" in schema.get("type", ())
    step, rest = steps[0], steps[1:]
    if step == "[]":
        return "items" in schema and is_field(schema["items"], root, rest)
    if step == "**":
        inner = [*schema.get("properties", {}).values(), *filter(None, [schema.get("items")])]
        return is_field(schema, root, rest) or any(is_field(part, root, steps) for part in inner)
    if isinstance(extra := schema.get("additionalProperties"), dict):
        return is_field(extra, root, rest)
    names = schema.get("properties", {})
    suffix = step.removeprefix("*")
    return any(
        is_field(names[name], root, rest)
        for name in names
        if name == step or (suffix != step and name.endswith(suffix))
    )


def expand(field: str) -> Iterator[list[str]]:
    """Yield the steps of a field of the table, once for each alternative."""
    quoted = field.replace('["', ".\0").replace('"]', "\0")
    parts = quoted.split("\0")
    steps: list[list[str]] = []
    for number, part in enumerate(parts):
        if number % 2:
            steps.append([part])
        else:
            steps += [step.split("|") for step in part.replace("[]", ".[]").split(".") if step]
    paths: list[list[str]] = [[]]
    for step in steps:
        paths = [[*path, key] for path in paths for key in step]
    yield from paths


FIELDS = [(kind, field) for link in links() for kind in link.of for field in link.fields]


@pytest.mark.parametrize(("kind", "field"), FIELDS, ids=[f"{kind} {field}" for kind, field in FIELDS])
def test_every_field_of_the_table_is_in_a_schema(kind: str, field: str) -> None:
    roots = schemas()[Kind("", "Pod") if kind == PODS else parse_kind(kind)]
    for steps in expand(field):
        assert any(is_field(root, root, steps) for root in roots), steps


def test_every_kind_of_the_table_has_a_schema_or_a_known_group() -> None:
    kinds = {*targets(), *creators(), *(parse_kind(kind) for link in links() for kind in (*link.of, *link.to))}
    unknown = {kind for kind in kinds - schemas().keys() if kind.kind != PODS}
    assert {kind.group for kind in unknown} == WITHOUT_SCHEMA


def test_every_target_has_a_link_and_every_link_a_target() -> None:
    assert {parse_kind(kind) for link in links() for kind in link.to} == targets().keys()


def names_in_pods(schema: Any, root: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the fields of a pod that name an object of another kind, by the names of fields and definitions."""
    schema = resolve(schema, root)
    for name, part in schema.get("properties", {}).items():
        here = (*path, name)
        if name.endswith(("SecretRef", "secretRef", "secretName", "claimName", "ClassName", "serviceAccountName")):
            yield ".".join(here)
        if name.endswith(("KeyRef", "MapRef")) or name in ("resourceClaimName", "resourceClaimTemplateName"):
            yield ".".join(here)
        if len(here) < 9:
            yield from names_in_pods(part, root, here)
    for part in (schema.get("items"), *schema.get("allOf", ()), *schema.get("anyOf", ())):
        if part:
            yield from names_in_pods(part, root, path)


def test_the_table_has_every_reference_of_a_pod() -> None:
    root = Catalog.bundled().schema("v1", "Pod")
    listed = {
        ".".join(step for step in steps if step != "[]")
        for kind, field in FIELDS
        if kind == PODS
        for steps in expand(field)
    }
    fields = {field for field in names_in_pods(root, root) if not field.startswith("status")}
    assert len(fields) > 25
    missing = {field for field in fields if not {field, f"{field}.name"} & listed}
    assert {field.rpartition(".")[2] for field in missing} == {"fileKeyRef", "volumeAttributesClassName"}


NAMESPACES = "".join(
    f"---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n"
    for name in ("team-cv", "team-nlp", "platform")
)
IN_FILES = {
    *(name for name, case in CASES.items() if case.check == "reference/path"),
    *("reference/project-repository", "reference/project-destination"),
}
"""Cases without an absent object."""
OF_CASES = {name: case for name, case in CASES.items() if case.family == "reference" and name not in IN_FILES}
IN_RELEASE = {
    "reference/cluster-class": "info",
    "reference/cluster-store": "info",
    "reference/project": "warning",
    "reference/role": "warning",
    "reference/secret": "warning",
    "reference/secret-of-pull": "warning",
    "reference/service-account-of-binding": "info",
}
"""Case → the severity in a complete release, if it is not an error."""


@pytest.mark.parametrize("name", OF_CASES)
def test_an_absent_object_is_an_error_only_in_a_complete_release(name: str) -> None:
    case = OF_CASES[name]
    manifests = read_all(case.bad + (NAMESPACES if "kind: Namespace\n" not in case.bad else ""))
    complete, loose = (
        {severity for check, severity, _ in findings(manifests, is_complete=is_complete) if check == case.check}
        for is_complete in (True, False)
    )
    expected = IN_RELEASE.get(name, "error")
    assert complete == {expected}
    assert loose == {"info" if expected == "info" else "warning"}
    good = read_all(case.good + NAMESPACES)
    assert findings(good, is_complete=True) == set()


def test_an_object_in_a_namespace_of_another_owner_is_no_error() -> None:
    manifests = read_all(CASES["reference/config-map"].bad)
    assert findings(manifests, is_complete=True) == {("reference/config-map", "warning", "setings")}


def job_with(volume: str) -> tuple[Manifest, ...]:
    return read_all(
        f"""apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: train, namespace: team-cv}}
spec:
  runtimeRef: {{name: torch}}
  runtimePatches:
  - manager: example.com/me
    trainingRuntimeSpec:
      template:
        spec:
          replicatedJobs:
          - name: node
            template: {{spec: {{template: {{spec: {{volumes: [{{name: data, {volume}}}]}}}}}}}}
{NAMESPACES}"""
    )


@pytest.mark.parametrize(
    ("volume", "check", "name"),
    [
        ("persistentVolumeClaim: {claimName: mine}", "reference/claim", "mine"),
        ("configMap: {name: mine}", "reference/config-map", "mine"),
        ("secret: {secretName: mine}", "reference/secret", "mine"),
    ],
)
def test_a_user_may_have_created_the_objects_of_a_job(volume: str, check: str, name: str) -> None:
    assert findings(job_with(volume), is_complete=True) == {(check, "warning", name)}


@pytest.mark.parametrize(
    "volume", ["secret: {secretName: train-mpi-ssh-auth}", "configMap: {name: train-mpi-hostfile}"]
)
def test_trainer_creates_the_objects_of_a_job(volume: str) -> None:
    assert findings(job_with(volume), is_complete=True) == set()


KUBECONFIG = """\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: policies, namespace: flux-system}
spec: {interval: 10m, prune: true, sourceRef: {kind: GitRepository, name: flux-system}, kubeConfig: {FIELD: {name: eu}}}
"""
FLUX = "apiVersion: v1\nkind: Namespace\nmetadata: {name: flux-system}\n"


@pytest.mark.parametrize(
    ("field", "kind", "check"),
    [("secretRef", "Secret", "reference/secret"), ("configMapRef", "ConfigMap", "reference/config-map")],
)
def test_the_kubeconfig_of_flux_is_missing_only_if_the_files_have_its_namespace(
    field: str, kind: str, check: str
) -> None:
    text = KUBECONFIG.replace("FIELD", field)
    created = f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: eu, namespace: flux-system}}\n"
    assert findings(read_all(text)) == set()
    assert findings(read_all(f"{text}---\n{FLUX}")) == {(check, "info", "eu")}
    assert findings(read_all(f"{text}---\n{FLUX}---\n{created}")) == set()


SERVING = "service.{}.openshift.io/serving-cert-secret-name"
BUNDLE = "trust.cert-manager.io/v1alpha1"
OF_OPERATORS = [
    ("bitnami.com/v1alpha1", "SealedSecret", "{metadata: {name: x}}", {"Secret": "x"}),
    ("cert-manager.io/v1", "Certificate", "{metadata: {name: c}, spec: {secretName: x}}", {"Secret": "x"}),
    (
        "networking.k8s.io/v1",
        "Ingress",
        "{metadata: {name: i, annotations: {cert-manager.io/issuer: ca}}, spec: {tls: [{secretName: x}]}}",
        {"Secret": "x"},
    ),
    ("networking.k8s.io/v1", "Ingress", "{metadata: {name: i}, spec: {tls: [{secretName: x}]}}", {}),
    ("v1", "Service", f"{{metadata: {{name: s, annotations: {{{SERVING.format('beta')}: x}}}}}}", {"Secret": "x"}),
    ("v1", "Service", f"{{metadata: {{name: s, annotations: {{{SERVING.format('alpha')}: x}}}}}}", {"Secret": "x"}),
    ("v1", "Service", "{metadata: {name: s}}", {}),
    (BUNDLE, "Bundle", "{metadata: {name: x}, spec: {target: {configMap: {key: a}}}}", {"ConfigMap": "x"}),
    (BUNDLE, "Bundle", "{metadata: {name: x}, spec: {target: {secret: {key: a}}}}", {"Secret": "x"}),
]


@pytest.mark.parametrize(("version", "kind", "rest", "created"), OF_OPERATORS)
def test_operators_create_the_objects_of_the_table(version: str, kind: str, rest: str, created: dict[str, str]) -> None:
    (manifest,) = read_all(f"---\napiVersion: {version}\nkind: {kind}\n{yaml.safe_dump(yaml.safe_load(rest))}")
    rows = creators()[Kind(manifest.group, manifest.kind)]
    assert {row.creates: name for row in rows for name in row.names(manifest.body)} == created


def test_an_object_without_a_namespace_can_be_in_any_namespace() -> None:
    text = CASES["reference/config-map"].base
    for place in ("ConfigMap", "Deployment"):
        documents = [
            part.replace(", namespace: team-cv", "") if f"kind: {place}\n" in part else part
            for part in text.split("---\n")
        ]
        assert findings(read_all("---\n".join(documents))) == set(), place


def rename(manifest: Manifest) -> Manifest:
    """Return an object with another name, which also creates objects of another name."""
    body = {**manifest.body, "metadata": {**manifest.body["metadata"], "name": f"{manifest.name}-renamed"}}
    if "target" in body.get("spec", {}):
        body["spec"] = {**body["spec"], "target": {"name": f"{manifest.name}-renamed"}}
    return replace(manifest, body=body)


def places(found: list[Reference]) -> set[tuple[str, str, str]]:
    return {(each.manifest.resource, ".".join(map(str, each.path)), each.name) for each in found}


@cache
def graph_of(name: str) -> tuple[Objects, list[Reference]]:
    objects = Objects(read_release(name), {}, is_complete=True)
    return objects, list(references(objects))


def named_in(name: str) -> dict[int, list[Reference]]:
    """Return the position of each object in a release that others name → the references to the object."""
    objects, found = graph_of(name)
    named: dict[int, list[Reference]] = {}
    for number, manifest in enumerate(objects.manifests):
        created = [Kind("", "Secret")] if manifest.kind == "ExternalSecret" else []
        kinds = {Kind(manifest.group, manifest.kind), *created}
        own = [
            each
            for each in found
            if each.name == manifest.name
            and each.target.identity in kinds
            and manifest.namespace in (each.namespaces or {manifest.namespace})
        ]
        if own:
            named[number] = own
    return named


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_release_has_all_objects_that_it_names(name: str) -> None:
    _, found = graph_of(name)
    absent = [each for each in found if each.state is State.ABSENT and each.link.most != "info"]
    assert found
    assert absent == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_renamed_object_breaks_exactly_the_references_to_it(name: str) -> None:
    objects, before = graph_of(name)
    sound = places([each for each in before if each.state is State.PRESENT])
    named = named_in(name)
    assert len(named) > 10
    for number, own in named.items():
        renamed = [rename(each) if place == number else each for place, each in enumerate(objects.manifests)]
        after = references(replace(objects, manifests=tuple(renamed)))
        broken = sound - places([each for each in after if each.state is State.PRESENT])
        moved = {place for place in broken if place[0] == objects.manifests[number].resource}
        assert broken - moved == places(own) - moved, objects.manifests[number].resource


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_renamed_object_is_a_finding(name: str) -> None:
    """Rename the first object of each kind: every other object that names it is a finding at the place of the name.

    A subject of a binding is no finding if no file has its namespace, such as the account of Flux.
    """
    objects, _ = graph_of(name)
    namespaces = {item.name for item in objects.manifests if item.kind == "Namespace"}
    first = {objects.manifests[number].kind: number for number in reversed(named_in(name))}
    for kind, number in first.items():
        renamed = [rename(each) if place == number else each for place, each in enumerate(objects.manifests)]
        reported = {
            (manifest.resource, str(breach.value)) for manifest, breach in judge_together(renamed, {}, files=())
        }
        own = {
            (each.manifest.resource, each.name)
            for each in named_in(name)[number]
            if each.manifest.kind != kind and (each.link.most != "info" or each.namespaces <= namespaces)
        }
        assert own <= reported, objects.manifests[number].resource


def test_a_release_has_one_graph() -> None:
    objects, found = graph_of(EXAMPLES[0])
    graph = objects.view(Graph.read)
    assert graph.references is objects.view(Graph.read).references
    assert {each.identities[0][0] for each in found} >= {"", "rbac.authorization.k8s.io", "kueue.x-k8s.io"}


def test_an_application_that_its_project_forbids_is_an_error_in_any_files() -> None:
    for name in ("reference/project-repository", "reference/project-destination"):
        assert {severity for _, severity, _ in findings(read_all(CASES[name].bad))} == {"error"}


@pytest.mark.parametrize(
    ("entry", "is_allowed"),
    [
        ("{server: https://kubernetes.default.svc, namespace: team-cv}", True),
        ("{server: '*', namespace: 'team-*'}", True),
        ("{name: in-cluster, namespace: team-cv}", True),
        ("{server: 'https://{kubernetes,openshift}.default.svc', namespace: team-cv}", True),
        ("{server: 'https://{a,b}', namespace: team-cv}", False),
        ("{server: '!https://prod', namespace: team-cv}", True),
        ("{server: https://prod, namespace: team-cv}", False),
        ("{server: '*', namespace: ''}", False),
        ("{namespace: team-cv}", False),
    ],
)
def test_a_destination_is_compared_as_argo_cd_does(entry: str, *, is_allowed: bool) -> None:
    text = CASES["reference/project"].base.replace('{server: https://kubernetes.default.svc, namespace: "*"}', entry)
    assert entry in text
    assert bool(findings(read_all(text))) != is_allowed


@pytest.mark.parametrize(
    ("pattern", "is_allowed"),
    [
        ("git@git.example.com:ml.git", False),
        ("https://git.example.com/ML", True),
        ("https://git.example.com/*", True),
        ("https://*.example.com/ml.git", True),
        ("'!https://git.example.com/other.git'", True),
        ("https://git.example.com/mls.git", False),
    ],
)
def test_a_repository_is_compared_as_argo_cd_does(pattern: str, *, is_allowed: bool) -> None:
    base = CASES["reference/project"].base
    text = base.replace("sourceRepos: [https://git.example.com/ml.git]", f"sourceRepos: [{pattern}]")
    assert text != base or pattern == "https://git.example.com/ml.git"
    assert bool(findings(read_all(text))) != is_allowed


def test_an_empty_key_is_no_field() -> None:
    """An empty step of the tree has the values of the field."""
    assert find(build_tree([("spec.name", "leaf")]), {"spec": {"name": {"": "x"}}}) == []


def test_the_only_source_of_a_release_is_missed_only_in_a_complete_release() -> None:
    """Outside of a release, the source is often in the repository with which an admin installed Flux."""
    base = CASES["reference/flux"].base
    manifests = tuple(item for item in read_all(base) if item.kind == "Kustomization")
    assert findings(manifests) == set()
    assert findings(manifests, is_complete=True) == {("reference/flux", "error", "platform")}
    elsewhere = read_all(base.replace("OCIRepository, name: platform", "GitRepository, name: flux-system"))
    assert findings(elsewhere, is_complete=True) == set()
