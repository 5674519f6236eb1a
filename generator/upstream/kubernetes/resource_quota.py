"""ResourceQuotas of a namespace: their usage, and the objects that the API server rejects because of them.

Usage starts with the objects in files, so a cluster can have more usage, but not less. The messages equal the messages
of the API server.

Source: kubernetes v1.34.2 pkg/quota/v1/evaluator/core/pods.go podEvaluator; kubernetes v1.34.2
pkg/quota/v1/evaluator/core/services.go serviceEvaluator; apiserver v0.34.2
pkg/admission/plugin/resourcequota/controller.go CheckRequest; apiserver v0.34.2 pkg/quota/v1/generic/evaluator.go;
component-helpers v0.34.2 resource/helpers.go PodRequests; component-helpers v0.34.2 resource/helpers.go PodLimits. The
plugins of LimitRanges and
PriorityClasses run before (kubernetes v1.34.2 plugin/pkg/admission/limitranger/admission.go LimitRanger; kubernetes
v1.34.2 plugin/pkg/admission/priority/admission.go Plugin).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from generator.errors import NotModelledError, Problem
from generator.facts.api_versions import is_reached
from generator.manifests import Body, Manifest
from generator.objects.fields import integer, mapping, mappings, string, strings
from generator.objects.queue import Requests, add_requests, format_amount, parse_amount, parse_amounts
from generator.upstream.kubernetes.pod_requests import Defaults, read_defaults, sum_containers

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
REQUIRED = {f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in _COMPUTE[:2]}
"""Keys for which each container must set an amount (`validationSet`)."""
_OF_DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
"""The prefix of the resources of DeviceClasses, counted since Kubernetes 1.35 (kubernetes v1.35.4
pkg/quota/v1/evaluator/core/pods.go podComputeUsageHelper)."""
_RESOURCES: Mapping[tuple[str, str], str] = {
    ("", "ConfigMap"): "configmaps",
    ("", "Pod"): "pods",
    ("", "Secret"): "secrets",
    ("", "Service"): "services",
    ("batch", "Job"): "jobs.batch",
    ("jobset.x-k8s.io", "JobSet"): "jobsets.jobset.x-k8s.io",
    ("kueue.x-k8s.io", "Workload"): "workloads.kueue.x-k8s.io",
    ("trainer.kubeflow.org", "TrainJob"): "trainjobs.trainer.kubeflow.org",
}
"""(group, kind) of a TrainJob and of the objects that controllers create for it → the name in keys such as
`count/jobs.batch`."""
_ROOT_CERTIFICATES = "kube-root-ca.crt"
"""The ConfigMap that Kubernetes creates in each namespace (pkg/controller/certificates/rootcacertpublisher)."""


class Refusal(NamedTuple):
    """A rejection by a ResourceQuota.

    Attributes:
        message: the message of the API server.
        is_unspecified: True if a container lacks an amount that the quota requires; False if the usage is too large.
    """

    message: str
    is_unspecified: bool = False


@dataclass(frozen=True, slots=True)
class _Quota:
    name: str
    hard: Requests
    scopes: tuple[Body, ...]


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ResourceQuotas of a namespace, and their usage.

    Attributes:
        quotas: the quotas, sorted by name.
        defaults: the LimitRanges of the namespace, and the RuntimeClasses.
        default_class: the PriorityClass of pods that set none; empty without a default.
        counts_classes: True if the resource of a DeviceClass, such as `deviceclass.resource.kubernetes.io/gpu`, counts.
        used: name of the quota → key, such as `limits.cpu` → used amount.
    """

    quotas: Sequence[_Quota]
    defaults: Defaults
    default_class: str = ""
    counts_classes: bool = False
    used: Mapping[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))

    def charge(self, body: Body) -> Refusal | None:
        """Add a new object to the usage, and return None; or return why the API server rejects the object.

        Kinds that `_RESOURCES` lacks are neither counted nor rejected.

        Raises:
            SimulationError: an amount is not a quantity, or the pod has resources that mpigen does not simulate.
        """
        group = string(body.get("apiVersion")).rpartition("/")[0]
        resource = _RESOURCES.get((group, string(body.get("kind"))), "")
        if not (resource and self.quotas):
            return None
        pod = _read_pod(body, self) if resource == "pods" else None
        usage = pod.usage if pod else {resource: 1, f"count/{resource}": 1}
        matching = [quota for quota in self.quotas if (pod.matches(quota) if pod else not quota.scopes)]
        for quota in matching:
            if pod and (missing := pod.find_missing(quota)):
                return Refusal(f"failed quota: {quota.name}: must specify {missing}", is_unspecified=True)
        for quota in matching:
            used, hard = self.used[quota.name], quota.hard
            counted = {key: usage[key] for key in sorted(hard.keys() & usage.keys()) if usage[key]}
            exceeded = [key for key, amount in counted.items() if used.get(key, 0) + amount > hard[key]]
            if exceeded:
                amounts = ((name, _list(exceeded, of)) for name, of in _words(counted, used, hard))
                return Refusal(f"exceeded quota: {quota.name}, {', '.join(f'{name}: {of}' for name, of in amounts)}")
        for quota in matching:
            add_requests(self.used[quota.name], {key: usage[key] for key in quota.hard.keys() & usage.keys()})
        return None


