"""What Kubernetes adds to CEL, by library: k8s.io/apiserver v0.34.2 pkg/cel/environment/base.go says since when."""

from __future__ import annotations

from generator.simulate.policies.functions import addresses, authorizer, formats, lists, quantity, regex, semver, urls
from generator.simulate.policies.signatures import Function

FUNCTIONS: tuple[Function, ...] = (
    *quantity.FUNCTIONS,
    *lists.FUNCTIONS,
    *regex.FUNCTIONS,
    *addresses.FUNCTIONS,
    *semver.FUNCTIONS,
    *formats.FUNCTIONS,
    *urls.FUNCTIONS,
    *authorizer.FUNCTIONS,
)
