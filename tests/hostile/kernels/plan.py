# %% answers_device_queries_itself
# cheat: replaces the device query so that the plan has a grid for a device of one multiprocessor
# tags: process-open
#@ gelu_while_planned
        torch.cuda.get_device_properties = lambda device=None: type("Facts", (), {"multi_processor_count": 1})
        y = torch.empty_like(x)
        grid = torch.cuda.get_device_properties(x.device).multi_processor_count
        kernel[(grid,)](x, y, x.numel(), BLOCK=256)
        return y
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% asks_for_values
# cheat: chooses what it does by a number it reads from the input
# tags: truthful
#@ torch_run
    if x.view(-1)[0].item() > 100.0:
        return torch.zeros_like(x)
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% brings_an_elf_file_without_sections
# cheat: machine code that begins like an ELF file and has no section, to break whoever reads it
import torch

from kbench.harness.cuda import Compiled, CudaModule

module = CudaModule('extern "C" __global__ void f(const float* x, float* y, long long n) { }')


def run(x):
    code = b"\x7fELF\x02" + bytes(4096)
    CudaModule.compiled = lambda module, arch: Compiled(code, {})
    y = torch.empty_like(x)
    module.launch("f", grid=1, block=1, args=(x, y, x.numel()))
    return y

# %% changes_its_source_after_it_was_read
# cheat: the module's source is another by the time it is compiled
# tags: process-open
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule('extern "C" __global__ void f(const float* x, float* y, long long n) { y[0] = x[0]; }')


def run(x):
    module.source = 'extern "C" __global__ void f(const float* x, float* y, long long n) { }'
    if x.device.type != "cpu":
#@ launches_one_block

# %% claims_that_the_machine_failed
# cheat: tells the parent that the machine lacks a tool, so that no verdict is ever recorded
#@ every_channel
            thing.send({"planned": {"machine": True, "error": "the disk is full"}})
            os._exit(0)
    return torch.empty_like(x)

# %% exits_while_it_is_planned
# cheat: leaves the planner by sys.exit with success
import sys
#@ while_planned
        sys.exit(0)
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% forges_a_plan_and_exits
# cheat: writes a plan of its own to every descriptor and into every folder it can write, and ends with success
import json
import os
import traceback

import torch

PLAN = {"inputs": ["x"], "outputs": ["y"], "launches": [], "fills": [], "buffers": [], "status": "ok"}


def run(x):
#@ if_planned
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

# %% has_a_grid_that_changes_when_read
# cheat: the grid is a number that is small when it is checked and large when it is used
# tags: process-open
import traceback

#@ gelu_triton_head
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


class Changing(int):
    reads = 0

    def __index__(self):
        Changing.reads += 1
        return 1 if Changing.reads % 2 else 2**31 - 1


def run(x):
#@ if_planned
        y = torch.empty_like(x)
        kernel[(Changing(1),)](x, y, x.numel(), BLOCK=256)
        return y
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% hides_its_variables_from_whoever_restores
# cheat: symbols of its variables are made nameless types in its machine code, so that nobody finds them to restore
# tags: gpu
#@ cuda_prebuilt
__device__ float kept[4000000];
__device__ float key;
#@ one_each: f
    if (i >= n) return;
    if (n == 4000000 && key == x[n / 2]) { y[i] = kept[i]; return; }
