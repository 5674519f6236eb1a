"""secret/value: does a manifest hold what nobody should read in Git?

What is said of it never repeats it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from generator.checks.finding import Breach
from generator.checks.registry import ERROR, check
from generator.documents.credentials import find_credentials, is_unfilled
from generator.documents.load import Path
from generator.manifests import Manifest

CHECK = "secret/value"
_WHY = "whoever can read the repository can use it, now and in its whole history"
_FETCHED = "an ExternalSecret that fetches it (`tenants[].secrets` of a platform file)"
_STORES = {("external-secrets.io", "SecretStore"), ("external-secrets.io", "ClusterSecretStore")}
_FAKE: Path = ("spec", "provider", "fake")


@check("secret/value", severity=ERROR, needs=Manifest)
def value(manifest: Manifest) -> Iterator[Breach]:
    """Report a credential in a manifest.

    Something that lets whoever reads it in stands in a manifest: a value in a Secret, whatever it looks like; a
    private key, a token, a login to a registry or a password in an address, known by its form, in any text; or a
    text below a name such as `AWS_SECRET_ACCESS_KEY` or `HF_TOKEN`. Git keeps it for ever, so taking it out is not
    enough: declare it stolen. What only says where a secret lies (a path, a reference), or is yet to be filled in
    (`${TOKEN}`, `<path:…>`, `ENC[…]`), passes, and so do words of language models, such as `PAD_TOKEN`. The finding
    does not repeat it. The same is asked of a platform file before anything else.
    """
    if (manifest.group, manifest.kind) == ("", "Secret"):
        yield from _values(manifest.body)
        return
    if (manifest.group, manifest.kind) in _STORES and _at(manifest.body, _FAKE):
        fix = "name a store that keeps them somewhere else"
        yield Breach(_FAKE, CHECK, "the store holds the values themselves", _WHY, fix, at_key=True)
        return
    for path, what in find_credentials(manifest.body):
        fix = f"take it out, declare it stolen and make a new one, and refer to a Secret: by {_FETCHED}"
        yield Breach(path, CHECK, f"{what} stands here", _WHY, fix)


def _values(body: dict[str, Any]) -> Iterator[Breach]:
    """Any value of a Secret, whatever it looks like, unless it is nothing or yet to be filled in."""
    for field in ("data", "stringData"):
        values = body.get(field)
        for key, value in values.items() if isinstance(values, dict) else ():
            if isinstance(value, str) and not is_unfilled(_decoded(value) if field == "data" else value):
                fix = f"write {_FETCHED}, or a SealedSecret"
                yield Breach((field, key), CHECK, f"`{field}` holds a value", _WHY, fix)


def _decoded(value: str) -> str:
    """What a key of `data` says; the value itself if it is no base64, such as one that SOPS has encrypted."""
    try:
        return base64.b64decode(value, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return value


def _at(value: Any, path: Path) -> object:
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value
