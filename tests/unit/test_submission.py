"""Test that `mpigen check-job` decides about TrainJobs as a recorded control plane did."""

from __future__ import annotations

import pytest

from generator.manifests import Manifest
from generator.simulate.compile import Fault, find_faults, find_runtime
from tests.verdicts import Case, disagreements, read_answers, read_verdicts


@pytest.mark.parametrize("group", read_verdicts().groups, ids=lambda group: group[0].name)
def test_mpigen_gives_the_recorded_verdict_and_cause(group: tuple[Case, ...]) -> None:
    assert [*disagreements(group, read_answers(), read_verdicts())] == []


def test_the_cases_cover_every_verdict_and_every_policy_of_the_release() -> None:
    verdicts, answers = read_verdicts(), read_answers()
    assert {case.name for group in verdicts.groups for case in group} == {*answers}
    assert {answer.verdict for answer in answers.values()} == {"admitted", "waits", "never", "rejected"}
    policies = {item.name for item in verdicts.release if item.kind == "ValidatingAdmissionPolicy"}
    reasons = " ".join(answer.reason for answer in answers.values())
    others = {"claims", "generated", "keys", "kinds", "local-queues", "reserved", "subjects", "tokens", "workloads"}
    others |= {"lifecycle"}  # about metadata; tests/fixtures/policy-cases/pack covers it
    assert {name for name in policies if f"'{name}'" not in reasons} == {f"verdicts-{name}" for name in others}


@pytest.mark.parametrize(("version", "count"), [("2.2", 0), ("2.3", 1)])
def test_trainer_2_2_accepts_variables_that_trainer_2_3_reserves(version: str, count: int) -> None:
    verdicts = read_verdicts()
    (case,) = next(group for group in verdicts.groups if group[0].name == "reserved-variable")
    job = Manifest(case.body, "job.yaml")
    runtime = find_runtime(job, verdicts.world)
    assert not isinstance(runtime, Fault)
    assert [fault.is_at_creation for fault in find_faults(job, runtime, {"trainer": version})] == [True] * count
