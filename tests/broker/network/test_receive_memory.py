"""The account of receive memory: its rules one by one, and that every frame ends in any interleaving."""

import struct
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.broker.network import receive_memory
from stratalog.broker.network.buffers import BASE_BYTES, BufferPool
from stratalog.broker.network.receive_memory import ReceiveMemory
from stratalog.broker.network.receiving import SLOW_FRAME_BYTES_PER_SECOND, SLOW_FRAME_SECONDS, FrameReceiver

MIB = 1 << 20


def begin(memory, host="a", held=BASE_BYTES, now=0.0):
    """A frame with an ordinary buffer."""
    memory.used_bytes += held
    memory.unfinished_bytes += held
    return memory.begin(host, held, now, lambda: None)


def test_an_announcement_alone_is_not_charged():
    """A frame of any length holds what it was given memory for."""
    memory = ReceiveMemory(64 * MIB)
    begin(memory)
    assert memory.large_bytes == BASE_BYTES


def test_unfinished_frames_keep_no_other_from_beginning():
    """Frames that hold 100 MiB of a budget of 64 MiB let others begin; waiting complete requests of 65 MiB do not."""
    memory = ReceiveMemory(64 * MIB)
    begin(memory, held=100 * MIB)
    assert memory.accepts
    memory.used_bytes += 65 * MIB
    assert not memory.accepts


def test_granted_memory_counts_against_the_budget_and_the_address():
    """The sums follow each grant, and are nothing after the last frame."""
    memory = ReceiveMemory(64 * MIB)
    first, second = begin(memory, "a"), begin(memory, "b")
    assert memory.ask(first, 4 * MIB)
    assert memory.ask(second, 2 * MIB)
    assert (memory.large_bytes, memory.hosts) == (6 * MIB, {"a": 4 * MIB, "b": 2 * MIB})
    memory.end(first)
    memory.end(second)
    assert (memory.large_bytes, memory.hosts, memory.waits) == (0, {}, False)


def test_one_frame_goes_on_beyond_the_budget_and_the_next_waits():
    """A frame larger than the budget can be received; a second one has its turn after it."""
    memory = ReceiveMemory(MIB)
    first, second = begin(memory), begin(memory)
    assert memory.ask(first, 50 * MIB)
    assert not memory.ask(second, 2 * MIB)
    assert memory.waiting_count == 1
    assert memory.awake() == []
    memory.end(first)
    assert memory.awake() == [second]
    assert second.held_bytes == 2 * MIB


def test_a_reserve_is_left_for_small_frames():
    """Large frames get seven eighths of the budget, except the one that always goes on."""
    memory = ReceiveMemory(64 * MIB, per_host_bytes=1 << 40)
    frames = [begin(memory) for _ in range(80)]
    granted = sum(memory.ask(frame, MIB) for frame in frames)
    assert memory.large_bytes <= 56 * MIB
    assert granted == 55  # the last of them beyond the budget; the rest hold their ordinary buffers
    assert memory.accepts


def test_an_address_has_its_share():
    """Frames of one address wait while those of another still get memory."""
    memory = ReceiveMemory(64 * MIB)
    mine = [begin(memory, "a") for _ in range(40)]
    granted = [memory.ask(frame, MIB) for frame in mine]
    assert memory.hosts["a"] <= 33 * MIB + 10 * BASE_BYTES
    assert not all(granted)
    assert memory.ask(begin(memory, "b"), 8 * MIB)


def test_the_first_of_the_address_that_holds_least_goes_on():
    """An address that holds much cannot take the turn of one that holds little."""
    memory = ReceiveMemory(64 * MIB)
    holder = begin(memory, "a")
    assert memory.ask(holder, 60 * MIB)
    waiting = [begin(memory, "a"), begin(memory, "b"), begin(memory, "b")]
    assert [memory.ask(frame, 60 * MIB) for frame in waiting] == [False, False, False]
    memory.settle(begin(memory, "a"), 20 * MIB)
    memory.end(holder)
    assert memory.awake() == [waiting[1]]


