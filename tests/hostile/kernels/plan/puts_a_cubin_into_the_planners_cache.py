# cheat: overwrites every compiled kernel it finds in Triton's cache with an empty one
# tags: class-plan process-open
import os
from pathlib import Path
import traceback

import torch


def run(x):
    planned = any(frame.name == "plan_once" for frame in traceback.extract_stack())
    if planned:
        for cubin in Path(os.environ.get("TRITON_CACHE_DIR", ".")).rglob("*.cubin"):
            try:
                cubin.write_bytes(b"")
            except OSError:
                pass
    return torch.nn.functional.gelu(x, approximate="tanh")
