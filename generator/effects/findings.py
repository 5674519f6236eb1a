"""change/queue-effect: the effects of an update on queues that no other check of changes reports.

`mpigen plan` and `mpigen validate --since` have one source for these effects: the topics `quota` and `queues`.
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.finding import Located
from generator.checks.objects import Change
from generator.checks.registry import INFO, WARNING, Breach, Suite, complete, declare
from generator.checks.run import judge_update
from generator.effects.effect import Effect, Risk
from generator.effects.queues import find_queue_effects
from generator.effects.quota import find_quota_effects

_CHECK = "change/queue-effect"
declare(
    _CHECK,
    severity=WARNING,
    text="""Report a change of quota, queues, priorities or flavors that `mpigen plan` shows with a risk.

    Such a change is, for example, another cohort, a lower weight, another `queueingStrategy` or `preemption`, or a
    higher value of a WorkloadPriorityClass. The check reports only changes that no other check `change/*` reports. A
    change with a medium risk is an info, and one with a high risk a warning. Only `mpigen validate --since` runs the
    check, because `mpigen plan` shows these changes of a platform file.

    Source: kueue v0.19.2 apis/kueue/v1beta2/clusterqueue_types.go
    """,
)
_FIX = "inform the users of the queue, or apply the update when no job needs the earlier setting"


def judge_with_effects(change: Change, suite: Suite) -> Iterator[Located]:
    """Yield the breaches of the checks of an update, and a breach for each other effect on queues with a risk.

    Args:
        change: the update.
        suite: the checks of the run.
    """
    breaches = list(judge_update(change, suite))
    yield from breaches
    known = {manifest.identity for manifest, _ in breaches}
    for effect in (*find_quota_effects(change), *find_queue_effects(change)):
        if effect.causes and effect.risk is not Risk.LOW and not any(item.identity in known for item in effect.causes):
            yield complete(_breach(effect))


def _breach(effect: Effect) -> Breach:
    why = "; ".join(effect.details) or f"`mpigen plan` shows this change with the risk `{effect.risk}`"
    severity = WARNING if effect.risk is Risk.HIGH else INFO
    return Breach(("spec",), effect.text, why, _FIX, effect.causes[0], severity, check=_CHECK)
