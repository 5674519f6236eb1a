"""mpi/*: the containers, resources and volumes that ssh, MPI and the Kubeflow SDK need in an MPI runtime."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING, Any

from generator.checks.objects import Objects
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.facts import env
from generator.facts.names import FRAMEWORK, HOSTFILE, MPI_FOLDER
from generator.objects.fields import indexed_mappings, items, mapping, strings
from generator.objects.pods import NODE
from generator.objects.training import LAUNCHER, MPI, TRAINER, MpiRuntime, ReplicatedJob, mpi_runtime

if TYPE_CHECKING:
    from fractions import Fraction


@check("mpi/ssh-as-root", severity=ERROR, needs=MpiRuntime)
def ssh_as_root(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report an ssh key that OpenSSH rejects for root.

    Trainer mounts the key as a file of root with the mode 0640 (Trainer 2.2: 0644). OpenSSH rejects a private key that
    other users can read, if the user that runs ssh owns the key. So the default of `sshAuthMountPath`, `/root/.ssh`,
    never works. A container that runs as root with the key in another folder is a warning, because a script may copy
    the key.

    Source: trainer v2.3.0 pkg/constants/constants.go MPISSHPrivateKeyFileMode; openssh-portable authfile.c
    sshkey_perm_ok
    """
    rejected = "as root, ssh rejects its private key, because Trainer makes the key file readable for root's group"
    path = runtime.policy.get("sshAuthMountPath") or "/root/.ssh"
    if isinstance(path, str) and f"{path}/".startswith("/root/"):
        is_set = bool(runtime.policy.get("sshAuthMountPath"))
        yield Breach(
            (*MPI, "sshAuthMountPath"),
            f"`sshAuthMountPath` is {format_value(path) if is_set else 'not set and defaults to `/root/.ssh`'}",
            f"{rejected}, and no other user can enter `/root`",
            "run the containers as a user other than root, and set `sshAuthMountPath` to the `.ssh` folder in the home "
            "of this user, such as `/home/mpiuser/.ssh`",
            value=path if is_set else None,
        )
        return
    for job in runtime.pair:
        user = _security(job, "runAsUser")
        if user and user[1] == 0:
            message = f"the container `{NODE}` of the job `{job.name}` runs as root"
            fix = "run the container as another user that the image defines"
            yield Breach(user[0], message, rejected, fix, severity=WARNING, value=0)


