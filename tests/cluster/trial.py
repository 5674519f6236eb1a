"""Ask all judges about several trees on one cluster.

Judges run one after another: jobs run only on accepted trees, and quotas are tested only if all jobs complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from generator import Platform
from generator.manifests import Manifest
from tests.cluster import judges, over_quota, trees
from tests.cluster.client import Body, Client
from tests.cluster.runs import Ran, run
from tests.cluster.training import trainings
from tests.cluster.trees import Deployed

OF_JOBS: tuple[Callable[[Iterable[Ran]], list[str]], ...] = (
    judges.never_complete,
    judges.unknown_to_kueue,
    judges.on_another_pool,
    judges.sharing_a_node,
    judges.given_other_hosts,
    judges.running_another_command,
)


@dataclass(slots=True)
class Trial:
    """A tree on the cluster, and the complaints about it.

    Attributes:
        deployed: its deployed objects.
        complaints: judge → complaints, without judges that have none.
        reasons: runtime → condition of a job over quota; empty after earlier complaints.
    """

    deployed: Deployed
    complaints: dict[str, list[str]] = field(default_factory=dict)
    reasons: dict[str, Body] = field(default_factory=dict)

    def hear(self, judge: Callable[..., list[str]], *evidence: object) -> None:
        """Run a judge."""
        if complaints := judge(*evidence):
            self.complaints[judge.__name__] = complaints


def accept(admin: Client, platform: Platform, tree: list[Manifest]) -> Trial:
    """Apply a tree, and run the judges of its objects."""
    deployed = trees.deploy(admin, platform, tree)
    trial = Trial(deployed)
    trial.hear(judges.refused, deployed)
    trial.hear(judges.warned_about, deployed)
    if not trial.complaints:
        stored = trees.settled(deployed)
        trial.hear(judges.stored_otherwise, deployed, stored)
        trial.hear(judges.unknown_additions, deployed, stored)
        trial.hear(judges.moved_by_a_second_apply, deployed, stored)
        trial.hear(judges.inactive_queues, deployed, admin)
    return trial


def train(admin: Client, trials: Iterable[Trial]) -> None:
    """Run the jobs of all trees without complaints, and the judges of jobs."""
    sound = [trial for trial in trials if not trial.complaints]
    everything = run(admin, [training for trial in sound for training in trainings(trial.deployed.platform)])
    for trial in sound:
        mine = [ran for ran in everything if ran.training.tenant in trial.deployed.platform.tenants]
        for judge in OF_JOBS:
            trial.hear(judge, mine)
        if not trial.complaints:
            trial.reasons = over_quota.reasons(admin, trial.deployed.platform)
