"""The site: one folder, no other host, untrusted text inert, every number downloadable."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html.parser
import json
import re
from pathlib import Path
from typing import Any

import pytest

from kbench.leaderboard.scoring.results import Results
from kbench.leaderboard.site.build import build, page_data
from kbench.schemas import Submission, UserError, json_schema

HOSTILE_TEXT = '</script><script>window.taken=1</script><img src=x onerror="window.taken=1"> "\'&'


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


def hostile_entry(result: Results) -> Results:
    """The entry with markup in every text field that the schema lets through."""
    meta = dataclasses.replace(
        result.submission, name="hostile", authors=(HOSTILE_TEXT,), organisation=HOSTILE_TEXT, license=HOSTILE_TEXT,
        hardware=HOSTILE_TEXT, training_data=HOSTILE_TEXT, contamination=HOSTILE_TEXT, created_at=HOSTILE_TEXT,
        links=("https://example.org/?a=1&b=%3Cscript%3E",),
    )  # fmt: skip
    return dataclasses.replace(result, submission=meta, flags=[HOSTILE_TEXT])


@pytest.fixture(scope="module")
def page(faceted: tuple[list[Results], dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    results, facts = faceted
    return build([*results, hostile_entry(results[0])], facts, tmp_path_factory.mktemp("site"))


def test_only_the_page_s_own_script_and_style_may_run(page: Path) -> None:
    found = Page(page.read_text("utf-8"))
    policy = next(a["content"] for tag, a in found.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    scripts = [text for text in found.inline["script"] if not text.startswith("{")]
    for kind, texts in (("script-src", scripts), ("style-src", found.inline["style"])):
        assert len(texts) == 1
        digest = base64.b64encode(hashlib.sha256(texts[0].encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy


def test_markup_in_submissions_makes_no_element(page: Path) -> None:
    found = Page(page.read_text("utf-8"))
    assert [tag for tag, _ in found.elements].count("script") == 2
    assert not [tag for tag, _ in found.elements if tag in ("img", "iframe", "object", "embed", "link", "base", "form")]
    assert not [name for _, attributes in found.elements for name in attributes if name.startswith("on")]
    embedded = json.loads(next(text for text in found.inline["script"] if text.startswith("{")))
    (entry,) = [entry for entry in embedded["entries"] if entry["name"] == "hostile"]
    assert entry["hardware"] == HOSTILE_TEXT


def test_the_page_names_no_other_host_but_entries_links(page: Path) -> None:
    text = page.read_text("utf-8")
    assert set(re.findall(r"(?:https?:)?//[a-z0-9.]+", text)) == {"https://example.org", "http://www.w3.org"}


def test_every_number_on_the_page_is_in_a_file_beside_it(page: Path) -> None:
    found = Page(page.read_text("utf-8"))
    embedded = json.loads(next(text for text in found.inline["script"] if text.startswith("{")))
    board = json.loads((page.parent / "data" / "leaderboard.json").read_text("utf-8"))
    for entry, brief in zip(embedded["entries"], board["entries"], strict=True):
        own = json.loads((page.parent / "data" / f"{entry['id']}.json").read_text("utf-8"))
        assert own == {"columns": embedded["columns"], **entry}
        assert brief["all"] == entry["scores"]["all"]
    rest = {key: value for key, value in embedded.items() if key != "entries"}
    assert {key: value for key, value in board.items() if key != "entries"} == rest


def test_the_how_to_submit_page_lists_every_field_of_the_schema(page: Path) -> None:
    text = page.read_text("utf-8")
    for name in json_schema(Submission)["properties"]:
        assert f"<td>{name}" in text
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", text)


def test_places_show_figures_as_they_are_measured(results: list[Results], faceted: tuple[Any, dict[str, Any]]) -> None:
    data = page_data(results, faceted[1])
    for place in data["track_ranks"]["select"]:
        result = next(result for result in results if result.entry_id == place["id"])
        assert place["figure"] == pytest.approx(result.value("select", "aurc"), rel=1e-4)


def test_results_of_two_datasets_are_not_put_in_one_table(results: list[Results], tmp_path: Path) -> None:
    other = dataclasses.replace(results[1], dataset_fingerprint="0" * 32)
    with pytest.raises(UserError, match="differ in dataset_fingerprint"):
        build([results[0], other], {"fingerprint": "", "counts": {}, "bins": [], "facets": {}}, tmp_path)


def test_results_scored_with_other_resamples_are_not_put_in_one_table(results: list[Results], tmp_path: Path) -> None:
    fewer = {track: draws[:20] for track, draws in results[1].draws.items()}
    other = dataclasses.replace(results[1], resamples=20, draws=fewer)
    with pytest.raises(UserError, match=r"differ in resamples \(20, 50\)"):
        build([results[0], other], {"fingerprint": "", "counts": {}, "bins": [], "facets": {}}, tmp_path)


def test_results_of_two_splits_are_not_put_in_one_table(results: list[Results], tmp_path: Path) -> None:
    asked = results[1].scores[0].rows
    scores = [dataclasses.replace(score, rows=score.rows + 1) for score in results[1].scores]
    other = dataclasses.replace(results[1], scores=scores)
    with pytest.raises(UserError, match=rf"differ in the rows of forecast \({asked}, {asked + 1}\)"):
        build([results[0], other], {"fingerprint": "", "counts": {}, "bins": [], "facets": {}}, tmp_path)


def test_two_entries_of_one_name_and_version_are_refused(results: list[Results], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="appears twice"):
        build([results[0], results[0]], {"fingerprint": "", "counts": {}, "bins": [], "facets": {}}, tmp_path)


def test_the_dataset_page_counts_what_is_asked(faceted: tuple[Any, dict[str, Any]], page: Path) -> None:
    facts = faceted[1]
    assert sum(row["queries"] for row in facts["bins"]) > 0
    assert facts["fingerprint"] in page.read_text("utf-8")
