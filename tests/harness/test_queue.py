"""Planners, device queues and the supervisor between them, with workers that are scripts in this process."""

import dataclasses
import itertools
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kbench.harness.device.gpu import FIRST_GPU, Gpu
from kbench.harness.device.target import H200, Target
from kbench.harness.isolate.protocol import KEY_BYTES, Channel
from kbench.harness.plan.cache import Build, BuildCache, build_id
from kbench.harness.queue import device_queue
from kbench.harness.queue.device_queue import MOST_STAGES, STARTS_IN_A_ROW, DeviceQueue, DeviceWorker
from kbench.harness.queue.job import Job, Outcome
from kbench.harness.queue.planners import RETRIES, Planners
from kbench.harness.queue.supervisor import Supervisor
from kbench.harness.settings import HarnessSettings
from kbench.schemas import Backend, InfrastructureError, KernelSource, Status

KEY, TARGET = bytes(KEY_BYTES), Target(9, 0)
FACTS = {"compute_capability": "9.0", "gpu": "some gpu"}


class Worker:
    """Both ends of a worker: what the queue sees, and the script that answers."""

    def __init__(self, number: int, role: str, scratch: Path) -> None:
        here, there = socket.socketpair()
        self.pid, self.role, self.scratch = number, role, scratch
        self.channel, self.peer = Channel(here, KEY), Channel(there, KEY)
        self.exit_code: int | None = None
        self.excess: tuple[str, str] | None = None
        self.killed, self.ended, self.measured = 0.0, False, list[str]()

    def die(self, code: int | None) -> None:
        self.ended, self.exit_code = True, code
        self.peer.close()

    def kill(self) -> None:
        self.killed = time.monotonic()
        self.channel.close()
        if not self.ended:
            self.die(-9)

    def log_tail(self) -> str:
        return "its last words"

    def clean(self) -> None:
        return None


Script = Callable[[Worker, dict[str, Any]], None]


@dataclasses.dataclass
class Spawner:
    """Starts scripts."""

    scratch: Path
    scripts: dict[str, Script]
    workers: list[Worker] = dataclasses.field(default_factory=list)
    fails: bool = False

    def spawn(self, role: str, **settings: Any) -> Worker:
        made = Worker(len(self.workers), role, self.scratch)
        self.workers.append(made)
        if self.fails:
            made.die(1)
        elif role != "plan":
            made.peer.send({"ready": True, "facts": FACTS, "sandbox": [role]})
        return made

    def exit_code(self, worker: Worker) -> int | None:
        return worker.exit_code

    def has_ended(self, worker: Worker) -> bool:
        return worker.ended

    def pump(self) -> None:
        for worker in self.workers:
            while not worker.ended and real_select([worker.peer], [], [], 0.0)[0]:
                for message in worker.peer.drain():
                    if "hangs" not in worker.measured:
                        self.scripts[worker.role](worker, message)
                    if worker.ended:
                        break


real_select = select.select


def planned(**fields: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"plans": {}, "cubins": [], "status": "rejected", "error": None, "unplannable": False}
    return {"planned": usual | fields}


REFUSED = {
    "unplannable": {"error": "cannot be planned: calls the torch operator 'add'", "unplannable": True},
    "extension": {"error": "cannot be planned: compiles a torch extension", "unplannable": True},
    "machine": {"error": "no nvcc", "machine": True},
}
GREETING = {"ready": True, "sandbox": ["netns"]}


def plan_script(worker: Worker, message: dict[str, Any]) -> None:
    """Plans a kernel as its text says."""
    text = message["source"]
    if text in REFUSED:
        worker.peer.send(planned(**REFUSED[text]))
    elif text == "no tool":
        worker.peer.send(planned(**REFUSED["extension"] | {"machine": bool(message["extension"])}))
    elif text == "forged":
        worker.peer.socket.sendall(bytes(400))
    elif text == "not json":
        body = b"{" * 10
        worker.peer.socket.sendall(len(body).to_bytes(4, "big") + worker.peer._mac(0, body) + body)
    elif text == "chatters":
        worker.peer.send({"stage": "planning"})
    elif text.startswith("greets"):
        worker.peer.send(GREETING)
        worker.peer.send(GREETING if text == "greets twice" else planned(**REFUSED["unplannable"]))
    elif text.startswith("dies"):
        worker.die(int(text.split()[1]))


def result(**fields: Any) -> dict[str, Any]:
    return {"results": [{"workload": "tiny", "status": "ok", "trust": "plan"} | fields], "busy_s": 0.5}


