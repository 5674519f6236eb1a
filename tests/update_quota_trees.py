"""Ask the real Kueue again for the largest jobs in random queue trees: `python -m tests.update_quota_trees`.

The command compiles tests/cluster/go/quotas inside Kueue's scheduler package, for each supported version, which takes
minutes the first time. It records the answers and prints where mpigen disagrees. `python -m tests.update_quota_trees
1000 50` compares 50 trees from seed 1000 on, and records nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from tests.cluster.inside import asked
from tests.cluster.oracle import scheduler_tests
from tests.cluster.versions import NAMES, Program, versions
from tests.quota_claims import Disagreement, disagreements
from tests.quota_trees import FOLDER, TREES, Answers, Tree, drawn, record, written

COUNT = 200
STATES = 30
"""The number of random states of the other queues, in addition to the states of a greedy adversary."""
_KUEUE = "kueue.x-k8s.io"


def main(first: int | None = None, count: int = COUNT) -> int:
    """Compare trees for each version; record them if no first seed is given. Return the number of disagreements."""
    seeds = range(first or 0, (first or 0) + count)
    trees = [drawn(seed) for seed in seeds]
    wrong = 0
    for name in NAMES:
        program = versions(name)["kueue"]
        answers = answered(program, trees)
        if first is None:
            FOLDER.mkdir(parents=True, exist_ok=True)
            TREES.write_text("".join(f"{written(asdict(tree))}\n" for tree in trees))
            record(program.minor).write_text("".join(f"{written(each)}\n" for each in answers))
        for seed, tree, each in zip(seeds, trees, answers, strict=True):
            for found in disagreements(tree, program.minor, each):
                sys.stdout.write(f"Kueue {program.version}, seed {seed}: {_line(found)}\n")
                wrong += 1
    sys.stdout.write(f"{count} trees, {len(NAMES)} versions of Kueue, {wrong} disagreements\n")
    return wrong


def answered(program: Program, trees: Sequence[Tree], states: int = STATES, first: int = 0) -> list[Answers]:
    """Return the answers of a Kueue version to each tree; another `first` draws other states of the queues."""
    questions = [_question(number, tree, states) for number, tree in enumerate(trees, first)]
    return [json.loads(line) for line in asked(scheduler_tests(program), "TestQuotas", questions, PATIENCE="1")]


def _question(number: int, tree: Tree, states: int) -> dict[str, object]:
    objects = [each.body for each in tree.objects() if each.group == _KUEUE and each.kind != "LocalQueue"]
    return {"objects": objects, "fair": tree.fair, "sizes": tree.sizes(), "seed": number, "states": states}


def _line(found: Disagreement) -> str:
    return f"{found.queue} {found.runtime} {found.what}: mpigen says {found.claimed}, Kueue {found.answer}"


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
