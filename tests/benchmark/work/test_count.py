"""Work of whole plans, from hand-written PTX and from compilers."""

import dataclasses
import math
import random
import runpy
from pathlib import Path
from typing import Any

import pytest

from kbench.benchmark.work.caches import dram_bytes
from kbench.benchmark.work.count import count_plan
from kbench.benchmark.work.gpus import GPUS, H200, gpu_named, resident_blocks, waves
from kbench.benchmark.work.operators import Operator, operator_work
from kbench.benchmark.work.pipes import Pipe, pipe_of, tensor_flops
from kbench.benchmark.work.ptx import Instruction, read_functions
from kbench.benchmark.work.table import plain_work, read_work, read_work_text, work_text
from kbench.benchmark.work.times import Fitted, launch_time, plan_time_us
from kbench.benchmark.work.totals import LaunchWork, Work
from kbench.schemas import DataError, UnknownNameError
from kbench.schemas.records.launch_plan import (
    ArgumentKind,
    LaunchPlan,
    PlanArgument,
    PlanBuffer,
    PlanStep,
    StepKind,
    TensorMapSpec,
)

SCALE = """
.visible .entry scale(.param .u64 data, .param .u32 n)
{
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.s32 %p1, %r5, %r1;
    @%p1 bra end;
    mul.wide.s32 %rd2, %r5, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.f32 %f1, [%rd3];
    mul.f32 %f2, %f1, 0f40000000;
    st.global.f32 [%rd3], %f2;
end:
    ret;
}
"""


CODE = "a" * 64


def launch(function: str, grid: int, block: int, *arguments: PlanArgument, code: str = CODE) -> PlanStep:
    """A launch along one axis."""
    return PlanStep(
        kind=StepKind.LAUNCH, code=code, function=function, grid=(grid, 1, 1), block=(block, 1, 1),
        cooperative=False, dependent=False, shared_bytes=0, prefer_shared=False, arguments=arguments,
    )  # fmt: skip


def plan_of(*steps: PlanStep) -> LaunchPlan:
    """A plan with one buffer."""
    return LaunchPlan(
        plan_id="b" * 64, kernel_id="c" * 32, problem_id="scale", workload="large", target="sm_90a", choice=None,
        buffers=(PlanBuffer(nbytes=1 << 24, input=0),), steps=steps, outputs=(),
    )  # fmt: skip


POINTER = PlanArgument(kind=ArgumentKind.POINTER, buffer=0, offset=0)


def number(value: int) -> PlanArgument:
    """An integer of 32 bits."""
    return PlanArgument(kind=ArgumentKind.VALUE, data=value.to_bytes(4, "little").hex())


def test_a_plan_s_totals_are_those_of_all_warps() -> None:
    work = count_plan(plan_of(launch("scale", 264, 128, POINTER, number(264 * 128))), {CODE: SCALE})
    (one,) = work.launches
    assert one.error is None
    assert (one.blocks, one.warps, one.largest) == (264, 4, 1)
    assert one.per_block.load_sectors == pytest.approx(4 * 4)
    assert work.total.load_bytes == pytest.approx(264 * 128 * 4)
    assert work.total.l2_bytes == pytest.approx(2 * 264 * 128 * 4)
    assert work.total.memory == pytest.approx(2 * 264 * 4)
    assert work.total.uncertain == 0
    # It stores the bytes that it loads, which stay in L2, and no two blocks share any.
    assert dram_bytes(one, H200) == pytest.approx(264 * 128 * 4, rel=0.01)
    assert read_work(plain_work(work)) == work


def test_blocks_beyond_the_end_do_less_and_count_as_often_as_they_are_many() -> None:
    work = count_plan(plan_of(launch("scale", 64, 32, POINTER, number(63 * 32))), {CODE: SCALE})
    full = count_plan(plan_of(launch("scale", 64, 32, POINTER, number(64 * 32))), {CODE: SCALE})
    assert 62 / 64 < work.total.issued / full.total.issued < 1


