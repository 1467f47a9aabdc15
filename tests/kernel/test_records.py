"""The kernel's own duties: no byte outside a buffer, and nothing but what its description says."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stratalog.hot.cleaner.records import batch_payload
from stratalog.wire.batch import Record, build_batch, iter_headers

kernel = pytest.importorskip(
    "stratalog_kernel.records", reason="the compiled kernel is not built (make test-kernel does it)"
)

DEPTHS = (0, 1, 2, 3)
PAGES = 4


class Guarded:
    """Memory behind which, or before which, lies a page without access: touching it ends the process."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, PAGES * mmap.PAGESIZE)
        self._all = np.frombuffer(self._memory, np.uint8)
        libc = ctypes.CDLL(None, use_errno=True)
        for page in (0, PAGES - 1):
            address = ctypes.c_void_p(self._all.ctypes.data + page * mmap.PAGESIZE)
            if libc.mprotect(address, ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ & 0):
                raise OSError(ctypes.get_errno(), "mprotect")

    def placed(self, content: bytes, *, at_end: bool) -> np.ndarray:
        """``content`` with its last byte, or its first, beside the forbidden page."""
        inner = self._all[mmap.PAGESIZE : -mmap.PAGESIZE]
        view = inner[len(inner) - len(content) :] if at_end else inner[: len(content)]
        view[:] = np.frombuffer(content, np.uint8)
        return view


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    return Guarded()


def room(total: int, batches: int = 1, spare: int = 3, size_bytes: int = 0) -> dict[str, Any]:
    """Arrays for ``total`` records and some more, which must stay as they are."""
    return {
        "rows": np.full(batches, -7, np.int64),
        "offsets": np.full(total + spare, -7, np.int64),
        "times": np.full(total + spare, -7, np.int64),
        "keys": np.full(size_bytes, 7, np.uint8),
        "values": np.full(size_bytes, 7, np.uint8),
        "ends": np.full((2, total + 1 + spare), -7, np.int32),
        "valid": np.full((2, (total + 7) // 8 + spare), 0xFF, np.uint8),
        "tails": np.full((2, total + spare), -7, np.int32),
    }


def batch_row(start: int, end: int, count: int, offset: int = 0, time_ms: int = 0, one_time: int = 0) -> np.ndarray:
    return np.array([[start, end, count, offset, time_ms, one_time]], np.int64)


def sound_payload(count: int = 5, value: bytes | None = b"value") -> bytes:
    batch = build_batch([Record(i, 1000 + i, b"k%d" % i if i % 2 else None, value) for i in range(count)])
    header = next(iter_headers(batch))[1]
    return bytes(batch_payload(header, memoryview(batch)))


def test_filled_columns_match_their_counts() -> None:
    """Offsets from their base, times in microseconds, fields and their ends, bits of what is null, places of headers."""
    payload = sound_payload()
    arrays = room(5, size_bytes=len(payload))
    assert kernel.decode(payload, batch_row(0, len(payload), 5, 100, 1000), None, 3, **arrays) == (5, 3, 0)
    assert arrays["rows"].tolist() == [5]
    assert arrays["offsets"].tolist() == [100, 101, 102, 103, 104, -7, -7, -7]
    assert arrays["times"].tolist()[:5] == [1_000_000 + 1000 * i for i in range(5)]
    assert arrays["ends"].tolist() == [[0, 0, 2, 2, 4, 4, -7, -7, -7], [0, 5, 10, 15, 20, 25, -7, -7, -7]]
    assert arrays["valid"].tolist() == [[0b11101010, 0xFF, 0xFF, 0xFF], [0xFF] * 4]
    assert arrays["keys"].tobytes()[:4] == b"k1k3"
    assert arrays["values"].tobytes()[:25] == b"value" * 5
    places, ends = arrays["tails"].tolist()
    assert [payload[at] for at in places[:5]] == [0] * 5
    assert ends[:5] == [at + 1 for at in places[:5]]
    assert places[5:] == ends[5:] == [-7] * 3


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000])
@pytest.mark.parametrize("count", [1, 2, 40])
@pytest.mark.parametrize("behind", [0, 400])
def test_fields_of_every_size_are_copied_whole(size: int, count: int, behind: int) -> None:
    """Short ones with some bytes more, which must not go beyond the room, and long ones as they are."""
    value = bytes(range(250)) * 4
    payload = sound_payload(count, value[:size])
    arrays = room(count, size_bytes=len(payload))
    larger = np.full(len(payload) + 300, 7, np.uint8)
    arrays["values"] = larger[: len(payload)]
    kernel.decode(payload + bytes(behind), batch_row(0, len(payload), count), None, 2, **arrays)
    assert larger[: size * count].tobytes() == value[:size] * count
    assert set(larger[len(payload) :].tolist()) == {7}


