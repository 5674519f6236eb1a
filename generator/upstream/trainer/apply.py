"""The function by which Trainer sets parts of a JobSet that a runtime can also set.

Source: trainer v2.3.0 pkg/apply/apply.go
"""

from __future__ import annotations

from typing import Any

from generator.upstream.kubernetes.strategic_merge import MERGE_KEYS

_MERGED_ITEMS = ("replicatedJobs", "containers", "initContainers")


def upsert(original: Any, items: Any, field: str = "") -> Any:
    """Return `original` with `items` set. An item of a keyed list replaces the item with the same key, or is appended.

    Replicated jobs and containers are merged instead, because Trainer changes only some of their fields.

    Source: trainer v2.3.0 pkg/apply/apply.go upsert
    """
    if isinstance(items, dict) and isinstance(original, dict):
        return {**original, **{key: upsert(original.get(key), value, key) for key, value in items.items()}}
    key = MERGE_KEYS.get(field)
    if key is None or not isinstance(items, list) or not isinstance(original, list):
        return items
    result = list(original)
    for item in items:
        index = next((index for index, old in enumerate(result) if old.get(key) == item.get(key)), None)
        if index is None:
            result.append(item)
        else:
            result[index] = upsert(result[index], item) if field in _MERGED_ITEMS else item
    return result
