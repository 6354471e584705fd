"""What visitors come for, walked in a real browser; and what every page owes them: access, size, speed, honesty."""

import csv
import dataclasses
import io
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from axe_playwright_python.sync_playwright import Axe
from click.testing import CliRunner
from playwright.sync_api import expect

from kbench.cli import cli
from kbench.leaderboard.scoring.results import Results
from kbench.leaderboard.site import build as build_module
from kbench.leaderboard.site.build import build
from kbench.leaderboard.site.kernels import latest_records
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.summary.best import find_kernel
from kbench.schemas import Kernel


@pytest.fixture(scope="module")
def kernels(board_corpus: Path) -> list[dict[str, Any]]:
    return Corpus.open(board_corpus).table("kernels").to_pylist()


def _champion(kernels: list[dict[str, Any]], problem: str) -> dict[str, Any]:
    return max((k for k in kernels if k["problem_id"] == problem and k["speedup"]), key=lambda k: k["speedup"])


def test_the_fastest_kernel_of_a_problem_and_why(tab: Any, kernels: list[dict[str, Any]], board_corpus: Path) -> None:
    problem = kernels[0]["problem_id"]
    champion = _champion(kernels, problem)
    page = tab.open("#/problems")
    page.locator(f'a[href="#/problem/{problem}"]').click()
    page.locator(".answer a", has_text="See why").click()
    tab.wait_for_heading(re.compile(f"{champion['kernel_id'][:12]}Tritonok$"))
    text = page.locator("main").text_content()
    assert f"{champion['speedup']:.2f}×" in text
    correct = [k for k in kernels if k["problem_id"] == problem and k["speedup"]]
    assert f"Place 1 of {len(correct)} correct Triton kernels" in text
    assert f"{champion['speedup'] / 2:.2f}× the speed of cuBLASLt" in text
    assert "scan: 132×2×1 blocks of 128×1×1 threads, 8,832 B shared" in text
    share = find_kernel(Corpus.open(board_corpus), champion["kernel_id"])[0].row["roofline_share"]
    assert f"{share:.0%} of the roofline".replace("%", " %").replace(" of", "of") in text
    assert "static_range" in page.get_by_role("region", name="Kernel source").text_content()


def test_how_a_champion_evolved(tab: Any, kernels: list[dict[str, Any]]) -> None:
    by_id = {k["kernel_id"]: k for k in kernels}
    champion = max((k for k in kernels if k["parent_id"] and k["speedup"]), key=lambda k: k["speedup"])
    chain = [champion]
    while chain[-1]["parent_id"]:
        chain.append(by_id[chain[-1]["parent_id"]])
    page = tab.open(f"#/kernel/{champion['kernel_id'][:8]}")
    tab.wait_for_heading(re.compile(f"{champion['kernel_id'][:12]}Tritonok$"))
    steps = page.locator("ol.lineage > li")
    assert steps.count() == len(chain)
    links = steps.locator("a.mono").all_text_contents()
    assert links == [k["kernel_id"][:12] for k in reversed(chain)]
    last = steps.last
    ratio = champion["speedup"] / chain[1]["speedup"]
    assert f"{max(ratio, 1 / ratio):.2f}× {'faster' if ratio >= 1 else 'slower'}" in last.text_content()
    diff = last.locator("pre.diff")
    before, after = (set(k["source"].split("\n")) for k in (chain[1], champion))
    added, removed = (
        {t.rstrip("\n")[2:] for t in diff.locator(c).all_text_contents()} - {""} for c in (".add", ".del")
    )
    assert (added, removed) == (after - before, before - after)


def test_where_one_entry_beats_another(tab: Any, faceted: tuple[list[Results], dict[str, Any]]) -> None:
    page = tab.open("#/compare/length-1-0-0/uniform-1-0-0")
    verdicts = page.get_by_role("region", name="Paired differences").locator("tbody tr")
    length, uniform = ({r.entry_id: r for r in faceted[0]}[name] for name in ("length-1-0-0", "uniform-1-0-0"))
    # Overall comes first.
    skill = verdicts.nth(1).locator("td").all_text_contents()
    difference = length.value("forecast", "skill") - uniform.value("forecast", "skill")
    assert float(skill[5].replace("−", "-")) == pytest.approx(difference, abs=2e-3)
    low, high = (float(end.replace("−", "-")) for end in skill[6].split(" … "))
    assert skill[7] == ("undecided" if low <= 0 <= high else "better" if difference > 0 else "worse")
    assert verdicts.nth(1).locator("td strong").count() == 1
    ahead = page.get_by_role("region", name="Skill by problem").locator("tbody tr")
    assert ahead.count() == 2
    values = [float(text.replace("−", "-")) for text in ahead.locator("td:last-child").all_text_contents()]
    assert values == sorted(values, reverse=True)


