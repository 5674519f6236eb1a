"""Read the user's own rules: YAML files that the setting `checks` names.

Each rule becomes a check, as a function with `@check` does. mpigen runs the cases of a rule whenever it reads the file.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from generator.adoption.own_rules import CEL_DOCS, Expression, FailedRuleError, Match, ObjectSchema, OwnRule, repair
from generator.checks.finding import Severity
from generator.checks.registry import Check
from generator.documents.load import Document, load_file
from generator.documents.load import Path as Steps
from generator.documents.locate import locate_all
from generator.documents.messages import format_names, format_path, format_value, parse_path
from generator.errors import DocumentError, Problem, suggest
from generator.manifests import Manifest
from generator.schemas.catalog import Catalog, Entry
from generator.schemas.embedded import explain
from generator.schemas.json_schema import Schema, resolve

SCHEMA = Path(__file__).with_name("rule_files.schema.json")
_Mistake = tuple[Steps, str, str]
"""The path of a mistake in the file, the message and the fix."""
_ALL = "*"
_OTHERS = ("oldObject", "request", "namespaceObject", "params", "variables", "authorizer")
"""Variables of admission policies that a rule cannot read."""
_ONE_SCHEMA = {
    *("not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties", "contentSchema"),
}
_LIST_OF_SCHEMAS = {"allOf", "anyOf", "oneOf", "prefixItems"}
_NAMED_SCHEMAS = {"properties", "patternProperties", "dependentSchemas", "$defs"}
_KEYWORDS = {
    *_ONE_SCHEMA,
    *_LIST_OF_SCHEMAS,
    *_NAMED_SCHEMAS,
    *("$schema", "$id", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor", "$vocabulary", "$comment"),
    *("title", "description", "default", "deprecated", "readOnly", "writeOnly", "examples", "format"),
    *("type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"),
    *("maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxContains", "minContains"),
    *("maxProperties", "minProperties", "required", "dependentRequired", "contentEncoding", "contentMediaType"),
}
"""The keywords of the vocabularies of https://json-schema.org/draft/2020-12/schema."""


def load_rules(file: Path, text: bytes, families: Collection[str]) -> tuple[list[Check], list[Problem]]:
    """Return the valid rules of a file as checks, and the problems of the file.

    Args:
        file: the file.
        text: its content.
        families: the families of mpigen's checks.
    """
    try:
        documents = load_file(text, file)
    except DocumentError as error:
        return [], [*error.problems]
    if len(documents) != 1 or not isinstance(documents[0].data, dict):
        message = "the file is not one document with rules"
        return [], [Problem(message, "write one mapping with a list `rules`", str(file), 1, 1)]
    data = documents[0].data
    written = data.get("rules")
    rules = written if isinstance(written, list) else []
    wrong = [*_find_mistakes(data), *_mistakes_of_ids(rules, families)]
    invalid = {path[1] for path, _, _ in wrong if path[:1] == ("rules",) and len(path) > 1}
    valid = [number for number in range(len(rules)) if number not in invalid]
    places = locate_all(text, documents[0].index, [("rules", number) for number in valid])
    checks = []
    for number in valid:
        path = ("rules", number)
        place = Problem("", "", str(file), *places[path].node, path=format_path(path))
        mistakes = list(_mistakes_of_rule(rules[number]))
        if not mistakes:
            rule = _read_rule(rules[number], place)
            kind = rules[number]["match"]["kinds"][0].partition(".")[0]
            failed = list(_failed_cases(rule, rules[number].get("cases", {}), file))
            mistakes = failed or list(_fails_for_minimal(rule, kind))
            checks.append(_as_check(rule, rules[number], place))
        wrong += [((*path, *below), message, fix) for below, message, fix in mistakes]
    return checks, _place(wrong, text, documents[0], file)


