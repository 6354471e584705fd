"""Every kind of bad row is found, with file, row, field, value and what it must be."""

import dataclasses
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kbench.loaders.checks import columns as column_checks
from kbench.loaders.checks.validate import table_issues, validate
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.writer import CorpusWriter, config_table
from kbench.loaders.splits import HELD_OUT
from kbench.schemas import Kernel, Pair, PairKind, Status
from kbench.schemas.bins import bin_of
from kbench.schemas.ids import content_hash

from .conftest import make_kernel, make_measurement, make_pair, make_problem


def issues_of(path: Path) -> list[column_checks.Issue]:
    return validate(Corpus.open(path, check_files=False))


def with_value(table: pa.Table, row: int, column: str, value: Any) -> pa.Table:
    values = table.column(column).to_pylist()
    values[row] = value
    position = table.column_names.index(column)
    return table.set_column(position, column, pa.array(values, table.schema.field(column).type))


def rewrite(path: Path, config: str, change: Callable[[pa.Table], pa.Table]) -> None:
    table = change(Corpus.open(path).table(config))
    with CorpusWriter(path) as writer:
        writer.replace(config, table)


def test_a_sound_corpus_has_no_issue(corpus_path: Path) -> None:
    looked_at: list[int] = []
    assert validate(Corpus.open(corpus_path), looked_at.append) == []
    assert sum(looked_at) == sum(Corpus.open(corpus_path).rows(name) for name in Corpus.open(corpus_path).configs)


OK_ROW = 0
"""Row 0 of the first kernels file is a kernel that was timed."""

