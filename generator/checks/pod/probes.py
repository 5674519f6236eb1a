"""pod/probe: probes and lifecycle handlers of containers."""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.pod.templates import Pods, is_init, is_sidecar, report
from generator.checks.registry import ERROR, Breach, check
from generator.objects.fields import integer, mapping

_GRACE = 30
"""Default of `terminationGracePeriodSeconds`."""
_ONLY_LASTING = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")


@check("pod/probe", severity=ERROR, needs=Pods)
def probe(pods: Pods) -> Iterator[Breach]:
    """Report a probe or a lifecycle handler that the API server rejects.

    An init container without `restartPolicy: Always` ends before the containers start, so it can have no probes and no
    handlers. A handler must not sleep longer than `terminationGracePeriodSeconds`, by default 30 seconds.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go validateInitContainers; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go validateSleepAction
    """
    for template, container in pods.containers:
        if is_init(container) and not is_sidecar(container):
            for key in _ONLY_LASTING:
                value = container.body.get(key)
                is_dropped = isinstance(value, dict) and set(value) == {"stopSignal"}  # without a feature gate
                if value is not None and not is_dropped:
                    message = f"an init container without `restartPolicy: Always` has `{key}`"
                    fix = f"remove `{key}`, or set `restartPolicy: Always` if the container runs as long as the pod"
                    yield report(template, (*container.path, key), message, fix)
            continue
        grace = integer(template.spec.get("terminationGracePeriodSeconds"), _GRACE)
        for hook in ("postStart", "preStop"):
            seconds = mapping(container.body, "lifecycle", hook, "sleep").get("seconds")
            if isinstance(seconds, int) and not 0 <= seconds <= grace:
                path = (*container.path, "lifecycle", hook, "sleep", "seconds")
                message = f"`{hook}` sleeps {seconds} seconds, but the pods have {grace} seconds to stop"
                fix = f"set 0 to {grace} seconds, or raise `terminationGracePeriodSeconds`"
                yield report(template, path, message, fix, seconds)
