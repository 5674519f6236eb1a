"""The registry of checks, and how to add a check.

1. Write a function in the module of its family, and list a new module in `_OF_TREES` or `_OF_CHANGES` below:

   @check("quota/lends-nobody", severity=INFO, needs=Queues)
   def lends_nobody(queues: Queues) -> Iterator[Breach]:
       \"\"\"Report quota that no other queue can borrow.

       Why it matters: the effect, and the symptom that users see. What the check needs, and what it does not report.

       Source: kueue v0.19.2 pkg/cache/scheduler/resource_node.go available
       \"\"\"
       yield Breach(path, message, why, fix, manifest)

   The id gives the function its name. `mpigen checks` shows the first line of the docstring without "Report", and the
   page docs/checks/<id>.md shows all of it. `Breach` has the three texts: what is wrong, what will happen because of
   it, what to do.
2. `severity` is the highest severity of a breach: ERROR if the object is rejected, never runs or is unsafe; WARNING if
   that depends on the cluster; INFO for a fact that the owner should know. A breach can set a lower severity.
3. `needs` is the class that the function reads. The class decides when the function runs, see `Stage`.
   `since="kueue 0.19"` is the first version with the behavior. Ranges of versions with a known defect are in
   generator/facts/defects.yaml instead.
4. Add tests/checks/<id>/cases.yaml with a case that breaks the rule and one that does not. The page shows the case with
   a sentence `shows`. `python -m tests.checks` records the texts in tests/checks/<family>/expected.txt, and
   `python -m tests.docs` writes the page.

An engine that has rules of its own, such as the schemas, calls `declare` for each id, and sets `Breach.check`.

`check` stores the registration in the function itself, and `registered_in` finds the functions of a module. So a file
of a user's own checks is read like a module of mpigen, and its checks belong to the `Suite` of one run only.
"""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache, cached_property
from inspect import cleandoc, currentframe, isgeneratorfunction
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

from generator.checks import finding
from generator.checks.finding import Located, Severity
from generator.checks.objects import Objects
from generator.errors import ConfigError
from generator.facts import defects
from generator.facts.versions import minors
from generator.manifests import Manifest

Breach = finding.Breach
ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO

_OF_TREES = (
    *(
        "schema",
        "metadata",
        "addresses",
        "amounts",
        "workload",
        "services",
        "secret",
        "runtime",
        "mpi.jobs",
        "mpi.pods",
        "mpi.ranks",
    ),
    *("ranks", "trainjob", "relaxations", "protections", "reference", "access", "identity", "unmatched"),
    "device_names",
    *("quota.amounts", "quota.canonical", "quota.definitions", "quota.capacity", "quota.jobs", "quota.namespaces"),
    *("quota.configuration", "quota.unusable"),
    *("fabric.attached", "fabric.cni", "fabric.environment", "fabric.host", "fabric.networks", "fabric.operators"),
    *("fabric.pools", "fabric.requests", "admission", "limit_ranges", "job_pods", "pod.admission", "network"),
    *(
        "pod.addresses",
        "pod.volumes",
        "pod.containers",
        "pod.resources",
        "pod.probes",
        "pod.security",
        "pod.scheduling",
    ),
    *("pod.claims", "pod.finalizers", "feature_gates", "device_claims", "schedules"),
    *("gitops.paths", "gitops.projects", "gitops.order", "gitops.options", "gitops.namespaces"),
)
"""Modules below generator.checks with the rules that `synth` and `validate` run."""
_OF_OTHERS = frozenset(
    {
        *("services", "relaxations", "identity", "schedules", "unmatched", "pod.admission"),
        *("quota.canonical", "quota.capacity", "quota.configuration", "quota.unusable"),
        *("fabric.cni", "fabric.host", "fabric.networks", "fabric.operators", "fabric.pools"),
        *("gitops.paths", "gitops.projects", "gitops.order", "gitops.namespaces"),
    }
)
"""Modules of `_OF_TREES` whose rules never report a TrainJob."""
_OF_JOBS = tuple(module for module in _OF_TREES if module not in _OF_OTHERS)
_OF_CHANGES = (
    "change.immutable",
    "change.inactive",
    "change.nodes",
    "change.queues",
    "change.removals",
    "change.runtimes",
)
"""Modules with the rules that compare two output trees, for `synth`, `plan` and `validate --since`."""
_ENGINES = (
    *(
        "altered",
        "existing.drift_findings",
        "existing.findings",
        "expectations",
        "run",
        "kubeconform",
        "policy",
        "pod.fields",
        "sources",
        "submission",
        "compiled",
    ),
    *("placeholders", "volume_claims"),
    ".hazards.find",
    ".hazards.patched",
    ".adoption.waivers",
    ".effects.findings",
)
"""Modules that declare the checks of engines."""


