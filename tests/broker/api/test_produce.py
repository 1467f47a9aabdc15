"""Produce: what is answered is in the log, what is refused is not."""

from types import SimpleNamespace

import pytest

from stratalog.broker.api import produce
from stratalog.client.client import BrokerUnavailable
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.wire.batch import BATCH_HEADER, CRC_START, Record, build_batch, build_control_batch, read_header
from stratalog.wire.compression import Codec
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.metadata import MetadataRequest
from stratalog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

YEAR_MS = 365 * 86_400_000


def request(topic_id, *batches, acks=-1, name="t", transactional_id=None, partitions=None):
    """A produce request with one batch for each of the partitions."""
    numbers = range(len(batches)) if partitions is None else partitions
    data = [PartitionProduceData(index=number, records=batch) for number, batch in zip(numbers, batches, strict=True)]
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=name, topic_id=topic_id, partition_data=data)],
    )


def with_crc(batch: bytearray, **fields: int) -> bytearray:
    """The batch with other header fields and the CRC that fits them."""
    from crc32c import crc32c

    header = read_header(batch)._replace(**fields)
    BATCH_HEADER.pack_into(batch, 0, *header)
    header = header._replace(crc=crc32c(memoryview(batch)[CRC_START:]))
    BATCH_HEADER.pack_into(batch, 0, *header)
    return batch


@pytest.mark.parametrize("version", range(3, 14))
def test_a_batch_is_appended_and_readable_in_every_version(broker, new_batch, version):
    """The answer carries the base offset, and the records are read back from there."""
    topic_id = broker.create("t", 2).topic_id
    link = broker.link()
    for base in (0, 2):
        answer = link.call(request(topic_id, new_batch(b"a", b"b"), partitions=[1]), version)
        (partition,) = answer.responses[0].partition_responses
        assert (partition.index, partition.error_code, partition.base_offset) == (1, 0, base)
        assert partition.log_start_offset == (0 if version >= 5 else -1)
        assert partition.log_append_time_ms == -1
    assert broker.values("t", 1) == [b"a", b"b"] * 2
    assert broker.values("t", 0) == []


def test_one_request_may_hold_good_and_bad_partitions(broker, new_batch):
    """Each partition succeeds or fails for itself, and the answer keeps the order of the request."""
    topic_id = broker.create("t", 2).topic_id
    damaged = new_batch(b"bad")
    damaged[-1] ^= 1
    batches = [new_batch(b"good"), damaged, new_batch(b"nowhere"), None]
    answer = broker.link().call(request(topic_id, *batches, partitions=[0, 1, 7, 1]), 13)
    codes = [one.error_code for one in answer.responses[0].partition_responses]
    assert codes == [
        ErrorCode.NONE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_RECORD,
    ]
    assert (broker.values("t", 0), broker.end("t", 1)) == ([b"good"], 0)


