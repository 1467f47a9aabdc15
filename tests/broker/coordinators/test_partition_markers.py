"""Markers in the logs of a running broker."""

import asyncio
from types import SimpleNamespace

import pytest

from stratalog.broker.coordinators.internal_topics import GROUP_TOPIC
from stratalog.broker.coordinators.partition_markers import PartitionMarkers, TransactionMarker
from stratalog.hot.state.producer_state import ProducerStateManager
from stratalog.hot.state.validation import read_end_marker
from stratalog.metadata.coordination import Producer
from stratalog.wire.batch import read_header
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition


def write(broker, partition, marker):
    """The code with which the marker ends."""

    async def ask():
        done = asyncio.get_running_loop().create_future()
        broker.node.transactions.markers.write(partition, marker, done.set_result)
        return await done

    error = broker.run(ask)
    return 0 if error is None else error.code


def test_a_marker_is_a_batch_of_kafkas(broker):
    """A control batch with one record, transactional, of the producer; it takes one offset."""
    broker.create("t")
    for commit in (True, False):
        assert write(broker, TopicPartition("t", 0), TransactionMarker(Producer(7, 3), commit, 5, 2)) == 0
    log = broker.partition("t").log

    def batches():
        read = log.read(0, max_bytes=1 << 20, max_offset=log.log_end_offset)
        return b"".join(part.file.pread(part.length, part.position) for part in read.parts)

    data = broker.run(batches)
    assert len(data) == 2 * 78
    for at, commit in ((0, True), (78, False)):
        header = read_header(data, at)
        assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)
        marker = read_end_marker(data[at : at + 78])
        assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 5)
        assert marker.commit is commit


def test_markers_of_unknown_partitions_and_old_coordinators_are_refused(broker):
    """A partition that is not here, an old epoch, an old coordinator."""
    broker.create("t")
    t0 = TopicPartition("t", 0)
    assert write(broker, TopicPartition("t", 1), TransactionMarker(Producer(7, 3), True, 5, 2)) == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    assert write(broker, t0, TransactionMarker(Producer(7, 3), True, 5, 2)) == 0
    assert write(broker, t0, TransactionMarker(Producer(7, 2), True, 5, 2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    fenced = write(broker, t0, TransactionMarker(Producer(7, 3), True, 4, 2))
    assert fenced == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert broker.end("t") == 1


def test_a_partition_says_whether_a_producer_has_nothing_open():
    """It says no of one that is not led here: its log is elsewhere, or is a copy that may lack what its leader has open."""
    led = [True]
    state = ProducerStateManager("t-0")
    state.apply_batch(7, 3, 0, base_offset=0, last_offset=0, timestamp_ms=0, transactional=True)
    state.apply_batch(8, 3, 0, base_offset=1, last_offset=1, timestamp_ms=0, transactional=False)

    def by_name(topic, partition):
        if partition:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return SimpleNamespace(
            log=SimpleNamespace(producer_state=state), partition=SimpleNamespace(check_online=check_online)
        )

    def check_online():
        if not led[0]:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    markers = PartitionMarkers(lambda: SimpleNamespace(by_name=by_name), None, None, None)
    found = [markers.has_nothing_open(TopicPartition("t", 0), producer_id) for producer_id in (7, 8, 9)]
    assert found == [False, True, True]
    assert not markers.has_nothing_open(TopicPartition("t", 1), 8)
    led[0] = False
    assert not markers.has_nothing_open(TopicPartition("t", 0), 8)


@pytest.mark.parametrize("code", [None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_markers_of_groups_go_through_their_coordinator(code):
    """Which decides their pending offsets with it, or says why it cannot."""
    asked, told = [], []
    state = SimpleNamespace(check_marker=lambda *_: None)
    unified = SimpleNamespace(
        partition=SimpleNamespace(check_online=lambda: None), log=SimpleNamespace(producer_state=state)
    )

    def complete(number, batch, producer, done, *, commit, transaction_version):
        asked.append((number, producer, commit, read_end_marker(batch).commit, transaction_version))
        done(KafkaError(code) if code else object())

    marked = []
    markers = PartitionMarkers(
        lambda: SimpleNamespace(by_name=lambda *_: unified),
        SimpleNamespace(complete_transaction=complete),
        SimpleNamespace(wall_ms=lambda: 1),
        lambda *one: marked.append(one),
    )
    marker = TransactionMarker(Producer(7, 3), True, 5, 2)
    markers.write(TopicPartition(GROUP_TOPIC, 9), marker, told.append)
    assert asked == [(9, Producer(7, 3), True, True, 2)]
    assert [error and error.code for error in told] == [code]
    assert marked == [(TopicPartition(GROUP_TOPIC, 9), marker)]
