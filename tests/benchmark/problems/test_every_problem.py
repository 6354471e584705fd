"""Every registered problem on its tiny workload on the CPU."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from kbench.benchmark.problems import ProblemDefinition, problem, problems, registry
from kbench.benchmark.problems.check import check, output_failures, resident_bytes, spread
from kbench.benchmark.problems.compare import compare
from kbench.benchmark.problems.definition import COMPUTE_UNITS, as_tuple, upcast
from kbench.benchmark.problems.foreign.user_code import import_file
from kbench.benchmark.problems.registry import RETIRED, known
from kbench.benchmark.problems.tuned import PREFIX
from kbench.schemas import Problem, UnknownNameError, from_dict, to_dict

ALL = tuple(problems().values())
KNOWN = tuple(registry.known().values())
MEASURED = (*KNOWN, *(p for p in registry.unlisted().values() if p.id.removeprefix(PREFIX) not in registry.known()))
"""All but those of the benchmark at the sizes that kernels are tuned for."""
every_problem = pytest.mark.parametrize("problem", MEASURED, ids=lambda p: p.id)
SEEDS = (0, 1)


def independent_formulations() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for path in sorted((Path(__file__).parent / "independent").glob("*.py")):
        module = import_file(path)
        clash = found.keys() & module.CHECKS.keys()
        assert not clash, f"{path.name} repeats {sorted(clash)}"
        found.update(module.CHECKS)
    return found


INDEPENDENT = independent_formulations()


def test_a_retired_problem_is_found_by_its_name_but_not_listed() -> None:
    assert list(registry.retired()) == [p.id for p in KNOWN if p.id not in problems()]
    for problem_id, retirement in RETIRED.items():
        assert registry.listed(problem_id) is registry.problem(problem_id) is registry.retired()[problem_id]
        assert registry.resolve(problem_id) == problem_id
        assert retirement.like in problems()
        assert retirement.reason
        assert 0.5 <= retirement.similarity < 1.0
    assert registry.resolve("kernelbench/v0/L1/2") == "matmul_standard"


@pytest.mark.parametrize("problem", [p for p in ALL if p.sizes[0].model], ids=lambda p: p.id)
def test_a_layer_of_a_model_names_it_for_every_workload(problem: ProblemDefinition) -> None:
    for size in problem.sizes:
        assert size.model
        assert f"Workload {size.name} ({size.model}):" in problem.prompt()


@pytest.mark.parametrize("problem_id", list(registry.unlisted()))
def test_a_problem_that_is_not_the_benchmarks_is_found_by_its_id_alone(problem_id: str) -> None:
    assert problem_id not in problems()
    assert registry.problem(problem_id) is registry.unlisted()[problem_id]
    assert registry.resolve(problem_id) == problem_id
    with pytest.raises(UnknownNameError, match=f"problem '{problem_id}'"):
        registry.listed(problem_id)


def test_no_alias_is_claimed_twice() -> None:
    claimed = [alias for p in KNOWN for alias in p.aliases]
    assert len(claimed) == len(set(claimed))


def test_a_kernelbench_alias_names_a_suite_version_level_and_number() -> None:
    pattern = re.compile(r"kernelbench/v0(\.1)?/L[12]/\d{1,3}|gpumode/[a-z0-9_./-]+|gpu_mode/[a-z0-9_./-]+")
    assert [alias for p in KNOWN for alias in p.aliases if not pattern.fullmatch(alias)] == []


def test_every_problem_has_an_independent_formulation() -> None:
    assert set(INDEPENDENT) == {p.id for p in MEASURED}


@every_problem
def test_reference_and_oracle_match_an_independent_formulation(problem: ProblemDefinition) -> None:
    specs = problem.outputs(problem.tiny.params)
    for seed in SEEDS:
        inputs = problem.draw(problem.tiny, seed)
        independent = as_tuple(INDEPENDENT[problem.id](*map(upcast, inputs)))
        assert len(independent) == len(specs)
        verdict = compare(problem.reference(*inputs), independent, problem.tolerance, specs)
        assert verdict.ok, verdict.reason
        answer = tuple(
            value.to(getattr(torch, spec.dtype)) for value, spec in zip(problem.expected(inputs), specs, strict=True)
        )
        verdict = compare(answer, independent, problem.tolerance, specs)
        assert verdict.ok, verdict.reason


@every_problem
def test_check_finds_nothing_wrong(problem: ProblemDefinition) -> None:
    assert check(problem).failures == ()


@every_problem
def test_outputs_are_as_declared_finite_spread_and_differ_by_seed(problem: ProblemDefinition) -> None:
    answers = [as_tuple(problem.reference(*problem.draw(problem.tiny, seed))) for seed in SEEDS]
    specs = problem.outputs(problem.tiny.params)
    for answer in answers:
        assert list(output_failures(answer, specs, "cpu")) == []
        for value, spec in zip(answer, specs, strict=True):
            assert bool(torch.isfinite(value.double()).all())
            assert spec.numel == 1 or spread(value) > 5 * problem.tolerance.rtol
    for one, other in zip(*answers, strict=True):
        assert one.shape != other.shape or not torch.equal(one, other)


def _rounded(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.to(torch.float16).to(value.dtype)
    return value


FLOAT32 = [
    p for p in MEASURED if p.compute_unit == "fp32" and {s.dtype for s in p.outputs(p.tiny.params)} == {"float32"}
]


@pytest.mark.parametrize("problem", FLOAT32, ids=lambda p: p.id)
def test_a_float16_computation_is_rejected_by_a_float32_problem(problem: ProblemDefinition) -> None:
    specs = problem.outputs(problem.tiny.params)
    verdicts = []
    for seed in (*SEEDS, 2, 3):
        inputs = problem.draw(problem.tiny, seed)
        # Of somebody who computes in float16: float inputs and outputs rounded to it.
        answer = tuple(map(_rounded, as_tuple(problem.reference(*map(_rounded, inputs)))))
        verdicts.append(compare(answer, problem.expected(inputs), problem.tolerance, specs))
    assert not all(verdict.ok for verdict in verdicts)


@every_problem
def test_declared_flops_agree_with_the_flop_counter_where_it_knows_the_op(problem: ProblemDefinition) -> None:
    inputs = problem.draw(problem.tiny, 0)
    with FlopCounterMode(display=False) as counter:
        problem.reference(*inputs)
    counted, declared = counter.get_total_flops(), problem.flops(problem.tiny.params)
    assert problem.id in FLOP_EXEMPTIONS or counted == 0 or abs(counted - declared) <= 0.01 * counted


FLOP_EXEMPTIONS = {
    "matmul_upper_triangular": "the reference multiplies the zeros too; the problem needs only the triangle",
    "matmul_lower_triangular": "the reference multiplies the zeros too; the problem needs only the triangle",
    **dict.fromkeys(
        (
            "causal_attention", "causal_gqa_attention", "sliding_window_attention", "gqa_ragged_decode",
            "attention_backward_causal", "attention_backward_gqa", "attention_backward_window",
            "attention_backward_varlen", "attention_varlen_prefill", "attention_window_sinks",
            "attention_softcap_prefill", "mla_prefill", "attention_fp8_prefill", "attention_chunked_prefill",
            "paged_gqa_decode", "paged_fp8_decode", "int4_cache_decode", "draft_verify_decode", "tree_decode",
            "shared_prefix_decode", "mla_paged_decode", "mla_sparse_decode",
        ),
        "the reference computes scores that the mask hides; the problem needs only those that are seen",
    ),
    **dict.fromkeys(
        ("mamba2_scan", "mamba2_scan_backward", "gated_delta_prefill", "decay_attention_prefill"),
        "the reference works on chunks, which takes more operations than the recurrence",
    ),
    "sparse24_linear": "the reference multiplies the zeros too; the problem needs only the stored weights",
}  # fmt: skip
"""Problems whose reference does other work than the problem needs, and why."""


@every_problem
def test_every_workload_fits_in_8_gib_and_counts_its_bytes(problem: ProblemDefinition) -> None:
    assert 1 <= len(problem.sizes) <= 3
    names = [size.name for size in (*problem.sizes, problem.tiny)]
    assert len(set(names)) == len(names)
    for size in problem.sizes:
        assert 0 < problem.count_bytes(size.params) <= resident_bytes(problem, size.params) < 8 << 30


@every_problem
def test_record_and_prompt_render_and_survive_a_round_trip(problem: ProblemDefinition) -> None:
    record = problem.record()
    assert from_dict(Problem, to_dict(record)) == record
    assert problem.compute_unit in COMPUTE_UNITS
    assert problem.tolerance.reason
    for needle in (problem.title, f"{problem.tolerance.atol:g}", *(f"Workload {size.name}" for size in problem.sizes)):
        assert needle in record.prompt


def test_inputs_depend_on_the_seed_and_are_never_constant() -> None:
    for definition in MEASURED:
        for one, other in zip(definition.draw(definition.tiny, 0), definition.draw(definition.tiny, 1), strict=True):
            if isinstance(one, torch.Tensor) and one.numel() > 4:
                assert one.double().std() > 0, definition.id
                assert not torch.equal(one, other), definition.id


DATASET = Path(__file__).parents[3] / "benchmark" / "dataset" / "problems"


def test_every_record_equals_the_shipped_one() -> None:
    (path,) = DATASET.glob("*.parquet")
    shipped = {row["problem_id"]: from_dict(Problem, row) for row in pq.read_table(path).to_pylist()}
    assert set(shipped) <= set(known())
    assert set(RETIRED) <= set(shipped)
    assert shipped == {problem_id: problem(problem_id).record() for problem_id in shipped}
