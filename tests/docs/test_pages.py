"""The documentation keeps up with the code: paths, links, commands, snippets, scripts and words."""

import ast
import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import kbench
from kbench.benchmark.metrics.registry import METRICS
from kbench.cli import COMMANDS, cli
from kbench.schemas import Status

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted({ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.glob("*.md"), *DOCS.glob("re*/*.md")})
SCRIPTS = sorted((DOCS / "evidence" / "scripts").rglob("*.py"))
TREE = "schemas|loaders|benchmark|harness|generation|leaderboard|src|tests|docs|examples"
MADE_BY_RECIPES = ("gated.py", "overconfidence.py", "kernel_log.py", "clamp", "epsilon_greedy.py", "my-entry")
OUTDATED = ("ruler", "stranger", "mend", "mended", "anew", "lane", "lanes")
"""Words that the glossary replaces."""


def names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def blocks(page: Path, *languages: str) -> Iterator[str]:
    """The code blocks of a page, indented ones included."""
    for indent, language, text in re.findall(
        r"^( *)```(\w+)[^\n]*\n(.*?)^\1```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
    ):
        if language in languages:
            yield re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)


def command_lines(page: Path) -> Iterator[str]:
    """Every `kbench …` line, without continuation, variables in front or remarks behind."""
    for block in blocks(page, "console", "bash"):
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            line = line.removeprefix("$ ")
            if line.startswith("kbench "):
                yield re.sub(r"\[(-[^\]]*)\]", r"\1", line.split("  #")[0])


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose(page))
    inside = [link for link in links if not link.startswith("http")]
    assert [link for link in inside if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_paths_named_in_the_text_exist(page: Path) -> None:
    found = re.findall(rf"`((?:{TREE})/[\w./-]*)`", prose(page))
    missing = [name for name in found if not (ROOT / name).exists()]
    assert [name for name in missing if not name.endswith(MADE_BY_RECIPES) and not name.endswith("my-entry/")] == []


def parsed(words: list[str]) -> str:
    """What a command line leaves over after its options, or the reason why it cannot be parsed."""
    command: click.Command = cli
    context = click.Context(cli, info_name="kbench")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            break
        command, words = found, words[1:]
        context = click.Context(command, info_name=command.name, parent=context)
    try:
        command.make_parser(context).parse_args(words)
    except click.UsageError as error:
        return error.format_message()
    return ""


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_commands_have_the_options_they_are_given(page: Path) -> None:
    wrong = {line: parsed(shlex.split(line)[1:]) for line in command_lines(page)}
    assert {line: reason for line, reason in wrong.items() if reason} == {}


def test_a_wrong_option_would_be_noticed() -> None:
    assert "--budgett" in parsed(["generate", "--budgett", "3"])


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_python_snippets_parse_and_import_what_exists(page: Path) -> None:
    for block in blocks(page, "python"):
        if "%% if" not in block:
            check_imports(ast.parse(block))


@pytest.mark.parametrize("script", SCRIPTS, ids=names(SCRIPTS))
def test_evidence_scripts_import_what_exists(script: Path) -> None:
    check_imports(ast.parse(script.read_text("utf-8")))


def check_imports(tree: ast.AST) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "kbench":
            module = importlib.import_module(node.module)
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")


def commands(group: click.Group, prefix: str) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix} {name}")
            if not command.invoke_without_command:
                continue
        yield f"{prefix} {name}"


def test_the_reference_names_every_command() -> None:
    text = (DOCS / "reference" / "commands.md").read_text("utf-8")
    found = list(commands(cli, "kbench"))
    assert len(found) > len(COMMANDS)
    assert [name for name in found if f"`{name}`" not in text] == []


def test_the_reference_shows_every_public_name() -> None:
    text = "".join(page.read_text("utf-8") for page in (DOCS / "reference").glob("*.md"))
    public = [name for name in kbench.__all__ if name != "__version__"]
    assert [name for name in public if not re.search(rf"^::: kbench\.\S+\.{name}$", text, re.MULTILINE)] == []


def test_the_guide_names_every_status() -> None:
    text = (DOCS / "data.md").read_text("utf-8")
    assert [status.value for status in Status if f"`{status.value}`" not in text] == []


def test_the_scoring_page_names_every_headline() -> None:
    text = (DOCS / "scoring.md").read_text("utf-8")
    assert [metric.name for metric in METRICS if metric.headline and f"`{metric.name}`" not in text] == []


def test_glossary_terms_are_sorted_and_unique() -> None:
    rows = [line for line in (DOCS / "glossary.md").read_text("utf-8").splitlines() if line.startswith("| ")]
    terms = [row.split("|")[1].strip().lower() for row in rows[1:]]
    assert len(terms) > 80
    assert terms == sorted(set(terms))


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_pages_use_the_words_of_the_glossary(page: Path) -> None:
    words = set(re.findall(r"[a-z]+", re.sub(r"`[^`]*`", "", page.read_text("utf-8")).lower()))
    assert words & set(OUTDATED) == set()


@pytest.mark.parametrize("page", sorted(DOCS.glob("results/*.md")), ids=lambda path: path.stem)
def test_results_pages_have_question_setup_table_and_reading(page: Path) -> None:
    headings = re.findall(r"^## (.+)$", page.read_text("utf-8"), re.MULTILINE)
    if page.stem not in ("index", "archive"):
        assert {"Question", "Setup", "Table", "How to read it"} <= set(headings)
