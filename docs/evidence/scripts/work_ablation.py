"""What each part of `static-compiler` is worth: families left out, one group of columns or terms left out at a time.

    python docs/evidence/scripts/work_ablation.py TOTALS...

Prints a JSON object per line. About a minute.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import ExtraTreesRegressor

from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.surrogates.counted import fit
from kbench.benchmark.surrogates.counted.model import COLUMNS, FEW, LONGEST, TIME
from kbench.loaders.corpus.corpus import Corpus

Floats = npt.NDArray[np.float64]
COLUMN_GROUPS = {
    "parts of the time": [f"{name}_part" for name in FEW],
    "absolute sizes": ["issued", "flops", "l2_bytes", "dram_bytes"],
    "accesses": ["load_sectors", "store_sectors", "load_width", "load_overlap", "l1_misses", "bulk", "bank_conflicts",
                 "unknown_addresses", "atomics"],
    "instruction shares": ["alu_share", "fma_share", "special_share", "memory_share", "tensor_share", "control_share",
                           "precision", "barriers"],
    "launch": [*LONGEST, "registers", "stack", "launches", "fills"],
}  # fmt: skip
TERMS = {
    "latency": ["latency"],
    "L2 and DRAM": ["l2", "dram"],
    "instructions": ["issue", "alu", "fma", "special", "double"],
    "tensor and shared": ["tensor", "shared"],
}
RATES = [name for name in FEW if name != "latency"]


def say(name: str, times: Floats, material: fit.Material) -> None:
    """Print the figures of times that no model made which saw their families."""
    anchor, candidate = material.pairs.T
    target = material.measured[anchor] - material.measured[candidate]
    asked = fit.Asked(times[anchor] - times[candidate], np.zeros(len(anchor)), target, candidate)
    given, prior = asked.cross_fitted(material)
    found = fit.skill(given, prior, target, material.problem[candidate]) | fit.order(times, material)
    sys.stdout.write(json.dumps({name: found | {"edit_auroc": fit.edit_auroc(asked, material.edits)}}) + "\n")


def without_terms(demands: fit.Demands, material: fit.Material, left_out: Collection[str]) -> Floats:
    """White-box times whose constants were fitted without some of their terms."""
    every = demands.launches
    places = [RATES.index(name) for name in left_out if name in RATES]
    places += range(len(RATES), len(RATES) + 3) if "latency" in left_out else []
    demands.launches = every.copy()
    demands.launches[:, places] = 0.0
    times = np.zeros(len(material.measured))
    for number in np.unique(material.fold):
        held = material.fold == number
        times[held] = demands.times(fit.fit_times(demands, material, ~held))[held]
    demands.launches = every
    return times


def with_trees(rows: dict[int, Floats], material: fit.Material, left_out: Collection[str]) -> Floats:
    """Times corrected by trees over the other columns."""
    kept = [at for at, name in enumerate(COLUMNS) if name not in left_out]
    times = np.zeros(len(material.measured))
    for number, own in rows.items():
        held = material.fold == number
        late = material.measured - own[:, TIME]
        late -= (np.bincount(material.problem, late) / np.bincount(material.problem))[material.problem]
        trees = ExtraTreesRegressor(
            fit.TREES, min_samples_leaf=fit.LEAF, max_features=fit.SHARE, random_state=0
        )  # fmt: skip
        trees.fit(own[~held][:, kept].astype(np.float32), late[~held])
        times[held] = own[held, TIME] + trees.predict(own[held][:, kept].astype(np.float32))
    return times


def main() -> None:
    """Print all of them."""
    works = fit.read_works([Path(name) for name in sys.argv[1:]])
    material = fit.read_material(works, benchmark_of(Corpus.open()))
    demands = fit.Demands(material.works)
    rows = {
        int(number): fit.kernel_rows(material, fit.fit_times(demands, material, material.fold != number))
        for number in np.unique(material.fold)
    }
    say("time alone", without_terms(demands, material, ()), material)
    for name, terms in TERMS.items():
        say(f"time without {name}", without_terms(demands, material, terms), material)
    say("time and trees", with_trees(rows, material, ()), material)
    for name, columns in COLUMN_GROUPS.items():
        say(f"trees without {name}", with_trees(rows, material, columns), material)


if __name__ == "__main__":
    sys.exit(__doc__) if "--help" in sys.argv else main()
