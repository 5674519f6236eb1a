"""trainjob/*: the ranks that a TrainJob starts, compared with its pods and devices.

Like mpi/ranks.py, the checks read TrainJobs whose runtime is in the files, and the default command of
runtimes. They report nothing about a command that mpigen cannot read exactly, such as a script with a loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from generator.checks.objects import Objects, runtime_of
from generator.checks.registry import INFO, WARNING, Breach, check
from generator.documents.load import Path
from generator.errors import SimulationError
from generator.manifests import Manifest
from generator.objects.fields import mapping, mappings, strings
from generator.objects.pods import JOB_SET, NODE, RUNTIMES
from generator.objects.training import GROUP, MPI, TRAINER, mpi_runtime
from generator.upstream.compile import Origin, compile_job
from generator.upstream.mpi.commands import Command, is_known
from generator.upstream.mpi.launch import Launch, Launches, python_file
from generator.upstream.mpi.world import Started, count_accelerators
from generator.upstream.trainer.runtime import POD, step_of

_WRITES_NO_FILE = frozenset({"cd", "nvidia-smi", "sleep", "true", "ulimit", "umask"})
_SEVERAL = 2
_PROCESSES: Path = ("spec", "trainer", "numProcPerNode")
_SHARED = (
    "several ranks select the same device: NCCL fails (`Duplicate GPU detected`), and the ranks of other programs "
    "share the memory of the device and run more slowly"
)


@dataclass(frozen=True)
class RankStart:
    """A TrainJob, or a runtime with a default command, and the ranks that it starts.

    Attributes:
        manifest: the TrainJob or the runtime.
        started: the pods and commands. For a runtime, mpigen takes a TrainJob that sets only `runtimeRef`.
        launches: the launchers in the commands.
    """

    manifest: Manifest
    started: Started
    launches: Launches

    @classmethod
    def read(cls, objects: Objects) -> Sequence[RankStart]:
        """Read the TrainJobs with a runtime, and the runtimes, whose commands mpigen can read."""
        runtimes = [(runtime, _job_on(runtime), runtime) for runtime in objects.of(GROUP, *RUNTIMES)]
        jobs = [(job, job, runtime_of(job, objects)) for job in objects.of(GROUP, "TrainJob")]
        starts = []
        for manifest, job, runtime in (*jobs, *runtimes):
            if runtime and _has_command(job, runtime):
                with suppress(SimulationError):  # `trainjob/rejected` and the checks of runtimes report the reasons
                    started = Started(compile_job(job, runtime, objects.targets))
                    if started.launches is not None:
                        starts.append(cls(manifest, started, started.launches))
        return starts

    @property
    def counts(self) -> Mapping[str, int]:
        """Host → the number of its ranks; empty if unknown."""
        ranks = self.started.ranks
        return ranks.counts if ranks and ranks.counts else {}

    def place(self, command: Command, position: int = 0) -> Path:
        """Return the path of a word of a command in the TrainJob or runtime.

        If the runtime of a TrainJob sets the command, return the path of `runtimeRef` in the TrainJob.
        """
        return self._own_path(self.started.locate(command, position)) or ("spec", "runtimeRef", "name")

    def place_of_variable(self, name: str) -> Path | None:
        """Return the path of a variable in the TrainJob or runtime; None if it is in the runtime of the TrainJob."""
        return self._own_path(self.started.locate_variable(name))

    def _own_path(self, origin: Origin | None) -> Path | None:
        return origin.path if origin and origin.manifest.kind == self.manifest.kind else None

    def lacks_file(self, launch: Launch, path: str) -> bool:
        """Return True if only the image can contain the hostfile that a launcher reads.

        Trainer does not mount the file, no volume contains its path, and no other program of the command can write the
        file. Return False for a relative path, and for a path that mpigen does not know.
        """
        if not path.startswith("/") or not is_known(path) or self.started.is_hostfile(path):
            return False
        mounts = (str(mount.get("mountPath")) for mount in mappings(self.started.container[1].get("volumeMounts")))
        if any(PurePosixPath(path).is_relative_to(mount) for mount in mounts):
            return False
        others = [command for command in self.launches.commands if command is not launch.command]
        return all(command.program in _WRITES_NO_FILE for command in others)

    def place_of_number(self, launch: Launch) -> Path:
        """Return the path of the field that sets the number of ranks.

        This is an option of the command, or else `numProcPerNode` of the TrainJob, or else the command.
        """
        if options := launch.find("processes", "per_host", "one_per_host", "mapping"):
            return self.place(launch.command, options[0].position)
        is_own = "numProcPerNode" in mapping(self.manifest.body, "spec", "trainer")
        return _PROCESSES if is_own else self.place(launch.command)

    @property
    def size(self) -> str:
        """The slots and hosts of the hostfile, as the end of a message: `8 slots: 2 hosts with 4 each`."""
        hosts, slots = len(self.started.hosts), self.started.slots
        return f"{hosts * slots} slot{'s' * (hosts * slots > 1)}: {hosts} host{'s' * (hosts > 1)} with {slots} each"


def _job_on(runtime: Manifest) -> Manifest:
    """Return a TrainJob that sets only its runtime."""
    reference = {"kind": runtime.kind, "name": runtime.name}
    metadata = {"name": "job", "namespace": runtime.namespace or "default"}
    body = {"apiVersion": runtime.api_version, "kind": "TrainJob", "metadata": metadata}
    return replace(runtime, body={**body, "spec": {"runtimeRef": reference, "trainer": {}}})


def _has_command(job: Manifest, runtime: Manifest) -> bool:
    """Return True if the TrainJob or its runtime sets the command that starts the ranks."""
    replicated = mappings(mapping(runtime.body, *map(str, JOB_SET)).get("replicatedJobs"))
    pods = (mapping(item, *map(str, POD)) for item in replicated if step_of(item) == TRAINER)
    containers = [item for pod in pods for item in mappings(pod.get("containers")) if item.get("name") == NODE]
    return any(strings(item.get("command")) for item in (mapping(job.body, "spec", "trainer"), *containers))


@check("trainjob/shared-devices", severity=WARNING, needs=Objects)
def shared_devices(objects: Objects) -> Iterator[Breach]:
    """Report more ranks per pod than the pod has accelerators.

    NCCL rejects two ranks of a job on one GPU. With `torchrun` and `deepspeed`, ranks select devices that do not exist:
    invalid device ordinal. The check reads the `numProcPerNode` of MPI runtimes, and the numbers of ranks that commands
    set. It skips GPUs of Intel, because each tile of such a GPU can run a rank.

    Source: NVIDIA/nccl src/init.cc; deepspeed 0.19.8 deepspeed/launcher/launch.py
    """
    for manifest in objects.of(GROUP, *RUNTIMES):
        runtime = mpi_runtime(manifest.body)
        node, slots = runtime and runtime.node, runtime and runtime.policy.get("numProcPerNode")
        of_pod = count_accelerators(node.pod) if node else 0
        if isinstance(slots, int) and slots > of_pod > 0:
            yield Breach(
                (*MPI, "numProcPerNode"),
                f"`numProcPerNode` is `{slots}`, but a pod has {of_pod} accelerator{'s' * (of_pod > 1)}",
                _SHARED,
                f"set `numProcPerNode: {of_pod}`",
                manifest,
                value=slots,
            )
    for start in objects.view(RankStart.read):
        for launch in start.launches.only[:1]:
            devices = {} if start.started.excess(launch) else start.started.devices  # `mpi/slots` reports the excess
            excess = {host: count for host, count in start.counts.items() if count > devices.get(host, 0) > 0}
            if not excess:
                continue
            host, count = max(excess.items(), key=lambda item: item[1])
            yield Breach(
                start.place_of_number(launch),
                f"`{launch.command.program}` starts {count} ranks in the pod `{host.partition('.')[0]}`, which has "
                f"{devices[host]} accelerator{'s' * (devices[host] > 1)}",
                _SHARED if launch.launcher.name not in ("deepspeed", "torchrun") else launch.launcher.excess,
                f"start at most {devices[host]} rank{'s' * (devices[host] > 1)} per pod",
                start.manifest,
                value=count,
            )


@check("trainjob/idle-devices", severity=WARNING, needs=Objects)
def idle_devices(objects: Objects) -> Iterator[Breach]:
    """Report pods without a rank, and pods with fewer ranks than accelerators.

    If a command sets the number of processes, the launcher fills the first pods of the hostfile. The other pods hold
    their devices and quota, and run nothing. If each pod has a rank, but fewer ranks than accelerators, the finding is
    an info: a rank can use several accelerators.

    Source: Open MPI 4.1.4 and 5.0.11, Intel MPI 2021.19 and MPICH 5.0.2 were run (tests/fixtures/launches.yaml)
    """
    for start in objects.view(RankStart.read):
        counts, devices = start.counts, start.started.devices
        for launch in start.launches.only[:1] if counts.keys() == {*start.started.hosts} else ():
            size, place = sum(counts.values()), start.place_of_number(launch)
            idle = sum(not count for count in counts.values())
            text = f"`{launch.command.program}` starts {size} rank{'s' * (size != 1)}"
            if idle:
                yield Breach(
                    place,
                    f"{text} in {len(counts) - idle} of {len(counts)} pods",
                    "the other pods hold their quota and devices, but run no rank",
                    f"start {start.started.slots * len(counts)} ranks, or set a smaller `numNodes`",
                    start.manifest,
                )
            elif any(count < devices.get(host, 0) for host, count in counts.items()):
                yield Breach(
                    place,
                    f"{text}, but the pods have {sum(devices.values())} accelerators",
                    "if each rank uses one accelerator, the other accelerators are idle",
                    "start one rank per accelerator, unless each rank uses several",
                    start.manifest,
                    severity=INFO,
                )


@check("trainjob/launcher", severity=WARNING, needs=Objects)
def launcher(objects: Objects) -> Iterator[Breach]:
    """Report a command whose ranks in different pods do not find each other, on a runtime without MPI.

    On such a runtime, every pod runs the command. Trainer creates no hostfile, so `mpirun`, `horovodrun` and
    `deepspeed` start ranks in their own pod only. With `mlPolicy.torch`, Trainer sets variables `PET_*`, which only
    `torchrun` reads. Python without `torchrun` starts one process per pod, with world size 1.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/torch/torch.go Torch.EnforceMLPolicy; deepspeed 0.19.8
    deepspeed/launcher/runner.py fetch_hostfile
    """
    for start in objects.view(RankStart.read):
        pods = len(start.started.hosts)
        if start.started.is_mpi or pods < _SEVERAL:
            continue
        why = f"each of the {pods} pods trains alone, with its own copy of the work"
        for launch in start.launches.only[:1]:
            name = launch.launcher.name
            is_local = not launch.find("hosts", "alone", "hostfile") and not start.started.names_hostfile
            is_local &= name != "deepspeed" or start.lacks_file(launch, launch.hostfile)
            if name != "torchrun" and is_local and not launch.is_configured:
                program = launch.command.program
                yield Breach(
                    start.place(launch.command),
                    f"`{program}` runs in each of the {pods} pods, and finds no hostfile",
                    why,
                    "use an MPI runtime, or start the ranks with `torchrun`",
                    start.manifest,
                    value=program,
                )
        command = start.started.lone_program
        if command and start.started.is_torch and not start.started.environment.keys() & {"RANK", "WORLD_SIZE"}:
            name, file = command.words[0], python_file(command)
            yield Breach(
                start.place(command),
                f"`{name}` runs `{file}` without `torchrun`, so the world size is 1",
                why,
                f"start the ranks with `torchrun {file}`",
                start.manifest,
                value=name,
            )


@check("trainjob/torchrun", severity=WARNING, needs=Objects)
def torchrun(objects: Objects) -> Iterator[Breach]:
    """Report options of torchrun that contradict the number of pods.

    Trainer sets the number of pods in `PET_NNODES`, and the address of the first pod in `PET_MASTER_ADDR`. Options of
    torchrun override these variables. With `--nnodes` above the number of pods, torchrun waits until it fails. With
    a lower `--nnodes`, the world lacks the ranks of the other pods. With `--standalone`, each pod is a world of its
    own, or waits for the other pods until it fails.

    Source: pytorch torch/distributed/run.py run; torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py
    """
    for start in objects.view(RankStart.read):
        pods = len(start.started.hosts)
        for launch in start.launches.only[:1] if start.started.is_torch else ():
            nodes, alone = launch.number("host_count"), launch.find("alone")
            if launch.launcher.name != "torchrun":
                continue
            if alone and pods >= _SEVERAL:
                option, message = alone[0], f"`--standalone` is set, but the TrainJob has {pods} pods"
                why = (
                    "each pod looks for the other pods at its own address: it trains alone, or torchrun waits and fails"
                )
            elif nodes is not None and nodes != pods and not alone:
                option = launch.find("host_count")[0]
                message = f"`--nnodes` is {nodes}, but the TrainJob has {pods} pod{'s' * (pods > 1)}"
                why = "torchrun waits for pods that do not exist, until it fails"
                if nodes < pods:
                    why = f"the world contains only the ranks of {nodes} pod{'s' * (nodes > 1)}"
            else:
                continue
            fix = "remove the option: Trainer sets `PET_NNODES` and `PET_MASTER_ADDR`, which torchrun reads"
            yield Breach(start.place(launch.command, option.position), message, why, fix, start.manifest, value=nodes)
