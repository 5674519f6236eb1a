"""trainjob/*: TrainJobs that RBAC, admission policies, Trainer, JobSet, Kueue, Pod Security or quotas reject.

Only `mpigen check-job` runs these checks, because they depend on the user and on the other jobs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

from generator.checks.compiled import COMPILED, RUNTIME, UNKNOWN, judge_compiled, of_fault
from generator.checks.finding import Located
from generator.checks.registry import ERROR, INFO, WARNING, Breach, Check, declare
from generator.checks.schema import schema_breaches
from generator.checks.standing import Present, Standing
from generator.checks.submitters import reject_all
from generator.checks.trainjob import dropped_field, empty_value
from generator.documents.load import Path
from generator.errors import DocumentError, NotModelledError, Problem, SimulationError
from generator.facts.names import OWNER
from generator.facts.references import PODS, Kind, kinds_with_names_of
from generator.manifests import Body, Head, Manifest, Needed, read
from generator.objects.fields import mapping, mappings, string, strings
from generator.objects.namespace import is_namespace, is_openshift
from generator.objects.queue import LocalQueue
from generator.objects.training import DEFAULT_QUEUE, GROUP, KUEUE, QUEUE, TrainJob, queue_of
from generator.schemas.embedded import Engine
from generator.upstream.compile import Compiled, Fault, compile_job, find_faults, find_runtime, read_priorities
from generator.upstream.kubernetes.access import AccessRequest, Requester
from generator.upstream.kubernetes.admission_policies.judge import judge
from generator.upstream.kubernetes.admission_policies.places import find_place
from generator.upstream.kubernetes.admission_policies.policy import PolicyCluster
from generator.upstream.kubernetes.admission_policies.request import Request, UserInfo, as_stored
from generator.upstream.kubernetes.limit_range import find_limit_violations
from generator.upstream.kubernetes.pod_security import find_violations, read_level
from generator.upstream.kubernetes.resource_quota import Refusal, read_ledger
from generator.upstream.kueue.podsets import find_broken_bounds, podsets, read_pod_context
from generator.upstream.kueue.present import read_present
from generator.upstream.kueue.queues import QueueTree, read_queue_tree
from generator.upstream.kueue.webhook import (
    find_empty_queue,
    find_exceeded_limits,
    find_topology_conflicts,
    set_queue,
)
from generator.upstream.kueue.workloads import Job, Outcome, State
from generator.upstream.openshift.scc.admit import required_constraint
from generator.upstream.openshift.scc.decide import Answer, Constraints, PodDecision

_RBAC = "rbac.authorization.k8s.io"
_PRIORITY = f"{KUEUE}/priority-class"
_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")  # in every cluster
_NAME: Path = ("metadata", "name")
_QUEUE: Path = ("metadata", "labels", QUEUE)
_RUNTIME: Path = ("spec", "runtimeRef", "name")


@dataclass(slots=True)
class Submission:
    """A TrainJob that a user submits, and the predicted result.

    Attributes:
        job: the TrainJob.
        queue: the name of its ClusterQueue; empty if there is none.
        compiled: the objects that controllers create for the TrainJob; None if the API server, Trainer or
            Kueue rejects the TrainJob, if no file has its runtime, or if mpigen cannot predict the objects.
        outcome: the outcome in Kueue; None if the TrainJob does not reach Kueue, or if the outcome is unknown.
        breaches: the reasons why the TrainJob does not run, and the questions that mpigen cannot answer.
        of_pods: the reasons why JobSet or the API server rejects objects of the TrainJob after Kueue admits it, and the
            questions about its pods that mpigen cannot answer.
        constraints: the SCCs of OpenShift that admit its pods, in alphabetical order; empty on Kubernetes.
        is_invalid: True if the API server or a webhook rejects the request, apart from RBAC and policies.
        is_of_known_namespace: False if the files are complete, and have no Namespace of the TrainJob.
        is_clear: False if an unknown answer can change the verdict. Without a user, RBAC and policies do not count.
        standing: where it stands in the cluster as it is; None if this is unknown, or if Kueue never admits it.
    """

    job: Manifest
    queue: str = ""
    compiled: Compiled | None = None
    outcome: Outcome | None = None
    breaches: list[Breach] = field(default_factory=list)
    of_pods: list[Breach] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    is_invalid: bool = False
    is_clear: bool = True
    is_of_known_namespace: bool = True
    standing: Standing | None = None

    @property
    def verdict(self) -> str:
        """`rejected`, `unknown`, or the state in Kueue: `admitted`, `waits` or `never`."""
        rejections = {breach.check for breach in self.breaches if breach.severity is not WARNING}
        if not self.is_created or "trainjob/rejected" in rejections:
            return "rejected"
        if self.is_stuck and not (self.outcome and self.outcome.state is State.NEVER):
            return "rejected"
        return self.outcome.state.value if self.outcome and self.is_clear else "unknown"

    @property
    def is_stuck(self) -> bool:
        """True if JobSet or the API server rejects objects of the TrainJob: it holds its quota, and never runs."""
        return any(breach.severity in (None, ERROR) for breach in self.of_pods)

    @property
    def is_created(self) -> bool:
        """False if the API server rejects the TrainJob, so that it takes no quota."""
        rejections = {breach.check for breach in self.breaches if breach.severity is not WARNING}
        return not (self.is_invalid or rejections & {"trainjob/forbidden", "trainjob/denied"})

    @property
    def located(self) -> Iterator[Located]:
        """The breaches, each with its object. The API server never decides about pods of a TrainJob that it rejects."""
        rejections = {breach.check for breach in self.breaches if breach.severity is not WARNING}
        is_rejected = self.is_invalid or "trainjob/denied" in rejections
        undecided = ("trainjob/unknown", "trainjob/rejected") if is_rejected else ()
        of_pods = (breach for breach in self.of_pods if breach.check not in undecided)
        return ((self.job, breach) for breach in (*self.breaches, *of_pods))


_OF_JOBS = (("", "ConfigMap"), ("networking.k8s.io", "NetworkPolicy"), (GROUP, "TrainingRuntime"))
"""The kinds of the objects that `mpigen job new` prints before TrainJobs."""


class Submitted(NamedTuple):
    """The TrainJobs of files, and the other objects that users create with them."""

    jobs: list[Manifest]
    others: list[Manifest]


def read_jobs(texts: Mapping[str, bytes], namespace: str) -> Submitted:
    """Read the TrainJobs of files, each with a name and a namespace, as the API server stores them.

    Args:
        texts: file → its text.
        namespace: the namespace of objects that set none.

    Raises:
        DocumentError: a text cannot be parsed, has no TrainJob, or has an object of a kind that `mpigen job new` never
            prints; or two TrainJobs have the same name and namespace.
    """
    fix = "name files with TrainJobs only, and all other objects with --release"
    problems: list[Problem] = []
    jobs: dict[str, Manifest] = {}
    others: list[Manifest] = []
    for file, text in texts.items():
        objects = list(read(text, file))
        if not objects:
            problems.append(Problem("the file has no TrainJob", fix, file))
        for item in objects:
            if _is_of_job(item):
                others.append(_stored(item, namespace, 0))
                continue
            if not _is_job(item):
                problems.append(Problem(f"{item.resource} is not a TrainJob", fix, file))
                continue
            job = _stored(item, namespace, len(jobs))
            if _id(job) in jobs:
                problems.append(Problem(f"there are two TrainJobs `{_id(job)}`", "rename one of them", file))
            jobs[_id(job)] = job
    if others and not (jobs or problems):
        problems += [Problem("the file has no TrainJob", fix, file) for file in texts]
    if problems:
        raise DocumentError(tuple(problems))
    return Submitted([*jobs.values()], others)


def _is_job(item: Manifest) -> bool:
    return (item.group, item.kind) == (GROUP, "TrainJob")


def _is_of_job(item: Manifest) -> bool:
    return (item.group, item.kind) in _OF_JOBS


def _stored(item: Manifest, namespace: str, number: int) -> Manifest:
    """Return an object with a namespace, and with a name if it only has a `generateName`."""
    metadata = mapping(item.body, "metadata")
    name = item.name or f"{string(metadata.get('generateName'))}{number:05}"
    return replace(item, body={**item.body, "metadata": {"namespace": namespace, **metadata, "name": name}})


@dataclass(frozen=True, slots=True)
class Destination:
    """The cluster to which a user submits TrainJobs.

    Attributes:
        world: the objects of the cluster, such as a release.
        targets: component → minor version; empty for the newest.
        requester: the user; None to leave out RBAC, and to evaluate policies for the TrainJob's owner without groups.
        namespace: the namespace of TrainJobs that set none.
        is_complete: True if `world` has all objects of a release, so that an absent runtime is an error.
        usage: an export of the cluster as it is, with its Workloads; None if no other job runs.
        created: the objects that the user creates before the TrainJobs. They are in `world` too.
    """

    world: Sequence[Manifest]
    targets: Mapping[str, str] = field(default_factory=dict)
    requester: Requester | None = None
    namespace: str = "default"
    is_complete: bool = False
    usage: Sequence[Manifest] | None = None
    created: Sequence[Manifest] = ()


def select_objects(namespaces: Collection[str], texts: Collection[bytes]) -> Needed:
    """Return a predicate that selects the objects that affect TrainJobs in some namespaces.

    Most objects of a large release are in the namespaces of other teams, and do not affect these TrainJobs.

    Args:
        namespaces: the namespaces of the TrainJobs.
        texts: the YAML texts of the cluster. A policy in these texts can read RBAC permissions of any namespace, and
            Namespaces as its parameters. The labels of any Namespace can show that the cluster is OpenShift.
    """
    policies = [text for text in texts if b"ValidatingAdmissionPolicy" in text]
    authorizing = [text for text in policies if b"authorizer" in text]
    parameterized = [text for text in policies if b"paramKind" in text]
    local = _LOCAL if any(map(_OTHER_NAMESPACE.search, authorizing)) else _LOCAL | _GRANTS
    mark = next(filter(None, map(_OPENSHIFT.search, texts)), None)
    has_other_mark = mark is None and any(b"openshift.io" in text and _NAMESPACE.search(text) for text in texts)
    if not (has_other_mark or any(map(_NAMESPACE.search, parameterized))):
        local = local | {"Namespace"}
    needed = {Head("Namespace", mark[1].decode())} if mark else set[Head]()
    verbs = {verb.decode() for text in authorizing for verb in _CHECKED_VERB.findall(text)}
    is_read = verbs & {"", *_READING} or any(b"ClusterRoleBinding" in text for text in parameterized)
    readers = frozenset[str]() if is_read else _find_readers(namespaces, texts)
    return lambda head: (
        head.role not in readers
        if head.role
        else head.namespace in namespaces or head.kind not in local or head in needed
    )


_LOCAL = frozenset(
    {"CiliumNetworkPolicy", "LimitRange", "LocalQueue", "NetworkAttachmentDefinition", "NetworkPolicy"}
) | {
    "ResourceQuota",
    "ServiceAccount",
}
"""Namespaced kinds that affect only TrainJobs of their namespace."""


def _find_readers(namespaces: Collection[str], texts: Collection[bytes]) -> frozenset[str]:
    """Return the ClusterRoles that grant only `get`, `list` and `watch`.

    Their ClusterRoleBindings decide nothing about TrainJobs, unless a policy calls `authorizer` for one of these verbs.
    The result is empty without a RoleBinding in the namespaces: without any grant, the rights of users are unknown.
    """
    names = b"|".join(re.escape(name.encode()) for name in namespaces)
    binding = re.compile(rb"\nkind: RoleBinding\nmetadata:\n  name: [^\n]+\n  namespace: (?:%s)\n" % names)
    if not any(map(binding.search, texts)):
        return frozenset()
    roles: list[Manifest] = []
    for text in texts:
        if b"\nkind: ClusterRole\n" in text:
            with suppress(DocumentError):  # the reader of all texts reports it
                roles += (item for item in read(text, "") if item.kind == "ClusterRole")
    return frozenset(role.name for role in roles) - {role.name for role in roles if not _only_reads(role.body)}


def _only_reads(role: Body) -> bool:
    verbs = {verb for rule in mappings(role.get("rules")) for verb in strings(rule.get("verbs"))}
    return verbs <= _READING and not role.get("aggregationRule")


_READING = frozenset({"get", "list", "watch"})
_CHECKED_VERB = re.compile(rb"\bcheck\s*\((?:\\?[\"'](\w+)\\?[\"']\))?")
"""A call in CEL such as `check('update')`, with its verb; without a verb for a call in another form."""
_GRANTS = {"Role", "RoleBinding"}
_OTHER_NAMESPACE = re.compile(rb"namespace\s*\((?!request\.namespace\))")
"""A CEL expression that reads RBAC of a fixed namespace: `authorizer.group('apps')….namespace('default')`."""
_NAMESPACE = re.compile(rb"\bNamespace\b")
_OPENSHIFT = re.compile(
    rb"(?:\A|\n)apiVersion: v1\nkind: Namespace\nmetadata:\n  name: ([a-z][a-z0-9-]*)\n  labels:\n"
    rb"(?:    [\w./-]+: [^\n]*\n)*?    [\w.-]*openshift\.io/"
)
"""A Namespace with a label of OpenShift, in the form that mpigen writes."""


def select_near(world: Sequence[Manifest], namespaces: Collection[str]) -> list[Manifest]:
    """Return the objects that checks of TrainJobs in some namespaces read, without RBAC and other Namespaces.

    If only another object shows that the cluster is OpenShift, the result includes this object.
    """
    near = [item for item in world if item.group != _RBAC and not (is_namespace(item) and item.name not in namespaces)]
    mark = next((item for item in world if is_openshift([item])), None)  # an object that only OpenShift has
    return near if mark is None or is_openshift(near) else [*near, mark]


_QUOTA_OF_JOBS = frozenset(
    f"quota/{rule}" for rule in ("missing-priority", "missing-queue", "never-admitted", "too-many-hosts")
)
"""The rules of the family `quota` that report TrainJobs. The other rules report queues, and need all queues."""


JUDGED = (
    *(COMPILED, "policy/rejects-own-object", "trainjob/limit-range", "trainjob/pod-security"),
    *("runtime/limit-range", "runtime/pod-security", "runtime/security-context-constraints"),
)
"""Rules that `check-job` leaves out: `submit` reports the same mistakes, for the named user and for all pods."""


def can_report_jobs(check: Check) -> bool:
    """Return True if a rule of mpigen can report a TrainJob.

    The result is False for a rule that reports only queues, and for a rule about references of which neither TrainJobs
    nor pods have any.
    """
    if check.family == "quota":
        return check.id in _QUOTA_OF_JOBS
    kinds = kinds_with_names_of(check.id)
    return not kinds or bool({Kind(GROUP, "TrainJob"), Kind("", PODS)} & {*kinds})


def submit(jobs: Sequence[Manifest], destination: Destination, engine: Engine) -> list[Submission]:
    """Return the results of TrainJobs that a user submits in this order.

    Args:
        jobs: the TrainJobs.
        destination: the cluster and the user.
        engine: the schemas of the target versions.

    Raises:
        SimulationError: an object of the cluster is invalid: an amount is not a quantity, or two objects of one name
            differ.
    """
    world, catalog = destination.world, engine.catalog
    cluster, tree = PolicyCluster(world, catalog), read_queue_tree(world, catalog.targets["kueue"])
    constraints = Constraints.read(world, is_complete=destination.is_complete) if is_openshift(world) else None
    submissions = [Submission(job, is_invalid=_is_invalid(job, engine)) for job in jobs]
    namespaces = {*_NAMESPACES, *(item.name for item in world if item.kind == "Namespace")}
    for submission in submissions:
        is_absent = destination.is_complete and submission.job.namespace not in namespaces
        if is_absent:
            question = f"if the namespace exists: these files define no Namespace `{submission.job.namespace}`"
            unknown = _unknown(question, "correct the namespace, or add the Namespace to the files")
            submission.breaches.append(replace(unknown, path=("metadata", "namespace")))
            submission.is_of_known_namespace = False
        copied = _created_runtime(submission.job, destination)
        if destination.requester:
            for item in (*copied, submission.job):
                submission.breaches += _find_missing_permission(item, cluster, destination.requester)
        submission.is_clear = all(breach.check != "trainjob/unknown" for breach in submission.breaches)
        if not (submission.is_invalid or is_absent):  # the API server evaluates policies after the schema
            request = _request(submission.job, cluster, tree, destination.requester)
            creations = (_creation(runtime, cluster, destination.requester) for runtime in copied)
            _judge_requests(submission, [*creations, request], cluster, destination.requester)
            _compile(submission, request, destination, catalog.targets)
            if submission.compiled:
                located = judge_compiled(submission.compiled, catalog.targets, is_verdict=True)
                submission.of_pods += (breach for _, breach in located)
                submission.of_pods += _find_broken_pods(submission, destination, catalog.targets, constraints)
                submission.is_clear &= all(breach.check != "trainjob/unknown" for breach in submission.of_pods)
    ledgers = _Ledgers(world, catalog.targets["kubernetes"])
    for submission in submissions:
        ledgers.charge_objects(submission)
    _queue(submissions, destination, tree)
    for submission in submissions:
        ledgers.charge_pods(submission)
    return submissions


def _is_invalid(job: Manifest, engine: Engine) -> bool:
    return any(not breach.check.startswith("schema/deprecated-") for breach in schema_breaches(job, engine))


class _Ledgers:
    """The ResourceQuotas of all namespaces, with their usage by earlier TrainJobs, and the LimitRanges."""

    def __init__(self, world: Sequence[Manifest], minor: str) -> None:
        """Prepare the reading of a namespace: its objects are read for its first TrainJob."""
        self._of = cache(lambda namespace: read_ledger(world, namespace, minor))
        self._ranges_of = cache(
            lambda namespace: [item for item in world if (item.kind, item.namespace) == ("LimitRange", namespace)]
        )

    def charge_objects(self, submission: Submission) -> None:
        """Report a ResourceQuota that rejects the TrainJob, or an object that Trainer or JobSet creates for it."""
        job, compiled = submission.job, submission.compiled
        if not submission.is_created:
            return
        try:
            ledger = self._of(job.namespace)
            if refusal := ledger.charge(job.body):
                submission.breaches.append(_refused(refusal, "the TrainJob", "the API server rejects the TrainJob"))
                submission.is_invalid = True
                return
            for body in (*compiled.others, compiled.job_set, *(body for _, body in compiled.jobs)) if compiled else ():
                if refusal := ledger.charge(body):
                    why = "Kueue admits the TrainJob, but the API server rejects an object that its pods need"
                    submission.breaches.append(_refused(refusal, f"the {body['kind']} of the TrainJob", why))
                    return
        except SimulationError as error:
            submission.breaches.append(
                _unknown("if the ResourceQuotas accept the objects of the TrainJob", error=error)
            )
            submission.is_clear = False

    def charge_pods(self, submission: Submission) -> None:
        """Report a LimitRange that rejects pods of a TrainJob; if Kueue admits the TrainJob, also a ResourceQuota."""
        state = submission.outcome.state if submission.outcome else None
        is_rejected = submission.is_stuck or "trainjob/rejected" in {breach.check for breach in submission.breaches}
        if not (submission.compiled and submission.is_created) or is_rejected or state is State.NEVER:
            return
        if breach := self._find_exceeded_limit(submission.compiled):
            submission.of_pods.append(breach)
            return
        if state is not State.ADMITTED:
            return
        try:
            ledger = self._of(submission.job.namespace)
            refusals = [refusal for _, pod in submission.compiled.pods if (refusal := ledger.charge(pod))]
        except SimulationError as error:
            submission.of_pods.append(_unknown("if the ResourceQuotas accept the pods of the TrainJob", error=error))
            submission.is_clear = False
            return
        if refusals:
            subject = f"{len(refusals)} of {len(submission.compiled.pods)} pods"
            submission.of_pods.append(_refused(refusals[0], subject, _NO_PODS))

    def _find_exceeded_limit(self, compiled: Compiled) -> Breach | None:
        """Return the breach if the LimitRanges of the namespace reject pods; None if they accept all pods."""
        ranges = self._ranges_of(compiled.job.namespace)
        for number, pod in sorted(dict(reversed(compiled.pods)).items()) if ranges else ():
            try:
                violations = find_limit_violations(pod, ranges)
            except ValueError:  # a schema rejects the amount
                continue
            if violations:
                role = mapping(compiled.job_set, "spec")["replicatedJobs"][number]["name"]
                origin = compiled.origin("Pod", number, (*violations[0].path, "resources"))
                is_own = origin is not None and origin.manifest.kind == compiled.job.kind
                return Breach(
                    origin.path if origin and is_own else ("spec", "trainer"),
                    f"a LimitRange rejects the pods `{role}`: {', '.join(map(str, violations))}",
                    _NO_PODS,
                    "set `resourcesPerNode` within the bounds of the LimitRange, or use another runtime",
                    check="trainjob/rejected",
                )
        return None


_NO_PODS = "Kueue admits the TrainJob, but the API server rejects its pods"


def _refused(refusal: Refusal, subject: str, why: str) -> Breach:
    fix = (
        "set the named requests and limits in all containers of the runtime, or set defaults in a LimitRange"
        if refusal.is_unspecified
        else "submit a smaller job, delete finished jobs, or raise the ResourceQuota"
    )
    path: Path = ("spec", "trainer")
    return Breach(path, f"a ResourceQuota rejects {subject}: {refusal.message}", why, fix, check="trainjob/rejected")


def _judge_requests(
    submission: Submission, requests: Sequence[Request], cluster: PolicyCluster, requester: Requester | None
) -> None:
    """Report the admission policies that reject the requests with which a user submits a TrainJob."""
    is_forbidden = any(breach.check == "trainjob/forbidden" for breach in submission.breaches)
    try:
        for request in requests:
            submission.breaches += _find_denials(request, cluster, requester, is_forbidden=is_forbidden)
    except SimulationError as error:
        submission.breaches.append(_unknown("if the admission policies accept this TrainJob", _DRY_RUN, error))
        submission.is_clear = False


def _find_denials(
    request: Request, cluster: PolicyCluster, requester: Requester | None, *, is_forbidden: bool
) -> Iterator[Breach]:
    """Yield a breach for each admission policy that rejects the request of a user, or warns about the request.

    If no user is named and the decision depends on the user, the breach is a question that mpigen cannot answer. If
    RBAC forbids the request (`is_forbidden`), no breach is about a policy that reads the user: the answer of the policy
    changes with the user who may submit the TrainJob.

    Raises:
        SimulationError: the files do not have all that the policies read.
    """
    noun = request.kind.kind
    is_job = noun == "TrainJob"
    policies = {policy.name: policy for policy in cluster.policies if not (is_forbidden and policy.reads_user)}
    decisions = judge(request, cluster, [*policies.values()])
    by_user = {} if requester else {name: policy for name, policy in policies.items() if policy.reads_user}
    for decision in decisions:
        is_rejected = not decision.holds and "Deny" in decision.actions
        if is_rejected and decision.policy in by_user and not reject_all(by_user[decision.policy], request, cluster):
            question = f"if the policy `{decision.policy}` accepts the {noun}, because the policy reads the user"
            yield _unknown(f"{question}: {decision.message}", "name the user with `--as` and `--group`")
        elif not decision.holds and {"Deny", "Warn"} & {*decision.actions}:
            is_denied = "Deny" in decision.actions
            yield Breach(
                (find_place(policies[decision.policy], decision, request, cluster) or _NAME) if is_job else _RUNTIME,
                f"the policy `{decision.policy}` {'rejects' if is_denied else 'warns about'} the {noun}: "
                f"{decision.message}",
                f"the API server rejects the {noun}" if is_denied else "the user gets this warning from the API server",
                f"change the {noun} as the message of the policy requires",
                severity=ERROR if is_denied else WARNING,
                check="trainjob/denied",
            )


def _created_runtime(job: Manifest, destination: Destination) -> list[Manifest]:
    """Return the TrainingRuntime of a TrainJob, if the user creates it before the TrainJob."""
    reference = mapping(job.body, "spec", "runtimeRef")
    key = (string(reference.get("kind")), string(reference.get("name")), job.namespace)
    return [item for item in destination.created if (item.kind, item.name, item.namespace) == key]


def _find_missing_permission(item: Manifest, cluster: PolicyCluster, requester: Requester) -> Iterator[Breach]:
    """Report a TrainJob, or the runtime that a user creates for it, which the user has no right to create."""
    kinds = f"{item.kind}s"
    request = AccessRequest("create", GROUP, kinds.lower(), namespace=item.namespace)
    if cluster.access.allowed(requester, request):
        return
    user = requester.user or ", ".join(sorted(group for group in requester.groups if not group.startswith("system:")))
    if gaps := [*cluster.access.gaps(requester, item.namespace)]:
        yield _unknown(f"if `{user}` may create {kinds} in `{item.namespace}`: {gaps[0]}", _DRY_RUN)
        return
    has_groups = any(not group.startswith("system:") for group in requester.groups)
    fix = f"submit the {item.kind} in a namespace of your team, or add the user or a group to `access` of the tenant"
    yield Breach(
        ("metadata", "namespace"),
        f"`{user}` may not create {kinds} in namespace `{item.namespace}`",
        f"the API server rejects the {item.kind}: 403 Forbidden",
        fix if has_groups else f"pass the groups of `{user}` with `--group`, {fix}",
        check="trainjob/forbidden",
    )


def _creation(item: Manifest, cluster: PolicyCluster, requester: Requester | None) -> Request:
    """Return the request to create an object that no webhook changes."""
    kind = cluster.kind(item.api_version, item.kind)
    user = UserInfo(requester.user, tuple(sorted(requester.groups))) if requester else UserInfo("tester")
    body = as_stored(item.body, item.namespace, kind)
    return Request("CREATE", kind, body, None, user, item.namespace, item.name)


def _request(job: Manifest, cluster: PolicyCluster, tree: QueueTree, requester: Requester | None) -> Request:
    """Return the request to create a TrainJob, with the queue that Kueue's webhook sets before policies read it."""
    kind = cluster.kind(job.api_version, job.kind)
    has_default = any((item.namespace, item.name) == (job.namespace, DEFAULT_QUEUE) for item in tree.local_queues)
    body = set_queue(as_stored(job.body, job.namespace, kind), has_default=has_default)
    owner = string(mapping(body, "metadata", "annotations").get(OWNER), "tester")
    user = UserInfo(requester.user, tuple(sorted(requester.groups))) if requester else UserInfo(owner)
    return Request("CREATE", kind, body, None, user, job.namespace, job.name)


