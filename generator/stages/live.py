"""Live objects: the audit of a cluster, and its comparison with a release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator import manifests
from generator.checks.finding import Finding
from generator.errors import OutputError, Problem

if TYPE_CHECKING:
    from generator.checks.existing.drift import Drift
    from generator.checks.existing.verdicts import Audit


@dataclass(frozen=True, slots=True)
class Audited:
    """The result of `audit`: the verdicts on existing objects, and the findings in the export."""

    audit: Audit
    findings: Sequence[Finding]


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of `drift`: the differences of live objects from a release, and the findings about them."""

    drift: Drift
    findings: Sequence[Finding]


def read_managed(texts: Mapping[str, bytes]) -> Sequence[manifests.Manifest]:
    """Return the objects of an export that has the managers of fields.

    Args:
        texts: file → its text with exported objects.

    Raises:
        DocumentError: a file is not YAML or JSON, or has a document that is not an object.
        OutputError: the export has no objects.
    """
    from generator.checks.existing.audit import read_export

    export = "kubectl get $(mpigen drift RELEASE --resources) -A -o yaml --show-managed-fields"
    objects, _ = read_export(texts, export)
    if not objects:
        raise OutputError((Problem("the export has no objects", f"export the objects: `{export}`"),))
    return objects
