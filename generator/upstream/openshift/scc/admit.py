"""The admission of a pod by the first SecurityContextConstraints (SCC) that its account may use and that allows it.

Source: openshift/apiserver-library-go a8019f39 pkg/securitycontextconstraints/sccadmission/admission.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from generator.facts.names import REQUIRED_SCC
from generator.manifests import Body
from generator.objects.fields import mapping, string
from generator.upstream.openshift.scc.assign import Failure, assign, forbidden, join
from generator.upstream.openshift.scc.constraint import Allocation, Constraint

_VALIDATED, _SUBJECT = "openshift.io/scc", "security.openshift.io/validated-scc-subject-type"
_OLDEST = "restricted"
UNABLE = "unable to validate against any security context constraint"
"""The beginning of the reason of the API server, if no SCC that the account may use admits a pod."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The decision of OpenShift on a pod.

    Attributes:
        constraint: the name of the SCC that admits the pod; empty if OpenShift rejects the pod.
        pod: the pod with the security context that the SCC sets; unchanged if OpenShift rejects the pod.
        failures: the fields that the SCCs before `constraint` do not allow, and the SCCs that the account cannot use.
        own: the part of `failures` about fields: without the SCCs that the account cannot use.
        error: why OpenShift rejects every pod; empty if it does not.
    """

    constraint: str
    pod: Body
    failures: tuple[Failure, ...] = ()
    own: tuple[Failure, ...] = ()
    error: str = ""

    @property
    def message(self) -> str:
        """The reason of the API server; empty if OpenShift admits the pod."""
        text = f"{UNABLE}: {join(self.failures)}"
        return "" if self.constraint else self.error or text


def admit(
    pod: Body, constraints: Iterable[Constraint], allocation: Allocation, subject: Callable[[Constraint], str]
) -> Admission:
    """Return the decision of OpenShift on a new pod.

    Args:
        pod: the Pod.
        constraints: all SCCs of the cluster, or only the SCC that the pod requires.
        allocation: the UIDs, groups and SELinux level that OpenShift gives to the Namespace.
        subject: returns who may use an SCC: `serviceaccount` of the pod, `user` who creates it; empty for neither.
    """
    failures: list[Failure] = []
    own: list[Failure] = []
    denied: dict[str, Constraint] = {}
    names = set()
    ordered = sorted(constraints, key=lambda item: item.order)
    if faults := [*_find_faults(ordered, string(mapping(pod, "metadata").get("namespace")))]:
        return Admission("", pod, error=join(faults))
    for constraint in ordered:
        names.add(constraint.name)
        if not (user := subject(constraint)):
            denied[constraint.name] = constraint
            failures.append(forbidden(f'provider "{constraint.name}"', "not usable by user or serviceaccount"))
            continue
        assigned, broken = assign(constraint, allocation, pod)
        if not broken:
            metadata = mapping(assigned, "metadata")
            annotations = {**mapping(metadata, "annotations"), _VALIDATED: constraint.name, _SUBJECT: user}
            assigned = {**assigned, "metadata": {**metadata, "annotations": annotations}}
            return Admission(constraint.name, assigned, tuple(failures), tuple(own))
        broken = [replace(failure, constraint=constraint.name) for failure in broken]
        failures += broken
        own += broken
    if "restricted-v2" in names and _OLDEST in denied and not assign(denied[_OLDEST], allocation, pod)[1]:
        failures.append(forbidden(f"no access to scc/{_OLDEST}", _WOULD_VALIDATE))
    return Admission("", pod, tuple(failures), tuple(own))


def _find_faults(constraints: Iterable[Constraint], namespace: str) -> Iterator[Failure]:
    where = f" in namespace {namespace}" if namespace else ""
    for constraint in constraints:
        if constraint.fault:
            yield Failure(f"error creating provider for SCC {constraint.name}{where}: {constraint.fault}")


_WOULD_VALIDATE = (
    "the pod fails to validate against the `restricted-v2` security context constraint, but would validate "
    "successfully against the `restricted` security context constraint"
)


def required_constraint(pod: Body) -> str:
    """Return the name of the SCC that a pod requires by its annotation; empty if it requires none."""
    return string(mapping(pod, "metadata", "annotations").get(REQUIRED_SCC))
