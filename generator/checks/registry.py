"""The registry of checks, and how to add a check.

1. Write a function in the module of its family, and list a new module in `_OF_TREES` or `_OF_CHANGES` below:

   @check("quota/lends-nobody", severity=INFO, needs=Queues)
   def lends_nobody(queues: Queues) -> Iterator[Breach]:
       \"\"\"Report quota that no other queue can borrow.

       Why it matters: the effect, and the symptom that users see. What the check needs, and what it does not report.

       Source: kueue v0.19.2 pkg/cache/scheduler/resource_node.go `available`
       \"\"\"
       yield Breach(path, message, why, fix, manifest)

   The id gives the function its name. `mpigen checks` shows the first line of the docstring without "Report", and the
   page docs/checks/<id>.md shows all of it. `Breach` has the three texts: what is wrong, what will happen because of
   it, what to do.
2. `severity` is the worst one: ERROR if the object is rejected, never runs or is unsafe; WARNING if it may; INFO if it
   is good to know. A breach can lower it.
3. `needs` is the class that the function reads. It decides when the function runs, see `Stage`. `since="kueue 0.19"` is
   the first version with the behavior. Ranges of known defects are in generator/facts/defects.yaml instead.
4. Add tests/checks/<id>/cases.yaml with a case that breaks the rule and one that does not. `python -m tests.checks`
   records the texts in tests/checks/<family>/expected.txt, and `python -m tests.docs` writes the page.

An engine that has rules of its own, such as the schemas, calls `declare` for each id, and sets `Breach.check`.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, cached_property
from inspect import cleandoc
from typing import Any, TypeVar

from generator.checks import finding
from generator.checks.finding import Located, Severity
from generator.checks.objects import Objects
from generator.facts import defects
from generator.facts.versions import minors
from generator.manifests import Manifest

Breach = finding.Breach
ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO

_OF_TREES = (
    *("schema", "secret", "runtime", "mpi.jobs", "mpi.pods", "trainjob"),
    "relaxations",
    *("quota.definitions", "quota.capacity", "quota.jobs", "quota.namespaces"),
    *("fabric.attached", "fabric.cni", "fabric.environment", "fabric.host", "fabric.networks", "fabric.operators"),
    "fabric.requests",
)
"""Modules below generator.checks with the rules that `synth` and `validate` run."""
_OF_CHANGES = ("change.immutable", "change.queues", "change.runtimes")
"""Modules with the rules over two trees, which only `synth` and `validate --since` import."""
_ENGINES = ("run", "kubeconform", "policy", ".hazards.find", ".adoption.waivers")
"""Modules that declare the checks of engines."""


class Stage(Enum):
    """When generator/checks/run.py calls a rule. The class that the rule needs decides.

    Attributes:
        OBJECT: once for each manifest. The class is Manifest, or has `of_manifest(manifest, targets)`, which returns
            None for other kinds.
        TOGETHER: once for each release. The class is Objects, or has `read(objects)`, which may return None.
        CHANGE: once for each item of `between(change)` of the class, when a new tree replaces an old one.
        ENGINE: never. An engine reports the breaches.
    """

    OBJECT = "object"
    TOGETHER = "together"
    CHANGE = "change"
    ENGINE = "engine"


R = TypeVar("R", bound=Callable[..., Iterator[Any]])
Rule = Callable[[Any], Iterator[Breach]]


@dataclass(frozen=True)
class Check:
    """A registered rule.

    Attributes:
        id: `family/rule`.
        severity: the severity of a breach that names none.
        needs: the class of the objects that the rule reads.
        since: the first minor version of a component for which the rule holds, such as `kueue 0.19`; empty for all.
        text: the docs: a summary, an explanation, and the sources.
        rule: the function; None if an engine such as the schemas reports the breaches.
    """

    id: str
    severity: Severity
    needs: type[Any]
    since: str
    text: str
    rule: Rule | None

    @property
    def family(self) -> str:
        """The part of the id before the slash."""
        return self.id.partition("/")[0]

    @property
    def name(self) -> str:
        """The part of the id after the slash."""
        return self.id.partition("/")[2]

    @property
    def page(self) -> str:
        """The page of the docs, relative to the root of the docs."""
        return f"checks/{self.id}.md"

    @property
    def summary(self) -> str:
        """The first sentence of the docstring, as a noun phrase: `quota that no other queue can borrow`."""
        return self._parts[0].removeprefix("Report ").rstrip(".")

    @property
    def why(self) -> str:
        """The paragraphs of the docstring between the summary and the source."""
        return "\n\n".join(part for part in self._parts[1:] if not part.startswith("Source:"))

    @property
    def source(self) -> str:
        """The upstream source that shows the behavior; empty if the rule needs none."""
        sources = (part.removeprefix("Source:") for part in self._parts if part.startswith("Source:"))
        return "\n".join(" ".join(source.split()) for source in sources)

    @property
    def defects(self) -> Sequence[defects.Defect]:
        """The known defects of upstream that the check reports."""
        return [defect for defect in defects.defects().values() if self.id in defect.checks]

    @cached_property
    def _parts(self) -> Sequence[str]:
        return cleandoc(self.text).split("\n\n")

    @cached_property
    def stage(self) -> Stage:
        """When the runner calls the rule."""
        if self.rule is None:
            return Stage.ENGINE
        if self.needs is Manifest or hasattr(self.needs, "of_manifest"):
            return Stage.OBJECT
        if self.needs is Objects or hasattr(self.needs, "read"):
            return Stage.TOGETHER
        return Stage.CHANGE if hasattr(self.needs, "between") else Stage.ENGINE

    def holds_for(self, targets: Mapping[str, str]) -> bool:
        """Return True if the check applies to these minor versions; a component without one has its newest."""
        if self.id in defects.silent(targets):
            return False
        component, _, first = self.since.partition(" ")
        return not first or _number(targets.get(component) or minors(component)[0]) >= _number(first)

    def run(self, subject: object, manifest: Manifest | None = None) -> Iterator[Located]:
        """Yield the breaches of a subject, each with its manifest.

        Args:
            subject: an object of the class `needs`.
            manifest: the manifest of breaches that name none.
        """
        started = time.perf_counter()
        breaches = list(self.rule(subject)) if self.rule else []
        if _seconds is not None:
            _seconds[self.id] = _seconds.get(self.id, 0) + time.perf_counter() - started
        for breach in breaches:
            yield self.complete(breach, manifest)

    def complete(self, breach: Breach, manifest: Manifest | None = None) -> Located:
        """Return a breach with its manifest, its id and its severity.

        Raises:
            TypeError: neither the breach nor the caller names a manifest.
        """
        manifest = breach.manifest or manifest
        if manifest is None:
            raise TypeError(f"{self.id}: the breach names no manifest")
        return manifest, replace(breach, check=self.id, severity=breach.severity or self.severity)


_checks: dict[str, Check] = {}
_seconds: dict[str, float] | None = None


def check(name: str, *, severity: Severity, needs: type[Any], since: str = "") -> Callable[[R], R]:
    """Register a rule.

    Args:
        name: the id, `family/rule`.
        severity: the severity of a breach that names none: an error is rejected, never runs or is unsafe.
        needs: the class that the rule reads; `Stage` lists the possible ones.
        since: the first minor version of a component for which the rule holds, such as `kueue 0.19`. Ranges of known
            defects are in generator/facts/defects.yaml.

    Raises:
        ValueError: another rule has the id, or the function has another name than the id.
    """

    def register(rule: R) -> R:
        if rule.__name__ != name.partition("/")[2].replace("-", "_"):
            raise ValueError(f"the function of {name} is called {rule.__name__}")
        _add(Check(name, severity, needs, since, rule.__doc__ or "", rule))
        return rule

    return register


def declare(name: str, *, severity: Severity, text: str) -> None:
    """Register a check whose breaches an engine reports, such as the schemas or kubeconform.

    Args:
        name: the id, `family/rule`.
        severity: the usual severity.
        text: the docs, in the form of a rule's docstring.
    """
    _add(Check(name, severity, object, "", text, None))


def _add(new: Check) -> None:
    if new.id in _checks:
        raise ValueError(f"two checks are called {new.id}")
    _checks[new.id] = new


def complete(breach: Breach, manifest: Manifest | None = None) -> Located:
    """Return a breach of an engine with its manifest and severity."""
    return _checks[breach.check].complete(breach, manifest)


def checks() -> Sequence[Check]:
    """Return all checks, by id."""
    _load((*_OF_TREES, *_OF_CHANGES, *_ENGINES))
    return [_checks[name] for name in sorted(_checks)]


def get(name: str) -> Check | None:
    """Return the check with an id."""
    return next((check for check in checks() if check.id == name), None)


def checks_of(stage: Stage, targets: Mapping[str, str]) -> Sequence[Check]:
    """Return the checks that the runner calls at a stage for these minor versions, in the order of registration."""
    return _checks_of(stage, frozenset(targets.items()))


@cache
def _checks_of(stage: Stage, targets: frozenset[tuple[str, str]]) -> Sequence[Check]:
    _load(_OF_CHANGES if stage is Stage.CHANGE else _OF_TREES)
    return [check for check in _checks.values() if check.stage is stage and check.holds_for(dict(targets))]


@contextmanager
def profile() -> Iterator[Mapping[str, float]]:
    """Measure the seconds that each rule takes in this process: id → seconds."""
    global _seconds  # noqa: PLW0603 - the runner is called through many layers
    _seconds = {}
    try:
        yield _seconds
    finally:
        _seconds = None


@cache
def _load(modules: Sequence[str]) -> None:
    for module in modules:
        importlib.import_module(f".{module}", "generator.checks")


def _number(minor: str) -> tuple[int, ...]:
    return tuple(map(int, minor.split(".")))
