"""Pods that may lock memory: the admission rule for them, and OpenShift's SecurityContextConstraints.

No Pod Security level but `privileged` allows IPC_LOCK. The rule therefore repeats what `restricted` requires
(kubernetes v1.34.2 staging/src/k8s.io/pod-security-admission/policy/check_*.go), with two differences: a container with
IPC_LOCK may escalate privileges, and every container drops capabilities itself, because the rule judges one container
at a time.

The SecurityContextConstraints are restricted-v2 (openshift/cluster-kube-apiserver-operator
bindata/bootkube/scc-manifests/*_scc-restricted-v2.yaml) with two differences that belong together: IPC_LOCK may be
added, and a container may escalate privileges, because a user other than root gets a capability only from a file.
Fields: openshift/apiserver-library-go pkg/securitycontextconstraints (sccmatching/provider.go,
capabilities/mustrunas.go).
"""

from __future__ import annotations

from generator.config.model.tenants import POD_SECURITY, Tenant
from generator.facts.names import IPC_LOCK, MEMLOCK_SCC, NET_BIND_SERVICE, SERVICE_ACCOUNT
from generator.manifests import Body
from generator.policies.access import RBAC, cluster_role, policy_rule
from generator.policies.admission import patches
from generator.policies.admission.policy import Demand, Requests, Rule

MEMLOCK = "memlock"
STANDARD = f"mpigen.dev/{POD_SECURITY}"
"""Label of a namespace whose pods this rule is for; the value is its name."""

_LOCK, _BIND = IPC_LOCK, NET_BIND_SERVICE
# What PodSecurity of 1.34 calls safe for `restricted`: check_restrictedVolumes.go, check_sysctls.go.
_VOLUMES = sorted((*patches.VOLUMES, "csi"))
_OTHERS = ("initContainers", "ephemeralContainers")
_OWN = "each.?securityContext"
_ADDED = f"{_OWN}.?capabilities.?add.orValue([])"
_HOOKS = ("lifecycle.?postStart", "lifecycle.?preStop")
_WAYS = ("httpGet", "tcpSocket")


def memlock() -> Rule:
    """For every pod, whoever makes it, and for containers that are put into one."""
    return Rule(
        name=MEMLOCK,
        requests=[
            Requests("", ("v1",), ("pods",), ("CREATE",)),
            Requests("", ("v1",), ("pods/ephemeralcontainers",), ("UPDATE",)),
        ],
        variables={},
        demands=[*_of_pods(), *_of_privileges(), *_of_users(), *_of_hosts()],
        conditions={},
        namespaces={STANDARD: MEMLOCK},
    )


def _each(expression: str) -> str:
    """CEL: so it is for every container. Those of the last kind are of another type, so there is no list of all."""
    kinds = ("object.spec.containers", *(f"object.spec.?{kind}.orValue([])" for kind in _OTHERS))
    return " && ".join(f"{containers}.all(each, {expression})" for containers in kinds)


def _effective(field: str, otherwise: str) -> str:
    """CEL: what a container says, or else its pod."""
    return f"{_OWN}.?{field}.orValue(object.spec.?securityContext.?{field}.orValue({otherwise}))"


def _refusal(expression: str, message: str) -> Demand:
    return Demand(expression, f"'{message}'", "Forbidden")


def _of_pods() -> list[Demand]:
    volumes = " || ".join(f"has(volume.{kind})" for kind in _VOLUMES)
    return [
        _refusal(
            " && ".join(f"!object.spec.?{field}.orValue(false)" for field in ("hostNetwork", "hostPID", "hostIPC")),
            "a pod has namespaces of its own; remove hostNetwork, hostPID and hostIPC",
        ),
        _refusal(
            f"object.spec.?volumes.orValue([]).all(volume, {volumes})",
            f"a volume reaches out of the namespace; use one of {', '.join(_VOLUMES)}",
        ),
        _refusal(
            "object.spec.?securityContext.?sysctls.orValue([]).size() == 0",
            "a pod leaves the kernel as it is; remove securityContext.sysctls",
        ),
    ]


