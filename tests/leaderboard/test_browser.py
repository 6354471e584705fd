"""The page in a real browser, loaded from disk: every visitor's action, no console message, no other host."""

import re
from pathlib import Path
from typing import Any

import pytest

from kbench.leaderboard.scoring.results import Results


def test_the_front_page_leads_with_the_ranking_and_what_is_new(tab: Any) -> None:
    page = tab.open("#/")
    assert page.locator("main h2").all_text_contents()[:3] == [
        "Who forecasts best",
        "What is new",
        "Quality against cost",
    ]
    rows = page.get_by_role("region", name="Ranking").locator("tbody tr")
    ranks = [int(text) for text in rows.locator(".rank").all_text_contents()]
    assert ranks == sorted(ranks)
    assert all("[" in text for text in rows.locator("td:nth-child(2)").all_text_contents()), "with intervals"
    assert "0 is what the frequencies of the training data reach" in page.locator("main").text_content()
    page.locator(".news a").first.click()
    assert page.evaluate("location.hash").startswith("#/entry/")


def test_an_entry_is_compared_with_the_next_better_one_by_default(tab: Any) -> None:
    page = tab.open("#/leaderboard")
    order = [row.get_attribute("data-entry") for row in page.locator("tbody tr").all()]
    for entry, other in ((order[2], order[1]), (order[0], order[1])):
        chosen = tab.open(f"#/entry/{entry}").locator("select[data-compare]")
        chosen.wait_for()
        assert chosen.input_value() == other


def test_a_click_on_a_heading_sorts_and_a_second_click_turns_the_order(tab: Any) -> None:
    page = tab.open("#/leaderboard?track=forecast")
    heading = page.locator('th[data-column="log_score"]')
    heading.locator("button").click()
    first = [float(text.split()[0]) for text in tab.column("log_score")]
    assert first == sorted(first)
    assert heading.get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Enter")
    assert [float(text.split()[0]) for text in tab.column("log_score")] == sorted(first, reverse=True)
    assert heading.get_attribute("aria-sort") == "descending"
    assert page.locator('th[aria-sort="none"]').count() == page.locator("main thead th").count() - 1
    tab.open(page.evaluate("location.hash"))
    assert [float(text.split()[0]) for text in tab.column("log_score")] == sorted(first, reverse=True)


def test_a_filter_recomputes_ranks_and_figures(tab: Any, faceted: tuple[list[Results], dict[str, Any]]) -> None:
    results, facts = faceted
    page = tab.open("#/leaderboard?track=forecast")
    family = facts["facets"]["family"][0]
    page.locator('select[data-facet="family"]').focus()
    page.locator('select[data-facet="family"]').select_option(family)
    tab.settled()
    expected = {
        result.submission.name: next(
            s.value for s in result.scores
            if (s.track, s.metric, s.slice) == ("forecast", "skill", f"family={family}")
        )
        for result in results
    }  # fmt: skip
    shown = dict(zip(tab.names(), tab.column("skill"), strict=True))
    for name, value in expected.items():
        assert float(shown[name].split()[0].replace("−", "-")) == pytest.approx(value, abs=6e-4)
    best = max(expected.values(), key=lambda value: value or 0.0)
    ranks = dict(zip(tab.names(), tab.column("place"), strict=True))
    assert all(ranks[name].lstrip("=").startswith("1") for name, value in expected.items() if value == best)
    assert page.evaluate("document.activeElement.dataset.facet") == "family"
    assert f"family={family}" in page.evaluate("decodeURIComponent(location.hash)")


def test_a_filter_recomputes_the_overall_ranking_too(tab: Any, faceted: tuple[list[Results], dict[str, Any]]) -> None:
    page = tab.open("#/leaderboard")
    unfiltered = tab.column("overall")
    page.locator('select[data-facet="family"]').select_option(faceted[1]["facets"]["family"][1])
    tab.settled()
    assert len(tab.column("overall")) == len(unfiltered)
    assert min(int(text.split()[0].lstrip("=")) for text in tab.column("place")) == 1
    page.locator('select[data-facet="access"]').select_option("closed")
    tab.settled()
    assert tab.names() == []
    assert "0 of 4 entries" in page.locator('[role="status"]').text_content()


