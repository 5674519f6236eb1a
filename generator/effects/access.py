"""The topic `access`: the permissions that users, groups and ServiceAccounts gain or lose.

The topic compares the permissions before and after the update, not the objects. A role or binding that only changes
its name changes no permission.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from generator.checks.objects import Change, ChangedObject
from generator.effects.effect import Effect, Risk
from generator.effects.permissions import (
    CLUSTER_ADMIN,
    Permission,
    are_allowed,
    describe,
    find_dangers,
    find_missing,
)
from generator.effects.places import CLUSTER, Places, join
from generator.effects.subjects import conjugate, name_subjects, plural
from generator.errors import SimulationError
from generator.facts.names import MANAGED_BY, OWN_ROLE
from generator.facts.subjects import Meaning, meaning_of
from generator.manifests import Manifest
from generator.objects.fields import mappings, strings
from generator.upstream.kubernetes.access import Access, Grant, Rule, parse_requester, read_access, with_default_grants

_TOPIC = "access"
_RBAC = "rbac.authorization.k8s.io"
_KINDS = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_FIELDS = ("rules", "aggregationRule", "roleRef", "subjects")
_READER = "ClusterRole mpigen-runtime-reader"
"""The role with which members of a team read the runtimes and priorities. Each role of a team comes with this role."""
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
_SEPARATE = 3  # sentences about different subjects or places with the same change
_DETAILS = 20
_Key = tuple[bool, str]
"""A subject: True for a group, False for a user or ServiceAccount, and its name."""
_BROAD: Mapping[Meaning, str] = {
    "anyone": "every client, even without authentication,",
    "everyone": "every authenticated user",
    "accounts": "every ServiceAccount",
}


def find_access_effects(change: Change) -> Iterator[Effect]:
    """Yield an effect for each change of permissions, shared by the subjects with this change.

    RBAC objects whose update changes no permission are one further effect. A loss of permissions in a
    namespace that the update removes is no effect of this topic: the topic `prune` reports the namespace.
    """
    touched = _touched(change)
    if not touched:
        return
    try:
        before, after = _read(change)
    except SimulationError as error:
        message = error.problems[0].message
        text = f"mpigen cannot compare the permissions: {message}"
        yield Effect(_TOPIC, Risk.MEDIUM, "permissions", text, causes=tuple(touched.values()))
        return
    comparison = _Comparison(change, touched, before, after)
    effects = list(comparison.effects())
    yield from effects
    explained = {cause.identity for effect in effects for cause in effect.causes} | comparison.pruned
    yield from _without_effect([item for identity, item in touched.items() if identity not in explained])


def _read(change: Change) -> tuple[_Rights, _Rights]:
    """Return the rights before and after. A role that the update adds or removes grants nothing on the side without it.

    Raises:
        SimulationError: two objects of the same kind and name differ.
    """
    roles = {item.resource for side in (change.of_old, change.of_new) for item in side(_RBAC, "Role", "ClusterRole")}

    def read(tree: Iterable[Manifest]) -> _Rights:
        grants = (one for one in read_access(tree).grants if not one.gap or one.role not in roles)
        return _Rights(with_default_grants(Access(tuple(grants))))

    return read(change.of_old(_RBAC, *_KINDS)), read(change.of_new(_RBAC, *_KINDS))


def _touched(change: Change) -> dict[tuple[str, str, str, str], Manifest]:
    """Return identity → RBAC object that the update adds or removes, or for which `_differs` returns True."""
    others = (item for item in (*change.all_added, *change.all_removed) if item.group == _RBAC and item.kind in _KINDS)
    changed = (
        item.new
        for item in ChangedObject.between(change)
        if item.new.group == _RBAC and item.new.kind in _KINDS and _differs(item.old, item.new)
    )
    return {item.identity: item for item in (*others, *changed)}


def _differs(old: Manifest, new: Manifest) -> bool:
    """Return True if two RBAC objects differ in a field of `_FIELDS`, or two ClusterRoles in an aggregation label."""
    differs = any(old.body.get(field) != new.body.get(field) for field in _FIELDS)
    return differs or (new.kind == "ClusterRole" and _aggregates(old) != _aggregates(new))


def _without_effect(objects: Sequence[Manifest]) -> Iterator[Effect]:
    """Yield one effect for all added, changed and removed objects that change no permission; none without objects."""
    if objects:
        names = [item.resource for item in sorted(objects, key=lambda item: item.resource)]
        subjects = join(f"`{name}`" for name in names) if len(names) <= _SEPARATE else f"{len(names)} objects of RBAC"
        details = () if len(names) <= _SEPARATE else tuple(names[:_DETAILS])
        text = f"{subjects} {conjugate('changes', len(names))} no permission of a subject"
        yield Effect(_TOPIC, Risk.LOW, "permissions", text, details, tuple(objects))


class _Rights:
    """The grants before or after an update, by their subjects."""

    def __init__(self, access: Access) -> None:
        """Index the grants."""
        self.access = access
        self.grants: dict[_Key, list[Grant]] = {}
        for grant in access.grants:
            for key in dict.fromkeys((subject.is_group, subject.name) for subject in grant.subjects):
                self.grants.setdefault(key, []).append(grant)

    @cached_property
    def by_binding(self) -> Mapping[str, Grant]:
        """Binding, such as `RoleBinding team-a/edit` → its grant."""
        return {grant.binding: grant for grant in self.access.grants}

    def own(self, key: _Key, namespace: str) -> list[Grant]:
        """Return the grants that bind the subject in a namespace; for `CLUSTER`, by a ClusterRoleBinding."""
        return [grant for grant in self.grants.get(key, ()) if grant.namespace == namespace]

    def effective(self, key: _Key, namespace: str) -> list[Grant]:
        """Return the grants that apply to a subject in a namespace, also cluster-wide.

        Grants of groups to which the API server adds the subject are included.
        """
        grants = (grant for one in _identities(key) for grant in self.grants.get(one, ()))
        return [grant for grant in grants if grant.namespace in (CLUSTER, namespace)]


def _identities(key: _Key) -> list[_Key]:
    is_group, name = key
    requester = parse_requester(f"{'group' if is_group else 'user'}:{name}")
    user = [(False, requester.user)] if requester.user else []
    return [*user, *((True, group) for group in sorted(requester.groups))]


@dataclass(frozen=True, slots=True)
class _Item:
    """A change of the permissions of a subject in a namespace.

    Attributes:
        key: the subject; None for all subjects of a role that no file binds.
        place: the namespace; `CLUSTER` for all namespaces.
        verb: the verb of the sentence, such as `gains`.
        rest: the rest of the sentence, without the place.
        holders: the subjects in words, if `key` is None; else empty.
    """

    key: _Key | None
    place: str
    verb: str
    rest: str
    risk: Risk
    details: tuple[str, ...]
    causes: tuple[Manifest, ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    holders: str = ""


class _Comparison:
    """The permissions of subjects before and after an update."""

    def __init__(
        self,
        change: Change,
        touched: Mapping[tuple[str, str, str, str], Manifest],
        before: _Rights,
        after: _Rights,
    ) -> None:
        """Keep the rights before and after, and find the ClusterRoles that mpigen generated."""
        self._change = change
        self._touched = {item.resource: item for item in touched.values()}
        self._before, self._after = before, after
        self._places = Places.of(change)
        self.pruned: set[tuple[str, str, str, str]] = set()
        self._missing: dict[tuple[object, ...], frozenset[Permission]] = {}
        generated = (*change.of_old(_RBAC, "ClusterRole"), *change.of_new(_RBAC, "ClusterRole"))
        self._named = {item.resource for item in generated if item.labels.items() >= MANAGED_BY.items()}

    def effects(self) -> Iterator[Effect]:
        """Yield the effects, except lost roles in removed namespaces, which the topic `prune` reports."""
        items = [item for key, namespace in self._pairs() for item in self._compare(key, namespace)]
        removed = self._places.before.keys() - self._places.after.keys()
        leaving = {item.key for item in items if item.place in removed}
        pruned = [item for item in items if item.place in removed or (_is_reader(item) and item.key in leaving)]
        self.pruned = {cause.identity for item in pruned for cause in item.causes}
        ids = {id(item) for item in pruned}
        yield from _merge(_without_readers([item for item in items if id(item) not in ids]), self._places)
        yield from _merge(self._holders(), self._places)

    def _pairs(self) -> list[tuple[_Key, str]]:
        """Return (subject, namespace) of the subjects of new, removed and changed bindings, and of changed roles."""
        pairs: dict[tuple[_Key, str], None] = {}
        equal: dict[tuple[int, int], bool] = {}
        was, now = self._before.by_binding, self._after.by_binding
        for binding in {**was, **now}:
            old, new = was.get(binding), now.get(binding)
            if old and new and old.subjects == new.subjects and (old.role, old.gap) == (new.role, new.gap):
                ids = (id(old.rules), id(new.rules))
                if ids not in equal:
                    equal[ids] = old.rules == new.rules
                if equal[ids]:
                    continue
            for grant in filter(None, (old, new)):
                for subject in grant.subjects:
                    if subject.name:
                        pairs[(subject.is_group, subject.name), grant.namespace] = None
        return list(pairs)

    def _find_missing(self, own: Sequence[Grant], others: Sequence[Grant]) -> frozenset[Permission]:
        """Return the permissions of `own` that `others` lack. The same roles are compared once."""
        key = tuple(
            tuple((id(grant.rules), grant.role if grant.gap else "") for grant in grants) for grants in (own, others)
        )
        if key not in self._missing:
            self._missing[key] = find_missing(own, others)
        return self._missing[key]

    def _compare(self, key: _Key, place: str) -> Iterator[_Item]:
        own_before, own_after = self._before.own(key, place), self._after.own(key, place)
        gained = self._find_missing(own_after, self._before.effective(key, place))
        lost = self._find_missing(own_before, self._after.effective(key, place))
        if not gained and not lost:
            return
        old_roles, new_roles = ({grant.role: grant for grant in grants} for grants in (own_before, own_after))
        losing = [grant for role, grant in old_roles.items() if role not in new_roles and self._has_name(grant)]
        getting = [grant for role, grant in new_roles.items() if role not in old_roles and self._has_name(grant)]
        wider = (*self._before.grants.get(key, ()), *self._after.grants.get(key, ())) if place == CLUSTER else ()
        causes = self._causes((*own_before, *own_after, *wider))
        is_gain_named = bool(gained and getting) and are_allowed(gained, getting)
        is_loss_named = bool(lost and losing) and are_allowed(lost, losing)
        if is_gain_named or is_loss_named:
            is_whole = (is_gain_named or not gained) and (is_loss_named or not lost)
            risk, details = self._judge(key, place, gained if is_gain_named else frozenset(), is_named=True)
            yield _Item(
                key,
                place,
                "gets" if getting else "loses",
                _role_text(getting, losing if is_whole else ()),
                risk,
                details,
                causes,
                _roles_as_data(losing),
                _roles_as_data(getting),
            )
        if gained and not is_gain_named:
            risk, details = self._judge(key, place, gained)
            yield _sentence(key, place, ("gains", gained), risk, details, causes)
        if lost and not is_loss_named:
            yield _sentence(key, place, ("loses", lost), Risk.MEDIUM, self._kept(key, place, lost), causes)

    def _has_name(self, grant: Grant) -> bool:
        """Return True if an effect names the role of a grant instead of its permissions.

        These roles are the generated roles, cluster-admin, and roles whose rules no file has.
        """
        return grant.role in self._named or bool(grant.gap) or grant.role == CLUSTER_ADMIN

    def _judge(
        self, key: _Key, place: str, gained: frozenset[Permission], *, is_named: bool = False
    ) -> tuple[Risk, tuple[str, ...]]:
        """Return the risk of gained permissions, and sentences with the reasons."""
        dangers = find_dangers(gained)
        details = [f"the subject can {danger}" for danger in dangers]
        unknown = sorted(one.role for one in gained if one.role)
        details += [f"the files do not contain the rules of {role}" for role in unknown]
        if meaning := _meaning(key):
            return Risk.HIGH, (f"{_BROAD[meaning].rstrip(',')} has this permission", *details)
        gaps = [grant.role for grant in self._before.effective(key, place) if grant.gap and not unknown]
        details += [f"{role}, whose rules are not in the files, may already allow a part" for role in gaps]
        if is_named and place in self._places.added:
            return (Risk.MEDIUM if dangers else Risk.LOW), ()
        return (Risk.HIGH if dangers else Risk.MEDIUM), tuple(details)

    def _kept(self, key: _Key, place: str, lost: frozenset[Permission]) -> tuple[str, ...]:
        """Return details about the lost permissions that a subject keeps in part.

        The subject can keep cluster-wide permissions in some namespaces, or single verbs of a lost `*`.
        """
        kept: list[str] = []
        if place == CLUSTER:
            spaces = {grant.namespace for grant in self._after.grants.get(key, ()) if grant.namespace}
            same = [one for one in sorted(spaces) if are_allowed(lost, self._after.effective(key, one))]
            kept += [f"the subject keeps these permissions in {self._places.describe(same)}"] if same else []
        for one in sorted(lost):
            if one.verb == "*" and one.resource:
                rules = [rule for grant in self._after.effective(key, place) for rule in grant.rules]
                verbs = [verb for rule in rules if _has_resource(rule, one) for verb in rule.verbs]
                text = f"the subject keeps {join(dict.fromkeys(verbs))} on {one.resource}"
                kept += [text] if verbs else []
        return tuple(kept)

    def _causes(self, grants: Iterable[Grant]) -> tuple[Manifest, ...]:
        """Return the changed bindings and roles of grants.

        If one of the roles aggregates other ClusterRoles, the changed ClusterRoles with labels are causes too.
        """
        names = [name for grant in grants for name in (grant.binding, grant.role)]
        direct = {name: self._touched[name] for name in names if name in self._touched}
        aggregated = [item for item in self._touched.values() if item.kind == "ClusterRole" and item.labels]
        has_aggregate = any(grant.role in self._aggregating for grant in grants)
        return tuple({**direct, **({item.resource: item for item in aggregated} if has_aggregate else {})}.values())

    @cached_property
    def _aggregating(self) -> frozenset[str]:
        roles = (*self._change.of_old(_RBAC, "ClusterRole"), *self._change.of_new(_RBAC, "ClusterRole"))
        return frozenset(item.resource for item in roles if "aggregationRule" in item.body)

    def _holders(self) -> Iterator[_Item]:
        """Yield the permissions that roles without a binding in the files gain or lose.

        The cluster can have bindings that the files lack: of a role that exists before and after the update, and of a
        default role of Kubernetes, such as `edit`, to which a ClusterRole adds its rules by a label.
        """
        was, now = (_unbound(tree, self._bound) for tree in (self._change.of_old, self._change.of_new))
        for role in sorted({**was, **now}):
            is_aggregate = role.startswith(_AGGREGATE)
            if not is_aggregate and not (role in was and role in now):
                continue
            old, new = (_as_grant(role, side.get(role, ())) for side in (was, now))
            name = role.removeprefix(_AGGREGATE)
            sources = [item for side in (was, now) for item in side.get(role, ()) if item.resource in self._touched]
            causes = tuple({item.identity: self._touched[item.resource] for item in sources}.values())
            for verb, missing in (("gains", find_missing([new], [old])), ("loses", find_missing([old], [new]))):
                if missing:
                    dangers = find_dangers(missing) if verb == "gains" else []
                    risk = Risk.HIGH if dangers else Risk.MEDIUM
                    details = [f"these subjects can {danger}" for danger in dangers]
                    details.append("the bindings of this role are not in the files")
                    item = _sentence(None, CLUSTER, (verb, missing), risk, tuple(details), causes)
                    kind = "ClusterRole" if is_aggregate else role.partition(" ")[0]
                    yield replace(item, holders=f"every subject with {kind} `{name.rpartition(' ')[2]}`")

    @cached_property
    def _bound(self) -> frozenset[str]:
        return frozenset(grant.role for side in (self._before, self._after) for grant in side.access.grants)


def _has_resource(rule: Rule, permission: Permission) -> bool:
    return permission.resource in rule.resources and permission.group in rule.groups


def _meaning(key: _Key) -> Meaning:
    is_group, name = key
    meaning = meaning_of(f"{'group' if is_group else 'user'}:{name}")
    return meaning if meaning in _BROAD else ""


def _aggregates(role: Manifest) -> list[str]:
    return sorted(str(key) for key, value in role.labels.items() if str(key).startswith(_AGGREGATE) and value == "true")


def _unbound(of_tree: Callable[..., list[Manifest]], bound: frozenset[str]) -> dict[str, list[Manifest]]:
    """Return role → the Roles and ClusterRoles with its rules, for roles of the files that no binding there names.

    For a role that the files lack, the key is the aggregation label with which ClusterRoles add rules to this role.
    """
    roles = of_tree(_RBAC, "ClusterRole", "Role")
    names = {item.name for item in roles if item.kind == "ClusterRole"}
    unbound: dict[str, list[Manifest]] = {}
    for role in roles:
        for label in _aggregates(role) if role.kind == "ClusterRole" else ():
            if label.removeprefix(_AGGREGATE) not in names:
                unbound.setdefault(label, []).append(role)
        if role.resource not in bound and "aggregationRule" not in role.body:
            unbound.setdefault(role.resource, []).append(role)
    return unbound


def _as_grant(role: str, roles: Iterable[Manifest]) -> Grant:
    rules = tuple(
        Rule(
            strings(rule.get("verbs")),
            strings(rule.get("apiGroups")),
            strings(rule.get("resources")),
            strings(rule.get("resourceNames")),
            strings(rule.get("nonResourceURLs")),
        )
        for item in roles
        for rule in mappings(item.body.get("rules"))
    )
    return Grant("", role, CLUSTER, (), rules, "", "")


def _role_text(getting: Sequence[Grant], losing: Sequence[Grant]) -> str:
    if not getting:
        return _role_names(losing)
    text = _role_names(getting)
    if not losing:
        return text
    lost = _role_names(losing)
    return f"{text} instead of {lost.removeprefix('the role ') if text.startswith('the role ') else lost}"


def _role_names(grants: Sequence[Grant]) -> str:
    """Return the names of roles: mpigen's roles without their prefix, and other roles with their kind."""
    own = [name for grant in grants if (name := _own_name(grant.role))]
    others = [grant.role for grant in grants if not _own_name(grant.role)]
    texts = [f"the {plural('role', len(own))} {join(f'`{name}`' for name in own)}"] if own else []
    return join([*texts, *(f"{kind} `{name}`" for kind, _, name in (role.partition(" ") for role in others))])