def read_ledger(manifests: Iterable[Manifest], namespace: str, minor: str) -> Ledger:
    """Return the ResourceQuotas of a namespace, with the objects in files as their usage.

    Args:
        manifests: the objects of the cluster.
        namespace: the namespace.
        minor: the version of Kubernetes, such as 1.37.

    Raises:
        SimulationError: an amount is not a quantity, or a pod has resources that mpigen does not simulate.
    """
    everything = [item for item in manifests if item.namespace in ("", namespace)]
    near = [item for item in everything if item.namespace]
    quotas = [
        _Quota(
            item.name,
            {key: parse_amount(_resource(key), value, item.resource) for key, value in _hard(item).items()},
            (
                *(
                    {"scopeName": scope, "operator": "Exists"}
                    for scope in strings(mapping(item.body, "spec").get("scopes"))
                ),
                *mappings(mapping(item.body, "spec", "scopeSelector").get("matchExpressions")),
            ),
        )
        for item in sorted(near, key=lambda item: item.name)
        if (item.group, item.kind) == ("", "ResourceQuota")
    ]
    if not quotas:
        return Ledger((), Defaults())
    classes = [item for item in everything if item.kind == "PriorityClass" and item.body.get("globalDefault") is True]
    default = min(classes, key=lambda item: integer(item.body.get("value"), 0)).name if classes else ""
    ledger = Ledger(quotas, read_defaults(everything, namespace), default, is_reached(minor, "1.35"))
    bodies = {item.identity: item.body for item in near}
    certificates = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _ROOT_CERTIFICATES}}
    for body in ({("", "ConfigMap", namespace, _ROOT_CERTIFICATES): certificates} | bodies).values():
        ledger.charge(body)
    return ledger


def _hard(quota: Manifest) -> Mapping[str, object]:
    return {str(key): value for key, value in mapping(quota.body, "spec", "hard").items()}


def _resource(key: str) -> str:
    """Return the resource of a quota key: `requests.cpu` → `cpu`."""
    return key.removeprefix("requests.").removeprefix("limits.")


def _words(counted: Requests, used: Requests, hard: Requests) -> tuple[tuple[str, Requests], ...]:
    return ("requested", counted), ("used", used), ("limited", hard)


def _list(keys: Iterable[str], amounts: Requests) -> str:
    return ",".join(f"{key}={format_amount(_resource(key), amounts.get(key, 0))}" for key in keys)


