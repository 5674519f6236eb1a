"""Test edits of one value of a YAML text: only its characters change, or the edit is rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from generator.documents.edit import replace_file, set_value

PATH = ("environments", "prod", "gitops", "revision")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "environments:\n  prod:\n    gitops: {revision: v1}  # pinned\n",
            "environments:\n  prod:\n    gitops: {revision: v2}  # pinned\n",
        ),
        (
            "environments:\n  prod:\n    gitops:\n      revision: 'v1' # x\n",
            "environments:\n  prod:\n    gitops:\n      revision: v2 # x\n",
        ),
        (
            "environments:\n  prod:\n    # é\n    pools: []\n",
            "environments:\n  prod:\n    # é\n    gitops: {revision: v2}\n    pools: []\n",
        ),
        ("environments:\n  prod: {}\n", "environments:\n  prod: {gitops: {revision: v2}}\n"),
        (
            "environments:\n  prod:  # later\n  dev: {}\n",
            "environments:\n  prod: {gitops: {revision: v2}}  # later\n  dev: {}\n",
        ),
        (
            "environments: {prod: {gitops: {path: 'a,b'}}}\n",
            "environments: {prod: {gitops: {path: 'a,b', revision: v2}}}\n",
        ),
        (
            "a: 1\r\nenvironments: {prod: {gitops: {revision: v1}}}\r\n",
            "a: 1\r\nenvironments: {prod: {gitops: {revision: v2}}}\r\n",
        ),
        ("a: 1\n", "environments: {prod: {gitops: {revision: v2}}}\na: 1\n"),
    ],
    ids=["flow", "block", "missing", "empty", "null", "missing in flow", "CRLF", "all missing"],
)
def test_only_the_value_changes(text: str, expected: str) -> None:
    assert set_value(text, PATH, "v2") == expected


@pytest.mark.parametrize(
    ("value", "written"),
    [("prod/1.0.0", "prod/1.0.0"), ("1.0", '"1.0"'), ("true", '"true"'), ("a, b", '"a, b"'), ("é: x", r'"\u00e9: x"')],
)
def test_a_value_stays_a_string(value: str, written: str) -> None:
    assert (
        set_value("gitops: {revision: main}\n", ("gitops", "revision"), value) == f"gitops: {{revision: {written}}}\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "environments:\n  prod: &one\n    gitops: {revision: v1}\n  dev: *one\n",
        "x: &one {revision: v1}\nenvironments: {prod: {gitops: *one}}\n",
    ],
)
def test_an_edit_that_changes_another_value_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="another value"):
        set_value(text, PATH, "v2")


def test_a_file_is_replaced_with_its_mode_and_behind_its_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target.yaml", tmp_path / "platform.yaml"
    target.write_text("a: 1\n")
    target.chmod(0o640)
    link.symlink_to(target.name)
    replace_file(link, b"a: 2\n")
    assert link.is_symlink()
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("a: 2\n", 0o640)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["platform.yaml", "target.yaml"]
