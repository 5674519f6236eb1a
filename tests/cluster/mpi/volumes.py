"""Volumes as the kubelet fills them (kubernetes v1.34.2, pkg/volume/{emptydir,secret,configmap,projected})."""

from __future__ import annotations

import base64

from generator import quantities
from tests.cluster.client import Body
from tests.cluster.mpi.environment import Lookup, UnsupportedError, data_of
from tests.cluster.mpi.plans import File, Volume

_READABLE = 0o440  # for fsGroup in what is read-only (kubernetes v1.34.2 pkg/volume/volume_linux.go)


def volume(source: Body, group: int | None, lookup: Lookup) -> Volume:
    """A volume of a pod with that fsGroup.

    Raises:
        UnsupportedError: it is of a kind that is not imitated.
    """
    match source:
        case {"emptyDir": empty}:
            return {"files": None, "size": _size(empty or {}), "group": group, "claimed": ""}
        case {"persistentVolumeClaim": {"claimName": name}}:
            claimed = lookup("PersistentVolumeClaim", name)["spec"]["volumeName"]  # of this machine: see Runner.claims
            return {"files": None, "size": None, "group": group, "claimed": claimed}
        case {"secret": wanted}:
            found = _files("Secret", wanted["secretName"], wanted, lookup)
        case {"configMap": wanted}:
            found = _files("ConfigMap", wanted["name"], wanted, lookup)
        case _:
            raise UnsupportedError(f"volume {source}")
    extra = 0 if group is None else _READABLE
    files = {path: File(content=file["content"], mode=file["mode"] | extra) for path, file in found.items()}
    return {"files": files, "size": 0, "group": group, "claimed": ""}


def _size(empty: Body) -> int | None:
    if empty.get("medium", "") == "":
        return None
    if empty["medium"] != "Memory":
        raise UnsupportedError(f"an emptyDir with medium {empty['medium']}")
    return int(quantities.parse(str(empty.get("sizeLimit", "0"))).value)


def _files(kind: str, name: str, wanted: Body, lookup: Lookup) -> dict[str, File]:
    data = data_of(lookup(kind, name))
    default = wanted.get("defaultMode", 0o644)
    items = wanted.get("items") or [{"key": key, "path": key} for key in data]
    return {
        item["path"]: {"content": base64.b64encode(data[item["key"]]).decode(), "mode": item.get("mode", default)}
        for item in items
    }
