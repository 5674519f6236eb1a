"""Manifest: a Kubernetes object with its identity, and with its place in a file.

Checks, releases and reports work on manifests, whether mpigen rendered them or read them from disk.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar, cast

from generator.documents.block import read_sections
from generator.documents.emit import Emitter
from generator.documents.load import Document, Path, load
from generator.documents.messages import format_value
from generator.documents.scalars import resolve
from generator.errors import DocumentError, Problem, SimulationError

Body = dict[str, Any]
V = TypeVar("V")


@dataclass(frozen=True)
class Manifest:
    """A Kubernetes object, and its place in a file. `body` can have any content: a property of a wrong type is empty.

    Attributes:
        body: the object, as plain dicts, lists and scalars. Checks must not modify it.
        file: its file, relative to the release folder or as the user named it.
        index: the position of its document in the file, from 0.
        inside: for an item of a `List` object, its path in the document, such as `("items", 2)`; else empty.
        instead: a description of a document that is not an object, such as `a list` or its value; else empty.
        written: the body as the file has it, if `body` is a corrected copy; else None.
        is_partial: True if `body` lacks fields whose values no file has, so that only the schema judges the rest.
    """

    body: Body
    file: str
    index: int = 0
    inside: Path = ()
    instead: str = ""
    written: Body | None = field(default=None, compare=False)
    is_partial: bool = field(default=False, compare=False)

    @cached_property
    def api_version(self) -> str:
        """The apiVersion, such as `batch/v1`; empty if absent."""
        return _text(self.body.get("apiVersion"))

    @cached_property
    def kind(self) -> str:
        """The kind, such as `Job`; empty if absent."""
        return _text(self.body.get("kind"))

    @cached_property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @cached_property
    def name(self) -> str:
        """`metadata.name`; empty if absent."""
        return _text(self._metadata.get("name"))

    @cached_property
    def namespace(self) -> str:
        """`metadata.namespace`; empty if absent, as in cluster-scoped objects."""
        return _text(self._metadata.get("namespace"))

    @property
    def labels(self) -> Mapping[str, Any]:
        """`metadata.labels`; empty if absent or not a mapping."""
        labels = self._metadata.get("labels")
        return labels if isinstance(labels, dict) else {}

    @property
    def _metadata(self) -> Mapping[str, Any]:
        metadata = self.body.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """The identity of the object in a cluster: group, kind, namespace and name, without the version."""
        return self.group, self.kind, self.namespace, self.name

    def view(self, read: Callable[[Manifest], V]) -> V:
        """Return `read(self)`. The result is cached, so `read` runs once for each object.

        Args:
            read: a function of a module; a new lambda for each call would fill the cache.
        """
        if read not in self._views:
            self._views[read] = read(self)
        return cast("V", self._views[read])

    @cached_property
    def _views(self) -> dict[Callable[[Manifest], object], object]:
        return {}

    @property
    def resource(self) -> str:
        """The object for messages: `RoleBinding team-a/edit`."""
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind or 'object'} {place}".strip()

    @property
    def resource_in_file(self) -> str:
        """The object for messages as the file has it, also for a corrected copy."""
        return (replace(self, body=self.written) if self.written is not None else self).resource


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def omit_none(body: Body) -> Body:
    """Return a body without the fields that are None, at any depth. Builders write None for an optional field."""
    pruned: Body = _omit_none(body)
    return pruned


def _omit_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {field: _omit_none(content) for field, content in value.items() if content is not None}
    return [_omit_none(item) for item in value] if isinstance(value, list) else value


def detach(body: Body) -> Body:
    """Return a copy of a body that shares no mapping and no list with another object, and that can be changed."""
    detached: Body = _detach(body)
    return detached


def _detach(value: Any) -> Any:
    if isinstance(value, dict):
        return {field: _detach(content) for field, content in value.items()}
    return [_detach(item) for item in value] if isinstance(value, list | tuple) else value


def read(text: str | bytes, file: str) -> Iterator[Manifest]:
    """Yield the manifests of a YAML text, including the items of `List` kinds, and skip empty documents.

    A document that is not an object becomes a manifest with an empty body, and `instead` describes the document.

    Raises:
        DocumentError: the text is not YAML that the API server accepts, or is too large or too deep. The error has
            file, line and column.
    """
    try:
        for document in load(text):
            yield from _manifests(document, file)
    except DocumentError as error:
        raise DocumentError(tuple(replace(problem, file=file) for problem in error.problems)) from None


class Head(NamedTuple):
    """The kind and the namespace of an object, from the first lines of its YAML.

    Attributes:
        kind: the kind.
        namespace: the namespace; for a Namespace, its own name; empty for a ClusterRoleBinding.
        role: for a ClusterRoleBinding, the name of its ClusterRole; else empty.
    """

    kind: str
    namespace: str
    role: str = ""


Needed = Callable[[Head], bool]
"""A function that returns True if the caller needs the object with this kind and namespace."""
_HEAD = re.compile(
    rb"(?:#[^\n]*\n)*apiVersion: (?:v1\nkind: (?P<core>Namespace)\nmetadata:\n  name|"
    rb"rbac.authorization.k8s.io/v1\nkind: (?P<grant>ClusterRoleBinding)\nmetadata:\n  name: [^\n]+\n"
    rb"(?:  [^\n]*\n)*roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: ClusterRole\n  name|"
    rb"[A-Za-z][\w./-]*\nkind: (?P<kind>[A-Z][A-Za-z]+)\nmetadata:\n  name: [^\n]+\n  namespace)"
    rb": (?P<name>[a-z][a-z0-9-]*)(?:\n|\Z)"
)


def read_needed(text: bytes, file: str, is_needed: Needed) -> list[Manifest]:
    """Return the manifests of a YAML text, without recognized objects that `is_needed` rejects.

    Parsing takes most of the time of a command that reads a large release. So this function recognizes objects in the
    form that mpigen writes by their first lines, and does not parse objects that are not needed. It reports no error
    in them.

    Args:
        text: the YAML text.
        file: its file.
        is_needed: returns False for an object to leave out. The function asks only about objects that it recognizes.

    Raises:
        DocumentError: as for `read`, except errors in objects that are left out.
    """
    parts = text.removeprefix(b"---\n").split(b"\n---\n")
    is_split = text.count(b"\n---") == len(parts) - 1 and b"\n..." not in text
    needed = [not ((is_split or _is_one(part)) and _is_unneeded(part, is_needed)) for part in parts]
    if all(needed) or b"---\n---\n" in text:  # an empty document, which `split` loses
        return list(read(text, file))
    result: list[Manifest] = []
    if not any(needed):
        return result
    index = 0
    for number, part in enumerate(parts):
        if needed[number]:
            if b"\nkind: ClusterQueue\n" in part and (body := read_sections(part)):  # a release has one for each tenant
                result += _open(body, file, index, ())
                index += 1
                continue
            try:
                documents = list(load(part if number == len(parts) - 1 else part + b"\n"))
            except DocumentError:  # its line counts from the start of the part, so read the whole text again
                return list(read(text, file))
            if number == 0 and not documents:  # only comments
                continue
            if len(documents) != 1:
                return list(read(text, file))
            result += (replace(item, index=index) for item in _manifests(documents[0], file))
        index += 1
    return result


def _is_one(document: bytes) -> bool:
    return b"\n---" not in document and b"\n..." not in document


def _is_unneeded(document: bytes, is_needed: Needed) -> bool:
    """Return True if a document in the form that mpigen writes has an object that is not needed."""
    head = _HEAD.match(document)
    return head is not None and _is_rejected(is_needed, *head.groups())


@lru_cache(maxsize=8192)
def _is_rejected(is_needed: Needed, core: bytes, grant: bytes, kind: bytes, name: bytes) -> bool:
    text = name.decode()
    head = Head(grant.decode(), "", text) if grant else Head((core or kind).decode(), text)
    return type(resolve(text)) is str and not is_needed(head)


def _manifests(document: Document, file: str) -> Iterator[Manifest]:
    if isinstance(document.data, dict):
        yield from _open(document.data, file, document.index, ())
    elif document.data is not None:
        yield Manifest({}, file, document.index, instead=format_value(document.data))


def _open(body: Body, file: str, index: int, inside: Path) -> Iterator[Manifest]:
    """Yield the items of a list object (`kind: List`, `kind: ConfigMapList`, …); any other object itself.

    Items of a `ConfigMapList` may omit apiVersion and kind: apimachinery v0.34.2
    pkg/apis/meta/v1/unstructured/helpers.go unstructuredJSONScheme.decodeToList.
    """
    kind, items = _text(body.get("kind")), body.get("items")
    if not (isinstance(items, list) and kind.endswith("List")):
        yield Manifest(body, file, index, inside)
        return
    implied = {} if kind == "List" else {"apiVersion": body.get("apiVersion"), "kind": kind.removesuffix("List")}
    for position, item in enumerate(items):
        path = (*inside, "items", position)
        if isinstance(item, dict):
            yield from _open(item if item.keys() & {"apiVersion", "kind"} else {**implied, **item}, file, index, path)
        else:
            yield Manifest({}, file, index, path, format_value(item))


def conflict_error(manifest: Manifest, first: Manifest) -> SimulationError:
    """Return the error for two objects with the same kind, namespace and name, but different content."""
    message = f"{manifest.resource} differs from the object of the same name in {first.file}"
    return SimulationError((Problem(message, "name the files of one cluster", manifest.file),))


def write(manifests: Iterable[Manifest]) -> dict[str, str]:
    """Return path → YAML text for the files of manifests. The objects of a file keep their order."""
    bodies: dict[str, list[Body]] = {}
    for manifest in manifests:
        bodies.setdefault(manifest.file, []).append(manifest.body)
    emitter = Emitter()
    return {file: emitter.emit(bodies[file]) for file in sorted(bodies)}
