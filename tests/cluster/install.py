"""Render upstream manifests with kustomize, and adapt them to controllers that run as plain processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from urllib.parse import quote

import yaml

from tests.cluster.client import Body, Client, RefusedError, wait_until
from tests.cluster.definitions import yaml_loader
from tests.cluster.modules import module_folder
from tests.cluster.versions import Program

_KUBECTL = Path(sys.executable).with_name("kubectl")
_NOT_HERE = {"Deployment", "Service", "Secret", "APIService"}
_WEBHOOKS = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
_FIRST = {"Namespace", "CustomResourceDefinition"}
_AT_ONCE = 3


def render(program: Program) -> list[Body]:
    """The program's manifests as upstream's kustomizations build them."""
    source = module_folder(program)
    with tempfile.TemporaryDirectory() as folder:
        resources = [os.path.relpath(source / path, Path(folder).resolve()) for path in program.manifests]
        kustomization: Body = {"resources": resources}
        if program.namespace:
            kustomization["namespace"] = program.namespace
        (Path(folder) / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        built = subprocess.run([_KUBECTL, "kustomize", folder], capture_output=True, text=True, check=True)
    return [body for body in yaml.load_all(built.stdout, yaml_loader()) if body]


def controller_objects(program: Program, port: int, bundle: str) -> tuple[list[Body], list[Body]]:
    """Return the objects to install before the controller starts, and the webhooks for its `port`."""
    rendered = [_reachable(body, port, bundle) for body in render(program) if body["kind"] not in _NOT_HERE]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": program.namespace}}
    objects = [body for body in rendered if body["kind"] not in _WEBHOOKS]
    if not any(body["kind"] == "Namespace" for body in objects):
        objects.append(namespace)
    return objects, [body for body in rendered if body["kind"] in _WEBHOOKS]


def install(client: Client, objects: Iterable[Body]) -> None:
    """Apply objects, namespaces and kinds before all others, and wait until the kinds are served."""
    objects = list(objects)
    first = [body for body in objects if body["kind"] in _FIRST]
    others = [body for body in objects if body["kind"] not in _FIRST]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(partial(client.apply, manager="install"), first))
        list(pool.map(partial(_wait, client), first))
        list(pool.map(partial(client.apply, manager="install"), others))


def _wait(client: Client, body: Body) -> None:
    if body["kind"] == "CustomResourceDefinition":
        wait_until(f"{body['metadata']['name']} is served", partial(_is_served, client, body["spec"]))


def _is_served(client: Client, spec: Body) -> bool:
    """Return True if discovery lists the kind; reading the definition itself costs megabytes."""
    version = next(version["name"] for version in spec["versions"] if version["served"])
    try:
        return bool(client.resource(f"{spec['group']}/{version}", spec["names"]["kind"]))
    except (RefusedError, KeyError):
        return False


def _reachable(body: Body, port: int, bundle: str) -> Body:
    """The object with a URL wherever it names a Service, as there is no Service network."""
    for webhook in body.get("webhooks", []):
        webhook["clientConfig"] = _client_config(webhook["clientConfig"], port, bundle)
    conversion = body.get("spec", {}).get("conversion", {}) if body["kind"] == "CustomResourceDefinition" else {}
    if "webhook" in conversion:
        conversion["webhook"]["clientConfig"] = _client_config(conversion["webhook"]["clientConfig"], port, bundle)
    return body


def _client_config(config: Body, port: int, bundle: str) -> Body:
    path = quote(config["service"].get("path", ""))
    return {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}
