"""Settings: what Kueue's own configuration says that decides how quotas count, where it is among the files.

It is a Configuration, as a file or in the ConfigMap that Kueue reads, or the Kueue object of OpenShift's operator.
kueue v0.19.2 apis/config/v1beta2/configuration_types.go, config/components/manager/controller_manager_config.yaml
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from generator.checks.mpi_runtime import mapping, mappings, texts
from generator.errors import DocumentError
from generator.manifests import Manifest, read

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
        excluded: beginnings of the names of resources that are not counted.
        counts_as_asked: whether what pods request is what is counted, and refused where there is no quota for it.
    """

    is_fair: bool | None = None
    excluded: tuple[str, ...] = ()
    counts_as_asked: bool = True


def settings(manifests: Iterable[Manifest]) -> Settings:
    """Those of the only configuration; of several, for several clusters, nothing is known."""
    found = [each for manifest in manifests for each in _of(manifest)]
    return found[0] if len(found) == 1 else Settings()


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
        policy = mapping(manifest.body, "spec", "config", "preemption").get("preemptionPolicy")
        yield Settings(is_fair=policy == "FairSharing")
    else:
        yield _read(manifest.body)


def _read(body: Mapping[str, Any]) -> Settings:
    """`fairSharing` of v1beta1 has a switch, that of v1beta2 is on where it is written."""
    fair, resources = body.get("fairSharing"), mapping(body, "resources")
    has_switch = str(body.get("apiVersion")).endswith("/v1beta1")
    is_ignored = resources.get("quotaCheckStrategy") == "IgnoreUndeclared"
    return Settings(
        is_fair=isinstance(fair, dict) and (fair.get("enable") is True or not has_switch),
        excluded=tuple(texts(resources.get("excludeResourcePrefixes"))),
        counts_as_asked=not is_ignored and not mappings(resources.get("transformations")),
    )
