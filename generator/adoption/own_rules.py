"""The user's own rules over single objects: a CEL expression or a JSON Schema, and the objects that the rule reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from generator.checks.finding import Breach
from generator.documents.load import Path as Steps
from generator.errors import ConfigError, NotModelledError, Problem
from generator.manifests import Body, Manifest
from generator.schemas.embedded import explain
from generator.schemas.json_schema import Schema

_NEWEST = 99
"""A minor version of Kubernetes that has all functions of CEL: mpigen, and no API server, evaluates the rules."""
CEL_DOCS = "https://kubernetes.io/docs/reference/using-api/cel/"
_ABSENT = re.compile(r"^no such key: (?P<field>.*)")


@dataclass(frozen=True, slots=True)
class Match:
    """The objects that a rule reads.

    Attributes:
        kinds: (kind, API group) of the objects; the group is None for all groups. Empty for all kinds.
        namespaces: patterns of namespaces; empty for all.
        labels: label → pattern of its value.
    """

    kinds: frozenset[tuple[str, str | None]]
    namespaces: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()

    def selects(self, manifest: Manifest) -> bool:
        """Return True if the rule reads an object."""
        if self.kinds and (manifest.kind, None) not in self.kinds and (manifest.kind, manifest.group) not in self.kinds:
            return False
        namespace = manifest.name if manifest.kind == "Namespace" else manifest.namespace
        if self.namespaces and not any(fnmatchcase(namespace, pattern) for pattern in self.namespaces):
            return False
        labels = manifest.labels
        return all(key in labels and fnmatchcase(str(labels[key]), pattern) for key, pattern in self.labels)


@dataclass(frozen=True, slots=True)
class OwnRule:
    """A rule of the user's YAML file. mpigen calls it like the function of a check, once for each object.

    Attributes:
        id: the id of the check.
        match: the objects that the rule reads.
        texts: the message, the reason and the fix of findings.
        test: the expression or the schema.
        place: a problem with the file and the line of the rule, without its message.
        cases: the number of good and bad cases.
    """

    id: str
    match: Match
    texts: tuple[str, str, str]
    test: Expression | ObjectSchema
    place: Problem
    cases: tuple[int, int]

    def __call__(self, manifest: Manifest) -> Iterator[Breach]:
        """Yield the breaches of an object.

        Raises:
            ConfigError: the evaluation of the expression fails, or mpigen cannot evaluate it.
        """
        if not self.match.selects(manifest):
            return
        message, why, fix = self.texts
        try:
            for path, detail, value in self.test.breaches(manifest.body):
                yield Breach(path, f"{message}: {detail}" if detail else message, why, fix, value=value)
        except FailedRuleError as error:
            text = f"the expression fails for {manifest.resource} in {manifest.file}: {error}"
            raise ConfigError((replace(self.place, message=text, fix=repair(str(error))),)) from None


class FailedRuleError(Exception):
    """An expression that ends with an error instead of true or false."""


class Expression:
    """A compiled CEL expression over `object`.

    Args:
        text: the expression.
        path: the path of the field to report.
    """

    def __init__(self, text: str, path: Steps) -> None:
        from generator.upstream.kubernetes.cel.expression import Scope, compile_expression  # CEL takes 0.1 s to import

        self.text, self.path = text, path
        self._compiled = compile_expression(text, Scope(_NEWEST, has_params=False, has_authorizer=False), ("bool",))

    @property
    def problem(self) -> str:
        """The compile error, or why mpigen cannot evaluate the expression; empty if there is neither."""
        return self._compiled.problem or self._compiled.literal_problem or self._compiled.lacking

    def breaches(self, body: Body) -> Iterator[tuple[Steps, str, object]]:
        """Yield (path, detail, value) of the breach if the result is false.

        Raises:
            FailedRuleError: the evaluation fails.
        """
        from generator.upstream.kubernetes.cel.expression import Failed

        try:
            result = self._compiled.evaluate({"object": body})
        except NotModelledError as error:
            raise FailedRuleError(error.problems[0].message) from None
        if isinstance(result, Failed):
            raise FailedRuleError(result.message)
        if result is False:
            yield self.path, "", None


class ObjectSchema:
    """A compiled JSON Schema of an object.

    Args:
        schema: the schema.

    Raises:
        ValueError: the schema is invalid. The attribute `instance_path` of the error has the path in the schema.
    """

    def __init__(self, schema: Schema) -> None:
        from jsonschema_rs import Draft202012Validator, RegexOptions  # takes 30 ms to import

        self._schema = schema
        # Patterns in Rust run in linear time.
        self._validator = Draft202012Validator(schema, pattern_options=RegexOptions(), offline=True)

    def breaches(self, body: Body) -> Iterator[tuple[Steps, str, object]]:
        """Yield (path, detail, value) of each field that breaks the schema."""
        if not self._validator.is_valid(body):
            for violation in explain(self._validator.iter_errors(body), self._schema, body):
                yield violation.path, violation.message, violation.value


def repair(error: str) -> str:
    """Return the fix of an expression whose evaluation ends with an error."""
    if match := _ABSENT.match(error):
        return f"read the optional field `{match['field']}` with `.?{match['field']}` and `orValue`"
    return f"correct the expression: {CEL_DOCS} describes the syntax and the functions"
