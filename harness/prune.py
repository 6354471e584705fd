"""Hook for `triton.autotune`: at a new shape, measure the few configurations that did well at shapes like it.

kernel = kbench.prune(kernel, k=4)                                   an autotuned kernel, or
prune_configs_by={"early_config_prune": kbench.prune(k=4)}           an argument of `triton.autotune`

What autotuning measures on this machine goes into a table per kernel and GPU, in the folder of builds. At a shape
unlike all in it every configuration is measured, as without the hook. Whatever goes wrong here costs a warning, never a
kernel.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import inspect
import json
import math
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.tuning.choose import Known, worth_measuring
from kbench.loaders.storage.lines import SEAL_BYTES, sealed
from kbench.loaders.storage.scratch import cache_folder
from kbench.schemas.ids import content_hash

DEFAULT_K = 4
LAUNCH = frozenset({"grid", "warmup"})
"""Arguments of a launch that are not the kernel's."""
TABLE_BYTES = 4 << 20
"""Most of a table that is read, from its end: the rest is old."""


def prune(kernel: Any = None, *, k: int = DEFAULT_K, table: Path | str | None = None) -> Any:
    """Have autotuning measure few configurations at shapes like those that this machine has tuned before.

    Args:
        kernel: a kernel that `triton.autotune` has wrapped; it is returned with the hook in place. None returns the
            hook itself, to be given to `triton.autotune`.
        k: most configurations to measure; two are enough where one is surely good, and one more is measured beyond all
            shapes that were.
        table: folder of what was measured; by default in the folder of builds.

    Raises:
        ValueError: `k` is not positive.
        TypeError: the kernel is not an autotuned one.
    """
    if k < 1:
        raise ValueError(f"k is {k}; measure at least one configuration")
    hook = Hook(k, Path(table) if table is not None else cache_folder() / "tuning")
    if kernel is None:
        return hook
    if not hasattr(kernel, "early_config_prune") or not hasattr(kernel, "configs"):
        raise TypeError(f"{type(kernel).__name__} is not autotuned; give what @triton.autotune returns")
    hook.before, kernel.early_config_prune = kernel.early_config_prune, hook
    return kernel


class Hook:
    """Chooses configurations before any is compiled, and learns from what autotuning measured at the last shape."""

    def __init__(self, k: int, folder: Path) -> None:
        """Choose `k` configurations by the tables in a folder."""
        self.k, self.folder = k, folder
        self.before: Any = None
        """A hook that the kernel had already; this one chooses from what that leaves."""
        self._tuner: Any = None
        self._asked: tuple[Table, dict[str, float], str] | None = None
        """Table, numbers and kind of the shape whose times are to come."""
        self._learnt: Any = None
        """The times that were taken in last."""
        self._warned = False
        atexit.register(self.learn)

    def __call__(self, configs: Sequence[Any], named_args: Mapping[str, Any], **kwargs: Any) -> list[Any]:
        """The configurations to measure; all where nothing is known that says more."""
        if self.before is not None:
            configs = self.before(configs, named_args, **kwargs)
        # Triton hands over everything but itself, and the times it takes later are to be found there alone.
        tuner = sys._getframe(1).f_locals.get("self")
        if not hasattr(tuner, "early_config_prune"):
            return list(configs)
        try:
            self.learn()
            return self._chosen(list(configs), {**named_args, **kwargs}, tuner)
        except Exception as error:  # noqa: BLE001 - the kernel must tune whatever is wrong with a table
            self._warn(f"all configurations are measured: {type(error).__name__}: {error}")
            return list(configs)

    def _chosen(self, configs: list[Any], arguments: Mapping[str, Any], tuner: Any) -> list[Any]:
        numbers, kind = shape_of(arguments)
        table = Table(self.folder / f"{kernel_id(tuner)}.jsonl")
        # Before the table is read: what autotuning measures now is worth keeping whatever the table holds.
        self._tuner, self._asked = tuner, (table, numbers, kind)
        self._learnt = getattr(tuner, "configs_timings", None)
        known, damaged = table.read(kind)
        if damaged:
            self._warn(f"{damaged} damaged lines of {table.path} are left out")
        places = worth_measuring(known, numbers, [config_name(config) for config in configs], self.k)
        return configs if places is None else [configs[place] for place in places]

    def learn(self) -> None:
        """Keep what autotuning measured since the last choice; Triton tells nobody, so it is looked for later."""
        asked, timings = self._asked, getattr(self._tuner, "configs_timings", None)
        self._asked = None
        if asked is None or timings is self._learnt or not isinstance(timings, dict):
            return
        self._learnt = timings
        table, numbers, kind = asked
        try:
            table.append(numbers, kind, {config_name(config): typical(times) for config, times in timings.items()})
        except Exception as error:  # noqa: BLE001 - a full disk must not end a program that only wanted to tune
            self._warn(f"times are not kept: {type(error).__name__}: {error}")

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(f"kbench.prune: {what}", RuntimeWarning, stacklevel=3)


