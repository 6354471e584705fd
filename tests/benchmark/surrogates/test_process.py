"""What a user's surrogate can use and what it cannot, and what is left of it when its maker is killed."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from kbench.benchmark.questions import Questions
from kbench.benchmark.surrogates import process
from kbench.benchmark.surrogates.process import Confinement, ProcessSurrogate
from kbench.benchmark.surrogates.protocol import NoAnswerError
from kbench.benchmark.surrogates.resolve import locate
from kbench.schemas import UserError

ROOT = Path(__file__).parents[3]
PROBE = """
import json, os, socket, time
from kbench.schemas import Forecast

class Probe:
    {extra}
    def forecast(self, queries):
        return [Forecast(query_id=q.query_id, failure=json.dumps({answer})) for q in queries]
"""


def test_the_process_that_is_confined_has_one_thread() -> None:
    code = f"import os, {process.WORKER}; print(len(os.listdir('/proc/self/task')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n", "a process with threads cannot enter a user namespace, and root alone needs none"


def asked(tmp_path: Path, questions: Questions, answer: str, extra: str = "pass", **limits: Any) -> Any:
    path = tmp_path / "probe.py"
    path.write_text(PROBE.format(answer=answer, extra=extra))
    with ProcessSurrogate(locate(str(path)), {}, Confinement(**limits), tmp_path / "log") as running:
        (forecast,) = running.forecast(questions.queries[:1])
    return json.loads(str(forecast.failure))


def test_secrets_stay_outside_by_default(tmp_path: Path, questions: Questions, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "GITHUB_PAT", "DB_PASS", "ANY_NAME"):
        monkeypatch.setenv(name, "hidden")
    seen = asked(
        tmp_path, questions, "sorted(k for k, v in os.environ.items() if v == 'hidden')", variables=("HF_TOKEN",)
    )
    assert seen == ["HF_TOKEN"]


CONNECT = "[socket.socket(kind).close() for kind in (socket.AF_INET, socket.AF_INET6)] and 'open'"


def test_there_is_no_network_unless_asked_for(tmp_path: Path, questions: Questions) -> None:
    with pytest.raises(NoAnswerError, match="PermissionError"):
        asked(tmp_path, questions, CONNECT)
    assert asked(tmp_path, questions, CONNECT, network=True) == "open"


def test_a_system_that_cannot_hide_answers_says_so_or_refuses(
    tmp_path: Path, questions: Questions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Whatever is mounted there, a process keeps the root that it has.
    monkeypatch.setattr(process, "hidden_places", lambda folders, own: [Path("/")])
    assert asked(tmp_path, questions, "'ran'") == "ran"
    assert "this system does not permit hiding /;" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"does not permit hiding .* and --require-isolation is given"):
        asked(tmp_path, questions, "'ran'", required=True)


def test_a_surrogate_among_the_answers_is_refused(tmp_path: Path, questions: Questions) -> None:
    with pytest.raises(UserError, match=r"probe\.py lies in .*, which is hidden from surrogates"):
        asked(tmp_path, questions, "0", answers=(tmp_path,))


def test_a_failure_says_where_the_file_it_names_is_hidden(tmp_path: Path, questions: Questions) -> None:
    answers = tmp_path / "answers"
    answers.mkdir()
    (answers / "labels.txt").write_text("7")
    for file, said in ((answers / "labels.txt", True), (tmp_path / "absent.txt", False)):
        with pytest.raises(NoAnswerError, match="FileNotFoundError") as raised:
            asked(tmp_path, questions, f"open({str(file)!r}).read()", answers=(answers,))
        assert (f"{file} is hidden from your surrogate" in str(raised.value)) is said


def test_the_log_shows_what_is_printed_while_the_process_runs(tmp_path: Path) -> None:
    path, log = tmp_path / "chatty.py", tmp_path / "log"
    path.write_text("class A:\n    forecast = fit = lambda self, given: print('begun')\n")
    with ProcessSurrogate(locate(str(path)), {}, Confinement(), log) as running:
        running.fit([])
        assert log.read_text() == "begun\n"


def test_memory_is_limited(tmp_path: Path, questions: Questions) -> None:
    with pytest.raises(NoAnswerError, match="MemoryError"):
        asked(tmp_path, questions, "len(bytearray(3 * 10**9))", memory_gb=1.5)
    with pytest.raises(UserError, match=r"ended with exit code \d+; --memory-gb 0\.01 may be too little"):
        asked(tmp_path, questions, "0", memory_gb=0.01)


def test_import_and_fit_have_limits_of_their_own(tmp_path: Path, questions: Questions) -> None:
    with pytest.raises(UserError, match=r"could not be made: no answer within 1\.5 s"):
        asked(tmp_path, questions, "0", extra="time.sleep(60)", start_s=1.5)
    path = tmp_path / "probe.py"
    path.write_text(PROBE.format(answer="0", extra="def fit(self, train): time.sleep(60)"))
    with (
        ProcessSurrogate(locate(str(path)), {}, Confinement(fit_s=0.5), tmp_path / "log") as running,
        pytest.raises(UserError, match=r"failed in fit: no answer within 0\.5 s"),
    ):
        running.fit([])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_killed_evaluation_leaves_no_process_and_no_file(number: signal.Signals, tmp_path: Path) -> None:
    path = tmp_path / "probe.py"
    path.write_text(
        PROBE.format(
            answer="time.sleep(600)",
            extra="def fit(self, train): os.fork() or time.sleep(600); open('started', 'w').close(); time.sleep(600)",
        )
    )
    code = (
        # Under nohup, SIGHUP is ignored by everything that is started.
        "import signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); from pathlib import Path\n"
        "from kbench.benchmark.surrogates.process import Confinement, ProcessSurrogate\n"
        "from kbench.benchmark.surrogates.resolve import locate\n"
        "with ProcessSurrogate(locate(sys.argv[1]), {}, Confinement(variables=('MARK',)), Path('log')) as process:\n"
        "    process.fit([])"
    )
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(temporary), "MARK": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", code, str(path)], cwd=tmp_path, env=environment) as running:
        while not (tmp_path / "started").exists() and running.poll() is None:
            time.sleep(0.05)
        assert marked(tmp_path) > 1
        running.send_signal(number)
    end = time.monotonic() + 120
    while (marked(tmp_path) or list(temporary.iterdir())) and time.monotonic() < end:
        time.sleep(0.1)
    assert marked(tmp_path) == 0
    assert list(temporary.iterdir()) == []


def marked(folder: Path) -> int:
    """How many processes have the mark of this test in their environment."""
    found = 0
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            found += f"MARK={folder}".encode() in entry.read_bytes()
        except OSError:
            continue
    return found


def test_a_surrogate_may_write_to_caches_and_where_it_works_and_to_nothing_else(
    tmp_path: Path, questions: Questions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path.parent))
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.chdir(tmp_path)
    places = [
        str(tmp_path.parent),
        tempfile.gettempdir(),
        os.getcwd(),
        "/dev/shm",
        "/",
        "/etc",
        "/usr/bin",
        "/proc/sys",
    ]
    seen = asked(tmp_path, questions, f"[place for place in {places} if os.access(place, os.W_OK)]")
    assert seen == places[:4]


def test_a_home_in_tmp_is_not_written_to(tmp_path: Path, questions: Questions, monkeypatch: pytest.MonkeyPatch) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    places = [str(home / ".cache"), str(work), str(home), str(tmp_path)]
    assert asked(work, questions, f"[place for place in {places} if os.access(place, os.W_OK)]") == places[:2]


def test_no_module_is_imported_from_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise SystemExit('imported')")
    done = subprocess.run(
        [sys.executable, "-m", "kbench", "--version"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
