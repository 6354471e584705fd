from __future__ import annotations

import csv
import json
import random
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

import kbench.benchmark
from kbench.benchmark.problems import problem
from kbench.benchmark.tuning.strategies import kernels_of
from kbench.generation.assembly.assemble import Recipe, assemble
from kbench.generation.campaign.campaign import Drive
from kbench.generation.campaign.drive import drive, recorded_states
from kbench.generation.cli import generate
from kbench.generation.proposers.genome.proposer import GenomeProposer
from kbench.generation.search.proposal import Ask, Proposal, ProposalTask, Refusal
from kbench.generation.search.settings import Budget
from kbench.generation.search.state import Operator
from kbench.generation.study import pool
from kbench.generation.study.pool import PoolProposer, pools_in
from kbench.generation.study.study import interval, study, table
from kbench.generation.study.tuning import (
    HELD_OUT,
    draw,
    parts,
    shape_groups,
    spread,
    table_rows,
    templates,
    tuned_families,
)
from kbench.loaders.importers.context import ImportSettings
from kbench.loaders.importers.run import import_files
from kbench.schemas import Backend
from kbench.schemas.ids import kernel_id

from .conftest import FAMILY, PROBLEM, Recorded, replaying, settings_for


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, recorded: Recorded) -> Path:
    """A corpus of four random searches; it is only read."""
    folder = tmp_path_factory.mktemp("study")
    how = replaying(recorded, GenomeProposer({FAMILY.name: FAMILY}))
    drive(folder / "run", [settings_for("random", seed=seed) for seed in range(4)], how)
    assemble(Recipe(runs=(folder / "run",)), folder / "corpus")
    return folder / "corpus"


