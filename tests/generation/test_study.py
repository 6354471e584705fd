import contextlib
import csv
import dataclasses
import json
import lzma
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import kbench
import kbench.benchmark
from kbench.benchmark.surrogates.resolve import module_of
from kbench.benchmark.tuning.strategies import kernels_of
from kbench.generation.assembly.assemble import Recipe, assemble
from kbench.generation.campaign.campaign import Drive
from kbench.generation.campaign.drive import drive, recorded_states
from kbench.generation.campaign.plan import CampaignSpec, runs_of
from kbench.generation.cli import generate
from kbench.generation.proposers import pool
from kbench.generation.proposers.genome.proposer import GenomeProposer
from kbench.generation.proposers.pool import PoolProposer, RecordedPool, pools_in
from kbench.generation.search.proposal import Ask, Proposal, ProposalTask, Refusal
from kbench.generation.search.settings import Budget
from kbench.generation.search.state import Operator, outcome_of
from kbench.generation.study.points import measurements_needed, too_few
from kbench.generation.study.report import table, verdict, write_study
from kbench.generation.study.study import Study, study, study_of_runs
from kbench.loaders.checks.validate import validate
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.places import shipped
from kbench.loaders.importers.reader import ImportSettings
from kbench.loaders.importers.run import import_files
from kbench.schemas import Backend, Status, UserError
from kbench.schemas.ids import kernel_id

from .conftest import FAMILY, GENES, PROBLEM, Recorded, made_up, measurement, render, replaying, searched, settings_for


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
    assert {row["method"] for row in rows} >= {"random", "hill_climb", "evolve", "puct", "bayes", "evolve+online"}
    text = (out / "table.md").read_text()
    assert "| random |" in text
    assert "last column: paired difference, minus random" in text
    assert text.splitlines()[-1].endswith("; 1 pool, 3 seeds.")
    searches = list(csv.DictReader((out / "searches.csv").read_text().splitlines()))
    columns = [
        "pool",
        "method",
        "seed",
        "measurement",
        "best",
        "kernel_id",
        "status",
        "speedup",
        "pool_best",
        "gpu_seconds",
    ]
    assert list(searches[0]) == columns
    first = [row for row in searches if (row["method"], row["seed"]) == ("random", "0")]
    assert float(first[-1]["best"]) == max(float(row["speedup"]) for row in first if row["status"] == "ok")
    assert all(float(row["gpu_seconds"]) > 0 for row in searches)
    assert {row["searches"] for row in rows if row["measurements"] == "1"} == {"3"}
    assert {row["seed"] for row in searches} == {"0", "1", "2"}
    assert (out / "plot.png").stat().st_size > 5000


@pytest.mark.parametrize("option", ["--seeds", "--budget", "--least", "--pools"])
def test_a_study_of_nothing_is_refused(corpus: Path, tmp_path: Path, option: str) -> None:
    result = CliRunner().invoke(generate, ["study", str(corpus), "--out", str(tmp_path / "study"), option, "0"])
    assert result.exit_code == 2
    assert option in result.stderr


