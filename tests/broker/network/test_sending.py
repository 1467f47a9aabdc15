import asyncio
import contextlib
import os
import random
import socket
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest

from stratalog.broker.network.page_cache import PageCache, pages_resident, read_resident
from stratalog.broker.network.send_turns import PIECE_BYTES, SendTurns
from stratalog.broker.network.sending import COPY_BELOW_BYTES, PlainSender, TransportSender
from stratalog.broker.runtime.metrics import NetworkMetrics
from stratalog.wire.errors import Corrupt
from stratalog.wire.parts import FileSlice


class Owner:
    """A connection that remembers its sender's calls."""

    patient = False

    def __init__(self):
        self.drained = 0
        self.failures = []

    def send_drained(self):
        self.drained += 1

    def send_failed(self, error):
        self.failures.append(error)


class Harness:
    """A plain sender on one end of a socketpair."""

    def __init__(self, resident=pages_resident):
        self.loop = asyncio.get_running_loop()
        self.ours, self.theirs = socket.socketpair()
        self.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100_000)
        self.theirs.setblocking(False)
        self.owner = Owner()
        self.metrics = NetworkMetrics()
        self.cache = PageCache(self.loop, resident=resident, read_resident=self.read_resident)
        self.resident = resident
        self.turns = SendTurns(self.loop)
        self.sender = PlainSender(self.loop, self.owner, self.cache, self.metrics, self.ours.fileno(), self.turns)

    def read_resident(self, descriptor, position, length):
        return read_resident(descriptor, position, length) if self.resident(descriptor, position, length) else None

    async def receive(self, count):
        data = bytearray()
        while len(data) < count:
            piece = await asyncio.wait_for(self.loop.sock_recv(self.theirs, 65536), 10)
            if not piece:
                break
            data += piece
        return bytes(data)

    def close(self):
        self.sender.close()
        self.cache.close()
        self.ours.close()
        self.theirs.close()


@pytest.fixture
async def harness():
    """A sender with the real page cache."""
    harness = Harness()
    yield harness
    harness.close()


@pytest.fixture
def data(tmp_path):
    """A file of 4 MiB: the open file and its content."""
    content = random.Random(1).randbytes(4 << 20)
    path = tmp_path / "segment"
    path.write_bytes(content)
    with path.open("rb") as file:
        yield file, content


async def test_small_answers_leave_at_once_in_one_write(harness):
    """Bytes into an empty queue go to the kernel inside the call."""
    harness.sender.send([b"one", bytearray(b"two"), memoryview(b"three")])
    assert harness.theirs.recv(100) == b"onetwothree"
    assert harness.metrics.bytes_sent == 11
    assert harness.sender.queued_bytes == 0


async def test_a_large_answer_of_many_parts_is_not_joined(harness):
    """It leaves in order from where it lies: joining it would take its memory again, and the loop's time."""
    parts = [bytes([number]) * (64 << 10) for number in range(128)]
    expected = b"".join(parts)
    tracemalloc.start()
    harness.sender.send(list(parts))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 1 << 20
    assert await harness.receive(len(expected)) == expected


async def test_small_slices_leave_at_once_with_their_neighbours(harness, data):
    """Bytes in the page cache are copied; many of them, or a large one, are sent piece by piece."""
    file, content = data
    slices = [FileSlice(file, at * 5000, 1000) for at in range(100)]
    harness.sender.send([b"head", slices[0], slices[1], b"tail"])
    assert harness.theirs.recv(9999) == b"head" + content[:1000] + content[5000:6000] + b"tail"
    assert harness.sender.queued_bytes == 0
    assert harness.metrics.copied_file_bytes == 2000
    harness.sender.send([b"head", *slices, FileSlice(file, 0, 1 << 20)])
    expected = b"head" + b"".join(content[at * 5000 : at * 5000 + 1000] for at in range(100)) + content[: 1 << 20]
    assert await harness.receive(len(expected)) == expected
    assert harness.metrics.sendfile_bytes == 1 << 20


async def test_random_parts_arrive_byte_for_byte_in_order(harness, data):
    """Bytes, large and small slices and empty pieces, sent in random answers, arrive exactly as queued."""
    file, content = data
    dice = random.Random(2)
    expected = bytearray()
    receiving = []
    answers = []
    for _ in range(40):
        parts = []
        for _ in range(dice.randrange(1, 5)):
            if dice.random() < 0.5:
                part = dice.randbytes(dice.choice([0, 1, 100, 50_000]))
                expected += part
            else:
                length = dice.choice([1, 100, COPY_BELOW_BYTES - 1, COPY_BELOW_BYTES, 100_000, 1_500_000])
                position = dice.randrange(0, len(content) - length)
                part = FileSlice(file, position, length)
                expected += content[position : position + length]
            parts.append(part)
        answers.append(parts)
    receiving = asyncio.ensure_future(harness.receive(len(expected)))
    for parts in answers:
        harness.sender.send(parts)
        if dice.random() < 0.3:
            await asyncio.sleep(0)
    assert await receiving == expected
    assert harness.metrics.bytes_sent == len(expected)
    assert harness.sender.queued_bytes == 0
    assert harness.owner.drained
    assert not harness.owner.failures