def test_frames_do_not_overtake_others_of_their_address():
    """A small wish waits behind a large one of the same address."""
    memory = ReceiveMemory(64 * MIB)
    assert memory.ask(begin(memory), 60 * MIB)
    assert memory.ask(begin(memory), 30 * MIB)
    assert not memory.ask(begin(memory), 3 * MIB)
    assert not memory.ask(begin(memory), 2 * BASE_BYTES)


def test_leases_stop_new_frames_and_close_no_connection():
    """Memory of complete requests is freed without the clients."""
    memory = ReceiveMemory(MIB)
    memory.used_bytes = 2 * MIB
    assert not memory.accepts
    frame = begin(memory)
    assert not memory.ask(frame, MIB)  # not even the one that always goes on: leases are not to grow without end
    frame.follow(True, 0.0)
    assert memory.too_late(frame, 0, 50.0) is None
    memory.used_bytes -= 2 * MIB
    assert memory.awake() == [frame]


def test_a_silent_frame_must_go_when_others_wait():
    """It may be slow as long as memory is there for all."""
    memory = ReceiveMemory(8 * MIB)
    silent, other = begin(memory, "a"), begin(memory, "b")
    assert memory.ask(silent, 8 * MIB)
    assert memory.too_late(silent, 100, 1000.0) is None
    assert not memory.ask(other, 5 * MIB)
    assert memory.too_late(silent, 100, 4.9) is None
    assert memory.too_late(silent, 3 * MIB, 7.9) is None
    assert "others wait for its memory" in memory.too_late(silent, 100, 5.1)


def test_small_holders_may_be_slow():
    """An address below the average does not pay for one that holds much."""
    memory = ReceiveMemory(8 * MIB)
    much, little = begin(memory, "much"), begin(memory, "little")
    assert memory.ask(much, 8 * MIB)
    assert memory.ask(begin(memory, "much"), 4 * MIB)
    assert not memory.ask(begin(memory, "much"), 4 * MIB)
    assert memory.too_late(little, 100, 29.0) is None
    assert memory.too_late(much, 100, 29.0) is not None


def test_time_in_which_the_broker_does_not_read_is_no_fault_of_the_client():
    """It does not count as slowness; after a minute of it the connection goes all the same."""
    memory = ReceiveMemory(8 * MIB)
    first, second = begin(memory), begin(memory)
    assert memory.ask(first, 8 * MIB)
    assert not memory.ask(second, 5 * MIB)
    second.follow(True, 1.0)
    second.follow(True, 2.0)
    assert memory.waits_since() == 1.0
    assert memory.too_late(second, 100, 60.0) is None
    assert "held up for 62 s" in memory.too_late(second, 100, 63.0)
    second.follow(False, 60.0)
    assert second.stalled_for(99.0) == 59.0


