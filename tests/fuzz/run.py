"""Run cases in worker processes with limits, through the command line's entry, so that exit codes are real."""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType

from click.testing import CliRunner

from generator.cli.main import run
from generator.facts.versions import minors
from tests.conftest import ROOT
from tests.fuzz.case import Case, case, prepare

MAX_SECONDS = 2.0
"""Of a processor, for one command."""
MAX_MEMORY = 500
"""MB of resident memory, of a process after any number of commands."""
_ADDRESSES = 3 << 30
"""Bytes of addresses, so that a case cannot take the machine's memory. Node needs more, so `synth` has no limit."""
_CHUNK = 250
_BUG = 3
_BLOCKED = 120.0
"""Seconds by the clock after which a process that uses no processor is given up."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a case.

    Attributes:
        command: the command and its options, without paths.
        code: the exit code; None if the process ended instead of the command.
        seconds: of a processor.
        memory: MB of resident memory that the process has had at most.
        failure: what must not be; empty if all is well.
    """

    kind: str
    number: int
    command: str
    code: int | None
    seconds: float = 0.0
    memory: float = 0.0
    failure: str = ""


class HangError(BaseException):
    """A command takes too long. It is not an Exception, because the command line would turn that into an exit code."""


def execute(kind: str, number: int, made: Case, *, has_limits: bool = True) -> Outcome:
    """Run a case in this process, in an empty folder. Limits are for processes that do nothing else."""
    command = " ".join(word for word in made.arguments if "." not in word and word not in ("new", "old", "-"))
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        made.write(Path(folder))
        os.chdir(folder)
        start = time.process_time()
        failure, output, code = "", "", None
        try:
            with CliRunner().isolation(input=made.stdin) as streams, _alarm() if has_limits else nullcontext():
                code = int(run(list(made.arguments)))
                sys.stdout.flush()
            output = (streams[0].getvalue() + streams[1].getvalue()).decode(errors="replace")
        except HangError:
            failure = f"more than {MAX_SECONDS} s"
        finally:
            seconds = time.process_time() - start
            os.chdir(before)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    failure = failure or _failure(code, output)
    if has_limits and memory > MAX_MEMORY and not failure:
        failure = f"{memory:.0f} MB of memory"
    return Outcome(kind, number, command, code, seconds, memory, failure)


def _failure(code: int | None, output: str) -> str:
    if code == _BUG:
        return next((line for line in output.splitlines() if "mpigen has a bug" in line), output[-300:])
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if code == 2 and not any(sign in output for sign in ("error: ", "Error: ", '"problems": [\n')):
        return "refused without a word"
    return ""


@contextmanager
def _alarm() -> Iterator[None]:
    """Raise in the main thread after too much processor time."""

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise HangError

    previous = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def run_all(seed: int, wanted: Sequence[tuple[str, int]], workers: int) -> Iterator[Outcome]:
    """Run cases, given as (kind, number), in worker processes; a dead process is one failure and is replaced."""
    chunks = [list(wanted[start : start + _CHUNK]) for start in range(0, len(wanted), _CHUNK)][::-1]
    _prepare()
    context = get_context("fork")
    running: dict[Connection, list[tuple[str, int]]] = {}
    processes = {}
    while chunks or running:
        while chunks and len(running) < workers:
            chunk = chunks.pop()
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(sender, seed, chunk))
            process.start()
            sender.close()
            running[receiver], processes[receiver] = chunk, process
        ready = wait(list(running), timeout=_BLOCKED)
        for receiver in [each for each in running if each in ready] or list(running):
            left = running[receiver]
            try:
                if receiver not in ready:
                    processes[receiver].kill()
                outcome: Outcome = receiver.recv()
                left.pop(0)
                yield outcome
                continue
            except EOFError:
                processes[receiver].join()
            del running[receiver]
            if left:
                kind, number = left.pop(0)
                code = processes[receiver].exitcode
                yield Outcome(kind, number, "", None, failure=f"the process ended with {code}")
                if left:
                    chunks.append(left)


_ADMISSION = sorted((ROOT / "output/cpu-kubernetes/cluster/admission").glob("*.yaml"))


def _prepare() -> None:
    """Import and read what every process needs, before it is forked."""
    prepare()
    for module in (
        "config.load",
        "pipeline",
        "checks.policy",
        "config.policy_cases",
        "upstream.kueue.largest",
        "jobs.job",
        "checks.submission",
    ):
        import_module(f"generator.{module}")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("new", "old"):
            Path(folder, name).mkdir()
            Path(folder, name, "a.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n")
        with CliRunner().isolation():
            run(["validate", f"{folder}/new", "--since", f"{folder}/old"])
            run(["queues", "--release", folder])
            for minor in minors("kubernetes"):  # most expressions of the policies are the same in all platforms
                run(["validate", "--target", f"kubernetes={minor}", *map(str, _ADMISSION)])


def _work(sender: Connection, seed: int, chunk: list[tuple[str, int]]) -> None:
    if all(kind != "synth" for kind, _ in chunk):
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
    for kind, number in chunk:
        sender.send(execute(kind, number, case(seed, kind, number)))
