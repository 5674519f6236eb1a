"""mpi/*: the containers, resources and volumes that ssh, MPI and the Kubeflow SDK need in an MPI runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from typing import TYPE_CHECKING, Any

from generator.checks.finding import Breach, Severity
from generator.checks.objects import Objects
from generator.checks.registry import ERROR, WARNING, check
from generator.checks.trainer import LAUNCHER, MPI, NODE, TRAINER, Container, MpiRuntime, ReplicatedJob, mpi_runtime
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.facts import env
from generator.facts.names import FRAMEWORK, MPI_FOLDER
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, items, mapping, strings

if TYPE_CHECKING:
    from fractions import Fraction


_REFUSED_TO_ROOT = "ssh refuses a key to root that root's group may read, as Trainer mounts it"
_KEEP = env.PRTE_MCA_prte_keep_fqdn_hostnames
_HOSTFILE_WORDS = ("hostfile", "machinefile", MPI_FOLDER)


@check("mpi/ssh-as-root", severity=ERROR, needs=MpiRuntime)
def ssh_as_root(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report an ssh key that OpenSSH rejects for root.

    Trainer mounts the key as a file of root with the mode 0640 (Trainer 2.2: 0644). OpenSSH refuses to use a key
    that others may read, if it belongs to whoever runs ssh: root. So the default of `sshAuthMountPath`,
    `/root/.ssh`, works for nobody. Root with a key elsewhere is a warning, as a script may copy it.

    Source: trainer v2.3.0 pkg/constants/constants.go MPISSHPrivateKeyFileMode; openssh-portable authfile.c
    sshkey_perm_ok
    """
    path = runtime.policy.get("sshAuthMountPath") or "/root/.ssh"
    if isinstance(path, str) and f"{path}/".startswith("/root/"):
        is_said = bool(runtime.policy.get("sshAuthMountPath"))
        yield Breach(
            (*MPI, "sshAuthMountPath"),
            "mpi/ssh-as-root",
            f"`sshAuthMountPath` is {format_value(path) if is_said else 'not set, so it is `/root/.ssh`'}",
            f"{_REFUSED_TO_ROOT}, and nobody else enters `/root`",
            "run the containers as another user, and mount the key in the `.ssh` of its home: `/home/mpiuser/.ssh`",
            value=path if is_said else None,
        )
        return
    for job in runtime.pair:
        user = _said(job, "runAsUser")
        if user and user[1] == 0:
            yield Breach(
                user[0],
                "mpi/ssh-as-root",
                f"the container `{NODE}` of the job `{job.name}` runs as root",
                _REFUSED_TO_ROOT,
                "run it as another user, who has a name in the image",
                Severity.WARNING,
                value=0,
            )


