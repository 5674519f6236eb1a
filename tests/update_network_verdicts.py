"""Ask kube-network-policies again for the verdicts on random packets: `python -m tests.update_network_verdicts`.

The command builds tests/cluster/go/verdicts, which takes a minute the first time, and records the verdicts.
`python -m tests.update_network_verdicts 5000 300` compares 300 scenes from seed 5000 on, and records nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.cluster.build import build
from tests.cluster.versions import versions
from tests.network_scenes import RECORD, Scene, drawn, stored

COUNT = 300


def main(first: int | None = None, count: int = COUNT) -> int:
    """Compare scenes; record the verdicts if no first seed is given. Return the number of disagreements."""
    program, lines, wrong = build(versions("default")["verdicts"]), [], 0
    for seed in range(first or 0, (first or 0) + count):
        scene = drawn(seed)
        verdicts = ask(program, scene)
        lines.append(json.dumps({"seed": seed, "question": scene.digest, "verdicts": verdicts}))
        for number in disagreements(scene, verdicts):
            sys.stdout.write(f"seed {seed}, packet {scene.packets[number]}: the engine says {verdicts[number]}\n")
            wrong += 1
    if first is None:
        RECORD.parent.mkdir(parents=True, exist_ok=True)
        RECORD.write_text("".join(f"{line}\n" for line in lines))
    sys.stdout.write(f"{count} scenes, {wrong} disagreements\n")
    return wrong


def ask(program: Path, scene: Scene) -> str:
    """Return the engine's verdicts: `1` for each packet that arrives, `0` for any other."""
    question = {**scene.question, "networkPolicies": list(map(stored, scene.question["networkPolicies"]))}
    done = subprocess.run([program], input=json.dumps(question), capture_output=True, text=True, check=True)
    return "".join("01"[verdict] for verdict in json.loads(done.stdout))


def disagreements(scene: Scene, verdicts: str) -> list[int]:
    """Return the numbers of the packets on which mpigen contradicts the engine. An unknown verdict does not."""
    answers = [
        scene.known.decide(scene.peers[source], scene.peers[to], protocol, port).allowed
        for source, to, protocol, port in scene.packets
    ]
    return [
        number
        for number, (answer, verdict) in enumerate(zip(answers, verdicts, strict=True))
        if answer is not None and answer is not (verdict == "1")
    ]


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
