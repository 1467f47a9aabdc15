"""Appends that are under way."""

import pytest

from stratalog.broker.replicas.waiting_append import CallingBack, HeldAppend, ended_by
from stratalog.hot.log.log import AppendInfo
from stratalog.hot.state.producer_state import AppendOrigin
from stratalog.wire.batch import build_control_batch
from stratalog.wire.records.control import ControlType


def test_a_callable_gets_the_outcome_of_its_append():
    """It gets what the partition acknowledges with, and has no deadline unless one is given."""
    told = []
    waiting = CallingBack(told.append)
    waiting.info = AppendInfo(5, 6, -1)
    waiting.acknowledge(waiting.info)
    assert told == [AppendInfo(5, 6, -1)]
    assert waiting.deadline == float("inf")
    assert CallingBack(told.append, 7.5).deadline == 7.5


def test_a_held_append_gives_its_buffer_back_once():
    """A second call gives nothing back, and neither does a call of an append without a buffer to give."""
    released = []
    held = HeldAppend(b"", 1, lambda: released.append(1), CallingBack(print), ready=False)
    held.give_back()
    held.give_back()
    HeldAppend(bytearray(), 1, None, CallingBack(print), ready=True).give_back()
    assert released == [1]


@pytest.mark.parametrize(
    ("version", "epoch", "transactional", "expected"),
    [(0, 3, True, True), (1, 3, True, True), (2, 3, True, False), (1, 4, True, False), (1, 3, False, False)],
)
def test_a_waiting_marker_ends_what_comes_behind_it(new_batch, version, epoch, transactional, expected):
    """Only its own producer and epoch count, up to version 1; bytes that are no batch are left to the log."""
    ended = {"producer_id": 7, "producer_epoch": 3, "transactional": True}
    marker = build_control_batch(ControlType.ABORT, bytes(6), offset=0, timestamp_ms=0, leader_epoch=-1, **ended)
    records = new_batch(b"v", producer_id=7, producer_epoch=epoch, base_sequence=0, transactional=transactional)
    data = HeldAppend(records, 1, None, CallingBack(print), ready=False)
    end = HeldAppend(marker, -1, None, CallingBack(print), True, AppendOrigin.COORDINATOR, version)
    assert ended_by([data, end], records) is expected
    assert not ended_by([data], records)
    assert not ended_by([end], records[:20])