def test_the_worst_misses_of_an_entry_lead_to_its_forecasts(tab: Any) -> None:
    page = tab.open("#/entry/length-1-0-0")
    misses = page.get_by_role("region", name="Worst misses of length")
    costs = [float(text) for text in misses.locator("td:last-child").all_text_contents()]
    assert len(costs) == 20
    assert costs == sorted(costs, reverse=True)
    measured = misses.locator("tbody tr").first.locator("td").nth(4).text_content()
    misses.locator("tbody tr").first.locator("td:nth-child(2) a").click()
    page.locator("h2", has_text="What entries forecast").wait_for()
    tables = page.locator("table.heat")
    assert measured in " ".join(page.locator("main h3").all_text_contents())
    shown = tables.first.locator("tbody tr td:first-child").all_text_contents()
    assert sorted(shown) == ["length", "prior", "uniform"]
    assert tables.first.locator(".truth").count() == 3


def test_what_a_page_shows_can_be_taken_away(tab: Any, kernels: list[dict[str, Any]]) -> None:
    page = tab.open(f"#/kernels?problem={kernels[0]['problem_id']}&faster=1")
    with page.expect_download() as download:
        page.locator('button[data-save="csv"]').click()
    rows = list(csv.DictReader(io.StringIO(download.value.path().read_text("utf-8"))))
    wanted = {k["kernel_id"][:12] for k in kernels
              if k["problem_id"] == kernels[0]["problem_id"] and (k["speedup"] or 0) > 1}  # fmt: skip
    assert {row["kernel_id"] for row in rows} == wanted
    tab.open("#/leaderboard?track=forecast")
    with page.expect_download() as download:
        page.locator('button[data-save="json"]').click()
    board = json.loads(download.value.path().read_text("utf-8"))
    assert {row["name"] for row in board} == {"hostile", "length", "prior", "uniform"}
    assert all({"place", "skill", "accuracy"} <= row.keys() for row in board)


def test_a_text_that_a_spreadsheet_would_compute_is_downloaded_as_a_text(tab: Any) -> None:
    texts = ["=1+1", " =1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", '=HYPERLINK("x,y")', "a=1", "-1.5", "a"]
    script = Path(build_module.__file__).with_name("js").joinpath("base.js").read_text("utf-8")
    functions = script[script.index("const harmless") : script.index("// `content` answers")]
    functions += re.findall("^const none = .*$", script, re.M)[0]
    made = tab.open().evaluate(f"texts => {{{functions}return csv(['text'], texts.map(text => [text]))}}", texts)
    rows = [row["text"] for row in csv.DictReader(io.StringIO(made))]
    assert rows == [f"'{text}" for text in texts[:7]] + texts[7:]


def test_wgmma_kernels_beyond_cublas_are_found(tab: Any, kernels: list[dict[str, Any]], board_corpus: Path) -> None:
    page = tab.open("#/kernels")
    page.get_by_label("Search").fill("wgmma")
    page.locator('select[data-facet="least"]').select_option("cuBLASLt")
    # It takes half of eager PyTorch's time in this corpus.
    wanted = {k["kernel_id"][:12] for k in kernels if "wgmma" in k["source"] and (k["speedup"] or 0) > 2}
    assert 0 < len(wanted) <= 50
    expect(page.locator('main [role="status"]')).to_contain_text(f"{len(wanted)} of {len(kernels)} kernels")
    expect(page.locator('main [role="status"]')).not_to_contain_text("searching")
    assert set(page.locator("tbody a.mono").all_text_contents()) == wanted
    speedups = [float(text.rstrip("×")) for text in tab_column(page, "speedup")]
    assert speedups == sorted(speedups, reverse=True)
    ahead = [float(text.rstrip("×")) for text in tab_column(page, "ahead")]
    assert ahead == pytest.approx([speedup / 2 for speedup in speedups], abs=0.011)
    tab.open(page.evaluate("location.hash"))
    expect(page.locator("tbody a.mono")).to_have_count(len(wanted))
    where = ("--where", "source contains 'wgmma'", "--limit", "0", "--json")
    for named in ("cublas", "vendor"):
        asked = ["kernels", "best", "--beats", named, *where, "--dataset", str(board_corpus)]
        rows = json.loads(CliRunner().invoke(cli, asked).stdout)["kernels"]
        assert {row["kernel_id"][:12] for row in rows} == wanted
        assert [row["ahead"] for row in rows] == sorted((row["speedup"] / 2 for row in rows), reverse=True)


