"""SecurityContextConstraints (SCC) with their defaults and order, and the UIDs, groups and level of a Namespace.

Source: openshift/apiserver-library-go a8019f39 pkg/securitycontextconstraints
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

from generator.facts.table import read_table
from generator.manifests import Body
from generator.objects.fields import integer, mapping, mappings, string, string_map, strings

GROUP = "security.openshift.io"
KIND = "SecurityContextConstraints"
RESOURCE = "securitycontextconstraints"
ALL = "*"
_TABLE = "security_constraints"
_USERS = {"MustRunAs", "MustRunAsNonRoot", "MustRunAsRange", "RunAsAny"}
_OTHERS = {"MustRunAs", "RunAsAny"}


class IdRange(NamedTuple):
    """A range of UIDs or groups from `first` to `last`, both included."""

    first: int
    last: int

    def contains(self, value: object) -> bool:
        """Return True if the value is an integer in the range. The schema reports values of other types."""
        return isinstance(value, int) and self.first <= value <= self.last


@dataclass(frozen=True)
class Constraint:
    """An object of the kind SecurityContextConstraints, with the defaults of the API server.

    Source: openshift/kubernetes
    openshift-kube-apiserver/admission/customresourcevalidation/securitycontextconstraints/defaults.go SetDefaults_SCC

    Attributes:
        name: the name of the object.
        body: its fields.
    """

    name: str
    body: Mapping[str, object]

    @property
    def is_valid(self) -> bool:
        """False if OpenShift rejects the object, because it has an unknown strategy.

        Source: openshift/kubernetes
        openshift-kube-apiserver/admission/customresourcevalidation/securitycontextconstraints/validation/validation.go
        ValidateSecurityContextConstraints
        """
        strategies = (self.strategy("seLinuxContext"), self.strategy("fsGroup"), self.strategy("supplementalGroups"))
        return self.strategy("runAsUser") in _USERS and {*strategies} <= _OTHERS

    @property
    def fault(self) -> str:
        """The error of an incomplete SCC, which rejects every pod that requires no other SCC; empty without an error.

        Source: openshift/apiserver-library-go a8019f39
        pkg/securitycontextconstraints/user/mustrunas.go; openshift/apiserver-library-go a8019f39
        pkg/securitycontextconstraints/user/mustrunasrange.go
        """
        options = mapping(self.body, "runAsUser")
        match self.strategy("runAsUser"):
            case "MustRunAs" if options.get("uid") is None:
                return "MustRunAs requires a UID"
            case "MustRunAsRange" if (options.get("uidRangeMin") is None) != (options.get("uidRangeMax") is None):
                absent = "UIDRangeMin" if options.get("uidRangeMin") is None else "UIDRangeMax"
                return f"MustRunAsRange requires a {absent}"
        return ""

    def allows(self, field: str) -> bool:
        """Return the value of a boolean field; `allowPrivilegeEscalation` is true if it is absent."""
        value = self.body.get(field)
        return value is True or (field == "allowPrivilegeEscalation" and value is None)

    def strategy(self, field: str) -> str:
        """Return the strategy, such as `MustRunAs`, of `runAsUser`, `seLinuxContext`, `fsGroup` or a similar field."""
        return string(mapping(self.body, field).get("type"), "RunAsAny" if field in _WITH_DEFAULT else "")

    def ranges(self, field: str) -> tuple[IdRange, ...]:
        """Return the ranges of `fsGroup` or `supplementalGroups`."""
        ranges = mappings(mapping(self.body, field).get("ranges"))
        return tuple(IdRange(integer(item.get("min"), 0), integer(item.get("max"), 0)) for item in ranges)

    @cached_property
    def volumes(self) -> frozenset[str]:
        """The types of volumes that the SCC allows. `allowHostDirVolumePlugin` decides about `hostPath`."""
        listed = self.body.get("volumes")
        volumes = {ALL} if listed is None else {*strings(listed)}
        if self.allows("allowHostDirVolumePlugin"):
            return frozenset(volumes if ALL in volumes else volumes | {_HOST_PATH})
        if ALL in volumes:
            volumes |= volume_types()
        elif not volumes:
            volumes = {"none"}
        return frozenset(volumes - {ALL, _HOST_PATH})

    @cached_property
    def order(self) -> tuple[int, int, str]:
        """The sort key by which OpenShift tries SCCs: highest priority first, then most restrictive, then by name.

        Source: openshift/apiserver-library-go a8019f39
        pkg/securitycontextconstraints/util/sort/bypriority.go; openshift/apiserver-library-go a8019f39
        pkg/securitycontextconstraints/util/sort/byrestrictions.go
        """
        return -integer(self.body.get("priority"), 0), self._points, self.name

    @property
    def _points(self) -> int:
        """A number that is greater for a less restrictive SCC."""
        points = 1_600_000 if self.allows("allowPrivilegedContainer") else 0
        if {_HOST_PATH, ALL} & self.volumes:
            points += 200_000
        elif self.volumes - _TRIVIAL_VOLUMES:
            points += 100_000
        points += 400_000 if self.allows("allowHostNetwork") else 0
        points += 800_000 if self.allows("allowHostPorts") else 0
        points += _STRATEGY_POINTS.get(self.strategy("seLinuxContext"), 0)
        points += _STRATEGY_POINTS.get(self.strategy("runAsUser"), 0)
        return points + self._capability_points

    @property
    def _capability_points(self) -> int:
        allowed, dropped = strings(self.body.get("allowedCapabilities")), strings(self.body.get(_REQUIRED_DROP))
        points = 5000 + 300 * len(strings(self.body.get("defaultAddCapabilities")))
        points += 4000 if {ALL, "ALL"} & {name.upper() for name in allowed} else 10 * len(allowed)
        points -= 3000 if "ALL" in {name.upper() for name in dropped} else 50 * len(dropped)
        return min(max(points, 0), 9999)


_REQUIRED_DROP = "requiredDropCapabilities"
_HOST_PATH = "hostPath"
_WITH_DEFAULT = ("fsGroup", "supplementalGroups")
_TRIVIAL_VOLUMES = {"secret", "configMap", "emptyDir", "downwardAPI", "projected", "none"}
_STRATEGY_POINTS = {"RunAsAny": 40_000, "MustRunAsNonRoot": 30_000, "MustRunAsRange": 20_000, "MustRunAs": 10_000}


@cache
def installed_constraints() -> Mapping[str, Constraint]:
    """Return the SCCs of every OpenShift cluster by name (security_constraints.yaml)."""
    table = read_table(_TABLE)
    constraints = {}
    for row in table["constraints"]:
        volumes = row.get("volumes", [])
        listed = volumes if volumes == [ALL] else [*table["volumesOfAll"], *volumes]
        constraints[row["name"]] = Constraint(row["name"], {**row["fields"], "volumes": listed})
    return constraints


@cache
def installed_roles() -> tuple[Body, ...]:
    """Return the ClusterRoles that grant the use of an SCC, and the ClusterRoleBindings of all authenticated users.

    Every OpenShift cluster has them. The result contains `cluster-admin` too.
    """
    rbac, prefix = "rbac.authorization.k8s.io", "system:openshift:scc:"
    everything = {"apiGroups": [ALL], "resources": [ALL], "verbs": [ALL]}
    bodies: list[Body] = [_cluster_role("cluster-admin", everything)]
    for row in read_table(_TABLE)["constraints"]:
        rule = {"apiGroups": [GROUP], "resources": [RESOURCE], "resourceNames": [row["name"]], "verbs": ["use"]}
        bodies.append(_cluster_role(name := f"{prefix}{row['name']}", rule))
        if row.get("everyone"):
            bodies.append(
                {
                    "apiVersion": f"{rbac}/v1",
                    "kind": "ClusterRoleBinding",
                    "metadata": {"name": name},
                    "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
                    "subjects": [{"apiGroup": rbac, "kind": "Group", "name": "system:authenticated"}],
                }
            )
    return tuple(bodies)


def _cluster_role(name: str, rule: Body) -> Body:
    version = "rbac.authorization.k8s.io/v1"
    return {"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]}


@cache
def volume_types() -> frozenset[str]:
    """Return the names of all types of volumes, as in `volumes` of an SCC."""
    table = read_table(_TABLE)
    names: Mapping[str, str] = table["volumeNames"]
    return frozenset(names.get(field, field) for field in table["volumeSources"])


def volume_type(volume: Mapping[str, object]) -> str:
    """Return the type of a volume, as in `volumes` of an SCC. A volume without a source is an `emptyDir`."""
    table = read_table(_TABLE)
    field = next((field for field in table["volumeSources"] if volume.get(field) is not None), "emptyDir")
    return string(table["volumeNames"].get(field), field)


def safe_sysctls() -> tuple[str, ...]:
    """Return the sysctls that an SCC allows unless it forbids them."""
    return tuple(read_table(_TABLE)["sysctls"])


def is_exempt(namespace: Body) -> bool:
    """Return True if OpenShift admits all pods of a Namespace, and applies no SCC to the pods."""
    exempt = read_table(_TABLE)["exempt"]
    metadata = mapping(namespace, "metadata")
    labels = mapping(metadata, "labels")
    return metadata.get("name") in exempt["namespaces"] or any(
        labels.get(label) in values for label, values in exempt["labels"].items()
    )


_UIDS, _GROUPS, LEVEL = (f"openshift.io/sa.scc.{name}" for name in ("uid-range", "supplemental-groups", "mcs"))


@dataclass(frozen=True, slots=True)
class Allocation:
    """The UIDs, groups and SELinux level that OpenShift gives to a Namespace.

    Attributes:
        uids: the UIDs.
        groups: the groups, at least one range.
        level: the SELinux level, such as `s0:c27,c4`.
        is_assumed: True if the values are an example, because only the cluster has them.
    """

    uids: IdRange
    groups: tuple[IdRange, ...]
    level: str
    is_assumed: bool = False


class AllocationError(Exception):
    """An annotation of a Namespace is missing or invalid, so that OpenShift rejects pods of the Namespace.

    Attributes:
        is_malformed: True if the annotation exists. SCCs that do not need its value can then still admit pods.
    """

    def __init__(self, message: str, *, is_malformed: bool = False) -> None:
        super().__init__(message)
        self.is_malformed = is_malformed


def read_allocation(namespace: Body) -> Allocation | None:
    """Return the UIDs, groups and SELinux level in the annotations of a Namespace.

    Return None if the Namespace has no annotation with UIDs: OpenShift adds the annotations after the Namespace is
    created. Without an annotation with groups, the groups are the UIDs.

    Source: openshift/apiserver-library-go a8019f39
    pkg/securitycontextconstraints/sccmatching/matcher.go
    CreateProvidersFromConstraints; openshift/library-go pkg/security/uid/uid.go ParseBlock

    Raises:
        AllocationError: the Namespace has UIDs but no SELinux level, or a value is invalid.
    """
    annotations = string_map(mapping(namespace, "metadata", "annotations"))
    uids = annotations.get(_UIDS)
    if uids is None:
        return None
    if LEVEL not in annotations:
        message = f"unable to find annotation {LEVEL}"
        raise AllocationError(message)
    if not (level := annotations[LEVEL]):
        message = f"found annotation {LEVEL} but it was empty"
        raise AllocationError(message, is_malformed=True)
    groups = annotations.get(_GROUPS, uids).split(",")
    return Allocation(_parse_block(uids), tuple(map(_parse_block, groups)), level)


def _parse_block(text: str) -> IdRange:
    """Parse `START/SIZE` or `START-END`. Go's Sscanf ignores the text after the second number.

    Raises:
        AllocationError: the text has another form.
    """
    if match := _BLOCK.match(text):
        first, second = int(match["first"]), int(match["second"])
        if max(first, second) <= _UINT32:
            return IdRange(first, (first + second - 1) % (_UINT32 + 1) if match["by"] == "/" else second)
    message = f"`{text}` is not a range such as 1000660000/10000"
    raise AllocationError(message, is_malformed=True)


_BLOCK = re.compile(r"\s*(?P<first>[0-9]+)(?P<by>[/-])\s*(?P<second>[0-9]+)")
_UINT32 = 2**32 - 1


def possible_allocations(pod: Body, level: str = "") -> Iterator[Allocation]:
    """Yield examples of the UIDs, groups and SELinux level that OpenShift can give to a Namespace.

    A pod that OpenShift admits with each of these examples is admitted with all values that OpenShift can give.

    The first example has no UID, group or level that the pod sets. Each other example has a block of UIDs and groups
    with a UID or group of the pod, or an SELinux level of the pod, if OpenShift can give it to a Namespace.

    Args:
        pod: the Pod.
        level: the level in the annotations of the Namespace; empty if OpenShift chooses the level.
    """
    table = read_table(_TABLE)["allocation"]
    first, last, block = (table["uids"][key] for key in ("first", "last", "block"))
    numbers, levels = _read_values(pod)
    starts = sorted({number - (number - first) % block for number in numbers if first <= number <= last})
    unused = next(start for start in range(first, last, block) if start not in starts)
    possible = sorted(text for text in levels if _is_level(text, table["sensitivity"], table["categories"]))
    other = next(
        text for number in range(1, 1000) if (text := f"{table['sensitivity']}:c{number + 1},c{number}") not in levels
    )
    for start in (unused, *starts):
        for text in [level] if level else [other, *possible]:
            uids = IdRange(start, start + block - 1)
            yield Allocation(uids, (uids,), text, is_assumed=True)


def _read_values(pod: Body) -> tuple[set[int], set[str]]:
    """Return the UIDs and groups of a pod, and its SELinux levels."""
    spec = mapping(pod, "spec")
    contexts = [mapping(spec, "securityContext")]
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        contexts += (mapping(container, "securityContext") for container in mappings(spec.get(kind)))
    numbers: set[int] = set()
    levels: set[str] = set()
    for context in contexts:
        groups = context.get("supplementalGroups")
        values = [context.get("runAsUser"), context.get("fsGroup"), *(groups if isinstance(groups, list) else ())]
        numbers |= {value for value in values if isinstance(value, int)}
        levels |= {string(mapping(context, "seLinuxOptions").get("level"))} - {""}
    return numbers, levels


def _is_level(text: str, sensitivity: str, categories: int) -> bool:
    """Return True if OpenShift can give this SELinux level to a Namespace: two categories in any order."""
    match = re.fullmatch(rf"{re.escape(sensitivity)}:c([0-9]+),c([0-9]+)", text)
    return match is not None and all(int(number) < categories for number in match.groups())
