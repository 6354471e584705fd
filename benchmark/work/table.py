"""Work as plain values: what a planning process sends, what a table of the dataset holds."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from kbench.benchmark.problems import ProblemDefinition, ScalarSpec
from kbench.benchmark.work.count import MOST_LAUNCHES
from kbench.benchmark.work.totals import MOST_LINES, NAMES, LaunchWork, LineWork, Totals, Traffic, Work
from kbench.schemas import DataError

LARGEST = 1e18
"""More than any kernel does in a second."""
MOST_STORED, MOST_BUFFERS = 4096, 4096
LONGEST_TEXT = 200
MOST_ELEMENTS = 1 << 22
"""Of an input that is made; larger ones are data, not indices."""


def plain_work(work: Work) -> dict[str, Any]:
    """Work as dictionaries, lists and numbers."""
    return dataclasses.asdict(work)


def read_work(data: Mapping[str, Any]) -> Work:
    """Work from plain values that may come from anyone.

    Raises:
        DataError: they are no work.
    """
    try:
        launches = tuple(_launch(one) for one in data["launches"][: MOST_STORED + 1])
        rest = [int(_number(data[name])) for name in ("fills", "copies", "fill_bytes", "copy_bytes")]
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DataError(f"its counted work is malformed: {type(error).__name__}: {error}") from None
    if len(launches) > MOST_STORED:
        raise DataError(f"its counted work has more than {MOST_STORED} launches; at most {MOST_LAUNCHES} are counted")
    return Work(launches, *rest)


def work_text(configurations: Sequence[Work]) -> str:
    """Work of a plan's configurations as a table keeps it: without lines and without figures of zero.

    Every figure is read again as it was: those that are whole are only written without a point.
    """
    plain = [plain_work(work) for work in configurations]
    for launch in (launch for work in plain for launch in work["launches"]):
        del launch["lines"]
        launch["traffic"] = [
            {name: one[name] for name in one if one[name] or name != "looked_up"} for one in launch["traffic"]
        ]
        launch["per_block"] = {name: figure for name, figure in launch["per_block"].items() if figure}
    return json.dumps(_whole(plain), separators=(",", ":"))


def _whole(value: Any) -> Any:
    """A value whose whole floats are integers."""
    if isinstance(value, dict):
        return {name: _whole(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def read_work_text(text: str, where: str) -> list[Work]:
    """Work of a plan's configurations from the text of a table.

    Args:
        text: what `work_text` made, or what someone changed since.
        where: named when it is damaged.

    Raises:
        DataError: it is no such text.
    """
    try:
        configurations = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: its counted work is not JSON ({error}); restore the file from a copy") from None
    if not isinstance(configurations, list) or not configurations:
        raise DataError(f"{where}: its counted work is no list of configurations; restore the file from a copy")
    try:
        return [read_work(one) for one in configurations]
    except DataError as error:
        raise DataError(f"{where}: {error}; restore the file from a copy") from None


def _launch(data: Mapping[str, Any]) -> LaunchWork:
    x, y, z = (int(_number(extent)) for extent in data["grid"])
    whole = {
        name: int(_number(data[name])) for name in ("threads", "registers", "shared_bytes", "stack_bytes", "times")
    }
    return LaunchWork(
        function=str(data["function"])[:LONGEST_TEXT],
        grid=(x, y, z),
        per_block=Totals(**{name: _number(data["per_block"].get(name, 0.0)) for name in NAMES}),
        largest=_number(data["largest"]),
        traffic=tuple(_traffic(one) for one in data["traffic"][:MOST_BUFFERS]),
        lines=tuple(_line(one) for one in data.get("lines", ())[:MOST_LINES]),
        error=None if data["error"] is None else str(data["error"])[:LONGEST_TEXT],
        **whole,
    )


def _traffic(data: Mapping[str, Any]) -> Traffic:
    x, y, z = (_number(share) for share in data["new_share"])
    nbytes, loads, fetches, stores = (_number(data[name]) for name in ("nbytes", "loads", "fetches", "stores"))
    far, looked_up = _number(data["far_share"]), _number(data.get("looked_up", 0.0))
    return Traffic(nbytes, loads, fetches, stores, (x, y, z), far, looked_up)


def _line(data: Mapping[str, Any]) -> LineWork:
    # Older counts have no common bytes.
    fields = {field.name: _number({"common_bytes": 0.0, **data}[field.name]) for field in dataclasses.fields(LineWork)}
    return LineWork(**fields | {"line": int(fields["line"])})  # type: ignore[arg-type]


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number) or not 0 <= number <= LARGEST:
        raise ValueError(f"a figure is {value!r}")
    return number


def index_contents(definition: ProblemDefinition, workload: str) -> dict[int, bytes]:
    """Bytes of the integer inputs of a workload, by position.

    They are drawn as the harness draws them, but on the CPU, whose random numbers are others: the values differ from
    what a GPU is given, their distribution does not.
    """
    import torch

    size = next(one for one in (*definition.sizes, definition.tiny) if one.name == workload)
    generator = torch.Generator().manual_seed(0)
    contents: dict[int, bytes] = {}
    for position, spec in enumerate(definition.inputs(size.params)):
        if isinstance(spec, ScalarSpec) or "int" not in spec.dtype or math.prod(spec.shape) > MOST_ELEMENTS:
            continue
        contents[position] = spec.fill(generator, spec, "cpu").contiguous().numpy().tobytes()
    return contents
