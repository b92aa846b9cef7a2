"""Go's ways of writing values."""

from __future__ import annotations

import pytest

from fixtures.kube.gotext import aggregate, duration, parse_duration, quote


def test_quoting() -> None:
    assert quote('a"b\\c\n\t\x00é\u200b') == '"a\\"b\\\\c\\n\\t\\x00é\\u200b"'


def test_aggregates() -> None:
    assert aggregate(["a"]) == "a"
    assert aggregate(["a", "b", "a"]) == "[a, b]"


@pytest.mark.parametrize(
    ("text", "nanoseconds", "printed"),
    [
        ("5m", 300 * 10**9, "5m0s"),
        ("1h30m", 5400 * 10**9, "1h30m0s"),
        ("1.5s", 1_500_000_000, "1.5s"),
        ("100ms", 10**8, "100ms"),
        ("1us", 1000, "1µs"),
        ("-2h", -7200 * 10**9, "-2h0m0s"),
        ("0", 0, "0s"),
        ("24h", 86400 * 10**9, "24h0m0s"),
    ],
)
def test_durations(text: str, nanoseconds: int, printed: str) -> None:
    assert parse_duration(text) == nanoseconds
    assert duration(nanoseconds) == printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", 'time: missing unit in duration "5"'),
        ("", 'time: invalid duration ""'),
        ("5d", 'time: unknown unit "d" in duration "5d"'),
        ("m", 'time: invalid duration "m"'),
    ],
)
def test_no_durations(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="time:") as caught:
        parse_duration(text)
    assert str(caught.value) == message
