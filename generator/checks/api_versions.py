"""Checks of API versions and fields that a release deprecates or removes: schema/deprecated-*, schema/removed-version.

The table generator/facts/api_versions.yaml has the versions and their replacements. If the schemas of the target
versions contain an API version, the API server serves it: the version can be deprecated, but not removed.
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.finding import Severity
from generator.checks.registry import ERROR, WARNING, Breach, declare
from generator.facts.api_versions import (
    ApiField,
    ApiVersion,
    component_name,
    fields_of,
    find_version,
    is_reached,
    next_minor,
    replacing_rows,
)
from generator.facts.versions import NAMES, minors
from generator.manifests import Manifest
from generator.objects.pods import pod_templates
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from generator.schemas.json_schema import has_field


def removed_version(manifest: Manifest, engine: Engine) -> Breach | None:
    """Return the breach of an object whose apiVersion the target release removed; None for any other object.

    If another project still serves the version, the check of the breach is `schema/no-schema`.
    """
    row = find_version(manifest.api_version, manifest.kind)
    if row is None or not is_reached(target := engine.targets.get(row.component, ""), row.removed):
        return None
    replacement = _describe_replacement(row, manifest.kind, target)
    if row.served_by:
        return Breach(
            ("kind",),
            f"no schema for {manifest.kind} of {manifest.api_version}: {row.served_by} serves it, and "
            f"{_release(row, row.removed)} does not",
            "mpigen cannot validate the object, and a cluster without this project rejects it",
            f"{replacement}, or add the CustomResourceDefinition to the checked paths",
            check="schema/no-schema",
        )
    return Breach(
        ("apiVersion",),
        f"{_release(row, row.removed)} removed {manifest.kind} of `{manifest.api_version}`",
        "the API server does not serve this version of the kind, so it rejects the object",
        replacement,
        value=manifest.api_version,
        check="schema/removed-version",
    )


def deprecation_breaches(manifest: Manifest, engine: Engine) -> Iterator[Breach]:
    """Yield breaches for the deprecated version and the deprecated fields of an object whose kind has a schema."""
    row = find_version(manifest.api_version, manifest.kind)
    if row is not None and _is_replaceable(row, manifest, engine):
        yield from _deprecated_version(row, manifest, engine.targets.get(row.component, ""))
    for field in fields_of(manifest.api_version, manifest.kind):
        if field.kind != "Pod":
            for place in field.places(manifest.body):
                yield from _deprecated_field(field, place, engine)
    for template in pod_templates(manifest):
        for field in fields_of("v1", "Pod"):
            for place in field.places(template.body):
                yield from _deprecated_field(field, (*template.path, *place), engine)


def find_other_release(manifest: Manifest, path: tuple[str | int, ...], engine: Engine) -> tuple[str, str]:
    """Return the release that removed or added an unknown field, such as `Trainer 2.2 removed it`, and the fix.

    Both are empty if no release in the table removed the field, and no newer supported release has it.

    Args:
        manifest: the object with the field.
        path: the path of the field, which the schema of the target release does not have.
        engine: the schemas of the target releases.
    """
    for field in fields_of(manifest.api_version, manifest.kind):
        if field.removed and path in field.places(manifest.body):
            return f"{_release(field, field.removed)} removed it", field.instead
    component = engine.component(manifest.api_version, manifest.kind)
    supported = minors(component) if component in NAMES else ()
    target = engine.targets.get(component, "")
    for minor in reversed(supported[: supported.index(target)] if target in supported else ()):
        newer = Catalog.bundled({component: minor}).schema(manifest.api_version, manifest.kind)
        if newer is not None and has_field(newer, path):
            name = f"{NAMES[component]} {minor}"
            return f"{name} added it", f"remove the field, or set {name} as the target version if the cluster has it"
    return "", ""


def _is_replaceable(row: ApiVersion, manifest: Manifest, engine: Engine) -> bool:
    """Return True if the target release serves the replacement of an API version, or if there is no replacement."""
    *_, last = replacing_rows(row, manifest.kind, engine.targets.get(row.component, ""))
    return not last.replacement or engine.has_schema(last.replacement, last.replacement_kind or manifest.kind)


def _deprecated_version(row: ApiVersion, manifest: Manifest, target: str) -> Iterator[Breach]:
    is_served_by_another = is_reached(target, row.removed)  # such as Training Operator v1, whose CRDs are in the files
    if is_served_by_another or not target or not is_reached(next_minor(target), row.deprecated):
        return
    is_deprecated = is_reached(target, row.deprecated)
    verb = "deprecates" if is_deprecated else "will deprecate"
    removal = f", and {_release(row, row.removed)} removes it" if row.removed else ""
    component = component_name(row.component)
    yield Breach(
        ("apiVersion",),
        f"{_release(row, row.deprecated)} {verb} {manifest.kind} of `{manifest.api_version}`{removal}",
        f"from {_release(row, row.removed)} on, the API server rejects the object"
        if row.removed
        else f"kubectl prints a warning, and a later version of {component} can stop serving this API version",
        _describe_replacement(row, manifest.kind, target),
        severity=None if is_deprecated else Severity.INFO,
        value=manifest.api_version,
        check="schema/deprecated-version",
    )


def _deprecated_field(field: ApiField, path: tuple[str | int, ...], engine: Engine) -> Iterator[Breach]:
    target = engine.targets.get(field.component, "")
    if not field.deprecated or not is_reached(target, field.deprecated):
        return
    subject, part = (f"`{path[-1]}`", "field")
    if field.value:
        subject, part = (f"the value `{field.value}` of `{path[-1]}`", "value")
    message, why = (
        f"{_release(field, field.deprecated)} deprecated {subject}",
        f"a later version of {component_name(field.component)} can ignore this {part}",
    )
    if is_reached(target, field.inert):
        is_volume = "annotations" not in field.path
        effect = "disables it by default" if field.gate else "removed its implementation"
        message += f", and {_release(field, field.inert)} {effect}"
        why = "the kubelet cannot mount the volume, so the pod never starts" if is_volume else "the field has no effect"
        is_changeable = field.gate and not is_reached(target, field.locked)
        why += f", unless the feature gate `{field.gate}` is on" if is_changeable else ""
    yield Breach(
        path,
        message,
        why,
        field.instead,
        at_key=not field.value,
        value=field.value or None,
        check="schema/deprecated-field",
    )


def _release(row: ApiVersion | ApiField, minor: str) -> str:
    return f"{component_name(row.component)} {minor}"


def _describe_replacement(row: ApiVersion, kind: str, target: str) -> str:
    rows = [*replacing_rows(row, kind, target)]
    last = rows[-1]
    if not last.replacement:
        return last.instead
    new = last.replacement_kind
    fix = f"write the kind {new} of `{last.replacement}`" if new else f"write `apiVersion: {last.replacement}`"
    return ". ".join([fix, *(row.instead for row in rows if row.instead)])


declare(
    "schema/removed-version",
    severity=ERROR,
    text="""Report an object of an API version that the target release does not serve.

    The API server rejects the object, and Argo CD reports that the cluster lacks the kind. The finding names the
    release that removed the version, and the version to write instead. `--target` sets the release.

    If another project still serves the version, such as Training Operator v1, the check `schema/no-schema` reports the
    object.

    Source: generator/facts/api_versions.yaml names a source for each version
    """,
)
declare(
    "schema/deprecated-version",
    severity=WARNING,
    text="""Report an object of a deprecated API version.

    The API server accepts the object, and kubectl prints a warning. After the upgrade to the release that removes the
    version, the API server rejects the object. The check reports a version only if the target release serves the
    replacement, or if there is no replacement. If the next minor release deprecates the version, the finding is an
    info.

    Source: generator/facts/api_versions.yaml names a source for each version
    """,
)
declare(
    "schema/deprecated-field",
    severity=WARNING,
    text="""Report a field, an annotation or a node label that a release deprecates.

    The API server prints a warning for most of these fields. Some have no effect in the target release: pods with a
    volume of a removed plugin never start. The check `schema/unknown-field` reports fields that the schema does not
    have, with the release that removed them.

    Source: generator/facts/api_versions.yaml names a source for each field
    """,
)
