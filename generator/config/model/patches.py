"""`patches` and `extra`: changes of generated objects, and objects of your own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, WithJsonSchema

from generator.config.model.fields import (
    Fault,
    Labels,
    Name,
    Section,
    String,
    Text,
    duplicates,
    invalid,
    matching,
    reject,
)
from generator.documents.messages import format_value
from generator.manifests import Body
from generator.objects.fields import mapping
from generator.patches.operations import parse_pointer
from generator.patches.select import Selection

_OBJECT_NAME = r"[A-Za-z0-9*](?:[-A-Za-z0-9.:_*]{0,251}[A-Za-z0-9*])?"
_NAME_FIX = "write the name of an object; `*` stands for any characters, as in `np-*`"
_PLAIN_FIX = "use strings, finite numbers, lists and mappings only"
_OBJECT_FIX = "write an object with `apiVersion`, `kind` and `metadata.name`, or the path of a file with such objects"
READER = "read_extra"
"""The key of pydantic's context with the function that reads a file of `extra`."""


def _is_plain(value: Any) -> Any:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise invalid(f"the value is not plain data: {error}", _PLAIN_FIX) from None
    return value


def _is_pointer(value: str) -> str:
    try:
        parse_pointer(value)
    except ValueError as error:
        raise invalid(f"{error}, so it is not a JSON pointer", "write it like /spec/rules/0/verbs") from None
    return value


_Pointer = Annotated[String, AfterValidator(_is_pointer)]


class Target(Section):
    """The objects that a patch changes. An object must match every field that is set."""

    kind: Text | None = Field(default=None, examples=["NetworkPolicy"])
    """The kind of the objects, such as `Namespace`. Default: any kind."""
    name: Annotated[Text, matching(_OBJECT_NAME, "the name of an object", _NAME_FIX)] | None = Field(
        default=None, examples=["np-*"]
    )
    """The name of the objects. `*` stands for any characters. Default: any name."""
    labels: Labels = Field(default={}, validate_default=True, examples=[{"mpigen.dev/tenant": "team-sim"}])
    """Labels that the objects have, with their values. Default: any labels."""
    tenant: Name | None = Field(default=None, examples=["team-sim"])
    """The name of a tenant, for the objects in its folder of the release and in its namespaces. Default: any object."""
    runtime: Name | None = Field(default=None, examples=["openmpi"])
    """The name of a runtime, for its ClusterTrainingRuntime or its TrainingRuntimes. Default: any object."""

    def _contradictions(self) -> Iterator[Fault]:
        if not (self.kind or self.name or self.labels or self.tenant or self.runtime):
            fix = "set at least one of `kind`, `name`, `labels`, `tenant` and `runtime`"
            yield Fault("`target` is empty, so it selects nothing", fix)

    @property
    def selection(self) -> Selection:
        """The target as a selection."""
        return Selection(self.kind or "", self.name or "", self.tenant or "", self.runtime or "", dict(self.labels))


class Operation(Section):
    """An operation of a JSON patch (RFC 6902)."""

    op: Literal["add", "remove", "replace", "move", "copy", "test"] = Field(examples=["replace"])
    """The operation. `add` sets a key or inserts an item into a list. `replace`, `remove`, `move` and `copy` need an
    existing value. `test` stops the run if the value differs."""
    path: _Pointer = Field(examples=["/spec/template/spec/replicatedJobs/0/template/spec/backoffLimit"])
    """The JSON pointer of the value. It has a position for an item of a list, `-` for the position after the last item,
    `~1` for a slash in a key, and `~0` for a tilde."""
    value: Annotated[Any, AfterValidator(_is_plain)] = Field(default=None, examples=[0])
    """The value, for `add`, `replace` and `test`."""
    source: _Pointer | None = Field(default=None, alias="from", examples=["/metadata/labels/team"])
    """The JSON pointer of the value to move or to copy, for `move` and `copy`."""

    def _contradictions(self) -> Iterator[Fault]:
        if self.op in ("add", "replace", "test") and "value" not in self.model_fields_set:
            yield Fault(f"`{self.op}` needs a `value`", "add it", ("op",))
        if self.op in ("move", "copy") and self.source is None:
            yield Fault(f"`{self.op}` needs `from`", "add the pointer of the value", ("op",))

    @property
    def as_json(self) -> Mapping[str, Any]:
        """The operation as in RFC 6902."""
        return {"op": self.op, "path": self.path, "value": self.value, "from": self.source}


