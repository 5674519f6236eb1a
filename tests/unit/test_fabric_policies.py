"""The check of SR-IOV policies agrees with the webhook of their operator.

tests/fixtures/sriov-policies.jsonl holds the `spec` of SriovNetworkNodePolicies, each with true if
staticValidateSriovNetworkNodePolicy of sriov-network-operator v1.6.0 rejected it. DEV_MODE makes it accept any NIC.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from generator.checks import registry
from generator.checks.finding import Breach, Severity
from generator.checks.objects import Objects
from generator.manifests import Manifest
from tests.conftest import ROOT

ANSWERS = [json.loads(line) for line in (ROOT / "tests/fixtures/sriov-policies.jsonl").read_text("utf-8").splitlines()]
FORM = {"apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetworkNodePolicy"}


def find_breaches(spec: dict[str, Any]) -> list[Breach]:
    metadata = {"name": "ib", "namespace": "sriov-network-operator"}
    manifest = Manifest({**FORM, "metadata": metadata, "spec": spec}, "x.yaml")
    check = registry.get("fabric/node-policy")
    assert check is not None
    return [breach for _, breach in registry.Suite().run(check, Objects((manifest,), {}))]


@pytest.mark.parametrize(("spec", "is_rejected"), ANSWERS, ids=range(len(ANSWERS)))
def test_the_check_agrees_with_the_webhook(spec: dict[str, Any], is_rejected: bool) -> None:
    breaches = find_breaches(spec)
    assert any(item.severity is Severity.ERROR or "up to 1.6" in item.why for item in breaches) == is_rejected


@pytest.mark.parametrize("name", ["a" * 64, "_vf", "vf_"])
def test_a_name_that_later_releases_reject_is_a_warning(name: str) -> None:
    (breach,) = find_breaches({"resourceName": name, "numVfs": 1, "nicSelector": {"vendor": "15b3"}})
    assert (breach.severity, "after 1.6" in breach.why) == (Severity.WARNING, True)
