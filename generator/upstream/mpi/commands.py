"""The commands that a container runs: its own command, or the simple commands of a script after `sh -c`.

A script with more than words, quotes, variables, assignments, `export`, `exec`, `env`, `&&`, `;`, pipes and output
redirections is unknown.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_SHELLS = frozenset({"ash", "bash", "dash", "sh"})
_SHELL_OPTIONS = re.compile(r"-(?=\w)[eiluvx]*(?:(?P<named>o)|(?P<script>c))?")
_CHANGES_SHELL = frozenset(
    {
        *("!", "(", ".", "[[", "alias", "bind", "builtin", "case", "command", "coproc", "declare", "do", "enable"),
        *("eval", "exit", "for", "function", "getopts", "hash", "if", "let", "local", "mapfile", "printf", "read"),
        *("readarray", "readonly", "return", "select", "shift", "shopt", "source", "then", "time", "trap", "typeset"),
        *("unalias", "unset", "until", "while", "{"),
    }
)
"""Keywords of the shell, and builtins that change variables, options or the order of commands."""
_NAME = r"[A-Za-z_]\w*"
_ASSIGNMENT = re.compile(rf"({_NAME})=(.*)", re.DOTALL)
_REFERENCE = re.compile(r"\$(?:\$|\(([^()]*)\))")
_QUOTED = re.compile(
    r"""\\(?P<escaped>.)|'(?P<single>[^']*)'|"(?P<double>(?:\\.|[^"\\])*)"|(?<![^\s;&|])\#[^\n]*""", re.DOTALL
)
_IN_DOUBLE_QUOTES = re.compile(
    rf"""\\(?P<escaped>[$`"\\])|\$(?P<expansion>\{{{_NAME}\}}|{_NAME}|[^({{])|(?P<rejected>`|\$[({{])|(?P<other>.)""",
    re.DOTALL,
)
_REDIRECTION = re.compile(r"(?:(?<![^\s;&|])\d+|&)?>>?(?:&\d+|[ \t]*[^\s;&|<>()$]+)")
_EXPANSION = re.compile(rf"(?P<sign>[$\ue001])(?:\{{(?P<braced>{_NAME})\}}|(?P<name>{_NAME})|(?P<other>.?))", re.DOTALL)
_GLOB = re.compile(r"[*?\[{]")

_UNKNOWN, _QUOTED_DOLLAR, _EMPTY, _MANY = "\ue000", "\ue001", "\ue002", "\ue003"
"""Characters that stand for an unknown part of a word, for a `$` in double quotes, for nothing in quotes, and for an
unknown number of words.
"""
_PROTECTED = 0xE100  # a character in quotes, plus this number
_MOST_NESTED = 5


@dataclass(frozen=True, slots=True)
class Command:
    """A program that a container runs, with its arguments.

    Attributes:
        words: the program and its arguments. `is_known` is False for a word whose value mpigen cannot compute.
        places: for each word, the index of the item in `command` and `args` of the container that has it.
        environment: variable → its value; None if mpigen cannot compute the value. The image can set more variables.
    """

    words: tuple[str, ...]
    places: tuple[int, ...]
    environment: Mapping[str, str | None]

    @property
    def program(self) -> str:
        """The name of the program, without its folder; empty if it is unknown."""
        return self.words[0].rpartition("/")[2] if is_known(self.words[0]) else ""


def is_known(word: str) -> bool:
    """Return True if a word of a command has no part that mpigen cannot compute."""
    return _UNKNOWN not in word and is_one(word)


def is_one(word: str) -> bool:
    """Return True if the shell passes a word as one word to the program, not as several or none."""
    return _MANY not in word


def read_commands(items: Sequence[str], environment: Mapping[str, str | None]) -> list[Command] | None:
    """Return the commands of a container in their order; None if mpigen cannot read them exactly.

    Args:
        items: `command` and `args` of the container.
        environment: its variables; None for a value that is not literal.
    """
    words = [_expand_references(item, environment) for item in items]
    return _read(Command(tuple(words), tuple(range(len(words))), dict(environment)), 0) if words else None


