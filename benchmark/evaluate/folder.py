"""The folder of an evaluation: what it is given, and what in it must not be lost (forecasts, an author's words).

It is a submission, complete except for what only the surrogate's author knows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbench import __version__
from kbench.benchmark.evaluate.evaluate import Evaluation
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.evaluate.results import EvaluationCost, EvaluationResults
from kbench.benchmark.questions import Questions
from kbench.benchmark.surrogates.forecasts import DATASET_KEY, forecasts_file
from kbench.benchmark.surrogates.protocol import ENTRY_INPUTS
from kbench.benchmark.surrogates.resolve import DOCUMENTED, SurrogateTarget
from kbench.loaders.storage.atomic import replace_together, write_atomically
from kbench.schemas import DataError, Submission, UserError, from_dict, to_dict

RESULTS, FORECASTS, SUBMISSION, REPORT = "results.json", "forecasts.parquet", "submission.json", "report.html"
OTHER_FORECASTS = "forecasts.jsonl"
SETTING = ("split", "subset", "shots", "gpu")
"""What tells the questions of one dataset apart."""
LEFT_OPEN = ("hardware", "training_data", "contamination")
"""What only the author of a surrogate knows, unless it comes with kbench."""
AUTHORS_OWN = (
    "name", "version", "authors", "organisation", "license", "links", "kind", "open_weights", *LEFT_OPEN,
)  # fmt: skip
"""Fields of a submission that an evaluation proposes and its author decides."""
UNKNOWN = "unknown: "
"""How a text begins that is left for the author to write."""
KNOWN_TO_AUTHORS = (
    "never fitted, calibrated or selected on test kernels; but its authors knew the test problems' names and ranges of "
    "speedup, and the test scores of earlier models, pool by pool, when they chose its features"
)
CONTAMINATION = {"static": KNOWN_TO_AUTHORS, "static-compiler": KNOWN_TO_AUTHORS}
"""What may be said against a built-in that learns; the others look at nothing that could leak."""
KINDS = dict.fromkeys(("static", "static-compiler", "nearest"), "statistical") | {"llm": "language_model"}
GUESSES = "and correct kind and open_weights, which are guesses"
LICENCES = (f"state the licence, {GUESSES}", f"state the licence of the model, {GUESSES}")
"""What is asked of the author of a surrogate, and of whoever asked a language model. A guess cannot say it is one."""
UNNAMEABLE = re.compile(r"[^A-Za-z0-9 ._+-]+")
"""What the name of an entry cannot hold."""
DATE = re.compile(r"(?<!\d)(20\d\d-\d\d-\d\d|20\d{6})(?!\d)")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """What an earlier evaluation, or its author's hand, left in a folder."""

    folder: Path
    queries: int
    """Queries that its forecasts answer; 0 where there are none."""
    dataset: str
    """The dataset forecast; empty where it is not said."""
    submission: Submission | None
    results: Mapping[str, Any]
    """results.json; empty where there is none, as in an entry made elsewhere."""

    def made_by(self, target: SurrogateTarget, options: Options) -> bool:
        """Whether this surrogate made it with these arguments; False for an entry made elsewhere."""
        facts = {"surrogate": target.name, "arguments": options.recorded_arguments, "found_at": target.found_at}
        return bool(self.results) and all(self.results.get(name, value) == value for name, value in facts.items())

    def kept(self, target: SurrogateTarget, options: Options) -> dict[str, Any]:
        """What its author wrote into submission.json and another run of the same surrogate leaves alone."""
        if self.submission is None or target.documented or not self.made_by(target, options):
            return {}
        values = {name: getattr(self.submission, name) for name in AUTHORS_OWN}
        return {name: value for name, value in values.items() if not _open(value)}

    def check(self, target: SurrogateTarget, options: Options, questions: Questions) -> None:
        """Refuse a run that would lose something."""
        fix = "choose another --out"
        read = [Path(part.location).parent for part in target.leaves if part.kind == "forecasts"]
        if self.folder.resolve() in read:
            raise UserError(f"--out {str(self.folder)!r} holds the forecasts to be scored; {fix}")
        if (self.folder / OTHER_FORECASTS).exists():
            raise UserError(
                f"--out {str(self.folder)!r} holds {OTHER_FORECASTS}, and an entry has one forecasts file; {fix}"
            )
        about = self.results.get("gpu", questions.gpu)
        if self.queries and self.dataset in ("", questions.dataset) and about != questions.gpu:
            raise UserError(
                f"--out {str(self.folder)!r} holds forecasts about {about or 'every GPU'} and this run asks about "
                f"{questions.gpu or 'every GPU'}; {fix}"
            )
        # Whether its forecasts are of this dataset, split, number of shots and GPU, as far as its files say.
        same = all(self.results.get(name, getattr(questions, name)) == getattr(questions, name) for name in SETTING)
        same = same and self.dataset in ("", questions.dataset)
        if (options.limit is not None or same) and len(questions.queries) < self.queries:
            raise UserError(
                f"--out {str(self.folder)!r} holds forecasts of {self.queries:,} queries and this run asks "
                f"{len(questions.queries):,}; {fix}, or remove its {FORECASTS}"
            )
        # An author has filled in what only an author knows; kbench does so for its own surrogates.
        described = self.submission is not None and self.results.get("surrogate") not in DOCUMENTED
        described = described and any(not _open(getattr(self.submission, name)) for name in LEFT_OPEN)
        if described and not self.made_by(target, options):
            raise UserError(f"--out {str(self.folder)!r} holds an entry of another surrogate or arguments; {fix}")


