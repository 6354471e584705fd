"""RunSettings: what a run is. They are its first fact and stay frozen; only the budget may change on resume."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from kbench.schemas import Backend, UserError, from_dict, to_dict
from kbench.schemas.ids import content_hash
from kbench.schemas.record import Limit, Positive, Probability, Record

PositiveCount = Annotated[int, Limit(exclusive_minimum=0)]
AtLeastOne = Annotated[int, Limit(minimum=1)]

IDLE_LIMIT_S = 300.0
"""Longest gap between two facts that counts as search time; after a longer one the search was not running."""

UNITS = {"": "measurements", "m": "measurements", "s": "gpu_seconds", "t": "tokens", "w": "wall_seconds"}
COUNTED = ("measurements", "tokens")
"""Amounts that are whole numbers."""


@dataclasses.dataclass(frozen=True, slots=True)
class Charge:
    """What has been spent, computed from the log alone."""

    measurements: int = 0
    gpu_seconds: float = 0.0
    build_seconds: float = 0.0
    tokens: int = 0
    wall_seconds: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Budget(Record):
    """Upper limits; None means no limit. A search stops at the first one reached."""

    TYPE: ClassVar[str] = "budget"
    VERSION: ClassVar[str] = "1.0.0"

    measurements: PositiveCount | None = None
    gpu_seconds: Positive | None = None
    tokens: PositiveCount | None = None
    wall_seconds: Positive | None = None

    def spent(self, charge: Charge) -> str | None:
        """Which limit is reached, in words; None while budget is left."""
        for field in dataclasses.fields(self):
            limit = getattr(self, field.name)
            used = getattr(charge, field.name)
            if limit is not None and used >= limit:
                return f"{field.name} {used:g} of {limit:g}"
        return None

    def tokens_left(self, charge: Charge) -> int | None:
        """Tokens still allowed; None when unlimited."""
        return None if self.tokens is None else max(0, self.tokens - charge.tokens)

    def measurements_left(self, charge: Charge) -> int | None:
        """Measurements still allowed; None when unlimited."""
        return None if self.measurements is None else max(0, self.measurements - charge.measurements)


UNLIMITED = Budget()
NOTHING_SPENT = Charge()


def parse_budget(text: str) -> Budget:
    """Read `--budget`: comma-separated amounts with a unit letter.

    `320` or `320m` measurements, `600s` GPU-seconds, `2000000t` tokens, `3600w` wall seconds.
    """
    limits: dict[str, int | float] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([mstw]?)", part)
        if match is not None and float(match[1]) == 0:
            raise UserError(f"budget {part!r} allows nothing; give more than 0, such as 1{match[2]}")
        if match is None:
            raise UserError(f"budget {part!r} is no amount above 0; write 320m, 600s, 2000000t or 3600w")
        unit = UNITS[match[2]]
        if unit in limits:
            raise UserError(f"budget names {unit} twice in {text!r}; give it once")
        if unit in COUNTED and not match[1].isdecimal():
            raise UserError(f"budget has {match[1]} {unit}; give a whole number")
        limits[unit] = int(match[1]) if unit in COUNTED else float(match[1])
    if not limits:
        raise UserError("budget is empty; write for example --budget 320 (measurements) or --budget 600s (GPU-seconds)")
    return Budget(**limits)  # type: ignore[arg-type]


FILE = re.compile(r"(?:.*/)?([\w-]+)\.py(?::(\w+))?")
SURROGATE = "+surrogate"
"""After the name of a method whose candidates a surrogate filters."""


def in_file(method: str) -> re.Match[str] | None:
    """The name of the file, and of the method in it where that is stated; None for a method of the list."""
    return FILE.fullmatch(method)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FilterSettings(Record):
    """The surrogate filter: propose many, measure few."""

    TYPE: ClassVar[str] = "filter settings"
    VERSION: ClassVar[str] = "1.0.0"

    surrogate: str
    """Name of the surrogate that forecasts."""
    draw: Annotated[int, Limit(minimum=2)] = 4
    """Candidates proposed for each one measured."""
    unsure_share: Probability = 0.25
    """Largest share of the measured ones given to candidates the surrogate is unsure about."""
    confidence: Probability = 0.5
    """A forecast with less confidence than this is unsure."""
    against_parent: bool = False
    """Whether a child is forecast against its parent, whose speed is known, and not against the PyTorch reference."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings(Record):
    """Everything that decides a run's course, except the machine and the clock."""

    TYPE: ClassVar[str] = "settings"
    VERSION: ClassVar[str] = "1.0.0"

    problem_id: str
    backend: Backend
    method: str
    proposer: str = "genome"
    seed: int = 0
    seeds: AtLeastOne = 8
    """Fresh candidates of step 0."""
    batch: AtLeastOne = 8
    """Candidates measured in every later step."""
    parents: AtLeastOne = 1
    """Parents expanded in one step, for methods that choose parents."""
    patience: AtLeastOne = 8
    """Steps without improvement before hill climbing restarts."""
    exploration: float = 1.0
    """The constant c of PUCT."""
    label: str = ""
    """Tells apart runs that are otherwise equal, such as those of two campaigns or two GPUs."""
    first: str = ""
    """Runs of a cell with the same word here ask for the same first kernels; each for its own when empty."""
    method_hash: str | None = None
    """Of the file that defines the method and those beside it that it imports; None for a method of the list."""
    surrogate_hash: str | None = None
    """Of the files of the filter's surrogate and what they import, likewise; None for a built-in."""
    filter: FilterSettings | None = None
    budget: Budget = UNLIMITED

    @property
    def search_method(self) -> str:
        """The method as the corpus names it."""
        own = in_file(self.method)
        return (own[2] or own[1] if own else self.method) + (SURROGATE if self.filter else "")

    @property
    def full_method(self) -> str:
        """The method for a reader, with the name of the surrogate that filters."""
        return self.search_method.removesuffix(SURROGATE) + (f"+{self.filter.surrogate}" if self.filter else "")

    @property
    def run_id(self) -> str:
        """Readable name with a hash of every frozen setting."""
        digest = content_hash(repr(sorted(_frozen(self).items())))[:8]
        return f"{self.problem_id}-{self.backend.value}-{self.search_method}-s{self.seed}-{digest}"

    def to_json(self) -> dict[str, Any]:
        """Plain values for the log."""
        return to_dict(self)


