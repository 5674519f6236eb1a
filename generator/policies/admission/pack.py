"""The admission pack: a file for each rule that a platform needs, with the policy and its binding."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from generator.config.model.access import Callers, to_callers
from generator.config.model.policies import Policies
from generator.config.model.roles import TEAM_RESOURCES
from generator.config.platform import Platform
from generator.facts.names import BASE, MANAGED_BY, PART_OF
from generator.manifests import Manifest
from generator.policies.access import (
    KUBERNETES_USERS,
    MEMLOCK,
    OPENSHIFT_GROUPS,
    OPENSHIFT_GROUPS_FOR_USERS,
    STANDARD,
    controller_groups,
)
from generator.policies.admission.allowed import job_constants
from generator.policies.admission.fabric import fabric
from generator.policies.admission.parameters import IMAGE_END, IMAGE_ESCAPES
from generator.policies.admission.policy import Parameters, ResourceRule, Rule, bindings, cel_list, policy
from generator.policies.admission.rules import read_rule, size

_ALWAYS = ("job-isolation", MEMLOCK, "copies", "own-images", "own-images-of-teams")
"""Rules whose action is `deny`, whatever the platform file says.

RBAC or Pod Security allows the requests that they reject.
"""

_CRON_JOBS = ResourceRule("batch", ("v1",), ("cronjobs",), ("CREATE", "UPDATE", "DELETE"))
"""The CronJobs of `tenants[].schedules`."""
_ABOUT_CALLERS = ("lifecycle", "workloads", "kinds", "claims", "config-maps", "debug", "tokens", "subjects")
"""Rules with all conditions about callers in one expression, so that CEL asks the authorizer only if necessary."""
_MAY_UPDATE_NAMESPACES = "authorizer.group('').resource('namespaces').check('update').allowed()"
"""CEL that is true if the caller may update all Namespaces. A RoleBinding in a namespace does not give this right."""

_KIND = (
    "(request.resource.resource\n"
    "+ (request.?subResource.orValue('') == '' ? '' : '/' + request.subResource)\n"
    "+ (request.resource.group == '' ? '' : '.' + request.resource.group))"
)
"""CEL for the resource of a request, such as `pods/exec` or `trainjobs.trainer.kubeflow.org`."""

_IS_HOLD = (
    "(request.operation == 'UPDATE'\n"
    f"&& {_KIND} == 'workloads.kueue.x-k8s.io'\n"
    "&& ['labels', 'annotations', 'finalizers', 'ownerReferences'].all(key,\n"
    "  (key in dyn(object.metadata)) == (key in dyn(oldObject.metadata))\n"
    "  && (!(key in dyn(object.metadata)) || dyn(object.metadata)[key] == dyn(oldObject.metadata)[key]))\n"
    "&& dyn(object).spec.all(key,\n"
    "  key == 'active' || (key in dyn(oldObject).spec && dyn(object).spec[key] == dyn(oldObject).spec[key]))\n"
    "&& dyn(oldObject).spec.all(key, key == 'active' || key in dyn(object).spec))"
)
"""CEL that is true if a request changes only `active` of a Workload, which holds or resumes its job.

