"""What an explanation says and draws."""

import dataclasses
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from kbench.benchmark.work.explain import Forecast, LaunchFacts, LineFacts, WorkloadFacts, compare_facts
from kbench.benchmark.work.render import NAMES, caution, comparison_text, draw, duration, plain_name, table, text_of

LAUNCH = LaunchFacts("_Z4reluILi4EEvPKf", 1, (8, 1, 1), 128, 32, 0, 0, 8, 0.5, 1, 90.0, "dram")
FACTS = WorkloadFacts(
    workload="large", gpu="H200", configurations=1, launches=(LAUNCH,), fills_and_copies=0, instructions=1e6, flops={},
    load_bytes=2e8, store_bytes=2e8, sectors_per_request=4.0, sectors_per_store=32.0,
    load_sectors_used=1.0, store_sectors_used=0.125, l1_unsure=0.5, l2_bytes=4e8, dram_bytes=237e6, min_bytes=268e6,
    shared_wavefronts=10.0, bank_conflicts=0.0, atomics=0.0, uncertain=0.0, pipes={"alu": 0.75, "fma": 0.25},
    parts_us=dict.fromkeys(NAMES, 1.0) | {"dram": 90.0}, bound="dram", bound_us=50.0, white_box_us=90.0,
    forecast=Forecast(90.0, 60.0, 200.0), lines=(LineFacts(1, 0.5, "l2_bytes"),),
)  # fmt: skip


def test_each_figure_of_bytes_says_what_it_counts() -> None:
    said = "\n".join(text_of(FACTS, "y = x"))
    assert "237 MB of DRAM (of 268 MB: the rest stays in L2)" in said
    assert "at least 50 us at the GPU's stated rate for 237 MB" in said
    assert "50 % of L2 bytes (59 % of them reach DRAM, of which lines is not known)  y = x" in said
    assert "10 shared-memory wavefronts" in said
    assert "4.0 sectors per load (100 % of them used), 32.0 sectors per store (12 % of them used)" in said
    assert "unsure: 50 % of the sectors loaded are taken to be in L1" in said
    again = "\n".join(text_of(dataclasses.replace(FACTS, dram_bytes=536e6), ""))
    assert "536 MB of DRAM (2x the problem's data)" in again
    short = "\n".join(text_of(dataclasses.replace(FACTS, dram_bytes=1e6), ""))
    assert "1 MB of DRAM (of 268 MB)" in short
    assert "decide were counted short" in short


def test_a_table_shows_figures_that_are_not_zero_with_their_ratio() -> None:
    other = dataclasses.replace(
        FACTS, dram_bytes=474e6, flops={32: 3e9}, white_box_us=1234.56, pipes={"alu": 0.5, "fma": 0.5}
    )
    rows = {line.split(" | ")[0]: line for line in table({"old": FACTS, "new": other})}
    assert next(iter(rows)) == "| workload large"
    assert rows["| DRAM bytes"] == "| DRAM bytes | 237 M | 474 M | 2 |"
    assert rows["| share of integer units"] == "| share of integer units | 75 % | 50 % | 0.667 |"
    assert rows["| tensor operations, tf32"] == "| tensor operations, tf32 | 0 | 3 G | - |"
    assert rows["| white-box time in us"] == "| white-box time in us | 90.0 | 1,234.6 | 13.7 |"
    assert rows["| bound by"] == "| bound by | DRAM traffic (90.0 us alone) | DRAM traffic (90.0 us alone) | - |"
    assert "| atomics" not in rows
    (alone,) = [line for line in table({"one": FACTS}) if line.startswith("| blocks")]
    assert alone == "| blocks | 8 |"
    far = dataclasses.replace(FACTS, dram_bytes=1000.0)
    assert any(line.endswith("| 1,000 | 237 M | 237,000 |") for line in table({"old": far, "new": FACTS}))