BAD_CELLS = [
    ("kernels", "runtime_us", -1.0, "must be more than 0"),
    ("kernels", "runtime_us", math.nan, "must be finite; use null for 'not measured'"),
    ("kernels", "runtime_us", None, "must be set when status is ok"),
    ("kernels", "status", "fine", "must be one of ok, compile_error"),
    ("kernels", "status", "infrastructure_error", "infrastructure_error is retried, never stored"),
    ("kernels", "status", "timeout", "must be null unless status is ok"),
    ("kernels", "error", "oops", "must be null unless the kernel failed"),
    ("kernels", "problem_id", "Soft Max", "must match ^[a-z][a-z0-9_]*$"),
    ("kernels", "problem_id", None, "must be set"),
    ("kernels", "backend", "opencl", "must be one of triton, cuda, config"),
    ("kernels", "parent_id", content_hash("nobody"), "the parent is not in the corpus"),
    ("kernels", "env_id", content_hash("nowhere"), "the environment is not in the corpus"),
    ("kernels", "problem_id", "unknown", "the problem is not in the corpus"),
    ("kernels", "family", "other", "differs from the problem's family"),
    ("kernels", "source", "x", "must be the hash of problem, backend and source"),
    ("kernels", "step", -3, "must be at least 0"),
    ("kernels", "speedup_low", 1e6, "must lie between speedup_low and speedup_high"),
    ("pairs", "bin", 9, "must be at most 8"),
    ("pairs", "bin", 0, "disagrees with the speedup"),
    ("pairs", "candidate_id", content_hash("nobody"), "the candidate is not in the corpus"),
    ("pairs", "speedup", math.inf, "must be finite"),
    ("measurements", "kernel_id", content_hash("nobody"), "the kernel is not in the corpus"),
    ("measurements", "samples_us", [1.0, math.nan], "must be finite"),
    ("measurements", "samples_us", [1.0, None], "items must be set"),
    ("measurements", "samples_us", [], "must hold the times of a timed kernel"),
    ("measurements", "samples_us", None, "must hold the times of a timed kernel"),
    ("measurements", "samples_us", [1.0, 0.0], "must be more than 0"),
    ("measurements", "problem_id", "unknown", "the problem is not in the corpus"),
    ("measurements", "problem_id", "softmax", "differs from the problem of its kernel_id"),
    ("measurements", "workload", "huge", "the problem has no workload of this name"),
    ("repeats", "problem_id", "unknown", "the problem is not in the corpus"),
    ("repeats", "workload", "huge", "the problem has no workload of this name"),
    ("plans", "kernel_id", content_hash("nobody"), "the kernel is not in the corpus"),
    ("plans", "problem_id", "softmax", "differs from the problem of its kernel_id"),
    ("plans", "fills", -1, "must be at least 0"),
    ("references", "problem_id", "unknown", "the problem is not in the corpus"),
    ("references", "workload", "huge", "the problem has no workload of this name"),
    ("references", "reference_us", 0.0, "must be more than 0"),
    ("kernels", "runtime_us", 1234.5, "differs from the geometric mean of the kernel's measurements"),
    ("kernels", "speedup", 1234.5, "differs from the geometric mean of the kernel's measurements"),
    ("pairs", "speedup", 1234.5, "disagrees with its kernels"),
    ("pairs", "split", "test_seen", "must be the more held out of its kernels' splits"),
    ("pairs", "problem_id", "unknown", "the problem is not in the corpus"),
    ("pairs", "problem_id", "matmul_square", "differs from the problem of its candidate_id"),
    ("pairs", "anchor_id", content_hash("nobody"), "must be null when kind is reference"),
    ("pairs", "kind", "sibling", "must be set unless kind is reference"),
    ("questions", "bin", 0, "disagrees with the speedup"),
    ("questions", "speedup", 1234.5, "disagrees with its kernels"),
    ("questions", "split", "test_seen", "must be the more held out of its kernels' splits"),
    ("questions", "problem_id", "matmul_square", "differs from the problem of its candidate_id"),
    ("questions", "kind", "pair", "must be set unless kind is level"),
    ("events", "payload_json", "{not json", "must be a JSON object"),
    ("events", "payload_json", "[1]", "must be a JSON object"),
    ("events", "payload_json", '"{}"', "must be a JSON object"),
    ("events", "payload_json", '{"a": NaN}', "must be a JSON object"),
    ("events", "index", 4, "they must be numbered from 0 without gaps"),
    ("environments", "sm_count", -1, "must be at least 0"),
    ("live", "source", "x", "must be the hash of problem, backend and source"),
    ("live", "problem_id", "softmax", "no kernel of the problem is in this split"),
    ("live", "workloads", ["huge"], "the problem has no workload of this name"),
    ("live", "workloads", [], "must be the geometric mean of its speedups, one for every workload"),
    ("live", "speedup", 9.0, "must be the geometric mean of its speedups"),
    ("live", "speedup", None, "must be the geometric mean of its speedups"),
    ("live", "status", "timeout", "null unless status is ok"),
    ("live", "family", "norm", "differs from the problem's family"),
    ("live", "other_id", content_hash("nobody"), "the parent is not in its search"),
    ("live", "run_id", "another", "the parent is not in its search"),
    ("live", "speedups", [-1.0], "must be more than 0"),
    ("tuning", "status", "timeout", "null unless status is ok"),
    ("tuning", "problem_id", "nobody", "the problem is not in the corpus"),
]


WRITTEN = BAD_CELLS[::7]
"""Bad cells that are written as well: in a corpus the file is named, and the row in it."""


@pytest.fixture(scope="module")
def sound(written_once: Path) -> dict[str, pa.Table]:
    corpus = Corpus.open(written_once)
    return {name: timed_first(corpus.table(name)) for name in corpus.configs}


def timed_first(table: pa.Table) -> pa.Table:
    if "status" not in table.column_names:
        return table
    order = next(name for name in ("step", "kernel_id", "config_json") if name in table.column_names)
    return table.sort_by([("status", "descending"), (order, "ascending")])


