"""The site: one folder, no other host, untrusted text inert, every number downloadable."""

import base64
import dataclasses
import gzip
import hashlib
import html.parser
import itertools
import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbench.benchmark.metrics.forecast import rps_rows
from kbench.benchmark.questions import Questions
from kbench.benchmark.scoring.score import BootstrapSettings, score
from kbench.benchmark.tracks import OVERALL
from kbench.leaderboard.board import as_part, read_entries
from kbench.leaderboard.scoring.results import Results
from kbench.leaderboard.season_record import SEASONS
from kbench.leaderboard.site.build import build
from kbench.leaderboard.site.page import page_data
from kbench.leaderboard.site.scope import season_facts
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import Submission, UserError, json_schema


class Page(html.parser.HTMLParser):
    """Collects what a browser would act on."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inline: dict[str, list[str]] = {"script": [], "style": []}
        self._open: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open = tag if tag in self.inline else None

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self.inline[self._open].append(data)

    def handle_endtag(self, tag: str) -> None:
        self._open = None


def test_only_the_page_s_own_script_and_style_may_run(site: Path) -> None:
    found = Page(site.read_text("utf-8"))
    policy = next(a["content"] for tag, a in found.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; script-src 'self' 'sha256-")
    assert "unsafe" not in policy
    for (text,) in (found.inline["script"][1:], found.inline["style"]):
        assert f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in policy


def test_markup_in_submissions_makes_no_element(site: Path, hostile_text: str) -> None:
    found = Page(site.read_text("utf-8"))
    assert [tag for tag, _ in found.elements].count("script") == 2
    assert not [tag for tag, _ in found.elements if tag in ("img", "iframe", "object", "embed", "base", "form")]
    assert [a["rel"] for tag, a in found.elements if tag == "link"] == ["icon"]
    assert not [name for _, attributes in found.elements for name in attributes if name.startswith("on")]
    (entry,) = [entry for entry in embedded(site)["entries"] if entry["name"] == "hostile"]
    assert entry["authors"] == [hostile_text]
    assert unpacked(site, "entry/hostile-1-0-0")["hardware"] == hostile_text


def embedded(site: Path) -> Any:
    """What the first view draws from."""
    return json.loads(gzip.decompress(base64.b64decode(Page(site.read_text("utf-8")).inline["script"][0])))


def test_the_page_names_no_other_host_but_links(site: Path) -> None:
    text = site.read_text("utf-8") + json.dumps(embedded(site))
    hosts = set(re.findall(r"(?:https?:)?//[a-z0-9.]+\.[a-z]+", text))
    assert hosts == {"http://www.w3.org", "https://arxiv.org", "https://github.com"}


def test_every_number_on_the_page_is_in_a_file_beside_it(site: Path) -> None:
    shown = embedded(site)
    stated = json.loads((site.parent / "data" / "leaderboard.json").read_text("utf-8"))
    entries = {entry["id"]: entry for entry in stated.pop("entries")}
    assert stated.items() <= shown.items()
    scores, slices = unpacked(site, "scores"), unpacked(site, "slices")
    for entry in shown["entries"]:
        own = json.loads((site.parent / "data" / f"{entry['id']}.json").read_text("utf-8"))
        more = unpacked(site, f"entry/{entry['id']}")
        assert more.pop("draws").keys() >= {"forecast", "rank", "rank.kendall", "overall"}
        assert more.pop("core_draws").keys() >= {"forecast", "rank", "overall"}
        assert own == {"columns": shown["columns"], **entry, **more}
        assert own["scores"] == slices[entry["id"]]
        assert entries[entry["id"]].items() <= (own | {"scores": scores[entry["id"]]}).items()
        assert own["scores"]["all"] == scores[entry["id"]]["all"]
        headlines = [(i, score) for i, score in enumerate(entry["scores"]["all"]) if score]
        assert len(headlines) == len(shown["tracks"]) + 1, "of the tracks, and overall"
        assert all(score == own["scores"]["all"][i][:3] for i, score in headlines)


def test_links_show_a_picture(faceted: tuple[list[Results], dict[str, Any]], site: Path, tmp_path: Path) -> None:
    def named(page: Path) -> str | None:
        found = Page(page.read_text("utf-8")).elements
        return next(a["content"] for _, a in found if a.get("property") == "og:image")

    assert named(site) == "preview.png"
    size = site.with_name("preview.png").read_bytes()[16:24]
    assert struct.unpack(">II", size) == (1200, 630)
    elsewhere = build(*faceted, tmp_path, address="https://example.org/kbench/")
    assert named(elsewhere) == "https://example.org/kbench/preview.png"


def unpacked(site: Path, name: str) -> Any:
    """A shard's data, as the page reads it."""
    text = (site.parent / "data" / f"{name}.js").read_text("ascii")
    stated, packed = json.loads("[" + text.removeprefix("kbench(").removesuffix(");\n") + "]")
    assert stated == name
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def test_the_atlas_shows_what_the_corpus_holds(site: Path, board_corpus: Path) -> None:
    kernels = Corpus.open(board_corpus).table("kernels").to_pylist()
    table = unpacked(site, "kernels")
    assert sorted(table["id"]) == sorted(row["kernel_id"][:12] for row in kernels)
    for summary in unpacked(site, "problems"):
        data = unpacked(site, f"problem/{summary['id']}")
        rows = [dict(zip(data["columns"], row, strict=True)) for row in data["kernels"]]
        stated = {row["kernel_id"]: row for row in kernels if row["problem_id"] == summary["id"]}
        assert {row["kernel_id"]: data["sources"][row["source"]] for row in rows} == {
            kernel_id: row["source"] for kernel_id, row in stated.items()
        }
        best = max(row["speedup"] or 0 for row in stated.values())
        assert summary["best"] == pytest.approx(best, rel=1e-3)
        assert data["references"][0]["vendor_us"] == 50


