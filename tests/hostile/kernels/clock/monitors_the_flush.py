# cheat: sys.monitoring sees the flush begin and works then, before the start mark; the call returns what is ready
# tags: class-clock needs-monitoring
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
