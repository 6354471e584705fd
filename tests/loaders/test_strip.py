"""Comments and docstrings go; everything else stays, in Python and in the CUDA C++ inside its strings."""

import ast
import io
import textwrap
import tokenize

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kbench.loaders.source.cpp import strip_cpp
from kbench.loaders.source.cpp import tokens as cpp_tokens
from kbench.loaders.source.normalise import normalised
from kbench.loaders.source.strip import strip_comments
from kbench.loaders.source.structure import structure_id

LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_tokens(source: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [token.string for token in tokens if token.type not in LAYOUT]


def test_python_comments_go_and_marks_inside_strings_stay() -> None:
    source = 'x = "# no // no"  # yes\n# whole line\nurl = "http://a//b"\n'
    assert strip_comments(source) == 'x = "# no // no"\nurl = "http://a//b"\n'


def test_docstrings_go_and_an_emptied_body_holds_pass() -> None:
    source = (
        '"""Module."""\ndef f():\n    """Twice as fast."""  # really\n    return 1\nclass C:\n    """Only this."""\n'
    )
    assert strip_comments(source) == "def f():\n    return 1\nclass C:\n    pass\n"
    later = 'def f():\n    x = 1\n    """hint: 3x"""\n    f"hint"\n    return x\n'
    assert strip_comments(later) == "def f():\n    x = 1\n    return x\n"


@pytest.mark.parametrize(
    "statement", ['"a"; x = 1', 'x = 1; "a"', 'if x: "a"', 'def f(): "a"', 'try:\n  "a"\nfinally: "b"']
)
def test_a_string_statement_that_shares_its_line_leaves_a_source_that_parses(statement: str) -> None:
    stripped = strip_comments(statement + "\n")
    assert '"' not in stripped
    ast.parse(stripped)


def cuda(body: str) -> str:
    return f"from kbench.harness.cuda import CudaModule\nmodule = CudaModule(r'''{body}''')\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("int a; // gone\nint b;", "int a;\nint b;"),
        ("int a; /* gone */ int b;", "int a;  int b;"),
        ("int a;/**/int b;", "int a; int b;"),
        ("int a; // goes on \\\nhere\nint b;", "int a;\nint b;"),
        ('char* s = "// stays /* too */";', 'char* s = "// stays /* too */";'),
        ("char c = '\"'; // gone\nchar d = '/';", "char c = '\"';\nchar d = '/';"),
        ('auto s = R"x(// stays )" )x"; // gone\n', 'auto s = R"x(// stays )" )x";\n'),
        ("int n = 1'000'000; // gone\n", "int n = 1'000'000;\n"),
        ("#include <a//b.h> // gone\n", "#include <a//b.h>\n"),
        ("#define A \\\n  // gone\nint b;", "#define A \\\n\nint b;"),
        ("// whole line\nint a;", "int a;"),
        ("x = y /* a *//z;", "x = y /z;"),
        ("#error it's // gone\nint b;", "#error it's // gone\nint b;"),
        ("int a; // no newline", "int a;"),
        ("/* not closed\nint a;", "/* not closed\nint a;"),
    ],
)
def test_cuda_comments_inside_a_python_string(body: str, expected: str) -> None:
    assert strip_comments(cuda(body)) == cuda(expected)


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        (r'"__global__ void f() { // gone\n}"', r'"__global__ void f() {\n}"'),
        (r'"__global__ void f() { char* s = \"//\"; /* gone */ }"', r'"__global__ void f() { char* s = \"//\";  }"'),
        ('"__global__ // gone "\n  "and this\\n" "int a;"', '"__global__"\n  "\\n" "int a;"'),
        ('f"__global__ {name} // {gone}\\n {{"', 'f"__global__ {name}\\n {{"'),
        ('"__device__ int a; // gone" + tail', '"__device__ int a; //" + tail'),
        ("'''__device__ char a = '\"' // gone'''", "'''__device__ char a = '\"''''".replace("'\"''''", "'\"' '''")),
    ],
)
def test_cuda_comments_in_every_spelling_of_a_string(literal: str, expected: str) -> None:
    assert strip_comments(f"source = (\n  {literal}\n)\n") == f"source = (\n  {expected}\n)\n"


def test_a_string_without_cuda_marks_is_stripped_when_it_reaches_a_compiling_call() -> None:
    source = (
        'HELPER = r"""float sq(float x) { return x * x; } // gone\n"""\nOTHER = "a // b"\nmodule = CudaModule(HELPER)\n'
    )
    stripped = strip_comments(source)
    assert "gone" not in stripped
    assert "a // b" in stripped


def test_a_source_python_refuses_is_still_stripped() -> None:
    assert strip_comments("def f(:\n  # gone\n  y = '# stays'  # gone\n") == "def f(:\n  y = '# stays'\n"
    assert strip_comments("__global__ void f() { // gone\n}\n") == "__global__ void f() {\n}\n"


CPP_TOKENS = ["int", "x", "=", "1'000", '"//a"', "'\"'", "'/'", "+", ";", "{", "}", "/", "*", 'R"(/* " // )"',
              "#define", "\\\n"]  # fmt: skip
CPP_COMMENTS = ["// note\n", "/* note */", "/* a\n b */", "// x \\\n more\n", "/**/", "// it's \"\n", "/* // */"]
GAPS = [" ", "\n", "  \n\t", "\n\n"]


