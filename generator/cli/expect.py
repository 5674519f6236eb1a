"""`mpigen expect`: compare the answers of `can-i` and `reach` with a file of expected answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from generator.cli.findings import FindingOptions, findings_options, text_reader
from generator.cli.inputs import environment_option, find_platform_file, kustomize_option
from generator.cli.output import counted, progress
from generator.errors import ConfigError, ExitCode, OutputError, Problem

if TYPE_CHECKING:
    from generator.questions.expectations import Answer, Answered, Row, World


@click.command(
    epilog="""
    \b
    Example:
      mpigen expect platform.yaml --write          # the first file, with the present answers
      mpigen expect platform.yaml
      mpigen expect output/prod --expect prod/expect.yaml --format junit

    \b
    A file of expectations:
      can-i:
        - {subject: group:nlp, verb: [create, delete], resource: trainjobs, namespace: team-nlp, expect: yes}
        - {subject: group:nlp, verb: get, resource: secrets, namespace: team-nlp, expect: no}
      reach:
        - {from: tenant:nlp, to: other-tenants, expect: no}
        - {from: tenant:nlp, to: dns, port: 53/UDP, expect: yes}
    """,
)
@click.argument("path", required=False, type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--expect",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("expect.yaml"),
    metavar="FILE",
    show_default=True,
    help="The file with the expected answers.",
)
@click.option(
    "--write",
    "is_written",
    is_flag=True,
    help="Write the present answers into FILE, and exit with 0. If FILE exists, change only the answers in it.",
)
@kustomize_option
@environment_option
@findings_options
def expect(path: Path | None, *, file: Path, is_written: bool, renders: bool, options: FindingOptions) -> int:
    """Compare the permissions and connections of PATH with the expected answers in FILE.

    PATH is a platform file, YAML or JSON files in a folder such as output/prod, or - for standard input.
    Default: the only platform file in the working folder. mpigen contacts no cluster.

    mpigen asks each question of FILE as `mpigen can-i` and `mpigen reach` do, and reports each answer that
    is not the expected one. Commit FILE: a pull request that changes an answer must then change FILE too.

    `mpigen schema expect` prints the JSON Schema of FILE.
    """
    from generator.adoption.adoption import Run
    from generator.checks.expectations import find_false
    from generator.cli.inputs import read_cluster
    from generator.config.expectations import find_places, load_expectations
    from generator.documents.files import read_file
    from generator.questions.expectations import World

    adoption, read_text = options.load(), text_reader()
    source = path or find_platform_file()
    is_first = is_written and not file.exists()
    text = b"" if is_first else read_file(file)
    rows = [] if is_first else load_expectations(file, text)
    with progress("evaluating"):
        cluster = read_cluster([source], renders=renders)
        world = World(cluster.manifests, cluster.targets)
        if is_first:
            return _write_first(file, world)
        answers = [answered for row in rows for answered in world.answer(row)]
    places = find_places(file, text, rows)
    if is_written:
        return _update(file, text, places, answers)
    outcome = adoption.apply(find_false(answers, str(file), places), Run(text_of=read_text))
    lines = [*_lines(answers, rows), *_notes(world, rows)]
    return options.show(adoption, outcome, _summary(answers, rows), lines, read_text)


def _write_first(file: Path, world: World) -> ExitCode:
    from generator.config.expectations import format_expectations
    from generator.questions.expectations import first_rows

    access, reach = first_rows(world)
    text = format_expectations(access, reach)
    if not text:
        fix = "name a platform file, or a release with RoleBindings or Namespaces of tenants"
        raise OutputError((Problem("the files have no subject of a binding and no tenant", fix),))
    _save(file, text.encode())
    click.echo(f"{file}: {counted(len(access) + len(reach), 'expectation')} written")
    return ExitCode.OK


def _update(
    file: Path, text: bytes, places: dict[tuple[str, int], tuple[int, int]], answers: Iterable[Answered]
) -> ExitCode:
    """Replace each false expected answer in the file by the present answer.

    Raises:
        ConfigError: the questions of an expectation have different answers, or an answer that no file can expect.
    """
    from generator.config.expectations import path_of, update_answers

    by_row: dict[tuple[str, int], set[Answer | None]] = {}
    false: set[tuple[str, int]] = set()
    for answered in answers:
        by_row.setdefault(path_of(answered.row), set()).add(answered.answer)
        if answered.is_false:
            false.add(path_of(answered.row))
    unclear = [path for path in sorted(false) if _single(by_row[path]) is None]
    if unclear:
        problems = (
            Problem(
                "the questions of this row have no common answer",
                "divide the row, or correct its names: `mpigen expect` lists the answers",
                str(file),
                *places[path],
                f"{path[0]}[{path[1]}]",
            )
            for path in unclear
        )
        raise ConfigError(tuple(problems))
    changes = {path: answer for path in false if (answer := _single(by_row[path]))}
    if changes:
        _save(file, update_answers(file, text, places, changes))
    click.echo(f"{file}: {counted(len(changes), 'answer')} changed")
    return ExitCode.OK


def _single(answers: set[Answer | None]) -> Answer | None:
    """Return the common answer of several questions; None if they differ, or if no file can expect the answer."""
    (answer, *others) = answers
    return None if others or answer is None or answer == "partly" else answer


def _save(file: Path, text: bytes) -> None:
    try:
        file.write_bytes(text)
    except OSError as error:
        fix = "choose a file that you can write to"
        raise OutputError((Problem(f"cannot be written: {error.strerror}", fix, str(file)),)) from None


def _lines(answers: list[Answered], rows: list[Row]) -> Iterator[str]:
    false = len({(type(answered.row), answered.row.index) for answered in answers if answered.is_false})
    end = f", {false} false" if false else ""
    yield f"{counted(len(rows), 'expectation')}, {counted(len(answers), 'question')}{end}"


def _notes(world: World, rows: list[Row]) -> Iterator[str]:
    """Yield notes about subjects and tenants of the platform that no expectation names."""
    from generator.checks.finding import listed
    from generator.questions.expectations import find_unasked

    subjects, tenants = find_unasked(world, rows)
    if subjects:
        yield f"note: no expectation of `can-i` names {listed(subjects)}"
    if tenants:
        yield f"note: no expectation of `reach` names {listed(tenants)}"


def _summary(answers: Iterable[Answered], rows: list[Row]) -> dict[str, Any]:
    from generator.config.expectations import path_of

    return {
        "expectations": len(rows),
        "answers": [
            {
                "kind": path_of(answered.row)[0],
                "index": answered.row.index,
                "question": answered.question.replace("`", ""),
                "expected": answered.row.expected.value,
                "answer": answered.answer.value if answered.answer else None,
                "reason": answered.reason,
            }
            for answered in answers
        ],
    }
