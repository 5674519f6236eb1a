"""`mpigen policy`: test admission policies without a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from generator.cli.findings import FindingOptions, findings_options, text_reader
from generator.cli.inputs import environment_option, kustomize_option, target_option
from generator.cli.output import counted, progress, table_width
from generator.errors import OutputError, Problem
from generator.report import table

if TYPE_CHECKING:
    from generator.manifests import Manifest
    from generator.schemas.catalog import Catalog
    from generator.upstream.kubernetes.admission_policies.cases import Case, Outcome, Rule

_CASES = ("other",)
"""The reason for which mpigen skips a file of cases among the manifests: the file has no objects of an API."""
_RULES = ("RULE", "REJECTS", "ACCEPTS", "SUCH AS")


@click.group(epilog="Example: mpigen policy test output/prod --cases cases.yaml")
def policy() -> None:
    """Test admission policies (ValidatingAdmissionPolicy) without a cluster."""


@policy.command(
    "test",
    epilog="""
    \b
    Example:
      mpigen policy test output/prod --cases cases.yaml
      mpigen policy test policies/                 # with the cases in the same folder

    \b
    A file of cases:
      as: {user: ada, groups: [cv]}
      namespace: team-cv
      bases:
        job: {file: job.yaml}
      cases:
        - name: a job without a queue
          create: {base: job, set: {'metadata.labels["kueue.x-k8s.io/queue-name"]': null}}
          expect: {rejected: mpigen-queue, message: queue}
        - name: Kueue admits the job
          update: {from: {base: job}, set: {spec.suspend: false}}
          expect: accepted
    """,
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--cases",
    "case_files",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, path_type=Path),
    help="A file or a folder with test cases. May be repeated. Default: the case files in PATHS.",
)
@target_option
@kustomize_option
@environment_option
@findings_options
def test(
    paths: tuple[Path, ...],
    case_files: tuple[Path, ...],
    *,
    targets: dict[str, str],
    renders: bool,
    options: FindingOptions,
) -> int:
    """Run test cases against the admission policies in PATHS.

    PATHS is a platform file, or YAML files and folders with policies, bindings, parameters and
    Namespaces. A test case has a user, a request and the expected decision. mpigen reports each case
    whose decision differs, and each rule that rejects no case. mpigen also runs its own cases for the
    policies that it generates.

    mpigen decides like the API server: by the match conditions, bindings and parameters, with Google's CEL.
    """
    from generator.adoption.adoption import Run
    from generator.checks.policy import failures, untested
    from generator.cli.inputs import read_manifests
    from generator.config.release_cases import own_cases
    from generator.upstream.kubernetes.admission_policies.cases import compute_coverage
    from generator.upstream.kubernetes.admission_policies.policy import PolicyCluster

    adoption, read_text = options.load(), text_reader()
    with progress("judging"):
        objects, catalog = read_manifests(paths, renders=renders, unreported=_CASES), _catalog(paths, targets)
        ours = own_cases(objects)
        outcomes = _outcomes(objects, [*ours, *_cases(case_files or _of_manifests(paths), needed=not ours)], catalog)
        rules = compute_coverage(PolicyCluster(objects, catalog), outcomes)
        findings = [*failures(outcomes), *untested(rules, lambda file: read_text(file).encode())]
    outcome = adoption.apply(findings, Run(text_of=read_text))
    lines = _rule_lines(outcomes, rules, table_width())
    return options.show(adoption, outcome, _case_facts(outcomes, rules), lines, read_text)


def _cases(paths: Iterable[Path], *, needed: bool) -> list[Case]:
    from generator.checks.files import manifest_files
    from generator.config.policy_cases import is_case_file, load_cases
    from generator.documents.files import read_file

    named = {*paths}
    search = manifest_files(sorted(named))
    if search.refused:
        raise OutputError(search.refused)
    read = ((file, read_file(file)) for file in search.files)
    texts = [(file, text) for file, text in read if file in named or b"cases" in text]
    objects = [case for file, text in texts if is_case_file(file, text) for case in load_cases(file, text)]
    if needed and not objects:
        names = ", ".join(map(str, sorted(named)))
        raise OutputError((Problem(f"no test cases in {names}", "name a file with test cases: --cases FILE"),))
    return objects


def _of_manifests(paths: Iterable[Path]) -> list[Path]:
    """Return the paths of YAML and JSON files, without standard input and platforms in Python."""
    return [path for path in paths if path.suffix != ".py" and path != Path("-")]


def _catalog(paths: Sequence[Path], targets: dict[str, str]) -> Catalog:
    """Return the schemas for `--target`, else for the targets of the releases if all have the same, else the newest."""
    from generator.checks.files import by_release, manifest_files
    from generator.schemas.catalog import Catalog

    files = manifest_files(_of_manifests(paths)).files
    made_for = {origin.targets for origin in by_release(files) if origin.targets}
    return Catalog.bundled(targets or (dict(made_for.pop()) if len(made_for) == 1 else {}))


def _outcomes(objects: Sequence[Manifest], cases: Sequence[Case], catalog: Catalog) -> list[Outcome]:
    """Return the outcome of every case. The `given` objects of a case file exist only for the cases of this file."""
    from itertools import groupby

    from generator.upstream.kubernetes.admission_policies.cases import run_case
    from generator.upstream.kubernetes.admission_policies.policy import PolicyCluster

    outcomes = []
    for given, together in groupby(cases, key=lambda case: case.given):
        world = PolicyCluster([*objects, *given], catalog)
        outcomes += [run_case(case, world) for case in together]
    return outcomes


def _case_facts(outcomes: Sequence[Outcome], rules: Sequence[Rule]) -> dict[str, Any]:
    """Return `cases` with their decisions, and `rules` with the names of the cases that each rejects or accepts."""
    return {
        "cases": [
            {
                "name": outcome.case.name,
                "file": outcome.case.file,
                "line": outcome.case.line,
                "passed": not outcome.complaint,
                "decisions": [asdict(decision) for decision in outcome.decisions],
            }
            for outcome in outcomes
        ],
        "rules": [
            {
                "rule": rule.name,
                "policy": rule.policy.name,
                "number": rule.number,
                "rejects": [case.name for case in rule.rejecting],
                "accepts": [case.name for case in rule.accepting],
            }
            for rule in rules
        ],
    }


def _rule_rows(rules: Sequence[Rule]) -> Iterator[tuple[str, ...]]:
    """Yield for each rule its name, how many cases it rejects and accepts, and the name of the first rejected case."""
    for rule in rules:
        example = rule.rejecting[0].name if rule.rejecting else ""
        yield rule.name, str(len(rule.rejecting)), str(len(rule.accepting)), example


def _rule_lines(outcomes: Sequence[Outcome], rules: Sequence[Rule], width: int | None = None) -> Iterator[str]:
    """Yield the table of rules with their numbers of cases, and a line with the totals."""
    yield from table.table(_RULES, _rule_rows(rules), width)
    yield _totals(outcomes, rules)


def _totals(outcomes: Sequence[Outcome], rules: Sequence[Rule]) -> str:
    """Return the totals: `150 cases, 12 rules`."""
    failed = sum(1 for outcome in outcomes if outcome.complaint)
    end = f", {failed} failed" if failed else ""
    return f"{counted(len(outcomes), 'case')}, {counted(len(rules), 'rule')}{end}"
