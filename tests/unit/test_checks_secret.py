"""Test that secret values are detected by kind, format or name, and that similar values pass."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.checks.finding import Finding
from generator.checks.run import check_rendered, check_text
from generator.documents.credentials import Form, credential_forms
from generator.manifests import Manifest, read, write
from generator.report.json import render
from generator.report.result import Result
from generator.report.text import plain
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from tests.conftest import ROOT

CHECK = "secret/value"
# Written in parts, so that no scanner of this repository takes them for real.
WORD = "s3cr3t" + "Pa55phrase"
TOKENS = {
    "a private key": "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEowIBAAKCAQEA",
    "a key of age": "AGE-SECRET-" + "KEY-1" + "Q" * 58,
    "an access key of AWS": "AKIA" + "Q3EGRIJ7W2DLN5TB",
    "a token of GitHub": "ghp_" + "a1B2c3" * 6,
    "a token of GitLab": "glpat-" + "a1B2c3d4e5" * 2,
    "a token of Slack": "xoxb-" + "123456789012-abcdef",
    "a webhook of Slack": "https://hooks.slack.com/" + "services/T0AB/B0CD/abc123",
    "a token of Hugging Face": "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "a key of NVIDIA NGC": "nvapi-" + "a1B2c3d4e5" * 6,
    "a key of OpenAI": "sk-proj-abc" + "T3Blbk" + "FJ" + "a1B2c3d4e5" * 2,
    "a key of Anthropic": "sk-ant-" + "api03-" + "a1B2c3d4e5" * 9,
    "a key of Google": "AIza" + "a1B2c3d" * 5,
    "a key of Azure storage": "AccountName=x;Account" + "Key=" + "A1" * 43 + "==",
    "a token of Vault": "hvs." + "a1B2c3d4e5" * 9,
    "a token of OpenShift": "sha256~" + "a" * 43,
    "a token of npm": "npm_" + "a1B2c3" * 6,
    "a token of PyPI": "pypi-Ag" + "EIcHlwaS5vcmc" + "a1B2c3d4e5" * 5,
    "a JSON Web Token": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0." + "a1B2c3d4" * 4,
    "a login to a registry": '{"auths": {"quay.io": {"auth": "' + base64.b64encode(WORD.encode()).decode() + '"}}}',
    "a password in a URL": f"postgresql://train:{WORD}@db.example.com/runs",
    "a value of `wandb-api-key`": f"--wandb-api-key={WORD} --epochs=3",
    "a value of `db.password`": f"db.host=db\ndb.password={WORD}\n",
}
BY_NAME = (
    "AWS_SECRET_ACCESS_KEY",
    "WANDB_API_KEY",
    "HF_TOKEN",
    "MYSQL_PASSWORD",
    "DB_PASS_PHRASE_SECRET",
    "githubToken",
)
NOT_BY_NAME = {
    "HF_TOKEN_PATH": WORD,
    "PAD_TOKEN": "pad",
    "MAX_TOKEN": WORD,
    "TOKENIZERS_PARALLELISM": WORD,
    "SECRET_NAME": "quay",
    "HF_TOKEN": "/run/secrets/hf",
    "EOS_TOKEN": "</s>",
    "API_KEY": "$(KEY_OF_POD)",
    "PASSWORD": "<your password>",
    "MY_SECRET": "vault:secret/data/x",
    "AUTH_TOKEN": "",
    "USE_PASSWORD": "false",
    "DB_PASSWORD": "CHANGE-ME",
    "SOPS_SECRET": "ENC[AES256_GCM,data:abc]",
    "AWS_SECRET_ACCESS_KEY": "UPDATE_AWS_SECRET_ACCESS_KEY",
    "GITLAB_TOKEN": "**access token goes here**",
}
HARMLESS = (
    "quay.io/acme/mpi@sha256:3b1f0c5d9a7e42680f1d2c3b4a5968778695a4b3c2d1e0f9e8d7c6b5a4938271",
    "ssh://git@git.example.com/hpc/platform.git",
    "https://user:$(PASSWORD)@example.com/",
    "https://example.com:8443/a@b",
    "AKIAIOSFODNN7EXAMPLE",
    "-----BEGIN CERTIFICATE-----\nMIIEowIBAAKCAQEA",
    "grep -q 'BEGIN OPENSSH PRIVATE KEY' /home/mpiuser/.ssh/id_rsa",
    "password: read it from /run/secrets\n",
    "token=$(cat /run/secrets/token)\nexport HF_TOKEN=${TOKEN}\n",
    "import_certificates() {\n  FILE=$1\n  PASSWORD=$2\n}\n",
    'PASSWORD="not set"\nif [ -f "$FILE" ]; then\n  PASSWORD=$(cat "$FILE")\nfi\n',
    "oc login --token=TOKEN --server=https://openshift.default.svc",
    "mpirun --mca pml ucx python train.py --tokenizer=gpt2 --token-file=/run/token",
)


def pod(env: list[dict[str, Any]]) -> dict[str, Any]:
    container = {"name": "x", "image": "x", "env": env}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x", "namespace": "x"},
        "spec": {"containers": [container]},
    }


def config_map(text: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "namespace": "x"},
        "data": {"text": text},
    }


def secret(**said: object) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x", "namespace": "x"}, **said}


def found(body: dict[str, Any]) -> list[Finding]:
    return check_rendered([Manifest(body, "x.yaml")], write([Manifest(body, "x.yaml")]), Catalog.bundled()).in_order()


@pytest.mark.parametrize("what", TOKENS)
def test_a_credential_is_detected_by_its_format_and_not_printed(what: str) -> None:
    (finding,) = found(config_map(TOKENS[what]))
    assert (finding.check, finding.path, finding.message) == (CHECK, "$.data.text", f"this field contains {what}")
    said = plain(finding) + render(Result(findings=[finding]))
    assert not [line for line in TOKENS[what].splitlines() if line in said]


@pytest.mark.parametrize(
    ("key", "text", "severity"),
    [
        ("username", "postgres", "warning"),
        ("db-user", "postgres", "warning"),
        ("PGPORT.port", "5432", "warning"),
        ("password", "postgres", "error"),
        ("host", "postgres://ada:abc@db", "error"),
        ("user", "ada token", "error"),
        ("hosts", "db", "error"),
    ],
)
def test_a_key_that_names_no_credential_is_a_warning(key: str, text: str, severity: str) -> None:
    for body in (
        secret(stringData={key: text}),
        secret(data={key: base64.b64encode(text.encode()).decode()}),
    ):
        assert [finding.severity for finding in found(body)] == [severity]


@pytest.mark.parametrize("name", BY_NAME)
def test_a_credential_is_detected_by_its_variable_name(name: str) -> None:
    (finding,) = found(pod([{"name": "A", "value": "b"}, {"name": name, "value": WORD}]))
    assert (finding.path, finding.message) == (
        "$.spec.containers[0].env[1].value",
        f"this field contains a value of `{name}`",
    )
    assert WORD not in plain(finding) + render(Result(findings=[finding]))


@pytest.mark.parametrize("name", NOT_BY_NAME)
def test_harmless_values_of_secret_names_pass(name: str) -> None:
    assert found(pod([{"name": name, "value": NOT_BY_NAME[name]}])) == []


def test_a_reference_to_a_secret_passes() -> None:
    reference = {"secretKeyRef": {"name": "s3", "key": "AWS_SECRET_ACCESS_KEY"}}
    findings = found(pod([{"name": "AWS_SECRET_ACCESS_KEY", "valueFrom": reference}]))
    assert [finding.check for finding in findings] == ["reference/secret"]  # no file has the Secret


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_similar_values_pass(text: str) -> None:
    assert found(config_map(text)) == []


@pytest.mark.parametrize("key", ["AWS_SECRET_ACCESS_KEY", "password", "clientSecret"])
def test_a_credential_is_detected_by_its_key(key: str) -> None:
    body = config_map("x")
    body["data"] = {key: WORD}
    (finding,) = found(body)
    assert finding.path == f"$.data.{key}"


@pytest.mark.parametrize("field", ["data", "stringData"])
def test_any_value_in_a_secret_is_reported(field: str) -> None:
    value = base64.b64encode(b"plain").decode() if field == "data" else "plain"
    (finding,) = found(secret(**{field: {"a": value, "b": ""}}))
    assert (finding.check, finding.path, finding.message) == (
        CHECK,
        f"$.{field}.a",
        f"`{field}` contains a value of the Secret",
    )
    assert value not in plain(finding) + render(Result(findings=[finding]))


@pytest.mark.parametrize("value", ["pa$$word", "postgres://u:p@h/d", "/9j/x", "true", "1234"])
def test_secret_values_with_special_formats_are_reported(value: str) -> None:
    assert [finding.check for finding in found(secret(stringData={"a": value}))] == [CHECK]


def test_an_empty_secret_or_one_with_placeholders_passes() -> None:
    placeholder = base64.b64encode(b"<path:secret/data/x#y>").decode()
    assert found(secret()) == []
    assert found(secret(data={"a": placeholder}, stringData={"b": "${TOKEN}", "c": "ENC[AES256_GCM,data:x]"})) == []


def test_registry_logins_are_detected_in_base64_at_any_offset() -> None:
    text = '{"auths": {"quay.io": {"auth": "eDp5"}}}'
    for before in ("", " ", "  "):
        (finding,) = found(config_map(base64.b64encode((before + text).encode()).decode()))
        assert finding.message == "this field contains a login to a registry"


def test_a_fake_secret_store_with_values_is_reported() -> None:
    store = {
        "apiVersion": "external-secrets.io/v1",
        "kind": "SecretStore",
        "metadata": {"name": "x", "namespace": "x"},
        "spec": {"provider": {"fake": {"data": [{"key": "a", "value": "b"}]}}},
    }
    (finding,) = found(store)
    assert (finding.check, finding.path) == (CHECK, "$.spec.provider.fake")


def test_pods_of_runtimes_are_checked_for_credentials() -> None:
    text = (ROOT / "tests/checks/bases/runtime.yaml").read_text("utf-8")
    spoilt = text.replace(
        "env: [{name: PRTE_MCA_prte_default_hostfile, value: /etc/mpi/hostfile}]",
        f"env: [{{name: PRTE_MCA_prte_default_hostfile, value: /etc/mpi/hostfile}}, {{name: HF_TOKEN, value: {WORD}}}]",
    )
    (finding,) = check_text(spoilt.encode(), "x.yaml", Engine(Catalog.bundled())).in_order()
    assert finding.check == CHECK
    assert finding.path.endswith(".containers[0].env[1].value")


def test_this_repository_has_no_false_positives() -> None:
    engine, looked_at = Engine(Catalog.bundled()), 0
    for folder in ("output", "examples", "tests/checks", "tests/fixtures/runtimes"):
        for file in (ROOT / folder).rglob("*.yaml"):
            checked = check_text(file.read_bytes(), str(file), engine)
            assert [finding for finding in checked.findings if finding.check == CHECK] == [], file
            looked_at += checked.objects
    assert looked_at > 400


def test_the_committed_output_has_external_secrets_only() -> None:
    texts = [file.read_bytes() for file in (ROOT / "output").rglob("secrets.yaml")]
    kinds = [manifest.kind for text in texts for manifest in read(text, "x.yaml")]
    assert "ExternalSecret" in kinds
    assert "Secret" not in kinds


@pytest.mark.parametrize("form", credential_forms(), ids=lambda form: form.kind)
@given(data=st.data())
def test_every_credential_format_contains_its_keywords(form: Form, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(form.pattern))
    assert any(part in text for part in form.contains)
