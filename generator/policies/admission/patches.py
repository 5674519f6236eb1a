"""The admission rule for `runtimePatches`: what a TrainJob must not change in the pods of its runtime.

`runtimePatches` can set another ServiceAccount, any volume and any Secret of the namespace, including the ssh key of
another user's job (trainer v2.3.0 PodSpecPatch). Pod Security would reject the pods and leave the job pending without a
message.
"""

from __future__ import annotations

import json

from generator.facts.names import PARAMETER
from generator.policies.admission.policy import TRAINJOBS, Rule, Validation

_HAS_POD = "has(job.template) && has(job.template.spec) && has(job.template.spec.template)"
PODS = {
    "before": "oldObject == null ? [] : oldObject.spec.?runtimePatches.orValue([])",
    "patches": "object.spec.?runtimePatches.orValue([]).filter(patch, !(patch in variables.before))",
    "jobs": "variables.patches.map(patch, patch.?trainingRuntimeSpec.?template.?spec.?replicatedJobs.orValue([]))",
    "pods": f"variables.jobs.map(jobs, jobs.filter(job, {_HAS_POD} && has(job.template.spec.template.spec))"
    ".map(job, job.template.spec.template.spec))",
}
"""Variables of CEL: the patches that a request adds, and for each patch the list of Jobs and pods that it changes."""

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
"""Volumes that give no access outside the namespace. A driver (`csi`) may give access to anything."""

# Annotations that give pods networks, addresses and security profiles: of Multus, OVN-Kubernetes, Calico, CRI-O, and of
# AppArmor before it was a field.
_ANNOTATIONS = (
    "k8s.v1.cni.cncf.io/",
    "v1.multus-cni.io/",
    "k8s.ovn.org/",
    "cni.projectcalico.org/",
    "io.kubernetes.cri-o.",
    "container.apparmor.security.beta.kubernetes.io/",
)
_LABELS = (PARAMETER, "kueue.x-k8s.io/", "jobset.sigs.k8s.io/", "batch.kubernetes.io/")


def _all_pods(expression: str) -> str:
    return f"variables.pods.all(pods, pods.all(pod, {expression}))"


def _all_containers(expression: str) -> str:
    return _all_pods(
        " && ".join(f"pod.?{kind}.orValue([]).all(each, {expression})" for kind in ("containers", "initContainers"))
    )


def _all_volumes(expression: str) -> str:
    return _all_pods(f"pod.?volumes.orValue([]).all(volume, {expression})")


def _variables_from_keys(owner: str) -> str:
    return f"{owner}.?env.orValue([]).all(env, !env.?valueFrom.?secretKeyRef.?name.orValue('').{_SSH_KEY})"


def _sets_no_reserved(kind: str, reserved: str) -> str:
    """Return CEL that is true if no patch sets a reserved label or annotation on the JobSet, its Jobs or their pods."""
    free = f"metadata.?{kind}.orValue({{}}).all(key, !variables.{reserved}.exists(begin, key.startsWith(begin)))"
    return " && ".join(
        (
            f"variables.patches.all(patch, patch.?trainingRuntimeSpec.?template.?{free})",
            f"variables.jobs.all(jobs, jobs.all(job, job.?template.?{free}))",
            f"variables.jobs.all(jobs, jobs.all(job, job.?template.?spec.?template.?{free}))",
        )
    )


def _secrets() -> list[Validation]:
    message = "'only the pods of a TrainJob can use its ssh key; remove the Secret whose name ends in -mpi-ssh-auth'"
    projected = "volume.?projected.?sources.orValue([])"
    initializers = " && ".join(
        f"{_variables_from_keys(f'object.spec.?initializer.?{kind}')}"
        f" && !object.spec.?initializer.?{kind}.?secretRef.?name.orValue('').{_SSH_KEY}"
        for kind in ("dataset", "model")
    )
    return [
        Validation(_all_volumes(f"!volume.?secret.?secretName.orValue('').{_SSH_KEY}"), message, "Forbidden"),
        Validation(
            _all_volumes(f"{projected}.all(source, !source.?secret.?name.orValue('').{_SSH_KEY})"), message, "Forbidden"
        ),
        Validation(_all_containers(_variables_from_keys("each")), message, "Forbidden"),
        Validation(
            f"oldObject != null || ({_variables_from_keys('object.spec.?trainer')} && {initializers})",
            message,
            "Forbidden",
        ),
        Validation(
            _all_volumes(f"{projected}.all(source, !has(source.serviceAccountToken))"),
            "'pods of TrainJobs cannot mount a ServiceAccount token; remove the volume with serviceAccountToken'",
            "Forbidden",
        ),
    ]


def _placement() -> list[Validation]:
    return [
        Validation(
            _all_pods(
                "pod.?tolerations.orValue([]).all(each, each.?key.orValue('') != ''"
                " && !each.key.startsWith('node-role.kubernetes.io/'))"
            ),
            "'a toleration matches taints of other nodes; set the key of each toleration, and no key that starts with"
            " node-role.kubernetes.io/'",
        ),
        Validation(
            _all_pods("pod.?schedulingGates.orValue([]).size() == 0"),
            "'the queue decides when pods start; remove schedulingGates'",
        ),
        Validation(
            # Its webhook adds an empty patch: kueue v0.19.2 pkg/controller/jobs/trainjob/trainjob_webhook.go.
            "variables.patches.all(patch, !patch.manager.startsWith('kueue.x-k8s.io/')"
            " || patch.?trainingRuntimeSpec.?template.?spec.?replicatedJobs.orValue([]).size() == 0)",
            "'only Kueue can write patches of the manager kueue.x-k8s.io; set another manager'",
            "Forbidden",
        ),
    ]


def _identity() -> list[Validation]:
    return [
        Validation(
            _all_pods("!has(pod.serviceAccountName)"),
            "'pods of TrainJobs use the ServiceAccount of the runtime; remove serviceAccountName'",
            "Forbidden",
        ),
        Validation(
            _all_volumes(" || ".join(f"has(volume.{kind})" for kind in VOLUMES)),
            f"'a volume gives access outside the namespace; use one of {', '.join(VOLUMES)}'",
            "Forbidden",
        ),
    ]


def _privileges() -> Validation:
    return Validation(
        f"{_all_pods('!has(pod.securityContext)')} && {_all_containers('!has(each.securityContext)')}",
        "'only the runtime sets the security context of its pods; remove securityContext'",
        "Forbidden",
    )


def _reserved_metadata() -> list[Validation]:
    return [
        Validation(
            _sets_no_reserved("annotations", "profiles"),
            "'only the runtime sets networks and security profiles; remove annotations that start with '"
            " + variables.profiles.join(' or ')",
            "Forbidden",
        ),
        Validation(
            _sets_no_reserved("labels", "memberships"),
            "'only controllers set these labels of pods; remove labels that start with '"
            " + variables.memberships.join(' or ')",
            "Forbidden",
        ),
    ]


def patches() -> Rule:
    """Forbid patches that change the identity, privileges, Secrets, placement or reserved metadata of pods."""
    return Rule(
        name="patches",
        resource_rules=[TRAINJOBS],
        variables={**PODS, "profiles": json.dumps(_ANNOTATIONS), "memberships": json.dumps(_LABELS)},
        validations=[*_identity(), *_secrets(), _privileges(), *_placement(), *_reserved_metadata()],
    )
