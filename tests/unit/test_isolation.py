"""Test the traffic that the policies of a tenant allow, and the requests that the platform file may make."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from generator import App, Cluster, Isolation, Platform
from generator.components.constructs import collect
from generator.config.model.isolation import Egress, Guard
from generator.errors import ConfigError
from generator.facts.names import RUNTIME_LABEL
from generator.jobs.request import JobRequest
from generator.manifests import Body
from generator.policies.network_policies import (
    NOT_ISOLATED,
    admin_network_policy,
    cilium_egress,
    default_deny,
    dns,
    mpi,
    network_policies,
)
from tests.conftest import small_platform
from tests.offers import job_of, policies_of

OPENSHIFT = Cluster(distribution="openshift")
MPI_PODS = {"matchExpressions": [{"key": RUNTIME_LABEL, "operator": "Exists"}]}
HTTPS = [{"protocol": "TCP", "port": 443}]


def made(**isolation: Any) -> dict[str, Body]:
    """Return the policies of a tenant of the small platform, by name."""
    cluster = isolation.pop("cluster", {})
    egress = isolation.pop("egress", [])
    data = {**small_platform(), "cluster": cluster, "isolation": isolation}
    data["tenants"][0]["egress"] = egress
    platform = Platform.model_validate(data)
    found = network_policies(platform.tenants[0], platform.isolation, platform.cluster)
    return {body["metadata"]["name"]: body for body in found}


def test_default_deny_allows_no_traffic(platform: Platform) -> None:
    spec = default_deny(platform.tenants[0].name)["spec"]
    assert spec == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_the_default_deny_policy_lists_traffic_outside_its_control(platform: Platform) -> None:
    said = default_deny(platform.tenants[0].name)["metadata"]["annotations"][NOT_ISOLATED]
    assert {"SR-IOV", "RDMA", "hostNetwork"} <= {word.strip("(),") for word in said.split()}


@pytest.mark.parametrize(
    ("cluster", "where", "port"), [(Cluster(), "kube-system", 53), (OPENSHIFT, "openshift-dns", 5353)]
)
def test_dns_is_allowed_over_udp_and_tcp_on_the_port_of_the_resolver(
    cluster: Cluster, where: str, port: int, platform: Platform
) -> None:
    (rule,) = dns(platform.tenants[0], cluster)["spec"]["egress"]
    (peer,) = rule["to"]  # one peer with two selectors: both must match
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": where}
    assert "podSelector" in peer
    assert rule["ports"] == [{"protocol": "UDP", "port": port}, {"protocol": "TCP", "port": port}]


@pytest.mark.parametrize(("cache", "network"), [("169.254.20.10", "169.254.20.10/32"), ("fd00::a", "fd00::a/128")])
def test_dns_is_allowed_to_the_node_cache(cache: str, network: str) -> None:
    _, rule = made(dnsCache=cache)["np-dns"]["spec"]["egress"]
    assert rule["to"] == [{"ipBlock": {"cidr": network}}]
    assert {port["protocol"] for port in rule["ports"]} == {"UDP", "TCP"}


def test_mpi_pods_reach_only_mpi_pods_on_every_port(platform: Platform) -> None:
    assert mpi(platform.tenants[0])["spec"] == {
        "podSelector": MPI_PODS,
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [{"podSelector": MPI_PODS}]}],
        "egress": [{"to": [{"podSelector": MPI_PODS}]}],
    }


def test_prometheus_reaches_one_port_of_mpi_pods() -> None:
    assert "np-metrics" not in made()
    assert made(metrics={"namespace": "monitoring"})["np-metrics"]["spec"] == {
        "podSelector": MPI_PODS,
        "policyTypes": ["Ingress"],
        "ingress": [
            {
                "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
                "ports": [{"protocol": "TCP", "port": 28080}],
            }
        ],
    }


def test_egress_has_the_declared_network_and_ports() -> None:
    found = made(egress=[{"name": "log", "cidr": "10.20.0.0/16", "ports": [514], "protocol": "UDP"}])
    (rule,) = found["np-egress-log"]["spec"]["egress"]
    assert rule == {"to": [{"ipBlock": {"cidr": "10.20.0.0/16"}}], "ports": [{"protocol": "UDP", "port": 514}]}


@pytest.mark.parametrize("network", ["standard", "cilium", "openshift-ovn"])
def test_egress_to_a_namespace_selects_its_pods_on_every_network(network: str) -> None:
    cluster = {"network": network, "distribution": "openshift" if network == "openshift-ovn" else "kubernetes"}
    entries = [
        {"name": "all", "namespace": "mlflow", "ports": [5000]},
        {"name": "some", "namespace": "minio", "podLabels": {"app": "minio"}, "ports": [9000, 9001]},
    ]
    found = made(cluster=cluster, egress=entries)
    (every,), (some,) = (found[f"np-egress-{name}"]["spec"]["egress"] for name in ("all", "some"))
    space = {"matchLabels": {"kubernetes.io/metadata.name": "mlflow"}}
    assert every == {
        "to": [{"namespaceSelector": space, "podSelector": {}}],
        "ports": [{"protocol": "TCP", "port": 5000}],
    }
    (peer,) = some["to"]  # one peer with two selectors: both must match
    assert peer == {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "minio"}},
        "podSelector": {"matchLabels": {"app": "minio"}},
    }
    assert [port["port"] for port in some["ports"]] == [9000, 9001]


@pytest.mark.parametrize(
    ("network", "without"),
    [
        ("0.0.0.0/0", ["169.254.169.254/32"]),
        ("169.254.0.0/16", ["169.254.169.254/32"]),
        ("::/0", ["fd00:ec2::254/128"]),
        ("169.254.0.0/17", None),
    ],
)
def test_a_network_excludes_the_metadata_service(network: str, without: list[str] | None) -> None:
    found = made(egress=[{"name": "wide", "cidr": network, "ports": [443]}])
    (rule,) = found["np-egress-wide"]["spec"]["egress"]
    assert rule["to"][0]["ipBlock"].get("except") == without


def test_the_api_server_is_reached_by_address_or_by_cilium_entity() -> None:
    (rule,) = made(apiServer={"networks": ["10.0.0.8/32"]})["np-api-server"]["spec"]["egress"]
    assert rule == {"to": [{"ipBlock": {"cidr": "10.0.0.8/32"}}], "ports": [{"protocol": "TCP", "port": 6443}]}
    (rule,) = made(cluster={"network": "cilium"}, apiServer={})["cnp-api-server"]["spec"]["egress"]
    assert rule["toEntities"] == ["kube-apiserver"]


def test_cilium_proxies_all_dns_of_a_tenant_with_fqdn_egress() -> None:
    """A second DNS rule without `rules` would let answers bypass Cilium's proxy."""
    found = made(cluster={"network": "cilium"}, egress=[{"name": "s3", "fqdn": "s3.example.com", "ports": [443]}])
    assert "np-dns" not in found
    (rule,) = found["cnp-dns"]["spec"]["egress"]
    assert rule["toEndpoints"] == [
        {"matchLabels": {"k8s:io.kubernetes.pod.namespace": "kube-system", "k8s:k8s-app": "kube-dns"}}
    ]
    assert rule["toPorts"] == [
        {
            "ports": [{"port": "53", "protocol": "UDP"}, {"port": "53", "protocol": "TCP"}],
            "rules": {"dns": [{"matchPattern": "*"}]},
        }
    ]
    assert "cnp-dns" not in made(cluster={"network": "cilium"})


