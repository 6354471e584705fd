"""Whatever a source says, `static` reads it in little time, without an exception, and finds finite numbers."""

import json
import random
import time

import numpy as np
import pytest

from kbench.benchmark.surrogates.static.kernel_rows import UNKNOWN, launch_row, run_of
from kbench.benchmark.surrogates.static.reader import parsed
from kbench.benchmark.surrogates.static.source import MOST_TEXT, fixed_row, names_in, settings_of

WORK = json.dumps([{"inputs": ["x: float32[8,16]"]}] * 4)
MOST_SECONDS = 0.2
LOOPS = "for i in range(64):\n    for j in range(64):\n        "
LAUNCH = "\ndef run(x):\n    k[(1,)](x)\n"
KERNEL = '''
import torch, triton
from kbench.harness.cuda import CudaModule
BLOCK = 128
module = CudaModule(r"""
#define THREADS 256
extern "C" __global__ void __launch_bounds__(256, 2) f(float* x) {
    __shared__ float tile[THREADS][33];
    #pragma unroll 4
    for (int i = 0; i < 4; ++i) tile[threadIdx.x][i] = x[i] * 1e-5f;
}
""")

def run(x, y):
    rows, columns = x.shape
    out = torch.empty((rows, columns), dtype=x.dtype, device=x.device)
    flat = out.view(-1, 4)
    span = 1
    while span < rows:
        module.launch("f", grid=min(2 * 132, triton.cdiv(x.numel(), BLOCK)), block=256, args=(x, out))
        span *= 2
    for step in range(3):
        if step % 2 == 0:
            continue
        k[(flat.shape[0], step + 1)](x, out, rows if x.is_cuda else -1, num_warps=8)
    return out
'''
WORDS = r"""
( ) [ ] { } = \ ' " # ** << : ~ + - ² ١ 1e+5 e- unroll( __shared__ *x.shape x.view(-1,1e-320) 10**10**8 1<<10**9
1e999 1//0 min() (yield) x@x 1<2<3 a:=3 132* #define 1if lambda 9999999999999999999 _0 x.size(9)
"""
BLANKS = (" ", "\n", "\r", "\f", "    ", "\0", "\ud800", "\udfff")
SPLICES = (*names_in(WORDS), *BLANKS, "while 1: ", "for i in range(99): ", "9" * 400, '"' * 3, "'a' * 10**9")


def run(body: str) -> str:
    return "\ndef run(x):\n" + "".join(f"    {line}\n" for line in body.splitlines())


HOSTILE = {
    "wide tuples": run(LOOPS + "y = (" + "1," * 5000 + ")\nk[(1,)](x)"),
    "sums": run(LOOPS + "y = " + "+".join(["i"] * 60) + "\nk[(1,)](x)"),
    "targets": run(LOOPS + "a=" * 3000 + "1\nk[(1,)](x)"),
    "nested targets": run("(" * 150 + "a" + ",)" * 150 + " = 1\nk[(1,)](x)"),
    "arguments": run(LOOPS + "m.min(" + "1," * 5000 + ")\nk[(1,)](x)"),
    "loops": run("while 1:\n    while 1:\n        while 1: pass\nk[(1,)](x)"),
    "powers": run("k[(10**10**8, 1 << 10**9, 'a'*10**9, [0]*10**9)](x)"),
    "tiny views": run("y = x.view(-1, 1e-320)\nk[(y.shape[0],)](x)"),
    "deep sums": run("y = " + "1 + " * 20000 + "1"),
    "deep signs": run("y = " + "-" * 1900 + "1\nk[(1,)](x)"),
    "deep brackets": run("y = " + "f(" * 150 + "1 1" + ")" * 150),
    "long numbers": run("y = " + "9" * 5000),
    "long unroll": "unroll(" + "9" * 5000 + ")\n" + LAUNCH,
    "long bounds": "__launch_bounds__(" + "9" * 5000 + ", 1)\n__launch_bounds__(128, " + "9" * 400 + ")\n" + LAUNCH,
    "many shared": "__shared__ " * 11000 + LAUNCH,
    "shared brackets": "__shared__ " + "a[1" * 40000 + ";" + LAUNCH,
    "shared product": "__shared__ float a[" + "*".join(["9999999"] * 14000) + "];" + LAUNCH,
    "blanks after unroll": "unroll" + " " * 120000 + "x" + LAUNCH,
    "settings": "".join(f"A{at} = 1\n" for at in range(12000)) + LAUNCH,
    "long text": "x = 1\n" * 200000 + LAUNCH,
    "escapes": run("y = '\\d'\nz = '\\\n'\nk[(1,)](x)"),
}


def read(source: str) -> float:
    """CPU seconds it takes."""
    for cached in (settings_of, fixed_row, launch_row, parsed):
        cached.cache_clear()
    started = time.process_time()
    rows = (*fixed_row(source), *launch_row(*run_of(source), WORK, 132))
    spent = time.process_time() - started
    assert np.isfinite(rows).all()
    return spent


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_source_is_read_in_little_time(name: str) -> None:
    assert min(read(HOSTILE[name]) for _ in range(2)) < MOST_SECONDS


def test_three_hundred_mutations_of_a_kernel_are_read_without_an_exception() -> None:
    chance = random.Random(20)
    work = json.dumps([{"inputs": ["x: float32[8,16]", "y: 4"]}])
    understood = 0
    for _ in range(300):
        text = list(KERNEL)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(text))
            end = at + chance.randint(0, 30)
            text[at:end] = chance.choice(
                ([], [*chance.choice(SPLICES)], text[at:end] * 5, chance.sample(text[at:end], len(text[at:end])))
            )
        source = "".join(text)
        rows = (*fixed_row(source), *launch_row(*run_of(source), work, 132))
        assert np.isfinite(rows).all(), source
        understood += rows[-len(UNKNOWN) :] != UNKNOWN
    assert 0 < understood < 300


def test_a_text_that_is_too_long_is_read_up_to_a_fixed_length_and_its_launches_are_unknown() -> None:
    long = "A = 1\n" * MOST_TEXT + LAUNCH
    assert fixed_row(long).tobytes() == fixed_row(long[:MOST_TEXT]).tobytes()
    assert launch_row(*run_of(long), WORK, 132) == UNKNOWN


def test_the_depth_that_is_followed_does_not_depend_on_the_callers_stack() -> None:
    def deeper(levels: int, source: str) -> tuple[float, ...]:
        if levels:
            return deeper(levels - 1, source)
        launch_row.cache_clear()
        parsed.cache_clear()
        return launch_row(*run_of(source), WORK, 132)

    for terms in (20, 55, 70, 900, 3000):
        source = run("k[(" + "1 + " * terms + "1,)](x)")
        assert deeper(0, source) == deeper(300, source)
