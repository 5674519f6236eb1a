"""The admission rule for fabrics: a TrainJob keeps the devices, claims and variables of its runtime's fabric.

The rule is in rules/fabric.yaml. It depends on the version of Trainer: Trainer 2.2 replaces the resources of the
runtime by `resourcesPerNode`, and Trainer 2.3 merges both.
"""

from __future__ import annotations

from collections.abc import Mapping

from generator.policies.admission.parameters import CLAIM
from generator.policies.admission.policy import Rule
from generator.policies.admission.rules import read_rule


def fabric(trainer: str, constants: Mapping[str, str]) -> Rule:
    """Return the rule that rejects new TrainJobs that change the devices, claims or variables of the runtime's fabric.

    Args:
        trainer: the minor version of Trainer.
        constants: the constants of admission rules about TrainJobs.
    """
    replaces = trainer == "2.2"
    return read_rule(
        "fabric",
        constants={
            **constants,
            "CLAIM": CLAIM,
            # without a limit the API server rejects the pods of Trainer 2.2, and Trainer 2.3 adds the runtime's limit
            "MISSING_LIMIT": "'0'" if replaces else "device[2]",
            "DROPS_CLAIMS": "variables.setsAmounts"
            if replaces
            else "object.spec.?trainer.?resourcesPerNode.hasValue()",
            "CONSEQUENCE": "resourcesPerNode replaces all resources of the runtime, and ranks without the devices use "
            "TCP"
            if replaces
            else "pods are attached to exactly these devices, and Kueue may not count a device that the job omits",
        },
    )
