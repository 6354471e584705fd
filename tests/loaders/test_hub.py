"""A Hub id opens like a folder; what the Hub refuses is one clear line."""

from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from kbench.loaders.corpus import Corpus, load
from kbench.schemas import UserError


def test_a_hub_id_is_fetched_and_opened(corpus_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str | None]] = []

    def snapshot(repository: str, repo_type: str, revision: str | None) -> str:
        asked.append((repository, repo_type))
        return str(corpus_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    assert load("owner/name", problem="relu").count() == load(corpus_path, problem="relu").count()
    assert asked == [("owner/name", "dataset")]


def test_a_folder_goes_before_a_hub_id_of_the_same_name(
    corpus_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "owner").mkdir()
    corpus_path.rename(tmp_path / "owner" / "name")
    monkeypatch.chdir(tmp_path)
    assert Corpus.open("owner/name").rows() == 40


def test_a_hub_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> str:
        raise LocalEntryNotFoundError("Cannot find it.\nCheck your connection.")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(UserError, match=r"path 'owner/name' is no local folder, .*: Cannot find it\.$"):
        Corpus.open("owner/name")
