"""Checks of single objects against their schemas, names and namespaces: schema/*, object/*.

The rules are the JSON Schemas of `schemas/`, compiled from the upstream releases that a platform declares. They are
as strict as the API server's field validation `Strict`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from generator.checks.api_versions import (
    deprecation_breaches,
    find_other_release,
    removed_version,
)
from generator.checks.registry import ERROR, WARNING, Breach, check, declare
from generator.documents.messages import format_path, format_value
from generator.errors import NotModelledError
from generator.manifests import Manifest
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine, Violation, similar

_FABRIC_GROUPS = ("sriovnetwork.openshift.io", "mellanox.com", "k8s.cni.cncf.io")
_JSON_FIXES = {
    **dict.fromkeys(("ipam", "capabilities", "config"), "write the JSON as a string: '{\"type\": …}'"),
    "metaPlugins": 'write the JSON objects as one string, separated by commas: \'{"type": …}, {"type": …}\'',
}
"""Field whose value is JSON in a string → the fix for a mapping or a list."""
_PKEY = "replace this SriovIBNetwork by a NetworkAttachmentDefinition of type `ib-sriov`, with `pkey`"
_PLUGINS = (
    "replace this object by a NetworkAttachmentDefinition with `plugins`: no release of the NVIDIA Network Operator "
    "up to 26.4 has this field"
)
_FABRIC_FIELDS: Mapping[tuple[str, str], str] = {
    ("SriovIBNetwork", "pkey"): _PKEY,
    ("SriovIBNetwork", "pKey"): _PKEY,
    ("SriovNetwork", "metaPluginsConfig"): "rename the field to `metaPlugins`",
    ("SriovIBNetwork", "metaPluginsConfig"): "rename the field to `metaPlugins`",
    ("SriovNetworkNodePolicy", "pfName"): "rename the field to `pfNames`, and set a list",
    ("MacvlanNetwork", "metaPlugins"): _PLUGINS,
    ("HostDeviceNetwork", "metaPlugins"): _PLUGINS,
}
"""(kind, unknown field) → fix."""
_RULES = {
    "additionalProperties": "unknown-field",
    "required": "missing-field",
    "type": "wrong-type",
    "uniqueItems": "duplicate-item",
    "uniqueItemsBy": "duplicate-item",
}
"""JSON Schema keyword → rule. All other keywords are `not-allowed`."""
_REJECTED = "the API server rejects the object"
_WHY = {
    "unknown-field": "strict field validation rejects the object; without it, the API server drops the field silently",
    "duplicate-item": (
        "server-side apply rejects the object; other creates and updates also fail, except in a few lists such as `env`"
    ),
}


def schema_breaches(manifest: Manifest, engine: Engine) -> Iterator[Breach]:
    """Yield the breaches of the schema of a manifest's kind. Each breach names its check."""
    if not manifest.kind or not manifest.api_version:
        yield from _not_an_object(manifest)
        return
    violations = engine.violations(manifest.body)
    if violations is None:
        yield removed_version(manifest, engine) or _no_schema(manifest, engine)
        return
    yield from deprecation_breaches(manifest, engine)
    for violation in violations:
        rule = _RULES.get(violation.keyword, "not-allowed")
        is_unknown = rule == "unknown-field"
        other, fix = find_other_release(manifest, violation.path, engine) if is_unknown else ("", "")
        yield Breach(
            violation.path,
            f"{violation.message}: {other}" if other else violation.message,
            _WHY.get(rule, _REJECTED),
            fix or _fabric_fix(manifest, violation) or violation.fix,
            at_key=violation.keyword in ("additionalProperties", "propertyNames"),
            value=None if rule == "missing-field" else violation.value,
            check=f"schema/{rule}",
        )
    yield from _rule_breaches(manifest, engine, violations)
    paths = {violation.path for violation in violations}
    for violation in engine.nulls(manifest.body):
        if violation.path not in paths:
            yield Breach(
                violation.path,
                "this field is null",
                "a create request drops a null field, but server-side apply, which Argo CD uses here, rejects the "
                "object",
                "remove the field, or set a value",
                check="schema/null",
            )


def _no_schema(manifest: Manifest, engine: Engine) -> Breach:
    message = f"no schema for {manifest.kind} of {manifest.api_version}"
    fix = "correct the `apiVersion`, or name a folder with the kind's definition in `schema-locations` of mpigen.toml"
    if kind := similar(manifest.kind, engine.kinds(manifest.api_version)):
        fix = f"did you mean `{kind}`?"
    if reason := engine.explain_unusable(manifest.api_version, manifest.kind):
        message += f", because mpigen cannot read its definition: {reason}"
        fix = "correct the definition, or name a folder with a JSON Schema in `schema-locations` of mpigen.toml"
    why = "mpigen cannot validate the object, so it may contain any mistake"
    return Breach(("kind",), message, why, fix, check="schema/no-schema")


REPORTED: Mapping[str, str] = {
    "borrowingLimit must be nil when cohort is empty": "quota/limit",
    "flavors must have the same number of resources as the coveredResources": "quota/order",
}
"""Message of a CEL rule → the check that reports every object that breaks the rule, with the exact field."""


