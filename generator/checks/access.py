"""Checks of RBAC objects: access/everyone and access/wildcard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from generator.checks.objects import Objects
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.documents.messages import format_value
from generator.facts.names import MANAGED_BY
from generator.facts.privileges import default_roles
from generator.facts.subjects import Meaning, meaning_of
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, mapping, mappings, string, strings

_GROUP = "rbac.authorization.k8s.io"
_BINDINGS = ("ClusterRoleBinding", "RoleBinding")
_PUBLIC = frozenset(("system:public-info-viewer", "system:service-account-issuer-discovery"))
"""ClusterRoles of the API server whose data is public: versions, health, and the keys that verify tokens.

Source: kubernetes v1.34.2 plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go ClusterRoles;
https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/ (issuer discovery)
"""
_OF_USERS = frozenset(("system:basic-user", "system:discovery"))
"""ClusterRoles that the API server itself binds to all authenticated users (in the same file of kubernetes v1.34.2)."""
_READ = frozenset(("get", "list", "watch"))
_OWN = frozenset(("selfsubjectaccessreviews", "selfsubjectreviews", "selfsubjectrulesreviews"))
"""Resources that a user creates to read the user's own name or permissions."""
_SECRET = frozenset(("secrets", "*"))
"""Resources whose verb `get` reads a secret. `*` includes them."""
_SESSIONS = frozenset(("token", "exec", "attach", "portforward", "proxy"))
"""Subresources whose verb `get` opens a session or a connection. `*/exec` is the subresource of all resources.

Source: kubernetes v1.34.2 pkg/registry/core/rest/storage_core.go legacyProvider.NewRESTStorage (their storages),
kubernetes v1.34.2 plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go ClusterRoles; api v0.34.2 rbac/v1/types.go
PolicyRule (`*/subresource`)
"""
_CALLERS: dict[Meaning, str] = {
    "anyone": "every client that reaches the API server, even without authentication",
    "everyone": "every authenticated user of the cluster",
    "accounts": "every ServiceAccount of the cluster, and so every pod with a token",
}


@check("access/everyone", severity=ERROR, needs=Objects)
def everyone(objects: Objects) -> Iterator[Breach]:
    """Report a binding that gives rights to every user or every ServiceAccount of the cluster.

    The groups `system:authenticated`, `system:unauthenticated` and `system:serviceaccounts`, and the user
    `system:anonymous`, belong to no team. The check reports:

    - Every binding of `system:unauthenticated` or `system:anonymous`, because their clients do not authenticate.
    - A binding of `system:authenticated` or `system:serviceaccounts` whose role allows more than reading. Access to
      Secrets, tokens, sessions in pods (`pods/exec`), proxies (`nodes/proxy`) or all resources (`*`) counts as more
      than reading. The finding is
      a warning if the files do not show the rules of the role, except for roles of the API server such as
      `cluster-admin` and `edit`.

    Every client may have the ClusterRoles `system:public-info-viewer` and `system:service-account-issuer-discovery`,
    and every authenticated user the ClusterRoles `system:basic-user` and `system:discovery`, because the API server
    itself binds them so. If the files contain such a ClusterRole, the check reads its rules.

    Source: apiserver v0.34.2 pkg/authentication/user/user.go AllAuthenticated; apiserver v0.34.2
    pkg/authentication/user/user.go AllUnauthenticated; apiserver v0.34.2 pkg/authentication/user/user.go Anonymous
    """
    access = [manifest for manifest in objects.others if manifest.group == _GROUP]
    roles = {(role.kind, role.namespace, role.name): role for role in access if role.kind in ("ClusterRole", "Role")}
    powerful = {row.name for row in default_roles()}
    for binding in access:
        if binding.kind not in _BINDINGS:
            continue
        reference = mapping(binding.body.get("roleRef"))
        role = _role(roles, binding, reference)
        default = string(reference.get("name")) if reference.get("kind") == "ClusterRole" else ""
        for index, subject in indexed_mappings(binding.body.get("subjects")):
            name = string(subject.get("name"))
            meaning = meaning_of(f"{string(subject.get('kind')).lower()}:{name}")
            if meaning not in _CALLERS:
                continue
            only_reads = _only_reads(role) if role is not None else default in _PUBLIC | _OF_USERS
            if only_reads and (meaning != "anyone" or default in _PUBLIC):
                continue
            where = f"in namespace `{binding.namespace}`" if binding.namespace else "in the whole cluster"
            is_known = role is not None or meaning == "anyone" or default in powerful
            yield Breach(
                ("subjects", index, "name"),
                f"{format_value(name)} gets the {reference.get('kind')} `{reference.get('name')}` {where}"
                + ("" if is_known else "; these files do not show the rules of the role"),
                f"the role gives its rights to {_CALLERS[meaning]}",
                "name a group of your identity provider",
                binding,
                ERROR if is_known else WARNING,
            )


