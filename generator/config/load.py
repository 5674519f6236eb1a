"""Load a platform.yaml: return the Platform, or raise every problem of the file with its line.

A file that pydantic accepts is a Platform. For any other file, pydantic's errors and the rules between sections report
what is wrong; the rules then run on the parts of the file that are valid by themselves (`salvage.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from generator.config.mistakes import RULE_BROKEN, Mistake, Steps, mistakes_in, place_mistakes
from generator.config.platform import Platform
from generator.config.rules.find import find_mistakes
from generator.config.salvage import salvage
from generator.documents.credentials import Exposure, find_credentials, find_exposures
from generator.documents.files import read_file
from generator.documents.load import Document, load
from generator.documents.messages import format_value
from generator.errors import ConfigError, DocumentError, InputError, Problem

_CREDENTIAL_FIX = "remove and rotate this credential, and let `tenants[].secrets` fetch the new one"
_SECRET_START = 12  # characters: a message cuts a long value off, and its start is secret too
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def load_platform(file: str | Path) -> Platform:
    """Read a platform.yaml. A platform in Python can build on it.

    Raises:
        ConfigError: with every problem of the file, each with line, column, path, value and fix.
    """
    file = Path(file)
    text = _read_text(file)
    document = _only_document(text, file)
    secrets = find_credentials(document.data)
    mistakes = [
        Mistake(path, f"this value is {kind}, and every reader of the file can see it", _CREDENTIAL_FIX)
        for path, kind in secrets
    ]
    platform = None
    try:
        platform = Platform.model_validate(document.data, by_alias=True, by_name=False)
    except ValidationError as error:
        secret_paths = {path for path, _ in secrets}
        mistakes += [mistake for mistake in _explain(error, document.data) if mistake.path not in secret_paths]
    secret_values = [str(_value_at(document.data, path)) for path, _ in secrets]
    exposed = find_exposures(text.decode("utf-8", "replace"), secret_values)
    if platform is None or mistakes or exposed:
        problems = place_mistakes(mistakes, text, document, file)
        raise ConfigError(hide_credentials(problems, exposed, secret_values, str(file)))
    return platform


def _explain(error: ValidationError, data: dict[str, Any]) -> list[Mistake]:
    """Return every reason why the data is no Platform: invalid values first, then broken rules between sections."""
    invalid = [] if all(detail["type"] == RULE_BROKEN for detail in error.errors()) else mistakes_in(error, Platform)
    return [*invalid, *find_mistakes(salvage(data))]


def hide_credentials(
    problems: Iterable[Problem], exposed: Sequence[Exposure], values: Iterable[str], file: str
) -> tuple[Problem, ...]:
    """Add a problem for each exposed credential, and drop every problem whose text repeats a credential.

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


def _value_at(data: Any, path: Steps) -> Any:
    for step in path:
        data = data[step]
    return data


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
        documents = [document for document in load(text) if document.data is not None]
    except DocumentError as error:
        problems = [replace(problem, file=str(file)) for problem in error.problems]
        exposed = find_exposures(text.decode("utf-8", "replace"))
        raise ConfigError(hide_credentials(problems, exposed, (), str(file))) from None
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