@check("mpi/ssh-key-group", severity=WARNING, needs=MpiRuntime, since="trainer 2.3")
def ssh_key_group(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report an ssh key that the user of the pods cannot read.

    Without `fsGroup` the files of a Secret belong to root and its group. A user outside of that group cannot read
    the key, so ssh fails: permission denied. Trainer 2.2 mounts the key readable for all. On OpenShift,
    `restricted-v2` sets the user and `fsGroup`, so the check reports nothing if the runtime sets neither.

    Source: kubernetes v1.34.2 pkg/volume/volume_linux.go VolumeOwnership.ChangePermissions; trainer pull request 3748
    """
    for job in runtime.pair:
        security = mapping(job.pod, "securityContext")
        user, group = _security(job, "runAsUser"), _security(job, "runAsGroup")
        is_in_group = (group and group[1] == 0) or 0 in items(security.get("supplementalGroups"))
        if user and user[1] != 0 and "fsGroup" not in security and not is_in_group:
            yield Breach(
                (*job.pod_path, "securityContext"),
                f"the pods of the job `{job.name}` run as user `{user[1]}` and have no `fsGroup`",
                "the ssh key belongs to the user root and the group root, so a user outside of this group cannot read "
                "the key",
                f"set `fsGroup: {user[1]}` in the `securityContext` of the pods",
            )


def _security(job: ReplicatedJob, field: str) -> tuple[Path, int] | None:
    """Return the path and the value of `runAsUser` or a similar field; None if neither pod nor container sets it.

    The container overrides the pod.
    """
    of_container = [(job.container.path, job.container.body)] if job.container else []
    for path, body in (*of_container, (job.pod_path, job.pod)):
        number = mapping(body, "securityContext").get(field)
        if isinstance(number, int):
            return (*path, "securityContext", field), number
    return None


@check("mpi/open-mpi-5", severity=WARNING, needs=MpiRuntime)
def open_mpi_5(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a launcher that does not set the path of the hostfile for Open MPI 5.

    Trainer sets this path in variables of ORTE, which Open MPI 5 replaced by PRRTE. Open MPI 5 ignores
    these variables and starts all ranks in the launcher, and the TrainJob completes without an error. Set
    `PRTE_MCA_prte_default_hostfile`, or `--hostfile` in the command. MPICH and Intel MPI read other variables, see
    `mpi/hydra-hostfile`. The check skips a launcher with `envFrom`, which can set a variable.

    If `runLauncherAsNode` is true, the check also reports the value `true` of `PRTE_MCA_prte_keep_fqdn_hostnames`. The
    hostfile has names without a domain, so Open MPI 5 does not recognize its own pod and connects to the pod by ssh.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go MPI.EnforceMLPolicy; trainer v2.3.0
    pkg/runtime/framework/plugins/mpi/mpi.go MPI.buildHostFileConfigMap; trainer
    issue 4028
    """
    container = runtime.launcher.container if runtime.launcher else None
    if container is None:
        return
    keep = env.PRTE_MCA_prte_keep_fqdn_hostnames
    for number, variable in indexed_mappings(container.body.get("env")) if runtime.is_launcher_a_node else ():
        if variable.get("name") == keep and str(variable.get("value")).lower() in {"1", "true", "t", "yes", "on"}:
            yield Breach(
                (*container.path, "env", number),
                f"`{keep}` is `{variable['value']}`, but the hostfile lists the launcher by its short name",
                "Open MPI 5 does not recognize the launcher as its own pod, and connects to the launcher by ssh. The "
                "launcher runs no sshd, so the job fails or hangs",
                "set `false`. Only the variable of Open MPI 4, `OMPI_MCA_orte_keep_fqdn_hostnames`, stays `true`",
                value=variable["value"],
            )
    command = " ".join((*strings(container.body.get("command")), *strings(container.body.get("args"))))
    if (
        container.body.get("envFrom")
        or any(word in command for word in ("hostfile", "machinefile", MPI_FOLDER))
        or any(name in env.HOSTFILES for _, name in container.variables)
    ):
        return
    yield Breach(
        (*container.path, "env"),
        f"the job `{LAUNCHER}` does not set the path of the hostfile for Open MPI 5",
        "Trainer sets the path for Open MPI 4 only. Open MPI 5 runs all ranks in the launcher, unless the command "
        "names the hostfile, and the TrainJob completes without an error",
        "add the variable `PRTE_MCA_prte_default_hostfile` with the value `/etc/mpi/hostfile` to the container; Open "
        "MPI 4 ignores this variable",
    )


@check("mpi/hydra-hostfile", severity=ERROR, needs=MpiRuntime)
def hydra_hostfile(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a launcher whose MPICH or Intel MPI reads the hostfile of Trainer.

    Hydra, which starts the ranks of MPICH and Intel MPI, reads `HOST:N`, and Trainer writes `HOST slots=N`. Let an init
    container write a hostfile in the format of Hydra, as in mpigen's runtimes, and set its path in `HYDRA_HOST_FILE`
    (MPICH) or `I_MPI_HYDRA_HOST_FILE` (Intel MPI). The check skips a launcher with a `PATH`, which can select a program
    that converts the hostfile before `mpirun` reads it. Beside variables of Open MPI, which ignores these two, the
    finding is a warning.

    Source: MPICH 4.0.2 and Intel MPI 2021.19 were run; trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go
    MPI.buildHostFileConfigMap
    """
    container = runtime.launcher.container if runtime.launcher else None
    variables = [*indexed_mappings(container.body.get("env"))] if container else []
    names = {str(variable.get("name")) for _, variable in variables}
    if container is None or "PATH" in names:
        return
    has_open_mpi = any(name.startswith(("OMPI_MCA_", "PRTE_MCA_")) for name in names)
    for number, variable in variables:
        if variable.get("name") in env.HOSTFILES_OF_HYDRA and variable.get("value") == HOSTFILE:
            yield Breach(
                (*container.path, "env", number, "value"),
                f"`{variable['name']}` is the path of Trainer's hostfile, which MPICH and Intel MPI cannot read",
                "Trainer writes `HOST slots=N`, and MPICH and Intel MPI read `HOST:N`: `mpirun` fails without a rank",
                "write a hostfile with lines `HOST:N` in an init container, and set its path",
                severity=WARNING if has_open_mpi else ERROR,
                value=HOSTFILE,
            )


@check("mpi/overridden-variable", severity=WARNING, needs=MpiRuntime)
def overridden_variable(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a variable of the launcher that Trainer overrides.

    Trainer replaces the values of `OMPI_MCA_orte_default_hostfile`, `OMPI_MCA_orte_keep_fqdn_hostnames`,
    `OMPI_MCA_orte_set_default_slots` and `OMPI_MCA_plm_rsh_args` in the launcher silently.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go MPI.EnforceMLPolicy; trainer v2.3.0
    pkg/apply/apply.go UpsertEnvVars
    """
    container = runtime.launcher.container if runtime.launcher else None
    for path, name in container.variables if container else ():
        if name in env.RESERVED_BY_TRAINER:
            fix = "remove the variable"
            if name == env.OMPI_MCA_plm_rsh_args:
                fix += ", and set ssh's port and options in the `ssh_config` of the image"
            message = f"the container of the launcher sets `{name}`"
            yield Breach(path, message, "Trainer replaces the value by its own value", fix, value=name)


@check("mpi/launcher-resources", severity=ERROR, needs=MpiRuntime)
def launcher_resources(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a launcher with ranks whose devices differ from a worker pod's, or that has less of another resource.

    With `runLauncherAsNode: true` the launcher runs as many ranks as each worker pod. If the launcher has fewer
    devices, some ranks have no device. Less of another resource, such as CPU or memory, is a warning.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go MPI.buildHostFileConfigMap
    """
    launcher = runtime.launcher.container if runtime.launcher and runtime.is_launcher_a_node else None
    node = runtime.node.container if runtime.node else None
    if not (launcher and node):
        return
    amounts, expected = launcher.amounts, node.amounts
    for name in sorted(name for name in {*amounts, *expected} if amounts.get(name) != expected.get(name)):
        is_device = "/" in name
        if _is_short(amounts.get(name), expected.get(name), is_device=is_device):
            texts = [format_value(some[name]) if name in some else "none" for some in (amounts, expected)]
            yield Breach(
                (*launcher.path, "resources"),
                f"the job `{LAUNCHER}` requests {texts[0]} of `{name}`, but the job `{NODE}` requests {texts[1]}",
                "a pod of either job runs the same number of ranks, because `runLauncherAsNode` is `true`",
                "request the same amount in both jobs",
                severity=ERROR if is_device else WARNING,
                value=amounts.get(name),
            )


def _is_short(of_launcher: object, of_node: object, *, is_device: bool) -> bool:
    """Return True if the launcher has less of a resource than a worker pod, or another number of a device."""
    own, expected = _parse_amount(of_launcher), _parse_amount(of_node)
    if own is None or expected is None:
        return False
    return own != expected if is_device else own < expected


def _parse_amount(value: object) -> Fraction | None:
    """Return the amount of a resource, 0 if it is unset; None if the value is not a quantity."""
    from generator.quantities import amount_of  # with `fractions` it takes 3 ms, and most runtimes do not need it

    return amount_of(value or 0)


@check("mpi/guessed-processes", severity=WARNING, needs=MpiRuntime)
def guessed_processes(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a number of processes per pod that Trainer and the Kubeflow SDK guess differently.

    If `numProcPerNode` is 1 or not set, Trainer starts one process per GPU of a pod: per device with `gpu` in its
    resource name. But if a TrainJob sets `resourcesPerNode` without GPUs, Trainer starts one process per pod, as the
    Kubeflow SDK always assumes. The check reports runtimes with several GPUs per pod.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go MPI.EnforceMLPolicy; trainer v2.3.0
    pkg/runtime/runtime.go numGPU
    """
    processes = runtime.policy.get("numProcPerNode")
    if processes not in (None, 1) or (gpus := _gpus(runtime)) is None:
        return
    name, count = gpus
    yield Breach(
        (*MPI, "numProcPerNode"),
        f"`numProcPerNode` is {'not set' if processes is None else '`1`'}, but a pod has `{count}` of `{name}`",
        f"Trainer starts {count} processes per pod, or 1 if a TrainJob sets `resourcesPerNode` without `{name}`. The "
        "Kubeflow SDK assumes 1",
        f"set `numProcPerNode: {count}`"
        if processes is None
        else f"set `numProcPerNode: {count}`; for 1 process per pod, set `trainer.numProcPerNode: 1` in the TrainJob",
        value=processes,
    )


def _gpus(runtime: MpiRuntime) -> tuple[str, int] | None:
    """Return the resource and the number of GPUs per pod that Trainer counts; None for no GPU or one GPU."""
    for job in runtime.jobs:
        if job.container and "resources" in job.container.body and (job.name == NODE or job.step == TRAINER):
            resources = mapping(job.container.body, "resources")
            for amounts in (mapping(resources, "requests"), mapping(resources, "limits")):
                for name in amounts:
                    if "gpu" in name.lower() and (amount := _parse_amount(amounts[name])):
                        return (name, ceil(amount)) if amount > 1 else None
            return None
    return None


@check("mpi/sdk", severity=WARNING, needs=MpiRuntime)
def sdk(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a runtime that the Kubeflow SDK ignores or cannot read.

    `list_runtimes()` of the Kubeflow SDK 0.5 ignores a runtime without a framework label. From any other runtime, it
    reads the first job that has a step label and a container `node`, usually the launcher. If this container has no
    image, or if its limits name several MIG profiles or no resource that the SDK supports, the SDK raises an error and
    lists no runtime at all.

    Source: kubeflow 0.5.0 trainer/backends/kubernetes/backend.py list_runtimes; utils.py get_runtime_trainer,
    get_runtime_trainer_container, get_container_devices
    """
    if FRAMEWORK not in mapping(runtime.body, "metadata", "labels"):
        yield Breach(
            ("metadata", "labels"),
            f"the runtime has no label `{FRAMEWORK}`",
            "the Kubeflow SDK ignores the runtime: users of the SDK can neither list nor use the runtime",
            f"add the label with the name of the framework, such as `{FRAMEWORK}: mpi`",
        )
        return
    name, container = next(
        ((job.name, job.container) for job in runtime.jobs if job.step is not None and job.container), ("", None)
    )
    if container is None:
        return
    why = "the Kubeflow SDK fails on this runtime, and then lists no runtime at all"
    if not container.body.get("image"):
        yield Breach(
            (*container.path, "image"),
            f"the container `{NODE}` of the job `{name}` has no image",
            why,
            "set `image` in this container",
        )
    limits = mapping(container.body, "resources", "limits")
    slices = sorted(name for name in limits if name.startswith("nvidia.com/mig-"))
    if not limits or limits.keys() & {"nvidia.com/gpu", "google.com/tpu"} or len(slices) == 1:
        return
    path = (*container.path, "resources", "limits")
    if slices:
        message = f"the limits of the job `{name}` name several MIG profiles: {', '.join(map(format_value, slices))}"
        yield Breach(path, message, why, "request one MIG profile")
    elif not limits.keys() & {"huawei.com/Ascend910", "cpu"}:
        names = ", ".join(map(format_value, limits))
        message = f"the limits of the job `{name}` name no resource that the Kubeflow SDK supports: {names}"
        yield Breach(path, message, why, "also set a limit of `cpu`")


@check("mpi/one-node-volume", severity=WARNING, needs=Objects)
def one_node_volume(objects: Objects) -> Iterator[Breach]:
    """Report a claim of a runtime that only one node or one pod can mount.

    A volume with `ReadWriteOnce` attaches to one node at a time, and only one pod can use a volume with
    `ReadWriteOncePod`. If the launcher or the worker pods of a runtime mount such a claim, other pods stay Pending or
    in ContainerCreating. The check reads claims in the namespaces in which the runtime can run.

    Source: kubernetes v1.34.2 pkg/volume/util/util.go IsMultiAttachAllowed
    """
    mounted: dict[tuple[str, str], str] = {}  # namespace (empty: any) and claim → first runtime
    for manifest in objects.of("trainer.kubeflow.org", "ClusterTrainingRuntime", "TrainingRuntime"):
        runtime = mpi_runtime(manifest.body)
        for job in runtime.pair if runtime else ():
            for _, volume in indexed_mappings(job.pod.get("volumes")):
                name: Any = mapping(volume, "persistentVolumeClaim").get("claimName")
                if isinstance(name, str):
                    mounted.setdefault((manifest.namespace, name), manifest.name)
    for claim in objects.of("", "PersistentVolumeClaim"):
        modes = mapping(claim.body, "spec").get("accessModes")
        user = mounted.get(("", claim.name)) or mounted.get((claim.namespace, claim.name))
        if user and isinstance(modes, list) and modes and not {"ReadWriteMany", "ReadOnlyMany"} & set(map(str, modes)):
            names = format_value(", ".join(map(str, modes)))
            yield Breach(
                ("spec", "accessModes"),
                f"the access mode is {names}, but the pods of TrainJobs on the runtime `{user}` mount the claim",
                "only one pod can use the volume, and all other pods stay Pending"
                if modes == ["ReadWriteOncePod"]
                else "the volume attaches to one node, and pods on other nodes stay Pending or in ContainerCreating",
                "create a claim with `ReadWriteMany` in a storage class that supports it, such as CephFS or NFS, or "
                "with `ReadOnlyMany` if the pods only read",
                claim,
                value=modes,
            )
