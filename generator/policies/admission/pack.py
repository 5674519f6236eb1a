"""The pack: the rules that a platform has, each with its binding, in a file of its own."""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.model.policies import Policies
from generator.config.platform import Platform
from generator.facts.names import MANAGED_BY, PART_OF
from generator.manifests import Manifest
from generator.policies.access import KUBERNETES_USERS, OPENSHIFT_GROUPS, OPENSHIFT_GROUPS_FOR_USERS, controller_groups
from generator.policies.admission import fabric, images, memlock, owners, patches, protected, residency, trainjobs
from generator.policies.admission.policy import Rule, binding, policy

_ALWAYS = ("job-isolation", memlock.MEMLOCK)
"""What RBAC or Pod Security permits because a rule bounds it would be open if that were only a warning."""


def admission_pack(platform: Platform) -> Iterator[Manifest]:
    """Every rule that is on, for a platform with tenants."""
    for rule in _rules(platform):
        action = "deny" if rule.name in _ALWAYS else platform.policies.admission.action(rule.name)
        if action != "off":
            for body in (policy(platform.platform, rule), binding(platform.platform, rule, action)):
                yield Manifest(body, f"cluster/admission/{rule.name}.yaml")


def _rules(platform: Platform) -> Iterator[Rule]:
    people = _not_a_controller(platform)
    policies, limits = platform.policies, [tenant.limits for tenant in platform.tenants]
    yield trainjobs.queue(people)
    yield trainjobs.runtime(people)
    yield trainjobs.priority(people)
    yield patches.patches(people)
    if any(pool.wiring for pool in platform.pools):  # goes again where no runtime has anything of it
        yield fabric.fabric(people, platform.cluster.versions.trainer)
    yield owners.owner(people)
    yield owners.own_jobs(people)
    yield protected.keys(people)
    yield protected.local_queues(people)
    yield from _about_images(platform, people)
    if any(each.hosts_per_job or each.devices_per_host or each.time_per_job for each in limits):
        yield trainjobs.size(people, limits)
    if platform.isolation.unit == "job":
        yield owners.job_isolation(people)
    yield from _where_asked_for(policies, people)
    if any(tenant.pod_security == memlock.MEMLOCK for tenant in platform.tenants):
        yield memlock.memlock()
    if platform.gitops or platform.access.admin:
        who = platform.operators
        yield protected.generated(who.users, who.groups, _ours(platform), people)


def _about_images(platform: Platform, people: dict[str, str]) -> Iterator[Rule]:
    wanted = platform.policies.images
    from_registries = bool(wanted.registries) or any(tenant.registries for tenant in platform.tenants)
    if from_registries or wanted.digests:
        yield images.images(people, from_registries=from_registries, by_digest=wanted.digests)
    if wanted.registries or wanted.digests:
        yield images.runtime_images(wanted.registries, _ours(platform), people, by_digest=wanted.digests)


def _where_asked_for(policies: Policies, people: dict[str, str]) -> Iterator[Rule]:
    """Rules of what `policies` lists."""
    if policies.labels:
        yield trainjobs.labels(people)
    if policies.residency:
        yield residency.residency(people)
    if policies.storage_classes:
        yield residency.storage(people)
        yield residency.job_storage(people)


def _ours(platform: Platform) -> dict[str, str]:
    return {**MANAGED_BY, PART_OF: platform.platform}


def _not_a_controller(platform: Platform) -> dict[str, str]:
    """By who asks, and not by owner references, which anybody may write."""
    known, users, for_people = (
        "[" + ", ".join(f"'{name}'" for name in names) + "]"
        for names in (controller_groups(platform), KUBERNETES_USERS, OPENSHIFT_GROUPS_FOR_USERS)
    )
    openshift = f" || (group.startsWith('{OPENSHIFT_GROUPS}') && !(group in {for_people}))"
    return {
        "not-a-controller": f"!(request.userInfo.username in {users}) && !request.userInfo.groups.exists(group,"
        f" group in {known}{openshift if platform.cluster.is_openshift else ''})"
    }
