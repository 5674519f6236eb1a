"""`cluster` and `gitops`: the target cluster, and the GitOps engine that applies a release to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from generator.config.model.access import Account
from generator.config.model.fields import (
    Fault,
    Flag,
    Name,
    Resource,
    Section,
    SetOf,
    String,
    Text,
    duplicates,
    invalid,
    matching,
    reject,
)
from generator.config.model.isolation import Network
from generator.documents.messages import format_value
from generator.facts.names import GITOPS_ROLE
from generator.facts.versions import OPENSHIFT_RELEASES, accepted_minors, default_minor, find_conflicts


def _version(component: str) -> Any:
    return Field(default=default_minor(component), json_schema_extra={"enum": [*accepted_minors(component)]})


class Versions(Section):
    """The minor versions of the cluster's components; `mpigen versions` lists them.

    Default: the newest of each. For Kubernetes, the newest version that Trainer, JobSet and Kueue are built for, or on
    OpenShift that of the newest release.
    """

    kubernetes: str = _version("kubernetes")
    """The minor version of Kubernetes. OpenShift 4.21 has Kubernetes 1.34, and OpenShift 4.22
    has Kubernetes 1.35."""
    trainer: str = _version("trainer")
    """The minor version of Kubeflow Trainer. If you set an older version, also set `jobset`."""
    jobset: str = _version("jobset")
    """The minor version of JobSet, which Trainer installs: `"0.12"` for Trainer 2.3, and `"0.11"` for Trainer 2.2."""
    kueue: str = _version("kueue")
    """The minor version of Kueue."""
    argocd: str = _version("argocd")
    """The minor version of Argo CD."""

    @field_validator("*", mode="before")
    @classmethod
    def _is_supported(cls, value: object, field: ValidationInfo) -> object:
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise invalid(f"{format_value(value)} is a number, but must be a string", "put the version in quotes")
        known = accepted_minors(field.field_name or "")
        if value not in known:
            supported = " or ".join(f'"{minor}"' for minor in known)
            message = f"{format_value(value)} is not a supported version of {field.field_name}"
            raise invalid(message, f"write {supported}")
        return value

    def _contradictions(self) -> Iterator[Fault]:
        for need, message in find_conflicts(self.model_dump()):
            yield Fault(message, f'write {need.needs}: "{need.least}"', (need.needs,), (need.component,))


class OpenShiftAI(Section):
    """The dashboard of OpenShift AI or Open Data Hub: the namespaces of teams become its projects.

    A namespace in which the team may write `notebooks.kubeflow.org` or `inferenceservices.serving.kserve.io`, by
    `policies.workloads.kinds` or `tenants[].workloads.kinds`, also gets a HardwareProfile for each pool in which the
    team has quota or can borrow. The dashboard offers these profiles for workbenches or for model serving.
    """

    # The kinds, labels and annotations: opendatahub-operator v3.5.0 api/infrastructure/v1/hardwareprofile_types.go
    # HardwareProfileSpec; opendatahub-io/odh-dashboard packages/hardware-profiles (v3.5.0).

    description: Annotated[Text, Field(max_length=200)] | None = Field(
        default=None, examples=["Ask #ml-platform for more quota."]
    )
    """A sentence that the dashboard shows below the amounts of each hardware profile, such as the contact for questions
    about quota. Default: none."""


class Cluster(Section):
    """The cluster that the platform runs on."""

    distribution: Literal["kubernetes", "openshift"] = "kubernetes"
    """The Kubernetes distribution. For OpenShift, the manifests use its DNS service, its SecurityContextConstraints and
    its Kueue operator."""
    versions: Versions = Versions()
    """The versions of the cluster's components. mpigen writes and checks manifests for these versions."""
    network: Literal["standard", "cilium", "openshift-ovn"] = "standard"
    """The kinds of network policy that the CNI supports. `standard`: NetworkPolicy. `cilium`: also CiliumNetworkPolicy,
    which matches DNS names. `openshift-ovn`: also AdminNetworkPolicy, which overrides the NetworkPolicies of
    namespaces. `openshift-ovn` needs `distribution: openshift`."""
    networks: SetOf[Network] = ()
    """The networks of pods and Services of this cluster, such as `10.128.0.0/14`. mpigen warns about `tenants[].egress`
    that overlaps one of these networks. If the list is empty, mpigen does not check for overlaps."""
    resources: SetOf[Resource] = ()
    """The extended resources of device plugins that mpigen does not know, such as `example.com/fpga`. mpigen rejects an
    unknown resource outside this list if its name resembles a known name. It warns about other unknown resources in
    `pools[].allocatable`."""
    mesh: Literal["istio"] | None = None
    """The service mesh of the cluster. The manifests disable the mesh for MPI pods, because ssh and MPI do not work
    through its proxies. Default: none."""
    openshift_ai: OpenShiftAI | None = Field(default=None, examples=[{"description": "Ask #ml-platform for quota."}])
    """OpenShift AI 3 or Open Data Hub 3 on this cluster. If this field is set, also to `{}`, the dashboard shows the
    namespaces of teams as projects, and mpigen writes HardwareProfiles of `infrastructure.opendatahub.io/v1`. Needs
    `distribution: openshift`. Default: none."""

    @model_validator(mode="before")
    @classmethod
    def _kubernetes_of_openshift(cls, value: Any) -> Any:
        if not isinstance(value, dict) or value.get("distribution") != "openshift":
            return value
        versions = value.get("versions", {})
        known = {"kubernetes": next(iter(OPENSHIFT_RELEASES))}
        if isinstance(versions, Versions):
            is_given = "kubernetes" in versions.model_fields_set
            return value if is_given else {**value, "versions": versions.model_copy(update=known)}
        return {**value, "versions": {**known, **versions}} if isinstance(versions, dict) else value

    def _contradictions(self) -> Iterator[Fault]:
        if self.openshift_ai is not None and not self.is_openshift:
            fix = "write `distribution: openshift`, or remove this field"
            yield Fault("`openshiftAi` needs OpenShift", fix, ("openshiftAi",), ("distribution",))
        if self.network == "openshift-ovn" and not self.is_openshift:
            fix = "write `distribution: openshift`, or remove this field"
            yield Fault("`openshift-ovn` needs OpenShift", fix, ("network",), ("distribution",))
        if self.is_openshift and self.versions.kubernetes not in OPENSHIFT_RELEASES:
            known = " or ".join(f'"{minor}" (OpenShift {release})' for minor, release in OPENSHIFT_RELEASES.items())
            message = f"no supported release of OpenShift has Kubernetes {self.versions.kubernetes}"
            yield Fault(message, f"write {known}", ("versions", "kubernetes"), ("distribution",))

    @property
    def is_openshift(self) -> bool:
        """Return True if the distribution is OpenShift."""
        return self.distribution == "openshift"