def _rule_breaches(manifest: Manifest, engine: Engine, violations: Sequence[Violation]) -> Iterator[Breach]:
    """Yield the breaches of the CEL rules of a custom kind.

    Rules about values that `violations` report are left out, and the rules in `REPORTED`.
    """
    wrong = [violation.path for violation in violations]
    rules = [rule for rule in engine.rules(manifest.body) if rule.message not in REPORTED]
    rules = [rule for rule in rules if not any(path[: len(rule.path)] == rule.path for path in wrong)]
    if not rules:
        return
    from generator.upstream.kubernetes.cel import rules as cel  # importing CEL takes as long as checking a file

    for rule in rules:
        with suppress(NotModelledError):
            if not cel.is_accepted(rule):
                path, value = cel.find_place(rule, manifest.body)
                place = f"`{format_path(rule.path)}`" if rule.path else "the object"
                field = format_path(path[-2:] if path and isinstance(path[-1], int) else path[-1:]) or manifest.name
                yield Breach(
                    path,
                    f"`{field}` breaks a rule of {manifest.kind}: {cel.message_of(rule)}",
                    _REJECTED,
                    f"make this CEL expression true, in which `self` is {place}: `{' '.join(rule.rule.split())}`",
                    value=value,
                    check="schema/rule",
                )


def _not_an_object(manifest: Manifest) -> Iterator[Breach]:
    name, why = "schema/not-an-object", "the API server needs the kind and the version of an object"
    if manifest.instead:
        message = f"{'an item' if manifest.inside else 'a document'} is {manifest.instead}, not an object"
        yield Breach((), message, why, "write an object with `apiVersion` and `kind`", check=name)
        return
    values = {key: manifest.body.get(key) for key in ("apiVersion", "kind")}
    missing = [f"`{key}`" for key, value in values.items() if value in (None, "")]
    if missing:
        message = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        yield Breach((), message, why, f"add {' and '.join(missing)}", check=name)
    for key, value in values.items():
        if value is not None and not isinstance(value, str):
            message = f"`{key}` is {format_value(value)}, not a string"
            yield Breach((key,), message, why, "set a string", check=name, value=value)


def _fabric_fix(manifest: Manifest, violation: Violation) -> str:
    """Return the fix of a frequent mistake in an object of a network operator; empty for any other violation."""
    if manifest.group not in _FABRIC_GROUPS or not violation.path:
        return ""
    field = violation.path[-1]
    if violation.keyword == "additionalProperties":
        if manifest.kind == "SriovNetworkPoolConfig" and violation.path[:2] == ("spec", "nodeSelector"):
            return "move the label below `matchLabels`: an empty selector selects every node"
        return _FABRIC_FIELDS.get((manifest.kind, str(field)), "")
    if violation.keyword not in ("type", "enum"):
        return ""
    if field in ("spoofChk", "trust") and isinstance(violation.value, bool):
        return 'write "on" or "off" in quotes, because YAML reads on and off without quotes as booleans'
    return _JSON_FIXES.get(str(field), "") if isinstance(violation.value, dict | list) else ""


@check("object/unnamed", severity=ERROR, needs=Manifest)
def unnamed(manifest: Manifest) -> Iterator[Breach]:
    """Report an object without a name.

    The object has neither `metadata.name` nor `metadata.generateName`, so the API server rejects it.

    Source: apimachinery v0.34.2 pkg/api/validation/objectmeta.go ValidateObjectMetaAccessor
    """
    metadata = manifest.body.get("metadata")
    is_generated = isinstance(metadata, dict) and metadata.get("generateName")
    if not manifest.name and not is_generated and not manifest.kind.endswith("Review"):
        yield Breach(("metadata",), "`metadata.name` is missing", _REJECTED, "add `metadata.name`")


def release_breaches(manifests: Sequence[Manifest], catalog: Catalog) -> Iterator[Breach]:
    """Yield the objects of a release with a wrong scope. Each breach names its check."""
    for manifest in manifests:
        scope = catalog.scope(manifest.api_version, manifest.kind)
        _, kind, namespace, _ = manifest.identity
        if scope == "Namespaced" and not namespace:
            yield Breach(
                ("metadata",),
                "`metadata.namespace` is missing",
                "the client that applies the object creates it in the client's current namespace",
                "set `metadata.namespace` to the tenant's namespace",
                manifest,
                check="object/no-namespace",
            )
        if scope == "Cluster" and namespace:
            yield Breach(
                ("metadata", "namespace"),
                f"a {kind} is cluster-scoped, but `metadata.namespace` is {format_value(namespace)}",
                "the API server rejects the object or drops the namespace, and Argo CD never finds the object in sync",
                "remove `metadata.namespace`",
                manifest,
                value=namespace,
                check="object/not-namespaced",
            )


