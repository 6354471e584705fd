"""Record types agree with their one declaration in every schema; bins have edges, identities are by content."""

import dataclasses
import json
import math
import operator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.schemas import (
    RECORD_TYPES,
    DataError,
    Environment,
    Forecast,
    Kernel,
    Measurement,
    Pair,
    PairKind,
    QuestionKind,
    Record,
    UserError,
    arrow_schema,
    from_dict,
    to_dict,
)
from kbench.schemas.bins import COUNT, EDGES, LABELS, NUMBERS, bin_of, bins_of, bounds, center
from kbench.schemas.errors import MissingDependencyError, UnknownNameError, install_command
from kbench.schemas.files import publish, published_schema, versions
from kbench.schemas.ids import canonical_source, content_hash, kernel_id
from kbench.schemas.record import FieldType, Limit, field_docs, field_types, json_schema, optional_fields
from kbench.schemas.records.benchmark import QUESTION_WORDS

every_type = pytest.mark.parametrize("record", RECORD_TYPES, ids=lambda record: record.TYPE)

PATTERNS = {
    "^[0-9a-f]{16,64}$": st.text("0123456789abcdef", min_size=16, max_size=64),
    "^[a-z][a-z0-9_]*$": st.from_regex(r"\A[a-z][a-z0-9_]{0,20}\Z"),
}


def values_of(field: FieldType) -> st.SearchStrategy[Any]:
    return st.none() | _set_values(field) if field.optional else _set_values(field)


def _set_values(field: FieldType) -> st.SearchStrategy[Any]:
    limit = field.limit or Limit()
    if field.base is tuple:
        assert field.item is not None
        return st.lists(values_of(field.item), max_size=3).map(tuple)
    if issubclass(field.base, Record):
        return records_of(field.base)
    if field.base is str:
        if limit.pattern is None:
            return st.text()
        return PATTERNS[limit.pattern] if limit.pattern in PATTERNS else st.from_regex(limit.pattern, fullmatch=True)
    if field.base is bool:
        return st.booleans()
    if field.base is int:
        low = int(limit.minimum) if limit.minimum is not None else -(2**53)
        return st.integers(low, int(limit.maximum) if limit.maximum is not None else 2**53)
    if field.base is float:
        open_end = limit.exclusive_minimum is not None
        low_float = limit.exclusive_minimum if open_end else limit.minimum
        return st.floats(low_float, limit.maximum, exclude_min=open_end, allow_nan=False, allow_infinity=False)
    return st.sampled_from(list(field.base))


def records_of(record: type[Record]) -> st.SearchStrategy[Any]:
    return st.builds(record, **{name: values_of(field) for name, field in field_types(record).items()})


@every_type
def test_every_field_has_a_description(record: type[Record]) -> None:
    assert set(field_docs(record)) == set(field_types(record))
    assert all(text.endswith(".") for text in field_docs(record).values())


@every_type
def test_the_published_schema_is_the_declaration(record: type[Record]) -> None:
    assert published_schema(record.TYPE, record.VERSION) == json_schema(record), "publish a new version instead"
    jsonschema.Draft202012Validator.check_schema(json_schema(record))


