"""Host code under planning: what torch calls leave in a plan, what the device answers, and what cannot be planned."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from kbench.harness.device.target import H200, facts_of
from kbench.harness.plan.recorder import MOST_STEPS, Recorder, UnplannableError, typed_value
from kbench.harness.plan.torch_calls import DeviceMode, RecordingMode, pretending
from kbench.schemas.records.launch_plan import PlanStep, StepKind

Host = Callable[[torch.Tensor], Any]


def recorded(host: Host) -> tuple[Recorder, Any]:
    """What host code does with one input of 4 x 8 float32."""
    x = torch.empty(4, 8, device="meta")
    recorder = Recorder((x, 3))
    with pretending(H200), RecordingMode(recorder), DeviceMode():
        returned = host(x)
    return recorder, returned


def filled(buffer: int, offset: int, nbytes: int, pattern: str) -> PlanStep:
    return PlanStep(kind=StepKind.FILL, buffer=buffer, offset=offset, nbytes=nbytes, pattern=pattern)


def copied(buffer: int, offset: int, nbytes: int, source: int, source_offset: int) -> PlanStep:
    return PlanStep(
        kind=StepKind.COPY, buffer=buffer, offset=offset, nbytes=nbytes, source=source, source_offset=source_offset
    )


@pytest.mark.parametrize(
    ("host", "step"),
    [
        (torch.zeros_like, filled(1, 0, 128, "00000000")),
        (lambda x: torch.zeros(3, device="cuda"), filled(1, 0, 12, "00000000")),
        (lambda x: torch.zeros(3, device=x.device, dtype=torch.int64), filled(1, 0, 24, "00" * 8)),
        (lambda x: torch.full((3,), -1, device="cuda:0", dtype=torch.int16), filled(1, 0, 6, "ffff")),
        (lambda x: torch.full((3,), float("-inf"), device=0), filled(1, 0, 12, "000080ff")),
        (lambda x: torch.ones_like(x, dtype=torch.bool), filled(1, 0, 32, "01")),
        (lambda x: x.new_zeros(5), filled(1, 0, 20, "00000000")),
        (lambda x: torch.empty_like(x)[1].zero_(), filled(1, 32, 32, "00000000")),
        (lambda x: torch.empty_like(x).view(-1)[3:5].fill_(1.0), filled(1, 12, 8, "0000803f")),
        (lambda x: x.clone(), copied(1, 0, 128, 0, 0)),
        (lambda x: torch.empty_like(x)[2].copy_(x[1]), copied(1, 64, 32, 0, 32)),
    ],
)
def test_fills_and_copies_are_recorded_where_they_go(host: Host, step: PlanStep) -> None:
    recorder, _ = recorded(host)
    assert recorder.steps == [step]
    assert recorder.buffers[0].input == 0
    assert recorder.buffers[1].input is None


@pytest.mark.parametrize(
    "host",
    [
        lambda x: x.view(8, 4)[1:].reshape(-1),
        lambda x: x.t().unsqueeze(0).expand(3, 8, 4),
        lambda x: x.split(2)[1].narrow(1, 2, 3),
        lambda x: x.contiguous().detach().to("cuda").cuda(),
        lambda x: torch.empty(0, device="cuda").zero_(),
        lambda x: torch.empty_like(x),
    ],
)
def test_views_and_unused_memory_leave_no_trace(host: Host) -> None:
    recorder, _ = recorded(host)
    assert recorder.steps == []
    assert len(recorder.buffers) == 1


def test_a_place_is_the_byte_in_the_memory_it_was_allocated_with() -> None:
    recorder, part = recorded(lambda x: torch.empty(10, 8, dtype=torch.bfloat16, device=x.device)[3:, 2:])
    assert recorder.place(part) == (1, 2 * (3 * 8 + 2))
    assert recorder.buffers[1].nbytes == 160


def test_tensors_say_they_are_on_the_gpu_and_only_while_planning() -> None:
    def host(x: torch.Tensor) -> tuple[Any, ...]:
        y = torch.empty(3, device="cuda")
        return x.is_cuda, str(x.device), x.get_device(), y.is_cuda, y.device == x.device

    _, said = recorded(host)
    assert said == (True, "cuda:0", 0, True, True)
    x = torch.empty(1)
    assert not x.is_cuda
    assert x.device.type == "cpu"


def on_default_device(x: torch.Tensor) -> torch.Tensor:
    with torch.device("cuda"):
        return torch.empty(3)


@pytest.mark.parametrize(
    "host",
    [
        torch.empty_like,
        lambda x: x.new_empty(3),
        lambda x: torch.empty(3, device=x.device),
        lambda x: torch.empty(3, device=x.get_device()),
        lambda x: torch.empty_strided((3,), (1,), device="cuda"),
        lambda x: torch.empty(3, device="cuda").to(x.device).cuda(),
        on_default_device,
    ],
)
def test_memory_asked_of_the_gpu_is_on_the_gpu(host: Host) -> None:
    recorder, made = recorded(host)
    assert recorder.place(made) == (1, 0)


class Boastful(torch.Tensor):
    """Says that it is on the GPU, whoever asks."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") == "__get__":
            return torch.device("meta")
        return super().__torch_function__(func, types, args, kwargs)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    "host",
    [
        lambda x: torch.empty(3),
        lambda x: torch.zeros(3, dtype=torch.int32)[1:],
        lambda x: torch.full((3,), 1.0).view(3, 1),
        lambda x: torch.empty(3, device="cpu"),
        lambda x: torch.empty_like(x, device="cpu"),
        lambda x: x.new_zeros(3, device="cpu"),
        lambda x: torch.tensor([1.0]),
        lambda x: torch.arange(4),
        lambda x: torch.from_numpy(np.ones(3)),
        lambda x: torch.empty(3).as_subclass(Boastful),  # type: ignore[no-untyped-call]
    ],
)
def test_a_tensor_made_without_a_device_is_host_memory_that_no_launch_can_use(host: Host) -> None:
    recorder, made = recorded(host)
    assert recorder.steps == []
    for use in (recorder.pointer, recorder.output):
        with pytest.raises(UnplannableError, match="uses host memory"):
            use(made)
    assert len(recorder.buffers) == 1