def earlier_run(folder: Path) -> EarlierRun:
    """Read what a folder holds.

    Raises:
        UserError: its submission.json is there and cannot be read, so that nothing could be kept of it.
    """
    path, submission, results = folder / SUBMISSION, None, {}
    try:
        submission = from_dict(Submission, json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None
    except (OSError, ValueError, DataError) as error:
        raise UserError(f"{path} would be replaced and cannot be read ({error}); fix it or remove it") from None
    with contextlib.suppress(OSError, ValueError):
        results = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
    queries, dataset = _forecasts(folder / FORECASTS)
    if not dataset and submission is not None:
        dataset = submission.dataset_fingerprint
    return EarlierRun(
        folder=folder, queries=queries, dataset=dataset, submission=submission,
        results=results if isinstance(results, dict) else {},
    )  # fmt: skip


def open_fields(entry: Submission) -> list[str]:
    """What is left for its author to say."""
    return [name for name in AUTHORS_OWN if _open(getattr(entry, name))]


def _open(value: Any) -> bool:
    texts = value if isinstance(value, tuple) else (value,)
    return any(isinstance(text, str) and text.startswith(UNKNOWN) for text in texts)


def _forecasts(path: Path) -> tuple[int, str]:
    """How many queries a file answers, and of which dataset; an unreadable file holds nothing to lose."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, columns=["query_id"])
    except (OSError, pa.ArrowException):
        return 0, ""
    dataset = (table.schema.metadata or {}).get(DATASET_KEY, b"").decode(errors="replace")
    return len(set(table.column("query_id").to_pylist())), dataset


def write_folder(evaluation: Evaluation, out: Path) -> dict[str, Path]:
    """Write results.json, forecasts.parquet and submission.json; the folder is then a submission.

    What an author wrote into submission.json since the last run of the same surrogate stays. A surrogate that looks at
    labels of the kernels it is asked about cannot be entered and gets none. The report of an earlier run is removed, as
    it would show other figures than the files beside it.
    """
    (out / REPORT).unlink(missing_ok=True)
    files = {
        FORECASTS: forecasts_file(evaluation.run.forecasts, evaluation.questions.dataset, evaluation.learned_from),
        RESULTS: _json(EvaluationResults.of(evaluation).to_json()),
    }
    if evaluation.inputs in ENTRY_INPUTS:
        kept = earlier_run(out).kept(evaluation.target, evaluation.options)
        files[SUBMISSION] = _json(to_dict(dataclasses.replace(submission(evaluation), **kept)))
    replace_together(out, files)
    return {name: out / name for name in files}


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write one JSON file, whole or not at all."""
    write_atomically(path, _json(value))


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def submission(evaluation: Evaluation) -> Submission:
    """Metadata of a leaderboard entry."""
    documented, learned = evaluation.target.documented, evaluation.learned_from
    training_data = f"{UNKNOWN}state the training data"
    if documented and learned is not None:
        splits = f"split{'s' if len(learned) > 1 else ''}"
        training_data = f"the dataset's {' and '.join(learned)} {splits}" if learned else "none"
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    # Of a language model the date in its name, or today: what answers behind a name changes.
    dated = None if evaluation.model is None else DATE.search(evaluation.model)
    version = "1" if evaluation.model is None else dated[0] if dated else today
    cost = EvaluationCost.of(evaluation)
    parts = [part.name for part in evaluation.target.leaves]
    contamination = next((CONTAMINATION[name] for name in parts if name in CONTAMINATION), "none known")
    return Submission(
        schema_version=Submission.VERSION,
        name=_name(evaluation),
        version=__version__ if documented else version,
        authors=("The kbench authors",) if documented else (f"{UNKNOWN}name the authors",),
        organisation=None,
        license="Apache-2.0" if documented else f"{UNKNOWN}{LICENCES[evaluation.model is not None]}",
        links=(),
        kind=_kind(evaluation.target),
        open_weights=documented,
        inputs=evaluation.inputs,
        hardware="CPU" if documented else f"{UNKNOWN}state the hardware",
        training_data=training_data,
        contamination=contamination if documented else f"{UNKNOWN}state what it may have seen",
        total_seconds=cost.total_s,
        total_tokens=cost.total_tokens,
        dataset_fingerprint=evaluation.questions.dataset,
        tracks=evaluation.questions.tracks,
        repeats=evaluation.table.repeats,
        created_at=today,
    )


def _name(evaluation: Evaluation) -> str:
    """The surrogate's or its model's, and the shots if it had any: with and without them it is two entries."""
    shots = f"-{evaluation.questions.shots}-shots" if evaluation.questions.shots else ""
    own = (evaluation.model or "").rpartition("/")[2] or (evaluation.target.entry or "").removesuffix(shots)
    return (UNNAMEABLE.sub("-", own).strip(" ._+-") or evaluation.name.replace("_", "-") or "surrogate")[
        : 64 - len(shots)
    ] + shots


def _kind(target: SurrogateTarget) -> str:
    kinds = {KINDS.get(part.name, "baseline" if part.built_in else "statistical") for part in target.leaves}
    if target.parts:
        # A map learned on validation problems is statistics, whatever it maps.
        kinds = (kinds - {"baseline"}) or {"statistical"}
    return kinds.pop() if len(kinds) == 1 else "hybrid"
