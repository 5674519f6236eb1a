"""`mpigen reach`: the connections between pods that the network policies in files allow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from generator.cli.inputs import environment_option, kustomize_option, no_python_option
from generator.cli.output import format_option, progress, show, table_width
from generator.errors import ExitCode

if TYPE_CHECKING:
    from generator.manifests import Manifest
    from generator.questions.peers import Cluster, Connection
    from generator.upstream.kubernetes.network_policy import Cause, Peer


@click.command(
    options_metavar="[OPTIONS]",
    epilog="""
    \b
    Example:
      mpigen reach team-nlp team-cv output/prod
      mpigen reach team-nlp dns --port 53/UDP platform.yaml
      mpigen reach pods:monitoring tenant:team-nlp output/prod
      mpigen reach team-nlp/train ip:10.20.0.7 --port 443 output/prod job.yaml
      mpigen reach --matrix output/prod
    """,
)
@click.argument("words", nargs=-1, required=True, metavar="[FROM TO] PATH...")
@click.option(
    "--port", default="", metavar="PORT/PROTOCOL", help="The port of TO, such as 2222 or 53/UDP. Default: all ports."
)
@click.option("--matrix", "is_matrix", is_flag=True, help="List the connections of each team instead.")
@kustomize_option
@environment_option
@no_python_option
@format_option
def reach(words: tuple[str, ...], *, port: str, is_matrix: bool, renders: bool, form: str) -> int:
    """Show whether FROM reaches TO over the pod network, by the network policies in PATH.

    FROM and TO are tenant:NAME or NAMESPACE for the ranks of a team's jobs, NAMESPACE/NAME for the pods
    of a runtime, TrainJob, Pod or other workload, pods:NAMESPACE for any pod of a namespace, dns,
    api-server, internet, or ip:ADDRESS with an address or CIDR outside the pod network.

    PATH is a platform file, a YAML or JSON file, a folder of them, or - for standard input. mpigen
    evaluates NetworkPolicies, AdminNetworkPolicies and BaselineAdminNetworkPolicies. The answer is
    unknown if it depends on another kind of policy, or on an address or a label that is not in PATH.

    RDMA, secondary networks, and traffic between a pod and its node bypass these policies. The policies
    take effect only if the CNI enforces them.
    """
    from generator.cli.inputs import read_cluster
    from generator.questions.peers import Cluster, decide_all
    from generator.report import reach as report

    if not is_matrix and len(words) < 3:  # noqa: PLR2004 - FROM, TO and PATH
        raise click.UsageError("write FROM TO PATH, or --matrix PATH")
    if is_matrix and port:
        raise click.UsageError("--matrix lists all ports, so remove --port")
    number = _port(port)
    ends, paths = ((), words) if is_matrix else (words[:2], words[2:])
    with progress("reading"):
        files = read_cluster([Path(path) for path in paths], renders=renders)
        manifests, targets = files.manifests, files.targets
        cluster = Cluster.read(manifests)
        notes = [*_notes(manifests)]
        if is_matrix:
            groups = report.matrix(cluster)
            lines = [*report.matrix_text(groups, table_width()), *(["", *notes] if notes else [])]
            show(form, {"matrix": report.matrix_facts(groups), "notes": notes}, lines)
            return ExitCode.OK
        source, to = (_peers(end, cluster, targets) for end in ends)
        connections = decide_all(cluster.policies, [(one, other) for one in source for other in to], number)
    locate = _locator()
    show(
        form,
        {"connections": report.facts(connections, locate), "notes": notes},
        [*report.text(connections, locate), *notes],
    )
    return _exit_code(connections)


def _exit_code(connections: Sequence[Connection]) -> ExitCode:
    """Return OK if each pair of peers certainly connects on a port, else FINDINGS."""
    reached = (any(span.verdict.allowed for span in connection.spans) for connection in connections)
    return ExitCode.OK if all(reached) else ExitCode.FINDINGS


def _port(text: str) -> tuple[str, int] | None:
    """Return the protocol and number of `--port`; None for an empty text.

    Raises:
        click.BadParameter: the text is not a port.
    """
    from generator.questions.ports import parse_port

    try:
        return parse_port(text) if text else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--port") from None


def _peers(text: str, cluster: Cluster, targets: dict[str, str]) -> list[Peer]:
    """Return the peers that an argument FROM or TO names.

    Raises:
        click.BadParameter: the files have no peer of this name.
    """
    from generator.questions.peers import find_peers

    try:
        return find_peers(cluster, text, targets)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="PEER") from None


def _notes(manifests: Iterable[Manifest]) -> Iterator[str]:
    """Yield notes on RDMA, secondary networks and MultiNetworkPolicies in manifests: mpigen evaluates none of them."""
    from generator.objects.pods import pod_templates

    objects = list(manifests)
    pods = [pods for manifest in objects for pods in pod_templates(manifest)]
    if any(one.networks.requests or one.fabric_devices for one in pods):
        yield "note: RDMA and secondary networks bypass these policies; separate teams by VLANs or partitions"
    if any(manifest.kind == "MultiNetworkPolicy" for manifest in objects):
        yield "note: MultiNetworkPolicies filter secondary networks alone, and mpigen does not evaluate them here"


def _locator() -> Callable[[Cause], str]:
    """Return a function that formats the place of a cause: `file:line`; empty if no file has it.

    No file has a cause without an object, or with an object that mpigen rendered in memory.
    """
    from generator.cli.findings import text_reader
    from generator.documents.locate import locate

    read_text, places = text_reader(), dict[tuple[str, int, object], str]()

    def place(cause: Cause) -> str:
        manifest = cause.manifest
        if manifest is None or not Path(manifest.file).is_file():
            return ""
        key = (manifest.file, manifest.index, (*manifest.inside, *cause.path))
        if key not in places:
            line, _ = locate(read_text(manifest.file), manifest.index, (*manifest.inside, *cause.path))
            places[key] = f"{manifest.file}:{line}"
        return places[key]

    return place
