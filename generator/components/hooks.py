"""The hooks of MpiRuntime that a subclass overrides: call them, check their values, and find misnamed ones.

The return annotations of MpiRuntime's own methods are the types that a subclass must return. Every problem has the file
and the line of the overriding method, or the line that raised an exception.
"""

from __future__ import annotations

import difflib
import inspect
import math
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from generator.documents.messages import format_value
from generator.documents.python import find_line
from generator.errors import MpigenError, Problem, format_exception

_MOST = 1000
"""The largest number of items of a list, so that an endless generator ends."""
_ALIKE = 0.8
"""The similarity from which a name counts as a misspelled hook: `side_car` resembles `sidecars`, `job_name` no hook."""
_OTHER_NAMES = {
    "environment": "env envs environ environmentvariables envvars variables",
    "volumes": "mounts volumemounts",
    "resources": "limits requests launcherresources resourcespernode",
    "init_containers": "init",
    "sidecars": "sidecarcontainers",
    "containers": "maincontainer probes livenessprobe readinessprobe startupprobe",
    "pod": "affinity annotations hostaliases labels metadata nodeselector podspec podtemplate priorityclassname "
    "runtimeclassname tolerations",
    "security": "containersecuritycontext podsecurity podsecuritycontext securitycontext",
    "job": "backofflimit jobspec jobtemplate",
}
"""Hook → names by which Kubernetes calls its fields, in lower case without `_`."""


class Hooks:
    """The hooks of one MpiRuntime. Calls collect the problems of all hooks.

    Attributes:
        problems: the problems so far, each once.
    """

    def __init__(self, component: object, base: type, names: Iterable[str]) -> None:
        self._component = component
        self._base = base
        self._names = tuple(names)
        self.problems: list[Problem] = []

    def is_overridden(self, name: str) -> bool:
        """Return True if the class of the runtime overrides a hook."""
        return inspect.getattr_static(type(self._component), name) is not inspect.getattr_static(self._base, name)

    @property
    def overridden(self) -> list[str]:
        """Return the hooks that the class of the runtime overrides."""
        return [name for name in self._names if self.is_overridden(name)]

    def place_of(self, name: str) -> MethodPlace:
        """Return the file and the line of the method that overrides a hook, and its name with the class."""
        return _place_of_method(type(self._component), name)

    def call(self, name: str, *arguments: object) -> Any:
        """Return the value of a hook. If the hook fails or returns another type, return the value of MpiRuntime."""
        method = getattr(self._component, name)
        default = getattr(self._base, name)(self._component, *arguments)
        if not self.is_overridden(name):
            return default
        if fault := _find_signature_fault(method, name, getattr(self._base, name), arguments):
            self.report(name, "", *fault)
            return default
        try:
            value = _listed(method(*arguments))
        except MpigenError:
            raise
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the user's code may raise anything
            self.report(name, "", format_exception(error), "fix this method", error)
            return default
        annotation = get_type_hints(getattr(self._base, name))["return"]
        faults = [*_find_faults(value, annotation, "")]
        for path, message, fix in faults:
            self.report(name, path, message, fix)
        return default if faults else value

    def report(self, hook: str, path: str, message: str, fix: str, error: BaseException | None = None) -> None:
        """Add a problem of a hook, with the line of its method or of its exception."""
        self._add(type(self._component), hook, path, message, fix, error)

    def find_misnamed(self) -> None:
        """Report public methods that are no hooks, but have almost the name of a hook.

        Other methods are helpers of the subclass: MpiRuntime never calls them.
        """
        for cls in type(self._component).__mro__:
            if cls is self._base or not issubclass(cls, self._base):
                continue
            for name in vars(cls):
                if name.startswith("_") or hasattr(self._base, name):
                    continue
                if hook := _similar(name, self._names):
                    message = f"MpiRuntime has no hook `{name}`, so mpigen would ignore this override"
                    fix = f"did you mean `{hook}`? For a helper method, write `_{name}`"
                    self._add(cls, name, "", message, fix)

    def _add(self, cls: type, name: str, path: str, message: str, fix: str, error: BaseException | None = None) -> None:
        place = _place_of_method(cls, name)
        line = (find_line(error, place.file) if error is not None else 0) or place.line
        problem = Problem(message, fix, place.file, line, path=f"{place.name}{path}")
        if problem not in self.problems:
            self.problems.append(problem)


class MethodPlace(NamedTuple):
    """The file and the first line of a method, and its name, such as `Torch.environment`. The file can be unknown."""

    file: str
    line: int
    name: str


def _place_of_method(cls: type, name: str) -> MethodPlace:
    code = getattr(_function(inspect.getattr_static(cls, name)), "__code__", None)
    file, line = _place_of(cls) if code is None else (code.co_filename, code.co_firstlineno)
    return MethodPlace(file, line, f"{cls.__name__}.{name}")


def _function(attribute: object) -> object:
    """Return the function of an attribute of a class, also of a property, staticmethod or classmethod."""
    attribute = getattr(attribute, "fget", attribute)
    return inspect.unwrap(attribute) if callable(attribute) else getattr(attribute, "__func__", attribute)


def _place_of(cls: type) -> tuple[str, int]:
    """Return the file and the first line of a class: of its first method, because an attribute has no line."""
    codes = [code for item in vars(cls).values() if (code := getattr(_function(item), "__code__", None))]
    return (codes[0].co_filename, codes[0].co_firstlineno) if codes else ("", 0)


