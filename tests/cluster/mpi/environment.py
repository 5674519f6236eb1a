"""The variables of a container as the kubelet makes them.

Source: kubernetes v1.34.2 pkg/kubelet/kubelet_pods.go Kubelet.makeEnvironmentVariables
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping

from tests.cluster.client import Body

Lookup = Callable[[str, str], Body]
"""Kind and name → the object in the pod's namespace."""
_REFERENCE = re.compile(r"\$(?:(\$)|\(([^)]*)\))")
_KEY = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")


class UnsupportedError(RuntimeError):
    """A pod asks for something that is not imitated: it would run in another way than on a cluster."""


def environment(pod: Body, container: Body, address: str, lookup: Lookup) -> dict[str, str]:
    """Return the variables from `env` in order of declaration, so that later values may use earlier ones.

    Raises:
        UnsupportedError: a source is not imitated.
    """
    result: dict[str, str] = {}
    for variable in container.get("env", []):
        if source := variable.get("valueFrom"):
            result[variable["name"]] = _from(source, pod, address, lookup)
        else:
            result[variable["name"]] = expanded(variable.get("value", ""), result)
    return result


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """Expand `$(NAME)` to the variable's value and `$$` to a dollar; unknown names stay (third_party/…/expansion)."""
    return _REFERENCE.sub(lambda found: found[1] or variables.get(found[2], found[0]), text)


def data_of(body: Body) -> dict[str, bytes]:
    """Return the data of a ConfigMap or Secret."""
    if body["kind"] == "Secret":
        return {key: base64.b64decode(value) for key, value in (body.get("data") or {}).items()}
    texts = {key: value.encode() for key, value in (body.get("data") or {}).items()}
    return texts | {key: base64.b64decode(value) for key, value in (body.get("binaryData") or {}).items()}


def _from(source: Body, pod: Body, address: str, lookup: Lookup) -> str:
    match source:
        case {"fieldRef": {"fieldPath": path}}:
            return _field(pod, path, address)
        case {"configMapKeyRef": {"name": name, "key": key}}:
            return data_of(lookup("ConfigMap", name))[key].decode()
        case {"secretKeyRef": {"name": name, "key": key}}:
            return data_of(lookup("Secret", name))[key].decode()
    raise UnsupportedError(f"a variable from {source}")


def _field(pod: Body, path: str, address: str) -> str:
    """Not of `status`, where the cluster's kubelet wrote other addresses than the pod has here."""
    if path == "status.podIP":
        return address
    if found := _KEY.fullmatch(path):
        return str((pod["metadata"].get(found[1]) or {}).get(found[2], ""))
    group, _, name = path.partition(".")
    if group not in {"metadata", "spec"}:
        raise UnsupportedError(f"a variable from {path}")
    return str(pod[group][name])
