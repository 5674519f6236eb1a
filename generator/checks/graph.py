"""The graph of references: each field that names another object, and whether the files have this object."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from functools import cache, cached_property

from generator.checks.finding import Breach, Severity, listed
from generator.checks.objects import Objects
from generator.documents.load import Path
from generator.documents.messages import format_names
from generator.facts.references import (
    PODS,
    Kind,
    Link,
    Name,
    Target,
    creators,
    fields_of,
    fields_of_pods,
    find,
    kinds_with_names,
    kinds_with_names_of,
    parse_kind,
    targets,
)
from generator.manifests import Manifest
from generator.objects.fields import mapping, string
from generator.objects.namespace import listed_runtimes
from generator.objects.networks import attachment
from generator.objects.pods import KINDS, parse_networks, pod_templates
from generator.objects.training import GROUP, reference_of

_NETWORK = Kind("k8s.cni.cncf.io", "NetworkAttachmentDefinition")
_NAMESPACE = Kind("", "Namespace")
_PODS = Kind("", PODS)
CLUSTER_RUNTIME = "ClusterTrainingRuntime"
"""The kind whose pods run in the namespaces of TrainJobs."""
_POLICIES = "admissionregistration.k8s.io"
_CONFIG_MAP = Kind("", "ConfigMap")
_PARAMETERS = ("spec", "paramRef", "name")
_SIMILAR = 0.8
"""The similarity (difflib) of a name and its misspelling."""
ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO


class State(Enum):
    """The presence of an object that a field names.

    Attributes:
        PRESENT: the files have the object, or an object whose controller creates it.
        ABSENT: no file has the object, and a file should have it.
        EXTERNAL: no file has the object, but every cluster has an object of this name, or clusters usually have objects
            of this kind that are in no file.
    """

    PRESENT = "present"
    ABSENT = "absent"
    EXTERNAL = "external"


@dataclass(frozen=True, slots=True)
class Reference:
    """A field of an object with the name of another object.

    Attributes:
        manifest: the object with the name.
        path: the path of the name in the manifest.
        name: the name of the other object.
        target: the kind of the other object.
        link: the entry of references.yaml for the field.
        state: the presence of the other object.
        namespaces: the namespaces in which the other object must exist; empty if it is cluster-scoped, or if the files
            do not show the namespace.
        lacking: the `namespaces` in which the files do not have the object.
        is_optional: True if the field allows that the object is absent.
    """

    manifest: Manifest
    path: Path
    name: str
    target: Target
    link: Link
    state: State
    namespaces: AbstractSet[str] = frozenset()
    lacking: AbstractSet[str] = frozenset()
    is_optional: bool = False

    @property
    def identities(self) -> Sequence[tuple[str, str, str, str]]:
        """(group, kind, namespace, name) of the other object, once for each namespace in which it must exist."""
        return [(*self.target.identity, namespace, self.name) for namespace in sorted(self.namespaces or {""})]


def references(objects: Objects) -> Sequence[Reference]:
    """Return the references between objects, in the order of their files."""
    return objects.view(Graph.read).references


def is_in_graph(manifest: Manifest) -> bool:
    """Return True if the graph reads the manifest: its kind has pod templates, or is in references.yaml."""
    kind = manifest.kind
    return kind in KINDS or (kind in _kinds() and (manifest.group, kind) in _kinds())


@cache
def _kinds() -> AbstractSet[object]:
    """Return all kinds of references.yaml, both as (group, kind) and as the kind alone."""
    with_group = {*targets(), *creators(), *kinds_with_names()}
    return {*with_group, *(kind.kind for kind in with_group)}


@dataclass(frozen=True)
class Graph:
    """The references between the objects of a release, or between objects of no release."""

    objects: Objects

    @classmethod
    def read(cls, objects: Objects) -> Graph:
        """Read the references of the objects."""
        return cls(objects)

    @cached_property
    def references(self) -> Sequence[Reference]:
        """The references, in the order of their files."""
        return [reference for manifest in self.manifests for reference in self._named_by(manifest)]

    def _named_by(self, manifest: Manifest) -> Sequence[Reference]:
        """Return the references in the fields of an object. The result is cached."""
        key = id(manifest)
        if key not in self._known:
            self._known[key] = list(self._references_of(manifest))
        return self._known[key]

    @cached_property
    def _known(self) -> dict[int, Sequence[Reference]]:
        return {}

    def namespaces_with(self, kind: Kind, name: str) -> AbstractSet[str]:
        """Return the namespaces with an object of a kind and name, or with an object whose controller creates it.

        The namespace is `""` for a cluster-scoped object, and for an object without `namespace`.
        """
        names, patterns = self._created.get(kind, {}), self._patterns.get(kind, ())
        matching = {namespace for pattern, namespace in patterns if fnmatchcase(name, pattern)}
        return names.get(name, frozenset()) | matching

    def names(self, kind: Kind, namespaces: AbstractSet[str] = frozenset()) -> AbstractSet[str]:
        """Return the names of the objects of a kind in some namespaces, or in all if `namespaces` is empty.

        The result includes objects that controllers create, unless their names are unknown, or only the pods of one
        job use the object.
        """
        return {
            name
            for name, within in self._created.get(kind, {}).items()
            if "*" not in name and (not namespaces or within & {"", *namespaces}) and (kind, name) not in self._internal
        }

    @cached_property
    def _internal(self) -> AbstractSet[tuple[Kind, str]]:
        """The kinds and names of objects that only the pods of their creator use, such as hostfiles."""
        return {
            (parse_kind(creator.creates), name)
            for manifest in self.manifests
            for creator in creators().get(Kind(manifest.group, manifest.kind), ())
            if creator.internal
            for name in creator.names(manifest.body)
        }

    @cached_property
    def namespaces(self) -> AbstractSet[str]:
        """The Namespaces in the files."""
        return self.objects.names(*_NAMESPACE).get("", frozenset())

    def report(self, check_id: str) -> Iterator[Breach]:
        """Yield the breaches of a check that reports absent objects.

        Args:
            check_id: the id of the check. references.yaml names this id at each kind whose absence the check reports.
        """
        for reference in self.dangling(check_id):
            yield from self.explain(reference)

    def dangling(self, check_id: str) -> Iterator[Reference]:
        """Yield the references to absent objects that a check reports.

        If an object names the same absent object several times, only the first reference is yielded.
        """
        seen = set()
        kinds = kinds_with_names_of(check_id)
        has_pods = _PODS in kinds
        for kind, manifest in self._by_kind:
            if kind in kinds or (has_pods and manifest.kind in KINDS):
                for reference in self._named_by(manifest):
                    key = (id(manifest), reference.target.kind, reference.name)
                    is_dangling = reference.state is not State.PRESENT and not reference.is_optional
                    if is_dangling and reference.target.check == check_id and key not in seen:
                        seen.add(key)
                        yield reference

    @cached_property
    def _by_kind(self) -> Sequence[tuple[Kind, Manifest]]:
        return [(Kind(manifest.group, manifest.kind), manifest) for manifest in self.manifests]

    def explain(self, reference: Reference) -> Iterator[Breach]:
        """Yield the breach of a reference to an absent object; none if the object may exist only in the cluster."""
        target, kind = reference.target, reference.target.identity.kind
        known: Collection[str] = self.names(target.identity, reference.lacking)
        fix = f"{target.add or f'add the {kind}'}{existing_instead(reference.name, known)}"
        if reference.state is State.EXTERNAL:
            known = difflib.get_close_matches(reference.name, known, cutoff=_SIMILAR)
            if target.is_given(reference.name) or not known:
                return
            fix = (
                f"correct the name to {format_names(known, 'or')}, unless the cluster has the {kind} `{reference.name}`"
            )
        elif not self._is_certain(reference, known):
            return
        elif not (self.objects.is_complete or target.compared):
            fix += f"; if another folder has the {kind}, pass both folders to mpigen"
        yield Breach(
            reference.path,
            f"the {kind} `{reference.name}`{_format_namespaces(reference.lacking)} is in no file",
            reference.link.why,
            fix,
            reference.manifest,
            severity=self._severity(reference),
            value=reference.name,
        )

    def _is_certain(self, reference: Reference, known: Collection[str]) -> bool:
        """Return True if the files suffice to report an absent object.

        If the files have another object of the kind, or the Namespace of the absent object, the object should be in a
        file too. Pods of a ClusterTrainingRuntime and the subjects of a binding can be in any namespace.

        Args:
            reference: the reference to the absent object.
            known: the names of the objects of this kind that exist in the namespaces without the object.
        """
        target, manifest = reference.target, reference.manifest
        is_defined = bool(reference.lacking & self.namespaces)
        if target.owned and self.objects.is_complete:
            return True
        if target.compared:
            is_same_kind = target.identity == (manifest.group, manifest.kind)
            others = {*known} - {manifest.name if is_same_kind else ""}
            return bool(others) or (is_defined and bool(self.names(target.identity)))
        return is_defined or not (manifest.kind == CLUSTER_RUNTIME or reference.link.most == INFO)

    def _severity(self, reference: Reference) -> Severity:
        """Return the severity of a reference to an absent object. Only a complete release can have an error."""
        target = reference.target
        limits = [Severity(target.absent), Severity(reference.link.most or ERROR)]
        if reference.state is State.EXTERNAL:
            limits.append(INFO)
        is_foreign = not target.compared and not reference.lacking <= self.namespaces
        is_of_user = target.of_users and reference.manifest.kind in (CLUSTER_RUNTIME, "TrainJob")
        if not self.objects.is_complete or is_foreign or is_of_user:
            limits.append(WARNING)
        return max(limits, key=[ERROR, WARNING, INFO].index)

    @property
    def manifests(self) -> Iterator[Manifest]:
        """Yield `objects.manifests` and `objects.others`."""
        yield from self.objects.manifests
        yield from self.objects.others

    @cached_property
    def _created(self) -> Mapping[Kind, Mapping[str, AbstractSet[str]]]:
        """Kind → name → namespaces of the objects in the files, and of the objects that their controllers create."""
        names: dict[Kind, dict[str, set[str]]] = {}
        for manifest in self.manifests:
            kind = Kind(manifest.group, manifest.kind)
            if kind in targets() and manifest.name:
                names.setdefault(kind, {}).setdefault(manifest.name, set()).add(manifest.namespace)
            if network := attachment(manifest):
                names.setdefault(_NETWORK, {}).setdefault(network.name, set()).add(network.namespace)
            for creator in creators().get(kind, ()):
                of_kind = names.setdefault(parse_kind(creator.creates), {})
                for name in creator.names(manifest.body):
                    of_kind.setdefault(name, set()).add("" if creator.anywhere else manifest.namespace)
        return names

    @cached_property
    def _patterns(self) -> Mapping[Kind, Sequence[tuple[str, str]]]:
        """Kind → (pattern, namespace) of objects that controllers create. A controller replaces `*` in the pattern."""
        return {
            kind: [(name, namespace) for name, within in names.items() if "*" in name for namespace in within]
            for kind, names in self._created.items()
        }

    @cached_property
    def _namespaces_of_runtimes(self) -> Mapping[str, AbstractSet[str]]:
        """Name of a ClusterTrainingRuntime → the namespaces that list the runtime, or that have a TrainJob on it.

        The annotation `mpigen.dev/runtimes` of a Namespace lists runtimes.
        """
        namespaces: dict[str, set[str]] = {}
        for namespace in self.objects.of(*_NAMESPACE):
            for runtime in listed_runtimes(namespace):
                kind, _, name = runtime.partition("/")
                if kind == CLUSTER_RUNTIME:
                    namespaces.setdefault(name, set()).add(namespace.name)
        for job in self.objects.of(GROUP, "TrainJob"):
            reference = reference_of(job)
            if reference and reference.kind == CLUSTER_RUNTIME and job.namespace:
                namespaces.setdefault(reference.name, set()).add(job.namespace)
        return namespaces

    def _references_of(self, manifest: Manifest) -> Iterator[Reference]:
        kind = Kind(manifest.group, manifest.kind)
        if fields := fields_of(kind):
            for field in find(fields, manifest.body):
                namespace = manifest.name if kind == _NAMESPACE else manifest.namespace
                yield from self._references_at(manifest, field, {namespace} - {""})
        for pods in pod_templates(manifest) if manifest.kind in KINDS else ():
            for field in find(fields_of_pods(), pods.body):
                below = field._replace(path=(*pods.path, *field.path))
                yield from self._references_at(manifest, below, self._namespaces_of(manifest))

    def _namespaces_of(self, manifest: Manifest) -> AbstractSet[str]:
        if manifest.kind == CLUSTER_RUNTIME:
            return self._namespaces_of_runtimes.get(manifest.name, frozenset())
        return {manifest.namespace} - {""}

    def _references_at(self, manifest: Manifest, field: Name, namespaces: AbstractSet[str]) -> Iterator[Reference]:
        """Yield the references at a field. `namespaces` are the namespaces of the object, or of its pods."""
        link: Link = field.leaf
        if not field.value or "{{" in field.value:  # a parameter of an ApplicationSet
            return
        if field.path == _PARAMETERS and self._kind_of_parameters(manifest) != _CONFIG_MAP:
            return
        siblings = field.parent if field.path[-1] == "name" else {}
        target = link.targets.get(string(siblings.get("kind"), next(iter(link.targets))))
        if target is None or siblings.get("apiGroup") not in (None, "", target.identity.group):
            return
        if target.identity == _NETWORK:
            for request in dict.fromkeys(parse_networks(field.value).requests):
                within = {request.namespace} if request.namespace else namespaces
                yield self._reference(manifest, field, request.name, target, within)
            return
        namespace = string(siblings.get("namespace"))
        within = {namespace} if namespace else namespaces
        for kind, name in link.names(field.value):
            if listed_target := link.targets.get(kind) if kind else target:
                yield self._reference(manifest, field, name, listed_target, within)

    def _kind_of_parameters(self, binding: Manifest) -> Kind | None:
        """Return the kind of the parameters of a bound admission policy; None if no file has the policy."""
        name = mapping(binding.body, "spec").get("policyName")
        for manifest in self.manifests:
            if (manifest.group, manifest.kind, manifest.name) == (_POLICIES, "ValidatingAdmissionPolicy", name):
                kind = mapping(manifest.body, "spec", "paramKind")
                return Kind(str(kind.get("apiVersion")).rpartition("/")[0], str(kind.get("kind")))
        return None

    def _reference(
        self, manifest: Manifest, field: Name, name: str, target: Target, namespaces: AbstractSet[str]
    ) -> Reference:
        having = self.namespaces_with(target.identity, name)
        within = namespaces if target.scope == "namespace" else frozenset[str]()
        lacking = frozenset[str]() if "" in having else within - having
        state = State.PRESENT
        if lacking or not (within or having):
            is_external = target.absent == "info" or target.is_given(name)
            state = State.EXTERNAL if is_external else State.ABSENT
        siblings = mapping(field.parent)
        is_optional = siblings.get("optional") is True or siblings.get("parameterNotFoundAction") == "Allow"
        return Reference(manifest, field.path, name, target, field.leaf, state, within, lacking, is_optional)


def _format_namespaces(namespaces: AbstractSet[str]) -> str:
    if not namespaces:
        return ""
    return f" of namespace{'s' if len(namespaces) > 1 else ''} {listed(sorted(namespaces))}"


def existing_instead(name: str, known: Collection[str]) -> str:
    """Return the end of a fix that proposes existing names, such as `, or correct the name to default`.

    The result is empty if `known`, the names of existing objects, is empty.
    """
    if close := difflib.get_close_matches(name, known, n=1):
        return f", or correct the name to `{close[0]}`"
    return f", or write an existing name: {format_names(sorted(known)[:5], 'or')}" if known else ""
