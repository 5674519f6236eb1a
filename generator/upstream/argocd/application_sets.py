"""The Applications that an ApplicationSet creates, as far as the files show the parameters of its generators."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from generator.documents.load import load
from generator.errors import DocumentError
from generator.manifests import Body
from generator.objects.fields import items, mapping, mappings, string, strings

UNKNOWN = "\0"
"""Stands in a rendered string for a value that the files do not show, such as the name of a cluster."""
_TAG = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
_GO_FIELD = re.compile(r"(?:\.[A-Za-z_]\w*)+")
_GO_INDEX = re.compile(r"index\s+((?:\.[A-Za-z_]\w*)+)\s+(?:\"([^\"]*)\"|(\d+))")
_NOT_DNS = re.compile(r"[^-a-z0-9.]")
_LONGEST_NAME = 253
_MOST = 2000
"""The most Applications of an ApplicationSet that mpigen renders."""

Params = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of one Application.

    Attributes:
        values: name → value.
        is_open: True if a generator adds parameters that the files do not show.
        origin: the place of the parameters, such as `element 2 of the list`; empty if unknown.
    """

    values: Params
    is_open: bool = False
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Files:
    """The files of the repositories of git generators.

    Attributes:
        folders: returns the folders that match the patterns of a git generator, relative to the root of its
            repository; None if the repository is not on disk.
        texts: returns path → text of the files that match the patterns of a git generator; None as above.
    """

    folders: Callable[[Body], Sequence[str] | None]
    texts: Callable[[Body], Mapping[str, bytes] | None]


def render_applications(spec: Body, files: Files) -> Iterator[tuple[Body, Parameters]]:
    """Yield the body and the parameters of each Application that an ApplicationSet creates.

    An unknown part of a string is `UNKNOWN`. An ApplicationSet with a `templatePatch` that can change the source, the
    destination, the project or the name creates unknown Applications, so it yields none.

    Args:
        spec: the `spec` of the ApplicationSet.
        files: the repositories on disk.

    Source: argo-cd v3.2.1 applicationset/generators, argo-cd v3.2.1 applicationset/utils/utils.go
    Render.RenderTemplateParams
    """
    if re.search(r"source|destination|project|name", string(spec.get("templatePatch"))):
        return
    is_go = spec.get("goTemplate") is True
    count = 0
    for generator in mappings(spec.get("generators")):
        for template, parameters in _generate(generator, mapping(spec.get("template")), files, is_go=is_go):
            if (count := count + 1) > _MOST:
                return
            yield _render(template, parameters, is_go=is_go), parameters


def _generate(generator: Body, template: Body, files: Files, *, is_go: bool) -> Iterator[tuple[Body, Parameters]]:
    """Yield the template and the parameters of each Application of a generator. A generator can change the template."""
    kind = next((key for key in generator if key != "selector"), "")
    body = mapping(generator.get(kind))
    changed = _merge(template, mapping(body.get("template")))
    for parameters in _parameters(generator, files, is_go=is_go):
        yield changed, parameters