class Table:
    """Times of one kernel on one GPU, a line per shape; several processes may append to it."""

    def __init__(self, path: Path) -> None:
        """Use a file, which need not exist."""
        self.path = path

    def read(self, kind: str) -> tuple[list[Known], int]:
        """The shapes of a kind, and how many lines are damaged and left out."""
        try:
            with self.path.open("rb") as stream:
                skipped = max(0, os.fstat(stream.fileno()).st_size - TABLE_BYTES)
                stream.seek(skipped)
                # A last line without an end is being written, or its writer died: the next one ends it.
                *lines, _ = stream.read().split(b"\n")
        except FileNotFoundError:
            return [], 0
        entries = [unsealed(line + b"\n") for line in lines[1 if skipped else 0 :]]
        shapes: dict[str, Known] = {}
        for entry in entries:
            if entry is not None and entry["kind"] == kind:
                times = {config: math.inf if time is None else time for config, time in entry["times"].items()}
                name = json.dumps(entry["numbers"], sort_keys=True)
                # A shape that was tuned again is known better: the last time of each configuration counts.
                before = shapes[name].times if name in shapes else {}
                shapes[name] = Known(entry["numbers"], {**before, **times})
        return list(shapes.values()), entries.count(None)

    def append(self, numbers: Mapping[str, float], kind: str, times: Mapping[str, float]) -> None:
        """Add a shape.

        Raises:
            OSError: the file cannot be written.
        """
        kept = {config: time if math.isfinite(time) else None for config, time in times.items()}
        line = sealed(json.dumps({"kind": kind, "numbers": dict(numbers), "times": kept}, separators=(",", ":")))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            end = os.fstat(descriptor).st_size
            # Whoever wrote last may have died in the middle of a line, which must not swallow this one.
            torn = end > 0 and os.pread(descriptor, 1, end - 1) != b"\n"
            os.write(descriptor, b"\n" * torn + line)
        finally:
            os.close(descriptor)


def unsealed(line: bytes) -> dict[str, Any] | None:
    """What a line of a table says; None where it is damaged."""
    text = line[: -1 - SEAL_BYTES].decode(errors="replace") + "}"
    if sealed(text) != line:
        return None
    with contextlib.suppress(ValueError):
        entry = json.loads(text)
        return entry if isinstance(entry, dict) else None
    return None


def shape_of(arguments: Mapping[str, Any]) -> tuple[dict[str, float], str]:
    """A launch's whole numbers by name, sizes of tensors included, and its kind: types and everything else."""
    numbers: dict[str, float] = {}
    kinds: dict[str, str] = {}
    for name, value in arguments.items():
        if name in LAUNCH:
            continue
        if isinstance(value, int) and not isinstance(value, bool):
            numbers[name] = float(value)
        elif hasattr(value, "dtype") and hasattr(value, "shape"):
            kinds[name] = str(value.dtype)
            numbers |= {f"{name}.{axis}": float(size) for axis, size in enumerate(value.shape)}
        else:
            kinds[name] = type(value).__name__ if isinstance(value, float) else repr(value)[:80]
    return numbers, json.dumps(kinds, sort_keys=True)


def kernel_id(tuner: Any) -> str:
    """A kernel on a GPU: its text and name, the device's name and size, and the compiler."""
    # Without the functions it calls: a choice by the times of an older helper is a little worse, and corrects itself.
    text, name = inspect.getsource(tuner.base_fn), str(tuner.base_fn.__name__)
    version = str(getattr(sys.modules.get("triton"), "__version__", ""))
    return f"{name[:60]}-{content_hash('tuning', text, name, device_name(), version)}"


def device_name() -> str:
    """The GPU in use and its number of multiprocessors, as torch sees them; nothing where it sees none."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return ""
    about = torch.cuda.get_device_properties(torch.cuda.current_device())
    return f"{about.name} {about.multi_processor_count}"


def config_name(config: Any) -> str:
    """A configuration as text that is equal for equal ones."""
    return json.dumps(config.all_kwargs(), sort_keys=True, default=str)


def typical(times: Any) -> float:
    """The time that autotuning goes by: the first of its quantiles."""
    return float(times[0] if isinstance(times, Sequence) else times)
