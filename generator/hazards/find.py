"""Find the hazards of a platform, and locate them in the platform file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generator.checks.finding import Finding, Severity
from generator.checks.registry import WARNING, declare
from generator.config.platform import Platform
from generator.config.python_file import shadowed_module
from generator.documents.files import read_file
from generator.documents.load import load
from generator.documents.locate import locate_all
from generator.documents.messages import format_path
from generator.errors import MpigenError
from generator.hazards.settings import (
    Hazard,
    device_hazards,
    egress_hazards,
    people_hazards,
    runtime_hazards,
    volume_hazards,
)


@dataclass(frozen=True, slots=True)
class Written:
    """A place in a platform file.

    Attributes:
        path: such as `tenants[0].egress[1].cidr`; of a platform in Python `tenants.team-a.egress.s3.cidr`.
        line: 1-based; 0 if unknown.
        column: 1-based; 0 if unknown.
    """

    path: str
    line: int = 0
    column: int = 0


def locate_paths(file: Path, paths: Sequence[tuple[str, ...]]) -> list[Written]:
    """Return the place of each path of a platform; without line and column if the file is no YAML.

    A field that the file leaves to its default has the line of the nearest section around it.

    Args:
        file: the platform file.
        paths: fields, as spelt in YAML, and names of entries: a platform has its entries in another order.
    """
    unplaced = [Written(".".join(path)) for path in paths]
    if not paths or file.suffix == ".py":
        return unplaced
    try:
        text = read_file(file)
        document = next(document for document in load(text) if document.data is not None)
    except (MpigenError, StopIteration):  # it has changed since it was read
        return unplaced
    written = [_in_file(path, document.data) for path in paths]
    places = locate_all(text, document.index, written)
    return [
        Written(format_path((*path, *steps[len(path) :])), *places[path].node)
        for path, steps in zip(written, paths, strict=True)
    ]


def _in_file(path: tuple[str, ...], data: Any) -> tuple[str | int, ...]:
    """Replace names of entries by their positions; the path ends where the file leaves something out."""
    found: list[str | int] = []
    for step in path:
        if isinstance(data, list):
            index = next((at for at, entry in enumerate(data) if _name(entry) == step), None)
            if index is None:
                break
            found.append(index)
            data = data[index]
        elif isinstance(data, dict) and step in data:
            found.append(step)
            data = data[step]
        else:
            break
    return tuple(found)


def _name(entry: Any) -> Any:
    return entry.get("name") if isinstance(entry, dict) else entry


def file_name_hazards(file: Path) -> Iterator[Hazard]:
    """Report a platform file in Python that Python would import instead of an installed module of its name."""
    module = shadowed_module(file) if file.suffix == ".py" else ""
    if module:
        yield Hazard(
            check="platform/shadowed-module",
            path=(),
            message=f"the file `{file.name}` has the name of the Python module `{module}`",
            why=f"in its folder, pytest, mypy and an interactive Python import it instead of `{module}` and fail",
            fix="rename the file, for example to mpigen_platform.py",
        )


def hazards(platform: Platform) -> Iterator[Hazard]:
    """Return every hazard of a platform."""
    yield from device_hazards(platform)
    yield from runtime_hazards(platform)
    yield from volume_hazards(platform)
    yield from egress_hazards(platform)
    yield from people_hazards(platform)


def find_hazards(platform: Platform, file: Path) -> list[Finding]:
    """Return a warning for every hazard, with its line if the file is YAML.

    Args:
        platform: the platform that the file declares.
        file: a platform.yaml or mpigen_platform.py, as the user named it.
    """
    found = [*file_name_hazards(file), *hazards(platform)]
    places = locate_paths(file, [hazard.path for hazard in found])
    return [_finding(hazard, str(file), place) for hazard, place in zip(found, places, strict=True)]


def _finding(hazard: Hazard, file: str, place: Written) -> Finding:
    return Finding(
        file=file,
        line=place.line,
        column=place.column,
        path=place.path,
        check=hazard.check,
        resource="",
        message=hazard.message,
        why=hazard.why,
        fix=hazard.fix,
        severity=Severity.WARNING,
    )


declare(
    "platform/open-egress",
    severity=WARNING,
    text="""Report egress of a team to a large part of the Internet.

    Networks of a team's `egress` cover an eighth of all public addresses or more, alone or together. A program in
    any pod of the team can then send data to almost any host of the Internet. List the networks that the team
    needs. With Cilium, write names as `fqdn`.
    """,
)

declare(
    "platform/metadata-egress",
    severity=WARNING,
    text="""Report egress of a team to the metadata service of a cloud.

    A small network of a team's `egress` holds the metadata service of one cloud, such as 168.63.129.16 of Azure. In
    that cloud a program in a pod can get the credentials of the node. `169.254.169.254` itself is never open.
    """,
)

declare(
    "platform/cluster-egress",
    severity=WARNING,
    text="""Report egress of a team that overlaps the networks of the cluster.

    A network of a team's `egress` overlaps one of `cluster.networks`. Some CNIs compare the addresses of pods too.
    There the team reaches pods and Services of other teams.
    """,
)

declare(
    "platform/everyone-reads",
    severity=WARNING,
    text="""Report a view role for a group that contains every user or every ServiceAccount.

    `access.view` of a team names a group that every user or every ServiceAccount of the cluster is in, such as
    `system:authenticated`. All of them read the jobs and logs of the team. The other roles reject such a group.
    """,
)

declare(
    "platform/shared-account",
    severity=WARNING,
    text="""Report a role for the ServiceAccount `default` of a namespace.

    `access` of a team names the ServiceAccount `default` of a namespace. Every pod in that namespace that names no
    ServiceAccount then has the role.
    """,
)

declare(
    "platform/unknown-resource",
    severity=WARNING,
    text="""Report an allocatable resource that no known device plugin offers.

    `allocatable` of a pool has a resource that no known device plugin offers, or a MIG profile of no known GPU. If
    the name is misspelt, no node offers it. If it is right, add it to `cluster.resources`.
    """,
)

declare(
    "platform/many-devices",
    severity=WARNING,
    text="""Report a pool with more devices per node than any server has.

    `allocatable` of a pool has more devices than any server has, such as 64 `nvidia.com/gpu`. Often the number is
    that of the whole pool, and no node has room for a job. If pods share devices, add the label
    `nvidia.com/gpu.sharing-strategy` to the pool.
    """,
)

declare(
    "platform/nested-volumes",
    severity=WARNING,
    text="""Report a volume of a runtime that is mounted inside another one.

    A volume of a runtime is mounted inside another one. The container runtime has to make the folder in the outer
    volume, and pods do not start if it cannot.
    """,
)

declare(
    "platform/hidden-software",
    severity=WARNING,
    text="""Report a volume of a runtime that hides the software of its image.

    A volume of a runtime is mounted where images keep MPI or its libraries, such as `/opt` or `/usr/local`. Ranks
    then fail with `command not found` or a missing library.
    """,
)

declare(
    "platform/unusable-runtime",
    severity=WARNING,
    text="""Report a runtime whose default job no team can run.

    The default job on a runtime (`nodes` hosts, else two) takes more than any team may ever use by its quota, its
    reservations and `borrow`, exceeds `limits.hostsPerJob` of every team, or has no room in the pool. A TrainJob
    without `numNodes` then stays suspended.
    """,
)

declare(
    "platform/shadowed-module",
    severity=WARNING,
    text="""Report a platform file in Python with the name of an installed module.

    A platform file in Python has the name of an installed module, such as `platform.py`. pytest, mypy and an
    interactive Python that start in its folder import the file instead of the module, and fail. Rename it, for
    example to `mpigen_platform.py`.
    """,
)