def _merge(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        keys = dict.fromkeys((*below, *above))
        return {key: _merge(below.get(key), above[key]) if key in above else below[key] for key in keys}
    return below if above in (None, "", [], {}) else above


def _parameters(generator: Body, files: Files, *, is_go: bool) -> list[Parameters]:
    """Return the parameters of a generator. A generator that asks a cluster or a server has open parameters."""
    if "selector" in generator:
        return [Parameters({}, is_open=True)]
    if "list" in generator:
        return _of_list(mapping(generator.get("list")), is_go=is_go)
    if "git" in generator:
        return _of_git(mapping(generator.get("git")), files, is_go=is_go)
    if "matrix" in generator:
        return _of_matrix(mappings(mapping(generator.get("matrix")).get("generators")), files, is_go=is_go)
    if "merge" in generator:
        return _of_merge(mapping(generator.get("merge")), files, is_go=is_go)
    return [Parameters({}, is_open=True)]


def _of_list(body: Body, *, is_go: bool) -> list[Parameters]:
    if body.get("elementsYaml"):
        return [Parameters({}, is_open=True)]
    result = []
    for number, element in enumerate(items(body.get("elements"))):
        if isinstance(element, dict):
            origin = f"element {number + 1} of the list"
            result.append(Parameters(element if is_go else _flatten(element), origin=origin))
    return result


def _flatten(value: Params, prefix: str = "") -> Params:
    flat: Params = {}
    for key, content in value.items():
        name = f"{prefix}{key}"
        if isinstance(content, dict):
            flat.update(_flatten(content, f"{name}."))
        else:
            flat[name] = content if isinstance(content, str) else _text(content)
    return flat


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _of_git(body: Body, files: Files, *, is_go: bool) -> list[Parameters]:
    is_open = bool(body.get("values"))  # templates with parameters of their own
    prefix = string(body.get("pathParamPrefix"))
    if body.get("directories"):
        folders = files.folders(body)
        if folders is None:
            return [Parameters({}, is_open=True)]
        rendered = (_path_parameters(folder, prefix, is_go=is_go) for folder in folders)
        return [
            Parameters(values, is_open, f"the folder `{folder}`")
            for folder, values in zip(folders, rendered, strict=True)
        ]
    texts = files.texts(body)
    if texts is None:
        return [Parameters({}, is_open=True)]
    result: list[Parameters] = []
    for file, text in texts.items():
        for content in _read_objects(text):
            folder, _, name = file.rpartition("/")
            values = _path_parameters(folder or ".", prefix, name, is_go=is_go)
            known = _merge(content, values) if is_go else {**_flatten(content), **values}
            result.append(Parameters(known, is_open, f"the file `{file}`"))
    return result


def _read_objects(text: bytes) -> Sequence[Params]:
    try:
        documents = [document.data for document in load(text)]
    except DocumentError:
        return ()
    first = documents[0] if documents else {}
    return [first] if isinstance(first, dict) else mappings(first)


def _path_parameters(folder: str, prefix: str, file: str = "", *, is_go: bool) -> Params:
    basename, segments = folder.rpartition("/")[2], folder.split("/")
    names = {"basename": basename, "basenameNormalized": _normalize(basename)}
    if file:
        names |= {"filename": file, "filenameNormalized": _normalize(file)}
    if is_go:
        path: Params = {"path": {"path": folder, "segments": segments, **names}}
        return {prefix: path} if prefix else path
    start = f"{prefix}.path" if prefix else "path"
    flat = {f"{start}.{key}": value for key, value in names.items()}
    return {start: folder, **flat, **{f"{start}[{number}]": step for number, step in enumerate(segments)}}


def _normalize(name: str) -> str:
    return _NOT_DNS.sub("-", name.lower())[:_LONGEST_NAME].strip("-.")


def _of_matrix(generators: Sequence[Body], files: Files, *, is_go: bool) -> list[Parameters]:
    """Return each pair of parameters. The second generator can use the parameters of the first one."""
    if len(generators) != 2:  # noqa: PLR2004 - Argo CD requires two
        return [Parameters({}, is_open=True)]
    result: list[Parameters] = []
    for first in _parameters(generators[0], files, is_go=is_go):
        second_generator = _render(generators[1], first, is_go=is_go) if first.values else generators[1]
        for second in _parameters(second_generator, files, is_go=is_go):
            origin = " and ".join(filter(None, (first.origin, second.origin)))
            merged = _merge(first.values, second.values)
            result.append(Parameters(merged, first.is_open or second.is_open, origin))
    return result


def _of_merge(body: Body, files: Files, *, is_go: bool) -> list[Parameters]:
    """Return the parameters of the first generator, merged with the other parameters that have the same keys."""
    keys = strings(body.get("mergeKeys"))
    sets = [_parameters(generator, files, is_go=is_go) for generator in mappings(body.get("generators"))]
    if not sets or any(parameters.is_open for rest in sets for parameters in rest):
        return [Parameters({}, is_open=True)]
    base, *others = sets
    result = []
    for parameters in base:
        values = parameters.values
        for other in (item for rest in others for item in rest):
            if all(key in other.values and other.values[key] == values.get(key) for key in keys):
                values = _merge(values, other.values)
        result.append(Parameters(values, origin=parameters.origin))
    return result


def _render(value: Any, parameters: Parameters, *, is_go: bool) -> Any:
    """Return a copy of a template in which all strings are rendered."""
    if isinstance(value, dict):
        return {
            _render(key, parameters, is_go=is_go): _render(item, parameters, is_go=is_go) for key, item in value.items()
        }
    if isinstance(value, list):
        return [_render(item, parameters, is_go=is_go) for item in value]
    if not isinstance(value, str) or "{{" not in value:
        return value
    replace = _replace_go if is_go else _replace_plain
    return _TAG.sub(lambda tag: replace(tag[0], tag[1], parameters), value)


def _replace_plain(tag: str, name: str, parameters: Parameters) -> str:
    """Return the value of a parameter. Argo CD leaves an unknown parameter unchanged."""
    if name in parameters.values:
        return _text(parameters.values[name])
    return UNKNOWN if parameters.is_open else tag


def _replace_go(_: str, expression: str, parameters: Parameters) -> str:
    """Return the value of a field or of an item of a list. Other expressions are unknown."""
    value: object = UNKNOWN
    if _GO_FIELD.fullmatch(expression):
        value = _look_up(parameters, expression)
    elif match := _GO_INDEX.fullmatch(expression):
        container = _look_up(parameters, match[1])
        if match[3] and isinstance(container, list):
            value = container[int(match[3])] if int(match[3]) < len(container) else UNKNOWN
        elif match[2] is not None and isinstance(container, dict):
            value = container.get(match[2], UNKNOWN)
    return UNKNOWN if isinstance(value, dict | list) else _text(value)


def _look_up(parameters: Parameters, field: str) -> object:
    value: object = parameters.values
    for step in field.split(".")[1:]:
        if not isinstance(value, dict) or step not in value:
            return UNKNOWN if parameters.is_open else "<no value>"
        value = value[step]
    return value
