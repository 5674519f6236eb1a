"""quota/configuration: a configuration with which Kueue does not start."""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.registry import ERROR, Breach, check
from generator.documents.load import Path, load
from generator.documents.messages import format_path, format_value
from generator.errors import DocumentError
from generator.manifests import Manifest
from generator.objects.fields import mapping
from generator.schemas.kueue import GROUP, VERSIONS, find_violations
from generator.upstream.kueue.configuration import CONFIGURATION, CONFIGURATION_KEY, is_configuration

_PATH: Path = ("data", CONFIGURATION_KEY)


@check("quota/configuration", severity=ERROR, needs=Manifest)
def configuration(manifest: Manifest) -> Iterator[Breach]:
    """Report a configuration with which Kueue does not start.

    The API server accepts any text in a ConfigMap, but Kueue reads the text strictly. A misspelt field, a value of a
    wrong type, an unknown framework or an unknown version stops Kueue with an error at its next start, and its webhooks
    then reject all jobs. A field that only another version of the configuration has is unknown too.

    Source: kueue v0.19.2 pkg/config/config.go fromFile; kueue v0.19.2 pkg/config/validation.go, apis/config
    """
    if manifest.kind != "ConfigMap" or not is_configuration(manifest):
        return
    text = mapping(manifest.body, "data")[CONFIGURATION_KEY]
    for message, fix in _find_mistakes(text):
        why = "Kueue stops with an error at its next start, and then its webhooks reject all jobs"
        yield Breach(_PATH, message, why, fix)


def _find_mistakes(text: str) -> Iterator[tuple[str, str]]:
    """Yield (message, fix) of each mistake in a configuration."""
    try:
        documents = [document.data for document in load(text)]
    except DocumentError as error:
        yield f"the configuration is not YAML: {error.problems[0].message}", "correct the YAML"
        return
    body = documents[0] if documents else None
    known = {f"{GROUP}/{version}": version for version in VERSIONS}
    if not isinstance(body, dict):
        yield f"the configuration is {format_value(body)}, not an object", f"write a {CONFIGURATION} of Kueue"
    elif body.get("kind") != CONFIGURATION or body.get("apiVersion") not in known:
        header = f"`kind` {format_value(body.get('kind'))} of `apiVersion` {format_value(body.get('apiVersion'))}"
        yield f"the configuration has {header}", f"write `kind: {CONFIGURATION}` and `apiVersion: {GROUP}/v1beta2`"
    else:
        for violation in find_violations(known[body["apiVersion"]], body):
            place = f"`{format_path(violation.path)}`: " if violation.path else ""
            yield f"in the configuration: {place}{violation.message}", violation.fix
