"""Test the comparison of feature gates, fields, defaults, webhooks, settings and metrics of two versions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.upstream.source import Source
from tests.upstream.surface import (
    Difference,
    Key,
    add_judges,
    find_differences,
    read_crd,
    read_defaults,
    read_gates,
    read_metrics,
    read_openapi,
    read_settings,
    read_webhooks,
)

GATES = """\
var defaultGates = map[featuregate.Feature]featuregate.VersionedSpecs{
\tFirst: {
\t\t{Version: version.MustParse("1.30"), Default: false, PreRelease: featuregate.Alpha},
\t\t{Version: version.MustParse("1.37"), Default: true, PreRelease: featuregate.GA}, // on
\t},

\tgenericfeatures.Second: {Default: true, PreRelease: featuregate.Beta},
}
"""
CRD = """\
kind: CustomResourceDefinition
spec:
  names: {kind: Queue}
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        properties:
          spec:
            properties:
              mode: {type: string, enum: [A, B], default: A, description: the mode}
              items:
                type: array
                items: {properties: {name: {type: string, x-kubernetes-validations: [{rule: self != ''}]}}}
"""
WEBHOOKS = """\
kind: ValidatingWebhookConfiguration
webhooks:
- name: vqueue.example.com
  failurePolicy: Fail
  rules: [{apiGroups: [a], apiVersions: [v1], operations: [CREATE], resources: [queues]}]
"""
DEFAULTS = "func SetDefaults_Job(obj *batchv1.Job) {\n\tobj.A = 1 // one\n}\n\nfunc Other() {\n}\n"
SETTINGS = 'type Settings struct {\n\tPeriod *metav1.Duration `json:"period,omitempty"`\n}\n'


@pytest.mark.parametrize(("version", "first"), [("1.34.2", "off (Alpha)"), ("1.37.2", "on (GA)")])
def test_a_gate_has_the_stage_of_its_version(version: str, first: str) -> None:
    assert read_gates(GATES, version) == {Key("gate", "", "First"): first, Key("gate", "", "Second"): "on (Beta)"}


def test_a_gate_of_a_later_version_is_absent() -> None:
    assert Key("gate", "", "First") not in read_gates(GATES, "1.29.0")


@pytest.mark.parametrize(
    ("path", "rules"),
    [
        ("v1.spec", {}),
        ("v1.spec.mode", {"type": "string", "enum": ["A", "B"], "default": "A"}),
        ("v1.spec.items.name", {"type": "string", "rules": ["self != ''"]}),
    ],
)
def test_a_field_has_its_rules_without_its_description(path: str, rules: dict[str, object]) -> None:
    assert json.loads(read_crd(CRD)[Key("field", "Queue", path)]) == rules


def test_other_objects_have_no_fields() -> None:
    assert read_crd("kind: ConfigMap") == {}


def test_fields_of_all_kinds_are_left_out() -> None:
    schemas = {"io.k8s.api.core.v1.Probe": {"properties": {"port": {"type": "integer"}, "kind": {"type": "string"}}}}
    found = read_openapi(json.dumps({"components": {"schemas": schemas}}))
    assert found == {Key("field", "Probe", "port"): '{"type": "integer"}'}


def test_a_webhook_has_a_rule_per_resource() -> None:
    value = {"apiVersions": ["v1"], "operations": ["CREATE"], "policy": "Fail"}
    assert read_webhooks(WEBHOOKS) == {Key("webhook", "vqueue.example.com", "queues"): json.dumps(value)}


def test_settings_defaults_and_metrics_are_read_from_go() -> None:
    assert read_settings(SETTINGS) == {Key("setting", "Settings", "period"): "*metav1.Duration"}
    assert list(read_defaults(DEFAULTS)) == [Key("default", "batchv1.Job", "SetDefaults_Job")]
    assert list(read_metrics('prometheus.GaugeOpts{\n\tName: "jobs_total",\n}')) == [Key("metric", "", "jobs_total")]


def _changed(document: str, path: tuple[str | int, ...], value: object) -> str:
    body = yaml.safe_load(document)
    place = body
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return yaml.safe_dump(body)


SPEC = ("spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "spec", "properties")


@pytest.mark.parametrize(
    ("old", "new", "text", "is_named"),
    [
        (read_gates(GATES, "1.34.2"), read_gates(GATES, "1.37.2"), "the gate First", True),
        (read_gates(GATES, "1.34.2"), read_gates(GATES, "1.37.2"), "the gate Firsts", False),
        (read_crd(CRD), read_crd(_changed(CRD, (*SPEC, "mode", "default"), "B")), "Queue spec.mode", True),
        (read_crd(CRD), read_crd(_changed(CRD, (*SPEC, "mode", "default"), "B")), "Queue spec", False),
        (read_crd(CRD), read_crd(_changed(CRD, (*SPEC, "mode", "enum"), ["A"])), "Queue spec.mode", True),
        (read_webhooks(WEBHOOKS), read_webhooks(WEBHOOKS.replace("CREATE", "UPDATE")), "queues", True),
        (read_webhooks(WEBHOOKS), read_webhooks(WEBHOOKS.replace("CREATE", "UPDATE")), "queue", False),
        (read_defaults(DEFAULTS), read_defaults(DEFAULTS.replace("1 //", "2 //")), "SetDefaults_Job", True),
        (read_settings(SETTINGS), read_settings(SETTINGS.replace("*metav1.Duration", "int32")), "period: 5", True),
        (read_metrics('Name: "jobs_total"'), {}, "rate(jobs_total)", True),
    ],
)
def test_a_difference_names_the_files_that_name_it(
    old: dict[Key, str], new: dict[Key, str], text: str, is_named: bool
) -> None:
    (difference,) = find_differences(old, new, {"rule.py": text})
    assert difference.places == (("rule.py",) if is_named else ())


def test_equal_surfaces_do_not_differ() -> None:
    commented = DEFAULTS.replace("// one", "// first")
    assert find_differences(read_defaults(DEFAULTS), read_defaults(commented), {"rule.py": "SetDefaults_Job"}) == ()
    described = _changed(CRD, (*SPEC, "mode", "description"), "other")
    assert find_differences(read_crd(CRD), read_crd(described), {"rule.py": "Queue mode"}) == ()


def test_a_difference_lists_an_absent_value() -> None:
    (difference,) = find_differences({}, {Key("gate", "", "First"): "on (GA)"}, {})
    assert str(difference) == "gate First: absent → on (GA)"


@pytest.mark.parametrize(
    ("old", "new", "is_judge"),
    [
        ("off (Alpha)", "on (Beta)", True),
        (None, "on (GA)", True),
        ("on (Beta)", "on (GA)", False),
        (None, "off", False),
    ],
)
def test_a_gate_that_turns_on_names_the_code_that_judges_by_it(
    tmp_path: Path, old: str | None, new: str, *, is_judge: bool
) -> None:
    validation = tmp_path / "pkg/apis/core/validation"
    validation.mkdir(parents=True)
    (validation / "validation.go").write_text("if Enabled(features.Strict) {")
    (validation / "validation_test.go").write_text("features.Strict")
    (validation / "other.go").write_text("features.StrictAddresses")
    (found,) = add_judges([Difference(Key("gate", "", "Strict"), old, new, ())], "kubernetes", Source(tmp_path))
    assert found.places == (("kubernetes pkg/apis/core/validation/validation.go",) if is_judge else ())
