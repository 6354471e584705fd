"""Score a forecasts file from the dataset's Parquet files alone: the benchmark's headlines in a page of pandas.

    python examples/score.py DATASET FORECASTS [SPLIT | core]

DATASET is a folder or hf://datasets/OWNER/NAME; FORECASTS a Parquet file with `query_id` (a `question_id`), eight
`probabilities` and perhaps `speedup`; `core` a part of `test`. Figures are those of `kbench evaluate`, without kbench.
"""

import json
import sys

import numpy as np
import pandas as pd

LEAST_POOL, DECIDED, WIDE, FULL, FULL_EDITS = 5, 0.02, 2.0, 64, 3.0
LOG2_CENTERS = np.arange(8) / 2 - 1.25  # of the eight bins, half an octave each


def main(dataset: str, forecasts: str, split: str = "test") -> None:
    """Print the figures of one file."""
    questions, answers = pd.read_parquet(f"{dataset}/questions"), pd.read_parquet(forecasts)
    questions = questions[questions.gpu == questions.gpu.value_counts().idxmax()]
    asked = questions[questions.core & (questions.split == "test") if split == "core" else questions.split == split]
    if not asked.question_id.isin(answers["query_id"]).any():
        raise ValueError(f"no question of split {split!r} is answered; splits: {', '.join(questions.split.unique())}")
    figures = score(asked, questions[questions.split == "train"], answers)
    sys.stdout.write(json.dumps({name: value for name, value in figures.items() if value == value}, indent=1) + "\n")


def score(asked: pd.DataFrame, train: pd.DataFrame, forecasts: pd.DataFrame) -> dict[str, float]:
    """The headline of every track, and what stands beside it; on stderr, how many of the questions are answered."""
    keys = {"left_on": "question_id", "right_on": "query_id", "validate": "one_to_one"}
    rows = asked.merge(forecasts, **keys, how="left", suffixes=("", "_forecast"))
    given = np.stack([shares if np.shape(shares) == (8,) else np.full(8, np.nan) for shares in rows["probabilities"]])
    answered = (given >= 0).all(axis=1) & (abs(given.sum(axis=1) - 1) <= 1e-3)
    shares = np.where(answered[:, None], given / np.where(answered, given.sum(axis=1), 1)[:, None], 1 / 8)
    sys.stderr.write(f"{answered.sum():,} of {len(rows):,} have probabilities that sum to 1; others count as uniform\n")
    point = rows.get("speedup_forecast", pd.Series(np.nan, rows.index)).astype(float)
    rows["log2"] = np.log2(point).fillna(pd.Series((shares * LOG2_CENTERS).sum(axis=1))).round(9)
    rows["faster"], numbers = shares[:, 3:].sum(axis=1), rows.bin.to_numpy(dtype=int)
    rows["sure"] = np.maximum(rows.faster, 1 - rows.faster).where(answered, 0.0)
    rows["lost"] = 0.5 - 0.5 * np.sign((rows.faster - 0.5).round(12)) * np.where(rows.speedup >= 1, 1, -1)
    # Frequencies of the training questions of each kind, with one imagined question in each bin.
    known = train[train.workload.isna()].groupby("kind").bin
    priors = {kind: (np.bincount(part.astype(int) - 1, minlength=8) + 1) / (len(part) + 8) for kind, part in known}
    rows["rps"], rows["prior_rps"] = rps(shares, numbers), rps(np.stack(rows.kind.map(priors)), numbers)
    whole = rows[rows.workload.isna() & (rows.kind != "level")]
    decided = whole[(whole.speedup - 1).abs() > DECIDED]
    pools = [pool for _, pool in rows[rows.pool.notna()].groupby("pool") if len(pool) >= LEAST_POOL]
    return {
        "skill": skill(whole, "rps", "prior_rps"),
        "edit_skill": skill(whole[whole.kind == "edit"], "rps", "prior_rps"),
        "pair_skill": skill(whole[whole.kind == "pair"], "rps", "prior_rps"),
        "workload_skill": skill(rows[rows.workload.notna()], "rps", "prior_rps"),
        "auroc": auroc(decided[decided.kind == "edit"]),
        "spearman": float(np.mean([spearman(pool) for pool in pools])),
        "wide_regret_at_10": float(np.mean([regret(p) for p in pools if p.speedup.max() >= WIDE * p.speedup.min()])),
        "problem_sign_aurc": aurc(decided),
    }


def rps(shares: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Ranked probability score of every row."""
    return ((np.cumsum(shares, axis=1)[:, :-1] - (numbers[:, None] <= np.arange(1, 8))) ** 2).mean(axis=1)


def skill(rows: pd.DataFrame, given: str, prior: str) -> float:
    """One minus the ratio of two means over problems."""
    problems = rows.groupby("problem_id")
    means = problems[[given, prior]].mean().mul(problems.size().clip(upper=FULL), axis=0).sum()
    return float(1 - means[given] / (means[prior] or np.nan))


def auroc(edits: pd.DataFrame) -> float:
    """Chance that a faster edit is rated above a slower one of its author class and backend, over problems."""
    cells = edits.groupby(["problem_id", "author", "backend"])[["speedup", "log2"]].apply(comparisons)
    problems = cells.groupby("problem_id").sum()
    counts = problems.made.clip(upper=FULL_EDITS)
    return float((counts * problems.won / problems.made).sum() / (counts.sum() or np.nan))


def comparisons(edits: pd.DataFrame) -> pd.Series:
    """Comparisons of faster with slower edits over the number of edits: those that are won, and all that are made."""
    yes, no = (edits.speedup > 1).sum(), (edits.speedup <= 1).sum()
    wins = edits.log2.rank()[edits.speedup > 1].sum() - yes * (yes + 1) / 2
    return pd.Series({"won": wins / len(edits), "made": yes * no / len(edits)})


def spearman(pool: pd.DataFrame) -> float:
    """Rank correlation of forecast and measured speed; 0 where one of them is constant."""
    return float(np.nan_to_num(pool.log2.rank().corr(pool.speedup.rank())))


def regret(pool: pd.DataFrame, share: float = 0.1) -> float:
    """How much slower than the best the best of the top share is; where the cut is tied, the mean over draws."""
    count = max(1, int(np.ceil(share * len(pool) - 1e-9)))
    cut = pool.log2.nlargest(count).iloc[-1]
    above, tied = pool[pool.log2 > cut].speedup, np.sort(pool[pool.log2 == cut].speedup)[::-1]
    best, chance, total, left = above.max() if len(above) else 0.0, 1.0, 0.0, count - len(above)
    for place, speedup in enumerate(tied):
        drawn = min(1.0, left / (len(tied) - place))
        total += chance * drawn / max(best, speedup)
        chance *= 1 - drawn
    return float(total * pool.speedup.max() - 1)


def aurc(rows: pd.DataFrame) -> float:
    """Area under risk over coverage, surest first; ties lose at an even rate, and a problem's rows share its weight."""
    weight = rows.groupby("problem_id").problem_id.transform(lambda part: min(FULL, len(part)) / len(part))
    levels = pd.DataFrame({"n": weight, "lost": weight * rows.lost}).groupby(-rows.sure).sum()
    before, lost = (levels.cumsum() - levels).to_numpy().T
    growth = np.divide(before + levels.n, before, out=np.ones(len(levels)), where=before > 0)
    return float((levels.lost + (lost - before * levels.lost / levels.n) * np.log(growth)).sum() / weight.sum())


if __name__ == "__main__":
    try:
        main(*sys.argv[1:]) if len(sys.argv) in (3, 4) else sys.exit(__doc__)
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"cannot score ({type(error).__name__}): {error}")
