"""reference/project, gitops/not-permitted: Applications and objects that an AppProject forbids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from generator.checks.finding import Severity, listed
from generator.checks.gitops.applied import AppliedObject, applied_by
from generator.checks.gitops.deliveries import ARGO, Delivery, Wiring, find_scope, is_changed
from generator.checks.graph import Graph
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.documents.load import Path
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, mapping, mappings, string, strings
from generator.upstream.argocd.application_sets import UNKNOWN, Files, render_applications
from generator.upstream.argocd.patterns import compile_glob, compile_path_match


@check("reference/project", severity=ERROR, needs=Graph)
def project(graph: Graph) -> Iterator[Breach]:
    """Report an AppProject that is in no file, or that does not allow the repository or destination of an Application.

    Argo CD applies nothing: InvalidSpecError. The check reports an absent AppProject only if the files have another
    AppProject, and only as a warning. The check reports a repository or a destination that no pattern of the AppProject
    can match, or that a pattern with `!` excludes. An entry with the name of a cluster counts as a match of any server,
    because the files do not show the names of clusters. The check also reads the template of an ApplicationSet. For an
    AppProject with labels, the finding is a warning, because a global project can allow more.

    Source: argo-cd v3.2.1 controller/appcontroller.go ApplicationController.refreshAppConditions;
    argo-cd v3.2.1 pkg/apis/application/v1alpha1/app_project_types.go AppProject.IsSourcePermitted; argo-cd v3.2.1
    pkg/apis/application/v1alpha1/app_project_types.go AppProject.isDestinationMatched
    """
    yield from graph.report("reference/project")
    projects = _by_name(item for item in graph.manifests if (item.group, item.kind) == (ARGO, "AppProject"))
    for item in graph.manifests:
        seen: set[tuple[Path, object]] = set()
        for start, spec in _applications_of(item):
            named = projects.get(string(spec.get("project")), [])
            for breach in _find_forbidden(item, start, spec, named[0]) if len(named) == 1 else ():
                if (breach.path, breach.message) not in seen:
                    seen.add((breach.path, breach.message))
                    yield breach


def _by_name(projects: Iterator[Manifest]) -> dict[str, list[Manifest]]:
    by_name: dict[str, list[Manifest]] = {}
    for manifest in projects:
        by_name.setdefault(manifest.name, []).append(manifest)
    return by_name


def _applications_of(item: Manifest) -> Iterator[tuple[Path, Body]]:
    """Yield the path and the content of the `spec` of each Application of an Application or ApplicationSet."""
    spec = mapping(item.body, "spec")
    if (item.group, item.kind) == (ARGO, "Application"):
        yield ("spec",), spec
    elif (item.group, item.kind) == (ARGO, "ApplicationSet"):
        for body, _ in render_applications(spec, Files(lambda _: None, lambda _: None)):
            yield ("spec", "template", "spec"), mapping(body, "spec")


def _find_forbidden(application: Manifest, start: Path, spec: Body, project: Manifest) -> Iterator[Breach]:
    allowed = mapping(project.body, "spec")
    why = "Argo CD applies nothing (InvalidSpecError)"
    single = [((*start, "source"), mapping(spec, "source"))]
    several = [((*start, "sources", number), source) for number, source in indexed_mappings(spec.get("sources"))]
    for path, source in several or single:
        repository = string(source.get("repoURL"))
        if repository and not _is_source_permitted(strings(allowed.get("sourceRepos")), repository):
            yield Breach(
                (*path, "repoURL"),
                f"the AppProject `{project.name}` does not allow the repository `{repository}`",
                why,
                f"correct `repoURL`, or add the repository to `sourceRepos` of AppProject `{project.name}`",
                application,
                severity=_severity(project),
                value=repository,
            )
    destination = mapping(spec, "destination")
    namespace = string(destination.get("namespace"))
    if destination and not is_destination_permitted(mappings(allowed.get("destinations")), destination, namespace):
        cluster = string(destination.get("server")) or string(destination.get("name"))
        place = f"the namespace `{namespace}` of" if namespace else "a destination without namespace in"
        yield Breach(
            (*start, "destination"),
            f"the AppProject `{project.name}` does not allow {place} the cluster `{cluster}`",
            why,
            f"correct the destination, or add the destination to `destinations` of AppProject `{project.name}`",
            application,
            severity=_severity(project),
            at_key=True,
        )


def _severity(project: Manifest) -> Severity | None:
    """Return WARNING for an AppProject with labels: a global project, which selects labels, may allow more.

    Source: argo-cd v3.2.1 util/argo/argo.go GetGlobalProjects; argo-cd v3.2.1 util/argo/argo.go mergeVirtualProject
    """
    return WARNING if project.labels else None


def _is_source_permitted(patterns: Sequence[str], repository: str) -> bool:
    """Return True if `sourceRepos` of an AppProject allows a repository, or if the repository is unknown."""
    if UNKNOWN in repository or "{{" in repository:
        return True
    is_permitted = False
    for pattern in patterns:
        is_denied = pattern.startswith("!")
        matches = _matches(_normalize(pattern.removeprefix("!")), _normalize(repository), "/")
        if is_denied and matches:
            return False
        is_permitted = is_permitted or is_denied or matches
    return is_permitted


def is_destination_permitted(allowed: Sequence[Body], destination: Body, namespace: str) -> bool:
    """Return True if `destinations` of an AppProject can allow a namespace of a cluster.

    Every cluster has a name and a server, and Argo CD compares both. The files can lack one of them, so an entry that
    has only the other one can match.

    Args:
        allowed: the entries.
        destination: the destination of the Application.
        namespace: the namespace.

    Source: argo-cd v3.2.1 pkg/apis/application/v1alpha1/app_project_types.go AppProject.isDestinationMatched
    """
    values = {key: string(destination.get(key)) for key in ("server", "name")}
    if any(mark in text for text in (*values.values(), namespace) for mark in (UNKNOWN, "{{")):
        return True
    is_permitted = False
    for entry in allowed:
        patterns = {key: string(entry.get(key)) for key in values}
        in_namespace = _allows(string(entry.get("namespace")), namespace)
        is_sure = any(value and patterns[key] and _allows(patterns[key], value) for key, value in values.items())
        in_cluster = is_sure or any(patterns[key] and not value for key, value in values.items())
        if in_cluster and in_namespace:
            is_permitted = True
        elif (string(entry.get("namespace")).startswith("!") and is_sure) or (
            in_namespace
            and any(
                value and patterns[key].startswith("!") and not _allows(patterns[key], value)
                for key, value in values.items()
            )
        ):
            return False
    return is_permitted


def _allows(pattern: str, value: str) -> bool:
    return not _matches(pattern[1:], value) if pattern.startswith("!") else _matches(pattern, value)


def _matches(pattern: str, value: str, separators: str = "") -> bool:
    if pattern == "*":
        return True
    expression = compile_glob(pattern, separators)
    return expression is not None and expression.fullmatch(value) is not None


def _normalize(repository: str) -> str:
    """Return a repository URL in the form that Argo CD compares (argo-cd v3.2.1 util/git/git.go NormalizeGitURL)."""
    text = repository.strip().lower().removesuffix(".git")
    return text if "://" in text and not text.startswith("ssh://") else text.removeprefix("ssh://").replace(":", "/", 1)


@dataclass(slots=True)
class _Forbidden:
    """The objects of one list or field of an AppProject that forbids them.

    Attributes:
        names: the kinds or the namespaces, in the order of the files.
        owners: the labels of the Applications.
    """

    names: dict[str, None] = field(default_factory=dict)
    owners: dict[str, None] = field(default_factory=dict)


@check("gitops/not-permitted", severity=ERROR, needs=Wiring)
def not_permitted(wiring: Wiring) -> Iterator[Breach]:
    """Report an AppProject that forbids objects in the folders of its Applications.

    Argo CD checks each object before it applies any object of the Application. If the AppProject forbids its kind or
    its namespace, the whole sync fails: `resource … is not permitted in project`. Without `clusterResourceWhitelist`,
    an AppProject forbids all cluster-scoped kinds. Without `namespaceResourceWhitelist`, it allows all namespaced
    kinds. A blacklist takes precedence. A global project of Argo CD can allow more to AppProjects with some labels. So
    the finding is a warning for an AppProject with labels.

    The check needs the folder of the Application on disk, as reference/path does, and reads no objects that kustomize
    adds or changes.

    Source: argo-cd v3.2.1 controller/sync.go appStateManager.SyncAppState; argo-cd v3.2.1
    pkg/apis/application/v1alpha1/app_project_types.go AppProject.IsGroupKindPermitted; argo-cd v3.3.4
    pkg/apis/application/v1alpha1/types.go isNamedResourceInList
    """
    projects = _by_name(item for item in wiring.tree.manifests if (item.group, item.kind) == (ARGO, "AppProject"))
    forbidden: dict[tuple[str, str], _Forbidden] = {}
    for delivery in wiring.everything.all:
        named = projects.get(string(delivery.spec.get("project")), [])
        if delivery.is_flux or len(named) != 1 or not wiring.has(named[0]) or is_changed(named[0], wiring.tree):
            continue
        applied = applied_by(delivery, wiring.tree)
        for item in applied.objects if applied and applied.is_exact else ():
            for key, name in _judge(item, delivery, named[0], wiring):
                entry = forbidden.setdefault((named[0].name, key), _Forbidden())
                entry.names.setdefault(name)
                entry.owners.setdefault(delivery.label)
    for (name, key), entry in forbidden.items():
        yield _report(projects[name][0], key, entry)


def _report(project: Manifest, key: str, entry: _Forbidden) -> Breach:
    owners = next(iter(entry.owners))
    if len(entry.owners) > 1:
        owners += f" and {len(entry.owners) - 1} more"
    names = listed([*entry.names], 5)
    if key == "destinations":
        things, fix = (
            f"the namespace {names}",
            "add the namespace to `destinations`, or correct the namespace of the objects",
        )
        things = things.replace("namespace ", "namespaces ", 1) if len(entry.names) > 1 else things
    else:
        scope = "cluster-scoped" if key.startswith("cluster") else "namespaced"
        things = f"the {scope} kind{'s' if len(entry.names) > 1 else ''} {names}"
        fix = f"remove the kind from `{key}`" if key.endswith("Blacklist") else f"add the kind to `{key}`"
        fix += ", or move the objects to an Application of another project"
    return Breach(
        ("spec", key),
        f"the AppProject `{project.name}` does not permit {things} of the {owners}",
        "Argo CD applies no object of the Application (resource is not permitted in project)",
        fix,
        project,
        severity=None if key.endswith("Blacklist") else _severity(project),
        at_key=True,
    )


def _judge(item: AppliedObject, delivery: Delivery, project: Manifest, wiring: Wiring) -> Iterator[tuple[str, str]]:
    """Yield (field of the AppProject, kind or namespace) if the AppProject forbids an object."""
    scope = find_scope(item.manifest, wiring)
    spec = mapping(project.body, "spec")
    if not scope:
        return
    prefix = "clusterResource" if scope == "Cluster" else "namespaceResource"
    listed_kinds, denied = (spec.get(f"{prefix}{end}") for end in ("Whitelist", "Blacklist"))
    is_open = scope == "Namespaced" and not isinstance(listed_kinds, list)
    is_listed = is_open or _is_listed(item.manifest, listed_kinds)
    kind = f"{item.manifest.kind}.{item.manifest.group}" if item.manifest.group else item.manifest.kind
    if not is_listed:
        yield f"{prefix}Whitelist", kind
    elif _is_listed(item.manifest, denied):
        yield f"{prefix}Blacklist", kind
    if scope == "Namespaced":
        destination = mapping(delivery.spec, "destination")
        namespace = item.namespace or item.manifest.namespace or string(destination.get("namespace"))
        allowed = mappings(spec.get("destinations"))
        is_known = bool(namespace) and "$" not in namespace
        is_reported = not is_destination_permitted(allowed, destination, string(destination.get("namespace")))
        if is_known and not is_reported and not is_destination_permitted(allowed, destination, namespace):
            yield "destinations", namespace


def _is_listed(manifest: Manifest, rows: object) -> bool:
    """Return True if a whitelist or blacklist matches an object. Argo CD 3.3 and later also compare the name."""
    return any(
        all(
            (expression := compile_path_match(string(row.get(key)))) and expression.fullmatch(value)
            for key, value in (("group", manifest.group), ("kind", manifest.kind), ("name", manifest.name))
            if key != "name" or row.get(key)
        )
        for row in mappings(rows)
    )
