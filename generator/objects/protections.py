"""The protections of a release: its admission rules with their actions and exempt callers, and Pod Security levels.

The lock `release.json` lists them, so that a reviewer sees each weaker protection as one changed line, and so that a
tree without its admission rules differs from its lock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from generator.facts.names import MANAGED_BY, POD_SECURITY_ENFORCE, TENANT_LABEL
from generator.manifests import Manifest
from generator.objects.fields import mapping, mappings, string, strings

POLICY = "ValidatingAdmissionPolicy"
BINDING = "ValidatingAdmissionPolicyBinding"
CALLERS = "Callers"
"""The key of the users and groups that admission rules name."""
_DEFAULT_DENY = "np-default-deny"
_PARTS = ("matchConditions", "validations")
_STRING = re.compile(r"'([^']*)'|\"([^\"]*)\"")


def read_protections(manifests: Iterable[Manifest]) -> dict[str, str]:
    """Return the protections of the generated objects: `KIND/NAME`, or `NetworkPolicy/NAMESPACE/NAME`, → protection.

    Objects that protect nothing have no entry. The value of a policy is the number of its conditions and validations;
    of a binding, its actions; of a namespace of a tenant, its Pod Security level; of the NetworkPolicy
    `np-default-deny`, its policy types. The key `Callers` has the users and groups that the policies name.
    """
    generated = [item for item in manifests if _labels(item).items() >= MANAGED_BY.items()]
    names = sorted({name for item in generated if item.kind == POLICY for name in _names(item)})
    callers = {CALLERS: ", ".join(names)} if names else {}
    return dict(sorted({**callers, **dict(pair for item in generated for pair in _protections(item))}.items()))


def _labels(manifest: Manifest) -> Mapping[str, object]:
    return mapping(manifest.body, "metadata", "labels")


def _protections(manifest: Manifest) -> Iterator[tuple[str, str]]:
    labels, spec = _labels(manifest), mapping(manifest.body, "spec")
    if manifest.kind == POLICY:
        counts = (f"{len(mappings(spec.get(part)))} {part}" for part in _PARTS)
        yield f"{POLICY}/{manifest.name}", ", ".join(counts)
    elif manifest.kind == BINDING:
        yield f"{BINDING}/{manifest.name}", ",".join(sorted(strings(spec.get("validationActions"))))
    elif manifest.kind == "Namespace" and TENANT_LABEL in labels:
        yield f"Namespace/{manifest.name}", string(labels.get(POD_SECURITY_ENFORCE), "privileged")
    elif manifest.kind == "NetworkPolicy" and manifest.name == _DEFAULT_DENY:
        yield f"NetworkPolicy/{manifest.namespace}/{manifest.name}", ",".join(strings(spec.get("policyTypes")))


def _names(policy: Manifest) -> Iterator[str]:
    """Yield the quoted strings in the expressions of a policy that contain `request.userInfo`."""
    spec = mapping(policy.body, "spec")
    for part in (*_PARTS, "variables"):
        for row in mappings(spec.get(part)):
            text = string(row.get("expression"))
            if "request.userInfo" in text:
                yield from (match[1] or match[2] or "" for match in _STRING.finditer(text))