class Patch(Section):
    """A change of generated objects, by a merge or by a JSON patch."""

    target: Target = Field(examples=[{"kind": "Namespace", "tenant": "team-sim"}])
    """The objects to change. If no object of the release matches, mpigen writes no release."""
    merge: Annotated[dict[str, Any], AfterValidator(_is_plain)] | None = Field(
        default=None, examples=[{"metadata": {"annotations": {"example.com/cost-center": "4711"}}}]
    )
    """The fields to change, as in `kubectl patch`. Mappings are merged by key, and null removes a key. In pods, mpigen
    merges the lists that Kubernetes merges by a key: `containers`, `initContainers`, `env`, `volumes` and others by
    `name`, `volumeMounts` by `mountPath`. It merges the `replicatedJobs` of a runtime by `name`, too. An item with
    `$patch: delete` removes the item with its key. All other lists replace the generated list."""
    operations: tuple[Operation, ...] | None = Field(
        default=None,
        alias="json",
        min_length=1,
        examples=[[{"op": "replace", "path": "/spec/hard/pods", "value": "200"}]],
    )
    """The operations of a JSON patch (RFC 6902), in their order. Use them to change one item of a list, or to `test` a
    value before you change it."""
    name: Name | None = Field(default=None, examples=["cost-center"])
    """A name for this patch. If all patches have names, an environment can change or leave out a patch of the base by
    its name. Default: none; then the patches of an environment replace all patches of the base."""
    reason: Annotated[Text, Field(max_length=1000)] = Field(examples=["the billing export reads this annotation"])
    """The reason for the change, for reviewers."""

    def _contradictions(self) -> Iterator[Fault]:
        if self.merge is not None and self.operations is not None:
            yield Fault("a patch has both `merge` and `json`", "write two patches", ("json",))
        elif self.merge is None and self.operations is None:
            yield Fault("a patch needs either `merge` or `json`", "set one of the two", (), ("merge", "json"))
        elif self.merge == {}:
            yield Fault("`merge` is empty, so the patch changes nothing", "add the fields to change", ("merge",))

    @property
    def change(self) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        """The mapping to merge, or the operations of the JSON patch."""
        return self.merge if self.merge is not None else [operation.as_json for operation in self.operations or ()]


def have_unique_names(patches: tuple[Patch, ...]) -> tuple[Patch, ...]:
    """Reject two patches of one name. Patches without a name are allowed."""
    names = [patch.name if patch.name is not None else position for position, patch in enumerate(patches)]
    reject(duplicates(names, "rename one of the two patches", "name"))
    return patches


class Extra(Section):
    """Objects that an entry of `extra` adds to the release.

    Attributes:
        file: the file with the objects, relative to the platform file; empty for an object in the platform file.
        objects: the objects.
    """

    file: String = ""
    objects: tuple[dict[str, Any], ...]


def _to_extra(value: Any, info: ValidationInfo) -> Any:
    """Return an entry of `extra` with its objects. Pydantic's context has the function that reads files."""
    if isinstance(value, str):
        read: Callable[[str], list[Body]] | None = (info.context or {}).get(READER)
        if read is None:
            fix = "pass the object itself, or load the file with `cdk8s.Include(app, id, url=file)`"
            raise invalid(f"a platform in Python has no folder for the file {format_value(value)}", fix)
        return {"file": value, "objects": read(value)}
    if isinstance(value, Extra) or (isinstance(value, dict) and "objects" in value and "kind" not in value):
        return value
    if not isinstance(value, dict):
        raise invalid(f"{format_value(value)} is neither an object nor a file", _OBJECT_FIX)
    _is_plain(value)
    if fault := find_incomplete(value):
        raise invalid(fault, _OBJECT_FIX)
    return {"objects": [value]}


def find_incomplete(body: Body) -> str:
    """Return the problem of an object without a kind, an API version or a name; empty if it has all three."""
    for path in (("apiVersion",), ("kind",), ("metadata", "name")):
        value = mapping(body, *path[:-1]).get(path[-1])
        if not isinstance(value, str) or not value:
            return f"an object has no `{'.'.join(path)}`"
    for name in ("labels", "annotations"):
        if not isinstance(mapping(body, "metadata").get(name, {}), dict):
            return f"an object has a `metadata.{name}` that is not a mapping"
    return ""


Extras = tuple[
    Annotated[
        Extra,
        BeforeValidator(_to_extra),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "string"},
                    {"type": "object", "required": ["apiVersion", "kind", "metadata"], "additionalProperties": True},
                ]
            }
        ),
    ],
    ...,
]
"""A list of objects, and of files with objects."""
