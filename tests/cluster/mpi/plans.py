"""The plan of a room as plain JSON, with all references to the cluster resolved."""

from __future__ import annotations

from typing import TypedDict


class Process(TypedDict):
    """The start of a program.

    `group` is None where the image's /etc/passwd decides. `capabilities` is what programs may ever gain, by name.
    With `named`, the user gets an entry in /etc/passwd if the image has none for it.
    """

    arguments: list[str]
    environment: dict[str, str]
    folder: str
    user: int
    group: int | None
    groups: list[int]
    capabilities: list[str]
    may_gain_privileges: bool
    named: bool


class Mount(TypedDict):
    """The mount point of a volume, or of its `sub_path`, in a container."""

    volume: str
    sub_path: str
    target: str
    read_only: bool


class Container(TypedDict):
    """A program on its own root filesystem: `layers`, the uppermost first.

    `port` is the probed port, or 0 without a probe. `pre_stop` is the command of its preStop hook, empty without one.
    `message_path` is the file of its termination message. With `message_from_log`, the end of the log of a failed
    container replaces an empty message.
    """

    name: str
    layers: list[str]
    read_only: bool
    mounts: list[Mount]
    process: Process
    port: int
    pre_stop: list[str]
    message_path: str
    message_from_log: bool


class File(TypedDict):
    """A file of a Secret or ConfigMap, in base64."""

    content: str
    mode: int


class Volume(TypedDict):
    """A folder that the containers of a pod share. `files` is None for an emptyDir, `size` for all that are not memory.

    `size` is in bytes, 0 without a limit. `claimed` is the folder of a claim, which pods share; else empty.
    """

    files: dict[str, File] | None
    size: int | None
    group: int | None
    claimed: str


class Pod(TypedDict):
    """A host with its own network and names.

    `firewall` is for nftables, in the host's network; empty where everything passes. `networks` is how many secondary
    networks it is attached to. `grace` is its terminationGracePeriodSeconds.
    """

    name: str
    hostname: str
    names: list[str]
    address: str
    volumes: dict[str, Volume]
    init: list[Container]
    containers: list[Container]
    firewall: str
    networks: int
    grace: int


class Target(TypedDict):
    """A port that may be listened to, or asked."""

    address: str
    protocol: str
    port: int


class Attempt(TypedDict):
    """A connection attempt of a pod while the last wave runs."""

    pod: str
    target: Target


class Deletion(TypedDict):
    """The deletion of pods at once, as soon as the log of a container of `of` has `text`."""

    pods: list[str]
    of: str
    text: str


class Room(TypedDict):
    """Hosts in waves. A wave starts when the previous wave is ready.

    `deletions` happen in turn after all waves have started. `outside` answers from beyond the hosts. `seconds` is how
    long all of it may take.
    """

    waves: list[list[Pod]]
    outside: list[Target]
    attempts: list[Attempt]
    deletions: list[Deletion]
    seconds: float


class Ended(TypedDict):
    """The end of a container; `code` is None if it still ran when the room was closed.

    `message` is its termination message. `stopped_in` is how many seconds after its deletion the container had ended;
    None if its pod was not deleted.
    """

    pod: str
    container: str
    code: int | None
    message: str
    stopped_in: float | None


class Result(TypedDict):
    """The result of a room; `problem` is the reason of an early end, else empty.

    `attempts` has for each of them what came of it: see attempts.py.
    """

    containers: list[Ended]
    attempts: list[str]
    problem: str
