"""Answers: what a control plane says to the update of a case, as recorded, and what mpigen says."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import yaml

from generator.checks import run
from generator.checks.finding import Severity
from generator.manifests import Manifest
from tests.cluster.client import Body, Client, RefusedError
from tests.cluster.updates.cases import FOLDER, Case, read_seeds

RECORDED, REVIEWED = FOLDER / "answers.json", FOLDER / "reviewed.yaml"
_CHECK = "change/immutable"
_THREADS = 4


class Answer(StrEnum):
    """The answer to an update."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    """The API server accepts the object under a new name, so it rejects only the change."""
    INVALID = "invalid"
    """The object is rejected under a new name as well."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A reviewed reason for differences between mpigen and the control plane.

    Attributes:
        cause: the reason.
        answer: the answer of the control plane.
        cases: patterns of the names of the cases.
        versions: the only set of versions in which the cause applies; empty for all sets.
    """

    cause: str
    answer: Answer
    cases: tuple[re.Pattern[str], ...]
    versions: str = ""


class ControlPlane:
    """A real control plane, which is asked without storing anything."""

    def __init__(self, admin: Client) -> None:
        self._admin = admin
        self._renamed: dict[str, bool] = {}
        self.words: dict[str, str] = {}

    def answers(self, cases: Iterable[Case]) -> dict[str, Answer]:
        """Return the answer to each case: name → answer."""
        asked = list(cases)
        with ThreadPoolExecutor(_THREADS) as threads:
            return dict(zip((case.name for case in asked), threads.map(self._answer, asked), strict=True))

    def _answer(self, case: Case) -> Answer:
        if not (words := self._refusal(case.body)):
            return Answer.ACCEPTED
        self.words[case.name] = words
        if not self._may_be_renamed(case.seed):
            return Answer.INVALID
        return Answer.INVALID if self._refusal(_renamed(case.body)) else Answer.REJECTED

    def _may_be_renamed(self, seed: str) -> bool:
        if seed not in self._renamed:
            self._renamed[seed] = not self._refusal(_renamed(read_seeds()[seed]))
        return self._renamed[seed]

    def _refusal(self, body: Body) -> str:
        try:
            self._admin.apply(body, dry_run=True)
        except RefusedError as refused:
            return f"{refused.status}: {refused.message}"
        return ""


def _renamed(body: Body) -> Body:
    result = copy.deepcopy(body)
    result["metadata"]["name"] = f"{body['metadata']['name']}-again"
    return result


def of_mpigen(case: Case, targets: Mapping[str, str]) -> list[str]:
    """Return the errors that mpigen reports for the update of a case."""
    old, new = Manifest(read_seeds()[case.seed], "old.yaml"), Manifest(case.body, "new.yaml")
    found = [breach for _, breach in run.judge_change([old], [new], targets)]
    return [each.message for each in found if each.check == _CHECK and each.severity is Severity.ERROR]


def disagreements(
    cases: Mapping[str, Case], answers: Mapping[str, Answer], targets: Mapping[str, str]
) -> dict[str, Answer]:
    """Return the cases in which mpigen differs from the control plane: name → answer of the control plane."""
    found = {}
    for name, case in cases.items():
        if answers[name] is not Answer.INVALID:
            is_rejected = bool(of_mpigen(case, targets))
            if is_rejected != (answers[name] is Answer.REJECTED):
                found[name] = answers[name]
    return found


def unexplained(differences: Mapping[str, Answer], versions: str) -> dict[str, Answer]:
    """Return the differences in a set of versions that no reviewed cause covers."""
    causes = [cause for cause in read_causes() if cause.versions in ("", versions)]
    return {name: answer for name, answer in differences.items() if not any(_covers(c, name, answer) for c in causes)}


def unused(differences: Mapping[str, Answer]) -> list[str]:
    """Return the patterns of reviewed causes that cover no difference."""
    return [
        pattern.pattern
        for cause in read_causes()
        for pattern in cause.cases
        if not any(pattern.fullmatch(name) and answer is cause.answer for name, answer in differences.items())
    ]


def _covers(cause: Cause, name: str, answer: Answer) -> bool:
    return answer is cause.answer and any(pattern.fullmatch(name) for pattern in cause.cases)


def read_causes() -> list[Cause]:
    """Return the reviewed differences."""
    rows = yaml.load(REVIEWED.read_text("utf-8"), yaml.CSafeLoader)
    return [
        Cause(row["cause"], Answer(row["answer"]), tuple(map(re.compile, row["cases"])), row.get("versions", ""))
        for row in rows or ()
    ]


def recorded_sets() -> tuple[str, ...]:
    """Return the sets of versions with recorded answers."""
    return tuple(json.loads(RECORDED.read_text("utf-8")))


def read_answers(versions: str = "default") -> dict[str, Answer]:
    """Return the recorded answers of a set of versions: name of the case → answer."""
    recorded = json.loads(RECORDED.read_text("utf-8"))
    found = dict(_flat(recorded["default"]))
    if versions != "default":
        found |= dict(_flat(recorded.get(versions, {})))
    return found


def _flat(recorded: Mapping[str, Mapping[str, list[str]]]) -> Iterator[tuple[str, Answer]]:
    for seed, by_answer in recorded.items():
        for answer, changes in by_answer.items():
            yield from ((f"{seed} {each}", Answer(answer)) for each in changes)


def record(versions: str, cases: Mapping[str, Case], answers: Mapping[str, Answer]) -> None:
    """Write the answers; for other sets than the default, only answers that differ."""
    recorded: dict[str, Any] = json.loads(RECORDED.read_text("utf-8")) if RECORDED.exists() else {}
    if versions != "default":
        default = dict(_flat(recorded["default"]))
        answers = {name: answer for name, answer in answers.items() if answer is not default[name]}
    found: dict[str, dict[str, list[str]]] = {}
    for name, answer in answers.items():
        case = cases[name]
        found.setdefault(case.seed, {}).setdefault(answer.value, []).append(case.change)
    recorded[versions] = {
        seed: {key: sorted(names) for key, names in sorted(of.items())} for seed, of in sorted(found.items())
    }
    RECORDED.write_text(json.dumps(recorded, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