def test_publishing_adds_to_the_file_of_the_version(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("kbench.schemas.files.FOLDER", tmp_path)
    (tmp_path / f"{Kernel.VERSION}.json").write_text('{"measurement": {}}')
    assert json.loads(publish(Kernel).read_text()) == {"kernel": json_schema(Kernel), "measurement": {}}
    assert versions() == (Kernel.VERSION,)


def test_an_unknown_version_or_type_is_named() -> None:
    with pytest.raises(LookupError, match="unknown schema version"):
        published_schema("kernel", "0.0.1")
    with pytest.raises(LookupError, match="did you mean 'kernel'"):
        published_schema("kernels", "1.0.0")


@every_type
def test_json_schema_and_arrow_schema_have_the_same_fields(record: type[Record]) -> None:
    names = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
    properties = json_schema(record)["properties"]
    assert list(properties) == arrow_schema(record).names
    for field in arrow_schema(record):
        kinds = properties[field.name]["type"]
        kind = kinds[0] if isinstance(kinds, list) else kinds
        if kind == "array":
            assert pa.types.is_list(field.type)
        elif kind == "object":
            assert pa.types.is_struct(field.type)
        else:
            assert field.type == names[kind]


@every_type
def test_records_survive_json_and_arrow(record: type[Record]) -> None:
    validator = jsonschema.Draft202012Validator(json_schema(record))

    @settings(max_examples=15, deadline=None)
    @given(records_of(record))
    def survives(value: Record) -> None:
        row = to_dict(value)
        validator.validate(row)
        assert from_dict(record, json.loads(json.dumps(row))) == value
        table = pa.Table.from_pylist([row], schema=arrow_schema(record))
        assert from_dict(record, table.to_pylist()[0]) == value

    survives()


def environment(**changes: Any) -> dict[str, Any]:
    row = {name: "x" for name, field in field_types(Environment).items() if field.base is str}
    row |= {name: 1 for name, field in field_types(Environment).items() if field.base in (int, float)}
    return row | {"env_id": "0" * 32} | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sm_count": -1}, r"environment\.sm_count is -1; it must be at least 0"),
        ({"sm_count": "many"}, r"environment\.sm_count is 'many' \(str\); it must be int"),
        ({"sm_count": True}, r"environment\.sm_count is True \(bool\); it must be int"),
        ({"gpu": None}, r"environment\.gpu is null; it must be set"),
        ({"copy_bandwidth_gbs": 0}, r"copy_bandwidth_gbs is 0\.0; it must be more than 0"),
        ({"copy_bandwidth_gbs": math.nan}, r"copy_bandwidth_gbs is nan; it must be finite"),
        ({"env_id": "XYZ"}, r"environment\.env_id is 'XYZ'; it must match"),
        ({"env_id": "0" * 32 + "\n"}, "it must match"),
        ({"extra": 1}, "environment has unknown field 'extra'"),
    ],
)
def test_a_bad_value_is_refused_with_its_field_and_what_it_must_be(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_dict(Environment, environment(**changes))


def test_a_missing_field_is_named() -> None:
    row = environment()
    del row["driver"]
    with pytest.raises(DataError, match=r"environment\.driver is missing"):
        from_dict(Environment, row)


def test_a_measurement_of_an_older_schema_reads_with_later_fields_null() -> None:
    older = published_schema("measurement", "1.1.0")["properties"]
    later = set(field_types(Measurement)) - set(older)
    assert later == optional_fields(Measurement) == {"ruler_us", "shift_us", "trust", "not_restored"}
    row = dict.fromkeys(older, None) | {"gpu": "G", "status": "incorrect", "workload": "large", "problem_id": "relu"}
    read = from_dict(Measurement, row | {"measurement_id": "0" * 32, "kernel_id": "1" * 32})
    assert (read.ruler_us, read.shift_us, read.trust, read.not_restored) == (None, None, None, None)


def test_an_unknown_enumeration_value_lists_the_known_ones() -> None:
    row: dict[str, Any] = dict.fromkeys(field_types(Pair))
    with pytest.raises(DataError, match=r"must be one of .*'triton', 'cuda'"):
        from_dict(Pair, row | {"pair_id": "0" * 32, "problem_id": "a", "family": "a", "backend": "opencl"})


@every_type
def test_records_are_frozen(record: type[Record]) -> None:
    assert dataclasses.is_dataclass(record)
    assert record.__dataclass_params__.frozen  # type: ignore[attr-defined]


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
    assert install_command("gpu") in str(MissingDependencyError("torch", "gpu", "timing"))


@pytest.mark.parametrize(
    ("origin", "command"),
    [(None, "pip install 'kbench-gpu[gpu]'"),
     ({"url": "https://host/kbench", "dir_info": {}}, "pip install 'kbench-gpu[gpu]'"),
     ({"url": "file://{here}", "dir_info": {}}, "pip install '{here}[gpu]'"),
     ({"url": "file://{here}", "dir_info": {"editable": True}}, "pip install -e '{here}[gpu]'"),
     ({"url": "file://{here}/gone", "dir_info": {}}, "pip install 'kbench-gpu[gpu]'")],
)  # fmt: skip
def test_what_to_install_is_told_for_the_checkout_that_kbench_came_from(
    origin: object, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").touch()
    text = None if origin is None else json.dumps(origin).replace("{here}", str(tmp_path))
    monkeypatch.setattr("importlib.metadata.distribution", lambda name: SimpleNamespace(read_text=lambda file: text))
    assert install_command("gpu") == command.replace("{here}", str(tmp_path))


@pytest.mark.parametrize("word", [*QUESTION_WORDS, QuestionKind.PAIR])
def test_the_kind_of_a_query_refuses_the_words_of_a_question(word: str) -> None:
    for compare in (operator.eq, operator.ne):
        with pytest.raises(UserError, match=f"compare with '{QUESTION_WORDS[word]}'"):
            compare(PairKind.SIBLING, word)
    assert [kind == "sibling" for kind in PairKind] == [kind is PairKind.SIBLING for kind in PairKind]
    assert {PairKind.SIBLING: 1}["sibling"] == 1


@pytest.mark.parametrize(("speedup", "spread", "most"), [(1.2, 0.1, 4), (1e-9, 0.5, 1), (1e9, 0.5, 8), (0.6, 0.2, 2)])
def test_one_number_makes_a_distribution_around_its_bin(speedup: float, spread: float, most: int) -> None:
    made = Forecast.from_speedup("ab" * 16, speedup, spread)
    assert made.probabilities is not None
    assert math.isclose(math.fsum(made.probabilities), 1.0)
    assert (made.probabilities.index(max(made.probabilities)) + 1, made.speedup) == (most, speedup)
    wide = Forecast.from_speedup("ab" * 16, speedup, 10 * spread)
    assert wide.probabilities is not None
    assert max(wide.probabilities) < max(made.probabilities) or max(made.probabilities) > 0.99
    with pytest.raises(UserError, match="positive finite"):
        Forecast.from_speedup("ab" * 16, speedup, 0.0)
