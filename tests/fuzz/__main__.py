"""The command line of the fuzzer: run many cases, or one."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path

from generator.cli.main import run
from tests.fuzz.case import KINDS, case
from tests.fuzz.run import MAX_MEMORY, MAX_SECONDS, Outcome, run_all

_SLOWEST = 5
_PROGRESS = 1_000


def main() -> int:
    """Run the requested cases, and return 1 if any of them fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the cases; default: 1")
    parser.add_argument("--platforms", type=int, default=10_000, metavar="NUMBER", help="default: 10,000")
    parser.add_argument("--manifests", type=int, default=10_000, metavar="NUMBER", help="default: 10,000")
    parser.add_argument("--synth", type=int, default=100, metavar="NUMBER", help="platforms to render; default: 100")
    parser.add_argument("--first", type=int, default=0, metavar="NUMBER", help="of each kind; default: 0")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), metavar="NUMBER")
    parser.add_argument("--case", metavar="KIND:NUMBER", help="write the files of one case here, and run it")
    chosen = parser.parse_args()
    if chosen.case:
        kind, _, number = chosen.case.partition(":")
        return _one(chosen.seed, kind, int(number))
    counts = {"platform": chosen.platforms, "manifest": chosen.manifests, "synth": chosen.synth}
    wanted = [(kind, chosen.first + number) for kind in KINDS for number in range(counts[kind])]
    start = time.monotonic()
    done = []
    for outcome in run_all(chosen.seed, wanted, chosen.workers):
        done.append(outcome)
        if outcome.failure:
            _print(f"FAILED {outcome.kind}:{outcome.number} `{outcome.command}`: {outcome.failure}")
        if len(done) % _PROGRESS == 0:
            _print(f"{len(done):,} of {len(wanted):,}")
    _report(done, time.monotonic() - start)
    return 1 if any(outcome.failure for outcome in done) or len(done) != len(wanted) else 0


def _one(seed: int, kind: str, number: int) -> int:
    made = case(seed, kind, number)
    made.write(Path())
    _print(f"mpigen {' '.join(made.arguments)}  {made.name}")
    return run(["--debug", *made.arguments])


def _report(done: list[Outcome], seconds: float) -> None:
    for kind in KINDS:
        of_kind = [outcome for outcome in done if outcome.kind == kind]
        if not of_kind:
            continue
        codes = ", ".join(f"{number:,}x exit {code}" for code, number in sorted(Counter(map(_code, of_kind)).items()))
        _print(f"{kind}: {len(of_kind):,} cases: {codes}")
        commands = ", ".join(f"{number:,}x {word}" for word, number in Counter(map(_command, of_kind)).most_common())
        _print(f"  {commands}")
        for outcome in sorted(of_kind, key=lambda outcome: -outcome.seconds)[:_SLOWEST]:
            _print(f"  {outcome.seconds:.2f} s: {outcome.kind}:{outcome.number} {outcome.command}")
        _print(f"  {max(outcome.memory for outcome in of_kind):.0f} MB at most")
    failed = sum(bool(outcome.failure) for outcome in done)
    limits = f"the limits are {MAX_SECONDS} s of a processor and {MAX_MEMORY} MB"
    _print(f"{len(done):,} cases in {seconds:.0f} s, {failed} failed; {limits}")


def _code(outcome: Outcome) -> str:
    return "none" if outcome.code is None else str(outcome.code)


def _command(outcome: Outcome) -> str:
    words = outcome.command.split()
    return words[0] + (" --since" if "--since" in words else "") if words else "none"


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
