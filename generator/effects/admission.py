"""The topic `admission`: admission rules that an update adds, weakens, strengthens or removes.

A rule is a ValidatingAdmissionPolicy with its bindings. The texts use the description of the rule, and no CEL.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from generator.checks.objects import Change, ChangedObject
from generator.checks.protections import find_constants
from generator.checks.relaxations import Relaxation, read_relaxations
from generator.documents.load import Path
from generator.effects.effect import Effect, Risk
from generator.effects.parameters import find_parameter_effects
from generator.effects.places import Places, join
from generator.effects.subjects import name_subjects
from generator.effects.values import differences, format_change, format_field
from generator.errors import NotModelledError
from generator.facts.names import DESCRIPTION, METADATA_NAME, PART_OF, RELAXED, TENANT_LABEL
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, mappings, string, string_map, strings
from generator.objects.protections import BINDING, POLICY
from generator.upstream.kubernetes.admission_policies.policy import GROUP
from generator.upstream.kubernetes.selectors import selector_requirements, selects

_TOPIC = "admission"
_NOUN = "admission rule"
_STRING = re.compile(r"'([^'\n]{1,80})'|\"([^\"\n]{1,80})\"")
_WEBHOOKS = "ValidatingWebhookConfiguration"
_DETAILS = 40
_DEPTH = 5  # keys in the path of a changed parameter


def find_admission_effects(change: Change) -> Iterator[Effect]:
    """Yield changed admission rules, parameters and webhooks, and namespaces to which other rules apply than before."""
    findings = list(_Comparison(change).findings())
    yield from _merge(findings)
    yield from find_parameter_effects(change)
    yield from _webhooks(change)


@dataclass(frozen=True, slots=True)
class _Finding:
    """A change of a rule.

    Attributes:
        rule: the name of the rule, without the name of the platform.
        verb: the verb of the sentence, such as `no longer stops`.
        rest: the rest of the sentence about one rule.
        several: the rest of the sentence about several rules with this change, after the verb; None if it is `rest`.
        verb_of_several: the verb of the sentence about several rules, in the singular; empty if `verb` fits.
        details: details about one rule.
    """

    rule: str
    verb: str
    rest: str
    risk: Risk
    causes: tuple[Manifest, ...]
    description: str = ""
    several: str | None = None
    verb_of_several: str = ""
    details: tuple[str, ...] = ()

    @property
    def kind(self) -> tuple[object, ...]:
        """The kind of the change. Findings of an equal kind are one effect."""
        rest = self.rest if self.several is None else self.several
        return self.risk, self.verb_of_several or self.verb, rest


def _merge(findings: Iterable[_Finding]) -> Iterator[Effect]:
    groups: dict[tuple[object, ...], list[_Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.kind, []).append(finding)
    for group in groups.values():
        first, names = group[0], list(dict.fromkeys(finding.rule for finding in group))
        causes = tuple({cause.identity: cause for finding in group for cause in finding.causes}.values())
        subject = name_subjects(_NOUN, names)
        if len(names) == 1:
            text, details = f"{subject} {first.verb} {first.rest}".rstrip(), first.details
        else:
            rest = first.rest if first.several is None else first.several
            text = f"{subject} {_plural(first.verb_of_several or first.verb)} {rest}".rstrip()
            lines = [f"{finding.rule}: {line}" for finding in group for line in _details_of(finding)]
            details = tuple(lines[:_DETAILS])
        plain = f"{_NOUN}{'s' if len(names) > 1 else ''} {', '.join(names)}"
        yield Effect(_TOPIC, first.risk, plain, text, details, causes)


def _details_of(finding: _Finding) -> Sequence[str]:
    return finding.details or ((finding.description,) if finding.description else ())


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule before or after an update: the policy, and the bindings that name the policy."""

    policy: Manifest | None = None
    bindings: tuple[Manifest, ...] = field(default=())

    @property
    def actions(self) -> frozenset[str]:
        """The `validationActions` of all bindings; empty if the policy or its bindings are missing."""
        if self.policy is None:
            return frozenset()
        return frozenset(action for item in self.bindings for action in strings(_spec(item).get("validationActions")))

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        """The policy and its bindings."""
        return (*((self.policy,) if self.policy else ()), *self.bindings)

    def applies_to(self, labels: Mapping[str, str]) -> bool:
        """Return True if the `namespaceSelector` of the policy, and of one of its bindings, match these labels."""
        if self.policy is None or not selects(mapping(_constraints(self.policy), "namespaceSelector"), labels):
            return False
        selectors = (mapping(_spec(item), "matchResources", "namespaceSelector") for item in self.bindings)
        return any(selects(selector, labels) for selector in selectors)


