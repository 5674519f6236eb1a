"""`mpigen audit`: the existing objects of a cluster that its admission policies would reject today."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from generator.cli.findings import FindingOptions, findings_options, text_reader
from generator.cli.inputs import environment_option, kustomize_option, read_cluster, read_export_texts, target_option
from generator.cli.output import counted, progress, table_width
from generator.report import table
from generator.report.result import POLICY_REPORT

if TYPE_CHECKING:
    from generator.checks.existing.verdicts import Audit

_COLUMNS = ("RULE", "ACCEPTED", "REJECTED", "UNKNOWN")
_CREATORS = {"controller": "controllers", "platform": "Kubernetes or the release"}


@click.command(
    epilog="""
    \b
    Example:
      kubectl get ns,trainjobs,workloads,jobsets,jobs,pods,pvc,rolebindings -A -o yaml > cluster.yaml
      mpigen audit cluster.yaml --release output/prod
      mpigen audit cluster.yaml --release output/prod --format policyreport | kubectl apply -f -
    """,
)
@click.argument("files", nargs=-1, metavar="[EXPORT]...", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--release",
    "releases",
    multiple=True,
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="The release with the policies: a platform file, or YAML files and folders such as output/prod. May be "
    "repeated. Default: the policies and bindings in EXPORT.",
)
@target_option
@kustomize_option
@environment_option
@partial(
    findings_options,
    formats=(POLICY_REPORT,),
    help_of_formats="; policyreport prints PolicyReport objects for dashboards of the cluster",
)
def audit(
    files: tuple[Path, ...],
    releases: tuple[Path, ...],
    *,
    targets: dict[str, str],
    renders: bool,
    options: FindingOptions,
) -> int:
    """Report existing objects in EXPORT that the admission policies would reject today.

    EXPORT is the output of `kubectl get … -A -o yaml` (or json): files, folders, or - for standard input, which
    is the default. The API server evaluates policies only for requests, so objects from before a policy stay.

    mpigen judges each object as the request of a member of the team to create it, with the Namespaces of the
    export. It leaves out what controllers wrote later. Objects of controllers, of Kubernetes and of the release
    itself are exempt from policies about users. It also compares pods with the Pod Security level of the Namespace.

    Unknown: rules that depend on the user or the permissions of the user, because an object does not show its creator.
    Not checked: rules about updates and deletions, quotas, SCCs.
    """
    from generator import pipeline
    from generator.adoption.adoption import Run
    from generator.report.policy_report import build_reports

    adoption, read_text = options.load(), text_reader()
    with progress("judging"):
        texts = dict(read_export_texts(files, "audit"))
        cluster = read_cluster(releases, renders=renders) if releases else None
        release, made_for = (cluster.manifests, cluster.targets) if cluster else ([], {})
        done = pipeline.audit(texts, release, {**made_for, **targets})

    def text_of(file: str) -> str:
        return texts[file].decode(errors="replace") if file in texts else read_text(file)

    outcome = adoption.apply(done.findings, Run(text_of=text_of))
    accepted: dict[str, list[str]] = {}
    for finding in {*done.findings} - {*outcome.findings}:
        accepted.setdefault(finding.resource, []).append(finding.message)
    reports = build_reports(done.audit.verdicts, accepted) if options.form == POLICY_REPORT else ()
    return options.show(adoption, outcome, _summary(done.audit), _lines(done.audit), text_of, reports)


def _count(audit: Audit) -> dict[str, dict[str, int]]:
    """Return rule → result → the number of objects, sorted by rule."""
    counts: dict[str, dict[str, int]] = {}
    for verdict in audit.verdicts:
        row = counts.setdefault(verdict.rule if verdict.policy != "PodSecurity" else f"PodSecurity {verdict.rule}", {})
        row[verdict.answer.value] = row.get(verdict.answer.value, 0) + 1
    return dict(sorted(counts.items()))


def _summary(audit: Audit) -> dict[str, Any]:
    return {
        "objects": audit.objects,
        "policies": audit.policies,
        "judged": audit.judged,
        "exempt": {creator.value: number for creator, number in sorted(audit.exempt.items())},
        "outside": audit.outside,
        "unjudged": [{"reason": item.reason, "objects": list(item.resources)} for item in audit.unjudged],
        "notes": audit.notes,
        "rules": [{"rule": rule, **results} for rule, results in _count(audit).items()],
    }


def _lines(audit: Audit) -> Iterator[str]:
    """Yield the table of the rules with a rejected or unknown object, the totals, and the limits of the result."""
    rows = [
        (rule, str(accepted), str(rejected), str(unknown))
        for rule, results in _count(audit).items()
        for accepted, rejected, unknown in [_sums(results)]
        if rejected or unknown
    ]
    if rows:
        yield from table.table(_COLUMNS, rows, table_width())
    policies = "1 policy" if audit.policies == 1 else f"{audit.policies} policies"
    yield f"{counted(audit.objects, 'object')}, {policies} with a binding"
    yield f"  {audit.judged} judged as new objects of a member of the team"
    if audit.exempt:
        parts = [f"{number} of {_CREATORS[creator.value]}" for creator, number in sorted(audit.exempt.items())]
        yield f"  {sum(audit.exempt.values())} exempt, because the policies are about users: {', '.join(parts)}"
    if audit.outside:
        yield f"  {audit.outside} outside all policies: no binding selects their Namespace, kind and labels"
    for item in audit.unjudged:
        yield f"  {len(item.resources)} not judged, such as {item.resources[0]}: {item.reason}"
    if not (audit.judged or audit.exempt):
        yield "note: no policy applies to any object, so this result does not show that the cluster obeys the policies"
    yield from (f"note: {note}" for note in audit.notes)


def _sums(results: Mapping[str, int]) -> tuple[int, int, int]:
    """Return the numbers of objects that a rule accepts and rejects, and for which its result is unknown."""
    accepted, rejected = results.get("pass", 0), results.get("fail", 0) + results.get("warn", 0)
    return accepted, rejected, results.get("skip", 0) + results.get("error", 0)
