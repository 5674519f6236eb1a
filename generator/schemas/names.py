"""What each kind allows as `metadata.name`.

Observed: kube-apiserver v1.34.2 was asked to create each kind under eighteen names (`dryRun=All`). Custom resources are
named like most kinds: k8s.io/apiextensions-apiserver v0.34.2 pkg/registry/customresource/validator.go.
"""

from __future__ import annotations

from typing import NamedTuple

from generator.schemas.formats import Schema
from generator.schemas.narrow import narrowed
from generator.schemas.patterns import LABEL, LABEL_NAME, SUBDOMAIN, SUBDOMAIN_NAME
from generator.schemas.patterns import MEANINGS as PATTERNS

_IN_URL = r"(\.{0,2}[^/%.][^/%]*|\.{3,}[^/%]*)"


class Rule(NamedTuple):
    """What a kind allows: in words, as a pattern, and how many letters at most."""

    meaning: str
    pattern: str
    longest: int = 253

    @property
    def name(self) -> str:
        """The pattern of a name; an empty one is a missing one, which is another matter."""
        return f"^({self.pattern})?$"

    @property
    def beginning(self) -> str:
        """The pattern of a `generateName`."""
        return f"^({self.pattern}-*)?$"


_USUAL = Rule(PATTERNS[SUBDOMAIN_NAME], SUBDOMAIN)
_DOTLESS = Rule(PATTERNS[LABEL_NAME], LABEL, 63)
_SERVICE = Rule(f"{_DOTLESS.meaning} that begins with a letter", "[a-z]([-a-z0-9]*[a-z0-9])?", 63)
_SEGMENT = Rule("a name for a URL: neither `.` nor `..`, and without `/` and `%`", _IN_URL, 2**16)
_RULES = {
    ("", "Namespace"): _DOTLESS,
    ("", "Service"): _SERVICE,
    ("", "Event"): _SEGMENT,
    ("apps", "StatefulSet"): _DOTLESS,
    ("batch", "CronJob"): _USUAL._replace(longest=52),  # the names of its Jobs are eleven letters longer
    ("batch", "Job"): _USUAL._replace(longest=63),  # a label of its pods
    ("policy", "PodDisruptionBudget"): _SEGMENT,
    ("rbac.authorization.k8s.io", "ClusterRole"): _SEGMENT,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _SEGMENT,
    ("rbac.authorization.k8s.io", "Role"): _SEGMENT,
    ("rbac.authorization.k8s.io", "RoleBinding"): _SEGMENT,
}
# Reviews and Bindings are answered, not stored; the others have rules of their own, or were not served when we asked.
_UNKNOWN = {
    ("", "Binding"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("apiregistration.k8s.io", "APIService"),
    ("coordination.k8s.io", "LeaseCandidate"),
    ("networking.k8s.io", "IPAddress"),
    ("resource.k8s.io", "DeviceTaintRule"),
}
_UNKNOWN_GROUPS = {
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "internal.apiserver.k8s.io",
    "storagemigration.k8s.io",
}

MEANINGS = {
    **{rule.name: rule.meaning for rule in (_USUAL, _DOTLESS, _SERVICE, _SEGMENT)},
    **{rule.beginning: f"the beginning of {rule.meaning}" for rule in (_USUAL, _DOTLESS, _SERVICE, _SEGMENT)},
}
"""Pattern → what fits it, in words."""


def named(group: str, kind: str, metadata: Schema) -> Schema:
    """The metadata of a kind, with the names that it allows."""
    if group in _UNKNOWN_GROUPS or (group, kind) in _UNKNOWN:
        return metadata
    rule = _RULES.get((group, kind), _USUAL)
    allowed = {
        "name": {"pattern": rule.name, "maxLength": rule.longest},
        "generateName": {"pattern": rule.beginning, "maxLength": rule.longest},
    }
    return narrowed(metadata, {"properties": allowed})
