"""Proposed kernels: what searches wrote and nobody has measured, as a corpus without figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import click

from kbench.benchmark.problems.registry import listed, named
from kbench.generation.assembly.gather import Measured, ancestors, check_lineage, text_facts
from kbench.generation.assembly.kernels import kernel_row
from kbench.generation.log import by_run, read_log
from kbench.generation.search.reducer import replay
from kbench.generation.search.state import RunState
from kbench.harness.record import Aggregate
from kbench.loaders.corpus.places import is_corpus
from kbench.loaders.options import echo_json, json_option, out_option
from kbench.schemas import Kernel, UserError


@click.command(short_help="Collect kernels that wait to be measured.")
@click.argument("runs", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--problem", "problems", multiple=True, help="Only kernels of this problem; may be given several times.")
@out_option("Corpus folder to write.", required=True)
@json_option
def proposed(runs: tuple[Path, ...], problems: tuple[str, ...], out: Path, as_json: bool) -> None:
    """Collect kernels that searches proposed and nobody has measured, as `--executor none` leaves them."""
    from kbench.loaders.corpus.corpus import Corpus
    from kbench.loaders.corpus.writer import CorpusWriter

    if is_corpus(out) and set(Corpus.open(out).configs) - {"kernels", "problems"}:
        raise UserError(f"--out {str(out)!r} is a corpus with measurements, which would be lost; choose another")
    wanted = {named(problem).id for problem in problems}
    rows = proposed_rows(runs, wanted)
    if not rows:
        raise UserError(f"no kernel in {', '.join(map(str, runs))} waits to be measured; propose some: kbench generate")
    with CorpusWriter(out) as writer:
        writer.replace("kernels", rows)
        writer.replace("problems", [listed(problem).record() for problem in sorted({row.problem_id for row in rows})])
    echo_json({"path": str(out), "kernels": len(rows)}) if as_json else click.echo(f"{out}: {len(rows):,} kernels")


def proposed_rows(folders: Sequence[Path], problems: Collection[str] = ()) -> list[Kernel]:
    """Kernels that wait to be measured; of kernels equal up to comments the first, and none that a run has measured.

    Args:
        folders: run folders or log files.
        problems: whose kernels; all problems' when empty.

    Raises:
        DataError: a log is damaged, or a candidate's parent is unknown.
    """
    runs = (run for folder in folders for run in by_run(read_log(folder)).values())
    replayed = (state for run in runs if (state := replay(run)))
    states = [state for state in replayed if not problems or state.settings.problem_id in problems]
    for state in states:
        check_lineage(state)
    waiting = [one for state in states for one in _waiting(state)]
    measured_texts = [_text(s, n.source) for s in states for n in s.nodes.values() if n.outcome is not None]
    texts = text_facts([*(one.node.source for one in waiting), *(source for _, _, source in measured_texts)])
    seen_texts = {(problem, backend, texts[source].stripped) for problem, backend, source in measured_texts}
    rows: list[Kernel] = []
    for one in waiting:
        facts = texts[one.node.source]
        key = (one.settings.problem_id, one.settings.backend.value, facts.stripped)
        if key not in seen_texts:
            seen_texts.add(key)
            rows.append(kernel_row(one, facts, one.node.parent_id, UNMEASURED))
    return rows


UNMEASURED = dict.fromkeys(field.name for field in dataclasses.fields(Aggregate))
"""The figures of a kernel that has none."""


def _waiting(state: RunState) -> Iterator[Measured]:
    for node in state.nodes.values():
        if not node.settled:
            yield Measured(state.run_id, state.settings, node, (), tuple(ancestors(state, node)))


def _text(state: RunState, source: str) -> tuple[str, str, str]:
    return state.settings.problem_id, state.settings.backend.value, source
