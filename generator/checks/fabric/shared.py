"""fabric/shared: which teams meet on a fabric? An info, as it may be meant; nobody should believe otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from generator.checks.fabric.attachments import Attachment
from generator.checks.fabric.homes import homes
from generator.checks.fabric.providers import Source
from generator.checks.fabric.read import Fabrics
from generator.checks.fabric.resource import resource
from generator.checks.fabric.segments import Segment, segment, shared_device
from generator.checks.fabric.users import Users
from generator.checks.finding import Breach, Severity, listed
from generator.checks.gathered import Gathered
from generator.documents.load import Path
from generator.facts.names import TENANT_LABEL
from generator.manifests import Manifest
from generator.objects.fields import mapping

_Meeting = list[tuple[Attachment, Segment]]
"""The networks that lead to one segment."""
_WHY = "RDMA passes by NetworkPolicy and MultiNetworkPolicy: ranks of one team reach the devices of the others"


def shared(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """The segments that two teams have networks in, and the shared devices that jobs of two teams ask for."""
    teams = {each.name: _team(each) for each in gathered.of("", "Namespace")}
    yield from _of_networks(gathered, teams)
    yield from _of_devices(gathered, teams)


def _of_networks(gathered: Gathered, teams: Mapping[str, str]) -> Iterator[tuple[Manifest, Breach]]:
    """Once for the same teams in several segments of a kind, as rails are."""
    users = Users(gathered)
    told: dict[tuple[str, ...], list[_Meeting]] = {}
    for networks in _by_segment(gathered).values():
        met = sorted({teams.get(home, home) for network, _ in networks for home in _homes(network, users)})
        if len(met) > 1:
            told.setdefault((networks[0][1].key[0], *met), []).append(networks)
    for (_, *met), meetings in told.items():
        network, where = meetings[0][-1]
        others = listed(list(dict.fromkeys(each.manifest.resource for each, _ in meetings[0][:-1])))
        beside = f" ({others} leads there too)" if others else ""
        more = f", and {len(meetings) - 1} more like it" if len(meetings) > 1 else ""
        yield network.manifest, _breach(("spec",), f"{listed(met)} share {where.told}{beside}{more}", where)


def _of_devices(gathered: Gathered, teams: Mapping[str, str]) -> Iterator[tuple[Manifest, Breach]]:
    for provider in gathered.view(Fabrics.read).offered_by(Source.SHARED):
        met = sorted({teams.get(home, home) for home in _homes_of_device(str(provider.resource), gathered)})
        if len(met) > 1:
            where = shared_device(str(provider.resource))
            yield provider.manifest, _breach(provider.path, f"{listed(met)} share {where.told}", where)


def _by_segment(gathered: Gathered) -> dict[tuple[str, ...], _Meeting]:
    found: dict[tuple[str, ...], _Meeting] = {}
    for network in gathered.view(Fabrics.read).attachments:
        where = segment(network)
        if where:
            found.setdefault(where.key, []).append((network, where))
    return found


def _homes(network: Attachment, users: Users) -> set[str]:
    """Whose pods get it: those of its namespace, and of others where pods name it with its namespace."""
    found = {network.namespace} if network.namespace else set()
    outside = [use for use in users.of(network) if use.is_from_elsewhere]
    others = {home for use in outside for home in homes(use.pods, users.gathered)}
    return others or found


def _homes_of_device(name: str, gathered: Gathered) -> set[str]:
    wanted = resource(name)
    return {
        home
        for pods in gathered.view(Fabrics.read).pods
        if any(resource(each).may_be(wanted) for each in pods.devices)
        for home in homes(pods, gathered)
    }


def _team(namespace: Manifest) -> str:
    said = mapping(namespace.body, "metadata", "labels").get(TENANT_LABEL)
    return said if isinstance(said, str) else namespace.name


def _breach(path: Path, what: str, where: Segment) -> Breach:
    return Breach(path, "fabric/shared", what, _WHY, where.fix, Severity.INFO)
