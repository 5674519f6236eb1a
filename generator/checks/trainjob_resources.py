"""trainjob/*: what becomes of the resources of a runtime under a TrainJob's `resourcesPerNode`.

Trainer 2.2 puts them in the place of all of the runtime's. Trainer 2.3 merges limits and requests, each by resource.
Kueue 0.18 and 0.19 count as Trainer 2.2 does, whose code is in them (kueue v0.19.2 go.mod;
pkg/controller/jobs/trainjob/trainjob_controller.go getChildJobSet).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from generator.checks.fabric.read import Fabrics
from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.checks.trainjob_runtime import AMOUNTS, FIELD, OnRuntime, is_queued, on_runtimes
from generator.documents.syntax import shown
from generator.manifests import Manifest
from generator.objects.fields import mapping
from generator.quantities import amount_of

_REPLACING = "2.2"


def lost_devices(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Amounts are lost on Trainer 2.2. What was claimed of a driver is lost on both, as only amounts are carried over.

    trainer v2.2.0 pkg/runtime/framework/plugins/jobset/builder.go Trainer; v2.3.0 pkg/runtime/core/trainingruntime.go
    newRuntimeInfo
    """
    is_old = gathered.targets.get("trainer") == _REPLACING
    for pair in on_runtimes(gathered):
        if is_old and not pair.names_amounts:
            continue
        if pair.claims:
            names = " and ".join(dict.fromkeys(map(shown, pair.claims)))
            why = "Trainer carries over amounts alone, so that its containers see nothing of what is claimed"
            fix = "leave `resourcesPerNode` out, and have a runtime with other amounts"
            yield _told("lost-devices", pair, f"{pair.runtime.resource} claims {names}", why, fix)
        if is_old and (devices := _devices(pair.left_out)):
            is_fabric = any(map(gathered.view(Fabrics.read).is_device, devices))
            rest = ", and its ranks over TCP, or not at all" if is_fabric else ""
            yield _left_out("lost-devices", pair, devices, f"{_PLACED}: its pods run without them{rest}")


def lost_resources(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """The same, of a TrainJob that keeps its devices: pods without memory are the first that a node evicts."""
    for pair in on_runtimes(gathered):
        is_lost = gathered.targets.get("trainer") == _REPLACING and pair.names_amounts
        if is_lost and pair.left_out and not _devices(pair.left_out):
            why = f"{_PLACED}: its pods ask for none, and Kueue counts none"
            yield _left_out("lost-resources", pair, pair.left_out, why, Severity.WARNING)


def uncounted_resources(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """What Kueue does not count is used beyond the quota, and then missing where Kueue says that it is free."""
    kueue = gathered.targets.get("kueue")
    for pair in on_runtimes(gathered):
        if pair.names_amounts and (lost := pair.uncounted) and is_queued(pair.job, gathered):
            why = f"its pods get them, and Kueue {kueue} counts none of them: they are used beyond the quota"
            severity = Severity.ERROR if _devices(lost) else Severity.WARNING
            yield _left_out("uncounted-resources", pair, _devices(lost) or lost, why, severity)


def contradicting_resources(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """A limit of the TrainJob meets a request of the runtime, or the other way round.

    k8s.io/kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidateContainerResourceRequirements
    """
    if gathered.targets.get("trainer") == _REPLACING:
        return
    for pair in on_runtimes(gathered):
        for resources in pair.resources():
            limits, requests = ({**mapping(resources, key), **mapping(pair.said, key)} for key in AMOUNTS)
            for name in limits.keys() & requests.keys():
                limit, request = amount_of(limits[name]), amount_of(requests[name])
                if (
                    limit is not None
                    and request is not None
                    and (request > limit or ("/" in name and request != limit))
                ):
                    amounts = f"`{name}` gets the limit `{limits[name]}` and the request `{requests[name]}`"
                    why = "Trainer merges limits and requests one by one, and the API server refuses such pods"
                    fix = f"write `{name}` below `limits` and below `requests`"
                    yield _told("contradicting-resources", pair, f"{amounts} with {pair.runtime.resource}", why, fix)


def _contradict(name: str, limit: object, request: object) -> bool:
    most, asked = amount_of(limit), amount_of(request)
    if most is None or asked is None:
        return False
    is_divisible = "/" not in name and not name.startswith("hugepages-")
    return asked > most if is_divisible else asked != most


_PLACED = f"Trainer {_REPLACING} puts it in the place of all resources of the runtime"


def _devices(amounts: Mapping[str, object]) -> Mapping[str, object]:
    """Those that a device plugin offers, whose names have a domain."""
    return {name: amount for name, amount in amounts.items() if "/" in name}


def _left_out(
    rule: str, pair: OnRuntime, lost: Mapping[str, object], why: str, severity: Severity = Severity.ERROR
) -> tuple[Manifest, Breach]:
    names = " and ".join(shown(name) for name in lost)
    amounts = ", ".join(f"{name}: {amount}" for name, amount in pair.left_out.items())
    fix = f"name them too, or what the job needs of them: `limits: {{{amounts}}}`, and the same below `requests`"
    return _told(rule, pair, f"leaves out {names}, which {pair.runtime.resource} asks for", why, fix, severity)


def _told(
    rule: str, pair: OnRuntime, message: str, why: str, fix: str, severity: Severity = Severity.ERROR
) -> tuple[Manifest, Breach]:
    return pair.job, Breach(FIELD, f"trainjob/{rule}", message, why, fix, severity, at_key=True)
