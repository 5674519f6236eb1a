"""What libyaml cannot read, told in words that mend it."""

from __future__ import annotations

from typing import Any

import yaml

from generator.errors import DocumentError, Problem

_UNCLOSED_QUOTE = (
    "the quote that opens here is not closed",
    "close it, or put a text that holds one into the other kind",
)
_UNNAMED_ANCHOR = "`&` and `*` begin an anchor or an alias, which needs a name"
_WORDS = {
    "mapping values are not allowed in this context": (
        "a `:` where no key can stand",
        "indent the keys of a mapping alike, end each with `:`, and put a value that holds `: ` in quotes",
    ),
    "did not find expected key": (
        "no key where the mapping of line {start} goes on",
        "write `key: value`, indented as its other keys are, and nothing after a closing quote",
    ),
    "could not find expected ':'": ("a key without a value", "write `key: value`"),
    "did not find expected '-' indicator": (
        "no `- ` where the list of line {start} goes on",
        "indent its items alike",
    ),
    "block sequence entries are not allowed in this context": (
        "a `- ` where no list can stand",
        "begin the list in the line below its key",
    ),
    "did not find expected ',' or ']'": (
        "the `[` of line {start} is not closed",
        "put `,` between its items and `]` after the last",
    ),
    "did not find expected ',' or '}'": (
        "the `{{` of line {start} is not closed",
        "put `,` between its entries and `}` after the last",
    ),
    "did not find expected node content": ("nothing where a value belongs", "write one, or remove what announces it"),
    "found unexpected end of stream": _UNCLOSED_QUOTE,
    "found unexpected document indicator": _UNCLOSED_QUOTE,
    "found character that cannot start any token": ("{character} cannot begin a value", "put the value in quotes"),
    "did not find expected alphabetic or numeric character": (
        _UNNAMED_ANCHOR,
        "put a text that begins with them in quotes",
    ),
    "found unknown escape character": (
        "an escape that YAML does not know",
        "put a text with backslashes in single quotes",
    ),
    "found invalid Unicode character escape code": (
        "an escape that names no character",
        "write the character itself",
    ),
    "did not find expected hexdecimal number": ("an escape without its digits", r"write it like \u00e9"),
    "found unknown directive name": ("a directive", "put a text that begins with `%` in quotes"),
    "did not find expected comment or line break": ("text right after `|` or `>`", "begin it in the next line"),
    "found undefined tag handle": ("a tag that nothing declares", "put a text that begins with `!` in quotes"),
    "did not find expected <document start>": (
        "text after the end of the document",
        "begin the next one with `---`",
    ),
}
"""libyaml's problem → ours, and the fix."""
_LAST_RESORTS = {
    "directive": "put a text that begins with `%` in quotes",
    "tag": "put a text that begins with `!` in quotes",
    "block scalar": "begin the text in the line after `|` or `>`",
}
"""A word of libyaml's problem → the fix."""

_LONGEST = 60  # letters of a value in a message, which should fit one line of a terminal


def shown(value: object) -> str:
    """A value as its writer would recognise it, in a few words on one line."""
    if value is None:
        return "nothing"
    if value == "":
        return "an empty text"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{on_one_line(text, _LONGEST)}`"


def on_one_line(text: str, longest: int) -> str:
    """A text for a terminal: cut when long, and nothing in it that a terminal would obey."""
    if len(text) > longest:
        text = f"{text[: longest - 3]}..."
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def unreadable(message: str, fix: str, mark: Any) -> DocumentError:
    """One problem at a mark of libyaml."""
    return DocumentError((Problem(message, fix, line=mark.line + 1, column=mark.column + 1),))


def not_yaml(error: yaml.MarkedYAMLError, raw: bytes) -> DocumentError:
    """The scanner or the parser gave up."""
    mark: Any = error.problem_mark or error.context_mark
    start: Any = error.context_mark or mark
    problem = str(error.problem)
    text = raw.decode(errors="replace")
    character = text[mark.index : mark.index + 1]
    if character == "\t" or "tab character" in problem:
        return unreadable("a tab where YAML allows only spaces", "indent with spaces", mark)
    written = text.rstrip()
    end = yaml.Mark("", len(written), written.count("\n"), len(written.rpartition("\n")[2]), text, len(written))
    message, fix = _WORDS.get(problem) or _plainly(problem, str(error.context or ""))
    if mark.index >= len(written):
        if "node content" in problem:
            message, fix = "the text ends before a bracket is closed", "close it"
        mark = start if start.index < len(written) else end
    elif (message, fix) == _UNCLOSED_QUOTE:
        mark = start
    return unreadable(message.format(start=start.line + 1, character=character), fix, mark)


def _plainly(problem: str, context: str) -> tuple[str, str]:
    """What is too rare for words of its own."""
    said = f"{context}, {problem}" if context else problem
    fix = next((fix for word, fix in _LAST_RESORTS.items() if word in said), "put a text with signs in quotes")
    return f"not YAML: {said}".replace("{", "{{").replace("}", "}}"), fix


def not_text(error: yaml.reader.ReaderError, raw: bytes) -> DocumentError:
    """The bytes are not characters, or not those that YAML allows."""
    try:
        raw.decode()
    except UnicodeDecodeError as wrong:
        offset, message, fix = wrong.start, f"the byte 0x{raw[wrong.start]:02X} is not UTF-8", "save the file as UTF-8"
    else:
        offset, message = error.position, f"the control character U+{error.character:04X}"
        fix = f'remove it, or write it as "\\u{error.character:04x}"' if error.character else "save the file as UTF-8"
    before = raw[:offset]
    column = len(before.rpartition(b"\n")[2].decode(errors="replace")) + 1
    return DocumentError((Problem(message, fix, line=before.count(b"\n") + 1, column=column),))
