"""mpi/*: do the containers of an MPI runtime find what ssh and MPI need?"""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.finding import Breach, Severity
from generator.checks.mpi_runtime import LAUNCHER, MPI, NODE, Container, MpiRuntime, ReplicatedJob
from generator.documents.load import Path
from generator.documents.syntax import shown
from generator.facts import env
from generator.facts.names import MPI_FOLDER
from generator.objects.fields import indexed_mappings, items, mapping, strings

_REFUSED_TO_ROOT = "ssh refuses a key to root that root's group may read, as Trainer mounts it"
_KEEP = env.PRTE_MCA_prte_keep_fqdn_hostnames
_HOSTFILE_WORDS = ("hostfile", "machinefile", MPI_FOLDER)


def ssh_as_root(runtime: MpiRuntime) -> Iterator[Breach]:
    """Trainer mounts the key as root's file with mode 0640, which OpenSSH refuses to root alone.

    trainer v2.3.0 pkg/constants/constants.go MPISSHPrivateKeyFileMode; openssh-portable authfile.c sshkey_perm_ok
    """
    path = runtime.policy.get("sshAuthMountPath") or "/root/.ssh"
    if isinstance(path, str) and f"{path}/".startswith("/root/"):
        is_said = bool(runtime.policy.get("sshAuthMountPath"))
        yield Breach(
            (*MPI, "sshAuthMountPath"),
            "mpi/ssh-as-root",
            f"`sshAuthMountPath` is {shown(path) if is_said else 'not set, so it is `/root/.ssh`'}",
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


def ssh_key_group(runtime: MpiRuntime) -> Iterator[Breach]:
    """Without `fsGroup` the files of a Secret are of root and its group.

    k8s.io/kubernetes v1.34.2 pkg/volume/volume_linux.go ChangePermissions; trainer pull request 3748
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


def open_mpi_5(runtime: MpiRuntime) -> Iterator[Breach]:
    """Trainer speaks to ORTE, which Open MPI 5 replaced by PRRTE: what one is told, the other is not always to be told.

    trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go EnforceMLPolicy; trainer issue 4028
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


def overridden_variable(runtime: MpiRuntime) -> Iterator[Breach]:
    """What Trainer sets, it sets whatever stands there.

    trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go EnforceMLPolicy; pkg/apply/apply.go UpsertEnvVars
    """
    box = runtime.launcher.container if runtime.launcher else None
    for path, name in box.variables if box else ():
        if name in env.RESERVED_BY_TRAINER:
            fix = "remove it"
            if name == env.OMPI_MCA_plm_rsh_args:
                fix += ", and say ssh's port and options in the `ssh_config` of the image"
            why = "Trainer writes its own value in its place"
            yield Breach(path, "mpi/overridden-variable", f"`{name}` is set", why, fix, Severity.WARNING, value=name)
