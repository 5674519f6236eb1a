"""The Jobs and Pods of all cases, and the answers of the API server's own validators to them, without a server.

Admission plugins and conversions of a running server are missing, so the recorded answers stay the judge of mpigen. The
validators run in milliseconds and record their coverage: `test_validators.py` lists the errors that no case raises.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generator import manifests
from generator.errors import DocumentError
from generator.objects.fields import mapping
from generator.schemas.go_tool import run_go
from generator.upstream.jobset import jobs as job_set
from tests.cluster.differential.cases import Body, Case
from tests.cluster.differential.templates import TEMPLATED, make_claims_and_jobs, make_job_set, make_pods

KINDS = frozenset({*TEMPLATED, "Job", "Pod"})
"""The kinds of seeds whose cases end in Jobs and Pods."""
_BLOCK = re.compile(r"(\S+):(\d+)\.(\d+),(\d+)\.(\d+) \d+ (\d+)")
_FUNCTION = re.compile(r"^func (?:\([^)]*\) )?(\w+)", re.MULTILINE)
_ERROR = re.compile(r"\bfield\.(Duplicate|Forbidden|InternalError|Invalid|NotFound|NotSupported|Required|Too\w+)\(")
_COMMENT = re.compile(r"//.*")
_WORD = re.compile(r"\w+")
ROOTS = ("ValidateJobCreate", "ValidatePodCreate")
"""The validators that the create strategies of pkg/registry/batch/job and pkg/registry/core/pod call."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of statements of a validator that makes an error.

    Attributes:
        package: the API group of the validator, `core` or `batch`.
        line: the line of the condition in its file `validation.go`.
        function: the function.
        code: the condition, and the statement that makes the error.
        is_reached: True if a case reaches the block.
    """

    package: str
    line: int
    function: str
    code: str
    is_reached: bool

    def __str__(self) -> str:
        return f"{self.package}/validation/validation.go:{self.line} {self.function}: {self.code}"


def ask(program: Path, cases: Mapping[str, Case], seeds: Mapping[str, Body], coverage: Path) -> dict[str, str]:
    """Return the first rejection of the Jobs and Pods of each case by name of the case; empty for accepted objects.

    Args:
        program: the validators.
        cases: the cases, of `KINDS`.
        seeds: name → object.
        coverage: an empty folder, which gets the coverage of the validators.
    """
    objects = {name: list(_make_objects(case, seeds)) for name, case in cases.items()}
    rejections = dict.fromkeys(cases, "")
    while objects:  # first Jobs and bare Pods, then the Pods of the Jobs
        asked = [(name, body) for name, bodies in objects.items() for body in bodies]
        objects = {}
        for (name, _), answer in zip(asked, _run(program, [body for _, body in asked], coverage), strict=True):
            rejections[name] = rejections[name] or answer.get("rejection", "")
            stored = answer.get("stored")
            if stored and stored["kind"] == "Job":
                objects.setdefault(name, []).extend(map(_admitted, make_pods(stored)))
    return rejections


def _make_objects(case: Case, seeds: Mapping[str, Body]) -> Iterator[Body]:
    """Yield the Jobs or the Pod of a case; nothing if no controller can read the object."""
    try:
        (body,) = (manifest.body for manifest in manifests.read(case.text(seeds).encode(), "case.yaml"))
        if seeds[case.seed]["kind"] not in TEMPLATED:
            yield _admitted(body)
            return
        for made in make_job_set(body):  # which keeps the parts of a JobSet too
            complete = {**made, "spec": job_set.with_defaults(mapping(made, "spec"))}
            yield from (job for job in make_claims_and_jobs(complete) if job["kind"] == "Job")
    except (DocumentError, ValueError, TypeError, AttributeError, KeyError):
        return


def _admitted(body: Body) -> Body:
    """Return a Pod with the account that the admission plugin ServiceAccount sets; other objects as they are."""
    if body.get("kind") != "Pod" or not mapping(body, "spec"):
        return body
    return {**body, "spec": {"serviceAccountName": "default", **body["spec"]}}


def _run(program: Path, bodies: Iterable[Body], coverage: Path) -> Iterator[dict[str, Any]]:
    text = "".join(f"{json.dumps(_whole(body), default=str)}\n" for body in bodies)
    environment = {**os.environ, "GOCOVERDIR": str(coverage)}
    ran = subprocess.run([program], input=text, env=environment, capture_output=True, text=True, check=True)
    yield from map(json.loads, ran.stdout.splitlines())


def _whole(value: Any) -> Any:
    """Return a value with whole floats as integers: the API server reads `1e3` as an integer."""
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def read_blocks(coverage: Path, module: str, source: Path) -> list[Block]:
    """Return the blocks that make an error, of all functions that the creation of a Job or a Pod can call.

    Args:
        coverage: the folder with the coverage of the validators.
        module: the Go module of the covered packages.
        source: its folder.
    """
    counts: dict[tuple[str, ...], int] = {}
    with tempfile.NamedTemporaryFile("r") as text:
        run_go(["tool", "covdata", "textfmt", f"-i={coverage}", f"-o={text.name}"], source)
        for file, *place, count in _BLOCK.findall(text.read()):
            if file.startswith(module):  # not our own main package
                key = (file.removeprefix(f"{module}/"), *place)
                counts[key] = max(counts.get(key, 0), int(count))
    files = {file: (source / file).read_text() for file, *_ in counts}
    callable_functions = find_callable("\n".join(files.values()))
    blocks = []
    for (file, *numbers), count in counts.items():
        start, first, end, last = map(int, numbers)
        lines = files[file].splitlines()[:end]
        lines[-1] = lines[-1][: last - 1]
        code = [lines[start - 1][first - 1 :], *lines[start:]]
        function = next((match[1] for line in reversed(lines[:start]) if (match := _FUNCTION.match(line))), "")
        if function in callable_functions and (error := next(filter(_ERROR.search, code), "")):
            condition = lines[start - 1].strip()
            blocks.append(
                Block(Path(file).parent.parent.name, start, function, f"{condition} {error.strip()}", count > 0)
            )
    return sorted(blocks, key=lambda block: (block.package, block.line))


def find_callable(code: str) -> set[str]:
    """Return the functions whose names occur in `ROOTS`, in the functions that these name, and so on."""
    parts = _FUNCTION.split(_COMMENT.sub("", code))
    bodies = dict(zip(parts[1::2], parts[2::2], strict=True))
    names, todo = set[str](), [*ROOTS]
    while todo:
        name = todo.pop()
        if name not in names:
            names.add(name)
            todo += bodies.keys() & set(_WORD.findall(bodies[name]))
    return names
