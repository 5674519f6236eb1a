"""Test `mpigen queues`: quotas of a platform or of manifests."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import EXAMPLES, ROOT, Run

QUEUES = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: here}
spec:
  cohortName: NAMED
  namespaceSelector: {}
  preemption: {reclaimWithinCohort: Any}
  resourceGroups:
    - coveredResources: [cpu, a.com/gpu]
      flavors:
        - name: gpus
          resources:
            - {name: cpu, nominalQuota: 64}
            - {name: a.com/gpu, nominalQuota: 12, borrowingLimit: 4, lendingLimit: 8}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: default, namespace: team}
spec: {clusterQueue: here}
"""
FLAVOR = """\
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata:
  name: gpus
  annotations: {mpigen.dev/nodes: "4", mpigen.dev/allocatable: '{"cpu": "32", "a.com/gpu": "8"}'}
"""
COHORTS = """\
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: one}
spec: {parentName: two}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: two}
spec: {parentName: one}
"""


def test_queues_help_has_an_example(mpigen: Run) -> None:
    ran = mpigen("queues", "--help")
    assert (ran.returncode, "Example" in ran.stdout) == (0, True)


def test_queues_renders_a_platform_and_computes_its_quotas(mpigen: Run) -> None:
    ran = mpigen("queues", "--details", "--release", EXAMPLES["cpu-kubernetes"])
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == (
        "QUEUE       FLAVOR  RESOURCE  NOMINAL  MAY BORROW  LENDS  OWNED  RECLAIMABLE  IDLE   NODES\n"
        "cpu-kubernetes\n"
        "  team-sim  cpu     cpu       48       0           all    48     48           48     3 of 3\n"
        "  team-sim  cpu     memory    192Gi    0           all    192Gi  192Gi        192Gi  3 of 3\n"
        "\n"
        "The largest TrainJob, in nodes (`numNodes`):\n"
        "QUEUE     NAMESPACE  RUNTIME  OWNED  RECLAIMABLE  IDLE  WHY NOT MORE\n"
        "team-sim  team-sim   openmpi  3      3            3     "
        "4 nodes take 56 cpu of flavor `cpu`, and `team-sim` never gets more than 48\n"
        "\n"
        "Computed by the rules of Kueue 0.19.\n"
    )


def test_a_queue_has_one_row_in_nodes_and_devices(mpigen: Run) -> None:
    ran = mpigen("queues", "--release", EXAMPLES["openshift-h100"])
    assert ran.stdout == (
        "QUEUE           QUOTA\n"
        "openshift-h100  -\n"
        "  team-cv       h100 6 to 14 of 16 nodes (48 to 112 nvidia.com/gpu); cpu 10 of 40 nodes\n"
        "  team-nlp      h100 8 to 14 of 16 nodes (64 to 112 nvidia.com/gpu); cpu 10 of 40 nodes\n"
        "  team-weather  h100 2 of 16 nodes (16 nvidia.com/gpu); cpu 20 to 40 of 40 nodes\n"
        "\n"
        "The largest TrainJob on each runtime, in pods (`numNodes`). A pod can be smaller than a node:\n"
        "QUEUE         RUNTIMES\n"
        "team-cv       openmpi-cpu 11; openmpi-h100 6 to 14\n"
        "team-nlp      openmpi-cpu 11; openmpi-h100 8 to 14\n"
        "team-weather  openmpi-cpu 22 to 40; openmpi-h100 2\n"
        "\n"
        "`A to B` of a quota: A is the nominal quota, and B is available while the other queues use nothing.\n"
        "`A to B` of a job in an idle queue: Kueue always admits A pods, and B while the other queues use nothing.\n"
        "`--details` shows all resources, the effect of preemption, and why no larger job fits.\n"
    )


def test_queues_of_manifests_are_printed_in_devices_and_nodes(mpigen: Run) -> None:
    ran = mpigen("queues", "--details", "--release", "-", stdin=QUEUES.replace("NAMED", "all") + FLAVOR)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == (
        "QUEUE   FLAVOR  RESOURCE   NOMINAL  MAY BORROW  LENDS  OWNED  RECLAIMABLE  IDLE  NODES\n"
        "all (no Cohort object has this name, so the cohort has no quota of its own)\n"
        "  here  gpus    a.com/gpu  12       4           8      12     12           12    1.5 of 4\n"
        "\n"
        "Computed by the rules of Kueue 0.19.\n"
    )


