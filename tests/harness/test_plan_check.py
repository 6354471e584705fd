"""Plans and builds as data from outside: what is refused, with which words, and that nothing else gets through."""

import base64
import copy
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.benchmark.problems import problem
from kbench.benchmark.problems.inputs import ITEM_BYTES
from kbench.harness.device.target import H200, Target
from kbench.harness.plan.accept import MOST_VALUES, accept
from kbench.harness.plan.cache import Build
from kbench.harness.plan.check import MOST_BUFFERS, MOST_BYTES, MOST_CONFIGS, PlanError, plan_hash, read_plan
from kbench.harness.plan.planner import plan_kernel
from kbench.harness.plan.recorder import MOST_STEPS
from kbench.harness.plan.resources import Resources
from kbench.schemas import Backend, DataError, KernelSource, Status
from kbench.schemas.records.launch_plan import ArgumentKind, LaunchPlan, StepKind

TARGET = Target(9, 0)
MAPPED = """struct alignas(64) Map { char bytes[128]; };
extern "C" __global__ void mapped(const __grid_constant__ Map map, float* y, int n) {}"""
SOURCE = (
    (Path(__file__).parent / "kernels" / "gelu_cuda.py")
    .read_text()
    .replace(
        "    return y\n",
        "    module.launch('mapped', 1, 1, (TensorMap(x, (1, 8)), y.view(-1)[4:], 1), cluster=1)\n"
        "    torch.empty_like(y)[1].copy_(y[0].fill_(0))\n    return y\n",
    )
    .replace("import CudaModule", "import CudaModule, TensorMap")
    .replace('extern "C"', MAPPED + '\nextern "C"', 1)
)
KERNEL = KernelSource("gelu_tanh", Backend.CUDA, SOURCE)
DEFINITION = problem("gelu_tanh")
TINY = DEFINITION.tiny
BYTES = DEFINITION.outputs(TINY.params)[0].nbytes
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a planning process sends of an honest kernel with every kind of step and argument."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", "")
        found = plan_kernel(KERNEL, TARGET, H200, tmp_path_factory.mktemp("cache"))
    assert found.error is None
    message: dict[str, Any] = json.loads(json.dumps(found.message()))
    return message