def test_launches_add_up_and_registers_limit_how_many_blocks_fit() -> None:
    step = launch("scale", 5000, 256, POINTER, number(1 << 20))
    work = count_plan(plan_of(step, step), {CODE: SCALE}, resources={(CODE, "scale"): (128, 0, 0)})
    (one,) = work.launches
    assert one.times == 2
    assert work.total.issued == pytest.approx(2 * 5000 * one.per_block.issued)
    assert resident_blocks(one, H200) == 2
    assert waves(one, H200) == math.ceil(5000 / (2 * 132))


def test_a_streaming_kernel_takes_longer_where_memory_is_slower() -> None:
    work = count_plan(plan_of(launch("scale", 1 << 14, 256, POINTER, number(1 << 22))), {CODE: SCALE})
    times = {name: launch_time(work.launches[0], gpu, Fitted()) for name, gpu in GPUS.items()}
    assert min(times["H200"].dram, times["H200"].l2) > max(times["H200"].issue, times["H200"].alu, times["H200"].fma)
    assert times["B200"].dram < times["H200"].dram < times["A100"].dram < times["L40S"].dram
    assert plan_time_us(work, H200, Fitted()) > times["H200"].dram
    assert gpu_named("NVIDIA H200 (64 of 132 SMs)").multiprocessors == 64


@pytest.mark.parametrize(
    ("asked", "name", "tflops"),
    [
        ("NVIDIA H100 80GB HBM3", "H100", 989), ("NVIDIA H100 PCIe", "H100 PCIe", 819),
        ("NVIDIA A100-SXM4-80GB", "A100", 312), ("NVIDIA A100-PCIE-40GB", "A100 40GB", 312),
        ("NVIDIA A10", "A10", 125), ("NVIDIA L4", "L4", 121), ("NVIDIA L40S", "L40S", 366), ("H20", "H20", 148),
        ("NVIDIA B200", "B200", 2255), ("NVIDIA GeForce RTX 4090", "RTX 4090", 165),
        ("NVIDIA GeForce RTX 5090", "RTX 5090", 209), ("AMD Instinct MI300X", "MI300X", 1307),
        ("AMD Instinct MI350X", "MI350X", 2307),
    ],
)  # fmt: skip
def test_a_device_has_the_matrix_rate_that_its_maker_states(asked: str, name: str, tflops: float) -> None:
    assert gpu_named(asked).name == name
    assert gpu_named(asked).tensor_tflops[16] == pytest.approx(tflops, rel=0.01)


@pytest.mark.parametrize("name", ["NVIDIA GeForce RTX 4090 Laptop GPU", "RTX 3090 SUPER", "Tesla V100", "GPU", ""])
def test_a_device_that_is_not_in_the_table_is_not_taken_for_another(name: str) -> None:
    with pytest.raises(UnknownNameError):
        gpu_named(name)


QUEUE = """
.visible .entry queue(.param .u64 counter, .param .u64 order, .param .u32 n)
{
    ld.param.u64 %rd1, [counter];
    ld.param.u64 %rd2, [order];
    ld.param.u32 %r1, [n];
again:
    atom.global.add.u32 %r2, [%rd1], 1;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra end;
    ld.global.u32 %r3, [%rd2];
inner:
    sub.u32 %r3, %r3, 1;
    setp.ne.u32 %p2, %r3, 0;
    @%p2 bra inner;
    bra again;
end:
    ret;
}
"""


@pytest.mark.parametrize("turns", [10, 100])
def test_tickets_go_round_and_known_inputs_decide_loops(turns: int) -> None:
    plan = plan_of(launch("queue", 4, 1, POINTER, POINTER, number(40)))
    known = count_plan(plan, {CODE: QUEUE}, contents={0: turns.to_bytes(4, "little")})
    assert known.total.unknown_branches == 0
    # Forty tiles for four blocks, each as many turns as the input says.
    assert known.total.ptx_instructions == pytest.approx(40 * (5 + 3 * turns), rel=0.2)
    assert count_plan(plan, {CODE: QUEUE}).total.unknown_branches > 0


