# %% clock_of_the_instance
# cheat: the device's own clock is replaced on the instance: it stands still in the kernel's calls
# tags: process-open
#@ torch_gelu


def found(name, kept={}):
    import gc

    if name not in kept or name in ("Stage", "Guarded"):
        kept[name] = [thing for thing in gc.get_objects() if type(thing).__name__ == name]
    return kept[name]


state = {"lost": 0}


def run(x):
    import time

    for device in found("CpuDevice"):
        device._clock = lambda: time.perf_counter_ns() - state["lost"]
    for device in found("CudaDevice"):
        elapsed = device._elapsed if not hasattr(run, "elapsed") else run.elapsed
        run.elapsed = elapsed
        device._elapsed = lambda start, end: run.elapsed(start, end) / 10.0
    began = time.perf_counter_ns()
    y = gelu(x)
    state["lost"] += time.perf_counter_ns() - began
    return y

# %% method_table_of_the_clock
# cheat: the entry of perf_counter_ns in its table of C functions is that of thread_time_ns; another thread works
import ctypes
import threading
import time

import torch


def swap(one, other):
    word = ctypes.sizeof(ctypes.c_void_p)
    # After the two words of every object: the method's definition; in it, after its name: its function.
    tables = [ctypes.c_void_p.from_address(id(function) + 2 * word).value for function in (one, other)]
    ctypes.c_void_p.from_address(tables[0] + word).value = ctypes.c_void_p.from_address(tables[1] + word).value


def run(x):
    if not hasattr(run, "done"):
        run.done = True
        swap(time.perf_counter_ns, time.thread_time_ns)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(torch.nn.functional.gelu(x, approximate="tanh")))
    thread.start()
    thread.join()
    return answers[0]

# %% monitors_the_flush
# cheat: sys.monitoring sees the flush begin and works then, before the start mark; the call returns what is ready
# tags: needs-monitoring
import sys

import torch

ready = {}


def work(code, offset):
    if code.co_name != "flush":
        return sys.monitoring.DISABLE
    slot = sys._getframe(1).f_back.f_locals.get("slot")
    if slot is not None and slot.stage is not None and slot.label == "candidate":
        for x in slot.stage.inputs:
            ready[x.data_ptr()] = torch.nn.functional.gelu(x, approximate="tanh")


def run(x):
    if not hasattr(run, "on"):
        run.on = True
        sys.monitoring.use_tool_id(4, "work")
        sys.monitoring.register_callback(4, sys.monitoring.events.PY_START, work)
        sys.monitoring.set_events(4, sys.monitoring.events.PY_START)
    kept = ready.pop(x.data_ptr(), None)
    return torch.nn.functional.gelu(x, approximate="tanh") if kept is None else kept

# %% multiprocessing_worker
# cheat: computes in another process
import multiprocessing


def run(x):
    process = multiprocessing.get_context("fork").Process(target=print)
    process.start()
    process.join()
    return x

# %% patches_event_timing
# cheat: replaces the event's elapsed time
import torch

torch.cuda.Event.elapsed_time = lambda self, other: 0.001


def run(x):
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% patches_time
# cheat: slows the clock down
import time

import torch

real = time.perf_counter_ns
time.perf_counter_ns = lambda: real() // 1000
time.perf_counter = lambda: real() / 1e12


def run(x):
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% profiles_the_harness
# cheat: works out answers for new inputs in a profile function, as they are filled in and before the clock starts
import sys

import torch

kept = {}


def key_of(x):
    return tuple(x.reshape(-1)[:: x.numel() // 7].tolist())


def work(x):
    for _ in range(40):
        y = 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    return y


def profile(frame, event, argument):
    if event == "return" and frame.f_code.co_name == "fill" and "reference" in frame.f_locals:
        sys.setprofile(None)
        x = frame.f_locals["reference"].inputs[0]
        kept.setdefault(key_of(x), work(x))
        sys.setprofile(profile)


def run(x):
    sys.setprofile(profile)
    key = key_of(x)
    if key not in kept:
        kept[key] = work(x)
    return kept[key].clone()

# %% replays_a_stale_graph
# cheat: captures once and replays without new inputs
# tags: gpu
import torch

kept = {}


def run(x):
    key = x.numel()
    if key not in kept:
        source = x.clone()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = torch.nn.functional.gelu(source, approximate="tanh")
        kept[key] = (graph, y)
    graph, y = kept[key]
    graph.replay()
    return y.clone()

# %% sets_cache_aside
# cheat: sets a part of the L2 aside and has its inputs stay there, whatever is written between its calls
# tags: gpu
import torch
from cuda.bindings import driver

property = driver.CUaccessProperty


def run(x):
    window = driver.CUaccessPolicyWindow()
    window.base_ptr, window.num_bytes, window.hitRatio = x.data_ptr(), x.numel() * x.element_size(), 1.0
    window.hitProp = property.CU_ACCESS_PROPERTY_PERSISTING
    window.missProp = property.CU_ACCESS_PROPERTY_STREAMING
    value = driver.CUstreamAttrValue()
    value.accessPolicyWindow = window
    driver.cuCtxSetLimit(driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 32 << 20)
    stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
    driver.cuStreamSetAttribute(stream, driver.CUstreamAttrID.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, value)
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% slows_the_reference
# cheat: leaves copies running beside whatever comes after its own work, which is often the reference
# tags: gpu
import torch

side = torch.cuda.Stream()
junk = torch.empty(2, 64 << 20, device="cuda")


def run(x):
    y = torch.nn.functional.gelu(x, approximate="tanh")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(4):
            junk[1].copy_(junk[0])
    return y

# %% switches_the_current_stream
# cheat: leaves another stream current, so that the end mark is recorded elsewhere
# tags: gpu
#@ torch_run
    torch.cuda.set_stream(torch.cuda.Stream())
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% switches_the_current_stream_once
# cheat: leaves another stream current for good: what the harness queues on its own stream is ahead of the answers
# tags: gpu disarmed
# disarmed: it computes with torch; marks and erasing follow the stream that is current
# at-most: 1.05
import torch

switched = []


def run(x):
    if not switched:
        switched.append(torch.cuda.set_stream(torch.cuda.Stream()))
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% worker_thread
# cheat: a thread does the work after the call has returned
import threading
import time

#@ torch_run
    y = torch.empty_like(x)
    source = x.clone()

    def work(x=source):
        time.sleep(0.2)
        y.copy_(torch.nn.functional.gelu(x, approximate="tanh"))

    threading.Thread(target=work).start()
    return y

# %% works_on_a_side_stream
# cheat: queues its work where the timer does not look
# tags: gpu
import torch

side = None


def run(x):
    global side
    if side is None:
        side = torch.cuda.Stream()
    y = torch.empty_like(x)
    with torch.cuda.stream(side):
        y.copy_(torch.nn.functional.gelu(x, approximate="tanh"))
    return y