def _compile(submission: Submission, request: Request, destination: Destination, targets: Mapping[str, str]) -> None:
    """Compute the objects that controllers create for a TrainJob, or report why they create none."""
    job, world = submission.job, destination.world
    runtime = find_runtime(job, world)
    if isinstance(runtime, Fault):  # `trainjob/missing-runtime` reports it
        submission.is_invalid = destination.is_complete
        return
    stored = replace(job, body=mapping(request.object))  # with the default queue
    faults = [*find_faults(stored, runtime, targets), *find_empty_queue(stored)]
    submission.is_invalid = any(fault.is_at_creation and not fault.is_unknown for fault in faults)
    if not faults:
        compiled = compile_job(job, runtime, targets, read_priorities(world))
        faults = [*find_topology_conflicts(compiled.job_set, runtime)]
        submission.is_invalid = bool(faults)
        submission.compiled = None if faults else compiled
    submission.breaches += (of_fault(fault, job) for fault in faults)
    if submission.compiled:
        trainjob = TrainJob(mapping(request.object))
        immutable = [
            breach for breach in (*empty_value(trainjob), *dropped_field(trainjob)) if breach.severity is ERROR
        ]
        submission.breaches += (replace(breach, check="trainjob/rejected") for breach in immutable)


def _find_broken_pods(
    submission: Submission, destination: Destination, targets: Mapping[str, str], constraints: Constraints | None
) -> Iterator[Breach]:
    """Yield the reasons why the API server rejects the pods of a TrainJob that Kueue admits.

    Also yield the questions about these pods that mpigen cannot answer.
    """
    compiled = submission.compiled
    if compiled is None:
        return
    namespace = compiled.job.namespace
    absent: Body = {"metadata": {"name": namespace}}
    home = next((item.body for item in destination.world if is_namespace(item) and item.name == namespace), absent)
    for number, pod in sorted(dict(reversed(compiled.pods)).items()):  # one pod of each replicated job
        role = mapping(compiled.job_set, "spec")["replicatedJobs"][number]["name"]
        if constraints is None:
            yield from _find_insecure_pods(_Role(compiled, number, role), pod, home, targets, "")
            continue
        decision = constraints.decide(pod, constraints.find_situation(home, _account(pod)))
        yield from _find_rejection(_Role(compiled, number, role), pod, decision)
        if decision.answer is not Answer.REJECTED:
            submission.constraints = sorted({*submission.constraints, decision.constraint} - {""})
            doubt = f"if another SCC admits them, because {decision.doubt}" if decision.doubt else ""
            subject = pod if doubt else decision.pod
            yield from _find_insecure_pods(_Role(compiled, number, role), subject, home, targets, doubt)
    if not destination.is_complete:
        return
    known = {item.name for item in destination.world if (item.kind, item.namespace) == ("ServiceAccount", namespace)}
    accounts = {_account(pod) for _, pod in compiled.pods}
    for name in sorted(accounts - known - {"default"}):
        question = f"if the pods start: these files define no ServiceAccount `{name}` in namespace `{namespace}`"
        yield _unknown(question, "add the ServiceAccount to the files")


