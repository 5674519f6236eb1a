"""Deploy a platform of the attacks on the control plane, and send the requests of the corpus as its personas."""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from generator.facts.names import PRIORITY_CLASS
from generator.policies.access import RBAC, cluster_role, policy_rule
from tests.attacks.corpus import CONTENT, Attack, Step, fill, train_job
from tests.attacks.kinds import with_kind
from tests.attacks.platforms import PERSONAS, Scene, scene
from tests.cluster import trees
from tests.cluster.client import Answer, Body, Client, RefusedError, wait_for, wait_until
from tests.cluster.training import JOB, wait_for_queue
from tests.cluster.trees import Deployed

VICTIM = "victim"
_HOSTS = 2
_PATIENCE = 4  # seconds in which a job that no controller stops gets pods; the control plane takes one
_KNOWN = 1.0  # seconds until the authorizer knows a new binding
_STOPPED_WITHIN = 30  # seconds in which Kueue stops the 65 pods of a job that a user resumed
_MEGABYTE = "x" * 1_000_000
_RULE = re.compile(r"ValidatingAdmissionPolicy '([^']*)'")
_OF_LIMIT_RANGE = re.compile(r"maximum \S+ usage per (Container|Pod) is")
_OF_RBAC = ("cannot ", "attempting to grant RBAC permissions not currently held")
_PATCH = CONTENT["merge"]
_NO_KUBELET = "no preferred addresses found"
"""The API server accepts the request, and has no kubelet to ask."""
_KUEUE = "kueue.x-k8s.io/v1beta2"
_TRAINER = "trainer.kubeflow.org/v1alpha1"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of an attack.

    Attributes:
        by: a key of `WAYS`, or the rule of the admission pack; empty if the attack succeeded.
        words: the message of the refusal.
    """

    by: str
    words: str = ""


@dataclass(frozen=True)
class Stage:
    """A deployed platform with a running job of an editor, the victim.

    Attributes:
        scene: the platform.
        deployed: its objects on the cluster.
        admin: a client with all rights.
        clients: persona → client.
        tried: the attacks so far.
    """

    scene: Scene
    deployed: Deployed
    admin: Client
    clients: dict[str, Client]
    tried: list[str] = field(default_factory=list)

    @cached_property
    def minor(self) -> tuple[int, ...]:
        """The minor version of Kubernetes, such as (1, 34)."""
        version = self.admin.request("GET", "/version").body
        return int(version["major"]), int(version["minor"])

    @property
    def team(self) -> str:
        """The namespace of the attacked team."""
        return str(self.scene.names["team"])


@contextmanager
def staged(admin: Client, name: str, on_the_cluster: list[Deployed]) -> Iterator[Stage]:
    """Deploy a platform in place of others, create the workbench's account, and start the victim."""
    trees.remove_all(admin, on_the_cluster)
    found = scene(name)
    tree = trees.as_argocd_applies(found.tree)
    deployed = trees.deploy(admin, found.platform, tree)
    on_the_cluster.append(deployed)
    refused = [outcome.refusal for outcome in deployed.outcomes if outcome.refusal]
    assert refused == []
    for body in _outside(str(found.names["team"])):
        admin.apply(body, "tests")
    stage = Stage(found, deployed, admin, _clients(admin, found))
    for persona, namespace in (("submitter", stage.team), ("other-submitter", str(found.names["other"]))):
        wait_for_queue(admin, namespace)
        job = fill(
            train_job({"metadata": {"namespace": namespace}}, PERSONAS[persona]), {**found.names, "job": "trial"}
        )
        wait_until(f"{persona} may submit", partial(_is_taken, stage.clients[persona], job))
    pods_of_victim(stage)
    try:
        yield stage
    finally:
        trees.remove_all(admin, on_the_cluster)


_RIGHTS_OF_OPERATORS = {
    "trainer.kubeflow.org": ["trainjobs", "trainingruntimes"],
    "jobset.x-k8s.io": ["jobsets"],
    "kueue.x-k8s.io": ["localqueues", "workloads", "workloads/status"],
    "resource.k8s.io": ["resourceclaims", "resourceclaimtemplates"],
    "external-secrets.io": ["externalsecrets", "pushsecrets", "secretstores"],
    "discovery.k8s.io": ["endpointslices"],
    "": ["endpoints"],
}
"""API group → the resources that operators may add to `edit` of Kubernetes (`aggregate-to-edit`)."""


