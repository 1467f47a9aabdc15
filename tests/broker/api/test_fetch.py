"""Fetch: the bytes that were stored, no more than may be seen, and waiting that ends."""

import errno
import threading

import pytest

from stratalog.client.admin import delete_topics
from stratalog.hot.log.log import AppendInfo
from stratalog.wire.batch import build_control_batch, iter_headers
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState


def request(topic_id, *positions, name="t", wait_ms=0, min_bytes=1, max_bytes=1 << 26, isolation_level=0, **options):
    """Fetch from ``(partition, offset)`` pairs, or from partitions described in full."""
    partitions = [
        one
        if isinstance(one, FetchPartition)
        else FetchPartition(partition=one[0], fetch_offset=one[1], partition_max_bytes=1 << 20)
        for one in positions
    ]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        topics=[FetchTopic(topic=name, topic_id=topic_id, partitions=partitions)],
        **options,
    )


def parts(answer):
    """The partitions of an answer about one topic."""
    return answer.responses[0].partitions


def bases(partition):
    """The base offsets of the batches that came."""
    return [header.base_offset for _, header in iter_headers(partition.records or b"")]


@pytest.mark.parametrize("version", range(4, 19))
def test_stored_batches_come_back_in_every_version(broker, new_batch, version):
    """The bytes are those that were sent, but for the offset and epoch that the leader wrote."""
    topic_id = broker.create("t", 2).topic_id
    sent = [bytes(new_batch(b"a", b"b")), bytes(new_batch(b"c"))]
    for batch in sent:
        broker.append("t", bytearray(batch), partition=1)
    answer = broker.link().call(request(topic_id, (0, 0), (1, 0)), version)
    empty, full = parts(answer)
    assert (empty.error_code, empty.high_watermark, bytes(empty.records or b"")) == (0, 0, b"")
    assert (full.error_code, full.high_watermark, full.last_stable_offset) == (0, 3, 3)
    assert full.log_start_offset == (0 if version >= 5 else -1)
    assert answer.responses[0].topic == ("t" if version <= 12 else "")
    stored = bytes(full.records)
    assert bases(full) == [0, 2]
    first, second = stored[: len(sent[0])], stored[len(sent[0]) :]
    assert (first[8:12], first[16:]) == (sent[0][8:12], sent[0][16:])
    assert (second[8:12], second[16:]) == (sent[1][8:12], sent[1][16:])


def test_every_offset_of_every_batch_finds_its_batch(broker, new_batch):
    """An offset in the middle of a batch gives that batch, also in the last one, and the end gives nothing."""
    topic_id = broker.create("t").topic_id
    starts = []
    for count in (3, 1, 4):
        starts += [broker.append("t", new_batch(*[b"v"] * count)).base_offset] * count
    link = broker.link()
    for offset, start in enumerate(starts):
        (partition,) = parts(link.call(request(topic_id, (0, offset)), 18))
        assert bases(partition)[0] == start
        assert broker.read("t", offset=offset)[0].offset == offset
    (partition,) = parts(link.call(request(topic_id, (0, 8)), 18))
    assert (partition.error_code, bases(partition)) == (0, [])


@pytest.mark.parametrize("offset", [-1, 3, 10**12])
def test_an_offset_outside_the_log_is_out_of_range(broker, offset):
    """OFFSET_OUT_OF_RANGE comes at once, and as in Kafka nothing else."""
    topic_id = broker.create("t").topic_id
    broker.produce("t", b"a", b"b")
    (partition,) = parts(broker.link().call(request(topic_id, (0, offset), wait_ms=20_000, min_bytes=1 << 20), 18))
    assert partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (partition.high_watermark, partition.last_stable_offset, partition.log_start_offset) == (-1, -1, -1)


def test_a_reader_from_an_epoch_that_never_was_is_out_of_range(broker):
    """There is no place at which its history and ours part."""
    topic_id = broker.create("t").topic_id
    broker.produce("t", b"a", b"b")
    wanted = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=9999, last_fetched_epoch=50)
    (partition,) = parts(broker.link().call(request(topic_id, wanted), 18))
    assert (partition.error_code, partition.diverging_epoch) == (ErrorCode.OFFSET_OUT_OF_RANGE, None)


