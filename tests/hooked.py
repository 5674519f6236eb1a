"""A runtime that overrides every hook of MpiRuntime, for the recorded manifests and for the control plane."""

from __future__ import annotations

from collections.abc import Iterator

from generator import (
    ConfigMapKey,
    Container,
    Job,
    MpiRuntime,
    Pod,
    PodField,
    Probe,
    Role,
    SecretKey,
    Security,
    Volume,
)

CACHE = Volume("cache", {"emptyDir": {"sizeLimit": "50Gi"}}, "/cache")
DATASET = Volume("dataset", {"persistentVolumeClaim": {"claimName": "dataset", "readOnly": True}}, "/dataset")


class AllHooks(MpiRuntime):
    """A runtime whose hooks use every attribute of every value."""

    def environment(self) -> dict[str, str | SecretKey | ConfigMapKey]:
        """Return a plain variable, and two from other objects."""
        return {
            "HTTPS_PROXY": "http://proxy.example.com:3128",
            "HUB_TOKEN": SecretKey("hub", "token"),
            "LICENSE_SERVER": ConfigMapKey("site", "license-server", optional=True),
        }

    def volumes(self) -> list[Volume]:
        """Return the cache of the ranks."""
        return [CACHE]

    def resources(self, role: Role) -> dict[str, str | int]:
        """Return a smaller request, which leaves room for the sidecar."""
        return {"cpu": 8, "memory": "32Gi"} if role.runs_ranks else {"cpu": 2}

    def init_containers(self, role: Role) -> Iterator[Container]:
        """Yield a container that copies a dataset to the cache of each pod with ranks."""
        if role.runs_ranks:
            command = ["/bin/sh", "-c", "cp -r /dataset/. /cache"]
            yield Container("stage", command=command, resources={"cpu": 2, "memory": "1Gi"}, volumes=[CACHE, DATASET])

    def sidecars(self, role: Role) -> list[Container]:
        """Return an exporter of metrics."""
        exporter = Container(
            "exporter",
            image="registry.example.com/exporter:1",
            args=["--listen", ":9400"],
            env={"NODE_NAME": PodField("spec.nodeName"), "LOG_LEVEL": "info"},
            ports={"metrics": 9400},
            startup_probe=Probe(command=["/bin/exporter", "--ready"], initial_delay_seconds=1),
            readiness_probe=Probe(port=9400, path="/ready", period_seconds=10),
            liveness_probe=Probe(port=9400, timeout_seconds=2, failure_threshold=5),
            image_pull_policy="IfNotPresent",
            working_dir="/tmp",
            security_context={"readOnlyRootFilesystem": True},
        )
        return [exporter] if role.name == "node" else []

    def containers(self, role: Role) -> list[Container]:
        """Return the change of the main container, and a further container of the worker pods."""
        main = Container("node", image_pull_policy="Always", fields={"stdin": True})
        return [main, Container("watch")] if role.name == "node" else [main]

    def pod(self, role: Role) -> Pod:
        """Return labels, annotations and fields of the pods."""
        term = {"matchExpressions": [{"key": "example.com/broken", "operator": "DoesNotExist"}]}
        return Pod(
            labels={"example.com/part": role.name},
            annotations={"prometheus.io/scrape": "true"},
            node_selector={"example.com/cooled": "yes"} if role.runs_ranks else {},
            tolerations=[{"key": "example.com/batch", "operator": "Exists", "effect": "NoSchedule"}],
            affinity={
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
            },
            priority_class_name="training",
            runtime_class_name="nvidia",
            host_aliases={"203.0.113.7": ["licences.example.com"]},
            image_pull_secrets=["mirror"],
            fields={"shareProcessNamespace": False},
        )

    def security(self, role: Role) -> Security:
        """Return the ids of the site."""
        del role
        return Security(
            run_as_user=4711,
            run_as_group=4711,
            fs_group=4711,
            supplemental_groups=[44],
            sysctls={"net.ipv4.ip_local_port_range": "1024 65535"},
            fields={"fsGroupChangePolicy": "OnRootMismatch"},
        )

    def job(self, role: Role) -> Job:
        """Return labels and fields of the Job."""
        return Job(
            labels={"example.com/part": role.name},
            annotations={"example.com/owner": "hpc"},
            backoff_limit=3 if role.name == "node" else None,
            active_deadline_seconds=None if role.name == "node" else 3600,
            fields={"podReplacementPolicy": "Failed"},
        )
