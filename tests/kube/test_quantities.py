"""Quantities parse, print and round as resource.Quantity does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.kube.quantities import BINARY_SI, ZERO, Quantity, QuantityError, from_milli, from_units, of, parse, total


@pytest.mark.parametrize(
    ("text", "printed", "value", "milli"),
    [
        ("0", "0", 0, 0),
        ("100m", "100m", 1, 100),
        ("1500m", "1500m", 2, 1500),
        ("1.5", "1500m", 2, 1500),
        ("-100m", "-100m", -1, -100),
        ("1e3", "1e3", 1000, 1_000_000),
        ("1E3", "1e3", 1000, 1_000_000),
        ("12e6", "12e6", 12_000_000, 12_000_000_000),
        ("1e-3", "1e-3", 1, 1),
        ("1000000", "1M", 1_000_000, 1_000_000_000),
        ("1.5Gi", "1536Mi", 1_610_612_736, 1_610_612_736_000),
        ("1024Ki", "1Mi", 1_048_576, 1_048_576_000),
        ("1000Ki", "1000Ki", 1_024_000, 1_024_000_000),
        ("0.5Ki", "512", 512, 512_000),
        ("0.0001Ki", "102400u", 1, 103),
        ("0.1n", "1n", 1, 1),
        ("2G", "2G", 2_000_000_000, 2_000_000_000_000),
        ("+5", "5", 5, 5000),
        (".5", "500m", 1, 500),
        ("5.", "5", 5, 5000),
        ("m", "0", 0, 0),
        ("16Ei", "9223372036854775807", 2**63 - 1, -1000),
    ],
)
def test_texts(text: str, printed: str, value: int, milli: int) -> None:
    found = parse(text)
    assert (str(found), found.value(), found.milli()) == (printed, value, milli)


def test_views_that_overflow_wrap_or_vanish_as_in_go() -> None:
    assert parse("1Ei").value() == 2**60
    assert parse("1Ei").milli() == -(2**63)  # arbitrary precision: the low 64 bits
    assert parse("1E").milli() == 0  # int64 mantissa: gives up


@pytest.mark.parametrize("text", ["", "1i", "1 ", " 1", "1e", "1e+", "1-", "1e1.5", "one", "1.2.3", "0x10", "1٣"])
def test_no_quantities(text: str) -> None:
    with pytest.raises(QuantityError):
        parse(text)


@pytest.mark.parametrize(
    ("value", "printed"), [("1Gi", "1Gi"), (2, "2"), (1.5, "1500m"), (None, None), (True, None), ([], None), ("x", None)]
)
def test_wire_values(value: object, printed: str | None) -> None:
    found = of(value)
    assert (None if found is None else str(found)) == printed


def test_a_sum_prints_in_the_family_of_its_first_summand() -> None:
    assert str(parse("64Mi") + parse("2G")) == str(from_units(64 * 2**20 + 2 * 10**9, BINARY_SI))
    assert str(parse("2G") + parse("64Mi")) == "2067108864"
    assert str(total([parse("0"), parse("64Mi"), parse("2G")])) == str(parse("64Mi") + parse("2G"))


def test_sums_from_zero_take_over_the_format() -> None:
    assert str(total([parse("512Mi")] * 4, Quantity(0, BINARY_SI))) == "2Gi"
    assert str(ZERO + parse("1Gi")) == "1Gi"
    assert str(from_milli(3500)) == "3500m"


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.integers(-(10**9), 10**9), st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "Gi", "n", "u"]))
def test_printing_is_canonical(number: int, suffix: str) -> None:
    first = parse(f"{number}{suffix}")
    again = parse(str(first))
    assert again == first
    assert str(again) == str(first)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(max_size=40))
def test_any_text_is_a_quantity_or_an_error(text: str) -> None:
    try:
        found = parse(text)
    except QuantityError:
        return
    assert isinstance(str(found), str)
    assert -(2**63) <= found.value() < 2**63
    assert -(2**63) <= found.milli() < 2**63


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.from_regex(r"[+-]?[0-9]{0,30}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,25}|[numkMGTPE]|[KMGTPE]i)?", fullmatch=True))
def test_number_like_texts_never_fail_otherwise(text: str) -> None:
    try:
        parse(text)
    except QuantityError:
        return


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(-(10**12), 10**12), st.integers(-(10**12), 10**12))
def test_sums_are_exact(a: int, b: int) -> None:
    assert (from_milli(a) + from_milli(b)).milli() == a + b
    assert (from_milli(a) - from_milli(b)).milli() == a - b
