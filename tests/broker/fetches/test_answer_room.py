"""Partitions behind the limit of an answer are not looked for."""

import time

import pytest

from stratalog.broker.fetches import answer_room
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.wire.batch import iter_headers
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

COUNT = 40


@pytest.fixture
def many(broker, new_batch, monkeypatch):
    """A broker with many partitions, each of them with a batch; all but those with numbers 1 and 39 have large ones."""
    monkeypatch.setattr(answer_room, "MISSES_MAX", 5)
    broker.create("t", COUNT)
    for number in range(COUNT):
        broker.append("t", new_batch(b"v" if number in (1, COUNT - 1) else b"v" * 900), partition=number)
    return broker


def request(numbers, max_bytes, *, wait_ms=0, min_bytes=1, **session):
    wanted = [FetchPartition(partition=one, fetch_offset=0, partition_max_bytes=1 << 20) for one in numbers]
    topics = [FetchTopic(topic="t", partitions=wanted)] if wanted else []
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=topics, **session)


def counting(monkeypatch):
    """The partitions that were looked at."""
    looked = []
    read = UnifiedLog.read

    def counted(self, *args, **options):
        looked.append(self.topic_partition.partition)
        return read(self, *args, **options)

    monkeypatch.setattr(UnifiedLog, "read", counted)
    return looked


def found(answer):
    return {
        one.partition_index
        for topic in answer.responses
        for one in topic.partitions
        if list(iter_headers(one.records or b""))
    }


def test_a_full_answer_tells_the_marks_of_all(many, monkeypatch):
    """Two thousand partitions took 0.1 s. A few may be too large for what is left, and a small one may fit."""
    looked = counting(monkeypatch)
    answer = many.link().call(request(range(COUNT), 1100), 11)
    assert found(answer) == {0, 1}
    assert looked == list(range(8))
    (topic,) = answer.responses
    assert [(one.error_code, one.high_watermark) for one in topic.partitions] == [(0, 1)] * COUNT
    looked.clear()
    many.link().call(request(range(COUNT), 1), 11)
    assert looked == [0]


@pytest.mark.parametrize("session", [{}, {"session_epoch": 0}])
def test_records_that_do_not_fit_end_the_wait(many, session):
    """They would not come by waiting, whatever the client takes for enough."""
    begun = time.monotonic()
    answer = many.link().call(request([1, 2], 500, wait_ms=20_000, min_bytes=500, **session), 11)
    assert found(answer) == {1}
    assert time.monotonic() - begun < 15


def test_small_limits_of_partitions_fill_no_answer(many):
    """There is room enough: the last one gets its records however many take less than a batch of theirs."""
    asked = request(range(COUNT), 1 << 20)
    for one in asked.topics[0].partitions:
        one.partition_max_bytes = 300
    assert found(many.link().call(asked, 11)) == {0, 1, COUNT - 1}


def test_a_full_answer_tells_an_offset_out_of_range(many):
    """It is no record that has to wait for room."""
    asked = request(range(COUNT), 1)
    asked.topics[0].partitions[30].fetch_offset = 7
    answer = many.link().call(asked, 11).responses[0].partitions
    assert [one.partition_index for one in answer if one.error_code] == [30]
    assert answer[30].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_session_gives_every_partition_its_turn(many, monkeypatch):
    """Those that were not looked at come first next time."""
    link = many.link()
    opened = link.call(request(range(COUNT), 1, session_epoch=0), 11)
    seen, epoch = found(opened), 1
    looked = counting(monkeypatch)
    while len(seen) < COUNT:
        looked.clear()
        answer = link.call(request([], 1100, session_id=opened.session_id, session_epoch=epoch), 11)
        assert (answer.error_code, bool(found(answer))) == (0, True)
        assert len(looked) <= 8
        seen |= found(answer)
        epoch += 1
        assert epoch <= 2 * COUNT


def test_a_session_waits_for_records_that_are_not_written_yet(broker, new_batch):
    """The mark of a follower may be ahead of its file: the client would ask again and again for an empty answer."""
    broker.create("t")
    broker.append("t", new_batch(b"v"))
    asked, link = request([0], 1100, session_epoch=0), broker.link()
    asked.topics[0].partitions[0].fetch_offset = 1
    opened = link.call(asked, 11)
    partition = broker.partition("t").partition

    def be_ahead():
        partition.high_watermark += 1

    broker.run(be_ahead)
    begun, session = time.monotonic(), {"session_id": opened.session_id, "session_epoch": 1}
    again = request([0], 1100, wait_ms=300, **session)
    again.topics[0].partitions[0].fetch_offset = 1
    assert not found(link.call(again, 11))
    assert time.monotonic() - begun >= 0.25
