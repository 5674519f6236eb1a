"""Test that a repository's own checks run like mpigen's checks, and that each mistake in them is one clear problem."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from generator.adoption.adoption import Adoption, Run
from generator.adoption.settings import Settings, load_settings, load_suite
from generator.checks.finding import Finding
from generator.checks.registry import Suite, checks
from generator.checks.run import check_rendered, check_text, check_together, compare, judge_update
from generator.checks.validation import Part, check_files
from generator.errors import ConfigError
from generator.manifests import Manifest, read, write
from generator.report.json import render as render_json
from generator.report.result import Result
from generator.report.sarif import render as render_sarif
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine

KNOWN = [check.id for check in checks()]
HEAD = """\
from generator import ERROR, INFO, WARNING, Breach, Change, Manifest, Objects, check
from generator.views import TrainJob


"""
RULE = '''\
@check("acme/owner", severity=ERROR, needs=Manifest)
def owner(manifest):
    """Report a ConfigMap without an owner.

    Nobody can be asked about it.
    """
    if manifest.kind == "ConfigMap" and "owner" not in manifest.labels:
        yield Breach(("metadata",), "no owner", "questions stay open", "add the label `owner`", value="x")
'''
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\n"


def load(folder: Path, text: str, *more: str) -> Settings:
    """Return settings that name files of checks with these texts."""
    texts = [text, *more]
    for number, content in enumerate(texts):
        (folder / f"own{number}.py").write_text(content)
    (folder / "mpigen.toml").write_text(f"checks = {[f'own{number}.py' for number in range(len(texts))]}\n")
    return load_settings(folder / "mpigen.toml", KNOWN)


def problems(folder: Path, text: str, *more: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        load(folder, text, *more)
    return [str(problem).replace(f"{folder}/", "") for problem in error.value.problems]


def judge(text: str, suite: Suite) -> list[Finding]:
    engine = Engine(Catalog.bundled())
    checked = check_text(text.encode(), "x.yaml", engine, suite)
    return [*checked.findings, *check_together(checked.related, {}, lambda _: text.encode(), suite=suite)]


def test_an_own_check_reports_a_finding_with_its_place(tmp_path: Path) -> None:
    suite = Suite(load(tmp_path, HEAD + RULE).own)
    (finding,) = judge(CONFIG_MAP, suite)
    assert (finding.check, finding.line, finding.severity, finding.message) == ("acme/owner", 3, "error", "no owner")
    assert judge(CONFIG_MAP.replace("a,", "a, labels: {owner: ada},"), suite) == []
    assert judge(CONFIG_MAP, Suite()) == []


def test_own_checks_of_one_run_are_unknown_in_the_next(tmp_path: Path) -> None:
    assert "acme/owner" in Suite(load(tmp_path, HEAD + RULE).own).ids()
    assert "acme/owner" not in Suite().ids()
    assert len(load(tmp_path, HEAD + RULE).own) == 1


def test_an_own_check_over_objects_reads_kinds_that_no_check_of_mpigen_reads(tmp_path: Path) -> None:
    text = '''\
@check("acme/count", severity=INFO, needs=Objects)
def count(objects):
    """Report the number of objects."""
    yield Breach(("kind",), f"{len(objects.manifests)} objects", "w", "f", objects.manifests[-1])
'''
    suite = Suite(load(tmp_path, HEAD + text).own)
    other = CONFIG_MAP.replace("name: a", "name: c")
    assert [finding.message for finding in judge(f"{CONFIG_MAP}---\n{other}", suite)] == ["2 objects"]
    manifests = list(read(CONFIG_MAP, "x.yaml"))
    found = check_rendered(manifests, write(manifests), Catalog.bundled(), suite=suite).findings
    assert [finding.message for finding in found] == ["1 objects"]


def test_own_checks_read_updates_and_views(tmp_path: Path) -> None:
    text = '''\
@check("acme/removed", severity=WARNING, needs=Change)
def removed(change):
    """Report a removed ConfigMap."""
    for manifest in change.removed("", "ConfigMap"):
        yield Breach((), "removed", "w", "f", manifest)


@check("acme/job", severity=WARNING, needs=TrainJob)
def job(job):
    """Report any TrainJob."""
    yield Breach(("kind",), "a job", "w", "f")
'''
    suite = Suite(load(tmp_path, HEAD + text).own)
    found = compare(
        list(read(CONFIG_MAP, "old.yaml")), [], {}, lambda _: CONFIG_MAP, partial(judge_update, suite=suite)
    )
    assert [finding.check for finding in found] == ["acme/removed"]
    train_job = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: a}\n"
    assert "acme/job" in {finding.check for finding in judge(train_job, suite)}
    assert "acme/job" not in {finding.check for finding in judge(CONFIG_MAP, suite)}


def test_a_suite_has_own_checks_and_all_checks_of_mpigen(tmp_path: Path) -> None:
    load(tmp_path, HEAD + RULE)
    suite = load_suite(tmp_path / "mpigen.toml")
    assert {*suite.ids()} == {*KNOWN, "acme/owner"}
    assert [finding.check for finding in judge(CONFIG_MAP, suite)] == ["acme/owner"]


def test_waivers_and_selections_accept_own_checks(tmp_path: Path) -> None:
    (tmp_path / "own0.py").write_text(HEAD + RULE)
    (tmp_path / "mpigen.toml").write_text(
        'checks = ["own0.py"]\nselect = ["acme"]\n[[waivers]]\ncheck = "acme/owner"\npath = "**"\n'
        'reason = "it is old"\nuntil = 2030-01-01\n'
    )
    settings = load_settings(tmp_path / "mpigen.toml", KNOWN)
    suite = Suite(settings.own)
    waived = "mpigen.dev/waive: 'acme/owner until 2030-01-01: it is old'"
    text = CONFIG_MAP.replace("b}", f"b, annotations: {{{waived}}}}}")
    adoption = Adoption(settings=Settings(select=("acme",)), suite=suite)
    run = Run(list(read(text, "x.yaml")), text_of=lambda _: text)
    assert adoption.apply(judge(text, suite), run).hidden == {"waived": 1}
    assert adoption.apply(judge(CONFIG_MAP, suite), Run()).findings[0].check == "acme/owner"


def test_reports_describe_own_checks(tmp_path: Path) -> None:
    own = load(tmp_path, HEAD + RULE).own
    result = Result(findings=judge(CONFIG_MAP, Suite(own)), own=own, docs="https://docs.example.com")
    assert f'"url": "{tmp_path}/own0.py"' in render_json(result)
    sarif = render_sarif(result)
    assert '"text": "a ConfigMap without an owner."' in sarif
    assert "helpUri" not in sarif


MISTAKES = {
    "a syntax error": ("def broken(:\n", "own0.py:5:12: not Python: invalid syntax"),
    "an exception": ("1 / 0\n", "own0.py:5: ZeroDivisionError: division by zero; correct the file of checks"),
    "no check": ("", "own0.py: the file registers no check; decorate a function with `@check(...)`, from generator"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_file_of_checks_has_its_line(mistake: str, tmp_path: Path) -> None:
    text, problem = MISTAKES[mistake]
    assert problems(tmp_path, HEAD + text) == [problem]


MISTAKES_OF_A_CHECK = {
    "another function name": (
        ("def owner", "def owners"),
        "ValueError: the function of `acme/owner` must have the name `owner`, not `owners`; correct the file of checks",
    ),
    "no family": (
        ("acme/owner", "owner"),
        "ValueError: the id `owner` has no family; write an id such as `acme/owner`; correct the file of checks",
    ),
    "a family of mpigen": (
        ("acme/", "quota/"),
        "quota/owner: the family `quota` belongs to mpigen; name another family, such as your organization",
    ),
    "an id without a family": (
        ("acme/owner", "/owner"),
        "/owner: the id is not `family/rule` in lower case; write it like `acme/cost-center`",
    ),
    "no parameter": (
        ("def owner(manifest)", "def owner()"),
        (
            "acme/owner: the function does not have a single parameter, or yields nothing; take one parameter, an "
            "object of the class `needs`, and yield each Breach"
        ),
    ),
    "an unknown class": (
        ("needs=Manifest", "needs=dict"),
        (
            "acme/owner: `needs` is <class 'dict'>, which mpigen cannot pass to a check; write Manifest, Objects or "
            "Change, from generator, or a class of generator.views"
        ),
    ),
    "an unknown severity": (
        ("severity=ERROR", "severity='fatal'"),
        "acme/owner: `fatal` is not a severity; write ERROR, WARNING or INFO, from generator",
    ),
    "no docstring": (
        ("Report a", "Check a"),
        "acme/owner: the function has no docstring that begins with `Report `; write what the check reports, and why",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES_OF_A_CHECK)
def test_a_mistake_in_a_check_has_the_line_of_the_check(mistake: str, tmp_path: Path) -> None:
    (old, new), problem = MISTAKES_OF_A_CHECK[mistake]
    assert problems(tmp_path, HEAD + RULE.replace(old, new)) == [f"own0.py:5: {problem}"]


def test_all_mistakes_of_all_files_are_reported(tmp_path: Path) -> None:
    found = problems(tmp_path, HEAD + RULE, HEAD + RULE, HEAD + "1 / 0\n")
    repeated = "acme/owner: 2 checks have this id; give each check its own id"
    failed = "own2.py:5: ZeroDivisionError: division by zero; correct the file of checks"
    assert found == [failed, f"own0.py:5: {repeated}", f"own1.py:5: {repeated}"]


def test_a_missing_file_is_reported_at_the_line_of_the_setting(tmp_path: Path) -> None:
    (tmp_path / "mpigen.toml").write_text('fail-on = "info"\nchecks = ["absent.py"]\n')
    with pytest.raises(ConfigError) as error:
        load_settings(tmp_path / "mpigen.toml", KNOWN)
    (problem,) = error.value.problems
    assert (problem.line, problem.column, problem.path) == (2, 12, "checks[0]")
    assert problem.message.startswith(f"{tmp_path}/absent.py: ")


@pytest.mark.parametrize("value", ["3", '"own.py"', "[3]"])
def test_the_setting_must_be_a_list_of_strings(value: str, tmp_path: Path) -> None:
    (tmp_path / "mpigen.toml").write_text(f"checks = {value}\n")
    with pytest.raises(ConfigError) as error:
        load_settings(tmp_path / "mpigen.toml", KNOWN)
    assert [problem.line for problem in error.value.problems] == [1]


BREACHES = {
    "raise KeyError('team')": "11: acme/owner: KeyError: 'team'",
    "exit(3)": "11: acme/owner: SystemExit: 3",
    "raise BaseException('now')": "11: acme/owner: BaseException: now",
    "yield 'no owner'": "5: acme/owner: TypeError: the check yields 'no owner', not a Breach",
    "yield Breach('a', 'm', 'w', 'f')": "5: acme/owner: TypeError: the path of the Breach is 'a', not a tuple such as "
    "('metadata', 'labels')",
    "yield Breach(('a', None), 'm', 'w', 'f')": "5: acme/owner: TypeError: the path of the Breach is ('a', None), but "
    "each step is a key or a position in a list",
    "yield Breach((), 'm', 'w', 'f', value=float('nan'))": "5: acme/owner: ValueError: Out of range float values are "
    "not JSON compliant",
    "yield Breach((), 3, 'w', 'f')": "5: acme/owner: TypeError: the message, why and fix of a Breach are strings",
    "yield Breach((), 'm', 'w', 'f', severity='bad')": "5: acme/owner: TypeError: the severity of the Breach is 'bad', "
    "not ERROR, WARNING or INFO",
    "yield Breach((), 'm', 'w', 'f', value={1})": "5: acme/owner: TypeError: Object of type set is not JSON "
    "serializable",
}


@pytest.mark.parametrize("statement", BREACHES)
def test_a_check_that_fails_ends_the_run_with_its_line(statement: str, tmp_path: Path) -> None:
    text = HEAD + RULE[: RULE.index("    if manifest")] + f"    {statement}\n    yield from ()\n"
    with pytest.raises(ConfigError) as error:
        judge(CONFIG_MAP, Suite(load(tmp_path, text).own))
    (problem,) = error.value.problems
    assert str(problem) == f"{tmp_path}/own0.py:{BREACHES[statement]}; correct the check"


def test_a_check_that_fails_in_another_process_ends_the_run(tmp_path: Path) -> None:
    text = HEAD + RULE.replace(
        "    if manifest.kind", "    if manifest.name == 'broken':\n        raise KeyError\n    if x"
    )
    suite = Suite(load(tmp_path, text.replace("if x", "if manifest.kind")).own)
    many = "---\n".join(CONFIG_MAP.replace("name: a", f"name: a{n}") for n in range(4000))
    files = [tmp_path / f"{number}.yaml" for number in range(2)]
    files[0].write_text(f"{many}{many}")
    files[1].write_text(f"---\n{CONFIG_MAP.replace('name: a', 'name: broken')}---\n{many}")
    with pytest.raises(ConfigError, match=r"own0.py:12: acme/owner: KeyError; correct the check"):
        check_files(Part(Catalog.bundled(), {None: files}), 2, suite)


def test_a_failure_of_a_check_of_mpigen_stays_a_bug() -> None:
    (check,) = [check for check in checks() if check.id == "quota/order"]
    with pytest.raises(AttributeError):
        Suite().run(check, object(), Manifest({}, "x.yaml"))