def test_the_index_of_words_finds_exactly_the_sources_that_hold_them(site: Path, board_corpus: Path) -> None:
    sources = {row["kernel_id"][:12]: row["source"] for row in Corpus.open(board_corpus).table("kernels").to_pylist()}
    ids, index = unpacked(site, "kernels")["id"], unpacked(site, "words")
    for word in ("wgmma", "static_range", "mma_async"):
        ends = list(itertools.accumulate(index[word]))
        found = {ids[at] for start, end in zip(ends[::2], ends[1::2], strict=True) for at in range(start, end)}
        assert found == {short for short, source in sources.items() if word in source}


def test_forecasts_and_misses_are_the_entry_s(site: Path, submissions: dict[str, Path], questions: Questions) -> None:
    (length,) = read_entries([submissions["length"]], questions)
    pairs, given = questions.pairs, length.table.probabilities.mean(axis=0)
    problem = str(pairs.problem[0])
    shown = unpacked(site, f"forecasts/{problem}")["forecasts"]["length-1-0-0"]
    expected = given[pairs.query[pairs.problem == problem]]
    assert np.abs(np.array(shown) / 1000 - expected).max() <= 0.00051
    misses = unpacked(site, "entry/length-1-0-0")["misses"]
    costs = np.sort(rps_rows(given[pairs.query], pairs.bin))[::-1]
    assert [miss["rps"] for miss in misses] == pytest.approx(costs[: len(misses)], rel=1e-3)


def test_reliability_counts_every_forecast_within_its_interval(site: Path, questions: Questions) -> None:
    buckets = unpacked(site, "entry/length-1-0-0")["reliability"]
    assert sum(count for *_, count in buckets) == len(questions.pairs)
    assert all(low <= accuracy <= high for _, accuracy, low, high, _ in buckets)


def test_the_how_to_submit_page_lists_every_field_of_the_schema(site: Path) -> None:
    text = site.read_text("utf-8")
    for name in json_schema(Submission)["properties"]:
        assert f"<td>{name}" in text
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", text)


def test_places_show_figures_as_they_are_measured(results: list[Results], faceted: tuple[Any, dict[str, Any]]) -> None:
    data = page_data(results, faceted[1])
    for track, metric in (("select", "problem_sign_aurc"), ("overall", "overall")):
        for place in data["places"][track]:
            result = next(result for result in results if result.entry_id == place["id"])
            assert place["figure"] == pytest.approx(result.value(track, metric), rel=1e-4)


def test_two_entries_of_one_id_are_refused(results: list[Results], faceted: tuple[Any, Any], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="appears twice"):
        build([results[0], results[0]], faceted[1], tmp_path)


def test_a_build_removes_old_files(results: list[Results], faceted: tuple[Any, dict[str, Any]], tmp_path: Path) -> None:
    build(results, faceted[1], tmp_path)
    mine = [tmp_path / "data" / "mine.json", tmp_path / "CNAME"]
    for path in mine:
        path.write_text("{}")
    listed = json.loads((tmp_path / "data" / "files.json").read_text())
    # A list that someone has changed removes nothing outside the data.
    (tmp_path / "data" / "files.json").write_text(json.dumps([*listed, "CNAME", "data/../CNAME", 5]))
    gone, *left = results
    build(left, faceted[1], tmp_path)
    assert f"data/{gone.entry_id}.json" in listed
    assert not (tmp_path / "data" / f"{gone.entry_id}.json").exists()
    assert not (tmp_path / "data" / "entry" / f"{gone.entry_id}.js").exists()
    assert all((tmp_path / "data" / f"{one.entry_id}.json").exists() for one in left)
    assert all(path.exists() for path in mine)