@pytest.fixture
def message(sent: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(sent)


def accepted(message: Any) -> Build:
    return accept(message, "build", KERNEL, TARGET, 1.0)[0]


def read(plan: dict[str, Any]) -> LaunchPlan:
    return read_plan(plan, KERNEL, DEFINITION, TINY, TARGET.nvrtc, functions_of(plan))


def functions_of(plan: dict[str, Any]) -> dict[str, dict[str, Resources]]:
    """Machine code that has every function that a plan launches."""
    found: dict[str, dict[str, Resources]] = {}
    for step in plan["steps"]:
        if isinstance(step, dict) and isinstance(step.get("code"), str) and isinstance(step.get("function"), str):
            found.setdefault(step["code"], {})[step["function"]] = Resources(0, 0, 0)
    return found


def test_what_an_honest_kernel_sends_is_accepted_with_identities_of_our_own(message: dict[str, Any]) -> None:
    plan = message["plans"]["tiny"][0]
    plan |= {"plan_id": "0" * 64, "kernel_id": "f" * 64, "problem_id": "other", "workload": "large", "target": "sm_80"}
    made, cubins = accept(message, "build", KERNEL, TARGET, 1.0)
    assert (made.status, made.error) == ("ok", None)
    assert made.registers
    assert set(made.code) == set(cubins)
    found = made.plans["tiny"][0]
    assert (found["kernel_id"], found["workload"], found["target"]) == (KERNEL.kernel_id, "tiny", "sm_90a")
    assert found["plan_id"] == plan_hash(read(plan))


def changed(path: str, value: Any) -> Change:
    """Sets what lies at a path such as steps.0.offset."""

    def change(plan: dict[str, Any]) -> None:
        at: Any = plan
        *way, last = path.split(".")
        for part in way:
            at = at[int(part) if isinstance(at, list) else part]
        at[int(last) if isinstance(at, list) else last] = value

    return change


def again(name: str, count: int) -> Change:
    return lambda plan: plan[name].extend([plan[name][-1]] * count)


REFUSED: list[tuple[Change, str]] = [
    (changed("steps.1.arguments.1.offset", BYTES + 1), "ends at byte"),
    (changed("steps.1.arguments.1.offset", -1), "offset"),
    (changed("steps.1.arguments.1.buffer", 9), "names buffer 9"),
    (changed("steps.1.arguments.0.tensor_map", None), "no tensor of one to five"),
    (changed("steps.1.arguments.0.tensor_map.extents", [1] * 6), "no tensor of one to five"),
    (changed("steps.1.arguments.0.tensor_map.strides", []), "0 strides for 2 extents"),
    (changed("steps.0.arguments.2.data", "abc"), "data"),
    (changed("steps.0.arguments.2.data", ""), "it must have 1 to 4096"),
    (changed("steps.0.arguments.2.data", "00" * 4097), "it must have 1 to 4096"),
    (changed("steps.0.arguments.2.kind", "code"), "kind"),
    (changed("steps.0.arguments", [{"kind": "pointer"}] * 1025), "1025 arguments"),
    (changed("steps.0.code", "0" * 64), "no such machine code"),
    (changed("steps.0.function", ""), "it must be a symbol"),
    (changed("steps.0.function", "a\nb"), "it must be a symbol"),
    (changed("steps.0.function", "f" * 4096), "it must be a symbol"),
    (changed("steps.0.grid", [0, 1, 1]), "launches a grid of"),
    (changed("steps.0.grid", [1, 65_536, 1]), "launches a grid of"),
    (changed("steps.0.grid", [1, 1]), "launches a grid of"),
    (changed("steps.0.block", [1025, 1, 1]), "launches blocks of"),
    (changed("steps.0.block", [0, 1, 1]), "launches blocks of"),
    (changed("steps.0.shared_bytes", 1 << 30), "shared bytes"),
    (changed("steps.0.cluster", [17, 1, 1]), "launches clusters of"),
    (changed("steps.0.grid", "abc"), "grid"),
    (changed("steps.0.grid", [1.5, 1, 1]), "grid"),
    (changed("steps.0.grid", [float("nan"), 1, 1]), "grid"),
    (changed("steps.0.grid", [True, 1, 1]), "grid"),
    (changed("steps.2.offset", BYTES), "ends at byte"),
    (changed("steps.2.nbytes", BYTES + 4), "ends at byte"),
    (changed("steps.2.nbytes", None), "nbytes is missing"),
    (changed("steps.2.nbytes", 3), "divide them"),
    (changed("steps.2.offset", 2), "divide them"),
    (changed("steps.2.pattern", "000000"), "it must be 1, 2, 4 or 8"),
    (changed("steps.2.pattern", "zz"), "pattern"),
    (changed("steps.3.source_offset", BYTES), "ends at byte"),
    (changed("steps.3.source", None), "names buffer None"),
    (changed("steps.3.surprise", 1), "surprise"),
    (changed("surprise", 1), "surprise"),
    (changed("buffers.0.nbytes", BYTES + 4), "they must be"),
    (changed("buffers.0.input", None), "they must be"),
    (changed("buffers.1.input", 0), "they must be"),
    (changed("buffers.0.input", 1), "they must be"),
    (lambda plan: plan["buffers"].append({"nbytes": 1 << 40, "input": 0}), "they must be"),
    (changed("buffers.1.nbytes", MOST_BYTES), "at most"),
    (changed("buffers.1.nbytes", "many"), "nbytes"),
    (again("buffers", MOST_BUFFERS), "buffers"),
    (again("steps", MOST_STEPS), "at most"),
    (again("outputs", 1), "returned 2 outputs, expected 1"),
    (changed("outputs", []), "returned 0 outputs, expected 1"),
    (changed("outputs.0.buffer", 0), "lies in the memory of an input"),
    (changed("outputs.0.buffer", 7), "names buffer 7"),
    (changed("outputs.0.offset", 4), "ends at byte"),
    (changed("outputs.0.dtype", "float16"), "expected float32"),
    (changed("outputs.0.shape", [1]), "expected float32"),
    (changed("outputs", None), "outputs"),
    (lambda plan: plan.pop("steps"), "steps"),
]


@pytest.mark.parametrize(("change", "words"), REFUSED)
def test_a_plan_with_one_thing_wrong_is_refused_by_its_name(
    change: Change, words: str, message: dict[str, Any]
) -> None:
    change(message["plans"]["tiny"][0])
    made = accepted(message)
    assert made.status != Status.OK
    assert words in (made.error or ""), made.error
    assert not made.plans


def test_an_output_that_begins_between_elements_or_on_another_is_refused() -> None:
    definition = problem("cross_entropy_fwd_bwd")
    specs = definition.outputs(definition.tiny.params)
    kernel = KernelSource(definition.id, Backend.CUDA, "")
    inputs = [
        {"nbytes": spec.nbytes, "input": at}  # type: ignore[union-attr]
        for at, spec in enumerate(definition.inputs(definition.tiny.params))
    ]
    room = sum(spec.nbytes for spec in specs)

    def placed(*offsets: int) -> LaunchPlan:
        outputs = [
            {"buffer": len(inputs), "offset": offset, "dtype": spec.dtype, "shape": list(spec.shape)}
            for offset, spec in zip(offsets, specs, strict=True)
        ]
        fields = {"plan_id": "0" * 64, "kernel_id": "0" * 64, "problem_id": "p", "workload": "w", "target": "t"}
        data = fields | {"choice": None, "buffers": [*inputs, {"nbytes": room + 8}], "steps": [], "outputs": outputs}
        return read_plan(data, kernel, definition, definition.tiny, "sm_90a", {})

    assert placed(0, specs[0].nbytes).outputs[1].offset == specs[0].nbytes
    with pytest.raises(PlanError, match="two outputs share memory"):
        placed(0, specs[0].nbytes - ITEM_BYTES[specs[1].dtype])
    with pytest.raises(DataError, match="which is no element"):
        placed(1, specs[0].nbytes + 8)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m["plans"].pop("tiny"), "KeyError: 'tiny'"),
        (lambda m: m["plans"].update(tiny=[]), "has 0 plans"),
        (lambda m: m["plans"].update(tiny=m["plans"]["tiny"] * (MOST_CONFIGS + 1)), f"1 to {MOST_CONFIGS}"),
        (lambda m: m.update(plans=[]), "TypeError"),
        (lambda m: m["plans"].update(tiny=["x"]), "left no valid plan"),
        (lambda m: m.update(cubins=[]), "no such machine code"),
        (lambda m: m.update(cubins=["???"]), "no base64"),
        (lambda m: m.update(cubins=[7]), "TypeError"),
        (lambda m: m["cubins"].append(base64.b64encode(b"MZ" * 99).decode()), "expected a 64-bit ELF file"),
        (lambda m: m["cubins"].append(base64.b64encode(b"\x7fELF\x02").decode()), "left no valid plan"),
        (lambda m: m.pop("error"), "KeyError: 'error'"),
        (lambda m: m["plans"].update(more=[[0] * MOST_VALUES]), f"more than {MOST_VALUES} values"),
        (lambda m: m.update(error="because", status="ok"), "status is ok"),
        (lambda m: m.update(error="because", status="timeout"), "status is timeout"),
        (lambda m: m.update(error="because", status="infrastructure_error"), "infrastructure_error"),
        (lambda m: m.update(error="because", status=["ok"]), "left no valid plan"),
    ],
)
def test_a_message_with_one_thing_wrong_is_rejected_by_its_name(
    change: Change, words: str, message: dict[str, Any]
) -> None:
    change(message)
    made = accepted(message)
    assert made.status == Status.REJECTED
    assert words in (made.error or ""), made.error
    assert not made.unplannable


