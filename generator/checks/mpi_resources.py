"""mpi/*: do the resources of an MPI runtime mean to Trainer and to the Kubeflow SDK what they mean to its writer?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from typing import TYPE_CHECKING, Any

from generator.checks.finding import Breach, Severity
from generator.checks.mpi_runtime import LAUNCHER, MPI, NODE, TRAINER, MpiRuntime
from generator.documents.syntax import shown
from generator.facts.names import FRAMEWORK
from generator.objects.fields import mapping

if TYPE_CHECKING:
    from fractions import Fraction

_FIRST = ("nvidia.com/gpu", "google.com/tpu")
_MIG = "nvidia.com/mig-"
_LAST = ("huawei.com/Ascend910", "cpu")


def launcher_resources(runtime: MpiRuntime) -> Iterator[Breach]:
    """All hosts have the same number of slots, the launcher too where it is one.

    trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go buildHostFileConfigMap
    """
    if not (runtime.is_launcher_a_node and runtime.launcher and runtime.node):
        return
    launcher, hosts = runtime.launcher.container, runtime.node.container
    if not (launcher and hosts):
        return
    asked, wanted = launcher.amounts, hosts.amounts
    for name in sorted(name for name in {*asked, *wanted} if asked.get(name) != wanted.get(name)):
        ours, theirs = _amount(asked.get(name)), _amount(wanted.get(name))
        is_device = "/" in name
        if ours is None or theirs is None or ours == theirs or not (is_device or ours < theirs):
            continue
        yield Breach(
            (*launcher.path, "resources"),
            "mpi/launcher-resources",
            f"`{LAUNCHER}` asks for {_told(asked, name)} of `{name}`, `{NODE}` for {_told(wanted, name)}",
            "both run the same number of ranks, as `runLauncherAsNode` is `true`",
            "ask for the same in both",
            Severity.ERROR if is_device else Severity.WARNING,
            value=asked.get(name),
        )


def _told(amounts: Mapping[str, Any], name: str) -> str:
    return shown(amounts[name]) if name in amounts else "nothing"


def _amount(value: object) -> Fraction | None:
    """Return the amount of a resource, 0 where none is set; None if it is no amount."""
    from generator.quantities import amount_of  # with `fractions` it takes 3 ms, and most runtimes never come here

    return amount_of(value or 0)


def guessed_processes(runtime: MpiRuntime) -> Iterator[Breach]:
    """Trainer takes 1 for "as many as there are GPUs", by the names of resources.

    trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go EnforceMLPolicy; pkg/runtime/runtime.go numGPU
    """
    said = runtime.policy.get("numProcPerNode")
    if said not in (None, 1) or (found := _gpus(runtime)) is None:
        return
    name, count = found
    yield Breach(
        (*MPI, "numProcPerNode"),
        "mpi/guessed-processes",
        f"`numProcPerNode` is {'not set' if said is None else '`1`'}, and there are `{count}` of `{name}`",
        f"Trainer then starts {count} processes on a host, but 1 once a TrainJob says `resourcesPerNode` without them; "
        "the Kubeflow SDK counts 1",
        f"write `{count}`" if said is None else f"write `{count}`; where it is to be 1, each TrainJob has to say so",
        Severity.WARNING,
        value=said,
    )


def _gpus(runtime: MpiRuntime) -> tuple[str, int] | None:
    """What Trainer takes for the GPUs of a host, if it takes more than one."""
    for job in runtime.jobs:
        if job.container and "resources" in job.container.body and (job.name == NODE or job.step == TRAINER):
            resources = mapping(job.container.body, "resources")
            for asked in (mapping(resources, "requests"), mapping(resources, "limits")):
                for name in asked:
                    if "gpu" in name.lower() and (amount := _amount(asked[name])):
                        return (name, ceil(amount)) if amount > 1 else None
            return None
    return None


def sdk(runtime: MpiRuntime) -> Iterator[Breach]:
    """The SDK lists all runtimes or none.

    kubeflow 0.5.0 trainer/backends/kubernetes/backend.py list_runtimes; utils.py get_runtime_trainer,
    get_runtime_trainer_container, get_container_devices
    """
    if FRAMEWORK not in mapping(runtime.body, "metadata", "labels"):
        yield _unseen(
            ("metadata", "labels"),
            f"there is no label `{FRAMEWORK}`",
            "the Kubeflow SDK passes over the runtime: its users neither see nor use it",
            "add it, with the name of the framework, such as `mpi`",
        )
        return
    box = next((job.container for job in runtime.jobs if job.step is not None and job.container), None)
    all_fail = "the Kubeflow SDK fails on it, and then lists no runtime at all"
    if box and not box.body.get("image"):
        yield _unseen((*box.path, "image"), f"`{NODE}` has no image", all_fail, "name one")
    limits = mapping(box.body, "resources", "limits") if box else {}
    slices = sorted(name for name in limits if name.startswith(_MIG))
    if not box or not limits or any(name in limits for name in _FIRST) or len(slices) == 1:
        return
    path = (*box.path, "resources", "limits")
    if slices:
        message = f"the limits of `{NODE}` name several kinds of slices: {', '.join(map(shown, slices))}"
        yield _unseen(path, message, all_fail, "ask for one kind")
    elif not any(name in limits for name in _LAST):
        message = f"the limits of `{NODE}` name nothing that the Kubeflow SDK knows: {', '.join(map(shown, limits))}"
        yield _unseen(path, message, all_fail, "limit `cpu` too")


def _unseen(path: tuple[str | int, ...], message: str, why: str, fix: str) -> Breach:
    return Breach(path, "mpi/sdk", message, why, fix, Severity.WARNING)
