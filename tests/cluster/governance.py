"""Deploy the governed platform with Argo CD's own account, and query the authorizer for each persona."""

from __future__ import annotations

from functools import partial

from generator import Platform, pipeline
from generator.upstream.kubernetes.access import AccessRequest, Requester
from tests.access.rights import PERSONAS, PLATFORM
from tests.cluster import trees
from tests.cluster.argocd_order import in_order
from tests.cluster.argocd_scope import by_applier
from tests.cluster.client import Client, wait_until
from tests.cluster.trees import Deployed

_GRANT = "cluster/access/gitops.yaml"
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def platform() -> Platform:
    """Return the governed platform."""
    return pipeline.load(PLATFORM)[0]


def deploy(admin: Client) -> Deployed:
    """Let an admin apply the role of Argo CD's account, and Argo CD's account all of the release.

    An example before it gave the same rights to the same account. The authorizer of the API server learns of their
    deletion late, and would answer from them before it refuses the first objects.
    """
    governed, app = pipeline.load(PLATFORM)
    tree = pipeline.render(governed, app)
    argocd = PERSONAS["argocd"]
    last = AccessRequest("bind", "rbac.authorization.k8s.io", "clusterroles", name="mpigen-gitops")
    wait_until("the rights of an earlier Argo CD are gone", lambda: not may(admin, argocd, last))
    for found in tree:
        if found.file == _GRANT:
            admin.apply(found.body)
    wait_until("Argo CD's rights are known", partial(may, admin, argocd, last))
    deployed = trees.deploy(admin, governed, in_order(by_applier(tree)[1]), admin.as_user(argocd.user))
    assert [outcome.refusal for outcome in deployed.outcomes if outcome.refusal] == []
    return deployed


def may(admin: Client, who: Requester, asked: AccessRequest) -> bool:
    """Return the answer of the API server's authorizers."""
    if asked.url:
        attributes = {"nonResourceAttributes": {"path": asked.url, "verb": asked.verb}}
    else:
        named = ("verb", "group", "resource", "subresource", "name", "namespace")
        attributes = {"resourceAttributes": {field: getattr(asked, field) for field in named}}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    spec = {"user": who.user, "groups": sorted(who.groups), **attributes}
    return bool(admin.request("POST", _REVIEWS, {**review, "spec": spec}).body["status"]["allowed"])
