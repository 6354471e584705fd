"""GenerateOptions: what `kbench generate` was asked for, and which options would change nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import click
from click.core import ParameterSource

from kbench.schemas import UserError

OF_A_SEARCH = ("backend", "method", "proposer", "budget", "seed", "surrogate")

UNUSED_BY_MODE: Mapping[str, tuple[str, ...]] = {
    "campaign": (*OF_A_SEARCH, "variants"),
    "from_folder": tuple(name for name in OF_A_SEARCH if name not in ("method", "proposer")),
    "problem_id": ("variants",),
}
"""What the runs come from, and the options that do not apply to them."""

UNUSED_BY_EXECUTOR: Mapping[str, tuple[str, ...]] = {
    "local": ("recorded",),
    "ray": ("recorded", "gpu"),
    "replay": ("gpu", "half_width"),
    "none": ("gpu", "half_width", "gpu_seconds"),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """Every option of `kbench generate`; its help text says what each means."""

    problem_id: str | None
    campaign: Path | None
    from_folder: Path | None
    backend: str | None
    method: str
    proposer: str | None
    budget: str | None
    seed: int
    surrogate: str | None
    variants: int
    executor: str
    recorded: Path | None
    gpu: str
    half_width: float
    deadline: float | None
    gpu_seconds: float | None
    out: Path | None
    as_json: bool

    @property
    def mode(self) -> str:
        """Which option says where the runs come from.

        Raises:
            UserError: none does, or more than one.
        """
        chosen = [name for name in UNUSED_BY_MODE if getattr(self, name) is not None]
        if len(chosen) != 1:
            raise UserError("give exactly one of --problem, --campaign or --from-folder")
        return chosen[0]


def refuse_unused(ctx: click.Context, options: GenerateOptions) -> None:
    """Refuse options that were given and change nothing: the user expects that they do.

    Raises:
        UserError: names the option and the one that makes it useless.
    """
    mode = options.mode
    flags = {str(param.name): param.opts[0] for param in ctx.command.params}
    reasons = dict.fromkeys(UNUSED_BY_MODE[mode], f"with {flags[mode]}")
    reasons |= dict.fromkeys(UNUSED_BY_EXECUTOR[options.executor], f"with --executor {options.executor}")
    if mode == "from_folder" and not options.variants:
        reasons["method"] = "without --variants"
    for name, reason in reasons.items():
        if ctx.get_parameter_source(name) not in (None, ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP):
            where = "; the campaign file sets it" if mode == "campaign" and name in OF_A_SEARCH else ""
            raise UserError(f"{flags[name]} changes nothing {reason}{where}; leave it out")
