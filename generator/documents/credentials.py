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
"""What it is → words of which such a text has one, by which most texts are passed over fast, and its form."""
_FORMS = [(what, words.split(), form) for what, (words, form) in TOKENS.items()]
_SHORTEST_TOKEN = 16  # letters of a token
_LONGEST = 1 << 20  # letters that are looked at: no object that the API server takes has more
_LONGEST_NAME = 253
# A user and a password in an address; a reference or a placeholder is neither.
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
# Words of texts, not of logins: those that stand for the end or the middle of a sentence.
_OF_LANGUAGE = re.compile(
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
    |/.*|\./.*|[\w.+-]+:/.*|(?:vault|file|arn|aws|gcp|azure):.*  # where it lies
    |true|false|none|null|yes|no|auto|env|default|[0-9.,]{{1,9}}
    |.*(?:example|not[-_ ]used|todo|insert).*
    )\s*""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_FIELDS = {"password", "passwd", "passphrase", "clientSecret", "secretAccessKey", "accessToken", "bearerToken"}
"""Keys that are spelt unlike variables, and yet hold a credential wherever they stand."""
_REMEMBERED = 1 << 14  # texts: those of one tenant are those of the next


def is_unfilled(text: str) -> bool:
    """Whether a secret is yet to be filled in where this text stands, or decrypted."""
    return _NOT_YET.fullmatch(text) is not None


def is_placeholder(text: str) -> bool:
    """Whether a text only stands for a secret: it says where it lies, is yet to be filled in, or is too little."""
    return _PLACEHOLDER.fullmatch(text) is not None


def credential_forms() -> Sequence[tuple[str, Sequence[str], str]]:
    """Return what a credential is, words of which such a text has one, and the form of the credential."""
    return _FORMS


def find_passwords_in_urls(text: str) -> Iterator[tuple[int, str]]:
    """Return the passwords in addresses, each with the offset of the address."""
    for found in _LOGIN.finditer(text):
        if not is_placeholder(found["password"]):
            yield found.start(), found["password"]


@lru_cache(_REMEMBERED)
def names_credential(name: str) -> bool:
    """Whether what goes by this name lets whoever knows it in: `AWS_SECRET_ACCESS_KEY`, but not `TOKEN_FILE`."""
    return len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None and _OF_LANGUAGE.fullmatch(name) is None


@lru_cache(_REMEMBERED)
def describe_credential(text: str) -> str | None:
    """What of a credential is in a text, such as `a token of GitHub`; None if nothing is."""
    if len(text) < _SHORTEST_TOKEN and "=" not in text and "@" not in text:
        return None
    text = text[:_LONGEST]
    for what, words, form in _FORMS:
        if any(word in text for word in words) and re.search(form, text):
            return what
    if "@" in text and any(find_passwords_in_urls(text)):
        return "a password in an address"
    return _assigned(_OPTION, text) or (_assigned(_LINE, text) if "\n" in text else None)


def _assigned(form: re.Pattern[str], text: str) -> str | None:
    for found in form.finditer(text):
        name, value = found["name"], found["value"].strip("\"'")
        if names_credential(name) and not is_placeholder(value):
            return f"a value of `{name}`"
    return None


def find_credentials(data: Any) -> list[tuple[Path, str]]:
    """Where in plain data credentials stand, each with what it is, in words that do not repeat it.

    They are known by their form anywhere, and by their name in `{name: …, value: …}`, as environments are written, and
    below a key that is spelt like a variable.
    """
    return list(_found(data, ())) if _has_any(data) else []


def _has_any(data: Any) -> bool:
    """Without the places, which cost more to know than all the rest, and are for most objects not wanted."""
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


