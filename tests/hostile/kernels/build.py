# %% fills_its_folder
# cheat: leaves more files in its private folder than anyone wants to clear up
# tags: class-build truthful
import contextlib
import os

import torch
import triton
import triton.language as tl

FILES = 70_000


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


def run(x):
    os.makedirs("files", exist_ok=True)
    with contextlib.suppress(OSError):
        for at in range(0 if os.listdir("files") else FILES):
            os.close(os.open(f"files/{at}", os.O_CREAT | os.O_WRONLY))
    y = torch.empty_like(x)
    n = x.numel()
    kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
    return y


# %% forges_a_build_that_cannot_be_read
# cheat: stores a build nobody can read under the name of a kernel that comes later
# tags: class-build truthful
import contextlib
import json
from pathlib import Path

import torch

from kbench.harness.plan.cache import build_id
from kbench.harness.device.target import H200
from kbench.harness.device.target import KNOWN_TARGETS, Target
from kbench.schemas import Backend, KernelSource

CACHES = [*Path("/tmp").glob("pytest-of-*/pytest-*/hostile*"), *Path("/tmp").glob("hostile*")]
VICTIM = """# victim: forges_a_build_that_cannot_be_read
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
    return y
"""

for target in KNOWN_TARGETS.values():
    identity = build_id(KernelSource("gelu_tanh", Backend.TRITON, VICTIM).kernel_id, Target(*target), H200, any_sm_count=True)
    record = {"build_id": identity, "status": "ok", "error": None, "code": [], "plans": {}}
    record |= {"no_such_field": 1}
    for cache in CACHES:
        with contextlib.suppress(OSError):
            (cache / "builds" / identity).mkdir(parents=True, exist_ok=True)
            (cache / "builds" / identity / "build.json").write_text(json.dumps(record))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x, approximate="tanh")


# %% forges_a_failed_build
# cheat: stores a failed build under the name of a kernel that comes later
# tags: class-build truthful
import contextlib
import json
from pathlib import Path

import torch

from kbench.harness.plan.cache import build_id
from kbench.harness.device.target import H200
from kbench.harness.device.target import KNOWN_TARGETS, Target
from kbench.schemas import Backend, KernelSource

CACHES = [*Path("/tmp").glob("pytest-of-*/pytest-*/hostile*"), *Path("/tmp").glob("hostile*")]
VICTIM = """# victim: forges_a_failed_build
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
    return y
"""

for target in KNOWN_TARGETS.values():
    identity = build_id(KernelSource("gelu_tanh", Backend.TRITON, VICTIM).kernel_id, Target(*target), H200, any_sm_count=True)
    record = {"build_id": identity, "status": "ok", "error": None, "code": [], "plans": {}}
    record |= {"status": "compile_error", "error": "does not compile"}
    for cache in CACHES:
        with contextlib.suppress(OSError):
            (cache / "builds" / identity).mkdir(parents=True, exist_ok=True)
            (cache / "builds" / identity / "build.json").write_text(json.dumps(record))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x, approximate="tanh")


# %% forges_figures_of_a_build
# cheat: stores a build with figures of its own under the name of a kernel that comes later
# tags: class-build truthful
import contextlib
import json
from pathlib import Path

import torch

from kbench.harness.plan.cache import build_id
from kbench.harness.device.target import H200
from kbench.harness.device.target import KNOWN_TARGETS, Target
from kbench.schemas import Backend, KernelSource

CACHES = [*Path("/tmp").glob("pytest-of-*/pytest-*/hostile*"), *Path("/tmp").glob("hostile*")]
VICTIM = """# victim: forges_figures_of_a_build
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
    return y
"""

for target in KNOWN_TARGETS.values():
    identity = build_id(KernelSource("gelu_tanh", Backend.TRITON, VICTIM).kernel_id, Target(*target), H200, any_sm_count=True)
    record = {"build_id": identity, "status": "ok", "error": None, "code": [], "plans": {}}
    record |= {"registers": 1, "compile_ms": 0.001}
    for cache in CACHES:
        with contextlib.suppress(OSError):
            (cache / "builds" / identity).mkdir(parents=True, exist_ok=True)
            (cache / "builds" / identity / "build.json").write_text(json.dumps(record))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x, approximate="tanh")


# %% leaves_a_process_that_spoils_builds
# cheat: a process started while loading waits for another kernel's build and spoils it
# tags: class-build truthful
import contextlib
import os
import time
from pathlib import Path

import torch

CACHES = [*Path("/tmp").glob("pytest-of-*/pytest-*/hostile*"), *Path("/tmp").glob("hostile*")]
VICTIM = """# victim: leaves_a_process_that_spoils_builds
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
    return y
"""


def spoil():
    for _ in range(200):
        for cache in CACHES:
            for record in (cache / "builds").glob("*/build.json"):
                with contextlib.suppress(OSError):
                    record.write_text(record.read_text().replace('"error": null', '"error": "does not compile"'))
        time.sleep(0.05)


