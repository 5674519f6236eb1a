"""Test how the citations of upstream code are found and compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from generator.checks import registry
from tests.upstream.citations import find_citations, read_citations
from tests.upstream.compare import compare, read_readings
from tests.upstream.source import Source, find_declaration, normalize

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
            "Source: kubernetes v1.34.2 pkg/a.go Foo, bar; pkg/b.go\n",
            [
                ("k8s.io/kubernetes", "1.34.2", "pkg/a.go", {"Foo", "bar"}),
                ("k8s.io/kubernetes", "1.34.2", "pkg/b.go", set()),
            ],
        ),
        (
            "kubernetes v1.34.2\n    staging/src/k8s.io/api/core/v1/types.go Pod",
            [("k8s.io/api", "0.34.2", "core/v1/types.go", {"Pod"})],
        ),
        ("k8s.io/api v0.36.2 core/v1/types.go", [("k8s.io/api", "0.36.2", "core/v1/types.go", set())]),
        (
            "kueue v0.19.2 pkg/a.go Foo, jobset v0.12.0 pkg/b.go",
            [
                ("sigs.k8s.io/kueue", "0.19.2", "pkg/a.go", {"Foo"}),
                ("sigs.k8s.io/jobset", "0.12.0", "pkg/b.go", set()),
            ],
        ),
        ("unknown v1.2.3 pkg/a.go Foo", []),
        ("see v1.34.2 and pkg/a.go", []),
    ],
)
def test_a_citation_names_its_module_file_and_words(text: str, expected: list[tuple[str, str, str, set[str]]]) -> None:
    found = [(one.module, one.version, one.path, set(one.words)) for one in find_citations(text, "a.py")]
    assert found == expected


def test_the_repository_cites_many_functions() -> None:
    found = list(read_citations())
    assert {"kubernetes", "kueue", "trainer", "jobset", "argo-cd"} <= {one.release for one in found}
    assert all(one.place.line >= 1 for one in found)


@pytest.mark.parametrize("name", ["Allowed", "First", "Second", "Pod", "Validate", "Last"])
def test_a_declaration_ends_before_the_next(name: str) -> None:
    code = find_declaration(GO, name)
    assert code
    assert name in code
    others = {"Allowed", "Second", "Pod struct", "Last"} - {name, f"{name} struct"}
    assert not [other for other in others if f"{other} " in code.replace("(p *Pod)", "")]


def test_words_of_statements_are_no_declarations() -> None:
    assert [find_declaration(GO, name) for name in ("return", "name", "if", "fmt")] == [None] * 4


def test_a_reading_with_an_effect_names_its_rules_or_the_reason_for_none() -> None:
    known = {check.id for check in registry.checks()}
    readings = read_readings("kubernetes", "1.34.2", "1.37.2").values()
    assert any(reading.follows for reading in readings)
    for reading in readings:
        assert (bool(reading.follows) + bool(reading.because)) == bool(reading.effect), reading
        assert all(name in known or Path(name).is_file() for name in reading.follows), reading


def test_comments_and_white_space_are_no_change() -> None:
    assert normalize("a  // b\n\tc /* d */ e") == normalize("a\nc e")
    assert normalize('a("// no comment")') == 'a("// no comment")'


def test_a_changed_function_lists_the_places_that_cite_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = GO.replace("return nil", "return fmt.Errorf(name)").replace('Second = "2"', 'Second = "2" // now')
    for version, text in (("1.0.0", GO), ("2.0.0", changed)):
        (tmp_path / version / "pkg").mkdir(parents=True)
        (tmp_path / version / "pkg/a.go").write_text(text)
    (tmp_path / "1.0.0/pkg/gone.go").write_text(GO)
    monkeypatch.setattr("tests.upstream.compare._fetch", lambda _, version: Source(tmp_path / version))
    text = "kueue v1.0.0 pkg/a.go Validate, Second, Last; pkg/gone.go; pkg/none.go"
    result = compare(find_citations(text, "rule.py"), "kueue", "1.0.0", "2.0.0")
    assert [(change.path, change.name, change.what) for change in result.changes] == [
        ("pkg/a.go", "Validate", "changed"),
        ("pkg/gone.go", "", "the file is gone"),
    ]
    assert (result.changes[0].places, result.same, len(result.unread)) == ((("rule.py", 1),), 2, 1)
