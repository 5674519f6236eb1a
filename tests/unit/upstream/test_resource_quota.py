"""Test what ResourceQuotas count in each version of Kubernetes."""

from __future__ import annotations

import pytest
import yaml

from generator.manifests import Manifest
from generator.upstream.kubernetes.resource_quota import read_ledger

QUOTA = """\
apiVersion: v1
kind: ResourceQuota
metadata: {name: devices, namespace: team}
spec: {hard: {requests.deviceclass.resource.kubernetes.io/gpu: 1}}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: rank}
spec:
  containers:
  - name: node
    resources: {limits: {deviceclass.resource.kubernetes.io/gpu: 2}}
"""


@pytest.mark.parametrize(("minor", "is_rejected"), [("1.34", False), ("1.35", True), ("1.37", True)])
def test_the_resource_of_a_device_class_counts_since_1_35(minor: str, is_rejected: bool) -> None:
    ledger = read_ledger([Manifest(yaml.safe_load(QUOTA), "quota.yaml")], "team", minor)
    refusal = ledger.charge(yaml.safe_load(POD))
    assert (refusal is not None and "exceeded quota: devices" in refusal.message) == is_rejected