@pytest.mark.parametrize(
    ("version", "code"), [(12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (13, ErrorCode.UNKNOWN_TOPIC_ID)]
)
def test_an_unknown_topic_is_refused_by_name_and_by_id(broker, new_batch, version, code):
    """Names end in UNKNOWN_TOPIC_OR_PARTITION, ids in UNKNOWN_TOPIC_ID."""
    answer = broker.link().call(request(b"x" * 16, new_batch(b"a"), name="absent"), version)
    assert answer.responses[0].partition_responses[0].error_code == code


def test_a_batch_for_an_id_that_is_not_known_yet_is_remembered(broker, new_batch):
    """The metadata that a producer has may be newer than this broker's: its later batches do not overtake this one."""
    batch = new_batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    answer = broker.link().call(request(b"x" * 16, batch), 13)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    remembered = broker.run(lambda: dict(broker.node.partitions.refused.batches))
    assert list(remembered) == [(PartitionKey(b"x" * 16, 0), 7)]


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_only_coordinators_write_to_internal_topics(broker, new_batch, topic):
    """No coordinator could read a client's records there when it is loaded; asked often, the answer stays."""
    broker.run(lambda: broker.node.coordinators.internal_topics.ensure(topic))
    link = broker.link()
    for version in (9, 12, 13) * 3:
        topic_id = broker.node.image.topics.by_name[topic].topic_id
        answer = link.call(request(topic_id, new_batch(b"a"), name=topic), version)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert broker.end(topic) == 0


def test_acks_zero_is_appended_without_an_answer(broker, new_batch):
    """The next answer on the connection belongs to the next request."""
    topic_id = broker.create("t").topic_id
    link = broker.link()
    link.send(request(topic_id, new_batch(b"silent"), acks=0), 13)
    link.forget()
    assert link.call(MetadataRequest(topics=None), 12).topics[0].name == "t"
    broker.wait_until(lambda: broker.partition("t").partition.high_watermark == 1)
    assert broker.values("t") == [b"silent"]


def test_an_error_under_acks_zero_closes_the_connection(broker):
    """There is no answer that could carry it."""
    topic_id = broker.create("t").topic_id
    link = broker.link()
    link.send(request(topic_id, b"not a batch at all", acks=0), 13)
    with pytest.raises(BrokerUnavailable):
        link.receive_frame()


def test_unknown_acks_are_refused(broker, new_batch):
    """INVALID_REQUIRED_ACKS for every partition, and nothing is appended."""
    topic_id = broker.create("t").topic_id
    answer = broker.link().call(request(topic_id, new_batch(b"a"), acks=2), 13)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert broker.end("t") == 0


def test_a_transactional_batch_names_its_transaction(broker, new_batch):
    """Without a transactional id the permission to write could not be checked."""
    topic_id = broker.create("t").topic_id
    batch = new_batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    answer = broker.link().call(request(topic_id, batch), 12)
    code = answer.responses[0].partition_responses[0].error_code
    assert code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert broker.end("t") == 0


def test_a_batch_outside_of_transactions_is_appended_whatever_the_request_names(broker, new_batch):
    """As in Kafka: the batch says whether it belongs to a transaction."""
    topic_id = broker.create("t").topic_id
    answer = broker.link().call(request(topic_id, new_batch(b"a"), transactional_id="tx"), 12)
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert broker.values("t") == [b"a"]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_announced_but_refused_versions_close_the_connection(broker, version):
    """Produce 0 to 2 are listed for old librdkafka and not served."""
    link = broker.link()
    assert link.api_ranges()[0] == (0, 13)
    link.send_raw(b"\x00\x00\x00\x0a\x00\x00" + version.to_bytes(2, "big") + b"\x00\x00\x00\x01\xff\xff")
    with pytest.raises(BrokerUnavailable):
        link.receive_frame()


@pytest.mark.parametrize(
    ("version", "codec", "code"),
    [
        (6, Codec.ZSTD, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (7, Codec.ZSTD, ErrorCode.NONE),
        (6, Codec.LZ4, ErrorCode.NONE),
    ],
)
def test_zstd_needs_version_seven(broker, new_batch, version, codec, code):
    """As in Kafka, older producers cannot have meant it."""
    topic_id = broker.create("t").topic_id
    answer = broker.link().call(request(topic_id, new_batch(b"a" * 99, codec=codec)), version)
    assert answer.responses[0].partition_responses[0].error_code == code
    assert broker.end("t") == (0 if code else 1)


BAD = {
    "a flipped bit": (lambda new: flipped(new(b"x" * 50)), ErrorCode.CORRUPT_MESSAGE),
    "no header": (lambda new: bytearray(20), ErrorCode.CORRUPT_MESSAGE),
    "cut short": (lambda new: new(b"x" * 50)[:-1], ErrorCode.INVALID_RECORD),
    "nothing": (lambda new: bytearray(), ErrorCode.INVALID_RECORD),
    "too large": (lambda new: new(b"x" * 2000), ErrorCode.MESSAGE_TOO_LARGE),
    "magic 1": (lambda new: with_crc(new(b"x"), magic=1), ErrorCode.INVALID_RECORD),
    "magic 3": (lambda new: with_crc(new(b"x"), magic=3), ErrorCode.CORRUPT_MESSAGE),
    "two batches": (lambda new: new(b"x") + new(b"y"), ErrorCode.INVALID_RECORD),
    "base offset": (lambda new: with_crc(new(b"x"), base_offset=5), ErrorCode.INVALID_RECORD),
    "counts differ": (lambda new: with_crc(new(b"x"), record_count=2), ErrorCode.INVALID_RECORD),
    "no records": (lambda new: with_crc(new(b"x"), record_count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD),
    "a marker": (
        lambda new: build_control_batch(1, b"\0" * 6, offset=0, timestamp_ms=1, leader_epoch=0, producer_id=1),
        ErrorCode.INVALID_RECORD,
    ),
    "no sequence": (lambda new: new(b"x", producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD),
    "unknown codec": (lambda new: with_crc(new(b"x"), attributes=7), ErrorCode.INVALID_RECORD),
    "tomorrow": (lambda new: new(b"x", timestamp_ms=4 * 10**12), ErrorCode.INVALID_TIMESTAMP),
    "broker's time": (lambda new: new(b"x", log_append_time_ms=5), ErrorCode.INVALID_TIMESTAMP),
}


def flipped(batch: bytearray) -> bytearray:
    batch[-3] ^= 0x10
    return batch


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("acks", [-1, 1])
def test_a_bad_batch_gets_kafkas_code_and_appends_nothing(broker, new_batch, bad, acks):
    """The log goes on behind the refusal as if nothing had been sent."""
    make, code = BAD[bad]
    topic_id = broker.create("t", max_message_bytes=1000, message_timestamp_after_max_ms=3_600_000).topic_id
    answer = broker.link().call(request(topic_id, make(new_batch), acks=acks), 13)
    (partition,) = answer.responses[0].partition_responses
    assert ErrorCode(partition.error_code) is code
    assert partition.base_offset == -1
    assert partition.error_message
    assert broker.end("t") == 0
    assert broker.produce("t", b"next") == [0]
    assert broker.values("t") == [b"next"]


@pytest.mark.story
def test_old_timestamps_are_refused_where_the_topic_says_so(broker, new_batch):
    """message.timestamp.before.max.ms bounds CreateTime."""
    broker.create("t", message_timestamp_before_max_ms=60_000)
    answer = broker.append("t", new_batch(b"x", timestamp_ms=1_385_856_000_000))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert broker.end("t") == 0


def test_log_append_time_is_the_brokers(broker, new_batch):
    """A topic with LogAppendTime answers and stores the broker's clock, whatever the producer wrote."""
    broker.create("t", message_timestamp_type="LogAppendTime")
    before_ms = broker.node.clock.wall_ms()
    answer = broker.append("t", new_batch(b"x", b"y", timestamp_ms=5))
    assert answer.log_append_time_ms >= before_ms
    assert {record.timestamp_ms for record in broker.read("t")} == {answer.log_append_time_ms}


def test_a_retried_batch_is_answered_with_its_first_offset(broker, new_batch):
    """Each of the last five batches may come again; none is appended twice."""
    broker.create("t")

    def send(sequence, epoch=0):
        return broker.append("t", new_batch(b"v", producer_id=9, producer_epoch=epoch, base_sequence=sequence))

    assert [send(number).base_offset for number in range(6)] == list(range(6))
    assert [send(number).base_offset for number in (5, 1, 3)] == [5, 1, 3]
    forgotten = send(0)
    assert (forgotten.error_code, forgotten.base_offset) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert send(9).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(0, epoch=1).base_offset == 6
    assert send(6).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.end("t") == 7


def test_duplicates_are_known_after_a_restart(broker, new_batch):
    """The producer's state comes back from the snapshot or the log."""
    broker.create("t")
    batch = new_batch(b"once", producer_id=3, producer_epoch=0, base_sequence=0)
    assert broker.append("t", bytes(batch)).base_offset == 0
    broker.restart()
    assert broker.append("t", bytes(batch)).base_offset == 0
    assert broker.values("t") == [b"once"]


def test_produce_is_counted(broker, new_batch):
    """Bytes and messages appear under the topic, refusals apart."""
    broker.create("t")
    batch = new_batch(b"a", b"b")
    broker.append("t", batch)
    broker.append("t", flipped(new_batch(b"c")))
    figures = broker.node.metrics.topics["t"]
    assert (figures.messages_in, figures.bytes_in) == (2, len(batch))
    assert (figures.total_produce_requests, figures.failed_produce_requests) == (2, 1)


@pytest.fixture
def broken_partition(broker, monkeypatch):
    """Partition 1 of every topic raises an unexpected error; `mend` ends it."""
    table = type(broker.node.partitions)
    by_name, by_id = table.by_name, table.by_id

    def broken(look_up):
        def call(self, topic, partition):
            return 1 / 0 if partition == 1 else look_up(self, topic, partition)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(table, "by_name", broken(by_name))
        patch.setattr(table, "by_id", broken(by_id))
        broker.mend = patch.undo
        yield broker


@pytest.mark.parametrize("version", [3, 12, 13])
@pytest.mark.parametrize("acks", [-1, 1])
def test_a_request_that_fails_inside_is_answered_for_every_partition(broken_partition, new_batch, version, acks):
    """UNKNOWN_SERVER_ERROR once, in the order of the request, also for what was queued; the connection goes on."""
    topic_id = broken_partition.create("t", 3).topic_id
    link = broken_partition.link()
    wanted = request(topic_id, *[new_batch(b"v") for _ in range(3)], acks=acks)
    (topic,) = link.call(wanted, version).responses
    assert (topic.topic_id == topic_id) if version >= 13 else (topic.name == "t")
    assert [(one.index, one.error_code, one.base_offset) for one in topic.partition_responses] == [
        (number, ErrorCode.UNKNOWN_SERVER_ERROR, -1) for number in range(3)
    ]
    broken_partition.mend()
    offsets = [one.base_offset for one in link.call(wanted, version).responses[0].partition_responses]
    assert offsets == [1, 0, 0]


def test_a_request_that_fails_inside_closes_the_connection_under_acks_zero(broken_partition, new_batch):
    """There is no answer that could carry the error."""
    topic_id = broken_partition.create("t", 2).topic_id
    link = broken_partition.link()
    link.send(request(topic_id, new_batch(b"v"), acks=0, partitions=[1]), 13)
    with pytest.raises(BrokerUnavailable):
        link.receive_frame()


@pytest.mark.parametrize("version", [7, 8, 13])
def test_a_refused_batch_names_its_records(broker, new_batch, version):
    """KIP-467: which records were the reason and why, from version 8 on; nothing of the batch is in the log."""
    link = broker.link()
    keyed = broker.create("keyed", 2, cleanup_policy="compact").topic_id
    mixed = build_batch([Record(0, 1, b"k", b"a"), Record(1, 2, None, b"b"), Record(2, 3, b"k", b"c")])
    (topic,) = link.call(request(keyed, new_batch(b"good", key=b"k"), mixed, name="keyed"), version).responses
    good, bad = topic.partition_responses
    assert (good.error_code, good.record_errors) == (0, [])
    assert (bad.error_code, bad.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    why = "Compacted topic cannot accept message without key in topic partition keyed-1"
    named = [(one.batch_index, one.batch_index_error_message) for one in bad.record_errors]
    assert named == ([(1, why)] if version >= 8 else [])

    timed = broker.create("timed", message_timestamp_after_max_ms=1000).topic_id
    late = build_batch([Record(at, at * 100 * YEAR_MS, None, b"v") for at in range(3)])
    (topic,) = link.call(request(timed, late, name="timed"), version).responses
    (answer,) = topic.partition_responses
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [one.batch_index for one in answer.record_errors] == ([1, 2] if version >= 8 else [])
    assert broker.values("keyed", 1) == broker.values("timed") == []


def test_a_partition_that_is_due_of_a_topic_that_has_left_the_image_is_refused_alone():
    """NOT_LEADER_OR_FOLLOWER, as a moment before: its name was looked up, and the other partitions failed with it."""

    def due(_topic_id, _partition):
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "due")

    broker = SimpleNamespace(partitions=SimpleNamespace(by_id=due), image=EMPTY_IMAGE)
    with pytest.raises(KafkaError, match="due"):
        produce._find(
            SimpleNamespace(broker=broker), TopicProduceData(topic_id=b"i" * 16, partition_data=[]), 0, by_id=True
        )
