"""The pods of a TrainJob without a control plane: mpigen compiles them, which tests/cluster/test_compile.py tests."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Self

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from generator import Manifest, pipeline
from generator.upstream.compile import Compiled, compile_job, find_runtime
from tests.cluster.client import Body
from tests.cluster.mpi.images import Image
from tests.cluster.mpi.runner import Outcome, Runner, Surroundings

TARGETS: Mapping[str, str] = {}
NAMESPACE = "team-mpi"
_NOTHING_AROUND = Surroundings()


@dataclass(frozen=True)
class OfflineJob:
    """A TrainJob on a runtime of a platform file.

    Attributes:
        body: the TrainJob.
        manifests: the manifests of the platform.
        others: the objects that the user creates with the TrainJob, such as the ConfigMap with its program.
        slots: ranks of each host, in the order of the hostfile; empty for the slots of the runtime.
    """

    body: Body
    manifests: Sequence[Manifest]
    others: Sequence[Body] = ()
    slots: Sequence[int] = ()

    @classmethod
    def on(
        cls,
        runtime: str,
        command: Sequence[str],
        manifests: Sequence[Manifest],
        *,
        hosts: int = 3,
        slots: Sequence[int] = (),
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> Self:
        """Return a job that runs a command.

        Args:
            runtime: the name of the runtime.
            command: the command of the launcher.
            manifests: the manifests of the platform.
            hosts: the number of pods that run ranks.
            slots: ranks of each host, in the order of the hostfile; empty for the slots of the runtime.
            variables: environment variables of the TrainJob.
        """
        trainer: Body = {"numNodes": hosts, "command": [*command]}
        trainer["env"] = [{"name": name, "value": value} for name, value in variables.items()]
        body: Body = {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {"name": "job", "namespace": NAMESPACE},
            "spec": {"runtimeRef": {"name": runtime}, "trainer": trainer},
        }
        return cls(body, manifests, slots=slots)

    @property
    def runtime(self) -> str:
        """Return the name of the runtime."""
        return str(self.body["spec"]["runtimeRef"]["name"])

    @cached_property
    def compiled(self) -> Compiled:
        """Return the objects that the controllers create for the TrainJob."""
        job = Manifest(self.body, "job.yaml")
        runtime = find_runtime(job, self.manifests)
        assert isinstance(runtime, Manifest), runtime
        return compile_job(job, runtime, TARGETS)

    @property
    def waves(self) -> list[list[Body]]:
        """Return the pods in the order in which they start: the worker pods, then the launcher."""
        pods = [{**pod, "metadata": {**pod["metadata"], "name": _name(pod)}} for _, pod in self.compiled.pods]
        launchers = [pod for pod in pods if "-launcher-" in pod["metadata"]["name"]]
        return [[pod for pod in pods if pod not in launchers], launchers]

    @property
    def launcher(self) -> Body:
        """Return the pod of `mpirun`."""
        return self.waves[-1][0]

    def run(
        self,
        image: Callable[[str], Image],
        folder: Path,
        change: Callable[[Body], Body] = lambda pod: pod,
        seconds: float = 120,
        around: Surroundings = _NOTHING_AROUND,
        claims: Mapping[str, Path] = MappingProxyType({}),
    ) -> Outcome:
        """Run the pods, after an optional change of each, and return their outcome."""
        objects = {(one["kind"], one["metadata"]["name"]): one for one in self._objects()}
        runner = Runner(lambda _, kind, name: objects[kind, name], image, claims=claims)
        return runner.run([[change(pod) for pod in wave] for wave in self.waves], folder, seconds, around)

    def _objects(self) -> list[Body]:
        return [*self.others, *(self._with_data(body) for body in self.compiled.others)]

    def _with_data(self, body: Body) -> Body:
        """Return the Secret with a key as Trainer generates it, and the hostfile with the slots of this job."""
        if body["kind"] == "Secret":
            return {**body, "data": {name: base64.b64encode(value).decode() for name, value in _key().items()}}
        if body["kind"] == "ConfigMap" and "hostfile" in body["data"] and self.slots:
            lines = zip(self.compiled.hosts, self.slots, strict=True)
            return {**body, "data": {"hostfile": "".join(f"{host} slots={slots}\n" for host, slots in lines)}}
        return body


def manifests_of(file: Path) -> list[Manifest]:
    """Return the manifests that mpigen makes of a platform file."""
    platform, app = pipeline.load(file)
    return list(pipeline.render(platform, app))


def _name(pod: Body) -> str:
    return str(pod["spec"]["hostname"])


def _key() -> dict[str, bytes]:
    """Return an ssh key (trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go MPI.buildSSHAuthSecret)."""
    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return {"ssh-privatekey": private, "ssh-publickey": public + b"\n"}
