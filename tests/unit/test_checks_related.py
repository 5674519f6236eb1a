"""Test rules over several objects, which are checked together only if they belong together."""

from __future__ import annotations

import os
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator import release
from generator.checks import registry, run
from generator.checks.registry import Suite
from generator.checks.run import check_rendered, check_text, check_together
from generator.checks.validation import Part, check_files
from generator.manifests import Manifest, read, write
from generator.pipeline import Subject, Validation, validate
from generator.release import Lock
from generator.release.lock import digest
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from tests.checks import CASES, Case
from tests.unit.test_checks_mpi import variations

OLD = {"trainer": "2.2"}
JOB, RUNTIME = CASES["trainjob/lost-devices"].bad.split("---\n")
RELATED = {each.id for each in registry.checks() if each.stage is registry.Stage.TOGETHER}
TOGETHER = {name: case for name, case in CASES.items() if case.check in RELATED}
CPUS_ONLY = RUNTIME.replace(", nvidia.com/gpu: 8, example.com/fpga: 1", "")


def told(validation: Validation) -> list[tuple[str, int, str]]:
    return [(Path(each.file).name, each.line, each.check) for each in validation.checked.in_order()]


def released(folder: Path, *texts: str) -> None:
    """Write a release for Trainer 2.2 with some files."""
    folder.mkdir(parents=True)
    files = {f"{number}.yaml": digest(text.encode()) for number, text in enumerate(texts)}
    lock = Lock("p", folder.name, files, inputs=f"sha256:{0:064}", targets=Catalog.bundled(OLD).targets)
    (folder / release.LOCK).write_bytes(lock.encode())
    for number, text in enumerate(texts):
        (folder / f"{number}.yaml").write_text(text)


@pytest.mark.parametrize("case", TOGETHER.values(), ids=TOGETHER)
def test_related_rules_accept_any_value_in_any_place(case: Case) -> None:
    manifests = list(read(case.bad, "x.yaml"))
    looked_at = 0
    for number, manifest in enumerate(manifests):
        body = deepcopy(manifest.body)
        for odd in variations(body, body):
            others = [*manifests[:number], Manifest(odd, "x.yaml", number), *manifests[number + 1 :]]
            looked_at += len(list(run.judge_together(others, case.targets))) + 1
    assert looked_at > 100


def test_objects_of_several_files_are_checked_together(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(f"# told with its line\n{JOB}")
    (tmp_path / "runtime.yaml").write_text(RUNTIME)
    expected = [("job.yaml", 9, "trainjob/lost-devices")]
    assert told(validate(Subject([tmp_path], targets=OLD), "embedded", Path())) == expected
    assert told(validate(Subject([tmp_path / "job.yaml"], targets=OLD), "embedded", Path())) == []


def test_standard_input_belongs_to_files_outside_releases(tmp_path: Path) -> None:
    (tmp_path / "runtime.yaml").write_text(RUNTIME)
    subject = Subject([tmp_path], stdin=JOB.encode(), targets=OLD)
    assert told(validate(subject, "embedded", Path())) == [("stdin", 8, "trainjob/lost-devices")]


@pytest.mark.parametrize("targets", [{}, OLD])
def test_objects_of_two_releases_are_not_checked_together(tmp_path: Path, targets: dict[str, str]) -> None:
    released(tmp_path / "1.0.0", CPUS_ONLY, JOB.replace("cpu: 8", "cpu: 4"))
    released(tmp_path / "2.0.0", RUNTIME, "kind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\n")
    assert told(validate(Subject([tmp_path], targets=targets), "embedded", Path())) == []
    (tmp_path / "2.0.0" / "2.yaml").write_text(JOB)
    found = validate(Subject([tmp_path], targets=targets), "embedded", Path()).checked.findings
    file = str(tmp_path / "2.0.0" / "2.yaml")
    assert [(each.check, each.file) for each in found] == [("trainjob/lost-devices", file), ("release/altered", file)]


MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: team-cv}\n"


@pytest.mark.parametrize(
    ("texts", "changes", "severity"),
    [
        ((), {}, "error"),
        ((MAP,), {}, "error"),
        ((MAP,), {"release/1.yaml": None}, "warning"),
        ((MAP,), {"release/1.yaml": "a: [\n"}, "warning"),
        ((MAP,), {"job.yaml": MAP}, "warning"),
    ],
    ids=["one file", "two files", "one file left out", "one file is not YAML", "a file beside the release"],
)
def test_absence_is_an_error_only_in_a_complete_release(
    texts: tuple[str, ...], changes: dict[str, str | None], severity: str, tmp_path: Path
) -> None:
    released(tmp_path / "release", CASES["trainjob/missing-runtime"].bad, *texts)
    for file, text in changes.items():
        (tmp_path / file).unlink() if text is None else (tmp_path / file).write_text(text)
    found = validate(Subject([tmp_path]), "embedded", Path()).checked.findings
    assert [each.severity for each in found if each.check == "trainjob/missing-runtime"] == [severity]


