"""Test that jobs with missing references, or with too many hosts, behave as the checks report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import pytest
import yaml

from generator.config.model.tenants import Limits
from generator.facts.names import PART_OF, TENANT_LABEL
from generator.objects.namespace import ANNOTATION
from generator.policies.admission.policy import bindings, policy
from generator.policies.admission.rules import size
from generator.upstream.kueue.podsets import default_nodes
from tests.checks import CASES
from tests.cluster.client import Body, Client, RefusedError, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.hand_written import SOUND, Attempt, create
from tests.cluster.queued import NAMESPACE, of_trainer, queue, train_job, workload
from tests.cluster.training import conditions

pytestmark = pytest.mark.cluster
_PRIORITY = "kueue.x-k8s.io/priority-class"
_PLATFORM = "references"
_KUEUE = "kueue.x-k8s.io/v1beta2"
_THREE = yaml.safe_load("""\
mlPolicy: {numNodes: 3, torch: {}}
template:
  spec:
    replicatedJobs:
    - name: node
      template:
        metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
        spec: {template: {spec: {containers: [{name: node, image: a}]}}}
""")
_MPI = yaml.safe_load(SOUND.replace("parallelism: 1", "parallelism: 2"))["spec"]
_RUNTIMES = {"three": _THREE, "mpi": _MPI}


@pytest.fixture(scope="module", autouse=True)
def place(admin: Client) -> Iterator[None]:
    """Create a queue, and runtimes with three hosts."""
    with queue(admin):
        for name, spec in _RUNTIMES.items():
            assert create(admin, of_trainer("TrainingRuntime", name, spec)) == ""
        yield


@pytest.mark.parametrize("name", ["runtime-kind", "runtime-group"])
def test_trainer_rejects_other_kinds_of_runtimes(admin: Client, name: str) -> None:
    body = yaml.safe_load(CASES[f"trainjob/{name}"].bad)
    body["metadata"]["namespace"] = NAMESPACE
    assert "unsupported runtime" in create(admin, body)


@pytest.mark.parametrize("kind", ["TrainingRuntime", "ClusterTrainingRuntime"])
def test_a_job_without_an_existing_runtime_is_rejected(admin: Client, kind: str) -> None:
    """Either Trainer or Kueue rejects it; Kueue's webhook runs first."""
    body = train_job("early", "three", {"runtimeRef": {"name": "two", "kind": kind}})
    with pytest.raises(RefusedError, match=r"must be created before the TrainJob is created|runtime 'two' not found"):
        admin.create(body, dry_run=True)


def test_a_job_with_an_unknown_priority_waits_and_only_the_log_of_kueue_reports_it(cluster: Cluster) -> None:
    admin, log = cluster.admin, cluster.processes.log("kueue")
    body = train_job("urgent", "three", {})
    body["metadata"]["labels"][_PRIORITY] = "urgent"
    admin.create(body)
    missing = re.compile(r'WorkloadPriorityClass.kueue.x-k8s.io \\*"urgent\\*" not found')
    wait_until("Kueue looks for it", lambda: bool(missing.search(log.read_text(errors="replace"))))
    told = [each for each in admin.items("v1", "Event", NAMESPACE) if each["involvedObject"]["name"] == "urgent"]
    assert not [each for each in told if "Priority" in each["message"]]
    assert not [each for each in admin.items(_KUEUE, "Workload", NAMESPACE) if "urgent" in each["metadata"]["name"]]
    assert admin.read(body)["spec"]["suspend"] is True
    priority = {"apiVersion": _KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": "urgent"}, "value": 9}
    admin.create(priority)
    assert workload(admin, "urgent")["spec"]["priority"] == 9
    admin.delete(priority)


@pytest.fixture
def two_at_most(admin: Client) -> Iterator[None]:
    """Limit jobs to two hosts, and wait until the API server enforces the limit."""
    labels = {TENANT_LABEL: NAMESPACE, PART_OF: _PLATFORM}
    metadata = {"name": NAMESPACE, "labels": labels, "annotations": {ANNOTATION: "2"}}
    bodies = [
        policy(_PLATFORM, size([Limits(hosts_per_job=2)])),
        *bindings(_PLATFORM, size([Limits(hosts_per_job=2)]), "deny"),
    ]
    for body in ({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, *bodies):
        admin.apply(body, "tests")
    job = train_job("said", "three", {"trainer": {"numNodes": 3}})
    wait_until("there is a limit", partial(_is_refused, admin, job))
    yield
    for body in bodies:
        admin.delete(body)


@pytest.mark.usefixtures("two_at_most")
@pytest.mark.parametrize("name", _RUNTIMES)
def test_a_job_without_num_nodes_has_the_hosts_of_its_runtime_and_bypasses_the_limit(admin: Client, name: str) -> None:
    assert default_nodes({"spec": _RUNTIMES[name]}) == 3
    assert create(admin, train_job(f"on-{name}", name, {})) == ""
    attempt = Attempt(admin, f"on-{name}", NAMESPACE)
    wait_until("it may start", lambda: attempt.job_set["spec"].get("suspend") is False)
    made = [each["template"]["spec"]["parallelism"] for each in attempt.job_set["spec"]["replicatedJobs"]]
    assert sum(made) == 3
    wait_until("it has its hosts", lambda: len(attempt.pods("node")) == made[0])


def test_a_job_with_a_rejected_job_set_keeps_its_quota_and_never_runs(admin: Client) -> None:
    """So the host limit cannot be enforced on JobSets."""
    policy, binding = _no_job_sets()
    for body in (policy, binding):
        admin.apply(body, "tests")
    metadata = {"name": "any", "namespace": NAMESPACE}
    probe = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": {}}
    wait_until("JobSets are refused", partial(_is_refused, admin, probe))
    admin.create(train_job("refused", "three", {}))
    attempt = Attempt(admin, "refused", NAMESPACE)
    wait_until("it is admitted", lambda: _is_admitted(workload(admin, "refused")))
    assert "no JobSets here" in attempt.failure
    assert attempt.pods("node") == []
    assert _is_admitted(workload(admin, "refused"))
    for body in (binding, policy):
        admin.delete(body)


def _no_job_sets() -> list[Body]:
    """Return a policy that rejects every JobSet of the namespace, and its binding."""
    metadata = {"name": "no-job-sets"}
    rule = {"apiGroups": ["jobset.x-k8s.io"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["jobsets"]}
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}}
    refusing = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false", "message": "no JobSets here"}],
    }
    bound = {"policyName": metadata["name"], "validationActions": ["Deny"], "matchResources": here}
    pairs = (("ValidatingAdmissionPolicy", refusing), ("ValidatingAdmissionPolicyBinding", bound))
    api_version = "admissionregistration.k8s.io/v1"
    return [{"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec} for kind, spec in pairs]


def _is_refused(admin: Client, body: Body) -> bool:
    try:
        admin.create(body, dry_run=True)
    except RefusedError as refused:
        return "ValidatingAdmissionPolicy" in refused.message
    return False


def _is_admitted(body: Body) -> bool:
    return any(each["type"] == "Admitted" and each["status"] == "True" for each in conditions(body))