def test_searching_keeps_matching_entries_and_the_link(tab: Any) -> None:
    page = tab.open("#/leaderboard")
    page.locator('input[type="search"]').press_sequentially("LENG")
    assert tab.names() == ["length"]
    tab.open(page.evaluate("location.hash"))
    assert tab.names() == ["length"]
    assert page.locator('input[type="search"]').input_value() == "LENG"


def test_an_entry_opens_with_its_curves_scores_and_slices(tab: Any) -> None:
    page = tab.open("#/leaderboard")
    page.get_by_role("link", name="length", exact=True).click()
    tab.wait_for_heading(re.compile("^length"))
    for title in ("Reliability", "Risk against coverage", "Regret against budget"):
        card = page.locator(".card", has=page.get_by_role("heading", name=title))
        assert card.locator("path").first.get_attribute("d").count("L") >= 1
    assert page.get_by_role("region", name="Scores").locator("tbody tr").count() > 15
    assert page.get_by_role("region", name="Headlines by slice").locator("tbody tr").count() >= 2
    page.go_back()
    tab.wait_for_heading("Leaderboard")
    assert len(tab.names()) == 4


def test_two_entries_are_compared_side_by_side_by_default_the_two_best(tab: Any) -> None:
    tab.open("#/leaderboard")
    best = tab.names()[:2]
    page = tab.open("#/entry/length-1-0-0")
    page.locator("select[data-compare]").select_option("prior-1-0-0")
    page.get_by_role("button", name="Compare").click()
    tab.wait_for_heading("length against prior")
    assert page.locator("main table").first.locator("thead th").all_text_contents()[3:5] == ["length", "prior"]
    assert page.locator("path.one").count() == page.locator("path.two").count() == 3
    page.locator('header nav a[data-page="compare"]').click()
    tab.wait_for_heading(" against ".join(best))
    assert page.locator('select[aria-label="Entry 1"]').count() == 1


def test_the_theme_switches_and_stays(tab: Any) -> None:
    page = tab.open("#/leaderboard")
    light = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.get_by_role("button", name="Light / dark").click()
    dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert dark != light
    tab.open("#/dataset")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == dark


@pytest.mark.parametrize(
    ("link", "heading"),
    [("#/dataset", "Dataset"), ("#/submit", "How to submit"), ("#/entry/nobody", "Not found"),
     ("#/%E0%A4%A", "Not found"), ("#/nowhere", "Not found"), ("#/problem/nothing", "Not found"),
     ("#/kernel/abcd", "Not found"), ("#/kernel/__proto__/abcd", "Not found"), ("#/history", "Entries by date"),
     ("#/?track=nothing&family=nothing&sort=nothing", "Leaderboard")],
)  # fmt: skip
def test_deep_links_open_what_they_name(link: str, heading: str, tab: Any) -> None:
    assert tab.open(link).locator("h1").first.text_content() == heading


def test_markup_in_a_submission_is_shown_and_never_run(tab: Any, hostile_text: str) -> None:
    page = tab.open("#/entry/hostile-1-0-0")
    text = page.locator("main").text_content()
    assert text.count(hostile_text) == 8
    assert page.evaluate("window.taken") is None
    assert page.locator("main img, main script").count() == 0
    link = page.locator('main a[href^="https://"]')
    assert link.get_attribute("rel") == "noopener noreferrer nofollow"


def test_the_policy_stops_a_script_that_got_into_the_page(tab: Any) -> None:
    opened = tab.open()
    opened.evaluate(
        "const s = document.createElement('script'); s.textContent = 'window.taken = 1'; document.body.append(s);"
        "const i = document.createElement('img'); i.src = 'https://example.org/x.png'; document.body.append(i);"
    )
    assert opened.evaluate("window.taken") is None
    opened.wait_for_timeout(100)
    assert tab.outside == []
    assert any("Content Security Policy" in error for error in tab.errors)
    tab.errors.clear()


@pytest.mark.parametrize("track", ["overall", "forecast", "edit", "rank", "select"])
def test_every_column_of_a_track_is_seen_without_scrolling_on_a_desktop(track: str, tab: Any) -> None:
    table = tab.open(f"#/leaderboard?track={track}").locator("main .scroll").first
    assert table.evaluate("part => part.scrollWidth <= part.clientWidth")


def test_without_scripts_the_ranking_is_still_there(browser: Any, site: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.goto(site.as_uri())
    assert opened.locator("main table tbody tr").count() == 4
    context.close()