@pytest.mark.parametrize(("domain", "how"), [("s3.example.com", "matchName"), ("*.example.com", "matchPattern")])
def test_an_fqdn_is_reached_on_its_ports(domain: str, how: str, platform: Platform) -> None:
    body = cilium_egress(platform.tenants[0], Egress(name="s3", fqdn=domain, ports=(443,)), domain)
    (rule,) = body["spec"]["egress"]
    assert rule == {"toFQDNs": [{how: domain}], "toPorts": [{"ports": [{"port": "443", "protocol": "TCP"}]}]}
    assert body["spec"]["endpointSelector"] == {}


def test_policy_names_cannot_equal_a_trainjob_name() -> None:
    """opendatahub-io/trainer pkg/rhai/networkpolicy.go overwrites a policy with the name of a TrainJob."""
    everything = made(
        metrics={"namespace": "monitoring"},
        apiServer={"networks": ["10.0.0.8/32"]},
        egress=[{"name": "s3", "cidr": "10.20.0.0/16", "ports": [443]}],
    )
    assert {name.partition("-")[0] for name in everything} == {"np"}


def test_admin_policies_separate_teams_regardless_of_namespace_policies() -> None:
    spec = admin_network_policy("team-a", Guard())["spec"]
    assert spec["subject"] == {"namespaces": {"matchLabels": {"mpigen.dev/tenant": "team-a"}}}
    assert {rule["action"] for rule in (*spec["ingress"], *spec["egress"])} == {"Deny"}
    (others,) = spec["ingress"][0]["from"]
    assert {"key": "mpigen.dev/tenant", "operator": "NotIn", "values": ["team-a"]} in others["namespaces"][
        "matchExpressions"
    ]