def _expand_references(item: str, environment: Mapping[str, str | None]) -> str:
    """Return a string in which the kubelet has replaced `$(NAME)` and `$$`.

    Source: kubernetes v1.34.2 third_party/forked/golang/expansion/expand.go Expand
    """

    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return "$"
        known = environment.get(match[1], match[0])
        return _UNKNOWN if known is None else known

    return _REFERENCE.sub(value, item)


def _read(command: Command, depth: int) -> list[Command] | None:
    """Return the command, or for a shell or `env` the commands that it runs; None if they are unknown."""
    if depth > _MOST_NESTED:
        return None
    if command.program == "env" and len(command.words) > 1:
        return _read_env(command, depth)
    if command.program not in _SHELLS:
        return [command] if command.program else None
    number = 1
    while number + 1 < len(command.words) and (match := _SHELL_OPTIONS.fullmatch(command.words[number])):
        number += 2 if match["named"] else 1
        if match["script"] and is_known(command.words[number]):
            return _Script(command.places[number], dict(command.environment), depth).read(command.words[number])
    return None


def _read_env(command: Command, depth: int) -> list[Command] | None:
    environment = dict(command.environment)
    for number, word in enumerate(command.words[1:], 1):
        match = _ASSIGNMENT.fullmatch(word)
        if match is None:
            if word.startswith("-") or not is_known(word):
                return None
            return _read(Command(command.words[number:], command.places[number:], environment), depth + 1)
        environment[match[1]] = match[2] if is_known(match[2]) else None
    return None


@dataclass(slots=True)
class _Script:
    """A script of the shell, while mpigen reads its commands.

    Attributes:
        place: the index of the container's item with the script.
        exported: the variables of the programs that the script starts.
        variables: all variables of the shell.
    """

    place: int
    exported: dict[str, str | None]
    depth: int
    variables: dict[str, str | None] = field(default_factory=dict)

    def read(self, text: str) -> list[Command] | None:
        """Return the commands of the script; None if it has more than simple commands."""
        self.variables = dict(self.exported)
        lines = _split(text)
        if lines is None:
            return None
        commands: list[Command] = []
        for words, is_in_pipe in lines:
            before = dict(self.exported), dict(self.variables)
            parts = self._read_simple(words)
            if parts is None:
                return None
            commands += parts
            if is_in_pipe:  # which a subshell runs
                self.exported, self.variables = before
        return commands

    def _read_simple(self, tokens: Sequence[str]) -> list[Command] | None:
        """Return the commands that a simple command of the script runs; None if mpigen cannot read the command.

        The list is empty for assignments, `export`, and `set` with options.
        """
        assigned: dict[str, str | None] = {}
        rest = list(tokens)
        while rest and (match := _ASSIGNMENT.fullmatch(rest[0])):
            assigned[match[1]] = self._value(match[2])
            rest.pop(0)
        if not rest:
            self._assign(assigned)
            return []
        words = [self._word(token) for token in rest]
        if words[0] in _CHANGES_SHELL:
            return None
        if words[0] == "set":
            return [] if all(re.fullmatch(r"[-+][A-Za-z]+|pipefail", word) for word in words[1:]) else None
        if words[0] == "export":
            return self._export(rest[1:])
        if words[0] == "exec":
            words = words[1:]
        if not words or words[0].startswith("-"):
            return None
        command = Command(tuple(words), (self.place,) * len(words), {**self.exported, **assigned})
        return _read(command, self.depth + 1)

    def _assign(self, values: Mapping[str, str | None]) -> None:
        self.variables |= values
        self.exported |= {name: value for name, value in values.items() if name in self.exported}

    def _export(self, tokens: Sequence[str]) -> list[Command] | None:
        for token in tokens:
            match = _ASSIGNMENT.fullmatch(token)
            name = match[1] if match else token
            if not re.fullmatch(_NAME, name):
                return None
            if match:
                self.variables[name] = self._value(match[2])
            if name in self.variables:
                self.exported[name] = self.variables[name]
        return []

    def _value(self, token: str) -> str | None:
        """Return the value of an assignment, in which the shell splits no words; None if it is unknown."""
        word = _plain(_EXPANSION.sub(self._expand, token))
        return word if is_known(word) and "~" not in token else None

    def _word(self, token: str) -> str:
        """Return the value of a word of a command, with marks for the parts that mpigen cannot compute."""
        word = _plain(_EXPANSION.sub(self._expand, token))
        if _GLOB.search(_EXPANSION.sub("", token)) or any(map(self._is_split, _EXPANSION.finditer(token))):
            return _MANY + word
        return _UNKNOWN + word if token.startswith("~") else word

    def _is_split(self, match: re.Match[str]) -> bool:
        """Return True if the shell can split the value of an expansion into several words, or none."""
        if match["sign"] == _QUOTED_DOLLAR or match["other"] == "":
            return match["other"] in ("@", "*")
        value = self._lookup(match)
        return not value or re.search(r"[\s*?\[]", value) is not None

    def _lookup(self, match: re.Match[str]) -> str | None:
        return self.variables.get(match["braced"] or match["name"] or "")

    def _expand(self, match: re.Match[str]) -> str:
        if match["other"] == "":
            return "$"  # the last character of the word
        value = self._lookup(match)
        return _UNKNOWN if value is None else value