@pytest.mark.parametrize(
    ("field", "value"),
    [("fills", -1), ("fill_bytes", float("nan")), ("copies", "x"), ("launches", [{}]), ("launches", 3)],
)
def test_malformed_work_is_refused(field: str, value: object) -> None:
    good = plain_work(count_plan(plan_of(launch("scale", 8, 32, POINTER, number(256))), {CODE: SCALE}))
    with pytest.raises(DataError, match="malformed"):
        read_work(good | {field: value})


def test_functions_of_one_name_are_told_apart_by_their_code() -> None:
    second = "d" * 64
    ptx = {CODE: SCALE, second: SCALE.replace("ld.global.f32 %f1, [%rd3];", "")}
    loads = [
        count_plan(plan_of(launch("scale", 1, 32, POINTER, number(32), code=code)), ptx).total.load_requests
        for code in (CODE, second)
    ]
    assert loads == [1, 0]


def test_a_tensor_map_s_box_gives_the_bytes_of_a_copy() -> None:
    copy = """
    .visible .entry copy(.param .align 64 .b8 map[128])
    {
        mov.b64 %rd1, map;
        mov.u32 %r1, %tid.x;
        setp.eq.s32 %p1, %r1, 0;
        @%p1 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd1, {%r3, 0}], [%r5];
        ret;
    }
    """
    spec = TensorMapSpec(element_type=9, extents=(64, 64), strides=(128,), box=(64, 32), swizzle=0, nan_fill=False)
    argument = PlanArgument(kind=ArgumentKind.TENSOR_MAP, buffer=0, offset=0, tensor_map=spec)
    work = count_plan(plan_of(launch("copy", 4, 128, argument)), {CODE: copy})
    assert work.total.bulk_load_bytes == pytest.approx(4 * 64 * 32 * 2)


def instruction(text: str) -> Instruction:
    """One instruction."""
    return read_functions(f".entry f() {{ {text}; }}")["f"].code[0]


def buffers(*sizes: int) -> tuple[PlanBuffer, ...]:
    """Inputs of these sizes."""
    return tuple(PlanBuffer(nbytes=size, input=at) for at, size in enumerate(sizes))


def pointer(buffer: int) -> PlanArgument:
    """The address of a buffer."""
    return PlanArgument(kind=ArgumentKind.POINTER, buffer=buffer, offset=0)


def counted(body: str, grid: tuple[int, int, int], threads: int, *sizes: int, **known: Any) -> LaunchWork:
    """A launch of a body that gets the addresses of buffers in %rd1, %rd2 and so on."""
    parameters = ", ".join(f".param .u64 p{at}" for at in range(len(sizes)))
    loads = "".join(f"ld.param.u64 %rd{at + 1}, [p{at}];" for at in range(len(sizes)))
    text = f".visible .entry f({parameters}) {{ {loads} mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; {body} ret; }}"
    step = dataclasses.replace(launch("f", 1, threads, *(pointer(at) for at in range(len(sizes)))), grid=grid)
    plan = dataclasses.replace(plan_of(step), buffers=buffers(*sizes))
    (one,) = count_plan(plan, {CODE: text}, **known).launches
    assert one.error is None
    return one


def test_an_address_of_inserted_bits_is_followed() -> None:
    block = counted(
        "bfi.b32 %r3, %r2, %r1, 5, 27; mul.wide.u32 %rd2, %r3, 4; add.s64 %rd3, %rd1, %rd2; ld.global.f32 %f1, [%rd3];",
        (1 << 15, 1, 1), 32, 1 << 22,
    )  # fmt: skip
    assert block.per_block.unknown_addresses == 0
    assert dram_bytes(block, H200) == pytest.approx(1 << 22)


