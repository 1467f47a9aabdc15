"""Requests without sockets, threads and time of their own: two runs of the same requests end in the same state."""

import asyncio
import os
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from stratalog.broker.fetches.fetch_sessions import FetchSessions
from stratalog.broker.network.buffers import BufferPool
from stratalog.broker.network.connection import Connection
from stratalog.broker.network.connection_services import Services
from stratalog.broker.replicas.directory_writer import DirectoryWriter
from stratalog.broker.replicas.partition import Partition
from stratalog.broker.replicas.partition_table import PartitionTable
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.requests.dispatch import Api, Dispatcher
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.runtime.purgatory import Purgatory
from stratalog.broker.runtime.tick import Tick
from stratalog.broker.settings.listeners import Listener, SecurityProtocol
from stratalog.client.records import fetch, visible_records
from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.coordination import Producer
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from stratalog.wire.messages.end_txn import EndTxnRequest
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest
from stratalog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from stratalog.wire.messages.leave_group import LeaveGroupRequest
from stratalog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from stratalog.wire.rework import rework
from stratalog.wire.topic import TopicPartition
from tests.broker.api.rig_image import IMAGE, NAMES

NOW_MS = 1_700_000_000_000

WITH_SHORTCUTS = {
    "test_produce",
    "test_produce_transactions",
    "test_fetch",
    "test_join_group",
    "test_consumer_group_heartbeat",
}
"""The files of the APIs that have shortcuts; their tests of whole brokers run with them and without."""


def pytest_generate_tests(metafunc) -> None:
    """Run the tests of those files twice, where they start a broker."""
    if metafunc.module.__name__.rpartition(".")[2] in WITH_SHORTCUTS and "shortcuts" in metafunc.fixturenames:
        metafunc.parametrize("shortcuts", [True, False], ids=["short", "decoded"], indirect=True, scope="module")


@pytest.fixture(scope="module")
def shortcuts(request) -> bool:
    """Whether brokers of the test may handle requests without decoding them."""
    return getattr(request, "param", True)


@pytest.fixture
def start_node(start_node, shortcuts):
    """Start nodes that have shortcuts or not."""
    return partial(start_node, stratalog_request_shortcuts=str(shortcuts).lower())


@pytest.fixture(scope="module")
def start_shared_node(start_shared_node, shortcuts):
    """The same for all tests of a file."""
    return partial(start_shared_node, stratalog_request_shortcuts=str(shortcuts).lower())


class Loop:
    """An event loop that runs on demand, and whose threads are done at once."""

    def __init__(self) -> None:
        self.due: list[partial] = []
        self.later: list[tuple[float, int, partial]] = []
        self.now = 100.0

    def call_soon(self, callback, *arguments) -> None:
        self.due.append(partial(callback, *arguments))

    def call_later(self, seconds, callback, *arguments) -> SimpleNamespace:
        later = (self.now + seconds, len(self.later), partial(callback, *arguments))
        self.later.append(later)
        return SimpleNamespace(cancel=partial(self.later.remove, later))

    call_soon_threadsafe = submit = call_soon

    def time(self) -> float:
        return self.now

    def run(self) -> None:
        """Until nothing is left, with what was to come later and is due by now."""
        for later in sorted(self.later):
            if later[0] <= self.now:
                self.later.remove(later)
                self.due.append(later[2])
        while self.due:
            due, self.due = self.due, []
            for callback in due:
                callback()


