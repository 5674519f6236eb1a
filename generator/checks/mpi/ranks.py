"""mpi/*: the ranks that the command of a TrainJob starts: mpi/slots, mpi/no-launcher, mpi/hostfile.

The checks read TrainJobs whose runtime is in the files, and the default command of runtimes. They report nothing about
a command that mpigen cannot read exactly, such as a script with a loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.objects import Objects
from generator.checks.ranks import RankStart
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.documents.load import Path
from generator.facts import env
from generator.facts.names import HOSTFILE
from generator.upstream.mpi.launch import python_file
from generator.upstream.mpi.world import Started, host_of


@check("mpi/slots", severity=ERROR, needs=Objects)
def slots(objects: Objects) -> Iterator[Breach]:
    """Report a command that requests more processes than the hostfile has slots.

    The hostfile of Trainer has one line per pod with ranks, with `numProcPerNode` slots. Open MPI then starts no rank
    and fails, unless the command has `--oversubscribe`, or a parameter file in the image allows oversubscription.
    horovodrun fails too. Intel MPI and MPICH start all processes on the same hosts, so the ranks share CPUs and
    devices: the finding is a warning. If the manifests do not show which MPI the image has, the finding is a warning
    too.

    Source: Open MPI 4.1.4 and 5.0.11, Intel MPI 2021.19 and MPICH 5.0.2 were run (tests/fixtures/launches.yaml);
    horovod 0.28.1 horovod/runner/common/util/hosts.py get_host_assignments
    """
    for start in objects.view(RankStart.read):
        for readings in start.launches.launches:
            excess = [start.started.excess(launch) for launch in readings]
            if not all(excess):
                continue
            launch, names = readings[0], [reading.launcher.name for reading in readings]
            options = launch.find("processes", "per_host", "mapping", "one_per_host")
            option = options[0]
            program, most = launch.command.program, start.started.slots * len(start.started.hosts)
            fix = f"set at most {most} processes, or raise `numNodes`"
            if "horovodrun" not in names:
                numbers = [item for item in options if item.meaning != "mapping" or "ppr" in item.words[0].lower()]
                named = " and ".join(f"`{item.text}`" for item in numbers or options)
                fix = f"remove {named}: `{program}` then starts {most} processes, one per slot. Or raise `numNodes`"
            yield Breach(
                start.place(launch.command, option.position),
                f"`{program}` requests {excess[0]} processes, but the hostfile has {start.size}",
                ". ".join(reading.launcher.excess for reading in readings),
                fix,
                start.manifest,
                severity=ERROR if names in (["openmpi"], ["horovodrun"]) else WARNING,
                value=option.words[0],
            )


@check("mpi/no-launcher", severity=WARNING, needs=Objects)
def no_launcher(objects: Objects) -> Iterator[Breach]:
    """Report a command on an MPI runtime that starts ranks only in the launcher pod.

    On an MPI runtime, the command runs once, in the launcher pod. Python alone starts one process, with world size 1.
    `torchrun` starts its processes in the launcher pod, because the worker pods run only sshd. The worker pods hold
    their devices and idle, and the TrainJob can complete without an error. The check reports a Python file, because
    another program can start `mpirun` itself.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/jobset/builder.go Builder.Trainer
    """
    for start in objects.view(RankStart.read):
        others = len(start.started.hosts) - any(_is_own(start.started, host) for host in start.started.hosts)
        if not start.started.is_mpi or others < 1:
            continue
        pods = "the other pod runs" if others == 1 else f"the other {others} pods run"
        why = f"only the launcher pod computes: {pods} only sshd, and hold{'s' * (others == 1)} devices and quota idle"
        for readings in start.launches.launches:
            for launch in readings[:1] if readings[0].launcher.name == "torchrun" else ():
                yield Breach(
                    start.place(launch.command),
                    "`torchrun` starts ranks only in the launcher pod",
                    why
                    if launch.number("host_count") in (None, 1)
                    else f"torchrun waits for the other nodes until it fails, because {pods} only sshd",
                    "start the ranks with `mpirun python FILE`, or use a runtime with `mlPolicy.torch`",
                    start.manifest,
                    value=launch.command.words[0],
                )
        if command := start.started.lone_program:
            name, file = command.words[0], python_file(command)
            yield Breach(
                start.place(command),
                f"`{name}` runs `{file}` without a launcher such as `mpirun`, so the world size is 1",
                why,
                f"start the ranks with `mpirun`: `mpirun {name} {file}`",
                start.manifest,
                value=name,
            )


def _is_own(started: Started, host: str) -> bool:
    """Return True if a host is the pod that runs the command."""
    return any(host_of(pod) == host for _, pod in started.pods)


@check("mpi/hostfile", severity=WARNING, needs=Objects)
def hostfile(objects: Objects) -> Iterator[Breach]:
    """Report a launcher that reads a hostfile which its pod does not have.

    Trainer mounts the hostfile at `/etc/mpi/hostfile`. DeepSpeed reads `/job/hostfile` by default. Without this file,
    it logs a warning and trains in the launcher pod only. horovodrun without a hostfile starts all processes in the
    launcher pod. `mpirun` fails if the file of its option is missing. The check reports a path that no volume of the
    container has, if the command runs no other program that can write the file. An image can contain the file.

    Intel MPI and MPICH cannot read the format of Trainer's hostfile. The check does not report the format if the
    container sets `PATH`: a program on `PATH` can then replace `mpirun` and convert the file, as in mpigen's runtimes.
    `mpi/hydra-hostfile` reports a variable of the runtime with this path.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go MPI.EnforceMLPolicy; deepspeed 0.19.8
    deepspeed/launcher/runner.py fetch_hostfile; horovod 0.28.1 horovod/runner/launch.py
    """
    for start in objects.view(RankStart.read):
        for readings in start.launches.launches if start.started.is_mpi else ():
            launch, names = readings[0], [reading.launcher.name for reading in readings]
            options = launch.find("hostfile")
            if launch.find("hosts", "alone") or len(options) > 1 or "torchrun" in names:
                continue
            program = launch.command.program
            fix = f"set the path `{HOSTFILE}`" if options else f"add `--hostfile {HOSTFILE}` to the command"
            if names == ["hydra"]:
                fix = "remove the option, and set the path of a hostfile with lines `HOST:N` in `HYDRA_HOST_FILE` "
                fix += "(MPICH) or `I_MPI_HYDRA_HOST_FILE` (Intel MPI)"
            path = options[0].words[0] if options else launch.hostfile
            if path and start.lacks_file(launch, path):
                message = f"`{program}` reads the hostfile `{path}`, but no volume of the container has this path"
                why = ". ".join(reading.launcher.missing for reading in readings)
            elif names == ["hydra"] and start.started.needs_wrapper(launch):
                message = f"`{program}` reads the hostfile `{HOSTFILE}`, whose format Intel MPI and MPICH cannot read"
                why = "Trainer writes `HOST slots=N`, and Intel MPI and MPICH read `HOST:N`: "
                why += f"`{program}` starts no rank and fails"
            elif not path and names == ["horovodrun"]:
                message = "`horovodrun` has no `--hostfile`"
                why = "horovodrun starts all processes in the launcher pod, and the other pods run only sshd"
            else:
                continue
            place: Path | None = start.place(launch.command, options[0].position if options else 0)
            if names == ["hydra"] and not path:
                place = next(filter(None, map(start.place_of_variable, env.HOSTFILES_OF_HYDRA)), None)
                fix = fix.removeprefix("remove the option, and ")
            if place:  # `mpi/hydra-hostfile` reports a variable of the runtime
                yield Breach(place, message, why, fix, start.manifest, value=path or program)
