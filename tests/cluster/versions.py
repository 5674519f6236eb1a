"""The sets of releases that a control plane is made of, read from versions.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NAMES = ("default", "previous")


@dataclass(frozen=True, slots=True)
class Program:
    """An upstream project: its build, and its manifests to install.

    Attributes:
        name: such as `kueue`.
        pins: the folder below `go/` with its go.mod and go.sum; its parent has the Go file, if there is one.
        module: the Go module that the manifests and most of the code come from.
        package: what is built; `.` is the main package beside the pins.
        linked: Go variables that are set at link time.
        rewritten: file of upstream's main package → (text, replacement), for what is hard-coded and containers hide;
            these files are copied beside the pins.
        manifests: the kustomizations in the module that are installed.
        namespace: where the controller would run.
        account: the ServiceAccount that it works as.
        configuration: the file in the module with the settings that upstream ships.
        certificates: the part of those settings that lets the controller make its own certificates.
        options: further arguments.
        covered: the Go packages whose coverage the program records, in the folder of the variable GOCOVERDIR.
    """

    name: str
    pins: str
    module: str
    package: str
    linked: Mapping[str, str] = field(default_factory=dict)
    rewritten: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    manifests: tuple[str, ...] = ()
    namespace: str = ""
    account: str = ""
    configuration: str = ""
    certificates: str = ""
    options: tuple[str, ...] = ()
    covered: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Return the folder of go.mod and go.sum."""
        return HERE / "go" / self.pins

    @property
    def version(self) -> str:
        """Return the release in Go's form."""
        return self.folder.name

    @property
    def minor(self) -> str:
        """Return the release in the form of a platform file."""
        return self.version.removeprefix("v").rpartition(".")[0]


_CONTROL_PLANE = ("kubernetes", "trainer", "jobset", "kueue", "kwok")


@dataclass(frozen=True, slots=True)
class Versions:
    """The programs of one control plane, all of which are known to work together."""

    name: str
    programs: Mapping[str, Program]

    def __getitem__(self, name: str) -> Program:
        return self.programs[name]

    @property
    def control_plane(self) -> tuple[Program, ...]:
        """Return the programs that every control plane runs. Only some tests need the others."""
        return tuple(self.programs[name] for name in _CONTROL_PLANE)


def versions(name: str) -> Versions:
    """The set called `default` or `previous`."""
    everything: dict[str, dict[str, Any]] = json.loads((HERE / "versions.json").read_text())
    return Versions(name, {program: _program(program, data) for program, data in everything[name].items()})


def set_targets(name: str) -> dict[str, str]:
    """Return component → its minor version in a set, whose answers are recorded."""
    return {program.name: program.minor for program in versions(name).programs.values()}


def _program(name: str, data: dict[str, Any]) -> Program:
    frozen: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
    frozen["rewritten"] = {file: (old, new) for file, (old, new) in data.get("rewritten", {}).items()}
    return Program(name, **frozen)