_CONTROLLER = "argocd-application-controller"
_MANAGER = "serviceaccount:kube-system/argocd-manager"
_FLUX_CONTROLLER = "kustomize-controller"
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SHORT_COMMIT = re.compile(r"[0-9a-f]{7,39}")
_SEMVER_TAG = re.compile(r"(?:[^/]+/)?v?[0-9]+\.[0-9]+\.[0-9]+(?:[-+][0-9A-Za-z.+-]+)?")
_OCI_URL = re.compile(r"oci://(?=[^/]*[.:])[A-Za-z0-9.-]+(?::[0-9]+)?(?:/[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*)*")
_OCI_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_BOUND = r"(?:=|!=|>|<|>=|=>|<=|=<|~|~>|\^)?\s*v?(?:\d+|[xX*])(?:\.(?:\d+|[xX*])){0,2}(?:-[0-9A-Za-z.-]+)?"
_RANGE = re.compile(rf"{_BOUND}(?:(?:\s*,\s*|\s*\|\|\s*|\s+){_BOUND})*")
_LOOSE_RANGE = re.compile(r"v?\d+(?:\.\d+)?(?:\.[xX])+")
OCI = "oci://"
"""The start of the URL of a repository in an OCI registry."""
OPENSHIFT = "openshift-gitops"
"""The default instance of OpenShift GitOps, and its namespace."""
IN_CLUSTER = "https://kubernetes.default.svc"
"""The API server of the cluster that Argo CD runs in, as Argo CD names it."""
FLUX = "flux-system"
"""The namespace in which Flux is installed by default."""


