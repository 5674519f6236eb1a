"""The check secret/value: credentials in manifests. Its messages never contain the credential."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.documents.credentials import find_credentials, is_unfilled
from generator.documents.load import Path
from generator.manifests import Manifest
from generator.objects.fields import mapping

_WHY = "everyone with access to the repository can read and use this secret, now and in the git history"
_WHY_VALUE = "everyone with access to the repository can read this value, now and in the git history"
_EXTERNAL = "an ExternalSecret (`tenants[].secrets` in `platform.yaml`)"
_REPLACE = f"replace the Secret by {_EXTERNAL} or a SealedSecret; if no value is confidential, by a ConfigMap"
_HARMLESS = frozenset(
    {"bucket", "database", "db", "dbname", "host", "hostname", "namespace", "port", "region", "user", "username"}
)
"""The last words of keys that name no credential, such as `db-user`."""
_FAKE: Path = ("spec", "provider", "fake")
_STORES = {("external-secrets.io", "SecretStore"), ("external-secrets.io", "ClusterSecretStore")}


@check("secret/value", severity=ERROR, needs=Manifest)
def value(manifest: Manifest) -> Iterator[Breach]:
    """Report a credential in a manifest.

    Git keeps a credential forever, so removing it is not enough: rotate it. The check reports every value in a Secret,
    because mpigen cannot distinguish a credential from other values there. For a key such as `username`, `host` or
    `port` the finding is a warning.

    The check also reports private keys, tokens, registry logins and passwords in URLs in any string, values of names
    such as `AWS_SECRET_ACCESS_KEY` or `HF_TOKEN`, and a SecretStore with the provider `fake`, whose values are in the
    manifest. The check does not report paths and references to a secret, placeholders (`${TOKEN}`, `<path:…>`,
    `ENC[…]`), or terms of language models such as `PAD_TOKEN`. The finding never contains the credential. `synth`
    checks the platform file in the same way before it reads anything else.

    Source: mpigen: no credential belongs in a repository
    """
    group_kind = (manifest.group, manifest.kind)
    if group_kind == ("", "Secret"):
        yield from _secret_values(manifest.body)
    elif group_kind in _STORES and mapping(manifest.body, "spec", "provider").get("fake"):
        fix = "set a `provider` that keeps the values outside of git"
        yield Breach(_FAKE, "the store contains its secret values in plain text", _WHY, fix, at_key=True)
    else:
        for path, description in find_credentials(manifest.body):
            fix = f"rotate this credential, remove it here, and refer to a Secret that comes from {_EXTERNAL}"
            yield Breach(path, f"this field contains {description}", _WHY, fix)


def _secret_values(body: dict[str, Any]) -> Iterator[Breach]:
    """Yield every value of a Secret, except empty values and placeholders."""
    for field in ("data", "stringData"):
        for key, text in mapping(body, field).items():
            read = _decode(text) if field == "data" and isinstance(text, str) else text
            if isinstance(read, str) and not is_unfilled(read):
                severity = WARNING if _is_harmless(str(key), read) else None
                message = f"`{field}` contains a value of the Secret"
                yield Breach((field, key), message, _WHY_VALUE, _REPLACE, severity=severity)


def _is_harmless(key: str, text: str) -> bool:
    """Return True if the key names no credential, such as `username`, and the text is one word without a URL."""
    return re.split(r"[-_.]", key.lower())[-1] in _HARMLESS and not re.search(r"[\s@]|://", text)


def _decode(text: str) -> str:
    """Return decoded base64; the text itself if it is not base64, such as a value that SOPS encrypted."""
    try:
        return base64.b64decode(text, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return text