def _place(wrong: list[_Mistake], text: bytes, document: Document, file: Path) -> list[Problem]:
    """Return the mistakes with their lines, in the order of the file."""
    places = locate_all(text, document.index, [path for path, _, _ in wrong])
    problems = (
        Problem(message, fix, str(file), *places[path].node, path=format_path(path)) for path, message, fix in wrong
    )
    return sorted(problems, key=lambda problem: (problem.line, problem.column))


def _as_check(rule: OwnRule, written: Mapping[str, Any], place: Problem) -> Check:
    """Return a check that runs a rule."""
    message, why, _ = rule.texts
    severity = Severity(written.get("severity", Severity.ERROR))
    text = f"Report that {message}.\n\n{why[:1].upper()}{why[1:]}."
    return Check(rule.id, severity, Manifest, "", text, rule, (place.file, place.line, ""))


def _read_rule(written: Mapping[str, Any], place: Problem) -> OwnRule:
    """Return a rule without mistakes."""
    match, cases = written["match"], written.get("cases", {})
    kinds = frozenset() if _ALL in match["kinds"] else frozenset(map(_parse_kind, match["kinds"]))
    path = parse_path(written.get("path", ""))
    why = written.get("why") or f"the object breaks the rule `{written['id']}` of this repository"
    return OwnRule(
        id=written["id"],
        match=Match(kinds, tuple(match.get("namespaces", ())), tuple(match.get("labels", {}).items())),
        texts=(written["message"], why, written["fix"]),
        test=Expression(written["cel"].strip(), path) if "cel" in written else ObjectSchema(written["schema"]),
        place=place,
        cases=(len(cases.get("good", ())), len(cases.get("bad", ()))),
    )


def _parse_kind(text: str) -> tuple[str, str | None]:
    """Return (kind, API group) of `Kind.group`; the group is None if the text has none."""
    kind, _, group = text.partition(".")
    return kind, group or None


@cache
def _engine() -> tuple[Schema, Any]:
    import jsonschema_rs

    schema = json.loads(SCHEMA.read_text("utf-8"))
    return schema, jsonschema_rs.Draft202012Validator(schema)


_MEANINGS = {
    "^[a-z0-9]+(-[a-z0-9]+)*/[a-z][a-z0-9]*(-[a-z0-9]+)*$": "an id of the form `family/rule` in lower case",
    "^([*]|[A-Z][A-Za-z0-9]*([.][a-z0-9]([a-z0-9.-]*[a-z0-9])?)?)$": "a kind such as `Namespace`, or `*`",
}
"""Pattern of the schema → its meaning in words."""


def _find_mistakes(data: Any) -> Iterator[_Mistake]:
    """Yield the mistakes that the schema of the file finds, and duplicate ids."""
    schema, engine = _engine()
    for violation in explain(engine.iter_errors(data), schema, data, _MEANINGS):
        fix = violation.fix
        if violation.keyword == "additionalProperties":
            fix = suggest(str(violation.path[-1]), violation.candidates)
        elif violation.keyword == "required":
            fix = f"add `{violation.expected}`"
        yield violation.path, violation.message, fix


def _mistakes_of_ids(rules: list[Any], families: Collection[str]) -> Iterator[_Mistake]:
    """Yield a mistake for each id in a family of mpigen, and for each id that an earlier rule of the file has."""
    seen: set[str] = set()
    for number, rule in enumerate(rules):
        name = rule.get("id") if isinstance(rule, dict) else None
        if not isinstance(name, str):
            continue
        path, family = ("rules", number, "id"), name.partition("/")[0]
        if family in families:
            yield path, f"the family `{family}` belongs to mpigen", "name another family, such as your organization"
        if name in seen:
            yield path, f"an earlier rule of this file has the id `{name}`", "give each rule its own id"
        seen.add(name)


