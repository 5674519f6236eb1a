"""The parts of a runtime that the hooks of an admin must keep: ssh, rank identity, names, mounts and restart policies.

facts/kept_fields.yaml has the fields that no hook sets. The other rules compare the additions with the pods of the
runtime without hooks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from generator.config.model.fields import is_reserved_label
from generator.config.model.runtimes import TAKEN_VOLUMES, taken_variable
from generator.facts.images import hidden_by
from generator.facts.names import NETWORKS, PODSET_PREFIX
from generator.facts.table import read_rows
from generator.manifests import Body, omit_none
from generator.quantities import ZERO, Quantity, parse
from generator.runtimes.additions import MAIN, Additions, Container, EnvValue, Pod, Probe, Role, Security, Volume
from generator.runtimes.pods import PodParts, launcher_pod, node_pod, roles_of
from generator.upstream.kubernetes.pod_requests import sum_containers

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_CONTROLLERS = (PODSET_PREFIX, "jobset.sigs.k8s.io/")
"""Prefixes of annotations by which Kueue and JobSet place pods."""
_SCALE = 10**9  # quantities have at most nine decimal places


@dataclass(frozen=True, slots=True)
class Fault:
    """An addition that a hook must not return.

    Attributes:
        hook: the hook, such as `sidecars`.
        path: the part of its value, such as `[0].volumes[1]`; empty for the whole value.
        message: the error.
        fix: the fix.
    """

    hook: str
    path: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class _Kept:
    part: str
    field: str
    reason: str
    instead: str
    role: str = ""


def find_faults(
    parts: PodParts,
    variables: Mapping[str, EnvValue],
    volumes: Sequence[Volume],
    additions: Mapping[str, Additions],
) -> Iterator[Fault]:
    """Yield the faults of all additions. The types of all values are right.

    Args:
        parts: the declarations of the runtime without hooks.
        variables: the value of the hook `environment`.
        volumes: the value of the hook `volumes`.
        additions: name of a role → the values of the other hooks.
    """
    yield from _find_taken_variables("environment", "", variables)
    named = {volume.name: volume for volume in parts.volumes}
    yield from _find_volume_faults("volumes", "", volumes, named)
    named |= {volume.name: volume for volume in volumes}
    faults = [
        fault
        for role in roles_of(parts.runtime)
        for fault in _find_role_faults(parts, role, volumes, additions[role.name], named)
    ]
    yield from faults
    if not faults:  # a pod with faults cannot be built
        yield from _find_oversized(parts.extend({}, (), additions))


def _find_role_faults(
    parts: PodParts, role: Role, volumes: Sequence[Volume], added: Additions, named: Mapping[str, Volume]
) -> Iterator[Fault]:
    template = omit_none((launcher_pod if role.name == "launcher" else node_pod)(parts))
    yield from _find_container_faults(role, template, added, named)
    yield from _find_mount_faults(template, added, volumes)
    yield from _find_pod_faults(role, template, added.pod)
    yield from _find_security_faults(role, added.security)
    yield from _find_kept("job", role, "job", ".fields", added.job.fields)
    yield from _find_taken_labels("job", ".labels", added.job.labels, {})


def _find_kept(hook: str, role: Role, part: str, path: str, names: Iterable[str]) -> Iterator[Fault]:
    rows = [row for row in read_rows("kept_fields", "fields", _Kept) if row.part == part]
    for name in names:
        for row in rows:
            if row.field == name and row.role in ("", role.name):
                place = path if path.endswith(".fields") else f"{path}.{_snake(name)}"
                yield Fault(hook, place, f"a hook must not set `{name}`: {row.reason}", row.instead)


def _find_taken_variables(hook: str, path: str, variables: Mapping[str, EnvValue]) -> Iterator[Fault]:
    for name in variables:
        message, fix = taken_variable(name)
        if not _VARIABLE.fullmatch(name):
            message, fix = f"`{name}` is not the name of a variable", "write letters, digits and `_`, like NCCL_DEBUG"
        if message:
            yield Fault(hook, path, message, fix)


def _find_volume_faults(
    hook: str, path: str, volumes: Sequence[Volume], named: Mapping[str, Volume]
) -> Iterator[Fault]:
    """Yield the faults of volumes: taken names, names with two sources, invalid sources, and hidden files."""
    seen = dict(named)
    for number, volume in enumerate(volumes):
        place, other = f"{path}[{number}]", seen.setdefault(volume.name, volume)
        if volume.name in TAKEN_VOLUMES:
            message = f"`{volume.name}` is the name of a volume that mpigen or Trainer adds to pods"
            yield Fault(hook, place, message, "choose another name")
        elif volume.source != other.source:
            message = f"two volumes with different sources have the name `{volume.name}`"
            yield Fault(hook, place, message, "give each volume its own name")
        if len(volume.source) != 1:
            message = f"the source of volume `{volume.name}` has {len(volume.source)} fields"
            yield Fault(hook, place, message, 'write one source, such as {"emptyDir": {}}')
        is_absolute = volume.mount_path.startswith("/") and volume.mount_path.rstrip("/") == volume.mount_path
        damage = hidden_by(volume.mount_path) if is_absolute else "is not an absolute path without a slash at the end"
        if damage:
            yield Fault(hook, place, f"a volume at `{volume.mount_path}` {damage}", "use a path such as /data")


def _find_container_faults(
    role: Role, template: Body, added: Additions, named: Mapping[str, Volume]
) -> Iterator[Fault]:
    """Yield the faults of containers: taken names, changes of kept fields, and containers that never let a pod end."""
    spec = template["spec"]
    own = {container["name"] for container in (*spec["initContainers"], *spec["containers"])}
    names: set[str] = set()
    for hook in ("init_containers", "sidecars", "containers"):
        containers: Sequence[Container] = getattr(added, hook)
        for number, container in enumerate(containers):
            path = f"[{number}]"
            is_main = hook == "containers" and container.name == MAIN
            if container.name in own and not is_main:
                message = f"`{container.name}` is the name of a container that mpigen adds to the {_pods(role)}"
                yield Fault(hook, path, message, "choose another name")
            elif container.name in names:
                message = f"the {_pods(role)} already has a container `{container.name}`"
                yield Fault(hook, path, message, "give each container its own name")
            names.add(container.name)
            if hook == "containers" and not is_main and role.name == "launcher":
                message = (
                    f"the launcher pod completes only when `{container.name}` ends, so the job would run until then"
                )
                yield Fault(hook, path, message, "return the container from `sidecars`")
            yield from _find_fields_faults(hook, path, container)
            yield from _find_volume_faults(hook, f"{path}.volumes", container.volumes, named)
            yield from _find_kept(hook, role, "container", f"{path}.fields", container.fields)
            if is_main:
                yield from _find_main_faults(role, spec["containers"][0], container, path)


def _find_fields_faults(hook: str, path: str, container: Container) -> Iterator[Fault]:
    """Yield the faults of a container alone: fields that have an argument, invalid amounts, variables and probes."""
    yield from _find_renamed(hook, f"{path}.fields", container.fields, container)
    for name in container.env:
        if not _VARIABLE.fullmatch(name):
            fix = "write letters, digits and `_`, like LOG_LEVEL"
            yield Fault(hook, f"{path}.env", f"`{name}` is not the name of a variable", fix)
    for name, amount in container.resources.items():
        if not _is_quantity(amount):
            message = f"`{amount}` of `{name}` is not a quantity"
            yield Fault(hook, f"{path}.resources", message, "write an amount like 64, 500m or 256Gi")
    probes = ("startup_probe", "readiness_probe", "liveness_probe")
    for name, probe in ((name, getattr(container, name)) for name in probes):
        if probe is not None and not _is_probe(probe):
            message = "a probe has either a `port` or a `command`, and `path` requires a `port`"
            yield Fault(hook, f"{path}.{name}", message, "write Probe(port=8080, path='/healthz')")
        if probe is not None and hook == "init_containers":
            message = f"an init container ends before the main container starts, so it has no `{name}`"
            yield Fault(hook, f"{path}.{name}", message, "return the container from `sidecars`, or remove the probe")


def _is_probe(probe: Probe) -> bool:
    return (probe.port is None) == bool(probe.command) and (probe.port is not None or not probe.path)


def _is_quantity(amount: str | int) -> bool:
    try:
        return parse(str(amount)).value > 0
    except ValueError:
        return False


def _find_renamed(hook: str, path: str, names: Iterable[str], value: Container | Pod | Security) -> Iterator[Fault]:
    """Yield `fields` that have an argument of their own."""
    renamed = {"volumeMounts": "volumes", **{_camel(one.name): one.name for one in fields(value)}}
    for name in names:
        if name in renamed:
            message = f"`{name}` has an argument of its own"
            yield Fault(hook, path, message, f"write `{renamed[name]}=…`")


def _find_main_faults(role: Role, main: Body, change: Container, path: str) -> Iterator[Fault]:
    """Yield the faults of a change of the main container."""
    body = {name for name in ("image", "command", "args", "resources") if getattr(change, name)}
    body |= {"readinessProbe"} if change.readiness_probe else set()
    yield from _find_kept("containers", role, "main", path, sorted(body))
    yield from _find_kept("containers", role, "main", f"{path}.fields", sorted(change.fields))
    yield from _find_taken_variables("containers", f"{path}.env", change.env)
    for name in {variable["name"] for variable in main["env"]} & {*change.env}:
        message = f"the main container already has a variable `{name}`"
        yield Fault("containers", f"{path}.env", message, "return the variable from `environment`")
    taken = {*main["securityContext"]} - {"capabilities"} | ({"runAsNonRoot"} & {*change.security_context})
    for name in sorted(taken & {*change.security_context}):
        message = f"a hook must not set `{name}` of the main container: sshd and ssh need the value of mpigen"
        yield Fault("containers", f"{path}.security_context", message, "remove this field")
    capabilities = change.security_context.get("capabilities")
    if isinstance(capabilities, Mapping) and "drop" in capabilities:
        message = "a hook must not drop capabilities of the main container: sshd needs NET_BIND_SERVICE in some images"
        yield Fault("containers", f"{path}.security_context", message, "remove `drop`: mpigen drops all others")
    if change.security_context.get("runAsUser") == 0:
        yield Fault("containers", f"{path}.security_context", _AS_ROOT, "choose another user")


_AS_ROOT = "as root, ssh rejects its private key, because Trainer makes the key file readable for root's group"
"""Source: trainer v2.3.0 pkg/constants/constants.go MPISSHPrivateKeyFileMode; openssh-portable sshkey_perm_ok."""


def _find_mount_faults(template: Body, added: Additions, volumes: Sequence[Volume]) -> Iterator[Fault]:
    """Yield mounts at the path of another mount in the same container."""
    main = {mount["mountPath"] for mount in template["spec"]["containers"][0]["volumeMounts"]}
    yield from _find_repeated("volumes", "", volumes, main)
    main |= {volume.mount_path for volume in volumes}
    for hook in ("init_containers", "sidecars", "containers"):
        containers: Sequence[Container] = getattr(added, hook)
        for number, container in enumerate(containers):
            taken = main if hook == "containers" and container.name == MAIN else set()
            yield from _find_repeated(hook, f"[{number}].volumes", container.volumes, taken)


def _find_repeated(hook: str, path: str, volumes: Sequence[Volume], taken: Iterable[str]) -> Iterator[Fault]:
    seen = {*taken}
    for number, volume in enumerate(volumes):
        if volume.mount_path in seen:
            message = f"the container already has a mount at `{volume.mount_path}`"
            yield Fault(hook, f"{path}[{number}]", message, "choose another `mount_path`")
        seen.add(volume.mount_path)


def _find_pod_faults(role: Role, template: Body, pod: Pod) -> Iterator[Fault]:
    yield from _find_kept("pod", role, "pod", ".fields", pod.fields)
    yield from _find_renamed("pod", ".fields", pod.fields, pod)
    metadata, spec = template["metadata"], template["spec"]
    yield from _find_taken_labels("pod", ".labels", pod.labels, metadata["labels"])
    for key in pod.annotations:
        if key in metadata.get("annotations", {}) or key.startswith(_OF_CONTROLLERS) or key == NETWORKS:
            message = f"a hook must not set the annotation `{key}`: the runtime, Kueue, JobSet or Multus use the key"
            yield Fault("pod", ".annotations", message, "set `annotations`, `placement` or `fabric` of the runtime")
    for key, value in pod.node_selector.items():
        if spec.get("nodeSelector", {}).get(key, value) != value:
            message = f"the pool selects nodes with `{key}: {spec['nodeSelector'][key]}`, so `{value}` matches no node"
            yield Fault("pod", ".node_selector", message, "declare another pool, or remove this label")
    if pod.affinity and "affinity" in spec:
        message = "the runtime has `nodeAffinity`, and mpigen does not merge two affinities"
        yield Fault("pod", ".affinity", message, "return the whole affinity here, and remove `nodeAffinity`")
    listed = {row.field for row in read_rows("kept_fields", "fields", _Kept) if row.part == "pod"}
    for name in pod.fields:
        if name in spec and name not in listed and not isinstance(spec[name], list):
            message = f"a hook must not set `{name}`: mpigen sets `{spec[name]}`"
            yield Fault("pod", ".fields", message, "remove this field")


def _find_taken_labels(hook: str, path: str, labels: Mapping[str, str], taken: Mapping[str, Any]) -> Iterator[Fault]:
    for key in labels:
        if is_reserved_label(key) or key in taken:
            reason = "the runtime, mpigen, Kubernetes, Kueue, JobSet or Trainer set labels with this key"
            yield Fault(hook, path, f"a hook must not set the label `{key}`: {reason}", "use a prefix of your own")


def _find_security_faults(role: Role, security: Security) -> Iterator[Fault]:
    yield from _find_kept("security", role, "security", ".fields", security.fields)
    yield from _find_renamed("security", ".fields", security.fields, security)
    if security.run_as_user == 0:
        yield Fault("security", ".run_as_user", _AS_ROOT, "choose another user")


def _find_oversized(parts: PodParts) -> Iterator[Fault]:
    """Yield the resources of which a pod requests more than a node of the pool offers, or that the pool lacks."""
    offered = parts.pool.offered
    for role in roles_of(parts.runtime):
        template = omit_none((launcher_pod if role.name == "launcher" else node_pod)(parts))
        added = parts.additions[role.name]
        hook = "sidecars" if added.sidecars else "containers" if added.containers else "init_containers"
        totals = sum_containers(template["spec"], _requests) if added.all_containers else {}
        for name, total in totals.items():
            limit = offered.get(name, ZERO)
            amount = Quantity(Fraction(total, _SCALE), limit.is_binary)
            if name not in offered and any(name in one.resources for one in added.all_containers):
                message = f"nodes of pool `{parts.pool.name}` have no `{name}`"
                yield Fault(hook, "", message, f"request only {' and '.join(sorted(offered))} in this pool")
            elif name in offered and amount.value > limit.value:
                message = (
                    f"the containers of a {_pods(role)} request {amount} {name} together, "
                    f"more than the {limit} that a node of pool `{parts.pool.name}` offers to jobs"
                )
                yield Fault(hook, "", message, f"request less `{name}` here, or in `resources` of the runtime")


def _requests(container: Body) -> dict[str, int]:
    requests = container.get("resources", {}).get("requests", {})
    return {name: int(parse(str(amount)).value * _SCALE) for name, amount in requests.items()}


def _pods(role: Role) -> str:
    return "launcher pod" if role.name == "launcher" else "worker pod"


def _camel(name: str) -> str:
    return re.sub("_([a-z])", lambda match: match[1].upper(), name)


def _snake(name: str) -> str:
    return re.sub("(?=[A-Z])", "_", name).lower()