def _account(pod: Body) -> str:
    return string(mapping(pod, "spec").get("serviceAccountName"), "default")


@dataclass(frozen=True, slots=True)
class _Role:
    """The pods of a replicated job: the compiled TrainJob, the index of the replicated job, and its name."""

    compiled: Compiled
    number: int
    name: str

    def find_place(self, path: Path) -> Path:
        """Return the path in the TrainJob that sets a field of the pods; `runtimeRef` if the runtime sets the field."""
        origin = self.compiled.origin("Pod", self.number, path)
        is_own = origin is not None and origin.manifest.kind == self.compiled.job.kind
        return origin.path if origin and is_own else RUNTIME


def _find_rejection(role: _Role, pod: Body, decision: PodDecision) -> Iterator[Breach]:
    """Yield an error if the SCCs of OpenShift reject the pods, or an info if mpigen cannot decide."""
    if decision.answer is Answer.UNKNOWN:
        question = f"if OpenShift admits the pods `{role.name}`, because {decision.doubt}"
        reasons = f"; if not, the reason is: {decision.describe(role.name)}" if decision.failures else ""
        yield _unknown(f"{question}{reasons}", "submit the TrainJob, and read the events of its Jobs")
    if decision.answer is Answer.REJECTED:
        places = [role.find_place(failure.path) for failure in decision.failures]
        path = next((place for place in places if place != RUNTIME), RUNTIME)
        fix = "use another runtime" if path == RUNTIME else "change this field as the message requires"
        if not required_constraint(pod):
            fix = f"{fix}, or let ServiceAccount `{decision.account}` use an SCC that admits the pods"
        yield Breach(path, decision.describe(role.name), _NO_PODS, fix, check="trainjob/rejected")


