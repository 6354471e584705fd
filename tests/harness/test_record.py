"""Records made from results, and verdicts over workloads."""

import dataclasses
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import stand_in

from kbench.harness.commands.journal import Journal, in_corpus
from kbench.harness.record import aggregate, failure, make_measurement, refereed, second_times
from kbench.harness.timing.second_clock import SecondTimes
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import Backend, DataError, Environment, KernelSource, Measurement, Status

KERNEL = KernelSource("gelu_tanh", Backend.TRITON, "def run(x): ...")
OK: dict[str, Any] = {
    "workload": "large", "status": "ok", "error": None, "runtime_us": 10.0, "runtime_low_us": 9.9,
    "runtime_high_us": 10.1, "speedup": 2.0, "speedup_low": 1.98, "speedup_high": 2.02, "samples_us": [10.0],
    "anchor_us": [20.0], "rounds": 5, "cache_policy": "flush", "clocks": {"gap_us": 0.1},
}  # fmt: skip


def record(result: dict[str, Any]) -> Measurement:
    where = {"gpu": "G", "env_id": "0" * 32, "started_at": "2026-01-01T00:00:00+00:00"}
    return make_measurement(KERNEL, None, result, build_s=0.0, **where)


def test_the_null_kernel_and_what_was_taken_off_are_recorded() -> None:
    corrected = record(OK | {"ruler_us": 3.25, "shift_us": -0.125})
    assert (corrected.ruler_us, corrected.shift_us) == (3.25, -0.125)
    uncorrected = record(OK | {"ruler_us": 3.25, "shift_us": None})
    assert (uncorrected.ruler_us, uncorrected.shift_us) == (3.25, None)
    untimed = record(failure("small", Status.INCORRECT, "output is wrong"))
    assert (untimed.ruler_us, untimed.shift_us) == (None, None)
    with pytest.raises(DataError, match="ruler_us"):
        record(OK | {"ruler_us": 0.0})


def test_a_result_with_an_impossible_figure_is_refused() -> None:
    with pytest.raises(DataError, match="runtime_us"):
        record(OK | {"runtime_us": -1.0})
    with pytest.raises(DataError, match="unknown field"):
        record(OK | {"bonus": 1})


def test_aggregates_are_geometric_means_with_narrower_intervals() -> None:
    one = record(OK)
    other = dataclasses.replace(one, runtime_us=40.0, runtime_low_us=39.6, runtime_high_us=40.4)
    total = aggregate([one, other])
    assert total.status is Status.OK
    assert total.runtime_us == pytest.approx(20.0)
    assert math.log(total.runtime_high_us / 20.0) == pytest.approx(math.log(1.01) / math.sqrt(2), rel=0.01)


def test_one_failing_workload_decides() -> None:
    bad = record(failure("small", Status.INCORRECT, "output is wrong"))
    total = aggregate([record(OK), bad])
    assert (total.status, total.error, total.runtime_us) == (Status.INCORRECT, "output is wrong", None)


@pytest.mark.parametrize(
    ("seconds", "error"),
    [
        ({"large": 8.0}, None),
        ({"large": 185.0}, "two clocks disagree: 10.00 us as timed, 185.00 us by the profiler"),
        ({"small": 8.0}, "not seen by the profiler"),
        ("timeout: took longer than 10 s", "not seen by the profiler: timeout: took longer than 10 s"),
    ],
)
def test_a_time_that_the_profiler_does_not_confirm_is_rejected(seconds: SecondTimes, error: str | None) -> None:
    wrong = record(failure("small", Status.INCORRECT, "output is wrong"))
    made, kept = refereed([record(OK), wrong], seconds)
    assert kept == wrong
    if error is None:
        assert made == dataclasses.replace(record(OK), second_clock_us=8.0, clocks_disagree=False)
    else:
        assert (made.status, made.runtime_us, made.speedup) == (Status.REJECTED, None, None)
        assert error in (made.error or "")


