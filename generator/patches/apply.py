"""Apply patches to the objects of a release, and find the mistakes in the patches, all at once."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from generator.documents.load import Path
from generator.documents.messages import format_path, format_value
from generator.documents.python import shorten_path, watch_function
from generator.errors import ConfigError, MpigenError, Problem, format_exception
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping
from generator.patches.merge import PatchError, merge
from generator.patches.operations import apply_operations, is_equal
from generator.patches.select import Selection

Function = Callable[[Body], Body]
"""A function in Python that changes a copy of an object and returns it."""
_IDENTITY = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"))


@dataclass(frozen=True)
class Patch:
    """A patch: a change of each object that a selection matches.

    Attributes:
        target: the selection.
        change: the mapping to merge into each object, the operations of a JSON patch, or a function.
        path: the path of the patch in the platform file, such as `("patches", 2)`; empty for a patch in Python.
        file: the Python file with the patch; empty for a patch in the platform file.
        line: the line of the patch in that file.
    """

    target: Selection
    change: Mapping[str, Any] | Sequence[Mapping[str, Any]] | Function
    path: Path = ()
    file: str = ""
    line: int = 0

    def problem(self, message: str, fix: str, path: Path = ()) -> Problem:
        """Return a problem with the place of the patch, or of the part at a path in it."""
        return Problem(message, fix, self.file, self.line, path=format_path((*self.path, *path)) if self.path else "")

    def apply(self, body: Body) -> Body:
        """Return a changed object. The result shares unchanged parts with `body`, or is a copy.

        Raises:
            PatchError: the patch does not fit the object, or its function fails.
            MpigenError: its function raises an error of mpigen.
        """
        if isinstance(self.change, Mapping):
            return _locate(lambda change: merge(body, change), self.change, ("merge",))
        if not callable(self.change):
            return _locate(lambda change: apply_operations(body, change), self.change, ("json",))
        return _call(self.change, body, self.file)


def _locate(apply: Callable[[Any], Body], change: Any, path: Path) -> Body:
    try:
        return apply(change)
    except PatchError as error:
        raise PatchError(error.message, error.fix, (*path, *error.path)) from None


def describe_function(function: Function, file: str) -> str:
    """Return the name of a function with its file and line, such as ``tune` (mpigen_platform.py:12)``.

    Args:
        function: the function.
        file: the file with the patch, as the user named it. The path of the function gets the same form.
    """
    name = getattr(function, "__qualname__", type(function).__name__)
    code = getattr(function, "__code__", None)
    return f"`{name}` ({shorten_path(code.co_filename, file)}:{code.co_firstlineno})" if code else f"`{name}`"


def _call(function: Function, body: Body, file: str) -> Body:
    """Call a function with a copy of an object, and return its result as plain data.

    A second call gets an equal copy. Its result must be equal too: otherwise each run would write another release.

    Raises:
        PatchError: the function raises an exception, returns no object of plain data, or returns another object in the
            second call.
        ConfigError: the function changes a file or the working folder, starts a thread, or reads standard input.
    """
    plain, again = (_call_once(function, body, file) for _ in range(2))
    if plain != again:
        path = format_path(next(find_changes(plain, again)))
        message = f"{describe_function(function, file)} returns different values of `{path}` for the same object"
        raise PatchError(
            message, "compute the same values for the same object, without random values, dates or counters"
        )
    return plain


def _call_once(function: Function, body: Body, file: str) -> Body:
    name = describe_function(function, file)
    try:
        with watch_function(file):
            result: Any = function(copy.deepcopy(body))
    except MpigenError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the user's code may raise anything
        line = _find_line(error, function)
        at = f" in line {line}" if line else ""
        raise PatchError(f"{name} fails{at}: {format_exception(error)}", "correct the function") from None
    if not isinstance(result, dict):
        returned = "None" if result is None else format_value(result)
        raise PatchError(f"{name} returns {returned}, not an object", "return the changed object")
    try:
        plain: Body = json.loads(json.dumps(result, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        fix = "return strings, finite numbers, lists and mappings only"
        raise PatchError(f"{name} returns an object that is not plain data: {error}", fix) from None
    return plain


def _find_line(error: BaseException, function: Function) -> int:
    """Return the last line of the function's file that was running; 0 if there is none."""
    code, trace, line = getattr(function, "__code__", None), error.__traceback__, 0
    while code and trace:
        if trace.tb_frame.f_code.co_filename == code.co_filename:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a patch on an object.

    Attributes:
        patch: the patch.
        changed: the paths in the object that the patch sets or removes.
        before: the object before the patch.
        after: the object after the patch.
    """

    patch: Patch
    changed: tuple[Path, ...]
    before: Body
    after: Body

    @property
    def kind(self) -> str:
        """The kind of the object."""
        return str(self.after.get("kind"))


Effects = Mapping[tuple[str, str], Sequence[Effect]]
"""(File, resource) of an object → the effects of patches on it, in the order of the patches."""


@dataclass
class Patching:
    """A run of patches over the objects of a release. The first patch is applied first.

    Attributes:
        patches: the patches.
        namespaces: namespace → its tenant.
        effects: the effects until now.
    """

    patches: Sequence[Patch]
    namespaces: Mapping[str, str]
    effects: dict[tuple[str, str], list[Effect]] = field(default_factory=dict)
    _matched: set[int] = field(default_factory=set)
    _failed: dict[tuple[int, str, str, Path], list[str]] = field(default_factory=dict)

    def apply(self, tree: Sequence[Manifest]) -> list[Manifest]:
        """Return objects with all patches applied. An object to which no patch applies is returned as it is."""
        by_kind: dict[str, list[int]] = {}
        for number, patch in enumerate(self.patches):
            by_kind.setdefault(patch.target.kind, []).append(number)
        if not by_kind:
            return list(tree)
        every = by_kind.get("", [])
        numbers = {kind: sorted((*every, *some)) for kind, some in by_kind.items() if kind}
        return [self._apply(manifest, numbers.get(manifest.kind, every)) for manifest in tree]

    def _apply(self, manifest: Manifest, numbers: Iterable[int]) -> Manifest:
        for number in numbers:
            patch = self.patches[number]
            if patch.target.matches(manifest, self.namespaces):
                self._matched.add(number)
                try:
                    manifest = self._change(manifest, patch)
                except PatchError as error:
                    cause = (number, error.message, error.fix, error.path)
                    self._failed.setdefault(cause, []).append(manifest.resource)
        return manifest

    def _change(self, manifest: Manifest, patch: Patch) -> Manifest:
        body = patch.apply(manifest.body)
        changed = tuple(find_changes(manifest.body, body))
        if not changed:
            return manifest
        _check_object(manifest.body, body)
        self.effects.setdefault((manifest.file, manifest.resource), []).append(
            Effect(patch, changed, manifest.body, body)
        )
        return replace(manifest, body=body)

    def patched(self, tree: Iterable[Manifest]) -> list[Manifest]:
        """Return the objects that a patch has changed."""
        return (
            [manifest for manifest in tree if (manifest.file, manifest.resource) in self.effects]
            if self.effects
            else []
        )

    def check(self, tree: Iterable[Manifest]) -> None:
        """Check that every patch changes the release.

        Args:
            tree: all objects of the release, after the patches.

        Raises:
            ConfigError: with a problem for each patch that matches no object, fails, changes nothing, or whose changes
                later patches undo.
        """
        tree = list(tree)
        problems = [
            self.patches[number].problem(f"{_name_objects(resources)}: {message}", fix, path)
            for (number, message, fix, path), resources in self._failed.items()
        ]
        failed = {number for number, *_ in self._failed}
        effective = {id(effect.patch) for effects in self.effects.values() for effect in effects}
        for number, patch in enumerate(self.patches):
            if number not in self._matched:
                fix = patch.target.explain_no_match(tree, self.namespaces)
                problems.append(patch.problem(f"no object of the release has {patch.target}", fix, ("target",)))
            elif id(patch) not in effective and number not in failed:
                message = (
                    f"this patch changes nothing: every object with {patch.target} already is as the patch sets it"
                )
                problems.append(patch.problem(message, "correct the field names and values, or remove the patch"))
        problems += self._find_undone()
        if problems:
            raise ConfigError(tuple(problems))

    def _find_undone(self) -> Iterator[Problem]:
        """Yield a problem for each patch of which later patches override all changes."""
        if len(self.patches) < 2:  # noqa: PLR2004 - two patches can conflict
            return
        surviving: set[int] = set()
        undone: dict[int, tuple[Patch, Patch, str, Path]] = {}
        for (_, resource), effects in self.effects.items():
            for position, effect in enumerate(effects):
                later = [other for other in effects[position + 1 :] if other.patch is not effect.patch]
                by = {path: [other for other in later if _covers(other.changed, path)] for path in effect.changed}
                if all(by.values()):
                    path = effect.changed[0]
                    undone.setdefault(id(effect.patch), (effect.patch, by[path][-1].patch, resource, path))
                else:
                    surviving.add(id(effect.patch))
        for key, (patch, other, resource, path) in undone.items():
            if key not in surviving:
                name = format_path(other.path) if other.path else f"{other.file}:{other.line}"
                message = f"`{name}` overrides all that this patch sets, such as `{format_path(path)}` of {resource}"
                yield patch.problem(message, "remove one of the two patches, or narrow the `target` of the other one")


def _covers(changed: Iterable[Path], path: Path) -> bool:
    return any(path[: len(other)] == other for other in changed)


def _name_objects(resources: Sequence[str]) -> str:
    others = len(resources) - 1
    return f"{resources[0]} and {others} other objects" if others > 1 else " and ".join(resources)


def _check_object(before: Body, after: Body) -> None:
    """Check that a changed object has the same identity, and metadata that can be read.

    Raises:
        PatchError: it has not.
    """
    for path in _IDENTITY:
        old, new = (mapping(body, *path[:-1]).get(path[-1]) for body in (before, after))
        if old != new:
            message = f"a patch cannot change `{'.'.join(path)}` from {format_value(old)} to {format_value(new)}"
            fix = "keep it, and add another object with `extra`" if new is not None else "keep it"
            raise PatchError(message, fix)
    for name in ("labels", "annotations"):
        value = mapping(after, "metadata").get(name, {})
        if not isinstance(value, dict):
            message = f"the patch sets `metadata.{name}` to {format_value(value)}, which is not a mapping"
            raise PatchError(message, "write a mapping of strings")


def find_changes(before: Any, after: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of values that a patch sets or removes.

    If a list loses items, the result has the path of the list.
    """
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            if key in before and key in after:
                yield from find_changes(before[key], after[key], (*path, key))
            else:
                yield (*path, key)
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) == len(after):
            for position, (old, new) in enumerate(zip(before, after, strict=True)):
                yield from find_changes(old, new, (*path, position))
            return
        yield from ((*path, position) for position, item in enumerate(after) if not _has(before, item))
        if not all(_has(after, item) for item in before) or len(before) > len(after):
            yield path
    elif not is_equal(before, after):
        yield path


def _has(items: Collection[Any], value: Any) -> bool:
    return any(item is value or is_equal(item, value) for item in items)