@pytest.mark.parametrize(
    ("host", "value"),
    [
        (lambda x: torch.tensor(x.shape).prod().item(), 32),
        (lambda x: torch.arange(4).cumsum(0).tolist(), [0, 1, 3, 6]),
        (lambda x: torch.zeros(3).add_(torch.ones(3)).to(torch.int8).numpy().tolist(), [1, 1, 1]),
        (lambda x: float(torch.tensor(0.5).sqrt().square()), pytest.approx(0.5)),
        (lambda x: (lambda y: (y.is_cuda, y.device.type, y.get_device()))(torch.empty(3)), (False, "cpu", -1)),
    ],
)
def test_host_code_may_compute_with_tensors_that_never_reach_the_gpu(host: Host, value: Any) -> None:
    recorder, made = recorded(host)
    assert made == value
    assert recorder.steps == []


def test_a_parameter_moved_to_the_gpu_cannot_be_used_until_an_input_replaces_it() -> None:
    def host(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        moved, replaced = (torch.nn.Parameter(torch.zeros(3)).to(x.device) for _ in range(2))
        replaced.data = x
        return moved, replaced

    recorder, (moved, replaced) = recorded(host)
    with pytest.raises(UnplannableError, match="memory that the call did not allocate"):
        recorder.pointer(moved)
    assert recorder.place(replaced) == (0, 0)


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((4, 8), (8, 1)), ((4, 8), (1, 4)), ((4, 8), (16, 1)), ((2, 1, 4, 4), (16, 1, 4, 1)), ((1, 5), (100, 1)),
        ((3, 0, 2), (0, 2, 1)), ((), ()), ((2, 8, 1, 1), (8, 1, 8, 8)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [None, torch.float16])
def test_memory_like_a_tensors_has_the_form_torch_gives_it(
    shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype | None
) -> None:
    wanted = torch.empty_like(torch.empty_strided(shape, strides), dtype=dtype)
    given = torch.empty_strided(shape, strides, device="meta")
    with RecordingMode(Recorder((given,))), DeviceMode():
        made = torch.empty_like(given, dtype=dtype)
    assert (made.shape, made.stride(), made.dtype) == (wanted.shape, wanted.stride(), wanted.dtype)


def entered(x: torch.Tensor) -> bool:
    """Whether contexts that do nothing here can be entered."""
    torch.cuda.nvtx.mark("a")
    torch.cuda.nvtx.range_push("b")
    torch.cuda.nvtx.range_pop()
    with torch.cuda.device(x.device), torch.cuda.device_of(x), torch.cuda.nvtx.range("c"):
        return True


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        (lambda x: torch.cuda.get_device_properties(x.device).multi_processor_count, 132),
        (lambda x: torch.cuda.get_device_properties(0).shared_memory_per_block_optin, 232_448),
        (lambda x: torch.cuda.get_device_capability(), (9, 0)),
        (lambda x: torch.cuda.get_device_name(x.device), "NVIDIA H200"),
        (lambda x: torch.cuda.current_stream().cuda_stream, 0),
        (lambda x: (torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.current_device()), (True, 1, 0)),
        (lambda x: torch.cuda.synchronize(), None),
        (lambda x: torch.cuda.empty_cache(), None),
        (lambda x: torch.cuda.is_current_stream_capturing(), False),
        (entered, True),
    ],
)
def test_questions_about_the_device_are_answered_with_its_facts(host: Host, answer: Any) -> None:
    assert recorded(host)[1] == answer


VALUES, OPERATOR, HOST_MEMORY = "asks for a tensor's values", "calls the torch operator", "copies from host memory"


