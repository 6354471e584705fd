"""`kbench data fetch`, `import` and `push`: data from elsewhere, and ours to elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from kbench.loaders.corpus.places import SHIPPED, is_corpus, located, shipped
from kbench.loaders.options import echo_json, json_option, out_option, progress
from kbench.schemas import DataError, UnknownNameError, UserError

SHOWN = 20
FORMATS = (
    "kernelbench-eval, kernelbench-timing, cuda-l1, kernel-tuner, t4, ktt, flashinfer-trace, gpu-mode, "
    "sol-execbench, openevolve, table or gpu-forecasters; read from the files' content when left out."
)
"""Named here so that help reads no importer; a test compares."""


@click.command("fetch", short_help="Download a corpus, the published release, or recorded searches of others.")
@click.argument("name", required=False)
@click.option("--revision", "revisions", multiple=True, metavar="[DATASET=]SHA", help="Commit, tag or branch to pull.")
@click.option("--only", metavar="LIST", help="Datasets of gpu-forecasters, separated by commas.")
@click.option("--checkout", "checkouts", multiple=True, type=click.Path(path_type=Path),
              help="Copy of a set's repository, for lack of a network. Repeatable.")  # fmt: skip
@out_option("Corpus folder; by default in $KBENCH_HOME.")
@json_option
def fetch(
    name: str | None,
    revisions: tuple[str, ...],
    only: str | None,
    checkouts: tuple[Path, ...],
    out: Path | None,
    as_json: bool,
) -> None:
    """Download NAME: a kbench corpus such as owner/name, the published release gpu-forecasters, or a recorded search.

    Recorded searches of others come from their repositories at fixed commits, are checked by hash and imported;
    without NAME they are listed. Bad rows of the release are reported and left out.
    """
    from kbench.loaders.hub.pull import fetch_set, foreign_sets, pull_corpus, pull_release
    from kbench.loaders.importers import gpu_forecasters

    def say(text: str) -> None:
        click.echo(f"{text} …", err=True)

    sets = {set_name: one.about for set_name, one in foreign_sets().items()}
    if name is None:
        choices = {gpu_forecasters.NAME: "The published release."} | sets
        echo_json(choices) if as_json else click.echo("\n".join(f"{one:20} {about}" for one, about in choices.items()))
        return
    if checkouts and name not in sets:
        raise UserError(f"--checkout is for {', '.join(sets)}; {name!r} is pulled from the Hub")
    if name != gpu_forecasters.NAME and (only is not None or len(revisions) > (name not in sets)):
        raise UserError(f"--only and several revisions are for {gpu_forecasters.NAME}; {name!r} is one repository")
    if name in sets:
        pulled = fetch_set(name, out, checkouts, say=say)
    elif name == gpu_forecasters.NAME:
        chosen = [item.strip() for item in only.split(",")] if only else []
        pulled = pull_release(out, only=chosen, revisions=_revisions(revisions), say=say)
    elif "/" not in name:
        raise UnknownNameError("corpus or set", name, (gpu_forecasters.NAME, *sets, "owner/name of the Hub"))
    else:
        pulled = pull_corpus(name, out, revisions[0] if revisions else None)
    if as_json:
        echo_json({"folder": str(pulled.folder), "revisions": dict(pulled.revisions), **pulled.report})
        return
    for repository, commit in pulled.revisions.items():
        click.echo(f"{repository} at {commit}")
    show_report(pulled.report)
    click.echo(f"corpus: {pulled.folder}")


def _revisions(given: tuple[str, ...]) -> dict[str, str]:
    commits: dict[str, str] = {}
    for item in given:
        dataset, equals, commit = item.partition("=")
        key, value = (dataset, commit) if equals else ("", item)
        if key in commits or not value:
            raise UserError(f"--revision is {item!r}; give a commit once, or dataset=commit for each dataset")
        commits[key] = value
    return commits


@click.command("import", short_help="Import measurements in other formats; join corpora.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--format", "form", metavar="NAME", help=FORMATS)
@out_option("Corpus folder to make.", required=True)
@click.option("--on-bad-rows", type=click.Choice(["error", "skip"]), default="error", show_default=True,
              help="Stop at a bad row, or report and skip it.")  # fmt: skip
@click.option("--gpu", "gpus", multiple=True, metavar="[FILE=]NAME",
              help="GPU of files that do not name one, or of one of them. Repeatable.")  # fmt: skip
@click.option("--map", "columns", metavar="LIST", help="Columns of a table, such as source=code,runtime_us=time*1000.")
@click.option("--license", "license_", help="Licence of kernels whose file states none, as an SPDX name.")
@click.option("--unit", type=click.Choice(["s", "ms", "us", "ns"]), help="Unit of the times, where a file states none.")
@click.option("--problem", metavar="ID", help="Problem that the kernels solve, where an OpenEvolve folder is of one.")
@click.option("--kernelbench", metavar="LIST",
              help="What KernelBench files do not state, such as suite=v0.1,level=2,first-id=1.")  # fmt: skip
@click.option("--split", type=click.Choice(["train", "validation", "test", "test_seen"]), default="test",
              show_default=True, help="Split the rows are put in.")  # fmt: skip
@json_option
def import_command(
    files: tuple[Path, ...],
    form: str | None,
    out: Path,
    gpus: tuple[str, ...],
    columns: str | None,
    license_: str | None,
    kernelbench: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Import measured kernels from FILES of other formats, or join corpora, in a new corpus.

    FILES may be packed with gzip; recorded searches are read by folder. With --map, any CSV, JSON or Parquet
    table is read. Folders that are corpora or bundles of `kbench contribute`, and the word shipped, are checked and
    joined; rows they share are kept once.
    """
    corpora = [path for path in files if str(path) == SHIPPED or is_corpus(path)]
    if corpora and len(corpora) < len(files):
        other = next(path for path in files if path not in corpora)
        raise UserError(
            f"{str(corpora[0])!r} is a corpus and {str(other)!r} is none; import that first, then join both"
        )
    if corpora:
        _join([located(path) for path in files], out, as_json)
        return
    from kbench.loaders.importers.reader import ImportSettings
    from kbench.loaders.importers.run import import_files
    from kbench.loaders.importers.table import parse_mapping

    given |= {"license": license_, "columns": parse_mapping(columns) if columns else {}} | _gpus(gpus, files)
    given |= _kernelbench(kernelbench) if kernelbench else {}
    size = sum(path.stat().st_size for path in files if path.is_file())
    with progress(size, "importing") as bar:
        report = import_files(form, files, out, ImportSettings(**given), bar.update)
    if as_json:
        echo_json(report.to_json() | {"folder": str(out)})
        return
    show_report(report.to_json())
    click.echo(f"corpus: {out}")


