"""object/misspelt-device: an extended resource with a misspelt name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.objects import Objects
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.documents.load import Path
from generator.facts.devices import likely_meant
from generator.manifests import Manifest
from generator.objects.devices import providers
from generator.objects.fields import mapping, string

_AMOUNTS = frozenset({"limits", "requests", "max", "min", "default", "defaultRequest", "hard"})
"""Fields with resource → amount."""
_QUOTA_PREFIX = re.compile(r"^(?:requests|limits)\.")


@check("object/misspelt-device", severity=ERROR, needs=Objects)
def misspelt_device(objects: Objects) -> Iterator[Breach]:
    """Report an extended resource whose name differs by one letter from the name that other objects use.

    No device plugin offers such a resource, so no node has it: pods that request it stay Pending, Kueue never admits
    their job, and a quota for it limits nothing. The finding is a warning if no other object uses the correct name. The
    check reports a name of a single object only, and no name that an object in the files offers, such as a
    SriovNetworkNodePolicy, because administrators can choose the names of NICs, or a DeviceClass with
    `extendedResourceName`. It compares names with the resources of other objects and with the names that device plugins
    use.

    Source: generator/facts/devices.yaml names a source for each device plugin; kubernetes v1.37.2
    pkg/scheduler/framework/plugins/noderesources/fit.go fitsRequest, shouldDelegateResourceToDRA
    """
    offered = {str(provider.resource) for manifest in objects.manifests for provider in providers(manifest)}
    classes = objects.of("resource.k8s.io", "DeviceClass")
    offered |= {string(mapping(item.body, "spec").get("extendedResourceName")) for item in classes}
    users: dict[str, dict[tuple[str, ...], tuple[Manifest, Path]]] = {}
    for manifest in objects.manifests:
        for path, name in _resources(manifest.body):
            users.setdefault(name, {}).setdefault(manifest.identity, (manifest, path))
    for name, by_object in sorted(users.items()):
        if len(by_object) > 1 or name in offered:
            continue
        ((identity, (manifest, path)),) = by_object.items()
        others = frozenset(offered | {other for other, users_of in users.items() if users_of.keys() - {identity}})
        if meant := likely_meant(name, others):
            is_used = meant in others
            use = "other objects use" if is_used else "device plugins offer"
            yield Breach(
                path,
                f"the resource `{name}` looks like a misspelling of `{meant}`, which {use}",
                f"no node has `{name}`, so pods that request it stay Pending, and a quota for it limits nothing",
                f"did you mean `{meant}`?",
                manifest,
                severity=ERROR if is_used else WARNING,
                at_key=not isinstance(path[-1], int) and path[-1] != "name",
                value=name,
            )


def _resources(node: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield (path, name) of the extended resources that an object requests, limits or covers."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            place = (*path, key)
            if key in _AMOUNTS and isinstance(value, Mapping):
                yield from (((*place, name), _QUOTA_PREFIX.sub("", name)) for name in value if _is_extended(name))
            elif key == "coveredResources" and isinstance(value, list):
                yield from (((*place, number), name) for number, name in enumerate(value) if _is_extended(name))
            elif key == "name" and "nominalQuota" in node and _is_extended(value):
                yield place, value
            elif isinstance(value, Mapping | list):
                yield from _resources(value, place)
    elif isinstance(node, list):
        for number, item in enumerate(node):
            if isinstance(item, Mapping | list):
                yield from _resources(item, (*path, number))


def _is_extended(name: object) -> bool:
    return isinstance(name, str) and "/" in name and name[0].isalnum()  # pod/resources reports other names
