"""The fields with which an object names another object, and the objects that controllers create (references.yaml)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, cached_property
from typing import Any, NamedTuple

from generator.documents.load import Path
from generator.facts.table import read_rows

PODS = "pods"
"""The value of `of` for the pod templates of all kinds."""
_ALL_ITEMS = "[]"
_ANY_DEPTH = "**"
_STEP = re.compile(r'\["(?P<quoted>[^"]+)"\]|(?P<step>\[\]|[^.\[\]]+)')
_FIELD = re.compile(r"\{([^{}]+)\}")


class Kind(NamedTuple):
    """A kind of object; the group is empty for the core group."""

    group: str
    kind: str


def parse_kind(text: str) -> Kind:
    """Return the kind of a text `group/Kind`, or `Kind` in the core group."""
    group, _, kind = text.rpartition("/")
    return Kind(group, kind)


@dataclass(frozen=True)
class Target:
    """A kind of referenced object.

    Attributes:
        kind: the kind, as in the table.
        scope: `namespace` for an object in the namespace of the reference, `cluster` for a cluster-scoped object, `any`
            for an object in any namespace.
        check: the check that reports an absent object; empty if no check does.
        absent: the severity of an absent object in a complete release.
        compared: True if a check reports an absent object only if the files have another object of the kind.
        owned: True if a complete release has each such object that it names, even if it has no other of the kind.
        of_users: True if users create such objects in their namespaces.
        given: patterns of the names of objects that exist without a file.
        add: the fix.
        source: the upstream source.
    """

    kind: str
    scope: str
    check: str
    absent: str
    source: str
    compared: bool = False
    owned: bool = False
    of_users: bool = False
    given: Sequence[str] = ()
    add: str = ""

    @cached_property
    def identity(self) -> Kind:
        """The group and the kind."""
        return parse_kind(self.kind)

    def is_given(self, name: str) -> bool:
        """Return True if an object of this name exists without a file."""
        return any(fnmatchcase(name, pattern) for pattern in self.given)


@dataclass(frozen=True)
class Link:
    """Fields of some kinds that name objects of another kind.

    Attributes:
        of: the kinds with the fields, or `pods`.
        to: the kinds of the named object. The first is the default.
        fields: the paths of the fields.
        why: the effect of an absent object.
        most: the highest severity; empty for no limit.
        listed: True if a value is a list of names, or of entries `KIND/NAME`, with commas between them.
        source: the upstream source.
    """

    of: Sequence[str]
    to: Sequence[str]
    fields: Sequence[str]
    why: str
    source: str
    most: str = ""
    listed: bool = False

    def names(self, value: str) -> Iterator[tuple[str, str]]:
        """Yield (kind, name) of each name in a value of the field; the kind is empty if the value does not have it."""
        for entry in value.split(",") if self.listed else ():
            kind, _, name = entry.rpartition("/")
            if name:
                yield kind, name
        if not self.listed:
            yield "", value

    @cached_property
    def targets(self) -> Mapping[str, Target]:
        """Kind without group → the target."""
        return {target.identity.kind: target for target in map(targets().__getitem__, map(parse_kind, self.to))}


@dataclass(frozen=True)
class Creator:
    """Objects whose controller creates another object.

    Attributes:
        of: the kind of these objects.
        creates: the kind of the created object.
        name: the names of the created object, with fields in braces. The first name whose fields are present counts.
        anywhere: True if the controller creates the object in several namespaces.
        internal: True if only the pods of the creating object use the created object.
        when: fields, one of which must be a string; empty if the controller always creates the object.
        source: the upstream source.
    """

    of: str
    creates: str
    name: Sequence[str]
    source: str
    anywhere: bool = False
    internal: bool = False
    when: Sequence[str] = ()

    def names(self, body: Mapping[str, Any]) -> list[str]:
        """Return the names of the objects that the controller creates; `*` stands for any characters.

        The list is empty if no name has all its fields in the body, or if the body has no field of `when`.
        """
        if self.when and not any(find(_field(field), body) for field in self.when):
            return []
        for template in self.name:
            names = [template]
            for field in _FIELD.findall(template):
                values = [name.value for name in find(_field(field), body)]
                names = [text.replace(f"{{{field}}}", value, 1) for text in names for value in values]
            if names:
                return names
        return []


class Name(NamedTuple):
    """A field with the name of another object, as `find` returns it.

    Attributes:
        leaf: the value that `build_tree` got for the field.
        path: the path of the string.
        parent: the mapping or list with the string.
        value: the string.
    """

    leaf: Any
    path: Path
    parent: Any
    value: str


Tree = dict[str, Any]
"""A set of fields: step → the tree below; "" → the values of the field that ends here."""


def build_tree(fields: Iterable[tuple[str, object]]) -> Tree:
    """Return the paths of fields as a tree of keys, which `find` compares with an object.

    Args:
        fields: (path as in the table, any value) of each field.
    """
    tree: Tree = {}
    for text, leaf in fields:
        nodes = [tree]
        for step in _STEP.finditer(text):
            keys = [step["quoted"]] if step["quoted"] else step["step"].split("|")
            nodes = [node.setdefault(key, {}) for node in nodes for key in keys]
        for node in nodes:
            node.setdefault("", []).append(leaf)
    return tree


def find(tree: Tree, body: object) -> list[Name]:
    """Return the strings that an object or a pod template has at the fields of a tree."""
    names: list[Name] = []
    _collect(tree, body, (), None, names)
    return names


def _collect(tree: Tree, value: object, path: Path, parent: object, names: list[Name]) -> None:
    if isinstance(value, str):
        names += (Name(leaf, path, parent, value) for leaf in tree.get("", ()))
        return
    for step, below in tree.items():
        if not step:  # the values of this field; an object can have an empty key too
            continue
        if step == _ANY_DEPTH:
            _collect(below, value, path, parent, names)
            below = tree  # noqa: PLW2901 - the step matches any number of keys
        for key, item in _items(step, value):
            _collect(below, item, (*path, key), value, names)


def _items(step: str, value: object) -> Iterable[tuple[str | int, object]]:
    """Return the keys of a mapping, or the positions of a list, that match a step, with their values."""
    if isinstance(value, list):
        return enumerate(value) if step in (_ALL_ITEMS, _ANY_DEPTH) else ()
    if not isinstance(value, dict):
        return ()
    if "*" in step:
        return [(key, item) for key, item in value.items() if fnmatchcase(str(key), step)]
    return [(step, value[step])] if step in value else ()


@cache
def links() -> tuple[Link, ...]:
    """Return the rows of references.yaml about fields that name other objects."""
    return read_rows("references", "references", Link)


@cache
def targets() -> Mapping[Kind, Target]:
    """Return kind → the row of references.yaml for this kind as a referenced object."""
    return {row.identity: row for row in read_rows("references", "targets", Target)}


@cache
def creators() -> Mapping[Kind, Sequence[Creator]]:
    """Return kind → the rows of references.yaml about objects that controllers create for objects of this kind."""
    creators: dict[Kind, list[Creator]] = {}
    for row in read_rows("references", "creators", Creator):
        creators.setdefault(parse_kind(row.of), []).append(row)
    return creators


def fields_of(kind: Kind) -> Tree | None:
    """Return the fields of a kind with names of other objects, each with its `Link`; None if the kind has none."""
    return _fields().get(kind)


def kinds_with_names() -> Collection[Kind]:
    """Return the kinds with fields that name other objects, and `pods`."""
    return _fields().keys()


@cache
def kinds_with_names_of(check: str) -> Collection[Kind]:
    """Return the kinds with fields that name objects whose absence a check reports; `pods` for pod templates."""
    named = (link for link in links() if any(target.check == check for target in link.targets.values()))
    return {parse_kind(kind) for link in named for kind in link.of}


def fields_of_pods() -> Tree:
    """Return the fields of pod templates with names of other objects, each with its `Link`."""
    return _fields()[Kind("", PODS)]


@cache
def _fields() -> Mapping[Kind, Tree]:
    fields: dict[Kind, list[tuple[str, object]]] = {}
    for link in links():
        for kind in link.of:
            fields.setdefault(parse_kind(kind), []).extend((field, link) for field in link.fields)
    return {kind: build_tree(rows) for kind, rows in fields.items()}


@cache
def _field(text: str) -> Tree:
    return build_tree([(text, None)])
