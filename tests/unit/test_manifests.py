"""Test that an object and its location are the same in every YAML form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generator.documents.locate import locate
from generator.errors import DocumentError
from generator.manifests import Head, Manifest, omit_none, read, read_needed, write
from tests.conftest import ROOT

NAMES = st.sampled_from(["a", "team-a", "yes", "1e3", "kube-system"])
bodies = st.fixed_dictionaries(
    {"apiVersion": st.sampled_from(["v1", "batch/v1"]), "kind": st.sampled_from(["Job", "ConfigMap"])},
    optional={
        "metadata": st.dictionaries(st.sampled_from(["name", "namespace"]), NAMES),
        "data": st.dictionaries(NAMES, st.text(max_size=5)),
    },
)
manifests = st.builds(Manifest, body=bodies, file=st.sampled_from(["a.yaml", "b/a.yaml", "b/c.yaml"]))

JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "team-a"}}


def test_an_object_has_a_unique_identity() -> None:
    job = Manifest(JOB, "a.yaml")
    assert job.identity == ("batch", "Job", "team-a", "train")
    assert (job.api_version, job.group, job.resource) == ("batch/v1", "batch", "Job team-a/train")


@pytest.mark.parametrize(
    ("body", "identity", "resource"),
    [
        (
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},
            ("", "Namespace", "", "a"),
            "Namespace a",
        ),
        ({}, ("", "", "", ""), "object"),
        ({"kind": "Job"}, ("", "Job", "", ""), "Job"),
        ({"kind": 7, "apiVersion": [], "metadata": "x"}, ("", "", "", ""), "object"),
        ({"metadata": {"name": {}, "namespace": None}}, ("", "", "", ""), "object"),
    ],
)
def test_missing_or_malformed_identity_fields_are_empty(
    body: dict[str, Any], identity: tuple[str, ...], resource: str
) -> None:
    assert Manifest(body, "a.yaml").identity == identity
    assert Manifest(body, "a.yaml").resource == resource


def test_documents_keep_their_index_and_empty_ones_are_skipped() -> None:
    text = "# only a comment\n---\n---\nkind: A\n---\n\n---\nkind: B\n---\n"
    assert [(each.kind, each.index) for each in read(text, "f")] == [("A", 1), ("B", 3)]
    assert list(read("", "f")) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\na: 2\n", "f.yaml:2:1: the key `a` appears twice in this mapping; remove one of the two"),
        (
            "kind: A\n---\nb: [c\n",
            "f.yaml:3:4: the `[` on line 3 is not closed; add the missing `,` between two items, or",
        ),
    ],
)
def test_invalid_yaml_is_rejected_with_file_and_location(text: str, said: str) -> None:
    with pytest.raises(DocumentError) as caught:
        list(read(text, "f.yaml"))
    assert str(caught.value).startswith(said)


def test_documents_without_an_object_are_described_and_later_ones_are_read() -> None:
    found = list(read("- a\n---\nhello\n---\ntrue\n---\nkind: A\n", "f"))
    assert [(each.index, each.kind, each.instead) for each in found] == [
        (0, "", "a list"),
        (1, "", "`hello`"),
        (2, "", "`true`"),
        (3, "A", ""),
    ]


def test_objects_before_an_invalid_document_are_returned() -> None:
    found = read("kind: A\n---\nb: [c\n", "f.yaml")
    assert next(found).kind == "A"


def test_nested_lists_are_expanded() -> None:
    job = json.dumps(JOB)
    text = f"kind: List\nitems:\n- {job}\n- kind: List\n  items:\n  - {job}\n  - kind: ConfigMap\n- nothing\n"
    assert [(each.kind, each.inside) for each in read(text, "f")] == [
        ("Job", ("items", 0)),
        ("Job", ("items", 1, "items", 0)),
        ("ConfigMap", ("items", 1, "items", 1)),
        ("", ("items", 2)),
    ]


def test_items_of_a_typed_list_inherit_its_kind() -> None:
    text = "apiVersion: v1\nkind: SecretList\nitems:\n- data: {}\n- {kind: ConfigMap}\n- {apiVersion: v2, kind: A}\n"
    found = [(each.api_version, each.kind) for each in read(text, "f")]
    assert found == [("v1", "Secret"), ("", "ConfigMap"), ("v2", "A")]
    assert [each.kind for each in read("kind: List\nitems:\n- data: {}\n", "f")] == [""]


@pytest.mark.parametrize(
    "text", ["kind: Playlist\nspec: {items: [a]}\n", "kind: ConfigMapList\nitems: {}\n", "kind: Menu\nitems: [a]\n"]
)
def test_kinds_that_only_resemble_a_list_are_one_object(text: str) -> None:
    assert len(list(read(text, "f"))) == 1


def test_a_path_in_a_list_item_is_located_in_the_file() -> None:
    text = "kind: A\n---\nkind: List\nitems:\n- kind: B\n- kind: C\n  spec:\n    x: 1\n"
    *_, last = read(text, "f")
    assert locate(text, last.index, last.inside) == (6, 3)
    assert locate(text, last.index, (*last.inside, "spec", "x")) == (8, 8)
    assert locate(text, last.index, (*last.inside, "spec", "missing")) == (7, 3)


@settings(deadline=None)
@given(st.lists(manifests, max_size=6))
def test_written_manifests_are_read_back_in_the_same_order(given: list[Manifest]) -> None:
    files = write(given)
    assert list(files) == sorted({each.file for each in given})
    for file, text in files.items():
        assert [each.body for each in read(text, file)] == [each.body for each in given if each.file == file]
    assert write(given) == files


@settings(deadline=None, max_examples=30)
@given(st.lists(manifests, min_size=1, max_size=4))
def test_bytes_and_strings_are_read_alike(given: list[Manifest]) -> None:
    for file, text in write(given).items():
        assert list(read(text.encode(), file)) == list(read(text, file))


def test_optional_fields_are_omitted_at_any_depth_and_zero_values_stay() -> None:
    given = {"a": None, "b": [{"c": None, "d": 0}], "e": {"f": None}, "g": False, "h": ""}
    assert omit_none(given) == {"b": [{"d": 0}], "e": {}, "g": False, "h": ""}
    assert given["b"] == [{"c": None, "d": 0}]


def test_documents_are_read_lazily(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    file.write_text("---\nkind: ConfigMap\n" * 20_000 + "---\nx: [\n", "utf-8")
    found = read(file.read_bytes(), str(file))
    assert [next(found).index for _ in range(3)] == [0, 1, 2]


def is_needed(head: Head) -> bool:
    return head.namespace == "team-a" or head.kind == "ConfigMap"


@pytest.mark.parametrize("file", sorted((ROOT / "output/university").rglob("*.yaml")), ids=lambda file: file.name)
def test_needed_objects_are_read_and_others_left_out(file: Path) -> None:
    text = file.read_bytes()
    namespaces = {"aero"}
    expected = [
        item
        for item in read(text, "f")
        if item.namespace in ("", *namespaces) or item.kind not in ("RoleBinding", "NetworkPolicy", "LimitRange")
    ]
    needed = read_needed(
        text,
        "f",
        lambda head: head.namespace in namespaces or head.kind not in ("RoleBinding", "NetworkPolicy", "LimitRange"),
    )
    assert needed == expected


HEAD = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\n"


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (f"{HEAD}  namespace: team-b\n", []),
        (f"# a comment\n---\n# another\n{HEAD}  namespace: team-b\n---\n{HEAD}  namespace: team-a\n", [("Secret", 1)]),
        (f"---\n{HEAD}  namespace: team-b\n---\n---\nkind: A\n", [("Secret", 0), ("A", 2)]),
        (f"{HEAD}  namespace: on\n", [("Secret", 0)]),  # a boolean
        (f"{HEAD}  labels: {{}}\n  namespace: team-b\n", [("Secret", 0)]),
        (f"{HEAD}  namespace: team-b\n...\n---\nkind: A\n", [("Secret", 0), ("A", 1)]),
        (f"{HEAD}  namespace: team-b\n--- # c\nkind: A\n", [("Secret", 0), ("A", 1)]),
        (f"{HEAD}  namespace: team-b\n---\n&a kind: A\n--- # c\nkind: B\n", [("Secret", 0), ("A", 1), ("B", 2)]),
        (f"{HEAD}  namespace: team-b\ndata: |\n  ---\n", []),
        ("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: team-b\n", []),
        ("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: team-a\n", [("Namespace", 0)]),
        ("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: on\n", [("Namespace", 0)]),
        ("apiVersion: example.com/v1\nkind: Namespace\nmetadata:\n  name: team-b\n", [("Namespace", 0)]),
    ],
)
def test_only_whole_documents_in_the_form_of_mpigen_are_left_out(text: str, kinds: list[tuple[str, int]]) -> None:
    assert [(item.kind, item.index) for item in read_needed(text.encode(), "f", is_needed)] == kinds


def test_a_literal_block_at_the_end_of_a_document_keeps_its_line_break() -> None:
    text = f"{HEAD}  namespace: team-b\n---\nkind: A\ndata: |\n  a\n---\nkind: B\ndata: |\n  b\n".encode()
    assert read_needed(text, "f", is_needed) == list(read(text, "f"))[1:]


def test_an_error_in_a_needed_document_has_its_line() -> None:
    text = f"{HEAD}  namespace: team-b\n---\nkind: A\nkind: B\n".encode()
    with pytest.raises(DocumentError) as caught:
        read_needed(text, "f", is_needed)
    assert caught.value.problems[0].line == 8
