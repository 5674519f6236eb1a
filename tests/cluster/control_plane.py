"""Start a control plane in order: etcd, API server, the rest of Kubernetes, the controllers."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

import yaml

from generator.config.model.fabrics import Fabric
from generator.config.model.queues import Queues
from generator.policies.audit import FLAGS, audit
from tests.cluster.build import build
from tests.cluster.certificates import Certificates, make_certificates
from tests.cluster.client import Client, RefusedError
from tests.cluster.controllers import Controller, kubeconfig
from tests.cluster.definitions import definitions
from tests.cluster.install import install, render
from tests.cluster.processes import Processes, free_ports, listens
from tests.cluster.versions import Versions
from tests.regulated import regulated_platform

FINISH = "tests.mpigen.dev/finish"
"""The annotation that makes a pod end well."""
KUBELET = "kubelet"
"""Starts the name of each real node, and names the kubeconfig file of its programs."""
REAL = "tests.mpigen.dev/kubelet"
"""The label of a node with a kubelet. Kwok does not touch such a node or its pods."""
AUDIT_LOG = "audit.log"
"""The API server's audit log, in the folder of all logs."""
_OF_KUBERNETES = ("kube-controller-manager", "kube-scheduler")
"""Admission policies depend on the user names of these programs, so they are the same as in every cluster."""
_ISSUER = "https://kubernetes.default.svc"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A control plane that runs.

    Attributes:
        versions: what it consists of.
        admin: a client that may do everything.
        processes: what runs, with the logs.
        kueue: how Kueue was started.
        certificates: what everybody is known by.
    """

    versions: Versions
    admin: Client
    processes: Processes
    kueue: Controller
    certificates: Certificates

    @contextmanager
    def told(self, queues: Queues, fabrics: Sequence[Fabric] = ()) -> Iterator[None]:
        """Restart Kueue with the configuration of another platform, and restore it afterwards."""
        self._restart(replace(self.kueue, queues=queues, fabrics=fabrics))
        try:
            yield
        finally:
            self._restart(self.kueue)

    def _restart(self, kueue: Controller) -> None:
        self.processes.end(kueue.program.name)
        kueue.start(self.admin, self.processes, self.certificates)
        self.processes.wait(kueue.program.name, kueue.is_ready)


@contextmanager
def running(versions: Versions, folder: Path) -> Iterator[Cluster]:
    """A control plane with its data and logs in an empty folder, gone afterwards."""
    for program in versions.control_plane:
        build(program)
    processes = Processes(folder)
    try:
        yield _start(versions, processes)
    finally:
        processes.stop()


def _start(versions: Versions, processes: Processes) -> Cluster:
    certificates = make_certificates(processes.folder / "k8s-webhook-server" / "serving-certs")
    names = [program.name for program in versions.programs.values() if program.configuration]
    ports = iter(free_ports(2 * len(names)))
    controllers = [Controller(versions[name], next(ports), next(ports)) for name in names]
    with ThreadPoolExecutor() as meanwhile:
        rendered = meanwhile.map(partial(Controller.objects, bundle=certificates.bundle), controllers)
        kinds = meanwhile.submit(definitions, versions)
        admin = _start_api_server(versions, processes, certificates)
    objects, webhooks = zip(*rendered, strict=True)
    install(admin, chain(kinds.result(), *objects))  # all: Trainer asks when it starts which kinds are served
    for controller in controllers:
        controller.start(admin, processes, certificates)
    _start_kubernetes_controllers(versions, processes, certificates)
    for controller in controllers:
        processes.wait(controller.program.name, controller.is_ready)
    install(admin, chain(*webhooks))
    kueue = next(controller for controller in controllers if controller.program.name == "kueue")
    return Cluster(versions, admin, processes, kueue, certificates)


def _start_api_server(versions: Versions, processes: Processes, certificates: Certificates) -> Client:
    program, folder = build(versions["kubernetes"]), processes.folder
    etcd, peer, secure = free_ports(3)
    bearer = secrets.token_hex()
    known = [f'{bearer},admin,admin,"system:masters"']
    (folder / "admin.kubeconfig").write_text(kubeconfig(secure, certificates, bearer))
    for name in _OF_KUBERNETES:
        own = secrets.token_hex()
        known.append(f"{own},system:{name},{name}")
        (folder / f"{name}.kubeconfig").write_text(kubeconfig(secure, certificates, own))
    own = secrets.token_hex()
    known.append(f'{own},system:node:{KUBELET},{KUBELET},"system:nodes"')
    (folder / f"{KUBELET}.kubeconfig").write_text(kubeconfig(secure, certificates, own))
    (folder / "tokens.csv").write_text("\n".join(known))
    processes.start("etcd", [program, "etcd", *_etcd(etcd, peer, folder)])
    processes.wait("etcd", lambda: listens(etcd))
    processes.start("kube-apiserver", [program, "kube-apiserver", *_apiserver(etcd, secure, folder, certificates)])
    client = Client(secure, ssl.create_default_context(cafile=str(certificates.authority))).with_token(bearer)
    processes.wait("kube-apiserver", lambda: _is_ready(client))
    return client


def _start_kubernetes_controllers(versions: Versions, processes: Processes, certificates: Certificates) -> None:
    """Once all kinds are served: quotas and garbage collection look for new ones only every half minute."""
    program = build(versions["kubernetes"])
    managing, scheduling = free_ports(2)
    options = {
        "kube-controller-manager": _controller_manager(managing, certificates),
        "kube-scheduler": [f"--secure-port={scheduling}"],
    }
    for name in _OF_KUBERNETES:
        common = [f"--kubeconfig={processes.folder / f'{name}.kubeconfig'}", "--leader-elect=false"]
        processes.start(name, [program, name, *common, "--bind-address=127.0.0.1", *options[name]])
    _start_kubelet(versions, processes, processes.folder / "admin.kubeconfig")


def _etcd(port: int, peer: int, folder: Path) -> list[str]:
    return [
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls=http://127.0.0.1:{port}",
        f"--advertise-client-urls=http://127.0.0.1:{port}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-cluster=default=http://127.0.0.1:{peer}",
        "--unsafe-no-fsync",
    ]


def _apiserver(etcd: int, port: int, folder: Path, certificates: Certificates) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        f"--tls-cert-file={certificates.certificate}",
        f"--tls-private-key-file={certificates.key}",
        f"--service-account-issuer={_ISSUER}",
        f"--service-account-key-file={certificates.service_accounts}",
        f"--service-account-signing-key-file={certificates.service_accounts}",
        "--service-cluster-ip-range=10.0.0.0/24",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--kubelet-preferred-address-types=InternalIP",  # DNS has no names of nodes here
        "--allow-privileged",
        *_audit(folder),
    ]


def _audit(folder: Path) -> list[str]:
    """Return the API server's audit flags of a regulated platform."""
    policy = audit(regulated_platform())
    file = folder / "audit-policy.yaml"
    file.write_text(yaml.safe_dump(policy))
    flags = policy["metadata"]["annotations"][FLAGS].split()
    return [f"--audit-policy-file={file}", f"--audit-log-path={folder / AUDIT_LOG}", *flags]


