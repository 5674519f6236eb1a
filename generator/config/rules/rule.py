"""The one mechanism for relations between sections: a rule reads a PartialPlatform and yields mistakes.

The same rules reject a platform and word the reasons, in YAML and in Python. A rule about one section alone is a
validator of its model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from generator.config.mistakes import Mistake
from generator.config.rules.partial import PartialPlatform

Rule = Callable[[PartialPlatform], Iterator[Mistake]]

RULES: list[Rule] = []
"""Every rule, in the order of registration."""


def rule(function: Rule) -> Rule:
    """Register a function as a rule."""
    RULES.append(function)
    return function