def test_a_study_does_not_overwrite_another(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "study"
    out.mkdir()
    (out / "points.csv").write_text("earlier")
    result = CliRunner().invoke(generate, ["study", str(corpus), "--out", str(out)], standalone_mode=False)
    assert isinstance(result.exception, UserError)
    assert "holds a study already" in str(result.exception)
    assert (out / "points.csv").read_text() == "earlier"


def test_best_so_far_never_falls_and_never_passes_the_pools_best(corpus: Path) -> None:
    points = study(pools_in(corpus, 20, 4), methods=("random", "puct"), seeds=10, budget=8).points
    for method in ("random", "puct"):
        shares = [point.share for point in points if point.method == method]
        assert shares == sorted(shares)
        assert 0 < shares[-1] <= 1
    bounds = [(p.low, p.share, p.high) for p in points if p.low is not None and p.high is not None]
    assert bounds
    assert all(low <= share <= high for low, share, high in bounds)


def test_a_pool_gives_each_kernel_once_and_near_ones_first(tmp_path: Path, how: Drive) -> None:
    state = searched(tmp_path, settings_for("random"), how)
    nodes = list(state.nodes.values())
    proposer = PoolProposer({node.kernel_id: node.source for node in nodes}, [node.kernel_id for node in nodes])
    edits = []
    for operator, other in ((Operator.MUTATE, None), (Operator.CROSS, nodes[1]), (Operator.LLM, None)):
        empty = ProposalTask(PROBLEM, Backend.TRITON, lambda key: False)
        (answer,) = proposer.propose(empty, [Ask(operator, nodes[0], other, random.Random(0))])
        assert isinstance(answer, Proposal)
        edits.append(answer.edit)
    assert edits == ["a near neighbour", "near the middle of two parents", "a near neighbour in place of llm"]
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
    run = kbench.search(pool.problem_id, "config", "bayes", budget=24, recorded=tmp_path / "corpus")
    assert len(run.curve()) == 24
    assert run.curve()[-1] == run.best().reward
    assert len(repr(run)) < 200
    assert "24 measured, best " in repr(run)
    points = study([pool], methods=("random", "evolve", "bayes"), seeds=6, budget=24).points
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


def test_a_corpus_without_speedups_and_one_of_small_pools_are_refused_for_that(corpus: Path, tmp_path: Path) -> None:
    unknown = {"id": "1", "code": "import triton\n\ndef run(x):\n    return x\n", "metrics": {"combined_score": 1.0}}
    place = tmp_path / "out" / "programs"
    place.mkdir(parents=True)
    (place / "1.json").write_text(json.dumps(unknown))
    import_files("openevolve", [tmp_path / "out"], tmp_path / "corpus", ImportSettings(gpu="NVIDIA H200"))
    with pytest.raises(UserError, match="has a speedup on a named GPU"):
        pools_in(tmp_path / "corpus", 1, 1)
    with pytest.raises(UserError, match="no pool is large enough for the study: the largest has"):
        pools_in(corpus, 1000, 1)


def made_up_pools(count: int) -> list[RecordedPool]:
    """Small pools of as many problems, each a random part of the family."""
    pools = []
    for number in range(count):
        rng, problem_id = random.Random(number), f"made_up_{number}"
        genomes = [{gene.name: rng.choice(gene.choices) for gene in GENES} for _ in range(24)]
        sources = {
            kernel_id(problem_id, Backend.TRITON, text): text for text in (render(problem_id, g) for g in genomes)
        }
        outcomes = {kernel_id(problem_id, Backend.TRITON, render(problem_id, g)): made_up(g) for g in genomes}
        rows = {key: [measurement(key, problem_id, *outcome)] for key, outcome in outcomes.items()}
        best = max(speedup for status, speedup in outcomes.values() if status is Status.OK)
        pools.append(RecordedPool(problem_id, Backend.TRITON, sources, frozenset(sources), rows, best))
    return pools


def write_method(path: Path, body: str) -> str:
    """A file with a method whose plan has this body."""
    path.write_text(
        "from kbench.generation.search.methods.method import Method\n"
        "from kbench.generation.search.state import FRESH, Operator, ProposalRequest\n\n\n"
        f"def plan(state, count, rng):\n    {body}\n\n\nMETHOD = Method({path.stem!r}, plan)\n"
    )
    return str(path)


def copies_of_random(folder: Path, count: int) -> list[str]:
    """The same method under other names, below the folder one stands in: their searches differ by luck alone."""
    paths = [folder / f"copy_{number}.py" for number in range(count)]
    # Luck follows from the name, which must be the same each time.
    return [Path(write_method(path, "return (FRESH,) * count")).name for path in paths]


@pytest.fixture(scope="module")
def against_itself(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("copies")
    copies = copies_of_random(folder, 6)
    with contextlib.chdir(folder):
        return study(made_up_pools(12), methods=("random", *copies), seeds=3, budget=10)


def test_copies_of_a_method_are_not_decided_to_differ(against_itself: Study) -> None:
    last = [point for point in against_itself.points if point.measurements == 10]
    assert len({point.share for point in last}) > 1
    assert not any(point.decided for point in last)
    for point in last[1:]:
        assert None not in (point.sure_low, point.gain_low, point.gain_high, point.sure_high)
        assert point.sure_low < point.gain_low < point.gain_high < point.sure_high
    assert f"[{last[1].sure_low:+.3f}, {last[1].sure_high:+.3f}]" in table(against_itself.points, [10])
    assert all(point.ahead + point.equal + point.behind == 12 for point in last)
    closing = verdict(against_itself).splitlines()[-1]
    assert "decided (95 % for all 6 at once): none; undecided:" in closing
    assert closing.endswith("; 12 pools, 3 seeds.")


def test_a_method_that_asks_for_nothing_ends_after_four_steps_and_is_decided_to_find_less(tmp_path: Path) -> None:
    silent = write_method(tmp_path / "silent.py", "return ()")
    done = study(made_up_pools(12), methods=("random", silent), seeds=3, budget=16)
    assert {len(one.measured) for one in done.trials if one.method == "silent"} == {4}
    assert "silent: 36 of 36 searches ended before 16 measurements" in verdict(done)
    assert "needs >16 [>16, >16] for what random finds in " in verdict(done)
    assert [p.searches for p in done.points if p.method == "silent"] == [36] * 4 + [0] * 12
    assert verdict(done).splitlines()[-1].startswith("After 16 measurements: decided: silent (less); undecided: none")


def test_what_a_method_saves_is_counted_in_measurements() -> None:
    own, first = np.array([[0.2, 0.6, 0.9]]), np.array([[0.3, 0.5, 0.95]])
    assert measurements_needed(own, first).tolist() == [[2, 2, 4]]


def test_a_method_that_asks_for_less_is_given_that(tmp_path: Path) -> None:
    modest = write_method(tmp_path / "modest.py", "return [FRESH]")
    done = study(made_up_pools(1), methods=("random", modest), seeds=1, budget=10)
    assert [len(one.measured) for one in done.trials] == [10, 10]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return (FRESH,) * 100", "planned 100 requests where 4 were asked"),
        ("return None", "planned None; plan returns a tuple of ProposalRequest"),
        ("return ('fresh',)", "plan returns a tuple of ProposalRequest"),
        ("return (ProposalRequest(Operator.MUTATE, 'abc'),)", "asked to mutate 'abc', which is no kernel of this run"),
        ("return (ProposalRequest('mutate'),)", "asked to mutate without a parent"),
        ("return (ProposalRequest('mutat'),)", "ValueError: 'mutat' is not a valid Operator"),
        (
            "return (ProposalRequest(Operator.MUTATE, state.best()),)",
            "no kernel of this run; name one by its kernel_id",
        ),
        ("raise SystemExit(0)", "wrong.py, line 6: SystemExit: 0"),
        (
            "return (ProposalRequest(Operator.CROSS, next(iter(state.nodes))),)",
            "with nothing; name a second kernel as other_id",
        ),
        (
            "plan.calls = getattr(plan, 'calls', 0) + 1; return (FRESH,) * (plan.calls % 3)",
            "otherwise when asked again",
        ),
        ("return state.fastest()", "wrong.py, line 6: AttributeError: 'RunState' object has no attribute 'fastest'"),
    ],
)
def test_a_mistake_of_a_method_is_told_to_its_author(tmp_path: Path, body: str, message: str) -> None:
    wrong = write_method(tmp_path / "wrong.py", body)
    with pytest.raises(UserError) as caught:
        study(made_up_pools(1), methods=("random", wrong), seeds=1, budget=8)
    assert message in str(caught.value)
    assert "wrong.py" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"), [("def plan(", "line 1: SyntaxError"), ("\n1 / 0", "line 2: ZeroDivision")]
)
def test_a_method_file_that_cannot_be_loaded_is_told_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    broken = tmp_path / "broken_method.py"
    broken.write_text(text)
    with pytest.raises(UserError, match=message):
        study(made_up_pools(1), methods=("random", str(broken)))
    with pytest.raises(UserError, match=r"broken_method.py' cannot be made: (SyntaxError|ZeroDivisionError)"):
        study(made_up_pools(1), methods=("random", f"evolve+{broken}"))


