"""Equal durations have one spelling, and invalid durations are rejected."""

from __future__ import annotations

import pytest

from generator.config.model.fields import to_seconds
from generator.config.model.queues import Queues
from generator.errors import ConfigError


def retained(value: object) -> str | None:
    """Return a duration as the platform stores it."""
    return Queues.model_validate({"retainFinished": value}).retain_finished


@pytest.mark.parametrize(
    ("spelled", "kept", "length"),
    [
        ("30m", "30m", 1800),
        ("90m", "1h30m", 5400),
        ("3600s", "1h", 3600),
        ("1h0m5s", "1h5s", 3605),
        ("0s", "0s", 0),
        ("0h", "0s", 0),
        ("48h", "48h", 172800),
    ],
)
def test_equal_durations_have_one_spelling(spelled: str, kept: str, length: int) -> None:
    assert retained(spelled) == kept
    assert to_seconds(kept) == length


@pytest.mark.parametrize("value", ["", "30", 30, 1.5, True, "1d", "1.5h", "5m1h", "-30m", "30 m", "30M", "30m\n", []])
def test_an_invalid_duration_is_rejected_with_an_example(value: object) -> None:
    with pytest.raises(ConfigError) as refused:
        retained(value)
    assert refused.value.problems[0].fix == "write it like 90s, 30m or 1h30m"
