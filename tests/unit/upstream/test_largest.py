"""Test the largest job of each team on each runtime, and the reason of its limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from generator.errors import SimulationError
from generator.manifests import Body, Manifest, read
from generator.objects.queue import Flavor
from generator.pipeline import load, render
from generator.upstream.kueue.job_limits import NO_LIMIT, Largest
from generator.upstream.kueue.largest import largest_jobs
from generator.upstream.kueue.nodes import has_room
from generator.upstream.kueue.queues import read_queue_tree
from tests.conftest import EXAMPLES
from tests.offers import reach_of
from tests.unit.upstream.runtimes import job, mpi, runtime
from tests.unit.upstream.trees import door, flavor, kueue, queue, tree

ANY = {"reclaimWithinCohort": "Any"}


def largest(*manifests: Manifest) -> list[Largest]:
    return list(largest_jobs(tree(*[each for each in manifests if each.group == "kueue.x-k8s.io"]), manifests))


def sizes(*manifests: Manifest) -> tuple[int | None, int | None]:
    (found,) = largest(*manifests, door("team", "q"))
    return found.reclaimable, found.idle


def sized(name: str, nodes: int, labels: dict[str, str] | None = None, **allocatable: str) -> Manifest:
    """Return a flavor with its number of nodes, and with its own node label unless `labels` replaces it."""
    written = ", ".join(f'"{key}": "{amount}"' for key, amount in allocatable.items())
    annotations = {"mpigen.dev/nodes": str(nodes), "mpigen.dev/allocatable": f"{{{written}}}"}
    return kueue("ResourceFlavor", name, {"nodeLabels": labels or {"pool": name}}, annotations=annotations)


def test_a_job_is_limited_by_quota_and_by_borrowable_quota() -> None:
    mine, other = queue("q", {"f/cpu": "9"}, "c", preemption=ANY), queue("other", {"f/cpu": "5"}, "c")
    (found,) = largest(mine, other, door("team", "q"), mpi(cpu="2"))
    assert (found.reclaimable, found.idle) == (4, 7)
    assert found.reason == "8 nodes take 16 cpu of flavor `f`, and `q` never gets more than 14"


def test_quota_that_cannot_be_reclaimed_is_not_guaranteed() -> None:
    assert sizes(queue("q", {"f/cpu": "9"}, "c"), queue("other", {"f/cpu": "0"}, "c"), mpi(cpu="2")) == (0, 4)


def test_a_launcher_node_needs_at_least_two_hosts() -> None:
    assert sizes(queue("q", {"f/cpu": "3"}), mpi(cpu="2")) == (0, 0)
    assert sizes(queue("q", {"f/cpu": "4"}), mpi(cpu="2")) == (2, 2)


def test_a_separate_launcher_takes_quota() -> None:
    separate = mpi(as_node=False, launcher=job("launcher", step="trainer", cpu="1"), cpu="2")
    assert sizes(queue("q", {"f/cpu": "9"}), separate) == (4, 4)
    assert sizes(queue("q", {"f/cpu": "8"}), separate) == (3, 3)
    assert sizes(queue("q", {"f/cpu": "8", "g/cpu": "1"}), separate) == (4, 4)  # it finds its place elsewhere


def test_a_launcher_without_quota_allows_no_job() -> None:
    wants = job("launcher", step="trainer", cpu="1", memory="1Gi")
    (found,) = largest(queue("q", {"f/cpu": "9"}), door("team", "q"), mpi(as_node=False, launcher=wants, cpu="2"))
    assert (found.idle, found.reason) == (0, "`launcher` requests memory, and `q` has no quota for it")


def limited(kind: str, **fields: dict[str, str]) -> Manifest:
    spec = {"limits": [{"type": kind, **fields}]}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small", "namespace": "team"}, "spec": spec}
    return Manifest(body, "limits.yaml")


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (
            limited("Container", max={"cpu": "1"}),
            "the LimitRange `small` allows a container to set at most 1 cpu, and `node` sets 2",
        ),
        (
            limited("Pod", min={"memory": "8Gi"}),
            "the LimitRange `small` allows a pod to set at least 8Gi memory, and `node` sets 4Gi",
        ),
        (
            limited("Container", default={"a.com/gpu": "4"}, max={"a.com/gpu": "2"}),
            "the LimitRange `small` allows a container to set at most 2 a.com/gpu, and `node` sets 4",
        ),
        (limited("Container", max={"cpu": "2"}), ""),
        (limited("Pod", min={"memory": "4Gi"}, max={"cpu": "2"}), ""),
        (limited("PersistentVolumeClaim", max={"cpu": "1"}), ""),
    ],
)
def test_jobs_outside_a_limit_range_are_never_admitted(limits: Manifest, reason: str) -> None:
    quota = queue("q", {"f/cpu": "9", "f/memory": "99Gi", "f/a.com/gpu": "99"})
    (found,) = largest(quota, door("team", "q"), limits, mpi(cpu="2", memory="4Gi"))
    assert (found.reclaimable, found.idle) == ((0, 0) if reason else (4, 4))
    assert found.reason == (reason or "5 nodes take 10 cpu of flavor `f`, and `q` never gets more than 9")
    (other,) = largest(quota, door("other", "q"), limits, mpi(cpu="2", memory="4Gi"))
    assert other.idle == 4


def test_a_launcher_uses_another_flavor_if_its_hosts_fill_the_first() -> None:
    separate = mpi(as_node=False, launcher=job("launcher", step="trainer", cpu="4"), cpu="2")
    assert sizes(queue("q", {"f/cpu": "8", "g/cpu": "8"}), separate) == (4, 4)
    assert sizes(queue("q", {"f/cpu": "8", "g/cpu": "3"}), separate) == (2, 2)


def test_the_scarcest_resource_limits_the_job() -> None:
    found = largest(queue("q", {"f/cpu": "100", "f/a.com/gpu": "16"}), door("team", "q"), mpi(cpu="1", gpu="8"))
    assert found[0].reason == "3 nodes take 24 a.com/gpu of flavor `f`, and `q` never gets more than 16"


@pytest.mark.parametrize(
    ("cpu", "most"),
    [("9", 4), ("8", 8), ("5", 12)],  # of 4 nodes with 16 cores: one, two and three on each
)
def test_a_host_fits_on_one_node(cpu: str, most: int) -> None:
    (found,) = largest(sized("f", 4, cpu="16"), queue("q", {"f/cpu": "99"}), door("team", "q"), mpi(cpu=cpu))
    assert found.idle == most
    assert (
        found.reason.startswith(f"a job with `numNodes: {most + 1}` does not fit on the 4 nodes of flavor `f`")
        or cpu == "8"
    )


@pytest.mark.parametrize(
    ("labels", "taint", "most"),
    [
        ({"zone": "a", "pool": "large"}, {}, 6),
        ({"pool": "large"}, {}, 2),
        ({"zone": "a", "pool": "large"}, {"nodeTaints": [{"key": "gpu", "effect": "NoSchedule"}]}, 2),
    ],
)
def test_pods_use_the_nodes_of_another_flavor_with_the_same_labels(
    labels: dict[str, str], taint: Body, most: int
) -> None:
    flavors = sized("f", 2, {"zone": "a"}, cpu="4"), sized("g", 4, labels, cpu="4")
    flavors[1].body["spec"] |= taint
    (found,) = largest(*flavors, queue("q", {"f/cpu": "99"}), door("team", "q"), mpi(cpu="4"))
    assert found.idle == most


def test_a_separate_launcher_needs_node_capacity() -> None:
    nodes, quota = sized("f", 4, cpu="16"), queue("q", {"f/cpu": "99"})
    for launcher, most in (("1", 4), ("8", 3)):
        separate = mpi(as_node=False, launcher=job("launcher", step="trainer", cpu=launcher), cpu="15")
        assert sizes(nodes, quota, separate) == (most, most)


@pytest.mark.parametrize(
    ("pods", "fits"),
    [
        ([(4, {"cpu": 9})], True),
        ([(5, {"cpu": 9})], False),
        ([(1, {"cpu": 7}), (4, {"cpu": 9})], True),
        ([(5, {"cpu": 7}), (4, {"cpu": 9})], False),
        ([(3, {"cpu": 9}), (2, {"cpu": 8})], True),
        ([(8, {"memory": 99})], True),
        ([(1, {"a.com/gpu": 1})], False),
        ([(9, {})], True),
    ],
)
def test_pods_are_packed_on_nodes(pods: list[tuple[int, dict[str, int]]], fits: bool) -> None:
    assert has_room([Flavor("f", nodes=4, allocatable={"cpu": 16})], pods) is fits


def test_a_runtime_without_hosts_has_one_size() -> None:
    (found,) = largest(queue("q", {"f/cpu": "9"}), door("team", "q"), runtime(job("node", cpu="2")))
    assert (found.idle, found.reason) == (1, "the runtime has only this size")


def test_a_job_without_requests_has_no_limit() -> None:
    assert sizes(queue("q", {"f/cpu": "9"}), runtime(job("node", step="trainer"), torch={})) == (NO_LIMIT, NO_LIMIT)


def test_teams_have_their_own_and_the_cluster_runtimes() -> None:
    doors = (door("team", "q"), door("others", "q"))
    ours = runtime(job("node", step="trainer", cpu="1"), name="ours", kind="TrainingRuntime", torch={})
    found = largest(queue("q", {"f/cpu": "3"}), *doors, ours, mpi(cpu="1"))
    assert [(each.namespace, each.runtime, each.idle) for each in found] == [
        ("others", "r", 3),
        ("team", "ours", 3),
        ("team", "r", 3),
    ]


def test_a_queue_that_selects_another_namespace_admits_no_job() -> None:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "others"}}
    namespace = Manifest({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}, "n.yaml")
    everything = [queue("q", {"f/cpu": "3"}, namespaceSelector=selector), flavor("f"), door("team", "q"), mpi(cpu="1")]
    (found,) = largest_jobs(read_queue_tree([*everything, namespace]), everything)
    assert (found.idle, found.reason) == (0, "`q` admits no job: its `namespaceSelector` does not select `team`")


def test_an_unsupported_toleration_leaves_the_size_unknown() -> None:
    numbers = [{"key": "a", "operator": "Gt", "value": "1"}]
    host = job("node", step="trainer", cpu="1")
    host["template"]["spec"]["template"]["spec"]["tolerations"] = numbers
    (found,) = largest(queue("q", {"f/cpu": "3"}), door("team", "q"), runtime(host, torch={}))
    assert (found.idle, found.reason) == (None, "unknown: the toleration of `a` compares numbers")


@pytest.mark.parametrize("name", ["cpu-kubernetes", "openshift-h100"])
def test_manifests_have_the_same_largest_jobs_as_their_platform(name: str) -> None:
    """The numbers come from the declared platform and from the rendered manifests."""
    platform, app = load(EXAMPLES[name])
    manifests = render(platform, app)
    found: dict[tuple[str, str], tuple[int | None, ...]] = {
        (each.queue, each.runtime): (each.owned, each.reclaimable, each.idle)
        for each in largest_jobs(read_queue_tree(manifests), manifests)
    }
    assert found
    for tenant in platform.tenants:
        for each in platform.runtimes:
            far = reach_of(platform, tenant, each)
            assert found[tenant.name, each.name] == (far.owned, far.reclaimable, far.idle)


def test_largest_jobs_of_the_university_example_are_known_with_a_reason() -> None:
    folder = Path(__file__).parents[3] / "output" / "university"
    manifests = [each for file in sorted(folder.rglob("*.yaml")) for each in read(file.read_bytes(), str(file))]
    found = list(largest_jobs(read_queue_tree(manifests), manifests))
    assert {each.namespace for each in found} == {each.namespace for each in manifests if each.kind == "LocalQueue"}
    assert all(each.reason and each.idle is not None for each in found)


def test_local_nodes_do_not_limit_jobs_of_multikueue() -> None:
    spec = {"controllerName": "kueue.x-k8s.io/multikueue"}
    away: Body = {"admissionChecksStrategy": {"admissionChecks": [{"name": "others"}]}}
    nodes, check = sized("f", 2, cpu="4"), kueue("AdmissionCheck", "others", spec)
    assert sizes(nodes, check, queue("q", {"f/cpu": "64"}, **away), mpi(cpu="8")) == (8, 8)
    assert sizes(nodes, check, queue("q", {"f/cpu": "64"}), mpi(cpu="8")) == (0, 0)
    asks = kueue("AdmissionCheck", "others", {"controllerName": "kueue.x-k8s.io/provisioning-request"})
    assert sizes(nodes, asks, queue("q", {"f/cpu": "64"}, **away), mpi(cpu="8")) == (0, 0)


def test_largest_jobs_changes_no_manifest() -> None:
    body: Body = mpi(cpu="2").body
    before = str(body)
    largest(queue("q", {"f/cpu": "9"}), door("team", "q"), Manifest(body, "r.yaml"))
    assert str(body) == before


def test_flavors_that_hosts_cannot_use_are_skipped() -> None:
    """The pools have a million nodes and four."""
    big = kueue(
        "ResourceFlavor",
        "big",
        {"nodeTaints": [{"key": "big", "effect": "NoSchedule"}]},
        annotations={"mpigen.dev/nodes": "1000000", "mpigen.dev/allocatable": '{"cpu": "16"}'},
    )
    quota = queue("q", {"big/cpu": "16M", "small/cpu": "64"})
    assert sizes(big, sized("small", 4, cpu="16"), quota, mpi(cpu="14")) == (4, 4)


def test_the_largest_job_of_a_million_nodes_is_computed() -> None:
    assert sizes(sized("f", 10**6, cpu="16"), queue("q", {"f/cpu": "16M"}), mpi(cpu="14")) == (10**6, 10**6)


def test_a_job_on_one_node_is_limited_by_that_node() -> None:
    spec = {"topologyName": "t", "nodeLabels": {"a": "b"}}
    annotations = {"mpigen.dev/nodes": "3", "mpigen.dev/allocatable": '{"cpu": "16"}'}
    levels = kueue("Topology", "t", {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]})
    pools = (kueue("ResourceFlavor", "f", spec, annotations=annotations), levels, queue("q", {"f/cpu": "48"}))
    wish = {"kueue.x-k8s.io/podset-required-topology": "kubernetes.io/hostname"}
    for cpu, most in (("4", 4), ("14", 0)):
        wanted = mpi(cpu=cpu)
        for each in wanted.body["spec"]["template"]["spec"]["replicatedJobs"]:
            metadata = each["template"]["spec"]["template"].setdefault("metadata", {})
            metadata["annotations"] = {**wish, "kueue.x-k8s.io/podset-group-name": "hosts"}
        assert sizes(*pools, wanted) == (most, most)


def limit(said: str, namespace: str = "team", kind: str = "Namespace") -> Manifest:
    """Return an annotated namespace for a host limit of a policy."""
    metadata = {"name": namespace, "annotations": {"mpigen.dev/hosts-per-job": said}}
    body = {"apiVersion": "v1", "kind": kind, "metadata": metadata}
    return Manifest(body, f"{said}.yaml")


def test_a_host_limit_of_the_namespace_limits_the_job() -> None:
    mine, other = queue("q", {"f/cpu": "9"}, "c", preemption=ANY), queue("other", {"f/cpu": "5"}, "c")
    manifests = mine, other, door("team", "q"), mpi(cpu="2")
    for said, sizes in {"3": (3, 3), "+5": (4, 5), "0": (0, 0), "-1": (0, 0)}.items():
        (found,) = largest(*manifests, limit(said))
        assert (found.reclaimable, found.idle) == sizes
        assert found.reason == f"admission policies accept at most `numNodes: {int(said)}`"
    (found,) = largest(*manifests, limit("7"))
    assert (found.reclaimable, found.idle) == (4, 7)
    assert found.reason == "8 nodes take 16 cpu of flavor `f`, and `q` never gets more than 14"


@pytest.mark.parametrize(
    "other", [limit("3", "elsewhere"), limit("3", kind="ConfigMap"), limit("few"), limit("\u0663")]
)
def test_invalid_host_limits_have_no_effect(other: Manifest) -> None:
    assert sizes(queue("q", {"f/cpu": "9"}), mpi(cpu="2"), other) == (4, 4)


def test_a_host_limit_does_not_change_a_runtime_with_one_size() -> None:
    fixed = runtime(job("node", cpu="2"))
    assert sizes(queue("q", {"f/cpu": "9"}), fixed) == sizes(queue("q", {"f/cpu": "9"}), fixed, limit("1")) == (1, 1)


def test_conflicting_host_limits_of_two_clusters_are_rejected() -> None:
    manifests = [queue("q", {"f/cpu": "9"}), door("team", "q"), limit("3"), limit("3")]
    assert largest(*manifests) == []
    with pytest.raises(SimulationError, match=r"Namespace team differs from the object of the same name in 3\.yaml"):
        largest(*manifests, limit("4"))
