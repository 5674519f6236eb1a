"""Test that plugins run only if the settings name them, and that a broken plugin is a clear problem."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from generator.adoption.plugins import installed_plugins
from generator.adoption.settings import Settings, load_settings
from generator.checks.registry import Suite, checks
from generator.checks.run import check_text
from generator.documents.python import forbid_python
from generator.errors import ConfigError
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine

KNOWN = [check.id for check in checks()]
CHECKS = '''\
from generator import ERROR, Breach, Manifest, check

print("imported")
RULES = ["rules.yaml"]


@check("acme/owner", severity=ERROR, needs=Manifest)
def owner(manifest):
    """Report a ConfigMap without an owner."""
    if manifest.kind == "ConfigMap" and "owner" not in manifest.labels:
        yield Breach(("metadata",), "no owner", "questions stay open", "add the label `owner`")
'''
RULES = """\
rules:
  - id: acme/name
    match: {kinds: [ConfigMap]}
    cel: object.metadata.name != 'a'
    message: the name is too short
    fix: rename the ConfigMap
"""
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\n"
MODULE = "acme_mpigen_plugin"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed distributions on the import path."""
    folder = tmp_path / "site"
    install(folder, CHECKS)
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    yield folder
    for name in [name for name in sys.modules if name.startswith(MODULE)]:
        del sys.modules[name]


def install(folder: Path, code: str, distribution: str = "acme_checks", module: str = MODULE) -> None:
    """Write a distribution as an installer does: a package, its metadata and its entry points."""
    metadata = folder / f"{distribution}-1.2.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2.0\n")
    (metadata / "entry_points.txt").write_text(f"[mpigen.plugins]\nacme = {module}\n")
    package = folder / module
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text(code)
    (package / "rules.yaml").write_text(RULES)


def load(folder: Path, text: str) -> Settings:
    (folder / "mpigen.toml").write_text(text)
    return load_settings(folder / "mpigen.toml", KNOWN)


def problems(folder: Path, text: str = 'plugins = ["acme"]\n') -> list[str]:
    with pytest.raises(ConfigError) as error:
        load(folder, text)
    return [str(problem).replace(f"{folder}/", "") for problem in error.value.problems]


def judge(settings: Settings) -> set[str]:
    found = check_text(CONFIG_MAP.encode(), "x.yaml", Engine(Catalog.bundled()), Suite(settings.own)).findings
    return {finding.check for finding in found}


@pytest.mark.usefixtures("site")
def test_a_plugin_runs_only_if_the_settings_name_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [plugin.name for plugin in installed_plugins()] == ["acme"]
    assert judge(load(tmp_path, "")) == set()
    assert MODULE not in sys.modules
    settings = load(tmp_path, 'plugins = ["acme"]\n')
    assert judge(settings) == {"acme/owner", "acme/name"}
    assert [check.id for check in settings.plugins["acme"]] == ["acme/owner", "acme/name"]
    assert capsys.readouterr() == ("", "imported\n")


@pytest.mark.usefixtures("site")
def test_an_installed_plugin_has_its_distribution() -> None:
    (plugin,) = installed_plugins()
    assert str(plugin) == "plugin `acme` of acme_checks 1.2.0"


def test_a_plugin_can_define_checks_in_modules_below_its_own(site: Path, tmp_path: Path) -> None:
    (site / MODULE / "owners.py").write_text(CHECKS.replace("RULES =", "OTHER ="))
    (site / MODULE / "__init__.py").write_text(f"from {MODULE}.owners import *\nfrom generator import Breach\n")
    assert [check.id for check in load(tmp_path, 'plugins = ["acme"]\n').own] == ["acme/owner"]


