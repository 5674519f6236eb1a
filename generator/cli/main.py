"""The command line: the commands, and the one place where exceptions become messages and exit codes."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from generator.cli.completion import completion
from generator.cli.init import init
from generator.cli.output import show_problems
from generator.cli.schema import schema
from generator.cli.schemas import schemas
from generator.cli.synth import synth
from generator.cli.validate import validate
from generator.errors import ExitCode, MpigenError


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""
    Exit codes: 0 fine, 1 findings, 2 invalid input or usage, 3 a bug in mpigen, 130 interrupted.

    \b
    Example:
      mpigen init --example openshift-h100
      mpigen synth platform.yaml
      mpigen validate output --engine both
    """,
)
@click.version_option(package_name="mpigen")
@click.option("--debug", is_flag=True, help="Show the traceback of a bug.")
def mpigen(debug: bool) -> None:
    """One platform.yaml becomes a checked, plain-YAML GitOps tree for MPI training on Kubernetes."""


for _command in (init, synth, validate, schema, schemas, completion):
    mpigen.add_command(_command)


def main() -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        result: Any = mpigen.main(arguments, prog_name="mpigen", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return ExitCode.INVALID_INPUT
    except MpigenError as error:
        _show_problems(error, arguments)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has gone; Python would complain once more when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except Exception as error:
        if "--debug" in arguments:
            raise
        click.echo(
            f"mpigen: a bug of ours: {type(error).__name__}: {error}\n"
            "Nothing was written. Please report it with the output of `mpigen --debug …`.",
            err=True,
        )
        return ExitCode.BUG
    return result if isinstance(result, int) else ExitCode.OK


def _show_problems(error: MpigenError, arguments: list[str]) -> None:
    if _wants_json(arguments):
        from generator.report import machine

        click.echo(machine.report({"problems": len(error.problems)}, problems=error.problems))
    else:
        show_problems(error.problems)


def _wants_json(arguments: list[str]) -> bool:
    return "--format=json" in arguments or any(
        option == "--format" and value == "json" for option, value in zip(arguments, arguments[1:], strict=False)
    )
