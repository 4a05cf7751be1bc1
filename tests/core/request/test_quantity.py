"""Kubernetes quantities: every legal notation is read exactly, all other text is refused cheaply."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.request.quantity import MAX_MIB, QuantityError, as_count, as_mib, parse_quantity

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("-0", Fraction(0), id="minus zero is zero"),
        pytest.param("007", Fraction(7), id="leading zeros count nothing"),
        pytest.param("+1", Fraction(1), id="an explicit plus"),
        pytest.param(".5", Fraction(1, 2), id="no digit before the point"),
        pytest.param("1.", Fraction(1), id="no digit after the point"),
        pytest.param("-.5Gi", Fraction(-(2**29)), id="sign, bare fraction and suffix together"),
        pytest.param("1e3", Fraction(1000), id="an exponent with a small e"),
        pytest.param("1E3", Fraction(1000), id="an exponent with a capital E"),
        pytest.param("1e-3", Fraction(1, 1000), id="a negative exponent"),
        pytest.param("1e00000000000003", Fraction(1000), id="leading zeros in an exponent"),
        pytest.param("1e30", Fraction(10**30), id="the largest exponent"),
        pytest.param("1e-30", Fraction(1, 10**30), id="the smallest exponent"),
        pytest.param("9" * 64, Fraction(int("9" * 64)), id="64 characters are still read"),
    ],
)
def test_legal_notation_is_read_exactly(text: str, expected: Fraction) -> None:
    assert parse_quantity(text) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("", "cannot be read", id="nothing"),
        pytest.param(".", "cannot be read", id="a point alone"),
        pytest.param("-", "cannot be read", id="a sign alone"),
        pytest.param("Gi", "cannot be read", id="a suffix alone"),
        pytest.param("e3", "cannot be read", id="an exponent alone"),
        pytest.param("1\n", "cannot be read", id="a trailing newline"),
        pytest.param("1 Gi", "cannot be read", id="a blank before the suffix"),
        pytest.param("40GB", "leave out the B, as in '40G'", id="a unit of bytes"),
        pytest.param("40GiB", "leave out the B, as in '40Gi'", id="a binary unit of bytes"),
        pytest.param("B", "write a number", id="bytes alone"),
        pytest.param("1K", "cannot be read", id="capital K is no decimal suffix"),
        pytest.param("1ki", "cannot be read", id="small ki is no binary suffix"),
        pytest.param("1e", "cannot be read", id="a small e without digits"),
        pytest.param("1e1.5", "cannot be read", id="a fractional exponent"),
        pytest.param("1e3Ki", "cannot be read", id="an exponent and a suffix"),
        pytest.param("1,5", "cannot be read", id="a decimal comma"),
        pytest.param("٣", "cannot be read", id="digits of another script"),
        pytest.param("1e31", "absurd", id="one past the largest exponent"),
        pytest.param("1e-31", "absurd", id="one past the smallest exponent"),
        pytest.param("1e999999999999999999999", "absurd", id="an exponent that could never be computed"),
        pytest.param("9" * 65, "absurd", id="65 characters"),
        pytest.param("1" * 10_000_000, "absurd", id="ten million characters"),
    ],
)
def test_anything_else_is_refused_with_its_reason(text: str, complaint: str) -> None:
    with pytest.raises(QuantityError, match=complaint) as refused:
        parse_quantity(text)
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize(("suffix", "unit"), SUFFIXES.items())
def test_a_number_and_its_suffix_multiply(suffix: str, unit: Fraction) -> None:
    assert parse_quantity(f"-10.05{suffix}") == Fraction(-1005, 100) * unit


@given(st.text(alphabet="0123456789+-.eEinumkKMGTP ", max_size=70))
def test_any_text_is_either_read_within_bounds_or_refused(text: str) -> None:
    try:
        value = parse_quantity(text)
    except QuantityError:
        return
    assert abs(value) < 10**95


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0", 0, id="zero"),
        pytest.param("1000m", 1, id="a thousand thousandths are one"),
        pytest.param("1e6", 1_000_000, id="the largest count"),
        pytest.param("2.0", 2, id="a fraction of zero is none"),
    ],
)
def test_count_is_a_whole_number(text: str, expected: int) -> None:
    count = as_count(text)
    assert count == expected
    assert type(count) is int


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("-1", "negative", id="negative"),
        pytest.param("1500m", "fractional", id="one and a half"),
        pytest.param("0.5", "fractional", id="half a device"),
        pytest.param("1000001", "absurd", id="one more than a million"),
    ],
)
def test_count_refuses_impossible_amounts(text: str, complaint: str) -> None:
    with pytest.raises(QuantityError, match=complaint):
        as_count(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0", 0, id="zero"),
        pytest.param("40Gi", 40960, id="forty gibibytes"),
        pytest.param("1048576", 1, id="one mebibyte in bytes"),
        pytest.param("1048577", 2, id="one byte more is rounded up"),
        pytest.param("2M", 2, id="megabytes are rounded up to mebibytes"),
        pytest.param("1Pi", MAX_MIB, id="the largest amount"),
    ],
)
def test_memory_is_rounded_up_to_mib(text: str, expected: int) -> None:
    amount_mib = as_mib(text)
    assert amount_mib == expected
    assert type(amount_mib) is int


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("-1Gi", "negative", id="negative"),
        pytest.param("40960", "unit such as Mi or Gi was forgotten", id="a number meant as MiB"),
        pytest.param("100m", "unit such as Mi or Gi was forgotten", id="milli where Mi was meant"),
        pytest.param("2Pi", "absurd", id="two pebibytes"),
    ],
)
def test_memory_refuses_absurd_amounts(text: str, complaint: str) -> None:
    with pytest.raises(QuantityError, match=complaint):
        as_mib(text)
