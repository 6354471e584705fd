"""Open a corpus, filter it, and take rows out in every form; a filter means the same rows in pyarrow and polars."""

import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.loaders.checks.validate import validate
from kbench.loaders.corpus import corpus
from kbench.loaders.corpus.configs import CONFIGS, unknown_column
from kbench.loaders.corpus.corpus import Corpus, load, resolve
from kbench.loaders.corpus.selection import Selection
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.source.structure import structure_id
from kbench.schemas import Backend, DataError, Kernel, Status, UnknownNameError, UserError
from kbench.schemas.ids import kernel_id

from .conftest import make_kernel, make_measurement


def test_filters_combine_and_columns_are_selected(corpus_path: Path) -> None:
    selection = load(
        corpus_path, problem="softmax", backend="triton", gpu="NVIDIA H200", status="ok",
        columns=["kernel_id", "problem_id", "backend", "gpu", "status"],
    )  # fmt: skip
    table = selection.to_arrow()
    assert table.num_rows == selection.count() > 0
    assert table.drop(["kernel_id"]).group_by(["problem_id", "backend", "gpu", "status"]).aggregate([]).to_pylist() == [
        {"problem_id": "softmax", "backend": "triton", "gpu": "NVIDIA H200", "status": "ok"}
    ]


def test_every_form_holds_the_same_rows(corpus_path: Path) -> None:
    selection = load(corpus_path, problem=["softmax", "gelu"], where="runtime_us > 50 or status != 'ok'")
    ids = selection.to_arrow().column("kernel_id").to_pylist()
    assert ids
    assert selection.to_polars().collect()["kernel_id"].to_list() == ids
    assert selection.to_hf()["kernel_id"][:] == ids
    assert selection.to_pandas()["kernel_id"].tolist() == ids
    records = list(selection.records())
    assert all(isinstance(record, Kernel) for record in records)
    assert [record.kernel_id for record in records if isinstance(record, Kernel)] == ids
    batches = list(selection.batches(3))
    assert [value for batch in batches for value in batch.column("kernel_id").to_pylist()] == ids
    assert max(batch.num_rows for batch in batches) == 3
    assert load(corpus_path, columns="step").to_arrow().column_names == ["step"], "one column needs no list"


def test_a_selection_says_in_a_line_what_was_selected(corpus_path: Path) -> None:
    shown = repr(load(corpus_path, problem=["softmax", "gelu"], where="runtime_us > 50", columns=["kernel_id"]))
    assert shown.startswith("<kernels in ")
    assert shown.endswith(" files; problem_id=softmax, gelu; where=runtime_us > 50; columns=kernel_id>")


def test_a_notebook_shows_the_first_rows_as_a_table(corpus_path: Path) -> None:
    shown = load(corpus_path, columns=["kernel_id", "source", "speedup"])._repr_html_()
    assert "source" not in shown.partition("<thead>")[2].partition("</thead>")[0]
    assert shown.count("<tr>") == 1 + min(5, load(corpus_path).count())
    assert "&lt;kernels in" in shown


def test_rows_of_several_gpus_are_warned_of_once_where_their_figures_would_mix() -> None:
    corpus._warn_of_mixed.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        silent = ({"gpu": "NVIDIA H200"}, {"gpu": "all"}, {"columns": "kernel_id"}, {"where": "gpu is null"})
        for chosen in ({}, {}, *silent):
            load(**chosen)
    assert len(caught) == 1
    assert "(64 of 132 SMs)" in str(caught[0].message)
    assert caught[0].filename == __file__


def test_ancestors_lead_from_the_first_kernel_of_a_search_to_the_one_asked_for() -> None:
    kernels = load(problem="softmax", gpu="NVIDIA H200", columns=["parent_id", "kernel_id"])
    line = kernels.ancestors("d925740992fa").to_pylist()
    assert line[-1]["kernel_id"].startswith("d925740992fa")
    assert len(line) > 2
    assert [row["parent_id"] for row in line] == [None, *(row["kernel_id"] for row in line[:-1])]
    for asked, said in (("d", "give more of its id"), ("nope", "not among the")):
        with pytest.raises(UserError, match=said):
            kernels.ancestors(asked)
    with pytest.raises(UserError, match="has no ancestors"):
        load(config="problems").ancestors("d925740992fa")


def test_batches_that_nobody_has_taken_yet_are_of_one_file(tmp_path: Path) -> None:
    """Whoever takes them slowly must not find the rest of the corpus in memory."""
    size, files = 1 << 20, 24
    with CorpusWriter(tmp_path, shard_bytes=1) as writer:
        for number in range(files):
            writer.append("kernels", [make_kernel(number, source=f"{number}" + "x" * size)])
    before, batches = pa.total_allocated_bytes(), load(tmp_path).batches()
    next(batches)
    time.sleep(0.3)
    assert pa.total_allocated_bytes() - before < 8 * size
    assert sum(batch.num_rows for batch in batches) == files - 1


