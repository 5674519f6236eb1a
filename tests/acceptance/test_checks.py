"""`mpigen checks`, `mpigen explain` and `--profile`: every check can be listed, explained and measured."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from generator.checks.registry import checks
from tests.conftest import EXAMPLES, ROOT, Run

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, lables: {}}\nspec: {containers: [{name: web, image: x}]}\n"


def test_all_registered_checks_are_listed(mpigen: Run) -> None:
    listed = json.loads(mpigen("checks", "--format", "json").stdout)
    assert [each["id"] for each in listed] == [check.id for check in checks()]
    assert {"waiver/unused", "kubeconform/invalid", "platform/open-egress"} <= {each["id"] for each in listed}
    (entry,) = [each for each in listed if each["id"] == "schema/unknown-field"]
    assert (ROOT / entry["url"]).is_file()


def test_a_family_is_listed_in_a_table(mpigen: Run) -> None:
    lines = mpigen("checks", "waiver").stdout.splitlines()
    assert lines[0].split() == ["ID", "SEVERITY", "SINCE", "REPORTS"]
    assert [line.split()[0] for line in lines[1:]] == ["waiver/expired", "waiver/invalid", "waiver/unused"]
    ran = mpigen("checks", "waivers")
    assert (ran.returncode, "there is no family `waivers`; did you mean `waiver`?" in ran.stderr) == (2, True)


def test_explain_prints_the_page_of_every_check(mpigen: Run) -> None:
    assert [check.id for check in checks() if not (ROOT / "docs" / check.page).is_file()] == []
    page = (ROOT / "docs/checks/waiver/unused.md").read_text()
    (code,) = re.findall(r"^`generator/adoption/waivers.py`$", page, re.MULTILINE)
    explained = mpigen("explain", "waiver/unused").stdout
    (place,) = re.findall(r"^`generator/adoption/waivers.py:(\d+)`$", explained, re.MULTILINE)
    assert explained.replace(f":{place}`", "`") == page
    assert "declare(" in (ROOT / code.strip("`")).read_text().splitlines()[int(place) - 1]


def test_every_check_is_listed_with_the_line_of_its_function(mpigen: Run) -> None:
    for entry in json.loads(mpigen("checks", "--format", "json").stdout):
        lines = (ROOT / entry["file"]).read_text().splitlines()[entry["line"] - 1 :]
        name = entry["id"].partition("/")[2].replace("-", "_")
        if entry["function"]:
            assert entry["function"] == name
            assert any(line.startswith(f"def {name}(") for line in lines[:4])
        else:
            assert lines[0] == "declare("


@pytest.mark.parametrize("arguments", [["explain", "waiver/unusd"], ["validate", ".", "--select", "waiver/unusd"]])
def test_an_unknown_check_id_gets_a_suggestion(arguments: list[str], mpigen: Run) -> None:
    ran = mpigen(*arguments)
    assert ran.returncode == 2
    assert "there is no check `waiver/unusd`; did you mean `waiver/unused`?" in ran.stderr


def test_profile_prints_the_seconds_per_check(mpigen: Run) -> None:
    ran = mpigen("validate", "-", "--profile", stdin=POD)
    assert ran.returncode == 1
    header, *rows = [line.split() for line in ran.stderr.splitlines()]
    assert header == ["CHECK", "SECONDS"]
    assert {name for name, _ in rows} <= {check.id for check in checks()}
    assert rows
    times = [float(seconds) for _, seconds in rows]
    assert times == sorted(times, reverse=True)


RULES = """\
rules:
  - id: acme/owner
    match: {kinds: [Namespace]}
    cel: "'owner' in object.metadata.?labels.orValue({})"
    message: the Namespace has no owner
    fix: add the label `owner`
"""
CASES = """\
    cases:
      good: [{kind: Namespace, metadata: {labels: {owner: ada}}}]
      bad: [{kind: Namespace, metadata: {name: a}}]
