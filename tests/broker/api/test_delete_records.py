"""DeleteRecords: the log start moves forward, stays there, and the space comes back."""

import asyncio
import errno
from itertools import accumulate
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from stratalog.broker.api import delete_records
from stratalog.broker.runtime.slices import to_the_end
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.broker.api.at_once import pauses


def request(*offsets, topic="t"):
    """Delete below the n-th offset in the n-th partition."""
    partitions = [DeleteRecordsPartition(partition_index=at, offset=offset) for at, offset in enumerate(offsets)]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=1000)


@pytest.mark.parametrize("version", range(3))
def test_records_below_the_offset_are_gone(broker, version):
    """Readers below get OFFSET_OUT_OF_RANGE, the earliest offset is the new start, the rest stays."""
    broker.create("t", 2)
    for _ in range(3):
        broker.produce("t", b"a", b"b")
    answer = broker.link().call(request(3, -1), version).topics[0].partitions
    assert [(one.error_code, one.low_watermark) for one in answer] == [(0, 3), (0, 0)]
    assert broker.end("t", timestamp=-2) == 3
    with pytest.raises(KafkaError, match="range"):
        broker.read("t", offset=2)
    assert [record.offset for record in broker.read("t", offset=3)] == [3, 4, 5]


def test_records_of_internal_topics_stay(broker):
    """They are the state of coordinators, which would lose it without knowing."""
    broker.run(lambda: broker.node.coordinators.internal_topics.ensure("__consumer_offsets"))
    (answer,) = broker.link().call(request(-1, topic="__consumer_offsets"), 2).topics[0].partitions
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


def test_the_log_starts_of_a_request_are_written_down_once(start_node, watched_files, tmp_path):
    """Once in each directory that holds one of them; another directory's files are left alone."""
    node = start_node(files=watched_files, log_dirs=f"{tmp_path}/a,{tmp_path}/b,{tmp_path}/c")
    node.create("t", 5)
    places = [node.partition("t", number).partition.directory.path for number in range(5)]
    idle = places[2]
    for number in range(5):
        node.produce("t", b"v", partition=number)
    watched_files.calls.clear()
    offsets = [-1 if place != idle else 7 for place in places]
    answer = node.link().call(request(*offsets), 2).topics[0].partitions
    expected = [(0, 1) if place != idle else (ErrorCode.OFFSET_OUT_OF_RANGE, -1) for place in places]
    assert [(one.error_code, one.low_watermark) for one in answer] == expected
    written = [
        path for call, path in watched_files.calls if call == "rename" and path.endswith("log-start-offset-checkpoint")
    ]
    assert sorted(written) == sorted(f"{place}/log-start-offset-checkpoint" for place in set(places) - {idle})


