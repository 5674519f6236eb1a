"""`cluster`: what the platform runs on, and the versions that its manifests are made and checked for."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from generator.config.fields import Section, refusal


def _is_version(value: Any) -> Any:
    if isinstance(value, int | float):
        raise refusal(f"{value} is a number in YAML", f'write it in quotes: "{value}"')
    return value


class Versions(Section):
    """Minor versions of what runs in the cluster. Leave one out to get the newest that is supported."""

    kubernetes: Annotated[Literal["1.34"], BeforeValidator(_is_version)] = "1.34"
    """OpenShift 4.21 is Kubernetes 1.34."""
    trainer: Annotated[Literal["2.3"], BeforeValidator(_is_version)] = "2.3"
    """Kubeflow Trainer."""
    jobset: Annotated[Literal["0.12"], BeforeValidator(_is_version)] = "0.12"
    """JobSet, which Trainer installs."""
    kueue: Annotated[Literal["0.19"], BeforeValidator(_is_version)] = "0.19"
    """Kueue."""
    argocd: Annotated[Literal["3.2"], BeforeValidator(_is_version)] = "3.2"
    """Argo CD."""


class Cluster(Section):
    """The cluster that the platform is for."""

    distribution: Literal["kubernetes", "openshift"] = "kubernetes"
    """OpenShift differs in its DNS, its pod security and its Kueue operator."""
    versions: Versions = Versions()
    """What runs in it."""

    @property
    def is_openshift(self) -> bool:
        """Whether SecurityContextConstraints and OpenShift's own namespaces exist."""
        return self.distribution == "openshift"
