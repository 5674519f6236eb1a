"""`--target`, the same everywhere: for which versions something is judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _targets(_context: click.Context, _option: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    from generator.facts.versions import SUPPORTED

    known = [f"{component.name}={component.minor}" for component in SUPPORTED]
    wrong = [each for each in value if each not in known]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} is not one of: {', '.join(known)}")
    return dict(each.split("=") for each in value)


def target_option(command: _Command) -> _Command:
    """`--target`: component → minor version."""
    return click.option(
        "--target",
        "targets",
        multiple=True,
        metavar="COMPONENT=MINOR",
        callback=_targets,
        help="Check for this version, such as trainer=2.2. Default: what the release was made for, else the newest.",
    )(command)
