"""Forecasts are kept under a fingerprint: what a surrogate is made of must change it, and looking must run nothing."""

import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from kbench.benchmark.surrogates import resolve as module
from kbench.benchmark.surrogates.resolve import locate
from kbench.benchmark.surrogates.resolve import surrogate_fingerprint as fingerprint

MODEL = """
class Model:
    def forecast(self, queries):
        return []
"""


@pytest.fixture
def in_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a model in a file and one in a package that must not be run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MODEL)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("raise RuntimeError('only the worker may run this')")
    (tmp_path / "package" / "model.py").write_text("from package import layers" + MODEL)
    (tmp_path / "package" / "layers.py").write_text("size = 1\n")
    return tmp_path


@pytest.mark.parametrize(
    ("spec", "changed"),
    [("mine.py", "mine.py"), ("mine:Model", "mine.py"), ("package.model:Model", "package/layers.py")],
)
def test_it_changes_with_the_code(in_models: Path, spec: str, changed: str) -> None:
    target = locate(spec)
    before = fingerprint(target, {})
    assert fingerprint(target, {}) == before
    (in_models / changed).write_text("size = 2\n" + MODEL)
    assert fingerprint(target, {}) != before
    assert "package" not in sys.modules


def test_it_changes_with_the_code_behind_an_entry_point(in_models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("theirs", "mine:Model", "kbench.surrogates")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **wanted: EntryPoints([entry]).select(**wanted))
    before = fingerprint(locate("theirs"), {})
    (in_models / "mine.py").write_text(MODEL + "# changed\n")
    assert fingerprint(locate("theirs"), {}) != before


def test_it_changes_with_a_built_in_s_model_and_with_kbench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "model.npz").write_bytes(b"old")
    monkeypatch.setattr(module, "BUILT_IN_FOLDER", tmp_path)
    before = fingerprint(locate("static"), {})
    (tmp_path / "static" / "model.npz").write_bytes(b"new")
    after = fingerprint(locate("static"), {})
    monkeypatch.setattr(module, "__version__", "99.0.0")
    assert len({before, after, fingerprint(locate("static"), {})}) == 3


def test_it_changes_with_an_argument_and_with_the_content_of_a_file_that_one_names(in_models: Path) -> None:
    target, weights = locate("mine.py"), in_models / "weights.npz"
    weights.write_bytes(b"old")
    found = {
        fingerprint(target, {}),
        fingerprint(target, {"model": "weights.npz"}),
        fingerprint(target, {"model": "other"}),
    }
    weights.write_bytes(b"new")
    assert len(found | {fingerprint(target, {"model": "weights.npz"})}) == 4


def test_it_tells_an_argument_from_what_else_is_asked(in_models: Path) -> None:
    target = locate("mine.py")
    assert fingerprint(target, {"seed": 5}, "dataset", "0") != fingerprint(target, {"seed": 6}, "dataset", "0")
    assert fingerprint(target, {}, "dataset", "0") != fingerprint(target, {}, "dataset", "1")


@pytest.mark.parametrize("value", ["x" * 5000, "a\0b", 3, None, "."])
def test_arguments_that_name_no_file_are_fine(in_models: Path, value: object) -> None:
    assert fingerprint(locate("mine.py"), {"a": value})


def test_a_file_counts_with_the_files_beside_it_that_it_imports(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from features import table\nclass Mine:\n    def forecast(self, queries): ...\n")
    (tmp_path / "features.py").write_text("import deeper\ntable = 1\n")
    (tmp_path / "deeper.py").write_text("depth = 1\n")
    (tmp_path / "beside.py").write_text("nothing = 1\n")
    target = locate(f"{tmp_path / 'mine.py'}:Mine")
    before = fingerprint(target, {})
    (tmp_path / "beside.py").write_text("nothing = 2\n")
    assert fingerprint(target, {}) == before
    (tmp_path / "deeper.py").write_text("depth = 2\n")
    assert fingerprint(target, {}) != before
