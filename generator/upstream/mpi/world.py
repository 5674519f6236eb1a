"""The ranks of a TrainJob: the pods that its launcher can use, and the number of ranks that start in each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from generator.documents.load import Path
from generator.facts import env
from generator.facts.launchers import launcher_programs
from generator.facts.names import HOSTFILE
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, mappings, strings
from generator.objects.pods import NODE, PodTemplate, is_accelerator, pod_templates
from generator.objects.training import LAUNCHER, TRAINER
from generator.upstream.compile import Compiled, Origin
from generator.upstream.mpi.commands import Command, is_known, read_commands
from generator.upstream.mpi.launch import Launch, Launches, find_launches, python_file
from generator.upstream.trainer.runtime import step_of

_OF_TRAINER = frozenset(env.RESERVED_BY_TRAINER)
_WITH_TILES = "gpu.intel.com/"
_PROCESSES, _NODES = "PET_NPROC_PER_NODE", "PET_NNODES"
_STARTERS = (*sorted(launcher_programs()), "accelerate", "horovod", "srun", "ssh")
"""Parts of words of commands that can start ranks."""
_BY_LAUNCHER: Mapping[str, tuple[str, ...]] = {
    "openmpi": (env.PRTE_MCA_prte_default_hostfile,),
    "hydra": (env.HYDRA_HOST_FILE, env.I_MPI_HYDRA_HOST_FILE),
}
"""Launcher → variables with the path of the hostfile that it reads by default, in every version."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ranks that a launcher starts.

    Attributes:
        size: the number of ranks, the world size.
        counts: host → the number of its ranks; None if the size is known, but not the hosts.
        is_ordered: True if the ranks of a host have consecutive numbers, in the order of the hosts.
    """

    size: int
    counts: Mapping[str, int] | None
    is_ordered: bool = True

    @property
    def numbers(self) -> Mapping[str, str]:
        """Host → the numbers of its ranks, such as `0-7`, or how many it has; without hosts that have no rank."""
        labels, first = {}, 0
        for host, count in (self.counts or {}).items():
            numbers = f"{first}" if count == 1 else f"{first}-{first + count - 1}"
            if count:
                labels[host] = numbers if self.is_ordered else f"{count} ranks"
            first += count
        return labels


@dataclass(frozen=True)
class Started:
    """A TrainJob with the pods that it gets, and the commands that start its ranks.

    Attributes:
        compiled: the objects of the TrainJob.
    """

    compiled: Compiled

    @property
    def is_mpi(self) -> bool:
        """True if Trainer creates a hostfile, in which a launcher finds the pods."""
        return any(body["kind"] == "ConfigMap" and "hostfile" in body["data"] for body in self.compiled.others)

    @cached_property
    def pods(self) -> tuple[tuple[int, Body], ...]:
        """(index of the replicated job, pod) of the pods that run the command of the TrainJob."""
        replicated = mappings(mapping(self.compiled.job_set, "spec").get("replicatedJobs"))
        return tuple(
            (number, pod)
            for number, pod in self.compiled.pods
            if step_of(replicated[number]) == TRAINER and (not self.is_mpi or replicated[number]["name"] == LAUNCHER)
        )

    @property
    def container(self) -> tuple[int, Body]:
        """The index and the body of the container that runs the command; an empty body if there is none."""
        containers = [
            (number, item)
            for _, pod in self.pods[:1]
            for number, item in enumerate(mappings(pod["spec"].get("containers")))
            if item.get("name") == NODE
        ]
        return containers[0] if containers else (0, {})

    @cached_property
    def environment(self) -> Mapping[str, str | None]:
        """Variable of the container → its value; None for a value that is not literal."""
        items = mappings(self.container[1].get("env"))
        return {str(item.get("name")): None if "valueFrom" in item else str(item.get("value") or "") for item in items}

    @cached_property
    def launches(self) -> Launches | None:
        """The launchers in the command of the TrainJob; None if mpigen cannot read the command."""
        body = self.container[1]
        if not strings(body.get("command")) or body.get("envFrom"):
            return None
        commands = read_commands((*strings(body.get("command")), *strings(body.get("args"))), self.environment)
        own = {name: value for name, value in self.environment.items() if name not in _OF_TRAINER}
        return None if commands is None else find_launches(commands, own)

    @property
    def ranks(self) -> Ranks | None:
        """The ranks that the command starts; None if their number is unknown, or if the launcher fails.

        The number is known only for a command with exactly one launcher, and for a Python file without a launcher on an
        MPI runtime, which is one rank.
        """
        if self.is_mpi and self.lone_program:
            return Ranks(1, {host_of(self.pods[0][1]): 1})
        readings = self.launches.only if self.launches else ()
        answers = [self.count(launch) for launch in readings]
        return answers[0] if answers and all(answer == answers[0] for answer in answers) else None

    @property
    def fails(self) -> bool:
        """True if the only launcher of the command fails, because the slots do not suffice."""
        readings = self.launches.only if self.launches else ()
        return bool(readings) and all(one.launcher.name != "hydra" and self.excess(one) for one in readings)

    @cached_property
    def lone_program(self) -> Command | None:
        """The last command, if it runs a Python file and no command names a launcher in a word; else None."""
        commands = self.launches.commands if self.launches else ()
        words = [word for command in commands for word in command.words]
        if any(name in word for name in _STARTERS for word in words):
            return None
        return next((command for command in commands[-1:] if python_file(command)), None)

    def locate(self, command: Command, position: int = 0) -> Origin | None:
        """Return the field of the TrainJob or its runtime that sets a word of a command; None if neither sets it."""
        body = self.container[1]
        place, count = command.places[position], len(strings(body.get("command")))
        item: Path = ("command", place) if place < count else ("args", place - count)
        return self._origin(item)

    def locate_variable(self, name: str) -> Origin | None:
        """Return the field of the TrainJob or its runtime that sets a variable; None if neither sets it."""
        names = [item.get("name") for item in mappings(self.container[1].get("env"))]
        return self._origin(("env", names.index(name))) if name in names else None

    def _origin(self, path: Path) -> Origin | None:
        """Return the origin of a field of the container that runs the command."""
        return self.compiled.origin("Pod", self.pods[0][0], ("spec", "containers", self.container[0], *path))

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts in the order of their ranks.

        They are the hosts of the hostfile, or without MPI the hosts of all pods that run the command. If the launcher
        pod runs ranks, it has the first ones: Open MPI makes its own host the first (Open MPI 4.1.4 and 5.0.11 were
        run), and mpigen's hostfile for Hydra begins with it.
        """
        running = tuple(host_of(pod) for _, pod in self.pods)
        if not self.is_mpi:
            return running
        return tuple(sorted(self.compiled.hosts, key=lambda host: host not in running))

    @property
    def slots(self) -> int:
        """The number of ranks per host that Trainer sets in the hostfile."""
        return self.compiled.slots

    @property
    def has_slots(self) -> bool:
        """True if a rank can start: there is a host, and it has a slot."""
        return bool(self.hosts) and self.slots > 0

    @property
    def slot_numbers(self) -> Mapping[str, str]:
        """Host of the hostfile → the numbers of its ranks, such as `0-7`, if each slot has one rank."""
        return _fill(self.hosts, self.slots, None).numbers if self.is_mpi and self.has_slots else {}

    @property
    def is_torch(self) -> bool:
        """True if Trainer sets the variables that torchrun reads."""
        return not self.is_mpi and _NODES in self.environment

    @cached_property
    def devices(self) -> Mapping[str, int]:
        """Host → the number of accelerators of its pod, without the GPUs of Intel, whose tiles can run ranks too."""
        pods = {host_of(pod): pod for _, pod in self.compiled.pods}
        return {host: count_accelerators(mapping(pods[host], "spec")) for host in self.hosts if host in pods}

    @property
    def names_hostfile(self) -> bool:
        """True if a variable sets the path of a hostfile."""
        names = (env.OMPI_MCA_orte_default_hostfile, *(name for names in _BY_LAUNCHER.values() for name in names))
        return any(name in self.environment for name in names)

    def is_hostfile(self, path: str) -> bool:
        """Return True if a path is the hostfile of Trainer, or the file that the runtime sets for its MPI."""
        names = [name for names in _BY_LAUNCHER.values() for name in names]
        return path == HOSTFILE or path in [self.environment.get(name) for name in names]

    def reads_hosts(self, launch: Launch) -> bool:
        """Return True if the launcher starts ranks on exactly the hosts of the hostfile."""
        if launch.find("hosts", "alone") or not self.is_mpi:
            return False
        if launch.hostfile or launch.find("hostfile"):
            return self.is_hostfile(launch.hostfile)
        return any(name in launch.command.environment for name in _BY_LAUNCHER.get(launch.launcher.name, ()))

    def capacity(self, launch: Launch) -> int | None:
        """Return the number of slots of all hosts; None if the launcher does not read them from the hostfile."""
        return self.slots * len(self.hosts) if self.reads_hosts(launch) else None

    def excess(self, launch: Launch) -> int:
        """Return the requested number of processes if it exceeds the slots of the hostfile; else 0.

        The result is also 0 if the launcher may start more processes than slots, or if the slots are unknown.
        """
        name, capacity, processes = launch.launcher.name, self.capacity(launch), launch.number("processes") or 0
        if name == "openmpi":
            processes = max(processes, (launch.per_host or 0) * len(self.hosts))
        elif name not in ("hydra", "horovodrun") or launch.per_host is not None:
            return 0
        is_allowed = launch.is_configured or launch.oversubscribes
        return 0 if capacity is None or processes <= capacity or is_allowed else processes

    def count(self, launch: Launch) -> Ranks | None:
        """Return the ranks that a launcher starts; None if their number is unknown, or if the launcher fails."""
        if launch.is_configured or launch.is_nested or not launch.has_numbers or not self.has_slots:
            return None
        if launch.launcher.name == "torchrun":
            return self._count_of_torchrun(launch)
        fails = launch.launcher.name != "hydra" and self.excess(launch)
        if fails or not self.reads_hosts(launch) or self.needs_wrapper(launch):
            return None
        hosts, block = self.hosts[: launch.number("host_count")], launch.per_host or self.slots
        size = launch.number("processes")
        if launch.launcher.name == "openmpi":
            return self._count_of_open_mpi(launch, block, size)
        return None if launch.launcher.name == "horovodrun" and size is None else _fill(hosts, block, size)

    def needs_wrapper(self, launch: Launch) -> bool:
        """Return True if Hydra reads Trainer's hostfile, whose format it rejects, and the container sets no `PATH`.

        A `PATH` can select a wrapper of `mpirun` that converts the hostfile, as in mpigen's runtimes.
        """
        if launch.launcher.name != "hydra" or "PATH" in self.environment:
            return False
        path, by_default = launch.hostfile, (self.environment.get(name) for name in _BY_LAUNCHER["hydra"])
        return HOSTFILE in ([path] if path else by_default)

    def _count_of_open_mpi(self, launch: Launch, block: int, size: int | None) -> Ranks | None:
        whole = _fill(self.hosts, block, None)
        if launch.is_mapped:
            return None if size is None else Ranks(size, None)
        if size is None and whole.size <= self.slots * len(self.hosts):
            return whole
        if launch.per_host and size and size > whole.size:
            return None
        if (size or whole.size) > self.slots * len(self.hosts):
            return Ranks(size or whole.size, None)  # the versions of Open MPI choose different hosts
        return _fill(self.hosts, block, size)

    def _count_of_torchrun(self, launch: Launch) -> Ranks | None:
        """Return the ranks of torchrun, which reads variables for options that are not set; None if they are unknown.

        Source: pytorch torch/distributed/argparse_util.py env
        """
        environment = launch.command.environment
        nodes = launch.number("host_count") if launch.find("host_count") else _number(environment, _NODES)
        per_node = launch.per_host if launch.find("per_host") else _number(environment, _PROCESSES)
        if environment.get(_PROCESSES) == "auto" and not launch.find("per_host"):
            per_node = min(self.devices.values(), default=0) or None
        if nodes is None or per_node is None or launch.find("alone") or (self.is_mpi and nodes > 1):
            return None
        if self.is_mpi:
            return Ranks(per_node, {host_of(self.pods[0][1]): per_node})
        return _fill(self.hosts, per_node, None) if nodes == len(self.hosts) else None


