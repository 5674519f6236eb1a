"""The threat model, from tests/attacks: a real API server judges each attack of the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import fill

import yaml

from tests.attacks import corpus
from tests.attacks.corpus import CLASSES, FOLDER, WAYS, Attack, attacks, work

_OUTSIDE = FOLDER.with_name("outside.yaml")
_INTRODUCTION = """\
# Threat model

This page is for security reviewers of a platform. It lists attacks of members of teams, of their pods, and of users
without a role. It says what stops each attack, and what remains. Tests send all {attacks} attacks to a real API server
with the real controllers (Kubernetes, Trainer, JobSet and Kueue), for a Kubernetes and an OpenShift platform, while a
job of another user runs. If a change of mpigen stops fewer attacks, the tests fail. The same tests send {work} requests
of a normal day, which must all pass.

The attacks are in `tests/attacks/corpus/`. Each item begins with the persona of the attacker. Each list names
the first control that stops its attacks: the role (RBAC), a rule of the [admission policies](admission.md), or
another control, such as a webhook of Trainer.

- viewer, submitter, editor, team admin: a [role](access.md#roles) on the attacked team
- other submitter, other admin: a role on another team
- workbench: the token of a ServiceAccount with the role of a submitter
- student: a user to whom a cluster admin gave the ClusterRole `edit` of Kubernetes in the namespace, by hand, and the
  rights that operators add to it
- debugger: a submitter who may also open [sessions](access.md#sessions-in-pods)
- professor: a user to whom a cluster admin gave the ClusterRole `cluster-admin` in the namespace, by hand
- notebooks: the controller of workbenches, which `tenants[].workloads` declares
- ci: the account that reads the platform
- pod: the ServiceAccount of the pods of jobs
- stranger: a login without a role
- anonymous: no login

Platform admins, Argo CD and cluster admins are trusted: they can remove the controls of this page.
"""
_TITLES = {
    "devices": "Devices outside the quota",
    "stall": "Jobs of others that stop or wait",
    "secrets": "Secrets and tokens",
    "network": "Network traffic that is not allowed",
    "data": "Data of others",
    "escalate": "More rights",
    "evade": "Requests that avoid the rules",
}
_REMAINS = """\
## What remains

The API server accepts these requests. Each item says what follows, and after `Control` what prevents it, if anything is
needed.
"""
_BEYOND = """\
## What no manifest can stop
"""
_WIDTH = 100


def threat_page() -> str:
    """Return the page."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield _INTRODUCTION.format(attacks=len(attacks()), work=len(work()))
    for kind in CLASSES:
        yield f"## {_TITLES[kind]}\n"
        stopped = [attack for attack in attacks() if attack.kind == kind and not attack.remains]
        for way in sorted({_stopped(attack) for attack in stopped}, key=str.lower):
            yield f"Stopped by {way}:\n"
            yield from (_item(f"{_persona(attack)}: {attack.title}") for attack in stopped if _stopped(attack) == way)
            yield ""
    yield _REMAINS
    for attack in attacks():
        if attack.remains:
            yield _item(f"{_persona(attack)}: {attack.title}. {attack.remains} Control: {attack.control}")
    yield ""
    yield _BEYOND
    for row in yaml.safe_load(Path(_OUTSIDE).read_text()):
        yield _item(f"{row['threat']} {row['why']} Control: {row['control']}")
    yield ""


def _item(text: str) -> str:
    """Return an item of a list, with lines of a limited length."""
    return fill(text, _WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False)


def _persona(attack: Attack) -> str:
    return attack.by.replace("-", " ")


def _stopped(attack: Attack) -> str:
    """Return what stops an attack, by platform if the platforms differ."""
    texts = {platform: _ways(ways) for platform, ways in attack.stopped.items()}
    if len({*texts.values()}) == 1:
        return next(iter(texts.values()))
    return ", and by ".join(f"{text} on {corpus.PLATFORM_NAMES[platform]}" for platform, text in texts.items())


def _ways(ways: Iterable[str]) -> str:
    return " or ".join(WAYS.get(way, f"the rule `{way}`") for way in ways)
