"""Fields that are refused because a release of the cluster has a defect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from generator.config.cluster import Cluster
from generator.config.complaints import Contradiction
from generator.config.draft import Draft
from generator.facts.defects import refusing, sound_minors

_FIELDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "fabrics": ("attach", lambda fabric: fabric.attached == "dra"),
    "pools": ("topology", lambda pool: bool(pool.topology)),
    "runtimes": ("ttlSecondsAfterFinished", lambda runtime: runtime.ttl_seconds_after_finished is not None),
    "tenants": ("multiKueue", lambda tenant: tenant.multi_kueue),
}
"""Section → a field of its entries that a defect may forbid, and whether an entry sets it."""


def defective(draft: Draft) -> Iterator[Contradiction]:
    """Find the fields with which a release of the cluster does the wrong thing."""
    if draft.cluster is None:
        return
    for section, (field, is_set) in _FIELDS.items():
        why = forbidden(f"{section}[].{field}", draft.cluster)
        for index, entry in getattr(draft, section).items() if why else ():
            if why and is_set(entry):
                yield Contradiction((section, index, field), *why)
    if draft.queues is not None and draft.cluster.is_openshift and draft.queues.waits_otherwise:
        why = forbidden("queues.waitForPodsReady", draft.cluster)
        if why:
            yield Contradiction(("queues", "waitForPodsReady"), *why)


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
