"""Who works for the cluster: known by who asks, and not by owner references, which anybody may write."""

from __future__ import annotations

from generator.config.model.fabric_nodes import operator_namespaces
from generator.config.platform import Platform

OF_KUBERNETES = ("system:apiserver", "system:kube-controller-manager", "system:kube-scheduler")
"""The users that Kubernetes' own components are."""

OF_OPENSHIFT = "system:serviceaccounts:openshift-"
"""How the groups of OpenShift's components begin."""

FOR_PEOPLE = tuple(f"{OF_OPENSHIFT}{name}" for name in ("gitops", "operators", "pipelines"))
"""Those among them that do what people tell them, such as applying a team's TrainJobs."""

# Where they install themselves: kueue v0.19.2, jobset v0.12.0 and trainer v2.3.0 config/default; Red Hat's operators.
_CONTROLLERS = ("jobset-system", "kube-system", "kubeflow-system", "kueue-system")
_ON_OPENSHIFT = ("redhat-ods-applications",)


def controller_groups(platform: Platform) -> list[str]:
    """The groups of all ServiceAccounts in the namespaces of controllers, in order; OpenShift's own are not listed."""
    more = _ON_OPENSHIFT if platform.cluster.is_openshift else ()
    networks = {
        name
        for name in operator_namespaces(platform.fabrics, is_openshift=platform.cluster.is_openshift)
        if not name.startswith("openshift-")
    }
    namespaces = {*_CONTROLLERS, *more, *networks, *platform.policies.admission.controllers}
    return [f"system:serviceaccounts:{namespace}" for namespace in sorted(namespaces)]