def _is_folder(value: str) -> str:
    parts = value.strip("/").split("/")
    if value.startswith("/") or not all(parts) or {".", ".."} & set(parts):
        message = f"{format_value(value)} is not a folder of the repository"
        raise invalid(message, "write a relative path such as output or clusters/prod")
    return "/".join(parts)


_WORD = matching(
    r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,24}[A-Za-z0-9])?", "a name without dots", "write a name such as on-sync-failed"
)


def _is_recipient(value: str) -> str:
    if ";" in value or value != value.strip():
        message = f"{format_value(value)} has a `;` or a space at an end"
        raise invalid(message, "write each recipient as an entry of its own")
    return value


class Notification(Section):
    """A subscription of Argo CD Notifications: a trigger, and the recipients that a service notifies."""

    # notifications-engine v0.4.1-0.20250908182349-da04400446ff pkg/subscriptions/annotations.go: dots separate
    # trigger and service, and `;` separates recipients.

    trigger: Annotated[String, _WORD] = Field(examples=["on-sync-failed"])
    """A trigger in the ConfigMap `argocd-notifications-cm`, such as `on-sync-failed` or `on-health-degraded`. Its name
    must have no dot."""
    service: Annotated[String, _WORD] = Field(examples=["slack"])
    """A service in the same ConfigMap, such as `slack`, `email` or the name of a webhook, without the prefix
    `service.` or `service.webhook.`."""
    recipients: SetOf[Annotated[Text, AfterValidator(_is_recipient)]] = Field(default=(), examples=[["mpi-platform"]])
    """The recipients, such as channels of Slack or email addresses. A webhook needs none."""


