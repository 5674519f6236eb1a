"""What upstream would install, rendered by kustomize and made to work with controllers that are plain processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from generator.schemas import sources
from generator.versions import SUPPORTED
from tests.cluster.build import module_folder
from tests.cluster.client import Body, Client, wait_until
from tests.cluster.versions import Program

_KUBECTL = Path(sys.executable).with_name("kubectl")
_NOT_HERE = {"Deployment", "Service", "Secret", "APIService"}
_WEBHOOKS = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
_FIRST = ("Namespace", "CustomResourceDefinition")


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
    return [body for body in yaml.load_all(built.stdout, _loader()) if body]


def controller_objects(program: Program, port: int, bundle: str) -> tuple[list[Body], list[Body]]:
    """What to install before the controller starts, and the webhooks for when it answers on `port`."""
    rendered = [_reachable(body, port, bundle) for body in render(program) if body["kind"] not in _NOT_HERE]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": program.namespace}}
    objects = [body for body in rendered if body["kind"] not in _WEBHOOKS]
    if not any(body["kind"] == "Namespace" for body in objects):
        objects.append(namespace)
    return objects, [body for body in rendered if body["kind"] in _WEBHOOKS]


def definitions_without_controller() -> list[Body]:
    """The CustomResourceDefinitions of kinds that we emit and nobody reconciles here."""
    folders = sources.fetch(component for component in SUPPORTED if component.name == "argocd")
    files = [file for component, folder in folders.items() for file in (folder / component.folder).glob("*-crd.yaml")]
    return [yaml.load(file.read_text(), _loader()) for file in sorted(files)]


def install(client: Client, objects: Iterable[Body]) -> None:
    """Apply objects in an order that works, and wait until their kinds are served."""
    ordered = sorted(objects, key=lambda body: _FIRST.index(body["kind"]) if body["kind"] in _FIRST else len(_FIRST))
    for body in ordered:
        client.apply(body, "install")
    for body in ordered:
        if body["kind"] == "CustomResourceDefinition":
            wait_until(f"{body['metadata']['name']} is established", partial(_established, client, body))


def _established(client: Client, definition: Body) -> bool:
    conditions = client.read(definition).get("status", {}).get("conditions") or []
    return any(found["type"] == "Established" and found["status"] == "True" for found in conditions)


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


def _loader() -> Any:
    """The C parser where PyYAML has it: the CustomResourceDefinitions are megabytes."""
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)
