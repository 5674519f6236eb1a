"""The bridge to cdk8s: a Component holds manifests, and `collect` reads them from the construct tree of an app.

Components keep their manifests in Python, because each ApiObject costs a round trip to Node.js. In a plain `cdk8s.App`
the same components create ordinary ApiObjects instead, so `app.synth()` works there too.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import cdk8s
import constructs

from generator.components.origins import Origins
from generator.config.platform import Platform
from generator.documents.messages import format_value
from generator.documents.side_effects import is_python_running
from generator.errors import ConfigError, Problem
from generator.manifests import Body, Manifest
from generator.patches.apply import Function, Patch
from generator.patches.select import Selection

_FILE = re.compile(r"(?!(?:argocd|flux)/)(?:[A-Za-z0-9][\w.@+-]*/)*[A-Za-z0-9][\w.@+-]*\.ya?ml", re.ASCII)


class Component(constructs.Construct):
    """A construct that holds the manifests of a part of the platform: a tenant, a runtime, a queue tree.

    Args:
        scope: the app, or a construct in it.
        id: the name of the construct, unique in `scope`.
        manifests: the objects. The `file` of each is relative to the release folder, ends in `.yaml` or `.yml`, and is
            not below `argocd/` or `flux/`.

    Attributes:
        is_replaceable: True if a platform file in Python may remove the components of this class.
        manifests: the objects.
        api_objects: the objects as cdk8s ApiObjects in a plain `cdk8s.App`; empty in an `App` of mpigen.
    """

    is_replaceable = False

    def __init__(self, scope: constructs.Construct, id: str, manifests: Iterable[Manifest]) -> None:  # noqa: A002
        super().__init__(scope, id)
        self.manifests = tuple(manifests)
        self.api_objects: tuple[cdk8s.ApiObject, ...] = ()
        if not isinstance(self.node.root, ManifestApp):
            chart = cdk8s.Chart(self, "chart")
            self.api_objects = tuple(
                place_api_object(chart, f"{number}-{manifest.kind.lower()}", manifest.body)
                for number, manifest in enumerate(self.manifests)
            )


def _digests(component: Component) -> tuple[str, ...]:
    """Return a digest of each manifest of a component."""
    texts = (json.dumps([item.file, item.body], default=str) for item in component.manifests)
    return tuple(hashlib.sha256(text.encode()).hexdigest() for text in texts)


def place_api_object(scope: constructs.Construct, id: str, body: Body) -> cdk8s.ApiObject:  # noqa: A002
    """Create an ApiObject with this body. The Python class accepts no `spec`, so JSON patches set it."""
    api_object = cdk8s.ApiObject(scope, id, api_version=body["apiVersion"], kind=body["kind"])
    for key, value in body.items():
        if key not in ("apiVersion", "kind"):
            api_object.add_json_patch(
                cdk8s.JsonPatch.replace(f"/{key}", value)
                if key == "metadata"
                else cdk8s.JsonPatch.add(f"/{key}", value)
            )
    return api_object


class ManifestApp(cdk8s.App):
    """A cdk8s App of one platform, whose components keep their manifests in Python.

    Attributes:
        platform: the platform.
        patches: the patches that `patch` added.
        file: the platform file; empty if a script creates the app.
        environment: the environment of the platform; empty for a file without environments.
    """

    def __init__(self, platform: Platform) -> None:
        super().__init__()
        self.platform = platform
        self.patches: list[Patch] = []
        self.origins: dict[tuple[str, str, str, str], Origins] = {}
        self.file = ""
        self.environment = ""
        self._sealed: dict[Component, tuple[str, ...]] = {}

    def seal(self) -> None:
        """Record the manifests of all components, if the platform file is in Python. `find_altered` compares them."""
        if is_python_running():
            components = [construct for construct in self.node.find_all() if isinstance(construct, Component)]
            self._sealed = {part: _digests(part) for part in components if not part.is_replaceable}

    def find_altered(self) -> Iterator[Problem]:
        """Yield a problem for each recorded component that Python code has removed, or changed without a patch."""
        left = {id(construct) for construct in self.node.find_all()} if self._sealed else set()
        for component, digests in self._sealed.items():
            name = component.node.id
            if id(component) not in left:
                message = f"the file removes the component `{name}` of mpigen, and so all of its protections"
                yield Problem(
                    message, "keep the component, and change fields of the platform or patch objects", self.file
                )
            elif _digests(component) != digests:
                message = f"the file changes the objects of the component `{name}` of mpigen without a patch"
                yield Problem(message, "call `app.patch`, so that mpigen reports what the change weakens", self.file)

    def patch(self, target: Selection, change: Mapping[str, Any] | Function) -> None:
        """Change objects of the release: of the components, of your own constructs, and of the GitOps engine.

        Patches run after the `patches` of the platform file, in the order of the calls. mpigen checks the changed
        objects like all others.

        Args:
            target: the objects to change, from `select`.
            change: a mapping that is merged into each object, as `merge` of `patches` in the platform file; or a
                function that gets a copy of each object and returns the changed object.

        Raises:
            ConfigError: `change` is neither, or is not plain data.
        """
        caller = sys._getframe(1)  # noqa: SLF001 - errors name the line of the call
        file, line = caller.f_code.co_filename, caller.f_lineno
        patch = Patch(target, change, file=file, line=line)
        if not isinstance(target, Selection):
            raise ConfigError((patch.problem("the target is not a selection", "write select(kind=…)"),))
        if not callable(change):
            if not isinstance(change, Mapping) or not change:
                fix = "pass a mapping with the fields to change, or a function"
                raise ConfigError((patch.problem(f"{format_value(change)} is not a change of objects", fix),))
            try:
                plain = json.loads(json.dumps(change, allow_nan=False))
            except (TypeError, ValueError, RecursionError) as error:
                fix = "use strings, finite numbers, lists and mappings only"
                raise ConfigError((patch.problem(f"the change is not plain data: {error}", fix),)) from None
            patch = replace(patch, change=plain)
        self.patches.append(patch)

    def synth(self) -> None:
        """Raise a RuntimeError: only `mpigen synth` checks all manifests before it writes them."""
        raise RuntimeError("write this app with `mpigen synth`; app.synth() would bypass its checks and its lock")


def platform_of(scope: constructs.Construct) -> Platform:
    """Return the platform of the app that contains a construct.

    Raises:
        ValueError: the app is a plain cdk8s App.
    """
    root = scope.node.root
    if not isinstance(root, ManifestApp):
        raise ValueError("pass platform=… in a plain cdk8s App")  # noqa: TRY004 - a missing argument
    return root.platform


def collect(app: cdk8s.App) -> list[Manifest]:
    """Return every manifest of an app: of its components, and of the ApiObjects that an admin adds.

    Raises:
        ConfigError: a construct does not validate or cannot be rendered, a body is not an object of plain data, or a
            platform file in Python removes or changes a component of mpigen.
    """
    tree = app.node.find_all()
    components = [construct for construct in tree if isinstance(construct, Component)]
    of_components = {id(api_object) for component in components for api_object in component.api_objects}
    problems = [problem for construct in tree for problem in _invalid(construct)]
    problems += app.find_altered() if isinstance(app, ManifestApp) else ()
    collected: list[Manifest] = []
    for construct in tree:
        if isinstance(construct, Component):
            collected.extend(construct.manifests)
        elif isinstance(construct, cdk8s.ApiObject) and id(construct) not in of_components:
            try:
                body = construct.to_json()
            except RuntimeError as error:  # jsii raises it for every JavaScript error
                problems.append(Problem(str(error).splitlines()[0], "fix the construct", path=construct.node.path))
            else:
                collected.append(Manifest(body, custom_file(body)))
    problems += [problem for manifest in collected for problem in find_malformed(manifest)]
    if problems:
        file = app.file if isinstance(app, ManifestApp) else ""
        raise ConfigError(tuple(replace(problem, file=problem.file or file) for problem in problems))
    return collected


def _invalid(construct: constructs.IConstruct) -> Iterator[Problem]:
    """Yield the validation errors of a construct that an admin wrote. Each validation costs a round trip to Node.js."""
    if type(construct).__module__.startswith("generator.") and not isinstance(construct, ManifestApp):
        return
    for message in construct.node.validate():
        yield Problem(message, path=construct.node.path or "app")


def custom_file(body: Body) -> str:
    """Return the file of an admin's ApiObject: `custom/<namespace or cluster>/<kind>-<name>.yaml`."""
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    kind, name = str(body.get("kind", "")).lower(), str(metadata.get("name") or "unnamed")
    return f"custom/{slug(str(metadata.get('namespace') or 'cluster'))}/{slug(f'{kind}-{name}')}.yaml"


def slug(text: str) -> str:
    """Return a text as the name of a file: replace characters that mpigen allows in no name, and append a digest."""
    plain = re.sub(r"[^a-z0-9.-]+", "-", text.lower()).strip("-.") or "x"
    return plain if plain == text else f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def find_malformed(manifest: Manifest) -> Iterator[Problem]:
    """Yield the problems of a manifest that cannot be written: its file, its metadata, or its data."""
    where = f"{manifest.resource} in {manifest.file}"
    if not _FILE.fullmatch(manifest.file):
        fix = "name a YAML file by a relative path outside argocd/ and flux/, such as site/extra.yaml"
        yield Problem(f"`{manifest.file}` is not a valid path in a release", fix, path=manifest.resource)
    metadata = manifest.body.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("annotations", {}), dict):
        yield Problem("`metadata` or `metadata.annotations` is not a mapping", "write a mapping", path=where)
    try:
        json.dumps(manifest.body, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        fix = "use strings, numbers, lists and mappings only"
        yield Problem(f"the manifest is not plain data: {error}", fix, path=where)
