"""Ask Argo CD's own engine for the health of objects."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cluster.client import Body


def judge(argocd: Path, objects: Sequence[Body], scripts: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the health status and the message of each object; two empty strings if Argo CD has no check of its kind.

    Args:
        argocd: the program.
        objects: the objects.
        scripts: key → script of the ConfigMap `argocd-cm`.
    """
    prefix = "resource.customizations.health."
    overrides = {key.removeprefix(prefix).replace("_", "/", 1): script for key, script in scripts.items()}
    questions = [{"object": body, "scripts": overrides} for body in objects]
    done = subprocess.run([argocd, "health"], input=json.dumps(questions), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr)
    answers = (json.loads(line) or {} for line in done.stdout.splitlines())
    return [(answer.get("status", ""), answer.get("message", "")) for answer in answers]
