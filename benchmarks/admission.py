"""Measure the cost of the admission policies on a real API server: `python -m benchmarks.admission [PLATFORM…]`.

The control plane of tests/cluster serves a release with all its policies, bindings and parameters. A member of a team
creates TrainJobs, in blocks with and without the policies by turns, so that other load on the machine slows both.
"""

from __future__ import annotations

import secrets
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.platforms import platform_file
from generator import Platform, pipeline
from generator.facts.names import OWNER
from generator.manifests import Body, Manifest
from generator.upstream.kubernetes.admission_policies.policy import KINDS
from tests.cluster import trees
from tests.cluster.client import Client, RefusedError
from tests.cluster.control_plane import running
from tests.cluster.policies import with_canary, without_canary
from tests.cluster.training import Training, trainings, wait_for_queue
from tests.cluster.versions import versions
from tests.conftest import EXAMPLES

TENANTS = 300
LARGE = f"bench-{TENANTS}"
ROUNDS = 20
BLOCK = 10  # requests of one kind, with or without policies, in a round
_WARM_UP = 2  # requests before each block
_POD = {
    "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "10Gi"}}],
    "containers": [{"name": "node", "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}],
}


class Kind(NamedTuple):
    """A kind of request: a TrainJob with or without a patch, created or only checked by a dry run."""

    has_patch: bool
    is_dry_run: bool

    def __str__(self) -> str:
        return f"{'dry run' if self.is_dry_run else 'create'}, {'one patch' if self.has_patch else 'no patch'}"


class Samples(NamedTuple):
    """The latencies of requests in milliseconds, and the processor time of the API server for all of them."""

    latencies: list[float]
    processor: list[float]

    def describe(self) -> str:
        """Return the median and the 95th percentile."""
        return f"{statistics.median(self.latencies):.1f} / {statistics.quantiles(self.latencies, n=20)[18]:.1f} ms"


_KINDS = tuple(Kind(has_patch, is_dry_run) for is_dry_run in (False, True) for has_patch in (False, True))


def main() -> None:
    """Print a table for each platform of the command line; by default, for two examples and 300 tenants."""
    for name in sys.argv[1:] or ["openshift-h100", "university", LARGE]:
        with tempfile.TemporaryDirectory() as scratch:
            _print(name, *_render(name, Path(scratch)))


def _render(name: str, scratch: Path) -> tuple[Platform, list[Manifest]]:
    platform, app = pipeline.load(platform_file(scratch, TENANTS, has_limits=True) if name == LARGE else EXAMPLES[name])
    return platform, trees.as_argocd_applies(pipeline.render(platform, app))


def _print(name: str, platform: Platform, tree: list[Manifest]) -> None:
    policies = [manifest.body for manifest in tree if manifest.kind in KINDS]
    table = Table(
        "request", "without, median / p95", "with, median / p95", "ratio of medians", "processor, without / with"
    )
    with _deployed(platform, tree) as (admin, process):
        before = _memory(process)
        samples = _measure(admin, process, next(trainings(platform)), policies)
        memory = f"{before:.0f} MiB before, {_memory(process):.0f} MiB after"
    for kind in _KINDS:
        without, with_all = samples[kind, False], samples[kind, True]
        ratio = statistics.median(with_all.latencies) / statistics.median(without.latencies)
        processor = f"{statistics.mean(without.processor):.1f} / {statistics.mean(with_all.processor):.1f} ms"
        table.add_row(str(kind), without.describe(), with_all.describe(), f"{ratio:.2f} x", processor)
    count = sum(body["kind"] == KINDS[0] for body in policies)
    table.title = f"{name}: {len(platform.tenants)} tenants, {count} policies, {ROUNDS * BLOCK} requests per cell"
    table.caption = f"memory of the API server: {memory}"
    Console(width=130).print(table)


@contextmanager
def _deployed(platform: Platform, tree: list[Manifest]) -> Iterator[tuple[Client, int]]:
    """Yield a client of an API server with the release, but without its nodes, and the process of this API server."""
    folder = Path(tempfile.mkdtemp())
    try:
        with running(versions("default"), folder) as cluster:
            for body in trees.prerequisites(platform):
                cluster.admin.apply(body, "benchmarks")
            for manifest in tree:
                cluster.admin.apply(manifest.body)
            yield cluster.admin, cluster.processes.process("kube-apiserver")
            cluster.admin.connections.close()
    finally:
        shutil.rmtree(folder)


def _measure(
    admin: Client, process: int, training: Training, policies: list[Body]
) -> Mapping[tuple[Kind, bool], Samples]:
    """Return the samples of each kind of request, without (False) and with (True) the policies."""
    wait_for_queue(admin, training.tenant.name)
    group = next(subject for subject in training.tenant.access.edit if subject.startswith("group:"))
    member = admin.as_person("ada", (group.removeprefix("group:"), "system:authenticated"))
    samples = {(kind, has_policies): Samples([], []) for kind in _KINDS for has_policies in (False, True)}
    for number in range(ROUNDS):
        for has_policies in (False, True) if number % 2 else (True, False):
            _switch(admin, policies, on=has_policies)
            for kind in _KINDS:
                _add_block(samples[kind, has_policies], kind, admin, member, process, training)
    return samples


def _switch(admin: Client, policies: list[Body], *, on: bool) -> None:
    without_canary(admin)
    for body in policies if on else reversed(policies):
        if on:
            admin.apply(body)
        else:
            admin.delete(body)
    with_canary(admin)


def _add_block(samples: Samples, kind: Kind, admin: Client, member: Client, process: int, training: Training) -> None:
    for _ in range(_WARM_UP):
        _send(kind, admin, member, training)
    start = _processor_time(process)
    samples.latencies.extend(_send(kind, admin, member, training) for _ in range(BLOCK))
    samples.processor.append((_processor_time(process) - start) / BLOCK)


def _send(kind: Kind, admin: Client, member: Client, training: Training) -> float:
    """Create a TrainJob, return the latency in milliseconds, and delete the TrainJob.

    A request that the API server rejects because two requests changed a ResourceQuota at once does not count.
    """
    while True:
        body = _job(training, has_patch=kind.has_patch)
        start = perf_counter()
        try:
            member.create(body, dry_run=kind.is_dry_run)
        except RefusedError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            continue
        latency = (perf_counter() - start) * 1000
        if not kind.is_dry_run:
            admin.delete(body)
        return latency


def _job(training: Training, *, has_patch: bool) -> Body:
    body = training.body
    body["metadata"] |= {"name": f"bench-{secrets.token_hex(4)}", "annotations": {OWNER: "ada"}}
    if has_patch:
        jobs = [{"name": "node", "template": {"spec": {"template": {"spec": _POD}}}}]
        patch = {
            "manager": "example.com/bench",
            "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}},
        }
        body["spec"]["runtimePatches"] = [patch]
    return body


def _processor_time(process: int) -> float:
    """Return the processor time that a process has used, in milliseconds (proc(5), `/proc/pid/schedstat`)."""
    tasks = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e6


def _memory(process: int) -> float:
    """Return the resident memory of a process in MiB."""
    lines = Path(f"/proc/{process}/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


if __name__ == "__main__":
    main()