class Stage(Enum):
    """The time at which generator/checks/run.py calls a rule. The class that the rule needs decides the stage.

    Attributes:
        OBJECT: once for each manifest. The class is Manifest, or has `of_manifest(manifest, targets)`, which returns
            None for other kinds.
        TOGETHER: once for each release. The class is Objects, or has `read(objects)`, which may return None.
        CHANGE: once for each item that `between(change)` of the class returns, when a new output tree replaces an old
            one.
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
        severity: the severity of breaches that set none.
        needs: the class of the objects that the rule reads.
        since: the first minor version of a component for which the rule holds, such as `kueue 0.19`; empty for all.
        text: the docs: a summary, an explanation, and the sources.
        rule: the function; None if an engine such as the schemas reports the breaches.
        code: the file, the line of the registration, and the name of the function; empty without a function.
    """

    id: str
    severity: Severity
    needs: type[Any]
    since: str
    text: str
    rule: Rule | None
    code: tuple[str, int, str] = ("", 0, "")

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
    def file(self) -> str:
        """The file with the check: `generator/checks/quota/capacity.py`, or the path of a user's own file."""
        file = Path(self.code[0])
        return file.relative_to(_ROOT).as_posix() if file.is_relative_to(_ROOT / "generator") else str(file)

    @property
    def line(self) -> int:
        """The 1-based line of the registration in `file`."""
        return self.code[1]

    @property
    def function(self) -> str:
        """The name of the function that yields the breaches; empty if an engine has several functions for them."""
        return self.code[2]

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

    @property
    def takes_one_argument(self) -> bool:
        """True if the rule is a generator function with one positional parameter."""
        code = self.rule.__code__ if isinstance(self.rule, FunctionType) else None
        return (
            code is not None and (code.co_argcount, code.co_kwonlyargcount) == (1, 0) and isgeneratorfunction(self.rule)
        )

    @cached_property
    def stage(self) -> Stage:
        """The stage at which the runner calls the rule."""
        if self.rule is None:
            return Stage.ENGINE
        if self.needs is Manifest or hasattr(self.needs, "of_manifest"):
            return Stage.OBJECT
        if self.needs is Objects or hasattr(self.needs, "read"):
            return Stage.TOGETHER
        return Stage.CHANGE if hasattr(self.needs, "between") else Stage.ENGINE

    def holds_for(self, targets: Mapping[str, str]) -> bool:
        """Return True if the check applies to these minor versions. A missing component has its newest version."""
        if self.id in defects.inapplicable_checks(targets):
            return False
        component, _, first = self.since.partition(" ")
        return not first or _number(targets.get(component) or minors(component)[0]) >= _number(first)

    def complete(self, breach: Breach, manifest: Manifest | None = None) -> Located:
        """Return a breach with its manifest, its id and its severity.

        Raises:
            TypeError: neither the breach nor the caller names a manifest.
        """
        manifest = breach.manifest or manifest
        if manifest is None:
            raise TypeError(f"{self.id}: the breach names no manifest")
        return manifest, replace(breach, check=self.id, severity=breach.severity or self.severity)


_ROOT = Path(__file__).parents[2]
_REGISTERED = "__mpigen_check__"
"""The attribute of a function in which `check` stores the registration."""
_declared: dict[str, Check] = {}
"""The checks of engines. The modules of mpigen fill it when Python imports them, so it is the same in every run."""


def check(name: str, *, severity: Severity, needs: type[Any], since: str = "") -> Callable[[R], R]:
    """Register a function as a check, of mpigen or of a file that the setting `checks` names.

    The function takes one argument, an object of the class `needs`, and yields a `Breach` for each mistake. The first
    line of its docstring begins with `Report`.

    Args:
        name: the id, `family/rule`. The function has the name of the rule, with `_` for `-`.
        severity: the severity of breaches that set none: `ERROR`, `WARNING` or `INFO`.
        needs: the class of the argument: `Manifest`, `Objects`, `Change`, or a class of `generator.views`. The class
            decides how often the check runs: once for each object, release or update.
        since: the first minor version of a component for which the check holds, such as `kueue 0.19`; empty for all.

    Returns:
        A decorator, which returns the function unchanged.

    Raises:
        ValueError: from the decorator: the function has another name than the id.
    """

    def register(rule: R) -> R:
        setattr(rule, _REGISTERED, Check(name, severity, needs, since, rule.__doc__ or "", rule, _locate(name, rule)))
        return rule

    return register


