"""Test the translation of pods into plans, without a cluster and without root."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.client import Body
from tests.cluster.mpi import layers, openshift
from tests.cluster.mpi.environment import UnsupportedError, expanded
from tests.cluster.mpi.images import Image
from tests.cluster.mpi.pods import Place, planned

OBJECTS = {
    "ConfigMap": {"kind": "ConfigMap", "data": {"key": "text"}},
    "Secret": {"kind": "Secret", "data": {"key": "eA=="}},
}
PLACE = Place("10.0.0.1", lambda _: Image((Path("/layer"),), {"PATH": "/bin"}), lambda kind, _: OBJECTS[kind])


def pod(*, spec: Body | None = None, **container: object) -> Body:
    main = {"name": "main", "image": "any", "command": ["true"], **container}
    metadata = {"name": "one", "namespace": "team", "labels": {"a.b/c": "label"}}
    return {"metadata": metadata, "spec": {"containers": [main], "nodeName": "node", **(spec or {})}}


def environment(*variables: Body) -> dict[str, str]:
    return planned(pod(env=list(variables)), PLACE)["containers"][0]["process"]["environment"]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("$(A) and $(A)", "x and x"),
        ("$(B)", "$(B)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$x"),
        ("$(id -u) $A ${A} $", "$(id -u) $A ${A} $"),
        ("$(A", "$(A"),
        ("$(EMPTY)|", "|"),
    ],
)
def test_variable_references_are_expanded_as_the_kubelet_does(text: str, meant: str) -> None:
    assert expanded(text, {"A": "x", "EMPTY": ""}) == meant


def test_variables_come_from_the_image_the_pod_and_referenced_objects() -> None:
    found = environment(
        {"name": "A", "value": "a"},
        {"name": "PATH", "value": "$(A):$(LATER)"},
        {"name": "LATER", "valueFrom": {"configMapKeyRef": {"name": "any", "key": "key"}}},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "any", "key": "key"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a.b/c']"}}},
        {"name": "NONE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['x']"}}},
    )
    assert found == {
        "HOSTNAME": "one",
        "PATH": "a:$(LATER)",
        "A": "a",
        "LATER": "text",
        "SECRET": "x",
        "IP": "10.0.0.1",
        "NODE": "node",
        "LABEL": "label",
        "NONE": "",
    }


def test_command_and_arguments_expand_only_variables_of_the_pod() -> None:
    one = pod(command=["sh", "-c"], args=["$(A) $(PATH)"], env=[{"name": "A", "value": "a"}])
    assert planned(one, PLACE)["containers"][0]["process"]["arguments"] == ["sh", "-c", "a $(PATH)"]


@pytest.mark.parametrize(
    ("one", "problem"),
    [
        (pod(spec={"hostNetwork": True}), "pod has hostNetwork"),
        (pod(spec={"securityContext": {"sysctls": []}}), "securityContext has sysctls"),
        (pod(spec={"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}), "volume .*hostPath"),
        (pod(spec={"volumes": [{"name": "v", "emptyDir": {"medium": "HugePages"}}]}), "HugePages"),
        (pod(envFrom=[{"secretRef": {"name": "s"}}]), "container main has envFrom"),
        (pod(livenessProbe={}), "container main has livenessProbe"),
        (pod(readinessProbe={"exec": {"command": ["true"]}}), "readinessProbe of main"),
        (pod(securityContext={"privileged": True}), "securityContext of main has privileged"),
        (pod(securityContext={"runAsNonRoot": True, "runAsUser": 0}), "would run as root"),
        (pod(volumeMounts=[{"name": "v", "mountPath": "/v", "subPathExpr": "$(A)"}]), "volumeMount has subPathExpr"),
        (pod(command=[]), "main has no command"),
        (pod(env=[{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]), "resourceFieldRef"),
        (pod(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}]), "status.hostIP"),
    ],
)
def test_unsupported_pod_fields_are_rejected(one: Body, problem: str) -> None:
    with pytest.raises(UnsupportedError, match=problem):
        planned(one, PLACE)


def test_an_unknown_capability_is_rejected() -> None:
    with pytest.raises(ValueError, match="no such capability: CAP_KILL"):
        planned(pod(securityContext={"capabilities": {"add": ["CAP_KILL"]}}), PLACE)


def test_container_security_settings_override_pod_settings() -> None:
    spec = {"securityContext": {"runAsUser": 1, "runAsGroup": 2, "fsGroup": 3, "supplementalGroups": [4]}}
    process = planned(pod(spec=spec, securityContext={"runAsUser": 5}), PLACE)["containers"][0]["process"]
    assert (process["user"], process["group"], process["groups"]) == (5, 2, [3, 4])


def test_openshift_sets_the_user_of_the_namespace_and_rejects_other_users() -> None:
    spec = openshift.admitted(pod(spec={"initContainers": [{"name": "first"}]}))["spec"]
    users = {one["securityContext"]["runAsUser"] for one in (*spec["initContainers"], *spec["containers"])}
    assert (users, spec["securityContext"]["fsGroup"]) == ({openshift.USER}, openshift.USER)
    for own in (pod(securityContext={"runAsUser": 1000}), pod(spec={"securityContext": {"fsGroup": 1000}})):
        with pytest.raises(ValueError, match="one names a user or group of its own"):
            openshift.admitted(own)


def test_a_layer_is_built_once_per_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPIGEN_CACHE", str(tmp_path))
    made: list[Path] = []
    first, again, other = (layers._layer("x", content, made.append) for content in (["a"], ["a"], ["b"]))
    assert first == again
    assert first != other
    assert len(made) == 2


def test_an_interrupted_layer_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPIGEN_CACHE", str(tmp_path))

    def interrupted(root: Path) -> None:
        (root / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        layers._layer("x", ["a"], interrupted)
    layer = layers._layer("x", ["a"], lambda root: (root / "whole").touch())
    assert [path.name for path in layer.iterdir()] == ["whole"]
    assert {path.name for path in (tmp_path / "images").iterdir()} == {"lock", layer.name}
