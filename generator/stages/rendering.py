"""Rendering: the manifests of a platform with the effects of patches, and the schemas of their kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from generator import manifests
from generator.errors import ConfigError
from generator.facts.names import DEFINITION
from generator.schemas.catalog import Catalog

if TYPE_CHECKING:
    from generator.components.app import App
    from generator.config.platform import Platform
    from generator.patches.apply import Effects


def render_with_effects(platform: Platform, app: App) -> tuple[list[manifests.Manifest], Effects]:
    """Return the manifests of the release, and the effects of patches on them.

    The bodies share values with each other and with the app, so callers must not change them.

    Args:
        platform: the platform.
        app: the app of the platform, with all its constructs.

    Raises:
        ConfigError: as for `render` in `generator/pipeline.py`. The problems have their places, if the app has the name
            of its platform file.
    """
    try:
        return _render_unplaced(platform, app)
    except ConfigError as error:
        if not app.file:
            raise
        from generator.hazards.find import place_problems

        raise ConfigError(place_problems(Path(app.file), error.problems, app.environment, platform)) from None


def _render_unplaced(platform: Platform, app: App) -> tuple[list[manifests.Manifest], Effects]:
    """Return the manifests of the release, and the effects of patches on them. Problems have no line."""
    from generator.components.constructs import collect
    from generator.components.site import count_constructs, find_late, find_repeated, patching_of
    from generator.gitops.argocd import account_role, application_manifests
    from generator.gitops.bootstrap import bootstrap_manifests
    from generator.gitops.flux import annotate_for_flux, flux_manifests
    from generator.gitops.metadata import annotate_for_argocd, label_owner
    from generator.jobs.config_maps import fill_catalogues
    from generator.objects.pods import RUNTIMES
    from generator.policies.admission.parameters import add_parameters_of_tree

    def annotate(objects: list[manifests.Manifest]) -> list[manifests.Manifest]:
        """Return objects with the labels of their owner and the annotations of the GitOps engine."""
        labelled = label_owner(objects, platform.platform)
        if platform.gitops is None:
            return labelled
        return annotate_for_flux(labelled) if platform.gitops.is_flux else annotate_for_argocd(labelled)

    collected = add_parameters_of_tree(collect(app), platform.fabrics)
    collected += _cron_jobs(platform, collected)
    if problems := [*find_repeated(platform, collected)]:
        raise ConfigError(tuple(problems))
    patching = patching_of(platform, app)
    constructs = count_constructs(app, patching)
    tree = patching.apply(annotate(collected))
    if any(manifest.kind in RUNTIMES for manifest in patching.patched(tree)):
        tree = add_parameters_of_tree(tree, platform.fabrics)  # namespaces list the resources of runtimes
    engine = annotate(account_role(platform, tree))
    if platform.gitops and platform.gitops.is_flux:
        engine += flux_manifests(platform, [*tree, *engine])
    elif platform.gitops:
        engine += [*application_manifests(platform, [*tree, *engine]), *bootstrap_manifests(platform)]
    tree += patching.apply(engine)
    patching.check(tree)
    if problems := [*find_late(app, patching, constructs)]:
        raise ConfigError(tuple(problems))
    return fill_catalogues(tree, platform.cluster.versions.model_dump()), patching.effects


def _cron_jobs(platform: Platform, tree: list[manifests.Manifest]) -> list[manifests.Manifest]:
    """Return the CronJobs of all teams, whose TrainJobs use the runtimes and queues of a release.

    Raises:
        ConfigError: a TrainJob would not run.
    """
    if not any(tenant.schedules for tenant in platform.tenants):
        return []
    from generator.gitops.metadata import label_owner
    from generator.jobs.catalogue import Catalogue
    from generator.jobs.schedules import cron_jobs

    objects = label_owner(tree, platform.platform)
    return cron_jobs(platform, Catalogue(objects, platform.cluster.versions.model_dump()))


def read_catalog(targets: Mapping[str, str], texts: Mapping[str, str], locations: Sequence[str] = ()) -> Catalog:
    """Return the schemas of the target versions, of the CustomResourceDefinitions in a release, and of folders.

    Args:
        targets: component → minor version.
        texts: file → its text, for the files of the release.
        locations: folders with JSON Schemas or CustomResourceDefinitions of the user.

    Raises:
        ConfigError: a location is a URL, or does not exist.
    """
    catalog, name = Catalog.bundled(targets), DEFINITION.decode()
    definitions = {file: text.encode() for file, text in texts.items() if name in text}
    if not definitions and not locations:
        return catalog
    return catalog.with_local(catalog.read_local_schemas(definitions, locations))