def test_limits_hold_but_one_batch_always_comes(broker, new_batch):
    """The first batch is never held back by a limit; the second partition gets what the first one left."""
    topic_id = broker.create("t", 2).topic_id
    for partition in (0, 1):
        for _ in range(3):
            broker.append("t", new_batch(b"x" * 1000), partition=partition)
    link = broker.link()
    first, second = parts(link.call(request(topic_id, (0, 0), (1, 0), max_bytes=10), 18))
    assert (bases(first), bases(second)) == ([0], [])
    narrow = [FetchPartition(partition=at, fetch_offset=0, partition_max_bytes=2500) for at in (0, 1)]
    first, second = parts(link.call(request(topic_id, *narrow), 18))
    assert (bases(first), bases(second)) == ([0, 1], [0, 1])
    first, second = parts(link.call(request(topic_id, (0, 0), (1, 0), max_bytes=4500), 18))
    assert (bases(first), bases(second)) == ([0, 1, 2], [0])


@pytest.mark.parametrize("session_epoch", [-1, 0])
def test_a_batch_that_does_not_fit_is_not_waited_for(broker, new_batch, session_epoch):
    """min_bytes of max_bytes, and whole batches that fill less: there is more, but no room for it."""
    topic_id = broker.create("t").topic_id
    for _ in range(3):
        broker.append("t", new_batch(b"x" * 1000))
    wanted = request(topic_id, (0, 0), wait_ms=600_000, min_bytes=2500, max_bytes=2500, session_epoch=session_epoch)
    answer = broker.link().call(wanted, 18)
    assert bases(parts(answer)[0]) == [0, 1]
    if answer.session_id:
        wanted.session_id, wanted.session_epoch = answer.session_id, 1
        assert bases(parts(broker.link().call(wanted, 18))[0]) == [0, 1]


@pytest.mark.parametrize("session_epoch", [-1, 0])
def test_more_than_the_largest_answer_is_not_waited_for(broker, new_batch, session_epoch):
    """``min_bytes`` above ``max_bytes`` gives a full answer at once, each time."""
    topic_id = broker.create("t").topic_id
    for _ in range(3):
        broker.append("t", new_batch(b"x" * 1000))
    link = broker.link()
    wanted = request(topic_id, (0, 0), wait_ms=600_000, min_bytes=1 << 20, max_bytes=2500, session_epoch=session_epoch)
    for _ in range(3):
        assert bases(parts(link.call(wanted, 18))[0]) == [0, 1]


def test_the_broker_has_a_largest_answer_too(start_node, new_batch):
    """A larger limit of a client is cut at fetch.max.bytes, on the border of a batch."""
    broker = start_node(fetch_max_bytes=2500)
    topic_id = broker.create("t").topic_id
    for _ in range(4):
        broker.append("t", new_batch(b"x" * 1000))
    (partition,) = parts(broker.link().call(request(topic_id, (0, 0)), 18))
    assert bases(partition) == [0, 1]


def test_a_waiting_fetch_is_answered_by_the_next_append(broker):
    """A long poll at the end of the log leaves as soon as something is committed."""
    topic_id = broker.create("t").topic_id
    link = broker.link()
    link.send(request(topic_id, (0, 0), wait_ms=25_000), 18)
    broker.wait_until(lambda: len(broker.node.purgatory) == 1)
    broker.produce("t", b"woken")
    (partition,) = parts(link.receive())
    assert (bases(partition), partition.high_watermark) == ([0], 1)


def test_a_waiting_fetch_leaves_empty_when_its_time_is_over(broker):
    """max_wait_ms bounds the wait; the answer still carries the watermarks."""
    topic_id = broker.create("t").topic_id
    broker.produce("t", b"a")
    (partition,) = parts(broker.link().call(request(topic_id, (0, 0), wait_ms=30, min_bytes=1 << 20), 18))
    assert (bases(partition), partition.high_watermark) == ([0], 1)
    (partition,) = parts(broker.link().call(request(topic_id, (0, 1), wait_ms=30), 18))
    assert (partition.error_code, bases(partition), partition.high_watermark) == (0, [], 1)


