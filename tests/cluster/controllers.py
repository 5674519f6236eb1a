"""Run Trainer, JobSet and Kueue as plain processes, with the rights of their ServiceAccounts.

Trainer and JobSet have their upstream settings, Kueue has the settings that mpigen renders.
"""

from __future__ import annotations

import copy
import http.client
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from generator.config.model.cluster import Cluster
from generator.config.model.fabrics import Fabric
from generator.config.model.queues import Queues
from generator.kueue.configuration import KEY, kueue_object
from tests.cluster.build import build
from tests.cluster.certificates import Certificates
from tests.cluster.client import Body, Client
from tests.cluster.install import controller_objects
from tests.cluster.modules import module_folder
from tests.cluster.processes import Processes
from tests.cluster.versions import Program


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller, and its ports and settings.

    Attributes:
        program: the upstream program.
        webhook_port: port of its webhooks.
        health_port: port of its readiness probe.
        queues: Kueue settings of the platform.
        fabrics: fabrics of the platform.
    """

    program: Program
    webhook_port: int
    health_port: int
    queues: Queues = field(default_factory=Queues)
    fabrics: Sequence[Fabric] = ()

    def objects(self, bundle: str) -> tuple[list[Body], list[Body]]:
        """Return the objects to install before any controller starts, and the webhooks to install afterwards."""
        return controller_objects(self.program, self.webhook_port, bundle)

    def start(self, client: Client, processes: Processes, certificates: Certificates) -> None:
        """Start it with its own rights."""
        folder, name = processes.folder, self.program.name
        settings, account = folder / f"{name}.yaml", folder / f"{name}.kubeconfig"
        settings.write_text(yaml.safe_dump(self.settings(certificates)))
        account.write_text(kubeconfig(client.port, certificates, token(client, self.program)))
        command: list[str | Path] = [build(self.program), f"--config={settings}", *self.program.options]
        environment = {
            "KUBECONFIG": str(account),
            "TMPDIR": str(folder),
            "KUEUE_METRICS_CERTS": str(certificates.folder),
        }
        processes.start(name, command, environment)

    def settings(self, certificates: Certificates) -> Body:
        """The settings of an install; only addresses, certificates and the election are the tests'."""
        installed = yaml.safe_load(self._installed())
        ours: Body = {
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self.health_port}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"port": self.webhook_port, "host": "127.0.0.1"},
            "leaderElection": {"leaderElect": False},
            self.program.certificates: {"enable": False},
        }
        if self.program.name == "kueue":
            ours["webhook"]["certDir"] = str(certificates.folder)
        return _merged(installed, ours)

    def _installed(self) -> str:
        """The file that the controller would find in its container."""
        if self.program.name == "kueue":
            return told(self.queues, self.program, self.fabrics)
        return (module_folder(self.program) / self.program.configuration).read_text()

    def is_ready(self) -> bool:
        """Return True if the controller answers on its health port."""
        try:
            with closing(http.client.HTTPConnection("127.0.0.1", self.health_port, timeout=2)) as server:
                server.request("GET", "/readyz")
                return server.getresponse().status == http.client.OK
        except OSError:
            return False


def told(queues: Queues, kueue: Program, fabrics: Sequence[Fabric] = ()) -> str:
    """The configuration of Kueue that mpigen emits for a platform on Kubernetes."""
    cluster = Cluster.model_validate({"versions": {"kueue": kueue.minor}})
    return str(kueue_object(queues, cluster, fabrics)["data"][KEY])


def token(client: Client, program: Program) -> str:
    """A real token of the program's ServiceAccount."""
    path = f"/api/v1/namespaces/{program.namespace}/serviceaccounts/{program.account}/token"
    wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86400}}
    return str(client.request("POST", path, wanted).body["status"]["token"])


def kubeconfig(port: int, certificates: Certificates, bearer: str) -> str:
    """The text of a kubeconfig file for one user."""
    server = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": certificates.bundle}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": server}],
            "users": [{"name": "me", "user": {"token": bearer}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        }
    )


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> Body:
    merged = copy.deepcopy(dict(base))
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged
