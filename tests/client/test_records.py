"""Records through the client: where they go, and which of them come back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from stratalog.client.client import Client
from stratalog.client.records import Fetched, NewRecord, Producer, fetch, produce_batches, visible_records
from stratalog.wire.batch import Header, Record, build_batch, build_control_batch, iter_records, read_header
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError
from stratalog.wire.messages.fetch import AbortedTransaction, FetchableTopicResponse, FetchResponse, PartitionData
from stratalog.wire.messages.init_producer_id import InitProducerIdResponse
from stratalog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from stratalog.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from stratalog.wire.topic import TopicPartition

PRODUCE, FETCH, METADATA, INIT_PRODUCER_ID = 0, 1, 3, 22
TOPIC_ID = b"t" * 16
ORDERS = TopicPartition("orders", 0)
ABORT, COMMIT = 0, 1


@pytest.fixture
def client(scripted):
    """A client of a broker that leads six partitions of orders."""
    scripted.ranges = {METADATA: (0, 13), PRODUCE: (3, 13), FETCH: (4, 18)}
    partitions = [
        MetadataResponsePartition(partition_index=number, leader_id=1, replica_nodes=[1], isr_nodes=[1])
        for number in range(6)
    ]
    scripted.answers[METADATA] = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=scripted.port)],
        topics=[MetadataResponseTopic(name="orders", topic_id=TOPIC_ID, partitions=partitions)],
    )
    with Client(scripted.address, 5) as client:
        yield client


@pytest.fixture
def sent(scripted):
    """The produced batches: (partition, codec, records) of each batch; every batch is taken at offset 100."""
    batches = []

    def answer(request):
        taken = []
        for data in request.topic_data[0].partition_data:
            records = bytes(data.records)
            batches.append((data.index, read_header(records).codec, list(iter_records(records))))
            taken.append(PartitionProduceResponse(index=data.index, base_offset=100))
        name, topic_id = request.topic_data[0].name, request.topic_data[0].topic_id
        return ProduceResponse(
            responses=[TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=taken)]
        )

    scripted.answers[PRODUCE] = answer
    return batches


def test_keys_go_where_java_puts_them_and_the_rest_in_turn(client, sent) -> None:
    """Murmur2 for keys, the record's own partition before it, one partition a call for records without either."""
    producer = Producer(client, "orders")
    delivered = producer.send(
        [NewRecord(b"1", 5, b"AA"), NewRecord(b"2", 6), NewRecord(b"3", 7, b"AA"), NewRecord(b"4", 8, b"AA", (), 1)]
    )
    assert [one.topic_partition.partition for one in delivered] == [3, 0, 3, 1]
    assert [one.offset for one in delivered] == [100, 100, 101, 100]
    assert [one.timestamp_ms for one in delivered] == [5, 6, 7, 8]
    assert [one.topic_partition.partition for one in producer.send([NewRecord(b"5", 9)])] == [1]
    assert {index for index, _, _ in sent} == {3, 0, 1}


def test_a_batch_carries_everything_of_its_records(client, sent) -> None:
    """Keys, values, headers, times, nulls and the codec."""
    headers = (Header("a", b"1"), Header("b", None))
    Producer(client, "orders", codec=Codec.ZSTD).send([NewRecord(None, 5, b"k", headers, 2)])
    assert sent == [(2, Codec.ZSTD, [Record(0, 5, b"k", None, headers)])]


@pytest.mark.parametrize("version", [3, 9, 12, 13])
def test_topics_are_named_as_each_version_wants_it(scripted, client, sent, version) -> None:
    """By name up to 12, by id from 13 on."""
    scripted.ranges[PRODUCE] = (3, version)
    (one,) = Producer(client, "orders").send([NewRecord(b"1", 5, partition=0)])
    assert one.topic_partition == ORDERS


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("record without key.", "orders-0: record without key; nothing"),
        ("a batch for orders-0 is too large", "INVALID_RECORD: a batch for orders-0 is too large; nothing"),
    ],
)
def test_a_refused_batch_is_an_error(scripted, client, words, shown) -> None:
    """With the partition, once, and the broker's words, without their full stop."""
    refused = PartitionProduceResponse(index=0, base_offset=-1, error_code=87, error_message=words)
    scripted.answers[PRODUCE] = ProduceResponse(
        responses=[TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=[refused])]
    )
    with pytest.raises(KafkaError, match=f"{shown} of this batch was appended"):
        Producer(client, "orders").send([NewRecord(b"1", 5, partition=0)])


