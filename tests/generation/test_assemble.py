import dataclasses
import json
import lzma
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from records import filled

from kbench import schemas
from kbench.benchmark.problems import problem
from kbench.benchmark.work.table import read_work_text, work_text
from kbench.benchmark.work.totals import LaunchWork, Totals, Work
from kbench.generation.assembly.assemble import Ledger, Recipe, assemble, command, recipe_of
from kbench.generation.assembly.kernels import MACHINE_SIGMA, against_best
from kbench.generation.campaign.campaign import Drive
from kbench.generation.campaign.drive import drive, recorded_states
from kbench.generation.executors.replay import ReplayExecutor
from kbench.generation.log import LogWriter, read_log
from kbench.generation.proposers.genome.proposer import GenomeProposer
from kbench.generation.search.settings import FilterSettings
from kbench.harness.record import aggregate
from kbench.loaders.checks.validate import validate
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.summary.trust import repeats_of
from kbench.schemas import DataError, Measurement, Status, UserError, from_dict
from kbench.schemas.ids import kernel_id

from .conftest import FAMILY, recording, settings_for, ticking

Assembled = tuple[Path, Ledger]
METHODS = ("random", "hill_climb", "evolve", "puct")


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("campaign")
    proposer = GenomeProposer({FAMILY.name: FAMILY})
    runs = [settings_for(method) for method in METHODS]
    runs.append(settings_for("puct", filter=FilterSettings(surrogate="online")))
    drive(folder, runs, Drive(executor=ReplayExecutor(recording()), clock=ticking, proposer_for=lambda s: proposer))
    return folder


@pytest.fixture(scope="module")
def assembled(campaign: Path, tmp_path_factory: pytest.TempPathFactory) -> Assembled:
    corpus = tmp_path_factory.mktemp("assembled") / "corpus"
    return corpus, assemble(Recipe(runs=(campaign,)), corpus)


def test_a_corpus_of_other_runs_is_not_replaced(
    assembled: Assembled, campaign: Path, how: Drive, tmp_path: Path
) -> None:
    out = tmp_path / "corpus"
    shutil.copytree(assembled[0], out)
    drive(tmp_path / "run", [settings_for("random", seed=9)], how)
    with pytest.raises(
        UserError, match=r"holds a corpus already: .* kernels, of other runs than these, such as '.*'; name a new"
    ):
        assemble(Recipe(runs=(tmp_path / "run",)), out)
    assert assemble(Recipe(runs=(campaign, tmp_path / "run")), out).runs == len(METHODS) + 2
    assemble(Recipe(runs=(tmp_path / "run",)), out, replace=True)


def packed(run: Path, folder: Path) -> None:
    """Compress a run's log in two parts, as its owner would with xz."""
    folder.mkdir()
    lines = (run / "events.jsonl").read_bytes().splitlines(keepends=True)
    for number, part in enumerate((lines[:50], lines[50:])):
        (folder / f"events-{number:03d}.jsonl.xz").write_bytes(lzma.compress(b"".join(part)))
    for environments in run.glob("environments.jsonl"):
        shutil.copy(environments, folder)


def assemble_with(campaign: Path, out: Path, **inputs: Path) -> Ledger:
    """Assemble the campaign with one more input of each of these kinds."""
    return assemble(Recipe(runs=(campaign,), **{name: (path,) for name, path in inputs.items()}), out)


def rows(corpus: Path, config: str) -> list[dict[str, Any]]:
    return list(Corpus.open(corpus).table(config).to_pylist())


def test_every_measured_kernel_becomes_a_valid_row_with_its_lineage(assembled: Assembled) -> None:
    corpus, ledger = assembled
    kernels = [from_dict(schemas.Kernel, row) for row in rows(corpus, "kernels")]
    assert len(kernels) == ledger.kernels == 5 * 24
    assert {kernel.lineage for kernel in kernels} == {"gelu_blocks"}
    ids = {kernel.kernel_id for kernel in kernels}
    assert all(kernel.parent_id is None or kernel.parent_id in ids for kernel in kernels)
    assert {kernel.search_method for kernel in kernels} == {*METHODS, "puct+surrogate"}
    assert all((kernel.status is Status.OK) == (kernel.runtime_us is not None) for kernel in kernels)
    assert all((kernel.error is not None) == (kernel.status is not Status.OK) for kernel in kernels)


