"""Test that classes of `cdk8s import` and of cdk8s-plus work as docs/tasks/use-cdk8s-classes.md shows.

The pinned cdk8s-cli generates the classes from the CustomResourceDefinitions of the pinned cert-manager. The API server
gets each object of the page in a server-side dry run.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest

from generator import Manifest, manifests
from generator.facts.versions import SUPPORTED
from generator.schemas.go_tool import fetch_modules
from tests.cluster import npm
from tests.cluster.client import Client
from tests.cluster.compare import changed
from tests.conftest import MPIGEN
from tests.docs.cookbook import sections
from tests.docs.pages import DOCS, blocks, pages
from tests.docs.sessions import NEEDS_NPM, Session

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
PAGE = DOCS / "tasks/use-cdk8s-classes.md"
PLATFORMS = [block.text for block in blocks(PAGE) if block.title == "mpigen_platform.py"]
CERTIFICATE, IN_A_FILE, DASHBOARD = PLATFORMS
_KINDS = ("certificates", "clusterissuers")
_IMPORT = ("cdk8s", "--no-check-upgrade", "import", "crds/cert-manager.yaml", "--language", "python", "--no-save")


@dataclass(frozen=True, slots=True)
class Site:
    """The folder of the page after its commands.

    Attributes:
        folder: the folder, with `base.yaml` and the generated classes.
        page: the page with the output of its commands.
        trees: the objects after each section, without the objects of the platform file `base.yaml`.
    """

    folder: Path
    page: str
    trees: list[list[Manifest]]

    def run(self, platform: str) -> subprocess.CompletedProcess[str]:
        """Run `mpigen synth` for the text of a platform file."""
        (self.folder / "mpigen_platform.py").write_text(platform)
        return _run([str(MPIGEN), "synth", "mpigen_platform.py"], self.folder)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Run the commands of the page."""
    folder = tmp_path_factory.mktemp("site")
    session = Session(folder)
    installed = npm.install()
    commands = npm.environment(tmp_path_factory.mktemp("commands") / "bin")
    session.environment |= {**npm.QUIET, "PATH": f"{commands['PATH']}:{session.environment['PATH']}"}
    for name in ("node_modules", "package.json", "package-lock.json"):
        (folder / name).symlink_to(installed / name)
    (folder / "crds").mkdir()
    (folder / "crds/cert-manager.yaml").write_text(_definitions())
    page, trees = "", []
    for text in sections(PAGE).values():
        page += session.replay(text)
        trees.append([*_added(folder)])
    return Site(folder, page, trees)


def _definitions() -> str:
    """Return the definitions of the kinds of the page in one text."""
    (component,) = (each for each in SUPPORTED if each.name == "cert-manager")
    files = component.definition_files(fetch_modules([component])[component])
    return "---\n".join(file.read_text() for file in files if file.stem.endswith(tuple(f"_{kind}" for kind in _KINDS)))


def _added(folder: Path) -> Iterator[Manifest]:
    root = folder / "output/cpu-kubernetes"
    for file in sorted([*root.glob("custom/*/*.yaml"), *root.glob("tenants/*/certificates.yaml")]):
        yield from manifests.read(file.read_text(), str(file.relative_to(root)))


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_page_has_the_current_output(site: Site, request: pytest.FixtureRequest) -> None:
    """`pytest -m cluster --record` records the output."""
    if request.config.getoption("--record"):
        PAGE.write_text(site.page, "utf-8")
    assert site.page == PAGE.read_text("utf-8")


def test_no_other_page_needs_npm() -> None:
    assert [page for page in pages() if NEEDS_NPM in page.read_text("utf-8")] == [PAGE]


def test_the_page_names_the_pinned_version() -> None:
    packages = json.loads((Path(npm.__file__).parent / "package-lock.json").read_text())["packages"]
    (named,) = re.findall(r"npm install cdk8s-cli@(\S+)", PAGE.read_text("utf-8"))
    assert packages["node_modules/cdk8s-cli"]["version"] == named
    generator, runtime = packages["node_modules/jsii-pacmak"]["version"], version("jsii")
    assert [*map(int, generator.split("."))] <= [*map(int, runtime.split("."))]


@pytest.mark.parametrize("number", range(len(PLATFORMS)))
def test_a_platform_file_has_fewer_than_30_lines(number: int) -> None:
    assert len(PLATFORMS[number].splitlines()) < 30


def test_objects_have_their_namespaces_versions_files_and_patches(site: Site) -> None:
    first, _, chosen, *_ = (tree for tree in site.trees if tree)
    assert [(found.file, found.api_version, found.namespace) for found in first] == [
        ("custom/cluster/clusterissuer-company.yaml", "cert-manager.io/v1", ""),
        ("custom/team-sim/certificate-dashboard.yaml", "cert-manager.io/v1", "team-sim"),
    ]
    assert first[1].body["spec"] == {
        "dnsNames": ["sim.example.com"],
        "duration": "720h",
        "issuerRef": {"kind": "ClusterIssuer", "name": "company"},
        "secretName": "dashboard-tls",
    }
    assert [found.file for found in chosen] == ["tenants/team-sim/certificates.yaml"]


def test_the_api_server_accepts_the_objects(site: Site, admin: Client) -> None:
    """The namespace has the Pod Security level of the release, so the server warns about pods that it would reject."""
    root = site.folder / "output/cpu-kubernetes"
    (home, *_) = manifests.read((root / "tenants/team-sim/namespace.yaml").read_text(), "namespace.yaml")
    admin.create({**home.body, "metadata": {"name": home.name, "labels": home.labels}})
    try:
        for found in [found for tree in site.trees for found in tree]:
            answer = admin.apply(found.body, dry_run=True)
            assert [*answer.warnings] == [], found.resource
            if found.kind != "Deployment":  # cdk8s-plus writes zeros that the server does not store
                assert [*changed(found.body, answer.body)] == []
        (server,) = (found.body for found in site.trees[-1] if found.kind == "Deployment")
        (container,) = server["spec"]["template"]["spec"]["containers"]
        for name in ("capabilities", "seccompProfile"):
            del container["securityContext"][name]
        assert "would violate PodSecurity" in str(admin.apply(server, dry_run=True).warnings)
    finally:
        admin.delete(home.body)


