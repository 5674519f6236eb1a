"""Plugins: installed Python packages that add checks.

A distribution declares a plugin as an entry point of the group `mpigen.plugins`, which names a module. The functions
with `@check` in the module, or in modules below it, are the checks of the plugin. The global `RULES` of the module
names files of rules, relative to the folder of the module.

mpigen imports only the plugins that the setting `plugins` names. So the checks of a run depend on files in the
repository and on the versions of these packages, and no other installed package can run code in mpigen.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from generator.checks.registry import Check, registered_in
from generator.documents.files import find_read_problem
from generator.documents.python import find_failure, find_forbidden
from generator.errors import ConfigError, Problem, suggest

GROUP = "mpigen.plugins"
_RULES = "RULES"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin of an installed distribution.

    Attributes:
        name: the name of the entry point, which the setting `plugins` lists.
        module: the module that the entry point names.
        distribution: the name of the distribution.
        version: the version of the distribution.
        named_at: a problem at the line of the setting that names the plugin, still without its message.
    """

    name: str
    module: str
    distribution: str
    version: str
    named_at: Problem = field(default_factory=lambda: Problem(""))

    def __str__(self) -> str:
        return f"plugin `{self.name}` of {self.distribution} {self.version}"


def installed_plugins() -> tuple[Plugin, ...]:
    """Return the plugins of all installed distributions, sorted by name, without importing their modules."""
    return tuple(
        sorted(map(_describe, entry_points(group=GROUP)), key=lambda plugin: (plugin.name, plugin.distribution))
    )


def _describe(point: EntryPoint) -> Plugin:
    distribution = point.dist
    name, version = (distribution.name, distribution.version) if distribution else ("unknown", "")
    return Plugin(point.name, point.value, name, version)


def find_plugins(named: Mapping[str, Problem]) -> tuple[list[Plugin], list[Problem]]:
    """Return the installed plugins with these names, and the problems of the other names.

    Args:
        named: the name of a plugin → the problem to report about it, still without its message.
    """
    plugins: list[Plugin] = []
    problems: list[Problem] = []
    installed = installed_plugins()
    for name, place in named.items():
        alike = [plugin for plugin in installed if plugin.name == name]
        if len(alike) == 1:
            plugins.append(replace(alike[0], named_at=place))
        elif alike:
            message = f"{len(alike)} distributions have a plugin `{name}`: {', '.join(p.distribution for p in alike)}"
            problems.append(replace(place, message=message, fix="uninstall all but one"))
        else:
            message = f"no installed distribution has a plugin `{name}`"
            names = [plugin.name for plugin in installed]
            fix = suggest(name, names) if names else "install its distribution in the environment of mpigen"
            problems.append(replace(place, message=message, fix=fix))
    return plugins, problems


def load_plugin(plugin: Plugin) -> tuple[list[Check], list[Path]]:
    """Import the module of a plugin, and return the checks of its functions and its files of rules.

    Raises:
        ConfigError: the module cannot be imported, `RULES` is invalid, or `--no-python` forbids Python.
    """
    if forbidden := find_forbidden(Path(plugin.module)):
        message = f"mpigen would run the {plugin}, and `--no-python` or the variable MPIGEN_NO_PYTHON forbids Python"
        raise ConfigError((replace(plugin.named_at, message=message, fix=forbidden.fix),))
    try:
        with redirect_stdout(sys.stderr):  # noqa: TID251 - the result goes to standard output
            module = importlib.import_module(plugin.module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the code of a plugin may raise anything
        failed = find_failure(error, Path(plugin.module), "")
        message = f"{plugin} cannot be imported: {failed.message}"
        fix = f"install a working version of {plugin.distribution}, or remove the plugin from `plugins`"
        raise ConfigError((replace(plugin.named_at, message=message, fix=fix),)) from None
    return list(_checks_below(module)), _rule_files(plugin, module)


def _checks_below(module: ModuleType) -> Iterator[Check]:
    """Yield the checks of a module, and the checks that the module imports from modules below it."""
    names: dict[str, Any] = vars(module)
    homes = dict.fromkeys([module.__name__, *(getattr(value, "__module__", "") or "" for value in names.values())])
    for home in homes:
        if home == module.__name__ or home.startswith(f"{module.__name__}."):
            yield from registered_in(names, home)


def _rule_files(plugin: Plugin, module: ModuleType) -> list[Path]:
    """Return the files that the global `RULES` of a module names.

    Raises:
        ConfigError: the value is not a list of strings, or a file cannot be read.
    """
    named = getattr(module, _RULES, ())
    if not isinstance(named, Sequence) or isinstance(named, str) or not all(isinstance(name, str) for name in named):
        message = f"{plugin}: `{_RULES}` of the module `{plugin.module}` is not a list of file names"
        raise ConfigError((replace(plugin.named_at, message=message, fix=f"report this to {plugin.distribution}"),))
    files = [Path(module.__file__ or "").parent / name for name in named]
    problems = [
        replace(plugin.named_at, message=f"{plugin}: {file}: {refused.message}", fix=f"reinstall {plugin.distribution}")
        for file in files
        if (refused := find_read_problem(file))
    ]
    if problems:
        raise ConfigError(tuple(problems))
    return files