declare(
    "schema/not-an-object",
    severity=ERROR,
    text="""Report a document that is not an object with `apiVersion` and `kind`.

    A document or an item of a list is not a mapping, or its `apiVersion` or `kind` is absent or is not a string.
    kubectl and Argo CD cannot apply such a document. mpigen still checks the other documents of the file.

    Source: apimachinery v0.34.2 pkg/runtime/error.go: "Object 'Kind' is missing", "Object 'apiVersion' is
    missing"
    """,
)
declare(
    "schema/no-schema",
    severity=ERROR,
    text="""Report a kind that is in none of the known upstream releases.

    Without a schema, mpigen cannot check the object. Often the `apiVersion` is wrong. If the files have the
    CustomResourceDefinition of the kind, the finding names what mpigen cannot read in it. If an operator installs the
    definition, copy it to a folder of your repository, and name the folder in `schema-locations` of `mpigen.toml`.
    `mpigen validate --ignore-missing-schemas` lowers the finding to an info.

    Source: the OpenAPI schemas and CustomResourceDefinitions of the pinned releases (schemas/catalog.json)
    """,
)
declare(
    "schema/unknown-field",
    severity=ERROR,
    text="""Report a field that the schema of the kind does not have.

    With strict field validation the API server rejects the object. Without strict validation, the API server drops the
    field silently. For some fields of the SR-IOV Network Operator and of the NVIDIA Network Operator that users expect
    but that no release has, the finding names the field or the object to use instead. For a field that a release
    removed, the finding names the release and the replacement. A field that a release after all targets added is a
    warning, because the cluster may have this release.

    Source: apiextensions-apiserver v0.34.2 pkg/apiserver/schema/pruning/algorithm.go PruneWithOptions
    """,
)
declare(
    "schema/missing-field",
    severity=ERROR,
    text="""Report a required field that is absent.

    The API server rejects an object without a required field.

    Source: the OpenAPI schemas and CustomResourceDefinitions of the pinned releases (schemas/catalog.json)
    """,
)
declare(
    "schema/wrong-type",
    severity=ERROR,
    text="""Report a value whose type the field does not accept.

    The API server rejects, for example, a number in a string field, or a string in place of a mapping.

    Source: the OpenAPI schemas and CustomResourceDefinitions of the pinned releases (schemas/catalog.json)
    """,
)
declare(
    "schema/not-allowed",
    severity=ERROR,
    text="""Report a value that the field does not allow.

    The value has the right type, but breaks another rule: an enum, a pattern, a range, a length, the format of names
    or labels, or a field that excludes another. The API server rejects the object.

    Source: the OpenAPI schemas and CustomResourceDefinitions of the pinned releases (schemas/catalog.json)
    """,
)
declare(
    "schema/duplicate-item",
    severity=ERROR,
    text="""Report two items of a list with the same key.

    The API merges the items of such a list by a key, such as their name. Server-side apply, which Argo CD uses here,
    rejects two items with one key. For custom resources and most built-in kinds, the API server also rejects all other
    requests.

    Source: structured-merge-diff v6.3.0 typed/validate.go: "duplicate entries for key"
    """,
)
declare(
    "schema/rule",
    severity=ERROR,
    text="""Report an object that breaks a CEL rule of its CustomResourceDefinition.

    The API server evaluates these rules (`x-kubernetes-validations`) after it sets the defaults of the schema, and
    rejects the object if a rule is false or fails. The finding has the message of the rule. The check needs a value
    that the schema accepts, and it does not evaluate rules about the status.

    Other checks report some rules: [change/immutable](../change/immutable.md) reports the rules that compare the object
    with the stored one (`oldSelf`), [quota/limit](../quota/limit.md) reports a limit without a cohort, and
    [quota/order](../quota/order.md) reports a flavor without a resource of `coveredResources`.

    Source: apiextensions-apiserver v0.34.2 pkg/apiserver/schema/cel/validation.go Validator.Validate; the
    CustomResourceDefinitions of the pinned releases (schemas/catalog.json)
    """,
)
declare(
    "schema/null",
    severity=WARNING,
    text="""Report a field of a custom resource whose value is null.

    A create request drops a null field, but server-side apply rejects the object unless the field has a default.
    In built-in kinds and in metadata, null equals an absent field, so the check does not report it there.

    Source: apiextensions-apiserver v0.34.2 pkg/apiserver/schema/defaulting/prunenulls.go
    PruneNonNullableNullsWithoutDefaults
    """,
)
declare(
    "object/no-namespace",
    severity=ERROR,
    text="""Report an object of a namespaced kind without a namespace.

    The client that applies the object creates it in the client's current namespace. Only `synth` runs this check.

    Source: argo-cd v3.2.1 controller/state.go DeduplicateTargetObjects sets the namespace of the Application
    """,
)
declare(
    "object/not-namespaced",
    severity=ERROR,
    text="""Report an object of a cluster-scoped kind with a namespace.

    The API server rejects the object or drops the namespace, so Argo CD never finds the object in sync. Only `synth`
    runs this check.

    Source: apiserver v0.34.2 pkg/registry/rest/meta.go EnsureObjectNamespaceMatchesRequestNamespace
    """,
)
