"""Whether what is relaxed for a team was there before, and whether it is enough for its runtimes."""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.complaints import Contradiction
from generator.config.draft import Draft
from generator.config.relaxations import POD_SECURITY
from generator.config.runtimes import Runtime
from generator.config.tenants import Tenant

_Path = tuple[str | int, ...]
_LOCKING = ("memlock", "privileged")
_WEAKER = {"restricted": (*_LOCKING, "baseline"), "baseline": _LOCKING, "privileged": ()}
"""Standard of the platform → what is less, or else, than that. `memlock` is more than `baseline` but for IPC_LOCK."""


def relaxed_in_vain(path: _Path, tenant: Tenant, draft: Draft) -> Iterator[Contradiction]:
    """What changes nothing, and what together with something else gives the nodes away."""
    policies = draft.policies
    if policies is None:
        return
    here = (*path, "relax")
    for each in tenant.relax:
        if each.rule == POD_SECURITY:
            if each.to not in _WEAKER[policies.pod_security]:
                what = f"`{each.to}`, and nobody is held to more than `{policies.pod_security}`"
                yield Contradiction(here, what, "remove it, or raise `policies.podSecurity`")
        elif policies.admission.action(each.rule) == "off":
            yield Contradiction(here, f"`{each.rule}` is off for everybody", "remove it")
        elif each.rule == "patches" and (tenant.pod_security or policies.pod_security) == "privileged":
            what = "`patches`, where no Pod Security Standard holds: its people could have the nodes"
            yield Contradiction(here, what, "relax one of the two")


def locks_in_vain(path: _Path, runtime: Runtime, draft: Draft) -> Iterator[Contradiction]:
    """A capability that the pods of some of its tenants may not have: they would never start."""
    policies = draft.policies
    if not runtime.locks_memory or policies is None:
        return
    refused = [
        tenant.name
        for tenant in draft.tenants.values()
        if (not runtime.tenants or tenant.name in runtime.tenants)
        and (tenant.pod_security or policies.pod_security) not in _LOCKING
    ]
    if refused:
        only = "" if runtime.tenants else ", or name its `tenants`"
        yield Contradiction(
            (*path, "memlock"),
            f"`capability`, which the pods of {', '.join(f'`{name}`' for name in refused)} may not have",
            f"relax `pod-security` to `memlock` there{only}; better, raise the limit of the nodes, and leave it out",
        )
