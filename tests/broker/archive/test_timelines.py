"""Epochs that the controller skips for a directory that went back in time are skipped however long it takes."""

import asyncio
from collections import deque
from types import SimpleNamespace

import pytest

from stratalog.broker.archive import timelines
from stratalog.broker.archive.timelines import ControllerPorts, Timelines
from stratalog.metadata.controller.brokers import first_producer_id_of_era
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition

UNIFIED = SimpleNamespace(
    topic_id=b"t" * 16,
    topic_partition=TopicPartition("t", 3),
    remote=object(),
    partition=SimpleNamespace(leader_epoch=8),
)


class Controller:
    """Refuses as often as the test says."""

    def __init__(self, *refusals):
        self.refusals, self.calls = deque(refusals), []

    async def raise_epoch(self, *args):
        await self._call(args)

    async def begin_era(self):
        await self._call("era")

    async def _call(self, what):
        self.calls.append(what)
        if self.refusals:
            raise KafkaError(self.refusals.popleft(), "no")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(timelines, "_RETRY_SECONDS", 0)


def made(controller):
    """The machine over a controller."""
    return Timelines(ControllerPorts(controller.raise_epoch, controller.begin_era))


async def test_an_epoch_is_raised_in_the_end():
    """The disk of the metadata was full for a while."""
    controller = Controller(ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.KAFKA_STORAGE_ERROR)
    done, refusals = asyncio.Event(), []
    made(controller).raise_epoch(UNIFIED, 7, done.set, refused=refusals.append)
    await asyncio.wait_for(done.wait(), 5)
    assert controller.calls == [(b"t" * 16, 3, 7)] * 3
    assert len(refusals) == 2


async def test_a_reason_of_the_controller_is_logged_once(caplog):
    """A thousand partitions may wait for one full disk: they do not log a line each second."""
    controller = Controller(*[ErrorCode.KAFKA_STORAGE_ERROR] * 50, *[ErrorCode.NOT_CONTROLLER] * 50)
    done, refusals = asyncio.Event(), []
    made(controller).raise_epoch(UNIFIED, 7, done.set, refused=refusals.append)
    await asyncio.wait_for(done.wait(), 5)
    assert len(controller.calls) == 101
    assert len(caplog.records) == 2
    assert "t-3 is held back until its leader epoch is above 7" in caplog.text
    assert len(refusals) == 100


async def test_a_topic_that_goes_meanwhile_ends_it():
    """The controller is asked once, and the callback is not called."""
    controller, done = Controller(ErrorCode.UNKNOWN_TOPIC_ID), []
    made(controller).raise_epoch(UNIFIED, 7, lambda: done.append(1), refused=print)
    gone = SimpleNamespace(**{**vars(UNIFIED), "remote": None})
    made(Controller()).raise_epoch(gone, 7, lambda: done.append(1), refused=print)
    await asyncio.sleep(0.01)
    assert (len(controller.calls), done) == (1, [])


async def test_a_partition_goes_on_once_it_is_led_under_the_epoch_here():
    """The controller is another node, perhaps: its answer comes before the image that this node follows."""
    unified = SimpleNamespace(**{**vars(UNIFIED), "partition": SimpleNamespace(leader_epoch=7)})
    controller, done = Controller(), asyncio.Event()
    made(controller).raise_epoch(unified, 7, done.set, refused=print)
    await asyncio.sleep(0.05)
    assert not done.is_set()
    unified.partition.leader_epoch = 8
    await asyncio.wait_for(done.wait(), 5)
    assert len(controller.calls) == 1


async def test_a_partition_that_is_led_no_longer_is_asked_for_no_more():
    """Another controller may refuse it for ever; a later leadership asks for itself."""
    unified, done = SimpleNamespace(**vars(UNIFIED)), []
    controller = Controller(*[ErrorCode.INVALID_REQUEST] * 1_000_000)
    machine = made(controller)
    machine.raise_epoch(unified, 7, lambda: done.append(1), refused=print)
    await asyncio.sleep(0.01)
    unified.remote = object()  # of a later leadership
    asked = len(controller.calls)
    await asyncio.sleep(0.05)
    assert len(controller.calls) <= asked + 1
    assert not machine._tasks
    assert not done


def test_each_start_gives_out_producer_ids_of_its_own(start_node):
    """No start knows that its directory did not go back: producers and transactional ids get new ids. Where nothing is
    archived, no archive can know them.
    """
    node = start_node()
    first = node.run(node.node.producer_ids.next)
    node.restart()
    assert first_producer_id_of_era(node.node.image) > first
    assert node.run(node.node.producer_ids.next) == first_producer_id_of_era(node.node.image)
    alone = start_node(directory="alone", start=False, remote_log_storage_system_enable="false")
    for expected in (0, 1000):
        alone.start()
        assert alone.run(alone.node.producer_ids.next) == expected
        alone.stop()


async def test_an_era_begins_with_the_start_and_with_the_first_notice():
    """A second notice of the same run begins no other era."""
    controller = Controller()
    machine = made(controller)
    await machine.begin_producer_era()
    assert controller.calls == ["era"]
    machine.skip_producers()
    machine.skip_producers()
    await asyncio.sleep(0.01)
    assert controller.calls == ["era", "era"]
    machine.close()
