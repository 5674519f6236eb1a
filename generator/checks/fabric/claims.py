"""fabric/claim, fabric/skipped-claim: do pods find the devices of a driver that they claim?

k8s.io/kubernetes v1.34.2 pkg/controller/resourceclaim/controller.go (the template is of the pod's namespace);
pkg/apis/core/validation/validation.go validateContainerResourceRequirements
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from generator.checks.fabric.attached import named
from generator.checks.fabric.homes import homes, likely_homes
from generator.checks.fabric.pods import PodTemplate
from generator.checks.fabric.read import Fabrics
from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.documents.load import Path
from generator.facts.defects import known
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping

KINDS = frozenset({"ResourceClaimTemplate"})
_CHECK = "fabric/claim"
_GROUP = "resource.k8s.io"
_TEMPLATE = "resourceClaimTemplateName"


def claim(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Templates are judged where the files hold any; what containers claim, always."""
    templates = gathered.names(_GROUP, "ResourceClaimTemplate")
    for pods in gathered.view(Fabrics.read).pods:
        claims = indexed_mappings(pods.spec.get("resourceClaims"))
        for number, said in claims if templates else ():
            name, path = said.get(_TEMPLATE), (*pods.path, "spec", "resourceClaims", number, _TEMPLATE)
            if isinstance(name, str):
                there = {namespace for namespace, names in templates.items() if name in names}
                for breach in _missing(pods, path, name, there, gathered):
                    yield pods.manifest, breach
        known = [each["name"] for _, each in claims if isinstance(each.get("name"), str)]
        for breach in _unknown(pods, known) if not pods.is_patch else ():
            yield pods.manifest, breach


def skipped_claim(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Report a claim that pods share, with other claims listed after it.

    kubernetes v1.34.2 and v1.33.4 pkg/kubelet/cm/dra/manager.go: the loop over the pod's claims returns at one that is
    prepared
    """
    for pods in gathered.view(Fabrics.read).pods:
        listed = indexed_mappings(pods.spec.get("resourceClaims"))
        for number, each in listed[:-1]:
            if isinstance(shared := each.get("resourceClaimName"), str):
                defect = known("kubelet-skips-claims-after-a-shared-one")
                later = ", ".join(f"`{other.get('name')}`" for place, other in listed if place > number)
                breach = Breach(
                    (*pods.path, "spec", "resourceClaims", number, "resourceClaimName"),
                    "fabric/skipped-claim",
                    f"pods share the claim `{shared}`, and {later} come after it",
                    "when another pod on the node already uses the shared claim, the kubelet skips those after it, "
                    f"and the containers never start: unable to get claim info ({defect.note})",
                    f"list `{each.get('name')}` last, or update to {defect.update}",
                    Severity.WARNING,
                    value=shared,
                )
                yield pods.manifest, breach
                break


def _missing(pods: PodTemplate, path: Path, name: str, there: set[str], gathered: Gathered) -> Iterator[Breach]:
    certain, likely = (sorted(spaces - there) for spaces in (homes(pods, gathered), likely_homes(pods, gathered)))
    lacking = certain or likely
    if "" in there or (there and not lacking):
        return
    where = f" in {named(lacking)}" if lacking else ""
    other = f": there is one in {named(sorted(there))}" if there else ""
    yield Breach(
        path,
        _CHECK,
        f"its pods claim by the ResourceClaimTemplate `{name}`, which no file holds{where}{other}",
        "no claim is made of a template that is not in the namespace of the pods, and they stay Pending",
        "make one in each of these namespaces" if there else "add it, or name one that is there",
        Severity.ERROR if there and certain else Severity.WARNING,
        value=name,
    )


def _unknown(pods: PodTemplate, known: Sequence[str]) -> Iterator[Breach]:
    """What containers claim. They need not claim what is in the pod's network, such as an interface of dranet."""
    first = indexed_mappings(pods.spec.get("initContainers"))
    boxes = [((*pods.path, "spec", "initContainers", number), each) for number, each in first]
    for path, container in (*boxes, *pods.containers):
        for number, each in indexed_mappings(mapping(container, "resources").get("claims")):
            name = each.get("name")
            if isinstance(name, str) and name not in known:
                has = f"`resourceClaims` of its pods has {named(list(known))}" if known else "its pods claim nothing"
                yield Breach(
                    (*path, "resources", "claims", number, "name"),
                    _CHECK,
                    f"the container claims `{name}`, and {has}",
                    "the API server refuses such pods",
                    "write one of these, or add it there" if known else "add it to `resourceClaims` of the pods",
                    value=name,
                )
