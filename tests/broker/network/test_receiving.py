import asyncio
import socket
import struct
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.network import receiving
from stratalog.broker.network.buffers import BASE_BYTES, BufferPool
from stratalog.broker.network.receiving import EAGER_BYTES, FrameReceiver
from stratalog.broker.runtime.event_loop import ready_sockets_of
from stratalog.wire.frame import FrameError


class Feed:
    """Feeds bytes to a receiver the way a transport does, and keeps copies of the frames."""

    def __init__(self, pool=None, *, lease=False):
        self.pool = pool or BufferPool(1 << 30)
        self.receiver = FrameReceiver(self.pool, lambda: 0.0, list)
        self.connection = SimpleNamespace(frame_bytes_max=200 << 20, stalled=0, read_at=0.0, shortcut=None)
        self.frames = []
        self.views = []
        self.releases = []
        self.leasing = lease

    def dispatch(self, connection, frame):
        self.frames.append(bytes(frame))
        if self.leasing:
            self.views.append(frame)
            self.releases.append(self.receiver.lease())

    def feed(self, data, most=1 << 30):
        """Write ``data`` in pieces of at most ``most`` bytes and as the buffer has room."""
        data = memoryview(data)
        while data:
            room = self.receiver.writable()
            count = min(len(room), len(data), most)
            assert count
            room[:count] = data[:count]
            data = data[count:]
            self.receiver.handle(count, self.connection, self.dispatch, 1000)
            if self.receiver.buffer is not None:
                self.receiver.may_go_on()


def framed(body):
    return struct.pack(">i", len(body)) + body


BODIES = st.lists(st.integers(10, 300_000), min_size=1, max_size=12)


