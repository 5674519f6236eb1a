"""What people call a resource → what rules call it, as kubectl does, by the bundled schemas instead of a server."""

from __future__ import annotations

from dataclasses import dataclass

from generator.schemas.catalog import Catalog, Entry


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of resource.

    Attributes:
        group: the API group; empty for the core group.
        plural: such as `trainjobs`.
        is_namespaced: whether its objects lie in namespaces; None when nobody knows.
    """

    group: str
    plural: str
    is_namespaced: bool | None


def resource(catalog: Catalog, text: str) -> Resource:
    """The resource of `trainjobs`, `trainjob`, `TrainJob` or `trainjobs.trainer.kubeflow.org`.

    Where several groups have one of that name, the first one that the API server lists: the core group before others.
    What has no schema is taken as it is written.
    """
    name, _, group = text.lower().partition(".")
    found = [each for each in catalog.entries.values() if name in (each.plural, each.kind.lower())]
    if group:
        found = [each for each in found if _group(each) == group]
    if not found:
        return Resource(group, name, None)
    best = min(found, key=lambda each: (_group(each) != "", _group(each)))
    return Resource(_group(best), best.plural, best.scope == "Namespaced")


def _group(entry: Entry) -> str:
    return entry.api_version.rpartition("/")[0]
