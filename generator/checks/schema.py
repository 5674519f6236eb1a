"""schema/* and object/*: what the API server rejects in an object by its schema, its name or its namespace.

The rules are the JSON Schemas of `schemas/`, compiled from the upstream releases that a platform names. They are
strict, as with the API server's field validation `Strict`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from generator.checks.finding import Breach, Severity
from generator.checks.registry import ERROR, WARNING, check, declare
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.manifests import Manifest
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine, Violation, list_types

_SRIOV = "sriovnetwork.openshift.io"
_GROUPS = (_SRIOV, "mellanox.com", "k8s.cni.cncf.io")
_JSON = ("ipam", "metaPlugins", "capabilities", "config")
_POOL = "write it below `matchLabels`: an empty selector selects every node"
_SWITCH = 'write "on" or "off" in quotes, because YAML reads them as booleans'
_OBJECT = "write the JSON as a string: '{\"type\": …}'"
_CHAIN = 'write the JSON objects as one string, separated by commas: \'{"type": …}, {"type": …}\''
_PKEY = "write a NetworkAttachmentDefinition of `ib-sriov` with a `pkey`: this kind has no field for one"
_UNRELEASED = "write a NetworkAttachmentDefinition with `plugins`: no release up to 26.4 has this field"

_FIELDS: Mapping[tuple[str, str], str] = {
    ("SriovIBNetwork", "pkey"): _PKEY,
    ("SriovIBNetwork", "pKey"): _PKEY,
    ("SriovNetwork", "metaPluginsConfig"): "call it `metaPlugins`",
    ("SriovIBNetwork", "metaPluginsConfig"): "call it `metaPlugins`",
    ("SriovNetworkNodePolicy", "pfName"): "call it `pfNames`, and write a list",
    ("MacvlanNetwork", "metaPlugins"): _UNRELEASED,
    ("HostDeviceNetwork", "metaPlugins"): _UNRELEASED,
}
"""Kind and unknown field → what to do."""


def word_of(manifest: Manifest, violation: Violation) -> str:
    """What to do about a violation in a kind of a network operator; nothing where there is no more to say."""
    if manifest.group not in _GROUPS or not violation.path:
        return ""
    if violation.keyword == "additionalProperties":
        return _unknown(manifest.kind, violation.path)
    return _other_value(violation.path, violation.value) if violation.keyword in ("type", "enum") else ""


def _unknown(kind: str, path: tuple[str | int, ...]) -> str:
    if kind == "SriovNetworkPoolConfig" and path[:2] == ("spec", "nodeSelector"):
        return _POOL
    return _FIELDS.get((kind, str(path[-1])), "")


def _other_value(path: tuple[str | int, ...], value: object) -> str:
    if path[-1] in ("spoofChk", "trust") and isinstance(value, bool):
        return _SWITCH
    if path[-1] in _JSON and isinstance(value, dict | list):
        return _CHAIN if path[-1] == "metaPlugins" else _OBJECT
    return ""


_REFUSED = "the API server rejects the object"
_WHY = {
    "unknown-field": "strict field validation rejects the object; without it, the API server drops the field silently",
    "missing-field": _REFUSED,
    "wrong-type": _REFUSED,
    "not-allowed": _REFUSED,
    "duplicate-item": "server-side apply rejects the object; for most lists, every other request does so too",
    "null": "a create request drops it, but server-side apply, which Argo CD uses here, rejects the object",
    "no-schema": "mpigen cannot validate the object, so it may contain any mistake",
    "not-an-object": "the API server needs the kind and the version of an object",
}

_RULES = {
    "additionalProperties": "unknown-field",
    "required": "missing-field",
    "type": "wrong-type",
    "uniqueItems": "duplicate-item",
    "uniqueItemsBy": "duplicate-item",
}


def breaches(manifest: Manifest, engine: Engine) -> Iterator[Breach]:
    """What the schema of a manifest's kind refuses in it."""
    if not manifest.kind or not manifest.api_version:
        yield from _nameless(manifest)
        return
    found = engine.violations(manifest.body)
    if found is None:
        what = f"no schema for {manifest.kind} of {manifest.api_version}"
        yield _breach(("kind",), "no-schema", what, "correct the version, or pass --ignore-missing-schemas")
        return
    for violation in found:
        rule = _RULES.get(violation.keyword, "not-allowed")
        value = None if rule == "missing-field" else violation.value
        at_key = violation.keyword in ("additionalProperties", "propertyNames")
        fix = word_of(manifest, violation) or fix_of(violation)
        yield _breach(violation.path, rule, violation.message, fix, value, at_key=at_key)
    refused = {violation.path for violation in found}
    for violation in engine.nulls(manifest.body):
        if violation.path not in refused:
            breach = _breach(violation.path, "null", "this field is null", "remove the field, or give it a value")
            yield replace(breach, severity=Severity.WARNING)


