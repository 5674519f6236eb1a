"""mpigen: one platform.yaml becomes a checked, plain-YAML GitOps tree for MPI training.

The names below are the public API. They are imported on first use: only what needs Node starts it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from generator.app import App
    from generator.config.access import Access, PlatformAccess
    from generator.config.admission import Admission
    from generator.config.cluster import Cluster, Versions
    from generator.config.cohorts import Cohort
    from generator.config.compliance import Residency, Retention, StorageClass
    from generator.config.data import DataVolume
    from generator.config.egress import Egress
    from generator.config.fabric_parts import Addresses, Nics, NodeSetup
    from generator.config.fabric_shares import FabricShare
    from generator.config.fabrics import Fabric
    from generator.config.gitops import GitOps
    from generator.config.images import Images
    from generator.config.isolation import ApiServer, Guard, Isolation, Metrics
    from generator.config.limits import Limits
    from generator.config.multi_kueue import MultiKueue, WorkerCluster
    from generator.config.placement import Placement
    from generator.config.platform import Platform
    from generator.config.policies import Policies
    from generator.config.pools import Pool, Taint
    from generator.config.priorities import Priority
    from generator.config.provisioning import Provisioning
    from generator.config.queues import Queues, WaitForPodsReady
    from generator.config.relaxations import Relaxation
    from generator.config.reservations import Reservation
    from generator.config.runtimes import Runtime
    from generator.config.secrets import Connection, ExternalSecret, PullSecret, Remote, Secrets, Store, StoreAccount
    from generator.config.tenants import Tenant
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
    "Relaxation": "generator.config.relaxations",
    "Reservation": "generator.config.reservations",
    "Residency": "generator.config.compliance",
    "Retention": "generator.config.compliance",
    "StorageClass": "generator.config.compliance",
    "WaitForPodsReady": "generator.config.queues",
    "Queues": "generator.config.queues",
    "Priority": "generator.config.priorities",
    "Placement": "generator.config.placement",
    "MultiKueue": "generator.config.multi_kueue",
    "WorkerCluster": "generator.config.multi_kueue",
    "Provisioning": "generator.config.provisioning",
    "Limits": "generator.config.limits",
    "Cohort": "generator.config.cohorts",
    "App": "generator.app",
    "Cluster": "generator.config.cluster",
    "Versions": "generator.config.cluster",
    "GitOps": "generator.config.gitops",
    "Fabric": "generator.config.fabrics",
    "FabricShare": "generator.config.fabric_shares",
    "Addresses": "generator.config.fabric_parts",
    "Nics": "generator.config.fabric_parts",
    "NodeSetup": "generator.config.fabric_parts",
    "Platform": "generator.config.platform",
    "Admission": "generator.config.admission",
    "Images": "generator.config.images",
    "Policies": "generator.config.policies",
    "Pool": "generator.config.pools",
    "Taint": "generator.config.pools",
    "Runtime": "generator.config.runtimes",
    "Access": "generator.config.access",
    "PlatformAccess": "generator.config.access",
    "Egress": "generator.config.egress",
    "ApiServer": "generator.config.isolation",
    "Guard": "generator.config.isolation",
    "Isolation": "generator.config.isolation",
    "Metrics": "generator.config.isolation",
    "DataVolume": "generator.config.data",
    "Connection": "generator.config.secrets",
    "ExternalSecret": "generator.config.secrets",
    "PullSecret": "generator.config.secrets",
    "Remote": "generator.config.secrets",
    "Secrets": "generator.config.secrets",
    "Store": "generator.config.secrets",
    "StoreAccount": "generator.config.secrets",
    "Tenant": "generator.config.tenants",
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