@pytest.mark.parametrize("socket_bytes", [1, 20_000, 100_000, 4 << 20])
async def test_an_answer_with_records_may_end_anywhere_in_the_socket(harness, data, socket_bytes, until):
    """The rest follows when the socket takes a part of the head, of the records or of the bytes behind them."""
    file, content = data
    harness.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, socket_bytes)
    sent = 0
    for head_bytes in (40, 60_000):
        for length in (COPY_BELOW_BYTES, 90_000, 1 << 20):
            for tail_bytes in (0, 3, 30_000):
                head, tail = bytes(head_bytes), b"t" * tail_bytes
                position = length % 4099
                parts = [head, FileSlice(file, position, length), *([tail] if tail else [])]
                expected = head + content[position : position + length] + tail
                sent += len(expected)
                harness.sender.send(parts)
                assert await harness.receive(len(expected)) == expected
                await until(lambda: not harness.sender.queued_bytes)
    assert harness.metrics.bytes_sent == sent
    assert not harness.owner.failures


async def test_sendfile_carries_at_least_95_percent_of_file_bytes(harness, data):
    """The kernel itself sends nearly all of a fetch answer with slices of usual sizes."""
    file, _ = data
    slices = [FileSlice(file, 0, 1 << 20), FileSlice(file, 5000, 300_000), FileSlice(file, 100, 700)]
    total = sum(map(len, slices))
    receiving = asyncio.ensure_future(harness.receive(total + 10))
    harness.sender.send([b"0123456789", *slices])
    await receiving
    assert harness.metrics.sendfile_bytes >= 0.95 * total
    assert harness.metrics.sendfile_bytes + harness.metrics.copied_file_bytes == total


async def test_a_client_that_does_not_read_leaves_the_rest_queued(harness, data):
    """Bytes that the socket does not take wait, counted, and are sent when the client reads again."""
    file, content = data
    harness.sender.send([b"head", FileSlice(file, 0, 4 << 20)])
    await asyncio.sleep(0)
    queued = harness.sender.queued_bytes
    assert 0 < queued < 4 << 20
    harness.sender.send([b"next"])
    assert harness.sender.queued_bytes == queued + 4
    assert await harness.receive((4 << 20) + 8) == b"head" + content + b"next"
    assert harness.sender.queued_bytes == 0


async def test_cold_slices_are_read_ahead_in_a_thread_before_they_are_sent(data):
    """A slice that is not in memory is first read by a thread; the loop does not wait, the order holds."""
    file, content = data
    asked = []

    def cold_once(descriptor, position, length):
        asked.append((position, length))
        return len(asked) % 2 == 0

    harness = Harness(cold_once)
    harness.sender.send([b"head", FileSlice(file, 0, 300_000), b"tail", FileSlice(file, 7, 50)])
    assert harness.metrics.sendfile_bytes == 0
    assert await harness.receive(300_058) == b"head" + content[:300_000] + b"tail" + content[7:57]
    assert harness.metrics.cold_reads >= 1
    assert harness.metrics.sendfile_bytes == 300_000
    harness.close()


async def test_a_cache_that_never_holds_anything_does_not_stop_the_sender(data):
    """Under memory pressure every probe may miss: each range is read ahead and then sent regardless."""
    file, content = data
    harness = Harness(lambda *_: False)
    harness.sender.send([FileSlice(file, 0, 2 << 20), FileSlice(file, 10, 20)])
    assert await harness.receive((2 << 20) + 20) == content[: 2 << 20] + content[10:30]
    harness.close()


async def test_a_file_that_became_shorter_ends_the_connection(harness, tmp_path, until):
    """A short sendfile cannot be repaired: the client was promised more bytes."""
    path = tmp_path / "short"
    path.write_bytes(bytes(5000))
    with path.open("rb") as file:
        harness.sender.send([b"head", FileSlice(file, 0, 9000)])
        await harness.receive(5004)
        await until(lambda: harness.owner.failures)
    assert isinstance(harness.owner.failures[0], Corrupt)
    assert "shortened" in str(harness.owner.failures[0])
    assert harness.sender.closed


async def test_a_small_slice_of_a_shorter_file_ends_the_connection_too(harness, tmp_path):
    """The copying path checks the length as well."""
    path = tmp_path / "short"
    path.write_bytes(bytes(50))
    with path.open("rb") as file:
        harness.sender.send([b"head", FileSlice(file, 0, 90)])
    assert isinstance(harness.owner.failures[0], Corrupt)


