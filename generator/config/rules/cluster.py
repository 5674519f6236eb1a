"""The rules about settings that the distribution, the network or a version of the cluster does not support."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from generator.config.mistakes import Mistake
from generator.config.model.access import explain_impersonation, explain_unfit_admin
from generator.config.model.cluster import Cluster
from generator.config.model.fields import Steps, to_seconds
from generator.config.model.isolation import ApiServer, Guard
from generator.config.rules.rule import PartialPlatform, rule
from generator.documents.messages import format_value
from generator.facts.defects import find_rejecting_defect, sound_minors
from generator.facts.names import LONGEST_KUSTOMIZATION_NAME

_DAY = 24 * 3600
_DEFECTIVE_FIELDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "pools": ("topology", lambda pool: bool(pool.topology)),
    "runtimes": ("ttlSecondsAfterFinished", lambda runtime: runtime.ttl_seconds_after_finished is not None),
    "tenants": ("multiKueue", lambda tenant: tenant.multi_kueue),
}
"""Section → a field that mpigen rejects for an upstream defect, and a function that tests if an entry sets it."""


@rule
def defects_of_versions(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report fields that a component handles wrongly at its version in `cluster.versions` (see `explain_defect`)."""
    if not platform.knows("cluster.versions"):
        return
    for section, (field, is_set) in _DEFECTIVE_FIELDS.items():
        defect = explain_defect(f"{section}[].{field}", platform.cluster)
        for index, entry in getattr(platform, section).items() if defect else ():
            if defect and is_set(entry):
                yield Mistake((section, index, field), *defect)
    waits = platform.is_openshift and platform.queues.waits_otherwise
    if waits and (defect := explain_defect("queues.waitForPodsReady", platform.cluster)):
        yield Mistake(("queues", "waitForPodsReady"), *defect)


def explain_defect(field: str, cluster: Cluster) -> tuple[str, str] | None:
    """Return the message and the fix for a field that an upstream defect makes unusable.

    The result is None if no component has such a defect at its version.

    Args:
        field: the path in the platform file with `[]` for any index, such as `pools[].topology`.
        cluster: the section `cluster` of the platform file.
    """
    targets = cluster.versions.model_dump()
    defect = find_rejecting_defect(field, targets)
    if defect is None:
        return None
    upgrades = [
        f"upgrade {defect.upgrade(component, minors)} and set `cluster.versions.{component}` to "
        f"{' or '.join(map(_quote, minors))}"
        for component, minors in sound_minors(defect, targets).items()
    ]
    removal = f"remove `{field.rpartition('.')[2]}`"
    fix = ", or ".join((removal, *upgrades))
    return f"{defect.title.removesuffix('.')} ({defect.note})", fix


def _quote(minor: str) -> str:
    return f'"{minor}"'


