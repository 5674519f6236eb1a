"""The values that an admin's hooks add to the pods and Jobs of a runtime, and the YAML of each value.

The attributes have the names of the Kubernetes fields in snake_case. `fields` of a value takes further fields, as in
YAML. A sidecar is an init container with `restartPolicy: Always`, so it never keeps the launcher pod from completing
(kubernetes v1.34.2 pkg/features/kube_features.go SidecarContainers: on since 1.29, and always since 1.33). A further
container would: a pod completes only after all its containers end (kubernetes v1.34.2 pkg/kubelet/kubelet_pods.go
getPhase).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from generator.manifests import Body, omit_none
from generator.quantities import parse
from generator.runtimes.hosts import INIT_CONTAINER_REQUESTS

MAIN = "node"
"""The name of the main container in the pods of both roles."""


@dataclass(frozen=True, slots=True)
class Role:
    """The pods to which a hook adds.

    Attributes:
        name: `launcher` for the pod that runs `mpirun`, `node` for the worker pods.
        runs_ranks: True if ranks run in these pods. It is False only for a separate launcher.
    """

    name: Literal["launcher", "node"]
    runs_ranks: bool


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of pods, and its mount.

    Attributes:
        name: the name, unique in the pod.
        source: the source as in a pod spec, such as `{"emptyDir": {"sizeLimit": "20Gi"}}`.
        mount_path: the absolute path of the mount.
        read_only: True to mount the volume read-only.
    """

    name: str
    source: Mapping[str, object]
    mount_path: str
    read_only: bool = False

    def to_mount(self) -> Body:
        """Return the entry of `volumeMounts`."""
        return {"name": self.name, "mountPath": self.mount_path, "readOnly": self.read_only or None}

    def to_volume(self) -> Body:
        """Return the entry of `volumes`."""
        source: Body = to_plain(self.source)
        return {"name": self.name, **source}


@dataclass(frozen=True, slots=True)
class SecretKey:
    """The value of a variable from a Secret in the namespace of the job.

    Attributes:
        name: the name of the Secret.
        key: the key in the Secret.
        optional: True to start the container without the variable if the Secret lacks the key.
    """

    name: str
    key: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class ConfigMapKey:
    """The value of a variable from a ConfigMap in the namespace of the job.

    Attributes:
        name: the name of the ConfigMap.
        key: the key in the ConfigMap.
        optional: True to start the container without the variable if the ConfigMap lacks the key.
    """

    name: str
    key: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class PodField:
    """The value of a variable from a field of the pod.

    Attributes:
        path: the field, such as `metadata.name` or `spec.nodeName`.
    """

    path: str


EnvValue = str | SecretKey | ConfigMapKey | PodField
"""The value of an environment variable."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe of a container: an HTTP request, a TCP connection or a command.

    Attributes:
        port: the port of the HTTP request or the TCP connection.
        path: the path of an HTTP GET request, such as `/healthz`. Without a path, the probe connects to the port.
        command: the command that a probe without a port runs in the container.
        initial_delay_seconds: seconds before the first probe.
        period_seconds: seconds between two probes.
        timeout_seconds: seconds until a probe fails.
        failure_threshold: failed probes in a row after which the container fails.
    """

    port: int | None = None
    path: str = ""
    command: Sequence[str] = ()
    initial_delay_seconds: int | None = None
    period_seconds: int | None = None
    timeout_seconds: int | None = None
    failure_threshold: int | None = None

    def to_body(self) -> Body:
        """Return the probe of a container."""
        return {
            "httpGet": {"path": self.path, "port": self.port} if self.path else None,
            "tcpSocket": {"port": self.port} if self.port is not None and not self.path else None,
            "exec": {"command": list(self.command)} if self.command else None,
            "initialDelaySeconds": self.initial_delay_seconds,
            "periodSeconds": self.period_seconds,
            "timeoutSeconds": self.timeout_seconds,
            "failureThreshold": self.failure_threshold,
        }


