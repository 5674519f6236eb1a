"""Test how the citations of upstream code are found and compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from generator.checks import registry
from tests.upstream.citations import find_citations, find_malformed, read_citations, read_texts
from tests.upstream.compare import compare, read_readings
from tests.upstream.resolve import find_unresolved
from tests.upstream.source import Source, find_declaration, normalize

REVIEWED = (
    "tests/cluster/differential/validators.py:",  # a file of each API group
    "tests/unit/test_foreign.py:",  # the output of kubectl
    "docs/contributing/review-scores.md:",  # a file of another program
    "generator/facts/",  # pages of pkg.go.dev
)
"""The files with names of Go files that are no citations."""
GO = """\
package a

import "fmt"

// Allowed is a list.
var Allowed = []string{
\t"a",
}

const (
\tFirst = "1" // the first

\tSecond = "2"
)

type Pod struct {
\tName string `json:"name"`
}

func (p *Pod) Validate(
\tname string,
) error {
\tif name == "" {
\t\treturn fmt.Errorf("// no comment")
\t}
\treturn nil
}

func Last() { fmt.Println() }
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Source: kubernetes v1.34.2 pkg/a.go Foo; kubernetes v1.34.2 pkg/b.go",
            ["k8s.io/kubernetes v1.34.2 pkg/a.go Foo", "k8s.io/kubernetes v1.34.2 pkg/b.go"],
        ),
        ("kueue v0.19.2 pkg/a.go\n    Queue.Pop, which returns", ["sigs.k8s.io/kueue v0.19.2 pkg/a.go Queue.Pop"]),
        ("# kueue v0.19.2\n# pkg/a.go Pop: it blocks", ["sigs.k8s.io/kueue v0.19.2 pkg/a.go Pop"]),
        ("# kueue v0.19.2 pkg/a.go\n_NAME = 1", ["sigs.k8s.io/kueue v0.19.2 pkg/a.go"]),
        ("api v0.36.2 core/v1/types.go", ["k8s.io/api v0.36.2 core/v1/types.go"]),
        ("sriov-cni 1b7acc5 pkg/a.go Foo", ["github.com/k8snetworkplumbingwg/sriov-cni 1b7acc5 pkg/a.go Foo"]),
        ("kueue v0.19.2 config/crd/a.yaml is", ["sigs.k8s.io/kueue v0.19.2 config/crd/a.yaml"]),
        ("kueue v0.19.2 pkg/webhooks.", ["sigs.k8s.io/kueue v0.19.2 pkg/webhooks"]),
        ("unknown v1.2.3 pkg/a.go Foo", []),
        ("kueue pkg/a.go Foo", []),
        ("kueue v0.19.2 rejects", []),
    ],
)
def test_a_citation_has_one_form(text: str, expected: list[str]) -> None:
    assert [str(one) for one in find_citations(text, "a.py")] == expected


def test_a_word_at_the_start_of_the_next_line_of_a_table_is_its_key() -> None:
    text = "source: kueue v0.19.2 pkg/a.go\n  checks: {}"
    assert [one.name for one in find_citations(text, "a.yaml")] == [""]


@pytest.mark.parametrize(
    "text",
    [
        "kueue v0.19.2 pkg/a.go Foo, pkg/b.go Bar",
        "see pkg/b.go",
        "kueue pkg/b.go Bar",
        "(b.go Bar)",
        "https://github.com/kubernetes-sigs/kueue/blob/v0.19.2/b.go",
    ],
)
def test_a_go_file_outside_of_a_citation_is_malformed(text: str) -> None:
    assert [file.rpartition("/")[2] for _, file in find_malformed(text, "a.py")] == ["b.go"]


@pytest.mark.parametrize(
    "text", ["kueue v0.19.2 pkg/b.go", "istio/istio pilot/b.go", "istio/istio 1b7acc5\n    b.go Foo", '"pkg/b.go"']
)
def test_a_foreign_file_and_a_value_are_not_malformed(text: str) -> None:
    assert list(find_malformed(text, "a.py")) == []


def test_every_go_file_that_the_repository_names_is_in_a_citation() -> None:
    found = [f"{place}: {name}" for file, text in read_texts() for place, name in find_malformed(text, file)]
    assert [each for each in found if not each.startswith(REVIEWED)] == []


def test_a_citation_of_a_missing_file_or_declaration_does_not_resolve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.go").write_text(GO)
    monkeypatch.setattr("tests.upstream.resolve.fetch", lambda *_: Source(tmp_path))
    names = ["a.go", "a.go Pod", "a.go Pod.Validate", "a.go Validate", "a.go Gone", "b.go Pod"]
    citations = [one for name in names for one in find_citations(f"kueue v1.0.0 {name}", "rule.py")]
    assert [(one.path, one.name) for one, _ in find_unresolved(citations)] == [
        ("a.go", "Validate"),
        ("a.go", "Gone"),
        ("b.go", "Pod"),
    ]


def test_the_repository_cites_many_functions() -> None:
    found = list(read_citations())
    assert {"kubernetes", "kueue", "trainer", "jobset", "argo-cd"} <= {one.release for one in found}
    assert all(one.place.line >= 1 for one in found)


@pytest.mark.parametrize("name", ["Allowed", "First", "Second", "Pod", "Pod.Validate", "Last"])
def test_a_declaration_ends_before_the_next(name: str) -> None:
    code = find_declaration(GO, name)
    assert code
    assert name.rpartition(".")[2] in code
    others = {"Allowed", "Second", "Pod struct", "Last"} - {name, f"{name} struct"}
    assert not [other for other in others if f"{other} " in code.replace("(p *Pod)", "")]


def test_words_of_statements_are_no_declarations() -> None:
    assert [find_declaration(GO, name) for name in ("return", "name", "if", "fmt")] == [None] * 4


def test_comments_and_white_space_are_no_change() -> None:
    assert normalize("a  // b\n\tc /* d */ e") == normalize("a\nc e")
    assert normalize('a("// no comment")') == 'a("// no comment")'


def test_a_changed_function_lists_the_places_that_cite_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = GO.replace("return nil", "return fmt.Errorf(name)").replace('Second = "2"', 'Second = "2" // now')
    for version, text in (("1.0.0", GO), ("2.0.0", changed)):
        (tmp_path / version / "pkg").mkdir(parents=True)
        (tmp_path / version / "pkg/a.go").write_text(text)
    (tmp_path / "1.0.0/pkg/gone.go").write_text(GO)
    monkeypatch.setattr("tests.upstream.compare.fetch", lambda _, version: Source(tmp_path / version[1:]))
    names = ("a.go Pod.Validate", "a.go Second", "a.go Last", "gone.go", "none.go")
    text = "; ".join(f"kueue v1.0.0 pkg/{name}" for name in names)
    result = compare(find_citations(text, "rule.py"), "kueue", "1.0.0", "2.0.0")
    assert [(change.path, change.name, change.what) for change in result.changes] == [
        ("pkg/a.go", "Pod.Validate", "changed"),
        ("pkg/gone.go", "", "the file is gone"),
    ]
    assert (result.changes[0].places, result.same, len(result.unread)) == ((("rule.py", 1),), 2, 1)


def test_a_reading_with_an_effect_names_its_places_or_the_reason_for_none() -> None:
    known = {check.id for check in registry.checks()}
    readings = read_readings("kubernetes", "1.34.2", "1.37.2").values()
    assert any(reading.follows for reading in readings)
    for reading in readings:
        assert bool(reading.follows or reading.open or reading.because) == bool(reading.effect), reading
        named = (*reading.follows, *reading.open)
        assert all(name in known or Path(name).is_file() for name in named), reading
