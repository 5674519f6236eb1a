"""The rules about `tenants[].schedules`: their pods need an image, the API server, and a namespace of their own.

Rendering finds the other mistakes of a schedule, such as a job without quota, because they depend on the runtimes that
an mpigen_platform.py can add.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from generator.config.mistakes import Mistake
from generator.config.model.fields import Steps
from generator.config.model.policies import SchedulePods
from generator.config.model.tenants import RESERVED_NAMESPACES, Tenant
from generator.config.rules.cluster import find_unreachable_server
from generator.config.rules.rule import PartialPlatform, rule

_LONGEST_NAMESPACE = 63


@rule
def schedules_without_pods(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report schedules without `policies.schedules`, which names the image of their pods."""
    if platform.policies.schedules or not platform.knows("policies.schedules"):
        return
    for index, tenant in platform.tenants.items():
        if tenant.schedules:
            message = "the pods of schedules have no image, because the platform file has no `policies.schedules`"
            fix = "write `schedules: {image: …}` in `policies`, with an image that has kubectl"
            yield Mistake(("tenants", index, "schedules"), message, fix)


@rule
def schedules_of_isolated_jobs(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report schedules of a platform that isolates jobs: each TrainJob then needs a NetworkPolicy with its name.

    The API server generates the names of the TrainJobs of a schedule, so no manifest can have such a NetworkPolicy.
    """
    if platform.isolation.unit != "job" or not platform.knows("isolation.unit"):
        return
    for index, tenant in platform.tenants.items():
        if tenant.schedules:
            message = (
                "with `isolation.unit: job`, a TrainJob needs its own NetworkPolicy, which a schedule cannot create, so"
                " the pods of the job could not connect"
            )
            fix = "write `isolation: {unit: namespace}`, or remove `schedules`"
            yield Mistake(("tenants", index, "schedules"), message, fix)


@rule
def namespaces_of_schedules(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a team whose namespace for schedules has an invalid name, or the name of another namespace."""
    for index, tenant in platform.tenants.items():
        if tenant.schedules and tenant.name != platform.stand_in:
            for message in _wrong_namespace(tenant, platform):
                yield Mistake(("tenants", index, "schedules"), message, "rename one of the two, or remove `schedules`")
            if len(tenant.schedule_namespace) > _LONGEST_NAMESPACE:
                message = (
                    f"schedules run in the namespace `{tenant.schedule_namespace}`, and a namespace has at most"
                    f" {_LONGEST_NAMESPACE} characters"
                )
                yield Mistake(("tenants", index, "name"), message, "choose a shorter name for the team")


def _wrong_namespace(tenant: Tenant, platform: PartialPlatform) -> Iterator[str]:
    name = tenant.schedule_namespace
    if name in platform.namespaces:
        yield f"schedules of `{tenant.name}` run in the namespace `{name}`, which is a namespace of a tenant"
    elif any(fnmatchcase(name, pattern) for pattern in RESERVED_NAMESPACES):
        yield f"schedules of `{tenant.name}` run in the namespace `{name}`, which is a namespace of the cluster"


@rule
def api_server_of_schedules(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report pods of schedules that cannot reach the API server, or settings without effect on their network."""
    pods = platform.policies.schedules
    if pods is None or not platform.knows("cluster.network", "isolation.apiServer", "policies.schedules"):
        return
    path: Steps = ("policies", "schedules")
    network = platform.cluster.network
    if pods.api_server:
        yield from find_unreachable_server(pods.api_server, (*path, "apiServer"), network)
    elif network != "cilium" and platform.isolation.api_server is None:
        message = "the pods of schedules cannot reach the API server, because NetworkPolicies deny it"
        fix = (
            "add `apiServer: {networks: [10.0.0.8/32]}` with the addresses that `kubectl get endpointslices kubernetes`"
            " lists"
        )
        yield Mistake(path, message, fix)


@rule
def image_of_schedules(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report an image of the pods of schedules that `policies.images` does not allow."""
    pods = platform.policies.schedules
    if pods and platform.knows("policies.images", "policies.schedules"):
        for message, fix in _wrong_image(pods, platform):
            yield Mistake(("policies", "schedules", "image"), message, fix)


def _wrong_image(pods: SchedulePods, platform: PartialPlatform) -> Iterator[tuple[str, str]]:
    images = platform.policies.images
    if images.registries and not pods.image.startswith(images.registries):
        message = f"`{pods.image}` is from no registry of `policies.images.registries`"
        yield message, f"copy the image to a registry of that list, such as `{images.registries[0]}`"
    if images.digests and "@" not in pods.image:
        message = f"`{pods.image}` has no digest, and `policies.images.digests` requires one"
        yield message, "write the digest after the tag, such as `kubectl:v1.34.2@sha256:…`"
