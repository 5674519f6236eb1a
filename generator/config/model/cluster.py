"""`cluster`: the distribution, the network plugin and the versions of the target cluster."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from generator.config.model.fields import Resource, Section, invalid
from generator.config.model.isolation import Network
from generator.documents.messages import format_value
from generator.facts.versions import TOGETHER, minors


def _newest(component: str) -> Any:
    known = minors(component)
    return Field(default=known[0], json_schema_extra={"enum": [*known]})


class Versions(Section):
    """Minor versions of what runs in the cluster. Leave one out to get the newest that is supported."""

    kubernetes: str = _newest("kubernetes")
    """OpenShift 4.21 is Kubernetes 1.34."""
    trainer: str = _newest("trainer")
    """Kubeflow Trainer."""
    jobset: str = _newest("jobset")
    """JobSet, which Trainer installs."""
    kueue: str = _newest("kueue")
    """Kueue."""
    argocd: str = _newest("argocd")
    """Argo CD."""

    @field_validator("*", mode="before")
    @classmethod
    def _is_supported(cls, value: Any, field: ValidationInfo) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise invalid(f"{format_value(value)} is a number", "put the version in quotes")
        known = minors(field.field_name or "")
        if value not in known:
            supported = " or ".join(f'"{minor}"' for minor in known)
            raise invalid(
                f"{format_value(value)} is not a supported version of {field.field_name}", f"write {supported}"
            )
        return value

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        for pair in TOGETHER:
            if self.trainer == pair["trainer"] and self.jobset != pair["jobset"]:
                raise invalid(
                    f"Trainer {self.trainer} with JobSet {self.jobset}, which it was not made for",
                    f'write trainer: "{pair["trainer"]}" and jobset: "{pair["jobset"]}"',
                )
        return self


class Cluster(Section):
    """The cluster that the platform is for."""

    distribution: Literal["kubernetes", "openshift"] = "kubernetes"
    """OpenShift differs in its DNS, its pod security and its Kueue operator."""
    versions: Versions = Versions()
    """What runs in it."""
    network: Literal["standard", "cilium", "openshift-ovn"] = "standard"
    """What its CNI knows. `standard`: NetworkPolicy. `cilium`: also names outside the cluster (CiliumNetworkPolicy).
    `openshift-ovn`: also AdminNetworkPolicy, which stands above the NetworkPolicies of namespaces."""
    networks: tuple[Network, ...] = ()
    """Networks of the pods and Services of this cluster, such as `10.128.0.0/14`. mpigen then warns about `egress` of a
    team that overlaps them. Default: unknown."""
    resources: tuple[Resource, ...] = ()
    """Extended resources of device plugins that mpigen does not know, such as `example.com/fpga`. mpigen rejects a
    resource whose name resembles a known one, and warns about an unknown one, unless it is listed here."""
    mesh: Literal["istio"] | None = None
    """A service mesh that pods of MPI have to stay out of: ssh and MPI do not pass its proxies."""

    @field_validator("network")
    @classmethod
    def _goes_with_the_distribution(cls, value: str, info: ValidationInfo) -> str:
        if value == "openshift-ovn" and info.data.get("distribution") == "kubernetes":
            raise invalid("this cluster is no OpenShift", "write `distribution: openshift`, or leave it out")
        return value

    @field_validator("networks", "resources")
    @classmethod
    def _in_order(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(value)))

    @property
    def is_openshift(self) -> bool:
        """Whether SecurityContextConstraints and OpenShift's own namespaces exist."""
        return self.distribution == "openshift"