@given(BODIES, st.integers(1, 200_000), st.booleans(), st.randoms(use_true_random=False))
def test_frames_come_out_whole_whatever_the_pieces(sizes, piece, lease, random):
    """Every frame arrives unchanged and in order, whatever the reads were, and all memory returns to the pool."""
    bodies = [random.randbytes(16) * (size // 16 + 1) for size in sizes]
    feed = Feed(lease=lease)
    stream = b"".join(map(framed, bodies))
    feed.feed(stream, max(piece, len(stream) // 200))
    assert feed.frames == bodies
    assert [bytes(view) for view in feed.views] == (bodies if lease else [])
    for release in feed.releases:
        release()
    assert feed.receiver.buffer is None
    assert feed.pool.used_bytes == 0


def test_leased_bytes_stay_while_more_is_received():
    """Slices of leased requests are unchanged after ten times the buffer has been received since."""
    feed = Feed(lease=True)
    first = bytes(range(256)) * 100
    feed.feed(framed(first))
    feed.leasing = False
    for _ in range(30):
        feed.feed(framed(b"\xff" * 30_000), 10_000)
    assert bytes(feed.views[0]) == first


def test_without_leases_every_connection_reads_into_the_same_buffer():
    """Complete frames in one read cost no memory of their own."""
    pool = BufferPool(1 << 30)
    for _ in range(5):
        feed = Feed(pool)
        feed.feed(framed(bytes(1000)) * 3)
        assert len(feed.frames) == 3
    assert pool.used_bytes == 0
    assert pool.retained_bytes == 0


def test_an_announced_length_is_not_charged():
    """A client that announces 100 MiB and sends 1 KiB holds at most the eager size; with little memory left not even that."""
    feed = Feed()
    feed.feed(struct.pack(">i", 100 << 20) + bytes(1020))
    assert feed.receiver.may_go_on()
    feed.receiver.writable()
    assert feed.pool.used_bytes <= EAGER_BYTES + BASE_BYTES
    feed = Feed()
    feed.pool.memory.large_bytes = 600 << 20  # of others
    feed.feed(struct.pack(">i", 100 << 20) + bytes(1020))
    assert feed.receiver.may_go_on()
    feed.receiver.writable()
    assert feed.pool.used_bytes == BASE_BYTES


def test_a_buffer_for_which_nothing_came_is_given_up():
    """A connection that was woken for nothing holds no memory, however large its frames were."""
    feed = Feed()
    feed.feed(framed(bytes(1_000_000)))
    assert len(feed.receiver.writable()) > BASE_BYTES
    assert feed.pool.used_bytes > 0
    assert feed.receiver.too_slow(0.0) is None
    assert (feed.pool.used_bytes, feed.pool.memory.large_bytes) == (0, 0)


def test_a_frame_behind_leased_ones_waits_while_leases_exceed_the_budget():
    """Records that wait to be written hold memory; more of them are read when some are written."""
    feed = Feed(BufferPool(2 * BASE_BYTES), lease=True)
    others = feed.pool.take(3 * BASE_BYTES)
    feed.feed(framed(bytes(10_000)) + framed(bytes(10_000))[:5000])
    assert not feed.receiver.may_go_on()
    assert feed.pool.waiting_count == 1
    others.release()
    assert feed.pool.waiting_count == 0
    assert feed.receiver.may_go_on()


def test_memory_for_a_large_frame_is_at_most_twice_its_size():
    """While a frame of 20 MiB grows, the old and the new buffer together are no larger than twice the frame."""
    together = []

    class Measured(BufferPool):
        __slots__ = ()

        def take(self, capacity=BASE_BYTES):
            buffer = super().take(capacity)
            together.append(buffer.capacity + (feed.receiver.buffer.capacity if feed.receiver.buffer else 0))
            return buffer

    pool = BufferPool(1 << 30)
    feed = Feed(pool)
    pool.__class__ = Measured
    feed.feed(framed(bytes(20 << 20)), 1 << 20)
    assert len(feed.frames) == 1
    assert 20 << 20 <= max(together) <= (40 << 20) + 2 * BASE_BYTES


def test_a_large_frame_is_moved_a_few_times():
    """A frame of 20 MiB in pieces of 50 kB doubles its buffer, so that no byte is copied more than a few times."""
    taken = []

    class Measured(BufferPool):
        __slots__ = ()

        def take(self, capacity=BASE_BYTES):
            taken.append(capacity)
            return super().take(capacity)

    pool = BufferPool(1 << 30)
    pool.__class__ = Measured
    feed = Feed(pool)
    feed.feed(framed(bytes(20 << 20)), 50_000)
    assert len(feed.frames) == 1
    assert len(taken) <= 8


def test_large_frames_of_a_busy_connection_need_no_copy():
    """From the second frame of 1 MiB on, the buffer has the frame's size from its first byte."""
    feed = Feed()
    for _ in range(3):
        feed.feed(framed(bytes(1_000_000)))
    assert len(feed.receiver.writable()) >= 1_000_004


def test_a_sweep_forgets_that_frames_were_large():
    """After a quiet time the connection reads into the common buffer again."""
    feed = Feed()
    feed.feed(framed(bytes(1_000_000)))
    assert feed.receiver.too_slow(0.0) is None
    assert len(feed.receiver.writable()) == BASE_BYTES


def test_a_stall_leaves_the_rest_for_later():
    """When handling a frame stalls the connection, the frames behind it are kept and handled on the next call."""
    feed = Feed()

    def stalling(connection, frame):
        feed.frames.append(bytes(frame))
        connection.stalled = 1

    room = feed.receiver.writable()
    data = framed(b"a" * 10) + framed(b"b" * 10) + framed(b"c" * 10)[:7]
    room[: len(data)] = data
    assert feed.receiver.handle(len(data), feed.connection, stalling, 1000) is False
    assert feed.frames == [b"a" * 10]
    assert feed.receiver.unread_bytes == 21
    feed.connection.stalled = 0
    feed.receiver.handle(0, feed.connection, feed.dispatch, 1000)
    assert feed.frames == [b"a" * 10, b"b" * 10]
    feed.feed(b"c" * 7)
    assert feed.frames[2:] == [b"c" * 10]


def test_bytes_received_during_a_stall_are_kept_apart():
    """Bytes that arrive while no request may be handled do not stay in the common buffer."""
    feed = Feed()
    room = feed.receiver.writable()
    room[:14] = framed(b"a" * 10)
    feed.receiver.received(14)
    assert feed.receiver.buffer is not feed.pool.common
    feed.receiver.handle(0, feed.connection, feed.dispatch, 1000)
    assert feed.frames == [b"a" * 10]


def test_a_turn_ends_after_its_number_of_frames():
    """A read full of tiny requests is handled in turns."""
    feed = Feed()
    data = framed(b"a" * 10) * 5
    feed.receiver.writable()[: len(data)] = data
    assert feed.receiver.handle(len(data), feed.connection, feed.dispatch, 3) is True
    assert len(feed.frames) == 3
    assert feed.receiver.handle(0, feed.connection, feed.dispatch, 3) is False
    assert len(feed.frames) == 5


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 9, (200 << 20) + 1, 2**31 - 1])
def test_impossible_lengths_raise(length):
    """A length that no request has is found before anything is allocated for it."""
    feed = Feed()
    with pytest.raises(FrameError):
        feed.feed(struct.pack(">i", length) + bytes(20))


def test_slow_frames_are_noticed(monkeypatch):
    """A frame that has begun must make progress; the clock starts with its first byte, not with its last read."""
    monkeypatch.setattr(receiving, "SLOW_FRAME_SECONDS", 10.0)
    feed = Feed()
    feed.connection.read_at = 100.0
    feed.feed(struct.pack(">i", 16 << 10))
    feed.connection.read_at = 109.0
    feed.feed(b"x")
    assert feed.receiver.too_slow(109.9) is None
    assert "16388 bytes is incomplete after 11 s" in feed.receiver.too_slow(110.9)
    assert feed.receiver.too_slow(112.0, stalled=True) is None  # the broker did not read
    feed.feed(bytes((16 << 10) - 1))
    assert feed.receiver.too_slow(1000.0) is None


def test_closing_gives_the_buffer_back():
    """A connection that ends inside a frame leaves nothing behind."""
    feed = Feed()
    feed.feed(struct.pack(">i", 50_000) + bytes(100))
    feed.receiver.may_go_on()
    feed.receiver.close()
    assert feed.pool.used_bytes == 0


def test_a_turn_is_over_when_its_time_is():
    """Many large requests that came together do not keep the loop for all of them; the rest is handled next turn."""
    feed = Feed()
    now = iter(range(100))
    feed.receiver = FrameReceiver(feed.pool, lambda: float(next(now)), list)
    bodies = [bytes(20)] * 5
    stream = b"".join(map(framed, bodies))
    feed.receiver.writable()[: len(stream)] = stream
    assert feed.receiver.handle(len(stream), feed.connection, feed.dispatch, 1000, 0.5) is True
    assert feed.frames == bodies[:2]
    assert feed.receiver.handle(0, feed.connection, feed.dispatch, 1000, 99.0) is False
    assert feed.frames == bodies


def test_small_requests_are_timed_and_those_of_a_shortcut_are_not():
    """Twenty bytes may ask for a lot; what a shortcut takes is cheap, and the clock is not asked after it."""
    feed = Feed()
    feed.receiver = FrameReceiver(feed.pool, lambda: 1.0, list)
    stream = framed(bytes(20)) * 3
    feed.receiver.writable()[: len(stream)] = stream
    assert feed.receiver.handle(len(stream), feed.connection, feed.dispatch, 1000, 0.5) is True
    assert len(feed.frames) == 1
    feed.receiver = FrameReceiver(feed.pool, pytest.fail, list)
    feed.connection.shortcut = SimpleNamespace(handle=lambda *_: True, rests=False)
    feed.feed(framed(bytes(20)) * 3)
    assert len(feed.frames) == 1


def test_a_shortcut_sees_frames_first():
    """Frames that it takes are not dispatched; frames that it leaves are."""
    feed = Feed()
    short, long = b"s" * 20, b"l" * 20
    seen = []

    def handle(connection, frame):
        assert connection is feed.connection
        seen.append(bytes(frame))
        return bytes(frame) == short

    feed.connection.shortcut = SimpleNamespace(handle=handle, rests=False)
    feed.feed(framed(short) + framed(long) + framed(short))
    assert seen == [short, long, short]
    assert feed.frames == [long]


async def test_a_resting_connection_is_read_out_of_turn():
    """If it has sent something, that is handled and it goes on resting; if
    not, its shortcut is called, and it rests no longer.
    """
    loop = asyncio.get_running_loop()
    sockets = ready_sockets_of(loop)
    mine, theirs = socket.socketpair()
    with mine, theirs:
        mine.setblocking(False)
        feed, came = Feed(), []
        shortcut = SimpleNamespace(handle=lambda *_: True, rests=True, nothing_came=lambda: came.append("nothing"))
        feed.connection.shortcut = shortcut
        feed.connection.buffer_updated = came.append
        loop.add_reader(mine.fileno(), pytest.fail)
        transport = SimpleNamespace(get_extra_info=lambda _: mine, abort=pytest.fail)
        feed.receiver.read_when_ready(loop, transport, mine.recv_into, feed.connection)
        theirs.send(b"x")
        await asyncio.sleep(0.01)
        assert mine.fileno() in sockets._resting
        sockets._resting._let_wake(wakes=False)  # as while it is busy
        sockets._resting.due = loop.time() + 3600
        theirs.send(b"xy")
        feed.receiver.look()
        assert came == [1, 2]
        assert mine.fileno() in sockets._resting
        feed.receiver.look()
        assert came == [1, 2, "nothing"]
        assert mine.fileno() not in sockets._resting
        feed.receiver.end()
        loop.remove_reader(mine.fileno())
    FrameReceiver(feed.pool, pytest.fail, list).look()  # of a connection that asyncio reads: nothing to do
