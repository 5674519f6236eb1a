"""Test which existing objects `mpigen audit` reports, leaves to controllers and the platform, or cannot judge."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator import pipeline
from generator.checks.existing import verdicts
from generator.checks.existing.creation import Creator
from generator.checks.existing.verdicts import Answer, Audit
from generator.checks.schema import schema_breaches
from generator.errors import DocumentError, OutputError
from generator.facts.names import OWNER
from generator.manifests import Body, Manifest, read
from generator.report.policy_report import build_reports
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from tests.conftest import ROOT

OUTPUTS = sorted(path.parent.name for path in (ROOT / "output").glob("*/release.json"))
TEAM = "team-cv"
KUEUE_PATCH = "kueue.x-k8s.io/manager"


@cache
def _files(name: str) -> dict[str, bytes]:
    folder = ROOT / "output" / name
    return {str(file.relative_to(ROOT)): file.read_bytes() for file in sorted(folder.rglob("*.yaml"))}


@cache
def _release(name: str = "openshift-h100") -> tuple[Manifest, ...]:
    texts = {
        file: text.replace(b"mpigen.dev/storage: none", b"mpigen.dev/storage: 2Ti")
        for file, text in _files(name).items()
    }
    return tuple(item for file, text in texts.items() for item in read(text, file))


def _audit(*bodies: Body, release: Sequence[Manifest] | None = None) -> Audit:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(bodies)}).encode()
    return pipeline.audit({"cluster.json": text}, _release() if release is None else release, {}).audit


def _answers(audit: Audit, *answers: Answer) -> dict[str, list[str]]:
    """Return kind and name → the rules, without the platform, with one of these answers."""
    found: dict[str, list[str]] = {}
    for verdict in audit.verdicts:
        if verdict.answer in answers:
            name = f"{verdict.manifest.kind} {verdict.manifest.name}"
            found.setdefault(name, []).append(verdict.rule.removeprefix("openshift-h100-"))
    return found


def _rejected(*bodies: Body, release: Sequence[Manifest] | None = None) -> dict[str, list[str]]:
    return _answers(_audit(*bodies, release=release), Answer.FAIL, Answer.WARN)


def _object(kind: str, api_version: str, name: str, **fields: Any) -> Body:
    metadata = {"name": name, "namespace": TEAM, "uid": f"uid-of-{name}", "resourceVersion": "7"}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {**metadata, **fields.pop("metadata", {})},
        **fields,
    }


def _job(name: str = "train", *, metadata: Body | None = None, **spec: Any) -> Body:
    """Return a TrainJob as the API server returns it: with defaults, a status, and the values of Kueue."""
    labels = {"kueue.x-k8s.io/queue-name": "default"}
    own = {"labels": labels, "annotations": {OWNER: "ada"}, "generation": 3, **(metadata or {})}
    default = {
        "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "openmpi-h100"},
        "managedBy": "trainer.kubeflow.org/trainjob-controller",
        "suspend": False,
        "trainer": {"numNodes": 2, "command": ["mpirun", "python", "train.py"]},
    }
    return _object(
        "TrainJob",
        "trainer.kubeflow.org/v1alpha1",
        name,
        metadata=own,
        spec={**default, **spec},
        status={"jobsStatus": [{"name": "node", "active": 2}]},
    )


def _pod(name: str = "tool", **fields: Any) -> Body:
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    spec = {
        "containers": [{"name": "main", "image": "registry.example.com/tool:1", "securityContext": context}],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    return _object("Pod", "v1", name, spec=spec, **fields)


def _owned(by: Body, **changes: Any) -> Body:
    owner = {
        "apiVersion": by["apiVersion"],
        "kind": by["kind"],
        "name": by["metadata"]["name"],
        "uid": by["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
        **changes,
    }
    return {"ownerReferences": [owner]}


def _claim(**spec: Any) -> Body:
    annotations = {
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
        "volume.kubernetes.io/storage-provisioner": "csi.example.com",
    }
    return _object(
        "PersistentVolumeClaim",
        "v1",
        "scratch",
        metadata={"annotations": annotations, "finalizers": ["kubernetes.io/pvc-protection"]},
        spec={
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "fast",
            "volumeMode": "Filesystem",
            **spec,
        },
        status={"phase": "Bound"},
    )


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_objects_of_a_release_are_accepted(name: str) -> None:
    done = pipeline.audit(_files(name), _release(name), {}).audit
    assert _answers(done, Answer.FAIL, Answer.WARN, Answer.ERROR) == {}
    assert done.exempt[Creator.PLATFORM] > 0
    unjudged = sum(len(item.resources) for item in done.unjudged)
    assert done.judged + sum(done.exempt.values()) + done.outside + unjudged == done.objects


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_objects_of_a_release_are_accepted_by_its_own_policies(name: str) -> None:
    assert _answers(pipeline.audit(_files(name), [], {}).audit, Answer.FAIL, Answer.WARN, Answer.ERROR) == {}


def test_a_running_job_is_accepted_and_its_owner_is_unknown() -> None:
    done = _audit(_job())
    assert _answers(done, Answer.FAIL, Answer.WARN, Answer.ERROR) == {}
    assert _answers(done, Answer.UNKNOWN) == {"TrainJob train": ["owner #1"]}
    assert {"queue #1", "runtime", "reserved"} <= set(_answers(done, Answer.PASS)["TrainJob train"])


@pytest.mark.parametrize(
    ("body", "rules"),
    [
        (_job(runtimeRef={"name": "of-others"}), ["runtime"]),
        (_job(metadata={"labels": {}}), ["queue #1"]),
        (_job("np-train"), ["names"]),
        (_claim(volumeName="data-of-others"), ["claims #1"]),
        (_claim(storageClassName=""), ["claims #3"]),
        (_pod(), ["kinds"]),
        (_object("Secret", "v1", "victim-mpi-ssh-auth"), ["keys", "kinds"]),
        (_object("Secret", "v1", "token", type="kubernetes.io/service-account-token"), ["kinds", "tokens"]),
        (_object("Service", "v1", "backdoor", spec={"type": "NodePort"}), ["kinds"]),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_objects_of_users_are_rejected(body: Body, rules: list[str]) -> None:
    assert [sorted(found) for found in _rejected(body).values()] == [rules]


def test_a_claim_has_the_volume_that_was_provisioned_for_its_uid() -> None:
    assert _rejected(_claim(volumeName="pvc-uid-of-scratch")) == {}
    assert _rejected(_claim(volumeName="pvc-uid-of-another")) == {"PersistentVolumeClaim scratch": ["claims #1"]}


def test_a_role_binding_is_compared_with_the_subjects_of_its_namespace() -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "mpigen-submit"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mallory"}
    body = _object("RoleBinding", "rbac.authorization.k8s.io/v1", "guests", roleRef=role, subjects=[subject])
    assert _rejected(body) == {"RoleBinding guests": ["subjects #2"]}


def test_pods_of_controllers_are_exempt_only_with_the_right_owner() -> None:
    job_set = _object("JobSet", "jobset.x-k8s.io/v1alpha2", "train", metadata=_owned(_job()))
    job = _object("Job", "batch/v1", "train-node-0", metadata=_owned(job_set))
    done = _audit(_job(), job_set, job, _pod(metadata=_owned(job)))
    assert _answers(done, Answer.FAIL) == {}
    assert done.exempt == {Creator.CONTROLLER: 2}  # the level of the Namespace judges the pod
    other_uid = _audit(_job(), job_set, job, _pod(metadata=_owned(job, uid="another")))
    assert _answers(other_uid, Answer.UNKNOWN)["Pod tool"] == ["kinds", "workloads"]
    config = _object("ConfigMap", "v1", "c")
    assert _rejected(_pod(metadata=_owned(config, kind="Service"))) == {"Pod tool": ["kinds"]}
    assert _rejected(job, _pod(metadata=_owned(job, controller=False))) == {"Pod tool": ["kinds"]}


@pytest.mark.parametrize("api_version", ["example.com/v1", "jobset.x-k8s.io/v1alpha2"])
def test_an_owner_that_the_export_lacks_hides_no_object(api_version: str) -> None:
    done = _audit(_pod(metadata=_owned(_object("JobSet", api_version, "of-nobody"))))
    assert done.exempt == {}
    assert "kinds" in {**_answers(done, Answer.UNKNOWN), **_answers(done, Answer.FAIL)}["Pod tool"]


def _binding(name: str, role: str, subject: Body) -> Body:
    group = "rbac.authorization.k8s.io"
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": role}
    return _object("RoleBinding", f"{group}/v1", name, roleRef=reference, subjects=[subject])


def test_bindings_of_openshift_are_exempt_only_with_their_role_and_subject() -> None:
    pods = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": f"system:serviceaccounts:{TEAM}"}
    builder = {"kind": "ServiceAccount", "name": "builder", "namespace": TEAM}
    done = _audit(
        _binding("system:image-pullers", "system:image-puller", pods),
        _binding("system:image-builders", "system:image-builder", builder),
        _binding("system:deployers", "system:deployer", {**builder, "name": "deployer"}),
    )
    assert done.exempt == {Creator.PLATFORM: 3}
    mallory = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mallory"}
    for forged in (
        _binding("system:image-pullers", "system:image-puller", mallory),
        _binding("system:image-builders", "system:image-builder", {**builder, "namespace": "of-others"}),
        {
            **_binding("system:deployers", "system:deployer", mallory),
            "subjects": [{**builder, "name": "deployer"}, mallory],
        },
    ):
        assert _rejected(forged) == {f"RoleBinding {forged['metadata']['name']}": ["subjects #2"]}
    assert _audit(_binding("system:image-pullers", "admin", pods)).exempt == {}


def test_objects_of_kubernetes_are_exempt() -> None:
    done = _audit(
        _object("ConfigMap", "v1", "kube-root-ca.crt"),
        _object("ServiceAccount", "v1", "default"),
        _object("Event", "v1", "train.1", involvedObject={}),
    )
    assert done.exempt == {Creator.PLATFORM: 3}
    assert _rejected(_object("ServiceAccount", "v1", "of-a-user")) != {}


def test_a_changed_object_of_the_release_is_judged() -> None:
    item = next(item for item in _release() if item.kind == "ResourceQuota" and item.namespace == TEAM)
    same = {**deepcopy(item.body), "status": {"hard": {}}}
    same["metadata"] |= {"uid": "1", "resourceVersion": "2"}
    assert _audit(same).exempt == {Creator.PLATFORM: 1}
    changed = deepcopy(same)
    changed["spec"]["hard"] = {"requests.cpu": "1M"}
    assert "reserved" in _rejected(changed)[f"ResourceQuota {item.name}"]


def _kueue(patch: Body | None, *, admitted: bool = True) -> list[Body]:
    """Return a TrainJob with a patch of Kueue, its Workload and the flavor."""
    job = _job(runtimePatches=[{"manager": KUEUE_PATCH, **({"trainingRuntimeSpec": patch} if patch else {})}])
    assignment = {"name": "node", "flavors": {"nvidia.com/gpu": "h100"}}
    status = {"admission": {"clusterQueue": TEAM, "podSetAssignments": [assignment]}} if admitted else {}
    workload = _object("Workload", "kueue.x-k8s.io/v1beta2", "trainjob-train-1", metadata=_owned(job), status=status)
    return [job, workload]


def _patch_of_pods(spec: Body) -> Body:
    template = {"metadata": {"labels": {"kueue.x-k8s.io/podset": "node"}}, "spec": spec}
    return {"template": {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": template}}}]}}}


def test_the_patch_of_kueue_has_the_values_of_the_admitted_flavor() -> None:
    flavor = next(item.body for item in _release() if item.kind == "ResourceFlavor" and item.name == "h100")
    spec = {"nodeSelector": flavor["spec"]["nodeLabels"], "tolerations": flavor["spec"].get("tolerations", [])}
    assert _rejected(*_kueue(None)) == {}
    assert _rejected(*_kueue(_patch_of_pods(spec))) == {}
    assert "patches #5" in _rejected(*_kueue(_patch_of_pods(spec), admitted=False))["TrainJob train"]
    forged = {"nodeSelector": {"node-role.kubernetes.io/control-plane": ""}}
    assert {"patches #5", "placement #1"} <= set(_rejected(*_kueue(_patch_of_pods(forged)))["TrainJob train"])
    hostile = _patch_of_pods({"hostNetwork": True})
    assert "patches #1" in _rejected(*_kueue(hostile))["TrainJob train"]


def test_without_workloads_a_note_reports_the_assumption_about_kueue() -> None:
    job, _ = _kueue(_patch_of_pods({"nodeSelector": {"any": "node"}}))
    done = _audit(job)
    assert _answers(done, Answer.FAIL) == {}
    assert "export workloads.kueue.x-k8s.io too" in done.notes[0]


def test_the_owner_of_a_job_is_not_trusted() -> None:
    controller = {"annotations": {OWNER: "system:serviceaccount:kueue-system:kueue-controller-manager"}}
    assert _rejected(_job(metadata=controller, runtimeRef={"name": "of-others"})) == {"TrainJob train": ["runtime"]}


def test_the_labels_of_the_export_count() -> None:
    original = next(item for item in _release() if (item.kind, item.name) == ("Namespace", TEAM))
    live = deepcopy(original.body)
    live["metadata"]["labels"] = {"kubernetes.io/metadata.name": TEAM}
    done = _audit(live, _job(runtimeRef={"name": "of-others"}))
    assert _answers(done, Answer.FAIL) == {}
    assert done.outside == 2
    assert f"Namespace `{TEAM}` lacks labels or annotations of the release" in done.notes[-1]


def test_a_pod_is_compared_with_the_level_of_its_namespace() -> None:
    job = _object("Job", "batch/v1", "j", metadata=_owned(_object("JobSet", "jobset.x-k8s.io/v1alpha2", "t")))
    pod = _pod(metadata=_owned(job))
    pod["spec"]["hostPID"] = True
    assert _rejected(job, pod) == {"Pod tool": ["restricted:v1.34"]}


def test_objects_without_a_namespace_or_a_known_kind_are_counted() -> None:
    stray = _pod()
    stray["metadata"]["namespace"] = "nowhere"
    done = _audit(stray, _object("Notebook", "kubeflow.org/v9", "n"))
    assert [item.resources for item in done.unjudged] == [("Pod nowhere/tool",), (f"Notebook {TEAM}/n",)]
    assert done.judged == 0


def test_equal_requests_share_their_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    judge = vars(verdicts)["judge"]

    def count(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return judge(*arguments)

    monkeypatch.setattr(verdicts, "judge", count)
    bodies = [_job(f"train-{number}") for number in range(300)]
    done = _audit(*bodies)
    assert calls < 950  # three policies read the name
    alone = _audit(bodies[299]).verdicts
    mine = [verdict for verdict in done.verdicts if verdict.manifest.name == "train-299"]
    assert [(each.rule, each.answer, each.message) for each in mine] == [
        (each.rule, each.answer, each.message) for each in alone
    ]


def test_shared_decisions_differ_by_the_values_that_policies_read() -> None:
    bodies = [
        _job("a"),
        _job("b", runtimeRef={"name": "of-others"}),
        _job("c", metadata={"labels": {"kueue.x-k8s.io/queue-name": "x"}}),
        _job("np-d"),
        _job("e", metadata={"annotations": {}}),
        _job("f", trainer={"numNodes": 20_000}),
    ]
    together = _rejected(*bodies)
    assert together == {name: rules for body in bodies for name, rules in _rejected(body).items()}
    assert together.keys() == {"TrainJob b", "TrainJob c", "TrainJob np-d", "TrainJob f"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n- b\n", "the export has a list, which is not an object"),
        ("kind: Pod\nmetadata: {name: x}\n", "Pod x has no apiVersion"),
        ('{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"na', ""),
        ("apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: x\n", ""),
    ],
)
def test_truncated_and_other_inputs_are_errors(text: str, message: str) -> None:
    with pytest.raises(DocumentError) as raised:
        pipeline.audit({"cluster.yaml": text.encode()}, _release(), {})
    assert message in raised.value.problems[0].message


def test_an_export_needs_objects_and_policies() -> None:
    with pytest.raises(OutputError, match="the export has no objects"):
        pipeline.audit({"cluster.yaml": b""}, _release(), {})
    with pytest.raises(OutputError, match="the export has no ValidatingAdmissionPolicy with a binding"):
        pipeline.audit({"cluster.yaml": json.dumps(_pod()).encode()}, [], {})


def test_the_last_of_equal_objects_counts() -> None:
    other = _pod()
    other["spec"]["hostPID"] = True
    done = _audit(other, _pod())
    assert done.objects == 1
    assert "1 objects appear more than once" in " ".join(done.notes)


def test_policy_reports_match_their_schema() -> None:
    bodies = [_job(), _job("b", runtimeRef={"name": "of-others"}), _pod(), _claim()]
    reports = build_reports(_audit(*bodies, {**_object("Node", "v1", "n"), "metadata": {"name": "n"}}).verdicts)
    engine = Engine(Catalog.bundled())
    for report in reports:
        assert [*schema_breaches(Manifest(dict(report), "report.yaml"), engine)] == []
        assert report["summary"] == {
            answer: sum(result["result"] == answer for result in report["results"])
            for answer in ("pass", "fail", "warn", "error", "skip")
        }
    (report,) = reports
    assert (report["kind"], report["metadata"]) == ("PolicyReport", {"name": "mpigen-audit", "namespace": TEAM})
    failed = [result for result in report["results"] if result["result"] == "fail"]
    assert {result["resources"][0]["name"] for result in failed} == {"b", "tool"}
    broken = {**report, "results": [{**failed[0], "result": "rejected"}]}
    assert [*schema_breaches(Manifest(broken, "report.yaml"), engine)] != []


def test_policy_reports_are_equal_for_equal_objects_in_another_order() -> None:
    bodies = [_job(), _pod(), _claim()]
    assert build_reports(_audit(*bodies).verdicts) == build_reports(_audit(*reversed(bodies)).verdicts)


def test_accepted_findings_are_skipped_in_reports() -> None:
    done = _audit(_pod())
    findings = [verdict for verdict in done.verdicts if verdict.answer is Answer.FAIL]
    accepted = {verdict.manifest.resource: [f"the policy rejects: {verdict.message}"] for verdict in findings}
    (report,) = build_reports(done.verdicts, accepted)
    assert report["summary"]["fail"] == 0
    assert report["summary"]["skip"] == len(findings) + 1  # the rule `workloads` reads the user


def test_a_list_and_documents_have_equal_results(tmp_path: Path) -> None:
    bodies = [_job(), _pod(), _claim()]
    documents = yaml.safe_dump_all(bodies).encode()
    done = pipeline.audit({str(tmp_path / "a.yaml"): documents}, _release(), {}).audit
    assert _answers(done, *Answer) == _answers(_audit(*bodies), *Answer)


def test_the_user_of_a_request_can_be_unknown() -> None:
    """An expression is decided without the user if its result does not depend on the user."""
    policy = "object.metadata.name == 'a' || {}"
    of_user = [
        "request.userInfo.username == 'x'",
        "has(request.userInfo)",
        "request.?userInfo.hasValue()",
        "authorizer.group('').resource('pods').check('get').allowed()",
    ]
    for name, answer in (("a", Answer.PASS), ("b", Answer.UNKNOWN)):
        for expression in of_user:
            release = _policy(policy.format(expression))
            found = [verdict.answer for verdict in _audit(_object("ConfigMap", "v1", name), release=release).verdicts]
            tests = "has(" in expression or "?" in expression
            assert found == [Answer.UNKNOWN if tests else answer], expression


def _policy(expression: str) -> list[Manifest]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}
    group = "admissionregistration.k8s.io/v1"
    bodies: list[Body] = [
        {"apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"}, "spec": spec},
        {
            "apiVersion": group,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "p"},
            "spec": {"policyName": "p", "validationActions": ["Deny"]},
        },
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}},
    ]
    return [Manifest(body, "p.yaml") for body in bodies]


def test_match_conditions_read_a_member_without_permissions_on_the_cluster() -> None:
    members = "!authorizer.group('').resource('namespaces').check('update').allowed()"
    release = _policy("false")
    release[0].body["spec"]["matchConditions"] = [{"name": "members", "expression": members}]
    assert _rejected(_object("ConfigMap", "v1", "a"), release=release) == {"ConfigMap a": ["p"]}
    release[0].body["spec"]["matchConditions"][0]["expression"] = f"!{members}"
    assert _audit(_object("ConfigMap", "v1", "a"), release=release).verdicts == []
    here = "authorizer.group('').resource('pods').namespace(request.namespace).check('get').allowed()"
    release[0].body["spec"]["matchConditions"][0]["expression"] = here
    assert [*_answers(_audit(_object("ConfigMap", "v1", "a"), release=release), Answer.ERROR)] == ["ConfigMap a"]
