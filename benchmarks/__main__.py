"""`make bench`: how mpigen compares with kubectl kustomize and kubeconform, in one run on one machine."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.platforms import kustomization, platform_file
from benchmarks.timing import NEVER, Timing, better, measure
from generator.schemas.catalog import Catalog
from generator.schemas.kubeconform import ensure_kubeconform

BIN = Path(sys.executable).parent
MPIGEN = BIN / "mpigen"
BUDGETED = 500  # tenants
SIZES = (100, BUDGETED, 1000)
Row = tuple[str, str, str]
_CUSTOM = Path(__file__).parent
_RELEASE = Path(__file__).parent.parent / "output/openshift-h100"
_JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: train
  namespace: {namespace}
  annotations: {{mpigen.dev/owner: ada}}
  labels: {{kueue.x-k8s.io/queue-name: default}}
spec:
  runtimeRef: {{name: openmpi-h100}}
  trainer: {{numNodes: 2, command: [mpirun, python, train.py]}}
"""


def main() -> None:
    """Print one table: what was measured, the figure, the budget."""
    table = Table("measured", "figure", "budget", title="mpigen benchmarks")
    with tempfile.TemporaryDirectory() as scratch:
        # Modules are compiled before they run, as an installation has them, whatever this one's environment says.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = f"{scratch}/compiled"
        for row in _rows(Path(scratch)):
            table.add_row(*row)
            print("  ".join(row), file=sys.stderr, flush=True)
    Console().print(table)


def _rows(scratch: Path) -> Iterator[Row]:
    timings = {size: _synth(scratch, size) for size in SIZES}
    for size in SIZES:
        yield f"synth, {size} tenants", _seconds(timings[size]), ""
    yield from _growth(timings)
    for size in (100, BUDGETED):
        yield from _against_kustomize(scratch, size, timings[size])
        yield from _against_kubeconform(scratch, size)
    yield from _customized(scratch)
    yield from _small_commands(scratch)


def _tree(scratch: Path, size: int) -> Path:
    return scratch / "output" / f"bench-{size}"


def _synth(scratch: Path, size: int) -> Timing:
    file = platform_file(scratch, size)
    output = scratch / "output"
    best = NEVER
    for _ in range(3):
        shutil.rmtree(output / f"bench-{size}", ignore_errors=True)
        best = better(best, measure([MPIGEN, "synth", file, "--output", output], 1))
    return best


def _growth(timings: dict[int, Timing]) -> Iterator[Row]:
    ratio = timings[1000].seconds / timings[100].seconds
    yield "synth, 1000 tenants / 100 tenants", f"{ratio:.1f} x", "≤ 11 x"
    yield "synth, 1000 tenants, peak memory", f"{timings[1000].peak_mib:.0f} MiB", "< 1024 MiB"


def _against_kustomize(scratch: Path, size: int, ours: Timing) -> Iterator[Row]:
    copy = scratch / f"kustomize-{size}"
    shutil.copytree(_tree(scratch, size), copy)
    kustomization(copy)
    peer = measure([BIN / "kubectl", "kustomize", copy], 1)
    yield f"kubectl kustomize, {size} tenants", _seconds(peer), ""
    budget = "≤ 0.40 x" if size == BUDGETED else ""
    yield f"synth with all checks / kustomize, {size} tenants", f"{ours.seconds / peer.seconds:.2f} x", budget


def _against_kubeconform(scratch: Path, size: int) -> Iterator[Row]:
    tree = _tree(scratch, size)
    cache = Path(os.environ["MPIGEN_CACHE"])
    kubeconform = ensure_kubeconform(cache)
    locations = [part for location in Catalog.bundled().locations(cache) for part in ("-schema-location", location)]
    ours = peer = NEVER
    for _ in range(7):  # by turns, so that what else the machine does slows both
        ours = better(ours, measure([MPIGEN, "validate", tree], 1))
        peer = better(peer, measure([kubeconform, "-strict", *locations, tree], 1))
    yield f"validate, {size} tenants", _seconds(ours), ""
    yield f"kubeconform -strict, {size} tenants", _seconds(peer), ""
    yield f"validate / kubeconform, {size} tenants", f"{ours.seconds / peer.seconds:.2f} x", "≤ 0.80 x"
    yield "the same, time of processors", f"{ours.of_processors / peer.of_processors:.2f} x", ""


