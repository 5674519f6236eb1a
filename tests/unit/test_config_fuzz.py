"""Test that a mutated platform file loads, or has problems with locations and messages."""

from __future__ import annotations

import copy
import re
import string
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from generator import Platform
from generator.config.load import load_platform
from generator.config.model.quotas import quota_amounts
from generator.documents.emit import Emitter
from generator.documents.messages import format_path
from generator.errors import ConfigError
from tests.conftest import small_platform

Path_ = tuple[str | int, ...]

WORDS = (
    "gpu",
    "cpu",
    "memory",
    "nvidia.com/gpu",
    "small",
    "team-a",
    "unknown",
    "GPU",
    "default",
    "",
    " ",
    "1Gi",
    "4",
    "-1",
    "1e999",
)
scalars = (
    st.sampled_from([*WORDS, 0, 1, -1, 3, 10**6, 10**12, 2**63, 2**64 - 1, 0.5, 1e300, True, False, None])
    | st.text(string.printable, max_size=6)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
)
junk = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(scalars.map(str), inner, max_size=2),
    max_leaves=4,
)


def places(value: Any, path: Path_ = ()) -> list[Path_]:
    """Return every path of the data except the empty one."""
    if not isinstance(value, dict | list):
        return []
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    return [inner for key, item in items for inner in ((*path, key), *places(item, (*path, key)))]


def at(value: Any, path: Path_) -> Any:
    """Return the value at a path."""
    for step in path:
        value = value[step]
    return value


@st.composite
def mangled(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a valid platform with a few mutations."""
    data = small_platform()
    for _ in range(draw(st.integers(1, 4))):
        all_places = places(data)
        if not all_places:
            break
        place = draw(st.sampled_from(all_places))
        holder, last = at(data, place[:-1]), place[-1]
        match draw(st.sampled_from(["delete", "replace", "copy", "repeat", "add"])):
            case "delete":
                del holder[last]
            case "replace":
                holder[last] = draw(junk)
            case "copy":
                holder[last] = copy.deepcopy(at(data, draw(st.sampled_from(all_places))))
            case "repeat" if isinstance(holder, list):
                holder.append(copy.deepcopy(at(data, place)))
            case _ if isinstance(holder, dict):
                holder[draw(scalars.map(str))] = draw(junk)
    return data


def outcome(content: bytes) -> Platform | ConfigError:
    """Return the platform, or the error."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "platform.yaml")
        file.write_bytes(content)
        try:
            return load_platform(file)
        except ConfigError as error:
            return error


def assert_well_told(error: ConfigError, content: bytes) -> None:
    """Assert that every problem has a location in the file and a one-line message without pydantic terms."""
    lines = len(re.findall(r"\r\n|\r|\n", content.decode(errors="replace"))) + 1  # the line breaks of YAML
    assert error.problems
    for problem in error.problems:
        assert 1 <= problem.line <= lines
        assert problem.column >= 1
        assert problem.message
        assert str(problem).isprintable()
        assert not any(word in str(problem) for word in ("Input should", "valid dict", "something else", "[amount]"))
    assert len(set(error.problems)) == len(error.problems)


@settings(deadline=None, max_examples=200)
@given(mangled())
def test_a_mutated_platform_loads_or_has_problems_with_locations(data: dict[str, Any]) -> None:
    content = Emitter().emit([data]).encode()
    found = outcome(content)
    if isinstance(found, ConfigError):
        assert_well_told(found, content)
        return
    assert Platform.model_validate(found.model_dump(by_alias=True)) == found
    for tenant in found.tenants:  # a checked platform can be shared out
        quota_amounts(tenant.quota, found.supplies)
        quota_amounts(tenant.borrow, found.supplies)


LEAVES = [path for path in places(small_platform()) if not isinstance(at(small_platform(), path), dict | list)]


@settings(deadline=None)
@given(st.sets(st.sampled_from(LEAVES), min_size=1, max_size=5))
def test_no_invalid_value_hides_another(wrong: set[Path_]) -> None:
    data = small_platform()
    for path in wrong:
        at(data, path[:-1])[path[-1]] = [[]]
    found = outcome(Emitter().emit([data]).encode())
    assert isinstance(found, ConfigError)
    told = {problem.path for problem in found.problems}
    assert {format_path(path) for path in wrong} <= told


SOUND = Emitter().emit([small_platform()])


@settings(deadline=None, max_examples=300)
@given(
    st.integers(0, len(SOUND)),
    st.integers(0, 12),
    st.text("ab:-?[]{}&*!|>'\"%@#, \n\t<~.1", max_size=4)
    | st.text(max_size=2)
    | st.sampled_from(["\n---\n", "\n...\n", "<<: "]),
)
def test_a_file_with_a_typo_loads_or_has_problems(start: int, length: int, inserted: str) -> None:
    content = (SOUND[:start] + inserted + SOUND[start + length :]).encode(errors="surrogatepass")
    found = outcome(content)
    if isinstance(found, ConfigError):
        assert_well_told(found, content)
