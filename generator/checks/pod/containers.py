"""pod/container-name, pod/image, pod/port, pod/restart-policy and pod/restart-rules: the containers of pods."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from generator.checks.pod.templates import Pods, containers_of, is_init, is_sidecar, replicated_job_of, report
from generator.checks.registry import ERROR, Breach, check
from generator.documents.messages import format_path, format_value
from generator.facts.images import image_fault
from generator.objects.fields import indexed_mappings, mapping
from generator.objects.pods import RUNTIMES, Container, PodTemplate

_LAST_PORT = 65535
_PLACEHOLDER = re.compile(r"[${]|^[A-Z][A-Z0-9_]*$")
_OF_JOB_SETS = frozenset({"JobSet", *RUNTIMES})


@check("pod/container-name", severity=ERROR, needs=Pods)
def container_name(pods: Pods) -> Iterator[Breach]:
    """Report an init container with the name of another container.

    The API server rejects an init container and a container with the same name.
    [schema/duplicate-item](../schema/duplicate-item.md) reports a name that repeats within one of the two lists.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go validateInitContainers
    """
    for template in pods.templates:
        names = {str(container.body.get("name")): container for container in template.containers}
        for container in template.init_containers:
            name = container.body.get("name")
            if isinstance(name, str) and name and (other := names.get(name)):
                place = format_path(other.path[len(template.path) :])
                message = f"the init container {format_value(name)} has the name of the container `{place}`"
                yield report(template, (*container.path, "name"), message, "rename the init container", name)


@check("pod/image", severity=ERROR, needs=Pods)
def image(pods: Pods) -> Iterator[Breach]:
    """Report an image that is not an image reference.

    The API server rejects a pod whose image starts or ends with a blank, but not the pod template of another object. So
    the controller of this object creates no pod. Every other mistake passes the API server, and the kubelet then starts
    no container: the status of the pod is `InvalidImageName`. The check leaves out placeholders, which another tool
    replaces: an image with `$` or `{`, and a name of capital letters.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go validateContainerOnlyForPod; kubernetes v1.34.2
    pkg/util/parsers/parsers.go ParseImageName; github.com/distribution/reference v0.6.0 ParseNormalizedNamed
    """
    for template, container in pods.containers:
        value, path = container.body.get("image"), (*container.path, "image")
        if not isinstance(value, str) or not value or _PLACEHOLDER.search(value):
            continue
        if value != value.strip():
            message = f"the image `{value}` starts or ends with a blank"
            yield report(template, path, message, "remove the blank", value, is_of_pods=True)
        elif fault := image_fault(value)[0]:
            message, fix = f"{format_value(value)} is not an image: {fault}", image_fault(value)[1]
            why = "the kubelet never starts the container, and the status of the pod is InvalidImageName"
            yield Breach(path, message, why, fix, value=value)


@check("pod/port", severity=ERROR, needs=Pods)
def port(pods: Pods) -> Iterator[Breach]:
    """Report container ports that conflict, so that the API server rejects the pods.

    The check reports two ports of a container with the same name, two entries with the same port of the node, and a
    `hostPort` that differs from `containerPort` in the host network. With `hostNetwork`, `hostPort` defaults to
    `containerPort` in pods, but not in pod templates.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go validateContainerPorts; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go checkHostPortConflicts; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go validatePodHostNetworkDeps; kubernetes v1.34.2 pkg/apis/core/v1/defaults.go
    SetDefaults_Pod
    """
    for template in pods.templates:
        for container in containers_of(template):
            yield from _repeated_names(template, container)
        in_host = template.spec.get("hostNetwork") is True
        if in_host:
            yield from _other_host_ports(template)
        yield from _repeated_host_ports(template, template.containers, in_host=in_host)
        for container in template.init_containers:
            yield from _repeated_host_ports(template, [container], in_host=in_host)


def _repeated_names(template: PodTemplate, container: Container) -> Iterator[Breach]:
    names: set[str] = set()
    for number, body in indexed_mappings(container.body.get("ports")):
        name = body.get("name")
        if isinstance(name, str) and name:
            if name in names:
                message = f"two ports of the container have the name {format_value(name)}"
                path = (*container.path, "ports", number, "name")
                yield report(template, path, message, "rename one of the ports", name)
            names.add(name)


def _is_port(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _LAST_PORT


def _other_host_ports(template: PodTemplate) -> Iterator[Breach]:
    for container in template.containers:
        for number, body in indexed_mappings(container.body.get("ports")):
            host, own = body.get("hostPort"), body.get("containerPort")
            if _is_port(host) and _is_port(own) and host != own:
                message = f"`hostPort` is {format_value(host)} and `containerPort` is {format_value(own)}, but the "
                message += "pods are in the host network"
                path = (*container.path, "ports", number, "hostPort")
                yield report(template, path, message, "remove `hostPort`, or set both to the same port", host)


def _repeated_host_ports(template: PodTemplate, containers: Iterable[Container], *, in_host: bool) -> Iterator[Breach]:
    first: dict[tuple[object, ...], str] = {}
    for container in containers:
        for number, body in indexed_mappings(container.body.get("ports")):
            written = body.get("hostPort")
            used = written or (body.get("containerPort") if in_host else None)
            if not _is_port(used):
                continue
            path = (*container.path, "ports", number, "hostPort" if written else "containerPort")
            place = format_path(path[len(template.path) :])
            other = first.setdefault((body.get("protocol") or "TCP", body.get("hostIP") or "", used), place)
            if other != place:
                is_default = not (written and other.endswith("hostPort"))
                message = f"`{other}` also uses port {used} of the node"
                fix = "choose another port for one of the two"
                yield report(template, path, message, fix, used, is_of_pods=is_default)


@check("pod/restart-policy", severity=ERROR, needs=Pods)
def restart_policy(pods: Pods) -> Iterator[Breach]:
    """Report a restart policy of pods that their Job or their containers do not allow.

    The pods of a Job need the restart policy `OnFailure` or `Never`, and `Never` with a `podFailurePolicy`. JobSet sets
    `OnFailure` in pods without a restart policy. `restartPolicy: RestartContainer` in the `resizePolicy` of a container
    excludes `restartPolicy: Never` in its pods.

    [schema/not-allowed](../schema/not-allowed.md) reports the policy of a Job, a CronJob or a Deployment.

    Source: kubernetes v1.34.2 pkg/apis/batch/validation/validation.go validateJobSpec, validateJobTemplateSpec;
    kubernetes v1.34.2 pkg/apis/core/validation/validation.go validateResizePolicy; jobset v0.12.0
    pkg/webhooks/jobset_webhook.go jobSetWebhook.Default
    """
    for template in pods.templates:
        policy = template.spec.get("restartPolicy")
        path = (*template.path, "spec", "restartPolicy")
        if pods.manifest.kind in _OF_JOB_SETS:
            job = mapping(replicated_job_of(template), "template", "spec")
            if policy == "Always":
                message = "the pods of the Job have `restartPolicy: Always`"
                yield report(template, path, message, "set `OnFailure` or `Never`", policy)
            elif policy != "Never" and job.get("podFailurePolicy") is not None:
                message = (
                    f"the Job has a `podFailurePolicy`, but its pods have `restartPolicy: {policy or 'OnFailure'}`"
                )
                yield report(template, path, message, "set `restartPolicy: Never`", policy)
        if policy == "Never":
            for container in containers_of(template):
                for number, resize in indexed_mappings(container.body.get("resizePolicy")):
                    if resize.get("restartPolicy") == "RestartContainer":
                        message = "a resize restarts the container, but the pods have `restartPolicy: Never`"
                        place = (*container.path, "resizePolicy", number, "restartPolicy")
                        fix = "set `restartPolicy: NotRequired` in `resizePolicy`"
                        yield report(template, place, message, fix, "RestartContainer")


@check("pod/resize-restart", severity=ERROR, needs=Pods, since="kubernetes 1.36")
def resize_restart(pods: Pods) -> Iterator[Breach]:
    """Report an init container that a resize restarts.

    In an init container, `restartPolicy: RestartContainer` in `resizePolicy` needs `restartPolicy: Always` of the
    container, which makes it a sidecar. Kubernetes 1.35 and earlier accept the value in every init container.

    Source: kubernetes v1.36.3 pkg/apis/core/validation/validation.go validateInitContainers
    """
    for template, container in pods.containers:
        if is_init(container) and not is_sidecar(container):
            for number, resize in indexed_mappings(container.body.get("resizePolicy")):
                if resize.get("restartPolicy") == "RestartContainer":
                    name = format_value(container.body.get("name"))
                    message = f"a resize restarts the init container {name}, which is no sidecar"
                    place = (*container.path, "resizePolicy", number, "restartPolicy")
                    fix = "set `restartPolicy: NotRequired` in `resizePolicy`"
                    yield report(template, place, message, fix, "RestartContainer")


@check("pod/restart-rules", severity=ERROR, needs=Pods, since="kubernetes 1.35")
def restart_rules(pods: Pods) -> Iterator[Breach]:
    """Report a container with `restartPolicyRules` that has no `restartPolicy`.

    The rules restart a container by its exit code, and the `restartPolicy` of this container holds for all other exit
    codes. The `restartPolicy` of the pod does not replace it. Kubernetes 1.34 removes the rules without an error.

    Source: kubernetes v1.37.2 pkg/apis/core/validation/validation.go validateContainerRestartPolicy; kubernetes v1.37.2
    pkg/apis/core/validation/validation.go validateInitContainerRestartPolicy
    """
    for template, container in pods.containers:
        if container.body.get("restartPolicyRules") and container.body.get("restartPolicy") is None:
            name = format_value(container.body.get("name"))
            message = f"the container {name} has `restartPolicyRules`, but no `restartPolicy` of its own"
            fix = "set the `restartPolicy` for all other exit codes in this container, such as `Never`"
            yield report(template, (*container.path, "restartPolicyRules"), message, fix)
