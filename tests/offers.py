"""Runtimes and jobs of a platform, as the catalogue of its cluster has them."""

from __future__ import annotations

from generator import Fabric, Platform, Pool, Runtime, Tenant
from generator.config.model.cluster import Cluster
from generator.jobs.catalogue import Catalogue, OfferedRuntime
from generator.jobs.job import NewJob, job_network_policies, new_job
from generator.jobs.reach import Reach, reach
from generator.jobs.request import JobRequest
from generator.jobs.smoke import Benchmark, smoke_command
from generator.manifests import Body, Manifest
from generator.runtimes.hosts import node_size
from generator.runtimes.training_runtime import fabric_contract, training_runtimes
from generator.stages.catalogues import catalogue_of


def offered(platform: Platform, runtime: Runtime) -> tuple[Catalogue, OfferedRuntime]:
    """Return the catalogue of a platform, and one of its runtimes."""
    catalogue = catalogue_of(platform)
    return catalogue, catalogue.runtimes[runtime.name]


def offered_alone(runtime: Runtime, pool: Pool) -> OfferedRuntime:
    """Return a runtime as the catalogue has it, without a platform."""
    bodies = training_runtimes(runtime, pool, Cluster(), namespaces=())
    return Catalogue([Manifest(body, "") for body in bodies]).runtimes[runtime.name]


def reach_of(platform: Platform, tenant: Tenant, runtime: Runtime) -> Reach:
    """Return the sizes of a tenant's largest job on a runtime."""
    catalogue, theirs = offered(platform, runtime)
    return reach(catalogue, catalogue.teams[tenant.name], theirs)


def job_of(platform: Platform, request: JobRequest) -> NewJob:
    """Return the job of a request on the cluster of a platform."""
    return new_job(catalogue_of(platform), request)


def smoke_of(runtime: Runtime, pool: Pool, nodes: int) -> list[str]:
    """Return the command of the smoke test of a runtime."""
    theirs = offered_alone(runtime, pool)
    assert theirs.contract
    return smoke_command(theirs, theirs.contract, nodes)


def benchmark_of(runtime: Runtime, pool: Pool, fabric: Fabric, link: int, nodes: int) -> Benchmark:
    """Return the benchmark of a fabric by a runtime."""
    theirs = offered_alone(runtime, pool)
    assert theirs.contract
    return Benchmark(theirs, theirs.contract, fabric_contract(fabric, pool, node_size(runtime, pool)), link, nodes)


def policies_of(platform: Platform, job: Body) -> list[Body]:
    """Return the NetworkPolicies of a TrainJob in a namespace of the platform."""
    homes = (home for team in catalogue_of(platform).teams.values() for home in team.homes)
    return job_network_policies(next(home for home in homes if home.name == job["metadata"]["namespace"]), job)