@pytest.mark.parametrize("surrogate", ["surrogate", "prior", "{folder}/doubt.py"])
def test_any_surrogate_filters_a_method_of_a_study(corpus: Path, tmp_path: Path, surrogate: str) -> None:
    forecast = "def forecast(self, queries):\n        raise ValueError('no idea')\n"
    learned = "def learned_from(self, splits):\n        return splits\n"
    (tmp_path / "doubt.py").write_text(
        f"class Doubt:\n    inputs = 'source'\n\n    {forecast}\n    {learned}\n\nsurrogate = Doubt()\n"
    )
    (known,) = pools_in(corpus, 20, 1, split="train")
    name, doubts = f"evolve+{surrogate.format(folder=tmp_path)}", surrogate.endswith("doubt.py")
    said: list[str] = []
    done = study([known], methods=("evolve", name), seeds=1, budget=10, report=said.append)
    name = name.replace("+surrogate", "+online")
    assert [trial.method for trial in done.trials] == ["evolve", name]
    assert (f"{name}: in a search" in verdict(done)) == (f"{name}: in a search" in said[-1]) == doubts
    assert (f"{name}: its surrogate learned from problems of 1 of 1 pool; --split test" in verdict(done)) == doubts
    with pytest.raises(UserError, match="no kernel of corpus"):
        pools_in(corpus, 20, 1, split="test")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("evolve+statik", "unknown surrogate 'statik'; did you mean 'static'"),
        ("evolv+static", "unknown method 'evolv'"),
        ("evolve+", "names no surrogate after +; name one, such as evolve+online"),
    ],
)
def test_an_unknown_part_of_a_study_is_named(corpus: Path, tmp_path: Path, name: str, message: str) -> None:
    result = CliRunner().invoke(generate, ["study", str(corpus), "--out", str(tmp_path / "s"), "--methods", name])
    assert message in str(result.exception)


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        ("hip", "unknown backend 'hip'; known: config, cuda, triton"),
        ("tritn", "did you mean 'triton'"),
        ("config", "give recorded="),
    ],
)
def test_a_backend_that_cannot_be_searched_is_named(backend: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        kbench.search(PROBLEM, backend)


def test_a_search_from_python_checks_names_as_the_command_does(corpus: Path) -> None:
    with pytest.raises(UserError, match=r"method is <function .*give a name, or a file with a Method"):
        kbench.search(PROBLEM, "triton", made_up_pools, recorded=corpus)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="unknown proposer 'pol'; did you mean 'pool'"):
        kbench.search(PROBLEM, "triton", proposer="pol", recorded=corpus)
    with pytest.raises(UserError, match=r"^seeds is 0; it must be at least 1"):
        kbench.search(PROBLEM, "triton", seeds=0, recorded=corpus)
    with pytest.raises(UserError, match="draw is 8 and changes nothing without surrogate"):
        kbench.search(PROBLEM, "triton", draw=8, recorded=corpus)