def test_every_lane_s_bulk_copy_counts_with_the_buffer_it_reads() -> None:
    block = counted(
        "mad.lo.s32 %r3, %r2, 32, %r1; mul.wide.u32 %rd2, %r3, 2048; add.s64 %rd3, %rd1, %rd2; "
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd3], 2048, [%r5];",
        (64, 1, 1), 32, 64 * 32 * 2048,
    )  # fmt: skip
    assert block.per_block.bulk_load_bytes == 32 * 2048
    assert dram_bytes(block, H200) == pytest.approx(64 * 32 * 2048)


def test_an_access_that_goes_to_two_buffers_counts_for_both() -> None:
    block = counted(
        "setp.lt.u32 %p1, %r1, 32; selp.b64 %rd3, %rd1, %rd2, %p1; mad.lo.s32 %r3, %r2, 64, %r1; "
        "mul.wide.u32 %rd4, %r3, 4; add.s64 %rd5, %rd3, %rd4; ld.global.f32 %f1, [%rd5];",
        (64, 1, 1), 64, 1 << 20, 1 << 20,
    )  # fmt: skip
    assert [one.loads for one in block.traffic] == [128, 128]


def test_fragments_of_wmma_are_read_where_they_lie() -> None:
    body = (
        "mul.wide.u32 %rd3, %r2, 32; add.s64 %rd4, {base}, %rd3; mov.u32 %r3, 1024; "
        "wmma.load.a.sync.aligned.row.m16n16k16{space}.bf16 {{%r4, %r5, %r6, %r7}}, [{at}], %r3;"
    )
    block = counted(body.format(base="%rd1", space="", at="%rd4"), (64, 1, 1), 32, 16 * 1024 * 2)
    assert (block.per_block.load_sectors, block.per_block.load_bytes) == (16, 512)
    assert dram_bytes(block, H200) == pytest.approx(16 * 1024 * 2)
    # Rows that lie 2,048 bytes apart are in one bank.
    shared = counted(body.format(base="%rd1", space=".shared", at="0"), (1, 1, 1), 32, 64)
    assert (shared.per_block.load_sectors, shared.per_block.shared_wavefronts) == (0, 32)


def test_a_copy_of_no_bytes_reads_nothing() -> None:
    block = counted(
        "mul.wide.u32 %rd2, %r1, 16; add.s64 %rd3, %rd1, %rd2; setp.lt.u32 %p1, %r1, 8; selp.b32 %r3, 16, 0, %p1; "
        "cp.async.cg.shared.global [%r4], [%rd3], 16, %r3;",
        (1, 1, 1), 32, 512,
    )  # fmt: skip
    assert block.per_block.load_sectors == 4


PARTIAL = (
    "mov.u32 %r3, %ctaid.y; mad.lo.s32 %r4, {tile}, 1024, %r1; setp.lt.s32 %p1, %r4, 5632; "
    "mad.lo.s32 %r5, {row}, 5632, %r4; mul.wide.s32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2; "
    "@%p1 ld.global.f32 %f1, [%rd3];"
)


@pytest.mark.parametrize(
    ("tile", "row", "grid"), [("%r3", "%r2", (64, 6, 1)), ("%r6", "%r7", (384, 1, 1))], ids=["axes", "in a row"]
)
def test_a_partial_tile_at_an_edge_counts_with_its_mask(tile: str, row: str, grid: tuple[int, int, int]) -> None:
    body = "div.u32 %r7, %r2, 6; mul.lo.u32 %r8, %r7, 6; sub.u32 %r6, %r2, %r8; " + PARTIAL.format(tile=tile, row=row)
    block = counted(body, grid, 1024, 64 * 5632 * 4)
    assert block.blocks * block.per_block.load_sectors * 32 == pytest.approx(64 * 5632 * 4, rel=0.02)


