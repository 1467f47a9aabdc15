"""The state that a transaction shard finds again when it is loaded, and its answers from it."""

import pytest

from stratalog.metadata.coordination import Producer
from stratalog.metadata.transactions.events import Describe, EndTransaction, InitProducer, ListIds, MarkersWritten
from stratalog.wire.errors import Corrupt, ErrorCode
from stratalog.wire.records.transaction import encode_key
from stratalog.wire.topic import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def opened(desk, **settings):
    """A desk, and a producer with a transaction on ``t-0``."""
    table = desk(**settings)
    producer = table.start()
    table.add(producer, "0", token="first")
    table.commit()
    return table, producer


# -- reload -----------------------------------------------------------------------------------------------------------


def test_a_reload_finds_every_half_done_end(desk):
    """Before the decision is committed nothing was asked; behind it the markers are sent again."""
    for commits, state in ((0, "Ongoing"), (1, "PrepareAbort"), (2, "CompleteAbort")):
        table, producer = opened(desk)
        table.end(producer, commit=False)
        if commits == 2:
            table.mark()
        else:
            table.commit(commits)
        table.reload()
        assert table.status() == state
        assert [marker.partitions for marker in table.markers] == ([{T0}] if commits == 1 else [])
        if commits == 1:
            table.mark()
            assert table.status() == "CompleteAbort"


def test_a_reload_during_partial_markers_sends_all(desk):
    """Which of them stand is not written down; a marker may stand twice."""
    table = desk()
    producer = table.start()
    table.add(producer, "0", "1")
    table.end(producer)
    table.commit()
    table.do(MarkersWritten("x", table.markers[0].producer, frozenset([T0])))
    table.reload()
    assert table.markers[0].partitions == {T0, T1}


def test_requests_that_wait_fail_with_the_shard(desk):
    """Parked requests get an error."""
    table, producer = opened(desk, patience_ms=100)
    table.end(producer)
    table.do(InitProducer("init", "x", 60_000))
    table.reload()
    assert table.code("init") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert table.code("end") is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_log_that_cannot_be_this_one_is_refused(desk):
    """Records that cannot be read, markers, records of a transaction; keys of later versions are skipped."""
    shard = desk().shard
    with pytest.raises(Corrupt, match="offset 3"):
        shard.replay(encode_key("x"), b"\0\7", offset=3, producer=None)
    with pytest.raises(Corrupt, match="offset 4"):
        shard.replay(encode_key("x"), None, offset=4, producer=Producer(1, 0))
    with pytest.raises(Corrupt, match="commit marker"):
        shard.replay_marker(Producer(1, 0), commit=True, offset=5)
    shard.replay(b"\0\1" + encode_key("x")[2:], b"", offset=6, producer=None)
    shard.replay(encode_key("never there"), None, offset=7, producer=None)
    assert shard.transactions == {}


# -- questions --------------------------------------------------------------------------------------------------------


def test_questions_are_answered_when_what_they_tell_is_committed(desk):
    """A state that a crash could take back is not shown."""
    table = desk()
    producer = table.start()
    table.add(producer, "0")
    table.do(Describe("described", "x"))
    table.do(ListIds("listed", frozenset(), frozenset(), -1))
    assert not {"described", "listed"} & set(table.answers)
    table.commit()
    assert table.answers["described"].transaction_states[0].transaction_state == "Ongoing"
    assert table.answers["listed"].transaction_states[0].transactional_id == "x"
    table.do(Describe("unknown", "z"))
    assert table.answers["unknown"].transaction_states[0].error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_an_end_of_an_unknown_id(desk):
    """There is nothing to end."""
    table = desk()
    table.do(EndTransaction("end", "x", Producer(1, 0), True, 2))
    assert table.code("end") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
