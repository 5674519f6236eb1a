"""drift/*: the findings about live objects that differ from the release, which `mpigen drift` reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from generator.checks.existing.drift import ABSENT, Difference, Drift
from generator.checks.finding import Finding, Located, place_findings
from generator.checks.registry import ERROR, INFO, WARNING, Breach, complete, declare
from generator.documents.load import Path
from generator.documents.messages import format_path, shorten
from generator.manifests import Manifest

_RESTORE = "sync the release again, or write the change into the platform file"
_LONGEST = 160  # characters of a value
_SECRET = ("Secret", ("data", "stringData"))


def find_drift(drift: Drift, text_of: Callable[[str], bytes]) -> list[Finding]:
    """Return the findings with their lines: in the file of the release, or for extra objects in the export.

    Args:
        drift: the result of the comparison.
        text_of: returns the text of a file; empty for an object that mpigen rendered.
    """
    by_file: dict[str, list[Located]] = {}
    for located in _breaches(drift):
        by_file.setdefault(located[0].file, []).append(located)
    return [finding for file, breaches in by_file.items() for finding in _place(file, breaches, text_of(file))]


def _place(file: str, breaches: Iterable[Located], text: bytes) -> Iterator[Finding]:
    if text:
        yield from place_findings([*breaches], text)
        return
    for manifest, breach in breaches:
        texts = (breach.message, breach.why, breach.fix, breach.severity or ERROR)
        yield Finding(file, 0, 0, format_path(breach.path, root="$"), breach.check, manifest.resource, *texts)


def _breaches(drift: Drift) -> Iterator[Located]:
    for drifted in drift.drifted:
        for difference in drifted.differences:
            yield complete(_changed(drifted.manifest, difference), drifted.manifest)
    for manifest in drift.missing:
        yield complete(
            Breach(
                ("metadata", "name"),
                f"the cluster has no {manifest.resource}, although the export has other objects of this kind",
                "the object was deleted, or the release was never applied as a whole",
                "sync the release again, or export the objects of all namespaces with `-A`",
                check="drift/missing",
            ),
            manifest,
        )
    for manifest in drift.extra:
        yield complete(
            Breach(
                ("metadata", "name"),
                f"{manifest.resource} has the labels of this platform, but the release does not contain it",
                "the object stays in the cluster without review: a sync without pruning kept it, or a user created it",
                "delete the object, or sync the release with pruning",
                check="drift/extra",
            ),
            manifest,
        )
    for released, live in drift.other_versions:
        yield complete(
            Breach(
                ("apiVersion",),
                f"the export has this object as `{live.api_version}`, and the release as `{released.api_version}`",
                "the fields of the two versions can differ, so mpigen does not compare them",
                "export the resources that `mpigen drift RELEASE --resources` prints",
                check="drift/unknown",
            ),
            released,
        )


def _changed(manifest: Manifest, difference: Difference) -> Breach:
    path, is_hidden = format_path(difference.path), _is_secret(manifest, difference.path)
    live, released = (_format(value, is_hidden=is_hidden) for value in (difference.live, difference.released))
    is_added = difference.released is ABSENT
    is_item = isinstance(difference.path[-1], int)
    if is_added:
        message = (
            f"`{path}` is {live} in the cluster, and the release does not {'have this item' if is_item else 'set it'}"
        )
    elif difference.live is ABSENT:
        message = f"`{path}` is {released} in the release, and absent in the cluster"
    elif is_hidden:
        message = f"`{path}` has another value in the cluster than in the release"
    else:
        message = f"`{path}` is {live} in the cluster, and {released} in the release"
    return Breach(
        difference.path,
        message,
        _owner(difference),
        _RESTORE if not is_added else "remove the value from the cluster, or write it into the platform file",
        severity=WARNING if is_added and not is_item else ERROR,
        value=None if is_hidden or difference.live is ABSENT else difference.live,
        check="drift/changed",
    )


def _is_secret(manifest: Manifest, path: Path) -> bool:
    return manifest.kind == _SECRET[0] and bool(path) and path[0] in _SECRET[1]


def _format(value: Any, *, is_hidden: bool) -> str:
    if value is ABSENT:
        return "absent"
    if is_hidden:
        return "set"
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return f"`{shorten(text, _LONGEST)}`"


def _owner(difference: Difference) -> str:
    """Return the effect, with the field managers of the field."""
    effect = "the cluster does not do what the reviewed release says"
    if difference.managers:
        names = ", ".join(map(str, difference.managers[:3]))
        return f"{effect}; the field manager of this value is {names}"
    if difference.live is ABSENT:
        return f"{effect}; managed fields do not show who removed a value"
    if difference.is_owner_known:
        return f"{effect}; no field manager owns this value"
    return f"{effect}; the export has no managed fields that show the writer: export with --show-managed-fields"


declare(
    "drift/changed",
    severity=ERROR,
    text="""Report a field of a live object whose value differs from the release.

    A user or a controller changed the object after the sync, for example with `kubectl edit`. The reviewed release then
    no longer describes the cluster. `mpigen drift` compares the objects in the form that the API server stores: with
    the defaults of their kind, without the fields that servers add, lists with keys item by item, and equal amounts as
    equal. The finding is a warning if the release does not set the field at all; an added list item is an error. If the
    export has managed fields, the finding names the field manager that owns the value, and mpigen ignores added values
    without a manager, because they are defaults. mpigen never prints data of Secrets.

    Source: apimachinery v0.34.2 pkg/apis/meta/v1/types.go ManagedFieldsEntry; generator/facts/added_fields.yaml
    """,
)
declare(
    "drift/missing",
    severity=ERROR,
    text="""Report an object of the release that the cluster lacks.

    The object was deleted, or the sync failed before it was created. mpigen reports it only if the export has other
    objects of the kind. If the export has no object of a kind, mpigen prints a note instead, because the export may
    leave out the kind.

    Source: mpigen: Kubernetes stores no list of the objects of a release
    """,
)
declare(
    "drift/extra",
    severity=WARNING,
    text="""Report a live object with the labels of the platform that the release lacks.

    The label `app.kubernetes.io/part-of` names the platform, and `app.kubernetes.io/managed-by` names mpigen. An object
    of an older release stays in the cluster if the sync does not prune it. The check ignores objects with a controlling
    owner, because controllers copy labels.

    Source: https://argo-cd.readthedocs.io/en/stable/user-guide/auto_sync/#automatic-pruning
    """,
)
declare(
    "drift/unknown",
    severity=INFO,
    text="""Report a live object in another API version than in the release.

    `kubectl get` prints an object in the preferred version of the API server, which can have other fields than the
    version in the release. mpigen does not compare two versions. `mpigen drift RELEASE --resources` prints the
    resources with the versions of the release, for `kubectl get`.

    Source: kubectl v0.34.2 pkg/cmd/get/get.go GetOptions.Run
    """,
)
