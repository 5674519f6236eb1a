"""Test that every check reports its bad fixture at its line, and passes the good one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from generator.checks import registry
from generator.checks.finding import Finding
from generator.checks.run import Checked, check_rendered, check_text
from generator.manifests import Manifest, write
from generator.report.json import render
from generator.report.result import Result
from generator.report.text import plain
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine

GOOD = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata:
  name: default
  namespace: team-a
spec:
  clusterQueue: team-a
  stopPolicy: None
"""
TWICE = "MultiKueueConfig\nmetadata:\n  name: default\nspec:\n  clusters: [a, a]\n"
INGRESS = """\
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: board
  annotations: {kubernetes.io/ingress.class: nginx}
spec: {defaultBackend: {service: {name: board, port: {number: 80}}}}
"""
TWO_KEYS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: b}\nbinaryData: {a: Yg==}\n"
KEPT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, finalizers: [keep]}\n"
OWNER = "{apiVersion: v1, kind: X, name: x, uid: u}"
# check → how to spoil the good one, and where the finding belongs
LARGE = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: a, namespace: b}\nspec: {hard: {pods: 9Ei}}\n"
SLOPPY = """\
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: a, namespace: b}
addressType: IPv4
endpoints: [{addresses: [010.0.0.1]}]
"""
NAMED = """\
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.metrics.example.com}
spec: {group: metrics.example.com, version: v1beta1, groupPriorityMinimum: 100, versionPriority: 100}
"""
BAD = {
    "yaml/unreadable": (("kind: LocalQueue", "kind: [LocalQueue"), (3, 9)),
    "schema/not-an-object": (("kind: LocalQueue\n", ""), (1, 1)),
    "schema/no-schema": (("v1beta2", "v1beta9"), (2, 7)),
    "schema/removed-version": (("kueue.x-k8s.io/v1beta2\nkind: LocalQueue", "batch/v1beta1\nkind: CronJob"), (1, 13)),
    "schema/deprecated-version": (("v1beta2", "v1beta1"), (1, 13)),
    "schema/deprecated-field": ((GOOD, INGRESS), (5, 17)),
    "schema/unknown-field": (("stopPolicy", "stopPolicies"), (8, 3)),
    "schema/missing-field": (("metadata:\n", "metadata:\n  ownerReferences: [{kind: X, name: x, uid: u}]\n"), (4, 21)),
    "schema/wrong-type": (("clusterQueue: team-a", "clusterQueue: 7"), (7, 17)),
    "schema/not-allowed": (("stopPolicy: None", "stopPolicy: Nones"), (8, 15)),
    "schema/duplicate-item": (("metadata:\n", f"metadata:\n  ownerReferences: [{OWNER}, {OWNER}]\n"), (4, 65)),
    "schema/rule": ((GOOD[GOOD.index("LocalQueue") :], TWICE), (6, 3)),
    "schema/null": (("clusterQueue: team-a", "clusterQueue:"), (7, 3)),
    "object/address": ((GOOD, SLOPPY), (5, 26)),
    "object/data": ((GOOD, TWO_KEYS), (4, 8)),
    "object/metadata": ((GOOD, KEPT), (3, 34)),
    "object/required-name": ((GOOD, NAMED), (3, 18)),
    "object/too-large-amount": ((GOOD, LARGE), (4, 21)),
    "object/unnamed": (("  name: default\n", ""), (3, 1)),
}
ONLY_IN_A_RELEASE = {"object/duplicate", "object/no-namespace", "object/not-namespaced"}
OF_SEVERAL_OBJECTS = {"object/misspelt-device", "object/missing-namespace", "object/placeholder", "yaml/not-rendered"}


def found(text: str) -> list[Finding]:
    return check_text(text.encode(), "queue.yaml", Engine(Catalog.bundled())).in_order()


def rendered(*bodies: dict[str, object]) -> list[Finding]:
    manifests = [Manifest(body, f"{number}.yaml") for number, body in enumerate(bodies)]
    return check_rendered(manifests, write(manifests), Catalog.bundled()).in_order()


