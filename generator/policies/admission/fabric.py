"""That a job of a runtime on a fabric keeps it. Ranks that lose it go on over TCP, many times slower, in silence.

`resourcesPerNode` is how it is lost. Trainer 2.2 puts it in the place of all that the runtime says (trainer v2.2.0
pkg/runtime/framework/plugins/jobset/builder.go Trainer). Trainer 2.3 merges it, by resource, but carries over amounts
alone, so that claims are lost (v2.3.0 pkg/runtime/core/trainingruntime.go newRuntimeInfo); and Kueue, with the code of
Trainer 2.2 in it, counts no device that a job leaves out (kueue v0.19.2 go.mod; pkg/controller/jobs/trainjob), unless
an init container asks for it too.
"""

from __future__ import annotations

from collections.abc import Sequence

from generator.policies.admission.parameters import CLAIM
from generator.policies.admission.policy import TRAINJOBS, Demand, Rule, parameters
from generator.policies.admission.trainjobs import RUNTIME

_ASKED = "object.spec.?trainer.?resourcesPerNode"
_SAYS_AMOUNTS = f"({_ASKED}.?limits.hasValue() || {_ASKED}.?requests.hasValue())"
_IS_TOLD = (  # -env and -genv are Hydra's, --mca and -mca Open MPI's
    r"variables.line.matches(r'\b' + name + r'=|\b(env|genv|unset)\s+' + name + r'\b')"
    r" || (name.startsWith('OMPI_MCA_') && variables.line.matches(r'-mca\s+' + name.substring(9) + r'\s'))"
)
_Part = tuple[str, str, str]
"""A name, CEL that says whether it is broken, and the message then."""

_LINE = "object.spec.?trainer.?{}.orValue([])"
_KINDS = ("limits", "requests")
_REPLACING = "2.2"


def fabric(conditions: dict[str, str], trainer: str) -> Rule:
    """A job leaves devices, claims and variables of its runtime's fabric as they are.

    It is one demand, as which of its parts a platform has any use for depends on the runtimes of its release.

    Args:
        conditions: of all rules.
        trainer: the version, which merges what a job asks for with what its runtime says, or puts it in its place.
    """
    parts = (_amounts(trainer), _claims(trainer), _variables(), _arguments())
    return Rule(
        name="fabric",
        requests=[TRAINJOBS],
        variables={
            "runtime": RUNTIME,
            "devices": f"{_of_runtime('fabrics')}.map(each, each.split('='))",
            "wrong": f"variables.devices.filter(each, each[2] != '{CLAIM}' && !({_is_kept(trainer)}))"
            f".map(each, each[1] + ': ' + each[2] + ' (here ' + {_said()} + ')')",
            "fixed": f"{_of_runtime('fabric-variables')}.map(each, each.split('=')[1])",
            "set": "object.spec.?trainer.?env.orValue([]).map(each, each.name).filter(name, name in variables.fixed)",
            "line": f"({_LINE.format('command')} + {_LINE.format('args')}).join(' ')",
            "told": f"variables.fixed.filter(name, {_IS_TOLD})",
            **{name: broken for name, broken, _ in parts},
        },
        demands=[Demand(" && ".join(f"!variables.{name}" for name, _, _ in parts), _first_of(parts))],
        conditions=conditions,
    )


def _first_of(parts: Sequence[_Part]) -> str:
    """CEL: the message of the first part that is broken."""
    *others, (_, _, last) = parts
    return "".join(f"variables.{name} ? {message} : " for name, _, message in others) + last


def _of_runtime(name: str) -> str:
    """CEL: what the namespace says of the job's runtime."""
    return f"{parameters(name)}.filter(each, each.startsWith(variables.runtime + '='))"


def _amount(kind: str) -> str:
    return f"{_ASKED}.?{kind}[?each[1]]"


def _is(kind: str, otherwise: str) -> str:
    """CEL: what the job asks for of a device is what a host has of it."""
    asked = f"{_amount(kind)}.orValue(dyn({otherwise}))"
    return f"quantity(string({asked})).compareTo(quantity(each[2])) == 0"


def _is_kept(trainer: str) -> str:
    if trainer == _REPLACING:  # without a limit of it the API server refuses the pods
        return f"{_is('limits', repr('0'))} && {_is('requests', 'each[2]')}"
    named = f"({_amount('limits')}.hasValue() || {_amount('requests')}.hasValue())"
    return f"{named} && {_is('limits', 'each[2]')} && {_is('requests', 'each[2]')}"


def _said() -> str:
    """CEL: what the job asks for of a device, in words."""
    return " + ', ' + ".join(f"'{kind}: ' + string({_amount(kind)}.orValue(dyn('none')))" for kind in _KINDS)


def _amounts(trainer: str) -> _Part:
    why = (
        "it takes the place of all that the runtime says, and without these ranks use TCP"
        if trainer == _REPLACING
        else "pods are attached to just these, and what it leaves out Kueue may not count"
    )
    message = (
        "'a host of ' + variables.runtime + ' has ' + variables.wrong.join(' and ') + '; write that below limits and"
        f" requests of spec.trainer.resourcesPerNode, or leave resourcesPerNode out: {why}'"
    )
    return "uncounted", f"oldObject == null && {_SAYS_AMOUNTS} && variables.wrong.size() > 0", message


def _claims(trainer: str) -> _Part:
    """Trainer 2.3 writes the resources anew whatever is said; 2.2 where there are amounts."""
    lost = _SAYS_AMOUNTS if trainer == _REPLACING else f"{_ASKED}.hasValue()"
    message = (
        "variables.runtime + ' claims the devices of its fabric, and Trainer drops claims where a job says resources;"
        " leave spec.trainer.resourcesPerNode out'"
    )
    is_claimed = f"variables.devices.exists(each, each[2] == '{CLAIM}')"
    return "unclaimed", f"oldObject == null && {lost} && {is_claimed}", message


def _variables() -> _Part:
    """Of a patch Trainer itself takes none for this container (pkg/runtime/framework/plugins/jobset Validate)."""
    return "astray", "oldObject == null && variables.set.size() > 0", _decided("set", "spec.trainer.env")


def _arguments() -> _Part:
    """What a launcher is told comes before what it is given: `mpirun --mca pml ob1`, `-x UCX_TLS=tcp`."""
    return (
        "toldAstray",
        "oldObject == null && variables.told.size() > 0",
        _decided("told", "spec.trainer.command and args"),
    )


def _decided(names: str, place: str) -> str:
    decides = "variables.runtime + ' decides how its ranks use the fabric; remove it"
    return f"variables.{names}.join(' and ') + ': ' + {decides} from {place}'"