def test_a_lookup_reads_the_rows_that_differ() -> None:
    body = (
        "mul.wide.u32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3; ld.global.u32 %r3, [%rd4]; "
        "mad.lo.s32 %r4, %r3, 256, %r1; mul.wide.u32 %rd5, %r4, 4; add.s64 %rd6, %rd2, %rd5; ld.global.f32 %f1, [%rd6];"
    )
    rows = [7 * (at // 2) % 4096 for at in range(1024)]
    held = b"".join(row.to_bytes(4, "little") for row in rows)
    sizes = (4096, 4096 * 1024)
    known, unknown = (counted(body, (1024, 1, 1), 256, *sizes, contents=each) for each in ({0: held}, {}))
    # Each of 512 rows is asked for twice. Where nothing is known of the indices, they are taken to differ.
    assert dram_bytes(known, H200) == pytest.approx(4096 + 512 * 1024, rel=0.01)
    assert dram_bytes(unknown, H200) == pytest.approx(4096 + 1024 * 1024, rel=0.01)
    assert read_work_text(work_text([Work((known,))]), "here")[0].launches[0].traffic == known.traffic


def test_a_function_is_looked_up_once_whatever_scales_it() -> None:
    times = []
    for name in ("ex2.approx.ftz.f32", "ex2.approx.f32"):
        block = counted(f"{name} %f1, %f2;" * 100, (132, 1, 1), 1024, 64)
        times.append(launch_time(block, H200, Fitted()))
        older = dataclasses.replace(block, per_block=dataclasses.replace(block.per_block, lookups=0.0))
        assert launch_time(older, H200, Fitted()).special == pytest.approx(
            times[-1].special * block.per_block.special / 3 / block.per_block.lookups
        )
    assert times[0].special == times[1].special > 0
    assert times[0].fma < times[1].fma


@pytest.mark.parametrize(
    ("text", "pipe", "bits", "flops"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f1}", Pipe.TENSOR, 16, 4096),
        ("wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {%f1}, %rd1, %rd2, 1", Pipe.TENSOR, 8, 131072),
        ("wmma.mma.sync.aligned.row.row.m16n16k8.f32.tf32.tf32.f32 {%f1}, {%r1}, {%r2}, {%f1}", Pipe.TENSOR, 32, 4096),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r1}, {%r1}, {%r2}, {%r3}", Pipe.TENSOR, 8, 8192),
        ("wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1}, [%r2], %r3", Pipe.MEMORY, 16, 0),
        ("wgmma.wait_group.sync.aligned 0", Pipe.CONTROL, 16, 0),
        ("fma.rn.f32 %f1, %f2, %f3, %f4", Pipe.FMA, 16, 0),
        ("fma.rn.f64 %f1, %f2, %f3, %f4", Pipe.DOUBLE, 16, 0),
        ("ex2.approx.ftz.f32 %f1, %f2", Pipe.SPECIAL, 16, 0),
        ("cvt.rn.f32.s32 %f1, %r2", Pipe.SPECIAL, 16, 0),
        ("setp.lt.s32 %p1, %r1, %r2", Pipe.ALU, 16, 0),
        ("bar.sync 0", Pipe.CONTROL, 16, 0),
    ],
)
def test_pipes_and_tensor_operations(text: str, pipe: Pipe, bits: int, flops: float) -> None:
    one = instruction(text)
    assert pipe_of(one) is pipe
    assert tensor_flops(one) == (bits, flops)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".entry scale() { top: bra top; }", "steps"),
        (".entry other() { ret; }", "no PTX has a function"),
        (".entry scale() {" + "{" * 100 + "}" * 101, "nest"),
        ("x" * (17 << 20), "characters"),
    ],
)
def test_what_cannot_be_counted_says_why(text: str, message: str) -> None:
    work = count_plan(plan_of(launch("scale", 8, 32)), {CODE: text})
    assert message in work.errors[0]
    assert work.total.issued == 0


def test_many_hostile_launches_end_within_the_limits() -> None:
    steps = [launch("scale", 8 + n, 32) for n in range(500)]
    work = count_plan(plan_of(*steps), {CODE: ".entry scale() { top: bra top; }"})
    assert len(work.errors) == 500


