"""Verdicts side by side: what the API server said, as recorded, against mpigen, and which differences are reviewed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import yaml

from tests.cluster.differential.cases import FOLDER, Body, Case
from tests.cluster.differential.judges import Answer, Mpigen

REVIEWED = FOLDER / "reviewed.yaml"
_DEFAULT = "default"


class Verdict(StrEnum):
    """A verdict on a case; the middle one is a rejection of server-side apply alone, or a warning of mpigen."""

    ACCEPTS = "accepts"
    WARNS = "warns"
    REFUSES = "refuses"


@dataclass(frozen=True, slots=True)
class Cause:
    """A reviewed reason for a difference between mpigen and the API server.

    Attributes:
        cause: in words.
        mpigen: its verdict on these cases.
        cases: their names.
    """

    cause: str
    mpigen: Verdict
    cases: tuple[str, ...]


def of_server(answer: Answer) -> Verdict:
    """The verdict that an answer amounts to."""
    if answer.create:
        return Verdict.REFUSES
    return Verdict.WARNS if answer.apply else Verdict.ACCEPTS


def of_mpigen(mpigen: Mpigen, text: str) -> Verdict:
    """Return the verdict of `mpigen validate`: exit code 1, warnings, or neither."""
    findings = mpigen.findings(text)
    if any(severity == "error" for severity, _ in findings):
        return Verdict.REFUSES
    return Verdict.WARNS if findings else Verdict.ACCEPTS


def agree(mpigen: Verdict, server: Verdict) -> bool:
    """Return True if the verdicts agree. A rejection by apply alone may be an error, because Argo CD applies."""
    return mpigen == server or (mpigen, server) == (Verdict.REFUSES, Verdict.WARNS)


def disagreements(
    cases: Mapping[str, Case], seeds: Mapping[str, Body], answers: Mapping[str, Answer]
) -> dict[str, Verdict]:
    """The cases in which the two differ: name → what mpigen says."""
    mpigen = Mpigen()
    found = {name: of_mpigen(mpigen, case.text(seeds)) for name, case in cases.items()}
    return {name: verdict for name, verdict in found.items() if not agree(verdict, of_server(answers[name]))}


def read_answers(versions: str = _DEFAULT) -> dict[str, Answer]:
    """Return the recorded answers of the API server of a set of versions."""
    answers = _read_record(_DEFAULT)
    return answers if versions == _DEFAULT else answers | _read_record(versions)


def record(versions: str, answers: Mapping[str, Answer]) -> None:
    """Write the answers; for other sets than the default, only those with another verdict.

    The answer to an apply is written only where its verdict differs from that of a create.
    """
    if versions != _DEFAULT:
        default = read_answers()
        answers = {name: each for name, each in answers.items() if of_server(each) != of_server(default[name])}
    lines = []
    for name, answer in answers.items():
        differs = {} if bool(answer.apply) == bool(answer.create) else {"apply": answer.apply}
        lines.append(json.dumps({"case": name, "create": answer.create, **differs}, ensure_ascii=False))
    _file(versions).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _file(versions: str) -> Path:
    return FOLDER / f"answers-{versions}.jsonl"


def _read_record(versions: str) -> dict[str, Answer]:
    lines = map(json.loads, _file(versions).read_text(encoding="utf-8").splitlines())
    return {line["case"]: Answer(line["create"], line.get("apply", line["create"])) for line in lines}


def read_causes() -> list[Cause]:
    """The reviewed differences."""
    read = yaml.load(REVIEWED.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return [Cause(each["cause"], Verdict(each["mpigen"]), tuple(each["cases"])) for each in read]


def reviewed(causes: Iterable[Cause]) -> Iterator[tuple[str, Verdict]]:
    """Yield every reviewed case with the verdict of mpigen; a duplicate case appears twice."""
    for cause in causes:
        yield from ((name, cause.mpigen) for name in cause.cases)
