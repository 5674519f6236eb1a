"""Mutate data, which stays YAML, and bytes, which may not."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import yaml

from tests.fuzz.corpus import Corpus

BOUNDARIES: tuple[Any, ...] = (
    *(None, "", " ", "\t", "\n", "x", "-", ".", "/", "..", "*", "a b", "A", "é", "\u2028", "\x00", "\x7f"),
    *(0, 1, -1, 2, 7, 1000, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), 10**30),
    *(0.0, 0.1, -0.5, 1.5, 1e-300, 1e16, 1e300, True, False, [], {}, [[]], [{}], {"": None}, [None]),
    *("0", "1", "-1", "+1", "0.5", ".5", "1.", "1e3", "1e99", "1e-99", "1e999999", "1E", "1n", "1m", "1k"),
    *("1Ki", "9Ei", "1e18", "9223372036854775807", "9223372036854775808", "9" * 26, "9" * 5000, "0x10", "0o17"),
    *("true", "yes", "null", "~", "nan", ".nan", ".inf", "inf", "1_000", "2026-01-01", "12:30:00", "30m"),
    *("2026-11-22T00:00:00Z", "10.0.0.0/8", "10.0.0.0/33", "::/0", "0.0.0.0/0", "256.1.1.1", "[::1]:80"),
    *("http://", "//", "a:b:c", "a@b", "a=b", "${X}", "$(X)", "{{ x }}", "<<", "&a", "*a", "!x", "%x", "|", ">"),
    *("# x", "{", "}", "[", "]", "'", '"', "\\", "\\x", "group:", "user:x", "serviceaccount:a/b", "\U0001f600"),
    *("system:masters", "v1", "v1beta1", "a.b/c", "x" * 63, "x" * 64, "x" * 253, "x" * 5000, "a/" * 300),
    *("0-3", "3-0", "0,1", "1-", "self.x", "object.spec", "true && ", "a ? b", "()", {"a": {"b": []}}),
)
"""Values at the edge of what a field takes."""
_TOKENS = (
    *(b"\t", b"\r\n", b"\n", b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xff\xfe", b"\x1b[2J"),
    *(b"\xe2\x80\xa8", b"&a ", b"*a", b"<<: *a\n", b"<<: {a: b}\n", b"? ", b"? [a]\n: b\n", b": ", b"- ", b"{"),
    *(b"}", b"[", b"]", b"'", b'"', b"---\n", b"...\n", b"%YAML 1.2\n", b"%TAG ! x\n", b"!!binary ", b"!x "),
    *(b"!!python/object:os.system ", b"!!set ", b"!!int ", b"!!float ", b"!!str ", b"!!timestamp ", b"| "),
    *(b">-\n", b"#", b",", b"\\", b'"\\ud800"', b'"\\0"', b'"\\x', b"1e999999", b"0x" + b"f" * 3000, b"1:20:30"),
    *(b"2001-12-14t21:59:43.10-05:00", b".inf", b"~", b"=", b"null: x\n", b"1: 2\n", b"1.5: x\n", b"true: x\n"),
    *(b"9" * 5000, b"[" * 200, b"{a: " * 200, b"- " * 200),
)
"""Bytes that mean something to readers of YAML."""
_DEEPER = 500


def mutated(chance: Random, data: Any, corpus: Corpus) -> Any:
    """Return the data after one to four mutations."""
    data = copy.deepcopy(data)
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4))):
        places = _places(data)
        if not places:
            return value_for(chance, "", corpus)
        holder, key = chance.choice(places)
        _change(chance, holder, key, places, corpus)
    return data


def _places(data: Any) -> list[tuple[Any, Any]]:
    """Return every (holder, key or index)."""
    found: list[tuple[Any, Any]] = []
    rest = [data]
    for each in rest:
        inner = list(each.items() if isinstance(each, dict) else enumerate(each) if isinstance(each, list) else ())
        found += [(each, key) for key, _ in inner]
        rest += [value for _, value in inner if isinstance(value, dict | list)]
    return found


def _change(chance: Random, holder: Any, key: Any, places: list[tuple[Any, Any]], corpus: Corpus) -> None:  # noqa: C901 - a table of accidents
    name = key if isinstance(key, str) else ""
    match chance.randrange(12):
        case 0:
            del holder[key]
        case 1 | 2:
            holder[key] = copy.deepcopy(chance.choice(BOUNDARIES))
        case 3 | 4:
            holder[key] = value_for(chance, name, corpus)
        case 5:
            other, step = chance.choice(places)
            holder[key] = copy.deepcopy(other[step])
        case 6 if isinstance(holder, list):
            holder.insert(chance.randrange(len(holder) + 1), copy.deepcopy(holder[key]))
        case 6 | 7 if isinstance(holder, dict):
            word = chance.choice(sorted(corpus.values))
            holder[word] = value_for(chance, word, corpus)
        case 8 if isinstance(holder, dict):
            holder[_typo(chance, name)] = holder.pop(key)
        case 9:
            holder[key] = [holder[key]] if chance.random() < 0.5 else {chance.choice(("x", name, "name")): holder[key]}
        case 10 if isinstance(holder[key], str):
            holder[key] = _typo(chance, holder[key])
        case 11 if isinstance(holder[key], list) and holder[key]:
            holder[key] = [copy.deepcopy(chance.choice(holder[key])) for _ in range(chance.choice((0, 2, 5, 40)))]
        case _:
            nested: Any = holder[key]
            for _ in range(chance.choice((1, 3, 20, 60, 140))):
                nested = [nested] if chance.random() < 0.5 else {"a": nested}
            holder[key] = nested


def value_for(chance: Random, name: str, corpus: Corpus) -> Any:
    """Return a value that this key or any key has elsewhere, or an extreme value."""
    known = corpus.values.get(name)
    if known and chance.random() < 0.6:
        return copy.deepcopy(chance.choice(known))
    if chance.random() < 0.5:
        return copy.deepcopy(chance.choice(corpus.values[chance.choice(sorted(corpus.values))]))
    return copy.deepcopy(chance.choice(BOUNDARIES))


def _typo(chance: Random, word: str) -> str:
    at = chance.randrange(len(word) + 1)
    letter = chance.choice("aZ-_./ 0:{é\t")
    return chance.choice((word[:at] + word[at + 1 :], word[:at] + letter + word[at:], word.swapcase(), word * 2, ""))


def mutated_text(chance: Random, text: bytes, others: list[bytes]) -> bytes:
    """Return the bytes after one to four mutations."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.choice((0, 1, 1, 3, 20, 500)))
        match chance.randrange(8):
            case 0 | 1:
                text = text[:start] + chance.choice(_TOKENS) + text[end:]
            case 2:
                text = text[:start] + text[end:]
            case 3:
                text = text[:start] + text[start:end] * 3 + text[end:]
            case 4:
                text = text[:start] + bytes([chance.randrange(256)]) + text[start + 1 :]
            case 5:
                other = chance.choice(others)
                cut = chance.randrange(len(other) + 1)
                text = text[:start] + other[cut : cut + 400] + text[end:]
            case 6:
                text = chance.choice((text.replace(b"\n", b"\r\n"), text.replace(b"  ", b"\t", 3), text[:start]))
            case 7:
                text = text.replace(chance.choice((b": ", b"- ", b"  ", b"0", b"1")), chance.choice(_TOKENS), 1)
    return text


def written(documents: list[Any]) -> bytes:
    """Return documents as YAML, including values without a JSON form."""
    try:
        text = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)
    except RecursionError:  # PyYAML's own
        text = f"x: {'[' * _DEEPER}"
    return text.encode(errors="surrogatepass")


class _Dumper(yaml.CSafeDumper):
    """Write every value out, because aliases are a mutation of bytes."""

    def ignore_aliases(self, data: Any) -> bool:
        return data is not None
