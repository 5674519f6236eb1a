"""Test `mpigen reach`: connections between pods by the policies in files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import EXAMPLES, ROOT, Run

RELEASE = ROOT / "output" / "openshift-h100"
ISOLATION = RELEASE / "tenants/team-nlp/isolation.yaml"


def test_help_has_an_example(mpigen: Run) -> None:
    ran = mpigen("reach", "--help")
    assert (ran.returncode, "Example" in ran.stdout) == (0, True)


@pytest.mark.parametrize(
    ("question", "answer", "policy"),
    [
        (["team-nlp", "team-nlp", "--port", "2222"], "yes: TCP 2222", "np-mpi: egress rule 1"),
        (["tenant:team-nlp", "tenant:team-nlp", "--port", "33333/tcp"], "yes: TCP 33333", "np-mpi: ingress rule 1"),
        (["team-nlp", "team-cv"], "no: all ports", "AdminNetworkPolicy mpigen-team-cv"),
        (["team-nlp", "dns", "--port", "5353/UDP"], "yes: UDP 5353", "np-dns: egress rule 1"),
        (["team-nlp", "dns", "--port", "53/UDP"], "no: UDP 53", "np-default-deny: no egress rule"),
        (["team-nlp", "internet", "--port", "443"], "no: TCP 443", "np-default-deny: no egress rule of the 4"),
        (["team-nlp", "ip:10.20.0.9", "--port", "443"], "yes: TCP 443", "np-egress-s3: egress rule 1"),
        (["team-nlp", "ip:10.20.0.9", "--port", "80"], "no: TCP 80", "np-default-deny"),
        (["team-nlp", "ip:10.0.0.0/8", "--port", "443"], "unknown: TCP 443", "10.20.0.0/16 contains a part of 10."),
        (["team-nlp", "api-server", "--port", "6443"], "no: TCP 6443", "np-default-deny"),
        (["team-nlp", "api-server", "--port", "443"], "unknown: TCP 443", "the address of the API server is unknown"),
        (["pods:openshift-user-workload-monitoring", "team-nlp", "--port", "28080"], "yes: TCP 28080", "np-metrics"),
        (["team-nlp/openmpi-h100", "pods:team-nlp", "--port", "22"], "unknown: TCP 22", "`mpigen.dev/runtime` is unk"),
    ],
)  # fmt: skip
def test_reach_names_the_policy(question: list[str], answer: str, policy: str, mpigen: Run) -> None:
    ran = mpigen("reach", *question, RELEASE)
    assert ran.stderr == ""
    assert f"  {answer}\n" in ran.stdout
    assert policy in ran.stdout
    assert ran.returncode == (0 if answer.startswith("yes") else 1)


def test_a_place_is_the_line_of_the_rule(mpigen: Run) -> None:
    ran = mpigen("reach", "team-nlp", "dns", "--port", "5353/TCP", ISOLATION)
    place = next(line for line in ran.stdout.splitlines() if "np-dns" in line).strip().partition(": ")[0]
    file, _, line = place.rpartition(":")
    rule = Path(file).read_text().splitlines()[int(line) - 1 :]
    assert rule[0].strip() == "- to:"
    assert rule[3].strip() == "kubernetes.io/metadata.name: openshift-dns"


def test_json_has_the_verdict_of_all_ports(mpigen: Run) -> None:
    ran = mpigen("reach", "team-nlp", "dns", RELEASE, "--format", "json")
    (connection,) = json.loads(ran.stdout)["summary"]["connections"]
    reached = [(each["protocol"], each["first"], each["last"]) for each in connection["ports"] if each["reached"]]
    assert reached == [("TCP", 5353, 5353), ("UDP", 5353, 5353)]
    assert connection["ports"][0]["because"][0]["object"] == "NetworkPolicy team-nlp/np-default-deny"


DENIED = """\
apiVersion: v1
kind: Namespace
metadata: {name: team-a}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny, namespace: team-a}
spec: {podSelector: {}, policyTypes: [Ingress, Egress]}
---
"""
DNS = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: dns, namespace: team-a}
spec:
  podSelector: {}
  policyTypes: [Egress]
  egress:
  - to: [{namespaceSelector: NAMESPACE}]
    ports: [{port: PORT, protocol: UDP}, {port: PORT, protocol: TCP}]
"""
ROUTE = """\
---
apiVersion: route.openshift.io/v1
kind: Route
metadata: {name: web, namespace: team-a}
spec: {to: {kind: Service, name: web}}
"""
NAMED = "{matchLabels: {kubernetes.io/metadata.name: %s}}"


