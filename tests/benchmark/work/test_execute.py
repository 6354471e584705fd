"""Abstract execution of hand-written PTX whose counts can be told by hand."""

import pytest

from kbench.benchmark.work.execute import MOST_STEPS, TooLongError, Warp
from kbench.benchmark.work.flow import read_flow
from kbench.benchmark.work.loops import Trace
from kbench.benchmark.work.memory import Box
from kbench.benchmark.work.ptx import read_functions
from kbench.benchmark.work.values import Place

START = 1 << 36


def trace_of(
    body: str,
    *,
    n: int = 0,
    warp: int = 0,
    block: tuple[int, int, int] = (64, 1, 1),
    block_id: tuple[int, int, int] = (0, 0, 0),
    box: Box | None = None,
) -> Trace:
    """The trace of a function with the parameters data (a pointer), n (an integer) and map (a tensor map)."""
    head = ".visible .entry f(.param .u64 data, .param .u32 n, .param .align 64 .b8 map[128])\n"
    function = read_functions(head + "{\n" + body + "\nret;\n}")["f"]
    arguments: dict[str, bytes | int | Box] = {"data": START, "n": n.to_bytes(4, "little")}
    if box is not None:
        arguments["map"] = box
    return Warp(function, read_flow(function), Place((8, 1, 1), block, block_id, warp, arguments)).run()


LOOP = """
    ld.param.u32 %r1, [n];
    mov.u32 %r2, 0;
top:
    add.s32 %r2, %r2, 1;
    setp.lt.s32 %p1, %r2, %r1;
    @%p1 bra top;
"""


@pytest.mark.parametrize("n", [1, 2, 7, 1000, 1_000_000])
def test_a_loop_counts_every_turn_and_runs_few(n: int) -> None:
    trace = trace_of(LOOP, n=n)
    assert trace.issued == 2 + 3 * n + 1
    assert trace.steps < 100


def test_lanes_that_turn_a_loop_different_times_run_it_as_long_as_the_longest() -> None:
    trace = trace_of(LOOP.replace("ld.param.u32 %r1, [n]", "mov.u32 %r1, %tid.x"), block=(32, 1, 1))
    assert trace.visits[2] == 31


NESTED = """
    ld.param.u32 %r1, [n];
    mov.u32 %r2, 0;
outer:
    mov.u32 %r3, 0;
inner:
    xor.b32 %r4, %r4, 1;
    add.s32 %r3, %r3, 1;
    setp.lt.s32 %p1, %r3, 40;
    @%p1 bra inner;
    add.s32 %r2, %r2, 1;
    setp.lt.s32 %p2, %r2, %r1;
    @%p2 bra outer;
"""


def test_nested_loops_with_two_buffers_count_in_full() -> None:
    trace = trace_of("mov.u32 %r4, 0;" + NESTED, n=5000)
    assert trace.issued == 1 + 2 + 5000 * (1 + 40 * 4 + 3) + 1
    assert trace.steps < 5000


def test_a_triangular_loop_is_not_mistaken_for_a_rectangular_one() -> None:
    trace = trace_of("mov.u32 %r4, 0;" + NESTED.replace("%r3, 40", "%r3, %r2"), n=100)
    turns = sum(max(1, i) for i in range(100))
    assert trace.visits[4] == turns


def test_a_loop_over_tiles_whose_places_come_from_divisions_is_not_run_to_its_end() -> None:
    body = """
        ld.param.u32 %r1, [n];
        ld.param.u64 %rd1, [data];
        mov.u32 %r2, 0;
    top:
        rem.u32 %r3, %r2, 97;
        div.u32 %r4, %r2, 97;
        mad.lo.u32 %r5, %r3, 4096, %r4;
        mul.wide.u32 %rd2, %r5, 4;
        add.s64 %rd3, %rd1, %rd2;
        ld.global.f32 %f1, [%rd3];
        add.s32 %r2, %r2, 5;
        setp.lt.s32 %p1, %r2, %r1;
        @%p1 bra top;
    """
    trace = trace_of(body, n=5_000_000)
    assert trace.visits[3] == 1_000_000
    assert trace.steps < 2000


