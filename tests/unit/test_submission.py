"""Test that `mpigen check-job` decides about TrainJobs as a recorded control plane did."""

from __future__ import annotations

from functools import partial

import pytest

from generator.checks.registry import Stage, Suite
from generator.checks.submission import Destination, can_report_jobs, select_objects
from generator.cli.inputs import read_cluster
from generator.manifests import Head, Manifest, read, read_needed
from generator.pipeline import check_jobs
from generator.upstream.compile import Fault, find_faults, find_runtime
from generator.upstream.kubernetes.access import parse_requester
from tests.checks import CASES, find
from tests.conftest import ROOT
from tests.verdicts import Case, disagreements, read_answers, read_verdicts


@pytest.mark.parametrize("group", read_verdicts().groups, ids=lambda group: group[0].name)
def test_mpigen_gives_the_recorded_verdict_and_cause(group: tuple[Case, ...]) -> None:
    assert [*disagreements(group, read_answers(), read_verdicts())] == []


def test_the_cases_cover_every_verdict_and_every_policy_of_the_release() -> None:
    verdicts, answers = read_verdicts(), read_answers()
    assert {case.name for group in verdicts.groups for case in group} == {*answers}
    assert {answer.verdict for answer in answers.values()} == {"admitted", "waits", "never", "rejected"}
    policies = {item.name for item in verdicts.release if item.kind == "ValidatingAdmissionPolicy"}
    reasons = " ".join(answer.reason for answer in answers.values())
    others = {"claims", "generated", "keys", "kinds", "local-queues", "reserved", "subjects", "tokens", "workloads"}
    others |= {"config-maps", "lifecycle"}  # tests/fixtures/policy-cases/pack covers them
    assert {name for name in policies if f"'{name}'" not in reasons} == {f"verdicts-{name}" for name in others}


@pytest.mark.parametrize(("version", "count"), [("2.2", 0), ("2.3", 1)])
def test_trainer_2_2_accepts_variables_that_trainer_2_3_reserves(version: str, count: int) -> None:
    verdicts = read_verdicts()
    (case,) = next(group for group in verdicts.groups if group[0].name == "reserved-variable")
    job = Manifest(case.body, "job.yaml")
    runtime = find_runtime(job, verdicts.world)
    assert not isinstance(runtime, Fault)
    assert [fault.is_at_creation for fault in find_faults(job, runtime, {"trainer": version})] == [True] * count


@pytest.mark.parametrize("version", [None, "trainer.kubeflow.org/v2", "v1"])
def test_a_job_of_an_unknown_version_is_not_compiled(version: str | None) -> None:
    verdicts = read_verdicts()
    (case,) = next(group for group in verdicts.groups if group[0].name == "reserved-variable")
    runtime = find_runtime(Manifest(case.body, "job.yaml"), verdicts.world)
    assert not isinstance(runtime, Fault)
    resources = {"requests": {"cpu": {"a": 8}}}
    body = {
        **case.body,
        "apiVersion": version,
        "spec": {**case.body["spec"], "trainer": {"resourcesPerNode": resources}},
    }
    (fault,) = find_faults(Manifest(body, "job.yaml"), runtime, {})
    assert fault.origin.path == ("apiVersion",)


@pytest.mark.parametrize("release", ["openshift-h100", "university"])
def test_the_objects_of_other_namespaces_decide_nothing(release: str) -> None:
    folder = ROOT / "output" / release
    files = read_cluster([folder])
    world, targets = files.manifests, files.targets
    local = next(item for item in world if item.kind == "LocalQueue")
    runtimes = [item.name for item in world if item.kind == "ClusterTrainingRuntime"]
    text = "---\n".join(
        JOB.format(name=f"train-{number}", namespace=local.namespace, queue=local.name, runtime=name)
        for number, name in enumerate(runtimes)
    ).encode()
    select = partial(select_objects, {local.namespace})
    some = read_cluster([folder], select).manifests
    assert len(some) < len(world)
    for requester in (None, parse_requester("user:ada")):
        of_all, of_some = (
            check_jobs({"job.yaml": text}, Destination(objects, targets, requester, is_complete=True))
            for objects in (world, some)
        )
        assert of_all.findings == of_some.findings
        assert [item.verdict for item in of_all.submissions] == [item.verdict for item in of_some.submissions]


JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: {name}
  namespace: {namespace}
  labels: {{kueue.x-k8s.io/queue-name: {queue}}}
spec:
  runtimeRef: {{name: {runtime}}}
  trainer: {{numNodes: 2, command: [mpirun, ./x]}}
"""
AUTHORIZER = """\
kind: ValidatingAdmissionPolicy
spec: {{validations: [{{expression: "authorizer.group('').resource('pods').{}.check('get').allowed()"}}]}}
"""


@pytest.mark.parametrize(
    ("expression", "is_needed"),
    [("namespace(request.namespace)", False), ("namespace('other')", True), ("namespace (request.name)", True)],
)
def test_grants_in_other_namespaces_are_read_for_a_policy_with_an_authorizer(expression: str, is_needed: bool) -> None:
    select = select_objects({"team-a"}, [AUTHORIZER.format(expression).encode()])
    assert select(Head("RoleBinding", "other")) is is_needed
    assert select(Head("RoleBinding", "team-a"))
    assert select(Head("ConfigMap", "other"))
    assert not select(Head("NetworkPolicy", "other"))


ROLE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {name}
rules:
- apiGroups: [trainer.kubeflow.org]
  resources: [clustertrainingruntimes]
  verbs: [{verbs}]
"""
BINDING = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: {kind}
metadata:
  name: read{namespace}
  labels:
    roleRef: none
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {role}
subjects: []
"""
OF_TEAM = BINDING.format(kind="RoleBinding", namespace="\n  namespace: team-a", role="read")
CHECK = '{{kind: ValidatingAdmissionPolicy, spec: {{validations: [{{expression: "authorizer.x().{}"}}]}}}}'


@pytest.mark.parametrize(
    ("texts", "is_needed"),
    [
        ([ROLE.format(name="read", verbs="get, list, watch"), OF_TEAM], False),
        ([ROLE.format(name="read", verbs="get, create"), OF_TEAM], True),
        ([ROLE.format(name="read", verbs='"*"'), OF_TEAM], True),
        ([ROLE.format(name="read", verbs="get") + "aggregationRule: {clusterRoleSelectors: []}\n", OF_TEAM], True),
        ([ROLE.format(name="read", verbs="get"), ROLE.format(name="read", verbs="create"), OF_TEAM], True),
        ([ROLE.format(name="other", verbs="get"), OF_TEAM], True),
        ([ROLE.format(name="read", verbs="get"), OF_TEAM.replace("team-a", "team-b")], True),
        ([ROLE.format(name="read", verbs="get"), OF_TEAM, CHECK.format("check('update').allowed()")], False),
        ([ROLE.format(name="read", verbs="get"), OF_TEAM, CHECK.format("check('get').allowed()")], True),
        ([ROLE.format(name="read", verbs="get"), OF_TEAM, CHECK.format("check(variables.verb)")], True),
        (
            [
                ROLE.format(name="read", verbs="get"),
                OF_TEAM,
                "{kind: ValidatingAdmissionPolicy, spec: {paramKind: {kind: ClusterRoleBinding}}}",
            ],
            True,
        ),
    ],
)
def test_bindings_of_a_role_that_only_reads_are_left_out(texts: list[str], is_needed: bool) -> None:
    select = select_objects({"team-a"}, [text.encode() for text in texts])
    binding = BINDING.format(kind="ClusterRoleBinding", namespace="", role="read").encode()
    assert [item.kind for item in read_needed(binding, "f", select)] == ["ClusterRoleBinding"] * is_needed


NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata:
  name: {}
  labels:
    team: a
    {}: ""
"""