def _find_insecure_pods(
    role: _Role, pod: Body, namespace: Body, targets: Mapping[str, str], doubt: str
) -> Iterator[Breach]:
    """Yield the violations of the Pod Security level that the Namespace enforces.

    Args:
        role: the pods.
        pod: one of the pods. On OpenShift, an SCC has set its absent fields.
        namespace: the Namespace; without labels if no file defines it.
        targets: component → minor version.
        doubt: why another SCC can set the absent fields; empty if no other SCC can.
    """
    level, minor = read_level(namespace), int(targets["kubernetes"].partition(".")[2])
    by_path: dict[Path, list[str]] = {}
    violations = find_violations(pod, level, minor)
    if doubt and (unset := next((violation for violation in violations if violation.is_unset), None)):
        question = f'if the pods `{role.name}` meet PodSecurity "{level}" {doubt}'
        yield _unknown(f"{question}: {unset}", "set these fields in the runtime")
    for violation in violations:
        if not (violation.is_unset and doubt):
            by_path.setdefault(role.find_place(violation.path), []).append(str(violation))
    for path, texts in by_path.items():
        message = f'the pods `{role.name}` violate PodSecurity "{level}": {", ".join(texts)}'
        fix = "use another runtime" if path == RUNTIME else "remove this field, or change it as the message requires"
        yield Breach(path, message, _NO_PODS, fix, check="trainjob/rejected")


