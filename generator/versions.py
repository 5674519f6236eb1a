"""The upstream releases that mpigen knows, as data: what `platform.yaml` may name, what schemas are compiled from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Component:
    """One upstream project at one release.

    Attributes:
        name: what `platform.yaml` calls it, such as `kueue`.
        minor: the version a user names, such as `0.19`.
        module: the Go module that carries the API definitions; of what comes in none, where it is developed.
        version: the exact release of that module.
        sum: the hash of the module's content, as in `go.sum`; empty for what comes in none: its kinds are told in
            generator/schemas/operators.
        folder: where in the module the definitions lie.
        source: the same folder for people.
        files: which of the files there are read: patterns, with spaces between.
    """

    name: str
    minor: str
    module: str
    version: str
    sum: str
    folder: str
    source: str
    files: str = "*.yaml"

    def among(self, folder: Path) -> list[Path]:
        """The files of the module that are read, in order."""
        return sorted(file for pattern in self.files.split() for file in (folder / self.folder).glob(pattern))


SUPPORTED: tuple[Component, ...] = (
    Component(
        name="kubernetes",
        minor="1.34",
        module="k8s.io/kubernetes",
        version="v1.34.2",
        sum="h1:WQdDvYJazkmkwSncgNwGvVtaCt4TYXIU3wSMRgvp3MI=",
        folder="api/openapi-spec/v3",
        source="https://github.com/kubernetes/kubernetes/tree/v1.34.2/api/openapi-spec/v3",
    ),
    Component(
        name="kubernetes",
        minor="1.33",
        module="k8s.io/kubernetes",
        version="v1.33.4",
        sum="h1:T1d5FLUYm3/KyUeV7YJhKTR980zHCHb7K2xhCSo3lE8=",
        folder="api/openapi-spec/v3",
        source="https://github.com/kubernetes/kubernetes/tree/v1.33.4/api/openapi-spec/v3",
    ),
    Component(
        name="trainer",
        minor="2.3",
        module="github.com/kubeflow/trainer/v2",
        version="v2.3.0",
        sum="h1:Je+e7zvTLzB4qW09J1fB7pZrqvPtWuGng2NqdN5p5QU=",
        folder="manifests/base/crds",
        source="https://github.com/kubeflow/trainer/tree/v2.3.0/manifests/base/crds",
    ),
    Component(
        name="trainer",
        minor="2.2",
        module="github.com/kubeflow/trainer/v2",
        version="v2.2.0",
        sum="h1:whChZckEtycLo1UKH/M0hiNaCUozbLvf9JrgmMv+TAg=",
        folder="manifests/base/crds",
        source="https://github.com/kubeflow/trainer/tree/v2.2.0/manifests/base/crds",
    ),
    Component(
        name="jobset",
        minor="0.12",
        module="sigs.k8s.io/jobset",
        version="v0.12.0",
        sum="h1:YYPuV0px8Ongq/RXmJg6V0w2UC67aiR+rCMD06vhQQQ=",
        folder="config/components/crd/bases",
        source="https://github.com/kubernetes-sigs/jobset/tree/v0.12.0/config/components/crd/bases",
    ),
    Component(
        name="jobset",
        minor="0.11",
        module="sigs.k8s.io/jobset",
        version="v0.11.1",
        sum="h1:WgLEBnXTeX+4MxfVkIbfm4jIVgjvIY6Jfaei2okxKNk=",
        folder="config/components/crd/bases",
        source="https://github.com/kubernetes-sigs/jobset/tree/v0.11.1/config/components/crd/bases",
    ),
    Component(
        name="kueue",
        minor="0.19",
        module="sigs.k8s.io/kueue",
        version="v0.19.2",
        sum="h1:mPNzr37u0nwI7ikST5QQl5gg6EgtYOAvC9ZbTgywdN8=",
        folder="config/components/crd/bases",
        source="https://github.com/kubernetes-sigs/kueue/tree/v0.19.2/config/components/crd/bases",
    ),
    Component(
        name="kueue",
        minor="0.18",
        module="sigs.k8s.io/kueue",
        version="v0.18.3",
        sum="h1:eakKqjCM/6KoOiEd7hhFXiaG/s2x0kXLaBwpNcqp2Mw=",
        folder="config/components/crd/bases",
        source="https://github.com/kubernetes-sigs/kueue/tree/v0.18.3/config/components/crd/bases",
    ),
    Component(
        name="argocd",
        minor="3.2",
        module="github.com/argoproj/argo-cd/v3",
        version="v3.2.1",
        sum="h1:rvrkW/JdH4V+xJgNDZI9wa/Ygd+fWoGbd1rAhvno22c=",
        folder="manifests/crds",
        source="https://github.com/argoproj/argo-cd/tree/v3.2.1/manifests/crds",
        files="*-crd.yaml",
    ),
    Component(
        name="cilium",
        minor="1.18",
        module="github.com/cilium/cilium",
        version="v1.18.4",
        sum="h1:/HrbeMmk46UDkJs4uJemIqxB7wuZ+QRMNVscNYua5C8=",
        folder="pkg/k8s/apis/cilium.io/client/crds/v2",
        source="https://github.com/cilium/cilium/tree/v1.18.4/pkg/k8s/apis/cilium.io/client/crds/v2",
        files="ciliumnetworkpolicies.yaml",
    ),
    Component(  # the release that OVN-Kubernetes has
        name="network-policy-api",
        minor="0.1",
        module="sigs.k8s.io/network-policy-api",
        version="v0.1.5",
        sum="h1:xyS7VAaM9EfyB428oFk7WjWaCK6B129i+ILUF4C8l6E=",
        folder="config/crd/experimental",
        source="https://github.com/kubernetes-sigs/network-policy-api/tree/v0.1.5/config/crd/experimental",
        files="policy.networking.k8s.io_*.yaml",
    ),
    Component(  # has no releases; of the days of OpenShift 4.21
        name="openshift",
        minor="4.21",
        module="github.com/openshift/api",
        version="v0.0.0-20251214014457-bfa868a22401",
        sum="h1:goMf6pBtRFSQaVElFk6K+GIAqnv7O84p7PJHH6pDz/E=",
        folder="config/v1/zz_generated.crd-manifests",
        source="https://github.com/openshift/api/tree/bfa868a22401/config/v1/zz_generated.crd-manifests",
        files="*_apiservers-Default.crd.yaml",
    ),
    Component(
        name="openshift-security",
        minor="4.21",
        module="github.com/openshift/api",
        version="v0.0.0-20251214014457-bfa868a22401",
        sum="h1:goMf6pBtRFSQaVElFk6K+GIAqnv7O84p7PJHH6pDz/E=",
        folder="security/v1/zz_generated.crd-manifests",
        source="https://github.com/openshift/api/tree/bfa868a22401/security/v1/zz_generated.crd-manifests",
        files="*_securitycontextconstraints.crd.yaml",
    ),
    Component(
        name="external-secrets",
        minor="1.3",
        module="github.com/external-secrets/external-secrets",
        version="v1.3.2",
        sum="h1:u2J8RjlHIeF0oZCqtl92adI/uZWUwOesJIDkfql6LqQ=",
        folder="config/crds/bases",
        source="https://github.com/external-secrets/external-secrets/tree/v1.3.2/config/crds/bases",
        files="external-secrets.io_*s.yaml",
    ),
    Component(
        name="network-attachment-definitions",
        minor="1.7",
        module="github.com/k8snetworkplumbingwg/network-attachment-definition-client",
        version="v1.7.7",
        sum="h1:z4P744DR+PIpkjwXSEc6TvN3L6LVzmUquFgmNm8wSUc=",
        folder="artifacts",
        source="https://github.com/k8snetworkplumbingwg/network-attachment-definition-client/tree/v1.7.7/artifacts",
        files="networks-crd.yaml",
    ),
    Component(
        name="multi-networkpolicy",
        minor="1.0",
        module="github.com/k8snetworkplumbingwg/multi-networkpolicy",
        version="v1.0.1",
        sum="h1:Egj1hEVYNXWFlKpgzAXxe/2o8VNiVcAJLrKzlinILQo=",
        folder=".",
        source="https://github.com/k8snetworkplumbingwg/multi-networkpolicy/blob/v1.0.1/scheme.yml",
        files="scheme.yml",
    ),
    Component(
        name="sriov-network-operator",
        minor="1.6",
        module="github.com/k8snetworkplumbingwg/sriov-network-operator",
        version="v1.6.0",
        sum="h1:rzxyQm7Blreak47QCxvUEscTWgFzp+rBPcKXy5RewgE=",
        folder="config/crd/bases",
        source="https://github.com/k8snetworkplumbingwg/sriov-network-operator/tree/v1.6.0/config/crd/bases",
    ),
    Component(
        name="openshift-machine-configuration",
        minor="4.21",
        module="github.com/openshift/api",
        version="v0.0.0-20251214014457-bfa868a22401",
        sum="h1:goMf6pBtRFSQaVElFk6K+GIAqnv7O84p7PJHH6pDz/E=",
        folder="machineconfiguration/v1/zz_generated.crd-manifests",
        source="https://github.com/openshift/api/tree/bfa868a22401/machineconfiguration/v1/zz_generated.crd-manifests",
        files=(
            "*_machineconfigs.crd.yaml *_machineconfigpools-Default.crd.yaml "
            "*_kubeletconfigs.crd.yaml *_containerruntimeconfigs.crd.yaml"
        ),
    ),
    Component(
        name="network-operator",
        minor="26.4",
        module="github.com/Mellanox/network-operator",
        version="v26.4.1",
        sum="",
        folder="config/crd/bases",
        source="https://github.com/Mellanox/network-operator/tree/v26.4.1/config/crd/bases",
    ),
    Component(
        name="nvidia-k8s-ipam",
        minor="0.4",
        module="github.com/Mellanox/nvidia-k8s-ipam",
        version="v0.4.0",
        sum="",
        folder="deploy/crds",
        source="https://github.com/Mellanox/nvidia-k8s-ipam/tree/v0.4.0/deploy/crds",
    ),
    Component(
        name="node-tuning-operator",
        minor="4.21",
        module="github.com/openshift/cluster-node-tuning-operator",
        version="release-4.21",
        sum="",
        folder="manifests",
        source="https://github.com/openshift/cluster-node-tuning-operator/tree/release-4.21/manifests",
    ),
)


TOGETHER: tuple[Mapping[str, str], ...] = (
    {"trainer": "2.3", "jobset": "0.12"},
    {"trainer": "2.2", "jobset": "0.11"},
)
"""Releases that are made for each other: Trainer installs JobSet (manifests/third-party/jobset/kustomization.yaml)."""


def minors(name: str) -> tuple[str, ...]:
    """The versions of a component that `platform.yaml` may name, newest first; empty for an unknown component."""
    return tuple(component.minor for component in SUPPORTED if component.name == name)
