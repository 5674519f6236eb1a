"""Decide attacks without a cluster, by the RBAC objects and the admission policies of the release.

Neither validation by the API server, nor webhooks, nor controllers decide here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from generator.facts.names import PRIORITY_CLASS
from generator.manifests import Body, Manifest
from generator.schemas.catalog import Catalog
from generator.upstream.kubernetes.access import Access, AccessRequest, Requester, read_access, with_default_grants
from generator.upstream.kubernetes.admission_policies.cases import Case, Expected, request_of
from generator.upstream.kubernetes.admission_policies.judge import judge
from generator.upstream.kubernetes.admission_policies.policy import PolicyCluster
from generator.upstream.kubernetes.admission_policies.request import UserInfo
from tests.attacks.corpus import CONTENT, Attack, Step, fill, train_job
from tests.attacks.kinds import Target, kinds, target, with_kind
from tests.attacks.platforms import OF_CLUSTER, PERSONAS, Scene, scene

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_OPERATIONS = {"POST": "CREATE", "PUT": "UPDATE", "PATCH": "UPDATE", "DELETE": "DELETE"}
_RBAC = "rbac.authorization.k8s.io"
_CONNECTIONS = {"attach": "PodAttachOptions", "exec": "PodExecOptions", "portforward": "PodPortForwardOptions"}
"""Subresource of a pod that opens a connection → the kind of its options."""
NAMES = {
    "job": "attack",
    "pod": "victim-node-0-0-abcde",
    "workload": "trainjob-victim-abcde",
    "uid": "00000000-0000-0000-0000-000000000002",
    "victim-uid": "00000000-0000-0000-0000-000000000003",
    "victim-version": "1",
    "megabyte": "x" * 1_000,
}
"""Values of the placeholders that a cluster chooses."""


def is_decided_offline(attack: Attack, platform: str, rules: frozenset[str]) -> bool:
    """Return True if RBAC and the rules alone decide the attack: it passes both, or one of them stops it."""
    ways = attack.stopped.get(platform, ())
    if not attack.is_offline:
        return False
    return bool(attack.remains or attack.kind == "work") or (bool(ways) and {*ways} <= rules | {"rbac"})


def rules_of(found: Scene) -> frozenset[str]:
    """Return the names of the rules in the admission pack of a platform."""
    prefix = f"{found.names['platform']}-"
    policies = (each.name for each in found.tree if each.kind == "ValidatingAdmissionPolicy")
    return frozenset(name.removeprefix(prefix) for name in policies)


@cache
def _catalog() -> Catalog:
    return Catalog.bundled()


def stopped_by(platform: str, attack: Attack) -> frozenset[str]:
    """Return `rbac` or the rules that stop an attack; empty if RBAC and all rules accept it."""
    found = scene(platform)
    names = {**found.names, **NAMES}
    objects = {each.identity: each for each in (*found.tree, *_running(names))}
    objects |= {each.identity: each for each in (Manifest(fill(body, names), "") for body in attack.given)}
    access = read_access(found.tree)
    for step in (each.filled(names) for each in attack.steps if each.method):
        requester = requester_of(step.by, names)
        if step.by not in OF_CLUSTER and not _is_allowed(access, requester, step):
            return frozenset({"rbac"})
        if stopped := _rules(step, requester, objects, str(names["platform"])):
            return stopped
    return frozenset()


def _running(names: Mapping[str, Any]) -> Iterator[Manifest]:
    """Yield the victim, its ssh key, ConfigMaps, one of its pods, its Workload, and the CA of the API server."""
    yield Manifest(
        fill(train_job({"name": "victim", "metadata": {"labels": {PRIORITY_CLASS: "interactive"}}}, "editor"), names),
        "",
    )
    pods = {"spec": {"containers": [{"name": "node", "image": "docker.io/mpioperator/openmpi:1"}]}}
    for name in ("victim-mpi-hostfile", "victim-runtime-snapshot", "kube-root-ca.crt"):
        place = {"name": name, "namespace": names["team"]}
        yield Manifest({"apiVersion": "v1", "kind": "ConfigMap", "metadata": place, "data": {}}, "")
    for api_version, kind, name, spec in (
        ("v1", "Pod", names["pod"], pods["spec"]),
        (
            "kueue.x-k8s.io/v1beta2",
            "Workload",
            names["workload"],
            {"active": True, "podSets": [{"name": "node", "template": pods}]},
        ),
    ):
        place = {"name": name, "namespace": names["team"]}
        yield Manifest({"apiVersion": api_version, "kind": kind, "metadata": place, "spec": spec}, "")
    metadata = {"name": "victim-mpi-ssh-auth", "namespace": names["team"]}
    yield Manifest({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/ssh-auth"}, "")


def requester_of(persona: str, names: Mapping[str, Any]) -> Requester:
    """Return the user and the groups of a persona."""
    user = str(fill(PERSONAS[persona], names))
    if user == "system:anonymous":
        return Requester(user, frozenset({"system:unauthenticated"}))
    return Requester(user, frozenset(UserInfo(user).all_groups))


def _is_allowed(access: Access, requester: Requester, step: Step) -> bool:
    to = target(step.path)
    if user := step.headers.get("Impersonate-User"):
        asked = [AccessRequest("impersonate", resource="users", name=user)]
    elif to.url:
        asked = [AccessRequest("get", url=to.url)]
    else:
        asked = [_asked(to, _verb(step, to)), *_binding(to, step)]
    return all(with_default_grants(access).allowed(requester, each) for each in asked)


def _asked(to: Target, verb: str) -> AccessRequest:
    name = to.name.partition(":")[0]
    return AccessRequest(verb, to.group, to.resource, to.subresource, name, to.namespace)


def _verb(step: Step, to: Target) -> str:
    if step.method == "GET":
        return "get" if to.name else "watch" if "watch" in to.query else "list"
    if step.method == "DELETE":
        return "delete" if to.name else "deletecollection"
    return _VERBS[step.method]


def _binding(to: Target, step: Step) -> Iterator[AccessRequest]:
    """Yield the request for `bind` that a new binding needs, if the user does not have the rights of the role."""
    if to.group == _RBAC and to.resource.endswith("bindings") and step.method == "POST":
        role = step.body["roleRef"]["name"]
        yield AccessRequest("bind", _RBAC, "clusterroles", name=role, namespace=to.namespace)


def _rules(step: Step, requester: Requester, objects: dict[Any, Manifest], platform: str) -> frozenset[str]:
    """Return the rules that deny a request, and store the object of the request if there are none."""
    to = target(step.path)
    kind = kinds().get((to.group, to.version, to.resource))
    if kind is not None and to.subresource in _CONNECTIONS:
        pod = objects["", "Pod", to.namespace, to.name].body
        options = {"apiVersion": "v1", "kind": _CONNECTIONS[to.subresource]}
        case = Case(
            step.path, "", 1, "CONNECT", options, None, UserInfo(requester.user), Expected(), to.namespace,
            to.subresource, pod,
        )  # fmt: skip
        return _denied(case, objects, platform)
    if (
        kind is None
        or step.method == "GET"
        or to.subresource in ("eviction", "binding", "token")
        or (not to.name and step.method == "DELETE")
    ):
        return frozenset()
    body = with_kind(step)
    if isinstance(body, dict) and step.method == "POST" and "metadata" not in body:  # a review
        return frozenset()
    identity = (to.group, kind.kind, to.namespace if kind.is_namespaced else "", to.name)
    stored = objects.get(identity)
    old = stored.body if stored else None
    is_created = step.method == "POST" or (old is None and step.content == CONTENT["apply"])
    if old is None and not is_created:
        return frozenset()
    new = body if is_created or step.method == "PUT" else None if step.method == "DELETE" else patched(old, step)
    case = Case(
        name=step.path,
        file="",
        line=1,
        operation="CREATE" if is_created else _OPERATIONS[step.method],
        object=new,
        old=None if is_created else old,
        user_info=UserInfo(requester.user),
        expected=Expected(),
        namespace=to.namespace,
        subresource=to.subresource,
        of=old if to.subresource else None,
        is_dry_run="dryRun" in to.query,
        options=_options(step, to),
    )
    denied = _denied(case, objects, platform)
    if not denied and new is not None and to.subresource == "" and not case.is_dry_run:
        manifest = Manifest(_with_name(new, kind.is_namespaced, to.namespace), "")
        objects[manifest.identity] = manifest
    if not denied and step.method == "DELETE" and old is not None:
        _delete(objects, identity, old)
    return denied


def _denied(case: Case, objects: Mapping[Any, Manifest], platform: str) -> frozenset[str]:
    """Return the rules that deny the request of a case."""
    world = PolicyCluster(objects.values(), _catalog())
    decisions = judge(request_of(case, world), world)
    return frozenset(item.policy.removeprefix(f"{platform}-") for item in decisions if not item.holds)


def _options(step: Step, to: Target) -> Body:
    """Return the DeleteOptions of a request; query parameters replace fields of the body."""
    if step.method != "DELETE":
        return {}
    body = {key: value for key, value in (step.body or {}).items() if key not in ("apiVersion", "kind")}
    policies = to.query.get("propagationPolicy", [])
    return {**body, **({"propagationPolicy": policies[0]} if policies else {})}


def _with_name(body: Body, is_namespaced: bool, namespace: str) -> Body:
    metadata = {"name": "generated", **body["metadata"]}
    return {**body, "metadata": {**metadata, "namespace": namespace} if is_namespaced else metadata}


def _delete(objects: dict[Any, Manifest], identity: Any, old: Body) -> None:
    """Remove an object, or mark it as being deleted if it has finalizers."""
    if old["metadata"].get("finalizers"):
        metadata = {**old["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
        objects[identity] = Manifest({**old, "metadata": metadata}, "")
    else:
        del objects[identity]


def patched(old: Body | None, step: Step) -> Body:
    """Return an object after a patch. Strategic patches and server-side apply are merged."""
    assert old is not None
    if step.content != CONTENT["json-patch"]:
        return _merge(old, step.body)
    new: Any = deepcopy(old)
    for operation in step.body:
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        place = new
        for part in parents:
            place = place.setdefault(part, [] if last == "-" else {}) if isinstance(place, dict) else place[int(part)]
        if operation["op"] == "remove":
            place.pop(last)
        elif last == "-":
            place.append(operation["value"])
        else:
            place[last] = operation["value"]
    return dict(new)


def _merge(old: Body, change: Body) -> Body:
    """Return the result of a JSON merge patch."""
    new = {key: _merge(value, {}) if isinstance(value, dict) else value for key, value in old.items()}
    for key, value in change.items():
        if value is None:
            new.pop(key, None)
        elif isinstance(value, dict):
            before = new.get(key)
            new[key] = _merge(before if isinstance(before, dict) else {}, value)
        else:
            new[key] = value
    return new
