"""Checks that apply the admission rules in the files to the objects in the same files.

If an admission policy rejects an object of its own release, the sync of the release fails: policy/rejects-own-object.
If the API server rejects the pods of a runtime, no job on the runtime runs: runtime/pod-security,
runtime/security-context-constraints and runtime/unset-amount.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from generator.checks.fabric.fabrics import likely_namespaces, namespaces_of
from generator.checks.objects import Objects
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.documents.load import Path
from generator.errors import SimulationError
from generator.facts.names import GITOPS_ROLE, IPC_LOCK, OWNER, REQUIRED_SCC
from generator.facts.versions import minors
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, mappings, string, strings
from generator.objects.namespace import is_namespace, is_openshift
from generator.objects.pods import RUNTIMES, PodTemplate, pod_templates
from generator.objects.training import DEFAULT_QUEUE, GROUP, KUEUE
from generator.schemas.catalog import Catalog
from generator.schemas.updates import normalize_built_in, normalize_custom
from generator.upstream.kubernetes.access import SUPERUSERS, Kind
from generator.upstream.kubernetes.pod_security import Level, Violation, find_violations, read_level
from generator.upstream.kubernetes.resource_quota import REQUIRED, read_ledger
from generator.upstream.kueue.webhook import set_queue
from generator.upstream.openshift.scc.decide import Answer, Constraints, PodDecision, Situation

if TYPE_CHECKING:
    from generator.upstream.kubernetes.admission_policies.judge import Decision
    from generator.upstream.kubernetes.admission_policies.policy import Policy, PolicyCluster
    from generator.upstream.kubernetes.admission_policies.request import Request, UserInfo
    from generator.upstream.kubernetes.cel.syntax import Reading


@check("runtime/pod-security", severity=ERROR, needs=Objects)
def pod_security(objects: Objects) -> Iterator[Breach]:
    """Report a runtime whose pods violate the Pod Security level of the namespaces that use it.

    Kueue does not read Pod Security. It admits a job on the runtime, the API server rejects the pods, and the job holds
    its quota without running. Only the events of the Job show the message of the API server.

    The check reads the labels `pod-security.kubernetes.io/enforce` and `enforce-version` of the Namespace of a
    TrainingRuntime. For a ClusterTrainingRuntime it reads the Namespaces with TrainJobs on the runtime, with the
    runtime in the annotation `mpigen.dev/runtimes`, or with quota for the runtime. The finding is a warning if at least
    one of these Namespaces accepts the pods. On OpenShift, the SecurityContextConstraints set
    absent fields before Pod Security reads the pods. `fabric/memlock` reports the capability IPC_LOCK.

    Source: pod-security-admission v0.34.2 policy/registry.go checkRegistry.EvaluatePod
    """
    minor = int((objects.targets.get("kubernetes") or minors("kubernetes")[0]).partition(".")[2])
    for runtime in objects.of(GROUP, *RUNTIMES):
        for pods in pod_templates(runtime):
            known = _namespaces(pods, objects)
            levels = {name: read_level(item.body) for name, item in known.items()}
            decisions = _decide(pods, known, objects)
            by_case: dict[tuple[Level, Situation | None], list[Violation]] = {}
            for name, level in levels.items():
                situation, decision = decisions.get(name, (None, None))
                if (level, situation) not in by_case:
                    body = decision.pod if decision and not decision.doubt else _pod(pods)
                    by_case[level, situation] = [*_find_violations(_without_memlock(body), level, minor, decision)]
            violations = {name: by_case[level, decisions.get(name, (None, None))[0]] for name, level in levels.items()}
            if rejecting := [name for name in known if violations[name]]:
                yield _insecure(pods, rejecting, levels[rejecting[0]], violations[rejecting[0]], len(known))


def _find_violations(body: Body, level: Level, minor: int, decision: PodDecision | None) -> Iterator[Violation]:
    """Yield the violations of a Pod Security level by a pod.

    Args:
        body: the pod.
        level: the level.
        minor: the minor version of Kubernetes.
        decision: the decision of the SCCs, which OpenShift evaluates before Pod Security; None on Kubernetes.
    """
    if decision is None or decision.answer is not Answer.REJECTED:
        for violation in find_violations(body, level, minor):
            if not (violation.is_unset and decision and decision.doubt):
                yield violation


def _namespaces(pods: PodTemplate, objects: Objects) -> dict[str, Manifest]:
    """Return name → Namespace in the files, for the namespaces in which pods of a template run, or can run."""
    names = sorted(namespaces_of(pods, objects) | likely_namespaces(pods, objects))
    return {name: item for name in names if (item := objects.one("", "Namespace", name))}


def read_constraints(objects: Objects) -> Constraints | None:
    """Return the SCCs of a cluster; None on Kubernetes, or if RBAC objects of one name differ."""
    if not is_openshift(objects.manifests):
        return None
    with suppress(SimulationError):
        return Constraints.read(objects.manifests, is_complete=objects.is_complete)
    return None


def _decide(
    pods: PodTemplate, namespaces: Mapping[str, Manifest], objects: Objects
) -> dict[str, tuple[Situation, PodDecision]]:
    """Return Namespace → (the SCCs that the ServiceAccount of the pods may use, OpenShift's decision on the pods).

    The result is empty if `read_constraints` returns None, as it does on Kubernetes.
    """
    constraints = objects.view(read_constraints)
    if constraints is None:
        return {}
    account = string(pods.spec.get("serviceAccountName"), "default")
    situations = {name: constraints.find_situation(item.body, account) for name, item in namespaces.items()}
    body = _without_memlock(_pod(pods)) if REQUIRED_SCC in pods.annotations else _pod(pods)
    decisions = {situation: constraints.decide(body, situation) for situation in {*situations.values()}}
    return {name: (situation, decisions[situation]) for name, situation in situations.items()}


@check("runtime/security-context-constraints", severity=ERROR, needs=Objects)
def security_context_constraints(objects: Objects) -> Iterator[Breach]:
    """Report a runtime whose pods no SecurityContextConstraints (SCC) of OpenShift admits.

    Kueue does not read SCCs. It admits a job on the runtime, the API server rejects the pods, and the job holds its
    quota without running. Only the events of the Job show the message of the API server.

    OpenShift tries the SCCs that the ServiceAccount of the pods may use. The check knows the SCCs of every OpenShift
    cluster, the SCCs in the files, and the roles in the files that allow the verb `use`. It reads the same namespaces
    as `runtime/pod-security`. The finding is a warning if OpenShift admits the pods in another namespace, or if the
    files do not show every SCC that the account may use. `fabric/memlock` reports the capability IPC_LOCK in pods
    with the annotation `openshift.io/required-scc`.

    Source: openshift/apiserver-library-go a8019f39 pkg/securitycontextconstraints/sccadmission/admission.go;
    openshift/cluster-kube-apiserver-operator bindata/bootkube/scc-manifests
    """
    for runtime in objects.of(GROUP, *RUNTIMES) if objects.view(read_constraints) else ():
        for pods in pod_templates(runtime):
            decisions = {
                name: decision for name, (_, decision) in _decide(pods, _namespaces(pods, objects), objects).items()
            }
            rejecting = [name for name, item in decisions.items() if item.message and (item.failures or not item.doubt)]
            if rejecting:
                first = decisions[rejecting[0]]
                is_certain = len(rejecting) == len(decisions) and not any(item.doubt for item in decisions.values())
                where, doubt = _where(rejecting, len(decisions)), f"; {first.doubt}" if first.doubt else ""
                yield Breach(
                    (*pods.path, *(first.failures[0].path if first.failures else ("spec",))),
                    f"{first.describe(pods.role, where)}{doubt}",
                    "Kueue admits jobs on the runtime, but the API server rejects their pods",
                    "change the fields as the message requires, or let the ServiceAccount use another SCC",
                    pods.manifest,
                    ERROR if is_certain else WARNING,
                )


def _where(names: Sequence[str], count: int) -> str:
    """Describe the Namespaces `names` that reject pods, out of `count` Namespaces: `2 of 3 Namespaces, such as …`."""
    return f"Namespace `{names[0]}`" if count == 1 else f"{len(names)} of {count} Namespaces, such as `{names[0]}`"


def _insecure(
    pods: PodTemplate, rejecting: Sequence[str], level: Level, violations: Sequence[Violation], count: int
) -> Breach:
    """Return the breach of pods that the Pod Security levels of the namespaces `rejecting` reject.

    `level` and `violations` belong to the first of these namespaces. `count` is the number of namespaces in which the
    pods can run.
    """
    where = _where(rejecting, count)
    return Breach(
        (*pods.path, *violations[0].path),
        f'the pods `{pods.role}` violate PodSecurity "{level}" of {where}: {", ".join(map(str, violations))}',
        "Kueue admits jobs on the runtime, but the API server rejects their pods",
        "change the fields as the message requires, or lower the Pod Security level of the Namespaces",
        pods.manifest,
        ERROR if len(rejecting) == count else WARNING,
    )


@check("runtime/unset-amount", severity=WARNING, needs=Objects)
def unset_amount(objects: Objects) -> Iterator[Breach]:
    """Report a runtime whose containers lack a request or limit that a ResourceQuota requires.

    If a ResourceQuota limits the requests or limits of CPU or memory, each container must set them. Kueue does
    not read ResourceQuotas. It admits a job on the runtime, the API server rejects the pods with `must specify`, and
    the job holds its quota without running. A job runs only if its `resourcesPerNode` sets them.

    The check applies the defaults of LimitRanges. It reads the same namespaces as `runtime/pod-security`.

    Source: kubernetes v1.34.2 pkg/quota/v1/evaluator/core/pods.go podEvaluator.Constraints
    """
    shared = [*objects.of("node.k8s.io", "RuntimeClass"), *objects.of("scheduling.k8s.io", "PriorityClass")]
    minor = objects.targets.get("kubernetes") or minors("kubernetes")[0]
    near: dict[str, list[Manifest]] = {}
    for item in objects.of("", "ResourceQuota", "LimitRange"):
        near.setdefault(item.namespace, []).append(item)
    ledgers = {}
    for name, items in sorted(near.items()):
        if any(REQUIRED & mapping(item.body, "spec", "hard").keys() for item in items):
            with suppress(SimulationError):  # an amount that is not a quantity
                ledgers[name] = read_ledger([*items, *shared], name, minor)
    for runtime in objects.of(GROUP, *RUNTIMES) if ledgers else ():
        for pods in pod_templates(runtime):
            for name in sorted((namespaces_of(pods, objects) | likely_namespaces(pods, objects)) & ledgers.keys()):
                with suppress(SimulationError):
                    refusal = ledgers[name].charge(
                        {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": pods.spec}
                    )
                    if refusal and refusal.is_unspecified:
                        yield Breach(
                            (*pods.path, "spec", "containers"),
                            f"a ResourceQuota of namespace `{name}` rejects the pods `{pods.role}`: {refusal.message}",
                            "Kueue admits jobs on the runtime, but the API server rejects their pods",
                            "set the named requests and limits in all containers, or set defaults in a LimitRange",
                            runtime,
                        )
                        break


def _without_memlock(pod: Body) -> Body:
    """Return a pod without the capability IPC_LOCK, which `fabric/memlock` reports."""
    added = [
        strings(mapping(container, "securityContext", "capabilities").get("add"))
        for kind in _CONTAINERS
        for container in mappings(mapping(pod, "spec").get(kind))
    ]
    if not any(IPC_LOCK in names for names in added):
        return pod
    body = deepcopy(pod)
    for kind in _CONTAINERS:
        for container in mappings(body["spec"].get(kind)):
            capabilities = mapping(container, "securityContext", "capabilities")
            if "add" in capabilities:
                capabilities["add"] = [name for name in strings(capabilities["add"]) if name != IPC_LOCK]
    return body


def _pod(pods: PodTemplate) -> Body:
    return {"metadata": mapping(pods.body, "metadata"), "spec": dict(pods.spec)}


_CONTAINERS = ("initContainers", "containers")


@dataclass(frozen=True)
class OwnAdmission:
    """The admission policies in the files, and all objects in the files."""

    objects: Objects
    cluster: PolicyCluster

    @classmethod
    def read(cls, objects: Objects) -> OwnAdmission | None:
        """Return the policies and objects; None if the files have no policy, or no binding with the action `Deny`."""
        denying = (
            "Deny" in strings(mapping(item.body, "spec").get("validationActions"))
            for item in objects.of(_ADMISSION, "ValidatingAdmissionPolicyBinding")
        )
        if not any(denying) or not objects.of(_ADMISSION, "ValidatingAdmissionPolicy"):
            return None
        from generator.upstream.kubernetes.admission_policies.policy import PolicyCluster  # imports CEL, which is slow

        return cls(objects, PolicyCluster(objects.manifests, Catalog.bundled(objects.targets)))

    @cached_property
    def account(self) -> UserInfo | None:
        """The ServiceAccount of Argo CD, which applies a release.

        None unless the files have the ClusterRoleBinding `mpigen-gitops`, and it has exactly one subject.
        """
        from generator.upstream.kubernetes.admission_policies.request import UserInfo

        binding = self.objects.one("rbac.authorization.k8s.io", "ClusterRoleBinding", GITOPS_ROLE)
        subjects = mappings(binding.body.get("subjects")) if binding else ()
        accounts = [f"system:serviceaccount:{item.get('namespace')}:{item.get('name')}" for item in subjects]
        return UserInfo(accounts[0]) if len(accounts) == 1 else None

    def denials(self, manifest: Manifest) -> Iterator[tuple[Decision, Path]]:
        """Yield the decisions of policies that reject an object for every user who may create it.

        Each decision comes with the path of the rejected image or field; of the name if mpigen finds none.
        """
        from generator.upstream.kubernetes.admission_policies.places import find_place  # imports CEL, which is slow

        try:
            kind = self.cluster.kind(manifest.api_version, manifest.kind)
        except SimulationError:  # no schema, so its resource is unknown
            return
        if not (policies := self._policies_of(kind)) or not self._is_located(manifest, kind):
            return
        request = self._request(manifest, kind)
        for policy in policies:
            if self._may_judge(policy, manifest, kind):
                with suppress(SimulationError):  # mpigen cannot evaluate the policy
                    denial = self._find_denial_of_all(policy, request, self._users(policy, manifest))
                    if denial:
                        user, decision = denial
                        of_user = replace(request, user_info=user)
                        place = self._find_image(policy, of_user) or find_place(policy, decision, of_user, self.cluster)
                        yield decision, place or _NAME

    def _find_denial_of_all(
        self, policy: Policy, request: Request, users: Iterable[UserInfo]
    ) -> tuple[UserInfo, Decision] | None:
        """Return the first user, and the decision that rejects the request; None if the policy accepts one of them."""
        first = None
        for user in users:
            decision = self._find_denial(policy, replace(request, user_info=user))
            if decision is None:
                return None
            first = first or (user, decision)
        return first

    def _find_image(self, policy: Policy, request: Request) -> Path | None:
        """Return the path of the first image that a policy rejects; None if the policy rejects no image.

        The policy rejects an image if it accepts the object with other images, and rejects the object whose images are
        all this image.
        """
        from generator.upstream.kubernetes.cel.syntax import find_strings

        body = request.object or {}
        images = [*_find_images(body)]
        namespace = self.objects.one("", "Namespace", request.namespace) if request.namespace else None
        annotations = mapping(namespace.body, "metadata", "annotations") if namespace else {}
        texts = [text for rule in policy.texts for text in find_strings(rule)]
        texts += [text for value in annotations.values() for text in string(value).split(",")]
        hosts = dict.fromkeys(("", *(text for text in texts if _REGISTRY.fullmatch(text))))
        others = [f"{host.rstrip('/')}/{_ANY_IMAGE}".lstrip("/") for host in hosts]

        def is_rejected(image: str) -> bool:
            changed = deepcopy(body)
            for path, _ in images:
                _set(changed, path, image)
            return self._find_denial(policy, replace(request, object=changed)) is not None

        if not images or all(map(is_rejected, others)):
            return None
        return next((path for path, image in images if is_rejected(image)), None)

    def _find_denial(self, policy: Policy, request: Request) -> Decision | None:
        """Return the first decision by which a policy certainly rejects a request; None without such a decision.

        If the files lack a parameter of the policy, a rejection is certain only in a complete release: otherwise the
        cluster may have the parameter.

        Raises:
            SimulationError: mpigen cannot evaluate the policy.
        """
        from generator.upstream.kubernetes.admission_policies.judge import judge

        for decision in judge(request, self.cluster, [policy]):
            is_missing = decision.is_error and decision.rule is None and not self.objects.is_complete
            if not decision.holds and "Deny" in decision.actions and not is_missing:
                return decision
        return None

    def _is_located(self, manifest: Manifest, kind: Kind) -> bool:
        """Return True if an object is cluster-scoped, or if the files have one definition of its Namespace."""
        return not kind.is_namespaced or self.objects.one("", "Namespace", manifest.namespace) is not None

    def _policies_of(self, kind: Kind) -> Sequence[Policy]:
        """Return the bound policies that can reject objects of a kind."""
        if kind not in self._by_kind:
            self._by_kind[kind] = [
                policy
                for policy in self._bound
                if any(map(kind.is_named_by, mappings(mapping(policy.spec, "matchConstraints").get("resourceRules"))))
                and (self.account or kind.kind == "TrainJob" or not policy.reads_user or _selects_by_user(policy))
                and not self._accepts_all(policy, kind)
            ]
        return self._by_kind[kind]

    @cached_property
    def _by_kind(self) -> dict[Kind, list[Policy]]:
        return {}

    @cached_property
    def _bound(self) -> list[Policy]:
        """The policies in the files that deny requests.

        Different policies of one name are left out, because they are for different clusters.
        """
        names = {binding.policy for binding in self.cluster.bindings if "Deny" in binding.actions}
        group = (_ADMISSION, "ValidatingAdmissionPolicy")
        return [item for item in self.cluster.policies if item.name in names and self.objects.one(*group, item.name)]

    def _accepts_all(self, policy: Policy, kind: Kind) -> bool:
        """Return True if a policy reads only the user, and accepts all objects of a kind from one of the appliers."""
        from generator.upstream.kubernetes.admission_policies.judge import Evaluation
        from generator.upstream.kubernetes.admission_policies.request import Request

        if not all(map(_is_of_user, policy.readings)):
            return False
        body = {"metadata": {"name": "any"}}
        for user in self._appliers(policy):
            request = Request("CREATE", kind, body, None, user, "any" if kind.is_namespaced else "", "any")
            with suppress(SimulationError):
                if all(decision.holds for decision in Evaluation(policy, ("Deny",), request, None, None).decisions()):
                    return True
        return False

    def _appliers(self, policy: Policy) -> Sequence[UserInfo]:
        """Return the users who may apply the files: the account that the files name, or else all usual appliers.

        These are the controllers of Argo CD and Flux, an admin with all rights, a user without groups, and the callers
        that the policy names. The result is empty if the policy reads the user in other places than its match
        conditions, because the decision can then depend on the namespace or the object.
        """
        from generator.upstream.kubernetes.admission_policies.request import UserInfo
        from generator.upstream.kubernetes.cel.syntax import find_strings

        if self.account:
            return [self.account]
        if not _selects_by_user(policy):
            return []
        names = sorted({name for text in policy.texts if "userInfo" in text for name in find_strings(text)})
        return [
            *(UserInfo(account) for account in _ENGINES),
            UserInfo("admin", (SUPERUSERS,)),
            UserInfo("anyone"),
            *(UserInfo(name) for name in names),
            *(UserInfo("anyone", (name,)) for name in names),
        ]

    def _may_judge(self, policy: Policy, manifest: Manifest, kind: Kind) -> bool:
        """Return True if the policy would read the same values in the cluster as in the file.

        The API server and admission plugins set fields before they evaluate policies. mpigen sets the defaults of
        custom resources too. For built-in kinds, the result is True only if the policy reads fields that nothing sets.
        """
        if any(kind.is_named_by(rule) for rule in self._mutating_rules):
            return False
        if (
            manifest.kind in _QUEUED
            and (KUEUE, "LocalQueue", manifest.namespace, DEFAULT_QUEUE) in self.cluster.objects
        ):
            return False
        if self.cluster.catalog.is_custom(manifest.api_version, manifest.kind):
            return True
        if manifest.kind == "Pod" and (is_openshift(self.objects.manifests) or manifest.namespace in self._limited):
            return False
        known = _KNOWN.get((manifest.group, manifest.kind), _METADATA)
        paths = [reading.fields for reading in policy.readings if reading.root == "object"]
        return all(any(path[: len(prefix)] == prefix for prefix in known) for path in paths)

    @cached_property
    def _limited(self) -> set[str]:
        """The namespaces with a LimitRange, which changes the resources of pods."""
        return {item.namespace for item in self.objects.of("", "LimitRange")}

    @cached_property
    def _mutating_rules(self) -> Sequence[Mapping[str, Any]]:
        """The rules of webhooks and policies in the files that change objects before policies read them."""
        hooks = self.objects.of(_ADMISSION, "MutatingWebhookConfiguration")
        rules = [
            rule
            for item in hooks
            for hook in mappings(item.body.get("webhooks"))
            for rule in mappings(hook.get("rules"))
        ]
        for item in self.objects.of(_ADMISSION, "MutatingAdmissionPolicy"):
            rules += mappings(mapping(item.body, "spec", "matchConstraints").get("resourceRules"))
        return rules

    def _request(self, manifest: Manifest, kind: Kind) -> Request:
        """Return the request to create an object, with defaults, and with the queue that Kueue sets in a TrainJob."""
        from generator.upstream.kubernetes.admission_policies.request import Request, UserInfo, as_stored, name_of

        body = as_stored(self._with_defaults(manifest), manifest.namespace, kind)
        namespace = manifest.namespace if kind.is_namespaced else manifest.name if is_namespace(manifest) else ""
        if manifest.kind == "TrainJob":
            body = set_queue(body, has_default=(KUEUE, "LocalQueue", namespace, DEFAULT_QUEUE) in self.cluster.objects)
        return Request("CREATE", kind, body, None, UserInfo("anyone"), namespace, name_of(body))

    def _with_defaults(self, manifest: Manifest) -> Body:
        catalog = self.cluster.catalog
        schema = catalog.schema(manifest.api_version, manifest.kind)
        if schema is None:
            return manifest.body
        if catalog.is_custom(manifest.api_version, manifest.kind):
            return dict(normalize_custom(manifest.body, schema, schema))
        return dict(normalize_built_in(manifest.body, schema))

    def _users(self, policy: Policy, manifest: Manifest) -> Sequence[UserInfo]:
        """Return the users for whom to evaluate a policy; empty if the policy reads the user, but the user is unknown.

        If the policy does not read the user, the result is any one user. The owner in the annotation of a TrainJob
        submits the TrainJob, and one of `_appliers` submits all other objects. The groups of the owner are unknown, so
        the result has the owner without groups, with each group that the policy names, and with all of them. If the
        policy also reads the authorizer or parameters, the result for a TrainJob with an owner is empty.
        """
        from generator.upstream.kubernetes.admission_policies.request import UserInfo
        from generator.upstream.kubernetes.cel.syntax import find_strings

        if not policy.reads_user:
            return [UserInfo("anyone")]
        owner = (
            string(mapping(manifest.body, "metadata", "annotations").get(OWNER)) if manifest.kind == "TrainJob" else ""
        )
        if not owner:
            return self._appliers(policy)
        if any(reading.root in ("authorizer", "params") for reading in policy.readings):
            return []
        groups = sorted({name for text in policy.texts for name in find_strings(text)})
        return [UserInfo(owner), *(UserInfo(owner, (name,)) for name in groups), UserInfo(owner, tuple(groups))]


def _selects_by_user(policy: Policy) -> bool:
    """Return True if only the match conditions of a policy read the user, by comparisons with names and groups.

    Then the decision is equal for all users whom the conditions select.
    """
    conditions = [string(row.get("expression")) for row in mappings(policy.spec.get("matchConditions"))]
    others = policy.texts[len(conditions) :]
    is_simple = not any(word in text for text in conditions for word in ("userInfo.extra", "userInfo.uid", "matches("))
    return is_simple and not any("userInfo" in text or "authorizer" in text for text in others)


def _find_images(value: object, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield (path, image) of the containers and image volumes below a value."""
    if isinstance(value, dict):
        for key, below in value.items():
            if isinstance(below, str) and below and (key == "image" or (key, path[-1:]) == ("reference", ("image",))):
                yield (*path, key), below
            else:
                yield from _find_images(below, (*path, key))
    elif isinstance(value, list):
        for number, below in enumerate(value):
            yield from _find_images(below, (*path, number))


def _set(body: Any, path: Path, value: str) -> None:
    for step in path[:-1]:
        body = body[step]
    body[path[-1]] = value


def _is_of_user(reading: Reading) -> bool:
    """Return True if a value that a policy reads is equal for all new objects of one kind and one user.

    An example is `request.userInfo`.
    """
    if reading.root == "request":
        return reading.fields[:1] in (("userInfo",), ("operation",), ("kind",), ("resource",), ("subResource",))
    return reading.fields == _DELETED if reading.root == "object" else reading.root not in _OF_OBJECTS


@check("policy/rejects-own-object", severity=ERROR, needs=OwnAdmission)
def rejects_own_object(admission: OwnAdmission) -> Iterator[Breach]:
    """Report an object that an admission policy in the same files rejects.

    Argo CD and Flux then cannot apply the release, and `kubectl apply` fails. The
    finding is at the image or the field that the policy rejects. The check evaluates the bound
    ValidatingAdmissionPolicies in the files, with their parameters and the Namespaces, for the request to create each
    object:

    - The ServiceAccount of Argo CD applies a release, if the release grants it the role `mpigen-gitops`. Without this
      grant, the check reports an object that a policy rejects for every applier: Argo CD, Flux, and admins with
      `kubectl`.
    - The owner in the annotation `mpigen.dev/owner` submits a TrainJob. The groups of the owner are unknown. The
      check reports the TrainJob if the policy rejects it without groups, and with the groups that the policy names.
    - Without a known user, the check leaves out policies whose validations read the user.

    The check leaves out objects whose Namespace is not in the files, and policies that read fields of built-in kinds
    that the API server can set. For a cluster-scoped object outside of a complete release, the finding is a warning.
    `mpigen check-job` decides about TrainJobs of a user with groups.

    Source: apiserver v0.34.2 pkg/admission/plugin/policy/validating/dispatcher.go dispatcher.Dispatch
    """
    for manifest in admission.objects.manifests:
        for decision, path in admission.denials(manifest):
            changed = "object" if path == _NAME else "image" if path[-1] == "image" else "field"
            yield Breach(
                path,
                f"the policy `{decision.policy}` rejects this {manifest.kind}: {decision.message}",
                "the API server rejects the object, so Argo CD, Flux and `kubectl apply` cannot apply these files",
                f"change the {changed} as the message of the policy requires, or change the policy",
                manifest,
                WARNING if not (admission.objects.is_complete or manifest.namespace) else ERROR,
            )


_ADMISSION = "admissionregistration.k8s.io"
_NAME: Path = ("metadata", "name")
_ANY_IMAGE = f"any/image@sha256:{'0' * 64}"
_REGISTRY = re.compile(r"[a-z0-9][a-z0-9.:-]*[a-z0-9](/[a-z0-9._/-]*)?")
"""A string that can be the start of an image reference, such as `quay.io/acme/`."""
_ENGINES = (
    "system:serviceaccount:argocd:argocd-application-controller",
    "system:serviceaccount:flux-system:kustomize-controller",
)
_DELETED = ("metadata", "deletionTimestamp")
_OF_OBJECTS = ("oldObject", "params", "namespaceObject", "authorizer")
_METADATA: tuple[tuple[str, ...], ...] = (("metadata",), ("kind",), ("apiVersion",))
_KNOWN: Mapping[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    **{("", kind): ((),) for kind in ("ConfigMap", "Namespace", "ResourceQuota", "ServiceAccount")},
    **{("rbac.authorization.k8s.io", kind): (*_METADATA, ("rules",)) for kind in ("ClusterRole", "Role")},
    ("", "Pod"): (*_METADATA, ("spec", "containers"), ("spec", "initContainers"), ("spec", "securityContext")),
    **{("apps", kind): (*_METADATA, ("spec", "template")) for kind in ("DaemonSet", "Deployment", "StatefulSet")},
    ("batch", "Job"): (*_METADATA, ("spec", "template")),
}
"""(group, kind) of a built-in kind → the fields, as paths, below which the API server sets no values."""
_QUEUED = {"Deployment", "Job", "JobSet", "LeaderWorkerSet", "Pod", "StatefulSet"}
"""Kinds to which Kueue adds the label of the LocalQueue `default`, if the namespace has this queue."""
