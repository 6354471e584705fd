"""Submissions are refused with a reason, in bounded time and memory, and nothing is written or run."""

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from beside import module_at
from submission_copy import Rows, submission_copy

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.folder import write_folder
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.questions import Questions
from kbench.benchmark.surrogates.ask import INTERRUPTED
from kbench.benchmark.surrogates.protocol import failure
from kbench.leaderboard.board import expected_of
from kbench.leaderboard.submission.archive import FORECAST_FILES
from kbench.leaderboard.submission.check import check
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import Submission, json_schema, to_dict

HOSTILE = module_at(Path(__file__).with_name("hostile.py"))
ALONE = """
import json, re, resource, sys
from pathlib import Path
from kbench.leaderboard.submission.check import PARSER, check
from kbench.leaderboard.submission.forecast_rows import Expected
from kbench.loaders.storage.isolation import shared_reader
asked = json.load(sys.stdin)
expected = Expected(**asked["expected"])
flaws = [[str(flaw) for flaw in check(Path(path), expected).flaws] for path in asked["paths"]]
shared_reader(PARSER).close()
# The figure of getrusage would include what the parent of this process holds.
own_kib = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
cpu_s = sum(one.ru_utime + one.ru_stime for one in used)
json.dump({"flaws": flaws, "peak_kib": max(own_kib, used[1].ru_maxrss), "cpu_s": cpu_s}, sys.stdout)
"""
"""Checks in an interpreter that does nothing else, so that its peak and its readers' are those of the checks."""


