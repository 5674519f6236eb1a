"""`mpigen can-i`: the RBAC permissions of a user, group or ServiceAccount, in a platform or in any manifests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from generator.cli.inputs import no_python_option
from generator.cli.output import format_option, progress, show, table_width
from generator.documents.messages import shorten
from generator.errors import ExitCode

if TYPE_CHECKING:
    from generator.simulate.access import AccessRequest, Requester

_REQUESTS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
_VERBS = (*_REQUESTS, "use", "bind", "escalate", "impersonate", "approve", "sign", "attest")
_URL_VERBS = ("get", "head", "post", "put", "patch", "delete", "options")
_LONGEST = 200  # characters of a note
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
@no_python_option
@format_option
def can_i(words: tuple[str, ...], *, namespace: str, subresource: str, groups: tuple[str, ...], form: str) -> int:
    """Show whether RBAC allows a request of WHO, by the Roles and bindings in PATH.

    WHO is group:NAME, user:NAME or serviceaccount:NAMESPACE/NAME. RESOURCE is written as for kubectl:
    trainjobs, jobs.batch, trainjobs/NAME, or a URL such as /metrics. Without VERB and RESOURCE, mpigen
    lists all permissions of WHO. Without WHO, mpigen lists the permissions of all subjects.

    PATH is a platform file, a YAML or JSON file, a folder of them, or - for standard input. mpigen
    contacts no cluster. It evaluates RBAC only: admission policies can reject a request that RBAC allows.
    """
    from generator.cli.inputs import read_manifests
    from generator.report import access as report
    from generator.simulate.access import read_access

    *question, path = words
    requester, request = _question(question, groups, namespace, subresource)
    with progress("reading"):
        granted = read_access(read_manifests([Path(path)]))
    if requester is None or request is None:
        show(form, report.facts(granted, requester), report.text(granted, requester, table_width()))
        return ExitCode.OK
    facts, lines = report.verdict(granted, requester, request)
    facts["notes"] = [*_misspelt(words[1], words[2])] if not facts["allowed"] else []
    lines += [f"note: {note}" for note in facts["notes"]]
    show(form, facts, lines)
    return ExitCode.OK if facts["allowed"] else ExitCode.FINDINGS


def _question(
    words: list[str], groups: Iterable[str], namespace: str, subresource: str
) -> tuple[Requester | None, AccessRequest | None]:
    from generator.simulate.access import parse_requester

    if len(words) not in (0, 1, 3):
        raise click.UsageError(f"the arguments are {_WORDS}: write VERB and RESOURCE together, and PATH last")
    try:
        requester = parse_requester(words[0], groups) if words else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="WHO") from None
    return requester, _request(words[1], words[2], namespace, subresource) if len(words) > 1 else None


def _misspelt(verb: str, target: str) -> Iterator[str]:
    """Yield warnings of `kubectl auth can-i`: the verb or resource is unknown, so a typing mistake may cause the "no".

    Source: k8s.io/kubectl v0.34.2 pkg/cmd/auth/cani.go, `validate` and `resourceFor`.
    """
    from generator.errors import suggest
    from generator.schemas.catalog import Catalog
    from generator.simulate.access import find_resource

    verbs = _URL_VERBS if target.startswith("/") else _VERBS
    if verb.lower() not in (*verbs, "*"):
        yield shorten(f"Kubernetes has no verb `{verb}`; {suggest(verb, verbs)}", _LONGEST)
    kind = target.partition("/")[0]
    if kind not in ("", "*") and find_resource(Catalog.bundled(), kind).is_namespaced is None:
        known = {entry.plural for entry in Catalog.bundled().entries.values()}
        name = kind.lower().partition(".")[0]
        suggestion = suggest(name, known)
        near = f"; {suggestion}" if suggestion.endswith("?") else ""
        yield shorten(f"mpigen has no schema for the resource `{kind}`, so the name may be misspelt{near}", _LONGEST)


def _request(verb: str, target: str, namespace: str, subresource: str) -> AccessRequest:
    from generator.schemas.catalog import Catalog
    from generator.simulate.access import AccessRequest, find_resource

    if target.startswith("/"):
        return AccessRequest(verb.lower(), url=target)
    kind, _, name = target.partition("/")
    resource = find_resource(Catalog.bundled(), kind)
    if resource.is_namespaced is False and verb.lower() in _REQUESTS:
        # A request for a cluster-scoped object has no namespace, and a request for a Namespace has that namespace:
        # apiserver v0.34.2 pkg/endpoints/request/requestinfo.go `NewRequestInfo`. The verb `bind` is evaluated in the
        # namespace of the binding: kubernetes v1.34.2 pkg/registry/rbac/escalation_check.go `BindingAuthorized`.
        namespace = name if resource.plural == "namespaces" else ""
    return AccessRequest(verb.lower(), resource.group, resource.plural, subresource, name, namespace)