def device_script(worker: Worker, message: dict[str, Any]) -> None:
    """Measures a kernel as its text says; a planned one's is the name of its plan."""
    (entry, *_) = message["kernels"]
    text = entry.get("source") or next(iter(entry["plans"]))
    worker.measured.append(text)
    if text in ("dies", "dies #") or (text == "dies after others" and len(worker.measured) > 1):
        worker.die(-11)
    elif text == "killed once" and not worker.pid:
        worker.die(-9)
    elif text == "poisons":
        worker.peer.send({"poisoned": True, "status": "launch_error", "error": "illegal access"})
    elif text == "breaks":
        worker.peer.send({"broken": "no memory"})
    elif text == "hangs":
        worker.peer.send({"stage": "time large"})
    elif text in ("many sizes", "endless"):
        for _ in range(MOST_STAGES + 1):
            worker.peer.send({"stage": "verify large"})
        if text == "many sizes":
            worker.peer.send(result())
    elif text == "odd results":
        worker.peer.send({"results": [3], "busy_s": 1.0})
    elif text == "odd status":
        worker.peer.send({"loaded": False, "status": "perfect", "error": ""})
    elif text == "greets":
        worker.peer.send({"ready": True, "facts": {"compute_capability": "1.0"}, "sandbox": []})
        worker.peer.send(result())
    else:
        worker.peer.send({"stage": "verify tiny"})
        worker.peer.send(result())


class Bench:
    """A supervisor with one device queue and two planners."""

    def __init__(self, folder: Path, *, gpu: Gpu | None = FIRST_GPU, **fields: Any) -> None:
        settings = HarnessSettings(timeout_s=0.3, spares=1, **fields)
        self.spawner = Spawner(folder, {"plan": plan_script, "replay": device_script, "run": device_script})
        self.cache = BuildCache(folder / "cache")
        spawner: Any = self.spawner
        self.planners = Planners(spawner, self.cache, TARGET, H200, 2, 5.0)
        self.queue = DeviceQueue(0, gpu, (1,), spawner, self.cache, settings)
        self.queue.facts, self.queue.ceilings = dict(FACTS), {}
        self.supervisor = Supervisor(self.planners, [self.queue], settings)

    def known(self, text: str) -> KernelSource:
        """A kernel that was planned before."""
        kernel = KernelSource("relu", Backend.CUDA, text)
        self.cache.put(Build(build_id(kernel.kernel_id, TARGET, H200), plans={text: []}), {})
        return kernel

    def run(self, kernels: Sequence[KernelSource | str], **fields: Any) -> list[Outcome]:
        jobs = [
            Job(at, KernelSource("relu", Backend.CUDA, each) if isinstance(each, str) else each, {}, **fields)
            for at, each in enumerate(kernels)
        ]
        found = [outcome for outcome in self.supervisor.run(jobs) if outcome is not None]
        assert sorted(outcome.job.number for outcome in found) == list(range(len(jobs))), "one outcome for each job"
        return sorted(found, key=lambda outcome: outcome.job.number)


Make = Callable[..., Bench]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    made: list[Bench] = []

    def make(**settings: Any) -> Bench:
        made.append(Bench(tmp_path, **settings))
        return made[-1]

    pumping: list[bool] = []

    def pumped(*arguments: Any) -> Any:
        # Scripts read their messages by select as well.
        if not pumping:
            pumping.append(True)
            for one in made:
                one.spawner.pump()
            pumping.clear()
        return real_select(*arguments)

    monkeypatch.setattr(select, "select", pumped)
    yield make
    monkeypatch.undo()
    for one in made:
        one.planners.close()
        one.queue.close()
        for worker in one.spawner.workers:
            worker.kill()


def said(outcome: Outcome) -> tuple[str | None, str]:
    return outcome.status, outcome.reason or ""


def test_planned_kernels_share_a_worker_and_come_with_trust_in_plans(bench: Make) -> None:
    one = bench()
    found = one.run([one.known(f"# {at}") for at in range(5)])
    assert [outcome.results[0]["trust"] for outcome in found] == ["plan"] * 5
    assert [len(worker.measured) for worker in one.spawner.workers if worker.measured] == [5]


