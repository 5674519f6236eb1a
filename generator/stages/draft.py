"""Drafts: the releases that a platform file renders, before mpigen writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from generator import manifests
from generator.adoption.adoption import Adoption
from generator.checks.files import compare_rendered
from generator.checks.finding import Breach, Finding, place_findings
from generator.checks.run import Checked, check_rendered, number_documents
from generator.stages.loading import load_app
from generator.stages.rendering import read_catalog, render_with_effects

if TYPE_CHECKING:
    from generator.components.app import App
    from generator.config.platform import Platform
    from generator.hazards.sources import FindHook
    from generator.patches.apply import Effects
    from generator.release import Release, Tree, Written


@dataclass(frozen=True, slots=True)
class Draft:
    """A rendered release, before it is written.

    Attributes:
        environment: the environment of the platform; empty for a file without environments.
        source: the platform file.
        tree: the manifests.
        release: the files.
        home: the folder of the release.
        replaced: the release that this one replaces; None for the first release.
        effects: the effects of patches on the manifests.
        declared: the platform, with the runtimes of all constructs.
        hooks: identity of a runtime → the function that returns the hook that sets a field of its body.
    """

    environment: str
    platform: Platform
    source: Path
    tree: list[manifests.Manifest]
    release: Release
    home: Path
    replaced: Tree | None
    effects: Effects
    declared: Platform
    hooks: Mapping[tuple[str, str, str, str], FindHook]

    @property
    def paths(self) -> Mapping[str, str]:
        """Return rendered file → its path on disk."""
        return {file: str(self.home / file) for file in self.release.files}

    @property
    def texts(self) -> Mapping[str, str]:
        """Return path → text of each rendered file, and of each file in the replaced release."""
        rendered = {path: self.release.files[file] for file, path in self.paths.items()}
        return {**(self.replaced.texts if self.replaced else {}), **rendered}

    @property
    def files(self) -> list[str]:
        """The platform file, and the paths of the rendered files."""
        return [str(self.source), *self.paths.values()]

    def find_applied(self, written: Written | None) -> list[str]:
        """Return the files of the folder that mpigen did not generate, and that the GitOps engine applies."""
        from generator.gitops.own_files import find_applied

        return find_applied(written.kept if written else (), self.release.files, self.platform.gitops)

    def judge(self, adoption: Adoption) -> Checked:
        """Run the checks of the manifests, of the update, and of the platform file."""
        from generator.hazards.find import find_hazards
        from generator.hazards.patched import find_weakened

        lock, texts = self.release.lock, self.release.files
        catalog = read_catalog(self.release.targets, texts, adoption.settings.schema_locations)
        checked = check_rendered(self.tree, texts, catalog, adoption.today, adoption.suite, lock=lock.manifest)
        findings = self.point_at_platform([*checked.findings, *self._compare(adoption)])
        findings += find_weakened(self.effects, self.source, self.environment, self.declared)
        findings += find_hazards(self.platform, self.source, self.environment, adoption.today)
        return replace(checked, findings=findings).with_paths(self.paths)

    @property
    def numbered(self) -> list[manifests.Manifest]:
        """Return the manifests, each with the number of its document in its file."""
        return [*number_documents(self.tree)]

    def for_targets(self, targets: Mapping[str, str]) -> Draft:
        """Return the same manifests, to be judged for other versions."""
        return replace(self, release=replace(self.release, targets=dict(targets)))

    def render_for(self, targets: Mapping[str, str]) -> Draft:
        """Render the platform of a YAML file for other versions.

        Raises:
            ConfigError: the platform is invalid for these versions. The problems have no line.
        """
        from generator import App
        from generator.config.model.fields import copy_unchecked

        cluster = self.platform.cluster  # `replace` checks the sections inside
        changed = copy_unchecked(cluster, versions=copy_unchecked(cluster.versions, **targets))
        platform = self.platform.replace(cluster=changed)
        return draft_release(self.source, self.environment, App(platform), self.home.parent, "")

    def place(self, manifest: manifests.Manifest, path: tuple[str | int, ...]) -> tuple[str, int]:
        """Return the file and the line of the platform file that cause a part of an object, or else of the release."""
        text = self.release.files.get(manifest.file, "")
        (finding,) = place_findings([(manifest, Breach(path, "", "", "", manifest, check="upgrade"))], text)
        (placed,) = self.point_at_platform([finding])
        return self.paths.get(placed.file, placed.file), placed.line

    def line_of_versions(self) -> int:
        """Return the line of `cluster.versions` in the platform file, or of the nearest section around it."""
        from generator.hazards.find import locate_paths

        return locate_paths(self.source, [("cluster", "versions")], self.environment, self.declared)[0].line

    def point_at_platform(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return findings in rendered files with the lines of the platform file that cause them."""
        from generator.components.site import sources_of_extras
        from generator.hazards.sources import Causes, point_at_platform

        causes = Causes(self.effects, sources_of_extras(self.platform), self.hooks)
        return point_at_platform(findings, self.tree, self.source, self.environment, causes, self.declared)

    def _compare(self, adoption: Adoption) -> list[Finding]:
        """Return the findings of the checks that compare this release with the release that it replaces.

        The first release is compared with an empty release.
        """
        from generator.release import LOCK

        lock = {LOCK: self.release.lock.encode().decode()}
        texts = {**(self.replaced.texts if self.replaced else {}), **self.release.files, **lock}
        older = (
            [*self.replaced.manifests(self.release, self.tree), self.replaced.lock.manifest] if self.replaced else []
        )
        newer = [*self.tree, self.release.lock.manifest]
        return compare_rendered(older, newer, texts, self.release.targets, adoption.suite, adoption.today)


