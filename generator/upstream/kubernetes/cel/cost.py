"""The largest cost that CEL estimates for a selector of devices, from the sizes that Kubernetes declares.

Source: cel-go v0.26.0 checker/cost.go; cel-go v0.26.0 common/cost.go; cel-go v0.26.0 ext/sets.go; apiserver v0.34.2
pkg/cel/library/cost.go CostEstimator.EstimateCallCost; apiserver v0.34.2 pkg/cel/environment/base.go
baseOptsWithoutStrictCost (`PresenceTestHasCost(false)`); dynamic-resource-allocation v0.34.2
cel/compile.go sizeEstimator.EstimateSize.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from generator.upstream.kubernetes.cel.checked import Checked, Node, Type

_MOST = 2**64 - 1
_TRAVERSAL, _PATTERN = 0.1, 0.25
_LIST, _MAP, _STRUCT = 10, 30, 40
# apiserver v0.34.2 pkg/cel/limits.go MaxNameFormatRegexSize; apiserver v0.34.2 pkg/cel/limits.go MaxFormatSize
_LONGEST_PATTERN, _LONGEST_FORMAT = 128, 64
_SCALARS = ("bool", "double", "duration", "int", "timestamp", "uint")
_ACCUMULATORS = ("__result__", "@result")


class Range(NamedTuple):
    """The smallest and the largest value of a size or of a cost. A sum or product above 2^64-1 becomes 2^64-1."""

    least: int
    most: int

    def plus(self, other: Range) -> Range:
        """Return the sum."""
        return Range(min(self.least + other.least, _MOST), min(self.most + other.most, _MOST))

    def times(self, other: Range) -> Range:
        """Return the product."""
        return Range(min(self.least * other.least, _MOST), min(self.most * other.most, _MOST))

    def scaled(self, factor: float) -> Range:
        """Return the product with a cost factor, rounded up."""
        return Range(_scale(self.least, factor), _scale(self.most, factor))

    def union(self, other: Range) -> Range:
        """Return the smallest range that contains both ranges."""
        return Range(min(self.least, other.least), max(self.most, other.most))


def _scale(number: int, factor: float) -> int:
    return min(ceil(float(number) * factor), _MOST)


def _exactly(number: int) -> Range:
    return Range(number, number)


_UNKNOWN = Range(0, _MOST)
_FREE, _ONE = _exactly(0), _exactly(1)
_NOTHING = Range(_MOST, 0)
"""The union of no ranges."""


class _Entry(NamedTuple):
    """The sizes of the keys and values of a list or map that an expression creates."""

    is_list: bool
    key: Range
    value: Range

    def union(self, other: _Entry) -> _Entry:
        """Return the smallest ranges of key sizes and value sizes that contain the ranges of both entries."""
        return _Entry(self.is_list, self.key.union(other.key), self.value.union(other.value))


_Path = tuple[str, ...]


class _Slice:
    """A path in a slice of Go. Slices share an array, so `append` can overwrite a step of another path.

    The estimate depends on such changes: in `x.all(k, v, …)`, the path of `k` can become the path of `v`.
    """

    __slots__ = ("_array", "_length")

    def __init__(self, array: list[str], length: int) -> None:
        self._array = array
        self._length = length

    def append(self, step: str) -> _Slice:
        """Return a slice with one more step. An array without room is copied to one of twice the size."""
        array = self._array
        if self._length == len(array):
            array = [*array, *[""] * max(len(array), 1)]
        array[self._length] = step
        return _Slice(array, self._length + 1)

    @property
    def path(self) -> _Path:
        """The steps."""
        return tuple(self._array[: self._length])


_NO_PATH = _Slice([], 0)


class _Local(NamedTuple):
    """A variable of a comprehension or of `cel.bind`."""

    path: _Slice
    size: Range | None
    entry: _Entry | None


@dataclass(frozen=True, slots=True)
class Sizes:
    """The declared sizes of the variables of an expression.

    Attributes:
        flat: name of an identifier → its path, such as `__device__driver` → (`device`, `driver`).
        structs: the variables with typed fields.
        largest: path → the largest size. `*` in a path stands for any other step.
    """

    flat: Mapping[str, _Path]
    structs: frozenset[str]
    largest: Mapping[_Path, int]

    def find(self, path: _Path) -> Range | None:
        """Return the size at a path; None if it is unknown."""
        for known, size in self.largest.items():
            if len(known) == len(path) and all(left in ("*", right) for left, right in zip(known, path, strict=True)):
                return Range(0, size)
        return None


def estimate_cost(checked: Checked, sizes: Sizes) -> int:
    """Return the largest cost of an expression; 2^64-1 if it has no bound."""
    return _Coster(checked, sizes).cost(checked.root).most


@dataclass(slots=True)
class _Coster:
    checked: Checked
    declared: Sizes
    paths: dict[int, _Slice] = field(default_factory=dict)
    locals: dict[str, list[_Local]] = field(default_factory=dict)
    sizes: dict[int, Range] = field(default_factory=dict)
    entries: dict[int, _Entry] = field(default_factory=dict)

    def cost(self, node: Node) -> Range:
        """Return the cost of a node and of all nodes below it."""
        match node.kind:
            case "ident":
                return self._cost_ident(node)
            case "select":
                return self._cost_select(node)
            case "call":
                return self._cost_call(node)
            case "list":
                return self._cost_list(node)
            case "map":
                return self._cost_map(node)
            case "struct":
                return _total(map(self.cost, node.children)).plus(_exactly(_STRUCT))
            case "comprehension":
                return self._cost_bind(node) if _is_bind(node) else self._cost_loop(node)
        return _FREE

    def _cost_ident(self, node: Node) -> Range:
        if local := self._local(node.name):
            self.paths[node.id] = local.path
            return _ONE
        path = self.declared.flat.get(node.name, (node.name,))
        self.paths[node.id] = _Slice([*path], len(path))
        return _exactly(len(path))

    def _cost_select(self, node: Node) -> Range:
        operand = node.target
        if operand is None:
            return _FREE
        cost = self.cost(operand)
        if node.is_test:
            return cost
        type_ = self.checked.type_of(operand).name
        is_struct = operand.kind == "ident" and operand.name in self.declared.structs and not self._local(operand.name)
        if is_struct or type_ == "map":
            cost = cost.plus(_ONE)
        self.paths[node.id] = self._path(operand).append(node.name)
        return cost

    def _cost_list(self, node: Node) -> Range:
        size = _NOTHING if node.children else Range(0, 0)
        costs = []
        for item in node.children:
            costs.append(self.cost(item))
            size = size.union(self.size(item))
        self.entries[node.id] = _Entry(is_list=True, key=_ONE, value=size)
        return _total(costs).plus(_exactly(_LIST))

    def _cost_map(self, node: Node) -> Range:
        key = value = _NOTHING if node.children else Range(0, 0)
        costs = []
        for index, item in enumerate(node.children):
            costs.append(self.cost(item))
            if index % 2:
                value = value.union(self.size(item))
            else:
                key = key.union(self.size(item))
        self.entries[node.id] = _Entry(is_list=False, key=key, value=value)
        return _total(costs).plus(_exactly(_MAP))

    def _cost_loop(self, node: Node) -> Range:
        items, start, condition, step, result = node.children
        accumulator, first, second = node.variables
        cost = self.cost(items).plus(self.cost(start))
        self._push(accumulator, _Local(self._path(start), self.find_size(start), self._entry(start)))
        if second:
            self._push(first, self._iterate(items, of_keys=True, step="@indices"))
            self._push(second, self._iterate(items, of_keys=False, step="@items"))
        else:
            self._push(first, self._iterate(items, of_keys=not self._is_list(items), step="@items"))
        turn = self.cost(condition)
        turn = self.cost(step).plus(turn)
        for name in filter(None, (first, second)):
            self.locals[name].pop()
        cost = cost.plus(self.cost(result))
        self.locals[accumulator].pop()
        count = self.size(items)
        if start.kind == "literal":
            self._set_size(node, self.find_size(start))
        elif start.kind in ("list", "map"):
            self._set_size(node, count)
            if entry := self._entry(step):
                self.entries[node.id] = entry
        return cost.plus(count.times(turn))

    def _iterate(self, items: Node, *, of_keys: bool, step: str) -> _Local:
        """Return the variable that gets the keys, or the values, of a list or map one after the other."""
        entry, is_list = self._entry(items), self._is_list(items)
        size = None if entry is None else entry.key if of_keys else entry.value
        if not is_list:
            step = "@keys" if of_keys else "@values"
        return _Local(self._path(items).append(step), size, None)

    def _is_list(self, items: Node) -> bool:
        entry = self._entry(items)
        return self.checked.type_of(items).name == "list" if entry is None else entry.is_list

    def _cost_bind(self, node: Node) -> Range:
        items, start, _, _, result = node.children
        cost = self.cost(items).plus(self.cost(start))
        name = node.variables[0]
        self._push(name, _Local(self._path(start), self.find_size(start), self._entry(start)))
        cost = cost.plus(self.cost(result))
        self.locals[name].pop()
        self._copy(node, result)
        return cost

    def _cost_call(self, node: Node) -> Range:
        if node.name == "dyn":
            cost = self.cost(node.children[0])
            self._copy(node, node.children[0])
            return cost.plus(_ONE)
        costs = []
        for argument in node.children:
            costs.append(self.cost(argument))
            self.find_size(argument)  # at this time: a later path may change this one
        overloads = self.checked.overloads.get(node.id, ())
        if not overloads:
            return _FREE
        total = self.cost(node.target) if node.target else _FREE
        cost, size = _NOTHING, None
        for overload in overloads:
            of_call, of_result = self._cost_overload(node, overload, costs)
            cost = cost.union(of_call)
            if of_result is not None:
                size = of_result if size is None else size.union(of_result)
            if overload in ("index_list", "index_map") and node.children:
                entry = self._entry(node.children[0])
                size = entry.value if entry else None
                step = "@items" if overload == "index_list" else "@values"
                self.paths[node.id] = self._path(node.children[0]).append(step)
            if size is None:
                size = self.find_size(node)
        self._set_size(node, size)
        return total.plus(cost)

    def _cost_overload(self, node: Node, overload: str, costs: Sequence[Range]) -> tuple[Range, Range | None]:
        """Return the cost of a call with its arguments, and the size of its result; None if the size is unknown."""
        call = _Call(self, node, overload)
        known = call.estimate_sets() or call.estimate_kubernetes()
        if known is not None:
            return known[0].plus(_total(costs)), known[1]
        return self._cost_standard(node, overload, costs)

    def _cost_standard(self, node: Node, overload: str, costs: Sequence[Range]) -> tuple[Range, Range | None]:
        sizes = [self.size(argument) for argument in node.children]
        total = _total(costs)
        match overload:
            case "logical_or" | "logical_and":
                return Range(costs[0].least, costs[0].plus(costs[1]).most), None
            case "conditional":
                self._join_entries(node, node.children[1:])
                return costs[0].plus(costs[1].union(costs[2])), sizes[1].union(sizes[2])
            case "add_string" | "add_bytes" | "add_list":
                self._join_entries(node, node.children)
                size = sizes[0].plus(sizes[1])
                return (_ONE if overload == "add_list" else size.scaled(_TRAVERSAL)).plus(total), size
            case "string_to_bytes" | "bytes_to_string" | "strings_quote":
                return sizes[0].scaled(_TRAVERSAL).plus(total), _converted(overload, sizes[0])
        if overload in _COMPARISONS:
            most = min(sizes[0].most, sizes[1].most)
            return Range(min(most, 1), most).scaled(_TRAVERSAL).plus(total), None
        own = self.size(node.target) if node.target else None
        return _search(overload, own, sizes).plus(total), None

    def _join_entries(self, node: Node, parts: Sequence[Node]) -> None:
        """Record the sizes of the keys and values of a call whose result is one of two lists or maps, or their sum."""
        left, right = map(self._entry, parts)
        if left and right:
            self.entries[node.id] = left.union(right)

    def size(self, node: Node) -> Range:
        """Return the size of the value of a node, from 0 to 2^64-1 if it is unknown."""
        return self.find_size(node) or _UNKNOWN

    def element(self, node: Node) -> tuple[Type, Range] | None:
        """Return the type and the size of the items of a list; None for a type without parameters."""
        parameters = self.checked.type_of(node).parameters
        if not parameters:
            return None
        size = self.declared.find((*self._path(node).path, "@items"))
        return parameters[0], _UNKNOWN if size is None else size

    def find_size(self, node: Node) -> Range | None:
        """Return the size of the value of a node; None if it is unknown."""
        if node.id in self.sizes:
            return self.sizes[node.id]
        if (size := _literal_size(node)) is not None:
            return size
        if (size := self.declared.find(self._path(node).path)) is not None:
            self.sizes[node.id] = size
            return size
        if _is_scalar(self.checked.type_of(node)):
            return _ONE
        local = self._local(node.name) if node.kind == "ident" else None
        return local.size if local else None

    def _set_size(self, node: Node, size: Range | None) -> None:
        if size is not None:
            self.sizes[node.id] = size

    def _entry(self, node: Node) -> _Entry | None:
        if node.id in self.entries:
            return self.entries[node.id]
        local = self._local(node.name) if node.kind == "ident" else None
        return local.entry if local else None

    def _copy(self, node: Node, source: Node) -> None:
        self._set_size(node, self.find_size(source))
        if entry := self._entry(source):
            self.entries[node.id] = entry

    def _path(self, node: Node) -> _Slice:
        local = self._local(node.name) if node.kind == "ident" else None
        return local.path if local else self.paths.get(node.id, _NO_PATH)

    def _local(self, name: str) -> _Local | None:
        stack = self.locals.get(name)
        return stack[-1] if stack else None

    def _push(self, name: str, local: _Local) -> None:
        self.locals.setdefault(name, []).append(local)


_COMPARISONS = (
    "equals",
    "not_equals",
    *(
        f"{name}_{type_}"
        for name in ("less", "greater", "less_equals", "greater_equals")
        for type_ in ("string", "bytes")
    ),
)


def _converted(overload: str, size: Range) -> Range:
    """Return the size of the result of a conversion. As upstream, a size can overflow."""
    match overload:
        case "string_to_bytes":
            return Range(size.least, size.most * 4 & _MOST)
        case "bytes_to_string":
            return Range(size.least // 4, size.most)
    return Range(size.least + 2, size.most * 2 + 2 & _MOST)


def _search(overload: str, own: Range | None, sizes: Sequence[Range]) -> Range:
    """Return the cost of a search in a text or list, and 1 for any other call.

    Args:
        overload: the id of the overload.
        own: the size of the receiver of a method; else None.
        sizes: the sizes of the arguments.
    """
    match overload:
        case "string_format" if own:
            return own.scaled(_TRAVERSAL)
        case "starts_with_string" | "ends_with_string":
            return sizes[0].scaled(_TRAVERSAL)
        case "in_list":
            return sizes[1]
        case "matches_string" if own:
            return own.plus(_ONE).scaled(_TRAVERSAL).times(sizes[0].scaled(_PATTERN))
        case "contains_string" if own:
            return own.scaled(_TRAVERSAL).times(sizes[0].scaled(_TRAVERSAL))
    return _ONE


def _total(costs: Iterable[Range]) -> Range:
    total = _FREE
    for cost in costs:
        total = total.plus(cost)
    return total


def _literal_size(node: Node) -> Range | None:
    match node.kind:
        case "literal":
            return _exactly(len(node.value) if isinstance(node.value, (str, bytes)) else 1)
        case "list":
            return _exactly(len(node.children))
        case "map":
            return _exactly(len(node.children) // 2)
    return None


def _is_scalar(type_: Type) -> bool:
    return type_.name in _SCALARS or (type_.name == "optional_type" and _is_scalar(type_.parameters[0]))


def _is_bind(node: Node) -> bool:
    items, _, condition, _, _ = node.children
    is_empty = items.kind == "list" and not items.children
    return is_empty and condition.value is False and node.variables[0] not in _ACCUMULATORS


_Estimate = tuple[Range, Range | None]


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a function that Kubernetes adds, or of a function on sets."""

    coster: _Coster
    node: Node
    overload: str

    def _sizes(self) -> list[Range]:
        return [self.coster.size(argument) for argument in self.node.children]

    def estimate_sets(self) -> _Estimate | None:
        """Return the cost of a function on sets; None for other functions."""
        factor = {"list_sets_contains_list": 1, "list_sets_intersects_list": 1, "list_sets_equivalent_list": 2}
        if self.overload not in factor:
            return None
        left, right = self._sizes()
        return left.times(right).scaled(factor[self.overload]).plus(_ONE), None

    def estimate_kubernetes(self) -> _Estimate | None:
        """Return the cost of a function that Kubernetes adds, and the size of its result; None for other functions."""
        if self.node.name in _NOMINAL or self.overload == "ip(net.CIDR)":
            return _ONE, None
        if self.node.name == "_==_":
            return self._compare()
        target, sizes = self.node.target, self._sizes()
        if target is None:
            return self._parse(sizes) if sizes else None
        return self._of_list(target, sizes) or self._of_text(self.coster.size(target), sizes)

    def _parse(self, sizes: Sequence[Range]) -> _Estimate | None:
        """Return the cost to parse a text; None for other functions."""
        match self.node.name:
            case "url":
                return sizes[0].scaled(_TRAVERSAL), sizes[0]
            case "cidr" | "ip" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver":
                return sizes[0].scaled(_TRAVERSAL), None
            case "ip.isCanonical":
                return sizes[0].scaled(2 * _TRAVERSAL), None
        return None

    def _of_list(self, target: Node, sizes: Sequence[Range]) -> _Estimate | None:
        """Return the cost of a method of lists, or of a search in a text; None for other methods."""
        own = self.coster.size(target)
        match self.node.name:
            case "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes":
                return self._traverse(target, own), None
            case "join":
                size = self._joined(target, own, sizes)
                return size.scaled(_TRAVERSAL), size
        return None

    def _of_text(self, own: Range, sizes: Sequence[Range]) -> _Estimate | None:
        """Return the cost of a method of texts, networks or formats; None for other methods."""
        match self.node.name:
            case "lowerAscii" | "upperAscii" | "substring" | "trim":
                return own.scaled(_TRAVERSAL), own
            case "replace":
                return own.scaled(2 * _TRAVERSAL), _replaced(own, sizes[0], sizes[1])
            case "split":
                limit = self.node.children[1].value if len(sizes) > 1 else None
                most = limit % 2**64 if isinstance(limit, int) and not isinstance(limit, bool) else own.most
                return own.scaled(2 * _TRAVERSAL), Range(0, most)
            case "find" | "findAll":
                cost = own.plus(_ONE).scaled(_TRAVERSAL).times(sizes[0].scaled(_PATTERN))
                return cost, Range(0, own.most)
            case "containsIP" | "containsCIDR":
                return self._contain(sizes[0]), None
            case "validate":
                return sizes[0].scaled(_TRAVERSAL).scaled(_LONGEST_PATTERN * _PATTERN), None
        return None

    def _traverse(self, target: Node, own: Range) -> Range:
        element = self.coster.element(target)
        if element is None:  # a string, or a value of any type for `includes`
            return own if self.node.name == "includes" else own.scaled(_TRAVERSAL)
        type_, size = element
        return own.times(_ONE.plus(size.scaled(_TRAVERSAL)) if type_.name in ("string", "bytes") else _ONE)

    def _joined(self, target: Node, own: Range, sizes: Sequence[Range]) -> Range:
        element = self.coster.element(target)
        size = own.times(element[1]) if element else _FREE
        if sizes:
            separators = Range(max(own.least - 1, 0), max(own.most - 1, 0))
            size = size.plus(sizes[0].times(separators))
        return size

    def _contain(self, size: Range) -> Range:
        address = Range(4, 16)  # bytes
        cost = address.plus(address).scaled(_TRAVERSAL)
        if self.node.name == "containsCIDR":
            cost = cost.plus(address.scaled(_TRAVERSAL)).plus(_ONE)
        return cost.plus(size.scaled(_TRAVERSAL)) if self.overload.endswith(",string)") else cost

    def _compare(self) -> _Estimate | None:
        """Return the cost to compare two values of one type that Kubernetes adds; None for other values."""
        left, right = (self.coster.checked.type_of(argument) for argument in self.node.children)
        if left != right:
            return None
        match left.name:
            case "net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.Semver":
                return _ONE, None
            case "kubernetes.NamedFormat":
                return Range(1, _LONGEST_FORMAT).scaled(_TRAVERSAL), None
            case "kubernetes.URL":
                size = self.coster.find_size(self.node.children[1])  # upstream reads the right operand twice
                return Range(1, size.most if size else 1).scaled(_TRAVERSAL), None
        return None


_NOMINAL = frozenset(
    {
        *("masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast"),
        *("isLinkLocalUnicast", "isGlobalUnicast", "format.named", "sign", "asInteger", "isInteger"),
        *("asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major", "minor", "patch"),
        *("getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery"),
    }
)
"""Functions with the cost 1."""


def _replaced(own: Range, old: Range, new: Range) -> Range:
    """Return the size of a text after the replacement of a part of it."""
    least = most = kept_least = kept_most = 0
    if old.least == 0:
        most, kept_most = min(own.most + 1, _MOST), own.most
    elif new.most <= old.least:
        kept_most = own.most
    else:
        most = ceil(float(own.most) / old.least)
    if old.most == 0:
        least, kept_least = min(own.least + 1, _MOST), own.least
    elif old.most <= new.least:
        kept_least = own.least
    else:
        least = ceil(float(own.least) / old.most)
    return Range(least, most).times(new).plus(Range(kept_least, kept_most))