@dataclass(frozen=True, slots=True)
class Container:
    """An init container, a sidecar or a further container; in the hook `containers`, `node` is the main container.

    Attributes:
        name: the name, unique in the pod.
        image: the image. Default: the image of the runtime.
        command: the command. Default: the command of the image.
        args: the arguments of the command.
        env: name → value of environment variables.
        ports: name → TCP port.
        resources: resource → amount of the requests, which are also the limits. Default: 100m cpu and 64Mi memory.
        volumes: the volumes that the container mounts. The pod gets each volume once.
        startup_probe: the probe that delays the other probes and, for a sidecar, the next containers.
        readiness_probe: the probe that makes the pod ready.
        liveness_probe: the probe whose failure restarts the container.
        image_pull_policy: `Always`, `IfNotPresent` or `Never`.
        working_dir: the folder in which the command starts.
        security_context: fields of `securityContext`, in addition to the fields for Pod Security `restricted`.
        fields: further fields as in YAML, such as `{"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}`.
    """

    name: str
    image: str = ""
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    env: Mapping[str, EnvValue] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)
    resources: Mapping[str, str | int] = field(default_factory=dict)
    volumes: Sequence[Volume] = ()
    startup_probe: Probe | None = None
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    image_pull_policy: str = ""
    working_dir: str = ""
    security_context: Mapping[str, object] = field(default_factory=dict)
    fields: Mapping[str, object] = field(default_factory=dict)

    def to_body(self) -> Body:
        """Return the fields of the container that are set."""
        amounts = {name: str(parse(str(amount))) for name, amount in self.resources.items()}
        # The definition of JobSet sets the default protocol, which Argo CD would report as drift.
        ports = [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in self.ports.items()]
        body = {
            "name": self.name,
            "image": self.image or None,
            "imagePullPolicy": self.image_pull_policy or None,
            "securityContext": to_plain(self.security_context) or None,
            "resources": {"requests": amounts, "limits": dict(amounts)} if amounts else None,
            "ports": ports or None,
            "volumeMounts": [volume.to_mount() for volume in self.volumes] or None,
            "env": to_env(self.env) or None,
            "command": list(self.command) or None,
            "args": list(self.args) or None,
            "workingDir": self.working_dir or None,
            "startupProbe": self.startup_probe.to_body() if self.startup_probe else None,
            "readinessProbe": self.readiness_probe.to_body() if self.readiness_probe else None,
            "livenessProbe": self.liveness_probe.to_body() if self.liveness_probe else None,
            **to_plain(self.fields),
        }
        return omit_none(body)


@dataclass(frozen=True, slots=True)
class Pod:
    """Fields that a hook adds to a pod template.

    Attributes:
        labels: labels of the pods.
        annotations: annotations of the pods.
        node_selector: labels of the nodes, in addition to the labels of the pool.
        tolerations: tolerations, in addition to the taints of the pool, as in YAML.
        affinity: the affinity, as in YAML.
        priority_class_name: the PriorityClass.
        runtime_class_name: the RuntimeClass.
        host_aliases: IP address → host names in /etc/hosts.
        image_pull_secrets: names of Secrets with credentials of registries.
        fields: further fields of the pod spec as in YAML, such as `{"shareProcessNamespace": True}`.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, object]] = ()
    affinity: Mapping[str, object] = field(default_factory=dict)
    priority_class_name: str = ""
    runtime_class_name: str = ""
    host_aliases: Mapping[str, Sequence[str]] = field(default_factory=dict)
    image_pull_secrets: Sequence[str] = ()
    fields: Mapping[str, object] = field(default_factory=dict)

    def to_body(self) -> Body:
        """Return the pod template."""
        aliases = [{"ip": ip, "hostnames": list(names)} for ip, names in self.host_aliases.items()]
        spec = {
            "imagePullSecrets": [{"name": name} for name in self.image_pull_secrets] or None,
            "nodeSelector": dict(self.node_selector) or None,
            "affinity": to_plain(self.affinity) or None,
            "tolerations": to_plain(self.tolerations) or None,
            "hostAliases": aliases or None,
            "priorityClassName": self.priority_class_name or None,
            "runtimeClassName": self.runtime_class_name or None,
            **to_plain(self.fields),
        }
        return omit_none({"metadata": _metadata(self.labels, self.annotations), "spec": spec})


@dataclass(frozen=True, slots=True)
class Security:
    """Fields that a hook changes in the `securityContext` of a pod.

    Attributes:
        run_as_user: the user id of all containers.
        run_as_group: the primary group id of all containers.
        fs_group: the group id of volumes.
        supplemental_groups: group ids, in addition to the groups of the pool's devices.
        sysctls: name → value of kernel parameters.
        fields: further fields as in YAML, such as `{"fsGroupChangePolicy": "OnRootMismatch"}`.
    """

    run_as_user: int | None = None
    run_as_group: int | None = None
    fs_group: int | None = None
    supplemental_groups: Sequence[int] = ()
    sysctls: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, object] = field(default_factory=dict)

    def to_body(self) -> Body:
        """Return the security context."""
        body = {
            "runAsUser": self.run_as_user,
            "runAsGroup": self.run_as_group,
            "fsGroup": self.fs_group,
            "supplementalGroups": list(self.supplemental_groups) or None,
            "sysctls": [{"name": name, "value": value} for name, value in self.sysctls.items()] or None,
            **to_plain(self.fields),
        }
        return omit_none(body)


@dataclass(frozen=True, slots=True)
class Job:
    """Fields that a hook adds to the Job template of a replicated job.

    Attributes:
        labels: labels of the Job.
        annotations: annotations of the Job.
        backoff_limit: failed pods after which the Job fails. Default: 0 for the launcher, 6 for worker pods.
        active_deadline_seconds: seconds after which the Job fails.
        fields: further fields of the Job spec as in YAML, such as `{"podReplacementPolicy": "Failed"}`.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    backoff_limit: int | None = None
    active_deadline_seconds: int | None = None
    fields: Mapping[str, object] = field(default_factory=dict)

    def to_body(self) -> Body:
        """Return the Job template."""
        spec = {
            "backoffLimit": self.backoff_limit,
            "activeDeadlineSeconds": self.active_deadline_seconds,
            **to_plain(self.fields),
        }
        return omit_none({"metadata": _metadata(self.labels, self.annotations), "spec": spec})