def _spec(manifest: Manifest) -> Body:
    return mapping(manifest.body, "spec")


def _constraints(policy: Manifest) -> Body:
    return mapping(policy.body, "spec", "matchConstraints")


def _read_rules(policies: Iterable[Manifest], bindings: Iterable[Manifest]) -> dict[str, _Rule]:
    by_policy: dict[str, list[Manifest]] = {}
    for binding in bindings:
        by_policy.setdefault(string(_spec(binding).get("policyName")), []).append(binding)
    known = {policy.name: policy for policy in policies if policy.name}
    return {name: _Rule(known.get(name), tuple(by_policy.get(name, ()))) for name in {**known, **by_policy}}


class _Comparison:
    """The admission rules before and after an update."""

    def __init__(self, change: Change) -> None:
        """Read the rules before and after the update."""
        self._change = change
        self._before, self._after = (
            _read_rules(side(GROUP, POLICY), side(GROUP, BINDING)) for side in (change.of_old, change.of_new)
        )
        self._places = Places.of(change)
        changed = [item.new for item in ChangedObject.between(change)]
        self._touched = {item.identity: item for item in (*change.all_added, *change.all_removed, *changed)}

    def findings(self) -> Iterator[_Finding]:
        """Yield the changed rules, and rules whose effect changes by labels of namespaces or by parameter objects."""
        names: dict[str, None] = {}
        for item in self._touched.values():
            if item.group == GROUP and item.kind in (POLICY, BINDING):
                names[item.name if item.kind == POLICY else string(_spec(item).get("policyName"))] = None
        for pair in ChangedObject.between(self._change):
            if pair.new.kind == BINDING and pair.new.group == GROUP:
                names[string(_spec(pair.old).get("policyName"))] = None
        for name in names:
            old, new = self._before.get(name, _Rule()), self._after.get(name, _Rule())
            yield from self._compare(name, old, new)
        yield from self._by_labels()
        yield from self._by_parameters()

    def _by_parameters(self) -> Iterator[_Finding]:
        """Yield the rules whose parameters are an object that changes or that the update removes."""
        pairs = [(pair.old, pair.new) for pair in ChangedObject.between(self._change)]
        removed = [(item, None) for item in self._change.all_removed]
        for name, rule in self._after.items():
            kind = mapping(_spec(rule.policy), "paramKind") if rule.policy else {}
            if not kind or not rule.actions:
                continue
            references = [mapping(_spec(item), "paramRef") for item in rule.bindings]
            for old, new in (*pairs, *removed):
                is_kind = (old.api_version, old.kind) == (kind.get("apiVersion"), kind.get("kind"))
                if not is_kind or not any(_refers(reference, old) for reference in references):
                    continue
                subject = _Subject(_short(name, rule.policy), _description(rule.policy), (new or old,))
                if new is None:
                    yield subject.finding("reads", f"its parameters from {old.resource}, which is removed", Risk.HIGH)
                    continue
                lines = (
                    f"{format_field(path)} changes {format_change(*values)}" for path, *values in _changes(old, new)
                )
                yield subject.finding("reads", f"changed parameters of {new.resource}", Risk.MEDIUM, tuple(lines))

    def _compare(self, name: str, old: _Rule, new: _Rule) -> Iterator[_Finding]:
        manifests = {item.identity for item in (*old.manifests, *new.manifests)}
        subject = _Subject(
            _short(name, new.policy or old.policy),
            _description(new.policy or old.policy),
            tuple(item for identity, item in self._touched.items() if identity in manifests),
        )
        was, now = old.actions, new.actions
        if was and not now:
            yield subject.gone("no longer stops", "is removed", _reason(new))
            return
        if now and not was:
            yield subject.new(now)
            return
        if not now:
            return
        if ("Deny" in was) != ("Deny" in now):
            yield subject.actions(was, now)
        assert old.policy is not None  # noqa: S101 - a rule with actions has a policy
        assert new.policy is not None  # noqa: S101
        before, after = (_spec(item).get("failurePolicy", "Fail") for item in (old.policy, new.policy))
        if before != after:
            ignores = after == "Ignore"
            rest = "requests that it cannot evaluate"
            yield subject.finding("accepts" if ignores else "rejects", rest, _risk(is_weaker=ignores))
        yield from self._compare_namespaces(subject, old, new)
        yield from _compare_objects(subject, old, new)
        yield from _compare_expressions(subject, old.policy, new.policy)
        yield from self._compare_parameters(subject, old, new)

    def _compare_namespaces(self, subject: _Subject, old: _Rule, new: _Rule) -> Iterator[_Finding]:
        if _selectors(old) == _selectors(new):
            return
        teams = {name: _labels(item) for name, item in self._places.after.items()}
        lost = [name for name, labels in teams.items() if old.applies_to(labels) and not new.applies_to(labels)]
        won = [name for name, labels in teams.items() if new.applies_to(labels) and not old.applies_to(labels)]
        applied = [name for name, labels in teams.items() if old.applies_to(labels)]
        if lost:
            where = "any team" if lost == applied else self._places.describe(lost)
            yield subject.finding("no longer applies to", where, Risk.HIGH)
        if won:
            yield subject.finding("applies also to", self._places.describe(won), Risk.MEDIUM)
        if not lost and not won:
            rest = "other labels of namespaces, and applies to the same teams as before"
            yield subject.finding("selects", rest, Risk.LOW)

    def _compare_parameters(self, subject: _Subject, old: _Rule, new: _Rule) -> Iterator[_Finding]:
        was, now = ([_spec(item).get("paramRef") for item in rule.bindings] for rule in (old, new))
        kinds = [_spec(item).get("paramKind") for item in (old.policy, new.policy) if item]
        if was != now or kinds[0] != kinds[-1]:
            yield subject.finding("reads", "its parameters from another object", Risk.MEDIUM)

    def _by_labels(self) -> Iterator[_Finding]:
        """Yield the rules that newly apply, or no longer apply, to a namespace because its labels change.

        Then yield the rules from which a relaxation in the platform file exempts a new namespace of a team. The topic
        `protections` reports the Pod Security level of the namespace.
        """
        both = {name: rule for name, rule in self._after.items() if name in self._before}
        keys = {
            str(requirement.get("key"))
            for rules in (self._before, self._after)
            for rule in rules.values()
            for selector in _selectors(rule)
            for requirement in selector_requirements(selector)
        }
        for item in ChangedObject.between(self._change):
            if item.new.group or item.new.kind != "Namespace":
                continue
            if all(item.old.labels.get(key) == item.new.labels.get(key) for key in keys):
                continue
            was, now = _labels(item.old), _labels(item.new)
            relaxed = {entry.rule: entry for entry in read_relaxations(item.new)}
            ended = {entry.rule for entry in read_relaxations(item.old)} - relaxed.keys()
            place = self._places.describe([item.new.name])
            for name, rule in both.items():
                applied, applies = self._before[name].applies_to(was), rule.applies_to(now)
                if applied != applies and rule.actions:
                    subject = _Subject(_short(name, rule.policy), _description(rule.policy), (item.new,))
                    if applies:
                        by = " again, because a relaxation ends" if subject.rule in ended else ""
                        yield subject.finding("applies", f"to {place}{by}", Risk.MEDIUM)
                    else:
                        until = _until(relaxed.get(subject.rule))
                        yield subject.finding("no longer applies", f"to {place}{until}", Risk.HIGH)
        for name in sorted(self._places.added):
            namespace = self._places.after[name]
            for entry in read_relaxations(namespace) if TENANT_LABEL in namespace.labels else ():
                if entry.label != f"{RELAXED}pod-security":
                    place, until = self._places.describe([name]), _until(entry)
                    subject = _Subject(entry.rule, "", (namespace,))
                    yield subject.finding("does not apply", f"to {place}{until}", Risk.HIGH)


