"""Test that mistakes are corrected before other rules read an object."""

from __future__ import annotations

import pytest

from generator.checks.corrected import correct
from generator.manifests import read
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine

POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: a}
spec:
  validations: [{expression: 'true'}]
  matchConstraints:
    resourceRules: [{apiGroups: [''], apiVersions: [v1], resources: [pods], operations: OPERATIONS}]
"""


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ("[CREATE, null]", ["CREATE"]),
        ("[null, CREATE, null]", ["CREATE"]),
        ("[null]", []),
        ("[CREAT]", ["CREATE"]),
    ],
)
def test_an_item_with_two_mistakes_is_removed_once(operations: str, expected: list[str]) -> None:
    """A null in a list of names is no string, and none of the names."""
    (manifest,) = read(POLICY.replace("OPERATIONS", operations).encode(), "a.yaml")
    corrected = correct(manifest, Engine(Catalog.bundled()))
    assert corrected.body["spec"]["matchConstraints"]["resourceRules"][0]["operations"] == expected
