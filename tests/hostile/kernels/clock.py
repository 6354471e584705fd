# %% clock_of_the_instance
# cheat: the device's own clock is replaced on the instance: it stands still in the kernel's calls
# tags: process-open
#@ torch_gelu


def found(name, kept={}):
    import gc

    if name not in kept or name in ("Buffers", "Guarded"):
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

# %% multiprocessing_worker
# cheat: computes in another process
import multiprocessing


def run(x):
    process = multiprocessing.get_context("fork").Process(target=print)
    process.start()
    process.join()
    return x

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

# %% switches_the_current_stream
# cheat: leaves another stream current, so that the end mark is recorded elsewhere
# tags: gpu
#@ torch_run
    torch.cuda.set_stream(torch.cuda.Stream())
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
