"""Fetch sessions of a whole broker (KIP-227): their answers, the wake-up of a request, and how sessions end."""

import pytest

from stratalog.client.admin import delete_topics
from stratalog.wire.batch import build_control_batch, iter_headers
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from stratalog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

WIDE = 1 << 20


class Consumer:
    """One reader with one session, as clients keep them: it goes on behind what it has got."""

    def __init__(self, broker, topic, *numbers, version=18, link=None, isolation_level=0, **options):
        self.broker, self.version, self.isolation_level = broker, version, isolation_level
        self.topic = topic
        self.topic_id = broker.partition(topic).topic_id
        self.link = link or broker.link()
        self.offsets = dict.fromkeys(numbers or (0,), 0)
        self.epoch = self.session_id = 0
        self.answer = self.link.call(self.request(*self.offsets, **options), version)
        assert self.answer.error_code == 0
        self.session_id = self.answer.session_id
        self.take(self.answer)

    def request(self, *numbers, forget=(), wait_ms=0, min_bytes=1, max_bytes=1 << 26, epoch=None):
        """A request that names these partitions."""
        partitions = [
            FetchPartition(partition=one, fetch_offset=self.offsets[one], partition_max_bytes=WIDE) for one in numbers
        ]
        forgotten = [ForgottenTopic(topic=self.topic, topic_id=self.topic_id, partitions=list(forget))]
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=self.isolation_level,
            session_id=self.session_id,
            session_epoch=self.epoch if epoch is None else epoch,
            topics=[FetchTopic(topic=self.topic, topic_id=self.topic_id, partitions=partitions)] if numbers else [],
            forgotten_topics_data=forgotten if forget else [],
        )

    def take(self, answer):
        """Read on behind the records of an answer, which is kept as partition by number."""
        self.epoch += 1
        self.told = {one.partition_index: one for topic in answer.responses for one in topic.partitions}
        self.moved = []
        for number, one in self.told.items():
            ends = [header.next_offset for _, header in iter_headers(one.records or b"")]
            if ends:
                self.offsets[number] = ends[-1]
                self.moved.append(number)
        return self.told

    def poll(self, *numbers, **options):
        """The next request of the session; what it tells."""
        self.send(*numbers, **options)
        return self.receive()

    def send(self, *numbers, **options):
        """Only the request."""
        self.link.send(self.request(*dict.fromkeys([*self.moved, *numbers]), **options), self.version)

    def receive(self):
        """Only its answer."""
        self.answer = self.link.receive()
        assert (self.answer.error_code, self.answer.session_id) == (0, self.session_id)
        return self.take(self.answer)

    def error(self, **options):
        """The error that a request of the session gets."""
        answer = self.link.call(self.request(**options), self.version)
        assert answer.responses == []
        return answer.error_code


def batches(told):
    """The number of batches by partition."""
    return {number: len(list(iter_headers(one.records or b""))) for number, one in told.items()}


@pytest.mark.parametrize("version", [7, 12, 13, 18])
def test_only_news_is_answered(broker, version):
    """Records, then nothing; of three partitions the one that changed; the names or ids of requests in every version."""
    broker.create("t", 3)
    broker.produce("t", b"a", partition=1)
    consumer = Consumer(broker, "t", 0, 1, 2, version=version)
    assert batches(consumer.told) == {0: 0, 1: 1, 2: 0}
    assert consumer.session_id > 0
    assert consumer.poll() == {}
    broker.produce("t", b"b", partition=2)
    told = consumer.poll()
    assert batches(told) == {2: 1}
    assert (told[2].high_watermark, told[2].last_stable_offset, told[2].log_start_offset) == (1, 1, 0)
    head = consumer.answer.responses[0]
    assert (head.topic, head.topic_id) == (("t", bytes(16)) if version < 13 else ("", consumer.topic_id))
    assert [consumer.poll() for _ in range(3)] == [{}, {}, {}]