WITHOUT_GENOME: Mapping[str, Any] = {"parents": 2, "patience": 3, "exploration": 1.0}
"""Where no genome is searched: the defaults are tuned on genomes, and what a language model is asked next must
not change with them."""
RETIRED = ("islands", "migrate_every")
"""Settings that earlier logs have and no method reads any more."""
HASHES = ("method_hash", "surrogate_hash")
"""Settings that follow from files."""
CHANGEABLE = ("budget", "batch")
"""Settings that may differ when a run goes on: how much it may spend, and how much of it in one step."""


def defaults_for(proposer: str) -> Mapping[str, Any]:
    """Settings of the methods that differ from the defaults for this proposer."""
    return WITHOUT_GENOME if proposer in ("llm", "human") else {}


def settings_from_json(data: Mapping[str, Any], where: str) -> RunSettings:
    """Read settings from the log or a campaign file.

    Raises:
        DataError: names the setting, its value and what it must be.
    """
    return from_dict(RunSettings, {name: value for name, value in data.items() if name not in RETIRED}, where)


def _frozen(settings: RunSettings) -> dict[str, Any]:
    data = settings.to_json()
    del data["budget"]
    for later in ("first", *HASHES):
        if not data[later]:
            del data[later]  # so that runs keep the names they had before this setting was there
    return data


def changes(recorded: RunSettings, given: RunSettings) -> Mapping[str, tuple[Any, Any]]:
    """Settings but the budget that differ: each with its recorded and its given value.

    A method's file is known by its name and hash: it may have moved.
    """
    before, after = _frozen(recorded), _frozen(given)
    if in_file(recorded.method) and in_file(given.method) and recorded.search_method == given.search_method:
        before["method"] = after["method"]
    filters = [data.pop("filter") for data in (before, after)]
    for data, chosen in zip((before, after), filters, strict=True):
        names = chosen if all(filters) else ("surrogate",)
        data |= {f"filter.{name}": (chosen or {}).get(name) for name in names}
    return {name: (before[name], after.get(name)) for name in before if before[name] != after.get(name)}


def refuse_changes(run_id: str, recorded: RunSettings, given: RunSettings) -> None:
    """Refuse to resume a run under other settings, or with another text of its method, than it was started with.

    Its id is that of the log: settings that changed on the way, such as the batch, would make another.
    """
    differ = {name: pair for name, pair in changes(recorded, given).items() if name not in CHANGEABLE}
    if differ and differ.keys() <= {*HASHES}:
        mine = given.filter.surrogate if given.filter else None
        what = f"method {given.method!r}" if "method_hash" in differ else f"surrogate {mine!r}"
        raise UserError(
            f"the file of {what} has changed since run {run_id!r} was started, or one that it imports has; restore it, "
            "or start a new run with another --out, which reuses no measurement (kbench data assemble takes both runs)"
        )
    if differ:
        said = "; ".join(
            f"{name}: {before!r} -> {after!r}" for name, (before, after) in differ.items() if name not in HASHES
        )
        raise UserError(
            f"run {run_id!r} was started with other settings; changed: {said}. "
            "Use the recorded values, or start a new run with another --out"
        )
