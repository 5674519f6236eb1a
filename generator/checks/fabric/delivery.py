"""fabric/environment-lost, fabric/control-network: do ranks get the variables, and does MPI keep to the first network?

Ranks are children of sshd, which begins with an environment of its own: what their container was given stays behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from generator.checks.fabric.boxes import Box, Pods
from generator.checks.fabric.workload import Workload, Workloads
from generator.checks.finding import Breach, Severity, listed
from generator.checks.gathered import Gathered
from generator.checks.mpi_runtime import LAUNCHER, NODE, mpi_runtime
from generator.documents.load import Path
from generator.facts import env
from generator.manifests import Manifest
from generator.objects.fields import mapping

_OF_RANKS = re.compile(r"^(NCCL|RCCL|UCX|FI|RDMAV|IBV|HCCL|CCL|GLOO|I_MPI|OMPI_MCA|PMIX_MCA)_")
_FORWARDED = re.compile(r"^(OMPI|PRTE|PMIX)_")
"""What Open MPI hands on by itself (open-mpi/ompi docs/mca.rst)."""
_PASSING = re.compile(
    r"/run/mpi/environment|export -p|SetEnv|SendEnv|PermitUserEnvironment|/etc/environment|/proc/1/environ|printenv"
    r"|\benv\s*(\||>)"
)
"""How a container hands its environment to what sshd starts, or ssh its own to the other side."""
_BY_HYDRA = re.compile(r"^(HYDRA|I_MPI_HYDRA)_")
_STARTS = re.compile(r"\b(mpirun|mpiexec|orterun|prterun)\b")
_FILES = ("openmpi-mca-params.conf", "prte-mca-params.conf")
_TRAINER: Path = ("spec", "trainer")
_DATA = ("btl_tcp_if_include", "btl_tcp_if_exclude")
_CONTROL = ("oob_tcp_if_include", "oob_tcp_if_exclude", "prte_if_include", "prte_if_exclude")


@dataclass(frozen=True)
class Started:
    """A job whose launcher starts ranks on its hosts by ssh.

    Attributes:
        workload: the object.
        hosts: the pods with sshd.
        launcher: the container with `mpirun`.
        is_complete: whether the command of the launcher stands in it; in a runtime a TrainJob says it.
    """

    workload: Workload
    hosts: Pods
    launcher: Box
    is_complete: bool

    @cached_property
    def host(self) -> Box | None:
        """The container with sshd."""
        return _main(self.hosts)

    @cached_property
    def is_hydra(self) -> bool:
        """Whether Intel MPI or MPICH start the ranks, which hand on all that the launcher has."""
        said = mapping(self.workload.manifest.body, "spec").get("mpiImplementation")
        return said in {"Intel", "MPICH"} or any(_BY_HYDRA.match(name) for name in self.told)

    @cached_property
    def told(self) -> frozenset[str]:
        """The names of the variables that the launcher has."""
        return frozenset(each.name for each in (*self.launcher.variables, *self.launcher.assigned))


def environment_lost(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """What hosts have and the launcher has not; and what an Open MPI launcher has and does not hand on."""
    for started in _all_started(gathered):
        host = started.host
        if host and _drops_environment(started):
            names = [each.name for each in host.variables if _OF_RANKS.match(each.name)]
            if lost := [name for name in names if name not in started.told and not _is_in_file(name, host)]:
                what = f"{listed(lost)}: set on the hosts `{started.hosts.role}`, and not on `{LAUNCHER}`"
                yield started.workload.manifest, _lost(host, what, lost)
        if started.is_complete and not started.is_hydra:
            kept = _kept_back(started.launcher, host)
            if kept:
                what = f"{listed(kept)}: set on `{LAUNCHER}`, whose `mpirun` hands on no such variable to the hosts"
                yield started.workload.manifest, _lost(started.launcher, what, kept)
    yield from _lost_of_jobs(gathered)


def _lost_of_jobs(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """`trainer.env` of a TrainJob is that of its launcher (trainer v2.3.0 pkg/runtime/framework/plugins/jobset)."""
    known = {id(started.workload.manifest): started for started in _all_started(gathered)}
    for job in gathered.view(Workloads.read):
        started = known.get(id(job.runtime.manifest)) if job.runtime else None
        if started and not started.is_hydra and not any(_PASSING.search(box.text) for box in started.workload.written):
            for box in (each for each in job.written if each.path == _TRAINER):
                if kept := _kept_back(box, started.host):
                    runtime = started.workload.manifest.name
                    what = f"{listed(kept)}: the launcher of `{runtime}` gets it, whose `mpirun` does not hand it on"
                    yield job.manifest, _lost(box, what, kept)


def _drops_environment(started: Started) -> bool:
    """Whether it is sshd itself that starts the ranks, as far as the manifest tells; an image may do otherwise."""
    host, boxes = started.host, (*started.hosts.first_boxes, *started.hosts.boxes)
    text = host.text if host else ""
    is_sshd = "sshd" in text or (not text and started.workload.manifest.kind == "MPIJob")
    return is_sshd and not any(_PASSING.search(box.text) for box in boxes)


def _kept_back(box: Box, host: Box | None) -> list[str]:
    """The variables of a launcher that the `mpirun` of its command does not hand on; none if that starts no ranks."""
    text = box.text
    if not _STARTS.search(text) or "mca_base_env_list" in text or _PASSING.search(text):
        return []
    names = [each.name for each in box.variables if _OF_RANKS.match(each.name) and not _FORWARDED.match(each.name)]
    lost = [name for name in names if not re.search(rf"(-x|--x|-genv)\s+[\"']?{name}\b", text)]
    return [name for name in lost if not (host and _is_in_file(name, host))]


def _is_in_file(name: str, host: Box) -> bool:
    """Whether NCCL of the hosts has a file that may say it (NVIDIA/nccl docs/userguide/source/env.rst)."""
    return name.startswith("NCCL_") and bool(host.mount("/etc/nccl.conf"))


def _lost(box: Box, what: str, names: Sequence[str]) -> Breach:
    return Breach(
        (*box.path, "env"),
        "fabric/environment-lost",
        what,
        "ranks on the hosts are started by sshd, which passes on nothing of its container: they do without",
        f"say it on `{LAUNCHER}`, and to Open MPI also `mpirun -x {names[0]}`; Intel MPI and MPICH hand on all; "
        "for NCCL a ConfigMap mounted as `/etc/nccl.conf` on the hosts does too",
        Severity.WARNING,
    )


def control_network(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Open MPI and Hydra try every interface that they find (open-mpi/ompi docs, btl/tcp and oob/tcp)."""
    for started in _all_started(gathered):
        box = started.launcher
        if not started.hosts.is_attached or box.body.get("envFrom") or _has_file(box):
            continue
        if missing := _missing(started):
            yield (
                started.workload.manifest,
                Breach(
                    (*box.path, "env"),
                    "fabric/control-network",
                    f"`{LAUNCHER}` lacks {listed(missing)}, and the hosts `{started.hosts.role}` have another network",
                    "MPI tries every address of a host, and hangs on one that its other side cannot reach",
                    "write each with the value `eth0`, the interface of the cluster's own network",
                    Severity.WARNING,
                ),
            )


