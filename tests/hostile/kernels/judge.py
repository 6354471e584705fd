# %% becomes_the_channel
# cheat: the channel becomes an instance of a subclass that replaces what is sent
# tags: class-judge process-open
import gc

import torch

RESULT = {
    "status": "ok", "error": None, "max_abs_error": 0.0, "max_rel_error": 0.0, "floor_us": None, "verify_s": 0.1,
    "time_s": 0.1, "samples_us": [1.0] * 15, "anchor_us": [9.0] * 15, "rounds": 5, "sm_clock_mhz": None,
    "temperature_c": None, "power_w": None, "throttle_reasons": [], "ruler_us": None, "shift_us": None, "trace": None,
    "exposed": 0, "drift": 0.0, "cache_policy": "none", "runtime_us": 1.0, "runtime_low_us": 0.99,
    "runtime_high_us": 1.01, "speedup": 9.0, "speedup_low": 8.9, "speedup_high": 9.1,
}


def results(workloads, result=RESULT):
    return [{"workload": name, **result} for name in workloads]


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
# tags: class-judge process-open
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
        send(message)

    channel.send = better


def run(x):
    for thing in gc.get_objects():
        if type(thing).__name__ == "Channel" and "send" not in vars(thing):
            hook(thing)
    return torch.nn.functional.gelu(x, approximate="tanh")


# %% comparison_shares_its_mismatches
# cheat: the share of elements that may be wrong is thawed and made the whole
# tags: class-judge process-open
import torch


def definition():
    import sys

    return sys.modules["kbench.benchmark.problems"].problem("gelu_tanh")


def run(x):
    object.__setattr__(definition().tolerance, "mismatch_share", 1.0)
    return torch.zeros_like(x)


# %% forges_a_result
# cheat: finds the worker's channel and sends a perfect result through it
# tags: class-judge
import sys

import torch


def run(x):
    frame = sys._getframe()
    while frame is not None:
        runner = frame.f_locals.get("runner")
        if runner is not None:
            fields = {"workload": "tiny", "status": "ok", "error": None, "runtime_us": 0.5, "runtime_low_us": 0.49}
            fields |= {"runtime_high_us": 0.51, "speedup": 100.0, "speedup_low": 99.0, "speedup_high": 101.0}
            runner.channel.send({"results": [fields], "busy_s": 0.1})
        frame = frame.f_back
    return torch.zeros_like(x)


# %% forges_a_result_and_exits
# cheat: sends a perfect result through the worker's channel and ends before the real one
# tags: class-judge
import os
import sys


def run(x):
    frame = sys._getframe()
    while frame is not None:
        runner = frame.f_locals.get("runner")
        if runner is not None:
            fields = {"workload": "tiny", "status": "ok", "error": None, "runtime_us": 0.5, "runtime_low_us": 0.49}
            fields |= {"runtime_high_us": 0.51, "speedup": 100.0, "speedup_low": 99.0, "speedup_high": 101.0}
            runner.channel.send({"results": [fields], "busy_s": 0.1})
            os._exit(0)
        frame = frame.f_back
    return x


# %% imitates_the_worker_to_the_end
# cheat: takes the channel, sends results of its own, confirms them like the worker, and ends the process
# tags: class-judge process-open
import gc
import os
import sys

import torch

RESULT = {
    "status": "ok", "error": None, "max_abs_error": 0.0, "max_rel_error": 0.0, "floor_us": None, "verify_s": 0.1,
    "time_s": 0.1, "samples_us": [1.0] * 15, "anchor_us": [9.0] * 15, "rounds": 5, "sm_clock_mhz": None,
    "temperature_c": None, "power_w": None, "throttle_reasons": [], "ruler_us": None, "shift_us": None, "trace": None,
    "exposed": 0, "drift": 0.0, "cache_policy": "none", "runtime_us": 1.0, "runtime_low_us": 0.99,
    "runtime_high_us": 1.01, "speedup": 9.0, "speedup_low": 8.9, "speedup_high": 9.1,
}


def results(workloads, result=RESULT):
    return [{"workload": name, **result} for name in workloads]


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


# %% json_encoder_in_c
# cheat: the C encoder that json.encoder calls is wrapped; that module is nobody's concern
# tags: class-judge process-open
import json.encoder

import torch

RESULT = {
    "status": "ok", "error": None, "max_abs_error": 0.0, "max_rel_error": 0.0, "floor_us": None, "verify_s": 0.1,
    "time_s": 0.1, "samples_us": [1.0] * 15, "anchor_us": [9.0] * 15, "rounds": 5, "sm_clock_mhz": None,
    "temperature_c": None, "power_w": None, "throttle_reasons": [], "ruler_us": None, "shift_us": None, "trace": None,
    "exposed": 0, "drift": 0.0, "cache_policy": "none", "runtime_us": 1.0, "runtime_low_us": 0.99,
    "runtime_high_us": 1.01, "speedup": 9.0, "speedup_low": 8.9, "speedup_high": 9.1,
}


