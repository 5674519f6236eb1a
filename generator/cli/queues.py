"""`mpigen queues`: the quota of each queue and its largest jobs, by the rules of Kueue."""

from __future__ import annotations

from pathlib import Path

import click

from generator.cli.inputs import target_option
from generator.cli.output import format_option, progress, show, table_width


@click.command(
    epilog="""
    \b
    Example:
      mpigen queues platform.yaml
      mpigen queues output/university/1.0.0
      kubectl get clusterqueues,cohorts,resourceflavors,topologies,localqueues -A -o yaml | mpigen queues -
    """
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@target_option
@format_option
def queues(paths: tuple[Path, ...], targets: dict[str, str], form: str) -> None:
    """Show the quota of each queue, and the largest job on each runtime.

    PATHS is a platform file, or any YAML or JSON files, folders of them, or - for standard input,
    with the queues of one cluster. mpigen asks no cluster.

    If PATHS has Nodes and Kueue places by topology, the largest job fits on these Nodes.

    OWNED is what a queue gets without preempting a job, whatever the other queues use. RECLAIMABLE
    is what it gets with the preemption that its policy allows. IDLE is what it gets while the other
    queues use nothing. All three are for a queue that uses nothing itself.
    """
    from generator.cli.inputs import read_cluster
    from generator.report import queues as report
    from generator.simulate.kueue.largest import largest_jobs
    from generator.simulate.kueue.queues import read_queue_tree

    with progress("computing"):
        manifests, made_for = read_cluster(paths)
        tree = read_queue_tree(manifests, {**made_for, **targets}.get("kueue", ""))
        largest = list(largest_jobs(tree, manifests))
    show(form, report.facts(tree, largest), report.text(tree, largest, table_width()))