def _outside(team: str) -> list[Body]:
    """Return objects of cluster admins: the account of a workbench, and roles of a student, a professor and notebooks.

    The student has Kubernetes' `edit` and the rights of operators, the professor all rights in the namespace.
    """
    rules = [policy_rule(group, resources, ["*"]) for group, resources in _RIGHTS_OF_OPERATORS.items()]
    student, professor = (
        {"apiGroup": RBAC, "kind": "User", "name": PERSONAS[persona]} for persona in ("student", "professor")
    )
    notebooks = {"kind": "ServiceAccount", "name": "controller", "namespace": "notebooks"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "workbenches"}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "workbench", "namespace": "workbenches"}},
        cluster_role("attacks-operators", rules),
        cluster_role("attacks-notebooks", [policy_rule("", ["pods"], ["create"])]),
        _binding("attacks-student", "edit", student, team),
        _binding("attacks-operators", "attacks-operators", student, team),
        _binding("attacks-professor", "cluster-admin", professor, team),
        _binding("attacks-notebooks", "attacks-notebooks", notebooks, team),
    ]


def _binding(name: str, role: str, subject: Body, namespace: str) -> Body:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }


def _clients(admin: Client, found: Scene) -> dict[str, Client]:
    """Return the clients. A workbench logs in with a token, because a user cannot impersonate while impersonating."""
    clients = {persona: admin.as_user(str(fill(user, found.names))) for persona, user in PERSONAS.items()}
    path = "/api/v1/namespaces/workbenches/serviceaccounts/workbench/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = admin.request("POST", path, request).body["status"]["token"]
    clients["drainer"] = admin
    return {**clients, "workbench": admin.with_token(token), "anonymous": replace(admin, headers={})}


def _is_taken(client: Client, body: Body) -> bool:
    try:
        client.create(body, dry_run=True)
    except RefusedError as refused:
        if refused.status != http.client.FORBIDDEN:
            raise
        return False
    return True


def pods_of_victim(stage: Stage) -> list[str]:
    """Return the names of the pods of the victim; submit the victim again if an attack ended it."""
    label = {"labels": {PRIORITY_CLASS: "interactive"}}
    body = fill(train_job({"name": VICTIM, "metadata": label}, "editor"), stage.scene.names)
    if not stage.admin.exists(body):
        stage.clients["editor"].create(body)
    return wait_for("the victim runs", partial(running_pods, stage, VICTIM))


def running_pods(stage: Stage, job: str) -> list[str] | None:
    """Return the names of the pods of a job when all of them run."""
    found = [pod for pod in _pods(stage, job) if pod["status"].get("phase") == "Running"]
    return [pod["metadata"]["name"] for pod in found] if len(found) == _HOSTS else None


