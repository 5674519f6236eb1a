"""Every check is documented, and nothing is documented that is no check."""

from __future__ import annotations

import re

from generator.checks.change.rules import CHECKS as CHANGE_CHECKS
from generator.checks.fabric.alone import CHECKS as FABRIC_ALONE_CHECKS
from generator.checks.policy.admission import CHECKS as POLICY_CHECKS
from generator.checks.policy.cases import CHECKS as POLICY_CASE_CHECKS
from generator.checks.related import CHECKS as RELATED_CHECKS
from generator.checks.schema import CHECKS as SCHEMA_CHECKS
from generator.checks.schema import OBJECT_CHECKS
from generator.checks.secret import CHECK as SECRET_CHECK
from generator.checks.trainer_rules import CHECKS as MPI_CHECKS
from generator.hazards.find import CHECKS as HAZARD_CHECKS
from tests.conftest import ROOT

SECTIONS = set(re.findall(r"^## (\w+/[\w-]+)$", (ROOT / "docs" / "checks.md").read_text(), flags=re.MULTILINE))


def test_each_check_has_its_section() -> None:
    known = {
        *SCHEMA_CHECKS,
        *OBJECT_CHECKS,
        *MPI_CHECKS,
        *CHANGE_CHECKS,
        *FABRIC_ALONE_CHECKS,
        *RELATED_CHECKS,
        *POLICY_CASE_CHECKS,
        *POLICY_CHECKS,
        *HAZARD_CHECKS,
        SECRET_CHECK,
        "yaml/unreadable",
        "kubeconform/invalid",
        "kubeconform/no-schema",
    }
    assert known == SECTIONS
