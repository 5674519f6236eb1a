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
    """Minor versions of the components of the cluster. Default: the newest supported version of each."""

    kubernetes: str = _newest("kubernetes")
    """The minor version of Kubernetes. OpenShift 4.21 is Kubernetes 1.34."""
    trainer: str = _newest("trainer")
    """The minor version of Kubeflow Trainer."""
    jobset: str = _newest("jobset")
    """The minor version of JobSet, which Trainer installs."""
    kueue: str = _newest("kueue")
    """The minor version of Kueue."""
    argocd: str = _newest("argocd")
    """The minor version of Argo CD."""

    @field_validator("*", mode="before")
    @classmethod
    def _is_supported(cls, value: Any, field: ValidationInfo) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise invalid(f"{format_value(value)} is not a string", "put the version in quotes")
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
                    f"Trainer {self.trainer} with JobSet {self.jobset}, which it does not support",
                    f'write trainer: "{pair["trainer"]}" and jobset: "{pair["jobset"]}"',
                )
        return self


class Cluster(Section):
    """The target cluster of the platform."""

    distribution: Literal["kubernetes", "openshift"] = "kubernetes"
    """Kubernetes or OpenShift, which differ in DNS, pod security and the operator of Kueue."""
    versions: Versions = Versions()
    """The versions of its components. mpigen writes and checks manifests for them."""
    network: Literal["standard", "cilium", "openshift-ovn"] = "standard"
    """The policies that the CNI supports. `standard`: NetworkPolicy. `cilium`: also CiliumNetworkPolicy, which matches
    DNS names. `openshift-ovn`: also AdminNetworkPolicy, which overrides the NetworkPolicies of namespaces."""
    networks: tuple[Network, ...] = ()
    """Networks of pods and Services of this cluster, such as `10.128.0.0/14`. mpigen then warns about `egress` that
    overlaps them. Default: unknown."""
    resources: tuple[Resource, ...] = ()
    """Extended resources of device plugins that mpigen does not know, such as `example.com/fpga`. mpigen rejects a
    resource whose name resembles a known one, and warns about an unknown one, unless it is listed here."""
    mesh: Literal["istio"] | None = None
    """The service mesh, which mpigen disables for MPI pods, because ssh and MPI do not work through its proxies."""

    @field_validator("network")
    @classmethod
    def _goes_with_the_distribution(cls, value: str, info: ValidationInfo) -> str:
        if value == "openshift-ovn" and info.data.get("distribution") == "kubernetes":
            raise invalid("`openshift-ovn` needs OpenShift", "write `distribution: openshift`, or remove this field")
        return value

    @field_validator("networks", "resources")
    @classmethod
    def _in_order(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(value)))

    @property
    def is_openshift(self) -> bool:
        """Return True if SecurityContextConstraints and the namespaces of OpenShift exist."""
        return self.distribution == "openshift"