def _nameless(manifest: Manifest) -> Iterator[Breach]:
    """What does not say what it is, in full and as text."""
    if manifest.instead:
        what = f"{'an item' if manifest.inside else 'a document'} is {manifest.instead}, not an object"
        yield _breach((), "not-an-object", what, "start it with apiVersion and kind")
        return
    said = {key: manifest.body.get(key) for key in ("apiVersion", "kind")}
    missing = [f"`{key}`" for key, value in said.items() if value in (None, "")]
    if missing:
        one = len(missing) == 1
        what = f"{' and '.join(missing)} {'is' if one else 'are'} missing"
        yield _breach((), "not-an-object", what, "write it" if one else "write both")
    for key, value in said.items():
        if value is not None and not isinstance(value, str):
            yield _breach(
                (key,), "not-an-object", f"`{key}` is {format_value(value)}, not a string", "write a string", value
            )


def _breach(path: Path, rule: str, message: str, fix: str, value: object = None, *, at_key: bool = False) -> Breach:
    return Breach(path, f"schema/{rule}", message, _WHY[rule], fix, at_key=at_key, value=value)


def fix_of(violation: Violation) -> str:
    """What to do about a place that breaks a schema."""
    match _RULES.get(violation.keyword):
        case "unknown-field":
            return _suggested(violation.path[-1], violation.candidates) or "remove it"
        case "missing-field":
            return "add it"
        case "duplicate-item":
            return "keep one of the two"
        case "wrong-type":
            is_unquoted = isinstance(violation.value, bool | int | float) and "string" in violation.expected
            types = list_types(violation.expected).replace("a boolean", "true or false")
            return "put the value in quotes" if is_unquoted else f"write {types}"
    if violation.is_superfluous:
        return "remove it"
    if isinstance(violation.expected, tuple):
        known = [str(value) for value in violation.expected]
        return _suggested(violation.value, known) or f"write one of: {', '.join(known)}"
    return "correct the key" if violation.keyword == "propertyNames" else "correct the value"


