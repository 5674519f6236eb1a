"""What Kubernetes grants everybody, also where no file says so.

kubernetes v1.34.2 plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go: of `ClusterRoleBindings`, those to groups
that everybody is in. The API server writes them again whenever it starts.
"""

from __future__ import annotations

from collections.abc import Iterable

from generator.simulate.access import Access, Grant, Rule, Subject

_HEALTH = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_API = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*")
_KEYS = (
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/",
    "/openid/v1/jwks",
    "/openid/v1/jwks/",
)
_SELF_REVIEWS = (
    Rule(("create",), ("authorization.k8s.io",), ("selfsubjectaccessreviews", "selfsubjectrulesreviews"), (), ()),
    Rule(("create",), ("authentication.k8s.io",), ("selfsubjectreviews",), (), ()),
)


def _get(*urls: str) -> Rule:
    return Rule(("get",), (), (), (), urls)


def _grant(name: str, groups: Iterable[str], *rules: Rule) -> Grant:
    subjects = tuple(Subject(is_group=True, name=each, written=f'Group "{each}"') for each in groups)
    return Grant(f"ClusterRoleBinding {name}", f"ClusterRole {name}", "", subjects, rules, "", "")


GRANTS = (
    _grant("system:basic-user", ["system:authenticated"], *_SELF_REVIEWS),
    _grant("system:discovery", ["system:authenticated"], _get(*_API, *_HEALTH)),
    _grant("system:public-info-viewer", ["system:authenticated", "system:unauthenticated"], _get(*_HEALTH)),
    _grant("system:service-account-issuer-discovery", ["system:serviceaccounts"], _get(*_KEYS)),
)
"""The grants; none that is for parts of Kubernetes, or for superusers."""


def with_everybody(found: Access) -> Access:
    """With what everybody is granted, where the files do not say what that is."""
    named = {each.binding for each in found.grants}
    return Access((*(each for each in GRANTS if each.binding not in named), *found.grants))