def test_a_batch_refused_by_a_former_leader_is_sent_again(scripted, client) -> None:
    """Only that one: what is in the log is not sent twice."""
    asked = []

    def answer(request):
        taken = []
        for data in request.topic_data[0].partition_data:
            asked.append(data.index)
            moved = data.index == 1 and asked.count(1) == 1
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER if moved else 0
            taken.append(PartitionProduceResponse(index=data.index, base_offset=7, error_code=code))
        return ProduceResponse(responses=[TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=taken)])

    scripted.answers[PRODUCE] = answer
    delivered = Producer(client, "orders", acks=1).send(
        [NewRecord(b"a", 5, partition=0), NewRecord(b"b", 5, partition=1)]
    )
    assert [one.offset for one in delivered] == [7, 7]
    assert asked == [0, 1, 1]


def test_a_batch_is_sent_again_to_a_leader_that_has_not_heard_of_the_topic(scripted, client) -> None:
    """It appends nothing, so that no producer id is needed; a topic that is gone is an error at last."""
    seen = refuses(scripted, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert [one.offset for one in Producer(client, "orders").send(records(1))] == [7]
    assert len(seen) == 3
    refuses(scripted, *[ErrorCode.UNKNOWN_TOPIC_ID] * 1000)
    times = iter(range(1000))
    client.monotonic = lambda: next(times)
    with pytest.raises(KafkaError, match="unknown topic id; nothing of this batch was appended"):
        Producer(client, "orders").send(records(1))


def gives_ids(scripted, *answers) -> None:
    """Let the broker answer InitProducerId with these, or with the ids 70, 71, ..."""
    left = list(answers) or [InitProducerIdResponse(producer_id=70 + at, producer_epoch=3) for at in range(9)]
    scripted.ranges[INIT_PRODUCER_ID] = (0, 5)
    scripted.answers[INIT_PRODUCER_ID] = lambda _request: left.pop(0)


def refuses(scripted, *codes) -> list:
    """Let the broker refuse batches for partition 0 by these codes and take the rest; what it sees of producers."""
    left, seen = list(codes), []

    def answer(request):
        data = request.topic_data[0].partition_data[0]
        header = read_header(bytes(data.records))
        seen.append((header.producer_id, header.producer_epoch, header.base_sequence))
        code = left.pop(0) if left else 0
        taken = PartitionProduceResponse(index=data.index, base_offset=-1 if code else 7, error_code=code)
        return ProduceResponse(responses=[TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=[taken])])

    scripted.answers[PRODUCE] = answer
    return seen


def records(count: int) -> list[NewRecord]:
    """Records for partition 0."""
    return [NewRecord(b"v", 5, partition=0)] * count