"""


def test_the_cases_of_rules_are_counted(mpigen: Run, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(RULES + CASES)
    ran = mpigen("checks", "test", "rules.yaml", "--format", "json")
    assert json.loads(ran.stdout)["summary"]["rules"] == [
        {"id": "acme/owner", "file": "rules.yaml", "good": 1, "bad": 1}
    ]
    (tmp_path / "mpigen.toml").write_text('checks = ["rules.yaml"]\n')
    assert mpigen("checks", "test").stdout.endswith("\n2 cases, 1 rule\n")
    explained = mpigen("explain", "acme/owner", "--no-python").stdout
    assert "\n## Use instead\n\nAdd " in explained
    assert explained.endswith("\n`rules.yaml:2`\n")


def test_a_rule_without_cases_fails_the_test(mpigen: Run, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(RULES)
    ran = mpigen("checks", "test", "rules.yaml")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.splitlines() == [
        f"error: rules.yaml:2:5: rules[0]: the rule `acme/owner` has no {name} case; add an object to "
        f"`cases.{name}` of the rule"
        for name in ("good", "bad")
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            (),
            (
                "FILES: there are no rules in YAML to test; name a YAML file of rules, or write its name into the "
                "setting `checks`; test checks in Python by pytest"
            ),
        ),
        (("own.py",), "own.py: not a file of rules; name a file that ends with .yaml"),
    ],
)
def test_rules_to_test_must_exist(arguments: tuple[str, ...], problem: str, mpigen: Run, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("")
    ran = mpigen("checks", "test", *arguments)
    assert (ran.returncode, ran.stderr) == (2, f"error: {problem}\n")


def test_an_invalid_rule_writes_nothing(mpigen: Run, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(RULES.replace("labels", "lables"))
    (tmp_path / "mpigen.toml").write_text('checks = ["rules.yaml"]\n')
    shutil.copyfile(EXAMPLES["cpu-kubernetes"], tmp_path / "platform.yaml")
    before = sorted(tmp_path.rglob("*"))
    ran = mpigen("synth", "platform.yaml")
    assert ran.returncode == 2
    assert ran.stderr == (
        "error: rules.yaml:4:10: rules[0].cel: `object.metadata.lables`: `Namespace` has no field `lables` there; did "
        "you mean `labels`?\n"
    )
    assert sorted(tmp_path.rglob("*")) == before


def test_a_rule_judges_a_job(mpigen: Run, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(RULES.replace("[Namespace]", "[TrainJob]"))
    (tmp_path / "mpigen.toml").write_text('checks = ["rules.yaml"]\n')
    job = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: a, namespace: team-sim}\n"
    (tmp_path / "job.yaml").write_text(f"{job}spec: {{runtimeRef: {{name: openmpi}}}}\n")
    ran = mpigen(
        "check-job", "job.yaml", "--release", EXAMPLES["cpu-kubernetes"], "--select", "acme", "--format", "json"
    )
    assert [finding["check"] for finding in json.loads(ran.stdout)["findings"]] == ["acme/owner"]


def test_plugins_are_listed_without_their_code(mpigen: Run, tmp_path: Path) -> None:
    metadata = tmp_path / "site/acme-1.2.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.2.0\n")
    (metadata / "entry_points.txt").write_text("[mpigen.plugins]\nacme = acme_rules\n")
    (tmp_path / "site/acme_rules.py").write_text('RULES = ["rules.yaml"]\n')
    (tmp_path / "site/rules.yaml").write_text(RULES)
    assert mpigen("plugins").stdout == "no installed distribution has a plugin\n"
    plugin = {"name": "acme", "version": "1.2.0", "distribution": "acme"}
    listed = json.loads(mpigen("plugins", "--format", "json", PYTHONPATH=str(tmp_path / "site")).stdout)["summary"][
        "plugins"
    ]
    assert listed == [{**plugin, "active": False, "checks": []}]
    (tmp_path / "mpigen.toml").write_text('plugins = ["acme"]\n')
    listed = json.loads(mpigen("plugins", "--format", "json", PYTHONPATH=str(tmp_path / "site")).stdout)["summary"][
        "plugins"
    ]
    assert listed == [{**plugin, "active": True, "checks": ["acme/owner"]}]
