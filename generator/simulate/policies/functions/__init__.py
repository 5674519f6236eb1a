"""Functions that Kubernetes adds to CEL: k8s.io/apiserver v0.34.2 pkg/cel/environment/base.go."""

from __future__ import annotations

from generator.simulate.policies.functions import authorizer, lists, quantity, strings
from generator.simulate.policies.signatures import Function

FUNCTIONS: tuple[Function, ...] = (
    *quantity.FUNCTIONS,
    *lists.FUNCTIONS,
    *strings.REGEX_FUNCTIONS,
    *strings.ADDRESS_FUNCTIONS,
    *strings.VERSION_FUNCTIONS,
    *strings.FORMAT_FUNCTIONS,
    *strings.URL_FUNCTIONS,
    *authorizer.FUNCTIONS,
)
