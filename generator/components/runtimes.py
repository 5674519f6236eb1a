"""MpiRuntime: the construct of one runtime, which admins can subclass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from fractions import Fraction

from constructs import Construct

from generator.components.constructs import Component, ManifestApp, platform_of
from generator.components.hooks import Hooks
from generator.components.origins import Origins
from generator.config.model.fields import to_seconds
from generator.config.model.pools import Pool
from generator.config.model.runtimes import Runtime
from generator.config.platform import Platform
from generator.config.rules.references import unknown_family
from generator.config.rules.runtimes import find_runtime_mistakes
from generator.documents.messages import format_path
from generator.errors import ConfigError, Problem
from generator.manifests import Body, Manifest
from generator.quantities import Quantity, parse
from generator.runtimes.additions import (
    Additions,
    ConfigMapKey,
    Container,
    Job,
    Pod,
    Role,
    SecretKey,
    Security,
    Volume,
)
from generator.runtimes.kept import find_faults
from generator.runtimes.pods import roles_of
from generator.runtimes.training_runtime import build_runtimes, pod_parts


class MpiRuntime(Component):
    """A training runtime for MPI on one pool of nodes. A subclass can override the hooks, which add to its pods.

    The hooks `environment` and `volumes` add to the pods of both roles, because ranks can run in all of them. The other
    hooks get a `Role`, and add only to the pods of this role. mpigen calls each hook while it creates the runtime, when
    only `self.runtime` is set.

    Args:
        scope: the app.
        id: the name of the construct, unique in `scope`.
        runtime: the runtime. It need not be in `platform.runtimes`.
        platform: the platform with the pool; required in a plain `cdk8s.App`, otherwise the platform of the app.

    Attributes:
        runtime: the runtime, as passed to the class, with its entry of `families` of the platform.

    Raises:
        KeyError: the platform has no pool `runtime.pool`.
        ConfigError: the runtime does not fit its pool, for example because it requests resources that the pool does not
            have, or needs an `image`; the platform has no family `runtime.use`; a hook fails, returns a wrong type, or
            changes a part that ssh or MPI needs; or a method of the subclass has almost the name of a hook, so mpigen
            would ignore it.
        ValueError: the app is a plain `cdk8s.App`, and `platform` is None.
    """

    is_replaceable = True

    def __init__(self, scope: Construct, id: str, *, runtime: Runtime, platform: Platform | None = None) -> None:  # noqa: A002
        platform = platform or platform_of(scope)
        pool = platform.pool(runtime.pool)
        runtime = self.runtime = _bound(runtime, platform, id)
        hooks = Hooks(self, MpiRuntime, HOOK_NAMES)
        hooks.find_misnamed()
        resized = platform.bind(self._resize(hooks))
        problems = [*_find_problems(resized, pool, hooks, id)]
        homes = {
            home.name: tenant.name
            for tenant in platform.tenants
            if tenant.name in runtime.tenants
            for home in tenant.homes
        }
        variables, volumes = hooks.call("environment"), hooks.call("volumes")
        additions: dict[str, Additions] = {role.name: _additions(hooks, role) for role in roles_of(runtime)}
        if problems:
            raise ConfigError((*problems, *hooks.problems))
        patience = to_seconds(platform.queues.wait_for_pods_ready.timeout)
        residency = platform.policies.residency.label if platform.policies.residency else ""
        parts = pod_parts(resized, pool, platform.cluster, patience=patience, residency=residency)
        if any(map(hooks.is_overridden, HOOK_NAMES)):
            for fault in find_faults(parts, variables, volumes, additions):
                hooks.report(fault.hook, fault.path, fault.message, fault.fix)
        if hooks.problems:
            raise ConfigError(tuple(hooks.problems))

        def build(left_out: str) -> list[Body]:
            """Return the objects without the values of one hook; with the values of all hooks for an empty name."""
            sized = parts
            if left_out == "resources":
                sized = pod_parts(runtime, pool, platform.cluster, patience=patience, residency=residency)
            kept = {role: one.without(left_out) for role, one in additions.items()}
            more = {} if left_out == "environment" else variables
            return build_runtimes(sized.extend(more, () if left_out == "volumes" else volumes, kept), [*homes])

        manifests = [Manifest(body, _file(body, homes)) for body in build("")]
        super().__init__(scope, id, manifests)
        if hooks.overridden and isinstance(scope.node.root, ManifestApp):
            for number, manifest in enumerate(manifests):
                scope.node.root.origins[manifest.identity] = Origins(hooks, build, number)

    def environment(self) -> Mapping[str, str | SecretKey | ConfigMapKey]:
        """Return name → value of further environment variables of the launcher and all ranks.

        ssh carries the variables of the launcher to all ranks. A subclass can override this method. `MpiRuntime` adds
        none.
        """
        return {}

    def volumes(self) -> Iterable[Volume]:
        """Return further volumes, which the main containers of all pods mount.

        A subclass can override this method. `MpiRuntime` adds none.
        """
        return ()

    def resources(self, role: Role) -> Mapping[str, str | int]:
        """Return resource → amount that replaces an amount of `resources` or `launcherResources` of the runtime.

        A launcher that runs ranks always requests the amounts of the worker pods. A subclass can override this method.
        `MpiRuntime` changes none.

        Args:
            role: the pods.
        """
        del role
        return {}

    def init_containers(self, role: Role) -> Iterable[Container]:
        """Return further init containers, which end before the main container starts.

        They start after the sidecars, and after the containers that prepare ssh and check the node. A subclass can
        override this method. `MpiRuntime` adds none.

        Args:
            role: the pods.
        """
        del role
        return ()

    def sidecars(self, role: Role) -> Iterable[Container]:
        """Return containers that run beside the main container: init containers with `restartPolicy: Always`.

        Kubernetes stops them when the main container ends, so the launcher pod completes. A subclass can override this
        method. `MpiRuntime` adds none.

        Args:
            role: the pods.
        """
        del role
        return ()

    def containers(self, role: Role) -> Iterable[Container]:
        """Return the change of the main container `node`, and further containers of worker pods.

        A `Container` with the name `node` adds its fields to the main container. A launcher pod accepts no further
        container, because it would complete only after this container. A subclass can override this method.
        `MpiRuntime` changes and adds none.

        Args:
            role: the pods.
        """
        del role
        return ()

    def pod(self, role: Role) -> Pod:
        """Return further labels, annotations and fields of the pods.

        A subclass can override this method. `MpiRuntime` adds none.

        Args:
            role: the pods.
        """
        del role
        return Pod()

    def security(self, role: Role) -> Security:
        """Return fields of the `securityContext` of the pods.

        A subclass can override this method. `MpiRuntime` changes none.

        Args:
            role: the pods.
        """
        del role
        return Security()

    def job(self, role: Role) -> Job:
        """Return further labels, annotations and fields of the Job that creates the pods.

        A subclass can override this method. `MpiRuntime` adds none.

        Args:
            role: the pods.
        """
        del role
        return Job()

    def _resize(self, hooks: Hooks) -> Runtime:
        """Return the runtime with the amounts of the hook `resources`."""
        if not hooks.is_overridden("resources"):
            return self.runtime
        has_launcher = self.runtime.has_separate_launcher
        node, launcher = (_quantities(hooks, role) for role in roles_of(self.runtime))
        if not has_launcher and launcher != node:
            message = "the launcher pod runs ranks, so Trainer gives it the same resources as the worker pods"
            hooks.report("resources", "", message, "return the same amounts for both roles")
        changed = {"resources": dict(sorted({**self.runtime.resources, **node}.items()))}
        if has_launcher:
            changed["launcher_resources"] = dict(sorted({**self.runtime.launcher_resources, **launcher}.items()))
        return self.runtime.model_copy(update=changed)


HOOK_NAMES = (
    "environment",
    "volumes",
    "resources",
    "init_containers",
    "sidecars",
    "containers",
    "pod",
    "security",
    "job",
)
"""The methods that a subclass can override."""


def _bound(runtime: Runtime, platform: Platform, id: str) -> Runtime:  # noqa: A002
    """Return a runtime with its entry of `families` of a platform; the runtime itself for a family of mpigen.

    Raises:
        ConfigError: there is no such family.
    """
    bound = platform.bind(runtime)
    if not bound.has_family:
        mistake = unknown_family(runtime.use, [family.name for family in platform.families], (id,))
        raise ConfigError((Problem(mistake.message, mistake.fix, path=format_path(mistake.path)),))
    return bound


def _find_problems(runtime: Runtime, pool: Pool, hooks: Hooks, id: str) -> Iterator[Problem]:  # noqa: A002
    """Yield the problems of a runtime on its pool. Problems of the hook `resources` become problems of the hooks."""
    for mistake in find_runtime_mistakes(runtime, pool):
        path = format_path(mistake.path)
        if hooks.is_overridden("resources") and mistake.path[:1] in (("resources",), ("launcherResources",)):
            hooks.report("resources", f" ({path})", mistake.message, mistake.fix)
        else:
            yield Problem(mistake.message, mistake.fix, path=f"{id}.{path}".rstrip("."))


def _additions(hooks: Hooks, role: Role) -> Additions:
    """Return the values of the hooks that add to the pods of one role."""
    names = [one.name for one in fields(Additions)]
    return Additions(**{name: hooks.call(name, role) for name in names})


def _quantities(hooks: Hooks, role: Role) -> dict[str, Quantity]:
    """Return the amounts of the hook `resources`, without amounts that are not quantities, which are reported."""
    amounts = {}
    for name, amount in hooks.call("resources", role).items():
        try:
            quantity = parse(str(amount))
        except ValueError:
            quantity = Quantity(Fraction(-1))
        if quantity.value < 0:
            message = f"`{amount}` is not a quantity"
            hooks.report("resources", f".{name}", message, "write an amount like 64, 500m or 256Gi")
        else:
            amounts[name] = quantity
    return amounts


def _file(body: Body, homes: Mapping[str, str]) -> str:
    """Return the path of a runtime's file: a TrainingRuntime is in the folder of its tenant, `homes[namespace]`."""
    name, namespace = body["metadata"]["name"], body["metadata"].get("namespace")
    return f"tenants/{homes[namespace]}/runtimes/{name}.yaml" if namespace else f"cluster/runtimes/{name}.yaml"
