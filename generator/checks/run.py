"""Run all checks over manifests, and find the line of each breach.

`check_rendered` checks a release before it is written. For files on disk, `check_text` checks each file, and
`check_together` runs the rules that read several objects. `compare` checks an update of the output tree.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from generator.checks.admission import OwnAdmission
from generator.checks.alone import OURS, judge_alone
from generator.checks.compiled import CAUSES, COMPILED, judge_compiled, judge_request, without_explained
from generator.checks.corrected import correct
from generator.checks.fabric.fabrics import is_fabric_object
from generator.checks.finding import Finding, Located, Severity, place_findings, waivers_of
from generator.checks.gitops.deliveries import is_wiring
from generator.checks.graph import is_in_graph
from generator.checks.identity import AllKinds
from generator.checks.job_pods import CompiledJob
from generator.checks.network import is_isolation_object
from generator.checks.objects import Change, Objects, runtime_of
from generator.checks.placeholders import MARK, depends_on, fill, names_placeholder, note
from generator.checks.protections import Protections
from generator.checks.quota.queues import KINDS
from generator.checks.registry import ERROR, Stage, Suite, complete, declare
from generator.checks.schedules import Scheduled
from generator.checks.schema import release_breaches
from generator.checks.tree import Tree
from generator.checks.unmatched import Matching
from generator.errors import DocumentError, Problem
from generator.manifests import Manifest, read
from generator.objects.namespace import is_namespace
from generator.objects.training import GROUP
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from generator.upstream.kueue.configuration import is_configuration

if TYPE_CHECKING:
    from generator.checks.foreign import Skipped  # with the reader of kustomizations, which few commands need

_OF_ALL_KINDS = (AllKinds, Matching, OwnAdmission, Protections, Scheduled)
"""The classes that read manifests of all kinds."""
_READ_TOGETHER = KINDS | {
    *("ClusterTrainingRuntime", "DeviceClass", "Node", "PersistentVolumeClaim", "TrainingRuntime", "TrainJob"),
}


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check of files: the number of their objects, the findings, and the skipped files.

    Attributes:
        files: the number of files.
        kinds: kind → the number of its objects.
        findings: the findings, unsorted and perhaps repeated; `in_order` returns them sorted.
        related: the objects of the files, for `check_together`; empty in the results of `check_rendered` and of
            kubeconform.
        waiving: the objects with the annotation `mpigen.dev/waive`.
        skipped: the files whose content is no manifest.
    """

    files: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    related: list[Manifest] = field(default_factory=list)
    waiving: list[Manifest] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    @classmethod
    def total(cls, results: Iterable[Checked]) -> Checked:
        """Return the sum of the results of several groups of files."""
        files, kinds = 0, Counter[str]()
        findings: list[Finding] = []
        related: list[Manifest] = []
        waiving: list[Manifest] = []
        skipped: list[Skipped] = []
        for result in results:
            files += result.files
            kinds.update(result.kinds)  # several times as fast as `+=`, and this runs for every file
            findings += result.findings
            related += result.related
            waiving += result.waiving
            skipped += result.skipped
        return cls(files, kinds, findings, related, waiving, skipped)

    def with_findings(self, findings: Iterable[Finding]) -> Checked:
        """Return this result with further findings."""
        return replace(self, findings=[*self.findings, *findings])

    def with_paths(self, paths: Mapping[str, str]) -> Checked:
        """Return this result with renamed files: `paths` is old path → new path, for some of the files."""

        def placed(finding: Finding) -> Finding:
            if (generated := finding.generated) is None:
                return replace(finding, file=paths.get(finding.file, finding.file))
            return replace(finding, generated=replace(generated, file=paths.get(generated.file, generated.file)))

        waiving = [replace(manifest, file=paths.get(manifest.file, manifest.file)) for manifest in self.waiving]
        return replace(self, findings=[*map(placed, self.findings)], waiving=waiving)

    @property
    def objects(self) -> int:
        """The number of objects."""
        return self.kinds.total()

    def in_order(self) -> list[Finding]:
        """Return the findings by file and line, without duplicates."""
        return sorted(set(self.findings))


