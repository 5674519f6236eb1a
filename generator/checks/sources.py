"""Find the files to check below paths, and render kustomizations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from generator.checks.files import Origin, Search, by_release
from generator.checks.finding import Finding, Generated, Severity
from generator.checks.foreign import Skipped, recognize_places, recognize_text
from generator.checks.registry import ERROR, declare
from generator.documents.files import read_file
from generator.documents.kustomize import Kustomization, Kustomizations, find_renderer, render
from generator.errors import InputError, Problem
from generator.facts.names import DEFINITION
from generator.schemas.embedded import Engine


@dataclass(frozen=True, slots=True)
class Sources:
    """The files and texts to check.

    Attributes:
        files: the files, without the skipped files and the files of rendered kustomizations.
        strict: the files of releases, which mpigen never skips because of their content.
        named: the files that the command line names, which mpigen skips only if they are templates.
        skipped: the files that are no manifests.
        rendered: a command such as `kubectl kustomize DIR` → the kustomization, and the YAML that the command prints.
        definitions: the files that can hold CustomResourceDefinitions.
        partial: the files and commands whose objects a kustomization changes before a client applies them.
        findings: the kustomizations that cannot be rendered.
    """

    files: tuple[Path, ...]
    strict: frozenset[Path] = frozenset()
    named: frozenset[Path] = frozenset()
    skipped: tuple[Skipped, ...] = ()
    rendered: Mapping[str, tuple[Path, bytes]] = field(default_factory=dict)
    definitions: tuple[Path, ...] = ()
    partial: frozenset[str] = frozenset()
    findings: tuple[Finding, ...] = ()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The kustomizations that kustomize rejects, or that name a missing file."""
        failed = (finding for finding in self.findings if finding.severity is Severity.ERROR)
        return tuple(Problem(finding.message, finding.fix, finding.file) for finding in failed)

    def recognize(self, file: str, text: bytes, engine: Engine) -> Skipped | None:
        """Return why mpigen skips a file because of its content; None for a file with manifests.

        Args:
            file: one of the files.
            text: its content.
            engine: the schemas of the target versions.
        """
        if Path(file) in self.strict:
            return None
        skipped = recognize_text(text, file, engine)
        return None if skipped and skipped.reason != "template" and Path(file) in self.named else skipped

    def read_definitions(self) -> dict[str, bytes]:
        """Return the text of each file with a CustomResourceDefinition."""
        texts: dict[str, bytes] = {}
        for file in self.definitions:
            with suppress(InputError):
                if DEFINITION in (text := read_file(file)):
                    texts[str(file)] = text
        return texts

    def relocate(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return the findings with the file of the kustomization in place of lines in rendered YAML.

        If a kustomization can still change an object, a finding about a missing field or a variable of kustomize
        becomes an info.
        """
        return [self._relocated(finding) for finding in findings]

    def _relocated(self, finding: Finding) -> Finding:
        is_variable = isinstance(finding.value, str) and "$(" in finding.value and finding.check.startswith("schema/")
        if finding.file in self.partial and (is_variable or finding.check in _COMPLETED):
            why = "the API server rejects the object, unless a kustomization sets the field"
            finding = replace(finding, severity=Severity.INFO, why=why)
        if finding.file not in self.rendered:
            return finding
        generated = Generated(finding.file, finding.line, finding.path)
        return replace(finding, file=str(self.rendered[finding.file][0]), line=0, column=0, generated=generated)


_COMPLETED = ("object/unnamed", "schema/missing-field")
"""Checks of fields that a kustomization can add."""


def find_sources(search: Search, *, renders: bool) -> Sources:
    """Return the files to check, without the files of charts and kustomizations. Render kustomizations if `renders`.

    Raises:
        EngineError: `renders` is True, and PATH has neither kubectl nor kustomize.
    """
    releases = by_release(search.files)
    outside = releases.get(Origin(), [])
    kustomizations = Kustomizations(outside)
    skipped = recognize_places(outside, kustomizations)
    rendered = _render_all(kustomizations) if renders else _Rendered()
    gone = skipped.keys() | {file for file in outside if file.absolute() in rendered.covered}
    files = tuple(file for file in search.files if file not in gone)
    resources = {path.absolute() for item in kustomizations.named for path in item.resources}
    return Sources(
        files=files,
        strict=frozenset(search.files) - frozenset(outside),
        named=search.named,
        skipped=tuple(item for file, item in skipped.items() if file.absolute() not in rendered.covered),
        rendered=rendered.texts,
        definitions=tuple(
            file
            for origin, members in releases.items()
            for file in members
            if file not in skipped and _can_define(file, origin.folder)
        ),
        partial=frozenset({*rendered.partial, *(str(file) for file in files if file.absolute() in resources)}),
        findings=tuple(rendered.findings),
    )


def _can_define(file: Path, release: Path | None) -> bool:
    """Return True if a file can hold a CustomResourceDefinition.

    A release has many files of tenants. Only `extra` of a tenant can define a kind.
    """
    path = file.absolute()
    parts = path.relative_to(release).parts if release and path.is_relative_to(release) else ()
    return parts[:1] != ("tenants",) or "extra" in parts


@dataclass(frozen=True, slots=True)
class _Rendered:
    """The results of all renderings.

    Attributes:
        texts: command → the kustomization, and the YAML.
        partial: the commands that render a base instead of its overlay, because the overlay cannot be rendered.
        findings: the kustomizations that cannot be rendered.
        covered: the absolute paths of all files that went into the YAML.
    """

    texts: dict[str, tuple[Path, bytes]] = field(default_factory=dict)
    partial: set[str] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)
    covered: set[Path] = field(default_factory=set)


def _render_all(kustomizations: Kustomizations) -> _Rendered:
    """Render every kustomization that no other kustomization uses.

    If such a kustomization needs a URL, a Helm chart or a missing file, render the kustomizations that it uses instead.
    """
    waiting = kustomizations.roots()
    renderer: Sequence[str] = ()
    result = _Rendered()
    visited: set[Path] = set()
    whole = {root.file for root in waiting}
    while waiting:
        root = waiting.pop(0)
        if root.file in visited:
            continue
        visited.add(root.file)
        parts = kustomizations.closure(root)
        if faulty := next((part for part in parts if part.problem), None):
            fix = f"correct the file: run `kubectl kustomize {root.folder}`"
            result.findings.append(_not_rendered(faulty.file, f"kustomize rejects this file: {faulty.problem}", fix))
            continue
        obstacles = [(obstacle, part) for part in parts for obstacle in part.obstacles]
        if obstacles:
            if root.file in whole:
                result.findings.append(_obstructed(root, *obstacles[0]))
            waiting += kustomizations.used_by(root)
            continue
        renderer = renderer or find_renderer()
        try:
            text = render(root.folder, renderer)
        except InputError as error:
            result.findings.append(_not_rendered(root.file, error.problems[0].message, error.problems[0].fix))
            continue
        name = " ".join((Path(renderer[0]).name, *renderer[1:], str(root.folder)))
        result.texts[name] = root.file, text
        result.partial.update([] if root.file in whole else [name])
        for part in parts:
            result.covered.update(path.absolute() for path in (part.file, *part.resources, *part.inputs))
    return result


def _obstructed(root: Kustomization, obstacle: str, part: Kustomization) -> Finding:
    """Return the finding of a kustomization that needs more than the files on disk."""
    message = obstacle if part is root else f"{obstacle}, which {part.file} uses"
    fix = "render the kustomization where all its files are, and pipe the result into `mpigen validate -`"
    is_missing = obstacle.endswith("does not exist")
    return _not_rendered(root.file, message, fix, Severity.ERROR if is_missing else Severity.WARNING)


def _not_rendered(file: Path, message: str, fix: str, severity: Severity = ERROR) -> Finding:
    why = "mpigen does not check the manifests of this kustomization, so they may contain any mistake"
    return Finding(str(file), 0, 0, "$", "yaml/not-rendered", "", message, why, fix, severity)


declare(
    "yaml/not-rendered",
    severity=ERROR,
    text="""Report a kustomization that `--kustomize` cannot render.

    kustomize rejects the kustomization, or a file that it names does not exist. mpigen downloads nothing, and it runs
    no Helm: a kustomization with a URL or with `helmCharts` is a warning. Render such a kustomization where its files
    are, and pipe the result into `mpigen validate -`.

    Source: kustomize/api v0.20.1 internal/loader/loader.go, which downloads references that are no files
    """,
)
