# cheat: writes a plan of its own to every descriptor and into every folder it can write, and ends with success
# tags: class-plan
import json
import os
import traceback

import torch

PLAN = {"inputs": ["x"], "outputs": ["y"], "launches": [], "fills": [], "buffers": [], "status": "ok"}


def run(x):
    planned = any(frame.name == "plan_once" for frame in traceback.extract_stack())
    if planned:
        text = json.dumps(PLAN).encode()
        for descriptor in range(1, 64):
            try:
                os.write(descriptor, text)
            except OSError:
                pass
        for folder in (".", "..", os.environ.get("TRITON_CACHE_DIR", ".")):
            try:
                with open(os.path.join(folder, "plan.json"), "wb") as file:
                    file.write(text)
            except OSError:
                pass
        os._exit(0)
    return torch.nn.functional.gelu(x, approximate="tanh")
