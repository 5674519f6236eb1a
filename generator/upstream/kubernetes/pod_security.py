"""Pod Security admission: the level that a Namespace enforces, and the fields of a pod that violate it.

The texts equal the texts of the API server, so that a user finds them in the events of a Job. Exemptions and defaults
are in a configuration file of the API server, which is no manifest.

Source: pod-security-admission v0.37.2 policy/{registry,checks,check_*}.go; pod-security-admission v0.37.2
api/helpers.go PolicyToEvaluate. Each rule there names the minor versions of Kubernetes for which it holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from generator.documents.load import Path
from generator.facts.names import NET_BIND_SERVICE, POD_SECURITY_ENFORCE
from generator.manifests import Body
from generator.objects.fields import indexed_mappings, mapping, mappings, string, string_map, strings

_VERSION = re.compile(r"v1\.([0-9]|[1-9][0-9]{0,8})")
_LEVELS = ("privileged", "baseline", "restricted")
_ENFORCED_VERSION = f"{POD_SECURITY_ENFORCE}-version"


@dataclass(frozen=True, slots=True)
class Level:
    """The Pod Security level that a Namespace enforces.

    Attributes:
        name: `privileged`, `baseline` or `restricted`.
        version: `latest`, or the version of the rules, such as `v1.34`.
    """

    name: str = "privileged"
    version: str = "latest"

    def __str__(self) -> str:
        return f"{self.name}:{self.version}"


def read_level(namespace: Body) -> Level:
    """Return the Pod Security level that a Namespace enforces: `privileged` without a label.

    An invalid label counts as `restricted`, and an invalid version as `latest`.
    """
    labels = mapping(namespace, "metadata", "labels")
    name, version = labels.get(POD_SECURITY_ENFORCE, "privileged"), str(labels.get(_ENFORCED_VERSION, "latest"))
    return Level(name if name in _LEVELS else "restricted", version if _VERSION.fullmatch(version) else "latest")


@dataclass(frozen=True, slots=True)
class Violation:
    """A violation by a pod: a rule of a Pod Security level, and the field that breaks the rule.

    Attributes:
        reason: the rule, in the words of the API server.
        detail: the fields and values, in the words of the API server.
        path: the first of the fields in the pod.
        is_unset: True if the pod lacks a required field, which an admission plugin of OpenShift can set.
    """

    reason: str
    detail: str
    path: Path
    is_unset: bool = False

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})"


def find_violations(pod: Body, level: Level, minor: int) -> list[Violation]:
    """Return the violations of a pod, in the order of the API server; none with the level `privileged`.

    Args:
        pod: the Pod, with `metadata` and `spec`.
        level: the level of its Namespace.
        minor: the minor version of Kubernetes. It replaces a later version in `level`, as in the API server.
    """
    if level.name == "privileged":
        return []
    number = minor if level.version == "latest" else min(minor, int(level.version.partition(".")[2]))
    subject = _Subject(pod, number)
    rules = _BASELINE
    if level.name == "restricted":
        # rules of `restricted` replace these ones
        stricter = {_host_paths: 0, _seccomp: _SECCOMP, _capabilities: _DROP_ALL, _proc_mount: _USER_NAMESPACE}
        kept = (rule for rule in _BASELINE if rule not in stricter or number < stricter[rule])
        rules = (*kept, *_RESTRICTED)
    return [violation for rule in rules for violation in rule(subject)]


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """A pod, or one of its containers: its name (empty for the pod), its path, and its body."""

    name: str
    path: Path
    body: Mapping[str, Any]

    @property
    def context(self) -> Mapping[str, Any]:
        return mapping(self.body, "securityContext")


@dataclass(frozen=True)
class _Subject:
    """A pod, and the minor version of Kubernetes whose Pod Security rules apply to the pod."""

    body: Body
    minor: int

    @cached_property
    def pod(self) -> _Place:
        return _Place("", ("spec",), mapping(self.body, "spec"))

    @cached_property
    def containers(self) -> tuple[_Place, ...]:
        return tuple(
            _Place(string(body.get("name")), ("spec", key, number), body)
            for key in ("initContainers", "containers", "ephemeralContainers")
            for number, body in indexed_mappings(self.pod.body.get(key))
        )

    @property
    def places(self) -> tuple[_Place, ...]:
        return (self.pod, *self.containers)

    @property
    def annotations(self) -> Mapping[str, str]:
        return string_map(mapping(self.body, "metadata", "annotations"))

    @property
    def is_exempt(self) -> bool:
        """True for pods of Windows, which some rules exempt since Kubernetes 1.25."""
        return self.minor >= _WINDOWS and mapping(self.pod.body, "os").get("name") == "windows"

    @property
    def is_in_user_namespace(self) -> bool:
        """True for pods with `hostUsers: false`, which some rules exempt since Kubernetes 1.35.

        Source: k8s.io/pod-security-admission v0.37.2 policy/helpers.go relaxPolicyForUserNamespacePod.
        """
        return self.minor >= _USER_NAMESPACE and self.pod.body.get("hostUsers") is False


_Rule = Callable[[_Subject], Iterator[Violation]]
_Setting = tuple[_Place, Any]


def _settings(places: Iterable[_Place], *keys: str) -> list[_Setting]:
    """Return (place, value) for each pod or container (`_Place`) whose `securityContext` sets a field."""
    values = [(place, mapping(place.context, *keys[:-1]).get(keys[-1])) for place in places]
    return [(place, value) for place, value in values if value is not None]


def _quote(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _plural(word: str, items: Sized) -> str:
    return word if len(items) == 1 else f"{word}s"


def _describe(places: Iterable[_Place]) -> str:
    """Return a text such as `pod and containers "a", "b"`."""
    everything = list(dict.fromkeys((place.name, place.path) for place in places))
    names = [name for name, path in everything if path != _POD]
    pod = ["pod"] if any(path == _POD for _, path in everything) else []
    return " and ".join([*pod, *([f"{_plural('container', names)} {_quote(names)}"] if names else [])])


def _violation(places: Sequence[_Place], reason: str, detail: str, *field: str, is_unset: bool = False) -> Violation:
    """Return a violation by several pods or containers (`_Place`), whose path is the field of the first."""
    return Violation(reason, f"{_describe(places)} {detail}", (*places[0].path, "securityContext", *field), is_unset)


def _app_armor(subject: _Subject) -> Iterator[Violation]:
    profiles = [
        (place, string(mapping(profile).get("type"))) for place, profile in _settings(subject.places, "appArmorProfile")
    ]
    bad = [(place, profile) for place, profile in profiles if profile not in _PROFILES]
    annotations = sorted(
        f"{key}={json.dumps(value)}"
        for key, value in subject.annotations.items()
        if key.startswith(_APP_ARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    setters = [*([_describe(place for place, _ in bad)] if bad else [])]
    setters += [_plural("annotation", annotations)] if annotations else []
    if setters:
        values = [*sorted({profile for _, profile in bad}), *annotations]
        path: Path = (*bad[0][0].path, "securityContext", "appArmorProfile") if bad else ("metadata", "annotations")
        detail = f"{' and '.join(setters)} must not set AppArmor profile type to {_quote(values)}"
        yield Violation(_plural("forbidden AppArmor profile", values), detail, path)


def _added(container: _Place) -> tuple[str, ...]:
    return strings(mapping(container.context, "capabilities").get("add"))


def _capabilities(subject: _Subject) -> Iterator[Violation]:
    bad = [container for container in subject.containers if {*_added(container)} - _DEFAULT_CAPABILITIES]
    if bad:
        names = sorted({name for container in bad for name in _added(container)} - _DEFAULT_CAPABILITIES)
        detail = f"must not include {_quote(names)} in securityContext.capabilities.add"
        yield _violation(bad, "non-default capabilities", detail, "capabilities", "add")


def _host_namespaces(subject: _Subject) -> Iterator[Violation]:
    names = [name for name in ("hostNetwork", "hostPID", "hostIPC") if subject.pod.body.get(name) is True]
    if names:
        yield Violation("host namespaces", ", ".join(f"{name}=true" for name in names), (*_POD, names[0]))


def _host_paths(subject: _Subject) -> Iterator[Violation]:
    volumes = indexed_mappings(subject.pod.body.get("volumes"))
    bad = [(number, string(volume.get("name"))) for number, volume in volumes if volume.get("hostPath") is not None]
    if bad:
        names = [name for _, name in bad]
        detail = f"{_plural('volume', names)} {_quote(names)}"
        yield Violation("hostPath volumes", detail, (*_POD, "volumes", bad[0][0], "hostPath"))


def _host_ports(subject: _Subject) -> Iterator[Violation]:
    """Yield the violation by host ports. In the host network, `hostPort` defaults to `containerPort`.

    Source: kubernetes v1.34.2 pkg/apis/core/v1/defaults.go SetDefaults_PodSpec
    """
    default = "containerPort" if subject.pod.body.get("hostNetwork") is True else "hostPort"
    ports = {
        container: some
        for container in subject.containers
        if (some := [port for item in mappings(container.body.get("ports")) if (port := _port(item, default))])
    }
    if ports:
        numbers = sorted({str(number) for values in ports.values() for number in values})
        detail = f"{_describe(ports)} {'uses' if len(ports) == 1 else 'use'} {_plural('hostPort', numbers)}"
        yield Violation("hostPort", f"{detail} {', '.join(numbers)}", (*next(iter(ports)).path, "ports"))


def _port(item: Mapping[str, Any], default: str) -> object:
    return item.get("hostPort") or item.get(default)


def _hosts(subject: _Subject) -> Iterator[Violation]:
    if subject.minor < _PROBES:
        return
    setting: dict[_Place, list[str]] = {}
    for container in subject.containers:
        handlers = [container.body.get(f"{name}Probe") for name in ("liveness", "readiness", "startup")]
        handlers += [mapping(container.body, "lifecycle").get(name) for name in ("postStart", "preStop")]
        targets = [mapping(handler, action) for handler in handlers for action in ("httpGet", "tcpSocket")]
        if named := [str(target["host"]) for target in targets if target.get("host")]:
            setting[container] = named
    if setting:
        hosts = sorted({host for named in setting.values() for host in named})
        containers = sorted(container.name for container in setting)
        detail = f"{_plural('container', containers)} {_quote(containers)} {'uses' if len(setting) == 1 else 'use'}"
        text = f"{detail} {_plural('probe or lifecycle host', hosts)} {_quote(hosts)}"
        yield Violation("probe or lifecycle host", text, next(iter(setting)).path)


def _privileged(subject: _Subject) -> Iterator[Violation]:
    if bad := [place for place, value in _settings(subject.containers, "privileged") if value is True]:
        yield _violation(bad, "privileged", "must not set securityContext.privileged=true", "privileged")


def _proc_mount(subject: _Subject) -> Iterator[Violation]:
    if not subject.is_in_user_namespace:
        yield from _unmasked(subject)


def _restricted_proc_mount(subject: _Subject) -> Iterator[Violation]:
    if subject.minor >= _USER_NAMESPACE:
        yield from _unmasked(subject)


def _unmasked(subject: _Subject) -> Iterator[Violation]:
    if bad := [(place, value) for place, value in _settings(subject.containers, "procMount") if value != "Default"]:
        detail = f"must not set securityContext.procMount to {_quote(sorted({str(value) for _, value in bad}))}"
        yield _violation([place for place, _ in bad], "procMount", detail, "procMount")


def _selinux(subject: _Subject) -> Iterator[Violation]:
    allowed = {"", "container_t", "container_init_t", "container_kvm_t"}
    allowed |= {"container_engine_t"} if subject.minor >= _ENGINE_TYPE else set()
    options = [(place, mapping(value)) for place, value in _settings(subject.places, "seLinuxOptions")]
    bad = [
        (place, value)
        for place, value in options
        if value.get("user") or value.get("role") or string(value.get("type")) not in allowed
    ]
    if bad:
        types = sorted({string(value.get("type")) for _, value in bad} - allowed)
        problems = [f"{_plural('type', types)} {_quote(types)}"] if types else []
        problems += [f"{key} may not be set" for key in ("user", "role") if any(value.get(key) for _, value in bad)]
        detail = f"set forbidden securityContext.seLinuxOptions: {'; '.join(problems)}"
        yield _violation([place for place, _ in bad], "seLinuxOptions", detail, "seLinuxOptions")


def _seccomp(subject: _Subject) -> Iterator[Violation]:
    if subject.minor >= _SECCOMP:
        yield from _bad_seccomp(subject)
        return
    keys = [_SECCOMP_POD, *(f"container.{_SECCOMP_PREFIX}{container.name}" for container in subject.containers)]
    known = [(key, subject.annotations[key]) for key in keys if key in subject.annotations]
    good = ("runtime/default", "docker/default")
    bad = sorted({f"{k}={json.dumps(v)}" for k, v in known if v not in good and not v.startswith("localhost/")})
    if bad:
        detail = f"forbidden {_plural('annotation', bad)} {', '.join(bad)}"
        yield Violation("seccompProfile", detail, ("metadata", "annotations"))


def _bad_seccomp(subject: _Subject) -> Iterator[Violation]:
    profiles = [(place, _type(value)) for place, value in _settings(subject.places, "seccompProfile")]
    if bad := [(place, value) for place, value in profiles if value not in _PROFILES]:
        detail = f"must not set securityContext.seccompProfile.type to {_quote(sorted({value for _, value in bad}))}"
        yield _violation([place for place, _ in bad], "seccompProfile", detail, "seccompProfile")


def _type(profile: object) -> str:
    return string(mapping(profile).get("type"))


def _sysctls(subject: _Subject) -> Iterator[Violation]:
    allowed = {name for minor, names in _SYSCTLS.items() if subject.minor >= minor for name in names}
    names = [str(item.get("name")) for item in mappings(subject.pod.context.get("sysctls"))]
    if bad := [name for name in names if name not in allowed]:
        yield Violation("forbidden sysctls", ", ".join(bad), (*_POD, "securityContext", "sysctls"))


def _windows(subject: _Subject) -> Iterator[Violation]:
    if bad := [place for place, value in _settings(subject.places, "windowsOptions", "hostProcess") if value is True]:
        text = "must not set securityContext.windowsOptions.hostProcess=true"
        yield _violation(bad, "hostProcess", text, "windowsOptions")


def _escalation(subject: _Subject) -> Iterator[Violation]:
    bad = [item for item in subject.containers if item.context.get("allowPrivilegeEscalation") is not False]
    if bad and subject.minor >= _ESCALATION and not subject.is_exempt:
        is_unset = all(item.context.get("allowPrivilegeEscalation") is None for item in bad)
        detail = "must set securityContext.allowPrivilegeEscalation=false"
        field = "allowPrivilegeEscalation"
        yield _violation(bad, f"{field} != false", detail, field, is_unset=is_unset)


def _restricted_capabilities(subject: _Subject) -> Iterator[Violation]:
    if subject.minor < _DROP_ALL or subject.is_exempt:
        return
    keeping = [
        item for item in subject.containers if "ALL" not in strings(mapping(item.context, "capabilities").get("drop"))
    ]
    adding = [item for item in subject.containers if {*_added(item)} - {NET_BIND_SERVICE}]
    names = sorted({name for item in adding for name in _added(item)} - {NET_BIND_SERVICE})
    details = [f'{_describe(keeping)} must set securityContext.capabilities.drop=["ALL"]'] if keeping else []
    if adding:
        details.append(f"{_describe(adding)} must not include {_quote(names)} in securityContext.capabilities.add")
    if details:
        path = (*(adding or keeping)[0].path, "securityContext", "capabilities")
        yield Violation("unrestricted capabilities", "; ".join(details), path, is_unset=not adding)


def _volumes(subject: _Subject) -> Iterator[Violation]:
    sources = {
        number: [key for key, value in volume.items() if key != "name" and value is not None]
        for number, volume in indexed_mappings(subject.pod.body.get("volumes"))
    }  # a volume without a source is an `emptyDir` (kubernetes v1.34.2 pkg/apis/core/v1/defaults.go SetDefaults_Volume)
    bad = {number: keys[0] for number, keys in sources.items() if keys and not {*keys} & {*_VOLUMES}}
    if bad:
        names = [string(mapping(subject.pod.body["volumes"][number]).get("name")) for number in bad]
        types = sorted({*bad.values()})
        detail = f"{_plural('volume', names)} {_quote(names)} {'uses' if len(names) == 1 else 'use'}"
        text = f"{detail} {_plural('restricted volume type', types)} {_quote(types)}"
        yield Violation("restricted volume types", text, (*_POD, "volumes", next(iter(bad))))


def _non_root(subject: _Subject) -> Iterator[Violation]:
    field = "runAsNonRoot"
    if subject.is_in_user_namespace:
        return
    if bad := [place for place, value in _settings(subject.places, field) if value is False]:
        yield _violation(bad, f"{field} != true", f"must not set securityContext.{field}=false", field)
        return
    unset = [item for item in subject.containers if item.context.get(field) is None]
    if unset and subject.pod.context.get(field) is not True:
        detail = f"pod or {_describe(unset)} must set securityContext.{field}=true"
        yield Violation(f"{field} != true", detail, (*unset[0].path, "securityContext", field), is_unset=True)


def _user(subject: _Subject) -> Iterator[Violation]:
    settings = [place for place, value in _settings(subject.places, "runAsUser") if value == 0]
    if settings and subject.minor >= _ROOT and not subject.is_in_user_namespace:
        yield _violation(settings, "runAsUser=0", "must not set runAsUser=0", "runAsUser")


def _restricted_seccomp(subject: _Subject) -> Iterator[Violation]:
    if subject.minor < _SECCOMP or subject.is_exempt:
        return
    bad = [*_bad_seccomp(subject)]
    yield from bad
    unset = [item for item in subject.containers if item.context.get("seccompProfile") is None]
    if unset and not bad and subject.pod.context.get("seccompProfile") is None:
        detail = (
            f'pod or {_describe(unset)} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
        )
        path = (*unset[0].path, "securityContext", "seccompProfile")
        yield Violation("seccompProfile", detail, path, is_unset=True)


_POD: Path = ("spec",)
_PROFILES = ("Localhost", "RuntimeDefault")
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_PREFIX = "seccomp.security.alpha.kubernetes.io/"
_SECCOMP_POD = f"{_SECCOMP_PREFIX}pod"
_DEFAULT_CAPABILITIES = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
        *(NET_BIND_SERVICE, "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
_SYSCTLS: Mapping[int, tuple[str, ...]] = {
    0: (
        "kernel.shm_rmid_forced",
        *(f"net.ipv4.{name}" for name in ("ip_local_port_range", "tcp_syncookies", "ping_group_range")),
        "net.ipv4.ip_unprivileged_port_start",
    ),
    27: ("net.ipv4.ip_local_reserved_ports",),
    29: tuple(
        f"net.ipv4.tcp_{name}" for name in ("keepalive_time", "fin_timeout", "keepalive_intvl", "keepalive_probes")
    ),
    32: ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
    37: ("net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"),
}
"""Minor version of Kubernetes → the sysctls that a pod may set since this version."""
_VOLUMES = (
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image"),
    *("persistentVolumeClaim", "projected", "secret"),
)
_ESCALATION, _SECCOMP, _DROP_ALL, _ROOT, _WINDOWS, _ENGINE_TYPE, _PROBES, _USER_NAMESPACE = (
    8,
    19,
    22,
    23,
    25,
    31,
    34,
    35,
)
"""The minor versions of Kubernetes in which these rules start."""
_BASELINE: tuple[_Rule, ...] = (
    *(_app_armor, _capabilities, _host_namespaces, _host_paths, _host_ports, _hosts, _privileged, _proc_mount),
    *(_selinux, _seccomp, _sysctls, _windows),
)
_RESTRICTED: tuple[_Rule, ...] = (
    *(_escalation, _restricted_capabilities, _restricted_proc_mount, _volumes, _non_root, _user, _restricted_seccomp),
)