def test_multikueue_queues_have_nodes_in_other_clusters(mpigen: Run) -> None:
    away = "  admissionChecks: [others]\n  namespaceSelector"
    check = "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: AdmissionCheck\nmetadata: {name: others}\n"
    check += "spec: {controllerName: kueue.x-k8s.io/multikueue}\n"
    text = QUEUES.replace("  namespaceSelector", away).replace("nominalQuota: 12", "nominalQuota: 96") + FLAVOR + check
    ran = mpigen("queues", "--details", "--release", "-", stdin=text)
    assert ran.stdout.splitlines()[2].endswith("  12 elsewhere")
    assert "gpus 12 nodes elsewhere (96 a.com/gpu)" in mpigen("queues", "--release", "-", stdin=text).stdout
    assert json.loads(mpigen("queues", "--release", "-", "--format", "json", stdin=text).stdout)["summary"]["queues"][
        0
    ]["elsewhere"]


def test_many_teams_fit_on_a_screen(mpigen: Run) -> None:
    ran = mpigen("queues", "--details", "--release", ROOT / "output" / "university")
    assert (ran.returncode, ran.stderr) == (0, "")
    tree, _, jobs = ran.stdout.partition("\n\n")
    assert max(map(len, tree.splitlines())) < 120
    assert "  science\n" in tree
    assert len({line.split()[0] for line in jobs.splitlines() if " openmpi-mi300x " in line}) == 12


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (QUEUES.replace("NAMED", "all"), "here (admits nothing: there is no ResourceFlavor `gpus`)"),
        (QUEUES.replace("NAMED", "one") + FLAVOR + COHORTS, "its parent is two, which has this cohort as an ancestor"),
        (QUEUES.replace("NAMED", "one") + FLAVOR + COHORTS, "the parents of its cohort form a cycle: `one` → `two`"),
        (
            QUEUES.replace("clusterQueue: here", "clusterQueue: there"),
            "references a ClusterQueue that these files do not",
        ),
        (
            QUEUES.replace("clusterQueue: here", "clusterQueue: there"),
            "`here` receives no jobs: no LocalQueue references it. Other queues of cohort `NAMED` can borrow its quota",
        ),
        (
            QUEUES.replace("clusterQueue: here", "clusterQueue: there").replace("  cohortName: NAMED\n", ""),
            "ClusterQueue `here` receives no jobs: no LocalQueue references it.\n",
        ),
    ],
    ids=["flavor", "circle", "in-circle", "astray", "closed", "closed-alone"],
)
def test_missing_flavors_queues_and_cohort_cycles_are_reported(
    text: str, told: str, mpigen: Run, tmp_path: Path
) -> None:
    (tmp_path / "queues.yaml").write_text(text)
    ran = mpigen("queues", "--details", "--release", "queues.yaml")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert told in ran.stdout
    short = told.partition(" Other queues")[0].removeprefix("here (").removeprefix("ClusterQueue ").strip("`\n).")
    assert short.replace("here` ", "") in mpigen("queues", "--release", "queues.yaml").stdout


def test_json_output_has_every_amount(mpigen: Run) -> None:
    ran = mpigen("queues", "--release", "-", "--format", "json", stdin=QUEUES.replace("NAMED", "all") + FLAVOR)
    summary = json.loads(ran.stdout)["summary"]
    assert summary["cohorts"] == [{"name": "all", "parent": "", "declared": False, "cyclic": False}]
    (queue,) = summary["queues"]
    assert (queue["name"], queue["localQueues"], queue["admitsNothing"]) == ("here", ["team/default"], "")
    expected = {
        "nominal": "64",
        "borrowing": None,
        "lending": None,
        "owned": "64",
        "reclaimable": "64",
        "idle": "64",
        "reason": "",
    }
    assert queue["quotas"][0] == {"flavor": "gpus", "resource": "cpu", **expected}


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        (QUEUES.replace("64", "lots"), 2, "ClusterQueue here, flavor gpus, nominalQuota: cpu is not a quantity"),
        ("a: [", 2, "queues.yaml:1"),
    ],
    ids=["amount", "yaml"],
)
def test_invalid_amounts_and_yaml_are_reported(text: str, code: int, told: str, mpigen: Run, tmp_path: Path) -> None:
    (tmp_path / "queues.yaml").write_text(text)
    ran = mpigen("queues", "--release", "queues.yaml")
    assert ran.returncode == code
    assert told in ran.stderr
    assert "Traceback" not in ran.stderr