def test_a_runtime_of_trainer_can_be_in_the_cluster(tmp_path: Path) -> None:
    text = CASES["trainjob/missing-runtime"].bad.replace("torchgpu", "torch-distributed")
    released(tmp_path / "release", text)
    found = validate(Subject([tmp_path]), "embedded", Path()).checked.findings
    assert [each.severity for each in found if each.check == "trainjob/missing-runtime"] == ["warning"]


def test_a_release_with_standard_input_is_not_complete(tmp_path: Path) -> None:
    released(tmp_path / "release", *CASES["trainjob/missing-runtime"].bad.split("---\n")[1:], MAP)
    job = CASES["trainjob/missing-runtime"].bad.split("---\n")[0]
    found = validate(Subject([tmp_path], stdin=job.encode()), "embedded", Path()).checked.findings
    assert {each.severity for each in found if each.check == "trainjob/missing-runtime"} == {"warning"}


def test_conflicting_objects_are_not_referenced(tmp_path: Path) -> None:
    """Conflicting objects belong to different clusters."""
    for name, text in {"job": JOB, "east": RUNTIME, "west": RUNTIME.replace("cpu: 16", "cpu: 12")}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    subject = Subject([tmp_path], targets=OLD)
    assert told(validate(subject, "embedded", Path())) == []
    (tmp_path / "west.yaml").write_text(RUNTIME)
    assert told(validate(subject, "embedded", Path())) == [("job.yaml", 8, "trainjob/lost-devices")]


def test_rendered_objects_are_checked_together() -> None:
    manifests = [Manifest(yaml.safe_load(text), f"{name}.yaml") for name, text in {"b": JOB, "a": RUNTIME}.items()]
    for targets, expected in ((OLD, ["trainjob/lost-devices"]), ({"trainer": "2.3"}, [])):
        found = check_rendered(manifests, write(manifests), Catalog.bundled(targets)).in_order()
        assert [finding.check for finding in found] == expected


def test_several_processes_keep_the_same_objects(tmp_path: Path) -> None:
    filler = "".join(f"# {number}\n" for number in range(60_000))
    for number in range(6):
        (tmp_path / f"{number}.yaml").write_text(
            filler + (RUNTIME if number == 5 else JOB.replace("fine", f"f{number}"))
        )
    files, catalog = sorted(tmp_path.iterdir()), Catalog.bundled(OLD)
    alone, many = (check_files(Part(catalog, {None: files}), processes, Suite()) for processes in (1, 3))
    assert sorted(alone.related, key=str) == sorted(many.related, key=str)
    assert len(many.related) == 6
    first, second = (
        check_together(checked.related, catalog.targets, lambda file: Path(file).read_bytes())
        for checked in (alone, many)
    )
    assert first == second
    assert len(first) == 5


def test_a_file_that_changes_during_a_check_is_reported() -> None:
    """The locations of its findings would be wrong."""
    text = CASES["trainjob/lost-devices"].bad.encode()
    engine = Engine(Catalog.bundled(OLD))
    kept = check_text(text, "x.yaml", engine).related
    for other in (b"", b"- 1\n", b"{", f"---\n{JOB}".replace("cpu: 8", "cpu: 7").encode()):
        (finding,) = check_together(kept, engine.targets, lambda _, other=other: other)  # type: ignore[misc]
        assert (finding.check, finding.message) == ("yaml/unreadable", "the file changed during the check")


def test_a_file_that_is_deleted_during_a_check_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "all.yaml").write_text(CASES["trainjob/lost-devices"].bad)
    opened = os.open
    opens: list[str] = []

    def open_once(file: str | Path, flags: int, *more: Any, **named: Any) -> int:
        if str(file).endswith("all.yaml"):
            opens.append(str(file))
            if len(opens) > 1:
                Path(file).unlink()
        return opened(file, flags, *more, **named)

    monkeypatch.setattr(os, "open", open_once)
    found = told(validate(Subject([tmp_path / "all.yaml"], targets=OLD), "embedded", Path()))
    assert found == [("all.yaml", 0, "yaml/unreadable")]
