"""The topic `nodes`: updates for which an operator drains or restarts nodes."""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.change.nodes import find_node_fields, find_restarts
from generator.checks.objects import Change
from generator.effects.effect import Effect, Risk
from generator.effects.subjects import name_subjects

_DETAIL = "jobs with a pod on such a node fail, so apply the update in a maintenance window"


def find_node_effects(change: Change) -> Iterator[Effect]:
    """Yield an effect for each group of objects whose update drains or restarts the same nodes in the same way."""
    for restart in find_restarts(change):
        objects = [manifest for manifest, _ in restart.places]
        subject = name_subjects(objects[0].kind, [item.name for item in objects])
        text = f"{restart.effect}, because of {subject}: {restart.event}"
        fields = tuple(dict.fromkeys(field for item in objects for field in find_node_fields(item)))
        yield Effect("nodes", Risk.HIGH, subject, text, (_DETAIL,), tuple(objects), fields=fields)
