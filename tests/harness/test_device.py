"""What the harness compiles for a GPU: holds that end when they are told to, and comparisons of memory."""

import ctypes
import random
import struct
import time
import types
from collections.abc import Callable, Sequence

import pytest
import torch

from kbench.harness.cuda import CudaModule
from kbench.harness.device.device import POISON_BYTE, CpuDevice, CudaDevice
from kbench.harness.device.driver import LaunchShape, Parameters
from kbench.harness.device.kernels import keyed, own_kernels, scrub, stream
from kbench.harness.device.kernels.keyed import intact, sealed_by_torch
from kbench.harness.device.kernels.own_kernels import ROWS, RowsFunction, as_word
from kbench.harness.device.kernels.same_bytes import Claim, same_bytes
from kbench.harness.plan.resources import _sections


@pytest.fixture
def device() -> CudaDevice:
    """A GPU with its own kernels compiled."""
    made = CudaDevice(0)
    made.compile()
    return made


def claims(place: str) -> tuple[list[Claim], list[bool]]:
    """Claims of every form and whether they are true."""
    words = torch.arange(100_003, dtype=torch.int32, device=place)
    changed = words.clone()
    changed[-1] += 1
    odd = torch.full((1001,), 0xA5, dtype=torch.uint8, device=place)
    spoilt = odd.clone()
    spoilt[1000] = 0
    empty = words[:0]
    found: list[tuple[Claim, bool]] = [
        ((words, words.clone()), True),
        ((words, changed), False),
        ((words[1:], words[1:].clone()), True),
        ((words[1:], changed[1:]), False),
        ((odd, 0xA5), True),
        ((odd[1:], 0xA5), True),
        ((spoilt, 0xA5), False),
        ((spoilt[:1000], 0xA5), True),
        ((empty, empty.clone()), True),
    ]
    return [claim for claim, _ in found], [true for _, true in found]


def test_claims_are_checked_by_torch() -> None:
    given, true = claims("cpu")
    assert [bool(flag) for flag in same_bytes(given)] == true


def various(place: str) -> list[torch.Tensor]:
    """Tensors of several types and lengths."""
    words = torch.arange(-50_000, 50_003, dtype=torch.int32, device=place)
    odd = torch.full((1003,), 255, dtype=torch.uint8, device=place)
    ones = torch.ones(3, dtype=torch.bfloat16, device=place)
    return [words, words[1:], words[:6].reshape(2, 3).t(), odd, odd[3:6], odd[:0], ones]


def mixed_sum(tensor: torch.Tensor) -> int:
    """The sum by the definition, with whole numbers of Python."""
    data = bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist())
    wide = len(data) // 16 * 16
    parts = [(int.from_bytes(data[at : at + 8], "little"), at) for at in range(0, wide, 8)]
    values = [*parts, *((data[at], at) for at in range(wide, len(data)))]
    return sum(mixed(value, at) for value, at in values) % (1 << 64)


def mixed(value: int, at: int, use: str = keyed.SUMS) -> int:
    """What a word adds, by the definition."""
    first, second, third = keyed.process_keys(use)
    most = (1 << 64) - 1
    value = (value ^ (first + at * second & most)) * keyed.FACTOR & most
    value = (value ^ value >> 32) * third & most
    return value ^ value >> 32


def test_a_sum_tells_changed_and_swapped_words() -> None:
    words = torch.arange(1000, dtype=torch.int32)
    swapped, changed = words.clone(), words.clone()
    swapped[10], swapped[700] = words[700], words[10]
    # What a sum weighted by place alone does not tell.
    changed[0] += 3
    changed[1] -= 2
    changed[2] += 1
    sums = CpuDevice().sums
    assert sums([]) == []
    assert len(set(sums([words, swapped, changed, words[:999]]))) == 4
    assert sums([words]) == sums([words.clone()])


def test_a_seal_shows_what_was_changed_and_hides_the_sums() -> None:
    given = various("cpu")
    seals = [sealed_by_torch(given[:3]), sealed_by_torch(given[3:])]
    assert [total for seal in seals for total in seal.sums()] == [mixed_sum(tensor) for tensor in given]
    assert intact(seals, sealed_by_torch)
    assert intact([], sealed_by_torch)
    again = sealed_by_torch(given[:3])
    assert again.sums() == seals[0].sums()
    assert not set(again.padded.tolist()) & set(seals[0].padded.tolist()), "memory shows other numbers each time"
    given[3][500] ^= 1
    assert not intact(seals, sealed_by_torch)
    given[3][500] ^= 1
    seals[1].padded[0] += 1
    assert not intact(seals, sealed_by_torch)


