"""Container images: the grammar of their references, and the folders that a volume must not hide in a container.

Source of the grammar: distribution/reference v0.6.0 normalize.go ParseNormalizedNamed; go-digest v1.0.0 digest.go
Parse; kubernetes v1.34.2 pkg/util/parsers/parsers.go ParseImageName, which calls both. The kubelet never starts a pod
with any other image: its status is InvalidImageName.
"""

from __future__ import annotations

import re
from functools import cache

from generator.documents.messages import format_value
from generator.facts.table import read_table

_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_PATH = rf"{_COMPONENT}(?:/{_COMPONENT})*"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE = re.compile(rf"(?:(?P<host>{_HOST})/)?(?P<path>{_PATH})(?::{_TAG})?(?:@(?P<digest>{_DIGEST}))?", re.ASCII)
_DIGESTS = {"sha256": 64, "sha384": 96, "sha512": 128}
"""Algorithm → hexadecimal digits of its digests."""
_LONGEST = 255  # characters of the path; `RepositoryNameTotalLengthMax`
_LONGEST_TEXT = 1024
_HUB = "docker.io"
_WRITE = "write HOST/PATH:TAG or HOST/PATH@sha256:DIGEST, such as quay.io/acme/openmpi:5.0"


def image_fault(image: str) -> tuple[str, str]:
    """Return (why a text is not an image reference, what to write instead); ('', '') if it is an image reference."""
    if len(image) > _LONGEST_TEXT:
        return "it is longer than any image reference", "write a shorter HOST/PATH:TAG"
    if re.fullmatch("[a-f0-9]{64}", image):
        return "it is only a digest", f"write the image before the digest: HOST/PATH@sha256:{image}"
    domain, rest = _split(image)
    match = _REFERENCE.fullmatch(f"{domain}/{rest}")
    name = rest.partition(":")[0]
    if match is None or name.lower() != name:
        return _find_fault(image, domain, rest)
    if len(match["path"]) > _LONGEST:
        return f"its path has more than {_LONGEST} characters", "use a shorter path"
    return _digest_fault(match["digest"] or "")


def is_image(image: str) -> bool:
    """Return True if a text is an image reference."""
    return image_fault(image) == ("", "")


def _split(image: str) -> tuple[str, str]:
    """Return (registry, rest) of an image. An image without a registry comes from Docker Hub."""
    first, slash, rest = image.partition("/")
    if not slash:
        return _HUB, f"library/{image}"
    is_host = first == "localhost" or "." in first or ":" in first or first.lower() != first
    domain, rest = (first, rest) if is_host else (_HUB, image)
    domain = _HUB if domain == "index.docker.io" else domain
    return domain, f"library/{rest}" if domain == _HUB and "/" not in rest else rest


def _digest_fault(digest: str) -> tuple[str, str]:
    if not digest:
        return "", ""
    algorithm, _, digits = digest.partition(":")
    length = _DIGESTS.get(algorithm)
    if length is None:
        return f"`{algorithm}` is not a digest algorithm", f"write one of: {', '.join(sorted(_DIGESTS))}"
    if len(digits) != length:
        message = f"its digest has {len(digits)} digits, but {algorithm} has {length}"
        return message, "copy the whole digest: `skopeo inspect` prints it"
    if not re.fullmatch("[0-9a-f]*", digits):
        return "its digest has upper-case letters", "write the digest in lower case"
    return "", ""


def _find_fault(image: str, domain: str, rest: str) -> tuple[str, str]:
    """Return (most likely mistake, fix) for a text that is not an image reference."""
    if scheme := re.match(r"(?:[a-z][a-z0-9+.-]*:)?//", image, re.IGNORECASE):
        return f"it starts with `{scheme[0]}`", f"remove `{scheme[0]}`"
    if image != image.strip():
        return "it begins or ends with white space", "remove the white space"
    if bad := re.search(r"[^A-Za-z0-9._:/@\[\]+-]", image):
        character = bad[0] if bad[0].isprintable() else ascii(bad[0])[1:-1]
        return f"`{character}` is not allowed in an image reference", _WRITE
    if not re.fullmatch(_HOST, domain, re.ASCII):
        return (
            f"{format_value(domain)} is not the host of a registry",
            "write HOST, or HOST:PORT if the registry needs a port",
        )
    return _find_fault_below_host(rest)


def _find_fault_below_host(rest: str) -> tuple[str, str]:
    """Return (most likely mistake, fix) for the part PATH:TAG@DIGEST of an image reference."""
    name, at, digest = rest.partition("@")
    path, colon, tag = name.partition(":")
    if path.lower() != path:
        return (
            "its path has upper-case letters",
            f"write {format_value(path.lower())}, if the registry has the image with this path",
        )
    if not re.fullmatch(_PATH, path, re.ASCII):
        return (
            "a part of its path is not lower-case letters and digits with single `.`, `_` or `-` between them",
            _WRITE,
        )
    if colon and not re.fullmatch(_TAG, tag, re.ASCII):
        return f"{format_value(tag)} is not a valid tag" if tag else "the tag after `:` is missing", _WRITE
    if at:
        if not digest:
            return "the digest after `@` is missing", _WRITE
        fault = _digest_fault(digest)
        return fault if any(fault) else (f"{format_value(digest)} is not a valid digest", _WRITE)
    return "its form is not HOST/PATH:TAG", _WRITE


def hidden_by(path: str) -> str:
    """Return the damage that a volume does at a mount path, such as `hides the devices`; '' if no damage is known.

    Args:
        path: an absolute path without `.` and `..`.
    """
    place = _resolved(path)
    for folder, holds, is_closed, is_mounted in _folders():
        if is_mounted and _is_within(folder, place):
            at = "this path" if folder == place else f"`{folder}`"
            return f"conflicts with the volume at {at}, which holds {holds}"
        if folder == place:
            return f"hides {holds}"
        if _is_within(folder, place):
            return f"hides {holds} (`{folder}`)"
        if is_closed and _is_within(place, folder):
            link = next((link for link, _ in _aliases() if _is_within(path, link)), "")
            through = f" (images link `{link}` to `{dict(_aliases())[link]}`)" if link else ""
            return f"lies in `{folder}`{through}, which holds {holds}"
    return ""


def software_hidden_by(path: str) -> str:
    """Return the software that images usually have in the folder at a path, such as `Open MPI`; '' if none is known."""
    rows = read_table("folders")["software"]
    return next((str(row["holds"]) for row in rows if row["path"] == _resolved(path)), "")


def is_below(path: str, folder: str) -> bool:
    """Return True if a path is inside a folder, and not the folder itself."""
    place, around = _resolved(path), _resolved(folder)
    return place != around and _is_within(place, around)


@cache
def _folders() -> tuple[tuple[str, str, bool, bool], ...]:
    """Return (folder, content, True if no volume may be below the folder, True if pods have a volume there), sorted."""
    rows = read_table("folders")["folders"]
    return tuple(
        sorted(
            {(_resolved(row["path"]), row["holds"], row.get("below") == "refused", "mounted" in row) for row in rows}
        )
    )


@cache
def _aliases() -> tuple[tuple[str, str], ...]:
    return tuple((row["link"], row["to"]) for row in read_table("folders")["aliases"])


def _resolved(path: str) -> str:
    return next((f"{target}{path[len(link) :]}" for link, target in _aliases() if _is_within(path, link)), path)


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
