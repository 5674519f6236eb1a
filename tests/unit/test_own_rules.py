"""Test that rules in YAML run like other checks, and that each mistake in a file of rules is one clear problem."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from generator.adoption.adoption import Adoption, Run
from generator.adoption.settings import Settings, load_settings
from generator.checks.finding import Finding
from generator.checks.registry import Suite, checks
from generator.checks.run import check_text
from generator.checks.validation import Part, check_files
from generator.errors import ConfigError
from generator.manifests import Manifest, read
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine

KNOWN = [check.id for check in checks()]
CEL = """\
rules:
  - id: acme/owner
    match: {kinds: [ConfigMap]}
    cel: "'owner' in object.metadata.?labels.orValue({})"
    path: metadata
    message: the ConfigMap has no label `owner`
    fix: add the label `owner`
"""
SCHEMA = """\
rules:
  - id: acme/data
    severity: warning
    match: {kinds: [ConfigMap]}
    schema: {properties: {data: {propertyNames: {pattern: "^[a-z]+$"}, additionalProperties: {maxLength: 3}}}}
    message: the data breaks the convention
    why: our tool cannot read the ConfigMap
    fix: shorten the value
"""
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: team-b}\ndata:\n  key: value\n"


def load(folder: Path, *texts: str) -> Settings:
    """Return settings that name files of rules with these texts."""
    names = [f"rules{number}.yaml" for number in range(len(texts))]
    for name, text in zip(names, texts, strict=True):
        (folder / name).write_text(text)
    (folder / "mpigen.toml").write_text(f"checks = {names}\n")
    return load_settings(folder / "mpigen.toml", KNOWN)


def problems(folder: Path, *texts: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        load(folder, *texts)
    return [str(problem).replace(f"{folder}/", "") for problem in error.value.problems]


def judge(text: str, suite: Suite) -> list[Finding]:
    found = check_text(text.encode(), "x.yaml", Engine(Catalog.bundled()), suite).findings
    return [finding for finding in found if finding.check.startswith("acme/")]


def test_an_expression_reports_the_field_of_path(tmp_path: Path) -> None:
    suite = Suite(load(tmp_path, CEL).own)
    (finding,) = judge(CONFIG_MAP, suite)
    assert (finding.check, finding.line, finding.path, finding.severity) == ("acme/owner", 3, "$.metadata", "error")
    assert finding.message == "the ConfigMap has no label `owner`"
    assert finding.why == "the object breaks the rule `acme/owner` of this repository"
    assert judge(CONFIG_MAP.replace("a,", "a, labels: {owner: ada},"), suite) == []
    assert judge(CONFIG_MAP.replace("ConfigMap", "Secret"), suite) == []


def test_a_schema_reports_the_lines_of_wrong_fields(tmp_path: Path) -> None:
    suite = Suite(load(tmp_path, SCHEMA).own)
    found = judge(f"{CONFIG_MAP}  KEY: v\n", suite)
    assert [(finding.line, finding.path, finding.severity) for finding in found] == [
        (5, "$.data.key", "warning"),
        (6, "$.data.KEY", "warning"),
    ]
    assert found[0].message == 'the data breaks the convention: `"value"` has more than 3 characters'
    assert judge(CONFIG_MAP.replace("value", "val"), suite) == []


@pytest.mark.parametrize(
    ("match", "is_selected"),
    {
        "{kinds: [ConfigMap]}": True,
        "{kinds: ['*']}": True,
        "{kinds: [Secret, ConfigMap]}": True,
        "{kinds: [ConfigMap.example.com]}": False,
        "{kinds: [Secret]}": False,
        "{kinds: [ConfigMap], namespaces: ['team-*']}": True,
        "{kinds: [ConfigMap], namespaces: [kube-system, 'tea?']}": False,
        "{kinds: [ConfigMap], labels: {app: 'w*'}}": True,
        "{kinds: [ConfigMap], labels: {app: 'w'}}": False,
        "{kinds: [ConfigMap], labels: {team: '*'}}": False,
    }.items(),
)
def test_match_selects_by_kind_namespace_and_labels(match: str, is_selected: bool, tmp_path: Path) -> None:
    text = CEL.replace("{kinds: [ConfigMap]}", match)
    found = judge(CONFIG_MAP.replace("a,", "a, labels: {app: web},"), Suite(load(tmp_path, text).own))
    assert bool(found) is is_selected


def test_a_namespace_has_its_own_name_as_its_namespace(tmp_path: Path) -> None:
    text = CEL.replace("{kinds: [ConfigMap]}", "{kinds: [Namespace], namespaces: ['team-*']}")
    suite = Suite(load(tmp_path, text).own)
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team-a}\n"
    assert len(judge(namespace, suite)) == 1
    assert judge(namespace.replace("team-a", "kube-system"), suite) == []


def test_waivers_accept_findings_of_rules(tmp_path: Path) -> None:
    settings = load(tmp_path, CEL)
    suite = Suite(settings.own)
    waived = "mpigen.dev/waive: 'acme/owner until 2030-01-01: it is old'"
    text = CONFIG_MAP.replace("team-b}", f"team-b, annotations: {{{waived}}}}}")
    run = Run(list(read(text, "x.yaml")), text_of=lambda _: text)
    assert Adoption(settings=settings, suite=suite).apply(judge(text, suite), run).hidden == {"waived": 1}


def test_an_expression_that_fails_ends_the_run_with_the_line_of_the_rule(tmp_path: Path) -> None:
    text = CEL.replace("'owner' in object.metadata.?labels.orValue({})", "object.data.owner != ''")
    with pytest.raises(ConfigError) as error:
        judge(CONFIG_MAP, Suite(load(tmp_path, text).own))
    (problem,) = error.value.problems
    assert str(problem).replace(f"{tmp_path}/", "") == (
        "rules0.yaml:2:5: rules[0]: the expression fails for ConfigMap team-b/a in x.yaml: no such key: owner; read "
        "the optional field `owner` with `.?owner` and `orValue`"
    )


def test_rules_run_in_other_processes(tmp_path: Path) -> None:
    suite = Suite(load(tmp_path, CEL, SCHEMA).own)
    files = [tmp_path / f"{number}.yaml" for number in range(2)]
    for file in files:
        file.write_text(CONFIG_MAP + "# long\n" * 50_000)  # enough text for two processes
    found = check_files(Part(Catalog.bundled(), {None: files}), 2, suite)
    assert {finding.check for finding in found.findings} >= {"acme/owner", "acme/data"}


def test_a_rule_adds_its_texts_to_the_list_of_checks(tmp_path: Path) -> None:
    (check,) = load(tmp_path, SCHEMA).own
    assert (check.id, check.severity, check.needs, check.line) == ("acme/data", "warning", Manifest, 2)
    assert check.summary == "that the data breaks the convention"
    assert check.why == "Our tool cannot read the ConfigMap."


def case(expected: str, body: str) -> str:
    return f"{CEL}    cases: {{{expected}: [{body}]}}\n"


_OWNED = "{kind: ConfigMap, metadata: {name: a, labels: {owner: ada}}}"


def test_cases_with_the_expected_results_pass(tmp_path: Path) -> None:
    assert len(load(tmp_path, case("good", _OWNED), SCHEMA).own) == 2


TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))


@pytest.mark.parametrize("row", TABLE["expression"], ids=lambda row: row["mistake"])
def test_a_mistake_in_a_rule_has_its_line(row: dict[str, str], tmp_path: Path) -> None:
    (found,) = problems(tmp_path, CEL.replace(row["replace"], row["by"], 1))
    assert found.startswith(f"rules0.yaml:{row['problem']}")


@pytest.mark.parametrize("row", TABLE["schema"], ids=lambda row: row["mistake"])
def test_a_mistake_in_a_schema_has_its_path(row: dict[str, str], tmp_path: Path) -> None:
    (found,) = problems(tmp_path, SCHEMA.replace(row["replace"], row["by"], 1))
    place, _, text = found.partition(": rules[0].schema.properties")
    assert place.startswith("rules0.yaml:5:")
    assert text == row["problem"]


def test_a_schema_never_reads_the_network(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, SCHEMA.replace("schema: {", "schema: {$ref: 'https://example.com/x', "))
    assert "Retrieval is disabled" in found


CASES = {
    "a good case that breaks the rule": (
        case("good", "{kind: ConfigMap, metadata: {name: a}}"),
        "rules[0].cases.good[0]: the rule reports this good case; correct the rule, or move the case to `bad`",
    ),
    "a bad case that passes": (
        case("bad", _OWNED),
        "rules[0].cases.bad[0]: the rule does not report this bad case; correct the rule, or move the case to `good`",
    ),
    "a bad case of another kind": (
        case("bad", "{kind: Secret, metadata: {name: a}}"),
        "rules[0].cases.bad[0]: `match` does not select `Secret a`; correct `match` or the case",
    ),
    "a case for which the expression fails": (
        case("bad", "{kind: ConfigMap}").replace(".?labels.orValue({})", ".labels"),
        (
            "rules[0].cases.bad[0]: the expression fails for this case: no such key: metadata; read the optional "
            "field `metadata` with `.?metadata` and `orValue`"
        ),
    ),
    "a case without a kind": (case("bad", "{}"), "rules[0].cases.bad[0]: `kind` is missing; add `kind`"),
}


@pytest.mark.parametrize("mistake", CASES)
def test_a_case_with_another_result_is_a_problem(mistake: str, tmp_path: Path) -> None:
    text, problem = CASES[mistake]
    (found,) = problems(tmp_path, text)
    assert found.partition(": ")[2] == problem


def test_all_mistakes_of_all_files_are_reported(tmp_path: Path) -> None:
    repeated = CEL + CEL.removeprefix("rules:\n")
    found = problems(tmp_path, repeated, SCHEMA.replace("acme/data", "acme/owner"), CEL.replace("fix:", "fixs:"))
    assert found == [
        "rules0.yaml:8:9: rules[1].id: an earlier rule of this file has the id `acme/owner`; give each rule its own id",
        "rules2.yaml:7:11: rules[0].fixs: unknown field `fixs`; did you mean `fix`?",
        "rules0.yaml:2: acme/owner: 2 checks have this id; give each check its own id",
        "rules1.yaml:2: acme/owner: 2 checks have this id; give each check its own id",
    ]


def test_a_missing_file_is_reported_at_the_line_of_the_setting(tmp_path: Path) -> None:
    (tmp_path / "mpigen.toml").write_text('checks = ["absent.yaml"]\n')
    with pytest.raises(ConfigError) as error:
        load_settings(tmp_path / "mpigen.toml", KNOWN)
    (problem,) = error.value.problems
    assert (problem.line, problem.column, problem.path) == (1, 12, "checks[0]")
    assert problem.message.startswith(f"{tmp_path}/absent.yaml: ")