class Client:
    """Sends one frame at a rate, in virtual time, into a real receiver; its driver does what a connection does."""

    def __init__(self, pool, clock, host, size, rate, silent_after, delay):
        self.pool, self.clock, self.host = pool, clock, host
        self.receiver = FrameReceiver(pool, lambda: clock.now, self._resume)
        self.receiver.from_host(host)
        self.connection = SimpleNamespace(frame_bytes_max=1 << 30, stalled=0, read_at=0.0, shortcut=None)
        self.size, self.rate, self.silent_after, self.delay = size, rate, silent_after, delay
        self.sent = 0
        self.begun_at = self.ended_at = self.closed_at = None

    def _resume(self):
        self.connection.stalled = 0

    @property
    def over(self):
        return self.ended_at is not None or self.closed_at is not None

    def step(self, seconds):
        """The bytes that come in ``seconds``; no more than the receiver takes."""
        if self.clock.now < self.delay or self.over:
            return
        end = min(self.size + 4, self.silent_after)
        budget = int(self.rate * seconds)
        while budget > 0 and self.sent < end and not self.connection.stalled:
            room = self.receiver.writable()
            count = min(len(room), budget, end - self.sent)
            if self.sent < 4:
                count = min(count, 4 - self.sent)
                room[:count] = struct.pack(">i", self.size)[self.sent : self.sent + count]
            if self.begun_at is None:
                self.begun_at = self.clock.now
            self.sent += count
            budget -= count
            self.connection.read_at = self.clock.now
            self.receiver.handle(count, self.connection, self._dispatch, 100)
            self._ask()

    def _dispatch(self, connection, frame):
        assert len(frame) == self.size
        self.ended_at = self.clock.now

    def _ask(self):
        if self.receiver.buffer is None and self.pool.memory.accepts:
            return
        if not self.receiver.may_go_on():
            self.connection.stalled = 1
        if self.receiver.large is not None:
            self.receiver.large.follow(bool(self.connection.stalled), self.clock.now)

    def sweep(self):
        if self.over:
            return
        if not self.connection.stalled and self.receiver.buffer is not None:
            self._ask()
        reason = self.receiver.too_slow(self.clock.now, stalled=bool(self.connection.stalled))
        if reason is not None:
            self.close()

    def close(self):
        self.closed_at = self.clock.now
        self.receiver.close()


def time_allowed(size):
    """Within it a frame has ended or its connection is closed, whatever the others do."""
    reading = SLOW_FRAME_SECONDS + size / SLOW_FRAME_BYTES_PER_SECOND
    return reading + receive_memory.STALLED_SECONDS_MAX + 3.0


def run(pool, clients, clock, seconds):
    """Let everybody send, a second at a time; sweeps happen as often."""
    for _ in range(int(seconds)):
        for client in clients:
            client.step(1.0)
        clock.now += 1.0
        for client in clients:
            client.sweep()
        for client in clients:
            if client.begun_at is not None and not client.over:
                assert clock.now - client.begun_at <= time_allowed(client.size), vars(client)
        memory = pool.memory
        large = [each.receiver.large for each in clients if each.receiver.large is not None]
        assert memory.large_bytes == sum(frame.held_bytes for frame in large if frame is not memory._express)
        # The one frame that always goes on, and an ordinary buffer each, are beyond the budget.
        assert memory.used_bytes <= memory.limit_bytes + 3 * 4 * MIB + BASE_BYTES * len(clients)
        if all(client.over for client in clients):
            return


CLIENTS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from([100, 60_000, 300_000, MIB, 4 * MIB]),
        st.sampled_from([20, 5_000, 20_000, 100_000, 2 * MIB, 8 * MIB]),
        st.sampled_from([4, 10, 50_000, 700_000, 1 << 40, 1 << 40, 1 << 40]),
        st.integers(0, 40),
    ),
    min_size=1,
    max_size=14,
)


@given(CLIENTS, st.sampled_from([MIB, 4 * MIB, 9 * MIB]))
def test_a_begun_frame_is_completed_or_its_connection_closed(plans, budget):
    """Fast, slow, dripping and silent clients of a few addresses: in any mix everybody is done within the time allowed.

    A client that fits into an ordinary buffer and does not stop is never closed but for its own slowness. In the end
    no memory is held.
    """
    clock = SimpleNamespace(now=0.0)
    pool = BufferPool(budget)
    clients = [Client(pool, clock, *plan) for plan in plans]
    run(pool, clients, clock, 700)
    for client in clients:
        assert client.over
        small = client.size + 4 <= BASE_BYTES
        if small and client.silent_after > client.size + 4 and client.rate >= 5_000:
            assert client.ended_at is not None
    assert (pool.memory.used_bytes, pool.memory.unfinished_bytes, pool.memory.large_bytes) == (0, 0, 0)
    assert (pool.memory.hosts, pool.waiting_count) == ({}, 0)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([MIB, 4 * MIB])), min_size=1, max_size=10))
