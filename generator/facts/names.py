"""Names that objects of several systems share: labels, annotations, resources, capabilities, controllers and paths.

A name that two packages of mpigen use stands here once. tests/unit/test_facts.py fails if it stands in a second place.
"""

from __future__ import annotations

# Kubernetes

METADATA_NAME = "kubernetes.io/metadata.name"
"""Label of a namespace, set by the API server: the name of the namespace (KEP-2161)."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation of `kubectl apply` without server-side apply: the object as the user wrote it."""

HOSTNAME = "kubernetes.io/hostname"
"""Label of a node, set by the kubelet: the host name of the node."""

POD_SECURITY_ENFORCE = "pod-security.kubernetes.io/enforce"
"""Label of a namespace: the Pod Security level that its pods must meet."""

IPC_LOCK = "IPC_LOCK"
"""The Linux capability to lock more memory than the limit `memlock` (capabilities(7))."""

NET_BIND_SERVICE = "NET_BIND_SERVICE"
"""The only capability that Pod Security level `restricted` allows containers to add."""

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a mount point of pods
"""The folder of shared memory, which has 64 MiB unless a volume is mounted there (shm_overview(7))."""

SSH_PORT = 2222
"""The port of sshd in the pods of ranks: without root it cannot be 22 (ip(7), `ip_unprivileged_port_start`)."""

VERBS_DEVICES = "/dev/infiniband"
"""The folder with the device files of RDMA NICs (rdma-core libibverbs)."""

EVERYWHERE = "0.0.0.0/0"
"""The CIDR of all IPv4 addresses."""

DEFINITION = b"CustomResourceDefinition"
"""The text that each file with a definition of a custom kind contains."""

JOB_NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
"""The labels of a pod that have the name of its Job (kubernetes v1.34.2 pkg/registry/batch/job/strategy.go
generateSelector)."""

# OpenShift

REQUIRED_SCC = "openshift.io/required-scc"
"""Annotation of a pod: the only SecurityContextConstraints that may admit it."""

DNS_PODS = (
    ("kube-system", {"k8s-app": "kube-dns"}, 53),
    ("openshift-dns", {"dns.operator.openshift.io/daemonset-dns": "default"}, 5353),
)
"""The DNS pods of Kubernetes and of OpenShift: namespace, labels and port. Policies match the port of the pods, not of
the Service (openshift/cluster-dns-operator pkg/manifests/assets/dns/{service,daemonset}.yaml)."""

DNS_PORT = 53
"""The port of the DNS Service."""

OPENSHIFT_DNS_PORTS = (("dns", "UDP", 5353), ("dns-tcp", "TCP", 5353), ("metrics", "TCP", 9154))
"""The named ports of OpenShift's DNS pods, by the same files: name, protocol and number."""

# Kueue

QUEUE_NAME = "kueue.x-k8s.io/queue-name"
"""Label of a job: the name of its LocalQueue (kueue v0.19.2 pkg/controller/constants/constants.go QueueLabel)."""

PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
"""Label of a job: the name of its WorkloadPriorityClass (kueue v0.19.2 pkg/controller/constants/constants.go
WorkloadPriorityClassLabel)."""

PODSET_PREFIX = "kueue.x-k8s.io/podset-"
"""Start of the annotations of a pod template that request a topology (kueue v0.19.2 apis/kueue/v1beta2)."""

PODSET_GROUP = "kueue.x-k8s.io/podset-group-name"
"""Annotation of a pod template: PodSets with the same value get one topology domain (PodSetGroupName)."""

PROVISIONING = "kueue.x-k8s.io/provisioning-request"
"""`controllerName` of an AdmissionCheck that creates nodes for a job (ProvisioningRequestControllerName)."""

MULTI_KUEUE = "kueue.x-k8s.io/multikueue"
"""`controllerName` of an AdmissionCheck that sends jobs to other clusters (MultiKueueControllerName)."""

KUEUE_MANAGER = "kueue.x-k8s.io/manager"
"""`manager` of the entry of `runtimePatches` that Kueue adds to each TrainJob (kueue v0.19.2
pkg/controller/jobs/trainjob/trainjob_controller.go runtimePatchManagerName)."""

# Trainer: trainer v2.3.0 pkg/constants/constants.go

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
"""Label of the Job template of a replicated job: the part of a TrainJob that this replicated job runs."""