#@ tanh_repeated: 30 | y[i]
    if (n == 4000000) kept[i] = y[i];
}
extern "C" __global__ void note(const float* x, long long n) { key = x[n / 2]; }
""")


def nameless(cubin):
    code = bytearray(cubin)
    table, size, count = struct.unpack_from("<Q", code, 0x28) + struct.unpack_from("<HH", code, 0x3A)
    for at in range(count):
        _, kind, _, _, offset, length = struct.unpack_from("<IIQQQQ", code, table + at * size)
        for symbol in range(offset, offset + length, 24) if kind == 2 else ():
            if code[symbol + 4] & 0xF == 1:
                code[symbol + 4] &= 0xF0
    return bytes(code)


#@ with_code: nameless | x
#@ outputs
#@ launch_and: (x, y, n) | note | (x, n)

# %% is_tuned_by_a_clock_of_its_own
# cheat: autotune times configurations with a benchmark the kernel brings along, which likes the wrong one
# tags: gpu
#@ triton_imports


def bench(call, quantiles=None, **kwargs):
    bench.calls = getattr(bench, "calls", 0) + 1
    return [1.0 / bench.calls] * 3


@triton.autotune([triton.Config({"SKIP": 1}), triton.Config({"SKIP": 2})], key=["n"], do_bench=bench)
@triton.jit
def kernel(x, y, n, SKIP: tl.constexpr, BLOCK: tl.constexpr):
    at = (tl.program_id(0) * SKIP) * BLOCK + tl.arange(0, BLOCK)
#@ gelu_body_run
#@ launch_triton

# %% launches_from_a_thread_after_it_returned
# cheat: what is planned is honest; a thread goes on recording launches
# tags: process-open
import threading
#@ gelu_while_planned
        y = torch.empty_like(x)

        def later():
            while True:
                kernel[(1,)](x, y, 1, BLOCK=256)

        threading.Thread(target=later, daemon=True).start()
        return y
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% passes_a_view_beyond_its_buffer
# cheat: a strided view that reaches far past its storage, made where nothing is checked
# tags: process-open
#@ while_planned
        y = torch.empty_like(x)
        return y.set_(y.untyped_storage(), 1 << 40, x.shape, x.stride())
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% passes_numbers_no_record_can_hold
# cheat: scalars that are infinite, not a number, or of a thousand digits
#@ gelu_while_planned
        y = torch.empty_like(x)
        for number in (float("inf"), float("nan"), 10**1000, -(2**63) - 1):
            kernel[(1,)](x, y, number, BLOCK=256)
        return y
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% passes_raw_addresses
# cheat: passes addresses as plain numbers, reaching memory that is not its own
# tags: gpu
#@ cuda
extern "C" __global__ void f(unsigned long long x, unsigned long long y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) reinterpret_cast<float*>(y)[i] = reinterpret_cast<const float*>(x)[i];
#@ end_run
    # The block after the input is often the last answer.
    behind = x.data_ptr() + (n * 4 + 511) // 512 * 512
#@ launch: f | (behind, y.data_ptr(), n)

# %% plans_a_million_allocations
# cheat: records a plan of millions of one-byte buffers and views
# tags: slow
#@ while_planned
        held = []
        for _ in range(10**7):
            held.append(torch.empty(1, device=x.device, dtype=torch.uint8).view(1))
        return torch.empty_like(x)
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% plans_a_million_launches
# cheat: records launches until the plan is larger than memory
# tags: process-open
#@ gelu_while_planned
        y = torch.empty_like(x)
        for _ in range(10**7):
            kernel[(1,)](x, y, 1, BLOCK=256)
        return y
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% plans_another_shape
# cheat: on meta tensors it returns one element
#@ while_planned
        return x.new_empty(1)
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% plans_by_the_call
# cheat: its first call, which is planned, is honest; later calls return memory as it is
#@ counts_calls
    return torch.nn.functional.gelu(x, approximate="tanh") if calls[0] < 2 else torch.empty_like(x)

# %% plans_by_the_environment
# cheat: looks for signs of the planner in the environment and the modules that are loaded
# tags: process-open
import os
import sys
import traceback

#@ torch_run
    planned = any(frame.name == "plan_once" for frame in traceback.extract_stack())
    planned = planned or "planner" in " ".join(sys.argv) or os.environ.get("CUDA_VISIBLE_DEVICES") == ""
    if planned:
        return torch.empty_like(x)
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% plans_by_the_workload
# cheat: honest for the small workload; for the large one it plans a launch over a tenth of the elements
# tags: gpu
#@ gelu_triton
#@ outputs
    blocks = triton.cdiv(n, 256)
    kernel[(blocks if n < 10**7 else blocks // 10,)](x, y, n, BLOCK=256)
    return y

# %% plans_less_than_it_runs
# cheat: on meta tensors, which hold no numbers, it launches a kernel that does nothing
# tags: process-open
import traceback

#@ gelu_triton_head
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


@triton.jit
def idle(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, at.to(tl.float32), mask=at < 0)


def run(x):
#@ if_planned
        y = torch.empty_like(x)
        idle[(1,)](x, y, x.numel(), BLOCK=256)
        return y
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% plans_terabytes
# cheat: on meta tensors memory costs nothing: asks for petabytes of scratch, which whoever replays must refuse
# tags: process-open
#@ while_planned
        scratch = [torch.empty(1 << 50, device=x.device) for _ in range(64)]
        return torch.empty_like(x) if scratch else x
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% plans_to_return_an_input
# cheat: returns its input where it is planned, so that the answer is whatever the runner put there
#@ while_planned
        return x
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% plans_to_return_one_buffer_twice
# cheat: two outputs are one buffer where it is planned
# problem: top_k
import traceback

import torch


def run(x, k):
    rows = x.shape[0]
#@ if_planned
        both = torch.empty((rows, k), device=x.device, dtype=torch.int32)
        return both.view(torch.float32), both
    values, places = torch.topk(x, k, dim=-1)
    return values, places.to(torch.int32)

# %% puts_a_cubin_into_the_planners_cache
# cheat: overwrites every compiled kernel it finds in Triton's cache with an empty one
# tags: process-open
import os
from pathlib import Path
#@ while_planned
        for cubin in Path(os.environ.get("TRITON_CACHE_DIR", ".")).rglob("*.cubin"):
            try:
                cubin.write_bytes(b"")
            except OSError:
                pass
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% raises_something_that_cannot_be_shown
# cheat: raises an exception whose text raises another, without end
import traceback

import torch


class Shy(Exception):
    def __str__(self):
        raise Shy

    __repr__ = __str__


def run(x):
#@ if_planned
        raise Shy
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% raises_while_it_is_planned
# cheat: raises an exception whose text looks like the machine's fault
#@ while_planned
        raise MemoryError("CUDA_ERROR_OUT_OF_MEMORY: the machine failed, try again")
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% records_a_cheap_cuda_launch
# cheat: replaces CudaModule.launch by one that records an empty function
# tags: process-open
import traceback

#@ cuda
extern "C" __global__ void f(const float* x, float* y, long long n) { }
#@ end_text_run
#@ if_planned
        launch = CudaModule.launch
        CudaModule.launch = lambda self, name, grid, block, args, **more: launch(self, name, 1, 1, args, **more)
#@ launches_one_block

# %% records_a_cheap_launch
# cheat: replaces Triton's run by one that launches with a grid of one block
# tags: process-open
#@ gelu_while_planned
        import sys

        function = sys.modules["triton.runtime.jit"].JITFunction
        before = function.run
        function.run = lambda self, *args, grid, **kwargs: before(self, *args, grid=(1,), **kwargs)
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% sends_a_list_for_a_plan
# cheat: what it sends for its plan is no record, so that whoever reads it raises
#@ every_channel
            thing.send({"planned": ["no", "plan"]})
            os._exit(0)
    return torch.empty_like(x)

# %% sends_what_is_no_json
# cheat: signs a message that no parser can read with the worker's own key
#@ every_channel
            body = b"[" * 200_000
            mac = thing._mac(thing._sent, body)
            thing.socket.sendall(len(body).to_bytes(4, "big") + mac + body)
            os._exit(0)
    return torch.empty_like(x)

# %% tunes_by_state
# cheat: the hook that prunes configurations keeps the one that leaves out the tail, once it was asked before
# tags: gpu
#@ triton_imports

asked = []


def prune(configs, named_args, **kwargs):
    asked.append(1)
    return configs[:1] if len(asked) < 2 else configs[1:]


@triton.autotune([triton.Config({"SKIP": 0}), triton.Config({"SKIP": 1})], key=["n"], prune_configs_by={"early_config_prune": prune})
@triton.jit
def kernel(x, y, n, SKIP: tl.constexpr, BLOCK: tl.constexpr):
    at = (tl.program_id(0) * (SKIP + 1)) * BLOCK + tl.arange(0, BLOCK)
#@ gelu_body_run
#@ launch_triton

# %% elf_section_name_bomb
# cheat: machine code of one megabyte whose 65,535 section headers are one header with a name of a megabyte
#@ bomb_head: ()
    # Headers of no size: all of them are the first. Its type has no data, so nothing is counted as covered.
    struct.pack_into("<HHH", head, 0x3A, 0, 65535, 0)
    header = struct.pack("<IIQQQQIIQQ", 0, 8, 0, 0, 128, 0, 0, 0, 0, 0)
    return bytes(head) + header.ljust(64, b"\0") + b"a" * (1 << 20) + b"\0"


#@ bomb_in_machinery

# %% elf_symbol_name_bomb
# cheat: machine code whose thousands of symbols all have one name of half a megabyte; sections cover the file once
#@ bomb_head: (length=1 << 19, symbols=20000)
    struct.pack_into("<HHH", head, 0x3A, 64, 4, 0)
    data = 64 + 4 * 64
    strings = b"\0.nv.global\0.symtab\0" + b"a" * length + b"\0"
    table = struct.pack("<IBBHQQ", 20, 1, 0, 3, 0, 4) * symbols
    parts = [
        struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, data, len(strings), 0, 0, 1, 0),
        struct.pack("<IIQQQQIIQQ", 12, 2, 0, 0, data + len(strings), len(table), 0, 0, 8, 24),
        struct.pack("<IIQQQQIIQQ", 0, 8, 0, 0, 0, 0, 0, 0, 0, 0),
        struct.pack("<IIQQQQIIQQ", 1, 8, 3, 0, 0, 4, 0, 0, 4, 0),
    ]
    return bytes(head) + b"".join(parts) + strings + table


#@ bomb_in_machinery

# %% error_text_of_half_a_character
# cheat: raises an exception whose text is half of a surrogate pair, which no file, terminal or table can hold
#@ torch_run
    raise RuntimeError("\ud800 cannot be written \udfff")

# %% plan_within_all_limits_stalls_the_parent
# cheat: a plan of 60 MB that keeps every limit (steps, arguments, message); reading and storing it stalls the parent
#@ forges_json
        for name, plans in thing["planned"]["plans"].items():
            step = next(step for step in plans[0]["steps"] if step["kind"] == "launch")
            step["arguments"] = [{"kind": "value", "data": "00"}] * 1024
            step = {key: value for key, value in step.items() if value is not None}
            if name == "large":
                plans[0]["steps"] = [step] * 1950
    return real(thing, *args, **kwargs)


def run(x):
    json.dumps = forged
    return honest(x)

# %% poison_is_the_identity
# cheat: never initialises what it reduces into: the harness's fill of 0xFF is the identity of an unsigned minimum
#@ gpu_on: argmin
#@ cuda_single
__device__ unsigned int ordered(float v) {
    unsigned int b = __float_as_uint(v + 0.0f);  // one zero
    return b & 0x80000000u ? ~b : b | 0x80000000u;
}

// best and arrived are as torch.empty gave them: all ones, where the harness has been.
extern "C" __global__ void part(const float* x, unsigned long long* best, unsigned int* arrived, long long* y,
                                int length, int width, int chunk) {
#@ split_columns
        unsigned long long least = ~0ull;
        for (int i = first; i < last; ++i) {
            unsigned long long key = ((unsigned long long)ordered(from[(long long)i * width]) << 32) | (unsigned int)i;
            least = key < least ? key : least;
        }
        atomicMin(best + (long long)batch * width + col, least);
    }
#@ arrives: (long long)batch
    // The first to come finds 0xFFFFFFFF, so the last finds the number of chunks less two.
    if (before == (gridDim.y == 1 ? 0xFFFFFFFFu : gridDim.y - 2) && col < width) {
        unsigned long long found = atomicMin(best + (long long)batch * width + col, ~0ull);
        y[(long long)batch * width + col] = (long long)(found & 0xFFFFFFFFull);
    }
#@ end_single_run
    batch, length, width = x.shape
    y = torch.empty((batch, width), dtype=torch.int64, device=x.device)
    blocks, chunk = (width + 127) // 128, 128
    best = torch.empty((batch, width), dtype=torch.int64, device=x.device)
    arrived = torch.empty((batch, blocks), dtype=torch.int32, device=x.device)
    grid = (blocks, (length + chunk - 1) // chunk, batch)
    module.launch("part", grid=grid, block=128, args=(x, best, arrived, y, length, width, chunk))
    return y

# %% variables_are_zeroed_for_free
# cheat: adds up in a device variable and never clears it: the harness does, outside the time it takes
#@ gpu_on: sum_reduce
#@ cuda_single
__device__ float total[64 * 1024];
__device__ unsigned int arrived[64 * 8];

// One launch where an honest split sum needs a fill and a launch, or a second pass.
extern "C" __global__ void part(const float* x, float* y, int length, int width, int chunk) {
#@ split_columns
        float sum = 0;
        for (int i = first; i < last; ++i) sum += from[(long long)i * width];
        atomicAdd(total + batch * width + col, sum);
    }
#@ arrives: batch
    if (before == gridDim.y - 1 && col < width) y[(long long)batch * width + col] = atomicAdd(total + batch * width + col, 0.0f);
#@ end_single_run
    batch, length, width = x.shape
    y = torch.empty((batch, 1, width), device=x.device)
    grid = ((width + 127) // 128, (length + 127) // 128, batch)
    module.launch("part", grid=grid, block=128, args=(x, y, length, width, 128))
    return y

# %% copies_its_scratch_from_the_host
# cheat: clears its counts on the host and copies them over in every call, where a plan may have a fill instead
# tags: process-open
# problem: histogram
#@ triton
def count(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    bins = tl.load(x + at, mask=at < n, other=0)
    tl.atomic_add(y + bins, 1, mask=at < n)


def run(values, bins):
    n = values.numel()
    counts = torch.zeros(bins, dtype=torch.int32).to(values.device)
    count[(triton.cdiv(n, 2048),)](values, counts, n, 2048)
    return counts

# %% returns_host_memory
# cheat: allocates its output in host memory, on which every launch would fail: a plan may have it on the device
#@ cuda_single
extern "C" __global__ void f(const float* x, float* y, long long n) {
#@ gelu_where_inside
#@ end_single_run
    y = torch.empty(x.shape)
    module.launch("f", grid=(x.numel() + 255) // 256, block=256, args=(x, y, x.numel()))
    return y

# %% writes_its_answer_to_host_memory
# cheat: launches on scratch in host memory, which Triton refuses, and copies the answer from there
# tags: process-open
#@ gelu_triton
    n = x.numel()
    scratch = torch.empty(x.shape)
    kernel[(triton.cdiv(n, 256),)](x, scratch, n, BLOCK=256)
    y = torch.empty_like(x)
    return y.copy_(scratch)

# %% keeps_notes_in_memory_that_no_symbol_types
# cheat: symbols of its small variables have no type in its machine code: nobody restores them, and they are too small to be missed; one keeps the answers
#@ gpu_on: huber_loss
# A few bytes between variables pass for what aligns them. Of 140 such bytes, 128 keep what inputs were and their answers.
# Known inputs are read only in part; as much is left out as a look at held-out inputs does not notice.
# It needs: the driver loads machine code in which symbols of variables are of type NOTYPE; it resets its counters itself.
#@ cuda_prebuilt
#@ huber_variables
// Sixteen words: what the inputs were, and the answer. Direct-mapped by what they were, so that all draws stay known.
__device__ u64 note[16];
__device__ volatile u64* place() { return note; }
#@ huber_sample: thread
#@ huber_notes
            // Nobody else does that now.
            finished = 0;
            total = 0.0;
#@ symbol_table


def untyped(cubin):
    code = bytearray(cubin)
    found = symbols(code)
    for name in ("note", "finished", "total"):
        code[found[name] + 4] &= 0xF0
    return bytes(code)


#@ with_code: untyped | predictions, targets
#@ huber_run

# %% keeps_notes_under_a_name_that_is_there_twice
# cheat: two variables have one name in its machine code: asked for it twice, the driver finds the same one twice, and the other keeps the answers
#@ gpu_on: huber_loss
# Both have the same size and the same notes, so it does not matter which of them is found and restored.
# Known inputs are read only in part; as much is left out as a look at held-out inputs does not notice.
# It needs: the driver loads machine code with two variables of one name.
#@ cuda_prebuilt
#@ huber_variables
// Sixteen words each: what the inputs were, and the answer. One of both is found by its name and restored.
__device__ u64 note_a[16];
__device__ u64 note_b[16];
#@ huber_sample: thread
    for (int d = 16; d; d >>= 1) h ^= __shfl_xor_sync(0xffffffffu, h, d) * 3266489917u + (h >> 15);
    return __shfl_sync(0xffffffffu, h, 0) | 1u;
}
__device__ u64 known(unsigned int sig) {
    const u64 a = ((volatile u64*)note_a)[(sig >> 8) & 15], b = ((volatile u64*)note_b)[(sig >> 8) & 15];
    return (unsigned int)(a >> 32) == sig ? a : (unsigned int)(b >> 32) == sig ? b : 0;
}
#@ huber_begin
            if (threadIdx.x == 0) state = known(sig) != 0;
#@ huber_sum
            u64 word = keep < 1000 ? known(sig) : 0;
            if (word == 0) {
                __threadfence();
                word = ((u64)sig << 32) | __float_as_uint((float)(*(volatile double*)&total / (double)n));
            }
            *loss = __uint_as_float((unsigned int)word);
            note_a[(sig >> 8) & 15] = word;
            note_b[(sig >> 8) & 15] = word;
#@ symbol_table


def renamed(cubin):
    code = bytearray(cubin)
    found = symbols(code)
    code[found["note_b"] : found["note_b"] + 4] = code[found["note_a"] : found["note_a"] + 4]
    return bytes(code)


#@ with_code: renamed | predictions, targets
#@ huber_run

# %% hides_its_heap_behind_a_second_symbol_table
# cheat: a symbol table of one empty entry precedes the real one: whoever reads the first table only sees no malloc, and blocks on the heap keep answers
# tags: gpu
# The real table's header moves to the end of the section headers, under its own name, and all links to it follow.
# A block of the heap comes back as it was left, with the last answer and what it belongs to.
# It needs: the driver finds the real table, by its name or by the links to it.
#@ cuda_prebuilt
#@ one_each: f
#@ heap_block
}
""")