def draft_all(platform_file: Path, output: Path, against: str) -> list[Draft]:
    """Render the release of each environment of a platform file, or one release for a file without environments.

    Args:
        platform_file: a platform.yaml, or a Python file, which mpigen executes.
        output: the folder for releases.
        against: the Git revision or folder with the releases that the new ones replace.

    Raises:
        ConfigError: the platform file is invalid, or there is no Git revision `against`.
    """
    if platform_file.suffix == ".py":
        _, app = load_app(platform_file)
        return [draft_release(platform_file, "", app, output, against)]
    from generator.config.load import load_environments

    platforms = load_environments(platform_file)  # reports errors before App starts Node.js, which is slow
    from generator import App

    return [
        draft_release(platform_file, environment, App(platform), output, against)
        for environment, platform in platforms.items()
    ]


def draft_release(platform_file: Path, environment: str, app: App, output: Path, against: str) -> Draft:
    """Render the release of a platform.

    Args:
        platform_file: the platform file.
        environment: the environment of the platform; empty for a file without environments.
        app: the app of the platform.
        output: the folder for releases.
        against: the Git revision or folder with the release that the new one replaces. Default: `HEAD`, or the release
            on disk if `HEAD` has none.

    Raises:
        ConfigError: as for `render` in `generator/pipeline.py`, or there is no Git revision `against`.
    """
    from generator.config.environments import selected_environment
    from generator.config.model.fields import copy_unchecked
    from generator.gitops.metadata import Headers
    from generator.objects.protections import read_protections
    from generator.release import Release, find_replaced

    platform = app.platform
    app.file, app.environment = str(platform_file), environment or selected_environment()
    tree, effects = render_with_effects(platform, app)
    home = output / platform.platform
    release = Release(
        platform=platform.platform,
        version=platform.release,
        files=Headers(platform, platform_file.name).add(manifests.write(tree)),
        inputs=platform.digest(),
        targets=platform.cluster.versions.model_dump(),
        protections=read_protections(tree),
        removed={name: removal.as_texts for name, removal in platform.removed.items()},
        renames={tenant.name: tenant.renamed_from for tenant in platform.tenants if tenant.renamed_from},
        predecessor=platform.renamed_from or "",
    )
    replaced = find_replaced(home, against, release.predecessor)
    is_python = platform_file.suffix == ".py"
    declared = copy_unchecked(platform, runtimes=app.runtimes) if is_python else platform
    hooks = {identity: partial(origins.find, file=str(platform_file)) for identity, origins in app.origins.items()}
    return Draft(environment, platform, platform_file, tree, release, home, replaced, effects, declared, hooks)


def find_orphan_names(platform_file: Path, output: Path) -> list[str]:
    """Return the names of platforms whose releases stay, although the platform file no longer writes them.

    Args:
        platform_file: a platform.yaml or a Python file.
        output: the folder for releases.
    """
    from generator.config.load import find_names
    from generator.release import find_orphans

    base, names = find_names(platform_file)
    return [lock.platform for lock in find_orphans(output, base, names, platform_file.name)]
