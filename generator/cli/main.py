"""The command line: the commands, and the one place where exceptions become messages and exit codes."""

from __future__ import annotations

import os
import sys
from itertools import pairwise
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
    if "_MPIGEN_COMPLETE" in os.environ:
        mpigen.main(prog_name="mpigen")  # click answers the shell and exits
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        with mpigen.make_context("mpigen", list(arguments)) as context:
            result: Any = mpigen.invoke(context)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        if "--debug" in arguments and not isinstance(error, click.exceptions.Exit):
            raise
        return _explain(error, arguments)
    return result if isinstance(result, int) else ExitCode.OK


def _explain(error: BaseException, arguments: list[str]) -> int:
    """Say what went wrong in the way that its kind deserves, and give the exit code of that kind."""
    match error:
        case click.exceptions.Exit():
            return error.exit_code
        case click.ClickException():
            error.show()
            return ExitCode.INVALID_INPUT
        case MpigenError():
            _show_problems(error, arguments)
            return error.exit_code
        case click.Abort() | KeyboardInterrupt():
            click.echo("interrupted", err=True)
            return ExitCode.INTERRUPTED
        case BrokenPipeError():
            # The reader (`| head`) has gone; Python would complain once more when it closes standard output.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return ExitCode.OK
        case _:
            click.echo(f"mpigen: a bug of ours: {type(error).__name__}: {error}", err=True)
            click.echo("Please report it with what `mpigen --debug …` prints.", err=True)
            return ExitCode.BUG


def _show_problems(error: MpigenError, arguments: list[str]) -> None:
    if _wants_json(arguments):
        from generator.report import machine

        click.echo(machine.report({"problems": len(error.problems)}, problems=error.problems))
    else:
        show_problems(error.problems)


def _wants_json(arguments: list[str]) -> bool:
    return "--format=json" in arguments or ("--format", "json") in pairwise(arguments)
