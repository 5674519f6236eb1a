"""Pods that may lock memory: the admission rule for them, and OpenShift's SecurityContextConstraints.

No Pod Security level but `privileged` allows IPC_LOCK. The rule therefore repeats what `restricted` requires
(kubernetes v1.34.2 staging/src/k8s.io/pod-security-admission/policy/check_*.go), with two differences: a container with
IPC_LOCK may escalate privileges, and every container drops capabilities itself, because the rule judges one container
at a time.

The SecurityContextConstraints are in policies/objects.yaml.
"""

from __future__ import annotations

from generator.config.model.tenants import POD_SECURITY, Tenant
from generator.facts.names import IPC_LOCK, MEMLOCK_SCC, NET_BIND_SERVICE, SERVICE_ACCOUNT
from generator.manifests import Body
from generator.policies.access import RBAC, cluster_role, policy_rule
from generator.policies.admission import patches
from generator.policies.admission.policy import ResourceRule, Rule, Validation

MEMLOCK = "memlock"
STANDARD = f"mpigen.dev/{POD_SECURITY}"
"""Label of the namespaces in which the rule holds; the value is the name of the rule."""

_LOCK, _BIND = IPC_LOCK, NET_BIND_SERVICE
# What Pod Security of 1.34 allows for `restricted`: check_restrictedVolumes.go, check_sysctls.go.
_VOLUMES = sorted((*patches.VOLUMES, "csi"))
_OTHER_CONTAINERS = ("initContainers", "ephemeralContainers")
_SECURITY = "each.?securityContext"
_ADDED = f"{_SECURITY}.?capabilities.?add.orValue([])"
_HOOKS = ("lifecycle.?postStart", "lifecycle.?preStop")
_WAYS = ("httpGet", "tcpSocket")


def memlock() -> Rule:
    """Require `restricted` with IPC_LOCK of every pod, also of controllers, and of ephemeral containers."""
    return Rule(
        name=MEMLOCK,
        resource_rules=[
            ResourceRule("", ("v1",), ("pods",), ("CREATE",)),
            ResourceRule("", ("v1",), ("pods/ephemeralcontainers",), ("UPDATE",)),
        ],
        validations=[*_pod_validations(), *_privilege_validations(), *_user_validations(), *_host_validations()],
        namespace_labels={STANDARD: MEMLOCK},
        judges_controllers=True,
    )


def _all_containers(expression: str) -> str:
    """Return CEL that is true if an expression holds for every container, of all three types."""
    kinds = ("object.spec.containers", *(f"object.spec.?{kind}.orValue([])" for kind in _OTHER_CONTAINERS))
    return " && ".join(f"{containers}.all(each, {expression})" for containers in kinds)


def _effective(field: str, otherwise: str) -> str:
    """Return CEL for a field of a container's security context, with the field of its pod as the default."""
    return f"{_SECURITY}.?{field}.orValue(object.spec.?securityContext.?{field}.orValue({otherwise}))"


def _forbidden(expression: str, message: str) -> Validation:
    return Validation(expression, f"'{message}'", "Forbidden")


def _pod_validations() -> list[Validation]:
    volumes = " || ".join(f"has(volume.{kind})" for kind in _VOLUMES)
    return [
        _forbidden(
            " && ".join(f"!object.spec.?{field}.orValue(false)" for field in ("hostNetwork", "hostPID", "hostIPC")),
            "a pod cannot use the namespaces of its node; remove hostNetwork, hostPID and hostIPC",
        ),
        _forbidden(
            f"object.spec.?volumes.orValue([]).all(volume, {volumes})",
            f"a volume gives access outside the namespace; use one of {', '.join(_VOLUMES)}",
        ),
        _forbidden(
            "object.spec.?securityContext.?sysctls.orValue([]).size() == 0",
            "a pod cannot change kernel parameters; remove securityContext.sysctls",
        ),
    ]