def test_the_first_worker_measures_the_ceilings_before_its_first_job_and_shows_results_early(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = bench()
    seen: list[Any] = []

    def script(worker: Worker, message: dict[str, Any]) -> None:
        seen.append(message["op"])
        if message["op"] != "measure":
            limits = message["op"] == "ceilings"
            worker.peer.send({"ceilings": {"copy_bandwidth_gbs": 1.0}} if limits else {"foreseen": True})
            return
        assert message["on_workload"]
        worker.peer.send({"measured": {"workload": "large", "status": "ok", "trust": "process"}})
        worker.peer.send(result())

    monkeypatch.setitem(one.spawner.scripts, "replay", script)
    one.queue.on_stage = seen.append
    one.queue.on_workload = lambda job, early: seen.append((job.number, early["workload"], early["trust"]))
    one.queue.facts, one.queue.ceilings = {}, None
    one.queue.start()
    one.queue.open()
    assert one.queue.facts == FACTS
    assert one.queue.ceilings is None, "kernels are planned meanwhile"
    kernel = one.known("# a")
    one.queue.foresee(Job(0, kernel, {"problem_id": "relu"}))
    (found,) = one.run([kernel])
    assert found.results
    assert one.queue.ceilings == {"copy_bandwidth_gbs": 1.0}
    begun = ["measure the device's limits", "ceilings", "draw inputs", "foresee"]
    assert seen == [*begun, "measure", (0, "large", "plan")]
    assert [worker.role for worker in one.spawner.workers] == ["oracle", "replay"], "spares come after the first figure"


def test_what_cannot_be_planned_is_rejected_or_runs_alone_with_trust_in_its_process(bench: Make) -> None:
    (refused,) = bench().run(["unplannable"])
    assert refused.status == Status.REJECTED
    assert (refused.reason or "").startswith("cannot be planned: ")
    one = bench(allow_unscreened=True)
    found = one.run(["unplannable", "unplannable", one.known("# planned")])
    assert [outcome.results[0]["trust"] for outcome in found] == ["process", "process", "plan"]
    alone = [worker for worker in one.spawner.workers if worker.role == "run" and worker.measured]
    assert [worker.measured for worker in alone] == [["unplannable"]] * 2


def test_a_torch_extension_is_built_before_its_kernel_runs(bench: Make) -> None:
    one = bench(allow_unscreened=True)
    (found,) = one.run(["extension"])
    assert found.results
    assert found.job.extension is not None
    assert sum(worker.role == "plan" for worker in one.spawner.workers) == 2, "planned in vain, then built"
    (lost,) = one.run(["no tool"])
    assert lost.infrastructure == "cannot be planned: compiles a torch extension"


def test_only_the_building_of_extensions_may_blame_the_machine(bench: Make) -> None:
    (found,) = bench().run(["machine"])
    assert found.infrastructure is None
    assert said(found) == ("rejected", "no nvcc")


def test_in_a_dry_run_planned_kernels_run_beside_their_judge(bench: Make) -> None:
    one = bench(gpu=None)
    (found,) = one.run([one.known("# planned")])
    assert found.job.process
    assert found.results[0]["trust"] == "process"


@pytest.mark.parametrize("text", ["forged", "not json", "chatters", "greets twice"])
def test_who_forges_a_message_is_rejected_at_once(text: str, bench: Make) -> None:
    one = bench()
    found, other, _ = one.run([text, "unplannable", "extension"])
    assert found.status == Status.REJECTED
    assert (found.reason or "").startswith("forged a message to the harness: ")
    assert said(other)[1].startswith("cannot be planned")
    assert sum(worker.role == "plan" for worker in one.spawner.workers) == 3, "each in a process of its own"


def test_a_planner_says_which_restrictions_are_in_force(bench: Make) -> None:
    one = bench()
    (found, again) = one.run(["greets", "greets"])
    assert said(found)[1].startswith("cannot be planned")
    assert said(again) == said(found)
    assert one.planners.sandbox == ["netns"]


def test_a_planner_that_dies_is_its_kernels_verdict_and_one_killed_from_outside_is_tried_again(bench: Make) -> None:
    one = bench()
    crashed, killed = one.run(["dies -11", "dies -9"])
    words = "the process was ended by SIGSEGV while the kernel was in planning: its last words"
    assert said(crashed) == ("launch_error", words)
    assert killed.status == Status.OUT_OF_MEMORY
    assert sum(worker.role == "plan" for worker in one.spawner.workers) == 1 + 1 + RETRIES
    assert all(worker.ended for worker in one.spawner.workers if worker.role == "plan")


def test_planning_that_takes_too_long_is_a_timeout(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = bench()
    one.planners.timeout_s = 0.1
    (found,) = one.run(["says nothing"])
    assert said(found) == ("timeout", "planning and compiling took longer than 0.1 s")


def test_what_is_planned_soon_comes_first_as_long_as_a_device_has_little_to_do(bench: Make) -> None:
    one = bench()
    texts = {Backend.TRITON: ("# a", "# b"), Backend.CUDA: ("# c", "# d")}
    for backend, names in texts.items():
        for name in names:
            one.planners.waiting.append(Job(0, KernelSource("relu", backend, name), {"late": False}))
    chosen = [one.planners._next(hurry=hurry).kernel.source for hurry in (True, False, True, True)]
    assert chosen == ["# c", "# a", "# d", "# b"]


def test_a_death_after_other_kernels_is_looked_at_again_in_a_fresh_worker(bench: Make) -> None:
    one = bench()
    kernels = [one.known(text) for text in ("# a", "dies after others", "# b", "dies")]
    found = one.run(kernels)
    assert [bool(outcome.results) for outcome in found] == [True, True, True, False]
    assert found[1].job.alone
    assert said(found[3])[0] == "launch_error"
    assert "SIGSEGV" in said(found[3])[1]


def fragile(one: Bench, texts: Sequence[str]) -> list[Job]:
    """Jobs of which those that die are known to."""
    kernels = [one.known(text) for text in texts]
    return [Job(at, kernel, {}, alone="dies" in texts[at] or "alone" in texts[at]) for at, kernel in enumerate(kernels)]


def measured(one: Bench) -> list[list[str]]:
    return sorted(worker.measured for worker in one.spawner.workers if worker.measured)


def test_kernels_known_to_end_their_worker_cost_the_others_nothing(bench: Make) -> None:
    one = bench()
    found = list(one.supervisor.run(fragile(one, ["# a", "dies", "# b", "dies #", "# alone", "# c"])))
    assert sum(bool(outcome and outcome.results) for outcome in found) == 4
    assert measured(one) == [["# a", "# b", "# c"], ["# alone"], ["dies"], ["dies #"]]


def test_what_is_profiled_together_has_a_fresh_worker_that_nothing_is_measured_in_after(bench: Make) -> None:
    one = bench()
    builds = {text: Build("", plans={text: []}) for text in ("# p", "# q")}
    party = tuple(Job(at, one.known(text), {}, build=build) for at, (text, build) in enumerate(builds.items()))
    profiled = Job(3, party[0].kernel, {}, build=party[0].build, profiled=party)
    jobs = [*fragile(one, ["# a", "# b"]), profiled, *fragile(one, ["# c"])]
    assert all(outcome is not None and outcome.results for outcome in one.supervisor.run(jobs))
    assert measured(one) == [["# a", "# b", "# c"], ["# p"]]
    (worker,) = (worker for worker in one.spawner.workers if worker.measured == ["# p"])
    assert worker not in [known.process for known in one.queue.workers]


def test_other_kernels_overtake_one_that_waits_for_a_fresh_worker(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = bench()
    done: list[int] = []
    starting: list[Worker] = []
    spawn, script = one.spawner.spawn, one.spawner.scripts["replay"]

    def slow(role: str, **settings: Any) -> Worker:
        if len(one.spawner.workers) < 2:
            return spawn(role, **settings)
        starting.append(Worker(len(one.spawner.workers), role, one.spawner.scratch))
        one.spawner.workers.append(starting[-1])
        return starting[-1]

    def counting(worker: Worker, message: dict[str, Any]) -> None:
        script(worker, message)
        done.append(worker.pid)
        while starting and done.count(0) == 4:
            starting.pop().peer.send({"ready": True, "facts": FACTS, "sandbox": []})

    monkeypatch.setattr(one.spawner, "spawn", slow)
    monkeypatch.setitem(one.spawner.scripts, "replay", counting)
    outcomes = one.supervisor.run(fragile(one, ["# a", "dies", "dies #", "# b", "# c", "# d"]))
    order = [outcome.job.number for outcome in outcomes if outcome is not None]
    assert order[-1] == 2, "the second to die waits until a worker has started, and nobody waits for it"
    assert ["# a", "# b", "# c", "# d"] in measured(one)


def test_nothing_runs_while_a_worker_that_was_replaced_still_holds_the_device(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = bench()
    slow: list[Worker] = []

    def kill(worker: Worker) -> None:
        worker.killed = time.monotonic()
        if worker.measured == ["# alone"] and worker not in slow:
            slow.append(worker)
        elif not worker.ended:
            worker.channel.close()
            worker.die(-9)

    sent: list[str] = []
    send = one.queue._send

    def watched(worker: Any, job: Job) -> None:
        assert not [dying for dying in slow if not dying.ended]
        sent.append(job.kernel.source)
        send(worker, job)

    ends = itertools.count()

    def ended(worker: Worker) -> bool:
        if worker in slow and not worker.ended and next(ends) > 5:
            worker.die(-9)
        return worker.ended

    monkeypatch.setattr(Worker, "kill", kill)
    monkeypatch.setattr(one.queue, "_send", watched)
    monkeypatch.setattr(one.spawner, "has_ended", ended)
    assert len(list(one.supervisor.run(fragile(one, ["# a", "# alone", "# b", "# alone #", "# c"])))) == 5
    assert slow, "a worker that had run a kernel alone was replaced for the next"
    assert sorted(sent) == sorted(["# a", "# alone", "# b", "# alone #", "# c"])


def test_without_spares_a_kernel_alone_gets_a_fresh_worker_and_does_not_wait_for_all_others(bench: Make) -> None:
    one = bench()
    one.queue.settings = dataclasses.replace(one.queue.settings, spares=0)
    outcomes = one.supervisor.run(fragile(one, ["# a", "# alone", *(f"# {at}" for at in range(20))]))
    order = [outcome.job.number for outcome in outcomes if outcome is not None]
    assert len(order) == 22
    assert order.index(1) < 5
    assert ["# alone"] in [worker.measured[:1] for worker in one.spawner.workers]
    assert all(worker.measured != ["# a", "# alone"] for worker in one.spawner.workers)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("poisons", ("launch_error", "illegal access")), ("hangs", ("timeout", "took longer than 0.3 s in time large"))],
)
def test_a_kernel_that_breaks_the_device_or_stays_in_a_stage_is_blamed_and_the_next_has_a_new_worker(
    text: str, verdict: tuple[str, str], bench: Make
) -> None:
    one = bench()
    found = one.run([one.known(text) for text in (text, "# a")])
    assert said(found[0]) == verdict
    assert found[1].results


def test_what_the_machine_fails_is_tried_again_so_often_and_then_told(bench: Make) -> None:
    one = bench(retries=2)
    (found,) = one.run([one.known("breaks")])
    assert found.infrastructure == "no memory"
    assert [worker.measured for worker in one.spawner.workers if worker.measured] == [["breaks"]] * 3


def test_a_kernel_does_not_answer_for_the_time_its_inputs_take(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = bench()
    process: Any = one.spawner.spawn("replay")
    worker = DeviceWorker(process, "replay", jobs=deque([Job(0, one.known("# a"))]))
    one.queue.workers.append(worker)
    at = [time.monotonic()]
    monkeypatch.setattr(device_queue.time, "monotonic", lambda: at[0])
    for stage, spent_s in (("context", 60.0), ("verify large", 55.0)):
        assert list(one.queue._handle(worker, {"stage": stage})) == []
        at[0] += spent_s
    assert list(one.queue.expire()) == []
    at[0] += 10.0
    (found,) = one.queue.expire()
    assert said(found) == ("timeout", "took longer than 60.3 s in verify large")


@pytest.mark.parametrize(("text", "attempts"), [("killed once", 1), ("many sizes", 0)])
def test_a_planned_kernel_may_have_many_workloads_and_does_not_answer_for_a_kill_from_outside(
    text: str, attempts: int, bench: Make
) -> None:
    one = bench()
    (found,) = one.run([one.known(text)])
    assert found.results
    assert found.job.attempts == attempts


@pytest.mark.parametrize("text", ["odd results", "odd status", "endless"])
def test_what_no_worker_would_send_rejects_the_kernel_that_sent_it(text: str, bench: Make) -> None:
    one = bench(gpu=None)
    found = one.run([one.known(text), one.known("# a")])
    assert found[0].status == Status.REJECTED
    assert not found[0].results
    assert found[1].results


def test_a_kernel_cannot_tell_the_parent_another_device(bench: Make) -> None:
    one = bench(gpu=None)
    one.run([one.known("greets")])
    assert one.queue.facts == FACTS


def test_workers_that_cannot_start_end_the_run_with_the_reason(bench: Make) -> None:
    one = bench()
    one.spawner.fails = True
    with pytest.raises(InfrastructureError, match=r"workers cannot start on device 0: its last words"):
        one.run([one.known("# a")])
    assert len(one.spawner.workers) >= STARTS_IN_A_ROW


def test_only_the_build_is_made_where_nothing_else_is_wanted(bench: Make) -> None:
    one = bench()
    (found,) = one.run([one.known("# a")], compile_only=True)
    assert found.results == ({"workload": "tiny", "status": "ok"},)
    assert not any(worker.measured for worker in one.spawner.workers)