@pytest.mark.parametrize("seed", range(8))
def test_mutilated_ptx_is_counted_or_says_why_not(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(40):
        words = draw.choice((SCALE, QUEUE)).split(" ")
        for _ in range(draw.randint(1, 4)):
            words[draw.randrange(4, len(words))] = draw.choice([*words, "", "{", "%r9999", "-1", "0x7fffffffffffffff"])
        name = "scale" if "scale" in " ".join(words) else "queue"
        work = count_plan(plan_of(launch(name, 3, 64, POINTER, POINTER, number(9))), {CODE: " ".join(words)})
        assert math.isfinite(work.total.issued)


def test_what_cuda_s_compiler_makes_can_be_counted() -> None:
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    source = """extern "C" __global__ void row_sum(const float* x, float* y, int n) {
        float total = 0; for (int i = threadIdx.x; i < n; i += blockDim.x) total += x[blockIdx.x * n + i];
        atomicAdd(y + blockIdx.x, total); }"""
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"row_sum.cu", 0, [], [])
    nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=compute_90a"])
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = b" " * size
    nvrtc.nvrtcGetPTX(program, text)
    step = launch("row_sum", 16, 128, POINTER, POINTER, number(1 << 14))
    work = count_plan(plan_of(step), {CODE: text.decode().rstrip("\0")})
    assert work.errors == ()
    assert work.total.load_bytes == pytest.approx(16 * (1 << 14) * 4, rel=0.01)
    assert work.total.atomics == 16 * 4


def test_what_triton_makes_can_be_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    triton = pytest.importorskip("triton")
    compiler = pytest.importorskip("triton.compiler")
    backend = pytest.importorskip("triton.backends.compiler")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # As in the sandbox that compiles kernels.
    source = tmp_path / "double.py"
    source.write_text(
        "import triton\nimport triton.language as tl\n\n@triton.jit\ndef double(x, n, SIZE: tl.constexpr):\n"
        "    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)\n"
        "    tl.store(x + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)\n"
    )
    module = runpy.run_path(str(source))
    signature = {"x": "*fp32", "n": "i32", "SIZE": "constexpr"}
    made = compiler.ASTSource(fn=module["double"], signature=signature, constexprs={(2,): 1024})
    text = triton.compile(made, target=backend.GPUTarget("cuda", 90, 32)).asm["ptx"]
    work = count_plan(plan_of(launch("double", 100, 128, POINTER, number(102400))), {CODE: text})
    assert work.errors == ()
    assert work.total.load_bytes == pytest.approx(102400 * 4)
    assert work.total.store_sectors == pytest.approx(102400 * 4 / 32)


def time_us(operator: Operator, gpu: str = "H200") -> float:
    return launch_time(operator_work(operator), GPUS[gpu], Fitted()).total


def product(size: int, **more: object) -> Operator:
    fields: dict[str, object] = {"bits": 16, "writes": 2.0 * size * size, "product": (1, size, size, size)}
    return Operator(name="mm", **fields | more)


def test_a_pass_over_memory_takes_the_time_of_its_bytes() -> None:
    one = Operator(name="add", reads=(1e9, 1e9), writes=1e9, elements=5e8)
    least = 3e9 / (GPUS["H200"].dram_gbps * 1e3)
    assert least < time_us(one) < 2 * least
    assert time_us(Operator(name="add", reads=(1e9,), writes=1e9, elements=5e8)) < time_us(one)


def test_a_product_does_at_least_the_operations_of_its_shape_and_exact_floats_are_slower() -> None:
    work = Work((operator_work(product(4096)),))
    assert 2 * 4096**3 <= work.total.flops < 2.2 * 4096**3
    assert (
        time_us(product(4096, bits=32, exact=True)) > 4 * time_us(product(4096, bits=32)) / 2 > time_us(product(4096))
    )


@pytest.mark.parametrize("shape", [(1, 1, 4096, 4096), (64, 16, 16, 8), (1, 5, 7, 100_000)])
def test_small_and_flat_products_have_blocks_and_a_time(shape: tuple[int, int, int, int]) -> None:
    launch = operator_work(product(1, product=shape))
    assert launch.blocks >= 1
    assert 0 < time_us(product(1, product=shape)) < 1e4