KERNELBENCH: Mapping[str, Mapping[str, Any]] = {
    "suite": {"v0": "v0", "v0.1": "v0.1"},
    "level": {str(level): level for level in range(1, 10)},
    "first-id": {"0": 0, "1": 1},
}
"""Values that each part of `--kernelbench` may have, as they are written."""


def _kernelbench(text: str) -> dict[str, Any]:
    """`--kernelbench`: name=value, separated by commas."""
    settings: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (word.strip() for word in part.partition("="))
        if name not in KERNELBENCH:
            raise UnknownNameError("part of --kernelbench", name, tuple(KERNELBENCH))
        if value not in KERNELBENCH[name]:
            raise UserError(f"--kernelbench holds {part!r}; {name} is one of {', '.join(KERNELBENCH[name])}")
        settings[name.replace("-", "_")] = KERNELBENCH[name][value]
    return settings


def _gpus(given: tuple[str, ...], files: tuple[Path, ...]) -> dict[str, Any]:
    """`--gpu`: one name for all files, or a name for each."""
    names = {name for path in files for name in (str(path), path.name)}
    by_file, for_all = {}, []
    for item in given:
        file, equals, name = item.rpartition("=")
        if equals and (file in names or "=" not in item.replace("=", "", 1)):
            by_file[file] = name.strip()
        else:
            for_all.append(item)
    if len(for_all) > 1:
        raise UserError(f"--gpu names {for_all[0]!r} and {for_all[1]!r}; name one GPU, or one per file with FILE=NAME")
    return {"gpu": for_all[0] if for_all else None, "gpus": by_file}


