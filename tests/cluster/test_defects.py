"""Test on real controllers the defects of generator/facts/defects.yaml that no other test covers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from generator.facts.defects import known
from tests.cluster.changing import Changing, changing
from tests.cluster.client import Body, Client, wait_for, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.hand_written import create
from tests.cluster.training import ROLE, conditions
from tests.cluster.trees import is_gone
from tests.unit.test_schemas_defaulted import JOB_SET, runtime

pytestmark = pytest.mark.cluster

_KUEUE = "kueue.x-k8s.io/v1beta2"
_JOB_SET = "jobset.x-k8s.io/v1alpha2"
_HOST = "kubernetes.io/hostname"
_RACK = "tests.mpigen.dev/rack"
_QUIET = 10  # seconds in which Kueue decides on a job


@pytest.fixture
def place(admin: Client, namespace: str) -> Iterator[Changing]:
    """A runtime, and a queue for its jobs."""
    yield from changing(admin, namespace)


def has(defect: str, component: str, cluster: Cluster) -> bool:
    """Return True if the release of a component that runs here has a defect."""
    return known(defect).is_in(component, cluster.versions[component].version) is True


def job_set(place: Changing) -> str:
    """Return the UID of the JobSet of the TrainJob; empty while there is none."""
    found = place.admin.items(_JOB_SET, "JobSet", place.namespace)
    return str(found[0]["metadata"]["uid"]) if found else ""


def test_a_failed_job_runs_again_outside_its_quota_after_its_job_set_expires(place: Changing) -> None:
    place.change("            backoffLimit: 0\n", "            backoffLimit: 0\n            activeDeadlineSeconds: 3\n")
    place.change("      network:", "      ttlSecondsAfterFinished: 0\n      network:")
    place.submit()
    first = wait_for("a JobSet", lambda: job_set(place) or None)
    wait_until("Kueue takes the job for finished", place.is_finished)
    second = wait_for("another JobSet", lambda: (job_set(place) not in ("", first) and job_set(place)) or None)
    wait_until("its pods run, and nothing is charged", lambda: bool(running(place)) and place.charged() == "0")
    before = running(place)
    wait_until("Kueue stops them, and Trainer starts others", lambda: bool(running(place) - before))
    assert job_set(place) == second


def running(place: Changing) -> set[str]:
    """Return the UIDs of the pods that run now."""
    return {pod["metadata"]["uid"] for pod in place.pods() if pod["status"]["phase"] == "Running"}


def test_a_failed_job_without_a_queue_runs_repeatedly(place: Changing) -> None:
    place.change("            parallelism: 1\n", "            parallelism: 1\n            activeDeadlineSeconds: 1\n")
    place.change("      network:", "      ttlSecondsAfterFinished: 0\n      network:")
    body = place.job
    del body["metadata"]["labels"]
    wait_until("the TrainJob is taken", lambda: place.takes(body))
    seen: set[str] = set()

    def is_third() -> bool:
        seen.add(job_set(place))
        return len(seen - {""}) > 2

    wait_until("there was a third JobSet", is_third)


def test_job_set_defaults_names_of_failure_rules_only_in_job_sets(admin: Client, namespace: str) -> None:
    """tests/unit/test_schemas_defaulted.py tests the same without a cluster."""
    job_set, body = yaml.safe_load(JOB_SET), yaml.safe_load(runtime())
    job_set["metadata"]["namespace"] = namespace
    admin.create(job_set)
    (rule,) = admin.read(job_set)["spec"]["failurePolicy"]["rules"]
    assert rule["name"] == "failurePolicyRule0"
    assert "failurePolicy.rules[0].name: Required value" in create(admin, body)


def test_flavor_tolerations_replace_runtime_tolerations_in_the_launcher(place: Changing) -> None:
    """JobSet merges them into Jobs from before the admission, but not into the launcher, which it creates later."""
    for user in ("{runAsUser: 1000, fsGroup: 1000}", "{fsGroup: 1000, runAsUser: 1000}"):
        line = f"                securityContext: {user}\n"
        place.change(line, f"{line}                tolerations: [{{key: tests.mpigen.dev/mine, operator: Exists}}]\n")
    place.submit()
    place.running()
    keys = {
        pod["metadata"]["labels"][ROLE]: {each.get("key", "") for each in pod["spec"]["tolerations"]}
        for pod in place.pods()
    }
    assert {role for role, found in keys.items() if "tests.mpigen.dev/changing" in found} == {"node", "launcher"}
    assert {role for role, found in keys.items() if "tests.mpigen.dev/mine" in found} == {"node"}


def test_trainer_2_2_runs_jobs_that_multikueue_manages(cluster: Cluster, place: Changing) -> None:
    """Trainer has to run the last created job, so the test waits for that one."""
    bodies = {
        name: {**place.job, "metadata": {"name": name, "namespace": place.namespace}} for name in ("away", "here")
    }
    bodies["away"]["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    for body in bodies.values():
        assert create(place.admin, body) == ""

    def made(name: str) -> bool:
        return place.admin.exists({**bodies[name], "apiVersion": _JOB_SET, "kind": "JobSet"})

    wait_until("Trainer runs its own job", lambda: made("here"))
    if has("trainer-runs-jobs-of-multi-kueue", "trainer", cluster):
        wait_until("Trainer runs the other job too", lambda: made("away"))
    else:
        assert not made("away")
    for body in bodies.values():
        place.admin.delete(body)


def kueue(kind: str, name: str, spec: Body, namespace: str = "") -> Body:
    """Return an object of Kueue."""
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": _KUEUE, "kind": kind, "metadata": {"name": name, **where}, "spec": spec}


def pods(name: str, count: int, cpu: int, **more: Any) -> Body:
    """Return a pod set of a Workload."""
    box = {"name": "c", "image": "x", "resources": {"requests": {"cpu": str(cpu)}}}
    return {"name": name, "count": count, "template": {"spec": {"containers": [box], "restartPolicy": "Never"}}, **more}


def verdict(admin: Client, workload: Body) -> Body:
    """Return the condition QuotaReserved of a Workload, once Kueue has looked at it."""

    def found() -> Body | None:
        return next((each for each in conditions(admin.read(workload)) if each["type"] == "QuotaReserved"), None)

    return wait_for(f"{workload['metadata']['name']}: a verdict", found)


@pytest.fixture
def bodies(admin: Client) -> Iterator[list[Body]]:
    """Return a list of objects to create, which are deleted after the test."""
    made: list[Body] = []
    yield made
    for body in reversed(made):
        admin.delete(body)
        wait_until(f"{body['kind']} is gone", lambda body=body: is_gone(admin, body))  # type: ignore[misc]


def quota(flavor: str, nominal: int, **limits: str) -> Mapping[str, object]:
    """Return the quota of a flavor in cpu."""
    return {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": str(nominal), **limits}]}


def test_a_job_waits_for_a_flavor_without_preemption_candidates(
    cluster: Cluster, namespace: str, bodies: list[Body]
) -> None:
    """The first flavor is lent to a job that cannot be preempted, and the queue can borrow the other flavor."""
    admin, mine, theirs = cluster.admin, f"{namespace}-mine", f"{namespace}-theirs"
    fungibility = {"whenCanPreempt": "TryNextFlavor", "preference": "PreemptionOverBorrowing"}
    rules = {
        "cohortName": namespace,
        "namespaceSelector": {},
        "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "LowerPriority"},
    }
    trying = rules | {"flavorFungibility": {**fungibility, "whenCanBorrow": "TryNextFlavor"}}
    bodies += [
        kueue("ResourceFlavor", mine, {}),
        kueue("ResourceFlavor", theirs, {}),
        kueue("ClusterQueue", mine, {**trying, "resourceGroups": [group(quota(mine, 4), quota(theirs, 0))]}),
        kueue("ClusterQueue", theirs, {**rules, "resourceGroups": [group(quota(mine, 0), quota(theirs, 4))]}),
        *(kueue("LocalQueue", name, {"clusterQueue": name}, namespace) for name in (mine, theirs)),
        *(
            kueue("Workload", name, {"queueName": queue, "podSets": [pods("main", 1, 4)]}, namespace)
            for name, queue in (("lent", theirs), ("waits", mine))
        ),
    ]
    for body in bodies[:-1]:
        admin.create(body)
    assert verdict(admin, bodies[-2])["status"] == "True"
    [given] = admin.read(bodies[-2])["status"]["admission"]["podSetAssignments"]
    assert given["flavors"] == {"cpu": mine}
    admin.create(bodies[-1])
    is_defective = has("kueue-waits-without-preemption-candidates", "kueue", cluster)
    assert verdict(admin, bodies[-1])["status"] == ("False" if is_defective else "True")


def test_a_launcher_and_its_hosts_are_placed_within_the_capacity_of_nodes(
    cluster: Cluster, namespace: str, bodies: list[Body]
) -> None:
    """Only one placement fits: nodes with 2, 4 and 3 CPUs for a launcher of one and four pods of two."""
    admin, room = cluster.admin, {f"{namespace}-{number}": cpu for number, cpu in enumerate((2, 4, 3))}
    spec = {"namespaceSelector": {}, "resourceGroups": [group(quota(namespace, 90))]}
    bodies += [
        kueue("Topology", namespace, {"levels": [{"nodeLabel": _RACK}, {"nodeLabel": _HOST}]}),
        kueue("ResourceFlavor", namespace, {"nodeLabels": {_RACK: namespace}, "topologyName": namespace}),
        kueue("ClusterQueue", namespace, spec),
        kueue("LocalQueue", "queue", {"clusterQueue": namespace}, namespace),
        *(host(name, cpu, namespace) for name, cpu in room.items()),
    ]
    together = {"topologyRequest": {"required": _RACK, "podSetGroupName": "all"}}
    alone = {"topologyRequest": {"required": _RACK}}
    probe = kueue("Workload", "probe", {"queueName": "queue", "podSets": [pods("node", 4, 2, **alone)]}, namespace)
    sets = [pods("launcher", 1, 1, **together), pods("node", 4, 2, **together)]
    job = kueue("Workload", "job", {"queueName": "queue", "podSets": sets}, namespace)
    for body in (*bodies, probe):
        admin.create(body)
    wait_until("Kueue knows all hosts", lambda: verdict(admin, probe)["status"] == "True")
    admin.delete(probe)
    wait_until("they are free again", lambda: is_gone(admin, probe))
    bodies.append(job)
    admin.create(job)
    if has("kueue-places-a-launcher-without-room", "kueue", cluster):
        time.sleep(_QUIET)
        assert not conditions(admin.read(job)), "Kueue writes no placement, because the API server rejects it"
        return
    assert verdict(admin, job)["status"] == "True"
    used = in_use(admin.read(job))
    assert all(used[name] <= room[name] for name in used), used


def group(*flavors: Mapping[str, object]) -> Body:
    """Return a resource group of cpu."""
    return {"coveredResources": ["cpu"], "flavors": list(flavors)}


def host(name: str, cpu: int, rack: str) -> Body:
    """Return a Node with so many cpus in a rack."""
    room = {part: {"cpu": str(cpu), "pods": "90"} for part in ("allocatable", "capacity")}
    labels = {_HOST: name, _RACK: rack}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": room}


def in_use(workload: Body) -> Mapping[str, int]:
    """Return how many cpus of each host Kueue gave to a Workload."""
    asked = {each["name"]: int(cpus(each)) for each in workload["spec"]["podSets"]}
    used: Counter[str] = Counter()
    for each in workload["status"]["admission"]["podSetAssignments"]:
        for part in each["topologyAssignment"]["slices"]:
            for name, count in zip(names(part), counts(part), strict=True):
                used[name] += asked[each["name"]] * count
    return used


def cpus(pod_set: Body) -> str:
    """Return what a pod of a set asks for."""
    return str(pod_set["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def names(part: Body) -> list[str]:
    """Return the hosts of a part of an assignment. Kueue cuts off what their names share."""
    values = part["valuesPerLevel"][-1]
    if "universal" in values:
        return [values["universal"]] * part["domainCount"]
    each = values["individual"]
    return [f"{each.get('prefix', '')}{root}{each.get('suffix', '')}" for root in each["roots"]]


def counts(part: Body) -> list[int]:
    """Return how many pods are on each of them."""
    found = part["podCounts"]
    return list(found["individual"]) if "individual" in found else [found["universal"]] * part["domainCount"]
