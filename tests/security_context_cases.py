"""Pods, SecurityContextConstraints, Namespaces and grants, about which upstream's SCC admission was asked.

tests/fixtures/security-contexts.jsonl holds one row for each case, with the answer of openshift/apiserver-library-go
a8019f39. No Go module proxy serves that module, so no command of this repository can ask again:
`python -m tests.security_context_cases` writes the questions, in the types of upstream. In the answers, `denied` stands
for the text of an SCC that the ServiceAccount and the user cannot use. Only the first row with some SCCs has `order`.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from generator.facts.table import read_table
from generator.upstream.openshift.scc.constraint import GROUP, KIND, installed_constraints
from tests.conftest import ROOT

Body = dict[str, Any]
FIXTURE = ROOT / "tests/fixtures/security-contexts.jsonl"
NAMESPACE, ACCOUNT, USER = "team", "system:serviceaccount:team:mpi", "ada"
EVERYONE = ["restricted-v2", "restricted-v3"]
_PREFIX = "openshift.io/sa.scc."
ANNOTATIONS = {
    f"{_PREFIX}uid-range": "1000660000/10000",
    f"{_PREFIX}supplemental-groups": "1000660000/10000",
    f"{_PREFIX}mcs": "s0:c26,c5",
}
_POD_PROFILE, _CONTAINER_PROFILE = (
    "seccomp.security.alpha.kubernetes.io/pod",
    "container.seccomp.security.alpha.kubernetes.io/c0",
)


def pod(**spec: Any) -> Body:
    """Return a pod with one container; `context` is the security context of the container, `pod` of the pod."""
    container: Body = {"name": "c0", "image": "a"}
    container |= {key: spec.pop(key) for key in ("ports",) if key in spec}
    if "context" in spec:
        container["securityContext"] = spec.pop("context")
    annotations = spec.pop("annotations", None)
    metadata: Body = {"name": "p", "namespace": NAMESPACE} | ({"annotations": annotations} if annotations else {})
    if "pod" in spec:
        spec["securityContext"] = spec.pop("pod")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"serviceAccountName": "mpi", "containers": [container], **spec},
    }


def pods() -> Iterator[Body]:
    """Yield pods that each set one field, or a few fields that depend on each other."""
    yield pod()
    yield from _with_host_access()
    yield from _with_capabilities()
    yield from _with_users()
    yield from _with_profiles()
    yield from _with_volumes()
    yield from _with_containers()


def _with_host_access() -> Iterator[Body]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        yield pod(**{field: True})
        yield pod(**{field: False})
    yield pod(hostNetwork=True, hostPID=True, hostIPC=True)
    for users in (True, False):
        yield pod(hostUsers=users)
    yield pod(hostUsers=False, context={"runAsUser": 1000}, pod={"fsGroup": 2000, "supplementalGroups": [3000]})
    yield pod(hostUsers=False, context={"runAsUser": 0, "capabilities": {"add": ["SETUID", "SETGID"]}})
    yield pod(ports=[{"containerPort": 80, "hostPort": 8080}])
    yield pod(ports=[{"containerPort": 80}, {"containerPort": 81}], hostNetwork=True)


def _with_capabilities() -> Iterator[Body]:
    for flag in (True, False):
        yield pod(context={"privileged": flag})
        yield pod(context={"allowPrivilegeEscalation": flag})
        yield pod(context={"readOnlyRootFilesystem": flag})
        yield pod(context={"runAsNonRoot": flag})
        yield pod(pod={"runAsNonRoot": flag})
    yield pod(context={"privileged": True, "allowPrivilegeEscalation": True}, hostNetwork=True, hostPID=True)
    for added in ("NET_BIND_SERVICE", "IPC_LOCK", "SYS_ADMIN", "CAP_SYS_ADMIN", "ALL", "SETUID", "KILL"):
        yield pod(context={"capabilities": {"add": [added]}})
    lists: tuple[dict[str, list[str]], ...] = (
        {},
        {"drop": ["ALL"]},
        {"drop": ["KILL"]},
        {"drop": ["all"]},
        {"add": [], "drop": []},
        {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
        {"add": ["IPC_LOCK", "NET_BIND_SERVICE"], "drop": ["ALL"]},
        {"add": ["NET_RAW", "AUDIT_WRITE"], "drop": ["MKNOD", "KILL"]},
        {"drop": ["KILL", "MKNOD", "SETUID", "SETGID"]},
    )
    for capabilities in lists:
        yield pod(context={"capabilities": capabilities})
    yield pod(context={"capabilities": {"add": ["IPC_LOCK"], "drop": ["ALL"]}, "allowPrivilegeEscalation": True})


def _with_users() -> Iterator[Body]:
    for user in (0, 1, 1000, 1000659999, 1000660000, 1000660001, 1000669999, 1000670000):
        yield pod(context={"runAsUser": user})
        yield pod(pod={"runAsUser": user})
    yield pod(pod={"runAsUser": 0}, context={"runAsUser": 1000660000})
    yield pod(pod={"runAsUser": 1000660000}, context={"runAsUser": 0})
    yield pod(pod={"runAsUser": 1000, "runAsNonRoot": True}, context={"runAsNonRoot": False})
    yield pod(context={"runAsUser": 1000, "runAsGroup": 0})
    for level in ("s0:c26,c5", "s0:c5,c26", "s0:c1,c0", "s1:c26,c5", "s0", "s0:c26"):
        yield pod(pod={"seLinuxOptions": {"level": level}})
        yield pod(context={"seLinuxOptions": {"level": level}})
    for key in ("type", "role", "user"):
        yield pod(pod={"seLinuxOptions": {key: "container_t", "level": "s0:c26,c5"}})
        yield pod(context={"seLinuxOptions": {key: "spc_t"}})
    for group in (0, 1000, 1000660000, 1000660001, 1000669999):
        yield pod(pod={"fsGroup": group})
        yield pod(pod={"supplementalGroups": [group]})
    yield pod(pod={"supplementalGroups": []})
    yield pod(pod={"supplementalGroups": [5, 1000660000, 6]})
    yield pod(pod={"fsGroup": 5, "supplementalGroups": [6], "runAsUser": 7})


def _with_profiles() -> Iterator[Body]:
    for profile in (
        {"type": "RuntimeDefault"},
        {"type": "Unconfined"},
        {"type": "Localhost", "localhostProfile": "a.json"},
        {"type": "Localhost", "localhostProfile": "b.json"},
    ):
        yield pod(pod={"seccompProfile": profile})
        yield pod(context={"seccompProfile": profile})
        yield pod(pod={"seccompProfile": {"type": "RuntimeDefault"}}, context={"seccompProfile": profile})
    for value in ("runtime/default", "docker/default", "unconfined", "localhost/a.json", "localhost/", "other"):
        yield pod(annotations={_POD_PROFILE: value})
        yield pod(annotations={_CONTAINER_PROFILE: value})
    yield pod(annotations={_POD_PROFILE: "unconfined"}, pod={"seccompProfile": {"type": "RuntimeDefault"}})
    for name in (
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_rmem",
        "kernel.shmmax",
        "net.core.somaxconn",
        "kernel.msgmax",
    ):
        yield pod(pod={"sysctls": [{"name": name, "value": "1"}]})
    yield pod(pod={"sysctls": [{"name": name, "value": "1"} for name in ("kernel.shmmax", "kernel.shmall")]})


def _with_volumes() -> Iterator[Body]:
    for source, volume in _SOURCES.items():
        yield pod(volumes=[{"name": "v", source: volume}])
    yield pod(volumes=[{"name": "v"}])
    yield pod(volumes=[{"name": "v", "emptyDir": {}}, {"name": "w", "hostPath": {"path": "/w"}}, {"name": "x", **_NFS}])
    for sources in _PROJECTED:
        yield pod(volumes=[{"name": "v", "projected": {"sources": sources}}])
    yield pod(volumes=[_OTHER_DRIVER])


def _with_containers() -> Iterator[Body]:
    bad = {"name": "c1", "image": "a", "securityContext": {"runAsUser": 0, "privileged": True}}
    good = {"name": "c1", "image": "a", "ports": [{"containerPort": 1, "hostPort": 2}]}
    for other in (bad, good):
        yield pod(initContainers=[other])
        yield pod(initContainers=[{**other, "restartPolicy": "Always"}], context={"runAsUser": 0})
        yield pod(ephemeralContainers=[{**other, "ports": None}])
    two = pod(context={"capabilities": {"add": ["IPC_LOCK"]}})
    two["spec"]["containers"].append(bad)
    yield two
    yield pod(os={"name": "linux"})
    yield pod(os={"name": "windows"}, context={"privileged": True})
    yield pod(context={"procMount": "Unmasked"}, hostUsers=False)
    yield pod(pod={"fsGroupChangePolicy": "Always", "supplementalGroupsPolicy": "Strict"})
    for name in ("restricted-v2", "anyuid", "privileged", "mpigen-memlock", "absent"):
        yield pod(annotations={"openshift.io/required-scc": name})
    generated = {
        "pod": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "context": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        },
        "automountServiceAccountToken": False,
    }
    yield pod(**deepcopy(generated), annotations={"openshift.io/required-scc": "restricted-v2"})
    yield pod(**deepcopy(generated))


_OTHER_DRIVER = {"name": "v", "flexVolume": {"driver": "acme/other"}}
_NFS = {"nfs": {"server": "s", "path": "/"}}
_SOURCES: Body = {
    "awsElasticBlockStore": {"volumeID": "a"},
    "azureDisk": {"diskName": "a", "diskURI": "a"},
    "azureFile": {"secretName": "a", "shareName": "a"},
    "cephfs": {"monitors": ["a"]},
    "cinder": {"volumeID": "a"},
    "configMap": {"name": "a"},
    "csi": {"driver": "a"},
    "downwardAPI": {"items": []},
    "emptyDir": {},
    "ephemeral": {"volumeClaimTemplate": {"spec": {}}},
    "fc": {"lun": 1},
    "flexVolume": {"driver": "acme/one"},
    "flocker": {"datasetName": "a"},
    "gcePersistentDisk": {"pdName": "a"},
    "gitRepo": {"repository": "a"},
    "glusterfs": {"endpoints": "a", "path": "a"},
    "hostPath": {"path": "/a"},
    "image": {"reference": "a"},
    "iscsi": {"targetPortal": "a", "iqn": "a", "lun": 1},
    **_NFS,
    "persistentVolumeClaim": {"claimName": "a"},
    "photonPersistentDisk": {"pdID": "a"},
    "portworxVolume": {"volumeID": "a"},
    "projected": {"sources": [{"secret": {"name": "a"}}]},
    "quobyte": {"registry": "a", "volume": "a"},
    "rbd": {"monitors": ["a"], "image": "a"},
    "scaleIO": {"gateway": "a", "system": "a", "secretRef": {"name": "a"}},
    "secret": {"secretName": "a"},
    "storageos": {"volumeName": "a"},
    "vsphereVolume": {"volumePath": "a"},
}
_TOKEN: Body = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
_ROOT = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
_SERVICE = {
    "configMap": {"name": "openshift-service-ca.crt", "items": [{"key": "service-ca.crt", "path": "service-ca.crt"}]}
}
_OWN: Body = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
_PROJECTED: tuple[list[Body], ...] = (
    [_TOKEN, _ROOT, {"downwardAPI": {"items": [{**_OWN, "fieldRef": {"apiVersion": "v1", **_OWN["fieldRef"]}}]}}],
    [_TOKEN, _ROOT, {"downwardAPI": {"items": [_OWN]}}, _SERVICE],
    [],
    [{"serviceAccountToken": {"path": "other"}}],
    [{"serviceAccountToken": {"path": "token", "audience": "vault"}}],
    [{"configMap": {"name": "kube-root-ca.crt"}}],
    [{"configMap": {"name": "other", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}],
    [{"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}}],
    [{"secret": {"name": "a"}}],
)


def scc(**fields: Any) -> Body:
    """Return the fields of an SCC that differ from `restricted-v2`; an empty string stands for an absent field."""
    return {"name": "own", **fields}


MEMLOCK: Body = read_table("objects", "generator.policies")["memlock"]


def whole(fields: Body) -> Body:
    """Return the SCC of a case."""
    if fields["name"] == MEMLOCK["metadata"]["name"]:
        return MEMLOCK
    body = {**installed_constraints()["restricted-v2"].body, **fields}
    kept = {key: value for key, value in body.items() if value != "" and key != "name"}
    return {"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": {"name": fields["name"]}, **kept}


_ANY = {"type": "RunAsAny"}


def sccs() -> Iterator[Body]:
    """Yield SCCs that each differ from `restricted-v2` in a few fields."""
    yield from _with_strategies()
    yield from _with_other_fields()


def _with_strategies() -> Iterator[Body]:
    yield scc(runAsUser={"type": "MustRunAs", "uid": 1000})
    yield scc(runAsUser={"type": "MustRunAs", "uid": 0})
    yield scc(runAsUser={"type": "MustRunAsRange", "uidRangeMin": 1000, "uidRangeMax": 2000})
    yield scc(runAsUser={"type": "MustRunAsNonRoot"})
    yield scc(runAsUser=_ANY, seLinuxContext=_ANY)
    for options in ({"level": "s0:c1,c0"}, {"type": "spc_t"}, {"role": "r", "user": "u"}, {"type": "container_t"}):
        yield scc(seLinuxContext={"type": "MustRunAs", "seLinuxOptions": options})
    two = [{"min": 5, "max": 5}, {"min": 1000, "max": 2000}]
    yield scc(fsGroup={"type": "MustRunAs", "ranges": two})
    yield scc(supplementalGroups={"type": "MustRunAs", "ranges": two})
    yield scc(supplementalGroups={"type": "MustRunAs"})
    yield scc(fsGroup=_ANY, supplementalGroups="")
    yield scc(fsGroup="", supplementalGroups=_ANY)
    yield scc(allowedCapabilities=["*"], allowPrivilegeEscalation=True)
    yield scc(allowedCapabilities=["ALL"], requiredDropCapabilities=["KILL"])
    yield scc(allowedCapabilities=["IPC_LOCK", "SYS_ADMIN", "CAP_SYS_ADMIN"], allowPrivilegeEscalation=True)
    yield scc(defaultAddCapabilities=["CHOWN", "KILL"], requiredDropCapabilities=["MKNOD"])
    yield scc(defaultAddCapabilities=["CHOWN"], requiredDropCapabilities="")
    yield scc(requiredDropCapabilities="", allowedCapabilities="")
    yield scc(seccompProfiles="")
    yield scc(seccompProfiles=["*"])
    yield scc(seccompProfiles=["localhost/a.json", "docker/default"])
    yield scc(seccompProfiles=["unconfined", "*"])


def _with_other_fields() -> Iterator[Body]:
    yield scc(readOnlyRootFilesystem=True)
    yield scc(
        allowedUnsafeSysctls=["kernel.shm*", "net.core.somaxconn"], forbiddenSysctls=["kernel.shmall", "net.ipv4.*"]
    )
    yield scc(allowedUnsafeSysctls=["*"])
    yield scc(volumes=["flexVolume", "nfs", "secret"], allowedFlexVolumes=[{"driver": "acme/one"}])
    yield scc(volumes=["*"], allowedFlexVolumes=[{"driver": "acme/one"}])
    yield scc(volumes=["*"], allowHostDirVolumePlugin=True)
    yield scc(volumes=["*"], allowHostDirVolumePlugin=True, allowedFlexVolumes=[{"driver": "acme/one"}])
    yield scc(volumes=[])
    yield scc(volumes=[], allowHostDirVolumePlugin=True)
    yield scc(volumes="")
    yield scc(volumes=["none"])
    yield scc(volumes=["emptyDir", "hostPath", "cephFS", "storageOS", "vsphere"])
    yield scc(volumes=["configMap", "secret"])
    yield scc(allowPrivilegeEscalation="")
    yield scc(allowPrivilegeEscalation=True, defaultAllowPrivilegeEscalation=False)
    yield scc(allowPrivilegeEscalation=True, defaultAllowPrivilegeEscalation=True)
    yield scc(defaultAllowPrivilegeEscalation=True)
    yield scc(allowPrivilegedContainer=True, allowPrivilegeEscalation=True, defaultAllowPrivilegeEscalation=False)
    yield scc(allowHostNetwork=True)
    yield scc(allowHostNetwork=True, allowHostPorts=True)
    yield scc(allowHostPID=True, allowHostIPC=True, allowHostPorts=True)
    yield scc(userNamespaceLevel="RequirePodLevel")
    yield scc(userNamespaceLevel="AllowHostLevel", priority=10)
    yield scc(priority=20, runAsUser=_ANY)
    yield scc(priority=-1, runAsUser=_ANY)
    yield scc(users=[ACCOUNT], runAsUser=_ANY)
    yield scc(groups=["system:serviceaccounts:team"], priority=1)
    yield scc(users=[USER], runAsUser=_ANY)


def case(subject: Body, own: list[Body], account: list[str], user: list[str], annotations: Body) -> Body:
    """Return a case: a pod, further SCCs, the SCCs of the ServiceAccount and of the user, and the annotations."""
    return {"pod": subject, "sccs": own, "account": account, "user": user, "annotations": annotations}


_GRANTS: tuple[tuple[list[str], list[str]], ...] = (
    ([], []),
    (["mpigen-memlock"], []),
    (["anyuid", "nonroot-v2"], []),
    (["hostnetwork-v2", "nonroot", "restricted"], []),
    (["privileged"], ["hostaccess"]),
    ([], ["hostmount-anyuid", "nested-container", "hostnetwork"]),
)
_RANDOM = 150
_RANGE = "MustRunAsRange"
_RELATED = 14
_TOPICS = {
    **dict.fromkeys(("runAsUser", "seLinuxContext", "fsGroup", "supplementalGroups"), _with_users),
    **dict.fromkeys(("allowedCapabilities", "defaultAddCapabilities", "requiredDropCapabilities"), _with_capabilities),
    **dict.fromkeys(("readOnlyRootFilesystem", "allowPrivilegeEscalation"), _with_capabilities),
    **dict.fromkeys(("defaultAllowPrivilegeEscalation", "allowPrivilegedContainer"), _with_capabilities),
    **dict.fromkeys(("seccompProfiles", "allowedUnsafeSysctls", "forbiddenSysctls"), _with_profiles),
    **dict.fromkeys(("volumes", "allowedFlexVolumes"), _with_volumes),
    **dict.fromkeys(("allowHostNetwork", "allowHostPorts", "allowHostPID", "userNamespaceLevel"), _with_host_access),
}
"""Field of an SCC → the pods that set a related field."""
_ALLOCATIONS: tuple[Body, ...] = (
    {**ANNOTATIONS, f"{_PREFIX}uid-range": "1000-1999"},
    {**ANNOTATIONS, f"{_PREFIX}supplemental-groups": "5/1,1000-2000"},
    {key: value for key, value in ANNOTATIONS.items() if "groups" not in key},
    {**ANNOTATIONS, f"{_PREFIX}mcs": "s0:c1,c0"},
    {**ANNOTATIONS, f"{_PREFIX}uid-range": "0/2"},
)


def cases() -> Iterator[Body]:
    """Yield all cases: each pod with some grants, each SCC with some pods, and random combinations."""
    lot = random.Random(4711)
    everything, constraints = [*pods()], [*sccs()]
    for number, subject in enumerate(everything):
        for account, user in (_GRANTS[0], _GRANTS[1 + number % (len(_GRANTS) - 1)]):
            yield case(subject, [{"name": MEMLOCK["metadata"]["name"]}], account, user, ANNOTATIONS)
    for only in constraints:
        named = [*only.get("users", []), *only.get("groups", [])]
        topics = dict.fromkeys(topic for key, topic in _TOPICS.items() if key in only)
        related = [subject for topic in topics for subject in topic()]
        for subject in (*lot.sample(everything, 2), *lot.sample(related, min(len(related), _RELATED))):
            yield case(subject, [only], [] if named else [only["name"]], [], ANNOTATIONS)
    for _ in range(_RANDOM):
        subject = _merge(*lot.sample(everything, lot.choice((1, 2, 2, 3))))
        own = [{**item, "name": f"own{number}"} for number, item in enumerate(lot.sample(constraints, 2))]
        names = [*installed_constraints(), "own0", "own1", "own0", "own1"]
        account, user = (sorted({*lot.sample(names, lot.choice((0, 1, 2)))}) for _ in range(2))
        yield case(subject, own, account, user, lot.choice((ANNOTATIONS, *_ALLOCATIONS)))
    for options in ({"type": "MustRunAs"}, {"type": _RANGE, "uidRangeMin": 1}, {"type": _RANGE, "uidRangeMax": 1}):
        for required in ("", "restricted-v2", "own"):
            asking = pod(annotations={"openshift.io/required-scc": required} if required else {})
            yield case(asking, [scc(runAsUser=options)], ["own"], [], ANNOTATIONS)
    pairs = (
        (scc(readOnlyRootFilesystem=True), pod(context={"readOnlyRootFilesystem": False})),
        (scc(supplementalGroups={"type": "MustRunAs"}), pod(pod={"supplementalGroups": []})),
        (scc(volumes=["flexVolume"], allowedFlexVolumes=[{"driver": "acme/one"}]), pod(volumes=[_OTHER_DRIVER])),
        (scc(volumes=["flexVolume"], allowedFlexVolumes=[{"driver": "acme/other"}]), pod(volumes=[_OTHER_DRIVER])),
    )
    for only, subject in pairs:
        yield case(subject, [only], ["own"], [], ANNOTATIONS)
    yield case(pod(), [], [], [], {name: value for name, value in ANNOTATIONS.items() if "mcs" not in name})


def _merge(*bodies: Body) -> Body:
    """Return a pod with the fields of several pods; of two values for a field, the later one."""
    merged = deepcopy(bodies[0])
    for body in bodies[1:]:
        container, other = merged["spec"]["containers"][0], body["spec"]["containers"][0]
        both = {**container.get("securityContext", {}), **other.get("securityContext", {})}
        security = {**merged["spec"].get("securityContext", {}), **body["spec"].get("securityContext", {})}
        volumes = {
            item["name"]: item for item in (*merged["spec"].get("volumes", ()), *body["spec"].get("volumes", ()))
        }
        annotations = {**merged["metadata"].get("annotations", {}), **body["metadata"].get("annotations", {})}
        merged["spec"] |= deepcopy({**body["spec"], "containers": [{**container, **other}]})
        fields = (
            (merged["spec"]["containers"][0], "securityContext", both),
            (merged["spec"], "securityContext", security),
        )
        for place, key, value in (*fields, (merged["metadata"], "annotations", annotations)):
            if value:
                place[key] = deepcopy(value)
        if volumes:
            merged["spec"]["volumes"] = deepcopy([*volumes.values()])
    return merged


def question(row: Body) -> Body:
    """Return a case in the types of upstream. The SCCs of every cluster come from upstream, not from our table."""
    return {
        "Pod": row["pod"],
        "SCCs": [whole(fields) for fields in row["sccs"]],
        "Namespace": {"metadata": {"name": NAMESPACE, "annotations": row["annotations"]}},
        "User": {"Name": USER, "Groups": ["system:authenticated"]},
        "Grants": {ACCOUNT: row["account"], USER: row["user"], "system:authenticated": EVERYONE},
    }


if __name__ == "__main__":
    for written in cases():
        sys.stdout.write(f"{json.dumps(question(written), sort_keys=True)}\n")