@pytest.mark.parametrize(("config", "column", "value", "message"), BAD_CELLS)
def test_a_bad_cell_is_reported_where_it_is(
    sound: dict[str, pa.Table], config: str, column: str, value: Any, message: str
) -> None:
    changed = with_value(sound[config], OK_ROW, column, value)
    found = [issue for issue in table_issues(sound | {config: changed}) if message in issue.message]
    assert len(found) >= 1
    assert found[0].file == config
    assert "\n" not in str(found[0])
    if found[0].row is not None and found[0].field == column:
        assert str(changed.column(column)[found[0].row].as_py()) == str(value)


@pytest.mark.parametrize(("config", "column", "value", "message"), WRITTEN)
def test_a_bad_cell_has_a_file_and_row(corpus_path: Path, config: str, column: str, value: Any, message: str) -> None:
    rewrite(corpus_path, config, lambda table: with_value(timed_first(table), OK_ROW, column, value))
    found = [issue for issue in issues_of(corpus_path) if message in issue.message]
    assert len(found) >= 1
    assert Path(found[0].file).is_file()
    assert f"/{config}/" in found[0].file
    if found[0].row is not None and found[0].field == column:
        assert str(pq.read_table(found[0].file).column(column)[found[0].row].as_py()) == str(value)


@pytest.mark.parametrize("payload", ["{}", '{"a": "\\ud800"}', ' {"a": 1}\n', '{"a": 1e400}'])
def test_an_unusual_payload_that_is_json_is_let_through(sound: dict[str, pa.Table], payload: str) -> None:
    assert table_issues(sound | {"events": with_value(sound["events"], 0, "payload_json", payload)}) == []


def test_a_live_kernel_may_have_failed_on_some_workloads(sound: dict[str, pa.Table]) -> None:
    live = sound["live"]
    for column, value in {"speedups": [None], "speedup": None, "status": "incorrect"}.items():
        live = with_value(live, 0, column, value)
    assert table_issues(sound | {"live": live}) == []


def test_duplicate_ids_are_found_across_files(corpus_path: Path) -> None:
    with CorpusWriter(corpus_path) as writer:
        writer.append("kernels", [make_kernel(5)])
    found = [issue for issue in issues_of(corpus_path) if "duplicate" in issue.message]
    assert [issue.field for issue in found] == ["kernel_id+gpu"]
    assert found[0].value == [make_kernel(5).kernel_id, make_kernel(5).gpu]


def test_a_bad_workload_inside_a_problem_is_found(corpus_path: Path) -> None:
    problem = make_problem("relu")
    bad = dataclasses.replace(problem, problem_id="other", workloads=(dataclasses.replace(problem.tiny, flops=-1),))
    with CorpusWriter(corpus_path) as writer:
        writer.append("problems", [bad])
    assert [issue.message for issue in issues_of(corpus_path)] == ["workloads.flops is -1; it must be at least 0"]


def test_files_that_are_missing_cut_short_or_foreign_are_named(corpus_path: Path) -> None:
    train, test, validation = (next((corpus_path / "kernels").glob(f"{s}-*")) for s in ("train", "test", "validation"))
    train.write_bytes(train.read_bytes()[:-50])
    test.unlink()
    pq.write_table(pa.table({"kernel_id": [1], "color": ["red"]}), validation)
    found = {(Path(issue.file).name, issue.field, issue.message.split(":")[0]) for issue in issues_of(corpus_path)}
    assert (train.name, None, "cannot be read as Parquet") in found
    assert (test.name, None, "cannot be read as Parquet") in found
    assert (validation.name, "kernel_id", "the type must be string") in found
    assert (validation.name, "color", "unknown column; known") in found
    assert (validation.name, "problem_id", "the column is missing") in found


