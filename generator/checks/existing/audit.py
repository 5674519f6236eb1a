"""The audit of the export of a cluster: its objects, the objects that no policy judges, and the verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from generator.checks.existing.creation import Creator, Inventory, find_difference
from generator.checks.existing.verdicts import Audit, Judge, Unjudged
from generator.errors import DocumentError, OutputError, Problem, SimulationError
from generator.manifests import Body, Manifest, read
from generator.objects.fields import mapping
from generator.objects.namespace import is_namespace
from generator.objects.training import GROUP, KUEUE
from generator.schemas.catalog import Catalog

EXPORT = "kubectl get ns,trainjobs,workloads,jobsets,jobs,pods,pvc,rolebindings -A -o yaml"


def read_export(texts: Mapping[str, bytes], command: str = EXPORT) -> tuple[list[Manifest], int]:
    """Return the objects of an export, and the number of repetitions of objects in it.

    If the texts have several objects of the same group, kind, namespace and name, the result has the last of them.

    Args:
        texts: file → its text: a list object, one object, or several documents.
        command: the command that exports the objects, for messages.

    Raises:
        DocumentError: a text is not YAML or JSON, or has a document that is not an object of a cluster.
    """
    everything = [item for file, text in texts.items() for item in read(text, file)]
    fix = f"export the objects anew: `{command}`"
    if problems := [Problem(fault, fix, item.file) for item in everything if (fault := _find_fault(item))]:
        raise DocumentError(tuple(problems))
    objects: dict[tuple[str, str, str, str], Manifest] = {}
    for item in everything:
        objects.pop(item.identity, None)  # the order of the last ones
        objects[item.identity] = item
    return [*objects.values()], len(everything) - len(objects)


def _find_fault(item: Manifest) -> str:
    """Return why a document is not an object of a cluster; empty if it has an apiVersion, a kind and a name."""
    if item.instead:
        return f"the export has {item.instead}, which is not an object"
    fields = {"apiVersion": item.api_version, "kind": item.kind, "metadata.name": item.name}
    missing = [field for field, value in fields.items() if not value]
    return f"{item.resource} has no {' and no '.join(missing)}" if missing else ""


def audit_objects(export: Sequence[Manifest], release: Sequence[Manifest], catalog: Catalog) -> Audit:
    """Judge each object of an export as a new object of a member of a team.

    Args:
        export: the objects of a cluster. Its Namespaces have the labels that count.
        release: the objects of a release with the policies; empty if the export has the policies.
        catalog: the schemas of the target versions.

    Raises:
        OutputError: the release, or without a release the export, has no bound policy; or the export has no objects
            except policies and bindings.
    """
    inventory = Inventory(export, release)
    judge = Judge(inventory, catalog)
    if not judge.rules:
        where = "release" if release else "export"
        message = f"the {where} has no ValidatingAdmissionPolicy with a binding, so `audit` has no rules"
        fix = "name a release with policies" if release else "name the release with `--release`, such as output/prod"
        raise OutputError((Problem(message, fix),))
    if not judge.objects:
        raise OutputError(
            (Problem("the export has no objects except policies", f"export objects, for example: `{EXPORT}`"),)
        )
    result = Audit(policies=len(judge.rules), objects=len(judge.objects), notes=[*_notes(inventory)])
    unjudged: dict[str, list[str]] = {}
    for manifest in judge.objects:
        try:
            kind = judge.world.kind(manifest.api_version, manifest.kind)
        except SimulationError:
            name = f"{manifest.kind} of {manifest.api_version}"
            reason = f"the kind {name} is unknown; export its CustomResourceDefinition too"
            unjudged.setdefault(reason, []).append(manifest.resource)
            continue
        if kind.is_namespaced and judge.world.namespace(manifest.namespace) is None:
            reason = f"the export and the release lack Namespace `{manifest.namespace}`; export Namespaces too"
            unjudged.setdefault(reason, []).append(manifest.resource)
            continue
        creator = inventory.find_creator(manifest)
        verdicts = judge.judge(manifest, kind, creator)
        result.verdicts += verdicts
        if not verdicts and creator in (Creator.CONTROLLER, Creator.PLATFORM) and judge.matches(manifest, kind):
            result.exempt[creator] = result.exempt.get(creator, 0) + 1
        elif not verdicts:
            result.outside += 1
    result.unjudged = [Unjudged(reason, tuple(items)) for reason, items in unjudged.items()]
    return result


def _notes(inventory: Inventory) -> Iterator[str]:
    """Yield notes about a missing release, missing Workloads, and Namespaces that differ from the release."""
    if not inventory.release:
        yield (
            "without `--release`, objects with the labels of mpigen count as objects of the release, and users can set "
            "these labels while no policy is bound"
        )
    if (GROUP, "TrainJob") in inventory.kinds and (KUEUE, "Workload") not in inventory.kinds:
        yield (
            "the export has no Workloads, so `audit` assumes that Kueue wrote all entries of `runtimePatches` with "
            f"`manager: {KUEUE}/manager`; export workloads.kueue.x-k8s.io too"
        )
    for identity, original in inventory.release.items():
        live = inventory.export.get(identity)
        if live is not None and is_namespace(live) and find_difference(_selected(original), _selected(live)):
            yield (
                f"Namespace `{live.name}` lacks labels or annotations of the release, so policies may not apply to it; "
                "restore it by a sync of the release"
            )


def _selected(namespace: Manifest) -> Body:
    """Return the labels and annotations of a Namespace, by which policies select it and read its limits."""
    metadata = mapping(namespace.body, "metadata")
    return {key: mapping(metadata.get(key)) for key in ("labels", "annotations")}
