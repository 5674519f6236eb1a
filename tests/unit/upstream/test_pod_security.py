"""Test Pod Security against the texts of upstream's evaluator, which are the texts of the API server.

policy.Evaluator of pod-security-admission v0.34.2 wrote the texts in pod-security.jsonl, for pods of its own
test data and for random pods.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from generator.upstream.kubernetes.pod_security import Level, find_violations, read_level
from tests.conftest import ROOT

ROWS = [json.loads(line) for line in (ROOT / "tests/fixtures/pod-security.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_the_violations_have_the_texts_of_the_api_server(row: dict[str, Any]) -> None:
    levels = {text: Level(*text.split(":")) for text in row["texts"]}
    assert {text: _violations(row["pod"], level) for text, level in levels.items()} == row["texts"]


def _violations(pod: dict[str, Any], level: Level, minor: int = 34) -> str:
    return ", ".join(map(str, find_violations(pod, level, minor)))


def test_the_recorded_texts_contain_all_rules() -> None:
    texts = " ".join(text for row in ROWS for text in row["texts"].values())
    reasons = (
        *("forbidden AppArmor", "capabilities", "host namespaces", "hostPath", "hostPort", "lifecycle host"),
        *("privileged (", "procMount", "seLinuxOptions", "seccompProfile", "sysctls", "hostProcess"),
        *("allowPrivilegeEscalation", "unrestricted", "restricted volume", "runAsNonRoot", "runAsUser=0"),
    )
    assert [reason for reason in reasons if reason not in texts] == []


def _namespace(**labels: str) -> dict[str, Any]:
    prefix = "pod-security.kubernetes.io"
    return {"metadata": {"labels": {f"{prefix}/{key.replace('_', '-')}": value for key, value in labels.items()}}}


@pytest.mark.parametrize(
    ("labels", "level"),
    [
        ({}, "privileged:latest"),
        ({"enforce": "baseline"}, "baseline:latest"),
        ({"enforce": "restricted", "enforce_version": "v1.30"}, "restricted:v1.30"),
        ({"enforce": "strict"}, "restricted:latest"),
        ({"enforce": "baseline", "enforce_version": "1.30"}, "baseline:latest"),
        ({"warn": "restricted"}, "privileged:latest"),
    ],
)
def test_the_labels_of_a_namespace_set_the_level(labels: dict[str, str], level: str) -> None:
    assert str(read_level(_namespace(**labels))) == level


def test_an_older_api_server_has_no_newer_rules() -> None:
    probe = {"httpGet": {"port": 1, "host": "a"}}
    pod = {"metadata": {}, "spec": {"containers": [{"name": "a", "livenessProbe": probe}]}}
    assert (
        _violations(pod, Level("baseline"))
        == 'probe or lifecycle host (container "a" uses probe or lifecycle host "a")'
    )
    assert _violations(pod, Level("baseline"), 33) == _violations(pod, Level("baseline", "v1.33")) == ""


def test_pods_in_a_user_namespace_may_run_as_root_since_kubernetes_1_35() -> None:
    """Source: pod-security-admission v0.37.2 policy/check_runAsUser.go, and its other checks with `hostUsers`."""
    settings = {"runAsUser": 0, "runAsNonRoot": False, "procMount": "Unmasked"}
    pod = {"metadata": {}, "spec": {"hostUsers": False, "containers": [{"name": "a", "securityContext": settings}]}}
    unmasked = 'procMount (container "a" must not set securityContext.procMount to "Unmasked")'
    assert _violations(pod, Level("baseline"), 34) == unmasked
    assert _violations(pod, Level("baseline"), 35) == ""
    old, new = (_violations(pod, Level("restricted"), minor) for minor in (34, 35))
    assert all(text in old and text not in new for text in ("runAsNonRoot != true", "runAsUser=0"))
    assert unmasked in old
    assert unmasked in new


def test_a_newer_api_server_allows_more_sysctls() -> None:
    sysctls = [{"name": "net.ipv4.tcp_notsent_lowat", "value": "1"}]
    pod = {"metadata": {}, "spec": {"containers": [], "securityContext": {"sysctls": sysctls}}}
    assert _violations(pod, Level("baseline"), 36) == "forbidden sysctls (net.ipv4.tcp_notsent_lowat)"
    assert _violations(pod, Level("baseline"), 37) == ""


def test_a_volume_without_a_source_is_an_empty_dir() -> None:
    pod = {"metadata": {}, "spec": {"containers": [], "volumes": [{"name": "a"}]}}
    assert _violations(pod, Level("restricted")) == ""


def test_a_container_port_in_the_host_network_is_a_host_port() -> None:
    pod = {
        "metadata": {},
        "spec": {"hostNetwork": True, "containers": [{"name": "a", "ports": [{"containerPort": 80}]}]},
    }
    assert 'hostPort (container "a" uses hostPort 80)' in _violations(pod, Level("baseline"))