def test_honest_clients_all_end(plans):
    """Clients that send when they are read are all served, however small the budget is."""
    clock = SimpleNamespace(now=0.0)
    pool = BufferPool(4 * MIB)
    clients = [Client(pool, clock, host, size, 4 * MIB, 1 << 40, 0) for host, size in plans]
    run(pool, clients, clock, 100)
    assert [client.closed_at for client in clients] == [None] * len(clients)


@pytest.mark.parametrize("sent", [10, 60_000, 300_000])
def test_announced_frames_stop_no_other_client(sent):
    """A hundred silent announcements of 100 MiB from one address: small frames pass at once, large ones within seconds."""
    clock = SimpleNamespace(now=0.0)
    pool = BufferPool(16 * MIB)
    silent = [Client(pool, clock, "evil", 100 * MIB, 8 * MIB, sent, 0) for _ in range(100)]
    small = [Client(pool, clock, host, 1000, MIB, 1 << 40, 2) for host in ("evil", "good")]
    large = [Client(pool, clock, "good", 4 * MIB, 8 * MIB, 1 << 40, 2) for _ in range(3)]
    run(pool, [*silent, *small, *large], clock, 60)
    assert [client.ended_at for client in small] == [2.0, 2.0]
    assert all(client.ended_at is not None and client.ended_at <= 15.0 for client in large)
    assert all(client.closed_at is not None for client in silent)


class Endless(Client):
    """Sends one frame after the other without a break: the next has always begun when one ends."""

    ended = 0

    def _dispatch(self, connection, frame):
        assert len(frame) == self.size
        self.ended += 1

    def step(self, seconds):
        budget = int(self.rate * seconds)
        while budget > 0 and self.closed_at is None and not self.connection.stalled:
            room = self.receiver.writable()
            into = self.sent % (self.size + 4)
            left = self.size + 4 - into
            count = min(len(room), budget, left + 2)  # two bytes of the next frame as well
            header, data = struct.pack(">i", self.size), bytearray(count)
            data[: min(count, max(4 - into, 0))] = header[into : into + count]
            data[left:] = header[: max(count - left, 0)]
            room[:count] = data
            self.sent += count
            budget -= count
            self.connection.read_at = self.clock.now
            self.receiver.handle(count, self.connection, self._dispatch, 100)
            self._ask()


@pytest.mark.story
@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([300_000, MIB, 4 * MIB])), min_size=1, max_size=8),
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([300_000, 4 * MIB])), min_size=1, max_size=2),
)
def test_honest_clients_all_end_beside_endless_ones(plans, greedy):
    """In any mix each has its turn, and what all hold together stays within the bounds that `run` checks."""
    clock = SimpleNamespace(now=0.0)
    pool = BufferPool(4 * MIB)
    endless = [Endless(pool, clock, host, size, 4 * MIB, 1 << 40, 0) for host, size in greedy]
    honest = [Client(pool, clock, host, size, 4 * MIB, 1 << 40, 1) for host, size in plans]
    run(pool, [*endless, *honest], clock, 40)
    assert all(client.ended_at is not None for client in honest)


def test_a_client_that_sends_large_frames_without_end_lets_others_have_their_turn():
    """Each frame is larger than the budget, and goes on beyond it: that is for one frame, not for one connection."""
    clock = SimpleNamespace(now=0.0)
    pool = BufferPool(4 * MIB)
    endless = Endless(pool, clock, "a", 8 * MIB, 8 * MIB, 1 << 40, 0)
    others = [Client(pool, clock, host, 8 * MIB, 8 * MIB, 1 << 40, 2) for host in ("a", "b", "c")]
    for _ in range(30):
        for client in (endless, *others):
            client.step(1.0)
        clock.now += 1.0
        for client in (endless, *others):
            client.sweep()
    assert [client.closed_at for client in (endless, *others)] == [None] * 4
    assert all(client.ended_at is not None and client.ended_at < 20.0 for client in others)
    assert endless.ended > 5