def test_a_pyarrow_expression_filters_too(corpus_path: Path) -> None:
    selection = load(corpus_path, where=pc.field("step") < 5, backend="triton")
    assert sorted(selection.to_arrow().column("step").to_pylist()) == [0, 1, 2, 3]
    assert selection.to_polars().collect().height == 4


def test_a_gpu_is_not_mistaken_for_a_part_of_it() -> None:
    parts = ["NVIDIA H200 (32 of 132 SMs)", "NVIDIA H200 (64 of 132 SMs)"]
    for value in ("H200", "nvidia h200"):
        assert resolve("gpu", value, [*parts, "NVIDIA H200"]) == "NVIDIA H200"
    assert resolve("gpu", "64 of 132 SMs", [*parts, "NVIDIA H200"]) == parts[1]
    with pytest.raises(UnknownNameError, match="H200"):
        resolve("gpu", "H200", parts)


def test_part_of_a_gpu_name_is_enough_and_all_gpus_are_every_row(corpus_path: Path) -> None:
    assert load(corpus_path, gpu="h200").count() == load(corpus_path, gpu="NVIDIA H200").count() == 24
    assert load(corpus_path, gpu="all").count() == load(corpus_path).count() == 40


def test_a_facet_passes_over_whole_files(corpus_path: Path) -> None:
    assert [entry.split for _, entry in load(corpus_path, problem="relu").files] == ["validation"]
    assert [entry.split for _, entry in load(corpus_path, split="test").files] == ["test"]


def test_a_known_status_that_no_row_has_is_an_empty_answer(corpus_path: Path) -> None:
    assert load(corpus_path, status="timeout").to_arrow().num_rows == 0
    assert load(corpus_path, status="timeout").to_polars().collect().height == 0
    assert list(load(corpus_path, status="timeout").records()) == []


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"problem": "sofmax"}, "unknown problem_id 'sofmax'; did you mean 'softmax'?"),
        ({"backend": "cudda"}, "unknown backend 'cudda'; did you mean 'cuda'"),
        ({"status": "okay"}, "unknown status 'okay'; did you mean 'ok'"),
        ({"config": "kernel"}, "unknown config 'kernel'; did you mean 'kernels'"),
        ({"columns": ["runtime"]}, "unknown column of config 'kernels' 'runtime'; did you mean 'runtime_us'"),
        ({"runtim_us": 3}, "unknown column of config 'kernels' 'runtim_us'; did you mean 'runtime_us'"),
        ({"where": "runtim_us < 3"}, "unknown column 'runtim_us'; did you mean 'runtime_us'"),
        ({"compute_unit": "fp32"}, "no column 'compute_unit', config 'problems' has; join them by problem_id"),
        ({"config": "measurements", "backend": "cuda"}, "config 'kernels' has; join them by kernel_id, gpu"),
        ({"where": "samples_us is null"}, "config 'measurements' has; join them by kernel_id, gpu"),
        ({"columns": "dram_read_bytes"}, "config 'counters' has; join them by kernel_id, gpu"),
        ({"author": "llm"}, "join them by kernel_id = candidate_id or anchor_id, gpu"),
        ({"where": "status = 'OK'"}, "unknown status 'OK'; known: compile_error"),
        ({"where": "proposer = 'gpt'"}, "unknown proposer 'gpt'; known: "),
        ({"where": "search_method in ['evovle']"}, "unknown search_method 'evovle'; did you mean 'evolve'"),
        ({"proposer": "genom"}, "unknown proposer 'genom'; did you mean 'genome'"),
        ({"where": "split in ['train', 'tests']"}, "unknown split 'tests'; did you mean 'test'"),
        ({"path": "questions"}, "did you mean config='questions'?"),
        ({"where": "family = norm"}, "no column is called 'norm'; put a text in quotes: 'norm'"),
        ({"where": "runtime_us <"}, "where 'runtime_us <' cannot be read"),
        ({"where": "__import__('os')"}, "cannot read"),
        ({"where": "runtime_us < 'a'"}, "the filter does not fit its column"),
    ],
)
def test_a_slip_is_answered_with_the_nearest_name(corpus_path: Path, filters: dict[str, str], message: str) -> None:
    with pytest.raises(UserError) as caught:
        load(**{"path": corpus_path, **filters}).to_arrow()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_config_without_rows_is_refused_with_those_that_have_some(tmp_path: Path) -> None:
    with CorpusWriter(tmp_path / "corpus") as writer:
        writer.append("kernels", [make_kernel(1)])
    with pytest.raises(UserError, match="config 'tuning' has no rows in this corpus; configs with rows: kernels"):
        load(tmp_path / "corpus", config="tuning")
    with pytest.raises(UserError, match="'kernel'; did you mean 'kernel_id'"):  # which config 'tuning' has
        load(tmp_path / "corpus", columns="kernel")
    with pytest.raises(UserError, match=r"\(did you mean 'kernel_id'\?\), config 'tuning' has; join them by"):
        raise unknown_column(CONFIGS["kernels"], "kernel", CONFIGS)
    with CorpusWriter(tmp_path / "empty"):
        pass
    assert load(tmp_path / "empty", config="tuning").count() == 0, "a corpus that holds nothing yet is no mistake"
    files = list((tmp_path / "corpus" / "kernels").glob("*.parquet"))
    with pytest.raises(UserError, match="'pairs' has no rows in the files given; configs with rows: kernels"):
        load(files, config="pairs")