def config_map(**metadata: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def test_the_good_fixture_has_no_findings() -> None:
    assert found(GOOD) == []


def test_every_check_has_a_bad_fixture() -> None:
    known = {each.id for each in registry.checks() if each.family in ("yaml", "schema", "object")}
    assert known == {*BAD, *ONLY_IN_A_RELEASE, *OF_SEVERAL_OBJECTS}


@pytest.mark.parametrize("check", BAD)
def test_a_bad_fixture_has_a_location_reason_and_fix(check: str) -> None:
    (before, after), place = BAD[check]
    assert before in GOOD
    (finding,) = found(GOOD.replace(before, after))
    assert (finding.check, (finding.line, finding.column)) == (check, place)
    assert finding.message
    assert finding.why
    assert finding.fix


def test_annotations_have_at_most_256_kibibytes_with_their_keys() -> None:
    name, size = "metadata:\n", 256 * 1024 - len("a")
    assert found(GOOD.replace(name, f"{name}  annotations: {{a: '{'x' * size}'}}\n")) == []
    (finding,) = found(GOOD.replace(name, f"{name}  annotations: {{a: '{'x' * size}y'}}\n"))
    assert (finding.check, finding.line, finding.path) == ("object/metadata", 4, "$.metadata.annotations")
    assert finding.message == "the annotations have 262145 bytes, but an object can have 262144"


def test_a_similar_value_is_suggested() -> None:
    (finding,) = found(GOOD.replace("stopPolicy: None", "stopPolicy: Hould"))
    assert finding.fix == "did you mean `Hold`?"


def test_generate_name_and_access_reviews_need_no_name() -> None:
    assert found(GOOD.replace("name: default", "generateName: queue-")) == []
    review = "apiVersion: authorization.k8s.io/v1\nkind: SelfSubjectAccessReview\nspec: {}\n"
    assert found(review) == []


def test_a_duplicate_object_is_reported_at_its_second_place() -> None:
    here, there = config_map(name="a", namespace="x"), config_map(name="a", namespace="y")
    assert rendered(here, there) == []
    (finding,) = rendered(here, there, here)
    assert (finding.check, finding.file, finding.message) == (
        "object/duplicate",
        "2.yaml",
        "an object with the same kind, namespace and name is also in 0.yaml",
    )


def test_a_namespaced_object_of_a_release_needs_a_namespace() -> None:
    (finding,) = rendered(config_map(name="a"))
    assert (finding.check, finding.line) == ("object/no-namespace", 4)
    assert rendered({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}) == []
    assert found("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n") == []  # kubectl -n says it


def test_a_namespace_on_a_cluster_scoped_object_is_reported_and_ignored() -> None:
    here: dict[str, object] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}
    there = {**here, "metadata": {"name": "a", "namespace": "x"}}
    duplicate, misplaced = rendered(here, there)
    assert (duplicate.check, duplicate.file) == ("object/duplicate", "1.yaml")
    assert (misplaced.check, misplaced.path, misplaced.value) == (
        "object/not-namespaced",
        "$.metadata.namespace",
        "x",
    )
    assert misplaced.message == "a Namespace is cluster-scoped, but `metadata.namespace` is `x`"


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("a: 1\n", (1, 1), "`apiVersion` and `kind` are missing"),
        ("kind: Pod\n", (1, 1), "`apiVersion` is missing"),
        ("kind: Pod\napiVersion: 1\n", (2, 13), "`apiVersion` is `1`, not a string"),
        ("apiVersion: v1\nkind: [a]\n", (2, 1), "`kind` is a list, not a string"),
        ("- a\n", (1, 1), "a document is a list, not an object"),
        ("hello\n", (1, 1), "a document is `hello`, not an object"),
        ("kind: List\nitems:\n- 7\n", (3, 3), "an item is `7`, not an object"),
    ],
)
def test_a_document_without_an_object_has_a_specific_message(text: str, place: tuple[int, int], message: str) -> None:
    (finding,) = found(text)
    assert (finding.check, (finding.line, finding.column), finding.message) == ("schema/not-an-object", place, message)


def test_documents_after_an_invalid_document_are_checked() -> None:
    first, second = found(f"- a\n---\n{GOOD.replace('stopPolicy', 'stopPolicies')}")
    assert (first.check, second.check, second.line) == ("schema/not-an-object", "schema/unknown-field", 10)


def test_a_finding_has_a_shortened_value() -> None:
    (number,) = found(GOOD.replace("clusterQueue: team-a", "clusterQueue: 7"))
    (text, longest) = (found(GOOD.replace("stopPolicy: None", f"stopPolicy: {'x' * n}"))[0] for n in (201, 200))
    (absent,) = found(GOOD.replace("metadata:\n", "metadata:\n  ownerReferences: [{kind: X, name: x, uid: u}]\n"))
    assert (number.value, absent.value) == (7, None)
    assert (text.value, longest.value) == (f"{'x' * 199}…", "x" * 200)
    (unknown,) = found(GOOD.replace("stopPolicy: None", "more: {a: [1]}"))
    assert json.loads(render(Result(findings=[unknown])))["findings"][0]["value"] == {"a": [1]}


def test_findings_with_unorderable_values_are_sorted() -> None:
    (finding,) = found(GOOD.replace("stopPolicy: None", "more: {a: [1]}"))
    both = [replace(finding, value={}), replace(finding, value=1)]
    assert len(Checked(findings=both).in_order()) == 1


def test_findings_contain_no_terminal_escapes() -> None:
    findings = found(GOOD.replace("name: default", r'name: "a\e[2Jb"').replace("stopPolicy", r'"x\e[1A"'))
    assert [finding.path for finding in findings] == ["$.metadata.name", r'$.spec["x\x1b[1A"]']
    for finding in findings:
        assert "\x1b" not in plain(finding)
        assert "a\\x1b[2Jb" in plain(finding)


def test_a_key_that_looks_like_a_number_is_a_key() -> None:
    (finding,) = found("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: w, labels: {'0': 8}}\n")
    assert (finding.check, finding.path, finding.line) == ("schema/wrong-type", "$.metadata.labels.0", 3)