def _controller_manager(port: int, certificates: Certificates) -> list[str]:
    return [
        "--controllers=*",
        "--node-monitor-grace-period=24h",  # a node stays ready, because kwok without leases renews nothing
        "--use-service-account-credentials",
        f"--secure-port={port}",
        f"--root-ca-file={certificates.authority}",
        f"--service-account-private-key-file={certificates.service_accounts}",
    ]


def _start_kubelet(versions: Versions, processes: Processes, admin: Path) -> None:
    """Kwok makes every Node ready and runs every pod; a pod ends when a test annotates it.

    Kwok holds no leases. With leases, it ignores the pods of a node until it holds the lease of the node. Kubernetes
    deletes the lease of a deleted node late, so kwok can lose the lease of a new node with the same name (kwok v0.8.0
    pkg/kwok/controllers/controller.go Controller.initNodeLeaseController).
    """
    stages = render(versions["kwok"])
    for stage in stages:
        if stage["metadata"]["name"] == "pod-complete":
            told = {"key": f'.metadata.annotations["{FINISH}"]', "operator": "Exists"}
            stage["spec"]["selector"]["matchExpressions"].append(told)
    file = processes.folder / "stages.yaml"
    file.write_text(yaml.safe_dump_all(stages))
    options = [
        f"--kubeconfig={admin}",
        f"--config={file}",
        f"--manage-nodes-with-label-selector=!{REAL}",
        "--node-lease-duration-seconds=0",
    ]
    processes.start("kwok", [build(versions["kwok"]), *options])


def _is_ready(client: Client) -> bool:
    try:
        return client.request("GET", "/readyz").body == {"message": "ok"}
    except (OSError, RefusedError):
        return False