def _privilege_validations() -> list[Validation]:
    return [
        _forbidden(
            _all_containers(
                f"!{_SECURITY}.?privileged.orValue(false) && {_SECURITY}.?procMount.orValue('Default') == 'Default'"
            ),
            "a container cannot be privileged; remove privileged and procMount",
        ),
        _forbidden(
            _all_containers(f"'ALL' in {_SECURITY}.?capabilities.?drop.orValue([])"),
            "a container must drop all capabilities; set securityContext.capabilities.drop to [ALL]",
        ),
        _forbidden(
            _all_containers(f"{_ADDED}.all(added, added in ['{_LOCK}', '{_BIND}'])"),
            f"a container can add only the capabilities {_LOCK} and {_BIND}; remove the others",
        ),
        _forbidden(
            _all_containers(f"'{_LOCK}' in {_ADDED} || !{_SECURITY}.?allowPrivilegeEscalation.orValue(true)"),
            f"a container without {_LOCK} cannot escalate; set securityContext.allowPrivilegeEscalation to false",
        ),
    ]


def _user_validations() -> list[Validation]:
    return [
        _forbidden(
            _all_containers(f"{_effective('runAsNonRoot', 'false')} && {_effective('runAsUser', '1')} != 0"),
            "a container cannot run as root; set securityContext.runAsNonRoot to true, and no runAsUser of 0",
        ),
        _forbidden(
            _all_containers(
                f"{_SECURITY}.?seccompProfile.?type"
                ".orValue(object.spec.?securityContext.?seccompProfile.?type.orValue('')) in"
                " ['RuntimeDefault', 'Localhost']"
            ),
            "a container needs a seccomp profile; set securityContext.seccompProfile.type to RuntimeDefault",
        ),
        _forbidden(
            f"{_keeps_profiles('object.spec.?securityContext')} && {_all_containers(_keeps_profiles(_SECURITY))}"
            " && object.metadata.?annotations.orValue({}).all(key, !key.startsWith("
            "'container.apparmor.security.beta.kubernetes.io/') || object.metadata.annotations[key] != 'unconfined')",
            "a container cannot change its SELinux and AppArmor profiles; remove seLinuxOptions and appArmorProfile",
        ),
    ]


def _keeps_profiles(owner: str) -> str:
    """Return CEL that is true if no profile is weakened. OpenShift sets the SELinux level, which weakens none."""
    selinux = " && ".join(f"{owner}.?seLinuxOptions.?{field}.orValue('') == ''" for field in ("user", "role", "type"))
    return (
        f"{selinux} && {owner}.?appArmorProfile.?type.orValue('RuntimeDefault') != 'Unconfined'"
        f" && !{owner}.?windowsOptions.?hostProcess.orValue(false)"
    )


def _host_validations() -> list[Validation]:
    probes = (*(f"{kind}Probe" for kind in ("liveness", "readiness", "startup")), *_HOOKS)
    no_host = " && ".join(f"each.?{probe}.?{way}.?host.orValue('') == ''" for probe in probes for way in _WAYS)
    return [
        _forbidden(
            _all_containers(f"each.?ports.orValue([]).all(port, port.?hostPort.orValue(0) == 0) && {no_host}"),
            "a container cannot use ports or addresses of its node; remove hostPort, and the host of probes and hooks",
        )
    ]


_GROUP = "security.openshift.io"


def memlock_role() -> Body:
    """Return the ClusterRole that grants the use of the SecurityContextConstraints."""
    return cluster_role(MEMLOCK_SCC, [policy_rule(_GROUP, ["securitycontextconstraints"], ["use"], [MEMLOCK_SCC])])


def memlock_role_binding(tenant: Tenant) -> Body:
    """Return the RoleBinding for the ServiceAccount of the pods, because a controller creates them."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": MEMLOCK_SCC, "namespace": tenant.name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": MEMLOCK_SCC},
        "subjects": [{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": tenant.name}],
    }
