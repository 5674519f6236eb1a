"""The abstract syntax tree of a compiled CEL expression, with the type of each node and the overloads of each call.

cel-expr-python shows the tree only in its serialized form, the message `cel.expr.CheckedExpr` of Protocol Buffers.

Source: cel.dev/expr v0.24.0 proto/cel/expr/{checked,syntax}.proto; https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class Type(NamedTuple):
    """A CEL type: its name, such as `string`, `list` or `kubernetes.Quantity`, and its parameters."""

    name: str
    parameters: tuple[Type, ...] = ()

    def __str__(self) -> str:
        parameters = ", ".join(map(str, self.parameters))
        return f"{self.name}({parameters})" if parameters else self.name


DYN = Type("dyn")


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the tree.

    Attributes:
        id: the number of the node.
        kind: `literal`, `ident`, `select`, `call`, `list`, `map`, `struct` or `comprehension`.
        name: the name of an identifier, of a selected field, or of a called function.
        value: the value of a literal.
        is_test: True for a `select` that tests if a field exists: `has(x.y)`.
        target: the operand of a `select`, or the receiver of a method; else None.
        children: the arguments of a call, the items of a list, or the keys and values of a map in turns. Of a
            comprehension: its range, the first value of the accumulator, the loop condition, the loop step, and the
            result.
        optional: the indexes of optional items of a list, or of optional entries of a map.
        variables: the accumulator of a comprehension, its variable, and its second variable, which may be empty.
    """

    id: int
    kind: str
    name: str = ""
    value: Any = None
    is_test: bool = False
    target: Node | None = None
    children: tuple[Node, ...] = ()
    optional: frozenset[int] = frozenset()
    variables: tuple[str, str, str] = ("", "", "")

    def walk(self) -> Iterator[Node]:
        """Yield the node and all nodes below it."""
        yield self
        for child in (*((self.target,) if self.target else ()), *self.children):
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class Checked:
    """A compiled expression.

    Attributes:
        root: its tree.
        types: the number of a node → its type; absent for `dyn`.
        overloads: the number of a call → the ids of the overloads that it may call.
    """

    root: Node
    types: Mapping[int, Type]
    overloads: Mapping[int, tuple[str, ...]]

    def type_of(self, node: Node) -> Type:
        """Return the type of a node."""
        return self.types.get(node.id, DYN)


def read_checked(program: Any) -> Checked:
    """Return the tree of an expression that `cel.Env.compile` has checked."""
    message = _read(_read(program.serialize())[2][0])
    types = {_integer(entry, 1): _read_type(_one(entry, 2)) for entry in map(_read, message.get(3, ()))}
    overloads = {
        _integer(entry, 1): tuple(map(bytes.decode, _read(_one(entry, 2)).get(3, ())))
        for entry in map(_read, message.get(2, ()))
    }
    return Checked(_read_node(_one(message, 4)), types, overloads)


_Message = dict[int, list[Any]]
"""The number of a field → its values: integers, and bytes for a string or a message."""
_VARINT, _FIXED_64, _BYTES = 0, 1, 2
_SIGN = 1 << 63


def _read(raw: bytes) -> _Message:
    fields: _Message = {}
    position = 0
    while position < len(raw):
        key, position = _read_varint(raw, position)
        number, form = key >> 3, key & 7
        value: int | bytes
        if form == _VARINT:
            value, position = _read_varint(raw, position)
        else:
            size = 8 if form == _FIXED_64 else 4
            if form == _BYTES:
                size, position = _read_varint(raw, position)
            value, position = raw[position : position + size], position + size
        fields.setdefault(number, []).append(value)
    return fields