_DRY_RUN = "test the TrainJob on a cluster: `kubectl create --dry-run=server`"


def _unknown(question: str, fix: str = "", error: SimulationError | None = None) -> Breach:
    """Return the breach for a question, such as `if Kueue admits the TrainJob`, that only the cluster can answer.

    If `error` is set, it has the reason, and takes precedence over `fix`.
    """
    reason = f": {error.problems[0].message}" if error else ""
    fix = (error.problems[0].fix if error else "") or fix or "submit the TrainJob, and read its events"
    return Breach(
        _NAME, f"mpigen cannot decide {question}{reason}", UNKNOWN, fix, severity=INFO, check="trainjob/unknown"
    )


def _queue(submissions: Sequence[Submission], destination: Destination, tree: QueueTree) -> None:
    """Predict the outcome of each TrainJob in Kueue, in this order.

    A TrainJob whose pods the API server rejects takes quota too.
    """
    world = destination.world
    queues = {(local.namespace, local.name): local for local in tree.local_queues}
    steps = {}
    for submission in submissions:
        local = queues.get((submission.job.namespace, queue_of(submission.job)))
        if submission.compiled is None or not submission.is_created:
            continue
        if (
            local is None
            and QUEUE not in mapping(submission.job.body, "metadata", "labels")
            and not tree.settings.manages_all
        ):
            reason = "the TrainJob names no queue, so Kueue ignores it, and the TrainJob runs without quota"
            submission.outcome = Outcome(State.ADMITTED, reason=reason)
            continue
        if reason := _find_inadmissible(submission, destination, tree):
            submission.breaches.append(_never(reason))
            submission.outcome = Outcome(State.NEVER, reason=reason)
            continue
        if local is None or local.stop_policy != "None":
            reason, fix = _describe_closed(submission.job, local, queues)
            submission.breaches.append(_never(reason, fix))
            submission.outcome = Outcome(State.NEVER, reason=reason)
            continue
        submission.queue = local.queue
        if absent := "" if destination.is_complete else _find_absent_kind(tree):
            question = f"if Kueue admits the TrainJob: these files have no {absent}"
            submission.breaches.append(_unknown(question, f"name files with the {absent}s in --release"))
            continue
        try:
            steps[_id(submission.job)] = _job(submission, submission.compiled.job_set, world, tree)
        except SimulationError as error:
            submission.breaches.append(_unknown("if Kueue admits the TrainJob", error=error))
    if steps:
        queued = [submission for submission in submissions if _id(submission.job) in steps]
        _predict(queued, steps, destination, tree)


