"""Whatever a record may hold comes back as it was."""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.loaders.checks.validate import validate
from kbench.loaders.corpus.corpus import Corpus, load
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.source.structure import structure_id
from kbench.schemas import Backend, Status
from kbench.schemas.ids import kernel_id

figures = st.floats(min_value=1e-300, max_value=1e300)


@settings(max_examples=8, deadline=None)
@given(
    sources=st.lists(st.text(max_size=60), min_size=1, max_size=4, unique_by=lambda s: kernel_id("relu", "cuda", s)),
    runtime=figures,
    error=st.text(min_size=1, max_size=20),
)
def test_any_source_figure_and_error_survive(
    build: Any, drawing: Any, sources: list[str], runtime: float, error: str
) -> None:
    rows = []
    for number, source in enumerate(sources):
        ok = number % 2 == 0
        values = dict.fromkeys(
            ("runtime_us", "runtime_low_us", "runtime_high_us", "speedup", "speedup_low", "speedup_high"),
            runtime if ok else None,
        )
        identity = {"problem_id": "relu", "backend": Backend.CUDA, "source": source, "env_id": None}
        ids = {"kernel_id": kernel_id("relu", "cuda", source), "structure_id": structure_id(source)}
        verdict = {"status": Status.OK if ok else Status.TIMEOUT, "error": None if ok else error}
        rows.append(build.kernel(number, **values, **identity, **ids, **verdict))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "corpus"
        with drawing(), CorpusWriter(path) as writer:
            writer.append("kernels", rows)
        assert sorted(map(str, load(path).records())) == sorted(map(str, rows))
        assert validate(Corpus.open(path)) == []
