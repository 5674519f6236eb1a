"""Run every check over manifests, and place what they find in the text that holds them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from generator.checks.finding import Finding, Severity
from generator.checks.schema import Breach, breaches
from generator.documents.locate import format_path
from generator.errors import DocumentError, Problem
from generator.manifests import Manifest, position, read
from generator.schemas.embedded import Engine


@dataclass(slots=True)
class Checked:
    """What was looked at, and what was found.

    Attributes:
        files: how many files were read.
        kinds: how many objects of each kind there are.
        findings: in the order of files and lines once `in_order` is called.
    """

    files: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Checked) -> None:
        """Take in what another part of the files gave."""
        self.files += other.files
        self.kinds += other.kinds
        self.findings += other.findings

    @property
    def objects(self) -> int:
        """How many objects were checked."""
        return self.kinds.total()

    @property
    def has_errors(self) -> bool:
        """Whether any finding fails the run."""
        return any(finding.severity is Severity.ERROR for finding in self.findings)

    def in_order(self) -> list[Finding]:
        """The findings, by place."""
        return sorted(set(self.findings))


def check_rendered(manifests: Iterable[Manifest], texts: Mapping[str, str], engine: Engine) -> Checked:
    """Check manifests that were rendered to `texts` (file → YAML)."""
    checked = Checked(files=len(texts))
    numbers: Counter[str] = Counter()
    for manifest in manifests:
        checked.kinds[manifest.kind] += 1
        numbered = Manifest(manifest.body, manifest.file, numbers[manifest.file])
        numbers[manifest.file] += 1
        checked.findings += [_placed(each, numbered, texts[manifest.file]) for each in breaches(numbered, engine)]
    return checked


def check_text(text: bytes, file: str, engine: Engine) -> Checked:
    """Check every object of one YAML text; a text that cannot be read is one finding."""
    checked = Checked(files=1)
    try:
        for manifest in read(text, file):
            checked.kinds[manifest.kind] += 1
            checked.findings += [_placed(each, manifest, text) for each in breaches(manifest, engine)]
    except DocumentError as error:
        checked.findings += unreadable(*error.problems).findings
    return checked


def _placed(breach: Breach, manifest: Manifest, text: str | bytes) -> Finding:
    line, column = position(manifest, text, breach.path)
    return Finding(
        file=manifest.file,
        line=line,
        column=column,
        path=format_path((*manifest.inside, *breach.path), root="$"),
        check=breach.check,
        resource=manifest.resource,
        message=breach.message,
        why=breach.why,
        fix=breach.fix,
        severity=breach.severity,
    )


def unreadable(*problems: Problem) -> Checked:
    """What is said of a file that cannot be read, or is not YAML."""
    findings = [
        Finding(
            file=problem.file,
            line=problem.line,
            column=problem.column,
            path="$",
            check="yaml/unreadable",
            resource="",
            message=problem.message,
            why="no client could read it",
            fix=problem.fix,
        )
        for problem in problems
    ]
    return Checked(files=1, findings=findings)
