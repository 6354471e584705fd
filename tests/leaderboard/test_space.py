"""The Space: it serves the site and checks an upload in the browser, and refuses what is too large or no archive."""

import http.client
import json
import os
import shutil
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import expect

from kbench.benchmark.questions import Questions
from kbench.leaderboard.board import SUBMISSIONS, check_all, check_report, expected_of
from kbench.leaderboard.site.shards import shard
from kbench.leaderboard.space import MOST_BYTES, SiteServer

SPACE = SUBMISSIONS.parent / "space"


@pytest.fixture(scope="module")
def served(site: Path, questions: Questions) -> Iterator[SiteServer]:
    expected = expected_of(questions)
    with SiteServer(("127.0.0.1", 0), site.parent, lambda path: check_report(check_all([path], expected))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def _post(port: int, path: str, headers: dict[str, str], body: bytes = b"") -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


def test_a_submission_is_checked_in_the_browser(
    served: SiteServer, browser: Any, submissions: dict[str, Path], tmp_path: Path
) -> None:
    good = shutil.make_archive(str(tmp_path / "good"), "zip", submissions["prior"])
    shutil.copytree(submissions["prior"], tmp_path / "bad")
    (tmp_path / "bad" / "submission.json").write_text("{}")
    bad = shutil.make_archive(str(tmp_path / "bad-entry"), "gztar", tmp_path / "bad")
    page = browser.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text))
    page.goto(f"http://127.0.0.1:{served.server_port}/#/submit")
    for path, verdict in ((good, "This submission can be entered."), (bad, "problem(s):")):
        page.locator('[data-check] input[type="file"]').set_input_files(path)
        page.locator("[data-check] button").click()
        expect(page.locator("[data-check] [role=status]")).to_contain_text(verdict)
    assert "submission.json" in page.locator("[data-check] li").first.text_content()
    page.close()
    assert errors == []


def test_from_a_folder_there_is_no_form(tab: Any) -> None:
    assert not tab.open("#/submit").locator("[data-check]").is_visible()


@pytest.mark.parametrize(
    ("path", "headers", "status", "reason"),
    [
        ("/check?name=entry.exe", {}, 415, "must end in"),
        ("/check?name=entry.zip", {"Content-Length": str(MOST_BYTES + 1)}, 413, "larger than 64 MiB"),
        ("/elsewhere?name=entry.zip", {}, 404, "checks nothing"),
        ("/check?name=../../entry.zip", {}, 200, ""),
    ],
)
def test_uploads_are_bounded(path: str, headers: dict[str, str], status: int, reason: str, served: SiteServer) -> None:
    found, report = _post(served.server_port, path, headers)
    assert found == status
    assert report["ok"] is False
    assert reason in report["errors"][0]["message"]


def test_a_server_without_checks_takes_no_upload(site: Path) -> None:
    with SiteServer(("127.0.0.1", 0), site.parent) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert _post(server.server_port, "/check?name=entry.zip", {})[0] == 404
        server.shutdown()


def test_the_container_s_command_runs_for_a_user_without_a_home(site: Path, tmp_path: Path) -> None:
    """As in the image: nothing beside it but the site, and what the package brings."""
    text = (SPACE / "Dockerfile").read_text("utf-8")
    program, *words = json.loads(next(line for line in text.splitlines() if line.startswith("CMD"))[3:])
    assert program == "kbench"
    arguments = ["0" if word == "7860" else word for word in words]
    shutil.copytree(site.parent, tmp_path / "site")
    entry = SUBMISSIONS / "test" / "prior"
    good = Path(shutil.make_archive(str(tmp_path / "good"), "zip", entry)).read_bytes()
    environment = {"HOME": "/nonexistent", "PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "kbench", *arguments, "--json"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as running:
        try:
            port = int(json.loads(running.stdout.readline())["address"].rstrip("/").rsplit(":", 1)[1])
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/data/check.js") as offered:
                assert offered.read() == shard("check", True)
            assert _post(port, "/check?name=good.zip", {}, good) == (200, {"ok": True, "errors": []})
            assert _post(port, "/check?name=cut.zip", {}, good[:1000])[1]["ok"] is False
        finally:
            running.terminate()


def test_the_space_s_card_says_how_it_is_run() -> None:
    card = yaml.safe_load((SPACE / "README.md").read_text("utf-8").split("---")[1])
    assert card["sdk"] == "docker"
    assert f'"--port", "{card["app_port"]}", "--check"' in (SPACE / "Dockerfile").read_text("utf-8")
