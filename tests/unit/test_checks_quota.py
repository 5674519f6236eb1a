"""Test that quota findings agree with Kueue's arithmetic, and that unknown values have no findings."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from pathlib import Path

import pytest

from generator import App
from generator.checks import run
from generator.checks.finding import Breach
from generator.checks.objects import Objects
from generator.checks.quota.queues import Queues
from generator.manifests import Manifest, read
from generator.objects.queue import FlavorResource
from generator.pipeline import render
from generator.quantities import parse
from generator.upstream.kueue.configuration import Counting, Settings, Transformation, read_settings
from generator.upstream.kueue.largest import largest_jobs
from generator.upstream.kueue.queues import read_queue_tree
from tests.checks import CASES
from tests.conftest import ROOT
from tests.random_platforms import random_platform

RELEASES = sorted((ROOT / "output").glob("*/release.json"))
QUEUES = {name: case for name, case in CASES.items() if case.family == "quota"}


def objects(text: str, file: str = "x.yaml") -> list[Manifest]:
    return list(read(text, file))


def breaches(manifests: list[Manifest]) -> list[tuple[Manifest, Breach]]:
    return list(run.judge_together(manifests, {"kueue": "0.19", "trainer": "2.3"}))


def checks(text: str) -> set[str]:
    return {breach.check for _, breach in breaches(objects(text))}


def two(name: str, text: str) -> str:
    """Return a case together with another object."""
    return f"{CASES[name].bad}---\n{text}"


@pytest.mark.slow
@pytest.mark.parametrize("counts_otherwise", [False, True], ids=["as asked", "otherwise"])
@pytest.mark.parametrize("first", range(0, 100, 20))
def test_a_runtime_is_too_large_if_its_largest_job_has_no_nodes(first: int, counts_otherwise: bool) -> None:
    """Queues without any quota of the needed resources are left out."""
    told = fine = 0
    for number in range(first, first + 20):
        platform = random_platform(number, counts_otherwise=counts_otherwise)
        tree = render(platform, App(platform))
        assert [each.message for _, each in breaches(tree) if each.severity == "error"] == []
        found = {
            (each.name, breach.message.split("`")[1]) for each, breach in breaches(tree) if "large" in breach.check
        }
        for each in largest_jobs(read_queue_tree(tree), tree):
            is_told = (each.queue, each.runtime) in found
            assert not is_told or each.idle == 0, (number, each)
            assert is_told or each.idle != 0 or has_nothing(tree, each.queue, each.runtime), (number, each)
            told, fine = told + is_told, fine + (each.idle != 0)
    assert told
    assert fine > told


def has_nothing(tree: list[Manifest], queue: str, runtime: str) -> bool:
    """Return True if a queue has no quota of a resource of the runtime, on the flavor with its own name."""
    known = Queues.read(Objects(tuple(tree), {}))
    assert known
    job = next(job for job in known.jobs[queue] if job.runtime.name == runtime)
    flavors = frozenset(known.tree.flavors).intersection(*job.flavors)
    most = known.most[queue]
    return any(not any(most.get(FlavorResource(name, each)) for name in flavors) for each in job.total)


@pytest.mark.parametrize("lock", RELEASES, ids=lambda lock: lock.parent.parent.name)
def test_rendered_releases_have_no_quota_errors_or_warnings(lock: Path) -> None:
    tree = [found for file in sorted(lock.parent.rglob("*.yaml")) for found in read(file.read_bytes(), str(file))]
    assert {each.kind for each in tree} >= {"ClusterQueue", "LocalQueue", "ResourceFlavor"}
    assert [breach.message for _, breach in breaches(tree) if breach.severity != "info"] == []


def test_files_of_several_clusters_are_not_computed_together() -> None:
    """The files give the queue 4 and 16 devices."""
    other = next(part for part in CASES["quota/too-large"].bad.split("---\n") if "kind: ClusterQueue" in part)
    text = two("quota/too-large", other.replace("nvidia.com/gpu, nominalQuota: 4", "nvidia.com/gpu, nominalQuota: 16"))
    assert Queues.read(Objects(tuple(objects(text)), {})) is None
    assert checks(text) == {"object/duplicate"}
    assert checks(CASES["quota/too-large"].bad) == {"quota/too-large"}


def test_an_invalid_amount_disables_only_computed_checks() -> None:
    text = CASES["quota/repeated-resource"].bad.replace("nominalQuota: 64", "nominalQuota: many")
    assert Queues.read(Objects(tuple(objects(text)), {})) is None
    assert checks(text) == {"quota/repeated"}


@pytest.mark.parametrize("kind", ["Cohort", "ClusterQueue", "ResourceFlavor"])
def test_objects_with_generate_name_are_ignored(kind: str) -> None:
    text = f"apiVersion: kueue.x-k8s.io/v1beta2\nkind: {kind}\nmetadata: {{generateName: a-}}\nspec: {{}}\n"
    for case in QUEUES.values():
        assert checks(f"{case.good}---\n{text}") == checks(case.good)


def test_expired_reservations_need_a_date() -> None:
    manifests = objects(CASES["quota/reservation-over"].bad)
    assert breaches(manifests) == []
    days = {day: list(run.judge_together(manifests, {}, day)) for day in map(dt.date.fromisoformat, DAYS)}
    assert [[breach.message.partition(" ended")[0] for _, breach in found] for found in days.values()] == [
        [],
        ["the reservation `icml`"],
        ["the reservation `icml`", "the reservation `neurips`"],
    ]


DAYS = ("2026-01-31", "2026-02-01", "2027-06-01")


def test_capacity_checks_need_node_annotations() -> None:
    text = CASES["quota/over-capacity"].bad
    assert checks(text) == {"quota/over-capacity"}
    for annotation in ("mpigen.dev/nodes", "mpigen.dev/allocatable"):
        assert checks(text.replace(annotation, "example.com/other")) == set()


CONFIGURATION = "apiVersion: config.kueue.x-k8s.io/{version}\nkind: Configuration\n{text}\n"
OPERATOR = (
    "apiVersion: kueue.openshift.io/v1\nkind: Kueue\nspec: {{config: {{preemption: {{preemptionPolicy: {0}}}}}}}\n"
)


COUNTED = Counting(classes={})
"""A configuration without device class mappings counts no claims."""


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((), Settings()),
        ((CONFIGURATION.format(version="v1beta2", text="fairSharing: {}"),), Settings(True, COUNTED)),
        ((CONFIGURATION.format(version="v1beta2", text=""),), Settings(False, COUNTED)),
        ((CONFIGURATION.format(version="v1beta1", text="fairSharing: {}"),), Settings(False, COUNTED)),
        ((CONFIGURATION.format(version="v1beta1", text="fairSharing: {enable: true}"),), Settings(True, COUNTED)),
        ((OPERATOR.format("FairSharing"),), Settings(True, COUNTED)),
        ((OPERATOR.format("Classical"),), Settings(False, COUNTED)),
        ((OPERATOR.format("FairSharing"), OPERATOR.format("Classical")), Settings()),
        (
            (
                CONFIGURATION.format(
                    version="v1beta2",
                    text="resources: {excludeResourcePrefixes: [x/], transformations: [{input: a, outputs: {b: 500m}}, "
                    "{input: c, strategy: Replace}]}",
                ),
            ),
            Settings(
                is_fair=False,
                counting=Counting(
                    ("x/",),
                    {"a": Transformation({"b": Fraction(1, 2)}), "c": Transformation({}, keeps_input=False)},
                    {},
                ),
            ),
        ),
        *(
            (
                (
                    CONFIGURATION.format(
                        version="v1beta2", text=f"resources: {{transformations: [{{input: a, {more}}}]}}"
                    ),
                ),
                Settings(False, COUNTED, is_modelled=False),
            )
            for more in ("multiplyBy: c, outputs: {b: 1}", "outputs: {b: -1}", "outputs: {b: much}")
        ),
        (
            (CONFIGURATION.format(version="v1beta2", text="resources: {quotaCheckStrategy: IgnoreUndeclared}"),),
            Settings(False, COUNTED, is_modelled=False),
        ),
    ],
)
def test_the_kueue_configuration_is_read_from_any_file(texts: tuple[str, ...], expected: Settings) -> None:
    assert read_settings(each for text in texts for each in objects(text)) == expected


def test_unsupported_kueue_settings_disable_quota_checks() -> None:
    silent = CONFIGURATION.format(version="v1beta2", text="resources: {quotaCheckStrategy: IgnoreUndeclared}")
    for name in ("quota/uncovered", "quota/too-large", "quota/never-admitted"):
        assert checks(two(name, silent)) == set()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("{image: x, numNodes: 3}", "at most 2 on runtime `torch`: 3 nodes take"),
        (
            "{image: x, numNodes: 9, resourcesPerNode: {limits: {cpu: 16, nvidia.com/gpu: 2}}}",
            "at most 8 on runtime `torch`: 9 nodes take",
        ),
        ("{image: x, numNodes: 2}", ""),
        ("{image: x}", ""),
    ],
)
def test_a_trainjob_finding_contains_the_largest_size(change: str, expected: str) -> None:
    text = CASES["quota/never-admitted-topology"].bad
    job = next(line for line in text.splitlines() if line.startswith("  trainer: "))
    quota_of_cpu = text.replace("name: cpu, nominalQuota: 64", "name: cpu, nominalQuota: 999")
    found = [breach.message for _, breach in breaches(objects(quota_of_cpu.replace(job, f"  trainer: {change}")))]
    assert [expected in each for each in found] == ([True] if expected else [])


@pytest.mark.parametrize("field", ["tolerations: []", "affinity: {}"])
def test_a_trainjob_with_its_own_placement_is_not_checked(field: str) -> None:
    pod = f"template: {{spec: {{template: {{spec: {{{field}}}}}}}}}"
    template = f"template: {{spec: {{replicatedJobs: [{{name: node, {pod}}}]}}}}"
    patch = f"{{manager: example.com/a, trainingRuntimeSpec: {{{template}}}}}"
    text = CASES["quota/never-admitted"].bad
    assert checks(text.replace("  trainer: ", f"  runtimePatches: [{patch}]\n  trainer: ")) == set()
    assert checks(text.replace("  trainer: ", "  managedBy: kueue.x-k8s.io/multikueue\n  trainer: ")) == set()


def test_the_fix_of_a_double_counted_quota_is_sufficient_and_minimal() -> None:
    """The recommended quota resolves the finding, and one less does not."""
    text = CASES["quota/double-counted"].bad
    (_, breach), *others = breaches(objects(text))
    enough = int(parse(breach.fix.split()[1]).value)
    assert others == []
    assert checks(text.replace("requests.nvidia.com/gpu: 8", f"requests.nvidia.com/gpu: {enough}")) == set()
    assert checks(text.replace("requests.nvidia.com/gpu: 8", f"requests.nvidia.com/gpu: {enough - 1}")) != set()


CHECK = """apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: others}
spec: {controllerName: kueue.x-k8s.io/multikueue}
"""


@pytest.mark.parametrize("case", ["quota/too-large-nodes", "quota/double-counted"])
def test_multikueue_queues_have_no_local_nodes_or_pods(case: str) -> None:
    away = "  admissionChecksStrategy: {admissionChecks: [{name: others}]}\n  namespaceSelector"
    text = CASES[case].bad.replace("  namespaceSelector", away)
    assert checks(text) == {CASES[case].check}
    assert checks(f"{CHECK}---\n{text}") == set()


SPLIT = """apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team-cv}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {name: cores, resources: [{name: cpu, nominalQuota: 16}]}
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - {name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}
"""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, set()),
        ({"gpu, nominalQuota: 8": "gpu, nominalQuota: 7"}, {"quota/too-large"}),
        ({"cpu, nominalQuota: 16": "cpu, nominalQuota: 15"}, {"quota/too-large"}),
        ({"gpu, nominalQuota: 8": "gpu, nominalQuota: 0"}, set()),
    ],
)
def test_every_resource_group_has_its_own_flavors(change: dict[str, str], expected: set[str]) -> None:
    parts = [part for part in CASES["quota/too-large"].bad.split("---\n") if "kind: ClusterQueue" not in part]
    cores = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: cores}\nspec: {}\n"
    split = SPLIT
    for before, after in change.items():
        split = split.replace(before, after)
    assert checks("---\n".join([*parts, cores, split])) == expected


@pytest.mark.parametrize(
    ("name", "expected"), [("missing-flavor", "error"), ("missing-queue", "error"), ("missing-cohort", "warning")]
)
def test_a_dangling_reference_is_an_error_in_a_complete_release(name: str, expected: str) -> None:
    """Kueue does not need a Cohort object for a cohort."""
    manifests, targets = objects(CASES[f"quota/{name}"].bad), {"kueue": "0.19", "trainer": "2.3"}
    severities = {
        is_complete: [
            each.severity for _, each in run.judge_together(manifests, targets, files=() if is_complete else None)
        ]
        for is_complete in (False, True)
    }
    assert severities == {False: ["warning"], True: [expected]}