def _mistakes_of_rule(rule: Mapping[str, Any]) -> Iterator[_Mistake]:
    """Yield the mistakes of a rule that fits the schema of the file."""
    tests = [key for key in ("cel", "schema") if key in rule]
    if not tests:
        yield (
            (),
            "the rule has neither `cel` nor `schema`",
            "write an expression in `cel`, or a JSON Schema in `schema`",
        )
    if len(tests) > 1:
        yield ("schema",), "the rule has both `cel` and `schema`", "remove one, or write two rules"
    if "path" in rule and "schema" in rule:
        yield ("path",), "`path` has no effect, because a schema reports the field that breaks it", "remove `path`"
    yield from _mistakes_of_kinds(rule["match"]["kinds"])
    if "schema" in rule:
        yield from ((("schema", *path), message, fix) for path, message, fix in _mistakes_of_schema(rule["schema"]))
    if "cel" in rule:
        yield from ((("cel",), message, fix) for message, fix in _mistakes_of_cel(rule["cel"], rule["match"]["kinds"]))


def _mistakes_of_kinds(kinds: list[str]) -> Iterator[_Mistake]:
    if len(kinds) > 1 and _ALL in kinds:
        yield ("match", "kinds"), "`*` stands for all kinds, so the other kinds have no effect", "remove `*`"
    for number, text in enumerate(kinds):
        kind, group = _parse_kind(text)
        if text != _ALL and group is None and not _entries(text):
            close = suggest(kind, {entry.kind for entry in Catalog.bundled().everything if entry.kind[:2] == kind[:2]})
            fix = f"{close} For a kind of your own CustomResourceDefinition, write `{kind}.GROUP`"
            yield ("match", "kinds", number), f"mpigen has no schema of a kind `{kind}`", fix


@cache
def _entries(text: str) -> tuple[Entry, ...]:
    """Return the bundled schemas of `Kind` or `Kind.group`, in all versions."""
    kind, group = _parse_kind(text)
    return tuple(
        entry
        for entry in Catalog.bundled().everything
        if entry.kind == kind and group in (None, entry.api_version.rpartition("/")[0])
    )


def _mistakes_of_schema(schema: Schema) -> Iterator[_Mistake]:
    """Yield the mistakes of a JSON Schema: unknown keywords, which JSON Schema ignores, and invalid values."""
    unknown = list(_unknown_keywords(schema))
    yield from unknown
    try:
        ObjectSchema(schema)
    except ValueError as error:
        path = tuple(getattr(error, "instance_path", ()))
        if not any(path[: len(place)] == place for place, _, _ in unknown):
            yield path, f"not a JSON Schema: {str(error).splitlines()[0]}", "correct the keyword"


def _unknown_keywords(schema: Any, path: Steps = ()) -> Iterator[_Mistake]:
    for keyword, value in schema.items() if isinstance(schema, dict) else ():
        place = (*path, keyword)
        if keyword not in _KEYWORDS:
            yield place, f"JSON Schema has no keyword `{keyword}`", suggest(str(keyword), _KEYWORDS)
        elif keyword in _ONE_SCHEMA:
            yield from _unknown_keywords(value, place)
        elif keyword in _LIST_OF_SCHEMAS and isinstance(value, list):
            for number, part in enumerate(value):
                yield from _unknown_keywords(part, (*place, number))
        elif keyword in _NAMED_SCHEMAS and isinstance(value, dict):
            for name, part in value.items():
                yield from _unknown_keywords(part, (*place, name))


def _mistakes_of_cel(text: str, kinds: list[str]) -> Iterator[tuple[str, str]]:
    """Yield (message, fix) of each mistake in an expression."""
    from generator.upstream.kubernetes.cel.syntax import find_readings  # CEL takes 0.1 s to import

    readings = find_readings(text.strip())
    if others := sorted({reading.root for reading in readings} & {*_OTHERS}):
        yield f"a rule cannot read {format_names(others)}", "read only the variable `object`"
        return
    if problem := Expression(text.strip(), ()).problem:
        yield f"the expression does not compile: {_with_position(text.strip(), problem)}", _fix_of_cel(problem)
        return
    for fields in dict.fromkeys(reading.fields for reading in readings if reading.root == "object"):
        yield from _undefined_field(fields, kinds)


