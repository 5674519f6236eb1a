"""Test checks of pods on fabrics, in kinds that have no schema here and no check cases."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml

from generator.checks import run
from generator.checks.fabric.host import lifts_limit
from generator.checks.finding import Breach
from generator.manifests import Manifest
from generator.objects.pods import is_fabric

MPI_JOB = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: train, namespace: team-cv}
spec:
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec:
          containers:
          - name: launcher
            image: a
            command: [mpirun, -x, NCCL_DEBUG, python, train.py]
            env:
            - {name: NCCL_DEBUG, value: WARN}
            - {name: OMPI_MCA_btl_tcp_if_include, value: eth0}
            - {name: OMPI_MCA_oob_tcp_if_include, value: eth0}
    Worker:
      replicas: 2
      template:
        metadata: {annotations: {k8s.v1.cni.cncf.io/networks: roce}}
        spec:
          initContainers: [{name: limit, image: a, command: [sh, -c, ulimit -l]}]
          containers:
          - name: worker
            image: a
            resources: {limits: {nvidia.com/gpu: 8, openshift.io/roce: 1}}
            volumeMounts: [{name: shm, mountPath: /dev/shm/}]
          volumes: [{name: shm, emptyDir: {medium: Memory}}]
"""


def manifest(text: str) -> Manifest:
    return Manifest(yaml.safe_load(text), "x.yaml")


def find_breaches(*texts: str) -> list[Breach]:
    return [breach for _, breach in run.judge_together([manifest(text) for text in texts], {})]


def checks(*changes: tuple[str, str]) -> list[str]:
    text = MPI_JOB
    for before, after in changes:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return [breach.check for breach in find_breaches(text)]


ON_WORKER = (
    "- name: worker\n            image: a",
    "- name: worker\n            image: a\n            env: [{name: NCCL_NET, value: IB}]",
)
ON_LAUNCHER = ("value: WARN}", "value: WARN}\n            - {name: NCCL_NET, value: IB}")


def test_a_valid_mpijob_has_no_findings() -> None:
    assert checks() == []


@pytest.mark.parametrize(
    ("changes", "lost"),
    [
        ([ON_WORKER], 1),
        ([ON_LAUNCHER], 1),
        ([ON_LAUNCHER, ON_WORKER], 1),
        ([ON_LAUNCHER, ON_WORKER, ("-x, NCCL_DEBUG", "-x, NCCL_DEBUG, -x, NCCL_NET")], 0),
        ([ON_WORKER, ("-x, NCCL_DEBUG", "-x, NCCL_DEBUG, -x, NCCL_NET=IB")], 0),
        ([ON_LAUNCHER, ("-x, NCCL_DEBUG", "-x, NCCL_DEBUG, --mca, mca_base_env_list, NCCL_NET")], 0),
        ([ON_LAUNCHER, ("[mpirun, -x", "[/start.sh, -x")], 0),
        (
            [
                ON_LAUNCHER,
                ON_WORKER,
                ("mountPath: /dev/shm/}", "mountPath: /dev/shm}, {name: n, mountPath: /etc/nccl.conf}"),
            ],
            0,
        ),
        ([ON_LAUNCHER, ON_WORKER, ("spec:\n  mpi", "spec:\n  mpiImplementation: Intel\n  mpi")], 0),
        ([ON_WORKER, ("- name: worker\n", "- name: worker\n            command: [/entrypoint.sh]\n")], 0),
        (
            [
                ON_WORKER,
                (
                    "- name: worker\n",
                    "- name: worker\n            command: [sh, -c, env > /etc/environment; /usr/sbin/sshd -De]\n",
                ),
            ],
            0,
        ),
        (
            [
                ON_WORKER,
                (
                    "- name: worker\n",
                    "- name: worker\n            command: [sh, -c, mkdir /run/sshd; /usr/sbin/sshd -De]\n",
                ),
            ],
            1,
        ),
    ],
)
def test_mpijob_variables_reach_ranks_only_through_the_launcher(changes: list[tuple[str, str]], lost: int) -> None:
    assert checks(*changes).count("fabric/environment-lost") == lost


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ([("OMPI_MCA_btl_tcp_if_include", "A")], "OMPI_MCA_btl_tcp_if_include"),
        ([("OMPI_MCA_oob_tcp_if_include", "A")], "OMPI_MCA_oob_tcp_if_include"),
        ([("OMPI_MCA_oob_tcp_if_include", "PRTE_MCA_prte_if_include")], ""),
        (
            [
                ("OMPI_MCA_btl_tcp_if_include", "A"),
                ("-x, NCCL_DEBUG", "--mca, btl_tcp_if_exclude, net1, -x, NCCL_DEBUG"),
            ],
            "",
        ),
        ([("OMPI_MCA_btl_tcp_if_include", "A"), ("k8s.v1.cni.cncf.io/networks: roce", "a: b")], ""),
        ([("OMPI_MCA_btl_tcp_if_include", "HYDRA_LAUNCHER")], "HYDRA_IFACE"),
        ([("OMPI_MCA_btl_tcp_if_include", "I_MPI_HYDRA_BOOTSTRAP")], "I_MPI_HYDRA_IFACE"),
        (
            [
                ("OMPI_MCA_btl_tcp_if_include", "A"),
                ("command: [mpirun", "envFrom: [{configMapRef: {name: mpi}}]\n            command: [mpirun"),
            ],
            "",
        ),
        (
            [
                ("OMPI_MCA_btl_tcp_if_include", "A"),
                (
                    "command: [mpirun",
                    "volumeMounts: [{name: a, mountPath: /etc/openmpi-mca-params.conf}]\n            command: [mpirun",
                ),
            ],
            "",
        ),
    ],
)
def test_mpi_uses_the_pod_network_for_control_traffic(changes: list[tuple[str, str]], missing: str) -> None:
    text = MPI_JOB
    for before, after in changes:
        text = text.replace(before, after)
    messages = [breach.message for breach in find_breaches(text) if breach.check == "fabric/control-network"]
    assert [missing in message for message in messages] == ([True] if missing else [])


