"""The page of upstream defects, from generator/facts/defects.yaml."""

from __future__ import annotations

from collections.abc import Iterator

from generator.facts.defects import Defect, defects
from tests.upstream.citations import find_citations

_HEAD = """\
# Upstream defects

This page is for admins who look for the cause of a failing MPI job. It lists defects of Kubeflow Trainer, JobSet,
Kueue, Kubernetes and their operators. Each section describes the symptom, the affected versions, and what mpigen does
about the defect.

A check that reports only defects of this page runs only for versions that have one of its defects. A check that also
reports other mistakes runs for all versions. `cluster.versions` of the platform file, or `mpigen validate --target`,
sets the versions. A minor version such as `0.18` means the version
with which the tests of mpigen run, such as 0.18.3. The source of this page is `generator/facts/defects.yaml`.

| defect | fixed in |
| --- | --- |
"""


def defect_page() -> str:
    """Return the whole page."""
    rows = "".join(map(_row, defects().values()))
    return _HEAD + rows + "".join("\n" + "\n".join(_section(each)) + "\n" for each in defects().values())


def _row(defect: Defect) -> str:
    return f"| [{defect.id}](#{defect.id}) | {defect.update or 'no release'} |\n"


def _section(defect: Defect) -> Iterator[str]:
    yield f"## {defect.id}"
    yield ""
    yield f"{defect.title} {defect.symptom}"
    yield ""
    yield f"- Releases: {defect.releases}. Fixed in: {defect.update or 'no release so far'}."
    yield f"- mpigen: {defect.answer}"
    if defect.refuses:
        yield f"- Rejected: {', '.join(f'`{field}`' for field in defect.refuses)}"
    if defect.checks:
        yield f"- Checks: {', '.join(map(_check, defect.checks))}"
    if links := [each for each in dict.fromkeys((defect.report, defect.fix)) if each]:
        yield f"- Upstream: {', '.join(f'[{_number(each)}]({each})' for each in links)}"
    yield f"- Source: {', '.join(map(_source, defect.sources))}"
    shown = "by running the real controllers" if defect.verified == "controllers" else "by reading the source"
    yield f"- Verified: {shown}; tested by {', '.join(f'`{each}`' for each in defect.tests)}"


def _check(check: str) -> str:
    return f"[`{check}`](../checks/{check}.md)"


def _number(url: str) -> str:
    owner, name, _, number = url.removeprefix("https://github.com/").split("/")
    return f"{owner}/{name}#{number}"


def _source(text: str) -> str:
    (citation,) = find_citations(text, "generator/facts/defects.yaml")
    return f"[{text}]({citation.url})"
