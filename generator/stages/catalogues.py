"""The catalogue of a cluster: what it offers to jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from generator.jobs.catalogue import Catalogue
from generator.stages.cluster import is_platform, read_files

if TYPE_CHECKING:
    from generator.checks.foreign import Skipped
    from generator.config.platform import Platform


class Offer(NamedTuple):
    """The catalogue that paths have.

    Attributes:
        catalogue: the catalogue.
        skipped: the files that are no manifests, as for `validate`.
        is_empty: True if no file is left to read.
        platform: the platform, if the only path is a platform file.
    """

    catalogue: Catalogue
    skipped: Sequence[Skipped] = ()
    is_empty: bool = False
    platform: Platform | None = None


def catalogue_of(platform: Platform) -> Catalogue:
    """Return what the cluster of a platform offers to jobs, rendered without cdk8s.

    Objects of `patches`, `extra` and an mpigen_platform.py are left out.
    """
    from generator.gitops.metadata import label_owner
    from generator.jobs.rendered import objects_for_jobs

    objects = label_owner(objects_for_jobs(platform), platform.platform)
    return Catalogue(objects, platform.cluster.versions.model_dump())


def read_offer(paths: Sequence[Path], read_stdin: Callable[[], bytes], *, renders: bool = False) -> Offer:
    """Return what the cluster of files offers to jobs. A platform.yaml without patches needs no Node.js.

    Args and errors are as for `read_files`.
    """
    from generator.documents.files import read_file

    if len(paths) == 1 and (paths[0].suffix == ".py" or (paths[0].is_file() and is_platform(read_file(paths[0])))):
        return _of_platform(paths[0])
    files = read_files(paths, read_stdin, renders=renders)
    catalogue = Catalogue(files.manifests, files.targets, is_complete=files.is_complete)
    return Offer(catalogue, files.skipped, files.is_empty)


def _of_platform(file: Path) -> Offer:
    from generator.stages.loading import load_with_app
    from generator.stages.rendering import render_with_effects

    platform, app = load_with_app(file)
    if app is None:
        return Offer(catalogue_of(platform), platform=platform)
    objects, _ = render_with_effects(platform, app)
    return Offer(Catalogue(objects, platform.cluster.versions.model_dump()), platform=platform)
