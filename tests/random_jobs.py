"""Random TrainJobs: every field that the schema of Trainer allows, with values of which some are wrong."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from generator.manifests import Body
from generator.schemas.catalog import Catalog

TRAINER = "trainer.kubeflow.org/v1alpha1"
_PLACES = ("trainer", "trainer", "pod", "pod", "pod", "pod", "labels", "annotations", "spec")
"""The places of a random field: `pod`, `labels` and `annotations` are of a patch of its pods."""
_CHANGES = (1, 1, 1, 2)
"""The numbers of random fields of a job."""
_WORDS: Mapping[str, tuple[Any, ...]] = {
    "name": (*["node"] * 6, "data", "side", "A", "A=B", "", "x" * 70, "node.1"),
    "image": ("registry.example.com/mpi:1", "", " a", "a"),
    "fieldPath": ("metadata.name", "status.podIP", "spec.nope", "metadata.labels['a']", "metadata.labels['a b']"),
    "mountPath": ("/data", "/a:b", "", "data"),
    "subPath": ("a", "../a", "/a"),
    "subPathExpr": ("a", "$(A)", "../a"),
    "mountPropagation": ("None", "HostToContainer", "Bidirectional", "Shared"),
    "claimName": ("data", "Data", ""),
    "secretName": ("data", "Data", ""),
    "medium": ("", "Memory", "HugePages", "memory"),
    "resource": ("limits.cpu", "requests.memory", "limits.gpu"),
    "operator": ("In", "NotIn", "Exists", "Gt", "Equal", "in"),
    "effect": ("NoSchedule", "NoExecute", "None", ""),
    "topologyKey": ("kubernetes.io/hostname", "a b", ""),
    "path": ("a", "../a", "/a", "..a"),
    "key": ("a", "example.com/a", "a b", "A-", ""),
    "type": ("RuntimeDefault", "Localhost", "Unconfined", "Other", ""),
    "runAsUserName": ("user",),
    "procMount": ("Default", "Unmasked", "Other"),
    "fsGroupChangePolicy": ("Always", "OnRootMismatch", "Never"),
    "supplementalGroupsPolicy": ("Merge", "Strict", "Other"),
    "manager": ("tests.mpigen.dev/random", "random", "Example.com/a", "a/b/c"),
    "managedBy": ("trainer.kubeflow.org/trainjob-controller", "kueue.x-k8s.io/multikueue", "example.com/other"),
    "command": (["mpirun", "hostname"], ["sh", "-c", "exit 0"], []),
    "activeDeadlineSeconds": (3600, 2**31 - 1, 0, -1, 2**63 - 1),
    "seLinuxChangePolicy": ("Recursive", "Other"),
    "whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway", "Never"),
}
"""Field → its values. The same texts stand for all other strings."""
_TEXTS = ("a", "a", "b", "example.com/a", "A b", "", "x" * 64, "-a")
_NUMBERS = (1, 1, 2, 0, -1, 100, 65536, 2**31 - 1)
_AMOUNTS = ("1", "1", "500m", "1Gi", "0", "-1", "1.5", "2k")
_RESOURCES = ("cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "hugepages-2Mi", "a", "example.com/a")
_OPTIONAL = 0.35
_DEEPEST = 14


@cache
def _schema() -> Mapping[str, Any]:
    schema = Catalog.bundled().schema(TRAINER, "TrainJob")
    assert schema
    return schema


def _fields(*path: str) -> Mapping[str, Any]:
    """Return the schemas of the fields at a path below the spec of a TrainJob."""
    node: Mapping[str, Any] = _schema()["properties"]["spec"]
    for step in path:
        node = _resolve(_resolve(node)["properties"][step])
        node = node.get("items", node)
    fields: Mapping[str, Any] = _resolve(node)["properties"]
    return fields


def _resolve(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in schema:
        schema = _schema()["definitions"][schema["$ref"].rpartition("/")[2]]
    return schema


_POD = (
    *("runtimePatches", "trainingRuntimeSpec", "template", "spec"),
    *("replicatedJobs", "template", "spec", "template"),
)


class Writer:
    """Writes random values of the schema. Equal seeds give equal values."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def spec(self) -> Body:
        """Return random fields of the spec of a TrainJob."""
        own, trainer, pod, metadata = Body(), Body(numNodes=1), Body(), Body()
        for place in self._random.choices(_PLACES, k=self._random.choice(_CHANGES)):
            match place:
                case "trainer":
                    trainer |= self._field(_fields("trainer"))
                case "pod":
                    pod |= self._field(_fields(*_POD, "spec"))
                case "spec":
                    own |= self._field({key: _fields()[key] for key in ("activeDeadlineSeconds", "managedBy")})
                case _:
                    metadata[place] = dict(self._entries())
        template = {**({"metadata": metadata} if metadata else {}), **({"spec": pod} if pod else {})}
        jobs = [{"name": "node", "template": {"spec": {"template": template}}}]
        patch = {
            "manager": "tests.mpigen.dev/random",
            "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}},
        }
        return {**own, "trainer": trainer, **({"runtimePatches": [patch]} if template else {})}

    def _field(self, fields: Mapping[str, Any]) -> Body:
        """Return one random field."""
        name = self._random.choice([*fields])
        return {name: self._value(name, fields[name], 0)}

    def _value(self, name: str, schema: Mapping[str, Any], depth: int) -> Any:
        schema = _resolve(schema)
        if name in _WORDS:
            return self._random.choice(_WORDS[name])
        if "enum" in schema:
            return self._random.choice(schema["enum"])
        types = schema.get("type", "string")
        match next(kind for kind in ([types] if isinstance(types, str) else types) if kind != "null"):
            case "object":
                return self._amounts() if name in ("limits", "requests") else dict(self._items(schema, depth))
            case "array":
                count = self._random.choice((1, 1, 1, 2))
                return [self._value(f"{name}[]", schema.get("items", {}), depth + 1) for _ in range(count)]
            case "integer" | "number":
                return self._random.choice(_NUMBERS)
            case "boolean":
                return self._random.random() < 0.5
            case _:
                return self._random.choice(_TEXTS)

    def _items(self, schema: Mapping[str, Any], depth: int) -> Iterator[tuple[str, Any]]:
        """Yield the required fields, at least one field, and some others."""
        fields = {name: child for name, child in schema.get("properties", {}).items() if "date-time" not in str(child)}
        if not fields:
            yield from self._entries() if schema.get("additionalProperties") else ()
            return
        required = [name for name in schema.get("required", ()) if name in fields]
        others = [name for name in fields if name not in required]
        few = depth > _DEEPEST
        chosen = [name for name in others if not few and self._random.random() < _OPTIONAL / (1 + len(others) / 6)]
        if not chosen and not required and others:
            chosen = [self._random.choice(others)]
        for name in (*required, *chosen):
            yield name, self._value(name, fields[name], depth + 1)

    def _entries(self) -> Iterator[tuple[str, str]]:
        for key in self._random.sample(_WORDS["key"], k=self._random.choice((1, 1, 2))):
            yield key, self._random.choice(_TEXTS)

    def _amounts(self) -> Mapping[str, str]:
        names = self._random.sample(_RESOURCES, k=self._random.choice((1, 1, 2)))
        return {name: self._random.choice(_AMOUNTS) for name in names}


def random_job(seed: str, runtime: str, kind: str, namespace: str) -> Body:
    """Return a random TrainJob."""
    metadata = {"name": f"random-{seed}", "namespace": namespace}
    reference = {"runtimeRef": {"name": runtime, "kind": kind}}
    return {
        "apiVersion": TRAINER,
        "kind": "TrainJob",
        "metadata": metadata,
        "spec": {**Writer(seed).spec(), **reference},
    }
