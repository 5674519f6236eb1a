"""Credentials anywhere in a text that people write: in comments, keys and anchors as well as in values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from generator.documents.credentials import credential_forms, is_placeholder, login_in, names_credential

_LONGEST = 1 << 20  # characters that are scanned
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
_WORDS = {"pass", "password", "passwd", "secret", "token", "key"}
"""Words that stand for a password where somebody explains an address."""
_SHORTEST = 6  # characters of a password in a comment
_SHORTEST_KEY = 10  # of any other credential in a comment: shorter words are names
_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Exposure:
    """A credential in a text.

    Attributes:
        line: 1-based line of its beginning.
        column: 1-based column of its beginning.
        what: the kind of credential, in words that do not repeat it.
        secret: the credential, which no message may show.
    """

    line: int
    column: int
    what: str
    secret: str = field(repr=False)


def exposures(text: str, known: Iterable[str] = ()) -> list[Exposure]:
    """Find the credentials of a YAML or Python text, in the order of their lines.

    Args:
        text: the whole file.
        known: texts of the file whose credentials are reported otherwise, each as often as it stands in the file.
    """
    text = text[:_LONGEST]
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
        for start, password in login_in(text):
            if password.lower() in _WORDS:
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
        return len(value) >= _SHORTEST
    return len(value) >= _SHORTEST_KEY and digits >= _DIGITS