@pytest.mark.parametrize("network", ["standard", "openshift-ovn"])
def test_admin_policies_are_rendered_if_the_cluster_supports_them(network: str) -> None:
    data = {**small_platform(), "cluster": {"distribution": "openshift", "network": network}}
    if network == "openshift-ovn":
        data["isolation"] = {"guard": {"baseline": True, "priority": 7}}
    bodies = [found.body for found in collect(App(Platform.model_validate(data)))]
    found = [(body["metadata"]["name"], body["spec"].get("priority")) for body in bodies if "Admin" in body["kind"]]
    wanted = [("default", None), ("mpigen-team-a", 7), ("mpigen-team-b", 7)]
    assert sorted(found, key=str) == (wanted if network == "openshift-ovn" else [])


@pytest.mark.parametrize("mesh", [None, "istio"])
def test_mpi_pods_stay_out_of_the_mesh(mesh: str | None) -> None:
    platform = Platform.model_validate({**small_platform(), "cluster": {"mesh": mesh}})
    runtimes = [found.body for found in collect(App(platform)) if found.kind == "ClusterTrainingRuntime"]
    jobs = [job for runtime in runtimes for job in runtime["spec"]["template"]["spec"]["replicatedJobs"]]
    labels = [job["template"]["spec"]["template"]["metadata"]["labels"] for job in jobs]
    wanted = "false" if mesh else None
    assert {label.get("sidecar.istio.io/inject") for label in labels} == {wanted}
    assert {label.get("istio.io/dataplane-mode") for label in labels} == {"none" if mesh else None}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "names for a cluster that knows none": ({"egress": {"fqdn": "s3.example.com"}}, "`fqdn` needs Cilium"),
    "names for OVN-Kubernetes": (
        {
            "egress": {"fqdn": "s3.example.com"},
            "cluster": {"distribution": "openshift", "network": "openshift-ovn"},
        },
        "`fqdn` needs Cilium",
    ),
    "a network and a name": (
        {"egress": {"fqdn": "s3.example.com", "cidr": "10.0.0.0/8"}, "cluster": {"network": "cilium"}},
        "both `cidr` and `fqdn`",
    ),
    "neither": ({"egress": {}}, "needs `cidr`, `fqdn` or `namespace`"),
    "a network and a namespace": (
        {"egress": {"cidr": "10.0.0.0/8", "namespace": "minio"}},
        "both `cidr` and `namespace`",
    ),
    "labels without a namespace": ({"egress": {"cidr": "10.0.0.0/8", "podLabels": {"app": "minio"}}}, "has no effect"),
    "another team": ({"egress": {"namespace": "team-b"}}, "accepts no connections of other teams"),
    "the team itself": ({"egress": {"namespace": "team-a"}}, "is a namespace of this team"),
    "a name of one word": ({"egress": {"fqdn": "localhost"}}, "is not a domain name"),
    "the metadata service": ({"egress": {"cidr": "169.254.169.254/32"}}, "the credentials of the node"),
    "an API server that nobody finds": ({"isolation": {"apiServer": {}}}, "needs the addresses of the API server"),
    "addresses of nodes for Cilium": (
        {"isolation": {"apiServer": {"networks": ["10.0.0.8/32"]}}, "cluster": {"network": "cilium"}},
        "Cilium ignores addresses of nodes in `networks`",
    ),
    "a cache on the node for Cilium": (
        {"isolation": {"dnsCache": "169.254.20.10"}, "cluster": {"network": "cilium"}},
        "Cilium ignores addresses of nodes",
    ),
    "a baseline without AdminNetworkPolicy": (
        {"isolation": {"guard": {"baseline": True}}},
        "does not support AdminNetworkPolicy",
    ),
    "a priority that OVN-Kubernetes does not know": (
        {"isolation": {"guard": {"priority": 100}}, "cluster": {"distribution": "openshift"}},
        "99",
    ),
    "OpenShift's network on Kubernetes": ({"cluster": {"network": "openshift-ovn"}}, "`openshift-ovn` needs OpenShift"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_isolation_that_no_policy_can_enforce_is_rejected(case: str) -> None:
    change, said = REFUSED[case]
    data = {**small_platform(), **{key: value for key, value in change.items() if key != "egress"}}
    if "egress" in change:
        data["tenants"][0]["egress"] = [{"name": "s3", "ports": [443], **change["egress"]}]
    with pytest.raises(ConfigError, match=said):
        Platform.model_validate(data)


def test_jobs_isolated_one_by_one_have_their_own_policy() -> None:
    assert "np-mpi" not in made(unit="job")
    platform = Platform.model_validate({**small_platform(), "isolation": {"unit": "job"}})
    job = job_of(platform, JobRequest("openmpi-cpu", tenant="team-a", name="fft")).body
    pods = {"matchLabels": {"jobset.sigs.k8s.io/jobset-name": "fft"}}
    (policy,) = policies_of(platform, job)
    assert policy["metadata"] == {"name": "np.fft", "namespace": "team-a"}
    assert policy["spec"] == {
        "podSelector": pods,
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [{"podSelector": pods}]}],
        "egress": [{"to": [{"podSelector": pods}]}],
    }
    assert policies_of(Platform.model_validate(small_platform()), job) == []
    (policy,) = policies_of(
        platform,
        job_of(platform, JobRequest("openmpi-cpu", tenant="team-a", owner="ada")).body,
    )
    assert policy["metadata"]["annotations"] == {"mpigen.dev/owner": "ada"}


