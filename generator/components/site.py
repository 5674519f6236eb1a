"""The objects that `extra` of the platform file adds, and the patches of the platform file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from constructs import Construct

from generator.components.constructs import Component, ManifestApp, custom_file, slug
from generator.config.model.patches import Extra
from generator.config.platform import Platform
from generator.documents.load import Path
from generator.documents.messages import format_path
from generator.documents.python import shorten_path
from generator.errors import Problem
from generator.manifests import Body, Manifest
from generator.patches.apply import Patch, Patching, describe_function

_FOLDER = "extra"


class SiteObjects(Component):
    """The objects of the platform file's `extra`, or of `extra` of one tenant."""

    def __init__(self, scope: Construct, id: str, *, extras: Sequence[Extra], folder: str) -> None:  # noqa: A002
        bodies = [body for extra in extras for body in extra.objects]
        super().__init__(scope, id, [Manifest(body, extra_file(body, folder)) for body in bodies])


def add_site_objects(app: ManifestApp, platform: Platform) -> None:
    """Add the objects of `extra` to an app, of the platform and of its tenants."""
    for extras, folder in extras_of(platform):
        SiteObjects(app, folder.replace("/", "-"), extras=extras, folder=folder)


def extras_of(platform: Platform) -> Iterator[tuple[Sequence[Extra], str]]:
    """Yield the entries of `extra` with their folder, of the platform and of each tenant that has any."""
    if platform.extra:
        yield platform.extra, _FOLDER
    for tenant in platform.tenants:
        if tenant.extra:
            yield tenant.extra, f"tenants/{tenant.name}/{_FOLDER}"


def extra_file(body: Body, folder: str) -> str:
    """Return the file of an object of `extra`: `custom/…` for the platform, else `tenants/<tenant>/extra/…`."""
    if folder == _FOLDER:
        return custom_file(body)
    return f"{folder}/{slug('-'.join((body['kind'].lower(), body['metadata']['name'])))}.yaml"


def sources_of_extras(platform: Platform) -> dict[tuple[str, str, str, str], Path]:
    """Return identity of an object → the path of its entry in the platform file, such as `("extra", 2)`."""
    sources: dict[tuple[str, str, str, str], Path] = {}
    for extras, folder in extras_of(platform):
        section: Path = (_FOLDER,) if folder == _FOLDER else ("tenants", folder.split("/")[1], _FOLDER)
        for position, extra in enumerate(extras):
            for body in extra.objects:
                sources[Manifest(body, "").identity] = (*section, position)
    return sources


def find_repeated(platform: Platform, tree: Iterable[Manifest]) -> Iterator[Problem]:
    """Yield a problem for each object of `extra` that another part of the release has as well."""
    sources = sources_of_extras(platform)
    first: dict[tuple[str, str, str, str], str] = {}
    for manifest in tree if sources else ():
        path = sources.get(manifest.identity)
        if path is not None and manifest.identity in first:
            message = f"the release has {manifest.resource} twice: in {first[manifest.identity]} and in {manifest.file}"
            fix = "remove the object from `extra`, and change the generated object by `patches`, or rename the object"
            yield Problem(message, fix, path=format_path(path))
        first.setdefault(manifest.identity, manifest.file)


def patching_of(platform: Platform, app: ManifestApp) -> Patching:
    """Return the patches of the platform file, followed by the patches that Python adds to the app."""
    patches = [
        Patch(patch.target.selection, patch.change, path=("patches", position))
        for position, patch in enumerate(platform.patches)
    ]
    patches += [replace(patch, file=shorten_path(patch.file, app.file)) for patch in app.patches]
    namespaces = {home.name: tenant.name for tenant in platform.tenants for home in tenant.homes} if patches else {}
    return Patching(patches, namespaces)


def find_late(app: ManifestApp, patching: Patching, constructs: int) -> Iterator[Problem]:
    """Yield a problem for each patch and for constructs that a function adds while mpigen applies the patches.

    Args:
        app: the app, after the patches.
        patching: the patches that mpigen has applied.
        constructs: the number of constructs before the patches.
    """
    fix = "add it before mpigen applies the patches, outside of the function"
    late = app.patches[len(patching.patches) - len(app.platform.patches) :]
    for patch in {(patch.file, patch.line): patch for patch in late}.values():
        yield patch.problem("`app.patch` in the function of a patch has no effect", fix)
    if constructs and count_constructs(app, patching) != constructs:
        functions = ", ".join(
            describe_function(patch.change, patch.file) for patch in patching.patches if callable(patch.change)
        )
        message = f"the function of a patch adds or removes a construct, which has no effect: {functions}"
        yield Problem(message, fix, app.file)


def count_constructs(app: ManifestApp, patching: Patching) -> int:
    """Return the number of constructs of an app; 0 if no patch has a function, which could add constructs."""
    return len(app.node.find_all()) if any(callable(patch.change) for patch in patching.patches) else 0
