"""Imitate OpenShift's admission for the SCC restricted-v2, which the test control plane lacks."""

from __future__ import annotations

from copy import deepcopy

from tests.cluster.client import Body

USER = 1_000_680_000
"""The first of the users that a namespace has: its annotation `openshift.io/sa.scc.uid-range`."""


def admitted(pod: Body) -> Body:
    """The pod with the user and the group of its namespace.

    restricted-v2 has `runAsUser: MustRunAsRange`, which sets the user of each container that names none, and `fsGroup:
    MustRunAs`, which sets the pod's: each the first of its range (openshift/apiserver-library-go a8019f39
    pkg/securitycontextconstraints/sccmatching/provider.go; openshift/apiserver-library-go a8019f39
    pkg/securitycontextconstraints/user/mustrunasrange.go; openshift/apiserver-library-go a8019f39
    pkg/securitycontextconstraints/group/mustrunas.go).

    Raises:
        ValueError: the pod names a user or group of its own, which the SCC refuses.
    """
    pod = deepcopy(pod)
    security = pod["spec"].setdefault("securityContext", {})
    containers = [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
    rights = [security, *(container.setdefault("securityContext", {}) for container in containers)]
    if any(own.keys() & {"runAsUser", "fsGroup"} for own in rights):
        raise ValueError(f"{pod['metadata']['name']} names a user or group of its own")
    security["fsGroup"] = USER
    for own in rights[1:]:
        own["runAsUser"] = USER
    return pod