class GitOps(Section):
    """The GitOps engine that applies the manifests of a release: Argo CD or Flux."""

    engine: Literal["argocd", "flux"] = "argocd"
    """The GitOps engine. With `argocd`, mpigen writes Applications for Argo CD. With `flux`, mpigen writes a
    GitRepository or OCIRepository, and Kustomizations, for Flux 2.7 or newer."""
    repository: Annotated[
        String,
        matching(
            r"(?:https?|ssh|file|oci)://\S+|[\w.-]+@[\w.-]+:\S+",
            "a Git URL",
            "write it like https://git.example.com/platform.git",
        ),
    ]
    """The Git URL of the repository that holds the output of mpigen, such as
    `https://git.example.com/platform.git`. Flux also reads an OCI registry: with
    `oci://registry.example.com/clusters`, Flux applies the artifact
    `oci://registry.example.com/clusters/<platform>`."""
    revision: Text = "main"
    """The branch, tag or commit that the engine follows. Flux reads `1.4.0`, `v1.4.0` and `prod/1.4.0` as tags, all
    40 digits of a commit as a commit, and other values as branches. For a tag or branch with an unusual name, write
    the full reference, such as `refs/tags/NAME` or `refs/heads/NAME`. The root Application of
    Argo CD follows the default branch instead. With an OCI registry, this field is required: a tag such as `1.4.0`, a
    digest such as `sha256:…`, or a range of versions such as `~1.4`."""
    path: Annotated[Text, AfterValidator(_is_folder)] = "output"
    """The folder of the repository that you pass to `mpigen synth --output`. The engine applies its subfolder with the
    name of the platform. An artifact of an OCI registry contains only this subfolder, so `path` has no effect there."""
    destination: Annotated[
        String,
        matching(
            r"https://[\w.-]+(?::\d+)?(?:/[\w.~-]+)*",
            "the URL of an API server",
            "write the `server` of the cluster's Secret in Argo CD, such as https://prod-eu.example.com:6443",
        ),
    ] = Field(default=IN_CLUSTER, examples=["https://prod-eu.example.com:6443"])
    """The API server of the platform's cluster, if Argo CD runs in another cluster: the `server` of the Secret with
    which Argo CD connects to the cluster, such as `https://prod-eu.example.com:6443`. The name of the cluster is not
    enough, because Argo CD then ignores the namespaces that an AppProject excludes. Default: the cluster that Argo CD
    runs in. For Flux, use `kubeConfig` instead."""
    kube_config: Name | None = Field(default=None, examples=["prod-eu"])
    """Only for Flux: the Secret in `namespace` with the kubeconfig of the platform's cluster, if Flux runs in another
    cluster. The key of the Secret is `value`. Default: the cluster that Flux runs in."""
    namespace: Name | None = None
    """The namespace of the engine. Default for Argo CD: `argocd`, or `openshift-gitops` on OpenShift. Default for Flux:
    `flux-system`."""
    secret: Name | None = Field(default=None, examples=["platform-git"])
    """Only for Flux: the Secret in `namespace` with the login to the Git repository. For an OCI registry, the type of
    the Secret is `kubernetes.io/dockerconfigjson`. Default: none, for a repository that everybody can read."""
    service_account: Account | None = None
    """The ServiceAccount with which Argo CD applies the manifests, such as
    `serviceaccount:argocd/argocd-application-controller`. Default: `argocd-application-controller` in `namespace`. On
    OpenShift, the default is the account of the default instance of OpenShift GitOps. If `namespace` there is not
    `openshift-gitops`, this field is required. With `destination`, the account is in that cluster, and the default is
    `serviceaccount:kube-system/argocd-manager`, which `argocd cluster add` creates.
    With Flux, kustomize-controller impersonates this account. With `kubeConfig`, the account is in that cluster, in a
    namespace with the same name as `namespace`. Default for Flux: `mpigen-gitops` with `grant` or `kubeConfig`, and
    otherwise `kustomize-controller`, which is a cluster admin."""
    grant: Flag = False
    """If true, mpigen also writes the ClusterRole that `serviceAccount` needs, and its binding. For Flux, mpigen also
    writes the ServiceAccount. A cluster admin must then apply `cluster/access/gitops.yaml` before the engine can
    apply the release."""

    notifications: tuple[Notification, ...] = Field(
        default=(), examples=[[{"trigger": "on-sync-failed", "service": "slack", "recipients": ["mpi-platform"]}]]
    )
    """Only for Argo CD: the subscriptions of all Applications of the platform to notifications. The triggers, services
    and credentials are in the configuration of Argo CD, which mpigen does not write. Default: none."""

    @field_validator("notifications")
    @classmethod
    def _are_apart(cls, value: tuple[Notification, ...]) -> tuple[Notification, ...]:
        keys = [f"{entry.trigger}.{entry.service}" for entry in value]
        reject(duplicates(keys, "write the recipients of a trigger and a service in one entry", "trigger"))
        return tuple(sorted(value, key=lambda entry: (entry.trigger, entry.service)))

    @property
    def is_flux(self) -> bool:
        """Return True if the engine is Flux."""
        return self.engine == "flux"

    @property
    def engine_name(self) -> str:
        """Return the name of the engine for messages."""
        return "Flux" if self.is_flux else "Argo CD"

    @property
    def is_oci(self) -> bool:
        """Return True if `repository` is an OCI registry."""
        return self.repository.startswith(OCI)

    @property
    def is_digest(self) -> bool:
        """Return True if `revision` is the digest of an artifact in an OCI registry."""
        return bool(_DIGEST.fullmatch(self.revision))

    @property
    def is_range(self) -> bool:
        """Return True if `revision` is a range of versions in an OCI registry, and neither a tag nor a digest.

        Source: semver v3.4.0 constraints.go constraintOps; semver v3.4.0 constraints.go cvRegex; semver v3.4.0
        constraints.go NewConstraint
        """
        return bool(_RANGE.fullmatch(self.revision)) and not _OCI_TAG.fullmatch(self.revision)

    @property
    def flux_reference(self) -> dict[str, str]:
        """Return the `ref` of a GitRepository or OCIRepository for `revision`: field → value.

        Source: source-controller/api v1.7.3 v1/gitrepository_types.go GitRepositoryRef; source-controller/api v1.7.3
        v1/ocirepository_types.go OCIRepositoryRef
        """
        if self.is_oci:
            return {"digest" if self.is_digest else "semver" if self.is_range else "tag": self.revision}
        if self.is_commit:
            return {"commit": self.revision}
        if self.revision.startswith("refs/"):
            return {"name": self.revision}
        return {"tag" if self.is_version else "branch": self.revision}

    @property
    def is_commit(self) -> bool:
        """Return True if `revision` is a whole commit, of 40 or 64 digits."""
        return bool(_COMMIT.fullmatch(self.revision))

    @property
    def is_version(self) -> bool:
        """Return True if `revision` looks like the tag of a version, such as `v1.0.0` or `sim/1.0.0`."""
        return bool(_SEMVER_TAG.fullmatch(self.revision))

    def _contradictions(self) -> Iterator[Fault]:
        if not self.is_flux:
            if self.secret:
                fix = "remove this field, and give the login to Argo CD"
                yield Fault("Argo CD finds the login by the URL of the repository", fix, ("secret",), ("engine",))
            if self.kube_config:
                message = "Argo CD finds the kubeconfig of another cluster by the URL of its API server"
                fix = "write this URL into `destination`, and remove this field"
                yield Fault(message, fix, ("kubeConfig",), ("engine",))
            if self.is_oci:
                message = "the ApplicationSet of Argo CD finds the teams only in a Git repository"
                fix = "write the URL of a Git repository, or `engine: flux`"
                yield Fault(message, fix, ("repository",), ("engine",))
            return
        if self.notifications:
            message = "the triggers of these notifications are of Argo CD"
            fix = "remove this field, and add a Provider and an Alert of Flux with `extra`"
            yield Fault(message, fix, ("notifications",), ("engine",))
        yield from self._contradictions_of_oci() if self.is_oci else self._contradictions_of_git()
        if self.destination != IN_CLUSTER:
            message = "Flux connects to another cluster by the kubeconfig in a Secret, and not by a URL"
            fix = "remove this field, and write the name of the Secret into `kubeConfig`"
            yield Fault(message, fix, ("destination",), ("engine",))
        namespace = self.namespace or FLUX
        if self.service_account and not self.service_account.startswith(f"serviceaccount:{namespace}/"):
            message = f"Flux impersonates only accounts in the namespace of its Kustomizations, `{namespace}`"
            fix = f"write serviceaccount:{namespace}/NAME"
            yield Fault(message, fix, ("serviceAccount",), ("namespace",))

    def _contradictions_of_git(self) -> Iterator[Fault]:
        if not self.repository.startswith(("https://", "http://", "ssh://")):
            fix = "write the URL like https://git.example.com/platform.git or ssh://git@git.example.com/platform.git"
            yield Fault("Flux reads Git repositories only over HTTPS and SSH", fix, ("repository",), ("engine",))
        if _SHORT_COMMIT.fullmatch(self.revision):
            message = f"{format_value(self.revision)} is a branch for Flux, but looks like the start of a commit"
            fix = f"write all 40 digits of the commit, or refs/heads/{self.revision} for a branch"
            yield Fault(message, fix, ("revision",), ("engine",))

    def _contradictions_of_oci(self) -> Iterator[Fault]:
        """Yield the faults of a platform in an OCI registry.

        Sources: opencontainers/distribution-spec v1.1.1 spec.md "Pulling manifests": names of repositories and tags;
        go-containerregistry v0.20.6 pkg/name/repository.go NewRepository: a host has a dot or a port;
        source-controller v1.7.3 internal/controller/ocirepository_controller.go
        OCIRepositoryReconciler.parseRepository; source-controller v1.7.3
        internal/controller/ocirepository_controller.go OCIRepositoryReconciler.getArtifactRef
        """
        if not _OCI_URL.fullmatch(self.repository):
            message = f"{format_value(self.repository)} is not the URL of a repository in an OCI registry"
            fix = (
                "write a host and a path in lower-case letters, without a tag, like oci://registry.example.com/clusters"
            )
            yield Fault(message, fix, ("repository",))
        if "path" in self.model_fields_set:
            message = "an artifact of an OCI registry contains only the folder of the platform"
            yield Fault(message, "remove this field", ("path",), ("repository",))
        if "revision" not in self.model_fields_set:
            message = "an OCI registry has no branches, so Flux cannot follow `main`"
            fix = "write the tag that you push, such as `revision: 1.0.0`"
            yield Fault(message, fix, ("revision",), ("repository",))
        elif _LOOSE_RANGE.fullmatch(self.revision):
            message = f"{format_value(self.revision)} is a tag for Flux, but looks like a range of versions"
            start = self.revision.lower().split(".x")[0]
            yield Fault(message, f"write `~{start}` for the range", ("revision",), ("repository",))
        elif not (self.is_digest or self.is_range or _OCI_TAG.fullmatch(self.revision)):
            message = f"{format_value(self.revision)} is not a tag, a digest or a range of versions in an OCI registry"
            fix = "write the tag that you push, such as `1.4.0`, or a digest such as `sha256:…` with 64 digits"
            yield Fault(message, fix, ("revision",), ("repository",))

    @property
    def is_remote(self) -> bool:
        """Return True if the engine runs in another cluster than the platform."""
        return self.destination != IN_CLUSTER or self.kube_config is not None

    def namespace_on(self, cluster: Cluster) -> str:
        """Return the namespace of the engine."""
        if self.is_flux:
            return self.namespace or FLUX
        return self.namespace or (OPENSHIFT if cluster.is_openshift else "argocd")

    def reserved_namespace_on(self, cluster: Cluster) -> str:
        """Return the namespace of the platform's cluster in which no tenant may have objects: that of the account."""
        if self.is_remote:
            return self.account_on(cluster).partition(":")[2].partition("/")[0]
        return self.namespace_on(cluster)

    def explain_unknown_account(self, cluster: Cluster) -> str:
        """Return why mpigen cannot derive the account of Argo CD; '' if it can.

        On OpenShift, the account name contains the name of the Argo CD instance, and only the default one is known.
        """
        if self.is_flux or self.is_remote or self.service_account is not None:
            return ""
        if cluster.is_openshift and self.namespace not in (None, OPENSHIFT):
            account = f"the ServiceAccount of Argo CD in namespace `{self.namespace}`"
            return f"{account} has the name of its Argo CD instance, which mpigen does not know"
        return ""

    def account_on(self, cluster: Cluster) -> str:
        """Return the ServiceAccount that applies the manifests, as `serviceaccount:NAMESPACE/NAME`.

        Sources: argo-cd v3.2.1 manifests/base/application-controller-roles/argocd-application-controller-sa.yaml. The
        operator prefixes this name with the name of the instance: argocd-operator v0.18.0
        controllers/argocd/service_account.go newServiceAccountWithName. The default instance of gitops-operator has
        the name of its namespace. `argocd cluster add` creates the account in another cluster: argo-cd v3.2.1
        util/clusterauth/clusterauth.go ArgoCDManagerServiceAccount; argo-cd v3.2.1 common/common.go
        DefaultSystemNamespace. For Flux:
        kustomize-controller v1.7.3 config/default and config/rbac. Another cluster usually has no kustomize-controller.
        """
        if self.is_flux:
            account = GITOPS_ROLE if self.grant or self.is_remote else _FLUX_CONTROLLER
            return self.service_account or f"serviceaccount:{self.namespace_on(cluster)}/{account}"
        if self.is_remote:
            return self.service_account or _MANAGER
        instance = f"{OPENSHIFT}-" if cluster.is_openshift else ""
        return self.service_account or f"serviceaccount:{self.namespace_on(cluster)}/{instance}{_CONTROLLER}"

    def instance_on(self, cluster: Cluster) -> str:
        """Return the name of the resource `ArgoCD` of an operator; '' if no operator installed Argo CD."""
        if self.is_remote:
            return OPENSHIFT if self.namespace_on(cluster) == OPENSHIFT else ""
        _, _, name = self.account_on(cluster).rpartition("/")
        return name.removesuffix(f"-{_CONTROLLER}") if name.endswith(f"-{_CONTROLLER}") else ""
