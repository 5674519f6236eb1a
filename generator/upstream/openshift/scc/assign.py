"""The security context that one SecurityContextConstraints gives to a pod, and the fields that it does not allow.

The texts equal the texts of the API server. Source: openshift/apiserver-library-go a8019f39
pkg/securitycontextconstraints/sccmatching/matcher.go; openshift/apiserver-library-go a8019f39
pkg/securitycontextconstraints/sccmatching/provider.go; and the packages of the strategies.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from generator.documents.load import Path
from generator.facts.names import CAP_SYS_ADMIN, POD_SECCOMP
from generator.manifests import Body
from generator.objects.fields import indexed_mappings, integer, items, mapping, mappings, string, strings
from generator.upstream.openshift.scc.constraint import (
    ALL,
    Allocation,
    Constraint,
    IdRange,
    safe_sysctls,
    volume_type,
)

_CONTAINER_PROFILE = "container.seccomp.security.alpha.kubernetes.io/"
_SPEC = "spec"
_KINDS = ("initContainers", "containers", "ephemeralContainers")


@dataclass(frozen=True, slots=True)
class Failure:
    """A field of a pod that an SCC does not allow.

    Attributes:
        text: the text of the API server.
        path: the field in the pod.
        constraint: the name of the SCC.
    """

    text: str
    path: Path = ("spec",)
    constraint: str = ""

    def __str__(self) -> str:
        return self.text


def invalid(field: str, value: object, detail: str, *path: str | int) -> Failure:
    """Return the failure of a field with an invalid value.

    Source: apimachinery v0.34.2 pkg/util/validation/field/errors.go Error.ErrorBody
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Failure(f"{field}: Invalid value: {text}: {detail}", path)


def forbidden(field: str, detail: str, *path: str | int) -> Failure:
    """Return the failure of a forbidden field."""
    return Failure(f"{field}: Forbidden: {detail}", path)


def join(failures: Iterable[Failure]) -> str:
    """Return the text of several failures, each once.

    Source: apimachinery v0.34.2 pkg/util/errors/errors.go aggregate.Error
    """
    texts = [*dict.fromkeys(map(str, failures))]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def assign(constraint: Constraint, allocation: Allocation, pod: Body) -> tuple[Body, list[Failure]]:
    """Return a pod with the security context that an SCC gives it, and the failures of the fields.

    Args:
        constraint: the SCC.
        allocation: the UIDs, groups and SELinux level that OpenShift gives to the Namespace.
        pod: the Pod, which stays unchanged.
    """
    return _Assignment(constraint, allocation, pod).run()


