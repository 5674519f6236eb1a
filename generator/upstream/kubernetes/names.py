"""Names that Kubernetes accepts: labels of DNS, and the managers of Jobs.

Source: apimachinery v0.34.2 pkg/util/validation/validation.go
"""

from __future__ import annotations

import re

LONGEST_LABEL = 63
"""The most characters of a DNS label."""
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL_OR_DIGIT = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DOMAIN_PATH = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
)


def is_label(name: str, *, starts_with_letter: bool = True) -> bool:
    """Return True if a name is a DNS label.

    Args:
        name: the name.
        starts_with_letter: True for the form of RFC 1035, False for the form of RFC 1123, which can start with a digit.
    """
    pattern = _LABEL if starts_with_letter else _LABEL_OR_DIGIT
    return len(name) <= LONGEST_LABEL and pattern.fullmatch(name) is not None


def find_manager_problem(value: object) -> tuple[str, str] | None:
    """Return the message and the fix for a `managedBy` of a Job or JobSet that is invalid; None if it is valid.

    Source: apimachinery v0.34.2 pkg/util/validation/validation.go IsDomainPrefixedPath; kubernetes v1.34.2
    pkg/apis/batch/validation/validation.go maxManagedByLength
    """
    if not isinstance(value, str) or (_DOMAIN_PATH.fullmatch(value) and len(value) <= LONGEST_LABEL):
        return None
    message = f"`managedBy` is `{value}`, which is not a domain and a path in at most {LONGEST_LABEL} characters"
    return message, "write a domain and a path, such as `kueue.x-k8s.io/multikueue`"
