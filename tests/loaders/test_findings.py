"""The card's findings: computed from the rows, shown in the card, and explained where they are extreme."""

import csv
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner
from records import filled

from kbench.benchmark.problems.registry import known
from kbench.benchmark.training.cli import export as export_command
from kbench.loaders.card.card import gpus_in_words, render_card
from kbench.loaders.card.croissant import croissant
from kbench.loaders.card.findings import (
    PEAKS,
    costs_of,
    errata,
    errata_of,
    findings_of,
    peaks_of,
    remarks_of,
    weaknesses,
)
from kbench.loaders.card.plots import CAPTIONS, progress, render_plots
from kbench.loaders.corpus.configs import CONFIGS
from kbench.loaders.corpus.corpus import Corpus, load
from kbench.loaders.corpus.places import shipped
from kbench.loaders.corpus.writer import CorpusWriter, refresh
from kbench.loaders.exporters import export
from kbench.loaders.summary.coverage import coverage_of, timed
from kbench.loaders.summary.trust import trust_of
from kbench.schemas import PlanSummary, Status, UserError, arrow_schema
from kbench.schemas.bins import LABELS
from kbench.schemas.ids import kernel_id

from .conftest import make_kernel, make_measurement, make_reference


@pytest.fixture(scope="module", autouse=True)
def drawn(drawing: Any) -> Iterator[None]:
    with drawing():
        yield


@pytest.fixture(scope="module")
def dataset() -> Corpus:
    return Corpus.open()


def test_the_largest_speedups_of_the_shipped_dataset_are_explained(dataset: Corpus) -> None:
    peaks = peaks_of(timed(dataset, dataset.main_gpu()))
    assert len(peaks) == PEAKS
    assert [peak.problem_id for peak in peaks if peak.problem_id not in weaknesses()] == []
    assert sorted(set(weaknesses()) - set(known())) == []
    rows = load(status="ok", gpu="H200", columns=["problem_id", "runtime_us", "speedup"]).to_pandas()
    fastest = rows.sort_values("runtime_us").drop_duplicates("problem_id").nlargest(PEAKS, "speedup")
    assert [peak.speedup for peak in peaks] == fastest["speedup"].to_list()


def test_peaks_say_how_far_the_best_reference_is_beaten_or_that_none_was_timed(tmp_path: Path) -> None:
    figures = {"runtime_low_us": None, "runtime_high_us": None, "speedup_low": None, "speedup_high": None}
    same = {"gpu": "NVIDIA H200", "status": Status.OK, "error": None, "runtime_us": 10.0, **figures}
    known_best = make_kernel(1, problem_id="softmax", speedup=4.0, speedup_best=2.5, **same)
    unknown = make_kernel(2, problem_id="rms_norm", speedup=3.0, speedup_best=None, **same)
    with CorpusWriter(tmp_path / "corpus") as writer:
        writer.append("kernels", [known_best, unknown])
        writer.append("references", [make_reference("softmax")])
    card = (tmp_path / "corpus" / "README.md").read_text()
    assert "| `softmax` | 4.0× | 2.5× |" in card
    assert "| `rms_norm` | 3.0× | not timed |" in card
    assert "config `references` has for 1 of 2 problems, on NVIDIA H200 alone" in card
    assert "| problems whose best kernel beats PyTorch | 2 of 2 |" in card
    assert "divide their runtimes, not their speedups" in card
    assert "| `runtime_low_us` | double | Lower end of its 95 % interval. It allows 0.6 % between machines" in card


def test_times_that_are_too_short_are_counted_as_their_filter_finds_them(tmp_path: Path) -> None:
    same = {"backend": "triton", "status": Status.OK, "error": None, "runtime_us": 10.0, "runtime_low_us": None}
    kernels = [make_kernel(n, **same, runtime_high_us=None) for n in range(4)]
    early = {"trust": "plan", "started_at": "2026-11-16T10:00:00+00:00", "shared_bytes": 1024}
    changes: list[dict[str, Any]] = [
        {},
        {"shared_bytes": 49_153},
        {"started_at": "2026-11-17T00:00:01+00:00"},
        {"trust": None},
    ]
    rows = [make_measurement(k, **early | change) for k, change in zip(kernels, changes, strict=True)]
    planned = filled(PlanSummary, like=rows[0], registers=None, fills=1)
    with CorpusWriter(tmp_path / "corpus") as writer:
        writer.append("kernels", kernels)
        writer.append("measurements", rows)
        writer.append("plans", [planned])
    found = remarks_of(Corpus.open(tmp_path / "corpus")).early
    assert (found.measurements, found.filled, found.large, found.unplanned) == (2, 1, 1, 1)
    assert load(tmp_path / "corpus", config="measurements", where=found.where).count() == 2
    card = (tmp_path / "corpus" / "README.md").read_text()
    assert "2 measurements were timed by plan before 17 November 2026" in card
    assert f'where = "{found.where}"' in card


