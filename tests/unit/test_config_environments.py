"""Test that environments are whole platforms from one base, and that each mistake has the line that contains it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from generator.config.environments import select_environment
from generator.config.load import load_environments, load_platform
from generator.config.platform import Platform, platform_schema
from generator.errors import ConfigError

BASE = """\
platform: sim
release: 1.0.0
pools:
  - name: cpu
    nodes: 8
    allocatable: {cpu: 16, memory: 64Gi}
runtimes:
  - {name: openmpi, use: openmpi, pool: cpu}
tenants:
  - name: team-a
    quota: {cpu: 2}
    access: {edit: [group:a], view: [group:all]}
    egress: [{name: s3, cidr: 10.20.0.0/16, ports: [443]}, {name: git, cidr: 10.21.0.0/16, ports: [22]}]
  - name: team-b
    quota: {cpu: 2}
    access: {edit: [group:b]}
gitops: {repository: "https://git.example.com/platform.git"}
environments:
"""


def file(folder: Path, environments: str, base: str = BASE) -> Path:
    """Write a platform file with environments."""
    path = folder / "platform.yaml"
    path.write_text(base + environments)
    return path


def platforms(folder: Path, environments: str) -> dict[str, Platform]:
    return load_environments(file(folder, environments))


def problems(folder: Path, environments: str, base: str = BASE) -> list[str]:
    """Return the problems without the name of the file."""
    path = file(folder, environments, base)
    with pytest.raises(ConfigError) as refused:
        load_environments(path)
    return [str(problem).removeprefix(f"{path}:") for problem in refused.value.problems]


def test_an_environment_without_differences_is_the_base_with_its_own_name(tmp_path: Path) -> None:
    stage = platforms(tmp_path, "  stage: {}\n  prod:\n")["stage"]
    plain = yaml.safe_load(BASE.removesuffix("environments:\n")) | {"platform": "sim-stage"}
    assert stage == Platform.model_validate(plain)
    assert stage.digest() == Platform.model_validate(plain).digest()


def test_mappings_merge_by_key_and_entries_by_name(tmp_path: Path) -> None:
    text = """\
  prod:
    pools: [{name: cpu, nodes: 6}]
    tenants:
      - {name: team-b, quota: {cpu: 3}}
      - {name: team-a, egress: [{name: git, ports: [443]}], access: {view: [group:auditors]}}
    gitops: {revision: v1}