def test_a_window_leaves_records_out() -> None:
    """Rows are counted by batch."""
    payload = sound_payload()
    batches = np.concatenate([batch_row(0, len(payload), 5, base) for base in (0, 5, 10)])
    arrays = room(15, 3, size_bytes=3 * len(payload))
    assert kernel.decode(payload, batches, (3, 7), 2, **arrays) == (4, 2, 0)
    assert arrays["rows"].tolist() == [2, 2, 0]
    assert arrays["offsets"].tolist()[:4] == [3, 4, 5, 6]


def test_one_time_is_that_of_all_records() -> None:
    """As under LogAppendTime; nothing else is asked for."""
    payload = sound_payload()
    arrays = {**room(5), "keys": None, "values": None}
    kernel.decode(payload, batch_row(0, len(payload), 5, 0, 77, 1), None, 0, **arrays)
    assert arrays["times"].tolist()[:5] == [77_000] * 5


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 400), st.sampled_from([0, 0x7F, 0x80, 0xFF, 0xFE, 1, 12])), max_size=6),
    st.integers(0, 60),
    st.sampled_from(DEPTHS),
    st.integers(1, 40),
    st.sampled_from([5, 32, 200, 300]),
    st.booleans(),
)
def test_no_byte_outside_the_payload_is_read(
    guarded: Guarded, damage: list[tuple[int, int]], cut: int, depth: int, count: int, value_bytes: int, at_end: bool
) -> None:
    """Payloads with damaged or missing bytes are decoded beside guarded memory: touching it would end this process."""
    content = bytearray(sound_payload(12, bytes(value_bytes))[: -cut or None])
    for at, byte in damage:
        content[at % len(content)] = byte
    payload = guarded.placed(bytes(content), at_end=at_end)
    arrays = room(count, size_bytes=len(payload))
    found = kernel.decode(payload, batch_row(0, len(payload), count), None, depth, **arrays)
    assert arrays["offsets"].tolist()[count:] == [-7] * 3
    assert arrays["ends"][:, count + 1 :].tolist() == [[-7] * 3] * 2
    if found is not None:
        assert found[0] == arrays["rows"][0] == count


@pytest.mark.parametrize("batch", [(-1, 5, 0), (0, 1000, 0), (9, 8, 0), (1 << 40, 1 << 41, 0)])
def test_batches_outside_the_payload_are_the_callers_mistake(batch: tuple[int, int, int]) -> None:
    """They are no damage."""
    with pytest.raises(ValueError, match="outside the payload"):
        kernel.decode(bytes(100), batch_row(*batch), None, 0, **room(10, size_bytes=100))


@pytest.mark.parametrize("name", ["rows", "offsets", "times", "keys", "values", "ends", "valid", "tails"])
def test_arrays_without_room_are_refused(name: str) -> None:
    """Before a record is looked at."""
    payload = sound_payload()
    arrays = room(5, size_bytes=len(payload))
    arrays[name] = arrays[name][
        ..., : {"rows": 0, "ends": 5, "valid": 0, "keys": len(payload) - 1, "values": len(payload) - 1}.get(name, 4)
    ].copy()
    with pytest.raises(ValueError, match=r"room|rows"):
        kernel.decode(payload, batch_row(0, len(payload), 5), None, 3, **arrays)


@pytest.mark.parametrize("count", [-1, 15, 1 << 40])
def test_numbers_of_records_that_cannot_be_are_refused_at_once(count: int) -> None:
    """Seven bytes are the least that a record has."""
    assert kernel.decode(bytes(100), batch_row(0, 100, count), None, 0, **room(0)) is None


def test_empty_input_gives_no_record() -> None:
    """No batch, and batches without records, which have no bytes."""
    arrays = room(0, 2, size_bytes=8)
    assert kernel.decode(b"", np.empty((0, 6), np.int64), None, 3, **arrays) == (0, 0, 0)
    batches = np.concatenate([batch_row(4, 4, 0)] * 2)
    assert kernel.decode(bytes(8), batches, None, 3, **arrays) == (0, 0, 0)
    assert arrays["rows"].tolist() == [0, 0]
    assert arrays["ends"][:, 0].tolist() == [0, 0]
    assert kernel.decode(bytes(8), batch_row(4, 5, 0), None, 3, **arrays) is None
