"""The rules about `patches` and `extra`."""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.mistakes import Mistake
from generator.config.rules.rule import PartialPlatform, rule
from generator.documents.messages import format_value
from generator.errors import suggest


@rule
def declared_tenants(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a patch whose target is a tenant that the file does not declare."""
    for index, tenant in platform.patched_tenants.items():
        if platform.lacks("tenants", tenant):
            message = f"there is no tenant {format_value(tenant)}, so the patch matches no object"
            yield Mistake(("patches", index, "target", "tenant"), message, suggest(tenant, platform.names["tenants"]))


@rule
def own_namespaces(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report an object in `extra` of a tenant that is in a namespace of another tenant, or of no tenant."""
    for index, tenant in platform.tenants.items():
        homes = [home.name for home in tenant.homes]
        for position, extra in enumerate(tenant.extra):
            for body in extra.objects:
                namespace = body["metadata"].get("namespace")
                if namespace is not None and namespace not in homes:
                    message = (
                        f"`{body['kind']} {body['metadata']['name']}` is in namespace {format_value(namespace)}, "
                        f"which is not a namespace of {format_value(tenant.name)}"
                    )
                    fix = f"{suggest(str(namespace), homes)}, or move the object to the top-level `extra`"
                    yield Mistake(("tenants", index, "extra", position), message, fix)