def test_a_path_that_is_no_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not a corpus: it has no manifest\.json"):
        Corpus.open(tmp_path)
    with pytest.raises(UserError, match="does not exist"):
        Corpus.open(tmp_path / "nowhere")


def test_several_shards_and_corpora_open_as_one(corpus_path: Path) -> None:
    whole = Corpus.open(corpus_path)
    shards = sorted((corpus_path / "kernels").glob("*.parquet"))
    assert Corpus.open(shards).rows("kernels") == whole.rows("kernels")
    assert Corpus.open(shards).manifest.config_hashes["kernels"] == whole.manifest.config_hashes["kernels"]
    assert load(shards, problem="relu", split="validation").count() == load(corpus_path, problem="relu").count()
    assert Corpus.open([corpus_path, corpus_path]).rows("kernels") == 2 * whole.rows("kernels")


@pytest.mark.parametrize("damage", [lambda data: data[:-100], lambda data: b"x" * len(data)])
def test_a_damaged_or_missing_file_is_named(corpus_path: Path, damage: Callable[[bytes], bytes]) -> None:
    victim = next((corpus_path / "kernels").glob("train-*.parquet"))
    victim.write_bytes(damage(victim.read_bytes()))
    with pytest.raises(DataError, match=victim.name):
        load(corpus_path).to_arrow()
    with pytest.raises(DataError, match=victim.name):
        Corpus.open([victim])
    victim.unlink()
    with pytest.raises(DataError, match=victim.name):
        Corpus.open(corpus_path)


def test_a_foreign_parquet_file_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "foreign.parquet")
    with pytest.raises(DataError, match=r"foreign.parquet has the columns of no config: a"):
        Corpus.open(tmp_path / "foreign.parquet")


def test_a_column_of_the_wrong_type_is_named(corpus_path: Path) -> None:
    victim = next((corpus_path / "kernels").glob("train-*.parquet"))
    table = pq.read_table(victim)
    changed = table.set_column(table.column_names.index("step"), "step", pa.array(["x"] * table.num_rows))
    pq.write_table(changed, victim)
    with pytest.raises(DataError, match="column 'step' is string; it must be int64"):
        load([victim], columns=["step"]).to_arrow()


def test_datasets_loads_every_config_offline(corpus_path: Path, fresh_python: Callable[[str], str]) -> None:
    corpus = Corpus.open(corpus_path)
    first = {name: corpus.files(name)[0].split for name in CONFIGS}
    out = fresh_python(
        "import datasets\n"
        "datasets.disable_progress_bars()\n"
        f"for config, split in {list(first.items())!r}:\n"
        f"    print(config, datasets.load_dataset({str(corpus_path)!r}, config, split=split).num_rows)\n"
        f"print('default', datasets.load_dataset({str(corpus_path)!r}, split='test').num_rows)\n"
    )
    expected = {name: sum(e.rows for e in corpus.files(name) if e.split == split) for name, split in first.items()}
    assert dict(line.split() for line in out.splitlines()) == (
        {name: str(rows) for name, rows in expected.items()} | {"default": str(load(corpus_path, split="test").count())}
    )


figures = st.floats(min_value=1e-300, max_value=1e300)


@settings(max_examples=8, deadline=None)
@given(
    sources=st.lists(st.text(max_size=60), min_size=1, max_size=4, unique_by=lambda s: kernel_id("relu", "cuda", s)),
    runtime=figures,
    error=st.text(min_size=1, max_size=20),
)
def test_any_source_figure_and_error_survive(drawing: Any, sources: list[str], runtime: float, error: str) -> None:
    rows = []
    for number, source in enumerate(sources):
        ok = number % 2 == 0
        values = dict.fromkeys(
            ("runtime_us", "runtime_low_us", "runtime_high_us", "speedup", "speedup_low", "speedup_high"),
            runtime if ok else None,
        )
        identity = {"problem_id": "relu", "backend": Backend.CUDA, "source": source, "env_id": None}
        ids = {"kernel_id": kernel_id("relu", "cuda", source), "structure_id": structure_id(source)}
        verdict = {"status": Status.OK if ok else Status.TIMEOUT, "error": None if ok else error}
        rows.append(make_kernel(number, **values, **identity, **ids, **verdict))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "corpus"
        with drawing(), CorpusWriter(path) as writer:
            writer.append("kernels", rows)
        assert sorted(map(str, load(path).records())) == sorted(map(str, rows))
        assert validate(Corpus.open(path)) == []


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