def check_rendered(
    manifests: Iterable[Manifest],
    texts: Mapping[str, str],
    catalog: Catalog,
    today: dt.date | None = None,
    suite: Suite = OURS,
    *,
    lock: Manifest | None = None,
) -> Checked:
    """Check the manifests of one release.

    Args:
        manifests: all manifests of the release.
        texts: file → YAML of its manifests.
        catalog: the schemas of the target versions.
        today: the day of the check; without it no rule depends on the day.
        suite: the checks of the run.
        lock: the lock of the release, which rules compare with the manifests; None to leave these rules out.
    """
    engine = Engine(catalog)
    numbered = list(number_documents(manifests))
    alone: list[Located] = []
    corrected: list[Manifest] = []
    marked = {file for file, text in texts.items() if MARK.decode() in text}
    for manifest in numbered:
        mistakes, read_by_others = _judge_filled(manifest, engine, suite, {} if manifest.file in marked else None)
        alone += mistakes
        corrected.append(read_by_others)
    in_release = (complete(breach) for breach in release_breaches(numbered, catalog))
    with_lock = [*corrected, lock] if lock else corrected
    tree = Tree(corrected, texts.keys())
    together = judge_together(with_lock, catalog.targets, today, files=texts.keys(), suite=suite, tree=tree)
    return Checked(
        files=len(texts),
        kinds=Counter(manifest.kind for manifest in numbered),
        findings=_place_by_file((*alone, *in_release, *filter(_is_certain, together)), texts.__getitem__),
        waiving=[manifest for manifest in numbered if waivers_of(manifest)],
    )


def number_documents(manifests: Iterable[Manifest]) -> Iterator[Manifest]:
    """Yield each manifest with the number of its document in its file."""
    numbers: Counter[str] = Counter()
    for manifest in manifests:
        yield replace(manifest, index=numbers[manifest.file])
        numbers[manifest.file] += 1


def check_text(
    text: bytes, file: str, engine: Engine, suite: Suite = OURS, values: Mapping[str, str] | None = None
) -> Checked:
    """Check each object of one YAML text. The result has a finding for each part that cannot be parsed.

    Args:
        text: the YAML text.
        file: its file.
        engine: the schemas of the target versions.
        suite: the checks of the run.
        values: variable → its value in place of `${VARIABLE}`; None without known values.
    """
    kinds: Counter[str] = Counter()
    related: list[Manifest] = []
    waiving: list[Manifest] = []
    findings: list[Finding] = []
    breaches: list[Located] = []
    try:
        for manifest in read(text, file):
            kinds[manifest.kind] += 1
            if waivers_of(manifest):
                waiving.append(manifest)
            mistakes, read_by_others = _judge_filled(manifest, engine, suite, (values or {}) if MARK in text else None)
            breaches += mistakes
            related.append(read_by_others)
    except DocumentError as error:
        findings += unreadable(*error.problems).findings
    return Checked(1, kinds, [*findings, *place_findings(breaches, text)], related, waiving)


def _judge_filled(
    manifest: Manifest, engine: Engine, suite: Suite, values: Mapping[str, str] | None
) -> tuple[list[Located], Manifest]:
    """Return the breaches of the rules that read a single object, and the object as the other rules read it.

    Args:
        manifest: the object.
        engine: the schemas of the target versions.
        suite: the checks of the run.
        values: variable → its value in place of `${VARIABLE}`; None if the file has no placeholder.
    """
    filled, unknown = (manifest, []) if values is None else fill(manifest, engine, values)
    mistakes = list(judge_alone(filled, engine, suite))
    corrected = correct(filled, engine) if mistakes else filled
    if unknown:
        mistakes = [item for item in mistakes if not depends_on(item[1], unknown)]
        if filled.is_partial:
            mistakes = [item for item in mistakes if item[1].check.startswith("schema/")]
        mistakes.append(complete(note(manifest, unknown), manifest))
    return mistakes, corrected


