"""Jobs with a claim for checkpoints, whose pods are deleted while they run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from generator import Manifest
from tests.cluster.client import Body
from tests.cluster.mpi.images import Image
from tests.cluster.mpi.offline import OfflineJob
from tests.cluster.mpi.plans import Deletion
from tests.cluster.mpi.runner import Outcome, Surroundings
from tests.conftest import ROOT

LAUNCHER = "job-launcher-0-0"
Images = Callable[[str], Image]


@dataclass(frozen=True)
class Stage:
    """Runs jobs that share a claim.

    Attributes:
        images: the function that resolves images.
        manifests: the platform.
        folder: the folder of the test.
    """

    images: Images
    manifests: list[Manifest]
    folder: Path

    @property
    def claim(self) -> Path:
        """Return the folder of the claim, to which the users of the pods can write."""
        folder = self.folder / "claim"
        if not folder.exists():
            folder.mkdir()
            folder.chmod(0o777)
            shutil.copy(ROOT / "examples/checkpoint/train.py", folder)
        return folder

    @property
    def saved(self) -> dict[str, list[float]]:
        """Return rank of ends.py → the times at which it got SIGTERM."""
        files = sorted((self.claim / "job").glob("saved-*"))
        return {file.name: [float(line) for line in file.read_text().splitlines()] for file in files}

    def run(  # noqa: PLR0913 - the job, its end, and its size
        self,
        runtime: str,
        command: Sequence[str],
        deleted: Sequence[str] = (),
        after: str = "all ranks run",
        change: Callable[[Body], Body] = lambda pod: pod,
        *,
        variables: Mapping[str, str] = MappingProxyType({}),
        hosts: int = 3,
    ) -> Outcome:
        """Run a job, delete some of its pods after the launcher has logged a text, and return the outcome."""
        job = OfflineJob.on(runtime, command, self.manifests, hosts=hosts, variables=variables)
        deletions: list[Deletion] = [{"pods": [*deleted], "of": LAUNCHER, "text": after}] if deleted else []
        logs = self.folder / f"logs-{len([*self.folder.iterdir()])}"
        logs.mkdir()
        around = Surroundings(deletions=deletions)
        return job.run(self.images, logs, change, 60 + 10 * hosts, around, claims={"checkpoints": self.claim})


def code(outcome: Outcome) -> int | None:
    """Return the exit code of the launcher."""
    return outcome.codes.get((LAUNCHER, "node"))


def log(outcome: Outcome) -> str:
    """Return the log of the launcher."""
    return (outcome.folder / f"{LAUNCHER}.node.log").read_text()
