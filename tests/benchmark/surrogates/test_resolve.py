"""Which surrogate a name means, and in which order."""

import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from kbench.benchmark.surrogates.baselines import UniformSurrogate
from kbench.benchmark.surrogates.resolve import BASELINES, BUILT_IN, locate, refuse_early, resolve
from kbench.schemas import UnknownNameError, UserError

MODEL = """
class Model:
    def __init__(self, size=1):
        self.size = size

    def forecast(self, queries):
        return []
"""


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MODEL)
    return path


@pytest.mark.parametrize("name", BASELINES)
def test_every_built_in_has_its_name_and_can_be_made(name: str) -> None:
    assert locate(name).kind == "built_in"
    assert callable(resolve(name).forecast)
    assert name in BUILT_IN


def test_entry_point_is_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("theirs", "kbench.benchmark.surrogates.baselines:UniformSurrogate", "kbench.surrogates")

    def entry_points(**wanted: str) -> EntryPoints:
        return EntryPoints([entry]).select(**wanted)

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    assert locate("theirs").kind == "entry_point"
    assert isinstance(resolve("theirs"), UniformSurrogate)


def test_a_built_in_comes_before_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model_file: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "static").mkdir()
    assert locate("static").kind == "built_in"


def test_module_and_attribute(monkeypatch: pytest.MonkeyPatch, model_file: Path) -> None:
    monkeypatch.chdir(model_file.parent)
    target = locate("mine:Model")
    assert (target.kind, target.location, target.attribute) == ("module", "mine", "Model")
    assert resolve("mine:Model", size=4).size == 4
    sys.modules.pop("mine")


def test_a_file_is_found_with_and_without_attribute(model_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for spec in (str(model_file), f"{model_file}:Model"):
        assert type(resolve(spec)).__name__ == "Model"
    for attribute, said in (("Modell", "did you mean 'Model'"), ("Whatever", r"known: Model$")):
        with pytest.raises(UnknownNameError, match=said):
            resolve(f"{model_file}:{attribute}")
    monkeypatch.chdir(model_file.parent)
    with pytest.raises(UnknownNameError, match=rf"did you mean '{model_file.name}'"):
        locate(model_file.stem)
    model_file.write_text(MODEL + MODEL.replace("Model", "Other"))
    with pytest.raises(UserError, match="name one, as in"):
        resolve(str(model_file))


def test_forecasts_file_and_folder(tmp_path: Path) -> None:
    folder = tmp_path / "entry"
    folder.mkdir()
    (folder / "forecasts.jsonl").write_text("")
    assert locate(str(folder / "forecasts.jsonl")).kind == "forecasts"
    assert locate(str(folder)).name == "entry"
    assert locate("replay:entry-1", _named(tmp_path)).name == "entry-1"
    with pytest.raises(UnknownNameError, match="did you mean 'entry-1'"):
        locate("replay:entry1", _named(tmp_path))


def _named(tmp_path: Path) -> Path:
    folder = tmp_path / "forecasts"
    folder.mkdir(exist_ok=True)
    (folder / "entry-1.jsonl").write_text("")
    return folder


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("statc", "did you mean 'static'"),
        ("nowhere/model.py", "does not exist"),
        ("nowhere/forecasts.parquet", "do not exist"),
        ("replay:nothing", "do not exist"),
        ("calibrated", "names too few surrogates; write calibrated:NAME"),
        ("calibrated:", "names too few surrogates; write calibrated:NAME"),
        ("calibrated:statc", "did you mean 'static'"),
        ("stack:static", "names too few surrogates; write stack:A"),
        ("stack:static+", "names too few surrogates"),
        ("stack:static+static", "two parts of one name"),
        ("calibrated:stack:static+prior", "nests"),
    ],
)
def test_unknown_names_get_one_clear_line(spec: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        locate(spec)


def test_a_function_called_surrogate_takes_its_own_arguments(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    made = "class M:\n    def __init__(self, depth):\n        self.depth = depth\n    def forecast(self, q): pass\n"
    file.write_text(f"{made}\ndef surrogate(size):\n    return M(2 * size)\n")
    refuse_early(locate(str(file)), {"size": 2})
    assert resolve(str(file), size=2).depth == 4
    with pytest.raises(UserError, match="no argument 'size'"):
        refuse_early(locate(f"{file}:M"), {"size": 2})


def test_a_combined_name_is_found_part_by_part(model_file: Path) -> None:
    target = locate(f"stack:static+{model_file}")
    assert (target.kind, target.name) == ("stack", "stack-static+mine")
    assert [part.kind for part in target.leaves] == ["built_in", "file"]
    assert [target.trusted, target.built_in, target.documented] == [False] * 3, "a user's part is not our code"
    ours = locate("calibrated:static")
    assert [ours.trusted, ours.built_in, ours.documented] == [True] * 3
    assert ours.found_at != locate("static").found_at


def test_arguments_of_a_combined_surrogate_go_to_its_parts(model_file: Path) -> None:
    made = resolve(f"stack:prior+{model_file}", **{"mine.size": 4})
    assert [getattr(part.surrogate, "size", None) for part in made._parts] == [None, 4]
    with pytest.raises(UserError, match="names no part of stack-prior"):
        resolve("stack:prior+length", size=4)
    with pytest.raises(UserError, match="has no argument"):
        resolve("calibrated:prior", size=4)
    with pytest.raises(UserError, match="validation_limit is 0"):
        resolve("calibrated:prior", validation_limit=0)
    with pytest.raises(UserError, match=r"prior\.validation_forecasts is 'nowhere'"):
        resolve("stack:prior+length", **{"prior.validation_forecasts": "nowhere"})