def test_rows_changed_behind_the_manifest_are_noticed(corpus_path: Path) -> None:
    victim = next((corpus_path / "events").glob("*.parquet"))
    table = pq.read_table(victim)
    pq.write_table(with_value(table, 0, "at", "2027-01-01T00:00:00Z"), victim)
    assert [i.message for i in issues_of(corpus_path)] == ["the content differs from what the manifest's hash says"]
    pq.write_table(pa.concat_tables([table, table]), victim)
    assert "the manifest says 1" in [issue.message for issue in issues_of(corpus_path)]


def test_a_rule_broken_by_many_rows_is_counted_not_listed(corpus_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_checks, "REPORTED_ROWS", 3)
    place = Corpus.open(corpus_path).table("measurements").column_names.index("build_s")
    rewrite(corpus_path, "measurements", lambda t: t.set_column(place, "build_s", pa.array([-1.0] * len(t))))
    messages = [issue.message for issue in issues_of(corpus_path)]
    assert messages == ["must be at least 0"] * 3 + ["must be at least 0 (37 more rows)"]


TIMED = set(column_checks.TIMED_FIELDS)


@pytest.mark.parametrize(
    ("status", "runtime", "error", "fields"),
    [
        (Status.OK, 2.0, None, set()),
        (Status.OK, None, "why", TIMED | {"error"}),
        (Status.TIMEOUT, None, "why", set()),
        (Status.TIMEOUT, 2.0, "", TIMED | {"error"}),
        (Status.TIMEOUT, None, None, {"error"}),
        (None, None, None, set()),
        (None, 2.0, "why", TIMED | {"error"}),
        (Status.INFRASTRUCTURE_ERROR, None, "why", {"status"}),
    ],
)
def test_figures_and_errors_that_contradict_the_status_are_found(
    status: Status | None, runtime: float | None, error: str | None, fields: set[str]
) -> None:
    kernel = make_kernel(0, status=status, error=error, **dict.fromkeys(TIMED, runtime))
    issues = list(column_checks.status_issues(config_table("kernels", [kernel]), "f"))
    assert {str(issue.field) for issue in issues} == fields
    elsewhere = make_kernel(0, status=status, error=error, env_id=None, **dict.fromkeys(TIMED, runtime))
    issues = list(column_checks.status_issues(config_table("kernels", [elsewhere]), "f"))
    lacking = TIMED if status is Status.OK and runtime is None else set()
    assert {str(issue.field) for issue in issues} == fields - lacking, "who measured elsewhere may not state figures"


def timed(count: int, **changes: Any) -> list[Kernel]:
    """Kernels of one problem and GPU that were timed."""
    kernels = (make_kernel(16 * number, **changes) for number in itertools.count())
    return list(itertools.islice((kernel for kernel in kernels if kernel.runtime_us is not None), count))


def sibling(anchor: Kernel, candidate: Kernel, **changes: Any) -> Pair:
    ratio = anchor.runtime_us / candidate.runtime_us
    figures = {"speedup": ratio, "speedup_low": None, "speedup_high": None, "bin": bin_of(ratio)}
    ends = {"anchor_id": anchor.kernel_id, "kind": PairKind.SIBLING}
    return make_pair(candidate, **(figures | ends | changes))


def issues(**rows: Any) -> list[tuple[str | None, str]]:
    tables = {config: config_table(config, records) for config, records in rows.items()}
    return [(issue.field, issue.message) for issue in table_issues(tables)]


def test_a_sibling_pair_is_the_ratio_of_its_kernels_times() -> None:
    one, other = timed(2)
    good = sibling(one, other)
    assert issues(kernels=[one, other], pairs=[good]) == []
    swapped = sibling(one, other, speedup=1 / good.speedup, bin=bin_of(1 / good.speedup))
    found = issues(kernels=[one, other], pairs=[swapped])
    assert [field for field, _ in found] == ["speedup"]
    assert "anchor time over candidate time" in found[0][1]