def is_read_together(manifest: Manifest) -> bool:
    """Return True if `judge_together` gives the manifest to the rules of mpigen in `Objects.manifests`."""
    is_known = manifest.kind in _READ_TOGETHER or is_configuration(manifest) or is_namespace(manifest)
    return is_known or is_fabric_object(manifest) or is_isolation_object(manifest)


def check_together(  # noqa: PLR0913 - one argument for each fact about the files
    manifests: Sequence[Manifest],
    targets: Mapping[str, str],
    text_of: Callable[[str], bytes],
    today: dt.date | None = None,
    *,
    files: Collection[str] | None = None,
    suite: Suite = OURS,
    tree: Tree | None = None,
) -> list[Finding]:
    """Check the objects of one release, or of no release, by the rules that read several objects.

    Args:
        manifests: the objects in `Checked.related`.
        targets: component → minor version.
        text_of: returns the text of a file. Called only for files with breaches.
        today: the day of the check; without it no rule depends on the day.
        files: the files of a release, if these are all its objects; else None.
        suite: the checks of the run.
        tree: the files of the run; None if they are unknown.

    Raises:
        InputError: from `text_of`.
    """
    findings = []
    located = judge_together(manifests, targets, today, files=files, suite=suite, tree=tree)
    everything = filter(_is_certain, located)
    for file, breaches in _by_file(everything).items():
        text = text_of(file)
        bodies = {}
        with suppress(DocumentError):  # keep the documents before the error
            bodies = {(item.index, item.inside): item.body for item in read(text, file)}
        if all(bodies.get((item.index, item.inside)) == (item.written or item.body) for item, _ in breaches):
            findings += place_findings(breaches, text)
        else:
            problem = Problem("the file changed during the check", "run the check again", file)
            findings += unreadable(problem).findings
    return findings


def _is_certain(located: Located) -> bool:
    """Return False for a breach that depends on the value of a placeholder."""
    manifest, breach = located
    return not (manifest.is_partial or names_placeholder(breach.message))


def judge_together(  # noqa: PLR0913 - one argument for each fact about the files
    manifests: Sequence[Manifest],
    targets: Mapping[str, str],
    today: dt.date | None = None,
    *,
    files: Collection[str] | None = None,
    suite: Suite = OURS,
    left_out: Collection[str] = (),
    tree: Tree | None = None,
) -> Iterator[Located]:
    """Yield the breaches of the rules that read several objects.

    An object that is in no file may exist in the cluster. So most rules report its absence only as a warning, except in
    a complete release.

    Args:
        manifests: the manifests of one release, or of no release, in any order. Kinds that no rule reads may be absent.
        targets: component → minor version.
        today: the day of the check; without it no rule depends on the day.
        files: the files of a release, if these are all its manifests, or `()` if the manifests come from no files.
            None if other files may have further manifests.
        suite: the checks of the run. The user's own checks read all manifests, of any kind.
        left_out: the ids of rules that do not run.
        tree: the files of the run; None if they are unknown, so that no rule compares a path with the files.
    """
    ordered = sorted(manifests, key=lambda manifest: (manifest.file, manifest.index))
    everything = Objects(tuple(ordered), targets, today, files is not None, files=files or (), tree=tree)
    near: list[Manifest] = []
    others: list[Manifest] = []
    for manifest in ordered:
        if is_read_together(manifest):
            near.append(manifest)
        elif is_in_graph(manifest) or is_wiring(manifest):
            others.append(manifest)
    ours, causes = replace(everything, manifests=tuple(near), others=tuple(others)), list[Located]()
    for check in suite.at(Stage.TOGETHER, targets):
        objects = everything if check in suite.own or check.needs in _OF_ALL_KINDS else ours
        if check.id in left_out:
            continue
        subject = objects if check.needs is Objects else objects.view(check.needs.read)
        if subject is not None and (objects.manifests or objects.others):
            breaches = suite.run(check, subject)
            causes += breaches if check.id in CAUSES.values() else ()
            yield from breaches
    if COMPILED not in left_out:
        yield from without_explained(_judge_jobs(ours), causes)