@st.composite
def commented_cpp(draw: st.DrawFn) -> tuple[list[str], str]:
    tokens = draw(st.lists(st.sampled_from(CPP_TOKENS), max_size=12))
    text = draw(st.sampled_from(["", " ", "\n"]))
    for token in tokens:
        gap = draw(st.lists(st.sampled_from(CPP_COMMENTS + GAPS), max_size=3))
        text += token + " " + "".join(gap)
    return tokens, text


@given(commented_cpp())
def test_stripped_cpp_has_the_same_tokens_and_no_comment(example: tuple[list[str], str]) -> None:
    tokens, text = example
    stripped = strip_cpp(text)
    assert "".join(stripped.split()) == "".join("".join(tokens).split())
    assert "note" not in stripped
    assert strip_cpp(stripped) == stripped


@given(commented_cpp(), st.sampled_from(["r'''", "'''", 'r"""', '"""', "f'''"]))
def test_stripping_inside_a_literal_is_stripping_its_value(example: tuple[list[str], str], opening: str) -> None:
    text = "__global__ " + example[1]
    value = text if "r" in opening else text.replace("\\", "\\\\")
    if "f" in opening:
        value = value.replace("{", "{{").replace("}", "}}")
    closing = opening.lstrip("rf")
    value = value.replace(closing, "") + " "
    source = f"s = {opening}{value}{closing}\n"
    before = ast.literal_eval(ast.parse(source).body[0].value) if "f" not in opening else None
    stripped = strip_comments(source)
    if before is not None:
        after = ast.literal_eval(ast.parse(stripped).body[0].value)
        assert after.split() == strip_cpp(before).split()
    else:
        ast.parse(stripped)


STATEMENTS = [
    "x = 1", "y = 'a # b'", "if x:\n    y = 2", "def f(a):\n    return a",
    "def g():\n    # inner\n    return (1,  # one\n        2)",
    "z = [\n    # nothing\n    1,\n]", "s = 'é'  # ü", "t = '''# a\n# b'''", "w = 1 + \\\n    2", "u = f'{x}#{y!r}'",
]  # fmt: skip
REMARKS = ["# remark", "    # indented remark", "#", "# 'quote", '# """']


@given(st.lists(st.sampled_from(STATEMENTS + REMARKS), max_size=10), st.booleans())
def test_stripped_python_parses_to_the_same_tree_and_tokens(lines: list[str], final_newline: bool) -> None:
    source = "\n".join(lines) + ("\n" if final_newline else "")
    stripped = strip_comments(source)
    assert ast.dump(ast.parse(stripped)) == ast.dump(ast.parse(source))
    assert code_tokens(stripped) == code_tokens(source)
    assert not any(t.type == tokenize.COMMENT for t in tokenize.generate_tokens(io.StringIO(stripped).readline))


@given(st.text(alphabet="'\"\\#/*\n abR{}()=:", max_size=40))
@example("a\\\n# b")
def test_stripping_any_text_never_fails(text: str) -> None:
    once = strip_comments(text)
    try:
        tree = ast.parse(text)
        tokens = code_tokens(text)
    except (SyntaxError, ValueError, tokenize.TokenError):
        # The tokenizer refuses a few texts that parse, such as a continued line before a final comment.
        return
    strings = [
        n for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant | ast.JoinedStr)
    ]
    if not strings:
        assert code_tokens(once) == tokens


TRITON = textwrap.dedent('''
    import triton
    import triton.language as tl

    @triton.jit
    def scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        """Doc."""
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # where
        tl.store(y_ptr + offsets, tl.exp(tl.load(x_ptr + offsets, mask=offsets < n)) * 2.0)
''')


@pytest.mark.parametrize(("old", "new"), [("scale", "other"), ("2.0", "4"), ("# where", ""), ("BLOCK", "WIDTH")])
def test_structure_ignores_comments_chosen_names_and_literals(old: str, new: str) -> None:
    assert structure_id(TRITON) == structure_id(TRITON.replace(old, new))


@pytest.mark.parametrize(("old", "new"), [("tl.exp", "tl.sin"), ("<", "<="), ("* 2.0", "+ 2.0")])
def test_structure_sees_what_is_computed(old: str, new: str) -> None:
    assert structure_id(TRITON) != structure_id(TRITON.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("scale", "other", True),
        ("2.0f", "3.0f", True),
        ("// c", "", True),
        ("expf", "sinf", False),
        ("+ 1", "- 1", False),
    ],
)
def test_structure_looks_into_cuda_strings(old: str, new: str, same: bool) -> None:
    source = cuda('extern "C" __global__ void scale(float* x) { // c\n x[threadIdx.x] = expf(2.0f) + 1; }')
    assert (structure_id(source) == structure_id(source.replace(old, new))) is same


def test_cpp_tokens_are_told_apart_and_comments_go() -> None:
    text = "{\n  #pragma unroll 4 \\\n  x\n  a = 1'000.5e-3f; /* gone */ s = R\"x(//)x\"; it's\n}"
    assert [(token.kind, token.text) for token in cpp_tokens(text)] == [
        ("mark", "{"), ("directive", "  #pragma unroll 4 \\\n  x"), ("name", "a"), ("mark", "="),
        ("number", "1'000.5e-3f"), ("mark", ";"), ("name", "s"), ("mark", "="), ("text", 'R"x(//)x"'), ("mark", ";"),
        ("name", "it"), ("text", "'s"), ("mark", "}"),
    ]  # fmt: skip
    assert all(text[token.start : token.end] == token.text for token in cpp_tokens(text))


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