def declare(name: str, *, severity: Severity, text: str | Callable[..., Any]) -> None:
    """Register a check whose breaches an engine reports, such as the schemas or kubeconform.

    Args:
        name: the id, `family/rule`.
        severity: the usual severity.
        text: the docs, in the form of a rule's docstring, or the function of the engine with this docstring.

    Raises:
        ValueError: another engine has declared the id, or the function has another name than the id.
    """
    if name in _declared:
        raise ValueError(f"two checks are called {name}")
    if isinstance(text, str):
        frame = currentframe()
        caller = frame.f_back if frame else None
        code = (caller.f_code.co_filename, caller.f_lineno, "") if caller else ("", 0, "")
        _declared[name] = Check(name, severity, object, "", text, None, code)
    else:
        _declared[name] = Check(name, severity, object, "", text.__doc__ or "", None, _locate(name, text))


def _locate(name: str, rule: Callable[..., Any]) -> tuple[str, int, str]:
    """Return the file, the line and the name of the function of a check.

    Raises:
        ValueError: the id has no family, or the function has another name than the id.
    """
    family, _, short = name.partition("/")
    if not short:
        raise ValueError(f"the id `{name}` has no family; write an id such as `acme/{family}`")
    if rule.__name__ != (expected := short.replace("-", "_")):
        raise ValueError(f"the function of `{name}` must have the name `{expected}`, not `{rule.__name__}`")
    return rule.__code__.co_filename, rule.__code__.co_firstlineno, rule.__name__


def registered_in(names: Mapping[str, Any], module: str) -> Iterator[Check]:
    """Yield the checks that a module defines, in the order of their functions.

    Args:
        names: the names of the module with their values.
        module: the name of the module. The functions that it imports from other modules are left out.
    """
    for value in names.values():
        registered = getattr(value, _REGISTERED, None)
        if isinstance(registered, Check) and value.__module__ == module:
            yield registered


def complete(breach: Breach, manifest: Manifest | None = None) -> Located:
    """Return a breach of an engine with its manifest and severity."""
    return _declared[breach.check].complete(breach, manifest)


@cache
def checks() -> Sequence[Check]:
    """Return all checks of mpigen, sorted by id.

    Raises:
        ValueError: two checks have the same id.
    """
    everything = [*_load((*_OF_TREES, *_OF_CHANGES, *_ENGINES)), *_declared.values()]
    if repeated := [name for name, count in Counter(check.id for check in everything).items() if count > 1]:
        raise ValueError(f"two checks are called {repeated[0]}")
    return sorted(everything, key=lambda check: check.id)


def get(name: str) -> Check | None:
    """Return the check of mpigen with an id; None if there is none."""
    return next((check for check in checks() if check.id == name), None)


@cache
def _checks_of(stage: Stage, targets: frozenset[tuple[str, str]], *, of_jobs: bool) -> Sequence[Check]:
    rules = _load(_OF_CHANGES if stage is Stage.CHANGE else _OF_JOBS if of_jobs else _OF_TREES)
    return [check for check in rules if check.stage is stage and check.holds_for(dict(targets))]


@cache
def _load(modules: Sequence[str]) -> Sequence[Check]:
    """Import modules of mpigen, and return the checks of their functions, in the order of the modules."""
    imported = [importlib.import_module(f".{module}", "generator.checks") for module in modules]
    return [check for module in imported for check in registered_in(vars(module), module.__name__)]


@dataclass(frozen=True, slots=True)
class Profile:
    """The seconds that each rule takes in this process.

    Attributes:
        clock: returns the time in seconds, from any start.
        seconds: id → seconds.
    """

    clock: Callable[[], float]
    seconds: dict[str, float] = field(default_factory=dict)

    def measure(self, name: str, judge: Callable[[], list[Breach]]) -> list[Breach]:
        """Return the breaches of a rule, and add the time that it takes."""
        started = self.clock()
        try:
            return judge()
        finally:
            self.seconds[name] = self.seconds.get(name, 0) + self.clock() - started


