"""What is wrong in the configuration of a network: by the schema of each plugin, and by rules that a schema cannot say.

The rules: sriov-cni v2.10.0 pkg/config/config.go LoadConf; ib-sriov-cni 543060d README.md and Mellanox/ib-kubernetes
528f63f pkg/daemon/daemon.go (who sets a partition key); rdma-cni v1.6.0 cmd/rdma/main.go (needs another's result).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from generator.checks.finding import Severity
from generator.checks.schema import fix_of
from generator.documents.load import Path
from generator.objects.fields import indexed_mappings, mapping
from generator.schemas import cni
from generator.schemas.violations import Violation

_ON_ITS_OWN = "rdma"
_SAID_ELSEWHERE = {
    ("sriov", "mtu"): "say it in the `mtu` of the SriovNetworkNodePolicy: the plugin takes what the device has",
    ("sriov", "master"): "remove it: the device that Multus hands over says whose it is",
}
"""Plugin and unknown key → what to do."""
_OF_OLD = {("whereabouts", "datastore"), ("whereabouts", "etcd_host")}
"""Keys that once were read and do no harm since: whereabouts v0.6 dropped etcd (pkg/types/types.go UnmarshalJSON)."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong inside of a JSON text.

    Attributes:
        path: where, from the root of the text.
        message: what is wrong there.
        fix: what to do.
        severity: whether it fails a run.
    """

    path: Path
    message: str
    fix: str
    severity: Severity = Severity.ERROR


def of_network(said: Any) -> Iterator[Mistake]:
    """Of a whole configuration: one plugin, or a list of them."""
    if not (isinstance(said, dict) and "plugins" in said):
        yield from of_plugin(said)
        return
    yield from of_whole("list", said)
    for number, plugin in indexed_mappings(said["plugins"]):
        yield from _inside(("plugins", number), of_plugin(plugin, is_first=number == 0))


def of_chain(said: Any) -> Iterator[Mistake]:
    """Of plugins that are chained to another one."""
    for number, plugin in enumerate(said):
        yield from _inside((number,), of_plugin(plugin, is_first=False))


def of_plugin(said: Any, *, is_first: bool = True) -> Iterator[Mistake]:
    """Of one plugin, with how it gives addresses."""
    if not isinstance(said, dict):
        yield Mistake((), "this is no object", "write `{…}` with the `type` of a plugin")
        return
    kind = said.get("type")
    if not isinstance(kind, str) or not kind:
        yield Mistake((), "`type` is missing", "name the plugin")
        return
    yield from _judged("plugin", kind, said)
    yield from _inside(("ipam",), of_ipam(said.get("ipam")))
    for rule in _RULES.get(kind, ()):
        yield from rule(said)
    if is_first and kind == _ON_ITS_OWN:
        yield Mistake((), "`rdma` makes no interface, and no plugin stands before it", "chain it to one that does")


def of_ipam(said: Any) -> Iterator[Mistake]:
    """Of how a plugin gives addresses; without a type it gives none."""
    if said in (None, {}):
        return
    kind = mapping(said).get("type")
    if not isinstance(kind, str) or not kind:
        yield Mistake((), "`type` is missing", "name how addresses are given, such as `whereabouts`")
        return
    yield from _judged("ipam", kind, said)


def of_whole(name: str, said: Any) -> Iterator[Mistake]:
    """Of a text that is one thing, such as the configuration of a device plugin."""
    yield from _judged("whole", name, said)


def _judged(sort: str, name: str, said: Any) -> Iterator[Mistake]:
    for violation in cni.violations(sort, name, said) or ():
        key = (name, str(violation.path[-1] if violation.path else ""))
        fix = _SAID_ELSEWHERE.get(key) or fix_of(violation)
        severity = Severity.WARNING if key in _OF_OLD else Severity.ERROR
        yield Mistake(violation.path, _message(violation, name), fix, severity)


def _message(violation: Violation, name: str) -> str:
    if violation.keyword == "additionalProperties":
        return f"`{violation.path[-1]}` is read by nobody: `{name}` does not know it"
    return violation.message


def _inside(path: Path, mistakes: Iterator[Mistake]) -> Iterator[Mistake]:
    for mistake in mistakes:
        yield replace(mistake, path=(*path, *mistake.path))


def _vlan(said: Mapping[str, Any]) -> Iterator[Mistake]:
    for key, harmless in (("vlanQoS", (0,)), ("vlanProto", ("802.1q", "802.1Q"))):
        value = said.get(key)
        if value is not None and ("vlan" not in said or (not said["vlan"] and value not in harmless)):
            yield Mistake((key,), f"`{key}` needs a `vlan`, which is not there", "set the `vlan`, or remove it")


def _rates(said: Mapping[str, Any]) -> Iterator[Mistake]:
    least, most = said.get("min_tx_rate"), said.get("max_tx_rate")
    if isinstance(least, int) and isinstance(most, int) and 0 < most < least:
        yield Mistake(
            ("min_tx_rate",), f"{least} is more than the `max_tx_rate`, {most}", "swap the two, or remove one"
        )


def _partition(said: Mapping[str, Any]) -> Iterator[Mistake]:
    if said.get("pkey") and said.get("ibKubernetesEnabled") is not True:
        message = "`ib-sriov` does not set the `pkey`: ib-kubernetes does, and nobody waits for it"
        fix = "write `ibKubernetesEnabled: true`, so that no pod starts outside of its partition"
        yield Mistake(("pkey",), message, fix, Severity.WARNING)


_RULES: Mapping[str, tuple[Callable[[Mapping[str, Any]], Iterator[Mistake]], ...]] = {
    "sriov": (_vlan, _rates),
    "ib-sriov": (_partition,),
}
