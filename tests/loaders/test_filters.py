"""A filter means one thing: the same rows in pyarrow and polars, null or not, and one line when it means nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kbench.loaders.corpus.corpus import load
from kbench.loaders.corpus.selection import Selection
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.schemas import UserError

from .conftest import make_kernel, make_measurement

Row = dict[str, Any]
PARENTS = ["a" * 32, "b" * 32]


@pytest.fixture(scope="module")
def holed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus whose columns of every type hold nulls."""
    path: Path = tmp_path_factory.mktemp("holed") / "corpus"
    kernels = [
        make_kernel(number, parent_id=[None, *PARENTS][number % 3], registers=[None, 32, 64][number % 3])
        for number in range(12)
    ]
    flags = (None, True, False)
    timed = [make_measurement(row, clocks_disagree=flags[number % 3]) for number, row in enumerate(kernels)]
    with CorpusWriter(path) as writer:
        writer.append("kernels", kernels)
        writer.append("measurements", timed)
    return path


def agreed(selection: Selection, column: str) -> list[Any]:
    """The rows that pyarrow, polars and the count agree on."""
    found = selection.to_arrow().column(column).to_pylist()
    assert selection.to_polars().collect()[column].to_list() == found
    assert selection.count() == len(found)
    return sorted(found)


KERNEL_FILTERS: list[tuple[str, Callable[[Row], bool]]] = [
    (f"parent_id in [{PARENTS[0]!r}]", lambda row: row["parent_id"] == PARENTS[0]),
    (f"parent_id not in [{PARENTS[0]!r}]", lambda row: row["parent_id"] != PARENTS[0]),
    (f"parent_id in [{PARENTS[0]!r}, None]", lambda row: row["parent_id"] in (PARENTS[0], None)),
    (f"parent_id not in [{PARENTS[0]!r}, None]", lambda row: row["parent_id"] == PARENTS[1]),
    (f"not (parent_id in {PARENTS!r} or step > 5)", lambda row: row["parent_id"] is None and row["step"] <= 5),
    ("parent_id in [None]", lambda row: row["parent_id"] is None),
    ("parent_id in []", lambda row: False),
    ("parent_id not in []", lambda row: True),
    ("registers in [32, 64.0]", lambda row: row["registers"] in (32, 64)),
    ("registers not in {32}", lambda row: row["registers"] != 32),
    ("registers > 32.5", lambda row: row["registers"] == 64),
    ("speedup not in {1, 2}", lambda row: True),
    ("speedup > 1", lambda row: row["speedup"] is not None and row["speedup"] > 1),
    ("not speedup > 1", lambda row: row["speedup"] is not None and row["speedup"] <= 1),
    ("None != speedup", lambda row: row["speedup"] is not None),
    ("speedup is null", lambda row: row["speedup"] is None),
    ("speedup IS NOT NULL AND step > 3", lambda row: row["speedup"] is not None and row["step"] > 3),
    ("backend in ('cuda')", lambda row: row["backend"] == "cuda"),
    ("source contains 'variant 1'", lambda row: "variant 1" in row["source"]),
    ("backend <> 'cuda' and error <> 'a <> b'", lambda row: row["backend"] != "cuda" and row["error"] is not None),
    ("error not contains 'Name' or step = 1", lambda row: row["step"] == 1),
    ("not parent_id contains 'bb' and step > 3", lambda row: row["parent_id"] == PARENTS[0] and row["step"] > 3),
    ("parent_id = 'aaa'", lambda row: row["parent_id"] == PARENTS[0]),
    ("parent_id != 'aaa'", lambda row: row["parent_id"] == PARENTS[1]),
    ("parent_id in ['aaa', None]", lambda row: row["parent_id"] != PARENTS[1]),
    ("parent_id not in ['aaa']", lambda row: row["parent_id"] != PARENTS[0]),
    ("gpu == 'NVIDIA'", lambda row: False),
]