def test_a_log_start_that_cannot_be_written_down_fails_in_its_directory_only(start_node, watched_files, tmp_path):
    """The partitions of the other directory are answered with their new start."""
    node = start_node(files=watched_files, log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    node.create("t", 4)
    places = [node.partition("t", number).partition.directory.path for number in range(4)]
    for number in range(4):
        node.produce("t", b"v", partition=number)
    watched_files.fail("write", f"{tmp_path}/b/log-start-offset-checkpoint", errno.ENOSPC)
    answer = node.link().call(request(-1, -1, -1, -1), 2).topics[0].partitions
    watched_files.faults.clear()
    expected = [0 if place.endswith("/a") else ErrorCode.KAFKA_STORAGE_ERROR for place in places]
    assert [one.error_code for one in answer] == expected
    assert sorted(set(expected)) == [0, ErrorCode.KAFKA_STORAGE_ERROR]


def test_minus_one_stands_for_everything(broker):
    """The log is empty and goes on counting."""
    broker.create("t")
    broker.produce("t", b"a", b"b")
    (answer,) = broker.link().call(request(-1), 2).topics[0].partitions
    assert answer.low_watermark == 2
    assert (broker.end("t", timestamp=-2), broker.end("t")) == (2, 2)
    assert broker.produce("t", b"c") == [2]


def test_the_log_start_never_goes_back(broker):
    """A smaller offset, a restart and a kill behind the answer leave it where it was."""
    broker.create("t")
    broker.produce("t", b"a", b"b", b"c")
    link = broker.link()
    assert link.call(request(2), 2).topics[0].partitions[0].low_watermark == 2
    assert link.call(request(1), 2).topics[0].partitions[0].low_watermark == 2
    broker.restart()
    assert broker.end("t", timestamp=-2) == 2
    assert broker.values("t", offset=2) == [b"c"]


def test_whole_segments_leave_the_disk(broker):
    """Segments wholly below the new start are removed, the segment that holds it stays."""
    broker.create("t", segment_bytes=1 << 20)
    for _ in range(6):
        broker.produce("t", b"x" * 400_000)
    before = len(broker.partition("t").log.segments())
    broker.link().call(request(5), 2)
    segments = broker.partition("t").log.segments()
    assert before > len(segments)
    assert segments[0].base_offset <= 5 < segments[0].end_offset


def test_impossible_deletions_are_refused(broker):
    """Beyond the high watermark, on a topic that only compacts, and where there is no partition."""
    broker.create("t")
    broker.produce("t", b"a")
    link = broker.link()
    assert link.call(request(2), 2).topics[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert link.call(request(-2), 2).topics[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    absent = link.call(request(0, topic="absent"), 2).topics[0].partitions[0]
    assert (absent.error_code, absent.low_watermark) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    broker.create("c", cleanup_policy="compact")
    assert link.call(request(0, topic="c"), 2).topics[0].partitions[0].error_code == ErrorCode.POLICY_VIOLATION
    assert broker.values("t") == [b"a"]


def copied_to(broker, node_id):
    """The partition as its leader sees it with a copy on another broker, which lives."""
    (own,) = broker.node.image.brokers.brokers.values()
    state = broker.partition("t").partition.leader.state
    state.isr_changed([own.broker_id], state.partition_epoch + 1, 1, replicas=[own.broker_id, node_id])
    brokers = {own.broker_id: own, node_id: replace(own, broker_id=node_id)}
    return state, SimpleNamespace(brokers=SimpleNamespace(brokers=brokers))


def test_the_answer_waits_for_copies_on_live_brokers(broker, monkeypatch):
    """One of them leads next, and must not show the records again; what is fenced is not waited for."""
    broker.create("t")
    broker.produce("t", b"a", b"b", b"c")
    state, image = copied_to(broker, 7)
    link = broker.link()
    with monkeypatch.context() as patch:
        patch.setattr(delete_records, "_brokers", lambda _context: image.brokers.brokers)
        (late,) = link.call(request(2), 2).topics[0].partitions
        assert (late.error_code, late.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        assert broker.end("t", timestamp=-2) == 2
        state.follower(7).log_start_offset = 2
        assert link.call(request(2), 2).topics[0].partitions[0].low_watermark == 2
        state.follower(7).log_start_offset = 0
        image.brokers.brokers[7] = replace(image.brokers.brokers[7], is_fenced=True)
        assert link.call(request(2), 2).topics[0].partitions[0].low_watermark == 2


def test_the_answer_comes_when_the_last_copy_has_followed(broker, monkeypatch):
    """It does not wait for the end of its time."""
    broker.create("t")
    broker.produce("t", b"a", b"b", b"c")
    state, image = copied_to(broker, 7)
    monkeypatch.setattr(delete_records, "_brokers", lambda _context: image.brokers.brokers)
    wanted = request(2)
    wanted.timeout_ms = 2**31 - 1
    broker.run(lambda: asyncio.get_running_loop().call_later(0.1, setattr, state.follower(7), "log_start_offset", 2))
    assert broker.link().call(wanted, 2).topics[0].partitions[0].low_watermark == 2


def test_a_leader_that_is_none_any_more_stops_waiting(broker, monkeypatch):
    """NOT_LEADER_OR_FOLLOWER: the next one may show the records."""
    broker.create("t")
    broker.produce("t", b"a", b"b", b"c")
    _, image = copied_to(broker, 7)
    monkeypatch.setattr(delete_records, "_brokers", lambda _context: image.brokers.brokers)
    wanted = request(2)
    wanted.timeout_ms = 2**31 - 1
    broker.run(lambda: asyncio.get_running_loop().call_later(0.1, broker.partition("t").partition.resign))
    (answer,) = broker.link().call(wanted, 2).topics[0].partitions
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_a_leadership_that_ends_in_any_pause_is_no_success(broker):
    """Without a leader no copy is awaited: the answer was 0, and the next leader still had the records."""
    paused_after, answers, rest = 0, [ErrorCode.NOT_LEADER_OR_FOLLOWER], 1
    while answers == [ErrorCode.NOT_LEADER_OR_FOLLOWER]:
        topic = f"t{paused_after}"
        broker.create(topic)
        broker.produce(topic, b"a", b"b", b"c")
        partition = broker.partition(topic).partition
        context = SimpleNamespace(broker=broker.node, allows=lambda _topic: True)
        steps = delete_records._delete(context, request(2, topic=topic))

        def all_but_the_leader(steps=steps, partition=partition, count=paused_after):
            for _ in range(count):
                next(steps)
            partition.resign()
            return pauses(steps)

        rest, (outcomes, awaited) = broker.run(all_but_the_leader)
        answers = [one.code if isinstance(one, KafkaError) else one for one in outcomes]
        assert not awaited
        paused_after += 1
    assert (paused_after > 5, rest, answers) == (True, 0, [2])


@pytest.mark.parametrize("version", range(3))
def test_an_unexpected_failure_is_answered_for_every_partition(broker, monkeypatch, version):
    """UNKNOWN_SERVER_ERROR and nothing deleted; the connection goes on."""
    broker.create("t", 2)
    broker.produce("t", b"a", b"b")
    link = broker.link()
    with monkeypatch.context() as patch:
        patch.setattr(delete_records, "delete_records", lambda *_: 1 / 0)
        (topic,) = link.call(request(1, 0), version).topics
    assert topic.name == "t"
    assert [(one.partition_index, one.error_code, one.low_watermark) for one in topic.partitions] == [
        (number, ErrorCode.UNKNOWN_SERVER_ERROR, -1) for number in (0, 1)
    ]
    assert broker.end("t", timestamp=-2) == 0
    assert link.call(request(1), version).topics[0].partitions[0].low_watermark == 1


def mentions(count):
    """The partition, named this often, and a time that is over at once."""
    one = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])
    return DeleteRecordsRequest(topics=[one] * count, timeout_ms=0)


def test_a_partition_is_waited_for_once_however_often_it_is_named(broker, monkeypatch):
    """9,900 mentions took 50 ms of every look. Each has the answer."""
    broker.create("t")
    broker.produce("t", b"a", b"b", b"c")
    _, image = copied_to(broker, 7)
    looked = []
    monkeypatch.setattr(delete_records, "_brokers", lambda _context: image.brokers.brokers)
    monkeypatch.setattr(delete_records, "copies_begin_at", lambda *seen: looked.append(seen) or False)
    answers = [topic.partitions[0] for topic in broker.link().call(mentions(50), 2).topics]
    assert [one.error_code for one in answers] == [ErrorCode.REQUEST_TIMED_OUT] * 50
    assert len(looked) == 2


def test_a_look_at_many_partitions_pauses_after_each(monkeypatch):
    """Other requests go on meanwhile."""
    monkeypatch.setattr(delete_records, "_has_followed", lambda _context, one: one.offset < 5)
    awaited = []
    for number in range(10):
        awaited.append(delete_records._Awaited(SimpleNamespace(ended=None, topic_partition="t-0")))
        awaited[-1].add(number, number)
    outcomes = list(range(10))
    awaited[0].leader.ended = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved")
    count, left = pauses(delete_records._look(None, outcomes, awaited, is_over=False))
    assert (count, left, outcomes[0].code) == (10, awaited[5:], ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert outcomes[1:] == list(range(1, 10))


async def test_looks_are_rarer_the_longer_a_request_waits(monkeypatch):
    """As many may wait as there are connections: 50 looks a second of each would leave no time for others."""
    now, slept = [0.0], []

    async def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    async def run(steps):
        return to_the_end(steps)

    monkeypatch.setattr(delete_records, "_has_followed", lambda *_: False)
    monkeypatch.setattr(delete_records, "asyncio", SimpleNamespace(sleep=sleep))
    slices = SimpleNamespace(run=run)
    context = SimpleNamespace(dispatcher=SimpleNamespace(monotonic=lambda: now[0], slices=slices), rows=None)
    awaited = [delete_records._Awaited(SimpleNamespace(ended=None, topic_partition="t-0"))]
    asked = DeleteRecordsRequest(topics=[], timeout_ms=60_000)
    await delete_records._wait(context, asked, [], awaited)
    assert (slept[0], now[0], len(slept) < 300) == (0.02, 60, True)
    assert all(pause <= max(0.02, at / 10) for at, pause in zip(accumulate([0, *slept]), slept, strict=False))
