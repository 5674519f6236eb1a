"""Test policies without a cluster, on fixtures that tests/cluster compares with the API server."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import pytest

from generator.errors import MpigenError, NotModelledError
from generator.manifests import Manifest
from generator.objects.patch import merge_patch, parse_path, set_values
from generator.schemas.catalog import Catalog
from generator.upstream.kubernetes.admission_policies.cases import Case, compute_coverage, run_case
from generator.upstream.kubernetes.admission_policies.policy import PolicyCluster
from generator.upstream.kubernetes.cel.expression import Expression, Failed, Scope, compile_expression
from generator.upstream.kubernetes.cel.syntax import find_readings
from tests.policy_cases import FOLDERS, CaseFolder

_SCOPE = Scope(minor=33, has_params=True)
_SEMANTICS = next(folder for folder in FOLDERS if folder.name == "semantics")
_READ = CaseFolder.of(_SEMANTICS)


@cache
def _world(file: str) -> PolicyCluster:
    """Return the cluster for the cases of a file, with its given objects."""
    given = _READ.files[file][0].given if file else ()
    return PolicyCluster([*_READ.manifests, *given], Catalog.bundled())


@pytest.mark.parametrize(
    ("file", "case"),
    [pytest.param(name, case, id=f"{name}: {case.name}") for name, cases in _READ.files.items() for case in cases],
)
def test_every_case_has_its_expected_decision(file: str, case: Case) -> None:
    assert run_case(case, _world(file)).complaint == ""


def test_every_rule_of_the_fixtures_compiles() -> None:
    expressions = [each for policy in _world("").policies for _, each in policy.expressions()]
    assert len(expressions) > 100
    assert [(each.text, each.problem, each.lacking) for each in expressions if each.problem or each.lacking] == []


def test_rules_that_always_pass_or_err_count_as_untested() -> None:
    outcomes = [run_case(case, _world(file)) for file, cases in _READ.files.items() for case in cases]
    untested = {rule.policy.name for rule in compute_coverage(_world(""), outcomes) if not rule.rejecting}
    assert untested == {"vap-conditions", "vap-errors", "vap-nowhere", "vap-variables"}


def _value(
    expression: str, scope: Scope = _SCOPE, variables: Mapping[str, Any] = MappingProxyType({}), **data: Any
) -> Any:
    found = compile_expression(expression, scope)
    assert found.problem == ""
    absent = dict.fromkeys(("object", "oldObject", "request", "namespaceObject", "params"))
    return found.evaluate({**absent, **data}, variables)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("request.user", "undefined field 'user'"),
        ("request.userInfo.name", "undefined field 'name'"),
        ("namespaceObject.metadata.uid", "undefined field 'uid'"),
        ("request.userInfo.username + 1", "found no matching overload for '_+_' applied to '(string, int)'"),
        ("request.userInfo.groups.sum()", "found no matching overload for 'sum' applied to '(list(string))'"),
        ("quantity('1') == '1'", "found no matching overload for '_==_' applied to '(kubernetes.Quantity, string)'"),
        ("quantity(1)", "found no matching overload for 'quantity' applied to '(int)'"),
        ("variables.unknown", "undeclared reference to 'variables.unknown'"),
        ("nobody", "undeclared reference to 'nobody'"),
        ("[1, 2].flatten()", "undeclared reference to 'flatten'"),
    ],
)
def test_compile_errors_of_the_api_server_are_reported(expression: str, problem: str) -> None:
    assert problem in compile_expression(expression, _SCOPE).problem


def test_functions_exist_since_their_kubernetes_version() -> None:
    for expression, since in {
        "[1].includes(1) && 'a'.includes('a')": 37,
        "semver('1.0.0').major()": 33,
        "[1].exists(i, v, v == 1)": 32,
        "format.dns1123Label().validate('a').hasValue()": 31,
        "isIP('1.2.3.4')": 30,
        "sets.contains([1], [1])": 29,
        "quantity('1').isInteger()": 28,
    }.items():
        assert compile_expression(expression, Scope(since, has_params=False)).problem == ""
        assert compile_expression(expression, Scope(since - 1, has_params=False)).problem != ""


def test_an_expression_must_have_the_required_type() -> None:
    found = compile_expression("object.spec.suspend", _SCOPE, ("bool",))
    assert found.problem == "must evaluate to bool but got dyn"
    assert compile_expression("object.spec.suspend == true", _SCOPE, ("bool",)).problem == ""


def test_params_exist_only_for_a_policy_with_a_param_kind() -> None:
    assert "params" in compile_expression("params.data.x == ''", Scope(33, has_params=False)).problem


@pytest.mark.parametrize(
    "expression",
    [
        "authorizer.group('').resource('pods').check('list').allowed()",
        "isURL('https://example.com')",
        "string(ip('1.2.3.4')) == '1.2.3.4'",
        "format.uuid().validate('x').hasValue()",
        "format.labelValue().validate('x').orValue([]).size() == 0",
        "semver('v1', true).major() == 1",
    ],
)
def test_unsupported_functions_raise_not_modelled(expression: str) -> None:
    found = compile_expression(expression, _SCOPE, ("bool",))
    assert (found.problem, bool(found.lacking)) == ("", True)
    with pytest.raises(NotModelledError):
        found.evaluate({})


def test_a_message_expression_cannot_call_the_authorizer() -> None:
    scope = Scope(33, has_params=False, has_authorizer=False)
    assert "authorizer" in compile_expression("string(authorizer)", scope).problem


@pytest.mark.parametrize(
    ("variable", "reading", "value"),
    [
        ("object.?absent", "variables.it.orValue(7)", 7),
        ("object.?here", "variables.it.orValue(7)", 1),
        ("timestamp('2026-01-01T00:00:00Z')", "variables.it == timestamp('2026-01-01T00:00:00Z')", True),
        ("duration('90s')", "variables.it < duration('2m')", True),
        ("uint(object.here)", "variables.it + 1u == 2u", True),
        ("quantity('2')", "variables.it.asInteger()", 2),
        ("[quantity('2')]", "variables.it[0].asInteger()", 2),
        ("{'a': b'bytes'}", "variables.it['a'] == b'bytes'", True),
        ("object.here", "has(variables.it) && variables.?it.hasValue()", True),
        ("null", "variables.it == null", True),
        ("['b', 'a']", "variables.it.exists(it, it == 'a')", True),
    ],
)
def test_variables_keep_their_values(variable: str, reading: str, value: object) -> None:
    given = compile_expression(variable, _SCOPE)
    data = {"object": {"here": 1}}
    scope = Scope(33, has_params=True, variables={"it": given})
    assert _value(reading, scope, {"it": given.evaluate(data)}, **data) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("[1].map(each, string(each)) == ['1']", True),
        ("[1].map(optional, string(optional.of(2).value())) == ['2']", True),
        ("['10.0.0.1'].all(ip, string(ip.isCanonical(ip)) == 'true')", True),
        ("['a'].map(name, string(name + 'b')) == ['ab']", True),
        ("dyn([{'a': 1}]).map(each, string(has(each.a) ? each.a : 0)) == ['1']", True),
        ("[[1, 2]].map(outer, string(outer.map(inner, inner + outer[0]).size())) == ['2']", True),
    ],
)
def test_conversions_read_variables_of_comprehensions_and_functions_of_the_same_name(
    expression: str, value: object
) -> None:
    assert _value(expression) == value


@pytest.mark.parametrize("name", ["__variables__0", "__variables__list_dyn_", "__element__0", "__request__name"])
def test_names_of_the_rewritten_expression_are_not_evaluated(name: str) -> None:
    assert "does not evaluate" in compile_expression(f"[1].all({name}, {name} == 1)", _SCOPE).lacking


def test_expressions_with_many_variables_and_types_are_evaluated() -> None:
    given = {f"v{number}": compile_expression(f"[[[{number}]]]", _SCOPE) for number in range(20)}
    scope = Scope(33, has_params=True, variables=given)
    values = {name: variable.evaluate({}) for name, variable in given.items()}
    total = " + ".join(f"variables.{name}[0][0][0]" for name in given)
    assert given["v0"].type == "list<list<list<int>>>"
    assert _value(f"{total} == 190", scope, values) is True
    del values["v3"]
    assert compile_expression(total, scope).evaluate({}, values) == Failed("no value of the variable v3")


def test_an_unsupported_variable_raises_not_modelled() -> None:
    given = compile_expression("{'a': timestamp('2026-01-01T00:00:00Z')}", _SCOPE)
    reading = compile_expression("variables.it['a'] != null", Scope(33, has_params=True, variables={"it": given}))
    with pytest.raises(NotModelledError):
        reading.evaluate({}, {"it": given.evaluate({})})


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("a(b|c)", ["ab", "ac"]),
        ("(?P<letter>a)(?i:B)", ["ab"]),
        (r"\(a\)", ["(a)"]),
        ("[(]a[)]", ["(a)"]),
        (r"\Q(a)\E", ["(a)"]),
        ("(?:z)", []),
    ],
)
def test_find_returns_whole_matches_despite_groups(pattern: str, found: list[str]) -> None:
    data: Mapping[str, Any] = {"object": {"text": "ab ac (a)", "pattern": pattern}}
    assert _value("object.text.findAll(object.pattern)", **data) == found
    assert _value("object.text.find(object.pattern)", **data) == (found[0] if found else "")


@pytest.mark.parametrize(
    "expression",
    [
        "sign(quantity('0')) == 0",
        "quantity('1').compareTo(quantity('1000m')) == 0",
        "!quantity('1').isGreaterThan(quantity('1000m')) && !quantity('1').isLessThan(quantity('1000m'))",
        "semver('1.2.3').compareTo(semver('1.2.3+build')) == 0",
        "!semver('1.2.3').isGreaterThan(semver('1.2.3')) && !semver('1.2.3').isLessThan(semver('1.2.3'))",
        "quantity('123456789012345678').isInteger() && !quantity('1234567890123456789').isInteger()",
        "quantity('12345678901Ki').isInteger() && !quantity('123456789012Ki').isInteger()",
        "quantity('9E').add(223372036854775807).isInteger() && !quantity('9E').add(223372036854775808).isInteger()",
        "quantity('-9E').sub(223372036854775808).isInteger() && !quantity('-9E').sub(223372036854775809).isInteger()",
        "type(dyn([2, 2.0, 1]).max()) == int && type(dyn([2, 2.0]).min()) == int",
        "dyn([1, 1, 2]).isSorted()",
        "isSemver('18446744073709551615.0.0') && !isSemver('18446744073709551616.0.0')",
        "cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/8')) && !cidr('10.0.0.0/8').containsCIDR(cidr('10.0.0.0/7'))",
        "'abc'.findAll('[a-z]', 0) == [] && 'abc'.findAll('[a-z]', 2) == ['a', 'b']",
        "'abc'.findAll('[a-z]', -1) == ['a', 'b', 'c']",
    ],
)
def test_functions_of_kubernetes_compare_equal_values(expression: str) -> None:
    """The functions are in three files.

    Source: apimachinery v0.34.2 pkg/api/resource/quantity.go; apiserver v0.34.2 pkg/cel/library/cidr.go; apiserver
    v0.34.2 pkg/cel/library/regex.go
    """
    assert _value(expression) is True


def test_true_does_not_equal_one() -> None:
    assert _value("dyn([1, 2]).indexOf(dyn(true))") == -1
    assert _value("dyn([true]).sum()") == Failed("no such overload")


def test_a_sum_of_durations_raises_not_modelled() -> None:
    with pytest.raises(NotModelledError):
        _value("[duration('1s')].sum() == duration('1s')")


@pytest.mark.parametrize("exponent", ["4001", "-4001", "2147483648", "9223372036854775807", "000000000000000000001"])
def test_a_quantity_with_a_large_exponent_raises_not_modelled(exponent: str) -> None:
    """Kubernetes reads the exponent as int64, and converts it to int32.

    Source: apimachinery v0.34.2 pkg/api/resource/suffix.go suffixHandler.interpret
    """
    assert _value("isQuantity('1e4000') && isQuantity('1e-4000') && !isQuantity('1e-9223372036854775809')") is True
    with pytest.raises(NotModelledError):
        _value(f"isQuantity('1e{exponent}')")


def test_field_references_are_parsed_despite_strings_comments_and_calls() -> None:
    expression = """
        request.?userInfo.username == 'request.no' // request.neither
        && r'\\' != "request.\\"no" && has(request.name) && variables.x.y.startsWith(object['request.no'])
    """
    found = [(each.root, each.fields, each.certain, each.is_tested) for each in find_readings(expression)]
    assert found == [
        ("request", ("userInfo", "username"), 0, False),
        ("request", ("name",), 1, True),
        ("variables", ("x", "y"), 2, False),
        ("object", (), 0, False),
    ]


def test_an_expression_keeps_its_text() -> None:
    found: Expression = compile_expression("  true  ", _SCOPE)
    assert found.text == "  true  "


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("spec", ("spec",)),
        ("spec.containers[0].image", ("spec", "containers", 0, "image")),
        ('metadata.labels["kueue.x-k8s.io/queue-name"]', ("metadata", "labels", "kueue.x-k8s.io/queue-name")),
        ('data["a"][1]', ("data", "a", 1)),
    ],
)
def test_field_paths_are_parsed(path: str, steps: tuple[object, ...]) -> None:
    assert parse_path(path) == steps


@pytest.mark.parametrize("path", ["", ".a", "a..b", "a[b]", 'a["b', "a.", "[0]x"])
def test_an_invalid_path_is_rejected(path: str) -> None:
    with pytest.raises(ValueError, match="not a path"):
        parse_path(path)


def test_a_variant_changes_only_the_given_fields() -> None:
    body = {"a": {"b": [1, 2]}, "c": 3}
    assert set_values(body, {"a.b[2]": 4, "c": None, "d.e": 5}) == {"a": {"b": [1, 2, 4]}, "d": {"e": 5}}
    assert set_values(body, {"a.b[0]": None}) == {"a": {"b": [2]}, "c": 3}
    assert body == {"a": {"b": [1, 2]}, "c": 3}
    for wrong in ("c.d", "a.b.c", "a[0]", "a.b[5]"):
        with pytest.raises(ValueError, match="leads through"):
            set_values(body, {wrong: 1})


def test_a_merge_patch_removes_null_fields() -> None:
    assert merge_patch({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": None}, "d": [2]}) == {"a": {"c": 2}, "d": [2]}


def test_a_request_in_another_version_than_the_rule_is_an_error() -> None:
    found = next(case for cases in _READ.files.values() for case in cases if case.name == "the operation matches")
    policy = next(each.manifest for each in _world("").policies if each.name == "vap-created")
    rule = {"apiGroups": ["autoscaling"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]}
    body = {**policy.body, "spec": {**policy.body["spec"], "matchConstraints": {"resourceRules": [rule]}}}
    scaler = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "x"}}
    case = Case("", "", 0, "CREATE", scaler, None, found.user_info, found.expected, namespace="vap-matching")
    world = PolicyCluster([*_READ.manifests, Manifest(body, "")], Catalog.bundled())
    assert "mpigen does not convert" in run_case(case, world).complaint


def test_an_unknown_kind_is_an_error() -> None:
    found = next(iter(_READ.files.values()))[0]
    strange = {"apiVersion": "example.com/v1", "kind": "Strange", "metadata": {"name": "x"}}
    case = Case("", "", 0, "CREATE", strange, None, found.user_info, found.expected)
    assert "the kind Strange of" in run_case(case, _world("")).complaint


def test_unsupported_features_are_user_errors() -> None:
    assert issubclass(NotModelledError, MpigenError)
