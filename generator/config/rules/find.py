"""Find the mistakes in a platform file that concern several sections or entries."""

from __future__ import annotations

from generator.config.mistakes import Mistake
from generator.config.rules import (  # noqa: F401 - importing a module registers its rules
    cluster,
    devices,
    fabrics,
    patches,
    policies,
    pools,
    quotas,
    references,
    removals,
    roles,
    runtimes,
    schedules,
    secrets,
)
from generator.config.rules.rule import RULES, PartialPlatform


def find_mistakes(platform: PartialPlatform) -> list[Mistake]:
    """Return the mistakes that the registered rules find in a platform."""
    return [mistake for rule in RULES for mistake in rule(platform)]
