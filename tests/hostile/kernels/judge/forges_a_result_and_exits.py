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