@pytest.mark.parametrize(
    ("host", "why"),
    [
        (lambda x: x[0, 0].item(), VALUES),
        (lambda x: 1 if x[0, 0] else 0, VALUES),
        (lambda x: float(x[0, 0]), VALUES),
        (lambda x: x.cpu(), VALUES),
        (lambda x: x.to("cpu"), VALUES),
        (lambda x: x.tolist(), VALUES),
        (lambda x: x.numpy(), VALUES),
        (lambda x: x + 1, f"{OPERATOR} 'add'"),
        (lambda x: x @ x.t(), f"{OPERATOR} 'mm'"),
        (lambda x: torch.equal(x, x), f"{OPERATOR} 'equal'"),
        (lambda x: torch.arange(4, device="cuda"), f"{OPERATOR} 'arange'"),
        (lambda x: torch.randn(4, device="cuda"), f"{OPERATOR} 'randn'"),
        (lambda x: torch.empty_like(x).set_(x), f"{OPERATOR} 'set_'"),
        (lambda x: x.half(), "different types or shapes"),
        (lambda x: torch.empty_like(x).copy_(x[0]), "different types or shapes"),
        (lambda x: x.t().contiguous(), "not contiguous"),
        (lambda x: torch.empty_like(x)[:, 1].zero_(), "not contiguous"),
        (lambda x: torch.empty_like(x).fill_(x[0, 0]), "the contents of another"),
        (lambda x: torch.tensor([1.0], device="cuda"), HOST_MEMORY),
        (lambda x: torch.as_tensor([1.0], device=x.device), HOST_MEMORY),
        (lambda x: x.new_tensor([1.0]), HOST_MEMORY),
        (lambda x: torch.tensor([1.0]).cuda(), HOST_MEMORY),
        (lambda x: torch.from_numpy(np.ones(3)).to(x.device), HOST_MEMORY),
        (lambda x: torch.zeros(3).to(x.device), HOST_MEMORY),
        (lambda x: torch.zeros(3).cuda(), HOST_MEMORY),
        (lambda x: torch.zeros(3).to(x, non_blocking=True), HOST_MEMORY),
        (lambda x: torch.zeros(8, device="cuda").copy_(torch.zeros(8)), HOST_MEMORY),
        (lambda x: torch.zeros(8).copy_(x[0]), VALUES),
        (lambda x: torch.empty(3, pin_memory=True), "pins host memory"),
        (lambda x: torch.empty(3).pin_memory(), "pins host memory"),
        (lambda x: torch.zeros(4, 8) + x, f"{OPERATOR} 'add'"),
        (lambda x: torch.cuda.get_device_properties(0).clock_rate, "asks the device for 'clock_rate'"),
        (lambda x: torch.cuda.mem_get_info(), "torch.cuda.mem_get_info"),
        (lambda x: torch.cuda.Stream(), "torch.cuda.Stream"),
        (lambda x: torch.cuda.Event(), "torch.cuda.Event"),
        (lambda x: torch.cuda.CUDAGraph(), "torch.cuda.CUDAGraph"),
        (lambda x: [torch.zeros_like(x) for _ in range(MOST_STEPS + 1)], f"more than {MOST_STEPS} operations"),
    ],
)
def test_what_depends_on_contents_or_computes_with_torch_cannot_be_planned(host: Host, why: str) -> None:
    with pytest.raises(UnplannableError, match=why):
        recorded(host)
    assert torch.cuda.Stream is not None
    assert not torch.empty(1).is_cuda, "whatever happens, torch is itself again"


def test_memory_from_before_the_call_cannot_be_planned_because_nobody_knows_what_it_holds() -> None:
    kept = torch.empty(4, device="meta")
    with pytest.raises(UnplannableError, match="memory that the call did not allocate"):
        recorded(lambda x: kept.zero_())
    recorder, _ = recorded(lambda x: None)
    with pytest.raises(UnplannableError, match="memory that the call did not allocate"):
        recorder.pointer(kept)


@pytest.mark.parametrize(
    ("kind", "value", "data"),
    [
        ("i1", True, "01"),
        ("i32", -2, "feffffff"),
        ("u64", 2**63, "0000000000000080"),
        ("fp16", 1.0, "003c"),
        ("bf16", 1.0, "803f"),
        ("fp32", 1.0, "0000803f"),
        ("fp64", 1.0, "000000000000f03f"),
    ],
)
def test_scalars_are_packed_as_their_triton_type_says(kind: str, value: float, data: str) -> None:
    assert typed_value(value, kind).data == data


def test_the_facts_of_a_device_are_what_torch_reports_and_defaults_where_it_is_silent() -> None:
    class Reported:
        name, major, minor, multi_processor_count = "some gpu", 8, 6, 84
        total_memory, L2_cache_size, shared_memory_per_block = 1, 2, 3
        shared_memory_per_block_optin, shared_memory_per_multiprocessor = 4, 5
        regs_per_multiprocessor, max_threads_per_multi_processor = 6, 7

    found = dataclasses.asdict(facts_of(Reported()))
    assert found["multi_processor_count"] == 84
    assert found["warp_size"] == 32