class Socket(asyncio.Transport):
    """A transport that keeps what is written, and asks for the sender that goes through it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("client", 1), "ssl_object": object()})
        self.sent = bytearray()
        self.ended = self.paused = False

    def write(self, data) -> None:
        self.sent += data

    def abort(self) -> None:
        self.ended = True

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Rig:
    """Two partitions of each topic in a folder, and connections whose requests take the ways that ``api`` offers."""

    def __init__(self, folder: Path, api: Api, authorizer=None) -> None:
        self.folder = folder
        self.loop = Loop()
        self.clock = SimpleNamespace(monotonic=self.loop.time, wall_ms=lambda: NOW_MS + int(self.loop.now * 1000))
        self.metrics = Metrics()
        self.table = PartitionTable()
        self.reworks: list = []
        tick = Tick(self.loop)
        self.directory = DirectoryWriter(
            str(folder), loop=self.loop, tick=tick, sync_threads=self.loop, on_failed=lambda *_: None
        )
        self.partitions = [self._partition(name, number) for name in NAMES for number in (0, 1)]
        broker = SimpleNamespace(
            partitions=self.table,
            clock=self.clock,
            config=SimpleNamespace(
                boolean={"transaction.partition.verification.enable": True}.get,
                integer={
                    "fetch.max.bytes": 1 << 20,
                    "max.incremental.fetch.session.cache.slots": 9,
                    "stratalog.request.elements.max": 9,
                }.get,
            ),
            transactions=SimpleNamespace(enlistment=self),
            server=SimpleNamespace(connections={}),
            purgatory=Purgatory(self.loop, self.clock),
            metrics=self.metrics,
            views=SimpleNamespace(access_name=lambda name: name),
            image=IMAGE,
        )
        ids = count(4)
        broker.fetch_sessions = FetchSessions(broker.config, self.clock, lambda _: next(ids), self.metrics)
        for one in self.partitions:
            one.partition.watchers.add(partial(broker.purgatory.check, one))
        self.broker = broker
        self.dispatcher = Dispatcher(
            broker, [api], metrics=self.metrics, monotonic=self.clock.monotonic, authorizer=authorizer
        )
        pool = BufferPool(1 << 30)
        memory = SimpleNamespace(resident=lambda *_: True)
        self.services = Services(
            self.loop, self.clock, tick, pool, memory, self.metrics.network, self.dispatcher.dispatch
        )
        self.connection: Connection = None
        self.connections: list[Connection] = []
        self.connect()

    def enlist(self, transactional_id, producer, appends, *, adds) -> None:
        """A coordinator that is there at once and knows every producer."""
        for one in appends:
            if producer.producer_id < 0:
                one.refuse(KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
            else:
                one.go_on()

    def is_asking(self, _partition, _producer) -> bool:
        """Appends wait for nothing here."""
        return False

    def connect(self) -> None:
        """From now on the client uses a new connection."""
        listener = Listener("TEST", SecurityProtocol.PLAINTEXT, "127.0.0.1", 1)
        self.connection = Connection(self.services, listener, lambda _: True, lambda _: None)
        self.connection.connection_made(Socket())
        self.connections.append(self.connection)

    def _partition(self, name: str, number: int) -> UnifiedLog:
        path = self.folder / f"{name}-{number}"
        path.mkdir()
        config = LogConfig(flush_messages=1 if name == "t" else 1 << 60, max_message_bytes=20_000)
        names = TopicPartition(name, number)
        log = Log.open(str(path), names, name.encode().ljust(16), config, files=RealFilesystem(), now_ms=0, clean=True)
        one = Partition(log, directory=self.directory, high_watermark=0, clock=self.clock, rework=self._rework)
        one.lead(1, 3, replicas=(1,), in_sync=(1,))
        unified = UnifiedLog(one, self.metrics.topic(name))
        self.table.add(unified)
        return unified

    def _rework(self, batch, codec, rules, done, opened_bytes_max, source) -> None:
        """A worker that is there at once where a refused batch is only looked at, and never answers otherwise."""
        self.reworks.append((batch, codec, rules))
        if codec is None and not rules.keys_required:
            try:
                done(rework(batch, codec, rules, opened_bytes_max))
            except KafkaError as error:
                done(error)

    def receive(self, data: bytes) -> None:
        """Bytes from the client; the loop does not run yet."""
        while data and not self.connection.closed and not self.connection.stalled:
            room = self.connection.get_buffer(-1)
            count = min(len(room), len(data))
            room[:count] = data[:count]
            self.connection.buffer_updated(count)
            data = data[count:]

    def outcome(self) -> list:
        """Everything that may not depend on the way: answers, logs, counts, what connections know of their client."""
        topics = [
            [getattr(figures, name) for name in figures.__slots__] for _, figures in sorted(self.metrics.topics.items())
        ]
        rows = [
            self.metrics.api(api.name, version)
            for api in self.dispatcher.apis
            for version in range(api.versions[0], api.versions[1] + 1)
        ]
        counts = [(row.errors, row.time_us, list(row.time_buckets)) for row in rows]
        ends = [
            (one.closed, one.client_id, one.client_id_bytes, one.parked, one.stalled, bytes(one._transport.sent))
            for one in self.connections
        ]
        logs = [
            (one.log.log_end_offset, one.partition.high_watermark, one.log.producer_state.to_bytes())
            for one in self.partitions
        ]
        files = [path.read_bytes() for path in sorted(self.folder.rglob("*.log"))]
        return [topics, counts, ends, logs, files, len(self.reworks), self.services.buffers.used_bytes]

    def close(self) -> None:
        """Let go of the files."""
        for one in self.partitions:
            one.log.close()


@pytest.fixture
def broker_rig(monkeypatch):
    """Makes rigs: ``broker_rig(folder, api, authorizer=...)``. Their syncs succeed and take no time."""
    monkeypatch.setattr(os, "fdatasync", lambda _: None)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    return Rig


@pytest.fixture
def now_ms() -> int:
    """The wall-clock time of a rig, give or take."""
    return NOW_MS


class Transactions:
    """A broker, a topic ``t`` of three partitions, and requests of transactional producers in a line each."""

    def __init__(self, broker) -> None:
        self.broker = broker
        self.topic_id = broker.create("t", 3).topic_id
        self.link = broker.link()
        self.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 6)
        self.wait_for(lambda: not broker.node.transactions.loading)

    def call(self, request, version, link=None):
        return (link or self.link).call(request, version)

    def wait_for(self, condition):
        return self.broker.wait_until(condition)

    def init(self, transactional_id="x", *, version=5, timeout_ms=60_000, **options):
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, **options)
        return self.call(request, version)

    def producer(self, transactional_id="x"):
        answer = self.init(transactional_id)
        assert answer.error_code == 0
        return Producer(answer.producer_id, answer.producer_epoch)

    def add(self, producer, *partitions, transactional_id="x", version=3, topic="t"):
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        answer = self.call(request, version)
        return [
            one.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        ]

    def end(self, producer, *, commit=True, transactional_id="x", version=5):
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=commit,
        )
        return self.call(request, version)

    def produce_request(
        self, producer, *partitions, values=(b"v",), sequence=0, transactional_id="x", transactional=True, topic="t"
    ):
        batch = build_batch(
            [Record(n, self.broker.node.clock.wall_ms(), None, value) for n, value in enumerate(values)],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        data = [PartitionProduceData(index=number, records=bytes(batch)) for number in partitions]
        there = TopicProduceData(name=topic, topic_id=self.topic_id, partition_data=data)
        return ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=30_000, topic_data=[there])

    def produce(self, producer, *partitions, version=12, **options):
        """The error codes of a produce request."""
        answer = self.call(self.produce_request(producer, *partitions, **options), version)
        return [one.error_code for topic in answer.responses for one in topic.partition_responses]

    def state(self, transactional_id="x"):
        """The coordinator's state, by its title."""
        return self.broker.run(self._state, transactional_id)

    def _state(self, transactional_id):
        return self.transaction(transactional_id).status.title

    def transaction(self, transactional_id="x"):
        return self.broker.node.transactions.host.of(transactional_id).shard.transactions[transactional_id]

    def settled(self, transactional_id="x"):
        """Wait for the markers."""
        self.wait_for(lambda: self._state(transactional_id).startswith("Complete"))

    def committed(self, partition=0):
        """The values that a read_committed consumer sees."""
        client, name, position, values = self.broker.client(), TopicPartition("t", partition), 0, []
        while True:
            (fetched,) = fetch(client, {name: position}, max_wait_ms=0)
            if not fetched.data:
                return values
            for next_offset, records in visible_records(fetched, position):
                values += [record.value for record in records]
                position = next_offset


@pytest.fixture
def transactions(start_node):
    """A broker with transactions, whose topics of coordinators are small."""
    broker = start_node(
        transaction_state_log_num_partitions=2,
        offsets_topic_num_partitions=2,
        transaction_abort_timed_out_transaction_cleanup_interval_ms=20,
        group_initial_rebalance_delay_ms=0,
    )
    return Transactions(broker)


@pytest.fixture(scope="module")
def link_to_groups(start_shared_node):
    """A connection to a broker with a group ``busy`` of one member, and an empty one."""
    node = start_shared_node(group_initial_rebalance_delay_ms="0")
    link = node.link()
    link.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    node.wait_until(lambda: not node.node.groups.loading)
    for group in ("busy", "empty"):
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        member_id = link.call(request, 0).member_id
        if group == "empty":
            link.call(LeaveGroupRequest(group_id=group, member_id=member_id), 0)
    return link
