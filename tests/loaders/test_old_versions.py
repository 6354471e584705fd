"""Corpora written under every published schema version still open and read as records.

fixtures/ has one archive per version, written by the kbench of that version; it is never written again.
"""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kbench.loaders.checks.validate import validate
from kbench.loaders.corpus.configs import CONFIGS
from kbench.loaders.corpus.corpus import Corpus, load
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.schemas.files import versions

FINGERPRINTS = {
    "1.0.0": "063f24a8f40e7f42e8456bfce52f602d",
    "1.1.0": "95762e8c89cc7d1d2514ec301a81a44a",
    "1.2.0": "02810955a63294748ba44c1938d72930",
    "1.3.0": "7ac357e4fe9876a1c07e8915f890aa25",
}


def test_there_is_a_corpus_for_every_published_version(old_corpora: Path) -> None:
    assert sorted(path.name for path in old_corpora.iterdir()) == sorted(versions()) == sorted(FINGERPRINTS)


@pytest.mark.parametrize("version", FINGERPRINTS)
def test_a_corpus_of_every_version_opens_and_validates(version: str, old_corpora: Path) -> None:
    corpus = Corpus.open(old_corpora / version)
    later = ("plans", "references", "counters", "live", "questions", "tuning")
    since = {"repeats": "1.3.0", **dict.fromkeys(later, "1.4.0")}
    assert corpus.configs == tuple(name for name in CONFIGS if version >= since.get(name, ""))
    assert validate(corpus) == []
    for name in corpus.configs:
        assert sum(1 for _ in corpus.select(name).records()) == corpus.rows(name) > 0


@pytest.mark.parametrize("version", FINGERPRINTS)
def test_the_fingerprint_of_old_content_stays(version: str, old_corpora: Path) -> None:
    assert Corpus.open(old_corpora / version).fingerprint == FINGERPRINTS[version]


@pytest.mark.parametrize("version", ["1.0.0", "1.1.0"])
def test_writing_old_rows_again_with_later_columns_keeps_their_fingerprint(
    version: str, tmp_path: Path, old_corpora: Path
) -> None:
    old = Corpus.open(old_corpora / version)
    with CorpusWriter(tmp_path / "again") as writer:
        for name in old.configs:
            writer.append(name, old.table(name))
    again = Corpus.open(tmp_path / "again")
    assert again.fingerprint == old.fingerprint
    assert validate(again) == []
    assert again.table("measurements").column("ruler_us").null_count == old.rows("measurements")


def test_a_column_an_older_file_lacks_reads_as_null(corpus_path: Path, tmp_path: Path) -> None:
    victim = next((corpus_path / "kernels").glob("train-*.parquet"))
    older = tmp_path / "older.parquet"
    pq.write_table(pq.read_table(victim).drop(["license"]), older)
    selection = load([older])
    assert selection.to_arrow().column("license").null_count == selection.count() == 20
    assert selection.to_polars().collect()["license"].null_count() == 20
