"""trainjob/*: does a TrainJob say what Trainer refuses, or what keeps JobSet from ever making a pod of it?

On which runtime it runs is not known here, as that may be in no file.
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.finding import Breach, Severity
from generator.documents.syntax import shown
from generator.facts import env
from generator.manifests import Body
from generator.objects.fields import indexed_mappings, mapping

_LONGEST = 63  # letters of a pod's name, as JobSet sees it
_POD_OF_LAUNCHER = len("-launcher-0-0-abcde")
_SHORTEST_POD = len("-x-0-0-abcde")
_GROUP = "trainer.kubeflow.org"
_KINDS = ("ClusterTrainingRuntime", "TrainingRuntime")
_GENERATED = 5  # letters that the API server puts after `generateName`


def name(body: Body) -> Iterator[Breach]:
    """The pods of a JobSet are named after it, their job and their numbers, and are to fit a label.

    jobset v0.12.0 pkg/webhooks/jobset_webhook.go ValidateCreate, pkg/util/placement GenPodName
    """
    metadata = mapping(body, "metadata")
    field, more = ("name", 0) if metadata.get("name") else ("generateName", _GENERATED)
    said = metadata.get(field)
    if not isinstance(said, str) or len(said) + more + _POD_OF_LAUNCHER <= _LONGEST:
        return
    length, is_always = len(said) + more, len(said) + more + _SHORTEST_POD > _LONGEST
    on = "any runtime" if is_always else "a runtime for MPI"
    yield Breach(
        ("metadata", field),
        "trainjob/name",
        f"the name has {length} letters",
        f"on {on} it never gets pods, whose names would have more than {_LONGEST}: an event is all that tells",
        f"write a name of at most {_LONGEST - _POD_OF_LAUNCHER - more} letters",
        Severity.ERROR if is_always else Severity.WARNING,
        value=said,
    )


def runtime_kind(body: Body) -> Iterator[Breach]:
    """Trainer knows two kinds of runtimes, and looks them up as they are written.

    trainer v2.3.0 pkg/webhooks/trainjob_webhook.go ValidateCreate, pkg/runtime/core/registry.go
    """
    said = mapping(body, "spec", "runtimeRef")
    for field, known in (("apiGroup", (_GROUP,)), ("kind", _KINDS)):
        value = said.get(field, known[0])
        if isinstance(value, str) and value not in known:
            yield Breach(
                ("spec", "runtimeRef", field),
                "trainjob/runtime-kind",
                f"{shown(value)} is no {field} of a runtime",
                "Trainer refuses the TrainJob: unsupported runtime",
                f"write {' or '.join(f'`{each}`' for each in known)}",
                value=value,
            )


def reserved_variable(body: Body) -> Iterator[Breach]:
    """What Trainer sets in the launcher nobody else may.

    trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go Validate
    """
    for number, variable in indexed_mappings(mapping(body, "spec", "trainer").get("env")):
        if variable.get("name") in env.RESERVED_BY_TRAINER:
            yield Breach(
                ("spec", "trainer", "env", number),
                "trainjob/reserved-variable",
                f"`{variable['name']}` is set",
                "Trainer refuses the TrainJob: it sets the variable itself",
                "remove it",
                value=variable["name"],
            )