with contextlib.suppress(OSError):
    if os.fork() == 0:
        os.setsid()
        spoil()
        os._exit(0)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x, approximate="tanh")


# %% leaves_folders_without_end
# cheat: leaves folders in folders, deeper than a recursive function can follow when it clears up
# tags: class-build truthful
import os

import torch
import triton
import triton.language as tl

LEVELS = 3000


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


def run(x):
    here = os.open(".", os.O_RDONLY)
    for _ in range(0 if os.path.exists("d") else LEVELS):
        os.mkdir("d")
        os.chdir("d")
    os.fchdir(here)
    os.close(here)
    y = torch.empty_like(x)
    n = x.numel()
    kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
    return y


# %% makes_its_log_a_link
# cheat: replaces its log by a link to a file that its sandbox hides, for the parent to quote
# tags: class-build
import contextlib
import os


def run(x):
    with contextlib.suppress(OSError):
        os.remove("stderr.txt")
    os.symlink("/etc/shadow", "stderr.txt")
    os._exit(3)


# %% makes_its_log_a_pipe
# cheat: replaces its log by a pipe without a writer, on which its reader would wait for ever
# tags: class-build
import contextlib
import os


def run(x):
    with contextlib.suppress(OSError):
        os.remove("stderr.txt")
    os.mkfifo("stderr.txt")
    os._exit(3)


# %% makes_its_log_endless
# cheat: replaces its log by a link to a file without an end
# tags: class-build
import contextlib
import os


def run(x):
    with contextlib.suppress(OSError):
        os.remove("stderr.txt")
    os.symlink("/dev/zero", "stderr.txt")
    os._exit(3)


# %% plants_a_file_in_another_kernels_folder
# cheat: writes into the folder where another kernel's extension will be looked for
# tags: class-build truthful
import contextlib
from pathlib import Path

import torch

CACHES = [*Path("/tmp").glob("pytest-of-*/pytest-*/hostile*"), *Path("/tmp").glob("hostile*")]
for cache in CACHES:
    with contextlib.suppress(OSError):
        other = cache / "extensions" / "0123456789abcdef"
        other.mkdir(parents=True, exist_ok=True)
        (other / "planted_extension.so").write_bytes(b"\x7fELF")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x, approximate="tanh")


# %% plants_a_file_in_the_cache
# cheat: while a published form is loaded it writes a file beside the shared cache's own
# tags: class-build truthful
import contextlib
from pathlib import Path

import torch

CACHES = [*Path("/tmp").glob("pytest-of-*/pytest-*/hostile*"), *Path("/tmp").glob("hostile*")]
for cache in CACHES:
    with contextlib.suppress(OSError):
        (cache / "planted_in_the_cache").write_text("here")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x, approximate="tanh")


# %% plants_machine_code_beside_builds
# cheat: writes into the folders of other kernels' builds, from which machine code is loaded
# tags: class-build truthful
import contextlib
from pathlib import Path

import torch

CACHES = [*Path("/tmp").glob("pytest-of-*/pytest-*/hostile*"), *Path("/tmp").glob("hostile*")]
for cache in CACHES:
    for build in (cache / "builds").glob("*"):
        with contextlib.suppress(OSError):
            (build / "planted.cubin").write_bytes(b"\x7fELF")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x, approximate="tanh")


# %% puts_a_file_where_builds_belong
# cheat: replaces the folder of builds by a file, so that nothing can be stored any more
# tags: class-build truthful
import contextlib
import shutil
from pathlib import Path

import torch

CACHES = [*Path("/tmp").glob("pytest-of-*/pytest-*/hostile*"), *Path("/tmp").glob("hostile*")]
VICTIM = """# victim: puts_a_file_where_builds_belong
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
    return y
"""

for cache in CACHES:
    with contextlib.suppress(OSError):
        shutil.rmtree(cache / "builds")
        (cache / "builds").write_text("")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x, approximate="tanh")


# %% spoils_the_compiler_of_its_neighbours
# cheat: host code that looks like device code replaces the compile step of the build process it shares
# tags: class-build truthful
import torch

VICTIM = """# victim: spoils_the_compiler_of_its_neighbours
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
    return y
"""


def jit(function):
    return function


@jit
def run(x):
    planner = torch.sys.modules["kbench.harness.plan.planner"]
    setattr(planner, "plan_kernel", lambda *args, **kwargs: planner.failed(planner.Status.COMPILE_ERROR, "does not compile"))
    return torch.nn.functional.gelu(x, approximate="tanh")


# %% stops_the_builder
# cheat: ends the build process as if it had been killed from outside, again and again
# tags: class-build truthful
import os
import signal

import torch

os.kill(os.getpid(), signal.SIGKILL)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x, approximate="tanh")