@pytest.mark.parametrize(("text", "wanted"), KERNEL_FILTERS, ids=[text for text, _ in KERNEL_FILTERS])
def test_a_condition_on_nulls_means_one_thing(holed: Path, text: str, wanted: Callable[[Row], bool]) -> None:
    rows = load(holed).to_arrow().to_pylist()
    expected = sorted(row["step"] for row in rows if wanted(row))
    assert agreed(load(holed, where=text), "step") == expected


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("clocks_disagree", {True}), ("not clocks_disagree", {False}), ("clocks_disagree == False", {False}),
     ("clocks_disagree not in [True]", {False, None}), ("samples_us is None", {True, False, None})],
)  # fmt: skip
def test_a_column_of_truth_values_is_a_condition_by_itself(holed: Path, text: str, wanted: set[bool | None]) -> None:
    selection = load(holed, config="measurements", where=text)
    agreed(selection, "measurement_id")
    assert set(selection.to_arrow().column("clocks_disagree").to_pylist()) <= wanted


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([None], {None}),
        (None, {None}),
        ([32, None], {32, None}),
        ([32, 64.0], {32, 64}),
        (64.0, {64}),
        (pa.scalar(32), {32}),
        ([], set()),
    ],
)
def test_values_given_by_keyword_mean_the_same_everywhere(holed: Path, values: Any, wanted: set[int | None]) -> None:
    selection = load(holed, registers=values)
    agreed(selection, "step")
    assert set(selection.to_arrow().column("registers").to_pylist()) == wanted


def test_the_beginning_of_an_id_given_by_keyword_finds_its_rows(holed: Path) -> None:
    assert agreed(load(holed, parent_id="aa"), "step") == [1, 4, 7, 10]
    assert agreed(load(holed, parent_id=["aa", PARENTS[1]]), "step") == [1, 2, 4, 5, 7, 8, 10, 11]


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"where": "3 < 4"}, "cannot read '3 < 4'"),
        ({"where": "registers > 1 == True"}, "cannot read '1 == True'"),
        ({"where": "registers > 99999999999999999999"}, "registers holds 64-bit integers, 9999999999"),
        ({"where": f"speedup > 1{'0' * 400}"}, "is too large"),
        ({"where": "speedup"}, "is not None; a shell takes < and > for itself"),
        ({"where": "not parent_id"}, "'parent_id' alone is no condition"),
        ({"where": "registers == True"}, "registers holds whole numbers, not True"),
        ({"where": "registers in [32, 64.5]"}, "registers holds whole numbers, not 64.5"),
        ({"where": "parent_id in [1]"}, "parent_id holds text, not 1"),
        ({"where": "speedup > []"}, "speedup holds numbers, not []"),
        ({"where": "gpu == registers"}, "cannot read 'gpu == registers'"),
        ({"where": "not " * 3000 + "gpu"}, "cannot be read"),
        ({"where": "registers contains '3'"}, "cannot read \"'3' in registers\""),
        ({"where": "source contains 3"}, "cannot be read"),
        ({"registers": "32"}, "registers holds whole numbers, not '32'"),
        ({"where": 3}, "where is 3; it must be a condition"),
        ({"where": pc.field("nope") > 1}, "No match for FieldRef.Name(nope)"),
        ({"where": pc.field("speedup")}, "must evaluate to bool"),
        ({"config": "measurements", "where": "samples_us == 3"}, "column 'samples_us' holds lists or records"),
        ({"config": "measurements", "where": "clocks_disagree < True"}, "cannot read 'clocks_disagree < True'"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["to_arrow", "to_polars", "count"])
def test_a_filter_without_meaning_is_one_line(holed: Path, filters: dict[str, Any], message: str, form: str) -> None:
    with pytest.raises(UserError) as caught:
        getattr(load(holed, **filters), form)()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("split", ["all", "full", ["all"], ["all", "train"]])
def test_the_union_of_splits_may_be_asked_for_alone_or_in_a_list(holed: Path, split: Any) -> None:
    assert load(holed, split=split).count() == 12
    assert load(holed, split=split, problem=[]).count() == 0
    with pytest.raises(UserError, match="unknown split 'trian'; did you mean 'train'"):
        load(holed, split=["all", "trian"])


def test_a_condition_of_very_many_parts_is_read(holed: Path) -> None:
    anything = " or ".join(f"step == {number}" for number in range(1100))
    assert len(agreed(load(holed, where=anything), "kernel_id")) == 12