DIVERGENT = """
    mov.u32 %r1, %laneid;
    setp.lt.u32 %p1, %r1, 16;
    @%p1 bra low;
    mov.u32 %r2, 2;
    bra done;
low:
    mov.u32 %r2, 1;
done:
    setp.eq.u32 %p2, %r2, 1;
    @!%p2 bra end;
    add.u32 %r3, %r3, 1;
end:
    add.u32 %r3, %r3, 1;
"""


def test_both_sides_of_a_divergent_branch_run_and_lanes_keep_their_values() -> None:
    trace = trace_of(DIVERGENT)
    assert [trace.visits[at] for at in (3, 4, 5)] == [1, 1, 1]
    assert trace.visits[8] == 1, "half of the lanes has r2 = 1"
    assert not trace.unknown_branches


def test_a_predicate_that_is_set_to_minus_one_is_true() -> None:
    trace = trace_of("mov.pred %p1, -1;\n@!%p1 bra end;\nadd.s32 %r1, %r1, 1;\nend:")
    assert trace.visits[2] == 1


def test_an_unknown_branch_counts_each_side_half() -> None:
    trace = trace_of("""
        ld.param.u64 %rd1, [data];
        ld.global.u32 %r1, [%rd1];
        setp.eq.s32 %p1, %r1, 0;
        @%p1 bra skip;
        add.s32 %r2, %r1, 1;
        add.s32 %r2, %r1, 1;
    skip:
        mov.u32 %r3, 0;
    """)
    assert trace.visits[4] == 0.5
    assert trace.visits[6] == 1.0
    assert sum(trace.unknown_branches.values()) == 1
    assert trace.uncertain == 1.0


SPIN = """
    ld.param.u64 %rd1, [data];
wait:
    ld.volatile.global.u32 %r1, [%rd1];
    setp.eq.s32 %p1, %r1, 0;
    @%p1 bra wait;
"""
BARRIER = """
{
    .reg .pred complete;
waitLoop:
    mbarrier.try_wait.parity.shared::cta.b64 complete, [%r1], %r2;
    @!complete bra.uni waitLoop;
}
"""


def test_a_wait_for_a_flag_is_no_unknown_branch() -> None:
    trace = trace_of(SPIN)
    assert sum(trace.waits.values()) == 1
    assert not trace.unknown_branches


def test_labels_of_inline_assembly_may_repeat() -> None:
    trace = trace_of(BARRIER + BARRIER)
    assert trace.issued == 5
    assert not trace.unknown_branches


def test_a_loop_that_only_data_can_end_is_left() -> None:
    trace = trace_of(SPIN.replace("volatile.", "").replace("eq", "ne"))
    assert trace.visits[1] == 1
    assert sum(trace.unknown_branches.values()) == 1


def test_a_loop_with_a_known_end_runs_on_through_an_unknown_one() -> None:
    early = LOOP.replace("add.s32", "ld.global.u32 %r9, [%rd1];\nsetp.eq.s32 %p9, %r9, 0;\n@%p9 bra out;\nadd.s32")
    trace = trace_of("ld.param.u64 %rd1, [data];" + early + "out:", n=50)
    assert trace.visits[6] == 50


ACCESS = """
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, STRIDE;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.KIND %r2, [%rd3+OFFSET];
"""


@pytest.mark.parametrize(
    ("kind", "stride", "offset", "sectors"),
    [
        ("f32", 4, 0, 4),
        ("f32", 4, 4, 5),
        ("f32", 128, 0, 32),
        ("f32", 0, 0, 1),
        ("u16", 2, 0, 2),
        ("v4.f32", 16, 0, 16),
        ("f64", 8, 0, 8),
    ],
)
def test_sectors_follow_from_the_lanes_addresses(kind: str, stride: int, offset: int, sectors: int) -> None:
    body = ACCESS.replace("STRIDE", str(stride)).replace("KIND", kind).replace("OFFSET", str(offset))
    trace = trace_of(body, warp=1)
    assert trace.sectors[4] == sectors


