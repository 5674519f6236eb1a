"""The embedded engine: judges objects by the bundled schemas inside this process, at microseconds per object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generator.schemas.catalog import Catalog
from generator.schemas.keywords import UNIQUE_ITEMS_BY, UniqueItemsBy, contains_null, reject_nulls
from generator.schemas.violations import Violation, explain

if TYPE_CHECKING:
    from jsonschema_rs import Draft7Validator

    from generator.schemas.json_schema import Schema


class Engine:
    """Compiles the schema of each kind it meets, once."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._judges: dict[tuple[str, str], _Judge | None] = {}

    @property
    def targets(self) -> Mapping[str, str]:
        """Component → the minor version that is judged for."""
        return self._catalog.targets

    def violations(self, body: dict[str, Any]) -> list[Violation] | None:
        """Every place where an object breaks the schema of its kind.

        Args:
            body: the object: plain dicts, lists and scalars.

        Returns:
            The violations, none for a valid object; None if there is no schema for what it says it is.

        Raises:
            ValueError: the object holds what JSON cannot, so it did not come from a manifest.
        """
        judge = self._judge(body)
        return judge.violations(body) if judge else None

    def nulls(self, body: dict[str, Any]) -> list[Violation]:
        """Every null in a custom resource that a create drops and a server-side apply refuses."""
        judge = self._judge(body)
        return judge.nulls(body) if judge and judge.is_custom and contains_null(body) else []

    def _judge(self, body: dict[str, Any]) -> _Judge | None:
        identity = body.get("apiVersion"), body.get("kind")
        try:
            return self._judges[identity]  # type: ignore[index]
        except KeyError:
            judge = self._judges[identity] = self._compile(*identity)  # type: ignore[index]
            return judge
        except TypeError:  # not a text
            return None

    def _compile(self, api_version: Any, kind: Any) -> _Judge | None:
        file = self._catalog.find(api_version, kind)
        return _Judge(file, is_custom=self._catalog.is_custom(api_version, kind)) if file else None


class _Judge:
    """One compiled schema."""

    def __init__(self, file: Path, *, is_custom: bool) -> None:
        self.is_custom = is_custom
        self._text = file.read_text(encoding="utf-8")
        self._validator = _compiled(self._text)

    def violations(self, body: dict[str, Any]) -> list[Violation]:
        if self._validator.is_valid(body):
            return []
        return explain(self._validator.iter_errors(body), self._schema, body)

    def nulls(self, body: dict[str, Any]) -> list[Violation]:
        schema, validator = self._strict
        found = explain(validator.iter_errors(body), schema, body)
        return [violation for violation in found if violation.value is None and violation.keyword == "type"]

    @cached_property
    def _schema(self) -> Schema:
        schema: Schema = json.loads(self._text)
        return schema

    @cached_property
    def _strict(self) -> tuple[Schema, Draft7Validator]:
        schema = reject_nulls(self._schema)
        return schema, _compiled(json.dumps(schema))


def _compiled(text: str) -> Draft7Validator:
    # Imported here because it costs 30 ms, which commands that validate nothing need not spend.
    from jsonschema_rs import Draft7Validator, RegexOptions

    # Rust's own patterns run in linear time, as Go's do.
    return Draft7Validator(
        text, pattern_options=RegexOptions(), offline=True, keywords={UNIQUE_ITEMS_BY: UniqueItemsBy}
    )
