"""`servers`: server types of your own, with the defaults of their fabrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)

from generator.config.model.fabric_parts import DeviceClass, Nics
from generator.config.model.fields import (
    Count,
    ExtendedResource,
    Fault,
    LabelKey,
    Line,
    Section,
    String,
    invalid,
    matching,
)
from generator.documents.messages import format_value
from generator.errors import suggest
from generator.facts.nodes import SERVERS, Architecture, Server, ServerName

FabricType = Literal["infiniband", "roce", "efa", "ethernet"]
Attach = Literal["sriov", "host-device", "rdma-shared", "macvlan", "ipoib", "efa", "dra"]
Operator = Literal["sriov", "nvidia", "none"]
Rails = Literal["shared", "separate"]
Mtu = Annotated[int, Field(strict=True, ge=1280, le=9978)]
_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_NAME_FIX = "use at most 63 letters, digits, `-`, `_` and `.`, beginning and ending with a letter or digit"


def _is_free(value: str) -> str:
    if value in SERVERS:
        raise invalid(f"`{value}` is a server type of mpigen", f"choose another name, such as `{value}-site`")
    return value


class FabricDefaults(Section):
    """The defaults of fabrics whose nodes have the server type. Each field is described in `fabrics[]`."""

    type: FabricType | None = Field(default=None, examples=["infiniband"])
    """The network technology. Required without `like`."""
    per_node: Count | None = Field(default=None, examples=[8])
    """The number of NICs of one node. Default: the number of `like`, else 1."""
    nics: Nics | None = Field(default=None, examples=[{"vendor": "15b3", "device": "1021"}])
    """The NICs of the nodes. Default: the NICs of `like`."""
    attach: Attach | None = Field(default=None, examples=["host-device"])
    """The way that pods get access to the NICs. Default: the value of `like`."""
    operator: Operator | None = Field(default=None, examples=["none"])
    """The operator that sets up the nodes. Default: the value of `like`."""
    resource: ExtendedResource | None = Field(default=None, examples=["example.com/ib"])
    """The extended resource of one NIC. Default: the value of `like`."""
    rails: Rails | None = Field(default=None, examples=["separate"])
    """The networks of the NICs. Default: the value of `like`."""
    mtu: Mtu | None = Field(default=None, examples=[4092])
    """The MTU of interfaces in pods in bytes. Default: the value of `like`."""
    device_class: DeviceClass | None = Field(default=None, examples=["dranet.example.com"])
    """With `attach: dra`: the name of the DeviceClass. Default: the value of `like`."""


class ServerType(Section):
    """A server type of your own: the accelerators and NICs of one node, and the defaults of its fabrics."""

    name: Annotated[
        String,
        matching(_NAME, "a server type", _NAME_FIX),
        AfterValidator(_is_free),
    ] = Field(examples=["acme-h100"])
    """The name of the server type. `fabrics[].server` refers to it."""
    like: ServerName | None = Field(default=None, examples=["hgx-h100"])
    """The server type of mpigen that this type resembles. It sets every field that is not set here, except `note`.
    `mpigen fabrics --server` shows these fields. Default: none."""
    title: Line | None = Field(default=None, examples=["Acme node with eight ConnectX-7"])
    """The name of the server type for users. Default: the title of `like`, else `name`."""
    accelerators: Line | None = Field(default=None, examples=["8 NVIDIA H100"])
    """The number and the model of the accelerators in one server. Default: the accelerators of `like`, else none."""
    link: Count | None = Field(default=None, examples=[400])
    """The speed of each NIC of the fabric in Gbit/s. `mpigen job new --smoke --fabric` derives the expected result from
    it. Required without `like`."""
    sockets: Count | None = Field(default=None, examples=[2])
    """The number of CPU sockets, over which the accelerators are spread evenly. Default: the number of `like`, else
    unknown."""
    architecture: Architecture | None = Field(default=None, examples=["arm64"])
    """The architecture of the CPUs. Default: the architecture of `like`, else `amd64`."""
    topology: tuple[LabelKey, ...] | None = Field(default=None, examples=[["example.com/rack"]])
    """The node labels with the location of a node in the fabric, from the widest to the narrowest, for users who write
    `pools[].topology`. Default: the labels of `like`."""
    note: Line | None = Field(default=None, examples=["the NICs of rack 4 are not cabled"])
    """A hint for users, which `mpigen fabrics --server` shows."""
    fabric: FabricDefaults = Field(default=FabricDefaults(), examples=[{"type": "infiniband", "perNode": 8}])
    """The defaults of fabrics whose nodes have this server type."""

    def _contradictions(self) -> Iterator[Fault]:
        if self.like is None:
            fix = "add it, or name a server type of mpigen in `like`"
            if self.link is None:
                yield Fault("`link` is missing", fix, ("link",), ("like",))
            if self.fabric.type is None:
                yield Fault("`type` is missing", fix, ("fabric", "type"), ("like",))

    @property
    def server(self) -> Server:
        """Return the server type with the facts of `like`, except for the fields that are set."""
        like = SERVERS[self.like] if self.like else None
        fabric = self.fabric.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
        known: dict[str, Any] = dict(like.fabric) if like else {"perNode": 1}
        if isinstance(known.get("nics"), dict) and isinstance(fabric.get("nics"), dict):
            fabric["nics"] = {**known["nics"], **fabric["nics"]}
        return Server(
            name=self.name,
            title=self.title or (like.title if like else self.name),
            accelerators=self.accelerators or (like.accelerators if like else "no accelerators"),
            link=self.link or (like.link if like else 0),
            fabric={**known, **fabric},
            sources=(),
            architecture=self.architecture or (like.architecture if like else "amd64"),
            topology=self.topology if self.topology is not None else (like.topology if like else ()),
            note=self.note or "",
            sockets=self.sockets or (like.sockets if like else None),
            like=self.like if self.like and not self.accelerators else "",
        )


class InvalidServer(ServerType):
    """The stand-in for an entry of `servers` with mistakes, so that fabrics with this server type report no others."""


INVALID_SERVER = InvalidServer.model_construct(name="", like="hgx-h100", fabric=FabricDefaults())


@dataclass(frozen=True, slots=True)
class UnknownServer:
    """The name of a server type that neither mpigen nor the platform has.

    Attributes:
        name: the name.
        declared: the names in `servers` of the platform.
    """

    name: str
    declared: tuple[str, ...]


def _to_server(value: object) -> str | ServerType:
    if isinstance(value, ServerType) or (isinstance(value, str) and value in SERVERS):
        return value
    own: tuple[str, ...] = ()
    if isinstance(value, UnknownServer):
        own = value.declared
        value = value.name
    fix = suggest(str(value), [*SERVERS, *own])
    if not isinstance(value, str):
        raise invalid(f"{format_value(value)} is not a server type", fix)
    if not fix.startswith("did you mean"):
        fix = f"{fix}; or declare this server type in `servers`"
    raise invalid(f"there is no server type {format_value(value)}", fix)


ServerOrOwn = Annotated[
    ServerName | ServerType,
    PlainValidator(_to_server),
    PlainSerializer(lambda value: value.name if isinstance(value, ServerType) else value, return_type=str),
    WithJsonSchema({"anyOf": [{"enum": [*SERVERS]}, {"type": "string", "minLength": 1}]}),
]


def resolve_servers(data: Mapping[str, Any], *, is_partial: bool = False) -> dict[str, Any]:
    """Return the data of a platform with the entries of `servers` in place of their names in `fabrics[].server`.

    Args:
        data: the data of the file, or the arguments of a Platform.
        is_partial: True to put an InvalidServer in place of each unknown server type, which is a mistake already.
    """
    servers: dict[str, ServerType] = {}
    for entry in _items(data.get("servers")):
        name = entry.name if isinstance(entry, ServerType) else entry.get("name") if isinstance(entry, dict) else None
        if isinstance(name, str) and name not in SERVERS:
            servers.setdefault(name, _parse(entry))
    if not _items(data.get("fabrics")) or not (servers or is_partial):
        return dict(data)
    return {**data, "fabrics": [_resolve(fabric, servers, is_partial=is_partial) for fabric in data["fabrics"]]}


def _parse(entry: object) -> ServerType:
    try:
        return TypeAdapter(ServerType).validate_python(entry)
    except ValidationError:
        return INVALID_SERVER


def _resolve(fabric: object, servers: Mapping[str, ServerType], *, is_partial: bool) -> object:
    name = fabric.get("server") if isinstance(fabric, dict) else None
    if not isinstance(fabric, dict) or name is None or (isinstance(name, str) and name in SERVERS):
        return fabric
    if isinstance(name, str) and name in servers:
        return {**fabric, "server": servers[name]}
    if is_partial:
        return {**fabric, "server": INVALID_SERVER}
    return {**fabric, "server": UnknownServer(name, tuple(servers))} if isinstance(name, str) else fabric


def _items(value: object) -> list[Any] | tuple[Any, ...]:
    return value if isinstance(value, list | tuple) else ()
