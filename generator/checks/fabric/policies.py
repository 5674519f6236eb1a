"""fabric/node-policy: what the webhook of the SR-IOV operator refuses, which is off unless somebody turned it on.

sriov-network-operator v1.6.0 pkg/webhook/validate.go staticValidateSriovNetworkNodePolicy, and what is known of nodes
without a cluster; `netFilter` and names with hyphens as in 249e200, after that release.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.documents.load import Path
from generator.documents.syntax import shown
from generator.manifests import Manifest
from generator.objects.fields import mapping, strings

_Spec = Mapping[str, Any]
_CHECK = "fabric/node-policy"
_NAME = re.compile(r"[a-zA-Z0-9_]+")
_NAME_SINCE = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9_-]*[a-zA-Z0-9])?")
_LONGEST = 63
_BY = ("vendor", "deviceID", "pfNames", "rootDevices", "netFilter")
_RANGE = re.compile(r"(?P<first>\+?[0-9]{1,19})-(?P<last>\+?[0-9]{1,19})")
_MOST_OF_MELLANOX = 128
_MELLANOX = "15b3"
_WHY = "the operator's webhook refuses it; where that is off, as by default outside OpenShift, it never works"


def node_policy(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """What one policy says."""
    for manifest in gathered.of("sriovnetwork.openshift.io", "SriovNetworkNodePolicy"):
        spec = mapping(manifest.body, "spec")
        for rule in _RULES if spec else ():
            for breach in rule(spec):
                yield manifest, breach


def _name(spec: _Spec) -> Iterator[Breach]:
    """Up to 1.6 hyphens are refused; later a name has at most 63 letters, and `_` neither first nor last."""
    name = spec.get("resourceName")
    if not isinstance(name, str):
        return
    before, since = bool(_NAME.fullmatch(name)), bool(_NAME_SINCE.fullmatch(name)) and len(name) <= _LONGEST
    if before and since:
        return
    which = {(True, False): ", from releases after 1.6 on", (False, True): " up to release 1.6"}.get(
        (before, since), ""
    )
    message = f"{shown(name)} is no name that every release of the operator takes"
    fix = f"write `{re.sub('[^a-zA-Z0-9]+', '_', name)[:_LONGEST].strip('_') or 'ib_vf'}`"
    why = f"the webhook of the operator refuses it{which}"
    yield _told(("resourceName",), message, fix, name, why, Severity.WARNING if which else Severity.ERROR)


def _selector(spec: _Spec) -> Iterator[Breach]:
    selector = mapping(spec, "nicSelector")
    if isinstance(spec.get("nicSelector"), dict) and not any(selector.get(key) for key in _BY):
        message = "`nicSelector` selects by nothing" + ("" if not selector else f", as nobody knows {_keys(selector)}")
        yield _told(("nicSelector",), message, f"name one of {', '.join(_BY)}")
    if selector.get("netFilter"):
        others = [f"nicSelector.{key}" for key in _BY[:-1] if selector.get(key)]
        others += [key for key in ("eSwitchMode", "bridge") if spec.get(key)]
        others += ["linkType"] if str(spec.get("linkType") or "eth").lower() != "eth" else []
        if others:
            message = f"`netFilter` stands beside `{'` and `'.join(others)}`"
            since = "releases of the operator after 1.6 refuse it"
            yield _told(("nicSelector", "netFilter"), message, "keep one of them", None, since, Severity.WARNING)


def _keys(selector: _Spec) -> str:
    return " and ".join(f"`{key}`" for key in selector)


def _ranges(spec: _Spec) -> Iterator[Breach]:
    """`ens1f0#2-5`: the functions 2 to 5 of the port."""
    number = spec.get("numVfs")
    for index, name in enumerate(strings(mapping(spec, "nicSelector").get("pfNames"))):
        if "#" not in name:
            continue
        path: Path = ("nicSelector", "pfNames", index)
        found = _RANGE.fullmatch(name.partition("#")[2])
        if found is None:
            yield _told(path, f"`{name}` has no range of functions behind `#`", "write it like `ens1f0#0-7`", name)
            continue
        first, last = int(found["first"]), int(found["last"])
        if last < first:
            yield _told(path, f"the range of `{name}` ends before it begins", f"write `#{last}-{first}`", name)
        elif isinstance(number, int) and last >= number:
            message = f"`{name}` ends with function {last}, and `numVfs: {number}` makes 0 to {number - 1}"
            yield _told(path, message, f"write at most `#{first}-{number - 1}`, or a larger `numVfs`", name)


def _functions(spec: _Spec) -> Iterator[Breach]:
    number = spec.get("numVfs")
    if not isinstance(number, int) or isinstance(number, bool):
        return
    if number == 0:
        message = "`numVfs: 0` makes no virtual functions"
        yield _told(("numVfs",), message, "write how many pods of a node may use the NIC, or remove the policy", number)
    elif number > _MOST_OF_MELLANOX and mapping(spec, "nicSelector").get("vendor") == _MELLANOX:
        message = f"`numVfs: {number}` for NICs of NVIDIA, whose operator makes {_MOST_OF_MELLANOX} at most"
        yield _told(("numVfs",), message, f"write at most {_MOST_OF_MELLANOX}", number)


def _modes(spec: _Spec) -> Iterator[Breach]:
    link, mode, kind = (str(spec.get(key) or "") for key in ("linkType", "eSwitchMode", "deviceType"))
    vdpa, is_switchdev = spec.get("vdpaType"), mode == "switchdev"
    if kind == "vfio-pci" and spec.get("isRdma") is True:
        message = "`deviceType: vfio-pci` gives the NIC to a virtual machine, and `isRdma: true` to pods"
        yield _told(("deviceType",), message, "write `deviceType: netdevice` for pods", kind)
    if is_switchdev and link and link.lower() != "eth":
        yield _told(("eSwitchMode",), f"`switchdev` with `linkType: {link}`", "leave `eSwitchMode` out", mode)
    if vdpa and (kind not in ("", "netdevice") or not is_switchdev):
        message = f"`vdpaType: {vdpa}` without `deviceType: netdevice` and `eSwitchMode: switchdev`"
        yield _told(("vdpaType",), message, "write both, or leave it out", vdpa)
    if spec.get("bridge") and (not is_switchdev or spec.get("externallyManaged") is True):
        message = "`bridge` needs `eSwitchMode: switchdev`, and NICs that the operator manages"
        yield _told(("bridge",), message, "write that, or leave it out")


_RULES: tuple[Callable[[_Spec], Iterator[Breach]], ...] = (_name, _selector, _ranges, _functions, _modes)


def _told(
    path: Path, message: str, fix: str, value: object = None, why: str = _WHY, severity: Severity = Severity.ERROR
) -> Breach:
    return Breach(("spec", *path), _CHECK, message, why, fix, severity, value=value)