def test_the_methods_of_a_campaign_are_compared_from_its_log(tmp_path: Path, how: Drive) -> None:
    spec = CampaignSpec(
        label="study", independent=True, problems=(PROBLEM,), backends=("triton",), proposer="genome",
        methods=("random", "evolve", "evolve+surrogate"), random_seeds=range(10), budget=Budget(measurements=16),
    )  # fmt: skip
    runs, _ = runs_of(spec)
    assert str(drive(tmp_path / "run", runs, how).totals).endswith("x; budget spent: 30")
    result = CliRunner().invoke(
        generate, ["study", str(tmp_path / "run"), "--out", str(tmp_path / "study")], standalone_mode=False
    )
    assert result.exception is None
    rows = list(csv.DictReader((tmp_path / "study" / "points.csv").read_text().splitlines()))
    last = {row["method"]: row for row in rows if row["measurements"] == "16"}
    assert list(last) == ["random", "evolve", "evolve+online"]
    states = recorded_states(tmp_path / "run").values()
    best = {(one.settings.full_method, one.settings.seed): one.best() for one in states}
    top = max(node.reward for node in best.values())
    for method, row in last.items():
        assert float(row["share"]) == pytest.approx(sum(best[method, seed].reward / top for seed in range(10)) / 10)
    assert "\nevolve+online minus evolve: " in result.stdout
    turned = study_of_runs([tmp_path / "run"], ["evolve", "random"]).points[-1]
    assert turned.gain == pytest.approx(-float(last["evolve"]["gain"]))
    assert turned.gain_low is not None

    with pytest.raises(UserError, match=r"unknown method of these runs: 'evolve\+surrogate'"):
        study_of_runs([tmp_path / "run"], ["evolve+surrogate"])
    drive(tmp_path / "early", runs[:1], dataclasses.replace(how, deadline_s=1e-9))
    with pytest.raises(UserError, match="nothing to compare"):
        study_of_runs([tmp_path / "early"])
    with pytest.raises(UserError, match="in two folders"):
        study_of_runs([tmp_path / "run", tmp_path / "early"])
    drive(tmp_path / "shared", [settings_for("random"), settings_for("evolve")], how)
    with pytest.raises(UserError, match='"independent": true'):
        study_of_runs([tmp_path / "shared"])