def _similar(name: str, hooks: Iterable[str]) -> str:
    """Return the hook that a name resembles; empty if it resembles none."""
    plain = re.sub("_", "", name).lower()
    for hook in hooks:
        if plain in _OTHER_NAMES[hook].split():
            return hook
    by_plain = {hook.replace("_", ""): hook for hook in hooks}
    close = difflib.get_close_matches(plain, by_plain, n=1, cutoff=_ALIKE)
    return by_plain[close[0]] if close else ""


def _find_signature_fault(
    method: object, name: str, base: Callable[..., object], arguments: tuple[object, ...]
) -> tuple[str, str] | None:
    parameters = [*inspect.signature(base).parameters]
    if not callable(method):
        return f"`{name}` is {format_value(method)}, not a method", f"write `def {name}({', '.join(parameters)})`"
    try:
        inspect.signature(method).bind(*arguments)
    except TypeError:
        message = f"mpigen calls `{name}({', '.join(parameters[1:])})`, and this method has other parameters"
        return message, f"write `def {name}({', '.join(parameters)})`"
    except ValueError:  # a builtin without a signature
        return None
    return None


def _listed(value: object) -> object:
    """Return a generator as a list, of which at most `_MOST` + 1 items are read."""
    return [*islice(value, _MOST + 1)] if isinstance(value, Iterator) else value


class _Fault(NamedTuple):
    """A part of a value with a wrong type."""

    path: str
    message: str
    fix: str


def _find_faults(value: object, annotation: Any, path: str) -> Iterator[_Fault]:
    """Yield the parts of a value whose types differ from the annotation."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        if all([*_find_faults(value, kind, path)] for kind in arguments):
            if type(value) in arguments:
                yield from _find_faults(value, type(value), path)
            else:
                yield _fault(value, annotation, path)
    elif origin is not None and issubclass(origin, Mapping):
        yield from _find_faults_of_mapping(value, annotation, path)
    elif origin is not None and issubclass(origin, Iterable):
        yield from _find_faults_of_list(value, annotation, path)
    elif annotation is object:
        yield from _find_faults_of_data(value, path)
    elif not isinstance(value, annotation) or (isinstance(value, bool) and annotation is int):
        yield _fault(value, annotation, path)
    elif is_dataclass(annotation):
        hints = get_type_hints(annotation)
        for one in fields(annotation):
            yield from _find_faults(getattr(value, one.name), hints[one.name], f"{path}.{one.name}")


def _find_faults_of_mapping(value: object, annotation: Any, path: str) -> Iterator[_Fault]:
    if not isinstance(value, Mapping):
        yield _fault(value, annotation, path)
        return
    for key, content in value.items():
        if not isinstance(key, str):
            yield _Fault(path, f"the key {format_value(key)} is not a string", "write strings as keys")
        else:
            yield from _find_faults(content, get_args(annotation)[1], f"{path}.{key}")


def _find_faults_of_list(value: object, annotation: Any, path: str) -> Iterator[_Fault]:
    if not isinstance(value, list | tuple):
        yield _fault(value, annotation, path)
        return
    if len(value) > _MOST:
        yield _Fault(path, f"the list has more than {_MOST} items", "return a shorter list")
        return
    for number, item in enumerate(value):
        yield from _find_faults(item, get_args(annotation)[0], f"{path}[{number}]")


def _find_faults_of_data(value: object, path: str) -> Iterator[_Fault]:
    """Yield the parts of a value that JSON cannot represent, and None."""
    if isinstance(value, Mapping):
        yield from _find_faults_of_mapping(value, Mapping[str, object], path)
    elif isinstance(value, list | tuple):
        yield from _find_faults_of_list(value, Iterable[object], path)
    elif isinstance(value, float) and not math.isfinite(value):
        yield _Fault(path, f"`{value}` is not a number that JSON can represent", "write a finite number")
    elif not isinstance(value, str | int | float):
        message = f"the value is {_article(type(value).__name__)}, not plain data"
        yield _Fault(path, message, "use strings, numbers, booleans, lists and mappings only")


def _fault(value: object, annotation: Any, path: str) -> _Fault:
    text = format_value(value) if isinstance(value, str | int | float) else _article(type(value).__name__)
    return _Fault(path, f"the value is {text}, not {_describe(annotation)}", f"return {_describe(annotation)}")


def _article(name: str) -> str:
    return "None" if name == "NoneType" else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} `{name}`"


def _describe(annotation: Any) -> str:
    """Return a type in words, such as `a list of `Container``."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    plain = {str: "a string", int: "an integer", bool: "True or False", object: "plain data", type(None): "None"}
    if annotation in plain:
        return plain[annotation]
    if origin in (Union, types.UnionType):
        return " or ".join(_describe(kind) for kind in arguments)
    if origin is not None and issubclass(origin, Mapping):
        return f"a mapping of names to {_plural(arguments[1])}"
    if origin is not None:
        return f"a list of {_plural(arguments[0])}"
    return _article(annotation.__name__)


def _plural(annotation: Any) -> str:
    plain = {str: "strings", int: "integers", object: "plain data"}
    if get_origin(annotation) in (Union, types.UnionType):
        return " or ".join(_plural(kind) for kind in get_args(annotation))
    if get_origin(annotation) is not None:
        return "mappings" if issubclass(get_origin(annotation), Mapping) else "lists"
    return plain.get(annotation) or f"`{annotation.__name__}`"