def test_a_grid_that_leaves_multiprocessors_without_a_block_is_named_and_so_is_the_rate_of_the_others() -> None:
    said = "\n".join(text_of(FACTS, ""))
    assert "relu<…>, counted 90 us, 8 blocks of 128 threads in 1 wave" in said
    assert "have a block" not in said
    few = dataclasses.replace(LAUNCH, grid=(1, 1, 1), multiprocessors=(1, 132))
    said = "\n".join(text_of(dataclasses.replace(FACTS, launches=(few,)), ""))
    assert "1 block of 128 threads in 1 wave" in said
    assert "1 of 132 multiprocessors have a block" in said
    assert "at least 50 us at the stated rate of the 1 of 132 multiprocessors that have a block for 237 MB" in said
    half = dataclasses.replace(LAUNCH, multiprocessors=(66, 132))
    # Half of the multiprocessors can use all of memory's rate, but not all of the float units.
    for bound, rate in (("dram", "at the GPU's stated rate"), ("fma", "the stated rate of the 66 of 132")):
        said = "\n".join(text_of(dataclasses.replace(FACTS, launches=(half,), bound=bound), ""))
        assert rate in said


def test_two_files_are_told_what_bounds_either() -> None:
    slower = dataclasses.replace(FACTS, parts_us={**FACTS.parts_us, "fma": 2313.0}, bound="fma", white_box_us=2313.0)
    slower = dataclasses.replace(slower, forecast=Forecast(2313.0, 60.0, 2900.0))
    assert "  both are bound by DRAM traffic" in comparison_text(compare_facts(FACTS, FACTS))
    first, *said = comparison_text(compare_facts(FACTS, slower))
    assert first.startswith("large: forecast 90 us and 2,310 us; the second is 25.70x slower")
    assert said[0] == "  bound by DRAM traffic before, by float units now"
    assert said[1] == "  the largest change is float units: 1 us before, 2,310 us now"


@pytest.mark.parametrize(
    ("time_us", "text"),
    [(0.05, "0.05 us"), (2.5, "2.5 us"), (999.4, "999 us"), (999.6, "1,000 us"), (2313, "2,310 us")],
)
def test_durations_have_three_digits_and_no_exponent(time_us: float, text: str) -> None:
    assert duration(time_us) == text


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("relu", "relu"), ("_Z4reluILi4EEvPKf", "relu<…>"), ("_ZN2ns4nameEv", "ns::name"), ("_Zodd", "_Zodd"),
        ("_Z4reluPf", "relu"),
    ],
)  # fmt: skip
def test_a_symbol_is_shown_as_its_name(symbol: str, name: str) -> None:
    assert plain_name(symbol) == name


def test_only_gpus_without_measured_times_are_cautioned_about() -> None:
    assert caution("H200") is None
    assert caution("A100") == "calibrated on H200; other GPUs are extrapolated"


@pytest.mark.parametrize("count", [1, 2])
def test_labels_lie_above_bars(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Figure] = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda figure, *a, **k: (drawn.append(figure), save(figure, *a, **k)))
    later = dataclasses.replace(FACTS, forecast=Forecast(180.0, 150.0, 250.0))
    draw({f"{at}.py": [one] for at, one in enumerate([FACTS, later][:count])}, tmp_path / "plot.png")
    (axes,) = drawn[0].axes
    assert axes.get_xlim()[1] > [200.0, 250.0][count - 1]
    top = max(bar.get_y() + bar.get_height() for bars in axes.containers for bar in bars.patches)
    labels = [text for text in axes.texts if text.get_text().startswith("forecast")]
    canvas = FigureCanvasAgg(drawn[0])
    canvas.draw()
    renderer = canvas.get_renderer()
    boxes = [text.get_window_extent(renderer).transformed(axes.transData.inverted()) for text in labels]
    assert len(boxes) == count
    assert all(box.y0 >= top for box in boxes)
    if count == 2:
        legend = axes.get_legend()
        assert legend.get_window_extent(renderer).x0 >= axes.get_window_extent(renderer).x1
