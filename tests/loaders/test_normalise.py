"""Normalised source: layouts that differ in nothing but style become one text, and the program stays the same."""

import ast

import pytest

from kbench.loaders.source.normalise import normalised
from kbench.loaders.source.python import tokens

LAYOUT = {"NL", "NEWLINE", "INDENT", "DEDENT", "COMMENT", "ENDMARKER"}
PLAIN = """\
import torch
def run(x, y):
    if x is not None:
        z = torch.add(
            x, y
        )
    return z
"""
STYLED = '''
# written by a model
import torch


def run(x,  y):
  """Adds."""

  if x is not None:
      z = torch.add(
          x, y
      )  # sum

  return \\
      z
'''
CUDA = '''\
from kbench.harness.cuda import CudaModule
module = CudaModule(r"""
#define N 4
extern "C" __global__ void add(float* x, int n) {
    if (threadIdx.x < n) {
        x[threadIdx.x] += 1.0f; printf("a  b");
    }
}
""")
'''
STYLED_CUDA = '''\
from kbench.harness.cuda import CudaModule
module = CudaModule(r"""

#define N   4
/* adds one */
extern "C" __global__ void add(float* x, int n) {
\tif (threadIdx.x < n)  {
\t\tx[threadIdx.x] += 1.0f; printf("a  b");   // here

\t}
}
""")
'''


@pytest.mark.parametrize(("plain", "styled"), [(PLAIN, STYLED), (CUDA, STYLED_CUDA)], ids=["python", "cuda"])
def test_two_layouts_of_one_program_are_one_text(plain: str, styled: str) -> None:
    assert normalised(styled) == normalised(plain) == plain
    names = [[piece.text for piece in tokens(text) if piece.kind not in LAYOUT] for text in (plain, normalised(plain))]
    assert names[0] == names[1]


def test_braces_of_a_format_string_count_once_and_other_strings_stay() -> None:
    source = 'n = 4\ncode = f"""\n__global__ void f() {{\n   int x = {n};\n}}\n"""\nnote = """a\n\n   b"""\n'
    shown = normalised(source)
    assert "    int x = {n};\n}}\n" in shown
    assert 'note = """a\n\n   b"""' in shown
    assert ast.parse(shown)


@pytest.mark.parametrize("source", ["def run(:\n\n\tx  # no\n", "__global__ void f() {\n\n  g( 1 );\n}\n", ""])
def test_text_that_does_not_parse_loses_its_blank_lines(source: str) -> None:
    assert "\n\n" not in normalised(source)
    assert "\t" not in normalised(source)
