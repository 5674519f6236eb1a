"""The subjects of effects: teams, and sentences that several subjects share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from generator.checks.objects import Change
from generator.documents.messages import escape_control, format_names
from generator.documents.scalars import Json
from generator.effects.effect import Effect, Risk
from generator.facts.names import SCHEDULES_OF, TENANT_LABEL
from generator.manifests import Manifest
from generator.objects.fields import mapping, string

_KUEUE = "kueue.x-k8s.io"
_LISTED = 3  # names of subjects in a sentence
_PLURALS = {"is": "are", "has": "have", "can": "can", "was": "were", "applies": "apply", "does": "do"}


@dataclass(frozen=True, slots=True)
class Teams:
    """The teams of an update, by their namespaces and queues.

    Attributes:
        by_namespace: namespace → its team: the label `mpigen.dev/tenant` or `mpigen.dev/schedules-of`, or else the name
            of the namespace.
        by_queue: ClusterQueue → the teams whose LocalQueues name the ClusterQueue.
    """

    by_namespace: Mapping[str, str]
    by_queue: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, change: Change) -> Teams:
        """Return the teams before and after an update.

        A namespace that stays belongs to its team after the update.
        """
        return change.view(cls._read)

    @classmethod
    def _read(cls, change: Change) -> Teams:
        namespaces = {
            item.name: _team_of(item) for item in (*change.of_old("", "Namespace"), *change.of_new("", "Namespace"))
        }
        queues: dict[str, dict[str, None]] = {}
        for item in (*change.of_old(_KUEUE, "LocalQueue"), *change.of_new(_KUEUE, "LocalQueue")):
            queue = string(mapping(item.body, "spec").get("clusterQueue"))
            queues.setdefault(queue, {})[namespaces.get(item.namespace, item.namespace)] = None
        return cls(namespaces, {queue: tuple(sorted(teams)) for queue, teams in queues.items()})

    def of_namespace(self, namespace: str) -> str:
        """Return the team of a namespace; the name of the namespace if no file has the namespace."""
        return self.by_namespace.get(namespace, namespace)

    def subject_of_queue(self, queue: str) -> tuple[str, str]:
        """Return (noun, name) of the only team of a ClusterQueue, or else of the ClusterQueue."""
        teams = self.by_queue.get(queue, ())
        return ("team", teams[0]) if len(teams) == 1 else ("ClusterQueue", queue)


def _team_of(namespace: Manifest) -> str:
    return string(namespace.labels.get(TENANT_LABEL, namespace.labels.get(SCHEDULES_OF)), namespace.name)


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence about a subject. `merge` joins the sentences that differ only in the name of the subject.

    Attributes:
        noun: the kind of the subject, such as `team`.
        name: the name of the subject; empty if the noun is enough.
        verb: the verb in the third person, such as `owns`.
        rest: the sentence after the verb, such as `8 instead of 16 nvidia.com/gpu`.
    """

    noun: str
    name: str
    verb: str
    rest: str
    risk: Risk
    details: tuple[str, ...] = ()
    causes: tuple[Manifest, ...] = ()
    before: Json = None
    after: Json = None


def merge(topic: str, statements: Iterable[Statement]) -> Iterator[Effect]:
    """Yield an effect for each group of statements whose noun, verb, rest, risk and details are equal.

    The effect has the causes of all statements, and the values before and after of the statement with the first name.
    """
    groups: dict[tuple[object, ...], list[Statement]] = {}
    for item in statements:
        groups.setdefault((item.noun, item.verb, item.rest, item.risk, item.details), []).append(item)
    for group in groups.values():
        group.sort(key=lambda item: item.name)
        first, names = group[0], list(dict.fromkeys(item.name for item in group))
        yield Effect(
            topic,
            first.risk,
            f"{plural(first.noun, len(names))} {', '.join(names)}".strip(),
            f"{name_subjects(first.noun, names)} {conjugate(first.verb, len(names))} {first.rest}",
            first.details,
            tuple({cause.identity: cause for item in group for cause in item.causes}.values()),
            first.before,
            first.after,
        )


def name_subjects(noun: str, names: Sequence[str]) -> str:
    """Return a noun with its names, and only the first names of many.

    >>> name_subjects("team", ["cv", "nlp"]), name_subjects("team", ["a", "b", "c", "d", "e"])
    ('teams `cv` and `nlp`', '5 teams (`a`, `b`, `c` and 2 more)')
    """
    if names == [""]:
        return noun
    if len(names) <= _LISTED:
        return escape_control(f"{plural(noun, len(names))} {format_names(names)}")
    first = ", ".join(f"`{name}`" for name in names[:_LISTED])
    return escape_control(f"{len(names)} {plural(noun, len(names))} ({first} and {len(names) - _LISTED} more)")


def plural(noun: str, count: int) -> str:
    """Return a noun in the form for a number: `team`, `teams`, `entries`."""
    if count == 1:
        return noun
    if noun.endswith("y"):
        return f"{noun.removesuffix('y')}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch")) else f"{noun}s"


def conjugate(verb: str, count: int) -> str:
    """Return a verb in the form for a number of subjects: `owns`, `own`. Only the first word changes."""
    first, space, rest = verb.partition(" ")
    if count > 1:
        first = _PLURALS.get(first, first.removesuffix("s"))
    return f"{first}{space}{rest}"
