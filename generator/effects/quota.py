"""The topic `quota`: the quota that teams own and can get, and the largest jobs of the teams.

A ClusterQueue owns its nominal quota. While all other queues are idle, it can get this quota and the quota that it can
borrow. Kueue computes this maximum in `potentialAvailable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from fractions import Fraction

from generator.checks.change.queues import has_users
from generator.checks.objects import Change, ChangedObject
from generator.checks.quota.queues import KUEUE, Queues, by_flavor, format_amounts
from generator.documents.scalars import Json
from generator.effects.effect import Effect, Risk
from generator.effects.largest import MOST_QUEUES, compute_largest, describe_left_out, format_largest
from generator.effects.subjects import Statement, Teams, merge, plural
from generator.effects.trees import QueueTrees
from generator.manifests import Manifest
from generator.objects.queue import ClusterQueue, Cohort, Flavor, FlavorResource, Quota, format_amount
from generator.upstream.kueue.queues import Node

_KINDS = ("ClusterQueue", "Cohort", "ResourceFlavor")
_Amounts = Mapping[FlavorResource, int]
_Changes = Mapping[FlavorResource, tuple[int, int]]
"""(flavor, resource) → (amount before, amount after) the update."""


def find_quota_effects(change: Change) -> Iterator[Effect]:
    """Yield the effects on the quota and on the largest jobs of teams.

    If only one ClusterQueue or Cohort of a cohort tree changes, or only one flavor, the effects on other queues are
    details of its effect. If the quotas are unknown, the only effect gives the reason. The topics `teams` and `prune`
    report new and removed teams.
    """
    touched = {item.new.identity for item in ChangedObject.between(change)}
    touched |= {item.identity for item in (*change.all_added, *change.all_removed)}
    if not any(group == KUEUE and kind in _KINDS for group, kind, _, _ in touched):
        return
    both = QueueTrees.of(change).both
    if both is None:
        causes = tuple(item for item in change.of_new(KUEUE, *_KINDS) if item.identity in touched)
        text = (
            "the quotas of all teams are unknown, because an amount is not a quantity or two objects of a name differ"
        )
        yield Effect("quota", Risk.MEDIUM, "all teams", text, ("run `mpigen validate` to find the cause",), causes)
        return
    yield from _Comparison(change, *both).effects()


def format_size(queues: Queues, name: str) -> str:
    """Return the nominal quota of a ClusterQueue: `2 nodes of flavor `cpu``; empty without quota."""
    queue = queues.tree.queues.get(name)
    parts = []
    for flavor, amounts in by_flavor(_nominal(queue) if queue else {}):
        owned = {key: amount for key, amount in amounts.items() if amount}
        if not owned:
            continue
        allocatable = queues.tree.flavors[flavor].allocatable if flavor in queues.tree.flavors else {}
        per_node = queues.settings.counting.of(allocatable)
        sizes = {
            Fraction(amount, per_node[key.resource]) for key, amount in owned.items() if per_node.get(key.resource)
        }
        if len(sizes) == 1 and (nodes := next(iter(sizes))).denominator == 1:
            parts.append(f"{nodes} {plural('node', int(nodes))} of flavor `{flavor}`")
        else:
            parts.append(f"{format_amounts(owned)} of flavor `{flavor}`")
    return " and ".join(parts)


@dataclass(frozen=True, slots=True)
class _Holder:
    """A ClusterQueue or Cohort that an update affects.

    Attributes:
        root: the root of its cohort tree after the update, or before it if the update removes the holder: the name of a
            Cohort, or `ClusterQueue NAME` without a Cohort. Empty for a Cohort in a cycle.
        name: its name.
        is_cause: True if its own quotas, limits or cohort change; False if only other objects change.
        has_users: True if a namespace submits jobs to it; for a Cohort, if it exists before and after the update, or
            its quota changes.
        statement: the sentence about it.
    """

    root: str
    name: str
    is_cause: bool
    has_users: bool
    statement: Statement


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The comparison of the queues before and after an update."""

    change: Change
    before: Queues
    after: Queues

    def effects(self) -> Iterator[Effect]:
        """Yield the effects, with a sentence about the ClusterQueues whose largest jobs are not computed."""
        holders = [*self._queues(), *self._cohorts()]
        computed, left_out = self._choose(holders)
        effects = list(self._merged(self._with_largest(holders, computed)))
        if not left_out:
            yield from effects
        elif computed and effects:
            first = effects[0]
            yield replace(first, details=(*first.details, *describe_left_out(left_out, "ClusterQueue", MOST_QUEUES)))
            yield from effects[1:]
        else:
            yield from effects
            text, hint = describe_left_out(left_out, "ClusterQueue", MOST_QUEUES)
            yield Effect("quota", Risk.LOW, "largest jobs", text, (hint,))

    def _merged(self, holders: Sequence[_Holder]) -> Iterator[Effect]:
        flavors = list(self._flavors())
        trees: dict[str, list[_Holder]] = {}
        for holder in holders:
            trees.setdefault(holder.root, []).append(holder)
        moved = self._added_or_removed_roots()
        for root, members in trees.items():
            if root in moved and not any(holder.has_users for holder in members):
                continue  # the topics `teams` and `prune` have the cause
            causes = [holder for holder in members if holder.is_cause]
            owners = [holder for holder in causes if holder.has_users] or (causes if not flavors else [])
            others = [holder for holder in members if holder not in owners]
            if not owners and len(flavors) == 1 and len(trees) == 1:
                yield from merge("quota", [_with_others(flavors.pop(), others)])
            elif len(owners) == 1:
                yield from merge("quota", [_with_others(owners[0].statement, others)])
            else:
                shared = [holder.statement for holder in members if holder.has_users or holder in owners]
                lenders = [holder for holder in others if not holder.has_users]
                yield from _add_details(merge("quota", shared), merge("quota", [item.statement for item in lenders]))
        yield from merge("quota", flavors)

    def _added_or_removed_roots(self) -> AbstractSet[str]:
        """Return the roots of the cohort trees in which the update adds or removes queues with users."""
        names = self.after.tree.queues.keys() ^ self.before.tree.queues.keys()
        used = [name for name in names if has_users(self.after, name) or has_users(self.before, name)]
        return {self._root(name) for name in used}

    def _queues(self) -> Iterator[_Holder]:
        teams = Teams.of(self.change)
        for name, queue in sorted(self.after.tree.queues.items()):
            old = self.before.tree.queues.get(name)
            is_used = has_users(self.after, name)
            if old is None and is_used:
                continue
            old = old or ClusterQueue(name, queue.cohort)
            noun, subject = teams.subject_of_queue(name)
            if holder := self._compare_queue(old, queue, noun, subject, is_used=is_used):
                yield holder
        for name, queue in sorted(self.before.tree.queues.items()):
            if name not in self.after.tree.queues and not has_users(self.before, name):
                gone = ClusterQueue(name, queue.cohort)
                if holder := self._compare_queue(queue, gone, "ClusterQueue", name, is_used=False):
                    yield holder

    def _compare_queue(
        self, old: ClusterQueue, new: ClusterQueue, noun: str, subject: str, *, is_used: bool
    ) -> _Holder | None:
        name, clauses, losses = new.name, list[str](), list[bool]()
        if old.cohort != new.cohort:
            clauses.append(_format_move(old.cohort, new.cohort))
            losses.append(True)
        owned = self._without_resized(_differences(_nominal(old), _nominal(new)))
        sizes = (queues.most_of(name) if name in queues.nodes else {} for queues in (self.before, self.after))
        most = self._without_resized(_differences(*sizes)) if is_used else {}
        clauses += self._owned_clause(owned, most)
        only_most = {key: pair for key, pair in most.items() if key.flavor not in {other.flavor for other in owned}}
        clauses += self._join("can get at most", only_most)
        quotas = self._with_old_limits(old.quotas, new.quotas)
        limited = _changed_limits(old.quotas, quotas)
        clauses += self._limits(old.quotas, quotas, limited - {key.flavor for key in {**owned, **most}})
        losses += [after < before for before, after in (*owned.values(), *most.values())]
        if not clauses:
            return None
        causes = tuple(self._manifests("ClusterQueue", name))
        is_cause = bool(owned or limited or old.cohort != new.cohort)
        risk = Risk.MEDIUM if any(losses) and is_used else Risk.LOW
        rest = _join_clauses(clauses)
        if is_used and (consequence := self._describe_consequence(old, new, owned, most)):
            rest += f": {consequence}"
        verb, _, rest = rest.partition(" ")
        statement = Statement(
            noun,
            subject,
            verb,
            rest,
            risk,
            (),
            causes if is_cause else (),
            {"owned": _data(owned, 0), "most": _data(most, 0)},
            {"owned": _data(owned, 1), "most": _data(most, 1)},
        )
        return _Holder(self._root(name), name, is_cause, is_used, statement)

    def _describe_consequence(self, old: ClusterQueue, new: ClusterQueue, owned: _Changes, most: _Changes) -> str:
        """Return what follows for the running jobs of a queue that moves or loses quota; empty for other queues.

        Kueue evicts no workload because of a lower quota or another cohort. Usage above the nominal quota counts as
        borrowed (kueue v0.19.2 pkg/cache/scheduler/resource_node.go available; kueue v0.19.2
        pkg/cache/scheduler/resource_node.go IsWithinNominalInResources).
        """
        less = {key for key, (before, after) in {**most, **owned}.items() if after < before}
        if {key.flavor for key in less} - new.flavors:
            return "running jobs continue, and do not get a lost flavor again after an eviction"
        if old.cohort != new.cohort and new.cohort:
            return "no running job stops, and usage above its own quota counts as borrowed from the new cohort"
        if not less and old.cohort == new.cohort:
            return ""
        others = (queue for name, queue in self.after.tree.queues.items() if name != new.name)
        is_reclaimed = any(queue.preemption.reclaim_within_cohort != "Never" for queue in others)
        if new.cohort and is_reclaimed and any(after < before for before, after in owned.values()):
            return "no running job stops, and other queues can reclaim the usage above the quota"
        return "no running job stops, and jobs that need more stay pending"

    def _cohorts(self) -> Iterator[_Holder]:
        for name in sorted({*self.before.of("Cohort"), *self.after.of("Cohort")}):
            old, new = (queues.tree.cohorts.get(name) or Cohort(name) for queues in (self.before, self.after))
            clauses = [_format_parent(old.parent, new.parent)] if old.parent != new.parent else []
            owned = self._without_resized(_differences(_nominal(old), _nominal(new)))
            clauses += self._join("owns", owned)
            quotas = self._with_old_limits(old.quotas, new.quotas)
            clauses += self._limits(old.quotas, quotas, _changed_limits(old.quotas, quotas))
            if clauses:
                verb, _, rest = _join_clauses(clauses).partition(" ")
                is_less = old.parent != new.parent or any(after < before for before, after in owned.values())
                is_less |= _lowers_limits(old.quotas, quotas)
                statement = Statement(
                    "Cohort",
                    name,
                    verb,
                    rest,
                    Risk.MEDIUM if is_less else Risk.LOW,
                    (),
                    tuple(self._manifests("Cohort", name)),
                    {"owned": _data(owned, 0)},
                    {"owned": _data(owned, 1)},
                )
                tree = self.after.tree if name in self.after.tree.cohorts else self.before.tree
                root = "" if tree.is_cyclic(name) else [*tree.ancestors(name)][-1].name
                is_kept = all(name in queues.of("Cohort") for queues in (self.before, self.after))
                yield _Holder(root, name, is_cause=True, has_users=is_kept or bool(owned), statement=statement)

    def _flavors(self) -> Iterator[Statement]:
        """Yield a statement for each flavor whose number or size of nodes changes."""
        for name, new in sorted(self.after.tree.flavors.items()):
            old = self.before.tree.flavors.get(name)
            if old is None or (old.nodes, old.allocatable) == (new.nodes, new.allocatable):
                continue
            clauses = []
            if old.nodes != new.nodes:
                clauses.append(f"has {_format_count(new.nodes)} instead of {_format_count(old.nodes)} nodes")
            keys = sorted({*old.allocatable, *new.allocatable})
            sizes = {key: (old.allocatable.get(key, 0), new.allocatable.get(key, 0)) for key in keys}
            if changed := {key: pair for key, pair in sizes.items() if pair[0] != pair[1]}:
                clauses.append(f"offers {_format_resources(changed)} on each node")
            resized = tuple(self._resized_holders(name))
            if resized:
                clauses.append("changes the quotas of its owners by the same factor")
            is_less = (new.nodes or 0) < (old.nodes or 0) or any(after < before for before, after in changed.values())
            verb, _, rest = _join_clauses(clauses).partition(" ")
            yield Statement(
                "flavor",
                name,
                verb,
                rest,
                Risk.MEDIUM if is_less else Risk.LOW,
                (),
                (*self._manifests("ResourceFlavor", name), *resized),
                {"nodes": old.nodes},
                {"nodes": new.nodes},
            )

    def _choose(self, holders: Sequence[_Holder]) -> tuple[Sequence[str], int]:
        """Return the ClusterQueues whose largest jobs the plan computes, and the number of the others.

        If too many ClusterQueues have an effect, the plan computes the jobs of those whose own quota, limits or cohort
        change, and no jobs if these are too many as well.
        """
        names = [holder.name for holder in holders if holder.has_users and holder.name in self.after.tree.queues]
        causes = [holder.name for holder in holders if holder.is_cause and holder.name in names]
        computed = next((some for some in (names, causes) if len(some) <= MOST_QUEUES), [])
        return computed, len(names) - len(computed)

    def _with_largest(self, holders: Sequence[_Holder], names: Sequence[str]) -> list[_Holder]:
        """Add the sizes of largest jobs to the statements about some ClusterQueues."""
        if not names:
            return list(holders)
        before, after = (compute_largest(queues, names) for queues in (self.before, self.after))
        result = []
        for holder in holders:
            jobs = {key: (before[key], job) for key, job in after.items() if key[0] == holder.name and key in before}
            if holder.statement.noun != "Cohort" and (text := format_largest(jobs.values())):
                statement = holder.statement
                result.append(replace(holder, statement=replace(statement, rest=f"{statement.rest}; {text}")))
            else:
                result.append(holder)
        return result

    def _owned_clause(self, owned: _Changes, most: _Changes) -> list[str]:
        """Return the clause about changed nominal quota, with the total amounts that the queue can get by borrowing."""
        borrowed = dict(by_flavor(most))
        parts = []
        for flavor, amounts in by_flavor(owned):
            text = f"{self._format_amounts(flavor, amounts)} of flavor `{flavor}`"
            reached = borrowed.get(flavor, {})
            if reached and reached != {key: pair for key, pair in amounts.items() if key in reached}:
                text += f" ({self._format_amounts(flavor, reached, ' with borrowed quota')})"
            parts.append(text)
        return [f"owns {' and '.join(parts)}"] if parts else []

    def _join(self, verb: str, changes: _Changes) -> list[str]:
        """Return a clause about changed amounts: `owns 6 instead of 5 nodes of flavor `cpu``; none without a change."""
        parts = [
            f"{self._format_amounts(flavor, amounts)} of flavor `{flavor}`" for flavor, amounts in by_flavor(changes)
        ]
        return [f"{verb} {' and '.join(parts)}"] if parts else []

    def _format_amounts(self, flavor: str, changes: _Changes, unit: str = "") -> str:
        """Format amounts as nodes if all resources of a node are the same whole number of nodes; else as resources.

        Of the resources, only devices appear, unless no device changes.

        `unit` replaces the word `nodes`, or follows the resources.
        """
        per_node = self._per_node(flavor)
        sizes = {
            tuple(Fraction(amount, per_node[key.resource]) for amount in pair)
            for key, pair in changes.items()
            if per_node.get(key.resource)
        }
        if len(sizes) == 1:
            before, after = next(iter(sizes))
            if before.denominator == after.denominator == 1:
                return f"{after} instead of {before}{unit or ' nodes'}"
        devices = {key.resource: pair for key, pair in changes.items() if "/" in key.resource}
        return _format_resources(devices or {key.resource: pair for key, pair in changes.items()}) + unit

    def _without_resized(self, changes: _Changes) -> _Changes:
        """Return the changes without amounts that change only because each node has a new size."""
        return {key: pair for key, pair in changes.items() if not self._is_resized(key, pair)}

    def _is_resized(self, key: FlavorResource, pair: tuple[int, int]) -> bool:
        before, after = (
            queues.settings.counting.of(flavor.allocatable).get(key.resource, 0)
            if (flavor := queues.tree.flavors.get(key.flavor))
            else 0
            for queues in (self.before, self.after)
        )
        return before != after and before > 0 and after > 0 and pair[0] * after == pair[1] * before

    def _with_old_limits(
        self, old: Mapping[FlavorResource, Quota], new: Mapping[FlavorResource, Quota]
    ) -> Mapping[FlavorResource, Quota]:
        """Return new quotas, with the old limit where a limit changes only because each node has a new size."""

        def restore(key: FlavorResource, was: int | None, now: int | None) -> int | None:
            return was if was is not None and now is not None and self._is_resized(key, (was, now)) else now

        return {
            key: Quota(
                quota.nominal,
                restore(key, old[key].borrowing, quota.borrowing),
                restore(key, old[key].lending, quota.lending),
            )
            if key in old
            else quota
            for key, quota in new.items()
        }

    def _resized_holders(self, flavor: str) -> Iterator[Manifest]:
        """Yield the queues and Cohorts with a quota of a flavor that changes only because each node has a new size."""
        for kind, holders in (
            ("ClusterQueue", (self.before.tree.queues, self.after.tree.queues)),
            ("Cohort", (self.before.tree.cohorts, self.after.tree.cohorts)),
        ):
            for name in sorted(holders[0].keys() & holders[1].keys()):
                changes = _differences(*(_nominal(side[name]) for side in holders))
                if any(key.flavor == flavor and self._is_resized(key, pair) for key, pair in changes.items()):
                    yield from self._manifests(kind, name)

    def _per_node(self, flavor: str) -> Mapping[str, int]:
        """Return resource → the amount of a node that counts as quota; empty if unknown or if the update changes it."""
        old, new = (queues.tree.flavors.get(flavor) or Flavor(flavor) for queues in (self.before, self.after))
        if old.allocatable and new.allocatable and old.allocatable != new.allocatable:
            return {}
        return self.after.settings.counting.of(new.allocatable or old.allocatable)

    def _limits(
        self, old: Mapping[FlavorResource, Quota], new: Mapping[FlavorResource, Quota], borrowing: AbstractSet[str]
    ) -> list[str]:
        """Return the clauses about changed lending limits of all flavors, and about changed borrowing limits.

        Args:
            old: the quotas before the update.
            new: the quotas after the update.
            borrowing: the flavors whose borrowing limits get a clause. For other flavors, the clauses about the quota
                that the queue can get show the effect of its borrowing limits.
        """
        clauses = []
        both = [key for key in old if key in new]
        lent = {key: (old[key].lending, new[key].lending) for key in both if old[key].lending != new[key].lending}
        borrowed = {
            key: (old[key].borrowing, new[key].borrowing)
            for key in both
            if key.flavor in borrowing and old[key].borrowing != new[key].borrowing
        }
        if lent:
            clauses.append(f"lends at most {self._format_limits(lent, 'all of its quota')}")
        if borrowed:
            clauses.append(f"borrows at most {self._format_limits(borrowed, 'any amount')}")
        return clauses

    def _format_limits(self, limits: Mapping[FlavorResource, tuple[int | None, int | None]], unlimited: str) -> str:
        parts = []
        for flavor, pairs in by_flavor(limits):
            known = {key: (old, new) for key, (old, new) in pairs.items() if old is not None and new is not None}
            if known:
                parts.append(f"{self._format_amounts(flavor, known)} of flavor `{flavor}`")
            else:
                first = next(iter(pairs))
                old, new = (unlimited if limit is None else self._format_one(first, limit) for limit in pairs[first])
                parts.append(f"{new} instead of {old} of flavor `{flavor}`")
        return " and ".join(parts)

    def _format_one(self, key: FlavorResource, amount: int) -> str:
        per_node = self._per_node(key.flavor).get(key.resource)
        if per_node and amount % per_node == 0:
            return f"{amount // per_node} {'node' if amount == per_node else 'nodes'}"
        return f"{format_amount(key.resource, amount)} {key.resource}"

    def _root(self, queue: str) -> str:
        for queues in (self.after, self.before):
            if queue in queues.nodes:
                node: Node = queues.nodes[queue].root()
                return f"ClusterQueue {queue}" if node.queue else node.name
        return f"ClusterQueue {queue}"

    def _manifests(self, kind: str, name: str) -> Iterator[Manifest]:
        """Yield the new object, or the old object if the update removes it."""
        for queues in (self.after, self.before):
            if name in queues.of(kind):
                yield queues.of(kind)[name]
                return


