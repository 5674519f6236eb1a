"""Kustomizations: the files that they read, and the manifests that kustomize renders from them.

mpigen starts kubectl or kustomize only if all references of a kustomization are files on disk, because kustomize
downloads other references. Sources: kustomize/api v0.20.1 types/kustomization.go (fields),
kustomize/api v0.20.1 internal/target/kusttarget.go (resources, components), kustomize/api v0.20.1
internal/loader/loader.go (downloads).

kustomize reads the first document of a kustomization file. The last of several equal keys counts, and kustomize ignores
the case of keys. Source: kustomize/api v0.20.1 types/kustomization.go Kustomization.Unmarshal, which calls `YAMLToJSON`
of sigs.k8s.io/yaml, and then encoding/json.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generator.documents.files import read_file
from generator.documents.load import read_events
from generator.errors import DocumentError, EngineError, InputError, Problem

NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
"""The names of a kustomization file. A folder has at most one such file."""
_GROUP = "kustomize.config.k8s.io/"
_REMOTE = re.compile(r"://|[?]ref=|^[\w.-]+@[\w.-]+:|^(?:github|gitlab|bitbucket)\.\w+/")
# Keys are in lower case, see `_fold`.
_LISTS_OF_FILES = (
    "patches",
    "patchesstrategicmerge",
    "transformers",
    "generators",
    "validators",
    "configurations",
    "crds",
)
_HELM = {"helmcharts": "helmCharts", "helmchartinflationgenerator": "helmChartInflationGenerator"}
_CHANGES_NAMES = (
    *("components", "generators", "nameprefix", "namesuffix", "patches", "patchesjson6902"),
    *("patchesstrategicmerge", "replacements", "transformers", "vars", *_HELM),
)
_NOTE = re.compile(r"#|Warning:|[IW]\d{4} ")
"""The start of a line that is no error: a deprecation, a warning, or a line of klog, such as `I1126 03:59:31.9 …`."""
_SECONDS = 120
"""The longest time for one kustomization; kustomize takes less than a second for most."""


@dataclass(frozen=True, slots=True)
class Kustomization:
    """A kustomization file and its references.

    Attributes:
        file: the file.
        is_component: True for `kind: Component`, which only other kustomizations can use.
        resources: the files and folders with the manifests: `resources`, `bases` and `components`.
        inputs: the other files that kustomize reads for it, such as patches, values, and files for ConfigMaps.
        obstacles: the reasons why mpigen cannot render it: missing or remote files, and Helm; empty if it can.
        namespace: the namespace that it gives to all its objects; empty for none.
        is_plain: True if it changes neither the names nor the set of its objects.
        problem: the reason why the file is no kustomization, such as a syntax error; empty if it is one.
    """

    file: Path
    is_component: bool
    resources: tuple[Path, ...]
    inputs: tuple[Path, ...]
    obstacles: tuple[str, ...]
    namespace: str = ""
    is_plain: bool = True
    problem: str = ""

    @property
    def folder(self) -> Path:
        """The folder of the file."""
        return self.file.parent


def find_kustomization(folder: Path) -> Path | None:
    """Return the kustomization file of a folder; None if the folder has none."""
    return next((file for name in NAMES if (file := folder / name).is_file()), None)


def read_kustomization(file: Path) -> Kustomization:
    """Read a kustomization file. The result has a `problem` if the file cannot be read or has another kind."""
    try:
        body = _fold(next((document.data for document in read_events(read_file(file), keeps_last=True)), None))
        problem = _find_problem(body)
    except (DocumentError, InputError) as error:
        body, first = None, error.problems[0]
        problem = f"{first.message} (line {first.line})" if first.line else first.message
    if problem:
        return Kustomization(file, is_component=False, resources=(), inputs=(), obstacles=(), problem=problem)
    resources, inputs = list(_resources(body)), list(_inputs(body))
    obstacles = [text for name in (*resources, *inputs) if (text := _find_obstacle(file.parent, name))]
    obstacles += [f"`{name}` needs Helm" for key, name in _HELM.items() if body.get(key)]
    return Kustomization(
        file=file,
        is_component=body.get("kind") == "Component",
        resources=tuple(_join(file.parent, name) for name in resources if not _REMOTE.search(name)),
        inputs=tuple(_join(file.parent, name) for name in inputs if not _REMOTE.search(name)),
        obstacles=tuple(obstacles),
        namespace=next(iter(_strings([body.get("namespace")])), ""),
        is_plain=not any(body.get(key) for key in _CHANGES_NAMES),
    )


def _fold(value: Any) -> Any:
    """Return a value with the keys of all its mappings in lower case. Of equal keys, the last by its bytes counts."""
    if isinstance(value, dict):
        return {key.lower(): _fold(value[key]) for key in sorted(value)}
    return [_fold(item) for item in value] if isinstance(value, list) else value


def _find_problem(body: object) -> str:
    """Return the reason why a document is no kustomization; empty if it is one."""
    if not isinstance(body, dict):
        return "the file is empty" if body is None else "the file has no mapping"
    version = body.get("apiversion") or _GROUP
    return "" if str(version).startswith(_GROUP) else f"its apiVersion is `{version}`, and not `{_GROUP}v1beta1`"


def _find_obstacle(folder: Path, name: str) -> str:
    if _REMOTE.search(name):
        return f"`{name}` is not on this machine, and mpigen downloads nothing"
    return "" if _join(folder, name).exists() else f"`{name}` does not exist"


def _join(folder: Path, name: str) -> Path:
    return Path(os.path.normpath(folder / name))


def _resources(body: Mapping[str, Any]) -> Iterator[str]:
    for key in ("resources", "bases", "components"):
        yield from _strings(body.get(key))


def _inputs(body: Mapping[str, Any]) -> Iterator[str]:
    for key in _LISTS_OF_FILES:
        yield from (text for text in _strings(body.get(key)) if "\n" not in text)
    for key in ("patches", "patchesjson6902", "replacements"):
        yield from (path for item in _mappings(body.get(key)) for path in _strings([item.get("path")]))
    openapi = body.get("openapi")
    yield from _strings([openapi.get("path")] if isinstance(openapi, dict) else ())
    for key in ("configmapgenerator", "secretgenerator"):
        for item in _mappings(body.get(key)):
            yield from (text.partition("=")[2] or text for text in _strings(item.get("files")))
            yield from _strings([*_strings(item.get("envs")), item.get("env")])
    for item in _mappings(body.get("helmcharts")):
        yield from _strings([item.get("valuesfile"), *_strings(item.get("additionalvaluesfiles"))])


def _strings(value: object) -> Sequence[str]:
    return [item for item in value if isinstance(item, str) and item] if isinstance(value, list | tuple) else ()


def _mappings(value: object) -> Sequence[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else ()


class Kustomizations:
    """Kustomizations by folder, with the files that each of them reads, directly or through others."""

    def __init__(self, files: Sequence[Path]) -> None:
        """Read the kustomizations among these files. Their references are read when a method needs them."""
        self._by_folder: dict[Path, Kustomization | None] = {}
        named = [self._at(file.parent) for file in files if file.name in NAMES]
        self.named = tuple(kustomization for kustomization in named if kustomization)
        """The kustomizations among the files."""

    def around(self, file: Path) -> Iterator[Kustomization]:
        """Yield the kustomizations in the folder of a file, and in the three folders above it."""
        for folder in (file.parent, *file.parent.parents)[:4]:
            kustomization = self._at(folder)
            if kustomization and not kustomization.problem:
                yield kustomization

    def roots(self) -> list[Kustomization]:
        """Return the kustomizations among the files that no other kustomization among the files uses.

        Components are left out. Of kustomizations that use each other in a circle, the first one is a root.
        """
        used = {folder for item in self.named for folder in self._uses(item)}
        candidates = [item for item in self.named if not item.is_component]
        roots = [item for item in candidates if _join(item.folder, ".") not in used]
        reached = {part.file for root in roots for part in self.closure(root)}
        for item in candidates:
            if item.file not in reached:
                roots.append(item)
                reached.update(part.file for part in self.closure(item))
        return roots

    def used_by(self, kustomization: Kustomization) -> list[Kustomization]:
        """Return the kustomizations that a kustomization uses directly, except components."""
        used = filter(None, map(self._at, self._uses(kustomization)))
        return [item for item in used if not item.is_component]

    def closure(self, root: Kustomization) -> list[Kustomization]:
        """Return a kustomization, and all kustomizations that it uses, directly or through others."""
        parts: dict[Path, Kustomization] = {}
        waiting = [root]
        while waiting:
            kustomization = waiting.pop()
            if kustomization.folder not in parts:
                parts[kustomization.folder] = kustomization
                waiting += filter(None, map(self._at, self._uses(kustomization)))
        return list(parts.values())

    def _uses(self, kustomization: Kustomization) -> list[Path]:
        return [path for path in (*kustomization.resources, *kustomization.inputs) if path.is_dir()]

    def _at(self, folder: Path) -> Kustomization | None:
        key = Path(os.path.normpath(folder))
        if key not in self._by_folder:
            file = find_kustomization(folder)
            self._by_folder[key] = read_kustomization(file) if file else None
        return self._by_folder[key]


def find_renderer() -> tuple[str, ...]:
    """Return the command that renders a folder: `kubectl kustomize`, or else `kustomize build`.

    Raises:
        EngineError: PATH has neither program.
    """
    for program, command in (("kubectl", "kustomize"), ("kustomize", "build")):
        if path := shutil.which(program):
            return path, command
    raise EngineError((Problem("`--kustomize` needs kubectl or kustomize on PATH", "install one of them"),))


def render(folder: Path, renderer: Sequence[str]) -> bytes:
    """Return the YAML that kustomize renders from a folder.

    Args:
        folder: a folder whose kustomization has no obstacles.
        renderer: the result of `find_renderer`.

    Raises:
        InputError: kustomize rejects the folder, with a message of its own, or takes longer than `_SECONDS`.
        EngineError: the program does not run.
    """
    command = [*renderer, os.fspath(folder)]
    try:
        ran = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_SECONDS, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        fix = f"run `kustomize build {folder}`, and pipe its output into mpigen"
        problem = Problem(f"kustomize takes longer than {_SECONDS} seconds", fix)
        raise InputError((problem,)) from None
    except OSError as error:
        raise EngineError((Problem(f"{renderer[0]} does not run: {error.strerror}", "install it again"),)) from None
    if ran.returncode:
        lines = [line for line in ran.stderr.decode(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if not _NOTE.match(line)] or lines
        message = " ".join(errors).removeprefix("error: ").removeprefix("Error: ")[:500]
        raise InputError(
            (Problem(f"kustomize cannot render this folder: {message}", "fix the error that kustomize reports"),)
        )
    return ran.stdout