def _own_name(role: str) -> str:
    kind, _, name = role.partition(" ")
    if role == CLUSTER_ADMIN:
        return name
    if kind != "ClusterRole" or not name.startswith("mpigen-"):
        return ""
    return name.removeprefix(OWN_ROLE).removeprefix("mpigen-")


def _roles_as_data(grants: Iterable[Grant]) -> tuple[str, ...]:
    return tuple(sorted(grant.role for grant in grants))


def _sentence(
    key: _Key | None,
    place: str,
    changed: tuple[str, frozenset[Permission]],
    risk: Risk,
    details: tuple[str, ...],
    causes: tuple[Manifest, ...],
) -> _Item:
    verb, permissions = changed
    words = describe(permissions)
    before, after = ((), words.data) if verb == "gains" else (words.data, ())
    return _Item(key, place, verb, words.text, risk, (*details, *words.details), causes, before, after)


def _without_readers(items: Sequence[_Item]) -> list[_Item]:
    """Return the changes, without a change of `mpigen-runtime-reader` that comes with a role of a team.

    The remaining change of the subject gets the causes.
    """
    kept = [item for item in items if not _is_reader(item)]
    for reader in filter(_is_reader, items):
        companion = next(
            (item for item in kept if item.key == reader.key and item.verb == reader.verb and item.place), None
        )
        if companion is None:
            kept.append(reader)
        else:
            kept[kept.index(companion)] = replace(companion, causes=(*companion.causes, *reader.causes))
    return kept


