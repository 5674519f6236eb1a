"""A runtime of the admins' own, and an object that mpigen knows nothing about, beside what base.yaml declares."""

from pathlib import Path

import cdk8s

from generator import App, MpiRuntime, Runtime, Volume, load_platform


class ScratchRuntime(MpiRuntime):
    """Open MPI with a node-local scratch directory for MPI-IO."""

    def environment(self) -> dict[str, str]:
        """Keep TCP on the pod network; Open MPI hands OMPI_MCA_* to the ranks."""
        return {"OMPI_MCA_btl_tcp_if_include": "eth0"}

    def volumes(self) -> list[Volume]:
        """Disappears with the pod."""
        return [Volume("scratch", {"emptyDir": {"sizeLimit": "100Gi"}}, "/scratch")]


app = App(load_platform(Path(__file__).with_name("base.yaml")))
ScratchRuntime(app, "scratch", runtime=Runtime(name="openmpi-scratch", pool="cpu"))
site = cdk8s.Chart(app, "site")
urgent = cdk8s.ApiObject(
    site, "urgent", api_version="scheduling.k8s.io/v1", kind="PriorityClass", metadata={"name": "urgent"}
)
urgent.add_json_patch(cdk8s.JsonPatch.add("/value", 1000))