def test_a_batch_in_doubt_is_sent_again_under_its_sequence(scripted, client) -> None:
    """The next batch has the sequence behind it; a leader that has the batch, and no longer knows where, has it."""
    gives_ids(scripted)
    seen = refuses(scripted, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0, 0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    producer = Producer(client, "orders", idempotent=True)
    assert [one.offset for one in producer.send(records(3))] == [7, 8, 9]
    assert [one.offset for one in producer.send(records(1))] == [7]
    assert [one.offset for one in producer.send(records(2))] == [-1, -1]
    assert seen == [(70, 3, 0), (70, 3, 0), (70, 3, 3), (70, 3, 4)]


def test_a_batch_that_is_too_large_goes_in_halves_and_a_record_does_not(scripted, client) -> None:
    """Under the sequences that the whole one would have had: nothing of it was appended."""
    gives_ids(scripted)
    large = ErrorCode.MESSAGE_TOO_LARGE
    seen = refuses(scripted, large, large, 0, 0, 0, large)
    producer = Producer(client, "orders", idempotent=True)
    assert len(producer.send(records(4))) == 4
    assert [sequence for _, _, sequence in seen] == [0, 0, 0, 1, 2]
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        producer.send(records(1))


def test_sequences_begin_anew_behind_the_highest_one(scripted, client) -> None:
    """They are 31 bits wide, as Kafka's."""
    gives_ids(scripted)
    seen = refuses(scripted)
    producer = Producer(client, "orders", idempotent=True)
    producer.send(records(1))
    producer._sequences[0] = 2**31 - 2
    producer.send(records(3))
    producer.send(records(1))
    assert [sequence for _, _, sequence in seen] == [0, 2**31 - 2, 1]


def test_a_producer_goes_on_under_another_id_after_an_error(scripted, client) -> None:
    """Whether a refused batch has used its sequence up may not be known."""
    gives_ids(scripted)
    seen = refuses(scripted, 0, ErrorCode.REQUEST_TIMED_OUT)
    producer = Producer(client, "orders", idempotent=True)
    producer.send(records(2))
    with pytest.raises(KafkaError, match="may have been appended"):
        producer.send(records(2))
    producer.send(records(2))
    assert seen == [(70, 3, 0), (70, 3, 2), (71, 3, 0)]


@pytest.mark.parametrize(
    "answers", [(), (InitProducerIdResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, producer_epoch=-1),)]
)
def test_without_an_id_a_batch_in_doubt_is_not_sent_again(scripted, client, answers) -> None:
    """The broker does not know InitProducerId, or gives this user none; both take records, and are asked once."""
    if answers:
        gives_ids(scripted, *answers)
    seen = refuses(scripted, 0, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    producer = Producer(client, "orders", idempotent=True)
    producer.send(records(1))
    producer.send(records(1))
    with pytest.raises(KafkaError, match="orders-0: not leader or follower; this batch may have been appended; look"):
        producer.send(records(1))
    assert seen == [(-1, -1, -1)] * 3


def test_an_id_that_is_not_ready_is_waited_for(scripted, client) -> None:
    """A broker that is about to get its next block of ids says so."""
    loading = InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, producer_epoch=-1)
    gives_ids(scripted, loading, InitProducerIdResponse(producer_id=80, producer_epoch=0))
    seen = refuses(scripted)
    Producer(client, "orders", idempotent=True).send(records(1))
    assert seen == [(80, 0, 0)]


def test_an_append_that_waits_while_the_leadership_moves_is_in_the_log_once(broker) -> None:
    """The next epoch's leader has it; the answer names the offset of the first attempt."""
    broker.create("t")
    partition, node_id = broker.partition("t").partition, broker.node.config.node_id
    epoch = partition.leader_epoch
    broker.run(lambda: partition.lead(node_id, epoch, replicas=(node_id, 77), in_sync=(node_id, 77)))
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(broker.produce, "t", b"once", idempotent=True)
        broker.wait_until(lambda: partition.log.log_end_offset == 1)
        broker.run(lambda: partition.lead(node_id, epoch + 1, replicas=(node_id,), in_sync=(node_id,)))
        assert sending.result(20) == [0]
    assert broker.values("t") == [b"once"]


def test_without_acks_nothing_is_awaited(scripted, client) -> None:
    """The broker stays silent and the next request is answered."""
    scripted.answers[PRODUCE] = b""
    batch = build_batch([Record(0, 5, None, b"v")])
    answers = produce_batches(client, {ORDERS: batch}, acks=0)
    assert answers[ORDERS].base_offset == -1
    assert [topic.name for topic in client.refresh(["orders"])] == ["orders"]


def fetched(data: bytes, aborted: tuple[AbortedTransaction, ...] = ()) -> Fetched:
    """An answer for partition 0."""
    return Fetched(ORDERS, 1000, 0, 1000, memoryview(data), aborted)


def seen(answer: Fetched, position: int = 0, **options) -> list[int]:
    """The offsets a consumer sees."""
    return [record.offset for _, records in visible_records(answer, position, **options) for record in records]


def batch(offset: int, producer_id: int = -1, count: int = 2) -> bytes:
    """A batch, of a transaction when it has a producer."""
    return bytes(
        build_batch(
            [Record(offset + index, 5, None, b"v") for index in range(count)],
            producer_id=producer_id,
            transactional=producer_id >= 0,
        )
    )


def marker(offset: int, producer_id: int, kind: int) -> bytes:
    """The end of a transaction."""
    return bytes(
        build_control_batch(
            kind,
            b"\0\0\0\0\0\0",
            offset=offset,
            timestamp_ms=5,
            leader_epoch=0,
            producer_id=producer_id,
            transactional=True,
        )
    )


