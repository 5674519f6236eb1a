"""Run all checks over manifests, and find the line of each breach."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath

from generator.checks import registry
from generator.checks.fabric.fabrics import is_fabric_object
from generator.checks.finding import Breach, Finding, Located, Severity, place_findings, waivers_of
from generator.checks.objects import Change, Objects
from generator.checks.quota.queues import KINDS
from generator.checks.registry import ERROR, declare
from generator.checks.schema import breaches, misplaced
from generator.documents.files import read_file
from generator.documents.load import Path
from generator.errors import DocumentError, Problem
from generator.manifests import Body, Manifest, read
from generator.objects.namespace import is_namespace
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from generator.simulate.kueue.configuration import is_configuration

_POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


@dataclass(slots=True)
class Checked:
    """What was looked at, and what was found.

    Attributes:
        files: how many files were read.
        kinds: how many objects of each kind there are.
        findings: in the order of files and lines once `in_order` is called.
        related: the objects that are yet to be judged together.
        waiving: the objects that declare waivers.
    """

    files: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    related: list[Manifest] = field(default_factory=list)
    waiving: list[Manifest] = field(default_factory=list)

    def add(self, other: Checked) -> None:
        """Take in what another part of the files gave."""
        self.files += other.files
        self.kinds.update(other.kinds)  # several times as fast as `+=`, and this is done for every file
        self.findings += other.findings
        self.related += other.related
        self.waiving += other.waiving

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


def check_rendered(
    manifests: Iterable[Manifest], texts: Mapping[str, str], catalog: Catalog, today: dt.date | None = None
) -> Checked:
    """Check the manifests of one release, which were rendered to `texts` (file → YAML), as of a day if one is given."""
    engine = Engine(catalog)
    numbered = list(in_documents(manifests))
    kinds = Counter(manifest.kind for manifest in numbered)
    checked = Checked(len(texts), kinds, waiving=[manifest for manifest in numbered if waivers_of(manifest)])
    by_file: dict[str, list[Located]] = {}
    for manifest in numbered:
        by_file.setdefault(manifest.file, []).extend((manifest, breach) for breach in _breaches(manifest, engine))
    for manifest, breach in (
        *misplaced(numbered, catalog),
        *judge_together(numbered, catalog.targets, today, is_complete=True),
    ):
        by_file[manifest.file].append((manifest, breach))
    for file, found in by_file.items():
        checked.findings += place_findings(found, texts[file])
    return checked


def in_documents(manifests: Iterable[Manifest]) -> Iterator[Manifest]:
    """Each with the number of its document in its file."""
    numbers: Counter[str] = Counter()
    for manifest in manifests:
        yield replace(manifest, index=numbers[manifest.file])
        numbers[manifest.file] += 1


def check_text(text: bytes, file: str, engine: Engine) -> Checked:
    """Check every object of one YAML text; a text that cannot be read is one finding."""
    checked = Checked(files=1)
    found: list[Located] = []
    try:
        for manifest in read(text, file):
            checked.kinds[manifest.kind] += 1
            if is_kept(manifest):
                checked.related.append(manifest)
            if waivers_of(manifest):
                checked.waiving.append(manifest)
            found += [(manifest, breach) for breach in _breaches(manifest, engine)]
    except DocumentError as error:
        checked.findings += unreadable(*error.problems).findings
    checked.findings += place_findings(found, text)
    return checked


def check_together(
    manifests: Sequence[Manifest],
    targets: Mapping[str, str],
    text_of: Callable[[str], bytes],
    today: dt.date | None = None,
) -> list[Finding]:
    """Judge the objects of one release, or of none, by the rules that need several of them.

    Args:
        manifests: those that `check_text` kept.
        targets: component → the minor version that is judged for.
        text_of: gives the text of a file again, for the places in it. It is asked only where something is found.
        today: the day on which is judged.

    Raises:
        InputError: from `text_of`.
    """
    by_file: dict[str, list[Located]] = {}
    for manifest, breach in judge_together(manifests, targets, today):
        by_file.setdefault(manifest.file, []).append((manifest, breach))
    return [finding for file, found in by_file.items() for finding in _placed_again(found, text_of(file))]


def _placed_again(found: Sequence[Located], text: bytes) -> list[Finding]:
    """The findings of a text that was read before, if what they are about still stands there."""
    file = found[0][0].file
    there: dict[tuple[int, Path], Body] = {}
    with suppress(DocumentError):  # what can be read before it is enough
        there.update(((manifest.index, manifest.inside), manifest.body) for manifest in read(text, file))
    if all(there.get((manifest.index, manifest.inside)) == manifest.body for manifest, _ in found):
        return place_findings(found, text)
    return unreadable(Problem("has changed while it was checked", "check it again", file)).findings


def _breaches(manifest: Manifest, engine: Engine) -> Iterator[Breach]:
    yield from breaches(manifest, engine)
    if manifest.kind and manifest.api_version:
        if manifest.kind in _POLICIES:
            from generator.checks import policy  # importing CEL takes as long as checking a file

            yield from policy.policy_breaches(manifest, engine.targets)
        yield from registry.judge(manifest, engine.targets)


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


declare(
    "yaml/unreadable",
    severity=ERROR,
    text="""Report a file that cannot be read, or whose text is not YAML.

    The text is not YAML that a Kubernetes client could read: a syntax error, a key written twice, an alias without
    an anchor. Or the file cannot be read at all: a link to nothing, no access, a pipe, a socket or a device (which
    are never opened), or more than 10,000,000 bytes. Standard input may have 50,000,000 bytes.
    """,
)


_KEPT_KINDS = KINDS | {"ClusterTrainingRuntime", "PersistentVolumeClaim", "TrainingRuntime", "TrainJob"}


def is_kept(manifest: Manifest) -> bool:
    """Return True if a rule reads the manifest; all others need not be kept in memory."""
    is_known = manifest.kind in _KEPT_KINDS or is_configuration(manifest) or is_namespace(manifest)
    return is_known or is_fabric_object(manifest)


def judge_together(
    manifests: Sequence[Manifest],
    targets: Mapping[str, str],
    today: dt.date | None = None,
    *,
    is_complete: bool = False,
) -> Iterator[tuple[Manifest, Breach]]:
    """Yield the breaches of rules over several objects.

    Args:
        manifests: the manifests of one release, or of no release, in any order. Kinds that no rule reads may be absent.
        targets: component → minor version.
        today: the day of the check; without it no rule depends on the day.
        is_complete: whether these are all manifests of a release.
    """
    kept = sorted(filter(is_kept, manifests), key=lambda each: (each.file, each.index))
    if not kept:
        return
    objects = Objects(tuple(kept), targets, today, is_complete)
    for check in registry.checks_of(registry.Stage.TOGETHER, targets):
        subject = objects if check.needs is Objects else objects.view(check.needs.read)
        if subject is not None:
            yield from check.run(subject)


def judge_change(
    old: Sequence[Manifest], new: Sequence[Manifest], targets: Mapping[str, str]
) -> Iterator[tuple[Manifest, Breach]]:
    """Yield what breaks when one tree is applied over another.

    Args:
        old: all manifests of the old tree.
        new: all manifests of the new tree.
        targets: component → minor version.

    Yields:
        A manifest of `new`, or a manifest of `old` that `new` no longer has, with a breach.
    """
    change = Change(old, new, targets)
    for check in registry.checks_of(registry.Stage.CHANGE, targets):
        for subject in check.needs.between(change):
            yield from check.run(subject, getattr(subject, "manifest", None))


def compare(
    old: Sequence[Manifest],
    new: Sequence[Manifest],
    targets: Mapping[str, str],
    text_of: Callable[[str], str | bytes],
) -> list[Finding]:
    """What `change` says, in the files of `new`, and for what is gone in those of `old`.

    Args:
        old: the objects of the tree that is there, numbered.
        new: those of the one that replaces it, numbered.
        targets: component → the minor version that is judged for.
        text_of: gives the text of a file of either. It is asked only where something is found.

    Raises:
        InputError: from `text_of`.
    """
    by_file: dict[str, list[tuple[Manifest, Breach]]] = {}
    for manifest, breach in judge_change(old, new, targets):
        by_file.setdefault(manifest.file, []).append((manifest, breach))
    return [finding for file, found in by_file.items() for finding in place_findings(found, text_of(file))]


def compare_rendered(
    old: Sequence[Manifest], new: Sequence[Manifest], texts: Mapping[str, str], targets: Mapping[str, str]
) -> list[Finding]:
    """The same, of a release on disk and of one that was just rendered to `texts` (file → YAML)."""
    numbered = list(in_documents(new))
    return compare(old, numbered, targets, lambda file: texts[file] if file in texts else read_file(FilePath(file)))
