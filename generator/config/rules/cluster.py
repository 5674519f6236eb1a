"""Settings that the cluster, its network or its versions do not support."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from generator.config.mistakes import Mistake
from generator.config.model.access import explain_impersonation, explain_unfit_admin
from generator.config.model.cluster import Cluster
from generator.config.model.fields import Unmet, to_seconds
from generator.config.model.gitops import GitOps
from generator.config.model.isolation import Guard, Isolation
from generator.config.model.queues import Queues
from generator.config.model.tenants import Tenant
from generator.config.rules.partial import PartialPlatform
from generator.config.rules.policies import unmet
from generator.documents.messages import format_value
from generator.facts.defects import refusing, sound_minors


def section_contradictions(draft: PartialPlatform) -> Iterator[Mistake]:
    """Find every setting that the section of another topic makes impossible. A section that is not sound is skipped."""
    yield from defective(draft)
    if draft.policies is not None:
        yield from _below(("policies",), unmet(draft.policies, draft.is_openshift))
    yield from _reachable_operators(draft)
    yield from _unsupported_networks(draft)
    yield from _unsupported_queues(draft)
    yield from _gitops_account(draft)


def _below(section: tuple[str | int, ...], found: Iterable[Unmet]) -> Iterator[Mistake]:
    for path, message, fix in found:
        yield Mistake((*section, *path), message, fix)


def _reachable_operators(draft: PartialPlatform) -> Iterator[Mistake]:
    """Find platform administrators that a tenant can impersonate."""
    for persona in ("admin", "ci") if draft.access else ():
        for subject in getattr(draft.access, persona):
            if why := explain_impersonation(subject, draft.namespaces) or explain_unfit_admin(subject):
                yield Mistake(("access", persona), why, "name somebody else")


def _unsupported_networks(draft: PartialPlatform) -> Iterator[Mistake]:
    if draft.cluster is None:
        return
    if draft.isolation is not None:
        yield from _below(("isolation",), impossible(draft.isolation, draft.cluster))
    for index, tenant in draft.tenants.items():
        yield from _below(("tenants", index), unnameable(tenant, draft.cluster))


def _unsupported_queues(draft: PartialPlatform) -> Iterator[Mistake]:
    if draft.queues is None:
        return
    if draft.cluster is not None:
        yield from _below(("queues",), inexpressible(draft.queues, draft.cluster))
    if draft.policies is not None:
        yield from _below(("queues",), forgetful(draft.queues, draft.policies.retention.jobs or 0))


def _gitops_account(draft: PartialPlatform) -> Iterator[Mistake]:
    """Find a missing or unknown GitOps account, and one that a tenant can impersonate.

    Without an account and without administrators the admission rule `generated` has nobody to allow, so it is left out
    and everybody may change what is generated.
    """
    is_regulated = draft.policies is not None and draft.policies.profile == "regulated"
    if draft.gitops is None:
        if is_regulated and draft.access is not None and not draft.access.admin:
            what = "nobody is named who changes the platform: the profile `regulated` demands it"
            fix = "name who applies it in `gitops`, or people in `access: {admin: [group:…]}`"
            yield Mistake(("gitops",), what, fix)
    elif isinstance(draft.gitops, GitOps) and draft.cluster is not None:
        account = draft.gitops.account_on(draft.cluster)
        if why := draft.gitops.account_unknown(draft.cluster) or explain_impersonation(account, draft.namespaces):
            fix = "write serviceaccount:NAMESPACE/NAME of Argo CD's application controller"
            yield Mistake(("gitops", "serviceAccount"), why, fix)


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
    if queues.retain_finished is not None and to_seconds(queues.retain_finished) < days * 24 * 3600:
        what = f"{format_value(queues.retain_finished)} is less than the {days} days of `policies.retention.jobs`"
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


_FIELDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "fabrics": ("attach", lambda fabric: fabric.attached == "dra"),
    "pools": ("topology", lambda pool: bool(pool.topology)),
    "runtimes": ("ttlSecondsAfterFinished", lambda runtime: runtime.ttl_seconds_after_finished is not None),
    "tenants": ("multiKueue", lambda tenant: tenant.multi_kueue),
}
"""Section → a field of its entries that a defect may forbid, and whether an entry sets it."""


def defective(draft: PartialPlatform) -> Iterator[Mistake]:
    """Find the fields with which a release of the cluster does the wrong thing."""
    if draft.cluster is None:
        return
    for section, (field, is_set) in _FIELDS.items():
        why = forbidden(f"{section}[].{field}", draft.cluster)
        for index, entry in getattr(draft, section).items() if why else ():
            if why and is_set(entry):
                yield Mistake((section, index, field), *why)
    if draft.queues is not None and draft.cluster.is_openshift and draft.queues.waits_otherwise:
        why = forbidden("queues.waitForPodsReady", draft.cluster)
        if why:
            yield Mistake(("queues", "waitForPodsReady"), *why)


def forbidden(field: str, cluster: Cluster) -> tuple[str, str] | None:
    """Return what is wrong with a field on the cluster, and what to do; None if nothing is.

    Args:
        field: the path in the platform file with `[]` for any index, such as `pools[].topology`.
        cluster: has the versions.
    """
    targets = cluster.versions.model_dump()
    defect = refusing(field, targets)
    if defect is None:
        return None
    minors = sound_minors(defect, targets).items()
    sound = [f"`cluster.versions.{name}` to {' or '.join(map(_quoted, known))}" for name, known in minors]
    fix = f"remove it, or upgrade the cluster and set {' or '.join(sound)}" if sound else "remove it"
    return f"{defect.title.removesuffix('.')} ({defect.note})", fix


def _quoted(minor: str) -> str:
    return f'"{minor}"'
