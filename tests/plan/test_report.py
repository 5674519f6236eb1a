"""Test the plan as text, as Markdown and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest

from generator.effects import quota
from generator.effects.effect import Effect, Risk
from generator.effects.largest import format_sizes
from generator.effects.subjects import Statement, conjugate, merge, name_subjects, plural
from generator.report import plan as report
from generator.upstream.kueue.job_limits import Largest, Limit
from tests.plan import CASES, GOLDEN, golden


@pytest.mark.parametrize("name", golden())
def test_a_plan_has_the_recorded_form(name: str) -> None:
    """After a change of the form run `python -m tests.plan`."""
    assert golden()[name] == (GOLDEN / name).read_text("utf-8")


def test_the_json_matches_its_schema() -> None:
    schema = json.loads(report.SCHEMA.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    effects = [effect for case in CASES.values() for effect in case.effects]
    data = json.loads(json.dumps(report.facts("prod", "1.0.0", "", effects)))
    jsonschema.validate({"version": "mpigen.dev/report/v1", "summary": data, "findings": [], "problems": []}, schema)
    assert sum(data["risks"].values()) == len(effects)
    assert data["against"] is None


@pytest.mark.parametrize(
    ("line", "escaped"),
    [
        ("label `a|b` <img> @everyone\x1b[2J\nnext", "label `a\\|b` &lt;img&gt; @\u200beveryone\\\\x1b\\[2J\\\\nnext"),
        ("image `a@sha256:1` & more", "image `a@sha256:1` &amp; more"),
        ("a name with ` and @everyone", "a name with \\` and @\u200beveryone"),
        ("an empty `` and `@everyone`", "an empty \\`\\` and \\`@\u200beveryone\\`"),
        ("role `a` ![x](http://b) `c`", "role `a` !\\[x\\](http://\u200bb) `c`"),
        ("role `a` \\[x](//b) `c`", "role `a` \\\\\\[x\\](//b) `c`"),
        ("role `a` **x** www.b `c`", "role `a` \\*\\*x\\*\\* www.\u200bb `c`"),
        ("role `a`b` <img>", "role \\`a\\`b\\` &lt;img&gt;"),
    ],
)
def test_a_comment_escapes_names_of_other_people(line: str, escaped: str) -> None:
    effect = Effect("other", Risk.LOW, "x", line)
    assert f"| low | other | {escaped} |" in report.markdown("t", [effect]).splitlines()


def test_a_long_comment_folds_the_effects_of_the_lowest_risk() -> None:
    low = [Effect("other", Risk.LOW, "x", f"change {number}") for number in range(30)]
    text = report.markdown("t", [*low, Effect("nodes", Risk.HIGH, "x", "nodes restart")])
    table, _, folded = text.partition("<details>")
    assert table.splitlines()[6] == "| **high** | nodes | nodes restart |"
    assert (table.count("\n| "), folded.count("\n| ")) == (2 + 20, 2 + 11)
    assert "<summary>11 more effects</summary>" in folded


def test_risks_are_colored_on_a_terminal() -> None:
    effect = Effect("nodes", Risk.HIGH, "x", "nodes restart")
    assert "\x1b[1;31mhigh  \x1b[0m  nodes restart" in [*report.text("t", [effect], has_color=True)][2]


def test_a_risk_reaches_equal_and_lower_thresholds() -> None:
    assert [risk.reaches("medium") for risk in Risk] == [False, True, True]


def test_statements_that_differ_only_in_the_subject_are_one_effect() -> None:
    rows = [Statement("team", name, "owns", "8 nodes", Risk.LOW) for name in ("nlp", "cv")]
    (effect,) = merge("quota", rows)
    assert (effect.subject, effect.text) == ("teams cv, nlp", "teams `cv` and `nlp` own 8 nodes")
    (one,) = merge("quota", rows[:1])
    assert (one.subject, one.text) == ("team nlp", "team `nlp` owns 8 nodes")


def test_words_follow_the_number_of_subjects() -> None:
    assert [plural(noun, 2) for noun in ("team", "NetworkPolicy", "WorkloadPriorityClass")] == [
        "teams",
        "NetworkPolicies",
        "WorkloadPriorityClasses",
    ]
    assert [conjugate(verb, 2) for verb in ("owns", "is new", "has", "can get")] == [
        "own",
        "are new",
        "have",
        "can get",
    ]
    assert name_subjects("team", [f"t{number}" for number in range(5)]) == "5 teams (`t0`, `t1`, `t2` and 2 more)"


def test_left_out_jobs_have_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["quota/same-quota-for-many-teams"]
    sentence = "the plan leaves out the largest jobs of {} ClusterQueues, because it computes jobs for at most {}"
    hint = "to compare these jobs, run `mpigen queues` on both releases"
    assert not any("leaves out" in " ".join([effect.text, *effect.details]) for effect in case.effects)
    monkeypatch.setattr(quota, "MOST_QUEUES", 0)
    (note,) = [effect for effect in case.effects if "leaves out" in effect.text]
    count = note.text.split()[8]
    assert (note.risk, note.text, note.details) == (Risk.LOW, sentence.format(count, 0), (hint,))
    assert int(count) > 0


def test_left_out_jobs_of_other_queues_have_a_detail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = CASES["quota/lends-less"]
    monkeypatch.setattr(quota, "MOST_QUEUES", 1)
    (effect,) = [effect for effect in case.effects if effect.topic == "quota"]
    assert not any("largest job on" in detail for detail in effect.details)
    assert effect.details[-1] == "to compare these jobs, run `mpigen queues` on both releases"


FIRST, SECOND = ("sha256:" + digit * 64 for digit in "ab")


@pytest.mark.parametrize(
    ("text", "short"),
    [
        (f"from `a@{FIRST}` to `a@{SECOND}`", "from `a@sha256:aaaaaaaa…` to `a@sha256:bbbbbbbb…`"),
        (f"from `a@{FIRST}` to `a@{FIRST[:-1]}b`", f"from `a@{FIRST}` to `a@{FIRST[:-1]}b`"),
    ],
)
def test_reports_shorten_digests_that_stay_different(text: str, short: str) -> None:
    effect = Effect("runtimes", Risk.HIGH, "runtime a", text)
    assert short in "\n".join(report.text("prod", [effect]))
    assert short in report.markdown("prod", [effect]).replace("\\", "")
    assert report.facts("prod", "1.0.0", "", [effect])["effects"][0]["text"] == text


@pytest.mark.parametrize(
    ("reclaimable", "unknown", "words"),
    [
        (4, "", ""),
        (None, "at least 4 nodes: other queues can change", ""),
        (None, "at least 3 nodes: other queues can change", "at least 3 instead of 4 nodes at any time"),
    ],
)
def test_a_size_with_an_equal_lower_bound_is_no_change(reclaimable: int | None, unknown: str, words: str) -> None:
    old = Largest("q", "ns", "openmpi", "ClusterTrainingRuntime", 4, 4, 9, Limit.QUOTA, "")
    assert format_sizes(old, replace(old, reclaimable=reclaimable, unknown=unknown)) == words
