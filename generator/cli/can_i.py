"""`mpigen can-i`: the RBAC permissions of a user, group or ServiceAccount, in a platform or in any manifests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from generator.cli.inputs import environment_option, kustomize_option, no_python_option
from generator.cli.output import format_option, progress, show, table_width
from generator.errors import DocumentError, ExitCode, Problem

if TYPE_CHECKING:
    from generator.upstream.kubernetes.access import AccessRequest, Requester

_RBAC = "rbac.authorization.k8s.io"
_WORDS = "[WHO [VERB RESOURCE]] PATH"


@click.command(
    options_metavar="[OPTIONS]",
    epilog="""
    \b
    Example:
      mpigen can-i group:nlp create trainjobs -n team-nlp platform.yaml
      mpigen can-i user:ada get pods --subresource exec -n team-nlp output/prod
      mpigen can-i group:nlp platform.yaml
      kubectl get roles,clusterroles,rolebindings,clusterrolebindings -A -o yaml | mpigen can-i -
    """,
)
@click.argument("words", nargs=-1, required=True, metavar=_WORDS)
@click.option(
    "-n",
    "--namespace",
    default="",
    metavar="NAME",
    help="The namespace of the request. Default: all namespaces, as with kubectl -A.",
)
@click.option("--subresource", default="", metavar="NAME", help="A subresource of RESOURCE, such as log or status.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group of WHO. May be repeated.")
@kustomize_option
@environment_option
@no_python_option
@format_option
def can_i(
    words: tuple[str, ...], *, namespace: str, subresource: str, groups: tuple[str, ...], renders: bool, form: str
) -> int:
    """Show whether RBAC allows a request of WHO, by the Roles and bindings in PATH.

    WHO is group:NAME, user:NAME or serviceaccount:NAMESPACE/NAME. RESOURCE is written as for kubectl:
    trainjobs, jobs.batch, trainjobs/NAME, or a URL such as /metrics. Without VERB and RESOURCE, mpigen
    lists all permissions of WHO. Without WHO, mpigen lists the permissions of all subjects.

    PATH is a platform file, a YAML or JSON file, a folder of them, or - for standard input. mpigen
    contacts no cluster. It evaluates RBAC only: admission policies can reject a request that RBAC allows.
    """
    from generator.cli.inputs import read_manifests
    from generator.report import access as report
    from generator.schemas.catalog import Catalog
    from generator.upstream.kubernetes.access import find_misspellings, find_resource, find_subresource, read_access

    *question, path = words
    requester, request = _question(question, groups, namespace, subresource)
    with progress("reading"):
        manifests = read_manifests([Path(path)], renders=renders)
        granted = read_access(manifests)
    if requester is None or request is None:
        show(form, report.facts(granted, requester), report.text(granted, requester, table_width()))
        return ExitCode.OK
    if not any(manifest.group == _RBAC for manifest in manifests):
        fix = "pass what `kubectl get roles,clusterroles,rolebindings,clusterrolebindings -A -o yaml` prints"
        file = "stdin" if path == "-" else path
        raise DocumentError(
            (Problem("the input has no Role, ClusterRole or binding, so the answer is unknown", fix, file=file),)
        )
    facts, lines = report.verdict(granted, requester, request)
    facts["notes"] = []
    if not facts["allowed"]:
        facts["notes"] += find_misspellings(Catalog.bundled(), words[1], words[2])
        facts["notes"] += report.doubts(manifests, requester, request)
        if not namespace and find_resource(Catalog.bundled(), words[2].partition("/")[0]).is_namespaced:
            facts["notes"].append("without --namespace, the question is about all namespaces")
    if name := find_subresource(words[2]):
        resource = words[2].removesuffix(f"/{name}")
        facts["notes"].append(
            f"`{name}` is a name here, as in kubectl; for {words[2]} write `{resource} --subresource {name}`"
        )
    lines += [f"note: {note}" for note in facts["notes"]]
    show(form, facts, lines)
    return ExitCode.OK if facts["allowed"] else ExitCode.FINDINGS


def _question(
    words: list[str], groups: Iterable[str], namespace: str, subresource: str
) -> tuple[Requester | None, AccessRequest | None]:
    from generator.schemas.catalog import Catalog
    from generator.upstream.kubernetes.access import parse_request, parse_requester

    if len(words) not in (0, 1, 3):
        raise click.UsageError(f"the arguments are {_WORDS}: write VERB and RESOURCE together, and PATH last")
    try:
        requester = parse_requester(words[0], groups) if words else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="WHO") from None
    if len(words) == 1 or not words:
        return requester, None
    return requester, parse_request(Catalog.bundled(), words[1], words[2], namespace, subresource)
