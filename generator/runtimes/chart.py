"""MpiRuntime: the construct of one runtime, and what admins subclass for their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from constructs import Construct

from generator.config.model.fields import to_seconds
from generator.config.model.runtimes import Runtime
from generator.config.platform import Platform
from generator.config.rules.runtimes import find_runtime_mistakes
from generator.constructs import Component, platform_of
from generator.documents.messages import format_path
from generator.errors import ConfigError, Problem
from generator.manifests import Body, Manifest
from generator.runtimes.pods import Volume
from generator.runtimes.training_runtime import training_runtimes


class MpiRuntime(Component):
    """A runtime that runs MPI on one pool. Subclass it and override what should differ.

    Args:
        scope: the app.
        id: unique in the app.
        runtime: as in the `runtimes` section.
        platform: what it is part of; only needed in a plain `cdk8s.App`.

    Raises:
        KeyError: the platform has no such pool.
        ConfigError: the runtime asks for what the pool does not have.
    """

    def __init__(self, scope: Construct, id: str, *, runtime: Runtime, platform: Platform | None = None) -> None:  # noqa: A002
        platform = platform or platform_of(scope)
        pool = platform.pool(runtime.pool)
        problems = [
            Problem(mistake.message, mistake.fix, path=f"{id}.{format_path(mistake.path)}".rstrip("."))
            for mistake in find_runtime_mistakes(runtime, pool)
        ]
        if problems:
            raise ConfigError(tuple(problems))
        homes = {
            home.name: tenant.name
            for tenant in platform.tenants
            if tenant.name in runtime.tenants
            for home in tenant.homes
        }
        bodies = training_runtimes(
            runtime,
            pool,
            platform.cluster,
            namespaces=[*homes],
            variables=self.environment(),
            volumes=self.volumes(),
            patience=to_seconds(platform.queues.wait_for_pods_ready.timeout),
            residency=platform.policies.residency.label if platform.policies.residency else "",
        )
        super().__init__(scope, id, [Manifest(body, _file(body, homes)) for body in bodies])
        self.runtime = runtime

    def environment(self) -> Mapping[str, str]:
        """Variables of the launcher; they reach all ranks."""
        return {}

    def volumes(self) -> Sequence[Volume]:
        """Volumes of launcher and nodes."""
        return ()


def _file(body: Body, homes: Mapping[str, str]) -> str:
    """Return the file of a runtime: the runtime of one tenant is in the tenant's folder."""
    name, namespace = body["metadata"]["name"], body["metadata"].get("namespace")
    return f"tenants/{homes[namespace]}/runtimes/{name}.yaml" if namespace else f"cluster/runtimes/{name}.yaml"