def _role(roles: Mapping[tuple[str, str, str], Manifest], binding: Manifest, reference: Body) -> Manifest | None:
    """Return the role of a binding; None if no file has it, or if a controller copies its rules from other roles."""
    kind, name = string(reference.get("kind")), string(reference.get("name"))
    role = roles.get((kind, binding.namespace if kind == "Role" else "", name))
    return None if role is None or "aggregationRule" in role.body else role


def _only_reads(role: Manifest) -> bool:
    """Return True if all rules of a role only read, and give no access to Secrets, tokens, or sessions in pods.

    The verbs `get`, `list` and `watch` read, also on URLs (`nonResourceURLs`). To review the user's own name and
    permissions is reading too.
    """
    return all(_is_reading(rule) for rule in mappings(role.body.get("rules")))


def _is_reading(rule: Body) -> bool:
    verbs, resources = ({*strings(rule.get(name))} for name in ("verbs", "resources"))
    opens = any(resource in _SECRET or resource.partition("/")[2] in _SESSIONS for resource in resources)
    return not opens and (verbs <= _READ or (bool(resources) and resources <= _OWN))


@check("access/wildcard", severity=WARNING, needs=Objects)
def wildcard(objects: Objects) -> Iterator[Breach]:
    """Report a role with a wildcard.

    `*` also includes Secrets, sessions in pods (`pods/exec`), and resources and verbs that a later version adds. mpigen
    writes no wildcard, so the check reports each wildcard in a role with the label
    `app.kubernetes.io/managed-by: mpigen`. Of other roles it reports a rule with all verbs on all resources, unless the
    bindings in the files give the role only to ServiceAccounts: operators often need such a role.

    Source: kubernetes v1.34.2 pkg/apis/rbac/v1/evaluation_helpers.go VerbMatches; kubernetes v1.34.2
    pkg/apis/rbac/v1/evaluation_helpers.go ResourceMatches; kubernetes v1.34.2 pkg/apis/rbac/v1/evaluation_helpers.go
    APIGroupMatches
    """
    access = [manifest for manifest in objects.others if manifest.group == _GROUP]
    subjects: dict[tuple[str, str], set[str]] = {}
    for binding in access:
        if binding.kind in _BINDINGS:
            reference = mapping(binding.body, "roleRef")
            kinds = {string(subject.get("kind")) for subject in mappings(binding.body.get("subjects"))}
            subjects.setdefault((string(reference.get("kind")), string(reference.get("name"))), set()).update(kinds)
    for role in access:
        if role.kind not in ("ClusterRole", "Role"):
            continue
        is_ours = mapping(role.body, "metadata", "labels").items() >= MANAGED_BY.items()
        is_of_operator = subjects.get((role.kind, role.name)) == {"ServiceAccount"}
        for number, rule in indexed_mappings(role.body.get("rules")):
            fields = [field for field in ("verbs", "resources", "apiGroups") if "*" in strings(rule.get(field))]
            if fields and (is_ours or (fields[:2] == ["verbs", "resources"] and not is_of_operator)):
                yield Breach(
                    ("rules", number, fields[0]),
                    f"the rule has the wildcard `*` in {' and '.join(f'`{field}`' for field in fields)}",
                    "its subjects get rights that no reviewer sees, and that grow with each new API and each new verb",
                    "list the API groups, the resources and the verbs that the subjects need",
                    role,
                    value="*",
                )
