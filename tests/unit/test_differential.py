"""Test without a cluster that the corpus is complete and current, and that mpigen differs only in reviewed cases."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from generator import manifests
from generator.errors import DocumentError
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from generator.schemas.json_schema import UNIQUE_ITEMS_BY
from generator.schemas.kubeconform import Kubeconform, Status, cache_folder, ensure_kubeconform
from tests.cluster.differential.cases import GENERATED, read_cases, read_seeds
from tests.cluster.differential.generate import generate
from tests.cluster.differential.templates import TEMPLATED, is_in_template
from tests.cluster.differential.verdicts import Verdict, disagreements, of_server, read_answers, read_causes, reviewed
from tests.cluster.versions import set_targets
from tests.conftest import ROOT

SEEDS, CASES, ANSWERS, CAUSES = read_seeds(), read_cases(), read_answers(), read_causes()


def test_generated_cases_are_current() -> None:
    assert GENERATED.read_text() == generate(), "run `python -m tests.cluster.differential`, then record the answers"


def test_every_case_has_an_answer_and_every_answer_has_a_case() -> None:
    assert ANSWERS.keys() == CASES.keys(), "run `make cluster` with `--record`"


def test_mpigen_differs_from_the_api_server_only_in_reviewed_cases() -> None:
    assert disagreements(CASES, SEEDS, ANSWERS) == dict(reviewed(CAUSES))


def test_every_difference_is_reviewed_once_with_a_unique_cause() -> None:
    twice = [name for name, count in Counter(name for name, _ in reviewed(CAUSES)).items() if count > 1]
    assert twice == []
    assert len({cause.cause for cause in CAUSES}) == len(CAUSES)


def test_both_judges_accept_every_seed() -> None:
    refused = {
        name: ANSWERS[name]
        for name, case in CASES.items()
        if case.change == "keep" and of_server(ANSWERS[name]) != "accepts"
    }
    assert refused == {}


def test_the_corpus_is_large_and_both_verdicts_are_common() -> None:
    verdicts = Counter(of_server(answer) for answer in ANSWERS.values())
    assert verdicts.total() >= 1500
    assert min(verdicts[Verdict.ACCEPTS], verdicts[Verdict.REFUSES]) > verdicts.total() / 5


def test_at_least_400_cases_are_inside_of_stored_pod_templates() -> None:
    templates = [
        of_server(ANSWERS[name])
        for name, case in CASES.items()
        if SEEDS[case.seed]["kind"] in TEMPLATED and is_in_template(case.path)
    ]
    verdicts = Counter(templates)
    assert verdicts.total() >= 400
    assert min(verdicts[Verdict.ACCEPTS], verdicts[Verdict.REFUSES]) > verdicts.total() / 5


def test_every_rendered_kind_has_at_least_eight_cases() -> None:
    emitted = {
        (manifest.api_version, manifest.kind)
        for file in (ROOT / "output").rglob("*.yaml")
        if file.parent.name != "kueue"
        for manifest in manifests.read(file.read_bytes(), file.name)
    }
    cases = Counter((SEEDS[case.seed]["apiVersion"], SEEDS[case.seed]["kind"]) for case in CASES.values())
    assert {kind: cases[kind] for kind in emitted if cases[kind] < 8} == {}


def test_kubeconform_agrees_with_the_embedded_engine_on_every_case(tmp_path: Path) -> None:
    catalog = Catalog.bundled(set_targets("default"))
    files = {f"{number}.yaml": name for number, name in enumerate(CASES)}
    for file, name in files.items():
        (tmp_path / file).write_text(CASES[name].text(SEEDS))
    cache = cache_folder({}, Path.home())
    results = Kubeconform(ensure_kubeconform(cache), catalog.locations(cache)).run([tmp_path])
    refused = {files[Path(result.file).name] for result in results if result.status is not Status.VALID}
    engine = Engine(catalog)
    assert {name for name, case in CASES.items() if not is_valid(engine, case.text(SEEDS))} == refused


def is_valid(engine: Engine, text: str) -> bool:
    """Return True if the text is readable and matches its schema, within kubeconform's features."""
    try:
        bodies = [manifest.body for manifest in manifests.read(text, "case.yaml")]
    except DocumentError:
        return False
    found = [engine.violations(body) for body in bodies]
    return all(each is not None and {violation.keyword for violation in each} <= {UNIQUE_ITEMS_BY} for each in found)
