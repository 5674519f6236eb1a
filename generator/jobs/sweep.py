"""The jobs of a sweep: one for each combination of the values of `--matrix`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from generator.facts.names import SWEEP
from generator.jobs.request import JobRequest

# `${lr}` of a shell is no place: the shell reads the variable itself.
_PLACE = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}")


def variants(request: JobRequest, name: str) -> Iterator[JobRequest]:
    """Yield the requests of a sweep, or the request itself without `matrix`.

    The jobs are called `name-1`, `name-2`, …, with numbers of one length, and have the name of the sweep as a label
    (`SWEEP`). The last variable changes first. Each value is a variable of the ranks, and replaces `{VARIABLE}` in the
    command.

    Args:
        request: the request.
        name: the name of the sweep; of the job without `matrix`.
    """
    if not request.matrix:
        yield replace(request, name=name)
        return
    combinations = [*product(*request.matrix.values())]
    digits = len(str(len(combinations)))
    for number, values in enumerate(combinations, start=1):
        chosen = dict(zip(request.matrix, values, strict=True))
        yield replace(
            request,
            name=f"{name}-{number:0{digits}}",
            labels={**request.labels, SWEEP: name},
            environment={**request.environment, **chosen},
            command=tuple(_filled(word, chosen) for word in request.command),
            matrix={},
        )


def unfilled_places(request: JobRequest) -> set[str]:
    """Return the places such as `{lr}` in the command of a sweep that no variable of the matrix fills."""
    places = {match for word in request.command for match in _PLACE.findall(word)}
    return {f"{{{name}}}" for name in places - request.matrix.keys()} if request.matrix else set()


def _filled(word: str, values: Mapping[str, str]) -> str:
    """Replace `{VARIABLE}` by its value; other braces stay."""
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), word)
