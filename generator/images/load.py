"""Reader of images: the root filesystem and the configuration of an image in a folder or an archive.

Sources: image-spec v1.1.1 image-layout.md, image-index.md, manifest.md and config.md; moby v28.5
image/spec/v1.2/spec.md ("Combined Image JSON + Filesystem Changeset Format") for archives of Docker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from generator.documents.messages import escape_control, format_names
from generator.errors import InputError, Problem
from generator.images.archive import Store, damaged, has_blob, open_blob, open_store, read_json
from generator.images.folder import FolderRoot
from generator.images.layer import USERS, read_layer
from generator.images.tree import Folder, Root, Tree, add_layer
from generator.images.walk import User, Walk
from generator.objects.fields import mapping, string, strings
from generator.runtimes.hosts import DEFAULT_USER

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The PATH of a container whose image sets none (containerd v2.1.4
pkg/oci/spec_opts_nonwindows.go WithDefaultPathEnv)."""
_TAG = "org.opencontainers.image.ref.name"
_Blob = tuple[str, BufferedReader]
"""The path and the content of a layer."""
_DEEPEST = 4  # indexes inside of indexes


@dataclass(frozen=True, slots=True)
class Image:
    """An image.

    Attributes:
        root: its root filesystem.
        architectures: the architectures that it has programs for, as in the label kubernetes.io/arch; empty if unknown.
        path: the variable PATH of its containers.
        folder: the working folder of its containers.
    """

    root: Root
    architectures: tuple[str, ...] = ()
    path: str = DEFAULT_PATH
    folder: str = "/"


def load_image(reference: str, architecture: str) -> Image:
    """Return an image.

    Args:
        reference: the path of an OCI layout, of an archive or of a root filesystem. `:TAG` can follow the path of a
            layout or an archive with several images.
        architecture: the architecture of the nodes, which selects one manifest of several; empty if unknown.

    Raises:
        InputError: there is no such image, or it is damaged.
    """
    path, tag = _split(reference)
    if path.is_dir() and not (path / "index.json").is_file():
        return _root_image(path)
    with open_store(path) as store:
        index = read_json(store, "index.json")
        if isinstance(index, dict):
            return _oci_image(store, index, tag, architecture)
        listed = read_json(store, "manifest.json")
        if isinstance(listed, list):
            return _docker_image(store, listed, tag)
    return _archive_image(path)


def _split(reference: str) -> tuple[Path, str]:
    """Return the path and the tag of a reference. A tag of an archive of Docker has a `:` itself.

    Raises:
        InputError: there is no such path.
    """
    for end in (len(reference), *(place for place, letter in enumerate(reference) if letter == ":")):
        if end and Path(reference[:end]).exists():
            return Path(reference[:end]), reference[end + 1 :]
    fix = f"write the image to a folder: `skopeo copy docker://{reference} oci:image`, then name `image`"
    raise InputError((Problem("is no file and no folder, and mpigen contacts no registry", fix, reference),))


def _root_image(path: Path) -> Image:
    """Return the image of a root filesystem in a folder. The shell has the architecture of the image."""
    root = FolderRoot(path)
    shell = Walk(root, User(DEFAULT_USER, frozenset({0}))).find("/bin/sh")
    architecture = root.architecture(shell[0]) if shell and shell[1].kind == "file" else ""
    return Image(root, (architecture,) if architecture else ())


def _archive_image(path: Path) -> Image:
    """Return the image of an archive with a root filesystem, as `podman export` writes it."""
    with path.open("rb") as stream:
        layer = read_layer(stream, str(path), Folder())
    return Image(Tree(layer.top, {USERS: layer.users or ""}))


