"""Test the cause of a failed job that `mpigen diagnose` finds in logs and messages, and the tables of causes."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import jsonschema
import pytest
import re2
import yaml
from hypothesis import given
from hypothesis import strategies as st

from generator.checks.registry import checks
from generator.diagnose import scan as scanning
from generator.diagnose.answer import Confidence, Diagnosis, decide
from generator.diagnose.lines import parse_line
from generator.diagnose.scan import Scan
from generator.facts.causes.table import STAGES, Cause, Rank, causes
from tests.conftest import ROOT, Run

FOLDER = ROOT / "generator" / "facts" / "causes"
KEY = "mpiuser@train-node-0-1.train: Permission denied (publickey,password)."
BLOCK = "ORTE was unable to reliably start one or more daemons."
MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
RESET = "An MPI communication peer process has unexpectedly disconnected.  This"
GROUPS = {"host", "rank", "peer", "user", "value", "name"}


def diagnose(*lines: str) -> Diagnosis:
    """Return the diagnosis of a log with these lines."""
    scan = Scan()
    scan.read_log("a.log", io.BytesIO("\n".join(lines).encode()))
    return decide(scan)


def name_of(diagnosis: Diagnosis) -> str:
    return diagnosis.cause.cause if diagnosis.cause else ""


# The tables


@pytest.mark.parametrize("stage", STAGES)
def test_a_table_has_the_form_of_its_schema(stage: str) -> None:
    schema = json.loads((FOLDER / "causes.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(yaml.safe_load((FOLDER / f"{stage}.yaml").read_text("utf-8")))


def test_every_table_is_a_stage_and_every_cause_has_one_name() -> None:
    assert {file.stem for file in FOLDER.glob("*.yaml")} == {*STAGES}
    names = [
        row["cause"] for stage in STAGES for row in yaml.safe_load((FOLDER / f"{stage}.yaml").read_text())["causes"]
    ]
    assert sorted(names) == sorted(causes())


@pytest.mark.parametrize("cause", causes().values(), ids=lambda cause: cause.cause)
def test_the_sample_of_a_signature_shows_its_cause(cause: Cause) -> None:
    """The sample of a root cause also decides."""
    for signature in cause.signatures:
        scan = Scan()
        scan.read_log("sample", io.BytesIO(signature.sample.encode()))
        lines = [line for line in signature.sample.splitlines() if signature.text in line]
        assert any(re.search(signature.pattern, line) for line in lines), signature.text
        assert cause in [hit.cause for hit in scan.hits], signature.text
        if cause.rank is Rank.ROOT:
            assert name_of(decide(scan)) == cause.cause, signature.text


@pytest.mark.parametrize("cause", causes().values(), ids=lambda cause: cause.cause)
def test_patterns_have_known_groups_and_sources_are_citations(cause: Cause) -> None:
    for signature in cause.signatures:
        assert {*re.compile(signature.pattern).groupindex} <= GROUPS
        assert re2.compile(signature.pattern)
        assert signature.text.isascii()
        assert re.match(r"https://|[\w./-]+ v\d|(?:generator|tests)/", signature.source), signature.source


def test_checks_exist() -> None:
    known = {check.id for check in checks()}
    assert {name for cause in causes().values() for name in cause.checks} <= known


# Lines


@pytest.mark.parametrize(
    ("text", "time", "host", "rank", "rest"),
    [
        ("ready", "", "", None, "ready"),
        ("2026-11-28T10:00:03.123456789Z ready", "2026-11-28T10:00:03", "", None, "ready"),
        ("2026-11-28 10:00:03,123 ERROR no", "2026-11-28T10:00:03", "", None, "ERROR no"),
        ("[pod/train-node-0-1-x/node] 2026-11-28T10:00:03Z no", "2026-11-28T10:00:03", "train-node-0-1-x", None, "no"),
        ("[1,7]<stderr>:no", "", "", 7, "no"),
        ("[prterun-a-1@1,7]<stderr>: no", "", "", 7, "no"),
        ("[7]<stderr>:no", "", "", 7, "no"),
        ("[rank7]: no", "", "", 7, "no"),
        ("[7] no", "", "", 7, "no"),
        ("node-1:12:34 [0] NCCL WARN no", "", "node-1", None, "node-1:12:34 [0] NCCL WARN no"),
        ("[node-1:00012] no", "", "node-1", None, "[node-1:00012] no"),
        ("[1764324003.5] [node-1:12  :0] no", "2025-11-28T10:00:03", "node-1", None, "[node-1:12  :0] no"),
        ("train-node-0-1: no", "", "train-node-0-1", None, "train-node-0-1: no"),
        ("[2026] no", "", "", 2026, "no"),
    ],
)
def test_a_line_has_its_time_host_and_rank(text: str, time: str, host: str, rank: int | None, rest: str) -> None:
    line = parse_line("a.log", 1, text)
    assert (line.time, line.host, line.rank, line.text) == (time, host, rank, rest)


# Decisions


def test_a_fault_wins_over_consequences_and_general_blocks() -> None:
    done = diagnose(BLOCK, RESET, KEY, BLOCK)
    assert (name_of(done), done.confidence, done.host) == ("ssh-key-refused", Confidence.HIGH, "train-node-0-1.train")
    assert [line.number for line in done.evidence] == [3]
    assert {other.count for other in done.others} == {1, 2}


def test_the_first_of_several_faults_wins_with_less_confidence() -> None:
    other = next(cause for cause in causes().values() if cause.cause == "volume-full").signatures[0].sample
    done = diagnose(MEMORY, other)
    assert (name_of(done), done.confidence) == ("gpu-out-of-memory", Confidence.MEDIUM)


def test_a_fault_of_a_later_stage_wins_because_the_job_got_past_the_earlier_stage() -> None:
    done = diagnose("ssh: Could not resolve hostname train-node-0-1: Name or service not known", "[rank3]: " + MEMORY)
    assert (name_of(done), done.rank, done.confidence) == ("gpu-out-of-memory", 3, Confidence.HIGH)


def test_times_decide_if_all_lines_have_them() -> None:
    done = diagnose(f"2026-11-28T10:00:05Z [rank1]: {MEMORY}", f"2026-11-28T10:00:03Z [rank2]: {MEMORY}")
    assert (done.rank, done.time) == (2, "2026-11-28T10:00:03")


def test_consequences_alone_give_low_confidence() -> None:
    done = diagnose("start", RESET)
    assert (done.confidence, done.cause and done.cause.rank) == (Confidence.LOW, Rank.EFFECT)


def test_general_blocks_never_decide() -> None:
    done = diagnose("start", BLOCK, "something failed here")
    assert (done.confidence, done.cause) == (Confidence.UNKNOWN, None)
    assert [line.text for line in done.evidence] == ["something failed here"]
    assert [other.count for other in done.others] == [1]


def test_the_end_of_a_traceback_is_the_error() -> None:
    done = diagnose("Traceback (most recent call last):", '  File "a.py", line 1', "    x()", "ValueError: odd", "bye")
    assert [(line.number, line.text) for line in done.evidence] == [(4, "ValueError: odd")]


def test_a_log_without_errors_has_no_cause() -> None:
    done = diagnose("step 1 loss 0.3, 0 errors", "INFO retry failed=0", "done")
    assert (done.confidence, done.evidence, done.lines) == (Confidence.UNKNOWN, [], 3)


# Reading


@given(st.integers(1, 400), st.integers(0, 60), st.sampled_from(["\n", ""]))
def test_blocks_change_no_line_and_no_number(size: int, before: int, end: str) -> None:
    text = "\n".join([*["fine"] * before, KEY, *["fine"] * 3, f"[rank1]: {MEMORY}"]) + end
    scan = Scan()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanning, "_BLOCK", size)
        scan.read_log("a.log", io.BytesIO(text.encode()))
    if size >= len(MEMORY) + 10:  # a longer line is cut
        assert [hit.line.number for hit in scan.hits] == [before + 1, before + 5]
    assert scan.lines == before + 5


def test_many_equal_lines_are_counted() -> None:
    done = diagnose(*[f"[1,{rank}]<stderr>:{MEMORY}" for rank in range(1000)])
    assert (done.count, done.rank, len(done.evidence)) == (1000, 0, 3)


def test_an_overwritten_line_ends_with_its_last_text() -> None:
    done = diagnose(f"step 1\rstep 2\r{MEMORY}")
    assert done.evidence[0].text == MEMORY


@given(st.binary(max_size=200))
def test_any_bytes_are_a_log(content: bytes) -> None:
    scan = Scan()
    scan.read_log("a.log", io.BytesIO(content))
    assert decide(scan).lines == scan.lines


# The command


def test_the_command_prints_the_cause_and_the_next_step(mpigen: Run) -> None:
    ran = mpigen("diagnose", "--log", "-", stdin=f"{KEY}\n{BLOCK}\n")
    first, why, place, evidence, step, *_ = ran.stdout.splitlines()
    assert (ran.returncode, first) == (1, "ssh-key-refused: stage ssh, confidence high")
    assert (why[:7], place, evidence) == (
        "  why: ",
        "  first: host train-node-0-1.train",
        f"  evidence: stdin:1: {KEY}",
    )
    assert step.startswith("  next: ")


def test_the_command_reads_the_messages_of_a_job(mpigen: Run) -> None:
    export = ROOT / "tests/fixtures/job-status/failed-oom.yaml"
    ran = mpigen("diagnose", export, "--format", "json")
    (answer,) = json.loads(ran.stdout)["summary"]["diagnoses"]
    assert (ran.returncode, answer["job"]["state"], answer["cause"]) == (1, "failed", "container-memory-limit")


@pytest.mark.parametrize(
    ("name", "code"), [("running", 0), ("complete", 0), ("pending-for-quota", 0), ("never-admitted", 1)]
)
def test_only_the_state_is_printed_if_it_explains_the_job(name: str, code: int, mpigen: Run) -> None:
    """`mpigen job status` explains a waiting job by its queue, and old events of a running job are no failures."""
    ran = mpigen("diagnose", ROOT / f"tests/fixtures/job-status/{name}.yaml")
    assert (ran.returncode, len(ran.stdout.splitlines())) == (code, 3)


def test_the_log_of_a_complete_job_has_no_cause(tmp_path: Path, mpigen: Run) -> None:
    """The launcher repeats ssh until a host answers, so the log of a successful job can have its errors."""
    (tmp_path / "train.log").write_text(KEY)
    export = ROOT / "tests/fixtures/job-status"
    complete = mpigen("diagnose", export / "complete.yaml", "--log", tmp_path / "train.log")
    assert (complete.returncode, len(complete.stdout.splitlines())) == (0, 3)
    running = mpigen("diagnose", export / "running.yaml", "--log", tmp_path / "train.log")
    assert "ssh-key-refused" in running.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "pass an EXPORT or a --log"),
        (["-", "--log", "-"], "standard input can be read once"),
        (["--log", "no-such-file"], "no-such-file: cannot be read"),
        (["--log", "."], "is a folder"),
    ],
)
def test_a_wrong_request_is_an_error(arguments: list[str], message: str, mpigen: Run) -> None:
    ran = mpigen("diagnose", *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert message in ran.stderr
