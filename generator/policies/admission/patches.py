"""What a TrainJob may not change in the pods of its runtime.

`runtimePatches` reach deep into a pod (trainer v2.3.0 PodSpecPatch): another ServiceAccount, any volume, any Secret of
the namespace, among them the key of somebody else's job. Whatever only the platform should decide is refused here, and
with words, where Pod Security would refuse the pods and leave the job hanging.
"""

from __future__ import annotations

import json

from generator.facts.names import PARAMETER
from generator.policies.admission.policy import TRAINJOBS, Demand, Rule

_HAS_POD = "has(job.template) && has(job.template.spec) && has(job.template.spec.template)"
PODS = {
    "before": "oldObject == null ? [] : oldObject.spec.?runtimePatches.orValue([])",
    "patches": "object.spec.?runtimePatches.orValue([]).filter(patch, !(patch in variables.before))",
    "jobs": "variables.patches.map(patch, patch.?trainingRuntimeSpec.?template.?spec.?replicatedJobs.orValue([]))",
    "pods": f"variables.jobs.map(jobs, jobs.filter(job, {_HAS_POD} && has(job.template.spec.template.spec))"
    ".map(job, job.template.spec.template.spec))",
}
"""Variables: what patches are new, and the Jobs and pods that they change, as a list for each patch. What was there
before is not judged again."""

_SSH_KEY = "endsWith('-mpi-ssh-auth')"
VOLUMES = (
    "configMap",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
)
"""Kinds of volumes that stay in the namespace. A driver (`csi`) may reach anywhere."""

# Networks, addresses and security profiles are given to pods by annotation: those of Multus, OVN-Kubernetes, Calico,
# CRI-O, and AppArmor before it was a field.
_ANNOTATIONS = (
    "k8s.v1.cni.cncf.io/",
    "v1.multus-cni.io/",
    "k8s.ovn.org/",
    "cni.projectcalico.org/",
    "io.kubernetes.cri-o.",
    "container.apparmor.security.beta.kubernetes.io/",
)
_LABELS = (PARAMETER, "kueue.x-k8s.io/", "jobset.sigs.k8s.io/", "batch.kubernetes.io/")


def _each_pod(expression: str) -> str:
    return f"variables.pods.all(pods, pods.all(pod, {expression}))"


def _each_container(expression: str) -> str:
    return _each_pod(
        " && ".join(f"pod.?{kind}.orValue([]).all(each, {expression})" for kind in ("containers", "initContainers"))
    )


def _each_volume(expression: str) -> str:
    return _each_pod(f"pod.?volumes.orValue([]).all(volume, {expression})")


def _variables_from_keys(owner: str) -> str:
    return f"{owner}.?env.orValue([]).all(env, !env.?valueFrom.?secretKeyRef.?name.orValue('').{_SSH_KEY})"


def _metadata(kind: str, taken: str) -> str:
    """No patch writes a label or annotation that is taken: on the JobSet, its Jobs, or their pods."""
    free = f"metadata.?{kind}.orValue({{}}).all(key, !variables.{taken}.exists(begin, key.startsWith(begin)))"
    return " && ".join(
        (
            f"variables.patches.all(patch, patch.?trainingRuntimeSpec.?template.?{free})",
            f"variables.jobs.all(jobs, jobs.all(job, job.?template.?{free}))",
            f"variables.jobs.all(jobs, jobs.all(job, job.?template.?spec.?template.?{free}))",
        )
    )


def _secrets() -> list[Demand]:
    said = "'the key of a job is for its own launcher and hosts; name no Secret that ends in -mpi-ssh-auth'"
    projected = "volume.?projected.?sources.orValue([])"
    initializers = " && ".join(
        f"{_variables_from_keys(f'object.spec.?initializer.?{kind}')}"
        f" && !object.spec.?initializer.?{kind}.?secretRef.?name.orValue('').{_SSH_KEY}"
        for kind in ("dataset", "model")
    )
    return [
        Demand(_each_volume(f"!volume.?secret.?secretName.orValue('').{_SSH_KEY}"), said, "Forbidden"),
        Demand(
            _each_volume(f"{projected}.all(source, !source.?secret.?name.orValue('').{_SSH_KEY})"), said, "Forbidden"
        ),
        Demand(_each_container(_variables_from_keys("each")), said, "Forbidden"),
        Demand(
            f"oldObject != null || ({_variables_from_keys('object.spec.?trainer')} && {initializers})",
            said,
            "Forbidden",
        ),
        Demand(
            _each_volume(f"{projected}.all(source, !has(source.serviceAccountToken))"),
            "'pods of jobs have no token of the cluster; remove the volume with serviceAccountToken'",
            "Forbidden",
        ),
    ]


def _placement() -> list[Demand]:
    return [
        Demand(
            _each_pod(
                "pod.?tolerations.orValue([]).all(each, each.?key.orValue('') != ''"
                " && !each.key.startsWith('node-role.kubernetes.io/'))"
            ),
            "'jobs stay off nodes that are not for them; name the key of each toleration, and none of"
            " node-role.kubernetes.io/'",
        ),
        Demand(
            _each_pod("pod.?schedulingGates.orValue([]).size() == 0"),
            "'the queue decides when pods start; remove schedulingGates'",
        ),
        Demand(
            # Its webhook adds an empty one to a job: kueue v0.19.2 pkg/controller/jobs/trainjob/trainjob_webhook.go.
            "variables.patches.all(patch, !patch.manager.startsWith('kueue.x-k8s.io/')"
            " || patch.?trainingRuntimeSpec.?template.?spec.?replicatedJobs.orValue([]).size() == 0)",
            "'what Kueue patches is for Kueue to say; give the patch a manager of your own'",
            "Forbidden",
        ),
    ]


def _identity() -> list[Demand]:
    return [
        Demand(
            _each_pod("!has(pod.serviceAccountName)"),
            "'pods of jobs run as the ServiceAccount of their runtime; remove serviceAccountName'",
            "Forbidden",
        ),
        Demand(
            _each_volume(" || ".join(f"has(volume.{kind})" for kind in VOLUMES)),
            f"'a volume reaches out of the namespace; use one of {', '.join(VOLUMES)}'",
            "Forbidden",
        ),
    ]


def _privileges() -> Demand:
    return Demand(
        f"{_each_pod('!has(pod.securityContext)')} && {_each_container('!has(each.securityContext)')}",
        "'the runtime decides what its pods are allowed; remove securityContext'",
        "Forbidden",
    )


def _marks() -> list[Demand]:
    return [
        Demand(
            _metadata("annotations", "profiles"),
            "'networks and profiles are given by the runtime; set no annotation of ' + variables.profiles.join(' or ')",
            "Forbidden",
        ),
        Demand(
            _metadata("labels", "memberships"),
            "'labels say what pods belong to; set none of ' + variables.memberships.join(' or ')",
            "Forbidden",
        ),
    ]


def patches(conditions: dict[str, str]) -> Rule:
    """A patch changes neither who its pods are, nor what they are allowed, nor what they can see of others."""
    return Rule(
        name="patches",
        requests=[TRAINJOBS],
        variables={**PODS, "profiles": json.dumps(_ANNOTATIONS), "memberships": json.dumps(_LABELS)},
        demands=[*_identity(), *_secrets(), _privileges(), *_placement(), *_marks()],
        conditions=conditions,
    )