def _labels(namespace: Manifest) -> Mapping[str, str]:
    """Return the labels of a Namespace, with `kubernetes.io/metadata.name`, which the API server sets."""
    return {**string_map(namespace.labels), METADATA_NAME: namespace.name}


def _until(entry: Relaxation | None) -> str:
    if entry is None:
        return ""
    return f" until {entry.until}" + (f" ({entry.reason})" if entry.reason else "")


@dataclass(frozen=True, slots=True)
class _Subject:
    """A rule in a sentence."""

    rule: str
    description: str
    causes: tuple[Manifest, ...]

    def finding(
        self, verb: str, rest: str, risk: Risk, details: tuple[str, ...] = (), several: str | None = None
    ) -> _Finding:
        return _Finding(self.rule, verb, rest, risk, self.causes, self.description, several, "", details)

    @property
    def stopped(self) -> str:
        """The requests that the rule stops: the first sentence of its description without the word `Stops`.

        Empty if the description does not begin with `Stops`.
        """
        first = self.description.partition(". ")[0].removesuffix(".")
        return first.removeprefix("Stops ") if first.startswith("Stops ") else ""

    def gone(self, verb: str, verb_of_several: str, details: tuple[str, ...]) -> _Finding:
        one = (verb, self.stopped) if self.stopped else (verb_of_several, "")
        return _Finding(self.rule, *one, Risk.HIGH, self.causes, self.description, "", verb_of_several, details)

    def new(self, actions: frozenset[str]) -> _Finding:
        if "Deny" not in actions:
            return self.finding(f"is new and only {_acting(actions)}", "requests", Risk.LOW)
        rest = f"and stops {self.stopped}" if self.stopped else ""
        return _Finding(self.rule, "is new", rest, Risk.MEDIUM, self.causes, self.description, "", "is new")

    def actions(self, was: frozenset[str], now: frozenset[str]) -> _Finding:
        if "Deny" in now:
            return self.finding("denies", f"requests that it only {_acted(was)} before", Risk.MEDIUM)
        rest = f"requests, and no longer stops {self.stopped}" if self.stopped else "requests"
        verb = f"only {_acting(now)}"
        return _Finding(self.rule, verb, rest, Risk.HIGH, self.causes, self.description, "requests")


