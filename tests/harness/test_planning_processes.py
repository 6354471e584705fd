"""Planning in real processes: what host code can do there, and what becomes of processes that misbehave."""

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kbench.harness.device.target import H200, Target
from kbench.harness.isolate.limits import Limits, descendants
from kbench.harness.isolate.sandbox import LOG_NAME
from kbench.harness.isolate.spawner import Spawner
from kbench.harness.plan.cache import Build, BuildCache
from kbench.harness.queue.job import Job
from kbench.harness.queue.planners import Planners, planning_processors
from kbench.harness.worker import zygote
from kbench.schemas import Backend, KernelSource, Status

GOOD = (Path(__file__).parent / "kernels" / "gelu_cuda.py").read_text()
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root here")
REPORT = "def run(x):\n    raise ValueError(str(found))\n"


@pytest.fixture(scope="module")
def spawner() -> Iterator[Spawner]:
    made = Spawner(planning=True)
    yield made
    made.close()


@pytest.fixture
def planners(spawner: Spawner, tmp_path: Path) -> Iterator[Planners]:
    made = Planners(spawner, BuildCache(tmp_path), Target(9, 0), H200, 1, 60.0)
    yield made
    made.close()


def planned(planners: Planners, source: str, workloads: tuple[str, ...] | None = None) -> Build:
    """What comes of planning one kernel."""
    job = Job(0, KernelSource("gelu_tanh", Backend.CUDA, source), workloads=workloads)
    planners.add(job)
    end = time.monotonic() + 90.0
    while time.monotonic() < end:
        planners.assign()
        for seat in planners.seats:
            if seat.worker is not None:
                assert list(planners.read(seat)) in ([], [job])
        if job.build is not None:
            return job.build
        time.sleep(0.02)
    raise TimeoutError


def told(planners: Planners, source: str) -> str:
    return planned(planners, source).error or ""


def test_a_plan_is_stored_with_its_machine_code_and_found_again(planners: Planners) -> None:
    found = planned(planners, GOOD)
    assert found.error is None
    assert set(found.plans) >= {"tiny"}
    assert all(Path(path).read_bytes().startswith(b"\x7fELF") for path in planners.cache.code_files(found).values())
    again = Job(1, KernelSource("gelu_tanh", Backend.CUDA, GOOD))
    assert planners.add(again)
    assert again.build == found


def test_a_workload_that_is_left_out_cannot_fail_the_others(planners: Planners) -> None:
    source = GOOD.replace("def run(x):", "def run(x):\n    assert x.shape[0] != 8192")
    assert planned(planners, source).error is not None
    partly = planned(planners, source, workloads=("kb_v0",))
    assert partly.error is None
    assert set(partly.plans) == {"kb_v0", "tiny"}


