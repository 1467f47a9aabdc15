"""A metadata transaction that was left open takes no later command along."""

import asyncio
from itertools import count

import pytest

from stratalog.broker.control.control_plane import ControlPlane
from stratalog.metadata.controller.brokers import allocate_producer_ids
from stratalog.metadata.image.decision import RECORDS_TOGETHER, Decision
from stratalog.metadata.image.features import bootstrap_records
from stratalog.metadata.image.image import EMPTY_IMAGE, Provenance
from stratalog.metadata.image.replay import MetadataReplay
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)

FULL = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")


class ReplayedLog:
    """A quorum of one: a proposal that fails leaves no trace. ``failures`` has errors by the number of the proposal.

    ``records`` is the log, and the image is replayed from it as a node does that has not written it itself.
    """

    def __init__(self) -> None:
        self.records = []
        self.replay = MetadataReplay(EMPTY_IMAGE.apply(bootstrap_records(), Provenance(3, 1, 0)))
        self.image = self.replay.image()
        self.failures = {}
        self.epoch = 1
        self._numbers = count()

    @property
    def active_epoch(self):
        if self.epoch is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return self.epoch

    @property
    def in_transaction(self):
        return self.replay.in_transaction

    def propose(self, records, *, epoch):
        return asyncio.ensure_future(self._propose(tuple(records), epoch))

    async def _propose(self, records, epoch):
        await asyncio.sleep(0)
        failure = self.failures.get(next(self._numbers))
        if failure is not None:
            raise failure
        if epoch != self.active_epoch:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return self.take(*records)

    def take(self, *records):
        """Have records committed and applied; the offset of the last one."""
        end_offset = self.replay.next_offset + len(records)
        for _ in self.replay.replay_own(records, Provenance(end_offset - 1, 1, 0)):
            pass
        self.image = self.replay.image()
        self.records += records
        return end_offset - 1

    def aborts(self):
        return sum(isinstance(record, AbortTransactionRecord) for record in self.records)


def topic(name):
    return TopicRecord(name=name, topic_id=name.encode().ljust(16, b"."))


def creating(*names):
    return lambda _image: Decision(tuple(map(topic, names)), "made")


def many(first):
    """An atomic command of three batches."""
    return creating(*(f"t{first + number}" for number in range(2 * RECORDS_TOGETHER + 500)))


@pytest.fixture
async def log():
    return ReplayedLog()


@pytest.fixture
async def control(log):
    return ControlPlane(log)


@pytest.fixture(params=[FULL, RuntimeError("a defect")], ids=["disk full", "defect"])
async def left_open(log, control, request):
    """A transaction whose second batch was refused, or was never proposed for an error that is none of Kafka's."""
    log.failures = {1: request.param}
    with pytest.raises(type(request.param)):
        await control.execute(many(1))
    assert log.in_transaction


@pytest.mark.usefixtures("left_open")
async def test_a_command_behind_a_refused_batch_holds_when_it_is_answered(log, control):
    """The transaction ends before the command is decided: none of its topics is there, and the command's is."""
    assert await control.execute(creating("after")) == "made"
    await control.write((topic("written"),))
    assert set(log.image.topics.by_name) == {"after", "written"}
    assert (log.aborts(), log.in_transaction) == (1, False)


@pytest.mark.usefixtures("left_open")
async def test_a_large_command_behind_a_refused_batch_can_be_replayed(log, control):
    """Its own transaction would begin inside the open one: no node could read the log any more."""
    await control.execute(many(1))
    assert len(log.image.topics.by_name) == 2 * RECORDS_TOGETHER + 500


@pytest.mark.usefixtures("left_open")
async def test_producer_ids_are_given_out_once_behind_a_refused_batch(log, control):
    """Each block is decided on the image that the one before has made."""
    start = {"incarnation_id": b"i" * 16, "broker_epoch": 7, "end_points": [], "features": [], "rack": None}
    await control.write((RegisterBrokerRecord(broker_id=1, **start),))
    blocks = [await control.execute(lambda image: allocate_producer_ids(image, 1, 7)) for _ in range(3)]
    assert [block.first_id for block in blocks] == [0, 1000, 2000]


@pytest.mark.usefixtures("left_open")
async def test_no_command_is_decided_while_the_abort_is_refused(log, control):
    """The disk is full for longer: each command hears so and may be tried again; the first one with room ends the wait."""
    log.failures = {2: FULL, 3: FULL}
    decided = []

    def decide(image):
        decided.append(image)
        return creating("after")(image)

    for _ in range(2):
        with pytest.raises(KafkaError, match="the disk is full"):
            await control.execute(decide)
    assert decided == []
    assert await control.execute(decide) == "made"
    assert len(decided) == log.aborts() == 1


@pytest.mark.usefixtures("left_open")
async def test_a_client_that_goes_away_during_the_abort_leaves_no_second_one(log, control):
    """The abort is carried to its end, and the next command finds a log that is whole."""
    leaving = asyncio.ensure_future(control.execute(creating("never")))
    await asyncio.sleep(0)
    leaving.cancel()
    following = asyncio.ensure_future(control.execute(creating("after")))
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await following
    assert (log.aborts(), set(log.image.topics.by_name)) == (1, {"after"})


async def test_a_leader_that_is_elected_again_inside_a_transaction_ends_it(log, control):
    """It lost the leadership between two batches: its first command of the new epoch comes behind the abort."""
    log.failures = {1: KafkaError(ErrorCode.NOT_CONTROLLER)}
    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        await control.execute(many(1))
    log.epoch = None
    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        await control.execute(creating("never"))
    log.epoch = 2
    await control.execute(creating("after"))
    assert (log.aborts(), set(log.image.topics.by_name)) == (1, {"after"})


async def test_a_transaction_that_another_controller_left_open_never_holds(log, control):
    """Its rest is not known. The log goes on behind it, whatever it was about."""
    log.take(BeginTransactionRecord(), topic("half"))
    await control.execute(creating("after"))
    assert (log.aborts(), set(log.image.topics.by_name)) == (1, {"after"})
