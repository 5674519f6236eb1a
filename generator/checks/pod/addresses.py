"""pod/address: IP addresses of pods in a form that the API server rejects since Kubernetes 1.36."""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.addresses import address_breaches
from generator.checks.pod.templates import Pods, effect
from generator.checks.registry import ERROR, Breach, check

_FIELDS = (("spec", "dnsConfig", "nameservers", "[]"), ("spec", "hostAliases", "[]", "ip"))


@check("pod/address", severity=ERROR, needs=Pods, since="kubernetes 1.36")
def address(pods: Pods) -> Iterator[Breach]:
    """Report an IP address of pods in a form that the API server rejects since Kubernetes 1.36.

    The check reads `hostAliases` and the nameservers in `dnsConfig`. [object/address](../object/address.md) has the
    forms.

    Source: kubernetes v1.36.3 pkg/apis/core/validation/validation.go IsValidIPForLegacyField; kubernetes v1.36.3
    pkg/features/kube_features.go StrictIPCIDRValidation
    """
    for template in pods.templates:
        for field in _FIELDS:
            yield from address_breaches(template.body, template.path, field, effect(template))