def _is_reader(item: _Item) -> bool:
    return item.place == CLUSTER and (*item.before, *item.after) == (_READER,)


def _merge(items: Iterable[_Item], places: Places) -> Iterator[Effect]:
    """Yield an effect for the subjects with the same change in the same places.

    A change that subjects have in different places is also one effect if it has the same causes everywhere, such as a
    role of all teams, or if there would be more than three effects.
    """
    groups: dict[tuple[object, ...], list[_Item]] = {}
    for item in items:
        broad = item.key if item.key is not None and _meaning(item.key) else None
        equal = (item.verb, item.rest, item.risk, item.details, item.place == CLUSTER, item.holders, broad)
        groups.setdefault(equal, []).append(item)
    for group in groups.values():
        by_subject: dict[_Key | None, list[_Item]] = {}
        for item in group:
            by_subject.setdefault(item.key, []).append(item)
        by_places: dict[tuple[str, ...], list[_Key | None]] = {}
        for key, own in by_subject.items():
            by_places.setdefault(tuple(item.place for item in own), []).append(key)
        causes = {tuple(cause.identity for cause in item.causes) for item in group}
        if len(by_places) > _SEPARATE or (len(by_places) > 1 and len(causes) == 1):
            yield _summary(group, list(by_subject), places)
            continue
        for spaces, keys in by_places.items():
            own = [item for item in group if item.key in keys]
            yield _effect(own, _name(keys, own[0].holders), _describe(spaces, places), len(keys))