def _customized(scratch: Path) -> Iterator[Row]:
    """Yield the processor time of `synth` with 10 patches and 5 rules of the site, as a ratio to `synth` without."""
    plain, own = scratch / "plain", scratch / "own"
    for folder in (plain, own):
        folder.mkdir()
        platform_file(folder, BUDGETED)
    with (own / f"bench-{BUDGETED}.yaml").open("a", encoding="utf-8") as platform:
        platform.write((_CUSTOM / "patches.yaml").read_text("utf-8"))
    shutil.copy(_CUSTOM / "rules.yaml", own)
    (plain / "mpigen.toml").write_text("", encoding="utf-8")
    (own / "mpigen.toml").write_text('checks = ["rules.yaml"]\n', encoding="utf-8")
    best = dict.fromkeys((plain, own), NEVER)
    for _ in range(3):  # by turns, so that what else the machine does slows both
        for folder in best:
            shutil.rmtree(folder / "output", ignore_errors=True)
            command: list[str | Path] = [
                MPIGEN,
                "synth",
                folder / f"bench-{BUDGETED}.yaml",
                "--output",
                folder / "output",
            ]
            command += ["--config", folder / "mpigen.toml"]
            timing = measure(command, 1)
            best[folder] = better(best[folder], timing)
    ratio = best[own].of_processors / best[plain].of_processors
    yield f"synth with 10 patches and 5 rules / without, {BUDGETED} tenants", f"{ratio:.2f} x", "≤ 1.15 x"


def _small_commands(scratch: Path) -> Iterator[Row]:
    """With a Node that fails when it is started, so that nothing can start it unseen."""
    trap = scratch / "node"
    trap.write_text("#!/bin/sh\necho 'Node was started' >&2\nexit 1\n", encoding="utf-8")
    trap.chmod(0o755)
    environment = {"JSII_NODE": str(trap)}
    file = next(_tree(scratch, 100).rglob("queue.yaml"))
    commands: list[tuple[str, list[str | Path], str]] = [
        ("mpigen --help", [MPIGEN, "--help"], "< 150 ms"),
        ("mpigen validate, one file", [MPIGEN, "validate", file], "< 300 ms"),
    ]
    for name, command, budget in commands:
        yield name, f"{measure(command, 15, environment).seconds * 1000:.0f} ms", budget
    yield from _check_job(scratch, environment)


def _check_job(scratch: Path, environment: dict[str, str]) -> Iterator[Row]:
    """Yield the processor time of `check-job` beyond the start of mpigen, on releases with all their policies."""
    job = scratch / "job.yaml"
    for name, namespace, release in (
        (_RELEASE.name, "team-nlp", _RELEASE),
        (f"{BUDGETED} tenants", "team-00001", _tree(scratch, BUDGETED)),
    ):
        job.write_text(_JOB.format(namespace=namespace), encoding="utf-8")
        start = answer = NEVER
        for _ in range(7):  # by turns, so that what else the machine does slows both
            start = better(start, measure([MPIGEN, "--help"], 1, environment))
            answer = better(answer, measure([MPIGEN, "check-job", job, "--release", release], 1, environment))
        seconds = answer.of_processors - start.of_processors
        yield f"mpigen check-job, {name}, processors beyond --help", f"{seconds * 1000:.0f} ms", "< 500 ms"


def _seconds(timing: Timing) -> str:
    return f"{timing.seconds:.2f} s"


main()
