"""MpiRuntime: the construct of one runtime, which admins can subclass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from constructs import Construct

from generator.components.constructs import Component, platform_of
from generator.config.model.fields import to_seconds
from generator.config.model.runtimes import Runtime
from generator.config.platform import Platform
from generator.config.rules.runtimes import find_runtime_mistakes
from generator.documents.messages import format_path
from generator.errors import ConfigError, Problem
from generator.manifests import Body, Manifest
from generator.runtimes.pods import Volume
from generator.runtimes.training_runtime import training_runtimes


class MpiRuntime(Component):
    """A training runtime for MPI on one pool of nodes. A subclass can add environment variables and volumes.

    Args:
        scope: the app.
        id: the name of the construct, unique in `scope`.
        runtime: the runtime. It need not be in `platform.runtimes`.
        platform: the platform with the pool; required in a plain `cdk8s.App`, otherwise the platform of the app.

    Attributes:
        runtime: the runtime.

    Raises:
        KeyError: the platform has no pool `runtime.pool`.
        ConfigError: the runtime does not fit its pool, for example because it requests resources that the pool does not
            have, or needs an `image`.
        ValueError: the app is a plain `cdk8s.App`, and `platform` is None.
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
        """Return name → value of further environment variables of the launcher and all ranks.

        A subclass can override this method. `MpiRuntime` adds none.
        """
        return {}

    def volumes(self) -> Sequence[Volume]:
        """Return further volumes of all pods of the runtime.

        A subclass can override this method. `MpiRuntime` adds none.
        """
        return ()


def _file(body: Body, homes: Mapping[str, str]) -> str:
    """Return the path of a runtime's file: a TrainingRuntime is in the folder of its tenant, `homes[namespace]`."""
    name, namespace = body["metadata"]["name"], body["metadata"].get("namespace")
    return f"tenants/{homes[namespace]}/runtimes/{name}.yaml" if namespace else f"cluster/runtimes/{name}.yaml"
