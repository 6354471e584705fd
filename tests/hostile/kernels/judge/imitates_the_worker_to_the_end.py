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
