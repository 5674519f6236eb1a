"""Test layers of images: whiteouts, links, permissions, and archives that try to leave the root filesystem."""

from __future__ import annotations

import io
import tarfile
from io import BufferedReader
from pathlib import Path
from typing import cast

import pytest

from generator.errors import InputError
from generator.images import layer as layers
from generator.images.folder import FolderRoot
from generator.images.layer import read_layer
from generator.images.tree import Folder, Root, Tree, add_layer
from generator.images.walk import User, Walk
from tests.layouts import Member, file, folder, layer_of, link

USER = User(1000, frozenset({1000}))


def stack(*contents: bytes) -> Tree:
    """Return the root filesystem of layers, the lowest first."""
    top = Folder()
    for content in contents:
        add_layer(top, read_layer(cast("BufferedReader", io.BytesIO(content)), "layer", top).top)
    return Tree(top)


def programs(root: Root, user: User = USER) -> set[str]:
    """Return the paths of all programs that a user finds by their places."""
    walk = Walk(root, user)

    def below(place: tuple[str, ...]) -> set[str]:
        paths = {f"/{'/'.join((*place, name))}": (*place, name) for name in root.names(place)}
        found = {path for path in paths if walk.is_program(path)}
        entries = {path: root.entry(place) for path, place in paths.items()}
        return found.union(*(below(paths[path]) for path, entry in entries.items() if entry and entry.kind == "folder"))

    return below(())


def test_a_whiteout_removes_only_from_the_layers_below() -> None:
    below = layer_of(folder("bin"), file("bin/ssh"), file("bin/sed"))
    above = layer_of(file("bin/.wh.ssh"), file("bin/.wh.sed"), file("bin/sed"))
    assert programs(stack(below, above)) == {"/bin/sed"}


def test_an_opaque_folder_hides_the_layers_below() -> None:
    below, above = layer_of(file("bin/ssh"), file("etc/x")), layer_of(file("bin/sed"), file("bin/.wh..wh..opq"))
    assert programs(stack(below, above)) == {"/bin/sed", "/etc/x"}
    assert programs(stack(above, layer_of(file("bin/.wh..wh.plnk")))) == {"/bin/sed"}


def test_a_folder_hides_a_link_of_a_layer_below_and_a_link_hides_a_folder() -> None:
    merged = layer_of(link("bin", "usr/bin"), file("usr/bin/sh"))
    assert Walk(stack(merged), USER).is_program("/bin/sh")
    assert not Walk(stack(merged, layer_of(file("bin/sed"))), USER).is_program("/bin/sh")
    assert programs(stack(layer_of(file("bin/sh"), file("x/sed")), layer_of(link("bin", "x")))) == {"/x/sed"}


def test_a_path_of_a_layer_follows_links_inside_of_the_layer() -> None:
    tree = stack(layer_of(link("bin", "/usr/bin"), file("bin/sh"), link("lib", "../../usr/lib"), file("lib/x")))
    assert programs(tree) == {"/usr/bin/sh", "/usr/lib/x"}


@pytest.mark.parametrize("name", ["../../etc/sh", "/etc/sh", "./etc/sh", "etc/../../etc/./sh", "//etc//sh"])
def test_no_path_leaves_the_root(name: str) -> None:
    assert programs(stack(layer_of(file(name)))) == {"/etc/sh"}


def test_a_folder_keeps_its_permissions_if_a_layer_names_only_its_files() -> None:
    below, above = layer_of(folder("bin", 0o700), file("bin/ssh")), layer_of(file("bin/sed"))
    assert not programs(stack(below, above))
    assert programs(stack(below, layer_of(folder("bin"), file("bin/sed")))) == {"/bin/ssh", "/bin/sed"}


def test_a_hard_link_has_the_permissions_of_its_target() -> None:
    below = layer_of(file("bin/busybox"), file("bin/data", 0o644))
    above = layer_of(link("bin/sh", "bin/busybox", hard=True), link("bin/x", "/bin/data", hard=True))
    assert programs(stack(below, above)) == {"/bin/busybox", "/bin/sh"}
    with pytest.raises(InputError, match="the hard link `bin/y` has no target"):
        stack(layer_of(link("bin/y", "../../bin/sh", hard=True)))


