"""Replay on a driver made of host memory: calls are prepared, places rotate, arguments and fills have their bytes."""

import ctypes
import dataclasses
import itertools
import json
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
import torch

from kbench.benchmark.problems import problem
from kbench.harness.bench.context import SETS, Buffers
from kbench.harness.bench.reference_inputs import Drawing, ReferenceInputs
from kbench.harness.cuda import CudaModule
from kbench.harness.device.device import POISON_BYTE, Device
from kbench.harness.device.driver import DriverError, Launch, LaunchShape, Parameters
from kbench.harness.device.kernels.keyed import WORD, pad
from kbench.harness.device.kernels.same_bytes import same_bytes
from kbench.harness.device.kernels.scrub import LOCAL_BYTES, Region
from kbench.harness.plan import loaded_code, replay
from kbench.harness.plan.loaded_code import FEW_VARIABLES, LoadedCode
from kbench.harness.plan.planner import make_plan
from kbench.harness.plan.replay import LOUD_BYTES, MOST_CALLS, PLACES, WHERE, Replay, argument_bytes, some_byte
from kbench.harness.plan.resources import read_variables
from kbench.schemas.records.launch_plan import ArgumentKind as Kind
from kbench.schemas.records.launch_plan import LaunchPlan, PlanBuffer, PlanOutput, PlanStep, StepKind, TensorMapSpec
from kbench.schemas.records.launch_plan import PlanArgument as Argument

STREAM, SHA = 7, "c" * 64
DEFINITION = problem("relu")
SPEC = DEFINITION.outputs(DEFINITION.tiny.params)[0]


class HostDriver:
    """Carries out the driver's calls on host memory at once, and remembers them."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.variables: dict[str, ctypes.Array[ctypes.c_char]] = {}
        self.local_bytes = 0
        self.run: Callable[[LaunchShape, Sequence[int]], None] = lambda shape, arguments: None

    def call(self, name: str, *arguments: Any) -> Any:
        self.calls.append(name)
        if name.startswith("cuMemcpy"):
            ctypes.memmove(arguments[0], arguments[1], arguments[2])
        elif name == "cuModuleGetGlobal":
            if arguments[1].decode() not in self.variables:
                raise DriverError("cuModuleGetGlobal: CUDA_ERROR_NOT_FOUND")
            memory = self.variables[arguments[1].decode()]
            return ctypes.addressof(memory), len(memory)
        return None


class HostFunction:
    """A function of three parameters, of 8, 8 and 4 bytes."""

    driver: HostDriver
    parameter_bytes = (8, 8, 4)

    def __init__(self, module: Any, name: str) -> None:
        if name == "missing":
            raise DriverError("cuModuleGetFunction: CUDA_ERROR_NOT_FOUND")
        self.name = name

    def attribute(self, name: str) -> int:
        return {"LOCAL_SIZE_BYTES": self.driver.local_bytes}[name]


class HostLaunch:
    """Runs the test's own function."""

    def __init__(self, function: HostFunction, shape: LaunchShape, parameters: Parameters, stream: int) -> None:
        assert stream == STREAM
        self._driver, self._shape, self._parameters = function.driver, shape, parameters

    def queue(self) -> None:
        self._driver.calls.append("launch")
        self._driver.run(self._shape, struct.unpack("<3Q", self._parameters._memory.raw))

    on = Launch.on


