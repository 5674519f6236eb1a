"""The PolicyReport format, which Policy Reporter and other dashboards of clusters read.

A PolicyReport has the results of a namespace, and a ClusterPolicyReport has the results of cluster-scoped objects. The
results have no timestamp, so equal input gives equal reports.

Source: kubernetes-sigs/wg-policy-prototypes 25056e1f policy-report/pkg/api/wgpolicyk8s.io/v1alpha2
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from generator.documents.emit import Emitter
from generator.report.result import Result

if TYPE_CHECKING:
    from generator.checks.existing.verdicts import Verdict
    from generator.manifests import Manifest

API_VERSION = "wgpolicyk8s.io/v1alpha2"
NAME = "mpigen-audit"
_ANSWERS = ("pass", "fail", "warn", "error", "skip")
_SEVERITIES = {"Deny": "high", "Warn": "medium", "Audit": "low"}
"""Action of a binding → severity of a result, from the most severe action to the least."""
Accepted = Mapping[str, Collection[str]]
"""Resource → the messages of its accepted findings, which end with the message of the rule."""


def render(result: Result) -> str:
    """Render the reports of a result as YAML documents."""
    return Emitter().emit([dict(report) for report in result.reports]).rstrip("\n")


def build_reports(verdicts: Iterable[Verdict], accepted: Accepted = MappingProxyType({})) -> list[Mapping[str, Any]]:
    """Return a ClusterPolicyReport and a PolicyReport for each namespace, each only if its objects have results.

    Args:
        verdicts: the results of rules for objects.
        accepted: the findings that a waiver, the baseline or an option hides. Their results are `skip`.
    """
    by_namespace: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_namespace.setdefault(verdict.manifest.namespace, []).append(verdict)
    return [_report(namespace, by_namespace[namespace], accepted) for namespace in sorted(by_namespace)]


def _report(namespace: str, verdicts: Iterable[Verdict], accepted: Accepted) -> Mapping[str, Any]:
    results = sorted((_result(verdict, accepted) for verdict in verdicts), key=_order)
    counts = {answer: sum(1 for result in results if result["result"] == answer) for answer in _ANSWERS}
    return {
        "apiVersion": API_VERSION,
        "kind": "PolicyReport" if namespace else "ClusterPolicyReport",
        "metadata": {"name": NAME, **({"namespace": namespace} if namespace else {})},
        "summary": counts,
        "results": results,
    }


def _order(result: Mapping[str, Any]) -> tuple[str, ...]:
    (resource,) = result["resources"]
    return (resource["kind"], resource["name"], result["policy"], result["rule"], result["result"], result["message"])


def _result(verdict: Verdict, accepted: Accepted) -> dict[str, Any]:
    answer, message = verdict.answer.value, verdict.message
    messages = accepted.get(verdict.manifest.resource, ()) if answer in ("fail", "warn") else ()
    if any(text.endswith(message) for text in messages):
        answer, message = "skip", f"accepted in the settings of mpigen: {message}"
    severity = next((severity for action, severity in _SEVERITIES.items() if action in verdict.actions), "info")
    return {
        "source": "mpigen",
        "policy": verdict.policy,
        "rule": verdict.rule,
        "result": answer,
        "severity": severity,
        "scored": True,
        "message": message or "the rule accepts the object",
        "resources": [_reference(verdict.manifest)],
        "properties": {"operation": "CREATE"},
    }


def _reference(manifest: Manifest) -> dict[str, str]:
    uid = manifest.body["metadata"].get("uid")
    return {
        "apiVersion": manifest.api_version,
        "kind": manifest.kind,
        "name": manifest.name,
        **({"namespace": manifest.namespace} if manifest.namespace else {}),
        **({"uid": uid} if isinstance(uid, str) else {}),
    }
