"""The page of admission rules, from the rules and from their cases in tests/fixtures/policy-cases/pack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from generator.documents.emit import BriefEmitter
from generator.facts.names import DESCRIPTION
from generator.manifests import Body, Manifest
from generator.schemas.catalog import Catalog
from generator.upstream.kubernetes.admission_policies.cases import Case, run_case
from generator.upstream.kubernetes.admission_policies.policy import PolicyCluster
from tests.policy_cases import FOLDERS, CaseFolder

_INTRODUCTION = """\
# Admission rules

This page is for reviewers of admission rules, and for users whose request a rule rejects. It lists every admission rule
that mpigen can write, with an example of a rejected and of an accepted request.
[Admission policies](../explanations/admission.md) explains which rules a release has, and how to introduce them.

The examples are cases of `tests/fixtures/policy-cases/`. `mpigen policy test` and a real API server with all
webhooks evaluate each case, and agree on the verdict and the message. The example of a TrainJob has only the fields
that differ from the TrainJob below. The example of an update has only the changed fields. Other examples have the
whole object. `null` means that the request lacks this field of the TrainJob below. The examples leave out the namespace
and the user of the request.

```yaml
"""
_PLATFORMS = {"pack": "pack-", "cost-labels": "pack-cost-"}
"""Folder of tests/fixtures/policy-cases → the beginning of the names of its policies. The first with a rule counts."""
_KEPT = ("apiVersion", "kind", "metadata", "spec", "type", "roleRef", "subjects")
_ACCEPTED = {
    "labels": "a job with any cost centre in a team without a declared one",
    "lifecycle": "an editor changes a label of a job with a finalizer",
    "metadata": "a job with labels and annotations that every job may have",
    "owner": "an editor changes the labels of another user's job",
    "placement": "a patch selects nodes by allowed labels",
    "subjects": "a declared user",
}
"""Rule → its accepted example. Default: the accepted case that is nearest to the rejected example in its file."""
Examples = Mapping[str, Sequence[Case]]
"""Name of a file of cases → its cases."""


def admission_page() -> str:
    """Return the page, with a section per rule."""
    folders = {folder.name: CaseFolder.of(folder) for folder in FOLDERS if folder.name in _PLATFORMS}
    worlds = {name: PolicyCluster(folder.manifests, Catalog.bundled()) for name, folder in folders.items()}
    job = next(case.object for case in folders["pack"].files["trainjob-cases.yaml"] if case.object is not None)
    lines = [_INTRODUCTION.rstrip("\n"), _yaml(job).rstrip("\n"), "```", ""]
    rules: dict[str, tuple[str, Manifest]] = {}
    for name, platform in _PLATFORMS.items():
        for policy in _policies(folders[name].manifests):
            rules.setdefault(policy.name.removeprefix(platform), (name, policy))
    for rule, (name, policy) in sorted(rules.items()):
        lines += _section(rule, policy, folders[name].files, worlds[name], job)
    return "\n".join(lines)


def _policies(manifests: Sequence[Manifest]) -> Iterator[Manifest]:
    yield from (manifest for manifest in manifests if manifest.kind == "ValidatingAdmissionPolicy")


def _section(rule: str, policy: Manifest, files: Examples, world: PolicyCluster, job: Body) -> Iterator[str]:
    """Yield the lines of a rule: its description, a rejected case with its message, and an accepted case, if any."""
    rejecting = [case for case in chain(*files.values()) if policy.name in _rejecting(case)]
    rejected = min(rejecting, key=lambda case: len(_rejecting(case)))
    accepted = _accepted(rule, rejected, files)
    decisions = [each for each in run_case(rejected, world).decisions if not each.holds and each.policy == policy.name]
    yield f"## {rule}\n"
    yield f"{policy.body['metadata']['annotations'][DESCRIPTION]}\n"
    yield f"Rejected: {rejected.name}.\n"
    yield from _example(rejected, job)
    yield f"```text\n{decisions[0].message}\n```\n"
    if accepted:
        yield f"Accepted: {accepted.name}.\n"
        yield from _example(accepted, job)


def _accepted(rule: str, rejected: Case, files: Examples) -> Case | None:
    """Return the accepted example of a rule; None if no case of the file is accepted."""
    if rule in _ACCEPTED:
        named = (case for case in chain(*files.values()) if case.name == _ACCEPTED[rule])
        return next(case for case in named if not _rejecting(case))
    cases = next(cases for cases in files.values() if rejected in cases)
    alike = [case for case in cases if not _rejecting(case) and _is_alike(case, rejected)]
    return min(alike, key=lambda case: abs(cases.index(case) - cases.index(rejected)), default=None)


def _rejecting(case: Case) -> Sequence[str]:
    """Return the policies that the case expects to reject its request."""
    return case.expected.rejected or case.expected.actions.get("denied", ())


def _is_alike(case: Case, other: Case) -> bool:
    """Return True if both requests have the same operation and the same kind of object."""
    return case.operation == other.operation and case.body["kind"] == other.body["kind"]


def _example(case: Case, job: Body) -> Iterator[str]:
    """Yield a request as YAML: for a TrainJob, only the fields that differ from `job`."""
    before = case.old if case.operation == "UPDATE" else job
    body = {key: value for key, value in (case.object or case.old or {}).items() if key in _KEPT}
    shown = _difference(before or {}, body) if case.body["kind"] == "TrainJob" or case.operation == "UPDATE" else body
    if shown:
        yield f"```yaml\n{_yaml(shown).rstrip()}\n```\n"


def _difference(before: Body, after: Body) -> Body:
    """Return the fields of `after` that `before` lacks or has with another value; null for removed fields."""
    shown: dict[str, Any] = {}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := _difference(old, value):
                shown[key] = inner
        elif value != old:
            shown[key] = value
    return shown | dict.fromkeys(key for key in before if key not in after)


def _yaml(body: Body) -> str:
    """Return an object as YAML, with short lists and mappings on one line."""
    return BriefEmitter().emit([body]).removeprefix("---\n")