def tab_column(page: Any, name: str) -> list[str]:
    heads = page.locator("main thead th").evaluate_all("cells => cells.map(cell => cell.dataset.column)")
    return page.locator(f"main tbody td:nth-child({heads.index(name) + 1})").all_text_contents()


def test_a_problem_s_page_shows_references_searches_and_workloads(tab: Any, kernels: list[dict[str, Any]]) -> None:
    page = tab.open(f"#/problem/{kernels[0]['problem_id']}")
    chart = page.locator('svg[aria-label="Distribution of speedups by backend and GPU"]')
    assert {"eager PyTorch", "torch.compile", "cuBLASLt"} <= set(chart.locator("text").all_text_contents())
    shown = [float(text[:-1]) for text in chart.locator("text").all_text_contents() if re.fullmatch(r"\d+×", text)]
    assert max(shown) >= _champion(kernels, kernels[0]["problem_id"])["speedup"]
    assert page.locator('svg[aria-label="Best speedup so far by kernels measured"] path').count() == 1
    references = page.get_by_role("region", name="Against the references").text_content()
    assert all(text in references for text in ("100 µs", "80.0 µs", "50.0 µs"))
    headings = page.locator("main h2").all_text_contents()
    assert headings[0] == "The best kernel against the references"
    above = page.locator("main > *").evaluate_all("nodes => nodes.map(node => node.getAttribute('aria-label') || '')")
    assert above.index("Workloads") < 4, "what is computed and for which shapes comes first"


def test_the_list_of_kernels_opens_on_the_best_of_each_problem(tab: Any, kernels: list[dict[str, Any]]) -> None:
    page = tab.open("#/kernels")
    champions = {_champion(kernels, name)["kernel_id"][:12] for name in {k["problem_id"] for k in kernels}}
    assert set(page.locator("tbody a.mono").all_text_contents()) == champions
    page.get_by_label("Best of each problem").uncheck()
    expect(page.locator('main [role="status"]')).to_contain_text(f"{len(kernels)} of {len(kernels)} kernels")
    assert "each=0" in page.evaluate("location.hash")


def test_the_last_best_kernels_are_news(board_corpus: Path, kernels: list[dict[str, Any]], tmp_path: Path) -> None:
    corpus = Corpus.open(board_corpus)
    late, early = sorted({k["problem_id"] for k in kernels})[:2]
    best = {_champion(kernels, name)["kernel_id"]: name for name in (late, early)}
    days = {late: "2026-02-02T00:00:00Z", early: "2026-01-01T00:00:00Z"}
    rows = corpus.table("measurements").to_pylist()
    # A slower kernel that was measured later is no news.
    dated = [row | {"started_at": days.get(best.get(row["kernel_id"], ""), "2026-03-03T00:00:00Z")} for row in rows]
    with CorpusWriter(tmp_path / "corpus") as writer:
        writer.append("problems", corpus.table("problems"))
        writer.append("kernels", corpus.table("kernels"))
        writer.append("measurements", pa.Table.from_pylist(dated, schema=corpus.table("measurements").schema))
    news = [row for row in latest_records(Corpus.open(tmp_path / "corpus")) if row["problem_id"] in days]
    assert [(row["problem_id"], row["date"]) for row in news] == [(late, "2026-02-02"), (early, "2026-01-01")]
    assert {row["kernel_id"] for row in news} == {key[:12] for key in best}


def test_a_kernel_is_downloaded_beside_the_command_that_measures_it(tab: Any, kernels: list[dict[str, Any]]) -> None:
    kernel = kernels[0]
    page = tab.open(f"#/kernel/{kernel['problem_id']}/{kernel['kernel_id'][:12]}")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download", exact=True).click()
    assert download.value.path().read_text("utf-8") == kernel["source"]
    command = page.locator(".take pre").text_content()
    assert command == f"kbench measure {download.value.suggested_filename} --problem {kernel['problem_id']}"


