"""reference/*: names of objects that are in no file.

references.yaml lists the fields with such names, and the objects that controllers create.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from generator.checks.fabric.fabrics import namespaces_of
from generator.checks.graph import CLUSTER_RUNTIME, Graph
from generator.checks.registry import ERROR, INFO, WARNING, Breach, check
from generator.objects.pods import pod_templates


@check("reference/service-account", severity=ERROR, needs=Graph)
def service_account(graph: Graph) -> Iterator[Breach]:
    """Report a ServiceAccount that is in no file.

    The API server rejects the pods: `error looking up service account`. The event is on the Job, not on a pod. Pods of
    a ClusterTrainingRuntime need the ServiceAccount in each namespace whose jobs use the runtime. An absent
    ServiceAccount among the subjects of a binding is an info, because the binding then grants nothing. Outside of a
    complete release of mpigen, the finding is a warning.

    Source: kubernetes v1.34.2 plugin/pkg/admission/serviceaccount/admission.go Plugin.Admit
    """
    yield from _report(graph, "reference/service-account")


@check("reference/secret", severity=WARNING, needs=Graph)
def secret(graph: Graph) -> Iterator[Breach]:
    """Report a Secret that is in no file, and that no controller creates for an object in the files.

    The pods stay in ContainerCreating, or the container in CreateContainerConfigError. The check
    does not report the Secrets that controllers create for ExternalSecrets, SealedSecrets, Certificates, Services,
    TrainJobs and MPIJobs. The finding is a warning, because users and operators create Secrets that belong in no
    repository. The check ignores references with `optional: true`.

    Source: kubernetes v1.34.2 pkg/kubelet/kubelet_pods.go Kubelet.makeEnvironmentVariables; kubernetes v1.34.2
    pkg/volume/secret/secret.go secretVolumeMounter.SetUpAt
    """
    yield from _report(graph, "reference/secret")


@check("reference/config-map", severity=ERROR, needs=Graph)
def config_map(graph: Graph) -> Iterator[Breach]:
    """Report a ConfigMap that is in no file.

    The pods stay in ContainerCreating, or the container in CreateContainerConfigError. If the ConfigMap has the
    parameters of an admission policy, the API server rejects requests. The finding is a warning for TrainJobs and
    ClusterTrainingRuntimes, whose users can create the ConfigMap, and outside of a complete release of mpigen. The
    check ignores references with `optional: true`.

    Source: kubernetes v1.34.2 pkg/kubelet/kubelet_pods.go Kubelet.makeEnvironmentVariables; kubernetes v1.34.2
    pkg/volume/configmap/configmap.go configMapVolumeMounter.SetUpAt
    """
    yield from _report(graph, "reference/config-map")


@check("reference/claim", severity=ERROR, needs=Graph)
def claim(graph: Graph) -> Iterator[Breach]:
    """Report a PersistentVolumeClaim or ResourceClaim that is in no file.

    The pods stay Pending: `persistentvolumeclaim not found`. The check does not report the claims that a StatefulSet
    creates. The finding is a warning for TrainJobs and ClusterTrainingRuntimes, whose users can create the claim,
    and outside of a complete release of mpigen.

    Source: kubernetes v1.34.2 pkg/scheduler/framework/plugins/volumebinding/volume_binding.go VolumeBinding.podHasPVCs
    """
    yield from _report(graph, "reference/claim")


@check("reference/role", severity=ERROR, needs=Graph)
def role(graph: Graph) -> Iterator[Breach]:
    """Report a Role or ClusterRole that a binding names, but that is in no file.

    The binding grants nothing until the role exists, and its users get `403 Forbidden`. Every cluster has the
    ClusterRoles `admin`, `cluster-admin`, `edit`, `view` and `system:*`. Operators install further ClusterRoles. So the
    check reports an absent ClusterRole only if the files have another ClusterRole, and only as a warning. An absent
    Role is an error in a complete release of mpigen, and a warning in other files.

    Source: kubernetes v1.34.2 pkg/registry/rbac/validation/rule.go DefaultRuleResolver.VisitRulesFor
    """
    yield from _report(graph, "reference/role")


@check("reference/policy", severity=ERROR, needs=Graph)
def policy(graph: Graph) -> Iterator[Breach]:
    """Report an admission policy that a binding names, but that is in no file.

    The API server enforces nothing until the policy exists, and reports no error. Outside of a complete release of
    mpigen, the finding is a warning.

    Source: apiserver v0.34.2 pkg/admission/plugin/policy/generic/policy_source.go policySource.calculatePolicyData
    """
    yield from _report(graph, "reference/policy")


@check("reference/store", severity=ERROR, needs=Graph)
def store(graph: Graph) -> Iterator[Breach]:
    """Report a SecretStore that an ExternalSecret names, but that is in no file.

    External Secrets creates no Secret until the store exists: SecretSyncedError. A ClusterSecretStore may exist in the
    cluster without a file. So the check reports the name of an absent ClusterSecretStore only if a ClusterSecretStore
    in the files has a similar name, and only as an info. An absent SecretStore is an error in a complete release of
    mpigen, and a warning in other files.

    Source: external-secrets v1.3.2 pkg/controllers/secretstore/client_manager.go Manager.getStore
    """
    yield from _report(graph, "reference/store")


@check("reference/flux", severity=ERROR, needs=Graph)
def flux(graph: Graph) -> Iterator[Breach]:
    """Report a source or a Kustomization that a Kustomization of Flux names, but that is in no file.

    Flux applies nothing until the object exists: ArtifactFailed or DependencyNotReady. Sources are GitRepositories,
    OCIRepositories and Buckets. `dependsOn` and `healthChecks` name other Kustomizations. In `healthChecks`, the check
    ignores other kinds. `flux bootstrap` creates a GitRepository and a Kustomization `flux-system`, so these may be in
    no file. Outside of a complete release of mpigen, the check reports an object only if the files have another object
    of its kind, and the finding is a warning.

    Source: kustomize-controller v1.7.3 internal/controller/kustomization_controller.go
    KustomizationReconciler.getSource; kustomize-controller v1.7.3 internal/controller/kustomization_controller.go
    KustomizationReconciler.checkDependencies
    """
    yield from _report(graph, "reference/flux")


@check("reference/admission-check", severity=ERROR, needs=Graph)
def admission_check(graph: Graph) -> Iterator[Breach]:
    """Report an AdmissionCheck, its parameters, or a MultiKueueCluster that is in no file.

    The ClusterQueue with the AdmissionCheck is inactive until the AdmissionCheck and its parameters exist: Kueue admits
    none of its jobs. Kueue sends no job to an absent MultiKueueCluster. The check reports an object only if the files
    have another object of its kind. Outside of a complete release of mpigen, the finding is a warning.

    Source: kueue v0.19.2 pkg/cache/scheduler/clusterqueue.go clusterQueue.inactiveReason
    """
    yield from _report(graph, "reference/admission-check")


@check("reference/cluster-class", severity=INFO, needs=Graph)
def cluster_class(graph: Graph) -> Iterator[Breach]:
    """Report a PriorityClass, RuntimeClass, StorageClass or DeviceClass whose name is probably misspelt.

    Such classes belong to the cluster, so a class may exist without a file. The check reports a name in no file that is
    similar to the name of a class in the files. The API server rejects pods with an absent PriorityClass or
    RuntimeClass. A claim with an absent StorageClass or DeviceClass stays Pending.

    Source: kubernetes v1.34.2 plugin/pkg/admission/priority/admission.go Plugin.admitPod; kubernetes v1.34.2
    plugin/pkg/admission/runtimeclass/admission.go RuntimeClass.prepareObjects
    """
    yield from _report(graph, "reference/cluster-class")


def _report(graph: Graph, check_id: str) -> Iterator[Breach]:
    """Yield the breaches of a check that reports absent objects.

    For pods of a ClusterTrainingRuntime, an object must exist only in the namespaces that use the runtime.
    """
    for reference in graph.dangling(check_id):
        if reference.lacking and reference.manifest.kind == CLUSTER_RUNTIME:
            used = namespaces_of(next(pod_templates(reference.manifest)), graph.objects)
            if lacking := reference.lacking & used:
                yield from graph.explain(replace(reference, lacking=lacking))
        else:
            yield from graph.explain(reference)