def test_partitions_come_and_go(broker):
    """A request adds, and takes out what is never told again; without any partition the session is gone."""
    broker.create("t", 3)
    consumer = Consumer(broker, "t", 0, 1)
    consumer.offsets[2] = 0
    assert set(consumer.poll(2)) == {2}
    assert consumer.poll(forget=[0, 7]) == {}
    for number in range(3):
        broker.produce("t", b"v", partition=number)
    assert batches(consumer.poll()) == {1: 1, 2: 1}
    answer = consumer.link.call(consumer.request(forget=[1, 2], wait_ms=20_000), 18)
    assert (answer.error_code, answer.session_id, answer.responses) == (0, 0, [])
    assert consumer.error(epoch=consumer.epoch + 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_epochs_and_ids_are_checked(broker):
    """Another epoch is invalid and changes nothing; a session that was never opened is not found."""
    broker.create("t")
    consumer = Consumer(broker, "t")
    assert consumer.poll() == {}
    for epoch in (1, 3, -2):
        assert consumer.error(epoch=epoch) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert consumer.poll() == {}
    consumer.session_id += 1
    assert consumer.error() == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize(("first", "then"), [(12, 13), (13, 12)])
def test_a_session_keeps_to_names_or_to_ids(broker, first, then):
    """FETCH_SESSION_TOPIC_ID_ERROR for a request of the other kind; the session goes on."""
    broker.create("t")
    consumer = Consumer(broker, "t", version=first)
    consumer.version = then
    assert consumer.error() == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    consumer.version = first
    assert consumer.poll() == {}


def test_a_full_fetch_closes_the_session_it_names(broker):
    """With epoch 0 another one begins, with -1 none."""
    broker.create("t")
    first = Consumer(broker, "t")
    again = first.link.call(first.request(0, epoch=0), 18)
    assert again.session_id not in (0, first.session_id)
    assert first.error() == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    first.session_id = again.session_id
    assert first.link.call(first.request(0, epoch=-1), 18).session_id == 0
    assert len(broker.node.fetch_sessions.cache) == 0
    assert not [one for one in broker.partition("t").partition.watchers if hasattr(one, "session")]


def test_a_closing_request_without_partitions_does_not_wait(broker):
    """That is how consumers say good-bye."""
    broker.create("t")
    consumer = Consumer(broker, "t")
    answer = consumer.link.call(consumer.request(epoch=-1, wait_ms=25_000), 18)
    assert (answer.error_code, answer.session_id, answer.responses) == (0, 0, [])


def test_a_waiting_request_is_woken_by_the_partition_that_changes(broker):
    """One append to one of many partitions; the answer holds only that one."""
    broker.create("t", 5)
    consumer = Consumer(broker, "t", *range(5))
    consumer.poll()
    for number in (3, 1, 3):
        consumer.send(wait_ms=25_000)
        broker.wait_until(lambda: len(broker.node.purgatory) == 1)
        broker.produce("t", b"woken", partition=number)
        assert batches(consumer.receive()) == {number: 1}
    assert len(broker.node.purgatory) == 0


def test_a_waiting_request_leaves_empty_when_its_time_is_over(broker):
    """And the next one goes on."""
    broker.create("t")
    consumer = Consumer(broker, "t")
    assert consumer.poll(wait_ms=30) == {}
    assert consumer.poll(wait_ms=30) == {}


def test_min_bytes_gathers_over_partitions(broker, new_batch):
    """The answer leaves when all together have enough, with everything."""
    broker.create("t", 2)
    consumer = Consumer(broker, "t", 0, 1)
    size = len(new_batch(b"x" * 100))
    consumer.send(wait_ms=25_000, min_bytes=2 * size)
    broker.wait_until(lambda: len(broker.node.purgatory) == 1)
    broker.append("t", new_batch(b"x" * 100))
    assert len(broker.node.purgatory) == 1
    broker.append("t", new_batch(b"x" * 100), partition=1)
    assert batches(consumer.receive()) == {0: 1, 1: 1}


def test_partitions_take_turns_when_an_answer_is_small(start_node, new_batch):
    """fetch.max.bytes leaves room for one batch an answer: each partition gets its turn."""
    broker = start_node(fetch_max_bytes=1024)
    broker.create("t", 4)
    for number in range(4):
        for _ in range(3):
            broker.append("t", new_batch(b"x" * 1000), partition=number)
    consumer = Consumer(broker, "t", 0, 1, 2, 3)
    turns = [consumer.moved]
    for _ in range(11):
        consumer.poll()
        turns.append(consumer.moved)
    assert turns == [[number] for number in (0, 1, 2, 3)] * 3


def test_read_committed_is_woken_by_the_end_of_a_transaction(broker, new_batch):
    """Records of an open transaction are not seen; the marker brings them, and the last stable offset."""
    broker.create("t")
    consumer = Consumer(broker, "t", isolation_level=1)
    own = {"producer_id": 7, "producer_epoch": 0, "transactional": True}

    def write(batch):
        broker.run(lambda: broker.partition("t").partition.leader.append_as_leader(batch, lambda _: None))

    write(new_batch(b"x", base_sequence=0, **own))
    broker.wait_until(lambda: broker.partition("t").partition.high_watermark == 1)
    told = consumer.poll()
    assert (batches(told), told[0].high_watermark, told[0].last_stable_offset) == ({0: 0}, 1, 0)
    consumer.send(wait_ms=25_000)
    broker.wait_until(lambda: len(broker.node.purgatory) == 1)
    write(build_control_batch(1, bytes(6), offset=0, timestamp_ms=5, leader_epoch=0, **own))
    told = consumer.receive()
    assert (batches(told), told[0].high_watermark, told[0].last_stable_offset) == ({0: 2}, 2, 2)


def test_another_isolation_level_is_another_view(broker, new_batch):
    """Records that read_committed did not see read_uncommitted sees at once."""
    broker.create("t")
    broker.run(
        lambda: broker.partition("t").partition.leader.append_as_leader(
            new_batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True), lambda _: None
        )
    )
    broker.wait_until(lambda: broker.partition("t").partition.high_watermark == 1)
    consumer = Consumer(broker, "t", isolation_level=1)
    assert (batches(consumer.told), consumer.poll()) == ({0: 0}, {})
    consumer.isolation_level = 0
    assert batches(consumer.poll()) == {0: 1}


