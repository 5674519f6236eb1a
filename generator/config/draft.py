"""Draft: the entries of a platform file that are sound by themselves, so that one slip does not hide the rest."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.config.pools import Pool
from generator.config.runtimes import Runtime
from generator.config.tenants import Tenant

if TYPE_CHECKING:
    from generator.config.platform import Platform


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two places of the platform that cannot both be meant."""

    path: tuple[str | int, ...]
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class Draft:
    """The entries of a platform file that are sound by themselves, by their place in their list.

    Attributes:
        declared: every name that the file declares in a section, sound or not.
    """

    platform: str
    pools: Mapping[int, Pool]
    runtimes: Mapping[int, Runtime]
    tenants: Mapping[int, Tenant]
    declared: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, platform: Platform) -> Draft:
        """The draft of a platform whose every section is sound."""
        return cls(
            platform.platform,
            dict(enumerate(platform.pools)),
            dict(enumerate(platform.runtimes)),
            dict(enumerate(platform.tenants)),
            {
                "pools": tuple(pool.name for pool in platform.pools),
                "runtimes": tuple(runtime.name for runtime in platform.runtimes),
                "tenants": tuple(tenant.name for tenant in platform.tenants),
            },
        )

    @property
    def pool_named(self) -> dict[str, Pool]:
        """The sound pools by name."""
        return {pool.name: pool for pool in self.pools.values()}


def suggestion(word: str, known: Iterable[str]) -> str:
    """`did you mean …?` when something known is close, else what is known."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean `{close[0]}`?"
    return f"write one of: {', '.join(names)}" if names else "declare it first"