def test_what_searches_on_a_gpu_measured_is_a_larger_pool() -> None:
    small, large = (
        pools_in(shipped(), 1, 1, ["cumsum"], ["triton"], config=config)[0] for config in ("kernels", "live")
    )
    assert len(large.sources) > len(small.sources)
    assert large.fresh < set(large.sources) == set(large.measurements)
    speedups = [outcome_of(rows).speedup or 0.0 for rows in large.measurements.values()]
    assert max(speedups) == pytest.approx(large.best)
    assert min(row.time_s or 0.0 for rows in large.measurements.values() for row in rows) > 0


def test_pools_are_chosen_by_problem_and_backend(corpus: Path) -> None:
    (pool,) = pools_in(corpus, 20, 4, [PROBLEM], ["triton"])
    assert (pool.problem_id, pool.backend) == (PROBLEM, Backend.TRITON)
    for problems, backends in ((["gelu_tan"], []), ([], ["cuda"])):
        with pytest.raises(UserError, match=r"did you mean 'gelu_tanh'|known: triton"):
            pools_in(corpus, 20, 4, problems, backends)


def test_the_searches_of_a_pool_and_seed_share_their_first_kernels(against_itself: Study) -> None:
    kernels = {id(one): tuple(node.kernel_id for node in one.measured) for one in against_itself.trials}
    firsts = {(one.pool, one.seed, kernels[id(one)][:4]) for one in against_itself.trials}
    assert len(firsts) == 12 * 3
    assert len(set(kernels.values())) > len(firsts)


def test_an_interval_from_one_pool_has_a_width_or_is_not_given() -> None:
    few, many = (study(made_up_pools(1), methods=("random", "evolve"), seeds=seeds, budget=8) for seeds in (3, 10))
    assert all(point.low is point.gain_low is None for point in few.points)
    assert "fewer than 10 seeds" in verdict(few)
    bounds = [(p.low, p.high) for p in many.points if p.low is not None and p.high is not None]
    assert bounds
    assert all(high > low for low, high in bounds)


def test_what_would_help_is_advised() -> None:
    assert too_few(["softmax"] * 2, 10) == (
        "several pools of one problem; take one of them (--backend) with 10 seeds, or more problems"
    )
    assert too_few(["softmax"], 9) == "one pool with fewer than 10 seeds; raise --seeds"
    assert "raise --pools" in (too_few(["softmax", "relu"], 10) or "")


def test_few_pools_are_too_few_to_say(tmp_path: Path) -> None:
    done = study(made_up_pools(6), methods=("random", "evolve"), seeds=2, budget=8)
    text = write_study(done, tmp_path / "study")
    assert all(point.low is point.gain_low is None for point in done.points)
    assert "[" not in text
    assert "too few pools to say" in text
    assert text.endswith("decided: none; undecided: evolve; 6 pools, 2 seeds.")