def test_files_without_queues_print_a_note(mpigen: Run, tmp_path: Path) -> None:
    (tmp_path / "map.yaml").write_text("kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n")
    ran = mpigen("queues", "--release", "map.yaml")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == "these files hold no ClusterQueue, so no namespace has quota\n"
    as_data = mpigen("queues", "--release", "map.yaml", "--format", "json")
    assert (as_data.returncode, json.loads(as_data.stdout)["summary"]["queues"]) == (0, [])
    astray = mpigen("queues", "--release", "-", stdin=QUEUES.split("---\n")[1])
    assert astray.stdout.endswith(
        "\nLocalQueue `team/default` references a ClusterQueue that these files do not define.\n"
    )


def test_an_empty_folder_is_an_input_error(mpigen: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    ran = mpigen("queues", "--release", "empty")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "error: no manifests below empty; name files, or folders of YAML or JSON files\n"


@pytest.mark.slow
def test_deep_cohort_trees_and_cycles_are_accepted(tmp_path: Path, mpigen: Run) -> None:
    deep = sys.getrecursionlimit() + 100
    groups = [{"name": "g0"}, *({"name": f"g{number}", "parent": f"g{number - 1}"} for number in range(1, deep))]
    platform = yaml.safe_load((ROOT / "examples/cpu-kubernetes/platform.yaml").read_text("utf-8"))
    platform |= {"cohorts": groups}
    platform["tenants"][0]["cohort"] = f"g{deep - 1}"
    (tmp_path / "platform.yaml").write_text(json.dumps(platform))
    assert mpigen("synth", "platform.yaml").returncode == 0
    assert mpigen("validate", "output").returncode == 0
    assert mpigen("queues", "--release", "output").stdout.count(" g") >= deep
    groups[0]["parent"] = f"g{deep - 1}"
    (tmp_path / "platform.yaml").write_text(json.dumps(platform))
    ran = mpigen("synth", "platform.yaml")
    assert (ran.returncode, ran.stderr.count("form a cycle: g")) == (2, 1000)
    assert f"and {deep - 1000} more problems" in ran.stderr
    assert max(map(len, ran.stderr.splitlines())) < 400


def test_a_tenant_sees_its_queue_and_the_cohorts_above(mpigen: Run) -> None:
    release = ROOT / "output" / "university"
    ran = mpigen("queues", "--release", release, "--tenant", "chem")
    view, rows = (block.splitlines() for block in ran.stdout.split("\n\n")[:2])
    assert view[:5] == [
        "tenant          chem",
        "runtimes        openmpi-cpu, openmpi-cpu-hybrid, openmpi-mi300x",
        "namespaces      chem",
        "role admin      group:chem-staff",
        "role edit       group:chem-researchers",
    ]
    assert view[-2:] == ["each job        no limit", "each namespace  1000 TrainJobs"]
    rows = [line.split()[0] for line in rows]
    assert (ran.returncode, rows) == (0, ["QUEUE", "university", "science", "environment", "chem"])
    summary = json.loads(mpigen("queues", "--release", release, "--tenant", "chem", "--format", "json").stdout)[
        "summary"
    ]
    assert [queue["name"] for queue in summary["queues"]] == ["chem"]
    assert {job["queue"] for job in summary["largestJobs"]} == {"chem"}
    every = json.loads(mpigen("queues", "--release", release, "--format", "json").stdout)["summary"]
    assert summary["queues"][0] in every["queues"]
    wrong = mpigen("queues", "--release", release, "--tenant", "chen")
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "error: --tenant: the cluster has no tenant `chen`; did you mean `chem`?\n",
    )
