"""MpiRuntime: the construct of one runtime, which admins can subclass."""

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
    """A runtime that runs MPI on one pool. Subclass it to override its environment and volumes.

    Args:
        scope: the app.
        id: unique in the app.
        runtime: as in the `runtimes` section.
        platform: the platform of the runtime; only needed in a plain `cdk8s.App`.

    Raises:
        KeyError: the platform has no such pool.
        ConfigError: the runtime requests resources that the pool does not have.
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
        """Return the variables of the launcher, which all ranks get too."""
        return {}

    def volumes(self) -> Sequence[Volume]:
        """Return the volumes of launcher and nodes."""
        return ()


def _file(body: Body, homes: Mapping[str, str]) -> str:
    """Return the path of a runtime's file. The runtime of a single tenant is in the tenant's folder."""
    name, namespace = body["metadata"]["name"], body["metadata"].get("namespace")
    return f"tenants/{homes[namespace]}/runtimes/{name}.yaml" if namespace else f"cluster/runtimes/{name}.yaml"
