"""Test merges, JSON patches and selections, and the mistakes that a run of patches finds."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.errors import ConfigError
from generator.manifests import Manifest
from generator.patches.apply import Patch, Patching, find_changes
from generator.patches.merge import PatchError, keys_of, merge
from generator.patches.operations import apply_operations, is_equal, write_pointer
from generator.patches.select import Selection, select

KEYS = st.sampled_from(["a", "b", "c/d", "e~f", ""])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["x", "y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, JSON, max_size=4)
RUNTIME: dict[str, Any] = {
    "kind": "ClusterTrainingRuntime",
    "metadata": {"name": "mpi"},
    "spec": {
        "template": {
            "spec": {
                "replicatedJobs": [
                    {"name": name, "template": {"spec": {"template": {"spec": {"containers": [container]}}}}}
                    for name, container in (
                        ("node", {"name": "node", "image": "a", "env": [{"name": "A", "value": "1"}], "args": ["x"]}),
                        ("launcher", {"name": "node", "image": "a"}),
                    )
                ]
            }
        }
    },
}


def of_node(*containers: dict[str, Any]) -> dict[str, Any]:
    """Return a patch of the containers of the job `node`."""
    job = {"name": "node", "template": {"spec": {"template": {"spec": {"containers": list(containers)}}}}}
    return {"spec": {"template": {"spec": {"replicatedJobs": [job]}}}}


def containers_of(body: dict[str, Any], job: int = 0) -> list[dict[str, Any]]:
    pod = body["spec"]["template"]["spec"]["replicatedJobs"][job]["template"]["spec"]["template"]["spec"]
    found: list[dict[str, Any]] = pod["containers"]
    return found


def test_a_merge_keeps_the_other_containers_variables_and_jobs() -> None:
    patch = of_node({"name": "node", "env": [{"name": "B", "value": "2"}], "args": ["y"]}, {"name": "log"})
    before = copy.deepcopy(RUNTIME)
    merged = merge(RUNTIME, patch)
    node, log = containers_of(merged)
    assert node["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    assert (node["image"], node["args"], log) == ("a", ["y"], {"name": "log"})
    assert containers_of(merged, 1) == containers_of(RUNTIME, 1)
    assert before == RUNTIME


def test_a_merge_deletes_keys_and_items() -> None:
    patch = of_node({"name": "node", "image": None, "env": [{"name": "A", "$patch": "delete"}]})
    assert containers_of(merge(RUNTIME, patch))[0] == {"name": "node", "env": [], "args": ["x"]}


@pytest.mark.parametrize(
    ("patch", "message", "path"),
    [
        (of_node({"image": "b"}), "an item of `containers` has no `name`", "containers"),
        (of_node({"name": "log", "$patch": "delete"}), "`containers` has no item with `name: log`", "containers"),
        ({"spec": {"$patch": "replace"}}, "`$patch: replace` has no effect here", "$patch"),
        ({"spec": {"$retainKeys": []}}, "`$retainKeys: a list` has no effect here", "$retainKeys"),
    ],
)
def test_a_merge_that_does_not_fit_is_rejected(patch: dict[str, Any], message: str, path: str) -> None:
    with pytest.raises(PatchError) as caught:
        merge(RUNTIME, patch)
    assert message in caught.value.message
    assert path in caught.value.path


def test_lists_of_other_kinds_are_replaced() -> None:
    policy = {"kind": "NetworkPolicy", "spec": {"egress": [{"ports": [{"port": 1}]}, {}]}}
    assert merge(policy, {"spec": {"egress": [{}]}})["spec"] == {"egress": [{}]}
    assert keys_of("NetworkPolicy") == {}
    assert keys_of("Pod")["spec", "containers", "env"] == "name"
    assert keys_of("CronJob")["spec", "jobTemplate", "spec", "template", "spec", "volumes"] == "name"


@given(OBJECTS, OBJECTS)
def test_an_empty_patch_changes_nothing_and_a_merge_is_idempotent(body: dict[str, Any], patch: dict[str, Any]) -> None:
    assert merge(body, {}) == body
    assert apply_operations(body, []) == body
    once = merge(body, patch)
    assert is_equal(merge(once, patch), once)
    assert not list(find_changes(once, merge(once, patch)))


@given(OBJECTS, OBJECTS)
def test_an_object_differs_if_and_only_if_a_path_changes(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert bool(list(find_changes(one, other))) is not is_equal(one, other)


@given(OBJECTS, st.data())
def test_remove_undoes_add(body: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from([*body, "new"]))
    pointer = write_pointer([key])
    added = apply_operations(body, [{"op": "add", "path": pointer, "value": 7}])
    assert added == {**body, key: 7}
    assert apply_operations(added, [{"op": "test", "path": pointer, "value": 7.0}]) == added
    assert apply_operations(added, [{"op": "remove", "path": pointer}]) == {k: v for k, v in body.items() if k != key}


# RFC 6902 appendix A: document, operation, result (None for an error).
RFC: list[tuple[Any, dict[str, Any], Any]] = [
    ({"foo": "bar"}, {"op": "add", "path": "/baz", "value": "qux"}, {"baz": "qux", "foo": "bar"}),
    ({"foo": ["a", "b"]}, {"op": "add", "path": "/foo/1", "value": "x"}, {"foo": ["a", "x", "b"]}),
    ({"baz": "qux", "foo": "bar"}, {"op": "remove", "path": "/baz"}, {"foo": "bar"}),
    ({"foo": ["a", "x", "b"]}, {"op": "remove", "path": "/foo/1"}, {"foo": ["a", "b"]}),
    ({"baz": "qux"}, {"op": "replace", "path": "/baz", "value": "boo"}, {"baz": "boo"}),
    (
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        {"op": "move", "from": "/foo/waldo", "path": "/qux/thud"},
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    ({"foo": [1, 2, 3, 4]}, {"op": "move", "from": "/foo/1", "path": "/foo/3"}, {"foo": [1, 3, 4, 2]}),
    ({"baz": "qux"}, {"op": "test", "path": "/baz", "value": "qux"}, {"baz": "qux"}),
    ({"baz": "qux"}, {"op": "test", "path": "/baz", "value": "bar"}, None),
    ({"foo": "bar"}, {"op": "add", "path": "/baz/bat", "value": "qux"}, None),
    ({"/": 9, "~1": 10}, {"op": "test", "path": "/~01", "value": 10}, {"/": 9, "~1": 10}),
    ({"/": 9, "~1": 10}, {"op": "test", "path": "/~01", "value": "10"}, None),
    ({"foo": ["bar"]}, {"op": "add", "path": "/foo/-", "value": ["abc"]}, {"foo": ["bar", ["abc"]]}),
    ({"foo": [1]}, {"op": "add", "path": "/foo/2", "value": 1}, None),
    ({"foo": [1]}, {"op": "add", "path": "/foo/01", "value": 1}, None),
    ({"foo": [1]}, {"op": "remove", "path": "/foo/-"}, None),
    ({"foo": 1}, {"op": "test", "path": "/foo", "value": True}, None),
    ({"foo": {"a": 1}}, {"op": "copy", "from": "/foo", "path": "/foo/b"}, {"foo": {"a": 1, "b": {"a": 1}}}),
    ({"foo": {"a": 1}}, {"op": "move", "from": "/foo", "path": "/foo/b"}, None),
    ({"foo": 1}, {"op": "replace", "path": "", "value": [1]}, None),
]


@pytest.mark.parametrize(("body", "operation", "expected"), RFC)
def test_operations_follow_rfc_6902(body: dict[str, Any], operation: dict[str, Any], expected: Any) -> None:
    before = copy.deepcopy(body)
    if expected is None:
        with pytest.raises(PatchError):
            apply_operations(body, [operation])
    else:
        assert apply_operations(body, [operation]) == expected
    assert body == before


def a_map(name: str, file: str = "cluster/x.yaml", **metadata: Any) -> Manifest:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"k": "v"}}
    return Manifest(body, file)


TREE = [
    a_map("np-one", namespace="team-a"),
    a_map("two", "tenants/team-a/x.yaml", labels={"a": "b"}),
    Manifest(RUNTIME, "cluster/runtimes/mpi.yaml"),
]


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        (Selection(kind="ConfigMap"), ["np-one", "two"]),
        (Selection(name="np-*"), ["np-one"]),
        (Selection(name="*o*"), ["np-one", "two"]),
        (Selection(name="np"), []),
        (Selection(name="t.o"), []),
        (Selection(tenant="team-a"), ["np-one", "two"]),
        (Selection(tenant="team-a", labels={"a": "b"}), ["two"]),
        (Selection(labels={"a": "c"}), []),
        (Selection(runtime="mpi"), ["mpi"]),
    ],
)
def test_a_selection_matches_every_attribute(selection: Selection, names: list[str]) -> None:
    assert [item.name for item in TREE if selection.matches(item, {"team-a": "team-a"})] == names


def test_copies_cannot_grow_without_end() -> None:
    copies = [{"op": "copy", "from": "/x", "path": f"/x/{number}"} for number in range(64)]
    with pytest.raises(PatchError, match="copy more than 3145728 bytes"):
        apply_operations({"x": {"a": "b"}}, copies)


def test_select_needs_an_argument() -> None:
    assert select(kind="Pod", labels={"a": "b"}) == Selection("Pod", labels={"a": "b"})
    with pytest.raises(ValueError, match="without arguments"):
        select()


def run(*patches: tuple[Selection, Any]) -> list[Manifest]:
    """Apply patches to the tree, and check them."""
    patching = Patching(
        [Patch(target, change, ("patches", number)) for number, (target, change) in enumerate(patches)],
        {"team-a": "team-a"},
    )
    tree = patching.apply(TREE)
    patching.check(tree)
    return tree


def mistakes(*patches: tuple[Selection, Any]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        run(*patches)
    return [str(problem) for problem in caught.value.problems]


MAPS, TWO = Selection(kind="ConfigMap"), Selection(name="two")


def test_an_object_without_a_patch_is_the_same() -> None:
    tree = run((TWO, {"data": {"k": "w"}}))
    assert [item is old for item, old in zip(tree, TREE, strict=True)] == [True, False, True]
    assert tree[1].body["data"] == {"k": "w"}


def fails(_: dict[str, Any]) -> dict[str, Any]:
    raise KeyError("k")


@pytest.mark.parametrize(
    ("patches", "expected"),
    [
        ([(Selection(kind="ConfgMap"), {"a": 1})], ["patches[0].target: no object of the release has kind `ConfgMap`"]),
        ([(Selection(kind="ConfigMap", name="tow"), {"a": 1})], ["`name`: did you mean `two`?"]),
        ([(Selection(kind="ConfigMap", labels={"x": "y"}), {"a": 1})], ["correct `labels`"]),
        ([(TWO, {"data": {"j": None}})], ["patches[0]: this patch changes nothing"]),
        ([(TWO, {"data": {"k": "v"}})], ["patches[0]: this patch changes nothing"]),
        ([(TWO, {"metadata": {"name": "x"}})], ["a patch cannot change `metadata.name` from `two` to `x`"]),
        ([(TWO, {"kind": "Secret"})], ["a patch cannot change `kind` from `ConfigMap` to `Secret`"]),
        ([(MAPS, {"metadata": {"namespace": "b"}})], ["cannot change `metadata.namespace`", "two: a patch cannot"]),
        ([(TWO, {"metadata": None})], ["a patch cannot change `metadata.name` from `two` to null"]),
        ([(TWO, {"metadata": {"labels": ["a"]}})], ["sets `metadata.labels` to a list"]),
        ([(MAPS, {"data": {"k": 1}}), (MAPS, {"data": {"k": 2}})], ["`patches[1]` overrides all that this patch sets"]),
        (
            [(MAPS, [{"op": "replace", "path": "/data/j", "value": 1}]), (TWO, {"x": {"$patch": "replace"}})],
            ["patches[0].json[0].path: ConfigMap team-a/np-one and ConfigMap two: `/data/j`", "patches[1].merge.x"],
        ),
        ([(TWO, fails)], ["`fails` (", "test_patches.py:", "KeyError: 'k'; correct the function"]),
        ([(TWO, lambda _: None)], ["returns None, not an object; return the changed object"]),
        ([(TWO, lambda body: {**body, "x": float("nan")})], ["not plain data: Out of range float values"]),
        ([(TWO, lambda body: {**body, "kind": "x"})], ["a patch cannot change `kind`"]),
        ([(TWO, lambda body: body)], ["this patch changes nothing"]),
    ],
)
def test_a_mistake_has_its_place_and_its_fix(patches: list[tuple[Selection, Any]], expected: list[str]) -> None:
    text = "\n".join(mistakes(*patches))
    assert [part for part in expected if part not in text] == []


def test_a_later_patch_can_override_a_part_of_an_earlier_one() -> None:
    tree = run((MAPS, {"data": {"k": "all"}}), (TWO, {"data": {"k": "one"}}))
    assert [item.body["data"] for item in tree[:2]] == [{"k": "all"}, {"k": "one"}]


def test_a_function_cannot_change_the_object_itself() -> None:
    def change(body: dict[str, Any]) -> dict[str, Any]:
        body["data"]["k"] = "w"
        return body

    assert run((TWO, change))[1].body["data"] == {"k": "w"}
    assert TREE[1].body["data"] == {"k": "v"}