def _find_absent_kind(tree: QueueTree) -> str:
    """Return the kind of Kueue of which files have no object, such as an export that the user may not read."""
    kinds = {"ClusterQueue": tree.queues, "ResourceFlavor": tree.flavors}
    return next((kind for kind, objects in kinds.items() if not objects), "")


def _find_inadmissible(submission: Submission, destination: Destination, tree: QueueTree) -> str:
    """Return why Kueue never admits a TrainJob, whatever its queue; empty if Kueue may admit the TrainJob.

    Source: kueue v0.19.2 pkg/workload/resources.go ValidateAdmissibility
    """
    job, job_set = submission.job, submission.compiled.job_set if submission.compiled else {}
    name = mapping(job.body, "metadata", "labels").get(_PRIORITY)
    if name and destination.is_complete and not _priority_classes(str(name), destination.world):
        return f"the cluster has no WorkloadPriorityClass `{name}`"
    if exceeded := next(find_exceeded_limits(job_set), ""):
        return exceeded
    try:
        context = read_pod_context(destination.world, job.namespace, tree.settings.counting)
        return next(map(str, find_broken_bounds(_template(job, job_set), context)), "")
    except SimulationError:  # `_job` reports it
        return ""


def _template(job: Manifest, job_set: Body) -> Body:
    return {"kind": "TrainJob", "metadata": job.body["metadata"], "spec": {"template": job_set}}