def test_a_waiting_fetch_is_forgotten_with_its_connection(broker):
    """The broker keeps no state for a client that has hung up."""
    topic_id = broker.create("t").topic_id
    link = broker.link()
    link.send(request(topic_id, (0, 0), wait_ms=25_000), 18)
    broker.wait_until(lambda: len(broker.node.purgatory) == 1)
    link.close()
    broker.wait_until(lambda: len(broker.node.purgatory) == 0)


@pytest.mark.parametrize(
    ("version", "code"), [(12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (18, ErrorCode.UNKNOWN_TOPIC_ID)]
)
def test_a_waiting_fetch_learns_of_the_deletion_of_its_topic(broker, version, code):
    """It is answered at once, with the code for an unknown topic."""
    topic_id = broker.create("t").topic_id
    link = broker.link()
    link.send(request(topic_id, (0, 0), wait_ms=25_000), version)
    broker.wait_until(lambda: len(broker.node.purgatory) == 1)
    delete_topics(broker.client(), ["t"])
    assert parts(link.receive())[0].error_code == code


def test_the_leader_epoch_of_the_client_is_checked(broker):
    """An older epoch is fenced, a newer one unknown, none at all is not checked (KIP-320)."""
    topic_id = broker.create("t").topic_id
    broker.produce("t", b"a")
    broker.restart()
    epoch = broker.partition("t").partition.leader_epoch
    assert epoch > 0
    link = broker.link()
    for asked, code in (
        (epoch - 1, ErrorCode.FENCED_LEADER_EPOCH),
        (epoch + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (epoch, ErrorCode.NONE),
        (-1, ErrorCode.NONE),
    ):
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=9999, current_leader_epoch=asked)
        assert parts(link.call(request(topic_id, wanted), 18))[0].error_code == code


def test_a_reader_with_another_history_gets_the_point_of_divergence(broker):
    """last_fetched_epoch that ends before the fetch offset is answered by a diverging epoch and no records."""
    topic_id = broker.create("t").topic_id
    broker.produce("t", b"a", b"b")
    broker.restart()
    broker.produce("t", b"c")
    old, new = 0, broker.partition("t").partition.leader_epoch

    def ask(offset, epoch):
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=9999, last_fetched_epoch=epoch)
        return parts(broker.link().call(request(topic_id, wanted), 18))[0]

    parted = ask(3, old)
    assert (parted.diverging_epoch.epoch, parted.diverging_epoch.end_offset, bases(parted)) == (old, 2, [])
    assert ask(2, old).diverging_epoch is None
    assert ask(3, new).diverging_epoch is None


def test_unknown_sessions_and_followers_are_refused(broker):
    """A session that was never opened is not found, and no broker may fetch as a replica of nothing."""
    topic_id = broker.create("t").topic_id
    link = broker.link()
    assert link.call(request(topic_id, session_id=7, session_epoch=1), 18).error_code == (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    )
    assert link.call(request(topic_id, session_epoch=3), 18).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    alone = link.call(request(topic_id, (0, 0), session_epoch=-1), 18)
    assert (alone.error_code, alone.session_id) == (0, 0)
    follower = request(topic_id, (0, 0), replica_state=ReplicaState(replica_id=2, replica_epoch=1))
    assert link.call(follower, 18).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", [12, 18])
def test_a_follower_shows_its_copy_to_those_who_verify_replicas(broker, version):
    """Replica id -2, as kafka-replica-verification asks: below the high watermark that the follower knows."""
    topic_id = broker.create("t").topic_id
    broker.produce("t", b"a")
    broker.produce("t", b"b")
    partition = broker.partition("t").partition
    broker.run(lambda: partition.follow(2, 9))

    def only_the_first_is_committed():
        partition.high_watermark = 1

    broker.run(only_the_first_is_committed)

    def ask(replica_id, offset=0, epoch=-1):
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=9999, current_leader_epoch=epoch)
        who = {"replica_id": replica_id, "replica_state": ReplicaState(replica_id=replica_id, replica_epoch=-1)}
        return parts(broker.link().call(request(topic_id, wanted, **who), version))[0]

    seen = ask(-2)
    assert (seen.error_code, seen.high_watermark, bases(seen)) == (0, 1, [0])
    assert bases(ask(-2, offset=1)) == []
    assert ask(-2, epoch=9).error_code == 0
    assert ask(-2, epoch=8).error_code == ErrorCode.FENCED_LEADER_EPOCH
    broker.run(lambda: partition.directory.fail(OSError(errno.EIO, "broken")))
    assert ask(-2).error_code != 0


