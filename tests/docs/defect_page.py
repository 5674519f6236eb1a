"""The page of upstream defects, from generator/facts/defects.yaml."""

from __future__ import annotations

from collections.abc import Iterator

from generator.facts.defects import Defect, defects

_HEAD = """\
# Upstream defects

Which defects of Kubeflow Trainer, JobSet, Kueue, Kubernetes and their operators hit MPI jobs, and what mpigen does
about each. This page is written from `generator/facts/defects.yaml`.

A check or a refusal that exists only because of a defect applies only to releases that have it. `cluster.versions` of
the platform file, or `mpigen validate --target`, sets the releases. A minor version such as `0.18` stands for the
release that mpigen is tested with, such as 0.18.3.

| defect | releases | fixed in | answer |
| --- | --- | --- | --- |
"""


def defect_page() -> str:
    """Return the whole page."""
    rows = "".join(map(_row, defects().values()))
    return _HEAD + rows + "".join("\n" + "\n".join(_section(each)) + "\n" for each in defects().values())


def _row(defect: Defect) -> str:
    answers = [*map(_check, defect.checks), *(f"`{field}` is refused" for field in defect.refuses)]
    title = defect.title.removesuffix(".")
    fixed = defect.update or "no release"
    return f"| [{title}](#{defect.id}) | {defect.releases} | {fixed} | {', '.join(answers)} |\n"


def _section(defect: Defect) -> Iterator[str]:
    yield f"## {defect.id}"
    yield ""
    yield f"{defect.title} {defect.symptom}"
    yield ""
    yield f"- Releases: {defect.releases}. Fixed in: {defect.update or 'no release so far'}."
    yield f"- mpigen: {defect.answer}"
    if defect.checks:
        yield f"- Checks: {', '.join(map(_check, defect.checks))}"
    if links := [each for each in dict.fromkeys((defect.report, defect.fix)) if each]:
        yield f"- Upstream: {', '.join(f'[{_number(each)}]({each})' for each in links)}"
    yield f"- Source: {', '.join(f'[{_file(each)}]({each})' for each in defect.sources)}"
    shown = "the real controllers show it" if defect.is_run else "read in the source"
    yield f"- Verified: {shown}; held by {', '.join(f'`{each}`' for each in defect.tests)}"


def _check(check: str) -> str:
    return f"[`{check}`](../checks.md#{check.replace('/', '')})"


def _number(url: str) -> str:
    owner, name, _, number = url.removeprefix("https://github.com/").split("/")
    return f"{owner}/{name}#{number}"


def _file(url: str) -> str:
    _, name, _, version, path = url.removeprefix("https://github.com/").split("/", 4)
    return f"{name} {version[:12]} {path}"