ONE_OF = {"kernels": "kernel", "bad rows": "bad row"}
"""What one entry became, where more are named in the plural."""


def show_report(report: Mapping[str, Any]) -> None:
    """What an import found, for people."""
    from kbench.loaders.importers import gpu_forecasters

    counts = report["rows"].items()
    click.echo(", ".join(f"{count:,} {name.removesuffix('s') if count == 1 else name}" for name, count in counts))
    for source in report.get("sources", [])[:SHOWN]:
        click.echo(f"{source['file']}: {source['entries']:,} {'entry' if source['entries'] == 1 else 'entries'}")
        for fate, count in source["became"].items():
            click.echo(f"  {count:,} {ONE_OF.get(fate, fate) if count == 1 else fate}")
    for title, values in (("null", report.get("nulls", {})), ("note", report.get("notes", {}))):
        for text, count in sorted(values.items(), key=lambda item: -item[1])[:SHOWN]:
            click.echo(f"{title}: {count:,} × {text}")
    if "differences" in report:
        unstated = any(text.startswith("license:") for text in report["nulls"])
        unlicensed = unstated or report["format"] == gpu_forecasters.NAME
        click.echo("licence: not stated by the origin" if unlicensed else "licence: see the rows")
    for line in report.get("differences", []):
        click.echo(f"differs: {line}")
    if report.get("bad_rows"):
        one = report["bad_rows"] == 1
        click.echo("1 bad row was skipped:" if one else f"{report['bad_rows']:,} bad rows were skipped:", err=True)
        for row in report["bad"][:SHOWN]:
            click.echo("  {file}, entry {row}: {field} is {value}: {message}".format(**row), err=True)


def _join(paths: Sequence[Path], out: Path, as_json: bool) -> None:
    """Corpora in one new corpus, each checked row by row before."""
    from kbench.loaders.checks.validate import validate
    from kbench.loaders.corpus.corpus import Corpus
    from kbench.loaders.corpus.merge import merge

    for path in paths:
        # The shipped dataset is ours; whatever else comes here was written by someone.
        issues = [] if path == shipped() else validate(Corpus.open(path))
        if issues:
            raise DataError(f"{issues[0]}; `kbench data validate {path}` lists all {len(issues)} errors")
    with progress(0, "merging") as bar:
        merged = merge(paths, out, bar.update)
    if as_json:
        left_out = dict(merged.left_out)
        echo_json(
            {"rows": dict(merged.rows), "left_out": left_out, "fingerprint": merged.fingerprint, "folder": str(out)}
        )
        return
    click.echo(", ".join(f"{count:,} {name}" for name, count in merged.rows.items() if count))
    for reason, count in merged.left_out.items():
        click.echo(f"left out: {count:,} {reason}")
    click.echo(f"corpus: {out}")


@click.command("push", short_help="Upload a corpus to the Hub.")
@click.argument("repository")
@click.option("--path", type=click.Path(path_type=Path), help="Corpus folder; the shipped dataset when left out.")
@click.option("--private", is_flag=True, help="Make the repository private.")
@click.option("--dry-run", is_flag=True, help="Check everything and say what would be uploaded.")
@json_option
def push(repository: str, path: Path | None, private: bool, dry_run: bool, as_json: bool) -> None:
    """Upload a corpus to the dataset repository REPOSITORY, tagged with its fingerprint."""
    from kbench.loaders.corpus.corpus import Corpus
    from kbench.loaders.hub.repository import push as upload

    folder = path or shipped()
    corpus = Corpus.open(folder)
    with progress(sum(corpus.rows(name) for name in corpus.configs), "validating") as bar:
        done = upload(folder, repository, private=private, dry_run=dry_run, advance=bar.update)
    if as_json:
        echo_json(done)
        return
    verb = "would upload" if dry_run else "uploaded"
    click.echo(
        f"{verb} {len(done['files'])} files, {done['bytes']:,} bytes, to {repository}, tag {done['fingerprint']}"
    )
    if "eval.yaml" not in done["files"]:
        click.echo("note: the corpus has no test split, so the Hub shows no benchmark", err=True)
    if done["url"]:
        click.echo(done["url"])
