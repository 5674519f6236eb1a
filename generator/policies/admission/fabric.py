"""The admission rule for fabrics: a TrainJob keeps the devices, claims and variables of its runtime's fabric.

If one of these is missing, ranks use TCP, which is many times slower, and report no error.

- `resourcesPerNode` changes devices and claims. Trainer 2.2 replaces all resources of the runtime by it (trainer v2.2.0
  pkg/runtime/framework/plugins/jobset/builder.go Trainer). Trainer 2.3 merges amounts by resource and drops claims
  (v2.3.0 pkg/runtime/core/trainingruntime.go newRuntimeInfo). Kueue is built with Trainer 2.2, whichever Trainer the
  cluster runs. It counts a device that `resourcesPerNode` omits only if an init container requests it (kueue v0.19.2
  go.mod; pkg/controller/jobs/trainjob).
- `trainer.env` and the command line of `mpirun` change variables of the container `node`. `runtimePatches` cannot
  change them, because Trainer rejects patches of this container's `env` (pkg/runtime/framework/plugins/jobset
  Validate).
"""

from __future__ import annotations

from generator.policies.admission.parameters import CLAIM
from generator.policies.admission.policy import RUNTIME, TRAINJOBS, Rule, Validation, list_parameter

_RESOURCES = "object.spec.?trainer.?resourcesPerNode"
_SETS_AMOUNTS = f"({_RESOURCES}.?limits.hasValue() || {_RESOURCES}.?requests.hasValue())"
_LIMIT = f"{_RESOURCES}.?limits[?device[1]]"
_REQUEST = f"{_RESOURCES}.?requests[?device[1]]"
_CLAIMS_MESSAGE = (
    "'with spec.trainer.resourcesPerNode Trainer drops the device claims of ' + variables.runtime + ', so ranks would"
    " use TCP; remove resourcesPerNode'"
)
_ASSIGNS_VARIABLE = (  # `-env` and `-genv` are options of Hydra, `--mca` and `-mca` of Open MPI
    r"variables.line.matches(r'\b' + name + r'=|\b(env|genv|unset)\s+' + name + r'\b')"
    "\n  || "
    r"(name.startsWith('OMPI_MCA_') && variables.line.matches(r'-mca\s+' + name.substring(9) + r'\s'))"
)


def fabric(trainer: str) -> Rule:
    """Return the rule that rejects new TrainJobs that change the devices, claims or variables of the runtime's fabric.

    The four violations share one validation. With some runtimes a violation cannot occur, so no test case could reject
    a validation of its own, and `policy/untested` would report it.

    Args:
        trainer: the minor version of Trainer.
    """
    replaces = trainer == "2.2"
    drops_claims = _SETS_AMOUNTS if replaces else f"{_RESOURCES}.hasValue()"
    violations = {
        "changesDevices": (f"{_SETS_AMOUNTS} && variables.changed.size() > 0", _changed_devices_message(replaces)),
        "dropsClaims": (f"{drops_claims} && variables.devices.exists(device, device[2] == '{CLAIM}')", _CLAIMS_MESSAGE),
        "overridesInEnv": ("variables.inEnv.size() > 0", _overridden_message("inEnv", "spec.trainer.env")),
        "overridesInCommand": (
            "variables.inCommand.size() > 0",
            _overridden_message("inCommand", "spec.trainer.command and args"),
        ),
    }
    *others, last = ((f"variables.{name}", message) for name, (_, message) in violations.items())
    return Rule(
        name="fabric",
        description=(
            "Stops TrainJobs that drop the devices or the variables of the runtime's fabric. Their ranks would use TCP,"
            " many times slower, and report no error."
        ),
        resource_rules=[TRAINJOBS],
        variables={
            "runtime": RUNTIME,
            # [runtime, resource, amount] and names, from annotations of the namespace
            "devices": f"{_of_runtime('fabrics')}\n  .map(each, each.split('='))",
            "changed": f"variables.devices.filter(device,\n  device[2] != '{CLAIM}'\n"
            f"  && !(\n    {_keeps_device(replaces)}\n  )\n)"
            ".map(device,\n  device[1] + ': ' + device[2]"
            f"\n  + ' (here limits: ' + string({_LIMIT}.orValue(dyn('none')))"
            f"\n  + ', requests: ' + string({_REQUEST}.orValue(dyn('none'))) + ')'\n)",
            "reserved": f"{_of_runtime('fabric-variables')}\n  .map(each, each.split('=')[1])",
            "inEnv": "object.spec.?trainer.?env.orValue([]).map(each, each.name)"
            "\n  .filter(name, name in variables.reserved)",
            "line": "(object.spec.?trainer.?command.orValue([]) + object.spec.?trainer.?args.orValue([])).join(' ')",
            "inCommand": f"variables.reserved.filter(name,\n  {_ASSIGNS_VARIABLE}\n)",
            **{name: f"oldObject == null && {violation}" for name, (violation, _) in violations.items()},
        },
        validations=[
            Validation(
                "\n&& ".join(f"!variables.{name}" for name in violations),
                "\n: ".join([*(f"{variable} ? {message}" for variable, message in others), last[1]]),
            )
        ],
    )


def _of_runtime(parameter: str) -> str:
    """Return CEL that selects the entries of the job's runtime in a parameter of the namespace, such as `fabrics`."""
    return f"{list_parameter(parameter)}\n  .filter(each, each.startsWith(variables.runtime + '='))"


def _keeps_device(replaces: bool) -> str:
    """Return CEL that is true if a job keeps the amount of a device in its runtime; `device[2]` is that amount.

    Args:
        replaces: True if the amounts of a job replace all amounts of its runtime (Trainer 2.2).
    """
    if replaces:  # the API server rejects pods that request a device without a limit
        return "\n    && ".join([_equals(_LIMIT, default="'0'"), _equals(_REQUEST, default="device[2]")])
    is_named = f"({_LIMIT}.hasValue() || {_REQUEST}.hasValue())"
    return "\n    && ".join([is_named, _equals(_LIMIT, default="device[2]"), _equals(_REQUEST, default="device[2]")])


def _equals(amount: str, default: str) -> str:
    return f"quantity(string({amount}.orValue(dyn({default})))).compareTo(quantity(device[2])) == 0"


def _changed_devices_message(replaces: bool) -> str:
    consequence = (
        "these amounts replace all resources of the runtime, and ranks without the devices use TCP"
        if replaces
        else "pods are attached to exactly these devices, and Kueue may not count a device that the job omits"
    )
    return (
        "'each worker pod of ' + variables.runtime + ' has ' + variables.changed.join(' and ') + '; set these amounts"
        f" in limits and requests of spec.trainer.resourcesPerNode, or remove resourcesPerNode: {consequence}'"
    )


def _overridden_message(names: str, place: str) -> str:
    return (
        f"variables.runtime + ' sets ' + variables.{names}.join(' and ') + ' so that ranks use the fabric, and another"
        f" value can make them use TCP; remove the variable from {place}'"
    )