@rule
def impersonable_admins(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report admins, janitors and CI accounts of `access` that a tenant can impersonate, or that are unfit.

    Unfit subjects are groups of all users or of all ServiceAccounts, `system:masters`, and accounts of the cluster.
    """
    for role in ("admin", "janitor", "ci"):
        for subject in getattr(platform.access, role):
            impersonation = explain_impersonation(subject, platform.namespaces)
            if impersonation:
                impersonation += f", so these users would have the rights that `access.{role}` grants"
            if why := impersonation or explain_unfit_admin(subject):
                fix = "name the account of the CI pipeline" if role == "ci" else "name a group of platform admins"
                yield Mistake(("access", role), why, fix)


@rule
def unenforceable_isolation(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report settings of `isolation` that the network of the cluster cannot enforce, or that lack addresses."""
    isolation, cluster = platform.isolation, platform.cluster
    if not platform.knows("cluster.network"):
        return
    is_cilium = cluster.network == "cilium"
    if isolation.api_server and platform.knows("isolation.apiServer"):
        yield from find_unreachable_server(isolation.api_server, ("isolation", "apiServer"), cluster.network)
    if isolation.dns_cache and is_cilium:
        message = "Cilium ignores addresses of nodes in policies, so pods cannot reach NodeLocal DNSCache"
        fix = "remove `dnsCache`, and redirect DNS to the pods of the cache with a CiliumLocalRedirectPolicy"
        yield Mistake(("isolation", "dnsCache"), message, fix)
    if isolation.guard != Guard() and cluster.network != "openshift-ovn":
        fix = "write `cluster: {network: openshift-ovn}`, or remove this field"
        yield Mistake(
            ("isolation", "guard"),
            f"`cluster.network: {cluster.network}` does not support AdminNetworkPolicy, so `guard` has no effect",
            fix,
        )


def find_unreachable_server(server: ApiServer, path: Steps, network: str) -> Iterator[Mistake]:
    """Yield why pods cannot reach an API server: a network policy needs addresses, or ignores them.

    Args:
        server: the API server.
        path: the path of its section.
        network: `cluster.network`.
    """
    if network == "cilium" and server.networks:
        # cilium v1.18.4 Documentation/security/policy/language.rst: selectors of CIDRs ignore nodes
        message = (
            "Cilium ignores addresses of nodes in `networks`, so pods cannot reach an API server that runs on nodes"
        )
        fix = "remove `networks`: mpigen then allows the API server by its Cilium entity `kube-apiserver`"
        yield Mistake((*path, "networks"), message, fix)
    elif network != "cilium" and not server.networks:
        message = "a NetworkPolicy needs the addresses of the API server"
        fix = "set `networks`, such as 10.0.0.8/32; `kubectl get endpointslices kubernetes` lists the addresses"
        yield Mistake(path, message, fix)


@rule
def egress_by_name(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report DNS names in `egress` if the network of the cluster matches addresses only.

    Only Cilium matches names. OVN-Kubernetes does not: its AdminNetworkPolicy is of network-policy-api v0.1.5.
    """
    if platform.cluster.network == "cilium" or not platform.knows("cluster.network"):
        return
    for index, tenant in platform.tenants.items():
        for number, target in enumerate(tenant.egress):
            if target.fqdn:
                message = (
                    f"`fqdn` needs Cilium; this cluster uses `{platform.cluster.network}`, which filters by address"
                )
                fix = "write the network of the destination as `cidr`, or set `cluster: {network: cilium}` for Cilium"
                yield Mistake(("tenants", index, "egress", number, "fqdn"), message, fix)


@rule
def queue_settings_of_openshift(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report settings of `queues` for which no version of OpenShift's Kueue operator has a field."""
    queues = platform.queues
    if not platform.is_openshift:
        return
    is_set = {
        "retainFinished": queues.retain_finished is not None,
        "excludeResourcePrefixes": bool(queues.exclude_resource_prefixes),
        "transformations": bool(queues.transformations),
    }
    for field in (field for field, is_field_set in is_set.items() if is_field_set):
        message = f"the Kueue operator of OpenShift has no setting for `{field}`"
        yield Mistake(("queues", field), message, f"remove `{field}`")


@rule
def retention_of_workloads(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a `queues.retainFinished` that is shorter than `policies.retention.jobs`."""
    days, kept = platform.policies.retention.jobs or 0, platform.queues.retain_finished
    if kept is not None and to_seconds(kept) < days * _DAY:
        message = f"{format_value(kept)} is less than the {days} days of `policies.retention.jobs`"
        yield Mistake(("queues", "retainFinished"), message, f"write at least {days * 24}h, or remove this field")


@rule
def gitops_account(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report an account of the GitOps engine that is unknown, or that a tenant can impersonate.

    The admission rule `generated` allows only the engine and platform admins to change generated objects. If a platform
    declares neither, mpigen leaves the rule out, and RBAC alone limits such changes. With the profile `regulated`, such
    a platform is also a mistake.
    """
    if platform.gitops is None:
        if platform.policies.profile == "regulated" and not platform.access.admin and platform.knows("access.admin"):
            message = "`policies.profile: regulated` requires an account or a group that may change generated objects"
            fix = "declare `gitops`, or write `access: {admin: [group:…]}`"
            yield Mistake(("gitops",), message, fix)
    elif platform.knows("cluster.distribution", "gitops.namespace", "gitops.serviceAccount"):
        account = platform.gitops.account_on(platform.cluster)
        unknown = platform.gitops.explain_unknown_account(platform.cluster)
        impersonation = explain_impersonation(account, platform.namespaces)
        if impersonation:
            impersonation += f", so these users would have the rights of {platform.gitops.engine_name}"
        if why := unknown or impersonation:
            fix = "write serviceaccount:NAMESPACE/NAME of the application controller of Argo CD"
            if platform.gitops.is_flux:
                fix = "set `gitops.namespace` to the namespace of Flux, which no tenant has"
            yield Mistake(("gitops", "serviceAccount"), why, fix)


@rule
def names_of_kustomizations(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report teams whose Kustomization of Flux would have a name that is too long for a label."""
    if platform.gitops is None or not platform.gitops.is_flux or not platform.knows("gitops.engine"):
        return
    for index, tenant in platform.tenants.items():
        name = f"{platform.platform}.{tenant.name}"
        if len(name) > LONGEST_KUSTOMIZATION_NAME:
            message = (
                f"the Kustomization `{name}` would have {len(name)} characters, which Flux cannot write into a label"
            )
            yield Mistake(("tenants", index, "name"), message, "shorten the name of the platform or of the team")