def test_the_card_counts_the_questions_that_are_scored_by_default(dataset: Corpus) -> None:
    card = (dataset.folders[0] / "README.md").read_text()
    line = next(line for line in card.splitlines() if line.startswith("| `test` | "))
    core = [
        dataset.select("questions", split="test", gpu=dataset.main_gpu(), core=part).count() for part in (True, False)
    ]
    assert line.endswith(f" | {sum(core):,} | {core[0]:,} |")


def test_partitions_of_a_gpu_are_not_counted_as_gpus() -> None:
    parts = ["NVIDIA H200", "NVIDIA H200 (64 of 132 SMs)", "NVIDIA H200 (32 of 132 SMs)"]
    words_for = "NVIDIA H200, whole and in partitions: 32 of 132 and 64 of 132 multiprocessors"
    assert gpus_in_words(parts) == f"one GPU ({words_for})"
    assert gpus_in_words([*parts, "A100", "unmeasured"]) == f"2 GPUs (A100; {words_for})"
    assert gpus_in_words(["unmeasured"]) == ""


def test_a_release_is_on_the_card_and_in_how_to_cite_it(corpus_path: Path) -> None:
    with CorpusWriter(corpus_path) as writer:
        writer.release = "9.1.0"
    corpus = Corpus.open(corpus_path)
    assert corpus.manifest.release == "9.1.0"
    card = (corpus_path / "README.md").read_text()
    assert f"Release 9.1.0, fingerprint `{corpus.fingerprint}`." in card
    assert f"version = {{9.1.0}},\n  note = {{Fingerprint {corpus.fingerprint}}},\n}}\n```" in card
    assert "version = {9.1.0}" in croissant(corpus)["citeAs"]


def test_the_shipped_card_names_kernels_that_were_found_wrong_since(dataset: Corpus, corpus_path: Path) -> None:
    card = (shipped() / "README.md").read_text()
    found = errata_of(dataset)
    # Those that the release has corrected are not named; the recipe still needs them.
    known_wrong = load(columns=["kernel_id", "status"], kernel_id=sorted(errata())).to_arrow()
    assert set(known_wrong.column("kernel_id").to_pylist()) == set(errata())
    assert (not found) == ("ok" not in known_wrong.column("status").to_pylist())
    for one in found:
        assert f"| `{one.kernel_id[:12]}` | `{one.problem_id}` | {one.wrong} |" in card
    assert errata_of(Corpus.open(corpus_path)) == []


