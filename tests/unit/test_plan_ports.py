"""Test the ranges of ports with which a plan compares connections."""

from __future__ import annotations

from random import Random

import pytest

from generator.questions.ports import Range, format_ports, intersect, subtract


def ports(ranges: tuple[Range, ...]) -> set[tuple[str, int]]:
    return {(one.protocol, port) for one in ranges for port in range(one.first, one.last + 1)}


def random_ranges(chance: Random) -> tuple[Range, ...]:
    ends = [sorted(chance.sample(range(1, 30), 2)) for _ in range(chance.randint(0, 4))]
    return tuple(Range(chance.choice(("TCP", "UDP")), first, last) for first, last in ends)


@pytest.mark.parametrize("number", range(200))
def test_sets_of_ports_have_a_difference_and_an_intersection(number: int) -> None:
    chance = Random(number)
    some, others = random_ranges(chance), random_ranges(chance)
    assert ports(subtract(some, others)) == ports(some) - ports(others)
    assert ports(intersect(some, others)) == ports(some) & ports(others)


def test_neighboring_ranges_are_one() -> None:
    assert subtract([Range("TCP", 1, 5), Range("TCP", 6, 9)], []) == (Range("TCP", 1, 9),)


def test_a_text_names_whole_protocols() -> None:
    assert format_ports([Range("TCP", 1, 65_535), Range("UDP", 1, 65_535)]) == "all ports"
    assert format_ports([Range("TCP", 1, 65_535), Range("UDP", 53, 53)]) == "all TCP ports, UDP 53"
    assert format_ports([]) == "none"
