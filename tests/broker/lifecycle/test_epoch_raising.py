"""Leader epochs that the active controller is asked to raise."""

import asyncio
from types import SimpleNamespace

import pytest

from stratalog.broker.lifecycle import epoch_raising
from stratalog.broker.lifecycle.epoch_raising import EpochRaising
from stratalog.metadata.image.topics_image import PartitionImage
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.alter_partition import (
    AlterPartitionPartitionResult,
    AlterPartitionResponse,
    AlterPartitionTopicResult,
)

TOPIC = b"t" * 16
STATE = PartitionImage(replicas=(4, 5), in_sync_replicas=(4, 5), leader=4, leader_epoch=3, partition_epoch=9)
IMAGE = SimpleNamespace(
    topics=SimpleNamespace(by_id={TOPIC: SimpleNamespace(partitions=dict.fromkeys(range(5), STATE))}),
    brokers=SimpleNamespace(brokers={4: SimpleNamespace(epoch=17)}),
)


class Controller:
    """Raises what it is asked for, unless ``judge`` says another thing about one partition."""

    def __init__(self, judge=lambda asked: (0, asked.leader_epoch_above + 1), code=0):
        self.judge, self.code, self.asked = judge, code, []

    async def ask(self, request):
        self.asked.append(request)
        await asyncio.sleep(0)
        return AlterPartitionResponse(
            error_code=self.code,
            topics=[
                AlterPartitionTopicResult(topic_id=topic.topic_id, partitions=[*map(self._result, topic.partitions)])
                for topic in request.topics
            ],
        )

    def _result(self, asked):
        code, epoch = self.judge(asked)
        return AlterPartitionPartitionResult(
            partition_index=asked.partition_index,
            error_code=code,
            leader_id=4,
            leader_epoch=epoch,
            isr=[4, 5],
            partition_epoch=10,
        )


def made(ask):
    return EpochRaising(ask, broker_id=4, broker_epoch=lambda: 17, image=lambda: IMAGE)


async def test_those_of_one_moment_go_in_one_request(monkeypatch):
    """A thousand at most; each with the set that holds, so that a controller that passes over the wish changes nothing."""
    controller = Controller()
    raising = made(controller.ask)
    assert await asyncio.gather(*(raising.raise_above(TOPIC, one, 40 + one) for one in range(3))) == [41, 42, 43]
    (request,) = controller.asked
    assert (request.broker_id, request.broker_epoch) == (4, 17)
    first, *others = request.topics[0].partitions
    assert (first.leader_epoch, first.partition_epoch, first.leader_epoch_above, len(others)) == (3, 9, 40, 2)
    assert [(one.broker_id, one.broker_epoch) for one in first.new_isr_with_epochs] == [(4, 17), (5, -1)]
    monkeypatch.setattr(epoch_raising, "PARTITIONS_MAX", 2)
    await asyncio.gather(*(raising.raise_above(TOPIC, one, 50) for one in range(5)))
    assert [len(one.topics[0].partitions) for one in controller.asked[1:]] == [2, 2, 1]


@pytest.mark.parametrize(
    ("controller", "code", "words"),
    [
        (Controller(lambda _: (0, 3)), ErrorCode.UNSUPPORTED_VERSION, "Apache Kafka's, or of an earlier version"),
        (Controller(lambda _: (ErrorCode.INVALID_REQUEST, 0)), ErrorCode.INVALID_REQUEST, "does not raise"),
        (Controller(lambda _: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)), ErrorCode.UNKNOWN_TOPIC_ID, "gone"),
        (Controller(code=ErrorCode.STALE_BROKER_EPOCH), ErrorCode.STALE_BROKER_EPOCH, "STALE_BROKER_EPOCH"),
        (Controller(lambda _: (9999, 0)), ErrorCode.UNKNOWN_SERVER_ERROR, "does not raise"),
        (Controller(code=9999), ErrorCode.UNKNOWN_SERVER_ERROR, "UNKNOWN_SERVER_ERROR"),
    ],
)
async def test_a_refusal_is_the_callers(controller, code, words):
    """A controller that is Kafka's, or older, answers with the epoch that was; a newer one perhaps with a code that is unknown here."""
    with pytest.raises(KafkaError, match=words) as raised:
        async with asyncio.timeout(5):
            await made(controller.ask).raise_above(TOPIC, 0, 40)
    assert raised.value.code == code


async def test_a_topic_that_the_image_has_no_more_is_not_asked_for():
    """Its neighbours are."""
    controller = Controller()
    raising = made(controller.ask)
    gone, there = await asyncio.gather(
        raising.raise_above(b"u" * 16, 0, 40), raising.raise_above(TOPIC, 0, 40), return_exceptions=True
    )
    assert (gone.code, there) == (ErrorCode.UNKNOWN_TOPIC_ID, 41)
    with pytest.raises(KafkaError):
        await raising.raise_above(b"u" * 16, 0, 40)
    assert len(controller.asked) == 1


async def test_no_caller_waits_for_an_answer_that_does_not_come():
    """Each hears of the failure, and the next ones are asked for; a caller that has gone is left out."""
    failures = [KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no"), ValueError("a bug")]
    controller = Controller()

    async def ask(request):
        if failures:
            raise failures.pop(0)
        return await controller.ask(request)

    raising = made(ask)
    both = await asyncio.gather(*(raising.raise_above(TOPIC, one, 40) for one in (0, 1)), return_exceptions=True)
    assert [one.code for one in both] == [ErrorCode.REQUEST_TIMED_OUT] * 2
    with pytest.raises(ValueError, match="a bug"):
        await raising.raise_above(TOPIC, 0, 40)
    leaving = asyncio.create_task(raising.raise_above(TOPIC, 1, 40))
    staying = asyncio.create_task(raising.raise_above(TOPIC, 0, 40))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying == 41
    raising.close()
