"""Test that quantities have the value and the text of the API server."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.quantities import Quantity, parse, scaled_value
from tests.conftest import ROOT

# Made by running apimachinery v0.34.2 over a list of texts: `resource.ParseQuantity`, then `AsDec` for the value
# and `CanonicalizeBytes` for the text, with the format of `1e3` set to DecimalSI, because we write `1k` for it.
TABLE: list[dict[str, Any]] = json.loads((ROOT / "tests/fixtures/quantities.json").read_text("utf-8"))
# The same for `Value` and `MilliValue`, which overflow.
SCALED: list[dict[str, Any]] = json.loads((ROOT / "tests/fixtures/scaled-quantities.json").read_text("utf-8"))
READ = {row["text"]: row for row in TABLE if "refused" not in row}
MOST = 2**63 - 1

numbers = st.from_regex(r"\A[+-]?([0-9]{1,12}(\.[0-9]{0,12})?|\.[0-9]{1,12})\Z")
suffixes = st.sampled_from(["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E-2", "e+0"])
amounts = st.integers(-MOST, MOST).map(Fraction) | st.integers(-MOST, MOST).map(lambda nanos: Fraction(nanos, 10**9))


@pytest.mark.parametrize("text", READ)
def test_a_quantity_has_the_value_that_go_gives_it(text: str) -> None:
    assert parse(text).value == Fraction(READ[text]["value"])


@pytest.mark.parametrize("text", READ)
def test_a_quantity_is_formatted_as_in_go(text: str) -> None:
    assert str(parse(text)) == READ[text]["canonical"]


@pytest.mark.parametrize("text", [row["text"] for row in TABLE if "refused" in row])
def test_quantities_that_go_rejects_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        parse(text)


@pytest.mark.parametrize("text", [".", "-", "+", "Gi", "e3"])
def test_a_quantity_needs_a_digit_although_go_accepts_none(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        parse(text)


@pytest.mark.parametrize("text", ["9223372036854775808", "8Ei", "-8.1Ei", "9.3E", "1000E", "1e22", "9" * 40])
def test_a_quantity_that_the_api_server_would_cap_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="too large"):
        parse(text)


@pytest.mark.parametrize("text", ["1e999999999", "1E-999999999", "9" * 100_000])
def test_a_huge_number_is_rejected_before_it_is_computed(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        parse(text)


@given(numbers, suffixes)
def test_a_quantity_keeps_its_value_down_to_nanos(number: str, suffix: str) -> None:
    try:
        quantity = parse(number + suffix)
    except ValueError:
        assert "e" in suffix or len(number) > 9
        return
    again = parse(str(quantity))
    assert again.value == quantity.value
    assert str(again) == str(quantity)
    assert (quantity.value * 10**9).denominator == 1


@given(amounts, st.booleans())
def test_any_amount_of_whole_nanos_keeps_its_value_as_text(value: Fraction, is_binary: bool) -> None:
    text = str(Quantity(value, is_binary))
    assert parse(text).value == value
    assert str(parse(text)) == text


@given(amounts, amounts, st.integers(0, 1000))
def test_sums_and_products_are_exact(one: Fraction, other: Fraction, factor: int) -> None:
    assert (Quantity(one) + Quantity(other)).value == one + other
    assert (Quantity(one) * factor).value == one * factor


@given(amounts, st.sampled_from([1, 1000, 1024**2, 1024**3]))
def test_floor_is_the_nearest_multiple_below(value: Fraction, unit: int) -> None:
    floored = Quantity(value).floor(unit).value
    assert floored % unit == 0
    assert 0 <= value - floored < unit


@pytest.mark.parametrize(
    ("value", "text"),
    [(Fraction(1, 3), "333333334n"), (Fraction(-1, 3), "-333333334n"), (Fraction(10**10, 3), "3333333333333333334n")],
)
def test_an_inexact_share_is_rounded_away_from_zero(value: Fraction, text: str) -> None:
    assert str(Quantity(value)) == text


def test_a_binary_quantity_without_a_binary_suffix_is_written_as_decimal() -> None:
    assert str(parse("1.953125Ki")) == "2k"  # Go writes 2000, and 2k when it has read that


def test_binary_and_decimal_suffixes_stay_apart() -> None:
    assert str(parse("1Gi") * 4) == "4Gi"
    assert str(parse("1G") * 4) == "4G"
    assert str(parse("1Gi") + parse("24Mi")) == "1048Mi"


@pytest.mark.parametrize("row", SCALED, ids=lambda row: row["text"])
def test_a_scaled_quantity_overflows_as_in_go(row: dict[str, Any]) -> None:
    assert (scaled_value(row["text"], 0), scaled_value(row["text"], -3)) == (row["value"], row["milli"])


@pytest.mark.parametrize("text", ["", "1x", "1e", "- 1"])
def test_a_text_without_a_number_has_no_scaled_value(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        scaled_value(text, 0)


def test_a_negative_quantity_has_a_negative_scaled_value() -> None:
    texts = ("-2", "-2Ki", "-1500m", "-5000000000000000000000", ".", "Ki")
    assert [scaled_value(text, 0) for text in texts] == [-2, -2048, -2, -6937977276, 0, 0]
