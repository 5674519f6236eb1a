"""quota/not-canonical: quantities of Kueue's objects that the cluster stores in another spelling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from generator import quantities
from generator.checks.registry import INFO, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_path
from generator.manifests import Manifest
from generator.objects.training import KUEUE
from generator.schemas.catalog import Catalog
from generator.schemas.updates import find_quantities

_CREATES = "Kueue's webhook adds a finalizer to a new ClusterQueue, and writes all its quantities in canonical form"
_CONVERTS = "Kueue's conversion webhook writes all quantities of `v1beta1` objects in canonical form"
_COMPARES = "Argo CD compares the text, and shows the object as OutOfSync"
_WRITERS = {
    ("v1beta2", "ClusterQueue"): f"{_CREATES}; {_COMPARES}",
    **dict.fromkeys(
        [("v1beta1", kind) for kind in ("ClusterQueue", "Cohort", "LocalQueue")], f"{_CONVERTS}; {_COMPARES}"
    ),
}
"""Version and kind → the reason why the cluster stores the canonical spelling of each quantity."""


@dataclass(frozen=True, slots=True)
class Written:
    """The quantities of an object that a webhook of Kueue writes anew.

    Attributes:
        why: the reason.
        amounts: (path, quantity as text).
    """

    why: str
    amounts: tuple[tuple[Path, str], ...]

    @classmethod
    def of_manifest(cls, manifest: Manifest, targets: Mapping[str, str]) -> Written | None:
        """Return the quantities of a manifest; None for a kind that the API server stores as it is written."""
        group, _, version = manifest.api_version.rpartition("/")
        why = _WRITERS.get((version, manifest.kind)) if group == KUEUE else None
        schema = Catalog.bundled(targets).schema(manifest.api_version, manifest.kind) if why else None
        if why is None or schema is None:
            return None
        amounts = find_quantities(manifest.body, schema, schema)
        return cls(why, tuple((path, value) for path, value in amounts if isinstance(value, str)))


@check("quota/not-canonical", severity=INFO, needs=Written)
def not_canonical(written: Written) -> Iterator[Breach]:
    """Report a quantity that is not in canonical form, so that Argo CD shows a difference.

    `12000m` and `12` are the same amount, and so are `1024Mi` and `1Gi`. For a new ClusterQueue, Kueue's mutating
    webhook decodes the object, adds a finalizer, and encodes the object, with each quantity in canonical form. A later
    sync stores the text of the file again, because the webhook only runs for new objects. Kueue's conversion webhook
    encodes each object of `v1beta1`. The API server stores the quantities of other custom resources unchanged, and
    Argo CD compares built-in kinds by amount. The check reads only quantities in quotes or with a suffix.

    Source: kueue v0.19.2 pkg/webhooks/clusterqueue_webhook.go ClusterQueueWebhook.Default; kueue v0.19.2
    apis/kueue/v1beta1/clusterqueue_conversion.go; controller-runtime v0.24.1 pkg/webhook/admission/defaulter_custom.go
    defaulterForType.Handle; apimachinery v0.36.2 pkg/api/resource/quantity.go Quantity.UnmarshalJSON; apimachinery
    v0.36.2 pkg/api/resource/quantity.go Quantity.MarshalJSON
    """
    others = [(path, text, canonical) for path, text in written.amounts if (canonical := _canonical(text)) != text]
    if not others:
        return
    path, text, canonical = others[0]
    more = len(others) - 1
    also = f"; {more} more {'quantity differs' if more == 1 else 'quantities differ'}" if more else ""
    fixes = ", ".join(dict.fromkeys(f"`{_quoted(new)}` instead of `{old}`" for _, old, new in others))
    yield Breach(
        path,
        f"`{format_path(path[-1:])}` is `{text}`, and the cluster stores `{canonical}`{also}",
        written.why,
        f"write {fixes}",
        value=text,
    )


def _quoted(canonical: str) -> str:
    """Return a quantity as YAML: a whole number in quotes, because the cluster stores a string."""
    return f'"{canonical}"' if canonical.lstrip("-").isdigit() else canonical


def _canonical(text: str) -> str:
    """Return the canonical form of a quantity; the text itself if it has an exponent, or is no quantity."""
    try:
        return text if "e" in text.lower().removesuffix("ei").removesuffix("e") else str(quantities.parse(text.strip()))
    except ValueError:
        return text
