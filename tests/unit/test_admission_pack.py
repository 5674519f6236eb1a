"""Test the decisions of the admission policies, which tests/cluster compares with the API server."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from generator import App, Platform, pipeline
from generator.config.release_cases import own_cases
from generator.errors import ConfigError
from generator.facts.names import TENANT_LABEL
from generator.facts.table import read_table
from generator.manifests import Body, Manifest
from generator.policies.admission.parameters import add_parameters_of_tree
from generator.schemas.catalog import Catalog
from generator.upstream.kubernetes.admission_policies.cases import Case, compute_coverage, run_case
from generator.upstream.kubernetes.admission_policies.policy import PolicyCluster
from tests.conftest import EXAMPLES, ROOT, small_platform
from tests.policy_cases import FOLDERS, CaseFolder

_PACK = CaseFolder.of(next(folder for folder in FOLDERS if folder.name == "pack"))
_FOR_ALL = ("pack", "pack-claimed", "pack-efa", "pack-ib", "pack-separate", "pack-tcp")
_LONGEST_LINE = 180  # characters; a message may be one sentence
_CASES = [case for cases in _PACK.files.values() for case in cases]


@cache
def _world() -> PolicyCluster:
    return PolicyCluster(_PACK.manifests, Catalog.bundled())


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_every_case_has_its_expected_decision(case: Case) -> None:
    assert run_case(case, _world()).complaint == ""


@pytest.mark.parametrize("name", ["cost-labels", "openshift", "trainer-2.2"])
def test_every_case_of_another_platform_has_its_expected_decision(name: str) -> None:
    folder = CaseFolder.of(next(folder for folder in FOLDERS if folder.name == name))
    world = PolicyCluster(folder.manifests, Catalog.bundled())
    (cases,) = folder.files.values()
    assert [complaint for case in cases if (complaint := run_case(case, world).complaint)] == []


def test_the_cases_of_a_release_have_cost_labels_where_the_team_needs_them() -> None:
    """The jobs of other cases get the labels too, so that only the tested rule rejects a case."""
    folder = CaseFolder.of(next(folder for folder in FOLDERS if folder.name == "cost-labels"))
    ours = own_cases(folder.manifests)
    world = PolicyCluster([*folder.manifests, *ours[0].given], Catalog.bundled())
    assert [complaint for case in ours if (complaint := run_case(case, world).complaint)] == []
    assert {"a job whose pods lack a cost label", "a job with the cost label of another team"} <= {
        case.name for case in ours
    }


def test_every_validation_of_every_rule_rejects_a_case() -> None:
    """The cases of releases have fields that no API server stores today, which the rule `patches` rejects anyway."""
    ours = own_cases(_PACK.manifests)
    world = PolicyCluster([*_PACK.manifests, *ours[0].given], Catalog.bundled())
    rules = compute_coverage(world, [run_case(case, world) for case in [*_CASES, *ours]])
    assert len(rules) > 25
    idle = [rule.policy.name for rule in rules if not rule.rejecting]
    assert idle == []


def test_every_rule_has_a_description_and_a_section_of_the_docs() -> None:
    page = (ROOT / "docs/reference/admission-rules.md").read_text("utf-8")
    for name, body in _of("ValidatingAdmissionPolicy", _PACK.manifests).items():
        annotations = body["metadata"]["annotations"]
        assert annotations["mpigen.dev/description"].startswith("Stops ")
        file, _, section = annotations["mpigen.dev/docs"].partition("#")
        assert (file, section) == ("docs/reference/admission-rules.md", name.removeprefix("pack-"))
        assert f"\n## {section}\n" in page


def test_reviewers_read_cel_in_short_lines() -> None:
    for name, body in _of("ValidatingAdmissionPolicy", _PACK.manifests).items():
        spec = body["spec"]
        entries = [*spec.get("matchConditions", ()), *spec.get("variables", ()), *spec["validations"]]
        texts = [text for entry in entries for key, text in entry.items() if key.lower().endswith("expression")]
        longest = max((line for text in texts for line in text.split("\n")), key=len)
        assert len(longest) <= _LONGEST_LINE, (name, longest)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("labels", "kueue.x-k8s.io/queue-name"),
        ("labels", "jobset.sigs.k8s.io/"),
        ("annotations", "alpha.jobset.sigs.k8s.io/exclusive-topology"),
        ("annotations", "mpigen.dev/"),
        ("secrets", "*"),
        ("secrets", "a*b"),
        ("variables", "A=B"),
        ("nodeLabels", "example.com/"),
    ],
)
def test_admins_cannot_allow_keys_of_controllers_or_everything(field: str, value: str) -> None:
    policies = {"jobs": {"allow": {field: [value]}}}
    with pytest.raises(ConfigError, match=f"policies.jobs.allow.{field}"):
        Platform.model_validate(small_platform() | {"policies": policies})


@pytest.mark.parametrize("contact", ["Ada's team", "C:\\ops", '"ops"', "#ml on Slack"])
def test_the_contact_of_the_platform_ends_a_message(contact: str) -> None:
    policies = {"jobs": {"contact": contact}}
    platform = Platform.model_validate(small_platform() | {"policies": policies})
    tree = pipeline.render(platform, App(platform))
    cases = own_cases(tree)
    world = PolicyCluster([*tree, *cases[0].given], Catalog.bundled())
    case = next(case for case in cases if case.name == "a job that selects a node")
    (message,) = (decision.message for decision in run_case(case, world).decisions if not decision.holds)
    assert message.endswith(f"or ask {contact}")


def test_every_rule_applies_only_to_namespaces_of_its_platform() -> None:
    for body in _of("ValidatingAdmissionPolicyBinding", _PACK.manifests).values():
        selected = body["spec"].get("matchResources", {}).get("namespaceSelector", {}).get("matchLabels", {})
        assert selected.get("app.kubernetes.io/part-of") == "pack" or body["metadata"]["name"] in {
            "pack-generated",
            "pack-runtime-images",
        }


def test_a_rule_can_warn_or_audit_instead_of_rejecting() -> None:
    bindings = _of("ValidatingAdmissionPolicyBinding", _rendered({"default": "warn", "rules": {"queue": "audit"}}))
    actions = {name: body["spec"]["validationActions"] for name, body in bindings.items()}
    assert actions.pop("small-queue") == ["Audit"]
    assert set(map(tuple, actions.values())) == {("Warn", "Audit")}


def test_a_rule_that_is_off_is_not_rendered() -> None:
    assert _of("ValidatingAdmissionPolicy", _rendered("off")) == {}
    found = _of("ValidatingAdmissionPolicy", _rendered({"rules": {"priority": "off"}}))
    assert "small-queue" in found
    assert "small-priority" not in found


def test_rules_without_settings_are_not_rendered() -> None:
    found = _of("ValidatingAdmissionPolicy", _rendered({}))
    assert not {"small-images", "small-runtime-images", "small-labels", "small-size"} & found.keys()


def test_runtimes_that_admins_add_are_available_to_tenants() -> None:
    named = {
        found.name: found.body["metadata"]["annotations"]["mpigen.dev/runtimes"]
        for found in _PACK.manifests
        if TENANT_LABEL in found.labels
    }
    everywhere = [f"ClusterTrainingRuntime/{name}" for name in _FOR_ALL]
    assert named["pack-a"] == named["pack-a-dev"] == ",".join(everywhere)
    assert named["pack-b"] == ",".join([*everywhere, "TrainingRuntime/pack-b", "TrainingRuntime/pack-own-ib"])


def _rendered(admission: object) -> list[Manifest]:
    platform = Platform.model_validate(small_platform() | {"policies": {"admission": admission}, "platform": "small"})
    return pipeline.render(platform, App(platform))


def _of(kind: str, manifests: list[Manifest] | tuple[Manifest, ...]) -> dict[str, Body]:
    return {found.name: found.body for found in manifests if found.kind == kind}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_release_has_cases_for_all_its_rules(name: str) -> None:
    platform, app = pipeline.load(EXAMPLES[name])
    tree = pipeline.render(platform, app)
    cases = own_cases(tree)
    world = PolicyCluster([*tree, *cases[0].given], Catalog.bundled())
    outcomes = [run_case(case, world) for case in cases]
    assert [outcome.complaint for outcome in outcomes if outcome.complaint] == []
    idle = {rule.policy.name for rule in compute_coverage(world, outcomes) if not rule.rejecting}
    assert idle == set()


def test_the_pack_with_every_rule_has_cases_for_all_of_them() -> None:
    cases = own_cases(_PACK.manifests)
    world = PolicyCluster([*_PACK.manifests, *cases[0].given], Catalog.bundled())
    outcomes = [run_case(case, world) for case in cases]
    assert [outcome.complaint for outcome in outcomes if outcome.complaint] == []
    idle = {rule.policy.name for rule in compute_coverage(world, outcomes) if not rule.rejecting}
    assert idle == set()


def test_cases_use_a_team_without_an_exemption() -> None:
    data = small_platform()
    data["tenants"][0]["relax"] = [{"rule": "priority", "reason": "a case", "until": "2099-12-31"}]
    platform = Platform.model_validate(data)
    tree = pipeline.render(platform, App(platform))
    cases = own_cases(tree)
    world = PolicyCluster([*tree, *cases[0].given], Catalog.bundled())
    assert [outcome.complaint for case in cases if (outcome := run_case(case, world)).complaint] == []
    tried = {case.namespace for case in cases if case.name == "a job with a priority that the team may not use"}
    assert tried == {platform.tenants[1].name}


def test_foreign_policies_have_no_generated_cases() -> None:
    folder = CaseFolder.of(next(folder for folder in FOLDERS if folder.name == "semantics"))
    assert own_cases(folder.manifests) == []


@pytest.mark.parametrize("odd", [None, [], "text", 7, {"labels": []}, {"labels": "text"}, {"annotations": [1]}])
def test_objects_with_malformed_metadata_have_no_generated_cases(odd: object) -> None:
    """Input files may have any shape, and an object may lack its metadata."""
    usual, metadata = own_cases(_PACK.manifests), {} if odd is None else {"metadata": odd}
    for kind in sorted({manifest.kind for manifest in _PACK.manifests}):
        changed = [
            replace(each, body={**{key: each.body[key] for key in each.body if key != "metadata"}, **metadata})
            for each in _PACK.manifests
            if each.kind == kind
        ]
        assert own_cases([*changed, *_PACK.manifests]) == usual


def test_a_time_limit_with_too_many_digits_is_ignored() -> None:
    key = "mpigen.dev/seconds-per-job"
    homes = [each for each in _PACK.manifests if each.kind == "Namespace"]
    odd = [replace(each, body=_annotated(each.body, {key: "9" * 5_000})) for each in homes]
    others = [each for each in _PACK.manifests if each.kind != "Namespace"]
    assert own_cases([*odd, *others])


def _annotated(body: Body, annotations: dict[str, str]) -> Body:
    metadata = body["metadata"]
    return {**body, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **annotations}}}


@pytest.mark.parametrize("version", ["2.2", "2.3"])
def test_the_rule_patches_lists_all_fields_of_trainjobs_but_claims(version: str) -> None:
    schema = Catalog.bundled({"trainer": version}).schema("trainer.kubeflow.org/v1alpha1", "TrainJob")
    assert schema
    unlisted, other = set(), set()
    for path, fields in read_table("job_fields", "generator.policies.admission").items():
        found = schema
        for name in path.replace("[]", "").split("."):
            found = _resolved(found["properties"][name], schema)
            found = _resolved(found.get("items", found), schema)
        unlisted |= {f"{path}.{field}" for field in found["properties"].keys() - set(fields)}
        other |= {f"{path}.{field}" for field in set(fields) - found["properties"].keys()}
    assert unlisted == {"spec.trainer.resourcesPerNode.claims"}
    assert other == set()


def _resolved(part: Body, schema: Body) -> Body:
    """Return the definition that a part of a schema refers to."""
    return schema["definitions"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part


def test_a_job_cannot_have_the_name_of_a_service_of_the_release() -> None:
    platform = Platform.model_validate(small_platform())
    team = platform.tenants[0].name
    service = Manifest(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "mlflow", "namespace": team}},
        f"{team}/mlflow.yaml",
    )
    tree = add_parameters_of_tree([*pipeline.render(platform, App(platform)), service])
    cases = own_cases(tree)
    world = PolicyCluster([*tree, *cases[0].given], Catalog.bundled())
    case = next(case for case in cases if case.name == "a valid job" and case.namespace == team)
    assert case.object
    named = {**case.object, "metadata": {**case.object["metadata"], "name": "mlflow"}}
    messages = [each.message for each in run_case(replace(case, object=named), world).decisions if not each.holds]
    assert len(messages) == 1
    assert "the name mlflow can belong to a Service" in messages[0]