class HostDevice(Device):
    """What a replay needs of a device."""

    torch_name, stream, fenced = "cpu", STREAM, False

    def __init__(self, driver: HostDriver) -> None:
        self.scrubber, self._driver = self, driver
        self.scrubbed: list[int] = []
        self.tables: set[int] = set()

    def copying(self, table: int, rows: int) -> Callable[[], None]:
        self.tables.add(table)

        def copy() -> None:
            self._driver.calls.append("copy rows")
            words = (ctypes.c_uint64 * (3 * rows)).from_address(table)
            for at in range(0, 3 * rows, 3):
                ctypes.memmove(words[at], words[at + 1], words[at + 2])

        return copy

    def filling(self, address: int, nbytes: int, pattern: bytes) -> Callable[[], None]:
        def write() -> None:
            self._driver.calls.append("fill")
            ctypes.memmove(address, pattern * (nbytes // len(pattern)), nbytes)

        return write

    def watching(self, parts: Sequence[Region]) -> bytes:
        return json.dumps(parts).encode()

    def overwriting(self, regions: Sequence[Region], local_bytes: int) -> Callable[[bytes, int], None]:
        def overwrite(watched: bytes, byte: int) -> None:
            self._driver.calls.append("scrub")
            if watched.strip(b"\0"):
                parts, (nonce, place) = json.loads(watched[:-16]), WHERE.unpack(watched[-16:])
                whole = b"".join(ctypes.string_at(*part) for part in parts)
                ctypes.c_uint64.from_address(place).value += zlib.crc32(whole) + pad(nonce, place, WORD)
            self.scrubbed.append(local_bytes)
            for address, nbytes in regions:
                ctypes.memset(address, byte, nbytes)

        return overwrite


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> HostDriver:
    made, empty = HostDriver(), torch.empty
    monkeypatch.setattr(HostFunction, "driver", made, raising=False)
    for module in (loaded_code, replay):
        monkeypatch.setattr(module, "bound", lambda name, *arguments: lambda: made.call(name, *arguments))
        monkeypatch.setattr(module, "pointer", int)
        monkeypatch.setattr(module, "stream_handle", int)
    monkeypatch.setattr(loaded_code, "call", made.call)
    monkeypatch.setattr(loaded_code, "Function", HostFunction)
    monkeypatch.setattr(replay, "Launch", HostLaunch)
    monkeypatch.setattr(replay, "tensor_map", lambda spec, address: POINTER.pack(address) + b"map")
    monkeypatch.setattr(torch, "empty", lambda *args, **kwargs: empty(*args, **(kwargs | {"device": "cpu"})))
    return made


POINTER = struct.Struct("<Q")


def overwritten(memory: Iterable[torch.Tensor]) -> set[int]:
    """The bytes that memory holds."""
    return {int(byte) for tensor in memory for byte in tensor.unique()}


def untouched(subject: Replay) -> bool:
    """Whether what must be true of memory after a call is true."""
    claims = [claim for _, claim in subject.claims()]
    assert claims
    return all(bool(flag) for flag in same_bytes(claims))


def relu_plan(*before: PlanStep, function: str = "relu", arguments: int = 3) -> LaunchPlan:
    """One input, an output of the same size sixteen bytes into its buffer, and some scratch memory."""
    given = (
        Argument(kind=Kind.POINTER, buffer=0, offset=0),
        Argument(kind=Kind.POINTER, buffer=1, offset=16),
        Argument(kind=Kind.VALUE, data="05000000"),
    )
    launch = PlanStep(
        kind=StepKind.LAUNCH,
        code=SHA,
        function=function,
        grid=(2, 1, 1),
        block=(32, 1, 1),
        cooperative=True,
        shared_bytes=3,
        prefer_shared=True,
        arguments=given[:arguments],
    )
    return make_plan(
        kernel_id="k",
        problem_id="relu",
        workload="tiny",
        target="sm_90a",
        choice=None,
        buffers=(PlanBuffer(nbytes=SPEC.nbytes, input=0), PlanBuffer(nbytes=SPEC.nbytes + 16), PlanBuffer(nbytes=24)),
        steps=(*before, launch),
        outputs=(PlanOutput(buffer=1, offset=16, dtype="float32", shape=SPEC.shape),),
    )


def sets(count: int = 2) -> list[Buffers]:
    reference = ReferenceInputs(DEFINITION, DEFINITION.tiny, Drawing(1), "cpu")
    made = [Buffers(reference.inputs) for _ in range(count)]
    for buffers in made:
        buffers.fill(reference)
    return made


def computes(shape: LaunchShape, arguments: Sequence[int]) -> None:
    """A ReLU of whatever lies at the first address, written to the second."""
    source, target, _ = arguments
    values = (ctypes.c_float * SPEC.numel).from_address(source)
    (ctypes.c_float * SPEC.numel).from_address(target)[:] = [max(value, 0.0) for value in values]


def ready(driver: HostDriver, plan: LaunchPlan, given: list[Buffers]) -> tuple[Replay, HostDevice]:
    device = HostDevice(driver)
    made = Replay(plan, LoadedCode({SHA: cubin("")}), given, device)  # type: ignore[arg-type]
    driver.calls.clear()
    return made, device


CUBINS: dict[str, bytes] = {}
USES_BOTH = 'extern "C" __global__ void uses(int* y) { one += *y; two += *y; }'


def called(subject: Replay, set_number: int = 0) -> Any:
    """What a prepared call returns."""
    subject.prepare(set_number)
    return subject.call(set_number)


def cubin(variables: str) -> bytes:
    if variables not in CUBINS:
        module = CudaModule(variables + 'extern "C" __global__ void relu(int* y) { *y = 1; }')
        CUBINS[variables] = bytes(module.compile("sm_90a").code)
    return CUBINS[variables]


def test_a_call_carries_out_the_plan_on_memory_of_the_harness(driver: HostDriver) -> None:
    seen: list[LaunchShape] = []

    def run(shape: LaunchShape, arguments: Sequence[int]) -> None:
        seen.append(shape)
        assert arguments[2] == 5
        computes(shape, arguments)

    driver.run = run
    given = sets()
    subject, _ = ready(driver, relu_plan(), given)
    assert subject.owned
    (y,) = called(subject, 1)
    assert torch.equal(y, torch.relu(given[1].inputs[0]))
    assert seen == [LaunchShape((2, 1, 1), (32, 1, 1), 3, None, cooperative=True, prefer_shared=True)]
    assert untouched(subject)


def test_before_a_call_memory_on_the_chip_is_overwritten_too(driver: HostDriver) -> None:
    driver.local_bytes = 640
    subject, device = ready(driver, relu_plan(), sets())
    device.scrubbed.clear()
    subject.prepare(0)
    assert driver.calls == ["scrub"]
    assert device.scrubbed == [640]


def test_memory_holds_another_byte_from_call_to_call_or_poison_where_that_is_wanted(driver: HostDriver) -> None:
    subject, _ = ready(driver, relu_plan(), sets())
    seen: dict[bool, set[int]] = {False: set(), True: set()}
    for at in range(60):
        poison = at % 2 == 0
        subject.prepare(0, poison=poison)
        seen[poison] |= overwritten(subject.places[subject._next].memory.values())
        subject.call(0)
        assert untouched(subject)
    assert seen[True] == {POISON_BYTE}
    assert len(seen[False]) > 10
    assert seen[False] & set(LOUD_BYTES)


def test_most_bytes_are_loud_and_none_can_be_relied_on() -> None:
    drawn = Counter(some_byte() for _ in range(20_000))
    assert len(drawn) == 256
    assert 0.7 < sum(drawn[byte] for byte in LOUD_BYTES) / drawn.total() < 0.9


def test_no_zeros_show_how_many_calls_there_were(driver: HostDriver) -> None:
    driver.run = computes
    subject, _ = ready(driver, relu_plan(), sets())
    for _ in range(3):
        for set_number in range(SETS):
            called(subject, set_number)
        assert len(subject.fingerprints()) == SETS
        assert len(set(subject._fingerprints._values.tolist())) == MOST_CALLS


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_what_memory_is_overwritten_with_is_a_large_number_or_none(kind: torch.dtype) -> None:
    numbers = torch.tensor([[byte] * 8 for byte in LOUD_BYTES], dtype=torch.uint8).view(kind).double()
    assert bool((numbers.isnan() | (numbers.abs() > 500.0)).all())
    assert POISON_BYTE in LOUD_BYTES


def check_that_nothing_is_left(driver: HostDriver, subject: Replay, *, everywhere: bool) -> None:
    """Before every call all memory holds one byte, whether or not a call wrote into the places of others too."""
    driver.run = computes
    for at in range(2 * PLACES):
        subject.prepare(at % SETS)
        memory = [tensor for place in subject.places for tensor in place.memory.values()]
        assert len(overwritten(memory)) == 1
        subject.call(at % SETS)
        for tensor in memory if everywhere else ():
            tensor.copy_(torch.arange(tensor.numel()))


@pytest.mark.parametrize("everywhere", [False, True], ids=["its own place", "places of others too"])
def test_nothing_that_a_call_wrote_is_left_when_the_next_begins(driver: HostDriver, everywhere: bool) -> None:
    check_that_nothing_is_left(driver, ready(driver, relu_plan(), sets())[0], everywhere=everywhere)


def test_calls_use_many_places_in_no_order_and_never_the_last_one_again(driver: HostDriver) -> None:
    driver.run = computes
    subject, _ = ready(driver, relu_plan(), sets())
    addresses = []
    for at in range(20 * PLACES):
        addresses.append(called(subject, at % SETS)[0].data_ptr())
    assert len(set(addresses)) == PLACES
    assert all(one != other for one, other in itertools.pairwise(addresses))


def test_large_memory_has_two_places(driver: HostDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "PLACES_BYTES", SPEC.nbytes)
    subject, _ = ready(driver, relu_plan(), sets())
    assert len(subject.places) == 2


@pytest.mark.parametrize("at", [1, 2], ids=["output", "scratch"])
@pytest.mark.parametrize("side", [-1, 1], ids=["before", "after"])
def test_a_write_next_to_a_buffer_is_noticed_and_gone_when_its_place_is_used_again(
    driver: HostDriver, at: int, side: int
) -> None:
    subject, _ = ready(driver, relu_plan(), sets())
    called(subject)
    tensor = subject.places[subject._next].memory[at]
    address = tensor.data_ptr() - 1 if side < 0 else tensor.data_ptr() + tensor.numel()
    ctypes.memset(address, subject._byte ^ 1, 1)
    assert not untouched(subject)
    for _ in range(PLACES):
        called(subject)
        assert untouched(subject)


def test_fills_and_copies_come_in_the_plans_order(driver: HostDriver) -> None:
    steps = (
        PlanStep(kind=StepKind.FILL, buffer=2, offset=8, nbytes=8, pattern="0102030405060708"),
        PlanStep(kind=StepKind.COPY, buffer=2, offset=0, nbytes=8, source=2, source_offset=8),
        PlanStep(kind=StepKind.COPY, buffer=2, offset=16, nbytes=8, source=0, source_offset=4),
    )
    given = sets()
    subject, _ = ready(driver, relu_plan(*steps), given)
    subject.prepare(0)
    driver.calls.clear()
    subject.call(0)
    assert driver.calls == ["fill"] + ["cuMemcpyDtoDAsync"] * 2 + ["launch"]
    found = bytes(subject.places[subject._next].memory[2].tolist())
    assert found == bytes(range(1, 9)) * 2 + bytes(given[0].inputs[0].view(-1).view(torch.uint8)[4:12].tolist())


def test_arguments_are_addresses_values_and_maps(driver: HostDriver) -> None:
    addresses = {3: 1 << 40}
    pointer = Argument(kind=Kind.POINTER, buffer=3, offset=5)
    spec = TensorMapSpec(element_type=7, extents=(4,), strides=(), box=(4,), swizzle=0, nan_fill=False)
    map_of = Argument(kind=Kind.TENSOR_MAP, buffer=3, offset=16, tensor_map=spec)
    assert argument_bytes(pointer, addresses) == POINTER.pack((1 << 40) + 5)
    assert argument_bytes(Argument(kind=Kind.POINTER), addresses) == bytes(8)
    assert argument_bytes(Argument(kind=Kind.VALUE, data="0aff"), addresses) == b"\x0a\xff"
    assert argument_bytes(map_of, addresses) == POINTER.pack((1 << 40) + 16) + b"map"


@pytest.mark.parametrize(
    ("plan", "words"),
    [(relu_plan(function="missing"), "NOT_FOUND"), (relu_plan(arguments=2), "takes 3 arguments, 2 were given")],
)
def test_what_does_not_fit_the_machine_code_is_found_before_any_call(
    driver: HostDriver, plan: LaunchPlan, words: str
) -> None:
    with pytest.raises(DriverError, match=words):
        ready(driver, plan, sets())


def test_variables_get_their_first_values_before_every_call_and_lost_ones_are_named(driver: HostDriver) -> None:
    source = "__device__ int kept = 3; __constant__ int table[2]; __device__ int hidden;"
    body = cubin(source + 'extern "C" __global__ void uses(int* y) { kept = *y + table[*y]; hidden = *y; }')
    memory = bytearray(4096)
    memory[:4] = b"\3\0\0\0"
    kept, table = (ctypes.c_char * 4).from_buffer(memory), (ctypes.c_char * 8).from_buffer(memory, 2048)
    driver.variables = {"kept": kept, "table": table}
    code = LoadedCode({SHA: body})
    made = Replay(relu_plan(), code, sets(), HostDevice(driver))  # type: ignore[arg-type]
    assert made.not_restored == ["variable hidden"]
    for _ in range(2):
        ctypes.memset(driver.variables["kept"], 9, 4)
        ctypes.memset(driver.variables["table"], 9, 8)
        made.prepare(0)
        assert driver.variables["kept"].raw == b"\3\0\0\0"
        assert driver.variables["table"].raw == bytes(8)
    ctypes.memset(driver.variables["kept"], 9, 4)
    made.prepare(0, restore=False)
    assert driver.variables["kept"].raw == b"\x09" * 4, "left as it was where that is wanted"
    code.unload()
    assert driver.calls[-1] == "cuModuleUnload"


def test_a_kernel_that_changes_what_its_variables_are_reset_from_is_found_out(driver: HostDriver) -> None:
    body = cubin('__device__ int kept = 3; extern "C" __global__ void uses(int* y) { kept += *y; }')
    driver.variables = {"kept": ctypes.create_string_buffer(b"\3\0\0\0", 4)}
    code = LoadedCode({SHA: body})
    made, later = (Replay(relu_plan(), code, sets(), HostDevice(driver)) for _ in range(2))  # type: ignore[arg-type]
    assert made.damaged() is None
    code._variables[0].copy[0] += 1
    assert "from which variables are reset" in str(made.damaged())
    assert made.damaged() == later.damaged()


def test_many_variables_are_restored_by_one_operation_and_constants_by_copies(driver: HostDriver) -> None:
    names = [f"kept{number}" for number in range(FEW_VARIABLES + 4)]
    source = "".join(f"__device__ int {name} = {number};" for number, name in enumerate(names))
    uses = " + ".join(f"{name}++" for name in names)
    body = cubin(f'{source} __constant__ int table; extern "C" __global__ void uses(int* y) {{ *y = table + {uses}; }}')
    driver.variables = {name: ctypes.create_string_buffer(bytes([number] * 4), 4) for number, name in enumerate(names)}
    driver.variables["table"] = ctypes.create_string_buffer(b"\7\0\0\0", 4)
    code, device = LoadedCode({SHA: body}), HostDevice(driver)
    made, later = (Replay(relu_plan(), code, sets(), device) for _ in range(2))  # type: ignore[arg-type]
    assert len(device.tables) == 1, "replays of one kernel share the table, which must outlive them all"
    assert made is not later
    for memory in driver.variables.values():
        ctypes.memset(memory, 9, 4)
    driver.calls.clear()
    made.prepare(0)
    assert driver.calls.count("cuMemcpyDtoDAsync") == 1, "of the constant alone"
    assert driver.calls.count("copy rows") == 1
    assert [driver.variables[name].raw for name in names] == [bytes([number] * 4) for number in range(len(names))]
    assert driver.variables["table"].raw == b"\7\0\0\0"


def test_variables_that_do_not_lie_as_the_machine_code_says_are_named_with_what_is_between(driver: HostDriver) -> None:
    source = "__device__ __align__(1024) int one; __device__ __align__(1024) int two;"
    body = cubin(source + USES_BOTH)
    memory = [ctypes.create_string_buffer(4) for _ in range(2)]
    driver.variables = {"one": memory[0], "two": memory[1]}
    assert LoadedCode({SHA: body}).not_restored == ["memory between variables"]
    driver.variables = {"one": memory[0], "two": memory[0]}
    found = LoadedCode({SHA: body}).not_restored
    assert sorted(found) == ["memory between variables", "variable one", "variable two"]


def test_what_aligns_variables_is_restored_with_them(driver: HostDriver) -> None:
    source = "__device__ __align__(1024) int one = 1; __device__ __align__(1024) int two = 2;"
    body = cubin(source + USES_BOTH)
    variables = {variable.name: variable for variable in read_variables(body)}
    whole = variables["one"].section_bytes
    assert whole >= 1028
    memory = bytearray(range(256)) * (-(-whole // 256))
    offsets = {name: variable.offset for name, variable in variables.items()}
    driver.variables = {name: (ctypes.c_char * 4).from_buffer(memory, at) for name, at in offsets.items()}
    before = bytes(memory)
    made = Replay(relu_plan(), LoadedCode({SHA: body}), sets(), HostDevice(driver))  # type: ignore[arg-type]
    for note in (4, 500, 1023, whole - 1):
        memory[note] ^= 0x55
    made.prepare(0)
    assert memory[:whole] == before[:whole]


def test_every_call_leaves_a_fingerprint_of_its_outputs_with_the_inputs_it_was_made_from(driver: HostDriver) -> None:
    driver.run = computes
    given = sets()
    subject, _ = ready(driver, relu_plan(), given)
    assert subject.fingerprints() == []
    other = ReferenceInputs(DEFINITION, DEFINITION.tiny, Drawing(2), "cpu")
    usual = given[0].holds
    for set_number, reference in ((0, usual), (1, usual), (1, other), (0, usual), (1, other)):
        given[set_number].fill(reference)
        called(subject, set_number)
    found = subject.fingerprints()
    one, two = usual.drawing, other.drawing
    assert [inputs for inputs, _ in found] == [one, one, two, one, two]
    assert len({value for inputs, value in found if inputs == one}) == 1
    assert len({value for inputs, value in found}) == 2
    assert subject.fingerprints() == [], "each is given once"
    subject.prepare(0)
    assert subject.fingerprints() == [], "a call that was not made has none"


def test_a_fingerprint_tells_a_single_byte_of_an_output_and_nothing_else(driver: HostDriver) -> None:
    subject, _ = ready(driver, relu_plan(), sets())
    places = iter(range(PLACES))

    def run(shape: LaunchShape, arguments: Sequence[int]) -> None:
        computes(shape, arguments)
        at = next(places)
        if at == 1:
            ctypes.memset(arguments[1] + SPEC.nbytes - 1, 0x77, 1)
        elif at == 2:
            ctypes.memset(arguments[1] - 16, 0x77, 16)

    driver.run = run
    for _ in range(3):
        called(subject)
    usual, other, beside = (value for _, value in subject.fingerprints())
    assert usual == beside
    assert usual != other


def test_only_a_launch_that_follows_another_may_begin_before_what_precedes_it_has_ended(driver: HostDriver) -> None:
    launch = dataclasses.replace(relu_plan().steps[0], dependent=True)
    nothing = PlanStep(kind=StepKind.COPY, buffer=2, offset=0, source=2, source_offset=0, nbytes=0)
    early: list[bool] = []
    driver.run = lambda shape, arguments: early.append(shape.dependent)
    plan = relu_plan(launch, nothing, launch, launch)
    subject, _ = ready(driver, plan, sets())
    called(subject)
    assert early == [False, False, True, False], "the last has not asked for it"


def test_a_stack_too_large_to_overwrite_is_named(driver: HostDriver) -> None:
    driver.local_bytes = LOCAL_BYTES[-1] + 1
    subject, _ = ready(driver, relu_plan(), sets())
    assert subject.not_restored == ["local memory"]


def test_behind_a_fence_every_buffer_has_memory_of_its_own_and_no_room_around_it(driver: HostDriver) -> None:
    device = HostDevice(driver)
    device.fenced = True
    subject = Replay(relu_plan(), LoadedCode({SHA: cubin("")}), sets(), device)  # type: ignore[arg-type]
    sizes = {at: tensor.untyped_storage().nbytes() for at, tensor in subject.places[0].memory.items()}
    assert sizes == {1: SPEC.nbytes + 16, 2: 24}
    assert subject.claims() == []
    check_that_nothing_is_left(driver, subject, everywhere=False)
