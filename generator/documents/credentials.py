"""Credentials in documents and in texts, recognized by their form or by their name.

Line-based scanners are not enough: detect-secrets 1.5.0 misses `{name: AWS_SECRET_ACCESS_KEY, value: …}`, registry
logins and Hugging Face tokens, and it reads 20 kB per second, while a release of 500 tenants has megabytes. Token
forms: compare gitleaks b58d3f10 config/gitleaks.toml.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from generator.documents.load import Path

TOKENS: Mapping[str, tuple[str, str]] = {
    "a private key": (
        "-----BEGIN",
        r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:\s|\\+[nr])+[A-Za-z0-9+/]",
    ),
    "a key of age": ("AGE-SECRET-KEY-1", r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}"),
    "an access key of AWS": (
        "AKIA ASIA ABIA ACCA",
        r"\b(?:AKIA|ASIA|ABIA|ACCA)(?![A-Z0-9]{9}EXAMPLE)[A-Z0-9]{16}\b",
    ),
    "a token of GitHub": (
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        r"\b(?:gh[pousr]_[A-Za-z0-9_]{36}|github_pat_\w{82})",
    ),
    "a token of GitLab": (
        "glpat- gldt- glft- glsoat- glrt- glptt- glcbt- glagent- glimt-",
        r"\bgl(?:pat|dt|ft|soat|rt|ptt|cbt|agent|imt)-[\w-]{20}",
    ),
    "a token of Slack": ("xox xapp-", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bxapp-[0-9]-[A-Z0-9]+-[0-9]+-[a-z0-9]+"),
    "a webhook of Slack": ("hooks.slack.com", r"\bhooks\.slack\.com/services/T\w+/B\w+/\w+"),
    "a token of Hugging Face": ("hf_ api_org_", r"\b(?:hf|api_org)_[A-Za-z]{34}\b"),
    "a key of NVIDIA NGC": ("nvapi-", r"\bnvapi-[\w-]{60}"),
    "a key of OpenAI": ("T3BlbkFJ", r"\bsk-[\w-]*T3BlbkFJ[\w-]{20}"),
    "a key of Anthropic": ("sk-ant-", r"\bsk-ant-[a-z0-9]+-[\w-]{90}"),
    "a key of Google": ("AIza", r"\bAIza[\w-]{35}\b"),
    "a key of Azure storage": ("AccountKey=", r"\bAccountKey=[A-Za-z0-9+/]{86}=="),
    "a token of Vault": ("hvs. hvr. hvb.", r"\bhv[sbr]\.[\w-]{90}"),
    "a token of OpenShift": ("sha256~", r"\bsha256~[\w-]{43}\b"),
    "a token of npm": ("npm_", r"\bnpm_[A-Za-z0-9]{36}\b"),
    "a token of PyPI": ("pypi-Ag", r"\bpypi-Ag[EI][\w-]{60}"),
    "a JSON Web Token": ("eyJ", r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{16}"),
    # `"auth": "…"`, and base64 of `"auths"` wherever it begins in a group of three letters
    "a login to a registry": (
        '"auth" ImF1dGhzI JhdXRocyI iYXV0aHMi',
        r"\"auth\"\s*:\s*\"[A-Za-z0-9+/]{8,}={0,2}\"|ImF1dGhzI|JhdXRocyI|iYXV0aHMi",
    ),
}
"""Kind of credential → its regular expression, and substrings as a fast filter: a credential contains one of them."""
_FORMS = [(kind, words.split(), form) for kind, (words, form) in TOKENS.items()]
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
    |(?:.*\$\{[^{}]*\}|.*\$\([^()]*\)|(?>.*?\{\{).*\}\}|.*<[A-Za-z/|][^<>]*>).*|\$[A-Za-z_][\w.:-]*  # filled in
    |ENC\[.*                                                                      # encrypted by SOPS
    |[*x.\-_]+|\W+
    |.*(?:placeholder|dummy|redacted|change[-_ ]?me|replace[-_ ]?me|your[-_ ]).*
"""
_NOT_YET = re.compile(rf"\s*(?:{_LATER})\s*", re.IGNORECASE | re.DOTALL | re.VERBOSE)
_PLACEHOLDER = re.compile(
    rf"""\s*(?:{_LATER}
    |/.*|\./.*|[\w.+-]+:/.*|(?:vault|file|arn|aws|gcp|azure):.*  # a path or a reference
    |true|false|none|null|yes|no|auto|env|default|[0-9.,]{{1,9}}
    |.*(?:example|not[-_ ]used|todo|insert).*
    )\s*""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_FIELDS = {"password", "passwd", "passphrase", "clientSecret", "secretAccessKey", "accessToken", "bearerToken"}
"""Keys that hold a credential although they are not spelled like environment variables."""
_REMEMBERED = 1 << 14  # texts; tenants repeat each other's texts


def is_unfilled(text: str) -> bool:
    """Return True if the text is a placeholder that a tool fills in or decrypts later."""
    return _NOT_YET.fullmatch(text) is not None


def is_placeholder(text: str) -> bool:
    """Return True if the text is not a secret: a path, a reference, a placeholder or a short plain value."""
    return _PLACEHOLDER.fullmatch(text) is not None


def credential_forms() -> Sequence[tuple[str, Sequence[str], str]]:
    """Return (kind, substrings, regular expression) of each kind of credential."""
    return _FORMS


def find_passwords_in_urls(text: str) -> Iterator[tuple[int, str]]:
    """Yield each password in a URL, with the offset of the URL."""
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
    for kind, words, form in _FORMS:
        if any(word in text for word in words) and re.search(form, text):
            return kind
    if "@" in text and any(find_passwords_in_urls(text)):
        return "a password in an address"
    return _assigned(_OPTION, text) or (_assigned(_LINE, text) if "\n" in text else None)


def _assigned(form: re.Pattern[str], text: str) -> str | None:
    for match in form.finditer(text):
        name, value = match["name"], match["value"].strip("\"'")
        if names_credential(name) and not is_placeholder(value):
            return f"a value of `{name}`"
    return None


def find_credentials(data: Any) -> list[tuple[Path, str]]:
    """Return the path and the kind of every credential in plain data.

    A credential has the form of a known kind, or the name of one: the `name` beside a `value`, as in `env`, or a key
    that is spelled like an environment variable.
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
    """Return the credentials of a YAML or Python file, in the order of their lines.

    Args:
        text: the file.
        known: strings of the file whose credentials another check reports, once per occurrence.
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
    for kind, words, form in credential_forms():
        if any(word in text for word in words):
            for match in re.finditer(form, text):
                yield match.start(), kind, match[0].partition("\n")[0].strip()
    if "://" in text and "@" in text:
        for start, password in find_passwords_in_urls(text):
            if password.lower() in _EXPLANATORY_WORDS:
                continue
            yield start, "a password in an address", password


def _without_marks(text: str) -> str:
    """Replace the `#` of whole-line comments with spaces, so that a private key in a comment is one text."""
    return _COMMENT_LINE.sub(lambda match: match[0].replace("#", " "), text)


def _is_comment(text: str, start: int) -> bool:
    return "#" in text[text.rfind("\n", 0, start) + 1 : start]


def _in_comments(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield credentials that their name in a comment reveals: `# password: …`, or YAML that is commented out."""
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
