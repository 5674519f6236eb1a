"""Required fields of custom kinds that a mutating webhook fills in before the API server validates the object.

The API server asks mutating webhooks first, so an object without such a field is accepted. It is refused where the
webhook does not see it, as in the JobSet template of a training runtime, which is another kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from generator.schemas.formats import Schema

_FILLED_IN: Mapping[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    # jobset v0.12.0 and v0.11.1 pkg/webhooks/jobset_webhook.go Default: `failurePolicyRule` and the rule's number
    ("jobset.x-k8s.io", "JobSet"): (("spec", "failurePolicy", "rules", "[]", "name"),),
}
"""Group and kind → paths of fields; `[]` is each item of a list."""


def as_written(group: str, kind: str, upstream: Schema) -> Schema:
    """Return the schema of a kind as it holds for what people write, before webhooks add to it.

    Args:
        group: the API group.
        kind: the kind.
        upstream: its structural schema, as in the CustomResourceDefinition. It is not changed.
    """
    paths = _FILLED_IN.get((group, kind), ())
    schema = deepcopy(upstream) if paths else upstream
    for *parents, field in paths:
        node: Any = schema
        for step in parents:
            node = node["items"] if step == "[]" else node["properties"][step]
        node["required"].remove(field)
    return schema
