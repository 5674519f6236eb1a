"""Which nodes pods are for, and what these have, where the annotations of a ResourceFlavor say it.

`fabric/device-count` of them: pods that take a node for themselves, and not all of its devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from generator.checks.fabric.pods import PodTemplate, whole
from generator.checks.fabric.providers import amounts_of
from generator.checks.fabric.read import Fabrics
from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.checks.mpi_runtime import NODE
from generator.facts.names import EFA
from generator.manifests import Manifest
from generator.objects.fields import mapping

_GPUS = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "aws.amazon.com/neuron")


def flavors_of(pods: PodTemplate, gathered: Gathered) -> Iterator[tuple[Manifest, Mapping[str, int]]]:
    """The flavors whose nodes, by all of their labels, the pods select, and what each node has."""
    selected = mapping(pods.spec, "nodeSelector")
    for flavor in gathered.of("kueue.x-k8s.io", "ResourceFlavor"):
        labels = mapping(flavor.body, "spec", "nodeLabels")
        if labels and labels.items() <= selected.items():
            amounts = {name: whole(amount) for name, amount in amounts_of(flavor).items() if "/" in name}
            yield flavor, {name: amount for name, amount in amounts.items() if amount}


def part_of_node(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """All GPUs of a node and a part of its EFA devices, each of which is one NIC that nobody else can use then.

    Virtual functions may be left over on purpose, and of a shared device one is all.
    """
    for pods in gathered.view(Fabrics.read).pods:
        asked = pods.devices.get(EFA, 0)
        for flavor, has in flavors_of(pods, gathered) if pods.is_of_runtime and pods.role == NODE and asked else ():
            gpus = next((name for name in _GPUS if pods.devices.get(name, 0) == has.get(name)), None)
            if gpus and asked < has.get(EFA, 0):
                yield pods.manifest, _part(pods, flavor, asked, has[EFA], f"{has[gpus]} of `{gpus}`")
                break


def _part(pods: PodTemplate, flavor: Manifest, asked: int, all_of_them: int, gpus: str) -> Breach:
    return Breach(
        pods.device_path(EFA),
        "fabric/device-count",
        f"its hosts take all {gpus} of a node of {flavor.resource}, and {asked} of its {all_of_them} `{EFA}`",
        "ranks have that part of the bandwidth, and nobody can use the rest",
        f"write `{EFA}: {all_of_them}`",
        Severity.WARNING,
        at_key=True,
        value=asked,
    )
