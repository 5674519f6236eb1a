"""Test images in OCI layouts, archives and folders: the selection by tag and architecture, and damaged images."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from generator.errors import InputError
from generator.images.load import DEFAULT_PATH, Image, load_image
from generator.images.tree import Place
from tests.layouts import INDEX, Layout, docker_archive, file, layer_of

SH = layer_of(file("bin/sh"))


def has(image: Image, *place: str) -> bool:
    """Return True if an image has an entry at a place."""
    return image.root.entry(Place(place)) is not None


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "image")


def test_a_layout_is_a_folder_or_an_archive(layout: Layout, tmp_path: Path) -> None:
    manifest = layout.image([SH, layer_of(file("bin/ssh"))], variables={"PATH": "/bin", "A": "b=c"}, WorkingDir="/work")
    path = layout.write(manifest)
    for reference in (path, layout.archive(tmp_path / "image.tar")):
        image = load_image(str(reference), "amd64")
        assert (image.architectures, image.path, image.folder) == (("amd64",), "/bin", "/work")
        assert has(image, "bin", "sh")
        assert has(image, "bin", "ssh")


def test_an_image_without_a_configuration_has_the_path_of_the_container_runtime(layout: Layout) -> None:
    image = load_image(str(layout.write(layout.image([SH], variables={}))), "")
    assert (image.path, image.folder) == (DEFAULT_PATH, "/")


def test_the_architecture_of_the_nodes_selects_an_image(layout: Layout) -> None:
    arm = layout.image([layer_of(file("arm"))], "arm64")
    amd = layout.image([layer_of(file("amd"))], "amd64")
    attestation = {**layout.image([], "unknown"), "platform": {"architecture": "unknown", "os": "unknown"}}
    windows = {**layout.image([]), "platform": {"architecture": "amd64", "os": "windows"}}
    nested = layout.blob({"manifests": [windows, attestation, arm, amd]}, INDEX)
    for entries in ([nested], [windows, arm, attestation, amd]):
        path = str(layout.write(*entries))
        for architecture, name in (("amd64", "amd"), ("arm64", "arm"), ("", "amd"), ("ppc64le", "arm")):
            image = load_image(path, architecture)
            assert {*image.architectures} == {"amd64", "arm64"}
            assert has(image, name)


def test_without_a_platform_the_configuration_has_the_architecture(layout: Layout) -> None:
    manifests = [layout.image([layer_of(file(name))], name) for name in ("arm64", "amd64")]
    image = load_image(str(layout.write(*({**one, "platform": None} for one in manifests))), "amd64")
    assert has(image, "amd64")


def test_files_of_other_architectures_may_be_missing(layout: Layout) -> None:
    amd, arm = layout.image([SH]), layout.image([SH], "arm64")
    path = layout.write(layout.blob({"manifests": [arm, amd]}, INDEX))
    (layout.root / f"blobs/{arm['digest'].replace(':', '/')}").unlink()
    assert load_image(str(path), "amd64").architectures == ("amd64",)
    (layout.root / f"blobs/{amd['digest'].replace(':', '/')}").unlink()
    with pytest.raises(InputError, match="there is no image for Linux in it"):
        load_image(str(path), "amd64")


def test_a_tag_selects_an_image(layout: Layout, tmp_path: Path) -> None:
    path = layout.write(layout.image([SH], tag="5.0"), layout.image([layer_of(file("x"))], tag="4.1"))
    for reference in (path, layout.archive(tmp_path / "image.tar")):
        assert has(load_image(f"{reference}:4.1", ""), "x")
        assert has(load_image(f"{reference}:5.0", ""), "bin", "sh")
        message = "there are several images: the tags are `4.1` and `5.0`; write .*:TAG"
        with pytest.raises(InputError, match=message):
            load_image(str(reference), "")
        with pytest.raises(InputError, match="there is no image with the tag `3`"):
            load_image(f"{reference}:3", "")


def test_the_only_image_needs_no_tag(layout: Layout) -> None:
    assert has(load_image(str(layout.write(layout.image([SH], tag="5.0"))), ""), "bin", "sh")


def test_an_archive_of_docker_can_have_links_to_layers(tmp_path: Path) -> None:
    path = docker_archive(tmp_path / "image.tar", [SH, layer_of(file("bin/.wh.sh"), file("bin/ssh"))])
    for reference in (str(path), f"{path}:acme/mpi:1"):
        image = load_image(reference, "")
        assert (image.architectures, image.path) == (("amd64",), "/usr/bin:/bin")
        assert (has(image, "bin", "ssh"), has(image, "bin", "sh")) == (True, False)


def test_an_archive_can_be_compressed(tmp_path: Path) -> None:
    path = docker_archive(tmp_path / "image.tar", [SH])
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert has(load_image(str(path), ""), "bin", "sh")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"Layers": ["missing"]}, "layer `missing` is missing"),
        ({"Layers": ["../../etc/passwd"]}, "layer `../../etc/passwd` is missing"),
        ({"Config": "missing"}, "the configuration of the image is missing"),
        ({"Config": 3, "Layers": "x"}, "the configuration of the image is missing"),
    ],
)
def test_an_archive_of_docker_can_be_damaged(tmp_path: Path, entry: dict[str, object], message: str) -> None:
    path = docker_archive(tmp_path / "image.tar", [SH], **entry)
    with pytest.raises(InputError, match=message):
        load_image(str(path), "")


def test_a_root_filesystem_is_a_folder_or_an_archive(tmp_path: Path) -> None:
    folder = tmp_path / "root"
    (folder / "usr/bin").mkdir(parents=True)
    (folder / "bin").symlink_to("usr/bin")
    (folder / "usr/bin/sh").write_bytes(b"\x7fELF\x02\x01".ljust(18, b"\0") + (183).to_bytes(2, "little"))
    (folder / "usr/bin/sh").chmod(0o755)
    image = load_image(str(folder), "amd64")
    assert (image.architectures, image.path) == (("arm64",), DEFAULT_PATH)
    assert has(image, "usr", "bin", "sh")
    archive = tmp_path / "root.tar"
    archive.write_bytes(SH)
    image = load_image(str(archive), "amd64")
    assert (image.architectures, has(image, "bin", "sh")) == ((), True)


def test_a_shell_can_be_a_script_or_a_short_file(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for content in (b"", b"\x7fELF", b"#!/bin/busybox sh\n-------------------"):
        (tmp_path / "bin/sh").write_bytes(content)
        assert load_image(str(tmp_path), "").architectures == ()


def test_a_reference_of_a_registry_needs_a_copy() -> None:
    with pytest.raises(InputError) as caught:
        load_image("quay.io/acme/openmpi:5.0", "")
    assert str(caught.value) == (
        "quay.io/acme/openmpi:5.0: is no file and no folder, and mpigen contacts no registry; write the image to "
        "a folder: `skopeo copy docker://quay.io/acme/openmpi:5.0 oci:image`, then name `image`"
    )


def test_a_file_that_is_no_archive_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "Containerfile").write_text("FROM debian")
    with pytest.raises(InputError, match="Containerfile: is not a tar archive; name an OCI layout, an archive"):
        load_image(str(tmp_path / "Containerfile"), "")


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("{", "`index.json` is not JSON"),
        ("[" * 100_000, "`index.json` is not JSON"),
        ("{}", "`manifests` is not a list of JSON objects"),
        ('{"manifests": [1]}', "`manifests` is not a list of JSON objects"),
        ('{"manifests": []}', "there is no image in it"),
        ('{"manifests": [{}]}', "`` is not a digest"),
        ('{"manifests": [{"annotations": [], "digest": "sha256:../../x"}]}', "`sha256:../../x` is not a digest"),
        ('{"manifests": [{"digest": "sha256:' + "0" * 64 + '"}]}', "there is no image for Linux in it"),
        (" " * 4_000_001, "`index.json` has more than 4,000,000 bytes"),
    ],
)
def test_an_index_can_be_damaged(layout: Layout, index: str, message: str) -> None:
    (layout.root / "index.json").write_text(index)
    with pytest.raises(InputError, match=f"image: {message}"):
        load_image(str(layout.root), "")


@pytest.mark.parametrize("part", ["manifest", "config", "layer"])
def test_a_changed_or_missing_blob_is_an_error(layout: Layout, part: str) -> None:
    manifest = layout.image([SH])
    path = layout.write(manifest)
    blob = path / "blobs" / manifest["digest"].replace(":", "/")
    inside = json.loads(blob.read_text())
    parts = {"manifest": manifest, "config": inside["config"], "layer": inside["layers"][0]}
    changed = path / "blobs" / parts[part]["digest"].replace(":", "/")
    changed.write_bytes(changed.read_bytes() + b" ")
    with pytest.raises(InputError, match=r"the digest of `blobs/sha256/[0-9a-f]*` is different; write the image"):
        load_image(str(path), "")
    changed.unlink()
    with pytest.raises(InputError, match="is missing" if part != "manifest" else "no image for Linux"):
        load_image(str(path), "")


def test_no_name_of_an_image_reaches_the_terminal(layout: Layout) -> None:
    path = layout.write(layout.image([SH], "\x1b[31m", tag="a"), layout.image([SH], tag="\x1b]0;x"))
    with pytest.raises(InputError) as caught:
        load_image(str(path), "")
    assert "\x1b" not in str(caught.value)
    assert load_image(f"{path}:a", "").architectures == ("\\x1b[31m",)