def _oci_image(store: Store, index: Mapping[str, Any], tag: str, architecture: str) -> Image:
    """Return the image of an OCI layout with a tag, for the architecture of the nodes if it has several."""
    tags: dict[str, list[Any]] = {}
    for entry in _list(store, index, "manifests"):
        tags.setdefault(string(mapping(entry, "annotations").get(_TAG)), []).append(entry)
    manifests = [*_manifests(store, tags[_choose(store, tags, tag)])]
    if not manifests:
        raise damaged(store, "there is no image for Linux in it")
    built = {known: (manifest, config) for known, manifest, config in reversed(manifests)}
    manifest, config = built.get(architecture or "amd64", manifests[0][1:])
    layers = (open_blob(store, layer) for layer in _list(store, manifest, "layers"))
    return _image(store, config, layers, tuple(filter(None, built)))


def _manifests(store: Store, entries: list[Any], depth: int = 0) -> Iterator[tuple[str, Any, Any]]:
    """Yield (architecture, manifest, configuration) of each image for Linux in an index, and in the indexes inside.

    `docker save` leaves out the files of images for other architectures.
    """
    for entry in entries:
        if not has_blob(store, entry):
            continue
        document = _read_blob(store, entry)
        if "manifests" in document and depth < _DEEPEST:
            yield from _manifests(store, _list(store, document, "manifests"), depth + 1)
        elif "config" in document:
            config = _read_blob(store, document["config"])
            platform = mapping(entry, "platform") or config
            if platform.get("os", "linux") == "linux":  # an attestation has `unknown`
                yield escape_control(string(platform.get("architecture"))), document, config


def _read_blob(store: Store, descriptor: Any) -> dict[str, Any]:
    path, stream = open_blob(store, descriptor)
    stream.close()
    document = read_json(store, path)
    if not isinstance(document, dict):
        raise damaged(store, f"`{path}` is not a JSON object")
    return document


def _list(store: Store, document: Mapping[str, Any], key: str) -> list[Any]:
    """Return a list of JSON objects in a document."""
    entries = document.get(key)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise damaged(store, f"`{key}` is not a list of JSON objects")
    return entries


def _choose(store: Store, tags: Collection[str], tag: str) -> str:
    """Return the tag of the wanted image; without a wanted tag, the only tag."""
    if tag in tags and (tag or len(tags) == 1):
        return tag
    if not tag and len(tags) == 1:
        return next(iter(tags))
    if not tags:
        raise damaged(store, "there is no image in it")
    known = format_names(sorted(escape_control(known) for known in tags if known))
    message = f"there is no image with the tag `{tag}`" if tag else "there are several images"
    raise InputError((Problem(f"{message}: the tags are {known}", f"write {store.name}:TAG", store.name),))


def _docker_image(store: Store, listed: list[Any], tag: str) -> Image:
    """Return the image of an archive of `docker save`, or of `podman save` without a format."""
    images: dict[str, Any] = {}
    for entry in listed:
        if isinstance(entry, dict):
            images |= dict.fromkeys(strings(entry.get("RepoTags")) or ("",), entry)
    entry = images[_choose(store, images, tag)]
    config = read_json(store, string(entry.get("Config")))
    if not isinstance(config, dict):
        raise damaged(store, "the configuration of the image is missing")

    def layers() -> Iterator[_Blob]:
        for path in strings(entry.get("Layers")):
            stream = store.open(path)
            if stream is None:
                raise damaged(store, f"layer `{path}` is missing")
            yield path, stream

    architecture = escape_control(string(config.get("architecture")))
    return _image(store, config, layers(), (architecture,) if architecture else ())


def _image(store: Store, config: Mapping[str, Any], layers: Iterator[_Blob], architectures: tuple[str, ...]) -> Image:
    """Return an image of layers, from the lowest to the uppermost."""
    top, users = Folder(), ""
    for name, stream in layers:
        with stream:
            layer = read_layer(stream, f"{store.name}: {name}", top)
        add_layer(top, layer.top)
        users = users if layer.users is None else layer.users
    settings = mapping(config, "config")
    variables = dict(text.partition("=")[::2] for text in strings(settings.get("Env")))
    return Image(
        Tree(top, {USERS: users}),
        architectures,
        path=variables.get("PATH", DEFAULT_PATH),
        folder=string(settings.get("WorkingDir")) or "/",
    )