def test_a_method_gains_nothing_on_itself_and_what_it_finds_more_on_the_same_pools(corpus: Path) -> None:
    points = study(pools_in(corpus, 20, 4), methods=("random", "puct"), seeds=2, budget=8).points
    base = {point.measurements: point.share for point in points if point.method == "random"}
    assert all((p.gain, p.gain_low, p.decided) == (0, None, False) for p in points if p.method == "random")
    others = [point for point in points if point.method == "puct"]
    assert [p.gain for p in others] == pytest.approx([p.share - base[p.measurements] for p in others])
    assert "minus random after 8" in table(points, [8]).splitlines()[0]


def test_pools_are_taken_from_the_whole_range_of_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = Path(kbench.benchmark.__path__[0]) / "dataset"
    # Which they are is enough: reading all of them takes half a minute.
    monkeypatch.setattr(pool, "_pool", lambda corpus, cell, rows: cell)
    every = pools_in(shipped, 20, 10_000)
    some = pools_in(shipped, 20, 3)
    assert some == [every[n * len(every) // 3] for n in range(3)]
    assert len({problem_id for problem_id, _, _ in some}) == 3
    assert len(every) > 100


TUNING = module_of(Path(__file__).parents[2] / "docs" / "evidence" / "scripts" / "tuning.py")


def measured(kernel: str, shape: int, config: int) -> dict[str, object]:
    genes = TUNING.space(kernel)["genes"]
    return {
        "kernel": kernel, "problem_id": PROBLEM, "gpu": "g", "shape_json": json.dumps({"m": shape}),
        "config_json": json.dumps(dict.fromkeys(genes, 1) | {"stages": config}), "status": "ok",
        "runtime_us": 1.0 + config, "runtime_low_us": 0.9 + config, "runtime_high_us": 1.1 + config, "env_id": "f" * 32,
        "started_at": "now",
    }  # fmt: skip


def test_a_cut_off_shape_is_left_out_and_kernels_of_a_template_share_a_split() -> None:
    rows = [measured("mla_decode_tuned", shape, config) for shape in range(8) for config in range(4)]
    rows += [measured("mla_decode_tuned", 8, config) for config in range(2)]
    rows.append(rows[0] | {"config_json": json.dumps({"block": 1})})  # a gene that the template had once
    found = TUNING.table_rows(rows)
    (kernel,) = kernels_of(found)
    assert (kernel.split, kernel.times_us.shape, int(kernel.shown.sum())) == ("test", (4, 8), 3)
    assert "started_at" not in found[0]
    space = json.loads(found[0]["space_json"])
    assert space["configurations"] > 48
    assert all(": " in line for line in space["refused"])
    assert set(TUNING.HELD_OUT) < set(TUNING.templates().values())


def test_a_table_joins_a_corpus_there_or_by_its_recipe(corpus: Path, tmp_path: Path) -> None:
    rows = [measured("mla_decode_tuned", shape, config) for shape in range(8) for config in range(4)]
    for name, some in (("measured", rows), ("first", rows[:16])):
        lines = "".join(json.dumps(row) + "\n" for row in some).encode()
        (tmp_path / f"{name}.jsonl.xz").write_bytes(lzma.compress(lines))
    shutil.copytree(corpus, tmp_path / "there")
    TUNING.main(tmp_path / "there", str(tmp_path / "first.jsonl.xz"))
    for out in ("there", "tuning.jsonl.xz"):
        TUNING.main(tmp_path / out, str(tmp_path / "measured.jsonl.xz"))
    assemble(Recipe(runs=(corpus.parent / "run",), tuning=(tmp_path / "tuning.jsonl.xz",)), tmp_path / "made")
    for name in ("there", "made"):
        joined = Corpus.open(tmp_path / name)
        assert joined.fingerprint == Corpus.open(corpus).fingerprint
        assert validate(joined) == []
        assert kbench.load(tmp_path / name, config="tuning", split="test").to_arrow()["env_id"].null_count == len(rows)