def test_a_plugin_and_a_file_cannot_have_checks_with_one_id(site: Path, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(RULES)
    file, plugin = problems(tmp_path, 'plugins = ["acme"]\nchecks = ["rules.yaml"]\n')
    assert file == "rules.yaml:2: acme/name: 2 checks have this id; give each check its own id"
    assert plugin.endswith(
        f"{MODULE}/rules.yaml:2: acme/name: plugin `acme` of acme_checks 1.2.0: 2 checks have this id; give each check "
        "its own id"
    )
    assert str(site) in f"{tmp_path}/{plugin}"


BROKEN = {
    "an exception": (
        "1 / 0\n",
        (
            "cannot be imported: ZeroDivisionError: division by zero; install a working version of acme_checks, or "
            "remove the plugin from `plugins`"
        ),
    ),
    "a missing module": (
        "import acme_absent\n",
        (
            "cannot be imported: ModuleNotFoundError: No module named 'acme_absent'; install a working version of "
            "acme_checks, or remove the plugin from `plugins`"
        ),
    ),
    "an exit": (
        "raise SystemExit(3)\n",
        (
            "cannot be imported: SystemExit: 3; install a working version of acme_checks, or remove the plugin from "
            "`plugins`"
        ),
    ),
    "no check": ("", "adds no check; register checks with `@check(...)`, or name files of rules in `RULES`"),
}


@pytest.mark.parametrize("mistake", BROKEN)
def test_a_broken_plugin_is_named_with_its_distribution(mistake: str, site: Path, tmp_path: Path) -> None:
    code, problem = BROKEN[mistake]
    (site / MODULE / "__init__.py").write_text(code)
    assert problems(tmp_path) == [f"mpigen.toml:1:13: plugins[0]: plugin `acme` of acme_checks 1.2.0 {problem}"]


def test_rules_of_a_plugin_must_be_a_list_of_files(site: Path, tmp_path: Path) -> None:
    (site / MODULE / "__init__.py").write_text('RULES = "rules.yaml"\n')
    (found,) = problems(tmp_path)
    assert found.endswith(f": `RULES` of the module `{MODULE}` is not a list of file names; report this to acme_checks")


def test_a_missing_file_of_rules_is_reported(site: Path, tmp_path: Path) -> None:
    (site / MODULE / "rules.yaml").unlink()
    (found,) = problems(tmp_path)
    assert "rules.yaml: cannot be read: No such file or directory; reinstall acme_checks" in found


def test_a_mistake_in_the_rules_of_a_plugin_names_its_distribution(site: Path, tmp_path: Path) -> None:
    (site / MODULE / "rules.yaml").write_text(RULES.replace("fix:", "fixs:"))
    assert all("plugin `acme` of acme_checks 1.2.0: " in problem for problem in problems(tmp_path))


@pytest.mark.usefixtures("site")
def test_an_unknown_plugin_gets_a_suggestion(tmp_path: Path) -> None:
    assert problems(tmp_path, 'plugins = ["acm"]\n') == [
        "mpigen.toml:1:13: plugins[0]: no installed distribution has a plugin `acm`; did you mean `acme`?"
    ]


def test_two_distributions_with_one_plugin_are_refused(site: Path, tmp_path: Path) -> None:
    install(site, CHECKS, "other_checks")
    assert problems(tmp_path) == [
        (
            "mpigen.toml:1:13: plugins[0]: 2 distributions have a plugin `acme`: acme_checks, other_checks; uninstall "
            "all but one"
        )
    ]


@pytest.mark.usefixtures("site")
def test_no_python_refuses_plugins(tmp_path: Path) -> None:
    with forbid_python():
        (found,) = problems(tmp_path)
    assert "mpigen would run the plugin `acme` of acme_checks 1.2.0, and `--no-python`" in found
    assert MODULE not in sys.modules


@pytest.mark.parametrize("value", ["3", '"acme"', "[3]", '["acme", "acme"]'])
@pytest.mark.usefixtures("site")
def test_the_setting_must_be_a_list_of_names(value: str, tmp_path: Path) -> None:
    (found,) = problems(tmp_path, f"plugins = {value}\n")
    assert found.startswith("mpigen.toml:1:")
    assert "plugins" in found
