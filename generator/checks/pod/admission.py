"""pod/pod-security: pods and pod templates that the Pod Security level of their Namespace rejects."""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.finding import Breach
from generator.checks.objects import Objects
from generator.checks.registry import ERROR, check
from generator.facts.versions import minors
from generator.objects.fields import mapping
from generator.objects.namespace import is_openshift
from generator.objects.pods import RUNTIMES, pod_templates
from generator.upstream.kubernetes.pod_security import find_violations, read_level

_LEFT_OUT = {*RUNTIMES, "TrainJob", "PodTemplate"}
"""The kinds of `runtime/pod-security` and `trainjob/pod-security`, and PodTemplate, which starts no pod."""


@check("pod/pod-security", severity=ERROR, needs=Objects)
def pod_security(objects: Objects) -> Iterator[Breach]:
    """Report pods that violate the Pod Security level of their Namespace.

    The API server rejects such a Pod. It accepts a Deployment, a Job or another object with such a pod template, but
    rejects its pods, so that the object never has one. Only events and the status of its controller show the message.

    The check needs the Namespace in the files, with the label `pod-security.kubernetes.io/enforce`. On OpenShift, it
    reports only fields with forbidden values, because the SecurityContextConstraints set absent fields first.
    `runtime/pod-security` reports the pods of a runtime, and `trainjob/pod-security` the pods of a TrainJob.

    Source: pod-security-admission v0.34.2 policy/registry.go checkRegistry.EvaluatePod
    """
    minor = int((objects.targets.get("kubernetes") or minors("kubernetes")[0]).partition(".")[2])
    sets_absent = is_openshift(objects.manifests)
    for manifest in (*objects.manifests, *objects.others):
        for pods in pod_templates(manifest) if manifest.kind not in _LEFT_OUT else ():
            namespace = objects.one("", "Namespace", manifest.namespace)
            level = read_level(namespace.body) if namespace else None
            if level is None:
                continue
            body = {"metadata": mapping(pods.body, "metadata"), "spec": dict(pods.spec)}
            violations = [
                violation
                for violation in find_violations(body, level, minor)
                if not (violation.is_unset and sets_absent)
            ]
            if violations:
                one = manifest.kind == "Pod"
                role = "" if pods.role == manifest.kind else f" `{pods.role}`"
                yield Breach(
                    (*pods.path, *violations[0].path),
                    f'the {"pod violates" if one else f"pods{role} violate"} PodSecurity "{level}" of Namespace '
                    f"`{manifest.namespace}`: {', '.join(map(str, violations))}",
                    "the API server rejects the pod" if one else "the API server rejects the pods of this object",
                    "change the fields as the message requires, or lower the Pod Security level of the Namespace",
                    manifest,
                )