def checked_alone(paths: list[Path], questions: Questions) -> dict[str, Any]:
    """What is wrong with each submission, and what checking all of them took."""
    asked = json.dumps({"paths": [str(path) for path in paths], "expected": dataclasses.asdict(expected_of(questions))})
    done = subprocess.run([sys.executable, "-c", ALONE], input=asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_submission_that_evaluate_wrote_passes(submissions: dict[str, Path], questions: Questions) -> None:
    for path in submissions.values():
        assert check(path, expected_of(questions)).flaws == ()


@pytest.mark.parametrize("form", ["zip", "gztar"])
def test_an_archive_is_a_folder(form: str, submissions: dict[str, Path], questions: Questions, tmp_path: Path) -> None:
    honest = submissions["prior"]
    submission_copy(honest, tmp_path / "entry")
    path = Path(shutil.make_archive(str(tmp_path / "packed"), form, tmp_path, "entry"))
    folder, unpacked = check(honest, expected_of(questions)), check(path, expected_of(questions))
    assert unpacked.ok
    assert unpacked.submission == folder.submission
    assert unpacked.forecasts.equals(folder.forecasts)


@pytest.fixture(scope="module")
def refused(
    submissions: dict[str, Path], questions: Questions, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """The hostile submissions, all checked in one process."""
    built = []
    for name, builder in HOSTILE.BUILDERS.items():
        folder = tmp_path_factory.mktemp(name)
        built.append((*builder(submissions["prior"], folder), folder, sorted(folder.rglob("*"))))
    found = checked_alone([path for path, *_ in built], questions)
    return found | {"cases": dict(zip(HOSTILE.BUILDERS, zip(built, found["flaws"], strict=True), strict=True))}


@pytest.mark.parametrize("name", HOSTILE.BUILDERS)
def test_a_hostile_submission_is_refused_with_its_reason(name: str, refused: dict[str, Any]) -> None:
    (_, word, folder, before), flaws = refused["cases"][name]
    assert any(word in flaw for flaw in flaws), flaws
    assert sorted(folder.rglob("*")) == before


def test_hostile_submissions_take_bounded_time_and_memory(refused: dict[str, Any]) -> None:
    assert refused["peak_kib"] < 500 * 1024
    assert refused["cpu_s"] < 60


@pytest.mark.parametrize("field", sorted(json_schema(Submission)["properties"]))
def test_markup_in_a_field_is_refused_unless_the_field_is_free_text(
    field: str, submissions: dict[str, Path], questions: Questions, tmp_path: Path
) -> None:
    """Free text may hold markup; test_site and test_browser show that the page never runs it."""
    markup = "<script>alert(1)</script>"
    kind = json_schema(Submission)["properties"][field]["type"]
    path = submission_copy(submissions["prior"], tmp_path, **{field: [markup] if kind == "array" else markup})
    free = field in ("authors", "organisation", "license", "hardware", "training_data", "contamination")
    flaws = check(path, expected_of(questions)).flaws
    assert (flaws == ()) is free
    assert free or flaws[0].field.split("/")[0] == field


def test_lines_are_read_like_parquet(submissions: dict[str, Path], questions: Questions, tmp_path: Path) -> None:
    target = submission_copy(submissions["prior"], tmp_path, lambda rows: rows)
    lines, parquet = check(target, expected_of(questions)), check(submissions["prior"], expected_of(questions))
    assert lines.flaws == ()
    assert lines.forecasts.to_pylist() == parquet.forecasts.to_pylist()


def test_an_averaged_entry_passes(board_corpus: Path, questions: Questions, tmp_path: Path) -> None:
    model = tmp_path / "twice.py"
    model.write_text(
        "from kbench.schemas import Forecast\n"
        "class Twice:\n"
        "    repeats = 2\n"
        "    def forecast(self, queries):\n"
        "        return [Forecast(query_id=q.query_id, repeat=r, probabilities=(0.125,) * 8)\n"
        "                for q in queries for r in (0, 1)]\n"
    )
    options = Options(resamples=10, ensemble=True)
    write_folder(evaluate_on(str(model), Corpus.open(board_corpus), options, questions=questions), tmp_path / "entry")
    flaws = check(tmp_path / "entry", expected_of(questions)).flaws
    assert {flaw.field for flaw in flaws} == {
        "authors", "license", "hardware", "training_data", "contamination",
    }  # fmt: skip


def test_an_unasked_query_is_no_answer(submissions: dict[str, Path], questions: Questions, tmp_path: Path) -> None:
    def unasked(rows: Rows) -> Rows:
        return [to_dict(failure(row["query_id"], INTERRUPTED, 0)) for row in rows[:3]] + rows[3:]

    entry = submission_copy(submissions["prior"], tmp_path, unasked)
    (found,) = check(entry, expected_of(questions)).flaws
    assert found.value == "3 rows 'not asked: interrupted'"
    assert "goes on where it stopped" in found.message


def test_everything_wrong_is_said_at_once(submissions: dict[str, Path], questions: Questions, tmp_path: Path) -> None:
    path = submission_copy(submissions["prior"], tmp_path, name="<script>")
    (path / "forecasts.parquet").write_bytes(b"PAR1 no")
    files = {flaw.file for flaw in check(path, expected_of(questions)).flaws}
    assert files == {"submission.json", "forecasts.parquet"}


def test_a_wrong_value_is_answered_by_what_to_give(submissions: dict[str, Path], tmp_path: Path) -> None:
    wrong = {"authors": "Ann", "kind": "statistic", "links": ["http://x"], "open_weights": "yes", "total_seconds": "9"}
    told = {flaw.field: flaw.message for flaw in check(submission_copy(submissions["prior"], tmp_path, **wrong)).flaws}
    assert told.pop("links/0").startswith("it must match ^https://")
    assert told == {
        "authors": "give a list",
        "kind": "give one of baseline, statistical, language_model, hybrid, human",
        "open_weights": "give true or false",
        "total_seconds": "give a number or null",
    }


ODD_VALUES = [
    ("repeat", True), ("repeat", 1.0), ("repeat", "1"), ("repeat", -1), ("repeat", 2**40), ("repeat", None),
    ("probabilities", [True] + [False] * 7), ("probabilities", ["0.125"] * 8), ("probabilities", [1] + [0] * 7),
    ("probabilities", [None] * 8), ("probabilities", []), ("probabilities", 1.0), ("speedup", "2.5"),
    ("speedup", True), ("speedup", 0), ("speedup", -1.0), ("speedup", 3), ("p_valid", 1.5), ("confidence", "high"),
    ("failure", 5), ("failure", ""), ("failure", "x" * 501), ("failure", "a\u202eb"), ("failure", "a\x1b[2Jb"),
    ("failure", "a\nb"), ("failure", "plain words"), ("failure", True), ("query_id", "x"), ("query_id", 7),
    ("query_id", "0" * 32 + "\n"), ("elapsed_s", "1"), ("input_tokens", 1.5), ("input_tokens", 2**70),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), ODD_VALUES)
def test_both_forms_of_a_file_agree(field: str, value: object, submissions: dict[str, Path], tmp_path: Path) -> None:
    rows = pq.read_table(submissions["uniform"] / "forecasts.parquet").to_pylist()
    for row in rows:
        # A whole column: a Parquet file has one type for all its rows.
        row[field] = value
    accepted = []
    for name in FORECAST_FILES:
        entry = submission_copy(submissions["uniform"], tmp_path / name)
        (entry / "forecasts.parquet").unlink()
        if name.endswith(".parquet"):
            try:
                table = pa.Table.from_pylist(rows)
            except OverflowError:
                return  # no column can hold it
            pq.write_table(table, entry / name)
        else:
            (entry / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        accepted.append(check(entry).ok)
    assert accepted in ([True, True], [False, False])
