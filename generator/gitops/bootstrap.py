"""The files that an admin applies to a cluster once: the settings of Argo CD, and the root Application.

- The root Application applies the folder `argocd/`: AppProjects, the other Applications and the ApplicationSet. This
  folder at a tag names the tag of an earlier release. So the root Application follows the default branch of the
  repository (`HEAD`), and the other Applications follow `gitops.revision`.
- The root Application has no finalizer and prunes nothing. So its deletion, or a lost file in the repository, deletes
  no Application, and no team with it. The root Application applies no file of this folder, and so not itself.
- An admin applies the settings with server-side apply, which changes only the keys in the file. No Application applies
  the settings, because a deletion of the Application must not delete the configuration of Argo CD.
- The operator of Argo CD overwrites `argocd-cm`, and adds the map `extraConfig` of its resource `ArgoCD`. The field
  `resourceHealthChecks` is a list, which server-side apply replaces as a whole (argocd-operator v0.18.0
  controllers/argocd/configmap.go ReconcileArgoCD.reconcileArgoConfigMap; argocd-operator v0.18.0
  config/crd/bases/argoproj.io_argocds.yaml).
"""

from __future__ import annotations

from generator.config.model.cluster import IN_CLUSTER, GitOps
from generator.config.platform import Platform
from generator.facts.names import ARGOCD_FOLDER, SETTINGS_FILE
from generator.gitops.argocd import RETRY, argocd_metadata, subscriptions
from generator.gitops.health import health_settings
from generator.manifests import Body, Manifest

_ROOT = "root"
_ROOT_FILE = f"{ARGOCD_FOLDER}/bootstrap/root.yaml"
_KINDS = ("AppProject", "Application", "ApplicationSet")
_DEFAULT_BRANCH = "HEAD"


def bootstrap_manifests(platform: Platform) -> list[Manifest]:
    """Return the root Application with its AppProject, and the settings of Argo CD; empty without `gitops`."""
    gitops = platform.gitops
    if gitops is None:
        return []
    return [
        Manifest(root_project(platform, gitops), _ROOT_FILE),
        Manifest(root_application(platform, gitops), _ROOT_FILE),
        Manifest(settings(platform, gitops), SETTINGS_FILE),
    ]


def root_project(platform: Platform, gitops: GitOps) -> Body:
    """Return the AppProject of the root Application, which allows only objects of Argo CD in its namespace."""
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": argocd_metadata(platform, gitops, _ROOT),
        "spec": {
            "description": f"MPI training platform {platform.platform}: objects of Argo CD",
            "sourceRepos": [gitops.repository],
            "destinations": [{"server": IN_CLUSTER, "namespace": gitops.namespace_on(platform.cluster)}],
            "namespaceResourceWhitelist": [{"group": "argoproj.io", "kind": kind} for kind in _KINDS],
        },
    }


def root_application(platform: Platform, gitops: GitOps) -> Body:
    """Return the root Application. The folder `argocd/` is read without its subfolders."""
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {**argocd_metadata(platform, gitops, _ROOT), **subscriptions(gitops)},
        "spec": {
            "project": f"{platform.platform}-{_ROOT}",
            "source": {
                "repoURL": gitops.repository,
                "targetRevision": _DEFAULT_BRANCH,
                "path": f"{gitops.path}/{platform.platform}/{ARGOCD_FOLDER}",
                "directory": {"recurse": False},
            },
            "destination": {"server": IN_CLUSTER, "namespace": gitops.namespace_on(platform.cluster)},
            "syncPolicy": {
                "automated": {"prune": False, "selfHeal": True},
                "syncOptions": ["ServerSideApply=true"],
                "retry": RETRY,
            },
        },
    }


def settings(platform: Platform, gitops: GitOps) -> Body:
    """Return the settings of Argo CD: the ConfigMap `argocd-cm`, or the resource `ArgoCD` of an operator's instance.

    Both have only the keys that a platform needs: the health checks, and `respectRBAC`. The ClusterRole of `grant`
    allows Argo CD to list only the kinds of a release. Without `respectRBAC`, Argo CD reports an error for each other
    kind (argo-cd v3.2.1 docs/operator-manual/argocd-cm.yaml).
    """
    keys = health_settings()
    if gitops.grant:
        keys["resource.respectRBAC"] = "normal"
    namespace = gitops.namespace_on(platform.cluster)
    if instance := gitops.instance_on(platform.cluster):
        return {
            "apiVersion": "argoproj.io/v1beta1",
            "kind": "ArgoCD",
            "metadata": {"name": instance, "namespace": namespace},
            "spec": {"extraConfig": keys},
        }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "argocd-cm", "namespace": namespace},
        "data": keys,
    }