def _read_varint(raw: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = raw[position]
        number |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:  # noqa: PLR2004 - the last byte of the number
            return number, position


def _one(message: _Message, number: int) -> bytes:
    value: bytes = message.get(number, [b""])[-1]
    return value


def _text(message: _Message, number: int) -> str:
    return _one(message, number).decode()


def _integer(message: _Message, number: int) -> int:
    value: int = message.get(number, [0])[-1]
    return value


_PRIMITIVES = ("", "bool", "int", "uint", "double", "string", "bytes")
_WELL_KNOWN = ("", "any", "timestamp", "duration")


def _read_type(raw: bytes) -> Type:
    for number, values in _read(raw).items():
        if number in _TYPES:
            return _TYPES[number](values[-1])
    return DYN


def _read_opaque_type(raw: bytes) -> Type:
    message = _read(raw)
    return Type(_text(message, 1), tuple(map(_read_type, message.get(2, ()))))


def _read_parameters(name: str, raw: bytes, numbers: Iterable[int]) -> Type:
    message = _read(raw)
    return Type(name, tuple(_read_type(_one(message, number)) for number in numbers))


_TYPES: Mapping[int, Callable[[Any], Type]] = {
    2: lambda _: Type("null"),
    3: lambda primitive: Type(_PRIMITIVES[primitive]),
    4: lambda primitive: Type("wrapper", (Type(_PRIMITIVES[primitive]),)),
    5: lambda known: Type(_WELL_KNOWN[known]),
    6: lambda raw: _read_parameters("list", raw, (1,)),
    7: lambda raw: _read_parameters("map", raw, (1, 2)),
    9: lambda name: Type(name.decode()),
    10: lambda name: Type(name.decode()),
    11: lambda raw: Type("type", (_read_type(raw),)),
    14: _read_opaque_type,
}
"""The number of a field of `cel.expr.Type` → a reader of its value. Another field, or none, stands for `dyn`."""


def _read_node(raw: bytes) -> Node:
    message = _read(raw)
    number = _integer(message, 2)
    for field, values in message.items():
        match field:
            case 3:  # const_expr
                return Node(number, "literal", value=_read_literal(values[-1]))
            case 4:  # ident_expr
                return Node(number, "ident", _text(_read(values[-1]), 1))
            case 5:  # select_expr
                select = _read(values[-1])
                operand, is_test = _read_node(_one(select, 1)), bool(_integer(select, 3))
                return Node(number, "select", _text(select, 2), is_test=is_test, target=operand)
            case 6:  # call_expr
                call = _read(values[-1])
                target = _read_node(_one(call, 1)) if 1 in call else None
                arguments = tuple(map(_read_node, call.get(3, ())))
                return Node(number, "call", _text(call, 2), target=target, children=arguments)
            case 7:  # list_expr
                items = _read(values[-1])
                return Node(
                    number,
                    "list",
                    children=tuple(map(_read_node, items.get(1, ()))),
                    optional=frozenset(_read_indexes(items.get(2, ()))),
                )
            case 8:  # struct_expr
                return _read_struct(number, _read(values[-1]))
            case 9:  # comprehension_expr
                loop = _read(values[-1])
                parts = tuple(_read_node(_one(loop, part)) for part in (2, 4, 5, 6, 7))
                names = (_text(loop, 3), _text(loop, 1), _text(loop, 8))
                return Node(number, "comprehension", children=parts, variables=names)
    return Node(number, "literal")


def _read_struct(number: int, message: _Message) -> Node:
    """Return a map, or the message of a type."""
    entries = [*map(_read, message.get(2, ()))]
    optional = frozenset(index for index, entry in enumerate(entries) if _integer(entry, 5))
    if name := _text(message, 1):
        values = tuple(_read_node(_one(entry, 4)) for entry in entries)
        return Node(number, "struct", name, children=values, optional=optional)
    parts = tuple(_read_node(_one(entry, part)) for entry in entries for part in (3, 4))
    return Node(number, "map", children=parts, optional=optional)


def _read_indexes(values: list[Any] | tuple[()]) -> Iterator[int]:
    """Yield the numbers of a repeated field, packed or not."""
    for value in values:
        position = 0
        while isinstance(value, bytes) and position < len(value):
            index, position = _read_varint(value, position)
            yield index
        if isinstance(value, int):
            yield value


def _read_literal(raw: bytes) -> Any:
    for number, values in _read(raw).items():
        value = values[-1]
        match number:
            case 2:  # bool_value
                return bool(value)
            case 3:  # int64_value
                return value - 2 * _SIGN if value >= _SIGN else value
            case 4:  # uint64_value
                return value
            case 5:  # double_value
                return struct.unpack("<d", value)[0]
            case 6:  # string_value
                return value.decode()
            case 7:  # bytes_value
                return value
    return None