def test_the_ledger_adds_up(assembled: Assembled) -> None:
    _, ledger = assembled
    assert ledger.gpu_seconds == pytest.approx(120 * (0.03125 + 0.0625))
    assert ledger.build_cpu_seconds == pytest.approx(120 * 0.25)
    assert (ledger.runs, sum(ledger.by_gpu.values())) == (5, 120)
    assert ledger.text().startswith(f"120 kernels ({ledger.ok} ok) of 1 problems from 5 runs")
    assert json.loads(json.dumps(dataclasses.asdict(ledger)))["kernels"] == 120


def test_the_same_logs_packed_give_the_same_corpus(campaign: Path, assembled: Assembled, tmp_path: Path) -> None:
    packed(campaign, tmp_path / "packed")
    for _ in range(2):
        assemble(Recipe(runs=(tmp_path / "packed",)), tmp_path / "corpus")
        assert Corpus.open(tmp_path / "corpus").fingerprint == Corpus.open(assembled[0]).fingerprint
    assert len(rows(tmp_path / "corpus", "kernels")) == 120


def test_questions_answer_what_their_kernels_say_and_none_is_asked_twice(assembled: Assembled) -> None:
    corpus, ledger = assembled
    kernels = {str(row["kernel_id"]): from_dict(schemas.Kernel, row) for row in rows(corpus, "kernels")}
    questions = [from_dict(schemas.Question, row) for row in rows(corpus, "questions")]
    assert len(questions) == ledger.questions
    assert {question.kind for question in questions} == set(schemas.QuestionKind)
    for question in questions:
        candidate = kernels[question.candidate_id]
        expected = candidate.speedup
        if question.anchor_id is not None:
            anchor = kernels[question.anchor_id]
            expected = anchor.runtime_us / candidate.runtime_us
        assert question.speedup == pytest.approx(expected)
        assert question.bin == schemas.bins.bin_of(question.speedup or 0.0)
    asked = [(frozenset((one.anchor_id, one.candidate_id)), one.workload) for one in questions]
    assert len(asked) == len(set(asked))


def test_events_keep_everything_but_texts_and_samples(campaign: Path, assembled: Assembled) -> None:
    corpus, _ = assembled
    events = rows(corpus, "events")
    assert len(events) == len(list(read_log(campaign)))
    assert all("source" not in json.loads(str(row["payload_json"])) for row in events)
    measured = [json.loads(str(row["payload_json"])) for row in events if row["kind"] == "kernel_measured"]
    assert all(payload["measurement_ids"] for payload in measured)


def test_kernels_equal_up_to_comments_are_one_row(tmp_path: Path, how: Drive, campaign: Path) -> None:
    entries = list(read_log(campaign))
    twin = "# a remark\n"
    changed = []
    first, second = [e for e in entries if e.kind == "candidate_proposed" and e.run_id == entries[0].run_id][:2]
    source = twin + first.payload["source"]
    key = kernel_id("gelu_tanh", schemas.Backend.TRITON, source)
    for entry in entries:
        payload = dict(entry.payload)
        if entry.run_id == second.run_id and payload.get("kernel_id") == second.payload["kernel_id"]:
            payload |= {"kernel_id": key} | ({"source": source} if "source" in payload else {})
            payload["measurements"] = [row | {"kernel_id": key} for row in payload.get("measurements", [])]
        for name in ("parent_id", "other_id"):
            if payload.get(name) == second.payload["kernel_id"]:
                payload[name] = key
        changed.append(dataclasses.replace(entry, payload=payload))
    with LogWriter(tmp_path / "twins") as log:
        log.write(changed)
    ledger = assemble(Recipe(runs=(tmp_path / "twins",)), tmp_path / "corpus")
    assert ledger.kernels == 119
    assert key not in {row["kernel_id"] for row in rows(tmp_path / "corpus", "kernels")}


