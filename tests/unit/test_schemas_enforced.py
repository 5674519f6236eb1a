"""Test the rules of the API server beyond OpenAPI, with location and message of each violation."""

from __future__ import annotations

import pytest

from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from generator.schemas.json_schema import add_demands, contains_null, find_repeated_items, narrow, reject_nulls
from tests.unit.test_schemas_embedded import Body, changed

CONTAINER = "spec.containers.0"
PROBE, LIMITS, RESTART = (
    f"{CONTAINER}.livenessProbe",
    f"{CONTAINER}.resources.limits",
    "spec.template.spec.restartPolicy",
)


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(Catalog.bundled())


@pytest.mark.parametrize(
    ("kind", "path", "value", "place", "message"),
    [
        ("Pod", "metadata.labels", {"a b": "c"}, "metadata.labels.a b", "is not a label key"),
        ("Pod", "metadata.labels", {"a": "b/c"}, "metadata.labels.a", "is not a label value"),
        ("Pod", "metadata.annotations", {"Example.com/a": "b c"}, None, ""),
        ("Pod", PROBE, {}, PROBE, "exactly one of `exec`, `grpc`, `httpGet`"),
        ("Pod", PROBE, {"exec": {"command": ["a"]}, "grpc": None}, None, ""),
        ("Pod", f"{LIMITS}.gpu", 1, f"{LIMITS}.gpu", "is not a container resource"),
        ("Pod", f"{LIMITS}.cpu", "-1", f"{LIMITS}.cpu", "is not an amount of zero or more"),
        ("Pod", "spec.tolerations.0.value", "x", "spec.tolerations.0.value", "is not allowed here"),
        ("Pod", f"{CONTAINER}.image", ..., CONTAINER, "`image` is missing"),
        ("Deployment", RESTART, "Never", RESTART, "not one of `Always`"),
        ("Service", "spec.ports.0.port", 70000, "spec.ports.0.port", "greater than the maximum of 65535"),
        ("Deployment", "status", {"conditions": []}, None, ""),
    ],
)  # fmt: skip
def test_a_violation_is_reported_at_its_path(
    engine: Engine, kind: str, path: str, value: object, place: str | None, message: str
) -> None:
    found = engine.violations(changed(kind, path, value)) or []
    assert [".".join(map(str, violation.path)) for violation in found] == ([place] if place else [])
    assert all(message in violation.message for violation in found)


HOOKS, HOOK, STORAGE = "ValidatingWebhookConfiguration", "webhooks.0", "spec.resources.requests.storage"
OF_RULE, VERSIONS = f"{HOOK}.rules.0", f"{HOOK}.admissionReviewVersions"
CLAIM = "spec.volumes.5.ephemeral.volumeClaimTemplate"
AZURE = {"name": "z", "azureDisk": {"diskName": "a", "diskURI": "b"}}
RESIZED = {"resourceName": "cpu", "restartPolicy": "NotRequired"}
UPDATE, SURGE = "spec.updateStrategy", "spec.updateStrategy.rollingUpdate.maxSurge"
DEVICES = "spec.spec.devices"


@pytest.mark.parametrize(
    ("kind", "path", "value", "place", "message"),
    [
        (HOOKS, f"{OF_RULE}.resources", ["*", "pods"], f"{OF_RULE}.resources.1", "is not `*` or a subresource"),
        (HOOKS, f"{OF_RULE}.resources", ["*", "pods/log", "*"], None, ""),
        (HOOKS, f"{OF_RULE}.resources", ["pods", "*"], None, ""),
        (HOOKS, f"{OF_RULE}.operations", ["*", "CREATE"], f"{OF_RULE}.operations.1", "must be `*`"),
        (HOOKS, f"{OF_RULE}.operations", ["*", "*"], f"{OF_RULE}.operations", "contains an item twice"),
        (HOOKS, f"{OF_RULE}.operations", ["CREATE", "CREATE"], None, ""),
        (HOOKS, VERSIONS, ["v2"], VERSIONS, "none of `v1`, `v1beta1`"),
        (HOOKS, VERSIONS, ["v2", "v1"], None, ""),
        (HOOKS, f"{HOOK}.clientConfig", {"url": "https://a/?x=1"}, f"{HOOK}.clientConfig.url", "is not a URL"),
        (HOOKS, f"{HOOK}.clientConfig", {"url": "HTTPS://a/b@c?#"}, None, ""),
        ("Pod", "spec.volumes.6", AZURE, "spec.volumes.6.azureDisk.diskURI", "`https://`"),
        ("Pod", f"{CONTAINER}.resizePolicy", [RESIZED, RESIZED], f"{CONTAINER}.resizePolicy.1", "same `resourceName`"),
        ("Pod", f"{CLAIM}.metadata", {"name": "a"}, f"{CLAIM}.metadata.name", "is not allowed here"),
        ("Pod", f"{CLAIM}.metadata", {"name": "", "labels": {"a": "b"}}, None, ""),
        ("Service", "spec.clusterIP", "010.0.0.5", None, ""),
        ("Service", "spec.sessionAffinityConfig", {"clientIP": {"timeoutSeconds": 86401}}, None, ""),
        ("DaemonSet", UPDATE, {"rollingUpdate": {"maxSurge": "101%"}}, SURGE, "at most 100%"),
        ("DaemonSet", UPDATE, {"type": "OnDelete", "rollingUpdate": {"maxSurge": "101%"}}, None, ""),
        ("StatefulSet", "spec.revisionHistoryLimit", -1, None, ""),
        ("PersistentVolumeClaim", STORAGE, "0.0e9", STORAGE, "is not an amount above zero"),
        ("PersistentVolumeClaim", STORAGE, "+0.5", None, ""),
        ("ResourceClaimTemplate", f"{DEVICES}.constraints", [{}], f"{DEVICES}.constraints.0", "`matchAttribute`"),
        ("ResourceClaimTemplate", f"{DEVICES}.constraints", [{"matchAttribute": "A.b/c"}], None, ""),
    ],
)  # fmt: skip
def test_a_value_is_reported_only_if_the_api_server_rejects_it(
    engine: Engine, kind: str, path: str, value: object, place: str | None, message: str
) -> None:
    """Compare with the answers of kube-apiserver v1.34.2 to these values (`dryRun=All`)."""
    test_a_violation_is_reported_at_its_path(engine, kind, path, value, place, message)


