"""The conditions in the status of an object. A value of a wrong type counts as absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from generator.manifests import Manifest
from generator.objects.fields import mapping, mappings, string


class Condition(NamedTuple):
    """A condition in the status of an object.

    Attributes:
        type: the type, such as Evicted.
        status: `True`, `False` or `Unknown`.
        reason: the reason; empty if absent.
        message: the message; empty if absent.
        since: the time of the last change of the status, as the API server writes times; empty if absent.
    """

    type: str
    status: str
    reason: str
    message: str
    since: str

    @property
    def is_true(self) -> bool:
        """True if the status is `True`."""
        return self.status == "True"


def conditions_of(manifest: Manifest | None) -> Mapping[str, Condition]:
    """Return type → condition of an object; empty without an object."""
    conditions = mappings(mapping(manifest.body, "status").get("conditions")) if manifest else ()
    read = (
        Condition(
            string(item.get("type")),
            string(item.get("status")),
            string(item.get("reason")),
            string(item.get("message")),
            string(item.get("lastTransitionTime")),
        )
        for item in conditions
    )
    return {condition.type: condition for condition in read}


def created(manifest: Manifest) -> str:
    """Return the time of the creation of an object, as the API server writes times; empty if absent."""
    return string(mapping(manifest.body, "metadata").get("creationTimestamp"))