def _missing(started: Started) -> list[str]:
    text = f"{' '.join(started.told)} {started.launcher.text}"
    if started.is_hydra:
        name = env.I_MPI_HYDRA_IFACE if "I_MPI_" in text else env.HYDRA_IFACE
        return [] if re.search(r"HYDRA_IFACE|-iface\b", text) else [name]
    found = [] if any(each in text for each in _DATA) else [env.OMPI_MCA_btl_tcp_if_include]
    if not any(each in text for each in _CONTROL):
        found += [env.OMPI_MCA_oob_tcp_if_include, env.PRTE_MCA_prte_if_include]
    return found


def _has_file(box: Box) -> bool:
    mounts = box.body.get("volumeMounts")
    return any(file in str(mounts) for file in _FILES)


def _all_started(gathered: Gathered) -> Iterator[Started]:
    for workload in gathered.view(Workloads.read):
        is_runtime = mpi_runtime(workload.manifest.body) is not None
        if not is_runtime and workload.manifest.kind != "MPIJob":
            continue
        roles = {pods.role.lower(): pods for pods in workload.pods}
        hosts, launcher = roles.get(NODE if is_runtime else "worker"), roles.get(LAUNCHER)
        box = _main(launcher) if launcher else None
        if hosts and box:
            yield Started(workload, hosts, box, is_complete=not is_runtime)


def _main(pods: Pods) -> Box | None:
    """The container that Trainer knows by its name, or of an MPIJob the first."""
    named = (box for box in pods.boxes if box.body.get("name") == NODE)
    return next(named, None) or next(iter(pods.boxes), None)
