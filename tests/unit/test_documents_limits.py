"""Test each limit of reading documents on both sides: the last accepted value, and the first refused one."""

from __future__ import annotations

import pytest

from generator.documents.credentials import find_exposures, names_credential
from generator.documents.load import load
from generator.documents.scalars import resolve
from generator.errors import DocumentError


@pytest.mark.parametrize(("number", "kind"), [(2**64 - 1, int), (2**64, float), (-(2**63), int), (-(2**63) - 1, float)])
def test_an_integer_that_go_cannot_hold_is_a_float(number: int, kind: type) -> None:
    assert type(resolve(str(number))) is kind


@pytest.mark.parametrize(
    ("accepted", "refused", "message"),
    [
        ("[" * 128 + "]" * 128, "[" * 129 + "]" * 129, "nested more than 128 levels"),
        ("9223372036854775807: x", "9223372036854775808: x", "is a number, whose spelling Kubernetes clients change"),
        ("12345.5: x", "123456.5: x", "is a number, whose spelling Kubernetes clients change"),
    ],
)
def test_a_document_is_accepted_up_to_a_limit(accepted: str, refused: str, message: str) -> None:
    assert len(list(load(accepted.encode()))) == 1
    with pytest.raises(DocumentError, match=message):
        list(load(refused.encode()))


def test_the_name_of_a_credential_has_at_most_253_characters() -> None:
    assert names_credential("A" * 247 + "_TOKEN")
    assert not names_credential("A" * 248 + "_TOKEN")


@pytest.mark.parametrize(
    ("comment", "is_exposed"),
    [
        ("# password: abc12x", True),
        ("# password: ab12x", False),
        ("# api_key: abcdefg123", True),
        ("# api_key: abcdef123", False),
        ("# api_key: abcdefgh12", False),
    ],
)
def test_a_value_in_a_comment_is_a_credential_from_a_length_on(comment: str, *, is_exposed: bool) -> None:
    """A password has at least 6 characters, and a key at least 10 with 3 digits."""
    assert bool(find_exposures(comment)) is is_exposed
