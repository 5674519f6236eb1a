"""Install policies on the real API server, and run cases against them with dry runs.

A user that all policies exempt creates the initial objects of a case: each policy gets a match condition for that.
Warnings replace audit annotations, because an answer arrives sooner than a line of a log. All requests are dry runs,
so a case stores no objects.
"""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from generator.manifests import Body, Manifest
from generator.upstream.kubernetes.admission_policies.cases import Case
from generator.upstream.kubernetes.admission_policies.policy import KINDS
from tests.cluster.client import Client, RefusedError, wait_until

_SETUP = "tests:setup"
_MASTERS = ("system:masters", _SETUP)
_POLICY = r"ValidatingAdmissionPolicy '(?P<policy>[^']*)'"
_DENIED = re.compile(rf"{_POLICY}(?: with binding '[^']*')? denied request: (?P<said>.*)", re.DOTALL)
_WARNED = re.compile(rf"Validation failed for {_POLICY} with binding '[^']*': (?P<said>.*)")
_MERGE = "application/merge-patch+json"
_API = "admissionregistration.k8s.io/v1"
_CANARY = "tests-canary"
_RBAC = "rbac.authorization.k8s.io"
_VERBS = {"CREATE": "create", "UPDATE": "patch", "DELETE": "delete", "CONNECT": "create"}


@dataclass(frozen=True, slots=True)
class Said:
    """The API server's answer to a case.

    Attributes:
        denied: the policy that refuses it, what it says, and the reason; None if none does.
        warned: the policies that warn, or would audit, and what they say.
        other: what else refuses it; empty for nothing.
    """

    denied: tuple[str, str, str] | None
    warned: frozenset[tuple[str, str]]
    other: str = ""


@contextmanager
def installed(admin: Client, manifests: Iterable[Manifest]) -> Iterator[None]:
    """Put policies, and what they read, on the cluster."""
    found = list(manifests)
    bodies = [*_ordinary(found), *_policies(found)]
    setup = admin.as_person("setup", _MASTERS)
    for body in bodies:
        setup.apply(body, "tests")
    with_canary(admin)
    try:
        yield
    finally:
        for body in reversed([*bodies, *_canary()]):
            admin.delete(body)


def _ordinary(manifests: list[Manifest]) -> list[Body]:
    found = [each.body for each in manifests if each.kind not in KINDS]
    return sorted(found, key=lambda body: body["kind"] != "Namespace")


def _policies(manifests: list[Manifest]) -> list[Body]:
    policies = [_letting_setup(each.body) for each in manifests if each.kind == KINDS[0]]
    return [*policies, *(_telling(each.body) for each in manifests if each.kind == KINDS[1])]


def _letting_setup(policy: Body) -> Body:
    condition = {"name": "tests.mpigen.dev-setup", "expression": f"!({_SETUP!r} in request.userInfo.groups)"}
    spec = policy["spec"]
    return {**policy, "spec": {**spec, "matchConditions": [condition, *spec.get("matchConditions", [])]}}


def _telling(binding: Body) -> Body:
    actions = binding["spec"]["validationActions"]
    if not {"Deny", "Warn"} & set(actions):
        actions = [*actions, "Warn"]
    return {**binding, "spec": {**binding["spec"], "validationActions": actions}}


def rights(client: Client, cases: Iterable[Case]) -> list[Manifest]:
    """Return the RBAC objects that the cases need for their requests, without any rights that policies check.

    Without these rights, RBAC would reject the requests before the policies. Updates are sent as patches, which do not
    need the right to `update`.
    """
    found: dict[str, dict[tuple[str, ...], Body]] = {}
    for case in cases:
        for rule in _rights(client, case):
            found.setdefault(case.user_info.user, {})[tuple(map(str, rule.values()))] = rule
    named = ((f"tests-of-policies-{number}", user) for number, user in enumerate(sorted(found)))
    return [made for name, user in named for made in _granted(name, user, [*found[user].values()])]