def _predict(
    submissions: Sequence[Submission], steps: Mapping[str, Job], destination: Destination, tree: QueueTree
) -> None:
    strategies = tree.settings.strategies if tree.settings.is_fair else ()
    world, usage = destination.world, destination.usage
    queues = {submission.queue for submission in submissions}
    try:
        workloads = read_present(usage, world, tree, queues, steps.keys()) if usage is not None else ()
        present = Present(tree, strategies, world, workloads)
        outcomes = present.submit([*steps.values()])
        jobs = [*steps.values()]
        for number, submission in enumerate(submissions if usage is not None else ()):
            if outcomes[jobs[number].name].state is not State.NEVER:
                runtime = find_runtime(submission.job, world)
                submission.standing = present.stand(
                    jobs[: number + 1], outcomes, runtime if isinstance(runtime, Manifest) else None
                )
    except NotModelledError as error:
        for submission in submissions:
            submission.breaches.append(_unknown("if Kueue admits the TrainJob", error=error))
        return
    for submission in submissions:
        submission.outcome = outcomes[_id(submission.job)]
        if submission.outcome.state is State.NEVER:
            submission.breaches.append(_never(submission.outcome.reason))


def _describe_closed(
    job: Manifest, local: LocalQueue | None, queues: Mapping[tuple[str, str], LocalQueue]
) -> tuple[str, str]:
    """Return why the LocalQueue of a TrainJob accepts no TrainJob, and the fix.

    Args:
        job: the TrainJob.
        local: the LocalQueue; None if it does not exist.
        queues: (namespace, name) → LocalQueue.
    """
    name = queue_of(job)
    if local is None:
        others = sorted(name for namespace, name in queues if namespace == job.namespace)
        fix = (
            f"set the label `{QUEUE}` to one of: {', '.join(others)}" if others else "use a namespace with a LocalQueue"
        )
        return f"the namespace `{job.namespace}` has no LocalQueue `{name}`", fix
    return f"the LocalQueue `{name}` has `stopPolicy: {local.stop_policy}`", "use another queue, or remove `stopPolicy`"


