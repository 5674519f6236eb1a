"""Hazards of tenants: egress that is too wide, and subjects that stand for more callers than one team."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from generator.config.model.access import explain_cluster_subject
from generator.config.model.isolation import Egress
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.facts.addressing import denied_metadata, metadata_of_clouds
from generator.hazards.hazard import Hazard

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_PUBLIC = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("2000::/3"))  # RFC 4291 §2.4: global unicast
_OPEN = Fraction(1, 8)  # of all addresses: no organisation has as many
_FEW = 256
_WHY_OPEN = "a program in any pod of the team can send data to almost any host of the Internet"
_FIX_OPEN = "list the networks that the team needs, or write names as `fqdn` where the cluster has Cilium"


def egress_hazards(platform: Platform) -> Iterator[Hazard]:
    """Report networks of `egress` that are dangerous to open."""
    own = [ipaddress.ip_network(network) for network in platform.cluster.networks]
    for tenant in platform.tenants:
        yield from _open(tenant)
        for target in tenant.egress:
            if target.cidr:
                yield from _metadata(tenant, target, ipaddress.ip_network(target.cidr))
                yield from _cluster(tenant, target, ipaddress.ip_network(target.cidr), own)


def covered(networks: Iterable[Network]) -> Fraction:
    """Return the largest share of all public addresses, of IPv4 or IPv6, that networks cover together."""
    networks = list(networks)
    return max(_share([each for each in networks if each.version == public.version], public) for public in _PUBLIC)


def _share(networks: Sequence[Network], public: Network) -> Fraction:
    parts = ipaddress.collapse_addresses(networks)  # type: ignore[type-var]
    inside = (min(part.num_addresses, public.num_addresses) for part in parts if part.overlaps(public))
    return Fraction(sum(inside), public.num_addresses)


def _open(tenant: Tenant) -> Iterator[Hazard]:
    networks = {target.name: ipaddress.ip_network(target.cidr) for target in tenant.egress if target.cidr}
    wide = [name for name, network in networks.items() if covered([network]) >= _OPEN]
    for name in wide:
        path = ("tenants", tenant.name, "egress", name, "cidr")
        message = f"`{networks[name]}` opens {_percent(covered([networks[name]]))} of all addresses to `{tenant.name}`"
        yield Hazard("platform/open-egress", path, message, _WHY_OPEN, _FIX_OPEN)
    if not wide and (share := covered(networks.values())) >= _OPEN:
        message = f"the networks of `{tenant.name}` together open {_percent(share)} of all addresses"
        yield Hazard("platform/open-egress", ("tenants", tenant.name, "egress"), message, _WHY_OPEN, _FIX_OPEN)


def _percent(share: Fraction) -> str:
    return f"{int(share * 100)} %"


def _metadata(tenant: Tenant, target: Egress, network: Network) -> Iterator[Hazard]:
    """Report a metadata service in a network that is so small that the service is meant.

    In a larger network the address may be any host's: which cloud the cluster runs in is unknown.
    """
    for address, clouds in metadata_of_clouds().items():
        service = ipaddress.ip_network(address)
        if network.num_addresses <= _FEW and address not in denied_metadata() and _holds(network, service):
            yield Hazard(
                "platform/metadata-egress",
                ("tenants", tenant.name, "egress", target.name, "cidr"),
                f"`{network}` holds {service.network_address}, the metadata service of {clouds}",
                "in that cloud a program in any pod of the team can get the credentials of the node",
                "leave the address out of the network, unless the cluster runs elsewhere",
            )


def _cluster(tenant: Tenant, target: Egress, network: Network, own: Sequence[Network]) -> Iterator[Hazard]:
    for mine in own:
        if network.version == mine.version and network.overlaps(mine):
            yield Hazard(
                "platform/cluster-egress",
                ("tenants", tenant.name, "egress", target.name, "cidr"),
                f"`{network}` overlaps `{mine}`, a network of the cluster's pods or Services (`cluster.networks`)",
                "where the CNI compares the addresses of pods too, the team reaches pods and Services of other teams",
                f"write networks that leave out `{mine}`",
            )


def _holds(network: Network, other: Network) -> bool:
    return network.version == other.version and other.subnet_of(network)  # type: ignore[arg-type]


_ROLES = ("admin", "edit", "submit", "view")


def people_hazards(platform: Platform) -> Iterator[Hazard]:
    """Report subjects of teams that are everyone, or any pod of a namespace."""
    for tenant in platform.tenants:
        for role in _ROLES:
            for subject in getattr(tenant.access, role):
                path = ("tenants", tenant.name, "access", role, subject)
                if why := explain_cluster_subject(subject):
                    yield Hazard(
                        "platform/everyone-reads",
                        path,
                        why,
                        f"all of them read the jobs and logs of `{tenant.name}`",
                        "name a group of your identity provider",
                    )
                elif subject.startswith("serviceaccount:") and subject.endswith("/default"):
                    namespace = subject.removeprefix("serviceaccount:").removesuffix("/default")
                    yield Hazard(
                        "platform/shared-account",
                        path,
                        f"`{subject}` is the ServiceAccount of every pod in `{namespace}` that names none",
                        f"any such pod has the role `{role}` of `{tenant.name}`",
                        "make a ServiceAccount for this purpose, and name it",
                    )