def _found(data: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(data, dict):
        for key, item in data.items():
            if isinstance(item, str):
                if what := _credential(key, item, _name_of(data) if key == "value" else None):
                    yield (*path, key), what
            else:
                yield from _found(item, (*path, key))
    elif isinstance(data, list):
        for number, item in enumerate(data):
            yield from _found(item, (*path, number))
    elif isinstance(data, str) and (what := describe_credential(data)):
        yield path, what


@lru_cache(_REMEMBERED)
def _credential(key: object, text: str, name: str | None) -> str | None:
    """What a text is that stands below a key, in a mapping that may have a name."""
    said = name or (key if isinstance(key, str) and (key in _FIELDS or key.isupper()) else "")
    if said and names_credential(said) and not is_placeholder(text):
        return f"a value of `{said}`"
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
"""Words that stand for a password where somebody explains an address."""
_SHORTEST_PASSWORD = 6  # characters of a password in a comment
_SHORTEST_KEY = 10  # of any other credential in a comment: shorter words are names
_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Exposure:
    """A credential in a text.

    Attributes:
        line: 1-based line of its beginning.
        column: 1-based column of its beginning.
        kind: the kind of credential, in words that do not repeat it.
        secret: the credential, which no message may show.
    """

    line: int
    column: int
    kind: str
    secret: str = field(repr=False)


def find_exposures(text: str, known: Iterable[str] = ()) -> list[Exposure]:
    """Find the credentials of a YAML or Python text, in the order of their lines.

    Args:
        text: the whole file.
        known: texts of the file whose credentials are reported otherwise, each as often as it stands in the file.
    """
    text = text[:_LONGEST_TEXT]
    reported = Counter(secret for each in known for _, _, secret in _by_form(each))
    found = sorted(_by_form(_without_marks(text)), key=lambda each: _is_comment(text, each[0]))
    left = []
    for start, what, secret in found:
        if reported[secret]:
            reported[secret] -= 1
        else:
            left.append((start, what, secret))
    places = {start for start, _, _ in left}
    left += [each for each in _in_comments(text) if each[0] not in places]
    return sorted({_exposure(text, *each) for each in left}, key=lambda each: (each.line, each.column))


def _exposure(text: str, start: int, what: str, secret: str) -> Exposure:
    line = text.count("\n", 0, start) + 1
    return Exposure(line, start - text.rfind("\n", 0, start), what, secret)


def _by_form(text: str) -> Iterator[tuple[int, str, str]]:
    """Return where credentials stand that have a form of their own: offset, kind, and the credential."""
    for what, words, form in credential_forms():
        if any(word in text for word in words):
            for found in re.finditer(form, text):
                yield found.start(), what, found[0].partition("\n")[0].strip()
    if "://" in text and "@" in text:
        for start, password in find_passwords_in_urls(text):
            if password.lower() in _EXPLANATORY_WORDS:
                continue
            yield start, "a password in an address", password


def _without_marks(text: str) -> str:
    """Return the text with blanks in place of the marks of whole-line comments, which break a private key apart."""
    return _COMMENT_LINE.sub(lambda found: found[0].replace("#", " "), text)


def _is_comment(text: str, start: int) -> bool:
    return "#" in text[text.rfind("\n", 0, start) + 1 : start]


def _in_comments(text: str) -> Iterator[tuple[int, str, str]]:
    """Return credentials in comments that are told by their name: `# password: …`, or a part of YAML left there."""
    if "#" not in text:
        return
    for comment in _COMMENT.finditer(text):
        for found in _ASSIGNED.finditer(comment["text"]):
            value = found["value"].strip("\"'")
            if names_credential(found["name"]) and _is_secret(found["name"], value):
                yield comment.start("text") + found.start("value"), f"a value of `{found['name']}`", value
    for found in _PAIR.finditer(_without_marks(text)):
        value = found["value"].strip("\"'")
        if _is_comment(text, found.start()) and names_credential(found["name"]) and not is_placeholder(value):
            yield found.start("value"), f"a value of `{found['name']}`", value


def _is_secret(name: str, value: str) -> bool:
    digits, letters = (sum(map(test, value)) for test in (str.isdigit, str.isalpha))
    if is_placeholder(value) or _VERSION.fullmatch(value) or not digits or not letters:
        return False
    if _PASSWORD.fullmatch(name) or name.isupper():
        return len(value) >= _SHORTEST_PASSWORD
    return len(value) >= _SHORTEST_KEY and digits >= _DIGITS