def masked(tensor: torch.Tensor, nonce: int) -> bytes:
    """A tensor's bytes behind a mask, by the definition."""
    data = bytes(tensor.reshape(-1).view(torch.uint8).tolist())
    places = [keyed.MASK + at for at in range(-(-len(data) // 8))]
    words = [mixed(nonce, place, keyed.MASKS).to_bytes(8, "little") for place in places]
    return bytes(byte ^ other for byte, other in zip(data, b"".join(words), strict=False))


def check_masks(given: list[torch.Tensor], apply: Callable[[list[torch.Tensor], list[int]], None]) -> None:
    """Masking gives the bytes of the definition; doing so twice gives those of before."""
    given = [tensor.contiguous().clone() for tensor in given]
    whole, nonces = [tensor.clone() for tensor in given], [(1 << 64) - 1 - at for at in range(len(given))]
    # One that begins at an odd address.
    given[3], whole[3] = given[3][1:], whole[3][1:]
    apply(given, nonces)
    found = [bytes(tensor.reshape(-1).view(torch.uint8).tolist()) for tensor in given]
    assert found == [masked(tensor, nonce) for tensor, nonce in zip(whole, nonces, strict=True)]
    apply(given, nonces)
    assert all(torch.equal(one, other) for one, other in zip(given, whole, strict=True))


def test_tensors_are_masked_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed, "PART", 1 << 12)
    check_masks(various("cpu"), keyed.mask_by_torch)


def test_a_pad_follows_from_its_number_what_it_is_for_and_the_keys() -> None:
    facts = [
        (n, address, count) for n in (0, (1 << 64) - 1) for address in (0, (1 << 47) + 512) for count in (8, keyed.WORD)
    ]
    for nonce, address, count in facts:
        once = mixed(nonce, keyed.PAD) + address & keyed.WORD
        twice = mixed(once, keyed.PAD + 1) + count & keyed.WORD
        assert keyed.pad(nonce, address, count) == mixed(twice, keyed.PAD + 2)
    assert len({keyed.pad(*fact) for fact in facts}) == len(facts)


STAMP_KEY = (0x1122334455667788, 0x99AABBCCDDEEFF01)
KEYED = {
    "sum_rows": ("constexpr int ROWS = 4;" + keyed.source() + keyed.SUMS_SOURCE, keyed.process_keys(keyed.SUMS)),
    "mask_rows": (
        "constexpr int ROWS = 4;" + keyed.source(keyed.MASKS) + keyed.MASK_SOURCE, keyed.process_keys(keyed.MASKS)
    ),
    "scrub": (
        "constexpr int REGIONS = 4, PARTS = 8;" + keyed.source() + scrub.SOURCE, keyed.process_keys(keyed.SUMS)
    ),
    "stamp": (stream.keyed_source(STAMP_KEY), [word ^ STAMP_KEY[at % 2] for at, word in enumerate(stream.INITIAL)]),
}  # fmt: skip


@pytest.mark.parametrize("function", KEYED)
def test_keys_are_nowhere_but_in_code(function: str) -> None:
    text, keys = KEYED[function]
    made = CudaModule(text)
    halves = [half.to_bytes(4, "little") for key in keys for half in (key & 0xFFFFFFFF, key >> 32)]
    held = {one.name: [half in one.data for half in halves] for one in _sections(made.compiled("sm_90a").cubin)}
    # The compiler adds some to the place where masks begin, and mixes some of the stamps' words in advance.
    assert sum(held.pop(f".text.{function}")) >= (4 if function == "stamp" else 5)
    assert not any(found for name, each in held.items() if not name.startswith(".text.") for found in each)


def recording(
    monkeypatch: pytest.MonkeyPatch, where: types.ModuleType, name: str, parameter_bytes: tuple[int, ...]
) -> list[tuple[LaunchShape, bytes]]:
    """Launches of a function of ours, on a device that remembers them with their parameters."""
    queued: list[tuple[LaunchShape, bytes]] = []
    loaded = types.SimpleNamespace(
        name=name, handle=0, parameter_bytes=parameter_bytes, allow_shared=lambda nbytes: None
    )

    def launch(function: object, shape: LaunchShape, parameters: Parameters, stream: int) -> types.SimpleNamespace:
        assert function is loaded
        return types.SimpleNamespace(queue=lambda: queued.append((shape, parameters._memory.raw)))

    monkeypatch.setattr(own_kernels, "call", lambda name, cubin: None)
    monkeypatch.setattr(own_kernels, "Function", lambda module, name: loaded)
    monkeypatch.setattr(where, "Launch", launch)
    return queued


def test_many_rows_are_few_launches_and_every_row_has_its_place_for_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    queued = recording(monkeypatch, own_kernels, "of_rows", (ROWS * 16, 8))
    source = 'extern "C" __global__ void of_rows(int* y) { *y = ROWS; }'
    function = RowsFunction(source, "of_rows", types.SimpleNamespace(major=9, minor=0), 7)
    rows = [struct.pack("<2Q", number, 100 + number) for number in range(ROWS + 3)]
    results = torch.zeros(len(rows), dtype=torch.int64)
    function.queue(rows, [1] * ROWS + [0, 1 << 40, 5], results)
    (first, given), (second, rest) = queued
    assert (first.grid, second.grid) == ((1, ROWS, 1), (1024, 3, 1))
    assert given == b"".join(rows[:ROWS]) + struct.pack("<Q", results.data_ptr())
    assert rest[: 3 * 16] == b"".join(rows[ROWS:])
    assert rest[ROWS * 16 :] == struct.pack("<Q", results.data_ptr() + 8 * ROWS)


def test_a_hold_waits_for_a_number_that_nobody_can_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    queued = recording(monkeypatch, stream, "hold_stream", (8, 8, 8))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self)
    held = stream.Hold(types.SimpleNamespace(major=9, minor=0), 0)
    numbers = set()
    for cycles in (5, 7):
        held.queue(cycles)
        address, released, limit = struct.unpack("<3Q", queued[-1][1])
        word = ctypes.c_uint64.from_address(address)
        assert limit == cycles
        assert word.value != released
        held.release()
        assert word.value == released
        numbers.add(released)
    assert len(numbers) == 2


@pytest.mark.gpu
def test_claims_are_checked_by_one_launch_as_by_torch() -> None:
    device = CudaDevice(0)
    given, true = claims(device.torch_name)
    plain = [bool(flag) for flag in device.same(given)]
    device.compile()
    many = ROWS // len(given) + 1
    found = [bool(flag) for flag in device.same(given * many)]
    assert plain == true
    assert found == true * many


@pytest.mark.gpu
def test_tensors_are_masked_on_a_gpu(device: CudaDevice) -> None:
    check_masks(various("cuda:0"), device.mask)


@pytest.mark.gpu
def test_bytes_are_summed_on_a_gpu(device: CudaDevice) -> None:
    given = various(device.torch_name)
    totals = [mixed_sum(tensor) for tensor in given]
    repeated = 5
    assert device.sums(given * repeated) == totals * repeated
    assert device.sums([]) == []
    seals = [device.seal(given[:2]), device.seal(given[2:])]
    assert intact(seals, device.seal)
    given[3][500] ^= 1
    assert not intact(seals, device.seal)


@pytest.mark.gpu
def test_a_hold_ends_when_it_is_told_to_and_at_its_limit(device: CudaDevice) -> None:
    limit_s = 0.5
    for resumed in (True, False, True):
        device.hold(1e6 * limit_s)
        held = device.mark()
        time.sleep(0.02)
        assert not device.passed(held)
        began = time.perf_counter()
        if resumed:
            device.resume()
        device.synchronize()
        assert (time.perf_counter() - began < limit_s / 2) == resumed


@pytest.mark.gpu
@pytest.mark.parametrize("pattern", ["ab", "01ff", "00c07f44", "0102030405060708"])
@pytest.mark.parametrize(
    ("offset", "nbytes"), [(0, 1 << 20), (1, 1 << 20), (0, 24), (8, 8), (2, 1 << 12), (1, 333), (4, 12), (0, 0)]
)
def test_a_fill_repeats_its_pattern_and_stays_in_its_range(
    pattern: str, offset: int, nbytes: int, device: CudaDevice
) -> None:
    memory = torch.zeros(1 << 21, dtype=torch.uint8, device=device.torch_name)
    torch.cuda.synchronize()
    device.scrubber.filling(memory.data_ptr() + 64 + offset, nbytes, bytes.fromhex(pattern))()
    device.synchronize()
    found = bytes(memory[: nbytes + 256].tolist())
    wanted = (bytes.fromhex(pattern) * nbytes)[:nbytes]
    assert found == bytes(64 + offset) + wanted + bytes(256 - 64 - offset)


def fingerprint(device: CudaDevice, memory: torch.Tensor, parts: Sequence[tuple[int, int]]) -> int:
    """The number that overwriting some memory gives for parts of it, by offset and bytes."""
    found = torch.zeros(1, dtype=torch.int64, device=device.torch_name)
    start = memory.data_ptr()
    torch.cuda.synchronize()
    watched, nonce = device.scrubber.watching([(start + at, nbytes) for at, nbytes in parts]), random.getrandbits(64)
    device.scrubber.overwriting([(start, memory.numel())])(watched + as_word(nonce) + as_word(found.data_ptr()))
    device.synchronize()
    assert bool((memory == POISON_BYTE).all())
    return (int(found) - keyed.pad(nonce, found.data_ptr(), keyed.WORD)) % (1 << 64)


@pytest.mark.gpu
@pytest.mark.parametrize(("at", "nbytes"), [(512, 4096), (516, 1003), (520, 8), (512, 1), (1024, 1 << 20)])
def test_a_fingerprint_tells_every_byte_it_is_of_and_none_beside_them(at: int, nbytes: int, device: CudaDevice) -> None:
    rng = random.Random(0)
    drawn = torch.randint(0, 256, ((1 << 20) + 4096,), dtype=torch.uint8, device=device.torch_name)
    usual = fingerprint(device, drawn.clone(), [(at, nbytes)])
    assert usual == fingerprint(device, drawn.clone(), [(at, nbytes)])
    for place in {at, at + nbytes - 1, at + nbytes // 2, *(rng.randrange(at, at + nbytes) for _ in range(20))}:
        changed = drawn.clone()
        changed[place] ^= 1
        assert fingerprint(device, changed, [(at, nbytes)]) != usual
    for place in (at - 1, at + nbytes, 0):
        changed = drawn.clone()
        changed[place] ^= 0xFF
        assert fingerprint(device, changed, [(at, nbytes)]) == usual
    swapped = drawn.clone()
    if nbytes >= 4096:
        swapped[at : at + 16], swapped[at + 2048 : at + 2064] = drawn[at + 2048 : at + 2064], drawn[at : at + 16]
        assert fingerprint(device, swapped, [(at, nbytes)]) != usual


@pytest.mark.gpu
def test_equal_outputs_at_other_places_have_one_fingerprint(device: CudaDevice) -> None:
    drawn = torch.randint(0, 256, (1 << 16,), dtype=torch.uint8, device=device.torch_name)
    drawn[32768:33768] = drawn[512:1512]
    drawn[40960:40965] = drawn[2048:2053]
    first = fingerprint(device, drawn.clone(), [(512, 1000), (2048, 5)])
    assert first == fingerprint(device, drawn.clone(), [(32768, 1000), (40960, 5)])
    assert first != fingerprint(device, drawn.clone(), [(512, 1000)])


@pytest.mark.gpu
def test_scrubbing_overwrites_every_byte_of_some_stretches_and_none_beside_them(device: CudaDevice) -> None:
    memory = torch.zeros(1 << 24, dtype=torch.uint8, device=device.torch_name)
    start = memory.data_ptr()
    stretches = [(0, 1 << 22), ((1 << 22) + 16, 40), (5_000_001, 333), (6_000_000, 1), (7_000_000, 0)]
    stretches.append((8_000_003, 99_999))
    for byte in (None, 7, 0, None):
        overwrite = device.scrubber.overwriting([(start + at, nbytes) for at, nbytes in stretches], 512)
        overwrite() if byte is None else overwrite(byte=byte)
        device.synchronize()
        wanted = torch.zeros_like(memory)
        for at, nbytes in stretches:
            wanted[at : at + nbytes] = POISON_BYTE if byte is None else byte
        assert torch.equal(memory, wanted)


@pytest.mark.gpu
def test_what_a_call_returned_is_erased_on_the_stream_it_was_written_on() -> None:
    device = CudaDevice(0)
    other = torch.cuda.Stream()
    for current in (torch.cuda.current_stream(), other):
        with torch.cuda.stream(current):
            torch.cuda._sleep(10_000_000)
            written = torch.ones(1001, dtype=torch.uint8, device=device.torch_name)
            device.erase(written[1:])
            torch.cuda.synchronize()
            assert written.tolist() == [POISON_BYTE] * 1001
    device.erase(written[:0])
    on_host = torch.ones(3, dtype=torch.uint8)
    device.erase(on_host)
    assert on_host.tolist() == [POISON_BYTE] * 3
