"""Test that `mpigen validate` decides about random mutations of releases as a real control plane does."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
import yaml

from generator.checks.finding import Finding, Severity
from generator.checks.registry import checks
from generator.kueue.configuration import KEY
from generator.manifests import Body, Manifest
from generator.upstream.kueue.configuration import is_configuration
from tests.cluster import judges, trees
from tests.cluster.client import Client, RefusedError, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.runs import run
from tests.cluster.test_kueue_configuration import said
from tests.cluster.training import Training, trainings
from tests.random_mutations import CLASSES, TREES, Mutation, judge, random_mutation

_SEEDS = range(5000, 5200)
_SOUND = _SEEDS.stop
"""The number of the jobs on the release without a change."""
_EXPLAINED = Path(__file__).with_name("random_mutations.yaml")
_JUDGED = {
    *("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor", "Topology", "WorkloadPriorityClass", "PriorityClass"),
    *("ClusterTrainingRuntime", "TrainingRuntime", "LimitRange", "ResourceQuota", "Namespace", "ServiceAccount"),
    *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
}
"""The kinds that decide about jobs, or whose status a controller of the control plane sets."""
_CREATE = {"dryRun": "All", "fieldValidation": "Strict"}
_ON_PURPOSE = ("Can't admit new workloads: is stopped",)
"""Answers to settings that only a person who stops jobs writes: `stopPolicy` of a ClusterQueue."""
_NOTICED = 3.0
"""Seconds until the API server and the controllers use a changed object: policies are read once a second."""
_PATIENCE = 15
"""Seconds until a job without progress counts as failed: the scheduler retries a pod after up to 10 seconds."""


@cache
def mutations() -> Sequence[Mutation]:
    return [random_mutation(seed) for seed in _SEEDS]


@cache
def findings_of(seed: int) -> Sequence[Finding]:
    return judge(random_mutation(seed))


def explained() -> Mapping[str, str]:
    """Return check → the consequence that a control plane does not show."""
    rows: Mapping[str, str] = yaml.safe_load(_EXPLAINED.read_text("utf-8"))
    return rows


@dataclass(slots=True)
class _Live:
    """A release on the control plane.

    Attributes:
        cluster: the control plane.
        name: the name of the release.
        on_the_cluster: the deployed trees.
        folder: the folder for files of controllers.
    """

    cluster: Cluster
    name: str
    on_the_cluster: list[trees.Deployed]
    folder: Path

    @property
    def admin(self) -> Client:
        return self.cluster.admin

    def deploy(self, changed: Mutation | None = None) -> None:
        """Replace all releases by this one, with a changed object."""
        trees.remove_all(self.admin, self.on_the_cluster)
        platform, objects = trees.example(self.name)
        if changed:
            place = changed.original.resource, changed.original.api_version
            objects = [
                replace(item, body=changed.body) if (item.resource, item.api_version) == place else item
                for item in objects
            ]
        self.on_the_cluster.append(trees.deploy(self.admin, platform, objects, self.admin))

    def answer(self, mutation: Mutation) -> str:
        """Return the rejection of a changed object, or the failures that it causes; empty if there are none.

        A controller can keep an object or a field, so the release is deployed anew if an update is impossible.
        """
        if refusal := self._refuse(mutation):
            return refusal
        if mutation.original.kind not in _JUDGED:
            return ""
        is_updated = _identity(mutation.body) == _identity(mutation.original.body) and self._update(mutation.body)
        try:
            if not is_updated:
                self.deploy(mutation)
            return "; ".join(self.failures(mutation.seed, mutation.body))
        except (RefusedError, TimeoutError) as error:
            return f"{type(error).__name__}: {error}"
        finally:
            if not (is_updated and self._update(mutation.original.body)):
                self.deploy()
            self._forget(mutation.seed)

    def _refuse(self, mutation: Mutation) -> str:
        """Return the answer to a dry run of a creation. An object of the name exists, which is checked at last."""
        body = mutation.body
        if mutation.original.kind == "ConfigMap" and is_configuration(mutation.original):
            text = (body.get("data") or {}).get(KEY)
            lines = said(self.cluster.versions["kueue"], text, self.folder) if isinstance(text, str) else []
            if not lines or lines[-1]["msg"] != "Initializing":
                return f"Kueue: {lines[-1] if lines else 'no configuration'}"
        try:
            self.admin.request("POST", f"{self._collection(body)}?{urlencode(_CREATE)}", body)
        except KeyError:
            return f"the API server serves no {body.get('kind')} of {body.get('apiVersion')}"
        except RefusedError as refused:
            return "" if refused.reason == "AlreadyExists" else refused.message
        return ""

    def _collection(self, body: Body) -> str:
        """Return the path of the collection of an object, as kubectl builds it.

        Raises:
            KeyError: the API server does not serve the kind.
            RefusedError: the API server does not serve the version.
        """
        api_version, kind, metadata = body.get("apiVersion"), body.get("kind"), body.get("metadata")
        if not (isinstance(api_version, str) and isinstance(kind, str)):
            raise KeyError(kind)
        namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
        is_namespaced = self.admin.resource(api_version, kind)["namespaced"]
        name = quote(namespace, safe="") if isinstance(namespace, str) and namespace else "default"
        return self.admin.path(api_version, kind, name if is_namespaced else "")

    def _update(self, body: Body) -> bool:
        with suppress(RefusedError):
            self.admin.apply(body)
            return True
        return False

    def failures(self, number: int, changed: Body | None = None) -> Iterator[str]:
        """Yield the rejected objects of the release, the jobs that do not run, and the errors in status fields."""
        deployed = self.on_the_cluster[-1]
        yield from judges.refused(deployed)
        time.sleep(_NOTICED)
        yield from (
            f"{ran.job}: {ran.obstacle}" for ran in run(self.admin, self._jobs(number), _PATIENCE) if ran.obstacle
        )
        yield from judges.inactive_queues(deployed, self.admin)
        if changed and changed["kind"] == "ValidatingAdmissionPolicy":
            yield from self._type_errors(changed)

    def _type_errors(self, policy: Body) -> Iterator[str]:
        """Yield the warnings of the type checks of a policy."""

        def is_checked() -> bool:
            stored = self.admin.read(policy)
            return bool(stored.get("status", {}).get("observedGeneration") == stored["metadata"]["generation"])

        wait_until("the policy is checked", is_checked)
        checks = self.admin.read(policy)["status"].get("typeChecking", {})
        yield from (f"{item['fieldRef']}: {item['warning']}" for item in checks.get("expressionWarnings", ()))

    def _jobs(self, number: int) -> list[Training]:
        """Return a job of each tenant on each runtime, also if no platform file has the runtime.

        Names differ, because pods of earlier jobs end late.
        """
        deployed = self.on_the_cluster[-1]
        jobs = [*trainings(deployed.platform)]
        known = {job.runtime.name for job in jobs}
        for item in deployed.stored:
            if item.kind == "ClusterTrainingRuntime" and item.name not in known:
                jobs += [replace(job, runtime=job.runtime.model_copy(update={"name": item.name})) for job in jobs[:1]]
        return [replace(job, number=number + 1) for job in jobs]

    def _forget(self, number: int) -> None:
        """Delete the jobs, and wait until their pods are gone."""
        time.sleep(_NOTICED)  # a changed policy can forbid it
        jobs = self._jobs(number)
        for job in jobs:
            with suppress(RefusedError):  # the namespace is gone
                self.admin.delete(job.body)
        namespaces = {job.tenant.name for job in jobs}
        wait_until("the pods are gone", lambda: not any(self.admin.items("v1", "Pod", name) for name in namespaces))


def _identity(body: Body) -> tuple[object, ...]:
    manifest = Manifest(body, "")
    return manifest.api_version, manifest.kind, manifest.namespace, manifest.name


@pytest.fixture(scope="module")
def answers(
    cluster: Cluster, on_the_cluster: list[trees.Deployed], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[int, str]:
    """Return seed → the rejection or the failures; empty if the control plane accepts the object and all jobs run."""
    if cluster.versions.name != "default":
        pytest.skip("mpigen judges releases for the default versions")
    for seed in _SEEDS:
        findings_of(seed)  # an error of mpigen ends the test before it takes half an hour
    answers: dict[int, str] = {}
    for name in TREES:
        live = _Live(cluster, name, on_the_cluster, tmp_path_factory.mktemp(name))
        live.deploy()
        assert [*live.failures(_SOUND)] == []
        live._forget(_SOUND)
        answers |= {each.seed: live.answer(each) for each in mutations() if each.tree == name}
    trees.remove_all(cluster.admin, on_the_cluster)
    return answers


@pytest.mark.cluster
@pytest.mark.slow
def test_no_random_mutation_gets_a_wrong_answer(answers: Mapping[int, str]) -> None:
    """Every error that the control plane does not confirm has a reason in random_mutations.yaml."""
    lines = [_describe(mutation, answers[mutation.seed]) for mutation in mutations()]
    if any(line.startswith("FALSE") for line in lines):
        pytest.fail("\n".join(sorted(lines, key=lambda line: not line.startswith("FALSE"))), pytrace=False)
    assert sum(map(bool, answers.values())) > len(_SEEDS) / 3


def _verdict(answer: str, findings: Sequence[Finding]) -> str:
    errors = {finding.check for finding in findings if finding.severity == Severity.ERROR}
    if answer:
        return "both reject" if findings or any(text in answer for text in _ON_PURPOSE) else "FALSE YES"
    if unexplained := errors - explained().keys():
        return f"FALSE NO without a reason for {', '.join(sorted(unexplained))}"
    return f"explained: {', '.join(sorted(errors))}" if errors else "both accept"


def _describe(mutation: Mutation, answer: str) -> str:
    verdict = _verdict(answer, findings_of(mutation.seed))
    findings = [f"{item.severity} {item.check} {item.resource}: {item.message}" for item in findings_of(mutation.seed)]
    own = "; ".join(findings) or "no finding"
    return f"{verdict} | {mutation.seed} {mutation.text} | server: {answer or 'accepts'} | mpigen: {own}"


@pytest.mark.slow
def test_every_mutation_class_occurs() -> None:
    assert {mutation.name for mutation in mutations()} == {*CLASSES}


def test_every_explained_check_exists_and_has_a_reason() -> None:
    ids = {check.id for check in checks()}
    assert [(check, reason) for check, reason in explained().items() if check not in ids or not reason] == []
