"""Test that the embedded engine accepts the objects of the API server, and describes the mistakes of others."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine, Violation

Body = dict[str, Any]
ACCEPTED: list[Body] = list(
    yaml.load_all(Path(__file__).with_name("test_schemas_accepted.yaml").read_text(), yaml.CSafeLoader)
)


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(Catalog.bundled())


def first(kind: str) -> Body:
    return copy.deepcopy(next(body for body in ACCEPTED if body["kind"] == kind))


def changed(kind: str, path: str, value: object) -> Body:
    """Return an accepted object with one place changed; `...` removes it."""
    body: Any = first(kind)
    *parents, last = (int(step) if step.isdigit() else step for step in path.split("."))
    place = body
    for step in parents:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    result: Body = body
    return result


@pytest.mark.parametrize("body", ACCEPTED, ids=lambda body: f"{body['apiVersion']} {body['kind']}")
def test_objects_that_the_api_server_accepts_are_accepted(engine: Engine, body: Body) -> None:
    assert engine.violations(body) == []


A_QUANTITY = "a quantity such as 500m, 2 or 16Gi"
QUOTA = "spec.resourceGroups.0.flavors.0.resources.0"
RUNTIME_POD = "spec.template.spec.replicatedJobs.0.template.spec.template.spec"


@pytest.mark.parametrize(
    ("kind", "path", "value", "keyword", "message"),
    [
        ("Pod", "spec.restartpolicy", "Never", "additionalProperties", "unknown field `restartpolicy`"),
        ("Pod", "spec.containers.0.env.0.vaule", "x", "additionalProperties", "unknown field `vaule`"),
        ("Pod", "spec.containers.0.name", ..., "required", "`name` is missing"),
        ("Pod", "spec.containers.0.name", None, "type", "`name` must be a string, not null"),
        ("Pod", "spec.containers.0", None, "type", "item [0] must be a mapping, not null"),
        ("Pod", "spec.restartPolicy", "never", "enum", '`"never"` is not one of `Always`, `Never`, `OnFailure`'),
        (
            "Pod",
            "spec.containers.0.ports.0.containerPort",
            "22",
            "type",
            '`containerPort` must be an integer, not the string `"22"`',
        ),
        (
            "Pod",
            "spec.containers.0.startupProbe.tcpSocket.port",
            True,
            "type",
            "`port` must be an integer or a string, not the boolean `true`",
        ),
        ("Pod", "spec.terminationGracePeriodSeconds", 2**70, "maximum", None),
        ("Pod", "spec.containers.0.resources.limits.cpu", "two", "pattern", f'`"two"` is not {A_QUANTITY}'),
        ("Pod", "metadata.labels.a", 1, "type", "`a` must be a string, not the number `1`"),
        ("Pod", "metadata.label", {}, "additionalProperties", "unknown field `label`"),
        ("Secret", "data.a", "plain text", "pattern", '`"plain text"` is not base64'),
        ("Service", "spec.ports", {}, "type", "`ports` must be a list, not a mapping"),
        ("Deployment", "status.foo", 1, "additionalProperties", "unknown field `foo`"),
        ("Lease", "spec.renewTime", "now", "pattern", '`"now"` is not a time such as 2026-01-31T12:00:00.000000Z'),
        ("NetworkPolicy", "spec.policyTypes.0", "ingress", "enum", '`"ingress"` is not one of `Egress`, `Ingress`'),
        (
            "ClusterTrainingRuntime",
            f"{RUNTIME_POD}.subdomian",
            "x",
            "additionalProperties",
            "unknown field `subdomian`",
        ),
        ("ClusterTrainingRuntime", "spec.mlPolicy.mpi.mpiImplementation", "LAM", "enum", None),
        ("TrainJob", "spec.runtimeRef", ..., "required", "`runtimeRef` is missing"),
        ("TrainJob", "spec.trainer.numNodes", "two", "type", '`numNodes` must be an integer, not the string `"two"`'),
        (
            "ClusterQueue",
            f"{QUOTA}.nominalQuota",
            0.5,
            "type",
            "`nominalQuota` must be an integer or a string, not the number `0.5`",
        ),
        ("ClusterQueue", f"{QUOTA}.nominalQuota", "5x", "pattern", f'`"5x"` is not {A_QUANTITY}'),
        ("ClusterQueue", "spec.cohort", "c", "additionalProperties", "unknown field `cohort`"),
        ("LocalQueue", "metadata.namespaces", "x", "additionalProperties", "unknown field `namespaces`"),
        ("Topology", "spec.levels", [], "minItems", "the list needs at least 1 item"),
        ("Application", "spec.source.helm.values_object", {}, "additionalProperties", "unknown field `values_object`"),
    ],
)
def test_a_mistake_is_reported_at_its_path(
    engine: Engine, kind: str, path: str, value: object, keyword: str, message: str | None
) -> None:
    found = engine.violations(changed(kind, path, value))
    assert found is not None
    place = tuple(int(step) if step.isdigit() else step for step in path.split("."))
    expected_path = place[:-1] if keyword == "required" else place
    assert [(violation.path, violation.keyword) for violation in found] == [(expected_path, keyword)]
    assert message in (found[0].message, None)


def test_status_and_null_values_may_be_incomplete(engine: Engine) -> None:
    for kind, path, value in [
        ("Deployment", "status", {"conditions": [{"type": "Available"}]}),
        ("Deployment", "metadata.creationTimestamp", None),
        ("TrainJob", "status", {}),
        ("Pod", "spec.containers.0.imagePullPolicy", ""),
        ("Pod", "spec.containers.0.resources.limits.cpu", 0.5),
        ("Pod", "spec.containers.0.args", [None]),
        ("Pod", "spec.affinity", None),
        ("ClusterTrainingRuntime", f"{RUNTIME_POD}.affinity", None),
        ("RoleBinding", "roleRef.apiGroup", ...),
        ("Application", "spec.source.helm.valuesObject", {"any": {"thing": [1]}}),
    ]:
        assert engine.violations(changed(kind, path, value)) == [], (kind, path)


def test_a_violation_has_the_values_for_a_fix(engine: Engine) -> None:
    body = first("Pod")
    container = body["spec"]["containers"][0]
    container |= {"imagePulPolicy": "Always", "immage": "x", "imagePullPolicy": "Sometimes"}
    del container["name"]
    found = {violation.path[-1]: violation for violation in engine.violations(body) or ()}
    at = ("spec", "containers", 0)
    assert set(found) == {"imagePulPolicy", "immage", "imagePullPolicy", 0}
    assert found["immage"].path == (*at, "immage")
    assert found["immage"].value == "x"
    assert {"image", "imagePullPolicy"} <= set(found["immage"].candidates)
    assert (found[0].keyword, found[0].expected) == ("required", "name")
    assert found["imagePullPolicy"] == Violation(
        path=(*at, "imagePullPolicy"),
        keyword="enum",
        message='`"Sometimes"` is not one of `Always`, `IfNotPresent`, `Never`',
        value="Sometimes",
        expected=("Always", "IfNotPresent", "Never"),
    )


def test_a_long_value_is_shortened_in_the_message(engine: Engine) -> None:
    found = engine.violations(changed("Pod", "spec.restartPolicy", "x" * 500))
    assert found
    assert len(found[0].message) < 150
    assert found[0].value == "x" * 500


def test_values_without_a_json_form_are_printed_as_written(engine: Engine) -> None:
    found = engine.violations(changed("Deployment", "spec.replicas", float("nan")))
    assert [violation.message for violation in found or ()] == ["`replicas` must be an integer, not the number `NaN`"]


@pytest.mark.parametrize(
    "body",
    [{}, {"apiVersion": "v1"}, {"apiVersion": "v9", "kind": "Pod"}, {"apiVersion": ["v1"], "kind": {}}, {"kind": None}],
)
def test_kinds_without_a_schema_have_no_verdict(engine: Engine, body: Body) -> None:
    assert engine.violations(body) is None


def test_the_schema_of_a_kind_is_compiled_once() -> None:
    class Counting(Catalog):
        """A catalog that records the schemas that the engine requests."""

        requests: ClassVar[list[str]] = []

        def read(self, api_version: str, kind: str) -> str | None:
            self.requests.append(kind)
            return super().read(api_version, kind)

    engine = Engine(Counting.bundled())
    assert [engine.violations(first("Pod")) for _ in range(2)] == [[], []]
    assert Counting.requests == ["Pod"]
