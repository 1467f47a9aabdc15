"""Producers that are retired, because the data directory went back in time (decision 0054)."""

import pytest

from stratalog.metadata.coordination import Producer
from stratalog.metadata.transactions.events import Retire
from stratalog.metadata.transactions.transaction import EPOCH_MAX
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.end_txn import EndTxnResponse
from stratalog.wire.topic import TopicPartition

T0 = TopicPartition("t", 0)

DONE = EndTxnResponse(error_code=0)


@pytest.mark.parametrize("version", [1, 2])
def test_a_retired_producer_is_fenced_and_its_transaction_aborted(desk, version):
    """Each of its requests is refused, also after a reload; the next producer gets another id."""
    table = desk()
    producer = table.start()
    table.add(producer, "0", version=version)
    table.commit()
    table.do(Retire("retire", DONE))
    assert "retire" not in table.answers
    table.commit()
    assert table.answers["retire"] is DONE
    (marker,) = table.markers
    assert (marker.commit, marker.partitions) == (False, {T0})
    assert marker.producer == Producer(producer.producer_id, EPOCH_MAX)
    for reloaded in (False, True):
        if reloaded:
            table.reload()
        table.end(producer, token=f"end {reloaded}", version=version)
        table.add(producer, "1", token=f"add {reloaded}", version=version)
        assert {table.code(f"{what} {reloaded}") for what in ("end", "add")} == {ErrorCode.PRODUCER_FENCED}
        table.mark()
        assert table.status() == "CompleteAbort"
    assert table.start().producer_id != producer.producer_id


def test_a_producer_between_transactions_is_retired_too(desk):
    """It may be within one that this log does not know. A second time there is nothing to write."""
    table = desk()
    producer = table.start()
    table.add(producer, "0")
    table.end(producer)
    table.mark()
    producer = Producer(producer.producer_id, producer.producer_epoch + 1)
    table.do(Retire("retire", DONE))
    table.commit()
    table.add(producer, "0", token="after")
    assert table.code("after") is ErrorCode.PRODUCER_FENCED
    assert table.init(expected=producer).code is ErrorCode.PRODUCER_FENCED
    written = len(table.log)
    table.do(Retire("again", DONE))
    table.commit()
    assert (table.answers["again"], len(table.log)) == (DONE, written)
    assert table.start("x") == Producer(101, 0)


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_that_is_being_ended_ends_as_it_was_decided_and_its_producer_is_retired_then(desk, commit):
    """The answer waits for that; other producers are fenced at once."""
    table = desk()
    producer = table.start()
    table.add(producer, "0", token="first")
    table.commit()
    other = table.start("y")
    table.end(producer, commit=commit)
    table.commit()
    table.do(Retire("retire", DONE))
    table.commit()
    table.add(other, "0", token="other", tid="y")
    assert table.code("other") is ErrorCode.PRODUCER_FENCED
    assert "retire" not in table.answers
    (marker,) = table.markers
    assert marker.commit is commit
    table.mark()
    assert table.answers["retire"] is DONE
    table.add(Producer(producer.producer_id, producer.producer_epoch + 1), "0", token="after")
    assert table.code("after") is ErrorCode.PRODUCER_FENCED


def test_a_retirement_that_waits_fails_with_a_reload(desk):
    """The coordinator asks again."""
    table = desk()
    producer = table.start()
    table.add(producer, "0", token="first")
    table.commit()
    table.end(producer)
    table.commit()
    table.do(Retire("retire", DONE))
    table.reload()
    assert table.code("retire") is ErrorCode.COORDINATOR_NOT_AVAILABLE
