"""The runtime and the tenant of a job: the named ones, or the only ones that fit."""

from __future__ import annotations

from generator.config.model.quotas import quota_amounts
from generator.config.model.runtimes import Runtime, fabric_of
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.documents.messages import format_value
from generator.errors import MpigenError, Problem, suggest
from generator.jobs.reach import reach, reaches


class JobError(MpigenError):
    """The job that is asked for would not run on this platform."""


def runtime_for(platform: Platform, name: str, fabric: str) -> Runtime:
    """Return the runtime with a name; without a name the only one on a fabric.

    Raises:
        JobError: there is none, or it is not on the fabric.
    """
    if fabric and not name:
        return _only_one_on(platform, fabric)
    by_name = {runtime.name: runtime for runtime in platform.runtimes}
    if name not in by_name:
        fix = suggest(name, by_name) if by_name else "declare it in the platform file"
        raise JobError((Problem(f"the platform has no runtime {format_value(name)}", fix, path="--runtime"),))
    if fabric and by_name[name] not in _on(platform, fabric):
        fix = "name one that is on it" if _on(platform, fabric) else "declare one on a pool that has the fabric"
        raise JobError((Problem(f"ranks of runtime `{name}` do not use the fabric `{fabric}`", fix, path="--runtime"),))
    return by_name[name]


def _on(platform: Platform, fabric: str) -> list[Runtime]:
    """Return the runtimes whose ranks use a fabric.

    Raises:
        JobError: there is no such fabric.
    """
    declared = [declaration.name for declaration in platform.fabrics]
    if fabric not in declared:
        fix = suggest(fabric, declared) if declared else "declare it in the platform file"
        raise JobError((Problem(f"the platform has no fabric {format_value(fabric)}", fix, path="--fabric"),))
    with_fabrics = ((runtime, fabric_of(runtime, platform.pool(runtime.pool))) for runtime in platform.runtimes)
    return [runtime for runtime, its in with_fabrics if its is not None and its.name == fabric]


def _only_one_on(platform: Platform, fabric: str) -> Runtime:
    able = _on(platform, fabric)
    if not able:
        fix = "declare one on a pool that has it"
        raise JobError((Problem(f"no runtime is on the fabric `{fabric}`", fix, path="--fabric"),))
    if len(able) > 1:
        fix = f"name one of: {', '.join(runtime.name for runtime in able)}"
        raise JobError((Problem(f"several runtimes are on the fabric `{fabric}`", fix, path="--runtime"),))
    return able[0]


def tenant_for(platform: Platform, runtime: Runtime, name: str) -> Tenant:
    """Return the tenant with a name; without a name the only one that can use the runtime."""
    by_name = {tenant.name: tenant for tenant in platform.tenants}
    if name and name not in by_name:
        raise JobError(
            (Problem(f"the platform has no tenant {format_value(name)}", suggest(name, by_name), path="--tenant"),)
        )
    if name and not is_for(runtime, name):
        message = f"runtime `{runtime.name}` is not available to `{name}`"
        raise JobError((Problem(message, others_for(platform, by_name[name]), path="--runtime"),))
    if name:
        return by_name[name]
    asking = [tenant for tenant in platform.tenants if is_for(runtime, tenant.name)]
    far = reaches(platform, asking, runtime)
    able = [tenant for tenant in asking if far[tenant.name].can_have(fewest_hosts(runtime))]
    if not able:
        has_some = any(_has_some(platform, tenant, runtime.pool) for tenant in asking)
        fix = "pass --tenant to see the reason" if has_some else f"give a tenant quota in pool `{runtime.pool}`"
        raise JobError((Problem(f"no tenant can use a host of runtime `{runtime.name}`", fix, path="--runtime"),))
    if len(able) > 1:
        fix = f"name one of: {', '.join(tenant.name for tenant in able)}"
        raise JobError((Problem(f"several tenants can use runtime `{runtime.name}`", fix, path="--tenant"),))
    return able[0]


def _has_some(platform: Platform, tenant: Tenant, pool: str) -> bool:
    """Return True if the tenant owns or can borrow quota in the pool."""
    return any(pool in quota_amounts(shares, platform.supplies) for shares in (*tenant.quotas, tenant.borrow))


def is_for(runtime: Runtime, tenant: str) -> bool:
    """Return True if the tenant may use the runtime."""
    return not runtime.tenants or tenant in runtime.tenants


def fewest_hosts(runtime: Runtime) -> int:
    """Hosts that a job has at least."""
    return 1 if runtime.has_separate_launcher else 2


def others_for(platform: Platform, tenant: Tenant) -> str:
    """Return advice with the runtimes that a tenant can use."""
    able = [runtime for runtime in platform.runtimes if is_for(runtime, tenant.name)]
    usable = [runtime.name for runtime in able if reach(platform, tenant, runtime).can_have(fewest_hosts(runtime))]
    return f"it can use: {', '.join(usable)}" if usable else "it can use no other runtime"
