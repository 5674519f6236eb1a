"""pod/security, pod/host-namespace, pod/hostname and pod/os: privileges, and what pods share with their node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from generator.checks.finding import Breach
from generator.checks.pod.templates import Pods, containers_of, report, security_of
from generator.checks.registry import ERROR, check
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.facts.names import CAP_SYS_ADMIN
from generator.objects.fields import indexed_mappings, mapping
from generator.objects.pods import PodTemplate

_HOST = ("hostNetwork", "hostPID", "hostIPC")
_OF_IPC = frozenset(
    {
        *("kernel.sem", "kernel.shm", "kernel.shmall", "kernel.shmmax", "kernel.shmmni", "kernel.shm_rmid_forced"),
        *("kernel.msg", "kernel.msgmax", "kernel.msgmnb", "kernel.msgmni"),
    }
)
"""Kernel parameters of the IPC namespace. Source: component-helpers v0.34.2 node/util/sysctl/namespace.go
nameToNamespace; component-helpers v0.34.2 node/util/sysctl/namespace.go prefixToNamespace"""
_LINUX_OF_PODS = (
    *("appArmorProfile", "fsGroup", "fsGroupChangePolicy", "runAsGroup", "runAsUser", "seLinuxChangePolicy"),
    *("seLinuxOptions", "seccompProfile", "supplementalGroups", "supplementalGroupsPolicy", "sysctls"),
)
_LINUX_OF_CONTAINERS = (
    *("allowPrivilegeEscalation", "appArmorProfile", "capabilities", "privileged", "procMount"),
    *("readOnlyRootFilesystem", "runAsGroup", "runAsUser", "seLinuxOptions", "seccompProfile"),
)


@check("pod/security", severity=ERROR, needs=Pods)
def security(pods: Pods) -> Iterator[Breach]:
    """Report a security context whose fields exclude each other.

    A privileged container and a container with `CAP_SYS_ADMIN` can always escalate privileges, so both exclude
    `allowPrivilegeEscalation: false`. `procMount: Unmasked` needs a user namespace (`hostUsers: false`). The API server
    accepts `runAsUser: 0` with `runAsNonRoot: true`, but the kubelet does not start the container.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidateSecurityContext; kubernetes v1.34.2
    pkg/kubelet/kuberuntime/security_context_others.go verifyRunAsNonRoot
    """
    roots: set[Path] = set()
    for template, container in pods.containers:
        own, path = container.security, (*container.path, "securityContext")
        if own.get("allowPrivilegeEscalation") is False:
            place = (*path, "allowPrivilegeEscalation")
            if own.get("privileged") is True:
                message = "`allowPrivilegeEscalation` is `false` in a privileged container"
                yield report(template, place, message, "remove `allowPrivilegeEscalation` or `privileged`", value=False)
            if CAP_SYS_ADMIN in container.added_capabilities:
                message = "`allowPrivilegeEscalation` is `false` in a container with `CAP_SYS_ADMIN`"
                yield report(template, place, message, "remove the field or the capability", value=False)
        if own.get("procMount") == "Unmasked" and template.spec.get("hostUsers") is not False:
            message = "`procMount` is `Unmasked`, but the pods have no user namespace"
            yield report(template, (*path, "procMount"), message, "set `hostUsers: false` in the pods", "Unmasked")
        of_pods = security_of(template)
        user, other = own.get("runAsUser"), own.get("runAsNonRoot")
        user = of_pods.get("runAsUser") if user is None else user
        other = of_pods.get("runAsNonRoot") if other is None else other
        if other is True and user == 0 and not isinstance(user, bool):
            where = path if own.get("runAsUser") is not None else (*template.path, "spec", "securityContext")
            if where in roots:
                continue
            roots.add(where)
            yield Breach(
                (*where, "runAsUser"),
                f"the container {format_value(container.body.get('name'))} has `runAsUser: 0` and `runAsNonRoot: true`",
                "the kubelet does not start the container (CreateContainerConfigError)",
                "set another user, or remove `runAsNonRoot`",
                value=0,
            )


@check("pod/host-namespace", severity=ERROR, needs=Pods)
def host_namespace(pods: Pods) -> Iterator[Breach]:
    """Report pods that combine namespaces of the node with fields that need namespaces of the pods.

    With `hostUsers: false` pods cannot use the network, the processes, the IPC namespace or block devices of the node.
    `shareProcessNamespace` excludes `hostPID`, and kernel parameters (`sysctls`) of the network or of IPC exclude
    `hostNetwork` or `hostIPC`. The check also reports a kernel parameter that is set twice.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go validateHostUsers; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go validateSysctls; kubernetes v1.34.2 pkg/apis/core/validation/validation.go
    ValidateHostSysctl; kubernetes v1.34.2 pkg/apis/core/validation/validation.go validatePodSpecSecurityContext
    """
    for template in pods.templates:
        spec, path = template.spec, (*template.path, "spec")
        if spec.get("hostUsers") is False:
            for key in _HOST:
                if spec.get(key) is True:
                    message = f"`{key}` is `true`, but `hostUsers` is `false`"
                    yield report(template, (*path, key), message, f"remove `{key}` or `hostUsers`", value=True)
            for container in containers_of(template):
                if container.body.get("volumeDevices"):
                    message = "the container has `volumeDevices`, but `hostUsers` is `false`"
                    place = (*container.path, "volumeDevices")
                    yield report(template, place, message, "remove `volumeDevices` or `hostUsers`")
        if spec.get("shareProcessNamespace") is True and spec.get("hostPID") is True:
            message = "`shareProcessNamespace` and `hostPID` are both `true`"
            yield report(template, (*path, "shareProcessNamespace"), message, "remove one of the fields", value=True)
        yield from _sysctls(template)


def _sysctls(template: PodTemplate) -> Iterator[Breach]:
    """Yield the breaches of the kernel parameters of pods."""
    names: set[str] = set()
    for number, body in indexed_mappings(security_of(template).get("sysctls")):
        written = body.get("name")
        if not isinstance(written, str):
            continue
        path = (*template.path, "spec", "securityContext", "sysctls", number, "name")
        if written in names:
            message = f"the kernel parameter {format_value(written)} is set twice"
            yield report(template, path, message, "remove one of the entries", written)
        names.add(written)
        name = written.replace("/", ".") if "/" in written.partition(".")[0] else written
        if name.startswith("net.") and template.spec.get("hostNetwork") is True:
            used = "hostNetwork"
        elif (name in _OF_IPC or name.startswith("fs.mqueue.")) and template.spec.get("hostIPC") is True:
            used = "hostIPC"
        else:
            continue
        message = f"the kernel parameter {format_value(written)} belongs to the node, because `{used}` is `true`"
        yield report(template, path, message, f"set the parameter on the node, or remove `{used}`", written)


@check("pod/hostname", severity=ERROR, needs=Pods, since="kubernetes 1.35")
def hostname(pods: Pods) -> Iterator[Breach]:
    """Report pods with `hostnameOverride` and another field that sets the hostname.

    With `hostNetwork` the pods have the hostname of their node, and with `setHostnameAsFQDN` their full domain name, so
    both exclude `hostnameOverride`. Kubernetes 1.34 removes `hostnameOverride` without an error.

    Source: kubernetes v1.37.2 pkg/apis/core/validation/validation.go validatePodHostName
    """
    for template in pods.templates:
        value = template.spec.get("hostnameOverride")
        for key in ("hostNetwork", "setHostnameAsFQDN"):
            if value is not None and template.spec.get(key) is True:
                message = f"the pods have `hostnameOverride`, but `{key}` is `true`"
                fix = f"remove `hostnameOverride` or `{key}`"
                yield report(template, (*template.path, "spec", "hostnameOverride"), message, fix, value)


@check("pod/os", severity=ERROR, needs=Pods)
def os(pods: Pods) -> Iterator[Breach]:
    """Report fields of pods that the operating system of the pods does not support.

    `os.name` must be `linux` or `windows`. Windows pods cannot have Linux fields in their security contexts, and Linux
    pods cannot have `windowsOptions`. If one container is a HostProcess container, all containers of the pods must be
    HostProcess containers, and the pods must use the host network.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go validateLinux; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go validateWindows; kubernetes v1.34.2 pkg/apis/core/validation/validation.go
    validateWindowsHostProcessPod; kubernetes v1.34.2 pkg/apis/core/validation/validation.go validatePodResources
    """
    for template in pods.templates:
        name = mapping(template.spec, "os").get("name")
        path = (*template.path, "spec")
        wrong: list[tuple[Path, Mapping[str, object], Sequence[str]]] = [
            ((*path, "securityContext"), security_of(template), _LINUX_OF_PODS)
        ]
        wrong += [
            ((*container.path, "securityContext"), container.security, _LINUX_OF_CONTAINERS)
            for container in containers_of(template)
        ]
        if name == "linux":
            for place, body, _ in wrong:
                if body.get("windowsOptions") is not None:
                    message = "`windowsOptions` is set, but the pods run on `linux`"
                    yield report(template, (*place, "windowsOptions"), message, "remove `windowsOptions`")
        if name == "windows":
            of_spec = ("hostIPC", "hostPID", "hostUsers", "resources", "shareProcessNamespace")
            for place, body, keys in [*wrong, (path, template.spec, of_spec)]:
                for key in keys:
                    value = body.get(key)
                    is_set = value is not None and (value or key not in ("hostIPC", "hostPID", "sysctls"))
                    if is_set:
                        message = f"`{key}` is set, but the pods run on `windows`"
                        yield report(template, (*place, key), message, f"remove `{key}`")
        yield from _host_processes(template)


def _host_processes(template: PodTemplate) -> Iterator[Breach]:
    of_pods = mapping(security_of(template), "windowsOptions").get("hostProcess")
    used = []
    for container in containers_of(template):
        own = mapping(container.security, "windowsOptions").get("hostProcess")
        used.append(own is True or (own is None and of_pods is True))
        if own is not None and of_pods is not None and own != of_pods:
            path = (*container.path, "securityContext", "windowsOptions", "hostProcess")
            message = f"`hostProcess` is {format_value(own)} in the container, but {format_value(of_pods)} in the pods"
            yield report(template, path, message, "set the same value in both", own)
    path = (*template.path, "spec")
    if any(used) and not all(used):
        message = "only some containers are HostProcess containers"
        fix = "set `windowsOptions.hostProcess: true` in the `securityContext` of the pods"
        yield report(template, (*path, "containers"), message, fix)
    if any(used) and template.spec.get("hostNetwork") is not True:
        message = "the pods have HostProcess containers, but are not in the host network"
        yield report(template, (*path, "hostNetwork"), message, "set `hostNetwork: true`")
