"""The command line: the commands, and the one place where exceptions become messages and exit codes."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from itertools import pairwise
from typing import Any

import click

from generator.cli.audit import audit
from generator.cli.can_i import can_i
from generator.cli.catalog import fabrics, queues, runtimes
from generator.cli.check_job import check_job
from generator.cli.checks import checks, explain, plugins
from generator.cli.compile import compile_command
from generator.cli.diagnose import diagnose
from generator.cli.drift import drift
from generator.cli.expect import expect
from generator.cli.image import image
from generator.cli.job import job
from generator.cli.output import StdoutError, abandon_stdout, emit, show_problems
from generator.cli.pack import pack
from generator.cli.plan import plan
from generator.cli.policy import policy
from generator.cli.promote import promote
from generator.cli.reach import reach
from generator.cli.setup import completion, init, schema, schemas
from generator.cli.synth import synth
from generator.cli.upgrade import upgrade
from generator.cli.validate import validate
from generator.cli.verify import verify
from generator.cli.versions import versions
from generator.errors import ExitCode, MpigenError, Problem, format_exception
from generator.report.result import RENDERERS, Result


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"""
    Exit codes: {"; ".join(f"{code.value} {code.meaning}" for code in ExitCode)}.

    \b
    Example:
      mpigen init --example openshift-h100
      mpigen synth platform.yaml
      mpigen validate output --engine both
    """,
)
@click.version_option(package_name="mpigen")
@click.option("--debug", is_flag=True, help="Show the traceback if mpigen has a bug.")
def mpigen(debug: bool) -> None:
    """Turn one platform.yaml into a checked, plain-YAML GitOps tree for MPI training on Kubernetes."""


_COMMANDS = (
    *(init, synth, plan, upgrade, promote, validate, verify, pack, checks, explain, plugins),
    *(runtimes, fabrics, queues, can_i, reach, policy),
    *(expect, check_job, audit, drift, compile_command, job, image, diagnose),
    *(schema, schemas, versions, completion),
)
for _command in _COMMANDS:
    mpigen.add_command(_command)


def main() -> None:
    """Run the command line and exit."""
    if "_MPIGEN_COMPLETE" in os.environ:
        mpigen.main(prog_name="mpigen")  # click answers the shell and exits
    gc.disable()  # a command ends soon: without garbage collection it takes 5 % less time and 1 % more memory
    _end(run(sys.argv[1:]))


def _end(code: int) -> None:
    """End the process without destroying its objects one by one, which takes 6 % of the time of a command.

    Handlers run, and output is written, as at the end of any Python program.
    """
    atexit._run_exitfuncs()  # noqa: SLF001 - os._exit leaves them out
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except (OSError, ValueError):  # Python reports a closed stream or a full disk
        sys.exit(code)
    os._exit(code)


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        with mpigen.make_context("mpigen", list(arguments)) as context:
            result: Any = mpigen.invoke(context)
    except BaseException as error:  # noqa: BLE001 - every exception becomes an exit code
        return _explain(error, arguments)
    return result if isinstance(result, int) else ExitCode.OK


def _explain(error: BaseException, arguments: list[str]) -> int:
    """Print an error as a message for users, and return its exit code."""
    match error:
        case click.exceptions.Exit():
            return error.exit_code
        case StdoutError():
            return _tell(error.problems, error.exit_code, [])
        case MpigenError():
            return _tell(error.problems, error.exit_code, arguments)
        case click.ClickException():
            return _tell_usage(error, arguments)
        case click.Abort() | KeyboardInterrupt():
            return _tell((Problem("interrupted"),), ExitCode.INTERRUPTED, arguments)
        case BrokenPipeError():  # the reader of `--help` closed the pipe
            abandon_stdout()
            return ExitCode.OK
        case _:
            return _tell_bug(error, arguments)


def _tell(problems: tuple[Problem, ...], code: ExitCode, arguments: list[str]) -> int:
    """Print problems, and return the exit code.

    With `--format text` the problems go to standard error, with another format to standard output.
    """
    form = _format(arguments)
    if form == "text":
        show_problems(problems)
        return code
    try:
        emit(form, Result(summary={"problems": len(problems)}, problems=problems, problem_code=code))
    except StdoutError:
        show_problems(problems)
    return code


def _tell_usage(error: click.ClickException, arguments: list[str]) -> int:
    if _format(arguments) == "text":
        error.show()
        return ExitCode.INVALID_INPUT
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else "mpigen"
    return _tell((Problem(error.format_message(), f"see `{command} --help`"),), ExitCode.INVALID_INPUT, arguments)


def _tell_bug(error: BaseException, arguments: list[str]) -> int:
    if "--debug" in arguments:
        import traceback

        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    message = f"mpigen has a bug: {format_exception(error)}"
    return _tell((Problem(message, "report the bug, with the output of `mpigen --debug …`"),), ExitCode.BUG, arguments)


def _format(arguments: list[str]) -> str:
    """Return the first `--format` of a command line that all commands with findings know; `text` if there is none."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments  # the rest is the command of a job
    forms = [form for option, form in pairwise(ours) if option == "--format"]
    forms += [word.removeprefix("--format=") for word in ours if word.startswith("--format=")]
    return next((form for form in forms if form in RENDERERS), "text")