def _split(text: str) -> list[tuple[list[str], bool]] | None:
    """Return (tokens, True if in a pipe) of each simple command of a script; None for other syntax of the shell."""
    if re.search("[\ue000-\ue2ff]", text) or "\0" in text:
        return None
    quoted = _QUOTED.sub(_protect, text.replace("\\\n", ""))
    if re.search(r"""["'`\\]|\$[({]""", re.sub(rf"\$\{{{_NAME}\}}", "", quoted)):
        return None
    lexer = shlex.shlex(_REDIRECTION.sub(" ", quoted), posix=True, punctuation_chars="\n;&|()<>")
    lexer.whitespace, lexer.whitespace_split = " \t\r", True
    lexer.quotes = lexer.escape = lexer.commenters = ""
    lines: list[tuple[list[str], bool]] = [([], False)]
    for token in lexer:
        operator = token.strip("\n") if set(token) <= set("\n;&|()<>") else ""
        if operator == "" and token.strip("\n"):
            lines[-1][0].append(token)
        elif operator in ("", ";", "&&"):
            lines.append(([], False))
        elif operator == "|":
            lines[-1] = (lines[-1][0], True)
            lines.append(([], True))
        else:
            return None
    return [line for line in lines if line[0]]


def _protect(match: re.Match[str]) -> str:
    """Return a quoted text in which no character has a meaning for the shell, except `$` in double quotes.

    A comment becomes empty.
    """
    if match["escaped"] is not None:
        return _literal(match["escaped"])
    if match["single"] is not None:
        return _literal(match["single"]) or _EMPTY
    if match["double"] is None:
        return ""  # a comment
    return "".join(_protect_character(part) for part in _IN_DOUBLE_QUOTES.finditer(match["double"])) or _EMPTY


def _protect_character(match: re.Match[str]) -> str:
    if match["expansion"]:
        return _QUOTED_DOLLAR + match["expansion"]
    return match["rejected"] or _literal(match["escaped"] or match["other"])  # `_split` rejects the rest


def _literal(text: str) -> str:
    return re.sub(
        "[\x00-\xff]", lambda match: match[0] if match[0].isalnum() else chr(_PROTECTED + ord(match[0])), text
    )


def _plain(word: str) -> str:
    """Return a word without the marks of quotes."""
    return re.sub("[\ue100-\ue1ff]", lambda match: chr(ord(match[0]) - _PROTECTED), word.replace(_EMPTY, ""))
