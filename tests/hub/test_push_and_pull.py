"""A corpus goes to the Hub and comes back byte for byte; what breaks on the way is one line and leaves nothing half."""

import errno
import filecmp
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.storage.hub_client import plain_errors
from kbench.schemas import InfrastructureError

Run = Callable[..., subprocess.CompletedProcess[str]]
REPO = "user/kbench"


def one_line(done: subprocess.CompletedProcess[str], code: int) -> str:
    """The one line a failed command says."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip() and not line.endswith("…")]
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_a_corpus_survives_the_round_trip(hub: Any, kbench: Run, fresh: Run, made_corpus: Path, tmp_path: Path) -> None:
    dry = kbench("data", "push", REPO, "--path", str(made_corpus), "--dry-run")
    assert "would upload" in dry.stdout
    assert hub.commits == {}, "a dry run uploads nothing"
    done = kbench("data", "push", REPO, "--path", str(made_corpus), "--json")
    assert done.returncode == 0, done.stderr
    fingerprint = Corpus.open(made_corpus).fingerprint
    assert json.loads(done.stdout)["fingerprint"] == fingerprint
    assert fingerprint in hub.tags[REPO]
    assert hub.messages == [f"kbench corpus {fingerprint}"]
    assert {"README.md", "croissant.json", "manifest.json", "eval.yaml"} <= set(hub.commits[REPO][-1][1])

    code = f"from datasets import load_dataset; print(len(load_dataset({REPO!r}, 'kernels', split='train')))"
    loaded = fresh("-W", "ignore", "-c", code)
    assert loaded.returncode == 0, loaded.stderr
    assert int(loaded.stdout) == Corpus.open(made_corpus).select(split="train").count()

    pulled = kbench("data", "fetch", REPO, "--revision", fingerprint, "--out", str(tmp_path / "back"))
    assert pulled.returncode == 0, pulled.stderr
    names = [
        entry.path for config in Corpus.open(made_corpus).configs for entry in Corpus.open(made_corpus).files(config)
    ]
    _, mismatch, errors = filecmp.cmpfiles(made_corpus, tmp_path / "back", [*names, "manifest.json"], shallow=False)
    assert (mismatch, errors) == ([], [])


def test_an_interrupted_upload_goes_on_where_it_stopped(hub: Any, kbench: Run, made_corpus: Path) -> None:
    hub.fail_uploads_after = 2
    broken = kbench("data", "push", REPO, "--path", str(made_corpus))
    assert broken.returncode != 0
    assert "Traceback" not in broken.stderr
    assert len(hub.commits[REPO]) == 1, "only the empty repository is there"
    first = list(hub.uploads)
    hub.fail_uploads_after = None
    assert kbench("data", "push", REPO, "--path", str(made_corpus)).returncode == 0
    assert len(hub.uploads) == len(set(hub.uploads)), "nothing is sent twice"
    assert hub.uploads[: len(first)] == first


def test_what_cannot_be_pushed_is_one_line(hub: Any, kbench: Run, made_corpus: Path, tmp_path: Path) -> None:
    refused = one_line(kbench("data", "push", REPO, "--path", str(made_corpus), token="wrong"), 2)
    assert "refused the token" in refused
    assert "must be owner/name" in one_line(kbench("data", "push", "kbench", "--path", str(made_corpus)), 2)
    damaged = Path(shutil.copytree(made_corpus, tmp_path / "damaged"))
    victim = next((damaged / "pairs").glob("*.parquet"))
    victim.write_bytes(victim.read_bytes()[:-100])
    assert "fetch the corpus again" in one_line(kbench("data", "push", REPO, "--path", str(damaged)), 2)
    assert hub.commits == {}


def test_what_cannot_be_pulled_is_one_line(hub: Any, kbench: Run, made_corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "back"
    assert "was not found on the Hub" in one_line(kbench("data", "fetch", "user/nothing", "--out", str(out)), 2)
    files = {str(p.relative_to(made_corpus)): p.read_bytes() for p in made_corpus.rglob("*") if p.is_file()}
    victim = next(name for name in files if name.startswith("pairs/"))
    hub.add(REPO, files | {victim: files[victim][:-1] + b"X"})
    assert "has no such revision" in one_line(kbench("data", "fetch", REPO, "--revision", "v9", "--out", str(out)), 2)
    assert "bytes differ from the manifest" in one_line(kbench("data", "fetch", REPO, "--out", str(out)), 2)
    hub.add(REPO, {victim: files[victim][:-50]})
    assert "the manifest says" in one_line(kbench("data", "fetch", REPO, "--out", str(out)), 2)
    assert not out.exists()


def test_an_interrupted_download_goes_on(hub: Any, kbench: Run, made_corpus: Path, tmp_path: Path) -> None:
    files = {str(p.relative_to(made_corpus)): p.read_bytes() for p in made_corpus.rglob("*") if p.is_file()}
    hub.add(REPO, files)
    hub.cut_downloads_at = 6000
    broken = kbench("data", "fetch", REPO, "--out", str(tmp_path / "back"))
    hub.cut_downloads_at = None
    assert "Traceback" not in broken.stderr
    fetched = {path for path, start in hub.downloads if start == 0}
    before = len(hub.downloads)
    done = kbench("data", "fetch", REPO, "--out", str(tmp_path / ("again" if broken.returncode == 0 else "back")))
    assert done.returncode == 0, done.stderr
    again = hub.downloads[before:]
    whole = {path for path in fetched if len(files[path]) <= 6000}
    assert not whole & {path for path, _ in again}, "what came whole is not fetched again"


def test_an_unreachable_hub_is_one_line(kbench: Run, tmp_path: Path) -> None:
    done = kbench("data", "fetch", REPO, "--out", str(tmp_path / "x"), HF_ENDPOINT="http://127.0.0.1:9")
    assert "Hub" in one_line(done, 1)


@pytest.mark.parametrize("only", ["eval-sets", "eval-set-predictions"])
def test_a_dataset_that_cannot_stand_alone_is_refused(kbench: Run, only: str) -> None:
    line = one_line(kbench("data", "fetch", "gpu-forecasters", "--only", only), 2)
    assert "did you mean 'eval-set'" in line or "needs eval-set too" in line


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), InfrastructureError, "the disk is full while fetching"),
        (ConnectionResetError("reset by peer"), InfrastructureError, "did not answer for 'a/b': reset by peer"),
        (KeyError("ours"), KeyError, "ours"),
    ],
)
def test_errors_of_the_machine_are_not_our_mistakes(error: Exception, kind: type[Exception], message: str) -> None:
    def fail() -> None:
        with plain_errors("a/b"):
            raise error

    with pytest.raises(kind, match=message):
        fail()