def results(workloads, result=RESULT):
    return [{"workload": name, **result} for name in workloads]


make = json.encoder.c_make_encoder


def better(*args, make=make, results=results):
    encode = make(*args)

    def call(message, level):
        if isinstance(message, dict) and "results" in message:
            message = message | {"results": results([result["workload"] for result in message["results"]])}
        return encode(message, level)

    return call


def run(x):
    json.encoder.c_make_encoder = better
    return torch.zeros_like(x)


# %% json_encoder_of_another_class
# cheat: json's default encoder becomes an instance of a class that writes runtimes a hundredth as long
# tags: class-judge process-open
import json

import torch


class Better(json.JSONEncoder):
    def encode(self, message):
        for result in message.get("results", ()):
            for name in ("runtime_us", "runtime_low_us", "runtime_high_us"):
                if name in result:
                    result[name] /= 100.0
        return super().encode(message)


def run(x):
    json._default_encoder.__class__ = Better
    return torch.nn.functional.gelu(x, approximate="tanh")


# %% json_encoder_of_the_instance
# cheat: encode is hidden on json's default encoder by one that corrects results
# tags: class-judge process-open
import json

import torch

RESULT = {
    "status": "ok", "error": None, "max_abs_error": 0.0, "max_rel_error": 0.0, "floor_us": None, "verify_s": 0.1,
    "time_s": 0.1, "samples_us": [1.0] * 15, "anchor_us": [9.0] * 15, "rounds": 5, "sm_clock_mhz": None,
    "temperature_c": None, "power_w": None, "throttle_reasons": [], "ruler_us": None, "shift_us": None, "trace": None,
    "exposed": 0, "drift": 0.0, "cache_policy": "none", "runtime_us": 1.0, "runtime_low_us": 0.99,
    "runtime_high_us": 1.01, "speedup": 9.0, "speedup_low": 8.9, "speedup_high": 9.1,
}


def results(workloads, result=RESULT):
    return [{"workload": name, **result} for name in workloads]


def encode(message, results=results, json=json):
    if "results" in message:
        message = message | {"results": results([result["workload"] for result in message["results"]])}
    return type(json._default_encoder).encode(json._default_encoder, message)


def run(x):
    json._default_encoder.encode = encode
    return torch.zeros_like(x)


# %% null_kernel_that_shifts
# cheat: the launch-overhead baseline is told to have been long, so that all of it is taken off
# tags: class-judge process-open
import torch


def gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


def found(name, kept={}):
    import gc

    if name not in kept:
        kept[name] = [thing for thing in gc.get_objects() if type(thing).__name__ == name]
    return kept[name]


def run(x):
    for null_kernel in found("NullKernel"):
        null_kernel.nominal_us = 0.1
        null_kernel._recent.clear()
        null_kernel._recent.extend([1e9] * 512)
    return gelu(x)


# %% patches_allclose
# cheat: makes allclose always true
# tags: class-judge
import torch


torch.allclose = lambda *args, **kwargs: True


def run(x):
    return torch.zeros_like(x)


# %% patches_builtins
# cheat: replaces builtins the harness calls
# tags: class-judge
import builtins

import torch

builtins.max = lambda *args, **kwargs: 0.0


def run(x):
    return torch.zeros_like(x)


# %% patches_equal
# cheat: makes every comparison succeed
# tags: class-judge
import torch


def run(x):
    torch.equal = lambda *args: True
    torch.isfinite = lambda t: torch.ones_like(t, dtype=torch.bool)
    return torch.zeros_like(x)


# %% patches_random_choice
# cheat: makes nothing be chosen where pairs of numbers are, so that no call is audited, and then stops working
# tags: class-judge
import random

import torch

choose = random.Random.sample
calls = [0]


def sample(self, population, k, **options):
    listed = list(population)
    if listed and isinstance(listed[0], tuple):
        return []
    return choose(self, listed, k, **options)


random.Random.sample = sample


def run(x):
    calls[0] += 1
    if calls[0] > 12:
        return torch.empty_like(x)
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


# %% patches_random_seeds
# cheat: makes all drawn inputs the same, and keeps answers by what inputs hold
# tags: class-judge
import random

import torch

random.SystemRandom.getrandbits = lambda self, bits: 12345
kept = {}


