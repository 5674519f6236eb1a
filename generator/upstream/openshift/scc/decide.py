"""The decision of an OpenShift cluster on the pods of a namespace, from the SCCs, grants and Namespaces in files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, mappings, string, string_map, strings
from generator.upstream.kubernetes.access import Access, AccessRequest, Requester, Rule, parse_requester, read_access
from generator.upstream.openshift.scc.admit import UNABLE, Admission, admit, required_constraint
from generator.upstream.openshift.scc.assign import Failure, join
from generator.upstream.openshift.scc.constraint import (
    GROUP,
    KIND,
    LEVEL,
    RESOURCE,
    Allocation,
    AllocationError,
    Constraint,
    installed_constraints,
    installed_roles,
    is_exempt,
    possible_allocations,
    read_allocation,
)

_RBAC = "rbac.authorization.k8s.io"
JOB_CONTROLLER = parse_requester("serviceaccount:kube-system/job-controller")
"""The user that creates the pods of Jobs. Source: kubernetes v1.34.2 cmd/kube-controller-manager/app/batch.go
newJobControllerDescriptor"""


class Answer(Enum):
    """The decision of OpenShift on a pod; unknown if objects that are not in the files can change it."""

    ADMITTED = "admitted"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Situation:
    """The SCCs and the settings of a Namespace that decide on the pods of a ServiceAccount.

    Attributes:
        account: the name of the ServiceAccount.
        usable: SCC → `serviceaccount` or `user`, for the SCCs that the account or the creator of the pods may use.
        doubt: why the account or the creator may use further SCCs; empty if the files show all SCCs that they use.
        allocation: the UIDs, groups and SELinux level of the Namespace; None if only the cluster has them.
        level: the SELinux level in its annotations, if `allocation` is None.
        error: why OpenShift rejects all pods of the Namespace; empty if it does not.
        is_malformed: True if `error` is about an annotation that mpigen cannot read.
        is_exempt: True if OpenShift admits the pods of the Namespace without an SCC.
        has_token: True if the pods get a token of the account, unless they set `automountServiceAccountToken`.
    """

    account: str
    usable: tuple[tuple[str, str], ...]
    doubt: str = ""
    allocation: Allocation | None = None
    level: str = ""
    error: str = ""
    is_malformed: bool = False
    is_exempt: bool = False
    has_token: bool = True


@dataclass(frozen=True, slots=True)
class PodDecision:
    """The decision of OpenShift on a pod, with its reason.

    Attributes:
        answer: the decision.
        pod: the pod with the security context of the SCC that admits it; unchanged if no SCC admits it.
        account: the ServiceAccount of the pod.
        constraint: the name of the SCC that admits the pod; empty if there is none.
        usable: the SCCs that the account or the creator of the pod may use, in the order in which OpenShift tries them.
        failures: the fields that these SCCs do not allow, if OpenShift rejects the pod, or may reject it.
        message: the reason of the API server for the rejection; empty if OpenShift admits the pod.
        doubt: why another SCC can admit the pod, or give it another security context; empty if no other SCC can. If an
            SCC admits the pod, grants outside the files count only if the files refer to them.
    """

    answer: Answer
    pod: Body
    account: str = ""
    constraint: str = ""
    usable: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    message: str = ""
    doubt: str = ""

    def describe(self, role: str, namespace: str = "") -> str:
        """Return the reason of a rejection of pods as a sentence.

        Args:
            role: the role of the pods, such as `launcher`.
            namespace: a text for their Namespaces; empty if the reader knows it.
        """
        pods = f"the pods `{role}`{f' in {namespace}' if namespace else ''}"
        account = f"ServiceAccount `{self.account}`"
        required = required_constraint(self.pod)
        if not self.message.startswith(UNABLE):
            return f"OpenShift rejects {pods}: {self.message}"
        if required and self.failures:
            return f"the SCC `{required}`, which {pods} require, rejects them: {join(self.failures)}"
        if required:
            return f"{pods} require the SCC `{required}`, but {account} may not use it"
        names = ", ".join(f"`{name}`" for name in self.usable)
        return f"no SCC that {account} may use ({names}) admits {pods}: {join(self.failures)}"


@dataclass(frozen=True)
class Constraints:
    """The SCCs of an OpenShift cluster, and the accounts that may use them.

    Attributes:
        known: name → SCC: the SCCs of every cluster, and the SCCs in the files.
        grants: namespace → the grants that can contain the use of an SCC there; "" → the grants in all namespaces.
        is_complete: True if the files are a complete release, so that they contain all further grants.
        automounts: (namespace, ServiceAccount) → True if its pods get a token, for the ServiceAccounts of the files.
    """

    known: Mapping[str, Constraint]
    grants: Mapping[str, Access]
    is_complete: bool = False
    automounts: Mapping[tuple[str, str], bool] = field(default_factory=dict)

    @classmethod
    def read(cls, manifests: Sequence[Manifest], *, is_complete: bool) -> Constraints:
        """Read the SCCs and the grants of manifests.

        Raises:
            SimulationError: two RBAC objects of the same name differ.
        """
        own = [Constraint(item.name, item.body) for item in manifests if (item.group, item.kind) == (GROUP, KIND)]
        known = {**installed_constraints(), **{item.name: item for item in own if item.is_valid}}
        return cls(
            known,
            _read_grants(manifests),
            is_complete,
            {
                (item.namespace, item.name): item.body.get(_AUTOMOUNT) is not False
                for item in manifests
                if item.kind == "ServiceAccount"
            },
        )

    def find_situation(self, namespace: Body, account: str, creator: Requester = JOB_CONTROLLER) -> Situation:
        """Return the SCCs and the settings of the Namespace that decide on the pods of a ServiceAccount.

        Args:
            namespace: the Namespace of the pods.
            account: the name of their ServiceAccount.
            creator: the user who creates the pods.
        """
        name = string(mapping(namespace, "metadata").get("name"))
        if (name, account, creator) not in self._situations:
            self._situations[name, account, creator] = self._find_situation(namespace, name, account, creator)
        return self._situations[name, account, creator]

    @cached_property
    def _situations(self) -> dict[tuple[str, str, Requester], Situation]:
        return {}

    def _find_situation(self, namespace: Body, name: str, account: str, creator: Requester) -> Situation:
        usable: dict[str, str] = {}
        doubts = []
        requester = _read_account(name, account)
        access = self.grants.get(name) or self.grants[""]
        for subject, user in (("user", creator), ("serviceaccount", requester)):
            for constraint in self.known.values():
                if _is_named(constraint, user) or access.allowed(user, _use(constraint.name, name)):
                    usable[constraint.name] = subject
            doubts += [f"the files do not show all rights of {gap}" for gap in access.gaps(user, name)]
            rules = [rule for grant in access.of(user, name) for rule in grant.rules]
            others = sorted({item for rule in rules for item in _named_constraints(rule)} - self.known.keys())
            doubts += [
                f"ServiceAccount `{account}` may use the SCC `{other}`, which is not in the files" for other in others
            ]
        allocation, error, is_malformed = None, "", False
        try:
            allocation = read_allocation(namespace)
        except AllocationError as failure:
            error, is_malformed = f'error fetching namespace "{name}": {failure}', failure.is_malformed
        return Situation(
            account,
            tuple(sorted(usable.items())),
            next(iter(doubts), ""),
            allocation,
            "" if allocation else string(string_map(mapping(namespace, "metadata", "annotations")).get(LEVEL)),
            error,
            is_malformed,
            is_exempt(namespace),
            self.automounts.get((name, account), True),
        )

    def decide(self, pod: Body, situation: Situation) -> PodDecision:
        """Return the decision of OpenShift on a pod.

        Args:
            pod: the Pod, before admission.
            situation: the result of `find_situation` for its Namespace and its ServiceAccount.
        """
        account, usable = situation.account, dict(situation.usable)
        if situation.is_exempt or mapping(pod, "spec", "os").get("name") == "windows":
            return PodDecision(Answer.ADMITTED, pod, account)
        if situation.is_malformed:
            return PodDecision(Answer.UNKNOWN, pod, account, message=situation.error, doubt=situation.error)
        if situation.error:
            return PodDecision(Answer.REJECTED, pod, account, message=situation.error)
        required = required_constraint(pod)
        if required and required not in self.known:
            message = f'failed to retrieve the required SCC "{required}": {RESOURCE}.{GROUP} "{required}" not found'
            doubt = f"the pods require the SCC `{required}`, which is not in the files"
            return PodDecision(Answer.UNKNOWN, pod, account, message=message, doubt=doubt)
        doubt = "" if required in usable else situation.doubt
        constraints = [self.known[required]] if required else [*self.known.values()]
        order = sorted((item for item in constraints if item.name in usable), key=lambda item: item.order)
        names = tuple(item.name for item in order)
        known = situation.allocation
        allocations = [known] if known else [*possible_allocations(pod, situation.level)]
        mounted = _with_token(pod, has_token=situation.has_token)
        answers = [
            admit(mounted, constraints, values, lambda item: usable.get(item.name, "")) for values in allocations
        ]
        first = answers[0]
        if all(item.constraint for item in answers):
            return PodDecision(
                Answer.ADMITTED, _without_token(first.pod), account, first.constraint, names, doubt=doubt
            )
        if first.error:
            return PodDecision(Answer.REJECTED, pod, account, message=first.error)
        if any(item.constraint for item in answers):
            doubt = "only the cluster has the UIDs and the SELinux level of the namespace"
        elif not (doubt or self.is_complete or required in usable):
            doubt = f"bindings that are not in these files can let ServiceAccount `{account}` use more SCCs"
        elif not doubt and _is_restricted_enough(first):
            doubt = "clusters that were installed before OpenShift 4.11 let every user use the SCC `restricted`"
        answer = Answer.UNKNOWN if doubt else Answer.REJECTED
        failures = tuple(_relevant(first.own, order, pod))
        return PodDecision(answer, pod, account, "", names, failures, first.message, doubt)


_AUTOMOUNT = "automountServiceAccountToken"
_TOKEN = "kube-api-access"  # noqa: S105 - the name of a volume
_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path


def _read_grants(manifests: Iterable[Manifest]) -> dict[str, Access]:
    """Return namespace → the grants that can contain the use of an SCC, with the grants of every OpenShift cluster."""
    kept = [item for item in manifests if item.group == _RBAC]
    names = {(item.kind, item.name) for item in kept}
    roles = (Manifest(body, "") for body in installed_roles())
    access = read_access([*(item for item in roles if (item.kind, item.name) not in names), *kept])
    grants = [item for item in access.grants if item.gap or any(map(_can_grant, item.rules))]
    shared = tuple(item for item in grants if not item.namespace)
    by_namespace: dict[str, Access] = {"": Access(shared)}
    for grant in grants:
        if grant.namespace:
            before = by_namespace.get(grant.namespace, by_namespace[""])
            by_namespace[grant.namespace] = Access((*before.grants, grant))
    return by_namespace


def _read_account(namespace: str, account: str) -> Requester:
    """Return a ServiceAccount as OpenShift checks its access to SCCs: without the group `system:authenticated`.

    Source: openshift/apiserver-library-go a8019f39
    pkg/securitycontextconstraints/sccadmission/scc_authz_check.go
    allowedForType; apiserver v0.34.2 pkg/authentication/serviceaccount/util.go ServiceAccountInfo.UserInfo
    """
    groups = frozenset(("system:serviceaccounts", f"system:serviceaccounts:{namespace}"))
    return Requester(f"system:serviceaccount:{namespace}:{account}", groups)


def _can_grant(rule: Rule) -> bool:
    """Return True if a rule allows the use of an SCC."""
    return bool({"use", "*"} & {*rule.verbs} and {GROUP, "*"} & {*rule.groups} and {RESOURCE, "*"} & {*rule.resources})


def _named_constraints(rule: Rule) -> tuple[str, ...]:
    return rule.names if _can_grant(rule) else ()


def _use(name: str, namespace: str) -> AccessRequest:
    return AccessRequest("use", GROUP, RESOURCE, name=name, namespace=namespace)


def _is_named(constraint: Constraint, requester: Requester) -> bool:
    """Return True if `users` or `groups` of an SCC name a requester."""
    users, groups = (strings(constraint.body.get(key)) for key in ("users", "groups"))
    return requester.user in users or bool(requester.groups & {*groups})


def _relevant(failures: Sequence[Failure], constraints: Iterable[Constraint], pod: Body) -> Sequence[Failure]:
    """Return the failures for a message: without SCCs that require a user namespace, unless the pod has one.

    If only such SCCs failed, return all failures.
    """
    if mapping(pod, "spec").get("hostUsers") is False:
        return failures
    others = {item.name for item in constraints if item.body.get("userNamespaceLevel") == "RequirePodLevel"}
    return [item for item in failures if item.constraint not in others] or failures


def _is_restricted_enough(answer: Admission) -> bool:
    """Return True if the SCC `restricted` would admit a pod whose account cannot use this SCC."""
    return any("scc/restricted" in str(failure) for failure in answer.failures)


def _with_token(pod: Body, *, has_token: bool) -> Body:
    """Return a pod with the volume of the token that the API server adds before it asks the SCCs.

    Source: kubernetes v1.34.2 plugin/pkg/admission/serviceaccount/admission.go Plugin.mountServiceAccountToken
    """
    spec = mapping(pod, "spec")
    own = spec.get(_AUTOMOUNT)
    containers = [item for kind in ("initContainers", "containers") for item in mappings(spec.get(kind))]
    mounts = ([mount.get("mountPath") for mount in mappings(item.get("volumeMounts"))] for item in containers)
    if not (has_token if own is None else own) or all(_TOKEN_PATH in paths for paths in mounts):
        return pod
    volume = {"name": _TOKEN, "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    return {**pod, "spec": {**spec, "volumes": [*mappings(spec.get("volumes")), volume]}}


def _without_token(pod: Body) -> Body:
    spec = mapping(pod, "spec")
    volumes = [item for item in mappings(spec.get("volumes")) if item.get("name") != _TOKEN]
    return {**pod, "spec": {**spec, "volumes": volumes}} if "volumes" in spec else pod
