"""Bins by their edges, statuses with the fields they carry, identities by content."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbench.schemas.bins import COUNT, EDGES, LABELS, NUMBERS, bin_of, bins_of, bounds, center
from kbench.schemas.errors import MissingDependencyError, UnknownNameError
from kbench.schemas.ids import canonical_source, content_hash, kernel_id


@pytest.mark.parametrize(
    ("speedup", "number"),
    [
        (1e-9, 1),
        (0.5, 2),
        (0.7071067811865476, 3),
        (1.0, 4),
        (1.41421356237, 4),
        (1.41421356238, 5),
        (4.0, 8),
        (1e9, 8),
    ],
)
def test_a_lower_edge_belongs_to_the_bin_above(speedup: float, number: int) -> None:
    assert bin_of(speedup) == number
    assert bins_of([speedup]).tolist() == [number]


@given(st.floats(1e-6, 1e6))
def test_a_speedup_lies_within_the_bounds_of_its_bin(speedup: float) -> None:
    low, high = bounds(bin_of(speedup))
    assert low <= speedup < high
    assert bins_of(np.array([speedup]))[0] == bin_of(speedup)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_bins_center_is_in_the_bin(number: int) -> None:
    assert bin_of(center(number)) == number
    assert len(LABELS) == COUNT == len(EDGES) + 1 == 8


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_speedup_that_is_none_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="positive finite"):
        bin_of(bad)
    with pytest.raises(ValueError, match="positive finite"):
        bins_of([1.0, bad])
    with pytest.raises(ValueError, match="bin must be one of"):
        bounds(9)


def test_ids_see_content_and_not_its_layout() -> None:
    assert content_hash("ab", "c") != content_hash("a", "bc")
    assert canonical_source("a  \r\nb\r\n\r\n") == "a\nb\n"
    assert kernel_id("p", "cuda", "x = 1\n") == kernel_id("p", "cuda", "x = 1  \r\n")
    assert kernel_id("p", "cuda", "x = 1\n") != kernel_id("q", "cuda", "x = 1\n")
    assert kernel_id("p", "cuda", "x = 1\n") == "9e46362ed19656b91f31da3e8174d5dd", (
        "ids must not change between versions"
    )


@given(st.text(alphabet="a \t\r\n\x0b\u2003", max_size=12))
def test_canonical_source_is_the_plain_rule_applied_line_by_line(source: str) -> None:
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert canonical_source(source) == "\n".join(line.rstrip() for line in lines).strip("\n") + "\n"


def test_an_unknown_name_lists_near_or_known_names() -> None:
    assert "did you mean 'softmax'?" in str(UnknownNameError("problem", "sofmax", ["softmax", "relu"]))
    assert str(UnknownNameError("problem", "q", [f"n{i}" for i in range(20)])).endswith("(20 in all)")
    assert "pip install 'kbench-gpu[gpu]'" in str(MissingDependencyError("torch", "gpu", "timing"))