def test_the_study_writes_points_table_and_plot(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "study"
    arguments = [str(corpus), "--out", str(out), "--seeds", "3", "--budget", "12", "--least", "20"]
    result = CliRunner().invoke(generate, ["study", *arguments], standalone_mode=False)
    assert result.exception is None
    rows = list(csv.DictReader((out / "points.csv").read_text().splitlines()))
    assert {row["method"] for row in rows} >= {"random", "hill_climb", "evolve", "puct", "bayes", "evolve+surrogate"}
    assert "| random |" in (out / "table.md").read_text()
    assert (out / "plot.png").stat().st_size > 5000


@pytest.mark.parametrize("option", ["--seeds", "--budget", "--least", "--pools"])
def test_a_study_of_nothing_is_refused(corpus: Path, tmp_path: Path, option: str) -> None:
    result = CliRunner().invoke(generate, ["study", str(corpus), "--out", str(tmp_path / "study"), option, "0"])
    assert result.exit_code == 2
    assert option in result.stderr


def test_best_so_far_never_falls_and_never_passes_the_pools_best(corpus: Path) -> None:
    points = study(pools_in(corpus, 20, 4), methods=("random", "puct"), seeds=2, budget=16)
    for method in ("random", "puct"):
        shares = [point.share for point in points if point.method == method]
        assert shares == sorted(shares)
        assert 0 < shares[-1] <= 1
    assert all(point.low <= point.share <= point.high for point in points)


def test_measuring_the_whole_pool_finds_its_best(corpus: Path) -> None:
    (pool,) = pools_in(corpus, 20, 4)
    points = study([pool], methods=("random",), seeds=1, budget=len(pool.sources) + 8)
    assert points[-1].share == pytest.approx(1.0)


def test_a_pool_gives_each_kernel_once_and_near_ones_first(tmp_path: Path, how: Drive) -> None:
    drive(tmp_path, [settings_for("random")], how)
    (state,) = recorded_states(tmp_path).values()
    nodes = list(state.nodes.values())
    proposer = PoolProposer({node.kernel_id: node.source for node in nodes}, [node.kernel_id for node in nodes])
    seen = {nodes[0].kernel_id}
    task = ProposalTask(PROBLEM, Backend.TRITON, lambda key: key in seen)
    for number in range(len(nodes) - 1):
        ask = Ask(Operator.MUTATE, nodes[0], None, random.Random(number))
        (answer,) = proposer.propose(task, [ask])
        assert isinstance(answer, Proposal)
        assert answer.parent_id == nodes[0].kernel_id
        seen.add(kernel_id(PROBLEM, Backend.TRITON, answer.source))
    (last,) = proposer.propose(task, [Ask(Operator.FRESH, None, None, random.Random(0))])
    assert isinstance(last, Refusal)
    assert len(seen) == len(nodes)


def test_fresh_draws_are_kernels_without_a_parent(tmp_path: Path, how: Drive) -> None:
    drive(tmp_path / "run", [settings_for("evolve", budget=Budget(measurements=40))], how)
    assemble(Recipe(runs=(tmp_path / "run",)), tmp_path / "corpus")
    (pool,) = pools_in(tmp_path / "corpus", 20, 1)
    (state,) = recorded_states(tmp_path / "run").values()
    parentless = {node.kernel_id for node in state.nodes.values() if node.parent_id is None}
    assert pool.fresh == parentless < set(pool.sources)
    seen: set[str] = set()
    task = ProposalTask(PROBLEM, Backend.TRITON, lambda key: key in seen)
    asks = [Ask(Operator.FRESH, None, None, random.Random(number)) for number in range(len(parentless) + 1)]
    for answer in pool.proposer().propose(task, asks):
        if isinstance(answer, Proposal):
            seen.add(kernel_id(PROBLEM, Backend.TRITON, answer.source))
    assert seen == parentless
    assert isinstance(answer, Refusal)


def test_an_imported_parameter_space_is_searched_by_its_parameters(tmp_path: Path) -> None:
    import_files("kernel-tuner", [space(tmp_path / "space.json")], tmp_path / "corpus", ImportSettings(unit="ms"))
    (pool,) = pools_in(tmp_path / "corpus", 20, 1)
    assert (pool.backend, len(pool.sources)) == (Backend.CONFIG, 250)
    points = study([pool], methods=("random", "evolve", "bayes"), seeds=6, budget=24)
    last = {point.method: point.share for point in points if point.measurements == 24}
    assert last["random"] < last["evolve"] <= 1 + 1e-9
    assert last["random"] < last["bayes"] <= 1 + 1e-9


def space(path: Path) -> Path:
    """A smooth space of 250 configurations, 13 of which do not compile."""
    entries = {
        f"{x},{y}": {"x": x, "y": y, "time": "CompilationFailedConfig" if x == 16 else 1.0 + abs(x - 5) + abs(y - 6)}
        for x in range(1, 17) for y in range(1, 17) if x + y < 30
    }  # fmt: skip
    keys = {"tune_params_keys": ["x", "y"], "tune_params": {"x": list(range(1, 17)), "y": list(range(1, 17))}}
    head = {"device_name": "Made Up", "kernel_name": "k", "problem_size": [64], **keys}
    path.write_text(json.dumps({**head, "cache": entries}), encoding="utf-8")
    return path


def test_an_interval_covers_the_mean_and_narrows_with_more_problems() -> None:
    rng = random.Random(0)
    few = [[rng.random()] for _ in range(8)]
    many = [[rng.random()] for _ in range(200)]
    widths = [high - low for low, high in (interval(few, random.Random(1)), interval(many, random.Random(1)))]
    assert widths[1] < widths[0]


def test_a_method_gains_nothing_on_itself_and_what_it_finds_more_on_the_same_pools(corpus: Path) -> None:
    points = study(pools_in(corpus, 20, 4), methods=("random", "puct"), seeds=2, budget=8)
    base = {point.measurements: point.share for point in points if point.method == "random"}
    assert all((p.gain, p.gain_low, p.gain_high) == (0, 0, 0) for p in points if p.method == "random")
    others = [point for point in points if point.method == "puct"]
    assert [p.gain for p in others] == pytest.approx([p.share - base[p.measurements] for p in others])
    assert "more than random after 8" in table(points, [8]).splitlines()[0]


def test_pools_are_taken_from_the_whole_range_of_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = Path(kbench.benchmark.__path__[0]) / "dataset"
    # Which they are is enough: reading all of them takes half a minute.
    monkeypatch.setattr(pool, "_pool", lambda corpus, cell, rows: cell)
    every = pools_in(shipped, 20, 10_000)
    some = pools_in(shipped, 20, 3)
    assert some == [every[n * len(every) // 3] for n in range(3)]
    assert len({problem_id for problem_id, _, _ in some}) == 3
    assert len(every) > 100


def test_more_configurations_begin_with_the_same_ones_and_none_comes_twice() -> None:
    family = next(family for family in tuned_families() if family.name == "layer_norm_tuned")
    few, many = draw(family, 4), draw(family, 9)
    assert [one.config for one in many[:4]] == [one.config for one in few]
    assert len({one.kernel.kernel_id for one in many}) == 9


def test_a_wave_of_kernels_gets_all_its_shapes_before_the_next_and_a_block_before_the_next_block() -> None:
    configured = {family.name: draw(family, 3) for family in tuned_families()[-5:]}
    planned = list(parts(configured, shapes=6, block=2, wave=2))
    problems = [part.kernels[0].problem_id for part in planned]
    first = [several[0].kernel.problem_id for several in configured.values()]
    assert set(problems[: problems.index(first[2])]) == set(first[:2])
    asked = Counter((kernel.kernel_id, name) for part in planned for kernel in part.kernels for name in part.workloads)
    assert set(asked.values()) == {1}
    assert len(asked) == 5 * 3 * 6
    assert [len(part.kernels) for part in planned] == sorted((len(part.kernels) for part in planned), reverse=True)
    assert sorted(spread(11)) == list(range(11))
    groups = shape_groups(problem(first[0]), 6)
    assert max(map(len, groups)) <= 3


def measured(kernel: str, shape: int, config: int) -> dict[str, object]:
    return {
        "kernel": kernel, "problem_id": "p", "gpu": "g", "shape_json": json.dumps({"m": shape}),
        "config_json": json.dumps({"block": config}), "status": "ok", "runtime_us": 1.0 + config, "started_at": "now",
    }  # fmt: skip


def test_a_cut_off_shape_is_left_out_and_kernels_of_a_template_share_a_split() -> None:
    rows = [measured("mla_decode_tuned", shape, config) for shape in range(8) for config in range(4)]
    rows += [measured("mla_decode_tuned", 8, config) for config in range(2)]
    found = table_rows(rows)
    (kernel,) = kernels_of(found)
    assert (kernel.split, kernel.times_us.shape, int(kernel.shown.sum())) == ("test", (4, 8), 3)
    assert "started_at" not in found[0]
    assert set(HELD_OUT) < set(templates().values())
    assert set(templates()) == {family.name for family in tuned_families()}