def test_a_pair_is_compared_with_its_kernels_on_its_own_gpu() -> None:
    one, other = timed(2)
    elsewhere = [make_kernel(kernel.step, gpu="NVIDIA B200", runtime_us=1.0, runtime_low_us=1.0, runtime_high_us=1.0)
                 for kernel in (one, other)]  # fmt: skip
    assert issues(kernels=[*elsewhere, one, other], pairs=[sibling(one, other)]) == []


@pytest.mark.parametrize(("anchor", "candidate"), list(itertools.product(HELD_OUT, HELD_OUT)))
def test_a_pair_is_as_held_out_as_its_more_held_out_kernel(anchor: str, candidate: str) -> None:
    plain = timed(2)
    one, other = (make_kernel(k.step, split=s) for k, s in zip(plain, (anchor, candidate), strict=True))
    pairs = [sibling(one, other, split=split, pair_id=f"{number:032x}") for number, split in enumerate(HELD_OUT)]
    found = issues(kernels=[one, other], pairs=pairs)
    assert [field for field, _ in found] == ["split"] * (len(HELD_OUT) - 1)
    right = [pair for pair in pairs if pair.split == max(anchor, candidate, key=HELD_OUT.index)]
    assert issues(kernels=[one, other], pairs=right) == []


def test_a_kernels_figures_are_geometric_means_over_its_workloads() -> None:
    (kernel,) = timed(1)
    rows = on_sizes(kernel, {"small": 4.0, "large": 0.25})
    assert issues(kernels=[kernel], measurements=rows) == []
    found = issues(kernels=[kernel], measurements=rows[:1])
    assert [field for field, _ in found] == ["runtime_us", "speedup"]


def on_sizes(kernel: Kernel, factors: dict[str, float]) -> list[Any]:
    """A measurement of a kernel for each workload: its own runtime by that factor."""
    return [
        make_measurement(
            kernel, measurement_id=f"{number:032x}", workload=size, runtime_us=kernel.runtime_us * factor,
            runtime_low_us=None, runtime_high_us=None, speedup=kernel.speedup / factor, speedup_low=None,
            speedup_high=None, env_id=None,
        )
        for number, (size, factor) in enumerate(factors.items())
    ]  # fmt: skip


def test_a_kernel_is_compared_only_where_every_workload_of_its_problem_was_measured() -> None:
    (kernel,) = timed(1)
    plain = make_problem(kernel.problem_id)
    sizes = tuple(dataclasses.replace(plain.workloads[0], name=name) for name in ("small", "large"))
    problem = dataclasses.replace(plain, workloads=sizes)
    whole = on_sizes(kernel, {"small": 4.0, "large": 0.25})
    assert issues(kernels=[kernel], measurements=whole, problems=[problem]) == []
    assert issues(kernels=[kernel], measurements=whole[:1], problems=[problem]) == []
    strange = on_sizes(kernel, {"small": 4.0, "of_no_problem": 4.0})
    assert issues(kernels=[kernel], measurements=strange, problems=[problem]) == []
    wrong = on_sizes(kernel, {"small": 4.0, "large": 4.0})
    found = issues(kernels=[kernel], measurements=wrong, problems=[problem])
    assert [field for field, _ in found] == ["runtime_us", "speedup"]
    sizeless = dataclasses.replace(plain, workloads=())
    found = issues(kernels=[kernel], measurements=wrong, problems=[sizeless])
    assert [field for field, _ in found] == ["runtime_us", "speedup"], "no size is known to be missing"


def test_rows_from_elsewhere_may_disagree() -> None:
    one, other = timed(2, origin="published", env_id=None)
    changes = {"origin": "published", "speedup": 7.0, "bin": bin_of(7.0), "split": "test"}
    pair = sibling(one, other, **changes)
    row = make_measurement(one, runtime_us=1.0, runtime_low_us=None, runtime_high_us=None, samples_us=None,
                            env_id=None, workload="published")  # fmt: skip
    problems = [make_problem("softmax")]
    found = issues(kernels=[one, other], pairs=[pair], measurements=[row], problems=problems)
    assert found == []
