"""Policies of the SR-IOV operator are refused where its webhook refuses them.

tests/fixtures/sriov-policies.jsonl holds the `spec` of SriovNetworkNodePolicies, each with whether
staticValidateSriovNetworkNodePolicy of sriov-network-operator v1.6.0 refused it, with DEV_MODE, where it knows any NIC.
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


def found(spec: dict[str, Any]) -> list[Breach]:
    metadata = {"name": "ib", "namespace": "sriov-network-operator"}
    manifest = Manifest({**FORM, "metadata": metadata, "spec": spec}, "x.yaml")
    check = registry.get("fabric/node-policy")
    assert check is not None
    return [found for _, found in check.run(Objects((manifest,), {}))]


@pytest.mark.parametrize(("spec", "is_refused"), ANSWERS, ids=range(len(ANSWERS)))
def test_what_the_webhook_refuses_is_found_and_nothing_else(spec: dict[str, Any], is_refused: bool) -> None:
    refusals = [each for each in found(spec) if each.severity is Severity.ERROR or "up to release 1.6" in each.why]
    assert bool(refusals) == is_refused


@pytest.mark.parametrize("name", ["a" * 64, "_vf", "vf_"])
def test_what_later_releases_refuse_is_a_warning(name: str) -> None:
    (breach,) = found({"resourceName": name, "numVfs": 1, "nicSelector": {"vendor": "15b3"}})
    assert (breach.severity, "after 1.6" in breach.why) == (Severity.WARNING, True)
