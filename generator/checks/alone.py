"""Run the rules that read a single object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from generator.checks.corrected import correct
from generator.checks.finding import Located
from generator.checks.pod.fields import field as pod_fields
from generator.checks.registry import Suite, complete
from generator.checks.schema import schema_breaches
from generator.checks.volume_claims import volume_claim
from generator.manifests import Manifest
from generator.objects.fields import mappings
from generator.schemas.embedded import Engine

OURS = Suite()
"""The checks of mpigen alone."""
_POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def judge_alone(manifest: Manifest, engine: Engine, suite: Suite) -> Iterator[Located]:
    """Yield the breaches of the rules that read a single object."""
    breaches = list(schema_breaches(manifest, engine))
    engines = (*pod_fields(manifest, engine, breaches), *volume_claim(manifest, engine, breaches))
    for breach in (*breaches, *engines):
        yield complete(breach, manifest)
    if not manifest.kind or not manifest.api_version:
        return
    hooks = mappings(manifest.body.get("webhooks")) if manifest.kind in _WEBHOOKS else ()
    if manifest.kind in _POLICIES or any("matchConditions" in hook for hook in hooks):
        from generator.checks.policy import policy_breaches  # importing CEL takes as long as checking a file

        for breach in policy_breaches(manifest, engine.targets):
            yield complete(breach, manifest)
    corrected = correct(manifest, engine) if breaches else manifest
    is_known = engine.has_schema(corrected.api_version, corrected.kind)
    for located in judge(corrected, engine.targets, suite):
        if is_known or located[1].check != "object/unnamed":  # an unknown kind can be the configuration of a tool
            yield located


def judge(manifest: Manifest, targets: Mapping[str, str], suite: Suite = OURS) -> Iterator[Located]:
    """Yield the breaches of the registered rules that read a single object."""
    for needs, checks in suite.of_objects(targets).items():
        subject = manifest if needs is Manifest else needs.of_manifest(manifest, targets)
        if subject is not None:
            for check in checks:
                yield from suite.run(check, subject, manifest)
