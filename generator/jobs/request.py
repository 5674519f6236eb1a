"""The request of a user for a new job, and its faults that need no platform: words, names and values."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Literal, NamedTuple, get_args

from generator.documents.messages import format_value
from generator.errors import Problem
from generator.facts.names import CHECKPOINT, S3_KEYS, SWEEP
from generator.quantities import parse
from generator.runtimes.additions import SecretKey

Source = Literal["claim", "configmap", "secret"]
SOURCES: tuple[Source, ...] = get_args(Source)
MOST_JOBS = 500
"""The most jobs of a sweep: mpigen checks each, and prints all in one file."""
_QUEUE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.+")


class Mount(NamedTuple):
    """A volume of all pods.

    Attributes:
        source: the kind of the volume.
        name: the name of the claim, ConfigMap or Secret in the namespace of the job.
        path: the absolute path of the mount.
        is_read_only: True to mount a claim read-only.
        items: for a ConfigMap whose keys are not the names of the files: key → path of the file.
        mode: the mode of the files of a ConfigMap; 0 for the default.
    """

    source: Source
    name: str
    path: str
    is_read_only: bool = False
    items: Mapping[str, str] = {}
    mode: int = 0


class Download(NamedTuple):
    """A dataset or a model, which an initializer of the runtime downloads before the ranks start.

    Attributes:
        uri: the address, such as hf://org/name or s3://bucket/path.
        secret: a Secret of the namespace whose keys become variables of the initializer; empty for none.
    """

    uri: str
    secret: str = ""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """The request for a job; empty fields have defaults.

    Attributes:
        runtime: the name of a runtime; may be empty if `fabric` has only one runtime.
        tenant: the team of the job. Default: the only tenant that can use the runtime.
        name: the name of the TrainJob. Default: the name of the runtime, with `-smoke` or `-bench` for a test.
        nodes: `numNodes`. Default: `nodes` of the runtime. In a smoke test: 2, or 3 if the launcher runs ranks. The
            limit of the tenant and the quota of its queue can lower both. In a benchmark: 2.
        queue: a LocalQueue other than the default.
        command: the command of the launcher. Default: the test if `is_smoke`, else the example of the family.
        is_smoke: True for the smoke test of the family; with `fabric`, for the benchmark of the fabric.
        namespace: a namespace of the tenant. Default: the namespace with the tenant's name.
        priority: a priority of the platform. Without one, Kueue takes the priority of the pods' PriorityClass, else of
            the cluster's default PriorityClass, else 0 (kueue v0.19.2 pkg/controller/jobframework/reconciler.go
            ExtractPriority).
        owner: the user who may delete the job without being an editor. Default: no user.
        labels: labels in addition to the platform's labels.
        fabric: a fabric of the platform, which ranks of the runtime must use. With `is_smoke`, the job measures the
            fabric.
        link: Gbit/s of each NIC, needed if the fabric names no server type.
        processes: the ranks of each pod. Default: the number of the runtime; with other `resources`, one for each
            device or core if the runtime has as many ranks as devices or cores.
        resources: resource → the amount that each pod with ranks requests, in place of the amount of the runtime.
        image: another image of the ranks, of those in `images` of the runtime. Default: the image of the runtime.
        environment: variables of all ranks.
        secrets: variable of all ranks → the key of a Secret that has its value.
        connection: the Secret of an S3 connection of OpenShift AI. Each key becomes a variable of all ranks.
        mounts: volumes of all pods.
        checkpoint: the claim for checkpoints, if the runtime has none. `MPIGEN_CHECKPOINT` then names the folder of the
            job below its path.
        dataset: the dataset of a runtime with a dataset initializer.
        model: the model of a runtime with a model initializer.
        seconds: the time after which the job ends as failed, not counting the time in the queue. Default:
            `limits.timePerJob` of the tenant.
        matrix: variable of all ranks → its values. The request is then for one job for each combination.
        code: path of a file in the pods, below `/code` → its content.
    """

    runtime: str
    tenant: str = ""
    name: str = ""
    nodes: int = 0
    queue: str = ""
    command: tuple[str, ...] = ()
    is_smoke: bool = False
    namespace: str = ""
    priority: str = ""
    owner: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    fabric: str = ""
    link: int = 0
    processes: int = 0
    resources: Mapping[str, str] = field(default_factory=dict)
    image: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, SecretKey] = field(default_factory=dict)
    connection: str = ""
    mounts: tuple[Mount, ...] = ()
    checkpoint: Mount | None = None
    dataset: Download | None = None
    model: Download | None = None
    seconds: int = 0
    matrix: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    code: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def keys(self) -> Mapping[str, SecretKey]:
        """Variable of all ranks → the key of a Secret, from `connection` and from `secrets`."""
        names = S3_KEYS.items() if self.connection else ()
        return {
            **{name: SecretKey(self.connection, name, optional=not always) for name, always in names},
            **self.secrets,
        }

    @property
    def volumes(self) -> tuple[Mount, ...]:
        """The volumes of all pods: `mounts`, and the claim for checkpoints."""
        return (*self.mounts, *([self.checkpoint] if self.checkpoint else []))

    @property
    def downloads(self) -> Mapping[str, Download]:
        """Field of `spec.initializer` → what its initializer downloads."""
        downloads = {"dataset": self.dataset, "model": self.model}
        return {name: download for name, download in downloads.items() if download}


def find_faults(request: JobRequest) -> Iterator[Problem]:
    """Yield the faults of a request that need no platform."""
    if request.queue and not _QUEUE.fullmatch(request.queue):
        yield Problem(
            f"{format_value(request.queue)} is not the name of a queue",
            "remove --queue to use the team's queue",
            path="--queue",
        )
    yield from _wrong_test(request)
    yield from _wrong_sweep(request)
    if request.code and not request.owner:
        message = "the ConfigMap with the files needs an owner, or the API server rejects it"
        yield Problem(message, "pass --owner with your user name, as `kubectl auth whoami` prints it", path="--code")
    yield from _wrong_amounts(request)
    yield from _wrong_variables(request)
    yield from _wrong_mounts(request)
    yield from _wrong_downloads(request.downloads)
    for path, words in _words(request).items():
        for word in words:
            if any("\ud800" <= letter <= "\udfff" for letter in word):  # how Python reads an argument that is not UTF-8
                yield Problem(f"{format_value(word)} is not UTF-8", "encode it as UTF-8", path=path)


def _wrong_test(request: JobRequest) -> Iterator[Problem]:
    if not request.is_smoke:
        return
    if request.command and not request.fabric:
        yield Problem("a smoke test has its own command", "remove the command or --smoke", path="COMMAND")
    if request.matrix:
        yield Problem("a smoke test has no variants", "remove --matrix or --smoke", path="--matrix")
    if request.processes:
        message = "a smoke test counts the ranks that the runtime has"
        yield Problem(message, "remove --processes or --smoke", path="--processes")
    if request.resources:
        yield Problem("a smoke test tests the pods of the runtime", "remove --resources or --smoke", path="--resources")


def _wrong_sweep(request: JobRequest) -> Iterator[Problem]:
    if (count := prod(map(len, request.matrix.values()))) > MOST_JOBS:
        message = f"the sweep has {count:,} jobs, more than the limit of {MOST_JOBS}"
        yield Problem(message, "write several sweeps with fewer values each", path="--matrix")
    if request.matrix and SWEEP in request.labels:
        message = f"the label `{SWEEP}` has the name of the sweep"
        yield Problem(message, "remove the label, or pass --name", path="--label")


def _words(request: JobRequest) -> dict[str, list[str]]:
    claim = request.checkpoint
    return {
        "COMMAND": [*request.command],
        "--image": [request.image],
        "--owner": [request.owner],
        "--label": [text for label in request.labels.items() for text in label],
        "--env": [*request.environment.values()],
        "--secret-env": [text for key in request.secrets.values() for text in (key.name, key.key)],
        "--code": [*request.code],
        "--connection": [request.connection],
        "--volume": [text for mount in request.mounts for text in (mount.name, mount.path)],
        "--checkpoint": [claim.name, claim.path] if claim else [],
        "--dataset": [*(request.dataset or ())],
        "--model": [*(request.model or ())],
        "--matrix": [value for values in request.matrix.values() for value in values],
    }


def _wrong_amounts(request: JobRequest) -> Iterator[Problem]:
    for resource, amount in request.resources.items():
        try:
            value = parse(amount).value
        except ValueError as error:
            yield Problem(f"{format_value(amount)} of {format_value(resource)} is {error}", path="--resources")
            continue
        if value <= 0:
            message = f"{format_value(amount)} of {format_value(resource)} is not above 0"
            yield Problem(message, "write an amount such as 4 or 16Gi", path="--resources")


def _wrong_variables(request: JobRequest) -> Iterator[Problem]:
    """Yield the variables that a shell cannot have, and the variables that two options set.

    The launcher passes the environment of its shell to the ranks, which has no other variables.
    """
    options: dict[str, Iterable[str]] = {
        "--env": request.environment,
        "--secret-env": request.secrets,
        "--connection": S3_KEYS if request.connection else (),
        "--checkpoint": [CHECKPOINT] if request.checkpoint else (),
        "--matrix": request.matrix,
    }
    seen: dict[str, str] = {}
    for option, variables in options.items():
        for name in variables:
            if not _VARIABLE.fullmatch(name):
                fix = "use letters, digits and `_`, and begin with a letter or `_`"
                yield Problem(f"{format_value(name)} cannot be the name of a variable", fix, path=option)
            if name in seen:
                message = f"{seen[name]} sets the variable `{name}` too"
                yield Problem(message, "set it once", path=option)
            seen[name] = option


def _wrong_mounts(request: JobRequest) -> Iterator[Problem]:
    """Yield the paths that are no folders of the containers, and the paths that two volumes have."""
    options = ["--volume"] * len(request.mounts) + ["--checkpoint"]
    paths = [mount.path.rstrip("/") for mount in request.volumes]
    for number, (option, path) in enumerate(zip(options, paths, strict=False)):
        is_plain = posixpath.normpath(path) == path and not path.startswith("//") and ":" not in path
        if not (path.startswith("/") and is_plain):
            message = f"{format_value(request.volumes[number].path)} is not the path of a folder in the containers"
            fix = "write an absolute path without `:`, `..` and empty parts, such as /data"
            yield Problem(message, fix, path=option)
        elif path in paths[:number]:
            yield Problem(f"two volumes have the path `{path}`", "mount each at its own path", path=option)


def _wrong_downloads(downloads: Mapping[str, Download]) -> Iterator[Problem]:
    """Yield the URIs that the API server rejects (trainer v2.3.0 pkg/apis/trainer/v1alpha1/trainjob_types.go)."""
    for name, download in downloads.items():
        if not _URI.fullmatch(download.uri):
            message = f"{format_value(download.uri)} is not the URI of a {name}"
            yield Problem(message, "write one such as hf://ORGANIZATION/NAME or s3://BUCKET/PATH", path=f"--{name}")
