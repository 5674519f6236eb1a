"""Rules between the sections that have no entries (such as `cluster`, `policies`, `queues`) and the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from generator.config.access import in_reach, no_operator
from generator.config.cluster import Cluster
from generator.config.complaints import Contradiction
from generator.config.compliance_fit import unmet
from generator.config.defect_fit import defective
from generator.config.draft import Draft
from generator.config.durations import seconds
from generator.config.fields import Unmet
from generator.config.gitops import GitOps
from generator.config.isolation import Guard, Isolation
from generator.config.queues import Queues
from generator.config.tenants import Tenant
from generator.documents.syntax import shown


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


def impossible(isolation: Isolation, cluster: Cluster) -> Iterator[Unmet]:
    """Find settings of `isolation` that the cluster's network cannot enforce."""
    knows_api_server = cluster.network == "cilium"
    if isolation.api_server and knows_api_server and isolation.api_server.networks:
        # cilium v1.18.4 Documentation/security/policy/language.rst: selectors of CIDRs ignore nodes
        what = "no network of a policy means a node to Cilium"
        yield ("apiServer", "networks"), what, "leave them out: Cilium knows the API server"
    if isolation.api_server and not knows_api_server and not isolation.api_server.networks:
        fix = "name its addresses, such as 10.0.0.8/32: `kubectl get endpointslices kubernetes` tells them"
        yield ("apiServer",), "nobody knows where the API server is", fix
    if isolation.dns_cache and knows_api_server:
        what = "no address of a policy means a node to Cilium"
        yield ("dnsCache",), what, "leave it out, and let Cilium redirect DNS to a pod that is the cache"
    if isolation.guard != Guard() and cluster.network != "openshift-ovn":
        yield ("guard",), "this cluster has no AdminNetworkPolicy", "write `cluster: {network: openshift-ovn}`"


def unnameable(tenant: Tenant, cluster: Cluster) -> Iterator[Unmet]:
    """Find egress targets of a tenant that are DNS names on a cluster whose network policies cannot match names.

    AdminNetworkPolicy of network-policy-api v0.1.5, which OVN-Kubernetes has, knows networks only.
    """
    for number, target in enumerate(tenant.egress):
        if target.fqdn and cluster.network != "cilium":
            fix = "write its network as `cidr`, or `cluster: {network: cilium}`"
            yield ("egress", number, "fqdn"), "no policy of this cluster knows names", fix


def forgetful(queues: Queues, days: int) -> Iterator[Unmet]:
    """Find settings that delete the record of a finished job before its retention of `days` days ends."""
    if queues.retain_finished is not None and seconds(queues.retain_finished) < days * 24 * 3600:
        what = f"{shown(queues.retain_finished)} is less than the {days} days of `policies.retention.jobs`"
        yield ("retainFinished",), what, f"write at least {days * 24}h, or remove it"


def inexpressible(queues: Queues, cluster: Cluster) -> Iterator[Unmet]:
    """Find settings that OpenShift's Kueue operator has no field for.

    In no version it sets how long Kueue keeps finished Workloads, or of `resources` anything but `deviceClassMappings`.
    """
    wordless = {
        "retainFinished": queues.retain_finished is not None,
        "excludeResourcePrefixes": bool(queues.exclude_resource_prefixes),
        "transformations": bool(queues.transformations),
    }
    what = "the Kueue operator of OpenShift has no such setting"
    for field, is_said in wordless.items():
        if cluster.is_openshift and is_said:
            yield (field,), what, "remove it"
