"""The versions of an upgrade, as the user writes them: `kueue=0.20,trainer=2.4`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from generator.errors import ConfigError, Problem, suggest
from generator.facts.api_versions import is_reached
from generator.facts.versions import NAMES, accepted_minors

_COMPONENTS = ("kubernetes", "trainer", "jobset", "kueue", "argocd")
"""The components of `cluster.versions`. Flux has no version in a platform file."""


def read_versions(texts: Sequence[str], option: str) -> tuple[dict[str, str], list[Problem]]:
    """Return component → minor version, and the problems of the texts.

    Args:
        texts: the values of the option, each with one or more pairs `COMPONENT=MINOR`, with commas between them.
        option: the option, for messages: `--to`.
    """
    versions: dict[str, str] = {}
    problems: list[Problem] = []
    for pair in (pair.strip() for text in texts for pair in text.split(",") if pair.strip()):
        name, _, minor = pair.partition("=")
        if mistake := _find_mistake(pair, versions):
            message, fix = mistake
            problems.append(Problem(message, fix, path=option))
        else:
            versions[name] = minor
    return versions, problems


def _find_mistake(pair: str, versions: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the message and the fix of the mistake in a pair `COMPONENT=MINOR`; None if it has none.

    Args:
        pair: the text.
        versions: the versions of the pairs before.
    """
    name, _, minor = pair.partition("=")
    if not minor:
        return f"`{pair}` is not a component with a version", "write COMPONENT=MINOR, such as `kueue=0.20`"
    if name not in _COMPONENTS:
        return f"`{name}` is not a component", suggest(name, _COMPONENTS)
    if minor not in accepted_minors(name):
        known = ", ".join(sorted(accepted_minors(name), key=_numbers))
        return f"`{minor}` is not a known minor version of {NAMES[name]}", f"write one of: {known}"
    if versions.get(name, minor) != minor:
        return f"{NAMES[name]} has two versions: {versions[name]} and {minor}", "name one of them"
    return None


def read_upgrade(
    to: Sequence[str], given: Sequence[str], made_for: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the versions before and after an upgrade.

    Args:
        to: the values of `--to`.
        given: the values of `--from`.
        made_for: the versions of the platform file or of the release; empty if they are unknown.

    Raises:
        ConfigError: with all problems: an unknown component or version, a version that is not newer than the present
            one, or a present version that is unknown.
    """
    newer, problems = read_versions(to, "--to")
    present, more = read_versions(given, "--from")
    before = {**made_for, **present}
    problems += more
    problems += _compare(newer, before, {problem.path for problem in problems})
    if not newer and not problems:
        problems.append(Problem("no version is named", "write a version, such as `--to kueue=0.20`", path="--to"))
    if problems:
        raise ConfigError(tuple(problems))
    return before, {**before, **newer}


def _compare(newer: Mapping[str, str], before: Mapping[str, str], wrong: Collection[str]) -> Iterator[Problem]:
    for name, minor in newer.items():
        present = before.get(name)
        if present is None:
            if "--from" not in wrong:
                fix = f"add `--from {name}=MINOR`"
                yield Problem(f"the present version of {NAMES[name]} is unknown", fix, path="--to")
        elif present == minor:
            yield Problem(
                f"{NAMES[name]} {minor} is the present version", "name a newer version, or remove it", path="--to"
            )
        elif is_reached(present, minor):
            message = f"{NAMES[name]} {minor} is older than the present version {present}"
            yield Problem(message, "name a newer version", path="--to")


def _numbers(minor: str) -> tuple[int, ...]:
    return tuple(map(int, minor.split(".")))
