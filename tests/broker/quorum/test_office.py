"""The office of the active controller: from the election to the first decision, and to the end."""

import asyncio
import logging

import pytest

from stratalog.broker.quorum.office import Office
from stratalog.wire.errors import Corrupt


class Publisher:
    """Applies up to the high watermark when the test says so."""

    def __init__(self):
        self.applied = asyncio.get_running_loop().create_future()
        self.asked = []
        self.forgotten = 0

    async def reached(self, high_watermark):
        self.asked.append(high_watermark)
        await asyncio.shield(self.applied)

    def forget_own(self):
        self.forgotten += 1


class Desk:
    """An office, and all that it does to others."""

    def __init__(self):
        self.publisher = Publisher()
        self.tasks = []
        self.announced = []
        self.office = Office(1, self.publisher, self._beside, lambda: self.announced.append(self.office.active_epoch))

    def _beside(self, work):
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    async def settle(self):
        """Let all that was begun go on."""
        await asyncio.sleep(0.001)


@pytest.fixture
async def desk():
    """A node that leads nothing yet."""
    return Desk()


async def test_a_leader_decides_when_all_that_was_committed_is_applied(desk):
    """Before that it would decide on an image of the past."""
    desk.office.take(5, 40)
    await desk.settle()
    assert (desk.office.active_epoch, desk.publisher.asked, desk.announced) == (None, [40], [])
    desk.publisher.applied.set_result(None)
    await desk.settle()
    assert (desk.office.active_epoch, desk.announced) == (5, [5])


async def test_a_leadership_that_went_meanwhile_never_decides(desk):
    """The next one begins anew, under its own epoch."""
    desk.office.take(5, 40)
    desk.office.leave(5)
    desk.office.take(7, 60)
    desk.publisher.applied.set_result(None)
    await desk.settle()
    assert (desk.office.active_epoch, desk.announced, desk.publisher.forgotten) == (7, [7], 1)


async def test_a_node_that_hands_over_decides_no_more(desk, caplog):
    """It still leads; the end of that is said once."""
    caplog.set_level(logging.INFO)
    desk.publisher.applied.set_result(None)
    desk.office.take(5, 40)
    await desk.settle()
    desk.office.decide_no_more()
    assert desk.office.active_epoch is None
    desk.office.leave(5)
    desk.office.leave(5)
    assert caplog.text.count("is the active controller no more; its epoch was 5") == 1


async def test_records_that_cannot_be_applied_leave_the_office_empty(desk):
    """The publisher says what is wrong, and ends the node."""
    desk.publisher.applied.set_exception(Corrupt("a record"))
    desk.office.take(5, 40)
    await desk.settle()
    assert (desk.office.active_epoch, desk.announced) == (None, [])
    assert all(task.exception() is None for task in desk.tasks)