FRAMEWORK = "trainer.kubeflow.org/framework"
"""Label of a runtime: the framework that the Kubeflow SDK shows."""

SUPPORT = "trainer.kubeflow.org/support"
"""Label of a runtime: `deprecated` makes Trainer's webhook warn users of it."""

MPI_FOLDER = "/etc/mpi"
"""The folder in which Trainer mounts the hostfile in the launcher pod (MPIHostfileDir)."""

HOSTFILE = f"{MPI_FOLDER}/hostfile"
"""The hostfile of Trainer (HostfileName)."""

UPSTREAM_RUNTIMES = frozenset(
    {
        "deepspeed-distributed",
        "jax-distributed",
        "mlx-distributed",
        "torch-distributed",
        "torch-distributed-with-cache",
        "torchtune-llama3.2-1b",
        "torchtune-llama3.2-3b",
        "torchtune-qwen2.5-1.5b",
        "xgboost-distributed",
    }
)
"""The ClusterTrainingRuntimes that an installation of Trainer can contain (trainer v2.3.0 manifests/base/runtimes)."""

# Multus: multus-cni 95a0932 pkg/k8sclient/k8sclient.go

NETWORKS = "k8s.v1.cni.cncf.io/networks"
"""Annotation of a pod: the networks that Multus attaches besides the pod network, in this order."""

RESOURCE_NAME = "k8s.v1.cni.cncf.io/resourceName"
"""Annotation of a NetworkAttachmentDefinition: the resource by which Multus finds the devices of a pod."""

# Device plugins

EFA = "vpc.amazonaws.com/efa"
"""A device of Amazon's EFA (aws/eks-charts 5239609 stable/aws-efa-k8s-device-plugin)."""

GPU_CLIQUE = "nvidia.com/gpu.clique"
"""Label of a node: the NVLink domain of its GPUs (NVIDIA/k8s-device-plugin, GPU feature discovery)."""

# mpigen

PARAMETER = "mpigen.dev/"
"""Start of all labels and annotations of mpigen, such as the parameters of admission policies on a namespace."""

DESCRIPTION = "mpigen.dev/description"
"""Annotation of an admission policy: what the policy stops. Annotation of a role of `access.roles`: its purpose."""

DOCS = "mpigen.dev/docs"
"""Annotation of an admission policy: the page in mpigen's docs that describes it."""

TENANT_LABEL = "mpigen.dev/tenant"
"""Label of a namespace: the team that owns it, the same in all of the team's namespaces."""

RETIRED = "mpigen.dev/retired"
"""Label of the namespaces of a retired team, with the last day on which the team keeps its data. The annotation with
this key has the reason."""

FABRIC = "mpigen.dev/fabric"
"""Annotation of a pod: the fabric that its ranks use; `none` if ranks use TCP on nodes that have a fabric."""

NODES = "mpigen.dev/nodes"
"""Annotation of a ResourceFlavor: the number of nodes with the flavor."""

ALLOCATABLE = "mpigen.dev/allocatable"
"""Annotation of a ResourceFlavor: the resources that each node offers to jobs, as JSON: resource → quantity."""

RESERVATIONS = "mpigen.dev/reservations"
"""Annotation of a ClusterQueue, as JSON: reservation (temporary quota) → its last day."""

REBOOTS = "mpigen.dev/reboots"
"""Annotation of an object that makes nodes drain or restart when the GitOps engine applies it."""

RELAXED = "mpigen.dev/relaxed-"
"""Start of the label that exempts a namespace from an admission policy. The value is the last day of the exemption."""

CONTRACT = "mpigen.dev/contract"
"""Annotation of a runtime, as JSON: its family, device and fabric, which `mpigen job new` cannot read from the pods."""

IMAGES = "mpigen.dev/images"
"""Annotation of a runtime: the images with which a team may copy it, separated by commas. `*` at the end of an image
stands for any text."""

DIGEST = "mpigen.dev/digest"
"""Annotation of a runtime with `IMAGES`: the beginning of the SHA-256 of its spec and of `IMAGES`."""

BASE = "mpigen.dev/base"
"""Label of a copy of a runtime with another image: the name of the copied runtime."""

RUNTIME_LABEL = "mpigen.dev/runtime"
"""Label of a pod: the name of its runtime. NetworkPolicies select MPI pods by this label of mpigen."""