@pytest.mark.parametrize(
    ("mode", "owner", "user", "runs"),
    [
        (0o755, (0, 0), USER, True),
        (0o644, (0, 0), USER, False),
        (0o700, (1000, 0), USER, True),
        (0o077, (1000, 1000), USER, False),  # the permissions of the owner alone decide
        (0o750, (0, 1000), USER, True),
        (0o705, (0, 1000), USER, False),
        (0o750, (0, 0), USER, False),
        (0o750, (0, 0), User(1000, frozenset({0})), True),
        (0o4755, (0, 0), USER, True),
    ],
)
def test_permissions_restrict_the_user(mode: int, owner: tuple[int, int], user: User, *, runs: bool) -> None:
    assert (programs(stack(layer_of(file("sh", mode, owner=owner))), user) == {"/sh"}) is runs


LINKS = (
    file("usr/bin/sh"),
    link("bin", "usr/bin"),
    link("sbin", "/bin"),
    link("up", "../../../usr/bin/../bin/sh"),
    link("loop", "loop"),
    link("ping", "pong"),
    link("pong", "ping"),
    link("dangling", "nowhere"),
    folder("closed", 0o700),
    file("closed/sh"),
    link("through", "closed/sh"),
)


@pytest.mark.parametrize("on_disk", [False, True])
def test_links_lead_inside_of_the_image(tmp_path: Path, *, on_disk: bool) -> None:
    root: Root = stack(layer_of(*LINKS))
    if on_disk:
        with tarfile.open(fileobj=io.BytesIO(layer_of(*LINKS))) as archive:
            archive.extraction_filter = lambda member, _: member  # extractall has no `filter` before Python 3.11.4
            archive.extractall(tmp_path)
        root = FolderRoot(tmp_path)
    walk = Walk(root, User(-1, frozenset()))  # no owner of the files
    paths = ["bin", "sbin", "loop", "ping", "dangling", "through", "closed", "up"]
    found = {path for path in paths if walk.is_program(f"/{path}") or walk.is_program(f"/{path}/sh")}
    assert found == {"bin", "sbin", "up"}
    assert walk.expand("/[!b]*bin/s?") == ["/sbin/sh"]


def test_a_chain_of_forty_links_is_followed_and_no_longer_one() -> None:
    chain = [file("0"), *(link(str(number), str(number - 1)) for number in range(1, 42))]
    walk = Walk(stack(layer_of(*chain)), USER)
    assert (walk.is_program("/40"), walk.is_program("/41")) == (True, False)


def test_a_loop_on_the_way_to_a_file_of_a_layer_is_damage() -> None:
    with pytest.raises(InputError, match="is damaged: a link to `a` leads to itself"):
        stack(layer_of(link("a", "b"), link("b", "a"), file("a/sh")))


@pytest.mark.parametrize("compression", ["", "gz", "bz2", "xz"])
def test_a_layer_can_be_compressed(compression: str) -> None:
    assert programs(stack(layer_of(file("sh"), compression=compression))) == {"/sh"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is damaged"),
        (b"no archive", "is damaged"),
        (layer_of(file("sh", content=b"x" * 100_000))[:-30], "is damaged"),
        (layer_of(file("sh", content=b"x" * 9_000), compression="")[:5_000], "is damaged"),
        (b"\x28\xb5\x2f\xfd....", "is compressed with zstd, but mpigen reads gzip; convert the image: `skopeo"),
    ],
)
def test_a_damaged_layer_is_an_error_with_its_name(content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=f"layer: {message}"):
        stack(content)


def test_a_layer_has_a_largest_number_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "_MOST", 2)
    members = [file(str(number)) for number in range(3)]
    assert len(programs(stack(layer_of(*members[:2])))) == 2
    with pytest.raises(InputError, match="has more than 2 files"):
        stack(layer_of(*members))


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.BLKTYPE])
def test_a_device_is_no_program(kind: bytes) -> None:
    member = Member(file("sh").info)
    member.info.type = kind
    assert not programs(stack(layer_of(member)))


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("/usr/bin", ["/usr/bin"]),
        ("/missing/bin", ["/missing/bin"]),
        ("/opt/*/bin", ["/opt/a/bin", "/opt/b/bin"]),
        ("/opt/*/*/bin", ["/opt/a/x/bin"]),
        ("/opt/.*/bin", ["/opt/.hidden/bin"]),
        ("/opt/[ab]", ["/opt/a", "/opt/b"]),
        ("/opt/z*/bin", []),
        ("/closed/*", []),
        ("/file/*", []),
        ("", [""]),
    ],
)
def test_a_pattern_of_folders_has_the_matches_of_a_shell(pattern: str, paths: list[str]) -> None:
    members = [folder(f"opt/{name}") for name in ("a", "a/x", "b", ".hidden")]
    tree = stack(layer_of(*members, folder("closed", 0o711), file("closed/x"), file("file")))
    assert Walk(tree, USER).expand(pattern) == paths
