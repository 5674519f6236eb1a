"""Checks of single objects against their schemas, names and namespaces: schema/*, object/*.

The rules are the JSON Schemas of `schemas/`, compiled from the upstream releases that a platform declares. They are
as strict as the API server's field validation `Strict`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence

from generator.checks.registry import ERROR, WARNING, Breach, check, declare
from generator.documents.messages import format_value
from generator.manifests import Manifest
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine, Violation, list_types

_FABRIC_GROUPS = ("sriovnetwork.openshift.io", "mellanox.com", "k8s.cni.cncf.io")
_JSON_FIELDS = ("ipam", "metaPlugins", "capabilities", "config")
_PKEY = "replace this SriovIBNetwork by a NetworkAttachmentDefinition of type `ib-sriov`, with `pkey`"
_PLUGINS = (
    "replace this object by a NetworkAttachmentDefinition with `plugins`: no release of the NVIDIA Network Operator "
    "up to 26.4 has this field"
)
_FABRIC_FIELDS: Mapping[tuple[str, str], str] = {
    ("SriovIBNetwork", "pkey"): _PKEY,
    ("SriovIBNetwork", "pKey"): _PKEY,
    ("SriovNetwork", "metaPluginsConfig"): "rename it to `metaPlugins`",
    ("SriovIBNetwork", "metaPluginsConfig"): "rename it to `metaPlugins`",
    ("SriovNetworkNodePolicy", "pfName"): "rename it to `pfNames`, and set a list",
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
    "duplicate-item": "server-side apply rejects the object; for most lists, every other request fails too",
}


def schema_breaches(manifest: Manifest, engine: Engine) -> Iterator[Breach]:
    """Yield the breaches of the schema of a manifest's kind. Each names its check."""
    if not manifest.kind or not manifest.api_version:
        yield from _not_an_object(manifest)
        return
    violations = engine.violations(manifest.body)
    if violations is None:
        yield Breach(
            ("kind",),
            f"no schema for {manifest.kind} of {manifest.api_version}",
            "mpigen cannot validate the object, so it may contain any mistake",
            "correct the `apiVersion`, or pass --ignore-missing-schemas",
            check="schema/no-schema",
        )
        return
    for violation in violations:
        rule = _RULES.get(violation.keyword, "not-allowed")
        yield Breach(
            violation.path,
            violation.message,
            _WHY.get(rule, _REJECTED),
            _fabric_fix(manifest, violation) or fix_of(violation),
            at_key=violation.keyword in ("additionalProperties", "propertyNames"),
            value=None if rule == "missing-field" else violation.value,
            check=f"schema/{rule}",
        )
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


def _not_an_object(manifest: Manifest) -> Iterator[Breach]:
    name, why = "schema/not-an-object", "the API server needs the kind and the version of an object"
    if manifest.instead:
        message = f"{'an item' if manifest.inside else 'a document'} is {manifest.instead}, not an object"
        yield Breach((), message, why, "start it with apiVersion and kind", check=name)
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
            return "move it below `matchLabels`: an empty selector selects every node"
        return _FABRIC_FIELDS.get((manifest.kind, str(field)), "")
    if violation.keyword not in ("type", "enum"):
        return ""
    if field in ("spoofChk", "trust") and isinstance(violation.value, bool):
        return 'write "on" or "off" in quotes, because YAML reads on and off without quotes as booleans'
    if field == "metaPlugins" and isinstance(violation.value, dict | list):
        return 'write the JSON objects as one string, separated by commas: \'{"type": …}, {"type": …}\''
    is_json = field in _JSON_FIELDS and isinstance(violation.value, dict | list)
    return "write the JSON as a string: '{\"type\": …}'" if is_json else ""


def fix_of(violation: Violation) -> str:
    """Return the fix of a violation of a schema."""
    match _RULES.get(violation.keyword):
        case "unknown-field":
            return _suggest(violation.path[-1], violation.candidates) or "remove the field"
        case "missing-field":
            return "add the field"
        case "duplicate-item":
            return "keep one of the two items"
        case "wrong-type":
            is_unquoted = isinstance(violation.value, bool | int | float) and "string" in violation.expected
            types = list_types(violation.expected).replace("a boolean", "true or false")
            return "put the value in quotes" if is_unquoted else f"write {types}"
    if violation.is_superfluous:
        return "remove it"
    if isinstance(violation.expected, tuple):
        allowed = [str(value) for value in violation.expected]
        return _suggest(violation.value, allowed) or f"write one of: {', '.join(allowed)}"
    return "correct the key" if violation.keyword == "propertyNames" else "correct the value"