def test_what_a_warp_loaded_before_is_not_fresh() -> None:
    again = "ld.global.f32 %r3, [%rd3];"
    body = ACCESS.replace("STRIDE", "4").replace("KIND", "f32").replace("OFFSET", "0")
    trace = trace_of(body + again)
    assert (trace.sectors[5], trace.fresh[5]) == (4, 0)


@pytest.mark.parametrize(
    ("kind", "stride", "turns"),
    [("b32", 4, 1), ("b32", 8, 2), ("b32", 128, 32), ("b32", 132, 1), ("b32", 0, 1), ("v4.b32", 16, 4)],
)
def test_bank_conflicts_take_turns(kind: str, stride: int, turns: int) -> None:
    trace = trace_of(f"""
        .shared .align 16 .b8 tile[8192];
        mov.u32 %r1, %laneid;
        mov.u32 %r2, tile;
        mad.lo.u32 %r3, %r1, {stride}, %r2;
        ld.shared.{kind} %r4, [%r3];
    """)
    assert trace.wavefronts[3] == turns


def test_a_tensor_memory_copy_moves_a_box_once() -> None:
    trace = trace_of(
        """
        mov.b32 %r1, map;
        cvt.u64.u32 %rd1, %r1;
        cvta.param.u64 %rd2, %rd1;
        elect.sync %r2|%p1, -1;
        @%p1 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r3], [%rd2, {%r4, %r5}], [%r6];
        """,
        box=Box((64, 128), 2),
    )
    assert trace.copied[4] == 64 * 128 * 2


def test_a_warp_role_read_through_a_shuffle_is_known() -> None:
    trace = trace_of("""
        mov.u32 %r1, %tid.x;
        shr.u32 %r2, %r1, 5;
        shfl.sync.idx.b32 %r3, %r2, 0, 31, -1;
        setp.eq.s32 %p1, %r3, 1;
        @%p1 bra end;
        add.s32 %r4, %r4, 1;
    end:
    """, warp=1)  # fmt: skip
    assert trace.visits[5] == 0
    assert not trace.unknown_branches


@pytest.mark.parametrize(
    "body",
    [
        "top: bra top;",
        "mov.u32 %r1, 1;\ntop: mul.lo.u32 %r1, %r1, 1664525;\nadd.u32 %r1, %r1, 1013904223;\n"
        "setp.ne.u32 %p1, %r1, 7;\n@%p1 bra top;",
    ],
)
def test_endless_and_hopeless_loops_end_within_the_limit(body: str) -> None:
    with pytest.raises(TooLongError, match=str(MOST_STEPS)):
        trace_of(body)


def test_hostile_counts_and_operands_end_quickly() -> None:
    deep = "".join(
        f"ld.global.u32 %r{n}, [%rd1];\nsetp.eq.s32 %p{n}, %r{n}, 0;\n@%p{n} bra l{n};\n" for n in range(400)
    )
    trace = trace_of(
        "ld.param.u64 %rd1, [data];" + deep + "".join(f"l{n}: add.s32 %r1, %r1, 1;\n" for n in range(399, -1, -1))
    )
    assert trace.steps < MOST_STEPS
    trace_of("mov.u64 %rd1, 99999999999999999999; shl.b64 %rd2, %rd1, 18446744073709551615; add.s64 %rd3, %rd2, %tid;")
    trace_of("div.s32 %r1, %r2, 0; rem.u32 %r1, 5, 0; mad.lo; setp.lt.s32 %p1; selp.b32 %r1, %r2; bra nowhere;")