def _suggested(word: object, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(str(word), known, n=1)
    return f"did you mean `{close[0]}`?" if close else ""


_WHY_OBJECT = {
    "unnamed": "the API server refuses the object",
    "duplicate": "whichever is applied last wins, and Argo CD never finds both in sync",
    "no-namespace": "it would land wherever the one who applies it happens to be",
    "not-namespaced": "the API server refuses it or drops the namespace, and Argo CD never finds both in sync",
}


@check("object/unnamed", severity=ERROR, needs=Manifest)
def unnamed(manifest: Manifest) -> Iterator[Breach]:
    """Report an object without a name.

    An object has neither `metadata.name` nor `metadata.generateName`. The API server refuses it.
    """
    metadata = manifest.body.get("metadata")
    generated = isinstance(metadata, dict) and metadata.get("generateName")
    if not manifest.name and not generated and not manifest.kind.endswith("Review"):
        yield _object_breach("unnamed", "`metadata.name` is missing", "give it a name")


def misplaced(manifests: Sequence[Manifest], catalog: Catalog) -> Iterator[tuple[Manifest, Breach]]:
    """What only the whole of a release shows: objects that are there twice, or not in the namespace that they want."""
    first: dict[tuple[str, str, str, str], Manifest] = {}
    for manifest in manifests:
        scope = catalog.scope(manifest.api_version, manifest.kind)
        group, kind, namespace, name = manifest.identity
        other = first.setdefault((group, kind, "" if scope == "Cluster" else namespace, name), manifest)
        if other is not manifest and manifest.name:
            yield (
                manifest,
                _object_breach("duplicate", f"it is also in {other.file}", "give one of the two another name"),
            )
        if scope == "Namespaced" and not namespace:
            yield (
                manifest,
                _object_breach("no-namespace", "`metadata.namespace` is missing", "name the tenant's namespace"),
            )
        if scope == "Cluster" and namespace:
            what = f"a {kind} belongs to no namespace, this one says {format_value(namespace)}"
            yield (
                manifest,
                _object_breach("not-namespaced", what, "remove `metadata.namespace`", "namespace", namespace),
            )


def _object_breach(rule: str, message: str, fix: str, field: str = "", value: object = None) -> Breach:
    path: Path = ("metadata", field) if field else ("metadata",)
    return Breach(path, f"object/{rule}", message, _WHY_OBJECT[rule], fix, value=value)


declare(
    "schema/not-an-object",
    severity=ERROR,
    text="""Report a document that is not an object with `apiVersion` and `kind`.

    A document, or an item of a list, is a list or a scalar; or it has no `apiVersion` or no `kind`, or one that is
    no text. So nothing can be applied. The documents after it are checked all the same.
    """,
)

declare(
    "schema/no-schema",
    severity=ERROR,
    text="""Report a kind that is in none of the known upstream releases.

    The kind is in none of the upstream releases that mpigen knows, so nothing can be said about it. Often the
    version is wrong. `--ignore-missing-schemas` reports such objects and passes them.
    """,
)

declare(
    "schema/unknown-field",
    severity=ERROR,
    text="""Report a field that the API server does not know.

    The API server does not know the field. With strict field validation it refuses the object; without, it drops
    the field in silence.
    """,
)

declare(
    "schema/missing-field",
    severity=ERROR,
    text="""Report a required field that is absent.

    A field that the API requires is absent.
    """,
)

declare(
    "schema/wrong-type",
    severity=ERROR,
    text="""Report a value of another type than the field.

    The value has another type than the field: a number where a string belongs, a string where a mapping belongs.
    """,
)

declare(
    "schema/not-allowed",
    severity=ERROR,
    text="""Report a value that the field does not allow.

    The value has the right type, but is outside what the field allows: an enum, a pattern, a range, a length, a
    name that the kind cannot have, a label that is none, a field that may not stand beside another.
    """,
)

declare(
    "schema/duplicate-item",
    severity=ERROR,
    text="""Report two items of a list with the same key.

    Two items of a list that are told apart by their names, or by other fields, are alike. Server-side apply, which
    Argo CD uses here, refuses the object; of a custom resource, and of most built-in kinds, every other way does
    too.
    """,
)

declare(
    "schema/null",
    severity=WARNING,
    text="""Report a field of a custom resource without a value.

    A field of a custom resource has no value. A create drops it, but a server-side apply refuses the object, unless
    the field has a default. Null in built-in kinds and in metadata is the same as nothing.
    """,
)

declare(
    "object/duplicate",
    severity=ERROR,
    text="""Report two objects of a release with the same identity.

    Only in `synth`: two objects of a release have the same group, kind, namespace and name. Whichever is applied
    last wins. The namespace of a cluster-scoped object does not count.
    """,
)

declare(
    "object/no-namespace",
    severity=ERROR,
    text="""Report an object of a namespaced kind without a namespace.

    Only in `synth`: an object of a namespaced kind does not say in which namespace it belongs.
    """,
)

declare(
    "object/not-namespaced",
    severity=ERROR,
    text="""Report an object of a cluster-scoped kind with a namespace.

    Only in `synth`: an object of a cluster-scoped kind says `metadata.namespace`. Remove it: such an object is in
    no namespace.
    """,
)