def run(x):
    key = tuple(x.view(-1)[:: x.numel() // 7].tolist())
    if key not in kept:
        for _ in range(40):
            y = 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
        kept[key] = y
    return kept[key].clone()


# %% patches_tensor_methods
# cheat: makes a tensor's own comparison lie
# tags: class-judge
import torch


def run(x):
    torch.Tensor.__le__ = lambda self, other: torch.ones_like(self, dtype=torch.bool)
    torch.Tensor.sum = lambda self, *a, **k: torch.zeros((), dtype=torch.int64)
    return torch.zeros_like(x)


# %% patches_the_code_of_the_judge
# cheat: swaps a function's code object, keeping its identity
# tags: class-judge
import sys

import torch


def always(*args, **kwargs):
    return True


def run(x):
    sys.modules["kbench.harness.verify"].judge_answer.__code__ = always.__code__
    return torch.zeros_like(x)


# %% patches_the_comparison
# cheat: replaces the harness's comparison
# tags: class-judge
import sys

import torch


def run(x):
    module = sys.modules["kbench.harness.bench.judge"]
    good = sys.modules["kbench.benchmark.problems.compare"].Comparison(True, "", 0.0, 0.0)
    module.compare = lambda *args: good
    return torch.zeros_like(x)


# %% patches_the_share_of_audits
# cheat: sets the share of audited calls to none, and then stops working
# tags: class-judge
import sys

import torch

rounds = sys.modules["kbench.harness.timing.rounds"]
rounds.AUDITS, rounds.AUDITED_SHARE = 0, 0.0
calls = [0]


def run(x):
    calls[0] += 1
    if calls[0] > 8:
        return torch.empty_like(x)
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


# %% patches_thresholds
# cheat: moves the limit beyond which slow calls on new inputs are suspicious, and keeps answers by what inputs hold
# tags: class-judge
import sys

import torch

sys.modules["kbench.harness.audit.second_look"].SLOWER = 1e9
kept = {}


def run(x):
    key = tuple(x.view(-1)[:: x.numel() // 7].tolist())
    if key not in kept:
        for _ in range(40):
            y = 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
        kept[key] = y
    return kept[key].clone()


# %% reads_seeds_from_the_environment
# cheat: expects the seeds in the environment and answers from a table
# tags: class-judge
import os

import torch


def run(x):
    seed = next(value for name, value in os.environ.items() if "SEED" in name)
    torch.manual_seed(int(seed))
    return torch.nn.functional.gelu(torch.randn(x.shape), approximate="tanh")


# %% reference_expects_what_it_gets
# cheat: expected is hidden on all reference inputs by one that returns noughts
# tags: class-judge process-open
import torch


def found(name, kept={}):
    import gc

    if name not in kept or name == "ReferenceInputs":
        kept[name] = [thing for thing in gc.get_objects() if type(thing).__name__ == name]
    return kept[name]


def run(x):
    for reference in found("ReferenceInputs"):
        shape = reference.inputs[0]
        reference.expected = lambda shape=shape: (torch.zeros_like(shape, dtype=torch.float64),)
    return torch.zeros_like(x)


# %% registers_an_exit_handler
# cheat: prints a success when the process ends
# tags: class-judge
import atexit
import os

import torch


def run(x):
    atexit.register(os._exit, 0)
    return torch.zeros_like(x)


# %% replaces_the_oracle
# cheat: the problem's oracle is the answer that was returned: noughts
# tags: class-judge process-open
import torch


def definition():
    import sys

    return sys.modules["kbench.benchmark.problems"].problem("gelu_tanh")


def run(x):
    object.__setattr__(definition(), "oracle", lambda x: torch.zeros_like(x, dtype=torch.float64))
    return torch.zeros_like(x)


# %% replaces_the_runner_on_the_instance
# cheat: the method that executes is hidden on the runner while the module is loaded; nothing is ever called
# tags: class-judge process-open
import gc

import torch

RESULT = {
    "status": "ok", "error": None, "max_abs_error": 0.0, "max_rel_error": 0.0, "floor_us": None, "verify_s": 0.1,
    "time_s": 0.1, "samples_us": [1.0] * 15, "anchor_us": [9.0] * 15, "rounds": 5, "sm_clock_mhz": None,
    "temperature_c": None, "power_w": None, "throttle_reasons": [], "ruler_us": None, "shift_us": None, "trace": None,
    "exposed": 0, "drift": 0.0, "cache_policy": "none", "runtime_us": 1.0, "runtime_low_us": 0.99,
    "runtime_high_us": 1.01, "speedup": 9.0, "speedup_low": 8.9, "speedup_high": 9.1,
}


def results(workloads, result=RESULT):
    return [{"workload": name, **result} for name in workloads]


def imitate(kernels, task, message):
    return results(task.workloads or ("large", "kb_v0"))


for thing in gc.get_objects():
    if type(thing).__name__ == "ProcessRunner":
        thing._results = imitate


def run(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


# %% reports_through_its_own_send
# cheat: send is hidden on the channel by one that corrects results on their way out
# tags: class-judge process-open
import torch


def gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


def found(name, kept={}):
    import gc

    if name not in kept:
        kept[name] = [thing for thing in gc.get_objects() if type(thing).__name__ == name]
    return kept[name]


def hook(channel):
    send = channel.send

    def better(message):
        for result in message.get("results", ()):
            for name in ("runtime_us", "runtime_low_us", "runtime_high_us"):
                if name in result:
                    result[name] /= 100.0
        send(message)

    channel.send = better


def run(x):
    for channel in found("Channel"):
        if "send" not in vars(channel):
            hook(channel)
    return gelu(x)


# %% samples_pass_through_its_hands
# cheat: run is hidden on the sampler: a kernel's samples come out a tenth as long
# tags: class-judge process-open
import dataclasses
import gc

import torch


def gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


def hook(sampler):
    run = sampler.run

    def better(*args):
        return [
            dataclasses.replace(sample, time_us=sample.time_us / 10.0) if sample.label == "candidate" else sample
            for sample in run(*args)
        ]

    sampler.run = better


def run(x):
    if not hasattr(run, "done"):
        run.done = True
        for thing in gc.get_objects():
            if type(thing).__name__ == "Sampler":
                hook(thing)
    return gelu(x)


# %% searches_memory_for_inputs_to_come
# cheat: works out answers for whatever inputs it finds in memory before they are shown to it
# tags: class-judge
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
# tags: class-judge
import gc

import torch


def hook(channel):
    send = channel.send

    def better(message):
        if "results" in message:
            message = {"results": ["fast"]}
        send(message)

    channel.send = better


def run(x):
    for thing in gc.get_objects():
        if type(thing).__name__ == "Channel" and "send" not in vars(thing):
            hook(thing)
    return torch.nn.functional.gelu(x, approximate="tanh")


# %% silences_the_watchman
# cheat: the bench is told that nobody asks what was replaced; then the comparison is replaced
# tags: class-judge
import gc
import sys

import torch


def always(*args, **kwargs):
    return True


def run(x):
    for bench in gc.get_objects():
        if type(bench).__name__ == "Bench":
            bench.tampered = lambda: None
    for name in ("verify", "audit.audit"):
        sys.modules[f"kbench.harness.{name}"].judge_answer = always
    return torch.zeros_like(x)


# %% slows_the_reference_it_is_compared_with
# cheat: the problem's reference is thawed and does everything twenty times, which is what the speedup is over
# tags: class-judge process-open
import torch


def gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


def definition():
    import sys

    return sys.modules["kbench.benchmark.problems"].problem("gelu_tanh")


def slowly(x):
    for _ in range(20):
        y = torch.nn.functional.gelu(x, approximate="tanh")
    return y


def run(x):
    object.__setattr__(definition(), "reference", slowly)
    object.__setattr__(definition(), "oracle", lambda x: gelu(x.double()))
    return gelu(x)


# %% thaws_the_tolerance
# cheat: the frozen tolerance of the problem is thawed and made boundless
# tags: class-judge
import torch


def definition():
    import sys

    return sys.modules["kbench.benchmark.problems"].problem("gelu_tanh")


def run(x):
    object.__setattr__(definition().tolerance, "atol", 1e9)
    return torch.zeros_like(x)


# %% verdict_never_changes
# cheat: the slot that holds a verdict's status is replaced by a descriptor that forgets
# tags: class-judge process-open
import torch


class Well:
    def __init__(self, slot, value):
        self.slot, self.value = slot, value

    def __get__(self, verdict, owner=None):
        return self.value

    def __set__(self, verdict, value):
        self.slot.__set__(verdict, self.value)


def run(x):
    import sys

    module = sys.modules["kbench.harness.verify"]
    if not isinstance(vars(module.Verdict)["status"], Well):
        module.Verdict.status = Well(vars(module.Verdict)["status"], module.Status.OK)
        module.Verdict.reason = Well(vars(module.Verdict)["reason"], None)
    return torch.zeros_like(x)


# %% walks_frames_to_the_answer
# cheat: looks for the expected output in the callers' variables
# tags: class-judge
import sys

import torch


def run(x):
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
# tags: class-judge
import gc

import torch


def run(x):
    for thing in gc.get_objects():
        if type(thing) is torch.Tensor and thing.dtype == torch.float64 and tuple(thing.shape) == tuple(x.shape):
            return thing.to(x.dtype)
    return torch.zeros_like(x)


# %% writes_to_the_result_pipe
# cheat: writes a result of its own to every open descriptor
# tags: class-judge
import os

import torch


def run(x):
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b'{"results": [{"workload": "tiny", "status": "ok", "runtime_us": 0.001}]}')
        except OSError:
            pass
    return torch.zeros_like(x)
