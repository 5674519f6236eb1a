"""The admission pack: a file for each rule that a platform needs, with the policy and its binding."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

from generator.config.model.policies import Policies
from generator.config.platform import Platform
from generator.facts.names import MANAGED_BY, PART_OF
from generator.manifests import Manifest
from generator.policies.access import (
    KUBERNETES_USERS,
    MEMLOCK,
    OPENSHIFT_GROUPS,
    OPENSHIFT_GROUPS_FOR_USERS,
    STANDARD,
    controller_groups,
)
from generator.policies.admission.fabric import fabric
from generator.policies.admission.policy import Rule, binding, policy
from generator.policies.admission.rules import generated, read_rule, size

_ALWAYS = ("job-isolation", MEMLOCK)
"""Rules that deny whatever action the platform file sets: RBAC or Pod Security allows the requests that they reject."""


def admission_pack(platform: Platform) -> Iterator[Manifest]:
    """Yield the policy and the binding of each rule that the platform needs, unless its action is `off`."""
    users_only = {"not-a-controller": _is_no_controller(platform)}
    for rule in _rules(platform):
        action = "deny" if rule.name in _ALWAYS else platform.policies.admission.action(rule.name)
        if action != "off":
            judged = rule if rule.judges_controllers else replace(rule, conditions={**users_only, **rule.conditions})
            for body in (policy(platform.platform, judged), binding(platform.platform, judged, action)):
                yield Manifest(body, f"cluster/admission/{rule.name}.yaml")


def _rules(platform: Platform) -> Iterator[Rule]:
    limits = [tenant.limits for tenant in platform.tenants]
    yield from map(read_rule, ("queue", "runtime", "priority"))
    yield read_rule("patches")
    if any(pool.wiring for pool in platform.pools):  # removed again if no runtime uses a fabric: parameters.py
        yield fabric(platform.cluster.versions.trainer)
    yield from map(read_rule, ("owner", "own-jobs", "keys", "local-queues"))
    yield from _image_rules(platform)
    if any(limit.hosts_per_job or limit.devices_per_host or limit.time_per_job for limit in limits):
        yield size(limits)
    if platform.isolation.unit == "job":
        yield read_rule("job-isolation")
    yield from _compliance_rules(platform.policies)
    if any(tenant.pod_security == MEMLOCK for tenant in platform.tenants):
        # restricts all pods in namespaces with the label
        yield replace(read_rule(MEMLOCK), namespace_labels={STANDARD: MEMLOCK}, judges_controllers=True)
    if platform.gitops or platform.access.admin:
        yield generated(platform.operators.users, platform.operators.groups, _platform_labels(platform))


def _image_rules(platform: Platform) -> Iterator[Rule]:
    required = platform.policies.images
    digests = ["digests"] if required.digests else []
    if required.registries or any(tenant.registries for tenant in platform.tenants):
        yield read_rule("images", ["registries", *digests])
    elif digests:
        yield read_rule("images", digests)
    if required.registries or digests:
        registries = {"registries": json.dumps([*required.registries])}
        settings = [*(["registries"] if required.registries else []), *digests]
        yield read_rule("runtime-images", settings, variables=registries, labels=_platform_labels(platform))


def _compliance_rules(policies: Policies) -> Iterator[Rule]:
    if policies.labels:
        yield read_rule("labels")
    if policies.residency:
        yield read_rule("residency")
    if policies.storage_classes:
        yield from map(read_rule, ("storage", "job-storage"))


def _platform_labels(platform: Platform) -> dict[str, str]:
    return {**MANAGED_BY, PART_OF: platform.platform}


def _is_no_controller(platform: Platform) -> str:
    """Return CEL that is true unless a controller sends the request. Users could forge owner references."""
    conditions = [
        f"!(request.userInfo.username in {_cel_list(KUBERNETES_USERS)})",
        f"!request.userInfo.groups.exists(group, group in {_cel_list(controller_groups(platform))})",
    ]
    if platform.cluster.is_openshift:
        conditions.append(
            "!request.userInfo.groups.exists(group,\n"
            f"  group.startsWith('{OPENSHIFT_GROUPS}') && !(group in {_cel_list(OPENSHIFT_GROUPS_FOR_USERS)})\n)"
        )
    return "\n&& ".join(conditions)


def _cel_list(names: Iterable[str]) -> str:
    """Return a CEL list with one string per line."""
    return "[\n" + ",\n".join(f"  '{name}'" for name in names) + "\n]"
