"""gitops/option, gitops/application: values that Argo CD and Flux ignore, and Applications that Argo CD rejects."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from generator.checks.gitops.deliveries import ARGO, Wiring
from generator.checks.objects import Objects
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.facts.table import read_table
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, items, mapping, string
from generator.upstream.argocd.application_sets import UNKNOWN, Files, render_applications

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_LARGEST_INTEGER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Options:
    """The options for a GitOps engine in an object.

    Attributes:
        values: (path, option, row of gitops_options.yaml) of each option; an annotation can have several options.
    """

    values: tuple[tuple[Path, str, Mapping[str, Any]], ...]

    @classmethod
    def of_manifest(cls, manifest: Manifest, _targets: Mapping[str, str]) -> Options | None:
        """Return the options in the annotations, and in `syncOptions` of an Application; None without any."""
        table = read_table("gitops_options")
        annotations = mapping(manifest.body, "metadata", "annotations")
        values: list[tuple[Path, str, Mapping[str, Any]]] = []
        for row in table["annotations"]:
            if isinstance(text := annotations.get(row["annotation"]), str):
                path = ("metadata", "annotations", row["annotation"])
                values += ((path, option, row) for option in _split(text, row))
        if manifest.group == ARGO and manifest.kind in _POLICIES:
            start = _POLICIES[manifest.kind]
            options = mapping(manifest.body, *start).get("syncOptions")
            values += (
                ((*start, "syncOptions", number), option, table["application"])
                for number, option in enumerate(items(options))
                if isinstance(option, str)
            )
        return cls(tuple(values)) if values else None


_POLICIES = {"Application": ("spec", "syncPolicy"), "ApplicationSet": ("spec", "template", "spec", "syncPolicy")}


def _split(text: str, row: Mapping[str, Any]) -> list[str]:
    parts = text.split(",") if row.get("several") else [text]
    return [part.strip() for part in parts if part.strip()] or [text]


@check("gitops/option", severity=WARNING, needs=Options)
def option(options: Options) -> Iterator[Breach]:
    """Report a sync option, a sync wave, a hook or another option that Argo CD or Flux does not have.

    The engine ignores the value silently. So an object with `Prune=flase` is pruned, an object with the sync wave
    `first` is in wave 0, and a Job with the hook `Presync` runs with all other objects. The check reads the annotations
    of Argo CD and Flux on all objects, and `syncOptions` of Applications.

    Source: generator/facts/gitops_options.yaml names a source for each option
    """
    for path, value, row in options.values:
        if "{{" in value or "$" in value or _is_known(value, row):
            continue
        engine, known = row["engine"], [*row.get("values", ())]
        close = difflib.get_close_matches(value, known, n=1, cutoff=0.6)
        fix = f"write `{close[0]}`" if close else f"write {_describe(row)}"
        yield Breach(
            path,
            f"{engine} has no {row['name']} {format_value(value)}",
            f"{engine} ignores the value: {row['effect']}",
            fix,
            value=value,
        )


def _is_known(value: str, row: Mapping[str, Any]) -> bool:
    if row.get("integer"):
        return _INTEGER.fullmatch(value) is not None and abs(int(value)) <= _LARGEST_INTEGER  # strconv.Atoi
    known = row["values"]
    return value.lower() in [item.lower() for item in known] if row.get("anyCase") else value in known


def _describe(row: Mapping[str, Any]) -> str:
    if row.get("integer"):
        return 'an integer in quotes, such as "-1"'
    values = [f"`{value}`" for value in row["values"]]
    return f"one of {', '.join(values)}" if len(values) > 1 else values[0]


@check("gitops/application", severity=ERROR, needs=Objects)
def application(objects: Objects) -> Iterator[Breach]:
    """Report an Application that Argo CD rejects, although its schema accepts it.

    The destination needs a server or a name, but not both. A source needs a path, a chart, or in `sources` a `ref`. A
    path cannot start with `/`. Argo CD reports InvalidSpecError, and applies nothing. The check also reads the template
    of an ApplicationSet. The Applications of an ApplicationSet need different names: Argo CD creates only one of two
    with the same name.

    Source: argo-cd v3.2.1 util/argo/argo.go GetDestinationCluster; argo-cd v3.2.1 util/argo/argo.go
    validateSourcePermissions; argo-cd v3.2.1 util/app/path/path.go Path; argo-cd v3.2.1
    applicationset/controllers/applicationset_controller.go ApplicationSetReconciler.validateGeneratedApplications
    """
    for item in objects.others:
        spec = mapping(item.body, "spec")
        if (item.group, item.kind) == (ARGO, "Application"):
            yield from _find_invalid(item, ("spec",), spec)
        elif (item.group, item.kind) == (ARGO, "ApplicationSet"):
            template = mapping(spec, "template", "spec")
            if not spec.get("templatePatch") and "'template'" not in str(spec.get("generators")):
                yield from _find_invalid(item, ("spec", "template", "spec"), template)
            yield from _find_repeated(item, spec, objects)


def _find_invalid(item: Manifest, start: Path, spec: Body) -> Iterator[Breach]:
    why = "Argo CD applies nothing (InvalidSpecError)"
    destination = mapping(spec, "destination")
    given = [key for key in ("server", "name") if destination.get(key)]
    if len(given) != 1:
        message = "the destination has both `server` and `name`" if given else "the destination has no cluster"
        fix = "remove one of them" if given else "set `server` or `name`, for example `name: in-cluster`"
        yield Breach((*start, "destination"), message, why, fix, item, at_key=True)
    several = indexed_mappings(spec.get("sources"))
    places: list[tuple[Path, Body]] = [((*start, "sources", number), source) for number, source in several]
    places = places or [((*start, "source"), mapping(spec, "source"))]
    for path, source in () if spec.get("sourceHydrator") else places:
        keys = ("path", "chart", "ref") if several else ("path", "chart")
        if not any(source.get(key) for key in keys):
            message = "the source has neither a path nor a chart"
            yield Breach(path, message, why, "set `path`; `.` is the root of the repository", item, at_key=True)
        elif string(source.get("path")).startswith("/"):
            message = f"the path `{source['path']}` starts with `/`"
            why = "Argo CD applies nothing (ComparisonError: app path is absolute)"
            yield Breach((*path, "path"), message, why, "remove the first `/`", item, value=source["path"])


def _find_repeated(item: Manifest, spec: Body, objects: Objects) -> Iterator[Breach]:
    """Yield a breach for an ApplicationSet that gives one name to several Applications."""
    if objects.tree is None:
        names = [
            string(mapping(body, "metadata").get("name"))
            for body, _ in render_applications(spec, Files(lambda _: None, lambda _: None))
        ]
    else:
        wiring = Wiring.read(objects)
        mine = [delivery for delivery in (wiring.deliveries if wiring else ()) if delivery.owner is item]
        names = [delivery.name for delivery in mine if "sources" not in delivery.field]
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1 and UNKNOWN not in name]
    if repeated:
        yield Breach(
            ("spec", "template", "metadata", "name"),
            f"several Applications get the name `{repeated[0]}`",
            "Argo CD creates only the first one (ApplicationSet contains applications with duplicate name)",
            "use a parameter that differs, such as `{{.path.basenameNormalized}}`",
            item,
            value=string(mapping(spec, "template", "metadata").get("name")),
        )