def words(svg: str) -> list[str]:
    """What a plot says; how it is drawn is up to the version of the plotting library."""
    return [element.text or "" for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_the_shipped_card_plots_and_ledger_are_what_the_data_gives(dataset: Corpus) -> None:
    found = findings_of(dataset)
    card = (shipped() / "README.md").read_text()
    assert list(found.plots) == list(CAPTIONS)
    for name, text in found.plots.items():
        assert words((shipped() / "plots" / name).read_text()) == words(text)
        assert f"(plots/{name})" in card
        assert len(text) < 200_000
    assert json.loads((shipped() / "ledger.json").read_text()) == json.loads(json.dumps(found.costs))


def test_the_shipped_dataset_breaks_no_roofline(dataset: Corpus) -> None:
    trust = trust_of(dataset)
    assert trust.floors == load(config="measurements", status="ok").count()
    assert trust.below_floor == 0


def test_a_kernel_under_its_floor_and_a_disagreeing_clock_show(tmp_path: Path) -> None:
    kernel = make_kernel(1, status=Status.OK, error=None, runtime_us=10.0, runtime_low_us=9.0, runtime_high_us=11.0)
    row = make_measurement(kernel, floor_us=20.0, second_clock_us=7.0, clocks_disagree=True)
    with CorpusWriter(tmp_path / "corpus") as writer:
        writer.append("measurements", [row])
    trust = trust_of(Corpus.open(tmp_path / "corpus"))
    assert (trust.below_floor, trust.nearest_floor) == (1, 0.5)
    assert [one["gap_us"] for one in trust.disagreements] == [3.0]
    (noise,) = trust.noise
    assert (noise["low_us"], noise["measurements"]) == (10.0, 1)
    assert noise["median"] == pytest.approx(0.1)
    card = (tmp_path / "corpus" / "README.md").read_text()
    assert "1 of 1 timed measurements are below the floor" in card
    assert f"| `{kernel.kernel_id[:12]}` |" in card


def test_a_reference_that_wavers_is_named(tmp_path: Path) -> None:
    kernels = [make_kernel(n, status=Status.OK, error=None, runtime_us=10.0) for n in range(30)]
    rows = [make_measurement(kernel, problem_id="steady", gpu="one", speedup=2.0) for kernel in kernels]
    rows += [make_measurement(k, measurement_id=f"{n:032x}", problem_id="wavers", gpu="one", speedup=1.0 + n / 30)
             for n, k in enumerate(kernels)]  # fmt: skip
    with CorpusWriter(tmp_path / "corpus") as writer:
        writer.append("measurements", rows)
    (found,) = trust_of(Corpus.open(tmp_path / "corpus")).wavering
    assert (found["problem_id"], found["measurements"]) == ("wavers", 30)
    assert 10.0 < found["low_us"] < found["median_us"] < found["high_us"] < 20.0
    assert "References that waver" in (tmp_path / "corpus" / "README.md").read_text()


def test_costs_are_summed_by_stage_and_a_corpus_without_them_has_no_ledger(corpus_path: Path, tmp_path: Path) -> None:
    rows = load(corpus_path, config="measurements").to_arrow().to_pylist()
    corpus = Corpus.open(corpus_path)
    costs = costs_of(corpus, 1)
    assert costs["gpu_seconds"] == pytest.approx(sum(row["verify_s"] + row["time_s"] for row in rows))
    assert costs["build_cpu_seconds"] == pytest.approx(sum(row["build_s"] for row in rows))
    assert costs["kernels_per_gpu_hour"] == pytest.approx(3600 * costs["kernels"] / costs["gpu_seconds"])
    assert (corpus_path / "ledger.json").is_file()
    with CorpusWriter(corpus_path) as writer:
        writer.replace("measurements", [])
    assert not (corpus_path / "ledger.json").exists()


def test_coverage_counts_cells_and_structures(corpus_path: Path) -> None:
    corpus = Corpus.open(corpus_path)
    found = coverage_of(corpus, timed(corpus))
    rows = load(corpus_path, status="ok").to_arrow().to_pylist()
    for problem in found["problems"]:
        mine = [row for row in rows if row["problem_id"] == problem["problem_id"]]
        for backend, number in problem["kernels"].items():
            cell = [row for row in mine if row["backend"] == backend]
            assert number == len(cell)
            assert problem["structures"][backend] == len({row["structure_id"] for row in cell})
        fastest = min(mine, key=lambda row: row["runtime_us"])
        for name in ("speedup_low", "speedup", "speedup_high"):
            assert problem[f"best_{name}"] == fastest[name]
    figures = {figure["name"]: figure["value"] for figure in found["figures"]}
    assert figures["kernels"] == len({row["kernel_id"] for row in rows})
    assert figures["problems"] == len({row["problem_id"] for row in rows})


def test_a_kernel_on_two_gpus_counts_once_and_its_figures_are_those_of_the_main_gpu(tmp_path: Path) -> None:
    def on(gpu: str, number: int, runtime_us: float, speedup: float) -> Any:
        figures = {"runtime_low_us": None, "runtime_high_us": None, "speedup_low": None, "speedup_high": None}
        return make_kernel(
            number, problem_id="softmax", backend="triton", gpu=gpu, status=Status.OK, error=None,
            runtime_us=runtime_us, speedup=speedup, **figures,
        )  # fmt: skip

    main = [on("NVIDIA H200", number, 10.0 + number, 2.0) for number in range(4)]
    part = [on("NVIDIA H200 (32 of 132 SMs)", number, 40.0, 9.0) for number in range(2)]
    with CorpusWriter(tmp_path / "corpus") as writer:
        writer.append("kernels", [*main, *part])
        writer.append("measurements", [make_measurement(kernel) for kernel in (*main, *part)])
    found = findings_of(Corpus.open(tmp_path / "corpus"))
    (problem,) = found.coverage["problems"]
    assert (problem["kernels"]["triton"], problem["best_speedup"]) == (4, 2.0)
    assert problem["spread"] < 1.4
    assert [peak.speedup for peak in found.peaks] == [2.0]
    assert "activation (2; 1)" in words(found.plots["speedup-by-family.svg"])
    assert (found.costs["kernels"], found.costs["ok_kernels"]) == (4, 4)
    card = (tmp_path / "corpus" / "README.md").read_text()
    assert "4 distinct kernels for 1 of 1 problems" in card
    assert "| backend | rows |\n| --- | --- |\n| triton | 6 |" in card
    assert "| GPU | kernels |\n| --- | --- |\n| NVIDIA H200 | 4 |" in card
    assert "**Composition.** 4 kernels in 6 rows" in card
    assert "largest speedups on NVIDIA H200, each" in card
    assert "mark the median. Kernels as measured on NVIDIA H200." in card


def test_no_two_lines_of_the_progress_look_alike(dataset: Corpus) -> None:
    kernels = timed(dataset, dataset.main_gpu())
    plot = render_plots(dataset, kernels)["search-progress.svg"]
    drawn = re.findall(r'style="fill: none; ([^"]*stroke-width: 1\.5[^"]*)"', plot)
    # Each method is drawn twice: as a line, and in the legend.
    assert len(drawn) == 2 * len(set(drawn)) == 2 * len(progress(kernels))


def test_progress_never_falls_and_ends_at_the_best_known(corpus_path: Path) -> None:
    for curve in progress(timed(Corpus.open(corpus_path))).values():
        assert curve == sorted(curve)
        assert 0 < curve[0] <= curve[-1] <= 1


def test_plots_are_well_formed_and_equal_data_gives_equal_bytes(corpus_path: Path) -> None:
    files = sorted((corpus_path / "plots").glob("*.svg"))
    assert [path.name for path in files] == sorted(CAPTIONS)
    before = {path.name: path.read_bytes() for path in files}
    for path in files:
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
        assert b"nan" not in path.read_bytes()
    fingerprint = Corpus.open(corpus_path).fingerprint
    for path in [*files, corpus_path / "README.md"]:
        path.write_text("stale")
    assert refresh(corpus_path) == fingerprint
    assert {path.name: path.read_bytes() for path in files} == before
    assert "stale" not in (corpus_path / "README.md").read_text()


def front_matter(path: Path) -> Any:
    return yaml.safe_load((path / "README.md").read_text().split("---\n")[1])


def test_the_card_lists_every_config_with_its_files_and_version(corpus_path: Path) -> None:
    corpus = Corpus.open(corpus_path)
    configs = {config["config_name"]: config for config in front_matter(corpus_path)["configs"]}
    assert list(configs) == list(CONFIGS)
    assert configs["kernels"]["default"] is True
    for name, config in configs.items():
        listed = {path for split in config["data_files"] for path in split["path"]}
        assert listed == {entry.path for entry in corpus.files(name)}
        assert config["version"] == corpus.manifest.versions()[name]


def test_the_cards_features_are_what_datasets_would_write(corpus_path: Path) -> None:
    import datasets

    for entry in front_matter(corpus_path)["dataset_info"]:
        schema = arrow_schema(CONFIGS[entry["config_name"]].record)
        assert entry["features"] == datasets.Features.from_arrow_schema(schema)._to_yaml_list()


def test_the_cards_counts_are_the_datas(corpus_path: Path) -> None:
    card = render_card(Corpus.open(corpus_path))
    assert card == (corpus_path / "README.md").read_text()
    for status in ("ok", "compile_error"):
        assert f"| {status} | {load(corpus_path, status=status).count()} |" in card
    assert f"| NVIDIA H200 | {load(corpus_path, gpu='H200').count()} |" in card
    assert Corpus.open(corpus_path).fingerprint in card
    assert all(label in card for label in LABELS)


def test_mlcroissant_reads_rows_through_the_metadata(corpus_path: Path, fresh_python: Callable[[str], str]) -> None:
    pytest.importorskip("mlcroissant", reason="an optional group: pip install 'kbench-gpu[croissant]'")
    out = fresh_python(
        "import json, mlcroissant\n"
        f"dataset = mlcroissant.Dataset(jsonld={str(corpus_path / 'croissant.json')!r})\n"
        "issues = dataset.metadata.ctx.issues\n"
        "rows = {record.id: sum(1 for _ in dataset.records(record.id)) for record in dataset.metadata.record_sets}\n"
        "print(json.dumps([sorted(issues.errors), sorted(issues.warnings), rows]))\n"
    )
    corpus = Corpus.open(corpus_path)
    assert json.loads(out) == [[], [], {name: corpus.rows(name) for name in corpus.configs}]


def test_the_metadata_names_every_file_and_says_what_must_be_said(corpus_path: Path) -> None:
    corpus = Corpus.open(corpus_path)
    metadata = croissant(corpus)
    assert metadata["conformsTo"][0] == "http://mlcommons.org/croissant/1.1"
    hashes = {item["@id"]: item["sha256"] for item in metadata["distribution"] if "sha256" in item}
    assert hashes == {entry.path: entry.sha256 for name in corpus.configs for entry in corpus.files(name)}
    said = {"dataLimitations", "dataBiases", "personalSensitiveInformation", "dataUseCases", "dataSocialImpact"}
    assert {f"rai:{name}" for name in said | {"hasSyntheticData"}} <= set(metadata)
    assert "genome" in metadata["prov:wasGeneratedBy"]
    assert "kbench" in metadata["prov:wasDerivedFrom"]


@pytest.mark.parametrize("config", ["kernels", "measurements", "problems"])
def test_exports_hold_the_selected_rows(corpus_path: Path, tmp_path: Path, config: str) -> None:
    selection = load(corpus_path, config=config)
    rows = selection.to_arrow().to_pylist()
    done: list[int] = []
    for ending in ("parquet", "jsonl", "csv"):
        assert export(selection, tmp_path / f"x.{ending}", advance=done.append) == len(rows)
    assert sum(done) == 3 * len(rows)
    assert pq.read_table(tmp_path / "x.parquet").to_pylist() == rows
    assert [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()] == rows
    with (tmp_path / "x.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [row["problem_id"] for row in read] == [row["problem_id"] for row in rows]
    if config == "measurements":
        assert [json.loads(row["samples_us"] or "null") for row in read] == [row["samples_us"] for row in rows]


def test_an_export_that_fails_leaves_nothing_behind(corpus_path: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown export format 'xlsx'"):
        export(load(corpus_path), tmp_path / "x.xlsx")
    with pytest.raises(UserError, match=r"cannot be written: .*; choose another target"):
        export(load(corpus_path), tmp_path / "missing" / "x.csv")
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match="cannot read"):
        export(load(corpus_path, where="1 + 1"), tmp_path / "out" / "x.csv")
    assert list((tmp_path / "out").iterdir()) == []


def test_kernels_become_files_whose_ids_are_the_same_when_read_back(corpus_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "kernels"
    result = CliRunner().invoke(export_command, [str(corpus_path), "--format", "files", "--out", str(out), "--json"])
    rows = load(corpus_path).to_arrow().to_pylist()
    assert json.loads(result.stdout)["rows"] == len(rows)
    listed = [json.loads(line) for line in (out / "manifest.jsonl").read_text().splitlines()]
    assert [(line["kernel_id"], line["status"], line["runtime_us"]) for line in listed] == [
        (row["kernel_id"], row["status"], row["runtime_us"]) for row in rows
    ]
    assert {path.name for path in out.iterdir()} == {"manifest.jsonl", *(line["file"] for line in listed)}
    for line in listed:
        problem, backend, start = Path(line["file"]).stem.split("__")
        found = kernel_id(problem, backend, (out / line["file"]).read_text())
        assert found == line["kernel_id"]
        assert found.startswith(start)
    with pytest.raises(UserError, match="exists and is not an empty folder"):
        export(load(corpus_path), out, "files")
    with pytest.raises(UserError, match="takes whole rows of the config 'kernels'"):
        export(load(corpus_path, config="pairs"), tmp_path / "pairs", "files")