_SMALLER = "change the requests or the node selector, or use another queue: `mpigen queues` shows its largest jobs"


def _never(reason: str, fix: str = _SMALLER) -> Breach:
    return Breach(
        _QUEUE,
        f"Kueue never admits the TrainJob: {reason}",
        "the TrainJob stays suspended, also while all queues are idle, and no pod starts",
        fix,
        check="trainjob/not-admitted",
    )


def _id(job: Manifest) -> str:
    return f"{job.namespace}/{job.name}"


def _job(submission: Submission, job_set: Body, world: Sequence[Manifest], tree: QueueTree) -> Job:
    """Return the workload that Kueue creates for a TrainJob.

    Raises:
        SimulationError: an amount is not a quantity, or no file has the WorkloadPriorityClass of the TrainJob.
        NotModelledError: Kueue's configuration has a setting that mpigen does not simulate.
    """
    job = submission.job
    if not tree.settings.is_modelled:
        message = "the configuration of Kueue has transformations or a quotaCheckStrategy that mpigen does not simulate"
        raise NotModelledError((Problem(message),))
    context = read_pod_context(world, job.namespace, tree.settings.counting)
    pods = podsets(_template(job, job_set), None, context)
    return Job(_id(job), submission.queue, pods, _priority(job, job_set, world), job.namespace)


def _priority(job: Manifest, job_set: Body, world: Sequence[Manifest]) -> int:
    """Return the priority of a workload: the value of its WorkloadPriorityClass, if the TrainJob names one.

    Otherwise the priority is the value of the first PriorityClass that its pods name, else of the default
    PriorityClass of the cluster, else 0.

    Source: kueue v0.19.2 pkg/controller/jobframework/reconciler.go JobReconciler.prepareWorkload; kueue v0.19.2
    pkg/controller/jobframework/reconciler.go extractPriorityFromPodSets

    Raises:
        SimulationError: no file has the WorkloadPriorityClass that the TrainJob names.
    """
    if name := mapping(job.body, "metadata", "labels").get(_PRIORITY):
        classes = _priority_classes(str(name), world)
        if not classes:
            raise SimulationError((Problem(f"these files define no WorkloadPriorityClass `{name}`"),))
        return int(classes[0].body.get("value", 0))
    replicated_jobs = mappings(mapping(job_set, "spec").get("replicatedJobs"))
    pods = (mapping(item, "template", "spec", "template", "spec") for item in replicated_jobs)
    names = [name for pod in pods if (name := string(pod.get("priorityClassName")))]
    return read_priorities(world).get(names[0] if names else "", 0)


def _priority_classes(name: str, world: Sequence[Manifest]) -> list[Manifest]:
    return [item for item in world if (item.kind, item.name) == ("WorkloadPriorityClass", name)]


declare(
    "trainjob/forbidden",
    severity=ERROR,
    text="""Report a TrainJob that its user may not create.

    `mpigen check-job --as WHO` checks the Roles and bindings in the files. Without `create` on `trainjobs` in the
    namespace, the API server rejects the TrainJob.

    Source: kubernetes v1.34.2 plugin/pkg/auth/authorizer/rbac/rbac.go RBACAuthorizer.Authorize
    """,
)
declare(
    "trainjob/denied",
    severity=ERROR,
    text="""Report a TrainJob that an admission policy rejects.

    `mpigen check-job` evaluates every ValidatingAdmissionPolicy in the files, with its bindings, parameters and
    Namespaces, for the request of the user who submits the TrainJob. The finding is a warning if the binding only
    warns. It is at the field that the policy rejects: a field or a value that the message of the policy names, or a
    field without which the policy accepts the TrainJob.

    Source: apiserver v0.34.2 pkg/admission/plugin/policy/validating/dispatcher.go dispatcher.Dispatch
    """,
)
declare(
    "trainjob/not-admitted",
    severity=ERROR,
    text="""Report a TrainJob that Kueue never admits.

    `mpigen check-job` submits the TrainJob while all queues are idle, and decides by the rules of Kueue: the LocalQueue
    and its ClusterQueue, quotas and borrowing limits, taints, node selectors, topology and LimitRanges. The check
    does not repeat a TrainJob that `quota/never-admitted` reports.

    Source: kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go FlavorAssigner.assignFlavors
    """,
)
declare(
    "trainjob/unknown",
    severity=INFO,
    text="""Report a question about a TrainJob that mpigen cannot answer.

    The answer depends on a feature that mpigen does not simulate, or on objects that are in no file, such as the Nodes
    for a job with a required topology. mpigen does not guess. Only the cluster shows the answer.

    Source: mpigen: NotModelledError in generator/errors.py
    """,
)