def _effect(items: Sequence[_Item], subject: str, place: str, count: int, details: tuple[str, ...] = ()) -> Effect:
    first = items[0]
    text = f"{subject} {conjugate(first.verb, count)} {first.rest}{place}"
    causes = tuple({cause.identity: cause for item in items for cause in item.causes}.values())
    before, after = list(first.before), list(first.after)
    return Effect(_TOPIC, first.risk, subject.replace("`", ""), text, (*first.details, *details), causes, before, after)


def _summary(items: Sequence[_Item], keys: Sequence[_Key | None], places: Places) -> Effect:
    spaces = list(dict.fromkeys(item.place for item in items))
    lines = [f"{_name([item.key], item.holders)}{_describe([item.place], places)}" for item in items]
    more = (f"and {len(lines) - _DETAILS} more",) if len(lines) > _DETAILS else ()
    subject = _name(keys, items[0].holders)
    return _effect(items, subject, _describe(spaces, places), len(keys), (*lines[:_DETAILS], *more))


def _describe(spaces: Iterable[str], places: Places) -> str:
    known = list(spaces)
    return " in the whole cluster" if CLUSTER in known else f" in {places.describe(known)}"


def _name(keys: Sequence[_Key | None], holders: str) -> str:
    """Return the names of subjects for a sentence."""
    if holders:
        return holders
    names: dict[str, list[str]] = {}
    for key in keys:
        if key is not None:
            if meaning := _meaning(key):
                return f"{_BROAD[meaning]} ({'group' if key[0] else 'user'} `{key[1]}`)".replace(", (", " (")
            noun, name = _split(key)
            names.setdefault(noun, []).append(name)
    return join(name_subjects(noun, known) for noun, known in names.items())


def _split(key: _Key) -> tuple[str, str]:
    is_group, name = key
    prefix, _, account = name.partition("system:serviceaccount:")
    if not is_group and not prefix and account:
        return "ServiceAccount", account.replace(":", "/")
    return ("group" if is_group else "user"), name
