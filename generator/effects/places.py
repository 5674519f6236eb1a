"""The places of effects: the namespaces of an update, with the teams that own them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from generator.checks.objects import Change
from generator.effects.subjects import name_subjects
from generator.facts.names import TENANT_LABEL
from generator.manifests import Manifest
from generator.objects.fields import string

CLUSTER = ""
"""The place of permissions in all namespaces."""


@dataclass(frozen=True, slots=True)
class Places:
    """The namespaces of an update.

    Attributes:
        before: name → Namespace before the update.
        after: name → Namespace after the update.
        sizes: team → the number of its namespaces, with new and removed ones.
    """

    before: Mapping[str, Manifest]
    after: Mapping[str, Manifest]
    sizes: Mapping[str, int]

    @classmethod
    def of(cls, change: Change) -> Places:
        """Return the namespaces before and after an update."""
        return change.view(cls._read)

    @classmethod
    def _read(cls, change: Change) -> Places:
        before, after = ({item.name: item for item in side("", "Namespace")} for side in (change.of_old, change.of_new))
        sizes: dict[str, int] = {}
        for manifest in {**before, **after}.values():
            team = string(manifest.labels.get(TENANT_LABEL))
            sizes[team] = sizes.get(team, 0) + 1
        return cls(before, after, sizes)

    @property
    def added(self) -> AbstractSet[str]:
        """The namespaces that the update adds."""
        return self.after.keys() - self.before.keys()

    def team_of(self, namespace: str) -> str:
        """Return the team of a namespace; empty if the namespace belongs to no team."""
        manifest = self.after.get(namespace) or self.before.get(namespace)
        return string(manifest.labels.get(TENANT_LABEL)) if manifest else ""

    def name(self, namespace: str) -> tuple[str, str]:
        """Return (noun, name) of a namespace: the team if this is its only namespace, else the namespace."""
        team = self.team_of(namespace)
        return ("team", team) if team and self.sizes.get(team) == 1 else ("namespace", namespace)

    def describe(self, namespaces: Iterable[str]) -> str:
        """Return the names of namespaces for a sentence, such as ``teams `a` and `b` ``."""
        by_noun: dict[str, list[str]] = {}
        for noun, name in map(self.name, namespaces):
            by_noun.setdefault(noun, []).append(name)
        return join(name_subjects(noun, names) for noun, names in by_noun.items())


def join(texts: Iterable[str]) -> str:
    """Join texts for a sentence: `a, b and c`."""
    known: Sequence[str] = list(texts)
    return " and ".join(part for part in (", ".join(known[:-1]), *known[-1:]) if part)
