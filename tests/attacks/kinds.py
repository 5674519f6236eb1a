"""Read the kind, the namespace and the name from the URL path of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from generator.schemas.catalog import Catalog
from generator.upstream.kubernetes.access import Kind, catalog_kinds
from tests.attacks.corpus import CONTENT, Step

_OF_SUBRESOURCES = {
    "token": ("authentication.k8s.io/v1", "TokenRequest"),
    "binding": ("v1", "Binding"),
    "eviction": ("policy/v1", "Eviction"),
}


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a request.

    Attributes:
        group: the API group; empty for the core group, and for URLs.
        resource: the plural; empty for a URL of no resource.
        query: the query parameters.
    """

    group: str
    version: str
    namespace: str
    resource: str
    name: str
    subresource: str
    url: str
    query: Mapping[str, list[str]]


def target(path: str) -> Target:
    """Parse a URL path such as `/apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE/NAME/SUBRESOURCE?QUERY`."""
    split = urlsplit(path)
    query = parse_qs(split.query)
    match split.path.strip("/").split("/"):
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            return Target("", "", "", "", "", "", split.path, query)
    if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] not in ("finalize", "status"):
        namespace, rest = rest[1], rest[2:]
    else:
        namespace = rest[1] if rest[:1] == ["namespaces"] and len(rest) > 1 else ""
    resource, name, subresource = [*rest, "", "", ""][:3]
    return Target(group, version, namespace, resource, unquote(name), subresource, "", query)


@cache
def kinds() -> dict[tuple[str, str, str], Kind]:
    """Return (group, version, plural) → kind, of all known kinds."""
    return {(kind.group, kind.version, kind.resource): kind for kind in catalog_kinds(Catalog.bundled())}


def with_kind(step: Step) -> Any:
    """Return the body of a step with `apiVersion` and `kind`, which a POST and a PUT require."""
    body = step.body
    if body is None or not isinstance(body, dict) or "kind" in body or step.content != CONTENT["json"]:
        return body
    if step.method == "DELETE":
        return {"apiVersion": "v1", "kind": "DeleteOptions", **body}
    to = target(step.path)
    if to.subresource in _OF_SUBRESOURCES:
        api_version, kind = _OF_SUBRESOURCES[to.subresource]
        return {"apiVersion": api_version, "kind": kind, **body}
    known = kinds().get((to.group, to.version, to.resource))
    return {"apiVersion": known.api_version, "kind": known.kind, **body} if known else body