POD = """
apiVersion: %s
kind: %s
metadata: {name: a, namespace: b}
spec:
  template:
    spec:
      hostNetwork: true
      containers: [{name: a, securityContext: {privileged: true}, resources: {limits: {rdma/hca: 1}}}]
"""


def test_nccl_ignores_infiniband_variables_with_gpudirect_tcpxo() -> None:
    text = MPI_JOB.replace("NCCL_DEBUG, value: WARN", "NCCL_IB_HCA, value: =mlx5_0").replace(
        "-x, NCCL_DEBUG", "-x, NCCL_IB_HCA"
    )
    assert find_breaches(text) == []
    tcpxo = text.replace("k8s.v1.cni.cncf.io/networks: roce", "devices.gke.io/container.tcpxo-daemon: /dev/nvidia0")
    assert "fabric/environment" in {breach.check for breach in find_breaches(tcpxo)}


def test_node_access_of_a_daemonset_is_allowed() -> None:
    assert find_breaches(POD % ("apps/v1", "DaemonSet")) == []
    assert [breach.check for breach in find_breaches(POD % ("batch/v1", "Job"))] == ["fabric/host-access"]


SHM = """
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: b}
spec:
  hostIPC: true
  containers: [{name: a, volumeMounts: [{name: s, mountPath: /dev/shm}], resources: {limits: {nvidia.com/gpu: 1}}}]
  volumes: [{name: s, hostPath: {path: /dev/shm}}]
"""


def test_any_pod_with_the_shared_memory_of_the_node_is_reported() -> None:
    assert [breach.check for breach in find_breaches(SHM)] == ["fabric/shm"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rdma/hca_shared_devices_a", True),
        ("openshift.io/anything", True),
        ("vpc.amazonaws.com/efa", True),
        ("nvidia.com/mlnxnics", True),
        ("nvidia.com/rdma-vf", True),
        ("nvidia.com/hostdev", True),
        ("nvidia.com/ib_vf", True),
        ("intel.com/intel_sriov_netdevice", True),
        ("nvidia.com/gpu", False),
        ("nvidia.com/mig-1g.10gb", False),
        ("nvidia.com/GH100_H100_SXM5_80GB", False),
        ("amd.com/gpu", False),
        ("example.com/fpga", False),
        ("cpu", False),
    ],
)
def test_network_devices_are_recognized_by_name(name: str, expected: bool) -> None:
    assert is_fabric(name) is expected


CRIO = b'[crio.runtime]\ndefault_ulimits = ["memlock=-1:-1"]\n'


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"storage": {"files": [{"path": "/a", "contents": {"source": f"data:,{CRIO.decode()}"}}]}}, True),
        (
            {
                "storage": {
                    "files": [{"path": "/a", "contents": {"source": f"data:;base64,{base64.b64encode(CRIO).decode()}"}}]
                }
            },
            True,
        ),
        ({"storage": {"files": [{"path": "/etc/security/limits.d/99-memlock.conf"}]}}, True),
        ({"systemd": {"units": [{"name": "crio.service", "contents": "[Service]\nLimitMEMLOCK=infinity"}]}}, True),
        ({"systemd": {"units": [{"name": "crio.service", "dropins": [{"contents": "LimitMEMLOCK=infinity"}]}]}}, True),
        ({"storage": {"files": [{"path": "/a", "contents": {"source": "data:;base64,a"}}]}}, False),
        ({"storage": {"files": [{"path": "/a", "contents": {"source": "https://a/memory"}}]}}, False),
        ({}, False),
    ],
)
def test_a_machine_config_can_lift_the_limit_of_locked_memory(config: dict[str, Any], expected: bool) -> None:
    body = {"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "spec": {"config": config}}
    assert lifts_limit(Manifest(body, "x.yaml")) is expected