"""
    prod = platforms(tmp_path, text)["prod"]
    first, second = prod.tenants
    assert (prod.platform, prod.pools[0].nodes) == ("sim-prod", 6)
    assert [(rule.name, rule.ports) for rule in first.egress] == [("git", (443,)), ("s3", (443,))]
    assert (first.access.edit, first.access.view) == (("group:a",), ("group:auditors",))
    assert json.loads(second.model_dump_json())["quota"] == {"cpu": 3}
    assert prod.gitops is not None
    assert (prod.gitops.repository, prod.gitops.revision) == ("https://git.example.com/platform.git", "v1")


def test_null_removes_a_value_and_without_removes_entries(tmp_path: Path) -> None:
    text = (
        "  dev:\n    gitops: null\n    without: {tenants: [team-a]}\n    tenants: [{name: team-b, quota: {cpu: 1}}]\n"
    )
    dev = platforms(tmp_path, text)["dev"]
    assert dev.gitops is None
    assert [tenant.name for tenant in dev.tenants] == ["team-b"]
    assert json.loads(dev.model_dump_json())["tenants"][0]["quota"] == {"cpu": 1}


def test_a_list_that_the_base_lacks_is_new(tmp_path: Path) -> None:
    text = "  dev:\n    cohorts: [{name: physics}]\n    platform: sandbox\n"
    dev = platforms(tmp_path, text)["dev"]
    assert (dev.platform, [cohort.name for cohort in dev.cohorts]) == ("sandbox", ["physics"])


@pytest.mark.parametrize(
    ("environments", "expected"),
    [
        ("  dev: {tenent: []}\n", "19:9: environments.dev.tenent: there is no field `tenent` here; did you mean"),
        (
            "  dev: {tenants: [{name: team-c, weight: 2}]}\n",
            "19:26: environments.dev.tenants[0].name: `team-c` is no entry of `tenants` in the base; did you",
        ),
        (
            "  dev: {tenants: [{weight: 2}]}\n",
            "19:19: environments.dev.tenants[0]: this entry has no `name`, so it matches no entry of the base",
        ),
        (
            "  dev: {tenants: [{name: team-a}, {name: team-a}]}\n",
            "19:42: environments.dev.tenants[1].name: `team-a` occurs twice; join the two entries",
        ),
        (
            "  dev: {tenants: [{name: team-a, quota: {cpus: 2}}]}\n",
            "19:42: environments.dev.tenants[0].quota.cpus: `cpus` is neither a pool nor a resource of a pool; did you",
        ),
        (
            "  dev: {pools: [{name: cpu, nodes: many}]}\n",
            "19:36: environments.dev.pools[0].nodes: `many` is not an integer; write an integer without a unit",
        ),
        ("  dev: {weight: null}\n", "19:17: environments.dev.weight: the base does not set `weight`, so null removes"),
        ("  dev: {without: {tenants: [team-x]}}\n", "19:29: environments.dev.without.tenants[0]: `team-x` is no entry"),
        ("  dev: {without: {teams: [a]}}\n", "19:19: environments.dev.without.teams: the base has no list of named"),
        ("  dev: {without: {tenants: team-a}}\n", "19:28: environments.dev.without.tenants: `team-a` is not a list of"),
        ("  dev: {without: team-a}\n", "19:18: environments.dev.without: `team-a` is not a mapping; write the names"),
        ("  dev: {environments: {}}\n", "19:9: environments.dev.environments: an environment has no environments of"),
        ("  dev: text\n", "19:8: environments.dev: `text` is not a mapping; write each difference as `field: value`"),
        ('  "": {}\n', '19:3: environments[""]: an empty string is not a Kubernetes name'),
        ("  DEV: {}\n", "19:3: environments.DEV: `DEV` is not a Kubernetes name; use at most 63"),
        (
            "  dev: {}\n  qa: {platform: sim-dev}\n",
            "20:18: environments.qa.platform: the environments `dev` and `qa` both have the platform name `sim-dev`",
        ),
        ("  []\n", "18:1: environments: a list is not a mapping with an environment; write each environment as"),
        ("", "18:1: environments: null is not a mapping with an environment; write each environment as"),
    ],
)
def test_a_mistake_of_a_difference_has_its_place(tmp_path: Path, environments: str, expected: str) -> None:
    found = problems(tmp_path, environments)
    assert found[0].startswith(expected), found


def test_a_mistake_of_the_base_is_one_problem_at_the_base(tmp_path: Path) -> None:
    found = problems(
        tmp_path, "  dev: {}\n  prod: {gitops: {revision: v1}}\n", BASE.replace("pool: cpu}", "pool: cpus}")
    )
    assert found == ["8:41: runtimes[0].pool: there is no pool `cpus`; did you mean `cpu`?"]


def test_a_field_that_no_environment_sets_is_missing_in_the_base(tmp_path: Path) -> None:
    base = BASE.replace("    nodes: 8\n", "")
    dev = "  dev: {pools: [{name: cpu, nodes: 4}]}\n"
    (problem,) = problems(tmp_path, f"{dev}  prod: {{pools: [{{name: cpu, taints: []}}]}}\n", base)
    assert problem.startswith("4:5: pools[0].nodes: `nodes` is missing")
    assert load_environments(file(tmp_path, dev, base))["dev"].pools[0].nodes == 4


def test_problems_of_all_environments_are_reported_at_once(tmp_path: Path) -> None:
    found = problems(tmp_path, "  dev: {tenent: []}\n  prod: {release: 1}\n")
    assert [problem.partition(": ")[0] for problem in found] == ["19:9", "20:19"]


def test_a_credential_in_an_environment_is_reported_and_not_repeated(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    found = problems(tmp_path, f"  dev: {{gitops: {{repository: 'https://x:{token}@git.example.com/p.git'}}}}\n")
    assert len(found) == 1
    assert "rotate this credential" in found[0]
    assert token not in found[0]


def test_one_environment_is_selected_by_name(tmp_path: Path) -> None:
    path = file(tmp_path, "  dev: {}\n  prod: {}\n")
    assert load_platform(path, "prod").platform == "sim-prod"
    with select_environment("dev"):
        assert load_platform(path).platform == "sim-dev"
        assert list(load_environments(path)) == ["dev"]


@pytest.mark.parametrize(
    ("environments", "name", "expected"),
    [
        (
            "  dev: {}\n",
            "",
            "18: environments: this file declares the environments `dev`, and the command is about one",
        ),
        ("  dev: {}\n", "prod", "18: environments: there is no environment `prod`; write dev"),
        (None, "prod", "this file declares no environments, so there is no environment `prod`; remove --environment"),
    ],
)
def test_a_wrong_selection_is_rejected(tmp_path: Path, environments: str | None, name: str, expected: str) -> None:
    text = BASE + environments if environments else BASE.removesuffix("environments:\n")
    path = tmp_path / "platform.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_platform(path, name)
    assert expected in str(refused.value)


def test_a_selection_without_effect_is_rejected() -> None:
    with (
        pytest.raises(ConfigError, match="no platform file is read, so the environment has no effect"),
        select_environment("dev"),
    ):
        pass


def test_an_error_of_the_body_hides_the_useless_selection() -> None:
    with pytest.raises(ValueError, match="of the body"), select_environment("dev"):
        raise ValueError("of the body")


def test_a_platform_in_python_is_one_environment() -> None:
    data: dict[str, Any] = yaml.safe_load(BASE) | {"environments": {"dev": {}}}
    with pytest.raises(ConfigError, match="a Platform is one environment"):
        Platform.model_validate(data)


@pytest.mark.parametrize(
    ("environment", "is_valid"),
    [
        ({"pools": [{"name": "cpu", "nodes": 2}], "gitops": {"revision": "v1"}}, True),
        ({"gitops": None, "without": {"tenants": ["team-a"]}}, True),
        ({"pools": [{"nodes": 2}]}, False),
        ({"pools": [{"name": "cpu", "nodes": "two"}]}, False),
        ({"tenants": [{"name": "team-a", "quotas": {}}]}, False),
        ({"without": {"teams": []}}, False),
        ({"environments": {}}, False),
    ],
)
def test_editors_check_the_differences(environment: dict[str, Any], *, is_valid: bool) -> None:
    data = yaml.safe_load(BASE) | {"environments": {"prod": environment}}
    assert jsonschema.Draft202012Validator(json.loads(platform_schema())).is_valid(data) == is_valid
