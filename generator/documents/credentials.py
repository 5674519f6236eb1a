"""Credentials in documents and in texts, recognized by their form or by their name.

Line-based scanners are not enough: detect-secrets 1.5.0 misses `{name: AWS_SECRET_ACCESS_KEY, value: …}`, registry
logins and Hugging Face tokens, and it reads 20 kB per second, while a release of 500 tenants has megabytes.
credentials.yaml has the forms.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path as FilePath
from typing import Any, NamedTuple

import yaml

from generator.documents.load import Path

_SHORTEST_TOKEN = 16  # characters of a token
_LONGEST = 1 << 20  # characters that are searched; the API server accepts no larger object
_LONGEST_NAME = 253
# A user and a password in a URL, except references and placeholders.
_LOGIN = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s/:@\"'<>{}$]*:(?P<password>[^\s/@\"']{3,})@", re.IGNORECASE)
_OPTION = re.compile(r"(?:^|\s)--?(?P<name>[A-Za-z][\w-]*)=(?P<value>\"[^\"]*\"|'[^']*'|[^\s\"']+)")
_LINE = re.compile(
    r"^\s*(?:export\s+)?[\"']?(?P<name>[A-Za-z][\w.-]*)[\"']?\s*[=:]\s*(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s\"',;]+)[,;]?\s*$",
    re.MULTILINE,
)
_WORDS = (
    r"password|passwd|pass[_-]?phrase|secret|token|credentials?|client[_-]?secret"
    r"|(?:api|access|auth|account|private|secret|secret[_-]?access)[_-]?key"
)
_NAME = re.compile(rf"(?:.*[_.\-])?(?:{_WORDS})|.*(?:password|token)", re.IGNORECASE | re.DOTALL)
# Tokens of language models, such as `eos_token`, are not credentials.
_LANGUAGE_TOKEN = re.compile(
    r"(?:.*[_.\-])?(?:pad|bos|eos|unk|mask|sep|cls|image|audio|video|special|stop|start|end|max|min|num|per|next|new)"
    r"_?-?token",
    re.IGNORECASE | re.DOTALL,
)
_LATER = r"""
    |(?:.*\$\{[^{}]*\}|.*\$\([^()]*\)|(?>.*?\{\{).*\}\}|.*<[A-Za-z/|][^<>]*>).*  # filled in
    |\$(?:[A-Za-z_][\w.:-]*|[0-9@*])                                              # a variable, or $1 in a script
    |ENC\[.*                                                                      # encrypted by SOPS
    |[*x.\-_]+|\W+
    |.*(?:placeholder|dummy|redacted|change[-_ ]?me|replace[-_ ]?me|your[-_ ]|goes[-_ ]here).*
    |(?-i:(?:[A-Z]+_)*(?:PASSWORD|PASSPHRASE|SECRET|TOKEN|KEY(?:_ID)?))  # the name of the value in place of the value
"""
_NOT_YET = re.compile(rf"\s*(?:{_LATER})\s*", re.IGNORECASE | re.DOTALL | re.VERBOSE)
_PLACEHOLDER = re.compile(
    rf"""\s*(?:{_LATER}
    |/.*|\./.*|[\w.+-]+:/.*|(?:vault|file|arn|aws|gcp|azure):.*  # a path or a reference
    |true|false|on|off|none|null|yes|no|auto|env|default|[0-9.,]{{1,9}}
    |[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\(.*                                          # a call in a script
    |.*(?:example|not[-_ ](?:used|set)|todo|insert).*
    )\s*""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_FIELDS = {"password", "passwd", "passphrase", "clientSecret", "secretAccessKey", "accessToken", "bearerToken"}
"""Keys of manifests whose value is a credential, although they are not spelled like environment variables."""
_REMEMBERED = 1 << 14  # texts; tenants repeat each other's texts


def is_unfilled(text: str) -> bool:
    """Return True if the text is a placeholder, a template that a tool fills in later, or encrypted by SOPS."""
    return _NOT_YET.fullmatch(text) is not None


def is_placeholder(text: str) -> bool:
    """Return True if the text cannot be a secret.

    It is a path, a reference, a placeholder, text that SOPS encrypted, a number of up to 9 characters, or a word such
    as `true` or `auto`.
    """
    return _PLACEHOLDER.fullmatch(text) is not None


class Form(NamedTuple):
    """The form of a kind of credential.

    Attributes:
        kind: the kind, such as `a token of GitHub`.
        contains: texts, one of which each credential of this kind contains: a fast test before `pattern`.
        pattern: the regular expression.
    """

    kind: str
    contains: Sequence[str]
    pattern: str


@cache
def credential_forms() -> Sequence[Form]:
    """Return the form of each kind of credential."""
    text = FilePath(__file__).with_suffix(".yaml").read_bytes()
    return [Form(**row) for row in yaml.load(text, yaml.CSafeLoader)["credentials"]]


def find_passwords_in_urls(text: str) -> Iterator[tuple[int, str]]:
    """Yield (offset of the URL, password) for each URL with a password that is not a placeholder."""
    for match in _LOGIN.finditer(text):
        if not is_placeholder(match["password"]):
            yield match.start(), match["password"]


@lru_cache(_REMEMBERED)
def names_credential(name: str) -> bool:
    """Return True if variables of this name hold a credential: `AWS_SECRET_ACCESS_KEY`, but not `TOKEN_FILE`."""
    return len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None and _LANGUAGE_TOKEN.fullmatch(name) is None


@lru_cache(_REMEMBERED)
def describe_credential(text: str) -> str | None:
    """Return the kind of credential in a text, such as `a token of GitHub`; None if there is none."""
    if len(text) < _SHORTEST_TOKEN and "=" not in text and "@" not in text:
        return None
    text = text[:_LONGEST]
    for form in credential_forms():
        if any(part in text for part in form.contains) and re.search(form.pattern, text):
            return form.kind
    if "@" in text and any(find_passwords_in_urls(text)):
        return "a password in a URL"
    return _assigned(_OPTION, text) or (_assigned(_LINE, text) if "\n" in text else None)


def _assigned(form: re.Pattern[str], text: str) -> str | None:
    for match in form.finditer(text):
        name, value = match["name"], match["value"].strip("\"'")
        if names_credential(name) and not is_placeholder(value):
            return f"a value of `{name}`"
    return None


def find_credentials(data: Any) -> list[tuple[Path, str]]:
    """Return the path and the kind of every credential in plain data.

    A string is a credential if it has the form of a known kind, or if it has the name of a credential. Its name is the
    `name` beside `value`, as in `env`, or a key that is in capitals or in `_FIELDS`.
    """
    return list(_paths(data, ())) if _has_any(data) else []


def _has_any(data: Any) -> bool:
    """Return True if the data contains a credential. It tracks no paths, so it is fast for most objects."""
    rest = [data]
    for value in rest:
        kind = type(value)
        if kind is dict:
            for key, item in value.items():
                kind = type(item)
                if kind is str:
                    if _credential(key, item, _name_of(value) if key == "value" else None):
                        return True
                elif kind is dict or kind is list:
                    rest.append(item)
        elif kind is list:
            rest += value
        elif kind is str and describe_credential(value):
            return True
    return False


def _name_of(entry: dict[str, Any]) -> str | None:
    name = entry.get("name")
    return name if isinstance(name, str) else None


def _paths(data: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(data, dict):
        for key, item in data.items():
            if isinstance(item, str):
                if kind := _credential(key, item, _name_of(data) if key == "value" else None):
                    yield (*path, key), kind
            else:
                yield from _paths(item, (*path, key))
    elif isinstance(data, list):
        for number, item in enumerate(data):
            yield from _paths(item, (*path, number))
    elif isinstance(data, str) and (kind := describe_credential(data)):
        yield path, kind


@lru_cache(_REMEMBERED)
def _credential(key: object, text: str, name: str | None) -> str | None:
    """Return the kind of credential in a text, by its form, its key, or the `name` beside a `value`; else None."""
    variable = name or (key if isinstance(key, str) and (key in _FIELDS or key.isupper()) else "")
    if variable and names_credential(variable) and not is_placeholder(text):
        return f"a value of `{variable}`"
    return describe_credential(text)


_LONGEST_TEXT = 1 << 20  # characters that are scanned
_COMMENT_LINE = re.compile(r"^[ \t]*(#+)", re.MULTILINE)
_COMMENT = re.compile(r"(?:^|(?<=[ \t]))#+(?P<text>.*)$", re.MULTILINE)
_ASSIGNED = re.compile(
    r"(?:^|[\s{,(\"'])(?P<name>[A-Za-z][\w.-]{0,252})[\"']?\s{0,8}[:=]\s{0,8}(?P<value>\"[^\"]*\"|'[^']*'|[^\s\"',;}]+)"
)
_PAIR = re.compile(
    r"name:\s{0,8}[\"']?(?P<name>[A-Za-z_][\w.-]{0,252})[\"']?,?\s{1,64}value:\s{0,8}(?P<value>\"[^\"]*\"|'[^']*'|[^\s,}\"']+)"
)
_PASSWORD = re.compile(r".*pass(?:word|wd|[_-]?phrase)", re.IGNORECASE | re.DOTALL)
_VERSION = re.compile(r"v?[0-9]+(?:[.-][0-9A-Za-z]+)*")
_EXPLANATORY_WORDS = {"pass", "password", "passwd", "secret", "token", "key"}
"""Passwords of example URLs in documentation."""
_SHORTEST_PASSWORD = 6  # characters of a password in a comment
_SHORTEST_KEY = 10  # of any other credential in a comment; shorter words are names
_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Exposure:
    """A credential in a text, at a 1-based line and column. Messages must not contain `secret`."""

    line: int
    column: int
    kind: str
    secret: str = field(repr=False)


def find_exposures(text: str, known: Iterable[str] = ()) -> list[Exposure]:
    """Return the credentials with a known form, and the named credentials in comments, of a YAML or Python file.

    They are in the order of their lines. `find_credentials` finds credentials by the name of their field.

    Args:
        text: the file.
        known: strings of the file, repeated for each occurrence. Another check reports their credentials, so this
            function leaves them out.
    """
    text = text[:_LONGEST_TEXT]
    reported = Counter(secret for item in known for _, _, secret in _by_form(item))
    exposed = sorted(_by_form(_without_marks(text)), key=lambda item: _is_comment(text, item[0]))
    left = []
    for start, kind, secret in exposed:
        if reported[secret]:
            reported[secret] -= 1
        else:
            left.append((start, kind, secret))
    places = {start for start, _, _ in left}
    left += [item for item in _in_comments(text) if item[0] not in places]
    return sorted({_exposure(text, *item) for item in left}, key=lambda item: (item.line, item.column))


def _exposure(text: str, start: int, kind: str, secret: str) -> Exposure:
    line = text.count("\n", 0, start) + 1
    return Exposure(line, start - text.rfind("\n", 0, start), kind, secret)


def _by_form(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (offset, kind, secret) of every credential that has the form of a known kind."""
    for form in credential_forms():
        if any(part in text for part in form.contains):
            for match in re.finditer(form.pattern, text):
                yield match.start(), form.kind, match[0].partition("\n")[0].strip()
    if "://" in text and "@" in text:
        for start, password in find_passwords_in_urls(text):
            if password.lower() in _EXPLANATORY_WORDS:
                continue
            yield start, "a password in a URL", password


def _without_marks(text: str) -> str:
    """Replace the `#` of whole-line comments with spaces, so that a private key in a comment is one text."""
    return _COMMENT_LINE.sub(lambda match: match[0].replace("#", " "), text)


def _is_comment(text: str, start: int) -> bool:
    return "#" in text[text.rfind("\n", 0, start) + 1 : start]


def _in_comments(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (offset, kind, secret) of values in comments with a credential's name, such as `# password: …`."""
    if "#" not in text:
        return
    for comment in _COMMENT.finditer(text):
        for match in _ASSIGNED.finditer(comment["text"]):
            value = match["value"].strip("\"'")
            if names_credential(match["name"]) and _is_secret(match["name"], value):
                yield comment.start("text") + match.start("value"), f"a value of `{match['name']}`", value
    for match in _PAIR.finditer(_without_marks(text)):
        value = match["value"].strip("\"'")
        if _is_comment(text, match.start()) and names_credential(match["name"]) and not is_placeholder(value):
            yield match.start("value"), f"a value of `{match['name']}`", value


def _is_secret(name: str, value: str) -> bool:
    digits, letters = (sum(map(test, value)) for test in (str.isdigit, str.isalpha))
    if is_placeholder(value) or _VERSION.fullmatch(value) or not digits or not letters:
        return False
    if _PASSWORD.fullmatch(name) or name.isupper():
        return len(value) >= _SHORTEST_PASSWORD
    return len(value) >= _SHORTEST_KEY and digits >= _DIGITS
