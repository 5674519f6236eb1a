"""`gitops`: the Argo CD Application that applies a release."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from generator.config.model.access import Account
from generator.config.model.cluster import Cluster
from generator.config.model.fields import Name, Section, Text, invalid
from generator.documents.messages import format_value

_CONTROLLER = "argocd-application-controller"
OPENSHIFT = "openshift-gitops"
"""The default instance of OpenShift GitOps, and its namespace."""
_REPOSITORY = re.compile(r"(?:https?|ssh|file)://\S+|[\w.-]+@[\w.-]+:\S+")


def _is_repository(value: str) -> str:
    if not _REPOSITORY.fullmatch(value):
        raise invalid(f"{format_value(value)} is not a Git URL", "write it like https://git.example.com/platform.git")
    return value


def _is_folder(value: str) -> str:
    parts = value.strip("/").split("/")
    if value.startswith("/") or not all(parts) or {".", ".."} & set(parts):
        raise invalid(
            f"{format_value(value)} is not a folder of the repository", "write a path such as output or clusters/prod"
        )
    return "/".join(parts)


class GitOps(Section):
    """The Argo CD Application that applies a release."""

    engine: Literal["argocd"] = "argocd"
    """The GitOps engine. Only Argo CD is supported."""
    repository: Annotated[str, Field(strict=True), AfterValidator(_is_repository)]
    """The Git URL of the repository that holds this tree."""
    revision: Text = "main"
    """The branch, tag or commit."""
    path: Annotated[str, Field(strict=True, min_length=1), AfterValidator(_is_folder)] = "output"
    """The folder in the repository that `mpigen synth --output` writes to."""
    namespace: Name | None = None
    """The namespace of Argo CD. Default: argocd, or openshift-gitops on OpenShift."""
    service_account: Account | None = None
    """The ServiceAccount of Argo CD's application controller, which applies the tree. Default: the one in Argo CD's own
    manifests in `namespace`, or the account of the default instance of OpenShift GitOps."""
    grant: Annotated[bool, Field(strict=True)] = False
    """If true, the release holds the role that `serviceAccount` needs, and binds it. A cluster admin must apply
    `cluster/access/gitops.yaml` first."""

    def namespace_on(self, cluster: Cluster) -> str:
        """Return the namespace of Argo CD."""
        return self.namespace or (OPENSHIFT if cluster.is_openshift else "argocd")

    def explain_unknown_account(self, cluster: Cluster) -> str:
        """Return why the account is unknown; '' if it is known.

        The account of another instance of Argo CD has the name of the instance.
        """
        if cluster.is_openshift and self.namespace not in (None, OPENSHIFT) and self.service_account is None:
            return f"the account of Argo CD in `{self.namespace}` depends on the name of the instance"
        return ""

    def account_on(self, cluster: Cluster) -> str:
        """Return the account that applies the tree, as `serviceaccount:NAMESPACE/NAME`.

        argo-cd v3.2.1 manifests/base/application-controller-roles/argocd-application-controller-sa.yaml; the operator
        puts the instance's name before it: argocd-operator controllers/argocd/service_account.go
        `newServiceAccountWithName`, and the instance of gitops-operator bears its namespace's.
        """
        instance = f"{OPENSHIFT}-" if cluster.is_openshift else ""
        return self.service_account or f"serviceaccount:{self.namespace_on(cluster)}/{instance}{_CONTROLLER}"