@pytest.mark.parametrize(
    ("texts", "needed"),
    [
        ([NAMESPACE.format("other", "team-b"), NAMESPACE.format("another", "team-c")], set()),
        ([NAMESPACE.format("other", "x.openshift.io/y"), NAMESPACE.format("another", "x.openshift.io/y")], {"other"}),
        ([NAMESPACE.format("other", "team-b") + "  annotations: {x.openshift.io/y: z}"], {"other", "another"}),
        ([NAMESPACE.format("other", '"x.openshift.io/y"')], {"other", "another"}),
        (["{kind: ValidatingAdmissionPolicy, spec: {paramKind: {kind: Namespace}}}"], {"other", "another"}),
    ],
)
def test_other_namespaces_are_read_if_they_can_show_openshift_or_are_parameters(
    texts: list[str], needed: set[str]
) -> None:
    select = select_objects({"team-a"}, [text.encode() for text in texts])
    assert select(Head("Namespace", "team-a"))
    assert {name for name in ("other", "another") if select(Head("Namespace", name))} == needed


def test_rules_of_others_never_report_a_train_job() -> None:
    of_jobs = {check.id for check in Suite(of_jobs=True).at(Stage.TOGETHER, {}) if can_report_jobs(check)}
    of_jobs |= {check.id for check in Suite(of_jobs=True).at(Stage.OBJECT, {})}
    others = {check.id for stage in (Stage.TOGETHER, Stage.OBJECT) for check in Suite().at(stage, {})} - of_jobs
    assert {"quota/lends-nobody", "network/teams-connect"} - others == {"network/teams-connect"}
    reported = {
        finding.check
        for case in CASES.values()
        if case.family in FAMILIES_OF_JOBS
        for finding in find(case.bad, "job.yaml", case.targets)
        if finding.resource.startswith("TrainJob ")
    }
    assert reported
    assert not reported & others


FAMILIES_OF_JOBS = ("fabric", "mpi", "quota", "reference", "trainjob")


POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: users}}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {{apiGroups: [trainer.kubeflow.org], apiVersions: [v1alpha1], operations: [CREATE], resources: [trainjobs]}}
  validations:
  - {{expression: "{expression}", message: rejected}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: users}}
spec: {{policyName: users, validationActions: [Deny]}}
---
apiVersion: v1
kind: Namespace
metadata: {{name: team-a}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: submit, namespace: team-a}}
rules:
- {{apiGroups: [trainer.kubeflow.org], resources: [trainjobs], verbs: [create]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: submit, namespace: team-a}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: submit}}
subjects:
- {{apiGroup: rbac.authorization.k8s.io, kind: Group, name: editors}}
- {{apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}}
"""


@pytest.mark.parametrize(
    ("expression", "verdict"),
    [
        ("'admins' in request.userInfo.groups && has(object.spec.runtimePatches)", "trainjob/denied"),  # for every user
        ("'admins' in request.userInfo.groups", "trainjob/unknown"),  # a submitter can be an admin
        ("'editors' in request.userInfo.groups", "trainjob/unknown"),  # bob is no editor
        ("request.userInfo.username == 'bob'", "trainjob/unknown"),
        ("request.userInfo.username == 'carol'", "trainjob/unknown"),  # carol can be an editor
        ("request.userInfo.username == 'carol' && 'a' == 'b'", "trainjob/denied"),
        ("authorizer.group('').resource('pods').namespace('x').check('get').allowed()", "trainjob/denied"),
        ("request.userInfo.username != ''", ""),
    ],
)
def test_a_policy_that_rejects_every_submitter_needs_no_user(expression: str, verdict: str) -> None:
    world = list(read(POLICY.format(expression=expression), "cluster.yaml"))
    text = JOB.format(name="train", namespace="team-a", queue="default", runtime="openmpi").encode()
    done = check_jobs({"job.yaml": text}, Destination(world, {}))
    verdicts = [item.check for item in done.findings if item.check in ("trainjob/denied", "trainjob/unknown")]
    assert verdicts == ([verdict] if verdict else [])