@check("mpi/ssh-key-group", severity=WARNING, needs=MpiRuntime, since="trainer 2.3")
def ssh_key_group(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report an ssh key that the user of the pods may not read.

    The pods run as a user other than root, without `fsGroup`, and so the key belongs to a group that this user is
    perhaps not in. (On OpenShift `restricted-v2` names both, and the runtime neither.) Trainer 2.2 let everybody
    read the key.

    Source: k8s.io/kubernetes v1.34.2 pkg/volume/volume_linux.go ChangePermissions; trainer pull request 3748
    """
    for job in runtime.pair:
        security = mapping(job.pod, "securityContext")
        user, group = _said(job, "runAsUser"), _said(job, "runAsGroup")
        is_in_group = (group and group[1] == 0) or 0 in items(security.get("supplementalGroups"))
        if user and user[1] != 0 and "fsGroup" not in security and not is_in_group:
            yield Breach(
                (*job.pod_path, "securityContext"),
                "mpi/ssh-key-group",
                f"the pods of the job `{job.name}` run as `{user[1]}` and have no `fsGroup`",
                "the key is a file of root and its group, so whoever is not in that group cannot read it",
                f"write `fsGroup: {user[1]}` beside it",
                Severity.WARNING,
            )


def _said(job: ReplicatedJob, field: str) -> tuple[Path, int] | None:
    """Where the user or the group of `node` stands, and which it is: the container has the last word."""
    of_container = [(job.container.path, job.container.body)] if job.container else []
    for path, body in (*of_container, (job.pod_path, job.pod)):
        number = mapping(body, "securityContext").get(field)
        if isinstance(number, int):
            return (*path, "securityContext", field), number
    return None


@check("mpi/open-mpi-5", severity=WARNING, needs=MpiRuntime)
def open_mpi_5(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report variables of Open MPI 4 on a runtime that may have Open MPI 5.

    Trainer tells Open MPI where the hostfile is in variables that Open MPI 5 does not know. It then starts all
    ranks in the launcher, and the TrainJob is Complete. `PRTE_MCA_prte_default_hostfile` tells it, a `--hostfile`
    in the command does too, and for MPICH and Intel MPI `HYDRA_HOST_FILE` and `I_MPI_HYDRA_HOST_FILE`. Another:
    `PRTE_MCA_prte_keep_fqdn_hostnames` is true where the launcher is one of the hosts; Trainer sets its counterpart
    for Open MPI 4, and Open MPI 5 then logs in to itself.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go EnforceMLPolicy; trainer issue 4028
    """
    box = runtime.launcher.container if runtime.launcher else None
    if box and runtime.is_launcher_a_node:
        yield from _full_names(box)
    if not box or box.body.get("envFrom") or _names_hostfile(box):
        return
    yield Breach(
        (*box.path, "env"),
        "mpi/open-mpi-5",
        f"`{LAUNCHER}` does not say to Open MPI 5 where the hostfile is",
        "Trainer says it to Open MPI 4 only: later ones run all ranks in the launcher, unless the command names the "
        "hostfile, and the TrainJob is Complete",
        "add `PRTE_MCA_prte_default_hostfile` with the value `/etc/mpi/hostfile`; Open MPI 4 passes over it",
        Severity.WARNING,
    )


def _full_names(box: Container) -> Iterator[Breach]:
    """The hostfile has names without their domain (trainer v2.3.0 mpi.go buildHostFileConfigMap; issue 4028)."""
    for number, variable in indexed_mappings(box.body.get("env")):
        if variable.get("name") == _KEEP and str(variable.get("value")).lower() in {"1", "true", "t", "yes", "on"}:
            yield Breach(
                (*box.path, "env", number),
                "mpi/open-mpi-5",
                f"`{_KEEP}` is `{variable['value']}`, and the launcher is in the hostfile, by its short name",
                "Open MPI 5 then does not know itself there, and logs in where no sshd is: the job fails, or hangs",
                "write `false`, whatever Trainer sets for Open MPI 4 (`OMPI_MCA_orte_keep_fqdn_hostnames`)",
                Severity.WARNING,
                value=variable["value"],
            )


def _names_hostfile(box: Container) -> bool:
    command = " ".join((*strings(box.body.get("command")), *strings(box.body.get("args"))))
    return any(word in command for word in _HOSTFILE_WORDS) or any(name in env.HOSTFILES for _, name in box.variables)


@check("mpi/overridden-variable", severity=WARNING, needs=MpiRuntime)
def overridden_variable(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a variable of the launcher that Trainer overrides.

    A variable of the launcher that Trainer sets itself. What the runtime says is lost.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go EnforceMLPolicy; pkg/apply/apply.go
    UpsertEnvVars
    """
    box = runtime.launcher.container if runtime.launcher else None
    for path, name in box.variables if box else ():
        if name in env.RESERVED_BY_TRAINER:
            fix = "remove it"
            if name == env.OMPI_MCA_plm_rsh_args:
                fix += ", and say ssh's port and options in the `ssh_config` of the image"
            why = "Trainer writes its own value in its place"
            yield Breach(path, "mpi/overridden-variable", f"`{name}` is set", why, fix, Severity.WARNING, value=name)


_FIRST = ("nvidia.com/gpu", "google.com/tpu")
_MIG = "nvidia.com/mig-"
_LAST = ("huawei.com/Ascend910", "cpu")


@check("mpi/launcher-resources", severity=ERROR, needs=MpiRuntime)
def launcher_resources(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a launcher with ranks and fewer resources than the other hosts.

    With `runLauncherAsNode` the launcher runs as many ranks as each other host. It needs the same devices; less CPU
    or memory is a warning.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go buildHostFileConfigMap
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
    return format_value(amounts[name]) if name in amounts else "nothing"


def _amount(value: object) -> Fraction | None:
    """Return the amount of a resource, 0 where none is set; None if it is no amount."""
    from generator.quantities import amount_of  # with `fractions` it takes 3 ms, and most runtimes never come here

    return amount_of(value or 0)


@check("mpi/guessed-processes", severity=WARNING, needs=MpiRuntime)
def guessed_processes(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a number of processes per host that Trainer and the SDK guess differently.

    `numProcPerNode` is 1 or not there, and the hosts have several GPUs. Trainer takes this for "one process for
    each", but not always, and the Kubeflow SDK never does.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go EnforceMLPolicy; pkg/runtime/runtime.go numGPU
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


@check("mpi/sdk", severity=WARNING, needs=MpiRuntime)
def sdk(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a runtime that the Kubeflow SDK ignores or cannot read.

    `list_runtimes()` of the Kubeflow SDK 0.5 passes over a runtime without a framework label, and raises, whatever
    else there is, if the container of the launcher has no image or its limits name nothing that it knows.

    Source: kubeflow 0.5.0 trainer/backends/kubernetes/backend.py list_runtimes; utils.py get_runtime_trainer,
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
        message = f"the limits of `{NODE}` name several kinds of slices: {', '.join(map(format_value, slices))}"
        yield _unseen(path, message, all_fail, "ask for one kind")
    elif not any(name in limits for name in _LAST):
        message = (
            f"the limits of `{NODE}` name nothing that the Kubeflow SDK knows: {', '.join(map(format_value, limits))}"
        )
        yield _unseen(path, message, all_fail, "limit `cpu` too")


def _unseen(path: tuple[str | int, ...], message: str, why: str, fix: str) -> Breach:
    return Breach(path, "mpi/sdk", message, why, fix, Severity.WARNING)


_TRAINER = "trainer.kubeflow.org"
_SHARED = {"ReadWriteMany", "ReadOnlyMany"}


@check("mpi/one-node-volume", severity=WARNING, needs=Objects)
def one_node_volume(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a volume of one node that hosts on several nodes mount.

    A runtime mounts a claim on the hosts of its jobs, and the claim, in a namespace where it can run, is of a
    volume that one node (`ReadWriteOnce`) or one pod (`ReadWriteOncePod`) has at a time. Hosts on other nodes wait
    for it.

    Source: kubernetes v1.34.2 pkg/volume/util/util.go `IsMultiAttachAllowed`
    """
    mounted = _mounted(gathered)
    for claim in gathered.of("", "PersistentVolumeClaim"):
        modes = mapping(claim.body, "spec").get("accessModes")
        runtime = mounted.get(("", claim.name)) or mounted.get((claim.namespace, claim.name))
        if runtime is None or not isinstance(modes, list) or not modes or _SHARED & {str(mode) for mode in modes}:
            continue
        yield (
            claim,
            Breach(
                ("spec", "accessModes"),
                "mpi/one-node-volume",
                f"{format_value(', '.join(map(str, modes)))}, and the hosts of jobs of `{runtime}` mount it together",
                "a node keeps it from all others, where pods then wait for it",
                "write ReadWriteMany, of a class that can, such as CephFS or NFS, or ReadOnlyMany to read only",
                Severity.WARNING,
                value=modes,
            ),
        )


def _mounted(gathered: Objects) -> Mapping[tuple[str, str], str]:
    """Namespace, none where in any, and claim → the first runtime for MPI that mounts it on its hosts."""
    found: dict[tuple[str, str], str] = {}
    for manifest in gathered.of(_TRAINER, "ClusterTrainingRuntime", "TrainingRuntime"):
        runtime = mpi_runtime(manifest.body)
        for job in runtime.pair if runtime else ():
            for claim in _claims(job):
                found.setdefault((manifest.namespace, claim), manifest.name)
    return found


def _claims(job: ReplicatedJob) -> Iterator[str]:
    for _, volume in indexed_mappings(job.pod.get("volumes")):
        claim: Any = mapping(volume, "persistentVolumeClaim").get("claimName")
        if isinstance(claim, str):
            yield claim
