"""The page of the Python API: the names in generator/__init__.pyi and generator/views.py, with their docstrings."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from generator.checks import registry
from tests.conftest import ROOT
from tests.docs.definitions import Definition, define, file_of
from tests.docs.platform_pages import section_links

BEGINNING = Path(__file__).with_name("api.md")
"""The text above the names, with an example that `python -m tests.docs` runs."""
VIEWS = "generator.views"
_GROUP = re.compile(r"^# (\w+): (.*)\n((?:from .*\n)+)", re.MULTILINE)
_NAME = re.compile(r"^from (\S+) import (\w+) as \2  # since (\S+)$|^.*$", re.MULTILINE)
_VIEW = re.compile(r'^    "(\w+)",  # since (\S+)$|^ {4}".*$', re.MULTILINE)
_IN_TEXT = re.compile(r"(?<!\[)(?<!^- )`(\w+)`", re.MULTILINE)
"""A name in code, outside of links, and behind the first word of a list item, which is an argument or attribute."""
_OF_SECTIONS = """\
The [reference of platform.yaml](platform/index.md) describes the fields. They are keyword arguments in snake_case, such
as `pod_security` for `podSecurity`. An invalid value raises a [`ConfigError`](#configerror) with all mistakes of
the section, at the line of the call. Sections cannot be changed: `section.replace(field=value)` returns a checked copy.

"""
_CODE_COLUMNS = 88
_CALLED_BY_MPIGEN = {"of_manifest", "read", "between"}
"""Methods by which mpigen creates the argument of a check."""


@dataclass(frozen=True)
class Name:
    """A public name: its module, and the version of mpigen that added it."""

    name: str
    module: str
    since: str

    @property
    def is_constant(self) -> bool:
        """True for a member of an enumeration, such as ERROR."""
        return self.name.isupper()


@dataclass(frozen=True)
class Group:
    """Names with a common heading. `module` is the module to import them from."""

    title: str
    text: str
    module: str
    names: tuple[Name, ...]

    def anchor(self, name: str) -> str:
        """Return the anchor of a name on the page."""
        return f"{'views-' if self.module == 'generator.views' else ''}{name.lower()}"


@cache
def groups() -> tuple[Group, ...]:
    """Return the groups of names; the last one has the sections of platform.yaml."""
    stub, views = file_of("generator").with_suffix(".pyi"), file_of(VIEWS)
    return read_groups(stub.read_text("utf-8"), views.read_text("utf-8"))


def read_groups(stub: str, views: str) -> tuple[Group, ...]:
    """Return the groups of the stub `generator/__init__.pyi`, with the names of `generator/views.py` before the last.

    Raises:
        ValueError: a name has no version, or has another name in its module.
    """
    listed = views.partition("__all__ = [\n")[2].partition("]")[0]
    text = "the classes of `generator.views`, for the argument `needs` of a check."
    viewed = tuple(Name(match[1], VIEWS, match[2]) for match in _VIEW.finditer(listed))
    of_stub = []
    for title, about, lines in _GROUP.findall(stub):
        names = tuple(Name(match[2], match[1], match[3]) for match in _NAME.finditer(lines.rstrip()))
        of_stub.append(Group(title, about, "generator", names))
    everything = (*of_stub[:-1], Group("Views", text, VIEWS, viewed), of_stub[-1])
    if unclear := [group.title for group in everything if not all(name.since for name in group.names)]:
        raise ValueError(f"write `# since VERSION` behind every name of {unclear}")
    return everything


@cache
def definitions(group: Group) -> Mapping[str, Definition]:
    """Return name → definition of the classes and functions of a group."""
    return {name.name: define(name.module, name.name) for name in group.names if not name.is_constant}


def api_page() -> str:
    """Return the page."""
    *described, sections = groups()
    entries = "".join(_group(group) for group in described)
    return f"{BEGINNING.read_text('utf-8')}\n{''.join(map(_overview, groups()))}\n{entries}{_sections(sections)}"


def _overview(group: Group) -> str:
    names = "" if group.title == "Sections" else f": {', '.join(_link(name.name, group) for name in group.names)}"
    return f"- [{group.title}](#names-{group.title.lower()}){names}\n"


def _heading(group: Group) -> str:
    return f"## {group.title} {{#names-{group.title.lower()}}}\n\n{group.text[0].upper()}{group.text[1:]}\n\n"


def _sections(group: Group) -> str:
    """Return the list of sections, whose fields the reference of platform.yaml describes."""
    lines = [_heading(group), _OF_SECTIONS]
    links = section_links()
    for name in group.names:
        paths = ", ".join(f"[`{path}`]({link})" for path, link in links[name.name].items())
        lines.append(f"- `{name.name}`: {paths}. Since {name.since}.\n")
    return "".join(lines)


@cache
def _group(group: Group) -> str:
    defined = definitions(group)
    parts = [part for definition in defined.values() for part in (definition, *_methods(definition, group))]
    code = dict(zip(map(id, parts), _format(parts), strict=True))
    lines = [_heading(group)]
    for name in group.names:
        lines.append(f"### `{name.name}` {{#{group.anchor(name.name)}}}\n\n")
        if name.is_constant:
            lines.append(_constant(name))
        else:
            definition = defined[name.name]
            lines += [_entry(definition, code[id(definition)], group), _origin(name, definition.module)]
            for method in _methods(definition, group):
                lines.append(f"#### `{name.name}.{method.name}` {{#{group.anchor(name.name)}-{method.name}}}\n\n")
                lines.append(_entry(method, code[id(method)], group))
    return "".join(lines)


def _constant(name: Name) -> str:
    value = getattr(registry, name.name)
    about = define(type(value).__module__, type(value).__name__).docstring.rows["Attributes"][name.name]
    code = f"{name.name} = {type(value).__name__}.{value.name}"
    return f"```python\n{code}\n```\n\n{about[0].upper()}{about[1:]}\n\n{_origin(name, name.module)}"


def _origin(name: Name, module: str) -> str:
    return f"Since {name.since}, in `{_path(module)}`.\n\n"


def _path(module: str) -> str:
    return file_of(module).relative_to(ROOT).as_posix()


def members(definition: Definition, group: Group) -> list[Definition]:
    """Return the public methods and properties of a class: outside of the views, all their types are public too."""
    parts = [part for part in definition.members if part.name not in _CALLED_BY_MPIGEN]
    return parts if group.module == VIEWS else [part for part in parts if part.types <= _links().keys()]


def _methods(definition: Definition, group: Group) -> list[Definition]:
    return [part for part in members(definition, group) if not part.is_property]


@cache
def _links() -> Mapping[tuple[str, str], str]:
    """Return (module, name) → link of every public class."""
    *described, sections = groups()
    links = {
        (definition.module, name): f"[`{name}`](#{group.anchor(name)})"
        for group in described
        for name, definition in definitions(group).items()
    }
    paths = section_links()
    return links | {
        (name.module, name.name): f"[`{name.name}`]({next(iter(paths[name.name].values()))})" for name in sections.names
    }


def _entry(definition: Definition, code: str, group: Group) -> str:
    """Return a signature and its description, with links in place of other public names."""

    def link(code: re.Match[str]) -> str:
        return code[0] if code[1] == definition.name else _link(code[1], group)

    return f"```python\n{code}\n```\n\n{_IN_TEXT.sub(link, ''.join(_describe(definition, group)))}"


def _describe(definition: Definition, group: Group) -> Iterator[str]:
    text = definition.docstring
    yield f"{text.prose}\n\n"
    if "Section" in definition.bases:
        yield _OF_SECTIONS
    for title in ("Args", "Attributes"):
        yield from _list(title, (f"`{name}`: {about}" for name, about in text.rows.get(title, {}).items()))
    properties = [part for part in members(definition, group) if part.is_property]
    yield from _list("Properties", (f"`{part.name}` (`{part.result}`): {_first(part)}" for part in properties))
    if text.returns:
        yield f"Returns: {text.returns}\n\n"
    raised = text.rows.get("Raises", {})
    yield from _list("Raises", (f"{_link(name, group)}: {about}" for name, about in raised.items()))
    if bases := [base for base in definition.bases if _link(base, group).startswith("[")]:
        yield f"Base class: {', '.join(_link(base, group) for base in bases)}.\n\n"
    types = {key for part in (definition, *properties) for key in part.types} - {(definition.module, definition.name)}
    if types:
        yield f"Types: {', '.join(map(_type, sorted(types, key=lambda key: key[1])))}.\n\n"


def _first(definition: Definition) -> str:
    return " ".join(definition.docstring.prose.split())


def _list(title: str, rows: Iterable[str]) -> Iterator[str]:
    if items := "".join(f"- {row}\n" for row in rows):
        yield f"{title}:\n\n{items}\n"


def _link(name: str, group: Group) -> str:
    """Return a link to a name of this group or of another group; plain code for another name."""
    for near in (group, *groups()[:-1]):
        if any(public.name == name for public in near.names):
            return f"[`{name}`](#{near.anchor(name)})"
    return f"`{name}`"


def _type(key: tuple[str, str]) -> str:
    module, name = key
    return _links().get(key, f"`{name}` in `{_path(module)}`")


def _format(parts: list[Definition]) -> list[str]:
    """Return the signatures, wrapped by ruff, which accepts the parameters of a class only behind `def`."""
    signatures = [re.sub("^class ", "def ", part.signature) if part.parameters else part.signature for part in parts]
    ran = subprocess.run(
        [Path(sys.executable).with_name("ruff"), "format", "--isolated", f"--line-length={_CODE_COLUMNS - 2}", "-"],
        input="".join(f"{signature}: ...\n" for signature in signatures),
        capture_output=True,
        text=True,
        check=True,
    )
    codes = re.split(r"^(?=def |class )", ran.stdout, flags=re.MULTILINE)[1:]
    return [
        part.signature.partition(" ")[0] + " " + code.partition(" ")[2].strip().removesuffix(": ...")
        for part, code in zip(parts, codes, strict=True)
    ]