async def test_a_failed_read_ahead_ends_the_connection(tmp_path, until):
    """A disk error while reading ahead reaches the connection."""

    class Broken:
        def fileno(self):
            return 1 << 20

    harness = Harness(lambda *_: False)
    harness.sender.send([FileSlice(Broken(), 0, 9000)])
    await until(lambda: harness.owner.failures)
    assert isinstance(harness.owner.failures[0], OSError)
    harness.close()


async def test_a_reset_is_reported_once_and_closing_is_repeatable(harness):
    """A client that went away fails the sender; nothing is sent after that."""
    harness.theirs.close()
    harness.sender.send([b"x"])
    harness.sender.send([b"y"])
    assert len(harness.owner.failures) == 1
    harness.sender.close()
    harness.sender.pump()


def open_times(number):
    """How many descriptors this process has for the file or socket with this inode number."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            count += descriptor.stat().st_ino == number
    return count


async def test_closing_in_the_middle_releases_the_duplicate(harness, data):
    """A sender that is closed while it waits for the socket leaves no watcher and no descriptor behind."""
    socket_number = os.fstat(harness.ours.fileno()).st_ino
    assert open_times(socket_number) == 2
    file, _ = data
    harness.sender.send([FileSlice(file, 0, 4 << 20)])
    harness.sender.close()
    assert open_times(socket_number) == 1
    assert harness.sender.queued_bytes == 0
    await asyncio.sleep(0)


class Transport:
    """Collects what is written; tells its sender to pause."""

    def __init__(self):
        self.written = bytearray()
        self.sender = None
        self.pause_at = 1 << 60

    def write(self, data):
        self.written += data
        if len(self.written) >= self.pause_at:
            self.sender.pause()


async def test_through_a_transport_slices_are_read_and_written_and_pausing_stops(data):
    """TLS: the same bytes in the same order, none by sendfile, no more than the transport asked for."""
    file, content = data
    loop = asyncio.get_running_loop()
    metrics, owner, transport, cache = NetworkMetrics(), Owner(), Transport(), PageCache(loop)
    transport.sender = sender = TransportSender(loop, owner, cache, metrics, transport)
    transport.pause_at = 300_000
    sender.send([b"head", FileSlice(file, 5, 1_000_000), b"tail"])
    assert 300_000 <= len(transport.written) < 500_000
    transport.pause_at = 1 << 60
    sender.resume()
    assert bytes(transport.written) == b"head" + content[5:1_000_005] + b"tail"
    assert (metrics.sendfile_bytes, metrics.copied_file_bytes) == (0, 1_000_000)
    assert owner.drained == 1
    cache.close()


async def test_a_large_answer_beside_small_ones_leaves_in_pieces(data):
    """Between two pieces the loop gets to others, and what arrives is what was sent."""
    file, content = data
    harness = Harness()
    harness.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
    turns, sender = harness.turns, harness.sender
    turns.at_once()
    turns.small_count += 1
    sender.send([b"head", FileSlice(file, 0, len(content))])
    assert sender.queued_bytes == len(content) + 4  # nothing leaves in the turn of the loop that is others' already
    await asyncio.sleep(0)
    assert 0 < harness.metrics.bytes_sent <= PIECE_BYTES + 4
    assert await harness.receive(len(content) + 4) == b"head" + content
    assert harness.owner.drained == 1
    assert not harness.owner.failures
    harness.close()


async def test_small_answers_are_counted_for_waiting_senders(data):
    """Bytes and short slices of files are small, a mebibyte is not."""
    file, content = data
    harness = Harness()
    harness.sender.send([b"answer"])
    harness.sender.send([b"head", FileSlice(file, 0, 16 << 10)])
    assert harness.turns.small_count == 2
    harness.sender.send([b"head", FileSlice(file, 0, 1 << 20)])
    assert harness.turns.small_count == 2
    assert await harness.receive(6 + 4 + (16 << 10) + 4 + (1 << 20)) == (
        b"answer" + b"head" + content[: 16 << 10] + b"head" + content[: 1 << 20]
    )
    harness.close()


async def test_a_connection_that_closes_while_it_waits_for_its_turn_is_passed(data):
    """Its turn comes, and nothing is sent."""
    file, content = data
    harness = Harness()
    harness.turns.at_once()
    harness.turns.small_count += 1
    harness.sender.send([FileSlice(file, 0, len(content))])
    harness.sender.close()
    await asyncio.sleep(0)
    assert harness.metrics.bytes_sent == 0
    assert not len(harness.turns)
    harness.close()


@pytest.mark.parametrize("patient", [False, True])
async def test_a_connection_answered_from_the_archive_waits_among_the_patient(data, patient):
    """Its connection says so when the wait begins."""
    file, content = data
    harness = Harness()
    waits = []
    harness.sender._turns = SimpleNamespace(
        small_count=0, at_once=lambda: 0, wait=lambda sender, *, patient: waits.append((sender, patient))
    )
    harness.owner.patient = patient
    harness.sender.send([FileSlice(file, 0, len(content))])
    assert waits == [(harness.sender, patient)]
    harness.close()
