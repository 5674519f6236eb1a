"""workload/feature-gate: fields of JobSets, StatefulSets and pods that need a feature gate that is off by default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from generator.checks.registry import WARNING, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.facts.api_versions import component_name, find_places
from generator.facts.feature_gates import GATES, FeatureGate
from generator.facts.versions import minors
from generator.manifests import Manifest
from generator.objects.fields import mapping
from generator.objects.pods import JOB_SET, RUNTIMES, pod_templates

_BASES: Mapping[str, tuple[str, Path]] = {
    "JobSet": ("job-set", ("spec",)),
    "StatefulSet": ("stateful-set", ("spec",)),
    **dict.fromkeys(RUNTIMES, ("job-set", JOB_SET)),
}
"""Kind → `of` in feature_gates.yaml, and the path of this spec in the object."""
_REJECTED = {
    "job-set": "JobSet rejects the JobSet",
    "pod": "the API server rejects the pods",
    "stateful-set": "the API server rejects the StatefulSet",
}


@dataclass(frozen=True, slots=True)
class Specs:
    """The specs of JobSets, StatefulSets and pods in an object, and the target versions.

    Attributes:
        specs: (`of` in feature_gates.yaml, path of the spec in the object, spec).
        targets: component → minor version.
    """

    specs: tuple[tuple[str, Path, Mapping[str, object]], ...]
    targets: Mapping[str, str]

    @classmethod
    def of_manifest(cls, manifest: Manifest, targets: Mapping[str, str]) -> Specs | None:
        """Return the specs of JobSets, StatefulSets and pods in a manifest; None if the object has none."""
        base = _BASES.get(manifest.kind)
        specs: list[tuple[str, Path, Mapping[str, object]]] = []
        if base:
            of, path = base
            specs.append((of, path, mapping(manifest.body, *map(str, path))))
        specs += [("pod", (*item.path, "spec"), item.spec) for item in pod_templates(manifest)]
        return cls(tuple(specs), targets) if specs else None


@check("workload/feature-gate", severity=WARNING, needs=Specs)
def feature_gate(specs: Specs) -> Iterator[Breach]:
    """Report a field or a value that needs a feature gate that is off by default.

    The check reads the default of each feature gate in the target versions. No file shows the feature gates of a
    running cluster, so the finding is a warning.

    Source: generator/facts/feature_gates.yaml
    """
    for gate in GATES:
        minor = specs.targets.get(gate.component) or minors(gate.component)[0]
        for of, path, spec in specs.specs if gate.is_off(minor) else ():
            for place in find_places(spec, gate.path) if of == gate.of else ():
                value: object = spec
                for step in place:
                    value = value[step]  # type: ignore[index]
                if value in gate.values if gate.values else value is not None:
                    yield _breach(gate, minor, (*path, *place), value)


def _breach(gate: FeatureGate, minor: str, path: Path, value: object) -> Breach:
    component = component_name(gate.component)
    subject = format_value(value) if gate.values else f"`{path[-1]}`"
    return Breach(
        path,
        f"{subject} needs the feature gate `{gate.gate}`, which is off by default in {component} {minor}",
        f"{_REJECTED[gate.of]}, unless the cluster turns on the gate",
        f"turn on the feature gate `{gate.gate}`, or {'set another value' if gate.values else 'remove the field'}",
        value=value if gate.values else None,
    )