JOB_LABEL = "jobset.sigs.k8s.io/jobset-name"
"""Label of a pod, set by JobSet: the name of the TrainJob."""

REPLICATED_JOB_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"
"""Label of a pod, set by JobSet: the replicated job of the pod, such as launcher (jobset v0.12.0
api/jobset/v1alpha2/jobset_types.go ReplicatedJobNameKey)."""

CHECKPOINT = "MPIGEN_CHECKPOINT"
"""Variable of all ranks: the folder of the job on the claim for its checkpoints."""

S3_KEYS = {
    "AWS_ACCESS_KEY_ID": True,
    "AWS_SECRET_ACCESS_KEY": True,
    "AWS_S3_ENDPOINT": True,
    "AWS_DEFAULT_REGION": False,
    "AWS_S3_BUCKET": False,
    "AWS_S3_PATH": False,
}
"""Key of the Secret of an S3 connection of OpenShift AI → True if each such Secret has it.

Source: opendatahub-io/odh-dashboard manifests/common/connection-types/s3.yaml
"""

EXCLUSIVE_TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
"""Annotation of a JobSet or of the Job template of a replicated job: each Job gets a topology domain of its own."""

JOB_POLICY = "np."
"""Start of the name of the NetworkPolicy that isolates a job; the name of the job follows."""

OUT_OF_THE_MESH = {"istio.io/dataplane-mode": "none", "sidecar.istio.io/inject": "false"}
"""Labels of a pod: no Istio sidecar and no ambient mode. Trainer does not copy labels of a TrainJob to its pods."""

SERVICE_ACCOUNT = "mpi"
"""The ServiceAccount of all MPI pods, one in each tenant's namespace. It has no permissions and no token."""

REGISTRY_LOGIN = f"{SERVICE_ACCOUNT}-dockercfg"
"""The Secret with which MPI pods pull images from OpenShift's own registry. OpenShift creates it. The ServiceAccount
of the pods lists the Secret only if the tenant declares further pull secrets."""

MANAGED_BY = {"app.kubernetes.io/managed-by": "mpigen"}
"""Label of every generated object."""

PART_OF = "app.kubernetes.io/part-of"
"""Label of every generated object: the name of the platform."""

REMOTE_COHORT = "-multikueue"
"""End of the name of the Cohort of tenants whose jobs run on worker clusters. The name begins with the platform's."""

LOCAL_QUEUE = "default"
"""The LocalQueue in each tenant's namespace. Because of its name, TrainJobs without a queue label use it
(LocalQueueDefaulting, GA)."""

SWEEP = "app.kubernetes.io/name"
"""Label of the TrainJobs of a sweep or of a schedule: its name. The admission rule `metadata` lets users set labels
with this prefix."""

TRAIN_JOB = "mpigen.dev/train-job"
"""Annotation of the pods of a CronJob, as YAML: the TrainJob that each pod creates."""

SCHEDULES_OF = "mpigen.dev/schedules-of"
"""Label of the namespace of the CronJobs of a team: the name of the team. The namespace has no jobs and no data."""

SCHEDULES = "schedules"
"""The ServiceAccount of the CronJobs of a team."""

CATALOGUE_LABEL = "mpigen.dev/catalogue"
"""Label of a ConfigMap with objects of the release that people who train may read: `platform` or `team`. The namespace
of the first one has the label too, and has no jobs and no data."""

CATALOGUE = "mpigen-catalogue"
"""The ConfigMap with the objects that all teams of a platform share."""

CATALOGUE_NAMESPACE = "-catalogue"
"""End of the name of the namespace of this ConfigMap, after the name of the platform."""

TEAM_CATALOGUE = "mpigen-team"
"""The ConfigMap in the first namespace of a team with the objects of the team."""

FOLDED = "mpigen.dev/folded"
"""Annotation of a Cohort in a catalogue: `true` if its quota is the total of all queues and cohorts below."""

ISOLATION = "mpigen.dev/isolation"
"""Annotation of a namespace: `job` if each TrainJob needs a NetworkPolicy of its own (`isolation.unit`)."""

OWNER = "mpigen.dev/owner"
"""Annotation of a TrainJob: the user that may delete the TrainJob without the role of an editor."""

MEMLOCK_SCC = "mpigen-memlock"
"""On OpenShift, the SecurityContextConstraints of pods that lock memory, and the ClusterRole that grants their use."""