def test_read_committed_stops_at_open_transactions_and_names_aborted_ones(broker, new_batch):
    """Below the last stable offset only, with the first offsets of the aborted transactions in the range."""
    topic_id = broker.create("t").topic_id

    def write(batch):
        done = threading.Event()
        outcome = []

        def acknowledge(result):
            outcome.append(result)
            done.set()

        broker.run(lambda: broker.partition("t").partition.leader.append_as_leader(batch, acknowledge))
        assert done.wait(10)
        assert isinstance(outcome[0], AppendInfo)

    def ask(isolation_level):
        (partition,) = parts(broker.link().call(request(topic_id, (0, 0), isolation_level=isolation_level), 18))
        aborted = partition.aborted_transactions
        named = None if aborted is None else [(one.producer_id, one.first_offset) for one in aborted]
        return bases(partition), partition.last_stable_offset, partition.high_watermark, named

    broker.produce("t", b"plain")
    write(new_batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    broker.produce("t", b"later")
    assert ask(1) == ([0], 1, 3, [])
    assert ask(0) == ([0, 1, 2], 1, 3, None)
    marker = build_control_batch(
        0, bytes(6), offset=0, timestamp_ms=5, leader_epoch=0, producer_id=7, producer_epoch=0, transactional=True
    )
    write(marker)
    assert ask(1) == ([0, 1, 2, 3], 4, 4, [(7, 1)])
    assert broker.values("t") == [b"plain", b"later"]


def test_a_partition_that_is_not_here_fails_alone(broker):
    """The others of the same request are answered with their records."""
    topic_id = broker.create("t").topic_id
    broker.produce("t", b"a")
    answer = broker.link().call(request(topic_id, (0, 0), (5, 0), wait_ms=20_000, min_bytes=1 << 20), 18)
    assert [one.error_code for one in parts(answer)] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert bases(parts(answer)[0]) == [0]


def test_fetches_are_counted(broker, new_batch):
    """Bytes out are those of the records that left."""
    broker.create("t")
    batch = new_batch(b"x" * 5000)
    broker.append("t", batch)
    broker.values("t")
    assert broker.node.metrics.topics["t"].bytes_out == len(batch)
    assert broker.node.metrics.topics["t"].total_fetch_requests == 1


@pytest.mark.parametrize("version", [4, 6, 7, 12, 13, 18])
def test_an_unexpected_failure_is_answered_in_every_version(broker, monkeypatch, version):
    """UNKNOWN_SERVER_ERROR for each partition while topics have names, and for the whole since version 7."""
    topic_id = broker.create("t", 2).topic_id
    broker.produce("t", b"v")
    link = broker.link()
    wanted = request(topic_id, (1, 0), (0, 0))
    with monkeypatch.context() as patch:
        patch.setattr(type(broker.partition("t")), "read", lambda *args, **options: 1 / 0)
        answer = link.call(wanted, version)
    assert answer.error_code == (ErrorCode.UNKNOWN_SERVER_ERROR if version >= 7 else 0)
    named = [(topic.topic, one.partition_index, one.error_code) for topic in answer.responses for one in parts(answer)]
    whole = [("t", number, ErrorCode.UNKNOWN_SERVER_ERROR) for number in (1, 0)]
    assert named == (whole if version < 13 else [])
    assert bases(parts(link.call(wanted, version))[1]) == [0]


def test_a_read_that_finds_no_descriptor_can_be_tried_again(broker, monkeypatch):
    """KAFKA_STORAGE_ERROR now, the records later: the disk is well, and its directory stays online."""
    topic_id = broker.create("t").topic_id
    broker.produce("t", b"v")
    link, wanted = broker.link(), request(topic_id, (0, 0))

    def read(*args, **options):
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(type(broker.partition("t")), "read", read)
        assert parts(link.call(wanted, 18))[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert bases(parts(link.call(wanted, 18))[0]) == [0]