def _acting(actions: frozenset[str]) -> str:
    return join(word for action, word in (("Warn", "warns about"), ("Audit", "audits")) if action in actions)


def _acted(actions: frozenset[str]) -> str:
    return join(word for action, word in (("Warn", "warned about"), ("Audit", "audited")) if action in actions)


_PLURALS = {"is": "are", "does": "do", "applies": "apply", "denies": "deny"}
_ADVERBS = ("no", "longer", "only", "also")


def _plural(verb: str) -> str:
    """Return a verb for several rules. Adverbs may stand before the verb, and other words after it."""
    words = verb.split(" ")
    verbs = {next((number for number, word in enumerate(words) if word not in _ADVERBS), 0)}
    verbs |= {number + 1 for number, word in enumerate(words[:-1]) if word == "and"}
    return " ".join(
        _PLURALS.get(word, word.removesuffix("s")) if number in verbs else word for number, word in enumerate(words)
    )


def _reason(rule: _Rule) -> tuple[str, ...]:
    return ("the policy stays, but its binding is removed",) if rule.policy else ()


def _risk(*, is_weaker: bool) -> Risk:
    return Risk.HIGH if is_weaker else Risk.MEDIUM


def _short(name: str, policy: Manifest | None) -> str:
    platform = string(policy.labels.get(PART_OF)) if policy else ""
    return name.removeprefix(f"{platform}-") if platform else name


def _description(policy: Manifest | None) -> str:
    return string(mapping(policy.body, "metadata", "annotations").get(DESCRIPTION)) if policy else ""


def _selectors(rule: _Rule) -> list[Body]:
    own = [mapping(_constraints(rule.policy), "namespaceSelector")] if rule.policy else []
    return [*own, *(mapping(_spec(item), "matchResources", "namespaceSelector") for item in rule.bindings)]


def _refers(reference: Body, item: Manifest) -> bool:
    """Return True if `paramRef` of a binding refers to an object by its name or labels, in its namespace or in any."""
    if string(reference.get("namespace")) not in ("", item.namespace):
        return False
    if reference.get("name"):
        return reference.get("name") == item.name
    return selects(mapping(reference, "selector"), string_map(item.labels))


def _changes(old: Manifest, new: Manifest) -> Iterator[tuple[Path, object, object]]:
    for path, was, now in differences(old.body, new.body, _DEPTH):
        if path[:1] != ("metadata",):
            yield path, was, now


_Checked = frozenset[tuple[str, str, str]]
"""(operation, API group, resource)."""