def _judge_jobs(objects: Objects) -> Iterator[Located]:
    """Yield the reasons why controllers reject the TrainJobs whose runtime is in the files, or what they become."""
    for job in objects.of(GROUP, "TrainJob"):
        if runtime := runtime_of(job, objects):
            yield from judge_request(job, runtime, objects.targets)
    for compiled in objects.view(CompiledJob.read):
        yield from judge_compiled(compiled.compiled, objects.targets)


def compare(
    old: Sequence[Manifest],
    new: Sequence[Manifest],
    targets: Mapping[str, str],
    text_of: Callable[[str], str | bytes],
    judge: Judge | None = None,
    today: dt.date | None = None,
) -> list[Finding]:
    """Return the findings of an update that replaces an old output tree by a new one.

    Args:
        old: all manifests of the old tree, each with the number of its document in its file.
        new: all manifests of the new tree, each with the number of its document in its file.
        targets: component → minor version.
        text_of: returns the text of a file of either tree. Called only for files with breaches.
        judge: returns the breaches of the update. Default: `judge_update`.
        today: the day of the check; without it no rule depends on the day.

    Raises:
        InputError: from `text_of`.
    """
    return _place_by_file((judge or judge_update)(Change.of_trees(old, new, targets, today)), text_of)


Judge = Callable[[Change], Iterable[Located]]
"""A function that returns the breaches of an update."""


def judge_change(
    old: Sequence[Manifest], new: Sequence[Manifest], targets: Mapping[str, str], suite: Suite = OURS
) -> Iterator[Located]:
    """Yield the breaches of the rules that compare an old output tree with a new one.

    Each breach is about a manifest of `new`, or about a manifest of `old` that `new` does not have.
    """
    yield from judge_update(Change(old, new, targets), suite)


def judge_update(change: Change, suite: Suite = OURS, only: Severity | None = None) -> Iterator[Located]:
    """Yield the breaches of the rules that compare two trees; see `judge_change`.

    Args:
        change: the manifests before and after the update.
        suite: the checks of the run.
        only: the severity of the rules to run; None for all rules.
    """
    for check in suite.at(Stage.CHANGE, change.targets):
        if only not in (None, check.severity):
            continue
        for subject in check.needs.between(change):
            yield from suite.run(check, subject, getattr(subject, "manifest", None))


def _place_by_file(breaches: Iterable[Located], text_of: Callable[[str], str | bytes]) -> list[Finding]:
    return [finding for file, rows in _by_file(breaches).items() for finding in place_findings(rows, text_of(file))]


def _by_file(breaches: Iterable[Located]) -> Mapping[str, list[Located]]:
    by_file: dict[str, list[Located]] = {}
    for located in breaches:
        by_file.setdefault(located[0].file, []).append(located)
    return by_file


def unreadable(*problems: Problem) -> Checked:
    """Return the result for a file that cannot be read or parsed, with a finding for each problem of the file."""
    why = "mpigen does not check all objects of this file, so the file may contain any mistake"
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
    text="""Report a file that cannot be read, or whose text cannot be parsed.

    The text has, for example, a syntax error, a duplicate key, or an alias without an anchor. kubectl keeps the last of
    two equal keys silently, and kustomize rejects the file. mpigen checks the documents before the error. Or mpigen
    does not read the file: the file is a dangling link, a pipe, a socket or a device, you have no permission, or the
    file exceeds 10,000,000 bytes. The limit of standard input is 50,000,000 bytes.

    Source: sigs.k8s.io/yaml v1.6.0 yaml.go YAMLToJSON, which kubectl calls, does not reject duplicate keys
    """,
)