def _fix_of_cel(problem: str) -> str:
    """Return the fix of an expression that does not compile."""
    if "must evaluate to bool" in problem:
        return "compare the value, for example with `== true`"
    if "undeclared reference" in problem:
        return f"read the variable `object`, or call a function that {CEL_DOCS} lists"
    return f"correct the expression: {CEL_DOCS} describes the syntax and the functions"


def _with_position(text: str, problem: str) -> str:
    """Return a compile error with its line and column in the expression, if a compiler of the text alone finds it."""
    from generator.upstream.kubernetes.cel.expression import locate_error

    error = locate_error(text, "object")
    return f"line {error[0]}, column {error[1]} of the expression: {error[2]}" if error else problem


def _undefined_field(fields: Steps, kinds: list[str]) -> Iterator[tuple[str, str]]:
    """Yield (message, fix) if no kind of a rule has a field that its expression reads."""
    undefined_by_kind: dict[str, tuple[int, tuple[str, ...]]] = {}
    for kind in kinds:
        entries = _entries(kind) if kind != _ALL else ()
        if not entries:
            return
        for entry in entries:
            undefined = _find_undefined(Catalog.bundled().load(entry), fields)
            if undefined is None:
                return
            undefined_by_kind[kind] = undefined
    path = ".".join(("object", *map(str, fields)))
    kind, (depth, known) = next(iter(undefined_by_kind.items()))
    yield f"`{path}`: {format_names(kinds)} has no field `{fields[depth]}` there", suggest(str(fields[depth]), known)


def _find_undefined(schema: Schema, fields: Steps) -> tuple[int, tuple[str, ...]] | None:
    """Return the index of the first field that a schema does not allow, and the allowed names; None without one."""
    node = schema
    for depth, name in enumerate(fields):
        node = resolve(node, schema)[1]
        properties = node.get("properties", {})
        if name not in properties and node.get("additionalProperties") is False:
            return depth, tuple(properties)
        others = node.get("additionalProperties")
        below = properties.get(name, others if isinstance(others, dict) else None)
        if not isinstance(below, dict):
            return None
        node = below
    return None


def _fails_for_minimal(rule: OwnRule, kind: str) -> Iterator[_Mistake]:
    """Yield a mistake if an expression fails for an object without labels or without annotations."""
    labels = {key: pattern.replace("*", "a") for key, pattern in rule.match.labels}
    metadata = {"name": "any", "namespace": "any", **({"labels": labels} if labels else {})}
    try:
        list(rule.test.breaches({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": {}}))
    except FailedRuleError as error:
        if str(error) in ("no such key: labels", "no such key: annotations"):
            field = str(error).rpartition(" ")[2]
            yield ("cel",), f"the expression fails for an object without {field}: {error}", repair(str(error))


def _failed_cases(rule: OwnRule, cases: Mapping[str, Any], file: Path) -> Iterator[_Mistake]:
    """Yield a mistake for each case of a rule with another result than the expected one."""
    for expected in ("good", "bad"):
        for number, body in enumerate(cases.get(expected, ())):
            path = ("cases", expected, number)
            manifest = Manifest(body, str(file))
            is_selected = rule.match.selects(manifest)
            try:
                breaches = list(rule.test.breaches(body)) if is_selected else []
            except FailedRuleError as error:
                yield path, f"the expression fails for this case: {error}", repair(str(error))
                continue
            if expected == "good" and breaches:
                detail = next((f": {detail}" for _, detail, _ in breaches if detail), "")
                yield path, f"the rule reports this good case{detail}", "correct the rule, or move the case to `bad`"
            elif expected == "bad" and not is_selected:
                yield path, f"`match` does not select {format_value(manifest.resource)}", "correct `match` or the case"
            elif expected == "bad" and not breaches:
                yield path, "the rule does not report this bad case", "correct the rule, or move the case to `good`"