@pytest.mark.parametrize("unit", ["namespace", "job"])
def test_submitters_can_create_policies_only_under_an_admission_rule(unit: str) -> None:
    lenient = {"admission": "audit"}
    platform = Platform.model_validate({**small_platform(), "isolation": {"unit": unit}, "policies": lenient})
    bodies = [found.body for found in collect(App(platform))]
    granted = {
        (body["metadata"]["name"], verb)
        for body in bodies
        if body["kind"] == "ClusterRole"
        for rule in body["rules"]
        if "networkpolicies" in rule["resources"]
        for verb in rule["verbs"]
    }
    guarded = [body for body in bodies if body["metadata"]["name"] == "small-job-isolation"]
    verbs = ("get", "list", "watch", "create", "delete") if unit == "job" else ()
    roles = ("mpigen-submit", "mpigen-edit", "mpigen-admin")
    assert granted == {*product(roles, verbs)}
    assert [body["spec"].get("validationActions", []) for body in guarded] == ([[], ["Deny"]] if unit == "job" else [])


def test_only_mpi_and_dns_are_allowed_by_default() -> None:
    assert Isolation() == Isolation(metrics=None, api_server=None, dns_cache=None, guard=Guard())
    assert list(made()) == ["np-default-deny", "np-dns", "np-mpi"]
