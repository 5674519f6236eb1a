"""The topic `refused`: updates that the API server, a webhook or `mpigen synth` rejects."""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.finding import Severity
from generator.checks.objects import Change
from generator.checks.run import judge_update
from generator.effects.effect import Effect, Risk


def find_refused_effects(change: Change) -> Iterator[Effect]:
    """Yield an effect for each error of the checks `change/*`."""
    for manifest, breach in judge_update(change, only=Severity.ERROR):
        if breach.severity is Severity.ERROR:
            yield Effect(
                "refused",
                Risk.HIGH,
                manifest.resource,
                f"{manifest.resource}: {breach.message}",
                (breach.why, f"to fix this, {breach.fix}"),
                (manifest,),
                fields=(breach.path,),
            )