def _nominal(holder: ClusterQueue | Cohort) -> _Amounts:
    return {key: quota.nominal for key, quota in holder.quotas.items()}


def _differences(old: _Amounts, new: _Amounts) -> _Changes:
    """Return (flavor, resource) → (old, new) amount, for amounts that differ."""
    pairs = {key: (old.get(key, 0), new.get(key, 0)) for key in {**old, **new}}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def _changed_limits(old: Mapping[FlavorResource, Quota], new: Mapping[FlavorResource, Quota]) -> AbstractSet[str]:
    """Return the flavors with a changed borrowing or lending limit of a resource that has quota before and after."""
    return {
        key.flavor
        for key in old
        if key in new and (old[key].borrowing, old[key].lending) != (new[key].borrowing, new[key].lending)
    }


def _lowers_limits(old: Mapping[FlavorResource, Quota], new: Mapping[FlavorResource, Quota]) -> bool:
    """Return True if a borrowing or lending limit falls or is added, of a resource with quota before and after."""
    pairs = [
        pair
        for key in old
        if key in new
        for pair in ((old[key].borrowing, new[key].borrowing), (old[key].lending, new[key].lending))
    ]
    return any(after is not None and (before is None or after < before) for before, after in pairs)


def _data(changes: _Changes, side: int) -> Json:
    """Return flavor → resource → quantity."""
    return {
        flavor: {key.resource: format_amount(key.resource, pair[side]) for key, pair in amounts.items()}
        for flavor, amounts in by_flavor(changes)
    }