def _number(environment: Mapping[str, str | None], name: str) -> int | None:
    """Return the number in a variable, 1 if the variable is absent; None for another value."""
    value = environment.get(name, "1")
    return int(value) if value and value.isascii() and value.isdigit() and is_known(value) else None


def _fill(hosts: tuple[str, ...], block: int, size: int | None) -> Ranks:
    """Return the ranks if each host gets `block` ranks in turn, until `size` ranks have a host.

    If `size` is None, each host gets one block.
    """
    total = block * len(hosts) if size is None else size
    rounds, rest = divmod(total, block * len(hosts))
    counts = {host: rounds * block + min(block, max(0, rest - block * at)) for at, host in enumerate(hosts)}
    return Ranks(total, counts, is_ordered=total <= block * len(hosts))


def host_of(pod: Body) -> str:
    """Return the host name of a pod with its subdomain, as in the hostfile."""
    names = (pod["spec"].get("hostname", pod["metadata"]["generateName"]), pod["spec"].get("subdomain", ""))
    return ".".join(filter(None, names))


def template_of(pod: Body) -> PodTemplate:
    """Return a pod as a PodTemplate."""
    return next(pod_templates(Manifest(pod, "")))


def count_accelerators(pod: Mapping[str, object]) -> int:
    """Return the number of accelerators of a pod spec, without the GPUs of Intel."""
    devices = template_of({"kind": "Pod", "spec": pod}).devices
    return sum(amount for name, amount in devices.items() if is_accelerator(name) and not name.startswith(_WITH_TILES))