Kueue evicts the job of an inactive Workload, and releases its quota when no pod of the job is active (kueue v0.19.2
pkg/controller/jobs/trainjob/trainjob_controller.go TrainJob.Stop). `kubectl kueue stop workload` sends this patch
(kueue v0.19.2 cmd/kueuectl/app/options/update_workload_activation_options.go).
"""

_IS_DRAIN = (
    "request.resource.resource == 'pods'\n"
    "&& (request.operation == 'DELETE' || request.?subResource.orValue('') == 'eviction')\n"
    "&& authorizer.group('').resource('nodes').check('patch').allowed()"
)


def admission_pack(platform: Platform) -> Iterator[Manifest]:
    """Yield the policy and the binding of each rule that the platform needs, unless its action is `off`."""
    users_only = {"not-a-controller": _is_no_controller(platform)}
    for rule in _rules(platform):
        action = "deny" if rule.name in _ALWAYS else platform.policies.admission.action(rule.name)
        if action != "off":
            is_complete = rule.judges_controllers or rule.name in _ABOUT_CALLERS
            judged = rule if is_complete else replace(rule, conditions={**users_only, **rule.conditions})
            for body in (policy(platform.platform, judged), *bindings(platform.platform, judged, action)):
                yield Manifest(body, f"cluster/admission/{rule.name}.yaml")


def _rules(platform: Platform) -> Iterator[Rule]:
    limits = [tenant.limits for tenant in platform.tenants]
    allowed = job_constants(platform)
    yield from (read_rule(name, constants=allowed) for name in ("queue", "runtime", "priority"))
    for name in ("patches", "metadata", "placement", "job-volumes", "job-secrets", "environment", "names", "requests"):
        yield read_rule(name, constants=allowed)
    if any(pool.wiring for pool in platform.pools):  # removed again if no runtime uses a fabric: parameters.py
        yield fabric(platform.cluster.versions.trainer, allowed)
    yield from map(read_rule, ("owner", "own-jobs", "keys", "local-queues"))
    yield from _image_rules(platform)
    if any(limit.hosts_per_job or limit.devices_per_host or limit.time_per_job for limit in limits):
        yield size(limits)
    yield from _copy_rules(platform)
    callers = _caller_constants(platform)
    if platform.isolation.unit == "job":
        yield read_rule("job-isolation", constants=callers)
    yield from _compliance_rules(platform.policies, allowed)
    if any(tenant.pod_security == MEMLOCK for tenant in platform.tenants):
        # restricts all pods in namespaces with the label
        yield replace(read_rule(MEMLOCK), namespace_labels={STANDARD: MEMLOCK}, judges_controllers=True)
    if platform.gitops or platform.access.admin:
        operators = {"CALLERS": _is_caller(platform.operators)}
        generated = read_rule("generated", constants=operators, labels=_platform_labels(platform))
        cron_jobs = [_CRON_JOBS] if platform.policies.schedules else []
        yield replace(generated, resource_rules=[*generated.resource_rules, *cron_jobs])
        is_argocd = platform.gitops and not platform.gitops.is_flux
        engine = {"APPLICATION": platform.platform if is_argocd else "", "ENGINE_KEYS": _engine_keys(platform)}
        yield read_rule("reserved", constants={**operators, **engine})
    settings = ["no-storage"] if any(limit.storage is None for limit in limits) else []
    has_debug = any(tenant.access.sessions.debug and not tenant.retired for tenant in platform.tenants)
    for name in _ABOUT_CALLERS:
        if name != "debug" or has_debug:
            yield read_rule(name, settings, constants={**allowed, **callers})


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


def _copy_rules(platform: Platform) -> Iterator[Rule]:
    """Yield the rules about copies of runtimes with other images. No rule if no runtime has `images`."""
    if not platform.has_own_images:
        return
    yield read_rule(
        "copies", constants={"CALLERS": _is_caller(platform.operators), "IS_PLATFORM": _MAY_UPDATE_NAMESPACES}
    )
    required = platform.policies.images
    is_listed = required.registries or any(tenant.registries for tenant in platform.tenants)
    settings = [*(["registries"] if is_listed else []), *(["digests"] if required.digests else [])]
    replacements = "".join(f".replace('{character}', '{escape}')" for character, escape in IMAGE_ESCAPES.items())
    rule = read_rule("own-images", settings, constants={"ESCAPED": f"{replacements} + '{IMAGE_END}'"})
    for name, kind, is_of_team in (
        ("own-images", "ClusterTrainingRuntime", False),
        ("own-images-of-teams", "TrainingRuntime", True),
    ):
        names = tuple(
            runtime.name for runtime in platform.runtimes if runtime.images and bool(runtime.tenants) is is_of_team
        )
        if names:
            yield replace(rule, name=name, parameters=Parameters(kind, BASE, names))


def _compliance_rules(policies: Policies, allowed: Mapping[str, str]) -> Iterator[Rule]:
    if policies.labels:
        yield read_rule("labels")
    if policies.cost_labels:
        yield read_rule("cost-labels", constants=allowed)
    if policies.residency:
        yield read_rule("residency")
    if policies.storage_classes:
        yield from map(read_rule, ("storage", "job-storage"))


def _engine_keys(platform: Platform) -> str:
    """Return the beginning of annotations by which users could change how the GitOps engine treats an object."""
    return "kustomize.toolkit.fluxcd.io/" if platform.gitops and platform.gitops.is_flux else "argocd.argoproj.io/"


def _platform_labels(platform: Platform) -> dict[str, str]:
    return {**MANAGED_BY, PART_OF: platform.platform}


def _is_no_controller(platform: Platform) -> str:
    """Return CEL that is true unless a controller sends the request.

    The expression reads `request.userInfo`, because users could forge owner references of objects.
    """
    conditions = [
        f"!(request.userInfo.username in {cel_list(KUBERNETES_USERS)})",
        f"!request.userInfo.groups.exists(group, group in {cel_list(controller_groups(platform))})",
    ]
    if platform.cluster.is_openshift:
        conditions.append(
            "!request.userInfo.groups.exists(group,\n"
            f"  group.startsWith('{OPENSHIFT_GROUPS}') && !(group in {cel_list(OPENSHIFT_GROUPS_FOR_USERS)})\n)"
        )
    return "\n&& ".join(conditions)


def _caller_constants(platform: Platform) -> dict[str, str]:
    """Return the CEL expressions about callers that `job-isolation` and the rules in `_ABOUT_CALLERS` contain.

    - USER: no controller sends the request.
    - MEMBER: a possible member of a team sends the request: a user outside `system:`, `system:anonymous`, a
      ServiceAccount of the namespace, or a ServiceAccount that the platform file declares for a team.
    - JANITOR: a janitor sends the request.
    - IS_PLATFORM: the caller may update all Namespaces, which hold the parameters of all rules.
    - IS_DRAIN: the caller deletes or evicts a pod and may change all nodes, as `kubectl drain` and autoscalers do.
    - IS_HOLD: the request changes only `active` of a Workload.
    - ENGINE: the user name of the GitOps engine's account, or the empty string, which no user has.
    - KIND: the resource of the request.
    - KINDS: the resources that members of every team may write.
    """
    declared = to_callers(
        subject for tenant in platform.tenants for subjects in tenant.access.subjects.values() for subject in subjects
    )
    accounts = Callers(
        tuple(user for user in declared.users if user.startswith("system:serviceaccount:")),
        tuple(group for group in declared.groups if group.startswith("system:serviceaccounts:")),
    )
    member = (
        "!request.userInfo.username.startsWith('system:')\n"
        "|| request.userInfo.username == 'system:anonymous'\n"
        "|| ('system:serviceaccounts:' + request.namespace) in request.userInfo.groups"
    )
    engine = to_callers([platform.gitops.account_on(platform.cluster)]).users[0] if platform.gitops else ""
    kinds = [*TEAM_RESOURCES, *(["networkpolicies.networking.k8s.io"] if platform.isolation.unit == "job" else [])]
    kinds += ["trainingruntimes.trainer.kubeflow.org"] if platform.has_own_images else []
    return {
        "USER": _is_no_controller(platform),
        "MEMBER": "\n|| ".join([member, *([_is_caller(accounts)] if accounts.users or accounts.groups else [])]),
        "JANITOR": f"({_is_caller(to_callers(platform.access.janitor))})",
        "IS_PLATFORM": _MAY_UPDATE_NAMESPACES,
        "IS_DRAIN": _IS_DRAIN,
        "IS_HOLD": _IS_HOLD,
        "ENGINE": engine,
        "KIND": _KIND,
        "KINDS": cel_list(sorted(kinds)),
    }


def _is_caller(callers: Callers) -> str:
    """Return CEL that is true if one of these users, or a member of one of these groups, sends the request."""
    conditions = []  # CEL reads strings like JSON
    if callers.users:
        conditions.append(f"request.userInfo.username in {json.dumps([*callers.users])}")
    if callers.groups:
        conditions.append(f"request.userInfo.groups.exists(group, group in {json.dumps([*callers.groups])})")
    return " || ".join(conditions) or "false"