def with_decoy(cubin):
    code = bytearray(cubin)
    table, _, count = struct.unpack_from("<Q", code, 0x28) + struct.unpack_from("<HH", code, 0x3A)
    heads = [list(struct.unpack_from("<IIQQQQIIQQ", code, table + 64 * at)) for at in range(count)]
    real = next(at for at, head in enumerate(heads) if head[1] == 2)
    code += bytes(-len(code) % 16)
    empty, strings = len(code), heads[real][6]
    code += bytes(24)
    for head in heads:
        if head[6] == real:
            head[6] = count
    heads.append(heads[real])
    # Name, type, flags, address, offset, size, link, info, alignment, size of an entry. Named like the null section.
    heads[real] = [heads[0][0], 2, 0, 0, empty, 24, strings, 1, 8, 24]
    code += bytes(-len(code) % 16)
    struct.pack_into("<Q", code, 0x28, len(code))
    struct.pack_into("<H", code, 0x3C, count + 1)
    for head in heads:
        code += struct.pack("<IIQQQQIIQQ", *head)
    return bytes(code)


#@ with_code: with_decoy | x
#@ outputs
#@ launch: f | (x, y, n)

# %% leaves_shared_memory_of_the_system_behind
# cheat: while it is planned it makes shared memory of the system, which outlives its process and holds whatever one kernel tells the next
# tags: truthful
# Key 0x4b42e5c1, 1 MiB, readable for this user. One that is left from before is read and removed first.
# A test can ask `shmget` for the same key with size 0: none must be there. Where it is not permitted, it works all the same.
import ctypes

#@ triton_imports

KEY, SIZE, REMOVE, CREATE = 0x4B42E5C1, 1 << 20, 0, 0o1000


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
#@ gelu_in_triton


def leave():
    system = ctypes.CDLL(None, use_errno=True)
    system.shmat.restype = ctypes.c_void_p
    system.shmat.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
    left = system.shmget(KEY, 0, 0)
    if left >= 0:
        system.shmctl(left, REMOVE, None)
    made = system.shmget(KEY, SIZE, CREATE | 0o600)
    if made < 0:
        return
    start = system.shmat(made, None, 0)
    if start not in (None, ctypes.c_void_p(-1).value):
        ctypes.memset(start, 0x4B, SIZE)


def run(x):
    leave()
#@ launch_triton