def _format_resources(changes: Mapping[str, tuple[int, int]]) -> str:
    """Format amounts: `16 instead of 8 nvidia.com/gpu and 200 instead of 100 cpu`."""
    return " and ".join(
        f"{format_amount(resource, new)} instead of {format_amount(resource, old)} {resource}"
        for resource, (old, new) in changes.items()
    )


def _format_move(old: str, new: str) -> str:
    if not new:
        return f"leaves cohort `{old}`, so it borrows and lends no quota"
    return f"moves from cohort `{old}` to cohort `{new}`" if old else f"joins cohort `{new}`"


def _format_parent(old: str, new: str) -> str:
    if not new:
        return f"leaves its parent `{old}`"
    return f"moves from parent `{old}` to parent `{new}`" if old else f"joins parent `{new}`"


def _join_clauses(clauses: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(clauses[:-1]), *clauses[-1:]) if part)


def _format_count(nodes: int | None) -> str:
    return "an unknown number of" if nodes is None else str(nodes)


def _with_others(statement: Statement, others: Iterable[_Holder]) -> Statement:
    """Return a statement with the effects on other holders as details, and with the highest risk of all."""
    others = list(others)
    merged = list(merge("quota", (other.statement for other in others)))
    risks = [statement.risk, *(effect.risk for effect in merged)]
    causes = (*statement.causes, *(cause for effect in merged for cause in effect.causes))
    details = (*statement.details, *sorted(effect.text for effect in merged))
    return replace(statement, risk=max(risks, key=list(Risk).index), details=details, causes=causes)


def _add_details(effects: Iterable[Effect], others: Iterable[Effect]) -> Iterator[Effect]:
    """Yield effects, the first of them with other effects as its details; only the others if there are no effects."""
    effects, others = list(effects), list(others)
    if effects:
        first = effects[0]
        details = (*first.details, *sorted(other.text for other in others))
        causes = (*first.causes, *(cause for other in others for cause in other.causes))
        yield replace(first, details=details, causes=causes)
    yield from effects[1:] or (() if effects else others)
