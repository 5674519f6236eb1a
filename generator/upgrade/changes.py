"""The entries of an upgrade, from the checks, from the effects of a new release, and from the table of upgrades."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from generator.checks.finding import Finding, Severity
from generator.documents.load import Path
from generator.documents.messages import escape_control
from generator.effects.effect import Effect, Risk
from generator.errors import Problem
from generator.facts.versions import find_conflicts
from generator.manifests import Manifest
from generator.upgrade.entry import Entry, Hit, Impact
from generator.upgrade.jobs import count_states
from generator.upgrade.rows import Located, Row
from generator.upgrade.steps import Step

Place = Callable[[Manifest, Path], tuple[str, int]]
"""A function that returns the file and the line of a part of an object."""
_OF_VERSIONS = "platform/announced-version"
"""The check that repeats what a note of the upgrade reports."""


def find_new(before: Sequence[Finding], after: Sequence[Finding]) -> list[Finding]:
    """Return the findings of `after` that `before` lacks. The message does not count, because it can name versions."""
    known = {_key(finding) for finding in before}
    return [finding for finding in after if _key(finding) not in known and finding.check != _OF_VERSIONS]


def _key(finding: Finding) -> tuple[str, str, str]:
    return finding.check, finding.resource, finding.path


def of_findings(findings: Sequence[Finding], *, is_repaired: bool) -> Iterator[Entry]:
    """Yield an entry for each message of a check.

    Args:
        findings: the findings that only the versions after the upgrade have.
        is_repaired: True if a new release of `mpigen synth` does not have the findings.
    """
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.check, finding.message), []).append(finding)
    for (check, message), group in groups.items():
        needs_work = any(finding.severity is not Severity.INFO for finding in group)
        impact = Impact.MECHANICAL if is_repaired else Impact.MANUAL if needs_work else Impact.SAFE
        hits = [Hit(finding.resource, finding.file, finding.line) for finding in group]
        before = "" if is_repaired else group[0].fix
        yield Entry(check, impact, f"{message}: {group[0].why}", hits, before, check=check)


def of_effects(effects: Sequence[Effect], place: Place) -> Iterator[Entry]:
    """Yield an entry for each effect of a new release, except the effect that its versions differ."""
    for effect in effects:
        if effect.topic != "version":
            fields = effect.fields
            hits = [Hit(item.resource, *place(item, fields[0] if fields else ())) for item in effect.causes]
            impact = Impact.MANUAL if effect.risk is Risk.HIGH else Impact.MECHANICAL
            before = (
                f"review this effect with `mpigen plan`: its risk is {effect.risk}" if effect.risk is Risk.HIGH else ""
            )
            yield Entry(f"plan/{effect.topic}", impact, effect.text, hits or [Hit(effect.subject)], before)


def of_rows(rows: Sequence[Row], place: Place) -> Iterator[Entry]:
    """Yield an entry for each row of the table that hits something."""
    for row in rows:
        change = row.change
        hits = [
            Hit(item.manifest.resource, *place(item.manifest, item.path), item.detail, item.state)
            for item in row.located
        ]
        yield Entry(
            change.id,
            Impact(change.impact),
            change.text,
            hits,
            _name_jobs(change.before, row.located),
            change.after,
            _name_variables(row.located, is_announced=change.is_announced),
            row.step,
            change.source,
            change.is_announced,
        )


def _name_jobs(text: str, located: Sequence[Located]) -> str:
    """Append the numbers of jobs in each state to what to do before a step."""
    states = [item.state for item in located if item.state]
    return f"{text} ({count_states(states)})" if text and states else text


def _name_variables(located: Sequence[Located], *, is_announced: bool) -> str:
    """Return which variables of runtimes keep the pods of new TrainJobs the same; empty if there are none."""
    values: dict[str, set[str]] = {}
    for item in located:
        for name, value in item.variables.items():
            values.setdefault(name, set()).add(value)
    if not values or any(len(known) > 1 for known in values.values()):
        return ""
    names = " and ".join(f"`{name}: {escape_control(next(iter(known)))}`" for name, known in values.items())
    place = "the launcher of the runtime (`environment` in the platform file)"
    text = f"set {names} in {place}: TrainJobs that users create afterwards keep their pods"
    unproven = "This is unproven: it is computed with the code of the version before and the announced variables. "
    return f"{text}. {unproven if is_announced else ''}Existing TrainJobs keep the runtime of their creation"


def of_conflicts(targets: Mapping[str, str]) -> Iterator[Entry]:
    """Yield an entry for each pair of versions that do not work together after the upgrade."""
    for need, message in find_conflicts(targets):
        fix = f"add `{need.needs}={need.least}` to `--to`"
        yield Entry(
            f"set-{need.component}-{need.needs}", Impact.BLOCKED, message, (), fix, source=need.source, pair=need
        )


def of_steps(steps: Sequence[Step]) -> Iterator[Entry]:
    """Yield an entry for each pair of versions that does not work between two steps, because no order avoids it."""
    for number, step in enumerate(steps, 1):
        for need in step.broken:
            text = f"no order of the steps avoids versions that do not work together: {need.requirement}: {need.why}"
            fix = f"add `{need.needs}={need.least}` to `--to`, or let all jobs finish before this step"
            identity = f"set-{need.component}-{need.needs}"
            yield Entry(identity, Impact.BLOCKED, text, (), fix, step=number, source=need.source, pair=need)


def of_refusals(problems: Sequence[Problem], file: str) -> Iterator[Entry]:
    """Yield an entry for each problem of the platform file with the new versions.

    Args:
        problems: the problems.
        file: the platform file.
    """
    for problem in problems:
        field = problem.path or "cluster.versions"
        yield Entry("platform", Impact.BLOCKED, f"`{field}`: {problem.message}", [Hit(field, file)], problem.fix)


def say_when(early: Sequence[Finding], needed: Sequence[Finding]) -> str:
    """Return when to apply the new release: before the first step, or after the last one.

    Args:
        early: the findings of the new release before the upgrade.
        needed: the findings of the present release after the upgrade.
    """
    is_early, is_needed = (any(item.severity is Severity.ERROR for item in items) for items in (early, needed))
    if is_early and is_needed:
        return "apply the new release together with the steps: neither release is valid for the versions of the other"
    if is_needed:
        return "apply the new release before the first step: the present release is invalid after the upgrade"
    if is_early:
        return "apply the new release after the last step: it is invalid before the upgrade"
    return "apply the new release before or after the steps: both releases are valid before and after the upgrade"
