"""The pages of the causes of failed jobs, from the tables in generator/facts/causes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from generator.checks.registry import checks
from generator.facts.causes.table import Cause, Rank, Signature, causes
from generator.report.diagnosis import places_of
from tests.upstream.citations import find_citations

_HEAD = """\
# Why a job failed

`mpigen diagnose` compares the logs and the messages of a job with the lines on these pages, and prints the cause. Each
cause has a page with its lines and the change that removes it. Search this site for a part of your error message, or
look in the stage at which your job stopped.

A line can show the cause itself, or only a consequence of another failure. The causes marked as consequences never win
over a cause: look for the process that failed first.
"""
_STAGES = {
    "pull": "Kubernetes pulls the image",
    "schedule": "Kueue, Trainer and the scheduler start pods",
    "attach": "The kubelet attaches networks, devices and volumes",
    "ssh": "The launcher reaches the hosts over ssh",
    "launch": "mpirun starts the ranks",
    "fabric": "The ranks connect over the network and shared memory",
    "train": "The program trains",
    "checkpoint": "The program saves and loads",
}
_RANKS = {
    Rank.ROOT: "",
    Rank.NOTE: "With this fault the job still runs, and is slower.",
    Rank.EFFECT: "This is a consequence: another process failed before. Look for its log.",
    Rank.GENERIC: "The program prints these lines for every failure of this stage. Look for the lines before them.",
}
_MARKS = {Rank.ROOT: "", Rank.NOTE: " (slower)", Rank.EFFECT: " (consequence)", Rank.GENERIC: " (any failure)"}


def cause_pages() -> dict[str, str]:
    """Return path below docs/ → text of each page."""
    pages = {f"troubleshooting/{cause.cause}.md": "\n".join(_page(cause)) + "\n" for cause in causes().values()}
    return {"troubleshooting/index.md": _HEAD + "".join(_stages()), **pages}


def _stages() -> Iterator[str]:
    for stage, members in groupby(causes().values(), key=lambda cause: cause.stage):
        yield f"\n## {_STAGES[stage]}\n\n"
        for cause in members:
            lines = ", ".join(f"`{signature.text.strip()}`" for signature in cause.signatures[:2])
            yield f"- [{cause.cause}]({cause.cause}.md){_MARKS[cause.rank]}: {lines}\n"


def _page(cause: Cause) -> Iterator[str]:
    yield from (f"# {cause.cause}", "", cause.meaning)
    if _RANKS[cause.rank]:
        yield from ("", _RANKS[cause.rank])
    yield from ("", "## What to do", "", f"{cause.action} Change {places_of(cause)}.")
    if cause.checks:
        known = {check.id: check for check in checks()}
        links = " and ".join(f"[`{name}`](../{known[name].page})" for name in cause.checks)
        yield from ("", f"{links} can report this fault before the job starts.")
    yield from ("", "## Lines", "")
    for signature in cause.signatures:
        yield from (f"`{signature.text.strip()}` of {signature.program} ({_source(signature)}):", "")
        yield from ("```text", *signature.sample.rstrip("\n").split("\n"), "```", "")
    yield f"The stage of this cause is `{cause.stage}`. [All causes](index.md)"


def _source(signature: Signature) -> str:
    citations = [*find_citations(signature.source, "generator/facts/causes")]
    if citations:
        return ", ".join(f"[{found.module} {found.version}]({found.url})" for found in citations)
    urls = [url for url in signature.source.split() if url.startswith("http")]
    return ", ".join(f"[source]({url})" for url in urls) or f"`{signature.source}`"
