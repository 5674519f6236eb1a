"""Run all checks over manifests, and find the line of each breach.

`check_rendered` checks a release before it is written. For files on disk, `check_text` checks each file, and
`check_together` runs the rules that read several objects. `compare` checks an update from one tree to the next.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from generator.checks.fabric.fabrics import is_fabric_object
from generator.checks.finding import Finding, Located, place_findings, waivers_of
from generator.checks.objects import Change, Objects
from generator.checks.quota.queues import KINDS
from generator.checks.registry import ERROR, Stage, checks_of, complete, declare
from generator.checks.schema import release_breaches, schema_breaches
from generator.errors import DocumentError, Problem
from generator.manifests import Manifest, read
from generator.objects.namespace import is_namespace
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from generator.simulate.kueue.configuration import is_configuration

_POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
_READ_TOGETHER = KINDS | {"ClusterTrainingRuntime", "PersistentVolumeClaim", "TrainingRuntime", "TrainJob"}


@dataclass(slots=True)
class Checked:
    """The result of checking files.

    Attributes:
        files: the number of files.
        kinds: the number of objects of each kind.
        findings: the findings.
        related: the objects that rules over several objects read.
        waiving: the objects with waivers.
    """

    files: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    related: list[Manifest] = field(default_factory=list)
    waiving: list[Manifest] = field(default_factory=list)

    def add(self, other: Checked) -> None:
        """Add the result of other files."""
        self.files += other.files
        self.kinds.update(other.kinds)  # several times as fast as `+=`, and this runs for every file
        self.findings += other.findings
        self.related += other.related
        self.waiving += other.waiving

    @property
    def objects(self) -> int:
        """The number of objects."""
        return self.kinds.total()

    def in_order(self) -> list[Finding]:
        """Return the findings by file and line, without duplicates."""
        return sorted(set(self.findings))


def check_rendered(
    manifests: Iterable[Manifest], texts: Mapping[str, str], catalog: Catalog, today: dt.date | None = None
) -> Checked:
    """Check the manifests of one release.

    Args:
        manifests: all manifests of the release.
        texts: file → YAML of its manifests.
        catalog: the schemas of the target versions.
        today: the day of the check; without it no rule depends on the day.
    """
    engine = Engine(catalog)
    numbered = list(number_documents(manifests))
    alone = [located for manifest in numbered for located in _judge_alone(manifest, engine)]
    in_release = (complete(breach) for breach in release_breaches(numbered, catalog))
    together = judge_together(numbered, catalog.targets, today, is_complete=True)
    return Checked(
        files=len(texts),
        kinds=Counter(manifest.kind for manifest in numbered),
        findings=_place((*alone, *in_release, *together), texts.__getitem__),
        waiving=[manifest for manifest in numbered if waivers_of(manifest)],
    )


def number_documents(manifests: Iterable[Manifest]) -> Iterator[Manifest]:
    """Yield each manifest with the number of its document in its file."""
    numbers: Counter[str] = Counter()
    for manifest in manifests:
        yield replace(manifest, index=numbers[manifest.file])
        numbers[manifest.file] += 1


def check_text(text: bytes, file: str, engine: Engine) -> Checked:
    """Check each object of one YAML text. A text that cannot be parsed is one finding."""
    checked = Checked(files=1)
    breaches: list[Located] = []
    try:
        for manifest in read(text, file):
            checked.kinds[manifest.kind] += 1
            if is_read_together(manifest):
                checked.related.append(manifest)
            if waivers_of(manifest):
                checked.waiving.append(manifest)
            breaches += _judge_alone(manifest, engine)
    except DocumentError as error:
        checked.findings += unreadable(*error.problems).findings
    checked.findings += place_findings(breaches, text)
    return checked


def _judge_alone(manifest: Manifest, engine: Engine) -> Iterator[Located]:
    """Yield the breaches of the rules that read a single object."""
    for breach in schema_breaches(manifest, engine):
        yield complete(breach, manifest)
    if not manifest.kind or not manifest.api_version:
        return
    if manifest.kind in _POLICIES:
        from generator.checks.policy import policy_breaches  # importing CEL takes as long as checking a file

        for breach in policy_breaches(manifest, engine.targets):
            yield complete(breach, manifest)
    yield from judge(manifest, engine.targets)


def judge(manifest: Manifest, targets: Mapping[str, str]) -> Iterator[Located]:
    """Yield the breaches of the registered rules that read a single object."""
    subjects: dict[type[Any], Any] = {Manifest: manifest}
    for check in checks_of(Stage.OBJECT, targets):
        if check.needs not in subjects:
            subjects[check.needs] = check.needs.of_manifest(manifest, targets)
        if subjects[check.needs] is not None:
            yield from check.run(subjects[check.needs], manifest)


def is_read_together(manifest: Manifest) -> bool:
    """Return True if a rule over several objects reads the manifest. The others need not stay in memory."""
    is_known = manifest.kind in _READ_TOGETHER or is_configuration(manifest) or is_namespace(manifest)
    return is_known or is_fabric_object(manifest)


def check_together(
    manifests: Sequence[Manifest],
    targets: Mapping[str, str],
    text_of: Callable[[str], bytes],
    today: dt.date | None = None,
    *,
    is_complete: bool = False,
) -> list[Finding]:
    """Check the objects of one release, or of no release, by the rules that read several objects.

    Args:
        manifests: the objects in `Checked.related`.
        targets: component → minor version.
        text_of: returns the text of a file. It is called only for files with breaches.
        today: the day of the check; without it no rule depends on the day.
        is_complete: True if these are all objects of a release.

    Raises:
        InputError: from `text_of`.
    """
    findings = []
    for file, breaches in _by_file(judge_together(manifests, targets, today, is_complete=is_complete)).items():
        text = text_of(file)
        bodies = {}
        with suppress(DocumentError):  # keep the documents before the error
            bodies = {(manifest.index, manifest.inside): manifest.body for manifest in read(text, file)}
        if all(bodies.get((manifest.index, manifest.inside)) == manifest.body for manifest, _ in breaches):
            findings += place_findings(breaches, text)
        else:
            problem = Problem("the file changed during the check", "run the check again", file)
            findings += unreadable(problem).findings
    return findings


def judge_together(
    manifests: Sequence[Manifest],
    targets: Mapping[str, str],
    today: dt.date | None = None,
    *,
    is_complete: bool = False,
) -> Iterator[Located]:
    """Yield the breaches of the rules that read several objects.

    An object that is in no file may exist in the cluster. So no rule reports its absence as an error, except in a
    complete release.

    Args:
        manifests: the manifests of one release, or of no release, in any order. Kinds that no rule reads may be absent.
        targets: component → minor version.
        today: the day of the check; without it no rule depends on the day.
        is_complete: True if these are all manifests of a release.
    """
    kept = sorted(filter(is_read_together, manifests), key=lambda manifest: (manifest.file, manifest.index))
    if not kept:
        return
    objects = Objects(tuple(kept), targets, today, is_complete)
    for check in checks_of(Stage.TOGETHER, targets):
        subject = objects if check.needs is Objects else objects.view(check.needs.read)
        if subject is not None:
            yield from check.run(subject)


def compare(
    old: Sequence[Manifest],
    new: Sequence[Manifest],
    targets: Mapping[str, str],
    text_of: Callable[[str], str | bytes],
) -> list[Finding]:
    """Return what breaks when one tree is applied over another.

    Args:
        old: all manifests of the old tree, with the numbers of their documents.
        new: all manifests of the new tree, with the numbers of their documents.
        targets: component → minor version.
        text_of: returns the text of a file of either tree. It is called only for files with breaches.

    Raises:
        InputError: from `text_of`.
    """
    return _place(judge_change(old, new, targets), text_of)


def judge_change(old: Sequence[Manifest], new: Sequence[Manifest], targets: Mapping[str, str]) -> Iterator[Located]:
    """Yield the breaches of the rules that read two trees.

    Each breach is about a manifest of `new`, or about a manifest of `old` that `new` does not have.
    """
    change = Change(old, new, targets)
    for check in checks_of(Stage.CHANGE, targets):
        for subject in check.needs.between(change):
            yield from check.run(subject, getattr(subject, "manifest", None))


def _place(breaches: Iterable[Located], text_of: Callable[[str], str | bytes]) -> list[Finding]:
    return [finding for file, rows in _by_file(breaches).items() for finding in place_findings(rows, text_of(file))]


def _by_file(breaches: Iterable[Located]) -> Mapping[str, list[Located]]:
    by_file: dict[str, list[Located]] = {}
    for located in breaches:
        by_file.setdefault(located[0].file, []).append(located)
    return by_file


def unreadable(*problems: Problem) -> Checked:
    """Return a finding for each problem of a file that cannot be read or parsed."""
    why = "no Kubernetes client can read the file"
    findings = [
        Finding(
            problem.file, problem.line, problem.column, "$", "yaml/unreadable", "", problem.message, why, problem.fix
        )
        for problem in problems
    ]
    return Checked(files=1, findings=findings)


declare(
    "yaml/unreadable",
    severity=ERROR,
    text="""Report a file that cannot be read, or whose text is not YAML.

    No Kubernetes client can read the text: it has a syntax error, a duplicate key, or an alias without an anchor. Or
    mpigen does not read the file: it is a dangling link, a pipe, a socket or a device, you have no permission, or it
    exceeds 10,000,000 bytes. The limit of standard input is 50,000,000 bytes.
    """,
)
