"""What admins add: where it lies in the output, and whether it is an object that can be written at all."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator

from generator.errors import Problem
from generator.manifests import Body, Manifest

_FILE = re.compile(r"(?!argocd/)(?:[A-Za-z0-9][\w.@+-]*/)*[A-Za-z0-9][\w.@+-]*\.ya?ml", re.ASCII)


def custom_file(body: Body) -> str:
    """The file of an object that is not a Component's: `custom/<namespace or cluster>/<kind>-<name>.yaml`."""
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    kind, name = str(body.get("kind", "")).lower(), str(metadata.get("name") or "unnamed")
    return f"custom/{_slug(str(metadata.get('namespace') or 'cluster'))}/{_slug(f'{kind}-{name}')}.yaml"


def _slug(text: str) -> str:
    """A file name for any text; a digest tells apart what had to be changed, also where case is ignored."""
    plain = re.sub(r"[^a-z0-9.-]+", "-", text.lower()).strip("-.") or "x"
    return plain if plain == text else f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def malformed(manifest: Manifest) -> Iterator[Problem]:
    """What keeps a manifest from being written, or from being told apart."""
    where = f"{manifest.resource} in {manifest.file}"
    if not _FILE.fullmatch(manifest.file):
        fix = "name a YAML file by a relative path outside argocd/, such as site/extra.yaml"
        yield Problem(f"`{manifest.file}` is no place in a release", fix, path=manifest.resource)
    metadata = manifest.body.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("annotations", {}), dict):
        yield Problem("`metadata`, or `annotations` in it, is not a mapping", "give it a mapping", path=where)
    try:
        json.dumps(manifest.body, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        yield Problem(f"it is not plain data: {error}", "use strings, numbers, lists and mappings only", path=where)