@as_root
def test_host_code_can_write_nowhere_but_into_its_own_folder(planners: Planners, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    said = told(
        planners,
        f"""
import os, pathlib
found = []
for folder in ({str(tmp_path)!r}, {str(planners.cache.builds)!r}, "/tmp", "/dev/shm", os.getcwd()):
    try:
        (pathlib.Path(folder) / "outside").write_text("x")
        found.append("wrote")
    except OSError as error:
        found.append(type(error).__name__)
{REPORT}""",
    )
    # Of what it cannot write to, some is not even there.
    assert "['FileNotFoundError', 'FileNotFoundError', 'OSError', 'OSError', 'wrote']" in said
    assert not outside.exists()


def test_host_code_has_no_network_no_secrets_and_sees_no_process_of_ours(
    planners: Planners, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = told(
        planners,
        f"""
import os, socket
try:
    socket.create_connection(("192.0.2.1", 9), timeout=0.2)
    found = ["reached"]
except OSError as error:
    found = [error.errno]
found.append(sorted(name for name in os.environ if "KEY" in name or "TOKEN" in name or "SECRET" in name))
found.append(os.environ["HOME"] == os.getcwd())
{REPORT}""",
    )
    assert "reached" not in said
    assert "[], True]" in said


def test_host_code_reaches_no_service_of_this_machine(planners: Planners) -> None:
    # A path of its own: those of sockets are short.
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as service:
        service.bind(f"{folder}/service")
        service.listen()
        said = told(
            planners,
            f"""
import socket
try:
    socket.socket(socket.AF_UNIX).connect({folder + "/service"!r})
    found = ["reached"]
except OSError as error:
    found = [type(error).__name__]
{REPORT}""",
        )
        service.setblocking(False)
        with pytest.raises(BlockingIOError):
            service.accept()
    assert "['PermissionError']" in said
    assert "calls" in planners.sandbox


@as_root
def test_host_code_writes_to_little_memory_and_cannot_name_its_log(planners: Planners) -> None:
    said = told(
        planners,
        f"""
import os, tempfile
room = os.statvfs(".")
found = [room.f_blocks * room.f_frsize >> 20, room.f_files, "{LOG_NAME}" in os.listdir(".")]
found.append(tempfile.gettempdir() == os.getcwd() == os.environ["HOME"])
{REPORT}""",
    )
    assert "[1024, 65536, False, True]" in said
    assert {"pidns", "netns", "closed", "frozen", "capabilities", "calls", "watched"} <= set(planners.sandbox)


@as_root
def test_builds_of_other_kernels_cannot_be_seen_wherever_the_cache_is(spawner: Spawner, tmp_path: Path) -> None:
    # Even in a folder that Python needs.
    folder = Path(tempfile.mkdtemp(dir=Path(torch.__file__).parent))
    try:
        for cache in (tmp_path, folder):
            planners = Planners(spawner, BuildCache(cache), Target(9, 0), H200, 1, 60.0)
            assert planned(planners, f"# {cache}\n{GOOD}").error is None
            assert len(list(planners.cache.builds.iterdir())) == 1
            source = f"import os\nfound = [list(os.walk({str(cache)!r}))[1:]]\n{REPORT}"
            assert "ValueError: [[]]" in told(planners, source)
            planners.close()
    finally:
        shutil.rmtree(folder)


def test_all_processes_of_planning_have_a_limit_of_time_together_and_end_with_it_in_any_session(
    spawner: Spawner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planners = Planners(spawner, BuildCache(tmp_path), Target(9, 0), H200, 1, 60.0)
    # The limit is twice the deadline, which several busy processes reach before it.
    monkeypatch.setattr("kbench.harness.queue.planners.Limits", lambda cpu_s: Limits(cpu_s=2.0))
    body = "import os\nif os.fork() == 0:\n    os.setsid()\nos.fork()\nwhile True:\n    pass\n"
    source = f"{body}def run(x):\n    return x\n"
    found = planned(planners, source)
    planners.close()
    assert found.status == Status.TIMEOUT
    assert "s of processor time" in (found.error or "")
    zygote = spawner._zygote
    end = time.monotonic() + 10.0
    while len(descendants(zygote.pid, 100)) > 1 and time.monotonic() < end:
        time.sleep(0.05)
    assert descendants(zygote.pid, 100) == [zygote.pid]


def test_a_zygote_without_its_packages_says_how_to_install_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(**_: object) -> None:
        raise ImportError("cannot import name 'bindings'")

    monkeypatch.setattr("kbench.harness.worker.serve.preload", lacking)
    monkeypatch.setattr("sys.argv", ["zygote", "0", "folder", "plan"])
    with pytest.raises(SystemExit, match=r"'bindings'; pip install .*\[explain\]'"):
        zygote.main()


def test_last_words_are_quoted_even_though_the_log_is_out_of_reach(planners: Planners) -> None:
    said = told(planners, "import os\nos.write(2, b'its last words')\nos._exit(3)\ndef run(x):\n    return x\n")
    assert said.endswith("in planning: its last words")


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="no groups of sessions here")
def test_planning_yields_the_processor_as_a_session_too(spawner: Spawner, tmp_path: Path) -> None:
    planners = Planners(spawner, BuildCache(tmp_path), Target(9, 0), H200, 1, 60.0, niceness=7)
    source = f'import os\nfound = [os.nice(0), open("/proc/self/autogroup").read().split()[1:]]\n{REPORT}'
    assert f"[{os.nice(0) + 7}, ['nice', '7']]" in told(planners, source)
    planners.close()


def test_planning_keeps_to_the_processors_it_is_given(spawner: Spawner, tmp_path: Path) -> None:
    last = max(os.sched_getaffinity(0))
    planners = Planners(spawner, BuildCache(tmp_path), Target(9, 0), H200, 1, 60.0, processors=[last])
    assert f"[{{{last}}}]" in told(planners, f"import os\nfound = [os.sched_getaffinity(0)]\n{REPORT}")
    planners.close()


@pytest.mark.parametrize(
    ("count", "devices", "left"), [(4, 1, 4), (8, 1, 6), (16, 1, 14), (16, 4, 8), (16, 8, 16)], ids=str
)
def test_planning_leaves_processors_to_timing_where_there_are_many(
    count: int, devices: int, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(count)))
    assert planning_processors(devices) == list(range(left))


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("import os\nos._exit(3)\n", Status.LAUNCH_ERROR, "exited with code 3"),
        ("import ctypes\nctypes.string_at(0)\n", Status.LAUNCH_ERROR, "SIGSEGV"),
        (
            "import gc\nfrom kbench.harness.isolate.protocol import Channel\n"
            "[c] = [c for c in gc.get_objects() if isinstance(c, Channel)]\n"
            "c.send({'planned': {'error': None, 'plans': {}, 'cubins': [], 'status': 'ok'}})\n",
            Status.REJECTED,
            "left no valid plan",
        ),
    ],
    ids=["exits", "crashes", "forges a plan"],
)
def test_a_process_that_misbehaves_costs_its_own_kernel(
    body: str, status: Status, words: str, planners: Planners
) -> None:
    found = planned(planners, f"{body}def run(x):\n    return x\n")
    assert found.status == status
    assert words in (found.error or "")
    assert not found.plans


def test_what_a_zygote_imports_makes_temporary_files_in_its_own_folder_alone(spawner: Spawner) -> None:
    spawner.start()
    given = Path(f"/proc/{spawner._zygote.pid}/environ").read_bytes().split(b"\0")
    assert f"TMPDIR={spawner.scratch}".encode() in given
