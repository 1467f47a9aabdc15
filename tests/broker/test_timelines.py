"""What the controller skips for a directory that went back in time is skipped however long it takes."""

import asyncio
from types import SimpleNamespace

import pytest

from stratalog.broker import timelines
from stratalog.broker.timelines import ControllerPorts, Timelines
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition

UNIFIED = SimpleNamespace(topic_id=b"t" * 16, topic_partition=TopicPartition("t", 3), remote=object())


class Controller:
    """Refuses as often as it is told."""

    def __init__(self, *refusals):
        self.refusals, self.calls = list(refusals), []

    async def raise_epoch(self, *args):
        await self._call(args)

    async def skip(self):
        await self._call("skip")

    async def _call(self, what):
        self.calls.append(what)
        if self.refusals:
            raise KafkaError(self.refusals.pop(0), "no")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(timelines, "_RETRY_SECONDS", 0)


def made(controller):
    """The machine over a controller."""
    return Timelines(ControllerPorts(controller.raise_epoch, controller.skip))


async def test_an_epoch_is_raised_in_the_end():
    """The disk of the metadata was full for a while."""
    controller = Controller(ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.KAFKA_STORAGE_ERROR)
    done = asyncio.Event()
    made(controller).raise_epoch(UNIFIED, 7, done.set)
    await asyncio.wait_for(done.wait(), 5)
    assert controller.calls == [(b"t" * 16, 3, 7)] * 3


async def test_a_topic_that_goes_meanwhile_ends_it():
    """Neither is it asked again, nor does anything go on."""
    controller, done = Controller(ErrorCode.UNKNOWN_TOPIC_ID), []
    made(controller).raise_epoch(UNIFIED, 7, lambda: done.append(1))
    gone = SimpleNamespace(**{**vars(UNIFIED), "remote": None})
    made(Controller()).raise_epoch(gone, 7, lambda: done.append(1))
    await asyncio.sleep(0.01)
    assert (len(controller.calls), done) == (1, [])


async def test_producer_ids_are_skipped_once_a_run():
    """However many partitions are compared."""
    controller = Controller()
    machine = made(controller)
    machine.skip_producers(UNIFIED)
    machine.skip_producers(UNIFIED)
    await asyncio.sleep(0.01)
    assert controller.calls == ["skip"]
    await machine.skip_now()
    machine.close()
    assert controller.calls == ["skip", "skip"]
