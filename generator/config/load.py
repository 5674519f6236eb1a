"""Load a platform.yaml: return the Platform, or raise every problem of the file with its line.

If pydantic rejects the file, the problems are pydantic's errors and the mistakes that rules between sections find. The
rules read only the valid parts of the file, so that one mistake does not hide others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from operator import getitem
from pathlib import Path

from pydantic import ValidationError

from generator.config.environments import (
    ENVIRONMENTS,
    find_environments,
    find_equal_names,
    merge,
    require_environment,
    selected_environment,
)
from generator.config.extra_files import file_reader
from generator.config.mistakes import Mistake, place_mistakes
from generator.config.model.patches import READER
from generator.config.platform import Platform, explain
from generator.documents.credentials import Exposure, find_credentials, find_exposures
from generator.documents.files import read_file
from generator.documents.load import Document, load_file
from generator.documents.locate import locate_all
from generator.documents.messages import format_value
from generator.errors import ConfigError, DocumentError, InputError, Problem

_CREDENTIAL_FIX = "remove and rotate this credential, and let `tenants[].secrets` fetch the new one"
_SECRET_START = 12  # characters: a message cuts a long value off, and its start is secret too
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def load_platform(file: str | Path, environment: str = "") -> Platform:
    """Return the platform of a platform.yaml. A platform in Python can start from the result.

    Args:
        file: the file. Its keys are in camelCase.
        environment: one of the `environments` of the file. Default: the environment that `--environment` selects, or
            none.

    Raises:
        ConfigError: the file cannot be read, is not YAML, is invalid, or holds a credential, or `environment` is not
            one of its environments. If it is a YAML mapping, the error has the problems of all fields, except problems
            whose text would repeat a credential.
    """
    file = Path(file)
    return parse_platform(_read_text(file), file, environment)


def parse_platform(text: bytes, file: Path, environment: str = "") -> Platform:
    """Return the platform of the text of a platform.yaml. See `load_platform` for arguments and errors."""
    document = _only_document(text, file)
    name = environment or selected_environment()
    require_environment(document.data, name, str(file), _line_of_environments(text, document))
    (platform,) = _validate(text, document, file, [name])
    return platform


def load_environments(file: Path) -> dict[str, Platform]:
    """Return environment → its platform, in the order of the file.

    For a file without environments, the result has one platform with the key "". If the user selects an environment by
    `--environment`, the result has only this environment.

    Raises:
        ConfigError: as for `load_platform`, with the problems of all environments, or two environments have platforms
            of the same name.
    """
    text = _read_text(file)
    document = _only_document(text, file)
    names = list(find_environments(document.data)) or [""]
    if name := selected_environment():
        require_environment(document.data, name, str(file), _line_of_environments(text, document))
        names = [name]
    return dict(zip(names, _validate(text, document, file, names), strict=True))


def find_names(file: Path) -> tuple[str, frozenset[str]]:
    """Return the field `platform` of a valid file, and the present and the earlier names of its platforms.

    Args:
        file: the platform file. A Python file has no names here, because it declares no environments.

    Raises:
        ConfigError: the file cannot be read.
    """
    if file.suffix == ".py":
        return "", frozenset()
    data = _only_document(_read_text(file), file).data
    merged = [merge(data, environment).data for environment in find_environments(data) or ("",)]
    names = (platform.get(key) for platform in merged for key in ("platform", "renamedFrom"))
    return str(data.get("platform") or ""), frozenset(str(name) for name in names if name)


def _line_of_environments(text: bytes, document: Document) -> int:
    return locate_all(text, document.index, [(ENVIRONMENTS,)])[ENVIRONMENTS,].key[0]


def _validate(text: bytes, document: Document, file: Path, environments: Sequence[str]) -> list[Platform]:
    """Return the platforms of some environments of a document; the environment "" is the document itself.

    Raises:
        ConfigError: with the problems of all these environments. A mistake of the base is one problem.
    """
    secrets = find_credentials(document.data)
    mistakes = [
        Mistake(path, f"this field holds {kind}, and every reader of the file can see it", _CREDENTIAL_FIX)
        for path, kind in secrets
    ]
    secret_paths = {path for path, _ in secrets}
    platforms: list[Platform] = []
    context = {READER: file_reader(file)}
    for merged in [merge(document.data, environment) for environment in environments]:
        mistakes += merged.mistakes
        try:
            platforms.append(Platform.model_validate(merged.data, by_alias=True, by_name=False, context=context))
        except ValidationError as error:
            explained = [merged.in_file(mistake) for mistake in explain(error, merged.data)]
            mistakes += [mistake for mistake in explained if mistake.path not in secret_paths]
    if len(platforms) == len(environments):
        mistakes += find_equal_names(dict(zip(environments, (one.platform for one in platforms), strict=True)))
    secret_values = [str(reduce(getitem, path, document.data)) for path, _ in secrets]
    exposed = find_exposures(text.decode("utf-8", "replace"), secret_values)
    if mistakes or exposed:
        problems = place_mistakes(dict.fromkeys(mistakes), text, document, file)
        raise ConfigError(hide_credentials(problems, exposed, secret_values, str(file)))
    return platforms


def hide_credentials(
    problems: Iterable[Problem], exposed: Sequence[Exposure], values: Iterable[str], file: str
) -> tuple[Problem, ...]:
    """Return the problems whose text repeats no credential, and a problem for each exposed credential, by line.

    Args:
        problems: the other problems of the file.
        exposed: credentials outside of values, such as in comments and keys.
        values: the values that are credentials.
        file: the file as the user named it.
    """
    secrets = {secret[:_SECRET_START] for secret in (*(exposure.secret for exposure in exposed), *values) if secret}
    shared = [problem for problem in problems if not any(secret in str(problem) for secret in secrets)]
    shared += [
        Problem(
            f"this line holds {exposure.kind}, and every reader of the file can see it",
            _CREDENTIAL_FIX,
            file,
            exposure.line,
            exposure.column,
        )
        for exposure in exposed
    ]
    return tuple(sorted(shared, key=lambda problem: (problem.line, problem.column)))


def _read_text(file: Path) -> bytes:
    try:
        text = read_file(file)
    except InputError as error:
        fix = "name a platform.yaml or mpigen_platform.py"
        raise ConfigError(tuple(replace(problem, fix=fix) for problem in error.problems)) from None
    if text.startswith(_BYTE_ORDER_MARKS):
        raise _unreadable("the file starts with a byte order mark", "save it as UTF-8 without one", file)
    return text


def _only_document(text: bytes, file: Path) -> Document:
    try:
        documents = load_file(text, file)
    except DocumentError as error:
        exposed = find_exposures(text.decode("utf-8", "replace"))
        raise ConfigError(hide_credentials(error.problems, exposed, (), str(file))) from None
    if not documents:
        raise _unreadable("the file is empty", "start from `mpigen init`", file)
    if len(documents) > 1:
        raise _unreadable(
            "the file has a second document", "describe one platform in one file", file, documents[1].line
        )
    (document,) = documents
    if not isinstance(document.data, dict):
        message = f"{format_value(document.data)} is not a mapping with the fields of a platform"
        raise _unreadable(message, "start with `platform: NAME`", file, document.line)
    return document


def _unreadable(message: str, fix: str, file: Path, line: int = 1) -> ConfigError:
    return ConfigError((Problem(message, fix, str(file), line, 1),))