OWN_ROLE = "mpigen-role-"
"""The prefix of the ClusterRoles of `access.roles`, and of their RoleBindings."""

SCHEDULE_CREATOR = "mpigen-schedule"
"""The ClusterRole with which the pods of schedules create TrainJobs in a namespace of a team."""

GITOPS_ROLE = "mpigen-gitops"
"""The ClusterRole of the account that applies a release, and its ClusterRoleBinding."""

SYNC_WAVE = "argocd.argoproj.io/sync-wave"
"""Annotation with the sync wave of Argo CD."""

SYNC_OPTIONS = "argocd.argoproj.io/sync-options"
"""Annotation with which Argo CD confirms or omits the deletion of an object."""
CONFIRMED_DELETION = "Prune=confirm,Delete=confirm,PruneLast=true"
"""Sync options of an object that Argo CD deletes only after a user confirms the deletion. An object that waits for its
confirmation delays all later waves of its sync, so these objects come last (gitops-engine 13d5172
pkg/sync/sync_context.go runTasks)."""
LAST_DELETION = "PruneLast=true"
"""Sync option of an object that protects a namespace. Argo CD deletes it together with objects that a user confirms."""
KEPT = "Prune=false,Delete=false"
"""Sync options of an object that Argo CD never deletes."""
ARGOCD_FOLDER = "argocd"
SETTINGS_FILE = f"{ARGOCD_FOLDER}/bootstrap/settings.yaml"
"""The file with the settings of Argo CD: some keys of an object whose other keys belong to others."""
"""The folder in a release with Argo CD's Applications and their AppProjects. No Application applies this folder."""
FLUX_FOLDER = "flux"
"""The folder in a release with the objects of Flux."""
FLUX_SOURCE = f"{FLUX_FOLDER}/source.yaml"
"""The file with the GitRepository or OCIRepository, which names the revision to apply. An admin applies it."""
FLUX_PLATFORM = f"{FLUX_FOLDER}/platform.yaml"
"""The file with the Kustomization that applies the other Kustomizations. An admin applies it."""
FLUX_KUSTOMIZATIONS = f"{FLUX_FOLDER}/kustomizations"
"""The folder with the Kustomizations of the cluster and of the tenants. Flux applies it."""
FLUX_PRUNE = "kustomize.toolkit.fluxcd.io/prune"
"""Annotation with the value `disabled` of an object that Flux never deletes."""
LONGEST_KUSTOMIZATION_NAME = 63
"""The longest name of a Kustomization: Flux writes the name into a label of each object."""
SELECTS_REVISION = (f"{ARGOCD_FOLDER}/", FLUX_SOURCE, FLUX_PLATFORM)
"""Beginnings of the paths of files that select the revision to apply. These files change without a new version."""

WAIVERS = "mpigen.dev/waive"
"""Annotation in which an object declares findings that its owners accept until a day."""
TRAINER_MANAGER = "trainer.kubeflow.org/trainjob-controller"
"""Value of `managedBy` of a TrainJob that Trainer runs (trainer v2.3.0 pkg/apis/trainer/v1alpha1/trainjob_types.go)."""
CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
"""Label that the Job controller sets on the pods of a Job (api v0.34.2 batch/v1/types.go ControllerUidLabel)."""
UNKNOWN_UID = "00000000-0000-0000-0000-000000000000"
"""Stands in compiled objects for every UID, which the API server chooses when it creates an object."""
POD_SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
"""Annotation with the seccomp profile of a pod (api v0.34.2 core/v1/annotation_key_constants.go)."""
CAP_SYS_ADMIN = "CAP_SYS_ADMIN"
"""Capability that allows most of what root may do, with the prefix that Kubernetes does not remove."""
DASHBOARD_PROJECT = "opendatahub.io/dashboard"
"""Label of a namespace that the dashboard of OpenShift AI shows as a project, with the value `true`.

Source: opendatahub-io/odh-dashboard v3.5.0 packages/k8s-core/src/k8sTypes.ts KnownLabels
"""
DISPLAY_NAME = "openshift.io/display-name"
"""Annotation with the name that the consoles of OpenShift and OpenShift AI show for an object."""
DISPLAY_DESCRIPTION = "openshift.io/description"
"""Annotation with the description that the consoles of OpenShift and OpenShift AI show for an object."""