def _of_privileges() -> list[Demand]:
    return [
        _refusal(
            _each(f"!{_OWN}.?privileged.orValue(false) && {_OWN}.?procMount.orValue('Default') == 'Default'"),
            "no container is privileged; remove privileged and procMount",
        ),
        _refusal(
            _each(f"'ALL' in {_OWN}.?capabilities.?drop.orValue([])"),
            "a container drops what it does not need; set securityContext.capabilities.drop to [ALL]",
        ),
        _refusal(
            _each(f"{_ADDED}.all(added, added in ['{_LOCK}', '{_BIND}'])"),
            f"a container may add the capabilities {_LOCK} and {_BIND}, and no other",
        ),
        _refusal(
            _each(f"'{_LOCK}' in {_ADDED} || !{_OWN}.?allowPrivilegeEscalation.orValue(true)"),
            f"a container without {_LOCK} gains nothing; set securityContext.allowPrivilegeEscalation to false",
        ),
    ]


def _of_users() -> list[Demand]:
    return [
        _refusal(
            _each(f"{_effective('runAsNonRoot', 'false')} && {_effective('runAsUser', '1')} != 0"),
            "a container is not root; set securityContext.runAsNonRoot to true, and no runAsUser of 0",
        ),
        _refusal(
            _each(
                f"{_OWN}.?seccompProfile.?type"
                ".orValue(object.spec.?securityContext.?seccompProfile.?type.orValue('')) in"
                " ['RuntimeDefault', 'Localhost']"
            ),
            "a container calls the kernel by a profile; set securityContext.seccompProfile.type to RuntimeDefault",
        ),
        _refusal(
            f"{_confined('object.spec.?securityContext')} && {_each(_confined(_OWN))}"
            " && object.metadata.?annotations.orValue({}).all(key, !key.startsWith("
            "'container.apparmor.security.beta.kubernetes.io/') || object.metadata.annotations[key] != 'unconfined')",
            "a container keeps the profiles of SELinux and AppArmor that the cluster gives it; remove them",
        ),
    ]


def _confined(owner: str) -> str:
    """CEL: no profile is weakened. OpenShift itself sets the level of SELinux, which weakens nothing."""
    selinux = " && ".join(f"{owner}.?seLinuxOptions.?{field}.orValue('') == ''" for field in ("user", "role", "type"))
    return (
        f"{selinux} && {owner}.?appArmorProfile.?type.orValue('RuntimeDefault') != 'Unconfined'"
        f" && !{owner}.?windowsOptions.?hostProcess.orValue(false)"
    )


def _of_hosts() -> list[Demand]:
    probes = (*(f"{kind}Probe" for kind in ("liveness", "readiness", "startup")), *_HOOKS)
    asked = " && ".join(f"each.?{probe}.?{way}.?host.orValue('') == ''" for probe in probes for way in _WAYS)
    return [
        _refusal(
            _each(f"each.?ports.orValue([]).all(port, port.?hostPort.orValue(0) == 0) && {asked}"),
            "a container has nothing of its node; remove hostPort, and the host of probes and hooks",
        )
    ]


_GROUP = "security.openshift.io"


def security_context_constraints() -> Body:
    """What pods may ask for. Nobody is named in it: a role grants it."""
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "SecurityContextConstraints",
        "metadata": {"name": MEMLOCK_SCC},
        "allowHostDirVolumePlugin": False,
        "allowHostIPC": False,
        "allowHostNetwork": False,
        "allowHostPID": False,
        "allowHostPorts": False,
        "allowPrivilegeEscalation": True,
        "allowPrivilegedContainer": False,
        "allowedCapabilities": [IPC_LOCK, NET_BIND_SERVICE],
        "defaultAddCapabilities": [],
        "defaultAllowPrivilegeEscalation": False,
        "fsGroup": {"type": "MustRunAs"},
        "groups": [],
        "priority": 0,
        "readOnlyRootFilesystem": False,
        "requiredDropCapabilities": ["ALL"],
        "runAsUser": {"type": "MustRunAsRange"},
        "seLinuxContext": {"type": "MustRunAs"},
        "seccompProfiles": ["runtime/default"],
        "supplementalGroups": {"type": "RunAsAny"},
        "userNamespaceLevel": "AllowHostLevel",
        "users": [],
        "volumes": [
            "configMap",
            "csi",
            "downwardAPI",
            "emptyDir",
            "ephemeral",
            "persistentVolumeClaim",
            "projected",
            "secret",
        ],
    }


def memlock_role() -> Body:
    """The right to use it."""
    return cluster_role(MEMLOCK_SCC, [policy_rule(_GROUP, ["securitycontextconstraints"], ["use"], [MEMLOCK_SCC])])


def memlock_role_binding(tenant: Tenant) -> Body:
    """The right for the pods of jobs: it is their ServiceAccount's, as a controller makes them, and no person."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": MEMLOCK_SCC, "namespace": tenant.name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": MEMLOCK_SCC},
        "subjects": [{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": tenant.name}],
    }