def _compare_objects(subject: _Subject, old: _Rule, new: _Rule) -> Iterator[_Finding]:
    """Yield the operations and objects to which the rule newly applies, or no longer applies."""
    if old.policy is None or new.policy is None:
        return
    was, now = (_checked(_constraints(item).get("resourceRules")) for item in (old.policy, new.policy))
    if was - now:
        yield subject.finding("no longer checks", _operations(was - now), Risk.HIGH)
    if now - was:
        yield subject.finding("also checks", _operations(now - was), Risk.MEDIUM)
    fields = ("objectSelector", "excludeResourceRules")
    before, after = (
        [mapping(_constraints(rule.policy)).get(field) or None for field in fields]
        + [
            [mapping(_spec(item), "matchResources").get(field) or None for field in (*fields, "resourceRules")]
            for item in rule.bindings
        ]
        for rule in (old, new)
        if rule.policy is not None
    )
    if before != after:
        is_weaker = sum(_count(before)) < sum(_count(after))
        if is_weaker:
            yield subject.finding("applies only to", "some of its objects", Risk.HIGH)
        else:
            yield subject.finding("applies to", "other objects", Risk.MEDIUM)


def _count(values: Iterable[object]) -> Iterator[int]:
    for value in values:
        if isinstance(value, list):
            yield from _count(value)
        elif value is not None:
            yield 1


def _checked(rules: object) -> _Checked:
    return frozenset(
        row
        for rule in mappings(rules)
        for row in product(
            strings(rule.get("operations")), strings(rule.get("apiGroups")), strings(rule.get("resources"))
        )
    )


def _operations(checked: _Checked) -> str:
    by_resource: dict[str, list[str]] = {}
    for operation, _, resource in sorted(checked):
        known = by_resource.setdefault("all resources" if resource in ("*", "*/*") else resource, [])
        known += [operation] if operation not in known else []
    by_operations: dict[str, list[str]] = {}
    for resource, operations in by_resource.items():
        by_operations.setdefault(join(operations), []).append(resource)
    return join(f"{operations} of {join(resources)}" for operations, resources in by_operations.items())


def _compare_expressions(subject: _Subject, old: Manifest, new: Manifest) -> Iterator[_Finding]:
    """Yield constant, removed, new and changed expressions, and changed messages if nothing else changes."""
    if all(_spec(old).get(part) == _spec(new).get(part) for part in ("validations", "matchConditions", "variables")):
        return
    constants = _constants(new)
    constants = constants - _constants(old) if constants else constants
    same = ("an expression has the same result for all requests",)
    if any(part == "matchConditions" for part, _ in constants):
        yield subject.finding("never applies", "", Risk.HIGH, same)
        return
    if constants:
        is_whole = len(mappings(_spec(new).get("validations"))) == len(_constants(new))
        rest = "every request" if is_whole else "every request in one of its validations"
        yield subject.finding("accepts", rest, Risk.HIGH, same)
    details: list[str] = []
    for part, noun in (("validations", "validation"), ("matchConditions", "condition"), ("variables", "variable")):
        was, now = (mappings(_spec(item).get(part)) for item in (old, new))
        gone, came = _unmatched(was, now), _unmatched(now, was)
        number = min(len(gone), len(came))
        if part == "variables":
            details += [f"the variable `{string(row.get('name'))}` changes" for row in came if not constants]
            details += _literals(gone, came) if not constants else []
            continue
        yield from _removed_and_new(subject, part, len(was), gone[number:], came[number:])
        callers = _callers(gone[:number], came[:number])
        if callers[0]:
            names = join(f"`{name}`" for name in callers[0])
            yield subject.finding("names", f"further callers: {names}", Risk.HIGH, _CALLERS)
        elif number and not constants:
            details += [f"{number} {noun}{'s' if number > 1 else ''} {'change' if number > 1 else 'changes'}"]
            details += _literals(gone[:number], came[:number])
    if details:
        lines = tuple(dict.fromkeys(details))
        contents = [line for line in lines if " contains " in line]
        rest = "accept or reject other requests than before"
        yield subject.finding("can", f"{rest}: {join(contents or lines)}", Risk.MEDIUM, lines, rest)
    before, after = (
        [
            tuple(string(row.get(key)) for key in ("message", "messageExpression", "reason"))
            for row in mappings(_spec(item).get("validations"))
        ]
        for item in (old, new)
    )
    if Counter(before) != Counter(after) and len(before) == len(after) and not details and not constants:
        yield subject.finding("changes", "its messages", Risk.LOW)


_CALLERS = ("the API server may accept requests of these callers that the rule rejects for others",)


def _constants(policy: Manifest) -> set[tuple[str, str]]:
    try:
        return {(str(path[1]), text) for path, text in find_constants(policy)}
    except NotModelledError:
        return set()


