# %% becomes_the_channel
# cheat: the channel becomes an instance of a subclass that replaces what is sent
# tags: process-open
import gc

#@ forged_result


def become(channel, results=results):
    class Better(type(channel)):
        def send(self, message):
            if "results" in message:
                message["results"] = results([result["workload"] for result in message["results"]])
            super().send(message)

    channel.__class__ = Better


def run(x):
    for thing in gc.get_objects():
        if type(thing).__name__ == "Channel":
            become(thing)
    return torch.zeros_like(x)

# %% claims_to_have_been_planned
# cheat: corrects its time on the way out and says that it was planned, so that the dataset takes it
# tags: process-open
import gc

import torch


def hook(channel):
    send = channel.send

    def better(message):
        for result in message.get("results", ()):
            result["trust"] = "plan"
            for name in ("runtime_us", "runtime_low_us", "runtime_high_us"):
                if name in result:
                    result[name] /= 100.0
#@ hooks_the_channel
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% imitates_the_worker_to_the_end
# cheat: takes the channel, sends results of its own, confirms them like the worker, and ends the process
# tags: process-open
import gc
import os
import sys

#@ forged_result


def run(x):
    frame = sys._getframe()
    while frame is not None and "task" not in frame.f_locals:
        frame = frame.f_back
    if frame is None:
        return torch.nn.functional.gelu(x, approximate="tanh")
    channel = next(thing for thing in gc.get_objects() if type(thing).__name__ == "Channel")
    channel.send({"results": results(frame.f_locals["task"].workloads or ("large", "kb_v0")), "busy_s": 0.2})
    channel.send({"confirmed": channel.receive()["nonce"]})
    os._exit(0)

# %% patches_allclose
# cheat: makes allclose always true
import torch


torch.allclose = lambda *args, **kwargs: True


def run(x):
    return torch.zeros_like(x)

# %% patches_the_comparison
# cheat: replaces the harness's comparison
import sys

#@ torch_run
    module = sys.modules["kbench.harness.bench.judge"]
    good = sys.modules["kbench.benchmark.problems.compare"].Comparison(True, "", 0.0, 0.0)
    module.compare = lambda *args: good
    return torch.zeros_like(x)

# %% reads_seeds_from_the_environment
# cheat: expects the seeds in the environment and answers from a table
import os

#@ torch_run
    seed = next(value for name, value in os.environ.items() if "SEED" in name)
    torch.manual_seed(int(seed))
    return torch.nn.functional.gelu(torch.randn(x.shape), approximate="tanh")

# %% registers_an_exit_handler
# cheat: prints a success when the process ends
import atexit
import os

#@ torch_run
    atexit.register(os._exit, 0)
    return torch.zeros_like(x)

# %% searches_memory_for_inputs_to_come
# cheat: works out answers for whatever inputs it finds in memory before they are shown to it
import gc

import torch

kept = {}
calls = [0]


def key_of(x):
    return tuple(x.reshape(-1)[:: x.numel() // 7].tolist())


def work(x):
    for _ in range(40):
        y = 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    return y


def run(x):
    calls[0] += 1
    if calls[0] % 3 == 0:
        for found in gc.get_objects():
            if type(found) is torch.Tensor and found.shape == x.shape and found.dtype == x.dtype:
                key = key_of(found)
                if key not in kept and all(value == value for value in key):
                    kept[key] = work(found)
    key = key_of(x)
    if key not in kept:
        kept[key] = work(x)
    return kept[key].clone()

# %% sends_results_without_a_form
# cheat: sends results that are no records, so that whoever reads them raises
import gc

import torch


def hook(channel):
    send = channel.send

    def better(message):
        if "results" in message:
            message = {"results": ["fast"]}
#@ hooks_the_channel
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% walks_frames_to_the_answer
# cheat: looks for the expected output in the callers' variables
import sys

#@ torch_run
    frame = sys._getframe().f_back
    while frame is not None:
        context = frame.f_locals.get("context")
        if context is not None and getattr(context, "answers", None):
            for answer in context.answers.values():
                if tuple(answer[0].shape) == tuple(x.shape):
                    return answer[0].to(x.dtype)
        frame = frame.f_back
    return torch.zeros_like(x)

# %% walks_the_garbage_collector
# cheat: looks for a float64 tensor of the right shape in memory
import gc

#@ torch_run
    for thing in gc.get_objects():
        if type(thing) is torch.Tensor and thing.dtype == torch.float64 and tuple(thing.shape) == tuple(x.shape):
            return thing.to(x.dtype)
    return torch.zeros_like(x)

# %% writes_to_the_result_pipe
# cheat: writes a result of its own to every open descriptor
import os

#@ torch_run
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b'{"results": [{"workload": "tiny", "status": "ok", "runtime_us": 0.001}]}')
        except OSError:
            pass
    return torch.zeros_like(x)
