"""The launchers in the commands of a container, such as `mpirun`, with the options that decide which ranks start."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from generator.facts.launchers import Launcher, Meaning, launcher_programs, launchers
from generator.upstream.mpi.commands import Command, is_known, is_one

_PYTHON = re.compile(r"python(\d+(\.\d+)?)?")
_PYTHON_FLAGS = re.compile(r"-[bBdEiIOPqsSuvx]+")
_PER_NODE = re.compile(r"ppr:(\d+):node", re.IGNORECASE)
_MODIFIERS = re.compile(r"(no)?oversubscribe", re.IGNORECASE)
_OF_HYDRA = re.compile(r"(HYDRA|I_MPI_HYDRA)_")
_OF_OPEN_MPI = re.compile(r"(OMPI|PRTE)_MCA_")
_PLACING = re.compile(r"((OMPI|PRTE)_MCA_)?(rmaps_|ras_|hwloc_base_use_hwthreads|orte_no_oversubscribe)|I_MPI_PERHOST$")
"""Parameters of Open MPI, and variables, that decide how many ranks start on a host."""


class Option(NamedTuple):
    """An option of a launcher.

    Attributes:
        meaning: the meaning, such as `processes`.
        words: the values, such as `("32",)`.
        position: the index of the last word of the option in the command.
        text: the option as the command has it, such as `-np 32`.
    """

    meaning: Meaning
    words: tuple[str, ...]
    position: int
    text: str


@dataclass(frozen=True)
class Launch:
    """A launcher with its options, and the program of the ranks.

    Attributes:
        launcher: the row of launchers.yaml.
        command: the whole command.
        options: the options in their order.
        program: the program of the ranks and its arguments.
    """

    launcher: Launcher
    command: Command
    options: tuple[Option, ...]
    program: tuple[str, ...]

    def find(self, *meanings: Meaning) -> list[Option]:
        """Return the options that have one of these meanings, such as `processes` or `hostfile`."""
        return [option for option in self.options if option.meaning in meanings]

    def number(self, meaning: Meaning) -> int | None:
        """Return the number that an option sets; None if it is absent, ambiguous, unknown or not positive."""
        values = {option.words[0] for option in self.find(meaning)}
        value = next(iter(values)) if len(values) == 1 else ""
        return int(value) or None if value.isascii() and value.isdigit() and len(value) < _LONGEST else None

    @property
    def has_numbers(self) -> bool:
        """True if mpigen knows the values of all options with a number."""
        meanings: tuple[Meaning, ...] = ("processes", "per_host", "host_count")
        known = all(self.number(meaning) is not None for meaning in meanings if self.find(meaning))
        return known and (self.per_host is not None or not self._per_node)

    @property
    def per_host(self) -> int | None:
        """The number of ranks of each host that an option sets; None without such an option, or if it is unknown."""
        if values := self._per_node:
            return int(values[0]) or None if len(values) == 1 and len(values[0]) < _LONGEST else None
        return 1 if self.find("one_per_host") else self.number("per_host")

    @property
    def _per_node(self) -> list[str]:
        """The numbers in mappings such as `ppr:2:node`."""
        matches = (_PER_NODE.match(option.words[0]) for option in self.find("mapping"))
        return [match[1] for match in matches if match]

    @property
    def oversubscribes(self) -> bool:
        """True if an option allows more ranks on a host than its slots."""
        modifiers = (_MODIFIERS.search(option.words[0]) for option in self.find("mapping"))
        return bool(self.find("oversubscribe")) or any(match and not match[1] for match in modifiers)

    @property
    def is_mapped(self) -> bool:
        """True if an option selects the hosts of ranks by another rule than a number per host."""
        mappings = [option.words[0] for option in self.find("mapping")]
        return any(not _PER_NODE.match(value) or re.search("pe=", value, re.IGNORECASE) for value in mappings)

    @property
    def is_configured(self) -> bool:
        """True if parameters or variables of MPI decide how many ranks can start on a host."""
        names = (*self.command.environment, *(option.words[0] for option in self.find("parameters")))
        return any(map(_PLACING.match, names))

    @property
    def is_nested(self) -> bool:
        """True if the program of the ranks, or its script, names a launcher, which can start further ranks."""
        return any(not launcher_programs().isdisjoint(re.split(r"[^\w.-]+", word)) for word in self.program)

    @property
    def hostfile(self) -> str:
        """The path of the hostfile in the options, or else the default of the launcher.

        It is empty if there is none, or if options name different files.
        """
        paths = {option.words[0] for option in self.find("hostfile")}
        return next(iter(paths)) if len(paths) == 1 else self.launcher.default_hostfile if not paths else ""

    @property
    def variables(self) -> Iterator[tuple[int, str, str]]:
        """The variables that the options set in the ranks: (index of the word, name, value)."""
        for option in self.options:
            name, is_set, value = option.words[0].partition("=") if option.words else ("", "", "")
            if option.meaning in ("variables", "variable_pairs") and is_set:
                yield option.position, name, value
            elif option.meaning == "variable_pairs":
                yield option.position, option.words[0], option.words[1]
            elif option.meaning == "parameters":
                yield option.position, f"OMPI_MCA_{option.words[0]}", option.words[1]


_LONGEST = 9  # digits of a number of ranks


@dataclass(frozen=True)
class Launches:
    """The launchers in the commands of a container.

    Attributes:
        commands: all commands.
        launches: for each command with a launcher, the ways to read it: `mpirun` can be Open MPI or Hydra. A command
            that mpigen cannot read is not in this list.
        is_complete: True if mpigen can read all commands with a launcher.
    """

    commands: Sequence[Command]
    launches: Sequence[Sequence[Launch]] = field(default_factory=tuple)
    is_complete: bool = True

    @property
    def only(self) -> Sequence[Launch]:
        """The ways to read the launcher, if the commands contain exactly one launcher; else empty."""
        return self.launches[0] if self.is_complete and len(self.launches) == 1 else ()

    @property
    def first(self) -> Launch | None:
        """The first way to read the launcher; None unless the commands contain exactly one launcher."""
        return next(iter(self.only), None)


def find_launches(commands: Sequence[Command], own: Mapping[str, object]) -> Launches:
    """Return the launchers in the commands of a container.

    Args:
        commands: the commands.
        own: the variables of the container without the variables that Trainer adds. Names such as `I_MPI_HYDRA_IFACE`
            show the MPI of the image.
    """
    launches: list[Sequence[Launch]] = []
    is_complete = True
    for command in commands:
        rows = _rows(command)
        readings = [reading for row, start in rows if (reading := _read_launch(row, command, start))]
        if readings:
            launches.append(_select(readings, own))
        is_complete &= bool(readings) or not rows
    return Launches(commands, launches, is_complete)


def python_file(command: Command) -> str:
    """Return the file with the ending `.py` that a command runs with Python; empty for any other command."""
    words = list(command.words[1:]) if _PYTHON.fullmatch(command.program) else []
    while words and _PYTHON_FLAGS.fullmatch(words[0]):
        words.pop(0)
    return words[0] if words and is_one(words[0]) and words[0].endswith(".py") else ""


def _rows(command: Command) -> list[tuple[Launcher, int]]:
    """Return the launchers whose program a command runs, with the index of the first argument."""
    name, start = command.program, 1
    if _PYTHON.fullmatch(name):
        while start < len(command.words) and _PYTHON_FLAGS.fullmatch(command.words[start]):
            start += 1
        if command.words[start : start + 1] != ("-m",):
            return []
        name, start = "".join(command.words[start + 1 : start + 2]), start + 2
        return [(row, start) for row in launchers() if name in row.modules]
    return [(row, start) for row in launchers() if name in row.programs]


def _read_launch(row: Launcher, command: Command, start: int) -> Launch | None:
    """Return the launcher with its options; None if mpigen cannot read them."""
    options: list[Option] = []
    words, position = command.words, start
    while position < len(words) and is_one(words[position]) and words[position].startswith("-"):
        word, is_set, value = words[position].partition("=")
        if word == "--" and row.dashes == "any" and row.name == "openmpi":
            position += 1
            break
        known = row.find_option(word)
        if known is None:
            return None
        first, (meaning, count) = position, known
        taken = [value] if is_set else []
        if is_set and count == 0:
            return None
        while len(taken) < count:
            position += 1
            if position >= len(words) or not is_one(words[position]):
                return None
            taken.append(words[position])
            if meaning == "variable_pairs" and "=" in taken[0]:
                break
        options.append(Option(meaning, tuple(taken), position, " ".join(map(str, words[first : position + 1]))))
        position += 1
    program = words[position:]
    is_split = not program or not is_one(program[0]) or not is_known(program[0])
    is_several = row.dashes == "any" and ":" in program  # each part has options of its own
    return None if is_split or is_several else Launch(row, command, tuple(options), program)


def _select(readings: Sequence[Launch], own: Mapping[str, object]) -> Sequence[Launch]:
    """Return the ways to read a command: only as Hydra, or only as Open MPI, if a variable in `own` shows this MPI."""
    for name, pattern in (("hydra", _OF_HYDRA), ("openmpi", _OF_OPEN_MPI)):
        if any(map(pattern.match, own)):
            return [reading for reading in readings if reading.launcher.name == name] or readings
    return readings