@dataclass(frozen=True, slots=True)
class Suite:
    """The checks of one run: the checks of mpigen, and the checks of the user's repository.

    Attributes:
        own: the checks of the user's repository, which `load_suite` reads.
        profile: measures the seconds of each check; None if they are not needed.
        of_jobs: True to leave out the modules of mpigen whose rules never report a TrainJob.
    """

    own: tuple[Check, ...] = ()
    profile: Profile | None = None
    of_jobs: bool = False
    _chosen: dict[tuple[Stage, frozenset[tuple[str, str]]], Sequence[Check]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    _of_objects: dict[frozenset[tuple[str, str]], Mapping[type[Any], Sequence[Check]]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def at(self, stage: Stage, targets: Mapping[str, str]) -> Sequence[Check]:
        """Return the checks that the runner calls at a stage for these minor versions, in the order of registration."""
        key = stage, frozenset(targets.items())
        ours = _checks_of(*key, of_jobs=self.of_jobs)
        if not self.own:
            return ours
        if key not in self._chosen:  # the runner asks once for each object
            self._chosen[key] = [*ours, *self.own_at(stage, targets)]
        return self._chosen[key]

    def of_objects(self, targets: Mapping[str, str]) -> Mapping[type[Any], Sequence[Check]]:
        """Return class → the checks of single objects that need an object of this class, for these minor versions."""
        key = frozenset(targets.items())
        if key not in self._of_objects:
            by_class: dict[type[Any], list[Check]] = {}
            for check in self.at(Stage.OBJECT, targets):
                by_class.setdefault(check.needs, []).append(check)
            self._of_objects[key] = by_class
        return self._of_objects[key]

    def own_at(self, stage: Stage, targets: Mapping[str, str]) -> Sequence[Check]:
        """Return the user's own checks that the runner calls at a stage for these minor versions."""
        return [check for check in self.own if check.stage is stage and check.holds_for(targets)]

    def get(self, name: str) -> Check | None:
        """Return the check with an id, of mpigen or of the user's repository; None if there is none."""
        return next((check for check in self.own if check.id == name), None) or get(name)

    def all(self) -> Sequence[Check]:
        """Return all checks, of mpigen and of the user's repository, sorted by id."""
        return sorted((*checks(), *self.own), key=lambda check: check.id)

    def ids(self) -> Sequence[str]:
        """Return the ids of all checks."""
        return [check.id for check in self.all()]

    def run(self, check: Check, subject: object, manifest: Manifest | None = None) -> Sequence[Located]:
        """Return the breaches of a rule in a subject, each with its manifest.

        Args:
            check: the check with the rule.
            subject: an object of the class that the rule needs.
            manifest: the manifest of breaches without their own.

        Raises:
            ConfigError: a check of the user's repository raises an exception, or yields an invalid breach.
        """

        def judge() -> list[Breach]:
            return list(check.rule(subject)) if check.rule else []

        try:
            breaches = self.profile.measure(check.id, judge) if self.profile else judge()
            if breaches and self._has(check):
                _reject_invalid(breaches)
            return [check.complete(breach, manifest) for breach in breaches]
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            is_rule = check.rule is not None and not isinstance(check.rule, FunctionType)
            if not self._has(check) or (is_rule and isinstance(error, ConfigError)):
                raise
            from generator.documents.python import find_failure

            failed = find_failure(error, Path(check.file), "correct the check")
            line = failed.line or check.line
            raise ConfigError((replace(failed, line=line, path=check.id),)) from None

    def _has(self, check: Check) -> bool:
        """Return True if a check is one of the user's own, by identity, because comparing all fields takes long."""
        return any(check is own for own in self.own)


def _reject_invalid(breaches: Sequence[Breach]) -> None:
    """Reject breaches of a user's check that no report can show.

    Raises:
        TypeError: a rule yields something else than a Breach, or a Breach with a field of a wrong type, or with a
            `value` that is not JSON data.
        ValueError: `value` contains NaN or infinity.
    """
    for breach in breaches:
        if not isinstance(breach, Breach):
            raise TypeError(f"the check yields {breach!r}, not a Breach")
        if not isinstance(breach.path, tuple):
            raise TypeError(f"the path of the Breach is {breach.path!r}, not a tuple such as ('metadata', 'labels')")
        if not all(type(step) in (str, int) for step in breach.path):
            raise TypeError(
                f"the path of the Breach is {breach.path!r}, but each step is a key or a position in a list"
            )
        if not all(isinstance(text, str) for text in (breach.message, breach.why, breach.fix)):
            raise TypeError("the message, why and fix of a Breach are strings")
        if not isinstance(breach.severity, Severity | None):
            raise TypeError(f"the severity of the Breach is {breach.severity!r}, not ERROR, WARNING or INFO")
        json.dumps(breach.value, allow_nan=False)


def _number(minor: str) -> tuple[int, ...]:
    return tuple(map(int, minor.split(".")))
