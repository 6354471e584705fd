"""A Hub id opens like a folder; what the Hub refuses is one clear line."""

from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from kbench.loaders.corpus.corpus import Corpus, load
from kbench.loaders.hub import pull as pull_module
from kbench.loaders.hub.pull import pull_corpus, pull_release
from kbench.loaders.hub.repository import commit_of
from kbench.schemas import InfrastructureError, UserError

from .conftest import write_corpus


def test_a_hub_id_is_fetched_and_opened(corpus_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str | None]] = []

    def snapshot(repository: str, repo_type: str, **_: Any) -> str:
        asked.append((repository, repo_type))
        return str(corpus_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    assert load("owner/name", problem="relu").count() == load(corpus_path, problem="relu").count()
    assert asked == [("owner/name", "dataset")]


def test_a_folder_goes_before_a_hub_id(corpus_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "owner").mkdir()
    corpus_path.rename(tmp_path / "owner" / "name")
    monkeypatch.chdir(tmp_path)
    assert Corpus.open("owner/name").rows() == 40


def test_a_hub_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> str:
        raise LocalEntryNotFoundError("Cannot find it.\nCheck your connection.")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(InfrastructureError, match=r"path 'owner/name' is no local folder; .*: Cannot find it$"):
        Corpus.open("owner/name")


@pytest.mark.parametrize("name", ["foo/bar.git", "foo/a--b"])
def test_a_name_the_hub_does_not_allow_is_one_line(name: str) -> None:
    with pytest.raises(UserError, match=rf"path '{name}' is no local folder; .* has no name the Hub allows") as caught:
        Corpus.open(name)
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match=f"repository '{name}' has no name the Hub allows"):
        commit_of(name)


@pytest.fixture
def hub_of_two(corpus_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder, and a Hub on which alice and bob each have a corpus of any name."""
    corpora = {"alice": corpus_path, "bob": write_corpus(tmp_path / "other", kernels=8)}
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("KBENCH_HOME", str(home))
    monkeypatch.setattr(pull_module, "commit_of", lambda *_: "0" * 40)
    monkeypatch.setattr(pull_module, "fetch_files", lambda repository, *_: corpora[repository.split("/")[0]])
    return home


def test_a_pull_replaces_what_came_from_the_same_repository_only(hub_of_two: Path, tmp_path: Path) -> None:
    for _ in range(2):
        pull_corpus("alice/kernels")
    with pytest.raises(UserError) as caught:
        pull_corpus("bob/kernels")
    assert str(caught.value) == (
        f"pulling 'bob/kernels' would replace the corpus in {str(hub_of_two / 'kernels')!r}, one pulled from "
        "'alice/kernels'; pull into another folder with --out, or remove that one first"
    )
    assert load("kernels").count() == 40
    pull_corpus("bob/kernels", tmp_path / "bobs")
    assert load(tmp_path / "bobs").count() == 8


@pytest.mark.parametrize("says", [None, "{", "[]"])
def test_a_pull_replaces_no_corpus_of_unknown_origin(hub_of_two: Path, says: str | None) -> None:
    mine = write_corpus(hub_of_two / "kernels", kernels=4)
    if says is not None:
        (mine / "pull.json").write_text(says)
    with pytest.raises(UserError) as caught:
        pull_corpus("alice/kernels")
    assert str(caught.value) == (
        f"pulling 'alice/kernels' would replace the corpus in {str(mine)!r}, which does not say where it came from "
        "(no readable pull.json); pull into another folder with --out, or remove that one first"
    )
    assert load("kernels").count() == 4


def test_the_published_release_and_a_corpus_of_its_name_do_not_replace_one_another(hub_of_two: Path) -> None:
    pull_corpus("bob/gpu-forecasters")
    with pytest.raises(UserError, match="one pulled from 'bob/gpu-forecasters'"):
        pull_release()
    assert load("gpu-forecasters").count() == 8
