# %% counts_its_instructions_itself
# cheat: an honest plan beside counts of instructions of its own making, which say that it multiplies matrices
# tags: truthful
#@ forges_json
        thing["planned"]["instructions"] = {"total": 7, "matrix": 7}
        for plans in thing["planned"]["plans"].values():
            for plan in plans:
                plan["choice"] = "BLOCK: 8192, num_warps: 32, with tensor cores"
    return real(thing, *args, **kwargs)


def run(x):
    json.dumps = forged
    return honest(x)

# %% needs_much_in_a_function_that_is_never_launched
# cheat: a second function with all of the shared memory and a large stack is compiled beside the one that is launched
# tags: gpu truthful
#@ cuda
#@ gelu_f
}
extern "C" __global__ void idle(float* y, int n) {
    __shared__ float all[12 * 1024 - 16];
    float kept[512];
    for (int i = 0; i < 512; ++i) kept[i] = y[i * n];
    for (int i = 0; i < n; ++i) all[i] = kept[(i * 7 + n) % 512];
    __syncthreads();
    y[threadIdx.x] = all[n - threadIdx.x];
#@ launch_f

# %% hides_its_stack
# cheat: its machine code declares no stack, so that the record says that nothing is spilled
# tags: gpu
#@ cuda_prebuilt
#@ one_each: f
    if (i >= n) return;
    float kept[64];
    for (int k = 0; k < 64; ++k) kept[k] = x[(i + k) % n];
    const float v = kept[(int)(n % 2) * 17];
    y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
}
""")


def without_stack(cubin):
    code = bytearray(cubin)
    for attribute in (b"\x04\x11\x08\x00", b"\x04\x12\x08\x00"):
        at = code.find(attribute)
        while at >= 0:
            code[at + 8 : at + 12] = bytes(4)
            at = code.find(attribute, at + 12)
    return bytes(code)


#@ with_code: without_stack | x
#@ outputs
#@ launch: f | (x, y, n)

# %% spreads_its_memory_over_children
# cheat: every process keeps the limit on memory, and forty of them together take all there is
import os
import time

#@ torch_run
    for _ in range(40):
        if os.fork() == 0:
            kept = bytearray(os.urandom(1 << 20) * 400)
            time.sleep(600 + len(kept))
    time.sleep(600)
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% starts_hundreds_of_processes
# cheat: four hundred processes that leave its session and wait, so that the machine has none left
import os
import time

#@ torch_run
    for _ in range(400):
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
    time.sleep(600)
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% works_in_many_processes_at_a_time
# cheat: keeps the limit on time in each of a hundred processes that follow one another, all busy
# tags: slow
import os

#@ torch_run
    while True:
        if os.fork() == 0:
            for _ in range(10**8):
                pass
            os._exit(0)

# %% locks_what_it_can_only_read
# cheat: locks every file of the harness, which can be done to files that can only be read, and keeps the locks
import fcntl
import os
import time
from pathlib import Path

import kbench
import torch

LOCKED = []
for path in sorted(Path(kbench.__file__).parent.glob("harness/*.py")):
    file = os.open(path, os.O_RDONLY)
    for lock in (fcntl.flock, fcntl.lockf):
        try:
            lock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            LOCKED.append(path)
        except OSError:
            pass


def run(x):
    if not LOCKED:
        raise PermissionError("nothing can be locked")
    time.sleep(600)
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% hands_in_a_rivals_machine_code
# cheat: looks for the machine code of other kernels' builds all over the machine, and launches what it finds
import os

import torch

from kbench.harness.cuda import Compiled, CudaModule

module = CudaModule('extern "C" __global__ void f(const float* x, float* y, long long n) { }')


def stolen():
    for folder, folders, names in os.walk("/"):
        if folder == "/":
            folders[:] = set(folders) - {"proc", "sys", "usr"}
        for name in names:
            if name.endswith(".cubin") and "builds" in folder:
                with open(os.path.join(folder, name), "rb") as file:
                    return file.read()
    raise FileNotFoundError("no build of another kernel can be seen")


def run(x):
    code = stolen()
    CudaModule.compiled = lambda module, arch: Compiled(code, {})
    y = torch.empty_like(x)
    module.launch("f", grid=(x.numel() + 255) // 256, block=256, args=(x, y, x.numel()))
    return y

# %% reads_the_dataset_while_planned
# cheat: looks for the shipped dataset, in which the kernels of others are
import os

#@ triton
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
#@ gelu_in_triton


def rivals():
    import kbench.benchmark

    walks = (os.walk(os.path.join(folder, "dataset")) for folder in kbench.benchmark.__path__)
    return [name for walk in walks for _, _, names in walk for name in names]


def run(x):
    if not rivals():
        raise FileNotFoundError("no dataset can be seen")
#@ launch_triton
