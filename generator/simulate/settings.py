"""Settings: what Kueue's own configuration says that decides how quotas count, where it is among the files.

It is a Configuration, as a file or in the ConfigMap that Kueue reads, or the Kueue object of OpenShift's operator.
kueue v0.19.2 apis/config/v1beta2/configuration_types.go, config/components/manager/controller_manager_config.yaml
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from generator.errors import DocumentError
from generator.manifests import Body, Manifest, read
from generator.quantities import parse
from generator.simulate.counting import AS_ASKED, Counting, Transformation
from generator.simulate.fields import mapping, mappings, text, texts

CONFIGURATION = "Configuration"
OPERATOR = "Kueue"
_KEY = "controller_manager_config.yaml"
_GROUP = "config.kueue.x-k8s.io"
_OPERATOR_GROUP = "kueue.openshift.io"


@dataclass(frozen=True, slots=True)
class Settings:
    """What matters of it.

    Attributes:
        is_fair: whether fair sharing is on; None where no file says.
        counting: what is counted of what pods request.
        is_modelled: whether that is all, and what there is no quota for is refused.
    """

    is_fair: bool | None = None
    counting: Counting = AS_ASKED
    is_modelled: bool = True


UNTOLD = Settings()
"""Where no file says anything."""


def settings(manifests: Iterable[Manifest]) -> Settings:
    """Those of the only configuration; of several, for several clusters, nothing is known."""
    found = [each for manifest in manifests for each in _of(manifest)]
    return found[0] if len(found) == 1 else UNTOLD


def is_configuration(manifest: Manifest) -> bool:
    """Whether an object is, or holds, a configuration of Kueue."""
    if manifest.kind == "ConfigMap":
        return isinstance(mapping(manifest.body, "data").get(_KEY), str)
    return (manifest.group, manifest.kind) in ((_GROUP, CONFIGURATION), (_OPERATOR_GROUP, OPERATOR))


def _of(manifest: Manifest) -> Iterator[Settings]:
    if not is_configuration(manifest):
        return
    if manifest.kind == "ConfigMap":
        with suppress(DocumentError):
            yield from map(_read, (each.body for each in read(mapping(manifest.body, "data")[_KEY], manifest.file)))
    elif manifest.kind == OPERATOR:
        config = mapping(manifest.body, "spec", "config")
        policy = mapping(config, "preemption").get("preemptionPolicy")
        yield Settings(policy == "FairSharing", Counting(classes=_classes(mapping(config, "resources"))))
    else:
        yield _read(manifest.body)


def _read(body: Mapping[str, Any]) -> Settings:
    """`fairSharing` of v1beta1 has a switch, that of v1beta2 is on where it is written."""
    fair, resources = body.get("fairSharing"), mapping(body, "resources")
    has_switch = str(body.get("apiVersion")).endswith("/v1beta1")
    is_ignored = resources.get("quotaCheckStrategy") == "IgnoreUndeclared"
    written = mappings(resources.get("transformations"))
    known = {text(each.get("input")): made for each in written if (made := _transformation(each))}
    return Settings(
        is_fair=isinstance(fair, dict) and (fair.get("enable") is True or not has_switch),
        counting=Counting(texts(resources.get("excludeResourcePrefixes")), known, _classes(resources)),
        is_modelled=not is_ignored and len(known) == len(written),
    )


def _classes(resources: Mapping[str, Any]) -> dict[str, str]:
    """DeviceClass → what its devices count as, for those that are counted one by one."""
    return {
        name: text(each.get("name"))
        for each in mappings(resources.get("deviceClassMappings"))
        if not each.get("sources")
        for name in texts(each.get("deviceClassNames"))
    }


def _transformation(body: Body) -> Transformation | None:
    """None where it multiplies resources by one another, or takes some away: Kueue 0.18 and 0.19 differ in that."""
    outputs: dict[str, Fraction] = {}
    for name, factor in mapping(body, "outputs").items():
        try:
            outputs[str(name)] = parse(str(factor)).value
        except ValueError:
            return None
    if body.get("multiplyBy") or any(factor < 0 for factor in outputs.values()):
        return None
    return Transformation(outputs, keeps_input=body.get("strategy") != "Replace")