@pytest.mark.parametrize(
    ("told", "kept"), [("why" * 2000, ("why" * 2000)[:2000]), ("cannot say \ud800", "cannot say ?")], ids=len
)
def test_a_failure_is_taken_as_told_but_never_as_a_success(told: str, kept: str, message: dict[str, Any]) -> None:
    made = accepted(message | {"error": told, "status": "compile_error", "unplannable": False})
    assert (made.status, made.error, made.plans, made.code) == ("compile_error", kept, {}, ())


def deep(levels: int) -> list[Any]:
    nested: list[Any] = []
    for _ in range(levels):
        nested = [nested]
    return nested


@pytest.mark.parametrize("value", [deep(900), deep(100_000)], ids=["deep", "very deep"])
def test_deep_nesting_is_data_like_any_other(value: list[Any], message: dict[str, Any]) -> None:
    message["plans"]["tiny"][0]["buffers"] = value
    assert accepted(message).status == Status.REJECTED
    # Taken apart from the outside: freeing it at once would recurse as deep.
    while value:
        value = value.pop()


def test_sections_that_are_said_to_be_larger_than_the_file_are_not_read(message: dict[str, Any]) -> None:
    cubin = bytearray(base64.b64decode(message["cubins"][0]))
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    count = struct.unpack_from("<H", cubin, 0x3C)[0]
    for at in range(1, count):
        struct.pack_into("<I", cubin, table + 64 * at + 4, 1)
        struct.pack_into("<QQ", cubin, table + 64 * at + 24, 0, len(cubin))
    message["cubins"].append(base64.b64encode(cubin).decode())
    assert "sections of far more than its" in (accepted(message).error or "")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from([0, 1, 2, BYTES]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All paths below a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [found for key, inner in items for found in places(inner, (*path, key))]


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_no_mutation_of_a_plan_passes_with_an_access_out_of_range(data: st.DataObject, sent: dict[str, Any]) -> None:
    plan = copy.deepcopy(sent["plans"]["tiny"][0])
    for _ in range(data.draw(st.integers(1, 3))):
        *way, last = data.draw(st.sampled_from(places(plan)))
        at: Any = plan
        for part in way:
            at = at[part]
        how = data.draw(st.sampled_from(["set", "near", "delete", "repeat"]))
        if how == "near" and type(at[last]) is int:
            at[last] += data.draw(st.integers(-9, 9))
        elif how == "delete":
            del at[last]
        elif how == "repeat" and isinstance(at, list):
            at.insert(0, at[last])
        else:
            at[last] = data.draw(JSON)
    try:
        found = read_plan(plan, KERNEL, DEFINITION, TINY, TARGET.nvrtc, functions_of(sent["plans"]["tiny"][0]))
    except (DataError, PlanError):
        return
    check_ranges(found)


def check_ranges(plan: LaunchPlan) -> None:
    """That nothing a plan reads or writes lies outside its memory."""
    room = [buffer.nbytes for buffer in plan.buffers]
    assert [buffer.nbytes for buffer in plan.buffers if buffer.input is not None] == [BYTES]
    for step in plan.steps:
        if step.kind is StepKind.LAUNCH:
            for argument in step.arguments or ():
                if argument.kind is not ArgumentKind.VALUE and argument.buffer is not None:
                    assert 0 <= (argument.offset or 0) <= room[argument.buffer]
            continue
        assert 0 <= step.offset <= step.offset + step.nbytes <= room[step.buffer]
        if step.kind is StepKind.COPY:
            assert 0 <= step.source_offset <= step.source_offset + step.nbytes <= room[step.source]
        else:
            assert step.nbytes % len(bytes.fromhex(step.pattern or "")) == 0
    (output,) = plan.outputs
    assert plan.buffers[output.buffer].input is None
    assert output.offset + BYTES <= room[output.buffer]


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_mutation_of_a_message_or_its_machine_code_raises(data: st.DataObject, sent: dict[str, Any]) -> None:
    message = copy.deepcopy(sent)
    if data.draw(st.booleans()):
        cubin = bytearray(base64.b64decode(message["cubins"][0]))
        (table,) = struct.unpack_from("<Q", cubin, 0x28)
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(4, 63) | st.integers(table, len(cubin) - 1))
            cubin[at] = data.draw(st.integers(0, 255))
        message["cubins"].append(base64.b64encode(cubin[: data.draw(st.integers(0, len(cubin)))]).decode())
    else:
        message[data.draw(st.sampled_from(sorted(message)))] = data.draw(JSON)
    made = accepted(message)
    assert made.status in {status.value for status in Status}
    assert made.status == Status.OK or not made.plans


