"""The fixtures of the checks: `<family>/<rule>/cases.yaml` has the cases of a rule, `<family>/expected.txt` the words.

A case is a sound base, a change that breaks one rule (`bad`), and perhaps a change that only looks alike (`good`).
The page of the check shows the case with a sentence `shows`, and below the sentence `instead` the way from `bad` to
`good`. If that way is long, or not what the finding advises, `fixed` is a shorter change of the bad manifests.
Without `good` the base itself has to pass. A base can be a list of files, which are read as one. For the family
`change`, the base is the old tree.
`python -m tests.checks` records the words again. Read the diff as the user would: place, message, reason, advice.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from generator.checks.alone import OURS
from generator.checks.finding import Finding
from generator.checks.run import check_rendered, check_text, check_together, compare
from generator.effects.findings import judge_with_effects
from generator.manifests import read
from generator.report.text import plain
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine

FOLDER = Path(__file__).parent
_OLD = "old.yaml"
_OF_PLAN = "change/queue-effect"


@dataclass(frozen=True, slots=True)
class Case:
    """A bad manifest, and perhaps a similar good one, for one check.

    Attributes:
        check: the id of the rule.
        name: the name of the case, unique in the family.
        base: the sound manifests.
        bad: the manifests that break the rule.
        good: the manifests that only look alike.
        fixed: the bad manifests after the repair that the page shows: `good`, unless the case has a smaller repair.
        shows: the sentence above the example, if the page of the check shows this case.
        instead: the sentence above the repair on that page.
        targets: component → minor version.
        today: the day of the check, if the rule depends on it.
        also: the ids of other checks that report the bad manifests too.
        files: `bad` and `good` → the name of the file in findings, if the check depends on it.
    """

    check: str
    name: str
    base: str
    bad: str
    good: str
    fixed: str
    shows: str
    instead: str
    targets: Mapping[str, str]
    today: dt.date | None
    also: frozenset[str]
    files: Mapping[str, str]

    @property
    def id(self) -> str:
        """Return the family and the name."""
        return f"{self.family}/{self.name}"

    @property
    def file(self) -> str:
        """Return the name of the file in findings."""
        return f"{self.name}.yaml"

    @property
    def family(self) -> str:
        """Return the family of the check."""
        return self.check.partition("/")[0]

    def find(self, text: str) -> list[Finding]:
        """Return the findings in a text, from the engine that reports the check."""
        file = self.files.get("bad" if text == self.bad else "good", self.file)
        if self.family == "change":
            return find_changes(text, self.base, self.targets, file, self.today, is_whole=self.check == _OF_PLAN)
        engine = ENGINES.get(self.check) or ENGINES.get(self.family)
        if engine is None:
            return find(text, file, self.targets, self.today)
        with TemporaryDirectory() as folder, chdir(folder):
            return sorted(engine(self, text, Path(file)))

    def describe(self, text: str) -> str:
        """Return the findings as the user reads them."""
        return describe(self.find(text))


def find(text: str, file: str, targets: Mapping[str, str] | None = None, today: dt.date | None = None) -> list[Finding]:
    """Return the findings of all checks in a text."""
    raw, engine = text.encode(), _engine(tuple((targets or {}).items()))
    checked = check_text(raw, file, engine)
    together = check_together(checked.related, engine.targets, lambda _: raw, today)
    return checked.with_findings(together).in_order()


def find_changes(
    new: str,
    old: str,
    targets: Mapping[str, str] | None = None,
    file: str = "new.yaml",
    today: dt.date | None = None,
    *,
    is_whole: bool = False,
) -> list[Finding]:
    """Return the findings of applying one tree over another; if `is_whole`, also of effects that a plan shows."""
    texts = {_OLD: old, file: new}
    before, after = (list(read(text, name)) for name, text in texts.items())
    judge = partial(judge_with_effects, suite=OURS) if is_whole else None
    return sorted(compare(before, after, targets or {}, texts.__getitem__, judge, today))


def _find_in_release(_: Case, text: str, file: Path) -> Iterable[Finding]:
    """Return the findings of a release that consists of one file."""
    return check_rendered(read(text, str(file)), {str(file): text}, Catalog.bundled()).findings


def _find_in_folder(_: Case, text: str, __: Path) -> Iterable[Finding]:
    """Return the findings of a release. Each document starts with a comment, the name of its file."""
    texts: dict[str, str] = {}
    line = 0
    for document in text.split("---\n"):
        name = document.partition("\n")[0].removeprefix("# ")
        texts[name] = "\n" * line + document
        line += document.count("\n") + 1
    manifests = [manifest for name, part in texts.items() for manifest in read(part, name)]
    return check_rendered(manifests, texts, Catalog.bundled()).findings


def _find_with_waivers(case: Case, text: str, file: Path) -> Iterable[Finding]:
    """Return the findings that are left after the waivers in the text."""
    from generator.adoption.adoption import Adoption, Run

    checked = check_text(text.encode(), str(file), _engine(()))
    run = Run(checked.waiving, [str(file)], text_of=lambda _: text)
    return Adoption(today=case.today).apply(checked.findings, run).findings


def _find_by_kubeconform(_: Case, text: str, file: Path) -> Iterable[Finding]:
    """Return the findings of the real kubeconform, without the folder of the schemas in its messages."""
    from generator.pipeline import Subject, validate
    from generator.schemas.kubeconform import cache_folder

    file.write_text(text, "utf-8")
    checked = validate(Subject([file]), "kubeconform", cache_folder(os.environ, Path.home())).checked
    schemas = f"{FOLDER.parent.parent}/"
    return [replace(finding, message=finding.message.replace(schemas, "")) for finding in checked.findings]


def _find_by_kustomize(_: Case, text: str, file: Path) -> Iterable[Finding]:
    """Return the kustomizations in a folder that cannot be rendered."""
    from generator.checks.files import manifest_files
    from generator.checks.sources import find_sources

    file.write_text(text, "utf-8")
    return find_sources(manifest_files([Path()]), renders=True).findings


def _find_in_altered_release(_: Case, text: str, __: Path) -> Iterable[Finding]:
    """Return the findings of a release. Each document starts with a comment, the name of its file."""
    from generator.checks.altered import find_whole_releases, report_altered
    from generator.release import verify

    root = Path("prod")
    for document in text.split("---\n"):
        name, content = document.removeprefix("# ").split("\n", 1)
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, "utf-8")
    (folder,) = find_whole_releases([root], sorted(root.rglob("*.yaml")))
    return report_altered(verify(folder))


def _find_in_platform(case: Case, text: str, file: Path) -> Iterable[Finding]:
    """Return the hazards of a platform file."""
    from generator.config.load import load_platform
    from generator.config.python_file import run_platform_file
    from generator.hazards.find import find_hazards

    file.write_text(text, "utf-8")
    platform = run_platform_file(file)["platform"] if file.suffix == ".py" else load_platform(file)
    return find_hazards(platform, file, today=case.today)


def _find_in_patched_release(_: Case, text: str, file: Path) -> Iterable[Finding]:
    """Return the findings of a platform file whose patches change its release."""
    from generator.pipeline import Choices, synth

    file.write_text(text, "utf-8")
    return synth(file, Path("output"), Choices()).outcome.findings


def _find_by_policy_cases(_: Case, text: str, file: Path) -> Iterable[Finding]:
    """Return the findings of policies and their cases. The last document of the text has the cases."""
    from generator.checks.policy import failures, untested
    from generator.config.policy_cases import load_cases
    from generator.upstream.kubernetes.admission_policies.cases import compute_coverage, run_case
    from generator.upstream.kubernetes.admission_policies.policy import PolicyCluster

    policies, cases = text.rsplit("---\n", 1)
    world = PolicyCluster(list(read(policies, str(file))), Catalog.bundled())
    outcomes = [run_case(case, world) for case in load_cases(Path("cases.yaml"), cases.encode())]
    return [*failures(outcomes), *untested(compute_coverage(world, outcomes), lambda _: policies.encode())]


def _find_drift(_: Case, text: str, file: Path) -> Iterable[Finding]:
    """Return the differences of a cluster from a release. The last document of the text is the export."""
    from generator.pipeline import drift

    released, export = text.rsplit("---\n", 1)
    return drift({"live.yaml": export.encode()}, list(read(released, str(file))), {}, lambda _: released).findings


def _find_by_expectations(_: Case, text: str, file: Path) -> Iterable[Finding]:
    """Return the findings of expected answers. The last document of the text has the expectations."""
    from generator.checks.expectations import find_false
    from generator.config.expectations import find_places, load_expectations
    from generator.questions.expectations import World

    objects, expected = text.rsplit("---\n", 1)
    rows = load_expectations(Path("expect.yaml"), expected.encode())
    world = World(read(objects, str(file)), {})
    places = find_places(Path("expect.yaml"), expected.encode(), rows)
    return [*find_false((answered for row in rows for answered in world.answer(row)), "expect.yaml", places)]


def _find_after_submission(case: Case, text: str, file: Path) -> Iterable[Finding]:
    """Return the findings of TrainJobs that the user `ada` submits to the cluster of the other objects in the text."""
    from generator.checks.submission import Destination
    from generator.pipeline import check_jobs
    from generator.upstream.kubernetes.access import parse_requester

    jobs: list[str] = []
    world: list[str] = []
    for document in text.split("---\n"):
        (jobs if "\nkind: TrainJob\n" in document else world).append(document)
    others = list(read("---\n".join(world), "cluster.yaml"))
    done = check_jobs(
        {str(file): "---\n".join(jobs).encode()}, Destination(others, case.targets, parse_requester("user:ada"))
    )
    return [finding for finding in done.findings if finding.check == case.check or finding.severity == "error"]


def _find_in_export(_: Case, text: str, file: Path) -> Iterable[Finding]:
    """Return the findings of existing objects. The text is the export of a cluster, with its policies."""
    from generator.pipeline import audit

    return audit({str(file): text.encode()}, [], {}).findings


ENGINES: Mapping[str, Callable[[Case, str, Path], Iterable[Finding]]] = {
    "access/scheduled-job": _find_in_release,
    "audit": _find_in_export,
    "drift": _find_drift,
    "expect": _find_by_expectations,
    "gitops": _find_in_folder,
    "kubeconform": _find_by_kubeconform,
    "network": _find_in_release,
    "object": _find_in_release,
    "platform": _find_in_platform,
    "platform/weakened-protection": _find_in_patched_release,
    "policy/case": _find_by_policy_cases,
    "policy/untested": _find_by_policy_cases,
    **{
        f"trainjob/{rule}": _find_after_submission
        for rule in ("denied", "forbidden", "not-admitted", "rejected", "unknown")
    },
    "reference/path": _find_in_folder,
    "release/altered": _find_in_altered_release,
    "waiver": _find_with_waivers,
    "yaml/not-rendered": _find_by_kustomize,
}
"""Check or family → engine of the checks that `find` does not run."""


def describe(findings: Iterable[Finding]) -> str:
    """Return findings as the user reads them."""
    return "".join(f"{plain(finding)}\n" for finding in findings)


@cache
def _engine(targets: tuple[tuple[str, str], ...]) -> Engine:
    return Engine(Catalog.bundled(dict(targets)))


def patch(text: str, changes: str, case: str) -> str:
    """Apply a diff without line numbers: ` ` keeps a line, `-` removes it, `+` adds one, `@@` starts another place."""
    places = []
    for hunk in changes.split("@@\n"):
        lines = [(line[:1], line[1:] + "\n") for line in hunk.splitlines()]
        before = "".join(line for sign, line in lines if sign != "+")
        if f"\n{text}".count(f"\n{before}") != 1:
            raise AssertionError(f"{case}: not exactly once in the base:\n{before}")
        start = f"\n{text}".index(f"\n{before}")
        places.append((start, start + len(before), "".join(line for sign, line in lines if sign != "-")))
    for start, end, after in sorted(places, reverse=True):
        text = text[:start] + after + text[end:]
    return text


def _read(file: Path) -> Iterator[Case]:
    content: dict[str, Any] = yaml.safe_load(file.read_text("utf-8"))
    check = "/".join(file.parent.relative_to(FOLDER).parts)
    for name, row in content["cases"].items():
        files = row.get("base", content.get("base", "base.yaml"))
        texts = ((file.parent / name).read_text("utf-8") for name in ([files] if isinstance(files, str) else files))
        base = "---\n".join(texts)
        bad, good = (patch(base, row[side], name) if row.get(side) else base for side in ("bad", "good"))
        yield Case(
            check=check,
            name=name,
            base=base,
            bad=bad,
            good=good,
            fixed=patch(bad, row["fixed"], name) if row.get("fixed") else good,
            shows=row.get("shows", ""),
            instead=row.get("instead", ""),
            targets=row.get("targets", content.get("targets", {})),
            today=row.get("today"),
            also=frozenset(row.get("also", ())),
            files=row.get("files", {}),
        )


CASES: Mapping[str, Case] = {case.id: case for file in sorted(FOLDER.glob("*/*/cases.yaml")) for case in _read(file)}
"""Family and name → case."""
EXAMPLES: Mapping[str, Case] = {case.check: case for case in CASES.values() if case.shows}
"""Check → the case that its page shows."""
TREE = (FOLDER / "change/tree.yaml").read_text("utf-8")
"""The old tree of all changes."""
CHANGES: Mapping[str, Case] = {case.name: case for case in CASES.values() if case.family == "change"}
FAMILIES: Sequence[str] = sorted({case.family for case in CASES.values()})


def expected(family: str) -> Mapping[str, str]:
    """Return the reviewed words of a family: case → findings."""
    parts = (FOLDER / family / "expected.txt").read_text("utf-8").split("### ")[1:]
    return dict(part.split("\n", 1) for part in parts)


def record(family: str) -> None:
    """Write the words of a family."""
    cases = sorted((case for case in CASES.values() if case.family == family), key=lambda each: each.id)
    words = "".join(f"### {case.id}\n{case.describe(case.bad)}" for case in cases)
    (FOLDER / family / "expected.txt").write_text(words, "utf-8")
