"""Test the schemas of the user's repository: CustomResourceDefinitions in the files, and `--schema-location`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator import pipeline
from generator.adoption.adoption import Adoption
from generator.adoption.settings import Settings, load_settings
from generator.errors import ConfigError, EngineError
from generator.pipeline import Choices, Subject, validate
from generator.schemas.kubeconform import cache_folder
from tests.conftest import small_platform

DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: queues.acme.com}
spec:
  group: acme.com
  scope: Namespaced
  names: {kind: Queue, plural: queues, singular: queue, listKind: QueueList}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                size: {type: integer, default: 1}
                max: {type: integer}
              x-kubernetes-validations: [{rule: "!has(self.max) || self.size <= self.max", message: too large}]
"""
PATCH = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: queues.acme.com}
spec: {group: acme.com, names: {kind: Queue}, versions: [{name: v1, served: true}]}
"""
QUEUE = "apiVersion: acme.com/v1\nkind: Queue\nmetadata: {name: a, namespace: team-a}\nspec: {SPEC}\n"
SCHEMA = json.dumps({"properties": {"spec": {"properties": {"size": {"type": "integer"}}}}})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder for the files of a test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(**files: str) -> None:
    for name, text in files.items():
        Path(f"{name}.yaml").write_text(text, "utf-8")


def check(*locations: str, stdin: str | None = None, engine: str = "embedded") -> list[tuple[str, str]]:
    raw = None if stdin is None else stdin.encode()
    subject = Subject([Path()], raw, schema_locations=locations)
    done = validate(subject, engine, cache_folder(os.environ, Path.home()))
    return [(finding.check, finding.message) for finding in done.checked.findings if finding.file != "a.yaml"]


def queue(spec: str) -> str:
    return QUEUE.replace("SPEC", spec)


def test_a_custom_resource_is_checked_against_the_definition_in_the_files() -> None:
    write(queue=queue("size: 2"))
    assert check() == [("schema/no-schema", "no schema for Queue of acme.com/v1")]
    write(definition=DEFINITION)
    assert check() == []
    write(queue=queue("size: two"), other=queue("sizes: 2"), third=queue("max: 0"))
    assert sorted(check()) == [
        ("schema/rule", "`max` breaks a rule of Queue: too large"),
        ("schema/unknown-field", "unknown field `sizes`"),
        ("schema/wrong-type", '`size` must be an integer, not the string `"two"`'),
    ]
    assert ("schema/unknown-field", "unknown field `sizes`") in check(stdin=queue("size: 2"))


def test_a_definition_that_preserves_unknown_fields_accepts_every_field() -> None:
    head, _, _ = DEFINITION.partition("          properties:\n")
    write(definition=f"{head}          x-kubernetes-preserve-unknown-fields: true\n", queue=queue("sizes: 2"))
    assert check() == []


def test_a_definition_that_mpigen_cannot_read_is_named() -> None:
    write(a=DEFINITION.replace("{type: integer}", "{type: string, format: email}"), b=queue("max: 5m"))
    reason = "mpigen cannot read its definition: mpigen does not know the format `email`"
    assert check() == [("schema/no-schema", f"no schema for Queue of acme.com/v1, because {reason}")]


def test_a_schema_that_breaks_the_rules_of_json_schema_is_named(tmp_path_factory: pytest.TempPathFactory) -> None:
    write(definition=DEFINITION.replace("{type: integer}", "{type: 7}"), queue=queue("size: 2"))
    (message,) = [text for name, text in check() if name == "schema/no-schema"]
    assert message.startswith("no schema for Queue of acme.com/v1, because mpigen cannot read its definition: ")
    schemas = tmp_path_factory.mktemp("schemas")
    (schemas / "queue-acme-v1.json").write_text('{"type": 7}')
    write(definition="")
    assert check(str(schemas))[0][1].endswith("7 is not valid under any of the schemas listed in the 'anyOf' keyword")


def test_a_definition_of_standard_input_counts_and_a_patch_of_a_definition_does_not() -> None:
    write(queue=queue("size: two"), patch=PATCH)
    assert "schema/no-schema" in {name for name, _ in check()}
    assert "schema/wrong-type" in {name for name, _ in check(stdin=DEFINITION)}


def test_the_definition_of_the_repository_takes_precedence_over_the_bundled_schema() -> None:
    cohort = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata: {name: a}\nspec: {size: 1}\n"
    write(cohort=cohort)
    assert ("schema/unknown-field", "unknown field `size`") in check()
    changes = {"acme.com": "kueue.x-k8s.io", "Queue": "Cohort", "queue": "cohort", "name: v1": "name: v1beta2"}
    definition = DEFINITION
    for before, after in changes.items():
        definition = definition.replace(before, after)
    write(definition=definition.replace("kcohort.x", "kueue.x"))
    assert check() == []


@pytest.mark.parametrize(
    ("file", "location"),
    [
        ("schemas/acme.com/queue_v1.json", "schemas"),
        ("schemas/queue-acme-v1.json", "schemas"),
        ("schemas/master-standalone-strict/queue-acme-v1.json", "schemas"),
        ("schemas/queue.json", "schemas/{{ .ResourceKind }}.json"),
    ],
)
def test_a_schema_location_has_the_layouts_of_kubeconform(file: str, location: str) -> None:
    Path(file).parent.mkdir(parents=True)
    Path(file).write_text(SCHEMA, "utf-8")
    write(queue=queue("size: two"))
    found = [name for name, _ in check(location)]
    assert [name for name in found if name != "schema/not-an-object"] == ["schema/wrong-type"]


def test_a_schema_location_can_hold_definitions(tmp_path_factory: pytest.TempPathFactory) -> None:
    definitions = tmp_path_factory.mktemp("definitions")
    (definitions / "queues.yaml").write_text(DEFINITION, "utf-8")
    write(queue=queue("sizes: 2"))
    assert check(str(definitions)) == [("schema/unknown-field", "unknown field `sizes`")]


def test_a_schema_location_is_a_local_folder() -> None:
    write(queue=queue("size: 2"))
    with pytest.raises(ConfigError, match=r"`https://example\.com` is not a folder"):
        check("https://example.com")
    with pytest.raises(ConfigError, match="`gone` is not a folder"):
        check("gone")


@pytest.mark.parametrize("text", ["[]", "{", "true"])
def test_a_file_that_is_no_json_schema_is_an_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    location = tmp_path_factory.mktemp("schemas")
    (location / "acme.com").mkdir()
    (location / "acme.com" / "queue_v1.json").write_text(text, "utf-8")
    write(queue=queue("size: 2"))
    with pytest.raises(EngineError, match="is not a JSON Schema"):
        check(str(location))


def test_both_engines_use_the_definition() -> None:
    write(definition=DEFINITION, queue=queue("size: two"))
    assert [name for name, _ in check(engine="kubeconform")] == ["kubeconform/invalid"]
    assert [name for name, _ in check(engine="both")] == ["schema/wrong-type"]


def test_both_engines_report_a_syntax_error_once() -> None:
    write(queue="apiVersion: acme.com/v1\nkind: [Queue\n")
    assert [name for name, _ in check(engine="kubeconform")] == ["kubeconform/invalid"]
    assert [name for name, _ in check(engine="both")] == ["yaml/unreadable"]


@pytest.mark.parametrize("owner", ["platform", "tenant"])
def test_a_release_can_define_the_kinds_of_its_own_objects(owner: str, folder: Path) -> None:
    """`synth` and `validate` use the definition, and the account of the GitOps engine can apply the objects."""
    gitops = {"repository": "https://git.example.com/platform.git", "grant": True}
    platform = {**small_platform(), "gitops": gitops, "extra": [yaml.safe_load(DEFINITION)]}
    queue = yaml.safe_load(QUEUE.replace("SPEC", "size: 2"))
    if owner == "platform":
        platform["extra"].append(queue)
    else:
        platform["tenants"][0]["extra"] = [queue]
    assert synth(platform) == []
    (file,) = folder.glob("output/*/cluster/access/gitops.yaml")
    roles = [role for role in yaml.safe_load_all(file.read_text()) if role["kind"] == "ClusterRole"]
    granted = [rule["resources"] for role in roles for rule in role["rules"] if rule["apiGroups"] == ["acme.com"]]
    assert granted == [["queues"]]
    checked = validate(Subject([Path("output")]), "embedded", Path(".cache")).checked.findings
    assert [finding.check for finding in checked if finding.check.startswith("schema/")] == []
    queue["spec"]["size"] = "two"
    assert synth(platform) == ["schema/wrong-type"]


def test_folders_in_the_settings_have_schemas_for_objects_of_a_platform(folder: Path) -> None:
    (folder / "schemas").mkdir()
    (folder / "schemas/queues.yaml").write_text(DEFINITION, "utf-8")
    (folder / "mpigen.toml").write_text('schema-locations = ["schemas"]\n')
    read = load_settings(folder / "mpigen.toml", ())
    queue = yaml.safe_load(QUEUE.replace("SPEC", "size: 2"))
    platform = {**small_platform(), "extra": [queue]}
    assert synth(platform) == ["schema/no-schema"]
    assert synth(platform, read) == []
    queue["spec"]["size"] = "two"
    assert synth(platform, read) == ["schema/wrong-type"]


def synth(platform: dict[str, Any], settings: Settings | None = None) -> list[str]:
    """Return the checks of schemas that report an object of a platform."""
    Path("platform.yaml").write_text(yaml.safe_dump(platform))
    choices = Choices(adoption=Adoption(settings or Settings()))
    findings = pipeline.synth(Path("platform.yaml"), Path("output"), choices).outcome.findings
    return [finding.check for finding in findings if finding.check.startswith("schema/")]
