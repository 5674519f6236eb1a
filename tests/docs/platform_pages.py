"""The reference of platform.yaml: a page per top-level field, with every field, its type, default and example."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import yaml

from tests.docs.fields import Field, Section, schema, sections, values_of
from tests.docs.pages import DOCS

FOLDER = DOCS / "reference" / "platform"
_INTRODUCTION = """\
# platform.yaml

This page is for platform admins. `platform.yaml` describes one training platform: the cluster, its nodes, the
training runtimes and the teams. `mpigen synth` writes all manifests from this file. The page lists the top-level
fields. If a field has fields of its own, it links to the page of these fields. `mpigen schema` prints the JSON
Schema, with which editors complete and check the file.
"""


_HEX = re.compile(r"(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{4}")


class _Dumper(yaml.SafeDumper):
    """A dumper that writes the key of an example on a line of its own, and scalars beside it."""

    def serialize_node(self, node: yaml.Node, parent: yaml.Node | None, index: object) -> None:
        if parent is None and isinstance(node, yaml.MappingNode):
            node.flow_style = False
        super().serialize_node(node, parent, index)

    def represent_hexadecimal(self, value: str) -> yaml.ScalarNode:
        """Quote hexadecimal digits such as `15b3`, because YAML reads some of them, such as `1e10`, as a number."""
        return self.represent_scalar("tag:yaml.org,2002:str", value, "'" if _HEX.fullmatch(value) else None)


_Dumper.add_representer(str, _Dumper.represent_hexadecimal)


def platform_pages() -> dict[str, str]:
    """Return file name → text of all pages."""
    groups: dict[str, list[Section]] = {}
    for section in sections():
        groups.setdefault(_page_of(section.path), []).append(section)
    (top,) = groups.pop("")
    pages = {f"{key}.md": "\n".join(_page(key, parts)) for key, parts in groups.items()}
    links = {key: f"{key}.md" for key in groups}
    return {"index.md": "\n".join([_INTRODUCTION, *_fields(top, links)]), **pages}


def section_links() -> dict[str, dict[str, str]]:
    """Return class of a section → its paths in platform.yaml → link from docs/reference."""
    links: dict[str, dict[str, str]] = {}
    for part in sections():
        page = f"{_page_of(part.path) or 'index'}.md"
        links.setdefault(part.model, {})[part.path] = f"platform/{page}#{_anchor(part.path)}".removesuffix("#")
    return links


def _page_of(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]


def _page(key: str, parts: list[Section]) -> Iterator[str]:
    links = {part.path: f"#{_anchor(part.path)}" for part in parts}
    noun = "an entry of " if parts[0].path.endswith("[]") else ""
    yield f"# {key}\n"
    yield f"This page is for platform admins. It lists the fields of {noun}`{key}` in [`platform.yaml`](index.md).\n"
    for number, part in enumerate(parts):
        if number:
            yield f"## `{part.path}` {{#{_anchor(part.path)}}}\n"
        if part.description:
            yield f"{part.description}\n"
        yield from _fields(part, links)


def _fields(part: Section, links: dict[str, str]) -> Iterator[str]:
    for field in part.fields:
        yield f"### `{field.path}` {{#{_anchor(field.path)}-field}}\n"
        yield f"{field.schema.get('description', '')}\n"
        yield f"- Type: {type_of(field.schema)}"
        is_described = "Default: " in field.schema.get("description", "")
        if field.required:
            yield "- Required"
        elif field.schema.get("default") not in (None, {}, []) or not is_described:
            yield f"- Default: {_default(field.schema)}"
        below = next((path for path in (field.path, f"{field.path}[]", f"{field.path}[*]") if path in links), None)
        page = links.get(below or field.path)
        yield f"- Fields: [`{below or field.path}`]({page})\n" if page else f"- Example:\n\n{_example(field)}"


def _example(field: Field) -> str:
    text = yaml.dump({field.key: field.example}, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=90)
    return "".join(f"    {line}\n" for line in ("```yaml", *text.splitlines(), "```"))


def _default(part: dict[str, Any]) -> str:
    value = part.get("default")
    if value is None:
        return "none"
    if isinstance(value, dict) and value:
        return "the defaults of its fields"
    return f"`{json.dumps(value)}`" if not isinstance(value, str) else f"`{value}`"


@cache
def _definitions() -> dict[str, Any]:
    definitions: dict[str, Any] = schema()["$defs"]
    return definitions


def type_of(part: dict[str, Any]) -> str:
    """Return the type of a field in words."""
    if "enum" in part:
        return " or ".join(f"`{value}`" for value in part["enum"])
    if "$ref" in part:
        target = _definitions()[part["$ref"].rpartition("/")[2]]
        return type_of(target) if "anyOf" in target else "object"
    if "anyOf" in part:
        choices = [type_of(choice) for choice in part["anyOf"] if choice.get("type") != "null"]
        return ", or ".join(dict.fromkeys(choices))
    if "const" in part:
        return f"`{part['const']}`"
    kind = part.get("type", "any value")
    if isinstance(kind, list):
        return "quantity"
    if kind == "array":
        return f"list of {type_of(part['items'])}"
    if kind == "object":
        values = values_of(part)
        return f"mapping of string to {type_of(values)}" if isinstance(values, dict) and values else "object"
    if kind == "integer":
        return f"integer{_range(part)}"
    return str(kind)


def _range(part: dict[str, Any]) -> str:
    least, most = part.get("minimum"), part.get("maximum")
    if most in (None, 2**31 - 1):
        return "" if least is None else f", at least {least}"
    return f", at most {most}" if least is None else f", {least} to {most}"


def _anchor(path: str) -> str:
    return path.replace("[]", "").replace("[*]", "").replace(".", "-").lower()
