"""gitops/no-namespace, gitops/no-pruning: objects without a namespace, and objects that stay after their removal."""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.finding import listed
from generator.checks.gitops.applied import Applied, applied_by
from generator.checks.gitops.deliveries import Delivery, Wiring, find_scope
from generator.checks.registry import WARNING, Breach, check
from generator.facts.names import FLUX_PRUNE, MANAGED_BY
from generator.objects.fields import mapping, string

_PERMISSIONS = frozenset(
    {
        *("ClusterRole", "ClusterRoleBinding", "NetworkPolicy", "Role", "RoleBinding"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    }
)


@check("gitops/no-namespace", severity=WARNING, needs=Wiring)
def no_namespace(wiring: Wiring) -> Iterator[Breach]:
    """Report namespaced objects that get a namespace neither from their file nor from the GitOps engine.

    Flux applies no object of the Kustomization: `namespace not specified`. Argo CD reports `Namespace for … is missing`
    (InvalidSpecError), and applies nothing. A namespace comes from the object, from a `namespace` in a kustomization,
    from `targetNamespace` of a Kustomization of Flux, or from the destination of an Application.

    The check needs the folder of the Kustomization or Application on disk, as reference/path does, and reads no folder
    in which a patch of kustomize can set a namespace.

    Source: fluxcd/pkg/ssa v0.61.0 errors/errors.go DryRunErr; argo-cd v3.2.1 controller/state.go
    appStateManager.CompareAppState
    """
    for delivery in wiring.deliveries:
        destination = mapping(delivery.spec, "destination")
        applied = applied_by(delivery, wiring.tree)
        if applied is None or not applied.is_exact or (not delivery.is_flux and destination.get("namespace")):
            continue
        lacking = [
            item.manifest.resource
            for item in applied.objects
            if not (item.namespace or item.manifest.namespace) and find_scope(item.manifest, wiring) == "Namespaced"
        ]
        if lacking:
            verb = "has" if len(lacking) == 1 else "have"
            place = "`targetNamespace` of the Kustomization" if delivery.is_flux else "`destination.namespace`"
            why = "Flux applies no object of the Kustomization (namespace not specified)"
            yield Breach(
                delivery.field,
                f"{listed(lacking)} in `{delivery.folder or '.'}` {verb} no namespace",
                why if delivery.is_flux else "Argo CD applies nothing (InvalidSpecError: the namespace is missing)",
                f"set `metadata.namespace` in the objects, or {place}",
                delivery.owner,
                value=delivery.path,
            )


@check("gitops/no-pruning", severity=WARNING, needs=Wiring)
def no_pruning(wiring: Wiring) -> Iterator[Breach]:
    """Report an Application or Kustomization that does not delete removed permissions, or that deletes too much.

    The check reads Applications and Kustomizations that apply objects of mpigen. Without `prune`, an object that a new
    release lacks stays in the cluster: a revoked RoleBinding still grants its rights. A Kustomization of Flux with a
    Namespace that Flux keeps needs `deletionPolicy: Orphan`. Otherwise, if the Kustomization is deleted, Flux deletes
    the policies of the namespace, and the namespace stays without protection.

    Source: argo-cd v3.2.1 controller/appcontroller.go ApplicationController.autoSync; kustomize-controller v1.7.3
    internal/controller/kustomization_controller.go KustomizationReconciler.prune; kustomize-controller v1.7.3
    internal/controller/kustomization_controller.go KustomizationReconciler.finalize
    """
    for delivery in wiring.deliveries:
        applied = applied_by(delivery, wiring.tree)
        if applied is None or not _has_permissions(applied):
            continue
        prunes, field = _pruning(delivery)
        if not prunes:
            yield Breach(
                field,
                f"{delivery.label} applies permissions or policies, but `prune` is not true",
                f"{delivery.engine} does not delete removed objects, so revoked permissions stay valid",
                "set `prune: true`",
                delivery.owner,
                value=False,
            )
        if delivery.is_flux and delivery.spec.get("deletionPolicy") != "Orphan" and _keeps_namespace(applied):
            policy = string(delivery.spec.get("deletionPolicy"), "MirrorPrune")
            yield Breach(
                ("spec", "deletionPolicy"),
                f"`deletionPolicy` is `{policy}`, but Flux keeps the Namespace of this Kustomization",
                "if the Kustomization is deleted, Flux deletes the policies of the namespace, and running pods stay "
                "without them",
                "set `deletionPolicy: Orphan`",
                delivery.owner,
                value=delivery.spec.get("deletionPolicy"),
            )


def _pruning(delivery: Delivery) -> tuple[bool, tuple[str | int, ...]]:
    """Return True if the engine deletes removed objects, and the path of the field that sets it."""
    if delivery.is_flux:
        return delivery.spec.get("prune") is True, ("spec", "prune")
    start = ("spec", "template", "spec") if delivery.owner.kind == "ApplicationSet" else ("spec",)
    automated = mapping(delivery.spec, "syncPolicy", "automated")
    return automated.get("prune") is True, (*start, "syncPolicy", "automated", "prune")


def _has_permissions(applied: Applied) -> bool:
    return any(
        item.manifest.kind in _PERMISSIONS
        and all(item.manifest.labels.get(key) == value for key, value in MANAGED_BY.items())
        for item in applied.objects
    )


def _keeps_namespace(applied: Applied) -> bool:
    return any(
        item.manifest.kind == "Namespace"
        and mapping(item.manifest.body, "metadata", "annotations").get(FLUX_PRUNE) == "disabled"
        for item in applied.objects
    )