class _Assignment:
    """The assignment of a security context to a copy of a pod.

    OpenShift's code also rejects absent fields. It sets these fields first, so that no check finds an absent field.
    """

    def __init__(self, constraint: Constraint, allocation: Allocation, pod: Body) -> None:
        self.constraint, self.allocation = constraint, allocation
        metadata, spec = mapping(pod, "metadata"), mapping(pod, "spec")
        self.annotations: dict[str, Any] = {**mapping(metadata, "annotations")}
        self.context: dict[str, Any] = _set_fields(mapping(spec, "securityContext"))
        self.spec: dict[str, Any] = {**spec, "securityContext": self.context}
        for kind in _KINDS:
            if kind in spec:
                self.spec[kind] = [{**container} for container in mappings(spec[kind])]
        self.pod: Body = {**pod, "metadata": {**metadata, "annotations": self.annotations}, "spec": self.spec}
        self.root = f"provider {constraint.name}: "
        self.failures: list[Failure] = []

    def run(self) -> tuple[Body, list[Failure]]:
        self._set_pod()
        self.failures += self._check_pod()
        for kind in _KINDS:
            for number, container in indexed_mappings(self.spec.get(kind)):
                context = self._set_container(container)
                if context or container.get("securityContext") is not None:
                    container["securityContext"] = context
                place = f"{self.root}.{kind}[{number}]"
                self.failures += self._check_container(container, context, place, ("spec", kind, number))
        if not self.annotations:
            del self.pod["metadata"]["annotations"]
        return self.pod, self.failures

    # The pod

    def _set_pod(self) -> None:
        groups, fs_groups = self._ranges("supplementalGroups"), self._ranges("fsGroup")
        if groups and self.context.get("supplementalGroups") is None:
            self.context["supplementalGroups"] = [groups[0].first]
        if fs_groups and self.context.get("fsGroup") is None:
            self.context["fsGroup"] = fs_groups[0].first
        if self.context.get("seLinuxOptions") is None and (options := self._se_linux_options()) is not None:
            self.context["seLinuxOptions"] = options
        profile = self._generate_profile()
        if profile:
            self.annotations[POD_SECCOMP] = profile
            _set(self.context, "seccompProfile", _profile_field(profile))

    def _generate_profile(self) -> str:
        if annotated := self.annotations.get(POD_SECCOMP):
            return str(annotated)
        if self.context.get("seccompProfile") is not None:
            return _profile_name(self.context["seccompProfile"])
        return next(iter(self._profiles), "")

    def _check_pod(self) -> Iterator[Failure]:
        place, path = f"{self.root}.spec.securityContext", (_SPEC, "securityContext")
        fs_group = self.context.get("fsGroup")
        yield from self._check_groups(place, "fsGroup", [] if fs_group is None else [fs_group])
        yield from self._check_groups(place, "supplementalGroups", self.context.get("supplementalGroups"))
        profile = self.annotations.get(POD_SECCOMP, "") or _profile_name(self.context.get("seccompProfile"))
        yield from self._check_profile(POD_SECCOMP, profile, *path, "seccompProfile")
        options = self.context.get("seLinuxOptions")
        yield from self._check_se_linux(f"{place}.seLinuxOptions", options, *path, "seLinuxOptions")
        yield from self._check_host(place)
        host_users = self.spec.get("hostUsers")
        if self.constraint.body.get("userNamespaceLevel") == "RequirePodLevel" and host_users is not False:
            yield invalid(f"{place}.hostUsers", host_users, "Host Users must be set to false", _SPEC, "hostUsers")
        yield from self._check_sysctls()
        yield from self._check_volumes(place)

    def _check_groups(self, place: str, field: str, groups: object) -> Iterator[Failure]:
        ranges, path = self._ranges(field), (_SPEC, "securityContext", field)
        if ranges and not groups:
            yield invalid(f"{place}.{field}", groups, "unable to validate empty groups against required ranges", *path)
        for group in items(groups):
            if ranges and not any(item.contains(group) for item in ranges):
                yield invalid(f"{place}.{field}", groups, f"{group} is not an allowed group", *path)

    def _check_host(self, place: str) -> Iterator[Failure]:
        for field, text in _HOST_NAMESPACES.items():
            if self.spec.get(field) is True and not self.constraint.allows(f"allow{field[0].upper()}{field[1:]}"):
                yield invalid(f"{place}.{field}", True, f"Host {text} is not allowed to be used", _SPEC, field)

    def _check_sysctls(self) -> Iterator[Failure]:
        forbidden_names = strings(self.constraint.body.get("forbiddenSysctls"))
        allowed = strings(self.constraint.body.get("allowedUnsafeSysctls"))
        for number, sysctl in indexed_mappings(self.context.get("sysctls")):
            name = string(sysctl.get("name"))
            place, path = f"pod.spec.securityContext.sysctls[{number}]", (_SPEC, "securityContext", "sysctls", number)
            if _matches(name, forbidden_names):
                yield forbidden(place, f'sysctl "{name}" is not allowed', *path)
            elif name not in safe_sysctls() and not _matches(name, allowed):
                yield forbidden(place, f'unsafe sysctl "{name}" is not allowed', *path)

    def _check_volumes(self, place: str) -> Iterator[Failure]:
        allowed = self.constraint.volumes
        volumes = indexed_mappings(self.spec.get("volumes"))
        for number, volume in volumes if ALL not in allowed else ():
            kind = volume_type(volume)
            is_token = kind == "projected" and "secret" in allowed and _is_token(volume)
            if kind not in allowed and not is_token:
                field, detail = f"spec.volumes[{number}]", f"{kind} volumes are not allowed to be used"
                yield invalid(field, kind, detail, _SPEC, "volumes", number)
        drivers = {string(item.get("driver")) for item in mappings(self.constraint.body.get("allowedFlexVolumes"))}
        for number, volume in volumes if drivers and {"flexVolume", ALL} & allowed else ():
            flex = volume.get("flexVolume")
            if flex is not None and (driver := string(mapping(flex).get("driver"))) not in drivers:
                field = f"{place}.volumes[{number}].driver"
                yield invalid(field, driver, "Flexvolume driver is not allowed to be used", _SPEC, "volumes", number)

    # The containers

    def _set_container(self, container: dict[str, Any]) -> dict[str, Any]:
        context = _set_fields(mapping(container, "securityContext"))
        if self._effective(context, "runAsUser") is None and (user := self._user()) is not None:
            context["runAsUser"] = user
        if self._effective(context, "runAsNonRoot") is None:
            user = self._effective(context, "runAsUser")
            strategy = self.constraint.strategy("runAsUser")
            if integer(user, 0) > 0 if user is not None else strategy == "MustRunAsNonRoot":
                context["runAsNonRoot"] = True
        _set(context, "capabilities", self._generate_capabilities(context.get("capabilities")))
        if self.constraint.allows(_READ_ONLY) and context.get(_READ_ONLY) is None:
            context[_READ_ONLY] = True
        annotation = f"{_CONTAINER_PROFILE}{container.get('name')}"
        if annotation in self.annotations:
            _set(context, "seccompProfile", _profile_field(str(self.annotations[annotation])))
        if context.get(_ESCALATION) is None:
            default = self.constraint.body.get("defaultAllowPrivilegeEscalation")
            needs_escalation = context.get("privileged") is True or CAP_SYS_ADMIN in _names(context, "add")
            if default is not None and not needs_escalation:
                context[_ESCALATION] = default
            elif not self.constraint.allows(_ESCALATION):
                context[_ESCALATION] = False
        return context

    def _generate_capabilities(self, capabilities: object) -> object:
        """Return capabilities of a container with the SCC's `defaultAddCapabilities` and `requiredDropCapabilities`."""
        add, drop = ({*strings(mapping(capabilities).get(key))} for key in ("add", "drop"))
        defaults = {*strings(self.constraint.body.get("defaultAddCapabilities"))} - drop
        dropped = {*strings(self.constraint.body.get("requiredDropCapabilities"))}
        if defaults <= add and dropped <= drop:
            return capabilities
        lists = {"add": sorted(defaults | add), "drop": sorted(dropped | drop)}
        return {key: names for key, names in lists.items() if names}

    def _check_container(
        self, container: Mapping[str, Any], context: Mapping[str, Any], place: str, path: tuple[str | int, ...]
    ) -> Iterator[Failure]:
        own: tuple[str | int, ...] = (*path, "securityContext")
        yield from self._check_user(context, place, *own)
        options = self._effective(context, "seLinuxOptions")
        yield from self._check_se_linux(f"{place}.seLinuxOptions", options, *own, "seLinuxOptions")
        annotation = f"{_CONTAINER_PROFILE}{container.get('name')}"
        yield from self._check_profile(annotation, self._container_profile(context, annotation), *own, "seccompProfile")
        if context.get("privileged") is True and not self.constraint.allows("allowPrivilegedContainer"):
            yield invalid(f"{place}.privileged", True, "Privileged containers are not allowed", *own, "privileged")
        yield from self._check_capabilities(context.get("capabilities"), f"{place}.capabilities", *own, "capabilities")
        failures = {string(failure.path[-1]): failure for failure in self._check_host(place)}
        yield from (failures[field] for field in ("hostNetwork",) if field in failures)
        if not self.constraint.allows("allowHostPorts"):
            yield from self._check_ports(place)
        yield from (failures[field] for field in ("hostPID", "hostIPC") if field in failures)
        if self.constraint.allows(_READ_ONLY) and context.get(_READ_ONLY) is not True:
            yield invalid(
                f"{place}.{_READ_ONLY}", False, "ReadOnlyRootFilesystem must be set to true", *own, _READ_ONLY
            )
        if not self.constraint.allows(_ESCALATION) and context.get(_ESCALATION) is not False:
            detail = "Allowing privilege escalation for containers is not allowed"
            yield invalid(f"{place}.{_ESCALATION}", context.get(_ESCALATION), detail, *own, _ESCALATION)

    def _check_user(self, context: Mapping[str, Any], place: str, *own: str | int) -> Iterator[Failure]:
        user, is_non_root = self._effective(context, "runAsUser"), self._effective(context, "runAsNonRoot")
        field, path = f"{place}.runAsUser", (*own, "runAsUser")
        match self.constraint.strategy("runAsUser"):
            case "MustRunAs" if user != (only := self._user()):
                yield invalid(field, user, f"must be: {only}", *path)
            case "MustRunAsRange" if not (uids := self._uids).contains(user):
                detail = f"must be in the ranges: [{uids.first}, {uids.last}]"
                if self.allocation.is_assumed and uids == self.allocation.uids:
                    detail = "must be in the range of UIDs that OpenShift gives to the namespace"
                yield invalid(field, user, detail, *path)
            case "MustRunAsNonRoot" if is_non_root is False:
                yield invalid(f"{place}.runAsNonRoot", False, "must be true", *own, "runAsNonRoot")
            case "MustRunAsNonRoot" if user == 0:
                yield invalid(field, 0, "running with the root UID is forbidden", *path)

    def _check_capabilities(self, capabilities: object, place: str, *path: str | int) -> Iterator[Failure]:
        body = self.constraint.body
        allowed, defaults = strings(body.get("allowedCapabilities")), strings(body.get("defaultAddCapabilities"))
        for name in strings(mapping(capabilities).get("add")) if ALL not in allowed else ():
            if name not in (*defaults, *allowed):
                yield invalid(f"{place}.add", name, "capability may not be added", *path, "add")

    def _check_ports(self, place: str) -> Iterator[Failure]:
        """Yield a failure for each host port. In the host network, `hostPort` defaults to `containerPort`."""
        for kind in _KINDS:
            for number, container in indexed_mappings(self.spec.get(kind)):
                for port in mappings(container.get("ports")):
                    default = port.get("containerPort") if self.spec.get("hostNetwork") is True else None
                    if value := port.get("hostPort") or default:
                        field = f"{place}.{kind}[{number}].hostPort"
                        path = (_SPEC, kind, number, "ports")
                        yield invalid(field, value, "Host ports are not allowed to be used", *path)

    # Strategies of the SCC

    def _effective(self, context: Mapping[str, Any], field: str) -> Any:
        own = context.get(field)
        return self.context.get(field) if own is None else own

    def _user(self) -> int | None:
        match self.constraint.strategy("runAsUser"):
            case "MustRunAs":
                value = mapping(self.constraint.body, "runAsUser").get("uid")
                return value if isinstance(value, int) else None
            case "MustRunAsRange":
                return self._uids.first
        return None

    @property
    def _uids(self) -> IdRange:
        options = mapping(self.constraint.body, "runAsUser")
        first, last = options.get("uidRangeMin"), options.get("uidRangeMax")
        return IdRange(first, last) if isinstance(first, int) and isinstance(last, int) else self.allocation.uids

    def _ranges(self, field: str) -> tuple[IdRange, ...]:
        """Return the ranges of groups that a pod must use; empty if it can use any group."""
        if self.constraint.strategy(field) != "MustRunAs":
            return ()
        if ranges := self.constraint.ranges(field):
            return ranges
        first = self.allocation.groups[0].first
        return (IdRange(first, first),) if field == "fsGroup" else self.allocation.groups

    def _se_linux_options(self) -> dict[str, Any] | None:
        if self.constraint.strategy("seLinuxContext") != "MustRunAs":
            return None
        options = mapping(self.constraint.body, "seLinuxContext", "seLinuxOptions")
        return {**options, "level": string(options.get("level"), self.allocation.level)}

    def _check_se_linux(self, place: str, options: object, *path: str | int) -> Iterator[Failure]:
        expected = self._se_linux_options()
        if expected is None:
            return
        for field in ("level", "role", "type", "user"):
            value, expected_level = (string(mapping(item).get(field)) for item in (options, expected))
            if value != expected_level and not (field == "level" and _are_equal_levels(expected_level, value)):
                is_assumed = field == "level" and self.allocation.is_assumed and expected_level == self.allocation.level
                detail = (
                    "must be the level that OpenShift gives to the namespace"
                    if is_assumed
                    else f"must be {expected_level}"
                )
                yield invalid(f"{place}.{field}", value, detail, *path, field)

    @property
    def _profiles(self) -> Sequence[str]:
        return [name for name in strings(self.constraint.body.get("seccompProfiles")) if name != ALL]

    def _container_profile(self, context: Mapping[str, Any], annotation: str) -> str:
        if context.get("seccompProfile") is not None:
            return _profile_name(context["seccompProfile"])
        if annotation in self.annotations:
            return str(self.annotations[annotation])
        if self.context.get("seccompProfile") is not None:
            return _profile_name(self.context["seccompProfile"])
        return str(self.annotations.get(POD_SECCOMP, ""))

    def _check_profile(self, annotation: str, profile: str, *path: str | int) -> Iterator[Failure]:
        allowed = self._profiles
        if ALL in strings(self.constraint.body.get("seccompProfiles")) or (not allowed and not profile):
            return
        field = f"pod.metadata.annotations[{annotation}]"
        if not allowed:
            yield forbidden(field, "seccomp may not be set", *path)
        elif profile not in allowed and not ({profile} <= _DEFAULTS and _DEFAULTS & {*allowed}):
            detail = f"{profile} is not an allowed seccomp profile. Valid values are [{' '.join(allowed)}]"
            yield forbidden(field, detail, *path)