def _with_core(result: Results) -> Results:
    """Core is all there is, and worth half as much."""
    whole = [one for one in result.scores if one.slice == "all"]
    halves = [None if one.value is None else one.value / 2 for one in whole]
    on_core = [dataclasses.replace(one, slice="core", value=half) for one, half in zip(whole, halves, strict=True)]
    return dataclasses.replace(result, scores=[*result.scores, *on_core], core_draws=result.draws)


def test_core_alone_is_ranked_too(faceted: tuple[list[Results], dict[str, Any]], new_tab: Any, tmp_path: Path) -> None:
    results, facts = [_with_core(result) for result in faceted[0]], faceted[1]
    best = max(results, key=lambda result: result.value("forecast", "skill") or -1.0)
    whole = dataclasses.replace(best, submission=dataclasses.replace(best.submission, name="core only"))
    on_core = [dataclasses.replace(one, slice="all") for one in best.scores if one.slice == "core"]
    unknown = {"seconds_per_1000": None, "tokens_per_1000": None}
    part = as_part(dataclasses.replace(whole, scores=on_core, cost=unknown), "core")
    data = page_data([*results, part], facts)
    assert [one["part"] for one in data["entries"]] == [None] * len(results) + ["core"]
    assert list(data["entries"][-1]["scores"]) == ["core"]
    places = {place["id"]: place["rank"] for place in data["places"]["forecast"]}
    assert places[part.entry_id] == places[best.entry_id] == 1, "half as much on core, and so has everyone"
    site = build([*results, part], facts, tmp_path)
    assert [one["id"] for one in embedded(site)["entries"] if one["part"] == "core"] == [part.entry_id]
    opened = new_tab(site)
    for link in ("#/", "#/leaderboard"):
        row = opened.open(link).locator(f'tr[data-entry="{part.entry_id}"]')
        assert "on core" in row.text_content()
        assert "[" in row.text_content(), "its figures and their intervals stand in the row"
    board = opened.open("#/leaderboard")
    count = board.locator("p.note[role=status]").text_content()
    assert f"{len(results) + 1} of {len(results) + 1} entries, 1 of them on core alone" in count
    own = opened.open(f"#/entry/{part.entry_id}").locator("main")
    own.get_by_role("link", name="the ranking on core").wait_for()
    ceilings = own.get_by_role("region", name="Scores").locator("tbody td:last-child").all_text_contents()
    assert any(text != "—" for text in ceilings)
    assert "Headlines by slice" not in own.text_content(), "it has no slices"
    own.get_by_role("link", name="the ranking on core").click()
    opened.page.locator("p.note[role=status]", has_text="core, a fixed part").wait_for()
    chart = opened.open("#/").locator("svg.chart").first
    assert "not stated" in chart.locator("text").all_text_contents(), "what it costs"
    assert chart.get_by_label("core only").locator("circle").get_attribute("class") == "ring-one"


def test_probes_stand_beside_the_headlines_and_the_strongest_marks_those_it_reaches(
    faceted: tuple[list[Results], dict[str, Any]],
    questions: Questions,
    submissions: dict[str, Path],
    new_tab: Any,
    tmp_path: Path,
) -> None:
    results, facts = faceted
    (length,) = read_entries([submissions["length"]], questions)
    scored = score(questions, length.table, BootstrapSettings(resamples=50), sliced=False)
    data = page_data(results, facts, {"layout": scored})
    assert data["probes"]["forecast"]["value"] == pytest.approx(scored.figures["forecast"]["skill"].value, rel=1e-3)
    best = max(results, key=lambda result: result.value("forecast", "skill") or -1)
    assert data["probes"]["forecast"]["reached"] == (best.submission.name == "length")
    assert page_data(results, facts)["probes"] == {}
    board = new_tab(build(results, facts, tmp_path, probes={"layout": scored})).open("#/leaderboard?track=forecast")
    names = board.locator("tbody tr td:first-child")
    board.locator("tbody tr.probe").wait_for()
    order = [text.split("baseline")[0].strip() for text in names.all_text_contents()]
    above = {result.submission.name for result in results
             if (result.value("forecast", "skill") or 0) > data["probes"]["forecast"]["value"] + 1e-4}  # fmt: skip
    assert set(order[: order.index("probe: layout")]) - {"length"} == above - {"length"}
    board.locator('th[data-column="cost"] button').click()
    assert board.locator("tbody tr.probe").count() == 0, "it has a place where headlines order the table"


def test_closed_seasons_show_what_entries_scored() -> None:
    closed = [one for one in season_facts(SEASONS) if one["closed_at"]]
    assert closed
    for season in closed:
        assert set(season["entries"]) < set(season["results"]), "the look-up baseline is there too"
        assert all({"forecast", "rank", "select", OVERALL} <= scores.keys() for scores in season["results"].values())
