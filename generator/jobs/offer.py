"""The text and the example in the catalogue of a team: what its jobs can use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import floor

from generator.documents.emit import BriefEmitter
from generator.facts.names import CATALOGUE, TEAM_CATALOGUE
from generator.facts.table import read_table
from generator.jobs.catalogue import Catalogue, Home, OfferedRuntime, Team
from generator.jobs.reach import fewest_hosts, offers
from generator.jobs.request import JobRequest
from generator.jobs.team_view import describe_team, team_facts
from generator.jobs.train_job import train_job
from generator.objects.queue import FlavorResource, format_amount
from generator.upstream.kueue.queues import QueueTree

FOLDER = "cluster"
"""The folder of the ConfigMaps in the printed commands."""


def describe_offer(team: Team, catalogue: Catalogue, queues: QueueTree | None, namespace: str) -> str:
    """Return what the jobs of a team can use, and the commands that read it.

    Args:
        team: the team.
        catalogue: all objects of its cluster.
        queues: the queues; None if they are unknown.
        namespace: the namespace of the catalogue that all teams share.
    """
    facts = [*describe_team(team_facts(catalogue, team))]
    if queues:
        facts += _quota(team, catalogue, queues)
    if catalogue.denies("patches", team.home):
        fields = read_table("job_fields", "generator.policies.admission")["spec.trainer"]
        facts.append(("spec.trainer", ", ".join(fields)))
    width = max(len(topic) for topic, _ in facts)
    runtime = _first_runtime(team, catalogue)
    name = runtime.name if runtime else "RUNTIME"
    lines = [
        *(f"{topic:{width}}  {text}" for topic, text in facts),
        "",
        f"Read the catalogue into the folder {FOLDER}, and write a job:",
        f"  mkdir -p {FOLDER}",
        f"  kubectl get configmap {TEAM_CATALOGUE} --namespace {team.home.name} --output yaml > {FOLDER}/team.yaml",
        f"  kubectl get configmap {CATALOGUE} --namespace {namespace} --output yaml > {FOLDER}/shared.yaml",
        f"  mpigen runtimes --release {FOLDER}",
        f"  mpigen queues --release {FOLDER} --tenant {team.name}",
        f"  mpigen job new --release {FOLDER} --runtime {name} -- mpirun ./my-program > job.yaml",
        f"  mpigen check-job --release {FOLDER} job.yaml",
        "  kubectl create --filename job.yaml",
    ]
    return "".join(f"{line}\n" for line in lines)


def _first_runtime(team: Team, catalogue: Catalogue) -> OfferedRuntime | None:
    usable = [runtime for runtime in catalogue.runtimes.values() if offers(team, runtime)]
    return next((runtime for runtime in usable if not runtime.is_deprecated), usable[0] if usable else None)


def _quota(team: Team, catalogue: Catalogue, tree: QueueTree) -> Iterator[tuple[str, str]]:
    """Yield the nominal quota and the borrowing limit of the team in each flavor."""
    for name in sorted(catalogue.queues_of(team) & tree.queues.keys()):
        queue = tree.queues[name]
        for flavor in dict.fromkeys(key.flavor for key in queue.quotas):
            quotas = {key: quota for key, quota in queue.quotas.items() if key.flavor == flavor}
            own = {key: quota.nominal for key, quota in quotas.items()}
            limits = {key: quota.borrowing for key, quota in quotas.items() if quota.borrowing is not None}
            text = f"{_size(own, tree)} of flavor {flavor}"
            if queue.cohort and len(limits) < len(quotas):
                text += ", and all that others leave idle"
            elif queue.cohort and any(limits.values()):
                text += f", and at most {_size(limits, tree)} that others leave idle"
            yield "quota", text


def _size(amounts: Mapping[FlavorResource, int], tree: QueueTree) -> str:
    """Return amounts of a flavor as the nodes that they fill, and the devices; without nodes, as amounts."""
    flavor = tree.flavors.get(next(iter(amounts)).flavor)
    per_node = tree.settings.counting.of(flavor.allocatable) if flavor else {}
    rates = [amount / per_node[key.resource] for key, amount in amounts.items() if per_node.get(key.resource)]
    texts = [f"{format_amount(key.resource, amount)} {key.resource}" for key, amount in amounts.items() if amount]
    count = floor(min(rates, default=0))
    if not count:
        return ", ".join(texts) or "none"
    devices = [text for text in texts if "/" in text.partition(" ")[2]]
    return f"{count} {'node' if count == 1 else 'nodes'}" + (f" ({', '.join(devices)})" if devices else "")


def example(team: Team, catalogue: Catalogue) -> str:
    """Return a TrainJob of the team as YAML, on its first runtime; empty if the team can use no runtime."""
    runtime = _first_runtime(team, catalogue)
    if runtime is None:
        return ""
    home = next(home for home in team.homes if home.offers(runtime))
    request = JobRequest(
        runtime.name,
        name="my-job",
        owner="YOUR-USER-NAME",
        priority=_priority(home, catalogue),
        labels={key: value or "VALUE" for key, value in home.labels.items()},
    )
    body = train_job(request, home, runtime, nodes=fewest_hosts(runtime), command=("mpirun", "./my-program"))
    return BriefEmitter().emit([body])


def _priority(home: Home, catalogue: Catalogue) -> str:
    """Return the lowest priority of the namespace if its jobs need one; else an empty text."""
    known = catalogue.priority_values
    names = [name for name in home.priorities or known if name in known]
    return min(names, key=lambda name: known[name]) if home.needs_priority and names else ""
