"""Where jobs compute. Kueue gives each pod the labels of its flavor, but does not replace what a pod selects itself.

A patch that selects another place would never be admitted (kueue v0.19.2 pkg/cache/scheduler flavor assignment matches
a pod's selector against the flavor's labels): this says so when the job is submitted.
"""

from __future__ import annotations

from generator.policies.admission.patches import PODS
from generator.policies.admission.policy import TRAINJOBS, Demand, Rule, parameters


def residency(conditions: dict[str, str]) -> Rule:
    """No patch selects nodes elsewhere. A place that is allowed is `key=value`."""
    return Rule(
        name="residency",
        requests=[TRAINJOBS],
        variables={
            **PODS,
            "places": parameters("residency"),
            "selected": "variables.pods.map(pods, pods.map(pod, pod.?nodeSelector.orValue({})))",
        },
        demands=[
            Demand(
                "variables.selected.all(pods, pods.all(labels, labels.all(key,"
                " !variables.places.exists(place, place.startsWith(key + '='))"
                " || (key + '=' + labels[key]) in variables.places)))",
                "'jobs compute where the platform says; remove nodeSelector, or select '"
                " + variables.places.join(' or ')",
                "Forbidden",
            )
        ],
        conditions=conditions,
    )