def test_what_was_profiled_is_told_by_kernel() -> None:
    results: list[dict[str, Any]] = [
        {"kernel": 0, "workload": "small", "error": None, "second_clock_us": 8.0},
        {"kernel": 0, "workload": "large", "error": None, "second_clock_us": 80.0},
        {"kernel": 1, "workload": "small", "error": "small: 3 values are wrong", "second_clock_us": 8.0},
        {"kernel": 2, "workload": "small", "error": None, "second_clock_us": None},
    ]
    assert dict(second_times(["a", "b", "c", "d"], results)) == {
        "a": {"small": 8.0, "large": 80.0},
        "b": "small: 3 values are wrong",
        "c": "the profiler saw nothing of small",
        "d": "it was not profiled",
    }


def entry(number: int) -> tuple[KernelSource, list[Measurement], list[Environment]]:
    kernel = KernelSource(KERNEL.problem_id, KERNEL.backend, f"# {number}\n{KERNEL.source}")
    return kernel, [stand_in.found_wrong(kernel, "G")], [stand_in.environment_of("G")]


def journal_of(folder: Path, *numbers: int) -> Journal:
    """A journal with these entries added."""
    journal = Journal(folder / "corpus")
    for number in numbers:
        journal.add(*entry(number))
    return journal


def test_a_torn_last_line_is_a_kernel_to_do_again(tmp_path: Path) -> None:
    journal = journal_of(tmp_path, 1, 2)
    journal.close()
    journal.path.write_bytes(journal.path.read_bytes()[:-20])
    again = Journal(tmp_path / "corpus")
    assert len(again.measurements) == 1
    again.add(*entry(2))
    again.close()
    last = Journal(tmp_path / "corpus")
    last.close()
    assert len(last.measurements) == 2


def test_committing_twice_adds_each_measurement_once(tmp_path: Path) -> None:
    for _ in range(2):
        # As if the first run had been killed between its commit and clearing its journal.
        journal_of(tmp_path, *range(3)).commit()
    corpus = Corpus.open(tmp_path / "corpus")
    assert [corpus.rows(name) for name in ("measurements", "environments", "kernels")] == [3, 1, 3]


def test_a_folder_has_one_writer_at_a_time(tmp_path: Path) -> None:
    first = journal_of(tmp_path, 1)
    imports = "import pathlib; from kbench.harness.commands.journal import Journal"
    script = f"{imports}; Journal(pathlib.Path({str(first.folder)!r}))"
    tries = [sys.executable, "-c", script]
    other = subprocess.run(tries, capture_output=True, text=True, check=False)
    assert "is being written by another run" in other.stderr
    first.add(*entry(2))
    first.close()
    assert subprocess.run(tries, capture_output=True, check=False).returncode == 0
    last = Journal(tmp_path / "corpus")
    assert len(last.measurements) == 2
    last.close()


def test_a_damaged_line_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    journal = journal_of(tmp_path, *range(3))
    journal.close()
    lines = journal.path.read_bytes().splitlines(keepends=True)
    damaged = b"".join([lines[0], lines[1][40:], lines[2]])
    journal.path.write_bytes(damaged)
    with pytest.raises(DataError, match=r"journal\.jsonl: line 2 at byte"):
        Journal(tmp_path / "corpus")
    assert journal.path.read_bytes() == damaged


def test_what_a_corpus_holds_of_a_kernel_is_found_by_gpu(tmp_path: Path) -> None:
    assert in_corpus(tmp_path / "corpus", ["x"], ["G"]) == {}
    journal_of(tmp_path, *range(3)).commit()
    wanted = {kernel.kernel_id: rows for kernel, rows, _ in map(entry, range(2))}
    asked = list(wanted)
    assert in_corpus(tmp_path / "corpus", [*asked, "another"], ["G"]) == wanted
    assert in_corpus(tmp_path / "corpus", asked, ["another GPU"]) == {}
