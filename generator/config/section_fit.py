"""Rules between the sections that have no entries (such as `cluster`, `policies`, `queues`) and the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from generator.config.access import in_reach, no_operator
from generator.config.compliance import unmet
from generator.config.defect_fit import defective
from generator.config.draft import Contradiction, Draft
from generator.config.fields import Unmet
from generator.config.gitops import GitOps
from generator.config.isolation import impossible, unnameable
from generator.config.queues import forgetful, inexpressible


def section_contradictions(draft: Draft) -> Iterator[Contradiction]:
    """Find every setting that the section of another topic makes impossible. A section that is not sound is skipped."""
    yield from defective(draft)
    if draft.policies is not None:
        yield from _below(("policies",), unmet(draft.policies, draft.is_openshift))
    yield from _reachable_operators(draft)
    yield from _unsupported_networks(draft)
    yield from _unsupported_queues(draft)
    yield from _gitops_account(draft)


def _below(section: tuple[str | int, ...], found: Iterable[Unmet]) -> Iterator[Contradiction]:
    for path, message, fix in found:
        yield Contradiction((*section, *path), message, fix)


def _reachable_operators(draft: Draft) -> Iterator[Contradiction]:
    """Find platform administrators that a tenant can impersonate."""
    for persona in ("admin", "ci") if draft.access else ():
        for subject in getattr(draft.access, persona):
            if why := in_reach(subject, draft.namespaces) or no_operator(subject):
                yield Contradiction(("access", persona), why, "name somebody else")


def _unsupported_networks(draft: Draft) -> Iterator[Contradiction]:
    if draft.cluster is None:
        return
    if draft.isolation is not None:
        yield from _below(("isolation",), impossible(draft.isolation, draft.cluster))
    for index, tenant in draft.tenants.items():
        yield from _below(("tenants", index), unnameable(tenant, draft.cluster))


def _unsupported_queues(draft: Draft) -> Iterator[Contradiction]:
    if draft.queues is None:
        return
    if draft.cluster is not None:
        yield from _below(("queues",), inexpressible(draft.queues, draft.cluster))
    if draft.policies is not None:
        yield from _below(("queues",), forgetful(draft.queues, draft.policies.retention.jobs or 0))


def _gitops_account(draft: Draft) -> Iterator[Contradiction]:
    """Find a missing or unknown GitOps account, and one that a tenant can impersonate.

    Without an account and without administrators the admission rule `generated` has nobody to allow, so it is left out
    and everybody may change what is generated.
    """
    is_regulated = draft.policies is not None and draft.policies.profile == "regulated"
    if draft.gitops is None:
        if is_regulated and draft.access is not None and not draft.access.admin:
            what = "nobody is named who changes the platform: the profile `regulated` demands it"
            fix = "name who applies it in `gitops`, or people in `access: {admin: [group:…]}`"
            yield Contradiction(("gitops",), what, fix)
    elif isinstance(draft.gitops, GitOps) and draft.cluster is not None:
        account = draft.gitops.account_on(draft.cluster)
        if why := draft.gitops.account_unknown(draft.cluster) or in_reach(account, draft.namespaces):
            fix = "write serviceaccount:NAMESPACE/NAME of Argo CD's application controller"
            yield Contradiction(("gitops", "serviceAccount"), why, fix)