_READ_ONLY, _ESCALATION = "readOnlyRootFilesystem", "allowPrivilegeEscalation"
_HOST_NAMESPACES = {"hostNetwork": "network", "hostPID": "PID", "hostIPC": "IPC"}
_LOCALHOST = "localhost/"
_RUNTIME_DEFAULT = "runtime/default"
_DEFAULTS = {_RUNTIME_DEFAULT, "docker/default"}


def _set_fields(context: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in context.items() if value is not None}


def _set(context: dict[str, Any], field: str, value: object) -> None:
    """Set a field of a security context, or remove the field if the value is None."""
    if value is None:
        context.pop(field, None)
    else:
        context[field] = value


def _names(context: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return strings(mapping(context, "capabilities").get(key))


def _matches(name: str, patterns: Iterable[str]) -> bool:
    """Return True if a name equals a pattern, or begins with the text before the `*` at its end."""
    return any(name.startswith(item[:-1]) if item.endswith("*") else name == item for item in patterns)


def _profile_field(name: str) -> dict[str, str] | None:
    """Return the field `seccompProfile` that equals a value of the seccomp annotation; None for an unknown value."""
    if name == "unconfined":
        return {"type": "Unconfined"}
    if name in _DEFAULTS:
        return {"type": "RuntimeDefault"}
    profile = name.removeprefix(_LOCALHOST)
    return {"type": "Localhost", "localhostProfile": profile} if profile and name.startswith(_LOCALHOST) else None


def _profile_name(profile: object) -> str:
    """Return the value of the seccomp annotation that equals a field `seccompProfile`."""
    match mapping(profile).get("type"):
        case "Unconfined":
            return "unconfined"
        case "RuntimeDefault":
            return _RUNTIME_DEFAULT
        case "Localhost" if (name := mapping(profile).get("localhostProfile")) is not None:
            return f"{_LOCALHOST}{name}"
    return ""


def _are_equal_levels(expected_level: str, value: str) -> bool:
    """Return True if two SELinux levels have the same sensitivity and the same categories, in any order."""
    first, second = expected_level.split(":", 1), value.split(":", 1)
    return (
        len(first) == len(second) == 2  # noqa: PLR2004 - sensitivity and categories
        and first[0] == second[0]
        and sorted(first[1].split(",")) == sorted(second[1].split(","))
    )


def _is_token(volume: Mapping[str, Any]) -> bool:
    """Return True if a projected volume has only the sources of a ServiceAccount's token.

    Source: openshift/apiserver-library-go a8019f39
    pkg/securitycontextconstraints/util/util.go IsOnlyServiceAccountTokenSources
    """
    return all(_is_token_source(source) for source in mappings(mapping(volume, "projected").get("sources")))


def _is_token_source(source: Mapping[str, Any]) -> bool:
    token, config, downward = (source.get(key) for key in ("serviceAccountToken", "configMap", "downwardAPI"))
    if token is None and config is None and downward is None:
        return False
    if token is not None and (mapping(token).get("path") != "token" or mapping(token).get("audience")):
        return False
    if config is not None:
        key = _CERTIFICATES.get(string(mapping(config).get("name")))
        files = mappings(mapping(config).get("items"))
        if key is None or [(file.get("key"), file.get("path")) for file in files] != [(key, key)]:
            return False
    return all(
        item.get("path") == "namespace"
        and string(mapping(item, "fieldRef").get("apiVersion"), "v1") == "v1"
        and mapping(item, "fieldRef").get("fieldPath") == "metadata.namespace"
        for item in mappings(mapping(downward).get("items"))
    )


_CERTIFICATES = {"kube-root-ca.crt": "ca.crt", "openshift-service-ca.crt": "service-ca.crt"}