RELU = """
import ctypes
import torch
from kbench.harness.cuda import CudaModule

module = CudaModule('extern "C" __global__ void relu(const float* x, float* y, int n) '
                    '{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] > 0.f ? x[i] : 0.f; }')


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("relu", grid=(n + 255) // 256, block=256, args=(ARGS))
    return y
"""


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("x, y, n", None),
        ("x, y, ctypes.c_int(n)", None),
        ("", "relu takes 3 parameters (8, 8 and 4 bytes), args has 0"),
        ("x, y, n, n", "relu takes 3 parameters (8, 8 and 4 bytes), args has 4"),
        ("x, 1.0, n", "relu: args[1] is a number of 4 bytes, and its parameter has 8 bytes"),
        ("n, x, y", "relu: args[2] is a tensor's address of 8 bytes, and its parameter has 4 bytes"),
    ],
)
def test_launch_arguments_must_fit_the_function_s_parameters(arguments: str, why: str | None, tmp_path: Path) -> None:
    kernel = KernelSource("relu", Backend.CUDA, RELU.replace("ARGS", arguments))
    sent = plan_kernel(kernel, TARGET, H200, tmp_path).message()
    made = accept(sent, "build", kernel, TARGET, 1.0)[0]
    assert (made.status, made.error) == (("ok", None) if why is None else ("launch_error", why))