@pytest.mark.parametrize(
    ("version", "code"), [(12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (18, ErrorCode.UNKNOWN_TOPIC_ID)]
)
def test_a_topic_deleted_under_a_session(broker, version, code):
    """A waiting request learns of it at once; then its error comes with every answer and keeps none from waiting."""
    broker.create("t")
    broker.create("other")
    consumer = Consumer(broker, "t", version=version)
    consumer.send(wait_ms=25_000)
    broker.wait_until(lambda: len(broker.node.purgatory) == 1)
    delete_topics(broker.client(), ["t"])
    assert consumer.receive()[0].error_code == code
    consumer.send(wait_ms=150)
    broker.wait_until(lambda: len(broker.node.purgatory) == 1)
    assert consumer.receive()[0].error_code == code


def test_a_topic_made_again_under_a_session(broker):
    """By name it is the same partition with other records; by id it stays unknown."""
    broker.create("t")
    broker.produce("t", b"a", b"b")
    by_name, by_id = Consumer(broker, "t", version=12), Consumer(broker, "t", version=13)
    delete_topics(broker.client(), ["t"])
    broker.create("t")
    assert by_name.poll()[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    by_name.offsets[0] = 0
    assert (by_name.poll(0)[0].error_code, by_name.told[0].high_watermark) == (0, 0)
    broker.produce("t", b"new")
    assert batches(by_name.poll()) == {0: 1}
    assert by_id.poll()[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_leader_epochs_are_checked_in_sessions(broker):
    """A newer epoch than ours is unknown, for this partition alone; the
    error is answered until the reader knows better.
    """
    broker.create("t")
    consumer = Consumer(broker, "t")
    ahead = consumer.request(0)
    ahead.topics[0].partitions[0].current_leader_epoch = 99
    assert consumer.take(consumer.link.call(ahead, 18))[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert consumer.poll()[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert consumer.poll(0)[0].error_code == 0
    assert consumer.poll() == {}


def test_a_log_start_that_moves_is_news(broker):
    """DeleteRecords is news for readers that are beyond it."""
    topic_id = broker.create("t").topic_id
    broker.produce("t", b"a", b"b")
    consumer = Consumer(broker, "t")
    consumer.poll()
    part = DeleteRecordsPartition(partition_index=0, offset=1)
    broker.client().call(
        DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[part])], timeout_ms=9999)
    )
    one = next(iter(broker.node.fetch_sessions.cache._by_use.values()))
    broker.wait_until(lambda: one.dirty)
    assert consumer.poll()[0].log_start_offset == 1
    assert topic_id == consumer.topic_id


def test_another_connection_takes_a_session_over(broker):
    """The request that waits on the old one gets an error: its epoch has passed."""
    broker.create("t")
    old = Consumer(broker, "t")
    old.send(wait_ms=25_000)
    broker.wait_until(lambda: len(broker.node.purgatory) == 1)
    new = broker.link()
    old.epoch += 1
    assert new.call(old.request(), 18).error_code == 0
    assert old.link.receive().error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_requests_sent_ahead_are_answered_in_order(broker):
    """The one that waits leaves with what there is when the next of its connection comes."""
    broker.create("t")
    consumer = Consumer(broker, "t")
    consumer.send(wait_ms=25_000)
    broker.wait_until(lambda: len(broker.node.purgatory) == 1)
    consumer.epoch += 1
    consumer.send(wait_ms=0)
    consumer.epoch -= 1
    assert [consumer.receive(), consumer.receive()] == [{}, {}]


def test_a_request_that_waits_in_a_closed_session_is_answered(broker):
    """Another connection closes it: no request waits for ever for a partition without a watcher."""
    broker.create("t")
    consumer = Consumer(broker, "t")
    consumer.send(wait_ms=25_000)
    broker.wait_until(lambda: len(broker.node.purgatory) == 1)
    broker.link().call(consumer.request(epoch=-1), 18)
    assert consumer.receive() == {}


def test_a_client_that_hangs_up_leaves_nothing_waiting(broker):
    """The session stays, for it may come back; its request is forgotten."""
    broker.create("t")
    consumer = Consumer(broker, "t")
    consumer.send(wait_ms=25_000)
    broker.wait_until(lambda: len(broker.node.purgatory) == 1)
    consumer.link.close()
    broker.wait_until(lambda: len(broker.node.purgatory) == 0)
    broker.produce("t", b"later")
    consumer.link = broker.link()
    consumer.epoch += 1
    assert batches(consumer.poll()) == {0: 1}


@pytest.mark.parametrize(("slots", "sessions"), [(0, [0, 0]), (1, [1, 0])])
def test_slots_bound_the_sessions(start_node, slots, sessions):
    """A client without a slot goes on with full fetches; the figures say how many there are."""
    broker = start_node(max_incremental_fetch_session_cache_slots=slots)
    broker.create("t", 2)
    opened = [Consumer(broker, "t", 0, 1) for _ in range(2)]
    assert [int(one.session_id > 0) for one in opened] == sessions
    text = broker.run(broker.node.metrics.render).decode()
    name = "kafka_server_fetchsessioncache_numincrementalfetch"
    assert f"{name}sessions {float(slots)}" in text
    assert f"{name}partitionscached {2.0 * slots}" in text


def test_a_session_does_not_outlive_the_broker(broker):
    """It is in memory: its client opens another."""
    broker.create("t")
    consumer = Consumer(broker, "t")
    broker.restart()
    consumer.link = broker.link()
    assert consumer.error() == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.story
def test_cold_records_come_through_a_session(start_node):
    """Records that only the archive holds are fetched while the request waits, and answered when they have come."""
    broker = start_node(log_retention_check_interval_ms="100")
    broker.create(
        "t", 2, remote_storage_enable="true", internal_segment_bytes=2000, local_retention_bytes=0, retention_ms=-1
    )
    for _ in range(10):
        broker.produce("t", *[b"v" * 100] * 5)
    broker.wait_until(lambda: broker.partition("t").log.local_log_start_offset > 20)
    consumer = Consumer(broker, "t", 0, 1, wait_ms=20_000)
    count = sum(batches(consumer.told).values())
    while consumer.offsets[0] < 50:
        count += sum(batches(consumer.poll(wait_ms=20_000)).values())
    assert count == 10
    assert consumer.poll() == {}
