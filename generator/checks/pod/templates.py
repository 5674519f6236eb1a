"""The pod templates of an object, and the effect of a mistake in a pod template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from generator.checks.finding import Breach, Severity
from generator.documents.load import Path
from generator.manifests import Manifest
from generator.objects.fields import mapping
from generator.objects.pods import RUNTIMES, Container, PodTemplate, pod_templates

_BUILT_IN = ("", "apps", "batch")
_INIT = "initContainers"
_WITH_CONDITION = ("Deployment", "ReplicaSet", "ReplicationController")  # `ReplicaFailure`


@dataclass(frozen=True)
class Pods:
    """The complete pod templates of an object. A TrainJob has only patches of the templates of its runtime.

    Attributes:
        manifest: the object.
    """

    manifest: Manifest

    @classmethod
    def of_manifest(cls, manifest: Manifest, _: Mapping[str, str]) -> Self | None:
        """Return the pod templates of an object; None if it has no complete one."""
        if manifest.kind == "TrainJob" or not any(True for _ in pod_templates(manifest)):
            return None
        return cls(manifest)

    @cached_property
    def templates(self) -> tuple[PodTemplate, ...]:
        """The pod templates that have a spec."""
        return tuple(template for template in pod_templates(self.manifest) if template.spec)

    @cached_property
    def containers(self) -> tuple[tuple[PodTemplate, Container], ...]:
        """The containers with their templates, init containers first."""
        return tuple((template, container) for template in self.templates for container in containers_of(template))


def containers_of(template: PodTemplate) -> Iterator[Container]:
    """Yield the init containers and the containers of a template."""
    yield from template.init_containers
    yield from template.containers


def is_init(container: Container) -> bool:
    """Return True if a container is an init container."""
    return container.path[-2] == _INIT


def is_sidecar(container: Container) -> bool:
    """Return True if a container is an init container that runs as long as the pod."""
    return is_init(container) and container.body.get("restartPolicy") == "Always"


def is_custom(manifest: Manifest) -> bool:
    """Return True if the API server stores the pod templates of an object without validation."""
    return manifest.group not in _BUILT_IN


def replicated_job_of(template: PodTemplate) -> Mapping[str, Any]:
    """Return the replicated job of a template in a JobSet or a runtime."""
    body: Any = template.manifest.body
    for step in template.path[:-3]:
        body = body[step]
    return mapping(body)


def report(  # noqa: PLR0913 - the fields of a Breach
    template: PodTemplate,
    path: Path,
    message: str,
    fix: str,
    value: object = None,
    *,
    is_of_pods: bool = False,
    severity: Severity | None = None,
) -> Breach:
    """Return the breach of a pod template that violates a rule of the API server.

    Args:
        template: the pod template.
        path: the path in the object.
        message: the mistake.
        fix: the correction.
        value: the value at the path.
        is_of_pods: True if the API server applies the rule only to pods, not to pod templates.
        severity: a severity below that of the check.
    """
    why = effect_on_pods(template) if is_of_pods else effect(template)
    return Breach(path, message, why, fix, severity=severity, value=value)


def effect(template: PodTemplate) -> str:
    """Return the effect of a pod template that the API server rejects."""
    kind, role = template.manifest.kind, template.role
    if kind in RUNTIMES:
        return (
            f"the API server accepts the runtime, but rejects the Job `{role}` of every TrainJob that uses it: no pod "
            "starts, and only an event `JobCreationFailed` of the JobSet reports the error"
        )
    if kind == "JobSet":
        return (
            f"the API server accepts the JobSet, but rejects its Job `{role}`: no pod of this Job starts, and only an "
            "event `JobCreationFailed` reports the error"
        )
    if is_custom(template.manifest):
        return "the API server accepts the object, but rejects its pods"
    return "the API server rejects the object"


def effect_on_pods(template: PodTemplate) -> str:
    """Return the effect of a pod template that the API server accepts, although it rejects the pods.

    Source: kubernetes v1.34.2 pkg/controller/replicaset/replica_set_utils.go calculateStatus, which sets the condition
    """
    kind = template.manifest.kind
    if kind == "Pod":
        return "the API server rejects the pod"
    if kind in _WITH_CONDITION:
        return (
            "the API server accepts the object, but rejects every pod; the condition `ReplicaFailure` and an event "
            "`FailedCreate` report the error"
        )
    of_trainjob = " of every TrainJob that uses the runtime" if kind in RUNTIMES else ""
    return (
        f"the API server accepts the object, but rejects every pod{of_trainjob}, and only an event `FailedCreate` "
        "reports the error"
    )


def security_of(template: PodTemplate) -> Mapping[str, Any]:
    """Return the security context of the pods."""
    return mapping(template.spec, "securityContext")
