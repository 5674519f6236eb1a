"""Platform files: the platform of a file, and its app."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from generator.components.app import App
    from generator.config.platform import Platform


def load_app(platform_file: Path, environment: str = "") -> tuple[Platform, App]:
    """Return the platform of a platform file, and its app.

    Args:
        platform_file: a platform.yaml, or a Python file, which mpigen executes.
        environment: one of the `environments` of a platform.yaml. Default: the environment that `--environment`
            selects, or none.

    Raises:
        ConfigError: the file cannot be read or is invalid, or `environment` is not one of its environments.
    """
    from generator.config.environments import reject_environment, selected_environment
    from generator.config.load import load_platform
    from generator.config.python_file import check_platform_file, run_platform_file

    if platform_file.suffix != ".py":
        platform = load_platform(platform_file, environment)  # reports errors before App starts Node.js, which is slow
        from generator import App

        app = App(platform)
        app.file, app.environment = str(platform_file), environment or selected_environment()
        return platform, app
    check_platform_file(platform_file)
    reject_environment(environment, str(platform_file))
    from generator import App  # before the file imports cdk8s: it chooses the Node.js that cdk8s starts
    from generator.components.app import app_in

    app = app_in(run_platform_file(platform_file), str(platform_file))
    app.file = str(platform_file)
    return app.platform, app


def load_with_app(file: Path) -> tuple[Platform, App | None]:
    """Return the platform of a file as `load_declared` does, and its app; None for YAML without patches and `extra`.

    Raises:
        ConfigError: the file is invalid.
    """
    if file.suffix != ".py":
        from generator.config.load import load_platform

        platform = load_platform(file)
        if not (platform.patches or platform.extra or any(tenant.extra for tenant in platform.tenants)):
            return platform, None
    platform, app = load_app(file)
    from generator.components.runtimes import MpiRuntime  # after the pipeline has chosen the Node.js that cdk8s starts
    from generator.config.model.fields import copy_unchecked

    runtimes = [construct.runtime for construct in app.node.find_all() if isinstance(construct, MpiRuntime)]
    declared = copy_unchecked(platform, runtimes=tuple(sorted(runtimes, key=lambda runtime: runtime.name)))
    return declared, app


def load_declared(file: Path) -> Platform:
    """Return the platform of a file. For an mpigen_platform.py, its runtimes are all runtimes that the app defines.

    Raises:
        ConfigError: the file is invalid.
    """
    return load_with_app(file)[0]