def test_a_fetch_names_positions_and_brings_batches(scripted, client) -> None:
    """One request for all partitions of a leader."""
    answer = PartitionData(
        partition_index=0, high_watermark=12, last_stable_offset=11, log_start_offset=3, records=batch(10)
    )
    scripted.answers[FETCH] = FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[answer])])
    (one,) = fetch(client, {ORDERS: 10})
    assert (one.high_watermark, one.last_stable_offset, one.log_start_offset) == (12, 11, 3)
    assert seen(one) == [10, 11]
    asked = scripted.requests[-1][0]
    assert (asked.isolation_level, asked.topics[0].partitions[0].fetch_offset) == (1, 10)


def test_an_offset_out_of_range_says_what_there_is(scripted, client) -> None:
    """With log start and high watermark."""
    answer = PartitionData(
        partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=12, log_start_offset=3, records=None
    )
    scripted.answers[FETCH] = FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[answer])])
    with pytest.raises(KafkaError, match=r"orders-0 at offset 99: .*starts at 3 and its high watermark is 12"):
        fetch(client, {ORDERS: 99})


def test_records_before_the_position_are_left_out() -> None:
    """A batch that begins earlier is served whole."""
    assert seen(fetched(batch(10) + batch(12)), 11) == [11, 12, 13]


def test_the_position_behind_a_batch_is_given_even_if_nothing_is_seen() -> None:
    """Otherwise a reader would stand still at a marker."""
    found = list(visible_records(fetched(marker(10, 7, COMMIT)), 10))
    assert found == [(11, ())]


def test_aborted_records_are_seen_only_when_asked_for() -> None:
    """From the first aborted offset to the marker, of that producer alone (KIP-98)."""
    data = (
        batch(0, 7) + batch(2, 8) + batch(4, 7) + marker(6, 7, ABORT) + batch(7, 7) + marker(9, 7, COMMIT) + batch(10)
    )
    answer = fetched(data, (AbortedTransaction(producer_id=7, first_offset=4),))
    assert seen(answer) == [0, 1, 2, 3, 7, 8, 10, 11]
    assert seen(answer, read_committed=False) == [0, 1, 2, 3, 4, 5, 7, 8, 10, 11]


def test_transactions_named_twice_and_in_disorder_hide_nothing_more() -> None:
    """Brokers may do so; what the producer commits behind an abort is seen."""
    data = (
        batch(0, 7) + marker(2, 7, ABORT) + batch(3, 7) + marker(5, 7, COMMIT) + batch(6, 7) + marker(8, 7, ABORT) + batch(9, 7)
    )  # fmt: skip
    listed = tuple(AbortedTransaction(producer_id=7, first_offset=first) for first in (6, 0))
    for named in (listed, listed[::-1], listed * 3):
        assert seen(fetched(data, named)) == [3, 4, 9, 10]


def test_half_a_batch_at_the_end_is_left_for_later() -> None:
    """Answers are cut at a number of bytes."""
    assert seen(fetched(batch(10) + batch(12)[:-1])) == [10, 11]


def test_a_damaged_batch_is_never_shown() -> None:
    """The CRC is checked here too."""
    data = bytearray(batch(10))
    data[-1] ^= 1
    with pytest.raises(Corrupt):
        seen(fetched(bytes(data)))


def test_a_batch_of_very_many_records_comes_in_pieces(monkeypatch) -> None:
    """Two kilobytes may hold millions: they are not all in memory, and each piece says where to go on."""
    monkeypatch.setattr("stratalog.client.records._PIECE_RECORDS", 4)
    batch = build_batch([Record(10 + number, 0, None, b"v") for number in range(10)], codec=Codec.ZSTD)
    fetched = Fetched(ORDERS, 20, 0, 20, memoryview(bytes(batch)), ())
    found = [(after, [record.offset for record in records]) for after, records in visible_records(fetched, 11)]
    assert found == [(15, [11, 12, 13, 14]), (19, [15, 16, 17, 18]), (20, [19])]


def test_a_batch_that_grows_too_large_is_named_by_partition_and_offset(monkeypatch) -> None:
    """The reader can skip what it knows by name."""
    monkeypatch.setattr("stratalog.wire.batch.DECOMPRESSED_BYTES_MAX", 1000)
    batch = build_batch([Record(42, 0, None, bytes(10_000))], codec=Codec.ZSTD)
    fetched = Fetched(ORDERS, 50, 0, 50, memoryview(bytes(batch)), ())
    with pytest.raises(Corrupt, match="orders-0: the batch at offset 42: a zstd block grows beyond its limit"):
        list(visible_records(fetched, 42))