@dataclass(frozen=True, slots=True)
class Additions:
    """The values that hooks add to the pods and the Job of one role.

    Attributes:
        init_containers: containers that end before the main container starts.
        sidecars: containers that run as long as the pod. They start before `init_containers`.
        containers: the change of the main container, and further containers.
        pod: fields of the pods.
        security: fields of the pods' security context.
        job: fields of the Job.
    """

    init_containers: Sequence[Container] = ()
    sidecars: Sequence[Container] = ()
    containers: Sequence[Container] = ()
    pod: Pod = field(default_factory=Pod)
    security: Security = field(default_factory=Security)
    job: Job = field(default_factory=Job)

    @property
    def all_containers(self) -> Sequence[Container]:
        """Return the containers in the order of the pod."""
        return (*self.sidecars, *self.init_containers, *self.containers)

    def without(self, hook: str) -> Additions:
        """Return the values without the values of one hook."""
        return Additions(**{one.name: getattr(self, one.name) for one in fields(self) if one.name != hook})


NONE = Additions()
"""The additions of a runtime without hooks."""


def to_plain(value: Any) -> Any:
    """Return a copy of data that consists of dicts, lists and scalars, which later changes of `value` do not affect."""
    if isinstance(value, Mapping):
        return {key: to_plain(content) for key, content in value.items()}
    return [to_plain(item) for item in value] if isinstance(value, list | tuple) else value


def to_env(variables: Mapping[str, EnvValue]) -> list[Body]:
    """Return the entries of `env`."""
    return [{"name": name, **_env_value(value)} for name, value in variables.items()]


def _env_value(value: EnvValue) -> Body:
    if isinstance(value, str):
        return {"value": value}
    if isinstance(value, PodField):
        return {"valueFrom": {"fieldRef": {"fieldPath": value.path}}}
    key = {"name": value.name, "key": value.key, "optional": value.optional or None}
    return {"valueFrom": {"secretKeyRef" if isinstance(value, SecretKey) else "configMapKeyRef": key}}


def _metadata(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Body | None:
    return {"labels": dict(labels) or None, "annotations": dict(annotations) or None} if labels or annotations else None


def added_init_containers(added: Additions, defaults: Body) -> list[Body]:
    """Return the init containers that hooks add, sidecars first, so that init containers can use them.

    Args:
        added: the additions of the role.
        defaults: the image and the security context of a container.
    """
    always = {"restartPolicy": "Always"}
    return [
        *({**_further(sidecar, defaults), **always} for sidecar in added.sidecars),
        *(_further(container, defaults) for container in added.init_containers),
    ]


def _further(container: Container, defaults: Body) -> Body:
    requests = {name: str(amount) for name, amount in INIT_CONTAINER_REQUESTS.items()}
    resources = {"requests": requests, "limits": requests}
    return _merge({"name": container.name, **defaults, "resources": resources}, container.to_body())


def extend_pod(pod: Body, added: Additions, defaults: Body) -> Body:
    """Return a pod template with the containers, volumes and fields that hooks add, except init containers.

    Args:
        pod: the pod template.
        added: the additions of its role.
        defaults: the image and the security context of a further container.
    """
    if added == NONE:
        return pod
    spec = pod["spec"]
    changes = [container.to_body() for container in added.containers if container.name == MAIN]
    further = [_further(container, defaults) for container in added.containers if container.name != MAIN]
    main = spec["containers"][0]
    for change in changes:
        main = _merge(main, change)
    known = {volume["name"] for volume in spec["volumes"]}
    volumes = {volume.name: volume.to_volume() for one in added.all_containers for volume in one.volumes}
    extended = {
        "securityContext": _merge(spec["securityContext"], added.security.to_body()),
        "containers": [main, *further],
        "volumes": [*spec["volumes"], *(volume for name, volume in volumes.items() if name not in known)],
    }
    return _merge({**pod, "spec": {**spec, **extended}}, added.pod.to_body())


def extend_job(job: Body, added: Additions) -> Body:
    """Return a Job template with the fields that a hook adds."""
    return job if added == NONE else _merge(job, added.job.to_body())


def _merge(base: Body, change: Body) -> Body:
    """Return a mapping with the keys of both: mappings are merged, lists are joined, and other values are replaced."""
    return {key: _merge_value(base.get(key), change.get(key)) for key in _keys(base, change)}


def _keys(base: Iterable[str], change: Iterable[str]) -> Iterator[str]:
    return iter(dict.fromkeys([*base, *change]))


def _merge_value(base: Any, change: Any) -> Any:
    if isinstance(base, dict) and isinstance(change, dict):
        return _merge(base, change)
    if isinstance(base, list) and isinstance(change, list):
        return [*base, *change]
    return base if change is None else change