def _unmatched(rows: Sequence[Body], others: Sequence[Body]) -> list[Body]:
    """Return the rows whose expression `others` lacks. Each row of `others` matches at most one row."""
    known = [_without_comments(string(row.get("expression"))) for row in others]
    unmatched = []
    for row in rows:
        text = _without_comments(string(row.get("expression")))
        if text in known:
            known.remove(text)
        else:
            unmatched.append(row)
    return unmatched


_TOKEN = re.compile(r"(?P<string>'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")|//[^\n]*|\s+|[^\s'\"/]+|.", re.DOTALL)


def _without_comments(expression: str) -> str:
    """Return a CEL expression without comments and space, so that two expressions of one meaning are equal."""
    tokens = (match[0] for match in _TOKEN.finditer(expression))
    return "\0".join(token for token in tokens if not token.isspace() and not token.startswith("//"))


def _removed_and_new(
    subject: _Subject, part: str, total: int, gone: Sequence[Body], came: Sequence[Body]
) -> Iterator[_Finding]:
    """Yield the removed and the new rows of `validations` or `matchConditions`."""
    if part == "validations":
        if gone:
            rest = f"{len(gone)} of {total} validations"
            yield subject.finding("loses", rest, Risk.HIGH, tuple(filter(None, map(_message, gone))))
        if came:
            rest = f"{len(came)} further validation{'s' if len(came) > 1 else ''}"
            yield subject.finding("gets", rest, Risk.MEDIUM, tuple(filter(None, map(_message, came))))
        return
    for rows, verb, risk in ((gone, "no longer requires", Risk.MEDIUM), (came, "applies only under", Risk.HIGH)):
        if rows:
            names = join(f"`{string(row.get('name'))}`" for row in rows)
            kind = "the further condition" if rows is came else "the condition"
            yield subject.finding(verb, f"{kind}{'s' if len(rows) > 1 else ''} {names}", risk)


def _message(validation: Body) -> str:
    """Return the message of a validation: the first string in its `messageExpression`, or else `message`."""
    match = _STRING.search(string(validation.get("messageExpression")))
    return (match[1] or match[2]).strip(" ;") if match else string(validation.get("message"))


def _callers(gone: Iterable[Body], came: Iterable[Body]) -> tuple[list[str], list[str]]:
    """Return the strings that only new expressions on `request.userInfo` contain, and strings of only old ones."""
    was, now = (
        _names(row for row in rows if "request.userInfo" in string(row.get("expression"))) for rows in (gone, came)
    )
    return sorted(now - was), sorted(was - now)


def _literals(gone: Iterable[Body], came: Iterable[Body]) -> list[str]:
    was, now = _names(gone), _names(came)
    texts = [f"an expression also contains {join(f'`{name}`' for name in sorted(now - was))}"] if now - was else []
    return texts + (
        [f"no expression contains {join(f'`{name}`' for name in sorted(was - now))} any more"] if was - now else []
    )


def _names(rows: Iterable[Body]) -> set[str]:
    matches = (match for row in rows for match in _STRING.finditer(string(row.get("expression"))))
    return {match[1] or match[2] for match in matches}


def _webhooks(change: Change) -> Iterator[Effect]:
    """Yield the new and removed ValidatingWebhookConfigurations, and each webhook whose `failurePolicy` changes."""
    for item in change.removed(GROUP, _WEBHOOKS):
        text = f"{item.resource} is removed, so the API server no longer calls its webhooks"
        yield Effect(_TOPIC, Risk.HIGH, item.resource, text, causes=(item,))
    for item in change.added(GROUP, _WEBHOOKS):
        text = f"{item.resource} is new, and its webhooks can reject requests"
        yield Effect(_TOPIC, Risk.MEDIUM, item.resource, text, causes=(item,))
    for pair in ChangedObject.between(change):
        if (pair.new.group, pair.new.kind) == (GROUP, _WEBHOOKS):
            was, now = (
                {string(row.get("name")): row for row in mappings(item.body.get("webhooks"))}
                for item in (pair.old, pair.new)
            )
            for name in {**was, **now}:
                before, after = (side[name].get("failurePolicy", "Fail") if name in side else "" for side in (was, now))
                if before != after:
                    states = {
                        "": "does not exist",
                        "Fail": "rejects requests if it fails",
                        "Ignore": "is skipped if it fails",
                    }
                    text = f"webhook `{name}` of {pair.new.resource} {states.get(after, after)}"
                    risk = _risk(is_weaker=after != "Fail")
                    yield Effect(_TOPIC, risk, pair.new.resource, text, causes=(pair.new,))