def _suggest(word: object, candidates: Sequence[str]) -> str:
    close = difflib.get_close_matches(str(word), candidates, n=1)
    return f"did you mean `{close[0]}`?" if close else ""


@check("object/unnamed", severity=ERROR, needs=Manifest)
def unnamed(manifest: Manifest) -> Iterator[Breach]:
    """Report an object without a name.

    The object has neither `metadata.name` nor `metadata.generateName`, so the API server rejects it.
    """
    metadata = manifest.body.get("metadata")
    is_generated = isinstance(metadata, dict) and metadata.get("generateName")
    if not manifest.name and not is_generated and not manifest.kind.endswith("Review"):
        yield Breach(("metadata",), "`metadata.name` is missing", _REJECTED, "add `metadata.name`")


def release_breaches(manifests: Sequence[Manifest], catalog: Catalog) -> Iterator[Breach]:
    """Yield duplicate objects of a release, and objects with a wrong scope. Each breach names its check."""
    first: dict[tuple[str, str, str, str], Manifest] = {}
    for manifest in manifests:
        scope = catalog.scope(manifest.api_version, manifest.kind)
        group, kind, namespace, name = manifest.identity
        other = first.setdefault((group, kind, "" if scope == "Cluster" else namespace, name), manifest)
        if other is not manifest and manifest.name:
            yield Breach(
                ("metadata",),
                f"an object with the same kind, namespace and name is also in {other.file}",
                "the object that is applied last replaces the other object, and Argo CD never finds both in sync",
                "rename or remove one of the two objects",
                manifest,
                check="object/duplicate",
            )
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
                "the API server rejects the object or drops the namespace, and Argo CD never finds it in sync",
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
    """,
)
declare(
    "schema/no-schema",
    severity=ERROR,
    text="""Report a kind that is in none of the known upstream releases.

    Without a schema, mpigen cannot check the object. Often the `apiVersion` is wrong.
    `--ignore-missing-schemas` lowers the finding to an info.
    """,
)
declare(
    "schema/unknown-field",
    severity=ERROR,
    text="""Report a field that the schema of the kind does not have.

    With strict field validation the API server rejects the object. Without strict validation, the API server drops the
    field silently. For some fields of the SR-IOV Network Operator and of the NVIDIA Network Operator that users expect
    but that no release has, the finding names the field or the object to use instead.
    """,
)
declare(
    "schema/missing-field",
    severity=ERROR,
    text="""Report a required field that is absent.

    The API server rejects an object without a required field.
    """,
)
declare(
    "schema/wrong-type",
    severity=ERROR,
    text="""Report a value whose type the field does not accept.

    The API server rejects, for example, a number in a string field, or a string in place of a mapping.
    """,
)
declare(
    "schema/not-allowed",
    severity=ERROR,
    text="""Report a value that the field does not allow.

    The value has the right type, but breaks another rule: an enum, a pattern, a range, a length, the format of names
    or labels, or a field that excludes another. The API server rejects the object.
    """,
)
declare(
    "schema/duplicate-item",
    severity=ERROR,
    text="""Report two items of a list with the same key.

    The API merges the items of such a list by a key, such as their name. Server-side apply, which Argo CD uses
    here, rejects two items with one key. For custom resources and most built-in kinds, every other request is
    rejected too.
    """,
)
declare(
    "schema/null",
    severity=WARNING,
    text="""Report a field of a custom resource without a value.

    A create request drops a null field, but server-side apply rejects the object unless the field has a default.
    In built-in kinds and in metadata, null equals an absent field, so the check does not report it there.
    """,
)
declare(
    "object/duplicate",
    severity=ERROR,
    text="""Report two objects of a release with the same identity.

    Two objects have the same group, kind, namespace and name. The object that is applied last replaces the other one.
    For cluster-scoped kinds the namespace does not count. Only `synth` checks it.
    """,
)
declare(
    "object/no-namespace",
    severity=ERROR,
    text="""Report an object of a namespaced kind without a namespace.

    The client that applies the object creates it in the client's current namespace. Only `synth` checks it.
    """,
)
declare(
    "object/not-namespaced",
    severity=ERROR,
    text="""Report an object of a cluster-scoped kind with a namespace.

    The API server rejects the object or drops the namespace, so Argo CD never finds it in sync. Only `synth`
    checks it.
    """,
)
