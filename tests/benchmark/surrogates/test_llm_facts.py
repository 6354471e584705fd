"""`llm` with facts=true: the prompt states what is counted, says where nothing is, and learns no answer from it."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.evaluate.progress import Progress
from kbench.benchmark.llm.offline import prompt_digest
from kbench.benchmark.questions import Questions
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.surrogates.counted.counted import NoCompilerError
from kbench.benchmark.surrogates.counted.facts import TYPICAL_ERROR
from kbench.benchmark.surrogates.llm import LlmSurrogate, render
from kbench.benchmark.surrogates.protocol import CompilerFacts
from kbench.benchmark.surrogates.resolve import resolve
from kbench.benchmark.work.totals import LaunchWork, Totals, Work
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import Backend, KernelSource, PairKind, PlanSummary, Query, UserError, bins
from kbench.schemas.errors import install_command

from ..conftest import GPU, invented_tables, written
from .conftest import Recording, Refusing, bare, shipped_plans, work_of

ANSWER = json.dumps({"probabilities": {str(n): 0.125 for n in bins.NUMBERS}})
PLAIN = Query(
    query_id="ab" * 16, problem_id="gone", family="norm", problem_text="Normalise.", workloads_json="[]",
    backend=Backend.TRITON, kind=PairKind.SIBLING, anchor_source="def run(x): ...", candidate_source="def run(y): ...",
    gpu=GPU, gpu_facts_json='{"gpu": "NVIDIA H200", "sm_count": 132}',
)  # fmt: skip
SIZES = {"small": 1e3, "less": 2e3, "middle": 1e6, "more": 2e6, "large": 1e9}


def facts_of(corpus: Tables, queries: Sequence[Query], compiler: object = None) -> list[str]:
    """What prompts state beyond the plain ones."""
    surrogate = LlmSurrogate("m", facts=True, compiler=compiler)
    surrogate.fit_corpus(corpus)
    return [stated(prompt(surrogate, query)) for query in queries]


def prompt(surrogate: LlmSurrogate, query: Query) -> str:
    return surrogate.request(query, 0)["messages"][1]["content"]


def stated(text: str) -> str:
    return text[text.index("# Counted facts") : text.index("# Question\n")]


def test_the_plain_prompt_is_the_one_that_was_asked_before() -> None:
    surrogate = LlmSurrogate("m")
    assert prompt_digest(surrogate.request(PLAIN, 0)["messages"]) == "1094853c"
    assert surrogate.inputs == "source"
    assert surrogate.fit_corpus is None


def test_facts_come_after_the_sources_and_change_nothing_else(shipping: Tables, asked: Questions) -> None:
    surrogate = LlmSurrogate("m", facts=True)
    surrogate.fit_corpus(shipping)
    for query in asked.queries:
        text = prompt(surrogate, query)
        assert text.replace(stated(text), "") == render(query)
        assert text.index(query.candidate_source.strip()) < text.index("# Counted facts")
    assert surrogate.inputs == "source+compiler"


def test_both_kernels_stand_in_one_table_with_their_ratio(shipping: Tables, asked: Questions) -> None:
    query = next(one for one in asked.queries if one.kind is PairKind.SIBLING)
    (text,) = facts_of(shipping, [query])
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    workloads = [one["name"] for one in json.loads(query.workloads_json)]
    assert [row[0] for row in rows if row[0].startswith("workload")] == [f"workload {name}" for name in workloads]
    figures = {row[0]: row[1:] for row in reversed(rows)}
    assert figures["launches"] == ["1", "1", "1"]
    assert figures["blocks"] == ["1,320", "1,320", "1"]
    # 64 registers of 256 threads: four blocks fit, so half of 2,048 threads, and 1,320 blocks need three rounds.
    assert (figures["occupancy"][0], figures["waves"][0]) == ("50 %", "3")
    one, other = (work_of(source, 0)[0].total.issued for source in (query.anchor_source, query.candidate_source))
    assert figures["instructions"][2] == f"{other / one:.3g}"
    assert figures["share of float units"][0] == "87.5 %"
    assert figures["bytes of inputs and outputs"][2] == "1"
    assert "us alone" in figures["bound by"][0]
    assert TYPICAL_ERROR in text
    assert "nothing here was measured" in text


def test_pytorch_is_not_counted(shipping: Tables, asked: Questions) -> None:
    query = next(one for one in asked.queries if one.kind is PairKind.REFERENCE)
    (text,) = facts_of(shipping, [query])
    assert "The anchor is not counted" in text
    assert "| candidate |" in text
    assert "| ratio |" not in text


def test_a_kernel_that_nobody_can_count_is_said_not_to_be_counted(asked: Questions, tmp_path: Path) -> None:
    query = next(one for one in asked.queries if one.kind is PairKind.SIBLING)
    surrogate = LlmSurrogate("m", facts=True, compiler=Refusing())
    surrogate.fit_corpus(bare(tmp_path / "some", shipped_plans(query.candidate_source)))
    text = stated(prompt(surrogate, query))
    assert "The candidate is not counted, which says nothing about it." in text
    assert "| anchor |" in text
    (remark,) = surrogate.remarks()
    assert "kernels stated as not counted: 1" in remark
    assert install_command("gpu") in remark


def test_a_gpu_that_is_not_in_the_table_leaves_both_without_facts(shipping: Tables, asked: Questions) -> None:
    query = next(one for one in asked.queries if one.kind is PairKind.SIBLING)
    (text,) = facts_of(shipping, [dataclasses.replace(query, gpu="Abacus")])
    assert "The anchor is not counted" in text
    assert "The candidate is not counted" in text
    assert "|" not in text


def test_neither_counted_work_nor_a_compiler_is_refused_in_one_line(asked: Questions, tmp_path: Path) -> None:
    with pytest.raises(NoCompilerError, match="llm with facts=true has no compiler"):
        facts_of(bare(tmp_path / "none", []), asked.queries[:1])


def test_of_many_workloads_four_from_the_smallest_to_the_largest_are_shown(asked: Questions) -> None:
    sizes = [{"name": name, "inputs": ["x"], "min_bytes": size, "flops": 0} for name, size in SIZES.items()]
    query = dataclasses.replace(PLAIN, workloads_json=json.dumps(sizes))
    launch = LaunchWork("f", (132, 1, 1), 128, 32, 0, 0, Totals(fma=1e6))

    def counting(kernels: Sequence[KernelSource], capability: str) -> list[CompilerFacts | None]:
        work = {name: [Work((launch,))] for name in SIZES}
        return [CompilerFacts(32, 0, 0, work) for _ in kernels]

    surrogate = LlmSurrogate("m", facts=True, compiler=counting)
    text = stated(prompt(surrogate, query))
    assert [name for name in SIZES if f"| workload {name} |" in text] == ["small", "less", "more", "large"]
    assert text.endswith("Workloads left out: middle.\n\n")


def test_figures_authors_and_names_do_not_reach_the_prompt(shipping: Tables, asked: Questions, tmp_path: Path) -> None:
    """The same kernels with other labels, in another order, from other authors and with other names of functions."""
    tables = invented_tables(5, 6, 12)
    kernels = [
        dataclasses.replace(
            one, speedup=one.speedup and 7 * one.speedup, speedup_low=one.speedup_low and 7 * one.speedup_low,
            speedup_high=one.speedup_high and 7 * one.speedup_high, runtime_us=one.runtime_us and one.runtime_us / 7,
            runtime_low_us=one.runtime_low_us and one.runtime_low_us / 7,
            runtime_high_us=one.runtime_high_us and one.runtime_high_us / 7,
            search_method="evolve", proposer="llm", model="somebody", run_id="other", step=one.step + 100,
        )
        for one in reversed(tables["kernels"])
    ]  # fmt: skip

    def renamed(row: PlanSummary) -> PlanSummary:
        return dataclasses.replace(row, work_json=str(row.work_json).replace('"function":"f"', '"function":"by_hand"'))

    plans = [renamed(row) for row in reversed(shipped_plans())]
    other = benchmark_of(Corpus.open(written(tmp_path / "other", tables | {"kernels": kernels, "plans": plans})))
    texts = facts_of(other, asked.queries)
    assert texts == facts_of(shipping, asked.queries)
    hidden = {one.kernel_id for one in kernels} | {query.query_id for query in asked.queries} | {"by_hand"}
    assert not [name for name in hidden if any(name in text for text in texts)]


def test_batch_files_hold_facts_and_take_no_plain_answers(shipping: Tables, asked: Questions, tmp_path: Path) -> None:
    def evaluated(name: str, **arguments: object) -> list[str | None]:
        options = Options(resamples=10, arguments={"model": "m", **arguments})
        evaluation = evaluate_on("llm", shipping, options, out=tmp_path / name, progress=Progress())
        # What a language model has read nobody knows, with facts or without.
        assert evaluation.learned_from is None
        return [forecast.failure for forecast in evaluation.run.forecasts]

    ids = {}
    for facts in (False, True):
        evaluated(f"ask {facts}", facts=facts, requests_file=str(tmp_path / f"{facts}.jsonl"))
        requests = [json.loads(line) for line in (tmp_path / f"{facts}.jsonl").read_text().splitlines()]
        assert all(("# Counted facts" in one["body"]["messages"][1]["content"]) is facts for one in requests)
        ids[facts] = [one["custom_id"] for one in requests]
    assert len(ids[True]) == len(ids[False]) == len(asked.queries)
    assert not {*ids[True]} & {*ids[False]}
    without_digest = [each.rpartition(":")[0] for each in ids[True]]
    for name, given, taken in (("own", ids[True], True), ("plain", ids[False], False), ("old", without_digest, False)):
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(json.dumps({"custom_id": each, "text": ANSWER}) + "\n" for each in given))
        failures = evaluated(name, facts=True, responses_file=str(file))
        assert [failure is None for failure in failures] == [taken] * len(asked.queries)


def test_an_estimate_counts_the_facts_and_needs_no_corpus(asked: Questions) -> None:
    plain, facts = (LlmSurrogate("m", facts=each).estimate(asked.queries) for each in (False, True))
    assert facts["input_tokens_estimate"] > plain["input_tokens_estimate"] + 100 * len(asked.queries)


def test_kernels_without_counted_work_go_to_the_compiler(shipping: Tables, asked: Questions, tmp_path: Path) -> None:
    query, recording = next(one for one in asked.queries if one.kind is PairKind.SIBLING), Recording()
    surrogate = resolve("llm", compiler=recording, model="m", facts=True)
    surrogate.fit_corpus(bare(tmp_path / "some", shipped_plans(query.candidate_source)))
    assert [stated(prompt(surrogate, query))] == facts_of(shipping, [query])
    assert recording.asked == [query.candidate_source]
    assert surrogate.remarks() == []


def test_facts_are_true_or_false() -> None:
    with pytest.raises(UserError, match="facts 1; it must be true or false"):
        LlmSurrogate("m", facts=1)
