"""Reading PTX."""

import time

import pytest

from kbench.benchmark.work.ptx import MOST_CHARACTERS, MOST_INSTRUCTIONS, PtxError, read_functions

TEXT = """
.version 9.0
.target sm_90a
.extern .shared .align 16 .b8 dynamic[];
.global .align 4 .b8 table[4] = {1, 2, 3, 4};
.func (.param .b32 out) helper(.param .b32 in) { ret; }
.visible .entry scale(
    .param .u64 .ptr .global .align 1 scale_param_0, // a comment; with { marks
    .param .align 8 .b8 scale_param_1[24]
)
.maxntid 128
{
    .reg .pred %p<3>;
    .shared .align 4 .b8 tile[100];
    .shared .align 8 .f64 total[2];
    .loc 1 12 5
$L__BB0_1:
    @!%p1 ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1+16];
    { .reg .b32 t; mov.b32 t, %r1; }
    { .reg .b32 t; mov.b32 t, %r2; }
    ret;
}
"""


def test_functions_have_parameters_instructions_labels_and_shared_variables() -> None:
    functions = read_functions(TEXT)
    scale = functions["scale"]
    assert set(functions) == {"helper", "scale"}
    assert scale.parameters == (("scale_param_0", 8), ("scale_param_1", 24))
    assert scale.shared == {"tile": 0, "total": 104, "dynamic": 128}
    assert scale.labels == {"$L__BB0_1": 0}
    load = scale.code[0]
    assert (load.name, load.type, load.nbytes, load.guard, load.negated, load.line) == (
        "ld",
        "b32",
        16,
        "%p1",
        True,
        12,
    )
    assert load.writes == ("%r1", "%r2", "%r3", "%r4")
    assert [one.name for one in scale.code] == ["ld", "mov", "mov", "ret"]
    assert scale.code[1].writes != scale.code[2].writes, "registers of scopes are different ones"


def test_inlined_and_assembled_code_stands_at_the_line_that_holds_it() -> None:
    (function,) = read_functions("""
        .entry f() {
        .loc 1 7 0
        mov.b32 %r1, 1;
        .loc 2 90 4, function_name $a, inlined_at 1 9 3
        .loc 1 9 3
        .loc 2 90 4, function_name $a, inlined_at 1 9 3
        add.s32 %r2, %r1, 1;
        .loc 2 50 4, function_name $b, inlined_at 2 90 4
        add.s32 %r3, %r1, 1;
        .loc 1 3 4, function_name $c, inlined_at 1 9 3
        add.s32 %r4, %r1, 1;
        .loc 1 12 1
        // begin inline asm
        mov.u32 %r5, %r6;
        .loc 1 13 1
        ld.global.b32 %r7, [%rd1];
        // end inline asm
        ret; }
    """).values()
    assert [one.line for one in function.code] == [7, 9, 9, 3, 12, 12, 12]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x" * (MOST_CHARACTERS + 1), "characters"),
        (".entry f() {" + "{" * 1000, None),
        (".entry f() {" + "{" * 1000 + "}" * 1001, "nest"),
        (".shared .b8 a[" + "9" * 5000 + "];", "digits"),
        (".entry f() {" + "ret;" * (MOST_INSTRUCTIONS + 1) + "}", "instructions"),
        ("/* a" * 200_000, None),
        (".func (" * 200_000, None),
        (".entry f() { mov " + "{a}" * 200_000 + ";}", None),
        (".entry f() {" + "add a, b " * 200_000 + "}", None),
    ],
)
def test_hostile_text_is_read_or_refused_in_linear_time(text: str, message: str | None) -> None:
    start = time.process_time()
    if message is None:
        read_functions(text)
    else:
        with pytest.raises(PtxError, match=message):
            read_functions(text)
    assert time.process_time() - start < 5
