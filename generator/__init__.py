"""mpigen: one platform.yaml becomes a checked, plain-YAML GitOps tree for MPI training.

The names below are the public API. They are imported on first use: only what needs Node starts it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from generator.app import App
    from generator.config.model.access import Access, PlatformAccess
    from generator.config.model.cluster import Cluster, Versions
    from generator.config.model.cohorts import Cohort
    from generator.config.model.fabric_parts import Addresses, FabricShare, Nics, NodeSetup
    from generator.config.model.fabrics import Fabric
    from generator.config.model.gitops import GitOps
    from generator.config.model.isolation import ApiServer, Egress, Guard, Isolation, Metrics
    from generator.config.model.policies import Admission, Images, Policies, Residency, Retention, StorageClass
    from generator.config.model.pools import Pool, Provisioning, Taint
    from generator.config.model.queues import MultiKueue, Priority, Queues, WaitForPodsReady, WorkerCluster
    from generator.config.model.runtimes import Placement, Runtime
    from generator.config.model.secrets import (
        Connection,
        ExternalSecret,
        PullSecret,
        Remote,
        Secrets,
        Store,
        StoreAccount,
    )
    from generator.config.model.tenants import DataVolume, Limits, Relaxation, Reservation, Tenant
    from generator.config.platform import Platform
    from generator.constructs import Component
    from generator.manifests import Manifest
    from generator.runtimes.chart import MpiRuntime
    from generator.runtimes.pods import Volume

__all__ = [
    "Access",
    "Addresses",
    "Admission",
    "ApiServer",
    "App",
    "Cluster",
    "Cohort",
    "Component",
    "Connection",
    "DataVolume",
    "Egress",
    "ExternalSecret",
    "Fabric",
    "FabricShare",
    "GitOps",
    "Guard",
    "Images",
    "Isolation",
    "Limits",
    "Manifest",
    "Metrics",
    "MpiRuntime",
    "MultiKueue",
    "Nics",
    "NodeSetup",
    "Placement",
    "Platform",
    "PlatformAccess",
    "Policies",
    "Pool",
    "Priority",
    "Provisioning",
    "PullSecret",
    "Queues",
    "Relaxation",
    "Remote",
    "Reservation",
    "Residency",
    "Retention",
    "Runtime",
    "Secrets",
    "StorageClass",
    "Store",
    "StoreAccount",
    "Taint",
    "Tenant",
    "Versions",
    "Volume",
    "WaitForPodsReady",
    "WorkerCluster",
    "load_platform",
]

_HOMES = {
    "Relaxation": "generator.config.model.tenants",
    "Reservation": "generator.config.model.tenants",
    "Residency": "generator.config.model.policies",
    "Retention": "generator.config.model.policies",
    "StorageClass": "generator.config.model.policies",
    "WaitForPodsReady": "generator.config.model.queues",
    "Queues": "generator.config.model.queues",
    "Priority": "generator.config.model.queues",
    "Placement": "generator.config.model.runtimes",
    "MultiKueue": "generator.config.model.queues",
    "WorkerCluster": "generator.config.model.queues",
    "Provisioning": "generator.config.model.pools",
    "Limits": "generator.config.model.tenants",
    "Cohort": "generator.config.model.cohorts",
    "App": "generator.app",
    "Cluster": "generator.config.model.cluster",
    "Versions": "generator.config.model.cluster",
    "GitOps": "generator.config.model.gitops",
    "Fabric": "generator.config.model.fabrics",
    "FabricShare": "generator.config.model.fabric_parts",
    "Addresses": "generator.config.model.fabric_parts",
    "Nics": "generator.config.model.fabric_parts",
    "NodeSetup": "generator.config.model.fabric_parts",
    "Platform": "generator.config.platform",
    "Admission": "generator.config.model.policies",
    "Images": "generator.config.model.policies",
    "Policies": "generator.config.model.policies",
    "Pool": "generator.config.model.pools",
    "Taint": "generator.config.model.pools",
    "Runtime": "generator.config.model.runtimes",
    "Access": "generator.config.model.access",
    "PlatformAccess": "generator.config.model.access",
    "Egress": "generator.config.model.isolation",
    "ApiServer": "generator.config.model.isolation",
    "Guard": "generator.config.model.isolation",
    "Isolation": "generator.config.model.isolation",
    "Metrics": "generator.config.model.isolation",
    "DataVolume": "generator.config.model.tenants",
    "Connection": "generator.config.model.secrets",
    "ExternalSecret": "generator.config.model.secrets",
    "PullSecret": "generator.config.model.secrets",
    "Remote": "generator.config.model.secrets",
    "Secrets": "generator.config.model.secrets",
    "Store": "generator.config.model.secrets",
    "StoreAccount": "generator.config.model.secrets",
    "Tenant": "generator.config.model.tenants",
    "Component": "generator.constructs",
    "Manifest": "generator.manifests",
    "MpiRuntime": "generator.runtimes.chart",
    "Volume": "generator.runtimes.pods",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def load_platform(file: str | Path) -> Platform:
    """Read a platform.yaml, so that an mpigen_platform.py can build on it.

    Raises:
        generator.errors.ConfigError: with every problem found.
    """
    from pathlib import Path

    from generator.config.load import load_platform as load

    return load(Path(file))