@dataclass(frozen=True, slots=True)
class _Pod:
    """A pod as quotas read it: after LimitRanges and the default PriorityClass.

    Attributes:
        spec: its `spec`.
        containers: (name, requests, limits) of its containers.
        usage: key → the amount that counts.
        priority_class: the PriorityClass; empty without one.
    """

    spec: Body
    containers: tuple[tuple[str, Requests, Requests], ...]
    usage: Requests
    priority_class: str

    def matches(self, quota: _Quota) -> bool:
        """Return True if all scopes of a quota match the pod."""
        return all(map(self._matches_scope, quota.scopes))

    def _matches_scope(self, scope: Body) -> bool:
        name = string(scope.get("scopeName"))
        if name.removeprefix("Not") == "Terminating":
            deadline = self.spec.get("activeDeadlineSeconds")
            return (deadline is not None) == (name == "Terminating")
        if name.removeprefix("Not") == "BestEffort":
            amounts = [(key, some[key]) for _, *both in self.containers for some in both for key in some]
            is_best_effort = not any(amount for key, amount in amounts if key in ("cpu", "memory"))
            return is_best_effort == (name == "BestEffort")
        if name == "PriorityClass":
            return self._matches_class(string(scope.get("operator")), strings(scope.get("values")))
        return name == "CrossNamespacePodAffinity" and any(map(_is_across_namespaces, _affinity_terms(self.spec)))

    def _matches_class(self, operator: str, values: Sequence[str]) -> bool:
        if operator in ("Exists", "DoesNotExist"):
            return bool(self.priority_class) == (operator == "Exists")
        is_listed = bool(self.priority_class) and self.priority_class in values
        return is_listed == (operator == "In")

    def find_missing(self, quota: _Quota) -> str:
        """Return the amounts that containers must set for a quota, such as `limits.cpu for: node`; empty if none."""
        missing: dict[str, set[str]] = {}
        for name, *amounts in self.containers:
            for key in (REQUIRED & quota.hard.keys()) - _keys(*amounts).keys():
                missing.setdefault(key, set()).add(name)
        return "; ".join(f"{key} for: {','.join(sorted(names))}" for key, names in sorted(missing.items()))


def _affinity_terms(spec: Body) -> Iterator[Body]:
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = mapping(spec, "affinity", kind)
        yield from mappings(terms.get("requiredDuringSchedulingIgnoredDuringExecution"))
        for item in mappings(terms.get("preferredDuringSchedulingIgnoredDuringExecution")):
            yield mapping(item, "podAffinityTerm")


def _is_across_namespaces(term: Body) -> bool:
    return bool(term.get("namespaces")) or term.get("namespaceSelector") is not None


def _read_pod(body: Body, ledger: Ledger) -> _Pod:
    spec, defaults = mapping(body, "spec"), ledger.defaults
    place = f"Pod {mapping(body, 'metadata').get('generateName') or mapping(body, 'metadata').get('name')}"
    if spec.get("resources"):
        message = "mpigen does not simulate ResourceQuotas for pods that set `spec.resources`"
        raise NotModelledError((Problem(message, "set `resources` of the containers instead"),))

    def amounts(container: Body) -> tuple[Requests, Requests]:
        """Return (requests, limits) of a container. A request defaults to the limit, then to the LimitRange."""
        resources = mapping(container, "resources")
        requests, limits = (parse_amounts(resources.get(key), place) for key in ("requests", "limits"))
        return {**defaults.requests, **limits, **requests}, {**defaults.limits, **limits}

    requests = sum_containers(spec, lambda container: amounts(container)[0])
    limits = sum_containers(spec, lambda container: amounts(container)[1])
    overhead = defaults.overheads.get(string(spec.get("runtimeClassName"))) or parse_amounts(
        spec.get("overhead"), place
    )
    add_requests(requests, overhead)
    add_requests(limits, {name: amount for name, amount in overhead.items() if limits.get(name)})
    containers = [container for key in ("containers", "initContainers") for container in mappings(spec.get(key))]
    return _Pod(
        spec,
        tuple((string(container.get("name")), *amounts(container)) for container in containers),
        {"pods": 1, "count/pods": 1, **_keys(requests, limits, with_classes=ledger.counts_classes)},
        string(spec.get("priorityClassName"), ledger.default_class),
    )


def _keys(requests: Requests, limits: Requests, *, with_classes: bool = False) -> dict[str, int]:
    """Return quota key, such as `limits.cpu` → amount of a pod with these requests (`podComputeUsageHelper`)."""
    keys = {f"limits.{name}": limits[name] for name in _COMPUTE if name in limits}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            keys |= {name: amount, f"requests.{name}": amount}
        elif ("/" in name and "kubernetes.io/" not in name) or (with_classes and name.startswith(_OF_DEVICE_CLASS)):
            keys[f"requests.{name}"] = amount
    return keys