@pytest.mark.parametrize(
    ("namespace", "port", "more", "answers"),
    [
        (NAMED % "openshift-dns", 53, "", ["no: TCP 53, UDP 53", "no: all other ports"]),
        (NAMED % "openshift-dns", 5353, "", ["yes: TCP 5353, UDP 5353", "no: all other ports"]),
        (NAMED % "openshift-dns", "dns", "", ["yes: UDP 5353", "no: all other ports"]),
        (NAMED % "kube-system", 53, "", ["yes: TCP 53, UDP 53", "no: all other ports"]),
        ("{}", 53, "", ["yes: TCP 53, UDP 53", "no: all other ports"]),
        ("{}", 53, ROUTE, ["no: TCP 53, UDP 53", "no: all other ports"]),
    ],
)
def test_the_dns_pods_of_openshift_do_not_listen_on_the_port_of_their_service(
    namespace: str, port: object, more: str, answers: list[str], mpigen: Run, tmp_path: Path
) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(DENIED + DNS.replace("NAMESPACE", namespace).replace("PORT", str(port)) + more)
    ran = mpigen("reach", "team-a", "dns", file)
    assert [line.strip() for line in ran.stdout.splitlines() if line.startswith("  ") and line[2] != " "] == answers
    asked = mpigen("reach", "team-a", "dns", "--port", "53/UDP", file)
    assert (asked.returncode == 0) is answers[0].startswith("yes: TCP 53,")
    reason = "NetworkPolicy team-a/dns: policies match the port of the pods: DNS (`openshift-dns`) listens on 5353, not"
    assert (reason in asked.stdout) is answers[0].startswith("no: TCP 53")


def test_the_matrix_fits_a_terminal_and_groups_equal_namespaces(mpigen: Run) -> None:
    ran = mpigen("reach", "--matrix", ROOT / "output/university")
    assert ran.returncode == 0
    blocks = ran.stdout.split("\n\n")
    assert len(blocks) < 12
    cells = [line.split() for line in blocks[0].splitlines()[1:]]
    assert cells[0] == ["FROM", "TO", "PORTS", "BY"]
    data = json.loads(mpigen("reach", "--matrix", ROOT / "output/university", "--format", "json").stdout)
    groups = data["summary"]["matrix"]
    texts = [file.read_text() for file in (ROOT / "output/university/tenants").rglob("namespace.yaml")]
    assert sum(len(group["namespaces"]) for group in groups) == sum(text.count("kind: Namespace\n") for text in texts)
    rows = [row for group in groups for row in group["connections"]]
    assert {row["ports"] for row in rows if row["to"] == "other teams"} == {"none"}
    assert {row["ports"] for row in rows if row["from"] == row["to"]} == {"all ports"}


def test_the_policy_of_a_job_connects_the_ranks_of_this_job_alone(mpigen: Run, tmp_path: Path) -> None:
    text = EXAMPLES["cpu-kubernetes"].read_text() + "isolation: {unit: job}\n"
    platform = tmp_path / "platform.yaml"
    platform.write_text(text)
    for name in ("one", "two"):
        new = mpigen("job", "new", "--release", platform, "--runtime", "openmpi", "--name", name)
        assert new.returncode == 0, new.stderr
        (tmp_path / f"{name}.yaml").write_text(new.stdout)
    files = [tmp_path / "one.yaml", tmp_path / "two.yaml", platform]
    assert mpigen("reach", "team-sim/one", "team-sim/one", *files, "--port", "2222").returncode == 0
    assert mpigen("reach", "team-sim/one", "team-sim/two", *files, "--port", "2222").returncode == 1
    assert mpigen("reach", "team-sim", "team-sim", platform, "--port", "2222").returncode == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["team-nlq", "dns"], "did you mean `team-nlp`"),
        (["tenant:nlp", "dns"], "the files have no peer `tenant:nlp`"),
        (["team-nlp/absent", "dns"], "the files have no peer `team-nlp/absent`"),
        (["ip:10.0.0.300", "dns"], "`10.0.0.300` is no address; write an address such as ip:10.20.0.7"),
        (["team-nlp", "dns", "--port", "http"], "`http` is no port"),
        (["team-nlp", "dns", "--port", "70000"], "`70000` is no port"),
        (["team-nlp", "dns", "--port", "53/ICMP"], "`53/ICMP` is no port"),
        (["team-nlp"], "write FROM TO PATH"),
        (["--matrix", "--port", "22"], "remove --port"),
    ],
)
def test_invalid_words_are_rejected(words: list[str], message: str, mpigen: Run) -> None:
    ran = mpigen("reach", *words, RELEASE)
    assert ran.returncode == 2
    assert message in " ".join(ran.stderr.replace("│", " ").split())
