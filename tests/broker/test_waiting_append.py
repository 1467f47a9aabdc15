"""Appends that are under way."""

from stratalog.broker.waiting_append import CallingBack, HeldAppend
from stratalog.hot.log import AppendInfo


def test_a_callable_is_told_how_its_append_ended():
    """It gets what the partition acknowledges with, and has no deadline unless one is given."""
    told = []
    waiting = CallingBack(told.append)
    waiting.info = AppendInfo(5, 6, -1)
    waiting.acknowledge(waiting.info)
    assert told == [AppendInfo(5, 6, -1)]
    assert waiting.deadline == float("inf")
    assert CallingBack(told.append, 7.5).deadline == 7.5


def test_a_held_append_gives_its_buffer_back_once():
    """However often it is asked to, and also if there is nothing to give back."""
    released = []
    held = HeldAppend(b"", 1, lambda: released.append(1), CallingBack(print), ready=False)
    held.give_back()
    held.give_back()
    HeldAppend(bytearray(), 1, None, CallingBack(print), ready=True).give_back()
    assert released == [1]