FIGURES = {
    "#/problems": ("tbody td:not(:first-child)",),
    "#/problem/{problem}": (".tiles", ".answer", 'svg[aria-label="Best speedup so far by kernels measured"] path'),
    "#/kernel/{problem}/{kernel}": ("h1 + .lead", ".tiles", "ol.lineage > li"),
}
"""Where pages state figures that are of one GPU."""


def test_figures_are_of_the_main_gpu_where_some_kernels_have_a_second(
    board_corpus: Path, faceted: tuple[list[Results], dict[str, Any]], new_tab: Any, tmp_path: Path
) -> None:
    corpus, part = Corpus.open(board_corpus), "NVIDIA H200 (64 of 132 SMs)"
    kernels = [kernel for kernel in corpus.select().records() if isinstance(kernel, Kernel)]
    again = [dataclasses.replace(k, gpu=part, speedup=3 * k.speedup) for k in kernels if k.speedup and k.step % 2]
    with CorpusWriter(tmp_path / "corpus") as writer:
        for name in ("problems", "environments", "measurements", "references"):
            writer.append(name, corpus.table(name))
        writer.append("kernels", [*kernels, *again])
    results, facts = faceted
    site = build(results, facts, tmp_path / "site", corpus=Corpus.open(tmp_path / "corpus"))
    kernel = next(k for k in again if k.parent_id)
    one, two = new_tab(), new_tab(site)
    for link, places in FIGURES.items():
        pages = [tab.open(link.format(problem=kernel.problem_id, kernel=kernel.kernel_id)) for tab in (one, two)]
        for place in places:
            wanted, shown = ([each.evaluate("e => e.outerHTML") for each in p.locator(place).all()] for p in pages)
            assert shown == wanted != [], (link, place)
    assert two.page.locator("main h3").all_text_contents() == [kernels[0].gpu, part]


LINKS = (
    "#/", "#/leaderboard?track=forecast", "#/entry/length-1-0-0", "#/problem/{problem}", "#/kernels",
    "#/kernel/{problem}/{kernel}", "#/compare", "#/history", "#/problems", "#/dataset", "#/submit", "#/nowhere",
)  # fmt: skip


@pytest.mark.parametrize("how", [{}, {"size": (390, 844), "scheme": "dark"}], ids=["desktop", "dark phone"])
def test_pages_pass_axe_and_none_overflows(how: dict[str, Any], new_tab: Any, kernels: list[dict[str, Any]]) -> None:
    opened = new_tab(**how)
    kernel = next(k for k in kernels if k["split"] == "test" and k["parent_id"] and k["speedup"])
    wrong = []
    for link in LINKS:
        page = opened.open(link.format(problem=kernel["problem_id"], kernel=kernel["kernel_id"][:12]))
        found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"]})
        if found.violations_count:
            wrong.append(f"{link}\n{found.generate_report()}")
        if not page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
            wrong.append(f"{link} overflows")
    assert not wrong, "\n".join(wrong)


def test_slices_of_few_problems_are_undecided(
    faceted: tuple[list[Results], dict[str, Any]], new_tab: Any, tmp_path: Path
) -> None:
    results, facts = faceted
    page_path = build(results, facts | {"least_problems": 2}, tmp_path)
    opened = new_tab(page_path)
    page = opened.open("#/leaderboard?track=forecast")
    assert all(text.lstrip("=")[0].isdigit() for text in opened.column("place"))
    assert "of 2 problems" in page.locator('main [role="status"]').text_content()
    page.locator('select[data-facet="family"]').select_option(facts["facets"]["family"][0])
    opened.settled()
    assert set(opened.column("place")) == {"undecided"}
    assert "of 1 problem; undecided: fewer than 2 problems" in page.locator('main [role="status"]').text_content()
    page.locator('button[data-track="overall"]').click()
    opened.settled()
    assert set(opened.column("place")) == {"undecided"}


def test_the_page_states_what_was_scored(tab: Any, faceted: tuple[list[Results], dict[str, Any]]) -> None:
    scope = faceted[1]["scope"]
    for link in ("#/", "#/dataset"):
        text = tab.open(link).locator("main").text_content()
        assert (
            f"{scope['queries']:,} queries about {scope['kernels']:,} candidate kernels of {scope['problems']} problems"
            in text
        )
        assert "labels of this split are public" in text
        assert "A season is the remedy" in text