def _rights(client: Client, case: Case) -> Iterator[Body]:
    """Yield the RBAC rules for a case. The API server lets only users who may bind a role write its RoleBindings."""
    group = case.body["apiVersion"].rpartition("/")[0]
    resource = client.resource(case.body["apiVersion"], case.body["kind"])["name"]
    kind = f"{resource}/{case.subresource}" if case.subresource else resource
    yield {"apiGroups": [group], "resources": [kind], "verbs": [_VERBS[case.operation]]}
    if kind == "rolebindings":
        yield {"apiGroups": [_RBAC], "resources": ["clusterroles"], "verbs": ["bind"]}


def _granted(name: str, user: str, rules: list[Body]) -> Iterator[Manifest]:
    subject = {"apiGroup": _RBAC, "kind": "User", "name": user}
    reference = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name}
    of_rbac = {"apiVersion": f"{_RBAC}/v1", "metadata": {"name": name}}
    yield Manifest({**of_rbac, "kind": "ClusterRole", "rules": rules}, "")
    yield Manifest({**of_rbac, "kind": "ClusterRoleBinding", "subjects": [subject], "roleRef": reference}, "")


def _canary() -> list[Body]:
    """A policy that refuses one ConfigMap: once it does, all that were written before are in force."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    constraints = {"resourceRules": [{**rule, "resourceNames": [_CANARY]}]}
    policy = {"matchConstraints": constraints, "validations": [{"expression": "false", "message": "it sings"}]}
    binding = {"policyName": _CANARY, "validationActions": ["Deny"]}
    return [
        {"apiVersion": _API, "kind": KINDS[0], "metadata": {"name": _CANARY}, "spec": policy},
        {"apiVersion": _API, "kind": KINDS[1], "metadata": {"name": _CANARY}, "spec": binding},
    ]


def with_canary(admin: Client) -> None:
    """Return once the policies are in force."""
    for body in _canary():
        admin.apply(body, "tests")
    wait_until("the policies are in force", lambda: _sings(admin))


def _sings(admin: Client) -> bool:
    song = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _CANARY, "namespace": "default"}}
    try:
        admin.create(song, dry_run=True)
    except RefusedError as refused:
        return "it sings" in refused.message
    return False


def without_canary(admin: Client) -> None:
    """Delete the canary policy, and return once it and all policies that were deleted before are no longer in force."""
    for body in reversed(_canary()):
        admin.delete(body)
    wait_until("the policies are no longer in force", lambda: not _sings(admin))


def put(admin: Client, case: Case) -> Said:
    """Return the answer of the API server to a case."""
    setup = admin.as_person("setup", _MASTERS)
    before = [_placed(body, case, setup) for body in _before(case)]
    for body in before:
        store(setup, body)
    person = case.user_info
    client = admin.as_person(person.user, person.groups, person.uid, person.extra)
    try:
        return _asked(client, case, admin)
    finally:
        for body in before:
            remove(setup, body)
            wait_until(f"{case.name}: nothing is left", lambda body=body: not setup.exists(body))  # type: ignore[misc]


def store(setup: Client, body: Body) -> None:
    """Create an object in place of one with its name. If it has a deletionTimestamp, delete it; a finalizer stays."""
    remove(setup, body)
    wait_until("the name is free", lambda: not setup.exists(body))
    metadata = {key: value for key, value in body["metadata"].items() if key != "deletionTimestamp"}
    setup.create({**body, "metadata": metadata})
    if "deletionTimestamp" in body["metadata"]:
        setup.request("DELETE", setup.path_of(body))


def remove(setup: Client, body: Body) -> None:
    """Delete an object and its finalizers, if it exists."""
    path = setup.path_of(body)
    with suppress_not_found():
        if body["metadata"].get("finalizers"):
            setup.request("PATCH", path, {"metadata": {"finalizers": None}}, _MERGE)
        setup.request("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})


@contextmanager
def suppress_not_found() -> Iterator[None]:
    """Ignore the answer that an object does not exist: it may end between two requests."""
    try:
        yield
    except RefusedError as refused:
        if refused.status != http.client.NOT_FOUND:
            raise


def _before(case: Case) -> list[Body]:
    """Return the objects that must exist before the case; a Scale needs its scaled object."""
    return [body for body in (case.of or case.old,) if body is not None]


def _placed(body: Body, case: Case, client: Client) -> Body:
    """In the namespace of the case, if its kind is in one."""
    metadata = body["metadata"]
    is_placed = metadata.get("namespace") or not case.namespace
    is_placed = is_placed or not client.resource(body["apiVersion"], body["kind"])["namespaced"]
    return body if is_placed else {**body, "metadata": {**metadata, "namespace": case.namespace}}


def _asked(client: Client, case: Case, admin: Client) -> Said:
    try:
        answer = _request(client, case, admin)
    except RefusedError as refused:
        warned = _warned(refused.warnings)
        if match := _DENIED.search(refused.message):
            return Said((match["policy"], match["said"], refused.reason), warned)
        return Said(None, warned, "" if _comes_after(refused, admin, case) else refused.message)
    return Said(None, _warned(answer.warnings))


def _comes_after(refused: RefusedError, admin: Client, case: Case) -> bool:
    """Return True if the policies accept it and a later admission step or a connection rejects it.

    kubernetes v1.34.2 pkg/kubeapiserver/options/plugins.go AllOrderedPlugins
    """
    if case.operation == "CONNECT":
        return True
    found = admin.items(_API, "ValidatingWebhookConfiguration")
    names = {webhook["name"] for body in found for webhook in body["webhooks"]}
    return any(f'admission webhook "{name}" denied the request' in refused.message for name in names)


def _request(client: Client, case: Case, admin: Client) -> Any:
    if case.operation == "CREATE" and not case.subresource:
        return client.create(_placed(case.object or {}, case, client), dry_run=True)
    target = _placed(case.body, case, client)
    path = client.path_of(target) + (f"/{case.subresource}" if case.subresource else "")
    dry = {"dryRun": "All"}
    if case.operation == "CREATE":
        return client.request("POST", f"{path}?{urlencode(dry)}", case.object)
    if case.operation == "CONNECT":
        options = {key: value for key, value in (case.object or {}).items() if key not in ("apiVersion", "kind")}
        return client.request("POST", f"{path}?{urlencode(_words(options), doseq=True)}")
    if case.operation == "DELETE":
        options = {"apiVersion": "v1", "kind": "DeleteOptions", **case.options}
        return client.request("DELETE", path, {**options, "dryRun": ["All"]})
    change = _with_patches_of_kueue(difference(case.old or {}, case.object or {}), target, admin)
    return client.request("PATCH", f"{path}?{urlencode(dry)}", change, _MERGE)


def _with_patches_of_kueue(change: Body, target: Body, admin: Client) -> Body:
    """Return a merge patch that keeps the runtime patch which Kueue's webhook added to the stored TrainJob.

    A merge patch replaces the whole list.
    """
    patches = (change.get("spec") or {}).get("runtimePatches")
    if target["kind"] != "TrainJob" or patches is None:
        return change
    stored = admin.read(target)["spec"].get("runtimePatches", [])
    kept = [each for each in stored if each["manager"].startswith("kueue.x-k8s.io/")]
    return {**change, "spec": {**change["spec"], "runtimePatches": [*patches, *kept]}}


def _words(options: Body) -> Body:
    return {key: str(value).lower() if isinstance(value, bool) else value for key, value in options.items()}


def difference(old: Any, new: Any) -> Any:
    """The merge patch that makes one of the other."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    gone = dict.fromkeys(old.keys() - new.keys())
    return gone | {key: difference(old.get(key), value) for key, value in new.items() if old.get(key) != value}


def _warned(warnings: Iterable[str]) -> frozenset[tuple[str, str]]:
    found = (_WARNED.search(re.sub(r"\\(.)", r"\1", each.removesuffix('"'))) for each in warnings)
    return frozenset((match["policy"], match["said"]) for match in found if match)


def type_warnings(admin: Client, policy: str) -> list[str]:
    """Return the type warnings of the API server for a policy."""
    body = {"apiVersion": _API, "kind": KINDS[0], "metadata": {"name": policy}}
    wait_until(f"{policy} is checked", lambda: "observedGeneration" in admin.read(body).get("status", {}))
    found = admin.read(body)["status"].get("typeChecking", {}).get("expressionWarnings", [])
    return [f"{each['fieldRef']}: {each['warning']}" for each in found]
