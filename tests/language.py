"""The rules of plain English that a program can check, over every text in the repository.

`python -m tests.language [PATH…]` lists what breaks them. A rule reads docstrings, strings with a space,
comments, the names that code defines, and the prose of Markdown pages and shell scripts. In tests, it reads docstrings
and the names of test functions only.
tests/language-exceptions.yaml holds the reviewed exceptions.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.conftest import ROOT

EXCEPTIONS = ROOT / "tests/language-exceptions.yaml"

_OPENINGS = (
    "All",
    "Each",
    "Everything",
    "How",
    "It",
    "No",
    "None",
    "Nobody",
    "One",
    "Such",
    "That",
    "The same",
    "Those",
    "What",
    "Where",
    "Whether",
    "Which",
    "Who",
    "Whoever",
    "Whose",
    "Why",
)
_OPENING = re.compile(rf"\s*({'|'.join(_OPENINGS)})\b")

_WORDS = (
    # pronouns without a noun
    "nobody", "somebody", "anybody", "whoever", "who(?:se)?ever", "that which", "by that", "with what", "beyond what",
    "those (?:that|of)", "the one (?:that|who|of)", "such (?:another|as there)", "another one", "each its own",
    # software does not speak, know or want
    "told", "tells?", "(?:is|are) said", "what is said", "(?:say|says) (?:so|no|that|of|nothing)",
    "know(?:s)? (?:nothing|nobody|of|what|where|which)", "wants? (?:nothing|to)", "has? a word", "without a word",
    "look(?:s|ed)? after", "ha(?:s|ve) (?:nothing|something) against",
    # homemade words for known terms
    "mend(?:s|ed)?", "driv(?:e|en|es|ing) out", "can(?:not)? be had", "may be had", "parts? ways", "but for",
    "goes? (?:by|over|with|for|down)", "(?:is|are) to be", "(?:is|are|there) no more", "of (?:its|their) own accord",
    "what(?:ever)? (?:stands|comes|goes|is there)", "stands? there", "as many as",
)  # fmt: skip
_WORD = re.compile(rf"(?<![-/])\b(?:{'|'.join(_WORDS)})\b", re.IGNORECASE)
_NAME = re.compile(
    r"(?:^|_)(?:told|said|says|shown|found|there|whose|elsewhere|wanted|asked|mended|somebody|nobody|whatever|what|who|which|those"
    r"|such|each|beside|story|stories|box(?:es)?)(?:_|$)",
    re.IGNORECASE,
)
_CODE = re.compile(r"```.*?```|~~~.*?~~~|`[^`\n]*`|<!--.*?-->", re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class Breach:
    """A text that breaks a rule of plain English.

    Attributes:
        file: path from the root of the repository.
        line: first line of the text, 1-based.
        rule: `opening`, `word` or `name`.
        words: the forbidden words, as written, or the identifier.
    """

    file: str
    line: int
    rule: str
    words: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}: {self.words}"


def check_texts(paths: Iterable[Path]) -> list[Breach]:
    """Return the breaches in these files, without the reviewed exceptions."""
    allowed = {
        (row["file"], row["words"].lower()) for row in yaml.safe_load(EXCEPTIONS.read_text("utf-8"))["exceptions"]
    }
    found = (breach for path in paths for breach in _check_file(path))
    return sorted(breach for breach in found if (breach.file, breach.words.lower()) not in allowed)


def pending_files() -> frozenset[str]:
    """Return the files whose old texts are not rewritten yet."""
    return frozenset(yaml.safe_load(EXCEPTIONS.read_text("utf-8"))["pending"])


def text_files(root: Path = ROOT) -> Iterator[Path]:
    """Return the files whose texts people read."""
    yield from sorted(root.glob("generator/**/*.py"))
    yield from sorted(root.glob("tests/**/*.py"))
    yield from sorted(path for path in root.glob("generator/**/*") if path.suffix in {".sh", ".yaml"})
    yield from sorted(root.glob("docs/**/*.md"))
    yield from sorted(root.glob("*.md"))


def _check_file(path: Path) -> Iterator[Breach]:
    text = path.read_text("utf-8")
    name = str(path.relative_to(ROOT))
    if path.suffix == ".py":
        parts = _python_texts(text)
        if name.startswith("tests/"):
            parts = (
                part for part in parts if part[1] == "docstring" or (part[1] == "name" and part[2].startswith("test_"))
            )
    elif path.suffix == ".md":
        parts = iter([(1, "prose", _CODE.sub(lambda code: "\n" * code[0].count("\n"), text))])
    else:
        parts = ((number, "prose", _CODE.sub("", line)) for number, line in enumerate(text.splitlines(), 1))
    for line, sort, part in parts:
        if sort == "name":
            if _NAME.search(part):
                yield Breach(name, line, "name", part)
            continue
        if sort == "docstring" and (opening := _OPENING.match(part)):
            yield Breach(name, line, "opening", opening[1])
        for word in _WORD.finditer(part):
            yield Breach(name, line + part.count("\n", 0, word.start()), "word", word[0])


def _python_texts(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line, sort, text) of each docstring, string with a space, comment, and name that is defined."""
    tree = ast.parse(text)
    docstrings = {
        id(statement.value)
        for node in ast.walk(tree)
        for body in [getattr(node, "body", None)]
        if isinstance(body, list)
        for statement in body
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in docstrings:
                yield node.lineno, "docstring", _CODE.sub("``", node.value)
            elif " " in node.value:
                yield node.lineno, "string", _CODE.sub("``", node.value)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            yield node.lineno, "name", node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, "name", node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, "name", node.id
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], "comment", _CODE.sub("``", token.string)


def main() -> None:
    """Print the breaches in the named files and folders, or in all texts."""
    named = [Path(argument).resolve() for argument in sys.argv[1:]]
    files = [file for file in text_files() if not named or any(file == path or path in file.parents for path in named)]
    breaches = check_texts(files)
    sys.stdout.write("".join(f"{breach}\n" for breach in breaches))
    sys.stdout.write(f"{len(breaches)} in {len(files)} files\n")


if __name__ == "__main__":
    main()