@pytest.mark.parametrize(
    ("api_version", "kind", "name", "is_allowed"),
    [
        ("v1", "ConfigMap", "a.b-1", True),
        ("v1", "ConfigMap", "A", False),
        ("v1", "ConfigMap", "a" * 254, False),
        ("v1", "ServiceAccount", "-a", False),
        ("kueue.x-k8s.io/v1beta2", "LocalQueue", "a.b", True),
        ("kueue.x-k8s.io/v1beta2", "LocalQueue", "a_b", False),
        ("v1", "Namespace", "a.b", False),
        ("v1", "Namespace", "a" * 64, False),
    ],
)
def test_a_name_must_match_the_format_of_its_kind(
    engine: Engine, api_version: str, kind: str, name: str, *, is_allowed: bool
) -> None:
    spec: Body = {"spec": {}} if kind == "LocalQueue" else {}
    for metadata in ({"name": name}, {"generateName": f"{name}-"}):
        body: Body = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **spec}
        assert (engine.violations(body) == []) is is_allowed


def test_role_names_need_only_be_valid_in_a_url(engine: Engine) -> None:
    allowed = {name: engine.violations(role(name)) == [] for name in ("A:b_c", "...", "..", ".", "a/b", "a%b", "")}
    assert [name for name, is_allowed in allowed.items() if is_allowed] == ["A:b_c", "...", ""]


def role(name: str) -> Body:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}, "rules": [rule]}


def test_items_with_a_duplicate_key_are_reported_by_index(engine: Engine) -> None:
    ports = [{"containerPort": 22}, {"containerPort": 22, "protocol": "UDP"}, {"containerPort": 22, "protocol": "TCP"}]
    found, *others = engine.violations(changed("Pod", f"{CONTAINER}.ports", ports)) or []
    assert others == []
    assert (found.path[-2:], found.keyword) == (("ports", 2), "uniqueItemsBy")
    assert found.message == "item [2] has the same `containerPort` and `protocol` as item [0]"


def test_items_without_comparable_keys_are_not_duplicates() -> None:
    assert list(find_repeated_items([{"a": []}, {"a": []}, 1, 1, None], {"a": None})) == []
    assert list(find_repeated_items([{}, {"a": 1}, {}, {"a": 1}], {"a": None})) == [(2, 0), (3, 1)]
    assert list(find_repeated_items({"no": "list"}, {"a": None})) == []


def test_a_null_that_server_side_apply_rejects_is_reported(engine: Engine) -> None:
    body: Body = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "a", "labels": None},
        "spec": {"clusterQueue": None, "stopPolicy": None},
        "status": None,
    }
    assert engine.violations(body) == []
    assert [violation.path for violation in engine.nulls(body)] == [("spec", "clusterQueue")]
    assert engine.nulls(changed("Deployment", "spec.strategy", None)) == []


def test_null_is_kept_in_nullable_fields(engine: Engine) -> None:
    body: Body = {
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {"name": "a"},
        "spec": {"kernelArguments": None, "kernelType": None},
    }
    assert [violation.path for violation in engine.nulls(body)] == [("spec", "kernelType")]


def test_null_is_kept_in_fields_with_a_default() -> None:
    text = {"type": ["string", "null"], "enum": ["a", None]}
    schema = {
        "properties": {"metadata": text, "a": text, "b": {**text, "default": "a"}, "c": {"items": text}},
        "definitions": {"meta.v1.ObjectMeta": text, "a": text},
    }
    strict = {"type": ["string"], "enum": ["a"]}
    assert reject_nulls(schema) == {
        "properties": {"metadata": text, "a": strict, "b": {**text, "default": "a"}, "c": {"items": strict}},
        "definitions": {"meta.v1.ObjectMeta": text, "a": strict},
    }
    assert (contains_null({"a": [1, {"b": None}]}), contains_null({"a": []})) == (True, False)


def test_additional_rules_narrow_an_existing_schema() -> None:
    reference = {"$ref": "#/definitions/a"}
    assert narrow(reference, {"minimum": 1}) == {"allOf": [reference, {"minimum": 1}]}
    assert narrow({"allOf": [reference], "type": "object"}, {"minProperties": 1}) == {
        "allOf": [reference, {"minProperties": 1}],
        "type": "object",
    }
    assert narrow({"items": {"type": "string"}}, {"items": {"pattern": "a"}}) == {
        "items": {"type": "string", "pattern": "a"}
    }
    struct = {"properties": {"a": {"type": "array"}, "b": {}}, "required": ["b"]}
    assert add_demands(struct, {"properties": {"a": {"minItems": 1}}, "required": ["a"]}) == {
        "properties": {"a": {"type": "array", "minItems": 1}, "b": {}},
        "required": ["a", "b"],
    }