def test_the_same_definitions_give_the_same_files(site: Site) -> None:
    before = _digests(site.folder / "imports")
    environment = npm.environment(site.folder / "bin")
    command = ["npx", *_IMPORT, "--output", "again"]
    subprocess.run(command, cwd=site.folder, env=environment, check=True, capture_output=True)
    assert before == _digests(site.folder / "again")
    assert before.keys() == {
        "io/cert_manager/__init__.py",
        "io/cert_manager/_jsii/__init__.py",
        "io/cert_manager/_jsii/iocert-manager@0.0.0.jsii.tgz",
        "io/cert_manager/py.typed",
    }


def _digests(folder: Path) -> dict[str, str]:
    """Return file → digest of its content, without compiled Python."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


MISTAKES = {
    "a string in place of a list": (
        'dns_names=["sim.example.com"]',
        'dns_names="sim.example.com"',
        "Certificate(team",
        "RuntimeError: iocert-manager.Certificate rejects `spec.dnsNames`: Value is not an array",
    ),
    "an item of another type": ('["sim.example.com"]', "[3]", "spec = CertificateSpec(", "TypeError: type of argument"),
    "a misspelled field": (
        "dns_names=",
        "dns_name=",
        "spec = CertificateSpec(",
        "TypeError: CertificateSpec.__init__() got an unexpected keyword argument 'dns_name'",
    ),
    "a missing field": (
        '    secret_name="dashboard-tls",\n',
        "",
        "spec = CertificateSpec(",
        "TypeError: CertificateSpec.__init__() missing 1 required keyword-only argument: 'secret_name'",
    ),
    "a field of the YAML": (
        "spec=spec",
        'spec={"secretName": "a"}',
        "Certificate(team",
        "TypeError: CertificateSpec.__init__() got an unexpected keyword argument 'secretName'",
    ),
    "no chart": ("Certificate(team", "Certificate(app", "Certificate(app", "RuntimeError: cannot find a parent chart"),
    "no classes": ("imports.io", "imports.com", "from imports.com", "ModuleNotFoundError: No module named"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_error_with_its_line(case: str, site: Site) -> None:
    old, new, line, message = MISTAKES[case]
    broken = CERTIFICATE.replace(old, new)
    before = _digests(site.folder / "output")
    ran = site.run(broken)
    (number,) = (at for at, text in enumerate(broken.splitlines(), 1) if text.startswith(line))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"error: mpigen_platform.py:{number}: {message}")
    assert ran.stderr.count("\n") == 1
    assert _digests(site.folder / "output") == before


def test_a_namespace_of_a_cluster_scoped_object_is_an_error(site: Site) -> None:
    ran = site.run(CERTIFICATE.replace('Chart(app, "issuers")', 'Chart(app, "issuers", namespace="team-sim")'))
    assert ran.returncode == 1
    assert "object/not-namespaced: ClusterIssuer team-sim/company" in ran.stdout


def test_the_classes_are_typed_in_a_project_of_init(site: Site, tmp_path: Path) -> None:
    """mypy reads the classes and reports a misspelled field in the user's file."""
    _run([str(MPIGEN), "init", "--python"], tmp_path)
    (tmp_path / "imports").symlink_to(site.folder / "imports")
    for number, text in enumerate(PLATFORMS):
        (tmp_path / f"site_{number}.py").write_text(text)
    (tmp_path / "site_wrong.py").write_text(CERTIFICATE.replace("dns_names=", "dns_name="))
    ran = _run([sys.executable, "-m", "mypy", "--no-incremental", "."], tmp_path)
    errors = [line for line in ran.stdout.splitlines() if ": error: " in line]
    assert [line.partition(" for ")[0].partition(":")[0] for line in errors] == ["site_wrong.py"], ran.stdout
    assert 'Unexpected keyword argument "dns_name" for "CertificateSpec"' in errors[0]


def test_a_kind_without_a_schema_needs_its_definition_in_the_release(site: Site) -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "windows.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Window", "plural": "windows"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"spec": {"type": "object", "properties": {"hours": {"type": "integer"}}}},
                        }
                    },
                }
            ],
        },
    }
    (site.folder / "crds/windows.yaml").write_text(json.dumps(definition))
    (site.folder / "windows").mkdir()
    command = ["npx", *_IMPORT, "--output", "windows"]
    command[command.index("crds/cert-manager.yaml")] = "crds/windows.yaml"
    subprocess.run(command, cwd=site.folder, env=npm.environment(site.folder / "commands"), check=True)
    platform = (
        "import cdk8s\nfrom generator import App, load_platform\nfrom windows.com.example import Window, WindowSpec\n"
        'app = App(load_platform("base.yaml"))\nchart = cdk8s.Chart(app, "windows", namespace="team-sim")\n'
        'Window(chart, "night", metadata={"name": "night"}, spec=WindowSpec(hours=8))\n'
    )
    ran = site.run(platform)
    assert (ran.returncode, "schema/no-schema: Window" in ran.stdout) == (1, True)
    crds = 'cdk8s.Include(cdk8s.Chart(app, "crds"), "windows", url="crds/windows.yaml")\n'
    ran = site.run(platform + crds)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