def test_an_unknown_parent_is_refused(tmp_path: Path, campaign: Path) -> None:
    entries = list(read_log(campaign))
    at = next(i for i, entry in enumerate(entries) if entry.payload.get("parent_id"))
    entries[at] = dataclasses.replace(entries[at], payload={**entries[at].payload, "parent_id": "f" * 32})
    with LogWriter(tmp_path / "bad") as log:
        log.write(entries)
    with pytest.raises(DataError, match=f"unknown parent {'f' * 32}"):
        assemble(Recipe(runs=(tmp_path / "bad",)), tmp_path / "corpus")
    assert not (tmp_path / "corpus").exists()


def test_a_run_given_twice_is_refused(tmp_path: Path, campaign: Path) -> None:
    packed(campaign, tmp_path / "copy")
    with pytest.raises(DataError, match="give each run once"):
        assemble(Recipe(runs=(campaign, tmp_path / "copy")), tmp_path / "corpus")


def test_logs_without_measurements_are_refused(tmp_path: Path, how: Drive) -> None:
    drive(tmp_path / "run", [settings_for("random")], how)
    lines = (tmp_path / "run" / "events.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "run" / "events.jsonl").write_text("".join(lines[:2]))
    with pytest.raises(UserError, match="no measured kernel"):
        assemble(Recipe(runs=(tmp_path / "run",)), tmp_path / "corpus")


def test_measurements_made_again_are_kept_and_on_the_card(campaign: Path, assembled: Assembled, tmp_path: Path) -> None:
    first = Corpus.open(assembled[0])
    measured = [from_dict(Measurement, row) for row in first.table("measurements").to_pylist()]
    chosen = [row for row in measured if row.status is Status.OK][:10]
    assert all(row.runtime_us is not None for row in chosen)
    elsewhere = "e" * len(chosen[0].env_id)
    again = [
        dataclasses.replace(row, measurement_id=f"{n:064x}", env_id=elsewhere, runtime_us=(row.runtime_us or 0) * 1.02)
        for n, row in enumerate(chosen)
    ]
    other = dataclasses.replace(again[0], measurement_id="f" * 64, kernel_id="0" * len(again[0].kernel_id))
    place = from_dict(schemas.Environment, Corpus.open().table("environments").to_pylist()[0])
    with CorpusWriter(tmp_path / "again") as writer:
        writer.append("measurements", [*again, other])
        writer.append("environments", [dataclasses.replace(place, env_id=elsewhere)])
    assemble_with(campaign, tmp_path / "corpus", repeats=tmp_path / "again")
    corpus = Corpus.open(tmp_path / "corpus")
    assert corpus.rows("repeats") == len(again)
    assert corpus.rows("measurements") == len(measured)
    assert elsewhere in corpus.table("environments").column("env_id").to_pylist()
    found = repeats_of(corpus)
    assert (found.kernels, found.same_status) == (len({row.kernel_id for row in again}), len(again))
    assert sum(group.measurements for group in found.groups) == len(again)
    for group in found.groups:
        assert group.median == group.p95 == pytest.approx(math.log(1.02)) == pytest.approx(group.bias)
    card = (tmp_path / "corpus" / "README.md").read_text()
    assert "were measured again in fresh processes" in card
    assert "+1.98%" in card


def measured_anew(first: Path, folder: Path, change: Callable[[Measurement], Measurement]) -> list[Measurement]:
    """A corpus of the measurements of two kernels of an assembled one, made anew."""
    measured = [from_dict(Measurement, row) for row in Corpus.open(first).table("measurements").to_pylist()]
    ids = list(dict.fromkeys(row.kernel_id for row in measured if row.status is Status.OK))[:2]
    fresh = [
        change(dataclasses.replace(row, measurement_id=f"{n:064x}"))
        for n, row in enumerate(row for row in measured if row.kernel_id in ids)
    ]
    with CorpusWriter(folder) as writer:
        writer.append("measurements", fresh)
    return fresh


def test_corrections_take_the_place_of_logged_figures(campaign: Path, assembled: Assembled, tmp_path: Path) -> None:
    fresh = measured_anew(
        assembled[0],
        tmp_path / "anew",
        lambda row: dataclasses.replace(row, speedup=7.0, speedup_low=6.9, speedup_high=7.1),
    )
    assemble_with(campaign, tmp_path / "corpus", corrections=tmp_path / "anew")
    measured = {str(row["measurement_id"]): row for row in rows(tmp_path / "corpus", "measurements")}
    assert len(measured) == len(rows(assembled[0], "measurements"))
    corrected = {row.kernel_id for row in fresh}
    named = {row.measurement_id for row in fresh}
    assert {name for name, row in measured.items() if row["kernel_id"] in corrected} == named
    kernels = {row["kernel_id"]: row for row in rows(tmp_path / "corpus", "kernels")}
    before = {row["kernel_id"]: row for row in rows(assembled[0], "kernels")}
    assert {name for name in before if before[name] != kernels[name]} == corrected
    assert all(kernels[name]["speedup"] == pytest.approx(7.0) for name in corrected)


def test_kernels_found_wrong_since_are_in_no_question(campaign: Path, assembled: Assembled, tmp_path: Path) -> None:
    wrong = next(row["candidate_id"] for row in rows(assembled[0], "questions"))
    (tmp_path / "errata.yaml").write_text(f"{wrong}: overflows\n")
    assemble_with(campaign, tmp_path / "corpus", errata=tmp_path / "errata.yaml")
    kernel = next(row for row in rows(tmp_path / "corpus", "kernels") if row["kernel_id"] == wrong)
    assert (kernel["status"], kernel["error"], kernel["runtime_us"]) == (Status.INCORRECT, "overflows", None)
    asked = rows(tmp_path / "corpus", "questions")
    assert wrong not in {row[end] for row in asked for end in ("anchor_id", "candidate_id")}
    assert validate(Corpus.open(tmp_path / "corpus")) == []
    (tmp_path / "errata.yaml").write_text("nobody: overflows\n")
    with pytest.raises(UserError, match="kernel nobody is in none of these runs"):
        assemble_with(campaign, tmp_path / "other", errata=tmp_path / "errata.yaml")


def plan_lines(first: Path) -> list[dict[str, Any]]:
    """Plan records of three correct kernels of a corpus."""
    measured = [from_dict(Measurement, row) for row in Corpus.open(first).table("measurements").to_pylist()]
    ids = list(dict.fromkeys(row.kernel_id for row in measured if row.status is Status.OK))[:3]
    launch = {"function": "f", "grid": [4, 1, 1], "block": [128, 1, 1], "cluster": None, "cooperative": False}
    plan = {"plan_id": "0" * 64, "allocated_bytes": 64, "buffers": 1, "fills": 1, "copies": 0, "configurations": 1,
            "launches": [launch | {"shared_bytes": 1024}] * 2}  # fmt: skip
    lines = []
    for key in ids:
        sizes = ["tiny", *(row.workload for row in measured if row.kernel_id == key)]
        lines.append({
            "kernel_id": key, "problem_id": measured[0].problem_id, "registers": 32, "spill_bytes": 0,
            "rows": [[size, "ok", None, None] for size in sizes], "plans": dict.fromkeys(sizes, plan),
        })  # fmt: skip
    return lines


@pytest.fixture(scope="module")
def planned(campaign: Path, assembled: Assembled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of plans and the corpus made with it; it is only read."""
    folder = tmp_path_factory.mktemp("planned")
    text = "".join(json.dumps(line) + "\n" for line in plan_lines(assembled[0]))
    (folder / "planned.jsonl.xz").write_bytes(lzma.compress(text.encode()))
    assemble_with(campaign, folder / "corpus", plans=folder / "planned.jsonl.xz")
    return folder


def test_plans_become_a_row_per_kernel_and_measured_workload(assembled: Assembled, planned: Path) -> None:
    lines = plan_lines(assembled[0])
    corpus = Corpus.open(planned / "corpus")
    found = [from_dict(schemas.PlanSummary, row) for row in corpus.table("plans").to_pylist()]
    measured = {(row["kernel_id"], row["workload"]) for row in rows(assembled[0], "measurements")}
    ids = {line["kernel_id"] for line in lines}
    assert {(row.kernel_id, row.workload) for row in found} == {key for key in measured if key[0] in ids}
    assert {(row.launches[1].grid, row.launches[0].shared_bytes, row.allocated_bytes) for row in found} == {
        ((4, 1, 1), 1024, 64)
    }
    assert validate(corpus) == []
    before = Corpus.open(assembled[0]).manifest.config_hashes
    assert {name: value for name, value in corpus.manifest.config_hashes.items() if name != "plans"} == before


def work_rows(plans: Sequence[dict[str, Any]], path: Path, instructions: float = 512.0) -> None:
    """A table of counted work of some rows of `plans`."""
    block = Totals(fma=instructions, load_requests=0.5)
    text = work_text([Work((LaunchWork("f", (4, 1, 1), 128, 32, 1024, 0, block, times=2),), fills=1)])
    columns = {name: [row[name] for row in plans] for name in ("kernel_id", "workload")}
    pq.write_table(pa.table(columns | {"work_json": [text] * len(plans)}), path)


def test_counted_work_joins_plans_and_later_files_overrule(campaign: Path, planned: Path, tmp_path: Path) -> None:
    plans = rows(planned / "corpus", "plans")
    work_rows([*plans[:-1], {"kernel_id": "0" * 32, "workload": "elsewhere"}], tmp_path / "first.parquet")
    work_rows(plans[:1], tmp_path / "second.parquet", 1024.0)
    totals = (tmp_path / "first.parquet", tmp_path / "second.parquet")
    recipe = Recipe(runs=(campaign,), plans=(planned / "planned.jsonl.xz",), totals=totals)
    assemble(recipe, tmp_path / "corpus")
    found = rows(tmp_path / "corpus", "plans")
    assert [row | {"work_json": None} for row in found] == plans
    texts = [row["work_json"] for row in found]
    assert texts[-1] is None
    figures = [read_work_text(text, "here")[0].launches[0].per_block.fma for text in texts[:-1]]
    assert figures == [1024.0, *[512.0] * (len(plans) - 2)]
    assert validate(Corpus.open(tmp_path / "corpus")) == []


def test_plans_are_taken_from_the_corpus_of_the_samples(campaign: Path, planned: Path, tmp_path: Path) -> None:
    plans = rows(planned / "corpus", "plans")
    work_rows(plans[1:], tmp_path / "totals.parquet")
    whole = Recipe(runs=(campaign,), samples=planned / "corpus", totals=(tmp_path / "totals.parquet",))
    assemble(whole, tmp_path / "whole")
    assert [row | {"work_json": None} for row in rows(tmp_path / "whole", "plans")] == plans
    assemble(Recipe(runs=(campaign,), samples=tmp_path / "whole"), tmp_path / "again")
    assert rows(tmp_path / "again", "plans") == rows(tmp_path / "whole", "plans")
    assert Corpus.open(tmp_path / "again").fingerprint == Corpus.open(tmp_path / "whole").fingerprint
    # Kernels planned anew have the rows of the new plan.
    change = {"samples": tmp_path / "whole", "plans": (planned / "planned.jsonl.xz",)}
    assemble(Recipe(runs=(campaign,), **change), tmp_path / "anew")
    assert rows(tmp_path / "anew", "plans") == plans


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "kernel .* workload .*: its counted work is not JSON"),
        ("[{}]", "kernel .* workload .*: its counted work is malformed: KeyError"),
        (None, "has work of more plans than the 1 it has"),
    ],
)
def test_damaged_work_is_refused_and_named(
    campaign: Path, planned: Path, tmp_path: Path, text: str | None, message: str
) -> None:
    row = rows(planned / "corpus", "plans")[0]
    text = work_text([Work(()), Work(())]) if text is None else text
    table = {"kernel_id": [row["kernel_id"]], "workload": [row["workload"]], "work_json": [text]}
    pq.write_table(pa.table(table), tmp_path / "totals.parquet")
    with pytest.raises(DataError, match=message) as raised:
        assemble(
            Recipe(runs=(campaign,), samples=planned / "corpus", totals=(tmp_path / "totals.parquet",)), tmp_path / "c"
        )
    assert "\n" not in str(raised.value)


def test_work_of_kernels_without_plans_is_refused(campaign: Path, assembled: Assembled, tmp_path: Path) -> None:
    work_rows([{"kernel_id": "0" * 32, "workload": "large"}], tmp_path / "totals.parquet")
    with pytest.raises(UserError, match="has no work of a kernel whose plans are known"):
        assemble_with(campaign, tmp_path / "corpus", totals=tmp_path / "totals.parquet")
    (tmp_path / "totals.parquet").write_bytes(b"no table")
    with pytest.raises(DataError, match="is no table of kernel_id, workload and work_json"):
        assemble_with(campaign, tmp_path / "corpus", totals=tmp_path / "totals.parquet")
    pq.write_table(pa.table({"kernel_id": ["0" * 32]}), tmp_path / "totals.parquet")
    with pytest.raises(DataError, match="is no table of kernel_id, workload and work_json"):
        assemble_with(campaign, tmp_path / "corpus", totals=tmp_path / "totals.parquet")


def test_reference_times_become_rows_of_three_times(campaign: Path, assembled: Assembled, tmp_path: Path) -> None:
    definition = problem(Corpus.open(assembled[0]).table("kernels", columns=["problem_id"]).column(0)[0].as_py())
    row = filled(
        schemas.ReferenceTime, problem_id=definition.id, workload=definition.sizes[0].name, gpu="NVIDIA H200",
        compiled_us=68.5, measured_at="2026-01-01T00:00:00+00:00",
    )  # fmt: skip
    (tmp_path / "references.jsonl").write_text(json.dumps(schemas.to_dict(row)) + "\n")
    assemble_with(campaign, tmp_path / "corpus", references=tmp_path / "references.jsonl")
    corpus = Corpus.open(tmp_path / "corpus")
    assert [from_dict(schemas.ReferenceTime, found) for found in corpus.table("references").to_pylist()] == [row]
    assert validate(corpus) == []


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({"a": (40.0, 20.0, None), "b": (40.0, 80.0, 10.0)}, math.sqrt(4.0 * 20 / 40 * 2.0 * 10 / 40)),
        ({"a": (40.0, 20.0, None), "b": (9.0, None, None)}, 4.0 * 20 / 40),
        ({"a": (4.0, 2.0, None), "b": (9.0, None, None)}, math.sqrt(4.0 * 2 / 4 * 2.0)),
        ({"a": (40.0, 20.0, None)}, None),
    ],
    ids=["compiled and vendor", "launch-bound left out", "all launch-bound", "one not timed"],
)
def test_the_speedup_over_the_best_reference_is_that_of_the_workloads_that_are_not_launch_bound(
    assembled: Assembled, times: dict[str, tuple[float, float | None, float | None]], expected: float | None
) -> None:
    row = from_dict(schemas.Kernel, next(row for row in rows(assembled[0], "kernels") if row["status"] == "ok"))
    own = from_dict(Measurement, next(m for m in rows(assembled[0], "measurements") if m["kernel_id"] == row.kernel_id))
    measured = [
        dataclasses.replace(own, workload=name, speedup=speedup, speedup_low=speedup, speedup_high=speedup)
        for name, speedup in (("a", 4.0), ("b", 2.0))
    ]
    references = [
        filled(
            schemas.ReferenceTime, problem_id=row.problem_id, workload=name, gpu=own.gpu, reference_us=eager,
            compiled_us=compiled, vendor_us=vendor, vendor="cuDNN" if vendor else None,
        )
        for name, (eager, compiled, vendor) in times.items()
    ]  # fmt: skip
    (found,) = against_best([row], measured, references)
    assert found.speedup_best == (expected if expected is None else pytest.approx(expected))


def test_a_kernels_interval_allows_for_other_machines_and_its_measurements_does_not(assembled: Assembled) -> None:
    corpus, _ = assembled
    own: dict[str, list[Measurement]] = {}
    for row in rows(corpus, "measurements"):
        own.setdefault(row["kernel_id"], []).append(from_dict(Measurement, row))
    timed = [row for row in rows(corpus, "kernels") if row["speedup_low"] is not None]
    assert timed
    for row in timed:
        on_one_machine = aggregate(own[row["kernel_id"]])
        assert row["speedup"] == on_one_machine.speedup
        spread = math.log(row["speedup"] / on_one_machine.speedup_low)
        widened = math.log(row["speedup"] / row["speedup_low"])
        assert widened == pytest.approx(math.hypot(spread, 1.96 * MACHINE_SIGMA))
        assert row["runtime_low_us"] < on_one_machine.runtime_low_us
        assert row["runtime_high_us"] > on_one_machine.runtime_high_us


def thinned(campaign: Path, corpus: Path, folder: Path, payloads: bool = True) -> Path:
    """The campaign's log without the texts and samples that the corpus holds, or without any payload it holds."""
    published = {row["kernel_id"] for row in rows(corpus, "kernels")}
    with LogWriter(folder) as writer:
        for entry in read_log(campaign):
            payload = dict(entry.payload)
            if entry.kind == "candidate_proposed" and payload["kernel_id"] in published:
                payload["source"] = None
            if "measurements" in payload:
                payload["measurements"] = [row | {"samples_us": None} for row in payload["measurements"]]
            elif not payloads and entry.kind != "run_started":
                payload = {}
            writer.write([dataclasses.replace(entry, payload=payload)])
    return folder


def test_thin_logs_and_their_samples_give_the_same_corpus(campaign: Path, assembled: Assembled, tmp_path: Path) -> None:
    whole = assembled[0]
    log = thinned(campaign, whole, tmp_path / "thin")
    sizes = [sum(path.stat().st_size for path in folder.glob("events*")) for folder in (log, campaign)]
    assert sizes[0] < sizes[1]
    assemble(Recipe(runs=(log,), samples=whole), tmp_path / "again")
    assert Corpus.open(tmp_path / "again").fingerprint == Corpus.open(whole).fingerprint
    with pytest.raises(DataError, match="has no source; name the corpus that has it as `samples`"):
        assemble(Recipe(runs=(log,)), tmp_path / "without")
    with pytest.raises(DataError, match="leaves out the text of kernel"):
        recorded_states(log)
    bare = thinned(campaign, whole, tmp_path / "bare", payloads=False)
    assemble(Recipe(runs=(bare,), samples=whole), tmp_path / "bare-again")
    assert Corpus.open(tmp_path / "bare-again").fingerprint == Corpus.open(whole).fingerprint
    with pytest.raises(DataError, match="leaves out what step 0 asked for"):
        recorded_states(bare)


PART = "NVIDIA H200 (64 of 132 SMs)"


def test_kernels_measured_on_another_gpu_are_further_rows(campaign: Path, assembled: Assembled, tmp_path: Path) -> None:
    fresh = measured_anew(
        assembled[0],
        tmp_path / "part",
        lambda row: dataclasses.replace(row, gpu=PART, speedup=7.0, speedup_low=6.9, speedup_high=7.1),
    )
    ledger = assemble_with(campaign, tmp_path / "corpus", other_gpus=tmp_path / "part")
    kernels = rows(tmp_path / "corpus", "kernels")
    before = {row["kernel_id"]: row for row in rows(assembled[0], "kernels")}
    assert [row for row in kernels if row["gpu"] != PART] == list(before.values())
    added = [row for row in kernels if row["gpu"] == PART]
    assert {row["kernel_id"] for row in added} == {row.kernel_id for row in fresh}
    for row in added:
        same = {name for name, value in row.items() if value == before[row["kernel_id"]][name]}
        assert {"split", "cluster_id", "lineage", "run_id", "parent_id", "source", "status"} <= same
        assert row["speedup"] == pytest.approx(7.0)
    assert ledger.by_gpu == {str(next(iter(before.values()))["gpu"]): len(before), PART: len(added)}
    spent = rows(tmp_path / "corpus", "measurements")
    assert ledger.gpu_seconds == pytest.approx(sum(row["verify_s"] + row["time_s"] for row in spent))
    assert ledger.gpu_seconds > assembled[1].gpu_seconds
    assert f"{PART} {len(added)}" in ledger.text()
    questions = rows(tmp_path / "corpus", "questions")
    assert [row for row in questions if row["gpu"] != PART] == rows(assembled[0], "questions")
    assert {row["candidate_id"] for row in questions if row["gpu"] == PART} <= {row.kernel_id for row in fresh}
    assert validate(Corpus.open(tmp_path / "corpus")) == []


@pytest.mark.parametrize(
    ("field", "change", "message"),
    [
        ("repeats", {"kernel_id": "0" * 32}, "repeats no kernel of these runs"),
        ("corrections", {"gpu": "another"}, "a figure of another cannot correct kernel"),
        ("corrections", {"workload": "other"}, r"not corrected on the workloads it has in the logs: .*other"),
        ("other_gpus", {}, "in the logs; figures made again are `repeats`"),
        ("other_gpus", {"gpu": PART, "workload": "other"}, r"not measured on .* on the workloads it has .*other"),
    ],
)
def test_measurements_that_do_not_fit_the_logs_are_refused(
    campaign: Path, assembled: Assembled, tmp_path: Path, field: str, change: dict[str, str], message: str
) -> None:
    measured_anew(assembled[0], tmp_path / "anew", lambda row: dataclasses.replace(row, **change))
    with pytest.raises(UserError, match=message):
        assemble_with(campaign, tmp_path / "corpus", **{field: tmp_path / "anew"})
    assert not (tmp_path / "corpus").exists()


def test_plans_of_other_kernels_are_refused(campaign: Path, tmp_path: Path) -> None:
    (tmp_path / "planned.jsonl").write_text('{"kernel_id": "0", "rows": [], "plans": null}\n')
    with pytest.raises(UserError, match="no plan of a kernel of these runs"):
        assemble_with(campaign, tmp_path / "corpus", plans=tmp_path / "planned.jsonl")


def test_a_recipe_names_inputs_relative_to_itself(campaign: Path, assembled: Assembled, tmp_path: Path) -> None:
    packed(campaign, tmp_path / "packed")
    measured_anew(assembled[0], tmp_path / "anew", lambda row: row)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('release = "9.1.0"\nruns = ["packed"]\nrepeats = ["anew"]\n')
    made = CliRunner().invoke(command, [str(recipe), "--out", str(tmp_path / "corpus"), "--json"])
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["kernels"] == 120
    assert "log 1 of 1: " in made.stderr
    assert Corpus.open(tmp_path / "corpus").rows("repeats")
    assert Corpus.open(tmp_path / "corpus").manifest.release == "9.1.0"
    with pytest.raises(UserError, match="stands alone"):
        recipe_of([recipe, campaign])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("runs = 1 2", "not TOML"),
        ("", "field 'runs' is missing"),
        ('runs = ["."]\nrepeat = ["."]', "unknown field 'repeat'; known: runs, samples"),
        ('runs = "."', "field 'runs' is '.'; it must be a list of paths"),
        ('release = 2.2\nruns = ["."]', "field 'release' is 2.2; it must be a text such as '2.2.0'"),
        ('runs = ["nowhere"]', "names .*nowhere.*, which does not exist"),
    ],
)
def test_a_damaged_recipe_is_refused_by_the_name_of_its_field(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "recipe.toml").write_text(text)
    with pytest.raises((DataError, UserError), match=message):
        recipe_of([tmp_path / "recipe.toml"])


def test_a_corpus_that_is_there_is_replaced_whole_or_not_at_all(
    campaign: Path, assembled: Assembled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def names(folder: Path) -> set[str]:
        return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}

    def fails_at_the_end(writer: CorpusWriter, name: str, given: Any) -> None:
        if name == "events":
            raise DataError("no more")
        replace(writer, name, given)

    out, fresh = tmp_path / "corpus", assembled[0]
    shutil.copytree(fresh, out)
    with CorpusWriter(out) as writer:
        writer.replace("measurements", [])
    (out / "import.json").write_text("{}")
    before, there = Corpus.open(out).fingerprint, names(out)
    replace = CorpusWriter.replace
    with monkeypatch.context() as patch:
        patch.setattr(CorpusWriter, "replace", fails_at_the_end)
        with pytest.raises(DataError, match="no more"):
            assemble(Recipe(runs=(campaign,)), out)
    assert (Corpus.open(out).fingerprint, names(out)) == (before, there)
    assemble(Recipe(runs=(campaign,)), out)
    assert (Corpus.open(out).fingerprint, names(out)) == (Corpus.open(fresh).fingerprint, names(fresh))
    assert validate(Corpus.open(out)) == []