def _pods(stage: Stage, job: str) -> list[Body]:
    path = stage.admin.path("v1", "Pod")
    found = stage.admin.request("GET", f"{path}?labelSelector={JOB}%3D{job}").body["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def complaint(stage: Stage, attack: Attack) -> str:
    """Return how the result of an attack differs from the corpus; empty if it does not."""
    values = names(stage, len(stage.tried))
    stage.tried.append(str(attack))
    result = attempt(stage, attack, values)
    expected = attack.stopped.get(stage.scene.name, ())
    if attack.since and stage.minor < tuple(map(int, attack.since.split("."))):
        expected = ("api",)
    if not expected:
        return f"stopped by {result.by}: {result.words}" if result.by else ""
    if result.by not in expected:
        return f"stopped by {result.by or 'nothing'} instead of {' or '.join(expected)}: {result.words}"
    if attack.says and not re.search(attack.says, result.words):
        return f"the refusal lacks `{attack.says}`: {result.words}"
    return ""


def names(stage: Stage, number: int) -> dict[str, Any]:
    """Return the values of the placeholders for the attack with this number."""
    pods = pods_of_victim(stage)
    victim = stage.admin.read(_named(VICTIM, stage.team))
    owned = stage.admin.items(_KUEUE, "Workload", stage.team)
    workloads = [each for each in owned if _is_of(each, VICTIM)]
    return {
        **stage.scene.names,
        "job": f"attack-{number}",
        "pod": pods[0],
        "workload": workloads[0]["metadata"]["name"],
        "victim-uid": victim["metadata"]["uid"],
        "victim-version": victim["metadata"]["resourceVersion"],
        "megabyte": _MEGABYTE,
    }


def _is_of(workload: Body, job: str) -> bool:
    """Return True if the Workload belongs to a TrainJob. A Workload whose TrainJob is gone has no owner."""
    return any(owner["name"] == job for owner in workload["metadata"].get("ownerReferences", ()))


def _named(name: str, namespace: str) -> Body:
    return {"apiVersion": _TRAINER, "kind": "TrainJob", "metadata": {"name": name, "namespace": namespace}}


def attempt(stage: Stage, attack: Attack, values: dict[str, Any]) -> Result:
    """Make an attack, remove what it created, and return what stopped it."""
    created = [_create(stage.admin, fill(body, values)) for body in attack.given]
    if created:
        time.sleep(_KNOWN)
    try:
        for step in attack.steps:
            result = _result(stage, step, values, created)
            if result is not None:
                return result
        return Result("")
    finally:
        for body in created:
            _remove(stage.admin, body)


def _create(admin: Client, body: Body) -> Body:
    """Create an object, after the end of one with the same name: the finalizer of a claim lets go of it later."""
    wait_until(f"{body['kind']} {body['metadata']['name']} is gone", partial(trees.is_gone, admin, body))
    return admin.create(body).body | _kind(body)


def _kind(body: Body) -> Body:
    return {"apiVersion": body["apiVersion"], "kind": body["kind"]}


def _result(stage: Stage, step: Step, values: dict[str, Any], created: list[Body]) -> Result | None:
    """Return the refusal of a step; None if the step succeeds."""
    step = step.filled(values)
    if step.pods:
        wait_for(f"{step.pods} runs", partial(running_pods, stage, step.pods))
        return None
    if step.no_pods:
        return Result("controller") if _ends_without_pods(stage, step.no_pods) else None
    try:
        for _ in range(step.times):
            answer = send(stage.clients[step.by], step)
            if step.method == "POST" and "dryRun" not in step.path and "name" in answer.body.get("metadata", {}):
                created.append(answer.body)
                values["uid"] = answer.body["metadata"].get("uid", "")
    except RefusedError as refused:
        if _NO_KUBELET in refused.message:
            return None
        return Result(stopped_by(refused, str(values["platform"])), refused.message)
    return None


def _ends_without_pods(stage: Stage, job: str) -> bool:
    """Return True if a job has no pods after a while. A controller may need a moment to stop a job again."""
    time.sleep(_PATIENCE)
    deadline = time.monotonic() + _STOPPED_WITHIN
    while _pods(stage, job):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def send(client: Client, step: Step) -> Answer:
    """Send the request of a step.

    Raises:
        RefusedError: the answer is an error.
    """
    if step.headers:
        client = replace(client, headers={**client.headers, **step.headers})
    if step.raw:
        return client.send(step.method, step.path, step.raw, step.content)
    return client.request(step.method, step.path, with_kind(step), step.content)


def stopped_by(refused: RefusedError, platform: str) -> str:
    """Return what refused a request: a key of `WAYS`, or the rule of the admission pack."""
    message = refused.message
    if match := _RULE.search(message):
        return match[1].removeprefix(f"{platform}-")
    if "admission webhook" in message:
        return "webhook"
    if "violates PodSecurity" in message:
        return "pod-security"
    if "exceeded quota" in message:
        return "quota"
    if _OF_LIMIT_RANGE.search(message):
        return "limit-range"
    if refused.status in (http.client.FORBIDDEN, http.client.UNAUTHORIZED) and any(
        each in message for each in _OF_RBAC
    ):
        return "rbac"
    return "api"


def _remove(admin: Client, body: Body) -> None:
    """Delete an object whatever finalizers it has."""
    with suppress(RefusedError):
        if body["kind"] != "PersistentVolumeClaim":  # its finalizer waits for the pods
            admin.request("PATCH", admin.path_of(body), {"metadata": {"finalizers": None}}, _PATCH)
        admin.delete(body)
        if body["kind"] == "TrainJob":  # an orphan
            admin.delete({**body, "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"})
